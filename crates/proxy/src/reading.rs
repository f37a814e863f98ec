//! The node that answers a read: the primary of the shard, or one of its replicas.
//!
//! ```text
//!   every 100 ms ─► INFO replication ─► primary:  offset 900, poll 7 ─► points: (7, 900)
//!                                    └► replica:  offset 950, link up ─► fit; has all writes before poll 7
//!   a read ─► policy ─► fit replicas ─► those that have this client's own writes ─► one of them, or else the primary
//! ```
//!
//! A replica is fit to be read from while three things hold:
//!
//! * The replica answers.
//! * Its link to the primary is up, as the replica reports.
//! * Its lag stays below the configured maximum.
//!
//! A client reads its own writes from the primary until a replica is known to have them. shardis asks the primary for
//! its offset after the write was answered. So that offset is an upper bound of the write's place in the replication
//! stream. A replica whose offset is as large has the write.
//!
//! Offsets of different histories are not compared. A replica that still follows an old primary may be further on,
//! and never gets the writes of the new one. A node may report no offset. Then a client's own writes are read from
//! the primary for as long as [`crate::Limits::own_write_patience`] says.
//!
//! This module sends nothing; only `replicas.rs` does.
//!
//! A session has a box for this (`Reads`) only if its reads may go to replicas, so other sessions pay for one flag.
//! The policy of a client is that of its listener. The control thread hands over the listener's number along with the
//! socket, and [`Reading`] has the policies.
//!
//! Polls show when a replica has a client's own write. Each poll has a number. When shardis sees that the write is
//! answered, it notes for the client the number of polls so far. The primary's answer to a later poll is an offset
//! behind the write. A replica has the write when its own offset, in the same history (`master_replid`), is as large.

pub(crate) mod reads;
pub(crate) mod replicas;

mod policy;
mod report;
mod shown;
mod slow_start;

pub(crate) use policy::may_read_replica;
pub use policy::{ReadFrom, Reading};
pub(crate) use report::{Report, zone_in};

use crate::limits::Limits;
use report::ReplicationId;
use slow_start::Comeback;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use stdx::Instant;
use topology::{NodeId, ShardId, Topology};

/// A node with the data of a shard, by its place: 0 is the primary, the others are its replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reader(u8);

impl Reader {
    const PRIMARY: Reader = Reader(0);
}

/// The limit of replicas of a shard that are read from: a set of readers is one number.
const READERS_MAX: usize = 64;

/// Some of the readers of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReaderSet(u64);

impl ReaderSet {
    fn of(readers: impl Iterator<Item = Reader>) -> ReaderSet {
        ReaderSet(readers.fold(0, |set, reader| set | 1 << reader.0))
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn contains(self, reader: Reader) -> bool {
        self.0 & 1 << reader.0 != 0
    }

    fn with(self, reader: Reader) -> ReaderSet {
        ReaderSet(self.0 | 1 << reader.0)
    }

    fn iter(self) -> impl Iterator<Item = Reader> + Clone {
        (0..READERS_MAX as u8).map(Reader).filter(move |&reader| self.contains(reader))
    }

    fn filter(self, keeps: impl Fn(Reader) -> bool) -> ReaderSet {
        ReaderSet::of(self.iter().filter(|&reader| keeps(reader)))
    }

    /// One reader of the set, which is not empty. It stays the same for the same client and the same set. Numbers of
    /// clients that share a worker have much in common, so they are mixed first (Knuth's multiplicative hash).
    fn spread(self, client: u64) -> Reader {
        let mixed = client.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let number = mixed % u64::from(self.0.count_ones().max(1));
        self.iter().nth(number as usize).unwrap_or_default()
    }
}

/// The time of a client's last write, in the count of a shard's polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Written {
    /// The number of polls that the primary had got when the write was known to be answered.
    pub poll: u64,
    /// The instant at which the write was known to be answered.
    pub at: Instant,
}

/// The destination of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The primary, as the policy prefers.
    Primary,
    /// This replica.
    Replica(NodeId),
    /// The primary, since no replica is fit.
    Fallback,
    /// The primary, since no fit replica is known to have the client's own writes.
    OwnWrite,
    /// No node: the policy admits only replicas, and none is fit.
    Nowhere,
}

/// The client that asks for a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub from: ReadFrom,
    /// The client's number. A client keeps to one replica as long as that replica is fit, so that its reads do not go
    /// back in time.
    pub client: u64,
    pub written: Option<Written>,
    pub now: Instant,
}

/// The readers of all shards, as one worker knows them.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    reading: Reading,
    /// Readers by shard. The list is empty as long as no client reads from replicas.
    shards: Vec<Watched>,
}

/// The readers of one shard.
#[derive(Debug)]
struct Watched {
    /// The number of polls of the primary.
    polls: u64,
    /// The instant of the next poll.
    poll_at: Instant,
    polled_at: Instant,
    /// Whether a client waits for a replica to have its own writes.
    is_awaited: bool,
    /// Whether a client has read since the last poll.
    is_read: bool,
    /// The history that the offsets belong to.
    history: Option<ReplicationId>,
    /// Earlier offsets of the primary: poll and offset, both ascending.
    points: VecDeque<(u64, u64)>,
    /// The smallest number of polls between two points.
    stride: u64,
    /// The primary's offset at the last poll.
    newest: u64,
    /// Members by [`Reader`].
    members: Vec<Member>,
    nearest: Option<NodeId>,
    /// The instant since which the readers are watched.
    since: Instant,
    /// Whether no replica was fit when a read needed one.
    fell_back: bool,
    /// The instant at which the shard got slots of another shard. Its replicas may lack the writes of clients there.
    gained: Option<Written>,
}

/// A reader.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    /// `None` if the shard has no primary now.
    node: Option<NodeId>,
    zone: Zone,
    /// The instant of the question that is not answered yet.
    asked_at: Option<Instant>,
    /// The instant at which other bytes were last seen to come from the node meanwhile.
    heard_at: Instant,
    report: Option<Report>,
    comeback: Comeback,
    /// The reader has all writes before this poll of the primary.
    confirmed: u64,
    /// Running mean of the node's time to answer, in microseconds times 8; 0 if it was never measured.
    rtt_us_x8: u64,
}

/// Whether a reader is in the zone of shardis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Zone {
    /// Neither the operator nor the node has said.
    #[default]
    Unknown,
    /// The operator has said.
    Said(bool),
    /// The node has said (Valkey's `availability-zone`). This counts as long as the process is known to be the same.
    Told(bool),
}

impl Zone {
    fn is_ours(self) -> bool {
        matches!(self, Zone::Said(true) | Zone::Told(true))
    }
}

/// The limit of points of one primary. Beyond it, every other point is dropped and fewer are noted, so that replicas
/// with a lag of seconds can be followed too.
const POINTS_MAX: usize = 32;

/// The smallest difference in distance that counts. A difference below a quarter is noise as well.
const NEARER_BY_MIN: Duration = Duration::from_micros(100);

/// A primary that has owed an answer for longer may have written more than the bound of the lag.
const PRIMARY_SILENCE_MAX: Duration = Duration::from_secs(1);

impl Readers {
    /// No client reads from replicas yet.
    pub(crate) fn new(reading: Reading) -> Readers {
        Readers { reading, shards: Vec::new() }
    }

    /// The policy for clients of `listener` that do not choose another.
    pub(crate) fn policy_of(&self, listener: u16) -> ReadFrom {
        self.reading.of(listener)
    }

    /// Whether the policy of some listener may send reads to replicas without a request of the client.
    pub(crate) fn are_wanted(&self) -> bool {
        self.reading.needs_replicas()
    }

    /// Whether the policy `from` may send reads to replicas.
    pub(crate) fn are_wanted_by(&self, from: ReadFrom) -> bool {
        self.reading.may_leave_primary(from)
    }

    /// Whether the readers are watched.
    pub(crate) fn are_watched(&self) -> bool {
        !self.shards.is_empty()
    }

    /// Begins to watch the nodes of `topology`. Reports of nodes that stay are kept.
    pub(crate) fn follow(&mut self, topology: &Topology, now: Instant) {
        let mut known = std::mem::take(&mut self.shards);
        known.resize_with(topology.shard_count(), || Watched::new(now));
        for (watched, shard) in known.iter_mut().zip(topology.shards()) {
            let mut before = std::mem::take(&mut watched.members);
            let had = before.first().and_then(|member| member.node);
            let nodes = std::iter::once(shard.primary).chain(shard.replicas.iter().copied().map(Some));
            let member = |node: Option<NodeId>| {
                let known = before.iter_mut().find(|member| member.node.is_some() && member.node == node);
                let known = known.map(std::mem::take).unwrap_or_default();
                let said = node.and_then(|node| self.reading.is_ours(topology, node));
                let zone = match known.zone {
                    Zone::Told(_) if said.is_none() => known.zone,
                    _ => said.map_or(Zone::Unknown, Zone::Said),
                };
                Member { node, zone, ..known }
            };
            watched.members = nodes.map(member).take(READERS_MAX).collect();
            if shard.primary != had {
                watched.forget_points();
            }
            if watched.members.iter().any(|member| member.report.is_none()) {
                watched.poll_at = now;
            }
        }
        self.shards = known;
    }

    /// Notes that these shards have got slots from others. For their replicas, all keys there count as just written,
    /// by every client.
    pub(crate) fn note_gains(&mut self, gainers: BTreeSet<ShardId>, now: Instant) {
        for shard in gainers {
            if let Some(watched) = self.shards.get_mut(shard.0 as usize) {
                watched.gained = Some(Written { poll: watched.polls, at: now });
            }
        }
    }

    /// The number of polls of the primary of `shard`.
    pub(crate) fn polls(&self, shard: ShardId) -> u64 {
        self.shards.get(shard.0 as usize).map_or(0, |watched| watched.polls)
    }

    /// The instant of the next poll of any shard.
    pub(crate) fn deadline(&self) -> Instant {
        self.shards.iter().map(|watched| watched.poll_at).min().unwrap_or(Instant::NEVER)
    }

    /// Polls `shard` at once: a replica can be asked from now on, and no read should wait for the usual time.
    pub(crate) fn hurry(&mut self, shard: ShardId, now: Instant) {
        if let Some(watched) = self.shards.get_mut(shard.0 as usize) {
            watched.poll_at = now;
        }
    }

    /// Doubts the last report of `node` of `shard`: the node may have restarted without data.
    pub(crate) fn suspect(&mut self, shard: ShardId, node: NodeId) {
        if let Some(watched) = self.shards.get_mut(shard.0 as usize)
            && let Some(reader) = watched.reader(node)
        {
            let member = &mut watched.members[usize::from(reader.0)];
            (member.report, member.confirmed) = (None, 0);
            member.comeback.lose();
            if let Zone::Told(_) = member.zone {
                member.zone = Zone::Unknown;
            }
        }
    }

    /// Whether `node` of `shard` is to be asked for its zone.
    pub(crate) fn wants_zone_of(&self, (shard, node): (ShardId, NodeId)) -> bool {
        let watched = self.shards.get(shard.0 as usize);
        let member = watched.and_then(|watched| Some(&watched.members[usize::from(watched.reader(node)?.0)]));
        self.reading.uses_zones() && member.is_some_and(|member| member.zone == Zone::Unknown)
    }

    /// Notes the `zone` that `node` of `shard` has reported; empty if the node does not know.
    pub(crate) fn note_zone(&mut self, (shard, node): (ShardId, NodeId), zone: &str) {
        if let Some(watched) = self.shards.get_mut(shard.0 as usize)
            && let Some(reader) = watched.reader(node)
        {
            let is_ours = self.reading.zone.as_deref() == Some(zone);
            watched.members[usize::from(reader.0)].zone = Zone::Told(is_ours);
        }
    }

    /// The shard whose poll is due, with the nodes that have answered all earlier polls. The poll counts as done.
    pub(crate) fn next_to_poll(&mut self, limits: &Limits, now: Instant) -> Option<(ShardId, Vec<NodeId>)> {
        let due = self.shards.iter().position(|watched| watched.poll_at <= now)?;
        let watched = &mut self.shards[due];
        let pause = match () {
            () if watched.is_awaited => limits.replica_poll_soon,
            () if watched.is_read => limits.replica_poll_every,
            () => limits.replica_poll_idle,
        };
        (watched.is_awaited, watched.is_read) = (false, false);
        (watched.polled_at, watched.poll_at) = (now, now + pause);
        let free = watched.members.iter().filter(|member| member.asked_at.is_none());
        Some((ShardId(due as u32), free.filter_map(|member| member.node).collect()))
    }

    /// Notes that `node` of `shard` is asked now. Returns the number of the poll.
    pub(crate) fn note_asked(&mut self, shard: ShardId, node: NodeId, now: Instant) -> u64 {
        let Some(watched) = self.shards.get_mut(shard.0 as usize) else { return 0 };
        let Some(Reader(place)) = watched.reader(node) else { return watched.polls };
        watched.members[usize::from(place)].asked_at = Some(now);
        watched.polls += u64::from(Reader(place) == Reader::PRIMARY);
        watched.polls
    }

    /// Notes when bytes last came from the nodes of `shard` that owe an answer, as `heard_at` says. Their answers may
    /// wait behind large replies. Returns whether there are such nodes.
    pub(crate) fn note_heard(
        &mut self,
        shard: ShardId,
        heard_at: impl Fn(NodeId) -> Option<Instant>,
    ) -> bool {
        let members = self.shards.get_mut(shard.0 as usize).map(|watched| &mut watched.members);
        let late = members.into_iter().flatten().filter(|member| member.asked_at.is_some());
        let mut any = false;
        for member in late {
            any = true;
            member.heard_at = member.node.and_then(&heard_at).unwrap_or(member.heard_at);
        }
        any
    }

    /// Takes the answer of `node` of `shard` to `poll`; `None` if it is lost. Returns whether the node's slow start begins.
    pub(crate) fn absorb(
        &mut self,
        (shard, node): (ShardId, NodeId),
        poll: u64,
        report: Option<Report>,
        now: Instant,
    ) -> bool {
        let Some(watched) = self.shards.get_mut(shard.0 as usize) else { return false };
        let Some(reader) = watched.reader(node) else { return false };
        let member = &mut watched.members[usize::from(reader.0)];
        let asked_at = member.asked_at.take();
        member.report = report;
        let Some(report) = report else { return false };
        if let Some(asked_at) = asked_at {
            member.note_rtt(now.since(asked_at));
        }
        let begins_slowly = !report.is_primary && report.link_is_up && member.comeback.note_fit(now);
        if reader == Reader::PRIMARY {
            watched.note_point(poll, report);
        }
        watched.confirm();
        begins_slowly
    }

    /// Chooses the destination of a read of `shard`. `admits` says whether a node takes requests at all.
    pub(crate) fn choose(
        &mut self,
        shard: ShardId,
        asker: Asker,
        limits: &Limits,
        admits: impl Fn(NodeId) -> bool,
    ) -> Choice {
        let Some(watched) = self.shards.get_mut(shard.0 as usize) else { return Choice::Primary };
        if !watched.is_read {
            watched.is_read = true;
            watched.poll_within(limits.replica_poll_every);
        }
        let all = ReaderSet::of((0..watched.members.len() as u8).map(Reader));
        let there = all.filter(|reader| watched.node(reader).is_some_and(&admits));
        let has_primary = there.contains(Reader::PRIMARY);
        let replicas = there.filter(|reader| reader != Reader::PRIMARY);
        let fit = replicas.filter(|reader| watched.fitness(reader, &self.reading, limits, asker.now).is_ok());
        let current = fit.filter(|reader| watched.has_writes(reader, asker, limits));
        if !has_primary && self.reading.covers_for_primary {
            // The best that there is: a replica known to have all writes, or a fit one, or any.
            let best = [current, fit, replicas].into_iter().find(|readers| !readers.is_empty());
            return watched.choice(best.map_or(Reader::PRIMARY, |readers| readers.spread(asker.client)));
        }
        if current.is_empty() && !fit.is_empty() && asker.from.wants_replica() {
            watched.is_awaited = true;
            watched.poll_within(limits.replica_poll_soon);
            return Choice::OwnWrite;
        }
        let admitted = current.filter(|reader| watched.admits(reader, asker, limits));
        match () {
            () if !admitted.is_empty() || current.is_empty() => {
                watched.by_policy(asker, admitted, has_primary)
            }
            // All current replicas are in slow start.
            () if has_primary && asker.from.takes_primary() => Choice::Primary,
            () => watched.by_policy(asker, current, has_primary),
        }
    }

    /// Notes whether a replica was fit when a read needed one. If that has changed, returns the fault of the first
    /// replica.
    pub(crate) fn note_fitness(
        &mut self,
        shard: ShardId,
        is_fit: bool,
        limits: &Limits,
        now: Instant,
    ) -> Option<&'static str> {
        let watched = self.shards.get_mut(shard.0 as usize)?;
        // It is no news that no replica is fit before replicas had the time to be connected and to report.
        let is_early = now.since(watched.since) < limits.engine.connect_timeout;
        if watched.fell_back != is_fit || (is_early && !is_fit) {
            return None;
        }
        watched.fell_back = !is_fit;
        Some(self.unfit_because(shard, limits, now))
    }

    /// The reason why no replica of `shard` is fit: the fault of the first.
    pub(crate) fn unfit_because(&self, shard: ShardId, limits: &Limits, now: Instant) -> &'static str {
        let Some(watched) = self.shards.get(shard.0 as usize) else { return "the shard has no replica" };
        match watched.fitness(Reader(1), &self.reading, limits, now) {
            Ok(()) => "it is not connected",
            Err(why) => why,
        }
    }
}

impl Watched {
    fn new(now: Instant) -> Watched {
        Watched {
            polls: 0,
            poll_at: now,
            polled_at: now,
            is_awaited: false,
            is_read: true,
            history: None,
            points: VecDeque::new(),
            stride: 1,
            newest: 0,
            members: Vec::new(),
            nearest: None,
            since: now,
            fell_back: false,
            gained: None,
        }
    }

    /// Makes the next poll at most `time` after the last one.
    fn poll_within(&mut self, time: Duration) {
        self.poll_at = self.poll_at.min(self.polled_at + time);
    }

    fn reader(&self, node: NodeId) -> Option<Reader> {
        let place = self.members.iter().position(|member| member.node == Some(node))?;
        Some(Reader(place as u8))
    }

    fn node(&self, reader: Reader) -> Option<NodeId> {
        self.members[usize::from(reader.0)].node
    }

    fn choice(&self, reader: Reader) -> Choice {
        match self.node(reader) {
            Some(node) if reader != Reader::PRIMARY => Choice::Replica(node),
            _ => Choice::Primary,
        }
    }

    /// Whether `reader` may be read from, or else its fault.
    fn fitness(
        &self,
        reader: Reader,
        reading: &Reading,
        limits: &Limits,
        now: Instant,
    ) -> Result<(), &'static str> {
        let Some(member) = self.members.get(usize::from(reader.0)) else {
            return Err("the shard has no replica");
        };
        let Some(report) = member.report else { return Err("its replication state is unknown") };
        let silent_since = member.asked_at.map(|asked_at| asked_at.max(member.heard_at));
        if silent_since.is_some_and(|since| now.since(since) > limits.replica_silence_max) {
            return Err("it does not answer");
        }
        if report.is_primary {
            return Err("it is not a replica");
        }
        if !report.link_is_up {
            return Err("its link to the primary is down");
        }
        let Some(max) = reading.lag_bytes_max else { return Ok(()) };
        match self.lag_bytes(report) {
            None => Err("its lag is unknown"),
            _ if self.is_primary_silent(now) => Err("its lag is unknown"),
            Some(lag) if lag > max => Err("it lags too far"),
            Some(_) => Ok(()),
        }
    }

    /// Whether the primary has owed an answer for so long that it may be far ahead. One that cannot be asked owes none.
    fn is_primary_silent(&self, now: Instant) -> bool {
        let primary = self.members.get(usize::from(Reader::PRIMARY.0));
        let asked_at = primary.and_then(|primary| primary.asked_at);
        asked_at.is_some_and(|asked_at| now.since(asked_at) > PRIMARY_SILENCE_MAX)
    }

    /// The bytes of the replication stream that the reader lacks, by the last answers of both nodes.
    fn lag_bytes(&self, report: Report) -> Option<u64> {
        Some(self.newest.saturating_sub(self.offset_of(report)?))
    }

    /// The offset of a replica in the primary's history, if it reports one.
    fn offset_of(&self, report: Report) -> Option<u64> {
        report.offset.filter(|_| report.history.is_some() && report.history == self.history)
    }

    /// Whether the slow start of `reader` has come to the asker.
    fn admits(&self, reader: Reader, asker: Asker, limits: &Limits) -> bool {
        let Member { node, comeback, .. } = self.members[usize::from(reader.0)];
        node.is_some_and(|node| comeback.admits(node, asker.client, limits.slow_start, asker.now))
    }

    /// Whether `reader` has the asker's writes. Without offsets, the reader counts as having them after a time.
    fn has_writes(&self, reader: Reader, asker: Asker, limits: &Limits) -> bool {
        let Some(written) = asker.written.max(self.gained) else { return true };
        let member = &self.members[usize::from(reader.0)];
        if member.confirmed > written.poll {
            return true;
        }
        !self.can_know(reader) && asker.now.since(written.at) >= limits.own_write_patience
    }

    /// Whether offsets can show which writes `reader` has: the reader and the primary report them, or the primary has
    /// not answered yet. A replica that still follows an old primary reports another history than the primary. Such a
    /// replica is known to lack present writes.
    fn can_know(&self, reader: Reader) -> bool {
        let reports = [Reader::PRIMARY, reader].map(|reader| self.members[usize::from(reader.0)].report);
        reports.iter().flatten().all(|report| report.offset.is_some() && report.history.is_some())
    }

    /// The reader that the policy chooses from `replicas` and, if it takes requests, the primary.
    fn by_policy(&mut self, asker: Asker, replicas: ReaderSet, has_primary: bool) -> Choice {
        let with_primary = if has_primary { replicas.with(Reader::PRIMARY) } else { replicas };
        let reader = match asker.from {
            ReadFrom::Primary => Reader::PRIMARY,
            ReadFrom::PreferPrimary if has_primary || replicas.is_empty() => Reader::PRIMARY,
            ReadFrom::Replica if replicas.is_empty() => return Choice::Nowhere,
            _ if replicas.is_empty() => return Choice::Fallback,
            ReadFrom::PreferPrimary | ReadFrom::Replica | ReadFrom::PreferReplica => {
                replicas.spread(asker.client)
            }
            ReadFrom::Any => with_primary.spread(asker.client),
            ReadFrom::Nearest => self.choose_nearest(with_primary),
            ReadFrom::Zone => {
                let is_ours = |reader: Reader| self.members[usize::from(reader.0)].zone.is_ours();
                let ours = with_primary.filter(is_ours);
                let our_replicas = ours.filter(|reader| reader != Reader::PRIMARY);
                let best = [our_replicas, ours, replicas].into_iter().find(|readers| !readers.is_empty());
                best.unwrap_or(replicas).spread(asker.client)
            }
        };
        self.choice(reader)
    }

    /// The reader that answers soonest. The choice stays until another is nearer by more than noise.
    fn choose_nearest(&mut self, readers: ReaderSet) -> Reader {
        let rtt = |reader: Reader| self.members[usize::from(reader.0)].rtt_us_x8;
        let measured = readers.filter(|reader| rtt(reader) > 0);
        let Some(best) = measured.iter().min_by_key(|&reader| rtt(reader)) else {
            return readers.iter().next().unwrap_or_default();
        };
        let before =
            self.nearest.and_then(|node| self.reader(node)).filter(|&reader| measured.contains(reader));
        let stays = before.filter(|&before| {
            let margin = (rtt(before) / 4).max(NEARER_BY_MIN.as_micros() as u64 * 8);
            rtt(best) + margin > rtt(before)
        });
        let nearest = stays.unwrap_or(best);
        self.nearest = self.node(nearest);
        nearest
    }

    /// Notes the primary's offset at `poll`.
    fn note_point(&mut self, poll: u64, report: Report) {
        // The node is not or no longer a primary, so its offset does not bound the writes that the real primary got.
        let (Some(offset), Some(history), true) = (report.offset, report.history, report.is_primary) else {
            return self.forget_points();
        };
        if self.history != Some(history) {
            self.forget_points();
            self.history = Some(history);
        }
        self.newest = offset;
        match self.points.back_mut() {
            // A replica with this offset has the writes before this poll too.
            Some(last) if last.1 == offset => last.0 = poll,
            // Offsets do not shrink within one history. A primary that reports this may have lost writes.
            Some(last) if last.1 > offset => self.points.clear(),
            Some(last) if last.0 + self.stride > poll => {}
            _ => self.points.push_back((poll, offset)),
        }
        if self.points.len() > POINTS_MAX {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride *= 2;
        }
    }

    fn forget_points(&mut self) {
        self.points.clear();
        (self.history, self.stride) = (None, 1);
    }

    /// Updates the writes that each replica is known to have.
    fn confirm(&mut self) {
        for index in 1..self.members.len() {
            let Some(offset) = self.members[index].report.and_then(|report| self.offset_of(report)) else {
                continue;
            };
            let behind = self.points.partition_point(|&(_, point)| point <= offset);
            if let Some(&(poll, _)) = behind.checked_sub(1).and_then(|last| self.points.get(last)) {
                let member = &mut self.members[index];
                member.confirmed = member.confirmed.max(poll);
            }
        }
        // Points that all replicas have passed are not needed again.
        let all_have = self.members.iter().skip(1).map(|member| member.confirmed).min().unwrap_or_default();
        let has_been = self.points.partition_point(|&(poll, _)| poll < all_have);
        self.points.drain(..has_been);
        if self.points.len() < POINTS_MAX / 4 {
            self.stride = (self.stride / 2).max(1);
        }
    }
}

impl Member {
    fn note_rtt(&mut self, rtt: Duration) {
        let rtt_us = rtt.as_micros() as u64;
        self.rtt_us_x8 = match self.rtt_us_x8 {
            0 => (rtt_us * 8).max(1),
            mean => (mean - mean / 8 + rtt_us).max(1),
        };
    }
}

#[cfg(test)]
mod tests;
