//! Bytes that were not read yet, and a worker that was stopped, do not make a node silent: see `engine::link`.

use crate::ConnId;
use crate::proxy::{Peer, Proxy};
use std::time::Duration;
use stdx::Instant;

impl Proxy {
    /// The worker came `late` to its turn at `now`: it was stopped, others had its core, or the turn before took so long. What
    /// nodes did meanwhile could not be seen, or what was sent had not left.
    pub fn handle_lateness(&mut self, late: Duration, now: Instant) {
        let core = &mut self.core;
        if late >= core.engine.limits.stall_min() {
            core.engine.links.iter_mut().for_each(|link| link.handle_stall(now, &core.engine.limits));
        }
    }

    /// Bytes of `conn` have come and are not read yet.
    pub fn handle_unread(&mut self, conn: ConnId, now: Instant) {
        if let Some(&Peer::Link(ix)) = self.peers.get(conn) {
            self.core.engine.links[ix].handle_progress(now);
        }
    }
}
