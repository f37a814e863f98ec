//! HyperLogLog.

use crate::carry::Across::Gathered;
use crate::carry::Carry;
use crate::carry::Carry::Shard;
use crate::command::{Command, row};
use crate::table::{key, keys, never};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("pfadd", -2, "write denyoom fast", "hyperloglog", &[key(1, "RW insert")], Shard),
    row("pfcount", -2, "readonly", "hyperloglog",
        &[keys(1, -1, 1, "RW access")
            .note("RW because it may change the internal representation of the key, and propagate to replicas")],
        Shard).across(Gathered),
    row("pfdebug", 3, "write denyoom admin", "hyperloglog", &[key(2, "RW access")], NODE_TESTS),
    row("pfmerge", -2, "write denyoom", "hyperloglog",
        &[key(1, "RW access insert"), keys(2, -1, 1, "RO access")], Shard).across(Gathered),
    row("pfselftest", 1, "admin", "hyperloglog", &[], NODE_TESTS),
];

const NODE_TESTS: Carry = never("it is for those who test a node");
