//! Settings for tests.

use crate::level::Level;
use crate::settings::{Rack, Settings};
use std::time::Duration;
use store::Scratch;

/// Settings for `racks`, of which the first is the local one: `a/1 a/2 b/1`.
pub(crate) fn settings(racks: &str) -> Settings {
    let rack = |text: &str| {
        let (dc, name) = text.split_once('/').expect("a data centre and a name");
        Rack { dc: dc.to_owned(), name: name.to_owned() }
    };
    Settings {
        racks: racks.split(' ').map(rack).collect(),
        local: 0,
        read: Level::One,
        write: Level::Quorum,
        timeout: Duration::from_secs(1),
        hint_bytes_max: 1 << 20,
        login: None,
        evaluator: Scratch::boxed,
        compared_per_second: 100,
    }
}
