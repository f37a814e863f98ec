//! Clients of a world: their requests, the replies, and the promises in them.

use resp::reply::{self, ReplyLimits, Scanner};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::Prng;

/// Lists to which clients append numbers that are never used again.
pub(crate) const LISTS: u64 = 3;

/// A request in flight.
#[derive(Debug)]
pub(crate) enum Sent {
    /// A number was appended to a list, in the given number of replies.
    Append { list: u64, number: u64, replies: u32 },
    /// A list was read, when these numbers had been acknowledged.
    Read { list: u64, known: BTreeSet<u64> },
    /// Anything else, with its number of replies.
    Other { replies: u32 },
}

/// Promises about the numbers of clients.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub acknowledged: BTreeMap<u64, BTreeSet<u64>>,
    pub refused: BTreeSet<u64>,
    pub replies: u64,
    pub errors: u64,
    pub next_number: u64,
}

/// One client.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub sent: VecDeque<Sent>,
    input: Vec<u8>,
    scanner: Scanner,
    replies: Vec<Vec<u8>>,
}

impl Client {
    /// Draws a request.
    pub(crate) fn draw(&mut self, prng: &mut Prng, ledger: &mut Ledger, flushes: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let list = prng.below(LISTS);
        let name = format!("l{list}");
        match prng.below(24) {
            0..8 => {
                let number = ledger.next_number;
                ledger.next_number += 1;
                let append = format!("RPUSH {name} {number}");
                let replies = if prng.one_in(4) { 4 } else { 1 };
                match replies {
                    1 => words(&mut bytes, &append),
                    _ => ["MULTI", &append, "INCR c", "EXEC"].iter().for_each(|line| words(&mut bytes, line)),
                }
                self.sent.push_back(Sent::Append { list, number, replies });
                return bytes;
            }
            8..11 => {
                words(&mut bytes, &format!("LRANGE {name} 0 -1"));
                // FLUSHALL takes them all.
                let known = ledger.acknowledged.get(&list).filter(|_| !flushes).cloned().unwrap_or_default();
                self.sent.push_back(Sent::Read { list, known });
                return bytes;
            }
            23 if flushes && prng.one_in(8) => words(&mut bytes, "FLUSHALL"),
            _ => words(&mut bytes, &other(prng)),
        }
        self.sent.push_back(Sent::Other { replies: 1 });
        bytes
    }

    /// Bytes came. Returns a broken promise.
    pub(crate) fn receive(&mut self, bytes: &[u8], ledger: &mut Ledger) -> Result<(), String> {
        self.input.extend_from_slice(bytes);
        while let Some(len) =
            self.scanner.scan(&self.input, &ReplyLimits::default()).map_err(|error| error.to_string())?
        {
            self.replies.push(self.input.drain(..len).collect());
            let wanted = match self.sent.front().ok_or("a reply without a request")? {
                Sent::Append { replies, .. } | Sent::Other { replies } => *replies,
                Sent::Read { .. } => 1,
            };
            if self.replies.len() == wanted as usize {
                let replies = std::mem::take(&mut self.replies);
                let sent = self.sent.pop_front().ok_or("a reply without a request")?;
                judge(&sent, &replies, ledger)?;
            }
        }
        Ok(())
    }
}

fn judge(sent: &Sent, replies: &[Vec<u8>], ledger: &mut Ledger) -> Result<(), String> {
    let Some(last) = replies.last() else { return Err("no reply".to_owned()) };
    ledger.replies += 1;
    ledger.errors += u64::from(reply::is_error(last));
    match sent {
        Sent::Append { list, number, .. } if !reply::is_error(last) => {
            ledger.acknowledged.entry(*list).or_default().insert(*number);
        }
        Sent::Append { number, .. } if String::from_utf8_lossy(last).contains("was not run") => {
            ledger.refused.insert(*number);
        }
        Sent::Read { list, known } if !reply::is_error(last) => {
            let found = numbers(last);
            if let Some(lost) = known.iter().find(|number| !found.contains(number)) {
                return Err(format!("a read of l{list} lacks {lost}, which was acknowledged"));
            }
        }
        _ => {}
    }
    Ok(())
}

/// The numbers in the reply to LRANGE.
pub(crate) fn numbers(reply: &[u8]) -> Vec<u64> {
    let elements = reply::elements(reply).into_iter().flatten();
    let number = |element: &[u8]| std::str::from_utf8(reply::as_bulk(element)?).ok()?.parse().ok();
    elements.filter_map(number).collect()
}

fn words(bytes: &mut Vec<u8>, line: &str) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    resp::encode::request(bytes, &words);
}

/// A request whose reply promises nothing.
fn other(prng: &mut Prng) -> String {
    let (key, number) = (prng.below(6), prng.below(100));
    match prng.below(20) {
        0 => format!("SET k{key} {number}"),
        1 => format!("SET k{key} {number} PX {}", 1 + prng.below(3000)),
        2 => format!("INCR k{key}"),
        3 => format!("APPEND k{key} x"),
        4 => format!("DEL k{key}"),
        5 => format!("EXPIRE k{key} {}", 1 + prng.below(5)),
        6 => format!("RENAME k{key} k{}", prng.below(6)),
        7..9 => format!("SADD s{key} m{number}"),
        9..11 => format!("SPOP s{key}"),
        11 => format!("HSET h{key} f{} {number}", prng.below(8)),
        12 => format!("XADD x{key} * f {number}"),
        13 => format!("SUNIONSTORE s{key} s{} s{}", prng.below(6), prng.below(6)),
        14 => format!("GETDEL k{key}"),
        15 => format!("MSET k{key} {number} k{} {number}", prng.below(6)),
        16 => "SCAN 0".to_owned(),
        17 => "DBSIZE".to_owned(),
        18 => format!("SMEMBERS s{key}"),
        _ => format!("GET k{key}"),
    }
}
