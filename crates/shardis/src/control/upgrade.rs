//! Upgrades, as the control thread carries them out: it starts the next process, and takes the place of the one before.

use super::{Control, Door, LOG_PERIOD};
use crate::nutcracker::PidFile;
use crate::upgrade::message::{Begin, Go, Inherited, VERSION};
use crate::upgrade::predecessor::{Arrived, Predecessor};
use crate::upgrade::program::Program;
use crate::upgrade::successor::{Courier, News, Successor};
use anyhow::{Result, anyhow};
use mio::Events;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// Time in which a new process connects to the nodes that the old one reaches.
const NODES_WITHIN: Duration = Duration::from_secs(10);
/// Interval of the looks at these connections.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Advice about an upgrade that did not happen.
const STAYS: &str = "this process goes on as before";

/// Both sides of an upgrade.
pub(super) struct Upgrade {
    program: Program,
    /// The next process, until it serves.
    successor: Option<Successor>,
    /// The process before this one, with the clients that it sends.
    predecessor: Option<(Predecessor, mpsc::Receiver<Arrived>)>,
}

impl Upgrade {
    /// None so far. `program` is what the next process runs.
    pub(super) fn new(program: Program) -> Upgrade {
        Upgrade { program, successor: None, predecessor: None }
    }
}

impl Control {
    /// Waits until this process can serve as well as the one before, and takes its place.
    pub(super) fn take_the_place_of(&mut self, predecessor: Predecessor) -> Result<()> {
        self.systemd.be_silent();
        let (deadline, mut events) = (Instant::now() + NODES_WITHIN, Events::with_capacity(16));
        while let Some(missing) = self.missing_nodes(&predecessor) {
            if Instant::now() >= deadline {
                return Err(anyhow!("upgrade: {missing}"));
            }
            self.wait(&mut events, LOOK_EVERY)?;
            self.services.iter_mut().for_each(|service| service.turn());
        }
        let Go { clients_before } = predecessor.wait_to_go().map_err(|error| anyhow!("upgrade: {error}"))?;
        for (service, name) in self.services.iter_mut().zip(self.serving.service_names()) {
            let before =
                clients_before.iter().find(|(service, _)| *service == name).map_or(0, |(_, count)| *count);
            service.movable().into_iter().for_each(|service| service.begin_numbers_at(before));
        }
        self.doors.iter_mut().for_each(|door| door.listener.take_charge());
        match PidFile::write(&self.serving.files) {
            Ok(file) => self.pid_file = file,
            // It is too late to go back, and clients do not depend on it.
            Err(error) => error!(%error, "pid file unwritable"),
        }
        // Clients that came before were reported to both processes, and perhaps accepted by none.
        self.accept_at = Some(Instant::now());
        let arrived = predecessor.receive_clients(&self.waker)?;
        self.upgrade.predecessor = Some((predecessor, arrived));
        self.systemd.speak();
        info!(program = self.upgrade.program.path(), "upgrade taken over");
        Ok(())
    }

    /// The nodes that the process before reaches and this one does not, in words; `None` if there are none.
    fn missing_nodes(&mut self, predecessor: &Predecessor) -> Option<String> {
        let mut services = self.services.iter_mut().zip(self.serving.service_names());
        services.find_map(|(service, name)| {
            let service = service.movable()?;
            let (up, wanted) = (service.nodes_up(), predecessor.nodes_wanted(&name, service.nodes()));
            let of = if name.is_empty() { String::new() } else { format!("pool {name}: ") };
            (up < wanted)
                .then(|| format!("{of}{up} of {wanted} nodes reached that the process before reaches"))
        })
    }

    /// Takes over the clients that the process before has sent.
    pub(super) fn receive_clients(&mut self) {
        let Some((_, arrived)) = &self.upgrade.predecessor else { return };
        for arrived in arrived.try_iter() {
            let is_its = |door: &&Door| door.listener.former_number() == Some(arrived.door);
            let Some(&Door { service, number, .. }) = self.doors.iter().find(is_its) else {
                arrived.answer.decline("its listener is closed");
                continue;
            };
            match self.services[service].movable() {
                Some(service) => service.take_over(arrived, number),
                None => arrived.answer.decline("its listener has another mode"),
            }
        }
    }

    /// Starts the next process, unless something speaks against it. Returns its number, or the reason, which the log has as well.
    pub(super) fn begin_upgrade(&mut self) -> Result<u32, String> {
        if let Some(reason) = self.obstacle_to_upgrade() {
            error!(reason, hint = STAYS, "upgrade refused");
            return Err(reason.to_owned());
        }
        match self.start_successor() {
            Ok(successor) => {
                let pid = successor.pid;
                info!(pid, program = self.upgrade.program.path(), "upgrade started");
                self.upgrade.successor = Some(successor);
                Ok(pid)
            }
            Err(error) => {
                let reason = format!("{}: {}", self.upgrade.program.path(), error);
                error!(reason, hint = STAYS, "upgrade failed");
                Err(reason)
            }
        }
    }

    fn obstacle_to_upgrade(&mut self) -> Option<&'static str> {
        if self.upgrade.successor.is_some() {
            return Some("another upgrade has begun and not ended");
        }
        if std::process::id() == 1 {
            return Some("with process 1 its container ends; replace the container");
        }
        self.services.iter_mut().find_map(|service| service.movable()?.obstacle())
    }

    fn start_successor(&mut self) -> io::Result<Successor> {
        let names = self.serving.service_names();
        let mut sockets: Vec<(Inherited, OwnedFd)> = Vec::new();
        for (number, door) in self.doors.iter().enumerate() {
            sockets.push(door.listener.to_inherit(number, &names[door.service])?);
        }
        for (service, name) in self.services.iter().zip(&names) {
            sockets.extend(service.admin_socket(name)?);
        }
        sockets.extend(self.stats.to_inherit()?);
        sockets.extend(self.admin.to_inherit()?);
        let services = self.services.iter_mut().zip(names);
        let nodes_up = services.filter_map(|(service, name)| Some((name, service.movable()?.nodes_up())));
        let begin = Begin { version: VERSION, nodes_up: nodes_up.collect() };
        Successor::start(
            &self.upgrade.program,
            sockets,
            begin,
            self.serving.upgrade.ready_within,
            &self.waker,
        )
    }

    /// Hands over to the next process once it is ready. Returns the way of the clients then.
    pub(super) fn go_on_with_upgrade(&mut self) -> Option<Courier> {
        let successor = self.upgrade.successor.take()?;
        match successor.poll() {
            Some(News::Ready) => self.hand_over(&successor),
            Some(News::Failed(reason)) => {
                error!(pid = successor.pid, reason, hint = STAYS, "upgrade failed");
                None
            }
            Some(News::Closed) => None,
            None => {
                self.upgrade.successor = Some(successor);
                None
            }
        }
    }

    fn hand_over(&mut self, successor: &Successor) -> Option<Courier> {
        let services = self.services.iter_mut().zip(self.serving.service_names());
        let counts = services.filter_map(|(service, name)| Some((name, service.movable()?.clients_before())));
        let go = Go { clients_before: counts.collect() };
        // The service manager must know the new process before that one speaks.
        self.systemd.show_main(successor.pid);
        if let Err(error) = successor.go(go) {
            self.systemd.show_main(std::process::id());
            error!(pid = successor.pid, reason = error.to_string(), hint = STAYS, "upgrade failed");
            return None;
        }
        self.systemd.be_silent();
        if let Some((predecessor, _)) = &self.upgrade.predecessor {
            predecessor.say_farewell();
        }
        let courier = successor.courier();
        self.pid_file.iter_mut().for_each(PidFile::leave);
        self.stats.stop();
        self.admin.stop();
        for (number, service) in self.services.iter_mut().enumerate() {
            service.close_to_operators();
            let first_door = self.doors.iter().position(|door| door.service == number).unwrap_or_default();
            match service.movable() {
                Some(service) => service.leave(&courier, first_door),
                None => service.drain(),
            }
        }
        self.doors.iter_mut().for_each(|door| door.listener.leave_file());
        self.doors.clear();
        let clients = self.clients();
        info!(
            pid = successor.pid,
            clients,
            hint = "clients follow as they become idle",
            "upgrade handed over"
        );
        Some(courier)
    }

    /// Waits until all clients have left or gone, the time is up, or a signal comes.
    pub(super) fn let_clients_leave(mut self, courier: &Courier) {
        let timeout = self.serving.upgrade.drain_timeout;
        let (deadline, mut events) = (Instant::now() + timeout, Events::with_capacity(16));
        while !self.services.iter().all(|service| service.workers().have_ended()) {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_late = left.is_zero() && !timeout.is_zero();
            if is_late {
                warn!(clients = self.clients(), moved = courier.moved(), "upgrade drain timed out");
            }
            let left = if timeout.is_zero() { LOG_PERIOD } else { left };
            if is_late
                || self.wait(&mut events, left.min(LOG_PERIOD)).is_err()
                || super::has_bytes(&mut self.signals)
            {
                return self.drain();
            }
            self.services.iter_mut().for_each(|service| service.turn());
            self.receive_clients();
            if super::has_bytes(&mut self.upgrades) {
                error!(
                    reason = "the next process serves already",
                    hint = "send the signal to that one",
                    "upgrade refused"
                );
            }
        }
        self.services.iter_mut().for_each(|service| service.turn());
        info!(moved = courier.moved(), "upgrade finished");
    }

    /// The number of clients of all services.
    fn clients(&self) -> usize {
        self.services.iter().map(|service| service.workers().clients()).sum()
    }
}
