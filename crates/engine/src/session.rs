//! One client's connection: its unread bytes, its place in the order of replies, and the bytes to send to it.
//!
//! Every request reserves a place when it is read. Replies arrive in any order and leave in the order of the places. If
//! a client has too much pending, or does not read, the worker does not read from it until it has caught up.

pub mod filter;
pub mod hold;
pub mod pinning;
pub mod replies;

use crate::ConnId;
use crate::event::Arrival;
use crate::features::Features;
use crate::limits::Limits;
use crate::link::LinkIx;
use crate::link::profile::ProfileId;
pub use crate::session::hold::{Hold, Reason};
use crate::session::pinning::Pinning;
pub use crate::session::replies::is_behind;
use crate::session::replies::{Owed, Parked, Place, Replies};
use resp::request;
use std::collections::VecDeque;
use std::time::Duration;
use stdx::{BufferPool, Instant};

/// Our state for one client connection.
#[derive(Debug)]
pub struct Session<F: Features> {
    /// Its connection.
    pub conn: ConnId,
    /// Where it came from.
    pub origin: Origin,
    /// The replies that it gets.
    pub mute: Mute,
    /// Bytes that arrived and were not read as requests yet.
    pub input: Input,
    /// The profile of the links for its requests. Features set it.
    pub profile: ProfileId,
    /// Whether it speaks RESP3, as its profile does.
    pub resp3: bool,
    /// Whether requests are read, and how the session ends.
    pub phase: Phase,
    /// Whether reading has stopped at the moment.
    pub paused: bool,
    /// Progress of a large transfer.
    pub pinning: Pinning,
    /// Reasons not to read its next request yet.
    pub hold: Hold,
    /// Whether a request is not read for lack of memory.
    pub held_up: bool,
    /// Memory in use, as it was counted last.
    pub counted: Counted,
    /// Whether it is counted among the clients that wait for a reply.
    pub is_counted_waiting: bool,
    /// The instant at which it last sent bytes.
    pub active_at: Instant,
    /// Replies to come, and bytes to send.
    pub replies: Replies<F::Task>,
    /// Whether its request waits for an element.
    pub wait: Wait,
    /// State of features.
    pub features: F::Session,
}

/// The origin of a client.
#[derive(Debug)]
pub struct Origin {
    /// The client's number, as in CLIENT ID.
    pub client: u64,
    /// Its address.
    pub peer: Box<str>,
    /// The local address of the connection; empty if unknown.
    pub local: Box<str>,
    /// The number of its socket, for CLIENT LIST.
    pub descriptor: i32,
    /// The number of its listener.
    pub listener: u16,
    /// The instant of its arrival.
    pub created_at: Instant,
}

/// Bytes of a client that were not read as requests yet.
#[derive(Debug)]
pub struct Input {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The offset in `bytes` at which the scan stopped.
    pub scanner: request::Scanner,
    /// The instant at which the unfinished request at the start of `bytes` began; [`Instant::NEVER`] without one.
    pub began: Instant,
    /// A request is left in `bytes`, perhaps all of it, because it could not be carried out yet.
    pub has_unread: bool,
    /// The unfinished request is large and cannot be passed on before it is whole.
    pub holds_request: bool,
    /// The wait of requests in `bytes`, for reports; `None` if none has waited lately.
    pub wait: Option<Box<InputWait>>,
}

impl Default for Input {
    fn default() -> Input {
        Input {
            bytes: Vec::new(),
            scanner: request::Scanner::default(),
            began: Instant::NEVER,
            has_unread: false,
            holds_request: false,
            wait: None,
        }
    }
}

impl Input {
    /// Notes that a whole request waits in `bytes` from `now` on, unless one does already.
    pub fn begin_wait(&mut self, now: Instant) {
        self.wait.get_or_insert_default().since.get_or_insert(now);
    }

    /// Notes that the requests of the places from `first` up to `end` were read from `bytes` at `now`.
    pub fn note_read(&mut self, (first, end): (u32, u32), now: Instant) {
        if let Some(wait) = &mut self.wait {
            wait.note_read((first, end), now);
            // The rest is as old as they were.
            wait.since = wait.since.filter(|_| self.has_unread);
        }
        if self.has_unread {
            self.begin_wait(now);
        }
    }

    /// The wait of the request at `place` before it was read, in microseconds. `None` if it is so old that others have waited
    /// since.
    pub fn wait_us(&self, place: u32) -> Option<u32> {
        self.wait.as_ref().map_or(Some(0), |wait| wait.of(place))
    }
}

/// Whole requests that were not read at once, and the wait of the last ones that were read later.
#[derive(Clone, Copy, Debug, Default)]
pub struct InputWait {
    /// The instant since which a whole request waits; `None` if none does.
    since: Option<Instant>,
    /// The first place of the last requests that had waited, the place behind them, and their wait in microseconds.
    last: Option<(u32, u32, u32)>,
}

impl InputWait {
    /// Notes that the requests of the places from `first` up to `end` were read at `now`.
    fn note_read(&mut self, (first, end): (u32, u32), now: Instant) {
        if let Some(since) = self.since
            && first != end
        {
            let wait_us = now.since(since).as_micros().min(u128::from(u32::MAX)) as u32;
            self.last = Some((first, end, wait_us));
        }
    }

    fn of(&self, place: u32) -> Option<u32> {
        match self.last {
            None => Some(0),
            Some((first, ..)) if is_behind(first, place) => None,
            Some((_, end, wait_us)) if is_behind(end, place) => Some(wait_us),
            Some(_) => Some(0),
        }
    }
}

/// Memory in use by a session, as it was counted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes of replies.
    pub bytes: usize,
    /// Bytes of requests that were not read.
    pub unread_bytes: usize,
}

/// Whether a request waits for an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The link on which it waits.
    pub on: Option<LinkIx>,
    /// Whether the node certainly has the request.
    pub is_seen: bool,
}

impl Wait {
    /// Whether a request waits.
    #[inline]
    pub fn is_some(self) -> bool {
        self.on.is_some() || self.is_seen
    }
}

/// Whether a session reads requests, and how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Requests are read and answered.
    Open,
    /// The client will send no more, or this process drains. Its requests are answered, then the session is closed.
    Ending,
    /// No request is read. The session is closed as soon as all replies have left. With `linger`, the client gets time
    /// to read its last error before the connection closes.
    Closing {
        /// See above.
        linger: bool,
    },
    /// All bytes were sent and our sending half is closed. Input is dropped until the client ends or `until`.
    Lingering {
        /// The latest instant at which the session is closed.
        until: Instant,
    },
}

/// The replies that a client gets, as set by CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mute {
    /// All replies.
    #[default]
    No,
    /// No replies until further notice.
    Off,
    /// No reply to the next request.
    Next,
    /// No reply to the request that is being carried out, but to later ones.
    This,
    /// No replies, except to the request that is being carried out.
    Heard,
}

/// The state of a session before a request whose reply is not wanted.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pending: usize,
    output: usize,
}

impl<F: Features> Session<F> {
    /// A session for a client that has just arrived.
    pub fn new(conn: ConnId, client: u64, arrival: &Arrival<'_>, now: Instant) -> Session<F> {
        Session {
            conn,
            origin: Origin {
                client,
                peer: arrival.peer.into(),
                local: arrival.local.into(),
                descriptor: arrival.descriptor,
                listener: arrival.listener,
                created_at: now,
            },
            mute: Mute::No,
            input: Input::default(),
            profile: ProfileId::FIRST,
            resp3: false,
            phase: Phase::Open,
            paused: false,
            pinning: Pinning::No,
            hold: Hold::default(),
            held_up: false,
            counted: Counted::default(),
            is_counted_waiting: false,
            active_at: now,
            replies: Replies::new(now),
            wait: Wait::default(),
            features: F::Session::default(),
        }
    }

    /// Whether the next request may be read.
    #[inline]
    pub fn may_read(&self, limits: &Limits) -> bool {
        let open = matches!(self.phase, Phase::Open | Phase::Ending);
        let has_room = match self.pinning {
            Pinning::No => self.replies.has_window_for_next(limits),
            Pinning::Ready(_) | Pinning::Turning => !self.replies.is_pending(),
            Pinning::Waiting(_) | Pinning::Busy(_) => false,
        };
        open && has_room && self.hold.is_empty() && self.replies.held_bytes() < limits.pending_bytes_max
    }

    /// Whether a request waits for an element or for the end of a pause. Such a request may go on waiting long after
    /// its client has gone.
    pub fn is_blocked(&self) -> bool {
        self.wait.is_some() || self.hold.has(Reason::Pause)
    }

    /// Whether it may still get pushes. After its final error it gets none.
    pub fn may_be_told(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Ending)
    }

    /// Stops reading until all pending requests are answered, because later ones take another way. A pinned client
    /// needs no stop: it has at most one request pending and waits for its reply anyway.
    pub fn turn(&mut self) {
        if self.replies.is_pending() && self.pinning == Pinning::No {
            self.pinning = Pinning::Turning;
        }
    }

    /// Notes the state before a request. To be called before each request while [`Session::mute`] is not [`Mute::No`].
    #[cold]
    pub fn mark(&mut self) -> Mark {
        if self.mute == Mute::Next {
            self.mute = Mute::This;
        }
        Mark { pending: self.replies.pending.len(), output: self.replies.output.queue.len() }
    }

    /// Notes that the request after `mark` was not carried out and will be read again.
    pub fn postpone(&mut self) {
        if self.mute == Mute::This {
            self.mute = Mute::Next;
        }
    }

    /// Drops the replies, present and future, of the request after `mark`, unless the request has changed `mute`.
    #[cold]
    pub fn silence(&mut self, mark: Mark, pool: &mut BufferPool) {
        match self.mute {
            Mute::No | Mute::Next => return,
            Mute::Heard => return self.mute = Mute::Off,
            Mute::This => self.mute = Mute::No,
            Mute::Off => {}
        }
        self.replies.output.queue.truncate(mark.output, pool);
        if self.replies.pending.len() == mark.pending {
            return;
        }
        let Some(place) = self.replies.pending.back_mut() else { return };
        *place = match place {
            Place::Waiting(owed) | Place::Muted(owed) | Place::Filtered(owed) => Place::Muted(*owed),
            Place::Ready(parked) => {
                self.replies.parked_bytes -= parked.as_slice().len();
                Place::Ready(Parked::new(&[], pool))
            }
        };
    }

    /// Has the client get the replies of the present request whatever its mute says. A subscription is no reply.
    pub fn speak_up(&mut self) {
        self.mute = match self.mute {
            Mute::Off => Mute::Heard,
            Mute::This => Mute::No,
            mute => mute,
        };
    }

    /// Appends a message behind all pending replies. It does not wait for the reply to a request that waits for an
    /// element, which may never come.
    pub fn push_behind(&mut self, message: &[u8], pool: &mut BufferPool) {
        if self.wait.is_some() {
            return self.replies.push(message, pool);
        }
        if self.replies.is_pending() {
            self.replies.raise_barrier(self.replies.next_place());
        }
        self.replies.answer(message, pool);
    }

    /// The driver took `count` bytes of the output.
    pub fn handle_sent(&mut self, count: usize, now: Instant, pool: &mut BufferPool) {
        self.replies.output.blocked = count < self.replies.output.queue.len();
        self.replies.output.queue.consume(count, pool);
        if count > 0 || self.replies.output.queue.is_empty() {
            self.replies.output.moved_at = now;
        }
    }

    /// Whether much waits for the client and it has taken no byte for long.
    pub fn is_stalled(&self, now: Instant, limits: &Limits) -> bool {
        // A client with pinned links keeps other clients from getting some.
        let allowed = if self.pinning.id().is_none() { limits.output_bytes_soft } else { 0 };
        // Bytes that were not offered to the socket yet are not stalled.
        self.replies.output.blocked
            && self.replies.output.queue.len() > allowed
            && now.since(self.replies.output.moved_at) > limits.output_stall
    }

    /// Whether it holds memory that has not moved for `patience` and that only the client could free.
    pub fn is_stuck(&self, now: Instant, patience: Duration) -> bool {
        let takes_nothing =
            self.replies.output.blocked && now.since(self.replies.output.moved_at) >= patience;
        let sends_nothing =
            !self.input.bytes.is_empty() && !self.paused && now.since(self.active_at) >= patience;
        takes_nothing || sends_nothing
    }

    /// Frees the buffers that an idle client does not need.
    pub fn shrink(&mut self) {
        if self.replies.pending.is_empty() {
            self.replies.pending = VecDeque::new();
        }
        if self.input.bytes.is_empty() {
            self.input.bytes = Vec::new();
            self.input.wait = None;
        }
    }

    /// Memory in use, without that of features.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.origin.peer.len()
            + self.origin.local.len()
            + self.input.bytes.capacity()
            + self.input.wait.as_ref().map_or(0, |wait| size_of_val(&**wait))
            + self.replies.output.queue.capacity()
            + self.replies.pending.capacity() * size_of::<Place<F::Task>>()
            + self.replies.parked_bytes
    }

    /// Gives all buffers back and returns the sources of replies that are no longer awaited.
    pub fn dismantle(mut self, pool: &mut BufferPool) -> impl Iterator<Item = Owed<F::Task>> + use<F> {
        self.replies.output.queue.clear(pool);
        pool.give(self.input.bytes);
        self.replies.pending.into_iter().filter_map(|place| match place {
            Place::Waiting(owed) | Place::Muted(owed) | Place::Filtered(owed) => Some(owed),
            Place::Ready(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::None;

    fn session() -> (Session<None>, BufferPool) {
        let conn = ConnId { index: 0, generation: 0 };
        (Session::new(conn, 1, &Arrival::of("test"), Instant::ZERO), BufferPool::new(16, 1 << 20))
    }

    #[test]
    fn a_given_up_request_takes_parked_messages_along() {
        let (mut session, mut pool) = session();
        session.replies.reserve(Owed::Node);
        session.replies.raise_barrier(session.replies.front() + 1);
        session.replies.push(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n", &mut pool);
        assert_eq!(session.replies.parked().0, 1, "it is parked behind the request");
        session.replies.forget_pending();
        assert_eq!(session.replies.parked(), (0, 0));
        assert!(session.replies.is_quiet());
    }

    #[test]
    fn replies_leave_in_the_order_of_their_requests() {
        let (mut session, mut pool) = session();
        let numbers: Vec<u32> = (0..3).map(|_| session.replies.reserve(Owed::Node)).collect();
        session.replies.answer(b"+local\r\n", &mut pool);
        session.replies.settle(numbers[2], b"+third, and too long to be kept in place\r\n", &mut pool);
        assert_eq!(session.replies.output(), b"");
        session.replies.settle(numbers[0], b"+first\r\n", &mut pool);
        assert_eq!(session.replies.output(), b"+first\r\n");
        session.replies.settle(numbers[1], b"+second\r\n", &mut pool);
        let all = "+first\r\n+second\r\n+third, and too long to be kept in place\r\n+local\r\n";
        assert_eq!(session.replies.output(), all.as_bytes());
        assert_eq!(session.replies.pending.len(), 0);
    }

    #[test]
    fn suppressed_replies_are_dropped_wherever_they_wait() {
        let (mut session, mut pool) = session();
        let first = session.replies.reserve(Owed::Node);
        session.mute = Mute::Off;
        let mark = session.mark();
        let second = session.replies.reserve(Owed::Node);
        session.silence(mark, &mut pool);
        let mark = session.mark();
        session.replies.answer(b"+a local reply that needs a buffer of its own\r\n", &mut pool);
        session.silence(mark, &mut pool);
        assert_eq!(session.replies.parked(), (1, 0));
        session.replies.settle(second, b"+second\r\n", &mut pool);
        session.replies.settle(first, b"+first\r\n", &mut pool);
        assert_eq!(session.replies.output(), b"+first\r\n");
        let mark = session.mark();
        session.replies.answer(b"+third\r\n", &mut pool);
        session.silence(mark, &mut pool);
        assert_eq!(session.replies.output(), b"+first\r\n");
        assert!(!session.replies.is_pending());
    }

    #[test]
    fn one_reply_is_left_out_and_the_next_is_not() {
        let (mut session, mut pool) = session();
        session.mute = Mute::Next;
        // A request that is read again later does not use up the mute.
        session.mark();
        session.postpone();
        assert_eq!(session.mute, Mute::Next);
        let mark = session.mark();
        session.replies.answer(b"+first\r\n", &mut pool);
        session.silence(mark, &mut pool);
        assert_eq!((session.replies.output(), session.mute), (&b""[..], Mute::No));
        // The request itself mutes the next one.
        session.mute = Mute::Next;
        let mark = session.mark();
        session.mute = Mute::Next;
        session.silence(mark, &mut pool);
        assert_eq!(session.mute, Mute::Next);
    }

    #[test]
    fn numbers_wrap_around_without_harm() {
        let (mut session, mut pool) = session();
        session.replies.front = u32::MAX;
        let (last, first) = (session.replies.reserve(Owed::Node), session.replies.reserve(Owed::Node));
        assert_eq!((last, first), (u32::MAX, 0));
        session.replies.settle(first, b"+b\r\n", &mut pool);
        session.replies.settle(last, b"+a\r\n", &mut pool);
        assert_eq!(session.replies.output(), b"+a\r\n+b\r\n");
    }

    #[test]
    fn large_replies_narrow_the_window_and_small_ones_widen_it() {
        let (mut session, mut pool) = session();
        let limits = Limits::default();
        assert!(session.replies.has_window(64, &limits) && !session.replies.has_window(65, &limits));
        let large = vec![b'x'; 200_000];
        for _ in 0..40 {
            let number = session.replies.reserve(Owed::Node);
            session.replies.settle(number, &large, &mut pool);
        }
        assert!(session.replies.expects_large(&limits) && !session.replies.has_window(2, &limits));
        assert!(!session.may_read(&limits));
        for _ in 0..80 {
            let number = session.replies.reserve(Owed::Node);
            session.replies.settle(number, b"+OK\r\n", &mut pool);
        }
        assert!(session.replies.has_window(limits.pending_max, &limits));
    }

    #[test]
    fn an_idle_session_owns_no_buffers() {
        let (mut session, mut pool) = session();
        let number = session.replies.reserve(Owed::Node);
        session.replies.settle(number, b"+OK\r\n", &mut pool);
        session.handle_sent(5, Instant::ZERO, &mut pool);
        session.shrink();
        assert_eq!(
            (
                session.replies.output_capacity(),
                session.replies.pending.capacity(),
                session.input.bytes.capacity()
            ),
            (0, 0, 0)
        );
    }
}
