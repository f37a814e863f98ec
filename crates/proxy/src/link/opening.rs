//! How a connection to a node begins: greeting, PONG, and what the node must show before it gets requests.

use super::{Link, State, shown};
use crate::ConnId;
use crate::link::proof::Proof;
use resp::reply;
use stdx::Instant;

impl Link {
    /// What is being said before any request.
    pub(super) fn opening(&self) -> &[u8] {
        if self.is_proving { self.proof.request() } else { self.greeting.bytes() }
    }

    /// The connection that was asked for is there. Its node must show `proof` before it gets requests.
    pub(crate) fn handle_connected(&mut self, proof: Proof) {
        (self.proof, self.is_proving) = (proof, false);
        if let State::Connecting { conn, deadline } = self.state {
            let (unsent, unanswered) = (self.greeting.bytes().len(), self.greeting.replies());
            self.state = State::Probing { conn, deadline, unsent, unanswered };
        }
    }

    /// The next reply to the greeting of a new connection: requests flow if it is the PONG, or what the node must show
    /// after that, which is true then.
    pub(crate) fn handle_probe_reply(&mut self, reply: &[u8], now: Instant) -> Result<bool, String> {
        match &mut self.state {
            &mut State::Probing { conn, unsent: 0, ref mut unanswered, .. } if self.is_proving => {
                self.proof.check(reply)?;
                *unanswered -= 1;
                let is_last = *unanswered == 0;
                if is_last {
                    self.begin(conn, now);
                }
                Ok(is_last)
            }
            State::Probing { unanswered: left @ 2.., unsent, .. }
                if *unsent < self.greeting.bytes().len() && !reply::is_error(reply) =>
            {
                *left -= 1;
                Ok(false)
            }
            State::Probing { unsent: unsent @ 0, unanswered: unanswered @ 1, .. }
                if self.proof != Proof::Nothing && self.greeting.is_answered_by(reply) =>
            {
                (*unsent, *unanswered) = (self.proof.request().len(), self.proof.replies());
                self.is_proving = true;
                Ok(false)
            }
            &mut State::Probing { conn, unsent: 0, unanswered: 1, .. }
                if self.greeting.is_answered_by(reply) =>
            {
                self.begin(conn, now);
                Ok(true)
            }
            _ => Err(shown(reply)),
        }
    }

    /// Whether the node was asked what it is, and has not answered all of it.
    pub(crate) fn is_inspected(&self) -> bool {
        let is_asked = self.is_proving && matches!(self.proof, Proof::Plain { .. });
        is_asked && matches!(self.state, State::Probing { .. })
    }

    /// Requests flow from now on.
    fn begin(&mut self, conn: ConnId, now: Instant) {
        self.state = State::Ready { conn, since: now };
        self.failures = 0;
        self.moved_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Use;
    use crate::link::profiles::{Greeting, PING, PONG, Profile, ProfileId};
    use crate::login::credentials::Credentials;
    use stdx::BufferPool;
    use topology::{NodeId, ShardId};

    #[test]
    fn a_node_of_a_cluster_gets_no_request() {
        let mut pool = BufferPool::new(4, 1 << 20);
        let (conn, now) = (ConnId { index: 1, generation: 0 }, Instant::ZERO);
        let (plain, cluster) = (&b"$9\r\nredis_mode:standalone\r\n"[..], b"$9\r\nredis_mode:cluster\r\n");
        for (first, second) in
            [(&cluster[..], None), (plain, Some(&b"-NOPERM no\r\n"[..])), (plain, Some(plain))]
        {
            let greeting = Greeting::of(Profile::default(), &Credentials::default());
            let mut link = Link::new((ShardId(0), NodeId(0)), Use::Shared, ProfileId::FIRST, greeting);
            link.state = State::Connecting { conn, deadline: Instant::NEVER };
            link.handle_connected(Proof::Plain { run_id: "me".into(), is_named_replica: false });
            link.handle_sent(PING.len(), &mut pool);
            assert_eq!(link.handle_probe_reply(PONG, now), Ok(false));
            link.handle_sent(link.output().len(), &mut pool);
            let said = link.handle_probe_reply(first, now);
            match second {
                None => {
                    assert!(said.expect_err("it is refused").starts_with("it is a node of a Redis Cluster"))
                }
                Some(second) => {
                    assert_eq!((said, link.is_ready()), (Ok(false), false));
                    assert_eq!((link.handle_probe_reply(second, now), link.is_ready()), (Ok(true), true));
                }
            }
        }
    }

    #[test]
    fn no_request_before_the_identity_check() {
        let mut pool = BufferPool::new(4, 1 << 20);
        let (conn, now) = (ConnId { index: 1, generation: 0 }, Instant::ZERO);
        let proof = Proof::Identity("abc".into());
        for (shown, is_it) in [(&b"$3\r\nabc\r\n"[..], true), (b"$3\r\nabd\r\n", false)] {
            let greeting = Greeting::of(Profile::default(), &Credentials::default());
            let mut link = Link::new((ShardId(0), NodeId(0)), Use::Shared, ProfileId::FIRST, greeting);
            link.state = State::Connecting { conn, deadline: Instant::NEVER };
            link.handle_connected(proof.clone());
            link.handle_sent(PING.len(), &mut pool);
            assert_eq!(link.handle_probe_reply(PONG, now), Ok(false));
            assert_eq!(link.output(), proof.request());
            assert!(link.handle_probe_reply(shown, now).is_err(), "an answer before the question");
            link.handle_sent(proof.request().len(), &mut pool);
            assert_eq!(link.handle_probe_reply(shown, now).is_ok(), is_it);
            assert_eq!(link.is_ready(), is_it);
        }
    }
}
