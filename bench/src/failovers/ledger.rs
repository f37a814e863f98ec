//! Clients that count up keys through the proxy, and the outcome of each request.
//!
//! Each has keys of one shard alone. With keys of every shard, a client would wait for the failed shard like all others, and
//! get its error at the same moment. The healthy shards would get fewer requests meanwhile, and then those of all clients at
//! once. Their latency would be an effect of that.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use super::scene::{self, Scene};

/// Keys that each client counts up in turn.
const KEYS_PER_CLIENT: usize = 12;
/// Pause between two requests of a client, on average. All share two cores with the nodes and the proxy: more would measure the
/// machine.
pub(super) const PACE: Duration = Duration::from_millis(2);

/// The pause until the next request is due, whatever the outcome of the last. It is half to one and a half of [`PACE`], so that
/// clients do not keep in step.
fn pause_of(client: usize, turn: usize) -> Duration {
    // Far apart for two clients, and for two turns of one; both factors are coprime to the divisor.
    let part = (client * 389 + turn * 617) % 1000;
    PACE / 2 + PACE * part as u32 / 1000
}

/// Outcome of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The request was carried out.
    Done,
    /// The request was not carried out, and its client got an error that says so.
    Refused,
    /// Nobody knows.
    Unknown,
    /// An error that says neither: there should be none.
    Strange,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) pair: usize,
    pub(super) outcome: Outcome,
}

/// Refusals with the same words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusals {
    pub(super) count: usize,
    pub(super) first: Instant,
    pub(super) last: Instant,
}

/// A key, and its client's knowledge of it.
struct Counter {
    key: String,
    pair: usize,
    acknowledged: AtomicI64,
    unknown: AtomicI64,
}

/// State that all clients share.
struct Shared {
    entries: Mutex<Vec<Entry>>,
    strange: Mutex<Vec<String>>,
    refusals: Mutex<BTreeMap<String, Refusals>>,
    is_over: AtomicBool,
}

/// The clients.
pub(super) struct Load {
    proxy: String,
    /// A key of each pair that no client counts up.
    spare: Vec<String>,
    shared: Arc<Shared>,
    counters: Vec<Arc<Counter>>,
    clients: Vec<JoinHandle<Result<()>>>,
}

/// Result of the whole run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Ledger {
    pub(super) keys: usize,
    pub(super) acknowledged: i64,
    pub(super) unknown: i64,
    /// Acknowledged, and not there.
    pub(super) lost: i64,
    /// There, and neither acknowledged nor unknown: applied twice.
    pub(super) doubled: i64,
    /// Errors that say neither that the request was carried out nor that it was not.
    pub(super) strange: Vec<String>,
}

impl Load {
    /// Writes every key once and lets `clients` clients begin, as many for each shard.
    pub(super) fn start(scene: &Scene, clients: u32) -> Result<Load> {
        let shared = Arc::new(Shared {
            entries: Mutex::default(),
            strange: Mutex::default(),
            refusals: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let mut counters = Vec::new();
        let client = |number: usize| {
            let mut connection = scene::connect(&scene.proxy)?;
            let pair = number % scene.pairs.len();
            let keys = keys_of(scene, &mut connection, pair, &format!("count:{number}"), KEYS_PER_CLIENT)?;
            let counter = |key| {
                Arc::new(Counter { key, pair, acknowledged: AtomicI64::new(0), unknown: AtomicI64::new(0) })
            };
            let own: Vec<_> = keys.into_iter().map(counter).collect();
            counters.extend(own.iter().cloned());
            let (proxy, shared) = (scene.proxy.clone(), shared.clone());
            Ok(std::thread::spawn(move || count_up(number, &proxy, connection, &own, &shared)))
        };
        let mut connection = scene::connect(&scene.proxy)?;
        let mut spare = Vec::new();
        for pair in 0..scene.pairs.len() {
            spare.extend(keys_of(scene, &mut connection, pair, "spare", 1)?);
        }
        let clients = (0..clients as usize).map(client).collect::<Result<_>>()?;
        Ok(Load { proxy: scene.proxy.clone(), spare, shared, counters, clients })
    }

    /// Writes the pair's spare key over a new connection, in a thread of its own, and reports the time if it was done.
    pub(super) fn try_out(&self, pair: usize, done: &mpsc::Sender<Instant>) {
        let (proxy, key, done) = (self.proxy.clone(), self.spare[pair].clone(), done.clone());
        std::thread::spawn(move || {
            if scene::ask::<String>(&proxy, &["SET", &key, "1"]).is_some() {
                // Nobody may want to know it any more.
                let _ = done.send(Instant::now());
            }
        });
    }

    /// The requests that were noted since the last call.
    pub(super) fn take_entries(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.shared.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The texts of refusals since the last call.
    pub(super) fn take_refusals(&self) -> BTreeMap<String, Refusals> {
        std::mem::take(&mut *self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Number of acknowledged writes that are missing by now. Writes during the check may hide some.
    pub(super) fn lost(&self) -> Result<i64> {
        Ok(compare(&self.proxy, &self.counters)?.lost)
    }

    /// Ends the clients and compares their knowledge with the stored values.
    pub(super) fn finish(self) -> Result<Ledger> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        let mut ledger = compare(&self.proxy, &self.counters)?;
        ledger.strange =
            std::mem::take(&mut *self.shared.strange.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(ledger)
    }
}

/// Compares the knowledge of clients with the stored values, which are read afterwards.
fn compare(proxy: &str, counters: &[Arc<Counter>]) -> Result<Ledger> {
    let mut connection = scene::connect(proxy)?;
    let mut ledger = Ledger::default();
    for counter in counters {
        let [acknowledged, unknown] =
            [&counter.acknowledged, &counter.unknown].map(|number| number.load(Ordering::SeqCst));
        let value: i64 = redis::cmd("GET").arg(&counter.key).query(&mut connection)?;
        ledger.keys += 1;
        ledger.acknowledged += acknowledged;
        ledger.unknown += unknown;
        ledger.lost += (acknowledged - value).max(0);
        ledger.doubled += (value - acknowledged - unknown).max(0);
    }
    Ok(ledger)
}

/// Writes keys that begin with `name` until this number of them is the pair's, and returns those.
fn keys_of(
    scene: &Scene,
    connection: &mut redis::Connection,
    pair: usize,
    name: &str,
    count: usize,
) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    for at in 0.. {
        let key = format!("{name}:{at}");
        let () = redis::cmd("SET").arg(&key).arg(0).query(connection)?;
        if scene.pair_of(&key)? == pair {
            keys.push(key);
        }
        if keys.len() == count {
            break;
        }
    }
    Ok(keys)
}

/// One client. Its requests are due at times that do not depend on the answers, so that the load does not depend on latency.
/// But it sends none before the last was answered, and leaves out the requests that were due meanwhile.
fn count_up(
    client: usize,
    proxy: &str,
    mut connection: redis::Connection,
    counters: &[Arc<Counter>],
    shared: &Shared,
) -> Result<()> {
    let (mut turn, mut next) = (0, 0);
    let mut due = Instant::now();
    while !shared.is_over.load(Ordering::Relaxed) {
        let counter = &counters[next % counters.len()];
        next += 1;
        let began = Instant::now();
        let answer: redis::RedisResult<i64> = redis::cmd("INCR").arg(&counter.key).query(&mut connection);
        let outcome = match &answer {
            Ok(_) => Outcome::Done,
            Err(error) => outcome_of(&error.to_string()),
        };
        match outcome {
            Outcome::Done => counter.acknowledged.fetch_add(1, Ordering::SeqCst),
            Outcome::Refused => 0,
            Outcome::Unknown | Outcome::Strange => counter.unknown.fetch_add(1, Ordering::SeqCst),
        };
        let entry = Entry { began, ended: Instant::now(), pair: counter.pair, outcome };
        shared.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        if let (Outcome::Refused, Err(error)) = (outcome, &answer) {
            note_refusal(shared, error.to_string());
        }
        if let (Outcome::Strange, Err(error)) = (outcome, &answer) {
            note_strange(shared, &error.to_string());
            connection = scene::connect(proxy).context("the proxy is gone")?;
        }
        while due <= Instant::now() {
            due += pause_of(client, turn);
            turn += 1;
        }
        // tidy: allow(sleep): the pace of the load
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn note_strange(shared: &Shared, text: &str) {
    const TOLD: usize = 20;
    let mut strange = shared.strange.lock().unwrap_or_else(PoisonError::into_inner);
    if strange.len() < TOLD && !strange.iter().any(|known| known == text) {
        strange.push(text.to_owned());
    }
}

fn note_refusal(shared: &Shared, text: String) {
    let now = Instant::now();
    let mut refusals = shared.refusals.lock().unwrap_or_else(PoisonError::into_inner);
    let refusals = refusals.entry(text).or_insert(Refusals { count: 0, first: now, last: now });
    (refusals.count, refusals.last) = (refusals.count + 1, now);
}

/// By the contract of the proxy's errors, the text says whether the request may have run.
fn outcome_of(error: &str) -> Outcome {
    match error {
        _ if error.contains("outcome unknown") => Outcome::Unknown,
        // redis-rs changes the text: the first word of the error is its code.
        _ if error.contains("TRYAGAIN") || error.contains("TryAgain") => Outcome::Refused,
        _ if error.contains("CLUSTERDOWN") || error.contains("ClusterDown") => Outcome::Refused,
        _ => Outcome::Strange,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_out_of_step_and_keep_the_pace() {
        let pauses = |client| (0..1000).map(|turn| pause_of(client, turn)).collect::<Vec<_>>();
        let sum: Duration = pauses(3).iter().sum();
        assert!(sum > PACE * 999 && sum <= PACE * 1000, "{sum:?}");
        let close = (0..1000).filter(|&turn| pause_of(3, turn).abs_diff(pause_of(4, turn)) < PACE / 10);
        assert_eq!(close.count(), 0);
    }

    #[test]
    fn the_text_of_an_error_gives_the_outcome() {
        let unknown = "ERR node timeout after 1000 ms, outcome unknown (shard a:1)";
        assert_eq!(outcome_of(unknown), Outcome::Unknown);
        assert_eq!(outcome_of("TRYAGAIN shard a:1 unavailable: refused"), Outcome::Refused);
        assert_eq!(outcome_of("MOVED 1 a:1"), Outcome::Strange);
    }
}
