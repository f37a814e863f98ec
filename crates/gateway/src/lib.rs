//! HTTP for clients of a Redis. One [`Gateway`] stands between an HTTP connection and a session that speaks RESP2.
//!
//! ```text
//!   HTTP client ──► head.rs, body.rs ──► rest.rs or webdis.rs ──► commands in RESP ──► session
//!               ◄── answer.rs ◄──── reply.rs, json.rs ◄─── tokens.rs ◄─── replies ◄──
//! ```
//!
//! Begin with `connection.rs`: the order of requests and answers of one connection. `rest.rs` is the dialect of
//! `@upstash/redis`, `webdis.rs` that of webdis. Replies are translated piece by piece, so a large value is never held as a whole.
//!
//! A request runs as the user of its bearer token, in its database, and with nothing left over from the request before. So the
//! gateway sends RESET and AUTH where the token differs from that of the last request, and refuses commands that change the
//! connection (`calls.rs`).
//!
//! **Must not know** a socket, a clock, a worker or a topology. All limits are in `limits.rs`.

mod answer;
mod body;
mod calls;
mod connection;
mod head;
mod json;
mod limits;
mod reply;
mod rest;
mod tokens;
mod webdis;

pub use connection::Gateway;
pub use limits::BODY_BYTES_MAX;

/// The form of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// As in Upstash's REST API.
    Rest,
    /// As in webdis.
    Webdis,
}
