//! `loadgen`: arguments in, a report out.

use clap::Parser;
use loadgen::{echo, idle, large, nodes, open, saturate, slow};
use serde_json::Value;
use std::process::ExitCode;

/// Load for a proxy, and canned nodes behind it
///
/// Each mode prints one line of JSON at its end. A wrong reply ends the run with an error.
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Mode {
    /// Nodes that store nothing and answer at once
    Nodes(nodes::Options),
    /// The floor: answers every request with the same bytes, on the proxy's own driver
    Echo(echo::Options),
    /// As much as the target takes: closed loop, spinning
    Saturate(saturate::Options),
    /// A fixed rate whatever comes back: open loop, latency from the intended start
    Open(open::Options),
    /// Memory of many clients that do nothing
    Idle(idle::Options),
    /// Memory for clients that ask for much and do not read for a while
    Slow(slow::Options),
    /// One huge value goes in and out while others ask for small ones
    Large(large::Options),
}

const EXAMPLE: &str = "\
Example, with the proxy alone on one core:
  taskset -c 1 loadgen saturate --node-ports 7001,7002,7003,7004 --target 127.0.0.1:7000 \\
      --test set --pipeline 10 --measure-pid-file proxy.pid &
  taskset -c 0 shardis proxy --port=7000 --workers=1 \\
      --nodes=127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003,127.0.0.1:7004 & echo $! > proxy.pid";

fn main() -> ExitCode {
    let outcome = match Mode::parse() {
        Mode::Nodes(options) => nodes::run(&options).map(|()| Value::Null),
        Mode::Echo(options) => echo::run(&options).map(|()| Value::Null),
        Mode::Saturate(options) => saturate::run(&options),
        Mode::Open(options) => open::run(&options),
        Mode::Idle(options) => idle::run(&options),
        Mode::Slow(options) => slow::run(&options),
        Mode::Large(options) => large::run(&options),
    };
    match outcome {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("loadgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Mode::command().debug_assert();
    }
}
