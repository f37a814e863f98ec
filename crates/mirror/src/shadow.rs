//! The mirror of one client: a connection to the other pool that gets the client's requests again.
//!
//! ```text
//!   client ─► requests ─┬─► the first pool ─► replies ─► client
//!                       │                        │
//!                       └─► pending ◄────────────┘ ours
//!                             │  ▲
//!                        out  ▼  │ theirs
//!                         the other pool
//! ```
//!
//! Requests and replies match by their order, on both connections. A request is sent on at once, or when the first pool's
//! reply is known: then only what has happened is done again. EXEC that ran brings its whole transaction. Commands that
//! waited are sent when they got something. SPOP becomes SREM of the members that it took, and XADD gets the ID that was
//! chosen. Later requests wait behind such a one, so the order of the client's requests stays.
//!
//! If the other pool fails or is slow, the requests of that time are counted and left out. The mirror goes on when the client
//! has no request pending, with the client's database and protocol.

use crate::compare::{self, Verdict};
use crate::policy::{self, Course, Policy, Rewrite};
use crate::replies::{Replies, Reply};
use command::{Compare, Resolved};
use resp::request::{RequestLimits, Scanned, Scanner, Span};
use resp::{Request, encode, reply};
use std::collections::VecDeque;

/// Bytes of requests and replies that one mirror holds at most. With more, the other pool is too slow.
pub(crate) const HELD_BYTES_MAX: usize = 4 << 20;
/// Bytes of a key that a report shows.
const SHOWN_BYTES_MAX: usize = 64;

/// A request whose replies are not both here.
#[derive(Debug)]
struct Pending {
    command: &'static str,
    /// The beginning of the first key.
    key: Vec<u8>,
    /// The request that sets the state of a later connection, if this one does.
    state: Option<State>,
    rule: Compare,
    way: Way,
    /// The request, until it is sent or left out.
    request: Vec<u8>,
    ours: Option<Reply>,
    theirs: Option<Reply>,
}

/// Whether a request is sent to the other pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The reply of the first pool decides.
    ByReply(Rewrite),
    /// The reply to EXEC decides about the whole transaction.
    ByExec,
    /// Ready to be sent.
    Ready,
    Sent,
    /// Left out.
    Skipped,
}

/// A request that a later connection begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Database(Vec<u8>),
    Protocol(Vec<u8>),
}

/// A pair of replies that were compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    pub command: &'static str,
    pub key: Vec<u8>,
    pub verdict: Verdict,
    pub ours: Reply,
    pub theirs: Reply,
}

/// Numbers of one mirror since they were taken last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Requests that were sent to the other pool, once they are answered or given up.
    pub sent: u64,
    /// Requests that were to be sent and were not, since the other pool failed or was slow.
    pub unsent: u64,
    /// Requests that were sent and got no reply.
    pub unanswered: u64,
}

/// An open transaction of the client.
#[derive(Clone, Copy, Debug)]
struct Transaction {
    /// The number of MULTI.
    first: u64,
    /// Whether one of its keys is chosen. `None` while there is no key.
    is_chosen: Option<bool>,
    writes: bool,
    rule: Compare,
}

/// The requests of the client, as they come.
#[derive(Debug, Default)]
struct Requests {
    scanner: Scanner,
    input: Vec<u8>,
    args: Vec<Span>,
    inline: Vec<u8>,
}

/// The mirror of one client.
#[derive(Debug)]
pub(crate) struct Shadow {
    policy: Policy,
    requests: Requests,
    ours: Replies,
    theirs: Replies,
    pending: VecDeque<Pending>,
    /// The number of the first pending request. Numbers count all requests of the client.
    front: u64,
    /// The number of the next request that the first pool answers, and the same of the other pool, and of the next one to send.
    next_ours: u64,
    next_theirs: u64,
    next_sent: u64,
    transaction: Option<Transaction>,
    /// Transactions whose EXEC or DISCARD is not answered yet.
    ending: VecDeque<Transaction>,
    /// Bytes of requests and replies in `pending`.
    pending_bytes: usize,
    database: Option<Vec<u8>>,
    protocol: Option<Vec<u8>>,
    /// Replies to come of the other pool that answer no request of the client.
    greetings: usize,
    /// Set after a failure, until the client has no request pending.
    is_broken: bool,
    counts: Counts,
    /// Bytes for the other pool.
    pub out: Vec<u8>,
}

/// The mirror of this client ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client uses something that cannot be mirrored.
    Left,
    /// The bytes do not match as requests and replies.
    Garbled,
}

impl Shadow {
    /// The mirror of a client that has just connected.
    pub(crate) fn new(policy: Policy) -> Shadow {
        Shadow {
            policy,
            requests: Requests::default(),
            ours: Replies::default(),
            theirs: Replies::default(),
            pending: VecDeque::new(),
            front: 0,
            next_ours: 0,
            next_theirs: 0,
            next_sent: 0,
            transaction: None,
            ending: VecDeque::new(),
            pending_bytes: 0,
            database: None,
            protocol: None,
            greetings: 0,
            is_broken: false,
            counts: Counts::default(),
            out: Vec::new(),
        }
    }

    /// Bytes in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        let replies = self.ours.held_bytes() + self.theirs.held_bytes();
        self.requests.input.len() + self.out.len() + self.pending_bytes + replies
    }

    /// Whether the other pool owes a reply.
    pub(crate) fn is_waiting(&self) -> bool {
        self.greetings > 0
            || self.pending.iter().any(|pending| pending.way == Way::Sent && pending.theirs.is_none())
    }

    /// The counts since the last call.
    pub(crate) fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// The client sent `bytes`.
    pub(crate) fn client_sent(&mut self, bytes: &[u8]) -> Result<(), End> {
        let Requests { mut scanner, mut input, mut args, mut inline } = std::mem::take(&mut self.requests);
        input.extend_from_slice(bytes);
        let mut at = 0;
        let limits = RequestLimits::default();
        let end = loop {
            let rest = &input[at..];
            let request = match scanner.scan(rest, &limits, &mut args, &mut inline) {
                Err(_) => break Err(End::Garbled),
                Ok(Scanned::Incomplete) => break Ok(()),
                Ok(Scanned::Nothing { len }) => {
                    at += len;
                    continue;
                }
                Ok(Scanned::Request { len }) => {
                    at += len;
                    Request::new(&rest[..len], &args)
                }
                Ok(Scanned::Inline { len }) => {
                    at += len;
                    Request::new(&inline, &args)
                }
            };
            if let Err(end) = self.note(&request) {
                break Err(end);
            }
        };
        input.drain(..at);
        self.requests = Requests { scanner, input, args, inline };
        self.send_ready();
        self.check_size();
        end
    }

    /// The client got `bytes`.
    pub(crate) fn client_got(&mut self, bytes: &[u8], compared: &mut Vec<Compared>) -> Result<(), End> {
        self.ours.extend(bytes);
        while let Some(reply) = self.ours.next().map_err(|_| End::Garbled)? {
            self.answer(reply)?;
        }
        self.send_ready();
        self.settle(compared);
        self.check_size();
        Ok(())
    }

    /// The other pool sent `bytes`. An error says that they are no replies to the requests.
    pub(crate) fn other_sent(&mut self, bytes: &[u8], compared: &mut Vec<Compared>) -> Result<(), String> {
        self.theirs.extend(bytes);
        while let Some(reply) = self.theirs.next().map_err(|error| error.to_string())? {
            if self.greetings > 0 {
                self.greetings -= 1;
                if reply::is_error(reply.bytes()) {
                    return Err(String::from_utf8_lossy(reply.bytes())
                        .trim_matches(['-', '\r', '\n'])
                        .to_owned());
                }
                continue;
            }
            let (front, from) = (self.front, self.next_theirs.max(self.front));
            let waiting = self.pending.iter_mut().enumerate().skip((from - front) as usize);
            let mut waiting =
                waiting.filter(|(_, pending)| pending.way == Way::Sent && pending.theirs.is_none());
            let Some((index, pending)) = waiting.next() else {
                return Err("a reply without a request".to_owned());
            };
            self.pending_bytes += reply.bytes().len();
            pending.theirs = Some(reply);
            self.next_theirs = front + index as u64 + 1;
        }
        self.settle(compared);
        Ok(())
    }

    /// The connection to the other pool is open. `login` is the request that it gets first, if any.
    pub(crate) fn connected(&mut self, login: Option<&[u8]>) {
        let mut greeting = Vec::new();
        greeting.extend_from_slice(login.unwrap_or_default());
        for request in [&self.protocol, &self.database].into_iter().flatten() {
            greeting.extend_from_slice(request);
        }
        let count = [login.is_some(), self.protocol.is_some(), self.database.is_some()];
        self.greetings = count.into_iter().filter(|&is_there| is_there).count();
        greeting.append(&mut self.out);
        self.out = greeting;
    }

    /// The other pool failed, or is too slow: requests that it has not answered are left out. Without a connection
    /// (`is_connected`), none was sent.
    pub(crate) fn fail(&mut self, is_connected: bool) {
        self.is_broken = true;
        (self.theirs, self.greetings) = (Replies::default(), 0);
        self.out = Vec::new();
        for pending in &mut self.pending {
            match pending.way {
                Way::Sent if pending.theirs.is_none() && is_connected => {
                    self.counts.sent += 1;
                    self.counts.unanswered += 1;
                }
                Way::Sent if pending.theirs.is_none() => self.counts.unsent += 1,
                Way::Sent | Way::Skipped => continue,
                Way::Ready | Way::ByReply(_) | Way::ByExec => self.counts.unsent += 1,
            }
            pending.way = Way::Skipped;
            self.pending_bytes -= pending.request.len();
            pending.request = Vec::new();
        }
        self.next_sent = self.front + self.pending.len() as u64;
        self.ending.clear();
        self.settle(&mut Vec::new());
    }

    /// Notes one request of the client.
    fn note(&mut self, request: &Request<'_>) -> Result<(), End> {
        if self.pending.is_empty() && self.transaction.is_none() {
            self.is_broken = false;
        }
        let Resolved::Command(command) = command::resolve(request) else {
            self.push(("unknown", &[]), Compare::Kind, Way::Skipped, request);
            return Ok(());
        };
        let mut positions = Vec::new();
        let key = command.keys(request, &mut positions).ok().and_then(|()| positions.first());
        let key = key.map(|&at| request.arg(at));
        let (mut rule, course) = (command.comparison(), self.policy.course(command, request, key));
        let way = match (course, &mut self.transaction) {
            (Course::Leave, _) => return Err(End::Left),
            (Course::Begin, open @ None) => {
                let first = self.front + self.pending.len() as u64;
                *open = Some(Transaction { first, is_chosen: None, writes: false, rule: Compare::Exact });
                Way::ByExec
            }
            (Course::Run, Some(open)) => {
                rule = open.rule;
                Way::ByExec
            }
            (_, Some(open)) => {
                if let (None, Some(key)) = (open.is_chosen, key) {
                    open.is_chosen = Some(self.policy.chooses(Some(key)));
                }
                open.writes |= command.may_write();
                open.rule =
                    open.rule.max(if matches!(course, Course::ByReply(_)) { Compare::Kind } else { rule });
                rule = Compare::Kind;
                Way::ByExec
            }
            (Course::Send, None) => Way::Ready,
            (Course::ByReply(rewrite), None) => Way::ByReply(rewrite),
            (Course::Skip | Course::Run | Course::Discard, None) => Way::Skipped,
        };
        let way = match way {
            Way::Ready | Way::ByReply(_) | Way::ByExec if self.is_broken => {
                self.counts.unsent += 1;
                Way::Skipped
            }
            way => way,
        };
        let ends = matches!(course, Course::Run | Course::Discard);
        let ended = if ends { self.transaction.take() } else { None };
        self.ending.extend(ended.filter(|_| way == Way::ByExec));
        self.push((&command.name, key.unwrap_or_default()), rule, way, request);
        Ok(())
    }

    fn push(
        &mut self,
        (command, key): (&'static str, &[u8]),
        rule: Compare,
        way: Way,
        request: &Request<'_>,
    ) {
        let state = match command {
            "select" => Some(State::Database(request.bytes.to_vec())),
            "hello" => {
                let mut bytes = Vec::new();
                request.get(1).inspect(|version| encode::request(&mut bytes, &[b"HELLO", version]));
                (!bytes.is_empty()).then_some(State::Protocol(bytes))
            }
            _ => None,
        };
        let key = key[..key.len().min(SHOWN_BYTES_MAX)].to_vec();
        let request = if way == Way::Skipped { Vec::new() } else { request.bytes.to_vec() };
        self.pending_bytes += request.len();
        self.pending.push_back(Pending { command, key, state, rule, way, request, ours: None, theirs: None });
    }

    /// Notes the first pool's reply to the next request.
    fn answer(&mut self, reply: Reply) -> Result<(), End> {
        let index = self.next_ours.checked_sub(self.front).ok_or(End::Garbled)? as usize;
        let pending = self.pending.get_mut(index).ok_or(End::Garbled)?;
        self.next_ours += 1;
        let is_error = reply::is_error(reply.bytes());
        match pending.state.take().filter(|_| !is_error) {
            Some(State::Database(request)) => self.database = Some(request),
            Some(State::Protocol(request)) => self.protocol = Some(request),
            None => {}
        }
        if let Way::ByReply(rewrite) = pending.way {
            let request = std::mem::take(&mut pending.request);
            self.pending_bytes -= request.len();
            let rewritten = rewritten(rewrite, &request, reply.bytes(), pending.rule);
            (pending.way, pending.request) = match rewritten {
                Some((rule, bytes)) => {
                    pending.rule = rule;
                    (Way::Ready, bytes)
                }
                None => (Way::Skipped, Vec::new()),
            };
            self.pending_bytes += pending.request.len();
        }
        let (command, is_of_transaction) = (pending.command, pending.way == Way::ByExec);
        let ran = !is_error && !reply::is_null(reply.bytes());
        self.pending_bytes += reply.bytes().len();
        pending.ours = Some(reply);
        if is_of_transaction && matches!(command, "exec" | "discard") {
            self.end_transaction(index, command == "exec" && ran);
        }
        Ok(())
    }

    /// Decides about the transaction whose last command is at `last`.
    fn end_transaction(&mut self, last: usize, ran: bool) {
        let Some(open) = self.ending.pop_front() else { return };
        let is_chosen = ran && open.is_chosen.unwrap_or(true) && (self.policy.reads || open.writes);
        let first = (open.first - self.front) as usize;
        for pending in self.pending.iter_mut().take(last + 1).skip(first) {
            // A command that the first pool refused within the transaction was not queued.
            let was_queued = pending.ours.as_ref().is_some_and(|ours| !reply::is_error(ours.bytes()));
            pending.way = if is_chosen && was_queued { Way::Ready } else { Way::Skipped };
            if pending.way == Way::Skipped {
                self.pending_bytes -= pending.request.len();
                pending.request = Vec::new();
            }
        }
    }

    /// Moves requests to the output, up to the first that is not decided.
    fn send_ready(&mut self) {
        let from = self.next_sent.max(self.front) - self.front;
        self.next_sent = self.front + from;
        for pending in self.pending.iter_mut().skip(from as usize) {
            match pending.way {
                Way::ByReply(_) | Way::ByExec => break,
                Way::Ready => {
                    let request = std::mem::take(&mut pending.request);
                    self.pending_bytes -= request.len();
                    self.out.extend_from_slice(&request);
                    pending.way = Way::Sent;
                }
                Way::Sent | Way::Skipped => {}
            }
            self.next_sent += 1;
        }
    }

    /// Compares and drops the requests at the front that have both replies.
    fn settle(&mut self, compared: &mut Vec<Compared>) {
        while let Some(pending) = self.pending.front() {
            let is_done = match pending.way {
                Way::Skipped => pending.ours.is_some(),
                Way::Sent => pending.ours.is_some() && pending.theirs.is_some(),
                Way::Ready | Way::ByReply(_) | Way::ByExec => false,
            };
            if !is_done {
                return;
            }
            let Some(Pending { command, key, rule, way, ours, theirs, .. }) = self.pending.pop_front() else {
                return;
            };
            self.front += 1;
            let replies = [&ours, &theirs].into_iter().flatten();
            self.pending_bytes -= replies.map(|reply| reply.bytes().len()).sum::<usize>();
            if let (Way::Sent, Some(ours), Some(theirs)) = (way, ours, theirs) {
                self.counts.sent += 1;
                let verdict = compare::judge(rule, &ours, &theirs);
                compared.push(Compared { command, key, verdict, ours, theirs });
            }
        }
    }

    /// Leaves out requests if too many bytes wait.
    fn check_size(&mut self) {
        if self.pending_bytes + self.out.len() > HELD_BYTES_MAX {
            self.fail(true);
        }
    }

    /// Whether the connection to the other pool has to be closed: what comes over it would not match.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }
}

/// The form of the complete request `bytes` after the reply `ours`, and the rule for the replies.
fn rewritten(how: Rewrite, bytes: &[u8], ours: &[u8], rule: Compare) -> Option<(Compare, Vec<u8>)> {
    let (mut args, mut inline, mut out) = (Vec::new(), Vec::new(), Vec::new());
    Scanner::default().scan(bytes, &RequestLimits::default(), &mut args, &mut inline).ok()?;
    let rule = policy::rewrite(how, &Request::new(bytes, &args), ours, rule, &mut out)?;
    Some((rule, out))
}

#[cfg(test)]
mod tests;
