//! A captured output of MONITOR as a trace that can be sent again. Pure.
//!
//! A line is `1700000000.123456 [0 127.0.0.1:1234] "SET" "a" "b"`. Requests of one client stay on one connection, in their order.
//! Requests that scripts made are left out, for their script makes them again. So are requests that change the meaning of replies.

use resp::encode;
use std::collections::HashMap;
use std::time::Duration;

/// Requests with their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    bytes: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    /// Names of commands, in the order of their first requests.
    pub(crate) names: Vec<String>,
    /// Lines that are no requests, or cannot be sent again.
    pub(crate) skipped: usize,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Time since the first request.
    pub(crate) at: Duration,
    /// The number of its client.
    pub(crate) client: u32,
    /// The index of its name.
    pub(crate) kind: u16,
    /// Replies to it: two if its database must be selected before.
    pub(crate) replies: u16,
    start: usize,
    len: usize,
}

/// Names beyond this number count as one.
const NAMES_MAX: usize = 63;
const OTHERS: &str = "OTHERS";
/// Commands after which replies come without requests, or none come.
const SKIPPED: [&str; 11] = [
    "MONITOR",
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "SSUBSCRIBE",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "SYNC",
    "PSYNC",
    "HELLO",
    "QUIT",
];

impl Trace {
    /// Reads the lines of a capture.
    pub(crate) fn parse(text: &[u8]) -> Trace {
        let mut trace = Trace::default();
        let (mut clients, mut first) = (HashMap::new(), None);
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let Some(line) = Line::parse(line) else {
                trace.skipped += 1;
                continue;
            };
            let at = line.at.saturating_sub(*first.get_or_insert(line.at));
            let number = clients.len() as u32;
            let client = clients.entry(line.client.to_vec());
            let is_new = matches!(client, std::collections::hash_map::Entry::Vacant(_));
            trace.push(at, *client.or_insert(number), is_new, &line);
        }
        trace
    }

    fn push(&mut self, at: Duration, client: u32, is_new: bool, line: &Line<'_>) {
        let start = self.bytes.len();
        let selects = is_new && line.database != b"0";
        if selects {
            encode::request(&mut self.bytes, &[b"SELECT", line.database]);
        }
        let words: Vec<&[u8]> = line.words.iter().map(Vec::as_slice).collect();
        encode::request(&mut self.bytes, &words);
        let kind = self.kind(&line.name);
        let len = self.bytes.len() - start;
        self.entries.push(Entry { at, client, kind, replies: 1 + u16::from(selects), start, len });
    }

    fn kind(&mut self, name: &str) -> u16 {
        let known = self.names.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            if self.names.len() < NAMES_MAX {
                self.names.push(name.to_owned());
            } else if self.names.len() == NAMES_MAX {
                self.names.push(OTHERS.to_owned());
            }
            self.names.len() - 1
        });
        index as u16
    }

    /// The bytes of a request.
    pub(crate) fn request(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.start..entry.start + entry.len]
    }
}

struct Line<'a> {
    at: Duration,
    database: &'a [u8],
    client: &'a [u8],
    /// In upper case.
    name: String,
    words: Vec<Vec<u8>>,
}

impl<'a> Line<'a> {
    fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.strip_prefix(b"+").unwrap_or(line);
        let (time, rest) = split(line, b" [")?;
        let (origin, rest) = split(rest, b"] ")?;
        let (database, client) = split(origin, b" ")?;
        let at = Duration::try_from_secs_f64(std::str::from_utf8(time).ok()?.parse().ok()?).ok()?;
        let words = words(rest)?;
        let name = String::from_utf8_lossy(words.first()?).to_uppercase();
        let is_sent = client != b"lua" && !SKIPPED.contains(&name.as_str());
        is_sent.then_some(Line { at, database, client, name, words })
    }
}

fn split<'a>(text: &'a [u8], by: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memchr::memmem::find(text, by)?;
    Some((&text[..at], &text[at + by.len()..]))
}

/// Words in quotes, with the escapes that Redis writes.
fn words(mut text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    while let Some((b'"', rest)) = text.split_first() {
        let (word, rest) = word(rest)?;
        words.push(word);
        text = rest.strip_prefix(b" ").unwrap_or(rest);
    }
    text.is_empty().then_some(words)
}

fn word(mut text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        text = match text {
            [b'"', rest @ ..] => return Some((word, rest)),
            [b'\\', b'x', high, low, rest @ ..] => {
                let digits = [*high, *low];
                word.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                rest
            }
            [b'\\', letter, rest @ ..] => {
                word.push(match letter {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    other => *other,
                });
                rest
            }
            [byte, rest @ ..] => {
                word.push(*byte);
                rest
            }
            [] => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURE: &[u8] = b"OK\n\
        1700000000.100000 [0 127.0.0.1:1] \"SET\" \"a \\\"b\\\"\" \"\\x00\\r\\n\\\\\"\n\
        1700000000.350000 [2 unix:/s] \"get\" \"a\"\n\
        1700000000.400000 [0 lua] \"get\" \"a\"\n\
        1700000001.100000 [2 unix:/s] \"get\" \"b\"\n\
        1700000001.200000 [0 127.0.0.1:1] \"monitor\"\n\
        broken\n";

    #[test]
    fn requests_are_read_with_their_times_and_clients() {
        let trace = Trace::parse(CAPTURE);
        let requests: Vec<_> = trace.entries.iter().map(|entry| trace.request(entry)).collect();
        assert_eq!(requests[0], b"*3\r\n$3\r\nSET\r\n$5\r\na \"b\"\r\n$4\r\n\0\r\n\\\r\n");
        assert_eq!(requests[1], b"*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n*2\r\n$3\r\nget\r\n$1\r\na\r\n");
        assert_eq!(requests[2], b"*2\r\n$3\r\nget\r\n$1\r\nb\r\n");
        let shown: Vec<_> =
            trace.entries.iter().map(|entry| (entry.at.as_millis(), entry.client, entry.replies)).collect();
        assert_eq!(shown, [(0, 0, 1), (250, 1, 2), (1000, 1, 1)]);
        assert_eq!((trace.names, trace.skipped), (vec!["SET".to_owned(), "GET".to_owned()], 4));
    }

    #[test]
    fn many_names_count_as_one() {
        let lines: String = (0..100).map(|n| format!("{n}.0 [0 a:1] \"C{n}\"\n")).collect();
        let trace = Trace::parse(lines.as_bytes());
        assert_eq!((trace.names.len(), trace.entries[99].kind), (NAMES_MAX + 1, NAMES_MAX as u16));
    }
}
