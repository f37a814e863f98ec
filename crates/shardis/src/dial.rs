//! Connecting to a name that has several addresses: one after the other, in the spirit of RFC 8305. Pure: it receives the
//! outcome of an attempt and returns the next address.
//!
//! ```text
//!   name ─► addresses, families in turn ─► attempt ── refused ─► the next, at once
//!                                             │ └─ silent for 250 ms ─► the next; the last one has the rest of the time
//!                                             └─ connected: the next time begins with this address
//! ```

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use stdx::{Id, Instant};

/// Time for which an address may be silent while there is another: RFC 8305's Connection Attempt Delay.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// The most addresses of a name that are tried.
pub(crate) const ADDRESSES_MAX: usize = 16;
/// The most names whose best address is remembered; with more, all are forgotten.
const NAMES_MAX: usize = 4096;

/// The next step of a connection whose attempt has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    /// Try this address, for this target.
    Try(T, SocketAddr),
    /// All have failed, for these reasons.
    GiveUp(String),
}

/// Connections that are being made to host names. `T` is the caller's name for the target.
#[derive(Debug)]
pub(crate) struct Dials<T> {
    dials: HashMap<Id, Dial<T>>,
    /// Timeout of all addresses of a name together.
    time: Duration,
    /// The address with which to begin, by name.
    first: HashMap<String, IpAddr>,
}

/// One of them.
#[derive(Debug)]
struct Dial<T> {
    target: T,
    host: String,
    addrs: Vec<SocketAddr>,
    /// The place of the present attempt.
    at: usize,
    /// The present attempt is silent for too long then.
    late_at: Instant,
    /// The last one is silent for too long then.
    ends_at: Instant,
    /// Why the earlier ones failed.
    failures: Vec<String>,
}

impl<T: Clone> Dials<T> {
    /// No connections yet. The caller gives one up after `timeout`; the reason is reported shortly before.
    pub(crate) fn within(timeout: Duration) -> Dials<T> {
        Dials { dials: HashMap::new(), time: timeout - timeout / 16, first: HashMap::new() }
    }

    /// Begins connection `conn` to `target` at `host`, which has `addrs`, one at least. Returns the first to try.
    pub(crate) fn begin(
        &mut self,
        conn: Id,
        (target, host): (T, &str),
        mut addrs: Vec<SocketAddr>,
        now: Instant,
    ) -> SocketAddr {
        let first = self.first.get(host).and_then(|ip| addrs.iter().position(|addr| addr.ip() == *ip));
        addrs.rotate_left(first.unwrap_or(0));
        let (late_at, ends_at) = (Instant::NEVER, now + self.time);
        let (host, failures) = (host.to_owned(), Vec::new());
        let mut dial = Dial { target, host, addrs, at: 0, late_at, ends_at, failures };
        dial.await_answer(now);
        let addr = dial.addrs[0];
        self.dials.insert(conn, dial);
        addr
    }

    /// `conn` is there.
    pub(crate) fn note_connected(&mut self, conn: Id) {
        if let Some(Dial { host, addrs, at, .. }) = self.dials.remove(&conn) {
            self.begin_with(host, addrs[at].ip());
        }
    }

    /// The attempt of `conn` failed. `None` if `conn` is unknown here.
    pub(crate) fn note_failed(&mut self, conn: Id, reason: &str, now: Instant) -> Option<Next<T>> {
        let dial = self.dials.get_mut(&conn)?;
        dial.failures.push(format!("{reason} ({})", dial.addrs[dial.at]));
        match dial.advance(now) {
            Some(addr) => Some(Next::Try(dial.target.clone(), addr)),
            None => {
                let reasons = dial.failures.join(", ");
                self.forget(conn);
                Some(Next::GiveUp(reasons))
            }
        }
    }

    /// The next connection whose attempt has timed out, and its next step.
    pub(crate) fn poll_late(&mut self, now: Instant) -> Option<(Id, Next<T>)> {
        let conn = *self.dials.iter().find(|(_, dial)| dial.late_at <= now)?.0;
        Some((conn, self.note_failed(conn, "no connection in time", now)?))
    }

    /// The caller gave `conn` up. The next attempt begins with another address.
    pub(crate) fn forget(&mut self, conn: Id) {
        if let Some(Dial { host, addrs, .. }) = self.dials.remove(&conn) {
            self.begin_with(host, addrs[1 % addrs.len()].ip());
        }
    }

    /// When [`Dials::poll_late`] has something at the earliest.
    pub(crate) fn deadline(&self) -> Instant {
        self.dials.values().map(|dial| dial.late_at).min().unwrap_or(Instant::NEVER)
    }

    fn begin_with(&mut self, host: String, ip: IpAddr) {
        if self.first.len() >= NAMES_MAX {
            self.first.clear();
        }
        self.first.insert(host, ip);
    }
}

impl<T> Dial<T> {
    fn advance(&mut self, now: Instant) -> Option<SocketAddr> {
        if self.at + 1 >= self.addrs.len() {
            return None;
        }
        self.at += 1;
        self.await_answer(now);
        Some(self.addrs[self.at])
    }

    fn await_answer(&mut self, now: Instant) {
        let is_last = self.at + 1 == self.addrs.len();
        self.late_at = if is_last { self.ends_at } else { self.ends_at.min(now + ATTEMPT_DELAY) };
    }
}

/// `addrs` without duplicates, IPv6 and IPv4 in turn, beginning with the family of the first.
pub(crate) fn in_turn(addrs: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut unique: Vec<SocketAddr> = Vec::new();
    for addr in addrs {
        if !unique.contains(&addr) && unique.len() < ADDRESSES_MAX {
            unique.push(addr);
        }
    }
    let Some(is_v6) = unique.first().map(SocketAddr::is_ipv6) else { return unique };
    let (first, second): (Vec<_>, Vec<_>) = unique.into_iter().partition(|addr| addr.is_ipv6() == is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut mixed = Vec::new();
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return mixed;
        }
        mixed.extend(pair.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conn(index: u32) -> Id {
        Id { index, generation: 0 }
    }

    fn addrs(list: &str) -> Vec<SocketAddr> {
        list.split(' ').map(|addr| addr.parse().expect(addr)).collect()
    }

    const TIMEOUT: Duration = Duration::from_secs(1);
    const BOTH: &str = "[::1]:7 127.0.0.1:7";

    #[test]
    fn families_take_turns() {
        let cases = [
            ("10.0.0.1:7", "10.0.0.1:7"),
            (
                "[::1]:7 [::2]:7 10.0.0.1:7 [::1]:7 10.0.0.2:7 10.0.0.3:7",
                "[::1]:7 10.0.0.1:7 [::2]:7 10.0.0.2:7 10.0.0.3:7",
            ),
            ("10.0.0.1:7 10.0.0.2:7 [::1]:7", "10.0.0.1:7 [::1]:7 10.0.0.2:7"),
        ];
        for (list, expected) in cases {
            assert_eq!(in_turn(addrs(list).into_iter()), addrs(expected), "{list}");
        }
        assert_eq!(in_turn(std::iter::empty()), []);
        let many = (0..100u16).map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        assert_eq!(in_turn(many).len(), ADDRESSES_MAX);
    }

    #[test]
    fn a_refusal_leads_to_the_next_address_at_once() {
        let (mut dials, now, both) = (Dials::within(TIMEOUT), Instant::ZERO, addrs(BOTH));
        assert_eq!(dials.begin(conn(1), ("A", "a"), both.clone(), now), both[0]);
        assert_eq!(dials.note_failed(conn(1), "connection refused", now), Some(Next::Try("A", both[1])));
        dials.note_connected(conn(1));
        assert_eq!(dials.note_failed(conn(1), "reset", now), None, "it is not being made any more");
        assert_eq!(
            dials.begin(conn(2), ("A", "a"), both.clone(), now),
            both[1],
            "what has worked is the first"
        );
        assert_eq!(dials.begin(conn(3), ("B", "b"), both.clone(), now), both[0]);
    }

    #[test]
    fn a_silent_address_has_its_time_and_the_last_one_has_the_rest() {
        let (mut dials, now, both) = (Dials::within(TIMEOUT), Instant::ZERO, addrs(BOTH));
        dials.begin(conn(1), ("A", "a"), both.clone(), now);
        assert_eq!((dials.deadline(), dials.poll_late(now)), (now + ATTEMPT_DELAY, None));
        assert_eq!(dials.poll_late(now + ATTEMPT_DELAY), Some((conn(1), Next::Try("A", both[1]))));
        let end = dials.deadline();
        assert!(end > now + TIMEOUT * 9 / 10 && end < now + TIMEOUT);
        let reasons = "no connection in time ([::1]:7), no connection in time (127.0.0.1:7)";
        assert_eq!(dials.poll_late(end), Some((conn(1), Next::GiveUp(reasons.to_owned()))));
        assert_eq!((dials.deadline(), dials.poll_late(Instant::NEVER)), (Instant::NEVER, None));
    }

    #[test]
    fn each_address_is_the_last_one_in_its_turn() {
        let (mut dials, now) = (Dials::within(TIMEOUT), Instant::ZERO);
        let three = addrs("10.0.0.1:7 10.0.0.2:7 10.0.0.3:7");
        for number in 0..6 {
            assert_eq!(dials.begin(conn(number), ((), "a"), three.clone(), now), three[number as usize % 3]);
            dials.forget(conn(number));
        }
    }

    #[test]
    fn the_reason_names_the_one_address_there_is() {
        let (mut dials, now, one) = (Dials::within(TIMEOUT), Instant::ZERO, addrs("127.0.0.1:7"));
        assert_eq!(dials.begin(conn(1), ((), "a"), one.clone(), now), one[0]);
        let given_up = Next::GiveUp("connection refused (127.0.0.1:7)".to_owned());
        assert_eq!(dials.note_failed(conn(1), "connection refused", now), Some(given_up));
    }
}
