//! Checks whether keys are where this layout looks for them, and which other layout would find them.

use super::{Setup, Source, general};
use crate::facts::Facts;
use crate::finding::{Finding, Severity};
use std::str::FromStr;
use topology::{Distribution, HashFunction, ShardId, TagRule, Topology, TopologySpec};

/// Keys with which other layouts are tried.
const TRIED_MAX: usize = 2_000;
/// Layouts that are named.
const NAMED_MAX: usize = 3;
/// With fewer keys a layout can fit by chance.
const TRIED_MIN: usize = 20;

/// Misplaced keys that may be left over from an older layout, however small the sample is.
const LEFT_OVER_MAX: usize = 1;
/// The share of misplaced keys from which the layout is taken for another one.
const FEW_PERCENT: usize = 5;

const DISTRIBUTIONS: [Distribution; 3] = [Distribution::Modulo, Distribution::Modula, Distribution::Ketama];
const TAG_RULES: [&str; 6] = ["none", "{}", "redis", "sml", "perl", "codis"];

pub(super) fn layout(setup: &Setup, facts: &[Facts]) -> Vec<Finding> {
    if setup.source == Source::Cluster {
        // The cluster itself refuses keys of other slots.
        return Vec::new();
    }
    let Ok(topology) = Topology::new(1, &setup.spec) else { return Vec::new() };
    let keys: Vec<(usize, &[u8])> = facts
        .iter()
        .filter(|node| !node.member.is_replica)
        .flat_map(|node| node.keys.iter().map(|key| (node.member.shard, key.as_slice())))
        .collect();
    let misplaced = misplaced(&topology, &keys);
    if misplaced == 0 {
        return Vec::new();
    }
    let found = format!(
        "{misplaced} of {} sampled keys ({:.1} %) are at another node than {} looks for them",
        keys.len(),
        misplaced as f64 * 100.0 / keys.len() as f64,
        topology.describe()
    );
    // A few are left over from an older layout, or were written past the proxy.
    let is_few = misplaced <= LEFT_OVER_MAX || misplaced * 100 < FEW_PERCENT * keys.len();
    let severity = if is_few { Severity::Warning } else { Severity::Error };
    vec![general(severity, found, "clients do not find these keys", cure(setup, &keys, is_few))]
}

fn misplaced(topology: &Topology, keys: &[(usize, &[u8])]) -> usize {
    keys.iter().filter(|(shard, key)| topology.shard_of(key) != ShardId(*shard as u32)).count()
}

fn cure(setup: &Setup, keys: &[(usize, &[u8])], is_few: bool) -> String {
    if is_few {
        return "delete or move them; something wrote them past this layout".to_owned();
    }
    let found = if keys.len() < TRIED_MIN { Vec::new() } else { fitting(setup, keys) };
    match found.is_empty() {
        true => "no layout that shardis knows fits: compare the order, names and weights of the nodes with \
             those of the program that wrote the keys"
            .to_owned(),
        false => format!("a layout that fits all: {}", found.join(", or ")),
    }
}

/// The flags of layouts that find all keys.
fn fitting(setup: &Setup, keys: &[(usize, &[u8])]) -> Vec<String> {
    // Evenly over all nodes.
    let tried: Vec<_> = keys.iter().step_by(keys.len().div_ceil(TRIED_MAX)).copied().collect();
    let fits =
        |spec: &TopologySpec| Topology::new(1, spec).is_ok_and(|topology| misplaced(&topology, &tried) == 0);
    let found = candidates(setup).filter(|(spec, _)| fits(spec)).map(|(_, flags)| flags);
    found.take(NAMED_MAX).collect()
}

/// All layouts over the same nodes, with their flags.
fn candidates(setup: &Setup) -> impl Iterator<Item = (TopologySpec, String)> {
    let nodes = &setup.spec.nodes;
    let slots =
        TopologySpec { nodes: nodes.clone(), distribution: Distribution::Slots, ..TopologySpec::default() };
    let hashed = DISTRIBUTIONS.into_iter().flat_map(move |distribution| {
        HashFunction::names().flat_map(move |hash| {
            TAG_RULES.into_iter().filter_map(move |tag_rule| {
                let spec = TopologySpec {
                    nodes: nodes.clone(),
                    distribution,
                    hash: Some(HashFunction::from_str(hash).ok()?),
                    tag_rule: Some(TagRule::from_str(tag_rule).ok()?),
                };
                Some((spec, format!("--distribution={distribution} --hash={hash} --tag-rule={tag_rule}")))
            })
        })
    });
    std::iter::once((slots, "--distribution=slots".to_owned())).chain(hashed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{setup, well};

    /// Two nodes with 100 keys, of which the last `others` were placed by `distribution`.
    fn placed(distribution: Distribution, others: usize) -> Vec<Facts> {
        let (ours, mut facts) = (setup(), well());
        let ring = TopologySpec {
            distribution,
            hash: Some(HashFunction::from_str("fnv1a_64").expect("valid")),
            tag_rule: Some(TagRule::from_str("none").expect("valid")),
            ..ours.spec.clone()
        };
        let layouts = [&ours.spec, &ring].map(|spec| Topology::new(1, spec).expect("valid"));
        for number in 0..100 {
            let key = format!("user:{number}").into_bytes();
            let topology = &layouts[usize::from(number >= 100 - others)];
            facts[topology.shard_of(&key).0 as usize].keys.push(key);
        }
        facts
    }

    #[test]
    fn keys_at_their_places_are_no_finding() {
        assert_eq!(layout(&setup(), &placed(Distribution::Ketama, 0)), []);
    }

    #[test]
    fn one_key_of_a_small_sample_is_a_warning() {
        let mut facts = placed(Distribution::Ketama, 0);
        let mut keys: Vec<_> =
            facts.iter_mut().map(|node| node.keys.drain(..).take(2).collect::<Vec<_>>()).collect();
        let stray = keys[0].pop().expect("a key");
        keys[1].push(stray);
        facts.iter_mut().zip(keys).for_each(|(node, keys)| node.keys = keys);
        let findings = layout(&setup(), &facts);
        assert_eq!(findings[0].severity, Severity::Warning);
        assert!(findings[0].found.starts_with("1 of 4 sampled keys (25.0 %) "), "{}", findings[0].found);
    }

    #[test]
    fn a_few_keys_elsewhere_are_a_warning() {
        let findings = layout(&setup(), &placed(Distribution::Ketama, 6));
        assert_eq!(findings[0].severity, Severity::Warning);
    }

    #[test]
    fn the_layout_that_placed_the_keys_is_named() {
        let findings = layout(&setup(), &placed(Distribution::Ketama, 100));
        assert_eq!(findings[0].severity, Severity::Error);
        let flags = "--distribution=ketama --hash=fnv1a_64 --tag-rule=none";
        assert!(findings[0].cure.contains(flags), "{}", findings[0].cure);
    }

    #[test]
    fn keys_without_any_order_fit_no_layout() {
        let mut facts = placed(Distribution::Ketama, 0);
        let [one, other] = &mut facts[..] else { panic!("two nodes") };
        std::mem::swap(&mut one.keys, &mut other.keys);
        let half = one.keys.split_off(one.keys.len() / 2);
        other.keys.extend(half);
        assert!(layout(&setup(), &facts)[0].cure.starts_with("no layout"));
    }
}
