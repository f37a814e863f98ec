//! A cluster in a world: slots move from node to node, replicas replace primaries, and the proxy learns of it later.

use super::{What, World};
use crate::cluster::{address, slot};
use crate::ledger::STAMPED;
use crate::listeners::channels;
use crate::plan::Fault;
use std::sync::Arc;
use std::time::Duration;
use stdx::Instant;

/// The longest time until the proxy learns of a change after it wishes to know.
pub(super) const MAP_DELAY_MAX: Duration = Duration::from_millis(400);
/// The longest time between two keys of a slot that moves.
const STEP_MAX: Duration = Duration::from_millis(30);
/// Time for which the replicas of a move's target may lack the moved keys. The proxy learns of most moves sooner.
const HELD_FOR: Duration = Duration::from_millis(1_500);
/// The longest time after which a hanging primary is replaced. After twice as long it continues.
const HANGS_MAX: Duration = Duration::from_millis(500);

impl World<'_> {
    /// The node that has `key`, or should have it.
    pub(crate) fn node_of(&self, key: &[u8]) -> usize {
        let shard = || self.topology.shard_of(key).0 as usize;
        match (&self.cluster, &self.watch) {
            (Some(cluster), _) => cluster.owner(key),
            (None, Some(watch)) => watch.primary_of(shard()),
            (None, None) => shard(),
        }
    }

    /// The last shard joins, if it has not: most often while an isolated node cannot learn of it.
    fn let_newcomer_join(&mut self) {
        let is_cut = |(at, fault): &(Instant, Fault)| *at > self.now && matches!(fault, Fault::CutOff { .. });
        let will_be_cut = self.plan.faults.iter().any(is_cut);
        let Some(cluster) = self.cluster.as_mut().filter(|cluster| cluster.awaits_newcomer()) else { return };
        if !cluster.cut.is_empty() || !will_be_cut && self.prng.one_in(3) {
            cluster.join();
            self.spread_news();
        }
    }

    /// The slot of some key begins to move, but not of a key that SCAN or a waiting client uses. SCAN may return a moving key
    /// twice or not at all, and a store does not end waits for a moved key.
    pub(super) fn begin_migration(&mut self) {
        self.let_newcomer_join();
        let stays = |key: &[u8]| key.starts_with(b"lasting") || key.starts_with(b"queue");
        let names = || self.ledger.names().filter(|key| !stays(key));
        // Of stamped keys, most is known.
        let keys: Vec<Vec<u8>> = match self.prng.below(4) {
            0 => channels().collect(),
            1 => self.clients.iter().filter_map(|client| client.program.favourite_key()).collect(),
            2 => names().filter(|key| key.starts_with(STAMPED)).cloned().collect(),
            _ => names().cloned().collect(),
        };
        let key = self.prng.pick(&keys).clone();
        let its = slot(&key);
        if self.ledger.names().any(|key| stays(key) && slot(key) == its) {
            return;
        }
        let Some(cluster) = &mut self.cluster else { return };
        cluster.begin_migration(&key, self.now, &mut self.prng);
        if let Some(migration) = cluster.migration() {
            let [_, to] = cluster.ends_of(migration);
            self.ledger.slot_moves(its);
            if channels().any(|channel| channel == key) {
                self.ledger.radio.favourite = Some(key);
            }
            if self.plan.reads_replicas() && self.prng.one_in(2) {
                // The target's replica lacks the writer's values for a while.
                self.hold_followers(to, HELD_FOR);
            }
        }
        self.plan_in_up_to(STEP_MAX, What::MoveKey);
    }

    /// Moves the next key; after the last one, its slot has another owner. Returns false if it must wait.
    pub(super) fn move_key(&mut self) -> bool {
        let Some(cluster) = &mut self.cluster else { return false };
        let Some(migration) = cluster.migration() else { return false };
        let mut has_moved = true;
        let [from, to] = cluster.ends_of(migration);
        let now = self.now;
        match self.nodes[from].keyspace.key_in(migration.slot, now) {
            Some(key) => {
                let [from, to] = self.nodes.get_disjoint_mut([from, to]).expect("two nodes");
                has_moved = from.keyspace.give(&key, &mut to.keyspace, now);
                from.log.note(key.clone(), &mut from.keyspace, now);
                to.log.note(key, &mut to.keyspace, now);
                self.plan_in_up_to(STEP_MAX, What::MoveKey);
            }
            None => {
                cluster.end_migration(now);
                self.drop_channels(from, to, migration.slot);
                self.spread_news();
                self.ledger.slot_moved(migration.slot);
                let late = Duration::from_millis(*self.prng.pick(&[0, 0, 10, 1000, 10_000]));
                self.plan_in_up_to(late, What::Map);
            }
        }
        for node in [from, to] {
            self.deliver_from_node(node);
            self.plan_followers(node);
        }
        has_moved
    }

    /// The slot has left `node` for `heir`: `node` ends the subscriptions to its shard channels.
    fn drop_channels(&mut self, node: usize, heir: usize, its: u16) {
        let is_known = self.known.node_at(&address(heir).address).is_some();
        for channel in channels().filter(|channel| slot(channel) == its) {
            self.ledger.radio.moved(&channel, is_known, self.now);
            for (conn, bytes) in self.nodes[node].drop_channel(&channel, self.now) {
                self.say_to_proxy(conn, &bytes);
            }
        }
    }

    /// Moves the remaining keys of a migrating slot. Returns false if that must wait.
    pub(super) fn end_migration(&mut self) -> bool {
        while self.cluster.as_ref().is_some_and(|cluster| cluster.migration().is_some()) {
            if !self.move_key() {
                return false;
            }
        }
        true
    }

    /// The primary of `shard` loses its connections, and is silent on new ones; then its replica replaces it.
    pub(super) fn hang(&mut self, shard: usize) {
        let Some(cluster) = self.cluster.as_ref().filter(|cluster| cluster.has_joined(shard)) else { return };
        let [primary, _] = cluster.nodes_of(shard);
        let node = &mut self.nodes[primary];
        node.frozen_until = node.frozen_until.max(self.now + 2 * HANGS_MAX);
        self.plan_at(self.now + 2 * HANGS_MAX, What::Thaw(primary));
        self.reset_links(primary);
        self.plan_in_up_to(HANGS_MAX, What::Succeed(primary));
    }

    /// The replica of a hanging `old` replaces it, if `old` is still a primary. Requests that reached `old` never run.
    pub(super) fn succeed(&mut self, old: usize) {
        let Some(cluster) = &self.cluster else { return };
        let shard = cluster.shard_of_primary(old).filter(|_| !cluster.cut.contains(&old));
        if !shard.is_some_and(|shard| self.replace_primary(shard)) {
            return;
        }
        self.lose_links(old, Some(2 * HANGS_MAX));
        self.nodes[old].die();
        self.nodes[old].due_at = None;
        if let (Some(cluster), Some(_)) = (&mut self.cluster, &self.scout) {
            cluster.isolated.insert(old);
        }
        self.plan_at(self.now + 2 * HANGS_MAX, What::Gossip(old));
        self.plan_replication(old);
        let late = Duration::from_millis(*self.prng.pick(&[0, 10, 300]));
        self.plan_in_up_to(late, What::Map);
    }

    /// The primary of `shard` dies, and its replica replaces it with the data that it has.
    pub(super) fn promote(&mut self, shard: usize, lasts: Duration) {
        let Some(cluster) = &self.cluster else { return };
        let [old, _] = cluster.nodes_of(shard);
        if !cluster.has_joined(shard) || cluster.cut.contains(&old) || !self.replace_primary(shard) {
            return;
        }
        self.nodes[old].die();
        self.reset_links(old);
        self.nodes[old].due_at = None;
        self.nodes[old].down = true;
        self.plan_at(self.now + lasts, What::Revive(old));
        let late = Duration::from_millis(*self.prng.pick(&[0, 10, 1000]));
        self.plan_in_up_to(late, What::Map);
    }

    /// The replica of `shard` becomes its primary, if it can. Changes that it lacks are lost.
    pub(super) fn replace_primary(&mut self, shard: usize) -> bool {
        if !self.end_migration() {
            return false;
        }
        let Some(cluster) = &self.cluster else { return false };
        let [old, new] = cluster.nodes_of(shard);
        if self.nodes[new].down {
            return false;
        }
        let Some(lost) = self.take_over(new, old) else { return false };
        if let Some(cluster) = &mut self.cluster {
            cluster.promote(shard);
            cluster.has_failed(old, true, new);
        }
        // Keys that moved away in the lost changes are there again. Redis keeps them where no client can read them; but SCAN
        // and KEYS would return them.
        for key in self.nodes[new].keyspace.keys(self.now) {
            if self.node_of(&key) != new {
                self.nodes[new].keyspace.ask(&[b"DEL", &key], self.now);
            }
        }
        for key in lost {
            let left = self.nodes[new].keyspace.ask(&[b"GET", &key], self.now);
            self.ledger.tail_lost(&key, resp::reply::as_bulk(&left));
        }
        self.ledger.is_primary(new, true, self.now);
        self.report.successors += 1;
        self.spread_news();
        true
    }

    /// The proxy receives the current map, if it is newer than its own.
    pub(super) fn tell_map(&mut self) {
        let Some(cluster) = &self.cluster else { return };
        if self.scout.is_none() && cluster.number() > self.known.epoch() {
            self.known = Arc::new(cluster.topology(Some(&self.known)));
            self.note_known();
            self.proxy.handle_topology(Arc::clone(&self.known), self.now);
        }
    }

    /// Nothing moves any more, and the proxy knows.
    pub(super) fn settle_cluster(&mut self) {
        self.end_migration();
        self.settle_sentinels();
        self.settle_replicas();
        self.tell_map();
        self.perform();
    }
}
