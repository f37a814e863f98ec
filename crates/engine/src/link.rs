//! One connection to a node and the tickets of its requests in flight. All clients of the worker share the connection,
//! or one client has it pinned for a large transfer.
//!
//! ```text
//!             connect        connected, greeting sent       PONG, and proof
//!   Waiting ──────────► Connecting ──────────► Probing ──────────► Ready
//!      ▲                     │                    │                  │
//!      └──── refused, closed, no answer in time ──┴──────────────────┘
//! ```
//!
//! Requests wait for the outcome of the first attempt to connect, and of the attempt after a healthy connection was
//! lost. After a failed attempt they are refused at once (`TRYAGAIN`) until a PONG comes: a dead node must not cost
//! clients time. Attempts continue after a jittered pause of 10 ms to 1 s.
//!
//! Replies match tickets by order alone. So a ticket stays in the queue until its reply comes or the connection is
//! gone. If the request times out before, its ticket becomes a tombstone: the late reply never meets another request.
//! Bytes without a ticket close the connection.
//!
//! The greeting gives the connection its profile (`HELLO 3`, `SELECT 3`) and ends with a PING. If the node answers an
//! error, clients of the profile get this error as the reason why the shard is unavailable to them.
//!
//! A connection counts as healthy after a second. If a healthy connection is lost, its reads in flight are sent again
//! on the next one, once.

pub mod greeting;
pub mod kept;
pub mod profile;

mod handshake;
mod links;
mod outbox;
mod silence;
#[cfg(test)]
mod tests;

use crate::ConnId;
use crate::features::Features;
use crate::limits::Limits;
use crate::link::greeting::{Greeting, PING};
use crate::link::kept::Kept;
pub use crate::link::links::{LinkIx, Links};
use crate::link::outbox::Outbox;
use crate::link::profile::ProfileId;
pub use crate::link::silence::Due;
use resp::encode;
use resp::reply::{self, Passed, ReplyError, ReplyLimits};
use std::collections::VecDeque;
use std::time::Duration;
use stdx::{BufferPool, Instant, Prng, append};
use topology::{NodeId, ShardId};

/// The owner of one reply in flight.
#[derive(Clone, Copy, Debug)]
pub struct Ticket<F: Features> {
    /// The connection of the client that asked.
    pub conn: ConnId,
    /// The place in that client's order.
    pub place: u32,
    /// The fragment's number in a split request.
    pub part: u32,
    /// The owner of the reply.
    pub owner: Owner<F::Kind>,
    /// The command, for the statistics.
    pub command: F::Command,
    /// Whether the request may be sent again, if its bytes are still kept: see [`Link::kept_request`].
    pub kept: Kept,
    /// When the request was queued: the low bits of the microseconds, see [`crate::engine::low_us`].
    pub queued_us: u32,
    /// Offset of the request's first byte among all bytes that were ever queued on this connection.
    pub start: u64,
    /// The earliest instant at which the reply is late: see `silence.rs`.
    pub deadline: Instant,
}

impl<F: Features> Ticket<F> {
    /// Whether `conn` names a client that waits or has waited.
    pub fn is_of_client(&self) -> bool {
        matches!(self.owner, Owner::Client | Owner::Late)
    }

    /// Has the reply dropped when it comes.
    pub fn discard(&mut self) {
        self.owner = match self.owner {
            Owner::Client | Owner::Late => Owner::Late,
            Owner::Queued => Owner::Queued,
            _ => Owner::Nobody,
        };
    }
}

/// The owner of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<K> {
    /// A client. The reply goes to the client's place, or to the task that fills it.
    Client,
    /// A task of this kind. The ticket's `conn` names the task, unless the kind gives it another meaning.
    Task(K),
    /// The client in `conn`, which no longer waits. The reply is dropped (a tombstone).
    Late,
    /// Nobody: the reply only says that a command waits for EXEC, and the reply to EXEC says more. The ticket stands
    /// for `part` more replies of this kind.
    Queued,
    /// Nobody. The reply is dropped.
    Nobody,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no connection.
    Waiting {
        /// The instant of the next attempt.
        until: Instant,
    },
    /// The connection was asked for.
    Connecting {
        /// Its name.
        conn: ConnId,
        /// The end of the attempt.
        deadline: Instant,
    },
    /// The connection is open, and its greeting is in flight.
    Probing {
        /// Its name.
        conn: ConnId,
        /// The end of the attempt.
        deadline: Instant,
        /// Bytes of the greeting that the driver has not taken yet.
        unsent: usize,
        /// Replies to the greeting that are still to come.
        unanswered: usize,
    },
    /// Requests flow.
    Ready {
        /// Its name.
        conn: ConnId,
        /// The instant from which requests flow.
        since: Instant,
    },
}

/// The users of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// All clients. After a loss the link connects again.
    Shared,
    /// One client at a time, for large transfers. The link is made on demand and does not connect again by itself.
    Pinned,
    /// All clients, for messages: see `pubsub.rs`. The link connects again as long as there is a topic.
    Subscription,
    /// One client that watches keys or waits for an element: see `held.rs`.
    Held,
    /// All clients, for reads from a replica: see `replicas.rs`. After a loss the link connects again.
    Replica,
    /// Clients whose requests were in flight when another connection replaced this one: see `retire.rs`.
    Retired,
    /// Clients whose requests were in flight when the node lost its role (see `topology_update.rs`) or became suspect
    /// (see `suspect.rs`). The link is closed afterwards.
    Draining,
    /// Nobody yet. If the node answers, this link replaces a suspect shared one. It does not connect again.
    Standby,
}

/// The worst that the log has said of a node. Only a higher value is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reported {
    #[default]
    /// Nothing.
    Nothing,
    /// The node cannot be used.
    Down,
    /// The node answers, but is not the node that is meant.
    Refused,
}

impl Use {
    /// Whether clients with requests in flight here send nothing elsewhere until these are answered: see `retire.rs`.
    pub fn has_barriers(self) -> bool {
        matches!(self, Use::Retired | Use::Draining)
    }
}

/// One connection to a node, or the plan for one.
#[derive(Debug)]
pub struct Link<F: Features> {
    /// The shard of the node when it was connected to.
    pub shard: ShardId,
    /// The node at the other end.
    pub node: NodeId,
    /// The users of the connection.
    pub used_by: Use,
    /// The connection profile that its users share.
    pub profile: ProfileId,
    /// Greeting and proof.
    pub handshake: Handshake<F>,
    /// See [`State`].
    pub state: State,
    /// Results of the last attempts to connect.
    pub attempts: Attempts,
    /// Input from the node.
    pub incoming: Incoming,
    /// Output to the node.
    pub outgoing: Outgoing,
    /// Bytes since they were counted for the node.
    pub traffic: Traffic,
    /// Requests that wait for their replies.
    in_flight: InFlight<F>,
    /// The instant from which all requests in flight are late despite progress.
    pub late_at_most: Instant,
    /// Memory in use, as it was counted last.
    pub counted_bytes: usize,
    /// The instant of the last progress.
    moved_at: Instant,
    /// The instant of the last suspicion.
    suspected_at: Instant,
    /// State of features.
    pub features: F::Link,
}

/// The beginning of a connection.
#[derive(Debug)]
pub struct Handshake<F: Features> {
    /// The first requests.
    pub greeting: Greeting,
    /// The proof that the node must give after the greeting.
    pub proof: F::Proof,
    /// Whether the node was asked for the proof.
    is_proving: bool,
}

/// Traffic over a link.
#[derive(Debug, Default)]
pub struct Traffic {
    /// From the node.
    pub bytes_in: u64,
    /// To the node.
    pub bytes_out: u64,
    /// Writes to the node: one for all requests of a turn.
    pub writes: u64,
}

/// Results of the last attempts to connect.
#[derive(Debug, Default)]
pub struct Attempts {
    /// Why the last attempt failed. Clients see this text while the node is down.
    pub reason: String,
    /// Number of attempts that failed in a row.
    pub failures: u32,
    /// The worst that the log has said of the node since it was up.
    pub reported: Reported,
}

/// Input from a node: the unfinished reply and the state of its reader.
#[derive(Debug, Default)]
pub struct Incoming {
    bytes: Vec<u8>,
    scanner: reply::Scanner,
    /// The fate of the unfinished reply.
    pub unfinished: Unfinished,
    /// Bytes that were skipped recently.
    pub passed_over_bytes: usize,
    /// Whether reading has stopped because the input cannot be passed on now. Pinned links only.
    pub paused: bool,
    /// Whether the input read so far is not enough to continue. Pinned links only.
    pub starved: bool,
}

/// The fate of an unfinished reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unfinished {
    /// A small one waits for its rest.
    #[default]
    Waits,
    /// The large reply to the request that begins at this offset waits for its rest nevertheless.
    Held(u64),
    /// The reader skips it as it comes.
    Skipped,
    /// An array is passed on without its header. The number is that of the elements to come. Pinned links only.
    Elements(usize),
}

/// Output to a node.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Bytes of requests that wait to be sent. Sent bytes follow from the first unanswered request on, if they may be
    /// needed again.
    outbox: Outbox,
    /// See [`Keeping`].
    pub keeping: Keeping,
    /// Whether a request that is to be kept waits to be sent.
    keeps_unsent: bool,
    /// Whether a request that may be sent again is among those that wait or are kept.
    has_repeatable: bool,
    /// Listed for sending in this turn.
    pub listed: bool,
    /// The driver took fewer bytes than offered and has not yet reported that it takes more.
    pub blocked: bool,
    /// When the driver last reported that it takes more.
    pub freed_at: Instant,
}

impl Outgoing {
    /// Whether requests are kept, or are to be.
    fn keeps(&self) -> bool {
        self.keeps_unsent || self.outbox.kept_len() > 0
    }

    /// Bytes that are kept at most.
    fn kept_bytes_max(&self) -> usize {
        match self.keeping {
            Keeping::All => usize::MAX,
            _ if self.has_repeatable => KEPT_BYTES_MAX,
            _ => SHOWN_BYTES_MAX,
        }
    }

    /// Drops kept bytes before the offset `until`.
    fn forget(&mut self, until: u64, pool: &mut BufferPool) {
        self.outbox.forget(until, pool);
        self.has_repeatable &= self.keeps();
    }
}

/// The requests whose bytes are kept on a link until they are answered. Kept bytes count as memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeping {
    /// Requests that may be sent again, up to a bound.
    #[default]
    Repeatable,
    /// All on shared and pinned links, up to a bound, for reports about them.
    Shown,
    /// All, however long, because the node may decline them.
    All,
}

/// The requests that wait for their replies, in their order.
#[derive(Debug)]
struct InFlight<F: Features> {
    tickets: VecDeque<Ticket<F>>,
    /// Offset of the last request that was redirected here, as in [`Ticket::start`].
    redirected_at: Option<u64>,
    /// Number of tickets at the front that have expired.
    expired: usize,
}

impl<F: Features> Default for InFlight<F> {
    fn default() -> InFlight<F> {
        InFlight { tickets: VecDeque::new(), redirected_at: None, expired: 0 }
    }
}

/// Tickets for which an idle connection keeps room.
const TICKETS_KEPT: usize = 1024;

impl<F: Features> Link<F> {
    /// A link to a node that was not connected to yet. It connects at once.
    pub fn new(
        (shard, node): (ShardId, NodeId),
        used_by: Use,
        profile: ProfileId,
        greeting: Greeting,
    ) -> Link<F> {
        Link {
            shard,
            node,
            used_by,
            profile,
            handshake: Handshake { greeting, proof: F::Proof::default(), is_proving: false },
            state: State::Waiting { until: Instant::ZERO },
            attempts: Attempts::default(),
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            traffic: Traffic::default(),
            in_flight: InFlight::default(),
            late_at_most: Instant::NEVER,
            counted_bytes: 0,
            moved_at: Instant::ZERO,
            suspected_at: Instant::ZERO,
            features: F::Link::default(),
        }
    }

    /// The name of its connection, if it is open or being opened.
    pub fn conn(&self) -> Option<ConnId> {
        match self.state {
            State::Waiting { .. } => None,
            State::Connecting { conn, .. } | State::Probing { conn, .. } | State::Ready { conn, .. } => {
                Some(conn)
            }
        }
    }

    /// Whether a request may be queued now. The error says why not.
    #[inline]
    pub fn admit(&self, limits: &Limits) -> Result<(), &str> {
        if !self.is_ready() && self.attempts.failures > 0 {
            return Err(&self.attempts.reason);
        }
        if self.in_flight.tickets.len() >= limits.in_flight_max {
            return Err("too many requests in flight");
        }
        if self.outgoing.outbox.unsent_len() >= limits.link_output_bytes_max {
            return Err("too many bytes wait to be sent");
        }
        Ok(())
    }

    /// The buffer for a request, with room for `len` bytes, and the offset at which the request begins (for its
    /// ticket).
    pub fn tail(&mut self, len: usize, pool: &mut BufferPool) -> (&mut Vec<u8>, u64) {
        let start = self.outgoing.outbox.end();
        (self.outgoing.outbox.tail(len, pool), start)
    }

    /// Appends a request or a part of one. Returns its offset.
    #[inline]
    pub fn append(&mut self, bytes: &[u8], pool: &mut BufferPool) -> u64 {
        let (tail, start) = self.tail(bytes.len(), pool);
        tail.extend_from_slice(bytes);
        start
    }

    /// Appends the start of a request of `args` arguments: the header and the first argument `name`, encoded as it
    /// came.
    #[inline]
    pub fn append_start(&mut self, name: &[u8], args: usize, pool: &mut BufferPool) -> u64 {
        let (tail, start) = self.tail(HEADER_BYTES_MAX + name.len(), pool);
        encode::array_header(tail, args);
        tail.extend_from_slice(name);
        start
    }

    /// The offset of a request that is appended now.
    pub fn end(&self) -> u64 {
        self.outgoing.outbox.end()
    }

    /// The offset behind the bytes that the driver has taken.
    pub fn written(&self) -> u64 {
        self.outgoing.outbox.written()
    }

    /// Memory in use by requests, an unfinished reply and tickets.
    pub fn held_bytes(&self) -> usize {
        let tickets = self.in_flight.tickets.len() * size_of::<Ticket<F>>();
        self.outgoing.outbox.unsent_len()
            + self.outgoing.outbox.kept_len()
            + self.incoming.bytes.len()
            + tickets
    }

    /// Frees the buffers that an idle connection does not need.
    pub fn shrink(&mut self) {
        if self.in_flight.tickets.is_empty() && self.in_flight.tickets.capacity() > TICKETS_KEPT {
            self.in_flight.tickets = VecDeque::new();
        }
    }

    /// Bytes of requests as counted, and as held by the buffers.
    pub fn account_of_outbox(&self) -> (usize, usize) {
        self.outgoing.outbox.account()
    }

    /// Bytes of requests that wait to be sent.
    pub fn queued_bytes(&self) -> usize {
        self.outgoing.outbox.unsent_len()
    }

    /// Queues the ticket of the request that was just appended. Returns whether it is the only one: its deadline then
    /// counts.
    #[inline]
    pub fn push(&mut self, ticket: Ticket<F>) -> bool {
        let is_shown =
            self.outgoing.keeping == Keeping::Shown && matches!(self.used_by, Use::Shared | Use::Pinned);
        self.outgoing.keeps_unsent |= ticket.kept.is_kept() | is_shown;
        self.outgoing.has_repeatable |= ticket.kept.is_kept();
        self.in_flight.tickets.push_back(ticket);
        self.in_flight.tickets.len() == 1
    }

    /// Lists this connection, whose index is `ix`, for sending, or at least for counting.
    #[inline]
    pub fn list(&mut self, ix: LinkIx, links_to_send: &mut Vec<LinkIx>) {
        if !self.outgoing.listed {
            self.outgoing.listed = true;
            links_to_send.push(ix);
        }
    }

    /// The request of the ticket `number` places behind the front, if it may be sent again and is kept.
    pub fn kept_request(&self, number: usize) -> Option<Vec<u8>> {
        self.kept_until(self.in_flight.tickets.get(number)?, self.in_flight.tickets.get(number + 1))
    }

    /// Copies the request of the ticket `number` places behind the front to `bytes`, which is empty. Returns false if it
    /// is not here any more.
    pub fn copy_request(&self, number: usize, bytes: &mut Vec<u8>) -> bool {
        let tickets = &self.in_flight.tickets;
        let ticket = tickets.get(number).filter(|ticket| self.is_here(ticket));
        ticket.inspect(|ticket| self.copy_until(ticket, tickets.get(number + 1), bytes)).is_some()
    }

    /// Copies the request that was queued last to `bytes`, which is empty.
    pub fn copy_newest_request(&self, bytes: &mut Vec<u8>) {
        if let Some(number) = self.in_flight.tickets.len().checked_sub(1) {
            self.copy_request(number, bytes);
        }
    }

    /// The request of `ticket`, which was just taken from the front, if it may be sent again and is kept.
    pub fn kept_request_of(&self, ticket: &Ticket<F>) -> Option<Vec<u8>> {
        self.kept_until(ticket, self.in_flight.tickets.front())
    }

    /// The request of the next ticket for [`Link::expire`], if it may be sent again and is kept.
    pub fn kept_late_request(&self) -> Option<Vec<u8>> {
        self.kept_request(self.in_flight.expired)
    }

    /// The request of `ticket`, which `next` follows, if it may be sent again and is kept.
    fn kept_until(&self, ticket: &Ticket<F>, next: Option<&Ticket<F>>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.is_kept(ticket).then(|| self.copy_until(ticket, next, &mut bytes))?;
        Some(bytes)
    }

    /// Copies the request of `ticket`, which `next` follows, to `bytes`. It must be here.
    fn copy_until(&self, ticket: &Ticket<F>, next: Option<&Ticket<F>>, bytes: &mut Vec<u8>) {
        let end = next.map_or(self.outgoing.outbox.end(), |next| next.start);
        self.outgoing.outbox.copy(ticket.start, end, bytes);
    }

    /// Whether the request of `ticket` may be sent again and is kept.
    pub fn is_kept(&self, ticket: &Ticket<F>) -> bool {
        ticket.kept.is_kept() && self.is_here(ticket)
    }

    /// Whether the bytes of the request of `ticket` are here.
    fn is_here(&self, ticket: &Ticket<F>) -> bool {
        ticket.start >= self.outgoing.outbox.kept_from()
    }

    /// Keeps no byte of the request that was queued last, which is still coming, nor of those before. Reading may stop
    /// until memory is free, and then these bytes would wait for the rest of the request.
    pub fn keep_nothing(&mut self, pool: &mut BufferPool) {
        self.outgoing.keeps_unsent = false;
        self.outgoing.forget(self.outgoing.outbox.written(), pool);
    }

    /// Whether sent bytes are kept.
    pub fn keeps(&self) -> bool {
        self.outgoing.outbox.kept_len() > 0
    }

    /// Drops kept bytes of requests that are answered.
    pub fn forget_answered(&mut self, pool: &mut BufferPool) {
        if self.outgoing.outbox.kept_len() > 0 {
            let first = self.in_flight.tickets.front().map_or(u64::MAX, |ticket| ticket.start);
            self.outgoing.forget(first, pool);
        }
    }

    /// The tickets in flight, in the order of their replies.
    pub fn tickets(&self) -> impl Iterator<Item = &Ticket<F>> {
        self.in_flight.tickets.iter()
    }

    /// The number of the ticket whose request begins at `start`, counted from the front. `None` if it is answered.
    pub fn number_at(&self, start: u64) -> Option<usize> {
        self.in_flight.tickets.binary_search_by_key(&start, |ticket| ticket.start).ok()
    }

    /// The tickets of requests that begin at `start` or behind it.
    pub fn tickets_from(&self, start: u64) -> impl Iterator<Item = &Ticket<F>> {
        let before = self.in_flight.tickets.partition_point(|ticket| ticket.start < start);
        self.in_flight.tickets.range(before..)
    }

    /// The ticket `number` places behind the front.
    pub fn ticket(&self, number: usize) -> Option<&Ticket<F>> {
        self.in_flight.tickets.get(number)
    }

    /// The ticket of the request that was queued last, if its reply is still to come.
    pub fn newest(&self) -> Option<&Ticket<F>> {
        self.in_flight.tickets.back()
    }

    /// The tickets, mutable.
    pub fn tickets_mut(&mut self) -> impl Iterator<Item = &mut Ticket<F>> {
        self.in_flight.tickets.iter_mut()
    }

    /// Notes that the request that was queued last was redirected here.
    pub fn note_redirected(&mut self) {
        self.in_flight.redirected_at = self.in_flight.tickets.back().map(|ticket| ticket.start);
    }

    /// Tickets in flight of redirected requests, with their positions. If there are none, no ticket is searched.
    pub fn redirected(&self) -> impl Iterator<Item = (usize, &Ticket<F>)> {
        let last = self.in_flight.redirected_at;
        let until_last = move |ticket: &Ticket<F>| last.is_some_and(|last| ticket.start <= last);
        let tickets =
            self.in_flight.tickets.iter().enumerate().take_while(move |(_, ticket)| until_last(ticket));
        tickets.filter(|(_, ticket)| ticket.kept.was_redirected())
    }

    /// Bytes to send next in the present state. More may follow once they are sent.
    pub fn output(&self) -> &[u8] {
        match self.state {
            State::Probing { unsent, .. } => {
                let opening = self.opening();
                &opening[opening.len() - unsent..]
            }
            State::Ready { .. } if self.is_serial() => {
                let unsent = self.outgoing.outbox.unsent();
                &unsent[..self.first_unsent().min(unsent.len())]
            }
            State::Ready { .. } => self.outgoing.outbox.unsent(),
            _ => &[],
        }
    }

    /// Whether a request is sent only after the reply to the one before. Newer nodes (Redis 8.0, Valkey 8) send no
    /// reply to an AUTH that fails while the reply to another request waits to be sent. A request behind the AUTH would
    /// then get the reply of another.
    pub fn is_serial(&self) -> bool {
        self.handshake.greeting.is_of_nobody()
    }

    /// Unsent bytes of the request that is answered next.
    fn first_unsent(&self) -> usize {
        let (unsent, written) = (self.outgoing.outbox.unsent_len(), self.outgoing.outbox.written());
        self.in_flight
            .tickets
            .get(1)
            .map_or(unsent, |next| unsent.min(next.start.saturating_sub(written) as usize))
    }

    /// Notes that the driver took `count` bytes of the output.
    pub fn handle_sent(&mut self, count: usize, pool: &mut BufferPool) {
        self.outgoing.blocked = count < self.output().len();
        match &mut self.state {
            State::Probing { unsent, .. } => *unsent -= count,
            _ => {
                let keeps = self.outgoing.keeps();
                self.outgoing.outbox.handle_sent(count);
                self.outgoing.keeps_unsent &= self.outgoing.outbox.unsent_len() > 0;
                if !keeps || self.outgoing.outbox.kept_len() > self.outgoing.kept_bytes_max() {
                    self.outgoing.forget(self.outgoing.outbox.written(), pool);
                }
            }
        }
    }

    /// Appends `bytes` to an unfinished reply, if there is one, and hands out all input.
    pub fn take_input(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.incoming.bytes.is_empty() {
            return None;
        }
        let mut input = std::mem::take(&mut self.incoming.bytes);
        append(&mut input, bytes);
        Some(input)
    }

    /// The length of the first reply in `bytes`, if it is complete.
    #[inline(always)]
    pub fn next_reply(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, ReplyError> {
        self.incoming.scanner.scan(bytes, &limits.reply)
    }

    /// Keeps the unfinished reply `rest` until more input comes.
    pub fn keep_input(&mut self, rest: &[u8], pool: &mut BufferPool) {
        if rest.is_empty() {
            return;
        }
        self.incoming.bytes = pool.take();
        append(&mut self.incoming.bytes, rest);
    }

    /// Keeps `input` without its first `consumed` bytes.
    pub fn restore_input(&mut self, mut input: Vec<u8>, consumed: usize, pool: &mut BufferPool) {
        if consumed == input.len() {
            pool.give(input);
            return;
        }
        input.drain(..consumed);
        self.incoming.bytes = input;
    }

    /// Bytes of the unfinished reply.
    pub fn input_len(&self) -> usize {
        self.incoming.bytes.len()
    }

    /// Whether the unfinished reply is in fact a push.
    pub fn is_pushed_to(&self) -> bool {
        reply::is_push(&self.incoming.bytes)
    }

    /// Puts the header of an array back, so that the array is read anew as a whole. No element was passed on.
    pub fn rewind(&mut self) {
        if let Unfinished::Elements(elements) = self.incoming.unfinished {
            self.incoming.unfinished = Unfinished::Waits;
            let mut input = Vec::new();
            resp::encode::array_header(&mut input, elements);
            append(&mut input, &self.incoming.bytes);
            (self.incoming.bytes, self.incoming.scanner) = (input, reply::Scanner::default());
        }
    }

    /// Skips `header`, which was read: the unfinished reply is an array that is passed on without it.
    pub fn pass_header(&mut self, header: &[u8], limits: &Limits) -> Result<(), ReplyError> {
        self.incoming.scanner.pass(header, &limits.reply).map(drop)
    }

    /// Whether the unfinished reply is an error, if none of it was passed on.
    pub fn begins_with_error(&self) -> bool {
        reply::is_error(&self.incoming.bytes)
    }

    /// The minimal length of the unfinished reply.
    pub fn bytes_announced(&self) -> usize {
        self.incoming.scanner.bytes_announced().max(self.incoming.bytes.len())
    }

    /// Finds how much of `bytes` belongs to the present reply. They follow the bytes that were passed on before.
    pub fn pass(&mut self, bytes: &[u8], limits: &Limits) -> Result<Passed, ReplyError> {
        self.incoming.scanner.pass(bytes, &limits.reply)
    }

    /// Hands out the input that was not used yet. [`Link::restore_input`] takes the rest back.
    pub fn lend_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.incoming.bytes)
    }

    /// Appends input.
    pub fn extend_input(&mut self, bytes: &[u8], pool: &mut BufferPool) {
        if self.incoming.bytes.capacity() == 0 {
            self.incoming.bytes = pool.take();
        }
        append(&mut self.incoming.bytes, bytes);
    }

    /// Has the rest of the unfinished reply skipped.
    pub fn pass_over(&mut self, pool: &mut BufferPool) {
        self.incoming.unfinished = Unfinished::Skipped;
        self.incoming.scanner = reply::Scanner::default();
        let input = self.lend_input();
        // The held bytes were scanned before, so that they are neither garbled nor complete.
        let passed = self.incoming.scanner.pass(&input, &ReplyLimits::default());
        let held = passed.map_or(input.len(), |passed| passed.len);
        self.restore_input(input, held, pool);
    }

    /// Whether the unfinished reply is large and waits for its rest.
    pub fn holds_reply(&self) -> bool {
        let Unfinished::Held(start) = self.incoming.unfinished else { return false };
        self.front().is_some_and(|ticket| ticket.start == start)
    }

    /// Makes the connection one client's. The client gets the unfinished reply as it comes; no piece of it was passed
    /// on yet.
    pub fn take_for_one(&mut self) {
        self.used_by = Use::Pinned;
        if self.holds_reply() {
            self.incoming.unfinished = Unfinished::Waits;
        }
        self.incoming.scanner = reply::Scanner::default();
    }

    /// The ticket of the next reply. `None` if no reply is due.
    #[inline]
    pub fn front(&self) -> Option<&Ticket<F>> {
        self.in_flight.tickets.front()
    }

    /// Drops the ticket at the front, whose reply is here. The caller has read the fields it needs by [`Link::front`].
    /// To return the whole ticket cost 3 % of a GET. The processor stalls if one read takes bytes that were just
    /// written by two writes.
    #[inline]
    pub fn pop(&mut self) {
        self.in_flight.tickets.pop_front();
        self.in_flight.expired = self.in_flight.expired.saturating_sub(1);
    }

    /// Puts back the ticket that was just dropped, since it stands for the next reply too. If it was late, it expires
    /// again.
    pub fn put_back(&mut self, ticket: Ticket<F>) {
        self.in_flight.tickets.push_front(ticket);
    }

    /// Whether requests flow.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    /// Number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.tickets.len()
    }

    /// Whether the node was silent for so long that a probe is due.
    pub fn wants_probe(&self, now: Instant, limits: &Limits) -> bool {
        matches!(self.used_by, Use::Shared | Use::Replica | Use::Subscription)
            && self.is_idle()
            && now.since(self.moved_at) >= limits.probe_after
    }

    /// The request that probes the node.
    pub fn probe(&self) -> &'static [u8] {
        match self.used_by {
            // A subscribed connection may send few other commands. Any reply will do.
            Use::Subscription => PING,
            _ => self.handshake.greeting.probe(),
        }
    }

    /// Whether the node counts as up while this connection is up.
    pub fn stands_for_node(&self) -> bool {
        self.used_by == Use::Shared && self.profile == ProfileId::FIRST
    }

    /// Whether requests could flow but none is in flight.
    pub fn is_idle(&self) -> bool {
        self.is_ready() && self.in_flight.tickets.is_empty()
    }

    /// Whether another client may get this pinned link: all requests that were written on it are answered.
    pub fn is_clean(&self) -> bool {
        self.is_idle() && self.outgoing.outbox.unsent_len() == 0 && self.incoming.bytes.is_empty()
    }

    /// Whether the connection had worked for a while without late replies when it ended. The next attempt is then made
    /// at once.
    pub fn was_healthy(&self, now: Instant, limits: &Limits) -> bool {
        let is_old = |since| now.since(since) >= limits.backoff_max;
        self.in_flight.expired == 0 && matches!(self.state, State::Ready { since, .. } if is_old(since))
    }

    /// Forgets the connection. Returns its tickets and how many bytes of requests were written on it.
    ///
    /// The next attempt is made at once if the connection had been healthy for a while, else after a jittered pause. A
    /// connection with late replies was not healthy: a frozen node still accepts connections, and clients must not wait
    /// for their outcome.
    pub fn fail(
        &mut self,
        reason: String,
        now: Instant,
        limits: &Limits,
        prng: &mut Prng,
        pool: &mut BufferPool,
    ) -> (VecDeque<Ticket<F>>, u64) {
        if !self.was_healthy(now, limits) {
            self.attempts.failures = self.attempts.failures.saturating_add(1);
        }
        let pause = match self.attempts.failures {
            0 => Duration::ZERO,
            failures => {
                let ceiling =
                    limits.backoff_min.saturating_mul(1 << (failures - 1).min(16)).min(limits.backoff_max);
                Duration::from_nanos(prng.below(ceiling.as_nanos() as u64 + 1))
            }
        };
        self.state = State::Waiting { until: now + pause };
        self.attempts.reason = reason;
        self.outgoing.blocked = false;
        F::end_link(&mut self.features);
        self.incoming.paused = false;
        self.incoming.unfinished = Unfinished::Waits;
        self.outgoing.keeps_unsent = false;
        self.outgoing.has_repeatable = false;
        pool.give(std::mem::take(&mut self.incoming.bytes));
        self.incoming.scanner = reply::Scanner::default();
        self.in_flight.expired = 0;
        self.in_flight.redirected_at = None;
        self.late_at_most = Instant::NEVER;
        let written = self.outgoing.outbox.written();
        self.outgoing.outbox.clear(pool);
        (std::mem::take(&mut self.in_flight.tickets), written)
    }
}

/// The longest header of an array.
const HEADER_BYTES_MAX: usize = 23;

/// Bytes sent on one connection that are kept at most. Requests in flight beyond that are not sent again. The limit is
/// thousands of reads; hardly anything but large writes reaches it.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// The same while all of them are only kept for reports. With more, large writes are queued in memory that is not in the
/// processor's cache. A SET of 16 KiB then took a fifth to a third more of its time.
const SHOWN_BYTES_MAX: usize = 16 * 1024;

/// A reply as a reason in an error text: its first line, printable bytes only.
fn shown(reply: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 80;
    let line = reply.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let line = line.strip_prefix(b"-").unwrap_or(line);
    line.iter()
        .take(SHOWN_BYTES_MAX)
        .map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { ' ' })
        .collect()
}
