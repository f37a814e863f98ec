//! The tables of docs/import.md, made from the tables of options.

use crate::haproxy::options as haproxy;
use crate::options::Options;
use crate::{codis, corvus, dynomite, nginx, predixy, twemproxy};
use std::fmt::Write;

/// The line of the page from which on it is made here.
pub const REFERENCE_BEGIN: &str = "## Options of twemproxy";

/// A heading, and the options below it.
const PARTS: [(&str, Options); 15] = [
    ("## Options of twemproxy", twemproxy::OPTIONS),
    ("## Options of dynomite", dynomite::OPTIONS),
    ("## Options of corvus", corvus::OPTIONS),
    ("## Options of predixy", predixy::GENERAL),
    ("### Pools", predixy::POOL),
    ("### DataCenter", predixy::DATA_CENTER),
    ("### Authority", predixy::AUTHORITY),
    ("## Options of codis", codis::OPTIONS),
    ("## Directives of nginx", nginx::MAIN),
    ("### Within stream and server", nginx::STREAM),
    ("### Within upstream", nginx::GROUP),
    ("## Keywords of haproxy, global", haproxy::GLOBAL),
    ("### Proxies", haproxy::PROXY),
    ("### Parameters of bind", haproxy::BIND),
    ("### Parameters of server", haproxy::SERVER),
];

/// The end of docs/import.md: a table for each program, from [`REFERENCE_BEGIN`] on.
pub fn reference() -> String {
    let mut page = String::new();
    for (heading, options) in PARTS {
        let between = if page.is_empty() { "" } else { "\n" };
        // A String takes all that is written to it.
        let _ = write!(
            page,
            "{between}{heading}\n\n| option | carried as | not carried, and why |\n| --- | --- | --- |\n"
        );
        for (name, fate) in options {
            let row = fate.to_string();
            let (keys, reason) = row.split_once(" | ").unwrap_or((&row, ""));
            // A bar within a cell would end it.
            let (keys, reason) = (keys.replace('|', "\\|"), reason.replace('|', "\\|"));
            let _ = writeln!(page, "| `{name}` | {keys} | {reason} |");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_listed_once_and_keys_named_or_reasons_given() {
        for (heading, options) in PARTS {
            for (number, (name, fate)) in options.iter().enumerate() {
                assert!(!options[..number].iter().any(|(other, _)| other == name), "{heading}: {name} twice");
                assert!(!fate.to_string().trim().is_empty(), "{heading}: {name}");
                assert!(!fate.reason().ends_with('.') && !fate.reason().contains('\n'), "{heading}: {name}");
            }
        }
        assert!(reference().starts_with(REFERENCE_BEGIN));
    }
}
