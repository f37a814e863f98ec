//! The replies of one client. Each request has a place in their order. Replies arrive in any order and leave in this
//! one.

use super::filter::Filters;
use crate::limits::Limits;
use crate::walk;
use resp::reply::is_push;
use std::collections::VecDeque;
use stdx::{BufferPool, ByteQueue, Instant, append};

/// Replies that are still to come for one client, and bytes to send to it.
#[derive(Debug)]
pub struct Replies<T> {
    pub(super) pending: VecDeque<Place<T>>,
    /// The number of the place at the front of `pending`.
    pub(super) front: u32,
    /// Bytes to send.
    pub output: Output,
    /// Bytes of replies that wait for earlier ones.
    pub(super) parked_bytes: usize,
    /// Running mean of the size of replies, in bytes times 8.
    reply_bytes_mean_x8: u32,
    /// Bytes of the reply at the front that were passed on before the reply was complete.
    relayed: usize,
    /// Changes of replies to come.
    pub(super) filters: Option<Box<Filters>>,
}

/// Bytes to send to a client.
#[derive(Debug)]
pub struct Output {
    pub(super) queue: ByteQueue,
    /// The driver took fewer bytes than offered and has not yet reported that it takes more.
    pub blocked: bool,
    /// Listed for sending in this turn.
    pub listed: bool,
    /// The output was held once for further replies: see `cork.rs`.
    pub is_corked: bool,
    /// The instant at which the client last took a byte.
    pub moved_at: Instant,
    /// The last place that no message may overtake: of a confirmation, or of a message that waits there itself. Once
    /// that place has left, messages may pass.
    barrier: u32,
}

/// The source of the reply for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed<T> {
    /// One node, whose reply is passed on unchanged.
    Node,
    /// A task, which makes the reply.
    Task(T),
}

/// The rest of a reply that was interrupted by a further request.
#[derive(Debug)]
pub struct Interrupted<T> {
    is_muted: bool,
    /// Messages that stay behind the whole reply.
    told: VecDeque<Place<T>>,
    /// Length of the output before that request.
    output: usize,
}

/// Whether place `number` was reserved after `other`. Numbers wrap around.
#[inline]
pub fn is_behind(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() > 0
}

/// One place in a client's order.
#[derive(Debug)]
pub(super) enum Place<T> {
    /// A reply is to come.
    Waiting(Owed<T>),
    /// A reply is to come that the client does not want.
    Muted(Owed<T>),
    /// A reply is to come that is changed before it goes to the client.
    Filtered(Owed<T>),
    /// The reply is here and waits for those before it.
    Ready(Parked),
}

/// A reply that waits. Nearly all are small and need no allocation.
#[derive(Debug)]
pub(super) enum Parked {
    Small { len: u8, bytes: [u8; Parked::SMALL_BYTES_MAX] },
    Large(Vec<u8>),
}

impl Parked {
    /// The most that fits without growing [`Place`].
    const SMALL_BYTES_MAX: usize = 30;

    const EMPTY: Parked = Parked::Small { len: 0, bytes: [0; Self::SMALL_BYTES_MAX] };

    pub(super) fn new(reply: &[u8], pool: &mut BufferPool) -> Parked {
        let mut parked = Parked::EMPTY;
        parked.fill(reply, pool);
        parked
    }

    /// Turns [`Parked::EMPTY`] into `reply`, in place. If the reply were built elsewhere and then moved, the processor
    /// would read it before it is written. The stall cost 2 % of all its time.
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

    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Parked::Small { len, bytes } => &bytes[..usize::from(*len)],
            Parked::Large(buffer) => buffer,
        }
    }
}

impl<T: Copy> Replies<T> {
    /// Bytes of one place.
    pub const PLACE_BYTES: usize = size_of::<Place<T>>();

    /// Nothing is pending, and nothing waits to be sent.
    pub(super) fn new(now: Instant) -> Replies<T> {
        Replies {
            pending: VecDeque::new(),
            front: 0,
            output: Output {
                queue: ByteQueue::default(),
                blocked: false,
                listed: false,
                is_corked: false,
                moved_at: now,
                barrier: u32::MAX,
            },
            parked_bytes: 0,
            reply_bytes_mean_x8: FIRST_REPLY_BYTES * 8,
            relayed: 0,
            filters: None,
        }
    }

    /// Whether a session that [`super::Session::may_read`] stopped may go on. It may once half of its replies are here,
    /// so that it does not stop and go with every reply.
    pub fn has_caught_up(&self, limits: &Limits) -> bool {
        (self.pending.is_empty() || self.has_window(2 * self.pending.len(), limits))
            && self.held_bytes() <= limits.pending_bytes_max / 2
    }

    /// Whether one more request may be pending.
    pub(super) fn has_window_for_next(&self, limits: &Limits) -> bool {
        self.pending.is_empty() || self.has_window(self.pending.len() + 1, limits)
    }

    /// Whether `pending` requests may be pending. Their replies, estimated from the recent ones, may fill
    /// `pending_bytes_max`. If the recent replies were large, one request at a time may be pending.
    pub(super) fn has_window(&self, pending: usize, limits: &Limits) -> bool {
        self.fits(pending, limits) && !self.expects_large(limits)
    }

    /// Whether `pending` requests may be pending if replies are small.
    #[inline(always)]
    fn fits(&self, pending: usize, limits: &Limits) -> bool {
        pending <= limits.pending_max && pending * self.reply_bytes_mean() <= limits.pending_bytes_max
    }

    /// Number of further requests that may be pending, for a session that only sends requests on and for which
    /// [`super::Session::may_read`] was true a moment ago. If replies are not small, the number is one.
    #[inline(always)]
    pub fn room(&self, limits: &Limits) -> usize {
        let pending = self.pending.len();
        if self.fits(limits.pending_max, limits) {
            limits.pending_max.saturating_sub(pending)
        } else {
            usize::from(self.fits(pending + 1, limits))
        }
    }

    /// Whether the next reply is expected to be large, like the last ones.
    pub fn expects_large(&self, limits: &Limits) -> bool {
        self.reply_bytes_mean() > limits.large_bytes
    }

    /// Whether the client's replies are known to be small.
    pub fn expects_little(&self) -> bool {
        self.reply_bytes_mean() < FIRST_REPLY_BYTES as usize / 2
    }

    /// Bytes of replies held for this client.
    pub fn held_bytes(&self) -> usize {
        self.output.queue.len() + self.parked_bytes
    }

    /// Whether a request is pending.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether every reply has left.
    pub fn is_quiet(&self) -> bool {
        self.pending.is_empty() && self.output.queue.is_empty()
    }

    /// Reserves the next place, which `owed` will fill. The number goes into the ticket.
    pub fn reserve(&mut self, owed: Owed<T>) -> u32 {
        walk::enter("reserve");
        let number = self.next_place();
        self.pending.push_back(Place::Waiting(owed));
        number
    }

    /// The number of the place that is reserved next.
    pub fn next_place(&self) -> u32 {
        self.front.wrapping_add(self.pending.len() as u32)
    }

    /// The source of the reply for place `number`; `None` if there is no such place, or it is filled.
    #[inline]
    pub fn owed(&self, number: u32) -> Option<Owed<T>> {
        match self.pending.get(self.index(number))? {
            Place::Waiting(owed) | Place::Muted(owed) | Place::Filtered(owed) => Some(*owed),
            Place::Ready(_) => None,
        }
    }

    /// Whether place `number` was reserved and its reply has not left yet.
    pub fn has_place(&self, number: u32) -> bool {
        self.index(number) < self.pending.len()
    }

    /// Whether the request at place `number` is the client's last one. Only messages may stand behind it.
    pub fn is_last(&self, number: u32) -> bool {
        let is_told = |place: &Place<T>| matches!(place, Place::Ready(told) if is_push(told.as_slice()));
        self.pending.iter().skip(self.index(number) + 1).all(is_told)
    }

    /// Changes the source of the reply for place `number`.
    pub fn expect(&mut self, number: u32, expected: Owed<T>) {
        let index = self.index(number);
        if let Some(Place::Waiting(owed) | Place::Muted(owed) | Place::Filtered(owed)) =
            self.pending.get_mut(index)
        {
            *owed = expected;
        }
    }

    /// Gives up the reply to the last request, the only one pending, and the messages that are parked behind it.
    pub fn forget_pending(&mut self) {
        let is_message = |place: &Place<T>| matches!(place, Place::Ready(_));
        debug_assert!(
            self.pending.iter().skip(1).all(is_message),
            "a blocked client has one request pending"
        );
        self.pending.clear();
        self.filters = None;
        self.parked_bytes = 0;
    }

    /// The number of the place at the front.
    pub fn front(&self) -> u32 {
        self.front
    }

    /// The source of the reply for the place at the front.
    pub fn front_owed(&self) -> Option<Owed<T>> {
        self.owed(self.front)
    }

    /// Whether a part of the reply at the front was passed on. The reply can then not be replaced by an error.
    pub fn is_relaying(&self) -> bool {
        self.relayed > 0
    }

    /// Passes on a piece of the reply at the front.
    pub fn relay(&mut self, piece: &[u8], pool: &mut BufferPool) {
        self.relayed += piece.len();
        match self.pending.front() {
            _ if piece.is_empty() => {}
            Some(Place::Muted(_)) => {}
            Some(Place::Filtered(_)) => self.keep_piece(piece),
            _ => self.output.queue.push(piece, pool),
        }
    }

    /// Ends the reply at the front, all of which was passed on.
    pub fn finish_relay(&mut self, pool: &mut BufferPool) {
        let len = std::mem::take(&mut self.relayed);
        if matches!(self.pending.front(), Some(Place::Filtered(_))) {
            self.release_pieces(pool);
        }
        self.note_reply(len);
        self.pop_front();
        self.release(pool);
    }

    /// Interrupts the reply at the front for a further request, which is carried out next. The rest follows its reply.
    pub fn interrupt_relay(&mut self, pool: &mut BufferPool) -> Interrupted<T> {
        let is_muted = matches!(self.pending.front(), Some(Place::Muted(_)));
        let told = self.pending.split_off(1);
        self.finish_relay(pool);
        Interrupted { is_muted, told, output: self.output.queue.len() }
    }

    /// Ends the interruption: `owed` brings the rest of the reply. Messages stay behind it.
    pub fn resume_relay(&mut self, mut interrupted: Interrupted<T>, owed: Owed<T>, pool: &mut BufferPool) {
        let rest = self.reserve(owed);
        if interrupted.is_muted {
            self.output.queue.truncate(interrupted.output, pool);
            self.pending.iter_mut().for_each(|place| {
                if let Place::Waiting(owed) = *place {
                    *place = Place::Muted(owed);
                }
            });
        }
        self.pending.append(&mut interrupted.told);
        self.raise_barrier(rest);
    }

    #[inline(always)]
    fn reply_bytes_mean(&self) -> usize {
        (self.reply_bytes_mean_x8 / 8) as usize
    }

    /// Learns the size of replies. A single huge one counts for no more than a few large ones.
    #[inline]
    fn note_reply(&mut self, len: usize) {
        self.reply_bytes_mean_x8 += len.min(REPLY_BYTES_COUNTED_MAX) as u32;
        self.reply_bytes_mean_x8 -= self.reply_bytes_mean_x8 / 8;
    }

    pub(super) fn index(&self, number: u32) -> usize {
        number.wrapping_sub(self.front) as usize
    }

    /// Fills place `number`. Completed replies at the front move to the output.
    pub fn settle(&mut self, number: u32, reply: &[u8], pool: &mut BufferPool) {
        let is_filled = self.settle_if(number, reply, pool, |_| true);
        debug_assert!(is_filled, "a ticket names a place that was reserved and not filled");
    }

    /// The same, but only if that place waits for one node whose reply is passed on unchanged. Else returns false.
    #[inline(always)]
    pub fn settle_as_it_is(&mut self, number: u32, reply: &[u8], pool: &mut BufferPool) -> bool {
        self.settle_if(number, reply, pool, |owed| matches!(owed, Owed::Node))
    }

    /// Fills place `number` if it waits and `is_right` accepts its source. One lookup of the place serves both.
    #[inline(always)]
    fn settle_if(
        &mut self,
        number: u32,
        reply: &[u8],
        pool: &mut BufferPool,
        is_right: impl Fn(&Owed<T>) -> bool,
    ) -> bool {
        walk::enter("settle_if");
        let index = self.index(number);
        let Some(place) = self.pending.get_mut(index) else { return false };
        let is_muted = match place {
            Place::Waiting(owed) if is_right(owed) => false,
            Place::Muted(owed) if is_right(owed) => true,
            Place::Filtered(owed) if is_right(owed) => return self.settle_filtered(number, reply, pool),
            _ => return false,
        };
        if number == self.front {
            if !is_muted {
                self.output.queue.push(reply, pool);
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

    /// Answers the request that was just read, behind all pending replies.
    pub fn answer(&mut self, reply: &[u8], pool: &mut BufferPool) {
        if self.pending.is_empty() {
            self.output.queue.push(reply, pool);
            return;
        }
        self.parked_bytes += reply.len();
        let parked = Parked::new(reply, pool);
        self.pending.push_back(Place::Ready(parked));
    }

    /// Appends a message: at once, unless it would interrupt a reply or overtake a barrier.
    pub fn push(&mut self, message: &[u8], pool: &mut BufferPool) {
        let is_barred = !is_behind(self.front, self.output.barrier);
        if self.pending.is_empty() || (self.relayed == 0 && !is_barred) {
            return self.output.queue.push(message, pool);
        }
        self.raise_barrier(self.next_place());
        self.answer(message, pool);
    }

    /// Keeps messages from overtaking the reply at `place`.
    pub fn raise_barrier(&mut self, place: u32) {
        if is_behind(place, self.output.barrier) || is_behind(self.front, self.output.barrier) {
            self.output.barrier = place;
        }
    }

    fn pop_front(&mut self) {
        self.pending.pop_front();
        self.front = self.front.wrapping_add(1);
    }

    /// Moves completed replies at the front to the output.
    fn release(&mut self, pool: &mut BufferPool) {
        walk::enter("release");
        while let Some(Place::Ready(parked)) = self.pending.front() {
            match parked {
                // A muted place has no bytes.
                Parked::Small { len: 0, .. } => {}
                Parked::Small { len, bytes } => {
                    self.parked_bytes -= usize::from(*len);
                    self.output.queue.push_start(bytes, usize::from(*len), pool);
                }
                Parked::Large(reply) => {
                    self.parked_bytes -= reply.len();
                    self.output.queue.push(reply, pool);
                }
            }
            if let Some(Place::Ready(Parked::Large(buffer))) = self.pending.pop_front() {
                pool.give(buffer);
            }
            self.front = self.front.wrapping_add(1);
        }
    }

    /// Bytes to send.
    pub fn output(&self) -> &[u8] {
        self.output.queue.as_slice()
    }

    /// Whether more waits for this client than may: it does not read, and must not use up the memory of others.
    pub fn is_overfull(&self, newest_reply: usize, limits: &Limits) -> bool {
        self.held_bytes().saturating_sub(newest_reply) > limits.output_bytes_max
    }

    /// Number and bytes of replies that wait for earlier ones.
    pub fn parked(&self) -> (usize, usize) {
        let count = self.pending.iter().filter(|place| matches!(place, Place::Ready(_))).count();
        (count, self.parked_bytes)
    }

    /// The numbers of the places that are not filled.
    pub fn awaited(&self) -> impl Iterator<Item = u32> {
        let places = self.pending.iter().zip(0..);
        let awaited = places.filter(|(place, _)| !matches!(place, Place::Ready(_)));
        awaited.map(|(_, index)| self.front.wrapping_add(index))
    }

    /// The sources of the replies for those places.
    pub fn owed_to_it(&self) -> impl Iterator<Item = Owed<T>> {
        self.pending.iter().filter_map(|place| match place {
            Place::Waiting(owed) | Place::Muted(owed) | Place::Filtered(owed) => Some(*owed),
            Place::Ready(_) => None,
        })
    }

    /// Whether the reply at the front is complete and was not passed on.
    pub fn front_is_ready(&self) -> bool {
        matches!(self.pending.front(), Some(Place::Ready(_)))
    }

    /// Bytes of the replies that wait for earlier ones, summed up anew.
    pub fn add_up_parked(&self) -> usize {
        let parked = self.pending.iter().map(|place| match place {
            Place::Ready(parked) => parked.as_slice().len(),
            Place::Waiting(_) | Place::Muted(_) | Place::Filtered(_) => 0,
        });
        parked.sum::<usize>() + self.filters.as_ref().map_or(0, |filters| filters.held_bytes())
    }

    /// The size of the buffer behind [`Replies::output`].
    pub fn output_capacity(&self) -> usize {
        self.output.queue.capacity()
    }
}

/// Bytes of one reply that count for the expected size of the next.
const REPLY_BYTES_COUNTED_MAX: usize = 1 << 20;
/// The expected size of a new client's replies, until some were seen. It allows for 64 pending requests.
const FIRST_REPLY_BYTES: u32 = 16 * 1024;
