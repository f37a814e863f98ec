//! A large request that is passed on while it arrives.

use crate::link::LinkIx;
use resp::request::Scanner;

/// A request that is being passed on.
#[derive(Debug)]
pub(crate) struct Upload {
    /// The link to its node; `None` if the rest is dropped because the request is already answered.
    pub link: Option<LinkIx>,
    pub scanner: Scanner,
}

impl Upload {
    /// Forgets link `ix`, which is gone.
    pub(crate) fn forget(&mut self, ix: LinkIx) {
        if self.link == Some(ix) {
            self.link = None;
        }
    }

    /// Drops the rest of the request. Returns the link on which its beginning was sent.
    pub(crate) fn give_up(&mut self) -> Option<LinkIx> {
        self.link.take()
    }
}
