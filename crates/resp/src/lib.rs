//! RESP syntax without IO: where a request or a reply ends, what the arguments are, how replies are written.
//!
//! The scanners are resumable (bytes may arrive one at a time), allocate nothing by an announced size and never
//! recurse. What they refuse, they refuse with Redis's own words where Redis has words.

pub mod encode;
pub mod inline;
pub mod integer;
pub mod reply;
pub mod request;

pub use request::{Request, Span};
