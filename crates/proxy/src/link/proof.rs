//! The proof that a node must give on a new connection before it gets requests: it is the node that the topology means.
//!
//! Addresses change hands. A node of another cluster may now have the address of one of ours, and would keep our
//! requests. A former primary may have become a replica that answers reads with old values.
//!
//! ```text
//!   connected ─► greeting ─► PONG ─► CLUSTER MYID: the name in its cluster?               ─► requests flow
//!                                    ROLE: a primary, where sentinels choose it?
//!                                    INFO: a node that --nodes can name (inspection.rs)?
//! ```

use crate::link::inspected::{QUESTIONS, QUESTIONS_LEN, Said};
use resp::reply::{as_bulk, elements, is_error};
use std::sync::Arc;

/// The required proof.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Proof {
    /// None: any node at the address will do.
    #[default]
    Nothing,
    /// The node has this name in its cluster.
    Identity(Arc<str>),
    /// The node is a primary.
    Primary,
    /// The node can be one of a list of nodes.
    Plain {
        /// The run id of this process, which is none of its own nodes.
        run_id: Arc<str>,
        /// Whether it is named as a replica.
        is_named_replica: bool,
    },
}

const MYID: &[u8] = b"*2\r\n$7\r\nCLUSTER\r\n$4\r\nMYID\r\n";
const ROLE: &[u8] = b"*1\r\n$4\r\nROLE\r\n";

impl engine::features::Proof for Proof {
    /// The request that asks for the proof; empty if none is needed.
    fn request(&self) -> &'static [u8] {
        match self {
            Proof::Nothing => b"",
            Proof::Identity(_) => MYID,
            Proof::Primary => ROLE,
            Proof::Plain { .. } => QUESTIONS,
        }
    }

    /// Number of replies to that request.
    fn replies(&self) -> usize {
        match self {
            Proof::Nothing => 0,
            Proof::Identity(_) | Proof::Primary => 1,
            Proof::Plain { .. } => QUESTIONS_LEN,
        }
    }

    /// Checks whether `reply` is the proof. The error says what is wrong, in words for clients and operators.
    ///
    /// A node may refuse the question, or may not know it. Then no proof is required.
    fn check(&self, reply: &[u8]) -> Result<(), String> {
        if is_error(reply) {
            let text = String::from_utf8_lossy(reply);
            return match text.contains("cluster support disabled") {
                true => Err("it is not in cluster mode".to_owned()),
                false => Ok(()),
            };
        }
        let is_shown = match self {
            Proof::Nothing => true,
            Proof::Plain { run_id, is_named_replica } => {
                return match Said::read(reply, run_id, *is_named_replica) {
                    Said::Unfit(reason) => Err(reason),
                    Said::Nothing | Said::Primary | Said::Replica(_) => Ok(()),
                };
            }
            Proof::Identity(identity) => as_bulk(reply) == Some(identity.as_bytes()),
            Proof::Primary => elements(reply).and_then(|mut parts| as_bulk(parts.next()?)) == Some(b"master"),
        };
        match self {
            _ if is_shown => Ok(()),
            Proof::Identity(_) => Err("another node answers at its address".to_owned()),
            Proof::Nothing | Proof::Primary | Proof::Plain { .. } => {
                Err("it is no longer a primary".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConnId;
    use crate::features::Link;
    use crate::link::greeting::{PING, PONG};
    use crate::link::profile::greeting_of_pool;
    use crate::link::{ProfileId, State, Use};
    use engine::features::Proof as _;
    use stdx::{BufferPool, Instant};
    use topology::NodeId;
    use topology::ShardId;

    #[test]
    fn wrong_node_id_or_no_cluster_fails_the_identity_check() {
        let proof = Proof::Identity("abc".into());
        assert_eq!(proof.check(b"$3\r\nabc\r\n"), Ok(()));
        assert_eq!(proof.check(b"$3\r\nabd\r\n"), Err("another node answers at its address".to_owned()));
        let disabled = b"-ERR This instance has cluster support disabled\r\n";
        assert_eq!(proof.check(disabled), Err("it is not in cluster mode".to_owned()));
        for unasked in ["-NOPERM this user has no permissions\r\n", "-ERR unknown subcommand 'MYID'\r\n"] {
            assert_eq!(proof.check(unasked.as_bytes()), Ok(()), "{unasked}");
        }
    }

    #[test]
    fn a_replica_is_no_primary() {
        let primary = b"*3\r\n$6\r\nmaster\r\n:797\r\n*0\r\n";
        let replica = b"*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:797\r\n";
        assert_eq!(Proof::Primary.check(primary), Ok(()));
        assert_eq!(Proof::Primary.check(replica), Err("it is no longer a primary".to_owned()));
        assert_eq!(Proof::Primary.check(b"-NOPERM no\r\n"), Ok(()));
    }

    #[test]
    fn a_node_of_a_cluster_gets_no_request() {
        let mut pool = BufferPool::new(4, 1 << 20);
        let (conn, now) = (ConnId { index: 1, generation: 0 }, Instant::ZERO);
        let (plain, cluster) = (&b"$9\r\nredis_mode:standalone\r\n"[..], b"$9\r\nredis_mode:cluster\r\n");
        for (first, second) in
            [(&cluster[..], None), (plain, Some(&b"-NOPERM no\r\n"[..])), (plain, Some(plain))]
        {
            let greeting = greeting_of_pool();
            let mut link: Link = Link::new((ShardId(0), NodeId(0)), Use::Shared, ProfileId::FIRST, greeting);
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
            let greeting = greeting_of_pool();
            let mut link: Link = Link::new((ShardId(0), NodeId(0)), Use::Shared, ProfileId::FIRST, greeting);
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
