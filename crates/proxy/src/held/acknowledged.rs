//! WAIT and WAITAOF: how many replicas have what a client wrote.
//!
//! ```text
//!                ┌─► shard 0: CLIENT ID, WAIT 1 100 ─► :1 ─┐
//!   session ─────┼─► shard 1: CLIENT ID, WAIT 1 100 ─► :2 ─┼─► the least: :1
//!                └─► shard 2: CLIENT ID, WAIT 1 100 ─► :1 ─┘
//! ```
//!
//! A node answers for what its own connection wrote: for all that it had done when that connection last wrote something. So
//! each connection that the client holds for this ([`crate::held::fan`]) is made to count as one that has written a moment ago. That
//! is all that the node had done by then, and with it all that the client was answered there: nothing of it is in flight
//! when WAIT goes out. Nobody notes where a client has written, so all shards are asked. Both can only make the number
//! smaller.
//!
//! Up to Redis 7.0, whatever a connection does counts as a write: the CLIENT ID ahead is enough. Nodes that know WAITAOF
//! (Redis 7.2, Valkey) count what went on to replicas (`call` in server.c of Redis 7.4). The one request that does, for every
//! node of a cluster too, and changes nothing is to add no functions to those that there are.
//!
//! A client of one Redis that dies or is replaced notices: it loses its connection, and must ask itself what became of its
//! writes. Here it does not, and the node that answers next may never have seen them. So it is told once, by an error.

use crate::context::Context;
use crate::errors;
use crate::features::{Asked, Owner, Session, TaskKind};
use crate::held::fan::{Answers, Fans};
use crate::link::LinkIx;
use crate::link::kept::Kept;
use resp::reply::{as_integer, elements, is_error};
use resp::{Request, encode};
use std::time::Duration;
use stdx::{Id, append};
use topology::Address;

const ABOUT_WAITAOF: &[u8] = b"*3\r\n$7\r\nCOMMAND\r\n$4\r\nINFO\r\n$7\r\nWAITAOF\r\n";
/// FUNCTION RESTORE of what FUNCTION DUMP of Redis 7.0 gives where there are no functions.
pub(crate) const MARK: &[u8] = b"*4\r\n$8\r\nFUNCTION\r\n$7\r\nRESTORE\r\n$10\r\n\x0a\0\x5d\x9b\x5c\x40\x0f\x7f\xa2\xda\r\n$6\r\nAPPEND\r\n";

/// The least that nodes have said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// WAIT's number, or WAITAOF's two; none before a node has said any.
    least: Vec<i64>,
    /// They come as an array.
    is_array: bool,
}

impl Acknowledged {
    /// Takes in what a node has said. `None` if it is not of the kind that others have said.
    pub(crate) fn absorb(&mut self, reply: &[u8]) -> Option<()> {
        let (numbers, is_array): (Vec<i64>, bool) = match as_integer(reply) {
            Some(number) => (vec![number], false),
            None => (elements(reply)?.map(as_integer).collect::<Option<_>>()?, true),
        };
        if self.least.is_empty() {
            (self.least, self.is_array) = (numbers, is_array);
            return Some(());
        }
        if (self.least.len(), self.is_array) != (numbers.len(), is_array) {
            return None;
        }
        self.least.iter_mut().zip(numbers).for_each(|(least, number)| *least = number.min(*least));
        Some(())
    }

    /// Appends it. `None` if no node has said anything.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        if self.is_array {
            encode::array_header(out, self.least.len());
        }
        self.least.iter().for_each(|number| encode::integer(out, *number));
        (!self.least.is_empty()).then_some(())
    }
}

impl Fans {
    /// Sends WAIT or WAITAOF to all shards; they may answer `patience` later than to other requests.
    pub(crate) fn wait_for_replicas(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        request: &Request<'_>,
        patience: Duration,
    ) {
        if cx.holders.losses.concern(session) {
            return cx.refuse(session, errors::PRIMARY_LOST);
        }
        // Nothing was written to a shard without slots, which may not even have replicas.
        let shards = cx.engine.topology.owners();
        let answers = Answers::Replicas(Acknowledged::default());
        self.wait_on_several(cx, session, &shards, answers, patience, |out, _| append(out, request.bytes));
    }

    /// The connection `ix` counts as one that has written, or not: then what WAIT says there means nothing.
    pub(crate) fn note_mark(&mut self, cx: &mut Context, ix: LinkIx, fan: Id, reply: &[u8]) {
        if is_error(reply) && cx.engine.links[ix].features.knows_waitaof != Some(false) {
            let text = String::from_utf8_lossy(reply);
            self.fail_fan(cx, fan, &errors::not_marked(text.trim_matches(['-', '\r', '\n'])));
        }
    }
}

/// Has the connection `ix` count as one that has written, if CLIENT ID is not or perhaps not enough for that.
pub(crate) fn ask_mark(cx: &mut Context, ix: LinkIx, fan: Id, part: u32) {
    let link = &mut cx.engine.links[ix];
    if matches!(cx.engine.topology.node(link.node).address, Address::Embedded(_)) {
        link.features.knows_waitaof = Some(false);
    }
    let asked = |owner| Asked { conn: fan, place: 0, part, owner, kept: Kept::NO };
    match link.features.knows_waitaof {
        Some(false) => return,
        Some(true) => {}
        None => cx.engine.enqueue_on(ix, ABOUT_WAITAOF, asked(Owner::Task(TaskKind::Waitaof))),
    }
    cx.engine.enqueue_on(ix, MARK, asked(Owner::Task(TaskKind::Mark)));
}

/// The node at the end of the connection `ix` has said whether it knows WAITAOF, or that it cannot tell now.
pub(crate) fn note_waitaof(cx: &mut Context, ix: LinkIx, reply: &[u8]) {
    let knows = elements(reply).and_then(|mut entries| entries.next()).and_then(elements).is_some();
    cx.engine.links[ix].features.knows_waitaof = (!is_error(reply)).then_some(knows);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least(replies: &[&str]) -> Option<String> {
        let mut acknowledged = Acknowledged::default();
        for reply in replies {
            acknowledged.absorb(reply.replace('|', "\r\n").as_bytes())?;
        }
        let mut out = Vec::new();
        acknowledged.write(&mut out)?;
        Some(String::from_utf8(out).expect("text").replace("\r\n", "|"))
    }

    #[test]
    fn of_each_number_the_least_counts() {
        assert_eq!(least(&[":2|", ":1|", ":3|"]).as_deref(), Some(":1|"));
        assert_eq!(least(&["*2|:1|:2|", "*2|:0|:3|"]).as_deref(), Some("*2|:0|:2|"));
    }

    #[test]
    fn what_is_no_number_or_not_what_others_said_is_not_taken() {
        for replies in
            [&[":1|", "+OK|"][..], &[":1|", "*1|:1|"], &["*2|:1|:1|", "*1|:1|"], &["*1|$1|1|"], &[]]
        {
            assert_eq!(least(replies), None, "{replies:?}");
        }
    }
}
