//! Replies that a feature changes on their way to the client. The place of each says so; all other places pay nothing.

use super::replies::{Place, Replies};
use std::collections::VecDeque;
use std::fmt::Debug;
use stdx::BufferPool;

/// A change of one reply.
pub trait Filter: Debug + Send {
    /// Appends the changed form of the complete `reply` to `out`.
    fn apply(&self, reply: &[u8], out: &mut Vec<u8>);
}

/// The filters of a client's replies to come.
#[derive(Debug, Default)]
pub(super) struct Filters {
    /// In the order of their places. Some places may be gone or muted.
    filters: VecDeque<(u32, Box<dyn Filter>)>,
    /// The reply at the front, if it comes in pieces.
    pieces: Vec<u8>,
}

impl Filters {
    /// Bytes of the reply that comes in pieces.
    pub(super) fn held_bytes(&self) -> usize {
        self.pieces.len()
    }
}

impl<T: Copy> Replies<T> {
    /// Has `filter` change the reply for place `number`, if that is to come and the client wants it.
    pub fn filter(&mut self, number: u32, filter: Box<dyn Filter>) {
        let index = self.index(number);
        let Some(place) = self.pending.get_mut(index) else { return };
        let Place::Waiting(owed) = *place else { return };
        *place = Place::Filtered(owed);
        let mut filters = self.filters.take().unwrap_or_default();
        while filters.filters.front().is_some_and(|(number, _)| !self.has_place(*number)) {
            filters.filters.pop_front();
        }
        filters.filters.push_back((number, filter));
        self.filters = Some(filters);
    }

    /// Fills the filtered place `number`.
    #[cold]
    pub(super) fn settle_filtered(&mut self, number: u32, reply: &[u8], pool: &mut BufferPool) -> bool {
        let mut out = pool.take();
        self.filtered(number, reply, &mut out);
        let index = self.index(number);
        if let Some(place) = self.pending.get_mut(index)
            && let Place::Filtered(owed) = *place
        {
            *place = Place::Waiting(owed);
        }
        self.settle(number, &out, pool);
        pool.give(out);
        true
    }

    /// Keeps a piece of the filtered reply at the front until it is complete.
    #[cold]
    pub(super) fn keep_piece(&mut self, piece: &[u8]) {
        self.parked_bytes += piece.len();
        self.filters.get_or_insert_default().pieces.extend_from_slice(piece);
    }

    /// Passes on the filtered reply at the front, all of whose pieces are here.
    #[cold]
    pub(super) fn release_pieces(&mut self, pool: &mut BufferPool) {
        let pieces =
            self.filters.as_mut().map(|filters| std::mem::take(&mut filters.pieces)).unwrap_or_default();
        self.parked_bytes -= pieces.len();
        let mut out = pool.take();
        self.filtered(self.front, &pieces, &mut out);
        self.output.queue.push(&out, pool);
        pool.give(out);
    }

    /// Appends `reply` as the filter of place `number` has it. A place without a filter, which cannot be, has no reply.
    fn filtered(&mut self, number: u32, reply: &[u8], out: &mut Vec<u8>) {
        let Some(filters) = &mut self.filters else { return };
        let at = filters.filters.iter().position(|(own, _)| *own == number);
        if let Some((_, filter)) = at.and_then(|at| filters.filters.remove(at)) {
            filter.apply(reply, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::replies::Owed;
    use stdx::Instant;

    /// Writes a reply twice.
    #[derive(Debug)]
    struct Twice;

    impl Filter for Twice {
        fn apply(&self, reply: &[u8], out: &mut Vec<u8>) {
            out.extend_from_slice(reply);
            out.extend_from_slice(reply);
        }
    }

    fn replies() -> (Replies<u8>, BufferPool) {
        (Replies::new(Instant::ZERO), BufferPool::new(16, 1 << 20))
    }

    #[test]
    fn filtered_reply_keeps_its_place() {
        let (mut replies, mut pool) = replies();
        let places = [0; 3].map(|_| replies.reserve(Owed::Node));
        replies.filter(places[1], Box::new(Twice));
        replies.filter(places[2], Box::new(Twice));
        assert!(replies.settle_as_it_is(places[2], b"+c\r\n", &mut pool));
        assert!(replies.settle_as_it_is(places[0], b"+a\r\n", &mut pool));
        assert_eq!(replies.parked_bytes, replies.add_up_parked());
        assert!(replies.settle_as_it_is(places[1], b"+b\r\n", &mut pool));
        assert_eq!(replies.output(), b"+a\r\n+b\r\n+b\r\n+c\r\n+c\r\n");
        assert_eq!((replies.parked_bytes, replies.is_pending()), (0, false));
    }

    #[test]
    fn pieces_of_a_filtered_reply_leave_together() {
        let (mut replies, mut pool) = replies();
        let place = replies.reserve(Owed::Node);
        replies.filter(place, Box::new(Twice));
        replies.relay(b"$3\r\nab", &mut pool);
        assert!(replies.is_relaying() && replies.output().is_empty());
        assert_eq!((replies.parked_bytes, replies.add_up_parked()), (6, 6));
        replies.relay(b"c\r\n", &mut pool);
        replies.finish_relay(&mut pool);
        assert_eq!(replies.output(), b"$3\r\nabc\r\n$3\r\nabc\r\n");
        assert_eq!((replies.parked_bytes, replies.is_relaying()), (0, false));
    }

    #[test]
    fn filters_of_places_that_are_gone_are_forgotten() {
        let (mut replies, mut pool) = replies();
        for _ in 0..10 {
            let place = replies.reserve(Owed::Node);
            replies.filter(place, Box::new(Twice));
            replies.forget_pending();
        }
        let place = replies.reserve(Owed::Node);
        replies.filter(place, Box::new(Twice));
        assert!(replies.filters.as_ref().is_some_and(|filters| filters.filters.len() <= 2));
        assert!(replies.settle_as_it_is(place, b"+a\r\n", &mut pool));
        assert_eq!(replies.output(), b"+a\r\n+a\r\n");
    }
}
