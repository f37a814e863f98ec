//! The known state of a Redis Cluster, joined from the answers of single nodes. The order of answers does not matter.
//!
//! Each slot is decided for itself, by the config epoch of the primary that claims it, as nodes do among each other
//! (`clusterUpdateSlotsConfigWith` of Redis). A node that takes a slot over, by failover or by resharding, gets an epoch higher
//! than all before. So a node that lags behind, or that is cut off with a minority, can be asked at any time and reverts
//! nothing.
//!
//! The *current* epoch (`cluster_current_epoch`) would not do. A replica that asks for votes in vain raises it on its side with
//! each attempt. And a node can lag behind in one shard and be ahead in another.

use super::View;
use super::cluster_answer::{Answer, Member};
use crate::{Address, NodeSpec, SLOTS, ShardSpec};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The joined map.
#[derive(Debug)]
pub(super) struct ClusterMap {
    /// The highest current epoch that a node with a majority reported.
    epoch: u64,
    nodes: HashMap<Arc<str>, Known>,
    /// One entry for each slot.
    claims: Vec<Option<Claim>>,
}

/// A node.
#[derive(Clone, Debug)]
struct Known {
    address: Option<Address>,
    primary: Option<Arc<str>>,
    epoch: u64,
    is_failed: bool,
}

/// The owner of a slot, and its epoch.
#[derive(Clone, Debug)]
struct Claim {
    owner: Arc<str>,
    epoch: u64,
}

/// The effect of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The answer was joined, as far as it is newer.
    Joined,
    /// The same map, and some of the answer was older than it.
    Outdated,
    /// None of its nodes is one of ours: another cluster's.
    Strange,
}

/// Whether `id` is a node's own name. Before Redis 4, a node that is asked for its name may report an address instead.
fn is_identity(id: &str) -> bool {
    id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Default for ClusterMap {
    fn default() -> Self {
        ClusterMap { epoch: 0, nodes: HashMap::new(), claims: vec![None; usize::from(SLOTS)] }
    }
}

impl ClusterMap {
    /// Whether anything is known.
    pub(super) fn is_known(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Takes over what `answer` knows better.
    pub(super) fn join(&mut self, answer: &Answer) -> Verdict {
        let shares_node = |member: &Member| self.nodes.contains_key(member.id.as_str());
        if self.is_known() && !answer.nodes.iter().any(shares_node) {
            return Verdict::Strange;
        }
        let believed: Vec<&Member> =
            answer.nodes.iter().filter(|member| self.believes(member, answer)).collect();
        let mut lost = 0;
        for member in believed.iter().filter(|member| member.primary.is_none()) {
            lost += self.join_slots(member, answer);
        }
        for member in &believed {
            self.join_node(member);
        }
        let is_outdated = lost > 0 || believed.len() < answer.nodes.len();
        if !is_outdated && self.has_standing(answer) {
            self.forget_all_but(answer);
        }
        if answer.is_ok {
            self.epoch = self.epoch.max(answer.epoch);
        }
        if is_outdated { Verdict::Outdated } else { Verdict::Joined }
    }

    /// Whether the statement of `answer` about one node is at least as new as the known one. A node without slots that was made
    /// a replica by hand has the epoch of its primary. That may be lower than its own was.
    fn believes(&self, member: &Member, answer: &Answer) -> bool {
        let Some(known) = self.nodes.get(member.id.as_str()) else { return true };
        let is_adopted = || {
            member.primary.is_some()
                && known.primary.is_none()
                && self.has_standing(answer)
                && !self.owners().contains(member.id.as_str())
        };
        member.epoch >= known.epoch || is_adopted()
    }

    /// Whether `answer` may deny a known fact: its node sees a majority, and knows all epochs that we know.
    fn has_standing(&self, answer: &Answer) -> bool {
        answer.is_ok && answer.epoch >= self.epoch
    }

    /// Assigns `member` the slots that it rightly claims. Returns the number of slots that others claim with a higher epoch.
    fn join_slots(&mut self, member: &Member, answer: &Answer) -> usize {
        let owner: Arc<str> = self.name(&member.id);
        let mut lost = 0;
        for slot in member.slots.iter().cloned().flatten() {
            let claim = &self.claims[usize::from(slot)];
            if claim.as_ref().is_none_or(|claim| self.yields(claim, member, answer)) {
                self.claims[usize::from(slot)] =
                    Some(Claim { owner: Arc::clone(&owner), epoch: member.epoch });
            } else {
                lost += 1;
            }
        }
        lost
    }

    /// Whether `claim` yields to the statement of `answer` that its slot is `member`'s.
    fn yields(&self, claim: &Claim, member: &Member, answer: &Answer) -> bool {
        if *claim.owner == *member.id || member.epoch >= claim.epoch {
            return true;
        }
        // A lower epoch is right in two cases. The owner itself says that it has not got the slot. Or the cluster has forgotten
        // the owner, and the slot was given away by hand. A node whose epoch is below that of the claim has not forgotten the
        // owner, but never heard of it.
        match answer.nodes.iter().find(|other| *other.id == *claim.owner) {
            Some(owner) => owner.is_asked && owner.epoch >= claim.epoch,
            None => self.has_standing(answer) && answer.epoch >= claim.epoch,
        }
    }

    fn join_node(&mut self, member: &Member) {
        let name = self.name(&member.id);
        let primary = member.primary.as_ref().map(|primary| self.name(primary));
        let before = self.nodes.get(&name).map_or(0, |known| known.epoch);
        let known = Known {
            address: member.address.clone(),
            primary,
            epoch: member.epoch.max(before),
            is_failed: member.is_failed,
        };
        self.nodes.insert(name, known);
    }

    /// The one copy of a node's name that is shared.
    fn name(&self, id: &str) -> Arc<str> {
        self.nodes.get_key_value(id).map_or_else(|| Arc::from(id), |(name, _)| Arc::clone(name))
    }

    fn owners(&self) -> HashSet<&str> {
        self.runs().map(|(_, claim)| &*claim.owner).collect()
    }

    /// Slots in a row that have one owner.
    fn runs(&self) -> impl Iterator<Item = (RangeInclusive<u16>, &Claim)> {
        let mut first = 0;
        let has_same = |one: &Option<Claim>, other: &Option<Claim>| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(&one.owner, &other.owner) || one.owner == other.owner,
            (one, other) => one.is_none() && other.is_none(),
        };
        self.claims.chunk_by(has_same).filter_map(move |run| {
            let range = first..=first + (run.len() - 1) as u16;
            first += run.len() as u16;
            run[0].as_ref().map(|claim| (range, claim))
        })
    }

    /// Forgets nodes that the cluster has forgotten. The owner of a slot stays until another node takes it.
    fn forget_all_but(&mut self, answer: &Answer) {
        let kept: HashSet<&str> = answer.nodes.iter().map(|member| member.id.as_str()).collect();
        let owners: HashSet<String> = self.owners().into_iter().map(str::to_owned).collect();
        self.nodes.retain(|name, _| kept.contains(&**name) || owners.contains(&**name));
    }

    /// All shards that have slots, by their first slot, and behind them the primaries that have none. The latter may be about
    /// to get some, and then the others name them (`ASK`) before they have any.
    pub(super) fn view(&self) -> View {
        let mut slots: BTreeMap<&str, Vec<RangeInclusive<u16>>> = BTreeMap::new();
        for (run, claim) in self.runs() {
            let ranges = slots.entry(self.heir(&claim.owner)).or_default();
            match ranges.last_mut().filter(|range| range.end() + 1 == *run.start()) {
                Some(range) => *range = *range.start()..=*run.end(),
                None => ranges.push(run),
            }
        }
        let mut newcomers = if slots.is_empty() { Vec::new() } else { self.newcomers() };
        newcomers.retain(|id| !slots.contains_key(id));
        let mut shards: Vec<ShardSpec> =
            slots.into_iter().map(|(owner, slots)| self.shard(owner, slots)).collect();
        shards.sort_by_key(|shard| *shard.slots[0].start());
        shards.extend(newcomers.into_iter().map(|id| self.shard(id, Vec::new())));
        let epoch = self.claims.iter().flatten().map(|claim| claim.epoch).max();
        View { epoch: epoch.unwrap_or_default(), shards }
    }

    /// Primaries that are reachable and have not failed, by their names.
    fn newcomers(&self) -> Vec<&str> {
        let is_one = |known: &Known| known.primary.is_none() && known.address.is_some() && !known.is_failed;
        let mut ids: Vec<&str> =
            self.nodes.iter().filter(|(_, known)| is_one(known)).map(|(id, _)| &**id).collect();
        ids.sort_unstable();
        ids
    }

    /// The node that has the slots of `owner`. For a moment after a failover the old primary may already be known as a replica,
    /// while the new one's slots are not known yet.
    fn heir<'a>(&'a self, owner: &'a str) -> &'a str {
        self.nodes.get(owner).and_then(|known| known.primary.as_deref()).unwrap_or(owner)
    }

    fn shard(&self, owner: &str, slots: Vec<RangeInclusive<u16>>) -> ShardSpec {
        let node = |id: &Arc<str>, known: &Known| {
            let identity = is_identity(id).then(|| Arc::clone(id));
            known.address.as_ref().map(|address| NodeSpec { identity, ..NodeSpec::at(address.clone()) })
        };
        let primary = self.nodes.get_key_value(owner).and_then(|(id, known)| node(id, known));
        let name = primary.as_ref().map_or_else(|| owner.to_owned(), NodeSpec::label);
        let mut replicas: Vec<NodeSpec> = self
            .nodes
            .iter()
            .filter(|(id, known)| &***id != owner && known.primary.as_deref() == Some(owner))
            .filter(|(_, known)| !known.is_failed)
            .filter_map(|(id, known)| node(id, known))
            .collect();
        replicas.sort_by_key(NodeSpec::label);
        ShardSpec { name, primary, replicas, slots }
    }

    /// Whether a primary with slots has failed by the view of a majority.
    pub(super) fn has_failed_primary(&self) -> bool {
        let has_failed = |owner: &str| self.nodes.get(self.heir(owner)).is_none_or(|known| known.is_failed);
        self.owners().into_iter().any(has_failed)
    }

    /// The addresses of all nodes that can be asked.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.nodes.values().filter_map(|known| known.address.as_ref())
    }

    /// Whether one of them is there.
    pub(super) fn has_address(&self, address: &Address) -> bool {
        self.addresses().any(|other| other == address)
    }
}
