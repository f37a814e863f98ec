//! Clients that ask the nodes themselves, past the proxy: their latency comes from the nodes or the machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::scene;

/// Pause between two questions to a node: short enough for a 99th percentile within a second, and long beside the load.
const PACE: Duration = Duration::from_millis(4);

/// One answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) node: usize,
    pub(super) took: Duration,
}

struct Shared {
    answers: Mutex<Vec<Answer>>,
    is_over: AtomicBool,
}

/// One of them for each node.
pub(super) struct Direct {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Direct {
    /// Asks the nodes at `addresses` from now on.
    pub(super) fn start(addresses: Vec<String>) -> Direct {
        let shared = Arc::new(Shared { answers: Mutex::default(), is_over: AtomicBool::new(false) });
        let asking = addresses.into_iter().enumerate().map(|(node, address)| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.ask(node, &address))
        });
        let threads = asking.collect();
        Direct { shared, threads }
    }

    /// Answers since the last call.
    pub(super) fn take(&self) -> Vec<Answer> {
        std::mem::take(&mut *self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread does not panic.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn ask(&self, node: usize, address: &str) {
        let mut connection = None;
        while !self.is_over.load(Ordering::Relaxed) {
            // tidy: allow(sleep): the pace of the questions
            std::thread::sleep(PACE);
            let Some(asked) = connection.take().or_else(|| scene::connect(address).ok()) else { continue };
            let mut asked = asked;
            let began = Instant::now();
            let answer: redis::RedisResult<String> = redis::cmd("PING").query(&mut asked);
            if answer.is_ok() {
                let answer = Answer { node, took: began.elapsed() };
                self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
                connection = Some(asked);
            }
        }
    }
}
