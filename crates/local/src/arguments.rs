//! The arguments of `shardis local`, and their meaning.

use super::layout::Shape;
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The arguments of `shardis local`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    next_line_help = true,
    after_help = "Examples:
  shardis local                                four plain nodes
  shardis local --nodes=2 --proxy=6380         two, and shardis in front of them at port 6380
  shardis local --replication=2 --sets=3       three primaries, each with a replica
  shardis local --sentinel                     the same, watched by three sentinels
  shardis local --cluster=6                    a Redis Cluster of three primaries and three replicas
  shardis local --cluster=6 --keep=data        its data stays in the folder data; the same command brings it back
  shardis local --proxy -- --workers=1         arguments after -- are for the proxy"
)]
pub struct LocalArgs {
    /// Plain nodes, independent of each other [default: 4, without other topologies]
    #[arg(long, value_name = "NODES", conflicts_with_all = ["replication", "sets", "sentinel", "cluster"])]
    nodes: Option<u16>,

    /// Nodes per set: 2 is a primary and its replica [default: 2]
    #[arg(long, value_name = "NODES", conflicts_with = "cluster")]
    replication: Option<u16>,

    /// Sets of a primary and its replicas [default: 3]
    #[arg(long, value_name = "SETS", conflicts_with = "cluster")]
    sets: Option<u16>,

    /// Three sentinels that watch the sets, by the names set-0, set-1, …
    #[arg(long, conflicts_with = "cluster")]
    sentinel: bool,

    /// Nodes of a Redis Cluster: half of them replicas, but at least three primaries
    #[arg(long, value_name = "NODES")]
    cluster: Option<u16>,

    /// Port of a shardis proxy in front of the nodes; without a value, a free port
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    proxy: Option<u16>,

    /// Port of the first node. Other nodes, then sentinels, then the proxy take the next ones [default: free ports]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Folder for data and topology; without other arguments, its topology is started again [default: none, nothing is
    /// kept]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Server program [default: redis-server or valkey-server, the first on PATH]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,

    /// Failover timeout: silence of a primary until a replica takes over, in a cluster or with --sentinel (1500 at
    /// least)
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..))]
    failover_ms: u32,

    /// Addresses as one line of JSON, printed when everything is ready
    #[arg(long)]
    json: bool,

    /// Arguments of shardis proxy
    #[arg(last = true, value_name = "PROXY ARGUMENTS", requires = "proxy")]
    proxy_arguments: Vec<OsString>,

    /// Folder for data, given by the supervisor process
    #[arg(long, hide = true, value_name = "FOLDER")]
    supervised: Option<PathBuf>,
}

/// The most nodes. More would be a mistake: each is a process with threads of its own.
const NODES_MAX: u16 = 256;
/// Fewer make no cluster whose primaries agree on a failover.
const CLUSTER_NODES_MIN: u16 = 3;
/// The lower bound of the failover time. Sentinels ask a primary that they have just made one for the first time after a second
/// (or `down-after-milliseconds`, if that is less). With 1000 ms they may take it for dead before it could answer. They then
/// make the old one the primary again, and the writes in between are lost. (Redis 7.0.15: in one of 72 failovers on an idle
/// machine, in 3 of 30 on a busy one.)
const SENTINEL_FAILOVER_MS_MIN: u32 = 1500;

impl LocalArgs {
    /// Refuses what single options cannot see.
    pub fn check(&self) -> Result<(), String> {
        for (name, count, least) in [
            ("--nodes", self.nodes, 1),
            ("--replication", self.replication, 1),
            ("--sets", self.sets, 1),
            ("--cluster", self.cluster, CLUSTER_NODES_MIN),
        ] {
            if let Some(count) = count
                && !(least..=NODES_MAX).contains(&count)
            {
                return Err(format!("{name} {count}: must be {least} to {NODES_MAX}"));
            }
        }
        let nodes = self.shape().map_or(0, |shape| shape.members().len());
        if nodes > usize::from(NODES_MAX) {
            return Err(format!("--sets and --replication make {nodes} nodes: at most {NODES_MAX}"));
        }
        let ms = self.failover_ms;
        if self.sentinel && ms < SENTINEL_FAILOVER_MS_MIN {
            return Err(format!(
                "--failover-ms={ms}: must be at least {SENTINEL_FAILOVER_MS_MIN} with --sentinel; sentinels ask once a second, and would \
                 take new primaries for dead"
            ));
        }
        Ok(())
    }

    /// The requested topology; `None` if no argument names one.
    pub(super) fn shape(&self) -> Option<Shape> {
        if let Some(nodes) = self.nodes {
            return Some(Shape::Nodes { nodes });
        }
        if let Some(nodes) = self.cluster {
            return Some(Shape::Cluster { nodes });
        }
        let any = self.sentinel || self.sets.is_some() || self.replication.is_some();
        any.then(|| Shape::Sets {
            sets: self.sets.unwrap_or(3),
            nodes: self.replication.unwrap_or(2),
            sentinel: self.sentinel,
        })
    }

    /// The port for the proxy, if one is requested; 0 is any.
    pub(super) fn proxy(&self) -> Option<u16> {
        self.proxy
    }

    pub(super) fn proxy_arguments(&self) -> &[OsString] {
        &self.proxy_arguments
    }

    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    pub(super) fn keep(&self) -> Option<&Path> {
        self.keep.as_deref()
    }

    pub(super) fn binary(&self) -> Option<&Path> {
        self.binary.as_deref()
    }

    pub(super) fn failover_ms(&self) -> u32 {
        self.failover_ms
    }

    pub(super) fn json(&self) -> bool {
        self.json
    }

    pub(super) fn supervised(&self) -> Option<&Path> {
        self.supervised.as_deref()
    }
}
