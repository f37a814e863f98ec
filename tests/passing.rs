//! Users of the nodes, whose AUTH passes through the proxy (`--auth=nodes`): nodes answer through shardis as one Redis with the
//! same users does.

use crate::harness::client::Client;
use crate::harness::server::server;
use crate::harness::{Proxy, RedisServer, World, poll_until, seed_for};
use crate::users::{File, SETUSERS, expect_alike};
use command::Server;
use stdx::Prng;

const AUTH: &str = "--auth=nodes";
const NO_AUTH: &str = r"-NOAUTH Authentication required.\r\n";
const WRONG: &str = r"-WRONGPASS invalid username-password pair or user is disabled.\r\n";

/// `count` nodes that have run `lines`, each of them over one connection.
fn nodes(count: usize, lines: &[&str]) -> Vec<RedisServer> {
    let nodes: Vec<RedisServer> = (0..count).map(|_| RedisServer::start()).collect();
    nodes.iter().for_each(|node| tell(node, lines));
    nodes
}

fn tell(node: &RedisServer, lines: &[&str]) {
    let mut admin = node.connect();
    for line in lines {
        assert_eq!(admin.ask(line), r"+OK\r\n", "{line}");
    }
}

/// `count` nodes that have run `lines`, behind a proxy that passes logins through to them.
fn world(count: usize, lines: &[&str], flags: &[&str]) -> World {
    let nodes = nodes(count, lines);
    let proxy = Proxy::over(&nodes, &[&[AUTH], flags].concat());
    World { nodes, proxy }
}

/// Requests of clients that nodes know. They exclude commands that shardis answers by itself, and split commands of which only
/// a part is allowed.
const CONVERSATIONS: &[&[&str]] = &[
    &[
        "AUTH wrong",
        "AUTH default wrong",
        "AUTH eve x",
        "AUTH ghost ghost",
        "GET wonder:1",
        "AUTH master-key",
        "GET wonder:1",
        "ACL WHOAMI",
        "AUTH eve x",
        "ACL WHOAMI",
    ],
    &[
        "AUTH alice in-wonderland",
        "SET wonder:1 a",
        "MSET wonder:1 a wonder:2 b wonder:3 c wonder:4 d wonder:5 e",
        "MGET wonder:1 wonder:2 wonder:3 wonder:4 wonder:5",
        "MGET wonder:1 wonder:2 shared:1 wonder:4 wonder:5",
        "MGET wonder:1 wonder:2 other wonder:4 wonder:5",
        "GET wonder:1",
        "DEL other",
        "DEL wonder:5",
        "EXISTS wonder:1 shared:1",
        "SET shared:1 x",
        "GETDEL shared:1",
        "CLIENT SETNAME alice",
        "FLUSHALL",
        "KEYS other*",
        "DBSIZE",
        "EVAL return{KEYS[1]} 1 wonder:1",
        "EVAL return{KEYS[1]} 1 shared:1",
        "SORT wonder:x GET #",
        "COPY shared:1{t} wonder:6{t}",
        "OBJECT ENCODING wonder:1",
        "OBJECT ENCODING other",
        "XREAD STREAMS other 0",
        "ZUNIONSTORE wonder:z{t} 1 other{t}",
        "ZUNIONSTORE wonder:z{t} 1 shared:z{t}",
        "GETEX shared:1",
        "TTL shared:1",
        "SELECT 3",
        "SET wonder:1 c",
        "SELECT 0",
        "GET wonder:1",
        "WATCH other",
        "WATCH wonder:1",
        "MULTI",
        "SET wonder:1 b",
        "EXEC",
        "PUBLISH tea x",
        "PUBLISH coffee x",
        "ACL SETUSER eve on",
        "INFO keyspace",
    ],
    &[
        "AUTH bob builder",
        "SET shared:1 2",
        "GET shared:1",
        "GET wonder:open",
        "SET wonder:open 1",
        "MGET wonder:open",
        "GET wonder:1",
        "DEL shared:1",
        "LPUSH shared:l a",
        "BLPOP shared:l 1",
        "ACL LIST",
        "AUTH nobody whatever",
        "GET shared:1",
        "AUTH bob builder",
        "GET shared:1",
    ],
    &[
        "AUTH master-key",
        "ACL USERS",
        "ACL LIST",
        "ACL DRYRUN bob get wonder:1",
        "ACL DRYRUN bob get shared:1",
        "ACL SETUSER carol on +nosuch",
        "ACL SETUSER carol on >c +get ~c",
        "AUTH carol c",
        "GET c",
        "GET d",
        "AUTH master-key",
        "ACL SETUSER carol -get",
        "AUTH carol c",
        "GET c",
        "AUTH master-key",
        "ACL DELUSER default",
        "ACL DELUSER carol eve",
        "ACL USERS",
    ],
];

#[test]
fn users_of_the_nodes_are_answered_as_by_one_redis() {
    let oracle = nodes(1, SETUSERS);
    let world = world(4, SETUSERS, &["--workers=2"]);
    // Until a worker knows from a node whether a login is required, it lets every client send PING.
    poll_until("all workers to know", || {
        let mut clients: Vec<Client> = (0..4).map(|_| world.connect()).collect();
        clients.iter_mut().all(|client| client.ask("PING") == NO_AUTH).then_some(())
    });
    expect_alike(&oracle[0], &world, CONVERSATIONS);
    for secret in ["master-key", "builder", "in-wonderland"] {
        assert!(!world.proxy.output().contains(secret), "{}", world.proxy.output());
    }
}

/// Users with nothing in common but the nodes, which require a password of every client.
const TENANTS: &[&str] = &[
    "ACL SETUSER alice on >a ~alice:* +@all -@dangerous",
    "ACL SETUSER bob on >b ~bob:* +@all -@dangerous",
    "ACL SETUSER default resetpass >master-key",
];

#[test]
fn two_tenants_never_meet() {
    const ROUNDS: u64 = 1500;
    let seed = seed_for("two_tenants_never_meet");
    let world = world(3, TENANTS, &["--workers=2", "--cross-shard=emulate"]);
    // In the words of the nodes.
    let denied = match server() {
        Server::Redis(..=7, 0) => {
            "-NOPERM this user has no permissions to access one of the keys used as arguments"
        }
        _ => "-NOPERM No permissions to access a key",
    };
    std::thread::scope(|scope| {
        for number in 0..6 {
            let mut client = world.connect();
            scope.spawn(move || {
                let mut prng = Prng::new(seed + number);
                let (mut own, mut other) = ("alice", "bob");
                assert_eq!(client.ask("AUTH alice a"), r"+OK\r\n");
                for round in 0..ROUNDS {
                    let at = prng.below(20);
                    let value = format!("{own}-{number}-{round}");
                    let key = format!("{own}:{number}:{at}");
                    let foreign = format!("{other}:{number}:{at}");
                    match prng.below(10) {
                        0 => {
                            std::mem::swap(&mut own, &mut other);
                            let login = format!("AUTH {own} {}", &own[..1]);
                            assert_eq!(client.ask(&login), r"+OK\r\n");
                        }
                        1 => assert_eq!(client.ask(&format!("AUTH {other} wrong")), WRONG),
                        2 => {
                            assert_eq!(client.ask("RESET"), r"+RESET\r\n");
                            assert_eq!(client.ask(&format!("GET {key}")), NO_AUTH);
                            let login = format!("AUTH {own} {}", &own[..1]);
                            assert_eq!(client.ask(&login), r"+OK\r\n");
                        }
                        3 => assert!(client.ask(&format!("GET {foreign}")).starts_with(denied)),
                        4 => {
                            let ask = format!("MGET {key} {foreign} {key}x {key}y");
                            assert!(client.ask(&ask).starts_with(denied));
                        }
                        5 => assert!(client.ask(&format!("BLPOP {foreign} 1")).starts_with(denied)),
                        6 => assert!(client.ask(&format!("WATCH {foreign}")).starts_with(denied)),
                        7 => {
                            let asks = ["MULTI", &format!("SET {key} {value}"), "EXEC"];
                            let replies = asks.map(|ask| client.ask(ask));
                            assert_eq!(replies, [r"+OK\r\n", r"+QUEUED\r\n", r"*1\r\n+OK\r\n"]);
                        }
                        _ => {
                            assert_eq!(client.ask(&format!("SET {key} {value}")), r"+OK\r\n");
                            let got = format!(r"${}\r\n{value}\r\n", value.len());
                            assert_eq!(client.ask(&format!("GET {key}")), got);
                        }
                    }
                }
            });
        }
    });
    for node in &world.nodes {
        let mut admin = node.connect();
        assert_eq!(admin.ask("AUTH master-key"), r"+OK\r\n");
        // All values that a client has written carry its own name.
        let keys = admin.command(&[b"KEYS", b"*"]);
        for key in resp::reply::elements(&keys).unwrap().filter_map(resp::reply::as_bulk) {
            let key = String::from_utf8_lossy(key);
            let value = admin.ask(&format!("GET {key}"));
            let owner = key.split(':').next().unwrap();
            assert!(value.contains(&format!("{owner}-")), "{key}: {value}");
        }
        let lines = admin.command(&[b"CLIENT", b"LIST"]);
        let lines = String::from_utf8_lossy(&lines).into_owned();
        assert!(lines.contains(" user=alice ") && lines.contains(" user=bob "), "{lines}");
    }
}

#[test]
fn wrong_passwords_open_no_links_and_reach_a_nodes_acl_log() {
    let world = world(2, TENANTS, &["--workers=1"]);
    let mut admin = world.nodes[0].connect();
    assert_eq!(admin.ask("AUTH master-key"), r"+OK\r\n");
    let mut clients: Vec<Client> = (0..20).map(|_| world.connect()).collect();
    for round in 0..10 {
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.ask(&format!("AUTH alice guess-{number}-{round}")), WRONG);
        }
    }
    let lines = admin.command(&[b"CLIENT", b"LIST"]);
    let conns = String::from_utf8_lossy(&lines).lines().filter(|line| line.contains("addr=")).count();
    assert!(conns <= 3, "one of ours, one for logins, one of the test: {}", String::from_utf8_lossy(&lines));
    let log = admin.command(&[b"ACL", b"LOG"]);
    let log = String::from_utf8_lossy(&log).into_owned();
    assert!(log.contains("auth") && log.contains("alice"), "{log}");
    assert!(!world.proxy.output().contains("guess"), "{}", world.proxy.output());
}

#[test]
fn a_deleted_user_gets_an_error_and_may_return() {
    let world = world(2, TENANTS, &["--workers=1"]);
    let [a, b] = [world.key_on(0, "alice:"), world.key_on(1, "alice:")];
    let mut client = world.connect();
    assert_eq!(client.ask("AUTH alice a"), r"+OK\r\n");
    for key in [&a, &b] {
        assert_eq!(client.ask(&format!("SET {key} 1")), r"+OK\r\n");
    }
    // Redis closes the connections of a user that is deleted.
    let mut admins: Vec<Client> = world.nodes.iter().map(RedisServer::connect).collect();
    for admin in &mut admins {
        assert_eq!(admin.ask("AUTH master-key"), r"+OK\r\n");
        assert_eq!(admin.ask("ACL DELUSER alice"), r":1\r\n");
    }
    for key in [&a, &b] {
        poll_until("the node to say so", || (client.ask(&format!("GET {key}")) == WRONG).then_some(()));
    }
    // The link for logins was hers as well, and is made anew.
    poll_until("logins to be asked again", || (client.ask("AUTH alice a") == WRONG).then_some(()));
    assert_eq!(world.connect().ask("AUTH bob b"), r"+OK\r\n", "others go on");
    for admin in &mut admins {
        assert_eq!(admin.ask(&TENANTS[0].replace(">a ", ">new ")), r"+OK\r\n");
    }
    assert_eq!(client.ask(&format!("GET {a}")), WRONG, "it is in by another password");
    assert_eq!(client.ask("AUTH alice new"), r"+OK\r\n");
    for key in [&a, &b] {
        assert_eq!(client.ask(&format!("GET {key}")), r"$1\r\n1\r\n");
    }
    let output = world.proxy.output();
    assert!(!output.contains("down"), "the nodes were well all the time: {output}");
}

#[test]
fn client_without_password_is_the_nodes_default_user() {
    let rules =
        ["ACL SETUSER alice on >a ~alice:* +@all", "ACL SETUSER default resetkeys ~open:* -@dangerous"];
    let world = world(2, &rules, &["--workers=1"]);
    let mut client = world.connect();
    assert_eq!(client.ask("SET open:1 a"), r"+OK\r\n");
    assert!(client.ask("GET alice:1").starts_with("-NOPERM"));
    assert_eq!(client.ask("AUTH alice a"), r"+OK\r\n");
    assert_eq!(client.ask("SET alice:1 a"), r"+OK\r\n");
    assert!(client.ask("GET open:1").starts_with("-NOPERM"));
    assert_eq!(client.ask("RESET"), r"+RESET\r\n");
    assert_eq!(client.ask("GET open:1"), r"$1\r\na\r\n");
    // Not over connections that are our own.
    let file = File::new("a\n");
    let flags = [AUTH, "--node-user=alice", &file.flag("node-auth-file")];
    let proxy = Proxy::over(&world.nodes, &flags);
    let mut client = Client::connect(proxy.port);
    assert_eq!(client.ask("GET alice:1"), NO_AUTH);
    assert_eq!(client.ask("AUTH default x"), r"+OK\r\n");
    assert_eq!(client.ask("GET open:1"), r"$1\r\na\r\n");
    assert!(client.ask("GET alice:1").starts_with("-NOPERM"));
}

#[test]
fn a_user_with_few_rights_can_use_them() {
    let rules = [
        "ACL SETUSER worker on >w ~q:* -@all +blpop +rpush +xread +xadd +get +set +multi +exec +watch",
        "ACL SETUSER default resetpass >master-key",
    ];
    let world = world(2, &rules, &["--workers=1"]);
    let (a, b) = (world.key_on(0, "q:"), world.key_on(1, "q:"));
    let (mut waits, mut other) = (world.connect(), world.connect());
    for client in [&mut waits, &mut other] {
        assert_eq!(client.ask("AUTH worker w"), r"+OK\r\n");
    }
    waits.send_command(&[b"BLPOP", a.as_bytes(), b"0"]);
    assert_eq!(other.ask(&format!("RPUSH {a} x")), r":1\r\n");
    let got = format!(r"*2\r\n${}\r\n{a}\r\n$1\r\nx\r\n", a.len());
    assert_eq!(crate::harness::show(&waits.read_reply()), got);
    // A link with WATCH is not reused if UNWATCH fails on it.
    let turns = |client: &mut Client| {
        [&format!("WATCH {b}"), "MULTI", &format!("SET {b} 1"), "EXEC"].map(|ask| client.ask(ask))
    };
    assert_eq!(waits.ask(&format!("WATCH {b}")), r"+OK\r\n");
    assert_eq!(waits.ask("UNWATCH"), r"+OK\r\n");
    assert_eq!(other.ask(&format!("SET {b} 1")), r"+OK\r\n");
    let done = [r"+OK\r\n", r"+OK\r\n", r"+QUEUED\r\n", r"*1\r\n+OK\r\n"];
    assert_eq!(turns(&mut waits), done);
    // On several shards: an entry of one of them is returned, though the wait on the other cannot be ended.
    waits.send_command(&[
        b"XREAD", b"BLOCK", b"0", b"STREAMS", b"q:s0", b"q:s1", b"q:s2", b"q:s3", b"$", b"$", b"$", b"$",
    ]);
    poll_until("an entry to be told", || {
        assert!(other.ask("XADD q:s1 * a 1").starts_with('$'));
        waits.set_patience(std::time::Duration::from_millis(100));
        waits.try_read_reply().ok()
    });
}

/// Users with different channels, and one with a channel for all.
const LISTENERS: &[&str] = &[
    "ACL SETUSER alice on >a ~* resetchannels &tea* &all +@all",
    "ACL SETUSER bob on >b ~* resetchannels &coffee &all +@all",
    "ACL SETUSER carol on >c ~* &* +@all -subscribe -pubsub",
    "ACL SETUSER default resetpass >master-key",
];

#[test]
fn users_of_nodes_may_subscribe_as_at_one_redis() {
    let oracle = nodes(1, LISTENERS);
    let world = world(3, LISTENERS, &["--workers=2"]);
    let conversations: &[&[&str]] = &[
        &["SUBSCRIBE tea", "PSUBSCRIBE tea", "PUBSUB CHANNELS", "SSUBSCRIBE tea"],
        &[
            "AUTH alice a",
            "SUBSCRIBE tea",
            "SUBSCRIBE coffee",
            "PSUBSCRIBE t*",
            "PSUBSCRIBE tea*",
            "SSUBSCRIBE tea1",
            "SSUBSCRIBE coffee",
            "GET a",
            "UNSUBSCRIBE tea",
            "PUNSUBSCRIBE tea*",
            "SUNSUBSCRIBE",
            "GET a",
            "PUBSUB CHANNELS",
            "SUBSCRIBE coffee",
            "GET a",
            "SUBSCRIBE tea",
            "RESET",
            "SUBSCRIBE tea",
        ],
        &[
            "AUTH carol c",
            "SUBSCRIBE tea",
            "PSUBSCRIBE tea",
            "PUNSUBSCRIBE",
            "PUBSUB CHANNELS",
            "PUBSUB NUMSUB a",
        ],
        &[
            "AUTH alice a",
            "HELLO 3 SETNAME a",
            "SUBSCRIBE tea",
            "AUTH bob b",
            "SUBSCRIBE tea2",
            "SUBSCRIBE coffee",
            "UNSUBSCRIBE tea",
            "UNSUBSCRIBE coffee",
        ],
    ];
    expect_alike(&oracle[0], &world, conversations);
}

/// A client that is `user` and subscribed to `channel`.
fn listener(world: &World, user: &str, channel: &str) -> Client {
    let mut client = world.connect();
    assert_eq!(client.ask(&format!("AUTH {user} {}", &user[..1])), r"+OK\r\n");
    let said = client.ask(&format!("SUBSCRIBE {channel}"));
    assert!(said.starts_with(r"*3\r\n$9\r\nsubscribe\r\n"), "{said}");
    client
}

#[test]
fn losing_a_channel_closes_only_its_subscribers() {
    let world = world(3, LISTENERS, &["--workers=2"]);
    let mut alices: Vec<Client> = (0..4).map(|_| listener(&world, "alice", "all")).collect();
    let mut drinkers: Vec<Client> = (0..4).map(|_| listener(&world, "alice", "tea")).collect();
    let mut bobs: Vec<Client> = (0..4).map(|_| listener(&world, "bob", "all")).collect();
    let mut speaker = world.connect();
    assert_eq!(speaker.ask("AUTH alice a"), r"+OK\r\n");
    assert_eq!(speaker.ask("PUBLISH tea x"), r":4\r\n");
    assert_eq!(speaker.ask("PUBLISH all x"), r":8\r\n");
    assert_eq!(speaker.ask("PUBSUB NUMSUB all tea"), r"*4\r\n$3\r\nall\r\n:8\r\n$3\r\ntea\r\n:4\r\n");
    let heard = |client: &mut Client, channel: &str, text: &str| {
        let message = crate::harness::show(&client.read_reply());
        assert!(message.contains(channel) && message.contains(text), "{message}");
    };
    drinkers.iter_mut().for_each(|client| heard(client, "tea", "x"));
    alices.iter_mut().chain(&mut bobs).for_each(|client| heard(client, "all", "x"));
    for node in &world.nodes {
        let mut admin = node.connect();
        assert_eq!(admin.ask("AUTH master-key"), r"+OK\r\n");
        assert_eq!(admin.ask("ACL SETUSER alice resetchannels &all"), r"+OK\r\n");
    }
    drinkers.iter_mut().for_each(Client::expect_eof);
    // Her subscriptions were renewed meanwhile, and messages until then are lost; no other client's were.
    poll_until("all to be heard again", || (speaker.ask("PUBLISH all y") == r":8\r\n").then_some(()));
    assert_eq!(speaker.ask("PUBLISH all z"), r":8\r\n");
    for client in alices.iter_mut().chain(&mut bobs) {
        poll_until("the last of them", || {
            let message = crate::harness::show(&client.read_reply());
            message.contains(r"$1\r\nz").then_some(())
        });
    }
    // She is deleted on all nodes: only subscribers with her user are closed.
    for node in &world.nodes {
        let mut admin = node.connect();
        assert_eq!(admin.ask("AUTH master-key"), r"+OK\r\n");
        assert_eq!(admin.ask("ACL DELUSER alice"), r":1\r\n");
    }
    for client in &mut alices {
        client.read_to_end();
    }
    // The link of her login is closed as well, perhaps with his AUTH under way, which may be repeated then.
    let mut speaker = world.connect();
    poll_until("bob to be let in", || match speaker.ask("AUTH bob b").as_str() {
        r"+OK\r\n" => Some(()),
        refused => {
            assert!(refused.starts_with("-TRYAGAIN "), "{refused}");
            None
        }
    });
    assert_eq!(speaker.ask("PUBLISH all w"), r":4\r\n");
    bobs.iter_mut().for_each(|client| heard(client, "all", "w"));
}
