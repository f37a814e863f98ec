//! Where one request goes.

use command::Command;
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
    pub(crate) fn new(shards: usize) -> Scratch {
        let keys = Keys { part_of_shard: vec![NO_PART; shards], ..Keys::default() };
        Scratch { keys, ..Scratch::default() }
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
    /// The part of each shard, or [`NO_PART`]. All are [`NO_PART`] between requests.
    part_of_shard: Vec<u32>,
}

/// What of one request goes to one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where it goes.
    pub shard: ShardId,
    /// How many of the keys.
    pub keys: usize,
    /// The connection over which; set before it is queued.
    pub node: u32,
    /// Where its request begins in the backend's output; set when it is queued.
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

/// The shard for requests that no key ties to another: always the same one, so that what one of them does (a script
/// that is loaded by EVAL without keys) the next one finds.
pub(crate) const KEYLESS_SHARD: ShardId = ShardId(0);

/// Chooses the shards that must see `request`.
///
/// A request whose keys share a shard is forwarded byte for byte, so this must not report parts unless there are two.
/// A request whose keys cannot be found is one that Redis itself refuses: any node gives the right error.
#[inline]
pub(crate) fn route(command: &Command, request: &Request<'_>, topology: &Topology, keys: &mut Keys) -> Route {
    match command.single_key() {
        Some(position) => {
            Route::One(request.get(position).map_or(KEYLESS_SHARD, |key| topology.shard_of(key)))
        }
        None => route_many(command, request, topology, keys),
    }
}

/// As [`route`], for a request that may have several keys.
fn route_many(command: &Command, request: &Request<'_>, topology: &Topology, keys: &mut Keys) -> Route {
    if command.keys(request, &mut keys.positions).is_err() {
        return Route::One(KEYLESS_SHARD);
    }
    keys.divide(request, topology);
    match keys.parts.as_slice() {
        [] => Route::One(KEYLESS_SHARD),
        [part] => Route::One(part.shard),
        _ => Route::Parts,
    }
}

impl Keys {
    /// Sorts the keys at `positions` into parts.
    fn divide(&mut self, request: &Request<'_>, topology: &Topology) {
        self.parts.clear();
        self.part_of_key.clear();
        for &position in &self.positions {
            let shard = topology.shard_of(request.arg(position));
            let part = &mut self.part_of_shard[shard.0 as usize];
            if *part == NO_PART {
                *part = self.parts.len() as u32;
                self.parts.push(Part { shard, keys: 0, node: 0, start: 0 });
            }
            self.parts[*part as usize].keys += 1;
            self.part_of_key.push(*part);
        }
        for part in &self.parts {
            self.part_of_shard[part.shard.0 as usize] = NO_PART;
        }
    }

    /// The keys of a request that goes whole to each of `shards` shards.
    pub(crate) fn all_shards(&mut self, shards: usize) {
        self.part_of_key.clear();
        self.parts.clear();
        self.parts.extend((0..shards as u32).map(|shard| Part {
            shard: ShardId(shard),
            keys: 0,
            node: 0,
            start: 0,
        }));
    }
}
