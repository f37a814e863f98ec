//! The processes: `shardis local` with all its children, and nodes that were killed and started again.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use programs::process::{command, target_dir};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::By;
use super::direct::Direct;
use super::strain::Watch;

/// The output of `shardis local --json`.
#[derive(Deserialize)]
struct Ready {
    folder: PathBuf,
    nodes: Vec<NodeReady>,
    proxy: Option<ProxyReady>,
    sets: Vec<String>,
    sentinels: Vec<SentinelReady>,
}

#[derive(Deserialize)]
struct NodeReady {
    address: String,
    name: String,
    pid: i32,
    primary: Option<String>,
}

#[derive(Deserialize)]
struct ProxyReady {
    address: String,
    pid: u32,
}

#[derive(Deserialize)]
struct SentinelReady {
    address: String,
}

/// A node, and the process that it is at present.
pub(super) struct Node {
    pub(super) address: String,
    folder: PathBuf,
    pid: i32,
    /// The process, if it is one of ours.
    child: Option<Child>,
}

/// Two nodes that have the same keys: one of them is the primary.
pub(super) struct Pair {
    pub(super) nodes: [usize; 2],
    /// Its name at the sentinels.
    pub(super) set: Option<String>,
}

/// All of it. It ends with this value.
pub(super) struct Scene {
    pub(super) by: By,
    pub(super) nodes: Vec<Node>,
    pub(super) pairs: Vec<Pair>,
    pub(super) proxy: String,
    /// The proxy's use of the machine.
    pub(super) watch: Watch,
    /// The latency of the nodes without the proxy.
    pub(super) direct: Direct,
    pub(super) sentinels: Vec<String>,
    local: Child,
}

/// Time within which a topology must have settled after a fault: nodes that come back load and ask for all data.
const SETTLED_IN: Duration = Duration::from_secs(60);
/// Between two looks at whether it has.
const SETTLED_EVERY: Duration = Duration::from_millis(50);

impl Scene {
    /// Starts everything and waits until it is ready.
    pub(super) fn start(by: By, failover_ms: u32, data: &Path) -> Result<Scene> {
        let mut local = command("setpriv");
        local.args(["--pdeathsig", "TERM"]).arg(target_dir().join("dist/shardis")).arg("local");
        match by {
            By::Cluster => local.arg("--cluster=6"),
            By::Sentinel => local.args(["--sentinel", "--sets=3", "--replication=2"]),
        };
        local.args(["--json", "--proxy"]).arg(format!("--failover-ms={failover_ms}"));
        local.arg(format!("--keep={}", data.display())).args(["--", "--workers=1", "--log-level=error"]);
        let mut local = local.stdout(Stdio::piped()).spawn().context("cannot run shardis local")?;
        let mut line = String::new();
        BufReader::new(local.stdout.take().context("it has a stdout")?).read_line(&mut line)?;
        let ready: Ready = serde_json::from_str(&line).context("shardis local did not get ready")?;
        let pairs = pairs(&ready)?;
        let node = |node: &NodeReady| Node {
            address: node.address.clone(),
            folder: ready.folder.join(&node.name),
            pid: node.pid,
            child: None,
        };
        let proxy = ready.proxy.context("there is a proxy")?;
        let scene = Scene {
            by,
            nodes: ready.nodes.iter().map(node).collect(),
            pairs,
            watch: Watch::start(proxy.pid),
            direct: Direct::start(ready.nodes.iter().map(|node| node.address.clone()).collect()),
            proxy: proxy.address,
            sentinels: ready.sentinels.into_iter().map(|sentinel| sentinel.address).collect(),
            local,
        };
        scene.serve_what_is_there()?;
        Ok(scene)
    }

    /// By default all nodes of a cluster refuse everything as long as one slot has no node. That would hide the effect on the
    /// other shards.
    fn serve_what_is_there(&self) -> Result<()> {
        if self.by == By::Cluster {
            for node in &self.nodes {
                for words in
                    [&["CONFIG", "SET", "cluster-require-full-coverage", "no"][..], &["CONFIG", "REWRITE"]]
                {
                    let said: String =
                        ask(&node.address, words).context("a node does not let us configure it")?;
                    ensure!(said == "OK", "CONFIG says {said}");
                }
            }
        }
        Ok(())
    }

    /// Kills the node's process, which cannot say goodbye.
    pub(super) fn kill(&mut self, node: usize) -> Result<()> {
        self.signal(node, Signal::KILL)?;
        if let Some(mut child) = self.nodes[node].child.take() {
            child.wait()?;
        }
        Ok(())
    }

    /// Stops it, or continues it: its sockets stay open, and it answers nothing.
    pub(super) fn freeze(&self, node: usize, is_frozen: bool) -> Result<()> {
        self.signal(node, if is_frozen { Signal::STOP } else { Signal::CONT })
    }

    fn signal(&self, node: usize, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.nodes[node].pid).context("a process has a number")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Starts a killed node again, with its saved data.
    pub(super) fn restart(&mut self, node: usize) -> Result<()> {
        let node = &mut self.nodes[node];
        let mut server = command("setpriv");
        server.args(["--pdeathsig", "KILL", "redis-server", "redis.conf"]).current_dir(&node.folder);
        let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("redis-server")?;
        node.pid = i32::try_from(child.id()).context("a process's number")?;
        node.child = Some(child);
        Ok(())
    }

    /// The primary and the replica of a pair, once one follows the other and all parties agree.
    pub(super) fn settled(&self, pair: usize) -> Result<(usize, usize)> {
        let deadline = Instant::now() + SETTLED_IN;
        let [first, second] = self.pairs[pair].nodes;
        loop {
            for (primary, replica) in [(first, second), (second, first)] {
                if self.is_primary(primary) && self.follows(replica) && self.agrees(primary) {
                    return Ok((primary, replica));
                }
            }
            ensure!(Instant::now() < deadline, "the nodes of pair {pair} do not find together");
            // All nodes are asked, over new connections: more often, clients would notice it.
            self.look_at(second, SETTLED_EVERY);
        }
    }

    /// Looks at the node for some time, as a wait for its promotion does. The cost of looking is thus the same with and without
    /// a fault.
    pub(super) fn look_at(&self, node: usize, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            self.is_primary(node);
            pause();
        }
    }

    /// Whether the node says that it is a primary.
    pub(super) fn is_primary(&self, node: usize) -> bool {
        role(&self.nodes[node].address).is_some_and(|(role, _)| role == "master")
    }

    /// Whether the node follows another and has that one's data.
    fn follows(&self, node: usize) -> bool {
        role(&self.nodes[node].address).is_some_and(|(role, state)| role == "slave" && state == "connected")
    }

    /// Whether all deciding parties have seen the change. In a cluster, all nodes are well. With sentinels, all name this
    /// primary and have a replica that is up.
    fn agrees(&self, primary: usize) -> bool {
        match self.by {
            By::Cluster => self.nodes.iter().all(|node| {
                let info: Option<String> = ask(&node.address, &["CLUSTER", "INFO"]);
                let nodes: Option<String> = ask(&node.address, &["CLUSTER", "NODES"]);
                info.is_some_and(|info| info.contains("cluster_state:ok"))
                    && nodes.is_some_and(|nodes| !nodes.contains("fail"))
            }),
            By::Sentinel => {
                let Some(pair) = self.pairs.iter().find(|pair| pair.nodes.contains(&primary)) else {
                    return false;
                };
                let set = pair.set.as_deref().unwrap_or_default();
                self.sentinels.iter().all(|sentinel| {
                    let said: Option<(String, String)> =
                        ask(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", set]);
                    let replicas: Option<Vec<Vec<String>>> = ask(sentinel, &["SENTINEL", "REPLICAS", set]);
                    let is_well = |replica: &Vec<String>| {
                        replica.chunks(2).any(|field| field[0] == "flags" && field[1] == "slave")
                    };
                    said.is_some_and(|(host, port)| format!("{host}:{port}") == self.nodes[primary].address)
                        && replicas.is_some_and(|replicas| replicas.iter().any(is_well))
                })
            }
        }
    }

    /// The pair that has `key`: the one whose primary answers for it and knows it.
    pub(super) fn pair_of(&self, key: &str) -> Result<usize> {
        for (number, pair) in self.pairs.iter().enumerate() {
            for &node in &pair.nodes {
                let value: Option<Option<i64>> = ask(&self.nodes[node].address, &["GET", key]);
                if let Some(Some(_)) = value {
                    return Ok(number);
                }
            }
        }
        bail!("no node has {key}")
    }

    /// Lines of the proxy's INFO that tell how it fared.
    pub(super) fn proxy_stats(&self) -> Result<Vec<String>> {
        let info: String = ask(&self.proxy, &["INFO"]).context("the proxy's INFO")?;
        const TOLD: [&str; 4] = ["redirect", "topology", "refresh", "discover"];
        let is_told = |line: &&str| TOLD.iter().any(|word| line.contains(word));
        Ok(info.lines().filter(is_told).map(str::to_owned).collect())
    }
}

/// Two plain nodes without clients, a primary and its replica.
pub(super) struct Strangers {
    ports: [u16; 2],
    folder: PathBuf,
    children: [Option<Child>; 2],
}

impl Strangers {
    /// Starts them, with as little data as the others have.
    pub(super) fn start() -> Result<Strangers> {
        let folder = target_dir().join(format!("strangers-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let free = || -> Result<u16> { Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port()) };
        let mut strangers = Strangers { ports: [free()?, free()?], folder, children: [None, None] };
        strangers.run(0, None)?;
        strangers.run(1, Some(0))?;
        strangers.wait_until_linked(1)?;
        Ok(strangers)
    }

    fn run(&mut self, node: usize, primary: Option<usize>) -> Result<()> {
        let mut server = command("setpriv");
        server.args(["--pdeathsig", "KILL", "redis-server", "--bind", "127.0.0.1", "--save", "", "--port"]);
        server.args([&self.ports[node].to_string(), "--dbfilename", &format!("{node}.rdb"), "--dir"]);
        server.arg(&self.folder);
        if let Some(primary) = primary {
            server.args(["--replicaof", "127.0.0.1", &self.ports[primary].to_string()]);
        }
        let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("redis-server")?;
        self.children[node] = Some(child);
        Ok(())
    }

    fn wait_until_linked(&self, node: usize) -> Result<()> {
        let deadline = Instant::now() + SETTLED_IN;
        while role(&self.address(node)).is_none_or(|(_, state)| state != "connected") {
            ensure!(Instant::now() < deadline, "the strangers do not find together");
            pause();
        }
        Ok(())
    }

    fn address(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.ports[node])
    }

    /// The primary is killed, its replica replaces it after `wait`, and it comes back as the replica.
    pub(super) fn fail_over(&mut self, wait: impl FnOnce()) -> Result<()> {
        self.end(0)?;
        wait();
        let said: String =
            ask(&self.address(1), &["REPLICAOF", "NO", "ONE"]).context("it does not answer")?;
        ensure!(said == "OK", "REPLICAOF says {said}");
        self.run(0, Some(1))?;
        self.wait_until_linked(0)
    }

    fn end(&mut self, node: usize) -> Result<()> {
        if let Some(mut child) = self.children[node].take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        for node in [0, 1] {
            // The node may have ended by itself.
            let _ = self.end(node);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(mut child) = node.child.take() {
                // The process may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        if let Some(pid) = Pid::from_raw(self.local.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.local.wait();
    }
}

/// Which node follows which.
fn pairs(ready: &Ready) -> Result<Vec<Pair>> {
    let primaries = ready.nodes.iter().enumerate().filter(|(_, node)| node.primary.is_none());
    let pair = |(number, (place, node)): (usize, (usize, &NodeReady))| {
        let follows = |other: &NodeReady| other.primary.as_ref() == Some(&node.address);
        let replica = ready.nodes.iter().position(follows).context("each primary has a replica")?;
        Ok(Pair { nodes: [place, replica], set: ready.sets.get(number).cloned() })
    };
    primaries.enumerate().map(pair).collect()
}

/// The reply to `ROLE`: the role, and a replica's state.
fn role(address: &str) -> Option<(String, String)> {
    let role: Vec<redis::Value> = ask(address, &["ROLE"])?;
    let word = |at: usize| role.get(at).and_then(|value| redis::from_redis_value_ref(value).ok());
    Some((word(0)?, word(3).unwrap_or_default()))
}

/// Asks the process at `address`, over a new connection. `None` if it does not answer, or with an error.
pub(super) fn ask<T: redis::FromRedisValue>(address: &str, words: &[&str]) -> Option<T> {
    let mut connection = connect(address).ok()?;
    let mut command = redis::Cmd::new();
    command.arg(words);
    command.query(&mut connection).ok()
}

/// A connection with timeouts.
pub(super) fn connect(address: &str) -> Result<redis::Connection> {
    let client = redis::Client::open(format!("redis://{address}/"))?;
    let connection = client.get_connection_with_timeout(ANSWERED_IN)?;
    connection.set_read_timeout(Some(ANSWERED_IN))?;
    connection.set_write_timeout(Some(ANSWERED_IN))?;
    Ok(connection)
}

/// A frozen node does not answer: the timeout is more than enough for one that is not frozen.
const ANSWERED_IN: Duration = Duration::from_secs(5);

/// Between two looks at a node.
pub(super) fn pause() {
    // tidy: allow(sleep): the pause between two looks; nodes send no event when they have been promoted.
    std::thread::sleep(Duration::from_millis(2));
}
