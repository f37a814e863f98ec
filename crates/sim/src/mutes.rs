//! Requests whose replies their client suppresses (CLIENT REPLY): for the next one, or for a whole pipeline. No reply may
//! arrive, and no trace may stay that delays another client.

use crate::program::{Expect, Program, STAMPED_KEYS, Sent, lasting_key, words};
use stdx::Prng;

/// Requests of one pipeline at most.
const MUTED_MAX: u64 = 12;

/// A key that each client writes and none reads.
pub(crate) fn muted_key(client: usize) -> Vec<u8> {
    format!("muted{client}").into_bytes()
}

impl Program {
    /// A request, or several, whose replies it does not want.
    pub(crate) fn mute(&self, prng: &mut Prng) -> Sent {
        if prng.one_in(2) {
            return Sent { bytes: [reply(b"SKIP"), self.muted(prng)].concat(), expect: None };
        }
        let count = 1 + prng.below(MUTED_MAX);
        let muted =
            (0..count).flat_map(|_| if prng.one_in(9) { self.muted_exec(prng) } else { self.muted(prng) });
        let muted = muted.collect();
        let heard = Expect::Exactly(b"+OK\r\n".to_vec());
        Sent { bytes: [reply(b"OFF"), muted, reply(b"ON")].concat(), expect: Some(heard) }
    }

    /// A request of each kind of way that a reply takes.
    fn muted(&self, prng: &mut Prng) -> Vec<u8> {
        let key = if prng.one_in(2) { self.own_key(prng) } else { self.foreign_key(prng) };
        match prng.below(17) {
            0..=3 => words(&[b"GET", &key]),
            4..=6 => self.muted_mget(prng),
            7 => words(&[b"SCAN", b"0", b"COUNT", b"300"]),
            8 => words(&[b"KEYS", b"*"]),
            9 => words(&[b"DBSIZE"]),
            10 => words(&[b"INFO", b"keyspace"]),
            11 => words(&[b"CLIENT", b"LIST"]),
            12 => words(&[b"EVAL", b"return redis.call('GET', KEYS[1]) --", b"1", &key]),
            13 => words(&[b"SUNION", &lasting_key(0), &lasting_key(1), &lasting_key(2)]),
            14 => {
                words(&[b"SET", &muted_key(self.client), &vec![b'm'; prng.below(self.filling_max) as usize]])
            }
            15 => words(&[b"nosuchcommand", &key]),
            _ => words(&[b"ECHO", &key.repeat(20)]),
        }
    }

    /// Several requests, of each of which the reply is one.
    fn muted_exec(&self, prng: &mut Prng) -> Vec<u8> {
        let key = self.own_key(prng);
        let asked = if prng.one_in(2) { words(&[b"DBSIZE"]) } else { words(&[b"INFO", b"keyspace"]) };
        let own = words(&[b"PING"]);
        [words(&[b"MULTI"]), words(&[b"GET", &key]), asked, own, words(&[b"EXEC"])].concat()
    }

    fn muted_mget(&self, prng: &mut Prng) -> Vec<u8> {
        let keys: Vec<Vec<u8>> = (0..1 + prng.below(STAMPED_KEYS)).map(|_| self.own_key(prng)).collect();
        let request: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
        words(&request)
    }
}

fn reply(word: &[u8]) -> Vec<u8> {
    words(&[b"CLIENT", b"REPLY", word])
}
