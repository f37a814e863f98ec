//! Where reads go, and what becomes of a shard whose primary is down: the arguments for it.

use crate::args::parse_bytes;
use clap::Args;
use proxy::{Ejecting, ReadFrom, Reading};
use std::str::FromStr;
use std::time::Duration;
use topology::{Distribution, Topology};

/// What of the command line concerns reads from replicas, and nodes that are down.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReadingArgs {
    /// Where reads go: primary, prefer-primary (a replica while it is down), replica, prefer-replica (the primary while no
    /// replica is fit), any, nearest (who answers soonest) or zone (a replica of --zone, then its primary, then others). A
    /// client reads its own writes in any case, unless its primary is down (docs/replicas.md)
    #[arg(long, value_name = "POLICY", default_value = "primary", value_parser = ReadFrom::from_str)]
    read_from: ReadFrom,

    /// The zone in which this proxy is, as in --nodes=a:6379@zone-a|b:6379@zone-b --read-from=zone
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// Do not read from a replica that lacks more bytes of its primary's stream of changes, such as 1mb
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    replica_lag_max: Option<usize>,

    /// What becomes of requests for a shard whose primary is down: fail, replica (reads go to a replica, whatever
    /// --read-from says), or remap (its keys go to other shards: for caches only, as twemproxy's auto_eject_hosts)
    #[arg(long, value_name = "fail|replica|remap", default_value = "fail", value_parser = OnNodeDown::from_str)]
    on_node_down: OnNodeDown,

    /// With --on-node-down=remap: failures one after another after which a node is left out
    #[arg(long, visible_alias = "server-failure-limit", value_name = "FAILURES", default_value_t = 2)]
    node_failure_limit: u32,

    /// With --on-node-down=remap: milliseconds for which it is left out at least; it comes back when it answers PING
    #[arg(long, visible_alias = "server-retry-timeout", value_name = "MS", default_value_t = 30_000)]
    node_retry_timeout_ms: u64,
}

/// What becomes of requests for a shard whose primary is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnNodeDown {
    Fail,
    Replica,
    Remap,
}

impl FromStr for OnNodeDown {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "fail" => Ok(OnNodeDown::Fail),
            "replica" => Ok(OnNodeDown::Replica),
            "remap" => Ok(OnNodeDown::Remap),
            _ => Err("write fail, replica or remap".to_owned()),
        }
    }
}

impl ReadingArgs {
    /// Refuses what cannot be over `topology`, whose nodes were named with --nodes or are this process's own.
    pub(crate) fn check(&self, has_nodes: bool, topology: &Topology) -> Result<(), String> {
        if self.read_from == ReadFrom::Zone && self.zone.is_none() {
            return Err("--read-from=zone: say with --zone where this proxy is".to_owned());
        }
        if self.node_failure_limit == 0 {
            return Err("--node-failure-limit 0: at least 1, or nobody would be let in".to_owned());
        }
        let has_replicas = topology.shards().iter().any(|shard| !shard.replicas.is_empty());
        let may_have_replicas = has_replicas || topology.is_discovered();
        let refusal = |flag: &str| {
            Err(format!(
                "{flag}: no node has a replica; write them behind their primaries, as in a:6379|b:6379"
            ))
        };
        match self.on_node_down {
            OnNodeDown::Replica if !may_have_replicas => return refusal("--on-node-down=replica"),
            OnNodeDown::Remap if !has_nodes => {
                return Err("--on-node-down=remap: only for nodes that --nodes names".to_owned());
            }
            OnNodeDown::Remap if topology.distribution() == Distribution::Slots => {
                return Err(
                    "--on-node-down=remap: slots stay where they are; take ketama or modula".to_owned()
                );
            }
            _ => {}
        }
        if self.read_from != ReadFrom::Primary && !may_have_replicas {
            return refusal(&format!("--read-from={}", self.read_from));
        }
        Ok(())
    }

    /// Where reads go.
    pub(crate) fn reading(&self) -> Reading {
        Reading {
            from: self.read_from,
            zone: self.zone.clone(),
            lag_bytes_max: self.replica_lag_max.map(|bytes| bytes as u64),
            covers_for_primary: self.on_node_down == OnNodeDown::Replica,
        }
    }

    /// Who is left out, and when.
    pub(crate) fn ejecting(&self) -> Option<Ejecting> {
        let (failures_max, retry_after) =
            (self.node_failure_limit, Duration::from_millis(self.node_retry_timeout_ms));
        (self.on_node_down == OnNodeDown::Remap).then_some(Ejecting { failures_max, retry_after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use topology::{TopologySpec, parse_nodes};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        reading: ReadingArgs,
    }

    /// What `words` ask for over the nodes of `list`, or why not.
    fn check(list: &str, distribution: Distribution, words: &[&str]) -> Result<ReadingArgs, String> {
        let line = Line::try_parse_from([&["shardis"], words].concat()).map_err(|error| error.to_string())?;
        let nodes = parse_nodes(list).expect("valid");
        let spec = TopologySpec { nodes, distribution, ..TopologySpec::default() };
        line.reading.check(true, &Topology::new(1, &spec).expect("valid"))?;
        Ok(line.reading)
    }

    #[test]
    fn arguments_say_who_is_read_from_and_who_is_left_out() {
        let nothing = check("a:1", Distribution::Modulo, &[]).expect("valid");
        assert_eq!((nothing.reading(), nothing.ejecting()), (Reading::default(), None));
        let words = ["--read-from=zone", "--zone=z", "--replica-lag-max=1kb", "--on-node-down=replica"];
        let args = check("a:1|b:1@z", Distribution::Slots, &words).expect("valid");
        let (from, zone, lag_bytes_max) = (ReadFrom::Zone, Some("z".to_owned()), Some(1024));
        assert_eq!(args.reading(), Reading { from, zone, lag_bytes_max, covers_for_primary: true });
        let words = ["--on-node-down=remap", "--server-failure-limit=3", "--server-retry-timeout=2000"];
        let args = check("a:1,b:1", Distribution::Ketama, &words).expect("valid");
        let retry_after = Duration::from_secs(2);
        assert_eq!(args.ejecting(), Some(Ejecting { failures_max: 3, retry_after }));
    }

    #[test]
    fn what_cannot_be_is_refused_and_named() {
        let cases: [(&str, Distribution, &[&str], &str); 7] = [
            ("a:1|b:1", Distribution::Modulo, &["--read-from=zone"], "--zone"),
            ("a:1|b:1", Distribution::Modulo, &["--read-from=slave"], "prefer-replica"),
            ("a:1", Distribution::Modulo, &["--read-from=any"], "--read-from=any: no node has a replica"),
            ("a:1", Distribution::Modulo, &["--on-node-down=replica"], "--on-node-down=replica: no node has"),
            ("a:1,b:1", Distribution::Slots, &["--on-node-down=remap"], "take ketama"),
            ("a:1", Distribution::Modulo, &["--on-node-down=explode"], "fail, replica or remap"),
            ("a:1", Distribution::Modulo, &["--node-failure-limit=0"], "--node-failure-limit 0"),
        ];
        for (list, distribution, words, named) in cases {
            let error = check(list, distribution, words).expect_err(named);
            assert!(error.contains(named), "{error}");
        }
    }
}
