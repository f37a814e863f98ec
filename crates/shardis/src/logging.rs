//! The log: what the core notices, said by the control thread and written to stderr by a thread of its own (`log_sink.rs`).

use crate::log_sink::{self, Line};
use proxy::{CloseReason, Notice};
use std::io::IsTerminal;
use tracing::{Level, debug, error, info, warn};

/// Starts logging at `level` to stderr.
pub(crate) fn start(level: Level) -> std::io::Result<()> {
    log_sink::start()?;
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| Line)
        .with_ansi(colours)
        .with_target(false)
        .init();
    Ok(())
}

/// What an operator can do about a node that is down for `reason`; nodes are spoken to in TLS if `is_tls`.
fn hint(reason: &str, is_tls: bool) -> Option<&'static str> {
    let is = |beginning| reason.starts_with(beginning);
    match () {
        () if is("NOAUTH ") => Some("the node wants a password: give it with --node-auth-file"),
        () if is("WRONGPASS ") => {
            Some("the node has another user or password: see --node-auth-file and --node-user")
        }
        () if is("no connection in time") && is_tls => {
            Some("the node may speak no TLS at this port: see --node-tls, and tls-port of the node")
        }
        () => None,
    }
}

/// Logs what worker `worker` noticed.
pub(crate) fn log(worker: usize, notice: &Notice, is_tls: bool) {
    match notice {
        Notice::NodeUp { shard } => info!(worker, shard, "node is back"),
        Notice::NodeDown { shard, reason } => {
            warn!(worker, shard, reason, hint = hint(reason, is_tls), "node is down");
        }
        Notice::NodeRefused { shard, reason } => error!(worker, shard, reason, "node is refused"),
        Notice::NodeIsReplica { shard, primary } => {
            warn!(shard, primary, "node is a replica and refuses writes; name its primary instead");
        }
        Notice::NodeIsPrimary { shard } => info!(shard, "node is a primary again"),
        Notice::ConnReplaced { shard } => warn!(worker, shard, "a connection was silent and is replaced"),
        Notice::KindRefused { shard, database, protocol, reason } => {
            warn!(worker, shard, database, protocol, reason, "node refuses connections");
        }
        Notice::NoReplicaFit { shard, reason } => warn!(worker, shard, reason, "no replica to read from"),
        Notice::ReplicaFit { shard } => info!(worker, shard, "a replica is read from again"),
        Notice::Remapped { out, returning } => {
            let (out, returning) = (out.join(","), returning.join(","));
            match (out.is_empty(), returning.is_empty()) {
                (false, _) => warn!(worker, out, returning, "keys go to other shards"),
                (true, false) => info!(worker, returning, "keys come home step by step"),
                (true, true) => info!(worker, "all keys are at home"),
            }
        }
        Notice::HandshakeFailed { peer, reason } => info!(worker, peer, reason, "client refused"),
        Notice::MessagesMissed { shard, topics, reason } => {
            warn!(worker, shard, topics, reason, "messages are missed until the node is back");
        }
        Notice::SubscribedAgain { shard, topics } => info!(worker, shard, topics, "messages come again"),
        Notice::ElementNotReturned { shard } => {
            warn!(worker, shard, "popped element lost: its client left and the node did not take it back");
        }
        Notice::LibraryNotKept { library } => {
            warn!(
                worker,
                library,
                "library not kept: a node that loses it does not get it again (limit of kept libraries)"
            );
        }
        Notice::CrossSlot { client, peer, command, option } => {
            let option = option.unwrap_or("none");
            info!(worker, client, peer, command, option, "request refused: keys of several shards");
        }
        Notice::ClientClosed { client, peer, reason } => match reason {
            CloseReason::Idle => debug!(worker, client, peer, "idle client closed"),
            CloseReason::Protocol => info!(worker, client, peer, "client closed: it sent what is not RESP"),
            CloseReason::CrossProtocol => {
                warn!(worker, client, peer, "client closed: it spoke HTTP, possibly a cross-protocol attack");
            }
            CloseReason::OutputLimit => {
                warn!(worker, client, peer, "client closed: it does not read its replies")
            }
            CloseReason::SlowSubscriber => {
                warn!(
                    worker,
                    client, peer, "client closed: it does not read the messages it is subscribed to"
                )
            }
            CloseReason::MemoryLimit => {
                warn!(
                    worker,
                    client, peer, "client closed: memory is full, and the most of it was held for this one"
                );
            }
            CloseReason::HalfReply => {
                warn!(
                    worker,
                    client, peer, "client closed: a node was lost in the middle of a large reply to it"
                );
            }
            CloseReason::Denied => {
                info!(worker, client, peer, "client closed: its user may not have what it is subscribed to");
            }
            CloseReason::HalfRequest => {
                info!(worker, client, peer, "client closed: it never finished its request")
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_down_for_a_known_reason_gets_a_hint() {
        let hint = |reason, is_tls| hint(reason, is_tls).unwrap_or_default();
        assert!(hint("NOAUTH Authentication required.", false).contains("--node-auth-file"));
        assert!(hint("WRONGPASS invalid username-password pair", false).contains("--node-user"));
        assert!(hint("no connection in time", true).contains("--node-tls"));
        assert_eq!(hint("no connection in time", false), "");
        assert_eq!(hint("connection refused", true), "");
    }
}
