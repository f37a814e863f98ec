//! `shardis die-with-parent`: becomes another program, which the kernel ends together with the process that started it.
//!
//! The request to the kernel must come between fork and exec. A program of its own makes it without unsafe code, since
//! the setting survives exec. Only Linux has it; elsewhere the program just runs.

use anyhow::{Result, anyhow, ensure};
use rustix::process::getppid;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The arguments of `shardis die-with-parent`.
#[derive(Clone, Debug, clap::Args)]
pub struct DieWithParentArgs {
    /// Process that must not end before the program
    parent: i32,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// A command that starts `program`. It must be started by the calling thread, and ends when this thread does, for any reason.
pub(crate) fn dies_with_us(program: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("die-with-parent").arg(std::process::id().to_string()).arg(program);
    Ok(command)
}

/// Becomes the program; returns only if that fails.
pub fn run(args: &DieWithParentArgs) -> Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The parent may have ended before the kernel got the order to watch it.
    let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    ensure!(parent == args.parent, "process {} has ended already", args.parent);
    let (program, words) = args.program.split_first().ok_or_else(|| anyhow!("there is no program"))?;
    let error = Command::new(program).args(words).exec();
    Err(anyhow!("cannot run {}: {error}", program.display()))
}
