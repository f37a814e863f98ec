//! Transcripts of users of the nodes (`--auth=nodes`) who subscribe. `|` stands for CR LF.

use super::passing::{HELLO, WRONG, quiet_second};
use super::pubsub::{message, said};
use crate::testing::Rig;
use crate::{CloseReason, ConnId, Credentials, Event, Limits, Notice};
use std::time::Duration;

const NO_CHANNELS: &str =
    "-NOPERM this user has no permissions to access one of the channels used as arguments|";

/// `AUTH name password`. The password is the first letter of the name.
fn auth(name: &str) -> String {
    format!("*3|$4|AUTH|${}|{name}|$1|{}|", name.len(), &name[..1])
}

/// One node, and clients that are logged in as these users.
fn world<const COUNT: usize>(limits: Limits, names: [&str; COUNT]) -> (Rig, ConnId, [ConnId; COUNT]) {
    let mut rig = Rig::passing(1, limits, Credentials::default());
    rig.bring_up(0);
    let mut door = None;
    let clients = names.map(|name| {
        let client = rig.client();
        rig.client_sends(client, &format!("auth {name} {}|", &name[..1]));
        let door = *door.get_or_insert_with(|| rig.bring_up_greeted(0, HELLO, "*0|"));
        assert_eq!(rig.taken(door), auth(name));
        rig.sends(door, "+OK|");
        assert_eq!(rig.taken(client), "+OK|");
        client
    });
    (rig, door.expect("there are clients"), clients)
}

/// The newest link, which begins as one of `name`.
fn bring_up(rig: &mut Rig, name: &str) -> ConnId {
    rig.bring_up_greeted(0, &format!("{}{HELLO}", auth(name)), "+OK|*0|")
}

/// Lets `bob` subscribe to `channel`, which the node permits. Returns the link of the messages.
fn listening(rig: &mut Rig, bob: ConnId, channel: &str) -> ConnId {
    rig.client_sends(bob, &format!("subscribe {channel}|"));
    let source = bring_up(rig, "bob");
    assert_eq!(rig.taken(source), said("subscribe", channel, None));
    rig.sends(source, &said("subscribe", channel, Some(1)));
    assert_eq!(rig.taken(bob), said("subscribe", channel, Some(1)));
    source
}

#[test]
fn users_subscribe_over_their_own_links_by_node_rules() {
    let (mut rig, _, [bob, twin, eve]) = world(Limits::default(), ["bob", "bob", "eve"]);
    let bobs = listening(&mut rig, bob, "tea");
    rig.client_sends(twin, "subscribe tea|");
    assert_eq!(rig.taken(twin), said("subscribe", "tea", Some(1)), "he shares it");
    rig.client_sends(eve, "subscribe tea|psubscribe t*|");
    let eves = bring_up(&mut rig, "eve");
    assert_eq!(rig.taken(eves), said("subscribe", "tea", None) + &said("psubscribe", "t*", None));
    rig.sends(eves, &NO_CHANNELS.repeat(2));
    assert_eq!(rig.taken(eve), NO_CHANNELS.repeat(2));
    // A client that has not logged in is the default user, and subscribes over the link of shardis.
    let anybody = rig.client();
    rig.client_sends(anybody, "subscribe tea|");
    let ours = rig.bring_up_pinned(0);
    rig.sends(ours, &said("subscribe", "tea", Some(1)));
    rig.taken(anybody);
    rig.sends(bobs, &message("tea", "hi"));
    let heard = [bob, twin, eve, anybody].map(|client| rig.taken(client));
    assert_eq!(heard, [message("tea", "hi"), message("tea", "hi"), String::new(), String::new()]);
    // A node counts two connections for three clients.
    let other = rig.client();
    rig.client_sends(other, "publish tea x|");
    rig.node_sends(0, ":2|");
    assert_eq!(rig.taken(other), ":3|");
    assert_eq!(rig.proxy.counters().subscribers, 3);
    // The last unsubscribe of a user's clients reaches the node, and affects no other user.
    rig.client_sends(bob, "unsubscribe|");
    assert_eq!(rig.taken(bob), said("unsubscribe", "tea", Some(0)));
    rig.event(Event::Closed { conn: twin, reason: "reset" });
    rig.pass(Duration::ZERO);
    assert_eq!([bobs, ours].map(|source| rig.taken(source).contains("unsubscribe")), [true, false]);
}

#[test]
fn client_losing_channel_permission_is_closed_alone() {
    let (mut rig, _, [bob, twin]) = world(Limits::default(), ["bob", "bob"]);
    let source = listening(&mut rig, bob, "tea");
    rig.client_sends(twin, "subscribe coffee|");
    rig.sends(source, &said("subscribe", "coffee", Some(2)));
    rig.taken(twin);
    // Redis closes a connection whose subscriptions are no longer permitted.
    rig.event(Event::Ended { conn: source });
    rig.pass(Duration::from_millis(11));
    let source = bring_up(&mut rig, "bob");
    assert_eq!(rig.taken(source), said("subscribe", "tea", None) + &said("subscribe", "coffee", None));
    rig.sends(source, &(said("subscribe", "tea", Some(1)) + NO_CHANNELS));
    rig.pass(Duration::ZERO);
    assert_eq!([bob, twin].map(|client| rig.is_closed(client)), [false, true]);
    let is_told = |notice: &Notice| {
        matches!(notice, Notice::ClientClosed { client: 2, reason: CloseReason::Denied, .. })
    };
    assert!(rig.notices().iter().any(is_told));
    rig.sends(source, &message("tea", "hi"));
    assert_eq!(rig.taken(bob), message("tea", "hi"));
    assert_eq!((rig.proxy.pending().topics, rig.proxy.counters().subscribers), (1, 1));
}

#[test]
fn deleted_user_loses_its_subscribers_and_link() {
    let (mut rig, door, [bob, eve]) = world(Limits::default(), ["bob", "eve"]);
    let source = listening(&mut rig, bob, "tea");
    rig.client_sends(eve, "subscribe tea|");
    let eves = bring_up(&mut rig, "eve");
    rig.sends(eves, &said("subscribe", "tea", Some(1)));
    rig.taken(eve);
    rig.event(Event::Ended { conn: source });
    rig.pass(Duration::from_millis(11));
    rig.bring_up_greeted(0, &format!("{}{HELLO}", auth("bob")), WRONG);
    rig.pass(Duration::ZERO);
    assert_eq!([bob, eve].map(|client| rig.is_closed(client)), [true, false]);
    rig.sends(eves, &message("tea", "hi"));
    assert_eq!(rig.taken(eve), message("tea", "hi"));
    let conns = rig.conns();
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.conns(), conns, "there is nobody left to hear anything");
    // A client that comes back gets the node's error.
    let bob = rig.client();
    rig.client_sends(bob, "auth bob b|");
    assert_eq!(rig.taken(door), auth("bob"));
    rig.sends(door, "+OK|");
    rig.client_sends(bob, "subscribe tea|");
    rig.bring_up_greeted(0, &format!("{}{HELLO}", auth("bob")), WRONG);
    assert_eq!(rig.taken(bob), format!("+OK|{WRONG}"));
}

#[test]
fn subscriptions_stay_with_the_user_that_made_them() {
    let (mut rig, door, [client]) = world(Limits::default(), ["bob"]);
    rig.client_sends(client, "hello 3|subscribe tea|");
    let bobs = bring_up(&mut rig, "bob");
    assert_eq!(rig.taken(bobs), said("subscribe", "tea", None));
    rig.sends(bobs, &said("subscribe", "tea", Some(1)));
    rig.client_sends(client, "auth eve e|");
    assert_eq!(rig.taken(door), auth("eve"));
    rig.sends(door, "+OK|");
    rig.client_sends(client, "subscribe tea coffee|");
    let eves = bring_up(&mut rig, "eve");
    assert_eq!(rig.taken(eves), said("subscribe", "coffee", None));
    rig.sends(eves, &said("subscribe", "coffee", Some(1)));
    rig.taken(client);
    rig.sends(bobs, &message("tea", "hi"));
    assert_eq!(rig.taken(client), message("tea", "hi").replacen('*', ">", 1));
    rig.client_sends(client, "unsubscribe|");
    let left = [bobs, eves].map(|source| rig.taken(source));
    assert_eq!(left, [said("unsubscribe", "tea", None), said("unsubscribe", "coffee", None)]);
    rig.sends(bobs, &said("unsubscribe", "tea", Some(0)));
    rig.sends(eves, &said("unsubscribe", "coffee", Some(0)));
    rig.event(Event::Closed { conn: client, reason: "reset" });
    for _ in 0..14 {
        quiet_second(&mut rig);
    }
    assert_eq!((rig.is_closed(bobs), rig.is_closed(eves)), (true, true));
    assert_eq!(rig.proxy.core.cx.profiles.identities.len(), 0, "and with it all passwords are forgotten");
}

#[test]
fn silent_subscriber_link_is_probed_with_allowed_commands() {
    let (mut rig, _, [bob]) = world(Limits::default(), ["bob"]);
    let source = listening(&mut rig, bob, "tea");
    let asked = (0..7).find_map(|_| {
        rig.pass(Duration::from_secs(1));
        Some(rig.taken(source)).filter(|asked| !asked.is_empty())
    });
    assert_eq!(asked.as_deref(), Some("*1|$4|PING|"));
    rig.sends(source, "-NOPERM this user has no permissions to run this|");
    rig.sends(source, &message("tea", "hi"));
    assert_eq!(rig.taken(bob), message("tea", "hi"), "whatever it says, it lives");
}

#[test]
fn connections_of_listeners_are_bounded() {
    let (mut rig, _, [bob]) = world(Limits { profile_nodes_max: 0, ..Limits::default() }, ["bob"]);
    rig.client_sends(bob, "subscribe tea|ping|");
    let refusal = "-TRYAGAIN shard 127.0.0.1:7000 unavailable: too many users are logged in at once|";
    assert_eq!(rig.taken(bob), format!("{refusal}+PONG|"));
}

#[test]
fn pubsub_queries_need_the_permission_of_the_node() {
    let (mut rig, _, [bob, eve]) = world(Limits::default(), ["bob", "eve"]);
    listening(&mut rig, bob, "tea");
    let question = "*2|$6|pubsub|$8|channels|";
    rig.client_sends(eve, "pubsub channels|pubsub numsub tea|");
    let eves = bring_up(&mut rig, "eve");
    assert_eq!(rig.taken(eves), format!("{question}*3|$6|pubsub|$6|numsub|$3|tea|"));
    let denied = "-NOPERM this user has no permissions to run this|";
    rig.sends(eves, &format!("*0|{denied}"));
    assert_eq!(rig.taken(eve), format!("*1|$3|tea|{denied}"));
    rig.client_sends(eve, "pubsub channels|");
    rig.event(Event::Ended { conn: eves });
    let lost = "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7000)|";
    assert_eq!(rig.taken(eve), lost);
    rig.client_sends(eve, "multi|pubsub channels|discard|");
    assert!(rig.taken(eve).contains("within a transaction"));
}
