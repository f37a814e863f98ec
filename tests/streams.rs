//! XREAD of streams that live on several nodes: a reader that continues from its last entry misses none.

use crate::harness::{Client, World, poll_until, seed_for, show};
use crate::transactions::wait_for_blocked;
use resp::reply::{as_bulk, elements};
use std::collections::BTreeMap;
use stdx::Prng;

/// A reader of all `keys`, with the last id of each that it has seen.
struct Reader {
    client: Client,
    seen: BTreeMap<String, String>,
    entries: usize,
}

impl Reader {
    fn of(client: Client, keys: &[String]) -> Reader {
        Reader { client, seen: keys.iter().map(|key| (key.clone(), "0-0".to_owned())).collect(), entries: 0 }
    }

    fn ask(&mut self, options: &str) {
        let keys: Vec<&str> = self.seen.keys().map(String::as_str).collect();
        let ids: Vec<&str> = self.seen.values().map(String::as_str).collect();
        let line = format!("XREAD {options} STREAMS {} {}", keys.join(" "), ids.join(" "));
        self.client.send_command(&line.split_whitespace().map(str::as_bytes).collect::<Vec<_>>());
    }

    /// Takes the reply. Returns the number of its entries, all of them in the order of their streams and behind earlier ones.
    fn take(&mut self) -> usize {
        let reply = self.client.read_reply();
        let Some(streams) = elements(&reply) else {
            assert_eq!(show(&reply), r"*-1\r\n");
            return 0;
        };
        let before = self.entries;
        for stream in streams {
            let mut parts = elements(stream).expect("a name and entries");
            let name = parts.next().and_then(as_bulk).expect("a name");
            let last = self.seen.get_mut(std::str::from_utf8(name).expect("text")).expect("was asked for");
            for entry in parts.next().and_then(elements).expect("entries") {
                let id = elements(entry).and_then(|mut entry| entry.next()).and_then(as_bulk).expect("an id");
                let id = String::from_utf8_lossy(id).into_owned();
                let expected: u64 = last.trim_end_matches("-0").parse().expect("a number");
                assert_eq!(id, format!("{}-0", expected + 1), "of {name:?}");
                *last = id;
                self.entries += 1;
            }
        }
        self.entries - before
    }
}

#[test]
fn a_continued_read_misses_no_entry_of_any_shard() {
    let mut prng = Prng::new(seed_for("a_continued_read_misses_no_entry_of_any_shard"));
    let world = World::with_flags(4, &["--workers=2"]);
    let keys: Vec<String> = (0..4).flat_map(|shard| world.keys_on(shard, "s").take(2)).collect();
    let (mut writer, mut added) = (world.connect(), BTreeMap::<String, u64>::new());
    let mut readers: Vec<Reader> = (0..3).map(|_| Reader::of(world.connect(), &keys)).collect();
    let mut total = 0;
    for _ in 0..150 {
        readers.iter_mut().for_each(|reader| reader.ask("COUNT 3 BLOCK 0"));
        for _ in 0..=prng.below(3) {
            let key = prng.pick(&keys);
            let number = added.entry(key.clone()).or_default();
            (*number, total) = (*number + 1, total + 1);
            let id = format!("{number}-0");
            let answer = writer.ask(&format!("XADD {key} {id} f v"));
            assert_eq!(answer, format!(r"${}\r\n{id}\r\n", id.len()));
        }
        for reader in &mut readers {
            assert!(reader.take() > 0, "something came for each");
        }
    }
    for reader in &mut readers {
        while reader.entries < total {
            reader.ask("");
            assert!(reader.take() > 0, "the rest is there");
        }
        reader.ask("BLOCK 1");
        assert_eq!(reader.take(), 0);
    }
}

/// A client that waits for new entries of the streams `keys`.
fn waiting(world: &World, keys: &[String]) -> Client {
    let mut client = world.connect();
    let ids = vec!["$"; keys.len()].join(" ");
    let line = format!("XREAD BLOCK 0 STREAMS {} {ids}", keys.join(" "));
    client.send_command(&line.split_whitespace().map(str::as_bytes).collect::<Vec<_>>());
    wait_for_blocked(&mut world.connect(), 1);
    client
}

fn stream_of(key: &str) -> String {
    format!(r"*1\r\n*2\r\n${}\r\n{key}\r\n*1\r\n*2\r\n$3\r\n7-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n", key.len())
}

#[test]
fn new_entries_are_read_from_any_shard() {
    let world = World::with_flags(3, &["--workers=2"]);
    let keys = world.key_on_each("s");
    let mut other = world.connect();
    for key in &keys {
        other.ask(&format!("XADD {key} 1-0 f old"));
    }
    for key in &keys {
        let mut client = waiting(&world, &keys);
        other.ask(&format!("XADD {key} 7-0 f v"));
        assert_eq!(show(&client.read_reply()), stream_of(key));
        assert_eq!(client.ask("PING"), r"+PONG\r\n");
        wait_for_blocked(&mut other, 0);
    }
    for node in &world.nodes {
        wait_for_blocked(&mut node.connect(), 0);
    }
}

#[test]
fn unblocked_or_closed_waits_leave_nothing_on_any_shard() {
    let world = World::with_flags(3, &["--workers=2"]);
    let keys = world.key_on_each("s");
    let mut other = world.connect();
    for (reason, expected) in
        [("", r"*-1\r\n"), (" ERROR", r"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")]
    {
        let mut client = waiting(&world, &keys);
        let clients = String::from_utf8(other.command(&[b"CLIENT", b"LIST"])).expect("text");
        let line = clients.lines().find(|line| line.contains("flags=b")).expect("it is seen");
        let id = line.trim_start_matches("id=").split_whitespace().next().expect("its number");
        assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}{reason}")), r":1\r\n");
        assert_eq!(show(&client.read_reply()), expected);
    }
    drop(waiting(&world, &keys));
    for node in &world.nodes {
        wait_for_blocked(&mut node.connect(), 0);
    }
}

#[test]
fn a_lost_node_does_not_delay_entries_of_others() {
    let mut world = World::with_flags(3, &["--workers=1"]);
    let keys = world.key_on_each("s");
    let mut other = world.connect();
    let mut client = waiting(&world, &keys);
    world.nodes[2].freeze();
    other.ask(&format!("XADD {} 7-0 f v", keys[1]));
    assert_eq!(show(&client.read_reply()), stream_of(&keys[1]));
    world.nodes[2].thaw();
    poll_until("the node again", || (other.ask(&format!("GET {}", keys[2])).starts_with('$')).then_some(()));
    let mut client = waiting(&world, &keys);
    world.nodes[2].kill();
    let reply = show(&client.read_reply());
    assert!(reply.starts_with(&format!("-TRYAGAIN shard {} unavailable: ", world.shard_name(2))), "{reply}");
    for node in &world.nodes[..2] {
        wait_for_blocked(&mut node.connect(), 0);
    }
}
