//! Sorted sets.

use crate::carry::Across::{Gathered, Popped};
use crate::carry::Carry::{Blocking, Shard};
use crate::carry::Wait;
use crate::command::{Command, row};
use crate::table::{counted, key, keys};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("bzmpop", -5, "write blocking movablekeys", "sortedset", &[counted(2, "RW access delete")], Blocking(Wait::First))
        .across(Popped),
    row("bzpopmax", -3, "write noscript blocking fast", "sortedset",
        &[keys(1, -2, 1, "RW access delete")], Blocking(Wait::Last)).across(Popped),
    row("bzpopmin", -3, "write noscript blocking fast", "sortedset",
        &[keys(1, -2, 1, "RW access delete")], Blocking(Wait::Last)).across(Popped),
    row("zadd", -4, "write denyoom fast", "sortedset", &[key(1, "RW update")], Shard),
    row("zcard", 2, "readonly fast", "sortedset", &[key(1, "RO")], Shard),
    row("zcount", 4, "readonly fast", "sortedset", &[key(1, "RO access")], Shard),
    row("zdiff", -3, "readonly movablekeys", "sortedset", &[counted(1, "RO access")], Shard).across(Gathered),
    row("zdiffstore", -4, "write denyoom movablekeys", "sortedset",
        &[key(1, "OW update"), counted(2, "RO access")], Shard).across(Gathered),
    row("zincrby", 4, "write denyoom fast", "sortedset", &[key(1, "RW access update")], Shard),
    row("zinter", -3, "readonly movablekeys", "sortedset", &[counted(1, "RO access")], Shard).across(Gathered),
    row("zintercard", -3, "readonly movablekeys", "sortedset", &[counted(1, "RO access")], Shard)
        .across(Gathered),
    row("zinterstore", -4, "write denyoom movablekeys", "sortedset",
        &[key(1, "OW update"), counted(2, "RO access")], Shard).across(Gathered),
    row("zlexcount", 4, "readonly fast", "sortedset", &[key(1, "RO access")], Shard),
    row("zmpop", -4, "write movablekeys", "sortedset", &[counted(1, "RW access delete")], Shard).across(Popped),
    row("zmscore", -3, "readonly fast", "sortedset", &[key(1, "RO access")], Shard),
    row("zpopmax", -2, "write fast", "sortedset", &[key(1, "RW access delete")], Shard),
    row("zpopmin", -2, "write fast", "sortedset", &[key(1, "RW access delete")], Shard),
    row("zrandmember", -2, "readonly", "sortedset", &[key(1, "RO access")], Shard)
        .tips("nondeterministic_output"),
    row("zrange", -4, "readonly", "sortedset", &[key(1, "RO access")], Shard),
    row("zrangebylex", -4, "readonly", "sortedset", &[key(1, "RO access")], Shard),
    row("zrangebyscore", -4, "readonly", "sortedset", &[key(1, "RO access")], Shard),
    row("zrangestore", -5, "write denyoom", "sortedset", &[key(1, "OW update"), key(2, "RO access")], Shard)
        .across(Gathered),
    // 7.2 has an option more, which a node of 7.0 refuses itself.
    row("zrank", -3, "readonly fast", "sortedset", &[key(1, "RO access")], Shard),
    row("zrem", -3, "write fast", "sortedset", &[key(1, "RW delete")], Shard),
    row("zremrangebylex", 4, "write", "sortedset", &[key(1, "RW delete")], Shard),
    row("zremrangebyrank", 4, "write", "sortedset", &[key(1, "RW delete")], Shard),
    row("zremrangebyscore", 4, "write", "sortedset", &[key(1, "RW delete")], Shard),
    row("zrevrange", -4, "readonly", "sortedset", &[key(1, "RO access")], Shard),
    row("zrevrangebylex", -4, "readonly", "sortedset", &[key(1, "RO access")], Shard),
    row("zrevrangebyscore", -4, "readonly", "sortedset", &[key(1, "RO access")], Shard),
    row("zrevrank", -3, "readonly fast", "sortedset", &[key(1, "RO access")], Shard),
    row("zscan", -3, "readonly", "sortedset", &[key(1, "RO access")], Shard).tips("nondeterministic_output"),
    row("zscore", 3, "readonly fast", "sortedset", &[key(1, "RO access")], Shard),
    row("zunion", -3, "readonly movablekeys", "sortedset", &[counted(1, "RO access")], Shard).across(Gathered),
    row("zunionstore", -4, "write denyoom movablekeys", "sortedset",
        &[key(1, "OW update"), counted(2, "RO access")], Shard).across(Gathered),
];
