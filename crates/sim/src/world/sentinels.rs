//! Sentinels in a world: they observe nodes, promote replicas, and publish that. The checks define the duties of a proxy that
//! listens to them.
//!
//! ```text
//!   sentinels ─► Deed: REPLICAOF NO ONE, REPLICAOF ─► nodes: what one had alone is lost, and the ledger is told of which keys
//!       └─ what they know, what they say ─► the machine ─► who is the primary ─┬─ never one that was none by right
//!                                                                             ├─ never again one that was replaced
//!                                                                             └─ soon the right one, if a sentinel names it
//! ```
//!
//! Replication is asynchronous. A promoted replica has only the changes that arrived, and a replaced primary that does not know
//! of it acknowledges writes that are lost. The proxy cannot prevent these, so they are not judged. The proxy must stop sending
//! them in time: the checks measure when it learns of the new primary.

use super::discovery::Scout;
use super::{What, World};
use crate::plan::{Plan, STRANDED_FOR, Trouble};
use crate::replication::{Follower, Log};
use crate::sentinels::words::message;
use crate::sentinels::{Deed, Host, Sight, Stage, Watch, host_at, name_of, sentinel_address};
use std::collections::BTreeSet;
use std::time::Duration;
use stdx::Instant;
use topology::ShardSpec;
use topology::discovery::{Discovery, SentinelDiscovery, SentinelSettings};

/// Interval of a sentinel's looks at nodes.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Time after which the proxy knows the right primary that a reachable sentinel has named. It covers two attempts to connect,
/// one of them to a dead address.
const KNOWN_WITHIN: Duration = Duration::from_millis(1_500);
/// Time after which no discovery takes a node for a primary that said it is none: a turn and a look.
const DENIED_WITHIN: Duration = Duration::from_millis(200);
/// Time within which a node that declines writes is asked for its role, as long as there are writes.
const WISHED_WITHIN: Duration = Duration::from_millis(1_500);
/// Time after which a sentinel on dead connections is given up: suspect after 5 s of silence, and dropped a second later.
const DOUBTED_AFTER: Duration = Duration::from_secs(7);
/// Time for which newer knowledge is kept while most sentinels report an older state.
const OLDER_AFTER: Duration = Duration::from_secs(10);
/// Time within which sentinels most often replace a primary that some do not hear any more.
const REPLACED_WITHIN: Duration = Duration::from_millis(2_500);
/// Time after which a promoted heir is known, while the sentinel that chose it can be asked.
const FOLLOWED_WITHIN: Duration = Duration::from_millis(1_000);
/// Interval of discovery as in production, too long to learn anything in time.
const PERIOD: Duration = Duration::from_secs(10);

/// The requirements on the discovery of primaries.
pub(super) struct Patrol {
    /// By shard: the reign that agrees with the last discovered primary.
    reigns: Vec<usize>,
    /// By shard and sentinel: time since which this one was reachable and named the right primary, which was reachable too.
    right_since: Vec<Vec<Instant>>,
    /// By sentinel: something is wrong with its connections until then.
    troubled_until: Vec<Instant>,
    /// A sentinel of the configuration has named its fellows. The proxy knows the others only by such an answer.
    are_others_known: bool,
    /// By sentinel: others have reported, or may have, that it is down. Since then, a sentinel outside of the configuration may
    /// not be asked.
    was_missed: Vec<bool>,
    /// By shard: a promoted heir, and the time since which it can be known as one.
    heir_since: Vec<Option<(usize, Instant)>>,
    /// By node: whether it reported itself as a primary in reply to the last question of discovery, and the time of that.
    roles: Vec<Option<(bool, Instant)>>,
    /// By shard: the primary that was discovered last, and the time of that.
    known: Vec<(Option<usize>, Instant)>,
}

impl Patrol {
    pub(super) fn new(plan: &Plan) -> Patrol {
        let count = plan.watching.as_ref().map_or(0, |watching| watching.slowness.len());
        Patrol {
            reigns: vec![0; plan.shards],
            right_since: vec![vec![Instant::ZERO; count]; plan.shards],
            troubled_until: vec![Instant::ZERO; count],
            are_others_known: false,
            was_missed: vec![false; count],
            heir_since: vec![None; plan.shards],
            roles: vec![None; plan.nodes()],
            known: vec![(None, Instant::ZERO); plan.shards],
        }
    }

    fn trouble(&mut self, sentinel: usize, until: Instant) {
        let troubled_until = &mut self.troubled_until[sentinel];
        *troubled_until = (*troubled_until).max(until);
    }

    /// A sentinel of the configuration has named its fellows to the discovery.
    pub(super) fn note_others(&mut self) {
        self.are_others_known = true;
    }

    /// `node` has reported its role to the discovery.
    pub(super) fn note_role(&mut self, node: usize, is_primary: bool, now: Instant) {
        self.roles[node] = Some((is_primary, now));
    }
}

/// The discovery that listens to the first `named` sentinels.
pub(super) fn scout(named: usize, shards: usize, seed: u64) -> Scout {
    let settings = SentinelSettings {
        sentinels: (0..named).map(sentinel_address).collect(),
        names: (0..shards).map(name_of).collect(),
        period: PERIOD,
        sentinel_greeting: None,
        node_greeting: None,
        seed,
    };
    Scout::new(Discovery::Sentinel(Box::new(SentinelDiscovery::new(settings))))
}

/// Adds zones, which nodes do not report: each replica is in another zone than its primary.
pub(super) fn label(shards: &[ShardSpec], count: usize) -> Vec<ShardSpec> {
    let mut shards = shards.to_vec();
    for node in shards.iter_mut().flat_map(|shard| shard.primary.iter_mut().chain(&mut shard.replicas)) {
        let is_first = matches!(host_at(&node.address), Host::Node(number) if number < count);
        node.zone = Some(if is_first { "a" } else { "b" }.to_owned());
    }
    shards
}

impl World<'_> {
    pub(super) fn plan_sentinels(&mut self) {
        let count = self.watch.as_ref().map_or(0, |watch| watch.sentinels.len());
        (0..count).for_each(|sentinel| self.plan_in_up_to(LOOKS_EVERY, What::Tend(sentinel)));
        if count > 0 {
            self.plan_at(self.now + LOOKS_EVERY, What::Patrol);
        }
    }

    /// A sentinel looks at everything.
    pub(super) fn tend(&mut self, number: usize) {
        let sights = self.sights();
        let Some(watch) = &mut self.watch else { return };
        let sentinel = &watch.sentinels[number];
        if sentinel.frozen_until > self.now {
            let until = sentinel.frozen_until;
            return self.plan_at(until, What::Tend(number));
        }
        if !sentinel.is_down {
            let deeds = watch.tend(number, &sights, self.now, &mut self.prng);
            self.carry_out(deeds);
        }
        self.plan_at(self.now + LOOKS_EVERY, What::Tend(number));
    }

    /// The visible state of all nodes.
    fn sights(&self) -> Vec<Sight> {
        let sight = |node: usize| {
            let it = &self.nodes[node];
            let is_whole = it.follower.as_ref().zip(it.follows);
            Sight {
                answers: !it.down && it.frozen_until <= self.now,
                is_primary: it.follower.is_none(),
                follows: it.follows,
                is_whole: is_whole.is_some_and(|(it, primary)| it.follows(&self.nodes[primary].log)),
                offset: it.follower.as_ref().map_or(0, |it| it.offset),
            }
        };
        (0..self.nodes.len()).map(sight).collect()
    }

    fn carry_out(&mut self, deeds: Vec<Deed>) {
        for deed in deeds {
            if self.trace {
                println!("{:>12} us  {deed:?}", self.now.as_nanos() / 1000);
            }
            match deed {
                Deed::Promote { heir, .. } => self.crown(heir),
                Deed::Follow { node, primary } => self.make_follow(node, primary),
                Deed::Restore { shard, to, by } => {
                    self.restore(shard, to);
                    // Once the node answers again, its state is clear.
                    self.patrol.right_since[shard][by] = self.now;
                }
                Deed::Say { sentinel, channel, text } => {
                    self.say_to_scout(sentinel, &message(channel, &text));
                }
            }
        }
    }

    /// Sentinels make `heir` a primary. All its connections are closed.
    fn crown(&mut self, heir: usize) {
        if let Some(primary) = self.nodes[heir].follows {
            let is_near = !self.is_apart(heir, primary) && !self.nodes[primary].down;
            let catches_up = is_near && self.prng.one_in(2);
            let [replica, primary] = self.nodes.get_disjoint_mut([heir, primary]).expect("two nodes");
            if let Some(follower) = replica.follower.as_mut().filter(|_| catches_up) {
                follower.go_on(&primary.log, &mut replica.keyspace, usize::MAX, self.now);
            }
        }
        if self.nodes[heir].follower.is_some() {
            self.make_primary(heir);
            self.cut_clients(heir);
            self.report.successors += 1;
        }
        self.pass_crown(heir);
    }

    /// The node reports that it is a primary.
    fn make_primary(&mut self, node: usize) {
        self.histories += 1;
        let node = &mut self.nodes[node];
        let offset = node.follower.as_ref().map_or(0, |follower| follower.offset);
        node.log = Log::new(self.histories, offset);
        (node.follower, node.follows, node.declines_since) = (None, None, None);
    }

    /// The data of `heir` is the valid data from now on. Changes that only another node has are lost.
    fn pass_crown(&mut self, heir: usize) {
        let Some(watch) = &mut self.watch else { return };
        let old = watch.primary_of(watch.shard_of(heir));
        if old == heir {
            return;
        }
        watch.crown(heir);
        let now = self.now;
        let [gone, new] = self.nodes.get_disjoint_mut([old, heir]).expect("two nodes");
        let keys: BTreeSet<Vec<u8>> =
            gone.keyspace.keys(now).into_iter().chain(new.keyspace.keys(now)).collect();
        for key in keys {
            if gone.keyspace.dump(&key, now) != new.keyspace.dump(&key, now) {
                let left = new.keyspace.ask(&[b"GET", &key], now);
                self.ledger.tail_lost(&key, resp::reply::as_bulk(&left));
            }
        }
    }

    /// A failover was given up: `to` is the rightful primary, if it still is a primary.
    fn restore(&mut self, shard: usize, to: usize) {
        if self.nodes[to].follower.is_none() {
            self.pass_crown(to);
        }
        let until = self.now + OLDER_AFTER;
        self.patrol.right_since[shard].fill(until);
    }

    /// A sentinel tells `node` to follow `primary`. All its connections are closed.
    fn make_follow(&mut self, node: usize, primary: usize) {
        let shard = self.watch.as_ref().map_or(0, |watch| watch.shard_of(node));
        if self.watch.as_ref().is_some_and(|watch| watch.primary_of(shard) == node) {
            self.restore(shard, primary);
        }
        self.nodes[node].follower = Some(Follower::new(self.now));
        self.nodes[node].follows = Some(primary);
        self.cut_clients(node);
        self.plan_replication(node);
    }

    fn cut_clients(&mut self, node: usize) {
        self.nodes[node].die();
        self.reset_links(node);
        self.nodes[node].due_at = None;
    }

    /// Whether two nodes do not hear each other.
    pub(super) fn is_apart(&self, one: usize, other: usize) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.are_apart(Host::Node(one), Host::Node(other)))
    }

    /// `node` has run a request. If it is a replaced primary that does not know of it, its writes since `place` of its log are
    /// lost.
    pub(super) fn note_vain_writes(&mut self, node: usize, place: usize) {
        let Some(watch) = &self.watch else { return };
        let primary = watch.primary_of(watch.shard_of(node));
        if primary == node {
            return;
        }
        for key in self.nodes[node].log.keys_from(place) {
            let left = self.nodes[primary].keyspace.ask(&[b"GET", &key], self.now);
            self.ledger.tail_lost(&key, resp::reply::as_bulk(&left));
        }
    }

    // Faults.

    /// A partition: the primary of `shard` on one side with some sentinels, or some sentinels alone.
    pub(super) fn split(&mut self, shard: usize, lasts: Duration) {
        let Some(watch) = &mut self.watch else { return };
        if watch.is_split() {
            return;
        }
        let mut island = BTreeSet::new();
        if !self.prng.one_in(4) {
            island.insert(Host::Node(watch.primary_of(shard)));
        }
        for node in (shard..self.nodes.len()).step_by(self.plan.shards) {
            if self.prng.one_in(4) {
                island.insert(Host::Node(node));
            }
        }
        for sentinel in 0..watch.sentinels.len() {
            if self.prng.one_in(3) {
                island.insert(Host::Sentinel(sentinel));
            }
        }
        watch.split(island);
        self.plan_at(self.now + lasts, What::Unite);
    }

    /// All hear all again.
    pub(super) fn unite(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.heal();
        }
        (0..self.nodes.len()).for_each(|node| self.plan_replication(node));
    }

    /// An operator orders a failover.
    pub(super) fn order_failover(&mut self, shard: usize, sentinel: usize) {
        if let Some(watch) = &mut self.watch {
            watch.order(sentinel, shard, self.now);
        }
    }

    /// One sentinel alone stays with the primary of `shard`. The others die, once they can have replaced it.
    pub(super) fn strand(&mut self, shard: usize, sentinel: usize) {
        let Some(watch) = self.watch.as_mut().filter(|watch| !watch.is_split()) else { return };
        watch.split(BTreeSet::from([Host::Node(watch.primary_of(shard)), Host::Sentinel(sentinel)]));
        let others = (0..watch.sentinels.len()).filter(|other| *other != sentinel);
        others
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|other| self.plan_at(self.now + REPLACED_WITHIN, What::Fell(other)));
        self.plan_at(self.now + STRANDED_FOR, What::Unite);
    }

    /// A sentinel dies, for almost as long as another stays alone.
    pub(super) fn fell(&mut self, sentinel: usize) {
        self.trouble_sentinel(sentinel, Trouble::Kill, STRANDED_FOR - 2 * REPLACED_WITHIN);
    }

    /// Something happens to a sentinel.
    pub(super) fn trouble_sentinel(&mut self, sentinel: usize, trouble: Trouble, lasts: Duration) {
        let until = self.now + lasts;
        let Some(watch) = self.watch.as_mut().filter(|watch| sentinel < watch.sentinels.len()) else {
            return;
        };
        match trouble {
            Trouble::Freeze => {
                watch.sentinels[sentinel].frozen_until = until;
                self.patrol.trouble(sentinel, until);
            }
            Trouble::Kill | Trouble::Replace => {
                let deeds = watch.kill(sentinel);
                watch.sentinels[sentinel].is_replaced =
                    trouble == Trouble::Replace && sentinel >= watch.named;
                self.carry_out(deeds);
                self.hang_up(Host::Sentinel(sentinel));
                self.plan_at(until, What::ReviveSentinel(sentinel));
                self.patrol.trouble(sentinel, until);
            }
            Trouble::Reset => {
                self.hang_up(Host::Sentinel(sentinel));
                self.patrol.trouble(sentinel, self.now);
            }
            Trouble::Vanish => {
                self.lose_talks(sentinel);
                self.patrol.trouble(sentinel, self.now + DOUBTED_AFTER);
            }
        }
    }

    pub(super) fn revive_sentinel(&mut self, sentinel: usize) {
        let now = self.now;
        if let Some(watch) = &mut self.watch {
            watch.revive(sentinel, now);
        }
    }

    /// All names are added to sentinels anew: their epochs begin at 0.
    pub(super) fn set_sentinels_up(&mut self) {
        if let Some(watch) = &mut self.watch {
            let deeds = watch.set_up_anew();
            self.carry_out(deeds);
            // With the next failover, most sentinels report an older state than the known one, and may do so for long.
            self.patrol.right_since.iter_mut().for_each(|since| since.fill(Instant::NEVER));
        }
    }

    /// An operator's mistake: a replica becomes a primary, or a primary follows an unknown node. It is corrected later, unless
    /// a sentinel does so before.
    pub(super) fn mistake(&mut self, node: usize, lasts: Duration) {
        let Some(watch) = &self.watch else { return };
        let shard = watch.shard_of(node);
        let is_primary = watch.primary_of(shard) == node;
        // During a failover this would be no mistake.
        if self.nodes[node].down
            || watch.is_failing_over(shard)
            || is_primary != self.nodes[node].follower.is_none()
        {
            return;
        }
        if !is_primary {
            return self.make_primary(node);
        }
        let it = &mut self.nodes[node];
        (it.follower, it.follows) = (Some(Follower::new(self.now)), None);
        // Clients that wait for an element get an error, and their connections are closed.
        for conn in it.waiting_conns() {
            self.say_to_proxy(conn, UNBLOCKED);
            self.with_link(conn, |link| link.to_proxy.ended = true);
        }
        self.excuse_all();
        self.plan_at(self.now + lasts, What::Correct(node));
    }

    /// The primaries have just changed, or the nodes that answer.
    fn excuse_all(&mut self) {
        let now = self.now;
        self.patrol.right_since.iter_mut().flatten().for_each(|since| *since = (*since).max(now));
    }

    /// The primary that was told to follow an unknown node is a primary again.
    pub(super) fn correct(&mut self, node: usize) {
        self.excuse_all();
        let it = &mut self.nodes[node];
        if it.follower.is_none() || it.follows.is_some() {
            return;
        }
        (it.follower, it.declines_since) = (None, None);
        // A failover may have been given up meanwhile.
        if self.watch.as_ref().is_some_and(|watch| watch.is_claimed(node)) {
            self.pass_crown(node);
        }
    }

    // Expectations.

    /// Checks the last discovered primaries: none was replaced by one that the proxy already knew.
    pub(super) fn check_successors(&mut self) {
        let Some(watch) = &self.watch else { return };
        for shard in 0..self.plan.shards {
            let known = self.known_primary(shard);
            let (before, known_since) = self.patrol.known[shard];
            if known != before {
                self.patrol.known[shard] = (known, self.now);
            }
            let Some(node) = known else { continue };
            // A successor may be named first: its connections ask for its role before all else.
            if before.is_none() && !matches!(self.patrol.roles[node], Some((true, _))) {
                let what = format!("node {node} was discovered as a primary, and has not called itself one");
                return self.ledger.violate(what);
            }
            let since = &mut self.patrol.reigns[shard];
            match watch.reign_of(node, *since) {
                Some(reign) => *since = reign,
                // All sentinels that know of a newer heir are gone for too long. Changed views are reported a moment later.
                None if before.is_none() && self.now.since(known_since) + LOOKS_EVERY >= OLDER_AFTER => {
                    *since = watch.reign_of(node, 0).unwrap_or_default();
                }
                // A sentinel was dead while others reverted its knowledge. The node gets no requests: it says that it is no
                // primary.
                None if self.nodes[node].follower.is_some() => {}
                None => {
                    let what = format!(
                        "node {node} was discovered as the primary of {}, and it was replaced before, or never was",
                        name_of(shard)
                    );
                    return self.ledger.violate(what);
                }
            }
        }
    }

    /// The primary of a shard, as the proxy knows.
    fn known_primary(&self, shard: usize) -> Option<usize> {
        let id = self.known.all_shards().nth(shard)?;
        match host_at(self.known.primary_address(id)?) {
            Host::Node(node) => Some(node),
            Host::Sentinel(_) => None,
        }
    }

    /// Checks that the proxy knows the right primaries, where it had enough time to learn of them.
    pub(super) fn patrol(&mut self) {
        self.plan_at(self.now + LOOKS_EVERY, What::Patrol);
        let Some(watch) = &self.watch else { return };
        let now = self.now;
        for shard in 0..self.plan.shards {
            if let Some(node) = self.known_primary(shard)
                && self.has_denied(shard, node)
            {
                let what = format!("node {node} is no primary, has said so, and is taken for one");
                return self.ledger.violate(what);
            }
            let primary = watch.primary_of(shard);
            let node = &self.nodes[primary];
            let is_well = !node.down && node.frozen_until <= now && node.follower.is_none();
            for sentinel in 0..watch.sentinels.len() {
                let its = &watch.sentinels[sentinel];
                let was_missed = &mut self.patrol.was_missed[sentinel];
                *was_missed |= its.is_down || watch.is_split();
                let can_know = is_well
                    && !its.is_down
                    && its.slowness == Duration::ZERO
                    && (sentinel < watch.named || self.patrol.are_others_known && !*was_missed)
                    && self.patrol.troubled_until[sentinel] <= now
                    && watch.knows(sentinel, shard)
                    && !watch.is_failing_over(shard);
                let since = &mut self.patrol.right_since[shard][sentinel];
                if !can_know {
                    *since = (*since).max(now);
                }
                let is_due = now.since(*since) > KNOWN_WITHIN;
                if is_due && self.known_primary(shard) != Some(primary) {
                    let name = name_of(shard);
                    let what = format!(
                        "sentinel {sentinel} names node {primary} as the primary of {name}, and the proxy does not know it"
                    );
                    return self.ledger.violate(what);
                }
            }
        }
        (0..self.plan.shards).for_each(|shard| self.check_heir(shard));
    }

    /// Checks that a promoted replica gets the requests, even before the sentinel calls it a primary.
    fn check_heir(&mut self, shard: usize) {
        let Some(watch) = &self.watch else { return };
        let of =
            |sentinel: usize| watch.sentinels[sentinel].views[shard].failover.map(|failover| failover.stage);
        let all = 0..watch.sentinels.len();
        let is_one = all.clone().filter(|sentinel| of(*sentinel).is_some()).count() == 1;
        let chosen = all.take(watch.named).find_map(|sentinel| match of(sentinel) {
            Some(Stage::Told(heir)) if is_one && watch.is_newest(sentinel, shard) => Some((heir, sentinel)),
            _ => None,
        });
        let Some((heir, by)) = chosen else {
            self.patrol.heir_since[shard] = None;
            return;
        };
        let node = &self.nodes[heir];
        let is_well = !node.down && node.frozen_until <= self.now && node.follower.is_none();
        let can_tell = watch.sentinels[by].slowness == Duration::ZERO
            // Names were assigned anew: its state is older than the known one.
            && self.patrol.right_since[shard][by] != Instant::NEVER;
        let since = match self.patrol.heir_since[shard] {
            Some((before, since)) if before == heir && is_well && can_tell => since,
            _ => self.now,
        };
        let since = since.max(self.patrol.troubled_until[by]);
        self.patrol.heir_since[shard] = Some((heir, since));
        if self.now.since(since) > FOLLOWED_WITHIN && self.known_primary(shard) != Some(heir) {
            let name = name_of(shard);
            self.ledger.violate(format!(
                "node {heir} was made the primary of {name}, and the proxy does not follow it"
            ));
        }
    }

    /// Whether `node` has reported that it is no primary since it is known as that of `shard`. The report went to the
    /// discovery, or long ago to the proxy. Before that it may have been one.
    fn has_denied(&self, shard: usize, node: usize) -> bool {
        let it = &self.nodes[node];
        let (_, known_since) = self.patrol.known[shard];
        let has_told_scout = self.patrol.roles[node].is_some_and(|(is_primary, at)| {
            !is_primary && at >= known_since && self.now.since(at) > DENIED_WITHIN
        });
        let is_well = !it.down && it.frozen_until + WISHED_WITHIN <= self.now;
        let has_declined = it.declines_since.is_some_and(|since| it.declined_at.since(since) > WISHED_WITHIN);
        has_told_scout || is_well && it.follower.is_some() && has_declined
    }

    /// Faults are over. An operator repairs any state that sentinels cannot.
    pub(super) fn settle_sentinels(&mut self) {
        let Some(watch) = &self.watch else { return };
        if (0..self.plan.shards).all(|shard| self.is_settled(watch, shard)) {
            return;
        }
        let (primaries, deeds) = self.watch.as_mut().map(Watch::mend).unwrap_or_default();
        self.carry_out(deeds);
        self.excuse_all();
        for primary in primaries {
            if self.nodes[primary].follower.is_some() {
                self.make_primary(primary);
            }
            self.pass_crown(primary);
            for node in (primary % self.plan.shards..self.nodes.len()).step_by(self.plan.shards) {
                if node != primary && self.nodes[node].follows != Some(primary) {
                    self.make_follow(node, primary);
                }
            }
        }
    }

    fn is_settled(&self, watch: &Watch, shard: usize) -> bool {
        let primary = watch.primary_of(shard);
        let mut nodes = (shard..self.nodes.len()).step_by(self.plan.shards);
        let stands = |node: usize| match node == primary {
            true => self.nodes[node].follower.is_none(),
            false => self.nodes[node].follows == Some(primary),
        };
        watch.agree_on(shard) && nodes.all(stands)
    }

    /// All hear all and agree: the proxy knows it too.
    pub(crate) fn check_primaries(&self) -> Result<(), String> {
        let Some(watch) = &self.watch else { return Ok(()) };
        for shard in 0..self.plan.shards {
            let (primary, known) = (watch.primary_of(shard), self.known_primary(shard));
            if known != Some(primary) {
                let name = name_of(shard);
                return Err(format!("{name} is at node {primary}, and the proxy believes {known:?}"));
            }
        }
        Ok(())
    }
}

/// The reply of a demoted primary to waiting clients.
const UNBLOCKED: &[u8] =
    b"-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n";
