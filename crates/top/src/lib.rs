//! `shardis top`: the state of a running shardis in a terminal, from its admin listener.
//!
//! ```text
//!     ask.rs (thread) ─► Sample ─► figures.rs: rates ─► state.rs ◄─ keys        once.rs ◄─ figures.rs
//!                                                          └─► table.rs, detail.rs ─► rows.rs, draw.rs ─► terminal.rs
//! ```
//!
//! Begin with [`TopArgs`] and `state.rs`, the state of the screen. All but `ask.rs` and `terminal.rs` is pure: samples and keys go
//! in, figures and lines come out. Text of the server is a `sample::Shown`, which no control character leaves.
//!
//! **Must not know** the proxy's insides: it sees the answers of the admin listener and nothing else. It changes nothing there.

#![expect(clippy::disallowed_methods, reason = "a thread asks while another draws; both wait")]

mod ask;
mod detail;
mod draw;
mod figures;
mod format;
mod once;
mod palette;
mod rows;
mod sample;
mod state;
mod table;
mod terminal;
#[cfg(test)]
mod testing;
mod tls;
mod view;

use admin::{Place, read_token};
use anyhow::{Result, anyhow};
use ask::Asker;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;
use tls::TlsArgs;
use view::View;

/// Seconds between two looks, and those of the only rates that `--once` prints: the workers publish once a second.
const INTERVAL_S: f64 = 1.0;
const INTERVAL_ONCE_S: f64 = 4.0;

/// The arguments of `shardis top`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  shardis top                                  the shardis of this machine that runs with --admin=9121
  shardis top 10.0.0.7:9121 --token-file=token another one
  shardis top --once --json | jq .totals       for scripts

The keys are shown with ?. docs/top.md has the fields of the JSON.")]
pub struct TopArgs {
    /// Address of the admin listener: a port of the loopback interface, host:port or unix:/path
    #[arg(value_name = "ADDRESS", default_value = "9121", value_parser = Place::from_str)]
    address: Place,

    /// Pool to show, where the admin listener is that of several; the first without it
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,

    /// File with the token of the admin listener in its first line, as for shardis proxy --admin-token-file
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    tls: TlsArgs,

    /// Seconds between two looks, from 0.1 to 3600 [default: 1; 4 with --once]
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    interval: Option<Duration>,

    /// Two looks one interval apart; then the figures as plain text, and the end
    #[arg(long)]
    once: bool,

    /// Figures as one line of JSON
    #[arg(long, requires = "once")]
    json: bool,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds from 0.1 to 3600".to_owned()),
    }
}

impl TopArgs {
    fn interval(&self) -> Duration {
        let default_s = if self.once { INTERVAL_ONCE_S } else { INTERVAL_S };
        self.interval.unwrap_or(Duration::from_secs_f64(default_s))
    }

    fn token(&self) -> Result<Option<String>> {
        let read = |path: &PathBuf| read_token("--token-file", path).map_err(|error| anyhow!(error));
        self.token_file.as_ref().map(read).transpose()
    }
}

/// Shows the state until `q` is pressed, or once.
pub fn run(args: &TopArgs) -> Result<ExitCode> {
    let asker = Asker::new(args.address.clone(), args.tls.load()?, args.token()?, args.pool.clone())?;
    match args.once {
        true => run_once(&asker, args),
        false => terminal::run(asker, args.interval()),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn run_once(asker: &Asker, args: &TopArgs) -> Result<()> {
    let mut window = figures::Window::default();
    window.take(asker.sample(&[])?.status);
    // tidy: allow(sleep): rates need time between two looks
    std::thread::sleep(args.interval());
    let views: &[View] = if args.json { &View::ALL } else { &once::VIEWS };
    let sample = asker.sample(views)?;
    let figures = window.take(sample.status);
    let text =
        if args.json { once::json(&figures, &sample.lists)? } else { once::text(&figures, &sample.lists) };
    // A reader that has seen enough is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}
