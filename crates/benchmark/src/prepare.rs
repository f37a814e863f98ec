//! Plans made of arguments. Pure, but for the command's last word from the standard input.

use crate::args::BenchArgs;
use crate::http;
use crate::keys::Keys;
use crate::kinds::{Check, Kind};
use crate::mix::Mix;
use crate::plan::{Bounds, Connections, Pace, Plan, Protocol, PubSub, Replay, Workload};
use crate::target::Server;
use crate::template::{Literal, TIME_DIGITS, Template};
use crate::trace::Trace;
use anyhow::{Context, Result};
use loadgen::schedule::Arrivals;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// Requests of a run, if nothing else bounds it: redis-benchmark's default.
pub(crate) const REQUESTS_DEFAULT: u64 = 100_000;
/// Bytes of the word from the standard input.
const STDIN_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The words of the user's own command.
pub(crate) fn words(args: &BenchArgs) -> Result<Vec<String>> {
    let mut words = args.words.clone();
    if args.load.stdin {
        let mut last = String::new();
        std::io::stdin().take(STDIN_BYTES_MAX).read_to_string(&mut last).context("-x: standard input")?;
        words.push(last);
    }
    Ok(words)
}

/// The user's own command as a kind of request.
pub(crate) fn own_kind(words: &[String], literal: Literal, is_cluster: bool) -> Kind {
    let template = Template::new(&[words.to_vec()], literal, is_cluster);
    Kind { name: words.join(" "), template, check: Check::Anything }
}

/// The plan of one test of redis-benchmark.
pub(crate) fn classic(args: &BenchArgs, server: &Server, kind: Kind, threads: u32) -> Plan {
    let load = &args.load;
    let workload = Workload {
        sizes: load.sizes.clone(),
        keyspace: load.keyspace.unwrap_or(1),
        depth: (load.pipeline.0 as usize, load.pipeline.1 as usize),
        keys: Keys::Uniform,
        ..Workload::of(kind)
    };
    Plan {
        protocol: Protocol::Resp,
        target: server.target.clone(),
        workload,
        connections: connections(args, server, threads),
        pace: if load.idle { Pace::Idle } else { Pace::Closed },
        replay: None,
        bounds: Bounds {
            requests: Some(load.requests.unwrap_or(REQUESTS_DEFAULT)),
            warmup: Duration::ZERO,
            time: None,
        },
        verify: false,
        stops_at_error: true,
        interval: Duration::from_millis(250),
        seed: args.shape.seed,
    }
}

/// The plan of a run that redis-benchmark does not know, and its keys.
pub(crate) fn shaped(args: &BenchArgs, server: &Server) -> Result<(Plan, Mix), String> {
    let (load, shape) = (&args.load, &args.shape);
    let replay = replay(args)?;
    let mix = match &replay {
        Some(replay) => Mix::traced(&replay.trace)?,
        None => mix(args)?,
    };
    let is_open = shape.rate.is_some() || args.judge.find_rate.is_some();
    let is_http = args.url().is_some();
    let is_repeated = args.judge.find_rate.is_some() || args.judge.against.is_some();
    let (warmup, time) = match () {
        () if is_repeated => (TURN_WARMUP, Some(TURN_TIME)),
        () if load.requests.is_none() && (is_open || is_http) => (Duration::ZERO, Some(TIME_DEFAULT)),
        () => (Duration::ZERO, None),
    };
    let time = shape.time.or(time);
    let default = replay.as_ref().map_or(REQUESTS_DEFAULT, |replay| replay.trace.entries.len() as u64);
    let requests = load.requests.or(time.is_none().then_some(default));
    let pubsub = shape.subscribers.map(|subscribers| PubSub { subscribers, channels: shape.channels });
    let keyspace =
        pubsub.map_or(load.keyspace.unwrap_or(KEYSPACE_DEFAULT), |pubsub| u64::from(pubsub.channels));
    let workload = Workload {
        kinds: mix.kinds.clone(),
        weights: mix.weights.clone(),
        keys: shape.keys.or(mix.keys).unwrap_or(Keys::Uniform),
        keyspace,
        sizes: load.sizes.clone(),
        expire: shape.expire.unwrap_or(EXPIRE_DEFAULT),
        depth: (load.pipeline.0 as usize, load.pipeline.1 as usize),
        pubsub,
    };
    let arrivals = if shape.arrivals == "poisson" { Arrivals::Poisson } else { Arrivals::Even };
    let pace = match shape.rate {
        _ if replay.is_some() => Pace::Traced,
        Some(rate) => Pace::Open { rate, arrivals, growth: shape.growth.unwrap_or_default() },
        None => Pace::Closed,
    };
    let plan = Plan {
        protocol: if is_http { Protocol::Http } else { Protocol::Resp },
        target: server.target.clone(),
        workload,
        connections: connections(args, server, load.threads.unwrap_or(1)),
        pace,
        replay,
        bounds: Bounds { requests, warmup: shape.warmup.unwrap_or(warmup), time },
        verify: shape.verify,
        stops_at_error: false,
        interval: Duration::from_secs(1),
        seed: shape.seed,
    };
    Ok((plan, mix))
}

/// The trace that `args` name.
fn replay(args: &BenchArgs) -> Result<Option<Replay>, String> {
    let Some(path) = &args.shape.replay else { return Ok(None) };
    let wrong = |error: &dyn std::fmt::Display| format!("--replay {}: {error}", path.display());
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| wrong(&error))?;
    file.take(TRACE_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| wrong(&error))?;
    if text.len() as u64 > TRACE_BYTES_MAX {
        return Err(wrong(&format!("a trace of more than {TRACE_BYTES_MAX} bytes")));
    }
    let trace = Arc::new(Trace::parse(&text));
    if trace.entries.is_empty() {
        return Err(wrong(&"no line is a request as MONITOR writes it"));
    }
    Ok(Some(Replay { trace, speed: args.shape.speed }))
}

/// Bytes of a trace.
const TRACE_BYTES_MAX: u64 = 4 << 30;

/// The requests that `args` ask for.
fn mix(args: &BenchArgs) -> Result<Mix, String> {
    let (load, shape) = (&args.load, &args.shape);
    if let Some(address) = args.url() {
        return Mix::only(http::get(&address.parse()?, &shape.header), false);
    }
    if shape.subscribers.is_some() {
        // The time of the request, up to the size of a value.
        let padding = "x".repeat(load.sizes.max().saturating_sub(TIME_DIGITS));
        let words = ["PUBLISH", "channel:__rand_int__", &format!("__time__{padding}")].map(str::to_owned);
        return Mix::only(Kind::of("PUBLISH", &[words.to_vec()], Check::Integer, false), false);
    }
    if let Some(name) = &shape.workload {
        return Mix::ycsb(name);
    }
    if let Some(mix) = &shape.mix {
        return Mix::parse(mix, load.cluster);
    }
    if !load.tests.is_empty() {
        return Mix::parse(&load.tests.join(",").to_lowercase(), load.cluster);
    }
    if !args.words.is_empty() {
        let words = words(args).map_err(|error| format!("{error:#}"))?;
        return Mix::only(own_kind(&words, Literal::Nothing, load.cluster), load.cluster);
    }
    Mix::parse(MIX_DEFAULT, load.cluster)
}

/// The plan that writes every key of `plan` once, by the requests of `mix`.
pub(crate) fn loading(plan: &Plan, mix: &Mix) -> Plan {
    let mut loading = plan.clone();
    let workload = &mut loading.workload;
    let batch = (LOAD_BYTES_MAX / (workload.sizes.max() + 1)).clamp(1, LOAD_BATCH);
    (workload.kinds, workload.weights) = (vec![mix.load.clone()], vec![1]);
    (workload.keys, workload.depth, workload.pubsub) = (Keys::Sequential, (batch, batch), None);
    loading.pace = Pace::Closed;
    loading.bounds = Bounds { requests: Some(workload.keyspace), warmup: Duration::ZERO, time: None };
    loading.connections.reconnect_after = None;
    loading.stops_at_error = true;
    loading
}

/// Keys, if the user names no number.
const KEYSPACE_DEFAULT: u64 = 100_000;
/// Requests, if the user names none: reads and writes as memtier_benchmark has them by default.
const MIX_DEFAULT: &str = "get:10,set:1";
/// Seconds until keys expire.
const EXPIRE_DEFAULT: (u64, u64) = (60, 60);
/// Time of a run at a fixed rate, or of HTTP.
const TIME_DEFAULT: Duration = Duration::from_secs(10);
/// Times of one of many runs.
const TURN_WARMUP: Duration = Duration::from_secs(1);
const TURN_TIME: Duration = Duration::from_secs(5);
/// Requests and bytes that a connection has in flight while keys are written.
const LOAD_BATCH: usize = 100;
const LOAD_BYTES_MAX: usize = 1024 * 1024;

/// The connections of a run.
pub(crate) fn connections(args: &BenchArgs, server: &Server, threads: u32) -> Connections {
    Connections {
        count: args.load.clients,
        threads: threads.min(args.load.clients),
        reconnect_after: if args.load.keep_alive == 0 { Some(1) } else { args.shape.reconnect_after },
        opening: server.opening.clone(),
        opening_replies: server.opening_replies,
    }
}
