//! Transcripts of nodes that shardis asks for their memory. `|` stands for CR LF.

use crate::event::Event;
use crate::testing::Rig;
use crate::{Board, ConnId, EngineLimits, Limits, NodeMemory, Settings};
use std::sync::Arc;
use std::time::Duration;

const QUESTION: &str = "*2|$4|INFO|$6|memory|";
const ROLE: &str = "*2|$4|INFO|$11|replication|";
const PING: &str = "*1|$4|PING|";
const MEMORY: &str = "$69|# Memory|used_memory:1048576|used_memory_human:1M|maxmemory:4096||";
const KNOWN: Option<NodeMemory> = Some(NodeMemory { used_bytes: 1_048_576, max_bytes: 4096 });
const NOPERM: &str = "-NOPERM this user has no permissions to run the 'info' command|";

/// Worker `worker` of two, and the connection to its node, which has answered the inspection with `inspected`.
fn rig(worker: usize, inspected: &str) -> (Rig, ConnId) {
    let settings = Settings { inspects_nodes: true, worker, workers: 2, ..Settings::default() };
    let mut rig = Rig::over("127.0.0.1:7000", Limits::default(), settings, &Arc::new(Board::new(2)));
    let conn = connect(&mut rig, inspected);
    (rig, conn)
}

fn connect(rig: &mut Rig, inspected: &str) -> ConnId {
    while !rig.is_connecting(0) {
        rig.pass(Duration::from_secs(1));
    }
    let conn = rig.node(0);
    rig.event(Event::Connected { conn });
    rig.sends(conn, "+PONG|");
    rig.sends(conn, inspected);
    rig.taken(conn);
    assert!(rig.is_up(0));
    conn
}

const INSPECTED: &str = "$28|redis_mode:standalone|a:b||$13|role:master||";

/// Passes `seconds` while the node answers with `reply` when it is asked for its memory. Returns how often it was.
fn pass(rig: &mut Rig, conn: ConnId, seconds: u64, reply: &str) -> usize {
    let mut asked = 0;
    for _ in 0..seconds {
        rig.pass(Duration::from_secs(1));
        let text = rig.taken(conn);
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let questions = [(QUESTION, reply), (ROLE, "$13|role:master||"), (PING, "+PONG|")];
            let known = questions.into_iter().find(|(question, _)| rest.starts_with(question));
            let (question, reply) = known.unwrap_or_else(|| panic!("nothing else is asked: {rest}"));
            asked += usize::from(question == QUESTION);
            rest = &rest[question.len()..];
            rig.sends(conn, reply);
        }
    }
    asked
}

fn memory(rig: &mut Rig) -> Option<NodeMemory> {
    rig.proxy.core.publish();
    rig.proxy.core.cx.board.page().nodes.nodes[0].memory
}

#[test]
fn the_first_worker_asks_every_ten_seconds() {
    let (mut first, conn) = rig(0, INSPECTED);
    assert_eq!(memory(&mut first), None);
    assert_eq!(pass(&mut first, conn, 2, MEMORY), 1);
    assert_eq!(memory(&mut first), KNOWN);
    assert_eq!(pass(&mut first, conn, 60, MEMORY), 6);
    let (mut second, conn) = rig(1, INSPECTED);
    assert_eq!(pass(&mut second, conn, 60, MEMORY), 0);
}

#[test]
fn memory_of_a_node_that_is_down_is_unknown() {
    let (mut rig, conn) = rig(0, INSPECTED);
    pass(&mut rig, conn, 2, MEMORY);
    assert_eq!(memory(&mut rig), KNOWN);
    rig.event(Event::Closed { conn, reason: "connection reset" });
    assert_eq!(memory(&mut rig), None);
}

#[test]
fn a_node_that_refuses_info_is_left_alone() {
    let (mut refusing, conn) = rig(0, &NOPERM.repeat(2));
    assert_eq!(pass(&mut refusing, conn, 60, NOPERM), 0);
    let (mut later, conn) = rig(0, INSPECTED);
    pass(&mut later, conn, 2, MEMORY);
    assert_eq!(pass(&mut later, conn, 60, NOPERM), 1);
    assert_eq!(memory(&mut later), None);
    assert_eq!(pass(&mut later, conn, 600, MEMORY), 6, "its rights may have changed");
    assert_eq!(memory(&mut later), KNOWN);
}

#[test]
fn a_node_that_loads_its_data_is_asked_again() {
    let (mut rig, conn) = rig(0, INSPECTED);
    assert_eq!(pass(&mut rig, conn, 30, "-LOADING Redis is loading the dataset in memory|"), 3);
    pass(&mut rig, conn, 10, MEMORY);
    assert_eq!(memory(&mut rig), KNOWN);
}

#[test]
fn a_link_that_takes_no_bytes_is_not_burdened() {
    let settings = Settings { inspects_nodes: true, ..Settings::default() };
    let engine = EngineLimits { request_timeout: Duration::from_secs(60), ..EngineLimits::default() };
    let limits = Limits { engine, ..Limits::default() };
    let mut rig = Rig::over("127.0.0.1:7000", limits, settings, &Arc::new(Board::new(1)));
    let conn = connect(&mut rig, INSPECTED);
    rig.stick(conn);
    let client = rig.client();
    rig.client_sends(client, "get a|");
    rig.pass(Duration::from_secs(3));
    assert!(!rig.is_closed(conn));
    rig.unstick(conn);
    assert_eq!(rig.taken(conn), format!("*2|$3|get|$1|a|{ROLE}"));
    rig.sends(conn, "$-1|$13|role:master||");
    assert_eq!(pass(&mut rig, conn, 1, MEMORY), 1, "as soon as it is free");
}

#[test]
fn a_figure_of_a_minute_ago_is_not_shown() {
    let (mut rig, conn) = rig(0, INSPECTED);
    pass(&mut rig, conn, 2, MEMORY);
    let loading = "-LOADING Redis is loading the dataset in memory|";
    pass(&mut rig, conn, 58, loading);
    assert_eq!(memory(&mut rig), KNOWN);
    pass(&mut rig, conn, 3, loading);
    assert_eq!(memory(&mut rig), None);
}
