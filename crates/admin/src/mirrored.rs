//! The answer to `/mirror`.

use mirror::{Difference, Status, Totals};
use serde::Serialize;

/// The counts of the mirror, and the last differences.
#[derive(Debug, Serialize)]
pub(crate) struct MirrorAnswer {
    #[serde(flatten)]
    totals: Totals,
    differences: Vec<Difference>,
}

impl MirrorAnswer {
    pub(crate) fn of(status: &Status) -> MirrorAnswer {
        MirrorAnswer { totals: status.totals(), differences: status.differences() }
    }
}
