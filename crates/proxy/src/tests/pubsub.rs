//! Transcripts of publish and subscribe. `|` stands for CR LF.

use crate::EngineLimits;
use crate::link::profile::Profile;
use crate::testing::{Rig, deliver_mail};
use crate::{CloseReason, ConnId, Event, Limits, Notice};
use std::time::Duration;

/// The request or reply `word` for one name; a reply has a count.
pub(super) fn said(word: &str, name: &str, count: Option<usize>) -> String {
    let len = 2 + usize::from(count.is_some());
    let count = count.map_or_else(String::new, |count| format!(":{count}|"));
    format!("*{len}|${}|{word}|${}|{name}|{count}", word.len(), name.len())
}

pub(super) fn message(channel: &str, text: &str) -> String {
    format!("*3|$7|message|${}|{channel}|${}|{text}|", channel.len(), text.len())
}

/// A client that is subscribed to `channel`, the first of its shard, and the link of the messages.
fn subscribed(rig: &mut Rig, shard: u32, channel: &str) -> (ConnId, ConnId) {
    let client = rig.client();
    rig.client_sends(client, &format!("subscribe {channel}|"));
    let source = rig.bring_up_pinned(shard);
    assert_eq!(rig.taken(source), said("subscribe", channel, None));
    rig.sends(source, &said("subscribe", channel, Some(1)));
    assert_eq!(rig.taken(client), said("subscribe", channel, Some(1)));
    (client, source)
}

#[test]
fn clients_share_a_subscription_and_get_its_confirmation() {
    let mut rig = Rig::ready(2);
    let channel = rig.key(1);
    let one = rig.client();
    rig.client_sends(one, &format!("subscribe {channel}|"));
    let source = rig.bring_up_pinned(1);
    assert_eq!(rig.taken(source), said("subscribe", &channel, None));
    assert_eq!(rig.taken(one), "", "the node has not confirmed");
    rig.sends(source, &said("subscribe", &channel, Some(1)));
    assert_eq!(rig.taken(one), said("subscribe", &channel, Some(1)));

    let other = rig.client();
    rig.client_sends(other, &format!("subscribe {channel} {channel}|"));
    assert_eq!(rig.taken(other), said("subscribe", &channel, Some(1)).repeat(2));
    assert_eq!(rig.taken(source), "");
    rig.sends(source, &message(&channel, "hi"));
    assert_eq!(
        [one, other].map(|client| rig.taken(client)),
        [message(&channel, "hi"), message(&channel, "hi")]
    );
    assert_eq!(rig.proxy.counters().messages, 2);

    rig.client_sends(one, "unsubscribe|");
    assert_eq!(rig.taken(one), said("unsubscribe", &channel, Some(0)));
    assert_eq!(rig.taken(source), "");
    rig.client_sends(other, &format!("unsubscribe {channel}|"));
    assert_eq!(rig.taken(source), said("unsubscribe", &channel, None));
    rig.sends(source, &message(&channel, "late"));
    assert_eq!(rig.taken(other), "", "it has left, and the node does not know yet");
    rig.sends(source, &said("unsubscribe", &channel, Some(0)));
    assert_eq!(rig.taken(other), said("unsubscribe", &channel, Some(0)));
    assert_eq!((rig.proxy.pending().topics, rig.proxy.counters().subscribers), (0, 0));
    rig.pass(Duration::from_secs(7));
    assert!(rig.is_closed(source), "it is of no use any more");
}

#[test]
fn a_pattern_is_subscribed_to_on_all_nodes() {
    let mut rig = Rig::ready(3);
    let client = rig.client();
    rig.client_sends(client, "psubscribe n*|ping|");
    let sources = [0, 1, 2].map(|shard| rig.bring_up_pinned(shard));
    for source in sources {
        assert_eq!(rig.taken(client), "");
        assert_eq!(rig.taken(source), said("psubscribe", "n*", None));
        rig.sends(source, &said("psubscribe", "n*", Some(1)));
    }
    assert_eq!(rig.taken(client), said("psubscribe", "n*", Some(1)) + "*2|$4|pong|$0||");
    let event = "*4|$8|pmessage|$2|n*|$4|news|$2|hi|";
    rig.sends(sources[1], event);
    assert_eq!(rig.taken(client), event);
    rig.client_sends(client, "punsubscribe|");
    for source in sources {
        assert_eq!(rig.taken(client), "");
        rig.sends(source, &said("punsubscribe", "n*", Some(0)));
    }
    assert_eq!(rig.taken(client), said("punsubscribe", "n*", Some(0)));
}

#[test]
fn keyspace_events_come_from_all_nodes() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let channel = "__keyevent@0__:set";
    rig.client_sends(client, &format!("subscribe {channel}|"));
    let sources = [0, 1].map(|shard| rig.bring_up_pinned(shard));
    sources.into_iter().for_each(|source| rig.sends(source, &said("subscribe", channel, Some(1))));
    assert_eq!(rig.taken(client), said("subscribe", channel, Some(1)));
    rig.sends(sources[1], &message(channel, "b"));
    rig.sends(sources[0], &message(channel, "a"));
    assert_eq!(rig.taken(client), message(channel, "b") + &message(channel, "a"));
}

#[test]
fn shard_channels_are_counted_by_themselves() {
    let mut rig = Rig::ready(1);
    let (client, source) = subscribed(&mut rig, 0, "a");
    rig.client_sends(client, "ssubscribe a|");
    rig.sends(source, &said("ssubscribe", "a", Some(1)));
    assert_eq!(rig.taken(client), said("ssubscribe", "a", Some(1)));
    rig.sends(source, "*3|$8|smessage|$1|a|$2|hi|");
    assert_eq!(rig.taken(client), "*3|$8|smessage|$1|a|$2|hi|");
    rig.client_sends(client, "unsubscribe nosuch|sunsubscribe nosuch|");
    let expected = said("unsubscribe", "nosuch", Some(1)) + &said("sunsubscribe", "nosuch", Some(1));
    assert_eq!(rig.taken(client), expected);
}

#[test]
fn subscribed_clients_may_ask_for_little_else() {
    let mut rig = Rig::ready(1);
    let (client, source) = subscribed(&mut rig, 0, "a");
    rig.taken(source);
    let allowed = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context|";
    rig.client_sends(client, "get k|client list|publish a x|");
    let refused = |name| format!("-ERR Can't execute '{name}': {allowed}");
    assert_eq!(rig.taken(client), ["get", "client|list", "publish"].map(refused).concat());
    rig.client_sends(client, "get|foo|ping|ping hi|ping a b|");
    let expected = "-ERR wrong number of arguments for 'get' command|*2|$4|pong|$0||*2|$4|pong|$2|hi|\
                    -ERR wrong number of arguments for 'ping' command|";
    rig.node_sends(0, "*1|*-1|");
    assert!(
        rig.taken(client).replace("-ERR unknown command 'foo', with args beginning with: |", "") == expected
    );
    assert_eq!(rig.node_got(0), "*3|$7|COMMAND|$4|INFO|$3|foo|");
    let large = format!("*3|$3|SET|$1|k|$100000|{}|", "x".repeat(100_000));
    rig.client_sends(client, &large[..70_000]);
    rig.client_sends(client, &large[70_000..]);
    assert_eq!(rig.taken(client), refused("set"), "also if it is large");
    rig.client_sends(client, "reset|ping|get k|");
    assert_eq!(rig.taken(client), "+RESET|+PONG|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|k|");
    assert_eq!(rig.taken(source), said("unsubscribe", "a", None));
}

#[test]
fn resp3_pushes_come_between_replies() {
    let mut rig = Rig::ready(1);
    let (_, source) = subscribed(&mut rig, 0, "a");
    let client = rig.client();
    rig.change_profile(client, Profile { resp3: true, ..Profile::default() });
    let pushed = |text: String| text.replacen('*', ">", 1);
    rig.client_sends(client, "subscribe a|get k|ping|");
    assert_eq!(rig.taken(client), pushed(said("subscribe", "a", Some(1))));
    let profile = rig.bring_up_greeted(0, "*2|$5|HELLO|$1|3|*1|$4|PING|", "%0|+PONG|");
    assert_eq!(rig.taken(profile), "*2|$3|get|$1|k|");
    rig.sends(source, &message("a", "hi"));
    assert_eq!(rig.taken(client), pushed(message("a", "hi")), "it does not wait for a reply");
    rig.sends(profile, "_|");
    assert_eq!(rig.taken(client), "_|+PONG|");
    rig.client_sends(client, "unsubscribe|unsubscribe|");
    let none = ">3|$11|unsubscribe|_|:0|";
    assert_eq!(rig.taken(client), pushed(said("unsubscribe", "a", Some(0))) + none);
}

#[test]
fn nothing_to_unsubscribe_from_is_an_answer_too() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "unsubscribe|punsubscribe|sunsubscribe|unsubscribe x y|");
    let none = |word: &str| format!("*3|${}|{word}|$-1|:0|", word.len());
    let expected = ["unsubscribe", "punsubscribe", "sunsubscribe"].map(none).concat();
    let named = said("unsubscribe", "x", Some(0)) + &said("unsubscribe", "y", Some(0));
    assert_eq!(rig.taken(client), expected + &named);
}

#[test]
fn replies_behind_a_subscription_are_in_order() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "subscribe a a|unsubscribe a|subscribe a|ping|");
    let source = rig.bring_up_pinned(0);
    let asked = ["subscribe", "unsubscribe", "subscribe"].map(|word| said(word, "a", None));
    assert_eq!(rig.taken(source), asked.concat());
    // A subscription that is requested twice is confirmed as soon as it is not wanted any more. The last one is still
    // to be confirmed.
    assert_eq!(rig.taken(client), said("subscribe", "a", Some(1)).repeat(2));
    rig.sends(source, &said("subscribe", "a", Some(1)));
    rig.sends(source, &message("a", "of the first"));
    assert_eq!(rig.taken(client), "");
    rig.sends(source, &said("unsubscribe", "a", Some(0)));
    assert_eq!(rig.taken(client), said("unsubscribe", "a", Some(0)));
    rig.sends(source, &said("subscribe", "a", Some(1)));
    assert_eq!(rig.taken(client), said("subscribe", "a", Some(1)) + "*2|$4|pong|$0||");
    rig.sends(source, &message("a", "of the second"));
    assert_eq!(rig.taken(client), message("a", "of the second"));
}

#[test]
fn a_reset_leaves_nothing_unanswered() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "subscribe a|reset|");
    assert_eq!(rig.taken(client), said("subscribe", "a", Some(1)) + "+RESET|");
    assert_eq!((rig.proxy.pending().topics, rig.proxy.counters().subscribers), (0, 0));
}

#[test]
fn a_message_does_not_overtake_its_confirmation() {
    let mut rig = Rig::ready(1);
    let (_, source) = subscribed(&mut rig, 0, "a");
    let client = rig.client();
    rig.client_sends(client, "get k|subscribe a|");
    rig.sends(source, &message("a", "1"));
    rig.sends(source, &message("a", "2"));
    assert_eq!(rig.taken(client), "");
    rig.node_sends(0, "$1|v|");
    let both = message("a", "1") + &message("a", "2");
    assert_eq!(rig.taken(client), "$1|v|".to_owned() + &said("subscribe", "a", Some(1)) + &both);
    rig.sends(source, &message("a", "3"));
    assert_eq!(rig.taken(client), message("a", "3"));
}

#[test]
fn messages_reach_clients_with_muted_replies() {
    let mut rig = Rig::ready(1);
    let (_, source) = subscribed(&mut rig, 0, "a");
    let client = rig.client();
    rig.client_sends(client, "client reply off|subscribe a|ping|");
    assert_eq!(rig.taken(client), said("subscribe", "a", Some(1)));
    rig.sends(source, &message("a", "hi"));
    assert_eq!(rig.taken(client), message("a", "hi"));
    let client = rig.client();
    rig.client_sends(client, "client reply skip|subscribe a|ping|");
    assert_eq!(rig.taken(client), said("subscribe", "a", Some(1)) + "*2|$4|pong|$0||");
}

#[test]
fn receivers_are_the_clients_of_all_workers() {
    let mut rigs = Rig::workers(2, 1);
    let (_, source) = subscribed(&mut rigs[0], 0, "a");
    for channel in ["a", "b"] {
        let other = rigs[0].client();
        rigs[0].client_sends(other, &format!("subscribe {channel}|"));
    }
    rigs[0].sends(source, &said("subscribe", "b", Some(2)));
    let client = rigs[1].client();
    rigs[1].client_sends(client, "psubscribe a*|");
    let source = rigs[1].bring_up_pinned(0);
    rigs[1].sends(source, &said("psubscribe", "a*", Some(1)));

    let publisher = rigs[1].client();
    rigs[1].client_sends(publisher, "publish a x|publish b x|publish c x|");
    let requests = ["a", "b", "c"].map(|channel| format!("*3|$7|publish|$1|{channel}|$1|x|"));
    assert_eq!(rigs[1].node_got(0), requests.concat());
    // Receivers: two links of shardis and a client that came to the node directly; one link of shardis; none.
    rigs[1].node_sends(0, ":3|:1|:0|");
    assert_eq!(rigs[1].taken(publisher), ":4|:1|:0|");

    rigs[1].client_sends(publisher, "pubsub channels|pubsub channels b*|pubsub numsub a c|pubsub numpat|");
    assert_eq!(rigs[1].taken(publisher), "*2|$1|a|$1|b|*1|$1|b|*4|$1|a|:2|$1|c|:0|:1|");
    rigs[1].client_sends(publisher, "pubsub shardchannels|pubsub shardnumsub a|pubsub channels a b|");
    let syntax = "-ERR unknown subcommand or wrong number of arguments for 'channels'. Try PUBSUB HELP.|";
    assert_eq!(rigs[1].taken(publisher), format!("*0|*2|$1|a|:0|{syntax}"));
}

#[test]
fn a_subscriber_that_goes_is_nowhere_any_more() {
    let mut rig = Rig::ready(2);
    let channel = rig.key(0);
    let (client, source) = subscribed(&mut rig, 0, &channel);
    rig.client_sends(client, "psubscribe *|");
    let other_source = rig.bring_up_pinned(1);
    rig.taken(source);
    rig.event(Event::Closed { conn: client, reason: "reset" });
    let expected = said("unsubscribe", &channel, None) + &said("punsubscribe", "*", None);
    assert_eq!(rig.taken(source), expected);
    assert_eq!(rig.taken(other_source), said("psubscribe", "*", None) + &said("punsubscribe", "*", None));
    assert_eq!((rig.proxy.pending().topics, rig.proxy.counters().subscribers), (0, 0));
    let answers = [said("psubscribe", "*", Some(2)), said("unsubscribe", &channel, Some(1))];
    rig.sends(source, &answers.concat());
    rig.sends(source, &said("punsubscribe", "*", Some(0)));
    let asker = rig.client();
    rig.client_sends(asker, &format!("publish {channel} x|"));
    rig.node_sends(0, ":7|");
    assert_eq!(rig.taken(asker), ":7|", "nothing of ours is counted any more");
}

#[test]
fn a_lost_connection_is_made_again_and_all_is_asked_for_again() {
    let mut rig = Rig::ready(1);
    let (client, source) = subscribed(&mut rig, 0, "a");
    let waiting = rig.client();
    rig.client_sends(waiting, "subscribe b|");
    rig.event(Event::Closed { conn: source, reason: "reset" });
    assert_eq!(rig.taken(waiting), "-TRYAGAIN shard 127.0.0.1:7000 unavailable: reset|");
    assert_eq!(rig.taken(client), "", "it stays subscribed");
    assert_eq!(rig.proxy.counters().message_gaps, 1);
    let (shard, reason) = ("127.0.0.1:7000".to_owned(), "reset".to_owned());
    assert_eq!(rig.notices(), [Notice::MessagesMissed { shard: shard.clone(), topics: 1, reason }]);
    // A client that comes now waits for the new link.
    rig.client_sends(waiting, "subscribe a|");
    assert_eq!(rig.taken(waiting), "");
    rig.pass(Duration::from_millis(20));
    let source = rig.bring_up_pinned(0);
    assert_eq!(rig.taken(source), said("subscribe", "a", None));
    assert_eq!(rig.notices(), [Notice::SubscribedAgain { shard, topics: 1 }]);
    rig.sends(source, &said("subscribe", "a", Some(1)));
    assert_eq!(rig.taken(waiting), said("subscribe", "a", Some(1)));
    rig.sends(source, &message("a", "again"));
    assert_eq!(
        [client, waiting].map(|client| rig.taken(client)),
        [message("a", "again"), message("a", "again")]
    );
}

#[test]
fn a_node_that_is_down_is_an_error_in_the_place_of_its_channels() {
    let mut rig = Rig::ready(2);
    let (here, there) = (rig.key(0), rig.key(1));
    let node = rig.node(1);
    rig.event(Event::Closed { conn: node, reason: "connection refused" });
    let client = rig.client();
    rig.client_sends(client, &format!("subscribe {there} {here}|psubscribe *|"));
    let source = rig.bring_up_pinned(0);
    rig.sends(source, &said("subscribe", &here, Some(1)));
    let lost = "-TRYAGAIN shard 127.0.0.1:7001 unavailable: connection refused|";
    assert_eq!(rig.taken(client), lost.to_owned() + &said("subscribe", &here, Some(1)) + lost);
}

#[test]
fn a_node_that_does_not_answer_costs_the_connection() {
    let mut rig = Rig::ready(1);
    let (client, source) = subscribed(&mut rig, 0, "a");
    rig.client_sends(client, "subscribe b|");
    rig.pass(Duration::from_millis(1100));
    assert!(rig.is_closed(source));
    assert_eq!(rig.taken(client), "-TRYAGAIN shard 127.0.0.1:7000 unavailable: no reply in time|");
    let source = rig.bring_up_pinned(0);
    assert_eq!(rig.taken(source), said("subscribe", "a", None));
    rig.sends(source, &said("subscribe", "a", Some(1)));
    // A silent node gets a health check.
    rig.pass(Duration::from_millis(6500));
    assert_eq!(rig.taken(source), "*1|$4|PING|");
    rig.sends(source, "*2|$4|pong|$0||");
    rig.pass(Duration::from_secs(3));
    assert!(!rig.is_closed(source));
}

#[test]
fn a_node_may_refuse_a_channel() {
    let mut rig = Rig::ready(1);
    let (client, source) = subscribed(&mut rig, 0, "a");
    let other = rig.client();
    for refused in [other, client, other] {
        rig.client_sends(refused, "subscribe secret|");
        rig.sends(source, "-NOPERM this user has no permissions to access one of the channels used|");
        let expected = "-NOPERM this user has no permissions to access one of the channels used|";
        assert_eq!(rig.taken(refused), expected);
    }
    rig.client_sends(other, "get a|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|", "it is subscribed to nothing");
    rig.client_sends(client, "unsubscribe|");
    rig.sends(source, &said("unsubscribe", "a", Some(0)));
    assert_eq!(rig.taken(client), said("unsubscribe", "a", Some(0)));
}

#[test]
fn a_reply_that_is_no_message_closes_the_link() {
    for garbage in ["$3|abc|", "*3|$9|subscribe|$1|b|:1|", "HTTP/1.1 400|"] {
        let mut rig = Rig::ready(1);
        let (client, source) = subscribed(&mut rig, 0, "a");
        rig.sends(source, garbage);
        assert!(rig.is_closed(source), "{garbage}");
        assert_eq!(rig.taken(client), "");
    }
}

#[test]
fn a_message_may_come_in_pieces() {
    let mut rig = Rig::ready(1);
    let (client, source) = subscribed(&mut rig, 0, "a");
    let text = message("a", &"x".repeat(200_000));
    let (first, rest) = text.split_at(100_000);
    rig.sends(source, &first.replace('|', "\r\n"));
    assert_eq!(rig.taken(client), "");
    rig.sends(source, rest);
    assert_eq!(rig.taken(client), text);
}

#[test]
fn a_slow_subscriber_is_closed_and_others_get_all() {
    let limits = Limits { subscriber_bytes_max: 1000, ..Limits::default() };
    let mut rig = Rig::ready_with(1, limits);
    let (slow, source) = subscribed(&mut rig, 0, "a");
    let other = rig.client();
    rig.client_sends(other, "subscribe a|");
    rig.taken(other);
    rig.stick(slow);
    let text = message("a", &"x".repeat(600));
    rig.sends(source, &text);
    rig.sends(source, &text);
    assert!(!rig.is_closed(slow), "one message above the limit is allowed");
    rig.sends(source, &text);
    assert!(rig.is_closed(slow));
    assert_eq!(rig.taken(other), text.repeat(3));
    let is_slow =
        |notice: &Notice| matches!(notice, Notice::ClientClosed { reason: CloseReason::SlowSubscriber, .. });
    assert!(rig.notices().iter().any(is_slow));
    assert_eq!((rig.proxy.counters().subscribers, rig.proxy.counters().clients_closed), (1, 1));
}

#[test]
fn a_subscriber_above_the_soft_limit_has_its_time() {
    let limits = Limits { subscriber_bytes_soft: 1000, ..Limits::default() };
    let mut rig = Rig::ready_with(1, limits);
    let (slow, source) = subscribed(&mut rig, 0, "a");
    rig.stick(slow);
    rig.sends(source, &message("a", &"x".repeat(2000)));
    rig.pass(Duration::from_secs(59));
    assert!(!rig.is_closed(slow));
    rig.pass(Duration::from_secs(4));
    assert!(rig.is_closed(slow));
}

#[test]
fn subscribers_that_take_nothing_do_not_stop_others() {
    let limits = Limits {
        engine: EngineLimits { memory_bytes_max: 1 << 20, ..EngineLimits::default() },
        ..Limits::default()
    };
    let mut rig = Rig::ready_with(1, limits);
    let (slow, source) = subscribed(&mut rig, 0, "a");
    let other = rig.client();
    rig.client_sends(other, "ping|");
    rig.taken(other);
    rig.stick(slow);
    for _ in 0..7 {
        rig.sends(source, &message("a", &"x".repeat(100_000)));
        rig.client_sends(other, "ping|");
        assert_eq!(rig.taken(other), "+PONG|");
    }
    assert!(rig.is_closed(slow));
    assert_eq!(rig.proxy.counters().memory_full, 0);
}

#[test]
fn a_pattern_is_no_longer_than_the_limit_says() {
    let mut rig = Rig::ready_with(1, Limits { pattern_bytes_max: 3, ..Limits::default() });
    let client = rig.client();
    let refusal = "-ERR the pattern is longer than the limit of the proxy. Use a shorter one|";
    rig.client_sends(client, "psubscribe abc*|pubsub channels abc*|pubsub channels abc|pubsub channels|");
    assert_eq!(rig.taken(client), format!("{refusal}{refusal}*0|*0|"));
}

#[test]
fn subscriptions_are_bounded() {
    let limits = Limits { subscription_bytes_max: 1000, ..Limits::default() };
    let mut rig = Rig::ready_with(1, limits);
    let client = rig.client();
    rig.client_sends(client, "subscribe a b c|");
    let source = rig.bring_up_pinned(0);
    rig.sends(source, &(said("subscribe", "a", Some(1)) + &said("subscribe", "b", Some(2))));
    rig.sends(source, &said("subscribe", "c", Some(3)));
    rig.taken(client);
    let other = rig.client();
    rig.client_sends(other, "subscribe a|");
    assert_eq!(rig.taken(other), "-ERR max number of subscriptions reached|");
    rig.client_sends(client, "subscribe a|unsubscribe b|");
    rig.client_sends(other, "subscribe a|");
    assert_eq!(rig.taken(other), said("subscribe", "a", Some(1)));
}

/// Lines that a monitor got, without their times.
fn shown(rig: &mut Rig, client: ConnId) -> Vec<String> {
    let text = rig.taken(client);
    let lines = text.split_terminator('|').map(|line| match line.split_once(" [") {
        Some((time, rest)) if time.starts_with('+') => format!("[{rest}"),
        _ => line.to_owned(),
    });
    lines.collect()
}

#[test]
fn monitors_see_the_requests_of_all_workers() {
    let mut rigs = Rig::workers(2, 1);
    let [monitor, other] = [0, 1].map(|worker| rigs[worker].client());
    rigs[0].client_sends(monitor, "monitor|monitor|ping|");
    assert_eq!(shown(&mut rigs[0], monitor), ["+OK", "+PONG", r#"[0 127.0.0.1:50000] "ping""#]);
    rigs[1].client_sends(other, "set a 1|get a b|select 3|auth x y|client list|hello 2 auth u p|save|");
    // The SELECT and the requests behind it wait for earlier replies.
    rigs[1].node_sends(0, "+OK|");
    deliver_mail(&mut rigs);
    let expected = [
        r#"[0 127.0.0.1:50100] "set" "a" "1""#,
        r#"[3 127.0.0.1:50100] "select" "3""#,
        r#"[3 127.0.0.1:50100] "auth" "(redacted)" "(redacted)""#,
        r#"[3 127.0.0.1:50100] "hello" "2" "auth" "(redacted)" "(redacted)""#,
    ];
    assert_eq!(shown(&mut rigs[0], monitor), expected);
    rigs[0].client_sends(monitor, "get a|publish a b|reset|");
    let refused = "-ERR Replica can't interact with the keyspace";
    assert_eq!(shown(&mut rigs[0], monitor), [refused, refused, "+RESET"]);
    rigs[1].client_sends(other, "ping|");
    assert!(rigs[1].proxy.poll_mail().is_none(), "nobody wants to see it");
}

#[test]
fn a_monitor_that_goes_is_shown_nothing_any_more() {
    let mut rig = Rig::ready(1);
    let [monitor, other] = [0, 1].map(|_| rig.client());
    rig.client_sends(monitor, "monitor|client info|");
    assert!(rig.taken(monitor).contains(" flags=O "));
    rig.event(Event::Closed { conn: monitor, reason: "reset" });
    rig.client_sends(other, "ping|");
    assert!(!rig.proxy.core.monitor.is_on);
}

#[test]
fn a_pattern_without_permission_closes_its_client() {
    let users = "user default on nopass ~* &* +@all\nuser bob on >b ~* resetchannels &news* &n? +@all";
    let mut rig = Rig::ready_with_users(1, users);
    let (client, admin) = (rig.client(), rig.client());
    rig.client_sends(
        client,
        "auth bob b|subscribe news other|subscribe news|psubscribe news*|psubscribe n*|",
    );
    let source = rig.bring_up_pinned(0);
    let denied = "-NOPERM this user has no permissions to access one of the channels used as arguments|";
    rig.sends(source, &said("subscribe", "news", Some(1)));
    rig.sends(source, &said("psubscribe", "news*", Some(2)));
    let told = said("subscribe", "news", Some(1)) + &said("psubscribe", "news*", Some(2));
    assert_eq!(rig.taken(client), format!("+OK|{denied}{told}{denied}"));
    rig.client_sends(admin, "acl setuser bob resetchannels &news*|");
    assert!(!rig.is_closed(client), "it may listen to both");
    rig.client_sends(admin, "acl setuser bob resetchannels &news|");
    assert_eq!(rig.taken(admin), "+OK|+OK|");
    assert!(rig.is_closed(client));
    assert_eq!(rig.proxy.pending().topics, 0);
}

#[test]
fn subscribers_are_shown_as_such() {
    let mut rigs = Rig::workers(2, 1);
    let (client, _) = subscribed(&mut rigs[0], 0, "a");
    let asker = rigs[1].client();
    rigs[1].client_sends(asker, "client list type pubsub|");
    deliver_mail(&mut rigs);
    let line = rigs[1].taken(asker);
    assert!(line.contains(" flags=P db=0 sub=1 psub=0 ssub=0 "), "{line}");
    rigs[1].client_sends(asker, "client list type normal|");
    deliver_mail(&mut rigs);
    let lines = rigs[1].taken(asker);
    assert!(lines.lines().filter(|line| line.contains("id=")).count() == 1, "{lines}");
    rigs[0].pass(Duration::from_secs(1));
    rigs[1].client_sends(asker, "info clients|");
    assert!(rigs[1].taken(asker).contains("|pubsub_clients:1|"));
    rigs[1].client_sends(asker, "client kill type pubsub|");
    deliver_mail(&mut rigs);
    assert_eq!(rigs[1].taken(asker), ":1|");
    assert!(rigs[0].is_closed(client));
}

#[test]
fn unsubscribe_is_confirmed_despite_a_silent_node() {
    let mut rig = Rig::ready(1);
    let (client, source) = subscribed(&mut rig, 0, "a");
    rig.client_sends(client, "unsubscribe a|get k|");
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.taken(client), "");
    rig.pass(Duration::from_secs(2));
    assert!(rig.is_closed(source));
    assert_eq!(rig.taken(client), said("unsubscribe", "a", Some(0)) + "$-1|");
    assert_eq!(rig.proxy.counters().message_gaps, 0, "nobody missed a message");
    // The node does not count the link any more.
    let publisher = rig.client();
    rig.client_sends(publisher, "publish a hi|");
    assert!(rig.node_got(0).ends_with("publish|$1|a|$2|hi|"));
    rig.node_sends(0, ":1|");
    assert_eq!(rig.taken(publisher), ":1|");
}

#[test]
fn messages_follow_the_clients_protocol() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.change_profile(client, Profile { resp3: true, ..Profile::default() });
    rig.client_sends(client, "subscribe a|");
    let source = rig.bring_up_pinned(0);
    rig.sends(source, &said("subscribe", "a", Some(1)));
    rig.client_sends(client, "get k|hello 2|");
    let profile = rig.bring_up_greeted(0, "*2|$5|HELLO|$1|3|*1|$4|PING|", "%0|+PONG|");
    rig.taken(client);
    rig.sends(source, &message("a", "hi"));
    assert_eq!(rig.taken(client), "", "it would be taken for the value");
    rig.sends(profile, "_|");
    let told = rig.taken(client);
    assert!(told.starts_with("_|*14|$6|server|") && told.ends_with(&message("a", "hi")), "{told}");
}

#[test]
fn a_client_gets_messages_behind_its_own_subscription() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "hello 3|");
    rig.taken(client);
    rig.client_sends(client, "subscribe a|subscribe b|ping|publish b hi|");
    let source = rig.bring_up_pinned(0);
    assert_eq!(rig.taken(source), said("subscribe", "a", None) + &said("subscribe", "b", None));
    rig.sends(source, &said("subscribe", "a", Some(1)));
    assert_eq!(rig.taken(client), as_push(&said("subscribe", "a", Some(1))));
    assert_eq!(rig.last_pinned(), Some(source), "nothing was published, over whatever connection");
    rig.sends(source, &said("subscribe", "b", Some(2)));
    assert_eq!(rig.taken(client), as_push(&said("subscribe", "b", Some(2))) + "+PONG|");
    let node = rig.bring_up_greeted(0, "*2|$5|HELLO|$1|3|*1|$4|PING|", "%1|$5|proto|:3|+PONG|");
    assert_eq!(rig.taken(node), "*3|$7|publish|$1|b|$2|hi|");
    rig.sends(source, &message("b", "hi"));
    rig.sends(node, ":1|");
    assert_eq!(rig.taken(client), as_push(&message("b", "hi")) + ":1|");
}

/// The message `said` of RESP2, as RESP3 has it.
fn as_push(said: &str) -> String {
    said.replacen('*', ">", 1)
}
