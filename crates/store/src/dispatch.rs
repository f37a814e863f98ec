//! The table of commands.

use crate::commands::{
    bitfield, bits, blocking, config, connection, dump, expiry, functions, generic, geo, hashes,
    hyperloglogs, info, lcs, lists, monitor, pubsub, scan, scripts, set_algebra, sets, sort, stream_groups,
    stream_info, streams, strings, transactions, zset_algebra, zset_ranges, zsets,
};
use crate::rows::{OnKeys, OnStore, Row, Run};

/// A command that only reads.
const fn reads(name: &'static str, arity: i32, run: OnKeys) -> Row {
    Row { name, arity, grows: false, reads: true, run: Run::OnKeys(run) }
}

/// A command that never needs more memory.
const fn row(name: &'static str, arity: i32, run: OnKeys) -> Row {
    Row { name, arity, grows: false, reads: false, run: Run::OnKeys(run) }
}

/// A command that may need more memory.
const fn grows(name: &'static str, arity: i32, run: OnKeys) -> Row {
    Row { name, arity, grows: true, reads: false, run: Run::OnKeys(run) }
}

/// A command that derives a value from others: it may need memory, and reads.
const fn derives(name: &'static str, arity: i32, run: OnKeys) -> Row {
    Row { name, arity, grows: true, reads: true, run: Run::OnKeys(run) }
}

/// A command about connections.
const fn calls(name: &'static str, arity: i32, run: OnStore) -> Row {
    Row { name, arity, grows: false, reads: false, run: Run::OnStore(run) }
}

/// Whether the store has a command of this name; case is ignored.
pub fn supports(name: &[u8]) -> bool {
    ROWS.iter().any(|row| row.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The names of all commands, lower case, by type.
pub fn commands() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

pub(crate) static ROWS: &[Row] = &[
    // Without a key.
    calls("ping", -1, connection::ping),
    row("echo", 2, connection::echo),
    calls("select", 2, connection::select),
    calls("hello", -1, connection::hello),
    calls("reset", 1, connection::reset),
    calls("client", -2, connection::client),
    calls("wait", 3, blocking::wait),
    row("slowlog", -2, monitor::slowlog),
    row("latency", -2, monitor::latency),
    row("time", 1, monitor::time),
    row("module", -2, monitor::module),
    row("config", -2, config::config),
    // Scripts and functions.
    calls("eval", -3, scripts::eval),
    calls("eval_ro", -3, scripts::eval),
    calls("evalsha", -3, scripts::evalsha),
    calls("evalsha_ro", -3, scripts::evalsha),
    calls("script", -2, scripts::script),
    calls("fcall", -3, functions::fcall),
    calls("fcall_ro", -3, functions::fcall),
    calls("function", -2, functions::function),
    // Transactions.
    calls("multi", 1, transactions::multi),
    calls("exec", 1, transactions::exec),
    calls("discard", 1, transactions::discard),
    calls("watch", -2, transactions::watch),
    calls("unwatch", 1, transactions::unwatch),
    // Publish and subscribe.
    calls("subscribe", -2, pubsub::subscribe),
    calls("unsubscribe", -1, pubsub::unsubscribe),
    calls("psubscribe", -2, pubsub::psubscribe),
    calls("punsubscribe", -1, pubsub::punsubscribe),
    calls("ssubscribe", -2, pubsub::ssubscribe),
    calls("sunsubscribe", -1, pubsub::sunsubscribe),
    calls("publish", 3, pubsub::publish),
    calls("spublish", 3, pubsub::spublish),
    calls("pubsub", -2, pubsub::pubsub),
    calls("info", -1, info::info),
    // Strings.
    reads("get", 2, strings::get),
    grows("set", -3, strings::set),
    derives("getset", 3, strings::getset),
    reads("getdel", 2, strings::getdel),
    reads("getex", -2, strings::getex),
    grows("setnx", 3, strings::setnx),
    grows("setex", 4, strings::setex),
    grows("psetex", 4, strings::psetex),
    reads("mget", -2, strings::mget),
    grows("mset", -3, strings::mset),
    grows("msetnx", -3, strings::msetnx),
    grows("append", 3, strings::append),
    reads("strlen", 2, strings::strlen),
    reads("getrange", 4, strings::getrange),
    reads("substr", 4, strings::getrange),
    grows("setrange", 4, strings::setrange),
    grows("incr", 2, strings::incr),
    grows("decr", 2, strings::decr),
    grows("incrby", 3, strings::incrby),
    grows("decrby", 3, strings::decrby),
    grows("incrbyfloat", 3, strings::incrbyfloat),
    reads("lcs", -3, lcs::lcs),
    // Bits.
    grows("setbit", 4, bits::setbit),
    reads("getbit", 3, bits::getbit),
    reads("bitcount", -2, bits::bitcount),
    reads("bitpos", -3, bits::bitpos),
    derives("bitop", -4, bits::bitop),
    grows("bitfield", -2, bitfield::bitfield),
    reads("bitfield_ro", -2, bitfield::bitfield_ro),
    // HyperLogLogs.
    grows("pfadd", -2, hyperloglogs::pfadd),
    reads("pfcount", -2, hyperloglogs::pfcount),
    derives("pfmerge", -2, hyperloglogs::pfmerge),
    // Expiry.
    row("expire", -3, expiry::expire),
    row("pexpire", -3, expiry::pexpire),
    row("expireat", -3, expiry::expireat),
    row("pexpireat", -3, expiry::pexpireat),
    reads("ttl", 2, expiry::ttl),
    reads("pttl", 2, expiry::pttl),
    reads("expiretime", 2, expiry::expiretime),
    reads("pexpiretime", 2, expiry::pexpiretime),
    row("persist", 2, expiry::persist),
    // Keys of any type.
    row("del", -2, generic::del),
    row("unlink", -2, generic::del),
    reads("exists", -2, generic::exists),
    reads("touch", -2, generic::exists),
    reads("type", 2, generic::kind),
    row("keys", 2, generic::keys),
    row("scan", -2, scan::scan),
    row("randomkey", 1, generic::randomkey),
    row("rename", 3, generic::rename),
    row("renamenx", 3, generic::renamenx),
    derives("copy", -3, generic::copy),
    row("dbsize", 1, generic::dbsize),
    row("flushdb", -1, generic::flushdb),
    row("flushall", -1, generic::flushall),
    row("move", 3, generic::shift),
    row("swapdb", 3, generic::swapdb),
    reads("object", -2, generic::object),
    row("memory", -2, generic::memory),
    reads("dump", 2, dump::dump),
    grows("restore", -4, dump::restore),
    derives("sort", -2, sort::sort),
    reads("sort_ro", -2, sort::sort_ro),
    // Hashes.
    grows("hset", -4, hashes::hset),
    grows("hsetnx", 4, hashes::hsetnx),
    grows("hmset", -4, hashes::hmset),
    reads("hget", 3, hashes::hget),
    reads("hmget", -3, hashes::hmget),
    reads("hgetall", 2, hashes::hgetall),
    reads("hkeys", 2, hashes::hkeys),
    reads("hvals", 2, hashes::hvals),
    reads("hlen", 2, hashes::hlen),
    row("hdel", -3, hashes::hdel),
    reads("hexists", 3, hashes::hexists),
    reads("hstrlen", 3, hashes::hstrlen),
    grows("hincrby", 4, hashes::hincrby),
    grows("hincrbyfloat", 4, hashes::hincrbyfloat),
    reads("hscan", -3, scan::hscan),
    reads("hrandfield", -2, hashes::hrandfield),
    // Lists.
    grows("lpush", -3, lists::lpush),
    grows("rpush", -3, lists::rpush),
    grows("lpushx", -3, lists::lpushx),
    grows("rpushx", -3, lists::rpushx),
    row("lpop", -2, lists::lpop),
    row("rpop", -2, lists::rpop),
    row("lmpop", -4, lists::lmpop),
    reads("llen", 2, lists::llen),
    reads("lrange", 4, lists::lrange),
    reads("lindex", 3, lists::lindex),
    grows("lset", 4, lists::lset),
    grows("linsert", 5, lists::linsert),
    row("lrem", 4, lists::lrem),
    row("ltrim", 4, lists::ltrim),
    reads("lpos", -3, lists::lpos),
    grows("lmove", 5, lists::lmove),
    grows("rpoplpush", 3, lists::rpoplpush),
    calls("blpop", -3, blocking::blpop),
    calls("brpop", -3, blocking::brpop),
    calls("blmpop", -5, blocking::blmpop),
    calls("blmove", 6, blocking::blmove).growing(),
    calls("brpoplpush", 4, blocking::brpoplpush).growing(),
    // Sets.
    grows("sadd", -3, sets::sadd),
    row("srem", -3, sets::srem),
    reads("sismember", 3, sets::sismember),
    reads("smismember", -3, sets::smismember),
    reads("smembers", 2, sets::smembers),
    reads("scard", 2, sets::scard),
    row("spop", -2, sets::spop),
    reads("srandmember", -2, sets::srandmember),
    row("smove", 4, sets::smove),
    reads("sinter", -2, set_algebra::sinter),
    reads("sunion", -2, set_algebra::sunion),
    reads("sdiff", -2, set_algebra::sdiff),
    derives("sinterstore", -3, set_algebra::sinterstore),
    derives("sunionstore", -3, set_algebra::sunionstore),
    derives("sdiffstore", -3, set_algebra::sdiffstore),
    reads("sintercard", -3, set_algebra::sintercard),
    reads("sscan", -3, scan::sscan),
    // Sorted sets.
    grows("zadd", -4, zsets::zadd),
    row("zrem", -3, zsets::zrem),
    reads("zscore", 3, zsets::zscore),
    reads("zmscore", -3, zsets::zmscore),
    reads("zcard", 2, zsets::zcard),
    grows("zincrby", 4, zsets::zincrby),
    reads("zrank", 3, zsets::zrank),
    reads("zrevrank", 3, zsets::zrevrank),
    reads("zrange", -4, zset_ranges::zrange),
    reads("zrevrange", -4, zset_ranges::zrevrange),
    reads("zrangebyscore", -4, zset_ranges::zrangebyscore),
    reads("zrevrangebyscore", -4, zset_ranges::zrevrangebyscore),
    reads("zrangebylex", -4, zset_ranges::zrangebylex),
    reads("zrevrangebylex", -4, zset_ranges::zrevrangebylex),
    derives("zrangestore", -5, zset_ranges::zrangestore),
    reads("zcount", 4, zset_ranges::zcount),
    reads("zlexcount", 4, zset_ranges::zlexcount),
    row("zremrangebyrank", 4, zset_ranges::zremrangebyrank),
    row("zremrangebyscore", 4, zset_ranges::zremrangebyscore),
    row("zremrangebylex", 4, zset_ranges::zremrangebylex),
    row("zpopmin", -2, zsets::zpopmin),
    row("zpopmax", -2, zsets::zpopmax),
    row("zmpop", -4, zsets::zmpop),
    calls("bzpopmin", -3, blocking::bzpopmin),
    calls("bzpopmax", -3, blocking::bzpopmax),
    calls("bzmpop", -5, blocking::bzmpop),
    reads("zscan", -3, scan::zscan),
    reads("zrandmember", -2, zsets::zrandmember),
    reads("zunion", -3, zset_algebra::zunion),
    reads("zinter", -3, zset_algebra::zinter),
    reads("zdiff", -3, zset_algebra::zdiff),
    reads("zintercard", -3, zset_algebra::zintercard),
    derives("zunionstore", -4, zset_algebra::zunionstore),
    derives("zinterstore", -4, zset_algebra::zinterstore),
    derives("zdiffstore", -4, zset_algebra::zdiffstore),
    // Places.
    grows("geoadd", -5, geo::geoadd),
    reads("geopos", -2, geo::geopos),
    reads("geohash", -2, geo::geohash),
    reads("geodist", -4, geo::geodist),
    derives("georadius", -6, geo::georadius),
    reads("georadius_ro", -6, geo::georadius_ro),
    derives("georadiusbymember", -5, geo::georadiusbymember),
    reads("georadiusbymember_ro", -5, geo::georadiusbymember_ro),
    reads("geosearch", -7, geo::geosearch),
    derives("geosearchstore", -8, geo::geosearchstore),
    // Streams.
    grows("xadd", -5, streams::xadd),
    row("xtrim", -4, streams::xtrim),
    reads("xlen", 2, streams::xlen),
    reads("xrange", -4, streams::xrange),
    reads("xrevrange", -4, streams::xrevrange),
    row("xdel", -3, streams::xdel),
    grows("xsetid", -3, streams::xsetid),
    calls("xread", -4, blocking::xread).reading(),
    grows("xgroup", -2, stream_groups::xgroup),
    calls("xreadgroup", -7, blocking::xreadgroup).reading(),
    reads("xack", -4, stream_groups::xack),
    reads("xpending", -3, stream_groups::xpending),
    reads("xclaim", -6, stream_groups::xclaim),
    reads("xautoclaim", -6, stream_groups::xautoclaim),
    reads("xinfo", -2, stream_info::xinfo),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Index, NAME_BYTES_MAX};

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        let index = Index::new(ROWS, 11);
        for name in commands() {
            assert!(supports(name.as_bytes()) && name.len() <= NAME_BYTES_MAX, "{name}");
            let found = index.find(name.to_uppercase().as_bytes()).expect(name);
            assert_eq!(found.name, name);
        }
        assert!(index.find(b"vadd").is_none() && index.find(&[b'g'; 1_000]).is_none());
    }
}
