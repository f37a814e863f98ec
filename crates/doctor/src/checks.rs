//! The table of the checks. Each looks at the answers of all nodes and finds one kind of trouble.

mod layout;
mod limits;
mod process;
mod rights;
mod times;

use crate::facts::Facts;
use crate::finding::{Finding, Severity};
use topology::TopologySpec;

/// The flags of the set-up, as far as checks need them, and facts of this machine.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The nodes, and where keys go.
    pub spec: TopologySpec,
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

/// The nodes that have answered.
fn answered(facts: &[Facts]) -> impl Iterator<Item = &Facts> {
    facts.iter().filter(|facts| facts.fault.is_none())
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
    use crate::testing::{setup, well};

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
        assert_eq!(after(|node| set(node, "run_id", "run0")), [("same-process", Error)]);
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
