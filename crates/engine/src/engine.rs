//! State that every feature works with: links to nodes, queues for nodes and clients, memory in use, and the lists of
//! this turn's work. The engine knows no feature.

use crate::ConnId;
use crate::cork::Cork;
use crate::event::Action;
use crate::features::Features;
use crate::limits::{Limits, SPARE_BUFFER_BYTES_MAX};
use crate::link::kept::Kept;
use crate::link::{Keeping, Link, LinkIx, Links, Owner, Ticket, Use};
use crate::lost::Lost;
use crate::memory::Memory;
use crate::rounds::Rounds;
use crate::session::{Phase, Reason, Session};
use crate::walk;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use stdx::{BufferPool, Instant, Prng};
use topology::{ShardId, Topology};

/// See the module.
#[derive(Debug)]
pub struct Engine<F: Features> {
    /// The limits of clients and links.
    pub limits: Limits,
    /// Requests that one client may have pending if no other client waits.
    pending_max: usize,
    /// Shards, their keys and their nodes.
    pub topology: Arc<Topology>,
    /// The connections to nodes, of all uses.
    pub links: Links<F>,
    /// Memory in use, in bytes.
    pub memory: Memory,
    /// Buffers that clients and links share.
    pub pool: BufferPool,
    /// Decides jitter.
    pub prng: Prng,
    /// The command that is being carried out.
    pub asking: F::Command,
    /// The instant of the event that is being handled. Set by [`Engine::begin`].
    pub now: Instant,
    /// The low bits of its microseconds: see [`low_us`].
    pub now_us: u32,
    /// The earliest instant at which a request that is queued now on a shared link can be late.
    late_at: Instant,
    /// See [`Limits::suspect_after`].
    suspect_after: Duration,
    /// The start of the worker.
    pub started_at: Instant,
    /// The instant at which the next link may need attention.
    pub check_at: Instant,
    /// Work of this turn.
    pub todo: Todo,
    /// Replies that wait for other replies of their client.
    pub cork: Cork,
    /// Number of clients with pending requests.
    pub clients_waiting: usize,
    /// Time that clients' rounds take.
    pub rounds: Rounds,
    /// Whether to keep all requests until they are answered, because their nodes may decline them.
    pub keeps: Kept,
    /// Whether to keep requests until they are answered, up to a bound, for reports about slow ones. It applies to new
    /// links.
    pub keeps_to_show: bool,
}

/// Work of this turn and the next.
#[derive(Debug, Default)]
pub struct Todo {
    /// Actions for the driver that carry no bytes.
    pub controls: VecDeque<Action<'static>>,
    /// Links with bytes to send.
    pub links_to_send: Vec<LinkIx>,
    /// Clients with bytes to send.
    pub clients_to_send: Vec<ConnId>,
    /// Paused clients that have caught up.
    pub clients_to_resume: Vec<ConnId>,
    /// Clients that continue in the next turn, so that others get their share of this one.
    pub clients_of_next_turn: Vec<ConnId>,
}

/// The low bits of the microseconds of `now`: enough for times of less than an hour.
#[inline]
pub fn low_us(now: Instant) -> u32 {
    (now.as_nanos() / 1000) as u32
}

impl<F: Features> Engine<F> {
    /// An engine at `now`, without connections.
    pub fn new(limits: Limits, seed: u64, topology: Arc<Topology>, now: Instant) -> Engine<F> {
        let keeps = if topology.is_discovered() { Kept::UNTIL_RUN } else { Kept::NO };
        Engine {
            topology,
            links: Links::default(),
            memory: Memory::default(),
            pool: BufferPool::new(limits.spare_buffers_max, SPARE_BUFFER_BYTES_MAX)
                .with_pieces_of(limits.piece_bytes_max),
            prng: Prng::new(seed),
            asking: F::NO_COMMAND,
            now,
            now_us: low_us(now),
            late_at: now,
            suspect_after: limits.suspect_after(),
            started_at: now,
            check_at: now,
            todo: Todo::default(),
            cork: Cork::default(),
            clients_waiting: 0,
            rounds: Rounds::default(),
            keeps,
            keeps_to_show: false,
            pending_max: limits.pending_max,
            limits,
        }
    }

    /// Sets the time to `now`. To be called before each event, so that the values derived from the time are computed
    /// once for all requests of the event.
    pub fn begin(&mut self, now: Instant) {
        self.now = now;
        self.now_us = low_us(now);
        self.late_at = now + self.limits.request_timeout;
    }

    /// Divides the limit of pending requests among the waiting clients.
    pub fn share_pending(&mut self) {
        let share = self.limits.pending_shared / self.clients_waiting.max(1);
        self.limits.pending_max = share.max(self.limits.pending_min).min(self.pending_max);
    }

    /// The name of `shard` in logs and errors.
    pub fn shard_name(&self, shard: ShardId) -> &str {
        &self.topology.shard(shard).name
    }

    /// The error for a request to `shard` that cannot be sent because of `reason`.
    #[cold]
    pub fn not_sent(&self, shard: ShardId, reason: &str) -> Lost {
        Lost::NotSent { shard: self.shard_name(shard).to_owned(), reason: reason.to_owned() }
    }

    /// Queues a whole request on link `ix`.
    #[inline(always)]
    pub fn enqueue_on(&mut self, ix: LinkIx, bytes: &[u8], asked: Asked<F>) {
        self.queue_on(ix, asked, |link, pool| link.append(bytes, pool));
    }

    /// Queues the ticket of a request that was appended to the output of link `ix` at offset `start`.
    #[inline(always)]
    pub fn push_ticket(&mut self, ix: LinkIx, start: u64, asked: Asked<F>) {
        self.queue_on(ix, asked, |_, _| start);
    }

    /// Queues the ticket of a request on link `ix`. `begin` appends the request, if that was not done before, and
    /// returns its offset. One lookup of the link serves both.
    #[inline(always)]
    fn queue_on(
        &mut self,
        ix: LinkIx,
        asked: Asked<F>,
        begin: impl FnOnce(&mut Link<F>, &mut BufferPool) -> u64,
    ) {
        walk::enter("queue_on");
        let link = &mut self.links[ix];
        let start = begin(link, &mut self.pool);
        let (deadline, kept) = match link.used_by {
            Use::Shared | Use::Replica | Use::Held | Use::Draining => {
                (self.late_at, asked.kept.max(self.keeps))
            }
            // Subscriptions are known: after a loss they are made again without the bytes.
            Use::Subscription => (self.late_at, Kept::NO),
            Use::Standby => (self.late_at, self.keeps),
            Use::Pinned | Use::Retired => (self.now + self.limits.transfer_timeout, self.keeps),
        };
        let Asked { conn, place, part, owner, .. } = asked;
        let (command, queued_us) = (self.asking, self.now_us);
        let ticket = Ticket { conn, place, part, owner, command, kept, queued_us, start, deadline };
        if link.push(ticket) {
            // Suspicion precedes the deadline.
            self.check_at = self.check_at.min(self.now + self.suspect_after);
        }
        link.list(ix, &mut self.todo.links_to_send);
    }

    /// Sets the deadline of the request that was queued last on link `ix`.
    pub fn set_deadline(&mut self, ix: LinkIx, deadline: Instant) {
        if let Some(ticket) = self.links[ix].tickets_mut().last() {
            ticket.deadline = deadline;
        }
        self.check_at = self.check_at.min(deadline);
    }

    /// Lists link `ix` for sending in this turn.
    #[inline]
    pub fn list_link(&mut self, ix: LinkIx) {
        self.links[ix].list(ix, &mut self.todo.links_to_send);
    }

    /// Lists the session for sending in this turn, where its output is counted. A session whose socket is full is not
    /// listed.
    #[inline]
    pub fn list_client(&mut self, session: &mut Session<F>) {
        if session.replies.output.blocked {
            self.recount_client(session);
        } else if !session.replies.output.listed {
            session.replies.output.listed = true;
            self.todo.clients_to_send.push(session.conn);
        }
    }

    /// Answers the last request of `session`.
    pub fn answer(&mut self, session: &mut Session<F>, reply: &[u8]) {
        session.replies.answer(reply, &mut self.pool);
        self.list_client(session);
    }

    /// Resumes the client of a reply that was settled, if the client was paused and has caught up.
    #[inline]
    pub fn resume_if_caught_up(&mut self, session: &mut Session<F>) {
        if session.paused
            && !session.hold.has(Reason::Question)
            && session.replies.has_caught_up(&self.limits)
        {
            self.todo.clients_to_resume.push(session.conn);
        }
    }

    /// Number of held links.
    pub fn held_conns(&self) -> usize {
        let is_held =
            |(ix, link): &(LinkIx, &Link<F>)| link.used_by == Use::Held && !self.links.is_vacant(*ix);
        self.links.with_indexes().filter(is_held).count()
    }

    /// Counts the memory that the session holds.
    #[inline]
    pub fn recount_client(&mut self, session: &mut Session<F>) {
        let holds = session.replies.held_bytes();
        self.memory.recount(&mut session.counted.bytes, holds);
        self.memory.recount_unread(&mut session.counted.unread_bytes, session.input.bytes.len());
    }

    /// Counts the memory that link `ix` holds.
    #[inline]
    pub fn recount_link(&mut self, ix: LinkIx) {
        let link = &mut self.links[ix];
        let holds = link.held_bytes();
        self.memory.recount(&mut link.counted_bytes, holds);
    }

    /// Counts the bytes that were just queued for nodes.
    pub fn recount_listed_nodes(&mut self) {
        for index in 0..self.todo.links_to_send.len() {
            self.recount_link(self.todo.links_to_send[index]);
        }
    }

    /// Whether a request may be read. If not, the client resumes when memory is free.
    #[inline]
    pub fn has_memory_for(&mut self, session: &mut Session<F>) -> bool {
        let has_memory = self.has_memory();
        if !has_memory {
            self.hold_up(session);
        }
        has_memory
    }

    /// Whether work that needs memory may begin.
    #[inline]
    pub fn has_memory(&mut self) -> bool {
        !self.memory.fill(self.limits.memory_bytes_max)
    }

    /// Stops reading from the session until memory is free.
    pub fn hold_up(&mut self, session: &mut Session<F>) {
        if !session.held_up {
            session.held_up = true;
            self.memory.hold_up(session.conn);
        }
        if !session.paused && session.phase == Phase::Open && !session.is_blocked() {
            session.paused = true;
            self.pace(session.conn, true);
        }
    }

    /// Has the driver stop or resume reading from `conn`.
    pub fn pace(&mut self, conn: ConnId, pauses: bool) {
        self.todo.controls.push_back(match pauses {
            true => Action::Pause { conn },
            false => Action::Resume { conn },
        });
    }

    /// Ends link `ix`, whose connection is gone, and plans the next attempt. Returns the tickets in flight and the
    /// number of bytes that were written. A request that starts behind them was not sent.
    pub fn fail_link(&mut self, ix: LinkIx, reason: String) -> (VecDeque<Ticket<F>>, u64) {
        self.links.note_end();
        self.links[ix].fail(reason, self.now, &self.limits, &mut self.prng, &mut self.pool)
    }

    /// Has the driver close `conn`.
    pub fn close(&mut self, conn: ConnId) {
        self.todo.controls.push_back(Action::Close { conn });
    }

    /// The requests that links keep.
    pub fn keeping(&self) -> Keeping {
        match (self.keeps.is_kept(), self.keeps_to_show) {
            (true, _) => Keeping::All,
            (false, true) => Keeping::Shown,
            (false, false) => Keeping::Repeatable,
        }
    }

    /// Adds `link` and returns its index.
    pub fn add_link(&mut self, mut link: Link<F>) -> LinkIx {
        link.outgoing.keeping = self.keeping();
        self.check_at = self.now;
        self.links.add(link)
    }
}

/// The owner of a request and the request's kind: a [`Ticket`] before its place in a queue is known.
#[derive(Clone, Copy, Debug)]
pub struct Asked<F: Features> {
    /// The client. For a task, its kind defines the meaning.
    pub conn: ConnId,
    /// The place in that client's order.
    pub place: u32,
    /// The fragment's number in a split request.
    pub part: u32,
    /// The owner of the reply.
    pub owner: Owner<F::Kind>,
    /// Whether the request may be sent again, on a shared link. Then its bytes are kept until the reply comes.
    pub kept: Kept,
}

impl<F: Features> Asked<F> {
    /// A client's request that goes to one node.
    pub fn by_client(conn: ConnId, place: u32) -> Asked<F> {
        Asked { conn, place, part: 0, owner: Owner::Client, kept: Kept::NO }
    }

    /// A request of ours that goes to one node. Its reply is dropped.
    pub fn by_nobody() -> Asked<F> {
        Asked { conn: NOBODY, place: 0, part: 0, owner: Owner::Nobody, kept: Kept::NO }
    }
}

/// The connection in a ticket without one. No lookup uses it, since the ticket's owner is nobody.
const NOBODY: ConnId = ConnId { index: 0, generation: 0 };
