//! The copies of one shard: events in, actions out.

use crate::class::Key;
use crate::client::Client;
use crate::copy::{Copy, REPAIR_PAUSE, Standing};
use crate::hints::Hint;
use crate::journal::{Journal, Kept, Record, Session, Stale};
use crate::level::RackSet;
use crate::link::{self, State};
use crate::settings::Settings;
use crate::status::{Counts, RackState, RackStatus, Status};
use crate::task::Task;
use crate::upkeep::Comparison;
use std::collections::{BTreeMap, HashSet, VecDeque};
use stdx::{Id, Instant};

/// A thing to do for a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to the copy in this rack. `handle_connected` or `handle_rack_closed` follows.
    Connect(usize),
    /// Close the connection to the copy in this rack; nothing of it may arrive any more.
    Disconnect(usize),
    /// Send bytes to the copy in a rack.
    ToRack(usize, Vec<u8>),
    /// Send bytes to a worker.
    ToClient(Id, Vec<u8>),
    /// Close the connection of a worker, which sent something that is no request.
    CloseClient(Id),
    /// Make a batch of records durable; `handle_logged` follows.
    Log(u64, Vec<Record>),
    /// Tell operators.
    Notice(Notice),
}

/// News for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A rack is read from and counts.
    Up(usize),
    /// A rack is lost.
    Down(usize, String),
    /// A rack is stale.
    Stale(usize, &'static str),
    /// A rack's node has started anew, and no other rack can tell what it lost.
    Trusted(usize),
    /// A key differed between racks, in two looks.
    Different(Key),
}

/// The copies of one shard.
#[derive(Debug)]
pub struct Machine {
    pub(crate) settings: Settings,
    pub(crate) now: Instant,
    pub(crate) next_task: u64,
    pub(crate) copies: Vec<Copy>,
    pub(crate) clients: BTreeMap<Id, Client>,
    pub(crate) tasks: BTreeMap<u64, Task>,
    /// Requests whose level is met, while others' parts of them become durable.
    pub(crate) met: Vec<u64>,
    /// Keys that are being copied.
    pub(crate) locks: HashSet<Key>,
    /// Bytes of requests in flight.
    pub(crate) held_bytes: usize,
    /// Looks in flight that are no part of a client's request.
    pub(crate) looks: usize,
    /// A write of all keys waits until no key is locked.
    pub(crate) is_flush_waiting: bool,
    pub(crate) journal: Journal,
    /// The last batch that says that a key is not kept by a stale copy alone. Before it is durable, no write is acknowledged: the
    /// next process would copy the key from there again, over the write.
    pub(crate) settled_batch: u64,
    pub(crate) comparison: Comparison,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) counts: Counts,
    /// Clients with replies to send.
    pub(crate) to_flush: Vec<Id>,
}

impl Machine {
    /// The machine that continues with the records `kept` of each rack. The instant's origin is that of unix time.
    pub fn new(settings: Settings, mut kept: Vec<Kept>, now: Instant) -> Machine {
        kept.resize(settings.racks.len(), Kept::default());
        let first_task =
            1 + kept.iter().flat_map(|kept| &kept.hints).map(|hint| hint.since).max().unwrap_or(0);
        let mut journal = Journal::default();
        let trusted = trust(&settings, &mut kept, &mut journal);
        Machine {
            copies: kept.into_iter().map(|kept| Copy::new(kept, now)).collect(),
            comparison: Comparison::new(now),
            settings,
            now,
            next_task: first_task,
            clients: BTreeMap::new(),
            tasks: BTreeMap::new(),
            met: Vec::new(),
            locks: HashSet::new(),
            held_bytes: 0,
            looks: 0,
            is_flush_waiting: false,
            journal,
            settled_batch: 0,
            actions: trusted.map(|rack| Action::Notice(Notice::Trusted(rack))).into_iter().collect(),
            counts: Counts::default(),
            to_flush: Vec::new(),
        }
    }

    /// A worker has connected.
    pub fn handle_client_opened(&mut self, client: Id) {
        self.clients.insert(client, Client::default());
    }

    /// A worker sent `bytes`.
    pub fn handle_client_bytes(&mut self, client: Id, bytes: &[u8], now: Instant) {
        self.now = now;
        if let Some(known) = self.clients.get_mut(&client) {
            known.input.extend_from_slice(bytes);
            self.run_requests(client);
        }
    }

    /// A worker has gone.
    pub fn handle_client_closed(&mut self, client: Id) {
        self.clients.remove(&client);
    }

    /// The connection to the copy in `rack` is made.
    pub fn handle_connected(&mut self, rack: usize, now: Instant) {
        self.now = now;
        let link = &mut self.copies[rack].link;
        if link.state == State::Connecting {
            link.greet(self.settings.login.as_ref(), now);
        }
    }

    /// The copy in `rack` sent `bytes`.
    pub fn handle_rack_bytes(&mut self, rack: usize, bytes: &[u8], now: Instant) {
        self.now = now;
        self.copies[rack].link.receive(bytes, now);
        loop {
            match self.copies[rack].link.next() {
                Ok(Some((link::NO_TASK, replies))) => self.handle_greeting(rack, &replies),
                Ok(Some((task, replies))) => self.handle_replies(task, rack, replies),
                Ok(None) => return,
                Err(reason) => return self.lose(rack, &reason),
            }
        }
    }

    /// The connection to the copy in `rack` has ended, or was not made.
    pub fn handle_rack_closed(&mut self, rack: usize, reason: &str, now: Instant) {
        self.now = now;
        self.lose(rack, reason);
    }

    /// The batch of records is durable, or could not be written.
    pub fn handle_logged(&mut self, batch: u64, is_durable: bool, now: Instant) {
        self.now = now;
        if is_durable {
            self.journal.written(batch);
        } else {
            self.counts.log_failures += 1;
            self.journal.failed(batch, now);
        }
        for rack in 0..self.copies.len() {
            if let State::Logging { batch } = self.copies[rack].link.state
                && self.journal.is_durable(batch)
            {
                self.copies[rack].link.open();
            }
        }
    }

    /// Does what is due, behind any number of events. Actions follow.
    pub fn handle_time(&mut self, now: Instant) {
        self.now = now;
        self.tend_links();
        self.answer_met();
        self.keep_up();
        self.resume_clients();
        self.tell_ups();
        if let Some((batch, records)) = self.journal.poll(now) {
            self.actions.push_back(Action::Log(batch, records));
        }
        for rack in 0..self.copies.len() {
            let bytes = self.copies[rack].link.take_out();
            if !bytes.is_empty() {
                self.actions.push_back(Action::ToRack(rack, bytes));
            }
        }
        for id in std::mem::take(&mut self.to_flush) {
            let bytes = self.clients.get_mut(&id).map(Client::take_out).unwrap_or_default();
            if !bytes.is_empty() {
                self.actions.push_back(Action::ToClient(id, bytes));
            }
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Machine::handle_time`] has to be called next, if nothing happens before.
    pub fn poll_deadline(&self) -> Instant {
        let of_link = |copy: &Copy| match copy.link.state {
            State::Down { until } => until,
            _ => copy.link.late_at(self.settings.timeout),
        };
        let links = self.copies.iter().map(of_link).min().unwrap_or(Instant::NEVER);
        links.min(self.journal.deadline()).min(self.upkeep_deadline()).min(self.met_deadline())
    }

    /// Whether more bytes of the worker are welcome now.
    pub fn may_read(&self, client: Id) -> bool {
        const INPUT_BYTES_MAX: usize = 1 << 20;
        self.clients
            .get(&client)
            .is_none_or(|client| !client.is_stalled || client.input.len() < INPUT_BYTES_MAX)
    }

    /// The state of the racks.
    pub fn status(&self) -> Status {
        let rack = |copy: &Copy| RackStatus {
            state: RackState::of(copy),
            hints: copy.hints.len() as u64,
            hint_bytes: copy.hints.bytes() as u64,
            lag: copy.hints.oldest_at().map(|at| self.now.since(at)).unwrap_or_default(),
        };
        Status { racks: self.copies.iter().map(rack).collect(), counts: self.counts.clone() }
    }

    /// The copies that are up.
    pub(crate) fn up(&self) -> RackSet {
        (0..self.copies.len()).filter(|&rack| self.copies[rack].is_up()).collect()
    }

    /// The first copy by preference that is up.
    pub(crate) fn preferred(&self) -> Option<usize> {
        self.settings.preference().into_iter().find(|&rack| self.copies[rack].is_up())
    }

    fn handle_greeting(&mut self, rack: usize, replies: &[u8]) {
        let copy = &mut self.copies[rack];
        match std::mem::replace(&mut copy.link.state, State::Greeting) {
            State::Greeting => match link::session_of(replies, self.settings.login.is_some()) {
                Err(reason) => self.lose(rack, &reason),
                Ok(session) => match &copy.session {
                    Some(before) if before.run_id == session.run_id => {
                        let earlier = before.client;
                        copy.link.end_earlier(earlier, session, self.now);
                    }
                    Some(_) => {
                        self.note_restart(rack);
                        self.log_session(rack, session);
                    }
                    None => self.log_session(rack, session),
                },
            },
            // An error says that the connection is gone already.
            State::Ending(session) => self.log_session(rack, session),
            state => copy.link.state = state,
        }
    }

    /// Makes the session durable before requests are sent: the next process ends this connection, if it has to.
    fn log_session(&mut self, rack: usize, session: Session) {
        self.copies[rack].session = Some(session.clone());
        let batch = self.journal.push(Record::Session { rack, session });
        self.copies[rack].link.state = State::Logging { batch };
    }

    /// The node in `rack` has started anew: nobody knows what it lost.
    fn note_restart(&mut self, rack: usize) {
        if !self.copies[rack].is_current() {
            return;
        }
        if self.may_be_stale(rack) {
            self.outdate(rack, "its node has started anew");
        } else {
            self.actions.push_back(Action::Notice(Notice::Trusted(rack)));
        }
    }

    /// Connects where it is time, and gives up connections that are silent.
    fn tend_links(&mut self) {
        for rack in 0..self.copies.len() {
            let link = &mut self.copies[rack].link;
            match link.state {
                State::Down { until } if until <= self.now => {
                    link.connect(self.now);
                    self.actions.push_back(Action::Connect(rack));
                }
                State::Down { .. } => {}
                _ if link.is_late(self.settings.timeout, self.now) => self.lose(rack, "no reply in time"),
                _ => {}
            }
        }
    }

    /// The copy in `rack` is lost: what was in flight to it may have run or not.
    pub(crate) fn lose(&mut self, rack: usize, reason: &str) {
        let copy = &mut self.copies[rack];
        if matches!(copy.link.state, State::Down { .. }) {
            return;
        }
        if copy.link.state != State::Connecting {
            self.counts.losses += 1;
        }
        let lost = copy.link.fail(self.now);
        self.actions.push_back(Action::Disconnect(rack));
        if std::mem::take(&mut copy.was_up) {
            self.actions.push_back(Action::Notice(Notice::Down(rack, reason.to_owned())));
        }
        if let Standing::Repairing(repair) = &copy.standing {
            copy.standing = Standing::Stale(repair.stale);
            self.copies[rack].repair_at = self.now + REPAIR_PAUSE;
            self.forget_hints(rack);
        }
        let mut before = 0;
        for task in lost {
            if std::mem::replace(&mut before, task) != task {
                self.handle_loss(task, rack);
            }
        }
        // All of them were of writes in flight, which have hints now.
        self.copies[rack].insured.clear();
        self.repairs_of_source(rack);
    }

    /// Begins repairs anew that compared with the copy in `source`.
    fn repairs_of_source(&mut self, source: usize) {
        for rack in 0..self.copies.len() {
            if let Standing::Repairing(repair) = &self.copies[rack].standing
                && repair.source == source
            {
                self.copies[rack].standing = Standing::Stale(repair.stale);
                self.forget_hints(rack);
            }
        }
    }

    /// Drops the hints of a copy that is stale: all of its keys are compared.
    fn forget_hints(&mut self, rack: usize) -> u64 {
        let copy = &mut self.copies[rack];
        copy.hints.clear();
        let stale = match &copy.standing {
            Standing::Stale(stale) => *stale,
            Standing::Repairing(repair) => repair.stale,
            Standing::Current => Stale::No,
        };
        self.journal.push(Record::Standing { rack, stale });
        for key in &copy.keeps {
            self.journal.push(Record::Keep { rack, key: Key::clone(key) });
        }
        self.copies[rack].stale_batch = self.journal.batch();
        self.copies[rack].stale_batch
    }

    /// The keys that the copy in `rack` has, and that all other copies may lack.
    fn only_in(&self, rack: usize) -> Vec<Key> {
        let copy = &self.copies[rack];
        let others: Vec<&Copy> =
            (0..self.copies.len()).filter(|&other| other != rack).map(|other| &self.copies[other]).collect();
        let current: Vec<&&Copy> = others.iter().filter(|other| other.is_current()).collect();
        let Some(first) = current.first() else { return Vec::new() };
        let known = first.hints.oldest_first().chain(first.insured.keys());
        let mut keys: Vec<Key> =
            known.filter(|key| others.iter().all(|other| other.may_lack(key, copy))).cloned().collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// A copy has all writes of `key`, so that no stale one is needed for it.
    pub(crate) fn note_whole(&mut self, key: &Key) {
        for rack in 0..self.copies.len() {
            if self.copies[rack].keeps.remove(key) {
                self.settled_batch = self.journal.push(Record::Settled { rack, key: Key::clone(key) });
            }
        }
    }

    /// Whether another copy is not stale, so that this one can be repaired.
    pub(crate) fn may_be_stale(&self, rack: usize) -> bool {
        (0..self.copies.len()).any(|other| other != rack && self.copies[other].is_current())
    }

    /// The copy in `rack` becomes stale. Returns the batch that says so.
    pub(crate) fn outdate(&mut self, rack: usize, reason: &'static str) -> u64 {
        if self.copies[rack].is_current() {
            self.copies[rack].keeps = self.only_in(rack).into_iter().collect();
        }
        // Its replies promise nothing any more to requests that other copies have not answered.
        for task in self.tasks.values_mut() {
            if let Task::Request(request) = task
                && request.work.writes()
            {
                request.counted.remove(rack);
            }
        }
        let copy = &mut self.copies[rack];
        let stale = match &copy.standing {
            Standing::Current => Stale::Missed,
            Standing::Stale(stale) => *stale,
            Standing::Repairing(repair) => repair.stale,
        };
        copy.standing = Standing::Stale(stale);
        copy.was_up = false;
        copy.repair_at = self.now + REPAIR_PAUSE;
        self.counts.outdated += 1;
        self.actions.push_back(Action::Notice(Notice::Stale(rack, reason)));
        let batch = self.forget_hints(rack);
        self.repairs_of_source(rack);
        batch
    }

    /// The copy in `rack` misses the write `since` of `key`. Returns the batch that says so.
    pub(crate) fn hint(&mut self, rack: usize, key: &Key, since: u64) -> u64 {
        if let Standing::Stale(_) = self.copies[rack].standing {
            return self.copies[rack].stale_batch;
        }
        if let Some(hint) = self.copies[rack].hints.get(key) {
            return hint.batch;
        }
        let at_ms = self.now.as_nanos() / 1_000_000;
        let batch = self.journal.push(Record::Hint { rack, key: Key::clone(key), since, at_ms });
        self.copies[rack].hints.add(key, Hint { since, at: self.now, batch });
        self.counts.hints += 1;
        if self.copies[rack].hints.bytes() > self.settings.hint_bytes_max && self.may_be_stale(rack) {
            return self.outdate(rack, "its hints have reached their limit");
        }
        batch
    }

    /// The copy in `rack` has `key` as others have it.
    pub(crate) fn settle_hint(&mut self, rack: usize, key: &Key) {
        if self.copies[rack].hints.remove(key) {
            self.journal.push_lazily(Record::Settled { rack, key: Key::clone(key) }, self.now);
            self.note_whole(key);
        }
    }

    fn tell_ups(&mut self) {
        for rack in 0..self.copies.len() {
            let copy = &mut self.copies[rack];
            if copy.is_up() && !copy.was_up {
                copy.was_up = true;
                self.actions.push_back(Action::Notice(Notice::Up(rack)));
            }
        }
    }
}

/// Decides how racks stand of which nothing is known. They may lack keys, or have others, so their keys are compared with those
/// of the local rack. Returns a rack that counts as current although nobody knows that it is.
fn trust(settings: &Settings, kept: &mut [Kept], journal: &mut Journal) -> Option<usize> {
    let is_first = kept.iter().all(|kept| !kept.is_known);
    for (rack, kept) in kept.iter_mut().enumerate().filter(|(_, kept)| !kept.is_known) {
        if !is_first || rack != settings.local {
            kept.stale = Stale::New;
        }
        journal.push(Record::Standing { rack, stale: kept.stale });
    }
    if kept.iter().any(|kept| kept.stale == Stale::No) {
        return None;
    }
    // Those that were current are no racks any more. One that has missed writes is better than a new one.
    let order = settings.preference();
    let missed = order.iter().copied().find(|&rack| kept[rack].stale == Stale::Missed);
    let rack = missed.or_else(|| order.first().copied())?;
    kept[rack].stale = Stale::No;
    journal.push(Record::Standing { rack, stale: Stale::No });
    Some(rack)
}

#[cfg(test)]
mod tests;
