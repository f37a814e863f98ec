//! Transcripts of transactions with inlays, or with a SELECT. `|` stands for CR LF.

use crate::cross_slot::remedy::Remedy;
use crate::testing::{Rig, crossed};
use crate::{ConnId, Event, Limits, Settings};

const MULTI: &str = "*1|$5|MULTI|";
const EXEC: &str = "*1|$4|EXEC|";

#[test]
fn local_replies_keep_their_places_in_exec() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let key = rig.key(1);
    rig.client_sends(
        client,
        &format!("multi|client id|get {key}|client getname|acl whoami|echo x|command count x|exec|"),
    );
    let replies = rig.taken(client);
    assert!(replies.contains("-ERR wrong number of arguments for 'command|count' command|"), "{replies}");
    rig.client_sends(
        client,
        &format!("multi|client id|get {key}|client getname|acl whoami|echo x|role|exec|"),
    );
    assert_eq!(rig.taken(client), "+OK|".to_owned() + &"+QUEUED|".repeat(6));
    assert_eq!(rig.node_got(1), format!("{MULTI}*2|$3|get|${}|{key}|*2|$4|echo|$1|x|{EXEC}", key.len()));
    rig.node_sends(1, "+OK|+QUEUED|+QUEUED|*2|$1|v|$1|x|");
    assert_eq!(rig.taken(client), "*6|:1|$1|v|$-1|$7|default|$1|x|*3|$6|master|:0|*0|");
}

#[test]
fn local_effects_of_exec_follow_the_node_and_delay_the_next() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "multi|client setname x|get a|exec|client getname|get b|");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|");
    assert_eq!(rig.node_got(0), format!("{MULTI}*2|$3|get|$1|a|{EXEC}"));
    rig.node_sends(0, "+OK|+QUEUED|*1|$-1|");
    assert_eq!(rig.taken(client), "*2|+OK|$-1|$1|x|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|b|");
}

#[test]
fn failed_exec_has_no_local_effects() {
    for failure in ["-EXECABORT Transaction discarded because of previous errors.|", "*-1|", "*7|"] {
        let mut rig = Rig::ready(1);
        let client = rig.client();
        rig.client_sends(client, "multi|client setname x|get a|exec|client getname|");
        rig.taken(client);
        let values = if failure == "*7|" { "$-1|".repeat(7) } else { String::new() };
        rig.node_sends(0, &format!("+OK|+QUEUED|{failure}{values}"));
        let replies = rig.taken(client);
        let expected = if failure == "*7|" { "-ERR " } else { failure };
        assert!(replies.starts_with(expected) && replies.ends_with("$-1|"), "{replies}");
        assert!(rig.proxy.core.execs.mixtures.is_empty());
    }
}

#[test]
fn a_lost_transaction_is_an_error_and_the_client_goes_on() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "multi|client setname x|get a|exec|client getname|");
    rig.taken(client);
    let conn = rig.node(0);
    rig.event(Event::Ended { conn });
    let lost = "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7000)|";
    assert_eq!(rig.taken(client), format!("{lost}$-1|"));
    assert!(rig.proxy.core.execs.mixtures.is_empty());
}

#[test]
fn a_client_that_leaves_leaves_nothing_of_its_transaction() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "multi|client setname x|get a|exec|");
    rig.event(Event::Closed { conn: client, reason: "gone" });
    rig.node_sends(0, "+OK|+QUEUED|*1|$-1|");
    assert_eq!((rig.proxy.core.execs.mixtures.len(), rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn local_only_exec_needs_a_node_only_for_watched_keys() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "multi|client setname x|client getname|select 99|exec|client getname|");
    let queued = "+OK|+QUEUED|+QUEUED|+QUEUED|";
    assert_eq!(rig.taken(client), format!("{queued}*3|+OK|$1|x|-ERR DB index is out of range|$1|x|"));
    assert_eq!(rig.node_got(0), "");
    rig.client_sends(client, "watch a|");
    let held = rig.pinned_now();
    rig.sends(held, "+OK|");
    rig.taken(held);
    rig.client_sends(client, "multi|client setname y|exec|client getname|");
    assert_eq!(rig.taken(held), format!("{MULTI}{EXEC}"));
    rig.sends(held, "+OK|*-1|");
    assert_eq!(rig.taken(client), "+OK|+OK|+QUEUED|*-1|$1|x|");
    assert_eq!(rig.proxy.pending().conns_held, 0);
}

#[test]
fn inlays_are_bounded_and_counted() {
    let mut rig = Rig::ready_with(1, Limits { transaction_bytes_max: 200, ..Limits::default() });
    let client = rig.client();
    let name = "x".repeat(100);
    rig.client_sends(client, &format!("multi|client setname {name}|client setname {name}|exec|"));
    let replies = rig.taken(client);
    assert!(replies.starts_with("+OK|+QUEUED|-ERR "), "{replies}");
    rig.client_sends(client, "multi|get a|client id|");
    rig.taken(client);
    rig.client_sends(client, "client id|");
    assert_eq!(rig.taken(client), "+QUEUED|");
    let other = rig.client();
    rig.client_sends(other, "client list id 1|");
    assert!(rig.taken(other).contains(" multi=3 "));
}

#[test]
fn single_shard_transactions_allow_administration() {
    for shards in [1, 2] {
        let mut rig = Rig::ready_for_admin(shards);
        let client = rig.client();
        rig.client_sends(client, "multi|config get x|exec|");
        match shards {
            1 => assert_eq!(rig.node_got(0), format!("{MULTI}*3|$6|config|$3|get|$1|x|{EXEC}")),
            _ => assert!(rig.taken(client).contains("and this needs all")),
        }
    }
}

/// A client whose transaction, with a SELECT, was sent.
fn selecting(rig: &mut Rig) -> (ConnId, ConnId) {
    let client = rig.client();
    rig.client_sends(client, "multi|set a 0|select 3|set a 3|exec|get a|");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|+QUEUED|");
    let held = rig.pinned_now();
    let set = |value| format!("*3|$3|set|$1|a|$1|{value}|");
    assert_eq!(rig.taken(held), format!("{MULTI}{}*2|$6|select|$1|3|{}{EXEC}", set(0), set(3)));
    assert_eq!(rig.node_got(0), "", "nothing of it over what others use");
    (client, held)
}

const TO_3: (&str, &str) = ("*2|$6|SELECT|$1|3|*1|$4|PING|", "+OK|+PONG|");

#[test]
fn exec_with_select_uses_a_link_of_its_own() {
    let mut rig = Rig::ready(1);
    let (client, held) = selecting(&mut rig);
    rig.sends(held, "+OK|+QUEUED|+QUEUED|+QUEUED|*3|+OK|+OK|+OK|");
    assert_eq!(rig.taken(client), "*3|+OK|+OK|+OK|");
    assert!(rig.is_closed(held));
    assert_eq!((rig.node_got(0).as_str(), rig.proxy.pending().conns_held), ("", 0));
    let conn = rig.bring_up_greeted(0, TO_3.0, TO_3.1);
    assert_eq!(rig.taken(conn), "*2|$3|get|$1|a|");
}

#[test]
fn a_failed_select_keeps_the_database() {
    for replies in ["*3|+OK|-ERR no|+OK|", "-EXECABORT no|"] {
        let mut rig = Rig::ready(1);
        let (client, held) = selecting(&mut rig);
        rig.sends(held, &format!("+OK|+QUEUED|+QUEUED|+QUEUED|{replies}"));
        assert_eq!(rig.taken(client), replies);
        assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");
        assert!(rig.is_closed(held));
    }
}

#[test]
fn a_link_lost_during_select_is_an_error() {
    let mut rig = Rig::ready(1);
    let (client, held) = selecting(&mut rig);
    rig.event(Event::Ended { conn: held });
    assert!(rig.taken(client).starts_with("-ERR node connection lost"));
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");
    assert_eq!(rig.proxy.pending().conns_held, 0);
}

#[test]
fn every_command_is_queued_answered_or_refused_by_the_table() {
    let settings = Settings { allow_admin: true, ..Settings::default() };
    let mut rig = Rig::ready_as(2, Limits::default(), settings);
    let mut seen = [0; 3];
    for command in
        command::all().flat_map(|command| std::iter::once(command).chain(command.subcommands.iter()))
    {
        if command.carry == command::Carry::Container {
            continue;
        }
        let mut words: Vec<&str> = command.name.split('|').collect();
        words.resize(command.arity.unsigned_abs() as usize, "1");
        let client = rig.client();
        rig.client_sends(client, &format!("multi|{}|", words.join(" ")));
        let replies = rig.taken(client);
        let reply = replies.strip_prefix("+OK|").expect("MULTI");
        let name = &command.name;
        match command.within_transaction() {
            command::Within::AtOnce => {}
            command::Within::Asked | command::Within::KeptByOneShardOrAsked => {
                assert_eq!(reply, "+QUEUED|", "{name}")
            }
            command::Within::Kept | command::Within::Select | command::Within::Here
                if &**name != "config|get" =>
            {
                seen[0] += 1;
                assert!(
                    ["+QUEUED|", &crossed(Remedy::PerShard), &crossed(Remedy::HashTag)].contains(&reply),
                    "{name}: {reply}"
                );
            }
            command::Within::NotInRedis => {
                seen[1] += 1;
                assert_eq!(reply, "-ERR Command not allowed inside a transaction|", "{name}");
            }
            command::Within::Refused(command::Refusal::Unknown(_)) => {
                assert!(reply.starts_with("-ERR unknown command"), "{name}: {reply}");
            }
            command::Within::Refused(command::Refusal::Later(_)) => {
                assert!(reply.starts_with(&format!("-ERR command '{name}' is not supported")), "{reply}");
            }
            _ => {
                seen[2] += 1;
                let refused = format!("-ERR command '{name}' is not allowed through shardis: ");
                assert!(reply.starts_with(&refused), "{name}: {reply}");
            }
        }
        rig.event(Event::Closed { conn: client, reason: "done" });
    }
    assert!(seen.iter().zip([250, 4, 70]).all(|(seen, least)| *seen >= least), "{seen:?}");
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
}
