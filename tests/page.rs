//! The page of the admin listener in a real browser.

use crate::harness::browser::Browser;
use crate::harness::certificates::Directory;
use crate::harness::processes::is_there;
use crate::harness::{Proxy, World, http, poll_until};
use serde_json::Value;
use std::time::Instant;

const PAGE: &str = include_str!("../crates/admin/src/page.html");

/// The text that `selector` shows; empty if there is nothing.
fn text(browser: &Browser, selector: &str) -> String {
    let found = browser.value(&format!("document.querySelector({selector:?})?.innerText ?? ''"));
    found.as_str().unwrap_or_default().to_owned()
}

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
    let text = |selector: &str| text(&browser, selector);
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
    // Each stage of the slow request has its column, and its part of the bar.
    let stages = browser.value("document.querySelectorAll('#stages i').length");
    assert!(stages.as_u64() >= Some(2), "{stages}");
    assert_eq!(browser.value("document.querySelector('#slow .stages').children.length"), stages);
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
    assert_eq!(browser.value("document.querySelectorAll('#keyspace .lost').length"), 1);
    poll_until("the event", || text("#events").contains("node down").then_some(()));
    assert_eq!(browser.errors(), [""; 0]);
    if let Some(path) = std::env::var_os("SHARDIS_SCREENSHOT") {
        std::fs::write(path, browser.screenshot()).expect("it can be written");
    }

    // A shardis that is gone is not shown as if it were well.
    drop(world);
    poll_until("the alarm", || text("#alarm").contains("does not answer").then_some(()));
}

#[test]
fn a_page_opened_late_shows_the_time_before() {
    if !has_browser() {
        return;
    }
    let world = World::with_flags(2, &["--admin=0"]);
    let (port, mut client) = (http::admin_port(&world.proxy), world.connect());
    let samples = || -> u64 {
        let history: Value = serde_json::from_str(&http::get(port, "/history").body).expect("JSON");
        let rates = history["nodes"][0]["replies_per_s"].as_array().cloned().unwrap_or_default();
        rates.iter().filter(|rate| rate.as_f64() > Some(1.0)).count() as u64
    };
    let key = world.key_on(0, "k");
    poll_until("two samples of load", || {
        (0..100).for_each(|_| drop(client.ask(&format!("SET {key} 1"))));
        (samples() >= 2).then_some(())
    });
    let browser = Browser::start();
    browser.open(&format!("http://127.0.0.1:{port}/"));
    // The curve of the first node has a point for each of them, at once: not only that of now.
    let points = poll_until("the curve", || {
        let curve = browser.value("document.querySelector('#nodes svg path')?.getAttribute('d') ?? ''");
        let points = curve.as_str().unwrap_or_default().matches(['M', 'L']).count();
        (points >= 3).then_some(points)
    });
    assert!(points >= 3, "{points}");

    // A node's name opens its curves, by keyboard as by pointer, and they stay open when figures change.
    browser.value("document.querySelector('#nodes td button').focus()");
    browser.value("document.activeElement.click()");
    assert_eq!(browser.value("document.querySelectorAll('#nodes svg.chart').length"), 6);
    let before = text(&browser, "#uptime");
    poll_until("another state", || (text(&browser, "#uptime") != before).then_some(()));
    assert_eq!(browser.value("document.querySelectorAll('#nodes svg.chart').length"), 6);
    let focused = browser.value("document.activeElement.getAttribute('aria-expanded')");
    assert_eq!(focused, "true");

    assert_eq!(client.ask("CLIENT SETNAME tired-operator"), r"+OK\r\n");
    browser.value("document.getElementById('ask-clients').click()");
    poll_until("the client", || text(&browser, "#clients tbody").contains("tired-operator").then_some(()));
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn the_page_asks_for_the_token_and_shows_a_proxy_without_nodes() {
    if !has_browser() {
        return;
    }
    let folder = Directory::new();
    let token = format!("--admin-token-file={}", folder.write("token", "open sesame\n"));
    let proxy = Proxy::start(&["--port=0", "--admin=0", &token]);
    let browser = Browser::start();
    browser.open(&format!("http://127.0.0.1:{}/", http::admin_port(&proxy)));
    let is_asked = || browser.value("document.getElementById('login').hidden") == false;
    poll_until("the question", || is_asked().then_some(()));
    assert!(text(&browser, "#alarm").contains("the token is missing or wrong"));
    browser.value("document.getElementById('token').value = 'open sesame'");
    browser.value("document.getElementById('login').requestSubmit()");
    poll_until("the state", || text(&browser, "#version").contains("0.").then_some(()));
    assert!(!is_asked());
    assert_eq!(text(&browser, "#alarm"), "");
    assert!(text(&browser, "#slow tbody").contains("none above the threshold"));
}
