//! Lists.

use crate::carry::Across::{Moved, Popped};
use crate::carry::Carry::{Blocking, Shard};
use crate::carry::Wait;
use crate::command::{Command, row};
use crate::table::{counted, key, keys};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("blmove", 6, "write denyoom noscript blocking", "list",
        &[key(1, "RW access delete"), key(2, "RW insert")], Blocking(Wait::Last)),
    row("blmpop", -5, "write blocking movablekeys", "list", &[counted(2, "RW access delete")], Blocking(Wait::First))
        .across(Popped),
    row("blpop", -3, "write noscript blocking", "list", &[keys(1, -2, 1, "RW access delete")], Blocking(Wait::Last))
        .across(Popped),
    row("brpop", -3, "write noscript blocking", "list", &[keys(1, -2, 1, "RW access delete")], Blocking(Wait::Last))
        .across(Popped),
    row("brpoplpush", 4, "write denyoom noscript blocking", "list",
        &[key(1, "RW access delete"), key(2, "RW insert")], Blocking(Wait::Last)),
    row("lindex", 3, "readonly", "list", &[key(1, "RO access")], Shard),
    row("linsert", 5, "write denyoom", "list", &[key(1, "RW insert")], Shard),
    row("llen", 2, "readonly fast", "list", &[key(1, "RO")], Shard),
    row("lmove", 5, "write denyoom", "list", &[key(1, "RW access delete"), key(2, "RW insert")], Shard)
        .across(Moved),
    row("lmpop", -4, "write movablekeys", "list", &[counted(1, "RW access delete")], Shard).across(Popped),
    row("lpop", -2, "write fast", "list", &[key(1, "RW access delete")], Shard),
    row("lpos", -3, "readonly", "list", &[key(1, "RO access")], Shard),
    row("lpush", -3, "write denyoom fast", "list", &[key(1, "RW insert")], Shard),
    row("lpushx", -3, "write denyoom fast", "list", &[key(1, "RW insert")], Shard),
    row("lrange", 4, "readonly", "list", &[key(1, "RO access")], Shard),
    row("lrem", 4, "write", "list", &[key(1, "RW delete")], Shard),
    row("lset", 4, "write denyoom", "list", &[key(1, "RW update")], Shard),
    row("ltrim", 4, "write", "list", &[key(1, "RW delete")], Shard),
    row("rpop", -2, "write fast", "list", &[key(1, "RW access delete")], Shard),
    row("rpoplpush", 3, "write denyoom", "list", &[key(1, "RW access delete"), key(2, "RW insert")], Shard)
        .across(Moved),
    row("rpush", -3, "write denyoom fast", "list", &[key(1, "RW insert")], Shard),
    row("rpushx", -3, "write denyoom fast", "list", &[key(1, "RW insert")], Shard),
];
