//! The state of one name that sentinels watch: the primary, its successor in a failover, and which of them gets
//! requests.
//!
//! ```text
//!   claim ── ROLE: primary ──► it gets the requests ◄── the claim says the same by now ──┐
//!     │                                                                                 │
//!     └ a sentinel that says the same carries out a failover, and has chosen an heir    │
//!         heir ── ROLE: primary ──► it gets them, from that moment on, and nobody else ─┤
//!                                        │                                              │
//!                                        └ that sentinel is silent, or says otherwise ──┴─► nobody, or the claim's again
//! ```
//!
//! A replica that calls itself a primary is not enough: an operator may have promoted it. It gets requests before sentinels
//! agree only if one of them has chosen it in the failover that replaces the known primary. That sentinel must have been
//! elected. An operator's `REPLICAOF NO ONE` alone moves nothing.

use super::PATIENCE;
use super::schedule::{LONG_PAUSE, Rest, Schedule};
use super::sentinel_answer::{Claim, Role};
use super::talk::{Party, Talks};
use crate::{Address, NodeSpec, ShardSpec};
use resp::encode;
use std::time::Duration;
use stdx::prng::Prng;
use stdx::{Id, Instant};

/// One name.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// The newest claim that was believed, whatever the node said.
    claim: Option<Claim>,
    word: Word,
    probe: Probe,
    heir: Option<Heir>,
    /// Time since which the primary is unusable, by workers or by its own report.
    trouble: Option<Instant>,
    /// A sentinel is carrying out a failover; since when.
    failover: Option<Instant>,
    older: Older,
}

/// Time for which most sentinels have made an older claim than ours, and none another claim.
#[derive(Clone, Copy, Debug, Default)]
struct Older {
    /// Time until `since`, or altogether.
    heard: Duration,
    /// Start of the present period in which most sentinels make it. While too few sentinels answer, no time counts.
    since: Option<Instant>,
}

/// Whether the claim's node has reported that it is a primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Word {
    /// The node has not reported its role, or has reported another.
    #[default]
    Missing,
    /// The node takes the place of another, and has not reported its role yet. Workers may connect to it, but it gets no
    /// request before it has reported its role to them too. So requests wait for it instead of being refused.
    Awaited,
    Given,
}

/// The question whether a node is a primary, over a connection of its own.
#[derive(Debug, Default)]
struct Probe {
    conn: Option<Id>,
    schedule: Schedule,
}

/// The replica that a failover is about to make the primary.
#[derive(Debug)]
struct Heir {
    address: Address,
    /// The sentinel that has chosen it.
    by: Address,
    probe: Probe,
    standing: Standing,
    /// The sentinels that have reported since that they carry out no failover. If one of them chooses an heir now, that
    /// failover is newer: it had no votes yet when this heir was chosen.
    idle: Vec<Address>,
}

/// Progress of a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The node has not reported yet that it is a primary.
    Chosen,
    /// The node has reported it: writes to any other node would be lost from then on.
    Promoted,
    /// The node had reported it, before the sentinel that has chosen it fell silent; now it is chosen again. Or it was chosen
    /// beside another one that had, and is none any more. No node gets requests before it has reported its role again.
    Recalled,
    /// The node had reported it, and the sentinel that has chosen it is silent.
    Doubtful {
        /// Time of that.
        since: Instant,
    },
}

/// The current claim of a sentinel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said<'a> {
    pub by: &'a Address,
    pub claim: &'a Claim,
    /// Whether it counts for a majority.
    pub has_vote: bool,
}

/// The node that gets the requests of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chief<'a> {
    Nobody,
    Claimed(&'a Address),
    Promoted(&'a Address),
}

/// Time for which the known claim is kept against a majority with an older one. A successor gets no requests for the same time
/// while its sentinel is silent. Sentinels exchange news every two seconds; one that has not heard of it by then will not.
const SUSPECT_FOR: Duration = Duration::from_secs(10);

/// The sentinels whose claims count for a majority.
#[derive(Clone, Copy, Debug)]
pub(super) struct Votes {
    /// Their number.
    pub all: usize,
    /// Whether it is the start, and some of them were asked and have not answered yet.
    pub are_open: bool,
}

/// The number of sentinels with a vote that make the claim.
fn votes_for(said: &[Said<'_>], claim: &Claim) -> usize {
    said.iter().filter(|other| other.has_vote && is_same(other.claim, claim)).count()
}

impl Shard {
    /// Takes in the present statements of sentinels. The time passes between calls too: see [`Shard::handle_time`].
    ///
    /// At the start, the first claim of all waits until a majority makes it, or no sentinel is left that may contradict.
    /// Otherwise writes would go to the primary of a sentinel that is wrong and fast.
    pub(super) fn decide(&mut self, said: &[Said<'_>], votes: Votes, talks: &mut Talks, now: Instant) {
        if let Some(best) = self.best_claim(said, votes.all, now).cloned() {
            if self.claim.is_none() && votes.are_open && votes_for(said, &best) * 2 <= votes.all {
                return;
            }
            self.believe(best, talks, now);
        }
        self.follow_failover(said, talks, now);
    }

    /// The claim with the highest epoch; of several with the same, the most frequent. A claim older than the known one counts
    /// only if a lasting majority makes it and no sentinel makes the known one. Where names were removed and added again
    /// (`SENTINEL REMOVE`, `MONITOR`), epochs begin anew. A silent sentinel contradicts nothing: it stops the clock. If it set
    /// the clock back, slow sentinels would keep a wrong primary for ever.
    fn best_claim<'a>(&mut self, said: &[Said<'a>], votes: usize, now: Instant) -> Option<&'a Claim> {
        let known = self.claim.as_ref();
        let is_known = |claim: &Claim| known.is_some_and(|known| known.address == claim.address);
        // Of equals the first sentinel's wins; the known claim goes before all.
        let claims = said.iter().rev().map(|said| said.claim);
        let Some(best) = claims.max_by_key(|claim| (claim.epoch, votes_for(said, claim), is_known(claim)))
        else {
            self.older.stop(now);
            return None;
        };
        if known.is_none_or(|known| best.epoch >= known.epoch) {
            self.older = Older::default();
            return Some(best);
        }
        let heard = said.iter().filter(|said| said.has_vote).count();
        match () {
            () if votes_for(said, best) * 2 > votes => self.older.go_on(now),
            () if heard * 2 > votes => self.older = Older::default(),
            () => self.older.stop(now),
        }
        self.older.has_lasted(now).then_some(best)
    }

    /// The newest claim is `claim`.
    fn believe(&mut self, claim: Claim, talks: &mut Talks, now: Instant) {
        if let Some(known) = self.claim.as_mut().filter(|known| known.address == claim.address) {
            *known = claim;
            return;
        }
        self.word = match self.chief() {
            Chief::Promoted(heir) if *heir == claim.address => Word::Given,
            Chief::Promoted(_) | Chief::Claimed(_) => Word::Awaited,
            Chief::Nobody => Word::Missing,
        };
        self.drop_heir(talks);
        self.probe.end(talks);
        (self.probe, self.claim, self.older) = (Probe::default(), Some(claim), Older::default());
        self.trouble = if self.word == Word::Given { None } else { Some(now) };
    }

    /// Checks whether a failover is under way, and which replica it promotes.
    fn follow_failover(&mut self, said: &[Said<'_>], talks: &mut Talks, now: Instant) {
        let Some(known) = &self.claim else { return };
        // A failover from another primary than ours, or from before ours was chosen, is out of date.
        let agreeing = || said.iter().filter(|said| is_same(said.claim, known));
        let is_under_way = agreeing().any(|said| said.claim.is_failing_over);
        self.failover = if is_under_way { self.failover.or(Some(now)) } else { None };
        let mut choices = agreeing().filter_map(|said| Some((said.claim.heir.clone()?, said.by.clone())));
        let first = choices.next();
        // Where two have been chosen, one after the other, the order of the choices is unknown.
        let choice = first.filter(|(address, _)| choices.all(|(other, _)| other == *address));
        let Some(heir) = &mut self.heir else {
            self.heir = choice.map(|(address, by)| Heir::new(address, by, Standing::Chosen));
            return;
        };
        heir.note_idle(said);
        // The claim of the sentinel that has chosen it.
        let its_word = agreeing().find(|said| *said.by == heir.by);
        let is_meant = its_word.map(|said| said.claim.heir.as_ref() == Some(&heir.address));
        match (choice, heir.standing) {
            (Some((address, by)), standing) if address == heir.address => {
                heir.by = by;
                if let Standing::Doubtful { .. } = standing {
                    heir.standing = Standing::Recalled;
                }
            }
            (_, Standing::Chosen) => self.drop_heir(talks),
            // Another one is being chosen, and is no primary yet.
            (_, standing) if is_meant == Some(true) => {
                if let Standing::Doubtful { .. } = standing {
                    heir.standing = Standing::Recalled;
                }
            }
            // The sentinel that has chosen it reports another state. The choice of another may be a primary by now.
            (choice, _) if is_meant == Some(false) => {
                self.drop_heir(talks);
                self.heir = choice.map(|(address, by)| Heir::new(address, by, Standing::Recalled));
            }
            (Some((address, by)), Standing::Doubtful { .. }) if heir.idle.contains(&by) => {
                self.drop_heir(talks);
                self.heir = Some(Heir::new(address, by, Standing::Recalled));
            }
            (_, Standing::Doubtful { .. }) => {}
            (_, Standing::Promoted | Standing::Recalled) => heir.standing = Standing::Doubtful { since: now },
        }
    }

    fn drop_heir(&mut self, talks: &mut Talks) {
        if let Some(mut heir) = self.heir.take() {
            heir.probe.end(talks);
        }
    }

    /// Asks the nodes whose turn it is.
    pub(super) fn handle_time(&mut self, talks: &mut Talks, now: Instant) {
        if self.heir.as_ref().is_some_and(|heir| heir.suspect_until() <= now) {
            self.drop_heir(talks);
        }
        if self.probe_due() <= now
            && let Some(claim) = &self.claim
        {
            self.probe.begin(&claim.address, talks, now);
        }
        if let Some(heir) = self.heir.as_mut().filter(|heir| heir.probe_due() <= now) {
            heir.probe.begin(&heir.address, talks, now);
        }
    }

    /// When [`Shard::handle_time`] has something to do.
    pub(super) fn due(&self) -> Instant {
        let heir =
            self.heir.as_ref().map_or(Instant::NEVER, |heir| heir.probe_due().min(heir.suspect_until()));
        heir.min(self.probe_due())
    }

    /// Time of the next question to the claim's node: while neither it nor another is a primary.
    fn probe_due(&self) -> Instant {
        let is_wanted = self.claim.is_some() && self.word != Word::Given && !self.is_superseded();
        if is_wanted { self.probe.due() } else { Instant::NEVER }
    }

    /// Whether the claim's node gets no requests, even if it reports that it is a primary.
    fn is_superseded(&self) -> bool {
        self.heir.as_ref().is_some_and(|heir| heir.standing != Standing::Chosen)
    }

    /// Asks the primary for its role, unless that was done a moment ago.
    pub(super) fn try_out(&mut self, talks: &mut Talks, now: Instant) {
        let (probe, address) = match (&mut self.heir, &self.claim) {
            (Some(heir), _) if heir.standing == Standing::Promoted => (&mut heir.probe, &heir.address),
            (_, Some(claim)) => (&mut self.probe, &claim.address),
            (_, None) => return,
        };
        if probe.conn.is_none() && probe.schedule.asked_at() + LONG_PAUSE <= now {
            probe.begin(address, talks, now);
        }
    }

    /// Whether `conn` is the connection of a question to one of its nodes.
    pub(super) fn asks_on(&self, conn: Id) -> bool {
        let heir = self.heir.as_ref().and_then(|heir| heir.probe.conn);
        self.probe.conn == Some(conn) || heir == Some(conn)
    }

    /// Handles the answer on `conn`. Returns a node that should be the primary and denies it, with its answer.
    pub(super) fn judge(
        &mut self,
        conn: Id,
        role: Role,
        prng: &mut Prng,
        now: Instant,
    ) -> Option<(Address, String)> {
        match &mut self.heir {
            Some(heir) if heir.probe.conn == Some(conn) => {
                self.judge_heir(role, prng, now);
                None
            }
            _ => self.judge_claim(role, prng, now),
        }
    }

    /// If the node has not answered, a primary stays one: there is no other.
    fn judge_claim(&mut self, role: Role, prng: &mut Prng, now: Instant) -> Option<(Address, String)> {
        self.probe.conn = None;
        match role {
            _ if self.is_superseded() => None,
            Role::Primary => {
                (self.word, self.trouble) = (Word::Given, None);
                None
            }
            Role::Unsaid(_) if self.word == Word::Given => None,
            Role::Other(reason) | Role::Unsaid(reason) => {
                self.word = Word::Missing;
                let since = *self.trouble.get_or_insert(now);
                self.probe.rest(since, prng, now);
                Some((self.claim.as_ref()?.address.clone(), reason))
            }
        }
    }

    /// An heir that is no primary yet is what it should be.
    fn judge_heir(&mut self, role: Role, prng: &mut Prng, now: Instant) {
        let Some(heir) = &mut self.heir else { return };
        heir.probe.conn = None;
        heir.probe.schedule.rest(Rest::in_failover(self.failover.unwrap_or(now), now), prng);
        match role {
            Role::Primary => {
                heir.standing = Standing::Promoted;
                (self.word, self.trouble) = (Word::Missing, None);
            }
            Role::Other(_) => heir.standing = Standing::Chosen,
            Role::Unsaid(_) => {}
        }
    }

    /// Whether the node at `address` gets its requests, or would after it reported that it is a primary.
    pub(super) fn is_led_by(&self, address: &Address) -> bool {
        self.is_chief(address) || self.claim.as_ref().is_some_and(|claim| claim.address == *address)
    }

    /// Workers cannot use its primary.
    pub(super) fn note_down(&mut self, talks: &mut Talks, now: Instant) {
        self.trouble.get_or_insert(now);
        self.try_out(talks, now);
    }

    /// Workers can use the node again.
    pub(super) fn note_up(&mut self, address: &Address) {
        if self.is_chief(address) {
            self.trouble = None;
        }
    }

    fn is_chief(&self, address: &Address) -> bool {
        matches!(self.chief(), Chief::Claimed(chief) | Chief::Promoted(chief) if chief == address)
    }

    /// Time since which there is a fault that another answer of a sentinel would end.
    pub(super) fn trouble(&self) -> Option<Instant> {
        [self.trouble, self.failover].into_iter().flatten().min()
    }

    /// As of which failover the primary is what it is.
    pub(super) fn epoch(&self) -> u64 {
        self.claim.as_ref().map_or(0, |claim| claim.epoch)
    }

    fn chief(&self) -> Chief<'_> {
        match (&self.heir, &self.claim) {
            (Some(Heir { address, standing: Standing::Promoted, .. }), _) => Chief::Promoted(address),
            (_, Some(claim)) if self.word != Word::Missing && !self.is_superseded() => {
                Chief::Claimed(&claim.address)
            }
            _ => Chief::Nobody,
        }
    }

    /// The same for workers, under its name.
    pub(super) fn spec(&self, name: &str) -> ShardSpec {
        let node = |address: &Address| NodeSpec::at(address.clone());
        let primary = match self.chief() {
            Chief::Nobody => None,
            Chief::Claimed(address) | Chief::Promoted(address) => Some(node(address)),
        };
        let replicas = self.claim.iter().flat_map(|claim| &claim.replicas).map(node);
        let replicas = replicas.filter(|replica| primary.as_ref() != Some(replica)).collect();
        ShardSpec { name: name.to_owned(), primary, replicas, slots: Vec::new() }
    }
}

impl Older {
    /// Notes at `now` that most sentinels make the claim.
    fn go_on(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Notes at `now` that too few sentinels answer.
    fn stop(&mut self, now: Instant) {
        self.heard = self.heard_until(now);
        self.since = None;
    }

    fn heard_until(&self, now: Instant) -> Duration {
        self.heard + self.since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Whether most sentinels make the claim now, and have made it for [`SUSPECT_FOR`].
    fn has_lasted(&self, now: Instant) -> bool {
        self.since.is_some() && self.heard_until(now) >= SUSPECT_FOR
    }
}

impl Heir {
    fn new(address: Address, by: Address, standing: Standing) -> Heir {
        Heir { address, by, probe: Probe::default(), standing, idle: Vec::new() }
    }

    fn note_idle(&mut self, said: &[Said<'_>]) {
        for said in said.iter().filter(|said| !said.claim.is_failing_over) {
            if !self.idle.contains(said.by) {
                self.idle.push(said.by.clone());
            }
        }
    }

    /// Time of its next question, until it is a primary.
    fn probe_due(&self) -> Instant {
        match self.standing {
            Standing::Chosen | Standing::Recalled => self.probe.due(),
            Standing::Promoted | Standing::Doubtful { .. } => Instant::NEVER,
        }
    }

    /// Time at which the wait for its sentinel ends.
    fn suspect_until(&self) -> Instant {
        match self.standing {
            Standing::Doubtful { since } => since + SUSPECT_FOR,
            Standing::Chosen | Standing::Promoted | Standing::Recalled => Instant::NEVER,
        }
    }
}

impl Probe {
    fn begin(&mut self, address: &Address, talks: &mut Talks, now: Instant) {
        let mut request = Vec::new();
        encode::request(&mut request, &[b"ROLE"]);
        self.schedule.begin(now);
        self.conn = Some(talks.open(address, Party::Node, &request, now + PATIENCE));
    }

    fn end(&mut self, talks: &mut Talks) {
        if let Some(conn) = self.conn.take() {
            talks.close(conn);
        }
    }

    fn due(&self) -> Instant {
        if self.conn.is_some() { Instant::NEVER } else { self.schedule.due() }
    }

    fn rest(&mut self, since: Instant, prng: &mut Prng, now: Instant) {
        self.schedule.rest(Rest::in_trouble(Some(since), now).unwrap_or(Rest::Short), prng);
    }
}

/// Whether they name the same primary, as of the same failover.
fn is_same(one: &Claim, other: &Claim) -> bool {
    (&one.address, one.epoch) == (&other.address, other.epoch)
}
