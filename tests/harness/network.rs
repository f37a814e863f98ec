//! Machines of their own, for nodes: network namespaces that are joined by a bridge. The proxy and the tests are outside of
//! all. Needs root, and `ip` (iproute2); packet loss needs `nft` (nftables), limited bandwidth `tc` (iproute2).

use super::Client;
use super::processes::{Process, run};
use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Some namespaces. They go with the value.
pub(crate) struct Network {
    name: String,
    /// The first three numbers of all addresses.
    subnet: String,
    size: usize,
}

impl Network {
    /// `size` namespaces, if that can be had; else says so.
    pub(crate) fn new(size: usize) -> Option<Network> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Other tests may run on this machine: in this process, and in others.
        let (count, pid) = (COUNT.fetch_add(1, Ordering::Relaxed), std::process::id());
        let name = format!("s{}x{count}", pid % 1_000_000);
        let subnet = format!("10.{}.{}", 128 + pid % 100, (pid / 100 + count) % 250);
        let network = Network { name, subnet, size };
        let bridge = network.bridge();
        // An address of its own, and not that of a cable: an isolated cable would take packets for the bridge.
        let [_, high, middle, low] = pid.to_be_bytes();
        let hardware = format!("02:{high:02x}:{middle:02x}:{low:02x}:{:02x}:00", count as u8);
        let made = ip(&["link", "add", &bridge, "address", &hardware, "type", "bridge"])
            && ip(&["addr", "add", &format!("{}.254/24", network.subnet), "dev", &bridge])
            && ip(&["link", "set", &bridge, "up"]);
        let all = made && (0..size).all(|number| network.add(number));
        if !all {
            eprintln!("skipped: network namespaces cannot be made here (ip netns needs root)");
        }
        // All parts made so far are removed with the value.
        all.then_some(network)
    }

    fn bridge(&self) -> String {
        format!("{}b", self.name)
    }

    fn namespace(&self, number: usize) -> String {
        format!("{}n{number}", self.name)
    }

    /// The end of its cable that is outside.
    fn cable(&self, number: usize) -> String {
        format!("{}v{number}", self.name)
    }

    /// Where the namespace is.
    pub(crate) fn address(&self, number: usize) -> String {
        format!("{}.{}", self.subnet, number + 1)
    }

    fn add(&self, number: usize) -> bool {
        let (namespace, bridge, outer) = (self.namespace(number), self.bridge(), self.cable(number));
        let inner = format!("{}i{number}", self.name);
        let address = format!("{}/24", self.address(number));
        ip(&["netns", "add", &namespace])
            && ip(&["link", "add", &outer, "type", "veth", "peer", "name", &inner])
            && ip(&["link", "set", &inner, "netns", &namespace])
            && ip(&["-n", &namespace, "link", "set", &inner, "name", INSIDE])
            && ip(&["link", "set", &outer, "master", &bridge, "up"])
            && ip(&["-n", &namespace, "addr", "add", &address, "dev", INSIDE])
            && ip(&["-n", &namespace, "link", "set", INSIDE, "up"])
            && ip(&["-n", &namespace, "link", "set", "lo", "up"])
            && self.remember(number)
    }

    /// Has the kernel outside keep the hardware address of a namespace, as it keeps that of a router. Otherwise it would notice
    /// that the address does not answer, and hold back even probes of connections.
    fn remember(&self, number: usize) -> bool {
        let mut command = Command::new("ip");
        command.args(["-n", &self.namespace(number), "-o", "link", "show", INSIDE]);
        let shown = run(command).stdout;
        let hardware = shown.split("link/ether ").nth(1).and_then(|rest| rest.split(' ').next());
        hardware.is_some_and(|hardware| {
            let (address, bridge) = (self.address(number), self.bridge());
            ip(&["neigh", "replace", &address, "lladdr", hardware, "dev", &bridge, "nud", "permanent"])
        })
    }

    /// No packet goes in or out any more, without notice.
    pub(crate) fn cut_off(&self, number: usize) {
        assert!(ip(&["link", "set", &self.cable(number), "nomaster"]));
    }

    /// Ends that.
    pub(crate) fn join_again(&self, number: usize) {
        assert!(ip(&["link", "set", &self.cable(number), "master", &self.bridge()]));
    }

    /// From now on this percentage of packets is lost, in each direction. Returns false, with a message, where that is
    /// impossible.
    pub(crate) fn lose(&self, number: usize, percent: u32) -> bool {
        let chain = |hook: &str| {
            format!(
                "chain {hook} {{ type filter hook {hook} priority 0; numgen random mod 100 < {percent} counter drop; }}\n"
            )
        };
        let table = format!("table inet loss {{\n{}{}}}\n", chain("input"), chain("output"));
        let rules = format!("flush ruleset\n{}", if percent > 0 { &table } else { "" });
        let mut command = self.inside(number, "nft");
        command.args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::null());
        let done = command.spawn().is_ok_and(|mut nft| {
            let mut input = nft.stdin.take().expect("it is a pipe");
            // Fails where there is no nft: then its end tells.
            let _ = input.write_all(rules.as_bytes());
            drop(input);
            nft.wait().is_ok_and(|status| status.success())
        });
        if !done {
            eprintln!("skipped: packets cannot be lost here (nft, of Debian's package nftables)");
        }
        done
    }

    /// Number of lost packets since the last call of [`Network::lose`].
    pub(crate) fn lost(&self, number: usize) -> u64 {
        let mut command = self.inside(number, "nft");
        command.args(["list", "table", "inet", "loss"]);
        let table = run(command).stdout;
        let counts = table.split("counter packets ").skip(1).map(|rest| rest.split(' ').next());
        counts.map(|count| count.and_then(|count| count.parse::<u64>().ok()).expect("a number")).sum()
    }

    /// Limits the bandwidth in each direction from now on. Returns false, with a message, where that is impossible.
    pub(crate) fn narrow(&self, number: usize, rate: &str) -> bool {
        let shape = |command: &mut Command, device: &str| {
            // Packets that wait for more than a second and a half are lost.
            let words = ["qdisc", "replace", "dev", device, "root", "tbf", "rate", rate];
            command.args(words).args(["burst", "16kb", "latency", "1500ms"]);
            command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let done = shape(&mut Command::new("tc"), &self.cable(number))
            && shape(&mut self.inside(number, "tc"), INSIDE);
        if !done {
            eprintln!("skipped: links cannot be narrowed here (tc, of Debian's package iproute2)");
        }
        done
    }

    /// A program, to be run in a namespace.
    pub(crate) fn inside(&self, number: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(number), program]);
        command
    }

    /// Starts a node in a namespace, at the usual port, with more options of redis-server.
    pub(crate) fn start_node(&self, number: usize, options: &[&str]) -> Process {
        let mut command = self.inside(number, super::server::program());
        command.args(["--port", "6379", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""]);
        // In the folder for all tests it would load a snapshot of another test's replica.
        let snapshot = format!("{}-{number}.rdb", self.name);
        command.args(["--dbfilename", &snapshot, "--dir"]).arg(std::env::temp_dir()).args(options);
        Process::spawn(command, "redis-server")
    }

    /// The output of redis-cli in a namespace, with these arguments.
    pub(crate) fn cli(&self, number: usize, args: &[&str]) -> String {
        let mut command = self.inside(number, "redis-cli");
        command.args(args);
        run(command).stdout
    }

    /// A client of the node in a namespace, from outside.
    pub(crate) fn try_connect(&self, number: usize) -> Option<Client> {
        let stream = TcpStream::connect((self.address(number), 6379)).ok()?;
        Some(Client::of_stream(stream))
    }

    /// All nodes as `--nodes` takes them.
    pub(crate) fn nodes(&self) -> String {
        let nodes: Vec<String> =
            (0..self.size).map(|number| format!("{}:6379", self.address(number))).collect();
        nodes.join(",")
    }
}

/// Name of the device in each namespace.
const INSIDE: &str = "net0";

impl Drop for Network {
    fn drop(&mut self) {
        for number in 0..self.size {
            let _ = ip(&["netns", "del", &self.namespace(number)]);
        }
        let _ = ip(&["link", "del", &self.bridge()]);
    }
}

/// Whether `ip` could do that.
fn ip(args: &[&str]) -> bool {
    let mut command = Command::new("ip");
    command.args(args).stdin(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
