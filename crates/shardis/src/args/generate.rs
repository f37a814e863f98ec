//! `shardis generate`: man pages and completions of shells, made from the flags. For packages (`cargo xtask dist`).

use super::Cli;
use clap::{Args, CommandFactory, Parser};
use clap_complete::Shell;
use std::io;
use std::path::{Path, PathBuf};

/// `shardis generate`. It is no command of [`Cli`], so help does not show it.
#[derive(Debug, Parser)]
#[command(name = "shardis generate")]
pub(super) struct GenerateCli {
    #[command(flatten)]
    pub(super) args: GenerateArgs,
}

/// Arguments of `shardis generate`.
#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    /// Folder for man pages (man) and completions (completions); it is made
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

/// The command, as users write it.
pub(super) const GENERATE: &str = "generate";

/// Shells that distributions have completions for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes all pages and completions below `folder`.
pub(crate) fn generate(folder: &Path) -> io::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    std::fs::create_dir_all(&man)?;
    std::fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), man)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut Cli::command(), "shardis", &completions)?;
    }
    Ok(())
}
