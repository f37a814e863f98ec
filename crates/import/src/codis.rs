//! `proxy.toml` of codis 3.2. Nodes are no part of it: codis keeps its table of slots and groups in a coordinator.

use crate::address::Listen;
use crate::draft::{Draft, Origin, Table};
use crate::fault::{Place, Word};
use crate::options::{Fate, Options, fate};
use crate::twemproxy::NO_PASSWORD;
use crate::units::{duration_ms, number, seconds};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const NO_REPORTS: &str = "shardis reports to no server; see admin for its metrics";
const NO_JODIS: &str = "shardis registers itself nowhere";
const BUFFERS: &str = "shardis sizes its buffers itself";
const KEEPALIVE: &str = "shardis always probes idle connections";

pub(crate) const OPTIONS: Options = &[
    ("proxy_addr", Fate::As("host, port; unixsocket")),
    ("proto_type", Fate::Partly("host, port; unixsocket", "`unixpacket` is refused")),
    ("session_auth", Fate::As("requirepass")),
    ("product_auth", Fate::As("node-auth")),
    ("proxy_max_clients", Fate::As("maxclients")),
    (
        "backend_recv_timeout",
        Fate::Partly(
            "request-timeout-ms",
            "0, for ever, is not carried: shardis gives up a silent node after 30000 ms",
        ),
    ),
    ("backend_number_databases", Fate::As("databases")),
    (
        "backend_primary_only",
        Fate::Partly(
            "read-from = \"primary\"",
            "`false` is not carried: the file does not name replicas; see read-from",
        ),
    ),
    ("session_recv_timeout", Fate::As("timeout")),
    ("product_name", Fate::Not("it is a name in codis's coordinator")),
    ("admin_addr", Fate::Not("the admin listener of shardis has other paths; see admin")),
    ("proxy_datacenter", Fate::Not("the file does not say where nodes are; see zone")),
    ("proxy_max_offheap_size", Fate::Not("shardis limits all memory instead (memory-max)")),
    ("proxy_heap_placeholder", Fate::Not("shardis has no garbage collector")),
    ("proxy_refresh_state_period", Fate::Not("shardis has no such state")),
    ("backend_ping_period", Fate::Not("shardis probes silent links by itself")),
    ("backend_recv_bufsize", Fate::Not(BUFFERS)),
    ("backend_send_bufsize", Fate::Not(BUFFERS)),
    ("backend_send_timeout", Fate::Not("request-timeout-ms covers it")),
    ("backend_max_pipeline", Fate::Not("shardis limits memory instead (memory-max)")),
    ("backend_primary_parallel", Fate::Not("each worker has one link to each node")),
    ("backend_replica_parallel", Fate::Not("each worker has one link to each node")),
    ("backend_primary_quick", Fate::Not("each worker has one link to each node")),
    ("backend_replica_quick", Fate::Not("each worker has one link to each node")),
    ("backend_keepalive_period", Fate::Not(KEEPALIVE)),
    ("session_recv_bufsize", Fate::Not(BUFFERS)),
    ("session_send_bufsize", Fate::Not(BUFFERS)),
    (
        "session_send_timeout",
        Fate::Not("shardis closes clients that do not read when memory is short (memory-max)"),
    ),
    ("session_max_pipeline", Fate::Not("shardis limits memory instead (memory-max)")),
    ("session_keepalive_period", Fate::Not(KEEPALIVE)),
    ("session_break_on_failure", Fate::Not("clients of shardis get an error, and their connection stays")),
    ("slowlog_log_slower_than", Fate::As("slowlog-log-slower-than, for PROXY SLOWLOG")),
    ("jodis_name", Fate::Not(NO_JODIS)),
    ("jodis_addr", Fate::Not(NO_JODIS)),
    ("jodis_auth", Fate::Not(NO_JODIS)),
    ("jodis_timeout", Fate::Not(NO_JODIS)),
    ("jodis_compatible", Fate::Not(NO_JODIS)),
    ("metrics_report_server", Fate::Not(NO_REPORTS)),
    ("metrics_report_period", Fate::Not(NO_REPORTS)),
    ("metrics_report_influxdb_server", Fate::Not(NO_REPORTS)),
    ("metrics_report_influxdb_period", Fate::Not(NO_REPORTS)),
    ("metrics_report_influxdb_username", Fate::Not(NO_REPORTS)),
    ("metrics_report_influxdb_password", Fate::Not(NO_REPORTS)),
    ("metrics_report_influxdb_database", Fate::Not(NO_REPORTS)),
    ("metrics_report_statsd_server", Fate::Not(NO_REPORTS)),
    ("metrics_report_statsd_period", Fate::Not(NO_REPORTS)),
    ("metrics_report_statsd_prefix", Fate::Not(NO_REPORTS)),
];

const UNKNOWN: &str = "codis does not know it, and ignores it too";
const LACKS_NODES: &str = "codis keeps its nodes in a coordinator and not in this file; name the primaries of the groups, as in \
     --nodes=10.0.0.1:6379,10.0.0.2:6379, in the order of the groups (docs/migration.md says which tables of slots fit)";

pub(crate) fn read(name: &str, text: &str, draft: &mut Draft) {
    let file: std::sync::Arc<str> = name.into();
    let newlines = text.match_indices('\n').map(|(at, _)| at + 1);
    let starts: Vec<usize> = std::iter::once(0).chain(newlines).collect();
    let place = |at: usize| {
        let line = starts.partition_point(|start| *start <= at);
        let start = starts.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let before = text.get(start..at).unwrap_or_default();
        Place { file: file.clone(), line, column: before.chars().count() + 1 }
    };
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        draft.fault(&place(at), format!("this is not TOML: {}", error.message()));
    }
    let pairs = root.into_inner().into_iter();
    let mut pairs: Vec<(Word, DeValue<'_>)> = pairs
        .map(|(key, value): (Spanned<_>, Spanned<_>)| {
            let at = key.span().start;
            let key: std::borrow::Cow<'_, str> = key.into_inner();
            (Word::new(key, place(at)), value.into_inner())
        })
        .collect();
    pairs.sort_by(|(a, _), (b, _)| a.place.cmp(&b.place));
    let mut pool = Table::default();
    pool.set("like", "codis", &Origin::implied("distribution, hash, tag rule and defaults of codis"));
    let network = read_address(&pairs, &mut pool, draft);
    for (key, value) in &pairs {
        match scalar(value) {
            Some(value) => read_option(key, &value, &mut pool, draft),
            None => draft.fault(&key.place, format!("{}: write one value", key.text)),
        }
    }
    network.open(&mut pool, "codis");
    draft.lacks_nodes(LACKS_NODES);
    draft.pool(pool);
}

/// A value as text.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(is_on) => Some(is_on.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// The listener, which two options name together.
fn read_address(pairs: &[(Word, DeValue<'_>)], pool: &mut Table, draft: &mut Draft) -> Listen {
    let find = |name: &str| {
        let (key, value) = pairs.iter().find(|(key, _)| key.text == name)?;
        Some((key, scalar(value)?))
    };
    let default = Listen::Tcp("0.0.0.0".to_owned(), 19000);
    let kind = find("proto_type");
    let Some((key, address)) = find("proxy_addr") else { return default };
    let listen = match kind.as_ref().map_or("tcp", |(_, kind)| kind.as_str()) {
        "tcp" | "tcp4" | "tcp6" => Listen::tcp(&address),
        "unix" => Some(Listen::Unix(address.clone(), None)),
        _ => {
            draft.refuse(kind.map_or(key, |(key, _)| key), "shardis has tcp, tcp4, tcp6 and unix");
            return default;
        }
    };
    let Some(listen) = listen else {
        draft.fault(&key.place, format!("proxy_addr: {address:?}: write host:port, as in 0.0.0.0:19000"));
        return default;
    };
    listen.set(pool, &Origin::of(key, &address));
    listen
}

fn read_option(key: &Word, value: &str, pool: &mut Table, draft: &mut Draft) {
    let Some(fate) = fate(OPTIONS, &key.text) else { return draft.leave_out(key, UNKNOWN) };
    let origin = Origin::of(key, value);
    let invalid = |draft: &mut Draft, form: &str| {
        draft.fault(&key.place, format!("{}: {value:?}: write {form}", key.text));
    };
    match key.text.as_str() {
        "proxy_addr" => {}
        "proto_type" => draft.meet(key, "the address says so"),
        "session_auth" if !value.is_empty() => pool.set("requirepass", value, &Origin::secret(key)),
        "product_auth" if !value.is_empty() => pool.set("node-auth", value, &Origin::secret(key)),
        "session_auth" | "product_auth" => draft.meet(key, NO_PASSWORD),
        "proxy_max_clients" => match number(value, i32::MAX as u64) {
            Some(0) => draft.leave_out(key, "shardis needs a limit; it has 10000"),
            Some(clients) => pool.set("maxclients", clients, &origin),
            None => invalid(draft, "a number"),
        },
        "backend_number_databases" => match number(value, 1 << 14) {
            Some(0) | None => invalid(draft, "a number from 1 to 16384"),
            Some(databases) => pool.set("databases", databases, &origin),
        },
        "backend_recv_timeout" => match duration_ms(value, 1000) {
            Some(0) => draft.lose(key, OPTIONS, "backend_recv_timeout"),
            Some(ms) => pool.set("request-timeout-ms", ms, &origin),
            None => invalid(draft, "a time, as in 30s"),
        },
        "session_recv_timeout" => match duration_ms(value, 1000) {
            Some(ms) => pool.set("timeout", seconds(ms), &origin),
            None => invalid(draft, "a time, as in 30m"),
        },
        "backend_primary_only" => match value {
            "true" => pool.set("read-from", "primary", &origin),
            "false" => draft.lose(key, OPTIONS, "backend_primary_only"),
            _ => invalid(draft, "true or false"),
        },
        "slowlog_log_slower_than" => match number(value, 600_000_000) {
            Some(us) => pool.set("slowlog-log-slower-than", us, &origin),
            None => invalid(draft, "microseconds up to 600000000"),
        },
        _ if value.is_empty() => draft.meet(key, "it is switched off"),
        _ => {
            draft.settle(key, fate);
        }
    }
}
