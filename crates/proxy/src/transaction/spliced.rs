//! Replies of ours among those of nodes, in the reply to EXEC.

use resp::reply::{elements, elements_left};
use resp::request::{RequestLimits, Scanned, Scanner};
use resp::{Request, Span};
use std::vec;

/// The commands of one transaction that are not only the node's.
#[derive(Debug, Default)]
pub(crate) struct Inlays {
    pub inlays: Vec<Inlay>,
    /// Commands that are answered here.
    pub here: u32,
    /// Bytes of their requests.
    pub bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Inlay {
    /// So many commands of the node stand before it.
    pub behind: u32,
    pub what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// This request is answered here, or asked.
    Here(Box<[u8]>),
    /// The node is told to use this database.
    Select(u16),
}

impl Inlays {
    /// Whether the node answers all, and nothing of it needs a look.
    pub(crate) fn is_empty(&self) -> bool {
        self.inlays.is_empty()
    }

    /// How many commands are answered here.
    pub(crate) fn here(&self) -> u32 {
        self.here
    }

    /// Whether the transaction ends in another database, perhaps.
    pub(crate) fn selects(&self) -> bool {
        self.inlays.iter().any(|inlay| matches!(inlay.what, What::Select(_)))
    }

    /// Bytes of the requests that are answered here.
    pub(crate) fn request_bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.inlays.capacity() * size_of::<Inlay>() + self.bytes
    }

    /// `request` is answered here, behind `behind` commands of the node.
    pub(crate) fn add(&mut self, behind: u32, request: &[u8]) {
        self.here += 1;
        self.bytes += request.len();
        self.inlays.push(Inlay { behind, what: What::Here(request.into()) });
    }

    /// The node's command behind `behind` others chooses `database`.
    pub(crate) fn add_select(&mut self, behind: u32, database: u16) {
        self.inlays.push(Inlay { behind, what: What::Select(database) });
    }
}

/// What a client waits for whose transaction has inlays.
#[derive(Debug)]
pub(crate) struct Mixture {
    pub inlays: Inlays,
    /// How many commands its node runs.
    pub commands: u32,
    pub stage: Stage,
    /// Bytes of memory that the inlays hold.
    pub inlay_bytes: usize,
    /// What it holds, as it was counted last.
    pub counted_bytes: usize,
}

/// How far a mixture has come.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Its node has not answered yet.
    Waiting,
    /// Its client gets the replies one by one.
    Laying(Laying),
}

/// The replies of a mixture that were not written yet.
#[derive(Debug)]
pub(crate) struct Laying {
    /// How many there are in all, if nothing was written.
    pub header: Option<usize>,
    /// Commands that are answered here, or that choose a database.
    pub inlays: vec::IntoIter<Inlay>,
    /// What the node has said to all its commands, and how much of that was passed on.
    pub replies: Vec<u8>,
    pub passed_bytes: usize,
    /// How many of them were passed on, and how many were not.
    pub passed: u32,
    pub left: usize,
    /// The database that the last SELECT has chosen.
    pub database: Option<u16>,
}

/// How far the replies of a mixture were written.
pub(crate) enum Laid {
    /// There are no more.
    All,
    /// Others have no room yet.
    Some,
    /// All before this request, which is to be carried out now.
    Until(Box<[u8]>),
}

/// What comes next of a mixture.
pub(crate) enum Piece {
    Header(usize),
    /// A reply of the node, of so many bytes.
    Passed(usize),
    /// This request is answered here, or asked.
    Here(Box<[u8]>),
    End,
}

impl Mixture {
    /// What it was counted for, and what it holds.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.counted_bytes, self.held_bytes())
    }

    pub(crate) fn new(inlays: Inlays, commands: u32) -> Mixture {
        let inlay_bytes = inlays.held_bytes();
        Mixture { inlays, commands, stage: Stage::Waiting, inlay_bytes, counted_bytes: 0 }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let replies = match &self.stage {
            Stage::Waiting => 0,
            Stage::Laying(laying) => laying.replies.capacity(),
        };
        self.inlay_bytes + replies
    }

    /// The node has answered `reply`. False if that is not one reply to each command.
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

    /// The next `len` bytes that the node has said.
    pub(crate) fn pass(&mut self, len: usize) -> &[u8] {
        let start = self.passed_bytes;
        self.passed_bytes += len;
        &self.replies[start..self.passed_bytes]
    }
}

/// `request`, which was scanned before it was kept.
pub(crate) fn scan<'a>(request: &'a [u8], args: &'a mut Vec<Span>, inline: &mut Vec<u8>) -> Request<'a> {
    let scanned = Scanner::default().scan(request, &RequestLimits::default(), args, inline);
    debug_assert!(matches!(scanned, Ok(Scanned::Request { .. })), "it was scanned before");
    Request::new(request, args)
}
