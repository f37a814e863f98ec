//! Transactions.

use crate::carry::Carry::Transaction;
use crate::carry::Transaction as Step;
use crate::command::{Command, row};
use crate::table::keys;

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("discard", 1, "noscript loading stale fast allow_busy", "transaction", &[], Transaction(Step::Discard)),
    row("exec", 1, "noscript loading stale skip_slowlog", "transaction", &[], Transaction(Step::Execute)),
    row("multi", 1, "noscript loading stale fast allow_busy", "transaction", &[], Transaction(Step::Begin)),
    row("unwatch", 1, "noscript loading stale fast allow_busy", "transaction", &[], Transaction(Step::Unwatch)),
    row("watch", -2, "noscript loading stale fast allow_busy", "transaction",
        &[keys(1, -1, 1, "RO")], Transaction(Step::Watch)),
];
