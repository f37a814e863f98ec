//! Transcripts of WAIT: replicas that have a client's writes. `|` stands for CR LF.

use crate::testing::{Rig, even};
use crate::{ConnId, Event};
use std::time::Duration;

const CLIENT_ID: &str = "*2|$6|CLIENT|$2|ID|";
const ABOUT_WAITAOF: &str = "*3|$7|COMMAND|$4|INFO|$7|WAITAOF|";
/// The replies of Redis 7.0 to the question and the mark.
const OLD: &str = "*1|*-1|+OK|";
/// The replies of Redis 7.2.
const NEW: &str = "*1|*1|$7|waitaof|+OK|";
const WAIT: &str = "*3|$4|wait|$1|2|$3|100|";
/// The error for waiting clients of a node that becomes a replica.
const DEMOTED: &str =
    "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)|";

/// The request that makes a link count as one that has written.
fn mark() -> String {
    String::from_utf8_lossy(crate::held::acknowledged::MARK).replace("\r\n", "|")
}

/// The first requests on a link, with `wait`.
fn first(wait: &str) -> String {
    format!("{CLIENT_ID}{ABOUT_WAITAOF}{}{wait}", mark())
}

fn unblock(number: u32) -> String {
    format!("*4|$6|CLIENT|$7|UNBLOCK|$2|{number}|$7|TIMEOUT|")
}

/// A client that waits for replicas of two shards, whose nodes number its links 70 and 71.
struct Scene {
    rig: Rig,
    client: ConnId,
    held: [ConnId; 2],
}

impl Scene {
    fn waiting(mut rig: Rig) -> Scene {
        let client = rig.client();
        rig.client_sends(client, "wait 2 100|ping|");
        let held = [0, 1].map(|shard| rig.bring_up_pinned(shard));
        let mut scene = Scene { rig, client, held };
        scene.are_asked(&first(WAIT), OLD);
        scene
    }

    /// Checks the requests of both links, and answers all but the wait itself.
    fn are_asked(&mut self, asked: &str, replies: &str) {
        for (conn, number) in self.held.into_iter().zip([70, 71]) {
            assert_eq!(self.rig.taken(conn), asked);
            self.rig.sends(conn, &format!(":{number}|{replies}"));
        }
    }

    fn says(&mut self, shard: usize, reply: &str) {
        self.rig.sends(self.held[shard], reply);
    }

    fn answered(&mut self) -> String {
        self.rig.taken(self.client)
    }
}

#[test]
fn wait_returns_the_least_of_all_shards() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.says(0, ":2|");
    assert_eq!((scene.answered().as_str(), scene.rig.node_got(1).as_str()), ("", ""), "nobody is let go");
    scene.says(1, ":1|");
    assert_eq!(scene.answered(), ":1|+PONG|");
    assert_eq!((scene.rig.proxy.pending().conns_held, scene.rig.proxy.held_bytes()), (0, 0));
    // The next client gets the links.
    scene.rig.client_sends(scene.client, "wait 2 100|");
    scene.are_asked(&format!("{CLIENT_ID}{WAIT}"), "");
    scene.says(1, ":2|");
    scene.says(0, ":3|");
    assert_eq!(scene.answered(), ":2|");
}

#[test]
fn wait_follows_all_earlier_replies() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "set a 1|wait 2 100|set a 2|");
    assert!(rig.node_got(0).starts_with("*3|$3|set|"));
    assert_eq!(rig.last_pinned(), None, "what is in flight would not be counted");
    rig.node_sends(0, "+OK|");
    let held = rig.bring_up_pinned(0);
    assert_eq!((rig.taken(held), rig.node_got(0)), (first(WAIT), String::new()));
    rig.sends(held, &format!(":70|{OLD}:1|"));
    assert_eq!(rig.taken(client), "+OK|:1|");
    assert!(rig.node_got(0).starts_with("*3|$3|set|"));
}

#[test]
fn an_error_of_the_nodes_is_the_reply() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.says(0, "-ERR timeout is negative|");
    scene.says(1, "-ERR timeout is negative|");
    assert_eq!(scene.answered(), "-ERR timeout is negative|+PONG|");
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.says(0, "+OK|");
    scene.says(1, ":1|");
    assert_eq!(scene.answered(), "-ERR nodes return different results|+PONG|");
}

#[test]
fn wait_is_shown_and_unblocked_on_all_shards() {
    for (reason, sent, said, answered) in [
        ("", "$7|TIMEOUT|", ":1|", ":0|+PONG|"),
        (" error", "$5|ERROR|", "-UNBLOCKED by x|", "-UNBLOCKED by x|+PONG|"),
    ] {
        let mut scene = Scene::waiting(Rig::ready(2));
        let other = scene.rig.client();
        scene.rig.client_sends(other, "client list id 1|");
        assert!(scene.rig.taken(other).contains("flags=b"));
        scene.rig.client_sends(other, &format!("client unblock 1{reason}|"));
        assert_eq!(scene.rig.node_got(0), format!("*4|$6|CLIENT|$7|UNBLOCK|$2|70|{sent}"));
        scene.says(0, said);
        scene.rig.node_sends(0, ":1|");
        assert_eq!(scene.rig.taken(other), ":1|");
        assert_eq!((scene.answered().as_str(), scene.rig.node_got(1)), ("", unblock(71)));
        scene.says(1, ":0|");
        assert_eq!(scene.answered(), answered);
        assert!(scene.rig.is_closed(scene.held[0]) && !scene.rig.is_closed(scene.held[1]));
    }
}

#[test]
fn draining_ends_a_wait_for_replicas() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.rig.proxy.drain(scene.rig.now);
    scene.rig.perform();
    scene.says(0, ":1|");
    scene.says(1, ":0|");
    assert_eq!(scene.answered(), ":0|+PONG|");
    assert!(scene.rig.is_closed(scene.client) && scene.rig.proxy.is_drained());
}

#[test]
fn client_leaving_during_wait_closes_its_links() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.rig.event(Event::Closed { conn: scene.client, reason: "gone" });
    assert!(scene.held.iter().all(|conn| scene.rig.is_closed(*conn)));
    assert_eq!((scene.rig.proxy.pending().conns_held, scene.rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn with_a_shard_down_wait_fails_at_once() {
    let mut rig = Rig::ready(2);
    let conn = rig.node(1);
    rig.event(Event::Ended { conn });
    rig.pass(Duration::from_millis(1));
    let client = rig.client();
    rig.client_sends(client, "wait 1 0|");
    assert!(rig.taken(client).starts_with("-TRYAGAIN shard 127.0.0.1:7001 unavailable: "));
    assert_eq!((rig.node_got(0).as_str(), rig.proxy.pending().conns_held), ("", 0));
}

#[test]
fn wait_fails_if_a_shard_is_lost_meanwhile() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.rig.event(Event::Ended { conn: scene.held[1] });
    assert_eq!(scene.rig.node_got(0), unblock(70));
    scene.says(0, ":2|");
    assert_eq!(scene.answered(), "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7001)|+PONG|");
    scene.rig.node_sends(0, ":1|");
    assert_eq!(scene.rig.proxy.pending().conns_held, 0);
    // The same if one shard hangs while all waits are ended.
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.says(0, "-ERR no|");
    scene.rig.pass(Duration::from_millis(100));
    assert_eq!(scene.answered(), "-ERR no|+PONG|");
    assert!(scene.rig.is_closed(scene.held[1]));
}

#[test]
fn a_shard_that_unblocks_slowly_still_counts() {
    let mut scene = Scene::waiting(Rig::ready(2));
    // Another client unblocks the first one, on its first link.
    let other = scene.rig.client();
    scene.rig.client_sends(other, "client unblock 1|");
    assert_eq!(scene.rig.node_got(0), unblock(70));
    scene.rig.node_sends(0, ":1|");
    scene.says(0, ":2|");
    assert_eq!(scene.rig.node_got(1), unblock(71));
    scene.rig.pass(Duration::from_millis(999));
    assert_eq!(scene.answered(), "");
    scene.rig.node_sends(1, ":1|");
    scene.says(1, ":1|");
    assert_eq!(scene.answered(), ":1|+PONG|");
}

/// Checks that a client's first WAIT is refused and the second is not.
#[track_caller]
fn assert_told_once(rig: &mut Rig, client: ConnId, node: u32) {
    rig.client_sends(client, "wait 2 100|wait 2 100|");
    assert!(rig.taken(client).starts_with("-ERR a primary, or the connection to it, was lost since"));
    let held = rig.bring_up_pinned(node);
    assert_eq!(rig.taken(held), first(WAIT));
    rig.sends(held, &format!(":70|{OLD}:1|"));
    assert_eq!(rig.taken(client), ":1|");
    // A client that came later has lost nothing.
    let other = rig.client();
    rig.client_sends(other, "wait 2 100|");
    assert_eq!(rig.taken(held), format!("{CLIENT_ID}{WAIT}"));
}

#[test]
fn wait_fails_once_after_the_loss_of_a_primary() {
    let mut rig = Rig::ready(1);
    let (client, conn) = (rig.client(), rig.node(0));
    rig.pass(Duration::from_secs(2));
    rig.event(Event::Ended { conn });
    rig.pass(Duration::from_millis(1));
    rig.bring_up(0);
    assert_told_once(&mut rig, client, 0);
}

#[test]
fn wait_fails_once_after_a_failover() {
    let mut rig = Rig::ready(1);
    rig.promote(0, 1);
    rig.bring_up(1);
    let client = rig.client();
    rig.promote(0, 2);
    rig.pass(Duration::from_millis(1));
    rig.bring_up(2);
    assert_told_once(&mut rig, client, 2);
}

#[test]
fn a_primary_that_has_given_its_slots_away_is_not_lost() {
    for (heir, is_lost) in [(0, false), (2, true)] {
        let mut rig = Rig::cluster(2);
        let client = rig.client();
        let mut map = even(2);
        let given = map.pop().expect("two shards").1;
        match heir {
            0 => map[0].1.extend(given),
            _ => map.push((heir, given)),
        }
        rig.remap(&map);
        rig.client_sends(client, "wait 2 100|");
        assert_eq!(rig.taken(client).starts_with("-ERR a primary"), is_lost, "{heir}");
    }
}

#[test]
fn a_declined_wait_is_not_sent_to_another_node() {
    let mut scene = Scene::waiting(Rig::cluster(2));
    scene.says(0, DEMOTED);
    scene.says(1, ":2|");
    assert_eq!(scene.answered(), format!("{DEMOTED}+PONG|"));
    assert_eq!((scene.rig.proxy.pending().requests_parked, scene.rig.proxy.pending().conns_held), (0, 1));
    assert!(scene.rig.proxy.poll_wish(scene.rig.now).is_some());
}

#[test]
fn waitaof_is_carried_where_nodes_have_it() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    rig.client_sends(client, "waitaof 1 1 100|");
    assert_eq!(rig.node_got(0), "*3|$7|COMMAND|$4|INFO|$7|waitaof|");
    // The description of Redis 7.2.
    let tips = "*2|$25|request_policy:all_shards|$23|response_policy:agg_min|";
    let facts =
        format!("*1|*10|$7|waitaof|:4|*1|+blocking|:0|:0|:0|*3|+@slow|+@blocking|+@connection|{tips}*0|*0|");
    rig.node_sends(0, &facts);
    let held = [0, 1].map(|shard| rig.bring_up_pinned(shard));
    for (conn, reply) in held.into_iter().zip(["*2|:1|:2|", "*2|:0|:3|"]) {
        assert_eq!(rig.taken(conn), first("*4|$7|waitaof|$1|1|$1|1|$3|100|"));
        rig.sends(conn, &format!(":70|{NEW}{reply}"));
    }
    assert_eq!(rig.taken(client), "*2|:0|:2|");
}

#[test]
fn a_connection_to_a_newer_node_is_marked_each_time() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "wait 2 100|");
    let held = rig.bring_up_pinned(0);
    assert_eq!(rig.taken(held), first(WAIT));
    rig.sends(held, &format!(":70|{NEW}:1|"));
    rig.client_sends(client, "wait 2 100|");
    assert_eq!(rig.taken(held), format!("{CLIENT_ID}{}{WAIT}", mark()));
    rig.sends(held, ":70|+OK|:2|");
    assert_eq!((rig.taken(client).as_str(), rig.proxy.pending().conns_held), (":1|:2|", 0));
}

#[test]
fn a_number_that_may_be_too_large_is_not_returned() {
    let refused = "-OOM command not allowed when used memory > 'maxmemory'.|";
    for (about, is_told) in [("*1|*1|$7|waitaof|", true), ("-NOPERM no|", true), ("*1|*-1|", false)] {
        let mut rig = Rig::ready(1);
        let client = rig.client();
        rig.client_sends(client, "wait 1 100|");
        let held = rig.bring_up_pinned(0);
        rig.sends(held, &format!(":70|{about}{refused}:1|"));
        let error = refused.trim_matches(['-', '|']);
        let told = format!(
            "-ERR WAIT cannot read the replication offset of a node, since FUNCTION RESTORE failed there: {error}|"
        );
        assert_eq!(rig.taken(client), if is_told { told } else { ":1|".to_owned() }, "{about}");
    }
}

#[test]
fn wait_does_not_wait_in_a_transaction() {
    let mut rig = Rig::ready(2);
    let (client, key) = (rig.client(), rig.key(1));
    rig.client_sends(client, &format!("multi|set {key} v|wait 1 0|exec|"));
    assert!(rig.node_got(1).ends_with("*3|$4|wait|$1|1|$1|0|*1|$4|EXEC|"));
    rig.node_sends(1, "+OK|+QUEUED|+QUEUED|*2|+OK|:1|");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|*2|+OK|:1|");
}
