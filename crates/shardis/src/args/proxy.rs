//! Arguments of `shardis proxy`, and the checks of their combinations.

use super::access::AccessArgs;
use super::admin::AdminArgs;
use super::bytes::parse_bytes;
use super::discovery::DiscoveryArgs;
use super::file::FileArgs;
use super::like::{Defaults, Like};
use super::listener::{ListenerArg, Place, Way};
use super::node_auth::NodeAuthArgs;
use super::route::RouteArgs;
use super::service::ServiceArgs;
use super::store::StoreArgs;
use super::users::UserArgs;
use crate::access::{Secret, Source};
use crate::batching::Batching;
use crate::control::plural;
use crate::embedded::EmbeddedSettings;
use crate::racks::RackPool;
use crate::reading::ReadingArgs;
use crate::transport::TransportArgs;
use ::proxy::{Access, Authority, CrossShard, Policies, Transactions};
use clap::Parser;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;
use store::EvictionPolicy;
use topology::{Distribution, HashFunction, NodeSpec, TagRule, Topology, TopologySpec, parse_nodes};
use users::Users;

/// Arguments of `shardis proxy`.
#[derive(Clone, Debug, Parser)]
#[command(after_help = "Examples:
  shardis proxy                 four shards in memory, nothing else needed
  shardis proxy --nodes=127.0.0.1:8081,127.0.0.1:8082
  shardis proxy --nodes=cache-a:6379:2,cache-b:6379 --like=twemproxy --tag-rule='{}'
  shardis proxy --nodes=unix:/run/redis/a.sock,unix:/run/redis/b.sock --port=6379 --workers=4
  shardis proxy --nodes='a:6379|a-copy:6379,b:6379|b-copy:6379' --read-from=prefer-replica
  shardis proxy --cluster=10.0.0.1:6379,10.0.0.2:6379
  shardis proxy --config=/etc/shardis.toml --log-level=debug
  shardis proxy --sentinel=10.0.0.1:26379,10.0.0.2:26379,10.0.0.3:26379 --master=orders,carts")]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,

    /// Nodes, separated by commas: host:port, [v6]:port or unix:/path, then optionally :weight, @zone, and a blank and
    /// a name. Replicas follow their primary, each after a |. Without nodes, in-memory shards serve, and their data is
    /// lost at exit
    #[expect(rustdoc::broken_intra_doc_links, reason = "an address of IPv6 in brackets")]
    #[arg(long, value_name = "NODE,NODE,…", group = "far", conflicts_with_all = ["store_shards", "store_memory", "store_policy"])]
    nodes: Option<String>,

    #[command(flatten)]
    pub(crate) discovery: DiscoveryArgs,

    #[command(flatten)]
    pub(crate) routes: RouteArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Defaults of another program: twemproxy, redis-sharding, redis-sharding-perl, redis-cluster, predixy or codis.
    /// They concern addresses, timeouts and distribution; other flags win over them (docs/migration.md)
    #[arg(long, value_name = "PROGRAM", value_parser = Like::from_str)]
    pub(super) like: Option<Like>,

    #[command(flatten)]
    pub(crate) service: ServiceArgs,

    #[command(flatten)]
    pub(crate) transport: TransportArgs,

    #[command(flatten)]
    pub(crate) admin: AdminArgs,

    /// Distribution of keys over shards: modulo, modula and ketama (as in twemproxy), or slots [default: modulo]
    #[arg(long, value_parser = Distribution::from_str)]
    distribution: Option<Distribution>,

    /// Hash function of keys: crc32a (as in zlib), crc32, crc16, crc16-redis, md5, fnv1_64, fnv1a_64, fnv1_32,
    /// fnv1a_32, hsieh, murmur, jenkins, one_at_a_time, atol [default: crc32a]
    #[arg(long, value_parser = HashFunction::from_str)]
    hash: Option<HashFunction>,

    /// Hash tag rule, the part of a key that is hashed: sml (a tag at the end, as in user:{42}), perl, redis, codis,
    /// none, or two characters such as {} [default: redis without --nodes, else sml; none with ketama and modula]
    #[arg(long, value_name = "RULE", value_parser = TagRule::from_str)]
    tag_rule: Option<TagRule>,

    /// Number of databases for SELECT; the nodes need as many [default: 16; 1 with --cluster]
    #[arg(long, value_name = "DATABASES")]
    databases: Option<u16>,

    /// Memory limit of the process without its in-memory shards, such as 64mb. Near the limit shardis stops reading
    /// requests; at the limit it closes the client that holds the most memory
    #[arg(long, value_name = "BYTES", default_value = "1gb", value_parser = parse_memory_max)]
    memory_max: usize,

    /// Connect timeout for nodes; in shardis proxy it covers the first PING too
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    connect_timeout_ms: u64,

    /// Request timeout, the silence of a node after which the client gets an error that says the outcome is unknown.
    /// Each byte to or from the node restarts it, up to ten times its length [default: 1000]
    #[arg(long, value_name = "MS")]
    request_timeout_ms: Option<u64>,

    /// Batching of requests to nodes: under load a worker waits briefly, so that one write carries several. auto (up to
    /// 400 µs, and only while it raises throughput), off, or microseconds. off serves rare clients of a busy worker
    /// some 400 µs earlier
    #[arg(long, alias = "coalesce", value_name = "auto|off|US", default_value = "auto", value_parser = Batching::from_str)]
    pub(crate) batching: Batching,

    /// Administration of nodes by clients: CONFIG, DEBUG, BGSAVE and the like go to every node. For tests and
    /// operators, since any client may then change the nodes for all
    #[arg(long)]
    pub(crate) allow_admin: bool,

    #[command(flatten)]
    pub(crate) reading: ReadingArgs,

    /// Policy for commands over several shards that cannot be split, such as SUNION: refuse (with CROSSSLOT, as Redis
    /// Cluster) or emulate (read the values, then write the result; not atomic) (docs/cross-shard.md) [default: refuse;
    /// emulate without --nodes]
    #[arg(long, value_name = "refuse|emulate", value_parser = parse_cross_shard)]
    cross_shard: Option<CrossShard>,

    /// Limit of the values that one emulated command may read, such as 16mb. Other clients of the worker wait
    /// meanwhile, about 15 ms per MiB
    #[arg(long, value_name = "BYTES", default_value = "4mb", value_parser = parse_bytes)]
    pub(super) cross_shard_bytes_max: usize,

    /// Shards of one MULTI … EXEC: one-shard (others are refused) or per-shard (a transaction on each shard, not atomic
    /// as a whole), for libraries that put MULTI around pipelines (docs/transactions.md) [default: one-shard; per-shard
    /// without --nodes]
    #[arg(long, value_name = "one-shard|per-shard", value_parser = parse_transactions)]
    transactions: Option<Transactions>,

    /// Authority over AUTH and permissions: proxy (--requirepass, --acl-file; with neither, clients may do everything)
    /// or nodes (AUTH goes to the nodes, and their users apply) (docs/users.md)
    #[arg(long, value_name = "proxy|nodes", default_value = "proxy", value_parser = parse_authority)]
    pub(crate) auth: Authority,

    #[command(flatten)]
    access: AccessArgs,

    #[command(flatten)]
    users: UserArgs,

    #[command(flatten)]
    node_auth: NodeAuthArgs,
}

/// The memory limit of the proxy. With less than the minimum it would do little but wait.
fn parse_memory_max(text: &str) -> Result<usize, String> {
    const MEMORY_MIN: usize = 16_000_000;
    match parse_bytes(text)? {
        bytes if bytes < MEMORY_MIN => Err("must be at least 16m".to_owned()),
        bytes => Ok(bytes),
    }
}

pub(crate) fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("write 1 to switch it on, 0 to switch it off".to_owned()),
    }
}

fn parse_authority(text: &str) -> Result<Authority, String> {
    match text {
        "proxy" => Ok(Authority::Proxy),
        "nodes" => Ok(Authority::Nodes),
        _ => Err("write proxy or nodes".to_owned()),
    }
}

fn parse_transactions(text: &str) -> Result<Transactions, String> {
    match text {
        "one-shard" => Ok(Transactions::OneShard),
        "per-shard" => Ok(Transactions::PerShard),
        _ => Err("write one-shard or per-shard".to_owned()),
    }
}

fn parse_cross_shard(text: &str) -> Result<CrossShard, String> {
    match text {
        "refuse" => Ok(CrossShard::Refuse),
        "emulate" => Ok(CrossShard::Emulate),
        _ => Err("write refuse or emulate".to_owned()),
    }
}

/// The defaults of options that have no effect alone.
pub(super) const STORE_POLICY_DEFAULT: EvictionPolicy = EvictionPolicy::NoEviction;
pub(super) const CROSS_SHARD_BYTES_MAX: usize = 4 << 20;

/// Each is a thread.
const STORE_SHARDS_MAX: u32 = 256;

/// The option that says most ways in.
const LISTENER: &str = "--listener";

impl ProxyArgs {
    /// Refuses what single options cannot see.
    pub(super) fn check(&self) -> Result<(), String> {
        self.faults().into_iter().next().map_or(Ok(()), Err)
    }

    /// All faults that checks of single options cannot find. Each text begins with its option.
    pub(crate) fn faults(&self) -> Vec<String> {
        let topology =
            self.check_counts().and_then(|()| self.discovery.check()).and_then(|()| self.check_racks());
        let topology = topology.and_then(|()| self.topology());
        let reading = match &topology {
            Ok(topology) => self.reading.check(self.nodes.is_some(), topology, &self.transport.listener),
            // There is no saying what fits to it.
            Err(_) => Ok(()),
        };
        let checks = [
            topology.as_ref().map(|_| ()).map_err(String::clone),
            self.check_like(),
            self.check_databases(),
            self.check_timeouts(),
            self.check_auth(),
            self.check_listeners(),
            self.routes.check(),
            self.admin.check(),
            self.ways_in().and_then(|ways| self.admin.mirror.check(&ways)),
            reading,
        ];
        checks.into_iter().filter_map(Result::err).collect()
    }

    fn check_counts(&self) -> Result<(), String> {
        self.service.check()?;
        if !(1..=STORE_SHARDS_MAX).contains(&self.store.store_shards) {
            return Err(format!(
                "--store-shards {}: must be 1 to {STORE_SHARDS_MAX}",
                self.store.store_shards
            ));
        }
        Ok(())
    }

    fn check_racks(&self) -> Result<(), String> {
        self.store.racks.check(self.distribution)
    }

    fn check_like(&self) -> Result<(), String> {
        match self.like.filter(|like| self.discovery.is_cluster() && *like != Like::RedisCluster) {
            Some(like) => Err(format!(
                "--like={}: a Redis Cluster places its keys itself; leave --like out, or name plain nodes with --nodes",
                like.name()
            )),
            None => Ok(()),
        }
    }

    fn check_timeouts(&self) -> Result<(), String> {
        for (name, ms) in [("connect", self.connect_timeout_ms), ("request", self.request_timeout_ms())] {
            if ms == 0 {
                return Err(format!(
                    "--{name}-timeout-ms 0: a node must get some time, as in --{name}-timeout-ms=1000"
                ));
            }
        }
        Ok(())
    }

    fn check_listeners(&self) -> Result<(), String> {
        let host = self.listen_addr()?;
        let plain = self.has_plain_port().then_some(host);
        self.transport.check(plain, self.has_nodes())?;
        let ways = self.ways_in()?;
        let others = ways.into_iter().filter(|way| way.option != LISTENER).map(|way| (way.option, way.place));
        ListenerArg::check_all(&self.transport.listener, &others.collect::<Vec<_>>())
    }

    /// All faults of the named files. Each text begins with its option.
    pub(crate) fn faults_of_files(&self) -> Vec<String> {
        let users = self.users();
        let about_users = |error: String| match error.starts_with("--") {
            true => error,
            // The error begins with file and line.
            false => format!("{}: {error}", users.option()),
        };
        let nobody = ::proxy::Credentials::default();
        let checks = [
            users.users().map(drop).map_err(about_users),
            self.transport.load().map(drop),
            self.credentials().map(drop),
            self.admin.guard().map(drop),
            self.discovery.machine(&nobody, false, 0).map(drop),
        ];
        checks.into_iter().filter_map(Result::err).collect()
    }

    /// All listeners, in the order of their numbers.
    pub(crate) fn ways_in(&self) -> Result<Vec<Way>, String> {
        let host = self.listen_addr()?;
        let transport = &self.transport;
        let policy = || self.access.policy.clone();
        let way = |option, place, is_tls| Way {
            option,
            place,
            is_tls,
            http: None,
            read_from: None,
            policy: policy(),
        };
        let plain = self.has_plain_port().then(|| way("--port", Place::Tcp(host), false));
        let tls = SocketAddr::new(host.ip(), transport.tls_port);
        let tls = (transport.tls_port != 0).then(|| way("--tls-port", Place::Tcp(tls), true));
        let http = SocketAddr::new(host.ip(), transport.http_port);
        let dialect = Some(transport.http_dialect.dialect());
        let http = (transport.http_port != 0)
            .then(|| Way { http: dialect, ..way("--http-port", Place::Tcp(http), false) });
        let unix = transport.unixsocket.as_ref().map(|path| way("--unixsocket", Place::unix(path), false));
        let more = transport.listener.iter().cloned().map(|listener| Way {
            option: LISTENER,
            place: listener.place,
            is_tls: listener.is_tls,
            http: listener.http,
            read_from: listener.read_from,
            policy: listener.policy.or(&self.access.policy),
        });
        Ok(plain.into_iter().chain(tls).chain(http).chain(unix).chain(more).collect())
    }

    /// The rules for clients of listeners, each of which is the way in with this index.
    pub(crate) fn access(&self, ways: impl Iterator<Item = usize>) -> Access {
        let all = self.ways_in().unwrap_or_default();
        let policy = |(number, way): (u16, usize)| {
            let Way { place, policy, .. } = all.get(way)?;
            Some((number, policy.policy(place.to_string())))
        };
        let policies = Policies::new((0..).zip(ways).filter_map(policy));
        Access {
            protected_mode: self.access.protected_mode,
            policies,
            namespaces: self.access.namespaces(),
            by_password: self.access.user_by_password,
            routed: self.routes.routed(),
        }
    }

    fn check_auth(&self) -> Result<(), String> {
        if self.auth == Authority::Proxy {
            return Ok(());
        }
        if self.store.racks.is_given() {
            return Err(
                "--auth=nodes: the nodes of racks know no clients; give the users with --acl-file".to_owned()
            );
        }
        if !self.has_nodes() {
            return Err("--auth=nodes: shards in memory have no users; name nodes with --nodes".to_owned());
        }
        if self.routes.are_given() {
            return Err("--auth=nodes: routes lead to several pools, whose users may differ".to_owned());
        }
        if let Some(user) = self.access.named_users().next() {
            return Err(format!(
                "--auth=nodes: the nodes know the users, so {user} has no namespace here; leave --user-namespace out"
            ));
        }
        match self.users() {
            Source::Nothing => Ok(()),
            users => {
                Err(format!("--auth=nodes: the users are those of the nodes; leave {} out", users.option()))
            }
        }
    }

    fn check_databases(&self) -> Result<(), String> {
        let wanted = self.databases();
        if !(1..=proxy::Settings::DATABASES_MAX).contains(&wanted) {
            let max = proxy::Settings::DATABASES_MAX;
            return Err(format!("--databases {wanted}: must be 1 to {max}"));
        }
        if self.discovery.is_cluster() && wanted > 1 {
            return Err(format!(
                "--databases {wanted}: a Redis Cluster has database 0 alone; leave --databases out"
            ));
        }
        if self.store.racks.is_given() && wanted > 1 {
            return Err(format!("--databases {wanted}: racks have database 0 alone; leave --databases out"));
        }
        if !self.has_nodes() && wanted > u16::from(store::DATABASES) {
            let max = store::DATABASES;
            return Err(format!(
                "--databases {wanted}: shards in memory have {max}; name nodes with --nodes"
            ));
        }
        Ok(())
    }

    /// Databases that clients may SELECT.
    pub(crate) fn databases(&self) -> u16 {
        /// As many as Redis has if nothing else is said.
        const DATABASES: u16 = 16;
        let has_one = self.discovery.is_cluster() || self.store.racks.is_given();
        let default = if has_one { 1 } else { DATABASES };
        self.databases.or(self.routes.databases()).unwrap_or(default)
    }

    /// Whether the shards are on nodes, and not in this process.
    pub(crate) fn has_nodes(&self) -> bool {
        self.has_far_nodes() || self.routes.are_given()
    }

    /// Whether they are on other processes.
    fn has_far_nodes(&self) -> bool {
        self.nodes.is_some() || self.discovery.is_given() || self.store.racks.is_given()
    }

    /// Whether there is a port without TLS. With 0 beside another listener there is none, as with Redis: a free port
    /// would be open unnoticed.
    pub(crate) fn has_plain_port(&self) -> bool {
        self.port() != 0 || !(self.transport.has_listener() || self.routes.lead_here())
    }

    /// Defaults of flags that are not given.
    fn defaults(&self) -> Defaults {
        self.like.map_or(Defaults::OWN, Like::defaults)
    }

    fn port(&self) -> u16 {
        self.service.port(self.defaults().port)
    }

    /// Seconds until an idle client is closed; 0 never.
    fn timeout(&self) -> u64 {
        self.service.timeout(self.defaults().timeout)
    }

    fn request_timeout_ms(&self) -> u64 {
        self.request_timeout_ms.unwrap_or(self.defaults().request_timeout_ms)
    }

    /// Distribution, hash and tag rule.
    fn key_rules(&self) -> (Distribution, Option<HashFunction>, Option<TagRule>) {
        let defaults = self.defaults();
        let distribution = self.distribution.unwrap_or(defaults.distribution);
        // Slots have a fixed hash, even with --like.
        let hash = defaults.hash.filter(|_| distribution != Distribution::Slots);
        let tag_rule = if self.is_as_one_redis() { Some(TagRule::Redis) } else { defaults.tag_rule };
        (distribution, self.hash.or(hash), self.tag_rule.or(tag_rule))
    }

    /// Whether defaults are those that look most like one Redis: without nodes, there is no old data to be found.
    fn is_as_one_redis(&self) -> bool {
        !self.has_nodes() && self.like.is_none() && self.distribution.is_none()
    }

    pub(crate) fn cross_shard(&self) -> CrossShard {
        let default = if self.is_as_one_redis() { CrossShard::Emulate } else { CrossShard::Refuse };
        self.cross_shard.unwrap_or(default)
    }

    pub(crate) fn transactions(&self) -> Transactions {
        let default = if self.is_as_one_redis() { Transactions::PerShard } else { Transactions::OneShard };
        self.transactions.unwrap_or(default)
    }

    /// Where to listen without TLS.
    pub(crate) fn listen_addr(&self) -> Result<SocketAddr, String> {
        let defaults = self.defaults();
        self.service.listen_addr(defaults.host, defaults.port)
    }

    /// The topology by the arguments. Before discovery it has only the named nodes.
    pub(crate) fn topology(&self) -> Result<Topology, String> {
        let spec = self.spec()?;
        match self.discovery.is_given() {
            true => self.discovery.topology(spec),
            false if self.routes.are_given() => self.routes.topology(),
            false => Topology::new(1, &spec).map_err(|error| error.to_string()),
        }
    }

    /// The parts of the topology. Those that are discovered have no nodes here.
    pub(crate) fn spec(&self) -> Result<TopologySpec, String> {
        let (mut distribution, hash, tag_rule) = self.key_rules();
        let mut nodes = match &self.nodes {
            None if self.store.racks.is_given() => {
                let (nodes, by_tokens) = self.store.racks.nodes()?;
                distribution = by_tokens.unwrap_or(distribution);
                nodes
            }
            Some(nodes) => parse_nodes(nodes).map_err(|error| format!("--nodes: {error}"))?,
            None if self.discovery.is_given() => Vec::new(),
            None if self.routes.are_given() => self.routes.nodes(),
            None => (0..self.store.store_shards).map(NodeSpec::embedded).collect(),
        };
        self.reading.zones().label(&mut nodes);
        Ok(TopologySpec { nodes, distribution, hash, tag_rule })
    }

    /// The flags whose values are secrets.
    pub(crate) const SECRETS: [&str; 4] = ["requirepass", "user", "node-auth", "sentinel-auth"];

    /// The secrets that are the values of the flag `name`, one of [`ProxyArgs::SECRETS`].
    pub(crate) fn secrets(&self, name: &str) -> Vec<&Secret> {
        match name {
            "requirepass" => self.users.requirepass.iter().collect(),
            "user" => self.users.user.iter().collect(),
            "node-auth" => self.node_auth.secret().into_iter().collect(),
            "sentinel-auth" => self.discovery.secret().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Remarks on namespaces of users that are not there.
    pub(super) fn missing_users(&self, users: &Users) -> Vec<String> {
        let missing = self.access.named_users().filter(|user| users.get(user.as_bytes()).is_none());
        missing.map(|user| format!("--user-namespace: there is no user {user}")).collect()
    }

    /// Source of the users.
    pub(crate) fn users(&self) -> Source {
        self.users.source()
    }

    /// A warning about listeners that other machines can reach, if `users` need no password.
    pub(crate) fn warning_of_openness(&self, users: &Users) -> Option<&'static str> {
        let is_reachable = |way: &Way| matches!(way.place, Place::Tcp(addr) if !addr.ip().is_loopback());
        let is_open = self.auth == Authority::Proxy && users.default_user().is_open();
        if !is_open || !self.ways_in().unwrap_or_default().iter().any(is_reachable) {
            return None;
        }
        Some(match self.access.protected_mode {
            true => {
                "protected mode: clients from other machines are denied, since there is no password \
                 (set one with --requirepass-file or --acl-file, or let all in with --protected-mode=no)"
            }
            false => {
                "clients from other machines need no password: there is none, and protected mode is off (--protected-mode=no)"
            }
        })
    }

    /// Credentials for nodes.
    pub(crate) fn credentials(&self) -> Result<proxy::Credentials, String> {
        self.node_auth.credentials()
    }

    /// Whether files have passwords for nodes or sentinels, or the token of the admin listener.
    pub(crate) fn has_secret_files(&self) -> bool {
        self.node_auth.has_file() || self.discovery.has_secret_file() || self.admin.has_token_file()
    }

    /// Settings of the embedded stores, if there are no nodes.
    pub(crate) fn embedded(&self, seed: u64) -> Option<EmbeddedSettings> {
        let (shards, memory_max, policy) =
            (self.store.store_shards, self.store.store_memory, self.store.store_policy);
        let script_time_max = Duration::from_millis(self.store.lua_time_limit);
        (!self.has_nodes()).then_some(EmbeddedSettings { shards, memory_max, policy, seed, script_time_max })
    }

    /// The racks, if there are any.
    pub(crate) fn rack_pool(&self, login: &::proxy::Credentials) -> Result<Option<RackPool>, String> {
        self.store.racks.pool(login, Duration::from_millis(self.request_timeout_ms()))
    }

    /// The core's limits, for one of `workers` workers.
    pub(crate) fn limits(&self, clients_max: usize, workers: usize) -> proxy::Limits {
        let defaults = proxy::Limits::default();
        let request_timeout = Duration::from_millis(self.request_timeout_ms());
        // The thread of a shard with racks gives copies up after one timeout, and tells which.
        let is_far = self.has_far_nodes() && !self.store.racks.is_given();
        let (request_timeout, request_timeouts_max) = match is_far {
            true => (request_timeout, defaults.engine.request_timeouts_max),
            // A store of this process cannot be lost: its silence only means that it is busy. A pool has timeouts of its own.
            false => (request_timeout * defaults.engine.request_timeouts_max, 1),
        };
        proxy::Limits {
            engine: proxy::EngineLimits {
                connect_timeout: Duration::from_millis(self.connect_timeout_ms),
                request_timeout,
                request_timeouts_max,
                transfer_timeout: defaults.engine.transfer_timeout.max(request_timeout),
                ..defaults.engine
            },
            clients_max,
            idle_timeout: Duration::from_secs(self.timeout()),
            cross_shard_bytes_max: self.cross_shard_bytes_max,
            slow_start: self.reading.slow_start(),
            ..defaults
        }
        .within_memory(self.memory_max, workers)
    }

    /// Lines that describe the service to the operator at the start.
    pub(crate) fn describe(&self, topology: &Topology) -> Vec<String> {
        let mut lines = self.describe_shards(topology);
        lines.extend(self.store.racks.describe());
        lines.extend(self.like.map(|like| format!("defaults are those of {}", like.name())));
        lines
    }

    fn describe_shards(&self, topology: &Topology) -> Vec<String> {
        const NAMED_MAX: usize = 8;
        if self.discovery.is_given() {
            return vec![self.discovery.describe()];
        }
        if self.routes.are_given() {
            return vec![self.routes.describe()];
        }
        let shards = topology.shards();
        let mut names: Vec<&str> = shards.iter().take(NAMED_MAX).map(|shard| shard.name.as_str()).collect();
        if shards.len() > NAMED_MAX {
            names.push("…");
        }
        let (count, plural, how) = (shards.len(), plural(shards.len()), topology.describe());
        if !self.has_nodes() {
            return vec![
                format!(
                    "serves {count} shard{plural} of its own memory ({how}); their data is lost when it ends"
                ),
                "to serve redis-servers instead, name them: --nodes=127.0.0.1:6379,…".to_owned(),
            ];
        }
        vec![format!("shards over {count} node{plural} ({how}): {}", names.join(" "))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::plainly;

    fn parsed(words: &[&str]) -> Result<ProxyArgs, String> {
        let words = ["shardis proxy"].iter().chain(words);
        let args = ProxyArgs::try_parse_from(words).map_err(|error| plainly(&error.to_string()))?;
        args.check().map(|()| args)
    }

    #[test]
    fn redis_shardings_flags_work_as_they_are() {
        let args = parsed(&[
            "--nodes=127.0.0.1:8081,127.0.0.1:8082",
            "--host=127.0.0.1",
            "--port",
            "8080",
            "--N=4",
            "--SO_REUSEPORT=1",
            "--timeout=300",
        ])
        .expect("valid");
        assert_eq!(
            (args.port(), args.service.workers(), args.service.reuse_port, args.timeout()),
            (8080, 4, true, 300)
        );
        assert_eq!(args.topology().expect("valid").describe(), "modulo, crc32a, tag rule sml");
    }

    #[test]
    fn like_sets_the_defaults_of_the_program() {
        let like = |program: &str, more: &[&str]| {
            let args = parsed(&[&["--nodes=a:1,b:1,c:1", program], more].concat()).expect("valid");
            let place = args.listen_addr().expect("an address").to_string();
            let how = args.topology().expect("valid").describe();
            (place, args.timeout(), args.request_timeout_ms(), how)
        };
        let all = [
            ("twemproxy", "127.0.0.1:6380", 0, 1000, "ketama, fnv1a_64, tag rule none"),
            ("redis-sharding", "0.0.0.0:6379", 300, 1000, "modulo, crc32a, tag rule sml"),
            ("redis-sharding-perl", "0.0.0.0:6379", 0, 1000, "modulo, crc32a, tag rule perl"),
            ("redis-cluster", "127.0.0.1:6379", 0, 1000, "slots, crc16-redis, tag rule redis"),
            ("predixy", "0.0.0.0:7617", 0, 1000, "modulo, crc16-redis, tag rule none"),
            ("codis", "0.0.0.0:19000", 1800, 30_000, "modulo, crc32a, tag rule codis"),
        ];
        for (program, place, timeout, request_timeout_ms, how) in all {
            let expected = (place.to_owned(), timeout, request_timeout_ms, how.to_owned());
            assert_eq!(like(&format!("--like={program}"), &[]), expected, "{program}");
        }
        let given = ["--port=7", "--timeout=8", "--distribution=modula", "--tag-rule={}", "--hash=md5"];
        let expected = ("0.0.0.0:7".to_owned(), 8, 30_000, "modula, md5, tag rule {}".to_owned());
        assert_eq!(like("--like=codis", &given), expected, "flags win");
        assert_eq!(like("--like=codis", &["--distribution=slots"]).3, "slots, crc16-redis, tag rule codis");
    }

    #[test]
    fn options_without_effect_are_said() {
        let remarks = |words: &[&str]| {
            let args = parsed(words).expect("valid");
            args.remarks(&args.topology().expect("valid"))
        };
        let cases: &[(&[&str], &str)] = &[
            (&["--nodes=a:1", "--zone=x"], "--zone has no effect without --read-from=zone"),
            (&["--nodes=a:1", "--node-failure-limit=3"], "--node-failure-limit has no effect without "),
            (&["--nodes=a:1", "--node-retry-timeout-ms=3"], "--node-retry-timeout-ms has no effect"),
            (&["--nodes=a:1", "--slow-start-ms=3"], "--slow-start-ms has no effect without "),
            (&["--nodes=a:1", "--replica-lag-max=3"], "--replica-lag-max has no effect without "),
            (&["--nodes=a:1|b:1"], "--nodes: a:1 has replicas, which are not read from without --read-from"),
            (&["--nodes=a:1", "--cross-shard-bytes-max=3"], "--cross-shard-bytes-max has no effect "),
            (&["--nodes=a:1", "--refresh-period-ms=300"], "--refresh-period-ms has no effect without "),
            (&["--store-policy=allkeys-lru"], "--store-policy has no effect without --store-memory"),
            (&["--host=0.0.0.0"], "protected mode: clients from other machines are denied, since "),
            (
                &["--listener=0.0.0.0:1", "--protected-mode=no"],
                "clients from other machines need no password",
            ),
            (&["--tls-ca-cert-file=a"], "--tls-ca-cert-file has no effect without --tls-port"),
            (
                &["--nodes=a:1", "--like=codis", "--host=::1"],
                "--like=codis: codis' table of slots and groups is not",
            ),
        ];
        for (words, expected) in cases {
            let said = remarks(words);
            assert!(said.len() == 1 && said[0].starts_with(expected), "{words:?}: {said:?}");
        }
        let nothing: &[&[&str]] = &[
            &[],
            &["--nodes=a:1:5,b:1"],
            &["--host=0.0.0.0", "--requirepass=x"],
            &["--host=0.0.0.0", "--nodes=a:1", "--auth=nodes"],
            &["--nodes=a:1|b:1", "--read-from=any", "--replica-lag-max=3", "--slow-start-ms=3"],
            &["--nodes=a:1|b:1", "--on-node-down=replica"],
            &["--nodes=a:1|b:1@x", "--listener=127.0.0.1:1 read-from=zone", "--zone=x"],
            &["--nodes=a:1,b:1", "--on-node-down=remap", "--node-failure-limit=3", "--slow-start-ms=3"],
            &["--nodes=a:1,b:1", "--cross-shard=emulate", "--cross-shard-bytes-max=3"],
            &["--cluster=a:1", "--refresh-period-ms=300"],
        ];
        for words in nothing {
            assert_eq!(remarks(words), [""; 0], "{words:?}");
        }
    }

    #[test]
    fn without_nodes_there_are_shards_in_memory() {
        let args =
            parsed(&["--store-shards=2", "--store-memory=1mb", "--store-policy=allkeys-lru"]).expect("valid");
        let embedded = args.embedded(7).expect("no nodes");
        assert_eq!((embedded.shards, embedded.memory_max), (2, Some(1 << 20)));
        assert_eq!(args.topology().expect("valid").shard_count(), 2);
        assert!(parsed(&["--nodes=a:1"]).expect("valid").embedded(7).is_none());
    }

    #[test]
    fn a_discovered_topology_begins_without_nodes() {
        let cluster = parsed(&["--cluster=10.0.0.1:6379,[::1]:6379"]).expect("valid");
        assert_eq!((cluster.databases(), cluster.embedded(7).is_none()), (1, true));
        assert!(cluster.topology().expect("valid").is_cluster());
        let flags = ["--sentinel=a:26379,b:26379", "--master=orders,carts", "--distribution=ketama"];
        let sentinel = parsed(&flags).expect("valid");
        let topology = sentinel.topology().expect("valid");
        let names: Vec<_> = topology.shards().iter().map(|shard| shard.name.as_str()).collect();
        assert_eq!((names, sentinel.databases()), (vec!["orders", "carts"], 16));
        assert!(topology.shards().iter().all(|shard| shard.primary.is_none()));
    }

    #[test]
    fn port_0_takes_a_free_one_unless_there_is_another_way_in() {
        let plain = |words: &[&str]| parsed(words).expect("valid").has_plain_port();
        let tls = ["--tls-port=6390", "--tls-cert-file=a", "--tls-key-file=b"];
        assert!(plain(&["--port=0"]) && plain(&tls) && plain(&["--unixsocket=a"]));
        assert!(!plain(&["--port=0", "--unixsocket=a"]) && !plain(&["--port=0", "--listener=/a"]));
        assert!(!plain(&[&tls[..], &["--port=0"]].concat()));
    }

    #[test]
    fn refusals_name_the_fault() {
        let cases: &[(&[&str], &str)] = &[
            (&["--nodes=a:1", "--store-shards=2"], "--store-shards"),
            (&["--store-shards=0"], "--store-shards"),
            (&["--databases=0"], "--databases"),
            (&["--maxclients=0"], "--maxclients 0"),
            (&["--databases=20000"], "--databases"),
            (&["--databases=17"], "name nodes with --nodes"),
            (&["--store-memory=lots"], "write bytes"),
            (&["--nodes="], "--nodes"),
            (&["--nodes=127.0.0.1:99999"], "99999"),
            (&["--nodes=a:1", "--port=x"], "'x'"),
            (&["--nodes=a:1", "--SO_REUSEPORT=yes"], "--reuse-port"),
            (&["--nodes=a:1", "--hash=sha1"], "sha1"),
            (&["--nodes=a:1", "--distribution=rendezvous"], "rendezvous"),
            (&["--nodes=a:1", "--tag-rule=abc"], "abc"),
            (&["--nodes=a:1", "--request-timeout-ms=0"], "--request-timeout-ms"),
            (&["--nodes=a:1", "--cross-shard=split"], "write refuse or emulate"),
            (&["--nodes=a:1", "--transactions=all"], "write one-shard or per-shard"),
            (&["--nodes=a:1,a:1"], "a:1"),
            (&["--nodes=a:1", "--host=999.1.1.1"], "--host 999.1.1.1"),
            (&["--tls-port=6390"], "--tls-cert-file"),
            (&["--tls-cert-file=a", "--tls-key-file=b"], "--tls-port"),
            (&["--tls-port=6390", "--tls-cert-file=a"], "--tls-key-file"),
            (&["--tls-port=6380", "--tls-cert-file=a", "--tls-key-file=b"], "--port has this port already"),
            (&["--tls-auth-clients=yes"], "--tls-ca-cert-file"),
            (&["--tls-ca-cert-file=a", "--tls-auth-clients=perhaps"], "perhaps"),
            (&["--unixsocketperm=770"], "--unixsocket"),
            (&["--unixsocket=a", "--unixsocketperm=abc"], "in octal"),
            (&["--listener=6381"], "write an address"),
            (&["--listener=127.0.0.1:6380"], "--port has this address already"),
            (&["--listener=127.0.0.1:1 tls"], "--listener 127.0.0.1:1 tls needs --tls-cert-file"),
            (&["--listener=127.0.0.1:1", "--listener=127.0.0.1:1 read-from=primary"], "twice"),
            (&["--unixsocket=/a", "--listener=/a"], "--unixsocket has this address already"),
            (&["--listener=127.0.0.1:1 read-from=replica"], "no node has a replica"),
            (&["--listener=127.0.0.1:1 read-from=slave"], "prefer-replica"),
            (&["--node-tls"], "name them with --nodes"),
            (&["--nodes=a:1", "--node-tls-server-name=b"], "--node-tls"),
            (&["--nodes=a:1", "--node-tls", "--node-tls-cert-file=a"], "--node-tls-key-file"),
            (
                &["--nodes=a:1", "--node-tls", "--node-tls-insecure", "--node-tls-ca-cert-file=a"],
                "cannot be used",
            ),
            (&["--nodes=a:1", "--nonsense"], "--nonsense"),
            (&["--requirepass=secret", "--acl-file=x"], "--acl-file"),
            (&["--node-auth-file=x"], "--nodes"),
            (&["--cluster=a:1", "--nodes=b:1"], "cannot be used with"),
            (&["--cluster=a:1", "--sentinel=b:1", "--master=c"], "cannot be used with"),
            (&["--cluster=a:1", "--distribution=ketama"], "--distribution"),
            (&["--cluster=a:1", "--tag-rule=sml"], "--tag-rule"),
            (&["--cluster=a:1", "--like=codis"], "a Redis Cluster places its keys itself"),
            (&["--nodes=a:1", "--like=envoy"], "write twemproxy, redis-sharding,"),
            (&["--cluster=a:1", "--store-shards=2"], "--store-shards"),
            (&["--cluster=a:1", "--databases=2"], "database 0 alone"),
            (&["--cluster=a"], "--cluster"),
            (&["--cluster=a:1:2"], "just the address"),
            (&["--cluster=a:1", "--refresh-period-ms=1"], "--refresh-period-ms"),
            (&["--sentinel=a:1"], "--master"),
            (&["--master=a"], "--sentinel"),
            (&["--sentinel=a:1", "--master=b,c,b"], "twice"),
            (&["--sentinel=a:1", "--master=b,,c"], "a name is made of"),
            (&["--sentinel=a:1 x", "--master=b"], "just the address"),
            (&["--sentinel=a:1", "--master=b", "--sentinel-tls"], "--node-tls"),
            (&["--sentinel=a:1", "--master=b", "--sentinel-user=x"], "--sentinel-auth-file"),
            (&["--nodes=a:1", "--node-user=x"], "--node-auth-file"),
            (&["--protected-mode=maybe"], "write yes or no"),
            (&["--namespace-scripts"], "--user-namespace"),
            (&["--nodes=a:1", "--auth=nodes", "--user-namespace=bob:b/"], "leave --user-namespace out"),
            (&["--auth=nodes"], "shards in memory have no users"),
            (&["--nodes=a:1", "--auth=here"], "write proxy or nodes"),
            (&["--nodes=a:1", "--auth=nodes", "--acl-file=x"], "leave --acl-file out"),
            (&["--nodes=a:1", "--auth=nodes", "--requirepass=secret"], "leave --requirepass out"),
            (&["--requirepass="], "there is no password"),
        ];
        for (words, named) in cases {
            let error = parsed(words).expect_err("unusable");
            assert!(error.contains(named) && !error.contains('\n'), "{words:?}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let args = parsed(&["--requirepass=secret"]).expect("valid");
        assert!(!format!("{args:?} {:?}", args.users()).contains("secret"));
    }
}
