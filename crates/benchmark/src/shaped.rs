//! A session beyond redis-benchmark: one run with its reports, a search for a rate, or two servers in turns.

use crate::args::BenchArgs;
use crate::chart;
use crate::compare::{Comparison, NOISE_BELOW, compare};
use crate::expect::{Threshold, Verdict};
use crate::hdr_log::HdrLog;
use crate::mix::Mix;
use crate::page;
use crate::plan::{Pace, Plan};
use crate::prepare;
use crate::progress::Progress;
use crate::report;
use crate::run::{Interrupt, Outcome, execute};
use crate::search;
use crate::target::Server;
use anyhow::{Context, Result, anyhow, bail};
use loadgen::schedule::Arrivals;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// A threshold was missed, or a reply was wrong.
const MISSED: u8 = 3;
/// A rate of which less than this share was carried is too high.
const CARRIED_MIN: f64 = 0.98;
/// First rate of a search.
const RATE_FIRST: f64 = 1000.0;

/// Carries out what `args` ask for.
pub(crate) fn run(args: &BenchArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let server = match args.url() {
        Some(url) => Server::http(&url.parse().map_err(|error: String| anyhow!(error))?, &args.server)?,
        None => Server::new(&args.server, args.load.enable_tracking)?,
    };
    let server = if args.load.cluster { server.into_cluster()?.0 } else { server };
    let (plan, mix) = prepare::shaped(args, &server).map_err(|error| anyhow!(error))?;
    let session = Session { args, interrupt, server, plan, mix };
    session.load(&session.plan)?;
    match (&args.judge.find_rate, &args.judge.against) {
        (Some(threshold), _) => session.find_rate(threshold),
        (None, Some(address)) => session.against(address),
        (None, None) => session.once(),
    }
}

/// Prints at once. A reader that has gone is no error.
fn print(text: &str) {
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

struct Session<'a> {
    args: &'a BenchArgs,
    interrupt: &'a Interrupt,
    server: Server,
    plan: Plan,
    mix: Mix,
}

impl Session<'_> {
    /// Writes all keys of `plan`, if the user wants that.
    fn load(&self, plan: &Plan) -> Result<()> {
        if !self.args.shape.load || self.args.url().is_some() {
            return Ok(());
        }
        execute(prepare::loading(plan, &self.mix), self.interrupt, &mut |_| {}).context("--load")?;
        Ok(())
    }

    /// One run.
    fn once(&self) -> Result<ExitCode> {
        let output = &self.args.output;
        let title = describe(&self.server, &self.plan);
        if !output.quiet && !output.csv {
            print(&format!("{title}\n"));
        }
        let log = output.hdr_log.as_deref().map(HdrLog::create).transpose()?;
        let outcome = self.measure(self.plan.clone(), log)?;
        let verdicts: Vec<Verdict> =
            self.args.judge.expect.iter().map(|threshold| threshold.judge(&outcome)).collect();
        print(&match () {
            () if output.csv => report::csv(&outcome),
            () if output.quiet => report::line_of_all(&title, &outcome),
            () => report::text(&outcome, &verdicts),
        });
        self.write(output.json.as_deref(), || Ok(format!("{}\n", report::json(&outcome, &verdicts))))?;
        self.write(output.plot.as_deref(), || chart::both(&outcome))?;
        self.write(output.html.as_deref(), || page::html(&title, &outcome, &verdicts))?;
        let is_missed = verdicts.iter().any(|verdict| !verdict.is_kept) || outcome.total.counts.wrong > 0;
        Ok(if is_missed { ExitCode::from(MISSED) } else { ExitCode::SUCCESS })
    }

    fn measure(&self, plan: Plan, mut log: Option<HdrLog>) -> Result<Outcome> {
        let progress = Progress::new(&plan);
        let mut logged = Ok(());
        let outcome = execute(plan, self.interrupt, &mut |moment| {
            progress.show(moment);
            if let (Some(log), Ok(())) = (&mut log, &logged) {
                logged = log.append(moment);
            }
        });
        progress.end();
        let outcome = outcome?;
        logged.and_then(|()| log.map_or(Ok(()), HdrLog::finish)).context("--hdr-log")?;
        if outcome.total.counts.requests == 0 && !self.interrupt.is_set() {
            let reason = outcome.errors.first().map_or("nothing was answered", String::as_str);
            bail!("{}: {reason}", self.server.name);
        }
        Ok(outcome)
    }

    fn write(&self, path: Option<&Path>, text: impl FnOnce() -> Result<String>) -> Result<()> {
        let Some(path) = path else { return Ok(()) };
        std::fs::write(path, text()?).with_context(|| path.display().to_string())
    }

    /// The highest rate that keeps `threshold`.
    fn find_rate(&self, threshold: &Threshold) -> Result<ExitCode> {
        let shape = &self.args.shape;
        let arrivals = if shape.arrivals == "poisson" { Arrivals::Poisson } else { Arrivals::Even };
        let first = shape.rate.unwrap_or(RATE_FIRST);
        let mut found = Vec::new();
        let keeps = |rate: f64| {
            if self.interrupt.is_set() {
                bail!("interrupted");
            }
            let pace = Pace::Open { rate, arrivals, growth: Duration::ZERO };
            let outcome = self.measure(Plan { pace, ..self.plan.clone() }, None)?;
            let verdict = threshold.judge(&outcome);
            let is_carried = outcome.unanswered == 0 && outcome.rate() >= rate * CARRIED_MIN;
            let is_kept = verdict.is_kept && is_carried;
            let word = match (is_carried, is_kept) {
                (false, _) => "not carried",
                (true, false) => "missed",
                (true, true) => "kept",
            };
            print(&format!("  {rate:>10.0}/s: {} ({}) {word}\n", verdict.text, verdict.found));
            found.push(
                json!({ "rate": rate, "carried": outcome.rate(), "found": verdict.found, "kept": is_kept }),
            );
            Ok(is_kept)
        };
        let (rate, _) = search::highest(first, keeps)?;
        let text = match rate {
            Some(rate) => format!("{rate:.0} requests per second keep {}\n", threshold.text),
            None => format!("no rate keeps {}\n", threshold.text),
        };
        print(&text);
        let report = json!({ "threshold": threshold.text, "rate": rate, "steps": found });
        self.write(self.args.output.json.as_deref(), || Ok(format!("{report}\n")))?;
        Ok(if rate.is_some() { ExitCode::SUCCESS } else { ExitCode::from(MISSED) })
    }

    /// This server and the one at `address` in turns. In every second round the other one begins.
    fn against(&self, address: &str) -> Result<ExitCode> {
        let other = self.server.at(address)?;
        let other_plan = Plan { target: other.target.clone(), ..self.plan.clone() };
        self.load(&other_plan)?;
        let plans = [&self.plan, &other_plan];
        print(&format!(
            "{}\nagainst {address}, {} rounds\n",
            describe(&self.server, &self.plan),
            self.args.judge.rounds
        ));
        let mut pairs = Vec::new();
        for round in 0..self.args.judge.rounds {
            let mut pair = [None, None];
            for turn in 0..2 {
                let side = ((round + turn) % 2) as usize;
                let outcome = self.measure(plans[side].clone(), None)?;
                if self.interrupt.is_set() {
                    bail!("interrupted");
                }
                pair[side] = Some(figures(&outcome));
            }
            let [Some(first), Some(second)] = pair else { continue };
            print(&format!("  round {:>2}: {:.0}/s and {:.0}/s\n", round + 1, first[0], second[0]));
            pairs.push([first, second]);
        }
        self.compare(&pairs)
    }

    fn compare(&self, pairs: &[[[f64; 4]; 2]]) -> Result<ExitCode> {
        let mut report = serde_json::Map::new();
        print(&format!("  {:<10} {:>12} {:>12} {:>8} {:>7}\n", "", "first", "second", "ratio", "p"));
        for (at, name) in FIGURES.iter().enumerate() {
            let pairs: Vec<[f64; 2]> = pairs.iter().map(|[first, second]| [first[at], second[at]]).collect();
            let comparison = compare(&pairs);
            print(&compared(name, &comparison));
            report.insert((*name).to_owned(), as_json(&comparison, &pairs));
        }
        print("  ratio: second by first, geometric mean of the rounds; p: paired permutation test\n");
        self.write(self.args.output.json.as_deref(), || Ok(format!("{}\n", Value::Object(report))))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Figures that are compared; times in microseconds.
const FIGURES: [&str; 4] = ["rate", "p50_us", "p99_us", "p99.9_us"];

fn figures(outcome: &Outcome) -> [f64; 4] {
    let all = outcome.total.all();
    let us = |quantile| (all.value_at_quantile(quantile) as f64 / 1e3).max(1e-3);
    [outcome.rate().max(1e-3), us(0.5), us(0.99), us(0.999)]
}

fn compared(name: &str, comparison: &Comparison) -> String {
    let Comparison { medians: [first, second], ratio, p } = comparison;
    let word = if *p < NOISE_BELOW { "a difference" } else { "noise" };
    format!("  {name:<10} {first:>12.1} {second:>12.1} {ratio:>8.3} {p:>7.4}  {word}\n")
}

fn as_json(comparison: &Comparison, pairs: &[[f64; 2]]) -> Value {
    json!({
        "first": comparison.medians[0],
        "second": comparison.medians[1],
        "ratio": comparison.ratio,
        "p": comparison.p,
        "rounds": pairs,
    })
}

/// A run in one line.
fn describe(server: &Server, plan: &Plan) -> String {
    let kinds = plan.workload.names().join(", ");
    let pace = match plan.pace {
        Pace::Open { rate, arrivals, .. } => {
            let gaps = if arrivals == Arrivals::Even { "even" } else { "Poisson" };
            format!("open loop at {rate}/s ({gaps})")
        }
        Pace::Closed => "closed loop".to_owned(),
        Pace::Traced => "replay of a trace".to_owned(),
        Pace::Idle => "idle".to_owned(),
    };
    let bound = match (plan.bounds.time, plan.bounds.requests) {
        (Some(time), _) => format!("{time:?} after {:?} of warm-up", plan.bounds.warmup),
        (None, requests) => format!("{} requests", requests.unwrap_or(0)),
    };
    let (connections, threads) = (plan.connections.count, plan.connections.threads);
    format!("{}: {kinds}; {connections} connections, {threads} threads, {pace}, {bound}", server.name)
}
