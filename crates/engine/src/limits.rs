//! The bounds of one worker's clients and links, each with what happens when it is reached.
//!
//! Two of them shape the flow:
//!
//! - A client may have as many requests pending as fill 1 MiB with replies of the size that it got lately, 1,024 at most. Above that
//!   it is not read from until it caught up half-way. So a client that asks for a thousand large values gets them a few at a time, and
//!   one that asks for a thousand small ones in one go.
//! - A client that does not read is closed with 64 MiB waiting for it, as Redis's `client-output-buffer-limit` would.

use resp::reply::ReplyLimits;
use resp::request::RequestLimits;
use std::time::Duration;
use stdx::Instant;

/// See the module.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bounds on one request.
    pub request: RequestLimits,
    /// Bounds on one reply.
    pub reply: ReplyLimits,
    /// Bytes of one request as a whole. More is a protocol error.
    pub request_bytes_max: usize,
    /// Bytes of one reply as a whole. More closes the connection to the node.
    pub reply_bytes_max: usize,
    /// Requests of one client that may be pending at once. Above it the client is not read from. The core lowers it
    /// while several clients wait: see `pending_shared`.
    pub pending_max: usize,
    /// Requests of all clients together that may be pending before those with deep pipelines get less than
    /// `pending_max`: a node works through what is in flight in order, so that each of them makes all others wait.
    pub pending_shared: usize,
    /// But so many of each client may always be pending: fewer would cost throughput.
    pub pending_min: usize,
    /// Bytes of replies that one client may have on the way, estimated from the size of its last replies. Above it
    /// the client is not read from. A single reply may be larger.
    pub pending_bytes_max: usize,
    /// Replies that wait for one client in bytes. Above it the client is closed: Redis's
    /// `client-output-buffer-limit normal`, hard. One single reply may be larger.
    pub output_bytes_max: usize,
    /// The soft limit: with more than this waiting, a client that takes not one byte for `output_stall` is closed.
    pub output_bytes_soft: usize,
    /// See `output_bytes_soft`.
    pub output_stall: Duration,
    /// Requests in flight to one node over one connection. Above it requests are refused at once.
    pub in_flight_max: usize,
    /// Bytes that wait to be sent to one node. Above it requests are refused at once.
    pub link_output_bytes_max: usize,
    /// Bytes of requests and replies that one worker may hold. Above half of it requests are not read.
    pub memory_bytes_max: usize,
    /// While requests are not read since too much is held, a client that has not moved what it holds for so long may be
    /// closed.
    pub memory_patience: Duration,
    /// Buffers that a worker keeps for its next connections: enough for a burst.
    pub spare_buffers_max: usize,
    /// Requests that wait for one node, or that it may be asked again, lie in pieces of so many bytes: a buffer that
    /// doubles for more would be copied, and leave as much as it holds behind.
    pub piece_bytes_max: usize,
    /// A request or reply of more bytes, of which not all have come, is large: it gets a connection of its own.
    pub large_bytes: usize,
    /// Clients of one worker that may have connections of their own at once. More wait in line.
    pub pinned_clients_max: usize,
    /// Bytes that a client may send behind a request that waits for an element. With more, it is not read from: only then
    /// its end is not seen before it was answered.
    pub waiting_input_bytes_max: usize,
    /// Bytes of a large transfer that may wait for its receiver: above it no more is read from its sender.
    pub relay_bytes_max: usize,
    /// Bytes of large replies that may be passed over on a shared connection within a second or so; with more to come,
    /// another takes its place. It bounds how long others wait behind large replies that nobody expected.
    pub pass_over_bytes_max: usize,
    /// The same as `request_timeout` on a connection of a client's own. Nobody else waits behind it, and a node that puts a
    /// large reply together is silent for long.
    pub transfer_timeout: Duration,
    /// A pinned connection that nobody has used for so long is closed.
    pub pinned_idle: Duration,
    /// From the wish to connect to a node to its PONG.
    pub connect_timeout: Duration,
    /// How long a node may be silent on a connection on which something is in flight. Then what was sent so long ago is
    /// late: its outcome is unknown.
    pub request_timeout: Duration,
    /// A request that was sent is late after so many timeouts, however much its node sends meanwhile.
    pub request_timeouts_max: u32,
    /// The slowest reply for which that is put off: one of so many bytes gets a second more.
    pub transfer_bytes_per_s_min: u64,
    /// A connection to a node that was silent for this long is asked for a PONG.
    pub probe_after: Duration,
    /// First wait after a failed attempt to connect to a node; doubles up to `backoff_max`, with full jitter.
    pub backoff_min: Duration,
    /// See `backoff_min`.
    pub backoff_max: Duration,
    /// Time for a request that has begun to arrive, plus a second for each KiB of it.
    pub half_request_timeout: Duration,
    /// How long a client that was told of its error may still send before the connection goes away; closing at once
    /// would destroy the error text on its way.
    pub linger: Duration,
}

/// Larger buffers are freed and not kept for the next.
pub const SPARE_BUFFER_BYTES_MAX: usize = 64 << 10;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request: RequestLimits::default(),
            reply: ReplyLimits::default(),
            request_bytes_max: 1 << 30,
            reply_bytes_max: 1 << 30,
            pending_max: 1024,
            pending_shared: 1024,
            pending_min: 128,
            pending_bytes_max: 1 << 20,
            output_bytes_max: 64 << 20,
            output_bytes_soft: 16 << 20,
            output_stall: Duration::from_secs(30),
            in_flight_max: 1 << 16,
            link_output_bytes_max: 64 << 20,
            memory_bytes_max: 1 << 30,
            memory_patience: Duration::from_secs(2),
            spare_buffers_max: 256,
            // Each is one system call, for which the node wakes.
            piece_bytes_max: 1 << 20,
            large_bytes: 64 << 10,
            pinned_clients_max: 32,
            // A few requests, and no more than 32 MiB for all who wait.
            waiting_input_bytes_max: 16 << 10,
            relay_bytes_max: 128 << 10,
            pass_over_bytes_max: 1 << 20,
            transfer_timeout: Duration::from_secs(10),
            pinned_idle: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(1),
            request_timeouts_max: 10,
            transfer_bytes_per_s_min: 16 << 20,
            probe_after: Duration::from_secs(5),
            backoff_min: Duration::from_millis(10),
            backoff_max: Duration::from_secs(1),
            half_request_timeout: Duration::from_secs(30),
            linger: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// After a silence of this a connection with something in flight is suspect. A quarter of a request's time leaves the
    /// others to find out and to ask again.
    #[inline]
    pub fn suspect_after(&self) -> Duration {
        self.request_timeout / 4
    }

    /// When a request that is not late before `deadline` is late, whatever comes, if its node may be silent for `silence_max`.
    #[inline]
    pub fn over_at(&self, deadline: Instant, silence_max: Duration) -> Instant {
        deadline + silence_max.saturating_mul(self.request_timeouts_max.saturating_sub(1))
    }

    /// A worker that comes so much later to its turn than it wished was itself stopped, or had too much to do: what it did not
    /// see meanwhile says nothing about nodes.
    #[inline]
    pub fn stall_min(&self) -> Duration {
        self.request_timeout / 10
    }

    /// How much longer than others a transfer of `bytes` may take.
    #[inline]
    pub fn transfer_time(&self, bytes: usize) -> Duration {
        // In 64 bits: 18 GB are more than is held.
        Duration::from_nanos(
            (bytes as u64).saturating_mul(1_000_000_000) / self.transfer_bytes_per_s_min.max(1),
        )
    }
}
