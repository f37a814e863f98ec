//! Checks of a Redis Cluster: what its nodes say of each other.

use super::{Setup, about, answered, differing, general, listed};
use crate::facts::Facts;
use crate::finding::{Finding, Severity};
use topology::SLOTS;
use topology::discovery::{Answer, Member};

/// Addresses that are named in one finding.
const NAMED_MAX: usize = 3;

/// A node's view of its cluster.
type View<'a> = (&'a Facts, &'a Answer);

fn views(facts: &[Facts]) -> impl Iterator<Item = View<'_>> {
    answered(facts).filter_map(|node| Some((node, node.view()?)))
}

/// The newest view: the one with the highest epoch.
fn newest(facts: &[Facts]) -> Option<View<'_>> {
    // Of equals the first.
    views(facts).reduce(|best, view| if view.1.epoch > best.1.epoch { view } else { best })
}

fn name_of(member: &Member) -> String {
    member.address.as_ref().map_or_else(|| member.id.clone(), ToString::to_string)
}

fn primaries(view: &Answer) -> impl Iterator<Item = &Member> {
    view.nodes.iter().filter(|node| node.primary.is_none())
}

fn slots_of(member: &Member) -> usize {
    member.slots.iter().map(ExactSizeIterator::len).sum()
}

fn replicas_of<'a>(view: &'a Answer, primary: &'a Member) -> impl Iterator<Item = &'a Member> {
    view.nodes.iter().filter(|node| node.primary.as_ref() == Some(&primary.id) && !node.is_failed)
}

/// The id of the owner of each slot.
fn owners(view: &Answer) -> Vec<Option<&str>> {
    let mut owners = vec![None; SLOTS.into()];
    for node in &view.nodes {
        for slot in node.slots.iter().cloned().flatten() {
            owners[usize::from(slot)] = Some(node.id.as_str());
        }
    }
    owners
}

/// Some of `names`, and how many more there are.
fn named(names: &[String]) -> String {
    let some = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len() - names.len().min(NAMED_MAX) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

pub(super) fn slots_uncovered(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let Some((node, view)) = newest(facts) else { return Vec::new() };
    let owners = owners(view);
    let without: Vec<usize> = (0..owners.len()).filter(|slot| owners[*slot].is_none()).collect();
    let Some(first) = without.first() else { return Vec::new() };
    let found =
        format!("{} slots have no owner (the first is {first}), says {}", without.len(), node.member.address);
    let effect =
        "requests for their keys fail (CLUSTERDOWN); with cluster-require-full-coverage yes all requests do";
    let cure =
        "redis-cli --cluster fix HOST:PORT, or CLUSTER ADDSLOTSRANGE at the node that should have them";
    vec![general(Severity::Error, found, effect, cure)]
}

pub(super) fn slots_disputed(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let Some((best, newest)) = newest(facts) else { return Vec::new() };
    let expected = owners(newest);
    let finding = |(node, view): View<'_>| {
        let owners = owners(view);
        let other: Vec<usize> = (0..owners.len()).filter(|slot| owners[*slot] != expected[*slot]).collect();
        let first = other.first()?;
        let found = format!(
            "it gives {} slots (the first is {first}) to other nodes than {} does",
            other.len(),
            best.member.address
        );
        let effect = "requests for their keys are redirected to and fro (MOVED), or answered by two nodes";
        let cure = "during a failover or resharding, ask again a minute later; else redis-cli --cluster fix";
        Some(about(node, Severity::Error, found, effect, cure))
    };
    views(facts).filter_map(finding).collect()
}

pub(super) fn cluster_epoch(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let Some((_, newest)) = newest(facts) else { return Vec::new() };
    let finding = |(node, view): View<'_>| {
        let found = format!("its epoch is {}, that of others {}", view.epoch, newest.epoch);
        let effect = "it has not heard of the last failovers or moves of slots";
        let cure =
            "ask again a minute later; if it stays behind, check its connections to the bus (port + 10000)";
        about(node, Severity::Warning, found, effect, cure)
    };
    views(facts).filter(|(_, view)| view.epoch < newest.epoch).map(finding).collect()
}

pub(super) fn cluster_state(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |(node, _): View<'_>| {
        let found = "it says cluster_state:fail".to_owned();
        let effect = "it refuses requests (CLUSTERDOWN)";
        let cure = "see slots-uncovered and failing-node; it needs a majority of the primaries and, by default, all slots";
        about(node, Severity::Error, found, effect, cure)
    };
    views(facts).filter(|(_, view)| !view.is_ok).map(finding).collect()
}

pub(super) fn failing_node(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let Some((_, newest)) = newest(facts) else { return Vec::new() };
    let failed = newest.nodes.iter().filter(|node| node.is_failed);
    let finding = |node: &Member| {
        let has_slots = slots_of(node) > 0;
        let (severity, effect) = match has_slots {
            true => (Severity::Error, "requests for its slots fail until a replica is promoted"),
            false => (
                Severity::Warning,
                "its shard has a replica less, or a slot-less node is remembered for ever",
            ),
        };
        let cure = "start it; if it is gone for good, CLUSTER FORGET it at all nodes";
        let found = "a majority of the cluster says that it has failed".to_owned();
        Finding { node: name_of(node), ..general(severity, found, effect, cure) }
    };
    failed.map(finding).chain(suspected(facts)).collect()
}

/// Nodes that others cannot reach, without a majority that agrees.
fn suspected(facts: &[Facts]) -> impl Iterator<Item = Finding> {
    views(facts).filter_map(|(node, view)| {
        let suspects: Vec<String> =
            view.nodes.iter().filter(|node| node.is_suspected && !node.is_failed).map(name_of).collect();
        (!suspects.is_empty()).then(|| {
            let found = format!("it cannot reach {}", named(&suspects));
            let effect = "a failover may follow, or this node is cut off from others";
            let cure = "check the network between both, also port + 10000 of the bus";
            about(node, Severity::Warning, found, effect, cure)
        })
    })
}

pub(super) fn handshake(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |(node, view): View<'_>| {
        let found = format!("{} nodes have not shaken hands with it", view.handshakes);
        let effect = "they are not in the cluster, though somebody told it of them (CLUSTER MEET, gossip)";
        let cure = "open port + 10000 of the bus between them; check cluster-announce-ip and -bus-port";
        about(node, Severity::Warning, found, effect, cure)
    };
    views(facts).filter(|(_, view)| view.handshakes > 0).map(finding).collect()
}

pub(super) fn no_replica(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let Some((_, view)) = newest(facts) else { return Vec::new() };
    let is_alone = |node: &&Member| slots_of(node) > 0 && replicas_of(view, node).next().is_none();
    let alone: Vec<String> = primaries(view).filter(is_alone).map(name_of).collect();
    if alone.is_empty() {
        return Vec::new();
    }
    let found = format!("{} primaries have no replica: {}", alone.len(), named(&alone));
    let effect = "after the loss of such a node its keys are gone, and its slots fail";
    let cure = "add a node and make it a replica: redis-cli --cluster add-node NEW OLD --cluster-slave";
    vec![general(Severity::Warning, found, effect, cure)]
}

pub(super) fn same_host(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let Some((_, view)) = newest(facts) else { return Vec::new() };
    let host = |node: &Member| match &node.address {
        Some(topology::Address::Tcp { host, .. }) => Some(host.clone()),
        _ => None,
    };
    let is_together = |node: &&Member| {
        let mut replicas = replicas_of(view, node).peekable();
        replicas.peek().is_some()
            && host(node).is_some()
            && replicas.all(|replica| host(replica) == host(node))
    };
    let together: Vec<String> = primaries(view).filter(is_together).map(name_of).collect();
    if together.is_empty() {
        return Vec::new();
    }
    let found =
        format!("all replicas of {} primaries are at their hosts: {}", together.len(), named(&together));
    let effect = "the loss of that machine takes a shard and its copies";
    vec![general(Severity::Note, found, effect, "move a replica of each to another machine")]
}

pub(super) fn full_coverage(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let name = "cluster-require-full-coverage";
    let cure = "CONFIG SET cluster-require-full-coverage no, at all nodes, if the other shards should go on";
    setting(facts, name, "yes", "the loss of one shard stops the whole cluster", cure)
}

pub(super) fn reads_when_down(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let name = "cluster-allow-reads-when-down";
    let effect = "a node that is cut off answers reads with old data";
    setting(facts, name, "yes", effect, "CONFIG SET cluster-allow-reads-when-down no, unless this is meant")
}

/// A note if all nodes have `value`, a warning if they differ.
fn setting(
    facts: &[Facts],
    name: &str,
    value: &str,
    effect: &'static str,
    cure: &'static str,
) -> Vec<Finding> {
    let of_node = |node: &'_ Facts| node.config.get(name).cloned();
    if let Some(values) = differing(facts, |node| node.config.get(name).map(String::as_str)) {
        let found = format!("{name} differs: {}", listed(&values));
        return vec![general(Severity::Warning, found, effect, cure)];
    }
    match answered(facts).filter_map(of_node).any(|there| there == value) {
        true => vec![general(Severity::Note, format!("{name} is {value}"), effect, cure)],
        false => Vec::new(),
    }
}

pub(super) fn uneven_slots(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let Some((_, view)) = newest(facts) else { return Vec::new() };
    let primaries: Vec<&Member> = primaries(view).filter(|node| !node.is_failed).collect();
    let most = primaries.iter().max_by_key(|node| slots_of(node));
    let least = primaries.iter().min_by_key(|node| slots_of(node));
    let (Some(most), Some(least)) = (most, least) else { return Vec::new() };
    // A tenth is of no weight beside hot keys.
    if slots_of(most) * 4 <= slots_of(least) * 5 + 4 {
        return Vec::new();
    }
    let found = format!(
        "{} has {} slots, and {} has {}",
        name_of(most),
        slots_of(most),
        name_of(least),
        slots_of(least)
    );
    let effect = "load and memory are as uneven as the slots";
    vec![general(
        Severity::Note,
        found,
        effect,
        "redis-cli --cluster rebalance HOST:PORT, unless this is meant",
    )]
}
