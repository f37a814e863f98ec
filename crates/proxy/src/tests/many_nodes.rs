//! Transcripts over a hundred nodes, ten of which fail at once. `|` stands for CR LF.

use crate::Event;
use crate::testing::Rig;
use std::time::Duration;

const NODES: u32 = 100;
const DOWN: u32 = 10;

/// A key on each node, in their order.
fn keys(rig: &Rig) -> Vec<String> {
    (0..NODES).map(|shard| rig.key(shard)).collect()
}

/// Cuts all links to ten nodes, and refuses new ones.
fn take_down(rig: &mut Rig) {
    for shard in 0..DOWN {
        let conn = rig.node(shard);
        rig.event(Event::Closed { conn, reason: "connection refused" });
    }
}

#[test]
fn a_hundred_nodes_answer_as_one() {
    let mut rig = Rig::ready(NODES as usize);
    let client = rig.client();
    let keys = keys(&rig);
    let pairs: Vec<String> = keys.iter().map(|key| format!("{key} v")).collect();
    rig.client_sends(client, &format!("mset {}|dbsize|mget {}|", pairs.join(" "), keys.join(" ")));
    for (shard, key) in (0..NODES).zip(&keys) {
        let len = key.len();
        let asked = format!("*3|$4|mset|${len}|{key}|$1|v|dbsize|*2|$4|mget|${len}|{key}|");
        assert_eq!(rig.node_got(shard).replace("*1|$6|dbsize|", "dbsize|"), asked, "{shard}");
        assert_eq!(rig.taken(client), "", "{shard} and later ones have not answered");
        rig.node_sends(shard, &format!("+OK|:{shard}|*1|$1|v|"));
    }
    let sum: u32 = (0..NODES).sum();
    assert_eq!(rig.taken(client), format!("+OK|:{sum}|*{NODES}|{}", "$1|v|".repeat(NODES as usize)));
}

#[test]
fn ten_failing_nodes_of_a_hundred_lose_only_their_keys() {
    let mut rig = Rig::ready(NODES as usize);
    let client = rig.client();
    let keys = keys(&rig);
    take_down(&mut rig);
    for (shard, key) in (0..NODES).zip(&keys) {
        rig.client_sends(client, &format!("get {key}|"));
        match shard < DOWN {
            true => {
                let refusal =
                    format!("-TRYAGAIN shard 127.0.0.1:{} unavailable: connection refused|", 7000 + shard);
                assert_eq!(rig.taken(client), refusal);
            }
            false => {
                rig.node_sends(shard, "$1|v|");
                assert_eq!(rig.taken(client), "$1|v|", "{shard}");
            }
        }
    }
    (DOWN..NODES).for_each(|shard| drop(rig.node_got(shard)));
    for request in [format!("mget {}|", keys.join(" ")), "dbsize|".to_owned()] {
        rig.client_sends(client, &request);
        assert_eq!(
            rig.taken(client),
            "-TRYAGAIN shard 127.0.0.1:7000 unavailable: connection refused|",
            "{request}"
        );
        assert!(
            (DOWN..NODES).all(|shard| rig.node_got(shard).is_empty()),
            "nothing of it is sent: {request}"
        );
    }
    rig.pass(Duration::from_secs(1));
    (0..DOWN).for_each(|shard| rig.bring_up(shard));
    rig.client_sends(client, &format!("get {}|", keys[0]));
    rig.node_sends(0, "$1|v|");
    assert_eq!(rig.taken(client), "$1|v|");
}

/// No connection is refused or closed: half of the nodes never answer.
#[test]
fn silent_half_of_the_nodes_loses_only_its_keys() {
    const GONE: u32 = NODES / 2;
    let mut rig = Rig::ready(NODES as usize);
    let keys = keys(&rig);
    let clients: Vec<_> = keys.iter().map(|_| rig.client()).collect();
    for (client, key) in clients.iter().zip(&keys) {
        rig.client_sends(*client, &format!("set {key} v|"));
    }
    let serve = |rig: &mut Rig| {
        for shard in GONE..NODES {
            let asked = rig.node_got(shard);
            let pings = asked.matches("*1|$4|PING|").count();
            let sets = asked.matches("|$3|set|").count();
            rig.node_sends(shard, &format!("{}{}", "+OK|".repeat(sets), "+PONG|".repeat(pings)));
        }
    };
    for _ in 0..30 {
        serve(&mut rig);
        rig.pass(Duration::from_millis(100));
    }
    for (shard, client) in (0..NODES).zip(&clients) {
        let reply = rig.taken(*client);
        match shard < GONE {
            true => assert!(reply.contains("outcome unknown"), "{shard}: {reply}"),
            false => assert_eq!(reply, "+OK|", "{shard}"),
        }
    }
    // No more requests go there, and no client waits for these nodes.
    for (shard, (client, key)) in (0..NODES).zip(clients.iter().zip(&keys)) {
        rig.client_sends(*client, &format!("set {key} w|"));
        if shard < GONE {
            assert!(rig.taken(*client).starts_with("-TRYAGAIN "), "{shard}");
        }
    }
    serve(&mut rig);
    assert!((GONE..NODES).all(|shard| rig.taken(clients[shard as usize]) == "+OK|"));
}
