//! What the nodes of `--nodes` are. A node that cannot be meant is refused when it is connected to: one of a Redis Cluster,
//! a sentinel, shardis itself. A replica that is named as a primary is told of; it is refused only if it takes writes, since
//! its next synchronization would lose them.
//!
//! ```text
//!   connected ─► greeting ─► PONG ─► INFO server, INFO replication ─► requests flow
//!                                     └─ every 10 s: INFO replication, for manual failovers
//! ```
//!
//! A node may be another shardis. It tells which shardis processes are behind it, so that requests never go round: the first
//! that finds itself among them refuses the node. All of them ask again every 10 s, since nodes behind a node change.
//!
//! Reads go on at a node that was made a replica: it may be the only one that answers while an operator moves the primary.
//! Writes get its own READONLY there, which libraries know. A node that does not let us ask, or does not know the question, is
//! taken for what it is named. One that ends the connection when it is asked (twemproxy does) is not asked any more.

use crate::core::Core;
use crate::event::Notice;
use crate::features::{Asked, Link, Owner, TaskKind, Ticket};
use crate::link::LinkIx;
use crate::link::kept::Kept;
use crate::link::proof::Proof;
use crate::replies::{Fault, Outcome};
use crate::{ConnId, Proxy};
use resp::reply::is_error;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stdx::Instant;
use topology::{Address, NodeId, ShardId};

/// Connections in a row that a node may end when it is asked; then it is not asked any more.
const ENDED_MAX: u8 = 2;
/// Run ids that are kept of one node, and told. A longer chain is no use to anybody.
const RUN_IDS_MAX: usize = 64;
/// As long as all of Redis's.
const RUN_ID_LEN: usize = 40;

/// What is asked of a node, in one write.
pub(crate) const QUESTIONS: &[u8] =
    b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n";
/// How many those are.
pub(crate) const QUESTIONS_LEN: usize = 2;
/// The first of them alone.
const INFO_SERVER: &[u8] = b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n";
/// The last of them alone.
const INFO_REPLICATION: &[u8] = b"*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n";

/// What is known of nodes.
#[derive(Debug, Default)]
pub(crate) struct Inspection {
    /// Connections in a row that each has ended when it was asked.
    ended: BTreeMap<NodeId, u8>,
    /// Those that are replicas though they are named as primaries, each with its primary.
    replicas: BTreeMap<NodeId, String>,
    /// Those that tell.
    telling: BTreeSet<NodeId>,
    /// Run ids of the processes that requests reach through nodes which are shardis: theirs, and those behind them.
    behind: BTreeMap<NodeId, BTreeSet<String>>,
    /// Connections of nodes that are to be refused, with the reasons.
    unfit: Vec<(LinkIx, String)>,
    /// The next round of questions is due then.
    ask_at: Instant,
}

/// What a node says of itself in one reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing that matters, or nothing at all.
    Nothing,
    /// It is a primary.
    Primary,
    /// It is a replica of the node at this address.
    Replica(String),
    /// It cannot be meant, for this reason.
    Unfit(String),
}

impl Said {
    /// Reads `reply`; `run_id` is that of this process. Of a node that is named as a replica, its role does not matter.
    pub(crate) fn read(reply: &[u8], run_id: &str, is_named_replica: bool) -> Said {
        if is_error(reply) {
            return Said::Nothing;
        }
        let text = String::from_utf8_lossy(reply);
        let field = |name| field(&text, name);
        let unfit = |reason: &str| Said::Unfit(reason.to_owned());
        match field("redis_mode") {
            Some("cluster") => {
                return unfit("it is a node of a Redis Cluster; name it with --cluster, not --nodes");
            }
            Some("sentinel") => {
                return unfit("it is a sentinel; name it with --sentinel, and primaries with --master");
            }
            _ => {}
        }
        if field("run_id") == Some(run_id) {
            return unfit("it is this shardis itself, a loop; remove it from --nodes");
        }
        if behind(&text).is_some_and(|ids| ids.contains(run_id)) {
            return unfit(
                "it is a shardis that forwards to this one, a loop; remove one from the --nodes of the other",
            );
        }
        match field("role") {
            _ if is_named_replica => Said::Nothing,
            Some("master") => Said::Primary,
            Some("slave") => {
                let (host, port) = (field("master_host").unwrap_or("?"), field("master_port").unwrap_or("?"));
                match field("slave_read_only") {
                    Some("0") => Said::Unfit(format!(
                        "it is a replica of {host}:{port} that takes writes and will lose them; name its primary in --nodes"
                    )),
                    _ => Said::Replica(format!("{host}:{port}")),
                }
            }
            _ => Said::Nothing,
        }
    }
}

/// What INFO's `text` says in the field `name`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// The run ids in `text`, what a shardis says of itself: its own, and those of the processes behind it. `None`: another server.
fn behind(text: &str) -> Option<BTreeSet<String>> {
    let others = field(text, "shardis_behind")?.split(',');
    let is_run_id = |id: &&str| id.len() == RUN_ID_LEN && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(others.chain(field(text, "run_id")).filter(is_run_id).take(RUN_IDS_MAX).map(str::to_owned).collect())
}

impl Inspection {
    /// The run ids of the shardis processes that requests reach from here, with commas between.
    pub(crate) fn behind(&self) -> String {
        let ids: BTreeSet<&str> = self.behind.values().flatten().map(String::as_str).collect();
        ids.into_iter().take(RUN_IDS_MAX).collect::<Vec<_>>().join(",")
    }

    /// The node `id` has said `reply` of itself.
    fn note_behind(&mut self, id: NodeId, reply: &[u8]) {
        if let Some(ids) = behind(&String::from_utf8_lossy(reply)) {
            self.behind.insert(id, ids);
        }
    }
}

/// Whether the node was asked what it is, and has not answered all of it.
pub(crate) fn is_inspected(link: &Link) -> bool {
    matches!(link.proving(), Some(Proof::Plain { .. }))
}

impl Core {
    /// What the node `id` of a list of nodes is to show.
    pub(crate) fn inspection_of(&self, id: NodeId) -> Proof {
        let node = self.engine.topology.node(id);
        let is_asked = self.settings.inspects_nodes
            && !matches!(node.address, Address::Embedded(_))
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

    /// The new connection `ix` has brought `reply` to what its node was asked.
    pub(crate) fn note_inspected(&mut self, ix: LinkIx, reply: &[u8]) {
        let link = &self.engine.links[ix];
        let (id, shard, stands_for_node) = (link.node, link.shard, link.stands_for_node());
        if !is_inspected(link) {
            return;
        }
        self.node_health.inspection.ended.remove(&id);
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

    /// A connection is given up.
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
            // Another node may be there the next time.
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

    /// Asks nodes for their roles, if it is time. To be called once a second.
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

    /// A node has said which role it has, or will not.
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

impl Proxy {
    /// Once a second: refuses nodes that have become unfit, and asks the others.
    pub(crate) fn inspect_nodes(&mut self) {
        for (ix, reason) in std::mem::take(&mut self.core.node_health.inspection.unfit) {
            self.fail_link(ix, Fault::Refused(reason));
        }
        self.core.ask_for_roles();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_what_it_is() {
        let read = |text: &str| Said::read(text.replace(' ', "\r\n").as_bytes(), "me", false);
        assert_eq!(read("$9 redis_mode:standalone run_id:you"), Said::Nothing);
        assert_eq!(read("$9 role:master"), Said::Primary);
        let replica = "$9 role:slave master_host:10.0.0.7 master_port:6379";
        assert_eq!(read(&format!("{replica} slave_read_only:1")), Said::Replica("10.0.0.7:6379".to_owned()));
        assert_eq!(read(replica), Said::Replica("10.0.0.7:6379".to_owned()));
        for unasked in ["-NOPERM redis_mode:cluster", "-ERR", "+OK", "$-1", "$9 role:sentinel"] {
            assert_eq!(read(unasked), Said::Nothing, "{unasked}");
        }
        let unfit = |text: &str| match read(text) {
            Said::Unfit(reason) => reason,
            said => panic!("{text}: {said:?}"),
        };
        assert!(
            unfit("$9 redis_mode:cluster")
                .starts_with("it is a node of a Redis Cluster; name it with --cluster")
        );
        assert!(unfit("$9 redis_mode:sentinel").starts_with("it is a sentinel; name it with --sentinel"));
        assert!(unfit("$9 run_id:me").starts_with("it is this shardis itself"));
        let (own, other) = ("a".repeat(40), "b".repeat(40));
        let looped = format!("$9\r\nrun_id:{other}\r\nshardis_behind:{own},{other}\r\n");
        let said = Said::read(looped.as_bytes(), &own, false);
        assert!(
            matches!(said, Said::Unfit(reason) if reason.starts_with("it is a shardis that forwards to this one"))
        );
        let writable = unfit(&format!("{replica} slave_read_only:0"));
        assert!(writable.starts_with("it is a replica of 10.0.0.7:6379 that takes writes"), "{writable}");
    }

    #[test]
    fn a_node_that_is_named_as_a_replica_may_be_one() {
        let replica = b"$9\r\nrole:slave\r\nmaster_host:a\r\nslave_read_only:0\r\n";
        assert_eq!(Said::read(replica, "me", true), Said::Nothing);
        assert!(matches!(Said::read(b"$9\r\nredis_mode:cluster\r\n", "me", true), Said::Unfit(_)));
    }

    #[test]
    fn a_shardis_names_itself_and_those_behind_it_up_to_a_bound() {
        let id = |letter: &str| letter.repeat(RUN_ID_LEN);
        let said = format!("run_id:{}\r\nshardis_behind:{},{}x,\r\n", id("a"), id("b"), id("c"));
        assert_eq!(behind(&said), Some(BTreeSet::from([id("a"), id("b")])));
        assert_eq!(behind("run_id:abc\r\n"), None, "a redis-server");
        let many: Vec<String> = (0..1000).map(|n| format!("{n:040}")).collect();
        let said = format!("shardis_behind:{}\r\n", many.join(","));
        assert_eq!(behind(&said).map(|ids| ids.len()), Some(RUN_IDS_MAX));
    }
}
