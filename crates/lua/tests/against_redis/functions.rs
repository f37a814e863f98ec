//! Libraries of functions.

use crate::Pair;

/// Codes of libraries, in the order in which they are loaded.
const LIBRARIES: &[&str] = &[
    "#!lua name=one\nredis.register_function('f', function(k,a) return {k,a} end)",
    "#!lua name=one\nredis.register_function('f', function(k,a) return {k,a} end)",
    "#!lua name=two\nredis.register_function('f', function(k,a) return 2 end)",
    "#!lua name=two\nredis.register_function('g', function(k,a) return redis.call('set',k[1],a[1]) end)",
    "#!lua name=three\nredis.register_function{function_name='h', callback=function() return redis.call('get','x') end, \
     flags={'no-writes'}, description='reads'}",
    "#!lua name=four\nredis.register_function{function_name='w', callback=function() return redis.call('set','x',1) end, \
     flags={'no-writes','allow-stale'}}",
    "#!lua name=bad1\nx=1",
    "#!lua name=bad2\nredis.call('get','x')",
    "#!lua name=bad3\nlocal a = 1",
    "#!lua name=bad4\nredis.register_function('f2')",
    "#!lua name=bad5\nredis.register_function()",
    "#!lua name=bad6\nredis.register_function(1,2,3)",
    "#!lua name=bad7\nredis.register_function('x', 1)",
    "#!lua name=bad8\nredis.register_function({}, function() end)",
    "#!lua name=bad9\nredis.register_function('a b', function() end)",
    "#!lua name=bad10\nredis.register_function{callback=function() end}",
    "#!lua name=bad11\nredis.register_function{function_name='x'}",
    "#!lua name=bad12\nredis.register_function{function_name='x', callback=1}",
    "#!lua name=bad13\nredis.register_function{function_name={}, callback=function() end}",
    "#!lua name=bad14\nredis.register_function{function_name='x', callback=function() end, flags=1}",
    "#!lua name=bad15\nredis.register_function{function_name='x', callback=function() end, flags={'x'}}",
    "#!lua name=bad16\nredis.register_function{function_name='x', callback=function() end, other=1}",
    "#!lua name=bad17\nredis.register_function{function_name='x', callback=function() end, description={}}",
    "#!lua name=bad18\nredis.register_function{1}",
    "#!lua name=bad19\nredis.register_function('x', function() end) redis.register_function('x', function() end)",
    "#!lua name=bad20\nreturn (",
    "#!lua name=bad21\nerror('x')",
    "#!lua name=bad22\nerror({err='E x'})",
    "#!lua name=bad23\nreturn math.random()",
    "#!lua name=bad24\nredis.foo = 1",
    "#!lua name=bad25\nredis.setresp(3)",
    "#!lua name=bad-26\nx",
    "#!lua name=\nx",
    "#!lua name=a name=b\nx",
    "#!lua foo=bar\nx",
    "#!lua\nx",
    "#!python name=x\nx",
    "#!lua name=x",
    "no metadata",
    "#!LUA NAME=caps\nredis.register_function('caps', function() return redis.REDIS_VERSION end)",
    "#!lua name=five\nlocal n = 0 redis.register_function('count', function() n = n + 1 return n end) \
     redis.register_function('fails', function() error('here') end) \
     redis.register_function('keys', function() return KEYS end) \
     redis.register_function('globals', function() return type(string.rep)..type(pcall)..type(cjson) end) \
     redis.register_function('writes', function() x = 1 end) \
     redis.register_function('late', function() return redis.register_function end) \
     redis.register_function('unknown', function() return redis.call('nosuch') end)",
];

const CALLS: &str = "\
FCALL f 0
FCALL f 1 a b
FCALL F 0
FCALL f 2 a
FCALL f -1
FCALL g 1 x v
FCALL h 0
FCALL w 0
FCALL_RO f 0
FCALL_RO g 1 x v
FCALL_RO h 0
FCALL_RO w 0
FCALL nosuch 0
FCALL caps 0
FCALL count 0
FCALL count 0
FCALL fails 0
FCALL keys 0
FCALL globals 0
FCALL writes 0
FCALL unknown 0
FUNCTION STATS
FUNCTION LIST LIBRARYNAME two
FUNCTION LIST LIBRARYNAME TW* WITHCODE
FUNCTION LIST WITHCODE LIBRARYNAME nosuch
FUNCTION DELETE two
FCALL g 1 x v
FUNCTION DELETE two
FUNCTION STATS";

#[test]
fn libraries_get_the_replies_of_redis() {
    let Some(mut pair) = Pair::start() else { return };
    for protocol in ["2", "3"] {
        pair.node.ask_raw(&[b"HELLO", protocol.as_bytes()]);
        pair.ours(&[b"HELLO", protocol.as_bytes()]);
        pair.compare_line("FUNCTION FLUSH");
        for code in LIBRARIES {
            pair.compare(&[b"FUNCTION", b"LOAD", code.as_bytes()]);
        }
        for code in LIBRARIES {
            pair.compare(&[b"FUNCTION", b"LOAD", b"REPLACE", code.as_bytes()]);
        }
        CALLS.lines().for_each(|line| pair.compare_line(line));
    }
    pair.finish();
}

#[test]
fn libraries_travel_in_dumps_both_ways() {
    let Some(mut pair) = Pair::start() else { return };
    for code in [LIBRARIES[0], LIBRARIES[3]] {
        pair.compare(&[b"FUNCTION", b"LOAD", code.as_bytes()]);
    }
    let theirs = pair.node.ask_raw(&[b"FUNCTION", b"DUMP"]);
    let ours = pair.ours(&[b"FUNCTION", b"DUMP"]);
    let payload = |reply: &[u8]| resp::reply::as_bulk(reply).expect("a payload").to_vec();
    for policy in ["APPEND", "REPLACE", "FLUSH", "nosuch"] {
        let expected = pair.node.ask_raw(&[b"FUNCTION", b"RESTORE", &payload(&ours), policy.as_bytes()]);
        let got = pair.ours(&[b"FUNCTION", b"RESTORE", &payload(&theirs), policy.as_bytes()]);
        assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{policy}");
    }
    CALLS.lines().take(6).for_each(|line| pair.compare_line(line));
    pair.finish();
}
