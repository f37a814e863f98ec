//! A real Redis Cluster behind the proxy. It is found by one seed, and stays known while nodes die, are replaced, come and go.
//!
//! `SHARDIS_FAILOVERS=20` makes the test of failovers longer; its measurements are printed.

use crate::harness::certificates::{Authority, Directory, identity_flags, text};
use crate::harness::local::{Local, follows, is_primary, kill_node, order_failover, role};
use crate::harness::network::Network;
use crate::harness::processes::{Process, Proxy, RedisServer, free_port, run};
use crate::harness::{Client, PATIENCE, number_from_env, poll_until, server};
use std::process::Command;
use std::time::Instant;

/// Nodes fail over after a second of silence.
const CLUSTER: [&str; 2] = ["--cluster=6", "--failover-ms=1000"];

/// A proxy that knows these nodes of a cluster.
fn proxy(seeds: &[u16], flags: &[&str]) -> Proxy {
    let seeds: Vec<String> = seeds.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let seeds = format!("--cluster={}", seeds.join(","));
    let usual = [seeds.as_str(), "--host=127.0.0.1", "--port=0"];
    Proxy::start(&[&usual, flags].concat())
}

/// Waits until requests for `key` are served.
fn serves(client: &mut Client, key: &str) {
    poll_until("an answer", || (client.ask(&format!("SET {key} x")) == "+OK\\r\\n").then_some(()));
}

/// Waits until the proxy has said `text`.
fn says(proxy: &Proxy, text: &str) {
    poll_until(text, || proxy.output().contains(text).then_some(()));
}

fn redis_cli(args: &[&str]) {
    let mut command = Command::new("redis-cli");
    command.args(args);
    let finished = run(command);
    assert_eq!(finished.code, Some(0), "redis-cli {args:?}: {finished:?}");
}

fn slot_of(client: &mut Client, key: &str) -> u16 {
    let slot = client.ask(&format!("CLUSTER KEYSLOT {key}"));
    slot.trim_matches([':', '\\', 'r', 'n']).parse().expect("a slot")
}

/// The node that has the slot of `key`, as the node at `port` sees it.
fn owner(port: u16, key: &str) -> u16 {
    let mut client = Client::connect(port);
    let slot = slot_of(&mut client, key);
    let nodes = client.ask("CLUSTER NODES");
    let has_slot = |line: &&str| {
        line.split(' ').skip(8).any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
        })
    };
    let lines: Vec<&str> = nodes.split("\\n").map(|line| line.trim_end_matches("\\r")).collect();
    let line = lines.iter().find(|line| has_slot(line)).expect("somebody has it");
    port_in(line)
}

/// `id 127.0.0.1:port@…` → port
fn port_in(line: &str) -> u16 {
    let address = line.split(' ').nth(1).expect("an address");
    address.split(['@', ':']).nth(1).expect("a port").parse().expect("a number")
}

#[test]
fn one_seed_is_enough_whichever_node_it_is() {
    let local = Local::start(&CLUSTER);
    let nodes = local.ports("nodes");
    // The last is a replica. Of the two seeds, one does not exist.
    let proxy = proxy(&[free_port(), nodes[5]], &[]);
    says(&proxy, "topology discovered");
    let mut client = Client::connect(proxy.port);
    for number in 0..200 {
        assert_eq!(client.ask(&format!("SET key{number} {number}")), "+OK\\r\\n");
    }
    let sizes = nodes[..3].iter().map(|&port| Client::connect(port).ask("DBSIZE"));
    assert!(sizes.into_iter().all(|size| size != ":0\\r\\n"));
    let info = client.ask("INFO nodes");
    for part in ["shards:3", "discovery_refusals:0", "slots as the cluster gives them"] {
        assert!(info.contains(part), "{part}: {info}");
    }
}

#[test]
fn killed_cluster_primary_is_replaced_at_once() {
    let local = Local::start(&CLUSTER);
    let nodes = local.ports("nodes");
    let proxy = proxy(&nodes, &[]);
    let mut client = Client::connect(proxy.port);
    serves(&mut client, "key");
    let (mut revived, mut gaps) = (Vec::new(), Vec::new());
    for _ in 0..number_from_env("SHARDIS_FAILOVERS", 2) {
        let (primary, heir) = primary_and_heir(&nodes, "key");
        kill_node(primary);
        poll_until("a promotion", || is_primary(heir).then_some(()));
        let promoted_at = Instant::now();
        serves(&mut client, "key");
        gaps.push(promoted_at.elapsed());
        assert_eq!(owner(heir, "key"), heir);
        revived.push(local.revive(primary, &[]));
        follows(primary);
    }
    gaps.sort();
    eprintln!(
        "from promotion to the first answer, {} times: median {:?}, longest {:?}",
        gaps.len(),
        gaps[gaps.len() / 2],
        gaps[gaps.len() - 1]
    );
    assert!(proxy.output().contains("slots (the first is"), "{}", proxy.output());
}

/// The primary that has `key`, and a replica that has its data, once the first of `nodes` knows them. That node learns of a
/// failover some time after the promoted one.
fn primary_and_heir(nodes: &[u16], key: &str) -> (u16, u16) {
    poll_until("a primary with a replica in step", || {
        let primary = owner(nodes[0], key);
        let is_replica = |node: &u16| {
            let role = role(*node).unwrap_or_default();
            role.contains("slave")
                && role.contains(&format!("\\r\\n:{primary}\\r\\n"))
                && role.contains("connected")
        };
        nodes.iter().copied().find(is_replica).map(|heir| (primary, heir))
    })
}

#[test]
fn a_failover_that_was_ordered_is_followed() {
    let local = Local::start(&CLUSTER);
    let nodes = local.ports("nodes");
    let proxy = proxy(&nodes[..1], &[]);
    let mut client = Client::connect(proxy.port);
    serves(&mut client, "key");
    let (primary, heir) = primary_and_heir(&nodes, "key");
    order_failover(heir);
    serves(&mut client, "key");
    says(&proxy, &format!("moved from 127.0.0.1:{primary} to 127.0.0.1:{heir}"));
}

#[test]
fn nodes_come_and_go_while_it_runs() {
    let local = Local::start(&CLUSTER);
    let nodes = local.ports("nodes");
    let proxy = proxy(&nodes[..1], &["--refresh-period-ms=500"]);
    let mut client = Client::connect(proxy.port);
    let mut first = Client::connect(nodes[0]);
    let key = (0..).map(|number| format!("k{number}")).find(|key| slot_of(&mut first, key) < 100);
    let key = key.expect("there is one").as_str().to_owned();
    serves(&mut client, &key);
    // The first slots go to a new node, with the key.
    let directory = Directory::new();
    let config = format!("--cluster-config-file {}", directory.path("nodes.conf").display());
    let options: Vec<&str> =
        config.split(' ').chain(["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]).collect();
    let newcomer = start_cluster_node(&options);
    let at = |port: u16| format!("127.0.0.1:{port}");
    redis_cli(&["--cluster", "add-node", &at(newcomer.port), &at(nodes[0])]);
    let primary = owner(nodes[0], &key);
    let id = |port: u16| {
        let id = Client::connect(port).ask("CLUSTER MYID");
        id.split("\\r\\n").nth(1).expect("40 letters").to_owned()
    };
    let (from, to) = (id(primary), id(newcomer.port));
    let all_know = |nodes: &[u16]| {
        poll_until("all to know the newcomer", || {
            nodes.iter().all(|&port| Client::connect(port).ask("CLUSTER NODES").contains(&to)).then_some(())
        });
    };
    all_know(&nodes);
    // For its first two seconds it takes no keys.
    poll_until("the newcomer to serve", || {
        Client::connect(newcomer.port).ask("CLUSTER INFO").contains("cluster_state:ok").then_some(())
    });
    let reshard = |from: &str, to: &str| {
        redis_cli(&[
            "--cluster",
            "reshard",
            &at(nodes[0]),
            "--cluster-from",
            from,
            "--cluster-to",
            to,
            "--cluster-slots",
            "100",
            "--cluster-yes",
        ]);
    };
    reshard(&from, &to);
    assert_eq!(owner(newcomer.port, &key), newcomer.port);
    serves(&mut client, &key);
    says(&proxy, &format!("to 127.0.0.1:{}", newcomer.port));
    // And back; the newcomer leaves.
    poll_until("all to agree", || {
        let mut check = Command::new("redis-cli");
        check.args(["--cluster", "check", &at(nodes[0])]);
        run(check).stdout.contains("All nodes agree about slots configuration").then_some(())
    });
    reshard(&to, &from);
    redis_cli(&["--cluster", "del-node", &at(nodes[0]), &to]);
    drop(newcomer);
    serves(&mut client, &key);
    poll_until("three shards again", || client.ask("INFO nodes").contains("shards:3").then_some(()));
    poll_until("the key to be back", || (owner(nodes[0], &key) == primary).then_some(()));
}

/// A node without a cluster, at a port whose bus has a free port too.
fn start_cluster_node(options: &[&str]) -> RedisServer {
    // The port of the bus may be taken.
    let started = (0..64).find_map(|_| RedisServer::try_start(free_port(), options));
    started.expect("a node of a cluster starts on one of many free ports")
}

#[test]
fn requests_are_refused_until_the_cluster_is_known() {
    let plain = RedisServer::start();
    let proxy = proxy(&[plain.port], &[]);
    let mut client = Client::connect(proxy.port);
    assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    let refusal = "-TRYAGAIN shard of the cluster unavailable: it has no primary at the moment\\r\\n";
    assert_eq!(client.ask("SET key x"), refusal);
    says(
        &proxy,
        &format!("seed rejected address=127.0.0.1:{} reason=\"not a node of a Redis Cluster", plain.port),
    );
    assert_eq!(plain.connect().ask("DBSIZE"), ":0\\r\\n");
}

#[test]
fn a_node_of_another_cluster_is_refused_with_an_alarm() {
    let (ours, theirs) = (Local::start(&["--cluster=3"]), Local::start(&["--cluster=3"]));
    let (our_nodes, stranger) = (ours.ports("nodes"), theirs.ports("nodes")[0]);
    let proxy = proxy(&our_nodes, &[]);
    let mut client = Client::connect(proxy.port);
    // Slot 3300: the first node's.
    serves(&mut client, "b");
    // All of our nodes end, and a node of another cluster with the same slots gets the address of the first.
    our_nodes.iter().for_each(|&port| kill_node(port));
    kill_node(stranger);
    let directory = Directory::new();
    let config = directory.path("nodes.conf");
    std::fs::copy(theirs.folder().join("node-0/nodes.conf"), &config).expect("it is there");
    let options = ["--cluster-enabled", "yes", "--cluster-config-file", text(&config)];
    let options = [&options[..], &["--cluster-require-full-coverage", "no"]].concat();
    let impostor = poll_until("the port to be free", || RedisServer::try_start(our_nodes[0], &options));
    // The node has that slot and gets no request for it, neither before its state is known nor afterwards.
    poll_until("refusals", || {
        let said = client.ask("SET b y");
        assert!(said.starts_with('-'), "{said}");
        said.contains("it has no primary at the moment").then_some(())
    });
    let asked = impostor.connect().ask("INFO commandstats");
    assert!(asked.contains("cmdstat_ping") && !asked.contains("cmdstat_set"), "{asked}");
    says(&proxy, "foreign cluster rejected");
    assert!(proxy.output().contains(&format!("address=127.0.0.1:{}", our_nodes[0])), "{}", proxy.output());
}

#[test]
fn a_cluster_with_tls_and_a_password_is_found() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let identity = authority.sign(&["127.0.0.1"]);
    let [certificate, key] = identity_flags(&directory, "", "node", &identity);
    let authority_file = directory.write("ca.crt", &authority.certificate);
    let password = directory.write("password", "secret\n");
    let tls = |flag: &str| flag.split_once('=').expect("a value").1.to_owned();
    let (certificate, key) = (tls(&certificate), tls(&key));
    let config = directory.path("nodes.conf").display().to_string();
    let start = |port: u16| {
        let mut command = Command::new(server::program());
        command.args(["--port", "0", "--tls-port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args([
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &authority_file,
        ]);
        command.args(["--tls-auth-clients", "no", "--tls-cluster", "yes", "--requirepass", "secret"]);
        command.args(["--cluster-enabled", "yes", "--cluster-config-file", &config, "--dir"]);
        command.arg(directory.path(""));
        Process::spawn(command, "redis-server")
    };
    let port = free_port();
    let _node = start(port);
    let cli = |args: &[&str]| {
        let port = port.to_string();
        let usual = ["-p", &port, "--tls", "--cacert", &authority_file, "-a", "secret", "--no-auth-warning"];
        let mut command = Command::new("redis-cli");
        command.args(usual).args(args);
        run(command).stdout
    };
    poll_until("the node", || (cli(&["PING"]) == "PONG\n").then_some(()));
    // All at once: ADDSLOTSRANGE is of Redis 7.0.
    let slots: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
    let words: Vec<&str> =
        ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
    assert_eq!(cli(&words), "OK\n");
    let flags = [
        "--node-tls",
        &format!("--node-tls-ca-cert-file={authority_file}"),
        &format!("--node-auth-file={password}"),
    ];
    let proxy = proxy(&[port], &flags);
    let mut client = Client::connect(proxy.port);
    serves(&mut client, "key");
    assert_eq!(cli(&["GET", "key"]), "x\n");
}

#[test]
fn a_primary_that_is_cut_off_is_replaced() {
    let Some(network) = Network::new(4) else { return };
    let directory = Directory::new();
    let nodes: Vec<Process> = (0..4).map(|number| start_in(&network, number, &directory)).collect();
    poll_until("the nodes", || (0..4).all(|number| network.cli(number, &["PING"]) == "PONG\n").then_some(()));
    // Three primaries, and a replica of the first.
    let all: Vec<String> = (0..3).map(|number| format!("{}:6379", network.address(number))).collect();
    let create: Vec<&str> = ["--cluster", "create"]
        .into_iter()
        .chain(all.iter().map(String::as_str))
        .chain(["--cluster-yes"])
        .collect();
    network.cli(0, &create);
    let id = network.cli(0, &["CLUSTER", "MYID"]).trim().to_owned();
    let (new, old) = (format!("{}:6379", network.address(3)), format!("{}:6379", network.address(0)));
    poll_until("the replica to be taken in", || {
        network.cli(0, &["--cluster", "add-node", &new, &old, "--cluster-slave", "--cluster-master-id", &id]);
        network.cli(3, &["ROLE"]).contains("connected").then_some(())
    });
    poll_until("a cluster that all agree on", || {
        (0..4)
            .all(|number| network.cli(number, &["CLUSTER", "INFO"]).contains("cluster_state:ok"))
            .then_some(())
    });
    let seeds = format!("--cluster={},{}", all[1], all[0]);
    // Short for requests to the isolated node, and long enough for the others on a loaded machine.
    let patience = ["--request-timeout-ms=1500", "--connect-timeout-ms=1500"];
    let proxy = Proxy::start(&[&[seeds.as_str(), "--host=127.0.0.1", "--port=0"], &patience[..]].concat());
    let mut client = Client::connect(proxy.port);
    let keys = ["b", "foo", "hello"];
    keys.iter().for_each(|key| serves(&mut client, key));
    // Slot 3300 of b belongs to the first node. The node is isolated without notice.
    network.cut_off(0);
    let cut_at = Instant::now();
    let heir_is_primary = || network.cli(3, &["ROLE"]).starts_with("master").then_some(());
    // The other shards are served meanwhile, and clients of the lost one do not give up.
    let mut others = Client::connect(proxy.port);
    while heir_is_primary().is_none() {
        assert_eq!(others.ask("SET foo x"), "+OK\\r\\n");
        client.ask("SET b x");
        assert!(cut_at.elapsed() < PATIENCE, "no promotion: {}", network.cli(3, &["CLUSTER", "NODES"]));
    }
    let promoted_at = Instant::now();
    serves(&mut client, "b");
    eprintln!(
        "cut off: promoted after {:?}, served again {:?} later",
        promoted_at - cut_at,
        promoted_at.elapsed()
    );
    // The node comes back, still believes to be the primary for a moment, and reverts nothing.
    network.join_again(0);
    poll_until("its return as a replica", || network.cli(0, &["ROLE"]).starts_with("slave").then_some(()));
    for _ in 0..100 {
        assert_eq!(client.ask("SET b y"), "+OK\\r\\n");
    }
    assert!(!proxy.output().contains(&format!("to {}", all[0])), "{}", proxy.output());
    drop(nodes);
}

/// A node of a cluster in a namespace.
fn start_in(network: &Network, number: usize, directory: &Directory) -> Process {
    let config = directory.path(&format!("nodes-{number}.conf")).display().to_string();
    let folder = directory.path("").display().to_string();
    let options = ["--cluster-enabled", "yes", "--cluster-config-file", &config, "--dir", &folder];
    // By the third a cluster that misses one shard serves the others. By the last a replica may be promoted however old its
    // data is: on a busy machine it counts as too old.
    let usual = "--cluster-node-timeout 1000 --repl-diskless-sync-delay 0 --cluster-require-full-coverage no --cluster-replica-validity-factor 0";
    network.start_node(number, &options.into_iter().chain(usual.split(' ')).collect::<Vec<_>>())
}
