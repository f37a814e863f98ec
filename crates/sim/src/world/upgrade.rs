//! Clients that are handed over while they are served, as in an upgrade, but to the same proxy. Of each, the proxy knows the form
//! of its state and nothing else.

use super::World;
use proxy::{Arrival, ClientState, ConnId, Event, give_up_client, take_over_client};

/// One turn in this number hands a client over.
const HAND_OVER_ONE_IN: u64 = 6;

impl World<'_> {
    /// Hands a client over, if it may leave. All bytes under way, and all that it expects, go with it.
    pub(super) fn hand_over(&mut self) {
        if !self.plan.hands_over || !self.prng.one_in(HAND_OVER_ONE_IN) {
            return;
        }
        let client = self.prng.below(self.clients.len() as u64) as usize;
        let Some(conn) = self.clients[client].conn else { return };
        let Some(link) = self.links.get(&conn) else { return };
        if link.dead || link.closed_by_proxy {
            return;
        }
        let Some(state) = give_up_client(&mut self.proxy, conn) else { return };
        // The socket goes before the close that the proxy asks for.
        let link = self.links.remove(&conn);
        self.perform();
        let form = state.encode();
        let taken = match ClientState::decode(&form) {
            Ok(read) if read == state => {
                take_over_client(&mut self.proxy, &read, &Arrival::of("simulated"), self.now)
            }
            read => return self.ledger.violate(format!("{state:?} became {read:?}")),
        };
        // Each arrival takes a number.
        self.admitted += 1;
        match (taken, link) {
            (Ok(taken), Some(mut link)) => {
                (link.paused, link.wants_writable) = (false, false);
                // Deliveries are planned for the id.
                (link.to_proxy.planned, link.to_peer.planned) = (false, false);
                self.links.insert(taken, link);
                self.go_on_with(client, taken, &state);
            }
            (Err(error), _) => self.ledger.violate(format!("a client was not taken over: {error}")),
            (Ok(_), None) => {}
        }
    }

    fn go_on_with(&mut self, client: usize, conn: ConnId, state: &ClientState) {
        self.report.handed_over += 1;
        self.clients[client].arrive(conn, self.admitted);
        if !state.unread.is_empty() {
            self.proxy.handle_event(Event::Received { conn, bytes: &state.unread }, self.now);
            self.perform();
        }
        self.plan_delivery_to_proxy(conn);
        self.plan_delivery_to_peer(conn);
    }
}
