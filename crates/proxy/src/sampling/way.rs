//! The way of a client's reply from the proxy into the client's socket.

use crate::ConnId;
use crate::features::Session;

/// The way of one reply, or of a part of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub conn: ConnId,
    pub place: u32,
    /// Bytes that the client takes up to the end of the reply. `None` as long as the client's reply is not complete or not
    /// the first.
    left: Option<usize>,
}

/// The progress of a reply in one turn of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Whether all replies before it have left, for the first time.
    pub begins: bool,
    /// Whether the socket has all of it.
    pub is_taken: bool,
}

impl Way {
    pub(crate) fn new(conn: ConnId, place: u32) -> Way {
        Way { conn, place, left: None }
    }

    /// Notes that the client `conn` has taken `count` bytes.
    pub(crate) fn note_taken(&mut self, conn: ConnId, count: usize) {
        if conn == self.conn {
            self.left = self.left.map(|left| left.saturating_sub(count));
        }
    }

    /// Notes how far the reply to `session` has got.
    pub(crate) fn go_on(&mut self, session: &Session) -> Progress {
        let begins = self.left.is_none() && !session.replies.has_place(self.place);
        if begins {
            self.left = Some(session.replies.output().len());
        }
        Progress { begins, is_taken: self.left == Some(0) }
    }
}
