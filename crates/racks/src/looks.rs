//! Looks at keys: a key is read from copies, compared, and written to those that have another value. Nothing else writes to a
//! single copy: not after an effect, not for a rack that catches up, not in a repair.

use crate::class::Key;
use crate::link::write_look;
use crate::machine::{Action, Machine, Notice};
use crate::task::{Look, LookPart, Purpose, Task, Value};
use crate::value;
use resp::{encode, reply};

impl Machine {
    /// Begins a look at `key`. The copies in `racks` are compared, or get the value of `truth` without being asked. The key must
    /// not be locked, unless for an effect, which has locked it.
    pub(crate) fn begin_look(
        &mut self,
        key: Key,
        since: u64,
        purpose: Purpose,
        truth: Option<usize>,
        racks: &[usize],
    ) {
        let is_blind = matches!(purpose, Purpose::Effect(_) | Purpose::CatchUp);
        let mut parts = vec![LookPart::Done; self.copies.len()];
        for &rack in racks {
            parts[rack] = if is_blind { LookPart::Blind } else { LookPart::Reading };
        }
        if let Some(rack) = truth {
            parts[rack] = LookPart::Reading;
        }
        let number = self.next_task;
        self.next_task += 1;
        let mut request = Vec::new();
        write_look(&key, &mut request);
        for (copy, _) in self.copies.iter_mut().zip(&parts).filter(|(_, part)| **part == LookPart::Reading) {
            copy.link.send(number, &request, 2, false, self.now);
        }
        if !matches!(purpose, Purpose::Effect(_)) {
            self.locks.insert(Key::clone(&key));
            self.looks += 1;
        }
        let look = Look { key, since, purpose, truth, parts };
        self.tasks.insert(number, Task::Look(Box::new(look)));
    }

    pub(crate) fn handle_look_reply(&mut self, number: u64, mut look: Look, rack: usize, replies: &[u8]) {
        match look.parts[rack] {
            LookPart::Reading => {
                let Some(value) = value::of_replies(replies) else {
                    self.tasks.insert(number, Task::Look(Box::new(look)));
                    self.lose(rack, "a key cannot be read");
                    return self.handle_loss(number, rack);
                };
                look.parts[rack] = LookPart::Read(value);
                if look.parts.contains(&LookPart::Reading) {
                    self.tasks.insert(number, Task::Look(Box::new(look)));
                } else {
                    self.write_truth(number, look);
                }
            }
            LookPart::Writing if reply::is_error(replies) => {
                self.tasks.insert(number, Task::Look(Box::new(look)));
                let reason = String::from_utf8_lossy(&replies[1..]).trim_end().to_owned();
                self.lose(rack, &reason);
                self.handle_loss(number, rack);
            }
            LookPart::Writing => {
                look.parts[rack] = LookPart::Done;
                self.note_same(&look, rack, true);
                self.advance_look(number, look);
            }
            LookPart::Done | LookPart::Read(_) | LookPart::Blind => self.advance_look(number, look),
        }
    }

    /// The copy in `rack` was lost during a look.
    pub(crate) fn lose_look(&mut self, number: u64, mut look: Look, rack: usize) {
        match look.parts[rack] {
            // Without the value that counts nothing is written; a comparison wants all values.
            LookPart::Reading => {
                for other in 0..look.parts.len() {
                    if look.parts[other] == LookPart::Blind {
                        self.note_missed(&look, other);
                    }
                }
                look.parts.fill(LookPart::Done);
            }
            LookPart::Writing => {
                look.parts[rack] = LookPart::Done;
                self.note_missed(&look, rack);
            }
            LookPart::Done | LookPart::Read(_) | LookPart::Blind => {}
        }
        self.advance_look(number, look);
    }

    /// All values are there: the one that counts goes to the copies that have another.
    fn write_truth(&mut self, number: u64, mut look: Look) {
        let order = self.settings.preference();
        let read: Vec<(usize, &Value)> = order
            .iter()
            .filter_map(|&rack| match &look.parts[rack] {
                LookPart::Read(value) => Some((rack, value)),
                _ => None,
            })
            .collect();
        let values: Vec<&Value> = read.iter().map(|(_, value)| *value).collect();
        let evaluator = self.settings.evaluator;
        let at = match look.truth {
            Some(truth) => read.iter().position(|(rack, _)| *rack == truth).unwrap_or_default(),
            None => value::truth(&values, evaluator),
        };
        let Some(&truth) = values.get(at) else { return self.advance_look(number, look) };
        let differ: Vec<usize> = read
            .iter()
            .filter(|(_, value)| !value::are_same(value, truth, evaluator))
            .map(|(rack, _)| *rack)
            .collect();
        let truth = truth.clone();
        let is_compared = matches!(look.purpose, Purpose::Repair(..) | Purpose::Compare { .. });
        self.counts.compared += u64::from(is_compared);
        if self.is_to_be_confirmed(&look, !differ.is_empty()) {
            look.parts.fill(LookPart::Done);
            return self.advance_look(number, look);
        }
        // A stale copy that has the key no more has lost it: what others have is better than nothing.
        let is_gone = look.truth.is_some_and(|rack| !self.copies[rack].is_current()) && truth.dump.is_none();
        let request = restore(&look.key, &truth);
        for rack in 0..look.parts.len() {
            let is_target = look.parts[rack] == LookPart::Blind || differ.contains(&rack);
            let was_read = matches!(look.parts[rack], LookPart::Read(_));
            look.parts[rack] = LookPart::Done;
            if is_target && is_gone {
                self.note_same(&look, rack, false);
            } else if is_target && self.copies[rack].link.is_open() {
                self.copies[rack].link.send(number, &request, 1, false, self.now);
                look.parts[rack] = LookPart::Writing;
            } else if is_target {
                self.note_missed(&look, rack);
            } else if was_read && look.truth != Some(rack) {
                self.note_same(&look, rack, false);
            }
        }
        self.advance_look(number, look);
    }

    /// Whether the look of a comparison writes nothing: there is no difference, or it may pass.
    fn is_to_be_confirmed(&mut self, look: &Look, differs: bool) -> bool {
        match look.purpose {
            Purpose::Compare { is_second: true } if differs => {
                self.counts.different += 1;
                self.actions.push_back(Action::Notice(Notice::Different(Key::clone(&look.key))));
                false
            }
            Purpose::Compare { is_second: false } if differs => {
                self.comparison.suspect(std::slice::from_ref(&look.key), self.now);
                true
            }
            Purpose::Compare { .. } => true,
            Purpose::Effect(_) | Purpose::CatchUp | Purpose::Repair(..) => false,
        }
    }

    /// The copy in `rack` has the value that counts.
    fn note_same(&mut self, look: &Look, rack: usize, was_written: bool) {
        match look.purpose {
            Purpose::Effect(number) => {
                self.settle_hint(rack, &look.key);
                self.note_copied(number, rack, None);
            }
            Purpose::CatchUp => {
                self.settle_hint(rack, &look.key);
                self.counts.played_back += 1;
            }
            Purpose::Repair(..) | Purpose::Compare { .. } => {
                self.settle_hint(rack, &look.key);
                self.counts.repaired += u64::from(was_written);
            }
        }
    }

    /// The copy in `rack` may have another value than the others.
    fn note_missed(&mut self, look: &Look, rack: usize) {
        let batch = self.hint(rack, &look.key, look.since);
        if let Purpose::Effect(number) = look.purpose {
            self.note_copied(number, rack, Some(batch));
        }
    }

    /// Ends a look that has nothing more to do.
    fn advance_look(&mut self, number: u64, look: Look) {
        if look.parts.iter().any(|part| !matches!(part, LookPart::Done)) {
            self.tasks.insert(number, Task::Look(Box::new(look)));
            return;
        }
        if !matches!(look.purpose, Purpose::Effect(_)) {
            self.locks.remove(&look.key);
            self.looks -= 1;
        }
        if let Purpose::Repair(rack, number) = look.purpose {
            self.note_repair_step(rack, number);
        }
    }
}

/// The request that gives a copy the value of a key.
fn restore(key: &Key, value: &Value) -> Vec<u8> {
    let mut request = Vec::new();
    match &value.dump {
        None => encode::request(&mut request, &[b"DEL", key]),
        Some(dump) => {
            // 0 means that it does not expire.
            let ttl = value.ttl_ms.map_or(0, |ttl| ttl.max(1)).to_string();
            encode::request(&mut request, &[b"RESTORE", key, ttl.as_bytes(), dump, b"REPLACE"]);
        }
    }
    request
}
