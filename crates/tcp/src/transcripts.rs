//! Transcripts of the core: events and their actions. No network, no clock.

use crate::core::{Action, Core, Limits, Notice};
use crate::nodes::{Balance, Nodes, Patience, Verdict};
use crate::probes::{Check, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Id, Instant};

/// A core with hands.
struct Rig {
    core: Core,
    nodes: Nodes,
    now: Instant,
    /// Bytes sent to each connection that the test has not taken yet.
    sent: BTreeMap<Id, Vec<u8>>,
    /// Connections to nodes in the order in which they were asked for.
    asked: Vec<(usize, Id)>,
    closed: Vec<Id>,
    paused: BTreeSet<Id>,
    finished: Vec<Id>,
    /// Bytes that a connection still takes; others take all.
    room: BTreeMap<Id, usize>,
    notices: Vec<Notice>,
}

const LIMITS: Limits =
    Limits { connect_timeout: Duration::from_secs(1), idle_timeout: Duration::from_secs(60) };
const PATIENCE: Patience = Patience { fails_max: 1, fail_timeout: Duration::from_secs(10) };

impl Rig {
    fn new(nodes: usize) -> Rig {
        let names = (0..nodes).map(|number| (format!("n{number}"), 1));
        Rig {
            core: Core::new(LIMITS, 1 << 16),
            nodes: Nodes::new(Balance::LeastConn, PATIENCE, names),
            now: Instant::ZERO + Duration::from_secs(1000),
            sent: BTreeMap::new(),
            asked: Vec::new(),
            closed: Vec::new(),
            paused: BTreeSet::new(),
            finished: Vec::new(),
            room: BTreeMap::new(),
            notices: Vec::new(),
        }
    }

    /// A client whose node has taken it: both connections.
    fn open(nodes: usize) -> (Rig, Id, Id) {
        let mut rig = Rig::new(nodes);
        let client = rig.accept(b"");
        let (_, node) = rig.asked[0];
        rig.connected(node);
        (rig, client, node)
    }

    fn accept(&mut self, header: &[u8]) -> Id {
        let source = "10.0.0.1:5000".parse().expect("an address");
        let client = self.core.accept(source, header, &mut self.nodes, self.now);
        self.perform();
        client
    }

    fn connected(&mut self, conn: Id) {
        self.core.handle_connected(conn, &mut self.nodes, self.now);
        self.perform();
    }

    fn closed(&mut self, conn: Id, reason: &str) {
        self.core.handle_closed(conn, reason, &mut self.nodes, self.now);
        self.perform();
    }

    fn ended(&mut self, conn: Id) {
        self.core.handle_ended(conn, &mut self.nodes, self.now);
        self.perform();
    }

    /// Bytes arrive as the worker hands them on.
    fn receive(&mut self, conn: Id, bytes: &[u8]) {
        assert!(!self.paused.contains(&conn), "who is paused is not read from");
        let taken = match self.core.target_of(conn, self.now) {
            Some(target) => self.take(target, bytes),
            None => 0,
        };
        if taken < bytes.len() {
            self.core.keep(conn, &bytes[taken..], &mut self.nodes, self.now);
        }
        self.perform();
    }

    fn take(&mut self, conn: Id, bytes: &[u8]) -> usize {
        let room = self.room.get_mut(&conn);
        let taken = room.as_ref().map_or(bytes.len(), |room| bytes.len().min(**room));
        if let Some(room) = room {
            *room -= taken;
        }
        self.sent.entry(conn).or_default().extend_from_slice(&bytes[..taken]);
        taken
    }

    /// `conn` takes `bytes` again.
    fn make_room(&mut self, conn: Id, bytes: usize) {
        self.room.insert(conn, bytes);
        self.core.handle_writable(conn);
        self.perform();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.core.handle_timeouts(&mut self.nodes, self.now);
        self.perform();
    }

    fn perform(&mut self) {
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Connect { conn, node } => self.asked.push((node, conn)),
                Action::Send { conn } => {
                    let bytes = self.core.waiting(conn).to_vec();
                    let taken = self.take(conn, &bytes);
                    self.core.handle_sent(conn, taken, &mut self.nodes, self.now);
                }
                Action::Pause { conn } => drop(self.paused.insert(conn)),
                Action::Resume { conn } => drop(self.paused.remove(&conn)),
                Action::Finish { conn } => self.finished.push(conn),
                Action::Close { conn } => self.closed.push(conn),
            }
        }
        while let Some(notice) = self.core.poll_notice() {
            self.notices.push(notice);
        }
    }

    fn taken(&mut self, conn: Id) -> String {
        self.sent.remove(&conn).unwrap_or_default().escape_ascii().to_string()
    }
}

#[test]
fn client_is_read_once_its_node_is_connected() {
    let mut rig = Rig::new(2);
    let client = rig.accept(b"");
    assert_eq!(rig.asked.len(), 1);
    assert!(rig.paused.contains(&client));
    let (_, node) = rig.asked[0];
    rig.connected(node);
    rig.receive(client, b"PING\r\n");
    assert_eq!(rig.taken(node), "PING\\r\\n");
    rig.receive(node, b"+PONG\r\n");
    assert_eq!(rig.taken(client), "+PONG\\r\\n");
    assert!(rig.closed.is_empty() && rig.notices.is_empty());
}

#[test]
fn the_header_comes_before_all_that_the_client_says() {
    let mut rig = Rig::new(1);
    let client = rig.accept(b"PROXY UNKNOWN\r\n");
    let (_, node) = rig.asked[0];
    rig.room.insert(node, 5);
    rig.connected(node);
    assert!(rig.paused.contains(&client));
    rig.make_room(node, 100);
    rig.receive(client, b"PING\r\n");
    assert_eq!(rig.taken(node), "PROXY UNKNOWN\\r\\nPING\\r\\n");
}

#[test]
fn a_full_receiver_stops_its_source() {
    let (mut rig, client, node) = Rig::open(1);
    rig.room.insert(client, 3);
    rig.receive(node, b"123456");
    assert!(rig.paused.contains(&node) && !rig.paused.contains(&client));
    rig.make_room(client, 2);
    assert!(rig.paused.contains(&node), "one byte waits still");
    // The other way goes on.
    rig.receive(client, b"abc");
    assert_eq!(rig.taken(node), "abc");
    rig.make_room(client, 100);
    assert!(rig.paused.is_empty());
    rig.receive(node, b"7");
    assert_eq!(rig.taken(client), "1234567");
}

#[test]
fn one_end_is_passed_on_and_the_other_way_goes_on() {
    let (mut rig, client, node) = Rig::open(1);
    rig.ended(client);
    assert_eq!((rig.finished.as_slice(), rig.closed.as_slice()), (&[node][..], &[][..]));
    rig.receive(node, b"+OK\r\n");
    assert_eq!(rig.taken(client), "+OK\\r\\n");
    rig.ended(node);
    assert_eq!(rig.closed, [client, node]);
    assert!(!rig.core.has_clients());
    assert_eq!(rig.core.clients_gone(), 1);
}

#[test]
fn an_end_follows_the_waiting_bytes() {
    let (mut rig, client, node) = Rig::open(1);
    rig.room.insert(node, 0);
    rig.receive(client, b"last words");
    rig.ended(client);
    assert!(rig.finished.is_empty());
    rig.make_room(node, 100);
    assert_eq!((rig.taken(node).as_str(), rig.finished.as_slice()), ("last words", &[node][..]));
}

#[test]
fn a_lost_client_takes_its_connection_to_the_node_with_it() {
    let (mut rig, client, node) = Rig::open(1);
    rig.closed(client, "reset");
    assert_eq!(rig.closed, [node]);
    assert!(!rig.core.has_clients());
    // A late event concerns no connection.
    rig.closed(node, "reset");
    rig.ended(client);
    assert_eq!(rig.core.target_of(node, rig.now), None);
}

#[test]
fn bytes_of_a_lost_node_still_arrive() {
    let (mut rig, client, node) = Rig::open(1);
    rig.room.insert(client, 1);
    rig.receive(node, b"+OK\r\n");
    rig.closed(node, "reset");
    assert!(rig.closed.is_empty() && rig.finished.is_empty());
    // Bytes of the client have nowhere to go meanwhile, and do not stop its reads.
    rig.receive(client, b"SET a 1\r\n");
    assert!(!rig.paused.contains(&client));
    rig.make_room(client, 100);
    assert_eq!((rig.taken(client).as_str(), rig.finished.as_slice()), ("+OK\\r\\n", &[client][..]));
    rig.ended(client);
    assert_eq!(rig.closed, [client]);
    assert!(rig.notices.is_empty(), "{:?}", rig.notices);
}

#[test]
fn a_client_that_stays_after_its_node_is_closed() {
    let (mut rig, client, node) = Rig::open(1);
    rig.closed(node, "reset");
    assert_eq!(rig.finished, [client]);
    rig.pass(Duration::from_secs(4));
    assert!(rig.closed.is_empty());
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.closed, [client]);
}

#[test]
fn a_client_that_has_ended_and_whose_node_is_lost_is_over() {
    let (mut rig, client, node) = Rig::open(1);
    rig.ended(client);
    rig.closed(node, "reset");
    assert_eq!(rig.closed, [client]);
}

#[test]
fn refused_connections_try_each_node_then_close_the_client() {
    let mut rig = Rig::new(2);
    let client = rig.accept(b"");
    let (first, conn) = rig.asked[0];
    rig.closed(conn, "refused");
    let (second, conn) = rig.asked[1];
    assert_ne!(first, second);
    let down = |node| Notice::Node(Verdict::Down { node: format!("n{node}"), reason: "refused".into() });
    assert_eq!(rig.notices, [down(first)]);
    rig.closed(conn, "refused");
    assert_eq!((rig.asked.len(), rig.closed.as_slice()), (2, &[client][..]));
    let none = Notice::NoNode { client: "10.0.0.1:5000".into(), reason: "refused".into() };
    assert_eq!(rig.notices[1..], [down(second), none]);
    assert!(!rig.core.has_clients());
    assert_eq!(rig.core.poll_deadline(), Instant::NEVER);
}

#[test]
fn connect_timeout_counts_as_refusal() {
    let mut rig = Rig::new(2);
    rig.accept(b"");
    let (_, first) = rig.asked[0];
    rig.pass(Duration::from_millis(999));
    assert_eq!(rig.asked.len(), 1);
    rig.pass(Duration::from_millis(1));
    assert_eq!((rig.asked.len(), rig.closed.as_slice()), (2, &[first][..]));
    // Too late: it was given up.
    rig.connected(first);
    let (_, second) = rig.asked[1];
    rig.connected(second);
    assert!(rig.paused.is_empty());
}

#[test]
fn a_client_that_leaves_while_its_node_is_sought_leaves_nothing() {
    let mut rig = Rig::new(2);
    let client = rig.accept(b"");
    let (node, conn) = rig.asked[0];
    rig.closed(client, "reset");
    assert_eq!(rig.closed, [conn]);
    // The client does not count for the node any more: the next two go to different ones.
    rig.accept(b"");
    rig.accept(b"");
    let chosen: BTreeSet<usize> = rig.asked[1..].iter().map(|(node, _)| *node).collect();
    assert!(chosen.len() == 2 && chosen.contains(&node));
}

#[test]
fn only_idle_pairs_are_closed() {
    let (mut rig, client, node) = Rig::open(1);
    rig.pass(Duration::from_secs(59));
    rig.receive(node, b"news");
    rig.pass(Duration::from_secs(59));
    assert!(rig.closed.is_empty());
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.closed, [client, node]);
    assert_eq!(rig.notices, [Notice::Idle { client: "10.0.0.1:5000".into() }]);
}

#[test]
fn without_an_idle_timeout_nothing_is_waited_for() {
    let mut rig = Rig::new(1);
    rig.core.limits.idle_timeout = Duration::ZERO;
    rig.accept(b"");
    rig.connected(rig.asked[0].1);
    assert_eq!(rig.core.poll_deadline(), Instant::NEVER);
}

/// A rig whose core looks after two nodes.
fn probing(kind: Kind) -> Rig {
    let mut rig = Rig::new(2);
    let check = Check { kind, every: Duration::from_secs(2), question: b"PING\r\n".to_vec() };
    rig.core.probe(check, 2, rig.now);
    rig.pass(Duration::ZERO);
    rig
}

#[test]
fn nodes_are_probed_in_turn_and_a_connection_is_enough() {
    let mut rig = probing(Kind::Tcp);
    assert_eq!(rig.asked.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0]);
    rig.connected(rig.asked[0].1);
    assert_eq!(rig.closed, [rig.asked[0].1]);
    rig.pass(Duration::from_secs(1));
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.asked.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 1, 0]);
}

#[test]
fn a_node_must_answer_its_ping_whole_and_in_time() {
    for (answer, lives) in [
        (&[b"+PO".as_slice(), b"NG\r\n"][..], true),
        (&[b"-NOAUTH Authentication required.\r\n"], true),
        (&[b"-LOADING Redis is loading the dataset in memory\r\n"], false),
        (&[b"HTTP/1.1 400 Bad Request\r\n"], false),
        (&[b"+PONG"], false),
    ] {
        let mut rig = probing(Kind::Ping);
        for _ in 0..3 {
            let (node, conn) = *rig.asked.last().expect("it is asked");
            assert_eq!(node, 0);
            rig.connected(conn);
            assert_eq!(rig.taken(conn), "PING\\r\\n");
            answer.iter().for_each(|part| rig.receive(conn, part));
            // Half a turn for the other node, half for this one.
            rig.pass(Duration::from_secs(1));
            if let Some((1, other)) = rig.asked.last().copied() {
                rig.connected(other);
                rig.receive(other, b"+PONG\r\n");
            }
            rig.pass(Duration::from_secs(1));
        }
        let is_down = rig.notices.iter().any(|notice| matches!(notice, Notice::Node(Verdict::Down { .. })));
        assert_eq!(is_down, !lives, "{answer:?}: {:?}", rig.notices);
    }
}

#[test]
fn clients_do_not_go_to_a_node_that_fails_its_probes() {
    let mut rig = probing(Kind::Tcp);
    for _ in 0..3 {
        let (node, conn) = *rig.asked.last().expect("it is asked");
        assert_eq!(node, 0);
        rig.closed(conn, "refused");
        rig.pass(Duration::from_secs(1));
        rig.connected(rig.asked.last().expect("the other").1);
        rig.pass(Duration::from_secs(1));
    }
    assert_eq!(rig.notices, [Notice::Node(Verdict::Down { node: "n0".into(), reason: "refused".into() })]);
    for _ in 0..4 {
        rig.accept(b"");
        assert_eq!(rig.asked.last().expect("it is asked").0, 1);
    }
}

#[test]
fn no_order_of_events_leaves_a_connection_or_a_count_behind() {
    for seed in 0..200 {
        let mut prng = stdx::Prng::new(seed);
        let mut rig = Rig::new(3);
        let mut conns: Vec<Id> = Vec::new();
        for _ in 0..200 {
            match prng.below(8) {
                0 => conns.push(rig.accept(b"header")),
                1 => rig.pass(Duration::from_millis(prng.below(5000))),
                _ => {
                    conns.extend(rig.asked.drain(..).map(|(_, conn)| conn));
                    let closed = std::mem::take(&mut rig.closed);
                    conns.retain(|conn| !closed.contains(conn));
                    if conns.is_empty() {
                        continue;
                    }
                    let conn = *prng.pick(&conns);
                    match prng.below(6) {
                        0 => rig.connected(conn),
                        1 => rig.ended(conn),
                        2 => {
                            conns.retain(|other| *other != conn);
                            rig.closed(conn, "reset");
                        }
                        3 => drop(rig.room.insert(conn, prng.below(3) as usize)),
                        4 => rig.make_room(conn, 100),
                        _ if !rig.paused.contains(&conn) => rig.receive(conn, b"bytes"),
                        _ => {}
                    }
                }
            }
        }
        // All clients leave.
        conns.extend(rig.asked.drain(..).map(|(_, conn)| conn));
        for conn in conns {
            rig.closed(conn, "reset");
        }
        rig.asked.drain(..).map(|(_, conn)| conn).collect::<Vec<_>>().into_iter().for_each(|conn| {
            rig.closed(conn, "reset");
        });
        rig.pass(Duration::from_secs(1000));
        assert!(!rig.core.has_clients(), "seed {seed}");
        assert!(rig.core.conns.is_empty(), "seed {seed}: {:?}", rig.core.conns);
        assert_eq!(rig.core.poll_deadline(), Instant::NEVER, "seed {seed}");
        assert_eq!(rig.nodes.clients(), 0, "seed {seed}");
    }
}
