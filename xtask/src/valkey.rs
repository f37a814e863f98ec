//! Our tests with a valkey-server as nodes, those that find differences between servers: random requests, every command, and
//! the table's facts about them.
//!
//! The program is the one in PATH, or Debian's, which for older releases is among the backports. The package is downloaded and
//! unpacked in `target/valkey`, and installed nowhere. A missing package is reported, and is no failure.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use programs::process::{self, command, target_dir};

use crate::apt::{Apt, debian_sources};
use crate::builds;

/// The variable that tells the tests which program to start as nodes.
const SERVER: &str = "SHARDIS_TEST_SERVER";
/// Requests of each random test: enough to meet each command, in some seconds. A run with Redis draws more.
const REQUESTS: &str = "20000";
/// The tests of whole processes that are run.
const MODULES: [&str; 3] = ["differential::", "every_command::", "versions::"];
/// The first has the program that is started; it is a link to a program of the second.
const PACKAGES: [&str; 2] = ["valkey-server", "valkey-tools"];

/// Runs the tests. Returns the reason if there is no such server.
pub(crate) fn run() -> Result<Option<String>> {
    let server = match find() {
        Ok(server) => server,
        Err(error) => {
            let line = format!("valkey skipped: {error:#}");
            println!("{line}");
            return Ok(Some(line));
        }
    };
    println!("valkey: {}", process::read(command(&server).arg("--version"))?.trim());
    let built = builds::tests()?;
    let mut whole = built.test("shardis", "whole")?;
    process::run(whole.args(MODULES).env(SERVER, &server).env("SHARDIS_DIFF_REQUESTS", REQUESTS))?;
    process::run(built.test("command", "against_redis")?.env(SERVER, &server))?;
    Ok(None)
}

/// A program that can be started here.
fn find() -> Result<PathBuf> {
    let installed = PathBuf::from("valkey-server");
    if starts(&installed) {
        return Ok(installed);
    }
    let folder = target_dir().join("valkey");
    let unpacked = folder.join("root/usr/bin/valkey-server");
    if !starts(&unpacked) {
        fetch(&folder)?;
    }
    if !starts(&unpacked) {
        bail!("Debian's valkey-server does not start here");
    }
    Ok(unpacked)
}

fn starts(server: &Path) -> bool {
    process::succeeds(command(server).arg("--version"))
}

/// Unpacks Debian's valkey-server to `root` in `folder`.
fn fetch(folder: &Path) -> Result<()> {
    println!("valkey: from Debian");
    let sources =
        debian_sources("deb $(SITE) $(RELEASE) $(COMPONENT)").context("there is no valkey-server")?;
    let downloads = folder.join("downloads");
    std::fs::create_dir_all(&downloads)?;
    let apt = Apt::new(folder.join("apt"), &with_backports(&sources))?;
    quietly(&mut apt.command(&["update"], &downloads))?;
    quietly(&mut apt.command(&[&["download"], &PACKAGES[..]].concat(), &downloads))?;
    for entry in std::fs::read_dir(&downloads)? {
        quietly(command("dpkg").arg("-x").arg(entry?.path()).arg(folder.join("root")))?;
    }
    Ok(())
}

/// `sources`, and behind them the backports of each release in them. Releases with a dash are parts of others.
fn with_backports(sources: &str) -> String {
    let backports = sources.lines().filter_map(|line| {
        let (head, component) = line.rsplit_once(' ')?;
        let is_release = !head.rsplit_once(' ')?.1.contains('-');
        is_release.then(|| format!("{head}-backports {component}\n"))
    });
    let mut lines: Vec<String> = sources.lines().map(|line| format!("{line}\n")).collect();
    lines.extend(backports);
    lines.concat()
}

/// Runs `command`; its output is shown only if it fails, in the error.
fn quietly(command: &mut Command) -> Result<()> {
    let line = process::line(command);
    let output = command.output().with_context(|| format!("cannot run `{line}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        bail!("Debian's package cannot be had: {}", said.chars().take(300).collect::<String>());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backports_match_the_release_and_its_source() {
        let sources = "deb http://a/debian/ bookworm main\n\
                       deb http://a/debian/ bookworm-updates main\n\
                       deb http://b/security/ bookworm-security main\n";
        let backports = "deb http://a/debian/ bookworm-backports main\n";
        assert_eq!(with_backports(sources), format!("{sources}{backports}"));
        assert_eq!(with_backports("nonsense"), "nonsense\n");
    }
}
