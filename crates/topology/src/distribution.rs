//! The ways in which keys get to shards, by name.

use crate::{ShardId, TopologyError};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Rule by which a hash chooses a shard.
///
/// The distributions differ in the keys that a change of the node list moves. `ketama` moves the keys of the nodes that come or
/// go. `slots` lets every slot be moved on its own. `modulo` and `modula` move nearly everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// The hash modulo the number of nodes, in the order in which they were given. A node of weight w counts as w
    /// nodes in a row. redis-sharding's way (without weights) and predixy's.
    #[default]
    Modulo,
    /// The same, but the nodes are first sorted by the length of their names, then by their bytes. twemproxy's
    /// `modula`.
    Modula,
    /// Consistent hashing on a ring of about 160 points for each node, in proportion to its weight. twemproxy's and
    /// libmemcached's `ketama`.
    Ketama,
    /// Redis Cluster's 16,384 slots, divided as `redis-cli --cluster create` does. Its hash is always crc16-redis,
    /// and there are no weights.
    Slots,
    /// A ring whose points are given, as in dynomite: a hash belongs to the first token at or after it. Nodes of racks have
    /// tokens, so this is no word for users.
    Tokens,
}

/// Every distribution by the name that users write.
const NAMES: [(&str, Distribution); 4] = [
    ("modulo", Distribution::Modulo),
    ("modula", Distribution::Modula),
    ("ketama", Distribution::Ketama),
    ("slots", Distribution::Slots),
];

impl fmt::Display for Distribution {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            NAMES.iter().find(|(_, distribution)| distribution == self).map_or("tokens", |(name, _)| name);
        formatter.write_str(name)
    }
}

impl FromStr for Distribution {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "random" {
            return Err(TopologyError::RandomDistribution);
        }
        NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, distribution)| *distribution)
            .ok_or_else(|| TopologyError::Distribution { name: text.to_owned() })
    }
}

/// twemproxy's third distribution, `random`: any of `live` shards, by a random number that the caller draws.
///
/// No key is used, so a key would live anywhere: a request does not find the writes of the one before. This distribution makes
/// sense before nodes that all hold the same data and are only read. Therefore it is no [`Distribution`] and cannot be
/// configured for a pool.
pub fn random_shard(draw: u32, live: NonZeroU32) -> ShardId {
    ShardId(draw % live)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_print_as_they_are_written() {
        for (name, distribution) in NAMES {
            assert_eq!(name.parse(), Ok(distribution));
            assert_eq!(distribution.to_string(), name);
        }
        assert_eq!(Distribution::default().to_string(), "modulo");
    }

    #[test]
    fn random_is_refused_with_the_reason() {
        let refusal = |text: &str| text.parse::<Distribution>().expect_err(text).to_string();
        assert_eq!(
            refusal("random"),
            "distribution \"random\" is not offered, because a key would live anywhere; \
             write modulo, modula, ketama or slots"
        );
        assert_eq!(refusal("ring"), "distribution \"ring\": must be modulo, modula, ketama or slots");
    }

    #[test]
    fn a_random_shard_is_one_of_the_live_ones() {
        let live = NonZeroU32::new(3).expect("not 0");
        assert_eq!([0, 1, 2, 3, u32::MAX].map(|draw| random_shard(draw, live).0), [0, 1, 2, 0, 0]);
    }
}
