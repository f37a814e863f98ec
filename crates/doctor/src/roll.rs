//! The members to ask. Those of a cluster, and those that sentinels watch, are learned from each answer.

use crate::facts::{Facts, Kind, Member};
use std::collections::HashSet;
use topology::Address;

/// Members that are asked at most; further ones are left out. No cluster has more than a thousand nodes.
pub(crate) const MEMBERS_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub struct Roll {
    /// Members that were listed.
    known: HashSet<Address>,
    /// Members that a node or a sentinel named.
    announced: HashSet<Address>,
}

impl Roll {
    /// The roll that begins with `members` of the flags.
    pub fn new(members: &[Member]) -> Roll {
        let known = members.iter().map(|member| member.place.clone()).collect();
        Roll { known, announced: HashSet::new() }
    }

    /// Members that `facts` names and that are not on the roll yet.
    pub fn newcomers(&mut self, facts: &Facts) -> Vec<Member> {
        let named = match &facts.member.kind {
            Kind::Node => Vec::new(),
            Kind::ClusterNode { .. } => of_cluster(facts),
            Kind::Sentinel { .. } => of_sentinel(facts),
        };
        let mut newcomers = Vec::new();
        for member in named {
            self.announced.insert(member.place.clone());
            if self.known.len() < MEMBERS_MAX && self.known.insert(member.place.clone()) {
                newcomers.push(member);
            }
        }
        newcomers
    }

    /// `facts` without members that were asked twice: at an address of the flags, and at another that the others announce.
    pub fn settle(&self, facts: Vec<Facts>) -> Vec<Facts> {
        let is_double = |at: usize, one: &Facts| {
            let is_same =
                |other: &Facts| other.info("run_id").is_some() && other.info("run_id") == one.info("run_id");
            let others = facts.iter().enumerate().filter(|(other, _)| *other != at);
            !self.announced.contains(&one.member.place)
                && others
                    .filter(|(_, other)| self.announced.contains(&other.member.place))
                    .any(|(_, other)| is_same(other))
        };
        let doubles: HashSet<usize> =
            facts.iter().enumerate().filter(|(at, one)| is_double(*at, one)).map(|(at, _)| at).collect();
        facts.into_iter().enumerate().filter(|(at, _)| !doubles.contains(at)).map(|(_, one)| one).collect()
    }
}

fn of_cluster(facts: &Facts) -> Vec<Member> {
    let nodes = facts.view().into_iter().flat_map(|view| &view.nodes);
    let addresses = nodes.filter_map(|node| node.address.clone());
    addresses.map(|address| Member::new(address, facts.member.kind.clone())).collect()
}

/// The other sentinels, primaries and replicas.
fn of_sentinel(facts: &Facts) -> Vec<Member> {
    let mut members = Vec::new();
    for (shard, watch) in facts.watches.iter().enumerate() {
        let node = |address: &Address, is_replica| Member {
            shard,
            is_replica,
            ..Member::new(address.clone(), Kind::Node)
        };
        members.extend(watch.primary.iter().map(|address| node(address, false)));
        let replicas = watch.replicas.iter().filter(|peer| Some(&peer.address) != watch.primary.as_ref());
        members.extend(replicas.map(|peer| node(&peer.address, true)));
        let fellow = |address: &Address| Member::new(address.clone(), facts.member.kind.clone());
        members.extend(watch.fellows.iter().map(|peer| fellow(&peer.address)));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cluster, sentinels};

    fn addresses(members: &[Member]) -> Vec<&str> {
        members.iter().map(|member| member.address.as_str()).collect()
    }

    #[test]
    fn nodes_of_a_cluster_are_learned_once() {
        let (_, facts) = cluster();
        let mut roll = Roll::new(&[facts[0].member.clone()]);
        let newcomers = roll.newcomers(&facts[0]);
        assert_eq!(addresses(&newcomers), ["10.0.0.2:7000", "10.0.0.3:7000", "10.0.0.4:7000"]);
        assert_eq!(newcomers[0].kind, facts[0].member.kind);
        assert_eq!(roll.newcomers(&facts[1]), []);
    }

    #[test]
    fn sentinels_name_fellows_primaries_and_replicas() {
        let (_, facts) = sentinels();
        let mut roll = Roll::new(&[facts[0].member.clone()]);
        let newcomers = roll.newcomers(&facts[0]);
        assert_eq!(
            addresses(&newcomers),
            ["10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.12:26379", "10.0.0.13:26379"]
        );
        let kinds: Vec<_> =
            newcomers.iter().map(|member| (member.is_replica, member.is_sentinel())).collect();
        assert_eq!(kinds, [(false, false), (true, false), (false, true), (false, true)]);
    }

    #[test]
    fn a_seed_at_another_name_counts_once() {
        let (_, mut facts) = cluster();
        let mut roll = Roll::new(&[]);
        roll.newcomers(&facts[0]);
        let mut seed = facts[0].clone();
        seed.member =
            Member::new("localhost:7000".parse::<topology::NodeSpec>().expect("valid").address, Kind::Node);
        facts.insert(0, seed);
        let settled = roll.settle(facts);
        assert_eq!(settled.len(), 4);
        assert_eq!(settled[0].member.address, "10.0.0.1:7000");
    }

    #[test]
    fn members_beyond_the_limit_are_left_out() {
        let (_, mut facts) = cluster();
        let Some(Ok(view)) = &mut facts[0].cluster else { panic!("a view") };
        let template = view.nodes[1].clone();
        for port in 1..=MEMBERS_MAX as u16 + 10 {
            let address = Address::Tcp { host: "10.1.0.1".to_owned(), port };
            view.nodes.push(topology::discovery::Member { address: Some(address), ..template.clone() });
        }
        let mut roll = Roll::new(&[facts[0].member.clone()]);
        assert_eq!(roll.newcomers(&facts[0]).len(), MEMBERS_MAX - 1);
    }
}
