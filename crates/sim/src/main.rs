//! Runs simulated worlds: `sim --worlds 1000`, or one of them with its trace: `sim --seed 42`.

#![expect(clippy::disallowed_methods, reason = "it tells how long it took")]

mod fingerprints;

use clap::Parser;
use fingerprints::Fingerprints;
use sim::{Kind, Plan, Report, Violation, run};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs simulated worlds of clients, faults and nodes around the core.
#[derive(Debug, Parser)]
#[command(name = "sim")]
struct Cli {
    /// Seed of a single world, whose events are printed
    #[arg(long)]
    seed: Option<u64>,
    /// Silence about events, with --seed
    #[arg(long)]
    quiet: bool,
    /// Number of worlds
    #[arg(long, default_value_t = 1000)]
    worlds: u64,
    /// Kind of nodes; other worlds are skipped
    #[arg(long, value_parser = kind)]
    only: Option<Kind>,
    /// First seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// File for the fingerprint of each world; a change that alters no behaviour leaves them as they are
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// File of fingerprints to compare with; worlds that differ are listed
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    compare: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let begun = std::time::Instant::now();
    let seeds = cli.seed.map_or(cli.from..cli.from + cli.worlds, |seed| seed..seed + 1);
    let before = cli.compare.as_deref().map(fingerprints::read).transpose();
    let (sum, fingerprints) = match run_all(seeds, cli.only, cli.seed.is_some() && !cli.quiet) {
        Ok(ran) => ran,
        Err(violation) => {
            println!("{violation}\n{:?}", Plan::new(violation.seed));
            println!("cargo xtask sim --seed {}", violation.seed);
            return ExitCode::FAILURE;
        }
    };
    tell(&sum, fingerprints.len());
    println!("{:.1} s", begun.elapsed().as_secs_f64());
    let kept = before.and_then(|before| {
        cli.record.as_deref().map_or(Ok(()), |path| fingerprints::write(path, &fingerprints))?;
        before.map_or(Ok(()), |before| fingerprints::compare(&before, &fingerprints))
    });
    match kept {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the worlds of all `seeds`, side by side on all cores, up to the first violation. Returns the sum of their reports, and
/// the fingerprint of each.
fn run_all(seeds: Range<u64>, only: Option<Kind>, trace: bool) -> Result<(Report, Fingerprints), Violation> {
    let next = AtomicU64::new(seeds.start);
    let outcome = Mutex::new(Ok((Report::default(), Fingerprints::new())));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if only.is_some_and(|kind| Plan::new(seed).kind() != kind) {
                continue;
            }
            let result = run_caught(seed, trace);
            let mut outcome = outcome.lock().expect("no thread panics while it holds the lock");
            match (outcome.as_mut(), result) {
                (Ok((sum, fingerprints)), Ok(report)) => {
                    add(sum, &report);
                    fingerprints.insert(seed, report.fingerprint);
                }
                (Ok(_), Err(violation)) => {
                    *outcome = Err(violation);
                    next.store(seeds.end, Ordering::Relaxed);
                }
                (Err(_), _) => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    outcome.into_inner().expect("no thread panics while it holds the lock")
}

fn kind(word: &str) -> Result<Kind, String> {
    match word {
        "plain" => Ok(Kind::Plain),
        "cluster" => Ok(Kind::Cluster),
        "sentinel" => Ok(Kind::Sentinel),
        _ => Err("plain, cluster or sentinel".to_owned()),
    }
}

fn tell(sum: &Report, worlds: usize) {
    let Report { requests, tally, fragments, timeouts, redirects, judged, unjudged, faults, events, .. } =
        sum;
    println!(
        "{worlds} worlds hold: {requests} requests, {} replies, {fragments} parts, {events} events",
        tally.replies
    );
    println!(
        "{judged} values judged byte for byte, {unjudged} after too much was unknown; {} denied",
        tally.denied
    );
    let Report { emulations, messages, kept, dropped, .. } = sum;
    println!(
        "{messages} messages heard, {kept} values kept and {dropped} told of, {emulations} commands over several shards"
    );
    let Report { maps, successors, replica_reads, .. } = sum;
    println!(
        "{replica_reads} reads of replicas, {successors} of them became primaries, {maps} maps were discovered"
    );
    println!(
        "{faults} faults: {} told not sent, {} told unknown, {timeouts} timeouts, {redirects} redirects; {} scans complete",
        tally.not_sent, tally.unknown, tally.walks
    );
}

/// A panic of the core is a finding like any other.
fn run_caught(seed: u64, trace: bool) -> Result<Report, Violation> {
    catch_unwind(AssertUnwindSafe(|| run(&Plan::new(seed), None, trace))).unwrap_or_else(|_| {
        Err(Violation { seed, at_us: 0, what: "the core panicked, as told above".to_owned() })
    })
}

fn add(sum: &mut Report, one: &Report) {
    sum.requests += one.requests;
    sum.tally.replies += one.tally.replies;
    sum.tally.not_sent += one.tally.not_sent;
    sum.tally.unknown += one.tally.unknown;
    sum.tally.walks += one.tally.walks;
    sum.tally.denied += one.tally.denied;
    sum.judged += one.judged;
    sum.unjudged += one.unjudged;
    sum.fragments += one.fragments;
    sum.timeouts += one.timeouts;
    sum.emulations += one.emulations;
    sum.messages += one.messages;
    sum.kept += one.kept;
    sum.dropped += one.dropped;
    sum.redirects += one.redirects;
    sum.maps += one.maps;
    sum.successors += one.successors;
    sum.replica_reads += one.replica_reads;
    sum.faults += one.faults;
    sum.events += one.events;
}
