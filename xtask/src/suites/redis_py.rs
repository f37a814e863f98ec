//! redis-py's own tests, of its source distribution on PyPI: those of the synchronous client.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use programs::needs;
use programs::process::{self, command};

use super::{Name, Outcome, Part, Setup, Suite, Verdict, World, fetch};
use crate::speed;

pub(super) const SUITE: Suite = Suite {
    name: Name::RedisPy,
    slug: "redis-py",
    needs: &[needs::PYTHON],
    tool: &["python3", "--version"],
    port: None,
    quick: &Setup::BOTH,
    parts,
};

const REDIS_PY_VERSION: &str = "5.0.8";

/// Tests that use a fixed port, where another suite may be running.
const WIRED: [&str; 3] = [
    "tests/test_commands.py::TestRedisCommands::test_psync",
    "tests/test_connection.py::TestConnection::test_retry_connect_on_timeout_error",
    "tests/test_connection.py::test_create_single_connection_client_from_url",
];

/// Packages of the test environment. They are pinned: another pytest may collect other tests.
const PACKAGES: [&str; 2] = ["pytest==9.2.0", "pytest-timeout==2.4.0"];

/// For one test. Some wait without end where shardis refuses.
const TEST_LIMIT: Duration = Duration::from_secs(20);

const LIMIT: Duration = Duration::from_secs(900);

/// Two parts of about the same length. Left out: cluster, Sentinel, TLS, modules, the parsers (which need no server).
const FILES: [(&str, &[&str]); 2] = [
    ("commands", &["test_commands"]),
    (
        "others",
        &[
            "test_function",
            "test_pipeline",
            "test_pubsub",
            "test_scripting",
            "test_lock",
            "test_hash",
            "test_connection",
            "test_connection_pool",
            "test_monitor",
            "test_encoding",
            "test_retry",
            "test_multiprocessing",
            "test_helpers",
            "test_command_parser",
            "test_credentials",
            "test_connect",
        ],
    ),
];

fn parts(_is_quick: bool) -> Result<Vec<Part>> {
    let (python, source) = (venv()?, source()?);
    let part = |(name, files): (&str, &'static [&'static str])| {
        let (python, source) = (python.clone(), source.clone());
        Part::new(format!("redis-py-{name}"), move |world| run(files, &python, &source, world))
    };
    Ok(FILES.map(part).into())
}

/// A Python with the packages of the tests.
fn venv() -> Result<PathBuf> {
    let venv = fetch::folder().join("venv");
    let python = venv.join("bin/python");
    let complete = venv.join("complete");
    let redis_py = format!("redis=={REDIS_PY_VERSION}");
    let packages = [&[&*redis_py], &PACKAGES[..]].concat();
    if std::fs::read_to_string(&complete).is_ok_and(|text| text == packages.join(" ")) {
        return Ok(python);
    }
    println!("suites: {} from PyPI", packages.join(", "));
    process::run(command("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    process::run(command(&python).args(["-m", "pip", "install", "--quiet"]).args(&packages))?;
    std::fs::write(complete, packages.join(" "))?;
    Ok(python)
}

/// The source distribution, unpacked: the wheel has no tests.
fn source() -> Result<PathBuf> {
    let place = fetch::folder().join("pypi");
    let source = place.join(format!("redis-{REDIS_PY_VERSION}"));
    if source.join("tests").is_dir() {
        return Ok(source);
    }
    println!("suites: redis-py {REDIS_PY_VERSION}'s source from PyPI");
    let wanted = format!("redis=={REDIS_PY_VERSION}");
    let python = fetch::folder().join("venv/bin/python");
    let mut pip = command(python);
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "redis", &wanted, "-d"]);
    process::run(pip.arg(&place))?;
    let tarball = fetch::find(&place, |name| name.ends_with(".tar.gz"))?;
    process::run(command("tar").arg("xf").arg(tarball).arg("-C").arg(&place))?;
    Ok(source)
}

fn run(files: &[&str], python: &Path, source: &Path, world: &World) -> Result<Vec<Outcome>> {
    let mut pytest = command(python);
    // Messages are cut to the width of the terminal.
    pytest.current_dir(source).env("COLUMNS", "400").args([
        "-m",
        "pytest",
        "-rA",
        "--tb=short",
        "--color=no",
    ]);
    pytest.args(files.iter().map(|file| format!("tests/{file}.py")));
    let limit = speed::stretched(TEST_LIMIT).as_secs().to_string();
    pytest.args(["--redis-url", &format!("redis://127.0.0.1:{}/0", world.port), "--timeout", &limit]);
    pytest.args(["-o", "addopts=", "-p", "no:cacheprovider"]);
    pytest.args(["-m", "not redismod and not ssl and not onlycluster and not graph"]);
    pytest.args(WIRED.iter().flat_map(|test| ["--deselect", test]));
    read(&world.output(&pytest, LIMIT)?)
}

/// Reads pytest's summary: `PASSED tests/file.py::Class::test`, with ` - message` behind those that failed.
fn read(output: &str) -> Result<Vec<Outcome>> {
    let (_, summary) =
        output.rsplit_once(" short test summary info ").context("pytest did not come to its end")?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for line in summary.lines() {
        let Some((kind, rest)) = line.split_once(' ') else { continue };
        if kind == "SKIPPED" {
            // `SKIPPED [3] tests/file.py:12: reason`.
            let count = rest.trim_start_matches('[').split(']').next().and_then(|count| count.parse().ok());
            let skipped =
                Outcome::new(rest.split_once(' ').map_or(rest, |(_, place)| place), Verdict::Skipped);
            outcomes.extend(std::iter::repeat_n(skipped, count.unwrap_or(1)));
            continue;
        }
        let (name, message) = rest.split_once(" - ").unwrap_or((rest, "no message"));
        let verdict = match kind {
            "PASSED" | "XFAIL" => Verdict::Passed,
            "FAILED" | "ERROR" | "XPASS" => Verdict::failed(message),
            _ => continue,
        };
        let name = name.strip_prefix("tests/").unwrap_or(name);
        // A test that failed can fail to clean up as well; one that passed has failed then.
        outcomes.retain(|outcome| outcome.name != name);
        outcomes.push(Outcome::new(name, verdict));
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_read() {
        let output = "noise\n=== short test summary info ===\nPASSED tests/a.py::A::one\nPASSED tests/a.py::two[x - y]\n\
            SKIPPED [2] tests/a.py:3: too old\nFAILED tests/a.py::three - why\nERROR tests/a.py::A::one - later\n";
        let expected = [
            Outcome::new("a.py::two[x", Verdict::Passed),
            Outcome::new("tests/a.py:3: too old", Verdict::Skipped),
            Outcome::new("tests/a.py:3: too old", Verdict::Skipped),
            Outcome::new("a.py::three", Verdict::failed("why")),
            Outcome::new("a.py::A::one", Verdict::failed("later")),
        ];
        assert_eq!(read(output).expect("it has a summary"), expected);
        assert!(read("Traceback").is_err());
    }
}
