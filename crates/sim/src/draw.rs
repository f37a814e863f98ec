//! Commands on keys that belong to one client. They are drawn from templates with marked keys, so that a model can run them
//! under other names.

use crate::keyspace::unix_ms;
use crate::model::{FamilyId, Word};
use command::{Flags, Tips};
use stdx::{Instant, Prng};

/// One drawn command.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub words: Vec<Word>,
    /// Whether it changes nothing.
    pub reads: bool,
    /// Whether its time makes a difference, now or later.
    pub timed: bool,
    /// Comparison of the reply with the model's.
    pub shape: Shape,
}

/// Comparison of a reply with the model's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Byte for byte.
    Exact,
    /// An array of unordered entries, each with this number of elements.
    Entries(usize),
    /// The same behind a cursor.
    Page(usize),
}

/// Templates by the type that the keys of one family hold most of the time.
const KINDS: [&[&str]; 6] = [STRINGS, COUNTERS, HASHES, LISTS, SETS, ZSETS];

const STRINGS: &[&str] = &[
    "SET <key> <value>",
    "SET <key> <value>",
    "SET <key> <value> PX <soon>",
    "SET <key> <value> PXAT <at>",
    "SET <key> <value> EX <secs> NX",
    "SET <key> <value> XX KEEPTTL",
    "SET <key> <value> GET",
    "SETEX <key> <secs> <value>",
    "PSETEX <key> <soon> <value>",
    "SETNX <key> <value>",
    "GET <key>",
    "GET <key>",
    "GET <key>",
    "GETSET <key> <value>",
    "GETDEL <key>",
    "GETEX <key> PX <soon>",
    "GETEX <key> PERSIST",
    "APPEND <key> <value>",
    "STRLEN <key>",
    "GETRANGE <key> <index> <index>",
    "SETRANGE <key> <count> <value>",
    "MSETNX <key> <value> <other> <value>",
    "LCS <key> <other>",
];

const COUNTERS: &[&str] = &[
    "INCR <key>",
    "INCR <key>",
    "DECR <key>",
    "INCRBY <key> <integer>",
    "DECRBY <key> <integer>",
    "INCRBYFLOAT <key> <score>",
    "GET <key>",
    "SET <key> <integer>",
    "SETBIT <key> <count> 1",
    "GETBIT <key> <count>",
    "BITCOUNT <key>",
    "BITOP XOR <key> <key> <other>",
];

const HASHES: &[&str] = &[
    "HSET <key> <field> <value>",
    "HSET <key> <field> <integer> <field> <value>",
    "HSETNX <key> <field> <value>",
    "HINCRBY <key> <field> <integer>",
    "HINCRBYFLOAT <key> <field> <score>",
    "HDEL <key> <field> <field>",
    "HGET <key> <field>",
    "HMGET <key> <field> <field> <field>",
    "HGETALL <key>",
    "HKEYS <key>",
    "HVALS <key>",
    "HLEN <key>",
    "HEXISTS <key> <field>",
    "HSTRLEN <key> <field>",
    "HSCAN <key> 0 COUNT 1000",
];

const LISTS: &[&str] = &[
    "LPUSH <key> <value>",
    "RPUSH <key> <value> <value> <value>",
    "RPUSHX <key> <value>",
    "LPOP <key>",
    "RPOP <key> <count>",
    "LLEN <key>",
    "LRANGE <key> <index> <index>",
    "LRANGE <key> 0 -1",
    "LINDEX <key> <index>",
    "LSET <key> <index> <value>",
    "LINSERT <key> BEFORE <field> <value>",
    "LPUSH <key> <field>",
    "LPOS <key> <field>",
    "LREM <key> 0 <field>",
    "LTRIM <key> 0 <count>",
    "LMOVE <key> <other> LEFT RIGHT",
    "RPOPLPUSH <key> <other>",
    "SORT <key> ALPHA STORE <other>",
];

const SETS: &[&str] = &[
    "SADD <key> <field> <field>",
    "SADD <key> <field>",
    "SREM <key> <field>",
    "SISMEMBER <key> <field>",
    "SMISMEMBER <key> <field> <field>",
    "SMEMBERS <key>",
    "SCARD <key>",
    "SMOVE <key> <other> <field>",
    "SINTER <key> <other>",
    "SUNION <key> <other>",
    "SDIFF <key> <other>",
    "SUNIONSTORE <key> <key> <other>",
    "SDIFFSTORE <key> <other> <key>",
    "SINTERCARD 2 <key> <other>",
    "SSCAN <key> 0 COUNT 1000",
];

const ZSETS: &[&str] = &[
    "ZADD <key> <score> <field>",
    "ZADD <key> GT CH <score> <field> <score> <field>",
    "ZINCRBY <key> <score> <field>",
    "ZREM <key> <field>",
    "ZSCORE <key> <field>",
    "ZMSCORE <key> <field> <field>",
    "ZCARD <key>",
    "ZRANK <key> <field>",
    "ZRANGE <key> 0 -1 WITHSCORES",
    "ZRANGE <key> <index> <index> REV",
    "ZRANGEBYSCORE <key> -inf (<score>",
    "ZCOUNT <key> <score> +inf",
    "ZPOPMIN <key>",
    "ZREMRANGEBYRANK <key> 3 -1",
    "ZUNIONSTORE <other> 2 <key> <other>",
    "ZRANGESTORE <other> <key> 0 2",
    "ZINTER 2 <key> <other> WITHSCORES",
    "ZDIFFSTORE <other> 2 <key> <other>",
    "ZSCAN <key> 0 COUNT 1000",
];

const ANY: &[&str] = &[
    "DEL <key>",
    "UNLINK <key> <key>",
    "TYPE <key>",
    "EXISTS <key>",
    "PEXPIREAT <key> <at>",
    "EXPIRE <key> <secs>",
    "PEXPIRE <key> <soon> GT",
    "TTL <key>",
    "PTTL <key>",
    "PEXPIRETIME <key>",
    "PERSIST <key>",
    "RENAME <key> <other>",
    "RENAMENX <key> <other>",
    "COPY <key> <other> REPLACE",
];

/// A command for `family`.
pub(crate) fn draw(family: FamilyId, now: Instant, prng: &mut Prng) -> Drawn {
    let kind = match prng.below(16) {
        0 => *prng.pick(&KINDS),
        1..=3 => ANY,
        _ => KINDS[family.number as usize % KINDS.len()],
    };
    let template = *prng.pick(kind);
    let letter = prng.below(LETTERS) as u8;
    let words: Vec<Word> =
        template.split(' ').map(|word| draw_word(word, letter, family, now, prng)).collect();
    let name = template.split(' ').next().unwrap_or_default();
    let command = command::find(name.as_bytes()).expect("templates begin with names of commands");
    Drawn {
        words,
        reads: command.flags.contains(Flags::READONLY),
        timed: ["<soon>", "<secs>", "<at>", "TTL"].iter().any(|word| template.contains(word)),
        shape: shape(name, command.tips),
    }
}

/// Number of keys in a family.
pub(crate) const LETTERS: u64 = 3;

fn draw_word(word: &str, letter: u8, family: FamilyId, now: Instant, prng: &mut Prng) -> Word {
    let number = match word {
        "<key>" => return Word::Key(letter),
        "<other>" => return Word::Key(prng.below(LETTERS) as u8),
        "<value>" => return Word::Text(value(family, prng)),
        "<field>" => return Word::Text(format!("field{}", prng.below(5)).into_bytes()),
        "<score>" => format!("{}.{}", prng.below(20), prng.pick(&["0", "5", "25"])),
        "(<score>" => format!("({}", prng.below(20)),
        "<integer>" => (prng.below(2_000) as i64 - 1_000).to_string(),
        "<index>" => (prng.below(12) as i64 - 6).to_string(),
        "<count>" => prng.below(30).to_string(),
        "<secs>" => (1 + prng.below(5)).to_string(),
        "<soon>" => (1 + prng.below(4_000)).to_string(),
        "<at>" => (unix_ms(now) + prng.below(4_000)).to_string(),
        word => word.to_owned(),
    };
    Word::Text(number.into_bytes())
}

/// A value that no other family has.
pub(crate) fn value(family: FamilyId, prng: &mut Prng) -> Vec<u8> {
    let FamilyId { client, number, database, .. } = family;
    format!("f{client}.{number}.{database}#{}", prng.below(1 << 30)).into_bytes()
}

fn shape(name: &str, tips: Tips) -> Shape {
    match name {
        "HGETALL" => Shape::Entries(2),
        "HSCAN" | "ZSCAN" => Shape::Page(2),
        "SSCAN" => Shape::Page(1),
        _ if tips.contains(Tips::NONDETERMINISTIC_OUTPUT_ORDER) => Shape::Entries(1),
        _ => Shape::Exact,
    }
}
