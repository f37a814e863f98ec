//! A large request that is passed on while it arrives.

use crate::link::LinkIx;
use resp::request::Scanner;

/// A request that is being passed on.
#[derive(Debug)]
pub(crate) struct Upload {
    /// Where to; `None` if its rest is dropped, since the request was answered already.
    pub link: Option<LinkIx>,
    pub scanner: Scanner,
}

impl Upload {
    /// The connection `ix` is gone.
    pub(crate) fn forget(&mut self, ix: LinkIx) {
        if self.link == Some(ix) {
            self.link = None;
        }
    }

    /// The rest is of no use. Returns the connection on which the beginning went out.
    pub(crate) fn give_up(&mut self) -> Option<LinkIx> {
        self.link.take()
    }
}
