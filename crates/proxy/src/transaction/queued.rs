//! The commands that one client has queued since MULTI.

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

/// A client's open transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// MULTI and the commands behind it, as they will be sent.
    pub requests: Vec<u8>,
    /// The number of commands.
    pub commands: u32,
    /// The shard of the keys; `None` if no command has a key yet.
    pub shard: Option<ShardId>,
    /// The division of all keys; `None` if no command has a key yet.
    pub division: Option<u32>,
    /// The parts of the transaction, once its keys are in several divisions.
    pub divided: Option<Box<Divided>>,
    /// Scripts and functions that commands name, until the transaction is divided.
    pub named: Vec<Named>,
    /// Whether a command may write.
    pub may_write: bool,
    /// Whether other clients may wait for elements of a command.
    pub is_waited_for: bool,
    /// Whether a command was refused. Then EXEC fails, and nothing is kept any more.
    pub is_spoilt: bool,
    /// Commands that shardis answers itself, or that choose a database.
    pub inlays: Inlays,
    /// Keys that EXEC reads for a client that tracks them.
    pub reads: KeyList,
    /// Memory in use, as it was counted last.
    pub counted_bytes: usize,
}

/// The reason why a command does not fit into a transaction.
pub(crate) enum Misfit {
    /// The keys belong to another shard.
    CrossSlot(Remedy),
    /// A limit; the text is part of an error.
    Limit(&'static str),
}

/// A transaction that was sent, until it is answered: its node may decline it.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// MULTI and the commands behind it.
    pub requests: Vec<u8>,
    pub commands: u32,
    pub named: Vec<Named>,
    /// The slot or shard of the transaction.
    pub aim: Aim,
    /// The inlays for the reply, if there are any.
    pub mixture: Option<Id>,
    /// Set if the transaction went over a held link. Then it is not sent again elsewhere.
    pub held: Option<Held>,
    /// The reason why a command was declined, so that EXEC discards the transaction.
    pub declined: Option<Declined>,
    /// The error of a refused command, in a part of a transaction over several shards.
    pub refused: Option<Vec<u8>>,
    pub counted_bytes: usize,
}

impl Replay {
    /// Whether the reply has inlays.
    pub(crate) fn has_mixture(&self) -> bool {
        self.mixture.is_some()
    }

    /// The bytes that are charged, and the bytes in use.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.counted_bytes, self.requests.capacity())
    }
}

pub(crate) const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";

pub(crate) const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// The reason why a transaction needs a held link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The link watches keys.
    Watched,
    /// The transaction changes the state of the link.
    Altered,
}

/// No transaction has this name.
pub(crate) const NO_REPLAY: Id = Id { index: u32::MAX, generation: 0 };

/// The place where a command of a transaction may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The shard of its keys, and their division.
    At(ShardId, u32),
    /// The shard of the other commands.
    Anywhere,
    /// The shard of the other commands. Later commands run in this database.
    Selects(u16),
    /// No node: shardis answers the command, or asks all nodes.
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

    /// The number of commands that wait for EXEC.
    pub(crate) fn commands(&self) -> u32 {
        self.commands + self.inlays.here()
    }

    /// Whether a command may write.
    pub(crate) fn may_write(&self) -> bool {
        self.may_write
    }

    /// Whether shardis makes a part of the reply.
    pub(crate) fn has_inlays(&self) -> bool {
        !self.inlays.is_empty()
    }

    /// Bytes of its requests.
    pub(crate) fn request_bytes(&self) -> usize {
        self.requests.len() + self.inlays.request_bytes()
    }

    /// Whether the transaction will fail, since a command was refused.
    pub(crate) fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    /// The bytes that are charged.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }

    /// Memory in use.
    pub(crate) fn held_bytes(&self) -> usize {
        let divided = self.divided.as_ref().map_or(0, |divided| divided.held_bytes());
        let named = self.named.capacity() * size_of::<Named>();
        self.requests.capacity() + named + self.inlays.held_bytes() + self.reads.held_bytes() + divided
    }

    /// The number of parts.
    pub(crate) fn parts(&self) -> usize {
        self.divided.as_ref().map_or(usize::from(self.division.is_some()), |divided| divided.len())
    }

    /// Whether a command has keys of `division`.
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

    /// The parts of the transaction. At the first call, they are made of a transaction in one division.
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

/// The bytes that a command adds to a transaction. A split command has its name in each share.
pub(crate) fn bytes_to_keep(request: &Request<'_>, keys: &Keys, place: Option<Place>) -> usize {
    let shares = if place.is_none() { keys.parts.len() } else { 0 };
    request.bytes.len() + shares * (HEADER_BYTES_MAX + request.raw_arg(0).len())
}

/// The header of a command with the maximum of arguments.
pub(crate) const HEADER_BYTES_MAX: usize = b"*1048576\r\n".len();
