//! `shardis local`: real topologies on this machine, for people and tests, until a signal ends it.
//!
//! ```text
//!     shardis local ── pipe ──► shardis local --supervised=FOLDER ──► shardis die-with-parent ═► redis-server …
//!     (supervisor.rs)           (host.rs)                         └─► shardis die-with-parent ═► shardis proxy
//! ```
//!
//! Begin with [`LocalArgs`], which `shardis` fills from its command line, and `layout.rs`, which makes a list of processes from
//! them.
//!
//! ```text
//! $ shardis local --nodes 3
//! ```
//!
//! There are two processes, so that each clears up after the other, even after SIGKILL. The end of the first closes the pipe,
//! and the second stops all nodes and removes their data. The end of the second ends the nodes (`die_with_parent.rs`), and the
//! first removes the remaining files.
//!
//! `readiness.rs` asks the nodes whether they are ready and makes a cluster of them; `children.rs` ends them with all that they
//! forked.
//!
//! **Must not know** the proxy: it starts one as a program. Of our crates it depends on `resp` and `stdx`. It relaxes the lints of
//! the root's `clippy.toml` against clocks, threads and sockets, since it starts processes and asks nodes whether they are there.

#![expect(clippy::disallowed_methods, reason = "the crate starts processes and waits for them")]
#![expect(clippy::disallowed_types, reason = "the crate asks nodes whether they are there")]

mod arguments;
mod children;
pub mod die_with_parent;
mod folder;
mod host;
mod layout;
mod ports;
mod question;
mod readiness;
mod server;
mod show;
mod supervisor;

pub use arguments::LocalArgs;

use anyhow::Result;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::ExitCode;
use std::sync::mpsc::Sender;

/// Starts the topology of `args`, and returns when it was stopped.
pub fn run(args: &LocalArgs) -> Result<ExitCode> {
    match args.supervised() {
        Some(folder) => host::run(args, folder),
        None => supervisor::run(args),
    }
}

/// Events for which one of the two processes waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The topology must end.
    End,
    /// A process that it started has ended.
    ChildEnded,
}

/// Tells of signals from now on.
fn tell_of_signals(events: Sender<Event>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let event = if signal == SIGCHLD { Event::ChildEnded } else { Event::End };
            if events.send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
