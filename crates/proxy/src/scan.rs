//! SCAN over all shards, one after the other.
//!
//! The cursor of a request names a shard. The client asks for a number of keys with COUNT. If the shard's keys end
//! before that number is reached, the same request goes on to the next shard, and so on. So a small keyspace is
//! returned in one reply, as one Redis would do.
//!
//! If a later shard fails, the client gets the keys that were found, with a cursor that names the failed shard. The
//! client sees the error when it continues there.

pub(crate) mod cursor;

use crate::context::Context;
use crate::errors;
use crate::features::{Asked, Owed, Session, TaskId};
use crate::link::{LinkIx, ProfileId};
use crate::scan::cursor::{Cursor, Widths};
use engine::memory::Charge;
use resp::integer::parse_i64;
use resp::{Request, encode};
use stdx::Slab;
use stdx::{BufferPool, Id};

/// One SCAN of a client, until it is answered.
#[derive(Debug)]
pub(crate) struct Scan {
    /// The profile of the session when it asked.
    profile: ProfileId,
    /// The cursor that the present shard got.
    cursor: Cursor,
    /// Whether earlier shards have finished. Then there is a reply even if the present shard fails.
    has_page: bool,
    /// The number of keys that the client asks for.
    count: usize,
    /// The number of keys found.
    found: usize,
    /// Wire bytes of the keys found.
    page: Vec<u8>,
    /// Wire bytes of the command's name, then of all arguments behind the cursor.
    request: Vec<u8>,
    name_len: usize,
    args: usize,
    /// The charge for the request and the page.
    charge: Charge,
}

/// The COUNT that Redis assumes if the client gives none.
const COUNT_DEFAULT: usize = 10;

/// The reply to a cursor that shardis never gave out, or whose shard has gone since. An empty page ends the walk, as
/// when Redis gets a cursor beyond its table.
const END: &[u8] = b"*2\r\n$1\r\n0\r\n*0\r\n";

impl Scan {
    fn new(
        (profile, cursor): (ProfileId, Cursor),
        request: &Request<'_>,
        pool: &mut BufferPool,
        mut charge: Charge,
    ) -> Scan {
        let mut copy = pool.take();
        copy.extend_from_slice(request.raw_arg(0));
        let name_len = copy.len();
        copy.extend_from_slice(request.raw_args(2, request.len() - 2));
        charge.set(copy.len());
        Scan {
            charge,
            profile,
            cursor,
            has_page: false,
            count: count(request),
            found: 0,
            page: pool.take(),
            request: copy,
            name_len,
            args: request.len(),
        }
    }

    /// The bytes that are charged, and the bytes in use.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.charge.bytes(), self.request.len() + self.page.len())
    }

    /// Appends the request for the present shard.
    fn write_request(&self, out: &mut Vec<u8>) {
        encode::array_header(out, self.args);
        out.extend_from_slice(&self.request[..self.name_len]);
        encode::bulk(out, itoa::Buffer::new().format(self.cursor.node).as_bytes());
        out.extend_from_slice(&self.request[self.name_len..]);
    }

    /// Appends the reply. The client goes on from the cursor `next`.
    fn write_reply(&self, next: Option<Cursor>, widths: Widths, out: &mut Vec<u8>) {
        let word = match next.map(|next| next.to_word(widths)) {
            None => 0,
            Some(Some(word)) => word,
            Some(None) => return errors::write(out, errors::CURSOR_TOO_LARGE),
        };
        encode::array_header(out, 2);
        encode::bulk(out, itoa::Buffer::new().format(word).as_bytes());
        encode::array_header(out, self.found);
        out.extend_from_slice(&self.page);
    }
}

/// The SCANs in progress.
#[derive(Debug, Default)]
pub(crate) struct Scans {
    pub slab: Slab<Scan>,
}

impl Scans {
    /// Sends a SCAN to the shard that its cursor names.
    pub(crate) fn send_scan(&mut self, cx: &mut Context, session: &mut Session, request: &Request<'_>) {
        let Some(cursor) = Cursor::parse(request.arg(1), Widths::of(&cx.engine.topology)) else {
            return cx.refuse(session, errors::INVALID_CURSOR);
        };
        let Some(cursor) = cursor.among(cx.engine.topology.all_shards()) else {
            return cx.engine.answer(session, END);
        };
        let node = match cx.shared_link(session.profile, cursor.shard) {
            Ok(node) => node,
            Err(lost) => return cx.refuse(session, &lost.text()),
        };
        let scan = self.slab.insert(Scan::new(
            (session.profile, cursor),
            request,
            &mut cx.engine.pool,
            cx.engine.memory.charge(0),
        ));
        let place = session.replies.reserve(Owed::Task(TaskId::Scan(scan)));
        self.ask_for_page(cx, scan, node, Asked::by_client(session.conn, place));
    }

    /// Queues the request for the next page of `scan` on the link `ix`.
    fn ask_for_page(&mut self, cx: &mut Context, scan: Id, ix: LinkIx, asked: Asked) {
        let Some(scan) = self.slab.get(scan) else { return };
        let (tail, start) = cx.engine.links[ix].tail(scan.request.len(), &mut cx.engine.pool);
        scan.write_request(tail);
        cx.engine.push_ticket(ix, start, asked);
    }

    /// Takes a node's reply. If it returns true, the scan is finished and the client's reply is in `out`. A reply
    /// that is no page (an error) goes to the client if nothing was found before.
    pub(crate) fn absorb_page(
        &mut self,
        cx: &mut Context,
        id: Id,
        asked: Asked,
        reply: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(scan) = self.slab.get_mut(id) else { return false };
        let Some((node, found, page)) = page_of(reply) else {
            self.end_scan(cx, id, reply, out);
            return true;
        };
        scan.found += found;
        scan.page.extend_from_slice(page);
        scan.charge.add(page.len());
        let next = scan.cursor.next(node, cx.engine.topology.all_shards());
        if let Some(next) = next
            && next.shard != scan.cursor.shard
            && scan.found < scan.count
        {
            (scan.cursor, scan.has_page) = (next, true);
            let profile = scan.profile;
            if let Ok(node) = cx.shared_link(profile, next.shard) {
                self.ask_for_page(cx, id, node, asked);
                return false;
            }
        }
        self.answer_scan(cx, id, next, out);
        true
    }

    /// Ends a scan whose shard has returned no page. The client gets the keys that were found before, or else
    /// `error`. Returns true if `out` has that reply.
    pub(crate) fn end_scan(&mut self, cx: &mut Context, id: Id, error: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(scan) = self.slab.get(id) else { return false };
        if scan.has_page {
            let next = scan.cursor;
            self.answer_scan(cx, id, Some(next), out);
            return false;
        }
        out.extend_from_slice(error);
        self.forget_scan(cx, id);
        true
    }

    /// Writes the reply of a scan that ends here.
    fn answer_scan(&mut self, cx: &mut Context, id: Id, next: Option<Cursor>, out: &mut Vec<u8>) {
        if let Some(scan) = self.slab.get(id) {
            scan.write_reply(next, Widths::of(&cx.engine.topology), out);
        }
        self.forget_scan(cx, id);
    }

    /// Forgets a scan whose client has gone.
    pub(crate) fn forget_scan(&mut self, cx: &mut Context, id: Id) {
        if let Some(scan) = self.slab.remove(id) {
            cx.engine.pool.give(scan.page);
            cx.engine.pool.give(scan.request);
        }
    }
}

/// The number of keys that the client asks for. If it is no number, the node refuses the request.
fn count(request: &Request<'_>) -> usize {
    let mut options = (2..request.len().saturating_sub(1)).step_by(2);
    match options.find(|&at| request.arg(at).eq_ignore_ascii_case(b"count")) {
        None => COUNT_DEFAULT,
        Some(at) => parse_i64(request.arg(at + 1)).and_then(|count| usize::try_from(count).ok()).unwrap_or(0),
    }
}

/// A node's cursor, the number of keys in its page, and their wire bytes.
fn page_of(reply: &[u8]) -> Option<(u64, usize, &[u8])> {
    let mut elements = resp::reply::elements(reply).filter(|elements| elements.len() == 2)?;
    let cursor = resp::reply::as_bulk(elements.next()?)?;
    let node = std::str::from_utf8(cursor).ok()?.parse().ok()?;
    let page = resp::reply::elements(elements.next()?)?;
    Some((node, page.len(), page.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_cursor_and_keys() {
        assert_eq!(page_of(b"*2\r\n$1\r\n5\r\n*1\r\n$1\r\na\r\n"), Some((5, 1, &b"$1\r\na\r\n"[..])));
        assert_eq!(page_of(b"-ERR syntax error\r\n"), None);
        assert_eq!(page_of(b"*2\r\n$1\r\nx\r\n*0\r\n"), None);
    }
}
