//! Answers of the proxy's own that are much longer than their requests: the memory for them, and service for others meanwhile.
//! Speed is never judged.

use crate::harness::client::request;
use crate::harness::{Client, World, kernel};

/// Each is answered with 190 KB: 57 MB in all.
const ANSWERS: usize = 300;
/// Allowed growth of the proxy: a MiB for the client, one answer, and the allocator's reserve.
const GROWTH_MAX: u64 = 16 << 20;

/// A proxy with one worker, and its resident bytes once it has answered the test's request.
fn world() -> (World, Client, Vec<u8>, Option<u64>) {
    let world = World::with_flags(1, &["--workers=1"]);
    let mut other = world.connect();
    let answer = other.command(&[b"COMMAND"]);
    let before = kernel::resident_bytes(world.proxy.pid());
    (world, other, answer, before)
}

/// `greedy` has sent its requests and has read nothing. `other` is served, before and while `greedy` reads by `read`.
fn others_are_served(other: &mut Client, greedy: &mut Client, read: impl FnOnce(&mut Client) + Send) {
    let before = other.command(&[b"INCRBY", b"n", b"0"]);
    let before = resp::reply::as_integer(&before).expect("a number");
    for count in 1..=50 {
        assert_eq!(other.ask("INCR n"), format!(":{}\\r\\n", before + count));
    }
    std::thread::scope(|scope| {
        scope.spawn(move || read(greedy));
        for count in 51..=200 {
            assert_eq!(other.ask("INCR n"), format!(":{}\\r\\n", before + count));
        }
    });
}

#[track_caller]
fn assert_small(world: &World, before: Option<u64>) {
    if let (Some(before), Some(peak)) = (before, kernel::peak_resident_bytes(world.proxy.pid())) {
        assert!(peak < before + GROWTH_MAX, "{} KiB more than before", (peak - before) >> 10);
    }
}

#[test]
fn long_answers_within_exec_hold_little_and_delay_no_client() {
    let (world, mut other, answer, before) = world();
    let mut greedy = world.connect();
    let commands = request(&[b"COMMAND"]).repeat(ANSWERS);
    greedy.send(
        &[request(&[b"MULTI"]), request(&[b"SET", b"a", b"b"]), commands, request(&[b"EXEC"])].concat(),
    );
    for _ in 0..ANSWERS + 2 {
        greedy.read_reply();
    }
    others_are_served(&mut other, &mut greedy, |greedy| {
        let all = greedy.read_reply();
        let head = format!("*{}\r\n+OK\r\n", ANSWERS + 1);
        assert_eq!(all.len(), head.len() + ANSWERS * answer.len());
        assert!(all.ends_with(&answer) && all.starts_with(head.as_bytes()));
    });
    assert_small(&world, before);
}

#[test]
fn pipelined_long_replies_hold_little_memory() {
    let (world, mut other, answer, before) = world();
    let mut greedy = world.connect();
    greedy.send(&request(&[b"COMMAND"]).repeat(ANSWERS));
    others_are_served(&mut other, &mut greedy, |greedy| {
        (0..ANSWERS).for_each(|_| assert_eq!(greedy.read_reply().len(), answer.len()));
    });
    assert_small(&world, before);
}

#[test]
fn lists_of_many_clients_hold_little_and_delay_no_client() {
    let (world, mut other, _, _) = world();
    let name = vec![b'x'; 1024];
    let named: Vec<Client> = (0..100)
        .map(|_| {
            let mut client = world.connect();
            client.command(&[b"CLIENT", b"SETNAME", &name]);
            client
        })
        .collect();
    let before = kernel::resident_bytes(world.proxy.pid());
    let mut greedy = world.connect();
    greedy.send(&request(&[b"CLIENT", b"LIST"]).repeat(ANSWERS));
    others_are_served(&mut other, &mut greedy, |greedy| {
        (0..ANSWERS).for_each(|_| assert!(greedy.read_reply().len() > 100 * 1024));
    });
    assert_small(&world, before);
    drop(named);
}
