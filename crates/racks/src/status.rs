//! The state of racks, for operators.

use crate::copy::{Copy, Standing};
use std::time::Duration;

/// The state of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RackState {
    /// Read from, and counted.
    Up,
    /// Without a connection.
    Down,
    /// Keys that it missed are copied to it.
    CatchingUp,
    /// Behind by more than the hints say.
    Stale,
    /// Its keys are compared one by one.
    Repairing,
}

impl RackState {
    /// All states with their names.
    pub const NAMES: [(RackState, &'static str); 5] = [
        (RackState::Up, "up"),
        (RackState::Down, "down"),
        (RackState::CatchingUp, "catching-up"),
        (RackState::Stale, "stale"),
        (RackState::Repairing, "repairing"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        RackState::NAMES.iter().find(|(state, _)| *state == self).map_or("", |(_, name)| *name)
    }

    pub(crate) fn of(copy: &Copy) -> RackState {
        match copy.standing {
            Standing::Stale(_) => RackState::Stale,
            Standing::Repairing(_) => RackState::Repairing,
            Standing::Current if !copy.link.is_open() => RackState::Down,
            Standing::Current if copy.hints.is_empty() => RackState::Up,
            Standing::Current => RackState::CatchingUp,
        }
    }
}

/// One copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RackStatus {
    /// Its state.
    pub state: RackState,
    /// Keys that it has missed.
    pub hints: u64,
    /// Bytes of them.
    pub hint_bytes: u64,
    /// Age of the oldest of them.
    pub lag: Duration,
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads that missed their level, or were refused since too few racks were up.
    pub reads_missed: u64,
    /// The same of writes.
    pub writes_missed: u64,
    /// Connections to copies that were lost.
    pub losses: u64,
    /// Keys that racks have missed.
    pub hints: u64,
    /// Missed keys that were copied later.
    pub played_back: u64,
    /// Times that a rack became stale.
    pub outdated: u64,
    /// Keys that were copied to repair a difference, or a stale rack.
    pub repaired: u64,
    /// Keys that were compared in the background, or to repair a stale rack.
    pub compared: u64,
    /// Keys that differed between racks that were up, in two looks.
    pub different: u64,
    /// Replies of racks to one request that differed.
    pub replies_different: u64,
    /// Batches of hints that could not be written.
    pub log_failures: u64,
}

/// The state of the racks of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Each copy.
    pub racks: Vec<RackStatus>,
    /// The counts.
    pub counts: Counts,
}
