//! Sessions on shared links: two tenants in databases of their own, and RESP3 beside RESP2, each as of one Redis.

use crate::harness::oracle::Oracle;
use crate::harness::{Client, RedisServer, World, poll_until, show};
use resp::reply::{as_bulk, elements};

/// Requests whose replies the proxy makes or merges, and requests whose replies nodes make, of each type. Both sides hold the
/// same keys before.
const LINES: &[&str] = &[
    "GET nosuch",
    "GET str",
    "MGET str nosuch num",
    "HGETALL hash",
    "HGETALL nosuch",
    "HGET hash nosuch",
    "HMGET hash a nosuch",
    "HRANDFIELD nosuch",
    "HRANDFIELD hash 1 WITHVALUES",
    "CONFIG GET nosuch",
    "SMEMBERS set",
    "SMEMBERS nosuch",
    "SPOP nosuch",
    "SINTER set set",
    "SISMEMBER set a",
    "SMISMEMBER set a b",
    "ZSCORE zset a",
    "ZSCORE zset nosuch",
    "ZADD zset INCR 0.25 a",
    "ZINCRBY zset 1 b",
    "ZRANGE zset 0 -1 WITHSCORES",
    "ZRANGEBYSCORE zset -inf +inf WITHSCORES",
    "ZPOPMIN nosuch",
    "ZMSCORE zset a nosuch",
    "ZRANK zset nosuch",
    "ZDIFF 1 zset WITHSCORES",
    "GEOADD geo 13.361389 38.115556 Palermo",
    "GEODIST geo Palermo nosuch",
    "GEOPOS geo Palermo nosuch",
    "GEOSEARCH geo FROMLONLAT 13 38 BYRADIUS 200 km ASC WITHCOORD WITHDIST",
    "INCRBYFLOAT float 0.5",
    "LPOP nosuch",
    "LPOP nosuch 2",
    "LRANGE list 0 -1",
    "LPOS list nosuch",
    "LCS str str IDX",
    "XADD stream 1-1 a b",
    "XRANGE stream - +",
    "XREAD STREAMS stream 0",
    "XREAD STREAMS nosuch 0",
    "XINFO STREAM stream",
    "XGROUP CREATE stream g 0",
    "XINFO GROUPS stream",
    "XREADGROUP GROUP g c STREAMS stream >",
    "XPENDING stream g",
    "XAUTOCLAIM stream g c 0 0",
    "OBJECT ENCODING str",
    "OBJECT ENCODING nosuch",
    "OBJECT HELP",
    "DUMP nosuch",
    "TYPE str",
    "TTL str",
    "EXISTS str nosuch",
    "DEL nosuch",
    "SCRIPT EXISTS 0000000000000000000000000000000000000000",
    "EVAL return{1,2,{3,false}} 0",
    "EVAL return{double=3.5} 0",
    "EVAL return{map={a=1}} 0",
    "EVAL return{set={a=true}} 0",
    "EVAL return{big_number='123456789012345678901234567890'} 0",
    "EVAL return{verbatim_string={string='hi',format='txt'}} 0",
    "EVAL return(false) 0",
    "EVAL redis.setresp(3);return(redis.call('hgetall',KEYS[1])) 1 hash",
    "FUNCTION LIST",
    "FUNCTION STATS",
    "SLOWLOG LEN",
    "LATENCY LATEST",
    "LATENCY HISTORY command",
    "LATENCY DOCTOR",
    "MEMORY USAGE nosuch",
    "COMMAND INFO nosuch",
    "COMMAND GETKEYS GET x",
    "COMMAND GETKEYSANDFLAGS GET x",
    "COMMAND DOCS get",
    "CLIENT GETNAME",
    "CLIENT SETNAME me",
    "CLIENT GETNAME",
    "CLIENT TRACKINGINFO",
    "CLIENT GETREDIR",
    "CLIENT NO-EVICT off",
    "LOLWUT",
    "ROLE",
    "PING",
    "PING hi",
    "ECHO hi",
    "ACL WHOAMI",
    "ACL USERS",
    "ACL GETUSER default",
    "ACL GETUSER nosuch",
    "ACL LOG",
    "ACL CAT nosuch",
    "WAIT 0 0",
    "SUBSTR str 0 1",
    "LMPOP 1 nosuch LEFT",
    "ZMPOP 1 zset MIN",
    "SET str v GET",
    "SET str v NX",
    "GETDEL nosuch",
    "SORT list ALPHA",
    "BITFIELD num GET u8 0 OVERFLOW FAIL INCRBY u8 0 300",
    "PFCOUNT nosuch",
    "PUBSUB CHANNELS",
    "PUBSUB NUMSUB a",
    "PUBSUB NUMPAT",
    "PUBSUB SHARDNUMSUB a",
    "MULTI",
    "HGETALL hash",
    "HGET hash nosuch",
    "EXEC",
    "MULTI",
    "EXEC",
    "BLPOP nosuch 0.01",
    "BLMPOP 0.01 1 nosuch LEFT",
    "BZPOPMIN nosuch 0.01",
    "BZPOPMIN zset 1",
    "XREAD BLOCK 10 STREAMS nosuch $",
    "SELECT 16",
    "HELLO 4",
    "HELLO 3 NOSUCH",
    "HELLO 3 AUTH default",
    "HELLO 3 AUTH nosuch x",
    "AUTH nosuch x",
    // From here on clients of RESP2 may do little else.
    "SUBSCRIBE c",
    "PING",
    "PING hi",
    "GET str",
    "PSUBSCRIBE p*",
    "UNSUBSCRIBE c",
    "PUNSUBSCRIBE",
    "GET str",
    "RESET",
    "GET nosuch",
];

/// Keys that both sides hold before.
const FILLED: &[&str] = &[
    "SET str value",
    "SET num 17",
    "HSET hash a 1",
    "SADD set a",
    "ZADD zset 1.5 a 2 b 3 c",
    "RPUSH list c",
];

/// Requests whose replies have the same shape on both sides, with numbers and texts of each server's own.
const OF_ITS_OWN: &[&str] = &[
    "INFO",
    "INFO SERVER",
    "CLIENT LIST",
    "CLIENT INFO",
    "MEMORY STATS",
    "MEMORY DOCTOR",
    "LATENCY HISTOGRAM get",
    "HELLO",
    "TIME",
    "SLOWLOG GET",
    "COMMAND",
    "COMMAND COUNT",
    "RANDOMKEY",
    "ZRANDMEMBER zset -1 WITHSCORES",
    "SCAN 0 COUNT 1000",
    "KEYS *",
    "CONFIG GET save",
    "ACL LOG",
];

#[test]
fn every_family_of_commands_has_redis_replies_in_both_protocols() {
    for protocol in ["HELLO 2", "HELLO 3"] {
        let (node, world) = (Oracle::start(), World::with_shards(4));
        let (mut oracle, mut subject) = (node.connect(), world.connect());
        for line in FILLED {
            let (expected, got) = (oracle.ask(line), subject.ask(line));
            assert!(expected.contains(&got), "{line}: {got}, redis: {expected:?}");
        }
        oracle.ask(protocol);
        subject.ask(protocol);
        let mut different = Vec::new();
        for line in LINES {
            let (expected, got) = (oracle.ask(line), subject.ask(line));
            if !expected.contains(&got) {
                different.push(format!("{line}\n  redis:   {expected:?}\n  shardis: {got}"));
            }
        }
        assert!(different.is_empty(), "behind {protocol}:\n{}", different.join("\n"));
        for line in OF_ITS_OWN {
            let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            let (expected, got) = (oracle.command(&words), subject.command(&words));
            let is_of_kind = expected.iter().any(|reply| kind(reply) == kind(&got));
            assert!(is_of_kind, "{line} behind {protocol}: {}", show(&got));
        }
    }
}

/// The type of a reply, and that of its first element.
fn kind(reply: &[u8]) -> (char, Option<char>) {
    let first = |bytes: &[u8]| bytes.first().map(|&byte| char::from(byte));
    let element = elements(reply).and_then(|mut elements| first(elements.next()?));
    (first(reply).expect("a reply has a type"), element)
}

#[test]
fn clients_of_both_protocols_share_nodes_and_get_their_own() {
    let world = World::with_shards(2);
    let [mut two, mut three] = [world.connect(), world.connect()];
    three.ask("HELLO 3");
    two.ask("HSET h a 1");
    for _ in 0..20 {
        two.send(b"HGETALL h\r\nGET nosuch\r\nMGET nosuch h2\r\n");
        three.send(b"HGETALL h\r\nGET nosuch\r\nMGET nosuch h2\r\n");
        let replies = |client: &mut Client| (0..3).flat_map(|_| client.read_reply()).collect::<Vec<u8>>();
        assert_eq!(replies(&mut three), b"%1\r\n$1\r\na\r\n$1\r\n1\r\n_\r\n*2\r\n_\r\n_\r\n");
        assert_eq!(replies(&mut two), b"*2\r\n$1\r\na\r\n$1\r\n1\r\n$-1\r\n*2\r\n$-1\r\n$-1\r\n");
    }
}

#[test]
fn tenants_in_databases_of_their_own_see_nothing_of_each_other() {
    let world = World::with_shards(2);
    let databases = [0, 1, 2, 15];
    let mut tenants: Vec<Client> = databases.iter().map(|_| world.connect()).collect();
    for (tenant, database) in tenants.iter_mut().zip(databases) {
        assert_eq!(tenant.ask(&format!("SELECT {database}")), r"+OK\r\n");
    }
    for round in 0..50 {
        for (tenant, database) in tenants.iter_mut().zip(databases) {
            let key = format!("k{round}");
            tenant.send(format!("SET {key} {database}\r\nINCR n\r\nGET {key}\r\n").as_bytes());
        }
        for (tenant, database) in tenants.iter_mut().zip(databases) {
            let replies: Vec<String> =
                (0..3).map(|_| String::from_utf8_lossy(&tenant.read_reply()).into_owned()).collect();
            let (count, value) = (format!(":{}\r\n", round + 1), database.to_string());
            assert_eq!(replies, ["+OK\r\n", &count, &format!("${}\r\n{value}\r\n", value.len())]);
        }
    }
    for tenant in &mut tenants {
        assert_eq!(tenant.ask("DBSIZE"), r":51\r\n");
    }
    let info = tenants[0].ask("INFO keyspace");
    for database in databases {
        assert!(info.contains(&format!("db{database}:keys=51,expires=0,avg_ttl=0")), "{info}");
    }
    assert_eq!(tenants[1].ask("FLUSHDB"), r"+OK\r\n");
    let sizes: Vec<String> = tenants.iter_mut().map(|tenant| tenant.ask("DBSIZE")).collect();
    assert_eq!(sizes, [r":51\r\n", r":0\r\n", r":51\r\n", r":51\r\n"]);
}

#[test]
fn one_client_in_many_databases_keeps_the_order_of_its_requests() {
    let (node, world) = (RedisServer::reference(), World::with_shards(3));
    let (mut oracle, mut subject) = (node.connect(), world.connect());
    let mut pipeline = String::new();
    for round in 0..200 {
        let (database, key) = (round * 7 % 5, round % 3);
        pipeline.push_str(&format!(
            "SELECT {database}\r\nAPPEND k{key} {round},\r\nMOVE k{key} 5\r\nGET k{key}\r\n"
        ));
    }
    pipeline.push_str("SELECT 5\r\nMGET k0 k1 k2\r\n");
    for client in [&mut oracle, &mut subject] {
        client.send(pipeline.as_bytes());
    }
    for number in 0..802 {
        let (expected, got) = (oracle.read_reply(), subject.read_reply());
        assert_eq!(show(&got), show(&expected), "reply {number}");
    }
}

#[test]
fn unused_database_links_are_closed() {
    let world = World::with_shards(2);
    let mut clients: Vec<Client> = (0..20).map(|_| world.connect()).collect();
    for client in &mut clients {
        client.ask("SELECT 3");
        client.ask("MGET a b c d e f");
    }
    let connections = || {
        let mut node = world.nodes[0].connect();
        let list = node.command(&[b"CLIENT", b"LIST"]);
        let text = String::from_utf8_lossy(as_bulk(&list).expect("a bulk")).into_owned();
        text.lines().filter(|line| line.contains(" db=3 ")).count()
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let opened = connections();
    assert!((1..=workers).contains(&opened), "{opened} connections for {workers} workers");
    drop(clients);
    poll_until("the end of the lane's connections", || (connections() == 0).then_some(()));
}

#[test]
fn a_node_with_fewer_databases_is_no_reason_to_be_in_another() {
    let nodes = [RedisServer::start_with(&["--databases", "4"])];
    let proxy = crate::harness::Proxy::over(&nodes, &["--databases=6"]);
    let mut client = Client::connect(proxy.port);
    assert_eq!(client.ask("SELECT 6"), r"-ERR DB index is out of range\r\n");
    assert_eq!(client.ask("SELECT 5"), r"+OK\r\n");
    let reply = client.ask("SET a 1");
    assert!(
        reply.starts_with("-TRYAGAIN shard ") && reply.contains("ERR DB index is out of range"),
        "{reply}"
    );
    assert_eq!(client.ask("SELECT 3"), r"+OK\r\n");
    assert_eq!(client.ask("SET a 1"), r"+OK\r\n");
    assert_eq!(client.ask("CONFIG GET databases"), r"*2\r\n$9\r\ndatabases\r\n$1\r\n6\r\n");
}

#[test]
fn large_values_pass_in_every_lane() {
    let world = World::with_shards(2);
    let value = "x".repeat(3_000_000);
    for greeting in ["HELLO 3", "SELECT 2"] {
        let mut client = world.connect();
        client.ask(greeting);
        assert_eq!(client.command(&[b"SET", b"large", value.as_bytes()]), b"+OK\r\n");
        client.send(b"GET large\r\nSELECT 1\r\nGET large\r\n");
        let got = client.read_reply();
        assert_eq!(as_bulk(&got).map(<[u8]>::len), Some(value.len()), "behind {greeting}");
        assert_eq!(client.read_reply(), b"+OK\r\n");
        let nothing: &[u8] = if greeting == "HELLO 3" { b"_\r\n" } else { b"$-1\r\n" };
        assert_eq!(client.read_reply(), nothing);
    }
}
