//! `loadgen`: arguments in, a report out.

use clap::Parser;
use loadgen::{echo, nodes, saturate};
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
