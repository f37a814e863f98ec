//! Questions of clients about the proxy and each other, over several workers and in front of real nodes. Replies are compared
//! with those of a single Redis where it has the command.

use crate::harness::client::{Client, request};
use crate::harness::processes::{Finished, Process, Proxy, run};
use crate::harness::{RedisServer, World, poll_until, show};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

const WORKERS: &str = "--workers=3";

fn world_of_workers(shards: usize) -> World {
    World::with_flags(shards, &[WORKERS])
}

/// The text of a bulk.
#[track_caller]
fn text(client: &mut Client, words: &str) -> String {
    let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    let reply = client.command(&args);
    let body = resp::reply::as_bulk(&reply).unwrap_or_else(|| panic!("{words}: {}", show(&reply)));
    String::from_utf8(body.to_vec()).unwrap()
}

/// The value of a field of INFO.
#[track_caller]
fn field(info: &str, name: &str) -> String {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name} in {info}")).to_owned()
}

fn addr_of(client: &Client) -> String {
    client.stream().local_addr().unwrap().to_string()
}

/// The values of a field of CLIENT LIST.
fn values<'a>(list: &'a str, name: &str) -> Vec<&'a str> {
    let fields = list.lines().flat_map(|line| line.split(' '));
    fields
        .filter_map(|field| field.split_once('='))
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value)
        .collect()
}

#[test]
fn client_list_sees_the_clients_of_all_workers() {
    let world = world_of_workers(2);
    let mut clients: Vec<Client> = (0..12).map(|_| world.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("CLIENT SETNAME c{number}")), "+OK\\r\\n");
    }
    let list = text(&mut clients[5], "CLIENT LIST");
    let addrs: BTreeSet<String> = clients.iter().map(addr_of).collect();
    let listed: BTreeSet<String> = values(&list, "addr").into_iter().map(str::to_owned).collect();
    assert_eq!(listed, addrs, "{list}");
    let ids: Vec<u64> = values(&list, "id").iter().map(|id| id.parse().unwrap()).collect();
    assert!(ids.is_sorted() && ids.iter().collect::<BTreeSet<_>>().len() == 12, "{list}");
    let here = format!("127.0.0.1:{}", world.proxy.port);
    assert_eq!(values(&list, "laddr"), [here.as_str(); 12]);
    let descriptors = values(&list, "fd");
    assert_eq!(descriptors.iter().collect::<BTreeSet<_>>().len(), 12, "each has a socket of its own: {list}");
    assert_eq!(values(&list, "cmd").iter().filter(|&&cmd| cmd == "client|setname").count(), 11);
    // Each sees itself in CLIENT INFO, and the same line is in every client's list.
    for client in &mut clients {
        let own = text(client, "CLIENT INFO");
        assert_eq!(values(&own, "addr"), [addr_of(client)]);
        let id = values(&own, "id")[0].to_owned();
        assert_eq!(values(&text(client, &format!("CLIENT LIST ID {id}")), "id"), [id]);
    }
}

#[test]
fn a_line_of_client_list_has_the_fields_of_redis_in_its_order() {
    let world = world_of_workers(1);
    let names = |client: &mut Client| -> Vec<String> {
        let list = text(client, "CLIENT LIST TYPE normal");
        let line = list.lines().last().expect("a line").to_owned();
        line.split(' ').map(|field| field.split('=').next().unwrap_or_default().to_owned()).collect()
    };
    let reference = RedisServer::reference();
    assert_eq!(names(&mut world.connect()), names(&mut reference.connect()));
}

#[test]
fn clients_are_spread_evenly_over_workers() {
    let world = world_of_workers(1);
    let mut clients = vec![world.connect()];
    wait_for_clients(&mut clients[0], 1);
    clients.extend((1..7).map(|_| world.connect()));
    assert_eq!(spread(&mut clients), [2, 2, 3]);
    clients.extend((7..31).map(|_| world.connect()));
    assert_eq!(spread(&mut clients), [10, 10, 11]);
    let kept = worker_of(&mut clients[0]);
    clients.retain_mut(|client| worker_of(client) == kept);
    let left = clients.len();
    wait_for_clients(&mut clients[0], left);
    assert_eq!(spread(&mut clients), [0, 0, left]);
    clients.extend((0..left * 2).map(|_| world.connect()));
    assert_eq!(spread(&mut clients), [left, left, left]);
}

/// The worker of a client: ids encode it.
fn worker_of(client: &mut Client) -> usize {
    let reply = client.ask("CLIENT ID");
    let id: usize = reply.trim_start_matches(':').trim_end_matches("\\r\\n").parse().unwrap();
    (id - 1) % 3
}

/// Number of `clients` at each worker, ascending.
fn spread(clients: &mut [Client]) -> [usize; 3] {
    let mut counts = [0; 3];
    for client in clients {
        counts[worker_of(client)] += 1;
    }
    counts.sort_unstable();
    counts
}

/// Waits until `count` clients are left and the control thread knows it: a worker reports it before it answers others.
fn wait_for_clients(client: &mut Client, count: usize) {
    poll_until("the others to be gone", || {
        (text(client, "CLIENT LIST").lines().count() == count).then_some(())
    });
}

#[test]
fn client_kill_reaches_clients_of_all_workers() {
    let world = world_of_workers(2);
    let mut killer = world.connect();
    let mut clients: Vec<Client> = (0..9).map(|_| world.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "+PONG\\r\\n"));
    for client in clients.drain(..3).collect::<Vec<_>>().iter_mut() {
        assert_eq!(killer.ask(&format!("CLIENT KILL {}", addr_of(client))), "+OK\\r\\n");
        client.expect_eof();
        assert_eq!(killer.ask(&format!("CLIENT KILL {}", addr_of(client))), "-ERR No such client\\r\\n");
    }
    let id = text(&mut clients[0], "CLIENT INFO");
    assert_eq!(killer.ask(&format!("CLIENT KILL ID {}", values(&id, "id")[0])), ":1\\r\\n");
    clients.remove(0).expect_eof();
    assert_eq!(killer.ask("CLIENT KILL TYPE normal"), ":5\\r\\n");
    clients.iter_mut().for_each(Client::expect_eof);
    let info = text(&mut killer, "INFO clients");
    assert_eq!(field(&info, "connected_clients"), "1", "also of other workers");
    killer.send(b"CLIENT KILL SKIPME no TYPE normal\r\nSET behind 1\r\n");
    assert_eq!(killer.read_reply(), b":1\r\n");
    killer.expect_eof();
    assert_eq!(world.connect().ask("EXISTS behind"), ":0\\r\\n");
}

/// The place of a killed client becomes free only when its connection is closed: a worker may find both clients in its mail at
/// once.
#[test]
fn clients_come_while_others_are_killed() {
    let mut world = world_of_workers(1);
    let mut killer = world.connect();
    for _ in 0..150 {
        let mut coming: Vec<Client> = (0..6).map(|_| world.connect()).collect();
        killer.send(b"CLIENT KILL TYPE normal\r\nCLIENT KILL TYPE normal\r\nCLIENT KILL TYPE normal\r\n");
        coming.extend((0..6).map(|_| world.connect()));
        (0..3).for_each(|_| assert!(killer.read_reply().starts_with(b":")));
    }
    assert!(world.proxy.ended().is_none());
    let mut client = world.connect();
    assert_eq!(client.ask("SET a 1"), "+OK\\r\\n");
}

#[test]
fn a_stopped_worker_delays_no_client() {
    let mut world = World::with_flags(1, &["--workers=2", "--request-timeout-ms=60000"]);
    let mut client = world.connect();
    assert_eq!(client.ask("SET a 1"), "+OK\\r\\n");
    world.nodes[0].freeze();
    client.send(b"GET a\r\n");
    client.wait_until_read();
    world.proxy.signal("TERM");
    poll_until("the worker without clients to stop", || (workers_of(world.proxy.pid()) == 1).then_some(()));
    client.send(b"CLIENT LIST\r\nCLIENT KILL TYPE normal\r\n");
    client.wait_until_read();
    world.nodes[0].thaw();
    assert_eq!(client.read_reply(), b"$1\r\n1\r\n");
    let list = client.read_reply();
    assert!(show(&list).contains(&format!("addr={} ", addr_of(&client))), "{}", show(&list));
    assert_eq!(client.read_reply(), b":0\r\n");
    client.expect_eof();
    assert_eq!(world.proxy.wait().code(), Some(0));
}

/// Number of worker threads of a process.
fn workers_of(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names = tasks.flatten().flat_map(|task| std::fs::read_to_string(task.path().join("comm")));
    names.filter(|name| name.starts_with("worker-")).count()
}

#[test]
fn client_reply_switches_answer_as_redis() {
    let world = world_of_workers(2);
    let node = RedisServer::reference();
    let mut single = node.connect();
    let mut proxy = world.connect();
    let requests = "SET a 1|GET a|CLIENT REPLY OFF|GET a|SET b 2|MGET a b|NOSUCH|GET|CLIENT LIST|INFO|PING|\
        CLIENT REPLY nonsense|CLIENT REPLY SKIP|DEL nosuch|CLIENT REPLY ON|GET b|CLIENT REPLY SKIP|MGET a b|\
        MGET a b|CLIENT REPLY SKIP|CLIENT REPLY SKIP|GET a|GET b|CLIENT REPLY SKIP|NOSUCH x|NOSUCH y|\
        CLIENT REPLY SKIP|CLIENT REPLY ON|CLIENT REPLY OFF|RESET|CLIENT REPLY SKIP|RESET|ECHO last|";
    let mut bytes = Vec::new();
    for line in requests.split('|').filter(|line| !line.is_empty()) {
        bytes.extend(request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
    }
    let answers = [&mut single, &mut proxy].map(|client| {
        client.send(&bytes);
        let (seen, _) = client.read_until(b"$4\r\nlast\r\n");
        show(&seen)
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn questions_that_redis_answers_alike_are_answered_alike() {
    let world = world_of_workers(1);
    let (reference, node) = (RedisServer::reference(), RedisServer::start());
    let (mut single, mut newer, mut proxy) = (reference.connect(), node.connect(), world.connect());
    for words in ALIKE {
        // Nodes answer WAIT, so the words are those of their version.
        let oracle = if words.starts_with("WAIT ") { &mut newer } else { &mut single };
        assert_eq!(proxy.ask(words), oracle.ask(words), "{words}");
    }
}

/// Requests whose replies must equal those of a Redis with no other users, byte for byte.
const ALIKE: &[&str] = &[
    "CLIENT LIST TYPE pubsub",
    "CLIENT LIST TYPE nosuch",
    "CLIENT LIST TYPE",
    "CLIENT LIST TYPE normal x",
    "CLIENT LIST ID",
    "CLIENT LIST ID x",
    "CLIENT LIST ID 0",
    "CLIENT LIST nosuch",
    "CLIENT KILL",
    "CLIENT KILL 1.2.3.4:5",
    "CLIENT KILL ID",
    "CLIENT KILL ID 0",
    "CLIENT KILL ID -1",
    "CLIENT KILL ID x",
    "CLIENT KILL ID 999999",
    "CLIENT KILL ID 999999 ADDR",
    "CLIENT KILL TYPE nosuch",
    "CLIENT KILL TYPE master",
    "CLIENT KILL USER nobody",
    "CLIENT KILL USER default",
    "CLIENT KILL SKIPME maybe",
    "CLIENT KILL nosuch x",
    "CLIENT KILL ADDR 1.2.3.4:5 LADDR 1.2.3.4:6 SKIPME no",
    "CLIENT NO-EVICT on",
    "CLIENT NO-EVICT maybe",
    "CLIENT NO-EVICT",
    "CLIENT REPLY on",
    "CLIENT REPLY maybe",
    "CLIENT REPLY",
    "CLIENT GETREDIR",
    "CLIENT UNBLOCK 999999",
    "CLIENT UNBLOCK 999999 error",
    "CLIENT UNBLOCK 999999 maybe",
    "CLIENT UNBLOCK x",
    "CLIENT UNBLOCK x maybe",
    "CLIENT UNBLOCK 1 error x",
    "CLIENT TRACKINGINFO",
    "CLIENT CACHING yes",
    "CLIENT nosuch",
    "ACL WHOAMI",
    "ACL USERS",
    "ACL LIST",
    "ACL GETUSER default",
    "ACL GETUSER nobody",
    "ACL CAT",
    "ACL CAT nosuch",
    "ACL CAT pubsub x",
    "ACL GENPASS 0",
    "ACL GENPASS x",
    "WAIT 0 0",
    "WAIT 0 10",
    "WAIT -1 10",
    "WAIT 1 20",
    "WAIT x 0",
    "WAIT 0 x",
    "WAIT 0 -1",
    "WAIT 0 9223372036854775807",
    "WAIT 0",
    "WAIT 0 0 0",
    "INFO nosuch",
    "INFO cluster",
    "INFO keyspace",
    "INFO modules",
    "COMMAND HELP",
    "CONFIG RESETSTAT",
];

#[test]
fn wait_holds_up_no_other_client() {
    let world = world_of_workers(1);
    let (mut waiting, mut other) = (world.connect(), world.connect());
    let id = resp::reply::as_integer(&waiting.command(&[b"CLIENT", b"ID"])).expect("a number");
    waiting.send(b"WAIT 1 0\r\nPING\r\n");
    // The command waits without end, so a client that gets its reply did not wait behind it.
    poll_until("a client that waits for replicas", || {
        field(&text(&mut other, "INFO clients"), "blocked_clients").starts_with('1').then_some(())
    });
    assert_eq!(other.ask("SET a 1"), "+OK\\r\\n");
    assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}")), ":1\\r\\n");
    assert_eq!(waiting.read_reply(), b":0\r\n");
    assert_eq!(waiting.read_reply(), b"+PONG\r\n");
    let began = Instant::now();
    assert_eq!(waiting.ask("WAIT 1 200"), ":0\\r\\n");
    assert!(began.elapsed() >= Duration::from_millis(200));
}

#[test]
fn info_sums_over_nodes_and_workers() {
    let world = world_of_workers(3);
    let mut clients: Vec<Client> = (0..6).map(|_| world.connect()).collect();
    for number in 0..60 {
        let client = &mut clients[number % 6];
        assert_eq!(client.ask(&format!("SET key:{number} v EX 1000")), "+OK\\r\\n");
    }
    // Redis learns the mean time to live gradually.
    let info = poll_until("the nodes to know how long their keys live", || {
        let info = text(&mut clients[0], "INFO");
        assert!(field(&info, "db0").starts_with("keys=60,expires=60,avg_ttl="), "{info}");
        field(&info, "db0").contains("avg_ttl=9").then_some(info)
    });
    let used: u64 = field(&info, "used_memory").parse().unwrap();
    let of_nodes: Vec<u64> = world
        .nodes
        .iter()
        .map(|node| field(&text(&mut node.connect(), "INFO memory"), "used_memory").parse().unwrap())
        .collect();
    let sum: u64 = of_nodes.iter().sum();
    assert!(used.abs_diff(sum) < sum / 5, "{used} is about the sum of {of_nodes:?}");
    assert!(field(&info, "run_id").len() == 40 && field(&info, "tcp_port") == world.proxy.port.to_string());
    poll_until("all workers to show their counts", || {
        let info = text(&mut clients[0], "INFO all");
        let row = field(&info, "cmdstat_set");
        let is_complete = row.starts_with("calls=60,") && row.ends_with(",rejected_calls=0,failed_calls=0");
        (is_complete && field(&info, "connected_clients") == "6").then_some(())
    });
    poll_until("the control thread to look at the process", || {
        let resident: u64 = field(&text(&mut clients[0], "INFO memory"), "proxy_memory_rss").parse().unwrap();
        (resident > 1 << 20).then_some(())
    });
    assert_eq!(clients[1].ask("CONFIG RESETSTAT"), "+OK\\r\\n");
    let info = text(&mut clients[2], "INFO commandstats stats");
    assert!(!info.contains("cmdstat_set:"), "{info}");
    assert_eq!(field(&info, "total_connections_received"), "0");
}

/// The fields of `info` in their order, without those of varying number.
fn fields(info: &str) -> Vec<&str> {
    let names = info.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
    let many = ["cmdstat_", "errorstat_", "latency_percentiles_usec_", "db0"];
    names.filter(|name| !many.iter().any(|prefix| name.starts_with(prefix))).collect()
}

/// Whether two values of a field have the same kind: numbers with as many decimals, or texts.
fn are_alike(one: &str, other: &str) -> bool {
    let kind = |value: &str| match value.trim_end_matches('%').parse::<f64>() {
        Ok(_) => Some((value.split('.').nth(1).map_or(0, str::len), value.ends_with('%'))),
        Err(_) => None,
    };
    kind(one) == kind(other)
}

#[test]
fn info_has_every_field_of_redis_in_its_order() {
    let (node, world) = (RedisServer::reference(), world_of_workers(2));
    let store = Proxy::start(&["--port=0", "--workers=2", "--memory-max=1gb"]);
    let expected = text(&mut node.connect(), "INFO everything");
    for mut subject in [world.connect(), Client::connect(store.port)] {
        subject.ask("SET a 1");
        let info = text(&mut subject, "INFO everything");
        let mut own = fields(&info).into_iter();
        for name in fields(&expected) {
            assert!(own.any(|own| own == name), "{name} is missing, or not in its place: {info}");
            // Redis's build id, and its run ids, may look like numbers.
            let is_id = ["redis_build_id", "run_id", "master_replid", "redis_git_sha1"].contains(&name);
            let (redis, ours) = (field(&expected, name), field(&info, name));
            assert!(is_id || are_alike(&redis, &ours), "{name}: {redis} of Redis, {ours}");
        }
    }
}

#[test]
fn info_describes_the_store() {
    let store = Proxy::start(&["--port=0", "--workers=2", "--memory-max=1gb"]);
    let mut client = Client::connect(store.port);
    client.ask("SET a 1");
    let number = |info: &str, name: &str| field(info, name).trim_end_matches('%').parse::<f64>().unwrap();
    let info = poll_until("the control thread to look at the process", || {
        let info = text(&mut client, "INFO");
        (number(&info, "total_system_memory") > 0.0).then_some(info)
    });
    let ratio = number(&info, "mem_fragmentation_ratio");
    assert!((0.5..3.0).contains(&ratio), "{info}");
    assert_eq!(field(&info, "used_memory_dataset_perc"), "100.00%");
    assert_eq!(field(&info, "used_memory_peak_perc"), "100.00%");
    let bound = number(&info, "proxy_memory_max");
    assert!(bound > 0.0 && bound <= f64::from(1 << 30), "{info}");
    assert!(field(&info, "executable").ends_with("shardis"), "{info}");
    assert_eq!(field(&info, "config_file"), "");
    client.ask("HELLO 3");
    client.ask("CLIENT TRACKING ON");
    client.ask("MGET a b");
    let stats = text(&mut client, "INFO stats");
    assert_eq!(
        (field(&stats, "tracking_total_keys"), field(&stats, "tracking_total_items")),
        ("2".into(), "2".into())
    );
}

#[test]
fn latencies_are_the_largest_of_the_nodes() {
    let world = world_of_workers(2);
    let mut client = world.connect();
    let keys = world.key_on_each("k");
    keys.iter().for_each(|key| drop(client.ask(&format!("SET {key} v"))));
    let name = "latency_percentiles_usec_set";
    let p50 =
        |info: &str| field(info, name)["p50=".len()..].split(',').next().unwrap().parse::<f64>().unwrap();
    let of_nodes = world.nodes.iter().map(|node| p50(&text(&mut node.connect(), "INFO latencystats")));
    let largest = of_nodes.fold(0.0, f64::max);
    assert_eq!(p50(&text(&mut client, "INFO latencystats")), largest);
    assert!(!text(&mut client, "INFO").contains(name), "as in Redis, they are not shown by default");
}

#[test]
fn info_names_the_node_that_is_down_and_goes_on_without_it() {
    let mut world = world_of_workers(2);
    let mut client = world.connect();
    let keys = world.key_on_each("k");
    keys.iter().for_each(|key| assert_eq!(client.ask(&format!("SET {key} v")), "+OK\\r\\n"));
    world.nodes[1].kill();
    let line = poll_until("the node to be known as down", || {
        let info = text(&mut client, "INFO nodes");
        let line = field(&info, "node1");
        line.contains(",state=down,").then_some(line)
    });
    assert!(line.contains(&world.shard_name(1)) && line.contains(",reason="), "{line}");
    let info = text(&mut client, "INFO");
    assert_eq!(field(&info, "db0"), "keys=1,expires=0,avg_ttl=0");
    assert!(field(&info, "node0").contains(",state=up,"), "{info}");
}

#[test]
fn redis_cli_watches_and_takes_the_proxy_for_a_cluster() {
    let world = world_of_workers(3);
    let port = world.proxy.port.to_string();
    let mut onlooker = Command::new("redis-cli");
    // Short pauses: its output stays in its buffer until that is full.
    onlooker.args(["-p", &port, "--stat", "-i", "0.001"]);
    let mut onlooker = Process::spawn(onlooker, "redis-cli --stat");
    for number in 0..20 {
        let mut command = Command::new("redis-cli");
        command.args(["-c", "-p", &port, "set", &format!("key:{number}"), "v"]);
        let Finished { code, stdout, stderr } = run(command);
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "OK\n", ""));
    }
    poll_until("redis-cli --stat to see the keys", || {
        assert!(onlooker.ended().is_none(), "it goes on: {}", onlooker.output());
        onlooker.output().lines().any(|line| line.starts_with("20 ")).then_some(())
    });
}

#[test]
fn cluster_clients_get_the_address_they_connected_to() {
    let world = World::with_shards(2);
    let mut client = world.connect();
    let id = text(&mut client, "CLUSTER MYID");
    let (port, here) = (world.proxy.port, format!("127.0.0.1:{}", world.proxy.port));
    assert_eq!(
        client.ask("CLUSTER SLOTS"),
        format!("*1 *3 :0 :16383 *4 $9 127.0.0.1 :{port} $40 {id} *0 ").replace(' ', "\\r\\n")
    );
    let nodes = text(&mut client, "CLUSTER NODES");
    assert_eq!(nodes, format!("{id} {here}@0 myself,master - 0 0 0 connected 0-16383\n"));
    assert_eq!(field(&text(&mut client, "INFO server"), "run_id"), id);
}
