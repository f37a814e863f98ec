//! Child processes: Redis nodes and the proxy. Each dies with its value, and prints its output when a test fails.

use super::{Client, PATIENCE, kernel, poll_for, poll_until, server};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::ops::Range;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One [`server::program`] without persistence, on a port of its own.
pub(crate) struct RedisServer {
    pub(crate) port: u16,
    process: Process,
}

impl RedisServer {
    /// A Redis 7.0, even with other nodes: shardis uses its words for its own answers.
    pub(crate) fn reference() -> RedisServer {
        RedisServer::start_program(server::REFERENCE, &[])
    }

    /// Starts a node on a free port and waits until it answers.
    pub(crate) fn start() -> RedisServer {
        RedisServer::start_with(&[])
    }

    /// As [`RedisServer::start`], with more options of redis-server.
    pub(crate) fn start_with(options: &[&str]) -> RedisServer {
        RedisServer::start_program(server::program(), options)
    }

    fn start_program(program: &str, options: &[&str]) -> RedisServer {
        // Between the check and redis's bind another process may take the port: then redis ends, and another port is tried.
        for _ in 0..5 {
            if let Some(server) = RedisServer::try_start_program(program, free_port(), options) {
                return server;
            }
        }
        panic!("{program} did not start on any of five free ports");
    }

    /// Starts a node on `port`, which must be free: a node that comes back.
    pub(crate) fn start_on(port: u16) -> RedisServer {
        RedisServer::try_start(port, &[])
            .unwrap_or_else(|| panic!("redis-server did not start on port {port}"))
    }

    /// Starts a node on `port`; `None` if it ends at once, most likely because one of its ports is in use.
    pub(crate) fn try_start(port: u16, options: &[&str]) -> Option<RedisServer> {
        RedisServer::try_start_program(server::program(), port, options)
    }

    fn try_start_program(program: &str, port: u16, options: &[&str]) -> Option<RedisServer> {
        let mut command = Command::new(program);
        // The default name would load another test's snapshot: a replica writes one, even with an empty `--save`.
        let snapshot = format!("shardis-test-{}-{port}.rdb", std::process::id());
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--dbfilename", &snapshot])
            .arg("--dir")
            .arg(std::env::temp_dir())
            .args(server::allows_debug(program))
            .args(options);
        let mut process = Process::spawn(command, "redis-server");
        let answered = poll_for(PATIENCE, || {
            if process.ended().is_some() {
                return Some(false);
            }
            let mut client = Client::try_connect(port)?;
            client.try_command(&[b"PING"]).is_ok_and(|reply| reply == b"+PONG\r\n").then_some(true)
        });
        (answered == Some(true)).then_some(RedisServer { port, process })
    }

    /// A client of this node, past the proxy.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.port)
    }

    /// SIGKILL, and waits until it is gone. Its data is lost.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGSTOP: the kernel still accepts connections and bytes, the node does nothing.
    pub(crate) fn freeze(&self) {
        self.process.freeze();
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        self.process.thaw();
    }
}

/// One `shardis proxy`.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    process: Process,
}

impl Proxy {
    /// Starts a proxy over `nodes` on a free port.
    pub(crate) fn over(nodes: &[RedisServer], flags: &[&str]) -> Proxy {
        let ports: Vec<u16> = nodes.iter().map(|node| node.port).collect();
        Proxy::over_ports(&ports, flags)
    }

    /// Starts a proxy over the present or future nodes on `ports`.
    pub(crate) fn over_ports(ports: &[u16], flags: &[&str]) -> Proxy {
        let addrs: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let nodes = format!("--nodes={}", addrs.join(","));
        Proxy::start(&[&[nodes.as_str(), "--host=127.0.0.1", "--port=0"], flags].concat())
    }

    /// Starts a proxy with just `flags` and waits for the line that says where it listens.
    pub(crate) fn start(flags: &[&str]) -> Proxy {
        match Proxy::try_start(flags) {
            Ok(proxy) => proxy,
            Err(said) => panic!("the proxy ended instead of listening:\n{said}"),
        }
    }

    /// The same for flags that name ports which other processes may take meanwhile. If it ends, returns its output.
    pub(crate) fn try_start(flags: &[&str]) -> Result<Proxy, String> {
        let mut process = Process::spawn(shardis(&patient(flags)), "shardis");
        let port = poll_until("the proxy's \"listens on\" line", || {
            let is_over = process.ended().is_some();
            let said = process.output();
            listening_port(&said).map(Ok).or_else(|| is_over.then_some(Err(said)))
        });
        port.map(|port| Proxy { port, process })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its output so far.
    pub(crate) fn output(&self) -> String {
        self.process.output()
    }

    /// Sends `signal` ("TERM", "HUP", …).
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// SIGSTOP: the kernel still accepts connections and bytes, the proxy does nothing.
    pub(crate) fn freeze(&self) {
        self.process.freeze();
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        self.process.thaw();
    }

    /// Waits until it ended by itself.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        poll_until("the end of the proxy", || self.process.ended())
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }
}

/// `flags`, with timeouts that are long enough for a loaded machine if they name none: slowness is no fault. Tests of timeouts
/// name theirs.
fn patient<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    let usual = ["--request-timeout-ms=10000", "--connect-timeout-ms=10000"];
    let is_about_them = flags.iter().any(|flag| flag.contains("-timeout-ms="));
    let more = if is_about_them { &[] } else { &usual[..] };
    [more, flags].concat()
}

/// The command line `shardis proxy <flags>`.
pub(crate) fn shardis(flags: &[&str]) -> Command {
    let mut command = shardis_binary();
    command.arg("proxy").args(flags);
    command
}

/// `shardis` without arguments. `SHARDIS_BIN` names another binary than the one just built, for example a release build.
pub(crate) fn shardis_binary() -> Command {
    let built = option_env!("CARGO_BIN_EXE_shardis").map(str::to_owned);
    let path =
        std::env::var("SHARDIS_BIN").ok().or(built).expect("cargo built shardis, or SHARDIS_BIN names it");
    Command::new(path)
}

/// Whether `program` is installed: `flag` makes it print its version. CI must have it; elsewhere the test is skipped aloud.
pub(crate) fn is_there(program: &str, flag: &str) -> bool {
    let found = Command::new(program).arg(flag).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        assert!(std::env::var_os("CI").is_none(), "no {program}: cargo xtask test installs it");
        eprintln!("SKIPPED: no {program} in PATH");
    }
    is_there
}

/// Sends `signal` ("TERM", "HUP", …) to a process.
pub(crate) fn send_signal(pid: u32, signal: &str) {
    let script = format!("kill -{signal} {pid}");
    let status = Command::new("sh").args(["-c", &script]).status().expect("there is a shell");
    assert!(status.success(), "{script} failed");
}

/// A port without a listener at this moment.
pub(crate) fn free_port() -> u16 {
    free_ports(1)[0]
}

/// This number of different ports without a listener at this moment. No other test of this process gets them.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Other processes begin elsewhere.
    let begin = std::process::id().wrapping_mul(97);
    let len = u32::from(PORTS.end - PORTS.start);
    let next = || PORTS.start + (begin.wrapping_add(TAKEN.fetch_add(1, Ordering::SeqCst)) % len) as u16;
    let are_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let ports: Vec<u16> =
        std::iter::repeat_with(next).take(PORTS.len()).filter(are_free).take(count).collect();
    assert_eq!(ports.len(), count, "there are free ports from {} on", PORTS.start);
    ports
}

/// The range for nodes. It is below the kernel's range for outgoing connections, which could take the port of a stopped node.
/// It is also below that of `shardis local`.
const PORTS: Range<u16> = 7_000..11_000;

/// The port in `shardis 0.1.0 listens on 127.0.0.1:6380`; 0 if it listens on a unix socket alone.
fn listening_port(output: &str) -> Option<u16> {
    let (_, rest) = output.split_once(" listens on ")?;
    let (line, _) = rest.split_once('\n')?;
    let addr = line.split_whitespace().next()?;
    if addr.starts_with("unix:") {
        return Some(0);
    }
    addr.rsplit_once(':')?.1.trim_end_matches([',', '.', ';']).parse().ok()
}

/// A child process whose output is kept.
pub(crate) struct Process {
    child: Child,
    name: &'static str,
    output: Arc<Mutex<String>>,
}

impl Process {
    /// Starts `command`; two threads read its output, so that it never blocks on a full pipe.
    pub(crate) fn spawn(mut command: Command, name: &'static str) -> Process {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let output = Arc::new(Mutex::new(String::new()));
        collect(child.stdout.take().expect("stdout is a pipe"), &output);
        collect(child.stderr.take().expect("stderr is a pipe"), &output);
        Process { child, name, output }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far, both streams.
    pub(crate) fn output(&self) -> String {
        self.output.lock().expect("no reader panics").clone()
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("our child can be waited for")
    }

    /// Sends a signal by name. The shell's own `kill` does it: std has no call for it, and unsafe is forbidden here.
    pub(crate) fn signal(&self, signal: &str) {
        send_signal(self.child.id(), signal);
    }

    /// SIGSTOP, and waits until each thread has stopped. On a busy machine the other threads run for a while, until the one
    /// with the signal gets a core.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
        poll_until("all threads to stop", || kernel::is_stopped(self.pid()).then_some(()));
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        self.signal("CONT");
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // Fails only if it ended before, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() && self.name != "redis-server" {
            eprintln!("---- {} (pid {}) printed:\n{}----", self.name, self.child.id(), self.output());
        }
    }
}

/// Appends the lines of `stream` to `output` until it ends.
fn collect(stream: impl Read + Send + 'static, output: &Arc<Mutex<String>>) {
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
            output.lock().expect("no reader panics").push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
}

/// Runs `command` to its end and returns its exit code, stdout and stderr. Ends it when it takes too long.
#[track_caller]
pub(crate) fn run(mut command: Command) -> Finished {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let shown = format!("{command:?}");
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
    let (out, err) = (Arc::new(Mutex::new(String::new())), Arc::new(Mutex::new(String::new())));
    let readers = [
        read_all(child.stdout.take().expect("stdout is a pipe"), &out),
        read_all(child.stderr.take().expect("stderr is a pipe"), &err),
    ];
    let Some(status) = poll_for(RUN_PATIENCE, || child.try_wait().expect("our child can be waited for"))
    else {
        let _ = child.kill();
        let _ = child.wait();
        panic!("{shown} did not end within {RUN_PATIENCE:?}");
    };
    for reader in readers {
        reader.join().expect("no reader panics");
    }
    let text = |stream: &Arc<Mutex<String>>| stream.lock().expect("no reader panics").clone();
    Finished { code: status.code(), stdout: text(&out), stderr: text(&err) }
}

/// A whole redis-benchmark takes some seconds; nothing that [`run`] is given takes a minute, but on a loaded machine.
const RUN_PATIENCE: Duration = Duration::from_secs(180);

/// A program's exit code and output.
#[derive(Debug)]
pub(crate) struct Finished {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

fn read_all(
    mut stream: impl Read + Send + 'static,
    into: &Arc<Mutex<String>>,
) -> std::thread::JoinHandle<()> {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A read error on a pipe means that the other side is gone: the bytes so far are all.
        let _ = stream.read_to_end(&mut bytes);
        into.lock().expect("no reader panics").push_str(&String::from_utf8_lossy(&bytes));
    })
}
