//! Options of pools whose data has a whole copy in each of several racks.

use super::bytes::parse_bytes;
use crate::racks::RackPool;
use clap::Args;
use proxy::Credentials;
use racks::{Level, Login, RACKS_MAX, Rack, Settings, TokenShard, token_shards};
use std::collections::HashSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use store::Scratch;
use topology::{Address, Distribution, NodeSpec, parse_nodes};

/// Keys that the background comparison looks at in a second, per shard.
const COMPARED_PER_SECOND: u32 = 200;

/// The racks.
#[derive(Args, Clone, Debug)]
pub(crate) struct RackArgs {
    /// Rack, a whole copy of the data, with its data centre: dc1/a=host:port,host:port. Once for each rack, with the nodes
    /// in the same order; or each with @TOKEN as in dynomite (docs/racks.md)
    #[arg(long, value_name = "DC/RACK=NODES", value_parser = RackArg::from_str, group = "far", requires = "hint_log",
          conflicts_with_all = ["nodes", "store_shards", "store_memory", "store_policy"])]
    rack: Vec<RackArg>,

    /// Rack that reads prefer, as DC/RACK, and whose data centre counts for quorums [default: the first]
    #[arg(long, value_name = "DC/RACK", requires = "rack")]
    local_rack: Option<String>,

    /// Copies that decide about a read: DC_ONE, DC_QUORUM (most racks of the local data centre), DC_SAFE_QUORUM (and they
    /// agree) or DC_EACH_SAFE_QUORUM (in each data centre)
    #[arg(long, value_name = "LEVEL", default_value = "DC_ONE", value_parser = Level::from_str, requires = "rack")]
    read_consistency: Level,

    /// Copies that decide about a write, in the same words
    #[arg(long, value_name = "LEVEL", default_value = "DC_ONE", value_parser = Level::from_str, requires = "rack")]
    write_consistency: Level,

    /// Folder of the hint log, which keeps the keys that a rack has missed, also over a restart
    #[arg(long, value_name = "PATH", requires = "rack")]
    hint_log: Option<PathBuf>,

    /// Limit of the hints of all racks; a rack that reaches its share is stale, and repaired key by key
    #[arg(long, value_name = "BYTES", default_value = "64mb", value_parser = parse_bytes, requires = "rack")]
    hint_log_max: usize,
}

/// One rack.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RackArg {
    rack: Rack,
    nodes: Vec<NodeSpec>,
}

impl FromStr for RackArg {
    type Err = String;

    fn from_str(text: &str) -> Result<RackArg, String> {
        let form = "write dc1/a=10.0.0.1:6379,10.0.0.2:6379";
        let (name, nodes) = text.split_once('=').ok_or(form)?;
        let (dc, rack) = name.split_once('/').ok_or(form)?;
        if !NodeSpec::is_zone(dc) || !NodeSpec::is_zone(rack) {
            return Err(format!(
                "{name:?}: names have letters, digits, dots, dashes and underscores; {form}"
            ));
        }
        let nodes = nodes.split(',').map(node).collect::<Result<Vec<NodeSpec>, String>>()?;
        Ok(RackArg { rack: Rack { dc: dc.to_owned(), name: rack.to_owned() }, nodes })
    }
}

/// A node, perhaps with a token.
fn node(text: &str) -> Result<NodeSpec, String> {
    let (node, token) = match text.rsplit_once('@') {
        Some((node, token)) => {
            let number = token.parse::<u32>();
            let why =
                |_| format!("node {text:?}: a token is a number below 4294967296, as in 10.0.0.1:6379@100");
            (node, Some(number.map_err(why)?))
        }
        None => (text, None),
    };
    let nodes = parse_nodes(node).map_err(|error| error.to_string())?;
    let Ok([node]) = <[NodeSpec; 1]>::try_from(nodes) else {
        return Err(format!("node {text:?} is no node"));
    };
    if !node.replicas.is_empty() {
        return Err(format!(
            "node {text:?}: the copies of a rack's node are in the other racks, so it has no replicas"
        ));
    }
    Ok(NodeSpec { tokens: token.into_iter().collect(), ..node })
}

impl RackArgs {
    pub(crate) fn is_given(&self) -> bool {
        !self.rack.is_empty()
    }

    /// All faults that single options do not show.
    pub(crate) fn check(&self, distribution: Option<Distribution>) -> Result<(), String> {
        if !self.is_given() {
            return Ok(());
        }
        if self.rack.len() > RACKS_MAX {
            return Err(format!("--rack: at most {RACKS_MAX} racks"));
        }
        let mut names = HashSet::new();
        if let Some(twice) = self.rack.iter().find(|rack| !names.insert(rack.rack.to_string())) {
            return Err(format!("--rack {}: the rack is there twice", twice.rack));
        }
        let mut nodes = HashSet::new();
        let twice = |node: &&NodeSpec| !nodes.insert(node.address.canonical());
        if let Some(twice) = self.rack.iter().flat_map(|rack| &rack.nodes).find(twice) {
            return Err(format!("--rack: the node {} is there twice; each has one copy", twice.address));
        }
        self.local()?;
        if self.has_tokens() && distribution.is_some() {
            return Err(
                "--distribution: the nodes of racks have tokens, which divide the keys; leave it out"
                    .to_owned(),
            );
        }
        self.shards().map(drop)
    }

    /// The place of the local rack.
    fn local(&self) -> Result<usize, String> {
        let Some(name) = &self.local_rack else { return Ok(0) };
        let found = self.rack.iter().position(|rack| rack.rack.to_string() == *name);
        found.ok_or_else(|| format!("--local-rack {name}: no --rack has this name"))
    }

    fn has_tokens(&self) -> bool {
        self.rack.iter().flat_map(|rack| &rack.nodes).any(|node| !node.tokens.is_empty())
    }

    /// The shards, each with its node in each rack.
    fn shards(&self) -> Result<Vec<TokenShard>, String> {
        let first = &self.rack[0];
        if !self.has_tokens() {
            if let Some(other) = self.rack.iter().find(|other| other.nodes.len() != first.nodes.len()) {
                let (one, many) = (other.nodes.len(), first.nodes.len());
                return Err(format!(
                    "--rack {}: this rack has {one} nodes, and {} has {many}; without tokens all have as many, in the same order",
                    other.rack, first.rack
                ));
            }
            let shard = |node| TokenShard { nodes: vec![node; self.rack.len()], tokens: Vec::new() };
            return Ok((0..first.nodes.len()).map(shard).collect());
        }
        let nodes = self.rack.iter().flat_map(|rack| &rack.nodes);
        if let Some(node) = nodes.clone().find(|node| node.tokens.is_empty()) {
            return Err(format!("--rack: the node {} has no token, and others have one", node.address));
        }
        let tokens =
            |rack: &RackArg| rack.nodes.iter().flat_map(|node| node.tokens.iter().copied()).collect();
        token_shards(&self.rack.iter().map(tokens).collect::<Vec<Vec<u32>>>()).map_err(|overlap| {
            let rack = &self.rack[overlap.rack];
            format!(
                "--rack {}: the node {} shares keys with several nodes of another rack; give nodes with the same keys the same token",
                rack.rack, rack.nodes[overlap.node].address
            )
        })
    }

    /// A line about the racks, if there are any.
    pub(crate) fn describe(&self) -> Option<String> {
        let local = self.rack.get(self.local().ok()?)?;
        let names: Vec<String> = self.rack.iter().map(|rack| rack.rack.to_string()).collect();
        let (read, write) = (self.read_consistency, self.write_consistency);
        let count = names.len();
        let names = names.join(" ");
        Some(format!(
            "a copy in each of {count} racks: {names} (local: {}; reads {read}, writes {write})",
            local.rack
        ))
    }

    /// The shards as the nodes of a topology, and their distribution, if tokens decide it. They have the names and weights of
    /// the local rack's nodes.
    pub(crate) fn nodes(&self) -> Result<(Vec<NodeSpec>, Option<Distribution>), String> {
        let local = &self.rack[self.local()?];
        let node = |(number, shard): (u32, TokenShard)| {
            let node = &local.nodes[shard.nodes[self.local().unwrap_or_default()]];
            let name = Some(node.ring_name());
            NodeSpec { weight: node.weight, name, tokens: shard.tokens, ..NodeSpec::embedded(number) }
        };
        let nodes = (0..).zip(self.shards()?).map(node).collect();
        Ok((nodes, self.has_tokens().then_some(Distribution::Tokens)))
    }

    /// The racks to serve, if there are any.
    pub(crate) fn pool(&self, login: &Credentials, timeout: Duration) -> Result<Option<RackPool>, String> {
        let Some(hint_log) = self.hint_log.clone().filter(|_| self.is_given()) else { return Ok(None) };
        let shards = self.shards()?;
        let settings = Settings {
            racks: self.rack.iter().map(|rack| rack.rack.clone()).collect(),
            local: self.local()?,
            read: self.read_consistency,
            write: self.write_consistency,
            timeout,
            hint_bytes_max: self.hint_log_max / (shards.len() * self.rack.len()).max(1),
            login: login.request().map(|request| Login(request.to_vec())),
            evaluator: Scratch::boxed,
            compared_per_second: COMPARED_PER_SECOND,
        };
        let address = |(rack, node): (&RackArg, &usize)| rack.nodes[*node].address.clone();
        let nodes = |shard: &TokenShard| -> Vec<Address> {
            self.rack.iter().zip(&shard.nodes).map(address).collect()
        };
        Ok(Some(RackPool { settings, shards: shards.iter().map(nodes).collect(), hint_log }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ProxyArgs;
    use clap::Parser;

    fn racks(words: &[&str]) -> RackArgs {
        let words = ["proxy"].iter().chain(words).copied().chain(["--hint-log=/tmp/x"]);
        ProxyArgs::try_parse_from(words).expect("valid words").store.racks
    }

    #[test]
    fn nodes_of_racks_are_paired_by_their_places() {
        let args = racks(&["--rack=d/a=h:1,h:2", "--rack=d/b=h:3,h:4", "--local-rack=d/b"]);
        assert_eq!(args.check(None), Ok(()));
        let pool = args.pool(&Credentials::default(), Duration::from_secs(1)).expect("valid").expect("racks");
        let shard = |one, other| vec![NodeSpec::tcp("h", one).address, NodeSpec::tcp("h", other).address];
        assert_eq!((pool.shards, pool.settings.local), (vec![shard(1, 3), shard(2, 4)], 1));
        let line = "a copy in each of 2 racks: d/a d/b (local: d/b; reads DC_ONE, writes DC_ONE)";
        assert_eq!(args.describe().as_deref(), Some(line));
        let (nodes, distribution) = args.nodes().expect("valid");
        let names: Vec<String> = nodes.iter().map(NodeSpec::label).collect();
        assert_eq!((names, distribution), (vec!["h:3".to_owned(), "h:4".to_owned()], None));
    }

    #[test]
    fn nodes_of_racks_are_paired_by_their_tokens() {
        let args = racks(&["--rack=d/a=h:1@100,h:2@200", "--rack=d/b=h:3@200,h:4@100"]);
        assert_eq!(args.check(None), Ok(()));
        let (nodes, distribution) = args.nodes().expect("valid");
        assert_eq!((nodes[1].tokens.clone(), distribution), (vec![200], Some(Distribution::Tokens)));
        let pool = args.pool(&Credentials::default(), Duration::from_secs(1)).expect("valid").expect("racks");
        assert_eq!(pool.shards[1][1], NodeSpec::tcp("h", 3).address);
        assert!(args.check(Some(Distribution::Ketama)).is_err());
    }

    #[test]
    fn racks_that_do_not_fit_are_refused() {
        let refusal = |words: &[&str]| racks(words).check(None).expect_err("it does not fit");
        assert_eq!(
            refusal(&["--rack=d/a=h:1,h:2", "--rack=d/b=h:3"]),
            "--rack d/b: this rack has 1 nodes, and d/a has 2; without tokens all have as many, in the same order"
        );
        assert_eq!(refusal(&["--rack=d/a=h:1", "--rack=d/a=h:2"]), "--rack d/a: the rack is there twice");
        assert_eq!(
            refusal(&["--rack=d/a=h:1", "--rack=d/b=h:1"]),
            "--rack: the node h:1 is there twice; each has one copy"
        );
        assert_eq!(
            refusal(&["--rack=d/a=h:1", "--local-rack=d/c"]),
            "--local-rack d/c: no --rack has this name"
        );
        assert_eq!(
            refusal(&["--rack=d/a=h:1@1,h:2@3", "--rack=d/b=h:3@1,h:4@2"]),
            "--rack d/a: the node h:2 shares keys with several nodes of another rack; give nodes with the same keys the same token"
        );
        for text in ["d=h:1", "d/a", "d/a=h", "d/a=h:1|h:2", "d/a=h:1@x", "d a/b=h:1"] {
            assert!(text.parse::<RackArg>().is_err(), "{text}");
        }
    }
}
