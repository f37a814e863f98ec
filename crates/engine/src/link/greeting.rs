//! The greeting: the first requests on a connection to a node.

use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The requests that precede all others on a connection. They give the connection its profile. The last one is a
/// request that a node answers as soon as it accepts others.
#[derive(Clone)]
pub struct Greeting {
    bytes: Arc<Zeroizing<Vec<u8>>>,
    requests: usize,
    end: End,
}

/// The last request of a greeting, and the reply that shows that further requests may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// PING, answered by PONG.
    Ping,
    /// PING from a user that may not be allowed to send it, or before any login. An error still shows that the node
    /// lives: it will answer each request with its objection.
    PingOfAnybody,
    /// HELLO, which every user may send.
    Hello,
    /// HELLO before any login.
    HelloOfNobody,
    /// None: the connection is never used.
    Never,
}

impl Greeting {
    /// The greeting of a connection that may carry no request.
    pub fn never() -> Greeting {
        Greeting { bytes: Arc::default(), requests: 1, end: End::Never }
    }

    /// A greeting with these `bytes`, which hold `requests` requests.
    pub fn new(bytes: Zeroizing<Vec<u8>>, requests: usize, end: End) -> Greeting {
        Greeting { bytes: Arc::new(bytes), requests, end }
    }

    /// The encoded requests.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of replies to the greeting.
    pub fn replies(&self) -> usize {
        self.requests
    }

    /// Whether `reply`, the last one, shows that requests may follow.
    pub fn is_answered_by(&self, reply: &[u8]) -> bool {
        let says = |word: &[u8]| reply.strip_prefix(b"-").is_some_and(|rest| rest.starts_with(word));
        match self.end {
            End::Ping => reply == PONG,
            End::PingOfAnybody => reply == PONG || says(NO_AUTH) || says(NO_PERMISSION),
            End::Hello => !resp::reply::is_error(reply),
            End::HelloOfNobody => !resp::reply::is_error(reply) || says(NO_AUTH),
            End::Never => false,
        }
    }

    /// Whether clients log in on a connection with this greeting.
    pub fn is_of_nobody(&self) -> bool {
        self.end == End::HelloOfNobody
    }

    /// The request that probes the node on a connection with this greeting.
    pub fn probe(&self) -> &'static [u8] {
        match self.end {
            End::Ping | End::PingOfAnybody => PING,
            End::Hello | End::HelloOfNobody | End::Never => HELLO,
        }
    }
}

/// Hides the bytes, which may contain a password.
impl fmt::Debug for Greeting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} requests", self.requests)
    }
}

/// Probes the node.
pub const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
/// The reply to [`PING`].
pub const PONG: &[u8] = b"+PONG\r\n";
/// Probes the node with a request that every user may send.
pub const HELLO: &[u8] = b"*1\r\n$5\r\nHELLO\r\n";
/// The first words of errors that concern the user and not the node.
const NO_AUTH: &[u8] = b"NOAUTH ";
const NO_PERMISSION: &[u8] = b"NOPERM ";
