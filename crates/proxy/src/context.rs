//! State that every feature works with beside its own: the engine, the settings, the ways to nodes, and the counts. The
//! context knows no feature.

use crate::counters::{Board, Counters};
use crate::errors::{self, Lost};
use crate::event::{CloseReason, Notice};
use crate::features::{Engine, Link, Owed, Owner, Session, TaskId, TaskKind, Ticket};
use crate::held::losses::Losses;
use crate::hot::HotWatch;
use crate::latency::Time;
use crate::limits::{Limits, Settings};
use crate::link::inspected::Inspection;
use crate::link::node_memory::Memories;
use crate::link::pins::Pins;
use crate::link::profile::{Profiles, Who};
use crate::link::{LinkIx, ProfileId};
use crate::local::gathered::{Inquiries, Mail, Seeker};
use crate::login::attempts::{Passing, is_denial};
use crate::login::job::ControlJob;
use crate::node_tally::NodeTally;
use crate::outcome::{Effect, Fault};
use crate::redirect::queue::{RetryQueue, Wishes};
use crate::replies::merge::{Merge, SpareValues};
use crate::requests::learn::Learner;
use crate::requests::prefix_cache::PrefixCache;
use crate::requests::route::Scratch;
use crate::sampling::Sampling;
use crate::session::pinning::Pinning;
use crate::session::{Phase, Reason};
use crate::slow::SlowWatch;
use crate::tally::Tally;
use crate::topology_update::ejection::Ejection;
use command::Number;
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::{Instant, Prng, Slab};
use topology::{NodeId, ShardId, Topology};
use users::Users;

/// The context of a feature.
#[derive(Debug)]
pub(crate) struct Context {
    pub engine: Engine,
    pub limits: Limits,
    pub settings: Settings,
    pub board: Arc<Board>,
    /// The name of this process: 40 hexadecimal digits.
    pub run_id: String,
    pub logins: Logins,
    pub profiles: Profiles,
    pub pins: Pins,
    pub holders: Holders,
    pub merges: Slab<Merge>,
    pub spare_values: SpareValues,
    pub parsing: Parsing,
    pub stats: Stats,
    pub slow: SlowWatch,
    pub hot: HotWatch,
    pub node_health: NodeHealth,
    /// Requests that were declined and wait to be sent again.
    pub retry_queue: RetryQueue,
    pub inquiries: Inquiries,
    /// Requests of features to the proxy, such as to close a client.
    pub effects: VecDeque<Effect>,
    pub outside: Outside,
}

/// Inspection and memory of nodes, and ejection of nodes that fail.
#[derive(Debug, Default)]
pub(crate) struct NodeHealth {
    pub inspection: Inspection,
    pub memories: Memories,
    /// Nodes that are left out because they fail; `None` without ejection.
    pub ejection: Option<Box<Ejection>>,
}

/// The users and identities of clients.
#[derive(Debug)]
pub(crate) struct Logins {
    /// Users and their permissions, as last received by this worker.
    pub users: Arc<Users>,
    pub passing: Passing,
}

/// Clients with held links.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    /// Number of held links.
    pub conns: usize,
    /// Inquiries of workers about clients that wait on connections whose numbers are not known yet.
    pub seekers: Vec<Seeker>,
    pub losses: Losses,
}

/// The tables with which requests are parsed.
#[derive(Debug)]
pub(crate) struct Parsing {
    pub learner: Learner,
    pub scratch: Scratch,
    pub prefix_cache: PrefixCache,
}

/// Counts.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub counters: Counters,
    /// The counters at the last reset.
    pub baseline: Counters,
    pub tally: Tally,
    pub nodes: NodeTally,
    pub sampling: Sampling,
}

/// Replies of one node to requests of one command that were queued at the same time: they are counted together.
#[derive(Clone, Copy)]
pub(crate) struct Alike {
    pub node: NodeId,
    pub command: Number,
    pub queued_us: u32,
    pub count: u64,
}

impl Stats {
    /// Counts `count` requests that were read.
    #[inline(always)]
    pub(crate) fn count_calls(&mut self, command: Number, count: usize) {
        self.tally.count_calls(command, count as u64);
        self.counters.requests += count as u64;
    }

    /// Counts replies that came at `now_us`.
    #[inline(always)]
    pub(crate) fn count_replies(&mut self, alike: &Alike, now_us: u32) {
        let time = Time::between(alike.queued_us, now_us);
        self.tally.count_times(alike.command, time, alike.count);
        self.nodes.count_times(alike.node, time, alike.count);
    }

    /// The same within a loop, which needs the registers.
    #[inline(never)]
    pub(crate) fn count_replies_apart(&mut self, alike: &Alike, now_us: u32) {
        self.count_replies(alike, now_us);
    }

    /// Counts a reply of `node` that is an error.
    #[cold]
    pub(crate) fn count_error(&mut self, node: NodeId, command: Number, reply: &[u8]) {
        self.tally.count_failed(command, reply);
        self.nodes.row(node).errors += 1;
    }
}

/// Output for other workers and for the user of the proxy.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    pub jobs: VecDeque<ControlJob>,
    /// Messages to other workers.
    pub mail: VecDeque<(usize, Mail)>,
    pub notices: VecDeque<Notice>,
    pub wishes: Wishes,
}

/// Notices that wait for the log. Further notices are dropped, so that a flapping network cannot fill memory.
const NOTICES_MAX: usize = 1024;

impl Context {
    /// A worker's context at `now`, without connections.
    pub(crate) fn new(
        limits: Limits,
        settings: Settings,
        topology: Arc<Topology>,
        board: Arc<Board>,
        now: Instant,
    ) -> Context {
        let (shards, divisions) = (topology.shard_count(), topology.divisions());
        let mut engine = Engine::new(limits.engine.clone(), settings.seed, topology, now);
        engine.keeps_to_show = settings.slowlog.is_on();
        let ejection = settings.ejecting.map(|ejecting| Ejection::new(ejecting, limits.slow_start, shards));
        Context {
            profiles: Profiles::new(settings.credentials.clone(), settings.authority),
            logins: Logins { users: settings.registry.users(), passing: Passing::new(&settings.credentials) },
            pins: Pins::default(),
            holders: Holders::default(),
            merges: Slab::default(),
            spare_values: SpareValues::new(limits.spare_values_bytes_max),
            parsing: Parsing {
                learner: Learner::default(),
                scratch: Scratch::new(divisions),
                prefix_cache: PrefixCache::default(),
            },
            stats: Stats { sampling: Sampling::new(settings.seed), ..Stats::default() },
            slow: SlowWatch::new(settings.slowlog),
            hot: HotWatch::new(settings.seed),
            node_health: NodeHealth { ejection: ejection.map(Box::new), ..NodeHealth::default() },
            retry_queue: RetryQueue::default(),
            inquiries: Inquiries::default(),
            effects: VecDeque::new(),
            outside: Outside::default(),
            run_id: run_id(settings.process_seed),
            board,
            settings,
            limits,
            engine,
        }
    }

    /// Whether `shard` takes a request of ours now. The error is for the client.
    #[inline]
    pub(crate) fn admit(&self, shard: ShardId) -> Result<(), Lost> {
        match self.profiles.primary(shard) {
            Some(node) => self.admit_on(node),
            None => Err(self.engine.not_sent(shard, errors::NO_PRIMARY)),
        }
    }

    /// Whether link `ix` takes a request now. The error is for the client.
    #[inline]
    pub(crate) fn admit_on(&self, ix: LinkIx) -> Result<(), Lost> {
        let link = &self.engine.links[ix];
        link.admit(&self.engine.limits).map_err(|reason| self.not_sent_on(link, reason))
    }

    /// Fills place `place` of the session with a reply that is not a node's own. Returns true if more waits for the
    /// client than may.
    pub(crate) fn settle(&mut self, session: &mut Session, place: u32, reply: &[u8]) -> bool {
        session.replies.settle(place, reply, &mut self.engine.pool);
        if session.pinning != Pinning::No {
            // A large reply behind it may have waited. A subscription to many topics is confirmed by as many replies.
            let is_listed = self.pins.to_relay.last() == Some(&session.conn);
            self.pins.to_relay.extend((!is_listed).then_some(session.conn));
        }
        self.note_settled(session, reply.len())
    }

    /// Notes that places of the session were filled, the last one with `newest_reply` bytes. Returns true if more waits
    /// for the client than may.
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

    /// Notes that a session that waits for earlier replies got one. A transaction that gets its replies one by one may
    /// now be at the front.
    #[cold]
    fn lay_in_next(&mut self, session: &Session) {
        if let Some(Owed::Task(TaskId::Mixture(_))) = session.replies.front_owed() {
            self.engine.todo.clients_to_resume.push(session.conn);
        }
    }

    /// Closes the client after the present event. The client gets nothing more.
    pub(crate) fn close_client(&mut self, session: &mut Session, reason: CloseReason) {
        self.note_closed(session, reason);
        session.phase = Phase::Closing { linger: false };
        self.effects.push_back(Effect::Close(session.conn));
    }

    /// Gives up link `ix` after the present event.
    pub(crate) fn fail_link(&mut self, ix: LinkIx, fault: Fault) {
        self.effects.push_back(Effect::Fail(ix, fault));
    }

    /// Times out `ticket`, which was in flight on link `ix`.
    pub(crate) fn time_out(&mut self, ix: LinkIx, ticket: &Ticket) -> Lost {
        let of_nobody = matches!(
            ticket.owner,
            Owner::Late
                | Owner::Task(TaskKind::Name)
                | Owner::Task(TaskKind::Waitaof)
                | Owner::Task(TaskKind::Mark)
                | Owner::Task(TaskKind::Poll)
                | Owner::Task(TaskKind::Role)
                | Owner::Task(TaskKind::Memory)
                | Owner::Queued
                | Owner::Nobody
        );
        self.stats.counters.timeouts += u64::from(!of_nobody);
        let shard = self.engine.shard_name(self.engine.links[ix].shard).to_owned();
        let after = self.engine.links[ix].waited(self.engine.now, &self.engine.limits);
        Lost::TimedOut { shard, after }
    }

    /// The error for a request that is not sent on `link` because of `reason`.
    #[cold]
    pub(crate) fn not_sent_on(&self, link: &Link, reason: &str) -> Lost {
        match self.is_denied(link.profile, reason) {
            true => {
                let shard = self.engine.shard_name(link.shard).to_owned();
                Lost::Denied { shard, error: reason.to_owned() }
            }
            false => self.engine.not_sent(link.shard, reason),
        }
    }

    /// Whether `reason`, why no link of `profile` is available, is the node's objection to the client.
    pub(crate) fn is_denied(&self, profile: ProfileId, reason: &str) -> bool {
        matches!(self.profiles.kind(profile).who, Who::Client(_)) && is_denial(reason)
    }

    /// Microseconds since 1970.
    pub(crate) fn unix_time_us(&self) -> u64 {
        let unstepped = self.settings.unix_epoch_us + self.engine.now.as_nanos() / 1000;
        unstepped.saturating_add_signed(self.board.clock_step_us())
    }

    /// Updates whether the session is counted as waiting.
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

    /// Sends a notice to the log.
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
