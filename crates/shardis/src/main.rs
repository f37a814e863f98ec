//! `shardis`: many Redis nodes behind one endpoint.
//!
//! The binary only connects: arguments to settings, sockets to the core, the core's notices to the log. One control
//! thread accepts clients and hears signals (`control.rs`); each worker thread turns its own loop (`worker.rs`).

#![expect(clippy::disallowed_methods, reason = "threads and clocks begin here and nowhere below")]
#![expect(clippy::disallowed_types, reason = "the control thread accepts")]

mod args;
mod control;
mod embedded;
mod logging;
mod pace;
mod resolver;
mod usage;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match args::parse() {
        Ok(args) => args,
        Err(exit) => return exit,
    };
    match control::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shardis: {error:#}");
            ExitCode::FAILURE
        }
    }
}
