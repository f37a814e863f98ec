//! Transcripts of long replies that shardis makes itself. shardis makes each piece as the client reads, and no client
//! waits for all of another's reply. `|` stands for CR LF.

use crate::EngineLimits;
use crate::testing::{Rig, deliver_mail};
use crate::{Action, ConnId, Event, Limits};
use stdx::Instant;

/// The length of the reply to COMMAND.
fn answer_bytes() -> usize {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "command|");
    rig.taken_bytes(client).len()
}

/// A client that takes no bytes. The node has run its transaction of a SET and `count` COMMANDs.
fn executed(rig: &mut Rig, count: usize) -> ConnId {
    let client = rig.client();
    rig.stick(client);
    rig.client_sends(client, &format!("multi|set a b|{}exec|", "command|".repeat(count)));
    rig.node_got(0);
    rig.node_sends(0, "+OK|+QUEUED|*1|+OK|");
    client
}

/// The bytes offered to each client in one turn, which all take.
fn sent_in_a_turn(rig: &mut Rig, to: ConnId) -> usize {
    let mut sent = 0;
    while let Some(action) = rig.proxy.poll_action() {
        if let Action::Send { conn, bytes } = action {
            let len = bytes.len();
            sent += if conn == to { len } else { 0 };
            rig.proxy.handle_sent(conn, len);
        }
    }
    sent
}

#[test]
fn answers_within_exec_are_made_as_their_client_reads() {
    let limits = Limits::default();
    let room = limits.engine.relay_bytes_max + answer_bytes();
    let mut rig = Rig::ready(1);
    let client = executed(&mut rig, 40);
    assert!(rig.proxy.held_bytes() < room + 8192, "{}", rig.proxy.held_bytes());
    let other = rig.client();
    rig.client_sends(other, "ping|");
    assert_eq!(rig.taken(other), "+PONG|");
    rig.unstick(client);
    let replies = rig.taken(client);
    let expected = {
        let mut rig = Rig::ready(1);
        let client = rig.client();
        rig.client_sends(client, "command|");
        format!("+OK|{}*41|+OK|{}", "+QUEUED|".repeat(41), rig.taken(client).repeat(40))
    };
    assert!(replies == expected, "{} bytes and not {}", replies.len(), expected.len());
    assert_eq!((rig.proxy.held_bytes(), rig.proxy.core.execs.mixtures.len()), (0, 0));
}

#[test]
fn a_client_gets_no_more_than_its_share_of_a_turn() {
    let limits = Limits::default();
    let room = limits.engine.relay_bytes_max + answer_bytes();
    let mut rig = Rig::ready(1);
    let client = executed(&mut rig, 40);
    rig.proxy.handle_event(Event::Writable { conn: client }, rig.now);
    let mut turns = 0;
    while {
        rig.proxy.resume_postponed(rig.now);
        true
    } {
        let sent = sent_in_a_turn(&mut rig, client);
        assert!(sent <= room, "{sent}");
        turns += 1;
        if !rig.proxy.has_postponed() {
            break;
        }
    }
    assert!(turns > 20, "{turns}");
    // The same without a transaction.
    let requests = "command\r\n".repeat(40);
    rig.proxy.handle_event(Event::Received { conn: client, bytes: requests.as_bytes() }, rig.now);
    let room = limits.engine.pending_bytes_max + answer_bytes();
    let sent = sent_in_a_turn(&mut rig, client);
    assert!(sent <= room, "{sent}");
    assert!(rig.proxy.has_postponed(), "the rest comes in the next turn");
}

#[test]
fn a_client_that_leaves_leaves_no_answers() {
    let mut rig = Rig::ready(1);
    let client = executed(&mut rig, 40);
    rig.event(Event::Closed { conn: client, reason: "gone" });
    assert_eq!((rig.proxy.held_bytes(), rig.proxy.core.execs.mixtures.len()), (0, 0));
}

#[test]
fn muted_requests_run_without_a_reply() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let commands = "command|".repeat(5_000);
    rig.client_sends(
        client,
        &format!("client reply off|multi|client setname x|{commands}exec|client reply on|client getname|"),
    );
    assert_eq!(rig.taken(client), "+OK|$1|x|");
    rig.client_sends(
        client,
        "client reply off|multi|set a b|client setname y|exec|client reply on|client getname|",
    );
    rig.node_sends(0, "+OK|+QUEUED|*1|+OK|");
    assert_eq!(rig.taken(client), "+OK|$1|y|");
    assert_eq!(rig.proxy.held_bytes(), "y".len(), "its name is left");
}

#[test]
fn replies_before_a_transaction_come_before_it() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (first, second) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("get {first}|multi|get {second}|client id|exec|get {first}|"));
    assert_eq!(rig.node_got(1), "", "what is laid in goes straight to the client");
    rig.node_got(0);
    rig.node_sends(0, "$1|1|");
    assert!(rig.node_got(1).contains("EXEC"));
    rig.node_sends(1, "+OK|+QUEUED|*1|$1|2|");
    rig.node_sends(0, "$1|3|");
    assert_eq!(rig.taken(client), "$1|1|+OK|+QUEUED|+QUEUED|*2|$1|2|:1|$1|3|");
}

#[test]
fn large_questions_to_all_shards_run_one_by_one() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    rig.client_sends(client, "keys *|keys *|slowlog get|slowlog get|");
    let conns = rig.bring_up_all_pinned();
    for _ in 0..2 {
        for &conn in &conns {
            assert_eq!(rig.taken(conn), "*2|$4|keys|$1|*|");
            rig.sends(conn, "*0|");
        }
    }
    for _ in 0..2 {
        let request = "*2|$7|slowlog|$3|get|";
        assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), (request, request));
        (0..2).for_each(|shard| rig.node_sends(shard, "*0|"));
    }
    assert_eq!(rig.taken(client), "*0|".repeat(4));
}

#[test]
fn one_list_of_clients_is_made_at_a_time() {
    let mut rigs = Rig::workers(2, 1);
    let clients = [rigs[0].client(), rigs[0].client()];
    for client in clients {
        rigs[0].client_sends(client, "client list|client list|");
    }
    let first = rigs[0].proxy.poll_mail().expect("the other worker is asked");
    assert!(rigs[0].proxy.poll_mail().is_none(), "the second waits for the first");
    rigs[1].proxy.handle_mail(first.1, Instant::ZERO);
    deliver_mail(&mut rigs);
    for client in clients {
        assert_eq!(rigs[0].taken(client).matches(" addr=").count(), 4, "two lists of two clients");
    }
    assert_eq!(rigs[0].proxy.pending().inquiries, 0);
}

#[test]
fn a_list_of_clients_waits_for_memory() {
    let limits = Limits {
        engine: EngineLimits { memory_bytes_max: 300_000, ..EngineLimits::default() },
        ..Limits::default()
    };
    let mut rig = Rig::ready_with(1, limits);
    let full = rig.client();
    rig.stick(full);
    rig.client_sends(full, "command|command|");
    let other = rig.client();
    rig.client_sends(other, "client list|");
    assert_eq!(rig.taken(other), "");
    rig.unstick(full);
    assert!(rig.taken(other).contains("cmd=client|list"));
}

/// A list stays in one piece, since its length stands in front of it. Each of these is 50 KB.
#[test]
fn lists_of_clients_that_all_ask_at_once_stay_within_memory() {
    let limits = Limits {
        engine: EngineLimits { memory_bytes_max: 400_000, ..EngineLimits::default() },
        ..Limits::default()
    };
    let mut rig = Rig::ready_with(1, limits);
    let clients: Vec<_> = (0..40).map(|_| rig.client()).collect();
    let name = format!("client setname {}|", "x".repeat(1000));
    for &client in &clients {
        rig.client_sends(client, &name);
        assert_eq!(rig.taken(client), "+OK|");
    }
    let mut held_max = 0;
    for &client in &clients {
        rig.stick(client);
        rig.client_sends(client, "client list|client list|");
        held_max = held_max.max(rig.proxy.held_bytes());
    }
    for &client in &clients {
        rig.unstick(client);
        held_max = held_max.max(rig.proxy.held_bytes());
    }
    assert!((200_000..350_000).contains(&held_max), "{held_max}: half, and the list that was made last");
    for &client in &clients {
        let lists = rig.taken(client);
        assert_eq!((lists.matches(" addr=").count(), lists.len() > 80_000), (80, true));
        assert!(!rig.is_closed(client));
    }
}

#[test]
fn no_more_is_described_at_once_than_the_limit_says() {
    let mut rig = Rig::ready_with(1, Limits { names_max: 3, ..Limits::default() });
    let client = rig.client();
    let refused =
        "-ERR the request names more commands or clients than the limit of the proxy. Ask for fewer at once|";
    rig.client_sends(client, "command info nosuch nosuch nosuch|command info a b c d|");
    assert_eq!(rig.taken(client), format!("*3|{}{refused}", "$-1|".repeat(3)));
    rig.client_sends(client, "client list id 7 8 9|client list id 1 1 1 1|");
    assert_eq!(rig.taken(client), format!("$0||{refused}"));
}
