//! The answer to `/readyz`: whether a load balancer may send clients.

use crate::facts::Facts;
use proxy::NodeState;
use std::str::FromStr;

/// The shards that must be up for the process to be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyShards {
    /// All of them.
    All,
    /// At least as many, or all if there are fewer.
    AtLeast(usize),
}

impl FromStr for ReadyShards {
    type Err = String;

    fn from_str(text: &str) -> Result<ReadyShards, String> {
        match text {
            "all" => Ok(ReadyShards::All),
            text => {
                let count = text.parse().map_err(|_| "write a number of shards, or all".to_owned())?;
                Ok(ReadyShards::AtLeast(count))
            }
        }
    }
}

impl ReadyShards {
    /// `Ok` if the process is ready, and else the reason why it is not.
    pub(crate) fn check(self, facts: &Facts) -> Result<(), String> {
        if facts.is_draining {
            return Err("draining".to_owned());
        }
        let shards = facts.topology.as_ref().map_or(0, |topology| topology.owners().len());
        if !facts.nodes.iter().any(|node| node.is_primary) {
            return Err("no topology yet".to_owned());
        }
        let up = facts.nodes.iter().filter(|node| node.is_primary && node.state == Some(NodeState::Up));
        let up = up.count();
        let wanted = match self {
            ReadyShards::All => shards,
            ReadyShards::AtLeast(count) => count.min(shards),
        };
        if up < wanted { Err(format!("{up} of {shards} shards up, {wanted} wanted")) } else { Ok(()) }
    }
}
