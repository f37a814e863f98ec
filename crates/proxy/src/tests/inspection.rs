//! Transcripts of nodes whose role and kind shardis asks for. `|` stands for CR LF.

use crate::event::{Event, Notice};
use crate::testing::Rig;
use crate::{Board, ConnId, Limits, Settings};
use std::sync::Arc;
use std::time::Duration;

const QUESTIONS: &str = "*2|$4|INFO|$6|server|*2|$4|INFO|$11|replication|";
const ROLE: &str = "*2|$4|INFO|$11|replication|";
const QUESTIONS_AGAIN: &str = "*2|$4|INFO|$11|replication|*2|$4|INFO|$6|server|";
const PING: &str = "*1|$4|PING|";
const PLAIN: &str = "redis_mode:standalone|run_id:abc|";
const PRIMARY: &str = "role:master|";
const REPLICA: &str = "role:slave|master_host:10.0.0.7|master_port:6379|slave_read_only:1|";

fn rig() -> Rig {
    // The first worker asks for the node's memory, too: see `node_memory.rs`.
    let settings = Settings { inspects_nodes: true, worker: 1, workers: 2, ..Settings::default() };
    Rig::over("127.0.0.1:7000", Limits::default(), settings, &Arc::new(Board::new(2)))
}

/// `text` as a reply to INFO.
fn bulk(text: &str) -> String {
    format!("${}|{text}|", text.replace('|', "\r\n").len())
}

/// Connects the node's link; checks the question about its kind.
fn greet(rig: &mut Rig) -> ConnId {
    while !rig.is_connecting(0) {
        rig.pass(Duration::from_secs(1));
    }
    let conn = rig.node(0);
    rig.event(Event::Connected { conn });
    assert_eq!(rig.taken(conn), PING);
    rig.sends(conn, "+PONG|");
    assert_eq!(rig.taken(conn), QUESTIONS);
    conn
}

/// Passes a minute in steps of a second. The node answers its requests, with `text` as INFO.
fn pass_a_minute(rig: &mut Rig, conn: ConnId, text: &str) {
    for _ in 0..60 {
        rig.pass(Duration::from_secs(1));
        let asked = rig.taken(conn);
        let mut rest = asked.as_str();
        while !rest.is_empty() {
            let (question, reply) = match rest.starts_with(PING) {
                true => (PING, "+PONG|".to_owned()),
                false => (ROLE, bulk(text)),
            };
            rest = rest.strip_prefix(question).expect("nothing else is asked");
            rig.sends(conn, &reply);
        }
    }
}

fn shard() -> String {
    "127.0.0.1:7000".to_owned()
}

#[test]
fn a_node_of_a_cluster_is_refused_and_clients_hear_why() {
    let mut rig = rig();
    let client = rig.client();
    rig.client_sends(client, "get k|");
    let conn = greet(&mut rig);
    rig.sends(conn, &bulk("redis_mode:cluster|"));
    let reason = "it is a node of a Redis Cluster; name it with --cluster, not --nodes";
    assert_eq!(rig.taken(client), format!("-TRYAGAIN shard 127.0.0.1:7000 unavailable: {reason}|"));
    assert!(rig.is_closed(conn));
    assert_eq!(rig.notices(), [Notice::NodeRefused { shard: shard(), reason: reason.to_owned() }]);
    let conn = greet(&mut rig);
    rig.sends(conn, &(bulk(PLAIN) + &bulk(PRIMARY)));
    assert_eq!(rig.notices(), [Notice::NodeUp { shard: shard() }]);
    assert!(rig.is_up(0));
}

#[test]
fn down_node_that_is_then_refused_is_reported_again() {
    let mut rig = rig();
    let conn = rig.node(0);
    rig.event(Event::Closed { conn, reason: "connection refused" });
    let reason = "connection refused".to_owned();
    assert_eq!(rig.notices(), [Notice::NodeDown { shard: shard(), reason }]);
    let conn = greet(&mut rig);
    rig.sends(conn, &bulk("redis_mode:sentinel|"));
    assert!(matches!(&rig.notices()[..], [Notice::NodeRefused { .. }]));
    let conn = greet(&mut rig);
    rig.sends(conn, &bulk("redis_mode:sentinel|"));
    assert_eq!(rig.notices(), [], "once");
}

#[test]
fn shardis_is_no_node_of_itself() {
    let mut rig = rig();
    let conn = greet(&mut rig);
    let own = rig.proxy.core.cx.run_id.clone();
    rig.sends(conn, &bulk(&format!("redis_mode:standalone|run_id:{own}|")));
    let notices = rig.notices();
    assert!(
        matches!(&notices[..], [Notice::NodeRefused { reason, .. }] if reason.contains("this shardis itself"))
    );
}

/// The INFO of a shardis whose node is the process `behind`.
fn shardis(behind: &str) -> String {
    format!("redis_mode:standalone|run_id:{}|shardis_behind:{behind}|", "b".repeat(40))
}

#[test]
fn a_shardis_that_has_this_one_as_a_node_is_refused() {
    let mut rig = rig();
    let conn = greet(&mut rig);
    let own = rig.proxy.core.cx.run_id.clone();
    rig.sends(conn, &bulk(&shardis(&own)));
    let notices = rig.notices();
    assert!(
        matches!(&notices[..], [Notice::NodeRefused { reason, .. }] if reason.contains("forwards to this one"))
    );
    assert!(rig.is_closed(conn));
    assert_eq!(rig.proxy.core.cx.node_health.inspection.behind(), "", "nothing is reached through it");
}

#[test]
fn a_shardis_that_gets_this_one_as_a_node_later_is_refused_then() {
    let mut rig = rig();
    let conn = greet(&mut rig);
    rig.sends(conn, &(bulk(&shardis("")) + &bulk(PRIMARY)));
    assert!(rig.is_up(0));
    assert_eq!(rig.proxy.core.cx.node_health.inspection.behind(), "b".repeat(40), "others learn of it");
    let own = rig.proxy.core.cx.run_id.clone();
    for _ in 0..60 {
        rig.pass(Duration::from_secs(1));
        match rig.taken(conn).as_str() {
            "" => {}
            PING => rig.sends(conn, "+PONG|"),
            QUESTIONS_AGAIN => rig.sends(conn, &(bulk(PRIMARY) + &bulk(&shardis(&own)))),
            asked => panic!("{asked}"),
        }
        if rig.is_closed(conn) {
            break;
        }
    }
    assert!(rig.is_closed(conn));
    assert_eq!(rig.proxy.core.cx.node_health.inspection.behind(), "");
}

#[test]
fn a_node_that_becomes_a_replica_is_used_and_logged() {
    let mut rig = rig();
    let conn = greet(&mut rig);
    rig.sends(conn, &(bulk(PLAIN) + &bulk(PRIMARY)));
    pass_a_minute(&mut rig, conn, PRIMARY);
    assert_eq!(rig.notices(), []);
    pass_a_minute(&mut rig, conn, REPLICA);
    let primary = "10.0.0.7:6379".to_owned();
    assert_eq!(rig.notices(), [Notice::NodeIsReplica { shard: shard(), primary }], "once");
    assert!(rig.is_up(0), "reads go on");
    pass_a_minute(&mut rig, conn, PRIMARY);
    assert_eq!(rig.notices(), [Notice::NodeIsPrimary { shard: shard() }]);
}

#[test]
fn a_replica_that_takes_writes_is_refused_also_later() {
    let writable = REPLICA.replace("read_only:1", "read_only:0");
    let mut rig = rig();
    let conn = greet(&mut rig);
    rig.sends(conn, &(bulk(PLAIN) + &bulk(PRIMARY)));
    pass_a_minute(&mut rig, conn, &writable);
    assert!(rig.is_closed(conn));
    let notices = rig.notices();
    assert!(matches!(&notices[..], [Notice::NodeRefused { reason, .. }] if reason.contains("takes writes")));
    let conn = greet(&mut rig);
    rig.sends(conn, &(bulk(PLAIN) + &bulk(&writable)));
    assert!(rig.is_closed(conn) && !rig.is_up(0));
}

#[test]
fn a_node_without_info_counts_as_the_configured_kind() {
    let mut rig = rig();
    let conn = greet(&mut rig);
    rig.sends(conn, "-NOPERM this user has no permissions to run the 'info' command|-ERR unknown command|");
    assert!(rig.is_up(0));
    for _ in 0..60 {
        rig.pass(Duration::from_secs(1));
        let asked = rig.taken(conn);
        assert!(["", PING].contains(&asked.as_str()), "it is not asked again: {asked}");
        if !asked.is_empty() {
            rig.sends(conn, "+PONG|");
        }
    }
    assert_eq!(rig.notices(), []);
}

#[test]
fn a_node_that_ends_the_connection_when_asked_is_asked_no_more() {
    let mut rig = rig();
    for _ in 0..2 {
        let conn = greet(&mut rig);
        rig.event(Event::Ended { conn });
        rig.pass(Duration::from_secs(5));
    }
    let conn = rig.node(0);
    rig.event(Event::Connected { conn });
    assert_eq!(rig.taken(conn), PING);
    rig.sends(conn, "+PONG|");
    assert_eq!((rig.taken(conn).as_str(), rig.is_up(0)), ("", true));
}
