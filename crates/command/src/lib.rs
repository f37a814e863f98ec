//! The facts about commands in one table: arguments, keys, splitting, and the merging of replies.
//!
//! ```text
//! request ─► resolve ─► Command ─► carry ─┬─► Shard, ShardIf, Split: keys ─► shards
//!               │                         ├─► Blocking: keys, patience ─► shard
//!               │                         ├─► AllShards, Cursor, AnyShard
//!               │                         ├─► Transaction: kept until EXEC (Within: what may stand in it)
//!               │                         ├─► Here: answered by the proxy (COMMAND: about::write)
//!               │                         └─► Refused: Refusal::write_error
//!               └─► Unknown: learned::is_learnable ─► ask a node ─► learned::parse ─► Command, as above
//!                   everything else: Resolved::write_error
//! ```
//!
//! Begin with [`resolve`], the [`Command`] that it finds, and its [`Carry`]. The rows are in `table/`, one line per command, in
//! Redis's own words. A new command is a line there.
//!
//! ```
//! let mset = command::find(b"mset").expect("Redis has it");
//! assert_eq!((mset.arity, mset.split_step()), (-3, 2));
//! assert!(mset.may_write());
//! ```
//!
//! **Must not know** a connection, a client or a topology: it says that a request splits, not where to. Its dependencies are `resp`
//! and `stdx`. The root's `clippy.toml` forbids clocks, threads and sockets. Nothing here keeps state or, on the path of a request,
//! allocates.

pub mod about;
pub mod learned;

mod carry;
mod command;
mod compare;
mod describe;
mod error;
mod evaluator;
mod guard;
mod keys;
mod lookup;
mod patience;
mod reference;
mod sets;
mod since;
mod table;
#[cfg(test)]
mod testing;
mod within;

pub use about::count;
pub use carry::{
    About, AclQuestion, Across, Admin, Carry, ClientTask, ClusterQuestion, Guard, Local, Merge, Naming,
    ProxyQuestion, PubSubQuestion, Refusal, Report, Script, Topic, Transaction, Wait,
};
pub use command::Command;
pub use compare::Compare;
pub use describe::write_info;
pub use evaluator::{Evaluator, NewEvaluator};
pub use guard::{each_name_of_sort, sort_option_of_all_keys};
pub use keys::{Begin, ByHand, Find, KeySpec, Keys, KeysError, Keyword, is_word};
pub use lookup::{
    Number, Resolved, all, find, find_full, is_cross_protocol, numbered, resolve, resolve_numbered, sections,
};
pub use reference::{carried, merged, reference};
pub use sets::{Acl, Flags, KeyFlags, Tips};
pub use since::{Server, Since};
pub use within::Within;
