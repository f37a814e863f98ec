//! What one client has queued since MULTI.

use crate::cross_slot::remedy::Remedy;
use crate::redirect::declined::{Aim, Declined};
use crate::requests::route::Keys;
use crate::scripts::known::Named;
use crate::tracking::KeyList;
use crate::transaction::divided::{Divided, Piece};
use crate::transaction::spliced::Inlays;
use command::{Carry, Command};
use resp::Request;
use stdx::{BufferPool, Id, append};
use topology::ShardId;

/// What a client has begun with MULTI.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// MULTI and the commands behind it, as they will be sent.
    pub requests: Vec<u8>,
    /// How many commands.
    pub commands: u32,
    /// Where the keys are; `None` if no command has named one yet.
    pub shard: Option<ShardId>,
    /// The division that all of them are in; `None` if no command has named one yet.
    pub division: Option<u32>,
    /// How its keys are divided, once they are in several divisions.
    pub divided: Option<Box<Divided>>,
    /// Scripts and functions that commands name, as long as it is not divided.
    pub named: Vec<Named>,
    /// A command may write.
    pub may_write: bool,
    /// Other clients may wait for what a command brings.
    pub is_waited_for: bool,
    /// A command was refused: EXEC will say so, and nothing is kept any more.
    pub is_spoilt: bool,
    /// What is not, or not only, the node's.
    pub inlays: Inlays,
    /// Keys that its client reads with EXEC, and wants to be told of.
    pub reads: KeyList,
    /// What it holds, as it was counted last.
    pub counted_bytes: usize,
}

/// Why a command does not fit into a transaction.
pub(crate) enum Misfit {
    /// Its keys live elsewhere.
    CrossSlot(Remedy),
    /// A limit, in the words of an error.
    Limit(&'static str),
}

/// A transaction that was sent, until it is answered: its node may decline it.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// MULTI and the commands behind it.
    pub requests: Vec<u8>,
    pub commands: u32,
    pub named: Vec<Named>,
    /// Whose keys it is about.
    pub aim: Aim,
    /// What is added to its reply here.
    pub mixture: Option<Id>,
    /// It went over a connection of its client's own: it is not sent again elsewhere.
    pub held: Option<Held>,
    /// Why a command of it was declined, so that EXEC discards it.
    pub declined: Option<Declined>,
    /// Why a command of it was refused, if it is a part of a transaction over several shards.
    pub refused: Option<Vec<u8>>,
    pub counted_bytes: usize,
}

impl Replay {
    /// Whether something is added to its reply here.
    pub(crate) fn has_mixture(&self) -> bool {
        self.mixture.is_some()
    }

    /// What it was counted for, and what it holds.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.counted_bytes, self.requests.capacity())
    }
}

pub(crate) const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";

pub(crate) const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Why a transaction goes over a connection of its client's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Keys are watched there.
    Watched,
    /// It leaves the connection other than it was.
    Altered,
}

/// No transaction has this name.
pub(crate) const NO_REPLAY: Id = Id { index: u32::MAX, generation: 0 };

/// Where a command of a transaction may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// There, for its keys, which are in this division.
    At(ShardId, u32),
    /// Wherever the others do.
    Anywhere,
    /// The same; those behind it run in this database.
    Selects(u16),
    /// It does not: it is answered by the proxy, or asked of all.
    Here,
}

impl Transaction {
    pub(crate) fn new(pool: &mut BufferPool) -> Transaction {
        let mut requests = pool.take();
        append(&mut requests, MULTI);
        Transaction {
            requests,
            commands: 0,
            shard: None,
            division: None,
            divided: None,
            named: Vec::new(),
            may_write: false,
            is_waited_for: false,
            is_spoilt: false,
            inlays: Inlays::default(),
            reads: KeyList::default(),
            counted_bytes: 0,
        }
    }

    /// How many commands wait for EXEC.
    pub(crate) fn commands(&self) -> u32 {
        self.commands + self.inlays.here()
    }

    /// Whether one of them may write.
    pub(crate) fn may_write(&self) -> bool {
        self.may_write
    }

    /// Whether the proxy has a part in the reply.
    pub(crate) fn has_inlays(&self) -> bool {
        !self.inlays.is_empty()
    }

    /// Bytes of its requests.
    pub(crate) fn request_bytes(&self) -> usize {
        self.requests.len() + self.inlays.request_bytes()
    }

    /// Whether it will not be carried out.
    pub(crate) fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    /// What it was counted for.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let divided = self.divided.as_ref().map_or(0, |divided| divided.held_bytes());
        let named = self.named.capacity() * size_of::<Named>();
        self.requests.capacity() + named + self.inlays.held_bytes() + self.reads.held_bytes() + divided
    }

    /// How many parts it has.
    pub(crate) fn parts(&self) -> usize {
        self.divided.as_ref().map_or(usize::from(self.division.is_some()), |divided| divided.len())
    }

    /// Whether keys of `division` were named.
    pub(crate) fn has(&self, division: u32) -> bool {
        self.division == Some(division) || self.divided.as_ref().is_some_and(|divided| divided.has(division))
    }

    /// Adds a command with keys at `place`, for which there is room.
    pub(crate) fn keep(
        &mut self,
        command: &Command,
        (request, keys): (&Request<'_>, &Keys),
        place: Option<Place>,
        named: Option<Named>,
    ) {
        let bytes = request.bytes.len();
        let own = match place {
            Some(Place::Here) => return self.inlays.add(self.commands, request.bytes),
            Some(Place::At(shard, division)) => Some((division, shard)),
            _ => None,
        };
        if let Some(Place::Selects(database)) = place {
            self.inlays.add_select(self.commands, database);
        }
        match (place, command.carry) {
            (None, Carry::Split(merge)) => {
                self.divide();
                if let Some(divided) = &mut self.divided {
                    divided.add_split(command, merge, (request, keys), &mut self.requests);
                }
            }
            (Some(Place::At(_, division)), _) if self.division.is_some_and(|own| own != division) => {
                self.divide().add(command, own, bytes, named);
                append(&mut self.requests, request.bytes);
            }
            _ => {
                match &mut self.divided {
                    Some(divided) => divided.add(command, own, bytes, named),
                    None => self.named.extend(named),
                }
                append(&mut self.requests, request.bytes);
            }
        }
        if let (Some((division, shard)), None) = (own, self.division) {
            (self.division, self.shard) = (Some(division), Some(shard));
        }
        self.commands += 1;
        self.is_waited_for |= command.may_end_a_wait();
    }

    /// How its keys are divided. Until it is asked they were in one division.
    pub(crate) fn divide(&mut self) -> &mut Divided {
        let begin = || {
            let bytes = self.requests.len() - MULTI.len();
            let (commands, is_waited_for) = (self.commands, self.is_waited_for);
            let first = Piece::Whole { part: 0, commands, bytes, is_waited_for };
            let place = self.division.zip(self.shard);
            let first = (commands > 0).then_some(first);
            Box::new(Divided::begin(place, first, std::mem::take(&mut self.named)))
        };
        self.divided.get_or_insert_with(begin)
    }
}

/// The bytes of a command in a transaction: one that is split has its name in each share.
pub(crate) fn bytes_to_keep(request: &Request<'_>, keys: &Keys, place: Option<Place>) -> usize {
    let shares = if place.is_none() { keys.parts.len() } else { 0 };
    request.bytes.len() + shares * (HEADER_BYTES_MAX + request.raw_arg(0).len())
}

/// Of a command with as many arguments as there may be.
pub(crate) const HEADER_BYTES_MAX: usize = b"*1048576\r\n".len();
