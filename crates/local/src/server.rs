//! The server program: its path, and advice if it is missing.

use anyhow::{Context, Result, anyhow, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Its possible names; the first one on PATH is taken.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// Programs that install others, and their arguments.
const INSTALLERS: [(&str, &str); 7] = [
    ("apt-get", "apt-get install redis-server"),
    ("dnf", "dnf install valkey"),
    ("yum", "yum install redis"),
    ("apk", "apk add redis"),
    ("pacman", "pacman -S valkey"),
    ("zypper", "zypper install redis"),
    ("brew", "brew install redis"),
];

/// The program to start: `named`, or the first one on PATH.
pub(super) fn find(named: Option<&Path>) -> Result<PathBuf> {
    let Some(path) = named else {
        let found = NAMES.into_iter().find_map(on_path);
        return found.ok_or_else(|| anyhow!(missing(&installers())));
    };
    let path = if path.components().count() > 1 {
        std::path::absolute(path)?
    } else {
        // A name without a folder, as a shell takes it.
        path.to_str().and_then(on_path).unwrap_or_else(|| path.to_path_buf())
    };
    let mut version = Command::new(&path);
    version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = version.status().with_context(|| format!("--binary {} cannot be run", path.display()))?;
    ensure!(status.success(), "--binary {}: the program prints no version", path.display());
    Ok(path)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Commands that install a server here; all of them, if none of their programs is on PATH.
fn installers() -> Vec<&'static str> {
    let here = INSTALLERS.into_iter().filter(|(program, _)| on_path(program).is_some());
    let here: Vec<&str> = here.map(|(_, line)| line).collect();
    if here.is_empty() { INSTALLERS.into_iter().map(|(_, line)| line).collect() } else { here }
}

fn missing(installers: &[&str]) -> String {
    format!(
        "neither {} is on PATH; install one ({}), or name it with --binary=PATH",
        NAMES.join(" nor "),
        installers.join(", or ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_is_reported_with_its_package() {
        assert_eq!(
            missing(&["apt-get install redis-server"]),
            "neither redis-server nor valkey-server is on PATH; install one (apt-get install redis-server), or name it \
             with --binary=PATH"
        );
        assert!(!installers().is_empty());
    }

    #[test]
    fn a_binary_that_is_none_is_refused_by_name() {
        let error = find(Some(Path::new("/no/such/server"))).expect_err("there is none").to_string();
        assert_eq!(error, "--binary /no/such/server cannot be run");
        assert!(find(Some(Path::new("false"))).expect_err("it fails").to_string().contains("no version"));
    }
}
