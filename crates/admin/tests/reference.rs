//! docs/metrics.md agrees with the table.

use std::path::Path;

#[test]
fn the_page_about_metrics_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = admin::metrics_reference();
    if std::env::var_os("SHARDIS_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).expect("docs/ can be written to");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/metrics.md is stale; write it anew with\n    SHARDIS_BLESS=1 cargo test -p admin --test reference"
    );
}
