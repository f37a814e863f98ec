//! The program that an upgrade starts: the same path and the same arguments as at the start of this process.

use super::predecessor::FROM;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Variables that are about this process alone.
const OWN: [&str; 5] = ["WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", FROM];

/// The program, as this process was started.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    name: OsString,
    args: Vec<OsString>,
}

impl Program {
    /// The program of this process. To be asked at the start: once the file is replaced, the system names the old one.
    ///
    /// A name with a folder stays as it was written, so that a link is followed anew at each upgrade.
    pub(crate) fn of_this_process() -> io::Result<Program> {
        let mut words = std::env::args_os();
        let name = words.next().unwrap_or_default();
        let path = match name.as_bytes().contains(&b'/') {
            true => std::path::absolute(&name)?,
            false => std::env::current_exe()?,
        };
        Ok(Program { path, name, args: words.collect() })
    }

    /// Starts the program, which finds its end of the channel as its stdin.
    pub(crate) fn start(&self, channel: UnixStream) -> io::Result<Child> {
        let mut command = Command::new(&self.path);
        command.arg0(&self.name).args(&self.args).stdin(Stdio::from(OwnedFd::from(channel)));
        for name in OWN {
            command.env_remove(name);
        }
        command.env(FROM, std::process::id().to_string()).spawn()
    }

    /// The path, for the log.
    pub(crate) fn path(&self) -> String {
        self.path.display().to_string()
    }
}
