//! The processes of a soak, and the proxy's resources.

use crate::harness::certificates::Directory;
use crate::harness::local::Local;
use crate::harness::processes::Process;
use crate::harness::{Client, Proxy, RedisServer, World, kernel, poll_until};

const SHARDS: usize = 4;

/// Descriptors that the proxy may have open beside those of the start: links to nodes that are being made or closed.
const DESCRIPTORS_MORE_MAX: usize = 8;

/// Allowed growth of the proxy since the start with nothing in flight: the allocator's reserve.
const RESIDENT_MORE_MAX: u64 = 128 << 20;

/// The usual request timeout, so that a frozen node costs little time, and a bound that slow readers reach.
const FLAGS: [&str; 4] =
    ["--workers=2", "--request-timeout-ms=1000", "--connect-timeout-ms=1000", "--memory-max=256mb"];

/// Nodes that keep each write, and the proxy that all rounds share.
pub(super) struct Scene {
    pub(super) world: World,
    folders: Vec<Directory>,
    /// A cluster with a proxy of its own, from the first failover on.
    cluster: Option<Cluster>,
    before: Held,
}

/// The proxy's resources at the start.
#[derive(Default)]
struct Held {
    descriptors: Option<usize>,
    resident: Option<u64>,
}

/// A real cluster, its proxy, and nodes that a test started once more.
pub(super) struct Cluster {
    pub(super) local: Local,
    pub(super) proxy: Proxy,
    pub(super) revived: Vec<Process>,
    /// Failovers so far.
    pub(super) failovers: usize,
}

impl Scene {
    pub(super) fn start() -> Scene {
        let folders: Vec<Directory> = (0..SHARDS).map(|_| Directory::new()).collect();
        let nodes: Vec<RedisServer> = folders
            .iter()
            .map(|folder| RedisServer::start_with(&options(&folder.path("").display().to_string())))
            .collect();
        let proxy = Proxy::over(&nodes, &FLAGS);
        let scene = Scene { world: World { nodes, proxy }, folders, cluster: None, before: Held::default() };
        scene.wait_for_all_shards();
        scene
    }

    /// From now on the proxy must not hold much more.
    pub(super) fn begin_measuring(&mut self) {
        self.assert_nothing_is_left();
        let pid = self.world.proxy.pid();
        self.before = Held { descriptors: kernel::open_files(pid), resident: kernel::resident_bytes(pid) };
    }

    /// SIGKILL for a node. All acknowledged writes are on its disk.
    pub(super) fn kill(&mut self, node: usize) {
        self.world.nodes[node].kill();
    }

    /// Starts a node that was killed, with its data.
    pub(super) fn restart(&mut self, node: usize) {
        let (port, folder) = (self.world.nodes[node].port, self.folders[node].path("").display().to_string());
        self.world.nodes[node] = poll_until("the node", || RedisServer::try_start(port, &options(&folder)));
    }

    /// The cluster, which is started at the first call.
    pub(super) fn cluster(&mut self) -> &mut Cluster {
        self.cluster.get_or_insert_with(Cluster::start)
    }

    /// Waits until requests for each shard are served.
    pub(super) fn wait_for_all_shards(&self) {
        let mut witness = self.world.connect();
        for key in self.world.key_on_each("witness") {
            poll_until("all shards", || (witness.ask(&format!("EXISTS {key}")) == ":0\\r\\n").then_some(()));
        }
    }

    /// Removes all keys; then the proxy must hold as much as at the start.
    pub(super) fn assert_nothing_is_left(&self) {
        let (mut witness, pid) = (self.world.connect(), self.world.proxy.pid());
        poll_until("all keys to be gone", || (witness.ask("FLUSHALL") == "+OK\\r\\n").then_some(()));
        for expected in ["connected_clients:1\\r", "blocked_clients:0\\r", "pubsub_clients:0\\r"] {
            poll_until(expected, || witness.ask("INFO clients").contains(expected).then_some(()));
        }
        if let Some(before) = self.before.descriptors {
            poll_until("descriptors to be closed", || {
                kernel::open_files(pid).is_none_or(|now| now <= before + DESCRIPTORS_MORE_MAX).then_some(())
            });
        }
        if let Some(before) = self.before.resident {
            poll_until("memory to be given back", || {
                kernel::resident_bytes(pid).is_none_or(|now| now <= before + RESIDENT_MORE_MAX).then_some(())
            });
        }
    }

    /// Checks that the log names no fault of shardis itself.
    pub(super) fn assert_log_is_sane(&mut self) {
        assert!(self.world.proxy.ended().is_none(), "the proxy has ended");
        let log = self.world.proxy.output();
        let odd: Vec<&str> =
            log.lines().filter(|line| line.contains("panicked") || line.contains("ERROR")).collect();
        assert!(odd.is_empty(), "{odd:#?}");
    }

    /// The proxy's resources and counts, for the report.
    pub(super) fn figures(&self) -> String {
        let pid = self.world.proxy.pid();
        let mib = |bytes: Option<u64>| bytes.unwrap_or_default() >> 20;
        let (resident, peak) = (mib(kernel::resident_bytes(pid)), mib(kernel::peak_resident_bytes(pid)));
        let descriptors = kernel::open_files(pid).unwrap_or_default();
        let stats = self.world.connect().ask("INFO stats");
        let counters = COUNTERS.map(|name| format!(" {name}={}", field(&stats, name)));
        format!("resident_mib={resident} peak_mib={peak} descriptors={descriptors}{}", counters.concat())
    }
}

/// Fields of `INFO stats` in the report.
const COUNTERS: [&str; 3] = ["total_connections_received", "total_commands_processed", "closed_connections"];

/// The value of a field of INFO's escaped text.
pub(super) fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let rest = info.split(&format!("{name}:")).nth(1);
    rest.and_then(|rest| rest.split('\\').next()).unwrap_or("?")
}

/// A node's options. An append-only file that the kernel has is enough: processes are killed, the machine is not.
fn options(folder: &str) -> [&str; 6] {
    ["--appendonly", "yes", "--appendfsync", "no", "--dir", folder]
}

impl Cluster {
    fn start() -> Cluster {
        let local = Local::start(&["--cluster=6", "--failover-ms=1000"]);
        let seeds = format!("--cluster={}", local.addresses_of("nodes"));
        let proxy = Proxy::start(&[&seeds, "--host=127.0.0.1", "--port=0"]);
        let mut client = Client::connect(proxy.port);
        poll_until("the cluster", || (client.ask("SET first x") == "+OK\\r\\n").then_some(()));
        Cluster { local, proxy, revived: Vec::new(), failovers: 0 }
    }
}
