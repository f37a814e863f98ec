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
use crate::features::Features;
use crate::session::Session;
use crate::session::pinning::Pinning;

/// Who has something to come with the next turn.
#[derive(Debug, Default)]
pub struct Cork {
    /// Whether replies may wait for others.
    pub holds: bool,
    /// Clients whose replies do.
    pub held: Vec<ConnId>,
}

/// More than this is not held: a second write costs little beside its bytes.
const HELD_BYTES_MAX: usize = 16 * 1024;

impl Cork {
    /// Whether what waits for `session` is to wait for more; then it is noted.
    #[inline]
    pub fn hold<F: Features>(&mut self, session: &mut Session<F>) -> bool {
        let is_held = self.holds && !session.replies.output.is_corked && is_half(session);
        session.replies.output.is_corked = is_held;
        if is_held {
            self.held.push(session.conn);
        }
        is_held
    }
}

/// Whether some of its replies are here and some are not.
fn is_half<F: Features>(session: &Session<F>) -> bool {
    session.replies.is_pending()
        && session.replies.output().len() <= HELD_BYTES_MAX
        && session.pinning == Pinning::No
}
