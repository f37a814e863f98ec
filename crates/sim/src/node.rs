//! A simulated node: reads requests, runs them, answers; can freeze, die, refuse and lie.

use crate::keyspace::Keyspace;
use crate::ledger::Ledger;
use proxy::ConnId;
use resp::request::{Request, RequestLimits, Scanned, Scanner};
use std::collections::BTreeMap;
use stdx::Instant;
use store::CallerId;
use topology::ShardId;

/// One node.
pub(crate) struct Node {
    pub shard: ShardId,
    pub keyspace: Keyspace,
    /// Connections are refused.
    pub down: bool,
    /// Nothing is read until then.
    pub frozen_until: Instant,
    /// Until then every answer is that it is loading.
    pub loading_until: Instant,
    /// Connections are greeted with a refusal.
    pub full: bool,
    conns: BTreeMap<ConnId, Input>,
}

/// What a sabotaged node does this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    Nothing,
    RunTwice,
    /// It gives the reply that the same request got before.
    AnswerOlder,
}

/// What one connection sent and was not run yet.
#[derive(Debug)]
struct Input {
    /// Its state in the store.
    caller: CallerId,
    bytes: Vec<u8>,
    scanner: Scanner,
}

impl Node {
    /// `remembers`: see [`Keyspace::new`].
    pub(crate) fn new(shard: ShardId, remembers: bool) -> Node {
        let (keyspace, conns) = (Keyspace::new(remembers), BTreeMap::new());
        let (frozen_until, loading_until) = (Instant::ZERO, Instant::ZERO);
        Node { shard, keyspace, down: false, frozen_until, loading_until, full: false, conns }
    }

    /// Bytes came over `conn`; they are read by [`Node::run`].
    pub(crate) fn receive(&mut self, conn: ConnId, bytes: &[u8]) {
        let keyspace = &mut self.keyspace;
        let input = self.conns.entry(conn).or_insert_with(|| Input {
            caller: keyspace.admit(),
            bytes: Vec::new(),
            scanner: Scanner::default(),
        });
        input.bytes.extend_from_slice(bytes);
    }

    /// Runs what is complete of `conn` and returns the replies.
    pub(crate) fn run(
        &mut self,
        conn: ConnId,
        now: Instant,
        sabotage: Sabotage,
        ledger: &mut Ledger,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let Some(input) = self.conns.get_mut(&conn) else { return out };
        let (mut args, mut inline) = (Vec::new(), Vec::new());
        let limits = RequestLimits::default();
        let mut at = 0;
        loop {
            match input.scanner.scan(&input.bytes[at..], &limits, &mut args, &mut inline) {
                Ok(Scanned::Request { len }) => {
                    let request = Request::new(&input.bytes[at..at + len], &args);
                    if now < self.loading_until {
                        out.extend_from_slice(b"-LOADING Redis is loading the dataset in memory\r\n");
                    } else {
                        let start = out.len();
                        self.keyspace.run(input.caller, &request, self.shard, now, ledger, &mut out);
                        if sabotage == Sabotage::RunTwice {
                            let twice = &mut Vec::new();
                            self.keyspace.run(input.caller, &request, self.shard, now, ledger, twice);
                        }
                        let older = self.keyspace.older_reply(&request, &out[start..]);
                        if let (Sabotage::AnswerOlder, Some(older)) = (sabotage, older) {
                            out.truncate(start);
                            out.extend(older);
                        }
                    }
                    at += len;
                }
                Ok(Scanned::Incomplete) => break,
                other => {
                    ledger.violate(format!("a node was sent what is no request of the proxy's: {other:?}"));
                    break;
                }
            }
        }
        input.bytes.drain(..at);
        out
    }

    /// The connections that have something to run.
    pub(crate) fn busy_conns(&self) -> Vec<ConnId> {
        self.conns.iter().filter(|(_, input)| !input.bytes.is_empty()).map(|(conn, _)| *conn).collect()
    }

    /// Forgets what `conn` sent.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        if let Some(input) = self.conns.remove(&conn) {
            self.keyspace.dismiss(input.caller);
        }
    }

    /// The process dies: what was not run never will be.
    pub(crate) fn die(&mut self) {
        let conns = std::mem::take(&mut self.conns);
        conns.into_values().for_each(|input| self.keyspace.dismiss(input.caller));
    }
}
