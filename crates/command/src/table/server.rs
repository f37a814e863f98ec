//! Administration and information.

use crate::carry::Carry::{AllShards, AnyShard, Container, Here, OnlyShard, Refused, Shard};
use crate::carry::{About, AclQuestion, Admin, Carry, Local, Merge, Refusal, Report};
use crate::command::{Command, container, row};
use crate::since::Since;
use crate::table::{about, key, never};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    container("acl", -2, "", "", Container, ACL),
    row("bgrewriteaof", 1, "admin noscript no_async_loading", "", &[], persistence(Merge::AnyReply)),
    row("bgsave", -1, "admin noscript no_async_loading", "", &[], persistence(Merge::AnyReply)),
    container("command", -1, "loading stale", "connection", about(About::All), COMMAND)
        .tips("nondeterministic_output_order"),
    container("commandlog", -2, "", "", Container, COMMANDLOG).since(Since::valkey(8, 1)),
    container("config", -2, "", "", Container, CONFIG),
    row("dbsize", 1, "readonly fast", "keyspace", &[], AllShards(Merge::Sum))
        .tips("request_policy:all_shards response_policy:agg_sum"),
    row("debug", -2, "admin noscript loading stale", "",
        &[], Carry::Admin("it can stall a node for all clients", Admin::Debug)),
    row("failover", -1, "admin noscript stale", "", &[], ROLES),
    row("flushall", -1, "write", "keyspace dangerous", &[], AllShards(Merge::AllOk))
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    row("flushdb", -1, "write", "keyspace dangerous", &[], AllShards(Merge::AllOk))
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    row("info", -1, "loading stale", "dangerous", &[], Here(Local::Info))
        .tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    row("lastsave", 1, "loading stale fast", "admin dangerous", &[], persistence(Merge::Least))
        .tips("nondeterministic_output"),
    container("latency", -2, "", "", Container, LATENCY),
    row("lolwut", -1, "readonly fast", "", &[], Here(Local::Lolwut)),
    container("memory", -2, "", "", Container, MEMORY),
    container("module", -2, "", "", Container, MODULE),
    row("monitor", 1, "admin noscript loading stale", "", &[], Here(Local::Monitor)),
    row("psync", -3, "admin noscript no_async_loading no_multi", "", &[], REPLICATION),
    row("replconf", -1, "admin noscript loading stale allow_busy", "", &[], REPLICATION),
    row("replicaof", 3, "admin noscript stale no_async_loading", "", &[], ROLES),
    row("restore-asking", -4, "write denyoom asking", "keyspace dangerous",
        &[key(1, "OW update")], never("only a node that moves keys to another has a use for it")),
    row("role", 1, "noscript loading stale fast", "admin dangerous", &[], Here(Local::Role)),
    row("save", 1, "admin noscript no_async_loading no_multi", "", &[], persistence(Merge::AllOk)),
    row("shutdown", -1, "admin noscript loading stale no_multi allow_busy", "",
        &[], never("it would stop a node for all clients")),
    row("slaveof", 3, "admin noscript stale no_async_loading", "", &[], ROLES),
    container("slowlog", -2, "", "", Container, SLOWLOG),
    row("swapdb", 3, "write fast", "keyspace dangerous",
        &[], OnlyShard("clients would see some shards swapped and others not yet")),
    row("sync", 1, "admin noscript no_async_loading no_multi", "", &[], REPLICATION),
    row("time", 1, "loading stale fast", "", &[], Here(Local::Time)).tips("nondeterministic_output"),
];

#[rustfmt::skip] // A command is a line.
static ACL: &[Command] = &[
    row("acl|cat", -2, "noscript loading stale", "", &[], acl(AclQuestion::Categories)),
    row("acl|deluser", -3, "admin noscript loading stale", "", &[], acl(AclQuestion::DelUser)),
    row("acl|dryrun", -4, "admin noscript loading stale", "", &[], acl(AclQuestion::DryRun)),
    row("acl|genpass", -2, "noscript loading stale", "", &[], acl(AclQuestion::GenPass)),
    row("acl|getuser", 3, "admin noscript loading stale", "", &[], acl(AclQuestion::GetUser)),
    row("acl|help", 2, "loading stale", "", &[], Here(Local::Help)),
    row("acl|list", 2, "admin noscript loading stale", "", &[], acl(AclQuestion::List)),
    row("acl|load", 2, "admin noscript loading stale", "", &[], acl(AclQuestion::Load)),
    row("acl|log", -2, "admin noscript loading stale", "", &[], acl(AclQuestion::Log)),
    row("acl|save", 2, "admin noscript loading stale", "", &[], acl(AclQuestion::Save)),
    row("acl|setuser", -3, "admin noscript loading stale", "", &[], acl(AclQuestion::SetUser)),
    row("acl|users", 2, "admin noscript loading stale", "", &[], acl(AclQuestion::Users)),
    row("acl|whoami", 2, "noscript loading stale", "", &[], acl(AclQuestion::WhoAmI)),
];

#[rustfmt::skip] // A command is a line.
static COMMAND: &[Command] = &[
    row("command|count", 2, "loading stale", "connection", &[], about(About::Count)),
    row("command|docs", -2, "loading stale", "connection", &[], AnyShard)
        .tips("nondeterministic_output_order"),
    row("command|getkeys", -4, "loading stale", "connection", &[], about(About::GetKeys)),
    row("command|getkeysandflags", -4, "loading stale", "connection", &[], about(About::GetKeysAndFlags)),
    row("command|help", 2, "loading stale", "connection", &[], Here(Local::Help)),
    row("command|info", -2, "loading stale", "connection", &[], about(About::Info))
        .tips("nondeterministic_output_order"),
    row("command|list", -2, "loading stale", "connection", &[], about(About::List))
        .tips("nondeterministic_output_order"),
];

#[rustfmt::skip] // A command is a line.
static COMMANDLOG: &[Command] = &[
    row("commandlog|get", 4, "admin loading stale", "", &[], report(Report::SlowlogEntries))
        .tips("request_policy:all_nodes nondeterministic_output").since(Since::valkey(8, 1)),
    row("commandlog|help", 2, "loading stale", "", &[], AnyShard).since(Since::valkey(8, 1)),
    row("commandlog|len", 3, "admin loading stale", "", &[], AllShards(Merge::Sum))
        .tips("request_policy:all_nodes response_policy:agg_sum nondeterministic_output").since(Since::valkey(8, 1)),
    row("commandlog|reset", 3, "admin loading stale", "", &[], AllShards(Merge::AllOk))
        .tips("request_policy:all_nodes response_policy:all_succeeded").since(Since::valkey(8, 1)),
];

#[rustfmt::skip] // A command is a line.
static CONFIG: &[Command] = &[
    row("config|get", -3, "admin noscript loading stale", "", &[], Here(Local::ConfigGet)),
    row("config|help", 2, "loading stale", "", &[], Here(Local::Help)),
    row("config|resetstat", 2, "admin noscript loading stale", "", &[], Here(Local::ResetStatistics)),
    row("config|rewrite", 2, "admin noscript loading stale", "", &[], settings(Admin::AllShards(Merge::AllOk))),
    row("config|set", -4, "admin noscript loading stale", "", &[], settings(Admin::ConfigSet))
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
];

#[rustfmt::skip] // A command is a line.
static LATENCY: &[Command] = &[
    row("latency|doctor", 2, "admin noscript loading stale", "", &[], report(Report::Texts))
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    row("latency|graph", 3, "admin noscript loading stale", "", &[], report(Report::Texts))
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    row("latency|help", 2, "loading stale", "", &[], AnyShard),
    row("latency|histogram", -2, "admin noscript loading stale", "", &[], report(Report::LatencyHistogram))
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    row("latency|history", 3, "admin noscript loading stale", "", &[], report(Report::LatencyHistory))
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    row("latency|latest", 2, "admin noscript loading stale", "", &[], report(Report::LatencyLatest))
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    row("latency|reset", -2, "admin noscript loading stale", "", &[], AllShards(Merge::Sum))
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
];

#[rustfmt::skip] // A command is a line.
static MEMORY: &[Command] = &[
    row("memory|doctor", 2, "", "", &[], report(Report::Texts))
        .tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    row("memory|help", 2, "loading stale", "", &[], AnyShard),
    row("memory|malloc-stats", 2, "", "", &[], report(Report::Texts))
        .tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    row("memory|purge", 2, "", "", &[], AllShards(Merge::AllOk))
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    row("memory|stats", 2, "", "", &[], report(Report::MemoryStats))
        .tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    row("memory|usage", -3, "readonly", "", &[key(2, "RO")], Shard),
];

#[rustfmt::skip] // A command is a line.
static MODULE: &[Command] = &[
    row("module|help", 2, "loading stale", "", &[], AnyShard),
    row("module|list", 2, "admin noscript", "", &[], AnyShard).tips("nondeterministic_output_order"),
    row("module|load", -3, "admin noscript no_async_loading", "", &[], MODULES),
    row("module|loadex", -3, "admin noscript no_async_loading", "", &[], MODULES),
    row("module|unload", 3, "admin noscript no_async_loading", "", &[], MODULES),
];

#[rustfmt::skip] // A command is a line.
static SLOWLOG: &[Command] = &[
    row("slowlog|get", -2, "admin loading stale", "", &[], report(Report::SlowlogEntries))
        .tips("request_policy:all_nodes nondeterministic_output"),
    row("slowlog|help", 2, "loading stale", "", &[], AnyShard),
    row("slowlog|len", 2, "admin loading stale", "", &[], AllShards(Merge::Sum))
        .tips("request_policy:all_nodes response_policy:agg_sum nondeterministic_output"),
    row("slowlog|reset", 2, "admin loading stale", "", &[], AllShards(Merge::AllOk))
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
];

const ROLES: Carry = never("the roles of the nodes are not for clients to see or change");
const REPLICATION: Carry =
    Refused(Refusal::Unknown("spoken between nodes; its replies are none, or without end"));
const MODULES: Carry = Carry::Admin("it would change a node for all clients", Admin::AllShards(Merge::AllOk));

/// A merged report of all nodes about themselves.
const fn report(report: Report) -> Carry {
    AllShards(Merge::Report(report))
}

/// Parameters of the nodes.
const fn settings(how: Admin) -> Carry {
    Carry::Admin("it would change a node for all clients", how)
}

/// Commands on the files of nodes.
const fn persistence(merge: Merge) -> Carry {
    Carry::Admin("each node sees to its own persistence", Admin::AllShards(merge))
}

/// Answered from the users that the proxy knows.
const fn acl(question: AclQuestion) -> Carry {
    Here(Local::Acl(question))
}
