//! Eviction policies for full memory.

use std::str::FromStr;

/// Redis's `maxmemory-policy`. A policy that goes by age draws five entries and evicts the oldest, as Redis does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// Evicts nothing: commands that need memory are refused. For data that must not vanish.
    #[default]
    NoEviction,
    /// Any key.
    AllKeysRandom,
    /// Any key that expires.
    VolatileRandom,
    /// The key with the longest idle time: the choice for a cache.
    AllKeysLru,
    /// The same among keys that expire.
    VolatileLru,
    /// The key that expires first; exactly, where Redis samples.
    VolatileTtl,
}

impl EvictionPolicy {
    /// Whether the time of last use decides.
    pub(crate) fn is_lru(self) -> bool {
        matches!(self, EvictionPolicy::AllKeysLru | EvictionPolicy::VolatileLru)
    }

    /// Redis's name.
    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }

    /// The names of all policies, as [`EvictionPolicy::from_str`] reads them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Whether the policy evicts only keys that expire.
    pub(crate) fn is_volatile(self) -> bool {
        matches!(
            self,
            EvictionPolicy::VolatileRandom | EvictionPolicy::VolatileLru | EvictionPolicy::VolatileTtl
        )
    }
}

/// An unknown name, or a policy that the store does not have (`allkeys-lfu`, `volatile-lfu`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl std::fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
        write!(f, "unknown eviction policy '{}', expected one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for EvictionPolicy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let found = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, policy)| *policy).ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

const NAMES: [(&str, EvictionPolicy); 6] = [
    ("noeviction", EvictionPolicy::NoEviction),
    ("allkeys-random", EvictionPolicy::AllKeysRandom),
    ("volatile-random", EvictionPolicy::VolatileRandom),
    ("allkeys-lru", EvictionPolicy::AllKeysLru),
    ("volatile-lru", EvictionPolicy::VolatileLru),
    ("volatile-ttl", EvictionPolicy::VolatileTtl),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_the_names_of_redis() {
        assert_eq!("allkeys-lru".parse(), Ok(EvictionPolicy::AllKeysLru));
        assert_eq!("NOEVICTION".parse(), Ok(EvictionPolicy::NoEviction));
        let error = "lru".parse::<EvictionPolicy>().unwrap_err().to_string();
        assert!(error.starts_with("unknown eviction policy 'lru', expected one of noeviction, "), "{error}");
    }
}
