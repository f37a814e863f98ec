//! Transactions that count up two keys of one shard: both keys always have the same value.

use crate::harness::fault::Fault;
use crate::harness::{Client, show};
use resp::reply::{as_integer, elements};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

const CLIENTS: usize = 2;

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    done: AtomicU64,
}

/// Clients with a pair of keys each.
pub(super) struct Pairs {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Pairs {
    pub(super) fn start(port: u16) -> Pairs {
        let shared = Arc::new(Shared::default());
        let threads = (0..CLIENTS)
            .map(|id| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || count_up(port, id, &shared))
            })
            .collect();
        Pairs { shared, threads }
    }

    /// Tells how many transactions were done.
    pub(super) fn done(&self) -> Box<dyn Fn() -> u64 + '_> {
        Box::new(|| self.shared.done.load(Ordering::SeqCst))
    }

    pub(super) fn finish(self) -> u64 {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().expect("no pair of keys differs"));
        self.shared.done.load(Ordering::SeqCst)
    }
}

fn count_up(port: u16, id: usize, shared: &Shared) {
    let mut client = Client::connect(port);
    let request = format!("MULTI\r\nINCR a{{pair{id}}}\r\nINCR b{{pair{id}}}\r\nEXEC\r\n");
    let mut last = 0;
    while !shared.stop.load(Ordering::SeqCst) {
        client.send(request.as_bytes());
        assert_eq!(client.read_reply(), b"+OK\r\n");
        for _ in 0..2 {
            let queued = client.read_reply();
            assert!(queued == b"+QUEUED\r\n" || Fault::of(&queued).is_some(), "{}", show(&queued));
        }
        if let Some(value) = value_of(&client.read_reply()) {
            assert!(value > last, "{value} behind {last}");
            last = value;
            shared.done.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// The value that both keys have; `None` if the transaction failed.
fn value_of(reply: &[u8]) -> Option<i64> {
    if reply.starts_with(b"-EXECABORT ") || Fault::of(reply).is_some() {
        return None;
    }
    let values = elements(reply).and_then(|values| values.map(as_integer).collect::<Option<Vec<i64>>>());
    let values = values.unwrap_or_else(|| panic!("EXEC answered {}", show(reply)));
    assert!(values.len() == 2 && values[0] == values[1], "a transaction was done by half: {values:?}");
    Some(values[0])
}
