//! Requests of clients whose user has a namespace.

use crate::core::Core;
use crate::features::Session;
use crate::namespace::shapes::{Expected, Shape, Stripped};
use crate::namespace::treatment::{Treatment, treatment_in};
use crate::namespace::{Namespace, rewriting};
use crate::outcome::Step;
use crate::requests::route::Keys;
use crate::rewritten::Rewritten;
use command::{Carry, Command, Number, Transaction, Within};
use resp::Request;
use std::sync::Arc;

impl Core {
    /// Runs a command of a client with a namespace.
    #[cold]
    pub(crate) fn carry_out_in_namespace(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
        reply: &mut Vec<u8>,
    ) -> Step {
        let Some(named) = &session.features.namespace else {
            return self.carry_out_permitted(session, command, request, keys, reply);
        };
        let namespace = Arc::clone(&named.namespace);
        let asks_several = matches!(
            command.within_transaction(),
            Within::Asked | Within::KeptByOneShardOrAsked | Within::KeptByOneShard
        );
        let is_route = namespace.route().is_some();
        let treatment = match treatment_in(&namespace, command) {
            Treatment::Free if is_route && self.cx.engine.asking != Number::LEARNED => Treatment::Free,
            Treatment::Script if !namespace.has_scripts => {
                Treatment::Refused("a script can name any key (see --namespace-scripts)")
            }
            _ if session.features.transaction.is_some() && asks_several => {
                Treatment::Refused("it concerns all shards, between MULTI and EXEC")
            }
            _ if self.cx.engine.asking == Number::LEARNED => {
                Treatment::Refused("the table of shardis lacks it, so nothing is known of its reply")
            }
            treatment => treatment,
        };
        let rewritten = rewriting::rewritten(&namespace, treatment, command, request);
        let rewritten = match rewritten {
            Ok(rewritten) => rewritten,
            Err(why) => {
                let (name, whose) =
                    (&command.name, if is_route { "over this route" } else { "in a namespace" });
                self.cx.refuse(session, &format!("ERR '{name}' is not available {whose}: {why}"));
                return Step::Done;
            }
        };
        let (place, queued) = (session.replies.next_place(), count_queued(session));
        let step = {
            let request = rewritten.request.as_ref().map_or(*request, Rewritten::request);
            self.carry_out_permitted(session, command, &request, keys, reply)
        };
        if step == Step::Done {
            expect(session, &namespace, command, (treatment.shape(), rewritten.pattern), place, queued);
        }
        step
    }
}

fn count_queued(session: &Session) -> Option<u32> {
    session.features.transaction.as_ref().map(|transaction| transaction.commands + transaction.inlays.here)
}

/// Notes the shape of the reply to a request that was carried out. Its place is `place`, if it has not been answered.
/// Before it, `queued` commands were queued. The client wants names that match the pattern.
fn expect(
    session: &mut Session,
    namespace: &Arc<Namespace>,
    command: &Command,
    (shape, pattern): (Shape, Option<Box<[u8]>>),
    place: u32,
    queued: Option<u32>,
) {
    let now_queued = count_queued(session);
    let Some(named) = &mut session.features.namespace else { return };
    let expected = match command.carry {
        Carry::Transaction(Transaction::Execute) => Expected::Exec(std::mem::take(&mut named.queued)),
        Carry::Transaction(Transaction::Begin) if queued.is_none() => return named.queued.clear(),
        _ if queued.is_some() && queued < now_queued => return named.queued.push(shape),
        _ => Expected::One(shape),
    };
    if expected.has_keys() {
        let stripped = Stripped { namespace: Arc::clone(namespace), expected, pattern };
        session.replies.filter(place, Box::new(stripped));
    }
}

/// Notes the change of the reply to `command` for a client that is a route whose keys are kept. The reply's place is `place`.
pub(crate) fn expect_kept(session: &mut Session, command: &Command, place: u32) {
    let Some(named) = &session.features.namespace else { return };
    let namespace = Arc::clone(&named.namespace);
    let expected = namespace.route().filter(|_| !namespace.renames());
    if let Some(expected) = expected.and_then(|route| route.expected_if_kept(command)) {
        session.replies.filter(place, Box::new(Stripped { namespace, expected, pattern: None }));
    }
}
