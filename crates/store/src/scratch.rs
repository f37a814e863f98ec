//! A keyspace for one command. Values from several nodes are copied into it, the command runs, and the results are taken out
//! again. Nothing in it outlives the command.

use command::Evaluator;
use resp::Request;

use crate::caller_id::CallerId;
use crate::commands::dump;
use crate::database::NEVER;
use crate::formats::double::Doubles;
use crate::store::{Store, StoreSettings};
use crate::values::value::Value;

/// Copied values of several nodes.
pub struct Scratch {
    store: Store,
    caller: CallerId,
    now_ms: u64,
}

impl Scratch {
    /// An empty one, at unix time `now_ms` in milliseconds, which is the time of all its operations. `seed` is as in
    /// [`StoreSettings`].
    pub fn new(seed: u64, now_ms: u64) -> Scratch {
        let mut store = Store::new(StoreSettings { seed, ..StoreSettings::default() });
        store.keyspace.now_ms = now_ms;
        let caller = store.admit();
        Scratch { store, caller, now_ms }
    }

    /// An empty one behind the trait, for callers that know no store.
    pub fn boxed(seed: u64, now_ms: u64) -> Box<dyn Evaluator> {
        Box::new(Scratch::new(seed, now_ms))
    }

    fn put(&mut self, key: &[u8], value: Value, expires_at_ms: Option<u64>) {
        let expires_at = expires_at_ms.unwrap_or(NEVER);
        if expires_at >= self.now_ms {
            self.store.keyspace.set(key, value, expires_at);
        }
    }
}

impl Evaluator for Scratch {
    // Also accepts payloads of Redis 7.2 and Valkey up to 8, which the RESTORE command must refuse as Redis 7.0 does.
    fn load(&mut self, key: &[u8], payload: &[u8], expires_at_ms: Option<u64>) -> bool {
        let Some(value) = dump::read(payload, dump::NEWEST_VERSION_READ, &self.store.keyspace) else {
            return false;
        };
        // Redis 7.2 has a version of dumps of its own, and so tells how its nodes write doubles.
        if dump::version(payload).is_some_and(|version| version > dump::VERSION) {
            self.store.doubles = Doubles::Shortest;
        }
        self.put(key, value, expires_at_ms);
        true
    }

    fn put_text(&mut self, key: &[u8], text: &[u8], expires_at_ms: Option<u64>) {
        self.put(key, Value::Text(text.to_vec()), expires_at_ms);
    }

    fn run(&mut self, request: &Request<'_>, resp3: bool, out: &mut Vec<u8>) {
        self.store.callers.running(self.caller).is_resp3 = resp3;
        self.store.run(self.caller, request, self.now_ms, out);
    }

    fn has(&self, key: &[u8]) -> bool {
        self.store.keyspace.peek(key).is_some()
    }

    fn text(&self, key: &[u8]) -> Option<&[u8]> {
        match &self.store.keyspace.peek(key)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn dump(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.store.keyspace.peek(key).map(|entry| dump::write(&entry.value))
    }

    fn expires_at_ms(&self, key: &[u8]) -> Option<u64> {
        let expires_at = self.store.keyspace.peek(key)?.expires_at;
        (expires_at != NEVER).then_some(expires_at)
    }
}

#[cfg(test)]
mod tests {
    use resp::{Span, encode};

    use super::*;

    /// Runs `line` in `scratch`; the reply, with blanks for line ends.
    fn ask(scratch: &mut Scratch, line: &str) -> String {
        let (mut bytes, mut spans, mut out) = (Vec::new(), Vec::new(), Vec::new());
        for word in line.split(' ') {
            encode::bulk(&mut bytes, word.as_bytes());
            spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
        }
        scratch.run(&Request::new(&bytes, &spans), false, &mut out);
        String::from_utf8_lossy(&out).replace("\r\n", " ").trim_end().to_owned()
    }

    #[test]
    fn values_of_two_stores_meet_in_a_third() {
        let (mut one, mut other) = (Scratch::new(1, 1_000), Scratch::new(2, 1_000));
        ask(&mut one, "SADD a 1 2 3");
        ask(&mut other, "SADD b 3 4 x");
        let mut both = Scratch::new(3, 1_000);
        assert!(both.load(b"a", &one.dump(b"a").expect("there"), None));
        assert!(both.load(b"b", &other.dump(b"b").expect("there"), Some(5_000)));
        assert_eq!(ask(&mut both, "SINTERSTORE c a b"), ":1");
        assert_eq!(ask(&mut both, "SMEMBERS c"), "*1 $1 3");
        assert_eq!((both.expires_at_ms(b"b"), both.expires_at_ms(b"c")), (Some(5_000), None));
        assert!(!both.load(b"d", b"no payload", None) && !both.has(b"d"));
    }

    #[test]
    fn expired_values_are_absent() {
        let mut scratch = Scratch::new(1, 1_000);
        scratch.put_text(b"gone", b"x", Some(999));
        scratch.put_text(b"there", b"x", Some(1_000));
        assert_eq!((scratch.text(b"gone"), scratch.text(b"there")), (None, Some(&b"x"[..])));
        assert_eq!(ask(&mut scratch, "RENAME there elsewhere"), "+OK");
        assert_eq!(scratch.expires_at_ms(b"elsewhere"), Some(1_000));
    }

    #[test]
    fn sets_and_streams_of_redis_7_2_are_read() {
        // A set as a listpack, in the version of dumps that Redis 7.2 introduced.
        let payload = b"\x14\x0f\x0f\x00\x00\x00\x03\x00\x81a\x02\x81b\x02\x01\x01\xff";
        let mut versioned = payload.to_vec();
        versioned.extend_from_slice(&11_u16.to_le_bytes());
        let payload = dump::with_checksum(versioned);
        let mut scratch = Scratch::new(1, 1_000);
        assert!(scratch.load(b"s", &payload, None));
        assert_eq!(ask(&mut scratch, "SMISMEMBER s a b 1 c"), "*4 :1 :1 :1 :0");
    }

    #[test]
    fn doubles_are_written_as_by_the_nodes_of_the_values() {
        // A sorted set of one member, `a`, with the score 0.1, as Redis 7.0 and 7.2 write it.
        let dumped = |version: u16| {
            let value = [&b"\x05\x01\x01a"[..], &0.1_f64.to_le_bytes(), &version.to_le_bytes()].concat();
            dump::with_checksum(value)
        };
        for (version, text) in [(10, "*2 $1 a $19 0.10000000000000001"), (11, "*2 $1 a $3 0.1")] {
            let mut scratch = Scratch::new(1, 1_000);
            assert!(scratch.load(b"z", &dumped(version), None));
            assert_eq!(ask(&mut scratch, "ZUNION 1 z WITHSCORES"), text);
        }
    }

    #[test]
    fn redis_8_values_are_read_except_hashes_with_field_expiry() {
        let payload_of = |form: &[u8]| dump::with_checksum([form, &12_u16.to_le_bytes()].concat());
        let mut scratch = Scratch::new(1, 1_000);
        assert!(scratch.load(b"t", &payload_of(b"\0\x01v"), None));
        assert_eq!(ask(&mut scratch, "GET t"), "$1 v");
        assert!(scratch.load(b"s", &payload_of(b"\x14\x0c\x0c\0\0\0\x02\0\x81a\x02\x01\x01\xff"), None));
        assert_eq!(ask(&mut scratch, "SMISMEMBER s a 1 2"), "*3 :1 :1 :0");
        // One field, `a`, with the value `b` and the time at which it expires.
        let expiring =
            b"\x19\xff\x9frN\x18\t\0\0\x17\x17\0\0\0\x03\0\x81a\x02\x81b\x02\xf4\xff\x9frN\x18\t\0\0\t\xff";
        assert!(!scratch.load(b"h", &payload_of(expiring), None));
    }
}
