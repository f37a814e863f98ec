//! What every feature works with: the links to nodes, what is queued for them and for clients, the memory that is held, and the
//! lists of what is to be done in this turn. It knows no feature.

use crate::ConnId;
use crate::cork::Cork;
use crate::event::Action;
use crate::features::Features;
use crate::limits::{Limits, SPARE_BUFFER_BYTES_MAX};
use crate::link::kept::Kept;
use crate::link::{Link, LinkIx, Links, Owner, Ticket, Use};
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
    /// The bounds of clients and links.
    pub limits: Limits,
    /// Of one client, if no other waits.
    pending_max: usize,
    /// Which shard has which keys, and where its nodes are.
    pub topology: Arc<Topology>,
    /// The connections to nodes, of all uses.
    pub links: Links<F>,
    /// What is held, in bytes.
    pub memory: Memory,
    /// Buffers for all.
    pub pool: BufferPool,
    /// Decides jitter.
    pub prng: Prng,
    /// What the request that is being carried out asks for.
    pub asking: F::Command,
    /// The instant of the event that is being handled. Set by [`Engine::begin`].
    pub now: Instant,
    /// The low bits of its microseconds: see [`low_us`].
    pub now_us: u32,
    /// A request that is queued now for a shared connection is not late before.
    late_at: Instant,
    /// See [`Limits::suspect_after`].
    suspect_after: Duration,
    /// When the worker began.
    pub started_at: Instant,
    /// A link may need attention then.
    pub check_at: Instant,
    /// What is to be done in this turn.
    pub todo: Todo,
    /// Replies that wait for the rest of theirs.
    pub cork: Cork,
    /// How many clients have requests pending.
    pub clients_waiting: usize,
    /// How long clients' rounds were.
    pub rounds: Rounds,
    /// Whether all requests are kept until they are answered, since their nodes may decline them.
    pub keeps: Kept,
}

/// What is to be done in this turn, and in the next.
#[derive(Debug, Default)]
pub struct Todo {
    /// For the driver: those that carry no bytes.
    pub controls: VecDeque<Action<'static>>,
    /// Links with something to send.
    pub links_to_send: Vec<LinkIx>,
    /// Clients with something to send.
    pub clients_to_send: Vec<ConnId>,
    /// Clients that were paused and have caught up.
    pub clients_to_resume: Vec<ConnId>,
    /// Clients that go on in the next turn, so that others have their share of this one.
    pub clients_of_next_turn: Vec<ConnId>,
}

/// The low bits of the microseconds of `now`: enough for what takes less than an hour.
#[inline]
pub fn low_us(now: Instant) -> u32 {
    (now.as_nanos() / 1000) as u32
}

impl<F: Features> Engine<F> {
    /// An engine at `now`, with nothing connected.
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
            pending_max: limits.pending_max,
            limits,
        }
    }

    /// It is `now`: to be called before an event is handled. What all requests of the event need of the time is found
    /// out once.
    pub fn begin(&mut self, now: Instant) {
        self.now = now;
        self.now_us = low_us(now);
        self.late_at = now + self.limits.request_timeout;
    }

    /// Gives each client that waits its share of what may be pending.
    pub fn share_pending(&mut self) {
        let share = self.limits.pending_shared / self.clients_waiting.max(1);
        self.limits.pending_max = share.max(self.limits.pending_min).min(self.pending_max);
    }

    /// The name of `shard` in logs and errors.
    pub fn shard_name(&self, shard: ShardId) -> &str {
        &self.topology.shard(shard).name
    }

    /// A request for `shard` cannot be sent, for this reason.
    #[cold]
    pub fn not_sent(&self, shard: ShardId, reason: &str) -> Lost {
        Lost::NotSent { shard: self.shard_name(shard).to_owned(), reason: reason.to_owned() }
    }

    /// Queues a whole request for the connection `ix`.
    #[inline(always)]
    pub fn enqueue_on(&mut self, ix: LinkIx, bytes: &[u8], asked: Asked<F>) {
        self.queue_on(ix, asked, |link, pool| link.append(bytes, pool));
    }

    /// Queues the ticket of a request that was appended to the output of connection `ix` from offset `start` on.
    #[inline(always)]
    pub fn push_ticket(&mut self, ix: LinkIx, start: u64, asked: Asked<F>) {
        self.queue_on(ix, asked, |_, _| start);
    }

    /// Queues the ticket of a request for the connection `ix`, which `begin` appends there, if it is not there yet, and says
    /// from which offset on. All of it with one look for the connection.
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
            // What is subscribed to is known: it is asked for again without the bytes.
            Use::Subscription => (self.late_at, Kept::NO),
            Use::Standby => (self.late_at, self.keeps),
            Use::Pinned | Use::Retired => (self.now + self.limits.transfer_timeout, self.keeps),
        };
        let Asked { conn, place, part, owner, .. } = asked;
        let (command, queued_us) = (self.asking, self.now_us);
        let ticket = Ticket { conn, place, part, owner, command, kept, queued_us, start, deadline };
        if link.push(ticket) {
            // Suspicion comes before the deadline.
            self.check_at = self.check_at.min(self.now + self.suspect_after);
        }
        link.list(ix, &mut self.todo.links_to_send);
    }

    /// The reply to the request that was begun last on the connection `ix` is late from `deadline` on.
    pub fn set_deadline(&mut self, ix: LinkIx, deadline: Instant) {
        if let Some(ticket) = self.links[ix].tickets_mut().last() {
            ticket.deadline = deadline;
        }
        self.check_at = self.check_at.min(deadline);
    }

    /// Lists the connection `ix` for sending in this turn.
    #[inline]
    pub fn list_link(&mut self, ix: LinkIx) {
        self.links[ix].list(ix, &mut self.todo.links_to_send);
    }

    /// Lists the session for sending in this turn; what waits for it is counted then. One that takes nothing is not listed.
    #[inline]
    pub fn list_client(&mut self, session: &mut Session<F>) {
        if session.replies.output.blocked {
            self.recount_client(session);
        } else if !session.replies.output.listed {
            session.replies.output.listed = true;
            self.todo.clients_to_send.push(session.conn);
        }
    }

    /// Answers the request that `session` sent last.
    pub fn answer(&mut self, session: &mut Session<F>, reply: &[u8]) {
        session.replies.answer(reply, &mut self.pool);
        self.list_client(session);
    }

    /// After a reply was settled: resumes its client if that was paused and has caught up.
    #[inline]
    pub fn resume_if_caught_up(&mut self, session: &mut Session<F>) {
        if session.paused
            && !session.hold.has(Reason::Question)
            && session.replies.has_caught_up(&self.limits)
        {
            self.todo.clients_to_resume.push(session.conn);
        }
    }

    /// How many connections are one client's for as long as it watches keys or waits.
    pub fn held_conns(&self) -> usize {
        let is_held =
            |(ix, link): &(LinkIx, &Link<F>)| link.used_by == Use::Held && !self.links.is_vacant(*ix);
        self.links.with_indexes().filter(is_held).count()
    }

    /// Counts what the session holds.
    #[inline]
    pub fn recount_client(&mut self, session: &mut Session<F>) {
        let holds = session.replies.held_bytes();
        self.memory.recount(&mut session.counted.bytes, holds);
        self.memory.recount_unread(&mut session.counted.unread_bytes, session.input.bytes.len());
    }

    /// Counts what the connection `ix` holds.
    #[inline]
    pub fn recount_link(&mut self, ix: LinkIx) {
        let link = &mut self.links[ix];
        let holds = link.held_bytes();
        self.memory.recount(&mut link.counted_bytes, holds);
    }

    /// Counts what has just been queued for nodes.
    pub fn recount_listed_nodes(&mut self) {
        for index in 0..self.todo.links_to_send.len() {
            self.recount_link(self.todo.links_to_send[index]);
        }
    }

    /// Whether a request may be read. If not, the client is resumed when it may.
    #[inline]
    pub fn has_memory_for(&mut self, session: &mut Session<F>) -> bool {
        let has_memory = self.has_memory();
        if !has_memory {
            self.hold_up(session);
        }
        has_memory
    }

    /// Whether something may be begun that will be held.
    #[inline]
    pub fn has_memory(&mut self) -> bool {
        !self.memory.fill(self.limits.memory_bytes_max)
    }

    /// The session is not read from until there is room.
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

    /// Tells the driver to stop or to go on reading from `conn`.
    pub fn pace(&mut self, conn: ConnId, pauses: bool) {
        self.todo.controls.push_back(match pauses {
            true => Action::Pause { conn },
            false => Action::Resume { conn },
        });
    }

    /// Ends the link `ix`, whose connection is gone, and plans the next attempt. Returns the tickets that were in flight, and how
    /// many bytes were written: the request of a ticket that starts behind them was not sent.
    pub fn fail_link(&mut self, ix: LinkIx, reason: String) -> (VecDeque<Ticket<F>>, u64) {
        self.links[ix].fail(reason, self.now, &self.limits, &mut self.prng, &mut self.pool)
    }

    /// Asks the driver to close `conn`.
    pub fn close(&mut self, conn: ConnId) {
        self.todo.controls.push_back(Action::Close { conn });
    }

    /// A place for `link` among the connections.
    pub fn add_link(&mut self, mut link: Link<F>) -> LinkIx {
        link.outgoing.keeps_all = self.keeps.is_kept();
        self.check_at = self.now;
        self.links.add(link)
    }
}

/// Who asks a node, and for what: a [`Ticket`] before it has its place in a queue.
#[derive(Clone, Copy, Debug)]
pub struct Asked<F: Features> {
    /// The client; or what the kind of the task says.
    pub conn: ConnId,
    /// Its place in that client's order.
    pub place: u32,
    /// Which part of a split request this is.
    pub part: u32,
    /// Who gets the reply.
    pub owner: Owner<F::Kind>,
    /// The request may be asked again, on a shared connection: its bytes are kept until its reply comes.
    pub kept: Kept,
}

impl<F: Features> Asked<F> {
    /// A client's request that goes to one node.
    pub fn by_client(conn: ConnId, place: u32) -> Asked<F> {
        Asked { conn, place, part: 0, owner: Owner::Client, kept: Kept::NO }
    }

    /// A request of ours that goes to one node, whatever it answers.
    pub fn by_nobody() -> Asked<F> {
        Asked { conn: NOBODY, place: 0, part: 0, owner: Owner::Nobody, kept: Kept::NO }
    }
}

/// No connection has this name when it is used: its ticket's owner says that nobody asks.
const NOBODY: ConnId = ConnId { index: 0, generation: 0 };
