//! INFO and CONFIG GET: what is true of the proxy, in Redis's words and sections.
//!
//! Some sections are about the data and not about us: their figures are asked of all nodes at once, and the reply waits
//! for them. A node that does not answer is shown as down and left out of the sums.

use crate::backend::State;
use crate::core::Core;
use crate::counters::{Counters, Usage};
use crate::errors;
use crate::login::passing::is_denial;
use crate::replies::Outcome;
use crate::session::Session;
use crate::tally::{ReadRow, Tally};
use command::Topic;
use resp::{Request, encode, reply};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::str::FromStr;
use std::sync::Arc;
use topology::ShardId;

/// The Redis whose commands we have; libraries choose their own by it.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// What is asked of nodes: all of their default sections, for nodes before 7.0 take one name at most.
const QUESTION: &[u8] = b"*1\r\n$4\r\nINFO\r\n";

/// What a report is written from.
struct Facts<'a> {
    core: &'a Core,
    /// Over all workers, as these two.
    counters: Counters,
    tally: Tally,
    usage: Usage,
    survey: &'a Survey,
}

/// One section of the report.
struct Section {
    /// As it is shown; in lower case as it is asked for.
    title: &'static str,
    /// When it is shown without being named.
    shown: Shown,
    /// Whether nodes are asked for it.
    asks_nodes: bool,
    /// Writes its lines.
    write: fn(&Facts<'_>, &mut String),
}

/// When a section is shown without being named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// By `default`, `all` and `everything`.
    ByDefault,
    /// By `all` and `everything`.
    WithAll,
    /// By `default` and `everything`: Redis's rule for modules.
    NotWithAll,
}

/// The sections in Redis's order; the last is ours.
const SECTIONS: [Section; 13] = [
    Section { title: "Server", shown: Shown::ByDefault, asks_nodes: false, write: server },
    Section { title: "Clients", shown: Shown::ByDefault, asks_nodes: false, write: clients },
    Section { title: "Memory", shown: Shown::ByDefault, asks_nodes: true, write: memory },
    Section { title: "Persistence", shown: Shown::ByDefault, asks_nodes: true, write: persistence },
    Section { title: "Stats", shown: Shown::ByDefault, asks_nodes: true, write: stats },
    Section { title: "Replication", shown: Shown::ByDefault, asks_nodes: false, write: replication },
    Section { title: "CPU", shown: Shown::ByDefault, asks_nodes: false, write: cpu },
    Section { title: "Modules", shown: Shown::NotWithAll, asks_nodes: false, write: |_, _| {} },
    Section { title: "Commandstats", shown: Shown::WithAll, asks_nodes: false, write: commandstats },
    Section { title: "Errorstats", shown: Shown::ByDefault, asks_nodes: false, write: errorstats },
    Section { title: "Cluster", shown: Shown::ByDefault, asks_nodes: false, write: cluster },
    Section { title: "Keyspace", shown: Shown::ByDefault, asks_nodes: true, write: keyspace },
    Section { title: "Nodes", shown: Shown::ByDefault, asks_nodes: true, write: nodes },
];

/// How the nodes' figures become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    /// What is spread over the nodes.
    Sum,
    /// What all have alike, or what is true if it is true of one.
    Largest,
}

/// Figures that nodes tell and that only have to be put together, by section.
const COMBINED: [(&str, &str, Combine); 25] = [
    ("Memory", "used_memory_lua", Combine::Sum),
    ("Memory", "used_memory_scripts", Combine::Sum),
    ("Memory", "number_of_cached_scripts", Combine::Largest),
    ("Memory", "number_of_functions", Combine::Largest),
    ("Memory", "number_of_libraries", Combine::Largest),
    ("Memory", "mem_not_counted_for_evict", Combine::Sum),
    ("Memory", "mem_clients_normal", Combine::Sum),
    ("Memory", "lazyfree_pending_objects", Combine::Sum),
    ("Memory", "lazyfreed_objects", Combine::Sum),
    ("Persistence", "loading", Combine::Largest),
    ("Persistence", "async_loading", Combine::Largest),
    ("Persistence", "rdb_changes_since_last_save", Combine::Sum),
    ("Persistence", "rdb_bgsave_in_progress", Combine::Largest),
    ("Persistence", "rdb_saves", Combine::Sum),
    ("Persistence", "aof_enabled", Combine::Largest),
    ("Persistence", "aof_rewrite_in_progress", Combine::Largest),
    ("Stats", "expired_keys", Combine::Sum),
    ("Stats", "evicted_keys", Combine::Sum),
    ("Stats", "keyspace_hits", Combine::Sum),
    ("Stats", "keyspace_misses", Combine::Sum),
    ("Stats", "total_forks", Combine::Sum),
    ("Stats", "migrate_cached_sockets", Combine::Sum),
    ("Stats", "unexpected_error_replies", Combine::Sum),
    ("Stats", "dump_payload_sanitizations", Combine::Sum),
    ("Stats", "total_active_defrag_time", Combine::Sum),
];

/// Which sections are shown: a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted(u16);

impl Wanted {
    /// As INFO's arguments say, by Redis's rules. Unknown names name nothing.
    fn of<'a>(names: impl Iterator<Item = &'a [u8]>) -> Wanted {
        let mut names = names.peekable();
        if names.peek().is_none() {
            return Wanted::those(|section| section.shown != Shown::WithAll);
        }
        names.fold(Wanted(0), |wanted, name| Wanted(wanted.0 | Wanted::named(name).0))
    }

    fn named(name: &[u8]) -> Wanted {
        match name.to_ascii_lowercase().as_slice() {
            b"default" => Wanted::those(|section| section.shown != Shown::WithAll),
            b"all" => Wanted::those(|section| section.shown != Shown::NotWithAll),
            b"everything" => Wanted::those(|_| true),
            b"module_list" => Wanted::those(|section| section.title == "Modules"),
            name => Wanted::those(|section| section.title.as_bytes().eq_ignore_ascii_case(name)),
        }
    }

    fn those(is_wanted: impl Fn(&Section) -> bool) -> Wanted {
        let bits = SECTIONS.iter().enumerate().map(|(at, section)| u16::from(is_wanted(section)) << at);
        Wanted(bits.sum())
    }

    fn sections(self) -> impl Iterator<Item = &'static Section> {
        SECTIONS.iter().enumerate().filter(move |(at, _)| self.0 >> at & 1 == 1).map(|(_, section)| section)
    }
}

/// What was asked, and what the nodes said.
#[derive(Debug)]
pub(crate) struct Survey {
    wanted: Wanted,
    /// By shard.
    nodes: Vec<Word>,
}

/// What one node said of itself.
#[derive(Clone, Debug, PartialEq)]
enum Word {
    /// It was not asked, or has not answered.
    None,
    /// This.
    Figures(Box<Figures>),
    /// It does not want to say: an error.
    Refused(String),
    /// Nothing, and why.
    Down(String),
}

/// Figures of one node.
#[derive(Clone, Debug, Default, PartialEq)]
struct Figures {
    version: String,
    role: String,
    used_memory: u64,
    used_memory_rss: u64,
    used_memory_peak: u64,
    maxmemory: u64,
    maxmemory_policy: String,
    mem_allocator: String,
    ops_per_sec: u64,
    /// By database.
    keyspace: BTreeMap<u32, KeyCounts>,
    /// Those of [`COMBINED`]; a node that does not have one counts as 0.
    combined: [u64; COMBINED.len()],
}

impl Figures {
    fn parse(text: &str) -> Box<Figures> {
        let mut figures = Box::<Figures>::default();
        for line in text.lines() {
            let Some((field, value)) = line.split_once(':') else { continue };
            match field {
                "redis_version" => figures.version = value.to_owned(),
                "role" => figures.role = value.to_owned(),
                "used_memory" => figures.used_memory = number(value),
                "used_memory_rss" => figures.used_memory_rss = number(value),
                "used_memory_peak" => figures.used_memory_peak = number(value),
                "maxmemory" => figures.maxmemory = number(value),
                "maxmemory_policy" => figures.maxmemory_policy = value.to_owned(),
                "mem_allocator" => figures.mem_allocator = value.to_owned(),
                "instantaneous_ops_per_sec" => figures.ops_per_sec = number(value),
                field => {
                    if let Some(database) = field.strip_prefix("db").and_then(|index| index.parse().ok()) {
                        figures.keyspace.insert(database, KeyCounts::parse(value));
                    } else if let Some(at) = COMBINED.iter().position(|(_, name, _)| *name == field) {
                        figures.combined[at] = number(value);
                    }
                }
            }
        }
        figures
    }

    /// Keys of all databases.
    fn keys(&self) -> u64 {
        self.keyspace.values().map(|counts| counts.keys).fold(0, u64::saturating_add)
    }
}

/// What one node tells of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct KeyCounts {
    keys: u64,
    expires: u64,
    avg_ttl: u64,
}

impl KeyCounts {
    /// `keys=1,expires=0,avg_ttl=0`
    fn parse(text: &str) -> KeyCounts {
        let mut counts = KeyCounts::default();
        for pair in text.split(',') {
            match pair.split_once('=') {
                Some(("keys", value)) => counts.keys = number(value),
                Some(("expires", value)) => counts.expires = number(value),
                Some(("avg_ttl", value)) => counts.avg_ttl = number(value),
                _ => {}
            }
        }
        counts
    }

    /// Those of both together: the mean is weighed by the keys that have a time to live.
    fn plus(self, other: KeyCounts) -> KeyCounts {
        let expires = self.expires.saturating_add(other.expires);
        let weigh = |counts: KeyCounts| u128::from(counts.avg_ttl) * u128::from(counts.expires);
        let avg_ttl = (weigh(self) + weigh(other)) / u128::from(expires.max(1));
        KeyCounts { keys: self.keys.saturating_add(other.keys), expires, avg_ttl: avg_ttl as u64 }
    }
}

/// What is no number counts as its zero: a figure that cannot be had is no reason to have none.
fn number<T: FromStr + Default>(text: &str) -> T {
    text.parse().unwrap_or_default()
}

impl Survey {
    /// The answer of `shard`, or why there is none.
    pub(crate) fn absorb(&mut self, shard: ShardId, outcome: &Outcome<'_>) {
        self.nodes[shard.0 as usize] = match outcome {
            Outcome::Reply(bytes) => match reply::as_bulk(bytes) {
                Some(text) => Word::Figures(Figures::parse(&String::from_utf8_lossy(text))),
                None => {
                    Word::Refused(String::from_utf8_lossy(bytes).trim_matches(['-', '\r', '\n']).to_owned())
                }
            },
            Outcome::Lost(lost) => Word::Down(lost.reason()),
        };
    }

    /// What a node has against who asks.
    fn denial(&self) -> Option<&str> {
        let errors = self.nodes.iter().filter_map(|word| match word {
            Word::Refused(error) | Word::Down(error) => Some(error.as_str()),
            Word::None | Word::Figures(_) => None,
        });
        errors.into_iter().find(|error| is_denial(error))
    }

    fn figures(&self) -> impl Iterator<Item = &Figures> + Clone {
        self.nodes.iter().filter_map(|word| match word {
            Word::Figures(figures) => Some(&**figures),
            _ => None,
        })
    }

    fn sum(&self, figure: impl Fn(&Figures) -> u64) -> u64 {
        self.figures().map(figure).fold(0, u64::saturating_add)
    }

    /// Appends what is put together of the nodes' figures in the section `title`.
    fn write_combined(&self, title: &str, text: &mut String) {
        for (at, (section, field, combine)) in COMBINED.iter().enumerate() {
            if *section == title {
                let figure = match combine {
                    Combine::Sum => self.sum(|figures| figures.combined[at]),
                    Combine::Largest => self.figures().map(|figures| figures.combined[at]).max().unwrap_or(0),
                };
                push(text, format_args!("{field}:{figure}"));
            }
        }
    }

    /// The word that all nodes say; `mixed` if they differ.
    fn common(&self, word: impl Fn(&Figures) -> &str, unknown: &'static str) -> &str {
        let mut words = self.figures().map(word).filter(|word| !word.is_empty());
        let Some(first) = words.next() else { return unknown };
        if words.all(|word| word == first) { first } else { "mixed" }
    }
}

impl Core {
    /// INFO: answers in `reply`, or asks the nodes first and leaves it empty.
    pub(crate) fn info(&mut self, session: &mut Session, request: &Request<'_>, reply: &mut Vec<u8>) {
        let wanted = Wanted::of(request.args().skip(1));
        let mut survey = Survey { wanted, nodes: vec![Word::None; self.topology.shard_count()] };
        let mut shards = Vec::new();
        // Where nodes decide who may ask for it, they are asked.
        if self.has_users_of_nodes() || wanted.sections().any(|section| section.asks_nodes) {
            let lane = self.plain_lane(session);
            for shard in Arc::clone(&self.topology).all_shards() {
                match self.shared_node(lane, shard) {
                    Ok(node) => shards.push((shard, node)),
                    Err(lost) => survey.nodes[shard.0 as usize] = Word::Down(lost.reason()),
                }
            }
        }
        if shards.is_empty() {
            return self.write_survey(&survey, session.resp3, reply);
        }
        self.ask_shards(session, QUESTION, &shards, survey);
    }

    /// Writes the report, or why a node does not want the client to have it.
    pub(crate) fn write_survey(&mut self, survey: &Survey, resp3: bool, reply: &mut Vec<u8>) {
        match survey.denial().filter(|_| self.has_users_of_nodes()) {
            Some(error) => errors::write(reply, error),
            None => self.write_info(survey, resp3, reply),
        }
    }

    /// Writes the report over all workers; the section `Nodes` is the view of the worker that answers.
    fn write_info(&mut self, survey: &Survey, resp3: bool, reply: &mut Vec<u8>) {
        self.publish();
        let (counters, tally) = (self.board.sum(), self.board.tally());
        let facts = Facts { core: self, counters, tally, usage: self.board.usage(), survey };
        let mut text = String::new();
        for section in survey.wanted.sections() {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            push(&mut text, format_args!("# {}", section.title));
            (section.write)(&facts, &mut text);
        }
        encode::verbatim(reply, text.as_bytes(), resp3);
    }
}

/// Appends a line.
fn push(text: &mut String, line: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{line}\r\n");
}

fn server(facts: &Facts<'_>, text: &mut String) {
    let core = facts.core;
    let uptime_s = core.now.since(core.started_at).as_secs();
    push(text, format_args!("redis_version:{REDIS_VERSION}"));
    push(text, format_args!("redis_git_sha1:00000000"));
    push(text, format_args!("redis_git_dirty:0"));
    push(text, format_args!("redis_build_id:0000000000000000"));
    push(text, format_args!("redis_mode:standalone"));
    push(text, format_args!("shardis_version:{}", env!("CARGO_PKG_VERSION")));
    push(text, format_args!("os:{} {}", std::env::consts::OS, std::env::consts::ARCH));
    push(text, format_args!("arch_bits:{}", usize::BITS));
    push(text, format_args!("process_id:{}", core.settings.process_id));
    push(text, format_args!("process_supervised:no"));
    push(text, format_args!("run_id:{}", core.run_id));
    push(text, format_args!("tcp_port:{}", core.settings.port));
    push(text, format_args!("server_time_usec:{}", core.unix_time_us()));
    push(text, format_args!("workers:{}", core.settings.workers));
    push(text, format_args!("uptime_in_seconds:{uptime_s}"));
    push(text, format_args!("uptime_in_days:{}", uptime_s / 86_400));
    push(text, format_args!("executable:"));
    push(text, format_args!("config_file:"));
}

fn clients(facts: &Facts<'_>, text: &mut String) {
    let core = facts.core;
    push(text, format_args!("connected_clients:{}", facts.counters.clients));
    push(text, format_args!("cluster_connections:0"));
    push(text, format_args!("maxclients:{}", core.limits.clients_max));
    push(text, format_args!("blocked_clients:{}", facts.counters.clients_blocked));
    push(text, format_args!("tracking_clients:{}", facts.counters.trackers));
    push(text, format_args!("pubsub_clients:{}", facts.counters.subscribers));
}

/// The data's memory; beside it our own. Where no node tells what it takes of the machine (the stores of this process
/// do not), that is what this process takes.
fn memory(facts: &Facts<'_>, text: &mut String) {
    let survey = facts.survey;
    let used = survey.sum(|figures| figures.used_memory);
    // Stores of this process do not tell: it was that much at least.
    let peak = survey.sum(|figures| figures.used_memory_peak).max(used);
    let resident = match survey.sum(|figures| figures.used_memory_rss) {
        0 => facts.usage.resident_bytes,
        resident => resident,
    };
    // A node without a bound has none for all.
    let bounded = survey.figures().all(|figures| figures.maxmemory > 0);
    let maxmemory = if bounded { survey.sum(|figures| figures.maxmemory) } else { 0 };
    for (field, bytes) in [("used_memory", used), ("used_memory_rss", resident), ("used_memory_peak", peak)] {
        push(text, format_args!("{field}:{bytes}"));
        push(text, format_args!("{field}_human:{}", Human(bytes)));
    }
    push(text, format_args!("maxmemory:{maxmemory}"));
    push(text, format_args!("maxmemory_human:{}", Human(maxmemory)));
    let policy = survey.common(|figures| &figures.maxmemory_policy, "noeviction");
    push(text, format_args!("maxmemory_policy:{policy}"));
    if used > 0 {
        let ratio = resident as f64 / used as f64;
        push(text, format_args!("mem_fragmentation_ratio:{ratio:.2}"));
    }
    push(text, format_args!("mem_allocator:{}", survey.common(|figures| &figures.mem_allocator, "libc")));
    survey.write_combined("Memory", text);
    push(text, format_args!("proxy_memory_rss:{}", facts.usage.resident_bytes));
    push(text, format_args!("proxy_memory_rss_human:{}", Human(facts.usage.resident_bytes)));
}

/// Bytes as Redis shows them to people: `1.33M`.
struct Human(u64);

impl fmt::Display for Human {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return write!(out, "{}B", self.0);
        }
        let power = (self.0.ilog2() / 10).min(5);
        let unit = ["B", "K", "M", "G", "T", "P"][power as usize];
        write!(out, "{:.2}{unit}", self.0 as f64 / (1u64 << (10 * power)) as f64)
    }
}

/// We keep nothing, the nodes may. What libraries look for before they send is whether it is loaded.
fn persistence(facts: &Facts<'_>, text: &mut String) {
    facts.survey.write_combined("Persistence", text);
}

fn stats(facts: &Facts<'_>, text: &mut String) {
    let counters = &facts.counters;
    push(text, format_args!("total_connections_received:{}", counters.clients_total));
    push(text, format_args!("total_commands_processed:{}", counters.requests));
    push(text, format_args!("instantaneous_ops_per_sec:{}", counters.requests_per_s));
    push(text, format_args!("total_net_input_bytes:{}", counters.client_bytes_in));
    push(text, format_args!("total_net_output_bytes:{}", counters.client_bytes_out));
    push(text, format_args!("rejected_connections:{}", counters.clients_refused));
    push(text, format_args!("closed_connections:{}", counters.clients_closed));
    push(text, format_args!("total_handshakes:{}", counters.handshakes));
    push(text, format_args!("total_handshakes_failed:{}", counters.handshakes_failed));
    let audience = &facts.core.board.audience;
    push(text, format_args!("pubsub_channels:{}", audience.count(Topic::Channel)));
    push(text, format_args!("pubsub_patterns:{}", audience.count(Topic::Pattern)));
    push(text, format_args!("pubsubshard_channels:{}", audience.count(Topic::ShardChannel)));
    push(text, format_args!("total_messages:{}", counters.messages));
    push(text, format_args!("total_message_gaps:{}", counters.message_gaps));
    push(text, format_args!("total_redirects:{}", counters.redirects));
    push(text, format_args!("total_fragments:{}", counters.fragments));
    push(text, format_args!("total_replica_reads:{}", counters.replica_reads));
    push(text, format_args!("total_replica_fallbacks:{}", counters.replica_fallbacks));
    push(text, format_args!("total_own_write_reads:{}", counters.own_write_reads));
    push(text, format_args!("total_replica_retries:{}", counters.replica_retries));
    push(text, format_args!("total_conns_replaced:{}", counters.conns_replaced));
    push(text, format_args!("total_conns_retired:{}", counters.retirements));
    push(text, format_args!("total_reads_repeated:{}", counters.reads_repeated));
    push(text, format_args!("total_remaps:{}", counters.remaps));
    for (policy, row) in facts.tally.reads() {
        let ReadRow { replica, primary, own_write, fallback } = row;
        push(
            text,
            format_args!(
                "reads_from_{policy}:replica={replica},primary={primary},own_write={own_write},fallback={fallback}"
            ),
        );
    }
    push(text, format_args!("total_error_replies:{}", facts.tally.errors_total()));
    push(text, format_args!("total_proxy_errors:{}", counters.errors));
    push(text, format_args!("total_timeouts:{}", counters.timeouts));
    push(text, format_args!("total_node_failures:{}", counters.node_failures));
    push(text, format_args!("total_node_input_bytes:{}", counters.node_bytes_in));
    push(text, format_args!("total_node_output_bytes:{}", counters.node_bytes_out));
    facts.survey.write_combined("Stats", text);
}

fn replication(_: &Facts<'_>, text: &mut String) {
    // Redis's own word on the wire.
    push(text, format_args!("role:master"));
    push(text, format_args!("connected_slaves:0"));
    push(text, format_args!("master_failover_state:no-failover"));
    push(text, format_args!("master_repl_offset:0"));
}

fn cpu(facts: &Facts<'_>, text: &mut String) {
    let usage = &facts.usage;
    let seconds = |us: u64| us as f64 / 1e6;
    push(text, format_args!("used_cpu_sys:{:.6}", seconds(usage.cpu_system_us)));
    push(text, format_args!("used_cpu_user:{:.6}", seconds(usage.cpu_user_us)));
    push(text, format_args!("used_cpu_sys_children:0.000000"));
    push(text, format_args!("used_cpu_user_children:0.000000"));
}

fn commandstats(facts: &Facts<'_>, text: &mut String) {
    for (name, row) in facts.tally.commands() {
        let per_call = if row.calls == 0 { 0.0 } else { row.usec as f64 / row.calls as f64 };
        let (calls, usec, rejected, failed) = (row.calls, row.usec, row.rejected, row.failed);
        push(
            text,
            format_args!(
                "cmdstat_{name}:calls={calls},usec={usec},usec_per_call={per_call:.2},\
                 rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
}

fn errorstats(facts: &Facts<'_>, text: &mut String) {
    for (kind, count) in facts.tally.errors() {
        push(text, format_args!("errorstat_{}:count={count}", String::from_utf8_lossy(kind)));
    }
}

fn cluster(_: &Facts<'_>, text: &mut String) {
    push(text, format_args!("cluster_enabled:0"));
}

fn keyspace(facts: &Facts<'_>, text: &mut String) {
    let mut databases: BTreeMap<u32, KeyCounts> = BTreeMap::new();
    for (&database, &counts) in facts.survey.figures().flat_map(|figures| &figures.keyspace) {
        let sum = databases.entry(database).or_default();
        *sum = sum.plus(counts);
    }
    for (database, KeyCounts { keys, expires, avg_ttl }) in databases {
        push(text, format_args!("db{database}:keys={keys},expires={expires},avg_ttl={avg_ttl}"));
    }
}

fn nodes(facts: &Facts<'_>, text: &mut String) {
    let core = facts.core;
    push(text, format_args!("shards:{}", core.topology.all_shards().count()));
    push(text, format_args!("distribution:{}", core.topology.describe()));
    push(text, format_args!("topology_epoch:{}", core.topology.epoch()));
    // A string takes all.
    let _ = core.board.discovery.write(core.now, text);
    for id in core.topology.all_shards() {
        let word = facts.survey.nodes.get(id.0 as usize).unwrap_or(&Word::None);
        let Some(backend) = core.lanes.primary(id).map(|node| &core.backends[node as usize]) else {
            let (index, name) = (id.0, core.shard_name(id));
            push(text, format_args!("node{index}:name={name},address=none,state=down,in_flight=0{word}"));
            continue;
        };
        let state = match (&backend.state, word) {
            (State::Ready { .. }, Word::Down(_)) | (State::Waiting { .. }, _) => "down",
            (State::Ready { .. }, _) => "up",
            (State::Connecting { .. } | State::Probing { .. }, _) => "connecting",
        };
        let (index, name, in_flight) = (id.0, core.shard_name(id), backend.in_flight());
        let address = &core.topology.node(backend.node).address;
        let percent = core.ejection.as_ref().map(|ejection| ejection.keys_percent(id));
        let keys = percent.map_or(String::new(), |percent| format!(",keys_at_home={percent}%"));
        push(
            text,
            format_args!(
                "node{index}:name={name},address={address},state={state},in_flight={in_flight}{keys}{word}"
            ),
        );
        // A string takes all.
        let _ = core.write_replicas(id, text);
    }
}

impl fmt::Display for Word {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::None => Ok(()),
            Word::Refused(why) | Word::Down(why) => write!(out, ",reason={why}"),
            Word::Figures(figures) => {
                let Figures { version, role, used_memory, ops_per_sec, .. } = &**figures;
                let keys = figures.keys();
                write!(out, ",version={version},role={role},keys={keys},used_memory={used_memory}")?;
                write!(out, ",ops_per_sec={ops_per_sec}")
            }
        }
    }
}

/// The parameters that CONFIG GET knows, in alphabetical order: what tools ask for (redis-benchmark wants to print
/// `save` and `appendonly`), answered with what holds here.
pub(crate) fn parameters(core: &Core) -> Vec<(&'static str, String)> {
    let limits = &core.limits;
    vec![
        ("appendonly", "no".to_owned()),
        ("databases", core.settings.databases.to_string()),
        ("maxclients", limits.clients_max.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", core.settings.port.to_string()),
        ("proto-max-bulk-len", limits.request.bulk_bytes_max.to_string()),
        ("protected-mode", if core.settings.protected_mode { "yes" } else { "no" }.to_owned()),
        ("save", String::new()),
        ("timeout", limits.idle_timeout.as_secs().to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(names: &[&str]) -> Vec<&'static str> {
        let names = names.iter().map(|name| name.as_bytes());
        Wanted::of(names).sections().map(|section| section.title).collect()
    }

    #[test]
    fn sections_are_chosen_by_redis_rules() {
        let by_default = titles(&[]);
        assert!(by_default.contains(&"Modules") && !by_default.contains(&"Commandstats"));
        assert_eq!(titles(&["DEFAULT"]), by_default);
        let all = titles(&["all"]);
        assert!(!all.contains(&"Modules") && all.contains(&"Commandstats"));
        assert_eq!(titles(&["everything"]).len(), SECTIONS.len());
        assert_eq!(titles(&["stats", "SERVER", "nosuch"]), ["Server", "Stats"]);
        assert_eq!(titles(&["nosuch"]), [""; 0]);
    }

    #[test]
    fn bytes_are_shown_as_redis_shows_them() {
        let shown =
            [0, 1023, 1024, 1_395_576, 25_276_502_016, u64::MAX].map(|bytes| Human(bytes).to_string());
        assert_eq!(shown, ["0B", "1023B", "1.00K", "1.33M", "23.54G", "16384.00P"]);
    }

    #[test]
    fn figures_of_nodes_are_added_up_and_their_ttl_weighed() {
        let figures = |keys: u64, expires: u64, avg_ttl: u64| {
            Word::Figures(Figures::parse(&format!(
                "# Memory\r\nused_memory:100\r\nmaxmemory_policy:noeviction\r\nnonsense\r\nmaxmemory:x\r\n\
                 db0:keys={keys},expires={expires},avg_ttl={avg_ttl}\r\n"
            )))
        };
        let nodes = vec![figures(5, 1, 300), figures(7, 3, 100), Word::Down("gone".into())];
        let survey = Survey { wanted: Wanted::of([].into_iter()), nodes };
        assert_eq!(survey.sum(|figures| figures.used_memory), 200);
        assert_eq!(survey.common(|figures| &figures.maxmemory_policy, "?"), "noeviction");
        assert_eq!(survey.common(|figures| &figures.mem_allocator, "?"), "?");
        let counts = |keys, expires, avg_ttl| KeyCounts { keys, expires, avg_ttl };
        assert_eq!(counts(5, 1, 300).plus(counts(7, 3, 100)), counts(12, 4, 150));
    }
}
