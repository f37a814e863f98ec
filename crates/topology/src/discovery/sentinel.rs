//! Who the primaries of some names are, as sentinels say: each is asked over a connection that stays, and tells over another
//! what happens.
//!
//! ```text
//!   period, with jitter ──────────────┐
//!   a message about one of our names ─┼─► ask each sentinel ─► which claim is the newest? ─► another primary than before?
//!   a worker: down, READONLY ─────────┘                                                         │
//!                              a view with it ◄── ROLE: is it one? ◄── nobody is, meanwhile ◄───┘
//! ```
//!
//! The newest claim is that with the highest config epoch: a sentinel gets one only if a majority votes for it, or if an
//! operator orders a failover. So one sentinel that has heard of it is enough, and others, who have not, take nothing back.
//! From the moment at which a newer claim names another node, the old one is not written to any more, also if the new one
//! does not answer yet: what it acknowledged would be lost.

use super::sentinel_answer::{Claim, NoClaim, QUESTIONS, is_about, is_primary, parse};
use super::talk::{Greetings, Heard, Talks, error_text};
use super::{Action, Event, News, Party, Tally, View, Wish, changes};
use super::{LASTING_PAUSE, PATIENCE, URGENT_FOR, URGENT_PAUSE, WISH_PAUSE};
use crate::{Address, NodeSpec, ShardSpec};
use resp::encode;
use resp::reply::is_error;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use stdx::prng::Prng;
use stdx::{Id, Instant};

/// What is to be discovered.
#[derive(Clone)]
pub struct SentinelSettings {
    /// All sentinels.
    pub sentinels: Vec<Address>,
    /// The names of the shards, in their order.
    pub names: Vec<String>,
    /// How long a sentinel is not asked when nothing happens, about.
    pub period: Duration,
    /// What sentinels are told first, if anything: AUTH.
    pub sentinel_greeting: Option<Vec<u8>>,
    /// What nodes are told first.
    pub node_greeting: Option<Vec<u8>>,
    /// For jitter.
    pub seed: u64,
}

/// The discovery of primaries by sentinels.
#[derive(Debug)]
pub struct SentinelDiscovery {
    names: Vec<String>,
    sentinels: Vec<Sentinel>,
    shards: Vec<Shard>,
    period: Duration,
    talks: Talks,
    prng: Prng,
    /// What was given out last; nothing before the first primary is known.
    told: Vec<ShardSpec>,
    view: Option<View>,
    complaints: HashMap<Address, News>,
    news: VecDeque<News>,
    tally: Tally,
}

/// One sentinel.
#[derive(Debug)]
struct Sentinel {
    address: Address,
    /// The connection for questions.
    line: Option<Id>,
    /// Replies to questions that were asked; `None` if none are on their way.
    replies: Option<Vec<Vec<u8>>>,
    asked_at: Instant,
    pause: Duration,
    is_wished: bool,
    /// The connection for messages.
    feed: Option<Id>,
    feed_at: Instant,
    /// A PING was sent over it, and nothing has come since.
    is_pinged: bool,
    /// What it said last, by name.
    claims: Vec<Option<Claim>>,
}

/// One name.
#[derive(Debug, Default)]
struct Shard {
    /// The newest claim that was believed, whatever the node said.
    claim: Option<Claim>,
    /// The claim's node said that it is a primary.
    is_confirmed: bool,
    /// It is being asked.
    trial: Option<Id>,
    trial_at: Instant,
    /// The primary cannot be used, as workers say, or as it says itself; since when.
    trouble: Option<Instant>,
}

/// Connections that are made anew, at least so long after the last time.
const FEED_PAUSE: Duration = Duration::from_millis(500);
/// Sentinels are silent as long as all is well. One that does not answer a PING after this is not there any more.
const FEED_SILENCE: Duration = Duration::from_secs(5);

impl SentinelDiscovery {
    /// Begins to look as soon as it is told the time.
    pub fn new(settings: SentinelSettings) -> SentinelDiscovery {
        let count = settings.names.len();
        let sentinel = |address| Sentinel {
            address,
            line: None,
            replies: None,
            asked_at: Instant::ZERO,
            pause: Duration::ZERO,
            is_wished: false,
            feed: None,
            feed_at: Instant::ZERO,
            is_pinged: false,
            claims: vec![None; count],
        };
        SentinelDiscovery {
            sentinels: settings.sentinels.into_iter().map(sentinel).collect(),
            shards: settings.names.iter().map(|_| Shard::default()).collect(),
            names: settings.names,
            period: settings.period,
            talks: Talks::new(Greetings {
                node: settings.node_greeting,
                sentinel: settings.sentinel_greeting,
            }),
            prng: Prng::new(settings.seed),
            told: Vec::new(),
            view: None,
            complaints: HashMap::new(),
            news: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// See [`super::Discovery::handle_wish`].
    pub fn handle_wish(&mut self, wish: Wish, now: Instant) {
        let shard_of = |shards: &mut Vec<Shard>, address: &Address| {
            shards
                .iter()
                .position(|shard| shard.claim.as_ref().is_some_and(|claim| claim.address == *address))
        };
        match wish {
            Wish::Redirected(_) => self.ask_all_soon(),
            Wish::Look => {
                self.ask_all_soon();
                self.try_all_out(now);
            }
            Wish::Down(address) => {
                if let Some(index) = shard_of(&mut self.shards, &address) {
                    self.shards[index].trouble.get_or_insert(now);
                    self.ask_all_soon();
                }
            }
            Wish::Up(address) => {
                if let Some(index) = shard_of(&mut self.shards, &address)
                    && self.shards[index].is_confirmed
                {
                    self.shards[index].trouble = None;
                }
            }
        }
    }

    /// Asks all primaries whether they still are, but none twice within a moment.
    fn try_all_out(&mut self, now: Instant) {
        for index in 0..self.shards.len() {
            let shard = &self.shards[index];
            if shard.trial.is_none() && shard.trial_at + LASTING_PAUSE <= now {
                self.try_out(index, now);
            }
        }
    }

    fn ask_all_soon(&mut self) {
        self.sentinels.iter_mut().for_each(|sentinel| sentinel.is_wished = true);
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
        for index in 0..self.shards.len() {
            if self.shards[index].trial_due() <= now {
                self.try_out(index, now);
            }
        }
    }

    /// See [`super::Discovery::poll_deadline`].
    pub fn poll_deadline(&self) -> Instant {
        let sentinels =
            self.sentinels.iter().flat_map(|sentinel| [sentinel.question_at(), sentinel.feed_due()]);
        let due = sentinels.chain(self.shards.iter().map(Shard::trial_due)).min();
        due.unwrap_or(Instant::NEVER).min(self.talks.deadline())
    }

    /// See [`super::Discovery::poll_action`].
    pub fn poll_action(&mut self) -> Option<Action> {
        self.talks.poll_action()
    }

    /// See [`super::Discovery::poll_view`].
    pub fn poll_view(&mut self) -> Option<View> {
        self.view.take()
    }

    /// See [`super::Discovery::poll_news`].
    pub fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// See [`super::Discovery::tally`].
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Asks a sentinel about all names.
    fn ask(&mut self, index: usize, now: Instant) {
        let mut request = Vec::new();
        for name in &self.names {
            for question in QUESTIONS {
                encode::request(&mut request, &[b"SENTINEL", question.as_bytes(), name.as_bytes()]);
            }
        }
        let sentinel = &mut self.sentinels[index];
        sentinel.is_wished = false;
        sentinel.asked_at = now;
        sentinel.replies = Some(Vec::new());
        match sentinel.line {
            Some(line) => self.talks.say(line, &request, now + PATIENCE),
            None => {
                let line = self.talks.open(&sentinel.address, Party::Sentinel, &request, now + PATIENCE);
                sentinel.line = Some(line);
            }
        }
    }

    /// Makes the connection for messages, or sees whether it is alive.
    fn tend_feed(&mut self, index: usize, now: Instant) {
        let sentinel = &mut self.sentinels[index];
        sentinel.feed_at = now;
        let mut request = Vec::new();
        match sentinel.feed {
            None => {
                // Which events there are, and what they are called, changes: all that name one of ours count.
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

    /// Asks the node that is said to be a primary whether it is one.
    fn try_out(&mut self, index: usize, now: Instant) {
        let shard = &mut self.shards[index];
        let Some(claim) = &shard.claim else { return };
        let mut request = Vec::new();
        encode::request(&mut request, &[b"ROLE"]);
        shard.trial_at = now;
        shard.trial = Some(self.talks.open(&claim.address, Party::Node, &request, now + PATIENCE));
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
        } else if let Some(index) = self.shards.iter().position(|shard| shard.trial == Some(conn)) {
            self.talks.close(conn);
            self.judge(index, is_primary(&reply), !is_error(&reply), now);
        }
    }

    /// A reply to one of the questions; with the last, the answer is whole.
    fn take_answer(&mut self, index: usize, reply: Vec<u8>, now: Instant) {
        let wanted = self.names.len() * QUESTIONS.len();
        let sentinel = &mut self.sentinels[index];
        let Some(replies) = &mut sentinel.replies else { return };
        replies.push(reply);
        if replies.len() < wanted {
            return;
        }
        let replies = sentinel.replies.take().unwrap_or_default();
        if let Some(line) = sentinel.line {
            self.talks.set_deadline(line, Instant::NEVER);
        }
        let claims: Vec<_> = replies.chunks(QUESTIONS.len()).map(parse).collect();
        self.take_claims(index, claims);
        self.tally.answers += 1;
        self.tally.answered_at = Some(now);
        for name in 0..self.names.len() {
            self.decide(name, now);
        }
        self.rest(index, now);
        self.tell();
    }

    /// What a sentinel says now.
    fn take_claims(&mut self, index: usize, claims: Vec<Result<Claim, NoClaim>>) {
        let address = self.sentinels[index].address.clone();
        let mut is_fine = true;
        for (name, claim) in claims.into_iter().enumerate() {
            let complaint = match &claim {
                Ok(_) => None,
                Err(NoClaim::UnknownName) => {
                    Some(News::UnknownName { address: address.clone(), name: self.names[name].clone() })
                }
                Err(NoClaim::Reason(reason)) => {
                    Some(News::NoAnswer { address: address.clone(), reason: reason.clone() })
                }
            };
            self.sentinels[index].claims[name] = claim.ok();
            if let Some(complaint) = complaint {
                is_fine = false;
                self.complain(address.clone(), complaint);
            }
        }
        if is_fine {
            self.complaints.remove(&address);
        }
    }

    /// Chooses among what the sentinels say of one name.
    fn decide(&mut self, name: usize, now: Instant) {
        let Some(best) = self.best_claim(name) else { return };
        let shard = &mut self.shards[name];
        match &mut shard.claim {
            Some(known) if known.address == best.address => *known = best,
            _ => {
                if let Some(trial) = shard.trial.take() {
                    self.talks.close(trial);
                }
                shard.claim = Some(best);
                shard.is_confirmed = false;
                shard.trial_at = Instant::ZERO;
                shard.trouble = Some(now);
                self.try_out(name, now);
            }
        }
    }

    /// The claim with the highest epoch; of several with the same, the one that most make. One that is older than what is known
    /// counts only if a majority of all sentinels makes it, and nobody says what we know: after `SENTINEL RESET` and the like
    /// epochs begin anew.
    fn best_claim(&self, name: usize) -> Option<Claim> {
        let claims = || self.sentinels.iter().filter_map(|sentinel| sentinel.claims[name].as_ref());
        let known = self.shards[name].claim.as_ref();
        let votes = |claim: &Claim| {
            claims().filter(|other| (&other.address, other.epoch) == (&claim.address, claim.epoch)).count()
        };
        let is_known = |claim: &Claim| known.is_some_and(|known| known.address == claim.address);
        // The first of equals is the first sentinel's; what is known goes before all.
        let best = claims().rev().max_by_key(|claim| (claim.epoch, votes(claim), is_known(claim)))?;
        let is_older = known.is_some_and(|known| best.epoch < known.epoch);
        let is_majority = votes(best) * 2 > self.sentinels.len();
        (!is_older || is_majority).then(|| best.clone())
    }

    /// What came of the question whether a node is a primary. If it has not said anything of it, a primary stays one: nobody
    /// else is.
    fn judge(&mut self, name: usize, verdict: Result<(), String>, is_said: bool, now: Instant) {
        let shard = &mut self.shards[name];
        shard.trial = None;
        match verdict {
            Ok(()) => {
                shard.is_confirmed = true;
                shard.trouble = None;
                if let Some(claim) = &shard.claim {
                    self.complaints.remove(&claim.address);
                }
            }
            Err(_) if !is_said && shard.is_confirmed => {}
            Err(reason) => {
                shard.is_confirmed = false;
                let since = *shard.trouble.get_or_insert(now);
                let is_lasting = now.since(since) >= URGENT_FOR;
                let pause = if is_lasting { LASTING_PAUSE } else { URGENT_PAUSE };
                let chance = Duration::from_nanos(self.prng.below(pause.as_nanos() as u64));
                let shard = &mut self.shards[name];
                shard.trial_at = now + pause + chance;
                self.tally.failures += 1;
                if let Some(claim) = &shard.claim {
                    let address = claim.address.clone();
                    let name = self.names[name].clone();
                    self.complain(address.clone(), News::NotPrimary { name, address, reason });
                }
            }
        }
        self.tell();
    }

    /// Gives out what is known, if it is other than before.
    fn tell(&mut self) {
        let shards: Vec<ShardSpec> =
            self.names.iter().zip(&self.shards).map(|(name, shard)| shard.spec(name)).collect();
        let is_first = self.told.is_empty();
        if shards == self.told || is_first && shards.iter().all(|shard| shard.primary.is_none()) {
            return;
        }
        if is_first {
            let nodes =
                shards.iter().map(|shard| usize::from(shard.primary.is_some()) + shard.replicas.len());
            let (nodes, shards) = (nodes.sum(), shards.len());
            let by = self.sentinels.iter().find(|sentinel| sentinel.claims.iter().any(Option::is_some));
            let by = by.or(self.sentinels.first()).map(|sentinel| sentinel.address.clone());
            self.news.extend(by.map(|by| News::Found { by, shards, nodes }));
        } else {
            self.news.extend(changes(&self.told, &shards).into_iter().map(News::Changed));
        }
        self.told.clone_from(&shards);
        let epochs = self.shards.iter().filter_map(|shard| shard.claim.as_ref()).map(|claim| claim.epoch);
        self.view = Some(View { epoch: epochs.max().unwrap_or_default(), shards });
    }

    /// A message: whatever it says about one of our names, that sentinel is asked. What it says is not believed.
    fn take_message(&mut self, index: usize, reply: &[u8], now: Instant) {
        let sentinel = &mut self.sentinels[index];
        sentinel.feed_at = now;
        sentinel.is_pinged = false;
        let feed = sentinel.feed;
        if is_error(reply) {
            let (address, reason) = (sentinel.address.clone(), error_text(reply));
            sentinel.feed = None;
            feed.into_iter().for_each(|feed| self.talks.close(feed));
            return self.complain(address.clone(), News::NoAnswer { address, reason });
        }
        feed.into_iter().for_each(|feed| self.talks.set_deadline(feed, Instant::NEVER));
        if is_about(reply, &self.names) {
            self.sentinels[index].is_wished = true;
        }
    }

    /// A connection is gone.
    fn lose(&mut self, conn: Id, reason: &str, now: Instant) {
        if let Some(index) = self.shards.iter().position(|shard| shard.trial == Some(conn)) {
            return self.judge(index, Err(reason.to_owned()), false, now);
        }
        if let Some(sentinel) = self.sentinels.iter_mut().find(|sentinel| sentinel.feed == Some(conn)) {
            sentinel.feed = None;
            sentinel.feed_at = now;
            sentinel.is_pinged = false;
            // What it would have told meanwhile is asked for.
            sentinel.is_wished = true;
            return;
        }
        let Some(index) = self.sentinels.iter().position(|sentinel| sentinel.line == Some(conn)) else {
            return;
        };
        let sentinel = &mut self.sentinels[index];
        sentinel.line = None;
        sentinel.claims.fill(None);
        let was_asked = sentinel.replies.take().is_some();
        if !was_asked {
            // It has not failed: it ended an idle connection, as sentinels do when they start anew.
            sentinel.is_wished = true;
            return;
        }
        self.tally.failures += 1;
        let address = self.sentinels[index].address.clone();
        self.complain(address.clone(), News::NoAnswer { address, reason: reason.to_owned() });
        self.sentinels[index].pause = LASTING_PAUSE + self.chance(LASTING_PAUSE);
    }

    fn complain(&mut self, address: Address, news: News) {
        if self.complaints.get(&address) != Some(&news) {
            self.complaints.insert(address, news.clone());
            self.news.push_back(news);
        }
    }

    /// Decides how long not to ask a sentinel that has answered.
    fn rest(&mut self, index: usize, now: Instant) {
        let since = self.shards.iter().filter_map(|shard| shard.trouble).min();
        let pause = match since {
            Some(since) if now.since(since) < URGENT_FOR => URGENT_PAUSE + self.chance(URGENT_PAUSE),
            Some(_) => LASTING_PAUSE + self.chance(LASTING_PAUSE),
            None => self.period - self.period / 10 + self.chance(self.period / 5),
        };
        self.sentinels[index].pause = pause;
    }

    fn chance(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.prng.below(most.as_nanos() as u64))
    }
}

impl Sentinel {
    /// When it is to be asked.
    fn question_at(&self) -> Instant {
        match (&self.replies, self.is_wished) {
            (Some(_), _) => Instant::NEVER,
            (None, true) => self.asked_at + self.pause.min(WISH_PAUSE),
            (None, false) => self.asked_at + self.pause,
        }
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

impl Shard {
    /// When its node is to be asked whether it is a primary.
    fn trial_due(&self) -> Instant {
        let is_due = self.claim.is_some() && !self.is_confirmed && self.trial.is_none();
        if is_due { self.trial_at } else { Instant::NEVER }
    }

    fn spec(&self, name: &str) -> ShardSpec {
        let node = |address: &Address| NodeSpec::at(address.clone());
        let claim = self.claim.as_ref();
        ShardSpec {
            name: name.to_owned(),
            primary: claim.filter(|_| self.is_confirmed).map(|claim| node(&claim.address)),
            replicas: claim.into_iter().flat_map(|claim| &claim.replicas).map(node).collect(),
            slots: Vec::new(),
        }
    }
}
