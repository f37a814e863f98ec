//! One client's connection: its unread bytes, its place in the order of replies, and what waits to be sent to it.
//!
//! Every request reserves a place when it is read. Replies may come in any order; they leave in the order of the
//! places. A client that has too much pending, or does not read, is not read from until it caught up.

pub(crate) mod hold;

use crate::ConnId;
use crate::event::Arrival;
use crate::held::Watch;
use crate::limits::Limits;
use crate::link::LinkIx;
use crate::link::pinned::Pinning;
use crate::link::profiles::ProfileId;
use crate::login::Login;
use crate::memory::Charge;
use crate::pubsub::audience::Receivers;
use crate::pubsub::subscriptions::Subscribed;
use crate::reading::replicas::Reads;
pub(crate) use crate::session::hold::{Hold, Reason};
use crate::tracking::Tracking;
use crate::transaction::Transaction;
use crate::walk;
use command::Number;
use resp::reply::is_push;
use resp::request;
use std::collections::VecDeque;
use std::time::Duration;
use stdx::{BufferPool, ByteQueue, Id, Instant, append};

/// Our state for one client connection.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its connection.
    pub conn: ConnId,
    /// Its number, as CLIENT ID tells it.
    pub client: u64,
    /// Its address.
    pub peer: Box<str>,
    /// The address at which it reached us; empty if that is not known.
    pub local: Box<str>,
    /// The number of its socket, for CLIENT LIST.
    pub descriptor: i32,
    /// What it asked for last.
    pub last: Number,
    /// Which replies it gets.
    pub mute: Mute,
    /// What it asked for and we only remember.
    pub wishes: Wishes,
    /// What it is subscribed to, or sees beside its replies, if anything.
    pub subscribed: Option<Box<Subscribed>>,
    /// When it came.
    pub created_at: Instant,
    /// As CLIENT SETNAME set it, if it did.
    pub name: Option<Box<Name>>,
    /// Who it is.
    pub login: Login,
    /// Bytes that arrived and were not read as requests yet.
    pub input: Vec<u8>,
    /// Where in `input` the scan stopped.
    pub scanner: request::Scanner,
    /// Whose connections its requests go over; [`crate::core::Core::change_profile`] sets it.
    pub profile: ProfileId,
    /// It speaks RESP3, as its profile does.
    pub resp3: bool,
    /// What the session does with what comes.
    pub phase: Phase,
    /// Not read from at the moment.
    pub paused: bool,
    /// A request is left in `input` that may be all there: it could not be carried out yet.
    pub has_unread: bool,
    /// How far it has come with a large transfer.
    pub pinning: Pinning,
    /// Why its next request is not read yet.
    pub hold: Hold,
    /// A request of it is not read since too much is held.
    pub held_up: bool,
    /// What it holds, as it was counted last.
    pub counted_bytes: usize,
    /// What of its requests was not read, as it was counted last.
    pub counted_unread_bytes: usize,
    /// Its unfinished request is large and cannot be passed on before it is whole.
    pub holds_request: bool,
    /// The driver took less than it was offered and has not yet said that it takes more.
    pub blocked: bool,
    /// Listed for sending in this turn.
    pub listed: bool,
    /// What waits for it was held once, so that more could come: see `cork.rs`.
    pub is_corked: bool,
    /// The log was told that a request of it was refused with CROSSSLOT.
    pub is_cross_slot_told: bool,
    /// Counted among those that wait for a reply.
    pub waiting: bool,
    /// When it last sent something.
    pub active_at: Instant,
    /// When the unfinished request at the start of `input` began.
    pub request_began: Option<Instant>,
    /// When it last took a byte.
    pub output_moved_at: Instant,
    pending: VecDeque<Place>,
    /// The number of the place at the front of `pending`.
    front: u32,
    output: ByteQueue,
    /// Bytes of replies that wait for earlier ones.
    parked_bytes: usize,
    /// Running mean of the size of replies, in bytes times 8.
    reply_bytes_mean_x8: usize,
    /// Bytes of the reply at the front that were passed on before all of it was here.
    relayed: usize,
    /// Whether keys are watched for it.
    pub watch: Watch,
    /// The connection on which its request waits for an element.
    pub waits_on: Option<LinkIx>,
    /// It is sure that the node has that request.
    pub is_seen_waiting: bool,
    /// What it has begun with MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// What concerns its reads, if they may go to replicas.
    pub reads: Option<Box<Reads>>,
}

/// A client's name.
#[derive(Debug)]
pub(crate) struct Name {
    pub text: Box<[u8]>,
    pub charge: Charge,
}

/// What a session does with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
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
pub(crate) enum Mute {
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

/// What a client asked for that changes nothing here; CLIENT LIST shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// READONLY.
    pub replica_reads: bool,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
}

/// Whom a place waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owed {
    /// One node, whose reply is passed on as it is.
    Node,
    /// One node, and if it misses a script, the request goes once more.
    Repeat(Id),
    /// The nodes of a SCAN, one after the other.
    Scan(Id),
    /// The nodes of a merge.
    Merge(Id),
    /// An inquiry.
    Inquiry(Id),
    /// A command over several shards.
    Emulation(Id),
    /// An XREAD that waits on several shards.
    Fan(Id),
    /// The nodes of a topic, or those that are to tell of changes.
    Subscription,
    /// One node, which counts those who get a message through us in its own way.
    Receivers(Receivers),
    /// One node, which runs a transaction.
    Exec,
    /// The same, of a transaction that may have to be sent again.
    Replay(Id),
    /// The nodes of a transaction over several shards.
    Execution(Id),
    /// The same, with what is added here.
    Mixture(Id),
    /// One node, which says whether the client is who it says that it is.
    Login(Id),
    /// One node, which says whether the client may ask what is answered here.
    Judged(Id),
}

/// How far a session had come before a request whose reply is not wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pending: usize,
    output: usize,
}

/// The rest of a reply that was interrupted by a further request.
#[derive(Debug)]
pub(crate) struct Interrupted {
    is_muted: bool,
    /// Messages that stay behind all of it.
    told: VecDeque<Place>,
    /// How much output there was before that request.
    output: usize,
}

/// Whether the place `number` was reserved behind `other`. Numbers begin anew behind the largest.
#[inline]
pub(crate) fn is_behind(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() > 0
}

/// One place in a client's order.
#[derive(Debug)]
enum Place {
    /// A reply is to come.
    Waiting(Owed),
    /// A reply is to come that the client does not want.
    Muted(Owed),
    /// The reply is here and waits for those before it.
    Ready(Parked),
}

/// A reply that waits; nearly all are small and need no memory of their own.
#[derive(Debug)]
enum Parked {
    Small { len: u8, bytes: [u8; Parked::SMALL_BYTES_MAX] },
    Large(Vec<u8>),
}

impl Parked {
    /// As much as fits without growing [`Place`].
    const SMALL_BYTES_MAX: usize = 30;

    const EMPTY: Parked = Parked::Small { len: 0, bytes: [0; Self::SMALL_BYTES_MAX] };

    fn new(reply: &[u8], pool: &mut BufferPool) -> Parked {
        let mut parked = Parked::EMPTY;
        parked.fill(reply, pool);
        parked
    }

    /// Makes `reply` of what was [`Parked::EMPTY`]. In place: a reply that is put together elsewhere and then moved is
    /// read before it is written, for which the processor has to wait (2 % of all its time).
    fn fill(&mut self, reply: &[u8], pool: &mut BufferPool) {
        match self {
            Parked::Small { len, bytes } if reply.len() <= Self::SMALL_BYTES_MAX => {
                *len = reply.len() as u8;
                bytes[..reply.len()].copy_from_slice(reply);
            }
            _ => {
                let mut buffer = pool.take();
                append(&mut buffer, reply);
                *self = Parked::Large(buffer);
            }
        }
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Parked::Small { len, bytes } => &bytes[..usize::from(*len)],
            Parked::Large(buffer) => buffer,
        }
    }
}

impl Session {
    /// A session for a client that has just arrived.
    pub(crate) fn new(conn: ConnId, client: u64, arrival: &Arrival<'_>, now: Instant) -> Session {
        Session {
            conn,
            client,
            peer: arrival.peer.into(),
            local: arrival.local.into(),
            descriptor: arrival.descriptor,
            last: Number::NONE,
            mute: Mute::No,
            wishes: Wishes::default(),
            subscribed: None,
            created_at: now,
            name: None,
            login: Login::default(),
            input: Vec::new(),
            scanner: request::Scanner::default(),
            profile: ProfileId::FIRST,
            resp3: false,
            phase: Phase::Open,
            paused: false,
            has_unread: false,
            pinning: Pinning::No,
            hold: Hold::default(),
            held_up: false,
            counted_bytes: 0,
            counted_unread_bytes: 0,
            holds_request: false,
            blocked: false,
            listed: false,
            is_corked: false,
            is_cross_slot_told: false,
            waiting: false,
            active_at: now,
            request_began: None,
            output_moved_at: now,
            pending: VecDeque::new(),
            front: 0,
            output: ByteQueue::default(),
            parked_bytes: 0,
            reply_bytes_mean_x8: FIRST_REPLY_BYTES * 8,
            relayed: 0,
            watch: Watch::No,
            waits_on: None,
            is_seen_waiting: false,
            transaction: None,
            reads: None,
        }
    }

    /// Whether the next request may be read.
    #[inline]
    pub(crate) fn may_read(&self, limits: &Limits) -> bool {
        let open = matches!(self.phase, Phase::Open | Phase::Ending);
        let has_room = match self.pinning {
            Pinning::No => self.pending.is_empty() || self.has_window(self.pending.len() + 1, limits),
            Pinning::Ready(_) | Pinning::Turning => self.pending.is_empty(),
            Pinning::Waiting(_) | Pinning::Busy(_) => false,
        };
        open && has_room && self.hold.is_empty() && self.held_bytes() < limits.pending_bytes_max
    }

    /// Whether a session that was stopped by [`Session::may_read`] has caught up enough to go on: half-way, so that
    /// it does not stop and go with every reply.
    pub(crate) fn has_caught_up(&self, limits: &Limits) -> bool {
        (self.pending.is_empty() || self.has_window(2 * self.pending.len(), limits))
            && self.held_bytes() <= limits.pending_bytes_max / 2
    }

    /// Whether `pending` requests may be pending: as many as fill `pending_bytes_max` with replies of the size seen
    /// lately, but one at a time if those were large.
    fn has_window(&self, pending: usize, limits: &Limits) -> bool {
        self.fits(pending, limits) && !self.expects_large(limits)
    }

    /// Whether so many may be pending if replies are small.
    #[inline(always)]
    fn fits(&self, pending: usize, limits: &Limits) -> bool {
        pending <= limits.pending_max && pending * (self.reply_bytes_mean_x8 / 8) <= limits.pending_bytes_max
    }

    /// How many requests more may be pending, of a session for which [`Session::may_read`] was true a moment ago and that only
    /// sends requests on meanwhile: where replies are not small, one at a time is told.
    #[inline(always)]
    pub(crate) fn room(&self, limits: &Limits) -> usize {
        let pending = self.pending.len();
        if self.fits(limits.pending_max, limits) {
            limits.pending_max.saturating_sub(pending)
        } else {
            usize::from(self.fits(pending + 1, limits))
        }
    }

    /// Whether the next reply is expected to be large, as the last ones were.
    pub(crate) fn expects_large(&self, limits: &Limits) -> bool {
        self.reply_bytes_mean_x8 / 8 > limits.large_bytes
    }

    /// Whether replies to it are known to be small: some were.
    pub(crate) fn expects_little(&self) -> bool {
        self.reply_bytes_mean_x8 / 8 < FIRST_REPLY_BYTES / 2
    }

    /// Bytes of replies held for this client.
    pub(crate) fn held_bytes(&self) -> usize {
        self.output.len() + self.parked_bytes
    }

    /// Whether a request of it waits, for an element or for the end of a pause, and may go on to do so when its client
    /// has long gone.
    pub(crate) fn is_blocked(&self) -> bool {
        self.waits_on.is_some() || self.is_seen_waiting || self.hold.has(Reason::Pause)
    }

    /// Whether it may still get pushes: after its final error it gets none.
    pub(crate) fn may_be_told(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Ending)
    }

    /// Whether a request is pending.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What is pending goes another way than what follows: nothing more is read before it was answered. Who is pinned
    /// has one request pending at most, and waits for that anyway.
    pub(crate) fn turn(&mut self) {
        if self.is_pending() && self.pinning == Pinning::No {
            self.pinning = Pinning::Turning;
        }
    }

    /// Whether every reply has left.
    pub(crate) fn is_quiet(&self) -> bool {
        self.pending.is_empty() && self.output.is_empty()
    }

    /// Reserves the next place, for what `owed` will bring. The number goes into the ticket.
    pub(crate) fn reserve(&mut self, owed: Owed) -> u32 {
        walk::enter("reserve");
        let number = self.next_place();
        self.pending.push_back(Place::Waiting(owed));
        number
    }

    /// The number of the place that is reserved next.
    pub(crate) fn next_place(&self) -> u32 {
        self.front.wrapping_add(self.pending.len() as u32)
    }

    /// Whom place `number` waits for; `None` if there is no such place, or it is filled: nobody waits.
    #[inline]
    pub(crate) fn owed(&self, number: u32) -> Option<Owed> {
        match self.pending.get(self.index(number))? {
            Place::Waiting(owed) | Place::Muted(owed) => Some(*owed),
            Place::Ready(_) => None,
        }
    }

    /// Whether place `number` was reserved and its reply has not left yet.
    pub(crate) fn has_place(&self, number: u32) -> bool {
        self.index(number) < self.pending.len()
    }

    /// Whether nothing was sent behind the request at place `number`: what stands there is what the client is told besides.
    pub(crate) fn is_last(&self, number: u32) -> bool {
        let is_told = |place: &Place| matches!(place, Place::Ready(told) if is_push(told.as_slice()));
        self.pending.iter().skip(self.index(number) + 1).all(is_told)
    }

    /// What place `number` waits for is something else from now on.
    pub(crate) fn expect(&mut self, number: u32, expected: Owed) {
        let index = self.index(number);
        if let Some(Place::Waiting(owed) | Place::Muted(owed)) = self.pending.get_mut(index) {
            *owed = expected;
        }
    }

    /// Gives up what it waits for: the last request that was read, which stands alone.
    pub(crate) fn forget_pending(&mut self) {
        debug_assert!(self.pending.len() <= 1, "who waits for an element waits for nothing else");
        self.pending.clear();
    }

    /// The number of the place at the front.
    pub(crate) fn front(&self) -> u32 {
        self.front
    }

    /// Whom the place at the front waits for.
    pub(crate) fn front_owed(&self) -> Option<Owed> {
        self.owed(self.front)
    }

    /// Whether a part of the reply at the front was passed on: it cannot be replaced by an error any more.
    pub(crate) fn is_relaying(&self) -> bool {
        self.relayed > 0
    }

    /// Passes on a piece of the reply at the front.
    pub(crate) fn relay(&mut self, piece: &[u8], pool: &mut BufferPool) {
        self.relayed += piece.len();
        if !piece.is_empty() && !matches!(self.pending.front(), Some(Place::Muted(_))) {
            self.output.push(piece, pool);
        }
    }

    /// All of the reply at the front was passed on.
    pub(crate) fn finish_relay(&mut self, pool: &mut BufferPool) {
        let len = std::mem::take(&mut self.relayed);
        self.note_reply(len);
        self.pop_front();
        self.release(pool);
    }

    /// Ends the reply at the front, which goes on behind the reply to a further request: that is carried out next.
    pub(crate) fn interrupt_relay(&mut self, pool: &mut BufferPool) -> Interrupted {
        let is_muted = matches!(self.pending.front(), Some(Place::Muted(_)));
        let told = self.pending.split_off(1);
        self.finish_relay(pool);
        Interrupted { is_muted, told, output: self.output.len() }
    }

    /// The further request was carried out: `owed` brings the rest of the interrupted reply. Messages stay behind it.
    pub(crate) fn resume_relay(&mut self, mut interrupted: Interrupted, owed: Owed, pool: &mut BufferPool) {
        let rest = self.reserve(owed);
        if interrupted.is_muted {
            self.output.truncate(interrupted.output, pool);
            self.pending.iter_mut().for_each(|place| {
                if let Place::Waiting(owed) = *place {
                    *place = Place::Muted(owed);
                }
            });
        }
        self.pending.append(&mut interrupted.told);
        self.raise_barrier(rest);
    }

    /// Learns the size of replies. A single huge one does not count for more than a few large ones.
    #[inline]
    fn note_reply(&mut self, len: usize) {
        self.reply_bytes_mean_x8 += len.min(REPLY_BYTES_COUNTED_MAX);
        self.reply_bytes_mean_x8 -= self.reply_bytes_mean_x8 / 8;
    }

    fn index(&self, number: u32) -> usize {
        number.wrapping_sub(self.front) as usize
    }

    /// Fills place `number`. The ready run at the front moves to the output.
    pub(crate) fn settle(&mut self, number: u32, reply: &[u8], pool: &mut BufferPool) {
        let is_filled = self.settle_if(number, reply, pool, |_| true);
        debug_assert!(is_filled, "a ticket names a place that was reserved and not filled");
    }

    /// The same, if that place waits for one node, whose reply is passed on as it is. Else nothing is done, and it is false.
    #[inline(always)]
    pub(crate) fn settle_as_it_is(&mut self, number: u32, reply: &[u8], pool: &mut BufferPool) -> bool {
        self.settle_if(number, reply, pool, |owed| matches!(owed, Owed::Node))
    }

    /// Fills place `number` if it waits, and for what `is_right` says. With one look for the place.
    #[inline(always)]
    fn settle_if(
        &mut self,
        number: u32,
        reply: &[u8],
        pool: &mut BufferPool,
        is_right: impl Fn(&Owed) -> bool,
    ) -> bool {
        walk::enter("settle_if");
        let index = self.index(number);
        let Some(place) = self.pending.get_mut(index) else { return false };
        let is_muted = match place {
            Place::Waiting(owed) if is_right(owed) => false,
            Place::Muted(owed) if is_right(owed) => true,
            _ => return false,
        };
        if number == self.front {
            if !is_muted {
                self.output.push(reply, pool);
            }
            self.pop_front();
            self.release(pool);
        } else {
            let parks = if is_muted { &[] } else { reply };
            *place = Place::Ready(Parked::EMPTY);
            if let Place::Ready(parked) = place {
                parked.fill(parks, pool);
            }
            self.parked_bytes += parks.len();
        }
        self.note_reply(reply.len());
        true
    }

    /// Answers the request that was just read: behind everything that is pending.
    pub(crate) fn answer(&mut self, reply: &[u8], pool: &mut BufferPool) {
        if self.pending.is_empty() {
            self.output.push(reply, pool);
            return;
        }
        self.parked_bytes += reply.len();
        let parked = Parked::new(reply, pool);
        self.pending.push_back(Place::Ready(parked));
    }

    /// To be called before a request is carried out, at least while [`Session::mute`] is not [`Mute::No`].
    #[cold]
    pub(crate) fn mark(&mut self) -> Mark {
        if self.mute == Mute::Next {
            self.mute = Mute::This;
        }
        Mark { pending: self.pending.len(), output: self.output.len() }
    }

    /// The request behind `mark` was not carried out yet and will be read again.
    pub(crate) fn postpone(&mut self) {
        if self.mute == Mute::This {
            self.mute = Mute::Next;
        }
        if let Some(tracking) = self.tracking_mut() {
            tracking.postpone();
        }
    }

    /// Drops what the request behind `mark` brought, now or later, unless it changed what the client wants to hear.
    #[cold]
    pub(crate) fn silence(&mut self, mark: Mark, pool: &mut BufferPool) {
        match self.mute {
            Mute::No | Mute::Next => return,
            Mute::Heard => return self.mute = Mute::Off,
            Mute::This => self.mute = Mute::No,
            Mute::Off => {}
        }
        self.output.truncate(mark.output, pool);
        if self.pending.len() == mark.pending {
            return;
        }
        let Some(place) = self.pending.back_mut() else { return };
        *place = match place {
            Place::Waiting(owed) | Place::Muted(owed) => Place::Muted(*owed),
            Place::Ready(parked) => {
                self.parked_bytes -= parked.as_slice().len();
                Place::Ready(Parked::new(&[], pool))
            }
        };
    }

    /// What the request that is being carried out brings is heard whatever the client wants: a subscription is no reply.
    pub(crate) fn speak_up(&mut self) {
        self.mute = match self.mute {
            Mute::Off => Mute::Heard,
            Mute::This => Mute::No,
            mute => mute,
        };
    }

    /// Appends a message: at once, if it neither falls into the middle of a reply nor overtakes what it must not.
    pub(crate) fn push(&mut self, message: &[u8], pool: &mut BufferPool) {
        let barrier = self.subscribed.as_ref().and_then(|subscribed| subscribed.barrier);
        let is_past = |barrier: u32| is_behind(self.front, barrier);
        if self.pending.is_empty() || (self.relayed == 0 && barrier.is_none_or(is_past)) {
            return self.output.push(message, pool);
        }
        self.raise_barrier(self.next_place());
        self.answer(message, pool);
    }

    /// Appends a message behind all replies that are still to come, but for that of a request that waits for an element:
    /// it may be long in coming, or never.
    pub(crate) fn push_behind(&mut self, message: &[u8], pool: &mut BufferPool) {
        if self.waits_on.is_some() || self.is_seen_waiting {
            return self.push(message, pool);
        }
        if self.is_pending() {
            self.raise_barrier(self.next_place());
        }
        self.answer(message, pool);
    }

    /// Messages must not overtake what is at `place`.
    pub(crate) fn raise_barrier(&mut self, place: u32) {
        if let Some(subscribed) = &mut self.subscribed
            && subscribed.barrier.is_none_or(|barrier| is_behind(place, barrier))
        {
            subscribed.barrier = Some(place);
        }
    }

    fn pop_front(&mut self) {
        self.pending.pop_front();
        self.front = self.front.wrapping_add(1);
    }

    /// Moves replies that wait for nobody any more to the output.
    fn release(&mut self, pool: &mut BufferPool) {
        walk::enter("release");
        while let Some(Place::Ready(parked)) = self.pending.front() {
            match parked {
                // A muted place has nothing.
                Parked::Small { len: 0, .. } => {}
                Parked::Small { len, bytes } => {
                    self.parked_bytes -= usize::from(*len);
                    self.output.push_start(bytes, usize::from(*len), pool);
                }
                Parked::Large(reply) => {
                    self.parked_bytes -= reply.len();
                    self.output.push(reply, pool);
                }
            }
            if let Some(Place::Ready(Parked::Large(buffer))) = self.pending.pop_front() {
                pool.give(buffer);
            }
            self.front = self.front.wrapping_add(1);
        }
    }

    /// What waits to be sent.
    pub(crate) fn output(&self) -> &[u8] {
        self.output.as_slice()
    }

    /// The driver took `count` bytes of the output.
    pub(crate) fn handle_sent(&mut self, count: usize, now: Instant, pool: &mut BufferPool) {
        self.blocked = count < self.output.len();
        self.output.consume(count, pool);
        if count > 0 || self.output.is_empty() {
            self.output_moved_at = now;
        }
    }

    /// Whether this client has more waiting than it may: it does not read, and must not cost others their memory.
    pub(crate) fn is_overfull(&self, newest_reply: usize, limits: &Limits) -> bool {
        self.held_bytes().saturating_sub(newest_reply) > limits.output_bytes_max
    }

    /// Whether it has much waiting and has not taken a byte for long.
    pub(crate) fn is_stalled(&self, now: Instant, limits: &Limits) -> bool {
        // Who holds connections of his own keeps others from having some.
        let allowed = if self.pinning.id().is_none() { limits.output_bytes_soft } else { 0 };
        // What it was not offered yet does not stall.
        self.blocked && self.output.len() > allowed && now.since(self.output_moved_at) > limits.output_stall
    }

    /// Whether something is held for it that has not moved for `patience`, and that only it could move.
    pub(crate) fn is_stuck(&self, now: Instant, patience: Duration) -> bool {
        let takes_nothing = self.blocked && now.since(self.output_moved_at) >= patience;
        let sends_nothing = !self.input.is_empty() && !self.paused && now.since(self.active_at) >= patience;
        takes_nothing || sends_nothing
    }

    /// Gives back what an idle client need not own.
    pub(crate) fn shrink(&mut self) {
        if self.pending.is_empty() {
            self.pending = VecDeque::new();
        }
        if self.input.is_empty() {
            self.input = Vec::new();
        }
    }

    /// What waits in parts: how many replies are held back, and their bytes.
    pub(crate) fn parked(&self) -> (usize, usize) {
        let count = self.pending.iter().filter(|place| matches!(place, Place::Ready(_))).count();
        (count, self.parked_bytes)
    }

    /// The numbers of the places that are not filled.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = u32> {
        let places = self.pending.iter().zip(0..);
        let awaited = places.filter(|(place, _)| !matches!(place, Place::Ready(_)));
        awaited.map(|(_, index)| self.front.wrapping_add(index))
    }

    /// What those places wait for.
    pub(crate) fn owed_to_it(&self) -> impl Iterator<Item = Owed> {
        self.pending.iter().filter_map(|place| match place {
            Place::Waiting(owed) | Place::Muted(owed) => Some(*owed),
            Place::Ready(_) => None,
        })
    }

    /// Whether the place at the front is filled, and was not passed on.
    pub(crate) fn front_is_ready(&self) -> bool {
        matches!(self.pending.front(), Some(Place::Ready(_)))
    }

    /// Bytes of the replies that wait for earlier ones, added up anew.
    pub(crate) fn add_up_parked(&self) -> usize {
        let parked = self.pending.iter().map(|place| match place {
            Place::Ready(parked) => parked.as_slice().len(),
            Place::Waiting(_) | Place::Muted(_) => 0,
        });
        parked.sum()
    }

    /// As CLIENT SETNAME set it; empty if it did not.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_ref().map_or(&[], |name| &name.text)
    }

    /// Bytes of what it leaves behind that is its own: its name, and what it has said of keys that it tracks.
    pub(crate) fn left_bytes(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |name| name.charge.bytes());
        name + self.tracking().map_or(0, |tracking| tracking.charge.bytes())
    }

    /// The same as [`Session::left_bytes`], added up anew.
    pub(crate) fn add_up_left(&self) -> usize {
        self.name().len() + self.tracking().map_or(0, Tracking::held_bytes)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Session>()
            + self.peer.len()
            + self.local.len()
            + self.left_bytes()
            + self.input.capacity()
            + self.output.capacity()
            + self.pending.capacity() * size_of::<Place>()
            + self.parked_bytes
    }

    /// The size of the buffer behind [`Session::output`].
    pub(crate) fn output_capacity(&self) -> usize {
        self.output.capacity()
    }

    /// Gives all buffers back and tells whom nobody waits for any more.
    pub(crate) fn dismantle(mut self, pool: &mut BufferPool) -> impl Iterator<Item = Owed> + use<> {
        self.output.clear(pool);
        pool.give(self.input);
        self.pending.into_iter().filter_map(|place| match place {
            Place::Waiting(owed) | Place::Muted(owed) => Some(owed),
            Place::Ready(_) => None,
        })
    }
}

/// So many bytes of one reply count for the size that the next one is expected to have.
const REPLY_BYTES_COUNTED_MAX: usize = 1 << 20;
/// The size that a new client's replies are guessed to have, until they were seen: 64 requests may be pending then.
const FIRST_REPLY_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> (Session, BufferPool) {
        let conn = Id { index: 0, generation: 0 };
        (Session::new(conn, 1, &Arrival::of("test"), Instant::ZERO), BufferPool::new(16, 1 << 20))
    }

    #[test]
    fn replies_leave_in_the_order_of_their_requests() {
        let (mut session, mut pool) = session();
        let numbers: Vec<u32> = (0..3).map(|_| session.reserve(Owed::Node)).collect();
        session.answer(b"+local\r\n", &mut pool);
        session.settle(numbers[2], b"+third, and too long to be kept in place\r\n", &mut pool);
        assert_eq!(session.output(), b"");
        session.settle(numbers[0], b"+first\r\n", &mut pool);
        assert_eq!(session.output(), b"+first\r\n");
        session.settle(numbers[1], b"+second\r\n", &mut pool);
        let all = "+first\r\n+second\r\n+third, and too long to be kept in place\r\n+local\r\n";
        assert_eq!(session.output(), all.as_bytes());
        assert_eq!(session.pending.len(), 0);
    }

    #[test]
    fn suppressed_replies_are_dropped_wherever_they_wait() {
        let (mut session, mut pool) = session();
        let first = session.reserve(Owed::Node);
        session.mute = Mute::Off;
        let mark = session.mark();
        let second = session.reserve(Owed::Node);
        session.silence(mark, &mut pool);
        let mark = session.mark();
        session.answer(b"+a local reply that needs a buffer of its own\r\n", &mut pool);
        session.silence(mark, &mut pool);
        assert_eq!(session.parked(), (1, 0));
        session.settle(second, b"+second\r\n", &mut pool);
        session.settle(first, b"+first\r\n", &mut pool);
        assert_eq!(session.output(), b"+first\r\n");
        let mark = session.mark();
        session.answer(b"+third\r\n", &mut pool);
        session.silence(mark, &mut pool);
        assert_eq!(session.output(), b"+first\r\n");
        assert!(!session.is_pending());
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
        session.answer(b"+first\r\n", &mut pool);
        session.silence(mark, &mut pool);
        assert_eq!((session.output(), session.mute), (&b""[..], Mute::No));
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
        session.front = u32::MAX;
        let (last, first) = (session.reserve(Owed::Node), session.reserve(Owed::Node));
        assert_eq!((last, first), (u32::MAX, 0));
        session.settle(first, b"+b\r\n", &mut pool);
        session.settle(last, b"+a\r\n", &mut pool);
        assert_eq!(session.output(), b"+a\r\n+b\r\n");
    }

    #[test]
    fn large_replies_narrow_the_window_and_small_ones_widen_it() {
        let (mut session, mut pool) = session();
        let limits = Limits::default();
        assert!(session.has_window(64, &limits) && !session.has_window(65, &limits));
        let large = vec![b'x'; 200_000];
        for _ in 0..40 {
            let number = session.reserve(Owed::Node);
            session.settle(number, &large, &mut pool);
        }
        assert!(session.expects_large(&limits) && !session.has_window(2, &limits));
        assert!(!session.may_read(&limits));
        for _ in 0..80 {
            let number = session.reserve(Owed::Node);
            session.settle(number, b"+OK\r\n", &mut pool);
        }
        assert!(session.has_window(limits.pending_max, &limits));
    }

    #[test]
    fn an_idle_session_owns_no_buffers() {
        let (mut session, mut pool) = session();
        let number = session.reserve(Owed::Node);
        session.settle(number, b"+OK\r\n", &mut pool);
        session.handle_sent(5, Instant::ZERO, &mut pool);
        session.shrink();
        assert_eq!(
            (session.output.capacity(), session.pending.capacity(), session.input.capacity()),
            (0, 0, 0)
        );
        // A look into a box would cost each request more than these few bytes more cost an idle client. Eight of them are
        // for the generation of its profile, and eight for keys that are watched on several shards.
        assert!(size_of::<Session>() <= 400, "{}", size_of::<Session>());
        assert!(size_of::<Place>() <= 32, "{}", size_of::<Place>());
    }
}
