//! The configuration file, and the part of it that is served.

use clap::Args;
use std::path::PathBuf;

/// Arguments that no file can have.
#[derive(Args, Clone, Debug)]
pub(crate) struct FileArgs {
    /// Configuration file (TOML). Its keys are the flags of this page without dashes, as in nodes = ["a:6379"]. Flags
    /// on the command line win. shardis check explains mistakes (docs/configuration.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Pool of the configuration file: this one alone, and flags are about it. Without it, shardis proxy serves all;
    /// other commands need it if there are several
    #[arg(long, value_name = "NAME", requires = "config")]
    pub(crate) pool: Option<String>,
}
