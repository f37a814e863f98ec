//! One connection: its requests in flight, and the replies to them. Pure: bytes and times are arguments.

use crate::framing::{Framing, Nature};
use crate::plan::Plan;
use crate::recorder::{Recorder, shown};
use crate::template::TIME_DIGITS;
use resp::reply;
use std::collections::VecDeque;
use stdx::Instant;

/// A connection.
#[derive(Debug)]
pub(crate) struct Client<F> {
    framing: F,
    pub(crate) state: State,
    /// Distinguishes the connections that one place has had.
    pub(crate) generation: u32,
    /// Bytes that the socket has not taken.
    pub(crate) unsent: Vec<u8>,
    /// The beginning of a reply.
    partial: Vec<u8>,
    /// Replies to the opening that are still to come.
    opening_left: u32,
    pub(crate) in_flight: VecDeque<Sent>,
    /// Numbers of the keys of the requests in flight, if replies are verified.
    pub(crate) numbers: VecDeque<u64>,
    /// Requests since the connection was opened.
    pub(crate) served: u64,
    pub(crate) role: Role,
    /// Whether it is in the list of connections that can take a request.
    pub(crate) is_listed: bool,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is no socket.
    Closed,
    /// The socket connects, or the opening is not answered.
    Opening,
    Open,
    /// The server closes it behind its last reply.
    Leaving,
}

/// The use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Requests,
    /// Listening to a channel.
    Subscriber,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) kind: u16,
    pub(crate) replies_left: u16,
    /// From here on its latency counts.
    pub(crate) start: Instant,
}

/// A reply that is longer ends the connection.
const REPLY_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// A buffer that is larger is freed when it is empty.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

impl<F: Framing> Client<F> {
    pub(crate) fn new(role: Role) -> Client<F> {
        Client {
            framing: F::default(),
            state: State::Closed,
            generation: 0,
            unsent: Vec::new(),
            partial: Vec::new(),
            opening_left: 0,
            in_flight: VecDeque::new(),
            numbers: VecDeque::new(),
            served: 0,
            role,
            is_listed: false,
        }
    }

    /// A new connection is on its way. Its opening gets `replies` replies.
    pub(crate) fn begin(&mut self, replies: u32) {
        self.framing = F::default();
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Opening;
        self.opening_left = replies;
        self.served = 0;
    }

    /// The connection is gone. Returns the requests in flight that get no reply any more.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = Sent> + '_ {
        self.state = State::Closed;
        self.unsent.clear();
        self.partial.clear();
        self.numbers.clear();
        self.in_flight.drain(..)
    }

    /// Whether the server's end of the connection ends the reply that was begun. That reply is then recorded.
    pub(crate) fn end_of_input(&mut self, now: Instant, recorder: &mut Recorder) -> bool {
        let ends = self.framing.ends(&self.partial);
        if ends && let Some(sent) = self.in_flight.pop_front() {
            recorder.record(sent.kind, sent.start, now);
        }
        ends
    }

    /// Whether the opening was answered.
    pub(crate) fn note_open(&mut self) {
        if self.state == State::Opening && self.opening_left == 0 {
            self.state = State::Open;
        }
    }

    /// Takes received bytes. Returns the number of requests that they complete.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now: Instant,
        plan: &Plan,
        recorder: &mut Recorder,
    ) -> Result<u64, String> {
        let before = self.in_flight.len();
        if now >= recorder.from {
            recorder.counts().received_bytes += bytes.len() as u64;
        }
        if self.partial.is_empty() {
            let taken = self.take_replies(bytes, now, plan, recorder)?;
            self.partial.extend_from_slice(&bytes[taken..]);
        } else {
            self.partial.extend_from_slice(bytes);
            let mut partial = std::mem::take(&mut self.partial);
            let taken = self.take_replies(&partial, now, plan, recorder)?;
            partial.drain(..taken);
            partial.shrink_to(KEPT_BYTES_MAX);
            self.partial = partial;
        }
        if self.partial.len() > REPLY_BYTES_MAX {
            return Err("a reply of more than 1 GiB".to_owned());
        }
        Ok((before - self.in_flight.len()) as u64)
    }

    /// Takes all complete replies. Returns the bytes of them.
    fn take_replies(
        &mut self,
        bytes: &[u8],
        now: Instant,
        plan: &Plan,
        recorder: &mut Recorder,
    ) -> Result<usize, String> {
        let mut at = 0;
        while at < bytes.len() {
            let Some(found) = self.framing.reply(&bytes[at..])? else { break };
            let reply = &bytes[at..at + found.len];
            at += found.len;
            if self.role == Role::Subscriber {
                self.take_message(reply, now, plan, recorder)?;
            } else if self.opening_left > 0 {
                self.take_opening(reply, found.nature)?;
            } else if found.nature != Nature::Push {
                self.take_reply(reply, found.nature, now, plan, recorder)?;
            }
        }
        Ok(at)
    }

    fn take_opening(&mut self, reply: &[u8], nature: Nature) -> Result<(), String> {
        if nature == Nature::Error {
            return Err(shown(reply));
        }
        self.opening_left -= 1;
        self.note_open();
        Ok(())
    }

    #[inline]
    fn take_reply(
        &mut self,
        reply: &[u8],
        nature: Nature,
        now: Instant,
        plan: &Plan,
        recorder: &mut Recorder,
    ) -> Result<(), String> {
        let Some(sent) = self.in_flight.front_mut() else {
            return Err("more replies than requests".to_owned());
        };
        sent.replies_left -= 1;
        let sent = *sent;
        if nature == Nature::Error {
            recorder.note_error(sent.start, reply);
            if plan.stops_at_error {
                return Err(shown(reply));
            }
        } else if nature == Nature::Last {
            self.state = State::Leaving;
        }
        if plan.verify {
            self.verify(sent, reply, nature, plan, recorder);
        }
        if sent.replies_left == 0 {
            self.in_flight.pop_front();
            recorder.record(sent.kind, sent.start, now);
        }
        Ok(())
    }

    fn verify(&mut self, sent: Sent, reply: &[u8], nature: Nature, plan: &Plan, recorder: &mut Recorder) {
        let kind = &plan.workload.kinds[usize::from(sent.kind)];
        if nature != Nature::Error && !kind.is_right(reply, &mut self.numbers, &plan.workload.sizes) {
            recorder.note_wrong(sent.start, &kind.name, reply);
        }
        if sent.replies_left == 0 {
            self.numbers.drain(..kind.template.numbers().min(self.numbers.len()));
        }
    }

    /// Takes a message of a channel. Its payload begins with the time at which it was sent.
    fn take_message(
        &mut self,
        reply: &[u8],
        now: Instant,
        plan: &Plan,
        recorder: &mut Recorder,
    ) -> Result<(), String> {
        if reply::is_error(reply) {
            return Err(shown(reply));
        }
        // The confirmation of the subscription ends in a number.
        let payload = reply
            .strip_prefix(b">")
            .map_or_else(|| reply::elements(reply), as_array)
            .and_then(Iterator::last);
        let Some(payload) = payload.and_then(reply::as_bulk) else {
            self.opening_left = 0;
            self.note_open();
            return Ok(());
        };
        let time = payload.get(..TIME_DIGITS).and_then(|digits| std::str::from_utf8(digits).ok());
        match time.and_then(|digits| digits.parse().ok()) {
            Some(nanos) => {
                recorder.record_delivery(plan.workload.kinds.len() as u16, Instant::from_nanos(nanos), now)
            }
            None => recorder.note_wrong(now, "SUBSCRIBE", reply),
        }
        Ok(())
    }
}

/// The elements of a push, whose first byte was taken.
fn as_array(push: &[u8]) -> Option<reply::Elements<'_>> {
    let end = memchr::memchr(b'\n', push)? + 1;
    let len = std::str::from_utf8(&push[..end - 2]).ok()?.parse().ok()?;
    Some(reply::elements_left(&push[end..], len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Resp;
    use crate::kinds::Kind;
    use crate::plan::{Bounds, Connections, Pace, Protocol, Target, Workload};
    use crate::recorder::Note;
    use crate::template::Occasion;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    fn plan(kind: &str, verify: bool) -> Plan {
        Plan {
            protocol: Protocol::Resp,
            target: Target { nodes: Vec::new(), tls: None },
            workload: Workload { keyspace: 100, ..Workload::of(Kind::named(kind, false).expect("known")) },
            connections: Connections {
                count: 1,
                threads: 1,
                reconnect_after: None,
                opening: Vec::new(),
                opening_replies: 0,
            },
            pace: Pace::Closed,
            replay: None,
            bounds: Bounds { requests: None, warmup: Duration::ZERO, time: None },
            verify,
            stops_at_error: false,
            interval: Duration::from_secs(1),
            seed: 1,
        }
    }

    /// A recorder that records from the beginning, and the ends of its channels.
    fn recorder() -> (Recorder, Receiver<(u32, Note)>, Sender<Box<crate::recorder::Interval>>) {
        let (notes, received) = channel();
        let (spares, spares_received) = channel();
        let mut recorder = Recorder::new(2, 0, notes, spares_received);
        recorder.from = Instant::ZERO;
        (recorder, received, spares)
    }

    const AT: Instant = Instant::from_nanos(1000);
    const REQUEST: Sent = Sent { kind: 0, replies_left: 1, start: Instant::ZERO };

    #[test]
    fn a_request_in_the_steady_state_allocates_nothing() {
        let plan = plan("get", true);
        let (mut recorder, _notes, _spares) = recorder();
        let (mut client, mut filler) = (Client::<Resp>::new(Role::Requests), plan.filler(0));
        let (template, mut out) = (&plan.workload.kinds[0].template, Vec::new());
        let mut round = |count: usize| {
            for _ in 0..count {
                out.clear();
                let numbers = Some(&mut client.numbers);
                template.write(&mut filler, Occasion { now: AT, tag: b"" }, numbers, &mut out);
                client.in_flight.push_back(REQUEST);
                let completed =
                    [&b"$-"[..], b"1\r\n"].map(|piece| client.receive(piece, AT, &plan, &mut recorder));
                assert_eq!(completed, [Ok(0), Ok(1)]);
            }
        };
        round(10);
        let counted = allocation_counter::measure(|| round(1000));
        assert_eq!(counted.count_total, 0);
        assert_eq!((recorder.counts().requests, recorder.counts().wrong), (1010, 0));
    }

    #[test]
    fn replies_without_requests_are_a_fault() {
        let (plan, (mut recorder, _notes, _spares)) = (plan("get", false), recorder());
        let mut client = Client::<Resp>::new(Role::Requests);
        assert!(client.receive(b"+OK\r\n", AT, &plan, &mut recorder).is_err());
        assert!(Client::<Resp>::new(Role::Requests).receive(b"HTTP/1.1", AT, &plan, &mut recorder).is_err());
    }

    #[test]
    fn an_opening_that_is_refused_ends_the_connection() {
        let (plan, (mut recorder, _notes, _spares)) = (plan("get", false), recorder());
        let mut client = Client::<Resp>::new(Role::Requests);
        client.begin(2);
        assert_eq!(client.receive(b"+OK\r\n", AT, &plan, &mut recorder), Ok(0));
        assert_eq!(client.state, State::Opening);
        let refused = client.receive(b"-WRONGPASS no\r\n", AT, &plan, &mut recorder);
        assert_eq!(refused, Err("WRONGPASS no".to_owned()));
    }

    #[test]
    fn a_lost_connection_gives_up_its_requests() {
        let mut client = Client::<Resp>::new(Role::Requests);
        client.in_flight.extend([REQUEST; 3]);
        client.unsent.extend_from_slice(b"rest");
        assert_eq!(client.end().count(), 3);
        assert_eq!((client.state, client.unsent.len()), (State::Closed, 0));
    }

    #[test]
    fn deliveries_are_timed_by_their_payload() {
        let (plan, (mut recorder, notes, _spares)) = (plan("get", false), recorder());
        let mut client = Client::<Resp>::new(Role::Subscriber);
        client.begin(1);
        let messages = [
            "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
            "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$22\r\n00000000000000000400xx\r\n",
            ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$20\r\n00000000000000000900\r\n",
        ];
        let received = client.receive(messages.concat().as_bytes(), AT, &plan, &mut recorder);
        assert_eq!((received, client.state), (Ok(0), State::Open));
        recorder.end_interval();
        let Ok((0, Note::Interval(interval))) = notes.try_recv() else { panic!("an interval") };
        assert_eq!(
            (interval.kinds[1].min(), interval.kinds[1].max(), interval.counts.requests),
            (100, 600, 0)
        );
    }
}
