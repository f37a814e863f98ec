//! The command line: what can be said, and how it is refused in one line.

mod discovery;
pub(crate) mod listener;
mod proxy;
mod serving;

use crate::leash::LeashArgs;
use crate::local::LocalArgs;
use crate::tcp::TcpArgs;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

pub(crate) use proxy::{ProxyArgs, parse_bytes};
pub(crate) use serving::Serving;

/// Many Redis nodes behind one endpoint.
#[derive(Debug, Parser)]
#[command(name = "shardis", version, disable_help_subcommand = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
enum Commands {
    /// Serve the keys of several nodes at one address
    Proxy(Box<ProxyArgs>),
    /// Start nodes on this machine, for tests and to play with
    Local(LocalArgs),
    /// Pass bytes to one of several nodes, without reading them
    Tcp(TcpArgs),
    /// Run a program that ends when another process does
    #[command(hide = true)]
    Leash(LeashArgs),
}

impl Commands {
    /// As it is written.
    fn name(&self) -> &'static str {
        match self {
            Commands::Proxy(_) => "proxy",
            Commands::Local(_) => "local",
            Commands::Tcp(_) => "tcp",
            Commands::Leash(_) => "leash",
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Commands::Proxy(args) => args.check(),
            Commands::Local(args) => args.check(),
            Commands::Tcp(args) => args.check(),
            Commands::Leash(_) => Ok(()),
        }
    }

    /// What comes of it.
    fn task(self) -> Task {
        match self {
            Commands::Proxy(args) => Task::Serve(Box::new(Serving::redis(*args))),
            Commands::Tcp(args) => Task::Serve(Box::new(Serving::tcp(args))),
            Commands::Local(args) => Task::Local(args),
            Commands::Leash(args) => Task::Leash(args),
        }
    }
}

/// What the process is for.
#[derive(Debug)]
pub(crate) enum Task {
    /// Serve clients.
    Serve(Box<Serving>),
    /// Start nodes.
    Local(LocalArgs),
    /// Run a program on a leash.
    Leash(LeashArgs),
}

/// Reads the command line. On `Err` everything was said already: help to stdout with exit code 0, a refusal in one
/// line to stderr with exit code 2.
pub(crate) fn parse() -> Result<Task, ExitCode> {
    match Cli::try_parse() {
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
            // A closed stdout is no reason to complain about help that nobody reads.
            let _ = error.print();
            Err(ExitCode::SUCCESS)
        }
        Err(error) => {
            let named = std::env::args().nth(1).filter(|name| Cli::command().find_subcommand(name).is_some());
            Err(refuse(&one_line(&error.to_string()), named.as_deref()))
        }
    }
}

fn refuse(what: &str, command: Option<&str>) -> ExitCode {
    let command = command.map(|command| format!(" {command}")).unwrap_or_default();
    // A closed stderr is no reason to complain.
    let _ = writeln!(std::io::stderr(), "shardis: {what} (see shardis{command} --help)");
    ExitCode::from(2)
}

/// What clap says over several lines, in one: up to the usage, which --help shows better.
fn one_line(text: &str) -> String {
    let said = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let words: Vec<&str> = said.flat_map(str::split_whitespace).collect();
    let line = words.join(" ");
    let line = line.strip_prefix("error: ").map(str::to_owned).unwrap_or(line);
    // What the standard library says of numbers is not for people who are looking for a slip of the finger.
    NUMBERS.iter().fold(line, |line, (said, meant)| line.replace(said, meant))
}

const NUMBERS: [(&str, &str); 3] = [
    ("invalid digit found in string", "write a number"),
    ("cannot parse integer from empty string", "write a number"),
    ("number too large to fit in target type", "the number is too large"),
];
