//! Whole times of sampled requests, and the part of each in the proxy.
//!
//! ```text
//!   arrived ─ read ─────── sent ─────────► reply read ─────────── taken by the client's socket
//!      (held)    in the proxy   at the node             in the proxy
//!   └──────────────────────────── whole ──────────────────────────┘
//! ```
//!
//! All instants are those at which a turn of the worker begins or ends. The worker reads the clock then anyway.
//!
//! | instant | is | error |
//! | --- | --- | --- |
//! | arrived | begin of the turn in which the whole request was here | late by the turn before, at most |
//! | sent | end of the turn in which the node's socket took the last byte | late by that turn, at most |
//! | reply read | begin of the turn that read the reply | late by the turn before, at most |
//! | taken | end of the turn in which the client's socket took the last byte | late by that turn, at most |
//!
//! Bytes that come during a turn are seen at its end: hence the turn before.
//!
//! So the whole time is wrong by less than one turn in each direction. The time in the proxy is too long by less than two
//! turns: the rests of those that wrote. It is too short by less than two: bytes waited in the two sockets.
//! A turn is as long as the worker is busy: see `shardis_worker_busy_seconds_total` and `shardis_worker_turns_total`.
//!
//! Requests are picked by their numbers, in distances from 1 to 127 that are all as likely. So each request has the same
//! chance, whatever its command, node, time or place in a pipeline. Of `n` samples, the share below a bound has the standard
//! error `sqrt(p (1 - p) / n)`. Of 6,400,000 requests 100,000 are samples, and their p99 is one between p98.97 and p99.03.
//!
//! - A request over several shards counts by command alone. Its time at the nodes ends with the last part.
//! - The node of a request is the one that it was first sent to. Another one, after a redirect, is a part of the time at the
//!   node.
//! - A reply that is passed on while it comes is at the node until its last byte has come.
//! - Requests that wait on purpose (BLPOP) are left out. So are those whose client goes before it has its reply, and large
//!   ones that are passed on while they come.
//! - After [`FOLLOWED_FOR_US`] a request is not followed any more, and counts with the time that it took until then.

use crate::ConnId;
use crate::features::{Features, Session};
use crate::latency::{Latency, Time};
use crate::link::LinkIx;
use crate::peers::{Peer, Peers};
use crate::sampling::way::Way;
use command::Number;
use engine::link::Links;
use topology::NodeId;

/// Requests that a worker follows at a time, enough for 16,384 in flight. Each costs some nanoseconds a turn.
const FOLLOWED_MAX: usize = 256;
/// A request is followed for a minute.
const FOLLOWED_FOR_US: u32 = 60_000_000;

/// Distributions of sampled times.
#[derive(Clone, Debug, Default)]
pub struct WholeTimes {
    /// From a request's arrival until the client's socket has its reply.
    pub whole: Latency,
    /// The part of it that was not at the node.
    pub proxy: Latency,
}

impl WholeTimes {
    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &WholeTimes) {
        self.whole.add(&other.whole);
        self.proxy.add(&other.proxy);
    }

    /// Counts a request that took `whole_us`, of which `node_us` were at its node.
    pub(crate) fn count(&mut self, whole_us: u32, node_us: u32) {
        self.whole.count(Time::between(0, whole_us), 1);
        self.proxy.count(Time::between(node_us.min(whole_us), whole_us), 1);
    }
}

/// The requests that are followed.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    all: Vec<Request>,
}

/// One request.
#[derive(Debug)]
struct Request {
    command: Number,
    node: Option<NodeId>,
    /// When it arrived: the low bits of the microseconds, as all times here.
    arrived_us: u32,
    node_us: u32,
    stage: Stage,
    way: Way,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Carried out in this turn.
    New(Option<Queued>),
    /// Not sent yet.
    Queued(Queued),
    /// At its node since then.
    AtNode { since_us: u32 },
    /// Answered: the reply is here.
    Answered,
}

/// The place of a request on its link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub ix: LinkIx,
    pub conn: ConnId,
    /// The offset behind its last byte.
    pub end: u64,
}

impl Queued {
    /// Whether the node's socket has all of it, or the link is another one by now.
    fn is_sent(&self, links: &Links<Features>) -> bool {
        let link = &links[self.ix];
        link.conn() != Some(self.conn) || link.written() >= self.end
    }
}

/// A turn that ends.
pub(crate) struct Turn<'a> {
    pub links: &'a Links<Features>,
    pub began_us: u32,
    pub ended_us: u32,
}

/// A request that was just carried out.
pub(crate) struct Begun {
    pub command: Number,
    /// The node that has it, if one has.
    pub node: Option<NodeId>,
    pub arrived_us: u32,
    pub queued: Option<Queued>,
}

/// A request whose client has the reply.
pub(crate) struct Taken {
    pub command: Number,
    pub node: Option<NodeId>,
    pub whole_us: u32,
    pub node_us: u32,
}

impl Followed {
    /// Whether none is followed.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Number of requests that are followed.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Follows the request `begun` of `conn`, whose reply has `place` unless it is here. Returns false if too many are
    /// followed.
    pub(crate) fn begin(&mut self, begun: Begun, conn: ConnId, place: u32) -> bool {
        let has_room = self.all.len() < FOLLOWED_MAX;
        if has_room {
            let Begun { command, node, arrived_us, queued } = begun;
            let (stage, way) = (Stage::New(queued), Way::new(conn, place));
            self.all.push(Request { command, node, arrived_us, node_us: 0, stage, way });
        }
        has_room
    }

    /// Notes how far the requests have got by the end of `turn`, and calls `count` with those that are complete.
    pub(crate) fn end_turn(&mut self, peers: &Peers, turn: &Turn<'_>, mut count: impl FnMut(Taken)) {
        self.all.retain_mut(|request| {
            let Some(Peer::Client(session)) = peers.get(request.way.conn) else { return false };
            if session.wait.is_some() {
                return false;
            }
            let is_followed = request.goes_on(session, turn);
            if !is_followed {
                let whole_us = turn.ended_us.wrapping_sub(request.arrived_us);
                let Request { command, node, node_us, .. } = *request;
                count(Taken { command, node, whole_us, node_us });
            }
            is_followed
        });
    }

    /// Notes that the client `conn` has taken `count` bytes.
    #[cold]
    pub(crate) fn note_taken(&mut self, conn: ConnId, count: usize) {
        self.all.iter_mut().for_each(|request| request.way.note_taken(conn, count));
    }
}

impl Request {
    /// Notes how far the request has got. Returns whether to follow it further.
    fn goes_on(&mut self, session: &Session, turn: &Turn<'_>) -> bool {
        let is_owed = session.replies.owed(self.way.place).is_some();
        self.stage = match self.stage {
            Stage::New(queued) => {
                let held_us = session.input.wait_us(self.way.place).unwrap_or(0);
                self.arrived_us = self.arrived_us.wrapping_sub(held_us);
                match queued {
                    _ if !is_owed => Stage::Answered,
                    Some(queued) if !queued.is_sent(turn.links) => Stage::Queued(queued),
                    _ => Stage::AtNode { since_us: turn.ended_us },
                }
            }
            Stage::Queued(_) if !is_owed => Stage::Answered,
            Stage::Queued(queued) if queued.is_sent(turn.links) => Stage::AtNode { since_us: turn.ended_us },
            Stage::AtNode { since_us } if !is_owed => {
                self.node_us = turn.began_us.wrapping_sub(since_us);
                Stage::Answered
            }
            stage => stage,
        };
        let is_late = turn.ended_us.wrapping_sub(self.arrived_us) >= FOLLOWED_FOR_US;
        match self.stage {
            Stage::AtNode { since_us } if is_late => self.node_us = turn.ended_us.wrapping_sub(since_us),
            _ => {}
        }
        !is_late && !self.way.go_on(session).is_taken
    }
}
