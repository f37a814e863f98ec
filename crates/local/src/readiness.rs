//! Readiness of nodes, and the creation of a Redis Cluster: by questions to them, without redis-cli.

use super::layout::{Job, Layout, Shape, set_name};
use super::question::ask;
use anyhow::{Context, Result};

/// Whether the node at `port` serves.
pub(super) fn answers(port: u16) -> Result<bool> {
    Ok(ask(port, &["PING"])?.text() == "PONG")
}

/// Whether all shards answer behind the proxy at `port`.
pub(super) fn all_shards_answer(port: u16) -> Result<bool> {
    ask(port, &["DBSIZE"]).map(|_| true)
}

/// Whether the node at `port` is a primary, or a replica that has all of its primary's data.
pub(super) fn is_linked(port: u16) -> Result<bool> {
    let info = ask(port, &["INFO", "replication"])?;
    Ok(info.field("role").as_deref() == Some("master")
        || info.field("master_link_status").as_deref() == Some("up"))
}

/// The port of the primary of the node at `port`, if that is a replica.
pub(super) fn primary_of(port: u16) -> Result<Option<u16>> {
    let info = ask(port, &["INFO", "replication"])?;
    if info.field("role").as_deref() == Some("master") {
        return Ok(None);
    }
    let primary = info.field("master_port").context("a replica names its primary")?;
    Ok(Some(primary.parse()?))
}

/// Whether the sentinel at `port` knows all replicas of every set, and the other sentinels.
pub(super) fn sentinel_is_ready(port: u16, layout: &Layout) -> Result<bool> {
    let members = layout.shape.members();
    let sentinels = members.iter().filter(|member| member.job == Job::Sentinel).count();
    for shard in 0..layout.shape.shards() {
        let replicas = members
            .iter()
            .filter(|member| matches!(member.job, Job::Replica { shard: of, .. } if of == shard))
            .count();
        let set = ask(port, &["SENTINEL", "MASTER", &set_name(shard)])?;
        // After a failover of an earlier start the old primary is counted as a replica.
        let is_complete = set.number("num-slaves")? >= replicas
            && set.number("num-other-sentinels")? + 1 == sentinels
            && set.entry("flags").as_deref() == Some("master");
        if !is_complete {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Introduces new nodes to each other and assigns the slots. The next step is [`know_each_other`].
pub(super) fn introduce(layout: &Layout) -> Result<()> {
    let first = layout.ports[0].to_string();
    for (index, (member, port)) in layout.members().enumerate() {
        // Different epochs from the start: with equal ones the nodes would have to agree on them first.
        ask(port, &["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        if let Job::Primary { shard } = member.job {
            // ADDSLOTSRANGE would be shorter, but servers before 7.0 do not have it.
            let slots: Vec<String> = layout.shape.slots(shard).map(|slot| slot.to_string()).collect();
            let words: Vec<&str> =
                ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
            ask(port, &words)?;
        }
        if index > 0 {
            ask(port, &["CLUSTER", "MEET", "127.0.0.1", &first])?;
        }
    }
    Ok(())
}

/// Whether every node has heard of every other.
pub(super) fn know_each_other(layout: &Layout) -> Result<bool> {
    for port in &layout.ports {
        let info = ask(*port, &["CLUSTER", "INFO"])?;
        if info.field("cluster_known_nodes") != Some(layout.ports.len().to_string()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes replicas of those that are to be.
pub(super) fn replicate(layout: &Layout) -> Result<()> {
    for (member, port) in layout.members() {
        if let Job::Replica { primary, .. } = member.job {
            let id = ask(layout.ports[primary], &["CLUSTER", "MYID"])?.text();
            ask(port, &["CLUSTER", "REPLICATE", &id])?;
        }
    }
    Ok(())
}

/// Whether every node serves all slots, and sees all primaries and all replicas.
pub(super) fn cluster_is_ready(layout: &Layout) -> Result<bool> {
    let Shape::Cluster { nodes } = layout.shape else { return Ok(true) };
    let replicas = usize::from(nodes) - layout.shape.shards();
    for &port in &layout.ports {
        if ask(port, &["CLUSTER", "INFO"])?.field("cluster_state").as_deref() != Some("ok")
            || !is_linked(port)?
        {
            return Ok(false);
        }
        let table = ask(port, &["CLUSTER", "NODES"])?.text();
        let flags = table.lines().filter_map(|line| line.split_whitespace().nth(2));
        let mut seen = 0;
        for flags in flags {
            if flags.contains("fail") || flags.contains("handshake") {
                return Ok(false);
            }
            seen += usize::from(flags.contains("slave"));
        }
        if seen != replicas {
            return Ok(false);
        }
    }
    Ok(true)
}
