//! Who answers a read: the primary of its shard, or one of its replicas.
//!
//! ```text
//!   every 100 ms ─► INFO replication ─► primary:  offset 900, poll 7 ─► points: (7, 900)
//!                                    └► replica:  offset 950, link up ─► fit; has all that was written before poll 7
//!   a read ─► policy ─► fit replicas ─► those that have this client's own writes ─► one of them, or else the primary
//! ```
//!
//! A replica is fit to be read from while it answers, says that its link to the primary is up, and does not lag by more
//! than it may. What a client wrote itself it reads from the primary until a replica is known to have it: the primary's
//! offset, asked for after the write was answered, bounds where the write stands in the stream of changes, and a replica
//! that has come so far has the write. What nodes do not tell cannot be known: then a client's own writes are waited for
//! as long as [`crate::Limits::own_write_patience`] says.
//!
//! Nothing here sends anything: `replicas.rs` does.

mod report;

pub(crate) use report::Report;

use crate::limits::Limits;
use command::{Carry, Command, Flags};
use report::ReplicationId;
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use stdx::Instant;
use topology::{NodeId, ShardId, Topology};

/// Where the reads of a client go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// To the primary. If it is down, they are refused.
    #[default]
    Primary,
    /// To the primary, and while it is down, to a replica.
    PreferPrimary,
    /// To a replica. If none is fit, they are refused.
    Replica,
    /// To a replica, and while none is fit, to the primary.
    PreferReplica,
    /// To the primary and its replicas alike.
    Any,
    /// To whoever answers soonest.
    Nearest,
    /// To a replica of our own zone; else to the primary, if it is there; else as [`ReadFrom::PreferReplica`].
    Zone,
}

impl ReadFrom {
    const WORDS: [(&'static str, ReadFrom); 7] = [
        ("primary", ReadFrom::Primary),
        ("prefer-primary", ReadFrom::PreferPrimary),
        ("replica", ReadFrom::Replica),
        ("prefer-replica", ReadFrom::PreferReplica),
        ("any", ReadFrom::Any),
        ("nearest", ReadFrom::Nearest),
        ("zone", ReadFrom::Zone),
    ];
}

impl FromStr for ReadFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = ReadFrom::WORDS.iter().find(|(word, _)| *word == text);
        known.map(|&(_, from)| from).ok_or_else(|| {
            let words: Vec<&str> = ReadFrom::WORDS.iter().map(|(word, _)| *word).collect();
            format!("write one of {}", words.join(", "))
        })
    }
}

impl fmt::Display for ReadFrom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = ReadFrom::WORDS.iter().find(|(_, from)| from == self).map_or("", |(word, _)| word);
        formatter.write_str(word)
    }
}

/// What the operator wants of reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Where they go, unless the client says otherwise (READONLY).
    pub from: ReadFrom,
    /// The zone in which we are.
    pub zone: Option<String>,
    /// A replica that lacks more bytes of the stream of changes is not read from.
    pub lag_bytes_max: Option<u64>,
    /// While a primary is down, its replicas are read from, whatever [`Reading::from`] says and whatever they lack.
    pub covers_for_primary: bool,
}

/// One of those who have the data of a shard, by its place: 0 is the primary, the others are its replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reader(u8);

impl Reader {
    const PRIMARY: Reader = Reader(0);
}

/// So many replicas of a shard are read from at most: a set of readers is one number.
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

    /// One of them, of which there is one at least: always the same for the same client and the same set. Numbers of
    /// clients that share a worker have much in common, so they are mixed first (Knuth's multiplicative hash).
    fn spread(self, client: u64) -> Reader {
        let mixed = client.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let number = mixed % u64::from(self.0.count_ones().max(1));
        self.iter().nth(number as usize).unwrap_or_default()
    }
}

/// Whether a replica may answer `command`: it only reads, gives the same on every node with the same data, and does not
/// wait. Cursors are a node's own, as is what it tells of how it keeps a value; PFCOUNT may write.
pub(crate) fn may_read_replica(command: &Command) -> bool {
    let is_carried =
        matches!(command.carry, Carry::Shard | Carry::ShardIf(_) | Carry::Split(_) | Carry::Script(_));
    is_carried
        && command.flags.contains(Flags::READONLY)
        && !command.flags.contains(Flags::BLOCKING)
        && !command.may_write()
        && !command.name.starts_with("object|")
        && !matches!(&*command.name, "hscan" | "sscan" | "zscan" | "touch" | "memory|usage")
}

/// When a client wrote last, in the count of a shard's polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// How many times the primary had been asked for its offset when the write was known to be answered.
    pub poll: u64,
    /// When that was.
    pub at: Instant,
}

/// Where a read goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// To the primary, as the policy wants it.
    Primary,
    /// To this replica.
    Replica(NodeId),
    /// To the primary, since no replica is fit.
    Fallback,
    /// To the primary, since no fit replica is known to have what the client wrote itself.
    OwnWrite,
    /// Nowhere: only a replica would do, and none is fit.
    Nowhere,
}

/// Who asks for a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub from: ReadFrom,
    /// Its number: each keeps to one replica as long as that is fit, so that what it reads does not go back in time.
    pub client: u64,
    pub written: Option<Written>,
    pub now: Instant,
}

/// All shards' readers, as one worker knows them.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    reading: Reading,
    /// By shard; empty as long as nobody reads from replicas.
    shards: Vec<Watched>,
}

/// The readers of one shard.
#[derive(Debug)]
struct Watched {
    /// How many times the primary was asked.
    polls: u64,
    /// They are to be asked then.
    poll_at: Instant,
    polled_at: Instant,
    /// Somebody waits for a replica to have his own writes.
    is_awaited: bool,
    /// Somebody has read since they were asked last.
    is_read: bool,
    /// The history that the offsets belong to.
    history: Option<ReplicationId>,
    /// Where the primary was when it was asked: poll and offset, both ascending.
    points: VecDeque<(u64, u64)>,
    /// So many polls lie between two points at least.
    stride: u64,
    /// Where the primary was when it was asked last.
    newest: u64,
    /// By [`Reader`].
    members: Vec<Member>,
    nearest: Option<NodeId>,
    /// Since then they are watched.
    since: Instant,
    /// No replica was fit when one was wanted.
    fell_back: bool,
}

/// One of them.
#[derive(Debug, Default)]
struct Member {
    /// `None` if the shard has no primary now.
    node: Option<NodeId>,
    in_our_zone: bool,
    /// When it was asked what it has not answered yet.
    asked_at: Option<Instant>,
    report: Option<Report>,
    /// It has all that was written before this poll of the primary.
    confirmed: u64,
    /// Running mean of its time to answer, in microseconds times 8; 0 if it was never measured.
    rtt_us_x8: u64,
}

/// So many points are remembered of one primary. With more, every other is forgotten and fewer are noted, so that
/// replicas that are seconds behind can be followed too.
const POINTS_MAX: usize = 32;

/// What is less than this nearer is noise: a quarter, and at least so much.
const NEARER_BY_MIN: Duration = Duration::from_micros(100);

impl Readers {
    /// Nobody reads from replicas yet.
    pub(crate) fn new(reading: Reading) -> Readers {
        Readers { reading, shards: Vec::new() }
    }

    /// Where reads go unless the client says otherwise.
    pub(crate) fn from(&self) -> ReadFrom {
        self.reading.from
    }

    /// Whether reads may go to replicas though no client asks for it.
    pub(crate) fn are_wanted(&self) -> bool {
        self.reading.from != ReadFrom::Primary || self.reading.covers_for_primary
    }

    /// Whether the readers are watched.
    pub(crate) fn are_watched(&self) -> bool {
        !self.shards.is_empty()
    }

    /// From now on the nodes of `topology` are watched. What is known of those that were before is kept.
    pub(crate) fn follow(&mut self, topology: &Topology, now: Instant) {
        let mut known = std::mem::take(&mut self.shards);
        known.resize_with(topology.shard_count(), || Watched::new(now));
        for (watched, shard) in known.iter_mut().zip(topology.shards()) {
            let mut before = std::mem::take(&mut watched.members);
            let had = before.first().and_then(|member| member.node);
            let nodes = std::iter::once(shard.primary).chain(shard.replicas.iter().copied().map(Some));
            let member = |node: Option<NodeId>| {
                let known = before.iter_mut().find(|member| member.node.is_some() && member.node == node);
                let in_our_zone = node.is_some_and(|node| self.reading.is_ours(topology, node));
                Member { node, in_our_zone, ..known.map(std::mem::take).unwrap_or_default() }
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

    /// How many times the primary of `shard` was asked.
    pub(crate) fn polls(&self, shard: ShardId) -> u64 {
        self.shards.get(shard.0 as usize).map_or(0, |watched| watched.polls)
    }

    /// When somebody is to be asked.
    pub(crate) fn deadline(&self) -> Instant {
        self.shards.iter().map(|watched| watched.poll_at).min().unwrap_or(Instant::NEVER)
    }

    /// A replica of `shard` can be asked from now on: nobody is to wait for its turn.
    pub(crate) fn hurry(&mut self, shard: ShardId, now: Instant) {
        if let Some(watched) = self.shards.get_mut(shard.0 as usize) {
            watched.poll_at = now;
        }
    }

    /// What `node` of `shard` has told may not be true any more: it may have begun anew, with nothing.
    pub(crate) fn doubt(&mut self, shard: ShardId, node: NodeId) {
        if let Some(watched) = self.shards.get_mut(shard.0 as usize)
            && let Some(reader) = watched.reader(node)
        {
            let member = &mut watched.members[usize::from(reader.0)];
            (member.report, member.confirmed) = (None, 0);
        }
    }

    /// The shard whose readers are to be asked by now, which counts as done then; and who of them has answered before.
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

    /// `node` of `shard` is asked now. Returns the number of the poll.
    pub(crate) fn note_asked(&mut self, shard: ShardId, node: NodeId, now: Instant) -> u64 {
        let Some(watched) = self.shards.get_mut(shard.0 as usize) else { return 0 };
        let Some(Reader(place)) = watched.reader(node) else { return watched.polls };
        watched.members[usize::from(place)].asked_at = Some(now);
        watched.polls += u64::from(Reader(place) == Reader::PRIMARY);
        watched.polls
    }

    /// What `node` of `shard` has answered to `poll`; `None` if that is lost.
    pub(crate) fn absorb(
        &mut self,
        (shard, node): (ShardId, NodeId),
        poll: u64,
        report: Option<Report>,
        now: Instant,
    ) {
        let Some(watched) = self.shards.get_mut(shard.0 as usize) else { return };
        let Some(reader) = watched.reader(node) else { return };
        let member = &mut watched.members[usize::from(reader.0)];
        let asked_at = member.asked_at.take();
        member.report = report;
        let Some(report) = report else { return };
        if let Some(asked_at) = asked_at {
            member.note_rtt(now.since(asked_at));
        }
        if reader == Reader::PRIMARY {
            watched.note_point(poll, report);
        }
        watched.confirm();
    }

    /// Where a read of `shard` goes. `admits` says whether a node takes requests at all.
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
            // The best there is: who is known to have all, or is fit, or is there at all.
            let best = [current, fit, replicas].into_iter().find(|readers| !readers.is_empty());
            return watched.choice(best.map_or(Reader::PRIMARY, |readers| readers.spread(asker.client)));
        }
        if current.is_empty() && !fit.is_empty() && asker.from.wants_replica() {
            watched.is_awaited = true;
            watched.poll_within(limits.replica_poll_soon);
            return Choice::OwnWrite;
        }
        watched.by_policy(asker, current, has_primary)
    }

    /// Notes whether a replica was fit when one was wanted. If that is news, what is wrong with the first, if anything is.
    pub(crate) fn note_fitness(
        &mut self,
        shard: ShardId,
        is_fit: bool,
        limits: &Limits,
        now: Instant,
    ) -> Option<&'static str> {
        let watched = self.shards.get_mut(shard.0 as usize)?;
        // Before replicas could be connected to and tell, it is no news that none is fit.
        let is_early = now.since(watched.since) < limits.connect_timeout;
        if watched.fell_back != is_fit || (is_early && !is_fit) {
            return None;
        }
        watched.fell_back = !is_fit;
        Some(self.unfit_because(shard, limits, now))
    }

    /// Why no replica of `shard` is fit: what is wrong with the first.
    pub(crate) fn unfit_because(&self, shard: ShardId, limits: &Limits, now: Instant) -> &'static str {
        let Some(watched) = self.shards.get(shard.0 as usize) else { return "it has none" };
        match watched.fitness(Reader(1), &self.reading, limits, now) {
            Ok(()) => "it is not connected",
            Err(why) => why,
        }
    }
}

impl Reading {
    fn is_ours(&self, topology: &Topology, node: NodeId) -> bool {
        self.zone.is_some() && topology.node(node).zone == self.zone
    }
}

impl ReadFrom {
    fn wants_replica(self) -> bool {
        !matches!(self, ReadFrom::Primary | ReadFrom::PreferPrimary)
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
        }
    }

    /// They are asked again so long after the last time at the latest.
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

    /// Whether `reader` may be read from; else what is wrong.
    fn fitness(
        &self,
        reader: Reader,
        reading: &Reading,
        limits: &Limits,
        now: Instant,
    ) -> Result<(), &'static str> {
        let Some(member) = self.members.get(usize::from(reader.0)) else { return Err("it has none") };
        let Some(report) = member.report else { return Err("it has not told of its replication yet") };
        if member.asked_at.is_some_and(|asked_at| now.since(asked_at) > limits.replica_silence_max) {
            return Err("it does not answer");
        }
        if report.is_primary {
            return Err("it is no replica");
        }
        if !report.link_is_up {
            return Err("its link to the primary is down");
        }
        match (reading.lag_bytes_max, self.lag_bytes(report)) {
            (None, _) => Ok(()),
            (Some(_), None) => Err("how far it lags is not known"),
            (Some(max), Some(lag)) if lag > max => Err("it lags too far"),
            (Some(_), Some(_)) => Ok(()),
        }
    }

    /// How many bytes of the stream of changes it lacks, as far as both were asked.
    fn lag_bytes(&self, report: Report) -> Option<u64> {
        Some(self.newest.saturating_sub(self.offset_of(report)?))
    }

    /// Where a replica is in the primary's history, if it tells.
    fn offset_of(&self, report: Report) -> Option<u64> {
        report.offset.filter(|_| report.history.is_some() && report.history == self.history)
    }

    /// Whether `reader` has what the asker wrote, or at least had time to get it where nothing else can be known.
    fn has_writes(&self, reader: Reader, asker: Asker, limits: &Limits) -> bool {
        let Some(written) = asker.written else { return true };
        let member = &self.members[usize::from(reader.0)];
        if member.confirmed > written.poll {
            return true;
        }
        let is_known = member.report.is_some_and(|report| self.offset_of(report).is_some());
        !is_known && asker.now.since(written.at) >= limits.own_write_patience
    }

    /// The reader that the policy chooses among the primary, if there is one that takes requests, and `replicas`.
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
                let is_ours = |reader: Reader| self.members[usize::from(reader.0)].in_our_zone;
                let ours = with_primary.filter(is_ours);
                let our_replicas = ours.filter(|reader| reader != Reader::PRIMARY);
                let best = [our_replicas, ours, replicas].into_iter().find(|readers| !readers.is_empty());
                best.unwrap_or(replicas).spread(asker.client)
            }
        };
        self.choice(reader)
    }

    /// Who of `readers` answers soonest. It stays the same until another is nearer by more than noise.
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

    /// The primary said at `poll` how far it is.
    fn note_point(&mut self, poll: u64, report: Report) {
        let (Some(offset), Some(history)) = (report.offset, report.history) else {
            return self.forget_points();
        };
        if self.history != Some(history) {
            self.forget_points();
            self.history = Some(history);
        }
        self.newest = offset;
        match self.points.back_mut() {
            // Who has come to this offset has what was written before this poll too.
            Some(last) if last.1 == offset => last.0 = poll,
            // Within one history that cannot be; who says it may have lost some of it.
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

    /// Finds out what each replica has.
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
        // What all have is not looked for again.
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
mod tests {
    use super::*;
    use topology::{TopologySpec, parse_nodes};

    const SHARD: ShardId = ShardId(0);
    const HISTORY: ReplicationId = [b'a'; 40];

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn topology(list: &str) -> Topology {
        let nodes = parse_nodes(list).expect("valid");
        Topology::new(1, &TopologySpec { nodes, ..TopologySpec::default() }).expect("valid")
    }

    /// One shard, read by `reading`: node 0 is the primary, nodes 1 and 2 are replicas, the last in zone z.
    struct Rig {
        readers: Readers,
        limits: Limits,
        down: Vec<u32>,
    }

    impl Rig {
        fn new(reading: Reading) -> Rig {
            let mut readers = Readers::new(reading);
            readers.follow(&topology("a:1@y|b:1@y|c:1@z"), at(0));
            Rig { readers, limits: Limits::default(), down: Vec::new() }
        }

        /// All nodes are linked and have all.
        fn healthy(from: ReadFrom) -> Rig {
            let mut rig = Rig::new(Reading { from, zone: Some("z".to_owned()), ..Reading::default() });
            rig.poll(0, [Some(10), Some(10), Some(10)]);
            rig
        }

        /// All are asked at `ms`, and answer by how far they are; who says nothing is lost.
        fn poll(&mut self, ms: u64, offsets: [Option<u64>; 3]) {
            for (node, offset) in (0..).map(NodeId).zip(offsets) {
                let poll = self.readers.note_asked(SHARD, node, at(ms));
                let report = offset.map(|offset| Report {
                    is_primary: node.0 == 0,
                    link_is_up: true,
                    offset: Some(offset),
                    history: Some(HISTORY),
                });
                self.readers.absorb((SHARD, node), poll, report, at(ms));
            }
        }

        /// `node` answers at `ms` what `change` makes of a healthy replica's report.
        fn tell(&mut self, ms: u64, node: u32, change: impl FnOnce(&mut Report)) {
            let mut report =
                Report { is_primary: false, link_is_up: true, offset: Some(10), history: Some(HISTORY) };
            change(&mut report);
            let poll = self.readers.note_asked(SHARD, NodeId(node), at(ms));
            self.readers.absorb((SHARD, NodeId(node)), poll, Some(report), at(ms));
        }

        fn choose(&mut self, ms: u64, client: u64, written: Option<Written>) -> Choice {
            let from = self.readers.from();
            let asker = Asker { from, client, written, now: at(ms) };
            self.readers.choose(SHARD, asker, &self.limits, |node| !self.down.contains(&node.0))
        }

        /// Where a thousand clients read, by node.
        fn shares(&mut self, ms: u64) -> [usize; 3] {
            let mut shares = [0; 3];
            for client in 0..1000 {
                match self.choose(ms, client * 4 + 1, None) {
                    Choice::Replica(node) => shares[node.0 as usize] += 1,
                    Choice::Primary | Choice::Fallback => shares[0] += 1,
                    other => panic!("client {client}: {other:?}"),
                }
            }
            shares
        }

        /// The only place that all clients read from.
        fn all_read(&mut self, ms: u64) -> usize {
            let shares = self.shares(ms);
            shares.iter().position(|&share| share == 1000).unwrap_or_else(|| panic!("{shares:?}"))
        }
    }

    #[test]
    fn policies_print_as_they_are_written() {
        for (word, from) in ReadFrom::WORDS {
            assert_eq!((word.parse(), from.to_string().as_str()), (Ok(from), word));
        }
        let refusal = "slave".parse::<ReadFrom>().expect_err("an old word");
        assert_eq!(
            refusal,
            "write one of primary, prefer-primary, replica, prefer-replica, any, nearest, zone"
        );
    }

    #[test]
    fn only_what_reads_alike_everywhere_may_go_to_a_replica() {
        let may = |name: &str| {
            let command = command::find(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
            may_read_replica(command)
        };
        for name in ["get", "mget", "hgetall", "zrange", "sort_ro", "eval_ro", "exists", "dump", "sinter"] {
            assert!(may(name), "{name}");
        }
        for name in [
            "set", "getdel", "eval", "sort", "pfcount", "scan", "hscan", "keys", "dbsize", "xread", "touch",
            "ping", "publish", "info",
        ] {
            assert!(!may(name), "{name}");
        }
    }

    #[test]
    fn each_policy_chooses_among_healthy_nodes() {
        for (from, chosen) in [(ReadFrom::Primary, 0), (ReadFrom::PreferPrimary, 0), (ReadFrom::Zone, 2)] {
            assert_eq!(Rig::healthy(from).all_read(1), chosen, "{from}");
        }
        for from in [ReadFrom::Replica, ReadFrom::PreferReplica] {
            let [primary, first, second] = Rig::healthy(from).shares(1);
            assert!(primary == 0 && first > 400 && second > 400, "{from}: {first} {second}");
        }
        let shares = Rig::healthy(ReadFrom::Any).shares(1);
        assert!(shares.iter().all(|&share| share > 250), "{shares:?}");
    }

    #[test]
    fn a_client_keeps_to_one_replica() {
        let mut rig = Rig::healthy(ReadFrom::PreferReplica);
        let first = rig.choose(1, 7, None);
        for ms in 2..50 {
            assert_eq!(rig.choose(ms, 7, None), first);
        }
    }

    #[test]
    fn without_a_fit_replica_each_policy_does_what_it_says() {
        let expected = [
            (ReadFrom::Primary, Choice::Primary),
            (ReadFrom::PreferPrimary, Choice::Primary),
            (ReadFrom::Replica, Choice::Nowhere),
            (ReadFrom::PreferReplica, Choice::Fallback),
            (ReadFrom::Any, Choice::Fallback),
            (ReadFrom::Nearest, Choice::Fallback),
            (ReadFrom::Zone, Choice::Fallback),
        ];
        for (from, choice) in expected {
            let mut rig = Rig::healthy(from);
            rig.down = vec![1, 2];
            assert_eq!(rig.choose(1, 1, None), choice, "{from}");
        }
    }

    #[test]
    fn a_replica_is_passed_over_for_as_long_as_something_is_wrong_with_it() {
        type FallIll<'a> = &'a dyn Fn(&mut Rig);
        let ills: [(&str, FallIll<'_>); 4] = [
            ("its link to the primary is down", &|rig| rig.tell(5, 1, |report| report.link_is_up = false)),
            ("it is no replica", &|rig| rig.tell(5, 1, |report| report.is_primary = true)),
            ("it does not answer", &|rig| {
                rig.readers.note_asked(SHARD, NodeId(1), at(5));
            }),
            ("it has not told of its replication yet", &|rig| {
                rig.readers.absorb((SHARD, NodeId(1)), 0, None, at(5));
            }),
        ];
        for (why, fall_ill) in ills {
            let mut rig = Rig::healthy(ReadFrom::PreferReplica);
            fall_ill(&mut rig);
            assert_eq!(rig.all_read(400), 2, "{why}");
            assert_eq!(rig.readers.unfit_because(SHARD, &rig.limits, at(400)), why);
            rig.tell(401, 1, |_| {});
            assert!(rig.shares(402)[1] > 400, "{why}: it is well again");
        }
    }

    #[test]
    fn who_lags_too_far_or_does_not_say_how_far_is_not_read_from_where_that_matters() {
        let from = ReadFrom::PreferReplica;
        let mut rig = Rig::new(Reading { from, lag_bytes_max: Some(100), ..Reading::default() });
        rig.poll(1, [Some(1000), Some(900), Some(899)]);
        assert_eq!(rig.all_read(2), 1);
        rig.tell(3, 1, |report| report.offset = None);
        assert_eq!(rig.choose(4, 1, None), Choice::Fallback);
        rig.tell(5, 1, |report| (report.offset, report.history) = (Some(1000), Some([b'b'; 40])));
        assert_eq!(rig.choose(6, 1, None), Choice::Fallback, "offsets of another history say nothing");
        // Where it does not matter, both are read from.
        let mut rig = Rig::healthy(from);
        rig.tell(3, 1, |report| report.offset = None);
        assert!(rig.shares(4)[1] > 400);
    }

    #[test]
    fn what_a_client_wrote_is_read_from_who_has_it() {
        let mut rig = Rig::healthy(ReadFrom::PreferReplica);
        let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
        assert_eq!(rig.choose(5, 1, written), Choice::OwnWrite);
        // The primary was asked after the write was answered, and says how far it was; one replica has come there.
        rig.poll(10, [Some(30), Some(30), Some(29)]);
        let others = (0..50).map(|client| rig.choose(11, client, written));
        assert!(others.into_iter().all(|choice| choice == Choice::Replica(NodeId(1))));
        // Both have, long after.
        rig.poll(5000, [Some(90), Some(30), Some(30)]);
        let nodes: Vec<_> = (0..50).map(|client| rig.choose(5001, client, written)).collect();
        assert!(nodes.contains(&Choice::Replica(NodeId(2))), "{nodes:?}");
        assert_eq!(
            rig.choose(5001, 1, Some(Written { poll: rig.readers.polls(SHARD), at: at(5000) })),
            Choice::OwnWrite
        );
    }

    #[test]
    fn what_nobody_can_know_is_waited_for() {
        let mut rig = Rig::healthy(ReadFrom::PreferReplica);
        for node in [1, 2] {
            rig.tell(1, node, |report| report.offset = None);
        }
        let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
        let patience = rig.limits.own_write_patience.as_millis() as u64;
        assert_eq!(rig.choose(5 + patience - 1, 1, written), Choice::OwnWrite);
        assert!(matches!(rig.choose(5 + patience, 1, written), Choice::Replica(_)));
        // But who tells and is behind is never taken for that.
        let mut rig = Rig::healthy(ReadFrom::PreferReplica);
        let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
        rig.poll(10, [Some(30), Some(29), Some(29)]);
        assert_eq!(rig.choose(100_000, 1, written), Choice::OwnWrite);
    }

    #[test]
    fn a_replica_that_is_always_seconds_behind_is_followed() {
        let mut rig = Rig::healthy(ReadFrom::PreferReplica);
        let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
        // The primary moves on by 1 with each poll, the replicas are 500 behind.
        let seen = (1..2000u64).find(|&round| {
            let behind = Some((10 + round).saturating_sub(500).max(10));
            rig.poll(10 * round, [Some(10 + round), behind, behind]);
            matches!(rig.choose(10 * round, 1, written), Choice::Replica(_))
        });
        let seen = seen.expect("they come there");
        assert!((500..1100).contains(&seen), "after {seen} polls");
        assert!(rig.readers.shards[0].points.len() <= POINTS_MAX);
    }

    #[test]
    fn another_primary_counts_anew() {
        let mut rig = Rig::healthy(ReadFrom::PreferReplica);
        let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
        // Its replicas have its history, and one of them nothing of it yet.
        rig.tell(6, 1, |report| (report.offset, report.history) = (Some(500), Some([b'b'; 40])));
        assert_eq!(rig.choose(7, 1, written), Choice::OwnWrite);
        rig.tell(8, 0, |report| {
            *report = Report { is_primary: true, history: Some([b'b'; 40]), offset: Some(400), ..*report };
        });
        assert_eq!(rig.choose(9, 1, written), Choice::Replica(NodeId(1)));
    }

    #[test]
    fn the_nearest_changes_only_if_another_is_nearer_by_more_than_noise() {
        let mut rig = Rig::new(Reading { from: ReadFrom::Nearest, ..Reading::default() });
        let measure = |rig: &mut Rig, rtts_us: [u64; 3]| {
            for _ in 0..40 {
                for (node, rtt_us) in (0..).zip(rtts_us) {
                    let asked = rig.readers.note_asked(SHARD, NodeId(node), at(0));
                    let report = Report { is_primary: node == 0, link_is_up: true, ..Report::default() };
                    let then = Instant::from_nanos(rtt_us * 1000);
                    rig.readers.absorb((SHARD, NodeId(node)), asked, Some(report), then);
                }
            }
        };
        measure(&mut rig, [900, 2000, 1000]);
        assert_eq!(rig.all_read(1), 0);
        measure(&mut rig, [900, 2000, 820]);
        assert_eq!(rig.all_read(1), 0, "a tenth is noise");
        measure(&mut rig, [900, 2000, 500]);
        assert_eq!(rig.all_read(1), 2);
        rig.down = vec![2];
        assert_eq!(rig.all_read(1), 0);
    }

    #[test]
    fn who_has_no_replica_in_his_zone_reads_from_its_primary_and_then_from_afar() {
        let zone =
            |zone: &str| Reading { from: ReadFrom::Zone, zone: Some(zone.to_owned()), ..Reading::default() };
        let mut rig = Rig::new(zone("y"));
        rig.poll(0, [Some(10), Some(10), Some(10)]);
        assert_eq!(rig.all_read(1), 1);
        rig.down = vec![1];
        assert_eq!(rig.all_read(1), 0);
        let mut rig = Rig::new(zone("nowhere"));
        rig.poll(0, [Some(10), Some(10), Some(10)]);
        let [primary, first, second] = rig.shares(1);
        assert!(primary == 0 && first > 400 && second > 400);
    }

    #[test]
    fn while_the_primary_is_down_its_replicas_may_cover_for_it() {
        let mut rig = Rig::new(Reading { covers_for_primary: true, ..Reading::default() });
        rig.poll(0, [Some(10), Some(10), Some(10)]);
        assert_eq!(rig.all_read(1), 0);
        rig.down = vec![0];
        assert!(rig.shares(1)[1] > 400);
        // Better one that is not linked, as it will not be, than none.
        for node in [1, 2] {
            rig.tell(5, node, |report| report.link_is_up = false);
        }
        let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
        assert!(matches!(rig.choose(6, 1, written), Choice::Replica(_)));
        rig.down = vec![0, 1, 2];
        assert_eq!(rig.choose(6, 1, None), Choice::Primary);
        // Without that, the policy decides.
        let mut rig = Rig::healthy(ReadFrom::Primary);
        rig.down = vec![0];
        assert_eq!(rig.choose(6, 1, None), Choice::Primary);
        let mut rig = Rig::healthy(ReadFrom::PreferPrimary);
        rig.down = vec![0];
        assert!(matches!(rig.choose(6, 1, None), Choice::Replica(_)));
    }

    #[test]
    fn nodes_are_asked_often_while_somebody_waits_and_seldom_while_nobody_reads() {
        let mut rig = Rig::healthy(ReadFrom::PreferReplica);
        let asked = |rig: &mut Rig, ms: u64| rig.readers.next_to_poll(&rig.limits, at(ms)).is_some();
        assert!(asked(&mut rig, 0) && !asked(&mut rig, 99), "watching begins with a question");
        assert!(asked(&mut rig, 100));
        assert!(!asked(&mut rig, 1099) && asked(&mut rig, 1100), "nobody has read since");
        rig.poll(1100, [Some(10), Some(10), Some(10)]);
        let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(1101) });
        assert_eq!(rig.choose(1101, 1, written), Choice::OwnWrite);
        assert_eq!(rig.readers.deadline(), at(1110));
        assert!(asked(&mut rig, 1110));
        assert_eq!(rig.readers.deadline(), at(1120));
    }

    #[test]
    fn it_is_news_once_that_no_replica_is_fit() {
        let mut rig = Rig::healthy(ReadFrom::PreferReplica);
        let mut note = |ms: u64, is_fit| rig.readers.note_fitness(SHARD, is_fit, &rig.limits, at(ms));
        assert_eq!([note(10, false), note(20, true)], [None, None], "at first that says nothing");
        assert_eq!(note(2000, false), Some("it is not connected"));
        assert_eq!(note(2001, false), None);
        assert_eq!(note(2002, true), Some("it is not connected"));
        assert_eq!(note(2003, true), None);
    }

    #[test]
    fn another_topology_keeps_what_is_known_of_nodes_that_stay() {
        let before = topology("a:1|b:1");
        let mut readers = Readers::new(Reading { from: ReadFrom::PreferReplica, ..Reading::default() });
        readers.follow(&before, at(0));
        let report = Report { link_is_up: true, offset: Some(1), ..Report::default() };
        readers.absorb((SHARD, NodeId(1)), 0, Some(report), at(0));
        let shard = topology::ShardSpec {
            name: "a:1".to_owned(),
            primary: Some(topology::NodeSpec::tcp("c", 1)),
            replicas: vec![topology::NodeSpec::tcp("a", 1), topology::NodeSpec::tcp("b", 1)],
            slots: Vec::new(),
        };
        readers.follow(&before.succeed(2, &[shard]).expect("valid"), at(1));
        let known: Vec<_> = readers.shards[0].members.iter().map(|member| member.report.is_some()).collect();
        assert_eq!(known, [false, false, true]);
        assert_eq!(readers.deadline(), at(1), "the new primary is asked at once");
    }
}
