//! The command line: its subcommands, and refusals in one line.

mod access;
mod admin;
pub(crate) mod admin_tls;
mod bytes;
mod discovery;
mod file;
mod generate;
mod like;
pub(crate) mod listener;
pub(crate) mod mirror;
mod node_auth;
mod nutcracker;
pub(crate) mod policy;
mod proxy;
mod racks;
mod remarks;
mod ring;
pub(crate) mod rivals;
pub(crate) mod route;
mod service;
pub(crate) mod serving;
pub(crate) mod settings;
mod slowlog;
mod statsd;
mod store;
mod users;

use crate::config::{self, Depth};
use crate::tcp::TcpArgs;
use crate::upgrade::command::UpgradeArgs;
use ::local::LocalArgs;
use ::local::die_with_parent::DieWithParentArgs;
use ::top::TopArgs;
use benchmark::BenchArgs;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) use admin::AdminArgs;
pub(crate) use bytes::parse_bytes;
pub(crate) use generate::{GenerateArgs, generate};
pub(crate) use listener::Way;
pub(crate) use proxy::{ProxyArgs, parse_switch};
pub(crate) use remarks::no_effect;
pub(crate) use ring::RingOptions;
pub(crate) use service::{LogFormat, ServiceArgs};
pub(crate) use serving::Serving;

/// The version, and the commit if it is known (build.rs).
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("SHARDIS_COMMIT"));

/// Many Redis nodes behind one endpoint.
#[derive(Debug, Parser)]
#[command(name = "shardis", version = VERSION, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
enum Commands {
    /// Serve the keys of several nodes at one address
    Proxy(Box<ProxyArgs>),
    /// Start nodes on this machine for tests and experiments
    Local(LocalArgs),
    /// Pass bytes to one of several nodes without reading them
    Tcp(TcpArgs),
    /// Show nodes, load and latencies of a running shardis in a terminal
    Top(TopArgs),
    /// Measure a Redis or HTTP server: redis-benchmark's flags, and fixed rates, mixes and reports
    Bench(Box<BenchArgs>),
    /// Check a configuration file and show the effective settings
    Check(CheckArgs),
    /// Print the configuration that another program's file means
    Import(ImportArgs),
    /// Explain the way of a request to the nodes, without sending it
    Explain(ExplainArgs),
    /// Ask all nodes, and find trouble before clients do
    Doctor(DoctorArgs),
    /// Show the nodes of keys, how evenly they are used, and the moves to another layout
    Ring(RingArgs),
    /// Replace a running shardis by the binary on disk, without dropping a client
    Upgrade(UpgradeArgs),
}

/// `shardis die-with-parent`, which runs a program that ends when another process does. It is no command of [`Cli`], so the
/// help does not show it: only `shardis local` uses it.
#[derive(Debug, Parser)]
#[command(name = "shardis die-with-parent")]
struct DieWithParentCli {
    #[command(flatten)]
    args: DieWithParentArgs,
}

const DIE_WITH_PARENT: &str = "die-with-parent";

impl Commands {
    /// As it is written.
    fn name(&self) -> &'static str {
        match self {
            Commands::Proxy(_) => "proxy",
            Commands::Local(_) => "local",
            Commands::Tcp(_) => "tcp",
            Commands::Top(_) => "top",
            Commands::Bench(_) => "bench",
            Commands::Check(_) => "check",
            Commands::Import(_) => "import",
            Commands::Explain(_) => "explain",
            Commands::Doctor(_) => "doctor",
            Commands::Ring(_) => "ring",
            Commands::Upgrade(_) => "upgrade",
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Commands::Proxy(args) => args.check(),
            Commands::Local(args) => args.check(),
            Commands::Tcp(args) => args.check(),
            Commands::Check(_) | Commands::Import(_) | Commands::Top(_) | Commands::Upgrade(_) => Ok(()),
            Commands::Bench(args) => args.check(),
            Commands::Explain(args) => args.proxy.check(),
            Commands::Doctor(args) => args.proxy.check(),
            Commands::Ring(args) => args.proxy.check(),
        }
    }

    /// The task of the process.
    fn task(self) -> Task {
        match self {
            Commands::Proxy(args) => Task::Serve(Box::new(Serving::redis(*args))),
            Commands::Tcp(args) => Task::Serve(Box::new(Serving::tcp(args))),
            Commands::Check(args) => {
                let (file, against) = args.files();
                Task::Check(file, against)
            }
            Commands::Import(args) => Task::Import(args.file),
            Commands::Explain(args) => Task::Explain(args.proxy, args.request),
            Commands::Doctor(args) => Task::Doctor(args.proxy, args.json),
            Commands::Ring(args) => {
                Task::Ring(Box::new(Ring { now: args.proxy, then: None, options: args.options }))
            }
            Commands::Local(args) => Task::Local(args),
            Commands::Top(args) => Task::Top(args),
            Commands::Bench(args) => Task::Bench(args),
            Commands::Upgrade(args) => Task::Upgrade(args),
        }
    }
}

/// Arguments of `shardis check`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  shardis check /etc/shardis.toml && systemctl restart shardis
  shardis check new.toml --against=/etc/shardis.toml     what SIGHUP would do

The check listens nowhere, connects to no node and writes nothing. Exit code: 0 if the file is valid, 1 if not, 3 if a change
against the other file needs a restart (docs/configuration.md)")]
struct CheckArgs {
    /// Configuration file, as for shardis proxy --config
    #[arg(value_name = "FILE", required_unless_present = "config")]
    file: Option<PathBuf>,

    /// Configuration file, by the flag of shardis proxy
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "file")]
    config: Option<PathBuf>,

    /// Configuration file in use; the changes from it to FILE are shown, and whether each is live
    #[arg(long, value_name = "OLD")]
    against: Option<PathBuf>,
}

impl CheckArgs {
    /// The file, and the one that it would take the place of.
    fn files(self) -> (PathBuf, Option<PathBuf>) {
        (self.file.or(self.config).expect("clap sees to it that there is one"), self.against)
    }
}

/// Arguments of `shardis import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardis import /etc/nutcracker/nutcracker.yml > /etc/shardis.toml
  shardis proxy --config=/etc/nutcracker/nutcracker.yml

Files of twemproxy, dynomite, corvus, predixy, codis, nginx (stream) and haproxy (mode tcp) are known by their content. Options
that are not carried over are listed at the end. Exit code: 0 if shardis can serve the result, 1 if not (docs/import.md)")]
struct ImportArgs {
    /// Configuration file of the other program
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Arguments of `shardis explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardis explain --nodes=a:6379,b:6379 -- MGET user:1 user:2
  shardis explain --config=/etc/shardis.toml -- SUNIONSTORE to a b

The flags are those of shardis proxy; the request stands behind --. No node is connected to. With --cluster or --sentinel, who
owns a key is known to a shardis that runs: ask it with redis-cli PROXY EXPLAIN. Exit code: 0 if the request would be carried
out, 1 if it would be refused (docs/operator.md)")]
struct ExplainArgs {
    #[command(flatten)]
    proxy: Box<ProxyArgs>,

    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    request: Vec<OsString>,
}

/// Arguments of `shardis doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardis doctor --nodes=a:6379,b:6379
  shardis doctor --config=/etc/shardis.toml --json

The flags are those of shardis proxy. Nodes are only read: INFO, CONFIG GET, ACL WHOAMI and DRYRUN, TIME, PING, RANDOMKEY. Exit code:
0 if nothing is worse than a note, 3 for warnings, 4 for errors, 1 or 2 if nothing could be checked (docs/doctor.md)")]
struct DoctorArgs {
    #[command(flatten)]
    proxy: Box<ProxyArgs>,

    /// Findings as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `shardis ring`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardis ring --nodes=a:6379,b:6379
  redis-cli --scan | shardis ring --nodes=a:6379,b:6379 --keys-file=- --to=--nodes=a:6379,b:6379,c:6379
  shardis ring --config=/etc/shardis.toml --scan --sample=1000 --to='--distribution=ketama --hash=md5'

The other flags are those of shardis proxy. Without keys, 100,000 generated ones are looked at. Nodes are only read, and only by
--scan. Exit code: 0 for a report, 1 if keys cannot be read or a node cannot be asked, 2 for wrong flags (docs/ring.md)")]
struct RingArgs {
    #[command(flatten)]
    proxy: Box<ProxyArgs>,

    #[command(flatten)]
    options: RingOptions,
}

/// A look at one layout, or two.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The layout of now.
    pub now: Box<ProxyArgs>,
    /// The layout after a change.
    pub then: Option<Box<ProxyArgs>>,
    /// Which keys, and in which form.
    pub options: RingOptions,
}

/// Task of the process.
#[derive(Debug)]
pub(crate) enum Task {
    /// Serve clients.
    Serve(Box<Serving>),
    /// Check a configuration file, and compare it with another.
    Check(PathBuf, Option<PathBuf>),
    /// Print the configuration that a file of another program means.
    Import(PathBuf),
    /// Explain a request.
    Explain(Box<ProxyArgs>, Vec<OsString>),
    /// Ask all nodes, and print the findings, as JSON or text.
    Doctor(Box<ProxyArgs>, bool),
    /// Look at keys under one layout, or two.
    Ring(Box<Ring>),
    /// Start nodes.
    Local(LocalArgs),
    /// Show a running shardis.
    Top(TopArgs),
    /// Measure a server.
    Bench(Box<BenchArgs>),
    /// Upgrade a running shardis.
    Upgrade(UpgradeArgs),
    /// Run a program that ends with the one that starts it.
    DieWithParent(DieWithParentArgs),
    /// Write man pages and completions.
    Generate(GenerateArgs),
}

impl Task {
    /// With the effective settings, as they follow from `flags` of `shardis proxy`.
    fn with_settings(self, flags: &[OsString]) -> Task {
        match self {
            Task::Serve(serving) => {
                Task::Serve(Box::new(serving.with_settings(settings::settings(flags, &[]))))
            }
            task => task,
        }
    }
}

/// Reads the command line, and the configuration file that it names.
///
/// On `Err` the text is already printed. Help goes to stdout with exit code 0. A refusal goes to stderr in one line, with exit
/// code 2, or 1 for faults of a file.
pub(crate) fn parse() -> Result<Task, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match words.split_first() {
        Some((command, flags)) if command == "proxy" => match config::asked_for(flags) {
            Some(file) => serving_with_file(&file, flags).map(|serving| Task::Serve(Box::new(serving))),
            None => parse_words(&words).map(|task| task.with_settings(flags)),
        },
        Some((command, words_behind)) if command == "explain" => {
            let end = words_behind.iter().position(|word| word == "--").unwrap_or(words_behind.len());
            let (flags, request) = words_behind.split_at(end);
            match config::asked_for(flags) {
                Some(file) if request.len() > 1 => explain_with_file(&file, flags, &request[1..]),
                _ => parse_words(&words),
            }
        }
        Some((command, words_behind)) if command == "doctor" => {
            let (own, flags): (Vec<_>, Vec<_>) =
                words_behind.iter().cloned().partition(|word| word == "--json");
            match config::asked_for(&flags) {
                Some(file) => {
                    let proxy = proxy_with_file(&file, &flags, "doctor")?;
                    Ok(Task::Doctor(proxy, !own.is_empty()))
                }
                None => parse_words(&words),
            }
        }
        Some((command, words_behind)) if command == "ring" => parse_ring(&words, words_behind),
        Some((command, _)) if command == "bench" => parse_words(&with_address_last(&words)),
        Some((command, _)) if command == generate::GENERATE => {
            let parsed = generate::GenerateCli::try_parse_from(&words);
            parsed
                .map(|cli| Task::Generate(cli.args))
                .map_err(|error| refuse(&plainly(&error.to_string()), None))
        }
        Some((command, _)) if command == nutcracker::NUTCRACKER => nutcracker::parse(&words),
        Some((command, _)) if command == DIE_WITH_PARENT => {
            let parsed = DieWithParentCli::try_parse_from(&words);
            parsed
                .map(|cli| Task::DieWithParent(cli.args))
                .map_err(|error| refuse(&plainly(&error.to_string()), None))
        }
        _ => parse_words(&words),
    }
}

/// Reads `words` of `shardis ring`, which are `flags` behind its name, and both layouts.
fn parse_ring(words: &[OsString], flags: &[OsString]) -> Result<Task, ExitCode> {
    let divided = ring::Words::divide(flags);
    let file = config::asked_for(&divided.of_proxy);
    let Ring { now, options, .. } = match &file {
        Some(file) => {
            let options = RingOptions::parse(&divided.own);
            let options = options.map_err(|error| refuse(&plainly(&error.to_string()), Some("ring")))?;
            Ring { now: proxy_with_file(file, &divided.of_proxy, "ring")?, then: None, options }
        }
        None => match parse_words(words)? {
            Task::Ring(ring) => *ring,
            task => return Ok(task),
        },
    };
    let then = match (&options.to, &options.to_config) {
        (Some(flags), _) => {
            let words =
                ring::changed(&divided.of_proxy, flags).map_err(|error| refuse(&error, Some("ring")))?;
            match config::asked_for(&words) {
                Some(file) => Some(proxy_with_file(&file, &words, "ring")?),
                None => {
                    let args = ring::proxy_args(&words);
                    Some(args.map_err(|error| refuse(&format!("--to: {error}"), Some("ring")))?)
                }
            }
        }
        (None, Some(file)) => {
            let mut flag = OsString::from("--config=");
            flag.push(file);
            Some(proxy_with_file(file, &[flag], "ring")?)
        }
        (None, None) => None,
    };
    Ok(Task::Ring(Box::new(Ring { now, then, options })))
}

/// The same for `shardis explain` with a configuration file.
fn explain_with_file(file: &Path, flags: &[OsString], request: &[OsString]) -> Result<Task, ExitCode> {
    Ok(Task::Explain(proxy_with_file(file, flags, "explain")?, request.to_vec()))
}

/// The arguments of `shardis proxy` by a configuration file and `flags`, for another command.
fn proxy_with_file(file: &Path, flags: &[OsString], command: &str) -> Result<Box<ProxyArgs>, ExitCode> {
    let serving = serving_with_file(file, flags)?;
    serving.only_pool().map_err(|why| refuse(&why, Some(command)))
}

/// The same for `shardis proxy` with a configuration file. File and command line complete each other.
fn serving_with_file(file: &Path, flags: &[OsString]) -> Result<Serving, ExitCode> {
    config::load(file, flags, Depth::Start).map_err(|faults| {
        for line in faults.lines() {
            // A closed stderr is no reason to complain.
            let _ = writeln!(std::io::stderr(), "shardis: {line}");
        }
        ExitCode::FAILURE
    })
}

/// The words of `shardis bench` with the address of an HTTP target behind the flags, where clap wants it. Flags may follow it,
/// unlike the words of a Redis command.
fn with_address_last(words: &[OsString]) -> Vec<OsString> {
    let address = |words: &[OsString]| {
        let program = std::iter::once(OsString::from("shardis"));
        match Cli::try_parse_from(program.chain(words.iter().cloned())) {
            Ok(Cli { command: Commands::Bench(args) }) => args.url().map(OsString::from),
            _ => None,
        }
    };
    let mut rotated = words.to_vec();
    let found = address(words).and_then(|address| words.iter().position(|word| *word == address));
    if let Some(at) = found {
        rotated[at..].rotate_left(1);
    }
    // Words that are no flags behind the address are refused as they stand.
    if address(&rotated).is_some() { rotated } else { words.to_vec() }
}

fn parse_words(words: &[OsString]) -> Result<Task, ExitCode> {
    let program = std::iter::once(OsString::from("shardis"));
    match Cli::try_parse_from(program.chain(words.iter().cloned())) {
        Ok(Cli { command }) => match command.check() {
            Ok(()) => Ok(command.task()),
            Err(error) => Err(refuse(&error, Some(command.name()))),
        },
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // A closed stderr is no reason to complain either.
            let _ = error.print();
            Err(ExitCode::from(2))
        }
        Err(error) if !error.use_stderr() => {
            // A closed stdout is no error: help has no reader then.
            let _ = error.print();
            Err(ExitCode::SUCCESS)
        }
        Err(error) => {
            let named = words.first().and_then(|word| word.to_str());
            let named = named.filter(|name| Cli::command().find_subcommand(name).is_some());
            let text = explained(&error, named).unwrap_or_else(|| plainly(&error.to_string()));
            Err(refuse(&text, named))
        }
    }
}

/// An explanation of an unknown flag that is better than clap's, behind the subcommand `named` or without any.
fn explained(error: &clap::Error, named: Option<&str>) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = shown.split('=').next().unwrap_or(shown);
    let word = flag.strip_prefix("--")?;
    if named.is_some() {
        return rivals::advice(word).map(|advice| format!("{flag}: {advice}"));
    }
    let cli = Cli::command();
    let has_it = |command: &&clap::Command| {
        command.get_arguments().any(|arg| {
            arg.get_long() == Some(word) || arg.get_all_aliases().is_some_and(|names| names.contains(&word))
        })
    };
    let command = cli.get_subcommands().find(has_it).map_or("proxy", clap::Command::get_name);
    Some(format!("{flag}: flags stand behind a subcommand, as in shardis {command} {flag}"))
}

fn refuse(what: &str, command: Option<&str>) -> ExitCode {
    let command = command.map(|command| format!(" {command}")).unwrap_or_default();
    // A closed stderr is no reason to complain.
    let _ = writeln!(std::io::stderr(), "shardis: {what} (see shardis{command} --help)");
    ExitCode::from(2)
}

/// The message of clap in one line, without the usage, which --help shows better.
pub(crate) fn plainly(text: &str) -> String {
    let said = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    // A hint to pass a mistyped flag as a value would mislead.
    let said = said.filter(|line| !line.trim_start().starts_with("tip: to pass "));
    let words: Vec<&str> = said.flat_map(str::split_whitespace).collect();
    let line = words.join(" ").replace(" tip: ", "; ");
    let line = line.strip_prefix("error: ").map(str::to_owned).unwrap_or(line);
    // The standard library's words about numbers do not help to find a typing error.
    let line = NUMBERS.iter().fold(line, |line, (said, meant)| line.replace(said, meant));
    within_bounds(&line).unwrap_or(line)
}

/// `9 is not in 1..=5` as people say it, if that is what `line` ends with.
fn within_bounds(line: &str) -> Option<String> {
    let (before, bounds) = line.split_once(" is not in ")?;
    let (start, end) = bounds.split_once("..")?;
    let (start, end): (u64, u64) = (start.parse().ok()?, end.trim_start_matches('=').parse().ok()?);
    let before = before.rsplit_once(' ').map(|(before, _)| format!("{before} ")).unwrap_or_default();
    Some(match end >= u64::from(u32::MAX) {
        true => format!("{before}write a number, {start} at least"),
        false => format!("{before}write a number from {start} to {end}"),
    })
}

/// The levels of the log.
pub(crate) fn parse_level(text: &str) -> Result<tracing::Level, String> {
    text.parse().map_err(|_| "write error, warn, info or debug".to_owned())
}

/// Above this, a worker would never sleep.
const BUSY_POLL_MAX_US: u64 = 1_000_000;

/// Time for which a worker looks for events before it sleeps.
pub(crate) fn parse_busy_poll(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(us) if us <= BUSY_POLL_MAX_US => Ok(Duration::from_micros(us)),
        _ => Err(format!("write microseconds up to {BUSY_POLL_MAX_US}")),
    }
}

const NUMBERS: [(&str, &str); 3] = [
    ("invalid digit found in string", "write a number"),
    ("cannot parse integer from empty string", "write a number"),
    ("number too large to fit in target type", "the number is too large"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    /// Options of both whose values differ: only nodes to shard over have replicas and zones.
    const DIFFER: [&str; 1] = ["nodes"];

    fn shown(command: &clap::Command) -> impl Iterator<Item = &Arg> {
        command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_long().is_some())
    }

    fn hidden_names(command: &clap::Command) -> Vec<&str> {
        let aliases = command.get_arguments().filter_map(Arg::get_all_aliases).flatten();
        let visible = command.get_arguments().filter_map(Arg::get_visible_aliases).flatten();
        let visible: Vec<&str> = visible.collect();
        let hidden = command.get_arguments().filter(|arg| arg.is_hide_set()).filter_map(Arg::get_long);
        aliases.filter(|name| !visible.contains(name)).chain(hidden).collect()
    }

    #[test]
    fn refusals_of_unknown_flags_are_one_sentence() {
        let refusal = |words: &[&str]| {
            let error = Cli::command().try_get_matches_from(words).expect_err("the flag is unknown");
            plainly(&error.to_string())
        };
        let unlike = refusal(&["shardis", "check", "--pool=a", "p.toml"]);
        assert_eq!(unlike, "unexpected argument '--pool' found");
        let like = refusal(&["shardis", "check", "--agianst=a", "p.toml"]);
        assert_eq!(like, "unexpected argument '--agianst' found; a similar argument exists: '--against'");
    }

    #[test]
    fn an_option_has_one_name_and_one_help_in_all_subcommands() {
        let cli = Cli::command();
        let command = |name| cli.find_subcommand(name).expect("there is one");
        let (proxy, tcp) = (command("proxy"), command("tcp"));
        let mut common = 0;
        for arg in shown(tcp) {
            let name = arg.get_long().expect("all have one");
            assert!(!hidden_names(proxy).contains(&name), "shardis proxy shows another word for --{name}");
            let Some(other) = shown(proxy).find(|other| other.get_long() == Some(name)) else { continue };
            common += 1;
            let about = |arg: &Arg| format!("{:?} {:?}", arg.get_value_names(), arg.get_help());
            assert!(DIFFER.contains(&name) || about(arg) == about(other), "--{name} has two meanings");
        }
        assert!(common >= 14, "{common}");
        for arg in shown(proxy) {
            let name = arg.get_long().expect("all have one");
            assert!(!hidden_names(tcp).contains(&name) || name == "listener", "shardis tcp hides --{name}");
        }
    }

    #[test]
    fn former_words_of_subcommands_still_work() {
        let parsed = |words: &str| {
            let words = words.split_whitespace();
            match Cli::try_parse_from(std::iter::once("shardis").chain(words)).expect("valid").command {
                Commands::Tcp(args) => format!("{args:?} {:?}", args.listen_addr()),
                Commands::Proxy(args) => format!("{args:?}"),
                Commands::Check(args) => format!("{:?}", args.files()),
                Commands::Import(args) => format!("{:?}", args.file),
                Commands::Explain(args) => format!("{:?}", args.proxy),
                Commands::Doctor(args) => format!("{:?}", args.proxy),
                Commands::Ring(args) => format!("{:?}", args.proxy),
                Commands::Local(args) => format!("{args:?}"),
                Commands::Top(args) => format!("{args:?}"),
                Commands::Bench(args) => format!("{args:?}"),
                Commands::Upgrade(args) => format!("{args:?}"),
            }
        };
        let cases = [
            ("tcp --nodes=a:1 --idle-timeout=5", "tcp --nodes=a:1 --timeout=5"),
            ("tcp --nodes=a:1 --max-fails=5", "tcp --nodes=a:1 --node-failure-limit=5"),
            ("tcp --nodes=a:1 --SO_REUSEPORT=1", "tcp --nodes=a:1 --reuse-port"),
            ("proxy --SO_REUSEPORT", "proxy --reuse-port=1"),
            ("proxy --N=3", "proxy --workers=3"),
            ("proxy --coalesce=50", "proxy --batching=50"),
            ("proxy --ramp-up-ms=3", "proxy --slow-start-ms=3"),
            ("check --config=a.toml", "check a.toml"),
        ];
        for (former, word) in cases {
            assert_eq!(parsed(former), parsed(word), "{former}");
        }
        for word in ["listen", "listener"] {
            let addr = parsed(&format!("tcp --nodes=a:1 --{word}=127.0.0.2:7"));
            assert!(addr.ends_with("Ok(127.0.0.2:7)"), "{addr}");
        }
        assert!(parsed("tcp --nodes=a:1 --host=127.0.0.2 --port=7").ends_with("Ok(127.0.0.2:7)"));
        let both = ["shardis", "tcp", "--nodes=a:1", "--port=1", "--listen=127.0.0.1:7"];
        let refusal = Cli::try_parse_from(both).expect_err("two addresses for one listener");
        assert_eq!(refusal.kind(), ErrorKind::ArgumentConflict);
    }
}
