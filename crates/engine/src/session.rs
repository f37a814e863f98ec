//! One client's connection: its unread bytes, its place in the order of replies, and what waits to be sent to it.
//!
//! Every request reserves a place when it is read. Replies may come in any order; they leave in the order of the
//! places. A client that has too much pending, or does not read, is not read from until it caught up.

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
    /// Which replies it gets.
    pub mute: Mute,
    /// Bytes that arrived and were not read as requests yet.
    pub input: Input,
    /// Whose connections its requests go over; its features set it.
    pub profile: ProfileId,
    /// It speaks RESP3, as its profile does.
    pub resp3: bool,
    /// What the session does with what comes.
    pub phase: Phase,
    /// Not read from at the moment.
    pub paused: bool,
    /// How far it has come with a large transfer.
    pub pinning: Pinning,
    /// Why its next request is not read yet.
    pub hold: Hold,
    /// A request of it is not read since too much is held.
    pub held_up: bool,
    /// What it holds, as it was counted last.
    pub counted: Counted,
    /// Counted among those that wait for a reply.
    pub is_counted_waiting: bool,
    /// When it last sent something.
    pub active_at: Instant,
    /// What it waits for and what waits for it.
    pub replies: Replies<F::Task>,
    /// Whether its request waits for an element.
    pub wait: Wait,
    /// What features keep of it.
    pub features: F::Session,
}

/// Where a client came from.
#[derive(Debug)]
pub struct Origin {
    /// The client's number, as CLIENT ID tells it.
    pub client: u64,
    /// Its address.
    pub peer: Box<str>,
    /// The address at which it reached us; empty if that is not known.
    pub local: Box<str>,
    /// The number of its socket, for CLIENT LIST.
    pub descriptor: i32,
    /// When it came.
    pub created_at: Instant,
}

/// Bytes of a client that were not read as requests yet.
#[derive(Debug, Default)]
pub struct Input {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where in `bytes` the scan stopped.
    pub scanner: request::Scanner,
    /// When the unfinished request at the start of `bytes` began.
    pub began: Option<Instant>,
    /// A request is left in `bytes` that may be all there: it could not be carried out yet.
    pub has_unread: bool,
    /// The unfinished request is large and cannot be passed on before it is whole.
    pub holds_request: bool,
}

/// What a session holds, as it was counted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Of replies.
    pub bytes: usize,
    /// Of requests that were not read.
    pub unread_bytes: usize,
}

/// Whether a request waits for an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The connection on which it does.
    pub on: Option<LinkIx>,
    /// It is sure that the node has that request.
    pub is_seen: bool,
}

impl Wait {
    /// Whether it does.
    #[inline]
    pub fn is_some(self) -> bool {
        self.on.is_some() || self.is_seen
    }
}

/// What a session does with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Requests are read and answered.
    Open,
    /// The client will send no more, or we drain: what it sent is answered, then it is closed.
    Ending,
    /// No request is read any more; closed as soon as all replies left. With `linger`, the client gets time to read
    /// its last error before the connection goes.
    Closing {
        /// See above.
        linger: bool,
    },
    /// All was sent and our half is shut; what comes is dropped until the client ends or `until`.
    Lingering {
        /// Closed then at the latest.
        until: Instant,
    },
}

/// Which replies a client gets, as CLIENT REPLY set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mute {
    /// All.
    #[default]
    No,
    /// None until further notice.
    Off,
    /// Not the next one.
    Next,
    /// Not that of the request that is being carried out, but those behind it.
    This,
    /// None, but for that of the request that is being carried out.
    Heard,
}

/// How far a session had come before a request whose reply is not wanted.
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

    /// Whether a request of it waits, for an element or for the end of a pause, and may go on to do so when its client
    /// has long gone.
    pub fn is_blocked(&self) -> bool {
        self.wait.is_some() || self.hold.has(Reason::Pause)
    }

    /// Whether it may still get pushes: after its final error it gets none.
    pub fn may_be_told(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Ending)
    }

    /// What is pending goes another way than what follows: nothing more is read before it was answered. Who is pinned
    /// has one request pending at most, and waits for that anyway.
    pub fn turn(&mut self) {
        if self.replies.is_pending() && self.pinning == Pinning::No {
            self.pinning = Pinning::Turning;
        }
    }

    /// To be called before a request is carried out, at least while [`Session::mute`] is not [`Mute::No`].
    #[cold]
    pub fn mark(&mut self) -> Mark {
        if self.mute == Mute::Next {
            self.mute = Mute::This;
        }
        Mark { pending: self.replies.pending.len(), output: self.replies.output.queue.len() }
    }

    /// The request behind `mark` was not carried out yet and will be read again.
    pub fn postpone(&mut self) {
        if self.mute == Mute::This {
            self.mute = Mute::Next;
        }
    }

    /// Drops what the request behind `mark` brought, now or later, unless it changed what the client wants to hear.
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
            Place::Waiting(owed) | Place::Muted(owed) => Place::Muted(*owed),
            Place::Ready(parked) => {
                self.replies.parked_bytes -= parked.as_slice().len();
                Place::Ready(Parked::new(&[], pool))
            }
        };
    }

    /// What the request that is being carried out brings is heard whatever the client wants: a subscription is no reply.
    pub fn speak_up(&mut self) {
        self.mute = match self.mute {
            Mute::Off => Mute::Heard,
            Mute::This => Mute::No,
            mute => mute,
        };
    }

    /// Appends a message behind all replies that are still to come, but for that of a request that waits for an element:
    /// it may be long in coming, or never.
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

    /// Whether it has much waiting and has not taken a byte for long.
    pub fn is_stalled(&self, now: Instant, limits: &Limits) -> bool {
        // Who holds connections of his own keeps others from having some.
        let allowed = if self.pinning.id().is_none() { limits.output_bytes_soft } else { 0 };
        // What it was not offered yet does not stall.
        self.replies.output.blocked
            && self.replies.output.queue.len() > allowed
            && now.since(self.replies.output.moved_at) > limits.output_stall
    }

    /// Whether something is held for it that has not moved for `patience`, and that only it could move.
    pub fn is_stuck(&self, now: Instant, patience: Duration) -> bool {
        let takes_nothing =
            self.replies.output.blocked && now.since(self.replies.output.moved_at) >= patience;
        let sends_nothing =
            !self.input.bytes.is_empty() && !self.paused && now.since(self.active_at) >= patience;
        takes_nothing || sends_nothing
    }

    /// Gives back what an idle client need not own.
    pub fn shrink(&mut self) {
        if self.replies.pending.is_empty() {
            self.replies.pending = VecDeque::new();
        }
        if self.input.bytes.is_empty() {
            self.input.bytes = Vec::new();
        }
    }

    /// Bytes of memory that it holds, beside those of features.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.origin.peer.len()
            + self.origin.local.len()
            + self.input.bytes.capacity()
            + self.replies.output.queue.capacity()
            + self.replies.pending.capacity() * size_of::<Place<F::Task>>()
            + self.replies.parked_bytes
    }

    /// Gives all buffers back and tells whom nobody waits for any more.
    pub fn dismantle(mut self, pool: &mut BufferPool) -> impl Iterator<Item = Owed<F::Task>> + use<F> {
        self.replies.output.queue.clear(pool);
        pool.give(self.input.bytes);
        self.replies.pending.into_iter().filter_map(|place| match place {
            Place::Waiting(owed) | Place::Muted(owed) => Some(owed),
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
        // A request that has to be read again later uses nothing up.
        session.mark();
        session.postpone();
        assert_eq!(session.mute, Mute::Next);
        let mark = session.mark();
        session.replies.answer(b"+first\r\n", &mut pool);
        session.silence(mark, &mut pool);
        assert_eq!((session.replies.output(), session.mute), (&b""[..], Mute::No));
        // The request itself said that the next one is to be left out.
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
