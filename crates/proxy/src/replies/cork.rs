//! Replies that wait for those that come with the next turn.
//!
//! A client that has sent a hundred requests gets the replies from several nodes, of which one may have been a little late
//! for this turn: 98 now and two with the next. Where the worker has more to do than time, the two are waited for, and all
//! go out in one write. With 50 clients at -P 100, every second one was written to twice before.
//!
//! ```text
//!   turn 1: 98 of 100 replies ─► held        turn 2: the other two, or not ─► sent, whatever there is
//! ```
//!
//! Nobody waits for longer than one turn, and that turn is not waited for: it begins at once, with what has arrived.

use crate::ConnId;
use crate::link::pinned::Pinning;
use crate::proxy::{Peer, Proxy};
use crate::session::Session;

/// Who has something to come with the next turn.
#[derive(Debug, Default)]
pub(crate) struct Cork {
    holds: bool,
    held: Vec<ConnId>,
}

/// More than this is not held: a second write costs little beside its bytes.
const HELD_BYTES_MAX: usize = 16 * 1024;

impl Cork {
    /// Whether what waits for `session` is to wait for more; then it is noted.
    #[inline]
    pub(crate) fn hold(&mut self, session: &mut Session) -> bool {
        let is_held = self.holds && !session.is_corked && is_half(session);
        session.is_corked = is_held;
        if is_held {
            self.held.push(session.conn);
        }
        is_held
    }
}

/// Whether some of its replies are here and some are not.
fn is_half(session: &Session) -> bool {
    session.is_pending() && session.output().len() <= HELD_BYTES_MAX && session.pinning == Pinning::No
}

impl Proxy {
    /// Whether replies may wait for others: to be said where the worker has more to do than time.
    pub fn cork(&mut self, holds: bool) {
        self.core.cork.holds = holds;
    }

    /// Whether some do: then the next turn must begin at once.
    pub fn has_corked(&self) -> bool {
        !self.core.cork.held.is_empty()
    }

    /// What was held in the last turn goes out with this one. To be called after a turn's events and before its actions.
    pub fn uncork(&mut self) {
        let mut held = std::mem::take(&mut self.core.cork.held);
        for conn in held.drain(..) {
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                self.core.list_client(session);
            }
        }
        self.core.cork.held = held;
    }
}
