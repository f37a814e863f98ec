//! Scripts in the store against the same in a real Redis 7.0: the same replies, byte for byte. Without redis-server the
//! tests say so and pass, unless CI=true.

// These tests talk to a node; the crate knows no sockets.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod functions;
#[path = "../../../command/tests/against_redis/node.rs"]
mod node;
mod random;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lua::LuaInterpreter;
use node::Node;
use resp::{Request, Span, encode};
use store::{CallerId, Store, StoreSettings};

/// A node and a store that are asked the same.
struct Pair {
    node: Node,
    store: Store,
    caller: CallerId,
    differences: Vec<String>,
}

impl Pair {
    fn start() -> Option<Pair> {
        let node = Node::start_7_0()?;
        let mut store = Store::new(StoreSettings { seed: 1, ..StoreSettings::default() });
        store.set_interpreter(Box::new(LuaInterpreter::new(Duration::from_secs(60), lua::MEMORY_BYTES_MAX)));
        let caller = store.admit();
        Some(Pair { node, store, caller, differences: Vec::new() })
    }

    fn ours(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let (mut bytes, mut spans, mut out) = (Vec::new(), Vec::new(), Vec::new());
        encode::array_header(&mut bytes, words.len());
        for word in words {
            encode::bulk(&mut bytes, word);
            spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        self.store.run(self.caller, &Request::new(&bytes, &spans), now as u64, &mut out);
        out
    }

    /// Asks both and notes a difference.
    fn compare(&mut self, words: &[&[u8]]) {
        let expected = self.node.ask_raw(words);
        let got = self.ours(words);
        if got != expected {
            let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
            let request = words.iter().map(|word| shown(word)).collect::<Vec<_>>().join(" ");
            self.differences.push(format!(
                "{request}\n  Redis: {}\n  ours:  {}",
                shown(&expected),
                shown(&got)
            ));
        }
    }

    fn compare_line(&mut self, line: &str) {
        self.compare(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }

    fn finish(self) {
        assert!(self.differences.is_empty(), "{}:\n{}", self.differences.len(), self.differences.join("\n"));
    }
}

/// One script on each line; `\n` that is behind `#!` or at the end of a statement is a line end.
fn scripts() -> impl Iterator<Item = String> {
    include_str!("scripts.txt")
        .lines()
        .map(|line| line.replace("\\nreturn", "\nreturn").replace("\\nlocal", "\nlocal"))
        .map(|line| {
            ["\\nerror", "\\n  error", "\\nend", "\\nf()", "\\n1", "\\n2", "\\n}"]
                .iter()
                .fold(line, |line, end| line.replace(end, &end.replace("\\n", "\n")))
        })
}

#[test]
fn scripts_get_the_replies_of_redis() {
    let Some(mut pair) = Pair::start() else { return };
    for protocol in ["2", "3"] {
        pair.node.ask_raw(&[b"HELLO", protocol.as_bytes()]);
        pair.ours(&[b"HELLO", protocol.as_bytes()]);
        pair.compare_line("FLUSHALL");
        for script in scripts() {
            pair.compare(&[b"EVAL", script.as_bytes(), b"2", b"k1", b"k2", b"a1", b"2"]);
            pair.compare(&[b"EVAL_RO", script.as_bytes(), b"0"]);
        }
    }
    pair.finish();
}

#[test]
fn requests_about_scripts_get_the_replies_of_redis() {
    let Some(mut pair) = Pair::start() else { return };
    for line in include_str!("requests.txt").lines() {
        pair.compare_line(line);
    }
    let script = b"return {KEYS[1],ARGV[1],redis.call('incr','n')}";
    pair.compare(&[b"SCRIPT", b"LOAD", script]);
    for sha in ["7f0d2b5a0a3b6ab1bdbb64b8d0e5b6b3c2ef2d6b", "short"] {
        pair.compare(&[b"EVALSHA", sha.as_bytes(), b"0"]);
    }
    for words in [&[&b"EVAL"[..], b"return redis.call('set','m','1')", b"0"][..], &[b"GET", b"m"], &[b"INCR"]]
    {
        pair.compare_line("MULTI");
        pair.compare(words);
        pair.compare(&[b"EVAL", b"return {redis.call('incr','n'), redis.call('nosuch')}", b"0"]);
        pair.compare(&[b"EVAL", script, b"1", b"k", b"v"]);
        pair.compare_line("EXEC");
    }
    pair.finish();
}
