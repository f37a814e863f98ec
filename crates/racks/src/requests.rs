//! The way down: requests of workers become tasks of copies.

use crate::class::{self, Class, Here, Work};
use crate::client::{Block, Client};
use crate::copy::Way;
use crate::errors;
use crate::level::{Level, RackSet};
use crate::machine::{Action, Machine};
use crate::replies::MISSED_ALL;
use crate::task::{Effect, Part, Place, Request as Asked, Task, can_meet};
use resp::integer::parse_i64;
use resp::request::{RequestLimits, Scanned, Span};
use resp::{Request, encode};
use stdx::Id;

/// Tasks in flight. At the limit, workers wait.
const TASKS_MAX: usize = 20_000;
/// Bytes of requests in flight. At the limit, workers wait; one request alone may be larger.
pub(crate) const HELD_BYTES_MAX: usize = 64 << 20;

/// The request has to wait: for a key that is being copied, or for room.
pub(crate) struct Stall;

impl Machine {
    /// Runs the complete requests of a worker, up to one that has to wait.
    pub(crate) fn run_requests(&mut self, id: Id) {
        let Some(mut client) = self.clients.remove(&id) else { return };
        let limits = RequestLimits { args_max: i64::MAX, ..RequestLimits::default() };
        let (mut args, mut inline): (Vec<Span>, Vec<u8>) = Default::default();
        let input = std::mem::take(&mut client.input);
        let mut at = 0;
        client.is_stalled = false;
        loop {
            match client.scanner.scan(&input[at..], &limits, &mut args, &mut inline) {
                Ok(Scanned::Request { len }) => {
                    let request = Request::new(&input[at..at + len], &args);
                    if self.run_request(id, &mut client, &request).is_err() {
                        client.is_stalled = true;
                        break;
                    }
                    at += len;
                }
                Ok(Scanned::Inline { len } | Scanned::Nothing { len }) => at += len,
                Ok(Scanned::Incomplete) => break,
                // Workers send requests that they have checked.
                Err(_) => {
                    self.actions.push_back(Action::CloseClient(id));
                    return;
                }
            }
        }
        client.input = input;
        client.input.drain(..at);
        self.clients.insert(id, client);
        self.to_flush.push(id);
    }

    /// Runs requests again that had to wait.
    pub(crate) fn resume_clients(&mut self) {
        self.is_flush_waiting = false;
        let stalled: Vec<Id> =
            self.clients.iter().filter(|(_, client)| client.is_stalled).map(|(&id, _)| id).collect();
        stalled.into_iter().for_each(|id| self.run_requests(id));
    }

    fn run_request(&mut self, id: Id, client: &mut Client, request: &Request<'_>) -> Result<(), Stall> {
        let (class, command) = class::classify(request);
        let work = Work::of(class, command, request);
        if let Some(block) = client.block.take() {
            return self.run_within(id, client, block, work);
        }
        match work.class {
            Class::Here(Here::Multi) => {
                let replies = b"+OK\r\n".to_vec();
                client.block = Some(Block { work: Work::multi(), replies, is_refused: false });
            }
            Class::Here(here) => {
                let reply = answer(here, request, &mut client.is_resp3);
                client.answer(reply);
            }
            Class::Refused(why) => client.answer(errors::error(&format!("ERR {why}"))),
            Class::Scan => return self.begin_scan(id, client, work, request),
            _ => return self.begin(id, client, work),
        }
        Ok(())
    }

    /// A request behind MULTI.
    fn run_within(&mut self, id: Id, client: &mut Client, mut block: Block, work: Work) -> Result<(), Stall> {
        match work.class {
            Class::Here(Here::Discard) => {
                block.replies.extend_from_slice(b"+OK\r\n");
                client.answer(block.replies);
            }
            Class::Here(Here::Exec) if block.is_refused => {
                let text = "EXECABORT Transaction discarded because of previous errors.";
                block.replies.extend_from_slice(&errors::error(text));
                client.answer(block.replies);
            }
            Class::Here(Here::Exec) => {
                let mut all = block.work.clone();
                // It has no keys and no class of its own.
                let _ = all.add(work);
                if let Err(stall) = self.begin(id, client, all) {
                    client.block = Some(block);
                    return Err(stall);
                }
            }
            _ => {
                match block.work.add(work) {
                    Ok(()) => block.replies.extend_from_slice(b"+QUEUED\r\n"),
                    Err(why) => {
                        block.is_refused = true;
                        block.replies.extend_from_slice(&errors::error(&format!("ERR {why}")));
                    }
                }
                client.block = Some(block);
            }
        }
        Ok(())
    }

    /// Begins with `work`, unless it has to wait.
    fn begin(&mut self, id: Id, client: &mut Client, work: Work) -> Result<(), Stall> {
        let has_room = self.held_bytes == 0 || self.held_bytes + work.bytes.len() <= HELD_BYTES_MAX;
        if !has_room || self.tasks.len() >= TASKS_MAX || work.keys.iter().any(|key| self.locks.contains(key))
        {
            return Err(Stall);
        }
        if work.class == Class::Flush && !self.locks.is_empty() {
            self.is_flush_waiting = true;
            return Err(Stall);
        }
        let level = match work.class {
            Class::Write | Class::Effect | Class::Flush | Class::Load => self.settings.write,
            Class::Read => self.settings.read,
            _ => Level::One,
        };
        let up = self.up();
        if !can_meet(level, up, &self.settings) {
            self.count_missed(work.writes());
            client.answer(fill(&work, &errors::too_few(level, &self.settings, &self.copies)));
            return Ok(());
        }
        if work.class == Class::Load && up.len() < self.copies.len() {
            client.answer(fill(&work, &errors::not_all(&self.settings, up)));
            return Ok(());
        }
        let place = Place { client: id, number: client.reserve() };
        let mut asked = Asked::new(work, place, client.is_resp3, level, self.copies.len());
        asked.counted = up;
        self.send(asked, None);
        Ok(())
    }

    /// Sends a request to its copies. A read goes to `rack` alone, if that is given.
    fn send(&mut self, mut asked: Asked, rack: Option<usize>) {
        let number = self.next_task;
        self.next_task += 1;
        self.held_bytes += asked.work.bytes.len();
        match asked.work.class {
            Class::Write | Class::Flush => self.send_write(number, &mut asked),
            Class::Effect => self.send_effect(number, &mut asked),
            Class::Tell | Class::Load => {
                asked.counted.iter().for_each(|rack| self.ask(number, &mut asked, rack))
            }
            _ => {
                let racks: RackSet = match (rack, asked.level) {
                    (Some(rack), _) => [rack].into_iter().collect(),
                    (None, Level::One) => self.preferred().into_iter().collect(),
                    (None, level) => {
                        let centres = self.settings.centres(level);
                        let is_in = |rack: &usize| centres.iter().any(|centre| centre.contains(*rack));
                        asked.counted.iter().filter(is_in).collect()
                    }
                };
                racks.iter().for_each(|rack| self.ask(number, &mut asked, rack));
            }
        }
        if asked.work.writes() {
            asked.batch = asked.batch.max(self.settled_batch);
        }
        self.tasks.insert(number, Task::Request(Box::new(asked)));
    }

    /// Sends a request to one copy.
    pub(crate) fn ask(&mut self, number: u64, asked: &mut Asked, rack: usize) {
        let (work, link) = (&asked.work, &mut self.copies[rack].link);
        link.send(number, &work.bytes, work.replies, asked.is_resp3, self.now);
        asked.parts[rack] = Part::Waiting;
    }

    fn send_write(&mut self, number: u64, asked: &mut Asked) {
        for rack in 0..self.copies.len() {
            match self.copies[rack].way(&asked.work) {
                Way::Send => self.ask(number, asked, rack),
                Way::Leave => asked.batch = asked.batch.max(self.copies[rack].stale_batch),
                Way::Hint => self.miss(number, asked, rack),
                Way::Outdate => {
                    let batch = self.outdate(rack, MISSED_ALL);
                    asked.batch = asked.batch.max(batch);
                }
            }
        }
    }

    /// The copy in `rack` misses the request: its keys become hints.
    pub(crate) fn miss(&mut self, number: u64, asked: &mut Asked, rack: usize) {
        asked.parts[rack] = Part::Failed;
        for at in 0..asked.work.keys.len() {
            let batch = self.hint(rack, &asked.work.keys[at].clone(), number);
            asked.batch = asked.batch.max(batch);
        }
    }

    /// One copy carries it out; its keys are locked until the others have them.
    fn send_effect(&mut self, number: u64, asked: &mut Asked) {
        let Some(source) = self.preferred() else { return };
        self.locks.extend(asked.work.keys.iter().cloned());
        let keys_left = vec![0; self.copies.len()];
        asked.effect = Some(Effect { source, keys_left });
        for rack in 0..self.copies.len() {
            let copy = &self.copies[rack];
            match () {
                () if rack == source => self.ask(number, asked, rack),
                () if copy.is_current() && copy.link.is_open() => asked.parts[rack] = Part::Waiting,
                () => self.miss(number, asked, rack),
            }
        }
    }

    /// SCAN: the cursor of clients names the copy that it belongs to.
    fn begin_scan(
        &mut self,
        id: Id,
        client: &mut Client,
        mut work: Work,
        request: &Request<'_>,
    ) -> Result<(), Stall> {
        let racks = self.copies.len() as u64;
        let cursor = request.get(1).and_then(parse_i64).and_then(|cursor| u64::try_from(cursor).ok());
        let (rack, own) = match cursor {
            Some(0) | None => (self.preferred(), 0),
            Some(cursor) => {
                let rack = (cursor % racks) as usize;
                (Some(rack).filter(|&rack| self.copies[rack].is_up()), cursor / racks)
            }
        };
        let Some(rack) = rack else {
            let lost = cursor.filter(|&cursor| cursor != 0).map(|cursor| (cursor % racks) as usize);
            client.answer(match lost {
                Some(rack) => errors::lost_cursor(&self.settings, rack),
                None => errors::too_few(Level::One, &self.settings, &self.copies),
            });
            return Ok(());
        };
        if self.tasks.len() >= TASKS_MAX {
            return Err(Stall);
        }
        if cursor.is_some() {
            let own = own.to_string();
            work.bytes.clear();
            let args: Vec<&[u8]> = request
                .args()
                .enumerate()
                .map(|(at, arg)| if at == 1 { own.as_bytes() } else { arg })
                .collect();
            encode::request(&mut work.bytes, &args);
        }
        let place = Place { client: id, number: client.reserve() };
        let mut asked = Asked::new(work, place, client.is_resp3, Level::One, self.copies.len());
        asked.counted = [rack].into_iter().collect();
        self.send(asked, Some(rack));
        Ok(())
    }

    pub(crate) fn count_missed(&mut self, is_write: bool) {
        match is_write {
            true => self.counts.writes_missed += 1,
            false => self.counts.reads_missed += 1,
        }
    }
}

/// The reply to SCAN for clients: the cursor of the copy in `rack` names the copy.
pub(crate) fn rename_cursor(reply: &[u8], rack: usize, racks: usize) -> Option<Vec<u8>> {
    let mut elements = resp::reply::elements(reply)?;
    let cursor: u64 = std::str::from_utf8(resp::reply::as_bulk(elements.next()?)?).ok()?.parse().ok()?;
    let renamed = match cursor {
        0 => 0,
        cursor => cursor.checked_mul(racks as u64)?.checked_add(rack as u64)?,
    };
    let mut out = Vec::with_capacity(reply.len() + 8);
    encode::array_header(&mut out, 2);
    encode::bulk(&mut out, renamed.to_string().as_bytes());
    out.extend_from_slice(elements.rest());
    Some(out)
}

/// The replies of a request that gets `error`: to EXEC, if it is a transaction.
pub(crate) fn fill(work: &Work, error: &[u8]) -> Vec<u8> {
    let mut replies = Vec::new();
    if work.replies > 1 {
        replies.extend_from_slice(b"+OK\r\n");
        (2..work.replies).for_each(|_| replies.extend_from_slice(b"+QUEUED\r\n"));
    }
    replies.extend_from_slice(error);
    replies
}

/// The reply to a request about the connection.
fn answer(here: Here, request: &Request<'_>, is_resp3: &mut bool) -> Vec<u8> {
    match here {
        Here::Ping => b"+PONG\r\n".to_vec(),
        Here::Hello => hello(request, is_resp3),
        Here::Select if request.get(1) != Some(b"0") => errors::error("ERR racks have database 0 alone"),
        Here::Exec => errors::error("ERR EXEC without MULTI"),
        Here::Discard => errors::error("ERR DISCARD without MULTI"),
        Here::Accept | Here::Select | Here::Multi => b"+OK\r\n".to_vec(),
    }
}

fn hello(request: &Request<'_>, is_resp3: &mut bool) -> Vec<u8> {
    *is_resp3 = match request.get(1) {
        Some(b"3") => true,
        Some(b"2") => false,
        None => *is_resp3,
        Some(_) => return errors::error("NOPROTO unsupported protocol version"),
    };
    let mut out = Vec::new();
    encode::map_header(&mut out, 5, *is_resp3);
    encode::texts(
        &mut out,
        &[("server", "redis"), ("version", "7.0.0"), ("mode", "standalone"), ("role", "master")],
    );
    encode::integers(&mut out, &[("proto", if *is_resp3 { 3 } else { 2 })]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_its_copy() {
        let reply = b"*2\r\n$2\r\n17\r\n*1\r\n$1\r\nk\r\n";
        let renamed = rename_cursor(reply, 2, 3).expect("a reply to SCAN");
        assert_eq!(renamed, b"*2\r\n$2\r\n53\r\n*1\r\n$1\r\nk\r\n");
        assert_eq!((53 % 3, 53 / 3), (2, 17));
        let end = b"*2\r\n$1\r\n0\r\n*0\r\n";
        assert_eq!(rename_cursor(end, 2, 3).as_deref(), Some(&end[..]));
        assert_eq!(rename_cursor(b"-ERR invalid cursor\r\n", 2, 3), None);
    }
}
