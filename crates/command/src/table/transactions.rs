//! Transactions.

use crate::carry::Carry;
use crate::command::{Command, row};
use crate::table::{keys, later};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("discard", 1, "noscript loading stale fast allow_busy", "transaction", &[], TRANSACTIONS),
    row("exec", 1, "noscript loading stale skip_slowlog", "transaction", &[], TRANSACTIONS),
    row("multi", 1, "noscript loading stale fast allow_busy", "transaction", &[], TRANSACTIONS),
    row("unwatch", 1, "noscript loading stale fast allow_busy", "transaction", &[], TRANSACTIONS),
    row("watch", -2, "noscript loading stale fast allow_busy", "transaction",
        &[keys(1, -1, 1, "RO")], TRANSACTIONS),
];

const TRANSACTIONS: Carry = later("transactions");
