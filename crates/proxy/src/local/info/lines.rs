//! Fields of INFO with a variable number of lines.

use super::survey::{KeyCounts, Word};
use super::{Facts, push};
use crate::link::State;
use crate::tally::ReadRow;
use std::fmt::Write;

/// Reads of each policy.
pub(super) fn reads(facts: &Facts<'_>, text: &mut String) {
    for (policy, row) in facts.tally.reads() {
        let ReadRow { replica, primary, own_write, fallback } = row;
        push(
            text,
            format_args!(
                "reads_from_{policy}:replica={replica},primary={primary},own_write={own_write},fallback={fallback}"
            ),
        );
    }
}

pub(super) fn commands(facts: &Facts<'_>, text: &mut String) {
    for (name, row) in facts.tally.commands() {
        let per_call = if row.calls == 0 { 0.0 } else { row.usec() as f64 / row.calls as f64 };
        let (calls, usec, rejected, failed) = (row.calls, row.usec(), row.rejected, row.failed);
        push(
            text,
            format_args!(
                "cmdstat_{name}:calls={calls},usec={usec},usec_per_call={per_call:.2},\
                 rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
}

pub(super) fn errors(facts: &Facts<'_>, text: &mut String) {
    for (kind, count) in facts.tally.errors() {
        push(text, format_args!("errorstat_{}:count={count}", String::from_utf8_lossy(kind)));
    }
}

pub(super) fn latencies(facts: &Facts<'_>, text: &mut String) {
    for (command, percentiles) in &facts.survey.latencies {
        let shown: Vec<String> =
            percentiles.iter().map(|(name, value)| format!("{name}={value:.3}")).collect();
        push(text, format_args!("latency_percentiles_usec_{command}:{}", shown.join(",")));
    }
}

pub(super) fn keyspace(facts: &Facts<'_>, text: &mut String) {
    for (database, KeyCounts { keys, expires, avg_ttl }) in &facts.survey.keyspace {
        push(text, format_args!("db{database}:keys={keys},expires={expires},avg_ttl={avg_ttl}"));
    }
}

pub(super) fn discovery(facts: &Facts<'_>, text: &mut String) {
    // Writing to a `String` cannot fail.
    let _ = facts.cx.board.discovery.write(facts.cx.engine.now, text);
}

pub(super) fn nodes(facts: &Facts<'_>, text: &mut String) {
    let cx = facts.cx;
    for id in cx.engine.topology.all_shards() {
        let word = facts.survey.word(id);
        let (index, name) = (id.0, cx.engine.shard_name(id));
        let Some(link) = cx.profiles.primary(id).map(|ix| &cx.engine.links[ix]) else {
            push(text, format_args!("node{index}:name={name},address=none,state=down,in_flight=0{word}"));
            continue;
        };
        let state = match (&link.state, word) {
            (State::Ready { .. }, Word::Down(_)) | (State::Waiting { .. }, _) => "down",
            (State::Ready { .. }, _) => "up",
            (State::Connecting { .. } | State::Probing { .. }, _) => "connecting",
        };
        let in_flight = link.in_flight();
        let address = &cx.engine.topology.node(link.node).address;
        let percent = cx.node_health.ejection.as_ref().map(|ejection| ejection.keys_percent(id));
        let keys = percent.map_or(String::new(), |percent| format!(",slow_start={percent}%"));
        // Writing to a `String` cannot fail.
        let _ = write!(
            text,
            "node{index}:name={name},address={address},state={state},in_flight={in_flight}{keys}{word}\r\n"
        );
        let _ = facts.readers.write_replicas(cx, id, text);
    }
}
