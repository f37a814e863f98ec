//! Keys of any type.

use crate::carry::Across::{Carried, Gathered};
use crate::carry::Carry::{AllShards, AnyShard, Blocking, Container, Cursor, Shard, ShardIf, Split};
use crate::carry::{Guard, Merge, Naming, Wait};
use crate::command::{Command, container, row};
use crate::keys::ByHand;
use crate::table::{REST, behind, key, keys, never, unknown};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("copy", -3, "write denyoom", "keyspace", &[key(1, "RO access"), key(2, "OW update")],
        ShardIf(Guard::Database(Naming::Option))).across(Carried),
    row("del", -2, "write", "keyspace", &[keys(1, -1, 1, "RM delete")], Split(Merge::Sum))
        .tips("request_policy:multi_shard response_policy:agg_sum"),
    row("dump", 2, "readonly", "keyspace", &[key(1, "RO access")], Shard).tips("nondeterministic_output"),
    row("exists", -2, "readonly fast", "keyspace", &[keys(1, -1, 1, "RO")], Split(Merge::Sum))
        .tips("request_policy:multi_shard response_policy:agg_sum"),
    row("expire", -3, "write fast", "keyspace", &[key(1, "RW update")], Shard),
    row("expireat", -3, "write fast", "keyspace", &[key(1, "RW update")], Shard),
    row("expiretime", 2, "readonly fast", "keyspace", &[key(1, "RO access")], Shard),
    row("keys", 2, "readonly", "keyspace dangerous", &[], AllShards(Merge::Concat))
        .tips("request_policy:all_shards nondeterministic_output_order"),
    row("migrate", -6, "write movablekeys", "keyspace dangerous",
        &[key(3, "RW access delete"), behind("KEYS", -2, REST, "RW access delete incomplete")],
        never("it would move keys between nodes behind the proxy's back"))
        .by_hand(ByHand::Migrate).tips("nondeterministic_output"),
    row("move", 3, "write fast", "keyspace", &[key(1, "RW access update")],
        ShardIf(Guard::Database(Naming::Last))),
    container("object", -2, "", "", Container, OBJECT),
    row("persist", 2, "write fast", "keyspace", &[key(1, "RW update")], Shard),
    row("pexpire", -3, "write fast", "keyspace", &[key(1, "RW update")], Shard),
    row("pexpireat", -3, "write fast", "keyspace", &[key(1, "RW update")], Shard),
    row("pexpiretime", 2, "readonly fast", "keyspace", &[key(1, "RO access")], Shard),
    row("pttl", 2, "readonly fast", "keyspace", &[key(1, "RO access")], Shard)
        .tips("nondeterministic_output"),
    row("randomkey", 1, "readonly", "keyspace", &[], AllShards(Merge::RandomNonNil))
        .tips("request_policy:all_shards nondeterministic_output"),
    row("rename", 3, "write", "keyspace", &[key(1, "RW access delete"), key(2, "OW update")], Shard)
        .across(Carried),
    row("renamenx", 3, "write fast", "keyspace", &[key(1, "RW access delete"), key(2, "OW insert")], Shard)
        .across(Carried),
    row("restore", -4, "write denyoom", "keyspace dangerous", &[key(1, "OW update")], Shard),
    row("scan", -2, "readonly", "keyspace", &[], Cursor)
        .tips("nondeterministic_output request_policy:special"),
    row("sort", -2, "write denyoom movablekeys", "set sortedset list dangerous",
        &[key(1, "RO access"), unknown("RO access").note(SORT_PATTERNS), unknown("OW update").note(SORT_STORE)],
        ShardIf(Guard::Patterns)).across(Gathered)
        .by_hand(ByHand::Sort),
    row("sort_ro", -2, "readonly movablekeys", "set sortedset list dangerous",
        &[key(1, "RO access"), unknown("RO access").note(SORT_PATTERNS)], ShardIf(Guard::Patterns))
        .by_hand(ByHand::SortRo),
    row("touch", -2, "readonly fast", "keyspace", &[keys(1, -1, 1, "RO")], Split(Merge::Sum))
        .tips("request_policy:multi_shard response_policy:agg_sum"),
    row("ttl", 2, "readonly fast", "keyspace", &[key(1, "RO access")], Shard).tips("nondeterministic_output"),
    row("type", 2, "readonly fast", "keyspace", &[key(1, "RO")], Shard),
    row("unlink", -2, "write fast", "keyspace", &[keys(1, -1, 1, "RM delete")], Split(Merge::Sum))
        .tips("request_policy:multi_shard response_policy:agg_sum"),
    row("wait", 3, "noscript", "connection", &[], Blocking(Wait::Replicas))
        .tips("request_policy:all_shards response_policy:agg_min"),
];

#[rustfmt::skip] // A command is a line.
static OBJECT: &[Command] = &[
    row("object|encoding", 3, "readonly", "keyspace", &[key(2, "RO")], Shard).tips("nondeterministic_output"),
    row("object|freq", 3, "readonly", "keyspace", &[key(2, "RO")], Shard).tips("nondeterministic_output"),
    row("object|help", 2, "loading stale", "keyspace", &[], AnyShard),
    row("object|idletime", 3, "readonly", "keyspace", &[key(2, "RO")], Shard).tips("nondeterministic_output"),
    row("object|refcount", 3, "readonly", "keyspace", &[key(2, "RO")], Shard).tips("nondeterministic_output"),
];

const SORT_PATTERNS: &str = "For the optional BY/GET keyword. It is marked 'unknown' because the key names \
                             derive from the content of the key we sort";
const SORT_STORE: &str = "For the optional STORE keyword. It is marked 'unknown' because the keyword can \
                          appear anywhere in the argument array";
