//! Listeners of all kinds go on in the new process, and the service manager learns of it.

use super::Generations;
use crate::harness::certificates::Directory;
use crate::harness::http::get;
use crate::harness::processes::{free_ports, send_signal};
use crate::harness::wire::Wire;
use crate::harness::{Client, PATIENCE, RedisServer, poll_until};
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;

#[test]
fn all_listeners_of_all_pools_go_on() {
    let nodes = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let folder = Directory::new();
    let (socket, ports) = (folder.path("clients"), free_ports(5));
    let config = format!(
        "workers = 1\n
[[pool]]\nname = \"a\"\nnodes = [\"127.0.0.1:{}\"]\nport = {}\nunixsocket = \"{}\"\nadmin = \"127.0.0.1:{}\"\n
[[pool]]\nname = \"b\"\nnodes = [\"127.0.0.1:{}\"]\nport = {}\nlistener = [\"127.0.0.1:{}\"]\n",
        nodes[0].port,
        ports[0],
        socket.display(),
        ports[1],
        nodes[1].port,
        ports[2],
        ports[3],
    );
    let path = folder.write("shardis.toml", &config);
    let stats = format!("--nutcracker-stats=127.0.0.1:{}", ports[4]);
    let mut shardis = Generations::start(&["proxy", &format!("--config={path}"), &stats]);
    let local = || Client::over(Wire::unix(&socket));
    let mut clients =
        [Client::connect(ports[0]), local(), Client::connect(ports[2]), Client::connect(ports[3])];
    for (client, pool) in clients.iter_mut().zip(["a", "a", "b", "b"]) {
        assert_eq!(client.ask(&format!("SET pool {pool}")), r"+OK\r\n");
    }
    for _ in 0..2 {
        let (old, _) = shardis.upgrade();
        shardis.expect_end_of(old);
        assert!(socket.exists(), "the file goes on with the socket");
        for (client, pool) in clients.iter_mut().zip(["a", "a", "b", "b"]) {
            assert_eq!(client.ask("GET pool"), format!(r"$1\r\n{pool}\r\n"));
        }
        for mut client in
            [Client::connect(ports[0]), local(), Client::connect(ports[2]), Client::connect(ports[3])]
        {
            assert_eq!(client.ask("PING"), r"+PONG\r\n");
        }
        assert_eq!(get(ports[1], "/readyz").status, 200);
        let mut said = String::new();
        let mut stats = TcpStream::connect(("127.0.0.1", ports[4])).expect("it listens");
        stats.read_to_string(&mut said).expect("it answers");
        assert!(said.contains("\"service\":\"nutcracker\""), "{said}");
    }
    send_signal(shardis.pid(), "TERM");
    drop(clients);
    poll_until("the end of the last process", || (!socket.exists()).then_some(()));
    poll_until("the pid file to go", || (!shardis.folder.path("pid").exists()).then_some(()));
}

#[test]
fn a_listener_that_the_configuration_lost_is_closed() {
    let nodes = [RedisServer::start()];
    let (folder, ports) = (Directory::new(), free_ports(2));
    let both = format!("nodes = [\"127.0.0.1:{}\"]\nport = {}\nworkers = 1\n", nodes[0].port, ports[0]);
    let path = folder.write("shardis.toml", &format!("{both}listener = [\"127.0.0.1:{}\"]\n", ports[1]));
    let mut shardis = Generations::start(&["proxy", &format!("--config={path}")]);
    let mut stays = Client::connect(ports[1]);
    assert_eq!(stays.ask("PING"), r"+PONG\r\n");
    folder.write("shardis.toml", &both);
    let (old, _) = shardis.upgrade();
    shardis.expect_lines("listener closed", 1);
    assert_eq!(stays.ask("SET k v"), r"+OK\r\n", "the old process serves it");
    poll_until("a refusal", || TcpStream::connect(("127.0.0.1", ports[1])).is_err().then_some(()));
    drop(stays);
    shardis.expect_end_of(old);
}

#[test]
fn passed_bytes_stay_with_the_old_process() {
    let node = RedisServer::start();
    let nodes = format!("--nodes=127.0.0.1:{}", node.port);
    let mut shardis = Generations::start(&["tcp", &nodes, "--port=0", "--workers=1"]);
    let mut before = shardis.connect();
    assert_eq!(before.ask("SET k v"), r"+OK\r\n");
    let (old, _) = shardis.upgrade();
    let mut after = shardis.connect();
    assert_eq!(
        (before.ask("GET k"), after.ask("GET k")),
        (r"$1\r\nv\r\n".to_owned(), r"$1\r\nv\r\n".to_owned())
    );
    drop(before);
    shardis.expect_end_of(old);
    assert_eq!(after.ask("PING"), r"+PONG\r\n");
}

#[test]
fn systemd_learns_of_the_new_main_process() {
    let (node, folder) = (RedisServer::start(), Directory::new());
    let socket = UnixDatagram::bind(folder.path("notify")).expect("a free name");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let hear = || {
        let mut bytes = [0; 4096];
        let len = socket.recv(&mut bytes).expect("a message in time");
        String::from_utf8(bytes[..len].to_vec()).expect("messages are text")
    };
    let mut shardis = Generations::start_with(
        &["proxy", &format!("--nodes=127.0.0.1:{}", node.port), "--port=0", "--workers=1"],
        &[("NOTIFY_SOCKET", folder.path("notify").to_str().expect("a path"))],
    );
    assert!(hear().starts_with("READY=1\n"));
    let (old, new) = shardis.upgrade();
    assert_eq!(hear(), format!("MAINPID={new}\n"), "the old one says it, whom systemd believes");
    assert!(hear().starts_with("READY=1\nSTATUS=listens on "));
    shardis.expect_end_of(old);
    send_signal(new, "TERM");
    assert_eq!(hear(), "STOPPING=1\nSTATUS=draining\n", "the old process has not said that it stops");
}
