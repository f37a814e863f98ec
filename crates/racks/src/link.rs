//! The connection to one copy: what was sent, what is expected, and its login.

use crate::class::Key;
use crate::journal::Session;
use crate::settings::Login;
use resp::encode;
use resp::reply::{self, ReplyLimits, Scanner};
use std::collections::VecDeque;
use std::time::Duration;
use stdx::Instant;

/// The pause after a connection that failed; it doubles up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Bytes in front of the next reply that may stay in the buffer.
const SPENT_BYTES_MAX: usize = 64 << 10;

/// The state of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No connection until then.
    Down { until: Instant },
    /// The connection is being made.
    Connecting,
    /// The node is asked who it is.
    Greeting,
    /// The node is known; an earlier connection of ours is ended there, so that nothing of it arrives later.
    Ending(Session),
    /// The session is being logged.
    Logging { batch: u64 },
    /// Requests are sent.
    Open,
}

/// Requests of one task that were sent.
#[derive(Debug)]
struct Sent {
    task: u64,
    replies_left: u32,
    replies: Vec<u8>,
}

/// The task of requests whose replies nobody waits for.
pub(crate) const NO_TASK: u64 = 0;

/// The connection to one copy.
#[derive(Debug)]
pub(crate) struct Link {
    pub state: State,
    out: Vec<u8>,
    input: Vec<u8>,
    spent: usize,
    scanner: Scanner,
    in_flight: VecDeque<Sent>,
    is_resp3: bool,
    progress_at: Instant,
    failures: u32,
}

impl Link {
    pub(crate) fn new(now: Instant) -> Link {
        Link {
            state: State::Down { until: now },
            out: Vec::new(),
            input: Vec::new(),
            spent: 0,
            scanner: Scanner::default(),
            in_flight: VecDeque::new(),
            is_resp3: false,
            progress_at: now,
            failures: 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Sends `bytes`, which get this number of replies, for `task`.
    pub(crate) fn send(&mut self, task: u64, bytes: &[u8], replies: u32, is_resp3: bool, now: Instant) {
        if is_resp3 != self.is_resp3 {
            self.is_resp3 = is_resp3;
            encode::request(&mut self.out, &[b"HELLO", if is_resp3 { b"3" } else { b"2" }]);
            self.expect(NO_TASK, 1, now);
        }
        self.out.extend_from_slice(bytes);
        self.expect(task, replies, now);
    }

    fn expect(&mut self, task: u64, replies: u32, now: Instant) {
        if self.in_flight.is_empty() {
            self.progress_at = now;
        }
        self.in_flight.push_back(Sent { task, replies_left: replies, replies: Vec::new() });
    }

    /// Sends what a new connection begins with: the login, and questions about the node.
    pub(crate) fn greet(&mut self, login: Option<&Login>, now: Instant) {
        let (mut bytes, mut replies) = (Vec::new(), 3);
        if let Some(Login(request)) = login {
            bytes.extend_from_slice(request);
            replies += 1;
        }
        encode::request(&mut bytes, &[b"CLIENT", b"ID"]);
        encode::request(&mut bytes, &[b"INFO", b"server"]);
        encode::request(&mut bytes, &[b"PING"]);
        self.state = State::Greeting;
        self.send(NO_TASK, &bytes, replies, false, now);
    }

    /// Has the node end an earlier connection.
    pub(crate) fn end_earlier(&mut self, client: i64, session: Session, now: Instant) {
        let mut bytes = Vec::new();
        encode::request(&mut bytes, &[b"CLIENT", b"KILL", b"ID", client.to_string().as_bytes()]);
        self.state = State::Ending(session);
        self.send(NO_TASK, &bytes, 1, false, now);
    }

    /// Takes requests from now on.
    pub(crate) fn open(&mut self) {
        self.state = State::Open;
        self.failures = 0;
    }

    /// Bytes came. Complete replies are found with [`Link::next`].
    pub(crate) fn receive(&mut self, bytes: &[u8], now: Instant) {
        if self.spent == self.input.len() || self.spent > SPENT_BYTES_MAX {
            self.input.drain(..self.spent);
            self.spent = 0;
        }
        self.input.extend_from_slice(bytes);
        self.progress_at = now;
    }

    /// The next task whose replies are complete, with them.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>, String> {
        loop {
            let rest = &self.input[self.spent..];
            let scanned = self.scanner.scan(rest, &ReplyLimits::default());
            let Some(len) = scanned.map_err(|error| error.to_string())? else { return Ok(None) };
            let whole = &rest[..len];
            self.spent += len;
            if reply::is_push(whole) {
                continue;
            }
            let sent = self.in_flight.front_mut().ok_or("a reply that nothing was asked for")?;
            sent.replies.extend_from_slice(whole);
            sent.replies_left -= 1;
            if sent.replies_left == 0
                && let Some(sent) = self.in_flight.pop_front()
                && (sent.task != NO_TASK || !self.is_open())
            {
                return Ok(Some((sent.task, sent.replies)));
            }
        }
    }

    /// Whether the copy has been silent for `timeout`, while a reply or the connection is awaited.
    pub(crate) fn is_late(&self, timeout: Duration, now: Instant) -> bool {
        self.late_at(timeout) <= now
    }

    /// When [`Link::is_late`] would become true.
    pub(crate) fn late_at(&self, timeout: Duration) -> Instant {
        let is_awaited = !self.in_flight.is_empty() || self.state == State::Connecting;
        if is_awaited { self.progress_at + timeout } else { Instant::NEVER }
    }

    /// Begins a connection.
    pub(crate) fn connect(&mut self, now: Instant) {
        self.state = State::Connecting;
        self.progress_at = now;
    }

    /// Ends the connection. Returns the tasks whose requests were in flight, in their order.
    pub(crate) fn fail(&mut self, now: Instant) -> Vec<u64> {
        let pause = (PAUSE_MIN * 2_u32.saturating_pow(self.failures.min(10))).min(PAUSE_MAX);
        let failures = self.failures.saturating_add(1);
        let lost = std::mem::take(&mut self.in_flight);
        *self = Link { state: State::Down { until: now + pause }, failures, ..Link::new(now) };
        lost.into_iter().map(|sent| sent.task).filter(|&task| task != NO_TASK).collect()
    }

    /// Bytes to send.
    pub(crate) fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}

/// The session that the replies to [`Link::greet`] tell, or why there is none.
pub(crate) fn session_of(replies: &[u8], has_login: bool) -> Result<Session, String> {
    let count = if has_login { 4 } else { 3 };
    let replies: Vec<&[u8]> = reply::elements_left(replies, count).collect();
    if let Some(error) = replies.iter().find(|reply| reply::is_error(reply)) {
        return Err(String::from_utf8_lossy(error).trim_start_matches('-').trim_end().to_owned());
    }
    let [.., client, server, _] = replies.as_slice() else { return Err("replies are missing".to_owned()) };
    let text = String::from_utf8_lossy(reply::as_bulk(server).unwrap_or_default());
    let run_id = text.lines().find_map(|line| line.strip_prefix("run_id:"));
    let run_id = run_id.ok_or("INFO has no run_id")?.trim().to_owned();
    Ok(Session { run_id, client: reply::as_integer(client).ok_or("CLIENT ID is no number")? })
}

/// Requests that read the value of `key` and its time to live; they get two replies.
pub(crate) fn write_look(key: &Key, out: &mut Vec<u8>) {
    encode::request(out, &[b"DUMP", key]);
    encode::request(out, &[b"PTTL", key]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_is_changed_only_where_it_differs() {
        let (mut link, now) = (Link::new(Instant::ZERO), Instant::ZERO);
        link.open();
        link.send(7, b"a", 1, true, now);
        link.send(8, b"b", 2, true, now);
        link.send(9, b"c", 1, false, now);
        assert_eq!(link.take_out(), b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\nab*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\nc");
        link.receive(b"%0\r\n+A\r\n+B1\r\n>1\r\n+push\r\n+B", now);
        assert_eq!(link.next(), Ok(Some((7, b"+A\r\n".to_vec()))));
        assert_eq!(link.next(), Ok(None));
        link.receive(b"2\r\n*0\r\n+C\r\n", now);
        assert_eq!(link.next(), Ok(Some((8, b"+B1\r\n+B2\r\n".to_vec()))));
        assert_eq!(link.next(), Ok(Some((9, b"+C\r\n".to_vec()))));
        link.receive(b"+D\r\n", now);
        assert!(link.next().is_err());
    }

    #[test]
    fn pauses_grow_while_a_copy_cannot_be_reached() {
        let (mut link, now) = (Link::new(Instant::ZERO), Instant::ZERO);
        let pauses: Vec<u128> = (0..8)
            .map(|_| {
                link.fail(now);
                let State::Down { until } = link.state else { panic!("it has failed") };
                until.since(now).as_millis()
            })
            .collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    }

    #[test]
    fn a_node_tells_its_run_and_our_connection() {
        let replies = b"+OK\r\n:12\r\n$28\r\n# Server\r\nrun_id:abcd\r\nx:1\r\n\r\n+PONG\r\n";
        let session = Session { run_id: "abcd".to_owned(), client: 12 };
        assert_eq!(session_of(replies, true), Ok(session));
        let loading = session_of(b":12\r\n$0\r\n\r\n-LOADING Redis is loading\r\n", false);
        assert_eq!(loading, Err("LOADING Redis is loading".to_owned()));
    }
}
