//! Sets of Redis's own words: command flags, ACL categories, tips, key flags.
//!
//! A set is a small integer. The table writes it in one string, with the words that `COMMAND INFO` shows. The compiler reads
//! the string, so a misspelt word does not compile.

/// Defines a set over a fixed list of words, in the order in which Redis lists them.
macro_rules! word_set {
    ($(#[$doc:meta])* $name:ident { $($constant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(u32);

        impl $name {
            /// All words, in Redis's order.
            pub const WORDS: &'static [&'static str] = &[$($word,)*];

            $(
                #[doc = concat!("Redis's `", $word, "`.")]
                pub const $constant: $name = $name::of($word);
            )*

            /// The set of the words in `text`, separated by single blanks. An unknown word panics, which in the table
            /// means that it does not compile; for external input there is `from_word`.
            pub const fn of(text: &str) -> $name {
                $name(bits(Self::WORDS, text))
            }

            /// The set of one word, if Redis 7.0 knows it.
            pub fn from_word(word: &[u8]) -> Option<$name> {
                position(Self::WORDS, word).map(|at| $name(1 << at))
            }

            /// Whether all of `other` is in this set.
            pub const fn contains(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether some of `other` is in this set.
            pub const fn intersects(self, other: $name) -> bool {
                self.0 & other.0 != 0
            }

            /// Both sets together.
            pub const fn and(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }

            /// The words of this set, in Redis's order.
            pub fn words(self) -> impl Iterator<Item = &'static str> + Clone {
                Self::WORDS.iter().enumerate().filter(move |(at, _)| self.0 & (1 << at) != 0).map(|(_, &word)| word)
            }
        }
    };
}

word_set! {
    /// Redis's flags of a command as a whole.
    Flags {
        WRITE = "write",
        READONLY = "readonly",
        DENYOOM = "denyoom",
        MODULE = "module",
        ADMIN = "admin",
        PUBSUB = "pubsub",
        NOSCRIPT = "noscript",
        BLOCKING = "blocking",
        LOADING = "loading",
        STALE = "stale",
        SKIP_MONITOR = "skip_monitor",
        SKIP_SLOWLOG = "skip_slowlog",
        ASKING = "asking",
        FAST = "fast",
        NO_AUTH = "no_auth",
        MAY_REPLICATE = "may_replicate",
        NO_MANDATORY_KEYS = "no_mandatory_keys",
        NO_ASYNC_LOADING = "no_async_loading",
        NO_MULTI = "no_multi",
        ALLOW_BUSY = "allow_busy",
        MOVABLEKEYS = "movablekeys",
    }
}

word_set! {
    /// ACL categories, without Redis's `@`.
    Acl {
        KEYSPACE = "keyspace",
        READ = "read",
        WRITE = "write",
        SET = "set",
        SORTEDSET = "sortedset",
        LIST = "list",
        HASH = "hash",
        STRING = "string",
        BITMAP = "bitmap",
        HYPERLOGLOG = "hyperloglog",
        GEO = "geo",
        STREAM = "stream",
        PUBSUB = "pubsub",
        ADMIN = "admin",
        FAST = "fast",
        SLOW = "slow",
        BLOCKING = "blocking",
        DANGEROUS = "dangerous",
        CONNECTION = "connection",
        TRANSACTION = "transaction",
        SCRIPTING = "scripting",
    }
}

impl Acl {
    /// The categories that follow from a command's flags, added to `self`, as Redis adds them at start.
    pub(crate) const fn implied_by(self, flags: Flags) -> Acl {
        let mut acl = self;
        if flags.contains(Flags::WRITE) {
            acl = acl.and(Acl::WRITE);
        }
        // Read-only scripts have no ACL category of readers: Redis checks their reads inside.
        if flags.contains(Flags::READONLY) && !self.contains(Acl::SCRIPTING) {
            acl = acl.and(Acl::READ);
        }
        if flags.contains(Flags::ADMIN) {
            acl = acl.and(Acl::ADMIN).and(Acl::DANGEROUS);
        }
        if flags.contains(Flags::PUBSUB) {
            acl = acl.and(Acl::PUBSUB);
        }
        if flags.contains(Flags::BLOCKING) {
            acl = acl.and(Acl::BLOCKING);
        }
        acl.and(if flags.contains(Flags::FAST) { Acl::FAST } else { Acl::SLOW })
    }
}

word_set! {
    /// Redis's hints to clients and proxies about a command.
    Tips {
        NONDETERMINISTIC_OUTPUT = "nondeterministic_output",
        NONDETERMINISTIC_OUTPUT_ORDER = "nondeterministic_output_order",
        ALL_NODES = "request_policy:all_nodes",
        ALL_SHARDS = "request_policy:all_shards",
        MULTI_SHARD = "request_policy:multi_shard",
        SPECIAL_REQUEST = "request_policy:special",
        ONE_SUCCEEDED = "response_policy:one_succeeded",
        ALL_SUCCEEDED = "response_policy:all_succeeded",
        AGG_LOGICAL_AND = "response_policy:agg_logical_and",
        AGG_LOGICAL_OR = "response_policy:agg_logical_or",
        AGG_MIN = "response_policy:agg_min",
        AGG_MAX = "response_policy:agg_max",
        AGG_SUM = "response_policy:agg_sum",
        SPECIAL_RESPONSE = "response_policy:special",
    }
}

word_set! {
    /// Use of the keys of one [`KeySpec`](crate::KeySpec).
    KeyFlags {
        RO = "RO",
        RW = "RW",
        OW = "OW",
        RM = "RM",
        ACCESS = "access",
        UPDATE = "update",
        INSERT = "insert",
        DELETE = "delete",
        NOT_KEY = "not_key",
        INCOMPLETE = "incomplete",
        VARIABLE_FLAGS = "variable_flags",
    }
}

/// The bits of the blank-separated words of `text` in `words`.
const fn bits(words: &[&str], text: &str) -> u32 {
    let mut rest = text.as_bytes();
    let mut bits = 0;
    while !rest.is_empty() {
        let mut len = 0;
        while len < rest.len() && rest[len] != b' ' {
            len += 1;
        }
        let (word, behind) = rest.split_at(len);
        bits |= 1 << position(words, word).expect("a word that Redis knows");
        rest = match behind {
            [_, after @ ..] => after,
            [] => behind,
        };
    }
    bits
}

/// The place of `word` in `words`.
const fn position(words: &[&str], word: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < words.len() {
        if is_equal(words[at].as_bytes(), word) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// `==`, which a `const fn` cannot ask of slices.
const fn is_equal(left: &[u8], right: &[u8]) -> bool {
    let mut at = 0;
    while at < left.len() && at < right.len() && left[at] == right[at] {
        at += 1;
    }
    at == left.len() && at == right.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_exactly_its_words() {
        let flags = Flags::of("readonly fast");
        assert_eq!(flags, Flags::READONLY.and(Flags::FAST));
        assert!(flags.contains(Flags::FAST) && !flags.contains(Flags::WRITE));
        assert!(flags.intersects(Flags::WRITE.and(Flags::FAST)));
        assert_eq!(flags.words().collect::<Vec<_>>(), ["readonly", "fast"]);
        assert_eq!(Flags::of(""), Flags::default());
        assert_eq!(Flags::from_word(b"fast"), Some(Flags::FAST));
        assert_eq!(Flags::from_word(b"faster"), None);
    }
}
