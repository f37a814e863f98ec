//! Lists of the tests that are expected to fail, by reason:
//!
//! ```text
//! # Any comment.
//! # passed: 1234
//!
//! ## needs RESP3, which shardis does not speak yet
//! unit/protocol: a test's name
//!
//! ## flaky: the cause
//! unit/pubsub: the name of a test that fails at times
//! ```
//!
//! A list can only shrink by itself: a test that is listed and passes is a finding, as is one that fails unlisted. Only a test
//! that is listed as flaky may do both, and the list must give the cause.

use std::collections::{HashMap, HashSet};
use std::fmt;

use anyhow::{Context, Result};

use super::{Outcome, Verdict};

const PASSED: &str = "# passed: ";
const REASON: &str = "## ";

/// Beginning of the reason of tests that fail at times; their cause follows.
const FLAKY: &str = "flaky: ";

/// A reason that gives no cause.
const FLAKY_WITHOUT_CAUSE: &str = "flaky";

/// Where new names go. Nothing is committed under it.
const UNEXPLAINED: &str = "not yet explained";

/// The expected results of a suite.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    comment: Vec<String>,
    /// The least number of passes: it shows tests that do not run because a file dies early.
    passed: usize,
    reasons: Vec<Reason>,
}

#[derive(Debug, PartialEq, Eq)]
struct Reason {
    text: String,
    names: Vec<String>,
}

impl Expected {
    pub(super) fn parse(text: &str) -> Result<Expected> {
        let mut expected = Expected::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(count) = line.strip_prefix(PASSED) {
                expected.passed = count.parse().context(line.to_string())?;
            } else if let Some(reason) = line.strip_prefix(REASON) {
                expected.reasons.push(Reason { text: reason.into(), names: Vec::new() });
            } else if line.starts_with('#') {
                expected.comment.push(line.into());
            } else {
                let reason = expected.reasons.last_mut().context("a test stands before the first reason")?;
                reason.names.push(line.into());
            }
        }
        Ok(expected)
    }

    /// Differences of `outcomes` from the expected results, a line for each.
    pub(super) fn compare(&self, outcomes: &[Outcome]) -> Vec<String> {
        let reasons = self.by_name();
        let mut findings: Vec<String> = outcomes
            .iter()
            .filter_map(|outcome| surprise(outcome, reasons.get(&*outcome.name).copied()))
            .collect();
        let seen: HashSet<&str> = outcomes.iter().map(|outcome| &*outcome.name).collect();
        let mut gone: Vec<_> =
            reasons.iter().filter(|(name, reason)| !is_flaky(reason) && !seen.contains(*name)).collect();
        gone.sort();
        findings.extend(gone.iter().map(|(name, _)| format!("listed, but did not run: {name}")));
        let passed = outcomes.iter().filter(|outcome| self.counts_as_passed(outcome, &reasons)).count();
        if passed < self.passed {
            findings.push(format!("{passed} passed, and it were {}", self.passed));
        }
        let without_cause = reasons.iter().filter(|(_, reason)| **reason == FLAKY_WITHOUT_CAUSE);
        let mut without_cause: Vec<&str> = without_cause.map(|(name, _)| *name).collect();
        without_cause.sort_unstable();
        findings.extend(without_cause.iter().map(|name| format!("flaky, and no cause is given: {name}")));
        if self.unexplained() > 0 {
            findings.push(format!("{} have no reason", self.unexplained()));
        }
        findings
    }

    /// The list that `outcomes` would fulfil. Names keep their reasons.
    pub(super) fn bless(&self, outcomes: &[Outcome]) -> Expected {
        let reasons = self.by_name();
        let mut names: HashMap<&str, Vec<String>> = HashMap::new();
        for outcome in outcomes {
            let reason = reasons.get(&*outcome.name).copied();
            let stays = match outcome.verdict {
                Verdict::Failed(_) => true,
                Verdict::LeftOut => reason.is_some(),
                Verdict::Passed | Verdict::Skipped => false,
            };
            if stays && !reason.is_some_and(is_flaky) {
                names.entry(reason.unwrap_or(UNEXPLAINED)).or_default().push(outcome.name.clone());
            }
        }
        let mut blessed = Expected { comment: self.comment.clone(), ..Expected::default() };
        for reason in &self.reasons {
            let names =
                if is_flaky(&reason.text) { Some(reason.names.clone()) } else { names.remove(&*reason.text) };
            blessed.reasons.extend(names.map(|names| Reason { text: reason.text.clone(), names }));
        }
        let new = names.remove(UNEXPLAINED);
        blessed.reasons.extend(new.map(|names| Reason { text: UNEXPLAINED.into(), names }));
        blessed.passed = outcomes.iter().filter(|outcome| self.counts_as_passed(outcome, &reasons)).count();
        blessed
    }

    /// Number of names without a reason.
    pub(super) fn unexplained(&self) -> usize {
        let unexplained = self.reasons.iter().filter(|reason| reason.text == UNEXPLAINED);
        unexplained.map(|reason| reason.names.len()).sum()
    }

    /// Whether `outcome` is one of [`Expected::passed`]. A test that was left out counts as listed, and a flaky one does not
    /// count.
    fn counts_as_passed(&self, outcome: &Outcome, reasons: &HashMap<&str, &str>) -> bool {
        let reason = reasons.get(&*outcome.name);
        match outcome.verdict {
            Verdict::Passed => !reason.is_some_and(|reason| is_flaky(reason)),
            Verdict::LeftOut => reason.is_none(),
            Verdict::Failed(_) | Verdict::Skipped => false,
        }
    }

    fn by_name(&self) -> HashMap<&str, &str> {
        let mut reasons = HashMap::new();
        for reason in &self.reasons {
            reasons.extend(reason.names.iter().map(|name| (&**name, &*reason.text)));
        }
        reasons
    }
}

/// Whether `reason` is one of tests that may fail and may pass.
fn is_flaky(reason: &str) -> bool {
    reason.starts_with(FLAKY)
}

/// The difference of `outcome` from its listed `reason`.
fn surprise(outcome: &Outcome, reason: Option<&str>) -> Option<String> {
    let name = &outcome.name;
    match (&outcome.verdict, reason) {
        (_, Some(reason)) if is_flaky(reason) => None,
        (Verdict::Failed(message), None | Some(FLAKY_WITHOUT_CAUSE)) => {
            Some(format!("failed: {name}: {message}"))
        }
        (Verdict::Passed, Some(reason)) => {
            Some(format!("passed, and was not expected to ({reason}): {name}"))
        }
        (Verdict::Skipped, Some(_)) => Some(format!("skipped, and was expected to fail: {name}")),
        _ => None,
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.comment {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "{PASSED}{}", self.passed)?;
        for reason in &self.reasons {
            writeln!(f, "\n{REASON}{}", reason.text)?;
            for name in &reason.names {
                writeln!(f, "{name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str =
        "# A list.\n# passed: 1\n\n## blocking commands\nblpop\nbrpop\n\n## flaky: a race\nsleepy\n";

    fn outcomes(verdicts: &[(&str, Verdict)]) -> Vec<Outcome> {
        verdicts.iter().map(|(name, verdict)| Outcome::new(*name, verdict.clone())).collect()
    }

    fn failed() -> Verdict {
        Verdict::failed("why")
    }

    #[test]
    fn a_list_is_written_as_it_was_read() {
        assert_eq!(Expected::parse(LIST).expect("it is a list").to_string(), LIST);
    }

    #[test]
    fn a_test_before_the_first_reason_is_refused() {
        assert!(Expected::parse("blpop\n").is_err());
    }

    #[test]
    fn expected_results_are_no_findings() {
        let expected = Expected::parse(LIST).expect("it is a list");
        let run = outcomes(&[
            ("get", Verdict::Passed),
            ("blpop", failed()),
            ("brpop", failed()),
            ("sleepy", failed()),
        ]);
        assert_eq!(expected.compare(&run), [""; 0]);
        let quick = outcomes(&[("get", Verdict::LeftOut), ("blpop", failed()), ("brpop", Verdict::LeftOut)]);
        assert_eq!(expected.compare(&quick), [""; 0]);
    }

    #[test]
    fn every_difference_is_a_finding() {
        let expected = Expected::parse(LIST).expect("it is a list");
        let run = outcomes(&[("get", failed()), ("blpop", Verdict::Passed), ("sleepy", Verdict::Passed)]);
        let findings = [
            "failed: get: why",
            "passed, and was not expected to (blocking commands): blpop",
            "listed, but did not run: brpop",
        ];
        assert_eq!(expected.compare(&run), findings);
        let nothing = outcomes(&[("blpop", failed()), ("brpop", failed())]);
        assert_eq!(expected.compare(&nothing), ["0 passed, and it were 1"]);
    }

    #[test]
    fn a_flaky_test_needs_a_cause() {
        let list = "## flaky\nsleepy\n\n## flaky: Redis closes early\ndrowsy\n";
        let expected = Expected::parse(list).expect("it is a list");
        let run = outcomes(&[("sleepy", failed()), ("drowsy", failed())]);
        assert_eq!(expected.compare(&run), ["failed: sleepy: why", "flaky, and no cause is given: sleepy"]);
    }

    #[test]
    fn a_blessed_list_keeps_reasons_and_puts_new_names_apart() {
        let expected = Expected::parse(LIST).expect("it is a list");
        let run = outcomes(&[("get", failed()), ("set", Verdict::Passed), ("blpop", failed())]);
        let blessed = expected.bless(&run);
        let text = "# A list.\n# passed: 1\n\n## blocking commands\nblpop\n\n## flaky: a race\nsleepy\n\n\
                    ## not yet explained\nget\n";
        assert_eq!(blessed.to_string(), text);
        assert_eq!(blessed.unexplained(), 1);
        assert_eq!(blessed.compare(&run), ["1 have no reason"]);
    }
}
