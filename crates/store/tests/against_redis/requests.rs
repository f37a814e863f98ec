//! Random requests from patterns: most make sense, some do not.
//!
//! A pattern is a line of words. `$k` and the like stand for random values (see [`fill`]). `?a|b` stands for one of the words
//! or nothing, and `*` before a word for one to three of them. Underscores join words that belong together.

use stdx::Prng;

/// Whether requests of many connections are of this name, in lower case.
pub(crate) fn is_of_sessions(name: &str) -> bool {
    SESSIONS.lines().any(|line| line.to_lowercase().split(' ').next() == Some(name))
}

/// The words of one request of many connections.
pub(crate) fn of_sessions(prng: &mut Prng) -> Vec<Vec<u8>> {
    let lines: Vec<&str> = SESSIONS.lines().collect();
    let mut words = Vec::new();
    prng.pick(&lines[..]).split(' ').for_each(|word| expand(word, prng, &mut words));
    // Without a name, PUBSUB shows all channels in an order that is chance.
    if prng.one_in(60) && words.len() > 1 && words[0] != b"PUBSUB" {
        words.pop();
    }
    words
}

/// The words of one request.
pub(crate) fn random(prng: &mut Prng) -> Vec<Vec<u8>> {
    let lines: Vec<&str> = PATTERNS.lines().filter(|line| !line.is_empty()).collect();
    // Names may have underscores of their own.
    let mut line = prng.pick(&lines[..]).split(' ');
    let mut words = vec![line.next().unwrap_or_default().as_bytes().to_vec()];
    line.for_each(|word| expand(word, prng, &mut words));
    // Some requests have a word too few, too many, or in the wrong place.
    // Without their count, some would have a random reply.
    let is_random = words[0].ends_with(b"RANDMEMBER") || [&b"SPOP"[..], b"HRANDFIELD"].contains(&&*words[0]);
    if prng.one_in(40) && words.len() > 1 && !is_random {
        words.pop();
    }
    if prng.one_in(60) {
        expand("$v", prng, &mut words);
    }
    // A swapped idle time would depend on the clock, and an id of the clock on both.
    if words[0].starts_with(b"X") {
        return words;
    }
    // A value in the place of the time would make keys that expire while we look.
    // A member in the place of a score would make a second score in `e`.
    let may_swap = words.len() > 3 && !words[0].ends_with(b"SETEX") && !words[1].starts_with(b"e");
    if prng.one_in(100) && may_swap {
        words.swap(2, 3);
    }
    words
}

/// The words of one request that gives a key a millisecond to live, or a time that is over already.
pub(crate) fn ending(prng: &mut Prng) -> Vec<Vec<u8>> {
    let lines: Vec<&str> = ENDING.lines().collect();
    let mut words = Vec::new();
    prng.pick(&lines[..]).split(' ').for_each(|word| expand(word, prng, &mut words));
    words
}

fn expand(word: &str, prng: &mut Prng, words: &mut Vec<Vec<u8>>) {
    if let Some(choices) = word.strip_prefix('?') {
        if prng.one_in(2) {
            let choices: Vec<&str> = choices.split('|').collect();
            let choice = *prng.pick(&choices[..]);
            expand(choice, prng, words);
        }
        return;
    }
    if let Some(repeated) = word.strip_prefix('*') {
        (0..=prng.below(3)).for_each(|_| expand(repeated, prng, words));
        return;
    }
    for word in word.split('_') {
        fill(word, prng).into_iter().for_each(|word| words.push(word.into_bytes()));
    }
}

fn fill(word: &str, prng: &mut Prng) -> Vec<String> {
    if let Some((prefix, kind)) =
        word.split_once('$').filter(|(prefix, kind)| !prefix.is_empty() && *kind == "2")
    {
        return vec![format!("{prefix}{}", fill(&format!("${kind}"), prng).concat())];
    }
    let Some(kind) = word.strip_prefix('$') else { return vec![word.to_owned()] };
    let own = prng.below(5);
    let text = match kind {
        // Keys by type, now and then of another one.
        "k" | "h" | "l" | "t" | "z" | "r" | "e" => {
            // Sorted sets `e` have one score: without that, ranges by bytes mean nothing.
            let others = if kind == "e" { &["k", "h", "l", "t"][..] } else { &["k", "h", "l", "t", "z"] };
            let kind = if prng.one_in(40) { *prng.pick(others) } else { kind };
            format!("{kind}{own}")
        }
        // Weights for SORT.
        "o" => (*prng.pick(&DATABASES)).to_owned(),
        // HyperLogLogs, and elements with many different values.
        "2" => prng.below(2).to_string(),
        "S" => format!("{}{}", prng.pick(&["l", "z", "x", "k", "t", "h"]), prng.below(2)),
        "H" => format!("p{own}"),
        "g" => prng.below(2_000).to_string(),
        // Streams: keys, ids that are new, ids that may be there, bounds, groups, consumers, idle times.
        "X" => format!("x{own}"),
        "J" => match prng.below(40) {
            0 => {
                (*prng.pick(&["1700000000000-*", "x-*", "30", "0-0", "18446744073709551615-*", "-1-*", "5-"]))
                    .to_owned()
            }
            1..=6 => format!("{}-{}", prng.below(30), prng.below(12)),
            7..=12 => format!("{}-*", prng.below(30)),
            _ => "29-*".to_owned(),
        },
        "I" => match prng.below(20) {
            0 => (*prng.pick(&["x", "-", "+", "", "0", "29", "18446744073709551615-18446744073709551615"]))
                .to_owned(),
            ms => format!("{}-{}", if ms < 6 { ms * 5 } else { 29 }, prng.below(16)),
        },
        "Q" => match prng.below(14) {
            0 => (*prng.pick(&[
                "x",
                "(",
                "(-",
                "(0-0",
                "29",
                "(29",
                "(18446744073709551615-18446744073709551615",
            ]))
            .to_owned(),
            1..=4 => "-".to_owned(),
            5..=8 => "+".to_owned(),
            9 => format!("({}-{}", prng.below(30), prng.below(12)),
            _ => format!("29-{}", prng.below(40)),
        },
        "a" => format!("g{}", prng.below(2)),
        "C" => format!("c{}", prng.below(3)),
        "w0" => (*prng.pick(&["0", "0", "0", "10000000", "-1", "x"])).to_owned(),
        // A key of the type that was dumped last.
        "D" => format!("dumped{own}"),
        // Places: anywhere, not everywhere valid; near each other. Lengths and units.
        "c" => format!("c{own}"),
        "G" => return vec![degrees(prng, 181), degrees(prng, 86)],
        "N" => return vec![format!("13.{}", prng.below(1_000_000)), format!("38.{}", prng.below(1_000_000))],
        "R" => match prng.below(30) {
            0 => (*prng.pick(&FLOATS)).to_owned(),
            digits => format!("{}.{}", prng.next_u64() >> (34 + digits), prng.below(100)),
        },
        "u" => (*prng.pick(&["m", "m", "km", "KM", "ft", "mi", "x"])).to_owned(),
        "L" => "long ".repeat(prng.below(200) as usize),
        "w" => format!("w:{}", prng.pick(&MEMBERS)),
        "W" => format!("o:{}", prng.pick(&MEMBERS)),
        "y" => (*prng.pick(&["u8", "i8", "i64", "u63", "u1", "i1", "i5", "u13", "u64", "i65", "x", "i0"]))
            .to_owned(),
        "q" => {
            (*prng.pick(&["0", "3", "7", "#1", "#2", "23", "100", "-1", "x", "#x", "4294967296"])).to_owned()
        }
        "i" => (*prng.pick(&INTEGERS)).to_owned(),
        "n" => prng.below(6).to_string(),
        "d" => (prng.below(14) as i64 - 7).to_string(),
        "f" => (*prng.pick(&FLOATS)).to_owned(),
        "s" => format!("{}{}", prng.pick(&["", "", "("]), prng.pick(&FLOATS)),
        "x" => (*prng.pick(&["-", "+", "[a", "(a", "[c", "(m5", "[m5", "m", "", "[", "(", "[7"])).to_owned(),
        "m" => (*prng.pick(&MEMBERS)).to_owned(),
        "v" => (*prng.pick(&VALUES)).to_owned(),
        "b" => (*prng.pick(&["0", "7", "8", "100", "23", "-1", "x", "4294967296", "3000"])).to_owned(),
        "p" => (*prng.pick(&["*", "k*", "?1", "[hl]?", "k[^1]", "\\k1", "nothing", "k[0-2]"])).to_owned(),
        "A" => (4_000_000_000 + prng.below(10) * 1_000).to_string(),
        "B" => (4_000_000_000_000 + prng.below(10) * 1_000).to_string(),
        "E" => (*prng.pick(&["0", "-1", "x", "9223372036854775807", "9223372036854775", ""])).to_owned(),
        "" => "$".to_owned(),
        _ => panic!("unknown pattern ${kind}"),
    };
    vec![text]
}

/// Degrees of any number of digits, up to and without `max` in both directions.
fn degrees(prng: &mut Prng, max: u64) -> String {
    let sign = *prng.pick(&["", "-"]);
    format!("{sign}{}.{}", prng.below(max), prng.next_u64() >> prng.below(64))
}

const DATABASES: [&str; 12] =
    ["0", "0", "0", "1", "1", "1", "15", "16", "-1", "x", "2147483648", "9223372036854775808"];

const INTEGERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2",
    "5",
    "-3",
    "100",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "x",
    "",
    "1.5",
];

const FLOATS: [&str; 22] = [
    "0",
    "1",
    "-1",
    "2.5",
    "0.1",
    "-0.1",
    "3.0e3",
    "1e-7",
    "1e17",
    "123456789.123456789",
    "inf",
    "-inf",
    "+5",
    ".5",
    "5.",
    "nan",
    "x",
    "1e400",
    "-0",
    "10.05",
    "100",
    "1e300",
];

const MEMBERS: [&str; 16] =
    ["a", "b", "c", "d", "m1", "m2", "m3", "m4", "m5", "m6", "1", "2", "3", "7", "", "a\r\nb"];

const VALUES: [&str; 14] = [
    "a",
    "bc",
    "hello world",
    "",
    "1",
    "-7",
    "42",
    "3.5",
    "0.1",
    "9223372036854775807",
    "x\u{e9}\0y",
    "10",
    "-2.25e2",
    "99999999999999999999",
];

const PATTERNS: &str = "\
SELECT $o
SELECT $o
MOVE $k $o
MOVE $l $o
MOVE $r $o
SWAPDB $o $o
COPY $k $k DB $o ?REPLACE
COPY $z $z ?REPLACE DB $o
HELLO
HELLO ?2|3|4|x ?SETNAME_$m|AUTH_default_x|AUTH_x_y|x
RESET
CLIENT SETNAME $v
CLIENT GETNAME
CLIENT NO-EVICT ?ON|off|x
CLIENT x
CLIENT GETNAME x
PING
PING $v
ECHO $v
GET $k
SET $k $v
SET $k $v ?NX|XX ?GET
SET $k $v ?EXAT_$A|PXAT_$B|KEEPTTL ?NX|XX|GET
SET $k $v ?EX_$E|PX_$E|EXAT_$E ?KEEPTTL|NX
GETSET $k $v
GETDEL $k
GETEX $k
GETEX $k ?EXAT_$A|PXAT_$B|PERSIST|EX_$E
SETNX $k $v
SETEX $r $A $v
PSETEX $r $B $v
SETEX $r $E $v
PSETEX $r $E $v
MGET *$k $h
MSET *$k_$v
MSETNX *$k_$v
APPEND $k $v
STRLEN $k
GETRANGE $k $d $d
SUBSTR $k $i $i
SETRANGE $k $n $v
SETRANGE $k $i $v
INCR $k
DECR $k
INCRBY $k $i
DECRBY $k $i
INCRBYFLOAT $k $f
SETBIT $k $n $n
SETBIT $k $b 1
GETBIT $k $b
BITCOUNT $k
BITCOUNT $k $d $d
BITCOUNT $k $i $d ?BIT|BYTE
BITPOS $k $n ?$d ?$d ?BIT|BYTE
BITPOS $k 0 $d $d ?BIT|BYTE
BITPOS $k 1 ?$d
BITOP AND $k *$k
BITOP OR $k *$k
BITOP XOR $k *$k
BITOP NOT $k $k
BITOP NOT $k *$k
BITFIELD $k
BITFIELD $k GET $y $q
BITFIELD $k SET $y $q $i
BITFIELD $k INCRBY $y $q $i
BITFIELD $k ?OVERFLOW_SAT|OVERFLOW_FAIL|OVERFLOW_WRAP INCRBY $y $q $i GET $y $q
BITFIELD $k SET $y $q $i OVERFLOW FAIL INCRBY i5 $q $d OVERFLOW SAT INCRBY u8 #1 $i
BITFIELD $k INCRBY u8 0 $i OVERFLOW x GET u8 0
BITFIELD_RO $k GET $y $q GET u8 0
BITFIELD_RO $k ?SET_u8_0_1
LCS $k $k
LCS $k $k ?LEN|IDX
LCS $k $k IDX ?MINMATCHLEN_$d ?WITHMATCHLEN|LEN
PFADD $H *$m
PFADD $H *$v *$g
PFADD $H *$g *$g *$g *$g *$g *$g *$g
PFADD $H *$g *$g *$g *$g *$g *$g *$g
PFADD $H
PFADD $k $m
PFCOUNT $H
PFCOUNT *$H $H
PFCOUNT $H $k
PFMERGE $H *$H
PFMERGE $H
GET $H
GET $H
COPY $H $H ?REPLACE
DEL $H
SETRANGE $H $n $v
SETBIT $H $g 1
APPEND $H $v
EXPIRE $r $A ?NX|XX
PEXPIRE $r $B ?NX|XX
PEXPIRE $k $E ?NX|XX
EXPIRE $k $E ?NX ?GT ?LT ?XX
EXPIREAT $k $A ?NX|XX|GT|LT
PEXPIREAT $h $B ?NX|XX|GT|LT
EXPIREAT $l $A ?NX|XX|GT|LT ?GT|x
EXPIREAT $z 1000
TTL missing
PTTL missing
EXPIRETIME $k
PEXPIRETIME $k
PERSIST $k
PERSIST $h
DEL *$k
UNLINK $h
UNLINK $l $l
DEL $t $z
DEL $r
EXISTS *$k $h
TOUCH *$k $l
TYPE $k
TYPE $z
KEYS $p
RENAME $k $k
RENAME $h $h
RENAMENX $k $k
RENAMENX $l $l
MEMORY USAGE $k
MEMORY USAGE $z ?SAMPLES_$i|x
MEMORY x $k
MEMORY USAGE missing
OBJECT REFCOUNT missing
OBJECT FREQ $k
OBJECT x $k
INFO nosuch nosuch
SET $w $f
SET $w $v
HSET $W a $n b $v
DEL $w $W
SORT $l ?ALPHA ?DESC|ASC ?LIMIT_$d_$d
SORT $l ALPHA ?DESC ?LIMIT_$i_$i
SORT $t ALPHA ?DESC ?LIMIT_$d_$d
SORT $z ALPHA ?LIMIT_$n_$n ?GET_#
SORT $z BY nosort ?DESC ?LIMIT_$n_$n ?GET_# ?GET_w:*
SORT $l BY w:* ?DESC ?LIMIT_$n_$n ?GET_# ?GET_o:*->b
SORT $t BY w:* ?DESC ?LIMIT_$n_$n GET # GET w:*
SORT $z BY o:*->a ?DESC ?LIMIT_$n_$n ?GET_#
SORT $z BY o:*->a ALPHA ?DESC
SORT $l GET w:* GET o:*->b GET o:*-> GET x ALPHA ?STORE_$l
SORT $t ALPHA ?DESC STORE $l
SORT $t BY nosort ?DESC ?LIMIT_$n_$n STORE $l
SORT $z BY nosort ?DESC STORE $k
SORT_RO $l ?ALPHA ?DESC ?STORE_$l
SORT_RO $z BY o:*->a GET #
DUMP $k
DUMP $h
DUMP $l
DUMP $t
DUMP $z
DUMP $H
DUMP missing
RESTORE $D 0 PAYLOAD REPLACE
RESTORE $D 0 PAYLOAD REPLACE
RESTORE $D 0 PAYLOAD REPLACE ?IDLETIME_$i ?FREQ_$i
RESTORE $D $B PAYLOAD ABSTTL ?REPLACE
RESTORE $D $i PAYLOAD ABSTTL ?REPLACE
RESTORE $D 0 $v ?x
XADD $X $J *$m_$v
XADD $X $J $m $v $m $v
XADD $X $J a 1 b $n
XADD $X $J a $n b $n
XADD $X $J a $n b $n
XADD $X $J a $L b $n
XADD $X ?NOMKSTREAM $J a $n
XADD $X MAXLEN $n $J *$m_$v
XADD $X MAXLEN ~ $n $J a $L
XADD $X MINID $I $J *$m_$v
XADD $X ?MAXLEN_=_$i|MINID_~_$I ?LIMIT_$i $J a $v
XADD $X MAXLEN $n MINID $I $J a $v
XTRIM $X MAXLEN ?~|= $n ?LIMIT_$n
XTRIM $X MAXLEN ~ $n
XTRIM $X MAXLEN 30
XTRIM $X MINID ?~|= $I ?LIMIT_$i
XTRIM $X x $n
XLEN $X
XLEN $k
XRANGE $X $Q $Q
XRANGE $X - +
XRANGE $X $Q $Q ?COUNT_$n
XRANGE $X $Q $Q COUNT $i
XREVRANGE $X $Q $Q ?COUNT_$n
XREVRANGE $X + - ?COUNT_$n
XDEL $X *$I
XDEL $X $I
XDEL $X $I $I
XSETID $X $I ?ENTRIESADDED_$i ?MAXDELETEDID_$I
XSETID $X 29-40 ?ENTRIESADDED_$n
XREAD ?COUNT_$n STREAMS $X $I
XREAD ?COUNT_$i ?BLOCK_x|BLOCK_-1 STREAMS $X $X $I 0
XREAD STREAMS $X $X 0 $
XREAD STREAMS $X >
XREAD ?COUNT_1 ?NOACK|GROUP_g0_c0|x STREAMS $X 0
XREAD ?STREAMS $X $X 0
XGROUP CREATE $X $a $I ?MKSTREAM ?ENTRIESREAD_$n
XGROUP CREATE $X $a 0 MKSTREAM
XGROUP CREATE $X $a $ MKSTREAM ?ENTRIESREAD_$i
XGROUP CREATE $X $a 29-3 ?MKSTREAM ?x
XGROUP SETID $X $a $I ?ENTRIESREAD_$i
XGROUP SETID $X $a $ ?ENTRIESREAD_$n ?x
XGROUP DESTROY $X $a
XGROUP CREATECONSUMER $X $a $C
XGROUP DELCONSUMER $X $a $C
XGROUP x $X $a
XREADGROUP GROUP $a $C ?COUNT_$n STREAMS $X >
XREADGROUP GROUP $a $C ?COUNT_2 ?NOACK STREAMS $X $X > >
XREADGROUP GROUP $a $C STREAMS $X $I
XREADGROUP GROUP $a $C ?COUNT_$n ?NOACK STREAMS $X 0
XREADGROUP GROUP $a $C COUNT 3 STREAMS $X >
XREADGROUP GROUP $a $C COUNT 1 STREAMS $X ?$|x|>
XREADGROUP COUNT 1 STREAMS $X $X > >
XACK $X $a *$I
XACK $X $a $I $I $I
XPENDING $X $a
XPENDING $X $a $Q $Q $n ?$C
XPENDING $X $a IDLE $w0 $Q $Q $n ?$C
XPENDING $X $a - + 100
XCLAIM $X $a $C $w0 *$I
XCLAIM $X $a $C 0 *$I ?JUSTID ?FORCE
XCLAIM $X $a $C $w0 *$I ?IDLE_100000000|IDLE_x|TIME_5|TIME_x ?RETRYCOUNT_$i ?LASTID_$I ?FORCE ?JUSTID|x
XAUTOCLAIM $X $a $C $w0 $Q ?COUNT_$n ?JUSTID
XAUTOCLAIM $X $a $C $w0 - ?COUNT_$i ?x
XAUTOCLAIM $X $a $C 0 0
XINFO STREAM $X
XINFO STREAM $X FULL ?COUNT_$n
XINFO STREAM $X FULL ?COUNT_$i ?x
XINFO GROUPS $X
XINFO GROUPS $X
XINFO CONSUMERS $X $a
XINFO x $X
XINFO HELP
XGROUP HELP
OBJECT HELP
COPY $X $X ?REPLACE
RENAME $X $X
DEL $X
DUMP $X
TYPE $X
MEMORY USAGE $X
COPY $k $k ?REPLACE|DB_0|DB_x
COPY $z $z ?REPLACE
COPY $h $h ?REPLACE
COPY $l $l ?REPLACE
COPY $t $t ?REPLACE
DBSIZE
FLUSHDB ?ASYNC|SYNC|x_y
HSET $h *$m_$v
HSET $h *$m_$v
HSETNX $h $m $v
HMSET $h *$m_$v
HGET $h $m
HMGET $h *$m
HGETALL $h
HKEYS $h
HVALS $h
HLEN $h
HDEL $h *$m
HEXISTS $h $m
HSTRLEN $h $m
HINCRBY $h $m $i
HINCRBYFLOAT $h $m $f
HRANDFIELD missing
HRANDFIELD $h 100
HRANDFIELD $h 100 WITHVALUES
HRANDFIELD missing $i ?WITHVALUES|x
LPUSH $l *$m
RPUSH $l *$m
LPUSH $l *$m
RPUSH $l *$m
LPUSHX $l *$m
RPUSHX $l *$m
LPOP $l
RPOP $l
LPOP $l $n
RPOP $l $i
LMPOP 2 $l $l LEFT ?COUNT_$n
LMPOP $n $l $l RIGHT ?COUNT_$i
LMPOP 1 $l x
LMPOP x $l LEFT ?COUNT_1 ?COUNT_1
LLEN $l
LRANGE $l 0 -1
LRANGE $l $d $d
LRANGE $l $i $i
LINDEX $l $d
LINDEX $l $i
LSET $l $d $m
LSET $l $i $m
LINSERT $l BEFORE $m $v
LINSERT $l AFTER $m $v
LINSERT $l x $m $v
LREM $l $d $m
LREM $l $i $m
LTRIM $l $d $d
LTRIM $l 0 20
LPOS $l $m
LPOS $l $m ?RANK_$d ?COUNT_$n ?MAXLEN_$n
LPOS $l $m ?RANK_$d ?COUNT_$d ?MAXLEN_$d
LMOVE $l $l LEFT RIGHT
LMOVE $l $l RIGHT LEFT
LMOVE $l $l LEFT LEFT
LMOVE $l $l x RIGHT
RPOPLPUSH $l $l
SADD $t *$m
SADD $t *$m
SREM $t *$m
SISMEMBER $t $m
SMISMEMBER $t *$m
SMEMBERS $t
SCARD $t
SPOP missing
SPOP $t 100
SPOP missing $i
SRANDMEMBER missing
SRANDMEMBER $t 100
SRANDMEMBER missing $i
SMOVE $t $t $m
SINTER *$t
SUNION *$t
SDIFF *$t
SINTERSTORE $t *$t
SUNIONSTORE $t *$t
SDIFFSTORE $t *$t
SINTERCARD 2 $t $t ?LIMIT_$n
SINTERCARD $i $t $t ?LIMIT_$i
ZADD $z *$f_$m
ZADD $z *$n_$m
ZADD $z *$n_$m
ZADD $z ?NX|XX ?GT|LT ?CH ?INCR $f $m
ZADD $z ?XX ?GT|LT ?CH *$n_$m
ZADD $e *0_$m
ZADD $e *0_$m
ZREM $z *$m
ZREM $e $m
ZRANGE $e 0 0 BYLEX WITHSCORES
ZSCORE $z $m
ZMSCORE $z *$m
ZCARD $z
ZINCRBY $z $f $m
ZRANK $z $m
ZREVRANK $z $m
ZRANGE $z 0 -1 WITHSCORES
ZRANGE $z $d $d ?REV ?WITHSCORES
ZRANGE $z $i $i ?REV|BYSCORE ?WITHSCORES|LIMIT_1_2
ZRANGE $z $s $s BYSCORE ?REV ?LIMIT_$d_$d ?WITHSCORES
ZRANGE $e $x $x BYLEX ?REV ?LIMIT_$d_$d ?WITHSCORES
ZREVRANGE $z $d $d ?WITHSCORES|LIMIT_1_1
ZRANGEBYSCORE $z $s $s ?WITHSCORES ?LIMIT_$d_$d
ZRANGEBYSCORE $z -inf +inf ?WITHSCORES ?LIMIT_$n_$n
ZREVRANGEBYSCORE $z $s $s ?WITHSCORES ?LIMIT_$d_$d
ZREVRANGEBYSCORE $z +inf (0 ?WITHSCORES ?LIMIT_$n_$n
ZRANGEBYLEX $e $x $x ?LIMIT_$d_$d
ZRANGEBYLEX $e - + ?LIMIT_$n_$n
ZREVRANGEBYLEX $e $x $x ?LIMIT_$d_$d
ZRANGESTORE $z $z $d $d ?REV
ZRANGESTORE $z $z $s $s BYSCORE ?REV ?LIMIT_$n_$n
ZCOUNT $z $s $s
ZLEXCOUNT $e $x $x
ZREMRANGEBYRANK $z $d $d
ZREMRANGEBYRANK $z $i $i
ZREMRANGEBYSCORE $z $s $s
ZREMRANGEBYLEX $e $x $x
ZPOPMIN $z ?$n
ZPOPMAX $z ?$n
ZPOPMIN $z $i
ZMPOP 2 $z $z MIN ?COUNT_$n
ZMPOP $n $z $z MAX ?COUNT_$i
ZMPOP 1 $z x
ZINTERCARD 2 $z $z ?LIMIT_$n
ZINTERCARD $i $z $t ?LIMIT_$i|WITHSCORES
ZINTERCARD 2 $t $z ?WEIGHTS_1_1|AGGREGATE_MIN
GEOADD $c *$G_$m
GEOADD $c *$G_$m
GEOADD $c *$G_$m
GEOADD $c *$N_$m
GEOADD $c *$N_$m
GEOADD $c ?NX|XX|NX_XX ?CH *$N_$m
GEOADD $z $f $f $m
GEOPOS $c *$m
GEOHASH $c *$m
GEOPOS $z $m
GEOHASH $z $m
GEODIST $c $m $m ?m|KM|ft|mi|x
GEODIST $z $m $m ?m|km|ft|mi|x_y
GEORADIUS $c $G $R $u ?WITHDIST ?WITHHASH ?WITHCOORD ?ASC|DESC ?COUNT_$n ?ANY
GEORADIUS $c $N $R $u ?WITHDIST ?ASC|DESC ?COUNT_$n ?ANY
GEORADIUS $c $N $R $u ?ASC ?STORE_$c|STOREDIST_$z
GEORADIUS $c $N $R $u ?COUNT_2 ?STORE_$c|STOREDIST_$z|WITHDIST_STORE_$c
GEORADIUS_RO $c $N $R $u ?COUNT_$n ?WITHDIST|WITHCOORD|STORE_$c
GEORADIUSBYMEMBER $c $m $R $u ?WITHDIST ?WITHHASH ?WITHCOORD ?ASC|DESC ?COUNT_$n ?ANY
GEORADIUSBYMEMBER $c $m $R $u ?STORE_$c|STOREDIST_$z
GEORADIUSBYMEMBER_RO $c $m $R $u ?ASC|DESC ?COUNT_$i
GEORADIUSBYMEMBER_RO missing $m $f $f ?ASC|DESC ?COUNT_$i
GEOSEARCH $c FROMMEMBER $m BYRADIUS $R $u ?WITHDIST ?ASC|DESC ?COUNT_$n ?ANY
GEOSEARCH $c FROMLONLAT $N BYRADIUS $R $u ?WITHDIST ?ASC|DESC ?COUNT_$n ?ANY
GEOSEARCH $c FROMLONLAT $N BYBOX $R $R $u ?WITHDIST ?ASC|DESC ?COUNT_$n ?ANY
GEOSEARCH $c FROMLONLAT $G BYBOX $R $R $u ?WITHCOORD ?WITHHASH ?WITHDIST ?DESC
GEOSEARCH $c ?FROMMEMBER_$m ?FROMLONLAT_$N ?BYRADIUS_$R_$u ?BYBOX_$R_$R_$u ?ASC|COUNT_$n|ANY ?STOREDIST
GEOSEARCH missing ?FROMMEMBER_$m ?FROMMEMBER_x ?FROMLONLAT_$N ?BYRADIUS_$R_$u ?BYBOX_$f_$R_$u
GEOSEARCHSTORE $c $c FROMMEMBER $m BYRADIUS $R $u ?COUNT_$n ?STOREDIST|WITHDIST
GEOSEARCHSTORE $c $c FROMLONLAT $N BYBOX $R $R $u ?DESC ?COUNT_$n ?STOREDIST
ZRANGE $c 0 -1 WITHSCORES
ZRANDMEMBER missing
ZRANDMEMBER $z 100
ZRANDMEMBER $z 100 WITHSCORES
ZRANDMEMBER missing $i ?WITHSCORES|x
ZUNION 2 $z $z ?WEIGHTS_2_$f ?AGGREGATE_MIN|AGGREGATE_MAX|AGGREGATE_x WITHSCORES
ZINTER 2 $z $z ?WEIGHTS_2_$f ?AGGREGATE_MIN|AGGREGATE_MAX|AGGREGATE_SUM WITHSCORES
ZDIFF 2 $z $z ?WITHSCORES
ZUNION $n $z $t
ZUNIONSTORE $z $n $z $z
ZUNIONSTORE $z 2 $z $t ?WEIGHTS_2_3|AGGREGATE_MIN
ZINTERSTORE $z 2 $z $z ?WEIGHTS_2_3|AGGREGATE_MAX
ZDIFFSTORE $z 2 $z $z
";

/// Requests after which keys expire.
const ENDING: &str = "\
PEXPIRE $k 1
PEXPIRE $h 1
PEXPIRE $l 1
PEXPIRE $t 1
PEXPIRE $z 1
PEXPIRE $e 1
PEXPIRE $X 1
PEXPIRE $H 1
PEXPIRE $c 1
PEXPIRE $w 1
SET $k $v PX 1
SET $k $v PXAT 1
PSETEX $k 1 $v
GETEX $k PX 1
EXPIREAT $k 1
PEXPIREAT $h 1";

/// Requests of many connections: keys have a digit, so that the connections share them.
const SESSIONS: &str = "\
BLPOP l$2 0
BLPOP l$2 l$2 z$2 0
BRPOP l0 l1 100
BLPOP l$2 ?x|-1|inf|0
BLMPOP 0 2 l0 l1 ?LEFT|RIGHT ?COUNT_$n
WAIT ?1|0|-1|x ?0|0|x|-1
BLMPOP 0 1 l$2 LEFT COUNT 2
BLMOVE l$2 l$2 LEFT RIGHT 0
BLMOVE l$2 l$2 RIGHT ?LEFT|x 0
BLMOVE l$2 z$2 LEFT LEFT 0
BRPOPLPUSH l$2 l$2 0
BZPOPMIN z$2 z$2 0
BZPOPMAX z0 l$2 z1 0
BZMPOP 0 2 z0 z1 ?MIN|MAX ?COUNT_$n
XREAD BLOCK 0 STREAMS x$2 x$2 $ $
XREAD COUNT 1 BLOCK 0 STREAMS x$2 3-0
XREAD ?COUNT_2 BLOCK ?0|x STREAMS x$2 x$2 2-0 $
XREADGROUP GROUP g$2 c$2 BLOCK 0 STREAMS x$2 >
XREADGROUP GROUP g$2 c$2 ?COUNT_1 BLOCK 0 ?NOACK STREAMS x$2 >
XREADGROUP GROUP g0 c$2 BLOCK 0 STREAMS x0 x1 > >
XREADGROUP GROUP g$2 c$2 STREAMS x$2 0
LPUSH l$2 *$m
RPUSH l$2 *$m
RPUSH l$2 *$m
LPUSH l$2 $m
LPOP l$2 ?$n
RPOP l$2
LMPOP 2 l0 l1 LEFT COUNT 2
LMOVE l$2 l$2 LEFT RIGHT
RPOPLPUSH l0 l1
LREM l$2 0 $m
LTRIM l$2 0 ?0|-2
LSET l$2 0 $m
LINSERT l$2 BEFORE $m x
LPUSHX l$2 $m
LRANGE l$2 0 -1
ZADD z$2 *$n_$m
ZADD z$2 *$n_$m
ZADD z$2 ?XX|NX ?INCR $n $m
ZREM z$2 $m
ZPOPMIN z$2
ZUNIONSTORE z$2 2 z0 z1
ZRANGESTORE z0 z1 0 ?0|-1|-9
ZREMRANGEBYRANK z$2 0 0
XADD x$2 9-* a b
XADD x$2 MAXLEN ?0|2 9-* a b
XADD x$2 9-* a b
XGROUP CREATE x$2 g$2 $ MKSTREAM
XGROUP CREATE x$2 g$2 0 MKSTREAM
XGROUP DESTROY x$2 g$2
XGROUP SETID x$2 g$2 0
XGROUP CREATECONSUMER x$2 g$2 c$2
XGROUP DELCONSUMER x$2 g$2 c$2
XTRIM x$2 MAXLEN 1
XACK x$2 g$2 $I
DEL l$2 ?x$2|z$2
DEL x$2
DEL $S
UNLINK z$2
RENAME $S $S
RENAMENX $S $S
COPY $S $S ?REPLACE
COPY $S $S DB ?0|1 ?REPLACE
MOVE $S ?0|1
SWAPDB 0 1
SELECT ?0|1
SELECT 0
FLUSHDB
FLUSHALL
SORT l$2 ALPHA STORE l$2
SET k$2 $v
SET l$2 $v
SET z$2 $v
SET k$2 $v ?NX|XX ?GET ?KEEPTTL|EX_1000
GETSET k$2 $v
GETDEL k$2
GETEX k$2 ?PERSIST|EX_1000
APPEND k$2 $m
SETRANGE k$2 1 $m
INCR n$2
INCRBYFLOAT n$2 1.5
MSET k0 $v k1 $v
MSETNX k0 a k1 b
SETBIT k$2 3 1
BITOP AND k$2 k0 k1
BITFIELD k$2 ?SET_u8_0_1|GET_u8_0|INCRBY_u8_0_1
PFADD p$2 $m
PFMERGE p$2 p0
PFCOUNT p$2
SADD t$2 *$m
SREM t$2 *$m
SREM t$2 a b c d m1 m2 m3
SMOVE t0 t1 $m
SPOP t$2 0
SINTERSTORE t$2 t0 t1
SUNIONSTORE t$2 t0 t1
HSET h$2 *$m_$v
HSETNX h$2 $m $v
HDEL h$2 *$m
HINCRBY h$2 n 1
HINCRBYFLOAT h$2 f 1.5
GEOADD e$2 13 38 $m
GEOSEARCHSTORE e$2 e$2 FROMLONLAT 13 38 BYRADIUS 1 m
EXPIRE $S ?1000|-1 ?NX|XX
PERSIST $S
GET k$2
TYPE $S
DBSIZE
MULTI
MULTI
MULTI
EXEC
EXEC
EXEC
EXEC
DISCARD
WATCH $S
WATCH $S $S k0
WATCH k0 k1 missing
UNWATCH
EXEC ?x
MULTI ?x
OBJECT ?x|REFCOUNT z0
OBJECT ENCODING
XGROUP ?x|HELP
CLIENT ?x|UNBLOCK
NOSUCH x
CLIENT UNBLOCK CLIENT ?TIMEOUT|ERROR|x
CLIENT UNBLOCK CLIENT
CLIENT UNBLOCK ?0|x|-1|999999999
SUBSCRIBE n$2 *n$2
SUBSCRIBE n$2
PSUBSCRIBE ?n*|*1|m
SSUBSCRIBE n$2
UNSUBSCRIBE ?n$2
PUNSUBSCRIBE ?n*
SUNSUBSCRIBE ?n$2
UNSUBSCRIBE
PUNSUBSCRIBE
PUBLISH n$2 $v
PUBLISH n$2 $v
SPUBLISH n$2 $v
PUBSUB CHANNELS n$2
PUBSUB NUMSUB n0 n1
PUBSUB NUMPAT
PUBSUB SHARDCHANNELS n$2
PUBSUB SHARDNUMSUB n0
PUBSUB ?x|HELP
CONFIG SET notify-keyspace-events ?KEA|KEA|K$lz|gx|Ex
CONFIG GET notify-keyspace-events
PING ?$v
RESET
HELLO 3
HELLO 2";
