//! The way up: replies of copies settle requests, and decide what the client gets.

use crate::class::Class;
use crate::errors;
use crate::journal::Record;
use crate::machine::Machine;
use crate::requests;
use crate::task::{Part, Purpose, Request, Task, Verdict};
use resp::reply;
use std::collections::hash_map::Entry;
use std::time::Duration;
use stdx::Instant;

/// Time for copies to answer after the level is met. Then the journal notes for those that have not that they may miss it.
const INSURED_AFTER: Duration = Duration::from_millis(10);
/// The reason why a copy is stale that has missed FLUSHALL.
pub(crate) const MISSED_ALL: &str = "it has missed a write of all keys";

impl Machine {
    /// All replies of the copy in `rack` to `task` are there.
    pub(crate) fn handle_replies(&mut self, task: u64, rack: usize, replies: Vec<u8>) {
        match self.tasks.remove(&task) {
            Some(Task::Request(request)) => self.handle_reply(task, *request, rack, replies),
            Some(Task::Look(look)) => self.handle_look_reply(task, *look, rack, &replies),
            Some(Task::Scan(scan)) => self.handle_keys(scan, &replies),
            None => {}
        }
    }

    /// The copy in `rack` was lost with requests of `task` in flight.
    pub(crate) fn handle_loss(&mut self, task: u64, rack: usize) {
        match self.tasks.remove(&task) {
            Some(Task::Request(request)) => self.lose_request(task, *request, rack),
            Some(Task::Look(look)) => self.lose_look(task, *look, rack),
            Some(Task::Scan(scan)) => self.end_scan(scan),
            None => {}
        }
    }

    fn handle_reply(&mut self, number: u64, mut request: Request, rack: usize, reply: Vec<u8>) {
        self.release(&mut request, rack);
        let reply = match request.work.class {
            Class::Scan => requests::rename_cursor(&reply, rack, self.copies.len()).unwrap_or(reply),
            _ => reply,
        };
        let is_source = request.effect.as_ref().is_some_and(|effect| effect.source == rack);
        request.parts[rack] = Part::Replied(reply);
        if is_source {
            return self.spread(number, request);
        }
        self.settle(number, request);
    }

    /// Drops the records for the case that the copy in `rack` would not answer.
    fn release(&mut self, request: &mut Request, rack: usize) {
        if !request.insured.contains(rack) {
            return;
        }
        request.insured.remove(rack);
        for key in &request.work.keys.clone() {
            let copy = &mut self.copies[rack];
            let Entry::Occupied(mut count) = copy.insured.entry(key.clone()) else { continue };
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
                if copy.hints.get(key).is_none() {
                    self.journal.push_lazily(Record::Settled { rack, key: key.clone() }, self.now);
                    self.note_whole(key);
                }
            }
        }
    }

    fn lose_request(&mut self, number: u64, mut request: Request, rack: usize) {
        if request.parts[rack] != Part::Waiting {
            return self.settle(number, request);
        }
        request.insured.remove(rack);
        self.miss_any(number, &mut request, rack);
        if request.effect.as_ref().is_some_and(|effect| effect.source == rack) {
            // Nobody knows whether it ran. The other copies are as before, and this one becomes as they are.
            request
                .parts
                .iter_mut()
                .filter(|part| **part == Part::Waiting)
                .for_each(|part| *part = Part::Failed);
        }
        self.ask_another(number, &mut request);
        self.settle(number, request);
    }

    /// The copy in `rack` has missed the request, or may have.
    fn miss_any(&mut self, number: u64, request: &mut Request, rack: usize) {
        match request.work.class {
            Class::Write | Class::Effect => self.miss(number, request, rack),
            Class::Flush => {
                request.parts[rack] = Part::Failed;
                if self.may_be_stale(rack) {
                    request.batch = request.batch.max(self.outdate(rack, MISSED_ALL));
                }
            }
            _ => request.parts[rack] = Part::Failed,
        }
    }

    /// Asks another copy if one that was to answer a read alone is lost.
    fn ask_another(&mut self, number: u64, request: &mut Request) {
        let is_alone = matches!(request.work.class, Class::Read | Class::Ask)
            && request.place.is_some()
            && request.judge(&self.settings) == Verdict::Missed
            && request.level == crate::level::Level::One;
        let order = self.settings.preference();
        let next =
            order.into_iter().find(|&rack| request.parts[rack] == Part::Unasked && self.copies[rack].is_up());
        if let (true, Some(rack)) = (is_alone, next) {
            request.counted.insert(rack);
            self.ask(number, request, rack);
        }
    }

    /// The copy that carried out an effect has answered: its keys go to the other copies.
    fn spread(&mut self, number: u64, mut request: Request) {
        let Some(effect) = &mut request.effect else { return };
        let source = effect.source;
        let Part::Replied(reply) = request.parts[source].clone() else { return };
        let ran = request.work.runs_code || request.work.replies > 1 || !reply::is_error(&reply);
        let waiting: Vec<usize> =
            (0..request.parts.len()).filter(|&rack| request.parts[rack] == Part::Waiting).collect();
        let mut racks = Vec::new();
        for rack in waiting {
            let copy = &self.copies[rack];
            if !ran {
                request.parts[rack] = Part::Replied(reply.clone());
            } else if copy.link.is_open() && copy.is_current() {
                racks.push(rack);
            } else {
                self.miss(number, &mut request, rack);
            }
        }
        if let Some(effect) = &mut request.effect {
            racks.iter().for_each(|&rack| effect.keys_left[rack] = request.work.keys.len());
        }
        let keys = if racks.is_empty() { Vec::new() } else { request.work.keys.clone() };
        self.settle(number, request);
        for key in keys {
            self.begin_look(key, number, Purpose::Effect(number), Some(source), &racks);
        }
    }

    /// The copy in `rack` has a key of the effect `number`, or has missed it, with its hint in `batch`.
    pub(crate) fn note_copied(&mut self, number: u64, rack: usize, missed: Option<u64>) {
        let Some(Task::Request(mut request)) = self.tasks.remove(&number) else { return };
        request.batch = request.batch.max(missed.unwrap_or_default());
        if missed.is_some() {
            request.parts[rack] = Part::Failed;
        }
        if let Some(effect) = &mut request.effect {
            effect.keys_left[rack] = effect.keys_left[rack].saturating_sub(1);
            if effect.keys_left[rack] == 0 {
                if request.parts[rack] == Part::Waiting {
                    request.parts[rack] = request.parts[effect.source].clone();
                }
                self.release(&mut request, rack);
            }
        }
        self.settle(number, *request);
    }

    /// Answers the client if that is decided, and ends the task if all copies are done.
    fn settle(&mut self, number: u64, mut request: Request) {
        for rack in request.faulty().iter() {
            self.miss_any(number, &mut request, rack);
        }
        if request.place.is_some() {
            match request.judge(&self.settings) {
                Verdict::Pending => {}
                Verdict::Missed => {
                    self.count_missed(request.work.writes());
                    let error = requests::fill(&request.work, &errors::missed(&request, &self.settings));
                    self.reply(&mut request, error);
                }
                Verdict::Met(reply) if !request.work.writes() => self.reply(&mut request, reply),
                Verdict::Met(_) if request.met_at.is_none() => {
                    request.met_at = Some(self.now);
                    self.met.push(number);
                }
                Verdict::Met(_) => {}
            }
        }
        let is_copied =
            request.effect.as_ref().is_none_or(|effect| effect.keys_left.iter().all(|&left| left == 0));
        if !request.waiting().is_empty() || !is_copied || request.met_at.is_some() && request.place.is_some()
        {
            self.tasks.insert(number, Task::Request(Box::new(request)));
            return;
        }
        self.held_bytes -= request.work.bytes.len();
        if request.effect.is_some() {
            request.work.keys.iter().for_each(|key| _ = self.locks.remove(key));
        }
        if !request.is_unanimous() {
            self.counts.replies_different += 1;
            self.comparison.suspect(&request.work.keys, self.now);
        }
    }

    fn reply(&mut self, request: &mut Request, reply: Vec<u8>) {
        let Some(place) = request.place.take() else { return };
        if let Some(client) = self.clients.get_mut(&place.client) {
            client.fill(place.number, reply);
            self.to_flush.push(place.client);
        }
    }

    /// Answers writes whose level is met, and whose other copies have answered or have a durable hint.
    pub(crate) fn answer_met(&mut self) {
        for number in std::mem::take(&mut self.met) {
            let Some(Task::Request(mut request)) = self.tasks.remove(&number) else { continue };
            let Verdict::Met(reply) = request.judge(&self.settings) else {
                // A copy that counted was lost meanwhile.
                request.met_at = None;
                self.settle(number, *request);
                continue;
            };
            // A write of all keys has no keys to note, so its copies have to answer.
            let is_due = request.work.class != Class::Flush
                && request.met_at.is_some_and(|at| at + INSURED_AFTER <= self.now);
            let open: Vec<usize> =
                request.waiting().iter().filter(|&rack| !request.insured.contains(rack)).collect();
            if is_due {
                open.iter().for_each(|&rack| self.insure(number, &mut request, rack));
            }
            if (is_due || open.is_empty()) && self.journal.is_durable(request.batch) {
                self.reply(&mut request, reply);
            } else {
                self.met.push(number);
            }
            self.settle(number, *request);
        }
    }

    /// When [`Machine::answer_met`] has more to do by time alone.
    pub(crate) fn met_deadline(&self) -> Instant {
        let of_task = |number: &u64| match self.tasks.get(number) {
            Some(Task::Request(request))
                if request.work.class != Class::Flush
                    && request.waiting().iter().any(|rack| !request.insured.contains(rack)) =>
            {
                request.met_at.map(|at| at + INSURED_AFTER)
            }
            _ => None,
        };
        self.met.iter().filter_map(of_task).min().unwrap_or(Instant::NEVER)
    }

    /// Has the journal note that the copy in `rack` may miss the request.
    fn insure(&mut self, number: u64, request: &mut Request, rack: usize) {
        request.insured.insert(rack);
        let at_ms = self.now.as_nanos() / 1_000_000;
        for key in &request.work.keys {
            *self.copies[rack].insured.entry(key.clone()).or_default() += 1;
            let record = Record::Hint { rack, key: key.clone(), since: number, at_ms };
            request.batch = request.batch.max(self.journal.push(record));
        }
    }
}
