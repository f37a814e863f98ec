//! `cargo xtask dist` builds the files that are shipped. `cargo xtask packages`: a .deb is made, installed, tried and removed.
//!
//! The metadata of packages stands in `crates/shardis/Cargo.toml`, the other files in `packaging`. Both commands stage the binary, its
//! debug symbols, man pages and completions in `target/<profile>/package`, where the metadata finds them.

mod installed;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use programs::needs;
use programs::process::{self, cargo, command, target_dir};

use crate::builds;

/// The profile that is shipped and measured.
const DIST: &str = "dist";
/// The tools that make packages, each with its version.
const CARGO_DEB: Tool = Tool { name: "cargo-deb", version: "3.8.0", features: &["--no-default-features"] };
const CARGO_GENERATE_RPM: Tool = Tool { name: "cargo-generate-rpm", version: "0.21.1", features: &[] };

/// Choice of packages.
#[derive(clap::Args)]
pub(crate) struct DistOptions {
    /// Package for Debian and its relatives
    #[arg(long)]
    deb: bool,
    /// Package for Fedora and its relatives
    #[arg(long)]
    rpm: bool,
}

/// Builds the shipped binary with all files beside it, and packages if they are wanted. Prints their paths.
pub(crate) fn dist(options: &DistOptions) -> Result<()> {
    needs::install(&[needs::BINUTILS])?;
    process::run(&mut cargo(["build", "--locked", "--profile", DIST, "--package", "shardis"]))?;
    let folder = target_dir().join(DIST);
    let staged = stage(&folder.join("shardis"), &folder)?;
    println!("{}", staged.display());
    if options.deb {
        println!("{}", deb(DIST, &staged)?.display());
    }
    if options.rpm {
        println!("{}", rpm(DIST, &staged)?.display());
    }
    Ok(())
}

/// Makes a .deb of the debug build, installs it, tries it and removes it. Returns a remark if this system has no dpkg.
pub(crate) fn run() -> Result<Vec<String>> {
    let missing = needs::missing(&[needs::BINUTILS, needs::DPKG]);
    if !missing.is_empty() {
        return Ok(vec![format!("packages: not tried without {}", missing.join(" "))]);
    }
    let program = builds::tests()?.program("shardis")?;
    // cargo-deb takes files of optimised profiles only; which one built them does not matter to it.
    let staged = stage(&program, &target_dir().join("release"))?;
    let package = deb("release", &staged)?;
    installed::run(&package).map(|()| Vec::new())
}

/// Fills the folder `package` in `folder`: the stripped `program`, its debug symbols, man pages, completions.
fn stage(program: &Path, folder: &Path) -> Result<PathBuf> {
    let staged = folder.join("package");
    if staged.exists() {
        std::fs::remove_dir_all(&staged).with_context(|| staged.display().to_string())?;
    }
    std::fs::create_dir_all(&staged)?;
    process::run(command(program).arg("generate").arg(&staged))?;
    let (stripped, symbols) = (staged.join("shardis"), staged.join("shardis.debug"));
    process::run(command("objcopy").arg("--only-keep-debug").args([program, &symbols]))?;
    process::run(command("strip").arg("--strip-unneeded").arg("-o").args([&stripped, program]))?;
    // Debuggers look for a file of this name beside the binary, and compare its checksum.
    let link = format!("--add-gnu-debuglink={}", symbols.display());
    process::run(command("objcopy").arg(link).arg(&stripped))?;
    Ok(staged)
}

/// The .deb of the files in `staged`, which belong to `profile`.
fn deb(profile: &str, staged: &Path) -> Result<PathBuf> {
    let package = staged.join("shardis.deb");
    let mut deb = command(CARGO_DEB.program()?);
    deb.args(["--no-build", "--no-strip", "--profile", profile, "--package", "shardis", "--quiet"]);
    process::run(deb.arg("--output").arg(&package))?;
    Ok(package)
}

/// The .rpm of the files in `staged`, which belong to `profile`.
fn rpm(profile: &str, staged: &Path) -> Result<PathBuf> {
    let package = staged.join("shardis.rpm");
    let mut rpm = command(CARGO_GENERATE_RPM.program()?);
    rpm.args(["generate-rpm", "--package", "crates/shardis", "--profile", profile, "--output"]);
    process::run(rpm.arg(&package).arg("--target-dir").arg(target_dir()))?;
    Ok(package)
}

/// A program from the registry. It is built without optimisation: packages are few and small.
struct Tool {
    name: &'static str,
    version: &'static str,
    features: &'static [&'static str],
}

impl Tool {
    /// The path of the program, which is built if it is not there.
    fn program(&self) -> Result<PathBuf> {
        let root = target_dir().join("tools").join(format!("{}-{}", self.name, self.version));
        let program = root.join("bin").join(self.name);
        if !program.exists() {
            let mut install =
                cargo(["install", "--quiet", "--locked", "--debug", self.name, "--version", self.version]);
            install.args(self.features).arg("--root").arg(&root);
            process::run(install.env("CARGO_TARGET_DIR", target_dir().join("tools/build")))?;
        }
        Ok(program)
    }
}
