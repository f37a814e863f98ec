//! Comments by which a file permits something that is usually wrong, with the reason:
//!
//! ```text
//! // tidy: allow(slave): Redis's word in INFO
//! ```
//!
//! A permission that nothing needs is a finding too, so that they go when their reason goes.

use super::Finding;
use super::source::Source;

const PREFIX: &str = "// tidy: allow(";

/// A finding, unless the file permits it.
pub(super) struct Suspicion {
    pub(super) finding: Finding,
    /// The word that permits it, if there is one.
    pub(super) permission: Option<String>,
}

struct Permission<'a> {
    line: usize,
    word: &'a str,
    reason: &'a str,
}

/// The suspicions that `source` does not permit, and its permissions that are idle or give no reason.
pub(super) fn apply(source: &Source<'_>, suspicions: Vec<Suspicion>) -> Vec<Finding> {
    let permissions: Vec<Permission<'_>> = source
        .text
        .lines()
        .enumerate()
        .filter_map(|(index, line)| Permission::parse(index + 1, line))
        .collect();
    let judged = permissions.iter().filter_map(|permission| {
        let text = permission.judge(&suspicions)?;
        Some(Finding::new(source.path, permission.line, text))
    });
    let mut findings: Vec<Finding> = judged.collect();
    let is_permitted = |word: &str| permissions.iter().any(|permission| permission.word == word);
    for Suspicion { mut finding, permission } in suspicions {
        if permission.as_deref().is_some_and(is_permitted) {
            continue;
        }
        if let Some(word) = permission {
            finding.text += &format!("; if it is right here, `{PREFIX}{word}): why`");
        }
        findings.push(finding);
    }
    findings
}

impl<'a> Permission<'a> {
    fn parse(line: usize, text: &'a str) -> Option<Permission<'a>> {
        let (word, reason) = text.trim().strip_prefix(PREFIX)?.split_once(')')?;
        Some(Permission { line, word, reason: reason.trim_start_matches([':', ' ']) })
    }

    /// The fault of the permission.
    fn judge(&self, suspicions: &[Suspicion]) -> Option<String> {
        if !suspicions.iter().any(|suspicion| suspicion.permission.as_deref() == Some(self.word)) {
            return Some(format!("nothing needs the permission for `{}`; remove it", self.word));
        }
        self.reason.is_empty().then(|| format!("say why `{}` is right here", self.word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings that stay of one suspicion with this permission, in a file of this text.
    fn findings(text: &str, permission: Option<&str>) -> Vec<String> {
        let source = Source::parse("a.rs", text).expect("it is Rust");
        let suspicion = Suspicion {
            finding: Finding::new("a.rs", 9, "wrong"),
            permission: permission.map(str::to_owned),
        };
        apply(&source, vec![suspicion]).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_permission_with_a_reason_is_no_finding() {
        assert_eq!(findings("fn f() {\n    // tidy: allow(sleep): the pause\n}", Some("sleep")), [""; 0]);
    }

    #[test]
    fn a_finding_names_its_permission() {
        assert_eq!(
            findings("", Some("sleep")),
            ["a.rs:9: wrong; if it is right here, `// tidy: allow(sleep): why`"]
        );
        assert_eq!(findings("", None), ["a.rs:9: wrong"]);
    }

    #[test]
    fn a_permission_needs_a_reason_and_a_use() {
        assert_eq!(
            findings("// tidy: allow(sleep)", Some("sleep")),
            ["a.rs:1: say why `sleep` is right here"]
        );
        let idle = "a.rs:1: nothing needs the permission for `sleep`; remove it";
        assert_eq!(findings("// tidy: allow(sleep): the pause", None), [idle, "a.rs:9: wrong"]);
    }
}
