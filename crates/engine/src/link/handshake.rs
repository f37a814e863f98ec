//! The beginning of a connection to a node: greeting, PONG, and the proof that the node must give before it gets
//! requests.

use super::{Link, State, shown};
use crate::ConnId;
use crate::features::Features;
use crate::features::Proof;
use resp::reply;
use stdx::Instant;

impl<F: Features> Link<F> {
    /// The requests of the present step: the greeting, or the request for the proof.
    pub(super) fn opening(&self) -> &[u8] {
        if self.handshake.is_proving {
            self.handshake.proof.request()
        } else {
            self.handshake.greeting.bytes()
        }
    }

    /// Begins the handshake on the new connection. The node must give `proof` before it gets requests.
    pub fn handle_connected(&mut self, proof: F::Proof) {
        (self.handshake.proof, self.handshake.is_proving) = (proof, false);
        if let State::Connecting { conn, deadline } = self.state {
            let (unsent, unanswered) =
                (self.handshake.greeting.bytes().len(), self.handshake.greeting.replies());
            self.state = State::Probing { conn, deadline, unsent, unanswered };
        }
    }

    /// Takes the next reply of the handshake. Returns true if it was the last one: requests flow from now on.
    pub fn handle_probe_reply(&mut self, reply: &[u8], now: Instant) -> Result<bool, String> {
        match &mut self.state {
            &mut State::Probing { conn, unsent: 0, ref mut unanswered, .. } if self.handshake.is_proving => {
                self.handshake.proof.check(reply)?;
                *unanswered -= 1;
                let is_last = *unanswered == 0;
                if is_last {
                    self.begin(conn, now);
                }
                Ok(is_last)
            }
            State::Probing { unanswered: left @ 2.., unsent, .. }
                if *unsent < self.handshake.greeting.bytes().len() && !reply::is_error(reply) =>
            {
                *left -= 1;
                Ok(false)
            }
            State::Probing { unsent: unsent @ 0, unanswered: unanswered @ 1, .. }
                if self.handshake.proof.replies() > 0 && self.handshake.greeting.is_answered_by(reply) =>
            {
                (*unsent, *unanswered) =
                    (self.handshake.proof.request().len(), self.handshake.proof.replies());
                self.handshake.is_proving = true;
                Ok(false)
            }
            &mut State::Probing { conn, unsent: 0, unanswered: 1, .. }
                if self.handshake.greeting.is_answered_by(reply) =>
            {
                self.begin(conn, now);
                Ok(true)
            }
            _ => Err(shown(reply)),
        }
    }

    /// The proof that the node was asked for and has not completed.
    pub fn proving(&self) -> Option<&F::Proof> {
        let is_asked = self.handshake.is_proving && matches!(self.state, State::Probing { .. });
        is_asked.then_some(&self.handshake.proof)
    }

    /// Ends the handshake: requests flow from now on.
    fn begin(&mut self, conn: ConnId, now: Instant) {
        self.state = State::Ready { conn, since: now };
        self.attempts.failures = 0;
        self.moved_at = now;
    }
}
