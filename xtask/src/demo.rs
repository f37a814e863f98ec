//! `cargo xtask demo`: nodes on this machine and a proxy in front of them, until Ctrl-C. `shardis local` does all of it.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Result, anyhow};
use clap::value_parser;
use programs::needs;
use programs::process::{self, cargo, command, target_dir};

/// Size of the demo.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Nodes to start
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u16).range(1..=64))]
    nodes: u16,
    /// Port of the proxy
    #[arg(long, default_value_t = 6380, value_parser = value_parser!(u16).range(1..))]
    port: u16,
}

/// Becomes `shardis local`, so that Ctrl-C has one process to end.
pub(crate) fn run(options: &Options) -> Result<()> {
    needs::install(&[needs::REDIS_SERVER, needs::REDIS_CLI])?;
    process::run(&mut cargo(["build", "--release", "--package", "shardis"]))?;
    let error = local(options).exec();
    Err(anyhow!("cannot run shardis: {error}"))
}

fn local(options: &Options) -> Command {
    let mut local = command(target_dir().join("release/shardis"));
    local.args(["local", &format!("--nodes={}", options.nodes), &format!("--proxy={}", options.port)]);
    local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_is_where_it_is_wanted() {
        let local = local(&Options { nodes: 2, port: 6380 });
        let args: Vec<_> = local.get_args().collect();
        assert_eq!(args, ["local", "--nodes=2", "--proxy=6380"]);
    }
}
