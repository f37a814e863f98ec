//! The ledger: it records every write with its client's reply, and compares with the nodes afterwards.
//!
//! An acknowledged write must be there exactly once. A write that was not sent must be absent. A write of unknown outcome may
//! be there once.

use super::fault::Fault;
use super::{Client, World, poll_until, show};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

const CLIENTS: usize = 6;

/// The reported outcome of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Ok,
    NotSent,
    Unknown,
}

/// One write.
struct Note {
    key: String,
    element: String,
    told: Told,
}

/// Clients that push numbered elements to a list on each shard, in pipelines.
pub(crate) struct Ledger {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Vec<Note>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    written: AtomicU64,
    faults: AtomicU64,
}

/// Numbers of writes by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    pub(crate) acknowledged: u64,
    pub(crate) not_sent: u64,
    pub(crate) unknown: u64,
}

impl Writes {
    /// A test with faults must have caused errors, and most writes must have succeeded.
    #[track_caller]
    pub(crate) fn assert_some_failed(self) {
        eprintln!("{self:?}");
        assert!(self.acknowledged > 0 && self.not_sent + self.unknown > 0, "{self:?}");
    }
}

impl Ledger {
    /// Starts clients of the proxy of `world`.
    pub(crate) fn start(world: &World) -> Ledger {
        let shared = Arc::new(Shared::default());
        let threads = (0..CLIENTS)
            .map(|id| {
                let (port, keys) = (world.proxy.port, world.key_on_each("ledger"));
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || write(port, id, &keys, &shared))
            })
            .collect();
        Ledger { shared, threads }
    }

    /// Waits until `writes` more are acknowledged.
    pub(crate) fn wait_for_more(&self, writes: u64) {
        wait_for("more writes", &self.shared.written, writes);
    }

    /// Waits until `faults` more have failed.
    pub(crate) fn wait_for_faults(&self, faults: u64) {
        wait_for("failed writes", &self.shared.faults, faults);
    }

    /// Ends the clients and compares their records with the lists in the nodes.
    #[track_caller]
    pub(crate) fn finish(self, world: &World) -> Writes {
        self.shared.stop.store(true, Ordering::SeqCst);
        let notes = self.threads.into_iter().flat_map(|thread| thread.join().unwrap());
        let notes: Vec<Note> = notes.collect();
        // After a link broke, a node runs the rest of its socket before it answers this.
        let stored = stored(world);
        let mut writes = Writes::default();
        for note in &notes {
            let times = stored.get(&(note.key.clone(), note.element.clone())).copied().unwrap_or(0);
            writes.count(note, times);
        }
        writes
    }
}

impl Writes {
    /// Adds a write of which the nodes have `times` elements.
    fn count(&mut self, Note { key, element, told }: &Note, times: usize) {
        let count = match told {
            Told::Ok => {
                assert_eq!(times, 1, "{element} of {key} was acknowledged");
                &mut self.acknowledged
            }
            Told::NotSent => {
                assert_eq!(times, 0, "{element} of {key} was said not to be sent");
                &mut self.not_sent
            }
            Told::Unknown => {
                assert!(times <= 1, "{element} of {key} stands there {times} times");
                &mut self.unknown
            }
        };
        *count += 1;
    }
}

fn wait_for(what: &str, counter: &AtomicU64, more: u64) {
    let before = counter.load(Ordering::SeqCst);
    poll_until(what, || (counter.load(Ordering::SeqCst) >= before + more).then_some(()));
}

/// Count of each element in each list, read from the nodes themselves.
fn stored(world: &World) -> HashMap<(String, String), usize> {
    let mut counts = HashMap::new();
    for (node, key) in world.nodes.iter().zip(world.key_on_each("ledger")) {
        let reply = node.connect().command(&[b"LRANGE", key.as_bytes(), b"0", b"-1"]);
        for element in resp::reply::elements(&reply).expect("LRANGE answers an array") {
            let element = resp::reply::as_bulk(element).expect("elements are bulks");
            *counts.entry((key.clone(), String::from_utf8_lossy(element).into_owned())).or_insert(0) += 1;
        }
    }
    counts
}

/// One client: pipelines of RPUSH to all lists, recorded one by one.
fn write(port: u16, id: usize, keys: &[String], shared: &Shared) -> Vec<Note> {
    let mut client = Client::connect(port);
    let mut notes = Vec::new();
    let mut number = 0;
    while !shared.stop.load(Ordering::SeqCst) {
        let mut batch = String::new();
        let first = notes.len();
        for key in keys.iter().cycle().take(keys.len() * 4) {
            number += 1;
            let element = format!("{id}-{number}");
            batch.push_str(&format!("RPUSH {key} {element}\r\n"));
            notes.push(Note { key: key.clone(), element, told: Told::Unknown });
        }
        client.send(batch.as_bytes());
        for note in &mut notes[first..] {
            note.told = told(&client.read_reply());
            let counter = if note.told == Told::Ok { &shared.written } else { &shared.faults };
            counter.fetch_add(1, Ordering::SeqCst);
        }
    }
    notes
}

/// The outcome that a reply to RPUSH reports.
fn told(reply: &[u8]) -> Told {
    match Fault::of(reply) {
        Some(Fault::NotSent) => Told::NotSent,
        Some(Fault::Unknown) => Told::Unknown,
        None => {
            assert_eq!(reply[0], b':', "RPUSH is answered with a number: {}", show(reply));
            Told::Ok
        }
    }
}
