//! The outcome of a check.

use serde::Serialize;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Trouble for some clients, or some day.
    Warning,
    /// Trouble as soon as clients come.
    Error,
}

impl Severity {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The stable name of the check.
    pub check: &'static str,
    /// The weight.
    pub severity: Severity,
    /// The address of the node; empty if it concerns several.
    pub node: String,
    /// The fact, with its figures.
    pub found: String,
    /// Its consequence.
    pub effect: &'static str,
    /// A way out.
    pub cure: String,
}
