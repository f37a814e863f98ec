//! `shardis doctor`: the sockets of the interviews, and the report.

use crate::args::ProxyArgs;
use crate::resolver::look_up;
use crate::transport::NodeTls;
use crate::wall_clock::unix_us;
use crate::worker::{Clock, reason};
use anyhow::{Result, anyhow, bail};
use doctor::{Facts, Interview, Kind, Member, Roll, Setup, Severity, Source};
use driver::{Driver, Event, Target};
use proxy::{Credentials, Limits};
use rustix::process::{Resource, getrlimit};
use std::io::{self, Write};
use std::net::SocketAddr;
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
    if !args.has_nodes() {
        bail!("there are no nodes to ask: name them with --nodes, --cluster or --sentinel");
    }
    let mut round = Round::new(args)?;
    let (source, spec, members) = first_asked(args, round.tls.is_some()).map_err(|error| anyhow!(error))?;
    let setup = setup(args, source, spec);
    let mut roll = Roll::new(&members);
    round.talks.extend(members.into_iter().map(Talk::with));
    let facts = round.ask_all(&mut roll)?;
    let facts = roll.settle(facts);
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

/// The members that the flags name, with the flags' kind and the shards.
fn first_asked(args: &ProxyArgs, is_tls: bool) -> Result<(Source, TopologySpec, Vec<Member>), String> {
    let spec = args.spec()?;
    if args.discovery.is_given() {
        return args.discovery.first_asked(spec, is_tls);
    }
    let mut members = Vec::new();
    for (shard, primary) in spec.nodes.iter().enumerate() {
        let member = |place: &Address, is_replica| Member {
            shard,
            is_replica,
            ..Member::new(place.clone(), Kind::Node)
        };
        members.push(member(&primary.address, false));
        members.extend(primary.replicas.iter().map(|replica| member(&replica.address, true)));
    }
    Ok((Source::Nodes, spec, members))
}

fn setup(args: &ProxyArgs, source: Source, spec: TopologySpec) -> Setup {
    let huge_pages = std::fs::read_to_string(HUGE_PAGES).unwrap_or_default();
    Setup {
        spec,
        source,
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
    sentinel_credentials: Credentials,
    /// Whether sentinels speak TLS as nodes do.
    is_sentinel_tls: bool,
    talks: Vec<Talk>,
}

/// One of them.
struct Talk {
    place: Address,
    is_sentinel: bool,
    /// Whether the members that it names were taken over.
    is_read: bool,
    /// Addresses that were not tried.
    addrs: Vec<SocketAddr>,
    interview: Interview,
    unsent: Vec<u8>,
    heard_at: Instant,
}

impl Round {
    fn new(args: &ProxyArgs) -> Result<Round> {
        let certificates = args.transport.load().map_err(|error| anyhow!(error))?;
        Ok(Round {
            driver: Driver::new()?,
            clock: Clock::start(),
            tls: args.transport.node_tls(&certificates),
            credentials: args.credentials().map_err(|error| anyhow!(error))?,
            sentinel_credentials: args.discovery.sentinel_credentials().map_err(|error| anyhow!(error))?,
            is_sentinel_tls: args.discovery.sentinel_tls,
            talks: Vec::new(),
        })
    }

    /// The answers of all members, and of those that they name.
    fn ask_all(mut self, roll: &mut Roll) -> Result<Vec<Facts>> {
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
            self.ask_newcomers(roll);
        }
        Ok(self.talks.into_iter().map(|talk| talk.interview.into_facts()).collect())
    }

    /// Begins with the members that were named by others whose answers are complete.
    fn ask_newcomers(&mut self, roll: &mut Roll) {
        let mut newcomers = Vec::new();
        for talk in self.talks.iter_mut().filter(|talk| talk.interview.is_done() && !talk.is_read) {
            talk.is_read = true;
            newcomers.extend(roll.newcomers(talk.interview.facts()));
        }
        for member in newcomers {
            self.talks.push(Talk::with(member));
            self.begin(self.talks.len() - 1);
        }
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
                    let credentials =
                        if talk.is_sentinel { &self.sentinel_credentials } else { &self.credentials };
                    talk.unsent = talk.interview.begin(credentials.request(), now);
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
        match &talk.place {
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
        let is_tls = self.is_sentinel_tls || !talk.is_sentinel;
        let begun = match (self.tls.as_ref().filter(|_| is_tls), &talk.place) {
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
    fn with(member: Member) -> Talk {
        Talk {
            place: member.place.clone(),
            is_sentinel: member.is_sentinel(),
            is_read: false,
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
