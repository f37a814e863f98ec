//! A simulated node: a store behind connections that outlive the wish of their owner.

use resp::Request;
use resp::request::{RequestLimits, Scanned, Scanner};
use std::collections::BTreeMap;
use store::{CallerId, EvictionPolicy, Store, StoreSettings};

/// One node.
pub(crate) struct Node {
    pub store: Store,
    pub run: u64,
    /// Milliseconds by which its clock is wrong.
    pub skew_ms: i64,
    /// Nothing is read until then.
    pub frozen_until: u64,
    next_client: i64,
    conns: BTreeMap<u64, Conn>,
}

struct Conn {
    client: i64,
    caller: CallerId,
    input: Vec<u8>,
    scanner: Scanner,
}

fn store(seed: u64) -> Store {
    Store::new(StoreSettings { seed, memory_max: None, policy: EvictionPolicy::NoEviction })
}

impl Node {
    pub(crate) fn new(seed: u64) -> Node {
        let conns = BTreeMap::new();
        Node { store: store(seed), run: seed, skew_ms: 0, frozen_until: 0, next_client: 1, conns }
    }

    /// Starts anew, with or without its keys. Returns the connections that end.
    pub(crate) fn restart(&mut self, run: u64, keeps: bool) -> Vec<u64> {
        self.run = run;
        self.next_client = 1;
        if !keeps {
            self.store = store(run);
        }
        std::mem::take(&mut self.conns).into_keys().collect()
    }

    pub(crate) fn accept(&mut self, conn: u64) {
        let client = self.next_client;
        self.next_client += 1;
        let caller = self.store.admit();
        self.conns.insert(conn, Conn { client, caller, input: Vec::new(), scanner: Scanner::default() });
    }

    pub(crate) fn end(&mut self, conn: u64) {
        if let Some(conn) = self.conns.remove(&conn) {
            self.store.dismiss(conn.caller);
        }
    }

    /// The time of day by its clock.
    pub(crate) fn time_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_add_signed(self.skew_ms)
    }

    /// Runs the complete requests behind `bytes`. Returns the replies, and the connections that it ended.
    pub(crate) fn receive(&mut self, id: u64, bytes: &[u8], now_ms: u64) -> (Vec<u8>, Vec<u64>) {
        let now_ms = self.time_ms(now_ms);
        let (mut out, mut ended) = (Vec::new(), Vec::new());
        let Some(mut conn) = self.conns.remove(&id) else { return (out, ended) };
        conn.input.extend_from_slice(bytes);
        let (mut at, mut args, mut inline) = (0, Vec::new(), Vec::new());
        while let Ok(Scanned::Request { len }) =
            conn.scanner.scan(&conn.input[at..], &RequestLimits::default(), &mut args, &mut inline)
        {
            let request = Request::new(&conn.input[at..at + len], &args);
            let words: Vec<&[u8]> = request.args().collect();
            match words.as_slice() {
                [b"CLIENT", b"ID"] => resp::encode::integer(&mut out, conn.client),
                [b"CLIENT", b"KILL", b"ID", client] => {
                    let client = std::str::from_utf8(client).ok().and_then(|text| text.parse().ok());
                    let found =
                        self.conns.iter().find(|(_, conn)| Some(conn.client) == client).map(|(&id, _)| id);
                    ended.extend(found);
                    resp::encode::integer(&mut out, i64::from(found.is_some()));
                }
                [b"INFO", b"server"] => {
                    resp::encode::bulk(&mut out, format!("# Server\r\nrun_id:{}\r\n", self.run).as_bytes());
                }
                _ => _ = self.store.run(conn.caller, &request, now_ms, &mut out),
            }
            at += len;
        }
        conn.input.drain(..at);
        self.conns.insert(id, conn);
        ended.iter().for_each(|&other| self.end(other));
        (out, ended)
    }

    /// The reply to a request of the world itself.
    pub(crate) fn ask(&mut self, words: &[&[u8]], now_ms: u64) -> Vec<u8> {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        resp::encode::request(&mut bytes, words);
        let (mut args, mut inline) = (Vec::new(), Vec::new());
        Scanner::default().scan(&bytes, &RequestLimits::default(), &mut args, &mut inline).expect("valid");
        let caller = self.store.admit();
        self.store.run(caller, &Request::new(&bytes, &args), self.time_ms(now_ms), &mut out);
        self.store.dismiss(caller);
        out
    }
}
