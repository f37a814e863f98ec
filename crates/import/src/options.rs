//! Tables of options: the name of each option of a program, and its fate here.

use std::fmt;

/// The fate of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Carried as these keys.
    As(&'static str),
    /// Carried as these keys, and with this loss.
    Partly(&'static str, &'static str),
    /// Not carried over, for this reason.
    Not(&'static str),
    /// A reason to refuse the file.
    Refused(&'static str),
}

impl Fate {
    /// The reason why the option is lost, or lost in part.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Fate::As(_) => "",
            Fate::Partly(_, reason) | Fate::Not(reason) | Fate::Refused(reason) => reason,
        }
    }
}

/// As a table of the page has it: the keys, and the reason.
impl fmt::Display for Fate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::As(keys) => write!(out, "{keys} | "),
            Fate::Partly(keys, reason) => write!(out, "{keys} | {reason}"),
            Fate::Not(reason) => write!(out, "not carried | {reason}"),
            Fate::Refused(reason) => write!(out, "refused | {reason}"),
        }
    }
}

/// The options of a program, or of one kind of section of its file.
pub(crate) type Options = &'static [(&'static str, Fate)];

/// The fate of the option `name`, if there is such an option.
pub(crate) fn fate(options: Options, name: &str) -> Option<Fate> {
    options.iter().find(|(known, _)| *known == name).map(|(_, fate)| *fate)
}

/// The same for a program that does not distinguish upper and lower case.
pub(crate) fn fate_of_any_case(options: Options, name: &str) -> Option<(&'static str, Fate)> {
    options.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}
