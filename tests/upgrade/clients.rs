//! Clients keep their state, or stay in the old process until they can go.

use super::Generations;
use crate::harness::certificates::{Authority, Dialect, Directory, identity_flags};
use crate::harness::local::Local;
use crate::harness::processes::free_ports;
use crate::harness::{Client, RedisServer, poll_until};
use std::io::Write;

const USERS: &str = "user default on nopass ~* &* +@all\nuser ann on >secret ~* &* +@all\n";

/// The fields of CLIENT INFO that another process must know.
fn identity(client: &mut Client) -> Vec<String> {
    let info = client.ask("CLIENT INFO");
    let kept = ["id=", "addr=", "laddr=", "name=", "flags=", "db=", "user=", "resp="];
    let fields = info.split([' ', '\\', '\n']);
    fields.filter(|field| kept.iter().any(|key| field.starts_with(key))).map(str::to_owned).collect()
}

#[test]
fn idle_clients_keep_their_state() {
    let nodes = [RedisServer::start()];
    let folder = Directory::new();
    let acl = format!("--acl-file={}", folder.write("users", USERS));
    let mut shardis = Generations::over(&nodes, &[&acl]);
    let mut plain = shardis.connect();
    let mut web = shardis.connect();
    for words in ["AUTH ann secret", "SELECT 3", "CLIENT SETNAME web", "CLIENT NO-EVICT ON", "READONLY"] {
        assert_eq!(web.ask(words), r"+OK\r\n", "{words}");
    }
    assert!(web.ask("HELLO 3").starts_with("%7"));
    assert_eq!(web.ask("SET key three"), r"+OK\r\n");
    let mut silent = shardis.connect();
    silent.send(b"CLIENT REPLY OFF\r\nPING\r\n");
    let mut half = shardis.connect();
    half.send(b"*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$5\r\nva");
    half.wait_until_read();
    let before = (identity(&mut plain), identity(&mut web));
    assert!(
        before.1.contains(&"user=ann".to_owned()) && before.1.contains(&"resp=3".to_owned()),
        "{before:?}"
    );
    for _ in 0..2 {
        let (old, _) = shardis.upgrade();
        shardis.expect_end_of(old);
        assert_eq!((identity(&mut plain), identity(&mut web)), before);
    }
    assert_eq!(web.ask("GET key"), r"$5\r\nthree\r\n");
    assert_eq!(plain.ask("GET key"), r"$-1\r\n", "database 0 has no such key");
    silent.send(b"PING\r\nCLIENT REPLY ON\r\n");
    assert_eq!(silent.read_reply(), b"+OK\r\n");
    half.send(b"lue\r\n");
    assert_eq!(
        (half.read_reply(), half.ask("GET half")),
        (b"+OK\r\n".to_vec(), r"$5\r\nvalue\r\n".to_owned())
    );
    let id = |client: &mut Client| {
        client.ask("CLIENT ID").trim_start_matches(':').trim_end_matches(r"\r\n").parse::<u64>()
    };
    let (newest, known) = (id(&mut shardis.connect()).expect("a number"), id(&mut half).expect("a number"));
    assert!(newest > known, "no number is given out twice");
}

#[test]
fn clients_with_state_stay_until_they_can_go() {
    let nodes = [RedisServer::start()];
    let mut shardis = Generations::over(&nodes, &[]);
    let [mut listener, mut buyer, mut guard, mut waiter, mut cache] = [(); 5].map(|()| shardis.connect());
    listener.send(b"SUBSCRIBE news\r\n");
    assert!(listener.read_reply().ends_with(b":1\r\n"));
    assert_eq!(
        (buyer.ask("MULTI"), buyer.ask("SET k 1")),
        (r"+OK\r\n".to_owned(), r"+QUEUED\r\n".to_owned())
    );
    assert_eq!(guard.ask("WATCH k"), r"+OK\r\n");
    assert!(cache.ask("HELLO 3").starts_with("%7"));
    assert_eq!(cache.ask("CLIENT TRACKING ON"), r"+OK\r\n");
    waiter.send(b"BLPOP queue 0\r\n");
    let mut other = shardis.connect();
    poll_until("a client that waits", || {
        other.ask("INFO clients").contains("blocked_clients:1").then_some(())
    });
    let (old, _) = shardis.upgrade();
    assert_eq!(other.ask("PUBLISH news extra"), r":1\r\n", "the old process hears it");
    assert!(listener.read_reply().ends_with(b"extra\r\n"));
    assert_eq!(buyer.ask("EXEC"), r"*1\r\n+OK\r\n");
    assert_eq!(guard.ask("MULTI"), r"+OK\r\n");
    assert_eq!(guard.ask("PING"), r"+QUEUED\r\n");
    assert_eq!(guard.ask("EXEC"), r"*-1\r\n", "the key was changed in between");
    assert_eq!(other.ask("RPUSH queue x"), r":1\r\n");
    assert_eq!(waiter.read_reply(), b"*2\r\n$5\r\nqueue\r\n$1\r\nx\r\n");
    assert_eq!(cache.ask("CLIENT TRACKING OFF"), r"+OK\r\n");
    assert_eq!(shardis.lines("upgrade finished"), Vec::<String>::new(), "the listener is left");
    listener.send(b"UNSUBSCRIBE news\r\n");
    assert!(listener.read_reply().ends_with(b":0\r\n"));
    shardis.expect_end_of(old);
    assert!(shardis.expect_lines("upgrade finished", 1)[0].contains("moved=6"), "{}", shardis.output());
    for client in [&mut listener, &mut buyer, &mut guard, &mut waiter, &mut cache, &mut other] {
        assert_eq!(client.ask("PING"), r"+PONG\r\n");
    }
}

#[test]
fn a_subscriber_that_stays_ends_with_the_drain() {
    let nodes = [RedisServer::start()];
    let mut shardis = Generations::over(&nodes, &["--upgrade-drain-timeout=1", "--drain-timeout=1"]);
    let (mut listener, mut idle) = (shardis.connect(), shardis.connect());
    listener.send(b"SUBSCRIBE news\r\n");
    assert!(listener.read_reply().ends_with(b":1\r\n"));
    let (old, _) = shardis.upgrade();
    let (_, ended) = listener.read_to_end();
    assert!(matches!(ended, crate::harness::client::ReadError::Closed { .. }), "{ended:?}");
    shardis.expect_end_of(old);
    assert!(shardis.expect_lines("upgrade drain timed out", 1)[0].contains("clients=1 moved=1"));
    assert_eq!(idle.ask("PING"), r"+PONG\r\n");
}

#[test]
fn a_client_without_its_user_there_stays() {
    let nodes = [RedisServer::start()];
    let folder = Directory::new();
    let path = folder.write("users", USERS);
    let mut shardis = Generations::over(&nodes, &[&format!("--acl-file={path}"), "--log-level=debug"]);
    let (mut ann, mut plain) = (shardis.connect(), shardis.connect());
    assert_eq!(ann.ask("AUTH ann secret"), r"+OK\r\n");
    let mut file = std::fs::File::create(&path).expect("the file is ours");
    file.write_all(b"user default on nopass ~* &* +@all\n").expect("it is open");
    let (old, _) = shardis.upgrade();
    assert!(shardis.expect_lines("client kept", 1)[0].contains("its user does not exist"));
    assert_eq!(
        (ann.ask("ACL WHOAMI"), plain.ask("ACL WHOAMI")),
        (r"$3\r\nann\r\n".to_owned(), r"$7\r\ndefault\r\n".to_owned())
    );
    drop(ann);
    shardis.expect_end_of(old);
}

#[test]
fn a_client_stays_through_two_upgrades() {
    let nodes = [RedisServer::start()];
    let mut shardis = Generations::over(&nodes, &[]);
    let (mut listener, mut idle) = (shardis.connect(), shardis.connect());
    listener.send(b"SUBSCRIBE news\r\n");
    assert!(listener.read_reply().ends_with(b":1\r\n"));
    let (first, _) = shardis.upgrade();
    assert_eq!(idle.ask("PING"), r"+PONG\r\n");
    let (second, _) = shardis.upgrade();
    shardis.expect_end_of(second);
    assert_eq!(idle.ask("PUBLISH news extra"), r":1\r\n", "the first process hears it");
    assert!(listener.read_reply().ends_with(b"extra\r\n"));
    listener.send(b"UNSUBSCRIBE news\r\nSET k v\r\n");
    assert!(listener.read_reply().ends_with(b":0\r\n"));
    assert_eq!(listener.read_reply(), b"+OK\r\n");
    assert_eq!(listener.ask("GET k"), r"$1\r\nv\r\n", "it is served though nobody takes it over");
    drop(listener);
    shardis.expect_end_of(first);
    assert_eq!(idle.ask("PING"), r"+PONG\r\n");
}

#[test]
fn clients_with_tls_stay_and_those_of_a_load_balancer_go() {
    let (nodes, folder, authority) = ([RedisServer::start()], Directory::new(), Authority::new());
    let identity = identity_flags(&folder, "", "server", &authority.sign(&["127.0.0.1"]));
    let ports = free_ports(2);
    let tls_port = ports[1];
    let flags = [
        format!("--nodes=127.0.0.1:{}", nodes[0].port),
        format!("--port={}", ports[0]),
        format!("--tls-port={tls_port}"),
    ];
    let flags: Vec<&str> = flags.iter().chain(&identity).map(String::as_str).collect();
    let mut shardis =
        Generations::start(&[&["proxy", "--workers=1", "--proxy-protocol"], &flags[..]].concat());
    let header = b"PROXY TCP4 127.0.0.9 127.0.0.1 4711 6380\r\n";
    let mut far = shardis.connect();
    far.send(header);
    let mut secure = Dialect::trusting(&authority).connect_behind(tls_port, header).expect("they agree");
    let addr = |client: &mut Client| identity_of(client, "addr=");
    assert_eq!(
        (addr(&mut far), addr(&mut secure)),
        ("addr=127.0.0.9:4711".to_owned(), "addr=127.0.0.9:4711".to_owned())
    );
    let (old, _) = shardis.upgrade();
    assert_eq!(secure.ask("SET k v"), r"+OK\r\n", "the old process has the keys of its connection");
    assert_eq!(
        (far.ask("GET k"), addr(&mut far)),
        (r"$1\r\nv\r\n".to_owned(), "addr=127.0.0.9:4711".to_owned())
    );
    let mut again = Dialect::trusting(&authority).connect_behind(tls_port, header).expect("they agree");
    assert_eq!(again.ask("GET k"), r"$1\r\nv\r\n");
    drop(secure);
    shardis.expect_end_of(old);
    assert!(shardis.expect_lines("upgrade finished", 1)[0].contains("moved=1"));
}

fn identity_of(client: &mut Client, key: &str) -> String {
    identity(client).into_iter().find(|field| field.starts_with(key)).expect("CLIENT INFO has it")
}

#[test]
fn a_cluster_is_known_before_the_new_process_serves() {
    let nodes = Local::start(&["--cluster=3"]);
    let seed = format!("--cluster=127.0.0.1:{}", nodes.ports("nodes")[0]);
    let mut shardis = Generations::start(&["proxy", &seed, "--port=0", "--workers=2"]);
    let mut client = shardis.connect();
    poll_until("the topology", || (client.ask("MSET a 1 b 2 c 3") == r"+OK\r\n").then_some(()));
    for _ in 0..3 {
        let (old, _) = shardis.upgrade();
        assert_eq!(shardis.connect().ask("MGET a b c"), r"*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
        shardis.expect_end_of(old);
        assert_eq!(client.ask("MGET a b c"), r"*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    }
}

#[test]
fn clients_of_a_pool_with_routes_follow_an_upgrade() {
    let (node, folder) = (RedisServer::start(), Directory::new());
    let text = format!(
        "workers = 2
[[pool]]\nname = \"all\"\nport = 0\nroute = [\"c:=main cut\", \"*=main\"]
[[pool]]\nname = \"main\"\nport = 0\nnodes = [\"127.0.0.1:{}\"]\n",
        node.port
    );
    let config = format!("--config={}", folder.write("shardis.toml", &text));
    let mut shardis = Generations::start(&["proxy", &config]);
    let mut client = shardis.connect();
    assert_eq!(client.ask("SET c:k v"), r"+OK\r\n");
    for _ in 0..2 {
        let (old, _) = shardis.upgrade();
        assert_eq!(client.ask("MGET c:k k x"), r"*3\r\n$1\r\nv\r\n$1\r\nv\r\n$-1\r\n");
        shardis.expect_end_of(old);
        assert_eq!(shardis.connect().ask("GET c:k"), r"$1\r\nv\r\n");
    }
}
