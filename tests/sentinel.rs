//! Primaries that real sentinels watch, behind the proxy. They are found by name and followed through failovers, and a demoted
//! one gets no writes any more.

use crate::harness::certificates::{Authority, Directory, identity_flags};
use crate::harness::local::{Local, follows, is_primary, kill_node};
use crate::harness::processes::{Process, Proxy, RedisServer, free_port};
use crate::harness::{Client, PATIENCE, number_from_env, poll_for, poll_until, server};
use std::process::Command;
use std::time::Instant;

/// Two sets of a primary and its replica, and three sentinels. On a busy machine, less than two seconds of silence would mean
/// nothing.
const SETS: [&str; 3] = ["--sets=2", "--sentinel", "--failover-ms=2000"];

fn proxy(sentinels: &str, names: &str, flags: &[&str]) -> Proxy {
    let (sentinels, names) = (format!("--sentinel={sentinels}"), format!("--master={names}"));
    let usual = [sentinels.as_str(), names.as_str(), "--host=127.0.0.1", "--port=0"];
    Proxy::start(&[&usual, flags].concat())
}

fn says(proxy: &Proxy, text: &str) {
    poll_until(text, || proxy.output().contains(text).then_some(()));
}

fn serves(client: &mut Client, key: &str) {
    poll_until("an answer", || (client.ask(&format!("SET {key} x")) == "+OK\\r\\n").then_some(()));
}

/// Keys of both shards.
fn serves_all(client: &mut Client) {
    (0..32).for_each(|number| serves(client, &format!("key{number}")));
}

fn size(port: u16) -> String {
    Client::connect(port).ask("DBSIZE")
}

/// The port of the primary called `name`, as a sentinel sees it.
fn primary(sentinel: u16, name: &str) -> u16 {
    let reply = Client::connect(sentinel).ask(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {name}"));
    reply.split("\\r\\n").nth(4).expect("a port").parse().expect("a number")
}

#[test]
fn the_order_of_names_decides_and_not_where_they_run() {
    let local = Local::start(&SETS);
    let (nodes, sentinels) = (local.ports("nodes"), local.addresses_of("sentinels"));
    // The order of plain nodes: the second set first.
    let there = proxy(&sentinels, "set-1,set-0", &[]);
    let mut client = Client::connect(there.port);
    serves_all(&mut client);
    let expected: Vec<String> = [nodes[2], nodes[0]].map(size).to_vec();
    assert!(!expected.contains(&":0\\r\\n".to_owned()), "{expected:?}");
    drop(client);
    drop(there);
    let plain = Proxy::start(&[
        &format!("--nodes=127.0.0.1:{},127.0.0.1:{}", nodes[2], nodes[0]),
        "--host=127.0.0.1",
        "--port=0",
    ]);
    let mut client = Client::connect(plain.port);
    for number in 0..32 {
        assert_eq!(client.ask(&format!("GET key{number}")), "$1\\r\\nx\\r\\n", "key{number}");
    }
}

#[test]
fn a_killed_primary_is_replaced_and_no_key_moves() {
    let local = Local::start(&SETS);
    let (nodes, sentinels) = (local.ports("nodes"), local.ports("sentinels"));
    let proxy = proxy(&local.addresses_of("sentinels"), "set-0,set-1", &[]);
    let mut client = Client::connect(proxy.port);
    serves_all(&mut client);
    let mut gaps = Vec::new();
    let mut revived = Vec::new();
    for _ in 0..number_from_env("SHARDIS_FAILOVERS", 2) {
        let old = primary(sentinels[0], "set-0");
        let heir = nodes[..2].iter().copied().find(|port| *port != old).expect("there are two");
        follows(heir);
        // Sentinels look at replicas every ten seconds, and promote only those with a good report.
        let is_known = || {
            let replicas = Client::connect(sentinels[0]).ask("SENTINEL REPLICAS set-0");
            replicas.contains("master-link-status\\r\\n$2\\r\\nok").then_some(())
        };
        poll_for(3 * PATIENCE, is_known).expect("sentinels know the replica");
        kill_node(old);
        // Sentinels hear of it up to a second later.
        poll_until("a promotion", || is_primary(heir).then_some(()));
        let promoted_at = Instant::now();
        // Of either shard: one of them is the one that failed over.
        serves_all(&mut client);
        gaps.push(promoted_at.elapsed());
        // Sentinels would take up to twenty seconds to tell it its primary.
        revived.push(local.revive(old, &["--replicaof", "127.0.0.1", &heir.to_string()]));
        follows(old);
        // Otherwise the next round would ask one that does not know of it.
        poll_until("all sentinels to agree", || {
            sentinels.iter().all(|&sentinel| primary(sentinel, "set-0") == heir).then_some(())
        });
    }
    gaps.sort();
    eprintln!(
        "from the promotion to answers for all keys, {} times: median {:?}, longest {:?}",
        gaps.len(),
        gaps[gaps.len() / 2],
        gaps[gaps.len() - 1]
    );
    for number in 0..32 {
        assert_eq!(client.ask(&format!("GET key{number}")), "$1\\r\\nx\\r\\n", "key{number}");
    }
}

#[test]
fn ordered_failover_loses_no_replicated_write() {
    let local = Local::start(&["--sets=1", "--sentinel", "--failover-ms=2000"]);
    let (nodes, sentinels) = (local.ports("nodes"), local.ports("sentinels"));
    let proxy = proxy(&local.addresses_of("sentinels"), "set-0", &[]);
    let mut client = Client::connect(proxy.port);
    serves(&mut client, "before");
    poll_until("an ordered failover", || {
        (Client::connect(sentinels[1]).ask("SENTINEL FAILOVER set-0") == "+OK\\r\\n").then_some(())
    });
    poll_until("the sentinels' agreement", || {
        sentinels.iter().all(|&sentinel| primary(sentinel, "set-0") == nodes[1]).then_some(())
    });
    serves(&mut client, "after");
    says(&proxy, &format!("is 127.0.0.1:{}", nodes[1]));
    follows(nodes[0]);
    // The old one is made a primary again by hand: no request goes there while sentinels name another.
    assert_eq!(Client::connect(nodes[0]).ask("REPLICAOF NO ONE"), "+OK\\r\\n");
    let mut count = 0;
    poll_until("the sentinels to put that right", || {
        count += 1;
        assert_eq!(client.ask(&format!("SET since{count} x")), "+OK\\r\\n");
        (!is_primary(nodes[0])).then_some(())
    });
    assert_eq!(Client::connect(nodes[1]).ask(&format!("EXISTS since{count}")), ":1\\r\\n");
}

#[test]
fn a_replica_that_was_made_a_primary_by_mistake_gets_no_write() {
    let local = Local::start(&["--sets=1", "--sentinel", "--failover-ms=2000"]);
    let nodes = local.ports("nodes");
    let proxy = proxy(&local.addresses_of("sentinels"), "set-0", &[]);
    let mut client = Client::connect(proxy.port);
    serves(&mut client, "before");
    follows(nodes[1]);
    assert_eq!(Client::connect(nodes[1]).ask("REPLICAOF NO ONE"), "+OK\\r\\n");
    let mut count = 0;
    poll_for(3 * PATIENCE, || {
        count += 1;
        assert_eq!(client.ask(&format!("SET since{count} x")), "+OK\\r\\n");
        let mut mistaken = Client::try_connect(nodes[1])?;
        let keys = mistaken.try_command(&[b"DBSIZE"]).ok()?;
        let is_put_right = !is_primary(nodes[1]);
        assert!(is_put_right || keys == b":1\r\n", "{}", keys.escape_ascii());
        is_put_right.then_some(())
    })
    .expect("sentinels put that right");
}

#[test]
fn discovered_sentinels_replace_the_named_one() {
    let local = Local::start(&["--sets=1", "--sentinel", "--failover-ms=2000"]);
    let (nodes, sentinels) = (local.ports("nodes"), local.ports("sentinels"));
    let proxy = proxy(&format!("127.0.0.1:{}", sentinels[0]), "set-0", &[]);
    let mut client = Client::connect(proxy.port);
    serves(&mut client, "before");
    follows(nodes[1]);
    kill_node(sentinels[0]);
    kill_node(nodes[0]);
    poll_for(3 * PATIENCE, || is_primary(nodes[1]).then_some(())).expect("the other two replace it");
    serves(&mut client, "after");
    assert_eq!(Client::connect(nodes[1]).ask("EXISTS before after"), ":2\\r\\n");
}

#[test]
fn sentinels_are_reached_by_tls_and_by_unix_socket() {
    let (directory, authority) = (Directory::new(), Authority::new());
    let ca = directory.write("ca.crt", &authority.certificate);
    let identity = identity_flags(&directory, "", "node", &authority.sign(&["127.0.0.1"]));
    let [certificate, key] = identity.map(|flag| flag.split_once('=').expect("a value").1.to_owned());
    let tls_port = free_port();
    let options = format!(
        "--tls-port {tls_port} --tls-cert-file {certificate} --tls-key-file {key} --tls-ca-cert-file {ca} \
         --tls-auth-clients no"
    );
    let node = RedisServer::start_with(&options.split(' ').collect::<Vec<_>>());
    let (port, socket) = (free_port(), directory.path("sentinel"));
    let lines = format!(
        "port 0\ntls-port {port}\ntls-cert-file {certificate}\ntls-key-file {key}\ntls-ca-cert-file {ca}\n\
         tls-auth-clients no\ntls-replication yes\nunixsocket {}\n",
        socket.display()
    );
    let _sentinel = sentinel(&directory, &lines, tls_port);
    let tls = ["--node-tls", "--sentinel-tls", &format!("--node-tls-ca-cert-file={ca}")];
    for (at, key) in [(format!("127.0.0.1:{port}"), "a"), (format!("unix:{}", socket.display()), "b")] {
        let proxy = proxy(&at, "one", &tls);
        serves(&mut Client::connect(proxy.port), key);
        assert_eq!(node.connect().ask(&format!("EXISTS {key}")), ":1\\r\\n");
    }
}

/// One names a primary of another set, the other a replica.
#[test]
fn sentinels_in_the_minority_are_not_believed() {
    let local = Local::start(&["--sets=1", "--sentinel", "--failover-ms=2000"]);
    let (nodes, sentinels) = (local.ports("nodes"), local.addresses_of("sentinels"));
    let (foreign, directory) = (RedisServer::start(), Directory::new());
    let mut liars = Vec::new();
    let mut addresses = String::new();
    for (number, port) in [foreign.port, nodes[1]].into_iter().enumerate() {
        let own = free_port();
        liars.push(sentinel_of(
            &directory,
            &format!("liar-{number}"),
            &format!("port {own}\n"),
            ("set-0", port),
        ));
        poll_until("the sentinel", || Client::try_connect(own));
        addresses += &format!("127.0.0.1:{own},");
    }
    let proxy = proxy(&format!("{addresses}{sentinels}"), "set-0", &[]);
    let mut client = Client::connect(proxy.port);
    poll_for(3 * PATIENCE, || (client.ask("SET before x") == "+OK\\r\\n").then_some(()))
        .expect("most sentinels agree");
    for number in 0..1_000 {
        assert_eq!(client.ask(&format!("SET key{number} x")), "+OK\\r\\n");
    }
    assert_eq!((size(foreign.port), size(nodes[0])), (":0\\r\\n".to_owned(), ":1001\\r\\n".to_owned()));
    drop(liars);
}

/// A sentinel that watches the node at `port` as `one`, configured by `lines`.
fn sentinel(directory: &Directory, lines: &str, port: u16) -> Process {
    sentinel_of(directory, "sentinel", lines, ("one", port))
}

/// A sentinel that watches a node, by its name and port, configured by `lines` in a file called `file`.
fn sentinel_of(directory: &Directory, file: &str, lines: &str, (name, port): (&str, u16)) -> Process {
    let lines = format!("bind 127.0.0.1\n{lines}sentinel monitor {name} 127.0.0.1 {port} 1\n");
    let mut command = Command::new(server::program());
    let file = directory.write(&format!("{file}.conf"), &lines);
    command.args([&file, "--sentinel"]).current_dir(std::env::temp_dir());
    Process::spawn(command, "redis-server")
}

#[test]
fn sentinels_with_credentials_work_beside_a_missing_one() {
    let directory = Directory::new();
    let primary = RedisServer::start();
    let port = free_port();
    let lines = format!("port {port}\nuser default off\nuser shardis on >secret ~* &* +@all\n");
    let _sentinel = sentinel(&directory, &lines, primary.port);
    let password = directory.write("password", "secret\n");
    let flags = [&format!("--sentinel-auth-file={password}"), "--sentinel-user=shardis"];
    let nobody = free_port();
    let proxy = proxy(&format!("127.0.0.1:{nobody},127.0.0.1:{port}"), "one", &flags);
    let mut client = Client::connect(proxy.port);
    serves(&mut client, "key");
    assert_eq!(primary.connect().ask("EXISTS key"), ":1\\r\\n");
    assert!(!proxy.output().contains("secret"), "{}", proxy.output());
    says(&proxy, &format!("address=127.0.0.1:{nobody} reason=\"connection refused\""));
}

#[test]
fn another_password_for_sentinels_is_used_after_a_hang_up() {
    let directory = Directory::new();
    let primary = RedisServer::start();
    let port = free_port();
    let lines = format!("port {port}\nuser default on >right ~* &* +@all\n");
    let _sentinel = sentinel(&directory, &lines, primary.port);
    let password = directory.write("password", "wrong\n");
    let flag = format!("--sentinel-auth-file={password}");
    let proxy = proxy(&format!("127.0.0.1:{port}"), "one", &[&flag]);
    says(&proxy, "WRONGPASS");
    directory.write("password", "right\n");
    proxy.signal("HUP");
    says(&proxy, "secrets reloaded");
    says(&proxy, "topology discovered");
    let mut client = Client::connect(proxy.port);
    serves(&mut client, "key");
}

#[test]
fn unknown_primary_name_is_logged_and_others_serve() {
    let local = Local::start(&["--sets=1", "--sentinel"]);
    let proxy = proxy(&local.addresses_of("sentinels"), "set-0,nonsense", &[]);
    let mut client = Client::connect(proxy.port);
    says(&proxy, "primary unknown to sentinel");
    says(&proxy, "topology discovered");
    let answers: Vec<String> = (0..32).map(|number| client.ask(&format!("SET key{number} x"))).collect();
    let refusal = "-TRYAGAIN shard nonsense unavailable: it has no primary at the moment\\r\\n";
    assert!(answers.iter().any(|answer| answer == "+OK\\r\\n"), "{answers:?}");
    assert!(answers.iter().any(|answer| answer == refusal), "{answers:?}");
}
