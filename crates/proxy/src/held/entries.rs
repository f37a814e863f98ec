//! The replies to an XREAD over several shards.

use crate::requests::route::Keys;
use resp::reply::{as_bulk, elements, first_len, is_null};
use resp::{Request, encode};
use stdx::append;

/// Entries of several shards, as they come.
#[derive(Debug)]
pub(crate) struct Streams {
    /// The streams in the order of the request: the part of each, and its key.
    pub keys: Vec<(u32, Box<[u8]>)>,
    /// Names and entries of each part, as they came.
    pub parts: Vec<Vec<u8>>,
}

impl Streams {
    /// The streams of `request`, before any reply.
    pub(crate) fn new(request: &Request<'_>, keys: &Keys) -> Streams {
        let names = keys.positions.iter().map(|&position| request.arg(position).into());
        Streams {
            keys: keys.part_of_key.iter().copied().zip(names).collect(),
            parts: vec![Vec::new(); keys.parts.len()],
        }
    }

    /// Takes the reply of `part`. `None` if it is not a reply to XREAD.
    pub(crate) fn absorb(&mut self, part: u32, reply: &[u8]) -> Option<()> {
        if !is_null(reply) {
            append(&mut self.parts[part as usize], elements(reply)?.rest());
        }
        Some(())
    }

    /// Whether any part has entries.
    pub(crate) fn has_any(&self) -> bool {
        self.parts.iter().any(|part| !part.is_empty())
    }

    /// Memory in use.
    pub(crate) fn held_bytes(&self) -> usize {
        let names: usize = self.keys.iter().map(|(_, key)| key.len()).sum();
        names + self.parts.iter().map(Vec::len).sum::<usize>()
    }

    /// Appends the entries in the order of the request's keys. `None` if a part has returned other streams.
    pub(crate) fn write(&self, out: &mut Vec<u8>, resp3: bool) -> Option<()> {
        let mut rests: Vec<&[u8]> = self.parts.iter().map(Vec::as_slice).collect();
        let mut read = Vec::new();
        for (part, key) in &self.keys {
            let rest = &mut rests[*part as usize];
            let len = if resp3 { pair_len(rest) } else { first_len(rest) };
            let name = match resp3 {
                true => rest.get(..first_len(rest)),
                false => elements(rest).and_then(|mut pair| pair.next()),
            };
            if name.and_then(as_bulk) == Some(key) {
                read.push(&rest[..len]);
                *rest = &rest[len..];
            }
        }
        match read.len() {
            _ if rests.iter().any(|rest| !rest.is_empty()) => return None,
            0 => encode::null_array(out, resp3),
            count if resp3 => encode::map_header(out, count, resp3),
            count => encode::array_header(out, count),
        }
        read.iter().for_each(|bytes| append(out, bytes));
        Some(())
    }
}

/// The length of a stream's name and entries.
pub(crate) fn pair_len(values: &[u8]) -> usize {
    let name = first_len(values);
    name + first_len(&values[name..])
}
