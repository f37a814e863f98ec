//! A session in the manner of redis-benchmark: one test after the other, each with a report on the standard output.

use crate::args::BenchArgs;
use crate::classic::{self, Settings};
use crate::cluster::Primary;
use crate::kinds::Kind;
use crate::plan::Pace;
use crate::prepare;
use crate::run::{Interrupt, Moment, Outcome, execute};
use crate::target::Server;
use crate::template::Literal;
use anyhow::Result;
use std::io::Write;
use std::process::ExitCode;

const NO_KEEP_ALIVE: &str = "WARNING: Keepalive disabled. You probably need 'echo 1 > /proc/sys/net/ipv4/tcp_tw_reuse' for \
    Linux and 'sudo sysctl -w net.inet.tcp.msl=1000' for Mac OS X in order to use a lot of clients/requests";

/// Runs all tests that `args` choose.
pub(crate) fn run(args: &BenchArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let server = Server::new(&args.server, args.load.enable_tracking)?;
    let mut session = Session::new(args, server)?;
    if args.load.keep_alive == 0 {
        warn(NO_KEEP_ALIVE);
    }
    if args.load.idle {
        return session.idle(interrupt);
    }
    if args.output.csv {
        print(classic::CSV_HEADER);
    }
    let words = prepare::words(args)?;
    loop {
        if words.is_empty() {
            session.tests(interrupt)?;
        } else {
            session.own(&words, interrupt)?;
        }
        if !args.output.looped || interrupt.is_set() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Prints at once. A reader that has gone is no error.
fn print(text: &str) {
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn warn(text: &str) {
    // A closed stderr is no reason to complain.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The server and the settings of all tests.
struct Session<'a> {
    args: &'a BenchArgs,
    server: Server,
    settings: Settings,
    threads: u32,
}

impl<'a> Session<'a> {
    fn new(args: &'a BenchArgs, server: Server) -> Result<Session<'a>> {
        let (server, primaries) = match args.load.cluster {
            true => server.into_cluster()?,
            false => (server, Vec::new()),
        };
        let is_cluster = args.load.cluster;
        let threads = args.load.threads.or(is_cluster.then_some(primaries.len() as u32));
        let settings = Settings {
            clients: args.load.clients,
            payload: args.load.sizes.max(),
            keep_alive: args.load.keep_alive,
            threads,
            precision: args.output.precision,
            configurations: configurations(&server, &primaries),
            is_cluster,
        };
        Ok(Session { args, server, settings, threads: threads.unwrap_or(1) })
    }

    /// Connections that do nothing, until the user interrupts.
    fn idle(&self, interrupt: &Interrupt) -> Result<ExitCode> {
        let clients = self.args.load.clients;
        print(&format!("Creating {clients} idle connections and waiting forever (Ctrl+C when done)\n"));
        let plan = prepare::classic(
            self.args,
            &self.server,
            Kind::named("ping", false).expect("a kind"),
            self.threads,
        );
        debug_assert_eq!(plan.pace, Pace::Idle);
        execute(plan, interrupt, &mut |_| print(&format!("clients: {clients}\r")))?;
        Ok(ExitCode::SUCCESS)
    }

    /// The tests of redis-benchmark.
    fn tests(&mut self, interrupt: &Interrupt) -> Result<()> {
        let load = &self.args.load;
        for kind in classic::tests(&load.tests, load.keyspace.is_some(), load.cluster) {
            self.test(kind, interrupt)?;
        }
        if !self.args.output.csv {
            print("\n");
        }
        Ok(())
    }

    /// The user's own command.
    fn own(&mut self, words: &[String], interrupt: &Interrupt) -> Result<()> {
        let load = &self.args.load;
        let literal = if load.keyspace.is_some() { Literal::Nothing } else { Literal::Numbers };
        let kind = prepare::own_kind(words, literal, load.cluster);
        let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let mut request = Vec::new();
        resp::encode::request(&mut request, &args);
        self.settings.payload = request.len();
        self.test(kind, interrupt)
    }

    fn test(&self, kind: Kind, interrupt: &Interrupt) -> Result<()> {
        let output = &self.args.output;
        let title = kind.name.clone();
        let plan = prepare::classic(self.args, &self.server, kind, self.threads);
        let mut line_len = 0;
        let outcome = execute(plan, interrupt, &mut |moment| {
            if !output.csv {
                let line = progress(&title, moment);
                print(&format!("{}{line}\r", classic::clean_line(line_len)));
                line_len = line.len() + 1;
            }
        });
        let outcome = outcome?;
        if !output.csv {
            print(&classic::clean_line(line_len));
        }
        print(&self.text(&title, &outcome));
        Ok(())
    }

    fn text(&self, title: &str, outcome: &Outcome) -> String {
        let output = &self.args.output;
        match () {
            () if output.csv => classic::csv(title, outcome, output.precision),
            () if output.quiet => classic::quiet(title, outcome, output.precision),
            () => classic::report(title, outcome, &self.settings),
        }
    }
}

fn progress(title: &str, moment: &Moment<'_>) -> String {
    let rate = |requests: u64, seconds: f64| requests as f64 / seconds.max(1e-9);
    let now = rate(moment.interval.counts.requests, moment.length.as_secs_f64());
    let overall = rate(moment.total.counts.requests, moment.at.unwrap_or_default().as_secs_f64());
    classic::progress(title, [now, overall], moment.interval, moment.total)
}

/// The settings of the server, or of each primary of a cluster, which is also printed.
fn configurations(server: &Server, primaries: &[Primary]) -> Vec<Option<[String; 2]>> {
    if primaries.is_empty() {
        let configuration = server.configuration();
        if configuration.is_none() {
            warn("WARNING: Could not fetch server CONFIG");
        }
        return vec![configuration];
    }
    print(&format!("Cluster has {} master nodes:\n\n", primaries.len()));
    let one = |(index, primary): (usize, &Primary)| {
        let address = format!("{}:{}", primary.host, primary.port);
        print(&format!("Master {index}: {} {address}\n", primary.id));
        let configuration = server.at(&address).ok().and_then(|server| server.configuration());
        if configuration.is_none() {
            warn(&format!("WARNING: Could not fetch node CONFIG {address}"));
        }
        configuration
    };
    let configurations = primaries.iter().enumerate().map(one).collect();
    print("\n");
    configurations
}
