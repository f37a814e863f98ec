//! Real topologies, as `shardis local` starts them: clusters, and sentinels with the primaries that they watch.

use super::processes::{Process, shardis_binary};
use super::{Client, kernel, poll_for, poll_until, server};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Each step of a start may take as long as two minutes; all of them together never do.
const READY_MAX: Duration = Duration::from_secs(300);

/// A `shardis local` that is ready.
pub(crate) struct Local {
    pub(crate) process: Process,
    pub(crate) addresses: Value,
}

impl Local {
    /// Starts it with `arguments`, and waits until it is ready.
    pub(crate) fn start(arguments: &[&str]) -> Local {
        let usual = ["--json", "--binary", server::program()];
        let mut process = Process::spawn(local(&[&usual, arguments].concat()), "shardis local");
        // If it takes too long, it ends by itself and prints the reason.
        let addresses = poll_for(READY_MAX, || {
            let said = process.output();
            assert!(process.ended().is_none(), "it ended instead: {said}");
            let line = said.lines().find(|line| line.starts_with('{') && line.ends_with('}'))?.to_owned();
            Some(serde_json::from_str(&line).expect("it is JSON"))
        });
        let local = Local { process, addresses: addresses.expect("the line of JSON") };
        local.ports("sentinels").into_iter().for_each(hasten);
        local
    }

    /// The ports of the processes under `key`.
    pub(crate) fn ports(&self, key: &str) -> Vec<u16> {
        self.list(key).iter().map(port_of).collect()
    }

    /// The processes under `key`.
    pub(crate) fn list(&self, key: &str) -> &[Value] {
        self.addresses[key].as_array().expect("it is a list")
    }

    /// A client of its proxy.
    pub(crate) fn proxy(&self) -> Client {
        Client::connect(port_of(&self.addresses["proxy"]))
    }

    /// The process that runs the nodes.
    pub(crate) fn host(&self) -> u32 {
        kernel::children_of(self.process.pid())[0]
    }

    /// All processes that it started, and those that these started.
    pub(crate) fn family(&self) -> Vec<u32> {
        let listed = self.list("nodes").iter().chain(self.list("sentinels"));
        let listed = listed.chain(Some(&self.addresses["proxy"]).filter(|proxy| !proxy.is_null()));
        let mut pids: Vec<u32> = listed.flat_map(|process| kernel::group_of(pid_of(process))).collect();
        pids.push(self.host());
        pids
    }

    /// Where its data is.
    pub(crate) fn folder(&self) -> PathBuf {
        self.addresses["folder"].as_str().expect("a path").into()
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(mut self) {
        self.process.signal("TERM");
        let status = poll_until("the end of shardis local", || self.process.ended());
        assert!(status.success(), "{status}: {}", self.process.output());
    }
}

/// Has a sentinel look at its nodes and publish its state twice a second instead of every ten seconds. A loaded machine that
/// stops it for seconds must not start its tilt mode, in which it does nothing for half a minute.
fn hasten(port: u16) {
    let words = "SENTINEL DEBUG INFO-PERIOD 500 PUBLISH-PERIOD 500 TILT-TRIGGER 60000";
    let said = Client::connect(port).ask(words);
    assert!(said == "+OK\\r\\n" || !server::is_at_least_7_0(), "{said}");
}

/// The command line `shardis local <arguments>`.
pub(crate) fn local(arguments: &[&str]) -> Command {
    let mut command = shardis_binary();
    command.arg("local").args(arguments);
    command
}

/// Where a process listens.
pub(crate) fn port_of(process: &Value) -> u16 {
    let address = process["address"].as_str().expect("an address");
    address.strip_prefix("127.0.0.1:").expect("of the loopback").parse().expect("a port")
}

/// Its number.
pub(crate) fn pid_of(process: &Value) -> u32 {
    process["pid"].as_u64().expect("a number") as u32
}

impl Local {
    /// Starts a node again that has ended, with further `options`.
    pub(crate) fn revive(&self, port: u16, options: &[&str]) -> Process {
        let index = self.ports("nodes").iter().position(|other| *other == port).expect("it was started here");
        let mut command = Command::new(server::program());
        command.arg("redis.conf").args(options).current_dir(self.folder().join(format!("node-{index}")));
        Process::spawn(command, "redis-server")
    }

    /// The addresses under `key`, with commas between them.
    pub(crate) fn addresses_of(&self, key: &str) -> String {
        let addresses: Vec<String> = self.ports(key).iter().map(|port| format!("127.0.0.1:{port}")).collect();
        addresses.join(",")
    }
}

/// SIGKILL. False if there is no such process.
pub(crate) fn run_kill(pid: u32) -> bool {
    Command::new("sh")
        .args(["-c", &format!("kill -KILL {pid}")])
        .status()
        .is_ok_and(|status| status.success())
}

/// SIGKILL to the node or sentinel at `port`, which a test has started.
pub(crate) fn kill_node(port: u16) {
    let info = Client::connect(port).ask("INFO server");
    let rest = info.split("process_id:").nth(1).expect("it tells");
    let pid = rest.split('\\').next().and_then(|pid| pid.parse().ok()).expect("a number");
    assert!(run_kill(pid), "it runs no more");
}

/// The reply of the node at `port` to ROLE, as text. `None` if it does not answer, as during its start or a change of role.
pub(crate) fn role(port: u16) -> Option<String> {
    let reply = Client::try_connect(port)?.try_command(&[b"ROLE"]).ok()?;
    Some(reply.escape_ascii().to_string())
}

/// Whether the node at `port` says that it is a primary.
pub(crate) fn is_primary(port: u16) -> bool {
    role(port).is_some_and(|role| role.starts_with("*3\\r\\n$6\\r\\nmaster"))
}

/// Makes the replica at `replica` a primary. A replica that is not in step yet refuses. One that was too late drops the order
/// after five seconds.
pub(crate) fn order_failover(replica: u16) {
    let mut ordered_at: Option<Instant> = None;
    poll_until("an ordered failover", || {
        if ordered_at.is_none_or(|at| at.elapsed() > Duration::from_secs(6)) {
            let said = Client::connect(replica).ask("CLUSTER FAILOVER");
            ordered_at = (said == "+OK\\r\\n").then(Instant::now);
        }
        is_primary(replica).then_some(())
    });
}

/// Waits until the node at `port` is a replica that has its primary's data.
pub(crate) fn follows(port: u16) {
    poll_until("a replica in step", || {
        role(port).filter(|role| role.contains("slave") && role.contains("connected")).map(drop)
    });
}
