//! Limits of one connection.

/// Bytes of a request line with all headers.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers of one request.
pub(crate) const HEADERS_MAX: usize = 64;
/// Bytes of a request body.
pub const BODY_BYTES_MAX: usize = 16 << 20;
/// Commands of one request.
pub(crate) const COMMANDS_MAX: usize = 10_000;
/// Requests of a connection whose answers are not complete. More of them wait unread.
pub(crate) const PENDING_MAX: usize = 64;
/// Bytes of an answer that wait for the client. The session keeps what comes above that.
pub(crate) const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Bytes of an answer body from which it is sent in chunks.
pub(crate) const CHUNK_BYTES_MIN: usize = 16 << 10;
/// Bytes of replies that are translated at once. JSON has at most six bytes for one.
pub(crate) const PIECE_BYTES_MAX: usize = 16 << 10;
/// Bytes of one line of a reply.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;
/// Arrays within arrays in a reply.
pub(crate) const DEPTH_MAX: usize = 128;
