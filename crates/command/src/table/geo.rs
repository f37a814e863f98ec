//! Geographic indexes.

use crate::carry::Across::Gathered;
use crate::carry::Carry::Shard;
use crate::command::{Command, row};
use crate::table::{NEXT, behind, key};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("geoadd", -5, "write denyoom", "geo", &[key(1, "RW update")], Shard),
    row("geodist", -4, "readonly", "geo", &[key(1, "RO access")], Shard),
    row("geohash", -2, "readonly", "geo", &[key(1, "RO access")], Shard),
    row("geopos", -2, "readonly", "geo", &[key(1, "RO access")], Shard),
    row("georadius", -6, "write denyoom movablekeys", "geo",
        &[key(1, "RO access"), behind("STORE", 6, NEXT, "OW update"), behind("STOREDIST", 6, NEXT, "OW update")],
        Shard).across(Gathered),
    row("georadius_ro", -6, "readonly", "geo", &[key(1, "RO access")], Shard),
    row("georadiusbymember", -5, "write denyoom movablekeys", "geo",
        &[key(1, "RO access"), behind("STORE", 5, NEXT, "OW update"), behind("STOREDIST", 5, NEXT, "OW update")],
        Shard).across(Gathered),
    row("georadiusbymember_ro", -5, "readonly", "geo", &[key(1, "RO access")], Shard),
    row("geosearch", -7, "readonly", "geo", &[key(1, "RO access")], Shard),
    row("geosearchstore", -8, "write denyoom", "geo", &[key(1, "OW update"), key(2, "RO access")], Shard)
        .across(Gathered),
];
