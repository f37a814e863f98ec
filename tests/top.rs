//! `shardis top` in a real terminal, and its figures for scripts.

use crate::harness::certificates::{Authority, Directory, identity_flags};
use crate::harness::processes::shardis_binary;
use crate::harness::screen::Screen;
use crate::harness::{World, http, poll_until};
use serde_json::Value;

/// Exit code, output and errors of `shardis top`.
fn top(args: &[&str]) -> (Option<i32>, String, String) {
    let output = shardis_binary().arg("top").args(args).output().expect("shardis starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Each of `words` is on a line with `start`.
fn line_has(text: &str, start: &str, words: &[&str]) -> bool {
    text.lines().any(|line| line.starts_with(start) && words.iter().all(|word| line.contains(word)))
}

#[test]
fn a_node_that_dies_is_seen_in_the_terminal() {
    let mut world = World::with_flags(2, &["--admin=0"]);
    let Some(screen) = Screen::start(&["top", &http::admin_port(&world.proxy).to_string()]) else { return };
    let (first, second) = (world.shard_name(0), world.shard_name(1));
    screen.wait_for("both nodes", |text| line_has(text, &first, &["up"]) && line_has(text, &second, &["up"]));
    world.nodes[1].kill();
    let text = screen.wait_for("a node less", |text| text.contains("1 of 2 shards up"));
    assert!(line_has(&text, &first, &["up"]) && !line_has(&text, &second, &["up "]), "{text}");
    // The node alone, with its events.
    screen.press(&["/", &second, "Enter", "Enter"]);
    screen.wait_for("the node alone", |text| {
        line_has(text, "address", &[&second]) && text.contains("node down")
    });
    screen.press(&["Escape", "Escape", "q"]);
    screen.wait_for_end();
}

#[test]
fn commands_keys_and_slow_requests_are_seen_in_the_terminal() {
    let world = World::with_flags(2, &["--admin=0", "--slowlog-log-slower-than=0"]);
    let Some(screen) = Screen::start(&["top", &http::admin_port(&world.proxy).to_string()]) else { return };
    let mut client = world.connect();
    assert_eq!(client.ask("CLIENT SETNAME somebody"), r"+OK\r\n");
    screen.press(&["2"]);
    screen.wait_for("a sorted table of commands", |text| {
        client_writes(&world);
        text.contains("calls/s↓") && line_has(text, "set", &[])
    });
    screen.press(&["s"]);
    screen.wait_for("another order", |text| text.contains("calls↓"));
    screen.press(&["r"]);
    screen.wait_for("the reverse", |text| text.contains("calls↑"));
    screen.press(&["3"]);
    screen.wait_for("a hot key", |text| {
        client_writes(&world);
        line_has(text, "popular", &["100 %"])
    });
    screen.press(&["6"]);
    screen.wait_for("a slow request", |text| text.contains("SET popular"));
    screen.resize(132, 40);
    screen.press(&["7"]);
    screen.wait_for("the client", |text| text.contains("somebody"));
    screen.end("TERM");
    screen.wait_for_end();
}

/// Some writes of one key.
fn client_writes(world: &World) {
    let mut client = world.connect();
    (0..20).for_each(|_| drop(client.ask("SET popular 1")));
}

#[test]
fn no_answer_is_said_until_there_is_one() {
    let folder = Directory::new();
    let socket = folder.path("admin").display().to_string();
    let Some(screen) = Screen::start(&["top", &format!("unix:{socket}"), "--interval=0.2"]) else { return };
    screen.wait_for("no answer", |text| text.contains("shardis does not answer."));
    let world = World::with_flags(1, &[&format!("--admin=unix:{socket}")]);
    let shard = world.shard_name(0);
    screen.wait_for("an answer", |text| line_has(text, &shard, &["up"]) && !text.contains("does not answer"));
    drop(world);
    let text = screen.wait_for("no answer", |text| text.contains("The figures below are old."));
    assert!(text.contains(&shard), "{text}");
    screen.press(&["C-c"]);
    screen.wait_for_end();
}

#[test]
fn it_ends_with_its_terminal() {
    let Some(screen) = Screen::start(&["top", "1"]) else { return };
    screen.wait_for("the screen", |text| text.contains("does not answer"));
    screen.close();
}

#[test]
fn scripts_get_the_figures_in_json() {
    let folder = Directory::new();
    let file = folder.path("token");
    std::fs::write(&file, "open sesame\n").expect("the folder can be written to");
    let token = format!("--admin-token-file={}", file.display());
    let world = World::with_flags(2, &["--admin=0", &token]);
    let port = http::admin_port(&world.proxy).to_string();
    let (code, text, error) = top(&[&port, "--once"]);
    assert!(code == Some(1) && text.is_empty() && error.contains("--token-file"), "{error}");
    client_writes(&world);
    let token = format!("--token-file={}", file.display());
    let found = poll_until("the counts of the last second", || {
        let (code, text, error) = top(&[&port, "--once", "--json", "--interval=0.1", &token]);
        assert_eq!(code, Some(0), "{error}");
        let found: Value = serde_json::from_str(&text).expect("JSON");
        (found["commands"][0]["calls"] == 20).then_some(found)
    });
    assert_eq!(found["commands"][0]["name"], "set");
    assert_eq!((&found["shards"], &found["shards_up"]), (&Value::from(2), &Value::from(2)));
    assert_eq!(found["nodes"][1]["address"].as_str(), Some(world.shard_name(1).as_str()));
    assert!(found["totals"]["requests_per_s"].is_number(), "{found}");
    assert!(found["events"].is_array() && found["hot"]["keys"].is_array(), "{found}");
    let (_, text, _) = top(&[&port, "--once", "--interval=0.1", &token]);
    assert!(line_has(&text, "shardis 2 of 2 shards up", &[]) && line_has(&text, "set ", &["20"]), "{text}");
}

#[test]
fn it_looks_over_tls_with_a_certificate() {
    let (folder, authority) = (Directory::new(), Authority::new());
    let [cert, key] = identity_flags(&folder, "admin-", "server", &authority.sign(&["127.0.0.1"]));
    let ca = folder.write("ca.crt", &authority.certificate);
    let authorities = format!("--admin-tls-ca-cert-file={ca}");
    let world = World::with_flags(1, &["--admin=0", &cert, &key, &authorities]);
    let port = http::admin_port(&world.proxy).to_string();
    let own = authority.sign(&["operator"]);
    let (cacert, cert) =
        (format!("--cacert={ca}"), format!("--cert={}", folder.write("own.crt", &own.certificate)));
    let key = format!("--key={}", folder.write("own.key", &own.key));
    let asked = |flags: &[&str]| top(&[&[port.as_str(), "--once", "--interval=0.1"], flags].concat());
    let (code, text, error) = asked(&["--tls", &cacert, &cert, &key]);
    assert!(code == Some(0) && line_has(&text, "shardis ", &["shards up"]), "{text}{error}");
    let (code, _, error) = asked(&["--tls", &cacert]);
    assert!(code == Some(1) && error.contains("CertificateRequired"), "{error}");
    assert_eq!(asked(&["--tls", &cacert, &cert, &key, "--sni=other.example"]).0, Some(1));
    assert_eq!(asked(&[]).0, Some(1));
}

#[test]
fn a_wrong_address_is_said_at_once() {
    let (code, text, error) = top(&["1", "--once"]);
    assert!(code == Some(1) && text.is_empty() && error.contains("refused"), "{error}");
    let (code, _, error) = top(&["nowhere", "--once"]);
    assert!(code == Some(2) && error.contains("as in 9121"), "{error}");
}
