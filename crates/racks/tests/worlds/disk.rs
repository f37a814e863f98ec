//! The disk under the hint log: a batch is there whole or not at all.

use racks::{Kept, KeptHint, Record};

/// Applies the records of a batch.
pub(crate) fn apply(kept: &mut [Kept], records: &[Record]) {
    for record in records {
        match record {
            Record::Hint { rack, key, since, at_ms } => {
                let hints = &mut kept[*rack].hints;
                hints.retain(|hint| hint.key != *key);
                hints.push(KeptHint { key: key.clone(), since: *since, at_ms: *at_ms });
            }
            Record::Keep { rack, key } => kept[*rack].keys.push(key.clone()),
            Record::Settled { rack, key } => {
                kept[*rack].hints.retain(|hint| hint.key != *key);
                kept[*rack].keys.retain(|kept| kept != key);
            }
            Record::Standing { rack, stale } => {
                kept[*rack].hints.clear();
                kept[*rack].keys.clear();
                kept[*rack].stale = *stale;
                kept[*rack].is_known = true;
            }
            Record::Session { rack, session } => kept[*rack].session = Some(session.clone()),
        }
    }
}
