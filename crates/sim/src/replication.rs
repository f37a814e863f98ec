//! Replication between simulated nodes: the changes of a primary's keys in order, and the progress of its replica.
//!
//! ```text
//!   primary: SET a ─► log: (a, its dump, offset 930) ─── some time later ───► replica: RESTORE a, offset 930
//!   another history, or from the beginning ─────────── all keys at once ────► replica: as the primary is now
//! ```
//!
//! The log has the resulting values of keys, not the requests. So a replica can apply it at any time.

use crate::cluster::{address, keys_of, keys_of_all, may_write};
use crate::keyspace::{Dump, Keyspace};
use resp::Request;
use stdx::Instant;
use topology::Address;

/// Changes of a primary's keys since it became one.
#[derive(Debug)]
pub(crate) struct Log {
    /// Which history this is.
    pub history: u64,
    /// Where it begins in the stream of changes.
    begins_at: u64,
    changes: Vec<Change>,
}

/// One change.
#[derive(Debug)]
struct Change {
    /// `None`: all keys went.
    key: Option<Vec<u8>>,
    /// The value since then, if the key exists.
    dump: Option<Dump>,
    /// Offset of the stream behind it.
    offset: u64,
    at: Instant,
}

/// Progress of a replica.
#[derive(Debug)]
pub(crate) struct Follower {
    /// The history of its data; `None` if it has no valid data.
    history: Option<u64>,
    /// Number of changes of the history that it has.
    applied: usize,
    /// Where that is in the stream.
    pub offset: u64,
    /// Whether it is connected to its primary.
    is_linked: bool,
    /// Time of the last change of that.
    linked_at: Instant,
    /// Nothing comes through until then.
    pub unlinked_until: Instant,
    /// Nothing is taken over until then, though it comes through.
    pub held_until: Instant,
    /// Number of changes that it had when it died last.
    had: usize,
    /// Whether its next step is scheduled.
    pub is_planned: bool,
}

impl Log {
    /// A new log with this history number, of a node at `offset`.
    pub(crate) fn new(history: u64, offset: u64) -> Log {
        Log { history, begins_at: offset, changes: Vec::new() }
    }

    /// Offset of the stream.
    pub(crate) fn offset(&self) -> u64 {
        self.changes.last().map_or(self.begins_at, |change| change.offset)
    }

    /// Offset of the stream at `then`, as far as that is known.
    pub(crate) fn offset_at(&self, then: Instant) -> u64 {
        let behind = self.changes.partition_point(|change| change.at <= then);
        behind.checked_sub(1).map_or(self.begins_at, |last| self.changes[last].offset)
    }

    /// Records the keys of `request`, which has run; behind MULTI, those of `queued`.
    pub(crate) fn note_run(
        &mut self,
        request: &Request<'_>,
        queued: &[u8],
        keyspace: &mut Keyspace,
        now: Instant,
    ) {
        if request.arg(0).eq_ignore_ascii_case(b"flushall") {
            return self.add(None, None, now);
        }
        let keys = match request.arg(0).eq_ignore_ascii_case(b"exec") {
            true => keys_of_all(queued),
            false if may_write(request) => keys_of(request),
            false => return,
        };
        keys.into_iter().for_each(|key| self.note(key, keyspace, now));
    }

    /// Notes what `key` holds now.
    pub(crate) fn note(&mut self, key: Vec<u8>, keyspace: &mut Keyspace, now: Instant) {
        let dump = keyspace.dump(&key, now);
        self.add(Some(key), dump, now);
    }

    fn add(&mut self, key: Option<Vec<u8>>, dump: Option<Dump>, at: Instant) {
        let bytes = key.as_ref().map_or(0, Vec::len) + dump.as_ref().map_or(0, |dump| dump.payload.len());
        let offset = self.offset() + 30 + bytes as u64;
        self.changes.push(Change { key, dump, offset, at });
    }

    /// Number of changes so far.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// The keys changed since this position of the log.
    pub(crate) fn keys_from(&self, place: usize) -> Vec<Vec<u8>> {
        let later = self.changes.get(place..).unwrap_or_default();
        later.iter().filter_map(|change| change.key.clone()).collect()
    }

    /// The keys whose last changes a replica lacks; empty if it follows another history.
    pub(crate) fn tail(&self, follower: &Follower) -> Vec<Vec<u8>> {
        self.keys_from(follower.applied)
    }
}

impl Follower {
    /// A replica without data.
    pub(crate) fn new(now: Instant) -> Follower {
        Follower {
            history: None,
            applied: 0,
            offset: 0,
            is_linked: false,
            linked_at: now,
            unlinked_until: Instant::ZERO,
            held_until: Instant::ZERO,
            had: 0,
            is_planned: false,
        }
    }

    /// Connects it to its primary, or disconnects it.
    pub(crate) fn link(&mut self, is_linked: bool, now: Instant) {
        if std::mem::replace(&mut self.is_linked, is_linked) != is_linked {
            self.linked_at = now;
        }
    }

    /// Whether it is connected to its primary.
    pub(crate) fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// Whether it has not been connected since `then`.
    pub(crate) fn is_unlinked_since(&self, then: Instant) -> bool {
        !self.is_linked && self.linked_at <= then
    }

    /// Whether it has all data that the primary had at some time since it became one.
    pub(crate) fn follows(&self, log: &Log) -> bool {
        self.history == Some(log.history)
    }

    /// Whether there is something that it does not have.
    pub(crate) fn lags(&self, log: &Log) -> bool {
        !self.follows(log) || self.applied < log.changes.len()
    }

    /// Takes over all data of the primary. Returns false if it must wait for a moment. Until then it keeps its own data, and
    /// never has a part of both: a Redis that loads a snapshot refuses commands. So sentinels cannot promote it then.
    pub(crate) fn begin_anew(
        &mut self,
        log: &Log,
        from: &mut Keyspace,
        to: &mut Keyspace,
        now: Instant,
    ) -> bool {
        let dumps: Vec<_> = from.keys(now).into_iter().map(|key| (from.dump(&key, now), key)).collect();
        if dumps.iter().flat_map(|(dump, _)| dump).any(|dump| !dump.can_be_put(now)) {
            return false;
        }
        to.ask(&[b"FLUSHALL"], now);
        for (dump, key) in dumps {
            to.put(&key, dump.as_ref(), now);
        }
        (self.history, self.applied, self.offset) = (Some(log.history), log.changes.len(), log.offset());
        true
    }

    /// Its process has died and returns with saved data, without the last changes, `count` at most.
    pub(crate) fn fall_back(&mut self, log: &Log, to: &mut Keyspace, count: usize, now: Instant) {
        self.had = self.had.max(self.applied);
        for _ in 0..count {
            let Some((last, earlier)) = log.changes[..self.applied].split_last() else { return };
            let Some(key) = &last.key else { return };
            let before = earlier.iter().rev().find(|change| change.key.as_ref().is_none_or(|its| its == key));
            let dump = match before {
                Some(change) => change.dump.as_ref(),
                // Of the world's beginning, nothing changes.
                None if log.begins_at == 0 => None,
                None => return,
            };
            if !to.put(key, dump, now) {
                return;
            }
            self.applied -= 1;
            self.offset = earlier.last().map_or(log.begins_at, |change| change.offset);
        }
    }

    /// Whether it lacks something that it had before its process died.
    pub(crate) fn has_fallen_back(&self) -> bool {
        self.applied < self.had
    }

    /// Takes over at most `count` changes. Returns false if it must wait for a moment.
    pub(crate) fn go_on(&mut self, log: &Log, to: &mut Keyspace, count: usize, now: Instant) -> bool {
        for change in log.changes.iter().skip(self.applied).take(count) {
            let is_done = match &change.key {
                Some(key) => to.put(key, change.dump.as_ref(), now),
                None => {
                    to.ask(&[b"FLUSHALL"], now);
                    true
                }
            };
            if !is_done {
                return false;
            }
            self.applied += 1;
            self.offset = change.offset;
        }
        true
    }
}

/// The reply to `INFO replication` of a primary, or of a node that follows another.
pub(crate) fn report(log: &Log, follower: Option<&Follower>, is_loading: bool) -> Vec<u8> {
    let text = match follower {
        None => format!(
            "# Replication\r\nrole:master\r\nmaster_replid:{:040x}\r\nmaster_repl_offset:{}\r\n",
            log.history,
            log.offset()
        ),
        Some(follower) => format!(
            "# Replication\r\nrole:slave\r\nmaster_link_status:{}\r\nslave_repl_offset:{}\r\nmaster_replid:{:040x}\r\n",
            if follower.is_linked && !is_loading { "up" } else { "down" },
            follower.offset,
            follower.history.unwrap_or_default(),
        ),
    };
    let mut reply = Vec::new();
    resp::encode::bulk(&mut reply, text.as_bytes());
    reply
}

/// The reply to ROLE.
pub(crate) fn role(follows: Option<usize>, follower: Option<&Follower>, offset: u64) -> Vec<u8> {
    let mut reply = Vec::new();
    match follower {
        None => {
            resp::encode::array_header(&mut reply, 3);
            resp::encode::bulk(&mut reply, b"master");
            resp::encode::integer(&mut reply, offset as i64);
            resp::encode::array_header(&mut reply, 0);
        }
        Some(follower) => {
            let (host, port) = match follows.map(|node| address(node).address) {
                Some(Address::Tcp { host, port }) => (host, port),
                _ => ("10.9.9.9".to_owned(), 1),
            };
            resp::encode::array_header(&mut reply, 5);
            resp::encode::bulk(&mut reply, b"slave");
            resp::encode::bulk(&mut reply, host.as_bytes());
            resp::encode::integer(&mut reply, i64::from(port));
            let state: &[u8] = if follower.is_linked() { b"connected" } else { b"connect" };
            resp::encode::bulk(&mut reply, state);
            resp::encode::integer(&mut reply, follower.offset as i64);
        }
    }
    reply
}
