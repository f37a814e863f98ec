//! Faults of nodes, and their effect on clients.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use programs::process::command;
use serde::Serialize;

use super::By;
use super::direct::Answer;
use super::ledger::{Entry, Load, Outcome, Refusals};
use super::pooled::{Sides, Times};
use super::scene::{Scene, Strangers, ask, pause};
use super::strain::Strain;

/// Kind of fault that takes a primary away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// SIGKILL, and started again once another has its place.
    Killed,
    /// SIGSTOP, and SIGCONT later: the node does not know that it was replaced.
    Frozen,
    /// The primary gets the order to hand over, as for maintenance.
    Asked,
    /// No fault, for as long as the replacement of a killed primary takes.
    #[value(skip)]
    Nothing,
    /// A foreign node is killed, and comes back.
    #[value(skip)]
    Elsewhere,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] =
        [Kind::Killed, Kind::Frozen, Kind::Asked, Kind::Nothing, Kind::Elsewhere];

    /// All in turn, and no shard always meets the same one.
    pub(super) fn of_round(number: u32) -> Kind {
        [Kind::Killed, Kind::Frozen, Kind::Asked][((number + number / 3) % 3) as usize]
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Kind::Killed => "killed",
            Kind::Frozen => "frozen",
            Kind::Asked => "asked",
            Kind::Nothing => "nothing",
            Kind::Elsewhere => "other",
        })
    }
}

/// Effect of one round on clients.
#[derive(Debug, Serialize)]
pub(super) struct Round {
    pub(super) kind: Kind,
    /// Until another node was the primary.
    pub(super) promoted_ms: f64,
    /// Time from then until a request to that shard succeeded; 0 if one did that was under way.
    pub(super) gap_ms: f64,
    pub(super) felt: Felt,
    /// Number of acknowledged writes that are missing.
    pub(super) lost: i64,
    /// With which words requests were refused, and when.
    pub(super) refusals: Vec<Refused>,
    /// Latencies of the other shards; the run has them for all rounds together.
    #[serde(skip)]
    pub(super) healthy: Healthy,
}

/// Refusals with the same text, with the times of the first and the last, from the promotion on.
#[derive(Debug, Serialize)]
pub(super) struct Refused {
    pub(super) words: String,
    pub(super) count: usize,
    pub(super) first_ms: f64,
    pub(super) last_ms: f64,
}

/// Latencies of the other shards in one round.
#[derive(Debug)]
pub(super) struct Healthy {
    /// Until the affected shard was served again, and for at least [`QUIET`].
    pub(super) outage: Sides,
    /// Until all was as before.
    pub(super) whole: Sides,
    /// The sides of clients that ask nodes themselves, until the topology has settled.
    pub(super) direct: Sides,
}

/// Latencies of some time, beside a quiet time before.
#[derive(Debug, Serialize)]
pub(super) struct Felt {
    pub(super) requests: usize,
    /// Of the shard in question.
    pub(super) refused: usize,
    pub(super) unknown: usize,
    /// Errors of the other shards.
    pub(super) failed_elsewhere: usize,
    /// Number of requests to the other shards.
    pub(super) requests_elsewhere: usize,
    /// Their 99th percentile, now and before.
    pub(super) p99_us: f64,
    pub(super) p99_before_us: f64,
    /// The same of clients that ask the other shards' nodes themselves.
    pub(super) direct_p99_us: f64,
    pub(super) direct_p99_before_us: f64,
    /// The proxy meanwhile, and before.
    pub(super) proxy: Strain,
    pub(super) proxy_before: Strain,
}

/// Quiet time for comparison: before each round and after it. Both together are about as long as the replacement of a primary.
const QUIET: Duration = Duration::from_millis(1250);
/// Pause between two requests that test whether a shard is served again.
const TRIED_EVERY: Duration = Duration::from_millis(5);
/// Approximate time in which a cluster replaces a primary, if a second of silence is enough for it.
const REPLACED_IN: Duration = Duration::from_millis(2200);
/// Time until another must have become the primary, and the proxy must have found it.
const FOUND_IN: Duration = Duration::from_secs(60);

/// Takes the primary of a pair away and waits until the topology has settled.
pub(super) fn play(scene: &mut Scene, load: &Load, number: usize, kind: Kind) -> Result<Round> {
    let pair = number % scene.pairs.len();
    let (primary, replica) = scene.settled(pair)?;
    let lost_before = load.lost()?;
    let before = quiet_time(scene, load, replica);
    let began = Instant::now();
    take_away(scene, pair, primary, replica, kind)?;
    let promoted = wait_for_promotion(scene, replica, began)?;
    let mut entries = Vec::new();
    let served = wait_until_served(load, pair, promoted, &mut entries)?;
    match kind {
        Kind::Killed => scene.restart(primary)?,
        Kind::Frozen => scene.freeze(primary, false)?,
        Kind::Asked | Kind::Nothing | Kind::Elsewhere => {}
    }
    // The return of the old primary belongs to the round: it may still believe that it is the primary.
    scene.settled(pair)?;
    // A primary that is asked is replaced at once, and of a hundred requests the 99th percentile is the slowest one.
    scene.look_at(replica, QUIET.saturating_sub(began.elapsed()));
    let seen = Seen::of(scene, load, entries);
    let after = quiet_time(scene, load, replica);
    let of_pair = Some((pair, scene.pairs[pair].nodes));
    let healthy = Healthy::of(&seen, [&before, &after], of_pair, served.max(began + QUIET));
    let refused = |(words, refusals): (String, Refusals)| Refused {
        words,
        count: refusals.count,
        first_ms: ms(promoted, refusals.first),
        last_ms: ms(promoted, refusals.last),
    };
    Ok(Round {
        kind,
        promoted_ms: ms(began, promoted),
        gap_ms: ms(promoted, served),
        felt: Felt::of(&seen, &before, of_pair),
        lost: (load.lost()? - lost_before).max(0),
        refusals: seen.refusals.into_iter().map(refused).collect(),
        healthy,
    })
}

/// Time from one to the other in milliseconds, negative if the other is earlier.
fn ms(from: Instant, until: Instant) -> f64 {
    (until.saturating_duration_since(from).as_secs_f64()
        - from.saturating_duration_since(until).as_secs_f64())
        * 1000.0
}

/// All that was noted in some time.
struct Seen {
    entries: Vec<Entry>,
    answers: Vec<Answer>,
    refusals: BTreeMap<String, Refusals>,
    proxy: Strain,
}

impl Seen {
    /// Events since the last call; `entries` were taken before.
    fn of(scene: &Scene, load: &Load, mut entries: Vec<Entry>) -> Seen {
        entries.extend(load.take_entries());
        let refusals = load.take_refusals();
        Seen { entries, answers: scene.direct.take(), refusals, proxy: scene.watch.take() }
    }
}

/// A time in which nothing happens.
fn quiet_time(scene: &Scene, load: &Load, node: usize) -> Seen {
    Seen::of(scene, load, Vec::new());
    scene.look_at(node, QUIET);
    Seen::of(scene, load, Vec::new())
}

/// Latencies without a fault: all shards are healthy ones.
pub(super) fn control(scene: &Scene, load: &Load, kind: Kind) -> Result<Round> {
    let mut strangers = match kind {
        Kind::Elsewhere => Some(Strangers::start()?),
        _ => None,
    };
    let (_, replica) = scene.settled(0)?;
    let before = quiet_time(scene, load, replica);
    let began = Instant::now();
    match &mut strangers {
        Some(strangers) => strangers.fail_over(|| scene.look_at(replica, REPLACED_IN))?,
        None => scene.look_at(replica, REPLACED_IN),
    }
    let seen = Seen::of(scene, load, Vec::new());
    let after = quiet_time(scene, load, replica);
    let felt = Felt::of(&seen, &before, None);
    let healthy = Healthy::of(&seen, [&before, &after], None, began + REPLACED_IN);
    Ok(Round { kind, promoted_ms: 0.0, gap_ms: 0.0, felt, lost: 0, refusals: Vec::new(), healthy })
}

fn take_away(scene: &mut Scene, pair: usize, primary: usize, replica: usize, kind: Kind) -> Result<()> {
    match kind {
        Kind::Killed => scene.kill(primary),
        Kind::Frozen => scene.freeze(primary, true),
        Kind::Nothing | Kind::Elsewhere => Ok(()),
        Kind::Asked => {
            let set = scene.pairs[pair].set.clone().unwrap_or_default();
            let (address, words) = match scene.by {
                By::Cluster => (&scene.nodes[replica].address, vec!["CLUSTER", "FAILOVER"]),
                By::Sentinel => (&scene.sentinels[0], vec!["SENTINEL", "FAILOVER", &set]),
            };
            let said: String = ask(address, &words).context("it did not want to")?;
            ensure!(said == "OK", "it says {said}");
            Ok(())
        }
    }
}

/// When the node became the primary, to a few milliseconds.
fn wait_for_promotion(scene: &Scene, node: usize, began: Instant) -> Result<Instant> {
    loop {
        // Asked anew each time: sentinels make nodes close all connections.
        if scene.is_primary(node) {
            return Ok(Instant::now());
        }
        ensure!(began.elapsed() < FOUND_IN, "no other node became the primary");
        pause();
    }
}

/// Time at which the first request to the pair succeeded after `promoted`. Answers until then are added to `entries`. Clients
/// of the pair may all wait for a node that is silent: so further ones ask.
fn wait_until_served(
    load: &Load,
    pair: usize,
    promoted: Instant,
    entries: &mut Vec<Entry>,
) -> Result<Instant> {
    let (sender, done) = mpsc::channel();
    let mut tries_at = promoted;
    loop {
        if tries_at <= Instant::now() {
            load.try_out(pair, &sender);
            tries_at = Instant::now() + TRIED_EVERY;
        }
        let news = load.take_entries();
        let served = news
            .iter()
            .filter(|entry| entry.pair == pair && entry.outcome == Outcome::Done && entry.ended >= promoted)
            .map(|entry| entry.ended)
            .chain(done.try_iter())
            .min();
        entries.extend(news);
        if let Some(served) = served {
            return Ok(served);
        }
        ensure!(promoted.elapsed() < FOUND_IN, "the proxy did not find the new primary");
        pause();
    }
}

/// Effect of moving slots on clients.
#[derive(Debug, Serialize)]
pub(super) struct Moved {
    pub(super) slots: u32,
    pub(super) took_ms: f64,
    /// Here all shards count as the one in question.
    pub(super) felt: Felt,
}

/// Moves `slots` slots from one primary to another, as operators do it.
pub(super) fn reshard(scene: &mut Scene, load: &Load, slots: u32) -> Result<Moved> {
    let (source, _) = scene.settled(0)?;
    let (target, _) = scene.settled(1)?;
    let before = quiet_time(scene, load, target);
    let began = Instant::now();
    let name = |node: usize| {
        ask::<String>(&scene.nodes[node].address, &["CLUSTER", "MYID"]).context("CLUSTER MYID says nothing")
    };
    let mut cli = command("redis-cli");
    cli.args(["--cluster", "reshard", &scene.nodes[source].address]);
    cli.args(["--cluster-from", &name(source)?, "--cluster-to", &name(target)?]);
    cli.args(["--cluster-slots", &slots.to_string(), "--cluster-yes"]);
    let status = cli.stdout(Stdio::null()).status().context("redis-cli")?;
    ensure!(status.success(), "redis-cli --cluster reshard ended with {status}");
    let took_ms = began.elapsed().as_secs_f64() * 1000.0;
    let seen = Seen::of(scene, load, Vec::new());
    Ok(Moved { slots, took_ms, felt: Felt::of(&seen, &before, None) })
}

/// The affected pair, and its nodes; `None` without a fault.
type InQuestion = Option<(usize, [usize; 2])>;

fn is_elsewhere(entry: &Entry, pair: InQuestion) -> bool {
    pair.is_none_or(|(pair, _)| entry.pair != pair)
}

fn is_of_others(answer: &Answer, pair: InQuestion) -> bool {
    pair.is_none_or(|(_, nodes)| !nodes.contains(&answer.node))
}

impl Healthy {
    /// Of `seen`, whose outage ended at `outage_ended`, and of the quiet times around.
    fn of(seen: &Seen, quiet: [&Seen; 2], pair: InQuestion, outage_ended: Instant) -> Healthy {
        let through = |seen: &Seen, until: Option<Instant>| {
            let entries = seen.entries.iter().filter(|entry| is_elsewhere(entry, pair));
            let entries = entries.filter(|entry| until.is_none_or(|until| entry.ended <= until));
            Times::at_pace(entries.map(|entry| entry.ended - entry.began))
        };
        let past = |seen: &Seen| {
            let answers = seen.answers.iter().filter(|answer| is_of_others(answer, pair));
            Times::of(answers.map(|answer| answer.took))
        };
        let [before, after] = quiet;
        let quiet = through(before, None).and(&through(after, None));
        Healthy {
            outage: Sides { quiet: quiet.clone(), during: through(seen, Some(outage_ended)) },
            whole: Sides { quiet, during: through(seen, None) },
            direct: Sides { quiet: past(before).and(&past(after)), during: past(seen) },
        }
    }
}

impl Felt {
    /// Of `seen`; without an affected pair, all are meant.
    fn of(seen: &Seen, before: &Seen, pair: InQuestion) -> Felt {
        let is_meant = |entry: &&Entry| pair.is_none_or(|(pair, _)| entry.pair == pair);
        let count =
            |outcome| seen.entries.iter().filter(is_meant).filter(|entry| entry.outcome == outcome).count();
        let elsewhere = |entry: &&Entry| is_elsewhere(entry, pair);
        let failed = |entry: &&Entry| entry.outcome != Outcome::Done;
        let through = |entries: &[Entry]| {
            p99_us(entries.iter().filter(elsewhere).map(|entry| entry.ended - entry.began))
        };
        let past = |answers: &[Answer]| {
            let others = answers.iter().filter(|answer| is_of_others(answer, pair));
            p99_us(others.map(|answer| answer.took))
        };
        Felt {
            requests: seen.entries.len(),
            refused: count(Outcome::Refused),
            unknown: count(Outcome::Unknown) + count(Outcome::Strange),
            requests_elsewhere: seen.entries.iter().filter(elsewhere).count(),
            failed_elsewhere: match pair {
                Some(_) => seen.entries.iter().filter(elsewhere).filter(failed).count(),
                None => 0,
            },
            p99_us: through(&seen.entries),
            p99_before_us: through(&before.entries),
            direct_p99_us: past(&seen.answers),
            direct_p99_before_us: past(&before.answers),
            proxy: seen.proxy,
            proxy_before: before.proxy,
        }
    }
}

fn p99_us(times: impl Iterator<Item = Duration>) -> f64 {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    let place = (times.len() * 99 / 100).min(times.len().saturating_sub(1));
    times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pair: usize, us: u64, outcome: Outcome) -> Entry {
        let began = Instant::now();
        Entry { began, ended: began + Duration::from_micros(us), pair, outcome }
    }

    #[test]
    fn every_shard_meets_every_kind() {
        let met =
            |shard: u32| (0..9).filter(|number| number % 3 == shard).map(Kind::of_round).collect::<Vec<_>>();
        for shard in 0..3 {
            let mut kinds = met(shard);
            kinds.sort_by_key(|kind| *kind as u8);
            assert_eq!(kinds, [Kind::Killed, Kind::Frozen, Kind::Asked], "shard {shard}");
        }
    }

    #[test]
    fn errors_of_healthy_shards_are_counted_apart() {
        let entries = [
            entry(0, 10, Outcome::Refused),
            entry(0, 10, Outcome::Unknown),
            entry(1, 30, Outcome::Refused),
            entry(1, 20, Outcome::Done),
        ];
        let answer = |node, us| Answer { node, took: Duration::from_micros(us) };
        let seen = |entries: &[Entry], answers| Seen {
            entries: entries.to_vec(),
            answers,
            refusals: BTreeMap::new(),
            proxy: Strain::default(),
        };
        let before = seen(&entries[3..], vec![answer(0, 9), answer(1, 5)]);
        let during = seen(&entries, vec![answer(0, 90), answer(3, 80), answer(2, 7)]);
        let felt = Felt::of(&during, &before, Some((0, [0, 3])));
        assert_eq!((felt.refused, felt.unknown, felt.failed_elsewhere), (1, 1, 1));
        assert_eq!((felt.requests_elsewhere, felt.p99_us, felt.p99_before_us), (2, 30.0, 20.0));
        assert_eq!((felt.direct_p99_us, felt.direct_p99_before_us), (7.0, 5.0));
    }
}
