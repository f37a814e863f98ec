//! Merge: many replies become one.
//!
//! A request that went to several shards has one place in its client's order and one [`Merge`]. The merge absorbs
//! each reply (or its loss) once. The last one yields the bytes for the client.

use crate::errors::{self, Lost};
use crate::held::entries::Streams;
use crate::link::profile::Profile;
use crate::replies::reports::Reports;
use crate::scripts::known::Library;
use crate::walk;
use command::Number;
use resp::{encode, reply};
use stdx::{BUFFER_BYTES_MIN, Prng, append};
use topology::Topology;

/// The merge of one request's parts, as their replies come.
#[derive(Debug)]
pub(crate) struct Merge {
    kind: Kind,
    /// Parts whose reply is still to come.
    left: u32,
    /// The number of parts whose relaying has begun, and the number of all their elements.
    begun: (u32, usize),
    /// The failure of the first part (in the order of the keys) that failed.
    failure: Option<(u32, Failure)>,
    /// Whether a part succeeded or may have run.
    may_have_run: bool,
    /// Whether repeating the command is harmless.
    reads: bool,
    /// Whether parts are held until they are complete and not relayed. That is so if several come over one link, or
    /// if the reply goes into a transaction.
    is_whole: bool,
    /// The library of a FUNCTION LOAD, to be kept if no part fails.
    library: Option<Box<Library>>,
    /// The profile of the parts' links.
    profile: Profile,
    /// The request of one of the parts: the command's number and [`engine::link::Ticket::queued_us`].
    pub asked: Option<(Number, u32)>,
    /// When the first part's reply came: the low bits of the microseconds.
    pub first_us: Option<u32>,
    /// Memory in use, as it was counted last.
    pub counted_bytes: usize,
    absorbed_bytes: usize,
}

/// The rule of a merge.
#[derive(Debug)]
enum Kind {
    /// Integers are summed.
    Sum(i64),
    /// All must say OK.
    AllOk,
    /// MGET: elements in the order of the keys.
    Values(Values),
    /// KEYS: arrays are joined.
    Concat { elements: usize, body: Vec<u8> },
    /// RANDOMKEY: one of the replies that are not nil.
    Random { seen: u64, chosen: Vec<u8>, prng: Prng },
    /// SCRIPT LOAD: all replies are equal; the client gets the first.
    First(Vec<u8>),
    /// SCRIPT EXISTS: for each element, 1 if all replies have 1 or shardis would load the script.
    And { all: Option<Vec<bool>>, loadable: Vec<bool> },
    /// BGSAVE: the reply of the first part.
    Any(Option<(u32, Vec<u8>)>),
    /// SCRIPT KILL: the first success, regardless of failures.
    OneSucceeded(Vec<u8>),
    /// LASTSAVE: the smallest integer.
    Least(i64),
    /// Reports of nodes about themselves.
    Reports(Box<Reports>),
    /// XREAD: streams in the order of the keys.
    Streams(Box<Streams>),
}

/// The replies of an MGET's parts, and the part of each key.
#[derive(Debug, Default)]
pub(crate) struct Values {
    part_of_key: Vec<u32>,
    /// The number of keys whose values were relayed; see [`Merge::begin_relay`].
    relayed: usize,
    /// The number of bytes of each part that were relayed.
    read: Vec<usize>,
    /// The elements of each part, without the array's header. Longer than needed after a larger MGET.
    parts: Vec<Vec<u8>>,
    /// Memory in use. A part of a few bytes has a buffer of half a KiB, and with pipelines there are thousands of
    /// parts.
    held_bytes: usize,
}

/// The reason why a part failed.
#[derive(Debug)]
enum Failure {
    /// The node's error.
    Node(Vec<u8>),
    /// The reply was lost.
    Lost(Lost),
}

/// Kept [`Values`], so that an MGET in the steady state allocates nothing.
#[derive(Debug)]
pub(crate) struct SpareValues {
    spare: Vec<Values>,
    /// Memory in use by all of them.
    held_bytes: usize,
    /// The limit of that memory. Beyond it, returned values are freed.
    bytes_max: usize,
}

impl SpareValues {
    /// The limit of kept values; more are freed.
    const SPARE_MAX: usize = 256;
    /// The limit of kept buffers for parts. In a cluster each slot is a part.
    const PARTS_MAX: usize = 64;
    /// The limit of bytes of a part's buffer that is kept.
    const PART_BYTES_MAX: usize = 16 * 1024;

    /// No values yet. At most `bytes_max` bytes are kept.
    pub(crate) fn new(bytes_max: usize) -> SpareValues {
        SpareValues { spare: Vec::new(), held_bytes: 0, bytes_max }
    }

    /// Empty values for `parts` parts and these keys.
    fn take(&mut self, part_of_key: &[u32], parts: u32) -> Values {
        let mut values = self.spare.pop().unwrap_or_default();
        self.held_bytes -= values.held_bytes;
        values.part_of_key.clear();
        values.relayed = 0;
        values.read.clear();
        values.part_of_key.extend_from_slice(part_of_key);
        if values.parts.len() < parts as usize {
            values.parts.resize_with(parts as usize, Vec::new);
        }
        values.count();
        values
    }

    /// The bytes that are counted, and the bytes in use.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.held_bytes, self.spare.iter().map(Values::memory_bytes).sum())
    }

    /// Keeps `values` for another request.
    fn give(&mut self, mut values: Values) {
        if self.spare.len() >= Self::SPARE_MAX {
            return;
        }
        values.parts.truncate(Self::PARTS_MAX);
        for part in &mut values.parts {
            part.clear();
            if part.capacity() > Self::PART_BYTES_MAX {
                *part = Vec::new();
            }
        }
        values.count();
        if self.held_bytes + values.held_bytes <= self.bytes_max {
            self.held_bytes += values.held_bytes;
            self.spare.push(values);
        }
    }
}

impl Merge {
    /// The merge that the command table asks for, over `parts` parts. `part_of_key` matters only to a merge by key
    /// order, and `prng` only to a random choice. `count` matters only to entries with a limit. `reads` says that the
    /// command changes nothing.
    pub(crate) fn new(
        merge: command::Merge,
        parts: u32,
        part_of_key: &[u32],
        reads: bool,
        count: Option<&[u8]>,
        spare: &mut SpareValues,
        prng: &mut Prng,
    ) -> Merge {
        let kind = match merge {
            command::Merge::Sum => Kind::Sum(0),
            command::Merge::AllOk => Kind::AllOk,
            command::Merge::Values => Kind::Values(spare.take(part_of_key, parts)),
            command::Merge::Concat => Kind::Concat { elements: 0, body: Vec::new() },
            command::Merge::RandomNonNil => {
                Kind::Random { seen: 0, chosen: Vec::new(), prng: Prng::new(prng.next_u64()) }
            }
            command::Merge::FirstReply => Kind::First(Vec::new()),
            command::Merge::And => Kind::And { all: None, loadable: Vec::new() },
            command::Merge::AnyReply => Kind::Any(None),
            command::Merge::OneSucceeded => Kind::OneSucceeded(Vec::new()),
            command::Merge::Least => Kind::Least(i64::MAX),
            command::Merge::Report(report) => {
                Kind::Reports(Box::new(Reports::new(report, parts as usize, count)))
            }
        };
        Merge::of_kind(kind, parts, reads)
    }

    /// The merge of an XREAD over `parts` parts.
    pub(crate) fn of_streams(streams: Streams, parts: u32) -> Merge {
        Merge::of_kind(Kind::Streams(Box::new(streams)), parts, true)
    }

    fn of_kind(kind: Kind, parts: u32, reads: bool) -> Merge {
        Merge {
            kind,
            left: parts,
            begun: (0, 0),
            asked: None,
            first_us: None,
            failure: None,
            may_have_run: false,
            reads,
            is_whole: false,
            library: None,
            profile: Profile::default(),
            counted_bytes: 0,
            absorbed_bytes: 0,
        }
    }

    /// This merge, for parts that went over a profile of this kind.
    pub(crate) fn in_profile(self, profile: Profile) -> Merge {
        Merge { profile, ..self }
    }

    /// This merge, with the shards' names in the order of the parts, if it needs them.
    pub(crate) fn of_shards(mut self, topology: &Topology) -> Merge {
        if let Kind::Reports(reports) = &mut self.kind {
            let names = topology.all_shards().map(|shard| topology.shard(shard).name.clone());
            reports.set_names(names.collect());
        }
        self
    }

    /// This merge, whose parts are held until they are complete if `is_whole`.
    pub(crate) fn taken_whole(self, is_whole: bool) -> Merge {
        Merge { is_whole, ..self }
    }

    /// Holds parts until they are complete from now on.
    pub(crate) fn take_whole(&mut self) {
        (self.is_whole, self.begun) = (true, (0, 0));
    }

    /// For [`command::Merge::And`]: the elements that are true regardless of the parts.
    pub(crate) fn with_loadable(mut self, known: Vec<bool>) -> Merge {
        if let Kind::And { loadable, .. } = &mut self.kind {
            *loadable = known;
        }
        self
    }

    /// This merge, with the library to be kept if no part fails.
    pub(crate) fn with_library(self, library: Option<Library>) -> Merge {
        Merge { library: library.map(Box::new), ..self }
    }

    /// Takes the reply of `part`. Returns true if it was the last: then [`Merge::finish`] makes the result.
    pub(crate) fn absorb(&mut self, part: u32, bytes: &[u8]) -> bool {
        walk::enter("absorb");
        self.left -= 1;
        self.absorbed_bytes += bytes.len();
        if reply::is_error(bytes) {
            self.fail_by_link(part, bytes);
            return self.left == 0;
        }
        self.may_have_run = true;
        if self.absorb_success(part, bytes).is_none() {
            self.fail_merging(part);
        }
        self.left == 0
    }

    /// Takes the loss of a reply of `part`. Returns true if it was the last.
    pub(crate) fn absorb_loss(&mut self, part: u32, lost: Lost) -> bool {
        self.left -= 1;
        self.may_have_run |= !matches!(lost, Lost::NotSent { .. });
        self.fail(part, Failure::Lost(lost));
        self.left == 0
    }

    /// Takes a reply without an error. `None` if its kind is wrong.
    fn absorb_success(&mut self, part: u32, bytes: &[u8]) -> Option<()> {
        match &mut self.kind {
            Kind::Sum(sum) => *sum = sum.wrapping_add(reply::as_integer(bytes)?),
            Kind::AllOk => (bytes == b"+OK\r\n").then_some(())?,
            Kind::Values(values) => {
                let elements = reply::elements(bytes)?;
                (elements.len() == values.keys_of(part)).then_some(())?;
                values.append(part, elements.rest());
            }
            Kind::Concat { elements, body } => {
                let joined = reply::elements(bytes)?;
                *elements += joined.len();
                body.extend_from_slice(joined.rest());
            }
            Kind::Random { seen, chosen, prng } => {
                if !reply::is_null(bytes) {
                    // Reservoir of one: each key so far is kept with equal probability.
                    *seen += 1;
                    if prng.one_in(*seen) {
                        *chosen = bytes.to_vec();
                    }
                }
            }
            Kind::First(first) if first.is_empty() => *first = bytes.to_vec(),
            Kind::First(first) => (first == bytes).then_some(())?,
            Kind::And { all, .. } => {
                let ones = reply::elements(bytes)?.map(|element| element == b":1\r\n");
                match all {
                    None => *all = Some(ones.collect()),
                    Some(all) => all.iter_mut().zip(ones).for_each(|(both, one)| *both &= one),
                }
            }
            Kind::Any(Some((first, _))) if *first < part => {}
            Kind::Any(first) => *first = Some((part, bytes.to_vec())),
            Kind::OneSucceeded(success) if success.is_empty() => *success = bytes.to_vec(),
            Kind::OneSucceeded(_) => {}
            Kind::Least(least) => *least = (*least).min(reply::as_integer(bytes)?),
            Kind::Reports(reports) => reports.absorb(part, bytes),
            Kind::Streams(streams) => streams.absorb(part, bytes)?,
        }
        Some(())
    }

    /// Keeps the failure of the part that is first in the order of the keys.
    fn fail(&mut self, part: u32, failure: Failure) {
        if self.failure.as_ref().is_none_or(|(first, _)| part < *first) {
            self.failure = Some((part, failure));
        }
    }

    /// Whether no part has failed, and parts may be relayed.
    pub(crate) fn may_be_relayed(&self) -> bool {
        self.is_relayed() && self.failure.is_none()
    }

    /// Memory in use until the merge is finished.
    pub(crate) fn held_bytes(&self) -> usize {
        let held = match &self.kind {
            Kind::Values(values) => values.held_bytes,
            Kind::Streams(streams) => streams.held_bytes(),
            _ => self.absorbed_bytes,
        };
        let library = self.library.as_ref().map_or(0, |library| library.held_bytes());
        let failure = match &self.failure {
            Some((_, Failure::Node(error))) => error.len(),
            Some((_, Failure::Lost(_))) | None => 0,
        };
        size_of::<Merge>() + held + failure + library
    }

    /// For an MGET, the bytes of its values that are counted, and the bytes in use.
    pub(crate) fn account_of_values(&self) -> (usize, usize) {
        match &self.kind {
            Kind::Values(values) => (values.held_bytes, values.memory_bytes()),
            _ => (0, 0),
        }
    }

    /// Whether the parts are arrays that may be relayed.
    pub(crate) fn is_relayed(&self) -> bool {
        matches!(self.kind, Kind::Values(_) | Kind::Concat { .. }) && !self.is_whole
    }

    /// Whether the parts follow one another, each with any number of elements.
    pub(crate) fn is_of_lists(&self) -> bool {
        matches!(self.kind, Kind::Concat { .. })
    }

    /// Whether a part has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Takes the merge out of its place for a while.
    pub(crate) fn lend(&mut self) -> Merge {
        std::mem::replace(self, Merge::of_kind(Kind::Sum(0), 0, true))
    }

    /// Whether an array of this length may be the reply of `part`.
    pub(crate) fn takes(&self, part: u32, elements: usize) -> bool {
        match &self.kind {
            Kind::Values(values) => values.keys_of(part) == elements,
            _ => true,
        }
    }

    /// Notes that the reply of `part` is an error.
    pub(crate) fn fail_by_link(&mut self, part: u32, error: &[u8]) {
        self.fail(part, Failure::Node(error.to_vec()));
    }

    /// Notes that the reply of `part` has the wrong kind.
    pub(crate) fn fail_merging(&mut self, part: u32) {
        self.fail_by_link(part, &errors::reply(errors::MERGE_FAILED));
    }

    /// Notes that an array of `elements` elements has begun, as the reply of a part.
    pub(crate) fn begin_part(&mut self, elements: usize) {
        let (parts, elements_before) = self.begun;
        self.begun = (parts + 1, elements_before + elements);
    }

    /// Whether all parts have arrived or begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.left == self.begun.0
    }

    /// Whether all parts have arrived or were relayed.
    pub(crate) fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Begins to relay the reply: appends the array's header.
    pub(crate) fn begin_relay(&mut self, out: &mut Vec<u8>) {
        match &mut self.kind {
            Kind::Values(values) => {
                encode::array_header(out, values.part_of_key.len());
                values.read.clear();
                values.read.resize(values.parts.len(), 0);
                values.count();
            }
            Kind::Concat { elements, body } => {
                encode::array_header(out, *elements + self.begun.1);
                append(out, &std::mem::take(body));
                self.absorbed_bytes = 0;
            }
            _ => debug_assert!(false, "only arrays are passed on while they come"),
        }
    }

    /// Ends a part that has begun and has no elements.
    pub(crate) fn end_empty_part(&mut self) {
        self.begun.0 -= 1;
        self.left -= 1;
    }

    /// Ends a part that was relayed to its end.
    pub(crate) fn end_part(&mut self) {
        self.left -= 1;
    }

    /// The part with the next value; `None` when all were relayed.
    pub(crate) fn next_part(&self) -> Option<u32> {
        match &self.kind {
            Kind::Values(values) => values.part_of_key.get(values.relayed).copied(),
            _ => None,
        }
    }

    /// The next value of `part`, if that part has arrived.
    pub(crate) fn held_value(&self, part: u32) -> Option<&[u8]> {
        let Kind::Values(values) = &self.kind else { return None };
        let rest = values.parts[part as usize].get(values.read[part as usize]..)?;
        (!rest.is_empty()).then(|| &rest[..reply::first_len(rest)])
    }

    /// Notes that the next value was relayed; `held` is its length if its part had arrived.
    pub(crate) fn advance(&mut self, held: usize) {
        if let Kind::Values(values) = &mut self.kind
            && let Some(&part) = values.part_of_key.get(values.relayed)
        {
            values.read[part as usize] += held;
            values.relayed += 1;
        }
    }

    /// Appends the error of the whole command: that of the first part that failed.
    pub(crate) fn write_failure(&self, out: &mut Vec<u8>) {
        match &self.failure {
            Some((_, Failure::Node(error))) => out.extend_from_slice(error),
            Some((_, Failure::Lost(lost))) if self.may_have_run && !self.reads => {
                errors::write(out, &errors::text_of_part(lost));
            }
            Some((_, Failure::Lost(lost))) => errors::write(out, &lost.text()),
            None => errors::write(out, errors::MERGE_FAILED),
        }
    }

    /// Keeps the buffers for another request.
    pub(crate) fn give_values(self, spare: &mut SpareValues) {
        if let Kind::Values(values) = self.kind {
            spare.give(values);
        }
    }

    /// Appends the merged reply, once every part was absorbed. The failure of one part is that of the whole command.
    /// Returns the library to be kept after a success.
    pub(crate) fn finish(mut self, out: &mut Vec<u8>, spare: &mut SpareValues) -> Option<Library> {
        walk::enter("finish");
        debug_assert!(self.left == 0, "every part was absorbed");
        match &self.failure {
            None => self.kind.write(out, self.profile),
            Some(_) if matches!(&self.kind, Kind::OneSucceeded(success) if !success.is_empty()) => {
                self.kind.write(out, self.profile);
            }
            Some(_) => self.write_failure(out),
        }
        if let Kind::Values(values) = self.kind {
            spare.give(values);
        }
        self.library.filter(|_| self.failure.is_none()).map(|library| *library)
    }
}

impl Kind {
    fn write(&mut self, out: &mut Vec<u8>, profile: Profile) {
        match self {
            Kind::Sum(sum) => encode::integer(out, *sum),
            Kind::AllOk => out.extend_from_slice(b"+OK\r\n"),
            Kind::Values(values) => values.write(out),
            Kind::Concat { elements, body } => {
                encode::array_header(out, *elements);
                // The list may be long, so the joined elements are not copied and become the reply.
                body.splice(..0, out.drain(..));
                std::mem::swap(body, out);
            }
            Kind::Random { chosen, .. } if chosen.is_empty() => encode::null(out, profile.resp3),
            Kind::Random { chosen, .. } => out.extend_from_slice(chosen),
            Kind::First(first) => out.extend_from_slice(first),
            Kind::And { all, loadable } => {
                let all = all.as_deref().unwrap_or_default();
                encode::array_header(out, all.len());
                for (at, &one) in all.iter().enumerate() {
                    let is_there = one || loadable.get(at) == Some(&true);
                    encode::integer(out, i64::from(is_there));
                }
            }
            Kind::Any(None) => encode::null(out, profile.resp3),
            Kind::Any(Some((_, reply))) | Kind::OneSucceeded(reply) => out.extend_from_slice(reply),
            Kind::Least(least) => encode::integer(out, *least),
            Kind::Reports(reports) => match reports.merged(profile) {
                Some(reply) => out.extend_from_slice(&reply),
                None => errors::write(out, errors::MERGE_FAILED),
            },
            Kind::Streams(streams) if streams.write(out, profile.resp3).is_some() => {}
            Kind::Streams(_) => errors::write(out, errors::MERGE_FAILED),
        }
    }
}

impl Values {
    /// Adds elements to the held reply of `part`.
    fn append(&mut self, part: u32, elements: &[u8]) {
        let part = &mut self.parts[part as usize];
        let before = bytes_of_part(part);
        append(part, elements);
        self.held_bytes += bytes_of_part(part) - before;
    }

    /// Counts the memory anew.
    fn count(&mut self) {
        self.held_bytes = self.memory_bytes();
    }

    fn memory_bytes(&self) -> usize {
        self.part_of_key.capacity() * size_of::<u32>()
            + self.read.capacity() * size_of::<usize>()
            + self.parts.capacity() * size_of::<Vec<u8>>()
            + self.parts.iter().map(bytes_of_part).sum::<usize>()
    }

    fn keys_of(&self, part: u32) -> usize {
        self.part_of_key.iter().filter(|&&owner| owner == part).count()
    }

    /// Writes the elements of all parts in the order of the keys.
    fn write(&self, out: &mut Vec<u8>) {
        encode::array_header(out, self.part_of_key.len());
        // The read position in each part. The keys of one request rarely have more parts than fit here.
        let mut few = [0usize; 64];
        let mut many;
        let read = if self.parts.len() <= few.len() {
            &mut few[..]
        } else {
            many = vec![0usize; self.parts.len()];
            &mut many[..]
        };
        for &part in &self.part_of_key {
            let part = part as usize;
            let rest = &self.parts[part][read[part]..];
            let len = reply::first_len(rest);
            append(out, &rest[..len]);
            read[part] += len;
        }
    }
}

/// The memory that counts for a part of an MGET. Even the smallest reply takes this much, and counts before it comes.
fn bytes_of_part(part: &Vec<u8>) -> usize {
    part.capacity().max(BUFFER_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn merge(kind: command::Merge, parts: u32, part_of_key: &[u32]) -> Merge {
        let (mut spare, mut prng) = (SpareValues::new(1 << 20), Prng::new(1));
        Merge::new(kind, parts, part_of_key, false, None, &mut spare, &mut prng)
    }

    fn finish(merge: Merge) -> String {
        let mut out = Vec::new();
        merge.finish(&mut out, &mut SpareValues::new(1 << 20));
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn merged_values_follow_the_order_of_the_keys() {
        let mut merge = merge(command::Merge::Values, 2, &[0, 1, 0]);
        assert!(!merge.absorb(1, b"*1\r\n$-1\r\n"));
        assert!(merge.absorb(0, b"*2\r\n$1\r\na\r\n$1\r\nc\r\n"));
        assert_eq!(finish(merge), "*3\r\n$1\r\na\r\n$-1\r\n$1\r\nc\r\n");
    }

    #[test]
    fn kept_buffers_of_mgets_stay_below_their_limit() {
        let mut spare = SpareValues::new(10_000);
        let mut prng = Prng::new(1);
        let reply = format!("*1\r\n$3000\r\n{}\r\n", "v".repeat(3000));
        let merges: Vec<Merge> = (0..8)
            .map(|_| {
                let kind = command::Merge::Values;
                let mut merge = Merge::new(kind, 2, &[0, 1], true, None, &mut spare, &mut prng);
                let empty = merge.held_bytes();
                merge.absorb(0, reply.as_bytes());
                assert_eq!(merge.held_bytes() - empty, 4096 - 512, "512 bytes are there for each part");
                merge.absorb(1, b"*1\r\n$-1\r\n");
                merge
            })
            .collect();
        merges.into_iter().for_each(|merge| drop(merge.finish(&mut Vec::new(), &mut spare)));
        assert_eq!(spare.spare.len(), 2, "two of 4.7 KB each");
        assert_eq!(spare.held_bytes, spare.spare.iter().map(|values| values.held_bytes).sum::<usize>());
        let taken = [spare.take(&[0], 1), spare.take(&[0], 1), spare.take(&[0], 1)];
        assert_eq!(spare.held_bytes, 0);
        assert!(taken[0].held_bytes > 4096 && taken[2].held_bytes < 1000, "the third is new");
    }

    #[test]
    fn a_part_with_too_few_values_is_an_error_and_not_a_panic() {
        let mut merge = merge(command::Merge::Values, 1, &[0, 0]);
        assert!(merge.absorb(0, b"*1\r\n$-1\r\n"));
        assert_eq!(finish(merge), format!("-{}\r\n", errors::MERGE_FAILED));
    }

    #[test]
    fn the_first_failing_part_gives_the_error() {
        let mut merge = merge(command::Merge::AllOk, 3, &[]);
        merge.absorb(2, b"-OOM second\r\n");
        merge.absorb(1, b"-OOM first\r\n");
        merge.absorb(0, b"+OK\r\n");
        assert_eq!(finish(merge), "-OOM first\r\n");
    }

    #[test]
    fn lost_part_beside_an_applied_one_is_not_retryable() {
        let lost = Lost::NotSent { shard: "b".into(), reason: "down".into() };
        let mut half = merge(command::Merge::AllOk, 2, &[]);
        half.absorb(0, b"+OK\r\n");
        half.absorb_loss(1, lost.clone());
        let expected =
            "-ERR shard b unavailable: down; other parts of this command may have been applied\r\n";
        assert_eq!(finish(half), expected);
        let mut none = merge(command::Merge::AllOk, 1, &[]);
        none.absorb_loss(0, lost);
        assert_eq!(finish(none), "-TRYAGAIN shard b unavailable: down\r\n");
        let mut unknown = merge(command::Merge::Sum, 1, &[]);
        unknown.absorb_loss(0, Lost::TimedOut { shard: "b".into(), after: Duration::from_secs(1) });
        assert!(finish(unknown).starts_with("-ERR node timeout after 1000 ms, outcome unknown (shard b)"));
    }

    #[test]
    fn each_other_merge_follows_its_rule() {
        let mut sum = merge(command::Merge::Sum, 2, &[]);
        sum.absorb(0, b":3\r\n");
        sum.absorb(1, b":4\r\n");
        assert_eq!(finish(sum), ":7\r\n");
        let mut concat = merge(command::Merge::Concat, 2, &[]);
        concat.absorb(0, b"*1\r\n$1\r\na\r\n");
        concat.absorb(1, b"*0\r\n");
        assert_eq!(finish(concat), "*1\r\n$1\r\na\r\n");
        let mut random = merge(command::Merge::RandomNonNil, 2, &[]);
        random.absorb(0, b"$-1\r\n");
        random.absorb(1, b"$1\r\na\r\n");
        assert_eq!(finish(random), "$1\r\na\r\n");
        let mut and = merge(command::Merge::And, 2, &[]);
        and.absorb(0, b"*2\r\n:1\r\n:1\r\n");
        and.absorb(1, b"*2\r\n:0\r\n:1\r\n");
        assert_eq!(finish(and), "*2\r\n:0\r\n:1\r\n");
        let mut first = merge(command::Merge::FirstReply, 2, &[]);
        first.absorb(0, b"$1\r\na\r\n");
        first.absorb(1, b"$1\r\nb\r\n");
        assert_eq!(finish(first), format!("-{}\r\n", errors::MERGE_FAILED));
    }

    #[test]
    fn one_success_is_enough_where_the_table_says_so() {
        let mut one = merge(command::Merge::OneSucceeded, 2, &[]);
        one.absorb(0, b"-NOTBUSY No scripts in execution right now.\r\n");
        one.absorb(1, b"+OK\r\n");
        assert_eq!(finish(one), "+OK\r\n");
        let mut none = merge(command::Merge::OneSucceeded, 2, &[]);
        none.absorb(1, b"-NOTBUSY second\r\n");
        none.absorb(0, b"-NOTBUSY first\r\n");
        assert_eq!(finish(none), "-NOTBUSY first\r\n");
        let mut least = merge(command::Merge::Least, 2, &[]);
        least.absorb(0, b":7\r\n");
        least.absorb(1, b":5\r\n");
        assert_eq!(finish(least), ":5\r\n");
        let mut any = merge(command::Merge::AnyReply, 2, &[]);
        any.absorb(1, b"+Background saving scheduled\r\n");
        any.absorb(0, b"+Background saving started\r\n");
        assert_eq!(finish(any), "+Background saving started\r\n");
    }
}
