//! `shardis doctor`: the sockets of the interviews, and the report.

use crate::args::ProxyArgs;
use crate::resolver::look_up;
use crate::transport::NodeTls;
use crate::wall_clock::unix_us;
use crate::worker::{Clock, reason};
use anyhow::{Result, anyhow, bail};
use doctor::{Facts, Interview, Member, Setup, Severity};
use driver::{Driver, Event, Target};
use proxy::{Credentials, Limits};
use rustix::process::{Resource, getrlimit};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;
use stdx::{Id, Instant};
use topology::{Address, TopologySpec};

/// A node that sends nothing for so long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// The time of a whole interview: a hundred PINGs at 200 ms and the rest.
const INTERVIEW_MAX: Duration = Duration::from_secs(30);
/// Linux tells here whether huge pages are always on.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Exit codes; 1 and 2 say that nothing could be checked.
const WARNINGS: u8 = 3;
const ERRORS: u8 = 4;

/// Asks all nodes and prints the findings.
pub(crate) fn run(args: &ProxyArgs, as_json: bool) -> Result<ExitCode> {
    if args.discovery.is_given() {
        bail!("the nodes of --cluster and --sentinel are not checked yet: name them with --nodes");
    }
    if !args.has_nodes() {
        bail!("there are no nodes to ask: name them with --nodes");
    }
    let spec = args.spec().map_err(|error| anyhow!(error))?;
    let setup = setup(args, spec);
    let facts = Round::new(args, &setup.spec)?.ask_all()?;
    let findings = doctor::findings(&setup, &facts);
    let text = if as_json { doctor::json(&findings, &facts)? } else { doctor::text(&findings, &facts) };
    // A closed stdout is no error: nobody reads.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(match findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Error) => ExitCode::from(ERRORS),
        Some(Severity::Warning) => ExitCode::from(WARNINGS),
        Some(Severity::Note) | None => ExitCode::SUCCESS,
    })
}

fn setup(args: &ProxyArgs, spec: TopologySpec) -> Setup {
    let huge_pages = std::fs::read_to_string(HUGE_PAGES).unwrap_or_default();
    Setup {
        spec,
        databases: args.databases(),
        clients_max: args.service.maxclients,
        conns_per_node: args.service.workers() * (1 + Limits::default().engine.pinned_clients_max),
        // shardis raises the soft limit itself.
        files_max: getrlimit(Resource::Nofile).maximum,
        has_huge_pages: huge_pages.contains("[always]"),
    }
}

/// The interviews with all nodes, at the same time.
struct Round {
    driver: Driver,
    clock: Clock,
    tls: Option<NodeTls>,
    credentials: Credentials,
    talks: Vec<Talk>,
}

/// One of them.
struct Talk {
    address: Address,
    /// Addresses that were not tried.
    addrs: Vec<SocketAddr>,
    interview: Interview,
    unsent: Vec<u8>,
    heard_at: Instant,
}

impl Round {
    fn new(args: &ProxyArgs, spec: &TopologySpec) -> Result<Round> {
        let certificates = args.transport.load().map_err(|error| anyhow!(error))?;
        let mut talks = Vec::new();
        for (shard, primary) in spec.nodes.iter().enumerate() {
            talks.push(Talk::with(&primary.address, shard, false));
            talks.extend(primary.replicas.iter().map(|replica| Talk::with(&replica.address, shard, true)));
        }
        Ok(Round {
            driver: Driver::new()?,
            clock: Clock::start(),
            tls: args.transport.node_tls(&certificates),
            credentials: args.credentials().map_err(|error| anyhow!(error))?,
            talks,
        })
    }

    /// The answers of all nodes.
    fn ask_all(mut self) -> Result<Vec<Facts>> {
        for at in 0..self.talks.len() {
            self.begin(at);
        }
        let end = self.clock.now() + INTERVIEW_MAX;
        while self.talks.iter().any(|talk| !talk.interview.is_done()) {
            self.driver.wait(SILENCE_MAX / 10)?;
            self.handle_events();
            let now = self.clock.now();
            for talk in &mut self.talks {
                if now >= end || now.since(talk.heard_at) > SILENCE_MAX {
                    talk.interview.fail("no answer in time");
                }
            }
        }
        Ok(self.talks.into_iter().map(|talk| talk.interview.into_facts()).collect())
    }

    fn handle_events(&mut self) {
        let mut writable = Vec::new();
        let mut failed = Vec::new();
        while let Some(event) = self.driver.next_event() {
            let now = self.clock.now();
            match event {
                Event::Connected(id) => {
                    let talk = &mut self.talks[id.index as usize];
                    talk.heard_at = now;
                    talk.unsent = talk.interview.begin(self.credentials.request(), now);
                    writable.push(id);
                }
                Event::Received(id, bytes) => {
                    let talk = &mut self.talks[id.index as usize];
                    talk.heard_at = now;
                    let requests = talk.interview.handle_bytes(bytes, now, unix_us());
                    talk.unsent.extend(requests);
                    writable.push(id);
                }
                Event::Writable(id) => writable.push(id),
                Event::Ended(id) => failed.push((id, "connection closed by the node".to_owned())),
                Event::Closed(id, error) => failed.push((id, reason(&error))),
            }
        }
        for id in writable {
            self.send(id);
        }
        for (id, reason) in failed {
            self.lose(id.index as usize, &reason);
        }
    }

    fn send(&mut self, id: Id) {
        let talk = &mut self.talks[id.index as usize];
        match self.driver.send(id, &talk.unsent) {
            Ok(sent) => drop(talk.unsent.drain(..sent)),
            Err(error) => talk.interview.fail(&reason(&error)),
        }
    }

    /// Looks the name up, and connects to its first address.
    fn begin(&mut self, at: usize) {
        let talk = &mut self.talks[at];
        talk.heard_at = self.clock.now();
        match &talk.address {
            Address::Tcp { host, port } => match look_up(host, *port) {
                Ok(addrs) => {
                    talk.addrs = addrs.into_iter().rev().collect();
                    self.connect_next(at, "no address");
                }
                Err(error) => talk.interview.fail(&error),
            },
            Address::Unix(path) => {
                let begun = self.driver.connect(id_of(at), &Target::Unix(path.clone()));
                self.check_begun(at, begun);
            }
            Address::Embedded(_) => talk.interview.fail("a store of this process is no node to ask"),
        }
    }

    /// Connects to the next address of the node, if there is one. Else the node has failed for `reason`.
    fn connect_next(&mut self, at: usize, reason: &str) {
        let talk = &mut self.talks[at];
        let Some(addr) = talk.addrs.pop() else { return talk.interview.fail(reason) };
        let begun = match (&self.tls, &talk.address) {
            (Some(tls), Address::Tcp { host, .. }) => {
                self.driver.connect_tls(id_of(at), addr, &tls.connector(), tls.name_of(host))
            }
            _ => self.driver.connect(id_of(at), &Target::Tcp(addr)),
        };
        self.check_begun(at, begun);
    }

    fn check_begun(&mut self, at: usize, begun: io::Result<()>) {
        if let Err(error) = begun {
            self.lose(at, &reason(&error));
        }
    }

    /// The connection is gone, or was not made.
    fn lose(&mut self, at: usize, reason: &str) {
        self.driver.close(id_of(at));
        if !self.talks[at].interview.is_done() {
            self.connect_next(at, reason);
        }
    }
}

impl Talk {
    fn with(address: &Address, shard: usize, is_replica: bool) -> Talk {
        let member = Member { address: address.to_string(), shard, is_replica, is_here: is_here(address) };
        Talk {
            address: address.clone(),
            addrs: Vec::new(),
            interview: Interview::new(member),
            unsent: Vec::new(),
            heard_at: Instant::ZERO,
        }
    }
}

fn id_of(at: usize) -> Id {
    Id { index: at as u32, generation: 0 }
}

fn is_here(address: &Address) -> bool {
    match address {
        Address::Tcp { host, .. } => {
            host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        Address::Unix(_) | Address::Embedded(_) => true,
    }
}
