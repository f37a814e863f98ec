//! INFO and CONFIG GET: facts about the proxy, in Redis's words and sections.
//!
//! Some sections are about the data and not about the proxy. Their figures come from all nodes, and the reply waits for
//! them ([`survey`]). A node that does not answer is shown as down and left out of the sums. [`table`] defines the
//! source of each field.

mod lines;
mod page;
pub(crate) mod survey;
mod table;

pub use page::info_reference;
pub(crate) use survey::Survey;

use crate::context::Context;
use crate::core::Core;
use crate::counters::{Counters, Usage};
use crate::errors;
use crate::features::Session;
use crate::limits::Limits;
use crate::local::info::table::Field;
use crate::local::inquiry;
use crate::login::passing;
use crate::reading::Readers;
use crate::tally::Tally;
use resp::{Request, encode};
use std::fmt;
use std::sync::Arc;
use survey::{Wanted, push};

/// The question to nodes: all default sections, since nodes before 7.0 accept only one name.
const QUESTION: &[u8] = b"*1\r\n$4\r\nINFO\r\n";
/// The same with latencies, which are not shown by default.
const QUESTION_FOR_ALL: &[u8] = b"*2\r\n$4\r\nINFO\r\n$3\r\nall\r\n";

/// The facts from which a report is written.
struct Facts<'a> {
    cx: &'a Context,
    readers: &'a Readers,
    /// Over all workers, like `tally`.
    counters: Counters,
    tally: Tally,
    usage: Usage,
    survey: &'a Survey,
}

/// One section of the report.
struct Section {
    /// The title as shown. In lower case, the name in a request.
    title: &'static str,
    /// When the section is shown without being named.
    shown: Shown,
    /// Whether its figures come from nodes.
    asks_nodes: bool,
    /// Its fields.
    fields: &'static [Field],
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
const SECTIONS: [Section; 14] = [
    section("Server", Shown::ByDefault, false, table::SERVER),
    section("Clients", Shown::ByDefault, false, table::CLIENTS),
    section("Memory", Shown::ByDefault, true, table::MEMORY),
    section("Persistence", Shown::ByDefault, true, table::PERSISTENCE),
    section("Stats", Shown::ByDefault, true, table::STATS),
    section("Replication", Shown::ByDefault, false, table::REPLICATION),
    section("CPU", Shown::ByDefault, false, table::CPU),
    section("Modules", Shown::NotWithAll, false, &[]),
    section("Commandstats", Shown::WithAll, false, table::COMMANDSTATS),
    section("Errorstats", Shown::ByDefault, false, table::ERRORSTATS),
    section(LATENCYSTATS, Shown::WithAll, true, table::LATENCYSTATS),
    section("Cluster", Shown::ByDefault, false, table::CLUSTER),
    section("Keyspace", Shown::ByDefault, true, table::KEYSPACE),
    section("Nodes", Shown::ByDefault, true, table::NODES),
];

const LATENCYSTATS: &str = "Latencystats";

const fn section(title: &'static str, shown: Shown, asks_nodes: bool, fields: &'static [Field]) -> Section {
    Section { title, shown, asks_nodes, fields }
}

impl Wanted {
    /// The sections that INFO's arguments name, by Redis's rules. Unknown names select nothing.
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

impl Core {
    /// INFO: writes `reply`, or asks the nodes first and leaves it empty.
    pub(crate) fn info(&mut self, session: &mut Session, request: &Request<'_>, reply: &mut Vec<u8>) {
        let wanted = Wanted::of(request.args().skip(1));
        let mut survey = Survey::new(wanted, &table::COMBINED, self.cx.engine.topology.shard_count());
        let mut shards = Vec::new();
        // If the nodes decide about users, they must permit INFO.
        if passing::has_users_of_nodes(&self.cx) || wanted.sections().any(|section| section.asks_nodes) {
            let profile = passing::plain_profile(&mut self.cx, session);
            for shard in Arc::clone(&self.cx.engine.topology).all_shards() {
                match self.cx.shared_link(profile, shard) {
                    Ok(node) => shards.push((shard, node)),
                    Err(lost) => survey.lose(shard, lost.reason()),
                }
            }
        }
        if shards.is_empty() {
            return self.write_survey(&survey, session.resp3, reply);
        }
        let wants_latencies = wanted.sections().any(|section| section.title == LATENCYSTATS);
        let question = if wants_latencies { QUESTION_FOR_ALL } else { QUESTION };
        inquiry::ask_shards(&mut self.cx, session, question, &shards, survey);
    }

    /// Writes the report, or a node's refusal.
    pub(crate) fn write_survey(&mut self, survey: &Survey, resp3: bool, reply: &mut Vec<u8>) {
        match survey.denial().filter(|_| passing::has_users_of_nodes(&self.cx)) {
            Some(error) => errors::write(reply, error),
            None => self.write_info(survey, resp3, reply),
        }
    }

    /// Writes the report over all workers. The section `Nodes` is the view of this worker.
    fn write_info(&mut self, survey: &Survey, resp3: bool, reply: &mut Vec<u8>) {
        self.publish();
        let (counters, tally) = (self.cx.board.sum(), self.cx.board.tally());
        let facts = Facts {
            cx: &self.cx,
            readers: &self.readers,
            counters,
            tally,
            usage: self.cx.board.usage(),
            survey,
        };
        let mut text = String::new();
        for section in survey.wanted.sections() {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            push(&mut text, format_args!("# {}", section.title));
            section.fields.iter().for_each(|field| facts.write(field, &mut text));
        }
        encode::verbatim(reply, text.as_bytes(), resp3);
    }
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

/// The parameters that CONFIG GET knows, in alphabetical order. They are parameters of Redis that apply to a proxy and
/// that tools ask for. For example, redis-benchmark prints `save` and `appendonly`, and redis_exporter `io-threads`.
/// docs/compatibility.md lists them.
pub(crate) fn parameters(core: &Core) -> Vec<(&'static str, String)> {
    let (limits, settings) = (&core.cx.limits, &core.cx.settings);
    vec![
        ("acl-pubsub-default", "resetchannels".to_owned()),
        ("appendonly", "no".to_owned()),
        ("client-output-buffer-limit", output_limits(limits)),
        ("client-query-buffer-limit", limits.engine.request_bytes_max.to_string()),
        ("cluster-enabled", "no".to_owned()),
        ("daemonize", "no".to_owned()),
        ("databases", settings.databases.to_string()),
        ("io-threads", settings.workers.to_string()),
        ("io-threads-do-reads", "yes".to_owned()),
        ("maxclients", limits.clients_max.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", settings.port.to_string()),
        ("protected-mode", if settings.access.protected_mode { "yes" } else { "no" }.to_owned()),
        ("proto-max-bulk-len", limits.engine.request.bulk_bytes_max.to_string()),
        ("save", String::new()),
        ("supervised", "no".to_owned()),
        ("timeout", limits.idle_timeout.as_secs().to_string()),
    ]
}

/// The limits of clients' output, as Redis writes them: hard, soft, and seconds for each class. There are no replicas
/// here.
fn output_limits(limits: &Limits) -> String {
    let (normal, subscribers) = (limits.engine.output_stall.as_secs(), limits.subscriber_patience.as_secs());
    format!(
        "normal {} {} {normal} slave 0 0 0 pubsub {} {} {subscribers}",
        limits.engine.output_bytes_max,
        limits.engine.output_bytes_soft,
        limits.subscriber_bytes_max,
        limits.subscriber_bytes_soft,
    )
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
    fn parameters_are_in_order_and_documented() {
        let rig = crate::testing::Rig::ready(1);
        let names: Vec<&str> = parameters(&rig.proxy.core).iter().map(|(name, _)| *name).collect();
        assert!(names.is_sorted(), "{names:?}");
        let docs = include_str!("../../../../docs/compatibility.md");
        for name in names {
            assert!(docs.contains(&format!("`{name}`")), "{name} is not in the list of CONFIG GET");
        }
    }

    #[test]
    fn bytes_are_shown_as_redis_shows_them() {
        let shown =
            [0, 1023, 1024, 1_395_576, 25_276_502_016, u64::MAX].map(|bytes| Human(bytes).to_string());
        assert_eq!(shown, ["0B", "1023B", "1.00K", "1.33M", "23.54G", "16384.00P"]);
    }
}
