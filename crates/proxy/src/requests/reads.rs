//! Reads that may go to replicas.

use crate::core::Core;
use crate::features::{Asked, Owed, Session};
use crate::link::kept::Kept;
use crate::outcome::Step;
use crate::reading::replicas::{
    has_reads_in_flight, may_change, note_replica_read, note_write, reader_link, reads_must_be_fresh,
};
use crate::reading::{Choice, may_read_replica};
use crate::requests::route::{self, Keys, Route};
use crate::scripts;
use command::{Carry, Command};
use resp::Request;

impl Core {
    /// Runs a read that a replica may answer. `None` if the request goes to the primary as others do.
    #[cold]
    pub(crate) fn read_from_replica(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
    ) -> Option<Step> {
        if session.features.transaction.is_none()
            && may_read_replica(command)
            && !reads_must_be_fresh(session)
        {
            return self.send_read(session, command, request, keys);
        }
        let is_kept =
            session.features.transaction.is_some() && !matches!(command.carry, Carry::Transaction(_));
        if is_kept || !may_change(command) {
            return None;
        }
        if has_reads_in_flight(session) {
            session.turn();
            return Some(self.cx.read_again());
        }
        note_write(&mut self.cx, session, command, request, keys);
        None
    }

    /// Sends a read, or its parts, to replicas, if any is chosen.
    pub(crate) fn send_read(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
    ) -> Option<Step> {
        match (route::route(command, request, &self.cx.engine.topology, keys), command.carry) {
            (Route::One(shard), carry) => {
                let ix = match self.readers.choose_reader(&mut self.cx, session, shard) {
                    Choice::Replica(id) => reader_link(&mut self.cx, session.profile, id)?,
                    Choice::Nowhere => {
                        let lost = self.readers.no_replica(&self.cx, shard);
                        self.cx.refuse(session, &lost.text());
                        return Some(Step::Done);
                    }
                    Choice::Primary | Choice::Fallback | Choice::OwnWrite => return None,
                };
                note_replica_read(session, shard);
                match carry {
                    Carry::Script(script) => {
                        scripts::forward_script_to(&mut self.cx, session, ix, script, request)
                    }
                    _ => {
                        let place = session.replies.reserve(Owed::Node);
                        let asked = Asked { kept: Kept::READ, ..Asked::by_client(session.conn, place) };
                        self.cx.engine.enqueue_on(ix, request.bytes, asked);
                    }
                }
                Some(Step::Done)
            }
            (Route::Parts, Carry::Split(merge)) => {
                if let Err(lost) = self.readers.choose_readers(&mut self.cx, session, &mut keys.parts)? {
                    self.cx.refuse(session, &lost.text());
                    return Some(Step::Done);
                }
                self.cx.send_parts_to_nodes(session, command, merge, request, keys);
                Some(Step::Done)
            }
            // An emulation over several shards reads from their primaries.
            (Route::Parts, _) => None,
        }
    }
}
