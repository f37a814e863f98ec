//! The log: what the core notices, said by the control thread and written to stderr by a thread of its own (`log_sink.rs`).

use crate::log_sink::{self, Line};
use proxy::{CloseReason, Notice};
use std::io::IsTerminal;
use tracing::{Level, debug, info, warn};

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

/// Logs what worker `worker` noticed.
pub(crate) fn log(worker: usize, notice: &Notice) {
    match notice {
        Notice::NodeUp { shard } => info!(worker, shard, "node is back"),
        Notice::NodeDown { shard, reason } => warn!(worker, shard, reason, "node is down"),
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
