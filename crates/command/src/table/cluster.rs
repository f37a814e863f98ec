//! Redis Cluster.

use crate::carry::Carry;
use crate::carry::Carry::{AnyShard, Container};
use crate::command::{Command, container, row};
use crate::table::later;

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("asking", 1, "fast", "connection", &[], CLUSTER_PROTOCOL),
    container("cluster", -2, "", "", Container, CLUSTER),
    row("readonly", 1, "loading stale fast", "connection", &[], REPLICA_READS),
    row("readwrite", 1, "loading stale fast", "connection", &[], REPLICA_READS),
];

#[rustfmt::skip] // A command is a line.
static CLUSTER: &[Command] = &[
    row("cluster|addslots", -3, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|addslotsrange", -4, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|bumpepoch", 2, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL)
        .tips("nondeterministic_output"),
    row("cluster|count-failure-reports", 3, "admin stale", "", &[], CLUSTER_PROTOCOL)
        .tips("nondeterministic_output"),
    row("cluster|countkeysinslot", 3, "stale", "", &[], CLUSTER_PROTOCOL),
    row("cluster|delslots", -3, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|delslotsrange", -4, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|failover", -2, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|flushslots", 2, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|forget", 3, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|getkeysinslot", 4, "stale", "", &[], CLUSTER_PROTOCOL).tips("nondeterministic_output"),
    row("cluster|help", 2, "loading stale", "", &[], AnyShard),
    row("cluster|info", 2, "stale", "", &[], CLUSTER_PROTOCOL).tips("nondeterministic_output"),
    row("cluster|keyslot", 3, "stale", "", &[], CLUSTER_PROTOCOL),
    row("cluster|links", 2, "stale", "", &[], CLUSTER_PROTOCOL).tips("nondeterministic_output"),
    row("cluster|meet", -4, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|myid", 2, "stale", "", &[], CLUSTER_PROTOCOL),
    row("cluster|nodes", 2, "stale", "", &[], CLUSTER_PROTOCOL).tips("nondeterministic_output"),
    row("cluster|replicas", 3, "admin stale", "", &[], CLUSTER_PROTOCOL).tips("nondeterministic_output"),
    row("cluster|replicate", 3, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|reset", -2, "admin noscript stale", "", &[], CLUSTER_PROTOCOL),
    row("cluster|saveconfig", 2, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|set-config-epoch", 3, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|setslot", -4, "admin stale no_async_loading", "", &[], CLUSTER_PROTOCOL),
    row("cluster|shards", 2, "stale", "", &[], CLUSTER_PROTOCOL).tips("nondeterministic_output"),
    row("cluster|slaves", 3, "admin stale", "", &[], CLUSTER_PROTOCOL).tips("nondeterministic_output"),
    row("cluster|slots", 2, "stale", "", &[], CLUSTER_PROTOCOL).tips("nondeterministic_output"),
];

const REPLICA_READS: Carry = later("reads from replicas");
const CLUSTER_PROTOCOL: Carry = later("the cluster protocol");
