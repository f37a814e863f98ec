//! The table of the checks. Each looks at the answers of all nodes and finds one kind of trouble.

mod cluster;
mod layout;
mod limits;
mod process;
mod rights;
mod sentinel;
mod times;

use crate::facts::Facts;
use crate::finding::{Finding, Severity};
use topology::{Address, TopologySpec};

/// The flags that name the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// `--nodes`.
    #[default]
    Nodes,
    /// `--cluster`.
    Cluster,
    /// `--sentinel`, with these addresses.
    Sentinels(Vec<Address>),
}

/// The flags of the set-up, as far as checks need them, and facts of this machine.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The nodes, and where keys go. With sentinels the shards, without where they are; with a cluster none.
    pub spec: TopologySpec,
    /// The flags that name the nodes.
    pub source: Source,
    /// Databases that clients may choose.
    pub databases: u16,
    /// Clients that shardis is to have.
    pub clients_max: usize,
    /// Connections that shardis opens to one node at most.
    pub conns_per_node: usize,
    /// File descriptors that this process may have; `None` if there is no limit.
    pub files_max: Option<u64>,
    /// Whether transparent huge pages are always on, here.
    pub has_huge_pages: bool,
}

/// A check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its stable name.
    pub name: &'static str,
    /// The worst that it finds.
    pub worst: Severity,
    find: fn(&Setup, &[Facts]) -> Vec<Finding>,
}

/// All checks, in the order of the report. docs/doctor.md explains each.
pub const CHECKS: &[Check] = &[
    check("unreachable", Severity::Error, process::unreachable),
    check("same-process", Severity::Error, process::same_process),
    check("role", Severity::Error, process::role),
    check("cluster-node", Severity::Error, process::cluster_node),
    check("slots-uncovered", Severity::Error, cluster::slots_uncovered),
    check("slots-disputed", Severity::Error, cluster::slots_disputed),
    check("cluster-state", Severity::Error, cluster::cluster_state),
    check("failing-node", Severity::Error, cluster::failing_node),
    check("cluster-epoch", Severity::Warning, cluster::cluster_epoch),
    check("handshake", Severity::Warning, cluster::handshake),
    check("no-replica", Severity::Warning, cluster::no_replica),
    check("full-coverage", Severity::Warning, cluster::full_coverage),
    check("reads-when-down", Severity::Warning, cluster::reads_when_down),
    check("same-host", Severity::Note, cluster::same_host),
    check("uneven-slots", Severity::Note, cluster::uneven_slots),
    check("not-sentinel", Severity::Error, sentinel::not_sentinel),
    check("unknown-name", Severity::Error, sentinel::unknown_name),
    check("primary-disputed", Severity::Error, sentinel::primary_disputed),
    check("primary-down", Severity::Error, sentinel::primary_down),
    check("quorum", Severity::Error, sentinel::quorum),
    check("few-sentinels", Severity::Warning, sentinel::few_sentinels),
    check("failover-times", Severity::Warning, sentinel::timeouts),
    check("sentinel-replicas", Severity::Warning, sentinel::replicas),
    check("unnamed-sentinels", Severity::Note, sentinel::unnamed),
    check("layout", Severity::Error, layout::layout),
    check("databases", Severity::Error, limits::databases),
    check("rights", Severity::Error, rights::rights),
    check("loading", Severity::Warning, process::loading),
    check("bgsave", Severity::Error, process::bgsave),
    check("versions", Severity::Warning, process::versions),
    check("idle-timeout", Severity::Warning, limits::idle_timeout),
    check("maxmemory", Severity::Warning, limits::maxmemory),
    check("memory-full", Severity::Warning, limits::memory_full),
    check("maxclients", Severity::Warning, limits::maxclients),
    check("open-files", Severity::Warning, limits::open_files),
    check("clock", Severity::Warning, times::clock),
    check("latency", Severity::Warning, times::latency),
    check("huge-pages", Severity::Note, limits::huge_pages),
    check("config-hidden", Severity::Note, rights::config_hidden),
];

const fn check(name: &'static str, worst: Severity, find: fn(&Setup, &[Facts]) -> Vec<Finding>) -> Check {
    Check { name, worst, find }
}

/// The findings of all checks, the worst first.
pub fn findings(setup: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let found = CHECKS.iter().flat_map(|check| {
        let named = move |finding| Finding { check: check.name, ..finding };
        (check.find)(setup, facts).into_iter().map(named)
    });
    let mut findings: Vec<Finding> = found.collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// A finding about a node. The name of the check is filled in later.
fn about(
    node: &Facts,
    severity: Severity,
    found: String,
    effect: &'static str,
    cure: impl Into<String>,
) -> Finding {
    Finding { node: node.member.address.clone(), ..general(severity, found, effect, cure) }
}

/// A finding about several nodes.
fn general(severity: Severity, found: String, effect: &'static str, cure: impl Into<String>) -> Finding {
    Finding { check: "", severity, node: String::new(), found, effect, cure: cure.into() }
}

/// The nodes that have answered, without sentinels.
fn answered(facts: &[Facts]) -> impl Iterator<Item = &Facts> {
    facts.iter().filter(|facts| facts.fault.is_none() && !facts.member.is_sentinel())
}

/// The values that nodes have, each with the nodes that have it, if there is more than one value.
fn differing<'a>(
    facts: &'a [Facts],
    value: impl Fn(&'a Facts) -> Option<&'a str>,
) -> Option<Vec<(&'a str, Vec<&'a str>)>> {
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for node in answered(facts) {
        let Some(value) = value(node) else { continue };
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, nodes)) => nodes.push(&node.member.address),
            None => values.push((value, vec![&node.member.address])),
        }
    }
    (values.len() > 1).then_some(values)
}

/// The values as text, each with some of its nodes.
fn listed(values: &[(&str, Vec<&str>)]) -> String {
    const NAMED_MAX: usize = 3;
    let one = |(value, nodes): &(&str, Vec<&str>)| {
        let named = nodes[..nodes.len().min(NAMED_MAX)].join(", ");
        match nodes.len() - nodes.len().min(NAMED_MAX) {
            0 => format!("{value} ({named})"),
            more => format!("{value} ({named} and {more} more)"),
        }
    };
    values.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cluster, place, sentinels, setup, well};
    use crate::watch::Watch;
    use topology::discovery::Answer;

    fn names(setup: &Setup, facts: &[Facts]) -> Vec<(&'static str, Severity)> {
        findings(setup, facts).iter().map(|finding| (finding.check, finding.severity)).collect()
    }

    /// The findings after a change of the second node.
    fn after(change: impl Fn(&mut Facts)) -> Vec<(&'static str, Severity)> {
        let mut facts = well();
        change(&mut facts[1]);
        names(&setup(), &facts)
    }

    fn set(facts: &mut Facts, name: &str, value: &str) {
        facts.info.insert(name.to_owned(), value.to_owned());
    }

    fn configure(facts: &mut Facts, name: &str, value: &str) {
        facts.config.insert(name.to_owned(), value.to_owned());
    }

    #[test]
    fn nodes_that_are_well_have_no_findings() {
        assert_eq!(names(&setup(), &well()), []);
    }

    #[test]
    fn each_trouble_is_found_alone() {
        use Severity::{Error, Note, Warning};
        assert_eq!(after(|node| node.fault = Some("connection refused".into())), [("unreachable", Error)]);
        assert_eq!(after(|node| set(node, "run_id", "run of 10.0.0.1:6379")), [("same-process", Error)]);
        assert_eq!(after(|node| set(node, "role", "slave")), [("role", Error)]);
        assert_eq!(after(|node| node.member.is_replica = true), [("role", Error)]);
        assert_eq!(after(|node| set(node, "cluster_enabled", "1")), [("cluster-node", Error)]);
        assert_eq!(after(|node| configure(node, "databases", "4")), [("databases", Error)]);
        assert_eq!(after(|node| node.lacks = vec!["GET".into()]), [("rights", Error)]);
        assert_eq!(after(|node| node.tells_rights = false), [("rights", Note)]);
        assert_eq!(after(|node| set(node, "loading", "1")), [("loading", Warning)]);
        assert_eq!(after(|node| set(node, "rdb_last_bgsave_status", "err")), [("bgsave", Error)]);
        assert_eq!(after(|node| set(node, "redis_version", "6.2.6")), [("versions", Warning)]);
        assert_eq!(after(|node| configure(node, "timeout", "300")), [("idle-timeout", Warning)]);
        assert_eq!(after(|node| configure(node, "maxmemory-policy", "noeviction")), [("maxmemory", Warning)]);
        assert_eq!(after(|node| configure(node, "maxmemory", "2000000")), [("maxmemory", Warning)]);
        assert_eq!(after(|node| configure(node, "maxclients", "10")), [("maxclients", Warning)]);
        assert_eq!(after(|node| node.clock_ahead_us = Some(3_000_000)), [("clock", Warning)]);
        assert_eq!(after(|node| node.pings_us = vec![30_000; 100]), [("latency", Warning)]);
        assert_eq!(after(|node| node.config.clear()), [("config-hidden", Note)]);
    }

    /// The findings after a change of the view of the second node of a cluster, or of all nodes.
    fn after_view(is_of_all: bool, change: impl Fn(&mut Answer)) -> Vec<(&'static str, Severity)> {
        let (setup, mut facts) = cluster();
        for (at, node) in facts.iter_mut().enumerate() {
            if let Some(Ok(view)) = &mut node.cluster
                && (is_of_all || at == 1)
            {
                change(view);
            }
        }
        names(&setup, &facts)
    }

    #[test]
    fn each_trouble_of_a_cluster_is_found_alone() {
        use Severity::{Error, Note, Warning};
        assert_eq!(after_view(true, |_| ()), []);
        assert_eq!(
            after_view(true, |view| view.nodes[0].slots = vec![1..=8191]),
            [("slots-uncovered", Error)]
        );
        let moved = |view: &mut Answer| {
            view.nodes[0].slots = vec![0..=8190];
            view.nodes[1].slots = vec![8191..=16383];
        };
        assert_eq!(after_view(false, moved), [("slots-disputed", Error)]);
        assert_eq!(after_view(false, |view| view.is_ok = false), [("cluster-state", Error)]);
        assert_eq!(after_view(false, |view| view.epoch = 4), [("cluster-epoch", Warning)]);
        assert_eq!(after_view(false, |view| view.handshakes = 1), [("handshake", Warning)]);
        assert_eq!(after_view(false, |view| view.nodes[0].is_suspected = true), [("failing-node", Warning)]);
        let found = after_view(true, |view| view.nodes[2].is_failed = true);
        assert_eq!(found, [("failing-node", Warning), ("no-replica", Warning)]);
        assert_eq!(after_view(true, |view| view.nodes[0].is_failed = true), [("failing-node", Error)]);
        let together = |view: &mut Answer| view.nodes[2].address = Some(place("10.0.0.1:7001"));
        assert_eq!(after_view(true, together), [("same-host", Note)]);
        let uneven = |view: &mut Answer| {
            view.nodes[0].slots = vec![0..=4000];
            view.nodes[1].slots = vec![4001..=16383];
        };
        assert_eq!(after_view(true, uneven), [("uneven-slots", Note)]);
    }

    #[test]
    fn settings_of_a_cluster_are_judged_by_all_nodes() {
        use Severity::{Error, Note, Warning};
        let (setup, mut facts) = cluster();
        configure(&mut facts[0], "cluster-require-full-coverage", "yes");
        assert_eq!(names(&setup, &facts), [("full-coverage", Warning)]);
        for node in &mut facts {
            configure(node, "cluster-require-full-coverage", "yes");
            configure(node, "cluster-allow-reads-when-down", "yes");
        }
        assert_eq!(names(&setup, &facts), [("full-coverage", Note), ("reads-when-down", Note)]);
        let (_, mut facts) = cluster();
        facts[1].cluster = Some(Err("ERR This instance has cluster support disabled".to_owned()));
        assert_eq!(names(&setup, &facts), [("cluster-node", Error)]);
        facts[1].cluster = Some(Err("NOPERM no permissions".to_owned()));
        assert_eq!(names(&setup, &facts), [("rights", Error)]);
        let (_, mut facts) = cluster();
        facts[3].fault = Some("no answer in time".to_owned());
        let found = findings(&setup, &facts);
        assert!(
            found[0].check == "unreachable" && found[0].cure.contains("cluster-announce-ip"),
            "{found:?}"
        );
    }

    /// The findings after a change of the answers of the first sentinel, or of all.
    fn after_watch(is_of_all: bool, change: impl Fn(&mut Watch)) -> Vec<(&'static str, Severity)> {
        let (setup, mut facts) = sentinels();
        for sentinel in &mut facts[..if is_of_all { 3 } else { 1 }] {
            change(&mut sentinel.watches[0]);
        }
        names(&setup, &facts)
    }

    #[test]
    fn each_trouble_of_sentinels_is_found_alone() {
        use Severity::{Error, Note, Warning};
        let field = |name: &'static str, value: &'static str| {
            move |watch: &mut Watch| drop(watch.fields.insert(name.to_owned(), value.to_owned()))
        };
        assert_eq!(after_watch(true, |_| ()), []);
        let fault = |watch: &mut Watch| {
            (watch.primary, watch.fault) = (None, Some("ERR unknown command".to_owned()));
        };
        assert_eq!(after_watch(false, fault), [("not-sentinel", Error)]);
        assert_eq!(after_watch(false, |watch| watch.primary = None), [("unknown-name", Error)]);
        let other = |watch: &mut Watch| watch.primary = Some(place("10.0.0.2:6379"));
        assert_eq!(after_watch(false, other), [("primary-disputed", Error)]);
        assert_eq!(after_watch(false, field("flags", "master,s_down")), [("primary-down", Error)]);
        assert_eq!(after_watch(true, field("quorum", "4")), [("quorum", Error)]);
        assert_eq!(after_watch(false, field("quorum", "3")), [("quorum", Warning)]);
        assert_eq!(after_watch(true, field("quorum", "1")), [("quorum", Warning)]);
        let lost = |watch: &mut Watch| watch.quorum_fault = Some("NOQUORUM 1 usable".to_owned());
        assert_eq!(after_watch(false, lost), [("quorum", Error)]);
        assert_eq!(after_watch(true, |watch| watch.fellows.truncate(1)), [("few-sentinels", Warning)]);
        for (name, value) in [
            ("down-after-milliseconds", "100"),
            ("down-after-milliseconds", "90000"),
            ("failover-timeout", "1000"),
        ] {
            assert_eq!(
                after_watch(true, field(name, value)),
                [("failover-times", Warning)],
                "{name} {value}"
            );
        }
        assert_eq!(after_watch(false, field("failover-timeout", "9000")), [("failover-times", Warning)]);
        assert_eq!(after_watch(true, |watch| watch.replicas.clear()), [("sentinel-replicas", Warning)]);
        assert_eq!(after_watch(false, |watch| watch.replicas.clear()), [("sentinel-replicas", Note)]);
        let (setup, facts) = sentinels();
        let two = Setup { source: Source::Sentinels(vec![facts[0].member.place.clone()]), ..setup };
        assert_eq!(names(&two, &facts), [("unnamed-sentinels", Note)]);
    }

    #[test]
    fn a_primary_of_sentinels_that_is_a_replica_is_found() {
        let (setup, mut facts) = sentinels();
        set(&mut facts[3], "role", "slave");
        let found = findings(&setup, &facts);
        assert_eq!(names(&setup, &facts), [("role", Severity::Error)]);
        assert!(found[0].cure.contains("sentinels"), "{found:?}");
    }

    #[test]
    fn memory_is_full_only_if_nothing_is_evicted() {
        let mut facts = well();
        for node in &mut facts {
            set(node, "used_memory", "950000");
        }
        assert_eq!(names(&setup(), &facts), []);
        for node in &mut facts {
            configure(node, "maxmemory-policy", "noeviction");
        }
        assert_eq!(names(&setup(), &facts), [("memory-full", Severity::Warning); 2]);
    }

    #[test]
    fn few_files_and_huge_pages_are_found() {
        let few = Setup { files_max: Some(100), ..setup() };
        assert_eq!(names(&few, &well()), [("open-files", Severity::Warning)]);
        let mut facts = well();
        facts[0].member.is_here = true;
        let huge = Setup { has_huge_pages: true, ..setup() };
        assert_eq!(names(&huge, &facts), [("huge-pages", Severity::Note)]);
    }

    #[test]
    fn the_page_explains_each_check() {
        let page = include_str!("../../../docs/doctor.md");
        for Check { name, worst, .. } in CHECKS {
            let start = format!("| `{name}` | {} |", worst.name());
            assert!(page.contains(&start), "docs/doctor.md lacks {start}");
        }
    }
}
