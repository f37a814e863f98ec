//! Inline requests: each line gives the words that Redis parses, or the error that Redis sends.

use resp::encode;
use resp::request::{Request, RequestLimits, Scanned, Scanner};
use stdx::prng::Prng;

use crate::node::Node;

/// Redis answers the words behind this.
const SHOW: &[u8] = b"EVAL return(ARGV) 0 ";

/// Places of a byte in a line, marked by `@`.
const TEMPLATES: [&str; 16] = [
    "@",
    "@a",
    "a@",
    "a@b",
    "a @ b",
    "a @b",
    "\"a@b\"",
    "'a@b'",
    "\"a\\@b\"",
    "'a\\@b'",
    "\"\\x@1\"",
    "\"\\x1@\"",
    "\"a\"@b",
    "'a'@b",
    "a\"b\"@ c",
    "\"a@",
];

/// Random lines are made of these: blanks of all kinds, quotes, escapes, others.
const RANDOM: &[u8] = b"  \t\x0b\x0c\r\r\"\"''\\\\x4fna\xff";

const RANDOM_LINES: usize = 20_000;

const SEED: u64 = 1;

#[test]
fn inline_words_end_where_redis_ends_them() {
    let Some(mut node) = Node::start() else { return };
    for template in TEMPLATES {
        // A line feed ends the line. Redis waits without end behind a NUL, and shardis refuses it.
        for byte in (1..=u8::MAX).filter(|byte| *byte != b'\n') {
            let parts: Vec<&[u8]> = template.split('@').map(str::as_bytes).collect();
            compare(&mut node, &parts.join(&byte));
        }
    }
    let mut prng = Prng::new(SEED);
    for _ in 0..RANDOM_LINES {
        let line: Vec<u8> = (0..prng.below(12)).map(|_| *prng.pick(RANDOM)).collect();
        compare(&mut node, &line);
    }
}

fn compare(node: &mut Node, words: &[u8]) {
    for end in [&b"\n"[..], b"\r\n"] {
        let line = [SHOW, words, end].concat();
        let (expected, got) = (node.ask_bytes(&line), shown(&line));
        assert!(
            got == expected,
            "{}: {} instead of {}",
            line.escape_ascii(),
            got.escape_ascii(),
            expected.escape_ascii()
        );
    }
}

/// Redis's reply to the line as this crate parses it.
fn shown(line: &[u8]) -> Vec<u8> {
    let (mut args, mut inline, mut reply) = (Vec::new(), Vec::new(), Vec::new());
    match Scanner::default().scan(line, &RequestLimits::default(), &mut args, &mut inline) {
        Ok(Scanned::Inline { len }) => {
            assert_eq!(len, line.len(), "the whole line");
            let words: Vec<&[u8]> = Request::new(&inline, &args).args().skip(3).collect();
            encode::request(&mut reply, &words);
        }
        Ok(other) => panic!("{}: {other:?}", line.escape_ascii()),
        Err(error) => reply.extend_from_slice(format!("-ERR Protocol error: {error}\r\n").as_bytes()),
    }
    reply
}
