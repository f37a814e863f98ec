//! `shardis ring`: the nodes of keys under one or two layouts, the evenness of the layouts, and the moves between them. Pure:
//! keys, sizes and bytes of nodes come in, requests and a report go out. The binary has files and sockets.
//!
//! ```text
//!     keys of a list, or generated ──┐
//!     node ─► Scan (one each) ───────┴─► Survey (counts by node and by move) ─► Report: text, JSON
//! ```
//!
//! Begin with [`Layout`], a topology with the names of its nodes, and [`Survey`], which counts keys and keeps none.
//!
//! **Must not know** sockets, files, and how a proxy serves. Memory is bounded by the number of pairs of nodes.

mod layout;
mod report;
mod scan;
mod survey;

pub use layout::Layout;
pub use report::{Report, Source};
pub use scan::Scan;
pub use survey::{GENERATED_KEYS, Survey, generated_keys};
