//! Routes: the beginning of a key decides which shard owns it. The longest prefix that fits wins.
//!
//! A shard is another pool of this process here, to which several prefixes may lead. Its keys are spread there, so this table never hashes.

use crate::members::ShardId;

/// The most routes of a pool. The cursor of SCAN has room for no more.
pub const ROUTES_MAX: usize = 64;

/// The prefixes, and the shard of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// The longest first.
    prefixes: Vec<(Box<[u8]>, ShardId)>,
    ignores_case: bool,
}

impl Routes {
    /// These prefixes with their shards. One of them is empty: all other keys go to the first shard.
    pub fn new<'p>(prefixes: impl IntoIterator<Item = (&'p [u8], ShardId)>, ignores_case: bool) -> Routes {
        let prefixes = prefixes.into_iter().filter(|(prefix, _)| !prefix.is_empty());
        let mut prefixes: Vec<(Box<[u8]>, ShardId)> =
            prefixes.map(|(prefix, shard)| (prefix.into(), shard)).collect();
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Routes { prefixes, ignores_case }
    }

    /// The shard of `key`. It is not inlined, so that lookups in other tables stay as they are.
    #[cold]
    pub(crate) fn shard_of(&self, key: &[u8]) -> ShardId {
        self.route_of(key).map_or(ShardId(0), |(_, shard)| *shard)
    }

    /// The prefix of `key` that decides.
    pub(crate) fn prefix_of<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        self.route_of(key).map_or(b"", |(prefix, _)| &key[..prefix.len()])
    }

    fn route_of(&self, key: &[u8]) -> Option<&(Box<[u8]>, ShardId)> {
        self.prefixes.iter().find(|(prefix, _)| begins_with(key, prefix, self.ignores_case))
    }
}

/// Whether `key` begins with `prefix`.
pub fn begins_with(key: &[u8], prefix: &[u8], ignores_case: bool) -> bool {
    match key.get(..prefix.len()) {
        Some(head) if ignores_case => head.eq_ignore_ascii_case(prefix),
        Some(head) => head == prefix,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(ignores_case: bool) -> Routes {
        let prefixes = [("", 0), ("a:", 1), ("a:b:", 2), ("c", 3), ("d", 1)];
        Routes::new(prefixes.map(|(prefix, shard)| (prefix.as_bytes(), ShardId(shard))), ignores_case)
    }

    fn shards(ignores_case: bool, keys: [&str; 6]) -> [u32; 6] {
        let routes = routes(ignores_case);
        keys.map(|key| routes.shard_of(key.as_bytes()).0)
    }

    #[test]
    fn the_longest_prefix_decides() {
        assert_eq!(shards(false, ["a:1", "a:b:1", "a:b", "c", "A:1", ""]), [1, 2, 1, 3, 0, 0]);
        let routes = routes(false);
        assert_eq!(
            ["a:1", "a:b:1", "x"].map(|key| routes.prefix_of(key.as_bytes())),
            [&b"a:"[..], b"a:b:", b""]
        );
    }

    #[test]
    fn the_case_of_letters_may_be_ignored() {
        assert_eq!(shards(true, ["A:1", "a:B:1", "a:b", "C", "a", ""]), [1, 2, 1, 3, 0, 0]);
    }
}
