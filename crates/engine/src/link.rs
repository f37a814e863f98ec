//! One connection to a node and the tickets of what is in flight on it: the connection that all clients of the worker
//! share, or one that is pinned to a single client for a large transfer.
//!
//! ```text
//!             connect        connected, greeting sent       PONG, and proof
//!   Waiting ──────────► Connecting ──────────► Probing ──────────► Ready
//!      ▲                     │                    │                  │
//!      └──── refused, closed, no answer in time ──┴──────────────────┘
//! ```
//!
//! Requests that come while a node is being connected to for the first time, or again after a healthy connection was
//! lost, wait for the outcome. After a failure they are refused at once until a PONG has come: a dead node must not
//! cost anybody time. Replies match tickets by order alone, so a ticket stays in the queue until its reply came or the
//! connection is gone, also when its client has long been told that the time was up.
//!
//! The greeting makes the connection what its profile wants (`HELLO 3`, `SELECT 3`) and ends with a PING. If the node answers an error to
//! it, clients of the profile are told the error as the reason why the shard is down for them. A request whose time is up leaves a
//! tombstone in the queue, so that a late reply never meets another request. Bytes that no ticket waits for close the connection.
//!
//! While a node is down, requests for it are refused at once (`TRYAGAIN`). Attempts to connect go on with a jittered pause of 10 ms to
//! 1 s. A connection counts as healthy after a second. Reads that were in flight on a healthy one that was lost are asked again on the
//! next, once.

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

/// What waits for one reply.
#[derive(Clone, Copy, Debug)]
pub struct Ticket<F: Features> {
    /// Who asked: a client's connection.
    pub conn: ConnId,
    /// Its place in that client's order.
    pub place: u32,
    /// Which part of a split request this is.
    pub part: u32,
    /// Who gets the reply.
    pub owner: Owner<F::Kind>,
    /// What was asked for, for the statistics.
    pub command: F::Command,
    /// The request may be asked again, if it is still kept: see [`Link::kept_request`].
    pub kept: Kept,
    /// When it was queued: the low bits of the microseconds, see [`crate::engine::low_us`].
    pub queued_us: u32,
    /// Offset of the request's first byte in all that was ever queued on this connection.
    pub start: u64,
    /// The reply is not late before: see `silence.rs`.
    pub deadline: Instant,
}

impl<F: Features> Ticket<F> {
    /// Whether `conn` names a client, who waits or has waited.
    pub fn is_of_client(&self) -> bool {
        matches!(self.owner, Owner::Client | Owner::Late)
    }

    /// Nobody waits for the reply any more.
    pub fn discard(&mut self) {
        self.owner = match self.owner {
            Owner::Client | Owner::Late => Owner::Late,
            Owner::Queued => Owner::Queued,
            _ => Owner::Nobody,
        };
    }
}

/// Who gets a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<K> {
    /// A client: it goes to the client's place, or into what makes the reply there.
    Client,
    /// A task of this kind, which the ticket's `conn` names, or what the kind says.
    Task(K),
    /// The client that `conn` names does not wait any more: the reply is consumed and forgotten. (A tombstone.)
    Late,
    /// It says that a command waits for EXEC, and nobody needs to know: EXEC will say more. `part` is how many such
    /// replies the ticket stands for beside this one.
    Queued,
    /// Nobody ever waited, or does not any more.
    Nobody,
}

/// How far the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none; the next attempt is at `until`.
    Waiting {
        /// Then.
        until: Instant,
    },
    /// Asked for.
    Connecting {
        /// Its name.
        conn: ConnId,
        /// Given up then.
        deadline: Instant,
    },
    /// It is there, and its greeting is on its way.
    Probing {
        /// Its name.
        conn: ConnId,
        /// Given up then.
        deadline: Instant,
        /// Bytes of the greeting that the driver has not taken yet.
        unsent: usize,
        /// Replies to it that are still to come.
        unanswered: usize,
    },
    /// Requests flow.
    Ready {
        /// Its name.
        conn: ConnId,
        /// From when on.
        since: Instant,
    },
}

/// Who uses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// All clients; it is made again when it is lost.
    Shared,
    /// One client at a time, for large transfers; it is made when one is needed, and not again by itself.
    Pinned,
    /// All clients, for messages: see `pubsub.rs`. It is made again when it is lost, as long as there is a topic.
    Subscription,
    /// One client for as long as it watches keys or waits for an element: see `held.rs`.
    Held,
    /// All clients, for what they read from a replica: see `replicas.rs`. It is made again when it is lost.
    Replica,
    /// Those whose requests were in flight when another connection took its place: see `retire.rs`.
    Retired,
    /// Those whose requests were in flight when its node lost its task (see `topology_update.rs`), or when it was suspected (see
    /// `suspect.rs`). It is closed afterwards.
    Draining,
    /// Nobody yet: if its node answers, it takes the place of a shared one that is suspect. It is not made again.
    Standby,
}

/// What the log was told of a node. More is told, less is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reported {
    #[default]
    /// Nothing.
    Nothing,
    /// It cannot be used.
    Down,
    /// It answers, and cannot be meant.
    Refused,
}

impl Use {
    /// Whether those whose requests are in flight there send nothing else before these were answered: see `retire.rs`.
    pub fn has_barriers(self) -> bool {
        matches!(self, Use::Retired | Use::Draining)
    }
}

/// One connection to a node, or the wish for one.
#[derive(Debug)]
pub struct Link<F: Features> {
    /// The shard that the node was of when it was connected to.
    pub shard: ShardId,
    /// The node at the other end.
    pub node: NodeId,
    /// Who uses it.
    pub used_by: Use,
    /// What those have chosen alike.
    pub profile: ProfileId,
    /// How it begins.
    pub handshake: Handshake<F>,
    /// See [`State`].
    pub state: State,
    /// How the last attempts to connect went.
    pub attempts: Attempts,
    /// What comes.
    pub incoming: Incoming,
    /// What goes out.
    pub outgoing: Outgoing,
    /// The requests that wait for their replies.
    in_flight: InFlight<F>,
    /// What is in flight is late then, whatever comes.
    pub late_at_most: Instant,
    /// What it holds, as it was counted last.
    pub counted_bytes: usize,
    /// When something last came from the node.
    moved_at: Instant,
    /// When it was suspected last.
    suspected_at: Instant,
    /// What features keep of it.
    pub features: F::Link,
}

/// How a connection begins.
#[derive(Debug)]
pub struct Handshake<F: Features> {
    /// What is said first.
    pub greeting: Greeting,
    /// What its node must show once that was answered.
    pub proof: F::Proof,
    /// It was asked for that.
    is_proving: bool,
}

/// How the last attempts to connect went.
#[derive(Debug, Default)]
pub struct Attempts {
    /// Why the last one failed; the text that clients see while the node is down.
    pub reason: String,
    /// Attempts that failed one after another.
    pub failures: u32,
    /// What the log was told of the node since it was up.
    pub reported: Reported,
}

/// What comes from a node: the unfinished reply, and how it is read.
#[derive(Debug, Default)]
pub struct Incoming {
    bytes: Vec<u8>,
    scanner: reply::Scanner,
    /// How many elements the array still has that is being passed on without its header. Pinned connections only.
    pub elements: Option<usize>,
    /// Bytes that were passed over lately.
    pub passed_over_bytes: usize,
    /// The rest of the reply at the front is for nobody: it is passed over as it comes.
    pub passes_over: bool,
    /// The unfinished reply is large, and is held until it is whole.
    pub holds_reply: bool,
    /// Not read from, since what it brings cannot be passed on now. Pinned connections only.
    pub paused: bool,
    /// What was read does not suffice to go on. Pinned connections only.
    pub starved: bool,
}

/// What goes out to a node.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Requests: what waits to be sent, and what was sent, from the first unanswered one on, if there may be need to ask again.
    outbox: Outbox,
    /// All requests are kept, however long: their node may decline them. What that takes counts as memory in use.
    pub keeps_all: bool,
    /// A request that may be asked again waits to be sent.
    keeps_unsent: bool,
    /// Listed for sending in this turn.
    pub listed: bool,
    /// The driver took less than it was offered and has not yet said that it takes more.
    pub blocked: bool,
}

/// The requests that wait for their replies, in their order.
#[derive(Debug)]
struct InFlight<F: Features> {
    tickets: VecDeque<Ticket<F>>,
    /// Where the last request begins that was redirected here, as [`Ticket::start`] says it.
    redirected_at: Option<u64>,
    /// How many tickets at the front were told that their time was up.
    expired: usize,
}

impl<F: Features> Default for InFlight<F> {
    fn default() -> InFlight<F> {
        InFlight { tickets: VecDeque::new(), redirected_at: None, expired: 0 }
    }
}

/// An idle connection keeps room for so many tickets.
const TICKETS_KEPT: usize = 1024;

impl<F: Features> Link<F> {
    /// A node that was not connected to yet, and is to be at once.
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
            in_flight: InFlight::default(),
            late_at_most: Instant::NEVER,
            counted_bytes: 0,
            moved_at: Instant::ZERO,
            suspected_at: Instant::ZERO,
            features: F::Link::default(),
        }
    }

    /// Its connection, if there is one or one is being made.
    pub fn conn(&self) -> Option<ConnId> {
        match self.state {
            State::Waiting { .. } => None,
            State::Connecting { conn, .. } | State::Probing { conn, .. } | State::Ready { conn, .. } => {
                Some(conn)
            }
        }
    }

    /// Whether a request may be queued now; else why not.
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

    /// The place to append `len` bytes of a request to, for which there is room, and the offset at which it begins (for its
    /// ticket).
    pub fn tail(&mut self, len: usize, pool: &mut BufferPool) -> (&mut Vec<u8>, u64) {
        let start = self.outgoing.outbox.end();
        (self.outgoing.outbox.tail(len, pool), start)
    }

    /// Appends a request, or a part of it. Returns the offset at which that begins.
    #[inline]
    pub fn append(&mut self, bytes: &[u8], pool: &mut BufferPool) -> u64 {
        let (tail, start) = self.tail(bytes.len(), pool);
        tail.extend_from_slice(bytes);
        start
    }

    /// The same for the start of a request of `args` arguments: all that is before the second one. `name` is the first, as
    /// it came.
    #[inline]
    pub fn append_start(&mut self, name: &[u8], args: usize, pool: &mut BufferPool) -> u64 {
        let (tail, start) = self.tail(HEADER_BYTES_MAX + name.len(), pool);
        encode::array_header(tail, args);
        tail.extend_from_slice(name);
        start
    }

    /// The offset at which a request begins that is appended now.
    pub fn end(&self) -> u64 {
        self.outgoing.outbox.end()
    }

    /// Bytes that are held here: of requests, of an unfinished reply, and of what is known of each request in flight.
    pub fn held_bytes(&self) -> usize {
        let tickets = self.in_flight.tickets.len() * size_of::<Ticket<F>>();
        self.outgoing.outbox.unsent_len()
            + self.outgoing.outbox.kept_len()
            + self.incoming.bytes.len()
            + tickets
    }

    /// Gives back what an idle connection need not own.
    pub fn shrink(&mut self) {
        if self.in_flight.tickets.is_empty() && self.in_flight.tickets.capacity() > TICKETS_KEPT {
            self.in_flight.tickets = VecDeque::new();
        }
    }

    /// What its requests are counted for, and what they hold.
    pub fn account_of_outbox(&self) -> (usize, usize) {
        self.outgoing.outbox.account()
    }

    /// Bytes of requests that wait to be sent.
    pub fn queued_bytes(&self) -> usize {
        self.outgoing.outbox.unsent_len()
    }

    /// Queues the ticket of the request that was just appended. True if it is the only one: then its deadline counts.
    #[inline]
    pub fn push(&mut self, ticket: Ticket<F>) -> bool {
        self.outgoing.keeps_unsent |= ticket.kept.is_kept();
        self.in_flight.tickets.push_back(ticket);
        self.in_flight.tickets.len() == 1
    }

    /// Lists this connection, which is number `ix`, for sending, or at least for being counted.
    #[inline]
    pub fn list(&mut self, ix: LinkIx, links_to_send: &mut Vec<LinkIx>) {
        if !self.outgoing.listed {
            self.outgoing.listed = true;
            links_to_send.push(ix);
        }
    }

    /// The request whose ticket is `number` behind the one at the front, if it may be asked again and is kept.
    pub fn kept_request(&self, number: usize) -> Option<Vec<u8>> {
        self.kept_until(self.in_flight.tickets.get(number)?, self.in_flight.tickets.get(number + 1))
    }

    /// The request of `ticket`, which was taken from the front a moment ago, if it may be asked again and is kept.
    pub fn kept_request_of(&self, ticket: &Ticket<F>) -> Option<Vec<u8>> {
        self.kept_until(ticket, self.in_flight.tickets.front())
    }

    /// The request of the ticket that [`Link::expire`] would take, if it may be asked again and is kept.
    pub fn kept_late_request(&self) -> Option<Vec<u8>> {
        self.kept_request(self.in_flight.expired)
    }

    /// The request of `ticket`, before which `next` begins, if it may be asked again and is kept.
    fn kept_until(&self, ticket: &Ticket<F>, next: Option<&Ticket<F>>) -> Option<Vec<u8>> {
        if !self.is_kept(ticket) {
            return None;
        }
        let end = next.map_or(self.outgoing.outbox.end(), |next| next.start);
        Some(self.outgoing.outbox.copy(ticket.start, end))
    }

    /// Whether the request of `ticket` may be asked again and is kept.
    pub fn is_kept(&self, ticket: &Ticket<F>) -> bool {
        ticket.kept.is_kept() && ticket.start >= self.outgoing.outbox.kept_from()
    }

    /// Forgets what was kept of requests that are answered.
    pub fn forget_answered(&mut self, pool: &mut BufferPool) {
        if self.outgoing.outbox.kept_len() > 0 {
            let first = self.in_flight.tickets.front().map_or(u64::MAX, |ticket| ticket.start);
            self.outgoing.outbox.forget(first, pool);
        }
    }

    /// What is in flight, from the one whose reply comes next.
    pub fn tickets(&self) -> impl Iterator<Item = &Ticket<F>> {
        self.in_flight.tickets.iter()
    }

    /// The same, to be changed.
    pub fn tickets_mut(&mut self) -> impl Iterator<Item = &mut Ticket<F>> {
        self.in_flight.tickets.iter_mut()
    }

    /// The request that was queued last was redirected here.
    pub fn note_redirected(&mut self) {
        self.in_flight.redirected_at = self.in_flight.tickets.back().map(|ticket| ticket.start);
    }

    /// What is in flight and was redirected here, with their places in that order. Where there are none, nothing is looked through.
    pub fn redirected(&self) -> impl Iterator<Item = (usize, &Ticket<F>)> {
        let last = self.in_flight.redirected_at;
        let until_last = move |ticket: &Ticket<F>| last.is_some_and(|last| ticket.start <= last);
        let tickets =
            self.in_flight.tickets.iter().enumerate().take_while(move |(_, ticket)| until_last(ticket));
        tickets.filter(|(_, ticket)| ticket.kept.was_redirected())
    }

    /// What is to be sent next in the present state. Once it is sent there may be more.
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

    /// Whether a request is only sent when the one before it was answered. Newer nodes (Redis 8.0, Valkey 8) leave out
    /// the reply to an AUTH that fails while the reply to another request waits to be sent: whoever asks behind it would get
    /// somebody else's.
    pub fn is_serial(&self) -> bool {
        self.handshake.greeting.is_of_nobody()
    }

    /// How many bytes of the output belong to the request that is answered next.
    fn first_unsent(&self) -> usize {
        let (unsent, written) = (self.outgoing.outbox.unsent_len(), self.outgoing.outbox.written());
        self.in_flight
            .tickets
            .get(1)
            .map_or(unsent, |next| unsent.min(next.start.saturating_sub(written) as usize))
    }

    /// The driver took `count` bytes of the output.
    pub fn handle_sent(&mut self, count: usize, pool: &mut BufferPool) {
        self.outgoing.blocked = count < self.output().len();
        match &mut self.state {
            State::Probing { unsent, .. } => *unsent -= count,
            _ => {
                let keeps = self.outgoing.keeps_unsent || self.outgoing.outbox.kept_len() > 0;
                self.outgoing.outbox.handle_sent(count);
                self.outgoing.keeps_unsent &= self.outgoing.outbox.unsent_len() > 0;
                let is_too_much =
                    self.outgoing.outbox.kept_len() > KEPT_BYTES_MAX && !self.outgoing.keeps_all;
                if !keeps || is_too_much {
                    self.outgoing.outbox.forget(self.outgoing.outbox.written(), pool);
                }
            }
        }
    }

    /// Appends what came to an unfinished reply, if there is one, and hands out all that is to be read.
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

    /// Keeps the unfinished reply `rest` for the next time.
    pub fn keep_input(&mut self, rest: &[u8], pool: &mut BufferPool) {
        if rest.is_empty() {
            return;
        }
        self.incoming.bytes = pool.take();
        append(&mut self.incoming.bytes, rest);
    }

    /// Keeps all of `input` but its first `consumed` bytes.
    pub fn restore_input(&mut self, mut input: Vec<u8>, consumed: usize, pool: &mut BufferPool) {
        if consumed == input.len() {
            pool.give(input);
            return;
        }
        input.drain(..consumed);
        self.incoming.bytes = input;
    }

    /// How much of an unfinished reply is held.
    pub fn input_len(&self) -> usize {
        self.incoming.bytes.len()
    }

    /// Whether the unfinished reply is none, but a push.
    pub fn is_pushed_to(&self) -> bool {
        reply::is_push(&self.incoming.bytes)
    }

    /// The array whose header was read, and of which no element was passed on, is read anew as a whole.
    pub fn rewind(&mut self) {
        if let Some(elements) = self.incoming.elements.take() {
            let mut input = Vec::new();
            resp::encode::array_header(&mut input, elements);
            append(&mut input, &self.incoming.bytes);
            (self.incoming.bytes, self.incoming.scanner) = (input, reply::Scanner::default());
        }
    }

    /// The unfinished reply is an array that is passed on without its `header`, which was read.
    pub fn pass_header(&mut self, header: &[u8], limits: &Limits) -> Result<(), ReplyError> {
        self.incoming.scanner.pass(header, &limits.reply).map(drop)
    }

    /// Whether the unfinished reply, if none of it was passed on, is an error.
    pub fn begins_with_error(&self) -> bool {
        reply::is_error(&self.incoming.bytes)
    }

    /// The unfinished reply will be so long at least.
    pub fn bytes_announced(&self) -> usize {
        self.incoming.scanner.bytes_announced().max(self.incoming.bytes.len())
    }

    /// Finds how much of `bytes`, which follow what was passed on before, belongs to the reply that is coming.
    pub fn pass(&mut self, bytes: &[u8], limits: &Limits) -> Result<Passed, ReplyError> {
        self.incoming.scanner.pass(bytes, &limits.reply)
    }

    /// What was read and not used yet is handed out; [`Link::restore_input`] takes the rest back.
    pub fn lend_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.incoming.bytes)
    }

    /// Appends what came.
    pub fn extend_input(&mut self, bytes: &[u8], pool: &mut BufferPool) {
        if self.incoming.bytes.capacity() == 0 {
            self.incoming.bytes = pool.take();
        }
        append(&mut self.incoming.bytes, bytes);
    }

    /// From now on the unfinished reply, of which `input` holds the beginning, is passed over.
    pub fn pass_over(&mut self, pool: &mut BufferPool) {
        self.incoming.passes_over = true;
        self.incoming.scanner = reply::Scanner::default();
        let input = self.lend_input();
        // What is held was scanned before: it is neither garbled nor complete.
        let passed = self.incoming.scanner.pass(&input, &ReplyLimits::default());
        let held = passed.map_or(input.len(), |passed| passed.len);
        self.restore_input(input, held, pool);
    }

    /// From now on the connection is one client's, who takes the unfinished reply, all of which `input` holds so far, as it
    /// comes.
    pub fn take_for_one(&mut self) {
        (self.used_by, self.incoming.holds_reply) = (Use::Pinned, false);
        self.incoming.scanner = reply::Scanner::default();
    }

    /// The ticket that the next reply belongs to. `None`: nobody asked for it.
    #[inline]
    pub fn front(&self) -> Option<&Ticket<F>> {
        self.in_flight.tickets.front()
    }

    /// Drops the ticket at the front: its reply is here. Whoever needs it has read what he needs of it by
    /// [`Link::front`]; to hand all of it out was 3 % of a GET, since the processor waits when bytes that were just
    /// written in two pieces are read as one.
    #[inline]
    pub fn pop(&mut self) {
        self.in_flight.tickets.pop_front();
        self.in_flight.expired = self.in_flight.expired.saturating_sub(1);
        self.incoming.holds_reply = false;
    }

    /// The ticket that was just dropped stands for the next reply too. If it was late, it will be found to be so again.
    pub fn put_back(&mut self, ticket: Ticket<F>) {
        self.in_flight.tickets.push_front(ticket);
    }

    /// Whether requests flow.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.tickets.len()
    }

    /// Whether the node was silent for so long that it should be asked whether it lives.
    pub fn wants_probe(&self, now: Instant, limits: &Limits) -> bool {
        matches!(self.used_by, Use::Shared | Use::Replica | Use::Subscription)
            && self.is_idle()
            && now.since(self.moved_at) >= limits.probe_after
    }

    /// The request that asks the node whether it lives.
    pub fn probe(&self) -> &'static [u8] {
        match self.used_by {
            // Who is subscribed may say little else. Any answer will do.
            Use::Subscription => PING,
            _ => self.handshake.greeting.probe(),
        }
    }

    /// Whether the node counts as up as long as this connection is.
    pub fn stands_for_node(&self) -> bool {
        self.used_by == Use::Shared && self.profile == ProfileId::FIRST
    }

    /// Whether requests would flow, if there were any.
    pub fn is_idle(&self) -> bool {
        self.is_ready() && self.in_flight.tickets.is_empty()
    }

    /// Whether the client that it was pinned to may leave it to another: all that was written on it was answered.
    pub fn is_clean(&self) -> bool {
        self.is_idle() && self.outgoing.outbox.unsent_len() == 0 && self.incoming.bytes.is_empty()
    }

    /// Whether it had worked for a while, without late replies, when it ended: then the next attempt is made at once.
    pub fn was_healthy(&self, now: Instant, limits: &Limits) -> bool {
        let is_old = |since| now.since(since) >= limits.backoff_max;
        self.in_flight.expired == 0 && matches!(self.state, State::Ready { since, .. } if is_old(since))
    }

    /// Forgets the connection and hands out its tickets, with how many bytes of requests were written on it. The next
    /// attempt is at once if a connection that had been healthy for a while was lost, else after a jittered pause. One on
    /// which replies were late was not: a node that is frozen still lets itself be connected to, and nobody is to wait for
    /// the outcome of that.
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
        self.incoming.elements = None;
        self.incoming.passes_over = false;
        self.incoming.holds_reply = false;
        self.outgoing.keeps_unsent = false;
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

/// So many bytes that were sent on one connection are kept at most; what is in flight beyond that is not asked again.
/// Thousands of reads; rarely reached but by large writes.
const KEPT_BYTES_MAX: usize = 256 * 1024;

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
