//! Ends of replies, for each protocol. Pure.

use resp::reply::{ReplyLimits, Scanner, is_error, is_push};

/// A complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) len: usize,
    pub(crate) nature: Nature,
}

/// The part of a reply that this program must know in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// An answer.
    Answer,
    /// An error.
    Error,
    /// A message that answers no request.
    Push,
    /// An answer behind which the server closes the connection.
    Last,
}

/// Finds the ends of one connection's replies.
pub(crate) trait Framing: Default {
    /// The first reply in `bytes`; `None` while it is incomplete. The same bytes, and more, must be given to the next call.
    fn reply(&mut self, bytes: &[u8]) -> Result<Option<Reply>, String>;

    /// The server has closed its half. Whether that is the end of the reply in `bytes`, all of which was given before.
    fn ends(&mut self, _bytes: &[u8]) -> bool {
        false
    }
}

/// RESP, both versions.
#[derive(Debug, Default)]
pub(crate) struct Resp(Scanner);

impl Framing for Resp {
    #[inline]
    fn reply(&mut self, bytes: &[u8]) -> Result<Option<Reply>, String> {
        let len = self.0.scan(bytes, &ReplyLimits::default()).map_err(|error| error.to_string())?;
        Ok(len.map(|len| {
            let reply = &bytes[..len];
            let nature = match () {
                () if is_error(reply) => Nature::Error,
                () if is_push(reply) => Nature::Push,
                () => Nature::Answer,
            };
            Reply { len, nature }
        }))
    }
}
