//! Requests in flight, found by client and keys. A declined request must not overtake others of its client, so each
//! declined request asks for those.
//!
//! A search of all tickets of all links for each declined request would stop a worker for seconds: a thousand declined
//! requests of one client took 0.5 G instructions. So the first question reads all tickets and notes them by client. A later
//! one reads only the tickets that are new since, and a request is parsed once.
//!
//! The notes may be too many but never too few: a noted ticket that is answered is skipped and forgotten. The notes
//! are made anew if a link or the topology has changed, and dropped within a second of the last question.

use crate::ConnId;
use crate::context::Context;
use crate::features::{Link, Owner, Ticket};
use crate::link::LinkIx;
use crate::redirect::declined::Aim;
use std::collections::BTreeMap;
use stdx::Instant;

/// Requests in flight by client.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// The versions of the links and of the topology that the notes are about.
    versions: (u64, u64),
    /// For each link, the offset behind its last noted ticket.
    read_until: Vec<u64>,
    clients: BTreeMap<ConnId, OfClient>,
    asked_at: Instant,
}

/// The requests in flight of one client.
#[derive(Debug, Default)]
struct OfClient {
    /// Requests that were not parsed yet.
    unparsed: Vec<(LinkIx, u64)>,
    /// The others, by their keys. `None` if these are unknown.
    parsed: BTreeMap<Option<Aim>, Vec<Note>>,
}

/// One request: the ticket on `link` that begins at `start`.
#[derive(Clone, Copy, Debug)]
struct Note {
    link: LinkIx,
    start: u64,
    /// Whether a replica may run it.
    is_read: bool,
}

/// A request in flight that may have keys in common with another.
pub(crate) struct Found<'a> {
    pub link: &'a Link,
    pub ticket: &'a Ticket,
    /// `None` if its bytes are not kept.
    pub aim: Option<Aim>,
    /// Whether a replica may run it.
    pub is_read: bool,
}

impl InFlight {
    /// Drops the notes unless somebody has asked since `instant`.
    pub(crate) fn forget_before(&mut self, instant: Instant) {
        if self.asked_at < instant && !self.read_until.is_empty() {
            *self = InFlight::default();
        }
    }

    /// Whether `is_it` holds for a request in flight of the client `conn` that may have keys in common with `aim`.
    pub(crate) fn any(
        &mut self,
        cx: &Context,
        conn: ConnId,
        aim: Aim,
        mut is_it: impl FnMut(&Found<'_>) -> bool,
    ) -> bool {
        self.catch_up(cx);
        let Some(client) = self.clients.get_mut(&conn) else { return false };
        client.catch_up(cx);
        client.groups(cx, aim).into_iter().any(|aim| {
            let Some(notes) = client.parsed.get_mut(&aim) else { return false };
            let mut is_there = false;
            notes.retain(|note| {
                is_there || found(cx, *note, aim).inspect(|found| is_there = is_it(found)).is_some()
            });
            is_there
        })
    }

    /// Notes tickets that are new.
    fn catch_up(&mut self, cx: &Context) {
        let links = &cx.engine.links;
        let versions = (links.version(), cx.engine.topology.epoch());
        if versions != self.versions {
            *self = InFlight { versions, ..InFlight::default() };
        }
        self.asked_at = cx.engine.now;
        self.read_until.resize(links.iter().len(), 0);
        for ((ix, link), until) in links.with_indexes().zip(&mut self.read_until) {
            let end = link.end();
            if *until == end {
                continue;
            }
            for ticket in link.tickets_from(*until).filter(|ticket| ticket.owner == Owner::Client) {
                self.clients.entry(ticket.conn).or_default().unparsed.push((ix, ticket.start));
            }
            *until = end;
        }
    }
}

impl OfClient {
    /// Parses new requests.
    fn catch_up(&mut self, cx: &Context) {
        for (ix, start) in self.unparsed.drain(..) {
            let link = &cx.engine.links[ix];
            let Some(number) = link.number_at(start) else { continue };
            let request = link.kept_request(number);
            let aim = request.as_ref().map(|request| cx.aim_of(request, link.shard));
            let is_read = request.is_some_and(|request| cx.may_run_on_replica(&request));
            self.parsed.entry(aim).or_default().push(Note { link: ix, start, is_read });
        }
    }

    /// The keys of requests that may have some in common with `aim`.
    fn groups(&self, cx: &Context, aim: Aim) -> Vec<Option<Aim>> {
        match aim {
            Aim::Slot(_) => vec![None, Some(aim), Some(Aim::Shard(cx.shard_of(aim)))],
            Aim::Shard(_) => {
                let overlaps = |other: &&Option<Aim>| other.is_none_or(|other| cx.overlap(other, aim));
                self.parsed.keys().filter(overlaps).copied().collect()
            }
        }
    }
}

/// Gives `look` the requests in flight beside the context.
pub(crate) fn with<T>(cx: &mut Context, look: impl FnOnce(&Context, &mut InFlight) -> T) -> T {
    let mut in_flight = std::mem::take(&mut cx.retry_queue.in_flight);
    let found = look(cx, &mut in_flight);
    cx.retry_queue.in_flight = in_flight;
    found
}

/// The request of `note`, if it is not answered yet.
fn found(cx: &Context, note: Note, aim: Option<Aim>) -> Option<Found<'_>> {
    let link = &cx.engine.links[note.link];
    let ticket = link.ticket(link.number_at(note.start)?)?;
    Some(Found { link, ticket, aim, is_read: note.is_read })
}
