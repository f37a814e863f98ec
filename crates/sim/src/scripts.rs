//! Scripts: two that nodes know how to run, under several names, and the permitted replies for a missing one.
//!
//! ```text
//!   EVAL, SCRIPT LOAD ─ answered ─► kept by the proxy ═══════ EVALSHA runs ═══════ SCRIPT FLUSH is sent
//!                                        └── whatever nodes forget, or others have them forget
//! ```
//!
//! NOSCRIPT says that the script did not run. It is only permitted in two cases. The proxy may not know the script. Or it
//! cannot send the request again, because another request of the client follows it, or because it is too long to be kept.

use crate::ledger::Ledger;
use crate::program::{Expect, Program, Sent, words};
use sha1::{Digest, Sha1};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{Instant, Prng};

/// A script's name as its digits.
type Sha = Vec<u8>;

/// Beginnings of the two. A number behind them makes it another script.
const BODIES: [&str; 2] =
    ["return redis.call('GET', KEYS[1]) --", "return redis.call('SET', KEYS[1], ARGV[1]) --"];
/// Number of scripts of each kind.
const NUMBERS: u64 = 3;
/// The most bytes of a request that the proxy keeps for a retry.
const KEPT_BYTES_MAX: usize = 16 * 1024;

pub(crate) const NO_SCRIPT: &[u8] = b"-NOSCRIPT No matching script. Please use EVAL.\r\n";

fn sha_of(body: &[u8]) -> Sha {
    Sha1::digest(body).iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

/// The scripts that one node has.
#[derive(Debug, Default)]
pub(crate) struct Loaded(BTreeMap<Sha, Vec<u8>>);

/// Action of a node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task<'r> {
    /// Runs this request, which has the script's effect.
    Run(Vec<&'r [u8]>),
    /// To say this.
    Say(Vec<u8>),
}

impl Loaded {
    /// The action for a request about scripts; `None` for any other.
    pub(crate) fn task<'r>(&mut self, words: &[&'r [u8]]) -> Option<Task<'r>> {
        let name = words.first()?.to_ascii_lowercase();
        match (name.as_slice(), &words[1..]) {
            (b"script", [_load, body]) => {
                let mut reply = Vec::new();
                resp::encode::bulk(&mut reply, &self.keep(body));
                Some(Task::Say(reply))
            }
            (b"script", [_flush]) => {
                self.forget();
                Some(Task::Say(b"+OK\r\n".to_vec()))
            }
            (b"eval", [body, _, args @ ..]) => {
                let sha = self.keep(body);
                Some(self.run(&sha, args))
            }
            (b"evalsha", [sha, _, args @ ..]) => Some(self.run(sha, args)),
            _ => None,
        }
    }

    fn keep(&mut self, body: &[u8]) -> Sha {
        let sha = sha_of(body);
        self.0.insert(sha.clone(), body.to_vec());
        sha
    }

    fn run<'r>(&self, sha: &[u8], args: &[&'r [u8]]) -> Task<'r> {
        match self.0.get(sha) {
            None => Task::Say(NO_SCRIPT.to_vec()),
            Some(body) if body.starts_with(BODIES[0].as_bytes()) => {
                Task::Run([&[&b"GET"[..]], args].concat())
            }
            Some(_) => Task::Run([&[&b"SET"[..]], args].concat()),
        }
    }

    /// The node restarted, or a client flushed its scripts.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

/// Scripts that the proxy knows, as far as clients can tell.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    known: BTreeSet<Sha>,
    /// Time of the last SCRIPT FLUSH: scripts that were loaded at that time may be forgotten.
    flushed_at: Option<Instant>,
    /// Time at which another client made a node forget its scripts.
    pub forgotten_at: Option<Instant>,
}

impl Kept {
    fn flush(&mut self, now: Instant) {
        self.known.clear();
        self.flushed_at = Some(now);
    }

    /// Records a request of `then` that contained a script and was carried out.
    fn loaded(&mut self, sha: &Sha, then: Instant, now: Instant) {
        // An earlier flush may still be under way, without a client that waits for its reply.
        let is_clear = self.flushed_at.is_none_or(|at| at < then && now.since(at) >= FLUSHED_WITHIN);
        if is_clear {
            self.known.insert(sha.clone());
        }
    }
}

/// Time after which the outcome of a SCRIPT FLUSH is certain: longer than a request's timeout.
const FLUSHED_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// A request that names a script, or brings it along.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    sha: Sha,
    pub expect: Box<Expect>,
    /// Whether the proxy knows the script and the request is short enough: it must not fail then.
    is_sure: bool,
    /// Number of requests that its client had sent, with this one.
    sent: u64,
}

impl Scripted {
    /// Its script was run or loaded.
    pub(crate) fn note_done(&self, then: Instant, ledger: &mut Ledger) {
        let now = ledger.now;
        ledger.scripts.loaded(&self.sha, then, now);
    }

    /// Whether NOSCRIPT is permitted for a request of `then`, from a client that has sent `sent` requests by now.
    pub(crate) fn may_be_missed(&self, then: Instant, sent: u64, kept: &Kept) -> bool {
        let since = |at: Option<Instant>| at.is_some_and(|at| at >= then);
        !self.is_sure || sent != self.sent || since(kept.flushed_at) || since(kept.forgotten_at)
    }
}

impl Program {
    /// Something about scripts.
    pub(crate) fn script(&self, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        let writes = prng.one_in(2);
        let body = format!("{}{}", BODIES[usize::from(writes)], prng.below(NUMBERS)).into_bytes();
        let sha = sha_of(&body);
        let brings = prng.one_in(3);
        if brings && prng.one_in(2) {
            let mut named = Vec::new();
            resp::encode::bulk(&mut named, &sha);
            let expect = Box::new(Expect::Reply(named));
            let scripted = Scripted { sha, expect, is_sure: false, sent: self.sent };
            let bytes = words(&[b"SCRIPT", b"LOAD", &body]);
            return Sent { bytes, expect: Some(Expect::Scripted(scripted)) };
        }
        let key = self.own_key(prng);
        let mut request: Vec<&[u8]> =
            if brings { vec![b"EVAL", &body, b"1", &key] } else { vec![b"EVALSHA", &sha, b"1", &key] };
        let value = writes.then(|| self.value(&key, prng, ledger));
        request.extend(value.as_deref());
        let bytes = words(&request);
        let is_sure = ledger.scripts.known.contains(&sha) && bytes.len() <= KEPT_BYTES_MAX;
        let expect = match value {
            Some(value) => Expect::Write(vec![(key, Some(value))]),
            None => Expect::Value { key, own: true },
        };
        let scripted = Scripted { sha, expect: Box::new(expect), is_sure, sent: self.sent };
        Sent { bytes, expect: Some(Expect::Scripted(scripted)) }
    }

    /// All are to be forgotten.
    pub(crate) fn flush_scripts(now: Instant, ledger: &mut Ledger) -> Sent {
        ledger.scripts.flush(now);
        let expect = Some(Expect::Reply(b"+OK\r\n".to_vec()));
        Sent { bytes: words(&[b"SCRIPT", b"FLUSH"]), expect }
    }
}
