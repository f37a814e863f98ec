//! docs/import.md agrees with the tables of options.

use std::path::Path;

#[test]
fn the_tables_of_the_page_are_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/import.md");
    let stored = std::fs::read_to_string(&path).expect("the page is there");
    let (written, _) = stored.split_once(import::REFERENCE_BEGIN).unwrap_or((&stored, ""));
    let page = format!("{written}{}", import::reference());
    if std::env::var_os("SHARDIS_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).expect("docs/ can be written to");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/import.md is stale; write it anew with\n    SHARDIS_BLESS=1 cargo test -p import --test reference"
    );
}
