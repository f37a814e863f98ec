//! A process's time on the processors, and its waits for them, by Linux's account. It shows whether clients waited for the
//! proxy, or the proxy for the machine.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Pause between two looks: a turn that delays clients noticeably fills one.
const EVERY: Duration = Duration::from_millis(5);

/// Sums over all threads of the process until then, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    ran: u64,
    waited: u64,
}

/// Looks at a process all the time.
pub(super) struct Watch {
    looks: Arc<Mutex<Vec<Look>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A process in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Strain {
    /// Its use of one processor, in percent.
    pub(super) ran_percent: f64,
    /// Part of the time in which it could have run and no processor was free, in percent.
    pub(super) waited_percent: f64,
    /// The highest use of one processor within some 5 ms, in percent.
    pub(super) busiest_percent: f64,
}

impl Watch {
    /// Watches the process `pid` until this ends. On other systems than Linux it sees nothing.
    pub(super) fn start(pid: u32) -> Watch {
        let (looks, is_over) = (Arc::<Mutex<Vec<Look>>>::default(), Arc::<AtomicBool>::default());
        let (seen, over) = (Arc::clone(&looks), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                seen.lock().unwrap_or_else(PoisonError::into_inner).extend(look(pid));
                // tidy: allow(sleep): the time between two looks
                std::thread::sleep(EVERY);
            }
        });
        Watch { looks, is_over, thread: Some(thread) }
    }

    /// The strain since the last call.
    pub(super) fn take(&self) -> Strain {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let strain = Strain::of(&looks);
        let last = looks.pop();
        looks.clear();
        looks.extend(last);
        strain
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread does not panic.
            let _ = thread.join();
        }
    }
}

fn look(pid: u32) -> Option<Look> {
    let mut look = Look { at: Instant::now(), ran: 0, waited: 0 };
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // A thread may have ended since.
        let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else { continue };
        let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
        look.ran += numbers.next().unwrap_or(0_u64);
        look.waited += numbers.next().unwrap_or(0_u64);
    }
    Some(look)
}

impl Strain {
    fn of(looks: &[Look]) -> Strain {
        let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return Strain::default() };
        let percent = |nanos: u64, from: &Look, until: &Look| {
            let time = (until.at - from.at).as_nanos().max(1) as f64;
            nanos as f64 / time * 100.0
        };
        let busiest = looks.windows(2).map(|pair| percent(pair[1].ran - pair[0].ran, &pair[0], &pair[1]));
        Strain {
            ran_percent: percent(last.ran - first.ran, first, last),
            waited_percent: percent(last.waited - first.waited, first, last),
            busiest_percent: busiest.fold(0.0, f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_moment_is_separate_from_the_whole() {
        let begun = Instant::now();
        let look = |ms, ran_ms: u64, waited_ms: u64| {
            let at = begun + Duration::from_millis(ms);
            Look { at, ran: ran_ms * 1_000_000, waited: waited_ms * 1_000_000 }
        };
        let looks = [look(0, 7, 0), look(5, 8, 1), look(10, 12, 1)];
        let expected = Strain { ran_percent: 50.0, waited_percent: 10.0, busiest_percent: 80.0 };
        assert_eq!(Strain::of(&looks), expected);
        assert_eq!(Strain::of(&[]), Strain::default());
    }
}
