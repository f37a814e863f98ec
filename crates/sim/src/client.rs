//! A simulated client: the replies that it expects, and the check of each reply that arrives.

use crate::keyspace::unix_ms;
use crate::ledger::{JOURNAL, Ledger, Told, text};
use crate::listeners::{INVALIDATIONS, Kind};
use crate::model::Asked;
use crate::program::{Expect, LASTING_KEYS, Program, lasting_key};
use crate::scripts::NO_SCRIPT;
use crate::sessions::{self, CROSS_SLOT, Step, Transaction};
use crate::tenants;
use crate::trackers::{self, Shape};
use proxy::ConnId;
use resp::reply::{self, ReplyLimits, Scanner};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use stdx::Instant;

/// One client.
pub(crate) struct Client {
    pub program: Program,
    pub conn: Option<ConnId>,
    /// CLIENT ID of that connection.
    pub number: u64,
    /// The proxy has closed the connection for a reason of its own, which the client has not seen yet.
    pub is_closed: bool,
    /// Time until which it reads nothing.
    pub reads_at: Instant,
    /// The client knows that the connection ends after the expected replies: it asked for that or got the proxy's last error.
    pub ending: bool,
    /// With the times when it was sent.
    expected: VecDeque<(Expect, Instant)>,
    input: Vec<u8>,
    scanner: Scanner,
    /// Its last WATCH was carried out.
    watches: bool,
    /// So was its last write.
    has_written: bool,
    /// Keys that the SCAN under way has met.
    walked: BTreeSet<Vec<u8>>,
    /// The last reply to a request that expected [`Expect::Kept`].
    pub kept: Vec<u8>,
}

/// Time by which a reply without obstacles arrives, in a fast world.
const LATE_AFTER: Duration = Duration::from_millis(100);

/// When a reply comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub now: Instant,
    /// A fault has happened by now: errors of the contract are allowed.
    pub troubled: bool,
    /// Errors with one of these texts are allowed in any case.
    pub excuses: &'static [&'static str],
    /// Nodes send slowly: a request may be given up behind the replies that come before its own.
    pub is_slow: bool,
}

/// The errors of a request that is given up after all its timeouts, though its node keeps sending. The second is for one on
/// a link that was replaced. The last is about the question that asks for its command.
const GIVEN_UP: [&str; 3] =
    ["node timeout after 10000 ms", "node timeout after 91000 ms", "it did not answer COMMAND INFO"];

impl Moment {
    fn excuses(&self, error: &[u8]) -> bool {
        let error = String::from_utf8_lossy(error);
        self.troubled
            || self.excuses.iter().any(|text| error.contains(text))
            || self.is_slow && GIVEN_UP.iter().any(|text| error.contains(text))
    }
}

/// Counts of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Replies received.
    pub replies: u64,
    /// Of these, errors that say that nothing was sent.
    pub not_sent: u64,
    /// Of these, errors that say that the outcome is unknown.
    pub unknown: u64,
    /// Walks with SCAN that met all they had to.
    pub walks: u64,
    /// Requests for keys that the client may not read.
    pub denied: u64,
}

impl Client {
    pub(crate) fn new(program: Program) -> Client {
        Client {
            program,
            conn: None,
            number: 0,
            is_closed: false,
            reads_at: Instant::ZERO,
            ending: false,
            expected: VecDeque::new(),
            input: Vec::new(),
            scanner: Scanner::default(),
            watches: false,
            has_written: false,
            walked: BTreeSet::new(),
            kept: Vec::new(),
        }
    }

    /// Begins a connection.
    pub(crate) fn arrive(&mut self, conn: ConnId, number: u64) {
        (self.conn, self.number, self.is_closed) = (Some(conn), number, false);
    }

    /// Number of replies that it waits for.
    pub(crate) fn waiting(&self) -> usize {
        self.expected.len()
    }

    /// Whether the next reply is so late at `now` that something delays it. Pushes arrive behind it.
    pub(crate) fn is_held_up(&self, now: Instant) -> bool {
        let is_late = |sent_at: Instant| now.since(sent_at) >= LATE_AFTER;
        !self.is_kept_waiting() && self.expected.front().is_some_and(|(_, sent_at)| is_late(*sent_at))
    }

    /// Whether the next reply ends a wait: for an element, or for replicas.
    pub(crate) fn is_kept_waiting(&self) -> bool {
        matches!(self.expected.front(), Some((Expect::Popped { .. } | Expect::Replicas, _)))
    }

    /// Whether it has sent a write of `key` whose outcome it does not know yet.
    pub(crate) fn is_writing(&self, key: &[u8]) -> bool {
        let is_it = |expect: &Expect| matches!(expect, Expect::Tracking(trackers::Expected::Overwritten(its)) if its == key);
        self.expected.iter().any(|(expect, _)| is_it(expect))
    }

    /// Records the expected reply to the request that was just sent.
    pub(crate) fn expect(&mut self, expect: Expect, now: Instant) {
        if let Expect::Each(all) = expect {
            return all.into_iter().for_each(|expect| self.expect(expect, now));
        }
        self.program.scanning |= matches!(expect, Expect::ScanPage);
        self.expected.push_back((expect, now));
    }

    /// Bytes came.
    pub(crate) fn receive(&mut self, bytes: &[u8], moment: Moment, ledger: &mut Ledger, tally: &mut Tally) {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        loop {
            match self.scanner.scan(&input[at..], &ReplyLimits::default()) {
                Ok(Some(len)) => {
                    let frame = &input[at..at + len];
                    if !ledger.hear(self.program.client, frame) {
                        self.check(frame, moment, ledger, tally);
                    }
                    at += len;
                }
                Ok(None) => break,
                Err(error) => {
                    ledger.violate(format!(
                        "a client got what is no reply ({error}): {:?}",
                        text(&input[at..])
                    ));
                    return;
                }
            }
        }
        self.input = input[at..].to_vec();
    }

    /// Checks one reply against the next expectation.
    fn check(&mut self, reply: &[u8], moment: Moment, ledger: &mut Ledger, tally: &mut Tally) {
        tally.replies += 1;
        let Some((expect, sent_at)) = self.expected.pop_front() else {
            return ledger
                .violate(format!("a client got a reply that it did not ask for: {:?}", text(reply)));
        };
        ledger.asked_at = sent_at;
        let expect = match expect {
            Expect::Guarded(guard) => {
                match ledger.rights.check(self.program.client, &guard, reply, moment.now) {
                    Ok(false) => *guard.expect,
                    Ok(true) => {
                        tally.denied += 1;
                        return self.settle_lost(&guard.expect, Told::NotSent, ledger);
                    }
                    Err(what) => return ledger.violate(what),
                }
            }
            expect => expect,
        };
        let expect = match expect {
            Expect::Scripted(scripted) if reply == NO_SCRIPT => {
                // If the client ends its connection, its last request is behind this one. The proxy then does not retry it.
                let is_fine = moment.troubled
                    || self.ending
                    || scripted.may_be_missed(sent_at, self.program.sent, &ledger.scripts);
                if !is_fine {
                    ledger.violate(format!("a script that was loaded is missed by {scripted:?}"));
                }
                return self.settle_lost(&scripted.expect, Told::NotSent, ledger);
            }
            Expect::Scripted(scripted) => {
                if !reply::is_error(reply) {
                    scripted.note_done(sent_at, ledger);
                }
                *scripted.expect
            }
            expect => expect,
        };
        let told = told(reply);
        match (&expect, told) {
            (Expect::Exactly(expected), _) if expected == reply => {}
            (Expect::Exactly(expected), _) if expected == CROSS_SLOT && reply.starts_with(CROSS_SLOT) => {}
            (Expect::Discarded(transaction, expected), _) if *expected == reply => {
                transaction.told(Told::NotSent, ledger);
            }
            (Expect::Executed(transaction), _)
                if tenants::is_given_up(reply) && ledger.rights.have_changed(self.program.client) =>
            {
                transaction.told(Told::NotSent, ledger);
            }
            (Expect::Executed(transaction), None) if ledger.is_per_shard && reply.starts_with(b"*") => {
                if let Err(what) = self.check_parts_executed(transaction, reply, moment, ledger) {
                    ledger.violate(what);
                }
            }
            // A command behind an error is queued even if it would be refused.
            (Expect::Exactly(expected), None)
                if reply == b"+QUEUED\r\n"
                    && expected == CROSS_SLOT
                    && ledger.rights.have_changed(self.program.client) => {}
            (Expect::OwnError, None) if reply::is_error(reply) => {}
            (Expect::Replicas, None) if moment.troubled && tells_no_number(reply) => {}
            (Expect::Modelled(asked), None) => check_modelled(asked, reply, moment, ledger),
            (Expect::Parts(parts), None) => check_parts(parts, reply, moment, ledger),
            (Expect::Exactly(_) | Expect::Discarded(..) | Expect::Reset, _) | (_, None)
                if !self.fits(&expect, reply, moment.now, ledger, tally) =>
            {
                ledger.violate(format!("{:?} is no reply to {expect:?}", text(reply)));
            }
            (_, Some(_)) if !moment.excuses(reply) => {
                ledger.violate(format!("nothing went wrong, and a client was told {:?}", text(reply)));
            }
            (_, Some(told)) => {
                match told {
                    Told::NotSent => tally.not_sent += 1,
                    _ => tally.unknown += 1,
                }
                self.settle_lost(&expect, told, ledger);
            }
            (_, None) => {}
        }
    }

    /// Whether a reply that is no error of the contract fits, with all its consequences.
    fn fits(
        &mut self,
        expect: &Expect,
        reply: &[u8],
        now: Instant,
        ledger: &mut Ledger,
        tally: &mut Tally,
    ) -> bool {
        match expect {
            Expect::Exactly(_)
            | Expect::OwnError
            | Expect::Modelled(_)
            | Expect::Parts(_)
            | Expect::Discarded(..)
            | Expect::Guarded(_)
            | Expect::Scripted(_)
            | Expect::Each(_) => false,
            Expect::Watched => {
                self.watches = reply == b"+OK\r\n";
                self.watches
            }
            Expect::Executed(transaction) => self.check_executed(transaction, reply, ledger),
            Expect::Pushed { key, element } => {
                ledger.queues.told(key, element, Told::Done);
                reply::as_integer(reply).is_some_and(|len| len > 0)
            }
            Expect::Popped { keys } => match ledger.queues.popped(keys, reply) {
                Ok(()) => true,
                Err(what) => {
                    ledger.violate(what);
                    true
                }
            },
            Expect::Reply(expected) => expected == reply,
            Expect::Replicas => match reply::as_integer(reply) {
                Some(count) if (1..=ledger.replicas() as i64).contains(&count) => {
                    ledger.have_replicas(self.program.client, count as usize);
                    true
                }
                count => count == Some(0),
            },
            Expect::Write(writes) => {
                self.has_written = true;
                let deletes = writes.iter().all(|(_, value)| value.is_none());
                for (key, value) in writes {
                    ledger.told(key, value.as_deref(), Told::Done);
                }
                let count = reply::as_integer(reply);
                if deletes {
                    count.is_some_and(|count| count <= writes.len() as i64)
                } else {
                    reply == b"+OK\r\n"
                }
            }
            Expect::Value { key, own } => check_value(key, *own, reply, ledger),
            Expect::Values { keys, own } => {
                let Some(values) = reply::elements(reply).filter(|values| values.len() == keys.len()) else {
                    return false;
                };
                keys.iter().zip(values).all(|(key, value)| check_value(key, *own, value, ledger))
            }
            Expect::Between(low, high) => {
                reply::as_integer(reply).is_some_and(|count| (*low..=*high).contains(&count))
            }
            Expect::AllKeys => {
                let keys: Option<BTreeSet<&[u8]>> =
                    reply::elements(reply).map(|keys| keys.filter_map(reply::as_bulk).collect());
                keys.is_some_and(|keys| {
                    keys.iter().for_each(|key| ledger.check_name(key));
                    (0..LASTING_KEYS).all(|number| keys.contains(lasting_key(number).as_slice()))
                })
            }
            Expect::SomeKey => {
                let key = reply::as_bulk(reply);
                key.iter().for_each(|key| ledger.check_name(key));
                key.is_some()
            }
            Expect::Report => {
                reply::as_bulk(reply).is_some_and(|report| report.starts_with(b"# Keyspace\r\n"))
            }
            Expect::Greeting { .. } | Expect::Reset | Expect::Radio(_) | Expect::Tracking(_) => {
                self.fits_connection(expect, reply, now, ledger)
            }
            Expect::Kept => {
                self.kept = reply.to_vec();
                true
            }
            Expect::ScanPage => self.walk(reply, ledger, tally),
        }
    }

    /// The same for requests that change the state of the connection.
    fn fits_connection(&mut self, expect: &Expect, reply: &[u8], now: Instant, ledger: &mut Ledger) -> bool {
        let client = self.program.client;
        match expect {
            Expect::Greeting { resp3 } => {
                ledger.radio.speaks(client, *resp3);
                self.lend_ear(ledger);
                let header: &[u8] = if *resp3 { b"%7\r\n" } else { b"*14\r\n" };
                reply.strip_prefix(header).is_some_and(|rest| rest.starts_with(b"$6\r\nserver\r\n"))
            }
            Expect::Reset => {
                ledger.radio.was_reset(client);
                ledger.caches.turn_off(client);
                reply == b"+RESET\r\n"
            }
            Expect::Radio(expected) => {
                match ledger.radio.answered(client, expected, reply, now) {
                    Ok(()) => self.lend_ear(ledger),
                    Err(what) => ledger.violate(what),
                }
                true
            }
            Expect::Tracking(expected) => {
                self.check_read(expected, reply, ledger) && ledger.caches.answered(client, expected, reply)
            }
            _ => false,
        }
    }

    /// Values that the client means to keep.
    fn check_read(&mut self, expected: &trackers::Expected, reply: &[u8], ledger: &mut Ledger) -> bool {
        let trackers::Expected::Read { keys, own, shape, .. } = expected else { return true };
        let values: Vec<&[u8]> = match shape {
            Shape::Array | Shape::Transaction => reply::elements(reply).into_iter().flatten().collect(),
            Shape::One => vec![reply],
        };
        let fits = values.len() == keys.len()
            && keys
                .iter()
                .zip(&values)
                .all(|(key, value)| trackers::is_shared(key) || check_value(key, *own, value, ledger));
        let values: Vec<Option<&[u8]>> = values.into_iter().map(reply::as_bulk).collect();
        ledger.caches.found(self.program.client, expected, &values);
        fits
    }

    /// This client offers to receive invalidations for others, once it is able to.
    fn lend_ear(&self, ledger: &mut Ledger) {
        let client = self.program.client;
        let topic = (Kind::Channel, INVALIDATIONS.to_vec());
        let hears = ledger.radio.is_resp3(client) || ledger.radio.is_subscribed(client, &topic);
        if self.program.is_ear && hears {
            ledger.caches.lend_ear(client, self.number);
        }
    }

    /// Checks the reply of EXEC: all commands ran, or none because a watched key had changed.
    fn check_executed(&mut self, transaction: &Transaction, reply: &[u8], ledger: &mut Ledger) -> bool {
        if transaction.watched && (reply == b"*-1\r\n" || reply == b"_\r\n") {
            transaction.told(Told::NotSent, ledger);
            return true;
        }
        if transaction.changed && self.watches && self.has_written {
            ledger.violate("EXEC ran though a watched key had changed".to_owned());
        }
        let Some(replies) = sessions::replies_of(reply, &transaction.steps) else { return false };
        transaction.steps.iter().zip(replies).all(|(step, reply)| match step {
            Step::Set { .. } | Step::SetAll { .. } => {
                step.told(Told::Done, ledger);
                reply == b"+OK\r\n"
            }
            Step::Get { key } => check_value(key, true, reply, ledger),
            Step::Count => is_count(reply),
        })
    }

    /// Checks the reply of an EXEC over several shards: each part ran, did not run, or has an unknown outcome.
    fn check_parts_executed(
        &mut self,
        transaction: &Transaction,
        reply: &[u8],
        moment: Moment,
        ledger: &mut Ledger,
    ) -> Result<(), String> {
        if transaction.watched && reply == b"*-1\r\n" {
            transaction.told(Told::NotSent, ledger);
            return Ok(());
        }
        let replies =
            sessions::replies_of(reply, &transaction.steps).ok_or("EXEC has another number of replies")?;
        let mut errors = replies.iter().filter(|reply| reply::is_error(reply)).peekable();
        let excuses = |error: &[u8]| moment.excuses(error) || transaction.watched && names_a_change(error);
        if errors.peek().is_some() && !errors.any(|error| excuses(error)) {
            return Err(format!("nothing went wrong, and EXEC says {:?}", text(reply)));
        }
        let fates = transaction.fates(&replies, ledger)?;
        // A part whose connection was lost may or may not have seen the change.
        let has_changed = transaction.changed && self.watches && self.has_written;
        if has_changed && fates.contains(&Told::Done) {
            return Err("EXEC ran though a watched key had changed".to_owned());
        }
        for ((step, reply), fate) in transaction.steps.iter().zip(replies).zip(fates) {
            step.told(fate, ledger);
            let fits = match step {
                _ if fate != Told::Done => true,
                Step::Get { key } => check_value(key, true, reply, ledger),
                Step::Count => is_count(reply),
                Step::Set { .. } | Step::SetAll { .. } => reply == b"+OK\r\n",
            };
            if !fits {
                return Err(format!("{:?} is no reply to {step:?}", text(reply)));
            }
        }
        Ok(())
    }

    /// Adds a page to the walk. At its end all lasting keys must have been returned.
    fn walk(&mut self, reply: &[u8], ledger: &mut Ledger, tally: &mut Tally) -> bool {
        self.program.scanning = false;
        let Some(mut parts) = reply::elements(reply) else { return false };
        let (Some(cursor), Some(page)) = (parts.next().and_then(reply::as_bulk), parts.next()) else {
            return false;
        };
        let Some(keys) = reply::elements(page) else { return false };
        for key in keys.filter_map(reply::as_bulk) {
            ledger.check_name(key);
            self.walked.insert(key.to_vec());
        }
        let Ok(cursor) = String::from_utf8_lossy(cursor).parse::<i64>() else { return false };
        self.program.cursor = cursor as u64;
        if cursor == 0 {
            let missed = (0..LASTING_KEYS).find(|&number| !self.walked.contains(&lasting_key(number)));
            match missed {
                Some(number) => ledger.violate(format!("SCAN missed lasting{number}")),
                None => tally.walks += 1,
            }
            self.walked.clear();
        }
        true
    }

    /// A request got no answer from its node.
    fn settle_lost(&mut self, expect: &Expect, told: Told, ledger: &mut Ledger) {
        match expect {
            Expect::Write(writes) => {
                self.has_written = false;
                for (key, value) in writes {
                    ledger.told(key, value.as_deref(), told);
                }
            }
            Expect::Watched => self.watches = false,
            Expect::Guarded(guard) => self.settle_lost(&guard.expect, told, ledger),
            Expect::Scripted(scripted) => self.settle_lost(&scripted.expect, told, ledger),
            Expect::Executed(transaction) | Expect::Discarded(transaction, _) => {
                transaction.told(told, ledger);
            }
            Expect::Pushed { key, element } => ledger.queues.told(key, element, told),
            Expect::Popped { keys } if told == Told::Unknown => ledger.queues.pop_lost(keys),
            Expect::Radio(expected) if told == Told::NotSent => ledger.radio.not_sent(expected),
            Expect::Tracking(expected) => ledger.caches.lost(self.program.client, expected, told),
            Expect::Modelled(asked) if told == Told::Unknown => ledger.model.lost(asked),
            Expect::Parts(parts) if told == Told::Unknown => {
                parts.iter().for_each(|part| ledger.model.lost(part));
            }
            Expect::ScanPage => {
                // The walk begins anew.
                self.program.scanning = false;
                self.program.cursor = 0;
                self.walked.clear();
            }
            _ => {}
        }
    }

    /// Handles the end of the connection and returns the number of missing replies. The outcome of the first of these requests
    /// is unknown; `behind` is that of the others.
    pub(crate) fn disconnect(&mut self, behind: Told, ledger: &mut Ledger) -> usize {
        let missing = self.expected.len();
        for (number, (expect, _)) in std::mem::take(&mut self.expected).into_iter().enumerate() {
            self.settle_lost(&expect, if number == 0 { Told::Unknown } else { behind }, ledger);
        }
        self.conn = None;
        self.ending = false;
        self.input.clear();
        self.scanner = Scanner::default();
        self.program.cursor = 0;
        self.program.forget_connection();
        self.walked.clear();
        ledger.left(self.program.client);
        missing
    }
}

/// The outcome that an error of the contract states; `None` for any other reply.
fn told(reply: &[u8]) -> Option<Told> {
    let line = String::from_utf8_lossy(reply.strip_prefix(b"-")?).into_owned();
    if line.starts_with("TRYAGAIN shard ") || line.starts_with("EXECABORT Transaction discarded because of") {
        return Some(Told::NotSent);
    }
    let unknown = line.contains("outcome unknown (shard ")
        || line.contains("other parts of this command may have been applied")
        || line.contains("; the new key is written, and the old one may still be there")
        || line.contains(&format!("; the element taken from the source may be in key {JOURNAL}"));
    (line.starts_with("ERR ") && unknown).then_some(Told::Unknown)
}

/// Whether `error` says that a part of a transaction did not run because a watched key had changed. The key changed behind
/// the check, when an earlier part had run.
fn names_a_change(error: &[u8]) -> bool {
    String::from_utf8_lossy(error).contains("a watched key has changed")
}

/// Whether `reply` says why the number of up-to-date replicas is unknown.
fn tells_no_number(reply: &[u8]) -> bool {
    let causes = [
        "LOADING ",
        "ERR a primary, or the connection to it, was lost ",
        "ERR a node cannot tell ",
        "ERR WAIT cannot be used with replica instances",
        // The node has become a replica meanwhile.
        "UNBLOCKED ",
    ];
    reply.strip_prefix(b"-").is_some_and(|line| causes.iter().any(|cause| line.starts_with(cause.as_bytes())))
}

/// A reply that the model knows must be its own.
fn check_modelled(asked: &Asked, reply: &[u8], moment: Moment, ledger: &mut Ledger) {
    if asked.drawn.reads && ledger.reads_anything {
        return;
    }
    if let Err(expected) = ledger.model.answered(asked, reply, unix_ms(moment.now)) {
        let request = asked.words().join(&b' ');
        ledger.violate(format!(
            "{:?} was answered with {:?}, where one Redis would have said {expected:?}",
            text(&request),
            text(reply)
        ));
    }
}

/// The same for a request that was split.
fn check_parts(parts: &[Asked], reply: &[u8], moment: Moment, ledger: &mut Ledger) {
    let now_ms = unix_ms(moment.now);
    if let Some(sum) = reply::as_integer(reply) {
        if ledger.reads_anything && parts.iter().all(|part| part.drawn.reads) {
            return;
        }
        if let Err(expected) = ledger.model.counted(parts, sum, now_ms) {
            ledger.violate(format!("{parts:?} gave {sum}, where one Redis would have said {expected}"));
        }
        return;
    }
    let replies: Vec<Vec<u8>> = match reply::elements(reply) {
        Some(values) => values.map(|value| [b"*1\r\n", value].concat()).collect(),
        None => vec![reply.to_vec(); parts.len()],
    };
    if replies.len() != parts.len() {
        return ledger.violate(format!("{:?} is no reply to {parts:?}", text(reply)));
    }
    for (part, reply) in parts.iter().zip(&replies) {
        check_modelled(part, reply, moment, ledger);
    }
}

/// Whether `reply` is a value that may stand at `key`, or nil.
fn check_value(key: &[u8], own: bool, reply: &[u8], ledger: &mut Ledger) -> bool {
    let value = reply::as_bulk(reply);
    match value {
        None if !reply::is_null(reply) => return false,
        Some(value) => ledger.check_foreign(key, value),
        None => {}
    }
    if own {
        ledger.check_own_read(key, value);
    }
    true
}

/// Whether `reply` is the number of all keys, or an error about a shard that could not be asked.
fn is_count(reply: &[u8]) -> bool {
    reply::as_integer(reply).is_some_and(|count| count >= 0) || told(reply).is_some()
}
