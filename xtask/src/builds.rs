//! Results of cargo: test binaries, benchmarks and programs, by name.
//!
//! `cargo test --package …` and `cargo run --package …` give dependencies other features than the whole workspace does. They
//! build clap, serde, syn, proxy and shardis once more. Steps of `cargo xtask test` therefore run programs of this one build.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use programs::process::{self, cargo, command};
use serde_json::Value;

/// All that was built.
pub(crate) struct Built {
    executables: Vec<Executable>,
}

/// A program or a test binary.
#[derive(Debug, PartialEq, Eq)]
struct Executable {
    /// The folder of its package: where cargo runs tests.
    folder: PathBuf,
    name: String,
    is_test: bool,
    path: PathBuf,
}

/// Has cargo say which files it made.
const MESSAGES: &str = "--message-format=json-render-diagnostics";

/// Builds the tests of the workspace, with the programs that they run.
pub(crate) fn tests() -> Result<Built> {
    Built::by(&mut cargo(["test", "--workspace", "--no-run"]))
}

/// Builds the benchmark `name` of `package`, by the profile that is shipped.
pub(crate) fn benchmark(package: &str, name: &str) -> Result<PathBuf> {
    let mut build = cargo(["bench", "--no-run", "--profile", "dist", "--package", package, "--bench", name]);
    // The position of a function is in the table of symbols. The rest is not read.
    let built = Built::by(build.env("CARGO_PROFILE_DIST_DEBUG", "false"))?;
    let found = built.executables.into_iter().find(|built| built.name == name);
    Ok(found.with_context(|| format!("cargo built no benchmark {name}"))?.path)
}

impl Built {
    /// Runs `build`, a command of cargo's.
    pub(crate) fn by(build: &mut Command) -> Result<Built> {
        Built::parse(&process::read(build.arg(MESSAGES))?)
    }

    /// Names and paths of all that was built.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.executables.iter().map(|built| (&*built.name, &*built.path))
    }

    /// Reads cargo's messages.
    fn parse(messages: &str) -> Result<Built> {
        let messages = messages.lines().map(serde_json::from_str);
        let messages: Vec<Value> = messages.collect::<Result<_, _>>().context("cargo's messages")?;
        Ok(Built { executables: messages.iter().filter_map(Executable::of).collect() })
    }

    /// The path of the program `name`.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        let is_it = |built: &&Executable| built.name == name && !built.is_test;
        let found = self.executables.iter().find(is_it);
        Ok(found.with_context(|| format!("cargo built no program {name}"))?.path.clone())
    }

    /// Starts the tests `name` of the package in `crates/<package>` as cargo does.
    pub(crate) fn test(&self, package: &str, name: &str) -> Result<Command> {
        let is_it =
            |built: &&Executable| built.name == name && built.is_test && built.folder.ends_with(package);
        let found = self.executables.iter().find(is_it);
        let test = found.with_context(|| format!("cargo built no tests {name} of {package}"))?;
        let mut command = command(&test.path);
        command.current_dir(&test.folder);
        Ok(command)
    }
}

impl Executable {
    /// `None` for a message of something else.
    fn of(message: &Value) -> Option<Executable> {
        let path = message["executable"].as_str()?.into();
        let manifest = PathBuf::from(message["manifest_path"].as_str()?);
        let name = message["target"]["name"].as_str()?.to_owned();
        let is_test = message["profile"]["test"].as_bool()?;
        Some(Executable { folder: manifest.parent()?.to_owned(), name, is_test, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/sim/Cargo.toml","target":{"name":"sim"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/r/crates/sim/Cargo.toml","target":{"name":"sim"},"profile":{"test":true},"executable":"/t/deps/sim-1"}
{"reason":"compiler-artifact","manifest_path":"/r/crates/sim/Cargo.toml","target":{"name":"sim"},"profile":{"test":false},"executable":"/t/sim"}
{"reason":"compiler-artifact","manifest_path":"/r/crates/loadgen/Cargo.toml","target":{"name":"whole"},"profile":{"test":true},"executable":"/t/deps/whole-1"}
{"reason":"compiler-artifact","manifest_path":"/r/crates/shardis/Cargo.toml","target":{"name":"whole"},"profile":{"test":true},"executable":"/t/deps/whole-2"}
{"reason":"build-finished","success":true}"#;

    #[test]
    fn programs_and_tests_of_one_name_are_distinguished() {
        let built = Built::parse(MESSAGES).expect("these are messages");
        assert_eq!(built.program("sim").ok(), Some("/t/sim".into()));
        let test = built.test("shardis", "whole").expect("it was built");
        assert_eq!(test.get_program(), "/t/deps/whole-2");
        assert_eq!(test.get_current_dir(), Some("/r/crates/shardis".as_ref()));
    }

    #[test]
    fn a_program_that_was_not_built_is_named() {
        let built = Built::parse(MESSAGES).expect("these are messages");
        assert!(built.program("shardis").is_err_and(|error| error.to_string().ends_with(" shardis")));
        assert!(built.test("sim", "whole").is_err());
        assert!(Built::parse("no JSON").is_err());
    }
}
