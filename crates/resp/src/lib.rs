//! RESP syntax without IO: where a request or a reply ends, what the arguments are, how replies are written.
//!
//! ```text
//!     bytes of a client ─► request::Scanner ─► Request { bytes, args }       inline::… for lines that people type
//!     bytes of a node ───► reply::Scanner ───► length of one reply           encode::… writes requests and replies
//! ```
//!
//! Begin with [`request::Scanner`], the [`Request`] that its spans make, and [`reply::Scanner`].
//!
//! ```
//! use resp::Request;
//! use resp::request::{RequestLimits, Scanned, Scanner};
//!
//! let bytes = b"*2\r\n$3\r\nGET\r\n$6\r\nuser:1\r\n*1\r\n";
//! let (mut spans, mut inline) = (Vec::new(), Vec::new());
//! let scanned = Scanner::default().scan(bytes, &RequestLimits::default(), &mut spans, &mut inline);
//! assert_eq!(scanned, Ok(Scanned::Request { len: 25 }));
//! assert_eq!(Request::new(&bytes[..25], &spans).arg(1), b"user:1");
//! ```
//!
//! The scanners are resumable (bytes may arrive one at a time), allocate nothing by an announced size and never recurse. Where
//! Redis has words for a refusal, the refusal has Redis's words.
//!
//! **Stricter than Redis.** A proxy that frames bytes by another rule than the node lets a client smuggle requests. Some inputs
//! therefore end the connection with a protocol error, where Redis goes on. They are a CR without LF behind a header, a body
//! without CR LF at its end, and a NUL byte in an inline request.
//!
//! More than 1,048,576 arguments are refused (Redis 7.0: 2^31-1). Lines are bounded by exactly 64 KiB; in Redis the bound
//! depends on how packets were cut.
//!
//! **Must not know** a command, a shard or a socket. No crate of ours is a dependency, and the root's `clippy.toml` forbids clocks,
//! threads and sockets.

pub mod encode;
pub mod inline;
pub mod integer;
pub mod reply;
pub mod request;

pub use request::{Request, Span};
