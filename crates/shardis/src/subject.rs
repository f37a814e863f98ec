//! The process as the admin listener sees it.

use crate::args::VERSION;
use crate::racks::RackStatus;
use crate::reload::desk::Desk;
use crate::team::Signs;
use crate::worker::{Mailbox, Message};
use crate::{descriptors, events, logging};
use admin::{Configuration, Descriptors, Event, Racks, Setting, Subject, WorkerFacts};
use proxy::{Board, ReloadOrder, ReloadOutcome};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};

/// Time in which workers tell their clients. One that is in a long turn is left out.
const CLIENTS_WITHIN: Duration = Duration::from_secs(1);

/// A service for clients of Redis.
pub(crate) struct Served {
    pub board: Arc<Board>,
    pub mailboxes: Vec<Mailbox>,
    /// Of the workers, by their numbers.
    pub signs: Vec<Signs>,
    pub settings: Arc<RwLock<Vec<Setting>>>,
    pub started_us: u64,
    pub is_draining: Arc<AtomicBool>,
    /// The state of the mirror, if there is one.
    pub mirror: Option<Arc<mirror::Status>>,
    /// The state of the racks, if there are any.
    pub racks: Option<Arc<RackStatus>>,
    /// The way to the control thread.
    pub desk: Desk,
}

impl Subject for Served {
    fn board(&self) -> &Board {
        &self.board
    }

    fn version(&self) -> &str {
        VERSION
    }

    fn started_s(&self) -> f64 {
        self.started_us as f64 / 1e6
    }

    fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    fn workers(&self) -> Vec<WorkerFacts> {
        let load = |signs: &Signs| WorkerFacts {
            turns: signs.pulse.beats() / 2,
            busy_s: signs.busy_time().as_secs_f64(),
            batching_waits: signs.waits.count(),
            batching_waited_s: signs.waits.sum().as_secs_f64(),
            batching_wait_s: signs.waits.present().as_secs_f64(),
        };
        self.signs.iter().map(load).collect()
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors { open: descriptors::open(), max: descriptors::max() }
    }

    fn mirror(&self) -> Option<&mirror::Status> {
        self.mirror.as_deref()
    }

    fn racks(&self) -> Option<Racks> {
        let racks = self.racks.as_ref()?;
        Some(Racks { names: racks.names().to_vec(), shards: racks.shards() })
    }

    fn clients(&self) -> String {
        let (sender, lines) = mpsc::channel();
        for mailbox in &self.mailboxes {
            // A worker that has stopped has no clients.
            let _ = mailbox.send(Message::ListClients(sender.clone()));
        }
        drop(sender);
        let deadline = Instant::now() + CLIENTS_WITHIN;
        let mut all = String::new();
        while let Ok(lines) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            all.push_str(&lines);
        }
        all
    }

    fn settings(&self) -> Vec<Setting> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn events(&self) -> Vec<Event> {
        events::last()
    }

    fn log_level(&self) -> String {
        logging::level()
    }

    fn set_log_level(&self, level: &str) -> bool {
        logging::set_level(level)
    }

    fn reload(&self, order: ReloadOrder) -> ReloadOutcome {
        self.desk.ask(order)
    }

    fn configurations(&self) -> Vec<Configuration> {
        self.desk.configurations()
    }
}
