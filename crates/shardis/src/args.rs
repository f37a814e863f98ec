//! The command line: what can be said, and how it is refused in one line.

use crate::coalesce::Coalesce;
use clap::error::ErrorKind;
use clap::{ArgAction, Parser, Subcommand};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;
use topology::{Distribution, HashFunction, TagRule, Topology, TopologySpec, parse_nodes};

/// Many Redis nodes behind one endpoint.
#[derive(Debug, Parser)]
#[command(name = "shardis", version, disable_help_subcommand = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    /// Serve the keys of several nodes at one address
    Proxy(ProxyArgs),
}

/// What `shardis proxy` is told.
#[derive(Clone, Debug, Parser)]
#[command(after_help = "Examples:
  shardis proxy --nodes=127.0.0.1:8081,127.0.0.1:8082
  shardis proxy --nodes=cache-a:6379:2,cache-b:6379 --distribution=ketama --hash=fnv1a_64 --tag-rule='{}'
  shardis proxy --nodes=unix:/run/redis/a.sock,unix:/run/redis/b.sock --port=6379 --workers=4")]
pub(crate) struct ProxyArgs {
    /// The nodes, separated by commas. Each is host:port, [v6]:port or unix:/path, then if wanted :weight, then if
    /// wanted a blank and a name
    #[arg(long, value_name = "NODE,NODE,…")]
    nodes: String,

    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: String,

    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 6380)]
    port: u16,

    /// Threads that serve clients; 0 means one per core [--N is redis-sharding's name for it]
    #[arg(long, visible_alias = "N", default_value_t = 0)]
    workers: usize,

    /// Let several processes listen on the same port (1) or not (0)
    #[arg(long = "SO_REUSEPORT", value_name = "0|1", default_value = "0", value_parser = parse_switch, action = ArgAction::Set)]
    pub(crate) reuse_port: bool,

    /// Close clients that were idle for so many seconds; 0 never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    timeout: u64,

    /// How keys get to shards: modulo, modula (twemproxy's), ketama, slots
    #[arg(long, default_value = "modulo", value_parser = Distribution::from_str)]
    distribution: Distribution,

    /// Hash of the key: crc32a (zlib's; the default), crc32, crc16, crc16-redis, md5, fnv1_64, fnv1a_64, fnv1_32,
    /// fnv1a_32, hsieh, murmur, jenkins, one_at_a_time, atol
    #[arg(long, value_parser = HashFunction::from_str)]
    hash: Option<HashFunction>,

    /// What of a key is hashed: sml (the default: a tag at the key's end, as in user:{42}), perl, redis, codis, none,
    /// or two characters such as {} (twemproxy's hash_tag)
    #[arg(long, value_name = "RULE", value_parser = TagRule::from_str)]
    tag_rule: Option<TagRule>,

    /// Clients at most
    #[arg(long, value_name = "CLIENTS", default_value_t = 10_000)]
    pub(crate) maxclients: usize,

    /// Give a connection to a node up if it has not answered PING after so many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    connect_timeout_ms: u64,

    /// Tell the client that its request's outcome is unknown after so many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    request_timeout_ms: u64,

    /// Let a busy worker wait some microseconds for more requests before it writes: less CPU time per request and
    /// more throughput, for a little latency. auto, off, or microseconds; a lone client never waits
    #[arg(long, value_name = "auto|off|US", default_value = "auto", value_parser = Coalesce::from_str)]
    pub(crate) coalesce: Coalesce,

    /// After SIGTERM, wait at most so many seconds for what is in flight
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain_timeout: u64,

    /// What to log to stderr: error, warn, info, debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: tracing::Level,
}

/// Reads the command line. On `Err` everything was said already: help to stdout with exit code 0, a refusal in one
/// line to stderr with exit code 2.
pub(crate) fn parse() -> Result<ProxyArgs, ExitCode> {
    match Cli::try_parse() {
        Ok(Cli { command: Commands::Proxy(args) }) => match args.check() {
            Ok(()) => Ok(args),
            Err(error) => Err(refuse(&error)),
        },
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // A closed stderr is no reason to complain either.
            let _ = error.print();
            Err(ExitCode::from(2))
        }
        Err(error) if !error.use_stderr() => {
            // A closed stdout is no reason to complain about help that nobody reads.
            let _ = error.print();
            Err(ExitCode::SUCCESS)
        }
        Err(error) => Err(refuse(&one_line(&error.to_string()))),
    }
}

fn refuse(what: &str) -> ExitCode {
    eprintln!("shardis: {what} (see shardis proxy --help)");
    ExitCode::from(2)
}

/// What clap says over several lines, in one: up to the usage, which --help shows better.
fn one_line(text: &str) -> String {
    let said = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let words: Vec<&str> = said.flat_map(str::split_whitespace).collect();
    let line = words.join(" ");
    line.strip_prefix("error: ").map(str::to_owned).unwrap_or(line)
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("write 1 to switch it on, 0 to switch it off".to_owned()),
    }
}

/// Far above what one machine has, far below what breaks it.
const WORKERS_MAX: usize = 1024;

impl ProxyArgs {
    /// Refuses what single options cannot see.
    fn check(&self) -> Result<(), String> {
        if self.workers > WORKERS_MAX {
            return Err(format!("--workers {}: at most {WORKERS_MAX}; 0 means one per core", self.workers));
        }
        for (name, ms) in [("connect", self.connect_timeout_ms), ("request", self.request_timeout_ms)] {
            if ms == 0 {
                return Err(format!(
                    "--{name}-timeout-ms 0: a node must get some time, as in --{name}-timeout-ms=1000"
                ));
            }
        }
        self.topology()?;
        self.listen_addr().map(|_| ())
    }

    /// Where to listen.
    pub(crate) fn listen_addr(&self) -> Result<SocketAddr, String> {
        let resolved = (self.host.as_str(), self.port).to_socket_addrs().ok();
        let host = &self.host;
        resolved.and_then(|mut addrs| addrs.next()).ok_or_else(|| {
            format!("--host {host}: no such address; write one of this machine, as in 127.0.0.1 or 0.0.0.0")
        })
    }

    /// Who owns which key, as the arguments say.
    pub(crate) fn topology(&self) -> Result<Topology, String> {
        let nodes = parse_nodes(&self.nodes).map_err(|error| format!("--nodes: {error}"))?;
        let (distribution, hash, tag_rule) = (self.distribution, self.hash, self.tag_rule);
        let spec = TopologySpec { nodes, distribution, hash, tag_rule };
        Topology::new(1, &spec).map_err(|error| error.to_string())
    }

    /// How many workers there are to be.
    pub(crate) fn workers(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        }
    }

    /// The core's limits, for one of `workers` workers.
    pub(crate) fn limits(&self, clients_max: usize, workers: usize) -> proxy::Limits {
        proxy::Limits {
            // Clients are spread evenly, so each worker takes its share, and one more for what does not divide.
            clients_max: clients_max.div_ceil(workers),
            connect_timeout: Duration::from_millis(self.connect_timeout_ms),
            request_timeout: Duration::from_millis(self.request_timeout_ms),
            idle_timeout: Duration::from_secs(self.timeout),
            ..proxy::Limits::default()
        }
    }

    /// How long a drain may take.
    pub(crate) fn drain_timeout(&self) -> Duration {
        Duration::from_secs(self.drain_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<ProxyArgs, String> {
        let words = ["shardis", "proxy"].iter().chain(words);
        let Cli { command: Commands::Proxy(args) } =
            Cli::try_parse_from(words).map_err(|error| one_line(&error.to_string()))?;
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
        assert_eq!((args.port, args.workers(), args.reuse_port, args.timeout), (8080, 4, true, 300));
        assert_eq!(args.topology().expect("valid").describe(), "modulo, crc32a, tag rule sml");
    }

    #[test]
    fn refusals_are_one_line_that_names_what_is_wrong() {
        let cases: &[(&[&str], &str)] = &[
            (&[], "--nodes"),
            (&["--nodes="], "--nodes"),
            (&["--nodes=127.0.0.1:99999"], "99999"),
            (&["--nodes=a:1", "--port=x"], "'x'"),
            (&["--nodes=a:1", "--SO_REUSEPORT=yes"], "write 1"),
            (&["--nodes=a:1", "--hash=sha1"], "sha1"),
            (&["--nodes=a:1", "--distribution=rendezvous"], "rendezvous"),
            (&["--nodes=a:1", "--tag-rule=abc"], "abc"),
            (&["--nodes=a:1", "--request-timeout-ms=0"], "--request-timeout-ms"),
            (&["--nodes=a:1,a:1"], "a:1"),
            (&["--nodes=a:1", "--host=999.1.1.1"], "--host 999.1.1.1"),
            (&["--nodes=a:1", "--nonsense"], "--nonsense"),
        ];
        for (words, named) in cases {
            let error = parsed(words).expect_err("unusable");
            assert!(error.contains(named) && !error.contains('\n'), "{words:?}: {error}");
        }
    }
}
