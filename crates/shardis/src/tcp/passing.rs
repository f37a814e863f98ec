//! The service at one listener of mode tcp: its workers and its nodes.

use super::arguments::TcpArgs;
use super::targets::Targets;
use super::worker::{Mailbox, Message, READ_BYTES_MAX, Shared, Worker};
use crate::args::serving::Pool;
use crate::control::{Movable, Plan, Service};
use crate::descriptors::{ClientsMax, Granted};
use crate::listeners::{CannotListen, Listener, Newcomer};
use crate::log_sink::say;
use crate::passed::PassedSockets;
use crate::refused::Refused;
use crate::reload::desk::Desk;
use crate::resolver;
use crate::team::{Signs, Team, Workers};
use crate::upgrade::message::Inherited;
use crate::worker::Clock;
use ::tcp::{Core, Notice};
use ::tcp::{Nodes, Verdict};
use admin::Subject;
use anyhow::Result;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;
use topology::NodeSpec;
use tracing::{debug, info, warn};

/// Lines that wait for the log; workers drop more.
const LOG_LINES_MAX: usize = 1024;

/// The service before it runs: everything known before the first client.
pub(crate) struct PassingPlan {
    args: TcpArgs,
    specs: Vec<NodeSpec>,
    targets: Targets,
    /// Where it listens.
    place: String,
}

impl PassingPlan {
    /// Looks the names of hosts up.
    pub(crate) fn prepare(args: &TcpArgs) -> Result<PassingPlan, String> {
        let (specs, targets) = (args.node_specs()?, args.targets()?);
        Ok(PassingPlan { args: args.clone(), specs, targets, place: String::new() })
    }
}

impl Plan for PassingPlan {
    fn open(&mut self, passed: &mut PassedSockets) -> Result<Vec<Listener>, CannotListen> {
        let listeners = self.args.open(passed)?;
        self.place = listeners.iter().map(Listener::place).collect::<Vec<_>>().join(", ");
        Ok(listeners)
    }

    fn clients_max(&self) -> ClientsMax {
        let (at, wanted) = (self.place.clone(), self.args.service.maxclients);
        ClientsMax { at, wanted, sockets_each: 2, nodes: self.specs.len(), own: 0 }
    }

    fn describe(&self) {
        say(&self.args.describe(&self.place, &self.specs));
    }

    fn start(self: Box<Self>, granted: Granted, desk: &Desk) -> Result<Box<dyn Service>> {
        let clients_max = granted.clients_max;
        let (log_sender, log) = mpsc::sync_channel(LOG_LINES_MAX);
        let named = self.specs.iter().map(|node| (node.label(), node.weight));
        let shared = Shared {
            nodes: Arc::new(Mutex::new(Nodes::new(self.args.balance(), self.args.patience(), named))),
            targets: self.targets,
            resolver: resolver::start()?,
            clock: Clock::start(),
            proxy_protocol: self.args.service.proxy_protocol,
            send_proxy: self.args.send_proxy,
            log: log_sender,
        };
        let mut team = Team::new();
        for number in 0..self.args.service.workers() {
            let mut core = Core::new(self.args.limits(), READ_BYTES_MAX);
            if number == 0 {
                core.probe(self.args.probe(), self.specs.len(), shared.clock.now());
            }
            let signs = Signs::default();
            let (worker, mailbox) =
                Worker::new(core, self.args.service.busy_poll, shared.clone(), signs.clone())?;
            team.start(mailbox, signs, desk.waker(), move || worker.run())?;
        }
        Ok(Box::new(Passing { team, place: self.place, log, clients_max, refused: Refused::default() }))
    }
}

/// Workers that pass bytes, as the control thread sees them.
struct Passing {
    team: Team<Mailbox>,
    /// Where its clients come, for the log.
    place: String,
    log: mpsc::Receiver<Notice>,
    clients_max: usize,
    refused: Refused,
}

impl Service for Passing {
    /// Unless there are too many.
    fn give(&mut self, newcomer: Newcomer, _listener: usize) {
        let Newcomer::Tcp(stream, peer) = newcomer else { return };
        if self.team.clients() >= self.clients_max {
            self.refused.note();
            return;
        }
        if let Some(mailbox) = self.team.take_client() {
            mailbox.send(Message::Accept { stream, peer });
        }
    }

    fn turn(&mut self) {
        self.team.watch(Some(&self.place));
        let listener = &self.place;
        while let Ok(notice) = self.log.try_recv() {
            log(listener, &notice);
        }
        if let Some(clients) = self.refused.poll(Instant::now()) {
            let maxclients = self.clients_max;
            warn!(clients, maxclients, listener, "clients refused");
        }
    }

    fn reload(&mut self, _: Option<&Pool>) -> bool {
        false
    }

    fn subject(&self) -> Option<Arc<dyn Subject>> {
        None
    }

    fn drain(&self) {
        self.team.mailboxes().for_each(|mailbox| mailbox.send(Message::Drain));
    }

    fn leads_to_others(&self) -> bool {
        false
    }

    fn workers(&self) -> &dyn Workers {
        &self.team
    }

    fn open_to_operators(&mut self) -> Result<()> {
        Ok(())
    }

    fn close_to_operators(&mut self) {}

    fn admin_socket(&self, _: &str) -> io::Result<Option<(Inherited, OwnedFd)>> {
        Ok(None)
    }

    /// A client has a connection to a node, whose bytes are not understood here. It stays until it leaves.
    fn movable(&mut self) -> Option<&mut dyn Movable> {
        None
    }
}

fn log(listener: &str, notice: &Notice) {
    match notice {
        Notice::Node(Verdict::Up { node }) => info!(node, listener, "node up"),
        Notice::Node(Verdict::Down { node, reason }) => warn!(node, reason, listener, "node down"),
        Notice::NoNode { client, reason } => {
            warn!(client, reason, listener, hint = "no node accepts it", "client closed");
        }
        Notice::Refused { client, reason } => info!(client, reason, listener, "client refused"),
        Notice::Idle { client } => debug!(client, listener, reason = "idle timeout", "client closed"),
    }
}
