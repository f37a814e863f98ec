//! Routes: keys of one pool that prefixes give to other pools.

use crate::harness::certificates::Directory;
use crate::harness::local::Local;
use crate::harness::processes::{Process, free_port, run, shardis_binary};
use crate::harness::{Client, RedisServer, poll_until};
use std::collections::BTreeSet;

/// A pool with routes, and the pools `orders` (two nodes), `cache` and `main`, in this order of nodes.
pub(crate) struct Routes {
    pub(crate) nodes: Vec<RedisServer>,
    pub(crate) port: u16,
    process: Process,
    directory: Directory,
}

impl Routes {
    /// All of them with `every` above the pools, and the routes `routes`.
    pub(crate) fn start(routes: &str, every: &str) -> Routes {
        Routes::with_nodes((0..4).map(|_| RedisServer::start()).collect(), routes, every, "")
    }

    /// The same over these nodes, with `more` for the pool `orders`.
    fn with_nodes(nodes: Vec<RedisServer>, routes: &str, every: &str, more: &str) -> Routes {
        let (directory, port) = (Directory::new(), free_port());
        let text = text(port, &nodes.iter().map(|node| node.port).collect::<Vec<_>>(), routes, every, more);
        let path = directory.write("shardis.toml", &text);
        let mut command = shardis_binary();
        command.args(["proxy", "--config"]).arg(&path);
        let process = Process::spawn(command, "shardis");
        let routes = Routes { nodes, port, process, directory };
        poll_until("the pool with routes", || Client::try_connect(port));
        routes
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.port)
    }

    /// All keys of the nodes.
    fn keys(&self) -> Vec<BTreeSet<String>> {
        self.nodes.iter().map(|node| keys(&mut node.connect(), "*")).collect()
    }
}

/// The configuration. A pool that routes lead to needs no listener.
fn text(port: u16, nodes: &[u16], routes: &str, every: &str, more: &str) -> String {
    let node = |at: usize| format!("\"127.0.0.1:{}\"", nodes[at]);
    format!(
        "workers = 2\nrequest-timeout-ms = 30000\n{every}
[[pool]]\nname = \"all\"\nport = {port}\nroute = [{routes}]
[[pool]]\nname = \"orders\"\nport = 0\nnodes = [{}, {}]\n{more}
[[pool]]\nname = \"cache\"\nport = 0\nnodes = [{}]
[[pool]]\nname = \"main\"\nport = 0\nnodes = [{}]\n",
        node(0),
        node(1),
        node(2),
        node(3)
    )
}

/// The keys that match `pattern`.
fn keys(client: &mut Client, pattern: &str) -> BTreeSet<String> {
    let reply = client.command(&[b"KEYS", pattern.as_bytes()]);
    let names = resp::reply::elements(&reply).expect("KEYS answers an array");
    names.map(|name| String::from_utf8_lossy(resp::reply::as_bulk(name).expect("a bulk")).into()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The keys of a whole walk of SCAN, and its steps.
fn walk(client: &mut Client, options: &str) -> (BTreeSet<String>, usize) {
    let (mut cursor, mut found, mut steps) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let words = format!("SCAN {cursor} {options}");
        let words: Vec<&[u8]> = words.split_whitespace().map(str::as_bytes).collect();
        let reply = client.command(&words);
        let parts: Vec<&[u8]> = resp::reply::elements(&reply).expect("a page").collect();
        cursor = String::from_utf8_lossy(resp::reply::as_bulk(parts[0]).expect("a cursor")).into();
        let page = resp::reply::elements(parts[1]).expect("keys").filter_map(resp::reply::as_bulk);
        found.extend(page.map(|name| String::from_utf8_lossy(name).into_owned()));
        steps += 1;
        if cursor == "0" {
            return (found, steps);
        }
    }
}

/// Kept, cut, rewritten and all other keys.
const ROUTES: &str = "\"o:=orders\", \"c:=cache cut\", \"l:=cache to=legacy:\", \"*=main\"";

#[test]
fn prefixes_decide_in_which_pool_a_key_is() {
    let routes = Routes::start(ROUTES, "");
    let mut client = routes.connect();
    assert_eq!(client.ask("MSET o:1 a o:2 b c:1 c l:1 d x e"), r"+OK\r\n");
    let [one, other, cache, main] = routes.keys().try_into().expect("four nodes");
    assert_eq!((&one | &other, cache, main), (set(&["o:1", "o:2"]), set(&["1", "legacy:1"]), set(&["x"])));
    assert_eq!(
        client.ask("MGET o:1 x l:1 c:1 c:2"),
        r"*5\r\n$1\r\na\r\n$1\r\ne\r\n$1\r\nd\r\n$1\r\nc\r\n$-1\r\n"
    );
    assert_eq!(client.ask("EXISTS o:1 o:2 c:1 l:1 x y"), r":5\r\n");
    // Clients see the names that they may use. c:legacy:1 is another name of l:1.
    assert_eq!(keys(&mut client, "*"), set(&["o:1", "o:2", "c:1", "l:1", "x"]));
    assert_eq!(keys(&mut client, "c:*"), set(&["c:1"]));
    assert_eq!(keys(&mut client, "?:1"), set(&["o:1", "c:1", "l:1"]));
    assert_eq!(walk(&mut client, "MATCH *:1").0, set(&["o:1", "c:1", "l:1"]));
    assert_eq!(client.ask("DBSIZE"), r":5\r\n", "each pool is counted once");
    assert_eq!(client.ask("DEL o:1 c:1 l:1 x y"), r":4\r\n");
    assert_eq!(client.ask("FLUSHALL"), r"+OK\r\n");
    assert_eq!(routes.keys().iter().map(BTreeSet::len).sum::<usize>(), 0);
}

#[test]
fn keys_that_lead_to_another_pool_are_not_shown() {
    let routes = Routes::start(ROUTES, "");
    routes.nodes[3].connect().ask("MSET o:9 hidden y shown");
    routes.nodes[0].connect().ask("SET z hidden");
    let mut client = routes.connect();
    assert_eq!((keys(&mut client, "*"), walk(&mut client, "").0), (set(&["y"]), set(&["y"])));
    assert_eq!(client.ask("GET o:9"), r"$-1\r\n");
    routes.nodes[3].connect().ask("DEL y");
    assert_eq!(client.ask("RANDOMKEY"), r"$-1\r\n");
}

#[test]
fn a_walk_over_pools_finds_each_key() {
    let routes = Routes::start(ROUTES, "");
    let mut client = routes.connect();
    let names: BTreeSet<String> =
        (0..300).map(|key| format!("{}{key}", ["o:", "c:", "x"][key % 3])).collect();
    for name in &names {
        client.ask(&format!("SET {name} 1"));
    }
    let (found, steps) = walk(&mut client, "COUNT 5");
    assert_eq!(found, names);
    assert!(steps > 10, "{steps} steps");
    assert_eq!(
        walk(&mut client, "MATCH o:*").0,
        names.iter().filter(|n| n.starts_with("o:")).cloned().collect()
    );
}

#[test]
fn requests_over_several_pools_are_refused_as_over_shards() {
    let routes = Routes::start(ROUTES, "");
    let mut client = routes.connect();
    client.ask("SADD c:s a");
    client.ask("SADD x a");
    assert!(client.ask("SINTER c:s x").starts_with("-CROSSSLOT "));
    assert_eq!(client.ask("SINTER c:s c:s"), r"*1\r\n$1\r\na\r\n");
    client.ask("MULTI");
    assert_eq!(client.ask("SCARD c:s"), r"+QUEUED\r\n");
    assert!(client.ask("SCARD x").starts_with("-CROSSSLOT "));
    assert!(client.ask("EXEC").starts_with("-EXECABORT "));
    client.ask("MULTI");
    client.ask("SCARD c:s");
    client.ask("BLPOP c:empty 0");
    client.ask("LMPOP 1 c:list LEFT");
    assert_eq!(client.ask("EXEC"), r"*3\r\n:1\r\n*-1\r\n*-1\r\n");
    assert!(client.ask("EVAL return{KEYS[1],KEYS[2]} 2 c:s x").starts_with("-CROSSSLOT "));
    assert_eq!(client.ask("EVAL return(redis.call('scard',KEYS[1])) 1 c:s"), r":1\r\n");
}

#[test]
fn invalidations_have_the_names_that_clients_know() {
    let routes = Routes::start(ROUTES, "");
    let mut client = routes.connect();
    client.ask("HELLO 3");
    assert_eq!(client.ask("CLIENT TRACKING ON"), r"+OK\r\n");
    assert_eq!(client.ask("MGET c:1 o:1 x"), r"*3\r\n_\r\n_\r\n_\r\n");
    for (node, key, name) in [(2, "1", "c:1"), (3, "x", "x")] {
        routes.nodes[node].connect().ask(&format!("SET {key} changed"));
        let push = client.read_reply();
        let expected = format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{name}\r\n", name.len());
        assert_eq!(push, expected.into_bytes());
    }
}

#[test]
fn commands_over_pools_can_be_emulated() {
    let routes = Routes::start(ROUTES, "cross-shard = \"emulate\"\n");
    let mut client = routes.connect();
    client.ask("SADD c:s a b");
    client.ask("SADD x a");
    assert_eq!(client.ask("SINTERSTORE o:s c:s x"), r":1\r\n");
    assert_eq!(client.ask("SMEMBERS o:s"), r"*1\r\n$1\r\na\r\n");
    assert_eq!(client.ask("RENAME x c:y"), r"+OK\r\n");
    assert_eq!(routes.nodes[2].connect().ask("SMEMBERS y"), r"*1\r\n$1\r\na\r\n");
}

#[test]
fn a_client_waits_for_an_element_of_another_pool() {
    let routes = Routes::start(ROUTES, "");
    let (mut waiting, mut client) = (routes.connect(), routes.connect());
    waiting.send_command(&[b"BLPOP", b"c:list", b"0"]);
    poll_until("the client waits", || {
        client.ask("INFO clients").contains(r"blocked_clients:1\r").then_some(())
    });
    routes.nodes[2].connect().ask("RPUSH list x");
    assert_eq!(waiting.read_reply(), b"*2\r\n$6\r\nc:list\r\n$1\r\nx\r\n");
    waiting.ask("XADD c:st 1-1 a b");
    assert!(waiting.ask("HELLO 3").starts_with('%'));
    assert!(waiting.ask("XREAD STREAMS c:st 0").starts_with(r"%1\r\n$4\r\nc:st\r\n"));
    let error = waiting.ask("XREADGROUP GROUP g me STREAMS c:st >");
    assert!(error.starts_with(r"-NOGROUP No such key \'c:st\' or consumer group \'g\'"), "{error}");
}

#[test]
fn messages_arrive_and_a_large_value_passes_over_a_route() {
    let routes = Routes::start(ROUTES, "");
    let (mut subscriber, mut client) = (routes.connect(), routes.connect());
    assert_eq!(subscriber.ask("SUBSCRIBE news"), r"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(client.ask("PUBLISH news hello"), r":1\r\n");
    assert_eq!(subscriber.read_reply(), b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
    let value = vec![b'v'; 3 << 20];
    for key in [&b"c:large"[..], b"o:large", b"large"] {
        assert_eq!(client.command(&[b"SET", key, &value]), b"+OK\r\n");
        let reply = client.command(&[b"GET", key]);
        assert!(resp::reply::as_bulk(&reply) == Some(&value[..]), "{} bytes", reply.len());
    }
}

#[test]
fn a_pool_that_is_down_fails_only_its_own_keys() {
    let mut routes = Routes::start(ROUTES, "connect-timeout-ms = 200\n");
    let mut client = routes.connect();
    assert_eq!(client.ask("MSET c:1 a x b"), r"+OK\r\n");
    routes.nodes[2].kill();
    let text = poll_until("the loss is seen", || {
        let reply = client.ask("GET c:1");
        reply.contains("127.0.0.1:").then_some(reply)
    });
    assert!(
        text.starts_with("-TRYAGAIN shard 127.0.0.1:") && text.contains(&routes.nodes[2].port.to_string()),
        "{text}"
    );
    assert_eq!(client.ask("GET x"), r"$1\r\nb\r\n");
}

/// Each pool has its own nodes with their passwords, and its own clients with theirs.
#[test]
fn users_and_passwords_of_each_pool_are_its_own() {
    let nodes: Vec<RedisServer> = (0..4).map(|_| RedisServer::start()).collect();
    for node in &nodes[..2] {
        assert_eq!(node.connect().ask("CONFIG SET requirepass inner"), r"+OK\r\n");
    }
    let more = "node-auth = \"inner\"\nrequirepass = \"direct\"\n";
    let routes = Routes::with_nodes(nodes, ROUTES, "", more);
    let mut client = routes.connect();
    assert_eq!(client.ask("SET o:1 a"), r"+OK\r\n");
    assert_eq!(client.ask("SELECT 3"), r"+OK\r\n");
    assert_eq!(client.ask("GET o:1"), r"$-1\r\n");
}

#[test]
fn drain_answers_requests_in_flight_over_a_route() {
    let mut routes = Routes::start(ROUTES, "");
    let mut client = routes.connect();
    let lines: Vec<u8> =
        (0..2000).flat_map(|number| format!("INCR o:{}\r\n", number % 10).into_bytes()).collect();
    client.send(&lines);
    assert_eq!(client.read_reply(), b":1\r\n");
    routes.process.signal("TERM");
    let mut answered = 1;
    while let Ok(reply) = client.try_read_reply() {
        assert!(reply.starts_with(b":"), "{}", String::from_utf8_lossy(&reply));
        answered += 1;
    }
    let counted: u64 = (0..10)
        .map(|key| {
            let of_node = |node: &RedisServer| node.connect().ask(&format!("GET o:{key}"));
            let values: Vec<String> = routes.nodes[..2].iter().map(of_node).collect();
            values.iter().filter_map(|value| value.split(r"\r\n").nth(1)?.parse::<u64>().ok()).sum::<u64>()
        })
        .sum();
    assert_eq!(answered, counted, "each request that ran was answered");
    poll_until("the end of the process", || routes.process.ended());
    assert!(!routes.process.output().contains("drain timed out"), "{}", routes.process.output());
}

#[test]
fn routes_that_lead_nowhere_are_refused() {
    let refused = |routes: &str, expected: &str| {
        let directory = Directory::new();
        let path = directory.write("shardis.toml", &text(7001, &[7002, 7003, 7004, 7005], routes, "", ""));
        let mut command = shardis_binary();
        command.args(["check", &path]);
        let finished = run(command);
        assert_ne!(finished.code, Some(0), "{routes}");
        assert!(finished.stderr.contains(expected), "{routes}: {}", finished.stderr);
    };
    refused("\"*=nothing\"", "no pool has this name");
    refused("\"a:=main\"", "the other keys need a route as well");
    refused("\"a:=main\", \"a:=cache\", \"*=main\"", "the prefix has a route already");
    refused("\"*=all\"", "that pool has routes itself");
    refused("\"a*=main\", \"*=main\"", "the prefix \"a*\" must be");
    refused("\"*=main\"]\nnodes = [\"a:1\"", "nodes");
}

#[test]
fn tools_show_where_a_key_goes() {
    let directory = Directory::new();
    let path = directory.write("shardis.toml", &text(7001, &[7002, 7003, 7004, 7005], ROUTES, "", ""));
    let output = |args: &[&str]| {
        let mut command = shardis_binary();
        command.args(args);
        let finished = run(command);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        finished.stdout
    };
    let checked = output(&["check", &path]);
    assert!(
        checked.contains(
            "pool all: routes of keys: * to main, o: to orders, c: to cache cut, l: to cache as legacy:"
        ),
        "{checked}"
    );
    let config = format!("--config={path}");
    let explained = output(&["explain", &config, "--pool=all", "--", "MGET", "c:1", "x"]);
    assert!(explained.contains("cache") && explained.contains("main"), "{explained}");
    let list = directory.write("keys", "o:1\ny\n");
    let ring = output(&["ring", &config, "--pool=all", "--list", "--keys-file", &list]);
    assert_eq!(ring, "o:1\torders\ny\tmain\n");
}

#[test]
fn a_reload_keeps_the_routes() {
    let routes = Routes::start(ROUTES, "");
    let mut client = routes.connect();
    client.ask("SET c:1 a");
    let config = routes.directory.path("shardis.toml");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    std::fs::write(&config, text.replace("30000", "20000")).expect("it is written");
    routes.process.signal("HUP");
    poll_until("the reload", || routes.process.output().contains("configuration reloaded").then_some(()));
    assert_eq!(client.ask("GET c:1"), r"$1\r\na\r\n");
    assert_eq!(keys(&mut client, "*"), set(&["c:1"]));
}

#[test]
fn a_cluster_can_be_the_target_of_a_route() {
    let local = Local::start(&["--cluster=3"]);
    let (node, directory, port) = (RedisServer::start(), Directory::new(), free_port());
    let text = format!(
        "request-timeout-ms = 30000
[[pool]]\nname = \"all\"\nport = {port}\nroute = [\"c:=cluster cut\", \"*=main\"]
[[pool]]\nname = \"cluster\"\nport = 0\ncluster = \"127.0.0.1:{}\"
[[pool]]\nname = \"main\"\nport = 0\nnodes = [\"127.0.0.1:{}\"]\n",
        local.ports("nodes")[0],
        node.port
    );
    let path = directory.write("shardis.toml", &text);
    let mut command = shardis_binary();
    command.args(["proxy", "--config"]).arg(&path);
    let _process = Process::spawn(command, "shardis");
    let mut client = poll_until("the pool with routes", || Client::try_connect(port));
    poll_until("the cluster", || (client.ask("SET c:0 x") == r"+OK\r\n").then_some(()));
    let names: Vec<String> = (0..20).map(|key| format!("c:{key}")).collect();
    let pairs: Vec<String> = names.iter().map(|name| format!("{name} {name}")).collect();
    assert_eq!(client.ask(&format!("MSET {} y z", pairs.join(" "))), r"+OK\r\n");
    assert_eq!(client.ask(&format!("EXISTS {} y", names.join(" "))), r":21\r\n");
    assert_eq!(keys(&mut client, "c:*"), names.iter().cloned().collect());
    assert_eq!(keys(&mut node.connect(), "*"), set(&["y"]));
    assert!(client.ask("SELECT 1").starts_with("-ERR "), "the cluster has one database");
}
