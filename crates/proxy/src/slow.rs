//! Slow requests, with the time in each stage: PROXY SLOWLOG.
//!
//! ```text
//!   arrived ─ read ──────── queued ────────► sent ───────── at the node ─────────► reply read ─ in order ─ taken
//!       (held)    (a connection is made,         (and on the way there and back,      (others     (the client
//!                  or the node takes no bytes)    or behind other requests there)      come first)  reads)
//! ```
//!
//! Nothing is written down while a request is fast. Requests on a connection are answered in the order of the queue. So
//! if the first reply of a read is not late, none is: one comparison for all replies that came
//! together. The requests themselves are still there, since sent bytes are kept until the reply.
//!
//! The session knows how long its input was held ([`engine::session::Input::wait_us`]), the merge when its first part came. The
//! end of an entry, from its reply to the client, is filled in later (`slow/delivery.rs`).
//!
//! Requests that wait on purpose (BLPOP) are not noted. Nor are transfers on a connection of one client
//! (`link/pinned.rs`), since their time is that of the client too.

pub(crate) mod delivery;
pub(crate) mod log;

use crate::ConnId;
use crate::context::Context;
use crate::features::{Link, Owed, Owner, TaskId, Ticket};
use crate::hot;
use crate::limits::Slowlog;
use crate::link::{LinkIx, State, Use};
use crate::monitor::is_secret;
use crate::peers::{Peer, Peers};
use crate::slow::delivery::Deliveries;
use crate::slow::log::{ARG_BYTES_SHOWN_MAX, ARGS_SHOWN_MAX, SlowRequest};
use command::Flags;
use engine::engine::low_us;
use resp::Request;
use resp::reply::Scanner;
use resp::request;

/// Requests that a worker notes in one second. More are counted as left out.
const NOTED_PER_SECOND_MAX: u32 = 128;

/// A worker's watch for slow requests.
#[derive(Debug)]
pub(crate) struct SlowWatch {
    /// Requests that took as many microseconds are looked at. 0 if the next reply is, whatever its time.
    from_us: u32,
    /// Whether the next reply is a sample.
    is_sample_due: bool,
    settings: Slowlog,
    /// The number of requests at which the next sample is due.
    pub sample_at: u64,
    /// Requests that may still be noted in this second.
    left: u32,
    /// The connection whose replies were looked at last, and the offset of the last of their requests.
    seen: Option<(ConnId, u64)>,
    /// Noted requests whose replies are on their way to the client.
    pub deliveries: Deliveries,
}

impl SlowWatch {
    pub(crate) fn new(settings: Slowlog) -> SlowWatch {
        let sample_at = settings.one_in.map_or(u64::MAX, |one_in| one_in.get());
        SlowWatch {
            from_us: settings.slow_us(),
            is_sample_due: false,
            settings,
            sample_at,
            left: NOTED_PER_SECOND_MAX,
            seen: None,
            deliveries: Deliveries::default(),
        }
    }

    /// Whether a request that was queued at `queued_us` and answered at `now_us` is looked at.
    #[inline(always)]
    pub(crate) fn looks_at(&self, queued_us: u32, now_us: u32) -> bool {
        now_us.wrapping_sub(queued_us) >= self.from_us
    }

    /// Has the next reply looked at.
    pub(crate) fn look_soon(&mut self) {
        self.from_us = 0;
    }

    /// Has the next reply noted if it is time for a sample. `requests` were read so far.
    pub(crate) fn take_sample(&mut self, requests: u64) {
        if requests > self.sample_at {
            self.look_soon();
            self.is_sample_due = true;
            self.sample_at = self.settings.one_in.map_or(u64::MAX, |one_in| requests + one_in.get());
        }
    }

    /// Whether the request at the front of `link` was looked at together with one before it.
    fn has_seen(&self, link: &Link) -> bool {
        let first = link.front().and_then(|ticket| Some((link.conn()?, ticket.start)));
        matches!((first, self.seen), (Some((conn, start)), Some((seen, last))) if conn == seen && start <= last)
    }

    /// Begins a second.
    pub(crate) fn begin_second(&mut self) {
        self.left = NOTED_PER_SECOND_MAX;
    }

    /// Whether a request that took `total_us` is slow, if it is noted.
    fn is_slow(&mut self, total_us: u32) -> Option<bool> {
        let is_slow = total_us >= self.settings.slow_us();
        let is_sample = std::mem::take(&mut self.is_sample_due);
        (is_slow || is_sample).then_some(is_slow)
    }
}

/// Looks at the requests on link `ix` whose replies are complete in `bytes`, and notes the slow ones. They are not taken
/// from the link yet.
#[cold]
#[inline(never)]
pub(crate) fn look_at_replies(cx: &mut Context, peers: &Peers, ix: LinkIx, bytes: &[u8]) {
    let link = &cx.engine.links[ix];
    let is_of_one_client = matches!(link.used_by, Use::Held | Use::Pinned | Use::Subscription);
    if !link.is_ready() || is_of_one_client || cx.slow.has_seen(link) {
        return;
    }
    cx.slow.from_us = cx.slow.settings.slow_us();
    if cx.hot.take_reply()
        && let Ok(Some(len)) = Scanner::default().scan(bytes, &cx.engine.limits.reply)
    {
        hot::sample_reply(cx, ix, len);
    }
    let left_out = note_slow(cx, peers, ix, bytes);
    if left_out > 0 {
        cx.board.slow.leave_out(left_out);
    }
}

/// Notes the slow requests on link `ix`, and a sample if one is due. Returns the number of slow ones that are left out,
/// since too many were noted in this second.
fn note_slow(cx: &mut Context, peers: &Peers, ix: LinkIx, bytes: &[u8]) -> u64 {
    let (link, now_us) = (&cx.engine.links[ix], cx.engine.now_us);
    let (mut scanner, mut at, mut left_out) = (Scanner::default(), 0, 0);
    for (number, ticket) in link.tickets().enumerate() {
        let Ok(Some(len)) = scanner.scan(&bytes[at..], &cx.engine.limits.reply) else { break };
        at += len;
        let Some(is_slow) = cx.slow.is_slow(now_us.wrapping_sub(ticket.queued_us)) else { break };
        cx.slow.seen = link.conn().map(|conn| (conn, ticket.start));
        if !ticket.is_of_client() {
            continue;
        }
        if cx.slow.left == 0 {
            left_out += u64::from(is_slow);
            continue;
        }
        cx.slow.left -= 1;
        let noted = SlowRequest { is_slow, ..noted(cx, peers, link, (number, ticket), len) };
        let id = cx.board.slow.add(noted, cx.settings.slowlog.len_max);
        if ticket.owner == Owner::Client {
            cx.slow.deliveries.follow(id, ticket, now_us);
        }
    }
    left_out
}

/// The entry about the request of `ticket`, the `number`th in flight on `link`. Its reply has `reply_bytes`.
fn noted(
    cx: &Context,
    peers: &Peers,
    link: &Link,
    (number, ticket): (usize, &Ticket),
    reply_bytes: usize,
) -> SlowRequest {
    let (topology, now_us) = (&cx.engine.topology, cx.engine.now_us);
    let total_us = now_us.wrapping_sub(ticket.queued_us);
    let mut request = Vec::new();
    let is_here = link.copy_request(number, &mut request);
    let (args, args_left_out) = shown(&request);
    let client = match peers.get(ticket.conn) {
        Some(Peer::Client(session)) => Some(session),
        _ => None,
    };
    let merge = client.and_then(|session| match session.replies.owed(ticket.place) {
        Some(Owed::Task(TaskId::Merge(merge))) => cx.merges.get(merge),
        _ => None,
    });
    SlowRequest {
        id: 0,
        is_slow: true,
        unix_us: cx.unix_time_us(),
        total_us,
        read_us: client.and_then(|session| session.input.wait_us(ticket.place)),
        merge_us: merge.map(|merge| merge.first_us.map_or(0, |first_us| now_us.wrapping_sub(first_us))),
        order_us: None,
        client_us: None,
        queued_us: sent_us(link, ticket).wrapping_sub(ticket.queued_us).min(total_us),
        command: ticket.command.name().unwrap_or("unknown"),
        args,
        args_left_out,
        client: client.map(|session| session.origin.peer.to_string()).unwrap_or_default(),
        name: client.map(|session| session.features.name().to_vec()).unwrap_or_default(),
        shard: cx.engine.shard_name(link.shard).to_owned(),
        node: topology.node(link.node).address.to_string(),
        request_bytes: is_here.then_some(request.len()),
        reply_bytes,
        tries: ticket.kept.tries(),
    }
}

/// When the node could have had the request of `ticket`: the low bits of the microseconds.
fn sent_us(link: &Link, ticket: &Ticket) -> u32 {
    let is_later = |us: u32| us.wrapping_sub(ticket.queued_us) < u32::MAX / 2;
    let ready_us = match link.state {
        State::Ready { since, .. } => low_us(since),
        _ => ticket.queued_us,
    };
    let times = [ready_us, low_us(link.outgoing.freed_at)];
    times
        .into_iter()
        .filter(|&us| is_later(us))
        .max_by_key(|us| us.wrapping_sub(ticket.queued_us))
        .unwrap_or(ticket.queued_us)
}

/// The arguments of the request in `bytes`, shortened and without passwords, and the number of those left out.
fn shown(bytes: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let (mut spans, mut inline) = (Vec::new(), Vec::new());
    let scanned =
        request::Scanner::default().scan(bytes, &request::RequestLimits::default(), &mut spans, &mut inline);
    let Ok(request::Scanned::Request { len }) = scanned else { return Default::default() };
    let request = Request::new(&bytes[..len], &spans);
    let command = match command::resolve(&request) {
        command::Resolved::Command(command) => Some(command),
        _ => None,
    };
    let carry = command.map(|command| command.carry);
    // An operator sets passwords by several commands.
    let is_admin = command.is_some_and(|command| command.flags.contains(Flags::ADMIN));
    let is_hidden = |at: usize| is_admin && at > 1 || is_secret(carry, &request, at);
    let show = |at: usize| match is_hidden(at) {
        true => b"(redacted)".to_vec(),
        false => shortened(request.arg(at)),
    };
    let shown = request.len().min(ARGS_SHOWN_MAX);
    ((0..shown).map(show).collect(), request.len() - shown)
}

/// The beginning of `arg`, as Redis's SLOWLOG has it.
fn shortened(arg: &[u8]) -> Vec<u8> {
    match arg.len().checked_sub(ARG_BYTES_SHOWN_MAX) {
        None | Some(0) => arg.to_vec(),
        Some(more) => [&arg[..ARG_BYTES_SHOWN_MAX], format!("... ({more} more bytes)").as_bytes()].concat(),
    }
}
