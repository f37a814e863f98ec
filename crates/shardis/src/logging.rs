//! The log: notices of the core as lines. The control thread formats them, and a thread of its own writes them to stderr
//! (`log_sink.rs`).

use crate::args::{LogFormat, parse_level};
use crate::log_json::JsonFormat;
use crate::log_layer::{self, Log};
use crate::log_sink::{self, Line};
use proxy::{CloseReason, Notice};
use std::io::IsTerminal;
use std::path::Path;
use std::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing::{Level, debug, error, info, warn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Starts logging at `level` to `file`, or else to stderr.
pub(crate) fn start(level: Level, format: LogFormat, file: Option<&Path>) -> std::io::Result<()> {
    log_sink::start(file)?;
    let colours = file.is_none() && std::io::stderr().is_terminal();
    log_layer::set_level(LevelFilter::from_level(level));
    let lines = fmt::layer().with_writer(|| Line);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(colours).with_target(false).boxed(),
        LogFormat::Json => lines.event_format(JsonFormat).boxed(),
    };
    tracing_subscriber::registry().with(Log { lines }).init();
    Ok(())
}

/// The level of the lines that are written.
pub(crate) fn level() -> String {
    log_layer::level().to_string()
}

/// Changes it. False if there is no such level.
pub(crate) fn set_level(text: &str) -> bool {
    let Ok(level) = parse_level(text) else { return false };
    log_layer::set_level(LevelFilter::from_level(level));
    info!(to = %text, "log level changed");
    true
}

/// Logs how many lines were left out, if that is due at `now` or the log `ends`.
pub(crate) fn report_suppressed(now: Instant, ends: bool) {
    for suppressed in log_layer::poll_suppressed(now, ends) {
        info!(of = suppressed.name, count = suppressed.count, "lines suppressed");
    }
}

/// Advice to an operator about a node that is down for `reason`. `is_tls` says whether links to nodes use TLS.
fn hint(reason: &str, is_tls: bool) -> Option<&'static str> {
    let is = |beginning| reason.starts_with(beginning);
    match () {
        () if is("NOAUTH ") => Some("give its password with --node-auth-file"),
        () if is("WRONGPASS ") => Some("check user and password: --node-user, --node-auth-file"),
        () if is("no connection in time") && is_tls => {
            Some("check that the node speaks TLS at this port: --node-tls")
        }
        () => None,
    }
}

/// Logs what worker `worker` noticed: a stable name, then key=value.
pub(crate) fn log(worker: usize, notice: &Notice, is_tls: bool) {
    match notice {
        Notice::NodeUp { shard } => info!(worker, shard, "node up"),
        Notice::NodeDown { shard, reason } => {
            warn!(worker, shard, reason, hint = hint(reason, is_tls), "node down");
        }
        Notice::NodeRefused { shard, reason } => error!(worker, shard, reason, "node refused"),
        Notice::NodeIsReplica { shard, primary } => {
            warn!(shard, primary, hint = "name its primary instead", "node read-only");
        }
        Notice::NodeIsPrimary { shard } => info!(shard, "node writable"),
        Notice::ConnReplaced { shard } => warn!(worker, shard, reason = "no reply", "link replaced"),
        Notice::KindRefused { shard, database, protocol, reason } => {
            warn!(worker, shard, database, protocol, reason, "link refused");
        }
        Notice::NoReplicaFit { shard, reason } => warn!(worker, shard, reason, "replicas unavailable"),
        Notice::ReplicaFit { shard } => info!(worker, shard, "replicas available"),
        Notice::Remapped { out, returning } => {
            let (out, returning) = (out.join(","), returning.join(","));
            match (out.is_empty(), returning.is_empty()) {
                (false, _) => warn!(worker, out, returning, "keys remapped"),
                (true, false) => info!(worker, returning, "slow start running"),
                (true, true) => info!(worker, "slow start finished"),
            }
        }
        Notice::HandshakeFailed { peer, reason } => info!(worker, peer, reason, "client refused"),
        Notice::MessagesMissed { shard, topics, reason } => {
            warn!(worker, shard, topics, reason, "subscriptions lost");
        }
        Notice::SubscribedAgain { shard, topics } => info!(worker, shard, topics, "subscriptions restored"),
        Notice::ElementNotReturned { shard } => {
            let reason = "its client left, and the node did not take it back";
            warn!(worker, shard, reason, "popped element lost");
        }
        Notice::LibraryNotKept { library } => {
            let reason = "limit of stored libraries";
            warn!(worker, library, reason, hint = "load it again if a node loses it", "library not stored");
        }
        Notice::CrossSlot { client, peer, command, option } => {
            let option = option.unwrap_or("none");
            info!(
                worker,
                client,
                peer,
                command,
                option,
                reason = "keys of several shards",
                "request refused"
            );
        }
        Notice::ClientClosed { client, peer, reason } => log_closed(worker, *client, peer, *reason),
    }
}

/// One line for every reason, at its level.
fn log_closed(worker: usize, client: u64, peer: &str, reason: CloseReason) {
    let text = match reason {
        CloseReason::Idle => "idle timeout",
        CloseReason::Protocol => "protocol error, not RESP",
        CloseReason::CrossProtocol => "HTTP, possibly a cross-protocol attack",
        CloseReason::OutputLimit => "output limit, replies not read",
        CloseReason::SlowSubscriber => "output limit, messages not read",
        CloseReason::MemoryLimit => "memory limit, largest client",
        CloseReason::HalfReply => "node lost during a large reply",
        CloseReason::Denied => "permission for a subscribed channel lost",
        CloseReason::HalfRequest => "request never finished",
    };
    match reason {
        CloseReason::Idle => debug!(worker, client, peer, reason = text, "client closed"),
        CloseReason::Protocol | CloseReason::Denied | CloseReason::HalfRequest => {
            info!(worker, client, peer, reason = text, "client closed");
        }
        CloseReason::CrossProtocol
        | CloseReason::OutputLimit
        | CloseReason::SlowSubscriber
        | CloseReason::MemoryLimit
        | CloseReason::HalfReply => warn!(worker, client, peer, reason = text, "client closed"),
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
