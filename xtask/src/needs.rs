//! Programs that the tests and the demo call, and how they get onto this machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, command, target_dir};

/// A program, or a part of one, that must be there.
pub(crate) struct Need {
    /// A command that succeeds where it is there.
    probe: &'static [&'static str],
    /// The Debian package that brings it.
    package: &'static str,
}

/// Nodes. Debian also starts one as a service; nothing of ours talks to that one.
pub(crate) const REDIS_SERVER: Need = Need { probe: &["redis-server", "--version"], package: "redis-server" };
/// What users type.
pub(crate) const REDIS_CLI: Need = Need { probe: &["redis-cli", "--version"], package: "redis-tools" };
/// twemproxy: what our ring must agree with.
pub(crate) const NUTCRACKER: Need = Need { probe: &["nutcracker", "--version"], package: "nutcracker" };
/// A Python that can make the venv of [`python`].
pub(crate) const PYTHON: Need =
    Need { probe: &["python3", "-c", "import venv, ensurepip"], package: "python3-venv" };
/// The interpreter of Redis's own suite.
pub(crate) const TCLSH: Need = Need { probe: &["sh", "-c", "echo exit | tclsh"], package: "tcl" };
/// Builds hiredis.
pub(crate) const MAKE: Need = Need { probe: &["make", "--version"], package: "make" };
/// What the tests of Redis.pm load.
pub(crate) const FOR_REDIS_PM: &[Need] = &[
    Need { probe: &["perl", "-MTest::Fatal", "-e1"], package: "libtest-fatal-perl" },
    Need { probe: &["perl", "-MTest::Deep", "-e1"], package: "libtest-deep-perl" },
    Need { probe: &["perl", "-MTest::TCP", "-e1"], package: "libtest-tcp-perl" },
    Need { probe: &["perl", "-MTest::SharedFork", "-e1"], package: "libtest-sharedfork-perl" },
    Need { probe: &["perl", "-MIO::String", "-e1"], package: "libio-string-perl" },
    Need { probe: &["perl", "-MParallel::ForkManager", "-e1"], package: "libparallel-forkmanager-perl" },
    Need { probe: &["perl", "-MIPC::Cmd", "-e1"], package: "perl" },
];
/// A C++ compiler: libFuzzer is built from source.
pub(crate) const CXX: Need = Need { probe: &["c++", "--version"], package: "g++" };

/// All that `cargo xtask test` needs; known at its start, so that it does not stop for a package after minutes.
pub(crate) const FOR_TESTS: &[Need] = &[REDIS_SERVER, REDIS_CLI, NUTCRACKER, PYTHON, CXX];

/// The client library that the tests speak through. Pinned: a new release is a change that somebody makes.
pub(crate) const REDIS_PY_VERSION: &str = "5.0.8";

/// Installs those of `needs` that are not there, with apt-get.
pub(crate) fn install(needs: &[Need]) -> Result<()> {
    let packages = missing(needs);
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !process::succeeds(command("apt-get").arg("--version")) {
        bail!(
            "not on this machine: {list} (Debian's names), and there is no apt-get to install them; please do"
        );
    }
    let is_root = process::read(command("id").arg("-u"))?.trim() == "0";
    let prefix: &[&str] = if is_root { &[] } else { &["sudo"] };
    println!("needs: installing {list} with {}", [prefix, &["apt-get"]].concat().join(" "));
    apt_get(prefix, &["update", "-qq"])?;
    apt_get(prefix, &[&["install", "-y", "-qq", "--no-install-recommends"], &packages[..]].concat())?;
    let still = missing(needs);
    ensure!(still.is_empty(), "installed, and still not to be found: {}; is it in PATH?", still.join(" "));
    Ok(())
}

/// The packages of those `needs` that are not there.
fn missing(needs: &[Need]) -> Vec<&'static str> {
    let absent = |need: &&Need| !process::succeeds(command(need.probe[0]).args(&need.probe[1..]));
    needs.iter().filter(absent).map(|need| need.package).collect()
}

fn apt_get(prefix: &[&str], args: &[&str]) -> Result<()> {
    let words = [prefix, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], args].concat();
    process::run(command(words[0]).args(&words[1..])).context("please install the packages yourself")
}

/// A Python interpreter that has redis-py, in a venv of ours: the system's Python is not ours to change.
pub(crate) fn python() -> Result<PathBuf> {
    let venv = target_dir().join("venv");
    let python = venv.join("bin/python");
    if has_redis_py(&python) {
        return Ok(python);
    }
    println!("needs: redis-py {REDIS_PY_VERSION} from PyPI into {}", venv.display());
    process::run(command("python3").args(["-m", "venv", "--clear"]).arg(&venv)).context(
        "no venv for redis-py; on Debian, python3-venv must belong to the python3 that is first in PATH",
    )?;
    let redis_py = format!("redis=={REDIS_PY_VERSION}");
    process::run(command(&python).args(["-m", "pip", "install", "--quiet", &redis_py]))?;
    Ok(python)
}

fn has_redis_py(python: &Path) -> bool {
    let program = "import redis, sys; sys.exit(redis.__version__ != sys.argv[1])";
    process::succeeds(command(python).args(["-c", program, REDIS_PY_VERSION]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_by_its_package() {
        let there = Need { probe: &["true"], package: "coreutils" };
        let gone = Need { probe: &["no-such-program-anywhere", "--version"], package: "nowhere" };
        let broken = Need { probe: &["false"], package: "broken" };
        assert_eq!(missing(&[there, gone, broken]), ["nowhere", "broken"]);
    }

    #[test]
    fn a_python_without_redis_py_is_noticed() {
        assert!(!has_redis_py(Path::new("no-such-python")));
    }
}
