//! The table itself, one file per section of Redis's own documentation.
//!
//! A command is a line. It has name, arity, flags and ACL categories in Redis's words (without the categories that follow from
//! the flags). Key specs, our routing and Redis's tips follow.
//!
//! The facts are those of Redis 7.0.15. `facts/refresh.py` prints them for any running Redis, and tests/against_redis compares.

use crate::carry::{About, Carry, Local, Refusal};
use crate::command::Command;
use crate::keys::{Begin, Find, KeySpec, Keyword};
use crate::sets::KeyFlags;

mod bitmap;
mod cluster;
mod connection;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod list;
mod proxy;
mod pubsub;
mod scripting;
mod server;
mod set;
mod sorted_set;
mod stream;
mod string;
mod transactions;
mod vector_set;

/// Commands that Redis documents together.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) commands: &'static [Command],
}

/// All commands, in the order in which they are listed and documented.
pub(crate) static SECTIONS: [Section; 18] = [
    Section { title: "Strings", commands: string::COMMANDS },
    Section { title: "Keys of any type", commands: generic::COMMANDS },
    Section { title: "Hashes", commands: hash::COMMANDS },
    Section { title: "Lists", commands: list::COMMANDS },
    Section { title: "Sets", commands: set::COMMANDS },
    Section { title: "Sorted sets", commands: sorted_set::COMMANDS },
    Section { title: "Streams", commands: stream::COMMANDS },
    Section { title: "HyperLogLog", commands: hyperloglog::COMMANDS },
    Section { title: "Geographic indexes", commands: geo::COMMANDS },
    Section { title: "Bitmaps", commands: bitmap::COMMANDS },
    Section { title: "Vector sets", commands: vector_set::COMMANDS },
    Section { title: "Scripts and functions", commands: scripting::COMMANDS },
    Section { title: "Publish and subscribe", commands: pubsub::COMMANDS },
    Section { title: "Transactions", commands: transactions::COMMANDS },
    Section { title: "Connections", commands: connection::COMMANDS },
    Section { title: "Administration and information", commands: server::COMMANDS },
    Section { title: "Redis Cluster", commands: cluster::COMMANDS },
    Section { title: "shardis itself", commands: proxy::COMMANDS },
];

/// One key at one place.
const fn key(at: usize, flags: &str) -> KeySpec {
    keys(at, 0, 1, flags)
}

/// Every `step`th argument up to `last`, which counts from the end if negative and from `first` if not.
const fn keys(first: usize, last: i32, step: usize, flags: &str) -> KeySpec {
    spec(Begin::Index(first), Find::Range { last, step, limit: 0 }, flags)
}

/// At `at` the number of the keys that follow it.
const fn counted(at: usize, flags: &str) -> KeySpec {
    spec(Begin::Index(at), Find::Num { at: 0, first: 1, step: 1 }, flags)
}

/// A spec that begins behind `word`, which is searched from argument `from` on.
const fn behind(word: &str, from: i32, find: Find, flags: &str) -> KeySpec {
    let word = Keyword::new(word.as_bytes()).expect("no keyword of the table is longer than 16 bytes");
    spec(Begin::Keyword { word, from }, find, flags)
}

/// Keys that Redis finds by code.
const fn unknown(flags: &str) -> KeySpec {
    spec(Begin::Unknown, Find::Unknown, flags)
}

const fn spec(begin: Begin, find: Find, flags: &str) -> KeySpec {
    KeySpec { begin, find, flags: KeyFlags::of(flags), note: None }
}

impl KeySpec {
    /// This spec, with Redis's remark.
    const fn note(self, text: &'static str) -> KeySpec {
        KeySpec { note: Some(text), ..self }
    }
}

/// The argument behind a keyword.
const NEXT: Find = Find::Range { last: 0, step: 1, limit: 0 };
/// All arguments behind a keyword.
const REST: Find = Find::Range { last: -1, step: 1, limit: 0 };
/// The first half of the arguments behind a keyword.
const FIRST_HALF: Find = Find::Range { last: -1, step: 1, limit: 2 };

/// Not carried, and why.
const fn never(why: &'static str) -> Carry {
    Carry::Refused(Refusal::Never(why))
}

/// Answered from this table.
const fn about(question: About) -> Carry {
    Carry::Here(Local::Command(question))
}
