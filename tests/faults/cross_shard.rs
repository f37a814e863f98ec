//! Commands over several shards while a node freezes: replies are true, and no write is lost.

use crate::harness::{World, poll_until};

/// Values that are renamed in one pipeline.
const VALUES: usize = 60;

/// For each value: its old name on shard 0, its new one on shard 1.
fn names(world: &World, round: usize) -> Vec<(String, String)> {
    let old = world.keys_on(0, &format!("old{round}-"));
    old.zip(world.keys_on(1, &format!("new{round}-"))).take(VALUES).collect()
}

#[test]
fn a_frozen_node_loses_no_value_that_is_renamed() {
    let world = World::with_flags(2, &["--cross-shard=emulate", "--request-timeout-ms=200", "--workers=1"]);
    let mut unknown = 0;
    for round in 0..6 {
        let names = names(&world, round);
        let mut client = world.connect();
        for (number, (old, _)) in names.iter().enumerate() {
            poll_until("a node that takes writes", || {
                (client.ask(&format!("SET {old} {number}")) == r"+OK\r\n").then_some(())
            });
        }
        client.send(
            names.iter().map(|(old, new)| format!("RENAME {old} {new}\r\n")).collect::<String>().as_bytes(),
        );
        let mut told: Vec<Vec<u8>> = (0..7 + round).map(|_| client.read_reply()).collect();
        let node = &world.nodes[round % 2];
        node.freeze();
        told.extend((told.len()..VALUES).map(|_| client.read_reply()));
        node.thaw();
        let [mut first, mut second] = [0, 1].map(|shard: usize| world.nodes[shard].connect());
        for (number, ((old, new), told)) in names.iter().zip(&told).enumerate() {
            let value = format!("${}\\r\\n{number}\\r\\n", number.to_string().len());
            let nil = r"$-1\r\n".to_owned();
            let left = (first.ask(&format!("GET {old}")), second.ask(&format!("GET {new}")));
            let told = told.escape_ascii().to_string();
            match told.split(' ').next() {
                Some(r"+OK\r\n") => assert_eq!(left, (nil, value), "{told}"),
                Some("-TRYAGAIN") => assert_eq!(left, (value, nil), "{told}"),
                _ => {
                    unknown += 1;
                    assert!(left.0 == value || left.1 == value, "{told} {left:?}");
                }
            }
        }
    }
    println!("{unknown} outcomes were not known");
}
