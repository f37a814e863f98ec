//! `shardis local`: every topology comes up, and everything is gone afterwards, however it ends.

use crate::harness::certificates::{Directory, text};
use crate::harness::local::{Local, local, pid_of, port_of, run_kill};
use crate::harness::processes::{Finished, Process, run};
use crate::harness::{Client, http, kernel, poll_until};
use serde_json::Value;
use std::path::Path;

/// Waits until all of `pids` and `folder` are gone.
fn expect_gone(pids: &[u32], folder: &Path) {
    for &pid in pids {
        poll_until("the end of a process", || kernel::has_ended(pid).then_some(()));
    }
    poll_until("the end of the data", || (!folder.exists()).then_some(()));
}

fn refusal(arguments: &[&str]) -> Finished {
    run(local(arguments))
}

#[test]
fn plain_nodes_and_their_proxy_end_with_sigterm() {
    let local = Local::start(&["--nodes=3", "--proxy", "--", "--workers=1"]);
    let admin = local.addresses["admin"].as_str().and_then(|address| address.rsplit_once(':'));
    let admin = admin.and_then(|(_, port)| port.parse().ok()).expect("the proxy has an admin listener");
    // A worker publishes for the first time after a second.
    poll_until("ready", || (http::get(admin, "/readyz").status == 200).then_some(()));
    let mut client = local.proxy();
    assert_eq!(client.ask("MSET a 1 b 2 c 3 d 4 e 5 f 6"), "+OK\\r\\n");
    let nodes = local.ports("nodes");
    let size = |port: &u16| Client::connect(*port).ask("DBSIZE");
    let sizes: Vec<String> = nodes.iter().map(size).collect();
    let number = |size: &String| size.trim_matches([':', '\\', 'r', 'n']).parse::<usize>().expect("a number");
    assert_eq!((sizes.len(), sizes.iter().map(number).sum::<usize>()), (3, 6), "{sizes:?}");
    assert!(local.process.output().contains("(1 worker)"), "{}", local.process.output());
    let (pids, folder) = (local.family(), local.folder());
    assert!(folder.exists());
    local.stop();
    expect_gone(&pids, &folder);
}

#[test]
fn sets_have_replicas_that_copy_their_primary() {
    let local = Local::start(&["--sets=2", "--replication=3", "--proxy"]);
    let nodes = local.list("nodes");
    assert_eq!(nodes.len(), 6);
    for set in nodes.chunks(3) {
        let roles: Vec<&str> = set.iter().map(|node| node["role"].as_str().expect("a word")).collect();
        assert_eq!(roles, ["primary", "replica", "replica"]);
        assert!(set[1..].iter().all(|node| node["primary"] == set[0]["address"]));
        let mut primary = Client::connect(port_of(&set[0]));
        assert_eq!(primary.ask("SET a 1"), "+OK\\r\\n");
        assert_eq!(primary.ask("WAIT 2 10000"), ":2\\r\\n");
    }
    assert_eq!(local.proxy().ask("DBSIZE"), ":2\\r\\n");
    assert_eq!(local.proxy().ask("WAIT 2 20000"), ":2\\r\\n");
}

#[test]
fn sentinels_know_the_sets_and_take_care_of_them() {
    let local = Local::start(&["--sets=1", "--sentinel", "--failover-ms=1500", "--proxy"]);
    assert_eq!(local.proxy().ask("SET a 1"), "+OK\\r\\n");
    assert_eq!(local.proxy().ask("WAIT 1 20000"), ":1\\r\\n");
    assert_eq!(local.addresses["sets"], serde_json::json!(["set-0"]));
    let (nodes, sentinels) = (local.ports("nodes"), local.ports("sentinels"));
    assert_eq!((nodes.len(), sentinels.len()), (2, 3));
    let address = |sentinel: u16| Client::connect(sentinel).ask("SENTINEL GET-MASTER-ADDR-BY-NAME set-0");
    let names = |reply: &str, port: u16| reply.ends_with(&format!("\\r\\n{port}\\r\\n"));
    assert!(sentinels.iter().all(|&sentinel| names(&address(sentinel), nodes[0])));

    // A node that dies is reported, and the others carry on.
    let pid = pid_of(&local.list("nodes")[0]);
    assert!(run_kill(pid));
    poll_until("the replica's promotion", || {
        sentinels.iter().all(|&sentinel| names(&address(sentinel), nodes[1])).then_some(())
    });
    let report = format!("node-0 (127.0.0.1:{}) has ended: signal: 9", nodes[0]);
    poll_until(&report, || local.process.output().contains(&report).then_some(()));
}

#[test]
fn a_cluster_is_ready_on_all_nodes() {
    let local = Local::start(&["--cluster=6", "--proxy"]);
    let mut client = local.proxy();
    // One key for each shard.
    for words in ["SET a 1", "SET b 2", "SET c 3"] {
        assert_eq!(client.ask(words), "+OK\\r\\n");
    }
    assert_eq!(client.ask("DBSIZE"), ":3\\r\\n");
    assert_eq!(client.ask("WAIT 1 20000"), ":1\\r\\n");
    let nodes = local.list("nodes");
    let roles: Vec<bool> = nodes.iter().map(|node| node["role"] == "primary").collect();
    assert_eq!(roles, [true, true, true, false, false, false]);
    let primaries: Vec<&Value> = nodes[3..].iter().map(|node| &node["primary"]).collect();
    assert_eq!(primaries, [&nodes[0]["address"], &nodes[1]["address"], &nodes[2]["address"]]);
    for port in local.ports("nodes") {
        let mut client = Client::connect(port);
        let info = client.ask("CLUSTER INFO");
        for part in ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:6", "cluster_size:3"]
        {
            assert!(info.contains(part), "{part}: {info}");
        }
    }
}

#[test]
fn nothing_is_left_when_any_part_is_killed() {
    let kill_supervisor = |local: &Local| local.process.signal("KILL");
    let kill_host = |local: &Local| assert!(run_kill(local.host()));
    for kill in [&kill_supervisor as &dyn Fn(&Local), &kill_host] {
        let mut local = Local::start(&["--nodes=1", "--proxy"]);
        // A grandchild that would live for long: the node saves, slowly for each key.
        let mut node = Client::connect(local.ports("nodes")[0]);
        assert_eq!(node.ask("CONFIG SET rdb-key-save-delay 100000000"), "+OK\\r\\n");
        assert_eq!(node.ask("MSET a 1 b 2"), "+OK\\r\\n");
        assert_eq!(node.ask("BGSAVE"), "+Background saving started\\r\\n");
        let (pids, folder) = (local.family(), local.folder());
        assert_eq!(pids.len(), 4, "node, its child, proxy, host");
        kill(&local);
        poll_until("the end of shardis local", || local.process.ended());
        expect_gone(&pids, &folder);
    }
}

#[test]
fn the_kernel_ends_nodes_without_their_parent() {
    let local = Local::start(&["--nodes=2", "--proxy"]);
    let (pids, folder) = (local.family(), local.folder());
    // The supervisor would clear up, so it sleeps meanwhile.
    local.process.freeze();
    assert!(run_kill(local.host()));
    for &pid in &pids {
        poll_until("the end of a process", || kernel::has_ended(pid).then_some(()));
    }
    assert!(folder.exists());
    local.process.thaw();
    expect_gone(&pids, &folder);
}

#[test]
fn valkey_does_as_well() {
    let directory = Directory::new();
    let redis = std::env::split_paths(&std::env::var_os("PATH").expect("there is a PATH"))
        .map(|folder| folder.join("redis-server"))
        .find(|file| file.is_file())
        .expect("tests need it");
    let path = directory.path("bin");
    std::fs::create_dir(&path).expect("the folder is ours");
    std::os::unix::fs::symlink(redis, path.join("valkey-server")).expect("the folder is ours");
    let mut command = local(&["--json", "--nodes=1"]);
    command.env("PATH", &path);
    let mut process = Process::spawn(command, "shardis local");
    poll_until("the line of JSON", || {
        assert!(process.ended().is_none(), "it ended instead: {}", process.output());
        process.output().contains('{').then_some(())
    });
    process.signal("TERM");
    assert!(poll_until("the end", || process.ended()).success());
}

#[test]
fn kept_data_comes_back() {
    // The first ends by SIGKILL, as any process that a test drops.
    let directory = Directory::new();
    for (name, shape, nodes) in
        [("a", &["--cluster=3"][..], 3), ("b", &["--sets=1"], 2), ("c", &["--sets=1", "--sentinel"], 2)]
    {
        let keep = format!("--keep={}", text(&directory.path(name)));
        let first = Local::start(&[&[keep.as_str()], shape].concat());
        let ports = first.ports("nodes");
        assert_eq!(ports.len(), nodes);
        let before: Vec<String> = ports.iter().map(|&port| Client::connect(port).ask("SET a 1")).collect();
        assert!(before.contains(&"+OK\\r\\n".to_owned()), "{before:?}");
        let pids = first.family();
        if name == "a" {
            drop(first);
        } else {
            first.stop();
        }
        for pid in pids {
            poll_until("the end of a process", || kernel::has_ended(pid).then_some(()));
        }

        // Without a word on the topology: the folder knows it.
        let second = Local::start(&[&keep]);
        assert_eq!(second.ports("nodes"), ports);
        let after: Vec<String> = ports.iter().map(|&port| Client::connect(port).ask("GET a")).collect();
        assert!(after.contains(&"$1\\r\\n1\\r\\n".to_owned()), "{after:?}");
        let finished = refusal(&[&keep]);
        assert!(finished.stderr.contains("does it run already?"), "{finished:?}");
        second.stop();
        let finished = refusal(&[&keep, "--nodes=9"]);
        assert!(finished.stderr.contains("choose another folder"), "{finished:?}");
    }
}

#[test]
fn ports_are_where_they_are_wanted() {
    for attempt in 0..20 {
        // A range from which the kernel takes none for outgoing connections, and no other test.
        let base = 5_000 + (std::process::id() + attempt * 101) % 1_900;
        let mut process =
            Process::spawn(local(&["--nodes=1", "--proxy", &format!("--port={base}")]), "local");
        let said = poll_until("an end or addresses", || {
            let is_over = process.ended().is_some();
            let said = process.output();
            (said.contains("Ctrl-C") || (is_over && said.ends_with('\n'))).then_some(said)
        });
        if said.contains("taken") {
            continue;
        }
        assert!(said.contains(&format!("node-0      127.0.0.1:{base}\n")), "{said}");
        assert!(said.contains(&format!("redis-cli -p {} set", base + 1)), "{said}");
        let finished = refusal(&["--nodes=1", &format!("--port={base}")]);
        assert_eq!(finished.code, Some(1));
        assert!(finished.stderr.contains(&format!("port {base} is taken")), "{finished:?}");
        process.signal("TERM");
        assert!(poll_until("the end", || process.ended()).success());
        return;
    }
    panic!("no two free ports in a row");
}

#[test]
fn a_missing_server_is_reported_with_its_package() {
    let mut command = local(&["--nodes=1"]);
    command.env("PATH", "/nowhere");
    let finished = run(command);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    for part in ["neither redis-server nor valkey-server", "apt-get install redis-server", "--binary"] {
        assert!(finished.stderr.contains(part), "{finished:?}");
    }
    let finished = refusal(&["--binary=/nowhere/redis-server"]);
    assert!(finished.stderr.contains("--binary /nowhere/redis-server"), "{finished:?}");
}

#[test]
fn invalid_arguments_are_refused_in_one_line() {
    let cases: &[(&[&str], &str)] = &[
        (&["--nodes=0"], "--nodes 0: must be 1 to 256"),
        (&["--cluster=2"], "--cluster 2: must be 3 to 256"),
        (&["--nodes=2", "--cluster=6"], "--cluster"),
        (&["--sentinel", "--nodes=2"], "--nodes"),
        (&["--sets=200", "--replication=2"], "400 nodes"),
        (&["--sentinel", "--failover-ms=1000"], "must be at least 1500"),
        (&["--port=0"], "--port"),
        (&["--nodes=2", "--port=65535"], "choose a lower one"),
        (&["--cluster=6", "--port=60000"], "choose a lower one"),
        (&["--", "--workers=1"], "--proxy"),
        (&["--nonsense"], "--nonsense"),
    ];
    for (arguments, named) in cases {
        let finished = refusal(arguments);
        assert!(matches!(finished.code, Some(1 | 2)), "{arguments:?}: {finished:?}");
        assert!(finished.stderr.contains(named), "{arguments:?}: {finished:?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{arguments:?}: {finished:?}");
        assert!(finished.stdout.is_empty(), "{finished:?}");
    }
}
