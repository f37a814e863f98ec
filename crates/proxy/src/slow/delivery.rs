//! The way of a slow request's reply to its client: how long it waits for its turn, and how long for the client to read.
//!
//! Only noted requests are followed, a bounded number at a time. At the end of a turn, a worker that follows none compares
//! one number.

use crate::ConnId;
use crate::features::{Session, Ticket};
use crate::peers::{Peer, Peers};
use crate::slow::log::SlowLog;

/// Replies that a worker follows at a time. The end of more is not known. Each costs some nanoseconds a turn.
const FOLLOWED_MAX: usize = 64;

/// The replies that are followed.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    followed: Vec<Delivery>,
}

/// One reply, or a part of one.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    /// The number of its entry.
    id: u64,
    conn: ConnId,
    place: u32,
    /// When it was read: the low bits of the microseconds, as all times here.
    read_us: u32,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The client's reply is not complete, or others come before it.
    Waits,
    /// The reply is among the client's output since `since_us`. The socket has it once the client has taken `left` more bytes.
    Leaves { since_us: u32, left: usize },
}

impl Deliveries {
    /// Whether none is followed.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.followed.is_empty()
    }

    /// Follows the reply to `ticket`, which was read at `now_us`, to fill in the entry `id`.
    pub(crate) fn follow(&mut self, id: u64, ticket: &Ticket, now_us: u32) {
        if self.followed.len() < FOLLOWED_MAX {
            let (conn, place) = (ticket.conn, ticket.place);
            self.followed.push(Delivery { id, conn, place, read_us: now_us, step: Step::Waits });
        }
    }

    /// Notes that the client `conn` has taken `count` bytes.
    #[cold]
    pub(crate) fn note_taken(&mut self, conn: ConnId, count: usize) {
        for delivery in self.followed.iter_mut().filter(|delivery| delivery.conn == conn) {
            if let Step::Leaves { left, .. } = &mut delivery.step {
                *left = left.saturating_sub(count);
            }
        }
    }

    /// Notes in `log` which replies have got further by the end of the turn at `now_us`.
    #[cold]
    pub(crate) fn end_turn(&mut self, peers: &Peers, log: &SlowLog, now_us: u32) {
        self.followed.retain_mut(|delivery| match peers.get(delivery.conn) {
            Some(Peer::Client(session)) => delivery.goes_on(session, log, now_us),
            // The client has gone.
            _ => false,
        });
    }
}

impl Delivery {
    /// Notes how far the reply has got. Returns whether to follow it further.
    fn goes_on(&mut self, session: &Session, log: &SlowLog, now_us: u32) -> bool {
        if matches!(self.step, Step::Waits) && !session.replies.has_place(self.place) {
            self.step = Step::Leaves { since_us: now_us, left: session.replies.output().len() };
            log.note_delivered(self.id, now_us.wrapping_sub(self.read_us), None);
        }
        let Step::Leaves { since_us, left } = self.step else { return true };
        if left > 0 {
            return true;
        }
        log.note_delivered(self.id, since_us.wrapping_sub(self.read_us), Some(now_us.wrapping_sub(since_us)));
        false
    }
}
