//! Transcripts of commands that wait. `|` stands for CR LF.

use crate::EngineLimits;
use crate::cross_slot::remedy::Remedy;
use crate::testing::{Rig, crossed, deliver_mail};
use crate::{ConnId, Event, Limits};
use std::time::Duration;

const CLIENT_ID: &str = "*2|$6|CLIENT|$2|ID|";
const BLPOP: &str = "*3|$5|blpop|$1|q|$1|0|";

/// Lets `client` wait for an element of `q` without a timeout, on a new link that the node numbers 77.
fn waiting(rig: &mut Rig, client: ConnId) -> ConnId {
    rig.client_sends(client, "blpop q 0|");
    let held = rig.pinned_now();
    assert_eq!(rig.taken(held), format!("{CLIENT_ID}{BLPOP}"));
    rig.sends(held, ":77|");
    held
}

#[test]
fn a_blocked_client_does_not_delay_others() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    let held = waiting(&mut rig, client);
    rig.client_sends(other, "rpush q x|");
    rig.node_sends(0, ":1|");
    assert_eq!(rig.taken(other), ":1|");
    rig.sends(held, "*2|$1|q|$1|x|");
    assert_eq!(rig.taken(client), "*2|$1|q|$1|x|");
    // The next client gets the link.
    rig.client_sends(other, "blpop q 0|");
    assert_eq!(rig.taken(held), format!("{CLIENT_ID}{BLPOP}"));
}

#[test]
fn a_wait_is_reported_once_the_node_has_it() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    let is_seen = |rig: &mut Rig| {
        rig.client_sends(other, "client list id 1|");
        rig.taken(other).contains("flags=b")
    };
    rig.client_sends(client, "blpop q 0|");
    let held = rig.pinned_now();
    rig.taken(held);
    assert!(!is_seen(&mut rig), "another client's request could still be there before it");
    rig.sends(held, ":77|");
    assert!(is_seen(&mut rig));
    rig.sends(held, "*2|$1|q|$1|x|");
    assert!(!is_seen(&mut rig));
}

#[test]
fn blocking_command_runs_alone_in_its_clients_order() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (key, other) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("rpush {key} x|ping|get {other}|blpop {key} 0|get {key}|ping|"));
    rig.node_sends(0, ":1|");
    assert_eq!(rig.taken(client), ":1|+PONG|");
    assert_eq!(rig.last_pinned(), None);
    rig.node_got(0);
    rig.node_sends(1, "$-1|");
    let held = rig.pinned_now();
    assert!(rig.taken(held).ends_with(&format!("*3|$5|blpop|${}|{key}|$1|0|", key.len())));
    assert_eq!((rig.taken(client).as_str(), rig.node_got(0).as_str()), ("$-1|", ""));
    rig.sends(held, ":5|*2|$1|q|$1|x|");
    assert_eq!(rig.taken(client), "*2|$1|q|$1|x|");
    assert_eq!(rig.node_got(0), format!("*2|$3|get|${}|{key}|", key.len()));
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.taken(client), "$-1|+PONG|");
}

#[test]
fn client_leaving_while_blocked_closes_its_link_at_once() {
    for half_closed in [true, false] {
        let mut rig = Rig::ready(1);
        let client = rig.client();
        let held = waiting(&mut rig, client);
        rig.client_sends(client, "get a|");
        assert!(!rig.is_paused(client), "its end must be seen");
        match half_closed {
            true => rig.event(Event::Ended { conn: client }),
            false => rig.event(Event::Closed { conn: client, reason: "gone" }),
        }
        assert!(rig.is_closed(held));
        assert_eq!((rig.proxy.pending().conns_held, rig.proxy.held_bytes()), (0, 0));
    }
}

#[test]
fn a_half_closed_client_does_not_begin_a_queued_wait() {
    // With this limit, every reply of a new client is expected to be large. Only one client at a time may have a
    // large reply.
    let mut rig = Rig::ready_with(
        1,
        Limits {
            engine: EngineLimits { large_bytes: 20, pinned_clients_max: 1, ..EngineLimits::default() },
            ..Limits::default()
        },
    );
    let (other, client) = (rig.client(), rig.client());
    rig.client_sends(other, "get a|");
    let pinned = rig.pinned_now();
    rig.client_sends(client, "blpop q 0|get b|");
    rig.event(Event::Ended { conn: client });
    rig.taken(pinned);
    // A later element of the queue must not be popped for a client that may have gone.
    rig.sends(pinned, "$1|a|");
    assert_eq!((rig.taken(client).as_str(), rig.is_closed(client)), ("", true));
    assert_eq!(
        (rig.proxy.pending().conns_held, rig.has_sent(pinned), rig.node_got(0).as_str()),
        (0, false, "")
    );
}

#[test]
fn half_closed_blocked_client_gets_earlier_replies() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.stick(client);
    rig.client_sends(client, "ping|blpop q 0|ping|");
    let held = rig.pinned_now();
    rig.event(Event::Ended { conn: client });
    assert!(rig.is_closed(held) && !rig.is_closed(client));
    rig.unstick(client);
    assert_eq!(rig.taken(client), "+PONG|");
    assert!(rig.is_closed(client));
}

#[test]
fn input_behind_a_wait_is_bounded() {
    let mut rig = Rig::ready_with(
        1,
        Limits {
            engine: EngineLimits { waiting_input_bytes_max: 10, ..EngineLimits::default() },
            ..Limits::default()
        },
    );
    let client = rig.client();
    let held = waiting(&mut rig, client);
    rig.client_sends(client, "get a|get a|");
    assert!(rig.is_paused(client));
    rig.sends(held, "*-1|");
    assert_eq!(rig.taken(client), "*-1|");
    rig.node_sends(0, "$-1|$-1|");
    assert!(!rig.is_paused(client));
}

#[test]
fn a_half_request_behind_a_wait_is_not_late() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    waiting(&mut rig, client);
    rig.client_sends(client, "get");
    rig.pass(Duration::from_secs(3600));
    assert!(!rig.is_closed(client));
}

#[test]
fn a_wait_has_its_own_time_and_some_more() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "blpop q 2.5|");
    let held = rig.pinned_now();
    rig.sends(held, ":77|");
    rig.pass(Duration::from_millis(3400));
    assert_eq!(rig.taken(client), "");
    rig.pass(Duration::from_millis(200));
    let text = rig.taken(client);
    assert_eq!(text, "-ERR node timeout after 1000 ms, outcome unknown (shard 127.0.0.1:7000)|");
    assert!(rig.is_closed(held));
    rig.client_sends(client, "ping|");
    assert_eq!(rig.taken(client), "+PONG|");
}

#[test]
fn node_lost_during_a_blocking_command_is_outcome_unknown() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let held = waiting(&mut rig, client);
    rig.event(Event::Ended { conn: held });
    assert_eq!(rig.taken(client), "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7000)|");
    assert_eq!(rig.proxy.pending().conns_held, 0);
}

#[test]
fn keys_on_several_shards_cannot_be_waited_for() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    for (line, remedy) in [
        (format!("blpop {a} {b} 0"), Remedy::Emulation),
        (format!("blmove {a} {b} left left 0"), Remedy::HashTag),
        (format!("bzmpop 0 2 {a} {b} min"), Remedy::Emulation),
        (format!("xreadgroup group g c block 0 streams {a} {b} > >"), Remedy::Emulation),
    ] {
        rig.client_sends(client, &format!("{line}|"));
        assert_eq!(rig.taken(client), crossed(remedy), "{line}");
    }
}

#[test]
fn a_read_of_a_stream_without_block_goes_with_the_others() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "xread streams s 0|");
    assert_eq!(rig.node_got(0), "*4|$5|xread|$7|streams|$1|s|$1|0|");
}

#[test]
fn in_a_transaction_nothing_waits() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "multi|blpop q 0|exec|");
    assert_eq!(rig.node_got(0), format!("*1|$5|MULTI|{BLPOP}*1|$4|EXEC|"));
}

#[test]
fn too_many_waits_are_refused() {
    let mut rig = Rig::ready_with(1, Limits { held_conns_max: 1, ..Limits::default() });
    let (client, other) = (rig.client(), rig.client());
    waiting(&mut rig, client);
    rig.client_sends(other, "blpop q 0|ping|");
    assert_eq!(
        rig.taken(other),
        "-TRYAGAIN shard 127.0.0.1:7000 unavailable: too many clients hold a link of their own|+PONG|"
    );
}

#[test]
fn a_waiting_client_is_unblocked_by_its_node() {
    for (reason, sent) in [("", "$7|TIMEOUT|"), (" error", "$5|ERROR|")] {
        let mut rig = Rig::ready(1);
        let (client, other) = (rig.client(), rig.client());
        let held = waiting(&mut rig, client);
        rig.client_sends(other, &format!("client unblock 1{reason}|ping|"));
        assert_eq!(rig.node_got(0), format!("*4|$6|CLIENT|$7|UNBLOCK|$2|77|{sent}"));
        rig.sends(held, "*-1|");
        assert_eq!(rig.taken(client), "*-1|");
        rig.node_sends(0, ":1|");
        assert_eq!(rig.taken(other), ":1|+PONG|");
        assert!(rig.is_closed(held), "a CLIENT UNBLOCK that comes late must not meet another client");
    }
}

#[test]
fn a_client_that_does_not_wait_is_not_unblocked() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(client, "get a|");
    rig.client_sends(other, "client unblock 1|client unblock 999|client unblock x|client unblock 1 x|");
    assert_eq!(
        rig.taken(other),
        ":0|:0|-ERR value is not an integer or out of range|-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR|"
    );
}

#[test]
fn unblock_of_a_new_wait_waits_for_its_link() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(client, "blpop q 0|");
    rig.client_sends(other, "client unblock 1|");
    let held = rig.pinned_now();
    assert_eq!(rig.node_got(0), "");
    rig.sends(held, ":9|");
    assert_eq!(rig.node_got(0), "*4|$6|CLIENT|$7|UNBLOCK|$1|9|$7|TIMEOUT|");
    // The same with a client whose link fails meanwhile.
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(client, "blpop q 0|");
    rig.client_sends(other, "client unblock 3|");
    let held = rig.bring_up_pinned(0);
    rig.event(Event::Ended { conn: held });
    assert_eq!(rig.taken(other), ":0|");
}

#[test]
fn a_node_that_hides_the_number_of_a_connection_cannot_unblock() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(client, "blpop q 0|");
    let held = rig.pinned_now();
    rig.sends(held, "-NOPERM this user has no permissions|");
    rig.client_sends(other, "client unblock 1|");
    assert_eq!(rig.taken(other), ":0|");
    rig.sends(held, "*-1|");
    assert_eq!(rig.taken(client), "*-1|");
}

#[test]
fn clients_of_other_workers_are_unblocked_too() {
    let mut rigs = Rig::workers(2, 1);
    let client = rigs[0].client();
    let held = waiting(&mut rigs[0], client);
    let other = rigs[1].client();
    rigs[1].client_sends(other, "client unblock 1|");
    deliver_mail(&mut rigs);
    assert_eq!(rigs[1].node_got(0), "*4|$6|CLIENT|$7|UNBLOCK|$2|77|$7|TIMEOUT|");
    rigs[0].sends(held, "*-1|");
    rigs[1].node_sends(0, ":1|");
    assert_eq!((rigs[0].taken(client).as_str(), rigs[1].taken(other).as_str()), ("*-1|", ":1|"));
}

#[test]
fn client_list_and_kill_find_waiting_clients() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    let held = waiting(&mut rig, client);
    rig.client_sends(other, "client list id 1|");
    assert!(rig.taken(other).contains(" flags=b "));
    rig.client_sends(other, "client kill id 1|");
    assert_eq!(rig.taken(other), ":1|");
    assert!(rig.is_closed(client) && rig.is_closed(held));
}

#[test]
fn a_large_reply_to_a_wait_is_held_until_it_is_whole() {
    let mut rig = Rig::ready_with(
        1,
        Limits {
            engine: EngineLimits { large_bytes: 20, relay_bytes_max: 30, ..EngineLimits::default() },
            ..Limits::default()
        },
    );
    let client = rig.client();
    rig.client_sends(client, "ping|");
    rig.taken(client);
    let held = waiting(&mut rig, client);
    rig.sends(held, "*2|$1|q|$40|0123456789");
    rig.sends(held, "012345678901234567890123456789|");
    assert_eq!(rig.taken(client), "*2|$1|q|$40|0123456789012345678901234567890123456789|");
}

#[test]
fn bytes_behind_the_end_of_a_wait_are_dropped() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let held = waiting(&mut rig, client);
    rig.sends(held, "*-1|+INJECTED|");
    assert_eq!(rig.taken(client), "*-1|");
    assert!(rig.is_closed(held));
    assert_eq!(rig.proxy.pending().conns_held, 0);
}

#[test]
fn draining_unblocks_waiting_clients_at_their_nodes() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let held = waiting(&mut rig, client);
    rig.proxy.drain(rig.now);
    rig.perform();
    assert_eq!(rig.node_got(0), "*4|$6|CLIENT|$7|UNBLOCK|$2|77|$7|TIMEOUT|");
    assert!(!rig.is_closed(client) && !rig.is_closed(held));
    rig.sends(held, "*2|$1|q|$1|x|");
    rig.node_sends(0, ":0|");
    assert_eq!(rig.taken(client), "*2|$1|q|$1|x|", "what came at the last moment is not lost");
    assert!(rig.is_closed(client) && rig.proxy.is_drained());
}

#[test]
fn info_counts_waiting_clients() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    let held = waiting(&mut rig, client);
    for count in [1, 0] {
        rig.client_sends(other, "info clients|");
        assert!(rig.taken(other).contains(&format!("blocked_clients:{count}|")));
        if count == 1 {
            rig.sends(held, "*-1|");
        }
    }
}

const PAUSED: &str = "+OK|";

#[test]
fn a_pause_of_writes_lets_reads_pass() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(other, "client pause 500 write|set a 0|");
    assert_eq!((rig.taken(other).as_str(), rig.node_got(0).as_str()), (PAUSED, ""), "its own too");
    rig.client_sends(client, "get a|set a 1|get a|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.taken(client), "$-1|", "and nothing overtakes what is held back");
    rig.client_sends(other, "nosuch|");
    rig.pass(Duration::from_millis(499));
    assert_eq!(rig.node_got(0), "");
    rig.pass(Duration::from_millis(1));
    let sent = rig.node_got(0);
    assert!(sent.contains("*3|$3|set|$1|a|$1|0|") && sent.contains("*3|$3|set|$1|a|$1|1|"), "{sent}");
}

#[test]
fn a_pause_ends_with_client_unpause() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(other, "client pause 100000 write|");
    rig.client_sends(client, "multi|set a 1|");
    rig.client_sends(other, "client list id 1|info clients|");
    let replies = rig.taken(other);
    assert!(replies.contains(" flags=xb ") && replies.contains("blocked_clients:1|"), "{replies}");
    rig.client_sends(other, "client unpause|");
    assert_eq!((rig.taken(client).as_str(), rig.taken(other).as_str()), ("+OK|+QUEUED|", "+OK|"));
    // An EXEC that writes is held back.
    rig.client_sends(other, "client pause 100 write|");
    rig.client_sends(client, "exec|");
    rig.client_sends(other, "multi|get a|exec|");
    assert_eq!(rig.node_got(0), "*1|$5|MULTI|*2|$3|get|$1|a|*1|$4|EXEC|");
    rig.pass(Duration::from_millis(100));
    assert!(rig.node_got(0).starts_with("*1|$5|MULTI|*3|$3|set|"));
}

#[test]
fn a_pause_of_all_holds_back_client_unpause() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(client, "client pause 100|client unpause|ping|");
    rig.client_sends(other, "get|quit|");
    assert_eq!(rig.taken(client), PAUSED);
    assert_eq!(rig.taken(other), "-ERR wrong number of arguments for 'get' command|+OK|");
    rig.pass(Duration::from_millis(100));
    assert_eq!(rig.taken(client), "+OK|+PONG|");
}

#[test]
fn a_pause_is_made_longer_and_wider_but_not_shorter() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(other, "client pause 200 write|client pause 100 write|client pause 50 all|");
    rig.client_sends(client, "get a|");
    rig.pass(Duration::from_millis(199));
    assert_eq!(rig.node_got(0), "");
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");
}

#[test]
fn a_client_that_leaves_during_a_pause_is_not_served() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(other, "client pause 100 write|");
    rig.client_sends(client, "set a 1|");
    rig.event(Event::Ended { conn: client });
    assert!(rig.is_closed(client));
    rig.client_sends(other, "info clients|");
    assert!(rig.taken(other).contains("blocked_clients:0|"));
    rig.pass(Duration::from_millis(100));
    assert_eq!(rig.node_got(0), "");
}

#[test]
fn client_pause_is_parsed_as_in_redis() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(
        client,
        "client pause x|client pause -1|client pause 1 x|client pause 1 all x|client pause 0|ping|",
    );
    assert_eq!(
        rig.taken(client),
        "-ERR timeout is not an integer or out of range|-ERR timeout is negative|-ERR CLIENT PAUSE mode must be WRITE \
         or ALL|-ERR unknown subcommand or wrong number of arguments for 'pause'. Try CLIENT HELP.|+OK|+PONG|"
    );
}

#[test]
fn all_workers_are_paused() {
    let mut rigs = Rig::workers(2, 1);
    let (client, other) = (rigs[0].client(), rigs[1].client());
    rigs[0].client_sends(client, "client pause 100|");
    deliver_mail(&mut rigs);
    rigs[1].client_sends(other, "ping|");
    assert_eq!((rigs[0].taken(client).as_str(), rigs[1].taken(other).as_str()), (PAUSED, ""));
    rigs[1].pass(Duration::from_millis(100));
    assert_eq!(rigs[1].taken(other), "+PONG|");
}

#[test]
fn a_half_closed_client_does_not_begin_to_wait() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get a|blpop q 0|ping|");
    rig.event(Event::Ended { conn: client });
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.taken(client), "$-1|");
    assert!(rig.is_closed(client));
    assert_eq!((rig.last_pinned(), rig.proxy.pending().conns_held), (None, 0));
}
