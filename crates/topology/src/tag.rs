//! Which part of a key is hashed: the hash tag, by the rule of one of five programs.
//!
//! Keys with the same tag live on the same shard. The rules differ just enough to lose data. `{42}user` is tagged in Redis and
//! not in redis-sharding. `a{}` has an empty tag in codis and is not tagged in Redis. So a rule is named after the program
//! whose data it places.

use crate::TopologyError;
use std::fmt;
use std::str::FromStr;

/// Rule that finds the hash tag of a key. A key without a tag counts whole.
///
/// | rule       | where the tag is                                                | may be empty |
/// | ---        | ---                                                             | ---          |
/// | `sml`      | from the last `{` to a `}` that ends the key                    | yes          |
/// | `perl`     | from the first `{` to a `}` that ends the key, on one line      | no           |
/// | `redis`    | from the first `{` to the first `}` behind it                   | no           |
/// | `codis`    | from the first `{` to the first `}` behind it                   | yes          |
/// | two chars  | from the first of the one to the first of the other behind it   | no           |
/// | `none`     | nowhere                                                         |              |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TagRule {
    /// redis-sharding in Standard ML (`key_tag` in redis-sharding.sml), our default.
    #[default]
    Sml,
    /// redis-sharding in Perl (`key2server` in RedisSharding.pm): the pattern `{(.+)}$`. As in every Perl pattern
    /// the dot takes no line feed and the `$` overlooks one at the very end.
    Perl,
    /// Redis Cluster (`keyHashSlot` in cluster.c).
    Redis,
    /// codis (`hashSlot` in pkg/proxy/mapper.go).
    Codis,
    /// twemproxy's `hash_tag` and predixy's `HashTag`: the rule of Redis with any two ASCII characters.
    TwoChars {
        /// The character before the tag.
        open: u8,
        /// The character behind it; may be the same.
        close: u8,
    },
    /// The whole key counts, whatever is in it.
    None,
}

/// The rules that have a name.
const NAMES: [(&str, TagRule); 5] = [
    ("sml", TagRule::Sml),
    ("perl", TagRule::Perl),
    ("redis", TagRule::Redis),
    ("codis", TagRule::Codis),
    ("none", TagRule::None),
];

impl TagRule {
    /// The part of `key` that counts: its tag, or all of it.
    #[inline(always)]
    pub fn tag<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        let tag = match *self {
            TagRule::Sml => tag_at_end(key),
            TagRule::Perl => tag_of_pattern(key),
            TagRule::Redis => tag_between(key, b'{', b'}').filter(|tag| !tag.is_empty()),
            TagRule::Codis => tag_between(key, b'{', b'}'),
            TagRule::TwoChars { open, close } => tag_between(key, open, close).filter(|tag| !tag.is_empty()),
            TagRule::None => None,
        };
        tag.unwrap_or(key)
    }

    /// The characters around a tag. With each rule that knows tags, one at the end of a key counts.
    pub fn characters(&self) -> Option<(char, char)> {
        match *self {
            TagRule::Sml | TagRule::Perl | TagRule::Redis | TagRule::Codis => Some(('{', '}')),
            TagRule::TwoChars { open, close } => Some((char::from(open), char::from(close))),
            TagRule::None => None,
        }
    }
}

impl fmt::Display for TagRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let TagRule::TwoChars { open, close } = *self {
            return write!(formatter, "{}{}", char::from(open), char::from(close));
        }
        let name = NAMES.iter().find(|(_, rule)| rule == self).map_or("", |(name, _)| name);
        formatter.write_str(name)
    }
}

impl FromStr for TagRule {
    type Err = TopologyError;

    /// Reads a name of the table above, or exactly two ASCII characters.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let [open, close] = *text.as_bytes()
            && text.is_ascii()
        {
            return Ok(TagRule::TwoChars { open, close });
        }
        NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, rule)| *rule)
            .ok_or_else(|| TopologyError::TagRule { text: text.to_owned() })
    }
}

/// The text between the last `{` and a final `}`.
fn tag_at_end(key: &[u8]) -> Option<&[u8]> {
    let inner = key.strip_suffix(b"}")?;
    let open = inner.iter().rposition(|&byte| byte == b'{')?;
    Some(&inner[open + 1..])
}

/// The capture of `{(.+)}$`. The match is the leftmost one and `.+` is greedy. So it starts at the first `{` that no line feed
/// separates from the final `}`.
fn tag_of_pattern(key: &[u8]) -> Option<&[u8]> {
    let inner = key.strip_suffix(b"\n").unwrap_or(key).strip_suffix(b"}")?;
    let line_start = inner.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let line = &inner[line_start..];
    let open = line.iter().position(|&byte| byte == b'{')?;
    Some(&line[open + 1..]).filter(|tag| !tag.is_empty())
}

/// The text between the first `open` and the first `close` behind it.
fn tag_between(key: &[u8], open: u8, close: u8) -> Option<&[u8]> {
    let start = key.iter().position(|&byte| byte == open)? + 1;
    let len = key[start..].iter().position(|&byte| byte == close)?;
    Some(&key[start..start + len])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rule` as users write it, applied to `key`.
    fn tag<'a>(rule: &str, key: &'a str) -> &'a str {
        let rule: TagRule = rule.parse().expect("a rule");
        std::str::from_utf8(rule.tag(key.as_bytes())).expect("cut between characters")
    }

    #[test]
    fn the_two_rules_of_redis_sharding_differ_at_their_edges() {
        let cases = [
            // key, what Perl hashes, what SML hashes
            ("user{42}", "42", "42"),
            ("{42}user", "{42}user", "{42}user"),
            ("{}", "{}", ""),
            ("a{}", "a{}", ""),
            ("a{b}{c}", "b}{c", "c"),
            ("a{b{c}", "b{c", "c"),
            ("{{}", "{", ""),
            ("{}}", "}", "}"),
            ("a{b}\n", "b", "a{b}\n"),
            ("{a\nb}", "{a\nb}", "a\nb"),
            ("{a\n{b{c}", "b{c", "c"),
            ("{a\n{}", "{a\n{}", ""),
            ("{a}\n}", "{a}\n}", "a}\n"),
            ("{b}}\n", "b}", "{b}}\n"),
            ("a{b}\n\n", "a{b}\n\n", "a{b}\n\n"),
            ("{}\n", "{}\n", "{}\n"),
            ("x}", "x}", "x}"),
            ("{x", "{x", "{x"),
            ("}", "}", "}"),
            ("{", "{", "{"),
            ("\n", "\n", "\n"),
            ("", "", ""),
        ];
        for (key, perl, sml) in cases {
            assert_eq!((tag("perl", key), tag("sml", key)), (perl, sml), "{key:?}");
        }
    }

    #[test]
    fn redis_twemproxy_and_codis_differ_in_the_empty_tag_only() {
        let cases = [
            // key, what Redis, twemproxy and predixy hash, what codis hashes
            ("user{42}", "42", "42"),
            ("{42}user", "42", "42"),
            ("a{b}{c}", "b", "b"),
            ("a{b{c}", "b{c", "b{c"),
            ("}a{b}", "b", "b"),
            ("{a\nb}", "a\nb", "a\nb"),
            ("{}y", "{}y", ""),
            ("{}{b}", "{}{b}", ""),
            ("foo{{bar}}zap", "{bar", "{bar"),
            ("x}", "x}", "x}"),
            ("{x", "{x", "{x"),
            ("", "", ""),
        ];
        for (key, redis, codis) in cases {
            assert_eq!((tag("redis", key), tag("{}", key)), (redis, redis), "{key:?}");
            assert_eq!(tag("codis", key), codis, "{key:?}");
            assert_eq!(tag("none", key), key);
        }
    }

    #[test]
    fn any_two_characters_make_a_rule() {
        assert_eq!(tag("<>", "a<b>{c}"), "b");
        assert_eq!(tag("||", "a|b|c"), "b");
        assert_eq!(tag("||", "a||c"), "a||c");
        assert_eq!(tag("$|", "x|$y|z"), "y");
    }

    #[test]
    fn rules_print_as_they_are_written() {
        for text in ["sml", "perl", "redis", "codis", "none", "{}", "<>"] {
            assert_eq!(text.parse::<TagRule>().map(|rule| rule.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn other_texts_are_no_rule() {
        for text in ["", "{", "{}}", "é", "Redis", "twemproxy"] {
            let error = text.parse::<TagRule>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("tag rule {text:?}: must be sml, perl, ")), "{error}");
        }
    }
}
