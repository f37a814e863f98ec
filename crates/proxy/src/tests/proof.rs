//! Transcripts of nodes that must prove their identity. `|` stands for CR LF.

use crate::event::Event;
use crate::testing::Rig;
use topology::{NodeSpec, ShardSpec, Topology};

const PING: &str = "*1|$4|PING|";
pub(super) const MYID: &str = "*2|$7|CLUSTER|$4|MYID|";
const ROLE: &str = "*1|$4|ROLE|";
const SET: &str = "*3|$3|set|$1|k|$1|1|";

/// A cluster of one node, at port 7001, whose name is `identity`.
fn cluster(rig: &Rig, identity: &str) -> Topology {
    let primary = NodeSpec { identity: Some(identity.into()), ..NodeSpec::tcp("127.0.0.1", 7001) };
    let (name, slots) = (primary.label(), vec![0..=16383]);
    let shard = ShardSpec { name, primary: Some(primary), replicas: Vec::new(), slots };
    let before = &rig.proxy.core.cx.engine.topology;
    Topology::of_cluster(Some(before), before.epoch() + 1, &[shard]).expect("valid")
}

/// Connects the link to the node of `shard`, which says PONG and gets `question`.
fn greet(rig: &mut Rig, shard: u32, question: &str) -> crate::ConnId {
    let conn = rig.node(shard);
    rig.event(Event::Connected { conn });
    assert_eq!(rig.taken(conn), PING);
    rig.sends(conn, "+PONG|");
    assert_eq!(rig.taken(conn), question);
    conn
}

#[test]
fn stranger_at_a_nodes_address_gets_no_request() {
    let mut rig = Rig::cluster(1);
    rig.adopt(cluster(&rig, "abc"));
    let client = rig.client();
    rig.client_sends(client, "set k 1|");
    let stranger = greet(&mut rig, 1, MYID);
    rig.sends(stranger, "$3|abd|");
    let refusal = "-TRYAGAIN shard 127.0.0.1:7001 unavailable: another node answers at its address|";
    assert_eq!((rig.taken(client).as_str(), rig.taken(stranger).as_str()), (refusal, ""));
    assert!(rig.is_closed(stranger));
    rig.pass(std::time::Duration::from_secs(5));
    let node = greet(&mut rig, 1, MYID);
    rig.client_sends(client, "set k 1|");
    assert_ne!(rig.taken(client), "", "it is down as long as it has not shown who it is");
    rig.sends(node, "$3|abc|");
    rig.client_sends(client, "set k 1|");
    assert_eq!(rig.node_got(1), SET);
}

#[test]
fn a_node_that_has_another_name_now_is_asked_for_that_one() {
    let mut rig = Rig::cluster(1);
    rig.adopt(cluster(&rig, "abc"));
    rig.adopt(cluster(&rig, "abd"));
    let node = greet(&mut rig, 1, MYID);
    rig.sends(node, "$3|abd|");
    assert_eq!(rig.proxy.counters().nodes_up, 1);
}

#[test]
fn demoted_primary_gets_no_request_on_a_new_link() {
    let mut rig = Rig::ready(1);
    rig.promote(0, 1);
    let node = greet(&mut rig, 1, ROLE);
    let client = rig.client();
    rig.client_sends(client, "get k|");
    assert_eq!((rig.taken(node).as_str(), rig.taken(client).as_str()), ("", ""));
    rig.sends(node, "*5|$5|slave|$1|a|:1|$9|connected|:797|");
    let refusal = "-TRYAGAIN shard 127.0.0.1:7000 unavailable: it is no longer a primary|";
    assert_eq!((rig.taken(node).as_str(), rig.taken(client).as_str()), ("", refusal));
}
