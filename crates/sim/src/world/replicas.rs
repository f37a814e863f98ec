//! Replicas in a world: they follow their primaries with some delay, lose their links, and take their places.

use super::{What, World};
use crate::node::Node;
use crate::replication::{Follower, Log};
use std::time::Duration;

/// As long as the clock stands still, what expires at that very moment cannot be written anew.
const MOMENT: Duration = Duration::from_millis(500);

impl World<'_> {
    /// The primary that `node` follows.
    fn primary_of(&self, node: usize) -> Option<usize> {
        self.nodes[node].follower.as_ref()?;
        match &self.cluster {
            Some(cluster) => cluster.primary_of(node),
            None => Some(node % self.plan.shards),
        }
    }

    /// Those who follow `node`.
    fn followers_of(&self, node: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|follower| self.primary_of(*follower) == Some(node)).collect()
    }

    /// The log of `node` may have grown, or the node is back: who follows it goes on some time later.
    pub(super) fn plan_followers(&mut self, node: usize) {
        for follower in self.followers_of(node) {
            let log = &self.nodes[node].log;
            let lags = self.nodes[follower].follower.as_ref().is_some_and(|is| is.lags(log) || !is.is_linked);
            if lags {
                self.plan_replication(follower);
            }
        }
    }

    pub(super) fn plan_replication(&mut self, node: usize) {
        let Some(follower) = &mut self.nodes[node].follower else { return };
        if !std::mem::replace(&mut follower.is_planned, true) {
            let lag_max = *self.prng.pick(&self.plan.lags);
            self.plan_in_up_to(lag_max, What::Replicate(node));
        }
    }

    /// A node was gone, and is back.
    pub(super) fn revive(&mut self, node: usize) {
        self.nodes[node].down = false;
        self.nodes[node].full = false;
        self.plan_replication(node);
        self.plan_followers(node);
        if let (Some(cluster), Some(_)) = (&mut self.cluster, &self.scout) {
            // Before it has heard the others, it takes no requests.
            cluster.isolated.insert(node);
            self.plan_in_up_to(Duration::from_millis(300), What::Gossip(node));
        }
    }

    /// The process of `node` has died: nobody is connected to it.
    pub(super) fn unlink(&mut self, node: usize) {
        let followers = self.followers_of(node);
        for follower in followers.into_iter().chain([node]) {
            if let Some(follower) = &mut self.nodes[follower].follower {
                follower.is_linked = false;
            }
        }
    }

    /// The link between `node`, if it is a replica, and its primary breaks.
    pub(super) fn break_link(&mut self, node: usize, lasts: Duration) {
        let until = self.now + lasts;
        if let Some(follower) = &mut self.nodes[node].follower {
            (follower.is_linked, follower.unlinked_until) = (false, until);
            self.plan_replication(node);
        }
    }

    /// The replica `node` takes over some of what it lacks.
    pub(super) fn replicate(&mut self, node: usize) {
        let Some(primary) = self.primary_of(node) else { return };
        let now = self.now;
        let count = *self.prng.pick(&[1, 3, 10, usize::MAX]);
        let frozen_until = self.nodes[node].frozen_until.max(self.nodes[primary].frozen_until);
        let [replica, primary] = self.nodes.get_disjoint_mut([node, primary]).expect("two nodes");
        let Some(follower) = &mut replica.follower else { return };
        follower.is_planned = false;
        if replica.down || primary.down {
            // Planned again when it is back.
            follower.is_linked = false;
            return;
        }
        let wait_until = frozen_until.max(follower.unlinked_until);
        if wait_until > now {
            follower.is_planned = true;
            return self.plan_at(wait_until, What::Replicate(node));
        }
        let has_gone_on = match follower.follows(&primary.log) {
            true => follower.go_on(&primary.log, &mut replica.keyspace, count, now),
            false => follower.begin_anew(&primary.log, &mut primary.keyspace, &mut replica.keyspace, now),
        };
        if !has_gone_on {
            follower.is_planned = true;
            return self.plan_at(now + MOMENT, What::Replicate(node));
        }
        follower.is_linked = true;
        if follower.lags(&primary.log) {
            self.plan_replication(node);
        }
    }

    /// The node `new`, a replica of `old`, becomes a primary. The keys of which it lacks something; `None` if it has
    /// nothing that counts, so that nobody votes for it.
    pub(super) fn take_over(&mut self, new: usize, old: usize) -> Option<Vec<Vec<u8>>> {
        let catches_up = self.prng.one_in(2);
        self.histories += 1;
        let history = self.histories;
        let [heir, gone] = self.nodes.get_disjoint_mut([new, old]).expect("two nodes");
        let follower = heir.follower.as_mut().filter(|follower| follower.follows(&gone.log))?;
        if catches_up {
            follower.go_on(&gone.log, &mut heir.keyspace, usize::MAX, self.now);
        }
        let lost = gone.log.tail(follower);
        heir.log = Log::new(history, follower.offset);
        heir.follower = None;
        gone.follower = Some(Follower::default());
        Some(lost)
    }

    /// Everybody has all, and nothing is planned: faults are over.
    pub(super) fn settle_replicas(&mut self) {
        for node in 0..self.nodes.len() {
            self.plan_replication(node);
        }
    }
}

/// Gives `replica` what `primary` has before the world begins.
pub(super) fn pair(primary: &mut Node, replica: &mut Node, now: stdx::Instant) {
    let mut follower = Follower::default();
    follower.is_linked = true;
    follower.begin_anew(&primary.log, &mut primary.keyspace, &mut replica.keyspace, now);
    replica.follower = Some(follower);
}
