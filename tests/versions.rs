//! Commands that came after Redis 7.0, with nodes that have them and with nodes that do not. `SHARDIS_TEST_SERVER` names the
//! nodes' program.

use crate::harness::World;
use crate::harness::server::server;

/// Requests for the shard of their key, in this order, and the replies where the command exists.
const OF_ONE_KEY: &[(&str, &str)] = &[
    ("HSET h{t} f v g w", r":2\r\n"),
    ("HEXPIRE h{t} 1000 FIELDS 1 f", r"*1\r\n:1\r\n"),
    ("HTTL h{t} FIELDS 2 f g", r"*2\r\n:1000\r\n:-1\r\n"),
    ("HPERSIST h{t} FIELDS 1 f", r"*1\r\n:1\r\n"),
    ("HSETEX h{t} EX 1000 FIELDS 1 x y", r":1\r\n"),
    ("HGETEX h{t} PERSIST FIELDS 1 x", r"*1\r\n$1\r\ny\r\n"),
    ("HGETDEL h{t} FIELDS 1 x", r"*1\r\n$1\r\ny\r\n"),
    ("VADD v{t} VALUES 2 1 0 east", r":1\r\n"),
    ("VADD v{t} VALUES 2 0 1 north", r":1\r\n"),
    ("VCARD v{t}", r":2\r\n"),
    ("VDIM v{t}", r":2\r\n"),
    ("VSIM v{t} VALUES 2 9 1 COUNT 1", r"*1\r\n$4\r\neast\r\n"),
    ("VREM v{t} east", r":1\r\n"),
];

/// Whether nodes have the command or subcommand of this full name.
fn is_in_nodes(name: &str) -> bool {
    command::find_full(name.as_bytes()).expect("in the table").since.is_in(server())
}

#[test]
fn newer_command_works_only_on_nodes_that_have_it() {
    let world = World::with_shards(4);
    let mut client = world.connect();
    for (request, answer) in OF_ONE_KEY {
        let name = request.split(' ').next().expect("a name");
        let got = client.ask(request);
        if is_in_nodes(&name.to_ascii_lowercase()) {
            assert_eq!(&got, answer, "{request}");
        } else {
            // In the node's own words.
            assert!(got.starts_with("-ERR unknown command "), "{request}: {got}");
        }
    }
    assert_eq!(client.ask("PING"), r"+PONG\r\n");
}

#[test]
fn newer_command_is_queued_in_a_transaction() {
    let world = World::with_shards(4);
    let mut client = world.connect();
    client.ask("HSET h{t} f v");
    assert_eq!(client.ask("MULTI"), r"+OK\r\n");
    assert_eq!(client.ask("HTTL h{t} FIELDS 1 f"), r"+QUEUED\r\n");
    let got = client.ask("EXEC");
    if is_in_nodes("httl") {
        assert_eq!(got, r"*1\r\n*1\r\n:-1\r\n");
    } else {
        assert!(got.starts_with("-EXECABORT "), "{got}");
    }
    assert_eq!(client.ask("EXISTS h{t}"), r":1\r\n");
}

#[test]
fn new_client_subcommands_work_over_old_nodes() {
    let world = World::with_shards(2);
    let mut client = world.connect();
    for line in ["CLIENT CAPA redirect", "CLIENT SETINFO LIB-NAME x", "CLIENT NO-TOUCH ON"] {
        assert_eq!(client.ask(line), r"+OK\r\n", "{line}");
    }
    assert_eq!(client.ask("CLUSTER MYSHARDID"), client.ask("CLUSTER MYID"));
}

#[test]
fn a_script_is_shown_whichever_shard_has_it() {
    let world = World::with_shards(4);
    let mut client = world.connect();
    let mut node = world.nodes[3].connect();
    let loaded = node.ask("SCRIPT LOAD return'here'");
    let sha = loaded.strip_prefix(r"$40\r\n").and_then(|rest| rest.strip_suffix(r"\r\n")).expect("a name");
    let got = client.ask(&format!("SCRIPT SHOW {sha}"));
    if is_in_nodes("script|show") {
        assert_eq!(got, r"$12\r\nreturn\'here\'\r\n");
        assert!(client.ask(&format!("SCRIPT SHOW {}", "0".repeat(40))).starts_with("-NOSCRIPT "));
    } else {
        assert!(got.starts_with("-ERR "), "{got}");
    }
}

#[test]
fn the_command_logs_of_all_nodes_are_one() {
    let world = World::with_shards(3);
    let mut client = world.connect();
    if !is_in_nodes("commandlog") {
        return assert!(client.ask("COMMANDLOG LEN slow").starts_with("-ERR unknown command "));
    }
    for node in &world.nodes {
        assert_eq!(node.connect().ask("CONFIG SET commandlog-execution-slower-than 0"), r"+OK\r\n");
    }
    for key in world.key_on_each("k") {
        assert_eq!(client.ask(&format!("SET {key} v")), r"+OK\r\n");
    }
    let log = client.ask("COMMANDLOG GET -1 slow");
    for key in world.key_on_each("k") {
        assert!(log.contains(&format!(r"$3\r\nSET\r\n${}\r\n{key}\r\n", key.len())), "{log}");
    }
    assert_eq!(
        client.ask("COMMANDLOG GET 2 slow").matches(r"*6\r\n").count(),
        2,
        "of all, so many were asked for"
    );
    assert_eq!(client.ask("COMMANDLOG GET 1 large-reply"), r"*0\r\n");
    assert_eq!(client.ask("COMMANDLOG RESET slow"), r"+OK\r\n");
}
