//! Inlays among the nodes' replies, in the reply to EXEC.

use resp::reply::{elements, elements_left};
use resp::request::{RequestLimits, Scanned, Scanner};
use resp::{Request, Span};
use std::vec;

/// The commands of one transaction that shardis answers, or that choose a database.
#[derive(Debug, Default)]
pub(crate) struct Inlays {
    pub inlays: Vec<Inlay>,
    /// The number of commands that shardis answers.
    pub here: u32,
    /// Bytes of the requests that shardis answers.
    pub bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Inlay {
    /// The number of the node's commands before the inlay.
    pub behind: u32,
    pub what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// shardis answers this request itself, or asks nodes or other workers.
    Here(Box<[u8]>),
    /// The node gets a SELECT of this database.
    Select(u16),
}

impl Inlays {
    /// Whether the node alone answers all commands, and none needs a look.
    pub(crate) fn is_empty(&self) -> bool {
        self.inlays.is_empty()
    }

    /// The number of commands that shardis answers.
    pub(crate) fn here(&self) -> u32 {
        self.here
    }

    /// Whether the transaction may end in another database.
    pub(crate) fn selects(&self) -> bool {
        self.inlays.iter().any(|inlay| matches!(inlay.what, What::Select(_)))
    }

    /// Bytes of the requests that shardis answers.
    pub(crate) fn request_bytes(&self) -> usize {
        self.bytes
    }

    /// Memory in use.
    pub(crate) fn held_bytes(&self) -> usize {
        self.inlays.capacity() * size_of::<Inlay>() + self.bytes
    }

    /// Adds `request`, which shardis answers, behind `behind` commands of the node.
    pub(crate) fn add(&mut self, behind: u32, request: &[u8]) {
        self.here += 1;
        self.bytes += request.len();
        self.inlays.push(Inlay { behind, what: What::Here(request.into()) });
    }

    /// Notes that the node's command behind `behind` others selects `database`.
    pub(crate) fn add_select(&mut self, behind: u32, database: u16) {
        self.inlays.push(Inlay { behind, what: What::Select(database) });
    }
}

/// The pending reply to EXEC of a transaction with inlays.
#[derive(Debug)]
pub(crate) struct Mixture {
    pub inlays: Inlays,
    /// The number of commands that the node runs.
    pub commands: u32,
    pub stage: Stage,
    /// Memory that the inlays use.
    pub inlay_bytes: usize,
    /// Memory in use, as it was counted last.
    pub counted_bytes: usize,
}

/// The progress of a mixture.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The node has not answered yet.
    Waiting,
    /// The client gets the replies one by one.
    Laying(Laying),
}

/// The replies of a mixture that are not written yet.
#[derive(Debug)]
pub(crate) struct Laying {
    /// The number of all replies, until the header is written.
    pub header: Option<usize>,
    /// Commands that shardis answers, or that choose a database.
    pub inlays: vec::IntoIter<Inlay>,
    /// The node's replies to all its commands, and the number of bytes already relayed.
    pub replies: Vec<u8>,
    pub passed_bytes: usize,
    /// The numbers of replies that were relayed, and that were not.
    pub passed: u32,
    pub left: usize,
    /// The database of the last SELECT.
    pub database: Option<u16>,
}

/// The result of writing replies of a mixture.
pub(crate) enum Laid {
    /// All replies are written.
    All,
    /// The output has no room for more.
    Some,
    /// The replies before this request are written, and the request must run now.
    Until(Box<[u8]>),
}

/// The next piece of a mixture.
pub(crate) enum Piece {
    Header(usize),
    /// A reply of the node, of this number of bytes.
    Passed(usize),
    /// shardis answers this request itself, or asks nodes or other workers.
    Here(Box<[u8]>),
    End,
}

impl Mixture {
    /// The bytes that are charged, and the bytes in use.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.counted_bytes, self.held_bytes())
    }

    pub(crate) fn new(inlays: Inlays, commands: u32) -> Mixture {
        let inlay_bytes = inlays.held_bytes();
        Mixture { inlays, commands, stage: Stage::Waiting, inlay_bytes, counted_bytes: 0 }
    }

    /// Memory in use.
    pub(crate) fn held_bytes(&self) -> usize {
        let replies = match &self.stage {
            Stage::Waiting => 0,
            Stage::Laying(laying) => laying.replies.capacity(),
        };
        self.inlay_bytes + replies
    }

    /// Takes the node's `reply`. Returns false if it is not one reply to each command.
    pub(crate) fn begin(&mut self, reply: &[u8]) -> bool {
        let Some(replies) = elements(reply).filter(|replies| replies.len() == self.commands as usize) else {
            return false;
        };
        let left = replies.len();
        self.stage = Stage::Laying(Laying {
            header: Some(left + self.inlays.here as usize),
            inlays: std::mem::take(&mut self.inlays.inlays).into_iter(),
            replies: replies.rest().to_vec(),
            passed_bytes: 0,
            passed: 0,
            left,
            database: None,
        });
        true
    }
}

impl Laying {
    pub(crate) fn next(&mut self) -> Piece {
        if let Some(count) = self.header.take() {
            return Piece::Header(count);
        }
        let chosen = match self.inlays.as_slice().first() {
            Some(inlay) if inlay.behind == self.passed => match self.inlays.next().map(|inlay| inlay.what) {
                Some(What::Here(request)) => return Piece::Here(request),
                Some(What::Select(database)) => Some(database),
                None => None,
            },
            _ => None,
        };
        let Some(reply) = elements_left(&self.replies[self.passed_bytes..], self.left).next() else {
            return Piece::End;
        };
        if reply == b"+OK\r\n" {
            self.database = chosen.or(self.database);
        }
        let len = reply.len();
        (self.passed, self.left) = (self.passed + 1, self.left - 1);
        Piece::Passed(len)
    }

    /// The next `len` bytes of the node's replies.
    pub(crate) fn pass(&mut self, len: usize) -> &[u8] {
        let start = self.passed_bytes;
        self.passed_bytes += len;
        &self.replies[start..self.passed_bytes]
    }
}

/// `request`, parsed again: it was checked when it was queued.
pub(crate) fn scan<'a>(request: &'a [u8], args: &'a mut Vec<Span>, inline: &mut Vec<u8>) -> Request<'a> {
    let scanned = Scanner::default().scan(request, &RequestLimits::default(), args, inline);
    debug_assert!(matches!(scanned, Ok(Scanned::Request { .. })), "it was scanned before");
    Request::new(request, args)
}
