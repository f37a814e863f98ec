//! Redis Cluster.

use crate::carry::Carry::{Container, Here};
use crate::carry::{Carry, ClusterQuestion, Local};
use crate::command::{Command, container, row};
use crate::since::Since;
use crate::table::never;

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("asking", 1, "fast", "connection", &[], Here(Local::Accepted)),
    container("cluster", -2, "", "", Container, CLUSTER),
    row("readonly", 1, "loading stale fast", "connection", &[], Here(Local::ReplicaReads(true))),
    row("readwrite", 1, "loading stale fast", "connection", &[], Here(Local::ReplicaReads(false))),
];

#[rustfmt::skip] // A command is a line.
static CLUSTER: &[Command] = &[
    row("cluster|addslots", -3, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|addslotsrange", -4, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|bumpepoch", 2, "admin stale no_async_loading", "", &[], OF_NODES)
        .tips("nondeterministic_output"),
    row("cluster|count-failure-reports", 3, "admin stale", "", &[], OF_NODES)
        .tips("nondeterministic_output"),
    row("cluster|countkeysinslot", 3, "stale", "", &[], KEYS_IN_SLOT),
    row("cluster|delslots", -3, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|delslotsrange", -4, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|failover", -2, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|flushslots", 2, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|forget", 3, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|getkeysinslot", 4, "stale", "", &[], KEYS_IN_SLOT).tips("nondeterministic_output"),
    row("cluster|help", 2, "loading stale", "", &[], Here(Local::Help)),
    row("cluster|info", 2, "stale", "", &[], cluster(ClusterQuestion::State)).tips("nondeterministic_output"),
    row("cluster|keyslot", 3, "stale", "", &[], cluster(ClusterQuestion::KeySlot)),
    row("cluster|links", 2, "stale", "", &[], cluster(ClusterQuestion::Links)).tips("nondeterministic_output"),
    row("cluster|meet", -4, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|myid", 2, "stale", "", &[], cluster(ClusterQuestion::MyId)),
    row("cluster|myshardid", 2, "stale", "", &[], cluster(ClusterQuestion::MyShardId))
        .tips("nondeterministic_output").since(Since::both(7, 2)),
    row("cluster|nodes", 2, "stale", "", &[], cluster(ClusterQuestion::Nodes)).tips("nondeterministic_output"),
    row("cluster|replicas", 3, "admin stale", "", &[], cluster(ClusterQuestion::Replicas)).tips("nondeterministic_output"),
    row("cluster|replicate", 3, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|reset", -2, "admin noscript stale", "", &[], OF_NODES),
    row("cluster|saveconfig", 2, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|set-config-epoch", 3, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|setslot", -4, "admin stale no_async_loading", "", &[], OF_NODES),
    row("cluster|shards", 2, "stale", "", &[], cluster(ClusterQuestion::Shards)).tips("nondeterministic_output"),
    row("cluster|slaves", 3, "admin stale", "", &[], cluster(ClusterQuestion::Replicas)).tips("nondeterministic_output"),
    row("cluster|slot-stats", -4, "loading stale", "", &[], KEYS_IN_SLOT)
        .tips("nondeterministic_output request_policy:all_shards").since(Since::redis(8, 2).and_valkey(8, 0)),
    row("cluster|slots", 2, "stale", "", &[], cluster(ClusterQuestion::Slots)).tips("nondeterministic_output"),
];

const KEYS_IN_SLOT: Carry =
    never("clients see one node that has all slots: ask the nodes of a cluster themselves");
const OF_NODES: Carry =
    never("it is for the nodes of a cluster, and clients see one node only: ask those themselves");

/// Answered from the topology as clients see it: one node, which owns all slots.
const fn cluster(question: ClusterQuestion) -> Carry {
    Here(Local::Cluster(question))
}
