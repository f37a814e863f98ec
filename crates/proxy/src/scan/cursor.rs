//! The cursor of SCAN over many shards: one 64-bit number, so that shardis keeps no state for it.
//!
//! Bits 48 to 62 hold the shard, and the lower bits hold the node's own cursor. The walk goes from one shard to the
//! next; 0 is the start and the end, as in Redis. A node's cursor stays below its table size (rounded up to a power
//! of two), so 48 bits suffice for 2^48 keys of a node. The number stays positive for clients that read it as signed.
//!
//! A route to another pool is a shard whose cursors are of this form themselves. So the number of the route takes the bits
//! 57 to 62, and 9 bits remain for the shards of such a pool.

use topology::{ShardId, Topology};

/// The widths of the parts of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Widths {
    node: u32,
    shard: u32,
}

impl Widths {
    const OF_NODES: Widths = Widths { node: 48, shard: 15 };
    const OF_ROUTES: Widths = Widths { node: 57, shard: 6 };

    /// The widths for the shards of `topology`.
    pub(crate) fn of(topology: &Topology) -> Widths {
        if topology.is_routes() { Widths::OF_ROUTES } else { Widths::OF_NODES }
    }
}

/// The place where a SCAN goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The present shard.
    pub shard: ShardId,
    /// The cursor that the shard's node returned.
    pub node: u64,
}

impl Cursor {
    /// Reads the cursor of a client by the rules of C's `strtoul`, as Redis does: a sign is allowed, and a negative
    /// number wraps around.
    pub(crate) fn parse(text: &[u8], widths: Widths) -> Option<Cursor> {
        let (negative, digits) = match text {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let word: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let word = if negative { word.wrapping_neg() } else { word };
        let shard = u32::try_from(word >> widths.node).ok()?;
        Some(Cursor { shard: ShardId(shard), node: word & ((1 << widths.node) - 1) })
    }

    /// The number that the client sees. `None` if the node's cursor does not fit.
    pub(crate) fn to_word(self, widths: Widths) -> Option<u64> {
        if self.node >> widths.node != 0 || self.shard.0 >> widths.shard != 0 {
            return None;
        }
        Some(u64::from(self.shard.0) << widths.node | self.node)
    }

    /// The next cursor after the node of `self.shard` returned `node`: in the same shard or the next of `shards`.
    /// `None` after the last.
    pub(crate) fn next(self, node: u64, shards: impl Iterator<Item = ShardId>) -> Option<Cursor> {
        match node {
            0 => Cursor { shard: ShardId(self.shard.0 + 1), node: 0 }.among(shards),
            node => Some(Cursor { node, ..self }),
        }
    }

    /// This cursor if `shards` has its shard, or else the start of the next shard that exists. `None` after the last.
    pub(crate) fn among(self, mut shards: impl Iterator<Item = ShardId>) -> Option<Cursor> {
        let shard = shards.find(|&shard| shard >= self.shard)?;
        Some(if shard == self.shard { self } else { Cursor { shard, node: 0 } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_every_shard_and_ends_at_zero() {
        let both = || [ShardId(0), ShardId(1)].into_iter();
        let start = Cursor::parse(b"0", Widths::OF_NODES).expect("a cursor");
        assert_eq!(start, Cursor { shard: ShardId(0), node: 0 });
        let inside = start.next(17, both()).expect("goes on");
        assert_eq!(inside.to_word(Widths::OF_NODES), Some(17));
        let second = inside.next(0, both()).expect("the next shard");
        assert_eq!(second.to_word(Widths::OF_NODES), Some(1 << 48));
        assert_eq!(Cursor::parse(b"281474976710656", Widths::OF_NODES), Some(second));
        assert_eq!(second.next(0, both()), None);
    }

    #[test]
    fn a_walk_passes_over_shards_that_are_gone() {
        let left = || [ShardId(1), ShardId(3)].into_iter();
        let start = |shard| Cursor { shard: ShardId(shard), node: 0 };
        assert_eq!(start(0).among(left()), Some(start(1)));
        assert_eq!(Cursor { node: 9, ..start(2) }.among(left()), Some(start(3)));
        assert_eq!(Cursor { node: 9, ..start(3) }.among(left()), Some(Cursor { node: 9, ..start(3) }));
        assert_eq!((start(1).next(0, left()), start(3).next(0, left())), (Some(start(3)), None));
    }

    #[test]
    fn cursors_that_do_not_fit_or_are_no_number_are_refused() {
        assert_eq!(Cursor { shard: ShardId(0), node: 1 << 48 }.to_word(Widths::OF_NODES), None);
        assert_eq!(Cursor { shard: ShardId(1 << 15), node: 0 }.to_word(Widths::OF_NODES), None);
        for text in ["", "x", "-", "+-1", "1x", " 1", "18446744073709551616"] {
            assert_eq!(Cursor::parse(text.as_bytes(), Widths::OF_NODES), None, "{text:?}");
        }
        assert_eq!(
            Cursor::parse(b"-1", Widths::OF_NODES).map(|cursor| cursor.shard.0),
            Some(u32::from(u16::MAX))
        );
        let largest = Cursor { shard: ShardId((1 << 15) - 1), node: (1 << 48) - 1 };
        assert!(i64::try_from(largest.to_word(Widths::OF_NODES).expect("fits")).is_ok());
    }

    #[test]
    fn cursors_of_a_pool_fit_into_those_of_routes() {
        let inner = Cursor { shard: ShardId(511), node: (1 << 48) - 1 }.to_word(Widths::OF_NODES);
        let outer = Cursor { shard: ShardId(63), node: inner.expect("fits") };
        let word = outer.to_word(Widths::OF_ROUTES).expect("fits");
        assert!(i64::try_from(word).is_ok());
        assert_eq!(Cursor::parse(word.to_string().as_bytes(), Widths::OF_ROUTES), Some(outer));
        let beyond = Cursor { shard: ShardId(512), node: 0 }.to_word(Widths::OF_NODES).expect("fits");
        assert_eq!(Cursor { shard: ShardId(0), node: beyond }.to_word(Widths::OF_ROUTES), None);
    }
}
