//! Runs simulated worlds: `sim --worlds 1000`, or one of them with its trace: `sim --seed 42`.

#![expect(clippy::disallowed_methods, reason = "it tells how long it took")]

use clap::Parser;
use sim::{Plan, Report, Violation, run};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Runs simulated worlds of clients, faults and nodes around the core.
#[derive(Debug, Parser)]
#[command(name = "sim")]
struct Cli {
    /// Run the world of this seed only, and tell its events
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed: do not tell the events
    #[arg(long)]
    quiet: bool,
    /// How many worlds to run
    #[arg(long, default_value_t = 1000)]
    worlds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let begun = std::time::Instant::now();
    let seeds = cli.seed.map_or(cli.from..cli.from + cli.worlds, |seed| seed..seed + 1);
    let mut sum = Report::default();
    let mut worlds = 0;
    for seed in seeds {
        match run_caught(seed, cli.seed.is_some() && !cli.quiet) {
            Ok(report) => add(&mut sum, &report),
            Err(violation) => {
                println!("{violation}\n{:#?}", Plan::new(seed));
                println!("cargo xtask sim --seed {seed}");
                return ExitCode::FAILURE;
            }
        }
        worlds += 1;
    }
    let Report { requests, tally, fragments, timeouts, faults, events, .. } = sum;
    println!(
        "{worlds} worlds hold: {requests} requests, {} replies, {fragments} parts, {events} events",
        tally.replies
    );
    println!(
        "{faults} faults: {} told not sent, {} told unknown, {timeouts} timeouts; {} scans complete",
        tally.not_sent, tally.unknown, tally.walks
    );
    println!("{:.1} s", begun.elapsed().as_secs_f64());
    ExitCode::SUCCESS
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
    sum.fragments += one.fragments;
    sum.timeouts += one.timeouts;
    sum.faults += one.faults;
    sum.events += one.events;
}
