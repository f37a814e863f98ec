//! SIGHUP: the configuration is read again, and all of it takes effect or nothing.

use crate::harness::certificates::Directory;
use crate::harness::client::Client;
use crate::harness::processes::{Process, free_ports, run, shardis, shardis_binary};
use crate::harness::{RedisServer, http, poll_until};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};

/// A process with a configuration file over two nodes, and a third one.
struct Reloads {
    process: Process,
    nodes: [RedisServer; 3],
    port: u16,
    directory: Directory,
    path: String,
}

impl Reloads {
    fn start() -> Reloads {
        Reloads::with("")
    }

    /// With these keys at the start.
    fn with(more: &str) -> Reloads {
        let nodes = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
        let (port, directory) = (free_ports(1)[0], Directory::new());
        let text = text(port, [nodes[0].port, nodes[1].port], more);
        let path = directory.write("shardis.toml", &text);
        let process = Process::spawn(shardis(&[&format!("--config={path}")]), "shardis proxy");
        let reloads = Reloads { process, nodes, port, directory, path };
        reloads.expect_log(" listens on ");
        reloads
    }

    fn expect_log(&self, text: &str) {
        poll_until(text, || self.process.output().contains(text).then_some(()));
    }

    /// Sends SIGHUP with another file, over the nodes of these places and with more keys, until the log has one more line
    /// with `line`.
    fn reload(&self, nodes: [usize; 2], more: &str, line: &str) {
        let lines = || self.process.output().matches(line).count();
        let before = lines();
        self.write(nodes, more);
        self.process.signal("HUP");
        poll_until(line, || (lines() > before).then_some(()));
    }

    /// Writes another file.
    fn write(&self, nodes: [usize; 2], more: &str) {
        self.directory.write("shardis.toml", &text(self.port, nodes.map(|node| self.nodes[node].port), more));
    }

    /// A process with an admin listener, whose port comes along.
    fn with_admin() -> (Reloads, u16) {
        let admin = free_ports(1)[0];
        (Reloads::with(&format!("admin = {admin}")), admin)
    }
}

/// The status and the body of the answer to `POST path`, with one more line in its head.
fn post(admin: u16, path: &str, line: &str) -> (u16, String) {
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost:{admin}\r\nConnection: close\r\n");
    let answer = http::request(admin, &format!("{head}Content-Length: 0\r\n{line}\r\n"));
    (answer.status, answer.body)
}

/// The status and the body of the answer to `GET path`.
fn get(admin: u16, path: &str) -> (u16, String) {
    let answer = http::get(admin, path);
    (answer.status, answer.body)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

const TIMEOUT_IS_0: &str = "*2\\r\\n$7\\r\\ntimeout\\r\\n$1\\r\\n0\\r\\n";
const TIMEOUT_IS_7: &str = "*2\\r\\n$7\\r\\ntimeout\\r\\n$1\\r\\n7\\r\\n";

/// Waits until a worker has this timeout.
fn poll_timeout(client: &mut Client, reply: &str) {
    poll_until("the worker follows", || (client.ask("CONFIG GET timeout") == reply).then_some(()));
}

/// Ends the load also if the test fails.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn text(port: u16, nodes: [u16; 2], more: &str) -> String {
    let [a, b] = nodes;
    format!(
        "port = {port}\nworkers = 2\nrequest-timeout-ms = 10_000\nconnect-timeout-ms = 10_000\n\
         nodes = [\"127.0.0.1:{a} first\", \"127.0.0.1:{b} second\"]\n{more}\n"
    )
}

#[test]
fn hang_up_applies_live_settings_to_connected_clients() {
    let reloads = Reloads::start();
    let mut client = Client::connect(reloads.port);
    assert_eq!(client.ask("CONFIG GET timeout"), "*2\\r\\n$7\\r\\ntimeout\\r\\n$1\\r\\n0\\r\\n");
    assert!(client.ask("BGSAVE").starts_with("-ERR"));
    reloads.reload([0, 1], "timeout = 7\nallow-admin = true\nmaxclients = 1", "configuration reloaded");
    reloads.expect_log("changes=\"maxclients,timeout,allow-admin\"");
    poll_until("the worker follows", || {
        Client::connect(reloads.port).ask("PING").contains("max number of clients").then_some(())
    });
    reloads.reload([0, 1], "", "configuration reloaded");
    poll_until("others come in again", || {
        (Client::connect(reloads.port).ask("PING") == "+PONG\\r\\n").then_some(())
    });
}

#[test]
fn reloads_under_load_change_nodes_and_fail_no_request() {
    const RELOADS: usize = 30;
    let reloads = Reloads::start();
    let done = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let _end = SetAtEnd(&done);
        let load = |number: usize| {
            let (done, port) = (&done, reloads.port);
            scope.spawn(move || {
                let mut client = Client::connect(port);
                let mut requests = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    let key = format!("key:{number}:{}", requests % 50);
                    assert_eq!(client.ask(&format!("SET {key} {requests}")), "+OK\\r\\n");
                    requests += 1;
                }
                requests
            })
        };
        let clients: Vec<_> = (0..4).map(load).collect();
        for number in 0..RELOADS {
            let nodes = if number % 2 == 0 { [0, 2] } else { [0, 1] };
            reloads.reload(nodes, &format!("timeout = {}", 100 + number), "nodes reloaded");
        }
        done.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("no request failed")).sum::<u64>()
    });
    assert!(served > 0);
    let counts = reloads.nodes.each_ref().map(|node| node.connect().ask("DBSIZE"));
    assert!(counts.iter().all(|count| count != ":0\\r\\n"), "each node had keys for a while: {counts:?}");
}

#[test]
fn log_line_of_a_node_reload_counts_the_present_nodes() {
    let reloads = Reloads::start();
    reloads.reload([0, 2], "", "nodes reloaded");
    reloads.reload([0, 1], "", "nodes reloaded");
    reloads.expect_log("nodes reloaded epoch=3 nodes=2\n");
}

#[test]
fn reload_with_a_change_that_needs_a_restart_changes_nothing() {
    let reloads = Reloads::start();
    let mut client = Client::connect(reloads.port);
    reloads.reload([0, 1], "timeout = 7\ndatabases = 3", "reload refused");
    reloads.expect_log("databases: the start alone reads this key");
    reloads.reload([1, 0], "timeout = 7\nbatching = \"off\"", "reload refused");
    assert_eq!(client.ask("CONFIG GET timeout"), "*2\\r\\n$7\\r\\ntimeout\\r\\n$1\\r\\n0\\r\\n");
    reloads.reload([0, 1], "timeout = x", "reload refused");
    reloads.expect_log("hint=\"the old configuration stays in use\"");
    assert_eq!(client.ask("SET a 1"), "+OK\\r\\n");
}

#[test]
fn new_password_of_the_file_holds_after_a_reload() {
    let reloads = Reloads::start();
    reloads.reload([0, 1], "requirepass = \"one\"", "users reloaded");
    let ask_with = |password: &str| Client::connect(reloads.port).ask(&format!("AUTH {password}"));
    poll_until("the password holds", || (ask_with("one") == "+OK\\r\\n").then_some(()));
    reloads.reload([0, 1], "requirepass = \"two\"", "users reloaded");
    poll_until("the other holds", || (ask_with("two") == "+OK\\r\\n").then_some(()));
    assert!(ask_with("one").starts_with("-WRONGPASS"));
}

#[test]
fn acl_file_of_a_reload_can_be_loaded_and_saved() {
    let reloads = Reloads::start();
    let file = reloads.directory.write("users.acl", "user default on nopass ~* &* +@all\n");
    reloads.reload([0, 1], &format!("acl-file = \"{file}\""), "users reloaded");
    let mut client = Client::connect(reloads.port);
    assert_eq!(client.ask("ACL LOAD"), "+OK\\r\\n");
    assert_eq!(client.ask("ACL SAVE"), "+OK\\r\\n");
    reloads.reload([0, 1], "", "users reloaded");
    for question in ["ACL LOAD", "ACL SAVE"] {
        assert!(client.ask(question).contains("not configured to use an ACL file"), "{question}");
    }
}

#[test]
fn check_shows_the_changes_against_a_file_in_use() {
    let directory = Directory::new();
    let old = directory.write("old.toml", &text(7000, [1, 2], "timeout = 5"));
    let check = |new: &str| {
        let new = directory.write("new.toml", new);
        let mut command = shardis_binary();
        command.args(["check", &new, &format!("--against={old}")]);
        run(command)
    };
    let live = check(&text(7000, [1, 3], "timeout = 6"));
    assert_eq!(live.code, Some(0), "{}", live.stderr);
    assert!(live.stdout.contains("\ntimeout: 5 -> 6, live\n"), "{}", live.stdout);
    assert!(live.stdout.contains("127.0.0.1:3 second, live\n"), "{}", live.stdout);
    let restart = check(&text(7000, [1, 2], "timeout = 5\ndatabases = 2"));
    assert_eq!(restart.code, Some(3));
    assert!(restart.stdout.contains("databases: (none) -> 2, needs a restart: "), "{}", restart.stdout);
    let same = check(&text(7000, [1, 2], "timeout = 5"));
    assert!(same.stdout.ends_with("nothing changes\n"), "{}", same.stdout);
}

#[test]
fn configuration_of_a_reload_is_that_of_its_path() {
    let reloads = Reloads::start();
    std::fs::remove_file(&reloads.path).expect("the file is there");
    reloads.process.signal("HUP");
    reloads.expect_log("the file does not exist");
    assert_eq!(Client::connect(reloads.port).ask("PING"), "+PONG\\r\\n");
}

#[test]
fn hang_up_reads_included_files_and_secrets_again() {
    let (port, directory) = (free_ports(1)[0], Directory::new());
    let secret = directory.write("password", "one\n");
    directory.write("more.toml", "timeout = 7");
    let text = format!("include = 'm*.toml'\nport = {port}\nworkers = 1\nrequirepass = 'file:{secret}'\n");
    let path = directory.write("shardis.toml", &text);
    let process = Process::spawn(shardis(&[&format!("--config={path}")]), "shardis proxy");
    poll_until("its listener", || process.output().contains(" listens on ").then_some(()));
    let mut client = Client::connect(port);
    assert_eq!(client.ask("AUTH one"), "+OK\\r\\n");
    assert_eq!(client.ask("CONFIG GET timeout"), "*2\\r\\n$7\\r\\ntimeout\\r\\n$1\\r\\n7\\r\\n");
    directory.write("more.toml", "timeout = 8");
    directory.write("password", "two\n");
    process.signal("HUP");
    poll_until("the new password", || (Client::connect(port).ask("AUTH two") == "+OK\\r\\n").then_some(()));
    let changes = "changes=\"timeout,requirepass\"";
    poll_until("the line about it", || process.output().contains(changes).then_some(()));
    assert!(Client::connect(port).ask("AUTH one").starts_with("-WRONGPASS"));
    assert!(!process.output().contains("two"), "{}", process.output());
}

#[test]
fn admin_listener_shows_the_plan_and_reloads() {
    let (reloads, admin) = Reloads::with_admin();
    let mut client = Client::connect(reloads.port);
    let same = (200, "nothing changes\n".to_owned());
    assert_eq!(get(admin, "/reload"), same);
    assert_eq!(post(admin, "/reload", ""), same);
    reloads.write([0, 2], &format!("admin = {admin}\ntimeout = 7"));
    let plan = get(admin, "/reload");
    assert_eq!(plan.0, 200);
    assert!(
        plan.1.starts_with("nodes: ") && plan.1.ends_with(", live\ntimeout: (none) -> 7, live\n"),
        "{}",
        plan.1
    );
    assert_eq!(client.ask("CONFIG GET timeout"), TIMEOUT_IS_0, "a plan changes nothing");
    assert_eq!(post(admin, "/reload", ""), plan);
    poll_timeout(&mut client, TIMEOUT_IS_7);
    reloads.expect_log("configuration reloaded changes=\"nodes,timeout\" number=2 source=\"file\"");
    reloads.expect_log("nodes reloaded epoch=2 nodes=2");
}

#[test]
fn admin_listener_tells_why_a_reload_is_refused() {
    let (reloads, admin) = Reloads::with_admin();
    reloads.write([0, 1], &format!("admin = {admin}\ntimeout = 7\ndatabases = 3"));
    let (status, body) = get(admin, "/reload");
    assert_eq!(status, 200);
    assert!(body.contains("databases: (none) -> 3, needs a restart: the start alone reads"), "{body}");
    let reasons = "databases: the start alone reads this key\n".to_owned();
    assert_eq!(post(admin, "/reload", ""), (409, reasons));
    reloads.expect_log("reload refused");
    reloads.write([0, 1], "timeout = x");
    for (status, body) in [get(admin, "/reload"), post(admin, "/reload", "")] {
        assert_eq!(status, 400);
        assert!(body.contains("shardis.toml:6:"), "{body}");
    }
    for path in ["/reload?to=x", "/reload?to=7&more", "/reload?from=1"] {
        assert_eq!(post(admin, path, "").0, 400, "{path}");
    }
    assert_eq!(post(admin, "/configurations", "").0, 405);
    assert_eq!(Client::connect(reloads.port).ask("CONFIG GET timeout"), TIMEOUT_IS_0);
}

#[test]
fn page_from_elsewhere_cannot_reload() {
    let (reloads, admin) = Reloads::with_admin();
    reloads.write([0, 1], &format!("admin = {admin}\ntimeout = 7"));
    assert_eq!(post(admin, "/reload", "Origin: http://example.org\r\n").0, 403);
    assert_eq!(parsed(&get(admin, "/configurations").1).as_array().map(Vec::len), Some(1));
    assert_eq!(post(admin, "/reload", &format!("Origin: http://localhost:{admin}\r\n")).0, 200);
    assert_eq!(parsed(&get(admin, "/configurations").1).as_array().map(Vec::len), Some(2));
}

#[test]
fn proxy_reload_reloads_for_administrators() {
    let reloads = Reloads::start();
    let mut client = Client::connect(reloads.port);
    assert_eq!(client.ask("PROXY RELOAD PLAN"), "*1\\r\\n$15\\r\\nnothing changes\\r\\n");
    reloads.write([0, 1], "timeout = 7");
    let plan = "*1\\r\\n$26\\r\\ntimeout: (none) -> 7, live\\r\\n";
    assert_eq!(client.ask("PROXY RELOAD PLAN"), plan);
    assert_eq!(client.ask("CONFIG GET timeout"), TIMEOUT_IS_0);
    assert_eq!(client.ask("PROXY RELOAD"), "+OK\\r\\n");
    assert_eq!(client.ask("CONFIG GET timeout"), TIMEOUT_IS_7, "its worker follows before it answers");
    reloads.write([0, 1], "databases = 3");
    let refused = "-ERR reload refused: databases: the start alone reads this key\\r\\n";
    assert_eq!(client.ask("PROXY RELOAD"), refused);
    assert!(client.ask("PROXY RELOAD NOW").starts_with("-ERR write PROXY RELOAD, "));
    client.ask("MULTI");
    assert!(client.ask("PROXY RELOAD").starts_with("-ERR"));
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.ask("ACL SETUSER reader on nopass ~* +@read"), "+OK\\r\\n");
    assert_eq!(client.ask("AUTH reader x"), "+OK\\r\\n");
    assert!(client.ask("PROXY RELOAD PLAN").starts_with("-NOPERM"));
}

#[test]
fn one_command_goes_back_to_the_configuration_before() {
    let (reloads, admin) = Reloads::with_admin();
    let mut client = Client::connect(reloads.port);
    assert!(client.ask("PROXY RELOAD BACK").contains("no configuration was followed before this one"));
    reloads.write([0, 2], &format!("admin = {admin}\ntimeout = 7"));
    assert_eq!(client.ask("PROXY RELOAD"), "+OK\\r\\n");
    let listed = parsed(&get(admin, "/configurations").1);
    assert_eq!(listed[0]["number"], 2);
    assert_eq!(listed[0]["changes"], serde_json::json!(["nodes", "timeout"]));
    assert_eq!((&listed[0]["before"], &listed[0]["is_present"]), (&Value::from(1), &Value::from(true)));
    assert!(listed[0]["time_s"].as_f64() >= listed[1]["time_s"].as_f64());

    assert_eq!(client.ask("PROXY RELOAD BACK"), "+OK\\r\\n");
    assert_eq!(client.ask("CONFIG GET timeout"), TIMEOUT_IS_0);
    reloads.expect_log("configuration reloaded changes=\"nodes,timeout\" number=1 source=\"kept\"");
    reloads.expect_log("nodes reloaded epoch=3 nodes=2");
    let settings = parsed(&get(admin, "/config").1);
    let source = |name: &str| {
        let settings = settings.as_array().expect("a list");
        settings.iter().find(|setting| setting["name"] == name).expect("it is there")["source"].clone()
    };
    assert_eq!((source("timeout"), source("nodes")), ("kept".into(), "kept".into()));
    assert_eq!((source("port"), source("admin")), ("file".into(), "file".into()));
    assert_eq!(parsed(&get(admin, "/configurations").1)[1]["is_present"], true);

    assert_eq!(post(admin, "/reload?to=2", "").0, 200);
    poll_timeout(&mut client, TIMEOUT_IS_7);
    assert_eq!(post(admin, "/reload?to=back", "").0, 200);
    poll_timeout(&mut client, TIMEOUT_IS_0);
    let unknown = "the configuration 9 is not kept; kept are 1, 2\n".to_owned();
    assert_eq!(post(admin, "/reload?to=9", ""), (409, unknown));
    assert_eq!(post(admin, "/reload", "").0, 200);
    poll_timeout(&mut client, TIMEOUT_IS_7);
}

#[test]
fn included_file_is_kept_with_its_configuration() {
    let (port, directory) = (free_ports(1)[0], Directory::new());
    directory.write("more.toml", "timeout = 7");
    let path =
        directory.write("shardis.toml", &format!("include = 'more.toml'\nport = {port}\nworkers = 1\n"));
    let process = Process::spawn(shardis(&[&format!("--config={path}")]), "shardis proxy");
    poll_until("its listener", || process.output().contains(" listens on ").then_some(()));
    let mut client = Client::connect(port);
    directory.write("more.toml", "timeout = 0");
    assert_eq!(client.ask("PROXY RELOAD"), "+OK\\r\\n");
    assert_eq!(client.ask("CONFIG GET timeout"), TIMEOUT_IS_0);
    std::fs::remove_file(&path).expect("the file is there");
    assert_eq!(client.ask("PROXY RELOAD BACK"), "+OK\\r\\n");
    assert_eq!(client.ask("CONFIG GET timeout"), TIMEOUT_IS_7);
}

#[test]
fn process_without_a_file_has_nothing_to_reload() {
    let port = free_ports(1)[0];
    let process = Process::spawn(shardis(&[&format!("--port={port}")]), "shardis proxy");
    poll_until("its listener", || process.output().contains(" listens on ").then_some(()));
    let mut client = Client::connect(port);
    let nothing = "*1\\r\\n$30\\r\\nthere is no configuration file\\r\\n";
    assert_eq!(client.ask("PROXY RELOAD PLAN"), nothing);
    assert_eq!(client.ask("PROXY RELOAD"), "+OK\\r\\n");
}
