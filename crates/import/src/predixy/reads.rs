//! Where reads go in predixy: priorities of primaries and replicas, and data centres.

use super::scopes::Line;
use crate::draft::{Draft, Origin, Table, Value};
use crate::fault::Word;
use crate::options::{Fate, Options, fate_of_any_case};
use std::net::IpAddr;

pub(crate) const OPTIONS: Options = &[
    ("DC", Fate::As("a zone")),
    (
        "AddrPrefix",
        Fate::Partly(
            "zones",
            "a network or an address is taken, as 10.1 for 10.1.0.0/16; predixy compares text, so that 10.1 is the beginning of 10.10.0.1 too",
        ),
    ),
    (
        "ReadPolicy",
        Fate::Partly(
            "read-from = \"zone\"",
            "replicas of the own zone come first, then the primary: other priorities and weights are lost",
        ),
    ),
];

const READS_PRIMARIES: &str = "reads go to primaries, wherever they are";

/// The priorities.
#[derive(Debug)]
pub(super) struct Reads {
    primary: u64,
    /// Of replicas that the file names, and of those that are learned.
    replicas: [u64; 2],
    /// The options that are written.
    keys: Vec<Word>,
    /// Whether replicas may be known.
    pub(super) is_known: bool,
}

impl Default for Reads {
    fn default() -> Reads {
        Reads { primary: 50, replicas: [0, 0], keys: Vec::new(), is_known: false }
    }
}

impl Reads {
    pub(super) fn priority(&mut self, name: &str, key: &Word, priority: u64) {
        match name {
            "MasterReadPriority" => self.primary = priority,
            "StaticSlaveReadPriority" => self.replicas[0] = priority,
            _ => self.replicas[1] = priority,
        }
        self.keys.push(key.clone());
    }

    /// Sets the keys. `local` is LocalDC, `centers` the scope of DataCenter.
    pub(super) fn set(
        &self,
        local: Option<&Line>,
        centers: Option<&Line>,
        table: &mut Table,
        draft: &mut Draft,
    ) {
        let zones = read_centers(local, centers, draft);
        let replicas = self.replicas[0].max(self.replicas[1]);
        let policy = match (self.primary, replicas) {
            (_, 0) => "primary",
            (0, _) => "replica",
            (primary, replicas) if primary > replicas => "prefer-primary",
            (primary, replicas) if primary < replicas => "prefer-replica",
            _ => "any",
        };
        if replicas > 0 && !self.is_known {
            return self.keys.iter().for_each(|key| draft.leave_out(key, "no node has a replica"));
        }
        let reads_replicas = replicas > 0 && self.primary <= replicas;
        let Some(local) = local else {
            if let Some(key) = self.keys.first() {
                table.set("read-from", policy, &Origin::of(key, &self.shown()));
            }
            return;
        };
        if !reads_replicas {
            if let Some(key) = self.keys.first() {
                table.set("read-from", policy, &Origin::of(key, &self.shown()));
            }
            draft.leave_out(&local.key, READS_PRIMARIES);
            return centers.iter().for_each(|centers| draft.leave_out(&centers.key, READS_PRIMARIES));
        }
        let origin = Origin::of(&local.key, &local.value);
        table.set("read-from", "zone", &origin);
        table.set("zone", local.value.as_str(), &origin);
        if let Some(centers) = centers.filter(|_| !zones.is_empty()) {
            table.set("zones", Value::List(zones), &Origin::of(&centers.key, ""));
        }
    }

    /// The priorities as a comment shows them.
    fn shown(&self) -> String {
        let [named, learned] = self.replicas;
        format!("(primary {}, replicas {named} if named and {learned} if learned)", self.primary)
    }
}

/// Networks and their zones.
fn read_centers(
    local: Option<&Line>,
    centers: Option<&Line>,
    draft: &mut Draft,
) -> Vec<(String, Option<crate::fault::Place>)> {
    let mut zones = Vec::new();
    let mut names = Vec::new();
    for line in centers.and_then(|centers| centers.scope.as_ref()).into_iter().flatten() {
        if !line.key.text.eq_ignore_ascii_case("DC") {
            draft.fault(&line.key.place, "DataCenter has only DC");
            continue;
        }
        names.push(line.value.as_str());
        for part in line.scope.iter().flatten() {
            match fate_of_any_case(OPTIONS, &part.key.text) {
                Some(("AddrPrefix", _)) => read_prefixes(line, part, &mut zones, draft),
                Some(("ReadPolicy", _)) => draft.lose(&part.key, OPTIONS, "ReadPolicy"),
                _ => draft.fault(&part.key.place, format!("{}: there is no such key in DC", part.key.text)),
            }
        }
    }
    match (local, centers) {
        (Some(local), _) if !names.contains(&local.value.as_str()) => {
            draft.fault(&local.key.place, format!("LocalDC {}: DataCenter has no such DC", local.value));
        }
        (None, Some(centers)) => draft.fault(&centers.key.place, "DataCenter needs LocalDC"),
        _ => {}
    }
    zones
}

fn read_prefixes(
    center: &Line,
    prefixes: &Line,
    zones: &mut Vec<(String, Option<crate::fault::Place>)>,
    draft: &mut Draft,
) {
    for Line { key, value, .. } in prefixes.scope.iter().flatten() {
        if key.text != "+" {
            draft.fault(&key.place, "AddrPrefix: write + and the beginning of an address");
            continue;
        }
        match network(value) {
            Some((network, is_exact)) => {
                zones.push((format!("{network}={}", center.value), Some(key.place.clone())));
                if !is_exact {
                    draft.lose(&key.with(format!("AddrPrefix {value}")), OPTIONS, "AddrPrefix");
                }
            }
            None => draft.lose(&key.with(format!("AddrPrefix {value}")), OPTIONS, "AddrPrefix"),
        }
    }
}

/// The network of addresses that begin with `prefix`, and whether there are no others.
fn network(prefix: &str) -> Option<(String, bool)> {
    if let Ok(address) = prefix.parse::<IpAddr>() {
        return Some((address.to_string(), true));
    }
    let (bare, is_exact) = prefix.strip_suffix('.').map_or((prefix, false), |bare| (bare, true));
    let parts: Vec<&str> = bare.split('.').collect();
    if !(1..=3).contains(&parts.len()) || !parts.iter().all(|part| part.parse::<u8>().is_ok()) {
        return None;
    }
    let zeros = ".0".repeat(4 - parts.len());
    Some((format!("{bare}{zeros}/{}", 8 * parts.len()), is_exact))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_networks() {
        let exact = |text: &str| Some((text.to_owned(), true));
        assert_eq!(network("10.1."), exact("10.1.0.0/16"));
        assert_eq!(network("10.1"), Some(("10.1.0.0/16".to_owned(), false)));
        assert_eq!(network("10.1.2.3"), exact("10.1.2.3"));
        assert_eq!(
            (network("a."), network("10.1.2.3.4"), network("300."), network("")),
            (None, None, None, None)
        );
    }
}
