//! Transcripts of XREAD over several shards. `|` stands for CR LF.

use crate::cross_slot::remedy::Remedy;
use crate::link::profile::Profile;
use crate::testing::{Rig, crossed};
use crate::{ConnId, Event, Limits};
use std::time::Duration;

const CLIENT_ID: &str = "*2|$6|CLIENT|$2|ID|";
/// The stream `key` with an entry, as a part of the reply to XREAD.
fn entry(key: &str) -> String {
    format!("*2|${}|{key}|*1|*2|$3|1-1|*2|$1|f|$1|v|", key.len())
}

fn unblock(number: u32) -> String {
    format!("*4|$6|CLIENT|$7|UNBLOCK|$2|{number}|$7|TIMEOUT|")
}

/// A client that waits for entries of the keys of two shards, whose nodes number its links 70 and 71.
struct Scene {
    rig: Rig,
    client: ConnId,
    keys: [String; 2],
    held: [ConnId; 2],
}

impl Scene {
    fn waiting(rig: Rig) -> Scene {
        let mut scene = Scene::unseen(rig);
        scene.are_seen();
        scene
    }

    /// The scene before the nodes have numbered the links.
    fn unseen(mut rig: Rig) -> Scene {
        let client = rig.client();
        let keys = [rig.key(0), rig.key(1)];
        let [a, b] = &keys;
        rig.client_sends(client, &format!("xread block 0 streams {a} {b} $ 5|"));
        let held = [0, 1].map(|shard| rig.bring_up_pinned(shard));
        let mut scene = Scene { rig, client, keys, held };
        scene.are_asked();
        scene
    }

    /// Checks that each node got the read of its own stream.
    fn are_asked(&mut self) {
        for (shard, id) in [(0, "$"), (1, "5")] {
            let key = &self.keys[shard];
            let asked = format!("*6|$5|xread|$5|block|$1|0|$7|streams|${}|{key}|$1|{id}|", key.len());
            assert_eq!(self.rig.taken(self.held[shard]), format!("{CLIENT_ID}{asked}"));
        }
    }

    fn are_seen(&mut self) {
        self.rig.sends(self.held[0], ":70|");
        self.rig.sends(self.held[1], ":71|");
    }

    /// Lets the node of `shard` return an entry.
    fn has(&mut self, shard: usize) -> String {
        let entry = entry(&self.keys[shard]);
        self.rig.sends(self.held[shard], &format!("*1|{entry}"));
        entry
    }

    fn answered(&mut self) -> String {
        self.rig.taken(self.client)
    }
}

#[test]
fn xread_over_shards_keeps_the_order_of_keys() {
    let mut rig = Rig::ready(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("xread count 2 streams {b} {a} {b} 0 + $|ping|"));
    let asked =
        |keys: &str, ids: &str, words| format!("*{words}|$5|xread|$5|count|$1|2|$7|streams|{keys}{ids}");
    let bulk = |text: &str| format!("${}|{text}|", text.len());
    assert_eq!(rig.node_got(0), asked(&bulk(&a), &bulk("+"), 6));
    assert_eq!(rig.node_got(1), asked(&format!("{}{}", bulk(&b), bulk(&b)), "$1|0|$1|$|", 8));
    rig.node_sends(0, &format!("*1|{}", entry(&a)));
    assert_eq!(rig.taken(client), "");
    rig.node_sends(1, &format!("*1|{}", entry(&b)));
    assert_eq!(rig.taken(client), format!("*2|{}{}+PONG|", entry(&b), entry(&a)));
    rig.client_sends(client, &format!("xread streams {a} {b} $ $|"));
    rig.node_sends(0, "*-1|");
    rig.node_sends(1, "*-1|");
    assert_eq!(rig.taken(client), "*-1|");
}

#[test]
fn an_error_of_one_shard_is_the_reply() {
    let mut rig = Rig::ready(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("xread streams {a} {b} 0 x|"));
    rig.node_sends(0, &format!("*1|{}", entry(&a)));
    rig.node_sends(1, "-ERR Invalid stream ID specified as stream command argument|");
    assert_eq!(rig.taken(client), "-ERR Invalid stream ID specified as stream command argument|");
}

#[test]
fn a_read_without_an_id_for_each_key_is_refused_by_one_node() {
    let mut rig = Rig::ready(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("xread streams {a} {b} 0 0 0|"));
    assert!(rig.node_got(0).starts_with("*7|$5|xread|"));
    assert_eq!(rig.node_got(1), "");
    rig.client_sends(client, &format!("xread block 0 streams {a} {b} 0 0 0|"));
    rig.node_sends(0, "-ERR Unbalanced|");
    let held = rig.pinned_now();
    assert!(rig.taken(held).starts_with(&format!("{CLIENT_ID}*9|$5|xread|")));
}

#[test]
fn in_a_transaction_streams_are_on_one_shard() {
    let mut rig = Rig::ready(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|xread streams {a} {b} 0 0|"));
    assert_eq!(rig.taken(client), format!("+OK|{}", crossed(Remedy::HashTag)));
}

#[test]
fn blocking_read_over_shards_ends_with_first_entry() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.rig.client_sends(scene.client, "ping|");
    let entry = scene.has(1);
    assert_eq!(scene.rig.node_got(0), unblock(70));
    assert_eq!((scene.answered().as_str(), scene.rig.node_got(1).as_str()), ("", ""));
    scene.rig.sends(scene.held[0], "*-1|");
    assert_eq!(scene.answered(), format!("*1|{entry}+PONG|"));
    // The next client gets both links, one of them when its CLIENT UNBLOCK is answered.
    scene.rig.node_sends(0, ":1|");
    let [a, b] = scene.keys.clone();
    scene.rig.client_sends(scene.client, &format!("xread block 0 streams {a} {b} $ 5|"));
    scene.are_asked();
    assert!(scene.held.iter().all(|conn| !scene.rig.is_closed(*conn)));
    // The time limit for other shards is over.
    scene.rig.pass(Duration::from_millis(900));
    assert_eq!(scene.answered(), "");
    // The links' numbers are known from before. But CLIENT UNBLOCK is sent only when the node has the read.
    scene.rig.sends(scene.held[1], &format!(":71|*1|{entry}"));
    assert_eq!(scene.rig.node_got(0), "");
    scene.rig.sends(scene.held[0], ":70|");
    assert_eq!(scene.rig.node_got(0), unblock(70));
    scene.rig.sends(scene.held[0], "*-1|");
    scene.rig.node_sends(0, ":1|");
    assert_eq!(scene.answered(), format!("*1|{entry}"));
    assert_eq!(scene.rig.proxy.pending().conns_held, 0);
}

#[test]
fn the_time_limit_of_an_unblocked_link_ends_with_its_wait() {
    let mut scene = Scene::waiting(Rig::ready(2));
    let entry = scene.has(1);
    scene.rig.sends(scene.held[0], "*-1|");
    scene.rig.node_sends(0, ":1|");
    assert_eq!(scene.answered(), format!("*1|{entry}"));
    let (mut rig, key, idle) = (scene.rig, &scene.keys[0], scene.held[0]);
    let [client, other, fresh] = [(); 3].map(|()| rig.client());
    rig.client_sends(client, &format!("get {key}|"));
    rig.client_sends(other, &format!("get {key}|"));
    // The idle link takes the place of the shared one, on which a large reply begins.
    rig.node_sends(0, "$2000000|0123456789");
    rig.pass(Duration::from_millis(200));
    rig.client_sends(fresh, &format!("get {key}|"));
    assert_eq!(rig.taken(idle), format!("*2|$3|get|${}|{key}|", key.len()));
    rig.pass(Duration::from_millis(900));
    assert_eq!(rig.taken(fresh), "");
    rig.sends(idle, "$1|v|");
    assert_eq!(rig.taken(fresh), "$1|v|");
}

#[test]
fn entries_that_come_during_the_unblock_are_not_lost() {
    let mut scene = Scene::waiting(Rig::ready(2));
    let second = scene.has(1);
    let first = scene.has(0);
    assert_eq!(scene.answered(), format!("*2|{first}{second}"));
    // CLIENT UNBLOCK comes late, and must not meet another client.
    let (other, key) = (scene.rig.client(), scene.keys[0].clone());
    scene.rig.client_sends(other, &format!("blpop {key} 0|"));
    assert!(!scene.rig.has_sent(scene.held[0]));
    scene.rig.node_sends(0, ":0|");
    scene.rig.event(Event::Closed { conn: other, reason: "gone" });
    assert_eq!(scene.rig.proxy.pending().conns_held, 0);
}

#[test]
fn present_entries_of_all_shards_make_one_reply() {
    let mut scene = Scene::unseen(Rig::ready(2));
    // The other node has not even been numbered.
    let (first, second) = (entry(&scene.keys[0]), entry(&scene.keys[1]));
    scene.rig.sends(scene.held[0], &format!(":70|*1|{first}"));
    assert_eq!(scene.answered(), "");
    scene.rig.sends(scene.held[1], &format!(":71|*1|{second}"));
    assert_eq!(scene.answered(), format!("*2|{first}{second}"));
    assert_eq!(scene.rig.node_got(1), unblock(71));
}

#[test]
fn a_timeout_is_null_in_either_protocol() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.rig.sends(scene.held[1], "*-1|");
    assert_eq!((scene.answered().as_str(), scene.rig.node_got(0).as_str()), ("", ""));
    scene.rig.sends(scene.held[0], "*-1|");
    assert_eq!(scene.answered(), "*-1|");
    assert_eq!(scene.rig.proxy.pending().conns_held, 0);

    let mut rig = Rig::ready(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.change_profile(client, Profile { resp3: true, ..Profile::default() });
    rig.client_sends(client, &format!("xread block 0 streams {a} {b} 0 0|"));
    let greeting = "*2|$5|HELLO|$1|3|*1|$4|PING|";
    let held = [0, 1].map(|shard| rig.bring_up_greeted(shard, greeting, "%0|+PONG|"));
    held.iter().for_each(|conn| rig.sends(*conn, ":70|_|"));
    assert_eq!(rig.taken(client), "_|");
    rig.client_sends(client, &format!("xread block 0 streams {a} {b} 0 0|"));
    for (conn, key) in held.iter().zip([&a, &b]) {
        rig.sends(*conn, &format!(":70|%1|${}|{key}|*0|", key.len()));
    }
    assert_eq!(rig.taken(client), format!("%2|${}|{a}|*0|${}|{b}|*0|", a.len(), b.len()));
}

#[test]
fn a_wait_over_shards_is_reported_once_all_nodes_have_it() {
    let mut scene = Scene::unseen(Rig::ready(2));
    let other = scene.rig.client();
    let is_seen = |rig: &mut Rig| {
        rig.client_sends(other, "client list id 1|");
        rig.taken(other).contains("flags=b")
    };
    scene.rig.sends(scene.held[0], ":70|");
    assert!(!is_seen(&mut scene.rig));
    scene.rig.sends(scene.held[1], ":71|");
    assert!(is_seen(&mut scene.rig));
    scene.rig.sends(scene.held[0], "*-1|");
    scene.rig.sends(scene.held[1], "*-1|");
    assert!(!is_seen(&mut scene.rig));
}

#[test]
fn client_leaving_a_scattered_wait_closes_all_its_links() {
    for half_closed in [true, false] {
        let mut scene = Scene::waiting(Rig::ready(2));
        match half_closed {
            true => scene.rig.event(Event::Ended { conn: scene.client }),
            false => scene.rig.event(Event::Closed { conn: scene.client, reason: "gone" }),
        }
        assert!(scene.held.iter().all(|conn| scene.rig.is_closed(*conn)));
        assert_eq!((scene.rig.proxy.pending().conns_held, scene.rig.proxy.held_bytes()), (0, 0));
    }
}

#[test]
fn client_leaving_after_one_shard_ended_closes_no_other_link() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.rig.sends(scene.held[0], "*-1|");
    let (other, key) = (scene.rig.client(), scene.keys[0].clone());
    scene.rig.client_sends(other, &format!("blpop {key} 0|"));
    assert!(scene.rig.has_sent(scene.held[0]), "it is the next one's");
    scene.rig.event(Event::Closed { conn: scene.client, reason: "gone" });
    assert!(scene.rig.is_closed(scene.held[1]) && !scene.rig.is_closed(scene.held[0]));
    assert_eq!(scene.rig.proxy.pending().conns_held, 1);
}

#[test]
fn a_wait_over_shards_is_unblocked_on_all() {
    for (reason, sent, said, answered) in
        [("", "$7|TIMEOUT|", "*-1|", "*-1|"), (" error", "$5|ERROR|", "-UNBLOCKED by x|", "-UNBLOCKED by x|")]
    {
        let mut scene = Scene::waiting(Rig::ready(2));
        let other = scene.rig.client();
        scene.rig.client_sends(other, &format!("client unblock 1{reason}|"));
        assert_eq!(scene.rig.node_got(0), format!("*4|$6|CLIENT|$7|UNBLOCK|$2|70|{sent}"));
        scene.rig.sends(scene.held[0], said);
        scene.rig.node_sends(0, ":1|");
        assert_eq!(scene.rig.taken(other), ":1|");
        assert_eq!((scene.answered().as_str(), scene.rig.node_got(1)), ("", unblock(71)));
        scene.rig.sends(scene.held[1], "*-1|");
        assert_eq!(scene.answered(), answered);
        assert!(scene.rig.is_closed(scene.held[0]) && !scene.rig.is_closed(scene.held[1]));
    }
}

#[test]
fn draining_ends_a_read_over_shards() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.rig.proxy.drain(scene.rig.now);
    scene.rig.perform();
    assert_eq!(scene.rig.node_got(0), unblock(70));
    scene.rig.sends(scene.held[0], "*-1|");
    assert_eq!(scene.rig.node_got(1), unblock(71));
    scene.rig.sends(scene.held[1], "*-1|");
    assert_eq!(scene.answered(), "*-1|");
    assert!(scene.rig.is_closed(scene.client) && scene.rig.proxy.is_drained());
}

#[test]
fn with_a_shard_down_a_fan_fails_at_once() {
    let mut rig = Rig::ready(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    let conn = rig.node(1);
    rig.event(Event::Ended { conn });
    for line in ["xread", "xread block 0"] {
        rig.client_sends(client, &format!("{line} streams {a} {b} 0 0|"));
        assert!(rig.taken(client).starts_with("-TRYAGAIN shard 127.0.0.1:7001 unavailable: "), "{line}");
    }
    assert_eq!((rig.node_got(0).as_str(), rig.proxy.pending().conns_held), ("", 0));
}

#[test]
fn shard_lost_during_a_scattered_wait_is_tryagain() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.rig.event(Event::Ended { conn: scene.held[1] });
    assert_eq!(scene.rig.node_got(0), unblock(70));
    scene.rig.sends(scene.held[0], "*-1|");
    assert_eq!(scene.answered(), "-TRYAGAIN shard 127.0.0.1:7001 unavailable: connection lost|");
    scene.rig.node_sends(0, ":1|");
    assert_eq!(scene.rig.proxy.pending().conns_held, 0);
}

#[test]
fn entries_are_returned_though_another_shard_is_lost() {
    let mut scene = Scene::waiting(Rig::ready(2));
    let entry = scene.has(0);
    scene.rig.event(Event::Ended { conn: scene.held[1] });
    assert_eq!(scene.answered(), format!("*1|{entry}"));
}

#[test]
fn a_shard_that_hangs_delays_others_entries_only_briefly() {
    let mut scene = Scene::waiting(Rig::ready(2));
    let entry = scene.has(0);
    scene.rig.pass(Duration::from_millis(99));
    assert_eq!(scene.answered(), "");
    scene.rig.pass(Duration::from_millis(1));
    assert_eq!(scene.answered(), format!("*1|{entry}"));
    assert!(scene.rig.is_closed(scene.held[1]));
    assert_eq!(scene.rig.proxy.pending().conns_held, 0);
}

#[test]
fn unfinished_connect_does_not_prolong_a_wait() {
    let mut rig = Rig::ready(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("xread block 0 streams {a} {b} 0 0|"));
    let held = rig.bring_up_pinned(0);
    rig.sends(held, &format!(":70|*1|{}", entry(&a)));
    rig.pass(Duration::from_millis(100));
    assert_eq!(rig.taken(client), format!("*1|{}", entry(&a)));
    assert_eq!(rig.proxy.pending().conns_held, 0);
}

#[test]
fn a_wait_that_no_node_can_answer_ends_at_once() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.rig.sends(scene.held[0], "-WRONGTYPE Operation against a key holding the wrong kind of value|");
    assert_eq!(scene.rig.node_got(1), unblock(71));
    let entry = entry(&scene.keys[1]);
    scene.rig.sends(scene.held[1], &format!("*1|{entry}"));
    assert_eq!(scene.answered(), "-WRONGTYPE Operation against a key holding the wrong kind of value|");
}

#[test]
fn a_fan_without_a_link_to_each_shard_gets_none() {
    let mut rig = Rig::ready_with(2, Limits { held_conns_max: 1, ..Limits::default() });
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("xread block 0 streams {a} {b} 0 0|ping|"));
    let refusal = "too many clients hold a link of their own";
    assert_eq!(rig.taken(client), format!("-TRYAGAIN shard 127.0.0.1:7001 unavailable: {refusal}|+PONG|"));
    assert_eq!(rig.proxy.pending().conns_held, 0);
}

#[test]
fn link_lost_before_its_unblock_reply_harms_no_client() {
    let mut scene = Scene::waiting(Rig::ready(2));
    scene.has(1);
    scene.rig.sends(scene.held[0], "*-1|");
    // The shared link is lost with the reply. So nobody knows whether CLIENT UNBLOCK is still to come.
    let conn = scene.rig.node(0);
    scene.rig.event(Event::Ended { conn });
    assert!(scene.rig.is_closed(scene.held[0]));
    assert_eq!(scene.rig.proxy.pending().conns_held, 0);
}

/// A client of a cluster that waits for entries of the keys of two shards, whose nodes number its links 70 and 71.
fn in_cluster() -> (Scene, String) {
    let scene = Scene::waiting(Rig::cluster(2));
    let slot = scene.rig.proxy.core.cx.engine.topology.division_of(scene.keys[0].as_bytes()).0;
    (scene, format!("{slot} 127.0.0.1:7001|"))
}

/// The request of shard 0's part, wherever it goes.
fn first_part(scene: &Scene) -> String {
    let key = &scene.keys[0];
    format!("*6|$5|xread|$5|block|$1|0|$7|streams|${}|{key}|$1|$|", key.len())
}

#[test]
fn a_part_that_is_declined_waits_where_its_slot_is() {
    for (declined, asking) in [("-MOVED", ""), ("-ASK", "*1|$6|ASKING|")] {
        let (mut scene, there) = in_cluster();
        scene.rig.sends(scene.held[0], &format!("{declined} {there}"));
        let moved = scene.rig.bring_up_pinned(1);
        let part = first_part(&scene);
        assert_eq!(scene.rig.taken(moved), format!("{CLIENT_ID}{asking}{part}"));
        scene.rig.sends(moved, if asking.is_empty() { ":72|" } else { ":72|+OK|" });
        assert_eq!((scene.answered().as_str(), scene.rig.proxy.pending().conns_held), ("", 2));
        // An entry at the other shard ends the part's wait as usual.
        let entry = scene.has(1);
        assert_eq!(scene.rig.node_got(1), unblock(72));
        scene.rig.sends(moved, "*-1|");
        assert_eq!(scene.answered(), format!("*1|{entry}"));
        scene.rig.node_sends(1, ":1|");
        assert_eq!((scene.rig.proxy.pending().conns_held, scene.rig.proxy.held_bytes()), (0, 0));
    }
}

#[test]
fn a_part_whose_keys_cannot_be_had_now_is_tried_again() {
    let (mut scene, _) = in_cluster();
    scene.rig.sends(scene.held[0], "-TRYAGAIN Multiple keys request during rehashing of slot|");
    assert_eq!((scene.rig.proxy.pending().requests_parked, scene.rig.proxy.pending().conns_held), (1, 1));
    scene.rig.pass(Duration::from_millis(15));
    let part = first_part(&scene);
    assert_eq!(scene.rig.taken(scene.held[0]), format!("{CLIENT_ID}{part}"), "its connection was free");
    scene.rig.sends(scene.held[0], ":70|");
    let entry = scene.has(0);
    assert_eq!(scene.rig.node_got(1), unblock(71));
    scene.rig.sends(scene.held[1], "*-1|");
    assert_eq!(scene.answered(), format!("*1|{entry}"));
}

#[test]
fn a_queued_part_does_not_delay_the_others() {
    let (mut scene, _) = in_cluster();
    scene.rig.sends(scene.held[0], "-CLUSTERDOWN The cluster is down|");
    let entry = scene.has(1);
    assert_eq!(scene.answered(), format!("*1|{entry}"));
    scene.rig.pass(Duration::from_secs(1));
    assert!(!scene.rig.has_sent(scene.held[0]), "nobody waits for it any more");
    assert_eq!((scene.rig.proxy.pending().requests_parked, scene.rig.proxy.pending().conns_held), (0, 0));
    assert_eq!(scene.rig.proxy.held_bytes(), 0);
}

#[test]
fn part_declined_after_others_answered_is_not_retried() {
    let (mut scene, there) = in_cluster();
    let entry = scene.has(1);
    scene.rig.sends(scene.held[0], &format!("-MOVED {there}"));
    assert_eq!(scene.answered(), format!("*1|{entry}"));
    scene.rig.node_sends(0, ":0|");
    assert_eq!((scene.rig.proxy.pending().requests_parked, scene.rig.proxy.pending().conns_held), (0, 0));
}

#[test]
fn a_client_that_leaves_a_queued_part_leaves_nothing() {
    let (mut scene, _) = in_cluster();
    scene.rig.sends(scene.held[0], "-CLUSTERDOWN The cluster is down|");
    scene.rig.event(Event::Closed { conn: scene.client, reason: "gone" });
    scene.rig.pass(Duration::from_secs(1));
    assert!(!scene.rig.has_sent(scene.held[0]) && scene.rig.is_closed(scene.held[1]));
    assert_eq!((scene.rig.proxy.pending().requests_parked, scene.rig.proxy.pending().conns_held), (0, 0));
    assert_eq!(scene.rig.proxy.held_bytes(), 0);
}

#[test]
fn a_part_that_is_declined_too_often_is_an_error() {
    let (mut scene, there) = in_cluster();
    for round in 0..6 {
        let conn = if round == 0 { scene.held[0] } else { scene.rig.pinned_now() };
        let number = if round == 0 { "" } else { ":72|" };
        scene.rig.taken(conn);
        scene.rig.sends(conn, &format!("{number}-MOVED {there}"));
    }
    assert_eq!(scene.rig.node_got(1), unblock(71));
    scene.rig.sends(scene.held[1], "*-1|");
    let reason = "its slot is migrating, and the request was still redirected at its timeout";
    assert_eq!(scene.answered(), format!("-TRYAGAIN shard s0 unavailable: {reason}|"));
    scene.rig.node_sends(1, ":1|");
    assert_eq!(scene.rig.proxy.pending().conns_held, 0);
}
