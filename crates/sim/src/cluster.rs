//! The knowledge of the nodes in a simulated Redis Cluster: the owners of slots, the migrating slot, and the replies for other
//! nodes' keys.
//!
//! ```text
//!   truth here ─► a node declines: MOVED, ASK, TRYAGAIN ─► the proxy sends it elsewhere
//!        └─ some time later, or much later, or when the proxy wishes for it ─► the proxy's topology
//! ```
//!
//! Slots move key by key. A replica can replace its primary. A node that is not a primary (any more) declines all requests,
//! except reads on a connection with READONLY.

use crate::ledger::Ledger;
use crate::views::Eye;
use command::Resolved;
use resp::Request;
use resp::request::{RequestLimits, Scanned, Scanner};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Prng};
use topology::{Address, NodeSpec, SLOTS, ShardSpec, TagRule, Topology, slot_of};

/// A map of owners at some time.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    /// Counts changes.
    pub number: u64,
    /// By slot: the shard that owns it.
    pub owners: Vec<usize>,
    /// By shard: its primary and its replica, by their numbers among the nodes.
    pub shards: Vec<[usize; 2]>,
    /// Number of nodes that belong to the cluster. The last shard may not have joined yet.
    pub joined: usize,
    /// By shard: the epoch of its primary's claim on its slots.
    pub epochs: Vec<u64>,
    /// Nodes that are known to have failed.
    pub failed: BTreeSet<usize>,
    /// The migrating slot and its target.
    pub migration: Option<Migration>,
}

/// The true map, and the part of it that nodes know.
pub(crate) struct Cluster {
    truth: Arc<Map>,
    /// By node, where they hear of it later.
    views: Option<Vec<Arc<Map>>>,
    /// All true maps so far, the oldest first, where they are needed.
    past: Vec<Arc<Map>>,
    /// Nodes that do not hear the others.
    pub cut: BTreeSet<usize>,
    /// Nodes without contact to the others for too long, or not since they are back: they decline requests.
    pub isolated: BTreeSet<usize>,
    /// By isolated node: the number of failed elections of the nodes that are isolated with it. Each has raised the epoch
    /// there.
    pub vain_votes: BTreeMap<usize, u64>,
    /// The shard that joins while the world lasts.
    newcomer: Option<usize>,
    /// By slot, and shard that it has left: when.
    left: BTreeMap<(u16, usize), Instant>,
}

/// A slot does not return to its previous owner within this time. Otherwise a node that declined a request could carry out
/// later requests of the client before the retry of the first. Real clusters do not move a slot there and back within a round
/// trip.
const AWAY_FOR: Duration = Duration::from_secs(2);

/// A slot on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    pub slot: u16,
    pub from: usize,
    pub to: usize,
}

/// The node's decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The node carries the request out.
    Serve,
    /// The node sends this error.
    Decline(Vec<u8>),
}

/// Where a node listens.
pub(crate) fn address(node: usize) -> NodeSpec {
    NodeSpec::tcp(&format!("10.0.0.{}", node + 1), 6379)
}

/// Which node listens there.
pub(crate) fn node_at(address: &Address) -> usize {
    let Address::Tcp { host, .. } = address else { return 0 };
    host.rsplit('.').next().and_then(|last| last.parse::<usize>().ok()).map_or(0, |last| last - 1)
}

impl Cluster {
    /// A cluster of `shards` shards: the first nodes are primaries, the next ones replicas. The first `joined` shards share the
    /// slots evenly. With `gossips`, nodes learn of changes later.
    pub(crate) fn new(shards: usize, joined: usize, gossips: bool) -> Cluster {
        let ranges = topology::slot_ranges(joined as u32).zip(0..);
        let truth = Arc::new(Map {
            number: 1,
            owners: ranges.flat_map(|(range, shard)| range.map(move |_| shard)).collect(),
            shards: (0..shards).map(|shard| [shard, shards + shard]).collect(),
            joined,
            epochs: (1..=shards as u64).collect(),
            failed: BTreeSet::new(),
            migration: None,
        });
        Cluster {
            views: gossips.then(|| vec![Arc::clone(&truth); 2 * shards]),
            past: vec![Arc::clone(&truth)],
            truth,
            cut: BTreeSet::new(),
            isolated: BTreeSet::new(),
            vain_votes: BTreeMap::new(),
            newcomer: (joined < shards).then_some(joined),
            left: BTreeMap::new(),
        }
    }

    /// Number of changes so far.
    pub(crate) fn number(&self) -> u64 {
        self.truth.number
    }

    /// The migrating slot.
    pub(crate) fn migration(&self) -> Option<Migration> {
        self.truth.migration
    }

    /// The map that `node` knows.
    fn map_of(&self, node: usize) -> &Map {
        self.views.as_ref().map_or(&self.truth, |views| &views[node])
    }

    /// The view of `node`.
    pub(crate) fn eye_of(&self, node: usize, is_old: bool) -> Eye<'_> {
        let map = self.map_of(node);
        let epoch = map.epoch() + self.vain_votes.get(&node).copied().unwrap_or_default();
        Eye { node, map, epoch, is_ok: !self.isolated.contains(&node), is_old }
    }

    /// `node` knows all from now on.
    pub(crate) fn learns(&mut self, node: usize) {
        self.isolated.remove(&node);
        self.vain_votes.remove(&node);
        if let Some(views) = &mut self.views {
            views[node] = Arc::clone(&self.truth);
        }
    }

    /// The truth is another, of which these nodes know at once.
    fn change(&mut self, witnesses: [usize; 2], change: impl FnOnce(&mut Map)) {
        let truth = Arc::make_mut(&mut self.truth);
        truth.number += 1;
        change(truth);
        if let Some(views) = &mut self.views {
            witnesses.into_iter().for_each(|node| views[node] = Arc::clone(&self.truth));
            self.past.push(Arc::clone(&self.truth));
        }
    }

    /// The topology as a discovery that knows the truth would report it.
    pub(crate) fn topology(&self, before: Option<&Topology>) -> Topology {
        let truth = &self.truth;
        let spec = |(shard, [primary, replica]): (usize, &[usize; 2])| {
            let owned = (0..SLOTS).filter(|slot| truth.owners[usize::from(*slot)] == shard);
            ShardSpec {
                name: format!("s{shard}"),
                primary: Some(address(*primary)),
                replicas: vec![address(*replica)],
                slots: owned.map(|slot| slot..=slot).collect(),
            }
        };
        let specs = truth.shards.iter().enumerate().map(spec);
        let specs: Vec<ShardSpec> = specs.filter(|spec| !spec.slots.is_empty()).collect();
        Topology::of_cluster(before, truth.number, &specs).expect("each slot has one owner")
    }

    /// Nodes that may have `key`: its owner, and the target of its migration.
    pub(crate) fn holders(&self, key: &[u8]) -> Vec<usize> {
        let migration = self.migration().filter(|migration| migration.slot == slot(key));
        let target = migration.map(|migration| self.truth.shards[migration.to][0]);
        [self.owner(key)].into_iter().chain(target).collect()
    }

    /// The node that owns `key`.
    pub(crate) fn owner(&self, key: &[u8]) -> usize {
        self.primary_at(slot(key))
    }

    /// The primary that owns `slot`.
    pub(crate) fn primary_at(&self, slot: u16) -> usize {
        self.truth.primary_at(slot)
    }

    /// The first true map, from this number on, in which `node` owned `slot`.
    pub(crate) fn owned_by(&self, slot: u16, node: usize, since: usize) -> Option<usize> {
        let mut later = self.past.iter().enumerate().skip(since);
        later.find(|(_, map)| map.primary_at(slot) == node).map(|(number, _)| number)
    }

    /// The primary and the replica of `shard`.
    pub(crate) fn nodes_of(&self, shard: usize) -> [usize; 2] {
        self.truth.shards[shard]
    }

    /// The primary of `node`, if it is a replica.
    pub(crate) fn primary_of(&self, node: usize) -> Option<usize> {
        self.truth.shards.iter().find(|[_, replica]| *replica == node).map(|[primary, _]| *primary)
    }

    /// The shard that `node` is the primary of.
    pub(crate) fn shard_of_primary(&self, node: usize) -> Option<usize> {
        self.truth.shards.iter().position(|[primary, _]| *primary == node)
    }

    /// Whether `node` is a primary as far as it knows.
    pub(crate) fn believes_to_be_primary(&self, node: usize) -> bool {
        self.map_of(node).shards.iter().any(|[primary, _]| *primary == node)
    }

    /// The replica of `shard` takes the place of the primary. No slot is migrating.
    pub(crate) fn promote(&mut self, shard: usize) {
        let [_, replica] = self.nodes_of(shard);
        self.change([replica; 2], |truth| {
            truth.shards[shard].reverse();
            truth.epochs[shard] = truth.epoch() + 1;
        });
    }

    /// The nodes know, first this `witness`, that `node` has failed, or that it is back. Returns whether that is new.
    pub(crate) fn has_failed(&mut self, node: usize, failed: bool, witness: usize) -> bool {
        let is_news = failed != self.truth.failed.contains(&node);
        if !is_news {
            return false;
        }
        self.change([witness; 2], |truth| match failed {
            true => _ = truth.failed.insert(node),
            false => _ = truth.failed.remove(&node),
        });
        true
    }

    /// Whether the last shard has not joined yet.
    pub(crate) fn awaits_newcomer(&self) -> bool {
        self.truth.joined < self.truth.shards.len()
    }

    /// The last shard joins, without slots. The nodes that must know of it learn so later.
    pub(crate) fn join(&mut self) {
        let newcomer = self.nodes_of(self.truth.joined);
        self.change(newcomer, |truth| truth.joined += 1);
    }

    /// Whether `shard` has joined.
    pub(crate) fn has_joined(&self, shard: usize) -> bool {
        shard < self.truth.joined
    }

    /// The shards that have slots: their primaries vote.
    pub(crate) fn voters(&self) -> Vec<usize> {
        (0..self.truth.joined).filter(|shard| self.truth.owners.contains(shard)).collect()
    }

    /// Begins to move the slot of `key` to another shard, if there is one and no slot is migrating. The target is most often a
    /// shard that has joined.
    pub(crate) fn begin_migration(&mut self, key: &[u8], now: Instant, prng: &mut Prng) {
        let slot = slot(key);
        let from = self.truth.owners[usize::from(slot)];
        let to = match self.newcomer.filter(|shard| self.has_joined(*shard) && prng.one_in(2)) {
            Some(newcomer) => newcomer,
            None => prng.below(self.truth.joined as u64) as usize,
        };
        let comes_back = self.left.get(&(slot, to)).is_some_and(|&left| now.since(left) < AWAY_FOR);
        if self.migration().is_none() && to != from && !comes_back {
            let migration = Migration { slot, from, to };
            self.change(self.ends_of(migration), |truth| truth.migration = Some(migration));
        }
    }

    /// All keys have moved: the slot has another owner.
    pub(crate) fn end_migration(&mut self, now: Instant) {
        if let Some(migration @ Migration { slot, from, to }) = self.migration() {
            self.left.insert((slot, from), now);
            self.change(self.ends_of(migration), |truth| {
                truth.migration = None;
                truth.owners[usize::from(slot)] = to;
                truth.epochs[to] = truth.epoch() + 1;
            });
        }
    }

    /// The source and the target of a migrating slot.
    pub(crate) fn ends_of(&self, migration: Migration) -> [usize; 2] {
        [self.truth.shards[migration.from][0], self.truth.shards[migration.to][0]]
    }

    /// Decides how `node` answers `request`. `queued` has the requests since MULTI. `asking` says whether ASKING came before,
    /// `reads` whether READONLY did.
    pub(crate) fn judge(
        &self,
        node: usize,
        request: &Request<'_>,
        queued: &[u8],
        (asking, reads): (bool, bool),
        ledger: &mut Ledger,
        mut has: impl FnMut(&[u8]) -> bool,
    ) -> Verdict {
        let keys = match request.arg(0).eq_ignore_ascii_case(b"exec") {
            true => keys_of_all(queued),
            false if is_of_channels(request) => channels_of(request),
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
        if self.isolated.contains(&node) {
            return Verdict::Decline(DOWN.to_vec());
        }
        let map = self.map_of(node);
        let [owner, replica] = map.shards[map.owners[usize::from(slot)]];
        let is_exec = request.arg(0).eq_ignore_ascii_case(b"exec");
        if replica == node && reads && !is_exec && !may_write(request) {
            // The node does not know of the migration.
            return Verdict::Serve;
        }
        let migration = map.migration.filter(|migration| migration.slot == slot);
        let ends =
            migration.map(|migration| [migration.from, migration.to].map(|shard| map.shards[shard][0]));
        // A channel is no key: the slot's owner has it while it owns the slot.
        let missing = match is_of_channels(request) {
            true => 0,
            false => keys.iter().filter(|key| !has(key)).count(),
        };
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

impl Map {
    fn primary_at(&self, slot: u16) -> usize {
        self.shards[self.owners[usize::from(slot)]][0]
    }
}

impl Cluster {
    /// A node that has become a replica loads all data anew. It says so in reply to commands on all keys.
    fn judge_keyless(&self, node: usize, request: &Request<'_>) -> Verdict {
        let words = ["keys", "dbsize", "scan", "randomkey", "flushall"];
        let asks_for_all = words.iter().any(|word| request.arg(0).eq_ignore_ascii_case(word.as_bytes()));
        match self.believes_to_be_primary(node) || !asks_for_all {
            _ if asks_for_all && self.isolated.contains(&node) => Verdict::Decline(LOADING.to_vec()),
            true => Verdict::Serve,
            false => Verdict::Decline(LOADING.to_vec()),
        }
    }
}

/// Whether what `request` names are shard channels.
fn is_of_channels(request: &Request<'_>) -> bool {
    let names = ["ssubscribe", "sunsubscribe", "spublish"];
    names.iter().any(|name| request.arg(0).eq_ignore_ascii_case(name.as_bytes()))
}

/// The shard channels in `request`: they belong to slots as keys do.
fn channels_of(request: &Request<'_>) -> Vec<Vec<u8>> {
    let is_message = request.arg(0).eq_ignore_ascii_case(b"spublish");
    let count = if is_message { 1 } else { request.len() };
    request.args().skip(1).take(count).map(<[u8]>::to_vec).collect()
}

const DOWN: &[u8] = b"-CLUSTERDOWN The cluster is down\r\n";
const LOADING: &[u8] = b"-LOADING Redis is loading the dataset in memory\r\n";
const TRY_AGAIN: &[u8] = b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n";

fn line(word: &str, slot: u16, node: usize) -> Vec<u8> {
    format!("-{word} {slot} {}\r\n", address(node).address).into_bytes()
}

pub(crate) fn slot(key: &[u8]) -> u16 {
    slot_of(TagRule::Redis.tag(key))
}

/// Whether a replica does not carry `request` out.
pub(crate) fn may_write(request: &Request<'_>) -> bool {
    match command::resolve(request) {
        Resolved::Command(command) => command.may_write(),
        _ => request.arg(0).eq_ignore_ascii_case(b"stamp.set"),
    }
}

/// The keys in `request`, as far as Redis checks them before it carries it out.
pub(crate) fn keys_of(request: &Request<'_>) -> Vec<Vec<u8>> {
    let mut places = Vec::new();
    match command::resolve(request) {
        Resolved::Command(command) if !command.splits_evenly(request.len()) => {}
        Resolved::Command(command) => _ = command.keys(request, &mut places),
        Resolved::Unknown if request.arg(0).to_ascii_lowercase().starts_with(b"stamp.") => places.push(1),
        Resolved::Unknown | Resolved::WrongArity(_) | Resolved::UnknownSubcommand(_) => {}
    }
    places.into_iter().map(|place| request.arg(place).to_vec()).collect()
}

/// The keys of several requests, one behind the other.
pub(crate) fn keys_of_all(requests: &[u8]) -> Vec<Vec<u8>> {
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
