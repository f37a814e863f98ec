//! Files of other programs: shardis runs as they say, and names each option that it does not carry over. Keys live where the real
//! nutcracker puts them by the same file.

use crate::configuration::started;
use crate::distribution::{DISTRIBUTIONS, HASHES, Twemproxy, random_key};
use crate::harness::certificates::Directory;
use crate::harness::processes::{Finished, free_ports, run, shardis, shardis_binary};
use crate::harness::{Client, Proxy, RedisServer, poll_until, seed_for, show};
use std::collections::BTreeSet;
use std::process::Command;
use stdx::Prng;

/// Keys of each case, if `SHARDIS_IMPORT_KEYS` does not say how many.
const KEYS: usize = 150;
/// Requests that are sent before their replies are read.
const PIPELINE: usize = 100;
const TAGS: [&str; 3] = ["", "{}", "$#"];

fn shardis_with(command: &str, path: &str) -> Finished {
    let mut process = shardis_binary();
    process.args([command, path]);
    run(process)
}

/// `shardis proxy` with the file at `path`, which it refuses.
fn refused_start(path: &str, flags: &[&str]) -> Finished {
    run(shardis(&[&[format!("--config={path}").as_str()], flags].concat()))
}

/// One nutcracker.yml: a distribution, a hash, a tag, weights or equal nodes, names or none.
#[derive(Clone, Copy, Debug)]
struct Case {
    distribution: &'static str,
    hash: &'static str,
    tag: &'static str,
    is_weighted: bool,
    is_named: bool,
}

impl Case {
    /// Every combination.
    fn all() -> Vec<Case> {
        let mut cases = Vec::new();
        for hash in HASHES {
            for distribution in DISTRIBUTIONS {
                for tag in TAGS {
                    for (is_weighted, is_named) in
                        [(false, false), (true, false), (false, true), (true, true)]
                    {
                        cases.push(Case { distribution, hash, tag, is_weighted, is_named });
                    }
                }
            }
        }
        cases
    }

    /// Some combinations: every hash with every distribution, and each of the other options with both of its neighbours.
    fn some() -> Vec<Case> {
        let of_pair = Case::all().len() / (HASHES.len() * DISTRIBUTIONS.len());
        let all = Case::all().into_iter().enumerate();
        all.filter(|(number, _)| number % of_pair == (number / of_pair * 5) % of_pair)
            .map(|(_, case)| case)
            .collect()
    }

    fn file(&self, port: u16, nodes: &[RedisServer]) -> String {
        let tag = if self.tag.is_empty() { String::new() } else { format!("  hash_tag: \"{}\"\n", self.tag) };
        let server = |(number, node): (usize, &RedisServer)| {
            let weight = if self.is_weighted { [1, 3, 2, 10, 1][number % 5] } else { 1 };
            // Sorted by their lengths first.
            let name = if self.is_named { [" bbb", " aaaa", " cc", " d", " eeeee"][number % 5] } else { "" };
            format!("   - 127.0.0.1:{}:{weight}{name}\n", node.port)
        };
        let servers: String = nodes.iter().enumerate().map(server).collect();
        format!(
            "pool:\n  listen: 127.0.0.1:{port}\n  hash: {}\n  distribution: {}\n{tag}  redis: true\n  timeout: 20000\n  \
             backlog: 512\n  servers:\n{servers}",
            self.hash, self.distribution
        )
    }
}

/// A SET of each key to itself.
fn sets_of(keys: &BTreeSet<Vec<u8>>) -> Vec<Vec<&[u8]>> {
    keys.iter().map(|key| vec![&b"SET"[..], key, key]).collect()
}

/// A DEL of each key.
fn deletions_of(keys: &BTreeSet<Vec<u8>>) -> Vec<Vec<&[u8]>> {
    keys.iter().map(|key| vec![&b"DEL"[..], key]).collect()
}

/// The replies to `requests`, which are sent in pipelines.
fn replies(client: &mut Client, requests: &[Vec<&[u8]>]) -> Vec<Vec<u8>> {
    let mut replies = Vec::new();
    for batch in requests.chunks(PIPELINE) {
        batch.iter().for_each(|request| client.send_command(request));
        replies.extend(batch.iter().map(|_| client.read_reply()));
    }
    replies
}

#[test]
fn keys_live_where_nutcracker_puts_them_by_the_same_file() {
    let wanted = std::env::var("SHARDIS_IMPORT_KEYS").ok().and_then(|keys| keys.parse().ok());
    let cases = if wanted.is_some() { Case::all() } else { Case::some() };
    let nodes: Vec<RedisServer> = (0..5).map(|_| RedisServer::start()).collect();
    let mut prng = Prng::new(seed_for("keys_live_where_nutcracker_puts_them_by_the_same_file"));
    for case in cases {
        let port = free_ports(1)[0];
        let twemproxy = Twemproxy::start(vec![port], &case.file(port, &nodes));
        let path = twemproxy.config.to_str().expect("it is text");
        let proxy = Proxy::start(&[&format!("--config={path}"), "--port=0"]);
        let said = format!("not carried over: {path}:");
        poll_until("the options that are left out", || proxy.output().contains(&said).then_some(()));

        let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
        while keys.len() < wanted.unwrap_or(KEYS) {
            keys.insert(random_key(&mut prng));
        }
        let (mut theirs, mut ours) = (Client::connect(port), Client::connect(proxy.port));
        for (key, reply) in keys.iter().zip(replies(&mut theirs, &sets_of(&keys))) {
            assert_eq!(show(&reply), "+OK\\r\\n", "nutcracker, {case:?}, {}", show(key));
        }
        // A deletion finds the one copy that nutcracker made.
        for (key, reply) in keys.iter().zip(replies(&mut ours, &deletions_of(&keys))) {
            assert_eq!(show(&reply), ":1\\r\\n", "{case:?}, {}", show(key));
        }
        let left: Vec<String> = nodes.iter().map(|node| node.connect().ask("DBSIZE")).collect();
        assert_eq!(left, [":0\\r\\n"; 5], "{case:?}");
    }
}

/// Gives each of `keys` to nutcracker, and takes it away by shardis. Returns whether shardis found the one copy each time: only
/// then both look at the same node.
fn are_same_places(theirs: &mut Client, ours: &mut Client, keys: &BTreeSet<Vec<u8>>) -> bool {
    let are_set = replies(theirs, &sets_of(keys)).iter().all(|reply| reply == b"+OK\r\n");
    replies(ours, &deletions_of(keys)).iter().all(|reply| reply == b":1\r\n") && are_set
}

/// Waits until `client` gets a value or a null for each of `keys`: the proxy has ejected what is dead.
fn wait_for_all(client: &mut Client, keys: &BTreeSet<Vec<u8>>, what: &str) {
    poll_until(what, || {
        let gets: Vec<Vec<&[u8]>> = keys.iter().map(|key| vec![&b"GET"[..], key]).collect();
        replies(client, &gets).iter().all(|reply| reply.starts_with(b"$")).then_some(())
    });
}

#[test]
fn keys_live_where_nutcracker_puts_them_while_a_host_is_ejected() {
    let wanted = std::env::var("SHARDIS_IMPORT_KEYS").ok().and_then(|keys| keys.parse().ok());
    let mut prng = Prng::new(seed_for("keys_live_where_nutcracker_puts_them_while_a_host_is_ejected"));
    for (number, distribution) in ["ketama", "modula", "ketama", "modula"].into_iter().enumerate() {
        let (hash, tag) = ([("fnv1a_64", ""), ("murmur", "{}")])[number / 2];
        let case =
            Case { distribution, hash, tag, is_weighted: number % 2 == number / 2, is_named: number > 1 };
        let mut nodes: Vec<RedisServer> = (0..5).map(|_| RedisServer::start()).collect();
        let port = free_ports(1)[0];
        let ejects =
            "  auto_eject_hosts: true\n  server_retry_timeout: 1000\n  server_failure_limit: 2\n  servers:\n";
        let file = case.file(port, &nodes).replace("  servers:\n", ejects);
        let twemproxy = Twemproxy::start(vec![port], &file);
        let path = twemproxy.config.to_str().expect("it is text");
        let proxy = Proxy::start(&[&format!("--config={path}"), "--port=0"]);
        let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
        while keys.len() < wanted.unwrap_or(KEYS) {
            keys.insert(random_key(&mut prng));
        }
        let (mut theirs, mut ours) = (Client::connect(port), Client::connect(proxy.port));
        assert!(are_same_places(&mut theirs, &mut ours, &keys), "before, {case:?}");
        let dead = nodes[number].port;
        nodes[number].kill();
        // Each second, both try the dead node again, and requests of that time fail or go elsewhere.
        poll_until("the same places without the dead node", || {
            wait_for_all(&mut theirs, &keys, "nutcracker ejects the node");
            wait_for_all(&mut ours, &keys, "shardis ejects the node");
            let are_same = are_same_places(&mut theirs, &mut ours, &keys);
            nodes
                .iter()
                .filter(|node| node.port != dead)
                .for_each(|node| drop(node.connect().ask("FLUSHALL")));
            are_same.then_some(())
        });
        nodes[number] = poll_until("the port is free again", || RedisServer::try_start(dead, &[]));
        poll_until("both give the node its keys back", || {
            wait_for_all(&mut theirs, &keys, "nutcracker serves");
            wait_for_all(&mut ours, &keys, "shardis serves");
            let are_same = are_same_places(&mut theirs, &mut ours, &keys);
            let has_writes = nodes[number].connect().ask("INFO commandstats").contains("cmdstat_set:");
            nodes.iter().for_each(|node| drop(node.connect().ask("FLUSHALL")));
            (are_same && has_writes).then_some(())
        });
    }
}

#[test]
fn nutcracker_and_check_accept_the_same_files() {
    let directory = Directory::new();
    let valid = "p:\n  listen: 127.0.0.1:22121\n  redis: true\n  servers:\n   - 127.0.0.1:6379:1 a\n";
    let changes = [
        ("", ""),
        ("p:\n", "p:\n  timeout: 400\n"),
        ("p:\n", "p:\n  timeout: -1\n"),
        ("p:\n", "p:\n  timeout: 4s\n"),
        ("p:\n", "p:\n  preconnect: yes\n"),
        ("p:\n", "p:\n  preconnect: \"true\"\n"),
        ("p:\n", "p:\n  hash: crc64\n"),
        ("p:\n", "p:\n  hash: 'md5'\n"),
        ("p:\n", "p:\n  hash_tag: \"{\"\n"),
        ("p:\n", "p:\n  hash_tag: \"{}\"\n"),
        ("p:\n", "p:\n  distribution: consistent\n"),
        ("p:\n", "p:\n  server_connections: 0\n"),
        ("p:\n", "p:\n  server_connections: 3\n"),
        ("p:\n", "p:\n  sentinels: true\n"),
        ("p:\n", "p:\n  tcpkeepalive: true\n"),
        ("p:\n", "p:\n  redis_db: 0\n"),
        ("p:\n", "p:\n  backlog: 1\n  backlog: 2\n"),
        ("p:\n", "p:\n  Timeout: 1\n"),
        (" a\n", "\n"),
        (":1 a", ":0 a"),
        (":1 a", ":x a"),
        (":1 a", ""),
        (":6379:", ":66666:"),
        (":6379:1 a\n", ":6379:1 a\n   - 127.0.0.1:6380:1 a\n"),
        (":6379:1 a\n", ":6379:1 a\n   - 127.0.0.1:6380:1 b\n"),
        ("   - 127.0.0.1:6379:1 a\n", "   - /tmp/a.sock:1\n"),
        ("127.0.0.1:22121", "127.0.0.1"),
        ("127.0.0.1:22121", "/tmp/shardis-test.sock 0777"),
        ("127.0.0.1:22121", "/tmp/shardis-test.sock 7777"),
        ("  listen: 127.0.0.1:22121\n", ""),
        ("  servers:\n   - 127.0.0.1:6379:1 a\n", ""),
        ("p:\n", "p:\n\tbacklog: 1\n"),
    ];
    for (old, new) in changes {
        let text = valid.replacen(old, new, 1);
        let path = directory.write("nutcracker.yml", &text);
        let mut nutcracker = Command::new("nutcracker");
        nutcracker.args(["-t", "-c", &path]);
        let (theirs, ours) = (run(nutcracker), shardis_with("check", &path));
        assert_eq!(ours.code, theirs.code, "{text}\n{ours:?}\n{theirs:?}");
        let has_place = ours.stderr.lines().all(|line| line.starts_with(&format!("{path}:")));
        assert!(ours.code == Some(0) || has_place, "{ours:?}");
    }
}

#[test]
fn files_of_a_comparison_of_proxies_run_unchanged() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/golden");
    for (file, expected) in [
        ("twemproxy/cluster.yml", "shards over 3 nodes (ketama, fnv1a_64, tag rule none)"),
        ("twemproxy/primaries.yml", "shards over 3 nodes (ketama, fnv1a_64, tag rule none)"),
        ("dynomite/single.yml", "listens on 0.0.0.0:8102"),
        ("corvus/cluster.conf", "shards as the cluster says, beginning with 127.0.0.1:6479,127.0.0.1:6481"),
        ("nginx/cluster.conf", "passes bytes from 127.0.0.1:19001 to 3 nodes: 127.0.0.1:6479"),
        ("nginx/primaries.conf", "passes bytes from 127.0.0.1:19001 to 3 nodes: 127.0.0.1:6479"),
        ("predixy/predixy.conf", "shards over 2 nodes (modulo, crc16-redis, tag rule {})"),
        ("predixy/cluster.conf", "reads from zone"),
        ("haproxy/haproxy.cfg", "passes bytes from [::1]:7000 to 2 nodes"),
        ("nginx/nginx.conf", "passes bytes from 0.0.0.0:6380 to 2 nodes: 10.0.0.1:6379 10.0.0.2:6379"),
    ] {
        let path = format!("{golden}/{file}");
        let checked = shardis_with("check", &path);
        assert_eq!(checked.code, Some(0), "{file}: {checked:?}");
        assert!(checked.stdout.contains(expected), "{file}: {checked:?}");
        assert!(checked.stdout.contains(&format!("not carried over: {path}:")), "{file}: {checked:?}");

        let imported = shardis_with("import", &path);
        assert_eq!(imported.code, Some(0), "{file}: {imported:?}");
        assert!(imported.stderr.contains("not carried over, listed at the end"), "{file}: {imported:?}");
        // The result is a file of its own, and means the same.
        let directory = Directory::new();
        let again = shardis_with("check", &directory.write("shardis.toml", &imported.stdout));
        assert_eq!(again.code, Some(0), "{file}: {again:?}");
        assert!(again.stdout.contains(expected), "{file}: {again:?}");
    }
}

#[test]
fn passwords_and_a_socket_of_a_nutcracker_file_hold() {
    let node = RedisServer::start();
    assert_eq!(
        show(&node.connect().command(&[b"CONFIG", b"SET", b"requirepass", b"a ${HOME}"])),
        "+OK\\r\\n"
    );
    let directory = Directory::new();
    let socket = directory.path("s.sock");
    let text = format!(
        "p:\n  listen: {} 0600\n  redis: true\n  redis_auth: \"a ${{HOME}}\"\n  servers:\n   - 127.0.0.1:{}:1\n",
        socket.display(),
        node.port
    );
    let path = directory.write("nutcracker.yml", &text);
    let port = free_ports(1)[0];
    let proxy = Proxy::start(&[&format!("--config={path}"), &format!("--listener=127.0.0.1:{port}")]);
    let mut client = Client::connect(port);
    assert!(client.ask("GET a").starts_with("-NOAUTH"), "{}", proxy.output());
    assert_eq!(show(&client.command(&[b"AUTH", b"a ${HOME}"])), "+OK\\r\\n");
    assert_eq!(client.ask("SET a 1"), "+OK\\r\\n", "{}", proxy.output());
    assert!(!proxy.output().contains("${HOME}"), "{}", proxy.output());
    let imported = shardis_with("import", &path);
    assert!(imported.stdout.contains("# line 4: redis_auth (secret)"), "{imported:?}");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&socket).expect("the socket is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_that_cannot_be_served_is_refused_with_the_reason() {
    let directory = Directory::new();
    let pools = "a:\n  listen: 127.0.0.1:7\n  redis: true\n  servers:\n   - h:1:1\nb:\n  listen: 127.0.0.1:2\n  redis: true\n  \
                 servers:\n   - h:2:1\n";
    for (name, text, line, reason) in [
        (
            "random.yml",
            pools.replacen("a:\n", "a:\n  distribution: random\n", 1),
            ":2:3",
            "a key would live anywhere",
        ),
        ("memcache.yml", pools.replacen("true", "false", 1), ":3:3", "memcache's protocol"),
        (
            "ring.yml",
            "d:\n  dyn_seeds:\n   - a:1:r:d:1\n  listen: 127.0.0.1:1\n  servers:\n   - h:1:1\n".into(),
            ":2:3",
            "copies",
        ),
        (
            "proxy.toml",
            "product_name = 'a'\nproxy_addr = '127.0.0.1:19000'\n".into(),
            "",
            "codis keeps its nodes",
        ),
        (
            "haproxy.cfg",
            "listen a\n bind :1\n tcp-check expect string role:master\n server a 10.0.0.1:1 check\n".into(),
            ":3:2",
            "finds the primary",
        ),
    ] {
        let path = directory.write(name, &text);
        for finished in
            [refused_start(&path, &[]), shardis_with("check", &path), shardis_with("import", &path)]
        {
            assert_eq!(finished.code, Some(1), "{name}: {finished:?}");
            let is_said = |said: &str| said.contains(&format!("{path}{line}: ")) && said.contains(reason);
            assert!(finished.stderr.lines().any(is_said), "{name}: {finished:?}");
        }
        let imported = shardis_with("import", &path);
        assert!(imported.stdout.starts_with(&format!("# From {path}, a file of ")), "{imported:?}");
    }
    let imported = shardis_with("import", &directory.write("pools.yml", pools));
    assert_eq!(imported.stdout.matches("[[pool]]\nname = ").count(), 2, "{imported:?}");
    let checked = shardis_with("check", &directory.write("pools.yml", &pools.replace("h:", "127.0.0.1:")));
    assert_eq!(checked.code, Some(0), "{checked:?}");
    for pool in ["pool a: shards over 1 node", "pool b: shards over 1 node"] {
        assert!(checked.stdout.contains(pool), "{checked:?}");
    }
    let none = shardis_with("import", &directory.write("shardis.toml", "port = 1\n"));
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.stderr.contains("the content is that of no file of twemproxy, dynomite"), "{none:?}");
}

#[test]
fn a_file_of_twemproxy_with_two_pools_runs_as_it_is() {
    let nodes = [RedisServer::start(), RedisServer::start()];
    let (ports, directory) = (free_ports(2), Directory::new());
    let pool = |name: &str, port: u16, node: &RedisServer| {
        format!(
            "{name}:\n  listen: 127.0.0.1:{port}\n  redis: true\n  servers:\n   - 127.0.0.1:{}:1\n",
            node.port
        )
    };
    let text = pool("orders", ports[0], &nodes[0]) + &pool("carts", ports[1], &nodes[1]);
    let path = directory.write("nutcracker.yml", &text);
    let process = started(&path);
    for (port, value) in ports.iter().zip(["1", "2"]) {
        let answer = Client::connect(*port).ask(&format!("SET k {value}"));
        assert_eq!(answer, "+OK\\r\\n", "{}", process.output());
    }
    let values = nodes.each_ref().map(|node| node.connect().ask("GET k"));
    assert_eq!(values, ["$1\\r\\n1\\r\\n", "$1\\r\\n2\\r\\n"]);
}

#[test]
fn a_file_of_codis_runs_with_nodes_of_the_command_line() {
    let nodes = [RedisServer::start(), RedisServer::start()];
    let directory = Directory::new();
    let text = "product_name = 'a'\nproxy_addr = '127.0.0.1:19000'\nsession_auth = 'secret'\nproxy_max_clients = 3\n";
    let path = directory.write("proxy.toml", text);
    let nodes = format!("--nodes=127.0.0.1:{},127.0.0.1:{}", nodes[0].port, nodes[1].port);
    let proxy = Proxy::start(&[&format!("--config={path}"), "--port=0", &nodes]);
    let mut client = Client::connect(proxy.port);
    assert_eq!((client.ask("AUTH secret"), client.ask("SET a 1")), ("+OK\\r\\n".into(), "+OK\\r\\n".into()));
    assert!(proxy.output().contains("modulo, crc32a, tag rule codis"), "{}", proxy.output());
}

#[test]
fn a_refused_value_has_its_place_in_the_other_file() {
    let directory = Directory::new();
    let text =
        "p:\n  listen: 127.0.0.1:1\n  redis: true\n  servers:\n   - 127.0.0.1:6379:1 a\n   - h!:6379:1\n";
    let path = directory.write("nutcracker.yml", text);
    let checked = shardis_with("check", &path);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    assert!(checked.stderr.starts_with(&format!("{path}:6:6: nodes: ")), "{checked:?}");
}

#[test]
fn passwords_of_predixy_are_users_with_its_modes_and_prefixes() {
    let (node, port, directory) = (RedisServer::start(), free_ports(1)[0], Directory::new());
    let text = format!(
        "Bind 127.0.0.1:{port}
Authority {{
    Auth {{
        Mode read
        KeyPrefix open:
    }}
    Auth \"a reader\" {{
        Mode read
    }}
    Auth writer {{
        Mode write
        ReadKeyPrefix Info Cart
        WriteKeyPrefix Cart
    }}
    Auth admin {{
        Mode admin
    }}
}}
StandaloneServerPool {{
    RefreshMethod fixed
    Group only {{
        + 127.0.0.1:{}
    }}
}}
",
        node.port
    );
    let path = directory.write("predixy.conf", &text);
    let printed = shardis_with("import", &path).stdout;
    assert!(!printed.contains("writer") && printed.contains("user-by-password = true"), "{printed}");
    let _process = started(&path);
    node.connect().ask("MSET open:1 a Info1 b Cart1 c other d");
    let mut client = poll_until("the listener", || Client::try_connect(port));
    let permitted = |client: &mut Client, lines: &[&str]| {
        for line in lines {
            let reply = client.ask(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
    };
    let refused = |client: &mut Client, lines: &[&str]| {
        for line in lines {
            let reply = client.ask(line);
            assert!(reply.starts_with("-NOPERM "), "{line}: {reply}");
        }
    };
    permitted(&mut client, &["PING", "GET open:1", "INFO"]);
    refused(&mut client, &["GET other", "SET open:1 x", "PUBLISH c m"]);
    assert!(client.ask("AUTH wrong").starts_with("-WRONGPASS "));
    assert_eq!(client.command(&[b"AUTH", b"a reader"]), b"+OK\r\n");
    permitted(&mut client, &["GET other", "SELECT 0"]);
    refused(&mut client, &["SET other x", "DEL open:1", "FLUSHALL"]);
    assert_eq!(client.ask("AUTH writer"), "+OK\\r\\n");
    permitted(&mut client, &["GET Info1", "GET Cart1", "SET Cart2 x", "DEL Cart2"]);
    refused(&mut client, &["GET other", "SET Info1 x", "FLUSHALL"]);
    assert!(client.ask("HELLO 3 AUTH default admin").starts_with('%'));
    permitted(&mut client, &["SET other x", "GET Info1"]);
    assert_eq!(client.ask("ACL WHOAMI"), "$6\\r\\nauth-4\\r\\n");
    client.ask("RESET");
    refused(&mut client, &["GET other"]);
}
