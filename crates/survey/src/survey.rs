//! Counts of keys and bytes, by the node that has them and the node that another layout gives them to.

use crate::layout::Layout;
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::Prng;
use topology::ShardId;

/// Keys that stand for all when none are given: shares are then right to a few tenths of a per cent.
pub const GENERATED_KEYS: u64 = 100_000;
/// The seed of generated keys: two runs look at the same ones.
const SEED: u64 = 1;
/// Numbers in generated keys are below this one.
const NUMBERS: u64 = 1_000_000_000_000;

/// Keys for a look at a layout without data: `key:` and a random number.
pub fn generated_keys() -> impl Iterator<Item = Vec<u8>> {
    let mut prng = Prng::new(SEED);
    (0..GENERATED_KEYS).map(move |_| format!("key:{}", prng.below(NUMBERS)).into_bytes())
}

/// Keys and bytes. They are fractions where a sample stands for all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    pub(crate) keys: f64,
    pub(crate) bytes: f64,
}

impl Load {
    pub(crate) fn add(&mut self, other: Load) {
        self.keys += other.keys;
        self.bytes += other.bytes;
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Survey {
    now: Arc<Layout>,
    then: Option<Arc<Layout>>,
    /// By the shard that has the keys, and the shard of the other layout that would have them.
    cells: BTreeMap<(ShardId, ShardId), Load>,
    /// Keys that were looked at.
    seen: u64,
    /// Keys of nodes that do not own them.
    misplaced: f64,
    /// Whether the sizes of all keys are known.
    has_bytes: bool,
}

impl Survey {
    /// No key yet.
    pub fn new(now: Arc<Layout>, then: Option<Arc<Layout>>) -> Survey {
        Survey { now, then, cells: BTreeMap::new(), seen: 0, misplaced: 0.0, has_bytes: true }
    }

    /// A survey of the same layouts without keys.
    pub fn emptied(&self) -> Survey {
        Survey::new(Arc::clone(&self.now), self.then.clone())
    }

    /// Counts a key that lives where the layout puts it.
    pub fn add(&mut self, key: &[u8]) {
        self.add_found(self.now.owner(key), key, None);
    }

    /// Counts a key that was found at `shard`, with its size if that is known.
    pub fn add_found(&mut self, shard: ShardId, key: &[u8], bytes: Option<u64>) {
        let heir = self.then.as_ref().map_or(shard, |then| then.owner(key));
        let load = Load { keys: 1.0, bytes: bytes.unwrap_or_default() as f64 };
        self.cells.entry((shard, heir)).or_default().add(load);
        self.seen += 1;
        self.has_bytes &= bytes.is_some();
        if self.now.owner(key) != shard {
            self.misplaced += 1.0;
        }
    }

    /// Adds the counts of `sample`, which stand for `keys` keys.
    pub fn add_sample(&mut self, sample: &Survey, keys: u64) {
        if sample.seen == 0 {
            return;
        }
        // A node that is written to may have other keys than it said.
        let factor = (keys as f64 / sample.seen as f64).max(1.0);
        for (cell, load) in &sample.cells {
            let scaled = Load { keys: load.keys * factor, bytes: load.bytes * factor };
            self.cells.entry(*cell).or_default().add(scaled);
        }
        self.seen += sample.seen;
        self.misplaced += sample.misplaced * factor;
        self.has_bytes &= sample.has_bytes;
    }

    /// The layout of now.
    pub(crate) fn now(&self) -> &Layout {
        &self.now
    }

    /// The other layout.
    pub(crate) fn then(&self) -> Option<&Layout> {
        self.then.as_deref()
    }

    /// Keys that were looked at.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    pub(crate) fn misplaced(&self) -> f64 {
        self.misplaced
    }

    pub(crate) fn has_bytes(&self) -> bool {
        self.has_bytes && self.seen > 0
    }

    /// The load of all shards together.
    pub(crate) fn total(&self) -> Load {
        self.sum(|_| true)
    }

    /// The load of each node of now.
    pub(crate) fn by_owner(&self) -> Vec<Load> {
        let shards = 0..self.now.nodes().len() as u32;
        shards.map(|shard| self.sum(|(owner, _)| owner.0 == shard)).collect()
    }

    /// The load that each node of the other layout would have.
    pub(crate) fn by_heir(&self, then: &Layout) -> Vec<Load> {
        let shards = 0..then.nodes().len() as u32;
        shards.map(|shard| self.sum(|(_, heir)| heir.0 == shard)).collect()
    }

    fn sum(&self, fits: impl Fn(&(ShardId, ShardId)) -> bool) -> Load {
        let mut sum = Load::default();
        self.cells.iter().filter(|(cell, _)| fits(cell)).for_each(|(_, load)| sum.add(*load));
        sum
    }

    /// The loads that would go from one address to another, the largest first.
    pub(crate) fn moves(&self) -> Vec<(&str, &str, Load)> {
        let Some(then) = &self.then else { return Vec::new() };
        let named =
            self.cells.iter().map(|((owner, heir), load)| (self.now.node(*owner), then.node(*heir), *load));
        let mut moves: Vec<_> = named.filter(|(from, to, _)| from != to).collect();
        moves.sort_by(|a, b| b.2.keys.total_cmp(&a.2.keys).then(a.0.cmp(b.0)).then(a.1.cmp(b.1)));
        moves
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use topology::{Distribution, Topology, TopologySpec, parse_nodes};

    /// The layout of `nodes`, which are valid.
    pub(crate) fn layout(nodes: &str, distribution: Distribution) -> Arc<Layout> {
        let nodes = parse_nodes(nodes).expect("valid");
        let spec = TopologySpec { nodes, distribution, ..TopologySpec::default() };
        Arc::new(Layout::new(Topology::new(1, &spec).expect("valid")))
    }

    #[test]
    fn generated_keys_are_the_same_in_each_run() {
        let first: Vec<Vec<u8>> = generated_keys().take(2).collect();
        assert_eq!(first, [b"key:566561575172".to_vec(), b"key:745781757262".to_vec()]);
        assert_eq!(generated_keys().count() as u64, GENERATED_KEYS);
    }

    #[test]
    fn nodes_in_another_order_keep_the_keys_of_ketama() {
        let (now, then) =
            (layout("a:1,b:1,c:1", Distribution::Ketama), layout("c:1,a:1,b:1", Distribution::Ketama));
        let mut survey = Survey::new(now, Some(then));
        generated_keys().take(1000).for_each(|key| survey.add(&key));
        assert_eq!((survey.moves().len(), survey.total().keys), (0, 1000.0));
    }

    #[test]
    fn a_fourth_node_takes_keys_from_all_three() {
        let (now, then) =
            (layout("a:1,b:1,c:1", Distribution::Ketama), layout("a:1,b:1,c:1,d:1", Distribution::Ketama));
        let mut survey = Survey::new(now, Some(then));
        generated_keys().take(1000).for_each(|key| survey.add(&key));
        let moves = survey.moves();
        assert!(moves.len() == 3 && moves.iter().all(|(_, to, _)| *to == "d:1"), "{moves:?}");
        let moved: f64 = moves.iter().map(|(_, _, load)| load.keys).sum();
        assert!((150.0..350.0).contains(&moved), "{moved}");
    }

    #[test]
    fn a_sample_stands_for_all_keys_of_its_node() {
        let now = layout("a:1,b:1", Distribution::Modulo);
        let key = generated_keys().find(|key| now.owner(key) == ShardId(1)).expect("some key is there");
        let mut sample = Survey::new(Arc::clone(&now), None);
        sample.add_found(ShardId(0), &key, Some(7));
        sample.add_found(ShardId(1), &key, Some(3));
        let mut survey = Survey::new(now, None);
        survey.add_sample(&sample, 20);
        assert_eq!(survey.by_owner(), [Load { keys: 10.0, bytes: 70.0 }, Load { keys: 10.0, bytes: 30.0 }]);
        assert_eq!((survey.seen(), survey.misplaced(), survey.has_bytes()), (2, 10.0, true));
    }
}
