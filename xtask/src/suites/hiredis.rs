//! hiredis-test, of Debian's source package `hiredis`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use programs::needs;
use programs::process::{self, command};

use super::{Name, Outcome, Part, Setup, Suite, Verdict, World, fetch, relay};

pub(super) const SUITE: Suite = Suite {
    name: Name::Hiredis,
    slug: "hiredis",
    needs: &[needs::MAKE, needs::CXX],
    tool: fetch::APT_GET,
    port: None,
    quick: &[Setup::Refuse],
    parts,
};

/// The tests take a second.
const LIMIT: Duration = Duration::from_secs(60);

fn parts(_is_quick: bool) -> Result<Vec<Part>> {
    let source = fetch::debian_source("hiredis")?;
    process::complaints(command("make").current_dir(&source).args(["-s", "hiredis-test"]))?;
    Ok(vec![Part::new("hiredis", move |world| run(&source, world))])
}

fn run(source: &Path, world: &World) -> Result<Vec<Outcome>> {
    // Half of the tests use a unix socket, on which shardis does not listen.
    let socket = world.log.with_extension("sock");
    let _relay = relay::start_on(&socket, world)?;
    let mut test = command(source.join("hiredis-test"));
    test.args(["-h", "127.0.0.1", "-p", &world.port.to_string(), "--skip-throughput", "-s"]).arg(&socket);
    read(&world.output(&test, LIMIT)?)
}

/// Lines such as `#12 Can parse nil replies: PASSED`, some with other text before the verdict.
fn read(output: &str) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for text in output.split("\n#").skip(1) {
        let name =
            text.split_once(' ').and_then(|(_, rest)| rest.split_once(": ")).context(text.to_string())?.0;
        let verdict = if text.contains("PASSED") {
            Verdict::Passed
        } else {
            Verdict::failed("it says no more than FAILED")
        };
        outcomes.push(Outcome::new(name, verdict));
    }
    if !output.contains("ALL TESTS PASSED") && !output.contains("TESTS FAILED") {
        outcomes.push(Outcome::rest_of(None, "it did not come to its end"));
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read() {
        let output = "\n#01 One: \x1b[0;32mPASSED\x1b[0;0m\n#02 Two (x): note\n\x1b[0;31mFAILED\x1b[0;0m\n";
        let failed = Verdict::failed("it says no more than FAILED");
        let mut expected = vec![Outcome::new("One", Verdict::Passed), Outcome::new("Two (x)", failed)];
        assert_eq!(read(&(output.to_string() + "*** 1 TESTS FAILED ***\n")).expect("it is output"), expected);
        expected.push(Outcome::rest_of(None, "it did not come to its end"));
        assert_eq!(read(output).expect("it is output"), expected);
    }
}
