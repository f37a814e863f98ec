//! Odd input: framed as by Redis, or refused, wherever the network cuts it.
//!
//! A proxy that sees other request boundaries than the node behind it lets one client smuggle requests past it. One that counts
//! replies wrongly gives one client's data to another. `items.rs` holds the inputs, this file sends them.

mod items;
mod limits;
mod refusals;

use crate::harness::client::{Client, Ended, bulk, request};
use crate::harness::stamp::StampedClients;
use crate::harness::{RedisServer, World, show};
use items::{Expect, ITEMS, Item};
use std::cell::RefCell;

/// The result of an input: all bytes before the marker or the end, and which of the two came.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    replies: String,
    goes_on: bool,
}

#[test]
fn odd_input_is_answered_as_redis_does_or_refused() {
    let (oracle, subject) = (Place::redis(), Place::shardis());
    for item in ITEMS {
        assert_eq!(subject.outcome(&[item.bytes]), expected(item, &oracle), "{}", show(item.bytes));
    }
}

#[test]
fn odd_input_is_the_same_wherever_it_is_cut() {
    let (oracle, subject) = (Place::redis(), Place::shardis());
    for item in ITEMS {
        let expected = expected(item, &oracle);
        for cut in 1..item.bytes.len() {
            let (head, tail) = item.bytes.split_at(cut);
            assert_eq!(subject.outcome(&[head, tail]), expected, "{} cut at {cut}", show(item.bytes));
        }
        let bytes: Vec<&[u8]> = item.bytes.chunks(1).collect();
        assert_eq!(subject.outcome(&bytes), expected, "{} byte by byte", show(item.bytes));
    }
}

#[test]
fn requests_before_a_protocol_error_run_and_later_ones_not() {
    let (oracle, subject) = (Place::redis(), Place::shardis());
    let mut direct = Client::connect(subject.port);
    for (index, item) in ITEMS.iter().enumerate() {
        let expected = expected(item, &oracle);
        if expected.goes_on {
            continue;
        }
        let [one, two, last] = ["one", "two", "last"].map(|name| format!("{name}:{index}"));
        let set = |key: &str| request(&[b"SET", key.as_bytes(), b"1"]);
        let bytes = [&set(&one)[..], &set(&two), item.bytes, &set(&last)].concat();
        let expected = Outcome { replies: format!("+OK\\r\\n+OK\\r\\n{}", expected.replies), goes_on: false };
        assert_eq!(subject.outcome(&[&bytes]), expected, "valid, valid, {}, valid", show(item.bytes));
        assert_eq!(direct.ask(&format!("EXISTS {one} {two}")), ":2\\r\\n", "before {}", show(item.bytes));
        assert_eq!(direct.ask(&format!("EXISTS {last}")), ":0\\r\\n", "behind {}", show(item.bytes));
    }
}

#[test]
fn other_clients_do_not_notice_odd_input() {
    let subject = Place::shardis();
    let others = StampedClients::start(subject.port, 2, 20);
    for item in ITEMS {
        for cut in [1, item.bytes.len() / 2, item.bytes.len() - 1] {
            let (head, tail) = item.bytes.split_at(cut);
            subject.outcome(&[head, tail]);
        }
    }
    let tally = others.finish();
    assert_eq!((tally.refused(), tally.unknown()), (0, 0), "{tally:?}");
    assert!(tally.answered() > 0, "{tally:?}");
}

/// The required result of `item`; asks `oracle` where Redis decides.
fn expected(item: &Item, oracle: &Place) -> Outcome {
    let (reply, goes_on) = match item.expect {
        Expect::AsRedis => return oracle.outcome(&[item.bytes]),
        Expect::Refused(reply) => (reply, false),
        Expect::Answered(reply) => (reply, true),
    };
    Outcome { replies: reply.escape_ascii().to_string(), goes_on }
}

/// A server to send odd input to, which serves all its clients in one thread.
struct Place {
    port: u16,
    /// A request between two pieces: its reply shows that the piece before was read.
    bystander: RefCell<Client>,
    _processes: (Option<RedisServer>, Option<World>),
}

impl Place {
    fn redis() -> Place {
        let server = RedisServer::reference();
        let bystander = RefCell::new(server.connect());
        Place { port: server.port, bystander, _processes: (Some(server), None) }
    }

    fn shardis() -> Place {
        let world = World::with_flags(4, &["--workers=1"]);
        let bystander = RefCell::new(world.connect());
        Place { port: world.proxy.port, bystander, _processes: (None, Some(world)) }
    }

    /// Sends `pieces`, each as a segment of its own, and a marker behind them. Reads up to the marker's reply or to the end of
    /// the connection.
    #[track_caller]
    fn outcome(&self, pieces: &[&[u8]]) -> Outcome {
        const MARKER: &[u8] = b"the marker behind odd input";
        let mut client = Client::connect(self.port);
        // From here on the one thread knows the connection, and serves ready sockets in the order of arrival.
        assert_eq!(client.command(&[b"PING"]), b"+PONG\r\n");
        for piece in pieces {
            client.send_if_open(piece);
            assert_eq!(self.bystander.borrow_mut().command(&[b"PING"]), b"+PONG\r\n");
        }
        client.send_if_open(&request(&[b"ECHO", MARKER]));
        let (replies, ended) = client.read_until(&bulk(MARKER));
        let replies = replies.escape_ascii().to_string();
        match ended {
            Ended::Marker => {
                // The connection is reset: an orderly end would leave thousands of sockets in TIME_WAIT.
                client.reset();
                Outcome { replies, goes_on: true }
            }
            // The marker may meet a closed socket; the replies must have come first.
            Ended::Closed | Ended::Reset => Outcome { replies, goes_on: false },
            Ended::Silent => panic!("neither a reply to the marker nor an end; before: {replies}"),
        }
    }
}
