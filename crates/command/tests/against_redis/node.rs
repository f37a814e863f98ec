//! A real redis-server for the tests of this crate and of `store` and `users`, which include this file. The variable
//! `SHARDIS_TEST_SERVER` names another program: of another version, or a valkey-server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use command::Server;
use resp::encode;
use resp::reply::{ReplyLimits, Scanner};

/// Number of ports that are tried. Another process may take a port between the check and the start.
const STARTS_MAX: usize = 5;

/// A reply that takes longer counts as one that never comes.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// The program that is started.
const PROGRAM: &str = "SHARDIS_TEST_SERVER";

/// A running redis-server with one connection to it. It dies with this value.
pub(crate) struct Node {
    child: Child,
    conn: TcpStream,
    server: Server,
}

impl Node {
    /// `None`, with a message, if redis-server is not installed; on CI that is a failure.
    #[allow(dead_code, reason = "some is compared with Redis 7.0 alone")]
    pub(crate) fn start() -> Option<Node> {
        Node::start_with(&[])
    }

    /// As [`Node::start`], with more options.
    fn start_with(options: &[&str]) -> Option<Node> {
        for _ in 0..STARTS_MAX {
            match try_start(options) {
                Ok(Some(node)) => return Some(node),
                Ok(None) => continue,
                Err(error) if is_ci() => panic!("redis-server cannot be started, and CI=true: {error}"),
                Err(error) => {
                    eprintln!("SKIPPED: redis-server cannot be started: {error}");
                    return None;
                }
            }
        }
        panic!("redis-server found no free port in {STARTS_MAX} attempts");
    }

    /// A node for comparisons with Redis 7.0 alone. `None`, with a message, if another server was requested. Without a request,
    /// a missing Redis is a failure on CI.
    #[allow(dead_code, reason = "the table is compared with any version")]
    pub(crate) fn start_7_0() -> Option<Node> {
        Node::start_7_0_with(&[])
    }

    /// As [`Node::start_7_0`], with more options.
    #[allow(dead_code, reason = "the table is compared with any version")]
    pub(crate) fn start_7_0_with(options: &[&str]) -> Option<Node> {
        let node = Node::start_with(options)?;
        if node.server == Server::Redis(7, 0) {
            return Some(node);
        }
        let what = format!("this is compared with Redis 7.0, and the server here is {}", node.server);
        assert!(!is_ci() || std::env::var_os(PROGRAM).is_some(), "{what}; CI=true");
        eprintln!("SKIPPED: {what}");
        None
    }

    /// Its program and version.
    #[allow(dead_code, reason = "what is compared with Redis 7.0 alone need not ask")]
    pub(crate) fn server(&self) -> Server {
        self.server
    }

    /// Sends `args` and gives the reply as it came.
    pub(crate) fn ask_raw(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut request = Vec::new();
        encode::request(&mut request, args);
        self.ask_bytes(&request)
    }

    /// Sends `request` unchanged and returns the raw reply. The node closes the connection after a protocol error; the next
    /// request then has a new one.
    pub(crate) fn ask_bytes(&mut self, request: &[u8]) -> Vec<u8> {
        self.conn.write_all(request).expect("the node takes the request");
        let shown = || request.escape_ascii().to_string();
        let (mut scanner, mut bytes, mut chunk) = (Scanner::default(), Vec::new(), [0; 65536]);
        loop {
            let len =
                self.conn.read(&mut chunk).unwrap_or_else(|error| panic!("no reply to {}: {error}", shown()));
            assert_ne!(len, 0, "the node closed the connection on {}", shown());
            bytes.extend_from_slice(&chunk[..len]);
            if let Some(len) = scanner.scan(&bytes, &ReplyLimits::default()).expect("RESP") {
                assert_eq!(len, bytes.len(), "one reply to {}", shown());
                break;
            }
        }
        if bytes.starts_with(b"-ERR Protocol error") {
            self.conn = connect(self.conn.peer_addr().expect("a connection has two ends")).expect("a node");
        }
        bytes
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The process may have died before; it must only be gone now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// `Ok(None)` if the port was taken in the meantime.
fn try_start(options: &[&str]) -> std::io::Result<Option<Node>> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let program = std::env::var_os(PROGRAM).unwrap_or_else(|| "redis-server".into());
    let version = Command::new(&program).arg("--version").output()?.stdout;
    let server = Server::of_version(&String::from_utf8_lossy(&version)).expect("it says what it is");
    let mut child = Command::new(&program)
        .args(["--bind", "127.0.0.1", "--save", "", "--daemonize", "no", "--port", &port.to_string()])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let log = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    // The log names the moment at which the node listens; if the node stops before, its log ends.
    let is_ready = log.lines().map_while(Result::ok).any(|line| line.contains("Ready to accept connections"));
    if !is_ready {
        child.wait()?;
        return Ok(None);
    }
    let conn = connect((Ipv4Addr::LOCALHOST, port).into())?;
    Ok(Some(Node { child, conn, server }))
}

fn connect(addr: SocketAddr) -> std::io::Result<TcpStream> {
    let conn = TcpStream::connect(addr)?;
    conn.set_read_timeout(Some(REPLY_TIMEOUT))?;
    Ok(conn)
}
