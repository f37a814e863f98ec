//! Transcripts of shard channels whose node declines the subscription. `|` stands for CR LF.

use super::redirect::{begin, changed, even_but, hint, listener, message, moved, request};
use crate::ConnId;
use crate::testing::{Rig, even};
use std::time::Duration;

const CLUSTER_DOWN: &str = "-CLUSTERDOWN The cluster is down|";
const MOVED_IN_VAIN: &str = "-TRYAGAIN shard s0 unavailable: its slot is migrating, and the request was still redirected at its timeout|";

/// A client that asks for a subscription to a shard channel of shard 0, the channel and its slot, and the link of the
/// request.
fn asker(rig: &mut Rig) -> (ConnId, String, u32, ConnId) {
    let (client, channel, slot) = begin(rig);
    rig.client_sends(client, &format!("ssubscribe {channel}|"));
    let source = rig.bring_up_pinned(0);
    assert_eq!(rig.taken(source), request(&format!("ssubscribe {channel}")));
    (client, channel, slot, source)
}

#[test]
fn subscribe_to_a_slot_of_an_unknown_node_waits_for_the_map() {
    let mut rig = Rig::cluster(2);
    let (client, channel, slot, source) = asker(&mut rig);
    rig.sends(source, &moved(slot, 5));
    assert_eq!(rig.proxy.poll_wish(rig.now), hint(7005));
    // Another client's request waits with the first, and nothing is overtaken.
    let other = rig.client();
    rig.client_sends(other, &format!("ssubscribe {channel}|"));
    rig.client_sends(client, "ping|");
    let quiet = (String::new(), String::new(), String::new());
    assert_eq!((rig.taken(client), rig.taken(other), rig.taken(source)), quiet);
    let mut map = even(2);
    map[0].1 = vec![0..=slot as u16 - 1, slot as u16 + 1..=8191];
    map.push((5, vec![slot as u16..=slot as u16]));
    rig.remap(&map);
    let home = rig.bring_up_pinned(2);
    assert_eq!(rig.taken(home), request(&format!("ssubscribe {channel}")));
    rig.sends(home, &changed("ssubscribe", &channel));
    let pong = "*2|$4|pong|$0||";
    assert_eq!(rig.taken(client), format!("{}{pong}", changed("ssubscribe", &channel)));
    assert_eq!(rig.taken(other), changed("ssubscribe", &channel));
    rig.sends(home, &message("smessage", &channel));
    assert_eq!(rig.taken(other), message("smessage", &channel));
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.taken(source), "", "and nobody is asked again");
}

#[test]
fn subscribe_without_a_new_map_fails_in_time() {
    let mut rig = Rig::cluster(2);
    let (client, _, slot, source) = asker(&mut rig);
    rig.pass(Duration::from_millis(300));
    rig.sends(source, &moved(slot, 5));
    let timeout = rig.proxy.core.cx.engine.limits.request_timeout;
    rig.pass(timeout - Duration::from_millis(301));
    assert_eq!(rig.taken(client), "");
    rig.pass(Duration::from_millis(2));
    assert_eq!((rig.taken(client).as_str(), rig.proxy.pending().topics), (MOVED_IN_VAIN, 0));
}

#[test]
fn subscribe_in_a_short_cluster_outage_waits() {
    let mut rig = Rig::cluster(2);
    let (client, channel, _, source) = asker(&mut rig);
    for _ in 0..5 {
        rig.sends(source, CLUSTER_DOWN);
        assert_eq!((rig.taken(client), rig.taken(source)), (String::new(), String::new()));
        rig.pass(Duration::from_millis(100));
        assert_eq!(rig.taken(source), request(&format!("ssubscribe {channel}")));
    }
    rig.sends(source, &changed("ssubscribe", &channel));
    assert_eq!(rig.taken(client), changed("ssubscribe", &channel));
}

#[test]
fn subscribe_in_a_long_cluster_outage_fails_in_time() {
    let mut rig = Rig::cluster(2);
    let (client, channel, _, source) = asker(&mut rig);
    let (timeout, asked_at) = (rig.proxy.core.cx.engine.limits.request_timeout, rig.now);
    rig.sends(source, CLUSTER_DOWN);
    let mut told = String::new();
    while told.is_empty() {
        rig.pass(Duration::from_millis(10));
        if !rig.taken(source).is_empty() {
            rig.sends(source, CLUSTER_DOWN);
        }
        told = rig.taken(client);
        assert!(rig.now.since(asked_at) <= timeout + Duration::from_millis(10));
    }
    assert_eq!(told, "-TRYAGAIN shard s0 unavailable: CLUSTERDOWN The cluster is down|");
    rig.pass(Duration::from_secs(5));
    assert_eq!(
        (rig.taken(source), rig.proxy.pending().topics),
        (String::new(), 0),
        "{channel} is of no interest"
    );
}

#[test]
fn subscriptions_return_after_a_cluster_outage() {
    let mut rig = Rig::cluster(2);
    let (client, channel, slot, old) = listener(&mut rig);
    rig.remap(&even_but(slot));
    rig.taken(old);
    let new = rig.bring_up_pinned(1);
    // The node has the slot, and does not know yet that the cluster is up.
    for _ in 0..20 {
        assert_eq!(rig.taken(new), request(&format!("ssubscribe {channel}")));
        rig.sends(new, CLUSTER_DOWN);
        rig.pass(Duration::from_millis(990));
        assert_eq!(rig.taken(new), "", "it is not asked in a hurry: nobody waits");
        rig.pass(Duration::from_millis(10));
    }
    rig.taken(new);
    rig.sends(new, &changed("ssubscribe", &channel));
    rig.sends(new, &message("smessage", &channel));
    assert_eq!(rig.taken(client), message("smessage", &channel));
}

#[test]
fn subscribe_waits_on_for_a_map_while_its_node_is_lost() {
    let mut rig = Rig::cluster(2);
    let (client, channel, slot, source) = asker(&mut rig);
    rig.sends(source, &moved(slot, 5));
    rig.event(crate::Event::Closed { conn: source, reason: "gone" });
    assert_eq!(rig.taken(client), "");
    rig.remap(&even_but(slot));
    let home = rig.bring_up_pinned(1);
    assert_eq!(rig.taken(home), request(&format!("ssubscribe {channel}")));
    rig.sends(home, &changed("ssubscribe", &channel));
    assert_eq!(rig.taken(client), changed("ssubscribe", &channel));
}

#[test]
fn unsubscribe_from_a_moving_slot_is_answered_once() {
    let mut rig = Rig::cluster(2);
    let (client, channel, slot, source) = listener(&mut rig);
    rig.client_sends(client, "sunsubscribe|");
    assert_eq!(rig.taken(source), request(&format!("sunsubscribe {channel}")));
    // The node ends the subscription by itself. Then there is none that could be ended (as Redis 7.0.15 answers).
    rig.sends(source, &changed("sunsubscribe", &channel));
    assert_eq!(rig.taken(client), changed("sunsubscribe", &channel));
    rig.sends(source, &moved(slot, 1));
    assert_eq!((rig.is_closed(source), rig.taken(client).as_str()), (false, ""));
    // The next request is for the same slot, and gets an answer whether the node sends two of them or one.
    for answers in [2, 1] {
        rig.client_sends(client, &format!("ssubscribe {channel}|"));
        rig.sends(source, &changed("ssubscribe", &channel));
        rig.client_sends(client, &format!("sunsubscribe|ssubscribe {channel}|"));
        rig.sends(source, &changed("sunsubscribe", &channel));
        rig.taken(client);
        rig.sends(source, &moved(slot, 5).repeat(answers));
        rig.pass(Duration::from_millis(100));
        assert!(!rig.is_closed(source));
        rig.sends(source, &changed("ssubscribe", &channel));
        assert_eq!(rig.taken(client), changed("ssubscribe", &channel));
        rig.client_sends(client, "sunsubscribe|");
        rig.sends(source, &changed("sunsubscribe", &channel));
        rig.taken(client);
    }
    // Another answer shows that none comes behind it.
    rig.client_sends(client, &format!("ssubscribe {channel}|"));
    rig.taken(source);
    rig.sends(source, &changed("ssubscribe", &channel));
    rig.client_sends(client, &format!("sunsubscribe|ssubscribe {channel}|"));
    rig.sends(source, &changed("sunsubscribe", &channel));
    rig.sends(source, &changed("ssubscribe", &channel));
    rig.taken(client);
    rig.sends(source, &moved(slot, 1));
    assert!(rig.is_closed(source), "nobody has asked for that");
}

#[test]
fn a_plain_channel_is_never_declined_for_its_slot() {
    let mut rig = Rig::cluster(2);
    let (client, channel, slot, source) = listener(&mut rig);
    rig.client_sends(client, &format!("subscribe {channel}|"));
    rig.sends(source, &changed("subscribe", &channel));
    rig.client_sends(client, &format!("sunsubscribe|ssubscribe {channel}|unsubscribe {channel}|"));
    rig.taken(client);
    // The node ends the subscription by itself, and declines both requests for the shard channel. UNSUBSCRIBE of the plain
    // channel has the same name, and its own answer.
    rig.sends(source, &changed("sunsubscribe", &channel));
    rig.sends(source, &moved(slot, 5).repeat(2));
    let told = changed("sunsubscribe", &channel);
    assert_eq!((rig.is_closed(source), rig.taken(client)), (false, told));
    rig.sends(source, &changed("unsubscribe", &channel));
    assert!(!rig.is_closed(source));
}
