//! The way of a slow request's reply to its client: how long it waits for its turn, and how long for the client to read.
//!
//! Only noted requests are followed, a bounded number at a time. At the end of a turn, a worker that follows none compares
//! one number.

use crate::ConnId;
use crate::features::{Session, Ticket};
use crate::peers::{Peer, Peers};
use crate::sampling::way::Way;
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
    way: Way,
    /// When it was read: the low bits of the microseconds, as all times here.
    read_us: u32,
    /// Since when it is among the client's output.
    since_us: u32,
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
            let way = Way::new(ticket.conn, ticket.place);
            self.followed.push(Delivery { id, way, read_us: now_us, since_us: now_us });
        }
    }

    /// Notes that the client `conn` has taken `count` bytes.
    #[cold]
    pub(crate) fn note_taken(&mut self, conn: ConnId, count: usize) {
        self.followed.iter_mut().for_each(|delivery| delivery.way.note_taken(conn, count));
    }

    /// Notes in `log` which replies have got further by the end of the turn at `now_us`.
    #[cold]
    pub(crate) fn end_turn(&mut self, peers: &Peers, log: &SlowLog, now_us: u32) {
        self.followed.retain_mut(|delivery| match peers.get(delivery.way.conn) {
            Some(Peer::Client(session)) => delivery.goes_on(session, log, now_us),
            // The client has gone.
            _ => false,
        });
    }
}

impl Delivery {
    /// Notes how far the reply has got. Returns whether to follow it further.
    fn goes_on(&mut self, session: &Session, log: &SlowLog, now_us: u32) -> bool {
        let progress = self.way.go_on(session);
        if progress.begins {
            self.since_us = now_us;
        }
        let client_us = progress.is_taken.then(|| now_us.wrapping_sub(self.since_us));
        if progress.begins || progress.is_taken {
            log.note_delivered(self.id, self.since_us.wrapping_sub(self.read_us), client_us);
        }
        !progress.is_taken
    }
}
