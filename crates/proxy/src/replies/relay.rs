//! Relay: replies on pinned links go to the client while they come. The worker reads from the node only as much as
//! the client takes: backpressure.
//!
//! Three kinds of replies are relayed:
//!
//! * the reply of one node,
//! * the values of an MGET, in the order of the keys,
//! * the lists of a KEYS, one after the other.
//!
//! ```text
//!   part 0 ─► *2 …  ┐ all have begun,          ┌─► all of part 0, part 1, …  (KEYS)
//!   part 1 ─► *3 …  ┘ none with an error ─► *5 ┴─► value by value, from the part of each key  (MGET)
//! ```
//!
//! Behind the first byte, an error has no place any more, so the loss of a node closes the client. From a part whose
//! turn has not come, the worker reads at most once: its node keeps the rest.

use crate::context::Context;
use crate::core::Core;
use crate::features::{Link, Owed, Owner, Session, TaskId, Ticket};
use crate::hot;
use crate::link::{LinkIx, Unfinished};
use crate::outcome::{Fault, unasked_push};
use crate::replies::merge::Merge;
use crate::walk;
use resp::reply::{self, ReplyError};
use stdx::Id;

/// Whether more can be relayed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A reply is complete; the next one may have arrived too.
    Done,
    /// More bytes must come from a node, or leave to the client, first.
    Wait,
}

/// A protocol error of a node.
#[derive(Debug)]
pub(crate) struct Garbled {
    pub link: LinkIx,
    pub fault: Fault,
}

impl Garbled {
    fn by(link: LinkIx, error: ReplyError) -> Garbled {
        Garbled { link, fault: Fault::Garbled(error.to_string()) }
    }
}

impl Context {
    /// Whether the reply to `ticket` is relayed.
    pub(crate) fn is_relayed(&self, session: &Session, ticket: &Ticket) -> bool {
        match session.replies.owed(ticket.place) {
            Some(Owed::Task(TaskId::Merge(id))) => self.merges.get(id).is_some_and(Merge::is_relayed),
            Some(Owed::Task(TaskId::Receivers(_)) | Owed::Task(TaskId::Judged(_))) => false,
            _ => true,
        }
    }

    /// Relays the available bytes of one node's reply.
    fn relay_reply(&mut self, session: &mut Session, links: &[LinkIx]) -> Result<Step, Garbled> {
        walk::enter("relay_reply");
        let Some((node, ticket)) = self.source(session, links, None) else { return Ok(Step::Wait) };
        let complete = self.relay_value(session, node, &ticket)?;
        if !complete {
            return Ok(Step::Wait);
        }
        self.finish_reply(node);
        session.replies.finish_relay(&mut self.engine.pool);
        Ok(Step::Done)
    }

    /// Ends a reply on the pinned link `ix` that was relayed to its end. If the next reply has no owner, its bytes
    /// must not reach the client.
    fn finish_reply(&mut self, ix: LinkIx) {
        let link = &mut self.engine.links[ix];
        link.pop();
        let is_for_nobody = link.front().is_some_and(|ticket| ticket.owner == Owner::Nobody);
        if is_for_nobody && link.input_len() > 0 {
            self.pins.to_read.push(ix);
        }
    }

    /// The link whose next reply belongs to the place at the front, and to `part` if it is given.
    fn source(&self, session: &Session, links: &[LinkIx], part: Option<u32>) -> Option<(LinkIx, Ticket)> {
        links.iter().find_map(|&ix| {
            let ticket = front_ticket(&self.engine.links[ix], session)?;
            part.is_none_or(|part| ticket.part == part).then_some((ix, *ticket))
        })
    }

    /// Relays the available bytes of the next value from `ix`. Returns true if the value is complete.
    fn relay_value(&mut self, session: &mut Session, ix: LinkIx, ticket: &Ticket) -> Result<bool, Garbled> {
        if !session.replies.is_relaying() && self.holds_error(ix) {
            return Ok(false);
        }
        let link = &mut self.engine.links[ix];
        let input = link.lend_input();
        if !session.replies.is_relaying() && reply::is_push(&input) {
            return Err(Garbled { link: ix, fault: unasked_push() });
        }
        let passed = link.pass(&input, &self.engine.limits).map_err(|error| Garbled::by(ix, error))?;
        let bytes = &input[..passed.len];
        let begins = !session.replies.is_relaying() && !bytes.is_empty();
        if begins {
            let (queued_us, now_us) = (ticket.queued_us, self.engine.now_us);
            self.stats.tally.count_reply(ticket.command, queued_us, now_us, bytes);
            self.stats.nodes.count_reply(link.node, queued_us, now_us, bytes);
        }
        session.replies.relay(bytes, &mut self.engine.pool);
        link.restore_input(input, passed.len, &mut self.engine.pool);
        link.incoming.starved = !passed.complete;
        let value_bytes = passed.len + link.bytes_announced();
        if begins && value_bytes > self.engine.limits.large_bytes {
            hot::note_large_reply(self, ix, value_bytes);
        }
        Ok(passed.complete)
    }

    /// Whether the next reply on the pinned link `ix`, of which nothing was relayed, is an error that may decline the
    /// request. Then the error is read whole.
    fn holds_error(&mut self, ix: LinkIx) -> bool {
        let link = &mut self.engine.links[ix];
        let holds = self.engine.keeps.is_kept() && link.begins_with_error();
        if holds {
            link.incoming.starved = true;
            self.pins.to_read.push(ix);
        }
        holds
    }
}

impl Core {
    /// Relays the available bytes of the session's next replies.
    pub(crate) fn relay(&mut self, session: &mut Session) -> Result<(), Garbled> {
        let Some(pin) = session.pinning.id().and_then(|id| self.cx.pins.get_mut(id)) else { return Ok(()) };
        let mut links = std::mem::take(&mut pin.links);
        for &ix in &links {
            let ticket = self.cx.engine.links[ix].tickets().next();
            // Replies that are not relayed, or have no owner, must be read to their end.
            let is_read_on =
                |ticket: &Ticket| ticket.owner == Owner::Nobody || !self.cx.is_relayed(session, ticket);
            let starved = ticket.is_some_and(is_read_on);
            self.cx.engine.links[ix].incoming.starved = starved;
        }
        let relayed = self.relay_all(session, &links);
        for &ix in &links {
            self.cx.pace_pinned(ix);
            self.cx.engine.links[ix].forget_answered(&mut self.cx.engine.pool);
            self.cx.engine.recount_link(ix);
        }
        links.retain(|ix| !self.cx.pins.doomed.contains(ix));
        if let Some(pin) = session.pinning.id().and_then(|id| self.cx.pins.get_mut(id)) {
            pin.links = links;
        }
        self.cx.engine.list_client(session);
        self.cx.count_waiting(session);
        relayed
    }

    fn relay_all(&mut self, session: &mut Session, links: &[LinkIx]) -> Result<(), Garbled> {
        loop {
            let step = match session.replies.front_owed() {
                _ if session.replies.output().len() >= self.cx.engine.limits.relay_bytes_max => Step::Wait,
                Some(Owed::Node) => self.cx.relay_reply(session, links)?,
                Some(Owed::Task(TaskId::Merge(id))) => self.relay_parts(session, links, id)?,
                _ => Step::Wait,
            };
            if step == Step::Wait {
                return Ok(());
            }
        }
    }

    /// Relays the available bytes of a merge's parts.
    fn relay_parts(&mut self, session: &mut Session, links: &[LinkIx], id: Id) -> Result<Step, Garbled> {
        let merge = self.cx.merges.get_mut(id).filter(|merge| merge.is_relayed());
        let Some(mut merge) = merge.map(Merge::lend) else { return Ok(Step::Wait) };
        let step = relay_merge(self, session, links, &mut merge);
        match step {
            Ok(Step::Done) => {
                self.cx.merges.remove(id);
                self.cx.engine.memory.recount(&mut merge.counted_bytes, 0);
                merge.give_values(&mut self.cx.spare_values);
            }
            _ => {
                let holds = merge.held_bytes();
                self.cx.engine.memory.recount(&mut merge.counted_bytes, holds);
                if let Some(place) = self.cx.merges.get_mut(id) {
                    *place = merge;
                }
            }
        }
        step
    }

    /// Handles bytes on `ix` for a reply of which nothing was relayed. Returns true if this link's part has begun,
    /// and other parts of its merge have not. Then the worker does not look at the other parts. A look at all of them
    /// for each part would take quadratic time.
    pub(crate) fn waits_for_others(&mut self, session: &Session, ix: LinkIx) -> Result<bool, Garbled> {
        let Some(Owed::Task(TaskId::Merge(id))) = session.replies.front_owed() else { return Ok(false) };
        if session.replies.is_relaying() || front_ticket(&self.cx.engine.links[ix], session).is_none() {
            return Ok(false);
        }
        let merge = self.cx.merges.get_mut(id).filter(|merge| merge.is_relayed());
        let Some(mut merge) = merge.map(Merge::lend) else { return Ok(false) };
        let read = begin_part(self, session, ix, &mut merge);
        let waits = !merge.has_failed() && !merge.has_begun();
        if let Some(place) = self.cx.merges.get_mut(id) {
            *place = merge;
        }
        read?;
        if waits {
            self.cx.pace_pinned(ix);
        }
        Ok(waits)
    }
}

fn relay_merge(
    core: &mut Core,
    session: &mut Session,
    links: &[LinkIx],
    merge: &mut Merge,
) -> Result<Step, Garbled> {
    if !session.replies.is_relaying()
        && let Some(step) = begin_parts(core, session, links, merge)?
    {
        return Ok(step);
    }
    let step = match merge.is_of_lists() {
        true => relay_lists(core, session, links, merge)?,
        false => relay_values(core, session, links, merge)?,
    };
    if step == Step::Done {
        session.replies.finish_relay(&mut core.cx.engine.pool);
    }
    Ok(step)
}

/// Relays the header of a merge's array, if all parts have begun without an error. Otherwise returns the next step.
fn begin_parts(
    core: &mut Core,
    session: &mut Session,
    links: &[LinkIx],
    merge: &mut Merge,
) -> Result<Option<Step>, Garbled> {
    read_heads(core, session, links, merge)?;
    if merge.has_failed() {
        return Ok(Some(answer_failed(core, session, links, merge)));
    }
    if !merge.has_begun() {
        return Ok(Some(Step::Wait));
    }
    let mut head = core.cx.engine.pool.take();
    merge.begin_relay(&mut head);
    count_merged(core, merge, &head);
    session.replies.relay(&head, &mut core.cx.engine.pool);
    core.cx.engine.pool.give(head);
    Ok(None)
}

/// Counts a merged reply that begins with `head`.
fn count_merged(core: &mut Core, merge: &Merge, head: &[u8]) {
    if let Some((command, queued_us)) = merge.asked {
        core.cx.stats.tally.count_reply(command, queued_us, core.cx.engine.now_us, head);
    }
}

/// Relays the available bytes of an MGET's values.
fn relay_values(
    core: &mut Core,
    session: &mut Session,
    links: &[LinkIx],
    merge: &mut Merge,
) -> Result<Step, Garbled> {
    while let Some(part) = merge.next_part() {
        if session.replies.output().len() >= core.cx.engine.limits.relay_bytes_max {
            return Ok(Step::Wait);
        }
        if let Some(value) = merge.held_value(part) {
            session.replies.relay(value, &mut core.cx.engine.pool);
            merge.advance(value.len());
            continue;
        }
        let Some((ix, ticket)) = core.cx.source(session, links, Some(part)) else { return Ok(Step::Wait) };
        if !core.cx.relay_value(session, ix, &ticket)? {
            return Ok(Step::Wait);
        }
        merge.advance(0);
        finish_element(core, ix);
    }
    Ok(Step::Done)
}

/// Relays the available bytes of the parts of a KEYS, from the first incomplete one.
fn relay_lists(
    core: &mut Core,
    session: &mut Session,
    links: &[LinkIx],
    merge: &mut Merge,
) -> Result<Step, Garbled> {
    let part_of = |&ix: &LinkIx| Some((front_ticket(&core.cx.engine.links[ix], session)?.part, ix));
    let mut sources: Vec<(u32, LinkIx)> = links.iter().filter_map(part_of).collect();
    sources.sort_unstable();
    for (_, ix) in sources {
        if session.replies.output().len() >= core.cx.engine.limits.relay_bytes_max {
            return Ok(Step::Wait);
        }
        let Some(&ticket) = front_ticket(&core.cx.engine.links[ix], session) else { return Ok(Step::Wait) };
        if !core.cx.relay_value(session, ix, &ticket)? {
            return Ok(Step::Wait);
        }
        core.cx.engine.links[ix].incoming.unfinished = Unfinished::Waits;
        core.cx.finish_reply(ix);
        merge.end_part();
    }
    Ok(if merge.is_complete() { Step::Done } else { Step::Wait })
}

/// Ends an element of the array from `ix` that was relayed.
fn finish_element(core: &mut Core, ix: LinkIx) {
    let link = &mut core.cx.engine.links[ix];
    if let Unfinished::Elements(left @ 2..) = link.incoming.unfinished {
        link.incoming.unfinished = Unfinished::Elements(left - 1);
        return;
    }
    link.incoming.unfinished = Unfinished::Waits;
    core.cx.finish_reply(ix);
}

/// Reads the beginnings of the parts that have not begun.
fn read_heads(
    core: &mut Core,
    session: &Session,
    links: &[LinkIx],
    merge: &mut Merge,
) -> Result<(), Garbled> {
    links.iter().try_for_each(|&ix| begin_part(core, session, ix, merge))
}

/// Reads the beginning of the part on `ix`, if it has not begun.
fn begin_part(core: &mut Core, session: &Session, ix: LinkIx, merge: &mut Merge) -> Result<(), Garbled> {
    let link = &core.cx.engine.links[ix];
    let Some(&Ticket { part, command, queued_us, .. }) = front_ticket(link, session) else {
        return Ok(());
    };
    merge.asked.get_or_insert((command, queued_us));
    if matches!(link.incoming.unfinished, Unfinished::Elements(_)) || core.cx.holds_error(ix) {
        return Ok(());
    }
    let link = &mut core.cx.engine.links[ix];
    let input = link.lend_input();
    let head = head_of(&input, &core.cx.engine.limits.reply).map_err(|error| Garbled::by(ix, error))?;
    let used = if let Head::Array { len, .. } = &head { *len } else { 0 };
    link.incoming.starved = matches!(head, Head::Unfinished);
    match head {
        Head::Array { elements, len } if merge.takes(part, elements) => {
            link.incoming.unfinished = Unfinished::Elements(elements);
            merge.begin_part(elements);
            if merge.is_of_lists() {
                let passed = link.pass_header(&input[..len], &core.cx.engine.limits);
                passed.map_err(|error| Garbled::by(ix, error))?;
            }
        }
        Head::Array { .. } | Head::Other => merge.fail_merging(part),
        Head::Error { len } => merge.fail_by_link(part, &input[..len]),
        Head::Unfinished => {}
    }
    link.restore_input(input, used, &mut core.cx.engine.pool);
    if link.incoming.unfinished == Unfinished::Elements(0) {
        end_empty_part(core, ix, merge);
    }
    Ok(())
}

/// Ends a part without elements on `ix`. If the part waited for its turn, its node would count as late.
fn end_empty_part(core: &mut Core, ix: LinkIx, merge: &mut Merge) {
    core.cx.engine.links[ix].incoming.unfinished = Unfinished::Waits;
    core.cx.finish_reply(ix);
    merge.end_empty_part();
}

/// Answers with the error of a part that failed before any byte was relayed. The replies of other parts are not
/// awaited.
fn answer_failed(core: &mut Core, session: &mut Session, links: &[LinkIx], merge: &Merge) -> Step {
    for &ix in links {
        // This includes a link that is not connected yet: its first reply would belong to a filled place.
        let is_first = |ticket: &Ticket| is_for_front(ticket, session);
        if core.cx.engine.links[ix].tickets().next().is_some_and(is_first) {
            core.cx.pins.doomed.push(ix);
        }
    }
    if let Some(pin) = session.pinning.id().and_then(|id| core.cx.pins.get_mut(id)) {
        pin.forget(session.replies.front());
    }
    let mut error = core.cx.engine.pool.take();
    merge.write_failure(&mut error);
    count_merged(core, merge, &error);
    let place = session.replies.front();
    session.replies.settle(place, &error, &mut core.cx.engine.pool);
    core.cx.engine.pool.give(error);
    Step::Done
}

/// The ticket of the link's next reply, if it belongs to the session's place at the front.
fn front_ticket<'a>(link: &'a Link, session: &Session) -> Option<&'a Ticket> {
    link.tickets().next().filter(|ticket| link.is_ready() && is_for_front(ticket, session))
}

fn is_for_front(ticket: &Ticket, session: &Session) -> bool {
    ticket.owner == Owner::Client && ticket.conn == session.conn && ticket.place == session.replies.front()
}

/// The beginning of a reply that should be an array.
enum Head {
    /// An array, with a header of `len` bytes.
    Array { elements: usize, len: usize },
    /// An error of `len` bytes.
    Error { len: usize },
    /// Another type.
    Other,
    /// More bytes are needed.
    Unfinished,
}

fn head_of(bytes: &[u8], limits: &reply::ReplyLimits) -> Result<Head, ReplyError> {
    Ok(match bytes.first() {
        None => Head::Unfinished,
        Some(b'*') => match reply::array_header(bytes, limits)? {
            Some((elements, len)) => Head::Array { elements, len },
            None => Head::Unfinished,
        },
        Some(b'-') => match reply::Scanner::default().scan(bytes, limits)? {
            Some(len) => Head::Error { len },
            None => Head::Unfinished,
        },
        Some(_) => {
            // A protocol error differs from a reply of another type.
            reply::Scanner::default().scan(bytes, limits)?;
            Head::Other
        }
    })
}
