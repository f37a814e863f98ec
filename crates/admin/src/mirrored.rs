//! The answer to `/mirror`.

use mirror::{Status, Totals};
use serde::Serialize;
use std::collections::BTreeMap;

/// The counts of the mirror, and the last differences.
#[derive(Debug, Serialize)]
pub(crate) struct MirrorAnswer {
    clients: u64,
    clients_left: u64,
    clients_lost: u64,
    sent: u64,
    unsent: u64,
    unanswered: u64,
    same: u64,
    uncompared: u64,
    different: BTreeMap<&'static str, u64>,
    failures: u64,
    held_bytes: u64,
    differences: Vec<DifferenceAnswer>,
}

#[derive(Debug, Serialize)]
struct DifferenceAnswer {
    time_s: f64,
    command: &'static str,
    key: String,
    ours: String,
    theirs: String,
}

impl MirrorAnswer {
    pub(crate) fn of(status: &Status) -> MirrorAnswer {
        let differences = status.differences().into_iter().map(|difference| DifferenceAnswer {
            time_s: difference.at_s,
            command: difference.command,
            key: difference.key,
            ours: difference.ours,
            theirs: difference.theirs,
        });
        let differences = differences.collect();
        let Totals {
            clients, clients_left, clients_lost, sent, unsent, unanswered, same, uncompared, ..
        } = status.totals();
        let Totals { different, failures, held_bytes, .. } = status.totals();
        MirrorAnswer {
            clients,
            clients_left,
            clients_lost,
            sent,
            unsent,
            unanswered,
            same,
            uncompared,
            different,
            failures,
            held_bytes,
            differences,
        }
    }
}
