//! Checks of sentinels: whether they agree with each other, and can fail over.

use super::{Setup, Source, about, general};
use crate::facts::{Facts, Kind};
use crate::finding::{Finding, Severity};
use crate::watch::Watch;
use std::collections::{BTreeMap, BTreeSet};

/// Fewer cannot agree on anything while one of them is lost.
const SENTINELS_MIN: usize = 3;
/// Within this time of silence a node is usually just busy.
const DOWN_AFTER_MS_MIN: u64 = 1_000;
/// After a longer time clients have noticed long ago.
const DOWN_AFTER_MS_MAX: u64 = 60_000;

/// Sentinels that have answered.
fn sentinels(facts: &[Facts]) -> impl Iterator<Item = &Facts> {
    facts.iter().filter(|facts| facts.member.is_sentinel() && facts.fault.is_none())
}

/// The names of the primaries, in the order of the flags.
fn names(facts: &[Facts]) -> &[String] {
    let names = facts.iter().find_map(|facts| match &facts.member.kind {
        Kind::Sentinel { names } => Some(&**names),
        _ => None,
    });
    names.unwrap_or_default()
}

/// The answers of all sentinels that watch `name`.
fn watches<'a>(facts: &'a [Facts], name: &'a str) -> impl Iterator<Item = (&'a Facts, &'a Watch)> {
    sentinels(facts).flat_map(move |sentinel| {
        let of_name =
            sentinel.watches.iter().filter(move |watch| watch.name == name && watch.primary.is_some());
        of_name.map(move |watch| (sentinel, watch))
    })
}

/// Findings for each name.
fn per_name(facts: &[Facts], find: impl Fn(&str) -> Option<Finding>) -> Vec<Finding> {
    names(facts).iter().filter_map(|name| find(name)).collect()
}

/// The values of the sentinels about `name`, if there are several.
fn differing(facts: &[Facts], name: &str, value: impl Fn(&Watch) -> Option<String>) -> Option<String> {
    let mut values: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (sentinel, watch) in watches(facts, name) {
        if let Some(value) = value(watch) {
            values.entry(value).or_default().push(&sentinel.member.address);
        }
    }
    let listed = values.iter().map(|(value, sentinels)| format!("{value} ({})", sentinels.join(", ")));
    (values.len() > 1).then(|| listed.collect::<Vec<_>>().join("; "))
}

pub(super) fn not_sentinel(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |sentinel: &Facts| {
        let fault = sentinel.watches.iter().find_map(|watch| watch.fault.as_deref())?;
        let found = format!("it does not answer as a sentinel: {fault}");
        let cure = "name sentinels (most often port 26379); plain nodes are named with --nodes";
        Some(about(sentinel, Severity::Error, found, "shardis learns nothing from it", cure))
    };
    sentinels(facts).filter_map(finding).collect()
}

pub(super) fn unknown_name(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let lacks = |sentinel: &Facts| {
        let unknown =
            sentinel.watches.iter().filter(|watch| watch.primary.is_none() && watch.fault.is_none());
        let unknown: Vec<&str> = unknown.map(|watch| watch.name.as_str()).collect();
        (!unknown.is_empty()).then(|| {
            let found = format!("it watches no primary called {}", unknown.join(", "));
            let effect = "it cannot say where that shard is; if no sentinel can, its keys have no node";
            let cure = "compare --master with SENTINEL MASTERS; SENTINEL MONITOR NAME HOST PORT QUORUM";
            about(sentinel, Severity::Error, found, effect, cure)
        })
    };
    sentinels(facts).filter_map(lacks).collect()
}

pub(super) fn primary_disputed(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    per_name(facts, |name| {
        let values = differing(facts, name, |watch| watch.primary.as_ref().map(ToString::to_string))?;
        let found = format!("sentinels disagree on the primary of {name}: {values}");
        let effect = "proxies and clients of different sentinels write to different nodes";
        let cure = "during a failover, ask again a minute later; else SENTINEL RESET at those with the older config-epoch";
        Some(general(Severity::Error, found, effect, cure))
    })
}

/// The number of sentinels that watch `name`, as the best informed one says.
fn count(facts: &[Facts], name: &str) -> Option<usize> {
    watches(facts, name).map(|(_, watch)| watch.fellows.len() + 1).max()
}

pub(super) fn few_sentinels(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    per_name(facts, |name| {
        let count = count(facts, name).filter(|&count| count < SENTINELS_MIN)?;
        let found = format!("{name} is watched by {count} sentinels, fewer than {SENTINELS_MIN}");
        let effect = "the loss of one machine may end all failovers, since a majority is needed";
        Some(general(Severity::Warning, found, effect, "run three or more sentinels on separate machines"))
    })
}

pub(super) fn quorum(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |name: &str| {
        let count = count(facts, name)?;
        let of_all = watches(facts, name).filter_map(|(_, watch)| watch.number("quorum"));
        let (least, most) = of_all.fold((u64::MAX, 0), |(least, most), one| (least.min(one), most.max(one)));
        let cure = format!("SENTINEL SET {name} quorum {}, at all sentinels", count / 2 + 1);
        if most > count as u64 {
            let found = format!("the quorum of {name} is {most}, and there are {count} sentinels");
            return Some(general(Severity::Error, found, "a failover never starts", cure));
        }
        if let Some(fault) = watches(facts, name).find_map(|(_, watch)| watch.quorum_fault.as_deref()) {
            let found = format!("sentinels of {name} cannot fail over now: {fault}");
            return Some(general(
                Severity::Error,
                found,
                "a lost primary is not replaced",
                "start the lost sentinels",
            ));
        }
        if least != most && most > 0 {
            let found = format!("the quorum of {name} differs: {least} to {most}");
            let effect = "a failover starts at some sentinels earlier than at others";
            return Some(general(Severity::Warning, found, effect, cure));
        }
        (most == 1 && count > 1).then(|| {
            let found = format!("the quorum of {name} is 1");
            let effect = "one sentinel that is cut off from the primary alone starts a failover";
            general(Severity::Warning, found, effect, cure)
        })
    };
    per_name(facts, finding)
}

pub(super) fn timeouts(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |name: &str| {
        let number = |field: &str| watches(facts, name).filter_map(|(_, watch)| watch.number(field)).max();
        let (down_after, failover) = (number("down-after-milliseconds")?, number("failover-timeout")?);
        let warning =
            |found: String, effect, cure: String| Some(general(Severity::Warning, found, effect, cure));
        for field in ["down-after-milliseconds", "failover-timeout"] {
            if let Some(values) = differing(facts, name, |watch| watch.fields.get(field).cloned()) {
                let found = format!("{field} of {name} differs: {values}");
                let cure = format!("SENTINEL SET {name} {field} VALUE, the same at all sentinels");
                return warning(found, "sentinels judge the same silence differently", cure);
            }
        }
        let set = |field: &str, value: &str| format!("SENTINEL SET {name} {field} {value}");
        match () {
            () if down_after < DOWN_AFTER_MS_MIN => warning(
                format!("down-after-milliseconds of {name} is {down_after}"),
                "a busy primary is taken for a dead one",
                set("down-after-milliseconds", "5000"),
            ),
            () if down_after > DOWN_AFTER_MS_MAX => warning(
                format!("down-after-milliseconds of {name} is {down_after}"),
                "requests fail for so long before a failover starts",
                set("down-after-milliseconds", "5000"),
            ),
            () if failover < down_after => warning(
                format!(
                    "failover-timeout of {name} is {failover} ms, shorter than down-after-milliseconds ({down_after})"
                ),
                "failovers are given up before they are done",
                set("failover-timeout", "180000"),
            ),
            () => None,
        }
    };
    per_name(facts, finding)
}

pub(super) fn primary_down(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    per_name(facts, |name| {
        let says_down = |watch: &Watch| watch.has_flag("s_down") || watch.has_flag("o_down");
        let down: Vec<&str> = watches(facts, name)
            .filter(|(_, watch)| says_down(watch))
            .map(|(sentinel, _)| sentinel.member.address.as_str())
            .collect();
        (!down.is_empty()).then(|| {
            let found = format!("the primary of {name} is down, say {}", down.join(", "));
            let effect = "requests for its keys fail; with a quorum, a failover follows";
            general(
                Severity::Error,
                found,
                effect,
                "start it, or see why no failover happens: quorum, replicas",
            )
        })
    })
}

pub(super) fn replicas(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    per_name(facts, |name| {
        let usable = |watch: &Watch| watch.replicas.iter().filter(|peer| !peer.is_down).count();
        let most = watches(facts, name).map(|(_, watch)| usable(watch)).max()?;
        let known = watches(facts, name).map(|(_, watch)| watch.replicas.len()).max()?;
        let cure = "REPLICAOF at a spare node; SENTINEL RESET for replicas that are gone for good";
        if most == 0 {
            let found = format!("{name} has no replica that could be promoted, of {known} known ones");
            return Some(general(Severity::Warning, found, "a lost primary is not replaced", cure));
        }
        let values = differing(facts, name, |watch| Some(usable(watch).to_string()));
        if let Some(values) = values {
            let found = format!("sentinels disagree on the usable replicas of {name}: {values}");
            return Some(general(Severity::Note, found, "a sentinel may promote a worse one", cure));
        }
        (most < known).then(|| {
            let found = format!("{} of {known} replicas of {name} are down", known - most);
            general(Severity::Warning, found, "fewer nodes can take over or answer reads", cure)
        })
    })
}

pub(super) fn unnamed(setup: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let Source::Sentinels(named) = &setup.source else { return Vec::new() };
    let others =
        facts.iter().filter(|facts| facts.member.is_sentinel() && !named.contains(&facts.member.place));
    // A sentinel has one address, the announced one, which a name in the flags need not be.
    let others: BTreeSet<&str> = others.map(|facts| facts.member.address.as_str()).collect();
    let all = facts.iter().filter(|facts| facts.member.is_sentinel()).count();
    if all <= named.len() || others.is_empty() {
        return Vec::new();
    }
    let others: Vec<&str> = others.into_iter().collect();
    let found = format!("--sentinel lacks {}", others.join(", "));
    let effect = "after the loss of the named ones, shardis cannot start or follow failovers";
    vec![general(Severity::Note, found, effect, "name all sentinels in --sentinel")]
}
