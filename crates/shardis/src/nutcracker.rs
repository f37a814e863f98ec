//! Habits of nutcracker's operators: its stats port, and a file with the number of the process.

use crate::args::{Serving, VERSION};
use crate::log_sink::say;
use admin::{NutcrackerStats, ShownPool, Subject};
use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The pool's name at the stats port if neither the configuration nor a file of another program names it.
const NAMELESS: &str = "shardis";

/// The stats port, open and not answering yet; or none.
pub(crate) struct StatsPort {
    socket: Option<TcpListener>,
}

impl StatsPort {
    /// Listens at `addr`, if there is one.
    pub(crate) fn open(addr: Option<SocketAddr>) -> Result<StatsPort> {
        let Some(addr) = addr else { return Ok(StatsPort { socket: None }) };
        let context = || format!("cannot listen on {addr}, which --nutcracker-stats names");
        let socket = TcpListener::bind(addr).with_context(context)?;
        socket.set_nonblocking(true)?;
        Ok(StatsPort { socket: Some(socket) })
    }

    /// Tells the operator where it is.
    pub(crate) fn describe(&self) {
        if let Some(addr) = self.socket.as_ref().and_then(|socket| socket.local_addr().ok()) {
            say(&format!("nutcracker's stats at {addr}"));
        }
    }

    /// Answers about `subjects`, which are those of all pools of `serving`. Clients come by this number of `listeners`.
    pub(crate) fn start(
        self,
        serving: &Serving,
        subjects: Vec<Arc<dyn Subject>>,
        listeners: usize,
    ) -> Result<()> {
        let Some(socket) = self.socket else { return Ok(()) };
        let names = serving.pools.iter().map(|pool| pool.name.as_ref().or(serving.only_pool.as_ref()));
        let names = names.map(|name| name.cloned().unwrap_or_else(|| NAMELESS.to_owned()));
        let stats = NutcrackerStats {
            source: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            version: VERSION.to_owned(),
            started_s: crate::wall_clock::unix_us() as f64 / 1e6,
            listeners,
            pools: names.zip(subjects).map(|(name, subject)| ShownPool { name, subject }).collect(),
        };
        stats.serve(socket).context("the thread of the stats port")
    }
}

/// A file with the number of this process, which ends with it.
pub(crate) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file at `path`, in the place of an older one.
    pub(crate) fn write(path: &Path) -> Result<PidFile> {
        let text = std::process::id().to_string();
        std::fs::write(path, text).with_context(|| format!("the pid file {}", path.display()))?;
        Ok(PidFile { path: path.to_owned() })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                say(&format!("the pid file {} stays: {error}", self.path.display()));
            }
            _ => {}
        }
    }
}
