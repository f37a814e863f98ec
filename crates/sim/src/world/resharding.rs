//! A cluster in a world: slots move from node to node, replicas take the places of primaries, and the proxy hears of it
//! later.

use super::{What, World};
use crate::cluster::slot;
use std::sync::Arc;
use std::time::Duration;

/// The slowest way of a change to the proxy, once it wishes to know.
pub(super) const MAP_DELAY_MAX: Duration = Duration::from_millis(400);
/// The longest time between two keys of a slot that moves.
const STEP_MAX: Duration = Duration::from_millis(30);

impl World<'_> {
    /// The node that has `key`, or should have it.
    pub(crate) fn node_of(&self, key: &[u8]) -> usize {
        match &self.cluster {
            Some(cluster) => cluster.owner(key),
            None => self.topology.shard_of(key).0 as usize,
        }
    }

    /// The slot of some key begins to move. Not that of a key that is walked over or waited for: SCAN may meet a key twice
    /// or not at all that moves, and a store lets nobody go who waits for one.
    pub(super) fn begin_migration(&mut self) {
        let stays = |key: &[u8]| key.starts_with(b"lasting") || key.starts_with(b"queue");
        let keys: Vec<Vec<u8>> = self.ledger.names().filter(|key| !stays(key)).cloned().collect();
        let key = self.prng.pick(&keys).clone();
        let its = slot(&key);
        if self.ledger.names().any(|key| stays(key) && slot(key) == its) {
            return;
        }
        if let Some(cluster) = &mut self.cluster {
            cluster.begin_migration(&key, &mut self.prng);
            self.plan_in_up_to(STEP_MAX, What::MoveKey);
        }
    }

    /// Moves the next key; after the last one, its slot has another owner. False if it must wait.
    pub(super) fn move_key(&mut self) -> bool {
        let Some(cluster) = &mut self.cluster else { return false };
        let Some(migration) = cluster.migration else { return false };
        let mut has_moved = true;
        let [from, to] = cluster.ends_of(migration);
        let now = self.now;
        match self.nodes[from].keyspace.key_in(migration.slot, now) {
            Some(key) => {
                let [from, to] = self.nodes.get_disjoint_mut([from, to]).expect("two nodes");
                has_moved = from.keyspace.give(&key, &mut to.keyspace, now);
                self.plan_in_up_to(STEP_MAX, What::MoveKey);
            }
            None => {
                cluster.end_migration();
                let late = Duration::from_millis(*self.prng.pick(&[0, 10, 1000, 10_000]));
                self.plan_in_up_to(late, What::Map);
            }
        }
        [from, to].into_iter().for_each(|node| self.deliver_from_node(node));
        has_moved
    }

    /// Moves what is left, so that nothing is half-way. False if something must wait.
    fn end_migration(&mut self) -> bool {
        while self.cluster.as_ref().is_some_and(|cluster| cluster.migration.is_some()) {
            if !self.move_key() {
                return false;
            }
        }
        true
    }

    /// The primary of `shard` dies, and its replica, which has all that it had, takes its place.
    pub(super) fn promote(&mut self, shard: usize, lasts: Duration) {
        if !self.end_migration() {
            return;
        }
        let Some(cluster) = &mut self.cluster else { return };
        if cluster.replica(shard).is_some_and(|replica| self.nodes[replica].down) {
            return;
        }
        let [new, old] = cluster.promote(shard);
        for node in [new, old] {
            self.nodes[node].die();
            self.reset_links(node);
            self.nodes[node].due_at = None;
        }
        let [new, gone] = self.nodes.get_disjoint_mut([new, old]).expect("two nodes");
        std::mem::swap(&mut new.keyspace, &mut gone.keyspace);
        gone.down = true;
        self.plan_at(self.now + lasts, What::Revive(old));
        let late = Duration::from_millis(*self.prng.pick(&[0, 10, 1000]));
        self.plan_in_up_to(late, What::Map);
    }

    /// The proxy learns what it does not know yet.
    pub(super) fn tell_map(&mut self) {
        let Some(cluster) = &self.cluster else { return };
        if cluster.epoch > self.known.epoch() {
            self.known = Arc::new(cluster.topology(Some(&self.known)));
            self.proxy.handle_topology(Arc::clone(&self.known), self.now);
        }
    }

    /// Nothing moves any more, and the proxy knows.
    pub(super) fn settle_cluster(&mut self) {
        self.end_migration();
        self.tell_map();
        self.perform();
    }
}
