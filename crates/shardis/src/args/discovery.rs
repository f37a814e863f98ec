//! Arguments for discovered topologies: seeds of a Redis Cluster, or sentinels and names.

// tidy: allow(master): Sentinel's word, as its operators know it

use crate::access::Secret;
use clap::Args;
use doctor::{Kind, Member, Source};
use std::path::PathBuf;
use std::time::Duration;
use topology::discovery::{
    ClusterDiscovery, ClusterSettings, Discovery, SentinelDiscovery, SentinelSettings,
};
use topology::{Address, NodeSpec, Topology, TopologySpec, parse_nodes};

/// Where the topology is to be learned.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DiscoveryArgs {
    /// Seed nodes of a Redis Cluster, separated by commas: host:port, [v6]:port or unix:/path. shardis discovers the
    /// other nodes, replicas and slots from them (docs/cluster.md)
    #[expect(rustdoc::broken_intra_doc_links, reason = "an address of IPv6 in brackets")]
    #[arg(
        long,
        value_name = "NODE,NODE,…",
        group = "far",
        conflicts_with_all = ["store_shards", "store_memory", "store_policy", "distribution", "hash", "tag_rule"]
    )]
    cluster: Option<String>,

    /// Sentinels of the primaries in --master, separated by commas; name all of them (docs/sentinel.md)
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        group = "far",
        requires = "master",
        conflicts_with_all = ["store_shards", "store_memory", "store_policy"]
    )]
    sentinel: Option<String>,

    /// Names of the primaries as in sentinel monitor NAME …, one shard each. Their order decides where keys live, as
    /// with --nodes
    #[arg(long, value_name = "NAME,NAME,…", requires = "sentinel")]
    master: Option<String>,

    /// Password for sentinels (AUTH). The list of processes shows it; use --sentinel-auth-file to hide it
    #[arg(long, value_name = "PASSWORD", value_parser = Secret::parse, requires = "sentinel", group = "sentinel_password")]
    sentinel_auth: Option<Secret>,

    /// File with the password for sentinels (AUTH) in its first line
    #[arg(long, value_name = "PATH", requires = "sentinel", group = "sentinel_password")]
    sentinel_auth_file: Option<PathBuf>,

    /// User name for --sentinel-auth-file; without it, the default user
    #[arg(long, value_name = "NAME", requires = "sentinel_password")]
    sentinel_user: Option<String>,

    /// TLS to sentinels too, with the files of --node-tls
    #[arg(long, requires_all = ["sentinel", "node_tls"])]
    pub(crate) sentinel_tls: bool,

    /// Discovery period with --cluster or --sentinel. Redirects and lost nodes trigger discovery at once
    #[arg(long, value_name = "MS", default_value_t = REFRESH_PERIOD_MS, value_parser = clap::value_parser!(u64).range(100..))]
    refresh_period_ms: u64,
}

const REFRESH_PERIOD_MS: u64 = 10_000;

/// The most names of shards: more than any set of sentinels watches.
const NAMES_MAX: usize = 1024;

impl DiscoveryArgs {
    /// The value of `--sentinel-auth`.
    pub(super) fn secret(&self) -> Option<&Secret> {
        self.sentinel_auth.as_ref()
    }

    /// Whether there is anything to be discovered.
    pub(crate) fn is_given(&self) -> bool {
        self.cluster.is_some() || self.sentinel.is_some()
    }

    /// Whether the period is not the default.
    pub(super) fn has_own_period(&self) -> bool {
        ![0, REFRESH_PERIOD_MS].contains(&self.refresh_period_ms)
    }

    /// Whether it is a Redis Cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// Refuses invalid values.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.seeds()?;
        self.sentinels()?;
        self.names().map(|_| ())
    }

    fn seeds(&self) -> Result<Vec<Address>, String> {
        addresses("--cluster", self.cluster.as_deref())
    }

    fn sentinels(&self) -> Result<Vec<Address>, String> {
        addresses("--sentinel", self.sentinel.as_deref())
    }

    fn names(&self) -> Result<Vec<String>, String> {
        let Some(list) = &self.master else { return Ok(Vec::new()) };
        let names: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
        // Sentinel itself allows these in names.
        let is_name = |name: &String| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
        };
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            return Err(format!(
                "--master {name:?}: a name is made of letters, digits, dots, hyphens and underscores"
            ));
        }
        if let Some(name) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            return Err(format!(
                "--master {:?}: the name is given twice; each shard has a name of its own",
                name.1
            ));
        }
        if names.len() > NAMES_MAX {
            return Err(format!("--master: {} names; at most {NAMES_MAX}", names.len()));
        }
        Ok(names)
    }

    /// The topology before the first discovery: shards without nodes. `spec` distributes keys over the shards of sentinels.
    pub(crate) fn topology(&self, spec: TopologySpec) -> Result<Topology, String> {
        if self.is_cluster() {
            return Ok(Topology::of_unknown_cluster(1));
        }
        let topology = Topology::new(1, &self.named(spec)?).map_err(|error| error.to_string())?;
        Ok(topology.without_nodes())
    }

    /// `spec` with a shard for each name that sentinels watch.
    fn named(&self, spec: TopologySpec) -> Result<TopologySpec, String> {
        let named =
            |(name, number): (String, u32)| NodeSpec { name: Some(name), ..NodeSpec::embedded(number) };
        let nodes = self.names()?.into_iter().zip(0..).map(named).collect();
        Ok(TopologySpec { nodes, ..spec })
    }

    /// The first members to ask, for `shardis doctor`, with their source and with the shards of `spec`.
    pub(crate) fn first_asked(
        &self,
        spec: TopologySpec,
        is_tls: bool,
    ) -> Result<(Source, TopologySpec, Vec<Member>), String> {
        let all = |places: Vec<Address>, kind: Kind| {
            places.into_iter().map(|place| Member::new(place, kind.clone())).collect()
        };
        if self.is_cluster() {
            return Ok((Source::Cluster, spec, all(self.seeds()?, Kind::ClusterNode { is_tls })));
        }
        let (sentinels, names) = (self.sentinels()?, self.names()?.into());
        let members = all(sentinels.clone(), Kind::Sentinel { names });
        Ok((Source::Sentinels(sentinels), self.named(spec)?, members))
    }

    /// Whether a file has the password for sentinels.
    pub(super) fn has_secret_file(&self) -> bool {
        self.sentinel_auth_file.is_some() || self.sentinel_auth.as_ref().is_some_and(Secret::is_file)
    }

    /// The credentials for sentinels, by the present text of the file.
    pub(crate) fn sentinel_credentials(&self) -> Result<proxy::Credentials, String> {
        let user = self.sentinel_user.as_deref();
        match (&self.sentinel_auth, &self.sentinel_auth_file) {
            (Some(password), _) => Ok(password.again("--sentinel-auth")?.credentials(user)),
            (None, Some(path)) => Ok(Secret::read("--sentinel-auth-file", path)?.credentials(user)),
            (None, None) => Ok(proxy::Credentials::default()),
        }
    }

    /// The discovery, if the arguments ask for one. `node` has the credentials for nodes.
    pub(crate) fn machine(
        &self,
        node: &proxy::Credentials,
        is_tls: bool,
        seed: u64,
    ) -> Result<Option<Discovery>, String> {
        let period = Duration::from_millis(self.refresh_period_ms);
        let node_greeting = node.request().map(<[u8]>::to_vec);
        if self.is_cluster() {
            let (seeds, greeting) = (self.seeds()?, node_greeting);
            let settings = ClusterSettings { seeds, period, is_tls, greeting, seed };
            return Ok(Some(Discovery::Cluster(Box::new(ClusterDiscovery::new(settings)))));
        }
        if self.sentinel.is_none() {
            return Ok(None);
        }
        let sentinel = self.sentinel_credentials()?;
        let settings = SentinelSettings {
            sentinels: self.sentinels()?,
            names: self.names()?,
            period,
            sentinel_greeting: sentinel.request().map(<[u8]>::to_vec),
            node_greeting,
            seed,
        };
        Ok(Some(Discovery::Sentinel(Box::new(SentinelDiscovery::new(settings)))))
    }

    /// The sources of discovery, as the first lines of the log say them.
    pub(crate) fn describe(&self) -> String {
        match (&self.cluster, &self.sentinel, &self.master) {
            (Some(seeds), ..) => format!("shards as the cluster says, beginning with {seeds}"),
            (_, Some(sentinels), Some(names)) => format!("shards {names}, where sentinels say: {sentinels}"),
            _ => String::new(),
        }
    }
}

/// The addresses in `list`, of `option`.
fn addresses(option: &str, list: Option<&str>) -> Result<Vec<Address>, String> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let nodes = parse_nodes(list).map_err(|error| format!("{option}: {error}"))?;
    match nodes.iter().find(|node| **node != NodeSpec::at(node.address.clone())) {
        Some(node) => Err(format!(
            "{option} {}: write just the address; weights, names, zones and replicas have no use here",
            node.address
        )),
        None => Ok(nodes.into_iter().map(|node| node.address).collect()),
    }
}
