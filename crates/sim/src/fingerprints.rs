//! Fingerprints of worlds in a file, a line each: `seed fingerprint`. A changed fingerprint shows that the core behaves
//! differently.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// By seed.
pub(crate) type Fingerprints = BTreeMap<u64, u64>;

/// Number of differences that are listed.
const LISTED_MAX: usize = 20;

/// Reads the file at `path`.
pub(crate) fn read(path: &Path) -> Result<Fingerprints, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.lines()
        .map(|line| parse(line).ok_or_else(|| format!("{}: not `seed fingerprint`: {line}", path.display())))
        .collect()
}

fn parse(line: &str) -> Option<(u64, u64)> {
    let (seed, fingerprint) = line.split_once(' ')?;
    Some((seed.parse().ok()?, u64::from_str_radix(fingerprint, 16).ok()?))
}

/// Writes the file at `path`.
pub(crate) fn write(path: &Path, fingerprints: &Fingerprints) -> Result<(), String> {
    let mut text = String::new();
    for (seed, fingerprint) in fingerprints {
        writeln!(text, "{seed} {fingerprint:016x}").expect("a string takes all");
    }
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Compares with `before`. The error lists the worlds that are missing there or differ.
pub(crate) fn compare(before: &Fingerprints, now: &Fingerprints) -> Result<(), String> {
    let differ: Vec<_> =
        now.iter().filter(|(seed, fingerprint)| before.get(seed) != Some(fingerprint)).collect();
    if differ.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = differ.iter().take(LISTED_MAX).map(|(seed, _)| seed.to_string()).collect();
    Err(format!("{} of {} worlds are not as they were: {}", differ.len(), now.len(), listed.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        assert_eq!(parse("7 00000000000000ff"), Some((7, 255)));
        assert_eq!(parse("7"), None);
        assert_eq!(parse("7 x"), None);
    }

    #[test]
    fn worlds_that_differ_or_are_new_are_listed() {
        let before = Fingerprints::from([(1, 10), (2, 20), (4, 40)]);
        assert_eq!(compare(&before, &Fingerprints::from([(1, 10), (2, 20)])), Ok(()));
        let now = Fingerprints::from([(1, 10), (2, 21), (3, 30)]);
        assert_eq!(compare(&before, &now), Err("2 of 3 worlds are not as they were: 2 3".to_owned()));
    }
}
