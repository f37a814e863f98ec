//! Habits of nutcracker's operators: its stats port, and a file with the number of the process.

use crate::args::listener::Place;
use crate::args::serving::ProcessFiles;
use crate::args::{Serving, VERSION};
use crate::log_sink::say;
use crate::passed::{ListeningSocket, PassedSockets};
use crate::upgrade::message::Inherited;
use admin::{NutcrackerStats, Running, ShownPool, Subject};
use anyhow::{Context, Result};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// The pool's name at the stats port if neither the configuration nor a file of another program names it.
const NAMELESS: &str = "shardis";

/// The stats port, open and not answering yet; or none.
pub(crate) struct StatsPort {
    socket: Option<TcpListener>,
    place: Option<Place>,
}

/// The option of the stats port.
const OPTION: &str = "--nutcracker-stats";

/// The stats port, which answers.
#[derive(Default)]
pub(crate) struct StatsServer {
    socket: Option<(Place, OwnedFd)>,
    running: Option<Running>,
}

impl StatsServer {
    /// The socket for the next process.
    pub(crate) fn to_inherit(&self) -> io::Result<Option<(Inherited, OwnedFd)>> {
        let Some((place, socket)) = &self.socket else { return Ok(None) };
        let (service, option, place) = (String::new(), OPTION.to_owned(), place.to_string());
        let inherited = Inherited { door: None, service, option, place, has_file: false };
        Ok(Some((inherited, socket.try_clone()?)))
    }

    /// Accepts no more.
    pub(crate) fn stop(&mut self) {
        self.socket = None;
        self.running.take().inspect(Running::stop);
    }
}

impl StatsPort {
    /// Listens at `addr`, if there is one. A socket of `passed` takes its place.
    pub(crate) fn open(addr: Option<SocketAddr>, passed: &mut PassedSockets) -> Result<StatsPort> {
        let Some(addr) = addr else { return Ok(StatsPort { socket: None, place: None }) };
        let place = Some(Place::Tcp(addr));
        if let Some(ListeningSocket::Tcp(socket, _)) =
            passed.take(OPTION, &Place::Tcp(addr)).pop().map(|passed| passed.socket)
        {
            return Ok(StatsPort { socket: Some(socket), place });
        }
        let context = || format!("cannot listen on {addr}, which --nutcracker-stats names");
        let socket = TcpListener::bind(addr).with_context(context)?;
        socket.set_nonblocking(true)?;
        Ok(StatsPort { socket: Some(socket), place })
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
    ) -> Result<StatsServer> {
        let (Some(socket), Some(place)) = (self.socket, self.place) else {
            return Ok(StatsServer::default());
        };
        let copy = OwnedFd::from(socket.try_clone()?);
        let names = serving.pools.iter().map(|pool| pool.name.as_ref().or(serving.only_pool.as_ref()));
        let names = names.map(|name| name.cloned().unwrap_or_else(|| NAMELESS.to_owned()));
        let stats = NutcrackerStats {
            source: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            version: VERSION.to_owned(),
            started_s: crate::wall_clock::unix_us() as f64 / 1e6,
            listeners,
            pools: names.zip(subjects).map(|(name, subject)| ShownPool { name, subject }).collect(),
        };
        let running = stats.serve(socket).context("the thread of the stats port")?;
        Ok(StatsServer { socket: Some((place, copy)), running: Some(running) })
    }
}

/// A file with the number of this process, which ends with it.
pub(crate) struct PidFile {
    path: PathBuf,
    is_left: bool,
}

impl PidFile {
    /// Writes the file that `files` names, in the place of an older one; `None` if they name none.
    pub(crate) fn write(files: &ProcessFiles) -> Result<Option<PidFile>> {
        let Some(path) = &files.pid else { return Ok(None) };
        let text = std::process::id().to_string();
        std::fs::write(path, text).with_context(|| format!("the pid file {}", path.display()))?;
        Ok(Some(PidFile { path: path.clone(), is_left: false }))
    }

    /// Leaves the file to the process that has written its own number there.
    pub(crate) fn leave(&mut self) {
        self.is_left = true;
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                say(&format!("the pid file {} stays: {error}", self.path.display()));
            }
            _ => {}
        }
    }
}
