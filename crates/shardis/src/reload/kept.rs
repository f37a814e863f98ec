//! The last configurations, so that an operator can go back.
//!
//! They are kept as they were read, with their included files and secrets, in memory alone. Files that they name, such as that of
//! the users, are read again whenever a configuration is followed.

use super::Changes;
use crate::args::Serving;
use admin::Configuration;
use std::collections::VecDeque;

/// Configurations that are kept. Older ones are forgotten.
const KEPT_MAX: usize = 10;

/// The last configurations.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The oldest first. There is one at least.
    all: VecDeque<One>,
    /// The number of the one that is followed.
    present: u64,
    /// The one that the file had when it was followed last.
    of_file: Serving,
}

#[derive(Debug)]
struct One {
    number: u64,
    /// Seconds since 1970.
    time_s: f64,
    changes: Vec<String>,
    before: Option<u64>,
    serving: Serving,
}

impl Kept {
    /// The configuration of the start.
    pub(crate) fn new(serving: &Serving, time_s: f64) -> Kept {
        let first = One { number: 1, time_s, changes: Vec::new(), before: None, serving: serving.clone() };
        Kept { all: VecDeque::from([first]), present: 1, of_file: serving.clone() }
    }

    /// Adds `serving`, which the file has, unless `changes` from the present one to it are none.
    pub(crate) fn follow_file(&mut self, serving: &Serving, changes: &Changes, time_s: f64) {
        self.of_file = serving.clone();
        if changes.is_empty() {
            return;
        }
        let number = self.all.back().map_or(0, |newest| newest.number) + 1;
        let (changes, before) = (changes.names(), Some(self.present));
        self.all.push_back(One { number, time_s, changes, before, serving: serving.clone() });
        self.present = number;
        if self.all.len() > KEPT_MAX {
            self.all.pop_front();
        }
    }

    /// Makes the configuration `number` the present one.
    pub(crate) fn go_to(&mut self, number: u64) {
        self.present = number;
    }

    /// The number of the present one.
    pub(crate) fn present(&self) -> u64 {
        self.present
    }

    /// The configuration `wanted`, with its number; without one, that before the present one. Settings that the file has
    /// otherwise say so. If it is not kept, the reason.
    pub(crate) fn find(&self, wanted: Option<u64>) -> Result<(u64, Serving), String> {
        let one = |number: u64| self.all.iter().find(|one| one.number == number);
        let number = match wanted {
            Some(number) => number,
            None => one(self.present)
                .and_then(|one| one.before)
                .ok_or_else(|| "no configuration was followed before this one".to_owned())?,
        };
        let kept = one(number).ok_or_else(|| {
            let numbers: Vec<String> = self.all.iter().map(|one| one.number.to_string()).collect();
            format!("the configuration {number} is not kept; kept are {}", numbers.join(", "))
        })?;
        let mut serving = kept.serving.clone();
        Changes::between(&self.of_file, &serving).mark(&mut serving);
        Ok((number, serving))
    }

    /// All of them for the operator, the newest first.
    pub(crate) fn shown(&self) -> Vec<Configuration> {
        let shown = |one: &One| Configuration {
            number: one.number,
            time_s: one.time_s,
            changes: one.changes.clone(),
            before: one.before,
            is_present: one.number == self.present,
        };
        self.all.iter().rev().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::serving;

    /// Configurations with these timeouts, one after another.
    fn kept(timeouts: std::ops::RangeInclusive<u32>) -> Kept {
        let of = |timeout: u32| serving(&format!("timeout = {timeout}"));
        let mut kept = Kept::new(&of(*timeouts.start()), 0.0);
        for timeout in timeouts.skip(1) {
            let changes = Changes::between(&of(timeout - 1), &of(timeout));
            kept.follow_file(&of(timeout), &changes, f64::from(timeout));
        }
        kept
    }

    fn timeout(serving: &Serving) -> (&str, &str) {
        let setting = serving.pools[0].settings.iter().find(|setting| setting.name == "timeout");
        setting.map(|setting| (setting.value.as_str(), setting.source)).expect("it is a setting")
    }

    #[test]
    fn ten_configurations_are_kept() {
        let shown = kept(1..=13).shown();
        assert_eq!(
            shown.iter().map(|one| one.number).collect::<Vec<_>>(),
            (4..=13).rev().collect::<Vec<_>>()
        );
        assert_eq!(shown[0].changes, ["timeout"]);
        assert_eq!((shown[0].before, shown[0].is_present, shown[0].time_s), (Some(12), true, 13.0));
        assert!(shown[1..].iter().all(|one| !one.is_present));
        assert_eq!(kept(1..=1).shown()[0].changes, Vec::<String>::new());
    }

    #[test]
    fn each_step_back_goes_one_further() {
        let mut kept = kept(1..=3);
        for wanted in [2, 1] {
            let (number, serving) = kept.find(None).expect("it is kept");
            assert_eq!((number, timeout(&serving)), (wanted, (wanted.to_string().as_str(), "kept")));
            kept.go_to(number);
        }
        let none = kept.find(None).expect_err("there is no older one");
        assert_eq!(none, "no configuration was followed before this one");
        let (number, newest) = kept.find(Some(3)).expect("it is kept");
        assert_eq!((number, timeout(&newest)), (3, ("3", "file")), "the file says so as well");
    }

    #[test]
    fn file_after_a_step_back_follows_the_one_gone_back_to() {
        let mut kept = kept(1..=3);
        kept.go_to(1);
        let (before, after) = (serving("timeout = 1"), serving("timeout = 9"));
        kept.follow_file(&after, &Changes::between(&before, &after), 0.0);
        assert_eq!(kept.present(), 4);
        assert_eq!(kept.find(None).expect("it is kept").0, 1);
    }

    #[test]
    fn file_without_changes_is_no_configuration_of_its_own() {
        let mut kept = kept(1..=2);
        kept.go_to(1);
        kept.follow_file(&serving("timeout = 1"), &Changes::default(), 0.0);
        assert_eq!(kept.shown().len(), 2);
        let (_, second) = kept.find(Some(2)).expect("it is kept");
        assert_eq!(timeout(&second), ("2", "kept"), "the file has another one now");
    }

    #[test]
    fn forgotten_configuration_cannot_be_followed() {
        let reason = kept(1..=11).find(Some(1)).expect_err("it is the eleventh");
        assert_eq!(reason, "the configuration 1 is not kept; kept are 2, 3, 4, 5, 6, 7, 8, 9, 10, 11");
        assert!(kept(1..=1).find(Some(7)).is_err());
    }
}
