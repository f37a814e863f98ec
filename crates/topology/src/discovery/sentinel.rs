//! Discovery of primaries by sentinels: each sentinel is asked over a lasting connection, and sends events over
//! another.
//!
//! ```text
//!   period, with jitter ──────────────┐
//!   a message about one of our names ─┼─► ask each sentinel ─► claims ─► each name decides (sentinel_shard.rs) ─► ROLE ─► a view
//!   a worker: down, READONLY ─────────┘          └─► other sentinels than those that were named: they are asked too
//! ```
//!
//! The newest claim is that with the highest config epoch. A sentinel gets one only if a majority votes for it, or if an
//! operator orders a failover. So one sentinel that knows it is enough, and others that do not know it revert nothing.
//!
//! Once a newer claim names another node, the old one gets no writes any more. That holds even if the new one does not answer
//! yet: writes that the old one acknowledged would be lost.
//!
//! Sentinels that were not configured count like others, once their run ids agree with those that the configured ones announce.
//! A majority means one of the configured sentinels: the operator knows their number.

use super::cluster_answer::text;
use super::findings::Findings;
use super::schedule::{Rest, Schedule};
use super::sentinel_answer::{
    Claim, Fellow, NoClaim, QUESTIONS, Role, is_about, is_subscribed, parse, parse_fellows, parse_role,
};
use super::sentinel_shard::{Said, Shard, Votes};
use super::talk::{Greetings, Heard, Talks, error_text};
use super::{Event, News, PATIENCE, Party, View, Wish};
use crate::{Address, ShardSpec};
use resp::encode;
use resp::reply::is_error;
use std::time::Duration;
use stdx::prng::Prng;
use stdx::{Id, Instant};

/// Settings of the discovery.
#[derive(Clone)]
pub struct SentinelSettings {
    /// All sentinels.
    pub sentinels: Vec<Address>,
    /// The names of the shards, in their order.
    pub names: Vec<String>,
    /// Approximate pause between two questions to a sentinel when nothing happens.
    pub period: Duration,
    /// Bytes that sentinels get first, if any: AUTH.
    pub sentinel_greeting: Option<Vec<u8>>,
    /// Bytes that nodes get first.
    pub node_greeting: Option<Vec<u8>>,
    /// For jitter.
    pub seed: u64,
}

/// The discovery of primaries by sentinels.
#[derive(Debug)]
pub struct SentinelDiscovery {
    names: Vec<String>,
    /// First the configured sentinels, then the discovered ones.
    sentinels: Vec<Sentinel>,
    /// By name.
    shards: Vec<Shard>,
    period: Duration,
    start: Start,
    pub(super) talks: Talks,
    pub(super) findings: Findings,
    prng: Prng,
}

/// The start, in which the first claims wait for those of other sentinels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// No sentinel was asked yet.
    Unasked,
    /// A first claim without a majority waits until then, as long as other sentinels may answer.
    Waiting(Instant),
    Over,
}

/// The longest time for which a first claim waits. Sentinels answer within milliseconds. A sentinel that is slower delays no
/// start for longer.
const START_PATIENCE: Duration = Duration::from_millis(300);

/// One sentinel.
#[derive(Debug)]
struct Sentinel {
    address: Address,
    /// Its run id by other sentinels, if it was discovered: it does not count before it has reported this id.
    told_id: Option<String>,
    /// Its run id by itself, since Redis 6.2.
    id: Option<String>,
    /// The connection for questions.
    line: Option<Id>,
    /// Replies to the questions so far; `None` without open questions.
    replies: Option<Vec<Vec<u8>>>,
    schedule: Schedule,
    /// The connection for messages.
    feed: Option<Id>,
    feed_at: Instant,
    /// Set if a PING was sent over it, and nothing has come since.
    is_pinged: bool,
    /// Its last claims, by name.
    claims: Vec<Option<Claim>>,
    /// The others that it told of last.
    fellows: Vec<Fellow>,
}

/// Shortest time between two attempts to connect to a feed.
const FEED_PAUSE: Duration = Duration::from_millis(500);
/// Sentinels are silent while all is well. One that does not answer a PING within this time is gone.
const FEED_SILENCE: Duration = Duration::from_secs(5);
/// The most sentinels that are asked though they are not configured. Nobody runs more than a handful, and each costs two
/// connections.
const FOUND_MAX: usize = 16;

impl SentinelDiscovery {
    /// Begins to ask as soon as it receives the time.
    pub fn new(settings: SentinelSettings) -> SentinelDiscovery {
        let count = settings.names.len();
        let sentinel = |address| Sentinel::new(address, None, count);
        SentinelDiscovery {
            sentinels: settings.sentinels.into_iter().map(sentinel).collect(),
            shards: settings.names.iter().map(|_| Shard::default()).collect(),
            names: settings.names,
            period: settings.period,
            start: Start::Unasked,
            talks: Talks::new(Greetings {
                node: settings.node_greeting,
                sentinel: settings.sentinel_greeting,
            }),
            findings: Findings::default(),
            prng: Prng::new(settings.seed),
        }
    }

    /// See [`super::Discovery::handle_wish`].
    pub fn handle_wish(&mut self, wish: Wish, now: Instant) {
        match wish {
            Wish::Redirected(_) => self.ask_all_soon(),
            Wish::Look => {
                self.ask_all_soon();
                self.shards.iter_mut().for_each(|shard| shard.try_out(&mut self.talks, now));
            }
            Wish::Down(address) => {
                if let Some(shard) = self.shards.iter_mut().find(|shard| shard.is_led_by(&address)) {
                    // The node may be up, and refuse us because it is no primary any more.
                    shard.note_down(&mut self.talks, now);
                    self.ask_all_soon();
                }
            }
            Wish::Up(address) => self.shards.iter_mut().for_each(|shard| shard.note_up(&address)),
        }
    }

    fn ask_all_soon(&mut self) {
        self.sentinels.iter_mut().for_each(|sentinel| sentinel.schedule.wish());
    }

    /// See [`super::Discovery::handle_time`].
    pub fn handle_time(&mut self, now: Instant) {
        while let Some(conn) = self.talks.expire(now) {
            self.lose(conn, "no answer in time", now);
        }
        for index in 0..self.sentinels.len() {
            if self.sentinels[index].question_at() <= now {
                self.ask(index, now);
            }
            if self.sentinels[index].feed_due() <= now {
                self.tend_feed(index, now);
            }
        }
        match self.start {
            Start::Unasked => self.start = Start::Waiting(now + START_PATIENCE),
            Start::Waiting(until) if until <= now => {
                self.start = Start::Over;
                self.decide(now);
            }
            Start::Waiting(_) | Start::Over => {}
        }
        if self.shards.iter().any(|shard| shard.due() <= now) {
            self.tend_shards(now);
        }
    }

    /// Asks nodes, and acts on the time alone.
    fn tend_shards(&mut self, now: Instant) {
        let due = self.shards.iter_mut().filter(|shard| shard.due() <= now);
        due.for_each(|shard| shard.handle_time(&mut self.talks, now));
        self.tell();
    }

    /// See [`super::Discovery::poll_deadline`].
    pub fn poll_deadline(&self) -> Instant {
        let sentinels =
            self.sentinels.iter().flat_map(|sentinel| [sentinel.question_at(), sentinel.feed_due()]);
        let due = sentinels.chain(self.shards.iter().map(Shard::due)).min();
        let start = if let Start::Waiting(until) = self.start { until } else { Instant::NEVER };
        due.unwrap_or(Instant::NEVER).min(self.talks.deadline()).min(start)
    }

    /// Asks a sentinel about all names.
    fn ask(&mut self, index: usize, now: Instant) {
        let mut request = Vec::new();
        for name in &self.names {
            for question in QUESTIONS {
                encode::request(&mut request, &[b"SENTINEL", question.as_bytes(), name.as_bytes()]);
            }
        }
        encode::request(&mut request, &[b"SENTINEL", b"MYID"]);
        let sentinel = &mut self.sentinels[index];
        sentinel.schedule.begin(now);
        sentinel.replies = Some(Vec::new());
        match sentinel.line {
            Some(line) => self.talks.say(line, &request, now + PATIENCE),
            None => {
                let line = self.talks.open(&sentinel.address, Party::Sentinel, &request, now + PATIENCE);
                sentinel.line = Some(line);
            }
        }
    }

    /// Makes the connection for messages, or checks whether it is alive.
    fn tend_feed(&mut self, index: usize, now: Instant) {
        let sentinel = &mut self.sentinels[index];
        sentinel.feed_at = now;
        let mut request = Vec::new();
        match sentinel.feed {
            None => {
                // The set of events and their names change between versions: all events that name one of ours count.
                encode::request(&mut request, &[b"PSUBSCRIBE", b"*"]);
                let feed = self.talks.open(&sentinel.address, Party::Sentinel, &request, now + PATIENCE);
                sentinel.feed = Some(feed);
            }
            Some(feed) => {
                encode::request(&mut request, &[b"PING"]);
                sentinel.is_pinged = true;
                self.talks.say(feed, &request, now + PATIENCE);
            }
        }
    }

    /// See [`super::Discovery::handle_event`].
    pub fn handle_event(&mut self, event: Event<'_>, now: Instant) {
        let (conn, heard) = self.talks.handle(event);
        for heard in heard {
            match heard {
                Heard::Reply(reply) => self.take(conn, reply, now),
                Heard::Lost(reason) => self.lose(conn, &reason, now),
            }
        }
    }

    fn take(&mut self, conn: Id, reply: Vec<u8>, now: Instant) {
        if let Some(index) = self.sentinels.iter().position(|sentinel| sentinel.line == Some(conn)) {
            self.take_answer(index, reply, now);
        } else if let Some(index) = self.sentinels.iter().position(|sentinel| sentinel.feed == Some(conn)) {
            self.take_message(index, &reply, now);
        } else {
            self.talks.close(conn);
            self.judge(conn, parse_role(&reply), now);
        }
    }

    /// A reply to one of the questions; with the last, the answer is whole.
    fn take_answer(&mut self, index: usize, reply: Vec<u8>, now: Instant) {
        let wanted = self.names.len() * QUESTIONS.len() + 1;
        let sentinel = &mut self.sentinels[index];
        let Some(replies) = &mut sentinel.replies else { return };
        replies.push(reply);
        if replies.len() < wanted {
            return;
        }
        let mut replies = sentinel.replies.take().unwrap_or_default();
        sentinel.id = replies.pop().and_then(|id| text(&id));
        if let Some(line) = sentinel.line {
            self.talks.set_deadline(line, Instant::NEVER);
        }
        if !self.sentinels[index].is_itself() {
            return self.refuse(index);
        }
        self.take_claims(index, &replies);
        self.findings.count_answer(now);
        self.decide(now);
        self.rest(index, now);
        self.meet_fellows();
    }

    /// Handles the claim of a sentinel.
    fn take_claims(&mut self, index: usize, replies: &[Vec<u8>]) {
        let answers = replies.chunks(QUESTIONS.len());
        let fellows =
            answers.clone().filter_map(|answer| answer.last()).flat_map(|reply| parse_fellows(reply));
        self.sentinels[index].fellows = fellows.collect();
        let address = self.sentinels[index].address.clone();
        let mut is_fine = true;
        for (name, claim) in answers.map(parse).enumerate() {
            let complaint = match &claim {
                Ok(_) => None,
                Err(NoClaim::UnknownName) => {
                    Some(News::UnknownName { address: address.clone(), name: self.names[name].clone() })
                }
                Err(NoClaim::NoSentinel) => Some(News::NoSentinel { address: address.clone() }),
                Err(NoClaim::Reason(reason)) => {
                    Some(News::NoAnswer { address: address.clone(), reason: reason.clone() })
                }
            };
            self.sentinels[index].claims[name] = claim.ok();
            if let Some(complaint) = complaint {
                is_fine = false;
                self.findings.complain(&address, complaint);
            }
        }
        if is_fine {
            self.findings.forgive(&address);
        }
    }

    /// Refuses a sentinel that is not the one discovered at this address.
    fn refuse(&mut self, index: usize) {
        self.findings.count_refusal();
        let sentinel = &mut self.sentinels[index];
        sentinel.claims.fill(None);
        sentinel.schedule.rest(Rest::Usual(self.period), &mut self.prng);
        let reason = "another sentinel answers at the address of a discovered one".to_owned();
        let address = sentinel.address.clone();
        self.findings.complain(&address, News::NoAnswer { address: address.clone(), reason });
    }

    /// Decides each name by the present claims of sentinels.
    fn decide(&mut self, now: Instant) {
        let votes = (0..self.sentinels.len()).filter(|index| has_vote(&self.sentinels, *index)).count();
        for (name, shard) in self.shards.iter_mut().enumerate() {
            let said = self.sentinels.iter().enumerate().filter_map(|(index, sentinel)| {
                let claim = sentinel.claims[name].as_ref()?;
                Some(Said { by: &sentinel.address, claim, has_vote: has_vote(&self.sentinels, index) })
            });
            let said: Vec<Said<'_>> = said.collect();
            let is_open = |sentinel: &Sentinel| sentinel.replies.is_some() && sentinel.claims[name].is_none();
            let waits = matches!(self.start, Start::Waiting(_)) && self.sentinels.iter().any(is_open);
            let votes = Votes { all: votes, are_open: waits };
            shard.decide(&said, votes, &mut self.talks, now);
        }
        self.tend_shards(now);
    }

    /// Asks also the sentinels that configured ones report, and none that they do not report any more. The last claim of a
    /// silent sentinel still counts for this.
    fn meet_fellows(&mut self) {
        let is_named = |fellow: &Fellow| {
            let mut named = self.sentinels.iter().filter(|sentinel| sentinel.is_named());
            named.any(|sentinel| {
                sentinel.id.as_ref() == Some(&fellow.id)
                    || sentinel.address.canonical() == fellow.address.canonical()
            })
        };
        // Before Redis 6.2 a sentinel that was configured by a host name looks like one that was found.
        let tellers = self.sentinels.iter().filter(|sentinel| sentinel.is_named() && sentinel.id.is_some());
        let mut fellows: Vec<Fellow> = tellers
            .flat_map(|sentinel| &sentinel.fellows)
            .filter(|fellow| !is_named(fellow))
            .cloned()
            .collect();
        fellows.sort_by_cached_key(|fellow| (fellow.id.clone(), fellow.address.to_string()));
        fellows.dedup_by(|one, other| one.id == other.id);
        fellows.truncate(FOUND_MAX);
        for sentinel in self.sentinels.iter().filter(|sentinel| !sentinel.is_among(&fellows)) {
            [sentinel.line, sentinel.feed].into_iter().flatten().for_each(|conn| self.talks.close(conn));
        }
        self.sentinels.retain(|sentinel| sentinel.is_among(&fellows));
        for fellow in fellows {
            if !self.sentinels.iter().any(|sentinel| sentinel.is(&fellow)) {
                self.sentinels.push(Sentinel::new(fellow.address, Some(fellow.id), self.names.len()));
            }
        }
    }

    /// Handles the answer on `conn` whether a node is a primary.
    fn judge(&mut self, conn: Id, role: Role, now: Instant) {
        let Some(name) = self.shards.iter().position(|shard| shard.asks_on(conn)) else { return };
        if let Some((address, reason)) = self.shards[name].judge(conn, role, &mut self.prng, now) {
            self.findings.count_failure();
            let name = self.names[name].clone();
            self.findings.complain(&address, News::NotPrimary { name, address: address.clone(), reason });
        }
        self.tell();
    }

    /// Publishes the current view, if it differs from the last one.
    fn tell(&mut self) {
        let shards: Vec<ShardSpec> =
            self.names.iter().zip(&self.shards).map(|(name, shard)| shard.spec(name)).collect();
        let epoch = self.shards.iter().map(Shard::epoch).max().unwrap_or_default();
        let has_said = |sentinel: &&Sentinel| sentinel.claims.iter().any(Option::is_some);
        if let Some(by) = self.sentinels.iter().find(has_said).or(self.sentinels.first()) {
            self.findings.tell(View { epoch, shards }, &by.address);
        }
    }

    /// Handles a message: if it names one of ours, that sentinel is asked. The message itself is not believed.
    fn take_message(&mut self, index: usize, reply: &[u8], now: Instant) {
        let sentinel = &mut self.sentinels[index];
        sentinel.feed_at = now;
        sentinel.is_pinged = false;
        let feed = sentinel.feed;
        if is_error(reply) {
            let (address, reason) = (sentinel.address.clone(), error_text(reply));
            sentinel.feed = None;
            feed.into_iter().for_each(|feed| self.talks.close(feed));
            return self.findings.complain(&address, News::NoAnswer { address: address.clone(), reason });
        }
        feed.into_iter().for_each(|feed| self.talks.set_deadline(feed, Instant::NEVER));
        // Events from before the subscription may be news as well.
        if is_about(reply, &self.names) || is_subscribed(reply) {
            self.sentinels[index].schedule.wish();
        }
    }

    /// A connection is gone.
    fn lose(&mut self, conn: Id, reason: &str, now: Instant) {
        if let Some(sentinel) = self.sentinels.iter_mut().find(|sentinel| sentinel.feed == Some(conn)) {
            sentinel.feed = None;
            sentinel.feed_at = now;
            sentinel.is_pinged = false;
            // A question makes up for its missed events.
            sentinel.schedule.wish();
            return;
        }
        let Some(index) = self.sentinels.iter().position(|sentinel| sentinel.line == Some(conn)) else {
            return self.judge(conn, Role::Unsaid(reason.to_owned()), now);
        };
        let sentinel = &mut self.sentinels[index];
        sentinel.line = None;
        sentinel.claims.fill(None);
        if sentinel.replies.take().is_some() {
            sentinel.schedule.rest(Rest::Long, &mut self.prng);
            let address = sentinel.address.clone();
            self.findings.count_failure();
            let reason = reason.to_owned();
            self.findings.complain(&address, News::NoAnswer { address: address.clone(), reason });
        } else {
            // This is no failure: a sentinel that starts anew ends idle connections.
            sentinel.schedule.wish();
        }
        self.decide(now);
    }

    /// Decides the pause after a sentinel's answer.
    fn rest(&mut self, index: usize, now: Instant) {
        let since = self.shards.iter().filter_map(Shard::trouble).min();
        let rest = Rest::in_trouble(since, now).unwrap_or(Rest::Usual(self.period));
        self.sentinels[index].schedule.rest(rest, &mut self.prng);
    }
}

impl Sentinel {
    /// A sentinel that was configured, or found as `told_id`, and was not asked yet about any of `count` names.
    fn new(address: Address, told_id: Option<String>, count: usize) -> Sentinel {
        Sentinel {
            address,
            told_id,
            id: None,
            line: None,
            replies: None,
            schedule: Schedule::default(),
            feed: None,
            feed_at: Instant::ZERO,
            is_pinged: false,
            claims: vec![None; count],
            fellows: Vec::new(),
        }
    }

    fn is_named(&self) -> bool {
        self.told_id.is_none()
    }

    /// Whether it counts: a stranger may have taken the address of one that was found.
    fn is_itself(&self) -> bool {
        self.is_named() || self.id == self.told_id
    }

    /// Whether it was named, or is one of `fellows`.
    fn is_among(&self, fellows: &[Fellow]) -> bool {
        self.is_named() || fellows.iter().any(|fellow| self.is(fellow))
    }

    /// Whether it was found as `fellow`.
    fn is(&self, fellow: &Fellow) -> bool {
        self.told_id.as_ref() == Some(&fellow.id) && self.address == fellow.address
    }

    /// Time of its next question.
    fn question_at(&self) -> Instant {
        if self.replies.is_some() { Instant::NEVER } else { self.schedule.due() }
    }

    /// When something is to be done for its messages.
    fn feed_due(&self) -> Instant {
        match self.feed {
            None if self.feed_at == Instant::ZERO => Instant::ZERO,
            None => self.feed_at + FEED_PAUSE,
            Some(_) if self.is_pinged => Instant::NEVER,
            Some(_) => self.feed_at + FEED_SILENCE,
        }
    }
}

/// Whether the sentinel at `index` counts for a majority: it was configured, and not under another address before.
fn has_vote(sentinels: &[Sentinel], index: usize) -> bool {
    let sentinel = &sentinels[index];
    let is_again = |other: &Sentinel| other.id.is_some() && other.id == sentinel.id;
    sentinel.is_named() && !sentinels[..index].iter().any(is_again)
}
