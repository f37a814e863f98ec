//! Streams.

use crate::carry::Across::ReadByGroup;
use crate::carry::Carry::{AnyShard, Blocking, Container, Shard};
use crate::carry::Wait;
use crate::command::{Command, container, row};
use crate::table::{FIRST_HALF, behind, key};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("xack", -4, "write fast", "stream", &[key(1, "RW update")], Shard),
    row("xadd", -5, "write denyoom fast", "stream",
        &[key(1, "RW update").note("UPDATE instead of INSERT because of the optional trimming feature")], Shard)
        .tips("nondeterministic_output"),
    row("xautoclaim", -6, "write fast", "stream", &[key(1, "RW delete")], Shard)
        .tips("nondeterministic_output"),
    row("xclaim", -6, "write fast", "stream", &[key(1, "RW update")], Shard).tips("nondeterministic_output"),
    row("xdel", -3, "write fast", "stream", &[key(1, "RW delete")], Shard),
    container("xgroup", -2, "", "", Container, XGROUP),
    container("xinfo", -2, "", "", Container, XINFO),
    row("xlen", 2, "readonly fast", "stream", &[key(1, "RO")], Shard),
    row("xpending", -3, "readonly", "stream", &[key(1, "RO access")], Shard).tips("nondeterministic_output"),
    row("xrange", -4, "readonly", "stream", &[key(1, "RO access")], Shard),
    row("xread", -4, "readonly blocking movablekeys", "stream",
        &[behind("STREAMS", 1, FIRST_HALF, "RO access")], Blocking(Wait::BlockAcross)),
    row("xreadgroup", -7, "write blocking movablekeys", "stream",
        &[behind("STREAMS", 4, FIRST_HALF, "RO access")], Blocking(Wait::Block)).across(ReadByGroup),
    row("xrevrange", -4, "readonly", "stream", &[key(1, "RO access")], Shard),
    row("xsetid", -3, "write denyoom fast", "stream", &[key(1, "RW update")], Shard),
    row("xtrim", -4, "write", "stream", &[key(1, "RW delete")], Shard).tips("nondeterministic_output"),
];

#[rustfmt::skip] // A command is a line.
static XGROUP: &[Command] = &[
    row("xgroup|create", -5, "write denyoom", "stream", &[key(2, "RW insert")], Shard),
    row("xgroup|createconsumer", 5, "write denyoom", "stream", &[key(2, "RW insert")], Shard),
    row("xgroup|delconsumer", 5, "write", "stream", &[key(2, "RW delete")], Shard),
    row("xgroup|destroy", 4, "write", "stream", &[key(2, "RW delete")], Shard),
    row("xgroup|help", 2, "loading stale", "stream", &[], AnyShard),
    row("xgroup|setid", -5, "write", "stream", &[key(2, "RW update")], Shard),
];

#[rustfmt::skip] // A command is a line.
static XINFO: &[Command] = &[
    row("xinfo|consumers", 4, "readonly", "stream", &[key(2, "RO access")], Shard)
        .tips("nondeterministic_output"),
    row("xinfo|groups", 3, "readonly", "stream", &[key(2, "RO access")], Shard),
    row("xinfo|help", 2, "loading stale", "stream", &[], AnyShard),
    row("xinfo|stream", -3, "readonly", "stream", &[key(2, "RO access")], Shard),
];
