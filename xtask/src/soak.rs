//! `cargo xtask soak`: faults of `tests/matrix.md`, picked by seed, against an optimised shardis, for any time.
//!
//! The code is `tests/soak`. It prints a line at the start, for each minute and at the end; a violation ends it.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use programs::needs;
use programs::process::{self, cargo, target_dir};

use crate::builds;

/// Duration and faults.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Minutes of faults
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Seed of the order of faults [default: a new one]
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the soak.
pub(crate) fn run(options: &Options) -> Result<()> {
    needs::install(&[needs::REDIS_SERVER])?;
    let mut soak = builds::tests()?.test("shardis", "whole")?;
    soak.args(["soak::", "--nocapture"]).env("SHARDIS_BIN", binary()?);
    soak.env("SHARDIS_SOAK_SECONDS", (options.minutes * 60).to_string());
    if let Some(seed) = options.seed {
        soak.env("SHARDIS_SEED", seed.to_string());
    }
    process::run(&mut soak)
}

/// An optimised shardis of this tree, or `SHARDIS_BIN`.
fn binary() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("SHARDIS_BIN") {
        return Ok(process::root().join(binary));
    }
    process::run(&mut cargo(["build", "--package", "shardis", "--release"]))?;
    let binary = target_dir().join("release/shardis");
    ensure!(binary.exists(), "cargo did not build {}", binary.display());
    Ok(binary)
}
