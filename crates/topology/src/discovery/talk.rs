//! Conversations with nodes and sentinels: connect, log in, ask, parse replies. Knows no question.
//!
//! A reply has a bound in bytes, and an answer one in time. A peer that sends without end is given up like a silent one.

use crate::Address;
use resp::reply::{ReplyLimits, Scanner, is_error};
use std::collections::VecDeque;
use stdx::{Id, Instant, Slab};

/// The kind of peer: each has passwords and certificates of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// A node.
    Node,
    /// A sentinel.
    Sentinel,
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection and call it `conn`; answered by `Connected` or `Closed`.
    Connect {
        /// Its name from now on.
        conn: Id,
        /// Where.
        address: Address,
        /// To whom.
        party: Party,
    },
    /// Send all of `bytes`.
    Send {
        /// Where.
        conn: Id,
        /// The requests.
        bytes: Vec<u8>,
    },
    /// Close it. No event of it may follow.
    Close {
        /// Which.
        conn: Id,
    },
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The connection is made.
    Connected {
        /// Which.
        conn: Id,
    },
    /// Bytes arrived.
    Received {
        /// Where.
        conn: Id,
        /// At least one.
        bytes: &'a [u8],
    },
    /// The connection is gone, or was never made.
    Closed {
        /// Which.
        conn: Id,
        /// Why.
        reason: &'a str,
    },
}

/// Results of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A complete reply.
    Reply(Vec<u8>),
    /// The conversation is over, for this reason.
    Lost(String),
}

/// First bytes for the peer of a conversation, if any.
#[derive(Clone, Default)]
pub struct Greetings {
    /// For a node.
    pub node: Option<Vec<u8>>,
    /// For a sentinel.
    pub sentinel: Option<Vec<u8>>,
}

/// All conversations.
pub(super) struct Talks {
    talks: Slab<Talk>,
    actions: VecDeque<Action>,
    greetings: Greetings,
}

struct Talk {
    /// Requests that wait for the connection; `None` once it is made.
    waiting: Option<Vec<u8>>,
    /// The reply to the greeting is still to come.
    is_greeting: bool,
    received: Vec<u8>,
    scanner: Scanner,
    /// Time at which it is given up.
    deadline: Instant,
}

/// A cluster of 4,096 nodes describes itself in some 2 MiB, with every slot apart from its neighbours in 4 MiB.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Limits of one reply.
const LIMITS: ReplyLimits =
    ReplyLimits { bulk_bytes_max: REPLY_BYTES_MAX as i64, values_max: 1 << 20, line_bytes_max: 64 * 1024 };

impl Talks {
    pub(super) fn new(greetings: Greetings) -> Talks {
        Talks { talks: Slab::default(), actions: VecDeque::new(), greetings }
    }

    /// Has the conversations to come begin with `greetings`.
    pub(super) fn renew(&mut self, greetings: Greetings) {
        self.greetings = greetings;
    }

    /// Begins one, with `request`.
    pub(super) fn open(&mut self, address: &Address, party: Party, request: &[u8], deadline: Instant) -> Id {
        let greeting = match party {
            Party::Node => self.greetings.node.as_deref(),
            Party::Sentinel => self.greetings.sentinel.as_deref(),
        };
        let is_greeting = greeting.is_some();
        let waiting = Some([greeting.unwrap_or_default(), request].concat());
        let talk = Talk { waiting, is_greeting, received: Vec::new(), scanner: Scanner::default(), deadline };
        let conn = self.talks.insert(talk);
        self.actions.push_back(Action::Connect { conn, address: address.clone(), party });
        conn
    }

    /// Continues with `request`. Nothing happens if the conversation is over.
    pub(super) fn say(&mut self, conn: Id, request: &[u8], deadline: Instant) {
        let Some(talk) = self.talks.get_mut(conn) else { return };
        talk.deadline = deadline;
        match &mut talk.waiting {
            Some(waiting) => waiting.extend_from_slice(request),
            None => self.actions.push_back(Action::Send { conn, bytes: request.to_vec() }),
        }
    }

    /// Nothing is expected before `deadline`.
    pub(super) fn set_deadline(&mut self, conn: Id, deadline: Instant) {
        if let Some(talk) = self.talks.get_mut(conn) {
            talk.deadline = deadline;
        }
    }

    /// Ends one.
    pub(super) fn close(&mut self, conn: Id) {
        if self.talks.remove(conn).is_some() {
            self.actions.push_back(Action::Close { conn });
        }
    }

    /// Handles an event. The results belong to its conversation.
    pub(super) fn handle(&mut self, event: Event<'_>) -> (Id, Vec<Heard>) {
        match event {
            Event::Connected { conn } => {
                if let Some(bytes) = self.talks.get_mut(conn).and_then(|talk| talk.waiting.take())
                    && !bytes.is_empty()
                {
                    self.actions.push_back(Action::Send { conn, bytes });
                }
                (conn, Vec::new())
            }
            Event::Received { conn, bytes } => (conn, self.receive(conn, bytes)),
            Event::Closed { conn, reason } => {
                let known = self.talks.remove(conn).is_some();
                (conn, if known { vec![Heard::Lost(reason.to_owned())] } else { Vec::new() })
            }
        }
    }

    fn receive(&mut self, conn: Id, bytes: &[u8]) -> Vec<Heard> {
        let Some(talk) = self.talks.get_mut(conn) else { return Vec::new() };
        let mut heard = Vec::new();
        let verdict = talk.receive(bytes, &mut heard);
        if let Err(reason) = verdict {
            self.close(conn);
            heard.push(Heard::Lost(reason));
        }
        heard
    }

    /// A conversation whose time is up, which ends it.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Id> {
        let conn = self.ids().find(|&conn| self.deadline_of(conn) <= now)?;
        self.close(conn);
        Some(conn)
    }

    /// The next deadline.
    pub(super) fn deadline(&self) -> Instant {
        self.ids().map(|conn| self.deadline_of(conn)).min().unwrap_or(Instant::NEVER)
    }

    fn ids(&self) -> impl Iterator<Item = Id> {
        (0..self.talks.places()).filter_map(|index| self.talks.id_at(index))
    }

    fn deadline_of(&self, conn: Id) -> Instant {
        self.talks.get(conn).map_or(Instant::NEVER, |talk| talk.deadline)
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

impl Talk {
    /// Adds complete replies to `heard`; an error ends the conversation.
    fn receive(&mut self, bytes: &[u8], heard: &mut Vec<Heard>) -> Result<(), String> {
        self.received.extend_from_slice(bytes);
        while !self.received.is_empty() {
            let scanned = self.scanner.scan(&self.received, &LIMITS);
            let Some(len) = scanned.map_err(|error| error.to_string())? else { break };
            let rest = self.received.split_off(len);
            let reply = std::mem::replace(&mut self.received, rest);
            if !std::mem::take(&mut self.is_greeting) {
                heard.push(Heard::Reply(reply));
            } else if is_error(&reply) {
                return Err(error_text(&reply));
            }
        }
        if self.received.len() > REPLY_BYTES_MAX {
            return Err(format!("its answer has more than {REPLY_BYTES_MAX} bytes"));
        }
        Ok(())
    }
}

/// The text of an error reply.
pub(super) fn error_text(reply: &[u8]) -> String {
    let text = String::from_utf8_lossy(reply);
    text.trim_start_matches(['-', '!']).trim_end().to_owned()
}

impl std::fmt::Debug for Talks {
    /// Leaves out the greetings: passwords are in them.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Talks").field("talks", &self.talks.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address::Tcp { host: "a".to_owned(), port: 1 }
    }

    /// A connected conversation, and the bytes sent in it.
    fn begun(greeting: Option<&[u8]>) -> (Talks, Id, Vec<u8>) {
        let greetings = Greetings { node: greeting.map(<[u8]>::to_vec), sentinel: None };
        let mut talks = Talks::new(greetings);
        let conn = talks.open(&address(), Party::Node, b"ask", Instant::from_nanos(9));
        assert!(matches!(talks.poll_action(), Some(Action::Connect { .. })));
        assert_eq!(talks.poll_action(), None, "nothing is sent before it is there");
        talks.handle(Event::Connected { conn });
        let Some(Action::Send { bytes, .. }) = talks.poll_action() else { panic!("it asks") };
        (talks, conn, bytes)
    }

    fn received(talks: &mut Talks, conn: Id, bytes: &[u8]) -> Vec<Heard> {
        talks.handle(Event::Received { conn, bytes }).1
    }

    #[test]
    fn replies_are_reported_singly_however_they_arrive() {
        let (mut talks, conn, sent) = begun(None);
        assert_eq!(sent, b"ask");
        assert_eq!(received(&mut talks, conn, b"+a\r\n*1\r\n"), [Heard::Reply(b"+a\r\n".to_vec())]);
        let rest = [Heard::Reply(b"*1\r\n:1\r\n".to_vec()), Heard::Reply(b":2\r\n".to_vec())];
        assert_eq!(received(&mut talks, conn, b":1\r\n:2\r\n"), rest);
    }

    #[test]
    fn later_conversations_begin_with_the_renewed_greeting() {
        let (mut talks, _, _) = begun(Some(b"AUTH x"));
        talks.renew(Greetings { node: Some(b"AUTH y".to_vec()), sentinel: Some(b"AUTH z".to_vec()) });
        for (party, greeting) in [(Party::Node, "AUTH yask"), (Party::Sentinel, "AUTH zask")] {
            let conn = talks.open(&address(), party, b"ask", Instant::from_nanos(9));
            assert!(matches!(talks.poll_action(), Some(Action::Connect { .. })));
            talks.handle(Event::Connected { conn });
            assert_eq!(talks.poll_action(), Some(Action::Send { conn, bytes: greeting.as_bytes().to_vec() }));
        }
    }

    #[test]
    fn a_greeting_goes_first_and_its_reply_is_its_own() {
        let (mut talks, conn, sent) = begun(Some(b"AUTH x"));
        assert_eq!(sent, b"AUTH xask");
        assert_eq!(received(&mut talks, conn, b"+OK\r\n:1\r\n"), [Heard::Reply(b":1\r\n".to_vec())]);
        let (mut talks, conn, _) = begun(Some(b"AUTH x"));
        let heard = received(&mut talks, conn, b"-WRONGPASS no\r\n:1\r\n");
        assert_eq!(heard, [Heard::Lost("WRONGPASS no".to_owned())]);
        assert_eq!(talks.poll_action(), Some(Action::Close { conn }));
    }

    #[test]
    fn endless_and_senseless_replies_end_it() {
        let (mut talks, conn, _) = begun(None);
        let chunk = vec![b'x'; 1 << 20];
        assert_eq!(received(&mut talks, conn, format!("${}\r\n", 16 << 20).as_bytes()), []);
        let lost = (0..17).flat_map(|_| received(&mut talks, conn, &chunk)).next().expect("it ends");
        assert!(matches!(lost, Heard::Lost(reason) if reason.contains("16777216")));
        for bytes in [&b"HTTP/1.1 400\r\n"[..], b"$99999999\r\n", b"*9999999\r\n"] {
            let (mut talks, conn, _) = begun(None);
            assert!(matches!(received(&mut talks, conn, bytes)[..], [Heard::Lost(_)]), "{bytes:?}");
        }
    }

    #[test]
    fn a_late_peer_is_given_up_and_ignored() {
        let (mut talks, conn, _) = begun(None);
        assert_eq!((talks.deadline(), talks.expire(Instant::from_nanos(8))), (Instant::from_nanos(9), None));
        assert_eq!(talks.expire(Instant::from_nanos(9)), Some(conn));
        assert_eq!((talks.deadline(), talks.poll_action()), (Instant::NEVER, Some(Action::Close { conn })));
        assert_eq!(received(&mut talks, conn, b"+late\r\n"), []);
    }
}
