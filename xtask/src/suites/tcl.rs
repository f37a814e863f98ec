//! Redis's own suite (Debian's source package `redis`) in its external mode, one unit at a time.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use programs::needs;
use programs::process::command;

use super::{Name, Outcome, Part, Setup, Suite, Verdict, World, fetch};
use crate::speed;

pub(super) const SUITE: Suite = Suite {
    name: Name::Tcl,
    slug: "tcl",
    needs: &[needs::TCLSH, needs::REDIS_CLI],
    tool: fetch::APT_GET,
    port: None,
    quick: &[Setup::Refuse],
    parts,
};

/// The units that have tests for us; in the others all need a server of their own. The longest come first.
const UNITS: &str = "unit/hyperloglog unit/pubsub unit/geo unit/type/list-3 unit/type/list unit/dump unit/scripting \
    unit/functions unit/type/stream unit/type/stream-cgroups unit/type/zset unit/type/set unit/type/string \
    unit/type/hash unit/scan unit/expire unit/sort unit/protocol unit/keyspace unit/info-command \
    unit/type/incr unit/other unit/multi unit/quit unit/latency-monitor integration/redis-cli unit/slowlog \
    unit/introspection unit/introspection-2 unit/bitops unit/bitfield unit/lazyfree unit/pause unit/tracking \
    unit/violations";

/// Tags of tests that need control over their server.
const TAGS: &str =
    "-slow -needs:debug -needs:repl -needs:config-maxmemory -needs:save -needs:reset -needs:pfdebug";

/// More than five seconds each, with and without shardis: they test the node, or they wait.
const SLOW: &str = "Fuzzing dense/sparse encoding: Redis should always detect errors\n\
    GEOSEARCH fuzzy test - byradius\n\
    GEOSEARCH fuzzy test - bybox\n\
    /Stress tester for #3343-alike bugs\n\
    MIGRATE cached connections are released after some time\n";

/// Later tests of the file fail after one of these.
///
/// The first leave a script that never ends on a node if PING does not return BUSY. shardis answers PING itself and is not
/// busy.
///
/// The others wait for behaviour that shardis does not have, or find behaviour beyond Redis's:
///
/// * A transaction refuses commands for all shards or for the proxy itself.
/// * shardis does not order two clients that send at the same time.
/// * MONITOR does not show commands of scripts.
/// * CLIENT PAUSE WRITE holds back every script.
/// * CLIENT TRACKING takes all keys of a script for read. It has no table that a node's parameter could bound.
const POISONOUS: &str = "MONITOR can log commands issued by the scripting engine\n\
    MONITOR can log commands issued by functions\n\
    Test RO scripts are not blocked by pause RO\n\
    Invalid keys should not be tracked for scripts in NOLOOP mode\n\
    Tracking only occurs for scripts when a command calls a read-only command\n\
    Tracking gets notification on tracking table key eviction\n\
    Server is able to evacuate enough keys when num of keys surpasses limit by more than defined initial effort\n\
    MONITOR correctly handles multi-exec cases\n\
    Test read-only scripts in mutli-exec are not blocked by pause RO\n\
    flushdb tracking invalidation message is not interleaved with transaction response\n\
    BRPOPLPUSH with multiple blocked clients\n\
    Blocking XREAD: key deleted\n\
    Blocking XREAD: key type changed with SET\n\
    /Timedout .*script\n\
    FUNCTION - test function kill\n\
    FUNCTION - test script kill not working on function\n\
    FUNCTION - test function kill not working on eval\n\
    /EXEC.* and script timeout\n\
    /MULTI.* and script timeout\n";

/// The time without a result after which a unit is given up: for all tests, and for those that are not [`SLOW`]. No passing
/// test takes a quarter of it.
const TEST_LIMITS: [Duration; 2] = [Duration::from_secs(240), Duration::from_secs(60)];

/// The longest unit takes a minute; this one hangs.
const UNIT_LIMIT: Duration = Duration::from_secs(600);

fn parts(is_quick: bool) -> Result<Vec<Part>> {
    let source = fetch::debian_source("redis")?;
    for program in ["redis-server", "redis-cli", "redis-benchmark"] {
        // A unit starts programs that it expects to be built beside it.
        let script = format!("#!/bin/sh\nexec {program} \"$@\"\n");
        write_program(&source.join("src").join(program), &script)?;
    }
    let skip_file = fetch::folder().join("tcl-skip.txt");
    std::fs::write(&skip_file, POISONOUS.to_string() + if is_quick { SLOW } else { "" })?;
    let part = |unit: &'static str| {
        let (source, skip_file) = (source.clone(), skip_file.clone());
        Part::new(unit, move |world| run(unit, is_quick, &source, &skip_file, world))
    };
    Ok(UNITS.split_whitespace().map(part).collect())
}

/// Writes a script that can be run.
pub(super) fn write_program(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}

/// Runs `unit`. If another process of this machine has taken its port, the unit begins anew at another one.
fn run(unit: &str, is_quick: bool, source: &Path, skip_file: &Path, world: &World) -> Result<Vec<Outcome>> {
    let mut output = String::new();
    for _ in 0..ATTEMPTS_MAX {
        output = try_to_run(unit, is_quick, source, skip_file, world)?;
        if !output.contains(PORT_IS_TAKEN) {
            break;
        }
    }
    Ok(read(unit, &output))
}

fn try_to_run(unit: &str, is_quick: bool, source: &Path, skip_file: &Path, world: &World) -> Result<String> {
    let mut tclsh = command("tclsh");
    tclsh.current_dir(source).args(["tests/test_helper.tcl", "--host", "127.0.0.1"]);
    tclsh.args(["--port", &world.port.to_string(), "--singledb", "--ignore-encoding", "--ignore-digest"]);
    let limit = speed::stretched(TEST_LIMITS[usize::from(is_quick)]).as_secs().to_string();
    tclsh.args(["--durable", "--timeout", &limit, "--baseport", &base_port().to_string()]);
    tclsh.args(["--tags", TAGS, "--single", unit, "--skipfile"]).arg(skip_file);
    world.output(&tclsh, UNIT_LIMIT)
}

/// Starts of one unit.
const ATTEMPTS_MAX: usize = 3;
/// The suite's error before its first test.
const PORT_IS_TAKEN: &str = "couldn't open socket: address already in use";

/// The range in which the suite's two processes look for a port. Each unit has its own range, below the kernel's range for
/// outgoing connections. Otherwise another process could take the port between the check and its use.
fn base_port() -> u32 {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    22_000 + (std::process::id() % 1_000 * 977 + STARTED.fetch_add(1, Ordering::Relaxed) * 64) % 10_000
}

/// The outcome of each test of `unit` in `output`.
fn read(unit: &str, output: &str) -> Vec<Outcome> {
    let text = without_colours(output);
    // The failures follow once more at the end.
    let text = text.split("\n!!! WARNING").next().unwrap_or_default();
    let mut outcomes = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((kind, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) else {
            continue;
        };
        let mut message = String::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('[')) {
            message += line;
            message.push(' ');
        }
        let (name, verdict) = match kind {
            "ok" => (rest.rsplit_once(" (").map_or(rest, |(name, _)| name), Verdict::Passed),
            "err" => match rest.split_once(" in tests/") {
                Some((name, _)) => (name, Verdict::failed(&message)),
                // A block with tests failed before, between or behind them.
                None => ("(outside of a test)", Verdict::failed(&format!("{rest} {message}"))),
            },
            "skip" => (rest, Verdict::LeftOut),
            "ignore" => (rest.split(": Tag").next().unwrap_or(rest), Verdict::Skipped),
            // All that follows in the file is lost.
            "exception" | "TIMEOUT" => {
                outcomes.push(Outcome::rest_of(Some(unit), &format!("{rest} {message}")));
                continue;
            }
            _ => continue,
        };
        outcomes.push(Outcome::new(format!("{unit}: {name}"), verdict));
    }
    if !text.contains("The End") && !outcomes.iter().any(Outcome::is_rest) {
        outcomes.push(Outcome::rest_of(Some(unit), "it did not come to its end"));
    }
    outcomes
}

/// `text` without the escape sequences that colour it.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain += before;
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_lines_are_understood() {
        let output = "Testing unit/x\n[\x1b[0;32;49mok\x1b[0m]: A (b) (12 ms)\n[err]: C in tests/unit/x.tcl\nwhy\nmore\n\
            [ignore]: D: Tag: slow denied\n[skip]: E\n[err]: no such\nat\nThe End\n\n!!! WARNING The following tests failed:\n\n*** [err]: C\n";
        let expected = [
            Outcome::new("u: A (b)", Verdict::Passed),
            Outcome::new("u: C", Verdict::failed("why more")),
            Outcome::new("u: D", Verdict::Skipped),
            Outcome::new("u: E", Verdict::LeftOut),
            Outcome::new("u: (outside of a test)", Verdict::failed("no such at The End")),
        ];
        assert_eq!(read("u", output), expected);
    }

    #[test]
    fn a_unit_that_dies_is_a_failure() {
        let outcomes = read("u", "[ok]: A (1 ms)\n[exception]: Executing test client: ERR no.\nERR no\n");
        let died = Outcome::rest_of(Some("u"), "Executing test client: ERR no. ERR no");
        assert_eq!(outcomes, [Outcome::new("u: A", Verdict::Passed), died]);
        let stopped = Outcome::rest_of(Some("u"), "it did not come to its end");
        assert_eq!(read("u", "Testing u\n"), [stopped]);
    }
}
