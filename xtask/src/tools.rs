//! Programs of the Rust world that are no package of the system: built once, into `target/tools`.

use std::path::PathBuf;

use anyhow::Result;

use crate::process::{self, cargo, command, target_dir};

/// The path of `name` in this version, built with `profile` if it is not there.
pub(crate) fn install(name: &str, version: &str, profile: &str) -> Result<PathBuf> {
    let tools = target_dir().join("tools");
    let program = tools.join("bin").join(name);
    let found = program.exists().then(|| process::read(command(&program).arg("--version"))).transpose()?;
    if found.is_some_and(|found| found.trim().ends_with(&format!(" {version}"))) {
        return Ok(program);
    }
    println!("tools: building {name} {version} into {}", tools.display());
    let package = format!("{name}@{version}");
    let args = ["install", "--quiet", "--locked", "--force", "--profile", profile, &package, "--root"];
    // Nobody debugs them.
    process::run(cargo(args).arg(&tools).env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    Ok(program)
}
