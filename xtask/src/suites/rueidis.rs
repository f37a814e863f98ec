//! rueidis's own tests, of its module on the Go module proxy: its locks, and the client over one address.
//!
//! Its other tests start no server, or use fixed addresses of a Redis Cluster, of Sentinels, or of other servers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use programs::process::{self, command};

use super::{Name, Outcome, Part, Setup, Suite, Verdict, World, fetch};

pub(super) const SUITE: Suite = Suite {
    name: Name::Rueidis,
    slug: "rueidis",
    needs: &[],
    tool: &["go", "version"],
    port: Some(PORT),
    quick: &[Setup::Refuse],
    parts,
};

/// The version of `tests/clients/go`: go compiles it once for both.
const VERSION: &str = "v1.0.79";

/// The fixed port of the tests.
const PORT: u16 = 6379;

/// The quick tests take some seconds together.
const LIMITS: [Duration; 2] = [Duration::from_secs(900), Duration::from_secs(90)];

/// Tests of one package.
struct Package {
    path: &'static str,
    /// Before the names of its tests, in lists.
    slug: &'static str,
    /// Tests that `cargo xtask test` runs as well.
    quick: &'static [&'static str],
    /// Tests that wait for seconds, or send a million requests.
    slow: &'static [&'static str],
}

const PACKAGES: [Package; 2] = [
    Package {
        path: "github.com/redis/rueidis/rueidislock",
        slug: "lock",
        quick: &[
            "TestNewLocker",
            "TestNewLocker_WithClientBuilder",
            "TestLocker_WithContext_UnlockByClientSideCaching",
            "TestLocker_WithContext_UnlockBySelfForceWithContext",
            "TestLocker_WithContext_UnlockByOtherForceWithContext",
            "TestLocker_ForceWithContext_UnlockBySelfForceWithContext",
            "TestLocker_ForceWithContext_UnlockByOtherForceWithContext",
            "TestLocker_WithContext_ExtendByClientSideCaching",
            "TestLocker_WithContext_DeadContext",
            "TestLocker_TryWithContext",
            "TestLocker_ForceWithContextThenTryWithContext",
        ],
        slow: &[
            "TestLocker_WithContext_MultipleLocker",
            "TestLocker_WithContext_AutoExtendConcurrent",
            "TestLocker_WithContext_AutoExtend",
            "TestLocker_WithContext_CancelContext",
            "TestLocker_WithContext_ShorterTimeoutContext",
            "TestLocker_TryWithContext_MultipleLocker",
            "TestLocker_WithContext_MissingPeers",
            "TestLocker_WithContext_Cleanup",
            "TestLocker_Close",
            "TestLocker_RetryErrLockerClosed",
            "TestLocker_Flush",
        ],
    },
    // To compile these tests takes longer than to run the quick ones of them.
    Package {
        path: "github.com/redis/rueidis",
        slug: "client",
        quick: &[],
        slow: &[
            "TestNegativeConnWriteTimeout",
            "TestNegativeKeepalive",
            "TestNegativeConnWriteTimeoutKeepalive",
            "TestUnblockOnCancelReusesBlockingConn",
            "TestUnblockOnCancelConcurrentReplies",
            "TestSingleClientIntegration",
        ],
    },
];

fn parts(is_quick: bool) -> Result<Vec<Part>> {
    let binaries = PACKAGES.iter().map(|package| {
        let has_tests = !is_quick || !package.quick.is_empty();
        has_tests.then(|| build(package)).transpose()
    });
    let binaries = binaries.collect::<Result<Vec<_>>>()?;
    Ok(vec![Part::new("rueidis", move |world| {
        let mut outcomes = Vec::new();
        for (package, binary) in PACKAGES.iter().zip(&binaries) {
            outcomes.extend(run(package, binary.as_deref(), is_quick, world)?);
        }
        Ok(outcomes)
    })])
}

/// Fetches the module and builds the tests of `package`, within a module of ours that requires it. As a dependency it is
/// compiled as it is for `tests/clients/go`.
fn build(package: &Package) -> Result<PathBuf> {
    let place = fetch::folder().join("rueidis");
    let binary = place.join(format!("{}-{VERSION}.test", package.slug));
    if !binary.exists() {
        println!("suites: building the tests of {}", package.path);
        std::fs::create_dir_all(&place)?;
        let manifest = format!("module suite\n\ngo 1.25.0\n\nrequire github.com/redis/rueidis {VERSION}\n");
        std::fs::write(place.join("go.mod"), manifest)?;
        let mut go = command("go");
        go.args(["test", "-mod=mod", "-c", "-ldflags=-s -w", "-o"]).arg(&binary).arg(package.path);
        process::run(go.current_dir(&place))?;
    }
    Ok(binary)
}

/// Runs the tests of `package`. Without a binary it has none now.
fn run(package: &Package, binary: Option<&Path>, is_quick: bool, world: &World) -> Result<Vec<Outcome>> {
    let (names, left_out) = if is_quick {
        (package.quick.to_vec(), package.slow)
    } else {
        ([package.quick, package.slow].concat(), &[][..])
    };
    let mut outcomes = Vec::new();
    if let Some(binary) = binary {
        let mut test = command(binary);
        test.args(["-test.v", "-test.run", &format!("^({})$", names.join("|"))]);
        outcomes.extend(read(package.slug, &names, &world.output(&test, LIMITS[usize::from(is_quick)])?));
    }
    outcomes.extend(left_out.iter().map(|name| outcome(package.slug, name, Verdict::LeftOut)));
    Ok(outcomes)
}

fn outcome(package: &str, name: &str, verdict: Verdict) -> Outcome {
    Outcome::new(format!("{package}: {name}"), verdict)
}

/// Reads lines such as `--- PASS: TestX (0.02s)`. Those of a test within a test are indented, and so are a test's messages.
fn read(package: &str, names: &[&str], output: &str) -> Vec<Outcome> {
    let (mut verdicts, mut said) = (HashMap::new(), String::new());
    for line in output.lines() {
        let words = line.strip_prefix("--- ").and_then(|rest| rest.split_once(": "));
        if let Some((kind, rest)) = words {
            let verdict = match kind {
                "PASS" => Verdict::Passed,
                "SKIP" => Verdict::Skipped,
                _ => Verdict::failed(&said),
            };
            verdicts.insert(rest.split(' ').next().unwrap_or(rest), verdict);
            said.clear();
        } else if line.contains(".go:") || line.starts_with("panic: ") {
            said += line;
            said.push(' ');
        }
    }
    let unfinished = format!("it did not come to its end {said}");
    let verdict = |name: &str| verdicts.get(name).cloned().unwrap_or_else(|| Verdict::failed(&unfinished));
    names.iter().map(|name| outcome(package, name, verdict(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read() {
        let output = "=== RUN   TestA\n--- PASS: TestA (0.02s)\n=== RUN   TestB\n=== RUN   TestB/sub\n    b_test.go:7: why\n\
            --- FAIL: TestB (1.00s)\n    --- FAIL: TestB/sub (1.00s)\n--- SKIP: TestC (0.00s)\npanic: boom\n";
        let expected = [
            Outcome::new("p: TestA", Verdict::Passed),
            Outcome::new("p: TestB", Verdict::failed("b_test.go:7: why")),
            Outcome::new("p: TestC", Verdict::Skipped),
            Outcome::new("p: TestD", Verdict::failed("it did not come to its end panic: boom")),
        ];
        assert_eq!(read("p", &["TestA", "TestB", "TestC", "TestD"], output), expected);
    }
}
