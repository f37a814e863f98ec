//! Consistency levels, with the meaning that they have in dynomite.

use std::fmt;
use std::str::FromStr;

/// The number of copies that decide about the reply to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// One copy: the first that is up, the local rack before others.
    #[default]
    One,
    /// More than half of the racks of the local data centre.
    Quorum,
    /// The same, and their replies say the same.
    SafeQuorum,
    /// The same in each data centre.
    EachSafeQuorum,
}

impl Level {
    /// All levels with their names.
    pub const NAMES: [(&'static str, Level); 4] = [
        ("DC_ONE", Level::One),
        ("DC_QUORUM", Level::Quorum),
        ("DC_SAFE_QUORUM", Level::SafeQuorum),
        ("DC_EACH_SAFE_QUORUM", Level::EachSafeQuorum),
    ];

    /// Whether the replies of a quorum have to say the same.
    pub(crate) fn is_safe(self) -> bool {
        matches!(self, Level::SafeQuorum | Level::EachSafeQuorum)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Level::NAMES.iter().find(|(_, level)| level == self).map_or("", |(name, _)| *name);
        out.write_str(name)
    }
}

impl FromStr for Level {
    type Err = String;

    /// Case is ignored, as in dynomite.
    fn from_str(text: &str) -> Result<Level, String> {
        let found = Level::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, level)| *level).ok_or_else(|| {
            let names: Vec<&str> = Level::NAMES.iter().map(|(name, _)| *name).collect();
            format!("{text:?} is no consistency level: {}", names.join(", "))
        })
    }
}

/// The least number of `racks` that is more than half.
pub(crate) fn quorum(racks: usize) -> usize {
    racks / 2 + 1
}

/// A set of racks, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RackSet(u32);

/// The most racks of a pool.
pub const RACKS_MAX: usize = 32;

impl RackSet {
    pub(crate) fn contains(self, rack: usize) -> bool {
        self.0 & 1 << rack != 0
    }

    pub(crate) fn insert(&mut self, rack: usize) {
        self.0 |= 1 << rack;
    }

    pub(crate) fn remove(&mut self, rack: usize) {
        self.0 &= !(1 << rack);
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..RACKS_MAX).filter(move |&rack| self.contains(rack))
    }
}

impl FromIterator<usize> for RackSet {
    fn from_iter<I: IntoIterator<Item = usize>>(racks: I) -> RackSet {
        let mut set = RackSet::default();
        racks.into_iter().for_each(|rack| set.insert(rack));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_names_of_dynomite() {
        for (name, level) in Level::NAMES {
            assert_eq!((level.to_string().as_str(), name.to_lowercase().parse()), (name, Ok(level)));
        }
        let error = "DC_ALL".parse::<Level>().expect_err("there is none");
        assert!(error.starts_with("\"DC_ALL\" is no consistency level: DC_ONE, "), "{error}");
    }

    #[test]
    fn a_quorum_is_more_than_half() {
        assert_eq!([1, 2, 3, 4, 5].map(quorum), [1, 2, 2, 3, 3]);
    }

    #[test]
    fn a_set_holds_the_racks_that_were_inserted() {
        let mut set: RackSet = [0, 3, RACKS_MAX - 1].into_iter().collect();
        assert_eq!((set.len(), set.contains(3), set.contains(1)), (3, true, false));
        set.remove(0);
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, RACKS_MAX - 1]);
        assert!(RackSet::default().is_empty());
    }
}
