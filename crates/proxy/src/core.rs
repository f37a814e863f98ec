//! The core: state that all sessions of a worker share. This is the context and the state of each feature.

use crate::context::Context;
use crate::counters::Board;
use crate::emulate::Emulations;
use crate::features::Session;
use crate::held::fan::Fans;
use crate::limits::{Limits, Settings};
use crate::monitor::Monitor;
use crate::node_tally;
use crate::pause::Pause;
use crate::pubsub::Subscriptions;
use crate::reading::Readers;
use crate::sampling::take;
use crate::scan::Scans;
use crate::session::Reason;
use crate::tracking::invalidations::Invalidations;
use crate::transaction::Execs;
use std::sync::Arc;
use stdx::Instant;
use topology::Topology;

/// All state except the connections themselves.
#[derive(Debug)]
pub(crate) struct Core {
    pub cx: Context,
    pub pause: Pause,
    pub readers: Readers,
    pub subscriptions: Subscriptions,
    pub monitor: Monitor,
    pub invalidations: Invalidations,
    /// Requests that may have to be sent once more.
    pub scans: Scans,
    pub emulations: Emulations,
    pub fans: Fans,
    pub execs: Execs,
}

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
        let readers = Readers::new(settings.reading.clone());
        let cx = Context::new(limits, settings, topology, board, now);
        let memory = &cx.engine.memory;
        let mut core = Core {
            pause: Pause::default(),
            readers,
            subscriptions: Subscriptions::new(shards, memory.charge(0)),
            monitor: Monitor::default(),
            invalidations: Invalidations::new(shards, memory.charge(0)),
            scans: Scans::default(),
            emulations: Emulations::default(),
            fans: Fans::default(),
            execs: Execs::default(),
            cx,
        };
        core.cx.connect_primaries();
        if core.readers.are_wanted() {
            core.readers.watch_readers(&mut core.cx);
        }
        core
    }

    /// Sets the time to `now`. The caller does this before each event.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.cx.engine.begin(now);
        self.monitor.is_on = self.cx.board.monitors.any();
    }

    /// Publishes this worker's counts on the board.
    pub(crate) fn publish(&mut self) {
        let worker = self.cx.settings.worker;
        let readers = &self.invalidations.readers;
        self.cx.stats.counters.tracked_keys = readers.len() as u64;
        self.cx.stats.counters.tracked_items = readers.items() as u64;
        self.cx.stats.counters.clients_waiting = self.cx.engine.clients_waiting as u64;
        let (counters, memory) = (&mut self.cx.stats.counters, &self.cx.engine.memory);
        counters.held_bytes = memory.held_bytes() as u64;
        counters.unread_bytes = memory.counted().1 as u64;
        counters.gathered_bytes = memory.gathered_bytes() as u64;
        counters.left_bytes = memory.left_bytes() as u64;
        self.cx.board.publish(worker, &self.cx.stats.counters.since(&self.cx.stats.baseline));
        let nodes = node_tally::report(&mut self.cx, &self.readers);
        self.cx.board.publish_page(worker, &self.cx.stats.tally, nodes);
    }

    /// Ends a second of the watch for slow requests and hot keys.
    pub(crate) fn end_second(&mut self) {
        self.cx.slow.begin_second();
        self.cx.hot.end_second(self.cx.stats.counters.requests);
        take::plan_samples(&mut self.cx);
        self.cx.board.hot.publish(self.cx.settings.worker, self.cx.hot.report());
    }

    /// Resets the counts for all observers, for CONFIG RESETSTAT.
    pub(crate) fn reset_statistics(&mut self) {
        self.cx.stats.baseline = self.cx.stats.counters.baseline();
        self.cx.stats.tally.clear();
        self.publish();
    }

    /// Resumes a client that took bytes, in the next turn. A client that reads as fast as its replies are made would
    /// otherwise keep all others waiting.
    #[inline]
    pub(crate) fn resume_next_turn(&mut self, session: &Session) {
        let is_behind = session.paused
            && !session.hold.has(Reason::Question)
            && session.replies.has_caught_up(&self.cx.engine.limits);
        if is_behind || (session.hold.has(Reason::Order) && self.execs.is_laying_in(session)) {
            self.cx.engine.todo.clients_of_next_turn.push(session.conn);
        }
    }

    /// Forgets clients' profiles that are not used any more, and with them passwords.
    pub(crate) fn forget_profiles(&mut self) {
        for profile in self.cx.profiles.deserted(&self.cx.limits, self.cx.engine.now) {
            let is_heard = self.subscriptions.topics.has_profile(profile);
            if !is_heard && self.cx.engine.links.iter().all(|link| link.profile != profile) {
                self.cx.profiles.remove(profile);
            }
        }
    }
}
