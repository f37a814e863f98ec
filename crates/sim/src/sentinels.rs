//! The knowledge of simulated sentinels about the primaries that they watch, and their failovers: a small version of Redis's
//! sentinel.c.
//!
//! ```text
//!   down as one sees it ─► down as the quorum sees it ─► Begun ─► a majority votes ─► Chosen ─► REPLICAOF NO ONE ─► Told
//!                                                                                                                 │
//!   +switch-master ◄─ Promoted ◄─ the newer config epoch, which the others hear of ◄─ it calls itself a primary ◄─┘
//! ```
//!
//! Changes of nodes come out as [`Deed`]s, and observations of sentinels go in as [`Sight`]s. Times are a quarter of real ones,
//! so that failovers happen within a world.

pub(crate) mod words;

use crate::cluster::address;
use std::collections::BTreeSet;
use std::time::Duration;
use stdx::{Instant, Prng};
use topology::{Address, NodeSpec};

/// A host that may be cut off by a network partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    Node(usize),
    Sentinel(usize),
}

/// All sentinels, and the rightful primaries.
pub(crate) struct Watch {
    pub sentinels: Vec<Sentinel>,
    /// Number of sentinels in the proxy's configuration.
    pub named: usize,
    /// Number of sentinels that must find a primary down.
    quorum: usize,
    /// Hosts that do not hear the others. The proxy hears all.
    island: BTreeSet<Host>,
    /// By shard: its primaries in order. The data of the last one is the valid data.
    reigns: Vec<Vec<usize>>,
}

/// One sentinel.
#[derive(Debug)]
pub(crate) struct Sentinel {
    pub is_down: bool,
    /// Whether it is down, and a stranger listens at its address.
    pub is_replaced: bool,
    /// Time until which it does nothing.
    pub frozen_until: Instant,
    /// Delay of its answers.
    pub slowness: Duration,
    /// The newest epoch that it has heard of.
    current_epoch: u64,
    /// Time of its next message to the other sentinels.
    hello_at: Instant,
    /// By node: when it answered last.
    heard_at: Vec<Instant>,
    /// By node: the time since which it follows a wrong node, or none.
    odd_since: Vec<Option<Instant>>,
    /// By shard.
    pub views: Vec<View>,
}

/// A sentinel's knowledge about one name.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub primary: usize,
    /// As of which failover.
    pub epoch: u64,
    /// Whether the primary does not answer.
    is_down: bool,
    /// Epoch and candidate of its last vote.
    voted: (u64, usize),
    /// Time before which it begins no failover.
    not_before: Instant,
    pub failover: Option<Failover>,
}

/// A failover that a sentinel carries out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failover {
    epoch: u64,
    pub stage: Stage,
    /// Time of its present stage.
    since: Instant,
    /// An operator requested it: no votes are needed.
    is_forced: bool,
}

/// Progress of a failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The others are asked for their votes.
    Begun,
    /// The replica was chosen, and does not know it yet.
    Chosen(usize),
    /// The replica was told to become a primary.
    Told(usize),
    /// The replica reports that it is a primary. The others must follow it.
    Promoted(usize),
}

/// The visible state of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// Whether it answers.
    pub answers: bool,
    /// Whether it reports that it is a primary.
    pub is_primary: bool,
    /// The simulated node that it follows, if any.
    pub follows: Option<usize>,
    /// Whether it has all data that its primary had at some time. Sentinels vote for no other.
    pub is_whole: bool,
    pub offset: u64,
}

/// A change of nodes, or a message to subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// REPLICAOF NO ONE.
    Promote { shard: usize, heir: usize },
    /// REPLICAOF.
    Follow { node: usize, primary: usize },
    /// This sentinel gave a failover up after a replica had become a primary: the old one is the rightful primary.
    Restore { shard: usize, to: usize, by: usize },
    /// A message.
    Say { sentinel: usize, channel: &'static str, text: String },
}

/// down-after-milliseconds.
const DOWN_AFTER: Duration = Duration::from_millis(400);
/// failover-timeout.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(3);
/// Time after which a sentinel without election gives up.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval of a sentinel's messages to the others.
const HELLO_EVERY: Duration = Duration::from_millis(500);
/// Time after which a node that follows a wrong node, or none, is corrected: four intervals.
const CORRECTED_AFTER: Duration = Duration::from_millis(4 * 500);
/// Random delay, so that sentinels do not begin at the same time.
const DESYNC_MAX: Duration = Duration::from_millis(250);

/// The name of a shard.
pub(crate) fn name_of(shard: usize) -> String {
    format!("set{shard}")
}

/// Where a sentinel listens.
pub(crate) fn sentinel_address(sentinel: usize) -> Address {
    NodeSpec::tcp(&format!("10.0.1.{}", sentinel + 1), SENTINEL_PORT).address
}

const SENTINEL_PORT: u16 = 26379;

/// The host at an address.
pub(crate) fn host_at(address: &Address) -> Host {
    let number = crate::cluster::node_at(address);
    match address {
        Address::Tcp { port: SENTINEL_PORT, .. } => Host::Sentinel(number),
        _ => Host::Node(number),
    }
}

/// Host and port of a node, as messages have them.
fn place(node: usize) -> String {
    address(node).address.to_string().replace(':', " ")
}

impl Watch {
    /// Sentinels with these delays, over `shards` shards of `nodes` nodes, whose first are the primaries.
    pub(crate) fn new(
        slowness: &[Duration],
        (named, quorum): (usize, usize),
        (shards, nodes): (usize, usize),
    ) -> Watch {
        let view = |primary| View {
            primary,
            epoch: 0,
            is_down: false,
            voted: (0, 0),
            not_before: Instant::ZERO,
            failover: None,
        };
        let sentinel = |&slowness: &Duration| Sentinel {
            is_down: false,
            is_replaced: false,
            frozen_until: Instant::ZERO,
            slowness,
            current_epoch: 0,
            hello_at: Instant::ZERO,
            heard_at: vec![Instant::ZERO; nodes],
            odd_since: vec![None; nodes],
            views: (0..shards).map(view).collect(),
        };
        Watch {
            sentinels: slowness.iter().map(sentinel).collect(),
            named,
            quorum,
            island: BTreeSet::new(),
            reigns: (0..shards).map(|shard| vec![shard]).collect(),
        }
    }

    fn shards(&self) -> usize {
        self.reigns.len()
    }

    /// The shard of `node`.
    pub(crate) fn shard_of(&self, node: usize) -> usize {
        node % self.shards()
    }

    /// The rightful primary of `shard`.
    pub(crate) fn primary_of(&self, shard: usize) -> usize {
        self.reigns[shard].last().copied().unwrap_or(shard)
    }

    /// `node` is the rightful primary of its shard from now on.
    pub(crate) fn crown(&mut self, node: usize) {
        let shard = self.shard_of(node);
        self.reigns[shard].push(node);
    }

    /// The first reign of `node`, from this number on.
    pub(crate) fn reign_of(&self, node: usize, since: usize) -> Option<usize> {
        let mut later = self.reigns[self.shard_of(node)].iter().enumerate().skip(since);
        later.find(|(_, other)| **other == node).map(|(number, _)| number)
    }

    /// Whether one does not hear the other.
    pub(crate) fn are_apart(&self, one: Host, other: Host) -> bool {
        self.island.contains(&one) != self.island.contains(&other)
    }

    /// These do not hear the others any more.
    pub(crate) fn split(&mut self, island: BTreeSet<Host>) {
        self.island = island;
    }

    /// Whether some do not hear others.
    pub(crate) fn is_split(&self) -> bool {
        !self.island.is_empty()
    }

    /// Ends the partition. Sentinels must observe all nodes anew.
    pub(crate) fn heal(&mut self) {
        self.island.clear();
        self.sentinels.iter_mut().for_each(|sentinel| sentinel.odd_since.fill(None));
    }

    /// The process dies. Its failovers end; its saved knowledge stays.
    pub(crate) fn kill(&mut self, number: usize) -> Vec<Deed> {
        self.sentinels[number].is_down = true;
        let mut deeds = Vec::new();
        (0..self.shards()).for_each(|shard| self.give_up(number, shard, &mut deeds));
        deeds
    }

    /// The process is back and has observed no node yet.
    pub(crate) fn revive(&mut self, number: usize, now: Instant) {
        let sentinel = &mut self.sentinels[number];
        (sentinel.is_down, sentinel.is_replaced) = (false, false);
        sentinel.heard_at.fill(now);
        sentinel.odd_since.fill(None);
    }

    /// All names are removed from all sentinels, and added again with the present primaries.
    pub(crate) fn set_up_anew(&mut self) -> Vec<Deed> {
        let mut deeds = Vec::new();
        for shard in 0..self.shards() {
            (0..self.sentinels.len()).for_each(|number| self.give_up(number, shard, &mut deeds));
            let Some((primary, _)) = self.newest_claim(shard) else { continue };
            for view in self.sentinels.iter_mut().map(|sentinel| &mut sentinel.views[shard]) {
                (view.primary, view.epoch, view.voted) = (primary, 0, (0, 0));
            }
        }
        self.sentinels.iter_mut().for_each(|sentinel| sentinel.current_epoch = 0);
        deeds
    }

    /// Whether a sentinel carries out a failover of `shard`.
    pub(crate) fn is_failing_over(&self, shard: usize) -> bool {
        self.sentinels.iter().any(|sentinel| sentinel.views[shard].failover.is_some())
    }

    /// Whether all sentinels are there and say the same of `shard`.
    pub(crate) fn agree_on(&self, shard: usize) -> bool {
        let primary = self.primary_of(shard);
        let agrees = |sentinel: &Sentinel| !sentinel.is_down && sentinel.views[shard].primary == primary;
        self.sentinels.iter().all(agrees) && !self.is_failing_over(shard)
    }

    /// Whether sentinel `number` names the rightful primary of `shard`, by the newest epoch.
    pub(crate) fn knows(&self, number: usize, shard: usize) -> bool {
        let view = &self.sentinels[number].views[shard];
        let newest = self.sentinels.iter().map(|sentinel| sentinel.views[shard].epoch).max();
        view.claimed() == self.primary_of(shard) && Some(view.epoch) == newest
    }

    /// Whether sentinel `number` has the newest knowledge about `shard`.
    pub(crate) fn is_newest(&self, number: usize, shard: usize) -> bool {
        let its = self.sentinels[number].views[shard].epoch;
        self.sentinels.iter().all(|sentinel| sentinel.views[shard].epoch <= its)
    }

    /// Whether `node` is the primary of its shard by the newest claim, and no sentinel is about to replace it.
    pub(crate) fn is_claimed(&self, node: usize) -> bool {
        let shard = self.shard_of(node);
        self.newest_claim(shard).is_some_and(|(claimed, _)| claimed == node) && !self.is_failing_over(shard)
    }

    /// The primary by the newest claim, and the epoch of its failover.
    fn newest_claim(&self, shard: usize) -> Option<(usize, u64)> {
        let views = self.sentinels.iter().map(|sentinel| &sentinel.views[shard]);
        views.max_by_key(|view| view.epoch).map(|view| (view.claimed(), view.epoch))
    }

    /// An operator repairs a state that sentinels cannot: the newest claim holds everywhere. Returns the primaries, and the
    /// messages.
    pub(crate) fn mend(&mut self) -> (Vec<usize>, Vec<Deed>) {
        let mut deeds = Vec::new();
        self.heal();
        for shard in 0..self.shards() {
            let Some((primary, epoch)) = self.newest_claim(shard) else { continue };
            for number in 0..self.sentinels.len() {
                self.sentinels[number].views[shard].epoch = epoch;
                self.switch(number, shard, primary, &mut deeds);
            }
        }
        (self.sentinels[0].views.iter().map(|view| view.primary).collect(), deeds)
    }

    /// SENTINEL FAILOVER at sentinel `number`. All learn of the new epoch.
    pub(crate) fn order(&mut self, number: usize, shard: usize, now: Instant) {
        let epoch = self.newest_epoch() + 1;
        if self.is_failing_over(shard) || self.is_split() || self.sentinels.iter().any(|it| it.is_down) {
            return;
        }
        self.sentinels.iter_mut().for_each(|sentinel| sentinel.current_epoch = epoch);
        let stage = Stage::Begun;
        self.sentinels[number].views[shard].failover =
            Some(Failover { epoch, stage, since: now, is_forced: true });
    }

    fn newest_epoch(&self) -> u64 {
        self.sentinels.iter().map(|sentinel| sentinel.current_epoch).max().unwrap_or_default()
    }

    /// Sentinel `number` observes everything, as it does ten times a second.
    pub(crate) fn tend(
        &mut self,
        number: usize,
        sights: &[Sight],
        now: Instant,
        prng: &mut Prng,
    ) -> Vec<Deed> {
        let mut deeds = Vec::new();
        self.look(number, sights, now);
        if self.sentinels[number].hello_at <= now {
            self.greet(number, sights, now, &mut deeds);
        }
        for shard in 0..self.shards() {
            self.note_down(number, shard, now, &mut deeds);
            match self.sentinels[number].views[shard].failover {
                Some(failover) => self.go_on((number, shard), failover, sights, now, prng, &mut deeds),
                None => {
                    self.correct(number, shard, sights, now, &mut deeds);
                    self.begin(number, shard, now, prng, &mut deeds);
                }
            }
        }
        deeds
    }

    fn reaches(&self, number: usize, node: usize, sights: &[Sight]) -> bool {
        sights[node].answers && !self.are_apart(Host::Sentinel(number), Host::Node(node))
    }

    /// Records which nodes answer, and the roles that they report.
    fn look(&mut self, number: usize, sights: &[Sight], now: Instant) {
        for (node, sight) in sights.iter().enumerate() {
            if !self.reaches(number, node, sights) {
                continue;
            }
            let shard = self.shard_of(node);
            let sentinel = &mut self.sentinels[number];
            sentinel.heard_at[node] = now;
            let primary = sentinel.views[shard].primary;
            let is_right = match node == primary {
                true => sight.is_primary,
                false => sight.follows == Some(primary),
            };
            let since = &mut sentinel.odd_since[node];
            *since = if is_right { None } else { since.or(Some(now)) };
        }
    }

    /// Sentinel `number` exchanges its knowledge with the others.
    fn greet(&mut self, number: usize, sights: &[Sight], now: Instant, deeds: &mut Vec<Deed>) {
        self.sentinels[number].hello_at = now + HELLO_EVERY;
        for shard in 0..self.shards() {
            // The messages go through the nodes.
            let is_heard = |node: usize| self.shard_of(node) == shard && self.reaches(number, node, sights);
            if !(0..sights.len()).any(is_heard) {
                continue;
            }
            let (primary, epoch) =
                (self.sentinels[number].views[shard].claimed(), self.sentinels[number].views[shard].epoch);
            let current_epoch = self.sentinels[number].current_epoch;
            for other in self.others_of(number, now) {
                let sentinel = &mut self.sentinels[other];
                sentinel.current_epoch = sentinel.current_epoch.max(current_epoch);
                let view = &mut sentinel.views[shard];
                if view.epoch >= epoch {
                    continue;
                }
                view.epoch = epoch;
                if view.claimed() == primary {
                    continue;
                }
                deeds.push(say(other, "+config-update-from", format!("sentinel @ {}", name_of(shard))));
                self.switch(other, shard, primary, deeds);
            }
        }
    }

    /// Sentinel `number` knows another primary.
    fn switch(&mut self, number: usize, shard: usize, primary: usize, deeds: &mut Vec<Deed>) {
        let shards = self.shards();
        let sentinel = &mut self.sentinels[number];
        let old = std::mem::replace(&mut sentinel.views[shard].primary, primary);
        let failover = sentinel.views[shard].failover.take();
        sentinel.views[shard].is_down = false;
        let nodes = (shard..sentinel.odd_since.len()).step_by(shards);
        nodes.for_each(|node| sentinel.odd_since[node] = None);
        let text = format!("{} {} {}", name_of(shard), place(old), place(primary));
        deeds.push(say(number, "+switch-master", text));
        // Its own failover ends, though its heir may have become a primary.
        if let Some(Failover { stage: Stage::Chosen(heir) | Stage::Told(heir), .. }) = failover
            && heir != primary
            && self.primary_of(shard) == heir
        {
            deeds.push(Deed::Restore { shard, to: primary, by: number });
        }
    }

    /// The sentinels that hear `number`.
    fn others_of(&self, number: usize, now: Instant) -> Vec<usize> {
        let hears = |other: &usize| {
            let sentinel = &self.sentinels[*other];
            *other != number
                && !sentinel.is_down
                && sentinel.frozen_until <= now
                && !self.are_apart(Host::Sentinel(number), Host::Sentinel(*other))
        };
        (0..self.sentinels.len()).filter(hears).collect()
    }

    /// Whether the primary of `shard` does not answer sentinel `number`.
    fn finds_down(&self, number: usize, shard: usize, now: Instant) -> bool {
        let sentinel = &self.sentinels[number];
        now.since(sentinel.heard_at[sentinel.views[shard].primary]) > DOWN_AFTER
    }

    fn note_down(&mut self, number: usize, shard: usize, now: Instant, deeds: &mut Vec<Deed>) {
        let is_down = self.finds_down(number, shard, now);
        let view = &mut self.sentinels[number].views[shard];
        if std::mem::replace(&mut view.is_down, is_down) != is_down {
            let text = format!("master {} {}", name_of(shard), place(view.primary));
            deeds.push(say(number, if is_down { "+sdown" } else { "-sdown" }, text));
        }
    }

    /// Begins a failover, if the quorum finds the primary down.
    fn begin(&mut self, number: usize, shard: usize, now: Instant, prng: &mut Prng, deeds: &mut Vec<Deed>) {
        let View { primary, not_before, is_down, .. } = self.sentinels[number].views[shard];
        let agrees = |other: &usize| {
            self.sentinels[*other].views[shard].primary == primary && self.finds_down(*other, shard, now)
        };
        let votes = 1 + self.others_of(number, now).into_iter().filter(agrees).count();
        if !is_down || votes < self.quorum || not_before > now {
            return;
        }
        let sentinel = &mut self.sentinels[number];
        sentinel.current_epoch += 1;
        let epoch = sentinel.current_epoch;
        let view = &mut sentinel.views[shard];
        view.voted = (epoch, number);
        view.not_before = now + 2 * FAILOVER_TIMEOUT + desync(prng);
        view.failover = Some(Failover { epoch, stage: Stage::Begun, since: now, is_forced: false });
        let text = format!("master {} {}", name_of(shard), place(primary));
        deeds.push(say(number, "+odown", text.clone()));
        deeds.push(say(number, "+try-failover", text));
    }

    /// The next step of a failover, if it is due.
    fn go_on(
        &mut self,
        (number, shard): (usize, usize),
        failover: Failover,
        sights: &[Sight],
        now: Instant,
        prng: &mut Prng,
        deeds: &mut Vec<Deed>,
    ) {
        let is_late = |after: Duration| now.since(failover.since) > after;
        let primary = self.sentinels[number].views[shard].primary;
        let about = |heir: usize| {
            let spot = address(heir).address;
            format!("slave {spot} {} @ {} {}", place(heir), name_of(shard), place(primary))
        };
        match failover.stage {
            Stage::Begun
                if failover.is_forced || self.is_elected(number, shard, failover.epoch, now, prng) =>
            {
                let Some(heir) = self.choose(number, shard, sights) else {
                    deeds.push(say(number, "-failover-abort-no-good-slave", name_of(shard)));
                    return self.give_up(number, shard, deeds);
                };
                self.advance(number, shard, Stage::Chosen(heir), now);
                deeds.push(say(number, "+selected-slave", about(heir)));
                if sights[heir].is_primary {
                    // By an operator's mistake, or because an earlier failover was not finished.
                    deeds.push(Deed::Promote { shard, heir });
                }
            }
            Stage::Begun if is_late(ELECTION_TIMEOUT) => {
                deeds.push(say(number, "-failover-abort-not-elected", name_of(shard)));
                self.give_up(number, shard, deeds);
            }
            Stage::Chosen(heir) if self.reaches(number, heir, sights) && prng.one_in(2) => {
                deeds.push(Deed::Promote { shard, heir });
                self.advance(number, shard, Stage::Told(heir), now);
                deeds.push(say(number, "+failover-state-wait-promotion", about(heir)));
            }
            // INFO is asked for once in a while.
            Stage::Told(heir)
                if self.reaches(number, heir, sights) && sights[heir].is_primary && prng.one_in(4) =>
            {
                self.advance(number, shard, Stage::Promoted(heir), now);
                self.sentinels[number].views[shard].epoch = failover.epoch;
                deeds.push(say(number, "+promoted-slave", about(heir)));
                self.greet(number, sights, now, deeds);
            }
            Stage::Promoted(heir) => {
                let is_other = |node: &usize| {
                    *node != heir
                        && *node != primary
                        && self.reaches(number, *node, sights)
                        && sights[*node].follows != Some(heir)
                };
                let others = (shard..sights.len()).step_by(self.shards()).filter(is_other);
                deeds.extend(others.map(|node| Deed::Follow { node, primary: heir }));
                if prng.one_in(3) || is_late(FAILOVER_TIMEOUT) {
                    self.switch(number, shard, heir, deeds);
                }
            }
            Stage::Chosen(_) | Stage::Told(_) if is_late(FAILOVER_TIMEOUT) => {
                deeds.push(say(number, "-failover-abort-slave-timeout", name_of(shard)));
                self.give_up(number, shard, deeds);
            }
            Stage::Begun | Stage::Chosen(_) | Stage::Told(_) => {}
        }
    }

    fn advance(&mut self, number: usize, shard: usize, stage: Stage, now: Instant) {
        if let Some(failover) = &mut self.sentinels[number].views[shard].failover {
            (failover.stage, failover.since) = (stage, now);
        }
    }

    /// Ends a failover. A replica that is a primary by the newer epoch stays one.
    fn give_up(&mut self, number: usize, shard: usize, deeds: &mut Vec<Deed>) {
        let newest = self.sentinels.iter().map(|sentinel| sentinel.views[shard].epoch).max();
        let view = &mut self.sentinels[number].views[shard];
        let Some(failover) = view.failover.take() else { return };
        match failover.stage {
            Stage::Promoted(heir) => self.switch(number, shard, heir, deeds),
            Stage::Chosen(heir) | Stage::Told(heir)
                if newest < Some(failover.epoch) && self.primary_of(shard) == heir =>
            {
                let to = self.sentinels[number].views[shard].primary;
                deeds.push(Deed::Restore { shard, to, by: number });
            }
            _ => {}
        }
    }

    /// Whether a majority has voted for sentinel `number`.
    fn is_elected(&mut self, number: usize, shard: usize, epoch: u64, now: Instant, prng: &mut Prng) -> bool {
        if prng.one_in(2) {
            return false;
        }
        let mut votes = 1;
        for other in self.others_of(number, now) {
            let sentinel = &mut self.sentinels[other];
            sentinel.current_epoch = sentinel.current_epoch.max(epoch);
            let view = &mut sentinel.views[shard];
            if view.voted.0 < epoch {
                view.voted = (epoch, number);
                view.not_before = now + 2 * FAILOVER_TIMEOUT + desync(prng);
            }
            votes += usize::from(view.voted == (epoch, number));
        }
        2 * votes > self.sentinels.len() && votes >= self.quorum
    }

    /// The replica that becomes the primary of `shard`: of those that answer, the one with the most data.
    fn choose(&self, number: usize, shard: usize, sights: &[Sight]) -> Option<usize> {
        let primary = self.sentinels[number].views[shard].primary;
        let fits = |node: &usize| {
            let sight = sights[*node];
            *node != primary
                && self.reaches(number, *node, sights)
                && (sight.is_primary || sight.is_whole && sight.follows.is_some())
        };
        let replicas = (shard..sights.len()).step_by(self.shards());
        replicas.filter(fits).max_by_key(|node| sights[*node].offset)
    }

    /// Tells nodes that follow another node than the primary, or none, to follow it.
    fn correct(&self, number: usize, shard: usize, sights: &[Sight], now: Instant, deeds: &mut Vec<Deed>) {
        let sentinel = &self.sentinels[number];
        let primary = sentinel.views[shard].primary;
        if !self.reaches(number, primary, sights) || !sights[primary].is_primary {
            return;
        }
        let is_odd = |node: &usize| {
            let since = sentinel.odd_since[*node].filter(|_| self.reaches(number, *node, sights));
            since.is_some_and(|since| now.since(since) >= CORRECTED_AFTER)
        };
        for node in (shard..sights.len()).step_by(self.shards()).filter(is_odd) {
            let (channel, spot) = match sights[node].is_primary {
                true => ("+convert-to-slave", address(node).address),
                false => ("+fix-slave-config", address(node).address),
            };
            let text = format!("slave {spot} {} @ {} {}", place(node), name_of(shard), place(primary));
            deeds.push(say(number, channel, text));
            deeds.push(Deed::Follow { node, primary });
        }
    }
}

impl View {
    /// The primary that it reports.
    fn claimed(&self) -> usize {
        match self.failover {
            Some(Failover { stage: Stage::Promoted(heir), .. }) => heir,
            _ => self.primary,
        }
    }
}

fn desync(prng: &mut Prng) -> Duration {
    Duration::from_nanos(prng.below(DESYNC_MAX.as_nanos() as u64))
}

fn say(sentinel: usize, channel: &'static str, text: String) -> Deed {
    Deed::Say { sentinel, channel, text }
}
