//! Memory of the nodes, which operators see beside their load. The first worker asks for all, so that a node gets one
//! question whatever the number of workers.
//!
//! ```text
//!   every 10 s ─► INFO memory ─► used_memory, maxmemory ─► NodeReport
//! ```
//!
//! The question goes behind the requests of clients, and not at all while the link is busy. Nodes that have not
//! answered the inspection are left alone, since some servers close the connection on INFO.

use crate::ConnId;
use crate::context::Context;
use crate::features::{Asked, Link, Owner, TaskKind, Ticket};
use crate::link::inspected::field;
use crate::link::kept::Kept;
use crate::link::{ProfileId, Use};
use crate::outcome::Outcome;
use command::Number;
use resp::reply::is_error;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;
use topology::NodeId;

/// The question.
const INFO_MEMORY: &[u8] = b"*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n";
/// The time between two questions to a node. An answer takes a node less than 100 µs.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// The time for which a node that refuses INFO is not asked.
const REFUSED_FOR: Duration = Duration::from_secs(600);
/// The age at which a figure is unknown again, as at a node whose link is always busy.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Requests in flight with which a link is busy.
const BUSY_FROM: usize = 1024;

/// The memory of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMemory {
    /// Its used_memory.
    pub used_bytes: u64,
    /// Its maxmemory; 0 without a limit.
    pub max_bytes: u64,
}

impl NodeMemory {
    /// The figures in INFO's `reply`; `None` if it has none.
    fn read(reply: &[u8]) -> Option<NodeMemory> {
        let text = String::from_utf8_lossy(reply);
        let number = |name| field(&text, name)?.trim_end().parse().ok();
        Some(NodeMemory { used_bytes: number("used_memory")?, max_bytes: number("maxmemory")? })
    }
}

/// Memory of the nodes, by the last answers.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    /// Nodes that have answered the inspection.
    tell: BTreeSet<NodeId>,
    /// The instants from which nodes may be asked again.
    ask_at: BTreeMap<NodeId, Instant>,
    /// The last figures, with the instants at which they came.
    known: BTreeMap<NodeId, (NodeMemory, Instant)>,
}

impl Memories {
    /// Takes the reply of node `id` to the inspection.
    pub(crate) fn note_inspected(&mut self, id: NodeId, reply: &[u8]) {
        if !is_error(reply) {
            self.tell.insert(id);
        }
    }

    /// The memory of node `id`, if an answer came lately.
    pub(crate) fn of(&self, id: NodeId, now: Instant) -> Option<NodeMemory> {
        self.known.get(&id).filter(|(_, at)| now.since(*at) < AGE_MAX).map(|&(memory, _)| memory)
    }

    fn is_due(&self, id: NodeId, now: Instant) -> bool {
        self.ask_at.get(&id).is_none_or(|at| *at <= now)
    }
}

/// Asks the nodes for their memory when it is time. To be called once a second.
pub(crate) fn ask_for_memory(cx: &mut Context) {
    if cx.settings.worker != 0 || !cx.settings.inspects_nodes {
        return;
    }
    cx.engine.asking = Number::NONE;
    let now = cx.engine.now;
    for ix in cx.engine.links.indexes() {
        let link = &cx.engine.links[ix];
        let (id, shard) = (link.node, link.shard);
        if !is_free(cx, link) || !is_willing(cx, id) || !cx.node_health.memories.is_due(id, now) {
            continue;
        }
        cx.node_health.memories.ask_at.insert(id, now + ASK_EVERY);
        let conn = ConnId { index: ix.to_u32(), generation: 0 };
        let (place, part, owner) = (id.0, shard.0, Owner::Task(TaskKind::Memory));
        cx.engine.enqueue_on(ix, INFO_MEMORY, Asked { conn, place, part, owner, kept: Kept::NO });
    }
}

/// Whether `link` is the shared one of its node, and takes a request of minor importance.
fn is_free(cx: &Context, link: &Link) -> bool {
    link.profile == ProfileId::FIRST
        && matches!(link.used_by, Use::Shared | Use::Replica)
        && link.is_ready()
        && link.admit(&cx.engine.limits).is_ok()
        && link.queued_bytes() == 0
        && link.in_flight() < BUSY_FROM
}

/// Whether node `id` is known to answer INFO, or to refuse it properly.
fn is_willing(cx: &Context, id: NodeId) -> bool {
    let topology = &cx.engine.topology;
    topology.is_discovered()
        || topology.node(id).address.is_of_this_process()
        || cx.node_health.memories.tell.contains(&id)
}

/// Takes a node's reply about its memory, or its loss.
pub(crate) fn absorb_memory(cx: &mut Context, ticket: &Ticket, outcome: &Outcome<'_>) {
    let Outcome::Reply(reply) = outcome else { return };
    let (id, now) = (NodeId(ticket.place), cx.engine.now);
    let memories = &mut cx.node_health.memories;
    match NodeMemory::read(reply) {
        Some(memory) => _ = memories.known.insert(id, (memory, now)),
        // A node that loads its data, or runs a long script, will answer later.
        None if reply.starts_with(b"-LOADING") || reply.starts_with(b"-BUSY") => {}
        None => {
            memories.known.remove(&id);
            memories.ask_at.insert(id, now + REFUSED_FOR);
        }
    }
}
