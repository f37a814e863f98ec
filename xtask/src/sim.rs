//! `cargo xtask sim`: the simulator with the given arguments.

use anyhow::Result;
use programs::process::{self, cargo};

/// `--seed N`, `--worlds K`, `--from N`, …: the simulator knows them, `cargo xtask sim -- --help` lists them.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Arguments of the simulator, such as --seed 17 or --worlds 5000
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Runs the simulator.
pub(crate) fn run(options: &Options) -> Result<()> {
    // The dev profile, which is optimised: a seed that failed by a debug assertion must fail again when repeated.
    process::run(cargo(["run", "--quiet", "--package", "sim", "--"]).args(&options.args))
}
