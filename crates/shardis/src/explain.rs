//! `shardis explain`: the way of a request to the nodes, by the flags of `shardis proxy`. No node is asked.

use crate::args::ProxyArgs;
use anyhow::{Result, anyhow, bail};
use proxy::{Rules, explain};
use resp::request::{RequestLimits, Scanned, Scanner};
use resp::{Request, encode};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// Prints the explanation of `request`. The exit code is 1 if the request would be refused.
pub(crate) fn run(args: &ProxyArgs, request: &[OsString]) -> Result<ExitCode> {
    if args.discovery.is_given() {
        bail!("who owns a key is known to a shardis that runs: redis-cli -p PORT PROXY EXPLAIN …");
    }
    let topology = args.topology().map_err(|error| anyhow!(error))?;
    let words: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    encode::request(&mut bytes, &words);
    let scanned = Scanner::default().scan(&bytes, &RequestLimits::default(), &mut spans, &mut Vec::new());
    let Ok(Scanned::Request { .. }) = scanned else { bail!("the request is larger than a node takes") };
    let access = args.access(std::iter::once(0));
    let rules = Rules {
        topology: &topology,
        cross_shard: args.cross_shard(),
        allow_admin: args.allow_admin,
        databases: args.databases(),
        policy: access.policies.of(0),
    };
    let explanation = explain(&rules, &Request::new(&bytes, &spans));
    // A closed stdout is no error: nobody reads.
    let _ = write!(std::io::stdout(), "{explanation}");
    Ok(if explanation.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
