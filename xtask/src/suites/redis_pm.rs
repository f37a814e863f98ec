//! The tests of Redis.pm, of Debian's original tarball of libredis-perl.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use programs::needs;
use programs::process::command;

use super::{Name, Outcome, Part, Setup, Suite, Verdict, fetch, relay};

pub(super) const SUITE: Suite = Suite {
    name: Name::RedisPm,
    slug: "redis-pm",
    needs: needs::FOR_REDIS_PM,
    tool: fetch::APT_GET,
    port: None,
    quick: &[Setup::Emulate],
    parts,
};

/// The longest takes half a minute.
const FILE_LIMIT: Duration = Duration::from_secs(180);

/// Without those for Sentinel and for the author. Two files wait for most of a minute; the others are short.
const PARTS: [(&str, &[&str]); 3] = [
    ("pubsub", &["03-pubsub"]),
    ("reconnect", &["07-reconnect"]),
    (
        "others",
        &[
            "00-compile",
            "01-basic",
            "02-responses",
            "04-pipeline",
            "05-nonblock",
            "06-on-connect",
            "08-unix-socket",
            "10-tie-list",
            "11-timeout",
            "20-tie-hash",
            "30-scripts",
            "42-client_cmds",
            "44-no-unicode-bug",
            "50-fork_safe",
        ],
    ),
];

fn parts(_is_quick: bool) -> Result<Vec<Part>> {
    PARTS.iter().map(|(name, files)| part(&format!("redis-pm-{name}"), Path::new("lib"), files)).collect()
}

/// Runs `files` one after the other, with the module `Redis` of the folder `library`. Each file empties the nodes first.
pub(super) fn part(name: &str, library: &Path, files: &'static [&'static str]) -> Result<Part> {
    let source = fetch::debian_source("libredis-perl")?;
    let server = relay::program()?;
    let library = format!("-I{}", library.display());
    Ok(Part::new(name, move |world| {
        let mut outcomes = Vec::new();
        for file in files {
            let mut perl = command("perl");
            perl.current_dir(&source).args([&library, "-It/tlib", &format!("t/{file}.t")]);
            perl.env("REDIS_SERVER_PATH", &server);
            relay::aim(&mut perl, world)?;
            outcomes.extend(read(file, &world.output(&perl, FILE_LIMIT)?));
        }
        Ok(outcomes)
    }))
}

/// Reads the lines of TAP: `ok 1 - name`. Indented lines belong to the next line that is not indented.
fn read(file: &str, output: &str) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let (mut planned, mut cause) = (None, "it did not come to its end");
    for line in output.lines() {
        let (words, verdict) = if let Some(rest) = line.strip_prefix("ok ") {
            (rest, if rest.contains(" # skip") { Verdict::Skipped } else { Verdict::Passed })
        } else if let Some(rest) = line.strip_prefix("not ok ") {
            (rest, Verdict::failed(cause))
        } else {
            planned = line.strip_prefix("1..").and_then(|count| count.parse().ok()).or(planned);
            // Redis.pm reports an uncaught error as `[command] ERR …`.
            if line.starts_with('[') || line.contains("ERR ") {
                cause = line;
            }
            continue;
        };
        let name = words.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim_start_matches(" - ");
        outcomes.push(Outcome::new(format!("{file}: {name}"), verdict));
    }
    if planned != Some(outcomes.len()) {
        outcomes.push(Outcome::rest_of(Some(file), cause));
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read() {
        let output = "# Subtest: inner\n    ok 1 - deep\n    1..1\nok 1 - inner\nnot ok 2 - outer\nok 3 # skip old\n1..3\n";
        let expected = [
            Outcome::new("f: inner", Verdict::Passed),
            Outcome::new("f: outer", Verdict::failed("it did not come to its end")),
            Outcome::new("f: # skip old", Verdict::Skipped),
        ];
        assert_eq!(read("f", output), expected);
    }

    #[test]
    fn a_file_that_dies_is_a_failure() {
        let output = "ok 1 - inner\n[rename] CROSSSLOT Keys,  at x line 1.\n";
        let died = Outcome::rest_of(Some("f"), "[rename] CROSSSLOT Keys, at x line 1.");
        assert_eq!(read("f", output), [Outcome::new("f: inner", Verdict::Passed), died]);
    }
}
