//! What the nodes of a simulated Redis Cluster know: who owns which slot, which slot is on its way, and what a node says
//! to a request for keys that it does not have.
//!
//! ```text
//!   truth here ─► a node declines: MOVED, ASK, TRYAGAIN ─► the proxy sends it elsewhere
//!        └─ some time later, or much later, or when the proxy wishes for it ─► the proxy's topology
//! ```
//!
//! Slots move key by key; a primary is replaced by its replica, which has all that it had. A node that is no primary any
//! more declines everything.

use crate::ledger::Ledger;
use command::Resolved;
use resp::Request;
use resp::request::{RequestLimits, Scanned, Scanner};
use stdx::Prng;
use topology::{Address, NodeSpec, SLOTS, ShardSpec, TagRule, Topology, slot_of};

/// The truth.
pub(crate) struct Cluster {
    /// By slot: the shard that owns it.
    owners: Vec<usize>,
    /// By shard: its primary and its replica, by their numbers among the nodes.
    shards: Vec<[usize; 2]>,
    /// The slot that is on its way, and where to.
    pub migration: Option<Migration>,
    /// Counts changes that the proxy does not know yet.
    pub epoch: u64,
}

/// A slot on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    pub slot: u16,
    pub from: usize,
    pub to: usize,
}

/// What a node does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It carries it out.
    Serve,
    /// It says this.
    Decline(Vec<u8>),
}

/// Where a node listens.
fn address(node: usize) -> NodeSpec {
    NodeSpec::tcp(&format!("10.0.0.{}", node + 1), 6379)
}

/// Which node listens there.
pub(crate) fn node_at(address: &Address) -> usize {
    let Address::Tcp { host, .. } = address else { return 0 };
    host.rsplit('.').next().and_then(|last| last.parse::<usize>().ok()).map_or(0, |last| last - 1)
}

impl Cluster {
    /// `shards` shards with even slots, whose primaries are the first nodes and whose replicas the next ones.
    pub(crate) fn new(shards: usize) -> Cluster {
        let ranges = topology::slot_ranges(shards as u32).zip(0..);
        Cluster {
            owners: ranges.flat_map(|(range, shard)| range.map(move |_| shard)).collect(),
            shards: (0..shards).map(|shard| [shard, shards + shard]).collect(),
            migration: None,
            epoch: 1,
        }
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        2 * self.shards.len()
    }

    /// What discovery would tell now.
    pub(crate) fn topology(&self, before: Option<&Topology>) -> Topology {
        let spec = |(shard, [primary, replica]): (usize, &[usize; 2])| {
            let owned = (0..SLOTS).filter(|slot| self.owners[usize::from(*slot)] == shard);
            ShardSpec {
                name: format!("s{shard}"),
                primary: Some(address(*primary)),
                replicas: vec![address(*replica)],
                slots: owned.map(|slot| slot..=slot).collect(),
            }
        };
        let specs: Vec<ShardSpec> = self.shards.iter().enumerate().map(spec).collect();
        Topology::of_cluster(before, self.epoch, &specs).expect("each slot has one owner")
    }

    /// The node that owns `key`.
    pub(crate) fn owner(&self, key: &[u8]) -> usize {
        self.shards[self.owners[usize::from(slot(key))]][0]
    }

    /// The replica of `shard`.
    pub(crate) fn replica(&self, shard: usize) -> Option<usize> {
        self.shards.get(shard).map(|[_, replica]| *replica)
    }

    /// The replica of `shard` takes the place of the primary. Gives both nodes, the new primary first. No slot is on its
    /// way.
    pub(crate) fn promote(&mut self, shard: usize) -> [usize; 2] {
        self.epoch += 1;
        self.shards[shard].reverse();
        self.shards[shard]
    }

    /// The slot of `key` begins to move to another shard, if there is one and none is on its way.
    pub(crate) fn begin_migration(&mut self, key: &[u8], prng: &mut Prng) {
        let slot = slot(key);
        let from = self.owners[usize::from(slot)];
        let to = prng.below(self.shards.len() as u64) as usize;
        if self.migration.is_none() && to != from {
            self.migration = Some(Migration { slot, from, to });
        }
    }

    /// All keys have moved: the slot has another owner.
    pub(crate) fn end_migration(&mut self) {
        if let Some(Migration { slot, to, .. }) = self.migration.take() {
            self.owners[usize::from(slot)] = to;
            self.epoch += 1;
        }
    }

    /// The primaries of a slot on its way: from which, to which.
    pub(crate) fn ends_of(&self, migration: Migration) -> [usize; 2] {
        [self.shards[migration.from][0], self.shards[migration.to][0]]
    }

    /// What `node` does with `request`. `queued` is what was sent since MULTI; `asking` is whether ASKING was said before.
    pub(crate) fn judge(
        &self,
        node: usize,
        request: &Request<'_>,
        queued: &[u8],
        asking: bool,
        ledger: &mut Ledger,
        mut has: impl FnMut(&[u8]) -> bool,
    ) -> Verdict {
        let keys = match request.arg(0).eq_ignore_ascii_case(b"exec") {
            true => keys_of_all(queued),
            false => keys_of(request),
        };
        let Some(first) = keys.first() else { return self.judge_keyless(node, request) };
        let slot = slot(first);
        if keys.iter().any(|key| self::slot(key) != slot) {
            ledger.violate(format!(
                "keys of two slots were sent together: {:?}",
                String::from_utf8_lossy(first)
            ));
        }
        let owner = self.shards[self.owners[usize::from(slot)]][0];
        let migration = self.migration.filter(|migration| migration.slot == slot);
        let ends = migration.map(|migration| self.ends_of(migration));
        let missing = keys.iter().filter(|key| !has(key)).count();
        let several = keys.iter().any(|key| key != first);
        let to = match (ends, owner == node) {
            (Some([_, to]), true) if missing > 0 => {
                if several && missing < keys.len() {
                    return Verdict::Decline(TRY_AGAIN.to_vec());
                }
                return Verdict::Decline(line("ASK", slot, to));
            }
            (_, true) => return Verdict::Serve,
            (Some([_, to]), false) if to == node && asking => {
                return match several && missing > 0 {
                    true => Verdict::Decline(TRY_AGAIN.to_vec()),
                    false => Verdict::Serve,
                };
            }
            (_, false) => owner,
        };
        Verdict::Decline(line("MOVED", slot, to))
    }
}

impl Cluster {
    /// A node that has become a replica gets all data anew, and says so to who asks for all keys.
    fn judge_keyless(&self, node: usize, request: &Request<'_>) -> Verdict {
        let words = ["keys", "dbsize", "scan", "randomkey", "flushall"];
        let asks_for_all = words.iter().any(|word| request.arg(0).eq_ignore_ascii_case(word.as_bytes()));
        match self.shards.iter().any(|[primary, _]| *primary == node) || !asks_for_all {
            true => Verdict::Serve,
            false => Verdict::Decline(LOADING.to_vec()),
        }
    }
}

const LOADING: &[u8] = b"-LOADING Redis is loading the dataset in memory\r\n";
const TRY_AGAIN: &[u8] = b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n";

fn line(word: &str, slot: u16, node: usize) -> Vec<u8> {
    format!("-{word} {slot} {}\r\n", address(node).address).into_bytes()
}

pub(crate) fn slot(key: &[u8]) -> u16 {
    slot_of(TagRule::Redis.tag(key))
}

/// The keys that `request` names, as far as Redis looks at them before it carries it out.
fn keys_of(request: &Request<'_>) -> Vec<Vec<u8>> {
    let mut places = Vec::new();
    match command::resolve(request) {
        Resolved::Command(command) if !command.splits_evenly(request.len()) => {}
        Resolved::Command(command) => _ = command.keys(request, &mut places),
        Resolved::Unknown if request.arg(0).to_ascii_lowercase().starts_with(b"stamp.") => places.push(1),
        Resolved::Unknown | Resolved::WrongArity(_) | Resolved::UnknownSubcommand(_) => {}
    }
    places.into_iter().map(|place| request.arg(place).to_vec()).collect()
}

/// Those of several requests, one behind the other.
fn keys_of_all(requests: &[u8]) -> Vec<Vec<u8>> {
    let (mut scanner, mut args, mut inline) = (Scanner::default(), Vec::new(), Vec::new());
    let (mut keys, mut at) = (Vec::new(), 0);
    while let Ok(Scanned::Request { len }) =
        scanner.scan(&requests[at..], &RequestLimits::default(), &mut args, &mut inline)
    {
        keys.extend(keys_of(&Request::new(&requests[at..at + len], &args)));
        at += len;
    }
    keys
}
