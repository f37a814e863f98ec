//! The stamp test: every value names its owner, so that a misdirected reply is noticed.

use super::client::{Client, bulk, request};
use super::fault::Fault;
use super::show;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Counts of stamped clients while they run; the test that started them waits for their growth.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Replies from a node.
    answered: AtomicU64,
    /// `-TRYAGAIN …`: never sent.
    refused: AtomicU64,
    /// `-ERR … outcome unknown …`.
    unknown: AtomicU64,
    stop: AtomicBool,
}

impl Tally {
    /// Replies from a node so far.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }

    /// Requests so far that were certainly not sent.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// Requests so far with unknown outcome.
    pub(crate) fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::SeqCst)
    }
}

/// Clients that write and read their own keys until they are stopped.
pub(crate) struct StampedClients {
    pub(crate) tally: Arc<Tally>,
    threads: Vec<JoinHandle<()>>,
}

impl StampedClients {
    /// `clients` clients of the proxy at `port`, each with its own `keys` keys.
    pub(crate) fn start(port: u16, clients: usize, keys: usize) -> StampedClients {
        StampedClients::start_from(0, port, clients, keys)
    }

    /// The same with numbers from `first` on: these clients do not know the values of clients before them.
    pub(crate) fn start_from(first: usize, port: u16, clients: usize, keys: usize) -> StampedClients {
        let tally = Arc::new(Tally::default());
        let threads = (first..first + clients)
            .map(|id| {
                let tally = Arc::clone(&tally);
                std::thread::spawn(move || run(port, id, keys, &tally))
            })
            .collect();
        StampedClients { tally, threads }
    }

    /// Ends them all; panics if one of them saw a reply that was not its own.
    #[track_caller]
    pub(crate) fn finish(self) -> Arc<Tally> {
        self.tally.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.tally
    }
}

/// One client: batches of SET and GET over all its keys with an ECHO behind each pair, checked reply by reply.
fn run(port: u16, id: usize, keys: usize, tally: &Tally) {
    let mut client = Client::connect(port);
    let mut sent: HashMap<usize, u64> = HashMap::new();
    let mut round = 0_u64;
    while !tally.stop.load(Ordering::SeqCst) {
        round += 1;
        let mut batch = Vec::new();
        for key in 0..keys {
            let name = format!("stamp:{id}:{key}");
            sent.insert(key, round);
            batch.extend(request(&[b"SET", name.as_bytes(), stamp(id, key, round).as_bytes()]));
            batch.extend(request(&[b"GET", name.as_bytes()]));
            batch.extend(request(&[b"ECHO", stamp(id, key, round).as_bytes()]));
        }
        client.send(&batch);
        for key in 0..keys {
            let set = client.read_reply();
            if !is_fault(&set, tally) {
                assert_eq!(show(&set), "+OK\\r\\n", "SET by client {id} of key {key} in round {round}");
            }
            let get = client.read_reply();
            if !is_fault(&get, tally) {
                check_stamp(&get, id, key, sent[&key]);
            }
            let echo = client.read_reply();
            assert_eq!(
                show(&echo),
                show(&bulk(stamp(id, key, round).as_bytes())),
                "the marker of client {id}"
            );
        }
    }
}

fn stamp(id: usize, key: usize, round: u64) -> String {
    format!("client {id} key {key} round {round}")
}

/// Whether `reply` is one of the errors that a broken node may cause; counts it.
fn is_fault(reply: &[u8], tally: &Tally) -> bool {
    let fault = Fault::of(reply);
    let counter = match fault {
        None => &tally.answered,
        Some(Fault::NotSent) => &tally.refused,
        Some(Fault::Unknown) => &tally.unknown,
    };
    counter.fetch_add(1, Ordering::SeqCst);
    fault.is_some()
}

/// A value must be nil or this client's own for this key, from a round that was begun.
fn check_stamp(reply: &[u8], id: usize, key: usize, last_round: u64) {
    if reply == b"$-1\r\n" {
        // A node that was killed came back empty.
        return;
    }
    let text = String::from_utf8_lossy(resp::reply::as_bulk(reply).expect("GET answers a bulk")).into_owned();
    let prefix = format!("client {id} key {key} round ");
    let round: u64 = text
        .strip_prefix(&prefix)
        .and_then(|round| round.parse().ok())
        .unwrap_or_else(|| panic!("client {id} asked for key {key} and got a foreign value: {text:?}"));
    assert!(round <= last_round, "a value from the future: {text:?}");
}
