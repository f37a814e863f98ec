//! Replies that wait for those that come with the next turn: see [`engine::cork`].

use crate::proxy::{Peer, Proxy};

impl Proxy {
    /// Whether replies may wait for others: to be said where the worker has more to do than time.
    pub fn cork(&mut self, holds: bool) {
        self.core.engine.cork.holds = holds;
    }

    /// Whether some do: then the next turn must begin at once.
    pub fn has_corked(&self) -> bool {
        !self.core.engine.cork.held.is_empty()
    }

    /// What was held in the last turn goes out with this one. To be called after a turn's events and before its actions.
    pub fn uncork(&mut self) {
        let mut held = std::mem::take(&mut self.core.engine.cork.held);
        for conn in held.drain(..) {
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                self.core.engine.list_client(session);
            }
        }
        self.core.engine.cork.held = held;
    }
}
