//! Hashes.

use crate::carry::Carry::Shard;
use crate::command::{Command, row};
use crate::since::Since;
use crate::table::key;

/// Fields that expire by themselves.
const EXPIRING_FIELDS: Since = Since::redis(7, 4).and_valkey(9, 0);

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("hdel", -3, "write fast", "hash", &[key(1, "RW delete")], Shard),
    row("hexists", 3, "readonly fast", "hash", &[key(1, "RO")], Shard),
    row("hexpire", -6, "write fast", "hash", &[key(1, "RW update")], Shard).since(EXPIRING_FIELDS),
    row("hexpireat", -6, "write fast", "hash", &[key(1, "RW update")], Shard).since(EXPIRING_FIELDS),
    row("hexpiretime", -5, "readonly fast", "hash", &[key(1, "RO access")], Shard).since(EXPIRING_FIELDS),
    row("hget", 3, "readonly fast", "hash", &[key(1, "RO access")], Shard),
    row("hgetall", 2, "readonly", "hash", &[key(1, "RO access")], Shard)
        .tips("nondeterministic_output_order"),
    row("hgetdel", -5, "write fast", "hash", &[key(1, "RW access delete")], Shard)
        .since(Since::redis(8, 0).and_valkey(9, 1)),
    row("hgetex", -5, "write fast", "hash",
        &[key(1, "RW access update").note("RW and UPDATE because it changes the TTL")], Shard)
        .since(Since::redis(8, 0).and_valkey(9, 0)),
    row("hincrby", 4, "write denyoom fast", "hash", &[key(1, "RW access update")], Shard),
    row("hincrbyfloat", 4, "write denyoom fast", "hash", &[key(1, "RW access update")], Shard),
    row("hkeys", 2, "readonly", "hash", &[key(1, "RO access")], Shard).tips("nondeterministic_output_order"),
    row("hlen", 2, "readonly fast", "hash", &[key(1, "RO")], Shard),
    row("hmget", -3, "readonly fast", "hash", &[key(1, "RO access")], Shard),
    row("hmset", -4, "write denyoom fast", "hash", &[key(1, "RW update")], Shard),
    row("hpersist", -5, "write fast", "hash", &[key(1, "RW update")], Shard).since(EXPIRING_FIELDS),
    row("hpexpire", -6, "write fast", "hash", &[key(1, "RW update")], Shard).since(EXPIRING_FIELDS),
    row("hpexpireat", -6, "write fast", "hash", &[key(1, "RW update")], Shard).since(EXPIRING_FIELDS),
    row("hpexpiretime", -5, "readonly fast", "hash", &[key(1, "RO access")], Shard).since(EXPIRING_FIELDS),
    row("hpttl", -5, "readonly fast", "hash", &[key(1, "RO access")], Shard)
        .tips("nondeterministic_output").since(EXPIRING_FIELDS),
    row("hrandfield", -2, "readonly", "hash", &[key(1, "RO access")], Shard).tips("nondeterministic_output"),
    row("hscan", -3, "readonly", "hash", &[key(1, "RO access")], Shard).tips("nondeterministic_output"),
    row("hset", -4, "write denyoom fast", "hash", &[key(1, "RW update")], Shard),
    row("hsetex", -6, "write denyoom fast", "hash", &[key(1, "RW update")], Shard)
        .since(Since::redis(8, 0).and_valkey(9, 0)),
    row("hsetnx", 4, "write denyoom fast", "hash", &[key(1, "RW insert")], Shard),
    row("hstrlen", 3, "readonly fast", "hash", &[key(1, "RO")], Shard),
    row("httl", -5, "readonly fast", "hash", &[key(1, "RO access")], Shard)
        .tips("nondeterministic_output").since(EXPIRING_FIELDS),
    row("hvals", 2, "readonly", "hash", &[key(1, "RO access")], Shard).tips("nondeterministic_output_order"),
];
