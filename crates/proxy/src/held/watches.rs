//! Keys that a client watches on several shards (`--transactions=per-shard`). There is one held link for each shard, in
//! a cluster for each slot. EXEC takes them over ([`crate::transaction::execution`]).
//!
//! ```text
//!   WATCH a b ─┬─► link to the shard of a: WATCH a ─ OK ─┬─► OK
//!              └─► link to the shard of b: WATCH b ─ OK ─┘
//! ```
//!
//! In a cluster, two slots of one node have a link each. EXEC ends all watches of its connection, and the part of the
//! other slot runs later.
//!
//! If one link is lost, its keys may have changed: the reply to EXEC is nil, and the other links are returned.

use crate::context::Context;
use crate::errors::{self, Lost};
use crate::features::{Asked, Owed, Session, TaskId};
use crate::held;
use crate::held::fan;
use crate::held::watch::Watch;
use crate::link::LinkIx;
use crate::outcome::Step;
use crate::replies::merge::Merge;
use crate::requests::route::{self, Keys, Route};
use crate::session::Reason;
use crate::transaction::execution::Watched;
use command::Command;
use resp::{Request, encode};
use stdx::append;
use topology::ShardId;

/// Carries out WATCH of keys that may be on several shards. No request of the session may be pending.
pub(crate) fn watch_parts(
    cx: &mut Context,
    session: &mut Session,
    command: &Command,
    request: &Request<'_>,
    keys: &mut Keys,
) -> Step {
    let route = route::route(command, request, &cx.engine.topology, keys);
    match nodes_to_watch_on(cx, session, keys) {
        // EXEC will fail, whatever happens to these keys.
        Ok(_) if session.features.watch == Watch::Lost => cx.engine.answer(session, b"+OK\r\n"),
        Ok(nodes) => match (route, nodes.as_slice()) {
            (Route::One(_), &[node]) => held::send_held(cx, session, node, request.bytes, Owed::Node),
            (_, nodes) => send_watches(cx, session, nodes, request, keys),
        },
        Err(text) => cx.refuse(session, &text),
    }
    Step::Done
}

/// The link for each part of `keys`: links on which keys are watched already, and new ones. An error if one of them
/// cannot be had.
fn nodes_to_watch_on(cx: &mut Context, session: &mut Session, keys: &Keys) -> Result<Vec<LinkIx>, String> {
    if session.features.watch == Watch::Lost {
        return Ok(Vec::new());
    }
    let watched = watched(cx, session);
    let is_elsewhere = |&(ix, _): &Watched| cx.engine.links[ix].profile != session.profile;
    if watched.iter().any(is_elsewhere) {
        return Err(errors::WATCH_ELSEWHERE.to_owned());
    }
    let own = |division| watched.iter().find(|(_, own)| *own == division).map(|(ix, _)| *ix);
    let new = keys.parts.iter().filter(|part| own(part.division).is_none()).count();
    if watched.len() + new > cx.limits.watched_parts_max {
        return Err(errors::WATCHED_PARTS.to_owned());
    }
    let mut nodes = Vec::with_capacity(keys.parts.len());
    let mut fresh = Vec::with_capacity(new);
    for part in &keys.parts {
        let ix = match own(part.division) {
            Some(ix) => ix,
            None => match hold_to_watch(cx, session, part.shard, part.division) {
                Ok(ix) => {
                    fresh.push(ix);
                    ix
                }
                Err(lost) => {
                    fresh.into_iter().for_each(|ix| fan::let_go_of(cx, ix));
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

fn hold_to_watch(cx: &mut Context, session: &Session, shard: ShardId, division: u32) -> Result<LinkIx, Lost> {
    let ix = held::hold(cx, session, shard)?;
    if cx.engine.topology.is_cluster() {
        cx.engine.links[ix].features.watched_slot = Some(division as u16);
    }
    Ok(ix)
}

/// Sends each part its keys.
fn send_watches(
    cx: &mut Context,
    session: &mut Session,
    nodes: &[LinkIx],
    request: &Request<'_>,
    keys: &Keys,
) {
    let parts = nodes.len() as u32;
    let merge = command::Merge::AllOk;
    // To watch a key twice does no harm.
    let mut merge = Merge::new(merge, parts, &[], true, None, &mut cx.spare_values, &mut cx.engine.prng);
    let holds = merge.held_bytes();
    cx.engine.memory.recount(&mut merge.counted_bytes, holds);
    let place = session.replies.reserve(Owed::Task(TaskId::Merge(cx.merges.insert(merge))));
    let mut order: Vec<usize> = (0..keys.positions.len()).collect();
    order.sort_by_key(|&key| keys.part_of_key[key]);
    let mut order = order.into_iter();
    let mut bytes = cx.engine.pool.take();
    for ((number, part), ix) in (0..).zip(&keys.parts).zip(nodes) {
        bytes.clear();
        encode::array_header(&mut bytes, 1 + part.keys);
        append(&mut bytes, request.raw_arg(0));
        for key in order.by_ref().take(part.keys) {
            append(&mut bytes, request.raw_args(keys.positions[key], 1));
        }
        let asked = Asked { part: number, ..Asked::by_client(session.conn, place) };
        cx.engine.enqueue_on(*ix, &bytes, asked);
        session.hold.add(Reason::Order);
    }
    cx.engine.pool.give(bytes);
}

/// The links on which keys are watched, with the divisions of their keys.
pub(crate) fn watched(cx: &Context, session: &Session) -> Vec<Watched> {
    let nodes = match &session.features.watch {
        Watch::On(ix) => std::slice::from_ref(ix),
        Watch::Several(watches) => &watches.on,
        _ => &[],
    };
    let division = |ix: LinkIx| {
        let link = &cx.engine.links[ix];
        link.features.watched_slot.map_or(link.shard.0, u32::from)
    };
    nodes.iter().map(|&ix| (ix, division(ix))).collect()
}

/// Notes that a link with watched keys is gone, or that its keys have moved: EXEC will fail.
pub(crate) fn lose_watches(cx: &mut Context, session: &mut Session, gone: LinkIx) {
    let nodes: Vec<LinkIx> = match std::mem::replace(&mut session.features.watch, Watch::Lost) {
        Watch::Several(watches) => watches.all().collect(),
        Watch::On(node) => vec![node],
        _ => Vec::new(),
    };
    nodes.into_iter().filter(|&node| node != gone).for_each(|node| held::unwatch_on(cx, node));
}
