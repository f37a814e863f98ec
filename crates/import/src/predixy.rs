//! `predixy.conf` of predixy 1.0 to 7.0, with the files that it includes. Keys are not case sensitive. Unknown ones are faults.

mod groups;
mod reads;
mod scopes;
mod users;

use crate::Files;
use crate::address::Listen;
use crate::draft::{Draft, Origin, Table};
use crate::fault::Word;
use crate::options::{Fate, Options, fate_of_any_case};
use crate::units::{bytes, ms, number, split};
use scopes::Line;

const NO_FILE: &str = "the log of shardis goes to stderr, from which systemd takes it";
const NO_SAMPLES: &str = "shardis logs every line of a level; see log-level";

pub(crate) const GENERAL: Options = &[
    ("Include", Fate::As("the content of the file, as if it stood there")),
    ("Bind", Fate::As("host, port; unixsocket")),
    ("WorkerThreads", Fate::As("workers")),
    ("MaxMemory", Fate::Partly("memory-max", "0 and less than 16 MB are not carried: shardis has 1gb")),
    ("ClientTimeout", Fate::As("timeout")),
    ("Name", Fate::Not("shardis has no name for itself")),
    ("BufSize", Fate::Not("shardis sizes its buffers itself")),
    ("Log", Fate::Not(NO_FILE)),
    ("LogRotate", Fate::Not(NO_FILE)),
    ("AllowMissLog", Fate::Not("shardis drops lines of its log only above a limit, and counts them")),
    ("LogVerbSample", Fate::Not(NO_SAMPLES)),
    ("LogDebugSample", Fate::Not(NO_SAMPLES)),
    ("LogInfoSample", Fate::Not(NO_SAMPLES)),
    ("LogNoticeSample", Fate::Not(NO_SAMPLES)),
    ("LogWarnSample", Fate::Not(NO_SAMPLES)),
    ("LogErrorSample", Fate::Not(NO_SAMPLES)),
    ("LocalDC", Fate::Partly("zone", "only where reads go to replicas")),
    ("DataCenter", Fate::Partly("zones", "only where reads go to replicas")),
    ("LatencyMonitor", Fate::Not("shardis measures all commands; see admin")),
    ("CustomCommand", Fate::Not("shardis asks the nodes for commands that it does not know")),
    ("Authority", Fate::As("requirepass, as below")),
    ("ClusterServerPool", Fate::As("cluster, as below")),
    ("SentinelServerPool", Fate::As("sentinel and master, as below")),
    ("StandaloneServerPool", Fate::As("nodes, or sentinel and master, as below")),
];

pub(crate) const POOL: Options = &[
    ("Password", Fate::As("node-auth")),
    ("Databases", Fate::As("databases")),
    ("Servers", Fate::As("cluster")),
    ("Sentinels", Fate::As("sentinel; its password: sentinel-auth")),
    ("Group", Fate::As("a node in nodes, with replicas behind a |; with sentinels, a name in master")),
    ("RefreshMethod", Fate::As("nodes for `fixed`, sentinel for `sentinel`")),
    ("Hash", Fate::As("hash: `crc16` is crc16-redis")),
    ("HashTag", Fate::As("tag-rule")),
    (
        "Distribution",
        Fate::Partly(
            "distribution = \"modulo\" for `modula`",
            "`random` is refused: a key would live anywhere",
        ),
    ),
    ("MasterReadPriority", Fate::Partly("read-from", "of priorities, their order counts")),
    ("StaticSlaveReadPriority", Fate::Partly("read-from", "of priorities, their order counts")),
    ("DynamicSlaveReadPriority", Fate::Partly("read-from", "of priorities, their order counts")),
    (
        "RefreshInterval",
        Fate::Partly(
            "refresh-period-ms",
            "at least 100 ms; without sentinels or a cluster there is nothing to refresh",
        ),
    ),
    (
        "ServerTimeout",
        Fate::Partly(
            "request-timeout-ms",
            "0, for ever, is not carried: shardis gives up a silent node after 1000 ms",
        ),
    ),
    ("ServerFailureLimit", Fate::Not("shardis connects again at once, and then at growing intervals")),
    ("ServerRetryTimeout", Fate::Not("shardis connects again at once, and then at growing intervals")),
    ("KeepAlive", Fate::Not("shardis always probes idle connections")),
];

pub(crate) use reads::OPTIONS as DATA_CENTER;
pub(crate) const AUTHORITY: Options = users::OPTIONS;

/// The kind of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PoolKind {
    Cluster,
    Sentinel,
    Standalone,
}

/// The least memory that shardis takes as a limit.
const MEMORY_MIN: u64 = 16_000_000;

pub(crate) fn read(name: &str, text: &str, files: &mut dyn Files, draft: &mut Draft) {
    let lines = scopes::read(name, text, files, draft);
    let mut sections = Sections { table: Table::default(), listen: None, parts: Vec::new() };
    for line in &lines {
        sections.line(line, draft);
    }
    let part =
        |name: &str| sections.parts.iter().rev().find(|(known, _)| *known == name).map(|(_, line)| *line);
    let pools: Vec<(PoolKind, &Line)> = [
        ("ClusterServerPool", PoolKind::Cluster),
        ("SentinelServerPool", PoolKind::Sentinel),
        ("StandaloneServerPool", PoolKind::Standalone),
    ]
    .iter()
    .filter_map(|(name, kind)| Some((*kind, part(name)?)))
    .collect();
    let (authority, centers, local) = (part("Authority"), part("DataCenter"), part("LocalDC"));
    let Sections { mut table, listen, .. } = sections;
    match pools.as_slice() {
        [(kind, pool)] => {
            let reads = groups::read(*kind, pool, &mut table, draft);
            reads.set(local, centers, &mut table, draft);
        }
        [] => draft.fault_of_all("the file has no server pool; write ClusterServerPool, SentinelServerPool or StandaloneServerPool"),
        [_, (_, other), ..] => draft.fault(&other.key.place, format!("{}: there is another server pool already", other.key.text)),
    }
    if let Some(authority) = authority {
        users::read(authority, &mut table, draft);
    }
    let listen = listen.unwrap_or_else(|| {
        let listen = Listen::Tcp("0.0.0.0".to_owned(), 7617);
        listen.set(&mut table, &Origin::implied("default of predixy"));
        listen
    });
    listen.open(&mut table, "predixy");
    draft.pool(table);
}

/// The lines outside of all scopes.
struct Sections<'a> {
    table: Table,
    listen: Option<Listen>,
    /// Scopes, and LocalDC, which are read together.
    parts: Vec<(&'static str, &'a Line)>,
}

impl<'a> Sections<'a> {
    fn line(&mut self, line: &'a Line, draft: &mut Draft) {
        let Line { key, value, scope } = line;
        let Some((name, fate)) = fate_of_any_case(GENERAL, &key.text) else {
            return draft.fault(&key.place, format!("{}: there is no such key", key.text));
        };
        let origin = Origin::of(key, value);
        match name {
            "Bind" => match listener(value) {
                Some(listen) => {
                    listen.set(&mut self.table, &origin);
                    self.listen = Some(listen);
                }
                None => invalid(draft, key, value, "an address, as in 0.0.0.0:7617, or a path"),
            },
            "WorkerThreads" => match number(value, 1024) {
                Some(0) | None => invalid(draft, key, value, "a number from 1 to 1024"),
                Some(workers) => draft.process().set("workers", workers, &origin),
            },
            "ClientTimeout" => match number(value, i32::MAX as u64) {
                Some(seconds) => self.table.set("timeout", seconds, &origin),
                None => invalid(draft, key, value, "seconds"),
            },
            "MaxMemory" => match bytes(value) {
                Some(bytes @ MEMORY_MIN..) => self.table.set("memory-max", bytes, &origin),
                Some(_) => draft.lose(key, GENERAL, name),
                None => invalid(draft, key, value, "bytes, as in 100M"),
            },
            "LocalDC" => self.parts.push((name, line)),
            "Authority"
            | "DataCenter"
            | "ClusterServerPool"
            | "SentinelServerPool"
            | "StandaloneServerPool" => {
                if scope.is_none() {
                    return draft
                        .fault(&key.place, format!("{name}: write {{ and }} with its lines between them"));
                }
                self.parts.push((name, line));
            }
            _ => {
                draft.settle(key, fate);
            }
        }
    }
}

fn listener(text: &str) -> Option<Listen> {
    match text.starts_with('/') {
        true => Some(Listen::Unix(text.to_owned(), None)),
        false => Listen::tcp(text),
    }
}

/// Microseconds of a time such as `1`, in seconds, `100ms` or `5us`; `m` is milliseconds there.
fn duration_us(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "s" => 1_000_000,
        "m" | "ms" => 1000,
        "u" | "us" => 1,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Whole milliseconds of a time, rounded up.
fn duration_ms(text: &str) -> Option<u64> {
    duration_us(text).map(ms)
}

/// A fault at `key`.
fn invalid(draft: &mut Draft, key: &Word, value: &str, form: &str) {
    draft.fault(&key.place, format!("{}: {value:?}: write {form}", key.text));
}
