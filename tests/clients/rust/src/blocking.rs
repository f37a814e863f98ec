//! redis-rs with blocking connections.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use redis::{Commands, Connection, ErrorKind, RedisResult, Script, ServerErrorKind};

use crate::{PATIENCE, World, assert_once, assert_refused, big_value, report, wait_for_restart};

type Check = fn(&World, &mut Connection);

const CHECKS: &[(&str, Check)] = &[
    ("connect", connect),
    ("strings", strings),
    ("hashes", hashes),
    ("lists-sets-zsets", lists_sets_zsets),
    ("counters-expiry", counters_expiry),
    ("pipeline", pipeline),
    ("multi-key", multi_key),
    ("scan", scan),
    ("scripts", scripts),
    ("big-values", big_values),
    ("errors", errors),
    ("concurrent", concurrent),
    ("cluster", cluster),
    ("transactions", transactions),
    ("blocking", waiting),
    ("pubsub", pubsub),
    ("databases", databases),
    ("reconnect", reconnect),
];

/// Runs all checks, on one connection as far as possible. Returns the number of failures.
pub(crate) fn run(world: &World) -> usize {
    let mut failed = 0;
    let mut conn = None;
    for (name, check) in CHECKS {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            check(world, conn.get_or_insert_with(|| world.connect()));
        }));
        // A panic may have left replies unread.
        conn = conn.filter(|_| outcome.is_ok());
        failed += report(name, outcome);
    }
    failed
}

impl World {
    fn connect(&self) -> Connection {
        self.try_connect().expect("a connection")
    }

    fn try_connect(&self) -> RedisResult<Connection> {
        let conn = self.client.get_connection_with_timeout(PATIENCE)?;
        conn.set_read_timeout(Some(PATIENCE))?;
        Ok(conn)
    }
}

fn connect(world: &World, conn: &mut Connection) {
    assert_eq!(redis::cmd("PING").query(conn), Ok("PONG".to_owned()));
    assert!(redis::ConnectionLike::check_connection(conn));
    assert_eq!(redis::cmd("ECHO").arg("hello").query(&mut world.connect()), Ok("hello".to_owned()));
}

fn strings(_: &World, conn: &mut Connection) {
    let binary = b"\0\r\n\xff$5\r\n*1\r\n".to_vec();
    assert_eq!(conn.set("string:binary", &binary), Ok(()));
    assert_eq!(conn.get("string:binary"), Ok(binary));
    assert_eq!(conn.set("string:empty", ""), Ok(()));
    assert_eq!(conn.get("string:empty"), Ok(Some(String::new())));
    assert_eq!(conn.get("string:no"), Ok(None::<String>));
    assert_eq!(conn.set_nx("string:empty", "x"), Ok(false));
    assert_eq!(conn.set_nx("string:new", "Grüße"), Ok(true));
    assert_eq!(conn.append("string:new", "!!"), Ok(9));
    assert_eq!(conn.getrange("string:new", 0, 6), Ok("Grüße".to_owned()));
    assert_eq!(conn.setrange("string:new", 7, "??"), Ok(9));
    assert_eq!(conn.strlen("string:new"), Ok(9));
    assert_eq!(conn.getset("string:new", "x"), Ok("Grüße??".to_owned()));
    assert_eq!(conn.get_del("string:new"), Ok("x".to_owned()));
    assert_eq!(conn.key_type("string:empty"), Ok("string".to_owned()));
}

fn hashes(_: &World, conn: &mut Connection) {
    assert_eq!(conn.hset_multiple("hash", &[("a", "1"), ("b", "two")]), Ok(()));
    let whole = HashMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "two".to_owned())]);
    assert_eq!(conn.hgetall("hash"), Ok(whole));
    assert_eq!(conn.hgetall("hash:no"), Ok(HashMap::<String, String>::new()));
    let fields = ["b", "no", "a"];
    assert_eq!(conn.hmget("hash", &fields), Ok(vec![Some("two".to_owned()), None, Some("1".to_owned())]));
    assert_eq!(conn.hincr("hash", "a", 7), Ok(8));
    assert_eq!(conn.hincr("hash", "a", 0.5), Ok(8.5));
    assert_eq!(conn.hset_nx("hash", "a", "x"), Ok(false));
    assert_eq!(conn.hexists("hash", "b"), Ok(true));
    assert_eq!(conn.hdel("hash", &["b", "no"]), Ok(1));
    assert_eq!(conn.hkeys("hash"), Ok(vec!["a".to_owned()]));
    assert_eq!(conn.hlen("hash"), Ok(1));
}

fn lists_sets_zsets(_: &World, conn: &mut Connection) {
    assert_eq!(conn.rpush("list", &["a", "b", "c", "d"]), Ok(4));
    assert_eq!(conn.lrange("list", 0, -1), Ok(["a", "b", "c", "d"].map(str::to_owned).to_vec()));
    assert_eq!(conn.lpop("list", None), Ok("a".to_owned()));
    assert_eq!(conn.rpop("list", 2.try_into().ok()), Ok(["d", "c"].map(str::to_owned).to_vec()));
    assert_eq!(conn.linsert_before("list", "b", "x"), Ok(2));
    assert_eq!(conn.lindex("list", 0), Ok("x".to_owned()));

    assert_eq!(conn.sadd("set:{t}", &[1, 2, 3]), Ok(3));
    assert_eq!(conn.sadd("other:{t}", &[3, 4]), Ok(2));
    assert_eq!(conn.sinter(&["set:{t}", "other:{t}"]), Ok(vec![3]));
    assert_eq!(conn.sunionstore("both:{t}", &["set:{t}", "other:{t}"]), Ok(4));
    assert_eq!(conn.sismember("both:{t}", 4), Ok(true));
    assert_eq!(conn.srem("both:{t}", &[4, 5]), Ok(1));
    assert_eq!(conn.smembers("both:{t}"), Ok(std::collections::BTreeSet::from([1, 2, 3])));

    assert_eq!(conn.zadd_multiple("zset", &[(1.5, "a"), (-2.0, "b"), (1e20, "c")]), Ok(3));
    let in_order = [("b", -2.0), ("a", 1.5), ("c", 1e20)].map(|(member, score)| (member.to_owned(), score));
    assert_eq!(conn.zrange_withscores("zset", 0, -1), Ok(in_order.to_vec()));
    assert_eq!(conn.zincr("zset", "a", 2.5), Ok(4.0));
    assert_eq!(conn.zscore("zset", "a"), Ok(4.0));
    assert_eq!(conn.zrank("zset", "a"), Ok(1));
    assert_eq!(conn.zrangebyscore_limit("zset", "(-2", "+inf", 0, 1), Ok(vec!["a".to_owned()]));
    assert_eq!(conn.zpopmin("zset", 1), Ok(vec![("b".to_owned(), -2.0)]));
}

fn counters_expiry(_: &World, conn: &mut Connection) {
    assert_eq!(conn.incr("counter", 1), Ok(1));
    assert_eq!(conn.incr("counter", (1_i64 << 53) + 1), Ok((1_i64 << 53) + 2));
    assert_eq!(conn.decr("counter", (1_i64 << 53) + 10), Ok(-8));
    assert_eq!(conn.incr("counter", 0.25), Ok(-7.75));
    assert_eq!((conn.ttl("counter"), conn.ttl("counter:no")), (Ok(-1), Ok(-2)));
    assert_eq!(conn.expire("counter", 100), Ok(true));
    let left: i64 = conn.pttl("counter").expect("PTTL");
    assert!((1..=100_000).contains(&left), "{left}");
    assert_eq!(conn.persist("counter"), Ok(true));
    assert_eq!(conn.set_ex("counter", 1, 100), Ok(()));
    assert_eq!(conn.ttl("counter"), Ok(100));
    assert_eq!(conn.pset_ex("counter", 1, 30), Ok(()));
    let start = Instant::now();
    while conn.exists("counter") == Ok(true) && start.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    assert_eq!(conn.get("counter"), Ok(None::<String>));
}

/// Sends a pipeline for all shards; then the same with an error in the middle.
fn pipeline(_: &World, conn: &mut Connection) {
    let mut pipe = redis::pipe();
    for n in 0..500 {
        pipe.set(format!("pipe:{n}"), n).ignore().get(format!("pipe:{n}"));
    }
    assert_eq!(pipe.query(conn), Ok((0..500).collect::<Vec<i64>>()));
    let mut pipe = redis::pipe();
    pipe.set("pipe:0", "first").lpush("pipe:0", "wrong").set("pipe:1", "last");
    assert_refused(pipe.query::<()>(conn), "WRONGTYPE");
    // The commands before and after the error were done, and no reply is left over.
    assert_eq!(conn.mget(&["pipe:0", "pipe:1"]), Ok(["first", "last"].map(str::to_owned).to_vec()));
}

fn multi_key(_: &World, conn: &mut Connection) {
    let pairs: Vec<(String, String)> =
        (0..100).map(|n| (format!("multi:{n}"), format!("value {n}"))).collect();
    let mut keys: Vec<String> = pairs.iter().map(|(key, _)| key.clone()).collect();
    keys.push("multi:no".to_owned());
    let values = pairs.iter().map(|(_, value)| Some(value.clone())).chain([None]);
    assert_eq!(conn.mset(&pairs), Ok(()));
    assert_eq!(conn.mget(&keys), Ok(values.collect::<Vec<_>>()));
    for (key, value) in &pairs {
        assert_eq!(conn.get(key), Ok(value.clone()));
    }
    assert_eq!(conn.exists(&keys), Ok(100));
    assert_eq!(conn.unlink(&keys[..50]), Ok(50));
    assert_eq!(conn.del(&keys), Ok(50));
    assert_eq!(conn.exists(&keys), Ok(0));
}

fn scan(_: &World, conn: &mut Connection) {
    let mut pipe = redis::pipe();
    for n in 0..1000 {
        pipe.set(format!("scan:{n}"), n).ignore();
        pipe.hset("scanned:hash", format!("member:{n}"), n).ignore();
        pipe.sadd("scanned:set", format!("member:{n}")).ignore();
        pipe.zadd("scanned:zset", format!("member:{n}"), n).ignore();
    }
    assert_eq!(pipe.query(conn), Ok(()));
    let keys = conn.scan_match::<_, String>("scan:*").expect("SCAN");
    assert_once(keys.map(|key| key.expect("SCAN")), "scan:");
    let options = redis::ScanOptions::default().with_pattern("scan:*").with_count(300);
    let keys = conn.scan_options::<String>(options).expect("SCAN COUNT");
    assert_once(keys.map(|key| key.expect("SCAN COUNT")), "scan:");
    let fields = conn.hscan::<_, (String, i64)>("scanned:hash").expect("HSCAN");
    assert_once(fields.map(|field| field.expect("HSCAN").0), "member:");
    let members = conn.sscan::<_, String>("scanned:set").expect("SSCAN");
    assert_once(members.map(|member| member.expect("SSCAN")), "member:");
    let members = conn.zscan::<_, (String, f64)>("scanned:zset").expect("ZSCAN");
    assert_once(members.map(|member| member.expect("ZSCAN").0), "member:");
}

fn scripts(world: &World, conn: &mut Connection) {
    const SOURCE: &str = "return {KEYS[1], redis.call('incrby', KEYS[1], ARGV[1])}";
    let script = Script::new("return redis.call('incrby', KEYS[1], ARGV[1]) * 2");
    let eval = redis::cmd("EVAL").arg(SOURCE).arg(1).arg("script:1").arg(5).query(conn);
    assert_eq!(eval, Ok(("script:1".to_owned(), 5)));
    let digest: String = redis::cmd("SCRIPT").arg("LOAD").arg(SOURCE).query(conn).expect("SCRIPT LOAD");
    // Enough keys that every shard runs it: it must have been loaded into all.
    for n in 0..40 {
        let key = format!("script:sha:{n}");
        let reply = redis::cmd("EVALSHA").arg(&digest).arg(1).arg(&key).arg(7).query(conn);
        assert_eq!(reply, Ok((key, 7)));
    }
    for n in 0..40 {
        // Tries EVALSHA, loads the script where the shard does not have it, and tries again.
        let key = format!("script:object:{n}");
        assert_eq!(script.key(&key).arg(3).invoke(conn), Ok(6));
        assert_eq!(script.key(&key).arg(3).invoke(conn), Ok(12));
    }
}

fn big_values(_: &World, conn: &mut Connection) {
    for len in [1 << 20, 20 << 20] {
        let value = big_value(len);
        assert_eq!(conn.set("big", &value), Ok(()));
        let stored: Vec<u8> = conn.get("big").expect("GET");
        // Not assert_eq: it would print both.
        assert!(stored == value, "{len} bytes came back as {} others", stored.len());
    }
    assert_eq!(conn.del("big"), Ok(1));
}

fn errors(_: &World, conn: &mut Connection) {
    assert_eq!(conn.set("errors", "x"), Ok(()));
    let error = conn.lpush::<_, _, i64>("errors", "x").expect_err("a string is no list");
    assert_eq!((error.code(), error.is_connection_dropped()), (Some("WRONGTYPE"), false), "{error}");
    assert_eq!(conn.get("errors"), Ok("x".to_owned()));
    let error = conn.incr::<_, _, i64>("errors", 1).expect_err("x is no number");
    assert_eq!(error.kind(), ErrorKind::Server(ServerErrorKind::ResponseError), "{error}");
    assert_refused(conn.incr::<_, _, i64>("errors", 1), "value is not an integer");
    assert_refused(redis::cmd("NOSUCH").arg("x").query::<()>(conn), "unknown command");
    assert_refused(redis::cmd("GET").query::<()>(conn), "wrong number of arguments");
    assert_eq!(conn.get("errors"), Ok("x".to_owned()));
}

/// A connection serves one thread, so each of fifty has its own.
fn concurrent(world: &World, _: &mut Connection) {
    std::thread::scope(|scope| {
        for task in 0..50 {
            scope.spawn(move || {
                let mut conn = world.connect();
                for n in 0..50 {
                    let (key, value) = (format!("task:{task}:{n}"), format!("{n} of {task}"));
                    assert_eq!(conn.set(&key, &value), Ok(()));
                    assert_eq!(conn.get(&key), Ok(value));
                }
            });
        }
    });
}

/// Treats the port as one node of a Redis Cluster, as programs do that are configured for one.
fn cluster(world: &World, _: &mut Connection) {
    let mut conn = world.cluster().get_connection().expect("a connection");
    for n in 0..100 {
        assert_eq!(conn.set(format!("cluster:{n}"), n), Ok(()));
    }
    let mut pipe = redis::cluster::cluster_pipe();
    for n in 0..100 {
        pipe.get(format!("cluster:{n}"));
    }
    assert_eq!(pipe.query(&mut conn), Ok((0..100).collect::<Vec<i64>>()));
    assert_eq!(conn.mset(&[("a:{cluster}", 1), ("b:{cluster}", 2)]), Ok(()));
    assert_eq!(conn.mget(&["b:{cluster}", "a:{cluster}"]), Ok(vec![2, 1]));
}

/// Atomic pipelines of keys of one shard, and one that checks that no other client writes meanwhile.
fn transactions(world: &World, conn: &mut Connection) {
    let mut atomic = redis::pipe();
    atomic.atomic().set("tx:a{t}", 1).ignore().incr("tx:a{t}", 1).rpush("tx:b{t}", &["x", "y"]);
    assert_eq!(atomic.query(conn), Ok((2, 2)));

    let mut other = world.connect();
    let mut attempts = 0;
    let doubled: RedisResult<(i64,)> = redis::transaction(conn, &["tx:a{t}"], |conn, pipe| {
        attempts += 1;
        let value: i64 = conn.get("tx:a{t}")?;
        if attempts == 1 {
            other.set::<_, _, ()>("tx:a{t}", 10)?;
        }
        pipe.set("tx:a{t}", value * 2).ignore().get("tx:a{t}").query(conn)
    });
    assert_eq!((doubled, attempts), (Ok((20,)), 2));

    // Keys of several shards make no transaction, and none of its commands runs.
    let keys: Vec<String> = (0..20).map(|n| format!("tx:apart:{n}")).collect();
    let mut apart = redis::pipe();
    apart.atomic();
    for key in &keys {
        apart.set(key, "x");
    }
    assert_refused(apart.query::<()>(conn), "same slot");
    assert_eq!(conn.exists(&keys), Ok(0));
}

/// One connection waits for an element that another pushes.
fn waiting(world: &World, conn: &mut Connection) {
    let mut waiting = world.connect();
    let popped = std::thread::spawn(move || waiting.blpop(&["blocking:a{t}", "blocking:b{t}"], 20.0));
    let start = Instant::now();
    while !redis::cmd("CLIENT").arg("LIST").query::<String>(conn).expect("CLIENT LIST").contains(" flags=b ")
    {
        assert!(start.elapsed() < PATIENCE, "nobody waits");
    }
    assert_eq!(conn.rpush("blocking:b{t}", &["x", "y"]), Ok(2));
    let expected = ["blocking:b{t}", "x"].map(str::to_owned);
    assert_eq!(popped.join().expect("no thread panics"), Ok(Some(expected)));
    assert_eq!(conn.brpop("blocking:none", 0.01), Ok(None::<[String; 2]>));
}

/// A subscription turns a connection into a receiver that does nothing else.
fn pubsub(world: &World, conn: &mut Connection) {
    let mut subscriber = world.connect();
    let mut heard = subscriber.as_pubsub();
    // One at a time: the library waits for one confirmation, and would take the second for that of the pattern.
    assert_eq!(heard.subscribe("news:a"), Ok(()));
    assert_eq!(heard.subscribe("news:b"), Ok(()));
    assert_eq!(heard.psubscribe("news:*"), Ok(()));
    assert_eq!(conn.publish("news:a", "x"), Ok(2));
    let mut told: Vec<(String, bool)> = Vec::new();
    for _ in 0..2 {
        let message = heard.get_message().expect("a message");
        told.push((message.get_payload().expect("text"), message.from_pattern()));
    }
    told.sort();
    assert_eq!(told, [("x".to_owned(), false), ("x".to_owned(), true)]);
    assert_eq!(heard.punsubscribe("news:*"), Ok(()));
    for n in 0..100 {
        assert_eq!(conn.publish("news:b", n), Ok(1));
    }
    for n in 0..100 {
        assert_eq!(heard.get_message().expect("a message").get_payload(), Ok(n));
    }
    assert_eq!(heard.unsubscribe("news:a"), Ok(()));
    assert_eq!(conn.publish("news:a", "y"), Ok(0));
}

fn databases(world: &World, conn: &mut Connection) {
    assert_eq!(conn.set("database", "zero"), Ok(()));
    let mut other = world.connect();
    assert_eq!(redis::cmd("SELECT").arg(1).query(&mut other), Ok(()));
    assert_eq!(other.get("database"), Ok(None::<String>));
    assert_eq!(other.set("database", "one"), Ok(()));
    assert_eq!(conn.get("database"), Ok("zero".to_owned()));
    assert_refused(redis::cmd("SELECT").arg(99).query::<()>(&mut other), "DB index is out of range");
}

/// The old connection fails, and does not hang; the client makes new ones as soon as a process listens.
fn reconnect(world: &World, conn: &mut Connection) {
    wait_for_restart();
    let start = Instant::now();
    let mut retried = conn.set("reconnect", "again");
    while retried != Ok(()) {
        let waited = start.elapsed();
        assert!(waited < Duration::from_secs(10), "no answer {waited:?} after the restart: {retried:?}");
        retried = world.try_connect().and_then(|fresh| {
            *conn = fresh;
            conn.set("reconnect", "again")
        });
    }
    for _ in 0..100 {
        assert_eq!(conn.get("reconnect"), Ok("again".to_owned()));
    }
}
