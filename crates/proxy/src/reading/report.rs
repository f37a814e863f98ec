//! A node's report of its replication: the reply to `INFO replication`.

/// The name of the history that offsets belong to: 40 hexadecimal digits.
pub(crate) type ReplicationId = [u8; 40];

/// A node's report about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Whether the node has no primary of its own.
    pub is_primary: bool,
    /// Whether a replica is linked to its primary and its first synchronisation is complete.
    pub link_is_up: bool,
    /// The node's offset in the replication stream, if it reports one.
    pub offset: Option<u64>,
    /// The history of the stream.
    pub history: Option<ReplicationId>,
}

impl Report {
    /// Reads the reply of a node. A node that may not report (because of an ACL) counts as a replica that is linked,
    /// without further knowledge.
    pub(crate) fn parse(reply: &[u8]) -> Report {
        let unknown = Report { link_is_up: true, ..Report::default() };
        let text = String::from_utf8_lossy(reply);
        let field = |name: &str| field(&text, name);
        let Some(role) = field("role") else { return unknown };
        let is_primary = role == "master";
        let offset = field(if is_primary { "master_repl_offset" } else { "slave_repl_offset" });
        Report {
            is_primary,
            link_is_up: is_primary || field("master_link_status") == Some("up"),
            offset: offset.and_then(|offset| offset.parse().ok()),
            history: field("master_replid").and_then(|id| id.as_bytes().try_into().ok()),
        }
    }
}

/// The zone in `reply` to an INFO of all default sections. Valkey reports the zone since 8.0 in the section of the
/// server. Empty if the node does not report it, or may not. `None` if `reply` is about something else.
pub(crate) fn zone_in(reply: &[u8]) -> Option<String> {
    if resp::reply::is_error(reply) {
        return Some(String::new());
    }
    let text = String::from_utf8_lossy(reply);
    field(&text, "redis_version")?;
    Some(field(&text, "availability_zone").unwrap_or_default().to_owned())
}

/// The value of `name` in the text of an INFO.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reply of redis-server 7.0.15. Some fields that shardis does not read are left out.
    const PRIMARY: &[u8] = b"$300\r\n# Replication\r\nrole:master\r\nconnected_slaves:1\r\n\
        slave0:ip=127.0.0.1,port=7001,state=online,offset=14,lag=1\r\nmaster_failover_state:no-failover\r\n\
        master_replid:8e1c5d5a0b9dd05a0e8a1c3b7d1b0c9c4f7be0aa\r\n\
        master_replid2:0000000000000000000000000000000000000000\r\nmaster_repl_offset:14\r\n\
        second_repl_offset:-1\r\nrepl_backlog_active:1\r\n\r\n";
    const REPLICA: &[u8] =
        b"$300\r\n# Replication\r\nrole:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:7000\r\n\
        master_link_status:up\r\nmaster_last_io_seconds_ago:1\r\nmaster_sync_in_progress:0\r\n\
        slave_read_repl_offset:15\r\nslave_repl_offset:14\r\nslave_priority:100\r\n\
        master_replid:8e1c5d5a0b9dd05a0e8a1c3b7d1b0c9c4f7be0aa\r\nmaster_repl_offset:14\r\n\r\n";
    const UNLINKED: &[u8] =
        b"$300\r\n# Replication\r\nrole:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:7000\r\n\
        master_link_status:down\r\nmaster_sync_in_progress:1\r\nslave_repl_offset:0\r\n\
        master_replid:8e1c5d5a0b9dd05a0e8a1c3b7d1b0c9c4f7be0aa\r\n\r\n";

    #[test]
    fn replication_reports_of_nodes_are_understood() {
        let history = Some(*b"8e1c5d5a0b9dd05a0e8a1c3b7d1b0c9c4f7be0aa");
        let primary = Report { is_primary: true, link_is_up: true, offset: Some(14), history };
        assert_eq!(Report::parse(PRIMARY), primary);
        assert_eq!(Report::parse(REPLICA), Report { is_primary: false, ..primary });
        let unlinked = Report { is_primary: false, link_is_up: false, offset: Some(0), history };
        assert_eq!(Report::parse(UNLINKED), unlinked);
    }

    #[test]
    fn a_zone_comes_with_all_sections_or_not_at_all() {
        let valkey =
            b"$90\r\n# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n\
            availability_zone:zone-b\r\n\r\n";
        assert_eq!(zone_in(valkey).as_deref(), Some("zone-b"));
        for unset in [
            "$9\r\nredis_version:8.0.1\r\navailability_zone:\r\n",
            "$9\r\nredis_version:7.0.15\r\n",
            "-NOPERM no\r\n",
        ] {
            assert_eq!(zone_in(unset.as_bytes()).as_deref(), Some(""), "{unset}");
        }
        assert_eq!(zone_in(REPLICA), None, "it was not asked");
    }

    #[test]
    fn a_node_without_a_report_counts_as_a_linked_replica() {
        for reply in ["-NOPERM this user has no permissions\r\n", "$0\r\n\r\n", "$4\r\nrole\r\n", "*0\r\n"] {
            let known = Report { link_is_up: true, ..Report::default() };
            assert_eq!(Report::parse(reply.as_bytes()), known, "{reply}");
        }
    }
}
