//! Every compared command, as templates (see `template.rs`), with the rule by which replies are compared.

/// Rule by which two replies must agree. Errors must be equal byte for byte in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// Byte for byte.
    Exact,
    /// Arrays with the same elements in any order.
    Unordered,
    /// Arrays with the same pairs in any order.
    UnorderedPairs,
    /// `[cursor, elements]`: the same cursor, the same elements in any order.
    Page,
    /// `[cursor, pairs]`.
    PageOfPairs,
    /// Integers with at most this difference: clocks moved between the two.
    Near(i64),
    /// The same type and the same number of elements: Redis chose at random.
    Shape,
}

/// One line: a template, how its replies compare, and how often it is drawn compared to others.
pub(crate) struct Line {
    pub(crate) words: &'static str,
    pub(crate) compare: Compare,
    pub(crate) weight: u64,
    /// Whether its arguments may be mutated; not where another argument would let chance decide the stored value.
    pub(crate) spoilable: bool,
}

const fn line(words: &'static str, compare: Compare, weight: u64) -> Line {
    Line { words, compare, weight, spoilable: true }
}
const fn exact(words: &'static str) -> Line {
    line(words, Compare::Exact, 20)
}
/// Commands that empty the keyspace: one in some thousand requests, so that it fills up in between.
const fn seldom(words: &'static str) -> Line {
    line(words, Compare::Exact, 1)
}
/// Commands that fill the keyspace, so that the others find keys.
const fn often(words: &'static str) -> Line {
    line(words, Compare::Exact, 150)
}
const fn rarely(words: &'static str) -> Line {
    line(words, Compare::Exact, 8)
}
const fn unordered(words: &'static str) -> Line {
    line(words, Compare::Unordered, 20)
}
const fn near(words: &'static str, distance: i64) -> Line {
    line(words, Compare::Near(distance), 20)
}
const fn shape(words: &'static str) -> Line {
    line(words, Compare::Shape, 20)
}
const fn unspoilt(words: &'static str, compare: Compare) -> Line {
    Line { words, compare, weight: 20, spoilable: false }
}

/// Commands that wait for 10 ms if nothing is there: rare, since both sides wait. A mutated one could wait without end.
const fn waiting(words: &'static str) -> Line {
    Line { words, compare: Compare::Exact, weight: 5, spoilable: false }
}

/// Commands with one key, which may be any: tagged, untagged, empty, binary.
pub(crate) const SINGLE_KEY: &[Line] = &[
    // Strings.
    often("SET str value"),
    often("SET num int"),
    exact("SET str value [ EX far | PX farms | EXAT farat | PXAT farmsat | KEEPTTL ] [ NX | XX ] [ GET ]"),
    // An option of Valkey 8.1, which others refuse.
    exact("SET str value IFEQ value [ GET ]"),
    exact("GET str"),
    exact("GET any"),
    exact("GETSET str value"),
    exact("GETDEL str"),
    exact("GETEX str [ EX far | PX farms | EXAT farat | PXAT farmsat | PERSIST ]"),
    exact("GETRANGE str index index"),
    exact("SUBSTR str index index"),
    exact("SETRANGE str offset small"),
    exact("SETNX str value"),
    exact("SETEX str far value"),
    exact("PSETEX str farms value"),
    exact("STRLEN str"),
    exact("APPEND str value"),
    exact("INCR num"),
    exact("DECR num"),
    exact("INCRBY num int"),
    exact("DECRBY num int"),
    exact("INCRBYFLOAT num float"),
    exact("SETBIT bits bitoffset bit"),
    exact("GETBIT bits bitoffset"),
    exact("BITCOUNT bits [ index index [ BYTE | BIT ] ]"),
    exact("BITPOS bits bit [ index [ index [ BYTE | BIT ] ] ]"),
    exact(
        "BITFIELD bits ( GET bittype bitplace | SET bittype bitplace int | INCRBY bittype bitplace int | OVERFLOW ( WRAP | SAT | FAIL ) )+",
    ),
    exact("BITFIELD_RO bits ( GET bittype bitplace )+"),
    // Hashes.
    often("HSET hash ( field value )+"),
    exact("HSET hash field value"),
    exact("HMSET hash ( field value )+"),
    exact("HSETNX hash field value"),
    exact("HGET hash field"),
    exact("HMGET hash ( field )+"),
    exact("HDEL hash ( field )+"),
    exact("HEXISTS hash field"),
    exact("HLEN hash"),
    exact("HSTRLEN hash field"),
    exact("HINCRBY hash number int"),
    exact("HINCRBYFLOAT hash number float"),
    line("HGETALL hash", Compare::UnorderedPairs, 20),
    unordered("HKEYS hash"),
    unordered("HVALS hash"),
    shape("HRANDFIELD hash [ count [ WITHVALUES ] ]"),
    // Any other cursor or COUNT would return a random part.
    unspoilt("HSCAN hash 0 [ MATCH glob ] COUNT 1000000", Compare::PageOfPairs),
    // Redis 7.4 and later; the last from 7.4 on, others refuse it.
    exact("HEXPIRE hash far [ NX | XX | GT | LT ] FIELDS 1 field"),
    exact("HPEXPIRE hash farms FIELDS 2 field field"),
    exact("HEXPIREAT hash farat FIELDS 1 field"),
    exact("HPEXPIREAT hash farmsat FIELDS 1 field"),
    rarely("HEXPIRE hash 0 FIELDS 1 field"),
    shape("HTTL hash FIELDS 2 field field"),
    shape("HPTTL hash FIELDS 1 field"),
    shape("HEXPIRETIME hash FIELDS 1 field"),
    shape("HPEXPIRETIME hash FIELDS 1 field"),
    exact("HPERSIST hash FIELDS 1 field"),
    exact("HGETEX hash [ EX far | PX farms | EXAT farat | PXAT farmsat | PERSIST ] FIELDS 2 field field"),
    exact("HSETEX hash [ FNX | FXX ] [ EX far | PX farms | KEEPTTL ] FIELDS 1 field value"),
    exact("HGETDEL hash FIELDS 1 field"),
    unspoilt("HSCAN hash 0 [ MATCH glob ] COUNT 1000000 NOVALUES", Compare::Page),
    // Lists.
    often("RPUSH list ( element )+"),
    exact("LPUSH list ( element )+"),
    exact("LPUSHX list ( element )+"),
    exact("RPUSHX list ( element )+"),
    exact("LPOP list [ count ]"),
    exact("RPOP list [ count ]"),
    exact("LLEN list"),
    exact("LINDEX list index"),
    exact("LSET list index element"),
    exact("LINSERT list ( BEFORE | AFTER ) element element"),
    exact("LRANGE list index index"),
    exact("LRANGE list 0 -1"),
    exact("LREM list count element"),
    exact("LTRIM list index index"),
    exact("LPOS list element [ RANK int ] [ COUNT count ] [ MAXLEN count ]"),
    // Sets.
    often("SADD set ( member )+"),
    exact("SADD set ( int )+"),
    exact("SREM set ( member )+"),
    exact("SCARD set"),
    exact("SISMEMBER set member"),
    exact("SMISMEMBER set ( member )+"),
    unordered("SMEMBERS set"),
    shape("SRANDMEMBER set [ count ]"),
    // The whole set, so that both keep the same: nothing.
    unspoilt("SPOP set 1000000", Compare::Unordered),
    unspoilt("SSCAN set 0 [ MATCH glob ] COUNT 1000000", Compare::Page),
    // Sorted sets.
    often("ZADD zset ( score member )+"),
    // Members of one score: only among those is the order by bytes a promise.
    line("ZADD lexset ( 0 member )+", Compare::Exact, 60),
    exact("ZADD zset [ NX | XX ] [ GT | LT ] [ CH ] ( score member )+"),
    exact("ZADD zset [ NX | XX ] INCR score member"),
    exact("ZINCRBY zset score member"),
    exact("ZREM zset ( member )+"),
    exact("ZCARD zset"),
    exact("ZSCORE zset member"),
    exact("ZMSCORE zset ( member )+"),
    // WITHSCORE is of 7.2.
    exact("ZRANK zset member [ WITHSCORE ]"),
    exact("ZREVRANK zset member [ WITHSCORE ]"),
    exact("ZCOUNT zset bound bound"),
    exact("ZLEXCOUNT lexset lexbound lexbound"),
    exact("ZRANGE zset index index [ REV ] [ WITHSCORES ]"),
    exact("ZRANGE zset bound bound BYSCORE [ REV ] [ LIMIT offset count ] [ WITHSCORES ]"),
    exact("ZRANGE lexset lexbound lexbound BYLEX [ REV ] [ LIMIT offset count ]"),
    exact("ZREVRANGE zset index index [ WITHSCORES ]"),
    exact("ZRANGEBYSCORE zset bound bound [ WITHSCORES ] [ LIMIT offset count ]"),
    exact("ZREVRANGEBYSCORE zset bound bound [ WITHSCORES ] [ LIMIT offset count ]"),
    exact("ZRANGEBYLEX lexset lexbound lexbound [ LIMIT offset count ]"),
    exact("ZREVRANGEBYLEX lexset lexbound lexbound [ LIMIT offset count ]"),
    exact("ZREMRANGEBYRANK zset index index"),
    exact("ZREMRANGEBYSCORE zset bound bound"),
    exact("ZREMRANGEBYLEX lexset lexbound lexbound"),
    exact("ZPOPMIN zset [ count ]"),
    exact("ZPOPMAX zset [ count ]"),
    shape("ZRANDMEMBER zset [ count [ WITHSCORES ] ]"),
    unspoilt("ZSCAN zset 0 [ MATCH glob ] COUNT 1000000", Compare::PageOfPairs),
    // Streams, with ids of our own: `*` is the node's clock.
    often("XADD stream nextid ( field value )+"),
    exact(
        "XADD stream [ NOMKSTREAM ] [ MAXLEN [ = ] uint | MAXLEN ~ uint | MINID [ = ] id ] nextid field small",
    ),
    exact("XADD stream id field small"),
    exact("XLEN stream"),
    exact("XRANGE stream idbound idbound [ COUNT uint ]"),
    exact("XREVRANGE stream idbound idbound [ COUNT uint ]"),
    exact("XDEL stream ( id )+"),
    exact("XTRIM stream ( MAXLEN uint | MAXLEN = uint | MINID id )"),
    exact("XSETID stream nextid"),
    exact("XREAD [ COUNT uint ] STREAMS stream id"),
    exact("XREAD COUNT uint STREAMS stream stream id id"),
    // The last entry, in Redis from 7.4 on.
    exact("XREAD STREAMS stream +"),
    exact("XGROUP CREATE stream group ( 0 | $ | id ) [ MKSTREAM ]"),
    exact("XGROUP SETID stream group id"),
    exact("XGROUP CREATECONSUMER stream group consumer"),
    exact("XGROUP DELCONSUMER stream group consumer"),
    rarely("XGROUP DESTROY stream group"),
    exact("XREADGROUP GROUP group consumer [ COUNT uint ] [ NOACK ] STREAMS stream ( > | 0 | id )"),
    exact("XACK stream group ( id )+"),
    exact("XPENDING stream group"),
    shape("XPENDING stream group - + 100 [ consumer ]"),
    exact("XCLAIM stream group consumer 0 ( id )+ [ JUSTID ]"),
    exact("XAUTOCLAIM stream group consumer 0 id [ COUNT uint ] [ JUSTID ]"),
    exact("XINFO STREAM stream"),
    exact("XINFO GROUPS stream"),
    shape("XINFO CONSUMERS stream group"),
    // HyperLogLogs.
    often("PFADD hll ( member )+"),
    exact("PFADD hll"),
    exact("PFCOUNT hll"),
    exact("GET hll"),
    // Places.
    often("GEOADD geo ( lon lat place )+"),
    exact("GEOADD geo [ NX | XX ] [ CH ] lon lat place"),
    exact("GEOPOS geo ( place )+"),
    exact("GEOHASH geo ( place )+"),
    exact("GEODIST geo place place [ unit ]"),
    exact(
        "GEOSEARCH geo ( FROMMEMBER place | FROMLONLAT lon lat ) ( BYRADIUS dist unit | BYBOX dist dist unit ) [ ASC | DESC ] [ COUNT uint ] [ WITHCOORD ] [ WITHDIST ] [ WITHHASH ]",
    ),
    exact(
        "GEORADIUS geo lon lat dist unit [ WITHCOORD ] [ WITHDIST ] [ WITHHASH ] [ COUNT uint ] [ ASC | DESC ]",
    ),
    exact("GEORADIUS_RO geo lon lat dist unit [ WITHDIST ] [ ASC ]"),
    exact("GEORADIUSBYMEMBER geo place dist unit [ WITHCOORD ] [ DESC ]"),
    exact("GEORADIUSBYMEMBER_RO geo place dist unit [ WITHDIST ]"),
    // Any key.
    exact("TYPE any"),
    exact("EXPIRE any far [ NX | XX | GT | LT ]"),
    exact("PEXPIRE any farms [ NX | XX | GT | LT ]"),
    exact("EXPIREAT any farat [ NX | XX | GT | LT ]"),
    exact("PEXPIREAT any farmsat [ NX | XX | GT | LT ]"),
    rarely("EXPIRE any -1"),
    near("TTL any", 2),
    near("PTTL any", 3_000),
    near("EXPIRETIME any", 2),
    near("PEXPIRETIME any", 3_000),
    exact("PERSIST any"),
    exact("OBJECT ENCODING any"),
    rarely("MOVE any 1"),
    exact("OBJECT REFCOUNT num"),
    exact("OBJECT FREQ any"),
    // Small integers are one object for all keys of a node, and so is the time of its last use.
    shape("OBJECT IDLETIME any"),
    shape("DUMP str"),
    unspoilt("RESTORE restored ( 0 | farms ) payload [ REPLACE ]", Compare::Exact),
    exact("RESTORE any ( 0 | -1 | farms ) small [ REPLACE ]"),
    exact("SORT list [ LIMIT offset count ] [ ASC | DESC ] [ ALPHA ]"),
    exact("SORT set [ DESC ] ALPHA"),
    exact("SORT_RO list [ LIMIT offset count ] [ DESC ] ALPHA"),
    exact("EXISTS any"),
    exact("TOUCH any"),
    rarely("DEL any"),
    rarely("UNLINK any"),
    // Scripts of one key.
    exact("EVAL script 1 str ( small )+"),
    exact("EVAL_RO readscript 1 any"),
    unspoilt("EVAL script 1 num small ; EVALSHA sha 1 same small", Compare::Exact),
    unspoilt("EVAL readscript 1 any ; EVALSHA_RO sha 1 same", Compare::Exact),
    exact("EVALSHA FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF 1 str"),
    exact("EVALSHA NOTASHA 1 str"),
    exact("FCALL small 1 str"),
    exact("FCALL_RO small 1 str"),
    // Requests that are invalid.
    exact("OBJECT small any"),
    exact("OBJECT HELP"),
    exact("XGROUP small stream"),
    exact("XINFO small stream"),
];

/// Commands with several keys that must live together: all keys of a request get one tag. With `--cross-shard=emulate`
/// they need not: then each key gets its own.
pub(crate) const ACROSS: &[Line] = &[
    exact("COPY twins [ REPLACE ]"),
    exact("COPY twins [ REPLACE ] DB 1"),
    exact("RENAME twins"),
    exact("RENAMENX twins"),
    exact("MSETNX ( str value )+"),
    exact("BITOP ( AND | OR | XOR ) bits ( bits )+"),
    exact("BITOP NOT bits bits"),
    exact("SET short small ; LCS short short [ LEN | IDX [ MINMATCHLEN uint ] [ WITHMATCHLEN ] ]"),
    exact("LMOVE list list ( LEFT | RIGHT ) ( LEFT | RIGHT )"),
    exact("RPOPLPUSH list list"),
    exact("SMOVE set set member"),
    unordered("SINTER ( set )+"),
    unordered("SUNION ( set )+"),
    unordered("SDIFF ( set )+"),
    exact("SINTERSTORE set ( set )+"),
    exact("SUNIONSTORE set ( set )+"),
    exact("SDIFFSTORE set ( set )+"),
    exact("SINTERCARD nsets [ LIMIT uint ]"),
    exact("SORT list [ DESC ] ALPHA STORE list"),
    exact("ZUNION nzsets [ WEIGHTS float float ] [ AGGREGATE ( SUM | MIN | MAX ) ] [ WITHSCORES ]"),
    exact("ZINTER nzsets [ WEIGHTS float float ] [ AGGREGATE ( SUM | MIN | MAX ) ] [ WITHSCORES ]"),
    exact("ZDIFF nzsets [ WITHSCORES ]"),
    exact("ZUNIONSTORE zset nzsets [ WEIGHTS float float ] [ AGGREGATE ( SUM | MIN | MAX ) ]"),
    exact("ZINTERSTORE zset nzsets [ AGGREGATE ( SUM | MIN | MAX ) ]"),
    exact("ZDIFFSTORE zset nzsets"),
    exact("ZINTERCARD nzsets [ LIMIT uint ]"),
    exact("ZRANGESTORE zset zset index index [ REV ]"),
    exact("ZRANGESTORE zset zset bound bound BYSCORE [ LIMIT offset count ]"),
    exact("PFCOUNT ( hll )+"),
    exact("PFMERGE hll ( hll )+"),
    exact(
        "GEOSEARCHSTORE geo geo FROMLONLAT lon lat BYRADIUS dist unit [ ASC ] [ COUNT uint ] [ STOREDIST ]",
    ),
    exact("GEORADIUS geo lon lat dist unit STORE geo"),
    exact("GEORADIUSBYMEMBER geo place dist unit STOREDIST zset"),
    exact("LMPOP nlists ( LEFT | RIGHT ) [ COUNT uint ]"),
    exact("ZMPOP nzsets ( MIN | MAX ) [ COUNT uint ]"),
    waiting("BLPOP ( list )+ 0.01"),
    waiting("BRPOP ( list )+ 0.01"),
    waiting("BLMPOP 0.01 nlists ( LEFT | RIGHT ) [ COUNT uint ]"),
    waiting("BZPOPMIN ( zset )+ 0.01"),
    waiting("BZPOPMAX ( zset )+ 0.01"),
    waiting("BZMPOP 0.01 nzsets ( MIN | MAX ) [ COUNT uint ]"),
    // Errors in the request itself have the words of 7.0, which later servers do not use.
    unspoilt("XREADGROUP GROUP group consumer COUNT uint STREAMS stream stream > >", Compare::Exact),
];

/// Commands with several keys that must live together in any case.
pub(crate) const SAME_TAG: &[Line] =
    &[exact("EVAL pairscript 2 str str"), exact("EVAL_RO pairscript 2 any any")];

/// Commands that make values large, beyond the compact forms in which Redis keeps small ones. They are compared with emulation
/// only.
pub(crate) const LARGE: &[Line] = &[
    exact("SADD set members"),
    exact("SADD set numbers"),
    exact("RPUSH list members"),
    exact("HSET hash pairs"),
    exact("ZADD zset scored"),
    exact("PFADD hll members"),
    exact("XADD stream nextid pairs"),
    line("DEL any", Compare::Exact, 60),
];

/// Commands that the proxy splits: every key where it belongs.
pub(crate) const SPLIT: &[Line] = &[
    line("MGET ( str )+", Compare::Exact, 80),
    line("MGET ( any )+", Compare::Exact, 40),
    line("MSET ( str value )+", Compare::Exact, 80),
    exact("MSET str value same value same value"),
    line("EXISTS ( any )+", Compare::Exact, 40),
    exact("EXISTS any same same"),
    exact("DEL ( str )+"),
    exact("DEL str same"),
    exact("UNLINK ( str )+"),
    line("TOUCH ( any )+", Compare::Exact, 40),
];

/// Commands without a key.
pub(crate) const KEYLESS: &[Line] = &[
    exact("PING"),
    exact("PING value"),
    exact("ECHO value"),
    line("DBSIZE", Compare::Exact, 40),
    line("KEYS glob", Compare::Unordered, 40),
    // The key is random, its existence is not. `scan.rs` checks that it exists.
    shape("RANDOMKEY"),
    seldom("FLUSHALL [ ASYNC | SYNC ]"),
    seldom("FLUSHDB [ ASYNC | SYNC ]"),
    exact("EVAL keyless 0 ( small )+"),
    exact("EVAL_RO keyless 0 small"),
    exact("EVAL keyless small str"),
    line("unknown [ ( value )+ ]", Compare::Exact, 60),
    line("unknown [ ( small )+ ]", Compare::Exact, 60),
];

/// Data commands that are not compared, and why.
pub(crate) const EXCUSED: &[(&str, &str)] = &[
    ("blmove", "waits"),
    ("brpoplpush", "waits"),
    ("memory", "the allocator of each process decides"),
    ("migrate", "speaks to other nodes"),
    ("pfdebug", "an inside view of one process"),
    ("restore-asking", "between cluster nodes only"),
    ("spublish", "publish and subscribe"),
    ("ssubscribe", "publish and subscribe"),
    ("sunsubscribe", "publish and subscribe"),
    ("vadd", APPROXIMATE),
    ("vcard", APPROXIMATE),
    ("vdim", APPROXIMATE),
    ("vemb", APPROXIMATE),
    ("vgetattr", APPROXIMATE),
    ("vinfo", APPROXIMATE),
    ("vismember", APPROXIMATE),
    ("vlinks", APPROXIMATE),
    ("vrandmember", APPROXIMATE),
    ("vrem", APPROXIMATE),
    ("vsetattr", APPROXIMATE),
    ("vsim", APPROXIMATE),
    ("watch", "transactions"),
];

/// The neighbours of a vector are random at insertion; `versions` tests that these commands are carried.
const APPROXIMATE: &str = "vector sets";
