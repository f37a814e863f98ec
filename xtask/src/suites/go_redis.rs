//! go-redis's own tests, of its module on the Go module proxy, in the mode that starts no servers (`RE_CLUSTER`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use programs::process::{self, command};
use serde_json::Value;

use super::{Name, Outcome, Part, Setup, Suite, Verdict, World, fetch};

pub(super) const SUITE: Suite = Suite {
    name: Name::GoRedis,
    slug: "go-redis",
    needs: &[],
    tool: &["go", "version"],
    port: Some(PORT),
    quick: &[Setup::Refuse],
    parts,
};

const MODULE: &str = "github.com/redis/go-redis/v9@v9.5.4";

/// The fixed port of the tests.
const PORT: u16 = 6379;

/// The pattern matches the names of tests that cannot run here, for one of three reasons:
///
/// - Redis Cluster, Sentinel and modules: this mode does not start them.
/// - "Shows function stats" runs a function without an end and kills it. On a machine that is too slow for the kill, the node
///   stays busy and all later tests fail.
/// - The three tests of `ReceiveMessage` publish on a second connection before the SUBSCRIBE of the first is confirmed. Then they
///   wait for the message without a time limit. shardis keeps no order between connections. If the message comes first, nobody
///   gets it, the test never ends, and no later test runs.
const SKIP: &str = "Ring|Cluster|Sentinel|json|JSON|[Ss]earch|[Tt]ime[Ss]eries|[Gg]ears|Probabilistic|bloom|Shows function stats|\
                    reconnect on ReceiveMessage error|should ReceiveMessage without a subscription";

/// Ten times what the tests take.
const LIMIT: Duration = Duration::from_secs(300);

fn parts(_is_quick: bool) -> Result<Vec<Part>> {
    let (source, binary) = build()?;
    Ok(vec![Part::new("go-redis", move |world| run(&source, &binary, world))])
}

/// Fetches the module and builds its tests. Returns its folder and the binary.
fn build() -> Result<(PathBuf, PathBuf)> {
    let go = |args: &[&str]| {
        let mut go = command("go");
        go.env("GOPATH", fetch::folder().join("go")).env("GOFLAGS", "-modcacherw -mod=mod").args(args);
        go.current_dir(fetch::folder());
        go
    };
    let module: Value =
        serde_json::from_str(&process::read(&mut go(&["mod", "download", "-json", MODULE]))?)?;
    let source = PathBuf::from(module["Dir"].as_str().context("go does not say where the module is")?);
    let binary = fetch::folder().join("go-redis.test");
    if !binary.exists() {
        println!("suites: building the tests of {MODULE}");
        process::run(go(&["test", "-c", "-ldflags=-s -w", "-o"]).arg(&binary).arg(".").current_dir(&source))?;
    }
    Ok((source, binary))
}

fn run(source: &Path, binary: &Path, world: &World) -> Result<Vec<Outcome>> {
    let report = world.log.with_file_name("report.json");
    let mut test = command(binary);
    test.current_dir(source).env("RE_CLUSTER", "true").args([
        "-test.run",
        "TestGinkgoSuite",
        "-ginkgo.seed=1",
    ]);
    test.args([
        "-ginkgo.no-color",
        "-ginkgo.label-filter=!NonRedisEnterprise",
        &format!("-ginkgo.skip={SKIP}"),
    ]);
    test.arg(format!("-ginkgo.json-report={}", report.display()));
    // A report of an earlier run would be taken for this one's.
    std::fs::write(&report, "")?;
    world.output(&test, LIMIT)?;
    let report = std::fs::read_to_string(&report)?;
    let suites: Value = serde_json::from_str(&report).context("go-redis did not come to its end")?;
    let specs = suites[0]["SpecReports"].as_array().context("the report has no tests")?;
    Ok(specs.iter().map(outcome).collect())
}

fn outcome(spec: &Value) -> Outcome {
    let groups = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
    let names: Vec<&str> = groups.chain([&spec["LeafNodeText"]]).filter_map(Value::as_str).collect();
    let verdict = match spec["State"].as_str() {
        Some("passed") => Verdict::Passed,
        Some("skipped" | "pending") => Verdict::Skipped,
        state => {
            let message = spec["Failure"]["Message"].as_str().or(state).unwrap_or_default();
            Verdict::failed(message)
        }
    };
    Outcome::new(names.join(" > "), verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_by_its_groups() {
        let spec = serde_json::json!({
            "ContainerHierarchyTexts": ["Commands", "lists"], "LeafNodeText": "should LPush", "State": "failed",
            "Failure": { "Message": "Expected\n  1" }
        });
        let expected = Outcome::new("Commands > lists > should LPush", Verdict::failed("Expected 1"));
        assert_eq!(outcome(&spec), expected);
        let skipped = serde_json::json!({ "LeafNodeText": "one", "State": "pending" });
        assert_eq!(outcome(&skipped), Outcome::new("one", Verdict::Skipped));
    }
}
