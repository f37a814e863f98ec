//! The process that runs the nodes. It starts them in order and reports when all are ready. It stops them when the pipe from
//! its supervisor is closed.

use super::arguments::LocalArgs;
use super::children::{Children, Ended};
use super::folder::Folder;
use super::layout::{Habits, Job, Layout, Shape, set_name};
use super::show::{Ready, ReadyNode};
use super::{Event, ports, readiness, server, tell_of_signals};
use crate::die_with_parent::dies_with_us;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The longest time of any step. Seconds are usual for a cluster; on a loaded machine it was half a minute.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Pause between two looks at whether nodes are ready. The end is noticed at once.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Starts with other ports, when another process took one first.
const STARTS_MAX: usize = 5;

/// Runs the topology of `args` in `folder` until its end.
pub(super) fn run(args: &LocalArgs, folder: &Path) -> Result<ExitCode> {
    let (sender, events) = channel();
    tell_of_signals(sender.clone())?;
    tell_of_end(sender)?;
    let server = server::find(args.binary())?;
    for starts in 1.. {
        let mut host = Host::open(args, folder, &server, &events)?;
        match host.start() {
            Ok(ready) => {
                host.announce(&ready)?;
                return host.watch();
            }
            Err(Stop::Interrupted) => return Ok(ExitCode::SUCCESS),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::PortTaken(error)) if starts == STARTS_MAX || !host.may_choose_ports() => {
                return Err(error);
            }
            Err(Stop::PortTaken(_)) => {}
        }
    }
    unreachable!("the last start is an end")
}

/// Reports the end of stdin: the supervisor has closed it, or has ended itself.
fn tell_of_end(events: Sender<Event>) -> Result<()> {
    std::thread::Builder::new().name("pipe".to_owned()).spawn(move || {
        let mut byte = [0];
        // Nobody writes to it: whatever comes is the end.
        let _ = std::io::stdin().read(&mut byte);
        // Nobody listens any more if we end already.
        let _ = events.send(Event::End);
    })?;
    Ok(())
}

/// Why a start did not succeed.
enum Stop {
    Interrupted,
    /// Somebody has taken a port since we looked.
    PortTaken(anyhow::Error),
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Stop {
        Stop::Failed(error)
    }
}

/// All parts of one start. The processes end before their data is removed.
struct Host<'a> {
    children: Children,
    folder: Folder,
    layout: Layout,
    proxy_port: Option<u16>,
    /// Of its admin listener, unless its arguments name one.
    admin_port: Option<u16>,
    args: &'a LocalArgs,
    server: &'a Path,
    events: &'a Receiver<Event>,
}

impl<'a> Host<'a> {
    fn open(
        args: &'a LocalArgs,
        folder: &Path,
        server: &'a Path,
        events: &'a Receiver<Event>,
    ) -> Result<Host<'a>> {
        let folder = Folder::open(folder, args)?;
        let layout = match folder.layout() {
            Some(layout) => layout.clone(),
            None => new_layout(args)?,
        };
        if folder.layout().is_some() {
            let with_bus = layout.shape.is_cluster();
            if let Some(port) = layout.ports.iter().find(|&&port| !ports::is_free(port, with_bus)) {
                let shown = folder.path().display();
                bail!("port {port} is taken, and {shown} needs it: does it run already?");
            }
        }
        let proxy_port = proxy_port(args, &layout)?;
        let admin_port = proxy_port.map(|proxy| admin_port(args, &layout, proxy)).transpose()?.flatten();
        let children = Children::default();
        Ok(Host { children, folder, layout, proxy_port, admin_port, args, server, events })
    }

    /// Whether another start would take other ports.
    fn may_choose_ports(&self) -> bool {
        self.args.port().is_none() && self.folder.layout().is_none()
    }

    /// Starts all in order: each process finds the ones that it needs.
    fn start(&mut self) -> Result<Ready, Stop> {
        let nodes: Vec<u16> = self.start_members(|job| job != Job::Sentinel)?;
        for &port in &nodes {
            self.wait_until("a node answers", || readiness::answers(port))?;
        }
        if self.layout.shape.is_cluster() {
            self.join_cluster()?;
        }
        for &port in &nodes {
            self.wait_until("a replica has copied its primary", || readiness::is_linked(port))?;
        }
        let sentinels = self.start_members(|job| job == Job::Sentinel)?;
        for &port in &sentinels {
            let layout = self.layout.clone();
            self.wait_until("a sentinel knows the others", || readiness::sentinel_is_ready(port, &layout))?;
        }
        self.start_proxy(&nodes, &sentinels)?;
        self.folder.complete(&self.layout)?;
        Ok(self.ready()?)
    }

    /// Starts those whose job `is_meant`, and gives their ports.
    fn start_members(&mut self, is_meant: impl Fn(Job) -> bool) -> Result<Vec<u16>> {
        let habits = Habits { persistent: self.folder.is_kept(), failover_ms: self.args.failover_ms() };
        let mut started = Vec::new();
        let members: Vec<_> = self.layout.members().filter(|(member, _)| is_meant(member.job)).collect();
        for (member, port) in members {
            let config = self.layout.config(member.job, port, habits);
            let (file, flag) = match member.job {
                Job::Sentinel => ("sentinel.conf", Some("--sentinel")),
                Job::Primary { .. } | Job::Replica { .. } => ("redis.conf", None),
            };
            let folder = self.folder.prepare(&member.name, file, &config)?;
            let mut command = dies_with_us(self.server)?;
            command.arg(file).args(flag).current_dir(&folder);
            self.children.start(&member.name, port, command, Some(folder.join("log")))?;
            started.push(port);
        }
        Ok(started)
    }

    /// Makes one cluster of the nodes, or waits until those of an earlier start have found each other again.
    fn join_cluster(&mut self) -> Result<(), Stop> {
        let layout = self.layout.clone();
        if self.folder.layout().is_none() {
            readiness::introduce(&layout)?;
            self.wait_until("nodes have heard of each other", || readiness::know_each_other(&layout))?;
            // A node that knows another may not have finished its handshake, and refuses to replicate it until then.
            self.wait_until("replicas know their primaries", || {
                readiness::replicate(&layout).map(|()| true)
            })?;
        }
        self.wait_until("the cluster serves all slots", || readiness::cluster_is_ready(&layout))
    }

    /// Puts the proxy in front, if it is wanted.
    fn start_proxy(&mut self, nodes: &[u16], sentinels: &[u16]) -> Result<(), Stop> {
        let Some(port) = self.proxy_port else { return Ok(()) };
        let own = std::env::current_exe().context("cannot find the path of this program")?;
        let mut command = dies_with_us(&own)?;
        command.args(proxy_words(self.layout.shape, port, nodes, sentinels)?);
        command.args(self.admin_port.map(|port| format!("--admin=127.0.0.1:{port}")));
        command.args(self.args.proxy_arguments());
        self.children.start("proxy", port, command, None)?;
        self.wait_until("all shards answer behind the proxy", || readiness::all_shards_answer(port))
    }

    /// Asks again and again whether `is_so`, until it is.
    fn wait_until(&mut self, what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<(), Stop> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let looked = is_so();
            if let Ok(true) = looked {
                return Ok(());
            }
            match self.events.recv_timeout(LOOK_EVERY) {
                Ok(Event::End) => return Err(Stop::Interrupted),
                Ok(Event::ChildEnded) => self.check()?,
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(_) => {
                    let seconds = READY_TIMEOUT.as_secs();
                    let reason = looked.err().map(|error| format!(": {error:#}")).unwrap_or_default();
                    return Err(Stop::Failed(anyhow!("waited {seconds} s until {what}{reason}")));
                }
            }
        }
    }

    /// While all are being started, none may end.
    fn check(&mut self) -> Result<(), Stop> {
        match self.children.reap().into_iter().next() {
            None => Ok(()),
            Some(ended) if ended.found_port_taken() => Err(Stop::PortTaken(anyhow!("{ended}"))),
            Some(ended) => Err(Stop::Failed(anyhow!("{ended}"))),
        }
    }

    fn ready(&self) -> Result<Ready> {
        let mut ready = Ready {
            shape: self.layout.shape,
            nodes: Vec::new(),
            sentinels: Vec::new(),
            proxy: None,
            admin_port: self.admin_port,
            folder: self.folder.path().to_owned(),
            is_kept: self.folder.is_kept(),
        };
        let process = |name: String, port, primary| {
            let pid = self.children.pid(&name).with_context(|| format!("{name} has ended"))?;
            anyhow::Ok(ReadyNode { name, port, pid, primary })
        };
        for (member, port) in self.layout.members() {
            match member.job {
                Job::Sentinel => ready.sentinels.push(process(member.name, port, None)?),
                // A failover of an earlier start may have changed the primaries.
                _ => ready.nodes.push(process(member.name, port, readiness::primary_of(port)?)?),
            }
        }
        ready.proxy = self.proxy_port.map(|port| process("proxy".to_owned(), port, None)).transpose()?;
        Ok(ready)
    }

    fn announce(&self, ready: &Ready) -> Result<()> {
        let text = if self.args.json() { format!("{}\n", ready.json()) } else { ready.to_string() };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write the ready message")
    }

    /// Tells of nodes that end, until all is to end.
    fn watch(mut self) -> Result<ExitCode> {
        loop {
            match self.events.recv().context("the thread that waits for signals is gone")? {
                Event::End => break,
                Event::ChildEnded => self.children.reap().iter().for_each(report),
            }
            ensure!(!self.children.is_empty(), "all started processes have ended");
        }
        if self.folder.is_kept() {
            self.children.stop(self.events);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn report(ended: &Ended) {
    // A closed stderr is no reason to end the others.
    let _ = writeln!(std::io::stderr(), "shardis: {ended}");
}

/// A new layout.
fn new_layout(args: &LocalArgs) -> Result<Layout> {
    let shape = args.shape().unwrap_or(Shape::Nodes { nodes: 4 });
    let ports = ports::choose(shape.members().len(), args.port(), shape.is_cluster(), seed())?;
    Ok(Layout { shape, ports })
}

/// The port of the proxy: the given one, or one behind all other given ports, or any.
fn proxy_port(args: &LocalArgs, layout: &Layout) -> Result<Option<u16>> {
    let Some(wanted) = args.proxy() else { return Ok(None) };
    if wanted != 0 {
        ensure!(!layout.ports.contains(&wanted), "--proxy={wanted}: a node has this port; choose another");
        ensure!(ports::is_free(wanted, false), "port {wanted} is taken; choose another with --proxy=PORT");
        return Ok(Some(wanted));
    }
    let behind = layout.ports.last().and_then(|last| last.checked_add(1));
    let base = args.port().and(behind);
    for attempt in 0..STARTS_MAX as u64 {
        let port = ports::choose(1, base, false, seed().wrapping_add(attempt))?[0];
        if !layout.ports.contains(&port) {
            return Ok(Some(port));
        }
    }
    bail!("there is no free port for the proxy; name one with --proxy=PORT")
}

/// The port of the proxy's admin listener: behind its own if ports are given, or any.
fn admin_port(args: &LocalArgs, layout: &Layout, proxy: u16) -> Result<Option<u16>> {
    let is_named = |word: &OsString| word.to_string_lossy().starts_with("--admin");
    if args.proxy_arguments().iter().any(is_named) {
        return Ok(None);
    }
    let base = args.port().and(proxy.checked_add(1));
    for attempt in 0..STARTS_MAX as u64 {
        let port = ports::choose(1, base, false, seed().wrapping_add(attempt))?[0];
        if port != proxy && !layout.ports.contains(&port) {
            return Ok(Some(port));
        }
    }
    bail!("there is no free port for the proxy's admin listener; name one behind --, as in -- --admin=PORT")
}

/// Differs between starts, so that simultaneous ones look for ports in different places.
fn seed() -> u64 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    nanos as u64 ^ u64::from(std::process::id()) << 32
}

/// Arguments of the proxy for its nodes.
fn proxy_words(shape: Shape, port: u16, nodes: &[u16], sentinels: &[u16]) -> Result<Vec<OsString>> {
    let list =
        |ports: &[u16]| ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let mut words = vec!["proxy".to_owned(), "--host=127.0.0.1".to_owned(), format!("--port={port}")];
    match shape {
        Shape::Cluster { .. } => words.push(format!("--cluster={}", list(nodes))),
        Shape::Sets { sets, sentinel: true, .. } => {
            let names: Vec<String> = (0..usize::from(sets)).map(set_name).collect();
            words.push(format!("--sentinel={}", list(sentinels)));
            words.push(format!("--master={}", names.join(",")));
        }
        Shape::Nodes { .. } | Shape::Sets { .. } => {
            let copied: Vec<Option<u16>> =
                nodes.iter().map(|&port| readiness::primary_of(port)).collect::<Result<_>>()?;
            let sets =
                nodes.iter().zip(&copied).filter(|(_, copied)| copied.is_none()).map(|(&primary, _)| {
                    let replicas = nodes.iter().zip(&copied).filter(|(_, copied)| **copied == Some(primary));
                    let set: Vec<u16> =
                        std::iter::once(primary).chain(replicas.map(|(&port, _)| port)).collect();
                    list(&set).replace(',', "|")
                });
            words.push(format!("--nodes={}", sets.collect::<Vec<_>>().join(",")));
        }
    }
    Ok(words.into_iter().map(OsString::from).collect())
}
