//! The row of a command in the table: name, arity, flags, and the function that runs it.

use hashbrown::HashTable;
use resp::Request;

use crate::args;
use crate::caller_id::CallerId;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::store::Store;

/// Function that appends the reply or returns an error. The store removes bytes that were appended before an error.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Commands on keys.
    OnKeys(OnKeys),
    /// Commands on connections.
    OnStore(OnStore),
}

pub(crate) type OnKeys = fn(&mut Keyspace, &Request<'_>, &mut Reply) -> Result<(), Error>;
pub(crate) type OnStore = fn(&mut Store, CallerId, &Request<'_>, &mut Reply) -> Result<(), Error>;

/// One command.
pub(crate) struct Row {
    /// Lower case.
    pub(crate) name: &'static str,
    /// As in Redis: the number of arguments with the name; negative for a minimum.
    pub(crate) arity: i32,
    /// Redis's flag `denyoom`: refused when memory is full.
    pub(crate) grows: bool,
    /// Whether look-ups count as hits and misses. Redis decides it for each command: mostly for those that read.
    pub(crate) reads: bool,
    pub(crate) run: Run,
}

impl Row {
    pub(crate) const fn growing(self) -> Row {
        Row { grows: true, ..self }
    }

    pub(crate) const fn reading(self) -> Row {
        Row { reads: true, ..self }
    }

    /// Whether a connection that is subscribed in RESP2 may send it.
    pub(crate) fn is_for_subscribers(&self) -> bool {
        let names = ["ping", "reset", "subscribe", "unsubscribe", "psubscribe", "punsubscribe"];
        names.contains(&self.name) || ["ssubscribe", "sunsubscribe"].contains(&self.name)
    }

    pub(crate) fn is_exec(&self) -> bool {
        self.name == "exec"
    }

    /// Whether a transaction runs it at once instead of queueing it.
    pub(crate) fn is_never_queued(&self) -> bool {
        ["exec", "discard", "multi", "watch", "reset"].contains(&self.name)
    }

    /// Redis's name for the command of `request`, with its subcommand. An unknown subcommand is an error here, before the
    /// request is queued.
    pub(crate) fn full_name(&self, request: &Request<'_>) -> Result<String, Error> {
        let Some((_, container, subcommands)) = SUBCOMMANDS.iter().find(|(name, ..)| *name == self.name)
        else {
            return Ok(self.name.to_owned());
        };
        let word = request.arg(1);
        let found = subcommands.iter().find(|(name, _)| args::is(word, name));
        let (name, arity) = found.ok_or_else(|| Error::UnknownSubcommand(args::shown(word), container))?;
        let name = format!("{}|{name}", self.name);
        if arity_fits(*arity, request.len()) { Ok(name) } else { Err(Error::Arity(name)) }
    }

    pub(crate) fn arity_fits(&self, len: usize) -> bool {
        arity_fits(self.arity, len)
    }
}

fn arity_fits(arity: i32, len: usize) -> bool {
    let bound = arity.unsigned_abs() as usize;
    if arity < 0 { len >= bound } else { len == bound }
}

/// A name, as errors show it, and the subcommands with their arities.
type Container = (&'static str, &'static str, &'static [(&'static str, i32)]);

/// Containers whose subcommands are checked before a request is queued.
static SUBCOMMANDS: &[Container] = &[
    ("object", "OBJECT", &[("encoding", 3), ("freq", 3), ("idletime", 3), ("refcount", 3), ("help", 2)]),
    ("xinfo", "XINFO", &[("stream", -3), ("groups", 3), ("consumers", 4), ("help", 2)]),
    (
        "xgroup",
        "XGROUP",
        &[
            ("create", -5),
            ("setid", -5),
            ("destroy", 4),
            ("createconsumer", 5),
            ("delconsumer", 5),
            ("help", 2),
        ],
    ),
    (
        "client",
        "CLIENT",
        &[
            ("id", 2),
            ("info", 2),
            ("getname", 2),
            ("setname", 3),
            ("no-evict", 3),
            ("tracking", -3),
            ("unblock", -3),
        ],
    ),
    (
        "pubsub",
        "PUBSUB",
        &[
            ("channels", -2),
            ("numsub", -2),
            ("numpat", 2),
            ("shardchannels", -2),
            ("shardnumsub", -2),
            ("help", 2),
        ],
    ),
    (
        "script",
        "SCRIPT",
        &[("debug", 3), ("exists", -3), ("flush", -2), ("kill", 2), ("load", 3), ("help", 2)],
    ),
    (
        "function",
        "FUNCTION",
        &[
            ("load", -3),
            ("delete", 3),
            ("list", -2),
            ("dump", 2),
            ("restore", -3),
            ("flush", -2),
            ("stats", 2),
            ("kill", 2),
            ("help", 2),
        ],
    ),
    ("config", "CONFIG", &[("get", -3), ("set", -4), ("help", 2)]),
];

/// Index of the rows by name.
pub(crate) struct Index {
    rows: HashTable<&'static Row>,
    seed: u64,
}

impl Index {
    pub(crate) fn new(rows: &'static [Row], seed: u64) -> Index {
        let mut index = Index { rows: HashTable::with_capacity(rows.len() * 2), seed };
        for row in rows {
            index
                .rows
                .insert_unique(fold(row.name.as_bytes(), seed), row, |row| fold(row.name.as_bytes(), seed));
        }
        index
    }

    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<&'static Row> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        let is_it = |row: &&Row| row.name.as_bytes().eq_ignore_ascii_case(name);
        self.rows.find(fold(name, self.seed), is_it).copied()
    }
}

/// A hash that ignores case: bit 0x20 marks a lower-case letter. There are few names, and clients do not choose them.
#[inline]
fn fold(name: &[u8], seed: u64) -> u64 {
    let hash = name.iter().fold(seed, |hash, byte| (hash ^ u64::from(byte | 0x20)).wrapping_mul(FACTOR));
    hash ^ (hash >> 32)
}

/// The prime of the FNV hash (Fowler, Noll, Vo).
const FACTOR: u64 = 0x0000_0100_0000_01b3;

/// Length of the longest name.
pub(crate) const NAME_BYTES_MAX: usize = 24;
