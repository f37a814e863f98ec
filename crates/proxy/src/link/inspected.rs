//! Facts that nodes have reported about themselves.

use crate::link::LinkIx;
use resp::reply::is_error;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Instant;
use topology::NodeId;

/// Number of connections in a row that a node may close when it is inspected. Then it is not inspected any more.
pub(crate) const ENDED_MAX: u8 = 2;

/// Run ids of one node that are kept and passed on. No setup needs a longer chain.
pub(crate) const RUN_IDS_MAX: usize = 64;

/// The length of every run id of Redis.
pub(crate) const RUN_ID_LEN: usize = 40;

/// The questions to a node, in one write.
pub(crate) const QUESTIONS: &[u8] =
    b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n";

/// The number of the questions.
pub(crate) const QUESTIONS_LEN: usize = 2;

/// The first question alone.
pub(crate) const INFO_SERVER: &[u8] = b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n";

/// The last question alone.
pub(crate) const INFO_REPLICATION: &[u8] = b"*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n";

/// Facts about nodes.
#[derive(Debug, Default)]
pub(crate) struct Inspection {
    /// For each node, the number of connections in a row that it closed when it was inspected.
    pub ended: BTreeMap<NodeId, u8>,
    /// Nodes that are named as primaries but are replicas, each with its primary.
    pub replicas: BTreeMap<NodeId, String>,
    /// Nodes that answer the questions.
    pub telling: BTreeSet<NodeId>,
    /// Run ids of the processes that requests reach through nodes that are shardis: of these nodes, and of those behind
    /// them.
    pub behind: BTreeMap<NodeId, BTreeSet<String>>,
    /// Links to nodes that are to be refused, with the reasons.
    pub unfit: Vec<(LinkIx, String)>,
    /// The instant of the next round of questions.
    pub ask_at: Instant,
}

/// A node's reply about itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing of importance, or nothing at all.
    Nothing,
    /// The node is a primary.
    Primary,
    /// The node is a replica of the node at this address.
    Replica(String),
    /// The node cannot be one of `--nodes`, for this reason.
    Unfit(String),
}

impl Said {
    /// Reads `reply`; `run_id` is that of this process. The role of a node that is named as a replica does not matter.
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

/// The value of the field `name` in INFO's `text`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// The run ids in the `text` of a shardis: its own, and those of the processes behind it. `None` for another server.
pub(crate) fn behind(text: &str) -> Option<BTreeSet<String>> {
    let others = field(text, "shardis_behind")?.split(',');
    let is_run_id = |id: &&str| id.len() == RUN_ID_LEN && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(others.chain(field(text, "run_id")).filter(is_run_id).take(RUN_IDS_MAX).map(str::to_owned).collect())
}

impl Inspection {
    /// The run ids of the shardis processes that requests reach from here, separated by commas.
    pub(crate) fn behind(&self) -> String {
        let ids: BTreeSet<&str> = self.behind.values().flatten().map(String::as_str).collect();
        ids.into_iter().take(RUN_IDS_MAX).collect::<Vec<_>>().join(",")
    }

    /// Takes the node's reply about the processes behind it.
    pub(crate) fn note_behind(&mut self, id: NodeId, reply: &[u8]) {
        if let Some(ids) = behind(&String::from_utf8_lossy(reply)) {
            self.behind.insert(id, ids);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_tells_the_role_and_kind_of_a_node() {
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
