//! What is done to nodes, and what clients felt of it.

use std::fmt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;

use super::By;
use super::ledger::{Entry, Load, Outcome};
use super::scene::{Scene, ask, pause};
use crate::process::command;

/// How a primary is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// SIGKILL, and started again once another has its place.
    Killed,
    /// SIGSTOP, and SIGCONT then: it does not know that it is none any more.
    Frozen,
    /// It is told to hand over, as for maintenance.
    Asked,
}

impl Kind {
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
        })
    }
}

/// What clients felt of one.
#[derive(Debug, Serialize)]
pub(super) struct Round {
    pub(super) kind: Kind,
    /// Until another node was the primary.
    pub(super) promoted_ms: f64,
    /// From then on until a request to that shard succeeded; 0 if one did that was under way.
    pub(super) gap_ms: f64,
    pub(super) felt: Felt,
}

/// What clients felt in some time, beside a quiet second before.
#[derive(Debug, Serialize)]
pub(super) struct Felt {
    pub(super) requests: usize,
    /// Of the shard in question.
    pub(super) refused: usize,
    pub(super) unknown: usize,
    /// Errors of the other shards.
    pub(super) failed_elsewhere: usize,
    /// 99th percentile of the other shards' requests, now and before.
    pub(super) p99_us: f64,
    pub(super) p99_before_us: f64,
}

/// While nothing happens, for comparison.
const QUIET: Duration = Duration::from_secs(1);
/// Until another must have become the primary, and the proxy must have found it.
const FOUND_IN: Duration = Duration::from_secs(60);

/// Takes the primary of a pair away and waits until all is as it was.
pub(super) fn play(scene: &mut Scene, load: &Load, number: usize, kind: Kind) -> Result<Round> {
    let pair = number % scene.pairs.len();
    let (primary, replica) = scene.settled(pair)?;
    let before = quiet_second(load);
    let began = Instant::now();
    take_away(scene, pair, primary, replica, kind)?;
    let promoted = wait_for_promotion(scene, replica, began)?;
    let mut entries = Vec::new();
    let served = wait_until_served(load, pair, promoted, &mut entries)?;
    match kind {
        Kind::Killed => scene.restart(primary)?,
        Kind::Frozen => scene.freeze(primary, false)?,
        Kind::Asked => {}
    }
    // What happens when the old one comes back belongs to it: it may still believe that it is the primary.
    scene.settled(pair)?;
    entries.extend(load.take_entries());
    let ms = |from: Instant, until: Instant| until.saturating_duration_since(from).as_secs_f64() * 1000.0;
    Ok(Round {
        kind,
        promoted_ms: ms(began, promoted),
        gap_ms: ms(promoted, served),
        felt: Felt::of(&entries, &before, Some(pair)),
    })
}

fn quiet_second(load: &Load) -> Vec<Entry> {
    load.take_entries();
    // tidy: allow(sleep): the time over which is measured
    std::thread::sleep(QUIET);
    load.take_entries()
}

fn take_away(scene: &mut Scene, pair: usize, primary: usize, replica: usize, kind: Kind) -> Result<()> {
    match kind {
        Kind::Killed => scene.kill(primary),
        Kind::Frozen => scene.freeze(primary, true),
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

/// When the first request to the pair succeeded after `promoted`. All that is noted until then is added to `entries`.
fn wait_until_served(
    load: &Load,
    pair: usize,
    promoted: Instant,
    entries: &mut Vec<Entry>,
) -> Result<Instant> {
    loop {
        let news = load.take_entries();
        let served = news
            .iter()
            .filter(|entry| entry.pair == pair && entry.outcome == Outcome::Done && entry.ended >= promoted)
            .map(|entry| entry.ended)
            .min();
        entries.extend(news);
        if let Some(served) = served {
            return Ok(served);
        }
        ensure!(promoted.elapsed() < FOUND_IN, "the proxy did not find the new primary");
        pause();
    }
}

/// What clients felt while slots were moved.
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
    let before = quiet_second(load);
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
    let entries = load.take_entries();
    Ok(Moved { slots, took_ms, felt: Felt::of(&entries, &before, None) })
}

impl Felt {
    /// Of `entries`, where `pair` is the one that something happened to; `None`: all of them.
    fn of(entries: &[Entry], before: &[Entry], pair: Option<usize>) -> Felt {
        let is_meant = |entry: &&Entry| pair.is_none_or(|pair| entry.pair == pair);
        let count =
            |outcome| entries.iter().filter(is_meant).filter(|entry| entry.outcome == outcome).count();
        let elsewhere = |entry: &&Entry| pair.is_none_or(|pair| entry.pair != pair);
        let failed = |entry: &&Entry| entry.outcome != Outcome::Done;
        Felt {
            requests: entries.len(),
            refused: count(Outcome::Refused),
            unknown: count(Outcome::Unknown) + count(Outcome::Strange),
            failed_elsewhere: match pair {
                Some(_) => entries.iter().filter(elsewhere).filter(failed).count(),
                None => 0,
            },
            p99_us: p99_us(entries.iter().filter(elsewhere)),
            p99_before_us: p99_us(before.iter().filter(elsewhere)),
        }
    }
}

fn p99_us<'a>(entries: impl Iterator<Item = &'a Entry>) -> f64 {
    let mut times: Vec<Duration> = entries.map(|entry| entry.ended - entry.began).collect();
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
        let felt = Felt::of(&entries, &entries[3..], Some(0));
        assert_eq!((felt.refused, felt.unknown, felt.failed_elsewhere), (1, 1, 1));
        assert_eq!((felt.p99_us, felt.p99_before_us), (30.0, 20.0));
    }
}
