//! Takes samples, and follows those whose whole time is measured.

use crate::ConnId;
use crate::context::{Context, Stats};
use crate::features::{Link, Session};
use crate::hot;
use crate::link::LinkIx;
use crate::peers::Peers;
use crate::sampling::whole::{Begun, Queued, Turn};
use resp::Request;

/// Links among which the link of a request is looked for. A request on another one counts by command alone.
const SEARCHED_MAX: usize = 256;

/// Finds the next sample.
pub(crate) fn plan_samples(cx: &mut Context) {
    let others_at = cx.hot.sample_at.min(cx.slow.sample_at);
    cx.stats.sampling.plan(cx.stats.counters.requests, others_at);
}

/// Takes `request` of `session`, which was just carried out, as a sample of each kind that is due. Its reply has `place`
/// unless it is here.
#[cold]
#[inline(never)]
pub(crate) fn sample(cx: &mut Context, session: &Session, request: &Request<'_>, place: u32) {
    hot::sample_request(cx, request, cx.stats.counters.requests);
    let ix = link_of(cx, session.conn, place);
    take_samples(cx, session, place, ix);
}

/// The same for the request of `session` that was just forwarded.
#[cold]
#[inline(never)]
pub(crate) fn sample_forwarded(cx: &mut Context, session: &Session) {
    let place = session.replies.next_place().wrapping_sub(1);
    let ix = link_of(cx, session.conn, place);
    if let Some(ix) = ix {
        hot::sample_newest(cx, ix, cx.stats.counters.requests);
    }
    take_samples(cx, session, place, ix);
}

fn take_samples(cx: &mut Context, session: &Session, place: u32, ix: Option<LinkIx>) {
    let requests = cx.stats.counters.requests;
    cx.slow.take_sample(requests);
    if cx.stats.sampling.takes_time(requests) {
        follow(cx, session.conn, place, ix);
    }
    plan_samples(cx);
}

/// Follows the request of `conn` that was just carried out, by the link `ix` if one link has it. Its reply has `place`
/// unless it is here.
pub(crate) fn follow(cx: &mut Context, conn: ConnId, place: u32, ix: Option<LinkIx>) {
    let link = ix.map(|ix| (ix, &cx.engine.links[ix]));
    let queued = link.and_then(|(ix, link)| Some(Queued { ix, conn: link.conn()?, end: link.end() }));
    let node = link.map(|(_, link)| link.node);
    let begun = Begun { command: cx.engine.asking, node, arrived_us: cx.engine.now_us, queued };
    if !cx.stats.sampling.followed.begin(begun, conn, place) {
        cx.stats.counters.latency_samples_left_out += 1;
    }
}

/// The link whose newest request is that at `place` of `conn`.
fn link_of(cx: &Context, conn: ConnId, place: u32) -> Option<LinkIx> {
    let is_it = |(ix, link): (LinkIx, &Link)| {
        let newest = link.newest()?;
        (newest.is_of_client() && (newest.conn, newest.place) == (conn, place)).then_some(ix)
    };
    cx.engine.links.with_indexes().take(SEARCHED_MAX).find_map(is_it)
}

/// Notes how far the requests have got by the end of a turn, at `ended_us`, and counts those that are complete.
#[cold]
#[inline(never)]
pub(crate) fn end_turn(cx: &mut Context, peers: &Peers, ended_us: u32) {
    let turn = Turn { links: &cx.engine.links, began_us: cx.engine.now_us, ended_us };
    let Stats { sampling, tally, nodes, .. } = &mut cx.stats;
    sampling.followed.end_turn(peers, &turn, |taken| {
        tally.whole_times(taken.command).count(taken.whole_us, taken.node_us);
        if let Some(node) = taken.node {
            nodes.row(node).whole.get_or_insert_default().count(taken.whole_us, taken.node_us);
        }
    });
}
