//! Requests in flight, found by client and keys. A declined request must not overtake others of its client. So each
//! declined request asks for those.
//!
//! A search of all tickets of all links for each declined request would stop a worker for seconds. A thousand
//! declined requests of one client took 0.5 G instructions. So the first question reads all tickets and notes them by client
//! (`notes.rs`). A later question reads only new tickets, and a request is parsed once.
//!
//! The notes may be too many but never too few: a noted ticket that is answered is skipped and forgotten. The notes
//! are made anew if a link or the topology has changed, and dropped within a second of the last question.

use crate::ConnId;
use crate::context::Context;
use crate::features::{Link, Owner, Ticket};
use crate::redirect::declined::{Aim, Effect};
use crate::redirect::notes::{Note, Notes, OfClient};

/// A request in flight that may have keys in common with another.
pub(crate) struct Found<'a> {
    pub link: &'a Link,
    pub ticket: &'a Ticket,
    /// `None` if its bytes are not kept.
    pub aim: Option<Aim>,
    pub effect: Effect,
}

/// Gives `look` the notes beside the context.
pub(crate) fn with<T>(cx: &mut Context, look: impl FnOnce(&Context, &mut Notes) -> T) -> T {
    let mut notes = std::mem::take(&mut cx.retry_queue.in_flight);
    let found = look(cx, &mut notes);
    cx.retry_queue.in_flight = notes;
    found
}

/// Whether `is_it` holds for a request in flight of the client `conn` that may have keys in common with `aim`.
pub(crate) fn any(
    cx: &Context,
    notes: &mut Notes,
    conn: ConnId,
    aim: Aim,
    mut is_it: impl FnMut(&Found<'_>) -> bool,
) -> bool {
    catch_up(cx, notes);
    let Some(client) = notes.clients.get_mut(&conn) else { return false };
    parse(cx, client);
    groups(cx, client, aim).into_iter().any(|aim| {
        let Some(notes) = client.parsed.get_mut(&aim) else { return false };
        let mut is_there = false;
        notes.retain(|note| {
            is_there || found(cx, *note, aim).inspect(|found| is_there = is_it(found)).is_some()
        });
        is_there
    })
}

/// Notes tickets that are new.
fn catch_up(cx: &Context, notes: &mut Notes) {
    let links = &cx.engine.links;
    let versions = (links.version(), cx.engine.topology.epoch());
    if versions != notes.versions {
        *notes = Notes { versions, ..Notes::default() };
    }
    notes.asked_at = cx.engine.now;
    notes.read_until.resize(links.iter().len(), 0);
    for ((ix, link), until) in links.with_indexes().zip(&mut notes.read_until) {
        let end = link.end();
        if *until == end {
            continue;
        }
        for ticket in link.tickets_from(*until).filter(|ticket| ticket.owner == Owner::Client) {
            notes.clients.entry(ticket.conn).or_default().unparsed.push((ix, ticket.start));
        }
        *until = end;
    }
}

/// Parses new requests of a client.
fn parse(cx: &Context, client: &mut OfClient) {
    for (ix, start) in client.unparsed.drain(..) {
        let link = &cx.engine.links[ix];
        let Some(number) = link.number_at(start) else { continue };
        let request = link.kept_request(number);
        let aim = request.as_ref().map(|request| cx.aim_of(request, link.shard));
        let effect = request.map_or(Effect::Writes, |request| cx.effect_of(&request));
        client.parsed.entry(aim).or_default().push(Note { link: ix, start, effect });
    }
}

/// The keys of requests of `client` that may have some in common with `aim`.
fn groups(cx: &Context, client: &OfClient, aim: Aim) -> Vec<Option<Aim>> {
    match aim {
        Aim::Slot(_) => vec![None, Some(aim), Some(Aim::Shard(cx.shard_of(aim)))],
        Aim::Shard(_) => {
            let overlaps = |other: &&Option<Aim>| other.is_none_or(|other| cx.overlap(other, aim));
            client.parsed.keys().filter(overlaps).copied().collect()
        }
    }
}

/// The request of `note`, if it is not answered yet.
fn found(cx: &Context, note: Note, aim: Option<Aim>) -> Option<Found<'_>> {
    let link = &cx.engine.links[note.link];
    let ticket = link.ticket(link.number_at(note.start)?)?;
    Some(Found { link, ticket, aim, effect: note.effect })
}
