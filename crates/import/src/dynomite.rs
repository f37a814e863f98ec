//! `dynomite.yml` of dynomite 0.6. A file names its own Redis and the ports of other dynomites, but not their Redis nodes.

use crate::address::Listen;
use crate::draft::{Draft, Origin, Table};
use crate::fault::Word;
use crate::options::{Fate, Options, fate};
use crate::twemproxy::{NO_PASSWORD, NUMBER_MAX, ServerError, server, unix_listener};
use crate::units::number;
use crate::yaml::{Directive, Pool, pools};
use std::collections::HashSet;

const ONE_NODE: &str = "it decides between nodes, and the file names one";
const ONE_COPY: &str = "it concerns copies of the data, and the file names one";
const NO_PEERS: &str = "it concerns connections to other dynomites, of which shardis makes none";

pub(crate) const OPTIONS: Options = &[
    ("listen", Fate::As("host, port; unixsocket, unixsocketperm")),
    ("servers", Fate::As("nodes")),
    (
        "dyn_seeds",
        Fate::Refused(
            "other nodes have copies or parts of the data, and the file names their dynomites instead of their Redis nodes; name \
             those of each rack in rack, with their tokens, as in rack = ['dc1/a=10.0.0.1:6379@100'] (docs/racks.md)",
        ),
    ),
    (
        "dyn_seed_provider",
        Fate::Partly(
            "nothing: `simple_provider` without dyn_seeds means no other node",
            "other providers are refused: they learn of nodes with copies or parts of the data, which shardis does not ask",
        ),
    ),
    (
        "data_store",
        Fate::Partly(
            "nothing: 0 is what shardis speaks",
            "1 is refused: shardis does not speak memcache's protocol",
        ),
    ),
    (
        "timeout",
        Fate::Partly(
            "request-timeout-ms, connect-timeout-ms",
            "0 is not carried: shardis gives up a silent node after 5000 ms",
        ),
    ),
    ("requirepass", Fate::As("requirepass, node-auth")),
    ("hash", Fate::Not(ONE_NODE)),
    ("hash_tag", Fate::Not(ONE_NODE)),
    ("distribution", Fate::Not(ONE_NODE)),
    ("tokens", Fate::Not(ONE_NODE)),
    ("rack", Fate::Not(ONE_COPY)),
    ("datacenter", Fate::Not(ONE_COPY)),
    ("read_consistency", Fate::Not(ONE_COPY)),
    ("write_consistency", Fate::Not(ONE_COPY)),
    ("read_repairs_enabled", Fate::Not(ONE_COPY)),
    ("auto_eject_hosts", Fate::Not(ONE_NODE)),
    ("server_retry_timeout", Fate::Not(ONE_NODE)),
    ("server_failure_limit", Fate::Not(ONE_NODE)),
    ("backlog", Fate::Not("shardis sets it itself, to 4096")),
    ("client_connections", Fate::Not("dynomite ignores it too; maxclients limits clients here")),
    ("preconnect", Fate::Not("shardis decides itself when to connect")),
    ("server_connections", Fate::Not("each worker has one link to each node")),
    ("datastore_connections", Fate::Not("each worker has one link to each node")),
    ("dyn_listen", Fate::Not(NO_PEERS)),
    ("dyn_port", Fate::Not(NO_PEERS)),
    ("dyn_connections", Fate::Not(NO_PEERS)),
    ("local_peer_connections", Fate::Not(NO_PEERS)),
    ("remote_peer_connections", Fate::Not(NO_PEERS)),
    ("dyn_read_timeout", Fate::Not(NO_PEERS)),
    ("dyn_write_timeout", Fate::Not(NO_PEERS)),
    ("gos_interval", Fate::Not(NO_PEERS)),
    ("enable_gossip", Fate::Not(NO_PEERS)),
    ("secure_server_option", Fate::Not(NO_PEERS)),
    ("pem_key_file", Fate::Not(NO_PEERS)),
    ("recon_key_file", Fate::Not(NO_PEERS)),
    ("recon_iv_file", Fate::Not(NO_PEERS)),
    ("env", Fate::Not(NO_PEERS)),
    ("conn_msg_rate", Fate::Not("shardis limits memory instead (memory-max)")),
    ("mbuf_size", Fate::Not("shardis sizes its buffers itself")),
    ("max_msgs", Fate::Not("shardis limits memory instead (memory-max)")),
    ("stats_listen", Fate::Not("the admin listener of shardis has other paths; see admin")),
    ("stats_interval", Fate::Not("metrics of shardis are counted when they are asked for")),
];

pub(crate) fn read(name: &str, text: &str, draft: &mut Draft) {
    let pools = pools(name, text, draft);
    let Some((pool, others)) = pools.split_first() else { return draft.fault_of_all("the file has no pool") };
    if let Some(other) = others.first() {
        draft.fault(&other.name.place, "dynomite has one pool");
    }
    let mut table = Table::named(pool.name.clone());
    let mut seen: HashSet<&str> = HashSet::new();
    let mut listen = None;
    for option in &pool.options {
        let key = &option.key;
        match fate(OPTIONS, &key.text) {
            None => draft.fault(&key.place, format!("{}: the directive is unknown", key.text)),
            Some(_) if seen.contains(key.text.as_str()) => {
                draft.fault(&key.place, format!("{}: the directive is a duplicate", key.text));
            }
            Some(fate) => listen = read_option(option, fate, &mut table, draft).or(listen),
        }
        seen.insert(&key.text);
    }
    for needed in ["listen", "servers"] {
        if !pool.options.iter().any(|option| option.key.text == needed) {
            draft.fault(&pool.name.place, format!("the directive {needed} is missing"));
        }
    }
    finish(pool, listen, &mut table);
    draft.pool(table);
}

fn finish(pool: &Pool, listen: Option<Listen>, table: &mut Table) {
    if !table.has("request-timeout-ms") && !pool.options.iter().any(|option| option.key.text == "timeout") {
        table.set("request-timeout-ms", 5000, &Origin::implied("default of dynomite"));
    }
    if let Some(listen) = listen {
        listen.open(table, "dynomite");
    }
}

/// Reads one option. The result is the listener, if the option names it.
fn read_option(option: &Directive, fate: Fate, table: &mut Table, draft: &mut Draft) -> Option<Listen> {
    let key = &option.key;
    let Some(value) = option.values.first() else {
        draft.meet(key, "the list is empty");
        return None;
    };
    let origin = Origin::of(key, &value.text);
    let invalid = |draft: &mut Draft, why: &str| {
        draft.fault(&value.place, format!("{}: {:?} {why}", key.text, value.text));
    };
    match key.text.as_str() {
        "listen" => {
            let listen = match value.text.starts_with('/') {
                true => unix_listener(&value.text),
                false => Listen::tcp(&value.text),
            };
            match &listen {
                Some(listen) => listen.set(table, &origin),
                None => invalid(draft, "is no host:port"),
            }
            return listen;
        }
        "servers" => read_server(option, table, draft),
        "timeout" => match number(&value.text, NUMBER_MAX) {
            Some(0) => draft.lose(key, OPTIONS, "timeout"),
            Some(ms) => {
                table.set("request-timeout-ms", ms, &origin);
                table.set("connect-timeout-ms", ms, &origin);
            }
            None => invalid(draft, "is not a number"),
        },
        "data_store" => match value.text.as_str() {
            "0" | "redis" => draft.meet(key, "Redis's protocol is what shardis speaks"),
            "1" | "memcache" => draft.refuse(key, fate.reason()),
            _ => invalid(draft, "is not 0, for Redis, or 1, for memcache"),
        },
        "dyn_seed_provider" if value.text == "simple_provider" => {
            draft.meet(key, "the nodes are those of the file")
        }
        "dyn_seed_provider" => draft.refuse(key, fate.reason()),
        "requirepass" if !value.text.is_empty() => {
            let origin = Origin::secret(key);
            table.set("requirepass", value.text.as_str(), &origin);
            table.set("node-auth", value.text.as_str(), &origin);
        }
        "requirepass" => draft.meet(key, NO_PASSWORD),
        _ => {
            draft.settle(key, fate);
        }
    }
    None
}

/// The datastore, of which there is one.
fn read_server(option: &Directive, table: &mut Table, draft: &mut Draft) {
    if let Some(other) = option.values.get(1) {
        draft.fault(&other.place, "servers: dynomite has one server");
    }
    let nodes: Vec<Word> = option
        .values
        .iter()
        .take(1)
        .filter_map(|value| match server(&value.text) {
            Ok((node, _)) => Some(value.with(node)),
            Err(ServerError::Invalid(why)) => {
                draft.fault(&value.place, format!("servers: {:?} {why}", value.text));
                None
            }
            Err(ServerError::Unsupported(why)) => {
                draft.refuse(value, why);
                None
            }
        })
        .collect();
    if !nodes.is_empty() {
        table.set("nodes", nodes, &Origin::of(&option.key, ""));
    }
}
