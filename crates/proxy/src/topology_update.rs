//! Another topology takes the place of the present one while requests are in flight: nodes come, go, or change their
//! role.
//!
//! ```text
//!   node lost keys, is still a primary ─► the worker reads from its clients when their requests in flight are answered
//!   node is no longer a primary ────────► the same, and its links are closed then; unsent requests of a link
//!                                         go to the nodes of their keys (`redirect.rs`)
//!   node became a primary ──────────────► the worker connects to it, and gets the shard's messages from it
//! ```
//!
//! The order of one client's requests stays. Its next request may go to another node, and must not overtake those in
//! flight. The node that has them answers them. In a cluster, the node may answer by now that the key is elsewhere.

pub(crate) mod discovered;
pub(crate) mod ejection;

use crate::context::Context;
use crate::core::Core;
use crate::event::Notice;
use crate::features::{Link, Ticket};
use crate::link::kept::Kept;
use crate::link::{LinkIx, State, Use, retire};
use crate::outcome::Fault;
use crate::peers::{Peer, Peers};
use crate::proxy::Proxy;
use crate::replies::link_end::disconnect;
use std::collections::BTreeSet;
use std::sync::Arc;
use stdx::{Instant, Slab};
use topology::{NodeId, ShardId, Topology};

const OTHER_PRIMARY: &str = "another node has taken over";

/// Makes the clients of `tickets` send nothing else before these are answered.
fn hold_back<'t>(peers: &mut Slab<Peer>, tickets: impl Iterator<Item = &'t Ticket>) {
    for ticket in tickets.filter(|ticket| ticket.is_of_client()) {
        if let Some(Peer::Client(session)) = peers.get_mut(ticket.conn) {
            session.turn();
        }
    }
}

impl Proxy {
    /// Routes requests by `topology` from now on. A topology that is not newer than the present one is ignored.
    pub fn handle_topology(&mut self, topology: Arc<Topology>, now: Instant) {
        self.core.begin(now);
        if topology.epoch() <= self.core.cx.engine.topology.epoch() {
            return;
        }
        let before = std::mem::replace(&mut self.core.cx.engine.topology, topology);
        self.core.cx.board.note_topology_change(now);
        self.core.fit_topology();
        if before.loses_primary(&self.core.cx.engine.topology) {
            self.core.cx.holders.losses.note(now);
        }
        if self.core.readers.are_watched() {
            let gainers = before.gainers(&self.core.cx.engine.topology);
            self.core.readers.note_gains(gainers, now);
        }
        let losers = before.losers(&self.core.cx.engine.topology);
        hold_back_clients_of(&mut self.core.cx, &mut self.peers, &losers);
        self.end_watches(|_, link| losers.contains(&link.node));
        self.drain_nodes();
        // Clients also wait if a node has redirected their requests to a place that the topology does not confirm.
        let core = &self.core;
        hold_back(&mut self.peers, core.cx.engine.links.iter().flat_map(|link| core.off_the_map(link)));
        self.core.cx.connect_primaries();
        self.move_sources(&before);
        self.follow_topology();
        self.retry_parked(true);
        self.core.cx.engine.check_at = now;
        self.follow_up();
    }

    /// Ends watches of keys on the links that `loses` names, because changes of those keys cannot be seen there any more.
    pub(crate) fn end_watches(&mut self, loses: impl Fn(LinkIx, &Link) -> bool) {
        if self.core.cx.holders.conns == 0 {
            return;
        }
        for ix in self.core.cx.engine.links.indexes() {
            let link = &mut self.core.cx.engine.links[ix];
            if link.used_by != Use::Held || !loses(ix, link) {
                continue;
            }
            // A WATCH may be in flight.
            link.features.has_lost_keys = true;
            if link.features.held_by.is_some() && link.in_flight() == 0 {
                self.fail_link(ix, Fault::Gone(OTHER_PRIMARY.to_owned()));
            }
        }
    }

    /// Takes links out of use whose nodes get no more requests.
    fn drain_nodes(&mut self) {
        for ix in self.core.cx.engine.links.indexes() {
            if self.core.is_of_use(ix) {
                continue;
            }
            self.core.cx.pins.forget_idle(self.core.cx.engine.links[ix].node);
            match self.core.cx.engine.links[ix].used_by {
                Use::Shared | Use::Replica if self.core.cx.is_vacant(ix) => {}
                Use::Shared | Use::Replica => self.drain_node(ix),
                _ => {}
            }
        }
    }

    /// Drains the link `ix`: the node answers the requests that were sent, and nothing else is sent.
    fn drain_node(&mut self, ix: LinkIx) {
        let core = &mut self.core;
        let link = &mut core.cx.engine.links[ix];
        let (profile, id) = (link.profile, link.node);
        core.cx.profiles.forget(profile, id, ix);
        if !link.is_ready() {
            return self.leave_unsent(ix);
        }
        core.cx.stats.counters.nodes_up -= u64::from(link.stands_for_node());
        link.used_by = Use::Draining;
        retire::raise_barriers(&mut self.core.cx, &mut self.peers, ix);
        retire::reuse_retired(&mut self.core.cx, &mut self.peers, ix);
    }

    /// Closes a link on which nothing was sent yet. Requests that wait for it are sent to the nodes of their keys,
    /// once those are known.
    fn leave_unsent(&mut self, ix: LinkIx) {
        let unsent = self.core.unsent_on(&self.peers, ix, OTHER_PRIMARY);
        let cx = &mut self.core.cx;
        let (node, shard) = (cx.engine.links[ix].node, cx.engine.links[ix].shard);
        disconnect(cx, &mut self.peers, ix);
        cx.engine.fail_link(ix, String::new());
        cx.vacate(ix);
        let lost = cx.engine.not_sent(shard, OTHER_PRIMARY);
        self.park_unsent(node, unsent, &lost);
    }

    /// Moves the links for messages and invalidations to the present primaries of their shards.
    fn move_sources(&mut self, before: &Topology) {
        let after = Arc::clone(&self.core.cx.engine.topology);
        for id in after.all_shards() {
            let was = before.shards().get(id.0 as usize).and_then(|shard| shard.primary);
            let Some(primary) = after.shard(id).primary.filter(|primary| was != Some(*primary)) else {
                continue;
            };
            for ix in self.core.sources_of(id) {
                self.fail_link(ix, Fault::Gone(OTHER_PRIMARY.to_owned()));
                let link = &mut self.core.cx.engine.links[ix];
                // The link is made again at once if it is still needed.
                if let State::Waiting { until } = &mut link.state
                    && *until != Instant::NEVER
                {
                    (*until, link.node, link.attempts.failures) = (self.core.cx.engine.now, primary, 0);
                }
            }
        }
    }
}

/// Makes clients with requests in flight to `nodes` send nothing else before these are answered.
fn hold_back_clients_of(cx: &mut Context, peers: &mut Peers, nodes: &BTreeSet<NodeId>) {
    let losers = cx.engine.links.iter().filter(|link| nodes.contains(&link.node));
    hold_back(peers, losers.flat_map(|link| link.tickets()));
}

impl Context {
    /// Whether the node `id` is a replica.
    pub(crate) fn is_replica(&self, id: NodeId) -> bool {
        let shard = self.engine.topology.node(id).shard;
        shard.is_some_and(|shard| self.engine.topology.shard(shard).replicas.contains(&id))
    }

    /// Whether the link `ix` is not the one that its profile uses for its node.
    fn is_vacant(&self, ix: LinkIx) -> bool {
        let link = &self.engine.links[ix];
        self.profiles.link(link.profile, link.node) != Some(ix)
    }
}

impl Core {
    /// Resizes the lists that have an entry for each shard or division.
    fn fit_topology(&mut self) {
        let topology = &self.cx.engine.topology;
        self.cx.engine.keeps = if topology.is_discovered() { Kept::UNTIL_RUN } else { Kept::NO };
        self.cx.parsing.scratch.keys.resize(topology.divisions());
        self.subscriptions.fit(topology);
        self.invalidations.fit(topology);
        if self.readers.are_watched() {
            self.readers.follow(topology, self.cx.engine.now);
        }
        let keeping = self.cx.engine.keeping();
        for link in &mut self.cx.engine.links {
            link.outgoing.keeping = keeping;
            // A link for messages belongs to its shard, whichever node is the primary: see [`Proxy::move_sources`].
            if link.used_by != Use::Subscription
                && let Some(node) = topology.nodes().get(link.node.0 as usize)
                && let Some(shard) = node.shard
            {
                link.shard = shard;
            }
        }
    }

    /// Whether the requests of the link `ix` still go to its node: writes to a primary, reads to a replica.
    fn is_of_use(&self, ix: LinkIx) -> bool {
        let Link { node: id, used_by, .. } = self.cx.engine.links[ix];
        if used_by == Use::Replica {
            return self.readers.are_watched() && self.cx.is_replica(id);
        }
        let shard = self.cx.engine.topology.node(id).shard;
        shard.is_some_and(|shard| self.cx.engine.topology.shard(shard).primary == Some(id))
    }

    /// The links over which the primary of `shard` pushes messages and invalidations.
    fn sources_of(&self, shard: ShardId) -> Vec<LinkIx> {
        self.subscriptions.links(shard).chain(self.invalidations.link(shard)).collect()
    }
}

impl Proxy {
    /// Adopts the distribution of keys that ejection has changed.
    pub(crate) fn remap(&mut self) {
        let before = Arc::clone(&self.core.cx.engine.topology);
        let Some(ejection) =
            self.core.cx.node_health.ejection.as_mut().filter(|ejection| ejection.has_changed)
        else {
            return;
        };
        let topology = Arc::new(ejection.topology(&before, before.epoch() + 1));
        let name = |shard: ShardId| topology.shard(shard).name.clone();
        let names = |of: &Topology| {
            let out = of.out().iter().map(|&shard| name(shard)).collect();
            let returning = of.returning().iter().map(|back| name(back.shard)).collect();
            (out, returning)
        };
        let (out, returning): (Vec<String>, Vec<String>) = names(&topology);
        for back in topology.returning() {
            let was_out = before.out().contains(&back.shard);
            if let (true, Some(node)) = (was_out, topology.shard(back.shard).primary) {
                self.core.cx.stats.nodes.row(node).slow_starts += 1;
            }
        }
        let ejected = topology.out().iter().filter(|shard| !before.out().contains(shard)).count();
        self.core.cx.stats.counters.ejections += ejected as u64;
        // A step of a returning shard is no news.
        if names(&before) != (out.clone(), returning.clone()) {
            self.core.cx.stats.counters.remaps += 1;
            self.core.cx.notice(Notice::Remapped { out, returning });
        }
        self.handle_topology(topology, self.core.cx.engine.now);
    }
}

/// The instant of the next possible return or step.
#[inline]
pub(crate) fn ejection_deadline(cx: &Context) -> Instant {
    cx.node_health.ejection.as_ref().map_or(Instant::NEVER, |ejection| ejection.deadline())
}

impl Proxy {
    /// Adopts the distribution of keys, if ejection has changed it.
    #[inline]
    pub(crate) fn remap_if_changed(&mut self) {
        if self.core.cx.node_health.ejection.as_ref().is_some_and(|ejection| ejection.has_changed) {
            self.remap();
        }
    }
}
