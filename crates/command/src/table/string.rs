//! Strings.

use crate::carry::Across::Gathered;
use crate::carry::Carry::{Shard, Split};
use crate::carry::Merge;
use crate::command::{Command, row};
use crate::keys::ByHand;
use crate::table::{key, keys};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("append", 3, "write denyoom fast", "string", &[key(1, "RW insert")], Shard),
    row("decr", 2, "write denyoom fast", "string", &[key(1, "RW access update")], Shard),
    row("decrby", 3, "write denyoom fast", "string", &[key(1, "RW access update")], Shard),
    row("get", 2, "readonly fast", "string", &[key(1, "RO access")], Shard),
    row("getdel", 2, "write fast", "string", &[key(1, "RW access delete")], Shard),
    row("getex", -2, "write fast", "string",
        &[key(1, "RW access update").note("RW and UPDATE because it changes the TTL")], Shard),
    row("getrange", 4, "readonly", "string", &[key(1, "RO access")], Shard),
    row("getset", 3, "write denyoom fast", "string", &[key(1, "RW access update")], Shard),
    row("incr", 2, "write denyoom fast", "string", &[key(1, "RW access update")], Shard),
    row("incrby", 3, "write denyoom fast", "string", &[key(1, "RW access update")], Shard),
    row("incrbyfloat", 3, "write denyoom fast", "string", &[key(1, "RW access update")], Shard),
    row("lcs", -3, "readonly", "string", &[keys(1, 1, 1, "RO access")], Shard).across(Gathered),
    row("mget", -2, "readonly fast", "string", &[keys(1, -1, 1, "RO access")], Split(Merge::Values))
        .tips("request_policy:multi_shard"),
    row("mset", -3, "write denyoom", "string", &[keys(1, -1, 2, "OW update")], Split(Merge::AllOk))
        .tips("request_policy:multi_shard response_policy:all_succeeded"),
    row("msetnx", -3, "write denyoom", "string", &[keys(1, -1, 2, "OW insert")], Shard).across(Gathered)
        .tips("request_policy:multi_shard response_policy:agg_min"),
    row("psetex", 4, "write denyoom", "string", &[key(1, "OW update")], Shard),
    row("set", -3, "write denyoom", "string",
        &[key(1, "RW access update variable_flags").note("RW and ACCESS due to the optional `GET` argument")], Shard)
        .by_hand(ByHand::SetFlags),
    row("setex", 4, "write denyoom", "string", &[key(1, "OW update")], Shard),
    row("setnx", 3, "write denyoom fast", "string", &[key(1, "OW insert")], Shard),
    row("setrange", 4, "write denyoom", "string", &[key(1, "RW update")], Shard),
    row("strlen", 2, "readonly fast", "string", &[key(1, "RO")], Shard),
    row("substr", 4, "readonly", "string", &[key(1, "RO access")], Shard),
];
