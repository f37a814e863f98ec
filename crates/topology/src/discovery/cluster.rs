//! Discovery of a Redis Cluster: it asks one node, and another if that is late, each over a connection that is closed
//! afterwards.
//!
//! ```text
//!   period, with jitter ──┐
//!   a redirect, READONLY ─┼─► choose a node ─► INFO, NODES, SHARDS (or SLOTS) ─► join ─► a view, if it is another
//!   a primary is down ────┤     the hint first, then who answers, in no order; seeds last
//!   no answer in 100 ms ──┘
//! ```
//!
//! A late answer still counts: it is joined as any other, and neither of two reverts the other.

use super::cluster_answer::{Asked, Replies, is_no_cluster};
use super::cluster_map::{ClusterMap, Verdict};
use super::findings::Findings;
use super::schedule::{Rest, Schedule};
use super::talk::{Greetings, Heard, Talks, error_text};
use super::{Event, News, PATIENCE, Party, Wish};
use crate::{Address, NodeSpec};
use resp::encode;
use resp::reply::is_error;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;
use stdx::prng::Prng;
use stdx::{Id, Instant};

/// Settings of the discovery.
#[derive(Clone)]
pub struct ClusterSettings {
    /// Nodes to ask first; they need not stay in the cluster.
    pub seeds: Vec<Address>,
    /// Approximate pause between two questions when nothing happens.
    pub period: Duration,
    /// Nodes speak TLS.
    pub is_tls: bool,
    /// Bytes that they get first, if any: AUTH.
    pub greeting: Option<Vec<u8>>,
    /// For jitter and choice.
    pub seed: u64,
}

/// The discovery of a Redis Cluster.
#[derive(Debug)]
pub struct ClusterDiscovery {
    seeds: Vec<Address>,
    period: Duration,
    is_tls: bool,
    pub(super) talks: Talks,
    pub(super) findings: Findings,
    prng: Prng,
    map: ClusterMap,
    /// In the order in which they were asked.
    asking: Vec<Asking>,
    schedule: Schedule,
    hints: VecDeque<Address>,
    /// Targets of redirects that are unknown, each with the time until which it is searched: requests wait for it.
    wanted: HashMap<Address, Instant>,
    /// Primaries that workers cannot use, and since when.
    down: HashMap<Address, Instant>,
    /// Time since which the last answer came from a node without a majority, or named a failed primary.
    is_troubled: Option<Instant>,
    /// Nodes that could not be asked, and when.
    failed_at: HashMap<Address, Instant>,
    /// Known addresses at which another cluster answers: nothing is sent there.
    strangers: HashSet<Address>,
}

/// A question on its way.
#[derive(Debug)]
struct Asking {
    conn: Id,
    address: Address,
    replies: Replies,
    /// Number of its replies that are here.
    count: usize,
    /// Another node that was asked beside it has answered: its answer is not needed.
    is_spare: bool,
}

/// Limit of nodes asked at once. With one late answer in twenty, four are late together once in 160,000 times.
const ASKED_MAX: usize = 4;
/// Longest search for a node that redirects have named and no answer knows. Clients wait a second for it by default,
/// and gossip spreads within that.
const WANTED_FOR: Duration = Duration::from_secs(2);
/// Addresses of redirects that wait to be asked; more are as good as these.
const HINTS_MAX: usize = 8;
/// Nodes that are remembered as failed, or as strangers.
const NAMES_MAX: usize = 1024;

impl ClusterDiscovery {
    /// Begins to ask as soon as it receives the time.
    pub fn new(settings: ClusterSettings) -> ClusterDiscovery {
        ClusterDiscovery {
            seeds: settings.seeds,
            period: settings.period,
            is_tls: settings.is_tls,
            talks: Talks::new(Greetings { node: settings.greeting, sentinel: None }),
            findings: Findings::default(),
            prng: Prng::new(settings.seed),
            map: ClusterMap::default(),
            asking: Vec::new(),
            schedule: Schedule::default(),
            hints: VecDeque::new(),
            wanted: HashMap::new(),
            down: HashMap::new(),
            is_troubled: None,
            failed_at: HashMap::new(),
            strangers: HashSet::new(),
        }
    }

    /// See [`super::Discovery::handle_wish`].
    pub fn handle_wish(&mut self, wish: Wish, now: Instant) {
        match wish {
            Wish::Look => self.schedule.wish(),
            Wish::Redirected(address) => {
                if self.wanted.len() < HINTS_MAX && !self.map.has_address(&address) {
                    self.wanted.insert(address.clone(), now + WANTED_FOR);
                }
                self.note_hint(address);
            }
            Wish::Down(address) => {
                self.note_failure(&address, now);
                if self.has_primary(&address) {
                    self.schedule.wish();
                    self.down.entry(address.clone()).or_insert(now);
                }
                if let Some(place) = self.asking.iter().position(|asking| asking.address == address) {
                    // Workers notice a fault before they know its cause. So the faulty node itself may have been asked, and the
                    // next question would wait for it.
                    let Asking { conn, is_spare, .. } = self.asking.remove(place);
                    self.talks.close(conn);
                    self.rest_after(false, is_spare, now);
                }
            }
            Wish::Up(address) => {
                self.down.remove(&address);
                self.failed_at.remove(&address);
                // The connection is made, but only the node itself can say whether it is the known one.
                self.note_hint(address);
            }
        }
    }

    /// Asks the node at `address` soon.
    fn note_hint(&mut self, address: Address) {
        self.schedule.wish();
        if !self.hints.contains(&address) && self.hints.len() < HINTS_MAX {
            self.hints.push_back(address);
        }
    }

    /// See [`super::Discovery::handle_time`].
    pub fn handle_time(&mut self, now: Instant) {
        while let Some(conn) = self.talks.expire(now) {
            self.fail(conn, "no answer in time", now);
        }
        if self.question_at() <= now {
            self.ask(now);
        }
    }

    /// See [`super::Discovery::poll_deadline`].
    pub fn poll_deadline(&self) -> Instant {
        self.talks.deadline().min(self.question_at())
    }

    /// Time of the next question.
    fn question_at(&self) -> Instant {
        let has_choice = || self.hints.iter().chain(self.addresses()).any(|address| !self.is_asked(address));
        let may_ask = self.asking.len() < ASKED_MAX && has_choice();
        if may_ask { self.schedule.due() } else { Instant::NEVER }
    }

    /// Whether the node at `address` has still to answer.
    fn is_asked(&self, address: &Address) -> bool {
        self.asking.iter().any(|asking| asking.address == *address)
    }

    /// Asks the node that is most likely to answer.
    fn ask(&mut self, now: Instant) {
        let Some(address) = self.choose() else { return };
        self.hints.retain(|hint| *hint != address);
        self.schedule.begin(now);
        // If it has not answered by then, another is asked.
        self.schedule.rest(Rest::Short, &mut self.prng);
        let mut request = Vec::new();
        for question in ["INFO", "NODES", "SHARDS"] {
            encode::request(&mut request, &[b"CLUSTER", question.as_bytes()]);
        }
        let conn = self.talks.open(&address, Party::Node, &request, now + PATIENCE);
        self.asking.push(Asking { conn, address, replies: Replies::default(), count: 0, is_spare: false });
    }

    /// The next node to ask, of those that are not being asked. First comes the hint of a redirect. While a primary is down,
    /// every second question goes to a replica that may follow it, since it knows first. Then comes any node of the cluster
    /// that has not failed lately, then the seeds.
    fn choose(&mut self) -> Option<Address> {
        if let Some(hint) = self.hints.iter().find(|hint| !self.is_asked(hint)) {
            return Some(hint.clone());
        }
        let first = self.prng.next_u64();
        let heirs: HashSet<&Address> = match self.prng.one_in(2) {
            true => self.heirs().collect(),
            false => HashSet::new(),
        };
        let known: HashSet<&Address> = self.map.addresses().collect();
        let mut all: Vec<&Address> =
            known.iter().copied().chain(self.seeds.iter().filter(|seed| !known.contains(seed))).collect();
        all.retain(|address| !self.is_asked(address));
        // A seed decides, so the order of a hash table must not.
        all.sort_by_cached_key(|address| address.to_string());
        // Of equals the first wins; which one that is, is random.
        let first = first % all.len().max(1) as u64;
        all.rotate_left(first as usize);
        let rank = |address: &&Address| {
            let failed_at = self.failed_at.get(*address);
            (failed_at, !known.contains(*address), !heirs.contains(*address))
        };
        all.into_iter().min_by_key(rank).cloned()
    }

    /// Replicas of primaries that are down.
    fn heirs(&self) -> impl Iterator<Item = &Address> {
        let is_down = |address: &Address| self.down.contains_key(address);
        let shards = self.findings.told().iter();
        shards
            .filter(move |shard| shard.primary.as_ref().is_some_and(|node| is_down(&node.address)))
            .flat_map(|shard| shard.replicas.iter().map(|node| &node.address))
    }

    fn has_primary(&self, address: &Address) -> bool {
        let primaries = self.findings.told().iter().filter_map(|shard| shard.primary.as_ref());
        primaries.into_iter().any(|node| node.address == *address)
    }

    /// See [`super::Discovery::handle_event`].
    pub fn handle_event(&mut self, event: Event<'_>, now: Instant) {
        let (conn, heard) = self.talks.handle(event);
        for heard in heard {
            match heard {
                Heard::Reply(reply) => self.take(conn, reply, now),
                Heard::Lost(reason) => self.fail(conn, &reason, now),
            }
        }
    }

    /// Takes one reply in; with the last, the answer is whole.
    fn take(&mut self, conn: Id, reply: Vec<u8>, now: Instant) {
        let Some(place) = self.asking.iter().position(|asking| asking.conn == conn) else { return };
        let asking = &mut self.asking[place];
        asking.count += 1;
        match asking.count {
            1 => asking.replies.info = reply,
            2 => asking.replies.nodes = reply,
            3 if is_error(&reply) && !is_no_cluster(&error_text(&reply)) => {
                // Older than Redis 7, or we may not ask that.
                asking.replies.shards = reply;
                let mut request = Vec::new();
                encode::request(&mut request, &[b"CLUSTER", b"SLOTS"]);
                self.talks.say(conn, &request, now + PATIENCE);
                return;
            }
            3 => asking.replies.shards = reply,
            _ => asking.replies.slots = Some(reply),
        }
        if asking.count >= 3 {
            let asking = self.asking.remove(place);
            self.conclude(asking, now);
        }
    }

    /// All replies are here.
    fn conclude(&mut self, asking: Asking, now: Instant) {
        let Asking { conn, address, replies, is_spare, .. } = asking;
        self.talks.close(conn);
        let asked = Asked { address: &address, is_tls: self.is_tls };
        let answer = match replies.digest(asked) {
            Ok(answer) => answer,
            Err(reason) => return self.note_no_answer((address, is_spare), &reason, now),
        };
        match self.map.join(&answer) {
            Verdict::Strange => {
                self.findings.count_refusal();
                self.note_failure(&address, now);
                self.strangers.insert(address.clone());
                self.tell(&address);
                self.findings.complain(&address, News::Stranger { address: address.clone() });
                self.wanted.remove(&address);
                return self.rest_after(false, is_spare, now);
            }
            Verdict::Outdated => self.findings.count_refusal(),
            Verdict::Joined => {}
        }
        self.findings.count_answer(now);
        self.failed_at.remove(&address);
        self.strangers.remove(&address);
        if !self.findings.told().is_empty() {
            self.findings.forgive(&address);
        }
        let is_troubled = !answer.is_ok || self.map.has_failed_primary();
        self.is_troubled = if is_troubled { self.is_troubled.or(Some(now)) } else { None };
        self.tell(&address);
        self.rest_after(true, is_spare, now);
        self.wanted.retain(|address, until| *until > now && !self.map.has_address(address));
        if !self.wanted.is_empty() {
            self.schedule.wish();
        }
    }

    /// Publishes the current view, if it differs from the last one.
    fn tell(&mut self, by: &Address) {
        let mut view = self.map.view();
        let is_ours = |node: &NodeSpec| !self.strangers.contains(&node.address);
        for shard in &mut view.shards {
            shard.primary.take_if(|primary| !is_ours(primary));
            shard.replicas.retain(is_ours);
        }
        view.shards.retain(|shard| shard.primary.is_some() || !shard.slots.is_empty());
        if view.shards.is_empty() {
            let reason = "no slot of its cluster has an owner yet".to_owned();
            return self.findings.complain(by, News::NoAnswer { address: by.clone(), reason });
        }
        if !self.findings.tell(view, by) {
            return;
        }
        let mut down = std::mem::take(&mut self.down);
        down.retain(|address, _| self.has_primary(address));
        self.down = down;
    }

    /// The question of `conn` gets no answer.
    fn fail(&mut self, conn: Id, reason: &str, now: Instant) {
        if let Some(place) = self.asking.iter().position(|asking| asking.conn == conn) {
            let asking = self.asking.remove(place);
            self.note_no_answer((asking.address, asking.is_spare), reason, now);
        }
    }

    fn note_no_answer(&mut self, (address, is_spare): (Address, bool), reason: &str, now: Instant) {
        self.findings.count_failure();
        self.note_failure(&address, now);
        let news = match is_no_cluster(reason) {
            true => News::NoCluster { address: address.clone() },
            false => News::NoAnswer { address: address.clone(), reason: reason.to_owned() },
        };
        self.findings.complain(&address, news);
        self.rest_after(false, is_spare, now);
    }

    /// Ends a question. A failed spare one decides nothing, nor does one while another is awaited.
    fn rest_after(&mut self, is_answered: bool, is_spare: bool, now: Instant) {
        if is_spare && !(is_answered && self.asking.iter().all(|asking| asking.is_spare)) {
            return;
        }
        if is_answered {
            self.asking.iter_mut().for_each(|asking| asking.is_spare = true);
        }
        self.rest(is_answered, now);
    }

    fn note_failure(&mut self, address: &Address, now: Instant) {
        if self.strangers.len() >= NAMES_MAX {
            self.strangers.clear();
        }
        if self.failed_at.len() >= NAMES_MAX {
            self.failed_at.clear();
        }
        self.failed_at.insert(address.clone(), now);
    }

    /// Decides the pause after this question, from its beginning.
    fn rest(&mut self, is_answered: bool, now: Instant) {
        let has_fresh = self.addresses().any(|address| !self.failed_at.contains_key(address));
        let is_known = !self.findings.told().is_empty();
        let rest = match Rest::in_trouble(self.trouble(), now) {
            Some(rest) => rest,
            None if is_answered && is_known => Rest::Usual(self.period),
            None if has_fresh => Rest::Short,
            None => Rest::Long,
        };
        self.schedule.rest(rest, &mut self.prng);
    }

    /// Time since which there is a fault that a new topology would end.
    fn trouble(&self) -> Option<Instant> {
        self.down.values().copied().chain(self.is_troubled).min()
    }

    /// All that could be asked.
    fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.map.addresses().chain(&self.seeds)
    }
}
