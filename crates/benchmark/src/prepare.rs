//! Plans made of arguments. Pure, but for the command's last word from the standard input.

use crate::args::BenchArgs;
use crate::keys::Keys;
use crate::kinds::{Check, Kind};
use crate::plan::{Bounds, Connections, Pace, Plan, Protocol, Workload};
use crate::target::Server;
use crate::template::{Literal, Template};
use anyhow::{Context, Result};
use std::io::Read;
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
