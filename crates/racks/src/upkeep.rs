//! Work beside requests: racks catch up, stale racks are repaired, and keys are compared in the background.

use crate::class::Key;
use crate::copy::{Phase, Repair, Standing};
use crate::journal::{Record, Stale};
use crate::machine::Machine;
use crate::task::{Purpose, Scan, Task};
use resp::{encode, reply};
use std::collections::VecDeque;
use std::time::Duration;
use stdx::Instant;

/// Looks in flight beside those of requests. Each locks its key.
const LOOKS_MAX: usize = 32;
/// Keys that one SCAN asks for.
const SCANNED: &[u8] = b"100";
/// Scanned keys that wait, above which nothing is scanned.
const QUEUE_MAX: usize = 100;
/// Keys with a difference that wait for a second look; more are left to the next round.
const SUSPECTS_MAX: usize = 1024;
/// Time until the second look. A write of another proxy, which reaches one rack before another, has passed by then.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);
/// The pace of the background comparison.
const PACE: Duration = Duration::from_millis(100);
/// The pause between two rounds of it.
const ROUND_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause between two steps of a repair.
const STEP: Duration = Duration::from_millis(10);

/// The background comparison.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// The rack whose keys are read, and the cursor.
    rack: usize,
    cursor: Vec<u8>,
    queue: VecDeque<Key>,
    is_scanning: bool,
    next_at: Instant,
    /// Keys with a difference, and the times of their second looks.
    suspects: VecDeque<(Key, Instant)>,
}

impl Comparison {
    pub(crate) fn new(now: Instant) -> Comparison {
        let (queue, suspects) = (VecDeque::new(), VecDeque::new());
        Comparison { rack: 0, cursor: b"0".to_vec(), queue, is_scanning: false, next_at: now, suspects }
    }

    /// Has `keys` looked at, and looked at again.
    pub(crate) fn suspect(&mut self, keys: &[Key], now: Instant) {
        for key in keys {
            let is_known = self.suspects.iter().any(|(known, _)| known == key);
            if self.suspects.len() < SUSPECTS_MAX && !is_known {
                self.suspects.push_back((Key::clone(key), now + SUSPECT_AFTER));
            }
        }
    }

    /// The next rack, with a pause behind the last.
    fn turn(&mut self, racks: usize, now: Instant) {
        self.cursor = b"0".to_vec();
        self.rack += 1;
        if self.rack >= racks {
            self.rack = 0;
            self.next_at = now + ROUND_PAUSE;
        }
    }
}

impl Machine {
    /// Takes the next steps.
    pub(crate) fn keep_up(&mut self) {
        if self.is_flush_waiting {
            return;
        }
        for rack in 0..self.copies.len() {
            self.catch_up(rack);
            self.repair(rack);
        }
        self.look_again();
        self.compare();
    }

    /// When [`Machine::keep_up`] has more to do by time alone.
    pub(crate) fn upkeep_deadline(&self) -> Instant {
        let of_copy = |copy: &crate::copy::Copy| match copy.standing {
            Standing::Stale(_) if copy.link.is_open() && self.preferred().is_some() => {
                copy.repair_at.max(self.now + STEP)
            }
            Standing::Repairing(_) => self.now + STEP,
            _ => Instant::NEVER,
        };
        let copies = self.copies.iter().map(of_copy).min().unwrap_or(Instant::NEVER);
        if self.up().len() < 2 {
            return copies;
        }
        let suspect = self.comparison.suspects.front().map_or(Instant::NEVER, |(_, at)| *at);
        copies.min(suspect.max(self.now + STEP)).min(self.comparison.next_at.max(self.now + STEP))
    }

    /// Copies keys to a rack that it has missed, the oldest first.
    fn catch_up(&mut self, rack: usize) {
        let copy = &self.copies[rack];
        if !copy.link.is_open() || copy.hints.is_empty() {
            return;
        }
        let room = LOOKS_MAX.saturating_sub(self.looks);
        let keys: Vec<Key> =
            copy.hints.oldest_first().filter(|key| !self.locks.contains(*key)).take(room).cloned().collect();
        for key in keys {
            match self.best_copy(&key, rack) {
                Some(best) if best == rack => self.settle_hint(rack, &key),
                Some(best) => {
                    let since = self.next_task;
                    self.begin_look(key, since, Purpose::CatchUp, Some(best), &[rack]);
                }
                None => {}
            }
        }
    }

    /// The copy to take `key` from for the one in `rack`: one that has missed nothing, or the least. It may be this one itself.
    /// None while a copy that is better cannot be reached.
    fn best_copy(&self, key: &Key, rack: usize) -> Option<usize> {
        let since = |rack: usize| self.copies[rack].missed_since(key);
        let best = (0..self.copies.len()).filter_map(since).max()?;
        let mut order = self.settings.preference().into_iter().filter(|&rack| since(rack) == Some(best));
        order.find(|&other| other == rack || self.copies[other].link.is_open())
    }

    /// Takes the next steps of the repair of a stale copy.
    fn repair(&mut self, rack: usize) {
        match &self.copies[rack].standing {
            Standing::Stale(stale) => self.begin_repair(rack, *stale),
            Standing::Repairing(repair) if repair.is_done() => self.end_repair(rack),
            Standing::Repairing(_) => {
                self.scan_for_repair(rack);
                self.look_for_repair(rack);
            }
            Standing::Current => {}
        }
    }

    fn begin_repair(&mut self, rack: usize, stale: Stale) {
        let copy = &self.copies[rack];
        let Some(source) = self.preferred().filter(|_| copy.link.is_open() && copy.repair_at <= self.now)
        else {
            return;
        };
        let number = self.next_task;
        self.next_task += 1;
        let (phase, queue) = (Phase::first(), VecDeque::new());
        self.copies[rack].standing =
            Standing::Repairing(Repair { number, stale, source, phase, queue, in_flight: 0 });
        self.scan_for_repair(rack);
    }

    /// All keys were compared. The hints of writes meanwhile are played back yet.
    fn end_repair(&mut self, rack: usize) {
        self.copies[rack].standing = Standing::Current;
        self.copies[rack].keeps.clear();
        self.journal.push(Record::Standing { rack, stale: Stale::No });
        let copy = &self.copies[rack];
        for key in copy.hints.oldest_first() {
            let Some(hint) = copy.hints.get(key) else { continue };
            let at_ms = hint.at.as_nanos() / 1_000_000;
            self.journal.push(Record::Hint { rack, key: Key::clone(key), since: hint.since, at_ms });
        }
    }

    fn scan_for_repair(&mut self, rack: usize) {
        let Standing::Repairing(repair) = &mut self.copies[rack].standing else { return };
        let (from, cursor) = match &repair.phase {
            _ if repair.queue.len() >= QUEUE_MAX || repair.in_flight > 0 => return,
            Phase::OfSource(cursor) => (repair.source, cursor.clone()),
            Phase::OfCopy(cursor) => (rack, cursor.clone()),
            Phase::Read => return,
        };
        repair.in_flight += 1;
        let repairs = Some((rack, repair.number));
        self.scan(Scan { rack: from, repairs }, &cursor);
    }

    fn look_for_repair(&mut self, rack: usize) {
        let tries = match &self.copies[rack].standing {
            Standing::Repairing(repair) => repair.queue.len(),
            _ => 0,
        };
        for _ in 0..tries.min(LOOKS_MAX.saturating_sub(self.looks)) {
            let up = self.up();
            let copy = &mut self.copies[rack];
            let Standing::Repairing(repair) = &mut copy.standing else { return };
            let Some(key) = repair.queue.pop_front() else { return };
            if self.locks.contains(&key) {
                repair.queue.push_back(key);
            } else if copy.hints.get(&key).is_none() {
                repair.in_flight += 1;
                let (source, purpose) = (repair.source, Purpose::Repair(rack, repair.number));
                // A rack that is new may have keys that the others lack.
                let (truth, racks): (_, Vec<usize>) = match repair.stale {
                    Stale::New => (None, up.iter().chain([rack]).collect()),
                    Stale::Missed | Stale::No => (Some(source), vec![rack]),
                };
                let since = self.next_task;
                self.begin_look(key, since, purpose, truth, &racks);
            }
        }
    }

    /// A look or a scan of the repair `number` is over.
    pub(crate) fn note_repair_step(&mut self, rack: usize, number: u64) {
        if let Standing::Repairing(repair) = &mut self.copies[rack].standing
            && repair.number == number
        {
            repair.in_flight -= 1;
        }
    }

    fn scan(&mut self, scan: Scan, cursor: &[u8]) {
        let mut request = Vec::new();
        encode::request(&mut request, &[b"SCAN", cursor, b"COUNT", SCANNED]);
        let number = self.next_task;
        self.next_task += 1;
        self.copies[scan.rack].link.send(number, &request, 1, false, self.now);
        self.tasks.insert(number, Task::Scan(scan));
    }

    /// The reply to a SCAN.
    pub(crate) fn handle_keys(&mut self, scan: Scan, reply: &[u8]) {
        self.end_scan(scan);
        let Some((cursor, keys)) = page(reply) else {
            return self.lose(scan.rack, "its keys cannot be read");
        };
        match scan.repairs {
            None => {
                let racks = self.copies.len();
                self.comparison.queue.extend(keys);
                match cursor {
                    b"0" => self.comparison.turn(racks, self.now),
                    cursor => self.comparison.cursor = cursor.to_vec(),
                }
            }
            Some((rack, number)) => {
                if let Standing::Repairing(repair) = &mut self.copies[rack].standing
                    && repair.number == number
                {
                    repair.phase = repair.phase.next(cursor);
                    repair.queue.extend(keys);
                }
            }
        }
    }

    /// A SCAN has ended, with a reply or without.
    pub(crate) fn end_scan(&mut self, scan: Scan) {
        match scan.repairs {
            Some((rack, number)) => self.note_repair_step(rack, number),
            None => self.comparison.is_scanning = false,
        }
    }

    /// Looks again at keys with a difference.
    fn look_again(&mut self) {
        let racks: Vec<usize> = self.up().iter().collect();
        while let Some((key, at)) = self.comparison.suspects.front()
            && *at <= self.now
            && racks.len() > 1
            && self.looks < LOOKS_MAX
            && !self.locks.contains(key)
        {
            let Some((key, _)) = self.comparison.suspects.pop_front() else { return };
            let purpose = Purpose::Compare { is_second: true };
            let since = self.next_task;
            self.begin_look(key, since, purpose, None, &racks);
        }
    }

    /// Looks at the next keys of the background comparison.
    fn compare(&mut self) {
        let racks: Vec<usize> = self.up().iter().collect();
        if racks.len() < 2 || self.comparison.next_at > self.now {
            return;
        }
        self.comparison.next_at = self.now + PACE;
        for _ in 0..(self.settings.compared_per_second / 10).max(1) {
            let Some(key) = self.comparison.queue.pop_front() else { return self.scan_to_compare() };
            if self.looks < LOOKS_MAX && !self.locks.contains(&key) {
                let purpose = Purpose::Compare { is_second: false };
                let since = self.next_task;
                self.begin_look(key, since, purpose, None, &racks);
            }
        }
    }

    fn scan_to_compare(&mut self) {
        let rack = self.comparison.rack;
        if self.comparison.is_scanning {
            return;
        }
        if !self.copies[rack].is_up() {
            return self.comparison.turn(self.copies.len(), self.now);
        }
        self.comparison.is_scanning = true;
        let cursor = self.comparison.cursor.clone();
        self.scan(Scan { rack, repairs: None }, &cursor);
    }
}

impl Repair {
    fn is_done(&self) -> bool {
        self.phase == Phase::Read && self.queue.is_empty() && self.in_flight == 0
    }
}

/// The cursor and the keys of a reply to SCAN.
fn page(reply: &[u8]) -> Option<(&[u8], Vec<Key>)> {
    let mut elements = reply::elements(reply)?;
    let cursor = reply::as_bulk(elements.next()?)?;
    let keys = reply::elements(elements.next()?)?;
    Some((cursor, keys.filter_map(reply::as_bulk).map(Key::from).collect()))
}
