//! `nutcracker.yml` of twemproxy 0.5.0, and `reuseport`, which came after it. Its words are those of `nc_conf.c`.

use crate::address::{Listen, bare, is_plain, node, parse_port};
use crate::draft::{Draft, Origin, Table};
use crate::fault::Word;
use crate::options::{Fate, Options, fate};
use crate::units::number;
use crate::yaml::{Directive, Pool, pools};
use std::collections::HashSet;

pub(crate) const OPTIONS: Options = &[
    ("listen", Fate::As("host, port; unixsocket, unixsocketperm")),
    ("hash", Fate::As("hash")),
    ("hash_tag", Fate::As("tag-rule")),
    ("distribution", Fate::Partly("distribution", "`random` is refused: a key would live anywhere")),
    (
        "timeout",
        Fate::Partly(
            "request-timeout-ms, connect-timeout-ms",
            "0, for ever, is not carried: shardis gives up a silent node after 1000 ms",
        ),
    ),
    ("backlog", Fate::Not("shardis sets it itself, to 4096")),
    ("client_connections", Fate::Not("twemproxy ignores it too; maxclients limits clients here")),
    (
        "redis",
        Fate::Partly(
            "nothing: it is what shardis speaks",
            "`false`, the default there, is refused: shardis does not speak memcache's protocol",
        ),
    ),
    ("redis_auth", Fate::As("requirepass, node-auth")),
    (
        "redis_db",
        Fate::Refused("clients of shardis begin in database 0, so keys would be looked for in another one"),
    ),
    ("preconnect", Fate::Not("shardis decides itself when to connect")),
    (
        "auto_eject_hosts",
        Fate::As("on-node-down = \"remap\", node-failure-limit, node-retry-timeout-ms, slow-start-ms = 0"),
    ),
    ("server_connections", Fate::Not("each worker has one link to each node")),
    (
        "server_retry_timeout",
        Fate::Partly("node-retry-timeout-ms", "without auto_eject_hosts it has no effect, there as here"),
    ),
    (
        "server_failure_limit",
        Fate::Partly("node-failure-limit", "without auto_eject_hosts it has no effect, there as here"),
    ),
    ("tcpkeepalive", Fate::Not("shardis always probes idle connections")),
    ("reuseport", Fate::Partly("reuse-port", "with several pools it holds for all of them")),
    ("servers", Fate::As("nodes")),
];

/// The hash functions, which have the same names here.
pub(crate) const HASHES: [&str; 12] = [
    "one_at_a_time",
    "md5",
    "crc16",
    "crc32",
    "crc32a",
    "fnv1_64",
    "fnv1a_64",
    "fnv1_32",
    "fnv1a_32",
    "hsieh",
    "murmur",
    "jenkins",
];

/// The highest number that twemproxy reads.
pub(crate) const NUMBER_MAX: u64 = i32::MAX as u64;
/// The highest weight of a node.
const WEIGHT_MAX: u64 = 1_000_000;
const TWEMPROXY: &str = "twemproxy";

pub(crate) fn read(name: &str, text: &str, draft: &mut Draft) {
    let pools = pools(name, text, draft);
    if pools.is_empty() {
        draft.fault_of_all("the file has no pools");
    }
    let (mut names, mut listeners) = (HashSet::new(), HashSet::new());
    for pool in &pools {
        if !names.insert(&pool.name.text) {
            draft.fault(&pool.name.place, format!("{}: two pools have this name", pool.name.text));
        }
        let listen =
            pool.options.iter().find(|option| option.key.text == "listen").and_then(Directive::value);
        if let Some(listen) = listen.filter(|listen| !listeners.insert(&listen.text)) {
            draft.fault(&listen.place, format!("listen: two pools have the address {}", listen.text));
        }
        let table = read_pool(pool, draft);
        draft.pool(table);
    }
}

/// A pool, its table, and the options that were there.
struct Reader<'a> {
    draft: &'a mut Draft,
    table: Table,
    listen: Option<Listen>,
    /// Names of the servers so far.
    names: HashSet<String>,
}

fn read_pool(pool: &Pool, draft: &mut Draft) -> Table {
    let table = Table::named(pool.name.clone());
    let mut reader = Reader { draft, table, listen: None, names: HashSet::new() };
    let mut seen: HashSet<&str> = HashSet::new();
    for option in &pool.options {
        let key = &option.key;
        match fate(OPTIONS, &key.text) {
            None => reader.draft.fault(&key.place, format!("{}: the directive is unknown", key.text)),
            Some(_) if seen.contains(key.text.as_str()) && key.text != "servers" => {
                reader.draft.fault(&key.place, format!("{}: the directive is a duplicate", key.text));
            }
            Some(fate) => reader.option(option, fate),
        }
        seen.insert(&key.text);
    }
    reader.finish(pool)
}

impl Reader<'_> {
    fn option(&mut self, option: &Directive, fate: Fate) {
        let key = &option.key;
        if key.text == "servers" {
            return self.servers(option);
        }
        let Some(value) = option.value() else {
            return self.draft.fault(&key.place, format!("{}: the directive takes one value", key.text));
        };
        let origin = Origin::of(key, &value.text);
        match key.text.as_str() {
            "listen" => self.listen(value, &origin),
            "hash" if HASHES.contains(&value.text.as_str()) => {
                self.table.set("hash", value.text.as_str(), &origin)
            }
            "hash" => self.invalid(key, value, "is not a valid hash"),
            "hash_tag" => self.hash_tag(key, value, &origin),
            "distribution" => self.distribution(key, value, &origin),
            "timeout" => self.timeout(key, value, &origin),
            "redis" => self.redis(key, value),
            "redis_auth" => self.password(key, value),
            "redis_db" => match number(&value.text, NUMBER_MAX) {
                Some(0) => self.draft.meet(key, "clients begin in database 0"),
                Some(_) => self.draft.refuse(key, fate.reason()),
                None => self.invalid(key, value, "is not a number"),
            },
            "auto_eject_hosts" if self.is_on(key, value) => {
                self.table.set("on-node-down", "remap", &origin);
            }
            "server_failure_limit" => self.number("node-failure-limit", key, value, 1),
            "server_retry_timeout" => self.number("node-retry-timeout-ms", key, value, 0),
            "reuseport" if self.is_on(key, value) => self.draft.process().set("reuse-port", true, &origin),
            "auto_eject_hosts" => self.draft.meet(key, "no node loses its keys"),
            "reuseport" => self.draft.meet(key, "no port is shared"),
            _ => self.left_out(key, value, fate),
        }
    }

    /// An option without a counterpart, whose value must be valid all the same.
    fn left_out(&mut self, key: &Word, value: &Word, fate: Fate) {
        match key.text.as_str() {
            "preconnect" | "tcpkeepalive" => {
                self.is_on(key, value);
            }
            _ if number(&value.text, NUMBER_MAX).is_none() => self.invalid(key, value, "is not a number"),
            "server_connections" if value.text == "0" => self.invalid(key, value, "cannot be 0"),
            _ => {}
        }
        self.draft.settle(key, fate);
    }

    fn invalid(&mut self, key: &Word, value: &Word, why: &str) {
        self.draft.fault(&value.place, format!("{}: {:?} {why}", key.text, value.text));
    }

    fn is_on(&mut self, key: &Word, value: &Word) -> bool {
        if !["true", "false"].contains(&value.text.as_str()) {
            self.invalid(key, value, "is not \"true\" or \"false\"");
        }
        value.text == "true"
    }

    fn number(&mut self, name: &'static str, key: &Word, value: &Word, min: u64) {
        match number(&value.text, NUMBER_MAX) {
            Some(found) => self.table.set(name, found.max(min), &Origin::of(key, &value.text)),
            None => self.invalid(key, value, "is not a number"),
        }
    }

    fn listen(&mut self, value: &Word, origin: &Origin) {
        let listen = match value.text.starts_with('/') {
            true => unix_listener(&value.text),
            false => Listen::tcp(&value.text),
        };
        match listen {
            Some(listen) => {
                listen.set(&mut self.table, origin);
                self.listen = Some(listen);
            }
            None => {
                let text = format!(
                    "listen: {:?}: write host:port, or /path and permissions such as 0770",
                    value.text
                );
                self.draft.fault(&value.place, text);
            }
        }
    }

    fn hash_tag(&mut self, key: &Word, value: &Word, origin: &Origin) {
        match value.text.len() {
            2 if value.text.is_ascii() => self.table.set("tag-rule", value.text.as_str(), origin),
            2 => self.draft.refuse(key, "shardis takes two ASCII characters"),
            _ => self.invalid(key, value, "is not a valid hash tag string with two characters"),
        }
    }

    fn distribution(&mut self, key: &Word, value: &Word, origin: &Origin) {
        match value.text.as_str() {
            "ketama" | "modula" => self.table.set("distribution", value.text.as_str(), origin),
            "random" => self.draft.refuse(key, "random: a key would live anywhere; write ketama or modula"),
            _ => self.invalid(key, value, "is not a valid distribution"),
        }
    }

    fn timeout(&mut self, key: &Word, value: &Word, origin: &Origin) {
        match number(&value.text, NUMBER_MAX) {
            Some(0) => self.draft.lose(key, OPTIONS, "timeout"),
            Some(ms) => {
                self.table.set("request-timeout-ms", ms, origin);
                self.table.set("connect-timeout-ms", ms, origin);
            }
            None => self.invalid(key, value, "is not a number"),
        }
    }

    fn redis(&mut self, key: &Word, value: &Word) {
        match self.is_on(key, value) {
            true => self.draft.meet(key, "Redis's protocol is what shardis speaks"),
            false => self.draft.refuse(key, NO_MEMCACHE),
        }
    }

    fn password(&mut self, key: &Word, value: &Word) {
        if value.text.is_empty() {
            return self.draft.meet(key, NO_PASSWORD);
        }
        let origin = Origin::secret(key);
        self.table.set("requirepass", value.text.as_str(), &origin);
        self.table.set("node-auth", value.text.as_str(), &origin);
    }

    fn servers(&mut self, option: &Directive) {
        let mut nodes = Vec::new();
        for value in &option.values {
            match server(&value.text) {
                Ok((node, name)) => {
                    if let Some(name) = self.names.replace(name) {
                        let text = format!("servers: two servers have the name {name:?}");
                        self.draft.fault(&value.place, text);
                    }
                    nodes.push(value.with(node));
                }
                Err(ServerError::Invalid(why)) => {
                    self.draft.fault(&value.place, format!("servers: {:?} {why}", value.text));
                }
                Err(ServerError::Unsupported(why)) => self.draft.refuse(value, why),
            }
        }
        if let Some(crate::draft::Value::List(earlier)) = self.table.get("nodes").cloned() {
            let earlier = earlier.into_iter().filter_map(|(text, place)| Some(Word::new(text, place?)));
            nodes = earlier.chain(nodes).collect();
        }
        if !nodes.is_empty() {
            self.table.set("nodes", nodes, &Origin::of(&option.key, ""));
        }
    }

    /// The table, with the options that hold if nothing is written.
    fn finish(mut self, pool: &Pool) -> Table {
        let Word { text: name, place } = &pool.name;
        let has = |key: &str| pool.options.iter().any(|option| option.key.text == key);
        if !has("listen") {
            self.draft.fault(place, format!("pool {name}: the directive listen is missing"));
        }
        if !pool.options.iter().any(|option| option.key.text == "servers" && !option.values.is_empty()) {
            self.draft.fault(place, format!("pool {name} has no servers"));
        }
        if !has("redis") {
            self.draft.refuse(&pool.name, format!("redis is not true: {NO_MEMCACHE}"));
        }
        for (key, value) in [("distribution", "ketama"), ("hash", "fnv1a_64"), ("tag-rule", "none")] {
            if !self.table.has(key) {
                self.table.set(key, value, &Origin::implied("default of twemproxy"));
            }
        }
        self.finish_ejection(pool);
        if let Some(listen) = self.listen.take() {
            listen.open(&mut self.table, TWEMPROXY);
        }
        self.table
    }

    fn finish_ejection(&mut self, pool: &Pool) {
        if self.table.has("on-node-down") {
            let origin = Origin::implied("with auto_eject_hosts, as in twemproxy");
            for (key, value) in
                [("node-failure-limit", 2), ("node-retry-timeout-ms", 30_000), ("slow-start-ms", 0)]
            {
                if !self.table.has(key) {
                    self.table.set(key, value, &origin);
                }
            }
            return;
        }
        self.table
            .entries
            .retain(|entry| !["node-failure-limit", "node-retry-timeout-ms"].contains(&entry.key));
        for Directive { key, .. } in &pool.options {
            if ["server_failure_limit", "server_retry_timeout"].contains(&key.text.as_str()) {
                self.draft.lose(key, OPTIONS, &key.text);
            }
        }
    }
}

pub(crate) const NO_PASSWORD: &str = "there is no password";
const NO_MEMCACHE: &str = "shardis does not speak memcache's protocol";

/// `/path`, or `/path 0770`.
pub(crate) fn unix_listener(text: &str) -> Option<Listen> {
    let Some((path, permissions)) = text.rsplit_once(' ') else {
        return Some(Listen::Unix(text.to_owned(), None));
    };
    let permissions = u32::from_str_radix(permissions, 8).ok().filter(|permissions| *permissions <= 0o777)?;
    Some(Listen::Unix(path.to_owned(), Some(permissions)))
}

/// Why a server is none.
pub(crate) enum ServerError {
    /// For twemproxy.
    Invalid(&'static str),
    /// Only for shardis.
    Unsupported(&'static str),
}

/// A server as a node of shardis, and the name by which twemproxy sorts and hashes it.
pub(crate) fn server(text: &str) -> Result<(String, String), ServerError> {
    let form = || {
        ServerError::Invalid(
            "has no form of \"hostname:port:weight [name]\" or \"/path/unix_socket:weight [name]\"",
        )
    };
    let (address, given) = match text.rsplit_once(' ') {
        Some((address, name)) => (address, Some(name)),
        None => (text, None),
    };
    let (place, weight) = address.rsplit_once(':').ok_or_else(form)?;
    let weight = match number(weight, NUMBER_MAX) {
        None => return Err(ServerError::Invalid("has an invalid weight")),
        Some(0) => return Err(ServerError::Invalid("has a zero weight")),
        Some(weight) if weight > WEIGHT_MAX => {
            return Err(ServerError::Unsupported("shardis takes weights up to 1000000"));
        }
        Some(weight) => weight,
    };
    let (written, ring_name) = if place.starts_with('/') {
        (format!("unix:{place}"), format!("{place}:"))
    } else {
        let (host, port) = place.rsplit_once(':').ok_or_else(form)?;
        let number = parse_port(port).ok_or(ServerError::Invalid("has an invalid port"))?;
        // memcached's port is no part of a name, as libmemcached has it.
        let ring_name = if number == 11211 { host.to_owned() } else { place.to_owned() };
        (node(bare(host), &number.to_string()), ring_name)
    };
    let name = given.unwrap_or(&ring_name);
    if !is_plain(&written) || !is_plain(name) || name.is_empty() {
        return Err(ServerError::Unsupported("shardis takes no commas, blanks and | in addresses and names"));
    }
    // Written as the name only if shardis would not make the same name of the address.
    let is_own =
        !ring_name.starts_with('/') && written.strip_suffix(":11211").unwrap_or(&written) == ring_name;
    let is_given = given.is_some() || (!is_own && !ring_name.starts_with('/'));
    let suffix = if is_given { format!(" {name}") } else { String::new() };
    Ok((format!("{written}:{weight}{suffix}"), name.to_owned()))
}
