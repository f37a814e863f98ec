//! The contestants: how each is started and configured, so that all of them do the same with one thread.
//!
//! Nothing is tuned in favour of one of them. Where a rival's default would hold it back, the configuration says so. Examples
//! are the number of connections that nginx and haproxy admit, and the wait before nutcracker tries a node again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use programs::needs::{self, Need};
use programs::process::{self, cargo, command, target_dir};
use serde::{Deserialize, Serialize};

use super::cells::Test;
use super::machine::{self, Place};
use super::running::{Child, free_ports};

/// The relation of a contestant to shardis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// shardis as this tree builds it.
    Ours,
    /// shardis built from another tree, or with another setting.
    Variant,
    /// shardis whose worker looks for events for a while before it sleeps.
    Polling,
    /// shardis with two workers.
    Workers,
    /// A proxy that shards as we do.
    Sharding,
    /// A proxy that forwards bytes to one node without reading them.
    PassThrough,
    /// shardis as such a proxy: `shardis tcp`.
    OursPassThrough,
    /// No proxy: one node.
    Direct,
    /// A server that answers everything with the same reply.
    Floor,
}

/// One contestant.
#[derive(Clone, Debug)]
pub(super) struct Contestant {
    pub(super) name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// shardis, with these arguments beside the usual ones.
    Shardis {
        binary: PathBuf,
        role: Role,
        arguments: Vec<String>,
    },
    /// `shardis tcp`, in front of one node as nginx is.
    ShardisTcp {
        binary: PathBuf,
    },
    Nutcracker,
    Nginx,
    Haproxy,
    Direct,
    Echo {
        loadgen: PathBuf,
        reply_bytes: Option<u32>,
    },
}

/// A running contestant, or the node that stands in its place.
pub(super) struct Started {
    /// Where the load goes.
    pub(super) port: u16,
    /// The processes whose CPU time and memory count.
    pub(super) family: Vec<u32>,
    /// As one would type it.
    pub(super) command: String,
    /// Resident bytes when it had just started.
    pub(super) rss_start_bytes: u64,
    /// Kept so that it ends with this.
    _child: Option<Child>,
}

/// In the folder of the contestants: the process id of the one that was started last, for the generator.
pub(super) const PID_FILE: &str = "contestant.pid";

/// Rivals, with the packages that they need.
const RIVALS: [(&str, Kind, &[Need]); 3] = [
    ("nutcracker", Kind::Nutcracker, &[needs::NUTCRACKER]),
    ("nginx", Kind::Nginx, &[needs::NGINX, needs::NGINX_STREAM]),
    ("haproxy", Kind::Haproxy, &[needs::HAPROXY]),
];

/// Longer than any pause between requests at the rates of the cells.
const BUSY_POLL: &str = "--busy-poll=1000";

/// The contestants on this machine, and a line for each that is missing.
pub(super) fn find(
    ours: &Path,
    others: &[PathBuf],
    loadgen: &Path,
) -> Result<(Vec<Contestant>, Vec<String>)> {
    let mut found = vec![shardis("shardis", ours, Role::Ours, &[])];
    for binary in others {
        ensure!(binary.is_file(), "{} is no file", binary.display());
        let binary = binary.canonicalize()?;
        let name = binary.file_name().context("it is a file")?.to_string_lossy().into_owned();
        let is_taken = found.iter().any(|contestant| contestant.name == name);
        ensure!(!is_taken, "there is a contestant called {name}: give the file another name");
        found.push(shardis(&name, &binary, Role::Variant, &[]));
    }
    found.push(shardis("shardis-off", ours, Role::Variant, &["--batching=off"]));
    found.push(shardis("shardis-poll", ours, Role::Polling, &[BUSY_POLL]));
    found.push(shardis("shardis-2-workers", ours, Role::Workers, &["--workers=2"]));
    found.push(Contestant { name: "shardis-tcp".into(), kind: Kind::ShardisTcp { binary: ours.into() } });
    let mut missing = Vec::new();
    for (name, kind, needs) in RIVALS {
        let packages = needs::missing(needs);
        match packages.is_empty() {
            true => found.push(Contestant { name: name.into(), kind }),
            false => missing.push(format!("{name}: apt-get install {}", packages.join(" "))),
        }
    }
    found.push(Contestant { name: "direct".into(), kind: Kind::Direct });
    found.push(Contestant {
        name: "echo".into(),
        kind: Kind::Echo { loadgen: loadgen.into(), reply_bytes: None },
    });
    Ok((found, missing))
}

fn shardis(name: &str, binary: &Path, role: Role, arguments: &[&str]) -> Contestant {
    let arguments = arguments.iter().map(|&argument| argument.into()).collect();
    Contestant { name: name.into(), kind: Kind::Shardis { binary: binary.into(), role, arguments } }
}

/// Builds `package` as it is shipped, and returns the binary of that name.
pub(super) fn build(package: &str) -> Result<PathBuf> {
    process::run(&mut cargo(["build", "--quiet", "--profile", "dist", "--package", package]))?;
    Ok(target_dir().join("dist").join(package))
}

impl Contestant {
    pub(super) fn role(&self) -> Role {
        match &self.kind {
            Kind::Shardis { role, .. } => *role,
            Kind::ShardisTcp { .. } => Role::OursPassThrough,
            Kind::Nutcracker => Role::Sharding,
            Kind::Nginx | Kind::Haproxy => Role::PassThrough,
            Kind::Direct => Role::Direct,
            Kind::Echo { .. } => Role::Floor,
        }
    }

    /// The same with `argument` added; only shardis takes any.
    pub(super) fn with_argument(&self, argument: &str) -> Contestant {
        let mut with = self.clone();
        if let Kind::Shardis { arguments, .. } = &mut with.kind {
            arguments.push(argument.into());
        }
        with
    }

    /// Its version in one line.
    pub(super) fn version(&self) -> Option<String> {
        let (program, argument): (&Path, &str) = match &self.kind {
            Kind::Shardis { binary, .. } | Kind::ShardisTcp { binary } => (binary, "--version"),
            Kind::Nutcracker => (Path::new("nutcracker"), "--version"),
            Kind::Nginx => (Path::new("nginx"), "-v"),
            Kind::Haproxy => (Path::new("haproxy"), "-v"),
            Kind::Direct => (Path::new("redis-server"), "--version"),
            Kind::Echo { .. } => return None,
        };
        let output = command(program).arg(argument).output().ok()?;
        // nutcracker and nginx say it on stderr.
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text)
            .lines()
            .find(|line| !line.trim().is_empty())
            .map(|line| line.trim().into())
    }

    /// The same; the echo server sends the reply for `test`.
    pub(super) fn answering(&self, test: Test, value_bytes: u32) -> Contestant {
        let mut answering = self.clone();
        if let Kind::Echo { reply_bytes, .. } = &mut answering.kind {
            *reply_bytes = (test == Test::Get).then_some(value_bytes);
        }
        answering
    }

    /// Starts it at `place`, in front of `nodes` (ports and process ids), with its files in `folder`.
    pub(super) fn start(&self, place: Place, nodes: &[(u16, u32)], folder: &Path) -> Result<Started> {
        if let (Kind::Direct, [(port, id), ..]) = (&self.kind, nodes) {
            let family = vec![*id];
            let (rss_start_bytes, _) = machine::resident_bytes(&family)?;
            let command = "redis-server, the first of the nodes".into();
            return Ok(Started { port: *port, family, command, rss_start_bytes, _child: None });
        }
        let [port] = free_ports()?;
        let nodes: Vec<u16> = nodes.iter().map(|&(port, _)| port).collect();
        self.start_on(port, place, &nodes, folder)
    }

    /// Starts it on `port`; its process id is in [`PID_FILE`] before it listens.
    pub(super) fn start_on(&self, port: u16, place: Place, nodes: &[u16], folder: &Path) -> Result<Started> {
        let (mut command, shown) = self.command(place, port, nodes, folder)?;
        let log = folder.join(format!("{}.log", self.name));
        let child = Child::start(&self.name, command.current_dir(folder), &log)?;
        std::fs::write(folder.join(PID_FILE), child.id().to_string())?;
        child.await_port(port)?;
        let family = machine::family(child.id());
        let (rss_start_bytes, _) = machine::resident_bytes(&family)?;
        Ok(Started { port, family, command: shown, rss_start_bytes, _child: Some(child) })
    }

    /// The command, and its form for reports: programs by their names, without their folders.
    fn command(&self, place: Place, port: u16, nodes: &[u16], folder: &Path) -> Result<(Command, String)> {
        let mut shown_config = String::new();
        let mut config = |name: &str, text: String| {
            shown_config.extend(text.lines().map(|line| format!("\n    | {line}")));
            std::fs::write(folder.join(name), text)
        };
        let (program, words): (&Path, Vec<String>) = match &self.kind {
            Kind::Shardis { binary, arguments, .. } => (binary, shardis_words(port, nodes, arguments)),
            Kind::ShardisTcp { binary } => (binary, shardis_tcp_words(port, nodes[0])),
            Kind::Nutcracker => {
                config("nutcracker.yml", nutcracker_config(port, nodes))?;
                let [stats_port] = free_ports()?;
                let words = format!("-c nutcracker.yml -s {stats_port} -a 127.0.0.1");
                (Path::new("nutcracker"), split(&words))
            }
            Kind::Nginx => {
                config("nginx.conf", nginx_config(port, nodes[0]))?;
                let prefix = folder.to_string_lossy().into_owned();
                (Path::new("nginx"), vec!["-p".into(), prefix, "-c".into(), "nginx.conf".into()])
            }
            Kind::Haproxy => {
                config("haproxy.cfg", haproxy_config(port, nodes[0]))?;
                (Path::new("haproxy"), split("-db -f haproxy.cfg"))
            }
            Kind::Echo { loadgen, reply_bytes } => {
                let data = reply_bytes.map(|bytes| format!(" --data {bytes}")).unwrap_or_default();
                (loadgen, split(&format!("echo --port {port}{data}")))
            }
            Kind::Direct => anyhow::bail!("there is no node"),
        };
        let mut command = machine::placed(place, program);
        command.args(&words);
        let folder = folder.to_string_lossy();
        let words = words.join(" ").replace(folder.as_ref(), ".");
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        Ok((command, format!("{name} {words}{shown_config}")))
    }
}

fn split(words: &str) -> Vec<String> {
    words.split(' ').map(String::from).collect()
}

fn shardis_words(port: u16, nodes: &[u16], arguments: &[String]) -> Vec<String> {
    let nodes = nodes.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let mut words = vec!["proxy".into(), format!("--nodes={nodes}"), format!("--port={port}")];
    if !arguments.iter().any(|argument| argument.starts_with("--workers")) {
        words.push("--workers=1".into());
    }
    words.extend_from_slice(arguments);
    words
}

/// nginx does not look at nodes between clients either.
fn shardis_tcp_words(port: u16, node: u16) -> Vec<String> {
    split(&format!("tcp --port={port} --nodes=127.0.0.1:{node} --workers=1 --check=off"))
}

/// crc32a and modula: its cheapest, and the default of shardis.
fn nutcracker_config(port: u16, nodes: &[u16]) -> String {
    let mut text = format!(
        "pool:\n  listen: 127.0.0.1:{port}\n  hash: crc32a\n  distribution: modula\n  redis: true\n  \
         preconnect: true\n  backlog: 4096\n  server_retry_timeout: 100\n  servers:\n"
    );
    for node in nodes {
        let _ = writeln!(text, "  - 127.0.0.1:{node}:1");
    }
    text
}

/// One process, as one worker is one anyway; 16,384 connections, as each client takes two.
fn nginx_config(port: u16, node: u16) -> String {
    format!(
        "load_module {};\ndaemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 16384; }}\n\
         stream {{\n  server {{\n    listen 127.0.0.1:{port} backlog=4096;\n    tcp_nodelay on;\n    \
         proxy_pass 127.0.0.1:{node};\n  }}\n}}\n",
        needs::NGINX_STREAM_MODULE
    )
}

fn haproxy_config(port: u16, node: u16) -> String {
    format!(
        "global\n  nbthread 1\n  maxconn 8192\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  \
         timeout server 1h\nlisten pass\n  bind 127.0.0.1:{port} backlog 4096\n  server node 127.0.0.1:{node}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shardis_has_one_worker_by_default() {
        let words = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
            shardis_words(6380, &[7001, 7002], &arguments).join(" ")
        };
        let usual = "proxy --nodes=127.0.0.1:7001,127.0.0.1:7002 --port=6380";
        assert_eq!(words(&[]), format!("{usual} --workers=1"));
        assert_eq!(words(&["--batching=off"]), format!("{usual} --workers=1 --batching=off"));
        assert_eq!(words(&["--workers=2"]), format!("{usual} --workers=2"));
    }

    #[test]
    fn a_command_is_shown_without_the_folders_of_this_machine() {
        let folder = std::env::temp_dir();
        let contestant = shardis("shardis", Path::new("/somewhere/target/release/shardis"), Role::Ours, &[]);
        let (_, shown) = contestant.command(Place::Proxy, 1, &[3], &folder).expect("nothing is written");
        assert_eq!(shown, "shardis proxy --nodes=127.0.0.1:3 --port=1 --workers=1");
    }

    #[test]
    fn two_builds_need_two_names() {
        let binary = std::env::current_exe().expect("we run");
        let twice = [binary.clone(), binary];
        let error = find(Path::new("shardis"), &twice, Path::new("loadgen")).expect_err("both have one name");
        assert!(error.to_string().starts_with("there is a contestant called"), "{error}");
    }
}
