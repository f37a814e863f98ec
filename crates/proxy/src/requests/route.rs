//! Where one request goes.

use crate::limits::SCRATCH_BYTES_KEPT;
use crate::link::LinkIx;
use crate::walk;
use command::Command;
use engine::limits::SPARE_BUFFER_BYTES_MAX;
use resp::Request;
use resp::request::Span;
use topology::{ShardId, Topology};

/// Vectors that every request of a worker uses in turn, so that none is allocated for it.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Arguments of the request that is being read.
    pub args: Vec<Span>,
    /// An inline request in RESP form.
    pub inline: Vec<u8>,
    /// A reply that is being put together.
    pub reply: Vec<u8>,
    /// See there.
    pub keys: Keys,
}

impl Scratch {
    /// After a request of more arguments, the memory for them is given back.
    const ARGS_KEPT: usize = 4096;
    /// A request of so many bytes may have had more.
    pub(crate) const MANY_ARGS_BYTES_MIN: usize = Self::ARGS_KEPT * b"$0\r\n\r\n".len();

    /// Gives back what a request of many arguments has taken.
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

    /// For a keyspace of so many divisions.
    pub(crate) fn new(divisions: usize) -> Scratch {
        let mut scratch = Scratch::default();
        scratch.keys.resize(divisions);
        scratch
    }
}

/// The keys of one request and how they fall into parts.
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

/// What of one request goes to one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where it goes.
    pub shard: ShardId,
    /// The division of its keys.
    pub division: u32,
    /// How many of the keys.
    pub keys: usize,
    /// The connection over which; set before it is queued.
    pub link: LinkIx,
    /// Where its request begins in the link's output; set when it is queued.
    pub start: u64,
}

const NO_PART: u32 = u32::MAX;

/// The decision for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// All of it to this shard.
    One(ShardId),
    /// Its keys are spread over several shards: [`Keys::parts`] says how.
    Parts,
}

/// Chooses the shards that must see `request`.
///
/// A request whose keys share a shard is forwarded byte for byte, so this must not report parts unless there are two.
/// A request whose keys cannot be found is one that Redis itself refuses: any node gives the right error. Requests that
/// no key ties to a shard go to always the same one, so that what one of them does (a script that is loaded by EVAL
/// without keys) the next one finds.
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

/// As [`route`], for a request that may have several keys.
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
    fn divide(&mut self, request: &Request<'_>, topology: &Topology) {
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

    /// Gives back what took more than `kept` keys.
    fn shrink(&mut self, kept: usize) {
        if self.positions.capacity().max(self.part_of_key.capacity()) > kept {
            (self.positions, self.part_of_key) = (Vec::new(), Vec::new());
        }
    }

    /// The keys of a request that goes whole to each shard.
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

    /// The keyspace has so many divisions from now on.
    pub(crate) fn resize(&mut self, divisions: usize) {
        self.part_of_division.clear();
        self.part_of_division.resize(divisions, NO_PART);
    }
}
