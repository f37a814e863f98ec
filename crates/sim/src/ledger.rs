//! What was asked for, what ran, and what clients were told: the facts that must agree.
//!
//! Every write has a token that no other write has; it stands in the value. Each key has one writer.

use std::collections::{BTreeMap, BTreeSet};
use topology::{ShardId, Topology};

/// Names one write of one key.
pub(crate) type Token = u64;

/// The facts.
#[derive(Debug)]
pub(crate) struct Ledger {
    topology: std::sync::Arc<Topology>,
    /// How often each write ran.
    runs: Vec<u32>,
    keys: BTreeMap<Vec<u8>, History>,
    /// Writes of which a client was told that they were not sent.
    never_sent: BTreeSet<Token>,
    /// The first contradiction.
    pub violation: Option<String>,
}

/// What one key may hold, as its writer knows.
#[derive(Debug, Default)]
struct History {
    /// The value of the last write that was acknowledged; `None` if that was a deletion, or before the first.
    acknowledged: Option<Vec<u8>>,
    /// Values of writes whose outcome nobody knows: they may be there, or come yet.
    unknown: BTreeSet<Option<Vec<u8>>>,
}

/// How a write ended, as its client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It ran.
    Done,
    /// Not a byte was sent.
    NotSent,
    /// Nobody knows.
    Unknown,
}

impl Ledger {
    pub(crate) fn new(topology: std::sync::Arc<Topology>) -> Ledger {
        let (keys, never_sent) = (BTreeMap::new(), BTreeSet::new());
        Ledger { topology, runs: Vec::new(), keys, never_sent, violation: None }
    }

    /// A token for the next write.
    pub(crate) fn token(&mut self) -> Token {
        self.runs.push(0);
        self.runs.len() as Token - 1
    }

    /// Notes the first contradiction.
    pub(crate) fn violate(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }

    /// A node ran a write.
    pub(crate) fn ran(&mut self, key: &[u8], value: &[u8], shard: ShardId) {
        self.check_shard(key, shard);
        let Some((owner, token)) = read_stamp(value) else {
            return self.violate(format!("a node was told to store what nobody wrote: {:?}", text(value)));
        };
        if owner != key {
            self.violate(format!("the value {:?} was stored at {:?}", text(value), text(key)));
        }
        let Some(runs) = self.runs.get_mut(token as usize) else {
            return self
                .violate(format!("a node was told to store a token that was never given out: {token}"));
        };
        *runs += 1;
        if *runs > 1 {
            self.violate(format!("write {token} of {:?} ran twice", text(key)));
        }
        if self.never_sent.contains(&token) {
            self.violate(format!("write {token} of {:?} ran after its client was told TRYAGAIN", text(key)));
        }
    }

    /// A node was asked to delete a key.
    pub(crate) fn deleted(&mut self, key: &[u8], shard: ShardId) {
        self.check_shard(key, shard);
    }

    fn check_shard(&mut self, key: &[u8], shard: ShardId) {
        let owner = self.topology.shard_of(key);
        if owner != shard {
            self.violate(format!("{:?} lives on {owner:?} and was written on {shard:?}", text(key)));
        }
    }

    /// A client was told how its write of `value` (`None`: a deletion) at `key` ended. The writer's requests for one
    /// key are told in the order in which they were sent.
    pub(crate) fn told(&mut self, key: &[u8], value: Option<&[u8]>, told: Told) {
        let token = value.and_then(read_stamp).map(|(_, token)| token);
        let runs = token.map(|token| self.runs[token as usize]);
        match told {
            Told::Done if runs == Some(0) => {
                self.violate(format!("a write of {:?} was acknowledged and did not run", text(key)));
            }
            Told::NotSent if runs.is_some_and(|runs| runs > 0) => {
                self.violate(format!("a write of {:?} ran and its client was told TRYAGAIN", text(key)));
            }
            Told::NotSent => self.never_sent.extend(token),
            _ => {}
        }
        let history = self.keys.entry(key.to_vec()).or_default();
        match told {
            Told::Done => history.acknowledged = value.map(<[u8]>::to_vec),
            Told::NotSent => {}
            Told::Unknown => {
                history.unknown.insert(value.map(<[u8]>::to_vec));
            }
        }
    }

    /// Whether its writer may find `value` at `key` now.
    pub(crate) fn check_own(&mut self, key: &[u8], value: Option<&[u8]>) {
        let history = self.keys.entry(key.to_vec()).or_default();
        let value = value.map(<[u8]>::to_vec);
        if value != history.acknowledged && !history.unknown.contains(&value) {
            let expected = history.acknowledged.as_deref().map(text);
            let found = value.as_deref().map(text);
            self.violate(format!("{:?} holds {found:?} and should hold {expected:?}", text(key)));
        }
    }

    /// Whether anybody may find `value` at `key`: something that was written to just this key.
    pub(crate) fn check_foreign(&mut self, key: &[u8], value: &[u8]) {
        match read_stamp(value) {
            Some((owner, token))
                if owner == key && self.runs.get(token as usize).is_some_and(|&runs| runs > 0) => {}
            _ => self.violate(format!("reading {:?} gave {:?}", text(key), text(value))),
        }
    }

    /// All keys that were ever written.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.keys.keys().cloned().collect()
    }
}

/// A value that says where it belongs: `key#token#` and then filling.
pub(crate) fn stamp(key: &[u8], token: Token, filling: usize) -> Vec<u8> {
    let mut value = [key, b"#", token.to_string().as_bytes(), b"#"].concat();
    value.resize(value.len() + filling, b'.');
    value
}

/// The key and the token in a stamped value.
fn read_stamp(value: &[u8]) -> Option<(&[u8], Token)> {
    let mut parts = value.split(|&byte| byte == b'#');
    let key = parts.next()?;
    let token = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    parts.next().map(|_| (key, token))
}

/// Bytes for a message, not too many of them.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned()
}
