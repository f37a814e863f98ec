//! What a connection to a node begins with.

use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// What a connection begins with, before any request: it makes the connection what its profile wants, and ends with a request
/// that a node answers as soon as it takes others.
#[derive(Clone)]
pub struct Greeting {
    bytes: Arc<Zeroizing<Vec<u8>>>,
    requests: usize,
    end: End,
}

/// With what a greeting ends, and what of a node's answers to it shows that requests may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// PING, and PONG.
    Ping,
    /// PING, which the default user may not be allowed to send, or nobody who has not logged in: the node lives
    /// nevertheless, and says to each request what it has against it.
    PingOfAnybody,
    /// HELLO, which all users may send, whatever else they may not.
    Hello,
    /// HELLO, and nobody has logged in yet.
    HelloOfNobody,
    /// Nothing: the connection never comes to be used.
    Never,
}

impl Greeting {
    /// For a connection over which nothing may go.
    pub fn never() -> Greeting {
        Greeting { bytes: Arc::default(), requests: 1, end: End::Never }
    }

    /// One of these `bytes`, which are so many requests.
    pub fn new(bytes: Zeroizing<Vec<u8>>, requests: usize, end: End) -> Greeting {
        Greeting { bytes: Arc::new(bytes), requests, end }
    }

    /// Its wire bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many replies answer it.
    pub fn replies(&self) -> usize {
        self.requests
    }

    /// Whether `reply`, the last of them, shows that requests may follow.
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

    /// Whether clients say on a connection that begins so who they are.
    pub fn is_of_nobody(&self) -> bool {
        self.end == End::HelloOfNobody
    }

    /// The request that asks the node whether it lives, on a connection that began so.
    pub fn probe(&self) -> &'static [u8] {
        match self.end {
            End::Ping | End::PingOfAnybody => PING,
            End::Hello | End::HelloOfNobody | End::Never => HELLO,
        }
    }
}

/// There may be a password in it.
impl fmt::Debug for Greeting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} requests", self.requests)
    }
}

/// Asks whether the node lives.
pub const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
/// It does.
pub const PONG: &[u8] = b"+PONG\r\n";
/// The same, which every user may ask.
pub const HELLO: &[u8] = b"*1\r\n$5\r\nHELLO\r\n";
/// The first words of errors that are about who asks, and not about the node.
const NO_AUTH: &[u8] = b"NOAUTH ";
const NO_PERMISSION: &[u8] = b"NOPERM ";
