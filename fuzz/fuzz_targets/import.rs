//! No file of another program causes a panic, whatever its kind. The result is TOML, and knows the origin of its lines.

#![no_main]

use import::{Files, Kind, kind, read};
use libfuzzer_sys::fuzz_target;

/// Files that include each other: the text itself, under another name.
struct Parts<'a>(&'a str);

impl Files for Parts<'_> {
    fn open(&mut self, _: &str, path: &str) -> Result<Vec<(String, String)>, String> {
        match path.len() {
            0 => Err("there is no such file".to_owned()),
            // Short ones: each may include all others.
            _ => Ok(vec![(path.to_owned(), self.0.chars().take(100).collect())]),
        }
    }
}

fuzz_target!(|text: &str| {
    let found = kind(text);
    for kind in found.into_iter().chain(Kind::ALL) {
        let Ok(import) = read(kind, "fuzz", text, &mut Parts(text)) else { continue };
        let rendered = import.rendered();
        assert!(rendered.text.parse::<toml::Table>().is_ok(), "{kind}: {}", rendered.text);
        assert_eq!(rendered.text.lines().count(), rendered.places.len());
    }
});
