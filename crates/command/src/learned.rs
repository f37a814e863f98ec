//! Commands that the table does not have: of modules, of newer nodes. A node describes them in its reply to `COMMAND INFO name`
//! (RESP2). The reply becomes a [`Command`] like those of the table, so that all later code is the same.
//!
//! The flags alone decide whether a command is forwarded. The decision is cautious: a command is refused if it blocks, or if it
//! concerns the connection or the node. It is also refused if its keys are not in the arguments, or its replies cannot be
//! merged.

use std::borrow::Cow;

use resp::reply::{self, Elements, as_integer};

use crate::carry::{Across, Carry, Merge, Refusal, Wait};
use crate::command::Command;
use crate::keys::{Begin, Find, KeySpec, Keys, Keyword};
use crate::sets::{Acl, Flags, KeyFlags, Tips};
use crate::since::Since;

/// The longest name that is asked about.
pub const NAME_BYTES_MAX: usize = 64;
/// Limit of key specs of one command; Redis's own have three at most. With more the command is refused.
pub const SPECS_MAX: usize = 16;
/// Limit of subcommands; Redis's CLUSTER has 28. The rest is unknown.
pub const SUBCOMMANDS_MAX: usize = 256;

/// Whether nodes may be asked about `name`. Redis compares names as C strings and takes `config|get` for a subcommand. A name
/// with odd bytes could therefore get the facts of another command.
pub fn is_learnable(name: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'|';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(is_plain)
}

/// The command in `reply`, a complete reply to `COMMAND INFO name`. `None` if the node does not know it, or if the reply is
/// invalid.
pub fn parse(reply: &[u8]) -> Option<Command> {
    let entry = reply::elements(reply)?.next()?;
    let mut command = parse_entry(entry)?;
    if let Some(entries) = reply::elements(entry)?.nth(9).and_then(reply::elements) {
        // One level: a subcommand has no subcommands of its own, in Redis and here.
        command.subcommands = entries.take(SUBCOMMANDS_MAX).filter_map(parse_entry).collect();
    }
    if !command.subcommands.is_empty() {
        command.carry = Carry::Container;
        command.arity = command.arity.min(-2);
    }
    Some(command)
}

/// One entry, without its subcommands.
fn parse_entry(entry: &[u8]) -> Option<Command> {
    let mut fields = reply::elements(entry)?;
    let name = std::str::from_utf8(text(fields.next()?)?).ok()?.to_ascii_lowercase();
    let arity = i32::try_from(as_integer(fields.next()?)?).ok().filter(|&arity| arity != 0)?;
    let flags = words(fields.next()?, Flags::default(), |set, word| {
        set.and(Flags::from_word(word).unwrap_or_default())
    })?;
    let legacy = [as_integer(fields.next()?)?, as_integer(fields.next()?)?, as_integer(fields.next()?)?];
    let acl = fields.next().and_then(|acl| words(acl, Acl::default(), add_category)).unwrap_or_default();
    let tips = fields.next().and_then(|tips| {
        words(tips, Tips::default(), |set, word| set.and(Tips::from_word(word).unwrap_or_default()))
    });
    // Before Redis 7.0 there are no key specs, only the place of first and last key.
    let specs = match fields.next().and_then(reply::elements) {
        Some(specs) => specs.take(SPECS_MAX + 1).map(parse_spec).collect(),
        // A part of the keys is none: those are found by code.
        None if flags.contains(Flags::MOVABLEKEYS) => Vec::new(),
        None => legacy_spec(legacy).into_iter().collect(),
    };
    let mut command = Command {
        name: Cow::Owned(name),
        arity,
        flags,
        acl,
        tips: tips.unwrap_or_default(),
        keys: Keys::new(Cow::Owned(specs), arity),
        carry: Carry::AnyShard,
        across: Across::Refused,
        since: Since::ALWAYS,
        subcommands: Cow::Borrowed(&[]),
    };
    command.carry = carry(&command);
    Some(command)
}

fn add_category(set: Acl, word: &[u8]) -> Acl {
    set.and(word.strip_prefix(b"@").and_then(Acl::from_word).unwrap_or_default())
}

/// Joins the words of an array into a set.
fn words<Set>(array: &[u8], empty: Set, join: impl Fn(Set, &[u8]) -> Set) -> Option<Set> {
    Some(reply::elements(array)?.filter_map(text).fold(empty, join))
}

/// The text of a simple or a bulk string.
fn text(element: &[u8]) -> Option<&[u8]> {
    match element.strip_prefix(b"+") {
        Some(line) => line.strip_suffix(b"\r\n"),
        None => reply::as_bulk(element),
    }
}

/// An invalid spec becomes one that finds nothing, for which the command is refused.
fn parse_spec(spec: &[u8]) -> KeySpec {
    let flags = field(spec, b"flags").and_then(|flags| {
        words(flags, KeyFlags::default(), |set, word| set.and(KeyFlags::from_word(word).unwrap_or_default()))
    });
    KeySpec {
        begin: field(spec, b"begin_search").and_then(parse_begin).unwrap_or(Begin::Unknown),
        find: field(spec, b"find_keys").and_then(parse_find).unwrap_or(Find::Unknown),
        flags: flags.unwrap_or_default(),
        note: None,
    }
}

fn parse_begin(step: &[u8]) -> Option<Begin> {
    let spec = field(step, b"spec")?;
    match text(field(step, b"type")?)? {
        b"index" => Some(Begin::Index(place(spec, b"index").filter(|&at| at > 0)?)),
        b"keyword" => {
            let word = Keyword::new(text(field(spec, b"keyword")?)?)?;
            Some(Begin::Keyword { word, from: number(spec, b"startfrom").filter(|&from| from != 0)? })
        }
        _ => None,
    }
}

fn parse_find(step: &[u8]) -> Option<Find> {
    let spec = field(step, b"spec")?;
    let distance = place(spec, b"keystep").filter(|&step| step > 0)?;
    match text(field(step, b"type")?)? {
        b"range" => Some(Find::Range {
            last: number(spec, b"lastkey")?,
            step: distance,
            limit: place(spec, b"limit")?,
        }),
        b"keynum" => Some(Find::Num {
            at: place(spec, b"keynumidx")?,
            first: place(spec, b"firstkey")?,
            step: distance,
        }),
        _ => None,
    }
}

/// The value of `name` in an array of names and values: the form of RESP2 for a map.
fn field<'a>(pairs: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut fields: Elements<'a> = reply::elements(pairs)?;
    while let (Some(key), Some(value)) = (fields.next(), fields.next()) {
        if text(key) == Some(name) {
            return Some(value);
        }
    }
    None
}

fn number(pairs: &[u8], name: &[u8]) -> Option<i32> {
    as_integer(field(pairs, name)?)?.try_into().ok()
}

/// A number that is not negative.
fn place(pairs: &[u8], name: &[u8]) -> Option<usize> {
    number(pairs, name)?.try_into().ok()
}

/// First key, last key and step, where `last` counts from the end if negative.
fn legacy_spec([first, last, step]: [i64; 3]) -> Option<KeySpec> {
    if first == 0 {
        return None;
    }
    let range = || {
        let last = if last < 0 { last } else { last.checked_sub(first)? };
        let (last, step) = (i32::try_from(last).ok()?, usize::try_from(step).ok().filter(|&step| step > 0)?);
        Some((Begin::Index(usize::try_from(first).ok()?), Find::Range { last, step, limit: 0 }))
    };
    let (begin, find) = range().unwrap_or((Begin::Unknown, Find::Unknown));
    Some(KeySpec { begin, find, flags: KeyFlags::default(), note: None })
}

/// The way of a command of which only Redis's facts are known.
fn carry(command: &Command) -> Carry {
    let (flags, tips) = (command.flags, command.tips);
    let connection = Flags::NO_AUTH.and(Flags::NO_MULTI).and(Flags::ASKING);
    match () {
        () if flags.contains(Flags::PUBSUB) => Carry::Refused(Refusal::Later("pub/sub")),
        () if flags.contains(Flags::ADMIN) => never("it is about a node and not about data"),
        () if flags.intersects(connection) => never(CONNECTION),
        // WAITAOF, of Redis 7.2.
        () if tips.contains(Tips::ALL_SHARDS.and(Tips::AGG_MIN)) && !command.keys.has_any() => {
            Carry::Blocking(Wait::Replicas)
        }
        () if command.acl.contains(Acl::CONNECTION) => never(CONNECTION),
        () if !tells_keys(command) => never("its keys cannot be told from its arguments"),
        () if flags.contains(Flags::BLOCKING) && command.keys.has_any() => Carry::Blocking(Wait::Untold),
        () if flags.contains(Flags::BLOCKING) => never("it waits, and names no key that it waits for"),
        () if command.keys.has_any() => Carry::Shard,
        () if tips.intersects(Tips::ALL_SHARDS.and(Tips::ALL_NODES)) => match () {
            () if tips.contains(Tips::ALL_SUCCEEDED) => Carry::AllShards(Merge::AllOk),
            () if tips.contains(Tips::AGG_SUM) => Carry::AllShards(Merge::Sum),
            () if tips.contains(Tips::AGG_LOGICAL_AND) => Carry::AllShards(Merge::And),
            () => never("the replies of several shards to it cannot be merged"),
        },
        () if tips.contains(Tips::SPECIAL_REQUEST) => {
            never("it has to be divided among shards in a way of its own")
        }
        () => Carry::AnyShard,
    }
}

const CONNECTION: &str = "it is about the connection to a node and not about data";

fn never(why: &'static str) -> Carry {
    Carry::Refused(Refusal::Never(why))
}

/// Whether the key specs find all keys.
fn tells_keys(command: &Command) -> bool {
    let specs = &command.keys.specs;
    let incomplete = KeyFlags::INCOMPLETE;
    // A module that finds keys by code of its own leaves a spec behind that may not hold, and marks it so.
    let code = KeyFlags::VARIABLE_FLAGS;
    let is_movable = command.flags.contains(Flags::MOVABLEKEYS);
    let is_whole = |spec: &KeySpec| {
        spec.begin != Begin::Unknown
            && spec.find != Find::Unknown
            && !spec.flags.contains(incomplete)
            && !(is_movable && spec.flags.contains(code))
    };
    specs.len() <= SPECS_MAX && specs.iter().all(is_whole) && !(is_movable && specs.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::Resolved;
    use crate::testing::with_request;
    use resp::reply::{ReplyLimits, Scanner};

    /// A reply to `COMMAND INFO x.y` with these flags, tips and specs, given as RESP.
    fn reply(flags: &str, tips: &str, specs: &str) -> Vec<u8> {
        let words = |text: &str| {
            let lines: String = text.split_whitespace().map(|word| format!("+{word}\r\n")).collect();
            format!("*{}\r\n{lines}", text.split_whitespace().count())
        };
        let (flags, tips) = (words(flags), words(tips));
        format!(
            "*1\r\n*10\r\n$3\r\nX.Y\r\n:-2\r\n{flags}:0\r\n:0\r\n:0\r\n*1\r\n+@slow\r\n{tips}{specs}*0\r\n"
        )
        .into_bytes()
    }

    /// A spec: the keys from argument 1 to the end, `step` apart.
    fn spec(flags: &str, step: i32) -> String {
        format!(
            "*1\r\n*6\r\n$5\r\nflags\r\n*1\r\n+{flags}\r\n$12\r\nbegin_search\r\n*4\r\n$4\r\ntype\r\n$5\r\nindex\r\n\
             $4\r\nspec\r\n*2\r\n$5\r\nindex\r\n:1\r\n$9\r\nfind_keys\r\n*4\r\n\
             $4\r\ntype\r\n$5\r\nrange\r\n$4\r\nspec\r\n*6\r\n$7\r\nlastkey\r\n:-1\r\n$7\r\nkeystep\r\n:{step}\r\n$5\r\nlimit\r\n:0\r\n"
        )
    }

    fn carry_of(flags: &str, tips: &str, specs: &str) -> Carry {
        parse(&reply(flags, tips, specs)).expect("an entry").carry
    }

    #[test]
    fn a_command_with_keys_is_routed_by_them() {
        let command = parse(&reply("readonly fast", "", &spec("RO", 2))).expect("an entry");
        assert_eq!((&*command.name, command.arity, command.carry), ("x.y", -2, Carry::Shard));
        with_request("X.Y a 1 b 2", |request| {
            let mut positions = Vec::new();
            assert_eq!(command.keys(request, &mut positions), Ok(()));
            assert_eq!(positions, [1, 3]);
            assert_eq!(command.resolve(request), Resolved::Command(&command));
        });
    }

    #[test]
    fn commands_that_may_be_unsafe_are_refused() {
        let refused = |carry: Carry| matches!(carry, Carry::Refused(_));
        for flags in ["blocking", "pubsub", "admin", "no_multi", "no_auth", "asking", "movablekeys"] {
            assert!(refused(carry_of(flags, "", "*0\r\n")), "{flags}");
        }
        assert!(refused(carry_of("readonly", "", &spec("incomplete", 1))));
        assert!(refused(carry_of("movablekeys", "", &spec("variable_flags", 1))));
        assert!(refused(carry_of("readonly", "", &spec("RO", 0))), "a step of 0 is none");
        assert!(refused(carry_of("readonly", "", "*1\r\n*0\r\n")), "a spec that says nothing");
        assert!(refused(carry_of("readonly", "", &format!("*17\r\n{}", "*0\r\n".repeat(17)))));
        assert!(refused(carry_of("readonly", "request_policy:special", "*0\r\n")));
        assert!(refused(carry_of("readonly", "request_policy:all_shards", "*0\r\n")));
    }

    #[test]
    fn a_command_that_may_wait_has_no_known_limit() {
        assert_eq!(carry_of("write blocking", "", &spec("RW", 1)), Carry::Blocking(Wait::Untold));
    }

    #[test]
    fn a_command_without_keys_goes_where_its_tips_say() {
        assert_eq!(carry_of("readonly", "", "*0\r\n"), Carry::AnyShard);
        let all = |policy: &str| carry_of("write", &format!("request_policy:all_shards {policy}"), "*0\r\n");
        assert_eq!(all("response_policy:agg_sum"), Carry::AllShards(Merge::Sum));
        assert_eq!(all("response_policy:all_succeeded"), Carry::AllShards(Merge::AllOk));
        // The tips of WAITAOF in Redis 7.2. A single node cannot answer it.
        assert_eq!(all("response_policy:agg_min"), Carry::Blocking(Wait::Replicas));
        let keys = spec("RO", 1);
        let policy = "request_policy:all_shards response_policy:agg_min";
        assert_eq!(carry_of("readonly", policy, &keys), Carry::Shard);
    }

    #[test]
    fn nodes_before_7_0_tell_first_and_last_key_only() {
        let reply = |range: &str, flags: &str| {
            format!("*1\r\n*7\r\n$1\r\nx\r\n:-2\r\n*1\r\n+{flags}\r\n{range}*1\r\n+@write\r\n").into_bytes()
        };
        let command = parse(&reply(":2\r\n:3\r\n:1\r\n", "write")).expect("an entry");
        assert_eq!(command.carry, Carry::Shard);
        assert_eq!(command.keys.specs[0].begin, Begin::Index(2));
        assert_eq!(command.keys.specs[0].find, Find::Range { last: 1, step: 1, limit: 0 });
        let by_code = parse(&reply(":0\r\n:0\r\n:0\r\n", "movablekeys")).expect("an entry");
        assert!(matches!(by_code.carry, Carry::Refused(_)));
        let in_part = parse(&reply(":1\r\n:1\r\n:1\r\n", "movablekeys")).expect("an entry");
        assert!(matches!(in_part.carry, Carry::Refused(_)), "SORT has a key behind STORE");
        assert_eq!(parse(&reply(":0\r\n:0\r\n:0\r\n", "fast")).expect("an entry").carry, Carry::AnyShard);
    }

    #[test]
    fn a_node_that_does_not_know_or_talks_nonsense_teaches_nothing() {
        for reply in
            ["*1\r\n$-1\r\n", "*1\r\n*-1\r\n", "*0\r\n", "*-1\r\n", "-ERR no\r\n", "*1\r\n*1\r\n$1\r\nx\r\n"]
        {
            assert_eq!(parse(reply.as_bytes()), None, "{reply}");
        }
    }

    #[test]
    fn no_reply_that_is_resp_makes_it_panic() {
        let reply = reply("readonly", "", &spec("RO", 1));
        for at in 0..reply.len() {
            for byte in b"\0+-:$*019a\r\n\xff" {
                let mut reply = reply.clone();
                reply[at] = *byte;
                if Scanner::default().scan(&reply, &ReplyLimits::default()) == Ok(Some(reply.len())) {
                    let command = parse(&reply);
                    assert!(command.is_none_or(|command| command.keys.specs.len() <= SPECS_MAX));
                }
            }
        }
    }

    #[test]
    fn odd_names_are_not_asked_about() {
        assert!(is_learnable(b"JSON.GET") && is_learnable(&[b'a'; NAME_BYTES_MAX]));
        for name in
            [&b""[..], b"a b", b"get\0", b"config|get", b"a\r\n", b"\xc3\xa9", &[b'a'; NAME_BYTES_MAX + 1]]
        {
            assert!(!is_learnable(name), "{name:?}");
        }
    }
}
