//! Inspection of the nodes of `--nodes`. Some nodes cannot be meant: nodes of a Redis Cluster, sentinels and this
//! shardis itself. They are refused on connection. A replica that is named as a primary is reported. It is refused only
//! if it accepts writes, since its next synchronization would lose them.
//!
//! ```text
//!   connected ─► greeting ─► PONG ─► INFO server, INFO replication ─► requests flow
//!                                     └─ every 10 s: INFO replication, for manual failovers
//! ```
//!
//! A node may be another shardis. It tells which shardis processes are behind it, so that requests never run in a
//! circle. A process that finds itself among them refuses the node. All processes ask again every 10 s, since nodes
//! behind a node may change.
//!
//! Reads continue at a node that has become a replica: it may be the only one that answers while an operator moves the
//! primary. Writes get its READONLY error, which client libraries know.
//!
//! A node that refuses the questions, or does not know them, counts as the node that `--nodes` names. A node that
//! closes the connection on these questions (as twemproxy does) is not asked any more.

use crate::ConnId;
use crate::context::Context;
use crate::event::Notice;
use crate::features::{Asked, Link, Owner, TaskKind, Ticket};
use crate::link::LinkIx;
use crate::link::inspected::{ENDED_MAX, INFO_REPLICATION, INFO_SERVER, Said};
use crate::link::kept::Kept;
use crate::link::proof::Proof;
use crate::outcome::{Fault, Outcome};
use std::sync::Arc;
use topology::{NodeId, ShardId};

/// Whether the node is being inspected.
pub(crate) fn is_inspected(link: &Link) -> bool {
    matches!(link.proving(), Some(Proof::Plain { .. }))
}

impl Context {
    /// The proof that the node `id` must give now.
    pub(crate) fn proof_of(&self, id: NodeId) -> Proof {
        let topology = &self.engine.topology;
        let node = topology.node(id);
        let is_primary = || node.shard.is_some_and(|shard| topology.shard(shard).primary == Some(id));
        match &node.identity {
            Some(identity) => Proof::Identity(Arc::clone(identity)),
            None if topology.is_discovered() && !topology.is_cluster() && is_primary() => Proof::Primary,
            None if topology.is_discovered() => Proof::Nothing,
            None => self.inspection_of(id),
        }
    }

    /// The proof that the node `id` of a list of nodes must give.
    pub(crate) fn inspection_of(&self, id: NodeId) -> Proof {
        let node = self.engine.topology.node(id);
        let is_asked = self.settings.inspects_nodes
            && !node.address.is_of_this_process()
            && self.node_health.inspection.ended.get(&id).is_none_or(|ended| *ended < ENDED_MAX);
        match is_asked {
            true => Proof::Plain {
                run_id: Arc::from(self.run_id.as_str()),
                is_named_replica: !self.is_named_primary(id),
            },
            false => Proof::Nothing,
        }
    }

    fn is_named_primary(&self, id: NodeId) -> bool {
        let shard = self.engine.topology.node(id).shard;
        shard.is_some_and(|shard| self.engine.topology.shard(shard).primary == Some(id))
    }

    /// Takes `reply` to the inspection on the new link `ix`.
    pub(crate) fn note_inspected(&mut self, ix: LinkIx, reply: &[u8]) {
        let link = &self.engine.links[ix];
        let (id, shard, stands_for_node) = (link.node, link.shard, link.stands_for_node());
        if !is_inspected(link) {
            return;
        }
        self.node_health.inspection.ended.remove(&id);
        self.node_health.memories.note_inspected(id, reply);
        if stands_for_node {
            self.node_health.inspection.note_behind(id, reply);
        }
        if stands_for_node && self.is_named_primary(id) {
            match Said::read(reply, &self.run_id, false) {
                Said::Primary => self.note_role(shard, id, None),
                Said::Replica(of) => self.note_role(shard, id, Some(of)),
                Said::Nothing | Said::Unfit(_) => {}
            }
        }
    }

    /// Notes that a link is closed.
    pub(crate) fn note_inspection_ended(&mut self, ix: LinkIx, fault: &Fault) {
        let link = &self.engine.links[ix];
        let id = link.node;
        if link.stands_for_node() {
            self.node_health.inspection.behind.remove(&id);
        }
        if is_inspected(link) && matches!(fault, Fault::Gone(_)) {
            let ended = self.node_health.inspection.ended.entry(id).or_default();
            *ended = ended.saturating_add(1);
        } else if link.is_ready() && link.stands_for_node() {
            // Another node may have the address next time.
            self.node_health.inspection.ended.remove(&id);
        }
    }

    fn note_role(&mut self, shard: ShardId, id: NodeId, primary: Option<String>) {
        self.node_health.inspection.telling.insert(id);
        let before = match &primary {
            Some(primary) => self.node_health.inspection.replicas.insert(id, primary.clone()),
            None => self.node_health.inspection.replicas.remove(&id),
        };
        if before == primary {
            return;
        }
        let shard = self.engine.shard_name(shard).to_owned();
        self.notice(match primary {
            Some(primary) => Notice::NodeIsReplica { shard, primary },
            None => Notice::NodeIsPrimary { shard },
        });
    }

    /// Asks nodes for their roles when it is time. To be called once a second.
    fn ask_for_roles(&mut self) {
        if self.engine.now < self.node_health.inspection.ask_at || !self.settings.inspects_nodes {
            return;
        }
        self.node_health.inspection.ask_at = self.engine.now + self.limits.inspect_every;
        for ix in self.engine.links.indexes() {
            let link = &self.engine.links[ix];
            let (id, shard) = (link.node, link.shard);
            let is_asked = link.stands_for_node()
                && link.is_ready()
                && link.admit(&self.engine.limits).is_ok()
                && self.node_health.inspection.telling.contains(&id);
            if !is_asked {
                continue;
            }
            let conn = ConnId { index: ix.to_u32(), generation: 0 };
            let (place, part, owner) = (id.0, shard.0, Owner::Task(TaskKind::Role));
            let asked = || Asked { conn, place, part, owner, kept: Kept::NO };
            self.engine.enqueue_on(ix, INFO_REPLICATION, asked());
            if self.node_health.inspection.behind.contains_key(&id) {
                self.engine.enqueue_on(ix, INFO_SERVER, asked());
            }
        }
    }

    /// Takes a node's reply about its role, or its loss.
    pub(crate) fn absorb_role(&mut self, ticket: &Ticket, outcome: &Outcome<'_>) {
        let (ix, id, shard) =
            (LinkIx::from_u32(ticket.conn.index), NodeId(ticket.place), ShardId(ticket.part));
        let Outcome::Reply(reply) = outcome else { return };
        self.node_health.inspection.note_behind(id, reply);
        match Said::read(reply, &self.run_id, false) {
            Said::Primary => self.note_role(shard, id, None),
            Said::Replica(of) => self.note_role(shard, id, Some(of)),
            Said::Unfit(reason) => self.node_health.inspection.unfit.push((ix, reason)),
            Said::Nothing => {}
        }
    }
}

/// Refuses nodes that have become unfit and inspects the others. To be called once a second.
pub(crate) fn inspect_nodes(cx: &mut Context) {
    for (ix, reason) in std::mem::take(&mut cx.node_health.inspection.unfit) {
        cx.fail_link(ix, Fault::Refused(reason));
    }
    cx.ask_for_roles();
}
