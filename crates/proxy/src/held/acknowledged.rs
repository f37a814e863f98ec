//! WAIT and WAITAOF: the number of replicas that have the client's writes.
//!
//! ```text
//!                ┌─► shard 0: CLIENT ID, WAIT 1 100 ─► :1 ─┐
//!   session ─────┼─► shard 1: CLIENT ID, WAIT 1 100 ─► :2 ─┼─► the least: :1
//!                └─► shard 2: CLIENT ID, WAIT 1 100 ─► :1 ─┘
//! ```
//!
//! A node answers WAIT for the offset at the last write of the same connection. So each link that the client holds for
//! this ([`crate::held::fan`]) must count as one that has just written. Its offset then includes all that the node has
//! done so far. This includes all requests that the client was answered there, since none of them is in flight when
//! WAIT goes out.
//!
//! shardis does not record where a client has written, so it asks all shards. Both can only make the number smaller.
//!
//! Up to Redis 7.0, every command of a connection counts as a write: the preceding CLIENT ID suffices. Nodes that know
//! WAITAOF (Redis 7.2, Valkey) count only commands that are replicated (`call` in server.c of Redis 7.4). One request
//! is replicated by every node, also in a cluster, and changes nothing: to add no functions to the existing ones.
//!
//! A client of a single Redis notices when its node dies or is replaced: it loses its connection and must check its
//! writes. Behind shardis it keeps its connection, and the next node that answers may never have seen the writes. So
//! the client gets one error.

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

const ABOUT_WAITAOF: &[u8] = b"*3\r\n$7\r\nCOMMAND\r\n$4\r\nINFO\r\n$7\r\nWAITAOF\r\n";
/// FUNCTION RESTORE of the output of FUNCTION DUMP of Redis 7.0 without functions.
pub(crate) const MARK: &[u8] = b"*4\r\n$8\r\nFUNCTION\r\n$7\r\nRESTORE\r\n$10\r\n\x0a\0\x5d\x9b\x5c\x40\x0f\x7f\xa2\xda\r\n$6\r\nAPPEND\r\n";

/// The least numbers of all nodes so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// WAIT's number, or WAITAOF's two; empty before the first reply.
    least: Vec<i64>,
    /// Whether the numbers come as an array.
    is_array: bool,
}

impl Acknowledged {
    /// Takes a node's reply. `None` if it differs in kind from earlier ones.
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

    /// Appends the numbers. `None` if no node has answered.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        if self.is_array {
            encode::array_header(out, self.least.len());
        }
        self.least.iter().for_each(|number| encode::integer(out, *number));
        (!self.least.is_empty()).then_some(())
    }
}

impl Fans {
    /// Sends WAIT or WAITAOF to all shards. Their replies may come `patience` later than others.
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

    /// Notes whether link `ix` counts as one that has written. If not, WAIT's number there means nothing.
    pub(crate) fn note_mark(&mut self, cx: &mut Context, ix: LinkIx, fan: Id, reply: &[u8]) {
        if is_error(reply) && cx.engine.links[ix].features.knows_waitaof != Some(false) {
            let text = String::from_utf8_lossy(reply);
            self.fail_fan(cx, fan, &errors::not_marked(text.trim_matches(['-', '\r', '\n'])));
        }
    }
}

/// Has link `ix` count as one that has written, unless CLIENT ID certainly suffices.
pub(crate) fn ask_mark(cx: &mut Context, ix: LinkIx, fan: Id, part: u32) {
    let link = &mut cx.engine.links[ix];
    if cx.engine.topology.node(link.node).address.is_of_this_process() {
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

/// Notes whether the node of link `ix` knows WAITAOF, or cannot tell now.
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
    fn the_least_of_each_number_counts() {
        assert_eq!(least(&[":2|", ":1|", ":3|"]).as_deref(), Some(":1|"));
        assert_eq!(least(&["*2|:1|:2|", "*2|:0|:3|"]).as_deref(), Some("*2|:0|:2|"));
    }

    #[test]
    fn replies_of_a_different_kind_are_not_taken() {
        for replies in
            [&[":1|", "+OK|"][..], &[":1|", "*1|:1|"], &["*2|:1|:1|", "*1|:1|"], &["*1|$1|1|"], &[]]
        {
            assert_eq!(least(replies), None, "{replies:?}");
        }
    }
}
