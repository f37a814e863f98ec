//! Other programs: their start from the chores of this repository and its measurements, and their installation.
//!
//! ```text
//!     xtask ──────────────────┐
//!       └──► bench-suite ─────┴──► programs ──► cargo, redis-server, nginx, …
//! ```
//!
//! Begin with [`process::command`], which runs a program at the root of the repository, and [`needs::install`], which installs
//! missing programs. Nothing here knows a chore or a measurement.
//!
//! ```
//! use programs::process;
//!
//! let told = process::read(process::command("echo").arg("shardis"))?;
//! assert_eq!(told, "shardis\n");
//! # Ok::<(), anyhow::Error>(())
//! ```

#![allow(clippy::disallowed_methods, reason = "a program that takes too long is ended by the real clock")]

pub mod needs;
pub mod process;
