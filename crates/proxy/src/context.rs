//! What every feature works with beside its own state: the engine, the settings, where requests go, and what is counted. It knows
//! no feature.

use crate::counters::{Board, Counters};
use crate::errors::{self, Lost};
use crate::event::{CloseReason, Notice};
use crate::features::{Engine, Link, Owed, Owner, Session, TaskId, TaskKind, Ticket};
use crate::held::losses::Losses;
use crate::limits::{Limits, Settings};
use crate::link::inspected::Inspection;
use crate::link::pins::Pins;
use crate::link::profile::{Profiles, Who};
use crate::link::{LinkIx, ProfileId};
use crate::local::gathered::{Inquiries, Mail, Seeker};
use crate::login::attempts::{Passing, is_denial};
use crate::login::job::ControlJob;
use crate::outcome::{Effect, Fault};
use crate::redirect::queue::{RetryQueue, Wishes};
use crate::replies::merge::{Merge, SpareValues};
use crate::requests::learn::Learner;
use crate::requests::prefix_cache::PrefixCache;
use crate::requests::route::Scratch;
use crate::session::pinning::Pinning;
use crate::session::{Phase, Reason};
use crate::tally::Tally;
use crate::topology_update::ejection::Ejection;
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::{Instant, Prng, Slab};
use topology::{ShardId, Topology};
use users::Users;

/// The context of a feature.
#[derive(Debug)]
pub(crate) struct Context {
    pub engine: Engine,
    pub limits: Limits,
    pub settings: Settings,
    pub board: Arc<Board>,
    /// Names this process, in 40 hexadecimal digits.
    pub run_id: String,
    pub logins: Logins,
    pub profiles: Profiles,
    pub pins: Pins,
    pub holders: Holders,
    pub merges: Slab<Merge>,
    pub spare_values: SpareValues,
    pub parsing: Parsing,
    pub stats: Stats,
    pub node_health: NodeHealth,
    /// Requests that were declined and wait.
    pub retry_queue: RetryQueue,
    pub inquiries: Inquiries,
    /// What features have the proxy do about others.
    pub effects: VecDeque<Effect>,
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

impl Context {
    /// A worker's context at `now`, with nothing connected.
    pub(crate) fn new(
        limits: Limits,
        settings: Settings,
        topology: Arc<Topology>,
        board: Arc<Board>,
        now: Instant,
    ) -> Context {
        let (shards, divisions) = (topology.shard_count(), topology.divisions());
        let engine = Engine::new(limits.engine.clone(), settings.seed, topology, now);
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
            stats: Stats::default(),
            node_health: NodeHealth { inspection: Inspection::default(), ejection: ejection.map(Box::new) },
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

    /// A session that waits for earlier replies has got one: a transaction whose replies it gets one by one may be at the front now.
    #[cold]
    fn lay_in_next(&mut self, session: &Session) {
        if let Some(Owed::Task(TaskId::Mixture(_))) = session.replies.front_owed() {
            self.engine.todo.clients_to_resume.push(session.conn);
        }
    }

    /// Closes the client as soon as what is being done is done. Until then it gets nothing more.
    pub(crate) fn close_client(&mut self, session: &mut Session, reason: CloseReason) {
        self.note_closed(session, reason);
        session.phase = Phase::Closing { linger: false };
        self.effects.push_back(Effect::Close(session.conn));
    }

    /// Gives the link `ix` up as soon as what is being done is done.
    pub(crate) fn fail_link(&mut self, ix: LinkIx, fault: Fault) {
        self.effects.push_back(Effect::Fail(ix, fault));
    }

    /// The reply to `ticket`, which was in flight on the link `ix`, is late.
    pub(crate) fn time_out(&mut self, ix: LinkIx, ticket: &Ticket) -> Lost {
        let of_nobody = matches!(
            ticket.owner,
            Owner::Late
                | Owner::Task(TaskKind::Name)
                | Owner::Task(TaskKind::Waitaof)
                | Owner::Task(TaskKind::Mark)
                | Owner::Task(TaskKind::Poll)
                | Owner::Task(TaskKind::Role)
                | Owner::Queued
                | Owner::Nobody
        );
        self.stats.counters.timeouts += u64::from(!of_nobody);
        let shard = self.engine.shard_name(self.engine.links[ix].shard).to_owned();
        let after = self.engine.links[ix].waited(self.engine.now, &self.engine.limits);
        Lost::TimedOut { shard, after }
    }

    /// What is not sent on `link`, for this reason.
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

    /// Whether `reason`, for which a connection of `profile` cannot be had, is what its node has against the client.
    pub(crate) fn is_denied(&self, profile: ProfileId, reason: &str) -> bool {
        matches!(self.profiles.kind(profile).who, Who::Client(_)) && is_denial(reason)
    }

    /// Microseconds since 1970.
    pub(crate) fn unix_time_us(&self) -> u64 {
        let unstepped = self.settings.unix_epoch_us + self.engine.now.as_nanos() / 1000;
        unstepped.saturating_add_signed(self.board.clock_step_us())
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
