//! `shardis nutcracker`: the flags of twemproxy's nutcracker 0.5.0, so that a start script works with the name exchanged.
//!
//! Exit codes are nutcracker's: 0, or 1 for a wrong flag or file. A daemon (`-d`) is a second shardis in a session of its own,
//! which the first one starts: a process with threads must not fork.

use super::{Serving, Task, VERSION, plainly, serving_with_file};
use crate::config::{self, Depth};
use clap::Parser;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// The command, as users write it.
pub(super) const NUTCRACKER: &str = "nutcracker";

/// The flag of the second process of `-d`.
const DETACHED: &str = "--detached";

/// Serve as twemproxy does by the same flags and file
#[derive(Debug, Parser)]
#[command(name = "shardis nutcracker", bin_name = "shardis nutcracker", version = VERSION, args_override_self = true, max_term_width = 100)]
#[command(after_help = "Example:
  shardis nutcracker -d -c /etc/nutcracker/nutcracker.yml -o /var/log/nutcracker.log -p /run/nutcracker.pid

SIGHUP opens the log again, and reads the file again. Exit code: 0, or 1 for a wrong flag or file (docs/migration.md)")]
struct NutcrackerArgs {
    /// Test of the configuration file; shardis ends after it
    #[arg(short = 't', long)]
    test_conf: bool,

    /// Daemon: shardis goes on in the background, and this process ends
    #[arg(short = 'd', long)]
    daemonize: bool,

    /// Description of the figures at the stats port; shardis ends after it
    #[arg(short = 'D', long)]
    describe_stats: bool,

    /// Log level from 0 to 11: up to 3 means error, 4 warn, 5 and 6 info, higher ones debug
    #[arg(short = 'v', long, value_name = "N", default_value_t = 5)]
    verbose: u32,

    /// Log file [default: stderr]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Configuration file
    #[arg(short = 'c', long, value_name = "FILE", default_value = "conf/nutcracker.yml")]
    conf_file: PathBuf,

    /// Port of the stats
    #[arg(short = 's', long, value_name = "PORT", default_value_t = 22222, value_parser = clap::value_parser!(u16).range(1..))]
    stats_port: u16,

    /// Address of the stats
    #[arg(short = 'a', long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    stats_addr: String,

    /// Interval of the stats, which has no effect: figures are up to a second old
    #[arg(short = 'i', long, value_name = "MS")]
    stats_interval: Option<u32>,

    /// File for the number of the process, removed at its end [default: none]
    #[arg(short = 'p', long, value_name = "FILE")]
    pid_file: Option<PathBuf>,

    /// Size of nutcracker's buffers, which has no effect
    #[arg(short = 'm', long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(512..=16_777_216))]
    mbuf_size: Option<u32>,

    /// Mark of the second process
    #[arg(long, hide = true)]
    detached: bool,
}

/// Reads `words`, the name of the command and its flags.
pub(super) fn parse(words: &[OsString]) -> Result<Task, ExitCode> {
    let args = NutcrackerArgs::try_parse_from(words).map_err(|error| {
        if error.use_stderr() {
            return refuse(&plainly(&error.to_string()));
        }
        // A closed stdout is no error: help has no reader then.
        let _ = error.print();
        ExitCode::SUCCESS
    })?;
    if args.describe_stats {
        // The same holds here.
        let _ = std::io::stdout().write_all(STATS.as_bytes());
        return Err(ExitCode::SUCCESS);
    }
    if args.test_conf {
        return Err(args.test());
    }
    let serving = args.serving()?;
    if args.daemonize && !args.detached {
        return Err(args.start_daemon(words));
    }
    if args.detached {
        // This fails only for a process that leads a session already.
        let _ = rustix::process::setsid();
    }
    Ok(Task::Serve(Box::new(serving)))
}

impl NutcrackerArgs {
    /// Tests the file, and says the result in nutcracker's words.
    fn test(&self) -> ExitCode {
        let (text, result, exit) = match config::load(&self.conf_file, &[], Depth::Check) {
            Ok(serving) => (config::summary(&serving), "ok", ExitCode::SUCCESS),
            Err(faults) => (faults.to_string(), "invalid", ExitCode::FAILURE),
        };
        let file = self.conf_file.display();
        // A closed stderr is no reason to fail.
        let _ =
            writeln!(std::io::stderr(), "{text}\nshardis: configuration file '{file}' syntax is {result}");
        exit
    }

    fn serving(&self) -> Result<Serving, ExitCode> {
        let found = (self.stats_addr.as_str(), self.stats_port).to_socket_addrs().ok();
        let Some(stats) = found.and_then(|mut addrs| addrs.next()) else {
            return Err(refuse(&format!("-a {}: no such address of this machine", self.stats_addr)));
        };
        let flags = [format!("--nutcracker-stats={stats}"), format!("--log-level={}", self.log_level())];
        let mut serving = serving_with_file(&self.conf_file, &flags.map(OsString::from))?;
        serving.left_out.extend(self.left_out());
        serving.files.log.clone_from(&self.output);
        serving.files.pid.clone_from(&self.pid_file);
        Ok(serving)
    }

    fn log_level(&self) -> &'static str {
        match self.verbose {
            0..=3 => "error",
            4 => "warn",
            5..=6 => "info",
            _ => "debug",
        }
    }

    /// Flags without effect, each with the reason.
    fn left_out(&self) -> Vec<String> {
        let interval = self.stats_interval.map(|ms| format!("-i {ms}: figures are up to a second old"));
        let size = self.mbuf_size.map(|bytes| format!("-m {bytes}: shardis sizes its buffers itself"));
        interval.into_iter().chain(size).collect()
    }

    /// Starts the second process, whose first errors go to the log as well.
    fn start_daemon(&self, words: &[OsString]) -> ExitCode {
        let start = || {
            let errors = match &self.output {
                Some(path) => File::options().append(true).create(true).open(path)?.into(),
                None => Stdio::null(),
            };
            let mut command = Command::new(std::env::current_exe()?);
            command.args(words).arg(DETACHED).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
            command.spawn()
        };
        match start() {
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => refuse(&format!("-d: the background process cannot be started: {error}")),
        }
    }
}

fn refuse(text: &str) -> ExitCode {
    // A closed stderr is no reason to complain.
    let _ = writeln!(std::io::stderr(), "shardis: {text} (see shardis nutcracker --help)");
    ExitCode::FAILURE
}

/// The figures as `-D` prints them.
const STATS: &str = "\
pool stats:
  client_eof          \"# client connections that clients ended\"
  client_err          \"# client connections that shardis ended for a fault of the client\"
  client_connections  \"# active client connections\"
  server_ejects       \"# times a worker ejected a server\"
  forward_error       \"# requests that could not be sent to a server\"
  fragments           \"# fragments created from a multi-vector request\"

server stats:
  server_eof          \"0: see server_err\"
  server_err          \"# server connections that were lost or could not be opened\"
  server_timedout     \"0: not counted by server\"
  server_connections  \"# active server connections\"
  server_ejected_at   \"0: not known\"
  requests            \"# requests, with those of shardis itself\"
  request_bytes       \"total request bytes\"
  responses           \"# responses\"
  response_bytes      \"total response bytes\"
  in_queue            \"0: see out_queue\"
  in_queue_bytes      \"current request bytes in incoming queue\"
  out_queue           \"# requests without a response, sent or not\"
  out_queue_bytes     \"0: not known\"
";

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &str) -> NutcrackerArgs {
        let words = std::iter::once(NUTCRACKER).chain(words.split_whitespace());
        NutcrackerArgs::try_parse_from(words).expect(NUTCRACKER)
    }

    #[test]
    fn levels_of_nutcracker_have_the_nearest_level() {
        for (level, name) in
            [(0, "error"), (3, "error"), (4, "warn"), (5, "info"), (7, "debug"), (11, "debug")]
        {
            assert_eq!(args(&format!("-v {level}")).log_level(), name, "{level}");
        }
        assert_eq!(args("").log_level(), "info");
    }

    #[test]
    fn flags_without_effect_are_named_if_they_are_given() {
        assert!(args("-d -c a -s 1 -a ::1").left_out().is_empty());
        let left_out = args("-i 100 --mbuf-size=512").left_out().join(",");
        assert_eq!(
            left_out,
            "-i 100: figures are up to a second old,-m 512: shardis sizes its buffers itself"
        );
    }

    #[test]
    fn the_last_of_two_equal_flags_holds() {
        assert_eq!(args("-s 1 -s 2 -v 1 -v 9").stats_port, 2);
        assert!(NutcrackerArgs::try_parse_from([NUTCRACKER, "-m", "511"]).is_err());
    }
}
