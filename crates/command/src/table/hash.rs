//! Hashes.

use crate::carry::Carry::Shard;
use crate::command::{Command, row};
use crate::table::key;

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("hdel", -3, "write fast", "hash", &[key(1, "RW delete")], Shard),
    row("hexists", 3, "readonly fast", "hash", &[key(1, "RO")], Shard),
    row("hget", 3, "readonly fast", "hash", &[key(1, "RO access")], Shard),
    row("hgetall", 2, "readonly", "hash", &[key(1, "RO access")], Shard)
        .tips("nondeterministic_output_order"),
    row("hincrby", 4, "write denyoom fast", "hash", &[key(1, "RW access update")], Shard),
    row("hincrbyfloat", 4, "write denyoom fast", "hash", &[key(1, "RW access update")], Shard),
    row("hkeys", 2, "readonly", "hash", &[key(1, "RO access")], Shard).tips("nondeterministic_output_order"),
    row("hlen", 2, "readonly fast", "hash", &[key(1, "RO")], Shard),
    row("hmget", -3, "readonly fast", "hash", &[key(1, "RO access")], Shard),
    row("hmset", -4, "write denyoom fast", "hash", &[key(1, "RW update")], Shard),
    row("hrandfield", -2, "readonly", "hash", &[key(1, "RO access")], Shard).tips("nondeterministic_output"),
    row("hscan", -3, "readonly", "hash", &[key(1, "RO access")], Shard).tips("nondeterministic_output"),
    row("hset", -4, "write denyoom fast", "hash", &[key(1, "RW update")], Shard),
    row("hsetnx", 4, "write denyoom fast", "hash", &[key(1, "RW insert")], Shard),
    row("hstrlen", 3, "readonly fast", "hash", &[key(1, "RO")], Shard),
    row("hvals", 2, "readonly", "hash", &[key(1, "RO access")], Shard).tips("nondeterministic_output_order"),
];
