//! The tests of the `redis` crate, of its package on crates.io.
//!
//! Each runs in a process of its own. Otherwise a panic in one would make later ones fail, and one that never ends would end
//! them all.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use programs::process::{self, cargo, command};
use serde_json::Value;

use super::tcl::write_program;
use super::{Name, Outcome, Part, Suite, Verdict, World, fetch, relay};

pub(super) const SUITE: Suite = Suite {
    name: Name::RedisRs,
    slug: "redis-rs",
    needs: &[],
    tool: &["cargo", "--version"],
    port: None,
    quick: &[],
    parts,
};

/// The first version that is not yanked of those whose tests are known.
const VERSION: &str = "0.27.6";

/// Files of tests that need neither TLS, Cluster, Sentinel nor modules.
const FILES: [&str; 7] = ["basic", "async", "types", "script", "streams", "geospatial", "acl"];

/// One test takes milliseconds.
const TEST_LIMIT: Duration = Duration::from_secs(20);

fn parts(_is_quick: bool) -> Result<Vec<Part>> {
    let source = source()?;
    let server = relay::program()?;
    let binaries = build(&source)?;
    let part = |(file, binary): (&'static str, PathBuf)| {
        let (source, server) = (source.clone(), server.clone());
        Part::new(format!("redis-rs-{file}"), move |world| run(file, &binary, &source, &server, world))
    };
    Ok(binaries.into_iter().map(part).collect())
}

/// A copy of the crate as cargo fetches it.
fn source() -> Result<PathBuf> {
    let place = fetch::folder().join("redis-rs");
    let source = place.join(format!("redis-{VERSION}"));
    if source.join("copied").exists() {
        return Ok(source);
    }
    println!("suites: redis {VERSION} from crates.io");
    let puller = place.join("fetch");
    std::fs::create_dir_all(puller.join("src"))?;
    std::fs::write(puller.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\nredis = \"={VERSION}\"\n"
    );
    std::fs::write(puller.join("Cargo.toml"), manifest)?;
    let metadata = process::read(cargo(["metadata", "--quiet", "--format-version=1"]).current_dir(&puller))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifest = packages
        .filter(|package| package["name"] == "redis")
        .find_map(|package| package["manifest_path"].as_str());
    let fetched = Path::new(manifest.context("cargo does not say where redis is")?).parent();
    process::run(command("cp").arg("-R").arg(fetched.context("a manifest is in a folder")?).arg(&place))?;
    // The folder lies within our workspace, of which it is no member.
    let manifest = source.join("Cargo.toml");
    std::fs::write(&manifest, std::fs::read_to_string(&manifest)? + "\n[workspace]\n")?;
    std::fs::write(source.join("copied"), "")?;
    Ok(source)
}

/// Builds the tests; gives their files and binaries.
fn build(source: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    let names = FILES.map(|file| format!("test_{file}"));
    let mut build = cargo(["test", "--no-run", "--locked", "--quiet", "--message-format=json"]);
    build.current_dir(source).args(["--features", "tokio-comp,connection-manager"]);
    build.args(names.iter().flat_map(|name| ["--test", name]));
    // The tests are run once: to build them takes longer than to run them.
    build
        .env("CARGO_TARGET_DIR", fetch::folder().join("redis-rs/target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    build.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    let messages = process::read(&mut build)?;
    let messages: Vec<Value> =
        messages.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("cargo's messages")?;
    let binary = |file: &'static str| {
        let name = format!("test_{file}");
        let is_it =
            |message: &&Value| message["target"]["name"] == *name && message["executable"].is_string();
        let path = messages.iter().find(is_it).and_then(|message| message["executable"].as_str());
        Ok((file, PathBuf::from(path.with_context(|| format!("cargo did not build {name}"))?)))
    };
    FILES.into_iter().map(binary).collect()
}

fn run(file: &str, binary: &Path, source: &Path, server: &Path, world: &World) -> Result<Vec<Outcome>> {
    let list = process::read(command(binary).arg("--list"))?;
    let ignored = process::read(command(binary).args(["--list", "--ignored"]))?;
    // The tests start the first redis-server in PATH.
    let folder = world.log.with_file_name("bin");
    std::fs::create_dir_all(&folder)?;
    write_program(&folder.join("redis-server"), &format!("#!/bin/sh\nexec '{}' \"$@\"\n", server.display()))?;
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut outcomes = Vec::new();
    for name in list.lines().filter_map(|line| line.strip_suffix(": test")) {
        let mut test = command(binary);
        test.current_dir(source).args(["--exact", name]).env("PATH", &path).env("REDISRS_SERVER_TYPE", "tcp");
        test.env("RUST_BACKTRACE", "0");
        relay::aim(&mut test, world)?;
        let verdict = if ignored.lines().any(|line| line.strip_suffix(": test") == Some(name)) {
            Verdict::Skipped
        } else {
            verdict(&world.output(&test, TEST_LIMIT)?)
        };
        outcomes.push(Outcome::new(format!("{file}: {name}"), verdict));
    }
    Ok(outcomes)
}

/// The verdict in the output of one test.
fn verdict(output: &str) -> Verdict {
    if output.contains("test result: ok. 1 passed") {
        return Verdict::Passed;
    }
    let cause =
        output.split_once("panicked at ").map(|(_, rest)| rest.split("\nnote: ").next().unwrap_or(rest));
    let cause = cause.unwrap_or_else(|| {
        output.split_once("Error: ").map_or("it did not come to its end", |(_, rest)| rest)
    });
    Verdict::failed(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_where_it_panicked() {
        assert_eq!(verdict("running 1 test\ntest result: ok. 1 passed; 0 failed"), Verdict::Passed);
        let output = "thread 'x' panicked at tests/a.rs:1:2:\nwhy\nnote: run with\ntest result: FAILED.";
        assert_eq!(verdict(output), Verdict::failed("tests/a.rs:1:2: why"));
        assert_eq!(verdict("running 1 test\n"), Verdict::failed("it did not come to its end"));
    }
}
