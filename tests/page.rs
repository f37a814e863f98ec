//! The page of the admin listener in a real browser.

use crate::harness::browser::Browser;
use crate::harness::processes::is_there;
use crate::harness::{World, http, poll_until};
use std::time::Instant;

const PAGE: &str = include_str!("../crates/admin/src/page.html");

fn has_browser() -> bool {
    is_there("chromium", "--version") && is_there("chromedriver", "--version")
}

#[test]
fn the_page_is_one_small_document() {
    assert!(PAGE.len() < 150_000, "{}", PAGE.len());
    for elsewhere in ["src=", "url(", "@import", "https://"] {
        assert!(!PAGE.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn the_page_shows_load_and_a_node_that_dies() {
    if !has_browser() {
        return;
    }
    let mut world = World::with_flags(3, &["--admin=0", "--slowlog-log-slower-than=0"]);
    let (browser, mut client) = (Browser::start(), world.connect());
    browser.open(&format!("http://127.0.0.1:{}/", http::admin_port(&world.proxy)));
    let text = |selector: &str| {
        let found = browser.value(&format!("document.querySelector({selector:?})?.innerText ?? ''"));
        found.as_str().unwrap_or_default().to_owned()
    };
    poll_until("three nodes that are up", || {
        let nodes = text("#nodes tbody");
        (0..3).all(|index| nodes.contains(&world.shard_name(index))).then_some(())?;
        (text("#ready") == "3 of 3 shards up").then_some(())
    });
    poll_until("the rate of requests", || {
        for _ in 0..200 {
            client.ask("SET a 1");
        }
        (text("#commands tbody").contains("set") && text("[data-tile='requests/s']") != "0").then_some(())
    });
    poll_until("the hot key, and a slow request", || {
        for _ in 0..200 {
            client.ask("SET hot:1 1");
        }
        (text("#hot tbody").contains("hot:1") && text("#slow tbody").contains("SET hot:1 1")).then_some(())
    });
    assert_eq!(text("#alarm"), "");
    let shown = browser.value("document.querySelectorAll('#keyspace div').length");
    assert_eq!(shown, 3);

    world.nodes[1].kill();
    let died = Instant::now();
    let row = poll_until("the dead node in red", || {
        let row = text("#nodes tr.down");
        (!row.is_empty()).then_some(row)
    });
    println!("the page showed it after {:?}", died.elapsed());
    assert!(row.contains(&world.shard_name(1)), "{row}");
    poll_until("the event", || text("#events").contains("node down").then_some(()));
    assert_eq!(browser.errors(), [""; 0]);
    if let Some(path) = std::env::var_os("SHARDIS_SCREENSHOT") {
        std::fs::write(path, browser.screenshot()).expect("it can be written");
    }

    // A shardis that is gone is not shown as if it were well.
    drop(world);
    poll_until("the alarm", || text("#alarm").contains("does not answer").then_some(()));
}
