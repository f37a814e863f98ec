//! Names of the lines of the log, each with its meaning and its cure.
//!
//! docs/log.md is made from this table and from the calls that log: `cargo xtask tidy --bless` writes the page. tidy refuses
//! a call whose name is not in the table, and a row that no call uses.

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The stable name.
    pub(crate) name: &'static str,
    /// Keys of its subject: lines about different subjects have bounds of their own (`log_bounds.rs`).
    pub(crate) per: &'static [&'static str],
    /// The event or condition that the line tells of.
    pub(crate) meaning: &'static str,
    /// Advice to an operator; empty if nothing is to be done.
    pub(crate) cure: &'static str,
}

/// A line that is not in the table.
pub(crate) const UNLISTED: Message = Message { name: "other lines", per: &[], meaning: "", cure: "" };

/// The row of `name`.
pub(crate) fn find(name: &str) -> &'static Message {
    MESSAGES.binary_search_by_key(&name, |row| row.name).map_or(&UNLISTED, |at| &MESSAGES[at])
}

/// All of them, by name.
pub(crate) const MESSAGES: &[Message] = &[
    Message {
        name: "accept failed",
        per: &[],
        meaning: "The system refuses further connections. shardis tries again ten times a second.",
        cure: "If the error names open files, raise `ulimit -n` (`LimitNOFILE` in a systemd unit).",
    },
    Message {
        name: "access open",
        per: &[],
        meaning: "Clients can reach more than was probably meant; `reason` says which and why.",
        cure: "Set a password: `--requirepass-file` or `--acl-file`.",
    },
    Message {
        name: "certificate reload failed",
        per: &[],
        meaning: "After SIGHUP, certificates, keys or CAs could not be read. The old ones stay in use.",
        cure: "Correct the file that `error` names, then send SIGHUP again.",
    },
    Message {
        name: "certificates reloaded",
        per: &[],
        meaning: "New connections use the certificates that were read after SIGHUP.",
        cure: "",
    },
    Message {
        name: "client closed",
        per: &["reason"],
        meaning: "shardis closed the connection of a client, for `reason`.",
        cure: "For an output or memory limit, find the client that does not read its replies, or raise the limit \
               (docs/memory.md). For a protocol error, find the program at `peer` that is no Redis client.",
    },
    Message {
        name: "client kept",
        per: &["reason"],
        meaning: "During an upgrade, the new process did not take a client over, for `reason`. The old one serves it on.",
        cure: "",
    },
    Message {
        name: "client limit lowered",
        per: &["listener"],
        meaning: "The limit of file descriptors permits fewer clients than `--maxclients`.",
        cure: "Raise `ulimit -n` (`LimitNOFILE` in a systemd unit), or lower `--maxclients`.",
    },
    Message {
        name: "client refused",
        per: &["reason"],
        meaning: "A connection did not become a client: its TLS handshake or its PROXY header failed.",
        cure: "Compare its certificate, TLS version or load balancer with the options of the listener \
               (docs/transport.md).",
    },
    Message {
        name: "clients denied",
        per: &[],
        meaning: "Protected mode closed this number of connections from other machines.",
        cure: "Set a password (`--requirepass-file`, `--acl-file`), or `--protected-mode=no` in a closed network.",
    },
    Message {
        name: "clients refused",
        per: &["listener"],
        meaning: "This number of connections was closed because `maxclients` were connected.",
        cure: "Look for clients that leak connections (`CLIENT LIST`), or raise `--maxclients`.",
    },
    Message {
        name: "configuration reloaded",
        per: &["changes"],
        meaning: "These keys of the configuration have other values from now on: by the file, or by a kept configuration of this `number`.",
        cure: "",
    },
    Message {
        name: "discovered topology rejected",
        per: &[],
        meaning: "Cluster or sentinels named a topology that cannot be used. The former one stays in use.",
        cure: "Read `reason`; `shardis doctor` with the same options shows the state of the nodes.",
    },
    Message {
        name: "discovery failed",
        per: &[],
        meaning: "The thread of the discovery has ended. The topology stays as it is.",
        cure: "Restart shardis, and report the error.",
    },
    Message {
        name: "discovery unanswered",
        per: &["address"],
        meaning: "A seed, a node or a sentinel gave no usable answer. The discovery asks the others.",
        cure: "If it stays away, start it, or take it off `--cluster` or `--sentinel`.",
    },
    Message {
        name: "drain aborted",
        per: &[],
        meaning: "A second signal ended the process before all clients were served.",
        cure: "",
    },
    Message {
        name: "drain started",
        per: &[],
        meaning: "The process got SIGTERM or SIGINT. It accepts no clients and finishes requests in flight.",
        cure: "",
    },
    Message {
        name: "drain timed out",
        per: &[],
        meaning: "After `--drain-timeout`, this number of clients was still connected.",
        cure: "If their requests matter, raise `--drain-timeout`.",
    },
    Message {
        name: "foreign cluster rejected",
        per: &["address"],
        meaning: "The node at this address belongs to another cluster than the one that is served.",
        cure: "Correct `--cluster`. If the whole cluster was created anew, restart shardis.",
    },
    Message {
        name: "hint log failed",
        per: &[],
        meaning: "The hint log could not be written. Writes that a rack has missed are not acknowledged until it can.",
        cure: "Make room on the disk of `--hint-log`, or correct the permissions.",
    },
    Message {
        name: "keys remapped",
        per: &[],
        meaning: "Nodes failed repeatedly, and other shards have their keys now (`--auto-eject-hosts`).",
        cure: "Bring the nodes in `out` back. Caches refill; a store has lost sight of these keys.",
    },
    Message {
        name: "library not stored",
        per: &[],
        meaning: "A library of functions exceeds the limit of those that shardis loads again into nodes.",
        cure: "Load it again if a node loses it, or delete libraries that nobody uses.",
    },
    Message {
        name: "lines suppressed",
        per: &["of"],
        meaning: "The log left out `count` lines named `of`, because there were too many (docs/log.md).",
        cure: "The lines before it show the cause.",
    },
    Message {
        name: "link refused",
        per: &["shard"],
        meaning: "A node refused a connection with this database, protocol or user.",
        cure: "Compare `--databases` and the users with those of the node.",
    },
    Message {
        name: "link replaced",
        per: &["shard"],
        meaning: "A link was silent for too long, and another took its place.",
        cure: "If it recurs, look at the node's load, and at firewalls that forget connections \
               (docs/timeouts.md).",
    },
    Message {
        name: "listener closed",
        per: &["address"],
        meaning: "The process before this one listened at `address`, and the configuration has it no more.",
        cure: "",
    },
    Message {
        name: "log level changed",
        per: &[],
        meaning: "PUT `/log-level` changed the level of the log.",
        cure: "",
    },
    Message {
        name: "log lines dropped",
        per: &[],
        meaning: "stderr was read too slowly. This number of lines is lost.",
        cure: "Look at the program that reads the log, and at its disk.",
    },
    Message {
        name: "log reopen failed",
        per: &[],
        meaning: "After SIGHUP the log's file could not be opened again; `reason` says why. The old file takes the lines.",
        cure: "Look at the folder of the log and its permissions, and send SIGHUP again.",
    },
    Message {
        name: "mirror reached",
        per: &["target"],
        meaning: "Requests of clients go to the mirror as well.",
        cure: "",
    },
    Message {
        name: "mirror unreachable",
        per: &["target"],
        meaning: "The mirror cannot be reached or has failed; `reason` says why. Requests are left out of it meanwhile. Clients notice nothing.",
        cure: "Start the other pool, or correct `--mirror`, `--mirror-user` and `--mirror-password-file`.",
    },
    Message {
        name: "node down",
        per: &["shard", "node"],
        meaning: "A worker cannot reach the node, or the node refuses it; `reason` says why.",
        cure: "Start the node, or follow `hint`. shardis tries again by itself.",
    },
    Message {
        name: "node read-only",
        per: &["shard"],
        meaning: "The node is a replica, though the options name it as a primary. Writes fail.",
        cure: "Name its primary in its place, and itself behind it: `primary|replica`.",
    },
    Message {
        name: "node refused",
        per: &["shard"],
        meaning: "The node cannot be meant: a sentinel, shardis itself, a node of a cluster. It gets no requests.",
        cure: "Correct the address that `shard` and `reason` name.",
    },
    Message {
        name: "node reload failed",
        per: &[],
        meaning: "The nodes of the reloaded configuration cannot take the place of the present ones.",
        cure: "Restart shardis to use the new nodes.",
    },
    Message { name: "node up", per: &["shard", "node"], meaning: "The node can be used again.", cure: "" },
    Message {
        name: "node writable",
        per: &["shard"],
        meaning: "The node that was read-only is a primary now.",
        cure: "",
    },
    Message {
        name: "nodes reloaded",
        per: &["epoch"],
        meaning: "The shards of the reloaded configuration have other nodes. Requests go to these from now on.",
        cure: "",
    },
    Message {
        name: "option doubtful",
        per: &["reason"],
        meaning: "An option is permitted, but probably not meant so.",
        cure: "Follow `reason`.",
    },
    Message {
        name: "pid file unwritable",
        per: &[],
        meaning: "After an upgrade, the new process could not write its number to `--pid-file`. It serves.",
        cure: "Correct what `error` names; `shardis upgrade --pid` works without the file.",
    },
    Message {
        name: "popped element lost",
        per: &["shard"],
        meaning: "A blocking pop took an element whose client had left, and the node did not take it back.",
        cure: "If elements must not be lost, use BLMOVE with a list of the consumer.",
    },
    Message {
        name: "primary unconfirmed",
        per: &["shard"],
        meaning: "Sentinels name this node as the primary, but the node itself does not agree yet.",
        cure: "During a failover, none. If it stays so, compare ROLE of the node with SENTINEL MASTERS.",
    },
    Message {
        name: "primary unknown to sentinel",
        per: &["address"],
        meaning: "The sentinel does not watch a primary of this name.",
        cure: "Compare `--master` with SENTINEL MASTERS.",
    },
    Message {
        name: "rack down",
        per: &["rack", "shard"],
        meaning: "The copy of a shard in a rack is lost, for `reason`. The hint log keeps the keys that it misses.",
        cure: "Start the node, or repair the network. `/racks` at the admin listener shows the lag.",
    },
    Message {
        name: "rack stale",
        per: &["rack", "shard"],
        meaning: "A copy has missed more than the hint log knows, for `reason`. No read goes to it until its keys were compared one by one.",
        cure: "Raise `--hint-log-max` if racks are lost for longer.",
    },
    Message {
        name: "rack trusted",
        per: &["rack", "shard"],
        meaning: "A copy counts as current although its node has started anew, since no other rack can tell what it lost.",
        cure: "Look whether its keys are there. Have nodes keep their data on disk.",
    },
    Message {
        name: "rack up",
        per: &["rack", "shard"],
        meaning: "The copy of a shard in a rack has all writes. Reads may go to it, and consistency levels count it.",
        cure: "",
    },
    Message {
        name: "racks different",
        per: &["shard"],
        meaning: "A key had different values in racks that are up, in two looks. shardis copied the value of most racks to the others.",
        cure: "Let one proxy write at a time (docs/racks.md).",
    },
    Message {
        name: "reload refused",
        per: &["reason"],
        meaning: "A reload was asked for, and the configuration file has a fault, or a change that needs a restart. Nothing changed.",
        cure: "Correct the file and reload again, or restart shardis. `shardis check NEW --against=OLD` shows the changes first.",
    },
    Message {
        name: "reload skipped",
        per: &[],
        meaning: "A reload was asked for, and there is no file to read again, or nothing changes.",
        cure: "",
    },
    Message {
        name: "replicas available",
        per: &["shard"],
        meaning: "Replicas of the shard answer reads again.",
        cure: "",
    },
    Message {
        name: "replicas unavailable",
        per: &["shard"],
        meaning: "No replica of the shard may answer reads; `reason` says why (docs/replicas.md).",
        cure: "Start the replicas, or wait until they have caught up.",
    },
    Message {
        name: "request refused",
        per: &["command"],
        meaning: "A request has keys of several shards, and its command cannot be split.",
        cure: "Give these keys one hash tag, or set the option in `option` (docs/cross-shard.md).",
    },
    Message {
        name: "secret reload failed",
        per: &[],
        meaning: "After SIGHUP, a file with a password for nodes or sentinels, or with the token of the admin listener, \
                  could not be read. The old ones stay in use.",
        cure: "Correct the file that `error` names.",
    },
    Message {
        name: "secrets reloaded",
        per: &[],
        meaning: "New connections to nodes and sentinels, and requests to the admin listener, use the secrets that were \
                  read after SIGHUP.",
        cure: "",
    },
    Message {
        name: "seed rejected",
        per: &["address"],
        meaning: "The address in `--cluster` is no node of a Redis Cluster.",
        cure: "Name plain nodes with `--nodes`.",
    },
    Message {
        name: "sentinel rejected",
        per: &["address"],
        meaning: "The address in `--sentinel` is no sentinel.",
        cure: "Name sentinels, most often at port 26379; plain nodes with `--nodes`.",
    },
    Message {
        name: "service manager unreachable",
        per: &[],
        meaning: "The service manager that NOTIFY_SOCKET names takes no messages. shardis serves all the same, and says so once.",
        cure: "Check the socket that NOTIFY_SOCKET names.",
    },
    Message {
        name: "shard without keys",
        per: &["shard"],
        meaning: "The weight of the shard is so small that no key belongs to it.",
        cure: "Give it a larger weight, or take it away.",
    },
    Message {
        name: "signal ignored",
        per: &[],
        meaning: "SIGUSR1 came, which means nothing here.",
        cure: "SIGTERM drains and ends the process, SIGHUP reloads files, SIGUSR2 upgrades.",
    },
    Message {
        name: "slow start finished",
        per: &[],
        meaning: "All nodes have all of their keys again.",
        cure: "",
    },
    Message {
        name: "slow start running",
        per: &[],
        meaning: "Nodes in `returning` are back and get their keys step by step (`--slow-start-ms`).",
        cure: "",
    },
    Message {
        name: "statsd reached",
        per: &["target"],
        meaning: "Reports go to the statsd server.",
        cure: "",
    },
    Message {
        name: "statsd unreachable",
        per: &["target"],
        meaning: "A report could not be sent to the statsd server; `reason` says why. The next one is tried in any case.",
        cure: "Start the server, or correct `--statsd`.",
    },
    Message {
        name: "store failed",
        per: &["shard"],
        meaning: "A store in this process has ended.",
        cure: "Restart shardis, and report the error.",
    },
    Message {
        name: "subscriptions lost",
        per: &["shard"],
        meaning: "The connection with subscriptions is gone. Messages until they are restored are missed.",
        cure: "Look why the node or the connection failed (`reason`).",
    },
    Message {
        name: "subscriptions restored",
        per: &["shard"],
        meaning: "Messages of this number of topics arrive again.",
        cure: "",
    },
    Message {
        name: "topology changed",
        per: &[],
        meaning: "Cluster or sentinels have changed: slots, primaries, replicas.",
        cure: "",
    },
    Message {
        name: "topology discovered",
        per: &[],
        meaning: "The first topology is known, from the node or sentinel in `by`.",
        cure: "",
    },
    Message {
        name: "upgrade drain timed out",
        per: &[],
        meaning: "After `--upgrade-drain-timeout`, this number of clients had not left the old process. It drains as by SIGTERM.",
        cure: "If their subscriptions or transactions matter, raise `--upgrade-drain-timeout`, or set it to 0.",
    },
    Message {
        name: "upgrade failed",
        per: &[],
        meaning: "The new process is not ready, for `reason`. It was ended, and the old one serves as before.",
        cure: "Correct the configuration or the binary: the new process has written its own reason. Then try again.",
    },
    Message {
        name: "upgrade finished",
        per: &[],
        meaning: "The last client has left the old process, which ends. `moved` clients went on in the new one.",
        cure: "",
    },
    Message {
        name: "upgrade handed over",
        per: &[],
        meaning: "The new process accepts clients. The old one keeps its clients until they are idle, and then hands them over.",
        cure: "",
    },
    Message {
        name: "upgrade refused",
        per: &[],
        meaning: "No upgrade is possible, for `reason`. Nothing has changed.",
        cure: "Restart shardis instead, if `reason` does not pass (docs/upgrade.md).",
    },
    Message {
        name: "upgrade started",
        per: &[],
        meaning: "After SIGUSR2, a new process was started from `program`. This one serves until it is ready.",
        cure: "",
    },
    Message {
        name: "upgrade taken over",
        per: &[],
        meaning: "This process has taken the place of an older one, and accepts clients.",
        cure: "",
    },
    Message {
        name: "user reload failed",
        per: &[],
        meaning: "After SIGHUP, the users could not be read. The old ones stay in use.",
        cure: "Correct the file that `error` names.",
    },
    Message {
        name: "user save failed",
        per: &[],
        meaning: "ACL SAVE could not write the file of the users. The file is unchanged.",
        cure: "Look at the rights and the disk of its folder.",
    },
    Message { name: "users reloaded", per: &[], meaning: "The users were read again.", cure: "" },
    Message { name: "users saved", per: &[], meaning: "ACL SAVE wrote the users into their file.", cure: "" },
    Message {
        name: "wall clock set",
        per: &[],
        meaning: "The wall clock jumped by `step_ms`. Times of day follow, waits do not.",
        cure: "If it recurs, look at the time service of this machine.",
    },
    Message {
        name: "worker failed",
        per: &["worker"],
        meaning: "A worker has ended with an error. The process ends.",
        cure: "Restart shardis, and report the error.",
    },
    Message {
        name: "worker resumed",
        per: &["worker", "listener"],
        meaning: "The worker that stalled goes on, after this time.",
        cure: "",
    },
    Message {
        name: "worker stalled",
        per: &["worker", "listener"],
        meaning: "A turn of the worker takes very long. All of its clients wait.",
        cure: "Look for a machine without free processor time or memory; if there is none, report it.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_are_found() {
        assert!(MESSAGES.is_sorted_by(|row, next| row.name < next.name));
        assert_eq!(find("node down").per, ["shard", "node"]);
        assert_eq!(find("sky down"), &UNLISTED);
    }
}
