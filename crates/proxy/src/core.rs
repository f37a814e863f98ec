//! What all sessions of a worker share: the topology, the links, merges, buffers, counts, and the lists of what is
//! to be done in this turn.

use crate::ConnId;
use crate::counters::{Board, Counters};
use crate::emulate::Emulation;
use crate::emulate::waits::Waits;
use crate::errors::{self, Lost};
use crate::event::Notice;
use crate::held::acknowledged::Losses;
use crate::held::fan::Fan;
use crate::limits::{Limits, SPARE_BUFFER_BYTES_MAX, Settings};
use crate::link::inspection::Inspection;
use crate::link::pinned::{Pinning, Pins};
use crate::link::profiles::Profiles;
use crate::link::{Link, Purpose, Ticket, Use};
use crate::link::{LinkIx, Links};
use crate::local::inquiry::{Inquiries, Mail, Question, Seeker};
use crate::login::ControlJob;
use crate::login::passing::Passing;
use crate::memory::Memory;
use crate::monitor::Monitor;
use crate::pause::Pause;
use crate::pubsub::Subscriptions;
use crate::reading::Readers;
use crate::redirect::{Kept, RetryQueue, Wishes};
use crate::replies::cork::Cork;
use crate::replies::merge::{Merge, SpareValues};
use crate::requests::learn::Learner;
use crate::requests::prefix_cache::PrefixCache;
use crate::requests::route::Scratch;
use crate::rounds::Rounds;
use crate::scan::Scan;
use crate::scripts::Repeats;
use crate::session::{Reason, Session};
use crate::tally::{self, Tally};
use crate::topology_update::ejection::Ejection;
use crate::tracking::invalidations::Invalidations;
use crate::transaction::Replay;
use crate::transaction::execution::Execution;
use crate::transaction::inlays::Mixture;
use crate::walk;
use command::Number;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use stdx::{BufferPool, Instant, Prng, Slab};
use topology::{NodeId, ShardId, Topology};
use users::Users;

/// Everything but the connections themselves.
#[derive(Debug)]
pub(crate) struct Core {
    pub limits: Limits,
    /// Of one client, if no other waits.
    pending_max: usize,
    pub settings: Settings,
    pub topology: Arc<Topology>,
    /// Who may do what, as this worker was told last.
    pub users: Arc<Users>,
    /// The connections to nodes, of all uses.
    pub links: Links,
    pub profiles: Profiles,
    pub passing: Passing,
    pub pins: Pins,
    pub pause: Pause,
    pub readers: Readers,
    /// Who is left out, if nodes that fail are.
    pub ejection: Option<Box<Ejection>>,
    pub subscriptions: Subscriptions,
    pub monitor: Monitor,
    pub invalidations: Invalidations,
    /// How many connections clients hold.
    pub held: usize,
    /// Who seeks clients that wait on connections whose numbers are not known yet.
    pub seekers: Vec<Seeker>,
    pub memory: Memory,
    pub merges: Slab<Merge>,
    /// Requests that may have to be sent once more.
    pub repeats: Repeats,
    pub scans: Slab<Scan>,
    pub emulations: Slab<Emulation>,
    /// Those that wait for an element.
    pub waits: Waits,
    pub fans: Slab<Fan>,
    pub losses: Losses,
    pub mixtures: Slab<Mixture>,
    pub spare_values: SpareValues,
    pub learner: Learner,
    pub scratch: Scratch,
    pub prefix_cache: PrefixCache,
    pub cork: Cork,
    pub pool: BufferPool,
    pub prng: Prng,
    pub counters: Counters,
    /// What the counters were when they were set back last.
    pub baseline: Counters,
    pub tally: Tally,
    /// What the request that is being carried out asks for.
    pub asking: Number,
    pub inquiries: Inquiries,
    /// Questions to all workers that are to be put once the session that asks is out of hand.
    pub questions: VecDeque<(stdx::Id, Arc<Question>)>,
    /// For whoever drives the proxy.
    pub jobs: VecDeque<ControlJob>,
    /// For other workers.
    pub mail: VecDeque<(usize, Mail)>,
    /// Names this process, in 40 hexadecimal digits.
    pub run_id: String,
    /// What is known of what nodes are.
    pub inspection: Inspection,
    pub board: Arc<Board>,
    /// The instant of the event that is being handled. Set by [`Core::begin`].
    pub now: Instant,
    /// The low bits of its microseconds: see [`tally::low_us`].
    pub now_us: u32,
    /// A request that is queued now for a shared connection is not late before.
    late_at: Instant,
    /// See [`Limits::suspect_after`].
    suspect_after: Duration,
    pub started_at: Instant,
    /// A link may need attention then.
    pub check_at: Instant,
    pub controls: VecDeque<Control>,
    pub notices: VecDeque<Notice>,
    /// Whether all requests are kept until they are answered, since their nodes may decline them.
    pub keeps: Kept,
    /// Requests that were declined and wait.
    pub retry_queue: RetryQueue,
    pub wishes: Wishes,
    /// Transactions that may have to be sent again.
    pub replays: Slab<Replay>,
    /// Transactions over several shards that are carried out.
    pub executions: Slab<Execution>,
    /// Links with something to send.
    pub links_to_send: Vec<LinkIx>,
    /// Clients with something to send.
    pub clients_to_send: Vec<ConnId>,
    /// Clients that were paused and have caught up.
    pub clients_to_resume: Vec<ConnId>,
    /// Clients that go on in the next turn, so that others have their share of this one.
    pub clients_of_next_turn: Vec<ConnId>,
    /// How many clients have requests pending.
    pub clients_waiting: usize,
    /// How long clients' rounds were.
    pub rounds: Rounds,
}

/// An [`crate::Action`] that carries no bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    Connect { conn: ConnId, node: NodeId },
    Pause { conn: ConnId },
    Resume { conn: ConnId },
    Finish { conn: ConnId },
    Close { conn: ConnId },
}

/// Notices that wait for the log; more are dropped, so that a flapping network cannot fill memory.
const NOTICES_MAX: usize = 1024;

impl Core {
    /// A worker's core at `now`, with nothing connected.
    pub(crate) fn new(
        limits: Limits,
        settings: Settings,
        topology: Arc<Topology>,
        board: Arc<Board>,
        now: Instant,
    ) -> Core {
        let shards = topology.shard_count();
        let keeps = if topology.is_discovered() { Kept::UNTIL_RUN } else { Kept::NO };
        let profiles = Profiles::new(settings.credentials.clone(), settings.authority);
        let passing = Passing::new(&settings.credentials);
        let memory = Memory::default();
        let mut core = Core {
            links: Links::default(),
            profiles,
            passing,
            pins: Pins::default(),
            pause: Pause::default(),
            readers: Readers::new(settings.reading.clone()),
            ejection: settings
                .ejecting
                .map(|ejecting| Box::new(Ejection::new(ejecting, limits.slow_start, shards))),
            subscriptions: Subscriptions::new(shards, memory.charge(0)),
            monitor: Monitor::default(),
            invalidations: Invalidations::new(shards, memory.charge(0)),
            held: 0,
            seekers: Vec::new(),
            scratch: Scratch::new(topology.divisions()),
            prefix_cache: PrefixCache::default(),
            cork: Cork::default(),
            prng: Prng::new(settings.seed),
            run_id: run_id(settings.process_seed),
            inspection: Inspection::default(),
            users: settings.registry.users(),
            settings,
            topology,
            merges: Slab::default(),
            repeats: Repeats::new(memory.charge(0)),
            memory,
            scans: Slab::default(),
            emulations: Slab::default(),
            waits: Waits::default(),
            fans: Slab::default(),
            losses: Losses::default(),
            mixtures: Slab::default(),
            spare_values: SpareValues::new(limits.spare_values_bytes_max),
            learner: Learner::default(),
            pool: BufferPool::new(limits.spare_buffers_max, SPARE_BUFFER_BYTES_MAX)
                .with_pieces_of(limits.piece_bytes_max),
            counters: Counters::default(),
            baseline: Counters::default(),
            tally: Tally::default(),
            asking: Number::NONE,
            inquiries: Inquiries::default(),
            questions: VecDeque::new(),
            jobs: VecDeque::new(),
            mail: VecDeque::new(),
            board,
            now,
            now_us: tally::low_us(now),
            late_at: now,
            suspect_after: limits.suspect_after(),
            started_at: now,
            check_at: now,
            controls: VecDeque::new(),
            notices: VecDeque::new(),
            keeps,
            retry_queue: RetryQueue::default(),
            wishes: Wishes::default(),
            replays: Slab::default(),
            executions: Slab::default(),
            links_to_send: Vec::new(),
            clients_to_send: Vec::new(),
            clients_to_resume: Vec::new(),
            clients_of_next_turn: Vec::new(),
            clients_waiting: 0,
            rounds: Rounds::default(),
            pending_max: limits.pending_max,
            limits,
        };
        core.connect_primaries();
        if core.readers.are_wanted() {
            core.watch_readers();
        }
        core
    }

    /// Gives each client that waits its share of what may be pending.
    pub(crate) fn share_pending(&mut self) {
        let share = self.limits.pending_shared / self.clients_waiting.max(1);
        self.limits.pending_max = share.max(self.limits.pending_min).min(self.pending_max);
    }

    /// It is `now`: to be called before an event is handled. What all requests of the event need of the time is found
    /// out once.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.now = now;
        self.now_us = tally::low_us(now);
        self.late_at = now + self.limits.request_timeout;
        self.monitor.is_on = self.board.monitors.any();
    }

    /// Whether `shard` takes a request of ours now; else what the client is to be told.
    #[inline]
    pub(crate) fn admit(&self, shard: ShardId) -> Result<(), Lost> {
        match self.profiles.primary(shard) {
            Some(node) => self.admit_on(node),
            None => Err(self.not_sent(shard, errors::NO_PRIMARY)),
        }
    }

    /// Whether the connection `ix` takes a request now; else what the client is to be told.
    #[inline]
    pub(crate) fn admit_on(&self, ix: LinkIx) -> Result<(), Lost> {
        let link = &self.links[ix];
        link.admit(&self.limits).map_err(|reason| self.not_sent_on(link, reason))
    }

    /// A request for `shard` cannot be sent, for this reason.
    #[cold]
    pub(crate) fn not_sent(&self, shard: ShardId, reason: &str) -> Lost {
        Lost::NotSent { shard: self.shard_name(shard).to_owned(), reason: reason.to_owned() }
    }

    /// The name of `shard` in logs and errors.
    pub(crate) fn shard_name(&self, shard: ShardId) -> &str {
        &self.topology.shard(shard).name
    }

    /// Queues a whole request for the connection `ix`.
    #[inline(always)]
    pub(crate) fn enqueue_on(&mut self, ix: LinkIx, bytes: &[u8], asked: Asked) {
        self.queue_on(ix, asked, |link, pool| link.append(bytes, pool));
    }

    /// Queues the ticket of a request that was appended to the output of connection `ix` from offset `start` on.
    #[inline(always)]
    pub(crate) fn push_ticket(&mut self, ix: LinkIx, start: u64, asked: Asked) {
        self.queue_on(ix, asked, |_, _| start);
    }

    /// Queues the ticket of a request for the connection `ix`, which `begin` appends there, if it is not there yet, and says
    /// from which offset on. All of it with one look for the connection.
    #[inline(always)]
    fn queue_on(&mut self, ix: LinkIx, asked: Asked, begin: impl FnOnce(&mut Link, &mut BufferPool) -> u64) {
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
        let Asked { conn, place, part, purpose, .. } = asked;
        let (command, queued_us) = (self.asking, self.now_us);
        let ticket = Ticket { conn, place, part, purpose, command, kept, queued_us, start, deadline };
        if link.push(ticket) {
            // Suspicion comes before the deadline.
            self.check_at = self.check_at.min(self.now + self.suspect_after);
        }
        link.list(ix, &mut self.links_to_send);
    }

    /// The reply to the request that was begun last on the connection `ix` is late from `deadline` on.
    pub(crate) fn set_deadline(&mut self, ix: LinkIx, deadline: Instant) {
        if let Some(ticket) = self.links[ix].tickets_mut().last() {
            ticket.deadline = deadline;
        }
        self.check_at = self.check_at.min(deadline);
    }

    /// Lists the connection `ix` for sending in this turn.
    #[inline]
    pub(crate) fn list_link(&mut self, ix: LinkIx) {
        self.links[ix].list(ix, &mut self.links_to_send);
    }

    /// Lists the session for sending in this turn; what waits for it is counted then. One that takes nothing is not listed.
    #[inline]
    pub(crate) fn list_client(&mut self, session: &mut Session) {
        if session.blocked {
            self.recount_client(session);
        } else if !session.listed {
            session.listed = true;
            self.clients_to_send.push(session.conn);
        }
    }

    /// Answers the request that `session` sent last.
    pub(crate) fn answer(&mut self, session: &mut Session, reply: &[u8]) {
        session.answer(reply, &mut self.pool);
        self.list_client(session);
    }

    /// Fills place `place` of the session, which no node's reply fills as it is. True if the client has more waiting than
    /// it may.
    pub(crate) fn settle(&mut self, session: &mut Session, place: u32, reply: &[u8]) -> bool {
        session.settle(place, reply, &mut self.pool);
        if session.pinning != Pinning::No {
            // A large reply behind it may have waited for that. A subscription to many topics is confirmed by as many replies.
            let is_listed = self.pins.to_relay.last() == Some(&session.conn);
            self.pins.to_relay.extend((!is_listed).then_some(session.conn));
        }
        self.note_settled(session, reply.len())
    }

    /// Places of the session were filled, the last of them with so many bytes. True if the client has more waiting than it
    /// may.
    #[inline]
    pub(crate) fn note_settled(&mut self, session: &mut Session, newest_reply: usize) -> bool {
        self.count_waiting(session);
        self.list_client(session);
        self.resume_if_caught_up(session);
        if session.hold.has(Reason::Order) {
            self.lay_in_next(session);
        }
        session.is_overfull(newest_reply, &self.limits)
    }

    /// Shows this worker's counts to all.
    pub(crate) fn publish(&mut self) {
        let worker = self.settings.worker;
        let readers = &self.invalidations.readers;
        self.counters.tracked_keys = readers.len() as u64;
        self.counters.tracked_items = readers.items() as u64;
        self.counters.held_bytes = self.memory.held_bytes() as u64;
        self.board.publish(worker, &self.counters.since(&self.baseline));
        self.board.publish_tally(worker, &self.tally);
    }

    /// CONFIG RESETSTAT: what was counted is forgotten, for all who look.
    pub(crate) fn reset_statistics(&mut self) {
        self.baseline = self.counters.baseline();
        self.tally.clear();
        self.publish();
    }

    /// Counts the session among those that wait, or no more.
    #[inline]
    pub(crate) fn count_waiting(&mut self, session: &mut Session) {
        match (session.waiting, session.is_pending()) {
            (false, true) => self.clients_waiting += 1,
            (true, false) => {
                self.clients_waiting -= 1;
                if session.pinning != Pinning::No {
                    self.handle_quiet(session);
                }
            }
            _ => return,
        }
        session.waiting = !session.waiting;
    }

    /// After a reply was settled: resumes its client if that was paused and has caught up.
    #[inline]
    pub(crate) fn resume_if_caught_up(&mut self, session: &mut Session) {
        if session.paused && !session.hold.has(Reason::Question) && session.has_caught_up(&self.limits) {
            self.clients_to_resume.push(session.conn);
        }
    }

    /// After the client took bytes: the same, in the next turn. A client that reads as fast as its answers are made would
    /// else keep all others waiting.
    #[inline]
    pub(crate) fn resume_next_turn(&mut self, session: &Session) {
        let is_behind =
            session.paused && !session.hold.has(Reason::Question) && session.has_caught_up(&self.limits);
        if is_behind || (session.hold.has(Reason::Order) && self.is_laying_in(session)) {
            self.clients_of_next_turn.push(session.conn);
        }
    }

    /// How many connections are one client's for as long as it watches keys or waits.
    pub(crate) fn held_conns(&self) -> usize {
        let is_held = |(ix, link): &(LinkIx, &Link)| link.used_by == Use::Held && !self.links.is_vacant(*ix);
        self.links.with_indexes().filter(is_held).count()
    }

    /// Tells the log.
    pub(crate) fn notice(&mut self, notice: Notice) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push_back(notice);
        }
    }
}

/// 40 hexadecimal digits, as Redis names a process.
fn run_id(seed: u64) -> String {
    let mut prng = Prng::new(seed);
    let (first, second, third) = (prng.next_u64(), prng.next_u64(), prng.next_u64() as u32);
    format!("{first:016x}{second:016x}{third:08x}")
}

/// Who asks a node, and for what: a [`Ticket`] before it has its place in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub conn: ConnId,
    pub place: u32,
    pub part: u32,
    pub purpose: Purpose,
    /// The request may be asked again, on a shared connection: its bytes are kept until its reply comes.
    pub kept: Kept,
}

impl Asked {
    /// A client's request that goes to one node.
    pub(crate) fn by_client(conn: ConnId, place: u32) -> Asked {
        Asked { conn, place, part: 0, purpose: Purpose::Client, kept: Kept::NO }
    }

    /// A request of ours that goes to one node, whatever it answers.
    pub(crate) fn by_nobody() -> Asked {
        Asked { conn: NOBODY, place: 0, part: 0, purpose: Purpose::Nobody, kept: Kept::NO }
    }
}

/// No connection has this name when it is used: its ticket's purpose says that nobody asks.
const NOBODY: ConnId = ConnId { index: 0, generation: 0 };
