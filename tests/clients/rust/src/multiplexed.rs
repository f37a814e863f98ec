//! redis-rs on tokio: one multiplexed connection that reconnects by itself, and is cloned for every task.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncCommands, AsyncConnectionConfig, ErrorKind, PushKind, Script, ServerErrorKind};
use tokio::runtime::Runtime;

use crate::{PATIENCE, World, assert_once, assert_refused, big_value, report, wait_for_restart};

type Conn = ConnectionManager;

/// Runs all checks over clones of one connection. Returns the number of failures.
pub(crate) fn run(world: &World) -> usize {
    let runtime = Runtime::new().expect("a runtime");
    let conn = runtime.block_on(connection(world));
    // A task turns a panic into an error.
    macro_rules! run_all {
        ($($name:literal => $check:ident)*) => {
            0 $(+ report($name, runtime.block_on(async {
                tokio::spawn($check(world.clone(), conn.clone())).await.map_err(|error| error.into_panic())
            })))*
        };
    }
    run_all! {
        "connect" => connect
        "strings" => strings
        "hashes" => hashes
        "lists-sets-zsets" => lists_sets_zsets
        "counters-expiry" => counters_expiry
        "pipeline" => pipeline
        "multi-key" => multi_key
        "scan" => scan
        "scripts" => scripts
        "big-values" => big_values
        "errors" => errors
        "async" => many_tasks
        "cluster" => cluster
        "transactions" => transactions
        "blocking" => waiting
        "pubsub" => pubsub
        "databases" => databases
        "reconnect" => reconnect
    }
}

/// By default the library stops waiting after half a second, which is too short for a machine that runs other tests.
async fn connection(world: &World) -> Conn {
    let config = ConnectionManagerConfig::new()
        .set_response_timeout(Some(PATIENCE))
        .set_connection_timeout(Some(PATIENCE));
    world.client.get_connection_manager_with_config(config).await.expect("a connection")
}

async fn connect(world: World, mut conn: Conn) {
    assert_eq!(redis::cmd("PING").query_async(&mut conn).await, Ok("PONG".to_owned()));
    // With the library's own timeouts, this once.
    let mut other = world.client.get_multiplexed_async_connection().await.expect("a connection");
    assert_eq!(redis::cmd("ECHO").arg("hello").query_async(&mut other).await, Ok("hello".to_owned()));
}

async fn strings(_: World, mut conn: Conn) {
    let binary = b"\0\r\n\xff$5\r\n*1\r\n".to_vec();
    assert_eq!(conn.set("string:binary", &binary).await, Ok(()));
    assert_eq!(conn.get("string:binary").await, Ok(binary));
    assert_eq!(conn.set("string:empty", "").await, Ok(()));
    assert_eq!(conn.get("string:empty").await, Ok(Some(String::new())));
    assert_eq!(conn.get("string:no").await, Ok(None::<String>));
    assert_eq!(conn.set_nx("string:empty", "x").await, Ok(false));
    assert_eq!(conn.set_nx("string:new", "Grüße").await, Ok(true));
    assert_eq!(conn.append("string:new", "!!").await, Ok(9));
    assert_eq!(conn.getrange("string:new", 0, 6).await, Ok("Grüße".to_owned()));
    assert_eq!(conn.setrange("string:new", 7, "??").await, Ok(9));
    assert_eq!(conn.strlen("string:new").await, Ok(9));
    assert_eq!(conn.getset("string:new", "x").await, Ok("Grüße??".to_owned()));
    assert_eq!(conn.get_del("string:new").await, Ok("x".to_owned()));
    assert_eq!(conn.key_type("string:empty").await, Ok("string".to_owned()));
}

async fn hashes(_: World, mut conn: Conn) {
    assert_eq!(conn.hset_multiple("hash", &[("a", "1"), ("b", "two")]).await, Ok(()));
    let whole = HashMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "two".to_owned())]);
    assert_eq!(conn.hgetall("hash").await, Ok(whole));
    assert_eq!(conn.hgetall("hash:no").await, Ok(HashMap::<String, String>::new()));
    let fields = ["b", "no", "a"];
    assert_eq!(
        conn.hmget("hash", &fields).await,
        Ok(vec![Some("two".to_owned()), None, Some("1".to_owned())])
    );
    assert_eq!(conn.hincr("hash", "a", 7).await, Ok(8));
    assert_eq!(conn.hincr("hash", "a", 0.5).await, Ok(8.5));
    assert_eq!(conn.hset_nx("hash", "a", "x").await, Ok(false));
    assert_eq!(conn.hexists("hash", "b").await, Ok(true));
    assert_eq!(conn.hdel("hash", &["b", "no"]).await, Ok(1));
    assert_eq!(conn.hkeys("hash").await, Ok(vec!["a".to_owned()]));
    assert_eq!(conn.hlen("hash").await, Ok(1));
}

async fn lists_sets_zsets(_: World, mut conn: Conn) {
    assert_eq!(conn.rpush("list", &["a", "b", "c", "d"]).await, Ok(4));
    assert_eq!(conn.lrange("list", 0, -1).await, Ok(["a", "b", "c", "d"].map(str::to_owned).to_vec()));
    assert_eq!(conn.lpop("list", None).await, Ok("a".to_owned()));
    assert_eq!(conn.rpop("list", 2.try_into().ok()).await, Ok(["d", "c"].map(str::to_owned).to_vec()));
    assert_eq!(conn.linsert_before("list", "b", "x").await, Ok(2));
    assert_eq!(conn.lindex("list", 0).await, Ok("x".to_owned()));

    assert_eq!(conn.sadd("set:{t}", &[1, 2, 3]).await, Ok(3));
    assert_eq!(conn.sadd("other:{t}", &[3, 4]).await, Ok(2));
    assert_eq!(conn.sinter(&["set:{t}", "other:{t}"]).await, Ok(vec![3]));
    assert_eq!(conn.sunionstore("both:{t}", &["set:{t}", "other:{t}"]).await, Ok(4));
    assert_eq!(conn.sismember("both:{t}", 4).await, Ok(true));
    assert_eq!(conn.srem("both:{t}", &[4, 5]).await, Ok(1));
    assert_eq!(conn.smembers("both:{t}").await, Ok(std::collections::BTreeSet::from([1, 2, 3])));

    assert_eq!(conn.zadd_multiple("zset", &[(1.5, "a"), (-2.0, "b"), (1e20, "c")]).await, Ok(3));
    let in_order = [("b", -2.0), ("a", 1.5), ("c", 1e20)].map(|(member, score)| (member.to_owned(), score));
    assert_eq!(conn.zrange_withscores("zset", 0, -1).await, Ok(in_order.to_vec()));
    assert_eq!(conn.zincr("zset", "a", 2.5).await, Ok(4.0));
    assert_eq!(conn.zscore("zset", "a").await, Ok(4.0));
    assert_eq!(conn.zrank("zset", "a").await, Ok(1));
    assert_eq!(conn.zrangebyscore_limit("zset", "(-2", "+inf", 0, 1).await, Ok(vec!["a".to_owned()]));
    assert_eq!(conn.zpopmin("zset", 1).await, Ok(vec![("b".to_owned(), -2.0)]));
}

async fn counters_expiry(_: World, mut conn: Conn) {
    assert_eq!(conn.incr("counter", 1).await, Ok(1));
    assert_eq!(conn.incr("counter", (1_i64 << 53) + 1).await, Ok((1_i64 << 53) + 2));
    assert_eq!(conn.decr("counter", (1_i64 << 53) + 10).await, Ok(-8));
    assert_eq!(conn.incr("counter", 0.25).await, Ok(-7.75));
    assert_eq!(conn.ttl("counter").await, Ok(-1));
    assert_eq!(conn.ttl("counter:no").await, Ok(-2));
    assert_eq!(conn.expire("counter", 100).await, Ok(true));
    let left: i64 = conn.pttl("counter").await.expect("PTTL");
    assert!((1..=100_000).contains(&left), "{left}");
    assert_eq!(conn.persist("counter").await, Ok(true));
    assert_eq!(conn.set_ex("counter", 1, 100).await, Ok(()));
    assert_eq!(conn.ttl("counter").await, Ok(100));
    assert_eq!(conn.pset_ex("counter", 1, 30).await, Ok(()));
    let start = Instant::now();
    while conn.exists("counter").await == Ok(true) && start.elapsed() < PATIENCE {}
    assert_eq!(conn.get("counter").await, Ok(None::<String>));
}

/// Sends a pipeline for all shards; then the same with an error in the middle.
async fn pipeline(_: World, mut conn: Conn) {
    let mut pipe = redis::pipe();
    for n in 0..500 {
        pipe.set(format!("pipe:{n}"), n).ignore().get(format!("pipe:{n}"));
    }
    assert_eq!(pipe.query_async(&mut conn).await, Ok((0..500).collect::<Vec<i64>>()));
    let mut pipe = redis::pipe();
    pipe.set("pipe:0", "first").lpush("pipe:0", "wrong").set("pipe:1", "last");
    assert_refused(pipe.query_async::<()>(&mut conn).await, "WRONGTYPE");
    // The commands before and after the error were done, and no reply is left over.
    assert_eq!(conn.mget(&["pipe:0", "pipe:1"]).await, Ok(["first", "last"].map(str::to_owned).to_vec()));
}

async fn multi_key(_: World, mut conn: Conn) {
    let pairs: Vec<(String, String)> =
        (0..100).map(|n| (format!("multi:{n}"), format!("value {n}"))).collect();
    let mut keys: Vec<String> = pairs.iter().map(|(key, _)| key.clone()).collect();
    keys.push("multi:no".to_owned());
    let values = pairs.iter().map(|(_, value)| Some(value.clone())).chain([None]);
    assert_eq!(conn.mset(&pairs).await, Ok(()));
    assert_eq!(conn.mget(&keys).await, Ok(values.collect::<Vec<_>>()));
    for (key, value) in &pairs {
        assert_eq!(conn.get(key).await, Ok(value.clone()));
    }
    assert_eq!(conn.exists(&keys).await, Ok(100));
    assert_eq!(conn.unlink(&keys[..50]).await, Ok(50));
    assert_eq!(conn.del(&keys).await, Ok(50));
    assert_eq!(conn.exists(&keys).await, Ok(0));
}

async fn scan(_: World, mut conn: Conn) {
    let mut pipe = redis::pipe();
    for n in 0..1000 {
        pipe.set(format!("scan:{n}"), n).ignore();
        pipe.hset("scanned:hash", format!("member:{n}"), n).ignore();
        pipe.sadd("scanned:set", format!("member:{n}")).ignore();
        pipe.zadd("scanned:zset", format!("member:{n}"), n).ignore();
    }
    assert_eq!(pipe.query_async(&mut conn).await, Ok(()));
    let keys = conn.scan_match::<_, String>("scan:*").await.expect("SCAN");
    assert_once(all(keys).await, "scan:");
    let options = redis::ScanOptions::default().with_pattern("scan:*").with_count(300);
    let keys = conn.scan_options::<String>(options).await.expect("SCAN COUNT");
    assert_once(all(keys).await, "scan:");
    let fields = conn.hscan::<_, (String, i64)>("scanned:hash").await.expect("HSCAN");
    assert_once(all(fields).await.into_iter().map(|(name, _)| name), "member:");
    let members = conn.sscan::<_, String>("scanned:set").await.expect("SSCAN");
    assert_once(all(members).await, "member:");
    let members = conn.zscan::<_, (String, f64)>("scanned:zset").await.expect("ZSCAN");
    assert_once(all(members).await.into_iter().map(|(name, _)| name), "member:");
}

/// All items of the library's iterator.
async fn all<T: redis::FromRedisValue + Unpin + Send>(mut items: redis::AsyncIter<'_, T>) -> Vec<T> {
    let mut found = Vec::new();
    while let Some(item) = items.next_item().await {
        found.push(item.expect("an item"));
    }
    found
}

async fn scripts(world: World, mut conn: Conn) {
    const SOURCE: &str = "return {KEYS[1], redis.call('incrby', KEYS[1], ARGV[1])}";
    let script = Script::new("return redis.call('incrby', KEYS[1], ARGV[1]) * 2");
    let eval = redis::cmd("EVAL").arg(SOURCE).arg(1).arg("script:1").arg(5).query_async(&mut conn).await;
    assert_eq!(eval, Ok(("script:1".to_owned(), 5)));
    let digest: String =
        redis::cmd("SCRIPT").arg("LOAD").arg(SOURCE).query_async(&mut conn).await.expect("SCRIPT LOAD");
    // Enough keys that every shard runs it: it must have been loaded into all.
    for n in 0..40 {
        let key = format!("script:sha:{n}");
        let reply = redis::cmd("EVALSHA").arg(&digest).arg(1).arg(&key).arg(7).query_async(&mut conn).await;
        assert_eq!(reply, Ok((key, 7)));
    }
    for n in 0..40 {
        // Tries EVALSHA, loads the script where the shard does not have it, and tries again.
        let key = format!("script:object:{n}");
        assert_eq!(script.key(&key).arg(3).invoke_async(&mut conn).await, Ok(6));
        assert_eq!(script.key(&key).arg(3).invoke_async(&mut conn).await, Ok(12));
    }
}

async fn big_values(_: World, mut conn: Conn) {
    for len in [1 << 20, 20 << 20] {
        let value = big_value(len);
        assert_eq!(conn.set("big", &value).await, Ok(()));
        let stored: Vec<u8> = conn.get("big").await.expect("GET");
        // Not assert_eq: it would print both.
        assert!(stored == value, "{len} bytes came back as {} others", stored.len());
    }
    assert_eq!(conn.del("big").await, Ok(1));
}

async fn errors(_: World, mut conn: Conn) {
    assert_eq!(conn.set("errors", "x").await, Ok(()));
    let error = conn.lpush::<_, _, i64>("errors", "x").await.expect_err("a string is no list");
    assert_eq!((error.code(), error.is_connection_dropped()), (Some("WRONGTYPE"), false), "{error}");
    assert_eq!(conn.get("errors").await, Ok("x".to_owned()));
    let error = conn.incr::<_, _, i64>("errors", 1).await.expect_err("x is no number");
    assert_eq!(error.kind(), ErrorKind::Server(ServerErrorKind::ResponseError), "{error}");
    assert_refused(conn.incr::<_, _, i64>("errors", 1).await, "value is not an integer");
    assert_refused(redis::cmd("NOSUCH").arg("x").query_async::<()>(&mut conn).await, "unknown command");
    assert_refused(redis::cmd("GET").query_async::<()>(&mut conn).await, "wrong number of arguments");
    assert_eq!(conn.get("errors").await, Ok("x".to_owned()));
}

/// Fifty tasks over one connection, whose requests and replies are interleaved.
async fn many_tasks(_: World, conn: Conn) {
    let tasks: Vec<_> = (0..50).map(|task| tokio::spawn(hundred_requests(task, conn.clone()))).collect();
    for task in tasks {
        task.await.expect("no task panics");
    }
}

async fn hundred_requests(task: usize, mut conn: Conn) {
    for n in 0..50 {
        let (key, value) = (format!("task:{task}:{n}"), format!("{n} of {task}"));
        assert_eq!(conn.set(&key, &value).await, Ok(()));
        assert_eq!(conn.get(&key).await, Ok(value));
    }
}

/// Treats the port as one node of a Redis Cluster, as programs do that are configured for one.
async fn cluster(world: World, _: Conn) {
    let mut conn = world.cluster().get_async_connection().await.expect("a connection");
    for n in 0..100 {
        assert_eq!(conn.set(format!("cluster:{n}"), n).await, Ok(()));
        assert_eq!(conn.get(format!("cluster:{n}")).await, Ok(n));
    }
    // The library refuses a pipeline of more than one slot.
    let mut pipe = redis::pipe();
    for n in 0..100 {
        pipe.set(format!("{n}:{{cluster}}"), n).ignore().get(format!("{n}:{{cluster}}"));
    }
    assert_eq!(pipe.query_async(&mut conn).await, Ok((0..100).collect::<Vec<i64>>()));
    assert_eq!(conn.mset(&[("a:{cluster}", 1), ("b:{cluster}", 2)]).await, Ok(()));
    assert_eq!(conn.mget(&["b:{cluster}", "a:{cluster}"]).await, Ok(vec![2, 1]));
}

/// Atomic pipelines are in one piece between the requests of other tasks. WATCH needs a connection of its own.
async fn transactions(world: World, mut conn: Conn) {
    let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(atomic_increments(conn.clone()))).collect();
    for task in tasks {
        task.await.expect("no task panics");
    }
    assert_eq!(conn.get("tx:count{t}").await, Ok(200));

    let watching =
        world.client.get_multiplexed_async_connection_with_config(&patient()).await.expect("a connection");
    let attempts = std::sync::atomic::AtomicUsize::new(0);
    let doubled: redis::RedisResult<(i64,)> =
        redis::aio::transaction_async(watching, &["tx:count{t}"], |mut watching, mut pipe| {
            let is_first = attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
            let mut other = conn.clone();
            async move {
                let value: i64 = watching.get("tx:count{t}").await?;
                if is_first {
                    other.set::<_, _, ()>("tx:count{t}", 10).await?;
                }
                pipe.set("tx:count{t}", value * 2).ignore().get("tx:count{t}");
                pipe.query_async(&mut watching).await
            }
        })
        .await;
    assert_eq!((doubled, attempts.into_inner()), (Ok((20,)), 2));

    // Keys of several shards make no transaction, and none of its commands runs.
    let keys: Vec<String> = (0..20).map(|n| format!("tx:apart:{n}")).collect();
    let mut apart = redis::pipe();
    apart.atomic();
    for key in &keys {
        apart.set(key, "x");
    }
    assert_refused(apart.query_async::<()>(&mut conn).await, "same slot");
    assert_eq!(conn.exists(&keys).await, Ok(0));
}

async fn atomic_increments(mut conn: Conn) {
    for _ in 0..10 {
        let mut atomic = redis::pipe();
        atomic.atomic().get("tx:count{t}").incr("tx:count{t}", 1);
        let (before, after): (Option<i64>, i64) = atomic.query_async(&mut conn).await.expect("EXEC");
        assert_eq!(before.unwrap_or(0) + 1, after);
    }
}

/// The library's settings for connections of a check, with more patience than by default.
fn patient() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE)).set_connection_timeout(Some(PATIENCE))
}

/// One connection waits for an element that another pushes.
async fn waiting(world: World, mut conn: Conn) {
    let mut waiting =
        world.client.get_multiplexed_async_connection_with_config(&patient()).await.expect("a connection");
    let popped = tokio::spawn(async move { waiting.blpop(&["blocking:a{t}", "blocking:b{t}"], 20.0).await });
    let start = Instant::now();
    loop {
        let list: String =
            redis::cmd("CLIENT").arg("LIST").query_async(&mut conn).await.expect("CLIENT LIST");
        if list.contains(" flags=b ") {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "nobody waits");
    }
    assert_eq!(conn.rpush("blocking:b{t}", &["x", "y"]).await, Ok(2));
    let expected = ["blocking:b{t}", "x"].map(str::to_owned);
    assert_eq!(popped.await.expect("no task panics"), Ok(Some(expected)));
    assert_eq!(conn.brpop("blocking:none", 0.01).await, Ok(None::<[String; 2]>));
}

/// With RESP3, messages are pushed to a connection that does other things meanwhile.
async fn pubsub(world: World, mut conn: Conn) {
    let (sender, mut pushed) = tokio::sync::mpsc::unbounded_channel();
    let mut subscriber = world
        .with_resp3()
        .get_multiplexed_async_connection_with_config(&patient().set_push_sender(sender))
        .await
        .expect("a connection");
    assert_eq!(subscriber.subscribe(&["news:a", "news:b"]).await, Ok(()));
    assert_eq!(subscriber.psubscribe("news:*").await, Ok(()));
    // The library waits for none of the confirmations.
    let confirmed = [pushed.recv().await, pushed.recv().await, pushed.recv().await];
    let kinds = confirmed.map(|push| push.expect("the connection is open").kind);
    assert_eq!(kinds, [PushKind::Subscribe, PushKind::Subscribe, PushKind::PSubscribe]);
    assert_eq!(conn.publish("news:a", "x").await, Ok(2));
    for n in 0..100 {
        assert_eq!(subscriber.publish("news:b", n).await, Ok(2));
    }
    let mut told: Vec<String> = Vec::new();
    while told.len() < 202 {
        let push = pushed.recv().await.expect("the connection is open");
        assert!(matches!(push.kind, PushKind::Message | PushKind::PMessage), "{push:?}");
        let words: Vec<String> = redis::from_redis_value(redis::Value::Array(push.data)).expect("text");
        told.push(words.join(" "));
    }
    let of_b: Vec<String> = told.iter().filter(|words| words.starts_with("news:b ")).cloned().collect();
    assert_eq!(of_b, (0..100).map(|n| format!("news:b {n}")).collect::<Vec<_>>());
    assert!(
        told.contains(&"news:a x".to_owned()) && told.contains(&"news:* news:a x".to_owned()),
        "{told:?}"
    );
    assert_eq!(subscriber.unsubscribe(&["news:a", "news:b"]).await, Ok(()));
    assert_eq!(subscriber.punsubscribe("news:*").await, Ok(()));
    let confirmed = [pushed.recv().await, pushed.recv().await, pushed.recv().await];
    let kinds = confirmed.map(|push| push.expect("the connection is open").kind);
    assert_eq!(kinds, [PushKind::Unsubscribe, PushKind::Unsubscribe, PushKind::PUnsubscribe]);
    assert_eq!(conn.publish("news:a", "y").await, Ok(0));
}

async fn databases(world: World, mut conn: Conn) {
    assert_eq!(conn.set("database", "zero").await, Ok(()));
    let mut other =
        world.client.get_multiplexed_async_connection_with_config(&patient()).await.expect("a connection");
    assert_eq!(redis::cmd("SELECT").arg(1).query_async(&mut other).await, Ok(()));
    assert_eq!(other.get("database").await, Ok(None::<String>));
    assert_eq!(other.set("database", "one").await, Ok(()));
    assert_eq!(conn.get("database").await, Ok("zero".to_owned()));
    let refused = redis::cmd("SELECT").arg(99).query_async::<()>(&mut other).await;
    assert_refused(refused, "DB index is out of range");
}

/// The connection fails requests while no process listens, and reconnects by itself.
async fn reconnect(_: World, mut conn: Conn) {
    tokio::task::spawn_blocking(wait_for_restart).await.expect("stdin says so");
    let start = Instant::now();
    let mut retried = conn.set("reconnect", "again").await;
    while retried != Ok(()) {
        let waited = start.elapsed();
        assert!(waited < Duration::from_secs(10), "no answer {waited:?} after the restart: {retried:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
        retried = conn.set("reconnect", "again").await;
    }
    for _ in 0..100 {
        assert_eq!(conn.get("reconnect").await, Ok("again".to_owned()));
    }
}
