//! The shown and kept report of a run.

use std::fmt::{self, Write};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::By;
use super::ledger::Ledger;
use super::pooled::{Pool, Sides};
use super::rounds::{Felt, Kind, Moved, Refused, Round};
use super::strain::Strain;
use crate::comparison::Machine;

/// The highest wanted ratio of latencies of healthy shards during a failover to those without one.
const RATIO_WANTED: f64 = 1.2;

/// All of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) by: String,
    pub(super) failover_ms: u32,
    pub(super) clients: u32,
    pub(super) machine: Machine,
    pub(super) redis: String,
    pub(super) rounds: Vec<Round>,
    /// Latencies of the other shards, over all rounds.
    pub(super) pools: Vec<Pool>,
    pub(super) moved: Option<Moved>,
    pub(super) ledger: Ledger,
    /// Counts of the proxy itself.
    pub(super) stats: Vec<String>,
}

/// One round in a line.
pub(super) fn line(round: &Round) -> String {
    let Round { kind, promoted_ms, gap_ms, felt, lost, refusals, .. } = round;
    let mut line = format!(
        "{:<7} promoted after {promoted_ms:>6.0} ms, served {gap_ms:>5.0} ms later; {lost} lost; {}",
        kind.to_string(),
        felt.line()
    );
    for Refused { words, count, first_ms, last_ms } in refusals {
        let _ = write!(
            line,
            "\n        {count} refused {first_ms:.0} to {last_ms:.0} ms after the promotion: {words}"
        );
    }
    line
}

/// Latencies of the other shards, for each way in which primaries went, for all of them together, and without a fault.
pub(super) fn pools(rounds: &[Round]) -> Vec<Pool> {
    let failovers = [Kind::Killed, Kind::Frozen, Kind::Asked];
    let was_played = |kind: &&Kind| rounds.iter().any(|round| round.kind == **kind);
    let mut kinds: Vec<(String, &[Kind])> = Vec::new();
    if failovers.iter().filter(was_played).count() > 1 {
        kinds.push(("all failovers".to_owned(), &failovers));
    }
    kinds.extend(Kind::ALL.iter().map(|kind| (kind.to_string(), std::slice::from_ref(kind))));
    let mut pools = Vec::new();
    for (name, kinds) in kinds {
        let rounds = || rounds.iter().filter(|round| kinds.contains(&round.kind)).map(|round| &round.healthy);
        let outage: Vec<&Sides> = rounds().map(|healthy| &healthy.outage).collect();
        let whole: Vec<&Sides> = rounds().map(|healthy| &healthy.whole).collect();
        let direct: Vec<&Sides> = rounds().map(|healthy| &healthy.direct).collect();
        pools.extend(Pool::of(format!("{name}, until served again"), &outage));
        pools.extend(Pool::of(format!("{name}, until all was as before"), &whole));
        pools.extend(Pool::of(format!("{name}, the same past the proxy"), &direct));
    }
    pools
}

impl fmt::Display for Strain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Strain { ran_percent, waited_percent, busiest_percent } = self;
        write!(
            formatter,
            "ran {ran_percent:.1} %, waited to run {waited_percent:.1} %, busiest 5 ms {busiest_percent:.0} %"
        )
    }
}

impl Felt {
    fn line(&self) -> String {
        let Felt { requests, refused, unknown, failed_elsewhere, p99_us, p99_before_us, .. } = self;
        let Felt { requests_elsewhere, direct_p99_us, direct_p99_before_us, proxy, proxy_before, .. } = self;
        format!(
            "of {requests} requests {refused} refused, {unknown} unknown; other shards: {failed_elsewhere} of \
             {requests_elsewhere} failed, p99 {p99_us:.0} us ({p99_before_us:.0} before), past the proxy {direct_p99_us:.0} us \
             ({direct_p99_before_us:.0} before); the proxy {proxy} ({proxy_before} before)"
        )
    }
}

impl Report {
    /// As people read it.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        let Report { by, failover_ms, clients, machine, redis, ledger, .. } = self;
        let _ = writeln!(
            text,
            "Failovers by {by}, a primary silent for {failover_ms} ms is replaced; {clients} clients."
        );
        let _ = writeln!(text, "{redis}\n{}, {} cores, {}\n", machine.model, machine.cores, machine.kernel);
        for round in &self.rounds {
            let _ = writeln!(text, "{}", line(round));
        }
        let _ = writeln!(text);
        for kind in [Kind::Killed, Kind::Frozen, Kind::Asked] {
            let _ = write!(text, "{}", self.summary(kind));
        }
        let failovers = [Kind::Killed, Kind::Frozen, Kind::Asked];
        let _ = write!(text, "{}", self.elsewhere("other shards", &failovers));
        for kind in [Kind::Nothing, Kind::Elsewhere] {
            let _ = write!(text, "{}", self.elsewhere(&kind.to_string(), &[kind]));
        }
        if !self.pools.is_empty() {
            let _ = writeln!(
                text,
                "\nOther shards, all rounds together, beside quiet times before and after each [95 of 100 draws]:"
            );
        }
        for pool in &self.pools {
            let _ = writeln!(text, "{}", pool.line());
        }
        let _ = writeln!(text);
        if let Some(Moved { slots, took_ms, felt }) = &self.moved {
            let _ = writeln!(text, "{slots} slots moved in {took_ms:.0} ms: {}", felt.line());
        }
        let Ledger { keys, acknowledged, unknown, lost, doubled, strange } = ledger;
        let _ = writeln!(
            text,
            "\nLedger of {keys} keys: {acknowledged} writes acknowledged, {unknown} unknown, {lost} lost, {doubled} doubled"
        );
        if !strange.is_empty() {
            let _ = writeln!(text, "Strange errors: {}", strange.join("; "));
        }
        let _ = writeln!(text, "The proxy's own counts: {}", self.stats.join(", "));
        text
    }

    /// The rounds of one kind in a line.
    fn summary(&self, kind: Kind) -> String {
        let rounds: Vec<&Round> = self.rounds.iter().filter(|round| round.kind == kind).collect();
        let mut gaps: Vec<f64> = rounds.iter().map(|round| round.gap_ms).collect();
        gaps.sort_by(f64::total_cmp);
        let (Some(most), count) = (gaps.last(), rounds.len()) else { return String::new() };
        let mean = |of: fn(&Round) -> usize| {
            rounds.iter().map(|round| of(round)).sum::<usize>() as f64 / count as f64
        };
        format!(
            "{kind}, {count} times: served {:.0} ms after the promotion (median; {most:.0} at most), {:.1} refused, {:.1} \
             unknown and {:.1} lost each\n",
            gaps[count / 2],
            mean(|round| round.felt.refused),
            mean(|round| round.felt.unknown),
            mean(|round| round.lost as usize),
        )
    }

    /// Latencies of the other shards' clients beside a quiet second, in the rounds of these `kinds`.
    fn elsewhere(&self, what: &str, kinds: &[Kind]) -> String {
        let rounds = self.rounds.iter().filter(|round| kinds.contains(&round.kind));
        let mut ratios: Vec<f64> =
            rounds.map(|round| round.felt.p99_us / round.felt.p99_before_us.max(1.0)).collect();
        ratios.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else { return String::new() };
        let (count, median) = (ratios.len(), ratios[ratios.len() / 2]);
        let within = ratios.iter().filter(|ratio| **ratio <= RATIO_WANTED).count();
        format!(
            "{what}, {count} times: p99 {least:.2} to {most:.2} times that of the quiet time before (median {median:.2}; at most \
             {RATIO_WANTED} in {within})\n"
        )
    }

    /// Whether all answers were true. Acknowledged writes may be lost where a primary died or froze: Redis acknowledges before
    /// it replicates. They may also be lost where a sentinel was asked: it promotes the replica while the old primary
    /// continues.
    pub(super) fn check(&self) -> Result<()> {
        let Ledger { lost, doubled, strange, .. } = &self.ledger;
        ensure!(*doubled == 0, "{doubled} writes were applied twice");
        ensure!(strange.is_empty(), "errors that tell nothing: {strange:?}");
        let keeps_all = self.by == By::Cluster.name()
            && self.rounds.iter().all(|round| !matches!(round.kind, Kind::Killed | Kind::Frozen));
        ensure!(*lost == 0 || !keeps_all, "{lost} acknowledged writes are not there");
        Ok(())
    }
}
