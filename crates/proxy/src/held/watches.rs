//! Keys that a client watches on several shards (`--transactions=per-shard`): one connection of its own for each shard, in a
//! cluster for each slot. EXEC takes them over ([`crate::transaction::execution`]).
//!
//! ```text
//!   WATCH a b ─┬─► connection to the shard of a: WATCH a ─ OK ─┬─► OK
//!              └─► connection to the shard of b: WATCH b ─ OK ─┘
//! ```
//!
//! In a cluster two slots of one node have a connection each: EXEC ends the watches of a connection, and the part of the
//! other slot runs after that.
//!
//! If one connection is lost, nobody knows whether its keys have changed: EXEC is answered with nil, and the other
//! connections are given back.

use crate::core::Core;
use crate::errors::{self, Lost};
use crate::features::{Asked, Owed, Session, TaskId};
use crate::held::Watch;
use crate::link::LinkIx;
use crate::replies::merge::Merge;
use crate::requests::Step;
use crate::requests::route::{self, Keys, Route};
use crate::session::Reason;
use crate::transaction::execution::Watched;
use command::Command;
use resp::{Request, encode};
use stdx::append;
use topology::ShardId;

/// The connections of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watches {
    /// Keys are watched there.
    pub on: Vec<LinkIx>,
    /// The first WATCH is in flight there.
    asked: Vec<LinkIx>,
}

impl Watches {
    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = LinkIx> {
        self.on.iter().chain(&self.asked).copied()
    }

    /// What is watched, if there is less than several connections.
    fn settle(self) -> Watch {
        match (self.on.as_slice(), self.asked.as_slice()) {
            ([], []) => Watch::No,
            (&[node], []) => Watch::On(node),
            _ => Watch::Several(Box::new(self)),
        }
    }
}

/// What became of the first WATCH on a connection.
pub(crate) enum Asking {
    /// It was that connection's: what is watched now, and whether the connection may be used again, if it is not held.
    Ended(Watch, Option<bool>),
    /// It was not.
    NotIt(Watch),
}

impl Watch {
    /// Keys are to be watched on one connection more.
    pub(crate) fn add(self, ix: LinkIx) -> Watch {
        let mut watches = match self {
            Watch::On(first) => Watches { on: vec![first], asked: Vec::new() },
            Watch::Asked(first) => Watches { on: Vec::new(), asked: vec![first] },
            Watch::Several(watches) => *watches,
            other => {
                debug_assert_eq!(
                    other,
                    Watch::No,
                    "a lost watch is not forgotten, and none begins while EXEC ends one"
                );
                return Watch::Asked(ix);
            }
        };
        watches.asked.push(ix);
        Watch::Several(Box::new(watches))
    }

    /// The first WATCH on `ix` has failed, or not; meanwhile its keys may have gone elsewhere.
    pub(crate) fn end_asking(self, ix: LinkIx, failed: bool, has_lost_keys: bool) -> Asking {
        let Watch::Several(mut watches) = self else { return Asking::NotIt(self) };
        let Some(at) = watches.asked.iter().position(|&asked| asked == ix) else {
            return Asking::NotIt(Watch::Several(watches));
        };
        watches.asked.remove(at);
        let left = match (failed, has_lost_keys) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => {
                watches.on.push(ix);
                None
            }
        };
        Asking::Ended(watches.settle(), left)
    }

    /// Whether keys are watched on `ix`, among others.
    pub(crate) fn is_on(&self, ix: LinkIx) -> bool {
        match self {
            Watch::On(own) => *own == ix,
            Watch::Several(watches) => watches.on.contains(&ix),
            _ => false,
        }
    }
}

impl Core {
    /// WATCH of keys that may be on several shards. Nothing of the session is pending.
    pub(crate) fn watch_parts(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
    ) -> Step {
        let route = route::route(command, request, &self.engine.topology, keys);
        match self.nodes_to_watch_on(session, keys) {
            // EXEC will fail whatever becomes of these keys.
            Ok(_) if session.features.watch == Watch::Lost => self.engine.answer(session, b"+OK\r\n"),
            Ok(nodes) => match (route, nodes.as_slice()) {
                (Route::One(_), &[node]) => self.send_held(session, node, request.bytes, Owed::Node),
                (_, nodes) => self.send_watches(session, nodes, request, keys),
            },
            Err(text) => self.refuse(session, &text),
        }
        Step::Done
    }

    /// The connection for each part of `keys`: those on which keys are watched already, and new ones. If there cannot be one
    /// for each, an error.
    fn nodes_to_watch_on(&mut self, session: &mut Session, keys: &Keys) -> Result<Vec<LinkIx>, String> {
        if session.features.watch == Watch::Lost {
            return Ok(Vec::new());
        }
        let watched = self.watched(session);
        let is_elsewhere = |&(ix, _): &Watched| self.engine.links[ix].profile != session.profile;
        if watched.iter().any(is_elsewhere) {
            return Err(errors::WATCH_ELSEWHERE.to_owned());
        }
        let own = |division| watched.iter().find(|(_, own)| *own == division).map(|(ix, _)| *ix);
        let new = keys.parts.iter().filter(|part| own(part.division).is_none()).count();
        if watched.len() + new > self.limits.watched_parts_max {
            return Err(errors::WATCHED_PARTS.to_owned());
        }
        let mut nodes = Vec::with_capacity(keys.parts.len());
        let mut fresh = Vec::with_capacity(new);
        for part in &keys.parts {
            let ix = match own(part.division) {
                Some(ix) => ix,
                None => match self.hold_to_watch(session, part.shard, part.division) {
                    Ok(ix) => {
                        fresh.push(ix);
                        ix
                    }
                    Err(lost) => {
                        fresh.into_iter().for_each(|ix| self.let_go_of(ix));
                        return Err(lost.text());
                    }
                },
            };
            nodes.push(ix);
        }
        for ix in fresh {
            session.features.watch = std::mem::take(&mut session.features.watch).add(ix);
        }
        Ok(nodes)
    }

    fn hold_to_watch(&mut self, session: &Session, shard: ShardId, division: u32) -> Result<LinkIx, Lost> {
        let ix = self.hold(session, shard)?;
        if self.engine.topology.is_cluster() {
            self.engine.links[ix].features.watched_slot = Some(division as u16);
        }
        Ok(ix)
    }

    /// Sends each part its keys.
    fn send_watches(&mut self, session: &mut Session, nodes: &[LinkIx], request: &Request<'_>, keys: &Keys) {
        let parts = nodes.len() as u32;
        let merge = command::Merge::AllOk;
        // To watch a key once more does no harm.
        let mut merge =
            Merge::new(merge, parts, &[], true, None, &mut self.tasks.spare_values, &mut self.engine.prng);
        let holds = merge.held_bytes();
        self.engine.memory.recount(&mut merge.counted_bytes, holds);
        let place = session.replies.reserve(Owed::Task(TaskId::Merge(self.tasks.merges.insert(merge))));
        let mut order: Vec<usize> = (0..keys.positions.len()).collect();
        order.sort_by_key(|&key| keys.part_of_key[key]);
        let mut order = order.into_iter();
        let mut bytes = self.engine.pool.take();
        for ((number, part), ix) in (0..).zip(&keys.parts).zip(nodes) {
            bytes.clear();
            encode::array_header(&mut bytes, 1 + part.keys);
            append(&mut bytes, request.raw_arg(0));
            for key in order.by_ref().take(part.keys) {
                append(&mut bytes, request.raw_args(keys.positions[key], 1));
            }
            let asked = Asked { part: number, ..Asked::by_client(session.conn, place) };
            self.engine.enqueue_on(*ix, &bytes, asked);
            session.hold.add(Reason::Order);
        }
        self.engine.pool.give(bytes);
    }

    /// The connections on which keys are watched, and the divisions that these are in.
    pub(crate) fn watched(&self, session: &Session) -> Vec<Watched> {
        let nodes = match &session.features.watch {
            Watch::On(ix) => std::slice::from_ref(ix),
            Watch::Several(watches) => &watches.on,
            _ => &[],
        };
        let division = |ix: LinkIx| {
            let link = &self.engine.links[ix];
            link.features.watched_slot.map_or(link.shard.0, u32::from)
        };
        nodes.iter().map(|&ix| (ix, division(ix))).collect()
    }

    /// A connection on which keys were watched is gone, or its keys are elsewhere: EXEC will fail.
    pub(crate) fn lose_watches(&mut self, session: &mut Session, gone: LinkIx) {
        let nodes: Vec<LinkIx> = match std::mem::replace(&mut session.features.watch, Watch::Lost) {
            Watch::Several(watches) => watches.all().collect(),
            Watch::On(node) => vec![node],
            _ => Vec::new(),
        };
        nodes.into_iter().filter(|&node| node != gone).for_each(|node| self.unwatch_on(node));
    }
}
