//! Requests, executions and replies: the facts that must agree.
//!
//! Every write has a token of its own, which is part of the value. Each key has one writer.

use crate::cluster::slot;
use crate::listeners::{Radio, Received};
use crate::model::Model;
use crate::scripts::Kept;
use crate::sessions::Queues;
use crate::tenants::Rights;
use crate::trackers::Caches;
use command::Resolved;
use resp::Request;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stdx::Instant;
use topology::{ShardId, Topology};

/// Names one write of one key.
pub(crate) type Token = u64;

/// The facts.
pub(crate) struct Ledger {
    topology: Arc<Topology>,
    /// Values of keys that are not written with stamps.
    pub model: Model,
    /// Elements that clients push and wait for.
    pub queues: Queues,
    /// Messages and their subscribers.
    pub radio: Radio,
    /// Values that clients cache.
    pub caches: Caches,
    /// Scripts that the proxy knows.
    pub scripts: Kept,
    /// Permissions to read, where there are users.
    pub rights: Rights,
    /// Number of executions of each stamped write.
    runs: Vec<u32>,
    /// Time at which each was drawn.
    stamped_at: Vec<Instant>,
    /// Nodes that the proxy knows to be no primaries, and since when.
    demoted_at: BTreeMap<usize, Instant>,
    /// Which node is about to run something.
    pub looks_at: usize,
    /// Why no client's read is to run there.
    pub unfit: Option<&'static str>,
    /// Writes, each with the number of replicas that WAIT reported for it.
    pub acknowledged: Vec<(Vec<u8>, Token, usize)>,
    /// Filling bytes of each stamped value.
    fillings: Vec<usize>,
    /// Names of all keys that anybody may have written.
    names: BTreeSet<Vec<u8>>,
    keys: BTreeMap<Vec<u8>, History>,
    /// Writes whose clients got an error that says they were not sent.
    never_sent: BTreeSet<Token>,
    /// By key: among the executed writes, the one that its writer sent last.
    last_runs: BTreeMap<Vec<u8>, Token>,
    /// Writes that ran behind one which their client had sent later.
    overtaken: BTreeSet<Token>,
    /// Reads may go to replicas.
    pub reads_replicas: bool,
    /// While a primary is down, reads go even to replicas that lack writes.
    pub reads_anything: bool,
    /// Slots that are migrating or have moved.
    moving: BTreeMap<u16, Moving>,
    /// When the request was sent whose reply is looked at.
    pub asked_at: Instant,
    /// Slots that have moved: replicas may lack their recent keys.
    has_moved: BTreeSet<u16>,
    /// Keys whose last write was on a connection that has ended.
    forgotten: BTreeSet<Vec<u8>>,
    /// Nodes are a cache: a written value may be missing, or an older one may be there.
    pub is_cache: bool,
    /// Sentinels decide which node is a primary, and no read may go to a replica.
    pub wants_primaries: bool,
    /// The keys of one transaction may be on several shards.
    pub is_per_shard: bool,
    /// Nodes learn of changes with delay, so they may redirect requests to a wrong node.
    pub is_gossiping: bool,
    /// Present time.
    pub now: Instant,
    /// The first contradiction.
    pub violation: Option<String>,
}

/// The values that one key may hold, as its writer knows.
#[derive(Debug, Default)]
struct History {
    /// The value of the last acknowledged write; `None` for a deletion, or before the first write.
    acknowledged: Option<Vec<u8>>,
    /// Values of writes with unknown outcome: each may be there, or arrive later.
    unknown: BTreeSet<Option<Vec<u8>>>,
}

/// A slot on its way.
#[derive(Debug)]
struct Moving {
    /// Whether it has arrived.
    has_moved: bool,
    /// Time since which the proxy knows it: later requests go there.
    known_at: Instant,
}

/// Outcome of a write, as reported to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The write ran.
    Done,
    /// Not a byte was sent.
    NotSent,
    /// Nobody knows.
    Unknown,
}

impl Ledger {
    pub(crate) fn new(topology: Arc<Topology>, nodes: usize) -> Ledger {
        Ledger {
            model: Model::new(Arc::clone(&topology)),
            radio: Radio::new(nodes),
            caches: Caches::default(),
            scripts: Kept::default(),
            rights: Rights::default(),
            topology,
            queues: Queues::default(),
            runs: Vec::new(),
            stamped_at: Vec::new(),
            demoted_at: BTreeMap::new(),
            looks_at: 0,
            unfit: None,
            acknowledged: Vec::new(),
            fillings: Vec::new(),
            names: BTreeSet::new(),
            keys: BTreeMap::new(),
            never_sent: BTreeSet::new(),
            last_runs: BTreeMap::new(),
            overtaken: BTreeSet::new(),
            reads_replicas: false,
            reads_anything: false,
            moving: BTreeMap::new(),
            asked_at: Instant::ZERO,
            has_moved: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            is_cache: false,
            wants_primaries: false,
            is_per_shard: false,
            is_gossiping: false,
            now: Instant::ZERO,
            violation: None,
        }
    }

    /// A key of this name will be written.
    pub(crate) fn name(&mut self, key: Vec<u8>) {
        self.names.insert(key);
    }

    /// The names of all keys that anybody may have written.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.names.iter()
    }

    /// Whether there may be a key of this name.
    pub(crate) fn check_name(&mut self, key: &[u8]) {
        if !self.names.contains(key) && !is_journal(key) {
            self.violate(format!("there is a key that nobody wrote: {:?}", text(key)));
        }
    }

    /// A value for the next write of `key`, with a token that no other has.
    pub(crate) fn stamp(&mut self, key: &[u8], filling: usize) -> Vec<u8> {
        self.runs.push(0);
        self.fillings.push(filling);
        self.stamped_at.push(self.now);
        stamp(key, self.runs.len() as Token - 1, filling)
    }

    /// Notes the first contradiction.
    pub(crate) fn violate(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }

    /// Keys of one division may be in one request.
    pub(crate) fn division_of(&self, key: &[u8]) -> u32 {
        self.topology.division_of(key).0
    }

    /// Whether the nodes are a cluster, which knows by itself where keys belong.
    pub(crate) fn is_cluster(&self) -> bool {
        self.topology.is_cluster()
    }

    /// Whether nodes have replicas.
    pub(crate) fn has_replicas(&self) -> bool {
        self.replicas() > 0
    }

    /// Replicas of each primary.
    pub(crate) fn replicas(&self) -> usize {
        self.topology.shards().iter().map(|shard| shard.replicas.len()).max().unwrap_or_default()
    }

    /// A request arrived at the node of `shard`.
    pub(crate) fn arrived(&mut self, request: &Request<'_>, shard: ShardId) {
        if request.arg(0).to_ascii_lowercase().ends_with(b"publish") {
            return self.radio.ran(request.get(2).unwrap_or_default(), shard);
        }
        if self.is_cluster() || self.is_cache {
            return;
        }
        let mut places = Vec::new();
        match command::resolve(request) {
            // A request that any node refuses may be sent to any.
            Resolved::Command(command) if !command.splits_evenly(request.len()) => return,
            Resolved::Command(command) => _ = command.keys(request, &mut places),
            Resolved::Unknown if request.arg(0).to_ascii_lowercase().starts_with(b"stamp.") => places.push(1),
            Resolved::Unknown | Resolved::WrongArity(_) | Resolved::UnknownSubcommand(_) => {}
        }
        for key in places.into_iter().map(|place| request.arg(place)) {
            let owner = self.topology.shard_of(key);
            if owner != shard && !is_journal(key) {
                self.violate(format!(
                    "{:?} lives on {owner:?} and was asked for on {shard:?} by {:?}",
                    text(key),
                    text(request.arg(0))
                ));
            }
        }
    }

    /// Records whether the proxy has learned that `node` is a primary.
    pub(crate) fn is_primary(&mut self, node: usize, is_primary: bool, now: Instant) {
        match is_primary {
            true => _ = self.demoted_at.remove(&node),
            false => _ = self.demoted_at.entry(node).or_insert(now),
        }
    }

    /// Whether the proxy has known since `then` that `node` is no primary.
    pub(crate) fn is_demoted_since(&self, node: usize, then: Instant) -> bool {
        self.demoted_at.get(&node).is_some_and(|at| *at <= then)
    }

    /// Checks that no request of a client reaches a node that the proxy knew to be no primary. (A node without that knowledge
    /// may still redirect a request there.)
    pub(crate) fn check_not_demoted(&mut self, request: &Request<'_>) {
        let Some(demoted_at) = self.demoted_at.get(&self.looks_at).filter(|_| !self.is_gossiping) else {
            return;
        };
        let tokens = request.args().skip(2).filter_map(read_stamp).map(|(_, token)| token);
        let issued_at = tokens.filter_map(|token| self.stamped_at.get(token as usize)).max();
        if issued_at.is_some_and(|issued_at| issued_at > demoted_at) {
            self.violate(format!("node {} is no primary, and was sent a write", self.looks_at));
        }
    }

    /// A replica is about to answer a read of a client's.
    pub(crate) fn check_fit(&mut self) {
        if let Some(unfit) = self.unfit {
            self.violate(format!("node {} {unfit}, and was read from", self.looks_at));
        }
    }

    /// WAIT has reported to `client` that `count` replicas have all its writes.
    pub(crate) fn have_replicas(&mut self, client: usize, count: usize) {
        let its = self.keys.iter().filter(|(key, history)| {
            writer_of(key) == Some(client)
                && history.unknown.is_empty()
                && !self.has_moved.contains(&slot(key))
        });
        self.acknowledged.extend(its.filter_map(|(key, history)| {
            Some((key.clone(), history.acknowledged.as_deref().and_then(token_of)?, count))
        }));
    }

    /// A node runs `request`.
    pub(crate) fn note_run(&mut self, request: &Request<'_>) {
        let is = |name: &str| request.arg(0).eq_ignore_ascii_case(name.as_bytes());
        if (is("eval") || is("evalsha")) && request.len() == 5 {
            return self.ran(request.arg(3), request.arg(4));
        }
        let writes = ["set", "mset", "stamp.set"];
        if writes.into_iter().any(is) {
            for at in (1..request.len() - 1).step_by(2) {
                if is_stamped(request.arg(at)) {
                    self.ran(request.arg(at), request.arg(at + 1));
                }
            }
        }
    }

    /// A node ran a write of a stamped value.
    fn ran(&mut self, key: &[u8], value: &[u8]) {
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
        match self.last_runs.get_mut(key) {
            // A write with unknown outcome may run at any time.
            Some(last) if *last > token => _ = self.overtaken.insert(token),
            Some(last) => *last = token,
            None => _ = self.last_runs.insert(key.to_vec(), token),
        }
    }

    /// A node lost all its data: its keys may be missing from now on.
    pub(crate) fn shard_lost(&mut self, shard: ShardId, now_ms: u64) {
        for key in self.names.iter().filter(|key| self.topology.shard_of(key) == shard) {
            self.keys.entry(key.clone()).or_default().unknown.insert(None);
        }
        let topology = Arc::clone(&self.topology);
        self.queues.forget(|key| topology.shard_of(key) == shard);
        self.model.shard_lost(shard, now_ms);
    }

    /// A primary was replaced, and its successor lacks the last changes of `key`. The successor has `value` instead.
    pub(crate) fn tail_lost(&mut self, key: &[u8], value: Option<&[u8]>) {
        if is_stamped(key) {
            let history = self.keys.entry(key.to_vec()).or_default();
            history.unknown.insert(value.map(<[u8]>::to_vec));
        }
        self.queues.forget(|queue| queue == key);
        self.model.give_up_key(key);
    }

    /// The slot begins to move. Until the move ends, a replica of the old owner may return nil for keys that have already
    /// moved.
    pub(crate) fn slot_moves(&mut self, its: u16) {
        self.has_moved.insert(its);
        if self.reads_replicas {
            self.moving.insert(its, Moving { has_moved: false, known_at: Instant::NEVER });
            let moving: Vec<Vec<u8>> = self.names.iter().filter(|key| slot(key) == its).cloned().collect();
            moving.iter().for_each(|key| self.model.give_up_key(key));
        }
    }

    /// The slot has moved.
    pub(crate) fn slot_moved(&mut self, its: u16) {
        if let Some(moving) = self.moving.get_mut(&its) {
            moving.has_moved = true;
        }
    }

    /// The proxy has another topology, with these slots at their new place.
    pub(crate) fn proxy_knows(&mut self, knows: impl Fn(u16) -> bool) {
        let known = self.moving.iter_mut().filter(|(slot, moving)| moving.has_moved && knows(**slot));
        known.for_each(|(_, moving)| moving.known_at = moving.known_at.min(self.now));
    }

    /// Whether a replica that was asked at `then` may lack `key` though its writer has it, since its slot moves.
    pub(crate) fn is_moving(&self, key: &[u8], then: Instant) -> bool {
        !self.moving.is_empty() && self.moving.get(&slot(key)).is_some_and(|moving| moving.known_at >= then)
    }

    /// A client has lost its connection. On its next one, replicas may return values that are older than its writes.
    fn forgets_writes(&mut self, client: usize) {
        if self.reads_replicas {
            let its = self.names.iter().filter(|key| writer_of(key) == Some(client));
            self.forgotten.extend(its.cloned());
            self.model.give_up_client(client);
        }
    }

    /// Records the outcome of a write of `value` (`None`: a deletion) at `key`, as reported to the client. A writer's outcomes
    /// for one key are recorded in the order of its requests.
    pub(crate) fn told(&mut self, key: &[u8], value: Option<&[u8]>, told: Told) {
        let token = value.and_then(read_stamp).map(|(_, token)| token);
        let runs = token.map(|token| self.runs[token as usize]);
        let is_overtaken = token.is_some_and(|token| self.overtaken.contains(&token));
        match told {
            Told::Done if is_overtaken => {
                self.violate(format!("a write of {:?} ran behind one that was sent later", text(key)));
            }
            Told::Done if runs == Some(0) => {
                self.violate(format!("a write of {:?} was acknowledged and did not run", text(key)));
            }
            Told::NotSent if runs.is_some_and(|runs| runs > 0) => {
                self.violate(format!("a write of {:?} ran and its client was told TRYAGAIN", text(key)));
            }
            Told::NotSent => self.never_sent.extend(token),
            _ => {}
        }
        if told != Told::NotSent
            && let Some(writer) = writer_of(key)
        {
            self.caches.overwritten(writer, key);
        }
        let history = self.keys.entry(key.to_vec()).or_default();
        match told {
            Told::Done => {
                history.acknowledged = value.map(<[u8]>::to_vec);
                self.forgotten.remove(key);
            }
            Told::NotSent => {}
            Told::Unknown => {
                history.unknown.insert(value.map(<[u8]>::to_vec));
            }
        }
    }

    /// Whether a writer may find `value` at its `key`.
    pub(crate) fn check_own_read(&mut self, key: &[u8], value: Option<&[u8]>) {
        if !self.reads_anything && !self.forgotten.contains(key) && !self.is_moving(key, self.asked_at) {
            self.check_own(key, value);
        }
    }

    /// Whether `value` may be stored at `key` now, as its writer knows.
    pub(crate) fn check_own(&mut self, key: &[u8], value: Option<&[u8]>) {
        let history = self.keys.entry(key.to_vec()).or_default();
        let value = value.map(<[u8]>::to_vec);
        if value != history.acknowledged && !history.unknown.contains(&value) && !self.is_cache {
            let expected = history.acknowledged.as_deref().map(text);
            let found = value.as_deref().map(text);
            self.violate(format!("{:?} holds {found:?} and should hold {expected:?}", text(key)));
        }
    }

    /// Whether any client may find `value` at `key`: a value that was written to this very key.
    pub(crate) fn check_foreign(&mut self, key: &[u8], value: &[u8]) {
        match read_stamp(value) {
            Some((owner, token))
                if owner == key
                    && self.runs.get(token as usize).is_some_and(|&runs| runs > 0)
                    && value == stamp(key, token, self.fillings[token as usize]) => {}
            _ => self.violate(format!("reading {:?} gave {:?}", text(key), text(value))),
        }
    }

    /// Records a frame for `client`. Returns whether it is a push.
    pub(crate) fn hear(&mut self, client: usize, frame: &[u8]) -> bool {
        if !matches!(frame[0], b'*' | b'>') {
            return false;
        }
        let heard = match self.caches.hear(client, frame) {
            Ok(false) => Received::read(frame).map(|message| self.radio.hear(client, &message)),
            outcome => Some(outcome.map(|_| ())),
        };
        let is_heard = heard.is_some();
        heard.and_then(Result::err).into_iter().for_each(|what| self.violate(what));
        is_heard
    }

    /// The connection of `client` is gone.
    pub(crate) fn left(&mut self, client: usize) {
        self.forgets_writes(client);
        self.radio.left(client);
        self.caches.left(client);
    }

    /// All stamped keys that were ever written.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.keys.keys().filter(|key| is_stamped(key)).cloned().collect()
    }
}

/// Whether `key` is one at which the proxy keeps an element while it moves that to another shard.
pub(crate) fn is_journal(key: &[u8]) -> bool {
    key.starts_with(JOURNAL.as_bytes())
}

/// Prefix of the names of such keys.
pub(crate) const JOURNAL: &str = "shardis:moving:";

/// Whether values of this key have stamps.
fn is_stamped(key: &[u8]) -> bool {
    key.starts_with(STAMPED)
}

/// The client that alone writes a stamped key.
pub(crate) fn writer_of(key: &[u8]) -> Option<usize> {
    let (writer, _) = std::str::from_utf8(key.strip_prefix(STAMPED)?).ok()?.split_once('k')?;
    writer.parse().ok()
}

/// Prefix of the names of stamped keys.
pub(crate) const STAMPED: &[u8] = b"stamped";

/// A value that says where it belongs: `key#token#` and then filling.
fn stamp(key: &[u8], token: Token, filling: usize) -> Vec<u8> {
    let mut value = [key, b"#", token.to_string().as_bytes(), b"#"].concat();
    value.resize(value.len() + filling, b'.');
    value
}

/// The token in a stamped value.
pub(crate) fn token_of(value: &[u8]) -> Option<Token> {
    read_stamp(value).map(|(_, token)| token)
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
