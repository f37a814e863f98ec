//! Counts of a worker for each command and for each kind of error: `commandstats` and `errorstats` of INFO.
//!
//! On the path of a request, counting costs one array access and a few sums. The time comes from instants that the
//! worker knows anyway. A command's time runs from queueing the request for a node to the arrival of the reply. The
//! client waits that long, and the node works for less. A request that shardis answers itself counts as 0.

use crate::errors::Cause;
use crate::latency::{Latency, Time};
use crate::reading::ReadFrom;
use crate::sampling::whole::WholeTimes;
use command::Number;

/// Counts of one command.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Requests that shardis answered or sent to a node.
    pub calls: u64,
    /// Times from queueing to reply; `None` before the first reply.
    pub times: Option<Box<Latency>>,
    /// Whole times of sampled requests; `None` before the first.
    pub whole: Option<Box<WholeTimes>>,
    /// Requests that shardis refused.
    pub rejected: u64,
    /// Requests that ran and got an error as the reply.
    pub failed: u64,
}

/// Results of the decisions of one policy, about reads or parts of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadRow {
    /// Reads that went to a replica.
    pub replica: u64,
    /// Reads that went to the primary, as the policy prefers.
    pub primary: u64,
    /// Reads that went to the primary, because no fit replica was known to have the client's own writes.
    pub own_write: u64,
    /// Reads that were refused or went to the primary, because no replica was fit.
    pub fallback: u64,
}

impl Row {
    /// Sum of the times from queueing to reply, in microseconds.
    pub fn usec(&self) -> u64 {
        self.times.as_ref().map_or(0, |times| times.sum_us())
    }
}

impl ReadRow {
    fn total(&self) -> u64 {
        self.replica + self.primary + self.own_write + self.fallback
    }
}

/// One worker's counts.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Rows by [`Number::index`].
    rows: Vec<Row>,
    /// Rows by [`ReadFrom`].
    reads: [ReadRow; ReadFrom::WORDS.len()],
    /// Counts by the first word of the error.
    errors: Vec<(Box<[u8]>, u64)>,
    /// Counts of errors by [`Cause`].
    causes: [u64; Cause::ALL.len()],
}

/// Kinds of errors that are counted separately. A node (or a script on it) can invent any number of kinds.
const ERROR_KINDS_MAX: usize = 128;
/// The longest first word of an error that counts as its kind.
const ERROR_KIND_BYTES_MAX: usize = 31;

impl Default for Tally {
    fn default() -> Self {
        let reads = Default::default();
        Tally {
            rows: vec![Row::default(); Number::COUNT],
            reads,
            errors: Vec::new(),
            causes: Default::default(),
        }
    }
}

impl Tally {
    /// Counts a request that was read. The other methods count its outcome.
    #[inline]
    pub(crate) fn count_call(&mut self, command: Number) {
        self.count_calls(command, 1);
    }

    /// Counts `count` requests that were read.
    #[inline(always)]
    pub(crate) fn count_calls(&mut self, command: Number, count: u64) {
        self.rows[command.index()].calls += count;
    }

    /// Takes back the count of a request that will be read once more.
    #[cold]
    pub(crate) fn take_back_call(&mut self, command: Number) {
        let row = &mut self.rows[command.index()];
        row.calls = row.calls.saturating_sub(1);
    }

    /// Counts a request that shardis refused with `reply`.
    #[cold]
    pub(crate) fn count_rejected(&mut self, command: Number, reply: &[u8]) {
        let row = &mut self.rows[command.index()];
        row.calls = row.calls.saturating_sub(1);
        row.rejected += 1;
        self.count_error(reply, Cause::Refused);
    }

    /// Counts an error that a client got as the reply.
    #[cold]
    pub(crate) fn count_failed(&mut self, command: Number, reply: &[u8]) {
        self.rows[command.index()].failed += 1;
        self.count_error(reply, Cause::Node);
    }

    /// Counts a reply that came at `now_us` to a request that was queued at `queued_us`: the low bits of the
    /// microseconds.
    #[inline]
    pub(crate) fn count_reply(&mut self, command: Number, queued_us: u32, now_us: u32, reply: &[u8]) {
        self.count_times(command, Time::between(queued_us, now_us), 1);
        if resp::reply::is_error(reply) {
            self.count_failed(command, reply);
        }
    }

    /// Counts `times` replies that came this `time` after their requests were queued.
    #[inline(always)]
    pub(crate) fn count_times(&mut self, command: Number, time: Time, times: u64) {
        match &mut self.rows[command.index()].times {
            Some(latency) => latency.count(time, times),
            none => Tally::count_first(none, time, times),
        }
    }

    /// The whole times of `command`.
    pub(crate) fn whole_times(&mut self, command: Number) -> &mut WholeTimes {
        self.rows[command.index()].whole.get_or_insert_default()
    }

    #[cold]
    fn count_first(latency: &mut Option<Box<Latency>>, time: Time, times: u64) {
        latency.get_or_insert_default().count(time, times);
    }

    /// Counts an error by its kind: the first word, or `ERR`, as in Redis. Its cause is `otherwise` if its text is not
    /// one of shardis about a lost request.
    fn count_error(&mut self, reply: &[u8], otherwise: Cause) {
        self.causes[Cause::of(reply).unwrap_or(otherwise) as usize] += 1;
        let line = reply.strip_prefix(b"-").unwrap_or_default();
        let end = line.iter().take(ERROR_KIND_BYTES_MAX).position(|&byte| byte == b' ');
        let kind = end.map_or(&b"ERR"[..], |end| &line[..end]);
        let kinds = self.errors.len();
        match self.errors.iter_mut().find(|(known, _)| **known == *kind) {
            Some((_, count)) => *count += 1,
            None if kinds < ERROR_KINDS_MAX => self.errors.push((kind.into(), 1)),
            None => {}
        }
    }

    /// The counts of reads with the policy `from`.
    pub(crate) fn reads_from(&mut self, from: ReadFrom) -> &mut ReadRow {
        &mut self.reads[from as usize]
    }

    /// Sets all counts to zero.
    pub(crate) fn clear(&mut self) {
        *self = Tally::default();
    }

    /// Replaces all counts by those of `other`.
    pub(crate) fn copy_from(&mut self, other: &Tally) {
        self.rows.clone_from(&other.rows);
        self.reads = other.reads;
        self.causes = other.causes;
        self.errors.clone_from(&other.errors);
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Tally) {
        for (sum, row) in self.rows.iter_mut().zip(&other.rows) {
            sum.calls += row.calls;
            if let Some(times) = &row.times {
                sum.times.get_or_insert_default().add(times);
            }
            if let Some(whole) = &row.whole {
                sum.whole.get_or_insert_default().add(whole);
            }
            sum.rejected += row.rejected;
            sum.failed += row.failed;
        }
        for (sum, count) in self.causes.iter_mut().zip(other.causes) {
            *sum += count;
        }
        for (sum, row) in self.reads.iter_mut().zip(other.reads) {
            sum.replica += row.replica;
            sum.primary += row.primary;
            sum.own_write += row.own_write;
            sum.fallback += row.fallback;
        }
        for (kind, count) in &other.errors {
            match self.errors.iter_mut().find(|(known, _)| known == kind) {
                Some((_, sum)) => *sum += count,
                None => self.errors.push((kind.clone(), *count)),
            }
        }
    }

    /// The commands with requests, by name, in the order of the table.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &Row)> {
        Number::named()
            .map(|(number, name)| (name, &self.rows[number.index()]))
            .filter(|(_, row)| row.calls + row.rejected > 0)
    }

    /// The counts of errors that clients got, by their causes.
    pub fn causes(&self) -> impl Iterator<Item = (Cause, u64)> {
        Cause::ALL.into_iter().zip(self.causes)
    }

    /// The counts of reads, by the policies that decided over any.
    pub fn reads(&self) -> impl Iterator<Item = (&'static str, &ReadRow)> {
        let all = ReadFrom::WORDS.iter().map(|(word, from)| (*word, &self.reads[*from as usize]));
        all.filter(|(_, row)| row.total() > 0)
    }

    /// The kinds of errors in alphabetical order.
    pub fn errors(&self) -> Vec<(&[u8], u64)> {
        let mut errors: Vec<_> = self.errors.iter().map(|(kind, count)| (&**kind, *count)).collect();
        errors.sort();
        errors
    }

    /// Replies that were errors.
    pub fn errors_total(&self) -> u64 {
        self.errors.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::engine::low_us;
    use stdx::Instant;

    #[test]
    fn errors_are_counted_by_their_first_word_as_redis_does() {
        let mut tally = Tally::default();
        for reply in
            ["-ERR x", "-WRONGTYPE Operation", "-nospace\r\n", "-ERR y", &format!("-{} x", "A".repeat(99))]
        {
            tally.count_error(reply.as_bytes(), Cause::Node);
        }
        assert_eq!(tally.errors(), [(&b"ERR"[..], 4), (b"WRONGTYPE", 1)]);
        (0..1000).for_each(|kind| tally.count_error(format!("-K{kind} x").as_bytes(), Cause::Node));
        assert_eq!(tally.errors().len(), ERROR_KINDS_MAX);
    }

    #[test]
    fn errors_are_counted_by_their_cause() {
        let mut tally = Tally::default();
        tally.count_rejected(Number::LEARNED, b"-CROSSSLOT Keys");
        tally.count_failed(Number::LEARNED, b"-WRONGTYPE Operation");
        tally.count_failed(Number::LEARNED, b"-TRYAGAIN shard a unavailable: connection refused");
        let mut sum = Tally::default();
        sum.add(&tally);
        let causes: Vec<_> = sum.causes().filter(|(_, count)| *count > 0).collect();
        assert_eq!(causes, [(Cause::NotSent, 1), (Cause::Refused, 1), (Cause::Node, 1)]);
    }

    #[test]
    fn the_time_of_a_reply_survives_that_its_clock_wraps() {
        let mut tally = Tally::default();
        let queued_at = Instant::from_nanos((u64::from(u32::MAX) - 4) * 1000);
        let now = Instant::from_nanos((u64::from(u32::MAX) + 6) * 1000);
        tally.count_call(Number::LEARNED);
        tally.count_reply(Number::LEARNED, low_us(queued_at), low_us(now), b"+OK\r\n");
        let rows: Vec<_> = tally.commands().map(|(name, row)| (name, row.calls, row.usec())).collect();
        assert_eq!(rows, [("other", 1, 10)]);
    }
}
