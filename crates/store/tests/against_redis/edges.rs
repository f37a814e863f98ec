//! Arguments at the limits of their ranges, for every command that takes one of their kind. They are numbers in every notation,
//! bounds and counts of both signs, cursors, and places at the edge of the map.

use crate::node::Node;
use crate::{Ours, ask, normal, refs, store};

/// Both sides, which are sent the same requests.
struct Pair {
    node: Node,
    ours: Ours,
}

impl Pair {
    fn start() -> Option<Pair> {
        Some(Pair { node: Node::start_7_0()?, ours: store(1) })
    }

    /// Sends the requests of a line, which semicolons divide, with `values` in the places of `@`, one after the other.
    fn compare(&mut self, line: &str, values: &[&[u8]]) {
        let mut values = values.iter().cycle();
        for request in line.split("; ") {
            let words: Vec<Vec<u8>> = request
                .split_ascii_whitespace()
                .map(|word| {
                    let mut parts = word.split('@').map(str::as_bytes);
                    let first = parts.next().unwrap_or_default().to_vec();
                    parts
                        .fold(first, |word, part| [&word, *values.next().unwrap_or(&&b""[..]), part].concat())
                })
                .collect();
            self.compare_words(&refs(&words));
        }
    }

    fn compare_words(&mut self, words: &[&[u8]]) {
        if words[0] == b"SORT" {
            // Redis's SORT fails on an errno that earlier code left set. This ZADD sets it to 0.
            self.node.ask_raw(&[b"ZADD", b"errno", b"1", b"a", b"x", b"b"]);
        }
        let (got, expected) = (ask(&mut self.ours, words), self.node.ask_raw(words));
        let shown: Vec<String> = words.iter().map(|word| shortened(word)).collect();
        assert_eq!(normal(words, &got), normal(words, &expected), "{}", shown.join(" "));
    }
}

fn shortened(word: &[u8]) -> String {
    let len = word.len();
    if len > 80 {
        format!("{}…({len})", word[..40].escape_ascii())
    } else {
        word.escape_ascii().to_string()
    }
}

#[test]
fn numbers_are_read_as_redis_reads_them() {
    let Some(mut pair) = Pair::start() else { return };
    let long = [
        "9".repeat(400),
        format!("0.{}1", "0".repeat(400)),
        "1".repeat(5_200),
        format!("0.{}1", "0".repeat(5_200)),
        "9".repeat(5_118),
        "9".repeat(5_119),
        "9".repeat(5_120),
        format!("0x1{}", "0".repeat(300)),
        format!("{:.1100}", f64::from_bits(1)),
    ];
    for number in NUMBERS.iter().copied().chain(long.iter().map(String::as_bytes)) {
        FLOAT_REQUESTS.lines().for_each(|line| pair.compare(line, &[number]));
    }
}

#[test]
fn bounds_and_counts_are_taken_as_redis_takes_them() {
    let Some(mut pair) = Pair::start() else { return };
    let both = INTEGERS.iter().flat_map(|one| INTEGERS.iter().map(move |other| [*one, *other]));
    for values in both {
        COLLECTIONS.lines().chain(PAIR_REQUESTS.lines()).for_each(|line| pair.compare(line, &values));
    }
    for value in INTEGERS {
        COLLECTIONS.lines().chain(INTEGER_REQUESTS.lines()).for_each(|line| pair.compare(line, &[value]));
    }
}

#[test]
fn cursors_are_read_as_redis_reads_them() {
    let Some(mut pair) = Pair::start() else { return };
    pair.compare("HSET h b 1 a 2; SADD s 3 1 2; ZADD z 2 a 1 b", &[]);
    for cursor in CURSORS {
        for (command, key) in
            [("HSCAN", "h"), ("SSCAN", "s"), ("ZSCAN", "z"), ("HSCAN", "no"), ("SSCAN", "h")]
        {
            pair.compare_words(&[command.as_bytes(), key.as_bytes(), cursor]);
        }
        pair.compare_words(&[b"SCAN", cursor, b"COUNT", b"x"]);
    }
}

#[test]
fn places_at_the_rim_of_the_map_are_found_as_by_redis() {
    let Some(mut pair) = Pair::start() else { return };
    let all = || LONGITUDES.iter().flat_map(|lon| LATITUDES.iter().map(move |lat| [*lon, *lat]));
    for place in all() {
        let name = place.join(&b","[..]);
        pair.compare_words(&[b"GEOADD", b"geo", place[0], place[1], &name]);
        pair.compare("GEOPOS geo @; GEOHASH geo @; ZSCORE geo @", &[&name]);
    }
    for place in all() {
        for radius in [&b"0"[..], b"1", b"1000", b"1000000", b"10000000", b"20000000"] {
            GEO_REQUESTS.lines().for_each(|line| pair.compare(line, &[place[0], place[1], radius, radius]));
        }
        pair.compare(
            "GEORADIUSBYMEMBER geo @ 5000 km WITHDIST; GEODIST geo @ 0,0",
            &[&place.join(&b","[..])],
        );
    }
}

#[test]
fn errors_of_claims_come_in_the_order_of_redis() {
    let Some(mut pair) = Pair::start() else { return };
    pair.compare("XADD x 1-1 a b; XGROUP CREATE x g 0; SET text v", &[]);
    for key in ["x", "missing", "text"] {
        for group in ["g", "nosuch"] {
            for (idle, start) in [("0", "-"), ("x", "x"), ("x", "-"), ("-1", "x"), ("0", "(+")] {
                for options in ["", "COUNT 0", "COUNT x", "COUNT 600000000000000000", "COUNT", "JUSTID", "x"]
                {
                    pair.compare(&format!("XAUTOCLAIM {key} {group} c {idle} {start} {options}"), &[]);
                    pair.compare(&format!("XCLAIM {key} {group} c {idle} {start} {options}"), &[]);
                }
            }
        }
    }
}

const NUMBERS: [&[u8]; 122] = [
    b"0x1p3",
    b"0X1P3",
    b"0x10",
    b"0x.8",
    b"0x8.",
    b"0x",
    b"0x1p",
    b"0x1p+3",
    b"0x1p-3",
    b"-0x1p3",
    b"+0x1p3",
    b"0xg",
    b"0x1.8p1",
    b"0x1p1024",
    b"0x1p-1074",
    b"0x1p-1075",
    b"0x1p-1022",
    b"0x1p16383",
    b"0x1p16384",
    b"0x1p-16382",
    b"0x1p-16445",
    b"0x1p-16446",
    b"0xffffffffffffffffffffff",
    b"0x1.00000000000001p0",
    b"0x1.fffffffffffff8p0",
    b"0x1.00000000000008p0",
    b"0x1.000000000000080000000001p0",
    b"0x0",
    b"-0x0",
    b"0x0p5",
    b"0x0p99999999999",
    b"0x1p99999999999",
    b"0x1p-99999999999",
    b"0x0.00000000000000000000001p100",
    b"inf",
    b"INF",
    b"Infinity",
    b"-infinity",
    b"+inf",
    b"+infinity",
    b"infin",
    b"infinit",
    b"in",
    b"i",
    b"nan",
    b"NAN",
    b"-nan",
    b"nan(1)",
    b"nan(abc)",
    b"nan()",
    b"nan(",
    b"1e",
    b"1e+",
    b"1e-",
    b"1e5",
    b"1E5",
    b"1e+5",
    b"1e05",
    b"1e400",
    b"-1e400",
    b"1e-400",
    b"1e-320",
    b"4.9e-324",
    b"5e-324",
    b"2e-324",
    b"1e308",
    b"1.8e308",
    b"1e4932",
    b"1e4933",
    b"1e-4950",
    b"1e-4940",
    b"1e-4951",
    b"1e-4966",
    b"3.6e-4951",
    b"1e5000",
    b" 1",
    b"1 ",
    b"\x091",
    b"1\x09",
    b"\x0a1",
    b"",
    b"-",
    b"+",
    b".",
    b"-.",
    b"1.",
    b"+.5",
    b"1_0",
    b"1,5",
    b"0b1",
    b"0o7",
    b"1f",
    b"1d",
    b"1.5.5",
    b"--1",
    b"+-1",
    b"1e1e1",
    b"00001",
    b"0000.00001",
    b"1\x00",
    b"1\x00x",
    b"\x00",
    b"0x1\x00",
    b"0x1p3 ",
    b" 0x1p3",
    b"0x 1",
    b"0x-1",
    b"1e 5",
    b"1e99999999999999999999",
    b"0e99999999999999999999",
    b"1e-99999999999999999999",
    b"0e-400",
    b"0.0e999",
    b"-0",
    b"-0.0",
    b"5e-324",
    b"-5e-324",
    b"2.2250738585072011e-308",
    b"2.2250738585072014e-308",
    b"1e-310",
    b"0x0.0000000000001p-1022",
    b"0x1.8p-1074",
];

const FLOAT_REQUESTS: &str = "\
DEL k h z; INCRBYFLOAT k @; GET k; HINCRBYFLOAT h f @; HGET h f
SET k @; INCRBYFLOAT k 1; GET k
DEL h; HSET h f @; HINCRBYFLOAT h f 1
DEL z; ZADD z @ m; ZSCORE z m; ZINCRBY z @ m
DEL z; ZADD z 1 a 2 b 3 c; ZRANGEBYSCORE z @ 2; ZRANGEBYSCORE z (@ 2; ZCOUNT z -inf @; ZRANGE z @ 5 BYSCORE
DEL z; ZADD z 1 a 2 b; ZUNION 1 z WEIGHTS @ WITHSCORES; ZUNIONSTORE z2 1 z WEIGHTS @
GEOADD g @ 1 m; GEOADD g 1 @ m
DEL g; GEOADD g 13 38 a; GEORADIUS g 13 38 @ km; GEORADIUS g @ 38 10 km; GEOSEARCH g FROMLONLAT 13 @ BYRADIUS 1 km
GEOSEARCH g FROMLONLAT 13 38 BYBOX 1 @ km; GEOSEARCH g FROMLONLAT 13 38 BYBOX @ 1 km
DEL l; RPUSH l @ 1 2; SORT l; SORT l DESC
DEL l; RPUSH l a b; SET w_a @; SET w_b 1; SORT l BY w_*
MULTI; BLPOP no @; BZPOPMIN no @; EXEC";

const INTEGERS: [&[u8]; 16] = [
    b"-9223372036854775808",
    b"-9223372036854775807",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-1",
    b"0",
    b"1",
    b"2",
    b"-3",
    b"3",
    b"6",
    b"x",
    b"1.0",
    b"+1",
    b"-0",
    b"01",
];

const COLLECTIONS: &str = "\
FLUSHALL; SET k hello; RPUSH l 3 1 2 5 4; SADD t 3 1 2 5 4; ZADD z 1 7 2 8 3 9 4 1 5 2
RPUSH twice a b c a b c a; MSET w_1 9 w_2 8 w_3 7 w_4 6 w_5 5 w_7 1 w_8 2 w_9 3";

const PAIR_REQUESTS: &str = "\
LPOS twice a RANK @ COUNT @; LPOS twice a RANK @ MAXLEN @
SORT l LIMIT @ @; SORT l DESC LIMIT @ @; SORT t ALPHA LIMIT @ @; SORT l BY nosort LIMIT @ @; SORT missing LIMIT @ @
SORT z BY nosort LIMIT @ @; SORT z BY nosort DESC LIMIT @ @; SORT z BY w_* DESC LIMIT @ @ GET # GET w_*
SORT l LIMIT @ @ STORE to; LRANGE to 0 -1; SORT z BY nosort LIMIT @ @ STORE to; LRANGE to 0 -1
ZRANGEBYSCORE z -inf +inf LIMIT @ @; ZREVRANGEBYSCORE z +inf -inf LIMIT @ @; ZREVRANGEBYLEX z + - LIMIT @ @
ZRANGE z -inf +inf BYSCORE LIMIT @ @; ZRANGE z + - BYLEX REV LIMIT @ @; ZRANGE z @ @; ZREVRANGE z @ @
LRANGE l @ @; GETRANGE k @ @; BITCOUNT k @ @; BITCOUNT k @ @ BIT
BITPOS k 0 @ @; BITPOS k 1 @ @; BITPOS k 0 @ @ BIT; BITPOS k 1 @ @ BIT
LTRIM l @ @; LRANGE l 0 -1; ZREMRANGEBYRANK z @ @; ZRANGE z 0 -1";

const INTEGER_REQUESTS: &str = "\
LPOS twice a RANK @; LPOS twice a COUNT @; LPOS twice a MAXLEN @; LPOS missing a RANK @
ZPOPMIN missing @; LPOP missing @; SPOP missing @; SRANDMEMBER missing @; HRANDFIELD missing @; ZRANDMEMBER missing @
HRANDFIELD missing @ WITHVALUES; ZRANDMEMBER missing @ WITHSCORES; ZRANDMEMBER k @ WITHSCORES; HRANDFIELD k @
LINDEX l @; LSET l @ 9; LREM l @ 77; LMPOP 1 missing LEFT COUNT @; LMPOP @ missing LEFT; ZMPOP @ missing MIN
ZINTERCARD @ z; ZINTERCARD 1 z LIMIT @; SINTERCARD @ t; SINTERCARD 1 t LIMIT @; ZUNION @ z; ZUNIONSTORE to @ z
EXPIRE missing @; HSCAN missing 0 COUNT @; COPY missing to DB @; MOVE missing @
INCRBY n @; DEL n; DECRBY n @; GETBIT k @; SETBIT k 1 @; BITFIELD k GET u8 @; BITFIELD k GET u8 #@
BITFIELD k GET u@ 0; BITFIELD k GET i@ 0
XREAD COUNT @ STREAMS no 0; XADD no NOMKSTREAM MAXLEN @ 1-1 a b; XTRIM no MAXLEN @; XTRIM no MAXLEN ~ @ LIMIT @
XRANGE no - + COUNT @; GEOSEARCH no FROMLONLAT 1 1 BYRADIUS 1 m COUNT @; GEORADIUS no 1 1 1 m COUNT @";

const CURSORS: [&[u8]; 25] = [
    b"-1",
    b"0",
    b"18446744073709551615",
    b"18446744073709551616",
    b"-18446744073709551615",
    b"-18446744073709551616",
    b"99999999999999999999999",
    b"+0",
    b" 0",
    b"0 ",
    b"x",
    b"",
    b"0x0",
    b"00",
    b"-0",
    b"1.5",
    b"9223372036854775808",
    b"--1",
    b"+-1",
    b"\t0",
    b"- 1",
    b"+",
    b"-",
    b"0\0x",
    b"\0",
];

const LONGITUDES: [&[u8]; 7] =
    [b"180", b"-180", b"180.0000000001", b"-180.0000000001", b"179.9999999999", b"-179.9999999999", b"0"];

const LATITUDES: [&[u8]; 9] = [
    b"85.05112878",
    b"-85.05112878",
    b"85.0511287800001",
    b"-85.0511287800001",
    b"85.0511287799",
    b"-85.0511287799",
    b"85.05112877",
    b"0",
    b"90",
];

const GEO_REQUESTS: &str = "\
GEORADIUS geo @ @ @ m WITHDIST ASC
GEORADIUS geo @ @ @ m WITHCOORD WITHHASH
GEORADIUS geo @ @ @ m COUNT 3 ANY
GEOSEARCH geo FROMLONLAT @ @ BYRADIUS @ m WITHDIST DESC
GEOSEARCH geo FROMLONLAT @ @ BYBOX @ @ m WITHDIST ASC
GEOSEARCH geo FROMLONLAT @ @ BYBOX @ 1 km
GEOSEARCH geo FROMLONLAT @ @ BYBOX 1 @ km";
