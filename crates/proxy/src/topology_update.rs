//! Another topology takes the place of the present one while requests are in flight: nodes come, go, or get another task.
//!
//! ```text
//!   node lost keys, is still a primary ─► its clients are not read from until what they have in flight was answered
//!   node is no primary any more ────────► the same, and its connections are closed then; what waits to be sent on one
//!                                         goes where its keys are (`redirect.rs`)
//!   node became a primary ──────────────► it is connected to, and its shard's messages come from it
//! ```
//!
//! One client's requests stay in their order: what it sends next may go to another node than what it has in flight, and
//! must not overtake that. What is in flight is answered by the node that has it; in a cluster it may answer that the
//! key is elsewhere by now.

pub(crate) mod discovered;
pub(crate) mod ejection;

use crate::core::Core;
use crate::features::{Link, Ticket};
use crate::link::kept::Kept;
use crate::link::{LinkIx, State, Use};
use crate::proxy::{Peer, Proxy};
use crate::replies::Fault;
use std::collections::BTreeSet;
use std::sync::Arc;
use stdx::{Instant, Slab};
use topology::{NodeId, ShardId, Topology};

const OTHER_PRIMARY: &str = "another node has taken over";

/// The clients of `tickets` send nothing else before these were answered.
fn hold_back<'t>(peers: &mut Slab<Peer>, tickets: impl Iterator<Item = &'t Ticket>) {
    for ticket in tickets.filter(|ticket| ticket.is_of_client()) {
        if let Some(Peer::Client(session)) = peers.get_mut(ticket.conn) {
            session.turn();
        }
    }
}

impl Proxy {
    /// From now on requests go where `topology` says. One that is not newer than the present one is ignored.
    pub fn handle_topology(&mut self, topology: Arc<Topology>, now: Instant) {
        self.core.begin(now);
        if topology.epoch() <= self.core.engine.topology.epoch() {
            return;
        }
        let before = std::mem::replace(&mut self.core.engine.topology, topology);
        self.core.fit_topology();
        if before.loses_primary(&self.core.engine.topology) {
            self.core.holders.losses.note(now);
        }
        if self.core.readers.are_watched() {
            let gainers = before.gainers(&self.core.engine.topology);
            self.core.readers.note_gains(gainers, now);
        }
        let losers = before.losers(&self.core.engine.topology);
        self.hold_back_clients_of(&losers);
        self.end_watches_on(&losers);
        self.drain_nodes();
        self.hold_back_redirected();
        self.core.connect_primaries();
        self.move_sources(&before);
        self.follow_topology();
        self.retry_parked(true);
        self.core.engine.check_at = now;
        self.follow_up();
    }

    /// Clients with requests in flight to `nodes` send nothing else before those were answered.
    fn hold_back_clients_of(&mut self, nodes: &BTreeSet<NodeId>) {
        let losers = self.core.engine.links.iter().filter(|link| nodes.contains(&link.node));
        hold_back(&mut self.peers, losers.flat_map(|link| link.tickets()));
    }

    /// The same of clients with requests in flight to where a node has redirected them, and not the topology.
    fn hold_back_redirected(&mut self) {
        let core = &self.core;
        hold_back(&mut self.peers, core.engine.links.iter().flat_map(|link| core.off_the_map(link)));
    }

    /// Who watches keys on `nodes` cannot know any more whether they have changed.
    fn end_watches_on(&mut self, nodes: &BTreeSet<NodeId>) {
        for ix in self.core.engine.links.indexes() {
            let link = &mut self.core.engine.links[ix];
            if link.used_by != Use::Held || !nodes.contains(&link.node) {
                continue;
            }
            // A WATCH may be in flight.
            link.features.has_lost_keys = true;
            if link.features.held_by.is_some() && link.in_flight() == 0 {
                self.fail_link(ix, Fault::Gone(OTHER_PRIMARY.to_owned()));
            }
        }
    }

    /// Takes the connections to nodes out of use that requests do not go to any more.
    fn drain_nodes(&mut self) {
        for ix in self.core.engine.links.indexes() {
            if self.core.is_of_use(ix) {
                continue;
            }
            self.core.pins.forget_idle(self.core.engine.links[ix].node);
            match self.core.engine.links[ix].used_by {
                Use::Shared | Use::Replica if self.core.is_vacant(ix) => {}
                Use::Shared | Use::Replica => self.drain_node(ix),
                _ => {}
            }
        }
    }

    /// What was sent on the connection `ix` is answered there; nothing else is sent on it.
    fn drain_node(&mut self, ix: LinkIx) {
        let core = &mut self.core;
        let link = &mut core.engine.links[ix];
        let (profile, id) = (link.profile, link.node);
        core.profiles.forget(profile, id, ix);
        if !link.is_ready() {
            return self.leave_unsent(ix);
        }
        core.stats.counters.nodes_up -= u64::from(link.stands_for_node());
        link.used_by = Use::Draining;
        self.raise_barriers(ix);
        self.reuse_retired(ix);
    }

    /// Closes a connection on which nothing was sent yet. What waits for it is sent where its keys are, when that is known.
    fn leave_unsent(&mut self, ix: LinkIx) {
        let unsent = self.unsent_on(ix, OTHER_PRIMARY);
        let core = &mut self.core;
        let link = &mut core.engine.links[ix];
        let (id, shard) = (link.node, link.shard);
        if let Some(conn) = link.conn() {
            core.engine.close(conn);
            self.peers.remove(conn);
        }
        let link = &mut core.engine.links[ix];
        link.fail(
            String::new(),
            core.engine.now,
            &core.engine.limits,
            &mut core.engine.prng,
            &mut core.engine.pool,
        );
        core.vacate(ix);
        let lost = core.engine.not_sent(shard, OTHER_PRIMARY);
        self.park_unsent(id, unsent, &lost);
    }

    /// Messages of a shard, and word of its changes, come from its primary.
    fn move_sources(&mut self, before: &Topology) {
        let after = Arc::clone(&self.core.engine.topology);
        for id in after.all_shards() {
            let was = before.shards().get(id.0 as usize).and_then(|shard| shard.primary);
            let Some(primary) = after.shard(id).primary.filter(|primary| was != Some(*primary)) else {
                continue;
            };
            for ix in self.core.sources_of(id) {
                self.fail_link(ix, Fault::Gone(OTHER_PRIMARY.to_owned()));
                let link = &mut self.core.engine.links[ix];
                // Unless it is of no use any more, it is made again at once.
                if let State::Waiting { until } = &mut link.state
                    && *until != Instant::NEVER
                {
                    (*until, link.node, link.attempts.failures) = (self.core.engine.now, primary, 0);
                }
            }
        }
    }
}

impl Core {
    /// What there is one of for each shard, or for each part of the keyspace, has as many entries as the topology wants.
    fn fit_topology(&mut self) {
        let topology = &self.engine.topology;
        self.engine.keeps = if topology.is_discovered() { Kept::UNTIL_RUN } else { Kept::NO };
        self.parsing.scratch.keys.resize(topology.divisions());
        self.subscriptions.fit(topology);
        self.invalidations.fit(topology);
        if self.readers.are_watched() {
            self.readers.follow(topology, self.engine.now);
        }
        for link in &mut self.engine.links {
            link.outgoing.keeps_all = self.engine.keeps.is_kept();
            // A connection for messages is its shard's, whichever node is its primary: see [`Proxy::move_sources`].
            if link.used_by != Use::Subscription
                && let Some(node) = topology.nodes().get(link.node.0 as usize)
                && let Some(shard) = node.shard
            {
                link.shard = shard;
            }
        }
    }

    /// Whether what goes over the connection `ix` still goes to its node: writes to a primary, reads to a replica.
    fn is_of_use(&self, ix: LinkIx) -> bool {
        let Link { node: id, used_by, .. } = self.engine.links[ix];
        if used_by == Use::Replica {
            return self.readers.are_watched() && self.is_replica(id);
        }
        let shard = self.engine.topology.node(id).shard;
        shard.is_some_and(|shard| self.engine.topology.shard(shard).primary == Some(id))
    }

    /// Whether the node `id` is a replica.
    pub(crate) fn is_replica(&self, id: NodeId) -> bool {
        let shard = self.engine.topology.node(id).shard;
        shard.is_some_and(|shard| self.engine.topology.shard(shard).replicas.contains(&id))
    }

    /// Whether nobody has the place `ix` among the connections.
    fn is_vacant(&self, ix: LinkIx) -> bool {
        let link = &self.engine.links[ix];
        self.profiles.link(link.profile, link.node) != Some(ix)
    }

    /// The connections over which the primary of `shard` says what it was not asked for.
    fn sources_of(&self, shard: ShardId) -> Vec<LinkIx> {
        self.subscriptions.links(shard).chain(self.invalidations.link(shard)).collect()
    }
}
