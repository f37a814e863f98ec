//! Bitmaps.

use crate::carry::Across::Gathered;
use crate::carry::Carry::Shard;
use crate::command::{Command, row};
use crate::keys::ByHand;
use crate::table::{key, keys};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("bitcount", -2, "readonly", "bitmap", &[key(1, "RO access")], Shard),
    row("bitfield", -2, "write denyoom", "bitmap",
        &[key(1, "RW access update variable_flags")
            .note("This command allows both access and modification of the key")], Shard)
        .by_hand(ByHand::BitfieldFlags),
    row("bitfield_ro", -2, "readonly fast", "bitmap", &[key(1, "RO access")], Shard),
    row("bitop", -4, "write denyoom", "bitmap", &[key(2, "OW update"), keys(3, -1, 1, "RO access")], Shard)
        .across(Gathered),
    row("bitpos", -3, "readonly", "bitmap", &[key(1, "RO access")], Shard),
    row("getbit", 3, "readonly fast", "bitmap", &[key(1, "RO access")], Shard),
    row("setbit", 4, "write denyoom", "bitmap", &[key(1, "RW access update")], Shard),
];
