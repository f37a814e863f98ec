//! Measured sizes and their bounds.

use std::fmt;

/// Unit of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    FileLines,
    FunctionLines,
    /// Fields of a struct.
    Fields,
    /// Fields of a struct that are `bool`.
    Bools,
    /// Functions in all `impl` blocks of a type.
    Methods,
    /// Modules of a crate that use each other in a circle.
    Circle,
}

impl Unit {
    const ALL: [Unit; 6] =
        [Unit::FileLines, Unit::FunctionLines, Unit::Fields, Unit::Bools, Unit::Methods, Unit::Circle];

    /// More than this needs an entry in the ratchet.
    pub(super) fn max(self) -> usize {
        match self {
            Unit::FileLines => 1_000,
            Unit::FunctionLines => 100,
            Unit::Fields => 20,
            Unit::Bools => 4,
            Unit::Methods => 120,
            Unit::Circle => 8,
        }
    }

    /// Advice for a size above its bound.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Unit::FileLines | Unit::FunctionLines => "take it apart along its ideas",
            Unit::Fields => "group those that belong together in types of their own",
            Unit::Bools => "say its state by an enum whose variants hold what only that state has",
            Unit::Methods => "give each idea a type of its own, that sees only its own state",
            Unit::Circle => "let the lower module give what the higher one needs, instead of naming it",
        }
    }

    /// The unit of this name in the ratchet.
    pub(super) fn named(name: &str) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit.to_string() == name)
    }
}

/// Its name in the ratchet and in findings.
impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::FileLines => "file-lines",
            Unit::FunctionLines => "lines",
            Unit::Fields => "fields",
            Unit::Bools => "bools",
            Unit::Methods => "methods",
            Unit::Circle => "modules",
        })
    }
}

/// A measured size of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Measure {
    /// `path`, `path::Type::function`, `crate::Type`, or the name of a crate.
    pub(super) name: String,
    pub(super) path: String,
    /// Where it begins.
    pub(super) line: usize,
    pub(super) unit: Unit,
    pub(super) amount: usize,
}

/// The three of most of `unit`, for the summary.
pub(super) fn largest(measures: &[Measure], unit: Unit) -> String {
    let mut of_unit: Vec<_> = measures.iter().filter(|measure| measure.unit == unit).collect();
    of_unit.sort_by_key(|measure| std::cmp::Reverse(measure.amount));
    let largest: Vec<_> =
        of_unit.iter().take(3).map(|measure| format!("{} {}", measure.name, measure.amount)).collect();
    format!("{unit} (at most {}): {}", unit.max(), largest.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_found_by_its_name() {
        for unit in Unit::ALL {
            assert_eq!(Unit::named(&unit.to_string()), Some(unit));
        }
        assert_eq!(Unit::named("inches"), None);
    }

    #[test]
    fn the_largest_of_a_unit_come_first() {
        let of = |name: &str, unit, amount| Measure {
            name: name.into(),
            path: "a.rs".into(),
            line: 1,
            unit,
            amount,
        };
        let measures = [of("A", Unit::Fields, 2), of("B", Unit::Fields, 7), of("C", Unit::Bools, 9)];
        assert_eq!(largest(&measures, Unit::Fields), "fields (at most 20): B 7, A 2");
    }
}
