//! Options of shards of this process: in memory, or over copies in racks.

use super::parse_bytes;
use super::racks::RackArgs;
use clap::Args;
use std::str::FromStr;
use store::EvictionPolicy;

/// The shards of a proxy that names no node for each.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    pub(crate) racks: RackArgs,

    /// Number of in-memory shards, used without --nodes
    #[arg(long, value_name = "SHARDS", default_value_t = 4)]
    pub(super) store_shards: u32,

    /// Memory limit of all in-memory shards together, such as 512mb or 2gb; without it, none. At the limit --store-policy
    /// applies
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(super) store_memory: Option<usize>,

    /// Eviction policy of in-memory shards, by Redis's names: noeviction, allkeys-lru, volatile-ttl, …
    #[arg(long, value_name = "POLICY", default_value = "noeviction", value_parser = EvictionPolicy::from_str)]
    pub(super) store_policy: EvictionPolicy,

    /// Time limit of a script or function in a shard in memory, in milliseconds. The script is then ended with an error; its
    /// writes so far remain
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub(super) lua_time_limit: u64,
}
