//! Single steps of a machine. Worlds by seed are in `tests/worlds`.

use super::*;
use crate::class::tests::bytes;
use crate::level::Level;
use crate::requests::HELD_BYTES_MAX;
use crate::testing::settings;
use std::time::Duration;

const WORKER: Id = Id { index: 0, generation: 0 };

/// A machine with a worker, and the bytes that it has sent.
struct Bench {
    machine: Machine,
    now: Instant,
    /// Bytes for each rack.
    to_racks: Vec<Vec<u8>>,
    to_worker: Vec<u8>,
    /// Batches that are not durable yet.
    batches: Vec<(u64, Vec<Record>)>,
}

impl Bench {
    /// Racks that are up, of which the first is the local one.
    fn up(racks: &str, write: Level) -> Bench {
        let settings = Settings { write, ..settings(racks) };
        let count = settings.racks.len();
        let kept = vec![Kept { is_known: true, ..Kept::default() }; count];
        let now = Instant::from_nanos(1_000_000_000);
        let mut machine = Machine::new(settings, kept, now);
        // Its requests would stand among those of the test.
        machine.comparison = Comparison::new(Instant::NEVER);
        let to_racks = vec![Vec::new(); count];
        let mut bench = Bench { machine, now, to_racks, to_worker: Vec::new(), batches: Vec::new() };
        bench.machine.handle_client_opened(WORKER);
        bench.turn();
        for rack in 0..count {
            bench.machine.handle_connected(rack, bench.now);
            bench.turn();
            bench.reply(rack, ":7\r\n$10\r\nrun_id:abc\r\n+PONG\r\n");
        }
        bench.write_log();
        bench.to_racks.iter_mut().for_each(Vec::clear);
        bench
    }

    fn turn(&mut self) {
        self.machine.handle_time(self.now);
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::ToRack(rack, bytes) => self.to_racks[rack].extend(bytes),
                Action::ToClient(_, bytes) => self.to_worker.extend(bytes),
                Action::Log(batch, records) => self.batches.push((batch, records)),
                _ => {}
            }
        }
    }

    fn ask(&mut self, line: &str) {
        self.machine.handle_client_bytes(WORKER, &bytes(line), self.now);
        self.turn();
    }

    fn reply(&mut self, rack: usize, reply: &str) {
        self.machine.handle_rack_bytes(rack, reply.as_bytes(), self.now);
        self.turn();
    }

    fn write_log(&mut self) -> Vec<Record> {
        let mut all = Vec::new();
        while !self.batches.is_empty() {
            let (batch, records) = self.batches.remove(0);
            all.extend(records);
            self.machine.handle_logged(batch, true, self.now);
            self.turn();
        }
        all
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.turn();
    }

    /// The bytes for `rack` since the last call.
    fn sent(&mut self, rack: usize) -> Vec<u8> {
        std::mem::take(&mut self.to_racks[rack])
    }

    fn replies(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.to_worker)).into_owned()
    }
}

#[test]
fn a_write_goes_to_all_racks_and_waits_for_its_level() {
    let mut bench = Bench::up("a/1 a/2 a/3", Level::Quorum);
    bench.ask("SET k v");
    assert_eq!(
        [0, 1, 2].map(|rack| bench.sent(rack)),
        [bytes("SET k v"), bytes("SET k v"), bytes("SET k v")]
    );
    bench.reply(2, "+OK\r\n");
    assert_eq!(bench.replies(), "");
    bench.reply(0, "+OK\r\n");
    bench.reply(1, "+OK\r\n");
    assert_eq!(bench.replies(), "+OK\r\n");
    assert!(bench.batches.is_empty(), "nothing was missed");
}

#[test]
fn a_slow_rack_has_a_durable_hint_before_the_reply() {
    let mut bench = Bench::up("a/1 a/2 a/3", Level::Quorum);
    bench.ask("SET k v");
    bench.reply(0, "+OK\r\n");
    bench.reply(1, "+OK\r\n");
    assert_eq!(bench.replies(), "");
    bench.wait(Duration::from_millis(10));
    assert_eq!(bench.replies(), "", "the hint is not durable yet");
    let records = bench.write_log();
    assert!(matches!(&records[..], [Record::Hint { rack: 2, key, .. }] if **key == *b"k"), "{records:?}");
    assert_eq!(bench.replies(), "+OK\r\n");
    bench.reply(2, "+OK\r\n");
    bench.wait(Duration::from_millis(200));
    let records = bench.write_log();
    assert!(matches!(&records[..], [Record::Settled { rack: 2, .. }]), "{records:?}");
    assert_eq!(bench.machine.status().racks[2].state, RackState::Up);
}

#[test]
fn requests_for_a_key_wait_until_it_is_copied() {
    let mut bench = Bench::up("a/1 a/2", Level::Quorum);
    bench.ask("SPOP s");
    bench.ask("SADD s x");
    assert_eq!([0, 1].map(|rack| bench.sent(rack)), [bytes("SPOP s"), Vec::new()]);
    bench.reply(0, "$1\r\na\r\n");
    assert_eq!(bench.sent(0), [bytes("DUMP s"), bytes("PTTL s")].concat());
    bench.reply(0, "$1\r\nD\r\n:-1\r\n");
    assert_eq!(bench.sent(1), bytes("RESTORE s 0 D REPLACE"));
    assert_eq!((bench.replies(), bench.sent(0)), (String::new(), Vec::new()));
    bench.reply(1, "+OK\r\n");
    assert_eq!(bench.replies(), "$1\r\na\r\n");
    assert_eq!([0, 1].map(|rack| bench.sent(rack)), [bytes("SADD s x"), bytes("SADD s x")]);
}

#[test]
fn a_lost_rack_is_caught_up_by_copies_of_keys() {
    let mut bench = Bench::up("a/1 a/2", Level::One);
    bench.ask("INCR n");
    bench.reply(0, ":1\r\n");
    bench.machine.handle_rack_closed(1, "reset", bench.now);
    bench.turn();
    bench.write_log();
    assert_eq!((bench.replies(), bench.machine.status().racks[1].hints), (":1\r\n".to_owned(), 1));
    bench.wait(Duration::from_millis(50));
    bench.machine.handle_connected(1, bench.now);
    bench.turn();
    bench.reply(1, ":8\r\n$10\r\nrun_id:abc\r\n+PONG\r\n");
    assert!(bench.sent(1).ends_with(&bytes("CLIENT KILL ID 7")), "its earlier connection ends first");
    bench.reply(1, ":1\r\n");
    bench.sent(0);
    bench.write_log();
    assert_eq!(bench.sent(0), [bytes("DUMP n"), bytes("PTTL n")].concat());
    bench.reply(0, "$1\r\nD\r\n:5000\r\n");
    assert_eq!(bench.sent(1), bytes("RESTORE n 5000 D REPLACE"), "and the INCR is not sent again");
    bench.reply(1, "+OK\r\n");
    assert_eq!(bench.machine.status().racks[1].state, RackState::Up);
}

#[test]
fn requests_wait_while_too_many_bytes_are_in_flight() {
    let mut bench = Bench::up("a/1", Level::One);
    let large = "x".repeat(HELD_BYTES_MAX);
    bench.ask(&format!("SET a {large}"));
    bench.ask("SET b 1");
    assert_eq!(bench.sent(0), bytes(&format!("SET a {large}")));
    bench.reply(0, "+OK\r\n");
    bench.turn();
    assert_eq!((bench.replies().as_str(), bench.sent(0)), ("+OK\r\n", bytes("SET b 1")));
}

#[test]
fn the_last_rack_never_becomes_stale() {
    let mut bench = Bench::up("a/1 a/2", Level::One);
    assert!(bench.machine.may_be_stale(1));
    bench.machine.outdate(1, "for the test");
    assert!(!bench.machine.may_be_stale(0));
}
