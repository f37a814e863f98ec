//! The route of one request.

use crate::limits::SCRATCH_BYTES_KEPT;
use crate::link::LinkIx;
use crate::walk;
use command::Command;
use engine::limits::SPARE_BUFFER_BYTES_MAX;
use resp::Request;
use resp::request::Span;
use topology::{ShardId, Topology};

/// Vectors that all requests of a worker use in turn, so that no request allocates its own.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Arguments of the request that is being read.
    pub args: Vec<Span>,
    /// An inline request, converted to RESP.
    pub inline: Vec<u8>,
    /// The reply in the making.
    pub reply: Vec<u8>,
    /// The keys of the request.
    pub keys: Keys,
}

impl Scratch {
    /// The capacity for arguments that is kept. After a request with more, the memory is given back.
    const ARGS_KEPT: usize = 4096;
    /// The smallest size of a request with more arguments than [`Self::ARGS_KEPT`].
    pub(crate) const MANY_ARGS_BYTES_MIN: usize = Self::ARGS_KEPT * b"$0\r\n\r\n".len();

    /// Gives back the memory of a request with many arguments.
    #[cold]
    pub(crate) fn shrink(&mut self) {
        if self.args.capacity() > Self::ARGS_KEPT {
            self.args = Vec::new();
        }
        if self.inline.capacity() > SPARE_BUFFER_BYTES_MAX {
            self.inline = Vec::new();
        }
        if self.reply.capacity() > SCRATCH_BYTES_KEPT {
            self.reply = Vec::new();
        }
        self.keys.shrink(Self::ARGS_KEPT);
    }

    /// Vectors for a keyspace of `divisions` divisions.
    pub(crate) fn new(divisions: usize) -> Scratch {
        let mut scratch = Scratch::default();
        scratch.keys.resize(divisions);
        scratch
    }
}

/// The keys of one request and their parts.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Argument index of each key.
    pub positions: Vec<usize>,
    /// The part that each key belongs to.
    pub part_of_key: Vec<u32>,
    /// The parts in the order of their first keys.
    pub parts: Vec<Part>,
    /// The part of each division, or [`NO_PART`]. All are [`NO_PART`] between requests.
    part_of_division: Vec<u32>,
}

/// The part of a request that goes to one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The shard of the part.
    pub shard: ShardId,
    /// The division of its keys.
    pub division: u32,
    /// The number of keys.
    pub keys: usize,
    /// The link for the part; set before the part is queued.
    pub link: LinkIx,
    /// The start of the part's request in the link's output; set when the part is queued.
    pub start: u64,
}

const NO_PART: u32 = u32::MAX;

/// The route of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The whole request goes to this shard.
    One(ShardId),
    /// The keys belong to several shards: see [`Keys::parts`].
    Parts,
}

/// Chooses the shards that must see `request`.
///
/// A request whose keys share a shard is forwarded byte for byte, so this must not report parts unless there are two.
/// Redis refuses a request whose keys cannot be found, so any node returns the right error. All requests without a
/// key go to one fixed shard. Thus a script that one request loads (by EVAL without keys) is there for the next.
#[inline(always)]
pub(crate) fn route(command: &Command, request: &Request<'_>, topology: &Topology, keys: &mut Keys) -> Route {
    match command.single_key() {
        Some(position) => match request.get(position) {
            Some(key) => Route::One(topology.shard_of(key)),
            None => Route::One(topology.keyless()),
        },
        None => route_many(command, request, topology, keys),
    }
}

/// Routes like [`route`], for a request that may have several keys.
#[inline(never)]
fn route_many(command: &Command, request: &Request<'_>, topology: &Topology, keys: &mut Keys) -> Route {
    if command.keys(request, &mut keys.positions).is_err() {
        return Route::One(topology.keyless());
    }
    keys.divide(request, topology);
    match keys.parts.as_slice() {
        [] => Route::One(topology.keyless()),
        [part] => Route::One(part.shard),
        _ => Route::Parts,
    }
}

impl Keys {
    /// Sorts the keys at `positions` into parts.
    pub(crate) fn divide(&mut self, request: &Request<'_>, topology: &Topology) {
        walk::enter("divide");
        self.parts.clear();
        self.part_of_key.clear();
        for &position in &self.positions {
            let (division, shard) = topology.division_of(request.arg(position));
            let part = &mut self.part_of_division[division as usize];
            if *part == NO_PART {
                *part = self.parts.len() as u32;
                self.parts.push(Part { shard, division, keys: 0, link: LinkIx::FIRST, start: 0 });
            }
            self.parts[*part as usize].keys += 1;
            self.part_of_key.push(*part);
        }
        for part in &self.parts {
            self.part_of_division[part.division as usize] = NO_PART;
        }
    }

    /// Finds the keys of `request` and sorts them into parts. Returns the number of parts.
    pub(crate) fn find(&mut self, command: &Command, request: &Request<'_>, topology: &Topology) -> usize {
        if command.keys(request, &mut self.positions).is_ok() {
            self.divide(request, topology);
        }
        self.parts.len()
    }

    /// Gives back the memory of more than `kept` keys.
    fn shrink(&mut self, kept: usize) {
        if self.positions.capacity().max(self.part_of_key.capacity()) > kept {
            (self.positions, self.part_of_key) = (Vec::new(), Vec::new());
        }
    }

    /// Makes a part for each shard, for a request that goes whole to all.
    pub(crate) fn all_shards(&mut self, topology: &Topology) {
        self.part_of_key.clear();
        self.parts.clear();
        self.parts.extend(topology.all_shards().map(|shard| Part {
            shard,
            division: 0,
            keys: 0,
            link: LinkIx::FIRST,
            start: 0,
        }));
    }

    /// Changes the number of divisions of the keyspace.
    pub(crate) fn resize(&mut self, divisions: usize) {
        self.part_of_division.clear();
        self.part_of_division.resize(divisions, NO_PART);
    }
}
