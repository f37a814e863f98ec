//! Events of held links: a loss, or the node's number for the link.

use crate::ConnId;
use crate::features::{NodeName, Owed, TaskId, Ticket};
use crate::held::{end_request, show_waiting, watches};
use crate::link::LinkIx;
use crate::peers::Peer;
use crate::proxy::Proxy;
use resp::integer::parse_i64;

impl Proxy {
    /// Notes the loss of the link `ix`, with its `holder`, if any, and with the `tickets` that were in flight.
    pub(crate) fn note_held_loss<'a>(
        &mut self,
        ix: LinkIx,
        holder: Option<ConnId>,
        tickets: impl IntoIterator<Item = &'a Ticket>,
    ) {
        if holder.is_some() {
            self.core.execs.note_watch_lost(ix);
        }
        // A client that has released the link may have a request in flight there.
        for ticket in tickets.into_iter().filter(|ticket| ticket.is_of_client()) {
            if let Some(Peer::Client(session)) = self.peers.get_mut(ticket.conn) {
                end_request(&mut self.core.cx, session, ix, None);
            }
        }
        let Some(Peer::Client(session)) = holder.and_then(|conn| self.peers.get_mut(conn)) else { return };
        if session.features.watch.is_on(ix) {
            watches::lose_watches(&mut self.core.cx, session, ix);
        }
        self.answer_seekers(ix);
    }

    /// Notes the node's number for the link `ix`, and answers the questions about the waiting client.
    pub(crate) fn note_name(&mut self, ix: LinkIx, reply: &[u8]) {
        let digits = reply.strip_prefix(b":").and_then(|rest| rest.strip_suffix(b"\r\n"));
        let name = digits.and_then(parse_i64);
        let link = &mut self.core.cx.engine.links[ix];
        link.features.name = name.map_or(NodeName::Hidden, NodeName::Known);
        if let Some(holder) = link.features.held_by
            && let Some(Peer::Client(session)) = self.peers.get_mut(holder)
        {
            match session.replies.front_owed() {
                Some(Owed::Task(TaskId::Fan(fan))) => {
                    self.core.fans.note_part_waits(&mut self.core.cx, session, fan, ix)
                }
                _ if session.wait.on == Some(ix) => {
                    show_waiting(&mut self.core.cx, session);
                }
                _ => {}
            }
        }
        self.answer_seekers(ix);
    }
}
