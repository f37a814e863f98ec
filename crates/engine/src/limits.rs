//! The limits of one worker's clients and links, each with its effect.
//!
//! Two of them shape the flow:
//!
//! - Pending requests. Their replies, estimated from the client's recent ones, may fill 1 MiB; at most 1,024 requests
//!   may be pending. Above the limit, the worker does not read from the client until half of them are answered. So a
//!   client gets a thousand large values a few at a time, and a thousand small ones in one go.
//! - Unread replies. A client that does not read is closed once 64 MiB wait for it, as with Redis's
//!   `client-output-buffer-limit`.

use resp::reply::ReplyLimits;
use resp::request::RequestLimits;
use std::time::Duration;
use stdx::Instant;

/// See the module.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Limits of one request.
    pub request: RequestLimits,
    /// Limits of one reply.
    pub reply: ReplyLimits,
    /// Bytes of one request as a whole. A longer request is a protocol error.
    pub request_bytes_max: usize,
    /// Bytes of one reply as a whole. A longer reply closes the link.
    pub reply_bytes_max: usize,
    /// Requests that one client may have pending. Above it, the worker does not read from the client. The core lowers
    /// this limit while several clients wait: see `pending_shared`.
    pub pending_max: usize,
    /// Requests that all clients together may have pending before clients with deep pipelines get less than
    /// `pending_max`. A node answers requests in order, so each request in flight delays all later ones.
    pub pending_shared: usize,
    /// Requests that each client may always have pending; fewer would cost throughput.
    pub pending_min: usize,
    /// Bytes of replies that one client may have pending, estimated from the size of its recent replies. Above it, the
    /// worker does not read from the client. A single reply may be larger.
    pub pending_bytes_max: usize,
    /// Bytes of replies that may wait for one client. Above it, the client is closed, as by Redis's hard
    /// `client-output-buffer-limit normal`. A single reply may be larger.
    pub output_bytes_max: usize,
    /// The soft limit: a client with more bytes waiting that takes none for `output_stall` is closed.
    pub output_bytes_soft: usize,
    /// See `output_bytes_soft`.
    pub output_stall: Duration,
    /// Requests in flight on one link. Above it, requests are refused at once.
    pub in_flight_max: usize,
    /// Bytes that wait to be sent on one link. Above it, requests are refused at once.
    pub link_output_bytes_max: usize,
    /// Bytes of requests and replies that one worker may hold. Above half of it, requests are not read.
    pub memory_bytes_max: usize,
    /// While requests are not read for lack of memory, a client whose bytes have not moved for this time may be closed.
    pub memory_patience: Duration,
    /// Buffers that a worker keeps for later connections: enough for a burst.
    pub spare_buffers_max: usize,
    /// Size of the buffers for requests that wait for one node or may be sent again. A buffer that doubled instead
    /// would be copied and would leave its old memory behind.
    pub piece_bytes_max: usize,
    /// An incomplete request or reply of more bytes is large: it gets a link of its own.
    pub large_bytes: usize,
    /// Clients of one worker that may have pinned links at the same time. Further clients wait.
    pub pinned_clients_max: usize,
    /// Bytes that a client may send behind a request that waits for an element. With more, the worker stops reading
    /// from the client. Only then does it not see the client's end before the request is answered.
    pub waiting_input_bytes_max: usize,
    /// Bytes of a large transfer that may wait for its receiver. Above it, the worker does not read from the sender.
    pub relay_bytes_max: usize,
    /// Bytes of large replies that may be skipped on a shared link within about a second. If more are to come, another
    /// link takes its place. This bounds how long requests wait behind unexpected large replies.
    pub pass_over_bytes_max: usize,
    /// Request timeout on a pinned link. No other client waits behind it, and a node that prepares a large reply is
    /// silent for long.
    pub transfer_timeout: Duration,
    /// A pinned link that was unused for this time is closed.
    pub pinned_idle: Duration,
    /// Time from the decision to connect to a node until its PONG.
    pub connect_timeout: Duration,
    /// Request timeout: the time for which a node may be silent on a link with requests in flight. Requests sent that
    /// long ago are then late, and their outcome is unknown.
    pub request_timeout: Duration,
    /// Number of timeouts after which a request is late, however much its node sends meanwhile.
    pub request_timeouts_max: u32,
    /// The slowest large reply that extends this bound: each second allows for this many more bytes.
    pub transfer_bytes_per_s_min: u64,
    /// A link on which the node was silent for this time gets a PING.
    pub probe_after: Duration,
    /// Wait after the first failed attempt to connect to a node. It doubles up to `backoff_max`, with full jitter.
    pub backoff_min: Duration,
    /// See `backoff_min`.
    pub backoff_max: Duration,
    /// Time for the rest of a request that has begun to arrive, plus a second for each KiB of it.
    pub half_request_timeout: Duration,
    /// Time in which a client may still send after its final error, before the connection closes. An immediate close
    /// would destroy the error on its way.
    pub linger: Duration,
}

/// Larger buffers are freed instead of kept.
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
            // Each piece is one system call, for which the node wakes.
            piece_bytes_max: 1 << 20,
            large_bytes: 64 << 10,
            pinned_clients_max: 32,
            // A few requests, and at most 32 MiB for all clients that wait.
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
    /// Silence after which a link with requests in flight is suspect. At a quarter of the request timeout, the rest is
    /// enough to find out and to send the requests again.
    #[inline]
    pub fn suspect_after(&self) -> Duration {
        self.request_timeout / 4
    }

    /// The instant at which a request with this `deadline` is late despite progress, if its node may be silent for
    /// `silence_max`.
    #[inline]
    pub fn over_at(&self, deadline: Instant, silence_max: Duration) -> Instant {
        deadline + silence_max.saturating_mul(self.request_timeouts_max.saturating_sub(1))
    }

    /// A worker whose turn begins this much later than planned was stopped or overloaded. Events that it missed
    /// meanwhile say nothing about nodes.
    #[inline]
    pub fn stall_min(&self) -> Duration {
        self.request_timeout / 10
    }

    /// The additional time for a transfer of `bytes`.
    #[inline]
    pub fn transfer_time(&self, bytes: usize) -> Duration {
        // In 64 bits: 18 GB are more than is ever held.
        Duration::from_nanos(
            (bytes as u64).saturating_mul(1_000_000_000) / self.transfer_bytes_per_s_min.max(1),
        )
    }
}
