//! `shardis` under a service systemd. The test plays systemd's part: a datagram socket for messages, and passed sockets.

use crate::harness::certificates::Directory;
use crate::harness::processes::{Finished, run, send_signal, shardis_binary};
use crate::harness::{Client, PATIENCE, RedisServer, poll_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

/// Passes stdin and stdout as the sockets 3 and 4 and becomes the program in its arguments. `LISTEN_PID` must be that program's.
const PASS: &str = "exec 3<&0 4<&1 0</dev/null 1>&2; LISTEN_PID=$$; export LISTEN_PID; exec \"$0\" \"$@\"";

/// `shardis` with `args`, started with one or two passed sockets, each with a name.
fn passing(sockets: Vec<(&str, OwnedFd)>, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", PASS]).arg(shardis_binary().get_program()).args(args);
    let names: Vec<&str> = sockets.iter().map(|(name, _)| *name).collect();
    command.env("LISTEN_FDS", names.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
    let mut sockets = sockets.into_iter().map(|(_, socket)| Stdio::from(socket));
    command.stdin(sockets.next().expect("one socket at least"));
    command.stdout(sockets.next().unwrap_or_else(Stdio::null));
    command
}

/// The error of `shardis` that does not start.
fn refusal(sockets: Vec<(&str, OwnedFd)>, args: &[&str]) -> String {
    let output = passing(sockets, args).output().expect("there is a shell");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The socket for messages to the service systemd.
struct Systemd {
    folder: Directory,
    socket: UnixDatagram,
}

impl Systemd {
    fn new() -> Systemd {
        let folder = Directory::new();
        let socket = UnixDatagram::bind(folder.path("notify")).expect("a free name");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Systemd { folder, socket }
    }

    /// Starts a service that sends its messages here.
    fn start(&self, mut command: Command) -> Service {
        command.env("NOTIFY_SOCKET", self.folder.path("notify")).stderr(Stdio::null());
        Service(command.spawn().expect("it starts"))
    }

    /// The next message.
    fn hear(&self) -> String {
        let mut bytes = [0; 4096];
        let len = self.socket.recv(&mut bytes).expect("a message in time");
        String::from_utf8(bytes[..len].to_vec()).expect("messages are text")
    }
}

/// A process that ends with its value.
struct Service(Child);

impl Service {
    fn signal(&self, signal: &str) {
        send_signal(self.0.id(), signal);
    }

    fn wait(&mut self) -> Option<i32> {
        poll_until("the end of shardis", || self.0.try_wait().expect("our child")).code()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Fails only if it ended before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shardis(args: &[&str]) -> Command {
    let mut command = shardis_binary();
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn tcp() -> (TcpListener, u16) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("it listens").port();
    (socket, port)
}

#[test]
fn systemd_hears_of_readiness_reloads_and_the_end() {
    let systemd = Systemd::new();
    let mut service = systemd.start(shardis(&["proxy", "--port=0", "--workers=1"]));
    let ready = systemd.hear();
    let place = ready.strip_prefix("READY=1\nSTATUS=listens on 127.0.0.1:").expect(&ready);
    let port = place.split(' ').next().and_then(|port| port.parse().ok()).expect(&ready);
    assert_eq!(Client::connect(port).ask("PING"), r"+PONG\r\n");
    service.signal("HUP");
    let reloading = systemd.hear();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(systemd.hear(), ready);
    service.signal("TERM");
    assert_eq!(systemd.hear(), "STOPPING=1\nSTATUS=draining\n");
    assert_eq!(service.wait(), Some(0));
}

#[test]
fn signs_of_life_come_while_shardis_runs() {
    let systemd = Systemd::new();
    let mut command = shardis(&["proxy", "--port=0", "--workers=1"]);
    let service = systemd.start({
        command.env("WATCHDOG_USEC", "100000");
        command
    });
    let heard: Vec<String> = (0..5).map(|_| systemd.hear()).collect();
    let signs = heard.iter().filter(|message| *message == "WATCHDOG=1\n").count();
    assert!(signs == 4 && heard.iter().any(|message| message.starts_with("READY=1\n")), "{heard:?}");
    drop(service);
}

#[test]
fn passed_sockets_take_the_places_of_addresses() {
    let systemd = Systemd::new();
    let (socket, port) = tcp();
    let path = systemd.folder.path("clients");
    let unix = UnixListener::bind(&path).expect("a free name");
    // A client may come before shardis is started.
    let mut early = TcpStream::connect(("127.0.0.1", port)).expect("the socket listens");
    early.write_all(b"PING\r\n").expect("the kernel takes it");
    let args = ["proxy", "--host=192.0.2.1", "--port=1", "--unixsocket=/nowhere/clients", "--workers=1"];
    let sockets = vec![("port", socket.into()), ("unixsocket", unix.into())];
    let mut service = systemd.start(passing(sockets, &args));
    let mut reply = [0; 7];
    early.read_exact(&mut reply).expect("an answer");
    assert_eq!(&reply, b"+PONG\r\n");
    let mut local = UnixStream::connect(&path).expect("it listens");
    local.write_all(b"PING\r\n").expect("the kernel takes it");
    local.read_exact(&mut reply).expect("an answer");
    drop((early, local));
    assert!(systemd.hear().contains(&format!("127.0.0.1:{port}, unix:{}", path.display())));
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    assert!(path.exists(), "the file is the service manager's");
}

#[test]
fn an_unnamed_socket_goes_to_the_listener_of_its_address() {
    let (systemd, node) = (Systemd::new(), RedisServer::start());
    let (socket, port) = tcp();
    let (host, nodes) = (format!("--port={port}"), format!("--nodes=127.0.0.1:{}", node.port));
    let sockets = vec![("shardis.socket", socket.into())];
    let _service = systemd.start(passing(sockets, &["tcp", &host, &nodes, "--workers=1"]));
    systemd.hear();
    assert_eq!(Client::connect(port).ask("PING"), r"+PONG\r\n");
}

#[test]
fn a_socket_that_no_listener_takes_is_refused() {
    let ((socket, port), (other, _)) = (tcp(), tcp());
    let sockets = vec![("port", other.into()), ("tls-port", socket.into())];
    let error = refusal(sockets, &["proxy", "--workers=1"]);
    assert!(error.contains(&format!("127.0.0.1:{port} (name \"tls-port\")")), "{error}");
    let (stream, _peer) = UnixStream::pair().expect("two sockets");
    let error = refusal(vec![("port", stream.into())], &["proxy"]);
    assert!(error.contains("socket 0 of those passed by LISTEN_FDS (name \"port\")"), "{error}");
}

#[test]
fn an_admin_socket_that_others_reach_needs_a_token() {
    let open = TcpListener::bind("0.0.0.0:0").expect("a free port");
    let error = refusal(vec![("admin", open.into())], &["proxy", "--port=0", "--admin=9121"]);
    assert!(error.contains("--admin http://0.0.0.0:") && error.contains("--admin-token-file"), "{error}");
}

#[test]
fn sockets_of_another_process_are_not_taken() {
    let mut command = shardis_binary();
    command.args(["proxy", "--host=192.0.2.1", "--port=1"]);
    let Finished { code, stderr, .. } = run({
        command.env("LISTEN_PID", "1").env("LISTEN_FDS", "1");
        command
    });
    assert!(code == Some(1) && stderr.contains("cannot listen on 192.0.2.1:1"), "{stderr}");
}
