//! From a request to a response. Nothing here waits, except for workers that tell their clients.

use crate::facts::{Facts, Subject};
use crate::guard::{Denial, Guard};
use crate::history::{History, Reading};
use crate::hot::HotAnswer;
use crate::metrics::{self, Format};
use crate::mirrored::MirrorAnswer;
use crate::racked::RacksAnswer;
use crate::readiness::ReadyShards;
use crate::slow;
use crate::status::{Status, TopologyAnswer};
use proxy::{ReloadOrder, ReloadOutcome};
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

/// A request, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// The part of the address behind the question mark; empty without one.
    pub query: &'a str,
    pub host: Option<&'a str>,
    pub authorization: Option<&'a [u8]>,
    pub accept: Option<&'a str>,
    /// The page that asks, if a browser says so.
    pub origin: Option<&'a str>,
    pub body: &'a [u8],
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub body: String,
}

impl Answer {
    fn text(status: u16, body: impl Into<String>) -> Answer {
        Answer { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    fn json(value: &impl Serialize) -> Answer {
        match serde_json::to_string(value) {
            Ok(body) => Answer { status: 200, content_type: "application/json", body },
            Err(error) => Answer::text(500, format!("{error}\n")),
        }
    }
}

/// The paths, with the methods that each takes and its meaning.
const PATHS: [(&str, &str, &str); 18] = [
    ("/", "GET", "the page"),
    ("/metrics", "GET", "metrics for Prometheus"),
    ("/healthz", "GET", "200 as long as the process lives"),
    ("/readyz", "GET", "200 if clients can be served, else 503 and the reason"),
    ("/pools", "GET", "names of the pools, JSON; paths about one take ?pool=NAME"),
    ("/status", "GET", "the whole state, JSON"),
    (
        "/history",
        "GET",
        "rates and quantiles of the last 15 minutes, JSON; ?after=N for the samples behind the Nth",
    ),
    ("/topology", "GET", "shards, nodes and who owns what, JSON"),
    ("/clients", "GET", "a line for each client, as CLIENT LIST"),
    ("/config", "GET", "effective settings and their sources, JSON"),
    (
        RELOAD,
        "GET, POST",
        "GET tells what the file would change; POST follows it, or the Nth configuration: ?to=N",
    ),
    ("/configurations", "GET", "the last ten configurations, JSON"),
    ("/slow", "GET", "slow requests with the time in each stage, JSON; as /events"),
    ("/hot", "GET", "hot keys, big keys and hot slots, JSON"),
    (
        "/events",
        "GET",
        "the last thousand lines of the log, JSON; ?limit=N for the newest N, ?since=ID for those with larger ids",
    ),
    ("/racks", "GET", "racks, their states and hints, and counts, JSON; null without --rack"),
    ("/mirror", "GET", "counts of the mirror and the last differences, JSON; null without one"),
    ("/log-level", "GET, PUT", "error, warn, info or debug"),
];

/// The path of orders about the configuration.
const RELOAD: &str = "/reload";

/// A pool as operators see it.
pub struct AdminPool {
    /// Its name, if the listener answers for several.
    pub name: Option<String>,
    /// The pool.
    pub subject: Arc<dyn Subject>,
    /// Shards that must be up.
    pub ready: ReadyShards,
}

/// Answers for one process.
pub(crate) struct Routes {
    pools: Vec<(AdminPool, Mutex<History>)>,
    guard: Arc<RwLock<Guard>>,
}

impl Routes {
    /// Answers about `pools`, of which there is one at least.
    pub(crate) fn new(pools: Vec<AdminPool>, guard: Arc<RwLock<Guard>>) -> Routes {
        Routes { pools: pools.into_iter().map(|pool| (pool, Mutex::default())).collect(), guard }
    }

    /// Adds a sample to the history of each pool, `elapsed_s` seconds after the last one.
    pub(crate) fn take_sample(&self, elapsed_s: f64) {
        for (pool, history) in &self.pools {
            let reading = Reading::of(&Facts::of(&*pool.subject));
            lock(history).take(reading, now_s(), elapsed_s);
        }
    }

    /// The pool that a query names, or the first.
    fn pool(&self, query: &str) -> Option<&(AdminPool, Mutex<History>)> {
        match query.split('&').find_map(|pair| pair.strip_prefix("pool=")) {
            None => self.pools.first(),
            Some(name) => self.pools.iter().find(|(pool, _)| pool.name.as_deref() == Some(name)),
        }
    }

    /// The response to a request.
    pub(crate) fn answer(&self, asked: Asked<'_>) -> Answer {
        // A load balancer has no token, and learns nothing but this. The page has no data; it asks for the token.
        let is_public = matches!(asked.path, "/" | "/healthz" | "/readyz");
        let guard = self.guard.read().unwrap_or_else(PoisonError::into_inner);
        match guard.check(asked.host, asked.authorization) {
            Err(Denial::Token) if !is_public => {
                return Answer::text(401, "the token is missing or wrong: Authorization: Bearer TOKEN\n");
            }
            Err(Denial::Host) if !is_public => {
                return Answer::text(
                    403,
                    "use an address or localhost, or set --admin-token-file or --admin-tls-ca-cert-file\n",
                );
            }
            _ => {}
        }
        drop(guard);
        let Some((_, methods, _)) = PATHS.iter().find(|(path, _, _)| *path == asked.path) else {
            return Answer::text(404, index());
        };
        let is_head = asked.method == "HEAD" && methods.starts_with("GET");
        if !is_head && !methods.split(", ").any(|method| method == asked.method) {
            return Answer::text(405, format!("{} takes {methods}\n", asked.path));
        }
        let is_reading = is_head || asked.method == "GET";
        if !is_reading && asked.is_of_other_page() {
            return Answer::text(403, "a page from elsewhere may change nothing\n");
        }
        self.answer_path(asked)
    }

    fn answer_path(&self, asked: Asked<'_>) -> Answer {
        let Some((pool, history)) = self.pool(asked.query) else {
            return Answer::text(404, "there is no such pool; /pools has their names\n");
        };
        let subject = &*pool.subject;
        match asked.path {
            "/" => Answer { status: 200, content_type: "text/html; charset=utf-8", body: PAGE.to_owned() },
            "/metrics" => {
                let format = Format::wanted(asked.accept);
                let facts = |(pool, _): &'_ (AdminPool, _)| Facts::of(&*pool.subject);
                let pools = self.pools.iter().map(|one| (one.0.name.as_deref(), facts(one)));
                let body = metrics::write(&pools.collect::<Vec<_>>(), format);
                Answer { status: 200, content_type: format.content_type(), body }
            }
            "/healthz" => Answer::text(200, "ok\n"),
            "/readyz" => self.answer_readiness(),
            "/pools" => {
                let names = self.pools.iter().filter_map(|(pool, _)| pool.name.as_deref());
                Answer::json(&names.collect::<Vec<_>>())
            }
            "/status" => Answer::json(&Status::of(&Facts::of(subject), now_s())),
            "/history" => {
                let after = number_in(asked.query, "after=").unwrap_or_default();
                Answer::json(&lock(history).answer(after))
            }
            "/topology" => Answer::json(&TopologyAnswer::of(&Facts::of(subject))),
            "/clients" => Answer::text(200, subject.clients()),
            "/config" => Answer::json(&subject.settings()),
            "/hot" => Answer::json(&HotAnswer::of(&subject.board().hot)),
            "/slow" => Answer::json(&slow::last(&subject.board().slow, Wanted::of(asked.query))),
            "/events" => Answer::json(&Wanted::of(asked.query).last(subject.events(), |event| event.id)),
            RELOAD => answer_reload(subject, asked),
            "/configurations" => Answer::json(&subject.configurations()),
            "/racks" => Answer::json(&subject.racks().as_ref().map(RacksAnswer::of)),
            "/mirror" => Answer::json(&subject.mirror().map(MirrorAnswer::of)),
            _ => answer_log_level(subject, asked),
        }
    }

    /// All pools must be ready.
    fn answer_readiness(&self) -> Answer {
        for (pool, _) in &self.pools {
            if let Err(reason) = pool.ready.check(&Facts::of(&*pool.subject)) {
                let of = pool.name.as_ref().map_or_else(String::new, |name| format!("pool {name}: "));
                return Answer::text(503, format!("{of}{reason}\n"));
            }
        }
        Answer::text(200, "ready\n")
    }
}

fn answer_reload(subject: &dyn Subject, asked: Asked<'_>) -> Answer {
    let order = match asked.method {
        "POST" => match order_of(asked.query) {
            Some(order) => order,
            None => {
                return Answer::text(
                    400,
                    "write /reload, /reload?force=1, /reload?to=N or /reload?to=back\n",
                );
            }
        },
        _ => ReloadOrder::Plan,
    };
    let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    match subject.reload(order) {
        ReloadOutcome::Done(lines) => Answer::text(200, text(&lines)),
        ReloadOutcome::Begun(lines) => Answer::text(202, text(&lines)),
        ReloadOutcome::Refused(reasons) => Answer::text(409, text(&reasons)),
        ReloadOutcome::Faulty(faults) => Answer::text(400, text(&faults)),
        ReloadOutcome::Late => {
            Answer::text(503, "the control thread did not answer in time; the outcome is unknown\n")
        }
    }
}

fn answer_log_level(subject: &dyn Subject, asked: Asked<'_>) -> Answer {
    if asked.method == "PUT" {
        let level = String::from_utf8_lossy(asked.body);
        if !subject.set_log_level(level.trim()) {
            return Answer::text(400, "write error, warn, info or debug\n");
        }
    }
    Answer::text(200, format!("{}\n", subject.log_level()))
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Asked<'_> {
    /// Whether the answer may take longer than others: it comes from other threads.
    pub(crate) fn may_take_long(&self) -> bool {
        self.path == RELOAD
    }

    /// Whether a page of another host makes a browser ask. A browser names that page with every request that may change
    /// something.
    fn is_of_other_page(&self) -> bool {
        let is_own = |origin: &str| {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_some() && host == self.host
        };
        self.origin.is_some_and(|origin| !is_own(origin))
    }
}

/// The order in a query; `None` if it has other words.
fn order_of(query: &str) -> Option<ReloadOrder> {
    // Orders concern the whole process.
    let query = query.split('&').filter(|pair| !pair.starts_with("pool=")).collect::<Vec<_>>().join("&");
    if query == "force=1" {
        return Some(ReloadOrder::Force);
    }
    match query.strip_prefix("to=") {
        Some("back") => Some(ReloadOrder::Back(None)),
        Some(number) => Some(ReloadOrder::Back(Some(number.parse().ok()?))),
        None => query.is_empty().then_some(ReloadOrder::Follow),
    }
}

/// The entries of a list that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Only entries with a larger number.
    pub since: u64,
    /// The newest ones, of the thousand that are kept.
    pub limit: usize,
}

/// Entries of an answer, as of the two lists.
const ENTRIES_MAX: u64 = 1000;

impl Wanted {
    fn of(query: &str) -> Wanted {
        let limit = number_in(query, "limit=").unwrap_or(ENTRIES_MAX).min(ENTRIES_MAX);
        Wanted { since: number_in(query, "since=").unwrap_or_default(), limit: limit as usize }
    }

    /// Takes the wanted entries of `all`, which begins with the oldest.
    fn last<T>(self, mut all: Vec<T>, id: impl Fn(&T) -> u64) -> Vec<T> {
        all.retain(|entry| id(entry) > self.since);
        all.split_off(all.len().saturating_sub(self.limit))
    }
}

/// The number behind `name` in `query`.
fn number_in(query: &str, name: &str) -> Option<u64> {
    query.split('&').find_map(|pair| pair.strip_prefix(name))?.parse().ok()
}

/// The list of all paths.
fn index() -> String {
    let lines = PATHS.iter().map(|(path, methods, meaning)| format!("{path}  {methods}  {meaning}\n"));
    lines.collect()
}

/// The page: one document, which asks for the rest.
const PAGE: &str = include_str!("page.html");

fn now_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::{Asked, PATHS, Wanted, order_of};
    use proxy::ReloadOrder;

    #[test]
    fn a_question_may_ask_for_few_entries() {
        let ids = |query: &str| Wanted::of(query).last((1..=9).collect(), |&id| id);
        assert_eq!(ids("limit=2"), [8, 9]);
        assert_eq!(ids("since=6"), [7, 8, 9]);
        assert_eq!(ids("since=6&limit=1"), [9]);
        assert_eq!(ids("limit=0"), Vec::<u64>::new());
        assert_eq!(ids("limit=x&since=-1"), (1..=9).collect::<Vec<u64>>());
        assert_eq!(Wanted::of("limit=99999999999").limit, 1000);
    }

    #[test]
    fn order_is_in_the_query() {
        assert_eq!(order_of(""), Some(ReloadOrder::Follow));
        assert_eq!(order_of("to=7"), Some(ReloadOrder::Back(Some(7))));
        assert_eq!(order_of("to=back"), Some(ReloadOrder::Back(None)));
        assert_eq!(order_of("force=1"), Some(ReloadOrder::Force));
        for wrong in ["force", "force=0", "to=", "to=-1", "to=x", "from=1", "to=1&to=2", "back"] {
            assert_eq!(order_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_the_own_page_is_no_other_page() {
        let is_of_other = |origin, host| {
            let (query, body, path) = ("", &[][..], "/reload");
            let asked =
                Asked { method: "POST", path, query, host, authorization: None, accept: None, origin, body };
            asked.is_of_other_page()
        };
        assert!(!is_of_other(None, Some("localhost:9121")));
        assert!(!is_of_other(Some("http://localhost:9121"), Some("localhost:9121")));
        for origin in ["http://example.org", "null", "http://localhost:9122", "https://localhost"] {
            assert!(is_of_other(Some(origin), Some("localhost:9121")), "{origin}");
        }
        assert!(is_of_other(Some("null"), None));
    }

    #[test]
    fn every_path_is_documented() {
        let page = include_str!("../../../docs/admin.md");
        for (path, _, _) in PATHS {
            assert!(page.contains(&format!("\n| `{path}` |")), "{path}");
        }
    }
}
