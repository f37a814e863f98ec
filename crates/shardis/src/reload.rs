//! Changes from one configuration to the next while the process runs. Some are live, the others need a restart.
//!
//! ```text
//!   SIGHUP ─► the file is read again ─► faults?        ─► nothing changes
//!                                   └─► Changes ─► a change needs a restart? ─► nothing changes
//!                                           └─► each service follows its pool
//! ```
//!
//! A change is live if a worker can follow it between two requests. A list of nodes is live if each key stays in its shard: shards
//! keep their names, order and weights, and get other nodes. Any other list of nodes would look for keys where they are not.

pub(crate) mod desk;
pub(crate) mod kept;

use crate::args::Serving;
use crate::args::serving::Pool;
use crate::tcp::TcpArgs;
use std::fmt;
use topology::{ShardSpec, Topology};

/// Flags whose values may change while shardis serves.
const LIVE: [&str; 31] = [
    "timeout",
    "maxclients",
    "connect-timeout-ms",
    "request-timeout-ms",
    "cross-shard",
    "cross-shard-bytes-max",
    "allow-admin",
    "protected-mode",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "slowlog-sample",
    "requirepass",
    "requirepass-file",
    "acl-file",
    "user",
    "user-by-password",
    "tls-cert-file",
    "tls-key-file",
    "tls-ca-cert-file",
    "tls-auth-clients",
    "node-tls-ca-cert-file",
    "log-level",
    "drain-timeout",
    "upgrade-timeout",
    "upgrade-drain-timeout",
    "pool",
    "deny",
    "rename",
    "max-keys",
    "max-value",
    "read-only",
];

/// Flags of secrets. Another value is live, and having none or not is not: both decide how connections begin.
const LIVE_SECRETS: [&str; 6] =
    ["node-auth", "node-auth-file", "node-user", "sentinel-auth", "sentinel-auth-file", "admin-token-file"];

/// Keys of the sample by which moves are told, about 1 in 1,000.
const SAMPLE: u32 = 10_000;

/// The differences between two configurations.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    all: Vec<Change>,
}

/// One difference.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    /// The pool, if it has a name.
    pool: Option<String>,
    /// The flag, without its dashes.
    key: String,
    before: String,
    after: String,
    effect: Effect,
}

/// The effect of a change.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    /// At once.
    Live,
    /// By a restart alone, for this reason.
    Restart(String),
}

impl Changes {
    /// The way from `before` to `after`.
    pub(crate) fn between(before: &Serving, after: &Serving) -> Changes {
        let mut changes = Changes::default();
        let names = |serving: &Serving| -> Vec<Option<String>> {
            serving.pools.iter().map(|pool| pool.name.clone()).collect()
        };
        if names(before) != names(after) {
            changes.restart(
                "pool",
                &listed(&names(before)),
                &listed(&names(after)),
                "threads begin at the start",
            );
            return changes;
        }
        if is_other_tcp(before, after) {
            let count = |serving: &Serving| format!("{} of mode tcp", serving.tcp.len());
            changes.restart(
                "listener",
                &count(before),
                &count(after),
                "bytes are passed on as the start said",
            );
        }
        if format!("{:?}", before.admin) != format!("{:?}", after.admin) {
            let place = |serving: &Serving| {
                let admin = serving.admin.as_ref().and_then(|admin| admin.place(false));
                admin.map_or_else(String::new, |place| place.to_string())
            };
            changes.restart("admin", &place(before), &place(after), "the start alone opens this listener");
        }
        if before.pools.is_empty() {
            changes.compare_process(before, after);
        }
        for (before, after) in before.pools.iter().zip(&after.pools) {
            changes.compare(before, after);
        }
        changes
    }

    /// Whether nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The flags whose changes need a restart, with the reasons; empty if there are none.
    pub(crate) fn obstacles(&self) -> Vec<String> {
        let why = |change: &Change| match &change.effect {
            Effect::Live => None,
            Effect::Restart(why) => Some(format!("{}: {why}", change.name())),
        };
        self.all.iter().filter_map(why).collect()
    }

    /// The names of the changed flags.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all.iter().map(Change::name).collect()
    }

    /// The same in one line.
    pub(crate) fn keys(&self) -> String {
        self.names().join(",")
    }

    /// A line for each change. If there are none, one that says so.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self.is_empty() {
            true => vec!["nothing changes".to_owned()],
            false => self.to_string().lines().map(str::to_owned).collect(),
        }
    }

    /// Has the changed settings of `serving` say that the file has other values.
    pub(crate) fn mark(&self, serving: &mut Serving) {
        for pool in &mut serving.pools {
            let is_changed =
                |key: &str| self.all.iter().any(|change| change.key == key && change.pool == pool.name);
            for setting in pool.settings.iter_mut().filter(|setting| is_changed(&setting.name)) {
                setting.source = "kept";
            }
        }
    }

    fn restart(&mut self, key: &str, before: &str, after: &str, why: &str) {
        let (before, after) = (before.to_owned(), after.to_owned());
        let effect = Effect::Restart(why.to_owned());
        self.all.push(Change { pool: None, key: key.to_owned(), before, after, effect });
    }

    /// Compares the live settings of a process without pools, which has no other list of them.
    fn compare_process(&mut self, before: &Serving, after: &Serving) {
        let level = |serving: &Serving| serving.log.0.to_string().to_lowercase();
        let drain = |serving: &Serving| serving.drain_timeout.as_secs().to_string();
        let ready = |serving: &Serving| serving.upgrade.ready_within.as_secs().to_string();
        let leave = |serving: &Serving| serving.upgrade.drain_timeout.as_secs().to_string();
        let pairs = [
            ("log-level", level(before), level(after)),
            ("drain-timeout", drain(before), drain(after)),
            ("upgrade-timeout", ready(before), ready(after)),
            ("upgrade-drain-timeout", leave(before), leave(after)),
        ];
        for (key, before, after) in pairs.into_iter().filter(|(_, before, after)| before != after) {
            self.all.push(Change { pool: None, key: key.to_owned(), before, after, effect: Effect::Live });
        }
    }

    fn compare(&mut self, before: &Pool, after: &Pool) {
        for (old, new) in before.settings.iter().zip(&after.settings) {
            // Settings do not show secrets, so two of them look alike.
            if old.value == new.value && before.args.secrets(&old.name) == after.args.secrets(&old.name) {
                continue;
            }
            let effect = match old.name.as_str() {
                "nodes" => effect_of_nodes(before, after),
                "listener" if are_same_places(before, after) => Effect::Live,
                name if LIVE.contains(&name) => Effect::Live,
                name if LIVE_SECRETS.contains(&name) && !old.value.is_empty() && !new.value.is_empty() => {
                    Effect::Live
                }
                _ => Effect::Restart("the start alone reads this key".to_owned()),
            };
            self.all.push(Change {
                pool: before.name.clone(),
                key: old.name.clone(),
                before: old.value.clone(),
                after: new.value.clone(),
                effect,
            });
        }
    }
}

impl Change {
    fn name(&self) -> String {
        match &self.pool {
            Some(pool) => format!("{pool}.{}", self.key),
            None => self.key.clone(),
        }
    }
}

/// A line for each change.
impl fmt::Display for Changes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.all {
            let shown = |value: &str| if value.is_empty() { "(none)".to_owned() } else { value.to_owned() };
            let (name, before, after) = (change.name(), shown(&change.before), shown(&change.after));
            match &change.effect {
                Effect::Live => writeln!(out, "{name}: {before} -> {after}, live")?,
                Effect::Restart(why) => {
                    writeln!(out, "{name}: {before} -> {after}, needs a restart: {why}")?;
                }
            }
        }
        Ok(())
    }
}

/// Whether listeners of mode tcp differ in settings that a running process does not follow.
fn is_other_tcp(before: &Serving, after: &Serving) -> bool {
    let is_other = |(old, new): (&TcpArgs, &TcpArgs)| {
        format!("{old:?}") != format!("{:?}", new.clone().with_live_settings_of(old))
    };
    before.tcp.len() != after.tcp.len() || before.tcp.iter().zip(&after.tcp).any(is_other)
}

fn listed(names: &[Option<String>]) -> String {
    let shown = |name: &Option<String>| name.clone().unwrap_or_else(|| "(without a name)".to_owned());
    names.iter().map(shown).collect::<Vec<_>>().join(",")
}

/// Whether all listeners are where they were and differ at most in their policies for commands.
fn are_same_places(before: &Pool, after: &Pool) -> bool {
    let places = |pool: &Pool| -> Vec<_> {
        let ways = pool.args.ways_in().unwrap_or_default();
        ways.into_iter().map(|way| (way.option, way.place, way.is_tls, way.read_from)).collect()
    };
    places(before) == places(after)
}

/// The effect of another list of nodes.
fn effect_of_nodes(before: &Pool, after: &Pool) -> Effect {
    let (Ok(old), Ok(new)) = (before.args.topology(), after.args.topology()) else {
        return Effect::Restart("nodes are discovered from the start on".to_owned());
    };
    let shards = |topology: &Topology| -> Vec<(String, u32)> {
        topology.shards().iter().map(|shard| (shard.name.clone(), shard.weight)).collect()
    };
    if before.args.reading.ejecting().is_some() {
        return Effect::Restart("with on-node-down = \"remap\" each worker has its own list".to_owned());
    }
    match shards(&old) == shards(&new) {
        true => Effect::Live,
        false => Effect::Restart(format!(
            "{} % of the keys would be looked for in other shards; shards that keep their names may change their nodes",
            moved_percent(&old, &new)
        )),
    }
}

/// The share of keys whose shard has another name or place in `after`.
fn moved_percent(before: &Topology, after: &Topology) -> u32 {
    let is_moved = |number: &u32| {
        let key = format!("key:{number}");
        let name_in = |topology: &Topology| topology.shard(topology.shard_of(key.as_bytes())).name.clone();
        name_in(before) != name_in(after)
    };
    let moved = (0..SAMPLE).filter(is_moved).count() as u32;
    (moved * 100).div_ceil(SAMPLE)
}

/// The nodes of `args` for the shards of `present`, in the next epoch.
pub(crate) fn with_nodes_of(pool: &Pool, present: &Topology) -> Result<Topology, String> {
    let nodes = pool.args.spec()?.nodes;
    let shards: Vec<ShardSpec> = nodes
        .into_iter()
        .map(|mut node| {
            let replicas = std::mem::take(&mut node.replicas);
            ShardSpec { name: node.label(), primary: Some(node), replicas, slots: Vec::new() }
        })
        .collect();
    present.with_nodes(present.epoch() + 1, &shards).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::serving;

    fn changes(before: &str, after: &str) -> String {
        Changes::between(&serving(before), &serving(after)).to_string()
    }

    #[test]
    fn changed_flags_are_live_or_need_a_restart() {
        assert_eq!(changes("timeout = 5", "timeout = 5"), "");
        assert_eq!(changes("timeout = 5", ""), "timeout: 5 -> (none), live\n");
        assert_eq!(
            changes("workers = 1", "workers = 2\nallow-admin = true"),
            "workers: 1 -> 2, needs a restart: the start alone reads this key\nallow-admin: false -> true, live\n"
        );
    }

    #[test]
    fn secrets_are_compared_and_not_shown() {
        let changed = changes("requirepass = 'one'", "requirepass = 'two'");
        assert_eq!(changed, "requirepass: (secret) -> (secret), live\n");
        let of_nodes = |key: &str| format!("nodes = ['a:1']\nnode-auth = '{key}'");
        let changed = changes(&of_nodes("one"), &of_nodes("two"));
        assert_eq!(changed, "node-auth: (secret) -> (secret), live\n");
        let changed = changes(&of_nodes("one"), "nodes = ['a:1']");
        assert!(changed.starts_with("node-auth: (secret) -> (none), needs a restart: "), "{changed}");
        let of_sentinels = |key: &str| format!("sentinel = 'a:1'\nmaster = 'm'\nsentinel-auth = '{key}'");
        let changed = changes(&of_sentinels("one"), &of_sentinels("two"));
        assert_eq!(changed, "sentinel-auth: (secret) -> (secret), live\n");
    }

    #[test]
    fn secrets_of_all_pools_are_compared() {
        let pools = |key: &str| {
            let pool = |name: &str, port: u16| {
                format!("[[pool]]\nname = '{name}'\nport = {port}\nrequirepass = '{key}'\n")
            };
            pool("a", 1) + &pool("b", 2)
        };
        assert_eq!(changes(&pools("one"), &pools("two")).lines().count(), 2);
    }

    #[test]
    fn nodes_may_change_if_their_shards_stay() {
        let live = changes("nodes = ['a:1 x', 'b:1 y']", "nodes = ['c:1 x|d:1', 'b:1 y']");
        assert!(live.ends_with(", live\n"), "{live}");
        let replica = changes("nodes = ['a:1', 'b:1']", "nodes = ['a:1|c:1', 'b:1']");
        assert!(replica.ends_with(", live\n"), "{replica}");
        for after in ["nodes = ['a:1 x']", "nodes = ['b:1 y', 'a:1 x']", "nodes = ['a:1:2 x', 'b:1 y']"] {
            let text = changes("nodes = ['a:1 x', 'b:1 y']", after);
            assert!(text.contains("needs a restart: "), "{after}: {text}");
            assert!(text.contains(" % of the keys would be looked for in other shards"), "{after}: {text}");
        }
    }

    #[test]
    fn changes_of_pools_name_the_pool() {
        let pools = |timeout: u32| {
            format!("[[pool]]\nname = 'a'\nport = 1\n[[pool]]\nname = 'b'\nport = 2\ntimeout = {timeout}\n")
        };
        assert_eq!(changes(&pools(1), &pools(2)), "b.timeout: 1 -> 2, live\n");
        let fewer = changes(&pools(1), "[[pool]]\nname = 'a'\nport = 1\n");
        assert_eq!(fewer, "pool: a,b -> a, needs a restart: threads begin at the start\n");
        let named = changes("", &pools(1));
        assert_eq!(named, "pool: (without a name) -> a,b, needs a restart: threads begin at the start\n");
    }

    #[test]
    fn listeners_of_mode_tcp_follow_the_log_level() {
        let tcp = |above: &str, more: &str| {
            format!("{above}\n[[listener]]\naddress = '127.0.0.1:7'\nmode = 'tcp'\nnodes = 'a:1'\n{more}")
        };
        let live = "log-level: info -> debug, live\ndrain-timeout: 10 -> 3, live\n";
        let above = "log-level = 'debug'\ndrain-timeout = 3";
        assert_eq!(changes(&tcp("", ""), &tcp(above, "")), live);
        let with_pool = changes(&tcp("port = 1", ""), &tcp("port = 1\nlog-level = 'debug'", ""));
        assert_eq!(with_pool, "log-level: info -> debug, live\n");
        for (above, more) in [("workers = 7", ""), ("", "timeout = 9")] {
            let text = changes(&tcp("", ""), &tcp(above, more));
            assert!(text.starts_with("listener: ") && text.contains("needs a restart"), "{text}");
        }
    }

    #[test]
    fn policies_of_the_same_listeners_are_live() {
        let listener = |more: &str| format!("[[listener]]\naddress = '/a'\n{more}");
        let live = changes(&listener(""), &listener("deny = ['KEYS']"));
        assert_eq!(live, "listener: /a -> /a deny=KEYS, live\n");
        let moved = changes(&listener(""), "[[listener]]\naddress = '/b'\ndeny = ['KEYS']");
        assert!(moved.contains("needs a restart"), "{moved}");
        assert_eq!(changes("", "read-only = true"), "read-only: false -> true, live\n");
    }

    #[test]
    fn every_live_name_is_a_flag() {
        let settings = &serving("").pools[0].settings;
        for name in LIVE.into_iter().chain(LIVE_SECRETS) {
            assert!(settings.iter().any(|setting| setting.name == name), "{name}");
        }
    }
}
