//! Commands that wait: their routes, and the end of the wait when the client goes.

use crate::core::Core;
use crate::emulate::waits;
use crate::features::{Owed, Session, TaskId};
use crate::held::{is_alone, set_waiting, streams, wait_on};
use crate::outcome::Step;
use crate::pause;
use crate::requests::route::{self, Keys, Route};
use crate::session::{Phase, Reason};
use command::{Command, Wait};
use resp::Request;

impl Core {
    /// Sends a request that its node may answer late.
    pub(crate) fn forward_waiting(
        &mut self,
        session: &mut Session,
        command: &Command,
        wait: Wait,
        request: &Request<'_>,
        keys: &mut Keys,
    ) -> Step {
        let Some(patience) = wait.patience(request) else {
            return self.read_at_once(session, command, wait, request, keys);
        };
        if !is_alone(session) {
            return self.cx.read_again();
        }
        if session.phase == Phase::Ending {
            // The client has ended, or shardis drains, so no wait may begin.
            self.abandon(session);
            return Step::Done;
        }
        if wait == Wait::Replicas {
            self.fans.wait_for_replicas(&mut self.cx, session, request, patience);
            return Step::Done;
        }
        match route::route(command, request, &self.cx.engine.topology, keys) {
            Route::Parts if wait != Wait::BlockAcross => {
                self.emulations.emulate_waiting(&mut self.cx, session, command, request, keys, patience);
            }
            Route::Parts if streams::is_complete(request, keys) => {
                self.fans.wait_for_entries(&mut self.cx, session, request, keys, patience);
            }
            Route::Parts => {
                let shard = self.cx.engine.topology.keyless();
                wait_on(&mut self.cx, session, shard, request.bytes, patience)
            }
            Route::One(shard) => wait_on(&mut self.cx, session, shard, request.bytes, patience),
        }
        Step::Done
    }

    /// Sends a request of a command that can wait, but does not wait this time.
    pub(crate) fn read_at_once(
        &mut self,
        session: &mut Session,
        command: &Command,
        wait: Wait,
        request: &Request<'_>,
        keys: &mut Keys,
    ) -> Step {
        if wait != Wait::BlockAcross {
            return self.forward(session, command, request, keys);
        }
        match route::route(command, request, &self.cx.engine.topology, keys) {
            Route::One(shard) => self.cx.send(session, command, shard, request.bytes),
            Route::Parts if streams::is_complete(request, keys) => {
                streams::read_streams(&mut self.cx, session, request, keys)
            }
            Route::Parts => self.cx.send(session, command, self.cx.engine.topology.keyless(), request.bytes),
        }
        Step::Done
    }

    /// Ends the wait of a blocked client that has ended its stream. As in Redis, the wait ends, so that other clients
    /// get the elements. The client still gets the replies to earlier requests.
    pub(crate) fn abandon(&mut self, session: &mut Session) {
        pause::forget_held_back(&mut self.cx, session);
        if let Some(Owed::Task(TaskId::Fan(fan))) = session.replies.front_owed() {
            self.fans.leave_fan(&mut self.cx, fan);
        }
        if let Some(pop) = waits::waiting_pop(session) {
            self.emulations.abandon_pop(&mut self.cx, session, pop);
        }
        if let Some(node) = session.wait.on {
            set_waiting(&mut self.cx, session, None);
            self.cx.pins.doomed.push(node);
            session.hold.remove(Reason::Order);
            session.replies.forget_pending();
            self.cx.count_waiting(session);
        }
        session.phase = Phase::Closing { linger: false };
        self.cx.engine.pool.give(std::mem::take(&mut session.input.bytes));
        self.cx.engine.recount_client(session);
    }
}
