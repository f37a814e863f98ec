//! Requests of clients, prepared before the clock runs, and the one reply that all of them get. Pure.

use crate::canned::{Canned, FILL};
use crate::frame::{Head, name};
use resp::encode;
use stdx::Prng;

/// The command that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Test {
    /// GET of one key
    Get,
    /// SET of one key
    Set,
    /// MGET of several keys
    Mget,
    /// MSET of several keys
    Mset,
    /// PING, which a proxy answers by itself
    Ping,
}

impl Test {
    /// The command's name.
    pub fn name(self) -> &'static str {
        match self {
            Test::Get => "GET",
            Test::Set => "SET",
            Test::Mget => "MGET",
            Test::Mset => "MSET",
            Test::Ping => "PING",
        }
    }
}

/// One kind of request.
#[derive(Clone, Debug, clap::Args)]
pub struct Workload {
    /// Command to send
    #[arg(long, value_enum, default_value = "get")]
    pub test: Test,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 3)]
    pub data: usize,
    /// Keys of one MGET or MSET
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub keys: u64,
    /// Number of different keys, drawn evenly
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub keyspace: u64,
}

impl Workload {
    /// Appends a request with keys drawn from `prng`.
    pub fn request(&self, prng: &mut Prng, out: &mut Vec<u8>) {
        let (keys, with_value) = match self.test {
            Test::Get => (1, false),
            Test::Set => (1, true),
            Test::Mget => (self.keys, false),
            Test::Mset => (self.keys, true),
            Test::Ping => (0, false),
        };
        encode::array_header(out, 1 + keys as usize * if with_value { 2 } else { 1 });
        encode::bulk(out, self.test.name().as_bytes());
        for _ in 0..keys {
            encode::bulk(out, key(prng.below(self.keyspace)).as_bytes());
            if with_value {
                encode::bulk(out, &vec![FILL; self.data]);
            }
        }
    }

    /// The reply to every such request, from a canned node or from one whose keys all hold `data` bytes of [`FILL`].
    pub fn reply(&self) -> Vec<u8> {
        let args = if self.test == Test::Mget { 1 + self.keys as usize } else { 2 };
        let mut reply = Vec::new();
        Canned::new(self.data).answer(Head { name: name(self.test.name().as_bytes()), args }, &mut reply);
        reply
    }

    /// Batches of `pipeline` requests, for clients to take in turn.
    pub fn batches(&self, pipeline: usize, seed: u64) -> Vec<Vec<u8>> {
        let mut prng = Prng::new(seed);
        let mut batches: Vec<Vec<u8>> = Vec::new();
        let mut bytes = 0;
        while batches.len() < BATCHES_MIN || (batches.len() < BATCHES_MAX && bytes < BATCHES_BYTES) {
            let mut batch = Vec::new();
            (0..pipeline).for_each(|_| self.request(&mut prng, &mut batch));
            bytes += batch.len();
            batches.push(batch);
        }
        batches
    }
}

/// The key number `number`, as redis-benchmark names it.
pub fn key(number: u64) -> String {
    format!("key:{number:012}")
}

/// Many batches, so that a proxy cannot keep parsed forms of them all.
const BATCHES_MAX: usize = 4096;
/// Few bytes, so that they stay in the processor's caches.
const BATCHES_BYTES: usize = 2 * 1024 * 1024;
/// Some variety even for large batches.
const BATCHES_MIN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(test: Test) -> Workload {
        Workload { test, data: 2, keys: 2, keyspace: 1 }
    }

    fn request(test: Test) -> String {
        let mut out = Vec::new();
        workload(test).request(&mut Prng::new(1), &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn requests_are_resp_with_keys_of_the_keyspace() {
        let key = "$16\r\nkey:000000000000\r\n";
        assert_eq!(request(Test::Get), format!("*2\r\n$3\r\nGET\r\n{key}"));
        assert_eq!(request(Test::Set), format!("*3\r\n$3\r\nSET\r\n{key}$2\r\nxx\r\n"));
        assert_eq!(request(Test::Mget), format!("*3\r\n$4\r\nMGET\r\n{key}{key}"));
        assert_eq!(request(Test::Mset), format!("*5\r\n$4\r\nMSET\r\n{key}$2\r\nxx\r\n{key}$2\r\nxx\r\n"));
        assert_eq!(request(Test::Ping), "*1\r\n$4\r\nPING\r\n");
    }

    #[test]
    fn the_expected_reply_is_that_of_a_canned_node() {
        let replies = [Test::Get, Test::Set, Test::Mget, Test::Ping]
            .map(|test| String::from_utf8(workload(test).reply()).expect("text"));
        assert_eq!(replies, ["$2\r\nxx\r\n", "+OK\r\n", "*2\r\n$2\r\nxx\r\n$2\r\nxx\r\n", "+PONG\r\n"]);
    }

    #[test]
    fn a_seed_names_its_batches() {
        let workload = Workload { test: Test::Get, data: 3, keys: 10, keyspace: 1000 };
        let batches = workload.batches(10, 1);
        assert_eq!(batches, workload.batches(10, 1));
        assert_ne!(batches, workload.batches(10, 2));
        assert_ne!(batches[0], batches[1]);
    }
}
