//! The verdict on a program's lines: whether they are those of a program without failures.

/// The checks of every program, in any order. A program may have more, but not fewer: a forgotten check must not pass.
pub(super) const CHECKS: &[&str] = &[
    "connect",
    "strings",
    "hashes",
    "lists-sets-zsets",
    "counters-expiry",
    "pipeline",
    "multi-key",
    "scan",
    "scripts",
    "big-values",
    "errors",
    CONCURRENCY[0],
    "transactions",
    "blocking",
    "pubsub",
    "databases",
    "reconnect",
];

/// The same for a program that takes shards for one Redis.
pub(super) const EMULATE_CHECKS: &[&str] = &[
    "connect",
    "strings",
    "pipeline",
    "multi-key",
    "scan",
    "scripts",
    "errors",
    "transactions",
    "blocking",
    "pubsub",
    "reconnect",
];

/// The same for rueidis, whose users want its cache and its locks.
pub(super) const RUEIDIS_CHECKS: &[&str] = &[
    "connect",
    "strings",
    "pipeline",
    "multi-key",
    "scan",
    "scripts",
    "errors",
    "transactions",
    "blocking",
    "pubsub",
    "caching",
    "locks",
    "reconnect",
];

/// The same for a program that speaks HTTP.
pub(super) const HTTP_CHECKS: &[&str] = &[
    "connect",
    "strings",
    "hashes",
    "lists-sets-zsets",
    "counters-expiry",
    "pipeline",
    "multi-key",
    "scan",
    "scripts",
    "big-values",
    "errors",
    CONCURRENCY[0],
    "transactions",
    "reconnect",
];

/// The same under faults.
pub(super) const FAULT_CHECKS: &[&str] = &["writes"];

/// The same for the program of a job queue.
pub(super) const QUEUE_CHECKS: &[&str] = &["jobs"];

/// Two names for one check: the second is for libraries that are not asynchronous.
const CONCURRENCY: [&str; 2] = ["async", "concurrent"];

/// The faults of a program with these `checks` that printed `lines` and ended with `code`. Empty if there are none.
pub(super) fn problems(checks: &[&str], lines: &[String], code: Option<i32>) -> Vec<String> {
    let (mut problems, mut reported) = (Vec::new(), Vec::new());
    let mut code_expected = 0;
    let (last, before) = lines.split_last().map_or(("", lines), |(last, before)| (last.as_str(), before));
    for line in before.iter().filter(|line| *line != "restart?") {
        let Some((outcome, name)) = parse(line) else {
            problems.push(format!("this line is no check: {line}"));
            continue;
        };
        reported.push(name);
        match outcome {
            Outcome::Passed => {}
            // Seen with --nocapture, and when another check fails.
            Outcome::Skipped => eprintln!("SKIPPED: {line}"),
            Outcome::Failed => {
                problems.push(line.clone());
                code_expected = 1;
            }
        }
    }
    if last != "done" {
        problems.push(format!("the last line is {last:?}, not \"done\""));
    }
    for check in checks {
        let times = reported.iter().filter(|name| *name == check).count();
        if times != 1 {
            problems.push(format!("{check} was reported {times} times"));
        }
    }
    match code {
        Some(code) if code == code_expected => {}
        Some(code) => problems.push(format!("its exit code is {code}, not {code_expected}")),
        None => problems.push("a signal ended it".to_owned()),
    }
    problems
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// The outcome and the name in the line of a check.
fn parse(line: &str) -> Option<(Outcome, &str)> {
    let (outcome, name) = if let Some(name) = line.strip_prefix("ok ") {
        (Outcome::Passed, name)
    } else if let Some(rest) = line.strip_prefix("not ok ") {
        (Outcome::Failed, rest.split_once(": ")?.0)
    } else {
        (Outcome::Skipped, line.strip_prefix("skip ")?.split_once(": ")?.0)
    };
    let name = if CONCURRENCY.contains(&name) { CONCURRENCY[0] } else { name };
    (!name.contains(' ')).then_some((outcome, name))
}

/// The lines of a program for which all is well.
#[cfg(test)]
fn good_lines() -> Vec<String> {
    let mut lines: Vec<String> = CHECKS.iter().map(|check| format!("ok {check}")).collect();
    lines.insert(lines.len() - 1, "restart?".to_owned());
    lines.push("done".to_owned());
    lines
}

#[test]
fn a_program_that_passes_everything_is_well() {
    let mut lines = good_lines();
    assert_eq!(problems(CHECKS, &lines, Some(0)), [""; 0]);
    assert_eq!(problems(QUEUE_CHECKS, &["ok jobs", "done"].map(str::to_owned), Some(0)), [""; 0]);
    assert_eq!(problems(QUEUE_CHECKS, &lines, Some(0)), ["jobs was reported 0 times"]);
    let at = lines.iter().position(|line| line == "ok async").expect("it is a check");
    lines[at] = "ok concurrent".to_owned();
    assert_eq!(problems(CHECKS, &lines, Some(0)), [""; 0]);
    lines[at] = "skip async: it has no such thing".to_owned();
    assert_eq!(problems(CHECKS, &lines, Some(0)), [""; 0]);
}

#[test]
fn a_failed_a_missing_and_a_doubled_check_are_problems() {
    let mut lines = good_lines();
    lines[1] = "not ok strings: GET gives 1".to_owned();
    lines[2] = "ok scan".to_owned();
    let expected =
        ["not ok strings: GET gives 1", "hashes was reported 0 times", "scan was reported 2 times"];
    assert_eq!(problems(CHECKS, &lines, Some(1)), expected);
    // A program must not fail and report success, nor the reverse.
    assert_eq!(problems(CHECKS, &lines, Some(0)).last().expect("problems"), "its exit code is 0, not 1");
    assert_eq!(problems(CHECKS, &good_lines(), Some(1)), ["its exit code is 1, not 0"]);
}

#[test]
fn a_program_that_breaks_off_or_says_something_else_is_not_well() {
    let mut lines = good_lines();
    lines.pop();
    assert_eq!(
        problems(CHECKS, &lines, None),
        [
            "the last line is \"ok reconnect\", not \"done\"",
            "reconnect was reported 0 times",
            "a signal ended it"
        ]
    );
    let mut lines = good_lines();
    lines.splice(0..0, ["ok that is it".to_owned(), "skip it".to_owned()]);
    let expected = ["this line is no check: ok that is it", "this line is no check: skip it"];
    assert_eq!(problems(CHECKS, &lines, Some(0)), expected);
    assert_eq!(problems(CHECKS, &[], Some(0)).len(), 1 + CHECKS.len());
}
