//! Checks of limits and settings.

use super::{Setup, about, answered, differing, general, listed};
use crate::facts::Facts;
use crate::finding::{Finding, Severity};

/// File descriptors that shardis needs beside those of clients.
const FILES_BESIDE: u64 = 256;

pub(super) fn databases(setup: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |node: &Facts| {
        let there = node.setting("databases").filter(|&there| there < setup.databases.into())?;
        let found = format!("it has {there} databases, and clients are promised {}", setup.databases);
        let cure = format!("--databases={there}, or `databases {}` in its configuration", setup.databases);
        Some(about(node, Severity::Error, found, "SELECT of a higher one fails at this node", cure))
    };
    answered(facts).filter_map(finding).collect()
}

pub(super) fn idle_timeout(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |node: &Facts| {
        let seconds = node.setting("timeout").filter(|&seconds| seconds > 0)?;
        let found = format!("it closes connections that are idle for {seconds} s");
        let effect = "a request that is on its way then may fail; connections are made again and again";
        Some(about(
            node,
            Severity::Warning,
            found,
            effect,
            "CONFIG SET timeout 0 (dead peers are found by tcp-keepalive)",
        ))
    };
    answered(facts).filter_map(finding).collect()
}

pub(super) fn maxmemory(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let effect = "some shards evict or refuse writes while others have room";
    let found = |name: &'static str| {
        let values = differing(facts, |node| node.config.get(name).map(String::as_str))?;
        let found = format!("{name} differs: {}", listed(&values));
        Some(general(Severity::Warning, found, effect, format!("give all nodes one {name} (CONFIG SET)")))
    };
    ["maxmemory", "maxmemory-policy"].into_iter().filter_map(found).collect()
}

pub(super) fn memory_full(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |node: &Facts| {
        let max = node.setting("maxmemory").filter(|&max| max > 0)?;
        let used: u64 = node.info("used_memory")?.parse().ok()?;
        let evicts = node.config.get("maxmemory-policy").is_some_and(|policy| policy != "noeviction");
        let percent = used.saturating_mul(100) / max;
        if evicts || percent < 90 {
            return None;
        }
        let found = format!("{percent} % of maxmemory is used, and nothing is evicted");
        let cure = "raise maxmemory, or choose a maxmemory-policy that evicts";
        Some(about(node, Severity::Warning, found, "writes fail soon (OOM)", cure))
    };
    answered(facts).filter_map(finding).collect()
}

pub(super) fn maxclients(setup: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |node: &Facts| {
        let there = node.setting("maxclients").filter(|&there| there < setup.conns_per_node as u64)?;
        let found = format!("it takes {there} connections, and shardis may open {}", setup.conns_per_node);
        let effect = "blocking and large commands are refused under load";
        let cure = format!("CONFIG SET maxclients {}, or fewer --workers", setup.conns_per_node * 2);
        Some(about(node, Severity::Warning, found, effect, cure))
    };
    answered(facts).filter_map(finding).collect()
}

pub(super) fn open_files(setup: &Setup, _: &[Facts]) -> Vec<Finding> {
    let needed = setup.clients_max as u64 + FILES_BESIDE;
    let Some(files) = setup.files_max.filter(|&files| files < needed) else { return Vec::new() };
    let found =
        format!("{} clients need some {needed} file descriptors, and {files} are allowed", setup.clients_max);
    let cure = format!(
        "ulimit -n {needed}, or LimitNOFILE={needed} in the unit of systemd, or a smaller --maxclients"
    );
    vec![general(Severity::Warning, found, "further clients are refused", cure)]
}

pub(super) fn huge_pages(setup: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let has_node_here = answered(facts).any(|node| node.member.is_here);
    if !setup.has_huge_pages || !has_node_here {
        return Vec::new();
    }
    let found = "transparent huge pages are always on, on this machine, where nodes run".to_owned();
    let effect = "after a fork for a save, a write copies 2 MiB: latency and memory rise";
    let cure = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    vec![general(Severity::Note, found, effect, cure)]
}
