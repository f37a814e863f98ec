//! Reloads by force: an upgrade makes the changes that need a restart.

use super::Generations;
use crate::harness::certificates::Directory;
use crate::harness::processes::free_ports;
use crate::harness::{RedisServer, http, poll_until};

/// Processes by a file over two nodes.
struct Forced {
    generations: Generations,
    nodes: [RedisServer; 2],
    folder: Directory,
    admin: u16,
    port: u16,
}

impl Forced {
    fn start() -> Forced {
        let (nodes, folder) = ([RedisServer::start(), RedisServer::start()], Directory::new());
        let ports = free_ports(2);
        let (port, admin) = (ports[0], ports[1]);
        let path = folder.write("shardis.toml", &text(port, admin, [nodes[0].port, nodes[1].port], ""));
        let generations = Generations::start(&["proxy", &format!("--config={path}")]);
        Forced { generations, nodes, folder, admin, port }
    }

    /// Writes a file with the nodes in this order, and with more keys.
    fn write(&self, nodes: [usize; 2], more: &str) {
        let nodes = nodes.map(|node| self.nodes[node].port);
        self.folder.write("shardis.toml", &text(self.port, self.admin, nodes, more));
    }

    /// The status and the body of the answer to `POST path`.
    fn post(&self, path: &str) -> (u16, String) {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let answer = http::request(self.admin, &format!("{head}Content-Length: 0\r\n\r\n"));
        (answer.status, answer.body)
    }
}

fn text(port: u16, admin: u16, [a, b]: [u16; 2], more: &str) -> String {
    format!(
        "port = {port}\nadmin = {admin}\nworkers = 2\nrequest-timeout-ms = 30_000\n\
         nodes = [\"127.0.0.1:{a}\", \"127.0.0.1:{b}\"]\n{more}\n"
    )
}

#[test]
fn forced_reload_moves_keys_and_keeps_clients() {
    let mut forced = Forced::start();
    let mut clients = [(); 2].map(|()| forced.generations.connect());
    assert_eq!(clients[0].ask("SET key before"), "+OK\\r\\n");
    let in_transaction = &mut clients[1];
    assert_eq!(in_transaction.ask("MULTI"), "+OK\\r\\n");
    assert_eq!(in_transaction.ask("GET key"), "+QUEUED\\r\\n");

    forced.write([1, 0], "");
    let (status, reasons) = forced.post("/reload");
    assert_eq!(status, 409);
    assert!(reasons.starts_with("nodes: 100 % of the keys would be looked for in other shards"), "{reasons}");
    let old = forced.generations.pid();
    let (status, lines) = forced.post("/reload?force=1");
    assert_eq!(status, 202);
    assert!(lines.starts_with("nodes: ") && lines.contains("\nupgrade started: the process "), "{lines}");
    poll_until("a new process", || forced.generations.read_pid().filter(|&pid| pid != old));

    let [client, in_transaction] = &mut clients;
    assert_eq!(in_transaction.ask("EXEC"), "*1\\r\\n$6\\r\\nbefore\\r\\n", "by the nodes of its beginning");
    let none = "$-1\\r\\n";
    poll_until("the client comes over", || (client.ask("GET key") == none).then_some(()));
    poll_until("so does the other", || (in_transaction.ask("GET key") == none).then_some(()));
    forced.generations.expect_end_of(old);
    let listed = http::get(forced.admin, "/configurations").body;
    assert!(listed.starts_with("[{\"number\":1,"), "{listed}");
}

#[test]
fn forced_reload_follows_live_changes_in_place() {
    let forced = Forced::start();
    let mut client = forced.generations.connect();
    forced.write([0, 1], "timeout = 7");
    assert_eq!(client.ask("PROXY RELOAD FORCE"), "+OK\\r\\n");
    assert_eq!(client.ask("CONFIG GET timeout"), "*2\\r\\n$7\\r\\ntimeout\\r\\n$1\\r\\n7\\r\\n");
    forced.write([0, 1], "timeout = x");
    assert!(client.ask("PROXY RELOAD FORCE").starts_with("-ERR reload refused: "));
    assert_eq!(forced.post("/reload?force=1").0, 400);
    assert!(forced.generations.all().is_empty(), "no process was started");
}

#[test]
fn forced_reload_is_refused_where_keys_are_in_memory() {
    let (folder, port) = (Directory::new(), free_ports(1)[0]);
    let text = |more: &str| format!("port = {port}\nadmin = 0\nworkers = 1\n{more}");
    let path = folder.write("shardis.toml", &text(""));
    let generations = Generations::start(&["proxy", &format!("--config={path}")]);
    let mut client = generations.connect();
    folder.write("shardis.toml", &text("databases = 3"));
    let reason = "the upgrade that this needs: the keys are in the memory of this process";
    assert_eq!(client.ask("PROXY RELOAD FORCE"), format!("-ERR reload refused: {reason}\\r\\n"));
    assert_eq!(client.ask("PING"), "+PONG\\r\\n");
}
