//! What all sessions of a worker share: the topology, the links, merges, buffers, counts, and the lists of what is
//! to be done in this turn.

use crate::counters::{Board, Counters};
use crate::emulate::Emulation;
use crate::emulate::waits::Waits;
use crate::errors::{self, Lost};
use crate::event::Notice;
use crate::features::{Engine, Session};
use crate::held::acknowledged::Losses;
use crate::held::fan::Fan;
use crate::limits::{Limits, Settings};
use crate::link::LinkIx;
use crate::link::inspection::Inspection;
use crate::link::pinned::Pins;
use crate::link::profiles::Profiles;
use crate::local::inquiry::{Inquiries, Mail, Question, Seeker};
use crate::login::ControlJob;
use crate::login::passing::Passing;
use crate::monitor::Monitor;
use crate::pause::Pause;
use crate::pubsub::Subscriptions;
use crate::reading::Readers;
use crate::redirect::{RetryQueue, Wishes};
use crate::replies::merge::{Merge, SpareValues};
use crate::requests::learn::Learner;
use crate::requests::prefix_cache::PrefixCache;
use crate::requests::route::Scratch;
use crate::scan::Scan;
use crate::scripts::Repeats;
use crate::session::Reason;
use crate::session::pinning::Pinning;
use crate::tally::Tally;
use crate::topology_update::ejection::Ejection;
use crate::tracking::invalidations::Invalidations;
use crate::transaction::Replay;
use crate::transaction::execution::Execution;
use crate::transaction::inlays::Mixture;
use engine::memory::Memory;
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::{Instant, Prng, Slab};
use topology::{ShardId, Topology};
use users::Users;

/// Everything but the connections themselves.
#[derive(Debug)]
pub(crate) struct Core {
    pub engine: Engine,
    pub limits: Limits,
    pub settings: Settings,
    pub board: Arc<Board>,
    /// Names this process, in 40 hexadecimal digits.
    pub run_id: String,
    pub logins: Logins,
    pub profiles: Profiles,
    pub pins: Pins,
    pub pause: Pause,
    pub readers: Readers,
    pub subscriptions: Subscriptions,
    pub monitor: Monitor,
    pub invalidations: Invalidations,
    pub holders: Holders,
    pub tasks: Tasks,
    pub parsing: Parsing,
    pub stats: Stats,
    pub node_health: NodeHealth,
    /// Requests that were declined and wait.
    pub retry_queue: RetryQueue,
    pub outside: Outside,
}

/// What is known of what nodes are, and of those that fail.
#[derive(Debug)]
pub(crate) struct NodeHealth {
    pub inspection: Inspection,
    /// Who is left out, if nodes that fail are.
    pub ejection: Option<Box<Ejection>>,
}

/// Who clients are.
#[derive(Debug)]
pub(crate) struct Logins {
    /// Who may do what, as this worker was told last.
    pub users: Arc<Users>,
    pub passing: Passing,
}

/// Clients that hold connections.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    /// How many connections they hold.
    pub conns: usize,
    /// Who seeks clients that wait on connections whose numbers are not known yet.
    pub seekers: Vec<Seeker>,
    pub losses: Losses,
}

/// What is made of several answers, and not done.
#[derive(Debug)]
pub(crate) struct Tasks {
    pub merges: Slab<Merge>,
    pub spare_values: SpareValues,
    /// Requests that may have to be sent once more.
    pub repeats: Repeats,
    pub scans: Slab<Scan>,
    pub emulations: Slab<Emulation>,
    /// Those that wait for an element.
    pub waits: Waits,
    pub fans: Slab<Fan>,
    pub mixtures: Slab<Mixture>,
    /// Transactions that may have to be sent again.
    pub replays: Slab<Replay>,
    /// Transactions over several shards that are carried out.
    pub executions: Slab<Execution>,
    pub inquiries: Inquiries,
    /// Questions to all workers that are to be put once the session that asks is out of hand.
    pub questions: VecDeque<(stdx::Id, Arc<Question>)>,
}

/// What is needed to know what requests ask for.
#[derive(Debug)]
pub(crate) struct Parsing {
    pub learner: Learner,
    pub scratch: Scratch,
    pub prefix_cache: PrefixCache,
}

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub counters: Counters,
    /// What the counters were when they were set back last.
    pub baseline: Counters,
    pub tally: Tally,
}

/// What others are to take: other workers, and whoever drives the proxy.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    pub jobs: VecDeque<ControlJob>,
    /// For other workers.
    pub mail: VecDeque<(usize, Mail)>,
    pub notices: VecDeque<Notice>,
    pub wishes: Wishes,
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
        let (shards, divisions) = (topology.shard_count(), topology.divisions());
        let engine = Engine::new(limits.engine.clone(), settings.seed, topology, now);
        let memory = &engine.memory;
        let ejection = settings.ejecting.map(|ejecting| Ejection::new(ejecting, limits.slow_start, shards));
        let mut core = Core {
            profiles: Profiles::new(settings.credentials.clone(), settings.authority),
            logins: Logins { users: settings.registry.users(), passing: Passing::new(&settings.credentials) },
            pins: Pins::default(),
            pause: Pause::default(),
            readers: Readers::new(settings.reading.clone()),
            subscriptions: Subscriptions::new(shards, memory.charge(0)),
            monitor: Monitor::default(),
            invalidations: Invalidations::new(shards, memory.charge(0)),
            holders: Holders::default(),
            tasks: Tasks::new(&limits, memory),
            parsing: Parsing {
                learner: Learner::default(),
                scratch: Scratch::new(divisions),
                prefix_cache: PrefixCache::default(),
            },
            stats: Stats::default(),
            node_health: NodeHealth { inspection: Inspection::default(), ejection: ejection.map(Box::new) },
            retry_queue: RetryQueue::default(),
            outside: Outside::default(),
            run_id: run_id(settings.process_seed),
            board,
            settings,
            limits,
            engine,
        };
        core.connect_primaries();
        if core.readers.are_wanted() {
            core.watch_readers();
        }
        core
    }

    /// It is `now`: to be called before an event is handled.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.engine.begin(now);
        self.monitor.is_on = self.board.monitors.any();
    }

    /// Whether `shard` takes a request of ours now; else what the client is to be told.
    #[inline]
    pub(crate) fn admit(&self, shard: ShardId) -> Result<(), Lost> {
        match self.profiles.primary(shard) {
            Some(node) => self.admit_on(node),
            None => Err(self.engine.not_sent(shard, errors::NO_PRIMARY)),
        }
    }

    /// Whether the connection `ix` takes a request now; else what the client is to be told.
    #[inline]
    pub(crate) fn admit_on(&self, ix: LinkIx) -> Result<(), Lost> {
        let link = &self.engine.links[ix];
        link.admit(&self.engine.limits).map_err(|reason| self.not_sent_on(link, reason))
    }

    /// Fills place `place` of the session, which no node's reply fills as it is. True if the client has more waiting than
    /// it may.
    pub(crate) fn settle(&mut self, session: &mut Session, place: u32, reply: &[u8]) -> bool {
        session.replies.settle(place, reply, &mut self.engine.pool);
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
        self.engine.list_client(session);
        self.engine.resume_if_caught_up(session);
        if session.hold.has(Reason::Order) {
            self.lay_in_next(session);
        }
        session.replies.is_overfull(newest_reply, &self.engine.limits)
    }

    /// Shows this worker's counts to all.
    pub(crate) fn publish(&mut self) {
        let worker = self.settings.worker;
        let readers = &self.invalidations.readers;
        self.stats.counters.tracked_keys = readers.len() as u64;
        self.stats.counters.tracked_items = readers.items() as u64;
        self.stats.counters.held_bytes = self.engine.memory.held_bytes() as u64;
        self.board.publish(worker, &self.stats.counters.since(&self.stats.baseline));
        self.board.publish_tally(worker, &self.stats.tally);
    }

    /// CONFIG RESETSTAT: what was counted is forgotten, for all who look.
    pub(crate) fn reset_statistics(&mut self) {
        self.stats.baseline = self.stats.counters.baseline();
        self.stats.tally.clear();
        self.publish();
    }

    /// Counts the session among those that wait, or no more.
    #[inline]
    pub(crate) fn count_waiting(&mut self, session: &mut Session) {
        match (session.is_counted_waiting, session.replies.is_pending()) {
            (false, true) => self.engine.clients_waiting += 1,
            (true, false) => {
                self.engine.clients_waiting -= 1;
                if session.pinning != Pinning::No {
                    self.handle_quiet(session);
                }
            }
            _ => return,
        }
        session.is_counted_waiting = !session.is_counted_waiting;
    }

    /// After the client took bytes: the same, in the next turn. A client that reads as fast as its answers are made would
    /// else keep all others waiting.
    #[inline]
    pub(crate) fn resume_next_turn(&mut self, session: &Session) {
        let is_behind = session.paused
            && !session.hold.has(Reason::Question)
            && session.replies.has_caught_up(&self.engine.limits);
        if is_behind || (session.hold.has(Reason::Order) && self.is_laying_in(session)) {
            self.engine.todo.clients_of_next_turn.push(session.conn);
        }
    }

    /// Tells the log.
    pub(crate) fn notice(&mut self, notice: Notice) {
        if self.outside.notices.len() < NOTICES_MAX {
            self.outside.notices.push_back(notice);
        }
    }
}

/// 40 hexadecimal digits, as Redis names a process.
fn run_id(seed: u64) -> String {
    let mut prng = Prng::new(seed);
    let (first, second, third) = (prng.next_u64(), prng.next_u64(), prng.next_u64() as u32);
    format!("{first:016x}{second:016x}{third:08x}")
}

impl Tasks {
    /// None, within `limits`.
    fn new(limits: &Limits, memory: &Memory) -> Tasks {
        Tasks {
            merges: Slab::default(),
            spare_values: SpareValues::new(limits.spare_values_bytes_max),
            repeats: Repeats::new(memory.charge(0)),
            scans: Slab::default(),
            emulations: Slab::default(),
            waits: Waits::default(),
            fans: Slab::default(),
            mixtures: Slab::default(),
            replays: Slab::default(),
            executions: Slab::default(),
            inquiries: Inquiries::default(),
            questions: VecDeque::new(),
        }
    }
}
