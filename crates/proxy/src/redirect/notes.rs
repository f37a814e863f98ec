//! Notes of requests in flight: see `in_flight.rs`.

use crate::ConnId;
use crate::link::LinkIx;
use crate::redirect::declined::{Aim, Effect};
use std::collections::BTreeMap;
use stdx::Instant;

/// Requests in flight by client.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// The versions of the links and of the topology that the notes are about.
    pub versions: (u64, u64),
    /// For each link, the offset behind its last noted ticket.
    pub read_until: Vec<u64>,
    pub clients: BTreeMap<ConnId, OfClient>,
    pub asked_at: Instant,
}

/// The requests in flight of one client.
#[derive(Debug, Default)]
pub(crate) struct OfClient {
    /// Requests that were not parsed yet.
    pub unparsed: Vec<(LinkIx, u64)>,
    /// The others, by their keys. `None` if these are unknown.
    pub parsed: BTreeMap<Option<Aim>, Vec<Note>>,
}

/// One request: the ticket on `link` that begins at `start`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub link: LinkIx,
    pub start: u64,
    pub effect: Effect,
}

impl Notes {
    /// Drops the notes unless somebody has asked since `instant`.
    pub(crate) fn forget_before(&mut self, instant: Instant) {
        if self.asked_at < instant && !self.read_until.is_empty() {
            *self = Notes::default();
        }
    }
}
