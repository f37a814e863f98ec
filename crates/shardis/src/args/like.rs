//! `--like`: the defaults of another program, all at once. A flag that is given wins over its default here.
//!
//! Only defaults are carried that decide where keys live, where clients connect, and when idle clients and silent nodes are
//! given up. Facts are of twemproxy 0.5.0, redis-sharding 3.5 (SML) and 0.3 (Perl), Redis 7.0, predixy 7.0 and codis 3.2.

use std::str::FromStr;
use topology::{Distribution, HashFunction, TagRule};

/// The program whose defaults hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Like {
    /// `nutcracker`.
    Twemproxy,
    /// redis-sharding in Standard ML.
    RedisSharding,
    /// redis-sharding in Perl.
    RedisShardingPerl,
    /// Nodes with the slots of a Redis Cluster.
    RedisCluster,
    /// predixy over a StandaloneServerPool.
    Predixy,
    /// codis-proxy.
    Codis,
}

/// Defaults of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Defaults {
    pub(crate) host: &'static str,
    pub(crate) port: u16,
    /// Seconds until an idle client is closed; 0 never.
    pub(crate) timeout: u64,
    pub(crate) request_timeout_ms: u64,
    pub(crate) distribution: Distribution,
    /// `None`: that of the distribution.
    pub(crate) hash: Option<HashFunction>,
    /// `None`: that of the distribution.
    pub(crate) tag_rule: Option<TagRule>,
}

impl Defaults {
    /// The defaults of shardis. Programs that wait for nodes without end get its timeouts.
    pub(crate) const OWN: Defaults = Defaults {
        host: "127.0.0.1",
        port: 6380,
        timeout: 0,
        request_timeout_ms: 1000,
        distribution: Distribution::Modulo,
        hash: None,
        tag_rule: None,
    };
}

/// Every program by the name that users write.
const NAMES: [(&str, Like); 6] = [
    ("twemproxy", Like::Twemproxy),
    ("redis-sharding", Like::RedisSharding),
    ("redis-sharding-perl", Like::RedisShardingPerl),
    ("redis-cluster", Like::RedisCluster),
    ("predixy", Like::Predixy),
    ("codis", Like::Codis),
];

impl FromStr for Like {
    type Err = String;

    fn from_str(text: &str) -> Result<Like, String> {
        let like = NAMES.iter().find(|(name, _)| *name == text).map(|(_, like)| *like);
        like.ok_or_else(|| {
            "write twemproxy, redis-sharding, redis-sharding-perl, redis-cluster, predixy or codis".to_owned()
        })
    }
}

impl Like {
    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, like)| *like == self).map_or("", |(name, _)| name)
    }

    /// The program's own defaults.
    pub(crate) fn defaults(self) -> Defaults {
        let anywhere = Defaults { host: "0.0.0.0", port: 6379, ..Defaults::OWN };
        match self {
            // nutcracker has no default address: `listen` must be written there.
            Like::Twemproxy => Defaults {
                distribution: Distribution::Ketama,
                hash: Some(HashFunction::Fnv1ax64),
                tag_rule: Some(TagRule::None),
                ..Defaults::OWN
            },
            Like::RedisSharding => Defaults {
                timeout: 300,
                hash: Some(HashFunction::Crc32a),
                tag_rule: Some(TagRule::Sml),
                ..anywhere
            },
            Like::RedisShardingPerl => {
                Defaults { hash: Some(HashFunction::Crc32a), tag_rule: Some(TagRule::Perl), ..anywhere }
            }
            Like::RedisCluster => Defaults { port: 6379, distribution: Distribution::Slots, ..Defaults::OWN },
            // predixy wants Hash to be written; crc16 is in all its examples. Its modula keeps the groups' order: modulo here.
            Like::Predixy => Defaults {
                port: 7617,
                hash: Some(HashFunction::Crc16Redis),
                tag_rule: Some(TagRule::None),
                ..anywhere
            },
            Like::Codis => Defaults {
                port: 19000,
                timeout: 1800,
                request_timeout_ms: 30_000,
                hash: Some(HashFunction::Crc32a),
                tag_rule: Some(TagRule::Codis),
                ..anywhere
            },
        }
    }

    /// Settings of the program that have no counterpart here; `None` if there is none of weight.
    pub(crate) fn remark(self) -> Option<&'static str> {
        match self {
            Like::Twemproxy => Some(
                "twemproxy's timeout and hash_tag are not known here: see --request-timeout-ms, --tag-rule",
            ),
            Like::Predixy => {
                Some("predixy's Hash and HashTag are not known here: see --hash=atol, --tag-rule='{}'")
            }
            Like::Codis => Some(
                "codis' table of slots and groups is not carried over: shardis places keys by crc32a modulo the number of \
                 nodes, so keys are found only where group g of n has the slots with slot % n = g",
            ),
            Like::RedisSharding | Like::RedisShardingPerl | Like::RedisCluster => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, like) in NAMES {
            assert_eq!((name.parse(), like.name()), (Ok(like), name));
        }
        assert!("nutcracker".parse::<Like>().expect_err("no name").starts_with("write twemproxy, "));
    }
}
