//! What a simulated node keeps and how it answers: the commands that the client programs send, and no more.

use crate::ledger::Ledger;
use resp::{Request, encode};
use std::collections::BTreeMap;
use topology::ShardId;

/// One node's keys. They survive its restarts.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    values: BTreeMap<Vec<u8>, Entry>,
    /// Keys by the number of their insertion: what SCAN walks along.
    by_number: BTreeMap<u64, Vec<u8>>,
    inserted: u64,
}

#[derive(Debug)]
struct Entry {
    value: Vec<u8>,
    number: u64,
}

/// Keys in a page of SCAN.
const PAGE: usize = 20;

impl Keyspace {
    /// Runs `request` as the node of `shard`, appends the reply, and tells the ledger what ran.
    pub(crate) fn run(
        &mut self,
        request: &Request<'_>,
        shard: ShardId,
        ledger: &mut Ledger,
        out: &mut Vec<u8>,
    ) {
        let name = request.arg(0).to_ascii_lowercase();
        let args: Vec<&[u8]> = request.args().skip(1).collect();
        match (name.as_slice(), args.as_slice()) {
            (b"ping", []) => encode::simple(out, b"PONG"),
            (b"get" | b"stamp.get", [key]) => self.write_value(key, out),
            (b"mget", keys) => {
                encode::array_header(out, keys.len());
                keys.iter().for_each(|key| self.write_value(key, out));
            }
            (b"set" | b"stamp.set", [key, value]) => {
                self.set(key, value, shard, ledger);
                encode::simple(out, b"OK");
            }
            (b"mset", pairs) if pairs.len() % 2 == 0 => {
                pairs.chunks(2).for_each(|pair| self.set(pair[0], pair[1], shard, ledger));
                encode::simple(out, b"OK");
            }
            (b"del" | b"unlink", keys) => encode::integer(out, self.delete(keys, shard, ledger)),
            (b"exists" | b"touch", keys) => {
                encode::integer(
                    out,
                    keys.iter().filter(|key| self.values.contains_key(**key)).count() as i64,
                );
            }
            (b"strlen", [key]) => {
                encode::integer(out, self.values.get(*key).map_or(0, |entry| entry.value.len()) as i64);
            }
            (b"dbsize", []) => encode::integer(out, self.values.len() as i64),
            (b"keys", _) => {
                encode::array_header(out, self.values.len());
                self.values.keys().for_each(|key| encode::bulk(out, key));
            }
            (b"randomkey", []) => match self.values.keys().next() {
                Some(key) => encode::bulk(out, key),
                None => encode::nil(out),
            },
            (b"scan", [cursor, ..]) => self.scan(cursor, out),
            (b"script", [_flush]) => encode::simple(out, b"OK"),
            (b"command", [_info, name]) => write_command_info(&name.to_ascii_lowercase(), out),
            _ => encode::error(out, b"ERR the simulated node does not know that"),
        }
    }

    /// The value of `key`, for checks at the end of a world.
    pub(crate) fn value(&self, key: &[u8]) -> Option<&[u8]> {
        self.values.get(key).map(|entry| entry.value.as_slice())
    }

    fn write_value(&self, key: &[u8], out: &mut Vec<u8>) {
        match self.value(key) {
            Some(value) => encode::bulk(out, value),
            None => encode::nil(out),
        }
    }

    /// Stores a value without telling anybody: what is there before the world begins.
    pub(crate) fn preload(&mut self, key: &[u8], value: &[u8]) {
        let number = self.values.get(key).map_or(self.inserted, |entry| entry.number);
        self.inserted += 1;
        self.by_number.insert(number, key.to_vec());
        self.values.insert(key.to_vec(), Entry { value: value.to_vec(), number });
    }

    fn set(&mut self, key: &[u8], value: &[u8], shard: ShardId, ledger: &mut Ledger) {
        ledger.ran(key, value, shard);
        self.preload(key, value);
    }

    fn delete(&mut self, keys: &[&[u8]], shard: ShardId, ledger: &mut Ledger) -> i64 {
        let mut deleted = 0;
        for key in keys {
            ledger.deleted(key, shard);
            if let Some(entry) = self.values.remove(*key) {
                self.by_number.remove(&entry.number);
                deleted += 1;
            }
        }
        deleted
    }

    /// A page from the key with the number of the cursor on. A key that stays is met exactly once in a walk.
    fn scan(&self, cursor: &[u8], out: &mut Vec<u8>) {
        let from: u64 = String::from_utf8_lossy(cursor).parse().unwrap_or_default();
        let page: Vec<(&u64, &Vec<u8>)> = self.by_number.range(from..).take(PAGE + 1).collect();
        let next = page.get(PAGE).map_or(0, |(number, _)| **number);
        encode::array_header(out, 2);
        encode::bulk(out, next.to_string().as_bytes());
        encode::array_header(out, page.len().min(PAGE));
        page.iter().take(PAGE).for_each(|(_, key)| encode::bulk(out, key));
    }
}

/// The node has a module with two commands that the proxy's table lacks.
fn write_command_info(name: &[u8], out: &mut Vec<u8>) {
    encode::array_header(out, 1);
    let (arity, flag): (i64, &[u8]) = match name {
        b"stamp.set" => (3, b"write"),
        b"stamp.get" => (2, b"readonly"),
        _ => return out.extend_from_slice(b"*-1\r\n"),
    };
    encode::array_header(out, 6);
    encode::bulk(out, name);
    encode::integer(out, arity);
    encode::array_header(out, 1);
    encode::simple(out, flag);
    [1, 1, 1].iter().for_each(|&place| encode::integer(out, place));
}
