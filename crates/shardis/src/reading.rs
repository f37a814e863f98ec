//! Arguments for the read policy, and for shards whose primary is down.

use crate::args::listener::ListenerArg;
use crate::args::{no_effect, parse_bytes};
use crate::zones::Zones;
use clap::Args;
use proxy::{Ejecting, ReadFrom, Reading};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;
use topology::{Distribution, Topology};

/// Arguments about reads from replicas and nodes that are down.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReadingArgs {
    /// Read policy: primary, prefer-primary, replica, prefer-replica, any, nearest (lowest latency) or zone (replicas in
    /// --zone, then the primary). Clients read their own writes while the primary is up. A --listener may differ
    /// (docs/replicas.md)
    #[arg(long, value_name = "POLICY", default_value = "primary", value_parser = ReadFrom::from_str)]
    read_from: ReadFrom,

    /// Zone of this proxy for --read-from=zone. Zones of nodes: --nodes=a:6379@zone-a|b:6379@zone-b
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// Zones of discovered nodes that report none, by network, address or domain, as in
    /// 10.0.1.0/24=zone-a,10.0.2.0/24=zone-b,c.example.org=zone-c
    #[arg(long, value_name = "NETWORK=ZONE,…", value_parser = Zones::from_str)]
    zones: Option<Zones>,

    /// Lag limit of replicas that are read from, in bytes of their primary's replication stream, such as 1mb; without it,
    /// none
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    replica_lag_max: Option<usize>,

    /// Policy for a shard without its primary: fail, replica (reads go to a replica despite --read-from) or remap (keys
    /// go to other shards; for caches only, as twemproxy's auto_eject_hosts)
    #[arg(long, value_name = "fail|replica|remap", default_value = "fail", value_parser = OnNodeDown::from_str)]
    on_node_down: OnNodeDown,

    /// Failures in a row until a node is ejected. shardis proxy needs --on-node-down=remap for it; 0 means never in
    /// shardis tcp
    #[arg(long, visible_alias = "server-failure-limit", value_name = "FAILURES", default_value_t = FAILURE_LIMIT)]
    node_failure_limit: u32,

    /// Ejection time of a node, at least
    #[arg(long, visible_alias = "server-retry-timeout", value_name = "MS", default_value_t = RETRY_TIMEOUT_MS)]
    node_retry_timeout_ms: u64,

    /// Slow start: within this time an ejected node regains its keys (--on-node-down=remap), or a lost replica its
    /// reads, step by step. 0 gives all at once, as twemproxy does
    #[arg(long, alias = "ramp-up-ms", value_name = "MS", default_value_t = SLOW_START_MS)]
    slow_start_ms: u64,
}

const FAILURE_LIMIT: u32 = 2;
const RETRY_TIMEOUT_MS: u64 = 30_000;
const SLOW_START_MS: u64 = 10_000;

/// Policy for requests of a shard whose primary is down.
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
    /// Refuses arguments that `topology` does not support. Its nodes come from --nodes or are this process's own.
    pub(crate) fn check(
        &self,
        has_nodes: bool,
        topology: &Topology,
        listeners: &[ListenerArg],
    ) -> Result<(), String> {
        let policies = self.policies(listeners);
        if let Some((option, _)) = policies.iter().find(|(_, from)| *from == ReadFrom::Zone)
            && self.zone.is_none()
        {
            return Err(format!("{option} needs --zone, the zone of this proxy"));
        }
        if self.node_failure_limit == 0 {
            return Err("--node-failure-limit 0: write a number, 1 at least".to_owned());
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
        match policies.iter().find(|(_, from)| *from != ReadFrom::Primary) {
            Some((option, _)) if !may_have_replicas => refusal(option),
            _ => Ok(()),
        }
    }

    /// Options without effect over `topology`. Each text begins with its option.
    pub(crate) fn remarks(&self, topology: &Topology, listeners: &[ListenerArg]) -> Vec<String> {
        let policies = self.policies(listeners);
        let reads_by = |policy: fn(&ReadFrom) -> bool| policies.iter().any(|(_, from)| policy(from));
        let covers = self.on_node_down == OnNodeDown::Replica;
        let reads_replicas = reads_by(|from| *from != ReadFrom::Primary) || covers;
        let remaps = self.on_node_down == OnNodeDown::Remap;
        let (by_zone, remap) = ("--read-from=zone", "--on-node-down=remap");
        let is_without_zone = !reads_by(|from| *from == ReadFrom::Zone);
        let cases = [
            (self.zone.is_some() && is_without_zone, "--zone", by_zone),
            (self.zones.is_some() && is_without_zone, "--zones", by_zone),
            (self.replica_lag_max.is_some() && !reads_replicas, "--replica-lag-max", "reads from replicas"),
            (self.node_failure_limit != FAILURE_LIMIT && !remaps, "--node-failure-limit", remap),
            (self.node_retry_timeout_ms != RETRY_TIMEOUT_MS && !remaps, "--node-retry-timeout-ms", remap),
            (
                self.slow_start_ms != SLOW_START_MS && !remaps && !reads_replicas,
                "--slow-start-ms",
                "reads from replicas or --on-node-down=remap",
            ),
        ];
        let mut remarks: Vec<String> = cases
            .iter()
            .filter(|(is_so, ..)| *is_so)
            .map(|(_, flag, other)| no_effect(flag, other))
            .collect();
        let with_replicas = topology.shards().iter().find(|shard| !shard.replicas.is_empty());
        if let Some(shard) = with_replicas.filter(|_| !reads_replicas && !topology.is_discovered()) {
            remarks.push(format!(
                "--nodes: {} has replicas, which are not read from without --read-from or --on-node-down=replica",
                shard.name
            ));
        }
        remarks
    }

    /// All policies, each behind its option.
    fn policies(&self, listeners: &[ListenerArg]) -> Vec<(String, ReadFrom)> {
        let of_listener = |listener: &ListenerArg| {
            let (place, from) = (&listener.place, listener.read_from?);
            Some((format!("--listener {place} read-from={from}"), from))
        };
        let first = (format!("--read-from={}", self.read_from), self.read_from);
        std::iter::once(first).chain(listeners.iter().filter_map(of_listener)).collect()
    }

    /// The policies in words, for the operator.
    pub(crate) fn describe(&self) -> String {
        let otherwise = match self.on_node_down {
            OnNodeDown::Fail => "",
            OnNodeDown::Replica => ", from replicas while it is down",
            OnNodeDown::Remap => "; keys of a node that is down go to other shards",
        };
        format!("reads from {}{otherwise}", self.read_from)
    }

    /// Where reads go; `of_listeners` says which listeners have policies of their own.
    pub(crate) fn reading(&self, of_listeners: BTreeMap<u16, ReadFrom>) -> Reading {
        Reading {
            from: self.read_from,
            of_listeners,
            zone: self.zone.clone(),
            lag_bytes_max: self.replica_lag_max.map(|bytes| bytes as u64),
            covers_for_primary: self.on_node_down == OnNodeDown::Replica,
        }
    }

    /// Where nodes are, by their addresses.
    pub(crate) fn zones(&self) -> Zones {
        self.zones.clone().unwrap_or_default()
    }

    /// Length of a slow start.
    pub(crate) fn slow_start(&self) -> Duration {
        Duration::from_millis(self.slow_start_ms)
    }

    /// The rules of ejection.
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

    /// Parses `words` for the nodes of `list`, or returns the refusal.
    fn check(list: &str, distribution: Distribution, words: &[&str]) -> Result<ReadingArgs, String> {
        check_with(list, distribution, words, &[])
    }

    /// The same with `listeners` beside the first.
    fn check_with(
        list: &str,
        distribution: Distribution,
        words: &[&str],
        listeners: &[&str],
    ) -> Result<ReadingArgs, String> {
        let line = Line::try_parse_from([&["shardis"], words].concat()).map_err(|error| error.to_string())?;
        let nodes = parse_nodes(list).expect("valid");
        let spec = TopologySpec { nodes, distribution, ..TopologySpec::default() };
        let listeners: Vec<ListenerArg> = listeners.iter().map(|text| text.parse().expect("valid")).collect();
        line.reading.check(true, &Topology::new(1, &spec).expect("valid"), &listeners)?;
        Ok(line.reading)
    }

    #[test]
    fn arguments_select_nodes_for_reads() {
        let nothing = check("a:1", Distribution::Modulo, &[]).expect("valid");
        assert_eq!((nothing.reading(BTreeMap::new()), nothing.ejecting()), (Reading::default(), None));
        let words = ["--read-from=zone", "--zone=z", "--replica-lag-max=1kb", "--on-node-down=replica"];
        let args = check("a:1|b:1@z", Distribution::Slots, &words).expect("valid");
        let (from, zone, lag_bytes_max) = (ReadFrom::Zone, Some("z".to_owned()), Some(1024));
        let of_listeners = BTreeMap::from([(2, ReadFrom::Any)]);
        let expected = Reading {
            from,
            of_listeners: of_listeners.clone(),
            zone,
            lag_bytes_max,
            covers_for_primary: true,
        };
        assert_eq!(args.reading(of_listeners), expected);
        let words = ["--on-node-down=remap", "--server-failure-limit=3", "--server-retry-timeout=2000"];
        let args = check("a:1,b:1", Distribution::Ketama, &words).expect("valid");
        let retry_after = Duration::from_secs(2);
        assert_eq!(args.ejecting(), Some(Ejecting { failures_max: 3, retry_after }));
    }

    #[test]
    fn impossible_arguments_are_refused_by_name() {
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

    #[test]
    fn a_listeners_impossible_read_from_names_its_address() {
        let modulo = Distribution::Modulo;
        let listeners = ["127.0.0.1:1", "127.0.0.1:2 read-from=any", "127.0.0.1:3 read-from=zone"];
        let error = check_with("a:1", modulo, &[], &listeners[..2]).expect_err("no replica");
        assert!(error.starts_with("--listener 127.0.0.1:2 read-from=any: no node has a replica"), "{error}");
        let error = check_with("a:1|b:1", modulo, &[], &listeners).expect_err("no zone");
        assert!(error.starts_with("--listener 127.0.0.1:3 read-from=zone needs --zone"), "{error}");
        check_with("a:1|b:1", modulo, &["--zone=z"], &listeners).expect("valid");
        check_with("a:1", modulo, &[], &["127.0.0.1:2 read-from=primary"]).expect("valid");
    }
}
