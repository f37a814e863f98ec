//! Elements that are pushed one by one and popped by waiting clients. Each is popped at most once, and an element is missing
//! only if the outcome of a pop is unknown.

use crate::harness::fault::Fault;
use crate::harness::{Client, World, show};
use resp::reply::{as_bulk, elements};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Clients that pop from each queue.
pub(super) const POPPING: usize = 2;

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    popped: AtomicU64,
}

/// The reported outcome of each pushed element.
type Pushed = HashMap<String, Option<Fault>>;

/// The elements that a client popped.
#[derive(Default)]
struct Popped {
    elements: Vec<String>,
    unknown: usize,
}

/// One queue on each shard.
pub(super) struct Queues {
    shared: Arc<Shared>,
    queues: Vec<Queue>,
}

struct Queue {
    key: String,
    pushing: JoinHandle<Pushed>,
    popping: Vec<JoinHandle<Popped>>,
}

impl Queues {
    pub(super) fn start(world: &World) -> Queues {
        let shared = Arc::new(Shared::default());
        let queues = world.key_on_each("queue").into_iter();
        let queues = queues.map(|key| Queue::start(world.proxy.port, key, &shared)).collect();
        Queues { shared, queues }
    }

    /// Tells how many elements were popped.
    pub(super) fn done(&self) -> Box<dyn Fn() -> u64 + '_> {
        Box::new(|| self.shared.popped.load(Ordering::SeqCst))
    }

    pub(super) fn finish(self, world: &World) -> u64 {
        self.shared.stop.store(true, Ordering::SeqCst);
        for (queue, node) in self.queues.into_iter().zip(&world.nodes) {
            queue.finish(&mut node.connect());
        }
        self.shared.popped.load(Ordering::SeqCst)
    }
}

impl Queue {
    fn start(port: u16, key: String, shared: &Arc<Shared>) -> Queue {
        let popping = (0..POPPING)
            .map(|_| {
                let (key, shared) = (key.clone(), Arc::clone(shared));
                std::thread::spawn(move || pop(port, &key, &shared))
            })
            .collect();
        let (pushed, stop) = (key.clone(), Arc::clone(shared));
        let pushing = std::thread::spawn(move || push(port, &pushed, &stop));
        Queue { key, pushing, popping }
    }

    fn finish(self, node: &mut Client) {
        let pushed = self.pushing.join().expect("no push is answered oddly");
        let popped = self.popping.into_iter().map(|thread| thread.join().expect("no pop is answered oddly"));
        let (mut seen, mut unknown) = (HashSet::new(), 0);
        let mut see = |element: String| {
            assert_ne!(pushed.get(&element), Some(&Some(Fault::NotSent)), "{element} was not sent");
            assert!(pushed.contains_key(&element), "{element} is no element of {}", self.key);
            assert!(seen.insert(element.clone()), "{element} is there twice");
        };
        for popped in popped {
            unknown += popped.unknown;
            popped.elements.into_iter().for_each(&mut see);
        }
        texts(&node.command(&[b"LRANGE", self.key.as_bytes(), b"0", b"-1"])).into_iter().for_each(see);
        let is_lost =
            |(element, told): &(&String, &Option<Fault>)| told.is_none() && !seen.contains(*element);
        let lost = pushed.iter().filter(is_lost).count();
        assert!(lost <= unknown, "{lost} elements of {} are gone, {unknown} pops are unknown", self.key);
    }
}

fn push(port: u16, key: &str, shared: &Shared) -> Pushed {
    let mut client = Client::connect(port);
    let mut pushed = Pushed::new();
    while !shared.stop.load(Ordering::SeqCst) {
        let element = format!("{key}-{}", pushed.len());
        let reply = client.command(&[b"RPUSH", key.as_bytes(), element.as_bytes()]);
        pushed.insert(element, Fault::of(&reply));
    }
    pushed
}

fn pop(port: u16, key: &str, shared: &Shared) -> Popped {
    let mut client = Client::connect(port);
    let mut popped = Popped::default();
    while !shared.stop.load(Ordering::SeqCst) {
        let reply = client.command(&[b"BLPOP", key.as_bytes(), b"1"]);
        match Fault::of(&reply) {
            Some(Fault::Unknown) => popped.unknown += 1,
            Some(Fault::NotSent) => {}
            // Nothing came within the second.
            None if reply == b"*-1\r\n" => {}
            None => {
                let [of, element] = &texts(&reply)[..] else { panic!("BLPOP answered {}", show(&reply)) };
                assert_eq!(of, key, "an element of another queue");
                popped.elements.push(element.clone());
                shared.popped.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    popped
}

/// The bulks of an array.
fn texts(reply: &[u8]) -> Vec<String> {
    let bulks = elements(reply).unwrap_or_else(|| panic!("no array: {}", show(reply)));
    let bulks = bulks.map(|bulk| as_bulk(bulk).unwrap_or_else(|| panic!("no bulk: {}", show(bulk))));
    bulks.map(|bulk| String::from_utf8_lossy(bulk).into_owned()).collect()
}
