//! The flags of `shardis bench`. Those of redis-benchmark have its names and defaults.

use crate::compare::{ROUNDS_MAX, ROUNDS_MIN};
use crate::expect::Threshold;
use crate::keys::Keys;
use crate::plan::Speed;
use crate::sizes::Sizes;
use crate::units;
use clap::{ArgAction, Args};
use std::path::PathBuf;
use std::time::Duration;

/// The arguments of `shardis bench`.
#[derive(Clone, Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  shardis bench -p 6380 -t set,get -n 1000000 -P 16 -q          as redis-benchmark
  shardis bench -p 6380 --rate 20k -w 10s -T 60s --mix=get:80,set:15,mget10:5 --keys=zipf:0.99
  shardis bench -p 6380 -T 30s --expect 'p99<2ms' --json=out.json
  shardis bench http://127.0.0.1:8080/ --rate 9000 -c 99 -w 60s -T 180s --html=report.html

Without flags that redis-benchmark does not know, output and meaning are redis-benchmark's. docs/bench.md explains the rest. Exit
code: 0, 1 if the run failed, 3 if a threshold of --expect was missed or --verify found a wrong reply"
)]
pub struct BenchArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// Help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,

    /// Command to send in place of the tests, or an address http://host:port/path
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) words: Vec<String>,
}

/// The server and the connection to it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Host
    #[arg(short = 'h', value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,

    /// Port
    #[arg(short = 'p', value_name = "PORT", default_value_t = 6379)]
    pub(crate) port: u16,

    /// Unix socket, in place of host and port
    #[arg(short = 's', value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,

    /// Password
    #[arg(short = 'a', value_name = "PASSWORD")]
    pub(crate) password: Option<String>,

    /// User of the password
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,

    /// Server as redis://user:password@host:port/database, with rediss for TLS
    #[arg(short = 'u', value_name = "URI")]
    pub(crate) uri: Option<String>,

    /// Database
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) dbnum: u32,

    /// RESP3 in place of RESP2
    #[arg(short = '3')]
    pub(crate) resp3: bool,

    /// TLS
    #[arg(long)]
    pub(crate) tls: bool,

    /// Name that the server's certificate must be for [default: the host]
    #[arg(long, value_name = "HOST")]
    pub(crate) sni: Option<String>,

    /// File with the certificates of trusted authorities [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,

    /// Folder with such files
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cacertdir: Option<PathBuf>,

    /// TLS without a check of the server's certificate
    #[arg(long)]
    pub(crate) insecure: bool,

    /// File with our certificate
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,

    /// File with its key
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

/// Requests and connections, as redis-benchmark has them.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Connections
    #[arg(short = 'c', value_name = "CLIENTS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) clients: u32,

    /// Requests of each test [default: 100000, or no bound with -T]
    #[arg(short = 'n', value_name = "REQUESTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,

    /// Bytes of a value: 100, 10-1000, gaussian:10-1000, zipf:10-1000 or 100@9,10000@1 (size@weight)
    #[arg(short = 'd', value_name = "BYTES", default_value = "3")]
    pub(crate) sizes: Sizes,

    /// Number of different keys; without it, redis-benchmark's tests have one key [default for others: 100000]
    #[arg(short = 'r', value_name = "KEYS")]
    pub(crate) keyspace: Option<u64>,

    /// Requests in flight on a connection, or a range (1-16) from which each batch is drawn
    #[arg(short = 'P', value_name = "REQUESTS", default_value = "1", value_parser = parse_depth)]
    pub(crate) pipeline: (u64, u64),

    /// Tests to run, by the names that the output has
    #[arg(short = 't', value_name = "TESTS", value_delimiter = ',')]
    pub(crate) tests: Vec<String>,

    /// Connections that stay open (1), or one for each request (0)
    #[arg(short = 'k', value_name = "0|1", default_value_t = 1)]
    pub(crate) keep_alive: u8,

    /// Threads
    #[arg(long, value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) threads: Option<u32>,

    /// Redis Cluster: each connection leads to a primary, and has keys of its slots
    #[arg(long)]
    pub(crate) cluster: bool,

    /// CLIENT TRACKING on each connection
    #[arg(long)]
    pub(crate) enable_tracking: bool,

    /// Idle connections, and nothing else, until SIGINT
    #[arg(short = 'I')]
    pub(crate) idle: bool,

    /// Last argument of the command from the standard input
    #[arg(short = 'x')]
    pub(crate) stdin: bool,
}

/// The requests and their times.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Shape")]
pub(crate) struct ShapeArgs {
    /// Requests per second, from intended start times (open loop), as 9000 or 9k
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub(crate) rate: Option<f64>,

    /// Gaps between the starts of an open loop: even, as in wrk2, or poisson, as of independent users
    #[arg(long, value_name = "KIND", default_value = "even", value_parser = ["even", "poisson"])]
    pub(crate) arrivals: String,

    /// Time in which the rate grows from zero to --rate
    #[arg(long = "ramp", value_name = "TIME", value_parser = units::duration, requires = "rate")]
    pub(crate) growth: Option<Duration>,

    /// Time that is not recorded, before the rest
    #[arg(short = 'w', long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) warmup: Option<Duration>,

    /// Time of the recorded part, as 60s or 5m [default: 10s with --rate or HTTP, without -n]
    #[arg(short = 'T', long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) time: Option<Duration>,

    /// Kinds of requests with weights, as get:80,set:15,mget10:5
    #[arg(long, value_name = "KIND:WEIGHT,…", conflicts_with_all = ["tests", "words"])]
    pub(crate) mix: Option<String>,

    /// YCSB workload: ycsb-a to ycsb-f
    #[arg(long, value_name = "NAME", conflicts_with_all = ["tests", "words", "mix", "keys"])]
    pub(crate) workload: Option<String>,

    /// Distribution of keys: uniform, zipf:0.99, latest, gaussian, sequential or hotset:10%:90% (keys, requests)
    #[arg(long, value_name = "DISTRIBUTION")]
    pub(crate) keys: Option<Keys>,

    /// Seconds until keys expire that setex and expire write, or a range
    #[arg(long, value_name = "SECONDS", value_parser = parse_expire)]
    pub(crate) expire: Option<(u64, u64)>,

    /// All keys of the workload are written before the run
    #[arg(long)]
    pub(crate) load: bool,

    /// Stamped values, and a check of every reply
    #[arg(long)]
    pub(crate) verify: bool,

    /// Requests after which a connection is closed and opened again
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) reconnect_after: Option<u64>,

    /// Subscribers of the channels to which publish sends; DELIVERY has the time from PUBLISH to a subscriber
    #[arg(long, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) subscribers: Option<u32>,

    /// Channels of publish
    #[arg(long, value_name = "CHANNELS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) channels: u32,

    /// File with the output of MONITOR, whose requests are sent again; a client's requests stay on one connection
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "mix", "workload", "tests", "words", "subscribers", "cluster", "verify",
        "reconnect_after", "find_rate"])]
    pub(crate) replay: Option<PathBuf>,

    /// Speed of the replay: a factor, or max for as fast as replies come
    #[arg(long, value_name = "FACTOR|max", default_value = "1", value_parser = parse_speed)]
    pub(crate) speed: Speed,

    /// Header line of an HTTP request
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = parse_header)]
    pub(crate) header: Vec<String>,

    /// Seed of keys, sizes and random gaps
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Questions about the results.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Judgement")]
pub(crate) struct JudgeArgs {
    /// Threshold that must be kept, else the exit code is 3: p99<2ms, get:max<10ms, rate>9000, errors<0.1%
    #[arg(long, value_name = "THRESHOLD")]
    pub(crate) expect: Vec<Threshold>,

    /// Search for the highest rate that keeps this threshold; each step takes -w and -T [default: 1s, 5s]
    #[arg(long, value_name = "THRESHOLD", conflicts_with = "against")]
    pub(crate) find_rate: Option<Threshold>,

    /// Second server, measured in turns with the first; each turn takes -w and -T [default: 1s, 5s]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) against: Option<String>,

    /// Turns of each server with --against
    #[arg(long, value_name = "ROUNDS", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(i64::from(ROUNDS_MIN)..=i64::from(ROUNDS_MAX)))]
    pub(crate) rounds: u32,
}

/// The results.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Requests per second and median only
    #[arg(short = 'q')]
    pub(crate) quiet: bool,

    /// Figures as CSV
    #[arg(long)]
    pub(crate) csv: bool,

    /// Significant digits of latencies, from 1 to 4
    #[arg(long, value_name = "DIGITS", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub(crate) precision: u8,

    /// Tests without end
    #[arg(short = 'l')]
    pub(crate) looped: bool,

    /// File for the report as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// File for an interval log of HdrHistogram, a histogram a second
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr_log: Option<PathBuf>,

    /// File for charts as SVG: latency by percentile, and over time
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,

    /// File for the report with its charts as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// The most requests in flight on a connection.
const DEPTH_MAX: u64 = 1_000_000;
/// The most seconds until a key expires: a century.
const EXPIRE_MAX: u64 = 3_200_000_000;

fn parse_depth(text: &str) -> Result<(u64, u64), String> {
    units::range(text, DEPTH_MAX)
}

fn parse_expire(text: &str) -> Result<(u64, u64), String> {
    units::range(text, EXPIRE_MAX)
}

fn parse_speed(text: &str) -> Result<Speed, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| *factor > 0.0 && *factor <= SPEED_MAX);
    match (text, factor) {
        ("max", _) => Ok(Speed::Max),
        (_, Some(factor)) => Ok(Speed::Times(factor)),
        _ => Err("write a factor above 0, or max".to_owned()),
    }
}

/// A larger factor means max.
const SPEED_MAX: f64 = 1e6;

fn parse_header(text: &str) -> Result<String, String> {
    let is_line = text.contains(':') && !text.contains(['\r', '\n']);
    if is_line { Ok(text.to_owned()) } else { Err("write a header line as Name: value".to_owned()) }
}

impl BenchArgs {
    /// Checks flags against each other.
    ///
    /// # Errors
    ///
    /// A sentence that names the flags.
    pub fn check(&self) -> Result<(), String> {
        if self.url().is_some() && self.words.len() > 1 {
            return Err(format!("{}: nothing is expected behind the address", self.words[1]));
        }
        let is_single = self.judge.find_rate.is_none() && self.judge.against.is_none();
        if !is_single
            && (self.output.hdr_log.is_some() || self.output.plot.is_some() || self.output.html.is_some())
        {
            return Err(
                "--hdr-log, --plot and --html show one run, not those of --find-rate or --against".to_owned()
            );
        }
        if self.output.plot.as_ref().is_some_and(|path| path.extension().is_none_or(|end| end != "svg")) {
            return Err("--plot: charts are drawn as SVG; name a file that ends in .svg".to_owned());
        }
        if self.load.cluster && (self.shape.workload.is_some() || self.shape.subscribers.is_some()) {
            return Err(
                "--cluster: workloads of YCSB and --subscribers need one server or a proxy".to_owned()
            );
        }
        if self.judge.against.is_some() && (self.load.cluster || self.url().is_some()) {
            return Err("--against compares two Redis servers, neither as --cluster".to_owned());
        }
        Ok(())
    }

    /// Whether no flag was given that redis-benchmark does not know.
    pub(crate) fn is_classic(&self) -> bool {
        let shape = &self.shape;
        let is_shaped = shape.rate.is_some()
            || shape.time.is_some()
            || shape.warmup.is_some()
            || shape.mix.is_some()
            || shape.workload.is_some()
            || shape.keys.is_some()
            || shape.expire.is_some()
            || shape.reconnect_after.is_some()
            || shape.subscribers.is_some()
            || shape.replay.is_some();
        let is_written =
            self.output.hdr_log.is_some() || self.output.plot.is_some() || self.output.html.is_some();
        let is_judged =
            !self.judge.expect.is_empty() || self.judge.find_rate.is_some() || self.judge.against.is_some();
        let is_written = is_written || self.output.json.is_some();
        !(is_shaped || is_judged || is_written || shape.load || shape.verify || self.url().is_some())
    }

    /// The address of an HTTP target.
    pub fn url(&self) -> Option<&str> {
        self.words.first().map(String::as_str).filter(|word| is_url(word))
    }
}

/// Whether a word names an HTTP target.
fn is_url(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://")
}
