//! Replies of the proxy that a node has to permit.

use crate::core::Core;
use crate::features::Session;
use crate::login::decided::{Decided, decided};
use crate::login::passing::answer_if_allowed;
use crate::pubsub;
use crate::requests::route::Keys;
use command::{Command, Local, Refusal};
use resp::Request;

impl Core {
    /// Carries out requests that the proxy answers itself, if no node has to permit them.
    pub(crate) fn answer_with_nodes(
        &mut self,
        session: &mut Session,
        local: Local,
        command: &Command,
        request: &Request<'_>,
        (keys, reply): (&mut Keys, &mut Vec<u8>),
    ) {
        match decided(local) {
            Decided::Here => self.answer_here(session, local, command, request, reply),
            Decided::OneNode => {
                self.cx.send(session, command, self.cx.engine.topology.keyless(), request.bytes)
            }
            Decided::HereIfAllowed(question) => {
                let mut answer = Vec::new();
                pubsub::pubsub(&self.cx, question, request, &mut answer);
                answer_if_allowed(&mut self.cx, session, request, answer);
            }
            Decided::AllNodes(merge) => self.cx.send_to_all(session, command, merge, request, keys),
            Decided::Refused(why) => {
                self.cx.refuse_command(session, command, Refusal::Never(why), request);
            }
        }
    }
}
