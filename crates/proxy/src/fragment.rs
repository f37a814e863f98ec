//! Requests that several shards must see: divided, sent, and their replies announced to a merge.

use crate::backend::Purpose;
use crate::core::{Asked, Core};
use crate::cursor::Cursor;
use crate::errors;
use crate::merge::Merge;
use crate::route::{Keys, Part};
use crate::scripts::Library;
use crate::session::Session;
use command::Command;
use resp::{Request, encode};
use topology::ShardId;

impl Core {
    /// Sends each part of `keys` a request of its own with the keys (and values) that belong to it, in the order of
    /// the original. All parts must be admitted, else none is sent.
    pub(crate) fn send_parts(
        &mut self,
        session: &mut Session,
        command: &Command,
        merge: command::Merge,
        request: &Request<'_>,
        keys: &mut Keys,
    ) {
        if self.refuse_unless_admitted(session, &keys.parts) {
            return;
        }
        let step = command.split_step();
        for part in &mut keys.parts {
            let (tail, start) = self.backends[part.shard.0 as usize].tail(&mut self.pool);
            part.start = start;
            encode::array_header(tail, 1 + part.keys * step);
            tail.extend_from_slice(request.raw_arg(0));
        }
        for (&position, &part) in keys.positions.iter().zip(&keys.part_of_key) {
            let shard = keys.parts[part as usize].shard;
            let (tail, _) = self.backends[shard.0 as usize].tail(&mut self.pool);
            tail.extend_from_slice(request.raw_args(position, step));
        }
        self.expect_parts(session, command, merge, request, keys, None);
    }

    /// Sends the whole request to every shard.
    pub(crate) fn send_to_all(
        &mut self,
        session: &mut Session,
        command: &Command,
        merge: command::Merge,
        request: &Request<'_>,
        keys: &mut Keys,
    ) {
        keys.all_shards(self.topology.shard_count());
        if self.refuse_unless_admitted(session, &keys.parts) {
            return;
        }
        let library = self.note_scripts(command, request);
        for part in &mut keys.parts {
            let (tail, start) = self.backends[part.shard.0 as usize].tail(&mut self.pool);
            part.start = start;
            tail.extend_from_slice(request.bytes);
        }
        self.expect_parts(session, command, merge, request, keys, library);
    }

    /// If a shard does not take its part, nothing is sent, and the client may safely repeat.
    fn refuse_unless_admitted(&mut self, session: &mut Session, parts: &[Part]) -> bool {
        let Some(lost) = parts.iter().find_map(|part| self.admit(part.shard).err()) else { return false };
        self.refuse(session, &lost.text());
        true
    }

    /// Reserves the client's place and queues a ticket for each part that was appended.
    fn expect_parts(
        &mut self,
        session: &mut Session,
        command: &Command,
        merge: command::Merge,
        request: &Request<'_>,
        keys: &Keys,
        library: Option<Library>,
    ) {
        let merge = Merge::new(
            merge,
            keys.parts.len() as u32,
            &keys.part_of_key,
            command.flags.contains(command::Flags::READONLY),
            request.get(2),
            &mut self.spare_values,
            &mut self.prng,
        )
        .with_library(library);
        let place = session.reserve_merge(self.merges.insert(merge));
        self.counters.fragments += keys.parts.len() as u64;
        for (number, part) in keys.parts.iter().enumerate() {
            let asked = Asked { conn: session.conn, place, part: number as u32, purpose: Purpose::Client };
            self.push_ticket(part.shard, part.start, asked);
        }
    }

    /// Sends a SCAN to the shard that its cursor names, with the node's own cursor.
    pub(crate) fn send_scan(&mut self, session: &mut Session, request: &Request<'_>) {
        let Some(cursor) = Cursor::parse(request.arg(1)) else {
            return self.refuse(session, errors::INVALID_CURSOR);
        };
        if cursor.shard.0 as usize >= self.topology.shard_count() {
            // A cursor that was never given out, or from before a shard went away: an empty page that ends the walk,
            // as Redis answers a cursor beyond its table.
            return self.answer(session, b"*2\r\n$1\r\n0\r\n*0\r\n");
        }
        if let Err(lost) = self.admit(cursor.shard) {
            return self.refuse(session, &lost.text());
        }
        let place = session.reserve_scan(cursor);
        let (tail, start) = self.backends[cursor.shard.0 as usize].tail(&mut self.pool);
        if cursor.shard == ShardId(0) {
            // The first shard's cursors are the node's own.
            tail.extend_from_slice(request.bytes);
        } else {
            encode::array_header(tail, request.len());
            tail.extend_from_slice(request.raw_arg(0));
            encode::bulk(tail, itoa::Buffer::new().format(cursor.node).as_bytes());
            tail.extend_from_slice(request.raw_args(2, request.len() - 2));
        }
        self.push_ticket(cursor.shard, start, Asked::by_client(session.conn, place));
    }
}

/// Rewrites a node's reply to SCAN: its cursor becomes one that names the shard. What is no such reply (an error) is
/// passed on.
pub(crate) fn rewrite_scan(cursor: Cursor, shards: usize, reply: &[u8], out: &mut Vec<u8>) {
    let Some((node, page)) = scan_page(reply) else {
        return out.extend_from_slice(reply);
    };
    let word = match cursor.next(node, shards) {
        None => 0,
        Some(next) => match next.to_word() {
            Some(word) => word,
            None => return errors::write(out, errors::CURSOR_TOO_LARGE),
        },
    };
    encode::array_header(out, 2);
    encode::bulk(out, itoa::Buffer::new().format(word).as_bytes());
    out.extend_from_slice(page);
}

/// The cursor and the wire bytes of the page in a reply to SCAN.
fn scan_page(reply: &[u8]) -> Option<(u64, &[u8])> {
    let mut elements = resp::reply::elements(reply).filter(|elements| elements.len() == 2)?;
    let cursor = resp::reply::as_bulk(elements.next()?)?;
    let node = std::str::from_utf8(cursor).ok()?.parse().ok()?;
    Some((node, elements.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(shard: u32, reply: &str) -> String {
        let mut out = Vec::new();
        let cursor = Cursor { shard: ShardId(shard), node: 0 };
        rewrite_scan(cursor, 2, reply.as_bytes(), &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_cursor_in_a_page_names_the_shard_that_comes_next() {
        let page = "*1\r\n$1\r\na\r\n";
        assert_eq!(rewritten(0, &format!("*2\r\n$1\r\n5\r\n{page}")), format!("*2\r\n$1\r\n5\r\n{page}"));
        let second = "$15\r\n281474976710656\r\n";
        assert_eq!(rewritten(0, &format!("*2\r\n$1\r\n0\r\n{page}")), format!("*2\r\n{second}{page}"));
        assert_eq!(rewritten(1, &format!("*2\r\n$1\r\n0\r\n{page}")), format!("*2\r\n$1\r\n0\r\n{page}"));
    }

    #[test]
    fn what_is_no_page_is_passed_on() {
        assert_eq!(rewritten(1, "-ERR syntax error\r\n"), "-ERR syntax error\r\n");
    }
}
