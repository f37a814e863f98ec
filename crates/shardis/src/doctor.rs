//! `shardis doctor`: the interviews, and the report. `asking.rs` has the sockets.

use crate::args::ProxyArgs;
use crate::asking::{Conversation, Round};
use crate::wall_clock::unix_us;
use anyhow::{Result, anyhow, bail};
use doctor::{Facts, Interview, Kind, Member, Roll, Setup, Severity, Source};
use proxy::Limits;
use rustix::process::{Resource, getrlimit};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;
use stdx::Instant;
use topology::{Address, TopologySpec};

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
    let (source, spec, members) = first_asked(args).map_err(|error| anyhow!(error))?;
    let setup = setup(args, source, spec);
    let mut roll = Roll::new(&members);
    let talks = members.into_iter().map(talk).collect();
    let named = |done: &Talk| roll.newcomers(done.interview.facts()).into_iter().map(talk).collect();
    let talks = Round::new(args, talks)?.ask_all(Some(INTERVIEW_MAX), named)?;
    let facts: Vec<Facts> = talks.into_iter().map(|talk| talk.interview.into_facts()).collect();
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
fn first_asked(args: &ProxyArgs) -> Result<(Source, TopologySpec, Vec<Member>), String> {
    let spec = args.spec()?;
    if args.discovery.is_given() {
        return args.discovery.first_asked(spec, args.transport.node_tls);
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

/// An interview, which needs the time of day.
struct Talk {
    is_sentinel: bool,
    interview: Interview,
}

fn talk(member: Member) -> (Address, Talk) {
    let (place, is_sentinel) = (member.place.clone(), member.is_sentinel());
    (place, Talk { is_sentinel, interview: Interview::new(member) })
}

impl Conversation for Talk {
    fn begin(&mut self, auth: Option<&[u8]>, now: Instant) -> Vec<u8> {
        self.interview.begin(auth, now)
    }

    fn handle_bytes(&mut self, bytes: &[u8], now: Instant) -> Vec<u8> {
        self.interview.handle_bytes(bytes, now, unix_us())
    }

    fn fail(&mut self, reason: &str) {
        self.interview.fail(reason);
    }

    fn is_done(&self) -> bool {
        self.interview.is_done()
    }

    fn may_begin_again(&self) -> bool {
        true
    }

    fn is_with_sentinel(&self) -> bool {
        self.is_sentinel
    }
}
