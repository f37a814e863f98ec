//! Arguments of `shardis tcp`.

use super::targets::Targets;
use crate::args::ServiceArgs;
use crate::args::listener::Place;
use crate::control::plural;
use crate::listeners::{CannotListen, Listener, Mode};
use crate::passed::PassedSockets;
use ::tcp::Limits;
use ::tcp::{Balance, Patience};
use ::tcp::{Check, Kind};
use clap::Args;
use driver::{HeaderVersion, header};
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;
use topology::{NodeSpec, parse_nodes};

/// Arguments of `shardis tcp`.
#[derive(Clone, Debug, Args)]
#[command(
    next_line_help = true,
    after_help = "Examples:
  shardis tcp --nodes=127.0.0.1:6381,127.0.0.1:6382
  shardis tcp --host=0.0.0.0 --port=6379 --nodes=replica-a:6379:2,replica-b:6379 --balance=round-robin --check=ping
  shardis tcp --host=:: --nodes=a:6379,b:6379 --balance=source-hash --send-proxy=v2 --timeout=0"
)]
pub(crate) struct TcpArgs {
    /// Nodes, separated by commas: host:port, [v6]:port or unix:/path, then optionally :weight, and a blank and a name.
    /// Each client gets one. Host names are resolved at the start and every 5 s while clients come
    #[expect(rustdoc::broken_intra_doc_links, reason = "an address of IPv6 in brackets")]
    #[arg(long, value_name = "NODE,NODE,…")]
    nodes: String,

    /// Balancing policy for new clients: least-conn, round-robin, or source-hash (by the client's address)
    #[arg(long, value_name = "POLICY", default_value = "least-conn", value_parser = Balance::from_str)]
    balance: Balance,

    /// Health check of nodes: off, tcp (they accept connections), or ping (they answer PING)
    #[arg(long, value_name = "off|tcp|ping", default_value = "tcp", value_parser = Kind::from_str)]
    check: Kind,

    /// Health check interval
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..))]
    check_interval_ms: u32,

    /// Failures in a row until a node is ejected. shardis proxy needs --on-node-down=remap for it; 0 means never in
    /// shardis tcp
    #[arg(long, alias = "max-fails", value_name = "FAILURES", default_value_t = 1)]
    node_failure_limit: u32,

    /// Ejection time of a node, at least
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    node_retry_timeout_ms: u64,

    /// Connect timeout for nodes; in shardis proxy it covers the first PING too
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u64).range(1..))]
    connect_timeout_ms: u64,

    /// PROXY header to nodes with each client's address, of this version; without it, none
    #[arg(long, value_name = "v1|v2", value_parser = parse_version)]
    pub(super) send_proxy: Option<HeaderVersion>,

    #[command(flatten)]
    pub(crate) service: ServiceArgs,

    #[command(flatten)]
    former: FormerArgs,
}

/// Former words of `shardis tcp` alone. They still work, and no help shows them.
#[derive(Args, Clone, Debug)]
struct FormerArgs {
    /// Address and port to listen on
    #[arg(long, alias = "listener", hide = true, value_name = "ADDR:PORT", conflicts_with_all = ["host", "port"])]
    listen: Option<String>,

    /// Ejection time of a node, at least
    #[arg(long, hide = true, value_name = "SECONDS", conflicts_with = "node_retry_timeout_ms")]
    fail_timeout: Option<u32>,
}

fn parse_version(text: &str) -> Result<HeaderVersion, String> {
    match text {
        "v1" => Ok(HeaderVersion::V1),
        "v2" => Ok(HeaderVersion::V2),
        _ => Err("write v1 or v2".to_owned()),
    }
}

/// The default address, as in `shardis proxy`.
const HOST: &str = "127.0.0.1";
const PORT: u16 = 6380;
/// Seconds until an idle client is closed, as with nginx.
const TIMEOUT: u64 = 600;

impl TcpArgs {
    /// Refuses what single options cannot see.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.service.check()?;
        self.node_specs()?;
        self.listen_addr().map(|_| ())
    }

    /// With the options of the whole process from `above`.
    pub(crate) fn within(self, above: &ServiceArgs) -> TcpArgs {
        TcpArgs { service: self.service.within(above), ..self }
    }

    /// With those settings of `other` that a running process follows.
    pub(crate) fn with_live_settings_of(self, other: &TcpArgs) -> TcpArgs {
        TcpArgs { service: self.service.with_live_settings_of(&other.service), ..self }
    }

    pub(crate) fn listen_addr(&self) -> Result<SocketAddr, String> {
        let Some(listen) = &self.former.listen else { return self.service.listen_addr(HOST, PORT) };
        let resolved = listen.to_socket_addrs().ok().and_then(|mut addrs| addrs.next());
        resolved
            .ok_or_else(|| format!("--listen {listen}: write an address and a port, as in 127.0.0.1:6380"))
    }

    /// The option that names the listener.
    fn listen_option(&self) -> &'static str {
        if self.former.listen.is_some() { "--listen" } else { "--port" }
    }

    pub(crate) fn node_specs(&self) -> Result<Vec<NodeSpec>, String> {
        let nodes = parse_nodes(&self.nodes).map_err(|error| format!("--nodes: {error}"))?;
        match nodes.iter().find(|node| !node.replicas.is_empty()) {
            Some(node) => Err(format!(
                "--nodes: {}: shardis tcp has no replicas; write a comma instead of |",
                node.label()
            )),
            None => Ok(nodes),
        }
    }

    /// The listener, which clients can connect to from now on. Sockets of `passed` take the place of its address.
    pub(super) fn open(&self, passed: &mut PassedSockets) -> Result<Vec<Listener>, CannotListen> {
        let addr = self.listen_addr().map_err(CannotListen::Unknown)?;
        let sockets = passed.take(self.listen_option(), &Place::Tcp(addr));
        if !sockets.is_empty() {
            let way = (self.listen_option(), Place::Tcp(addr));
            let passed = |socket| Listener::passed(socket, way.clone(), Mode::Tcp);
            return Ok(sockets.into_iter().map(passed).collect());
        }
        Listener::tcp(addr, self.listen_option(), self.service.reuse_port, Mode::Tcp).map(|one| vec![one])
    }

    /// The line that describes the listener at `place`.
    pub(crate) fn describe(&self, place: &str, nodes: &[NodeSpec]) -> String {
        let names: Vec<String> = nodes.iter().map(NodeSpec::label).collect();
        let count = names.len();
        format!("passes bytes from {place} to {count} node{}: {}", plural(count), names.join(" "))
    }

    /// Where the nodes are.
    pub(crate) fn targets(&self) -> Result<Targets, String> {
        Targets::of(&self.node_specs()?)
    }

    pub(super) fn balance(&self) -> Balance {
        self.balance
    }

    pub(super) fn patience(&self) -> Patience {
        let former = self.former.fail_timeout.map(|seconds| Duration::from_secs(seconds.into()));
        let fail_timeout = former.unwrap_or(Duration::from_millis(self.node_retry_timeout_ms));
        Patience { fails_max: self.node_failure_limit, fail_timeout }
    }

    /// Settings of the probes.
    pub(super) fn probe(&self) -> Check {
        let mut question = self.send_proxy.map(|version| header(version, None)).unwrap_or_default();
        question.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
        let every = Duration::from_millis(self.check_interval_ms.into());
        Check { kind: self.check, every, question }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            connect_timeout: Duration::from_millis(self.connect_timeout_ms),
            idle_timeout: Duration::from_secs(self.service.timeout(TIMEOUT)),
        }
    }
}
