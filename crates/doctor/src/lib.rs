//! `shardis doctor`: questions to all nodes, and findings from their answers. Pure: bytes and times come in, requests and
//! findings go out. The binary has the sockets.
//!
//! ```text
//!     node, sentinel ─► Interview (one for each) ─► Facts ─┬─► Roll ─► further nodes and sentinels to ask
//!                                         Setup (flags) ───┴─► checks.rs ─► Vec<Finding> ─► report.rs: text, JSON, exit code
//! ```
//!
//! Begin with `checks.rs`, the table of the checks. Each is a function from facts to findings.
//!
//! **Must not know** sockets, and how a proxy serves: it asks what an operator could ask with redis-cli, and changes nothing.

mod checks;
mod facts;
mod finding;
mod interview;
mod report;
mod roll;
#[cfg(test)]
mod testing;
mod watch;

pub use checks::{CHECKS, Check, Setup, Source, findings};
pub use facts::{Facts, Kind, Member};
pub use finding::{Finding, Severity};
pub use interview::Interview;
pub use report::{json, text};
pub use roll::Roll;
pub use watch::{Peer, Watch};
