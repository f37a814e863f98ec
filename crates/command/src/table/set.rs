//! Sets.

use crate::carry::Across::{Gathered, Moved};
use crate::carry::Carry::Shard;
use crate::command::{Command, row};
use crate::table::{counted, key, keys};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("sadd", -3, "write denyoom fast", "set", &[key(1, "RW insert")], Shard),
    row("scard", 2, "readonly fast", "set", &[key(1, "RO")], Shard),
    row("sdiff", -2, "readonly", "set", &[keys(1, -1, 1, "RO access")], Shard).across(Gathered)
        .tips("nondeterministic_output_order"),
    row("sdiffstore", -3, "write denyoom", "set", &[key(1, "OW update"), keys(2, -1, 1, "RO access")], Shard)
        .across(Gathered),
    row("sinter", -2, "readonly", "set", &[keys(1, -1, 1, "RO access")], Shard).across(Gathered)
        .tips("nondeterministic_output_order"),
    row("sintercard", -3, "readonly movablekeys", "set", &[counted(1, "RO access")], Shard).across(Gathered),
    row("sinterstore", -3, "write denyoom", "set",
        &[key(1, "RW update"), keys(2, -1, 1, "RO access")], Shard).across(Gathered),
    row("sismember", 3, "readonly fast", "set", &[key(1, "RO")], Shard),
    row("smembers", 2, "readonly", "set", &[key(1, "RO access")], Shard)
        .tips("nondeterministic_output_order"),
    row("smismember", -3, "readonly fast", "set", &[key(1, "RO access")], Shard),
    row("smove", 4, "write fast", "set", &[key(1, "RW access delete"), key(2, "RW insert")], Shard)
        .across(Moved),
    row("spop", -2, "write fast", "set", &[key(1, "RW access delete")], Shard)
        .tips("nondeterministic_output"),
    row("srandmember", -2, "readonly", "set", &[key(1, "RO access")], Shard).tips("nondeterministic_output"),
    row("srem", -3, "write fast", "set", &[key(1, "RW delete")], Shard),
    row("sscan", -3, "readonly", "set", &[key(1, "RO access")], Shard).tips("nondeterministic_output"),
    row("sunion", -2, "readonly", "set", &[keys(1, -1, 1, "RO access")], Shard).across(Gathered)
        .tips("nondeterministic_output_order"),
    row("sunionstore", -3, "write denyoom", "set",
        &[key(1, "OW update"), keys(2, -1, 1, "RO access")], Shard).across(Gathered),
];
