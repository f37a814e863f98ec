//! Requests of clients whose user has a namespace.

use crate::core::Core;
use crate::features::Session;
use crate::namespace::shapes::{Expected, Shape, Stripped};
use crate::namespace::treatment::{Treatment, treatment};
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
        let treatment = match treatment(command) {
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
        let rewritten = rewriting::rewritten(namespace.prefix(), treatment, command, request);
        let rewritten = match rewritten {
            Ok(rewritten) => rewritten,
            Err(why) => {
                let name = &command.name;
                self.cx.refuse(session, &format!("ERR '{name}' is not available in a namespace: {why}"));
                return Step::Done;
            }
        };
        let (place, queued) = (session.replies.next_place(), count_queued(session));
        let step = {
            let request = rewritten.as_ref().map_or(*request, Rewritten::request);
            self.carry_out_permitted(session, command, &request, keys, reply)
        };
        if step == Step::Done {
            expect(session, &namespace, command, treatment.shape(), place, queued);
        }
        step
    }
}

fn count_queued(session: &Session) -> Option<u32> {
    session.features.transaction.as_ref().map(|transaction| transaction.commands + transaction.inlays.here)
}

/// Notes the shape of the reply to a request that was carried out. Its place is `place`, if it has not been answered.
/// Before it, `queued` commands were queued.
fn expect(
    session: &mut Session,
    namespace: &Arc<Namespace>,
    command: &Command,
    shape: Shape,
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
        session.replies.filter(place, Box::new(Stripped { namespace: Arc::clone(namespace), expected }));
    }
}
