//! State of a transaction over several shards until EXEC (`--transactions=per-shard`): the part of each request's
//! bytes, and the client's order of replies. This module sends nothing; [`crate::transaction::execution`] does.
//!
//! ```text
//!   SET a 1, GET b, MGET a b ─► requests  MULTI │ SET a 1 │ GET b │ MGET a │ MGET b
//!                               pieces            part 0    part 1  └ split: 0, 1 ┘
//! ```
//!
//! The requests lie one behind the other, as in a transaction on one shard. A command that the command table can
//! split becomes a command for each part with keys of it.

use crate::requests::route::Keys;
use crate::scripts::known::Named;
use command::{Command, Flags, Merge};
use resp::{Request, encode};
use std::collections::BTreeMap;
use stdx::append;
use topology::ShardId;

/// The parts of a transaction whose keys are in several divisions.
#[derive(Debug, Default)]
pub(crate) struct Divided {
    places: Vec<(u32, ShardId)>,
    /// The index of the part of each division.
    part_of_division: BTreeMap<u32, u32>,
    pieces: Vec<Piece>,
    /// Scripts and functions, each with the part whose commands name it.
    named: Vec<(u32, Named)>,
    /// Memory that the pieces use beside themselves.
    split_bytes: usize,
}

/// Adjacent requests in the client's order.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Whole commands of one part.
    Whole {
        /// The part.
        part: u32,
        /// The number of commands.
        commands: u32,
        /// The bytes of the commands.
        bytes: usize,
        /// Whether other clients may wait for elements of one of the commands.
        is_waited_for: bool,
    },
    /// One command, as a command for each part with keys of it.
    Split(Box<Split>),
}

/// A command that several parts share.
#[derive(Debug)]
pub(crate) struct Split {
    /// The merge of the replies.
    pub merge: Merge,
    /// Whether the command only reads.
    pub reads: bool,
    /// The parts in the order of their first keys, each with the bytes of its command.
    pub shares: Vec<(u32, usize)>,
    /// For each key, its place in `shares`.
    pub share_of_key: Vec<u32>,
}

/// The requests of one part.
#[derive(Debug)]
pub(crate) struct PartRequests {
    /// The division of its keys.
    pub division: u32,
    /// The shard of the division when the first command named it.
    pub shard: ShardId,
    /// MULTI and the commands behind it.
    pub requests: Vec<u8>,
    /// The number of commands.
    pub commands: u32,
    /// Whether other clients may wait for elements of one of the commands.
    pub is_waited_for: bool,
    /// Scripts and functions that the commands name.
    pub named: Vec<Named>,
}

impl Divided {
    /// A transaction that consists of `first`, whose keys are at `place`.
    pub(crate) fn begin(place: Option<(u32, ShardId)>, first: Option<Piece>, named: Vec<Named>) -> Divided {
        let mut divided = Divided::default();
        if let Some((division, shard)) = place {
            divided.part_at(division, shard);
        }
        divided.pieces.extend(first);
        divided.named = named.into_iter().map(|named| (0, named)).collect();
        divided
    }

    /// The number of parts.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether a command has keys of `division`.
    pub(crate) fn has(&self, division: u32) -> bool {
        self.part_of_division.contains_key(&division)
    }

    /// The part of the keys in `division`, which are on `shard`.
    fn part_at(&mut self, division: u32, shard: ShardId) -> u32 {
        let next = self.places.len() as u32;
        let part = *self.part_of_division.entry(division).or_insert(next);
        if part == next {
            self.places.push((division, shard));
        }
        part
    }

    /// The part of the last command.
    fn last_part(&self) -> u32 {
        match self.pieces.last() {
            Some(Piece::Whole { part, .. }) => *part,
            Some(Piece::Split(split)) => split.shares.first().map_or(0, |(part, _)| *part),
            None => 0,
        }
    }

    /// Adds a command of `bytes` bytes with keys at `place`. Without keys, the command joins the part of the command
    /// before it.
    pub(crate) fn add(
        &mut self,
        command: &Command,
        place: Option<(u32, ShardId)>,
        bytes: usize,
        named: Option<Named>,
    ) {
        let ends_a_wait = command.may_end_a_wait();
        let part = match place {
            Some((division, shard)) => self.part_at(division, shard),
            None => self.last_part(),
        };
        self.named.extend(named.map(|named| (part, named)));
        match self.pieces.last_mut() {
            Some(Piece::Whole { part: last, commands, bytes: sum, is_waited_for }) if *last == part => {
                (*commands, *sum) = (*commands + 1, *sum + bytes);
                *is_waited_for |= ends_a_wait;
            }
            _ => {
                let is_waited_for = ends_a_wait;
                self.pieces.push(Piece::Whole { part, commands: 1, bytes, is_waited_for });
            }
        }
    }

    /// Adds a command whose keys are in several divisions: appends a command for each division to `requests`.
    pub(crate) fn add_split(
        &mut self,
        command: &Command,
        merge: Merge,
        (request, keys): (&Request<'_>, &Keys),
        requests: &mut Vec<u8>,
    ) {
        let step = command.split_step();
        let mut order: Vec<usize> = (0..keys.positions.len()).collect();
        order.sort_by_key(|&key| keys.part_of_key[key]);
        let mut order = order.into_iter();
        let mut shares = Vec::with_capacity(keys.parts.len());
        for of_request in &keys.parts {
            let part = self.part_at(of_request.division, of_request.shard);
            let start = requests.len();
            encode::array_header(requests, 1 + of_request.keys * step);
            append(requests, request.raw_arg(0));
            for key in order.by_ref().take(of_request.keys) {
                append(requests, request.raw_args(keys.positions[key], step));
            }
            shares.push((part, requests.len() - start));
        }
        let share_of_key = if merge == Merge::Values { keys.part_of_key.clone() } else { Vec::new() };
        let reads = command.flags.contains(Flags::READONLY);
        let split = Split { merge, reads, shares, share_of_key };
        self.split_bytes += split.held_bytes();
        self.pieces.push(Piece::Split(Box::new(split)));
    }

    /// The pieces in the client's order, and the requests of each part. All commands are in `requests`; each part
    /// begins with `begin`.
    pub(crate) fn finish(self, begin: &[u8], requests: &[u8]) -> (Vec<Piece>, Vec<PartRequests>) {
        let mut lens = vec![begin.len(); self.places.len()];
        each_share(&self.pieces, |part, _, bytes| lens[part] += bytes);
        let places = self.places.iter().zip(lens);
        let mut parts: Vec<PartRequests> = places
            .map(|(&(division, shard), len)| {
                let mut requests = Vec::with_capacity(len);
                append(&mut requests, begin);
                let named = Vec::new();
                PartRequests { division, shard, requests, commands: 0, is_waited_for: false, named }
            })
            .collect();
        for piece in &self.pieces {
            if let Piece::Whole { part, is_waited_for: true, .. } = piece {
                parts[*part as usize].is_waited_for = true;
            }
        }
        let mut rest = &requests[begin.len()..];
        each_share(&self.pieces, |part, commands, bytes| {
            let (own, others) = rest.split_at(bytes);
            append(&mut parts[part].requests, own);
            parts[part].commands += commands;
            rest = others;
        });
        self.named.into_iter().for_each(|(part, named)| parts[part as usize].named.push(named));
        (self.pieces, parts)
    }

    /// Memory in use. The place of a part is stored twice.
    pub(crate) fn held_bytes(&self) -> usize {
        self.places.capacity() * size_of::<[(u32, ShardId); 3]>()
            + self.pieces.capacity() * size_of::<Piece>()
            + self.named.capacity() * size_of::<(u32, Named)>()
            + self.split_bytes
    }
}

impl Split {
    fn held_bytes(&self) -> usize {
        size_of::<Split>()
            + self.shares.capacity() * size_of::<(u32, usize)>()
            + self.share_of_key.capacity() * size_of::<u32>()
    }
}

/// Calls `take` for the bytes of each part, in order: the part, the number of commands, the number of bytes.
fn each_share(pieces: &[Piece], mut take: impl FnMut(usize, u32, usize)) {
    for piece in pieces {
        match piece {
            Piece::Whole { part, commands, bytes, .. } => take(*part as usize, *commands, *bytes),
            Piece::Split(split) => {
                split.shares.iter().for_each(|&(part, bytes)| take(part as usize, 1, bytes));
            }
        }
    }
}
