//! Replies that wait for other replies of their client until the next turn.
//!
//! A client that has sent a hundred requests gets replies from several nodes. One node may be a little late for this
//! turn, so that 98 replies are ready now and two come with the next turn. If the worker has more work than time, the
//! 98 replies wait for the other two, and one write takes all. With 50 clients at -P 100, every second client got two
//! writes before.
//! ```text
//!   turn 1: 98 of 100 replies ─► held        turn 2: the other two, or not ─► all that is ready is sent
//! ```
//!
//! A reply waits for one turn at most. The worker does not delay that turn: it begins at once with the bytes that have
//! arrived.

use crate::ConnId;
use crate::features::Features;
use crate::session::Session;
use crate::session::pinning::Pinning;

/// Clients whose replies wait for the next turn.
#[derive(Debug, Default)]
pub struct Cork {
    /// Whether replies may wait for others.
    pub holds: bool,
    /// Clients whose replies wait.
    pub held: Vec<ConnId>,
}

/// A longer output is not held: a second write costs little beside its bytes.
const HELD_BYTES_MAX: usize = 16 * 1024;

impl Cork {
    /// Whether the output of `session` is to wait for more replies. If so, the session is listed.
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

/// Whether some of the client's replies are here and some are not.
fn is_half<F: Features>(session: &Session<F>) -> bool {
    session.replies.is_pending()
        && session.replies.output().len() <= HELD_BYTES_MAX
        && session.pinning == Pinning::No
}
