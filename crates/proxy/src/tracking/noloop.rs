//! NOLOOP: a client that caches is not told of what it has written itself.
//!
//! ```text
//!   client: SET k v ─► the digest of v is noted
//!   node: k has changed ─► is there a digest? ─ no ─► the client is told
//!                               └─ yes ─► GETRANGE k ─► is it v? ─ yes ─► nothing
//!                                                          └─ no ─► the client is told
//! ```
//!
//! A node tells of keys and not of who has changed them, once for all changes of a moment; so whose change it was cannot
//! be told from what it says. But it does not matter: if the key has what the client wrote, then what the client has is
//! right, whoever wrote last, and of what comes later the node tells again. In doubt the client is told; to forget too
//! much is never wrong. So only writes are noted that leave a plain, short text, until the client uses the key otherwise:
//! what it has then may be what it has read. And only of clients that stay in one database: nodes tell of a key whichever
//! database it is in.

use crate::ConnId;
use crate::context::Context;
use crate::features::{Asked, Owner, TaskKind};
use crate::link::ProfileId;
use crate::link::kept::Kept;
use crate::outcome::Outcome;
use crate::peers::{Peer, Peers};
use crate::tracking::invalidations::Invalidations;
use crate::tracking::{Mode, invalidations};
use command::Command;
use resp::reply::as_bulk;
use resp::{Request, encode};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use stdx::Id;
use topology::ShardId;

/// What one client has written.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    /// By key.
    values: BTreeMap<Box<[u8]>, Written>,
    /// Bytes of the keys.
    key_bytes: usize,
    /// Over whose connections.
    profile: Option<ProfileId>,
    /// It has been in several profiles: it may have read a key of the same name in another database.
    is_mixed: bool,
}

/// A value, known again by its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    len: usize,
    digest: [u8; 32],
}

/// A key that is looked at again, for a client that has written it.
#[derive(Debug)]
pub(crate) struct Check {
    conn: ConnId,
    key: Box<[u8]>,
    written: Written,
}

/// So many keys that a client has written are remembered. With more, it is told of its own changes.
const OWN_WRITES_MAX: usize = 1024;
/// Of longer keys it is told as well.
const KEY_BYTES_MAX: usize = 1024;
/// Of longer texts the client is told: to fetch them would cost more than it saves.
const TEXT_BYTES_MAX: usize = 16 << 10;

impl Written {
    fn of(value: &[u8]) -> Written {
        Written { len: value.len(), digest: Sha256::digest(value).into() }
    }
}

impl OwnWrites {
    /// Notes what `request` reads or writes, over `profile`.
    pub(crate) fn note(
        &mut self,
        profile: ProfileId,
        command: &Command,
        request: &Request<'_>,
        in_transaction: bool,
    ) {
        let mut positions = Vec::new();
        // A request without keys that can be found has none.
        let _ = command.keys(request, &mut positions);
        self.is_mixed |= !positions.is_empty() && *self.profile.get_or_insert(profile) != profile;
        for at in positions {
            self.remove(request.arg(at));
        }
        let values = if in_transaction || self.is_mixed { Vec::new() } else { values_of(command, request) };
        for (key, value) in values {
            if self.values.len() >= OWN_WRITES_MAX {
                self.values.clear();
                self.key_bytes = 0;
            }
            self.remove(key);
            // A key that is gone reads as an empty text.
            if (1..=TEXT_BYTES_MAX).contains(&value.len()) && key.len() <= KEY_BYTES_MAX {
                self.key_bytes += key.len();
                self.values.insert(key.into(), Written::of(value));
            }
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if self.values.remove(key).is_some() {
            self.key_bytes -= key.len();
        }
    }

    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.values.len() * size_of::<(Box<[u8]>, Written)>() + self.key_bytes
    }

    fn get(&self, key: &[u8]) -> Option<Written> {
        if self.is_mixed { None } else { self.values.get(key).copied() }
    }
}

/// The keys that `request` gives a text whatever they were, with those texts.
fn values_of<'r>(command: &Command, request: &Request<'r>) -> Vec<(&'r [u8], &'r [u8])> {
    let is_condition =
        |word: &[u8]| [&b"nx"[..], b"xx", b"get"].iter().any(|one| word.eq_ignore_ascii_case(one));
    match &*command.name {
        "set" if !request.args().skip(3).any(is_condition) => vec![(request.arg(1), request.arg(2))],
        "setex" | "psetex" => vec![(request.arg(1), request.arg(3))],
        "mset" if request.len() % 2 == 1 => {
            (1..request.len()).step_by(2).map(|at| (request.arg(at), request.arg(at + 1))).collect()
        }
        _ => Vec::new(),
    }
}

impl Invalidations {
    /// Looks whether `key`, on `shard`, has what the client has written. If not, it is told.
    pub(crate) fn check_own_write(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        conn: ConnId,
        shard: ShardId,
        key: &[u8],
    ) {
        let Some(Peer::Client(session)) = peers.get(conn) else { return };
        let Some(written) = session.features.tracking().and_then(|tracking| tracking.own.get(key)) else {
            return;
        };
        // Behind what the client has sent over the same connection.
        let Ok(ix) = cx.shared_link(session.profile, shard) else {
            return invalidations::tell_changed(cx, peers, conn, Some(&[key]));
        };
        let id = self.checks.insert(Check { conn, key: key.into(), written });
        let mut request = cx.engine.pool.take();
        // One byte more than it would have.
        let end = itoa::Buffer::new().format(written.len).to_owned();
        encode::request(&mut request, &[b"GETRANGE", key, b"0", end.as_bytes()]);
        let asked =
            Asked { conn: id, place: 0, part: 0, owner: Owner::Task(TaskKind::Check), kept: Kept::NO };
        cx.engine.enqueue_on(ix, &request, asked);
        cx.engine.pool.give(request);
    }

    /// The node has said what the key has, or nothing.
    pub(crate) fn end_check(&mut self, cx: &mut Context, peers: &mut Peers, id: Id, outcome: &Outcome<'_>) {
        let Some(Check { conn, key, written }) = self.checks.remove(id) else { return };
        let found = match outcome {
            Outcome::Reply(reply) => as_bulk(reply).map(Written::of),
            Outcome::Lost(_) => None,
        };
        if found == Some(written) {
            return;
        }
        if let Some(Peer::Client(session)) = peers.get_mut(conn)
            && let Some(tracking) = session.features.tracking_mut()
        {
            // If it has written something else meanwhile, that counts.
            if tracking.own.get(&key) == Some(written) {
                tracking.own.remove(&key);
                tracking.recount();
            }
            // It may have said meanwhile that it wants to know of other keys.
            if tracking.mode != Mode::Broadcast || !tracking.wanted(&[&key]).is_empty() {
                invalidations::tell_changed(cx, peers, conn, Some(&[&key]));
            }
        }
    }
}

/// Whether the client may have written itself what `key` has now.
pub(crate) fn is_own_write(peers: &Peers, conn: ConnId, key: &[u8]) -> bool {
    let Some(Peer::Client(session)) = peers.get(conn) else { return false };
    session.features.tracking().is_some_and(|tracking| tracking.own.get(key).is_some())
}
