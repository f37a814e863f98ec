//! Whether a program's lines are those that a program prints for which all is well.

/// What every program checks, in any order. It may have more, never less: a check that was forgotten must not pass.
const CHECKS: &[&str] = &[
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
    "reconnect",
];

/// Two names for one check: the second is for libraries that are not asynchronous.
const CONCURRENCY: [&str; 2] = ["async", "concurrent"];

/// Checks of what shardis cannot do yet. They must fail: one that passes is to be taken off this list.
const NOT_YET: &[&str] = &["cluster"];

/// What is wrong with a program that printed `lines` and ended with `code`. Nothing, if all is well.
pub(super) fn problems(lines: &[String], code: Option<i32>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut passed = Vec::new();
    let mut code_expected = 0;
    let (last, checks) = lines.split_last().map_or(("", lines), |(last, checks)| (last.as_str(), checks));
    for line in checks {
        if let Some(name) = line.strip_prefix("ok ") {
            passed.push(if CONCURRENCY.contains(&name) { CONCURRENCY[0] } else { name });
        } else if let Some((name, why)) = line.strip_prefix("skip ").and_then(|rest| rest.split_once(": ")) {
            // Seen with --nocapture, and when another check fails.
            eprintln!("SKIPPED: {name}: {why}");
            passed.push(name);
        } else if NOT_YET.iter().any(|name| line.starts_with(&format!("not ok {name}: "))) {
            code_expected = 1;
        } else if line != "restart?" {
            problems.push(line.clone());
        }
    }
    for name in passed.iter().filter(|name| NOT_YET.contains(name)) {
        problems.push(format!("{name} passes: take it off NOT_YET in tests/clients/verdict.rs"));
    }
    if last != "done" {
        problems.push(format!("the last line is {last:?}, not \"done\""));
    }
    for check in CHECKS {
        let times = passed.iter().filter(|name| *name == check).count();
        let failed = problems.iter().any(|problem| problem.starts_with(&format!("not ok {check}:")));
        if times != 1 && !failed {
            problems.push(format!("{check} was reported {times} times"));
        }
    }
    match code {
        Some(code) if code == code_expected => {}
        // Of what failed, the lines are above.
        Some(1) if problems.iter().any(|problem| problem.starts_with("not ok ")) => {}
        Some(code) => problems.push(format!("its exit code is {code}, not {code_expected}")),
        None => problems.push("a signal ended it".to_owned()),
    }
    problems
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
    assert_eq!(problems(&lines, Some(0)), [""; 0]);
    let at = lines.iter().position(|line| line == "ok async").expect("it is a check");
    lines[at] = "ok concurrent".to_owned();
    assert_eq!(problems(&lines, Some(0)), [""; 0]);
}

#[test]
fn a_failed_a_missing_and_a_doubled_check_are_problems() {
    let mut lines = good_lines();
    lines[1] = "not ok strings: GET gives 1".to_owned();
    lines[2] = "ok scan".to_owned();
    let expected =
        ["not ok strings: GET gives 1", "hashes was reported 0 times", "scan was reported 2 times"];
    assert_eq!(problems(&lines, Some(1)), expected);
    assert_eq!(problems(&good_lines(), Some(1)), ["its exit code is 1, not 0"]);
}

#[test]
fn what_cannot_be_done_yet_must_fail() {
    let mut lines = good_lines();
    lines.insert(0, "not ok cluster: there is none".to_owned());
    assert_eq!(problems(&lines, Some(1)), [""; 0]);
    lines[0] = "ok cluster".to_owned();
    assert_eq!(
        problems(&lines, Some(0)),
        ["cluster passes: take it off NOT_YET in tests/clients/verdict.rs"]
    );
}

#[test]
fn a_program_that_breaks_off_or_says_something_else_is_not_well() {
    let mut lines = good_lines();
    lines.pop();
    assert_eq!(
        problems(&lines, None),
        [
            "the last line is \"ok reconnect\", not \"done\"",
            "reconnect was reported 0 times",
            "a signal ended it"
        ]
    );
    let mut lines = good_lines();
    lines.insert(0, "Warning: something".to_owned());
    assert_eq!(problems(&lines, Some(0)), ["Warning: something"]);
    assert_eq!(problems(&[], Some(0)).len(), 1 + CHECKS.len());
}
