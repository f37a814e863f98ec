//! Requests pass the functions that the walks of ARCHITECTURE.md name, in that order, and no other function that a
//! walk could name.

use super::large::small_client;
use super::redirect::{moved, request, slot_of};
use crate::EngineLimits;
use crate::testing::Rig;
use crate::walk;
use crate::{ConnId, Limits};

const ARCHITECTURE: &str = include_str!("../../../../ARCHITECTURE.md");

/// The functions of this crate and of the engine in the table below the heading `## The walk of {title}`.
fn walk_of(title: &str) -> Vec<&'static str> {
    let heading = format!("## The walk of {title}\n");
    let (_, rest) = ARCHITECTURE.split_once(&heading).expect("there is this heading");
    let table = rest.split("\n## ").next().unwrap_or_default();
    let cells = table.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let is_ours = |file: &str| file.starts_with("crates/proxy/") || file.starts_with("crates/engine/");
    let ours = cells.filter(|cells| cells.len() > 4 && is_ours(cells[2]));
    ours.map(|cells| cells[3]).collect()
}

/// A client whose last replies were small, and that has sent a GET.
fn warm(shards: usize, limits: Limits) -> (Rig, ConnId) {
    let mut rig = Rig::ready_with(shards, limits);
    let client = small_client(&mut rig);
    // The second request takes the usual way: the prefix of the first is cached.
    let key = rig.key(0);
    rig.client_sends(client, &request(&format!("get {key}")));
    rig.node_got(0);
    rig.node_sends(0, "$1|1|");
    rig.taken(client);
    (rig, client)
}

#[test]
fn a_get_goes_the_way_that_is_drawn() {
    let (mut rig, client) = warm(1, Limits::default());
    let walked = walk::record(|| {
        rig.client_sends(client, "*2|$3|get|$1|k|");
        rig.node_sends(0, "$1|1|");
    });
    assert_eq!(rig.taken(client), "$1|1|");
    assert_eq!(walked, walk_of("`GET user:1`"));
}

#[test]
fn an_mset_goes_the_way_that_is_drawn() {
    let (mut rig, client) = warm(2, Limits::default());
    let (a, b) = (rig.key(0), rig.key(1));
    let walked = walk::record(|| {
        rig.client_sends(client, &request(&format!("mset {a} 1 {b} 2")));
        rig.node_sends(0, "+OK|");
        rig.node_sends(1, "+OK|");
    });
    assert_eq!(rig.taken(client), "+OK|");
    assert_eq!(walked, walk_of("`MSET a 1 b 2` over two shards"));
}

#[test]
fn a_get_that_moved_goes_the_way_that_is_drawn() {
    let mut rig = Rig::cluster(2);
    let client = rig.client();
    let key = rig.key(0);
    let get = request(&format!("get {key}"));
    for _ in 0..80 {
        rig.client_sends(client, &get);
        rig.node_sends(0, "$1|1|");
    }
    rig.taken(client);
    let slot = slot_of(&rig, &key);
    let walked = walk::record(|| {
        rig.client_sends(client, &get);
        rig.node_sends(0, &moved(slot, 1));
        rig.node_sends(1, "$1|1|");
    });
    assert_eq!(rig.taken(client), "$1|1|");
    assert_eq!(walked, walk_of("a `GET` that has moved"));
}

#[test]
fn a_large_get_goes_the_way_that_is_drawn() {
    let (mut rig, client) = warm(
        1,
        Limits {
            engine: EngineLimits { large_bytes: 100, relay_bytes_max: 150, ..EngineLimits::default() },
            ..Limits::default()
        },
    );
    let walked = walk::record(|| {
        rig.client_sends(client, "*2|$3|get|$1|k|");
        rig.node_sends(0, &format!("$200|{}", "0".repeat(50)));
        let conn = rig.pinned_now();
        rig.node_sends(0, &format!("{}|", "0".repeat(150)));
        rig.sends(conn, &format!("$200|{}", "1".repeat(50)));
        rig.sends(conn, &format!("{}|", "1".repeat(150)));
    });
    assert_eq!(rig.taken(client), format!("$200|{}|", "1".repeat(200)));
    assert_eq!(walked, walk_of("a large `GET`"));
}
