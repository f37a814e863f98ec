//! Numbered messages: a subscriber gets those of its own channel, each at most once, and in order. Faults may lose some.

use crate::harness::fault::Fault;
use crate::harness::{Client, show};
use resp::reply::{as_bulk, elements};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

const CHANNELS: usize = 4;

/// The message behind which a subscriber ends.
const LAST: u64 = u64::MAX;

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Subscribers that have seen the last message.
    ended: AtomicU64,
    heard: AtomicU64,
}

/// A subscriber for each channel, and one client that publishes on all.
pub(super) struct Channels {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Channels {
    pub(super) fn start(port: u16) -> Channels {
        let shared = Arc::new(Shared::default());
        let listen = |id| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || listen(port, id, &shared))
        };
        let mut threads: Vec<JoinHandle<()>> = (0..CHANNELS).map(listen).collect();
        let publishing = Arc::clone(&shared);
        threads.push(std::thread::spawn(move || publish(port, &publishing)));
        Channels { shared, threads }
    }

    /// Tells how many messages were heard.
    pub(super) fn done(&self) -> Box<dyn Fn() -> u64 + '_> {
        Box::new(|| self.shared.heard.load(Ordering::SeqCst))
    }

    pub(super) fn finish(self) -> u64 {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().expect("no message is odd"));
        self.shared.heard.load(Ordering::SeqCst)
    }
}

fn publish(port: u16, shared: &Shared) {
    let mut client = Client::connect(port);
    let mut number = 0;
    while shared.ended.load(Ordering::SeqCst) < CHANNELS as u64 {
        number += 1;
        let message = if shared.stop.load(Ordering::SeqCst) { LAST } else { number };
        for id in 0..CHANNELS {
            let reply = client.ask(&format!("PUBLISH channel{id} {message}")).into_bytes();
            assert!(reply.starts_with(b":") || Fault::of(&reply).is_some(), "{}", show(&reply));
        }
    }
}

fn listen(port: u16, id: usize, shared: &Shared) {
    let mut client = Client::connect(port);
    let channel = format!("channel{id}");
    let told = client.ask(&format!("SUBSCRIBE {channel}"));
    assert!(told.ends_with(":1\\r\\n"), "{told}");
    let mut last = 0;
    loop {
        let message = client.read_reply();
        let parts: Option<Vec<&[u8]>> = elements(&message).and_then(|parts| parts.map(as_bulk).collect());
        let Some([b"message", of, text]) = parts.as_deref() else { panic!("no message: {}", show(&message)) };
        assert_eq!(*of, channel.as_bytes(), "a message of another channel");
        let number: u64 = String::from_utf8_lossy(text).parse().expect("a number");
        assert!(number > last, "{number} behind {last}");
        if number == LAST {
            shared.ended.fetch_add(1, Ordering::SeqCst);
            return;
        }
        last = number;
        shared.heard.fetch_add(1, Ordering::SeqCst);
    }
}
