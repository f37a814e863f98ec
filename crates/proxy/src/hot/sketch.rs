//! Space-Saving (Metwally, Agrawal and El Abbadi, 2005) with decay: the heaviest of many keys in bounded memory.
//!
//! A key that is not in the full table takes the place of the lightest one, and with it that one's weight. This weight
//! is noted as the error. So no weight is too small, and it is too large by at most its error. The error is at most the
//! weight of all keys divided by the size of the table. A key that has more than that share is always in the table.

use std::collections::HashMap;

/// Keys in the table: the error is at most 1/256 of all.
const ENTRIES_MAX: usize = 256;
/// Bytes of a key that are kept. Longer keys count as one if they begin alike.
const KEY_BYTES_MAX: usize = 256;
/// Seconds in which weights halve.
const HALF_LIFE_S: f64 = 60.0;
/// Lighter keys are forgotten, so that a table that is not full gets empty.
const WEIGHT_MIN: f64 = 0.01;

/// One look at a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub weight: f64,
    pub is_write: bool,
    /// The bytes of the value, as far as the look shows them.
    pub bytes: u64,
}

/// One key of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Weighed {
    pub key: Box<[u8]>,
    /// The weight that decays, at most `error` too large.
    pub weight: f64,
    pub error: f64,
    /// The part of the weight that comes from writes.
    pub written: f64,
    /// The largest value that was seen.
    pub bytes_max: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sketch {
    entries: Vec<Weighed>,
    places: HashMap<Box<[u8]>, usize>,
    /// Seconds since the first look.
    age_s: u32,
}

/// The table at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Top {
    pub entries: Vec<Weighed>,
    /// The weight of a steady load of one in a second.
    pub per_second: f64,
}

/// A weight is multiplied by this in each second.
fn factor() -> f64 {
    (-1.0 / HALF_LIFE_S).exp2()
}

impl Sketch {
    /// Adds one look at `key`.
    pub(crate) fn add(&mut self, key: &[u8], seen: Seen) {
        let key = &key[..key.len().min(KEY_BYTES_MAX)];
        let place = match self.places.get(key) {
            Some(&place) => place,
            None => self.give_place(key.into()),
        };
        let entry = &mut self.entries[place];
        entry.weight += seen.weight;
        entry.written += if seen.is_write { seen.weight } else { 0.0 };
        entry.bytes_max = entry.bytes_max.max(seen.bytes);
    }

    /// The place of a new key: a free one, or that of the lightest.
    fn give_place(&mut self, key: Box<[u8]>) -> usize {
        let new = Weighed { key: key.clone(), weight: 0.0, error: 0.0, written: 0.0, bytes_max: 0 };
        let place = match self.entries.len() < ENTRIES_MAX {
            true => {
                self.entries.push(new);
                self.entries.len() - 1
            }
            false => {
                let lightest = (0..ENTRIES_MAX)
                    .min_by(|&a, &b| self.entries[a].weight.total_cmp(&self.entries[b].weight))
                    .unwrap_or(0);
                let weight = self.entries[lightest].weight;
                self.places.remove(&self.entries[lightest].key);
                self.entries[lightest] = Weighed { weight, error: weight, ..new };
                lightest
            }
        };
        self.places.insert(key, place);
        place
    }

    /// Lets a second pass.
    pub(crate) fn decay(&mut self) {
        let factor = factor();
        self.age_s = self.age_s.saturating_add(1);
        for entry in &mut self.entries {
            entry.weight *= factor;
            entry.error *= factor;
            entry.written *= factor;
        }
        if self.entries.iter().any(|entry| entry.weight < WEIGHT_MIN) {
            self.entries.retain(|entry| entry.weight >= WEIGHT_MIN);
            self.places =
                self.entries.iter().enumerate().map(|(at, entry)| (entry.key.clone(), at)).collect();
        }
    }

    /// The table as of now.
    pub(crate) fn top(&self) -> Top {
        let factor = factor();
        // The sum of a geometric series: what a second weighs now, the one before, and so on.
        let per_second = (1.0 - factor.powf(f64::from(self.age_s.max(1)))) / (1.0 - factor);
        Top { entries: self.entries.clone(), per_second }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    const READ: Seen = Seen { weight: 1.0, is_write: false, bytes: 10 };

    fn weight_of(sketch: &Sketch, key: &[u8]) -> Option<(f64, f64)> {
        let found = sketch.entries.iter().find(|entry| *entry.key == *key);
        found.map(|entry| (entry.weight, entry.error))
    }

    #[test]
    fn a_few_keys_are_counted_exactly() {
        let mut sketch = Sketch::default();
        (0..100).for_each(|number: u32| sketch.add(&[(number % 10) as u8], READ));
        sketch.add(&[3], Seen { weight: 5.0, is_write: true, bytes: 99 });
        assert_eq!(weight_of(&sketch, &[3]), Some((15.0, 0.0)));
        let entry = &sketch.top().entries[3];
        assert_eq!((entry.written, entry.bytes_max), (5.0, 99));
    }

    /// The bounds of the paper: no weight is too small, nor too large by more than its error. And the error is at most
    /// the weight of all keys divided by the size of the table.
    #[test]
    fn weights_are_right_within_the_error() {
        let mut prng = Prng::new(7);
        let (mut sketch, mut truth) = (Sketch::default(), HashMap::<Vec<u8>, f64>::new());
        let total = 100_000;
        for _ in 0..total {
            // A third goes to ten keys, the rest to ten thousand.
            let number = if prng.one_in(3) { prng.below(10) } else { 10 + prng.below(10_000) };
            let key = number.to_string().into_bytes();
            sketch.add(&key, READ);
            *truth.entry(key).or_default() += 1.0;
        }
        assert_eq!((sketch.entries.len(), sketch.places.len()), (ENTRIES_MAX, ENTRIES_MAX));
        for entry in &sketch.entries {
            let true_weight = truth[&entry.key.to_vec()];
            assert!(entry.weight >= true_weight && entry.weight - entry.error <= true_weight, "{entry:?}");
            assert!(entry.error <= f64::from(total) / ENTRIES_MAX as f64, "{entry:?}");
        }
        for hot in 0..10 {
            assert!(weight_of(&sketch, hot.to_string().as_bytes()).is_some(), "{hot} is in the table");
        }
    }

    #[test]
    fn a_steady_load_has_its_rate_at_any_age() {
        let mut sketch = Sketch::default();
        for second in 1..=300 {
            sketch.add(b"k", Seen { weight: 40.0, ..READ });
            sketch.decay();
            let top = sketch.top();
            let rate = top.entries[0].weight / top.per_second;
            assert!((rate - 40.0).abs() < 1.0, "{rate} after {second} s");
        }
    }

    #[test]
    fn a_key_without_requests_is_forgotten() {
        let mut sketch = Sketch::default();
        sketch.add(b"k", READ);
        (0..3600).for_each(|_| sketch.decay());
        assert!(sketch.entries.is_empty() && sketch.places.is_empty());
    }

    #[test]
    fn long_keys_are_cut() {
        let mut sketch = Sketch::default();
        sketch.add(&[b'x'; 1000], READ);
        assert_eq!(sketch.entries[0].key.len(), KEY_BYTES_MAX);
    }
}
