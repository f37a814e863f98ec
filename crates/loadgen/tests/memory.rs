//! The modes that measure memory, against a node of the same process that keeps values. Transferred bytes must add up, and a
//! wrong byte must be found. The measured process is the test itself, so no amount is checked.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "the nodes serve from a thread of their own")]

use std::cell::RefCell;
use std::sync::mpsc;

use clap::Parser;
use driver::Driver;
use loadgen::frame::Malformed;
use loadgen::service::{Answer, Service};
use loadgen::{idle, large, slow};
use resp::Request;
use resp::request::{RequestLimits, Scanned, Scanner};
use serde_json::Value;
use store::{Store, StoreSettings};

#[derive(Parser)]
enum Mode {
    Idle(idle::Options),
    Large(large::Options),
    Slow(slow::Options),
}

/// A node that keeps values.
struct Node {
    store: RefCell<Store>,
    fault: Fault,
}

/// Faults of the node.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    /// Has one wrong byte in a reply with at least this number of bytes.
    SpoilsFrom(usize),
    /// Answers MGET with an error.
    RefusesMget,
}

#[derive(Default)]
struct Conn {
    input: Vec<u8>,
    scanner: Scanner,
    owed: Vec<u8>,
}

impl Node {
    fn answer(&self, request: &Request<'_>) -> Vec<u8> {
        let mut reply = Vec::new();
        let mut store = self.store.borrow_mut();
        let caller = store.admit();
        store.run(caller, request, 0, &mut reply);
        store.dismiss(caller);
        match self.fault {
            Fault::SpoilsFrom(len) if reply.len() >= len => {
                let middle = reply.len() / 2;
                reply[middle] ^= 1;
            }
            Fault::RefusesMget if request.arg(0) == b"MGET" => reply = b"-ERR no\r\n".to_vec(),
            _ => {}
        }
        reply
    }
}

impl Answer for Node {
    type Conn = Conn;

    fn receive(&self, conn: &mut Conn, bytes: &[u8]) -> Result<(), Malformed> {
        conn.input.extend_from_slice(bytes);
        let (limits, mut args, mut inline) = (RequestLimits::default(), Vec::new(), Vec::new());
        loop {
            let scanned = conn.scanner.scan(&conn.input, &limits, &mut args, &mut inline);
            match scanned.map_err(|_| Malformed)? {
                Scanned::Request { len } => {
                    let reply = self.answer(&Request::new(&conn.input[..len], &args));
                    conn.owed.extend_from_slice(&reply);
                    conn.input.drain(..len);
                }
                Scanned::Incomplete => return Ok(()),
                Scanned::Inline { .. } | Scanned::Nothing { .. } => return Err(Malformed),
            }
        }
    }

    fn owed<'a>(&'a self, conn: &'a Conn) -> &'a [u8] {
        &conn.owed
    }

    fn sent(&self, conn: &mut Conn, count: usize) {
        conn.owed.drain(..count);
    }
}

/// Runs a mode against a fresh node.
fn run(mode: &str, fault: Fault) -> anyhow::Result<Value> {
    let (sender, ports) = mpsc::channel();
    // A store stays on its thread.
    std::thread::spawn(move || -> anyhow::Result<()> {
        let driver = Driver::new()?;
        let node = Node { store: RefCell::new(Store::new(StoreSettings::default())), fault };
        let service = Service::listen(&[0], node, &driver, 0)?;
        sender.send(service.ports()[0])?;
        service.serve(driver, false)
    });
    let port = ports.recv()?;
    let words = format!("loadgen {mode} --target 127.0.0.1:{port} --measure-pid {}", std::process::id());
    match Mode::parse_from(words.split_whitespace()) {
        Mode::Idle(options) => idle::run(&options),
        Mode::Large(options) => large::run(&options),
        Mode::Slow(options) => slow::run(&options),
    }
}

const SLOW: &str = "slow --clients 3 --keys 4 --value-bytes 100000 --stall-seconds 0.01";
const LARGE: &str = "large --value-bytes 3000000 --seconds 0.02 --rate 2000";

#[test]
fn clients_that_did_not_read_get_everything_in_the_end() {
    let report = run(SLOW, Fault::Nothing).expect("runs");
    let reply_bytes = "*4\r\n".len() + 4 * (100_000 + "$100000\r\n\r\n".len());
    assert_eq!(report["served_whole"], 3, "{report}");
    assert_eq!(report["received_bytes"], 3 * reply_bytes, "{report}");
    assert_eq!([&report["refused"], &report["closed"], &report["unfinished"]], [0, 0, 0], "{report}");
}

#[test]
fn a_refusal_is_counted_and_reported() {
    let report = run(SLOW, Fault::RefusesMget).expect("runs");
    assert_eq!((&report["refused"], &report["refusal"]), (&3.into(), &"-ERR no\r\n".into()), "{report}");
    assert_eq!(report["served_whole"], 0, "{report}");
}

#[test]
fn a_large_value_goes_in_and_out_while_others_are_answered() {
    for readers in ["fast", "slow"] {
        let report = run(&format!("{LARGE} --readers {readers}"), Fault::Nothing).expect("runs");
        for part in ["before", "set", "get", "after"] {
            let count = |whose: &str| report[part][format!("{whose}_latency_us")]["count"].as_u64();
            let kinds = count("others_get").zip(count("others_set")).map(|(gets, sets)| gets + sets);
            assert!(kinds.is_some() && kinds == count("others"), "{part}: {report}");
        }
        assert_ne!(report["before"]["others_latency_us"]["count"], 0, "{report}");
    }
}

#[test]
fn one_wrong_byte_of_a_large_reply_ends_the_run() {
    for mode in [SLOW, LARGE] {
        let error = run(mode, Fault::SpoilsFrom(100_000)).expect_err("a byte is wrong");
        assert!(error.to_string().starts_with("a wrong reply, in part "), "{error}");
    }
}

#[test]
fn idle_clients_are_asked_twice_and_right() {
    let report = run("idle --clients 5 --settle-seconds 0", Fault::Nothing).expect("runs");
    for step in ["open", "used_at_once", "used_in_turn", "settled", "closed"] {
        assert!(report[step]["rss_bytes"].is_u64(), "{step}: {report}");
    }
    let error =
        run("idle --clients 5 --settle-seconds 0", Fault::SpoilsFrom(9)).expect_err("a byte is wrong");
    assert!(error.to_string().starts_with("a wrong reply"), "{error}");
}
