//! Bounds of the log: lines of one name about one subject. Any peer that can connect causes lines, and could fill a disk
//! with them.
//!
//! A line at level error is always written, and so is the first one of a name within each period.

use crate::log_messages::Message;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tracing::Level;

/// Lines of one name about one subject within a period. Usual faults cause fewer.
const LINES_MAX: u32 = 10;
/// See [`LINES_MAX`].
const PERIOD: Duration = Duration::from_secs(10);
/// Subjects of one name within a period. Further ones share one bound.
const SUBJECTS_MAX: usize = 1024;

/// The counts of all names.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    names: BTreeMap<&'static str, Name>,
}

/// The counts of one name.
#[derive(Debug, Default)]
struct Name {
    subjects: BTreeMap<String, Window>,
    /// Lines left out that the log has no line about, and the time of the first.
    suppressed: Option<(u64, Instant)>,
}

/// The lines since an instant.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    lines: u32,
}

/// Lines of a name that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suppressed {
    pub(crate) name: &'static str,
    pub(crate) count: u64,
}

impl Bounds {
    /// An empty one.
    pub(crate) const fn new() -> Bounds {
        Bounds { names: BTreeMap::new() }
    }

    /// Whether the log may have one line more at `now`: `message` at `level` about `subject`.
    pub(crate) fn admits(&mut self, message: &Message, level: Level, subject: &str, now: Instant) -> bool {
        if level == Level::ERROR {
            return true;
        }
        let name = self.names.entry(message.name).or_default();
        let is_admitted = name.admits(subject, now);
        if !is_admitted {
            let (count, _) = name.suppressed.get_or_insert((0, now));
            *count += 1;
        }
        is_admitted
    }

    /// The names of which lines were left out: once per period, or all of them if the log `ends`.
    pub(crate) fn poll_suppressed(&mut self, now: Instant, ends: bool) -> Vec<Suppressed> {
        let take = |(name, counts): (&&'static str, &mut Name)| {
            let (count, since) = counts.suppressed?;
            let is_due = ends || now.duration_since(since) >= PERIOD;
            is_due.then(|| {
                counts.suppressed = None;
                Suppressed { name, count }
            })
        };
        self.names.iter_mut().filter_map(take).collect()
    }
}

impl Name {
    fn admits(&mut self, subject: &str, now: Instant) -> bool {
        if !self.subjects.contains_key(subject) && self.subjects.len() >= SUBJECTS_MAX {
            self.subjects.retain(|_, window| window.is_open(now));
        }
        let is_full = self.subjects.len() >= SUBJECTS_MAX && !self.subjects.contains_key(subject);
        let subject = if is_full { "" } else { subject };
        let begun = Window { since: now, lines: 0 };
        let window = self.subjects.entry(subject.to_owned()).or_insert(begun);
        if !window.is_open(now) {
            *window = begun;
        }
        window.lines = window.lines.saturating_add(1);
        window.lines <= LINES_MAX
    }
}

impl Window {
    fn is_open(self, now: Instant) -> bool {
        now.duration_since(self.since) < PERIOD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_messages::{UNLISTED, find};

    fn admitted(bounds: &mut Bounds, subject: &str, lines: usize, now: Instant) -> usize {
        let one = |_: &usize| bounds.admits(find("client closed"), Level::INFO, subject, now);
        (0..lines).filter(one).count()
    }

    #[test]
    fn lines_of_a_name_and_a_subject_are_bounded_per_period() {
        let (mut bounds, began) = (Bounds::new(), Instant::now());
        assert_eq!(admitted(&mut bounds, "idle timeout", 25, began), 10);
        assert_eq!(admitted(&mut bounds, "protocol error", 3, began), 3, "another subject");
        assert!(bounds.admits(find("node down"), Level::WARN, "idle timeout", began), "another name");
        let late = began + PERIOD - Duration::from_millis(1);
        assert_eq!(admitted(&mut bounds, "idle timeout", 5, late), 0);
        assert_eq!(bounds.poll_suppressed(late, false), []);
        let suppressed = Suppressed { name: "client closed", count: 20 };
        assert_eq!(bounds.poll_suppressed(began + PERIOD, false), [suppressed]);
        assert_eq!(bounds.poll_suppressed(began + PERIOD, true), []);
        assert_eq!(admitted(&mut bounds, "idle timeout", 25, began + PERIOD), 10);
        let suppressed = Suppressed { name: "client closed", count: 15 };
        assert_eq!(bounds.poll_suppressed(began + PERIOD, true), [suppressed], "the end waits for no period");
    }

    #[test]
    fn the_page_names_the_bounds() {
        let page = include_str!("../../../docs/log.md");
        let bound =
            format!("{LINES_MAX} lines of one name about one subject in {} seconds", PERIOD.as_secs());
        assert!(page.contains(&bound) && page.contains("1,024 subjects"));
        assert_eq!(SUBJECTS_MAX, 1024);
    }

    #[test]
    fn errors_are_never_suppressed() {
        let (mut bounds, now) = (Bounds::new(), Instant::now());
        let error = |bounds: &mut Bounds| bounds.admits(find("node refused"), Level::ERROR, "a", now);
        assert!((0..1000).all(|_| error(&mut bounds)));
        assert_eq!(bounds.poll_suppressed(now, true), []);
    }

    #[test]
    fn further_subjects_share_a_bound_until_others_are_over() {
        let (mut bounds, began) = (Bounds::new(), Instant::now());
        for number in 0..SUBJECTS_MAX {
            assert_eq!(admitted(&mut bounds, &number.to_string(), 1, began), 1);
        }
        let shared: usize =
            (0..30).map(|number| admitted(&mut bounds, &format!("more {number}"), 1, began)).sum();
        assert_eq!(shared, 10);
        assert_eq!(bounds.names["client closed"].subjects.len(), SUBJECTS_MAX + 1);
        let later = began + PERIOD;
        assert_eq!(admitted(&mut bounds, "one more", 1, later), 1);
        assert_eq!(bounds.names["client closed"].subjects.len(), 1, "those of the period before are gone");
    }

    #[test]
    fn lines_that_are_not_listed_share_a_bound() {
        let (mut bounds, now) = (Bounds::new(), Instant::now());
        let admitted = (0..30).filter(|_| bounds.admits(&UNLISTED, Level::WARN, "", now)).count();
        assert_eq!(admitted, 10);
        assert_eq!(bounds.poll_suppressed(now, true), [Suppressed { name: "other lines", count: 20 }]);
    }
}
