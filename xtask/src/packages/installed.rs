//! A package that is tried: installed, started with its own configuration, asked, removed.
//!
//! In CI, as root, dpkg installs and removes it. Elsewhere it is unpacked below `target`: a test must not change a machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use programs::process::{self, command, line, target_dir};

/// Time in which an answer comes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Files of which a package consists, beside the binary.
const FILES: [&str; 9] = [
    "etc/shardis/shardis.toml",
    "usr/lib/systemd/system/shardis.service",
    "usr/lib/systemd/system/shardis.socket",
    "usr/share/bash-completion/completions/shardis",
    "usr/share/doc/shardis/README.md",
    "usr/share/fish/vendor_completions.d/shardis.fish",
    "usr/share/man/man1/shardis-proxy.1",
    "usr/share/man/man1/shardis.1",
    "usr/share/zsh/vendor-completions/_shardis",
];

/// Tries the .deb `package`.
pub(super) fn run(package: &Path) -> Result<()> {
    let installed = Installed::new(package)?;
    let tried = installed.try_all();
    let removed = installed.remove();
    tried.and(removed)
}

/// Where the files of the package are.
struct Installed {
    root: PathBuf,
    /// Whether dpkg knows of it.
    by_dpkg: bool,
}

impl Installed {
    fn new(package: &Path) -> Result<Installed> {
        if may_install()? {
            process::run(command("dpkg").arg("--install").arg(package))?;
            return Ok(Installed { root: PathBuf::from("/"), by_dpkg: true });
        }
        let root = target_dir().join("packages");
        if root.exists() {
            std::fs::remove_dir_all(&root)?;
        }
        process::run(command("dpkg-deb").arg("--extract").args([package, &root]))?;
        println!("packages: unpacked in {}; CI, as root, installs it", root.display());
        Ok(Installed { root, by_dpkg: false })
    }

    fn try_all(&self) -> Result<()> {
        for file in FILES {
            let len = std::fs::metadata(self.root.join(file)).with_context(|| file.to_owned())?.len();
            ensure!(len > 0, "{file} is empty");
        }
        let configuration = self.root.join("etc/shardis/shardis.toml");
        let program = self.root.join("usr/bin/shardis");
        process::run(command(&program).arg("check").arg(&configuration))?;
        let mut proxy = command(&program);
        proxy.arg("proxy").arg(format!("--config={}", configuration.display()));
        // The usual ports may be in use.
        proxy.args(["--port=0", "--admin=0", "--workers=1"]).stderr(Stdio::piped());
        let shown = line(&proxy);
        let mut running = Running(proxy.spawn().with_context(|| shown.clone())?);
        let asked = running.ask();
        running.0.kill()?;
        running.0.wait()?;
        asked.context(shown)
    }

    fn remove(&self) -> Result<()> {
        if !self.by_dpkg {
            return Ok(std::fs::remove_dir_all(&self.root)?);
        }
        process::run(command("dpkg").args(["--purge", "shardis"]))?;
        for file in FILES.iter().chain(&["usr/bin/shardis"]) {
            ensure!(!self.root.join(file).exists(), "{file} is still there");
        }
        Ok(())
    }
}

/// Whether this is CI, as root, without a shardis that somebody else has installed.
fn may_install() -> Result<bool> {
    let is_root = process::read(command("id").arg("-u"))?.trim() == "0";
    let is_there = process::succeeds(command("dpkg").args(["--status", "shardis"]));
    Ok(is_root && !is_there && std::env::var_os("CI").is_some())
}

/// A process that ends with its value.
struct Running(Child);

impl Running {
    /// Waits until it listens, and asks it PING.
    fn ask(&mut self) -> Result<()> {
        let lines = self.0.stderr.take().context("its stderr is a pipe")?;
        let addr = address(lines)?;
        let mut stream = TcpStream::connect(&addr).with_context(|| addr.clone())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply).context("the answer to PING")?;
        ensure!(&reply == b"+PONG\r\n", "PING was answered with {:?}", reply.escape_ascii().to_string());
        println!("packages: the installed shardis at {addr} answers PING");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The address in `shardis 0.1.0 listens on 127.0.0.1:6380 (1 worker)`.
fn address(lines: ChildStderr) -> Result<String> {
    let mut said = String::new();
    for line in BufReader::new(lines).lines() {
        let line = line?;
        if let Some((_, rest)) = line.split_once(" listens on ") {
            let addr = rest.split_whitespace().next();
            return addr.map(str::to_owned).with_context(|| line.clone());
        }
        said += &line;
        said.push('\n');
    }
    bail!("it ended without listening:\n{said}")
}
