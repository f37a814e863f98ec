//! When a busy worker waits a moment for company before it writes.
//!
//! A fast proxy makes small batches: it wakes for every request, and each write wakes a node for one request. If
//! it lets a few more arrive, one write serves several, here and at the node. That is worth a wait only if others are
//! really coming: several clients wait for replies, several things happened in this turn, and the worker is busy. A
//! lone client never waits.

use std::str::FromStr;
use std::time::Duration;
use stdx::Instant;

/// What the operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gather {
    /// Never wait.
    Off,
    /// Wait while the worker is busy.
    Auto,
    /// Wait so long whenever there is company.
    Always(Duration),
}

/// What `auto` waits. Longer waits save more CPU time and cost more latency: measured with 50 clients at -P 1, 15, 30
/// and 50 µs save 15, 28 and 36 % of it. Timers of the kernel are not more precise than some microseconds.
const AUTO_WAIT: Duration = Duration::from_micros(30);
/// More would be felt, whatever it saves.
const WAIT_MAX_US: u64 = 1000;
/// Over so much time it is measured how busy the worker is.
const WINDOW: Duration = Duration::from_millis(10);
/// Busy for more than this share of a window: wait. In thousandths.
const BUSY_FROM: u128 = 450;
/// Busy for less than this, although it waits no more than it must: do not. Lower, since waiting saves time.
const BUSY_UNTIL: u128 = 250;

impl FromStr for Gather {
    type Err = String;

    fn from_str(text: &str) -> Result<Gather, String> {
        match (text, text.parse::<u64>()) {
            ("auto", _) => Ok(Gather::Auto),
            ("off", _) | (_, Ok(0)) => Ok(Gather::Off),
            (_, Ok(us)) if us <= WAIT_MAX_US => Ok(Gather::Always(Duration::from_micros(us))),
            _ => Err(format!("write auto, off, or microseconds up to {WAIT_MAX_US}")),
        }
    }
}

/// Watches how busy a worker is.
#[derive(Debug)]
pub(crate) struct Pace {
    gather: Gather,
    window_began: Instant,
    /// Time of the window in which the worker had nothing to do.
    idle: Duration,
    is_busy: bool,
}

impl Pace {
    pub(crate) fn new(gather: Gather, now: Instant) -> Pace {
        Pace { gather, window_began: now, idle: Duration::ZERO, is_busy: false }
    }

    /// The worker had nothing to do from `from` to `until`.
    pub(crate) fn note_idle(&mut self, from: Instant, until: Instant) {
        self.idle += until.since(from);
        let window = until.since(self.window_began);
        if window < WINDOW {
            return;
        }
        let busy = window.saturating_sub(self.idle).as_nanos() * 1000 / window.as_nanos();
        self.is_busy = busy > if self.is_busy { BUSY_UNTIL } else { BUSY_FROM };
        self.window_began = until;
        self.idle = Duration::ZERO;
    }

    /// How long to wait for more in a turn in which `events` happened and `clients` wait for replies.
    pub(crate) fn wait(&self, events: usize, clients: usize) -> Option<Duration> {
        if events < 2 || clients < 2 {
            return None;
        }
        match self.gather {
            Gather::Off => None,
            Gather::Auto => self.is_busy.then_some(AUTO_WAIT),
            Gather::Always(wait) => Some(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    /// A pace after windows in each of which the worker was idle for `idle_us` of 10 ms.
    fn after(idle_us: &[u64]) -> Pace {
        let mut pace = Pace::new(Gather::Auto, at(0));
        for (window, idle_us) in idle_us.iter().enumerate() {
            let end = (window as u64 + 1) * 10_000;
            pace.note_idle(at(end - idle_us), at(end));
        }
        pace
    }

    #[test]
    fn a_busy_worker_with_company_waits_and_nobody_else_does() {
        assert_eq!(after(&[4_000]).wait(2, 2), Some(AUTO_WAIT));
        assert_eq!(after(&[6_000]).wait(2, 2), None);
        assert_eq!(after(&[4_000]).wait(1, 50), None);
        assert_eq!(
            after(&[4_000]).wait(4, 1),
            None,
            "a split command's replies are no company for its only client"
        );
        assert_eq!(
            Pace::new(Gather::Always(Duration::from_micros(5)), at(0)).wait(2, 2),
            Some(Duration::from_micros(5))
        );
        assert_eq!(Pace::new(Gather::Off, at(0)).wait(9, 9), None);
    }

    #[test]
    fn what_waiting_saves_does_not_end_the_waiting() {
        assert_eq!(after(&[4_000, 7_000]).wait(2, 2), Some(AUTO_WAIT));
        assert_eq!(after(&[4_000, 7_600]).wait(2, 2), None);
    }

    #[test]
    fn the_option_says_what_it_takes() {
        assert_eq!("auto".parse(), Ok(Gather::Auto));
        assert_eq!("off".parse(), Ok(Gather::Off));
        assert_eq!("0".parse(), Ok(Gather::Off));
        assert_eq!("50".parse(), Ok(Gather::Always(Duration::from_micros(50))));
        for text in ["", "-1", "1001", "always", "5us"] {
            assert!(text.parse::<Gather>().is_err(), "{text}");
        }
    }
}
