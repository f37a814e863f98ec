//! `cargo xtask suites`: other projects' tests of Redis and of its clients, run against shardis.
//!
//! ```text
//!     fetch, build ─► parts ─► threads: fresh nodes and a proxy for each part ─► outcomes ─► tests/suites/<suite>.txt
//! ```
//!
//! Their code comes from package registries into `target/suites` and is not changed. Expected failures are listed with their
//! reasons in `tests/suites`. Any difference from a list, in either direction, is an error.

mod expected;
mod fetch;
mod go_redis;
mod hiredis;
mod jobs;
mod redis_fast;
mod redis_pm;
mod redis_py;
mod redis_rs;
pub(crate) mod relay;
mod rueidis;
mod tcl;
mod world;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::speed;
use expected::Expected;
use jobs::{Job, Jobs};
use programs::needs::{self, Need};
use programs::process::{self, cargo, command, root, target_dir};
use world::{Subject, World};

/// The chosen suites, and the use of their results.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Suite to run alone
    #[arg(long)]
    only: Option<Name>,
    /// New lists of expected failures; reasons of known names stay
    #[arg(long)]
    bless: bool,
    /// One redis-server instead of shardis: failures there are not shardis's. Compares with nothing
    #[arg(long, conflicts_with = "bless")]
    direct: bool,
    /// One in-memory shard instead of nodes. Compares with nothing
    #[arg(long, conflicts_with_all = ["direct", "bless"])]
    stores: bool,
    /// Short choice of suites, as in `cargo xtask test`
    #[arg(long, conflicts_with = "all")]
    quick: bool,
    /// Every suite a second time with emulation, not only the short ones
    #[arg(long, conflicts_with_all = ["direct", "stores"])]
    all: bool,
}

/// A suite by its name on the command line and in `tests/suites`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    Tcl,
    RedisPy,
    GoRedis,
    RedisRs,
    Hiredis,
    RedisPm,
    RedisFast,
    Rueidis,
}

/// The tests of one project.
struct Suite {
    name: Name,
    /// The file stem of its list.
    slug: &'static str,
    /// Programs that are installed if they are missing.
    needs: &'static [Need],
    /// A program that is not installed for it: without it the suite is skipped.
    tool: &'static [&'static str],
    /// The port of the proxy, if the suite has a fixed one. If it is taken, the suite is skipped.
    port: Option<u16>,
    /// Setups of shardis in `cargo xtask test`; none if the suite is too slow for that.
    quick: &'static [Setup],
    /// Fetches and builds it, and returns its parts. The flag asks for the quick tests alone.
    parts: fn(bool) -> Result<Vec<Part>>,
}

impl Suite {
    /// Why it cannot be run here, if it cannot.
    fn obstacle(&self) -> Option<String> {
        if !process::succeeds(command(self.tool[0]).args(&self.tool[1..])) {
            return Some(format!("there is no `{}` here", self.tool[0]));
        }
        let port = self.port.filter(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err())?;
        Some(format!("port {port}, which is written into it, is taken"))
    }
}

/// Setup of shardis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setup {
    /// Requests with keys of several shards are refused if they cannot be split: the default.
    Refuse,
    /// Commands over several shards are carried out, and so are transactions.
    Emulate,
}

impl Setup {
    const BOTH: [Setup; 2] = [Setup::Refuse, Setup::Emulate];

    /// Suffix of its lists and logs.
    fn suffix(self) -> &'static str {
        match self {
            Setup::Refuse => "",
            Setup::Emulate => ".emulate",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Setup::Refuse => &[],
            Setup::Emulate => &["--cross-shard=emulate", "--transactions=per-shard"],
        }
    }
}

/// A suite with a setup of shardis. Those of one suite stand side by side.
#[derive(Clone, Copy)]
struct Chosen {
    suite: &'static Suite,
    setup: Setup,
}

impl Chosen {
    /// Its name in the table, and the file stem of its list.
    fn slug(self) -> String {
        format!("{}{}", self.suite.slug, self.setup.suffix())
    }
}

/// The longest come first: the others fill the idle cores.
const SUITES: [&Suite; 8] = [
    &go_redis::SUITE,
    &redis_py::SUITE,
    &redis_pm::SUITE,
    &tcl::SUITE,
    &redis_rs::SUITE,
    &redis_fast::SUITE,
    &rueidis::SUITE,
    &hiredis::SUITE,
];

/// A part that runs against nodes and a proxy of its own.
struct Part {
    /// The file stem of its log.
    name: String,
    run: Box<Work>,
}

/// Runs tests against a world.
type Work = dyn FnOnce(&World) -> Result<Vec<Outcome>> + Send;

impl Part {
    fn new(
        name: impl Into<String>,
        run: impl FnOnce(&World) -> Result<Vec<Outcome>> + Send + 'static,
    ) -> Part {
        Part { name: name.into().replace('/', "_"), run: Box::new(run) }
    }
}

/// Result of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    name: String,
    verdict: Verdict,
}

impl Outcome {
    fn new(name: impl Into<String>, verdict: Verdict) -> Outcome {
        // A name is a line of a list.
        let name = name.into().split_whitespace().collect::<Vec<_>>().join(" ");
        Outcome { name, verdict }
    }

    /// All tests of `file` (or of a suite that is one) that did not run.
    fn rest_of(file: Option<&str>, why: &str) -> Outcome {
        let file = file.map_or(String::new(), |file| format!("{file}: "));
        Outcome::new(file + REST, Verdict::failed(why))
    }

    fn is_rest(&self) -> bool {
        self.name.ends_with(REST)
    }
}

/// The name in lists of tests that did not run.
const REST: &str = "(the rest)";

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// With the suite's message, shortened to a line.
    Failed(String),
    /// By the suite's own judgement.
    Skipped,
    /// By ours: it takes long.
    LeftOut,
}

impl Verdict {
    fn failed(message: &str) -> Verdict {
        let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
        Verdict::Failed(line.chars().take(300).collect())
    }
}

/// Runs the suites and compares their results with the lists. Returns a line for each suite that cannot run here.
///
/// No test gets a second try, which would hide rare faults. A test that fails at times is listed, with the cause.
pub(crate) fn run(options: &Options) -> Result<Vec<String>> {
    run_against(&binary()?, options)
}

/// The part for `cargo xtask test`, against the program `binary`.
pub(crate) fn run_quick(binary: &Path) -> Result<Vec<String>> {
    run_against(
        binary,
        &Options { only: None, bless: false, direct: false, stores: false, quick: true, all: false },
    )
}

fn run_against(binary: &Path, options: &Options) -> Result<Vec<String>> {
    let (chosen, skipped) = choose(options);
    skipped.iter().for_each(|line| println!("{line}"));
    for chosen in &chosen {
        needs::install(chosen.suite.needs)?;
    }
    needs::install(&[needs::REDIS_SERVER])?;
    let runs = run_all(&chosen, binary, options)?;
    let differences = report(&chosen, &runs, options)?;
    ensure!(differences.is_empty(), "{}", complaint(&differences));
    Ok(skipped)
}

/// The text of the error is printed too: a log may show only its end.
fn complaint(differences: &[String]) -> String {
    /// A suite that does not run at all differs in hundreds of lines.
    const LINES_MAX: usize = 20;
    let mut text = format!(
        "{} differences from tests/suites; if they are as they should be, run `cargo xtask suites --bless` and give the \
         new ones a reason",
        differences.len()
    );
    for difference in differences.iter().take(LINES_MAX) {
        text += &format!("\n{difference}");
    }
    if differences.len() > LINES_MAX {
        text += &format!("\nand {} more", differences.len() - LINES_MAX);
    }
    text
}

/// The suites that `options` name and whose tools are there, and a line for each whose tool is not.
fn choose(options: &Options) -> (Vec<Chosen>, Vec<String>) {
    let (mut chosen, mut skipped) = (Vec::new(), Vec::new());
    for suite in SUITES {
        let setups = setups(suite, options);
        if setups.is_empty() || options.only.is_some_and(|name| suite.name != name) {
            continue;
        }
        match suite.obstacle() {
            Some(obstacle) => skipped.push(format!("suites: {} skipped: {obstacle}", suite.slug)),
            None => chosen.extend(setups.iter().map(|&setup| Chosen { suite, setup })),
        }
    }
    (chosen, skipped)
}

/// Setups of shardis for `suite`.
fn setups(suite: &Suite, options: &Options) -> &'static [Setup] {
    let is_compared = !options.direct && !options.stores;
    if options.quick && (is_compared || suite.quick.is_empty()) {
        return suite.quick;
    }
    if is_compared && (options.all || suite.quick.contains(&Setup::Emulate)) {
        return &Setup::BOTH;
    }
    &[Setup::Refuse]
}

/// The shardis to test: that of this tree, or `SHARDIS_BIN`.
fn binary() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("SHARDIS_BIN") {
        return Ok(root().join(binary));
    }
    process::run(&mut cargo(["build", "--quiet", "--package", "shardis"]))?;
    Ok(target_dir().join("debug/shardis"))
}

/// Results of the parts of a suite in their order, and their total time.
#[derive(Default)]
struct Run {
    outcomes: Vec<Outcome>,
    took: Duration,
}

/// A part with its place (that of its suite, then its own in it).
type Placed = ((usize, usize), Chosen, Part);

/// Result of a part, and its time.
type Done = ((usize, usize), Result<Vec<Outcome>>, Duration);

/// Fetches and builds the suites in parallel. The parts of those that are ready run, each against a world of its own.
fn run_all(chosen: &[Chosen], binary: &Path, options: &Options) -> Result<Vec<Run>> {
    std::fs::create_dir_all(fetch::folder())?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let (tell, done) = mpsc::channel();
    let by_suite: Vec<_> = chosen.chunk_by(|one, other| one.suite.name == other.suite.name).collect();
    let jobs = Jobs::of(by_suite.len());
    std::thread::scope(|scope| {
        let mut start = 0;
        for of_suite in by_suite {
            let (jobs, tell) = (&jobs, tell.clone());
            scope.spawn(move || {
                // One after the other: both fetch and build the same.
                for (place, &chosen) in (start..).zip(of_suite) {
                    prepare(place, chosen, options.quick, jobs, &tell);
                }
                jobs.close();
            });
            start += of_suite.len();
        }
        for _ in 0..speed::threads() {
            let (tell, jobs, interrupted) = (tell.clone(), &jobs, &interrupted);
            scope.spawn(move || {
                while !interrupted.load(Ordering::Relaxed)
                    && let Some(Job { port, what: (place, chosen, part) }) = jobs.next()
                {
                    let (start, name) = (Instant::now(), part.name.clone());
                    let outcomes = run_part(part, chosen, binary, options).context(name);
                    jobs.finish(port);
                    // Sending fails only if the receiver is gone, which outlives this scope.
                    let _ = tell.send((place, outcomes, start.elapsed()));
                }
            });
        }
    });
    ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
    drop(tell);
    collect(done.into_iter().collect(), chosen.len())
}

/// Adds the parts of a suite as jobs, once it is fetched and built.
fn prepare(place: usize, chosen: Chosen, is_quick: bool, jobs: &Jobs<Placed>, tell: &mpsc::Sender<Done>) {
    match (chosen.suite.parts)(is_quick).context(chosen.suite.slug) {
        Ok(parts) => {
            for (index, part) in parts.into_iter().enumerate() {
                jobs.add(Job { port: chosen.suite.port, what: ((place, index), chosen, part) });
            }
        }
        Err(error) => {
            let _ = tell.send(((place, 0), Err(error), Duration::ZERO));
        }
    }
}

/// Sorts the results of the jobs into a run for each suite.
fn collect(mut done: Vec<Done>, suites: usize) -> Result<Vec<Run>> {
    done.sort_by_key(|(place, ..)| *place);
    let mut runs: Vec<Run> = std::iter::repeat_with(Run::default).take(suites).collect();
    for ((suite, _), outcomes, took) in done {
        runs[suite].outcomes.extend(outcomes?);
        runs[suite].took += took;
    }
    for run in &mut runs {
        run.outcomes = tell_apart(std::mem::take(&mut run.outcomes));
    }
    Ok(runs)
}

fn run_part(part: Part, chosen: Chosen, binary: &Path, options: &Options) -> Result<Vec<Outcome>> {
    let subject = match (options.direct, options.stores) {
        (true, _) => Subject::Node,
        (_, true) => Subject::Stores(binary),
        _ => Subject::Proxy(binary, chosen.setup.flags()),
    };
    let world = World::start(&(part.name + chosen.setup.suffix()), subject, chosen.suite.port)?;
    (part.run)(&world)
}

/// Prints the table, and compares with the lists or writes them. Returns the differences, a line for each.
fn report(chosen: &[Chosen], runs: &[Run], options: &Options) -> Result<Vec<String>> {
    let mut differences = Vec::new();
    let mut table = String::from("\nsuite              passed  failed  skipped  seconds\n");
    for (&chosen, run) in chosen.iter().zip(runs) {
        let outcomes = &run.outcomes;
        let count = |is: fn(&Verdict) -> bool| outcomes.iter().filter(|outcome| is(&outcome.verdict)).count();
        let failed = count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let surprises = if options.direct || options.stores {
            show(outcomes)
        } else {
            judge(chosen, outcomes, options.bless)?
        };
        table += &format!(
            "{:<18} {:>6} {:>7} {:>8} {:>8.1}{}\n",
            chosen.slug(),
            count(|verdict| *verdict == Verdict::Passed),
            failed,
            count(|verdict| matches!(verdict, Verdict::Skipped | Verdict::LeftOut)),
            run.took.as_secs_f64(),
            if surprises.is_empty() { String::new() } else { format!("  {} DIFFERENCES", surprises.len()) },
        );
        differences.extend(surprises);
    }
    println!("{table}");
    Ok(differences)
}

/// Tests of one name get numbers from the second on: a list names each.
fn tell_apart(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let mut seen = std::collections::HashMap::<String, usize>::new();
    for outcome in &mut outcomes {
        let count = seen.entry(outcome.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            outcome.name += &format!(" ({count})");
        }
    }
    outcomes
}

/// Prints failures of a suite without expectations. They are no surprise.
fn show(outcomes: &[Outcome]) -> Vec<String> {
    for outcome in outcomes {
        if let Verdict::Failed(message) = &outcome.verdict {
            println!("{}: {message}", outcome.name);
        }
    }
    Vec::new()
}

fn list_of(chosen: Chosen) -> String {
    format!("tests/suites/{}.txt", chosen.slug())
}

/// The content of the list of `chosen`.
fn expected_of(chosen: Chosen) -> Result<Expected> {
    let list = list_of(chosen);
    let path = root().join(&list);
    let text = if path.exists() { std::fs::read_to_string(&path)? } else { String::new() };
    Expected::parse(&text).context(list)
}

/// Compares `outcomes` with the list of `chosen`, or writes that. Returns the differences, which are printed.
fn judge(chosen: Chosen, outcomes: &[Outcome], bless: bool) -> Result<Vec<String>> {
    let list = list_of(chosen);
    let expected = expected_of(chosen)?;
    write_failures(chosen, outcomes)?;
    if bless {
        let blessed = expected.bless(outcomes);
        let path = root().join(&list);
        std::fs::create_dir_all(path.parent().expect("it is in a folder"))?;
        std::fs::write(&path, blessed.to_string())?;
        println!("suites: {list} written; {} have no reason yet", blessed.unexplained());
        return Ok(Vec::new());
    }
    let findings = expected.compare(outcomes).into_iter();
    let findings: Vec<String> = findings.map(|finding| format!("{list}: {finding}")).collect();
    findings.iter().for_each(|finding| println!("{finding}"));
    Ok(findings)
}

/// Writes the failures with their messages beside the logs.
fn write_failures(chosen: Chosen, outcomes: &[Outcome]) -> Result<()> {
    let failures = outcomes.iter().filter_map(|outcome| match &outcome.verdict {
        Verdict::Failed(message) => Some(format!("{}\t{message}\n", outcome.name)),
        _ => None,
    });
    std::fs::create_dir_all(world::logs())?;
    Ok(std::fs::write(
        world::logs().join(format!("{}-failures.txt", chosen.slug())),
        failures.collect::<String>(),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_one_name_are_numbered() {
        let outcomes = ["a", "b", "a", "a"].map(|name| Outcome::new(name, Verdict::Passed)).to_vec();
        let names: Vec<_> = tell_apart(outcomes).into_iter().map(|outcome| outcome.name).collect();
        assert_eq!(names, ["a", "b", "a (2)", "a (3)"]);
    }

    #[test]
    fn a_quick_run_sets_shardis_up_as_the_suite_says() {
        let options =
            |quick, all, direct| Options { only: None, bless: false, direct, stores: false, quick, all };
        let setups = |suite, quick, all, direct| setups(suite, &options(quick, all, direct));
        assert_eq!(setups(&redis_pm::SUITE, true, false, false), [Setup::Emulate]);
        assert_eq!(setups(&redis_pm::SUITE, false, false, false), Setup::BOTH);
        assert_eq!(setups(&redis_rs::SUITE, true, false, false), []);
        assert_eq!(setups(&redis_rs::SUITE, false, true, false), Setup::BOTH);
        assert_eq!(setups(&redis_pm::SUITE, false, false, true), [Setup::Refuse]);
    }

    #[test]
    fn the_error_says_the_first_differences() {
        let text = complaint(&["tests/suites/x.txt: failed: a: why".into()]);
        assert!(text.starts_with("1 differences from tests/suites; "), "{text}");
        assert!(text.ends_with("a reason\ntests/suites/x.txt: failed: a: why"), "{text}");
        let many: Vec<String> = (0..22).map(|number| format!("failed: {number}")).collect();
        assert!(complaint(&many).ends_with("\nfailed: 19\nand 2 more"), "{}", complaint(&many));
    }

    #[test]
    fn a_name_and_a_message_are_lines() {
        let outcome = Outcome::new("two\n  lines", Verdict::failed("one\n\ttwo"));
        assert_eq!(outcome.name, "two lines");
        assert_eq!(outcome.verdict, Verdict::Failed("one two".into()));
    }
}
