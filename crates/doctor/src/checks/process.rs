//! Checks of which processes the nodes are, and how they are.

use super::{Setup, Source, about, answered, differing, general, listed};
use crate::facts::Facts;
use crate::finding::{Finding, Severity};
use topology::discovery::is_no_cluster;

pub(super) fn unreachable(setup: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let fault = |node: &Facts| {
        let reason = node.fault.as_deref()?;
        let cure = match () {
            () if reason.starts_with("NOAUTH") && node.member.is_sentinel() => {
                "name the file with its password: --sentinel-auth-file=PATH"
            }
            () if reason.starts_with("NOAUTH") => "name the file with its password: --node-auth-file=PATH",
            () if reason.starts_with("WRONGPASS") => {
                "compare --node-auth-file and --node-user with the users of the node"
            }
            () if node.member.is_sentinel() => {
                "start it, or take it off --sentinel; then SENTINEL RESET at the others"
            }
            () if setup.source == Source::Cluster => {
                "start it, or have it announce an address that this machine can reach: cluster-announce-ip, -port"
            }
            () if setup.source != Source::Nodes => {
                "start it, or have it announce an address that this machine can reach: replica-announce-ip, -port"
            }
            () if reason.contains("refused") => "start the node, or correct its port in --nodes",
            () => "try `redis-cli -h HOST -p PORT PING` from this machine",
        };
        let effect = match node.member.is_sentinel() {
            true => "fewer sentinels can tell where primaries are",
            false => "requests for its keys fail",
        };
        Some(about(node, Severity::Error, format!("it cannot be asked: {reason}"), effect, cure))
    };
    facts.iter().filter_map(fault).collect()
}

pub(super) fn same_process(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let nodes: Vec<&Facts> = answered(facts).collect();
    let twin = |(at, node): (usize, &&Facts)| {
        let id = node.info("run_id")?;
        let other = nodes[..at].iter().find(|other| other.info("run_id") == Some(id))?;
        let found = format!("it is the same process as {}", other.member.address);
        let effect = "one node has the keys of two; after it is named once, most keys seem to be gone";
        Some(about(node, Severity::Error, found, effect, "name each process once in --nodes"))
    };
    nodes.iter().enumerate().filter_map(twin).collect()
}

pub(super) fn role(setup: &Setup, facts: &[Facts]) -> Vec<Finding> {
    match setup.source {
        Source::Nodes => {}
        Source::Cluster => return Vec::new(),
        Source::Sentinels(_) => return role_of_watched(facts),
    }
    let wrong = |node: &Facts| match (node.info("role")?, node.member.is_replica) {
        ("slave", false) => {
            let primary = match (node.info("master_host"), node.info("master_port")) {
                (Some(host), Some(port)) => format!("of {host}:{port}"),
                _ => "of another node".to_owned(),
            };
            let cure = "name its primary in its place, and itself behind it: primary|replica";
            let found = format!("it is a replica {primary}, and is named as a primary");
            Some(about(node, Severity::Error, found, "writes for its keys are refused (READONLY)", cure))
        }
        ("master", true) => {
            let found = "it is a primary, and is named as a replica".to_owned();
            let effect = "it is never read from, or answers with other data";
            let cure = "make it a replica (REPLICAOF), or name it as a shard of its own";
            Some(about(node, Severity::Error, found, effect, cure))
        }
        _ => None,
    };
    answered(facts).filter_map(wrong).collect()
}

/// The nodes whose role is another than sentinels say.
fn role_of_watched(facts: &[Facts]) -> Vec<Finding> {
    let wrong = |node: &Facts| {
        let is_replica = node.info("role")? == "slave";
        if is_replica == node.member.is_replica {
            return None;
        }
        let name = |is_replica| if is_replica { "a replica" } else { "a primary" };
        let found =
            format!("it is {}, and sentinels call it {}", name(is_replica), name(node.member.is_replica));
        let effect = "its shard gets no writes until both agree";
        let cure = "during a failover, ask again a minute later; else compare ROLE with what sentinels say";
        Some(about(node, Severity::Error, found, effect, cure))
    };
    answered(facts).filter_map(wrong).collect()
}

pub(super) fn cluster_node(setup: &Setup, facts: &[Facts]) -> Vec<Finding> {
    if setup.source == Source::Cluster {
        return no_cluster_node(facts);
    }
    let in_cluster = answered(facts).filter(|node| node.info("cluster_enabled") == Some("1"));
    let finding = |node: &Facts| {
        let found = "it is a node of a Redis Cluster, and is named as a plain node".to_owned();
        let cure = format!("discover the cluster: --cluster={} in place of --nodes", node.member.address);
        let effect = "most requests are refused with MOVED, as the cluster places keys its own way";
        about(node, Severity::Error, found, effect, cure)
    };
    in_cluster.map(finding).collect()
}

fn no_cluster_node(facts: &[Facts]) -> Vec<Finding> {
    let finding = |node: &Facts| {
        let reason = node.cluster.as_ref()?.as_ref().err().filter(|reason| is_no_cluster(reason))?;
        let found = format!("it is no node of a Redis Cluster: {reason}");
        let effect = "shardis learns no slots from it";
        Some(about(
            node,
            Severity::Error,
            found,
            effect,
            "name plain nodes with --nodes, or correct --cluster",
        ))
    };
    answered(facts).filter_map(finding).collect()
}

pub(super) fn loading(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let loads = answered(facts).filter(|node| node.info("loading") == Some("1"));
    let finding = |node: &Facts| {
        let rest = node.info("loading_eta_seconds").map_or_else(String::new, |eta| format!(", {eta} s left"));
        let found = format!("it loads its data{rest}");
        about(node, Severity::Warning, found, "requests for its keys fail (LOADING)", "wait until it is done")
    };
    loads.map(finding).collect()
}

pub(super) fn bgsave(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let failed = answered(facts).filter(|node| node.info("rdb_last_bgsave_status") == Some("err"));
    let finding = |node: &Facts| {
        let found = "its last background save failed".to_owned();
        let effect = "writes are refused (MISCONF), as stop-writes-on-bgsave-error says by default";
        let cure = "read its log; most often the disk is full, or fork needs vm.overcommit_memory=1";
        about(node, Severity::Error, found, effect, cure)
    };
    failed.map(finding).collect()
}

pub(super) fn versions<'a>(_: &Setup, facts: &'a [Facts]) -> Vec<Finding> {
    // Valkey tells besides with which version of Redis it is compatible.
    let version = |node: &'a Facts| node.info("valkey_version").or_else(|| node.info("redis_version"));
    let Some(values) = differing(facts, version) else {
        return Vec::new();
    };
    let effect = "a command may work for some keys and fail for others";
    let found = format!("versions differ: {}", listed(&values));
    vec![general(Severity::Warning, found, effect, "upgrade the older nodes")]
}
