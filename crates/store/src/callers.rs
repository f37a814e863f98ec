//! Who speaks to the store: the state of each connection, as a Redis keeps it for each of its clients.

use stdx::{Id, Slab};

/// Names one connection to a [`crate::Store`] for as long as it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId(pub(crate) Id);

/// One connection.
#[derive(Debug)]
pub(crate) struct Caller {
    /// CLIENT ID: from 1 upwards, never given twice.
    pub(crate) number: u64,
    /// The database that it selected.
    pub(crate) database: u8,
    /// It chose RESP3.
    pub(crate) is_resp3: bool,
    /// CLIENT SETNAME.
    pub(crate) name: Vec<u8>,
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    slab: Slab<Caller>,
    /// How many there were.
    admitted: u64,
}

impl Callers {
    pub(crate) fn admit(&mut self) -> CallerId {
        self.admitted += 1;
        let caller = Caller { number: self.admitted, database: 0, is_resp3: false, name: Vec::new() };
        CallerId(self.slab.insert(caller))
    }

    #[inline]
    pub(crate) fn find(&mut self, caller: CallerId) -> Option<&mut Caller> {
        self.slab.get_mut(caller.0)
    }

    /// The state of one whose request is being run.
    pub(crate) fn running(&mut self, caller: CallerId) -> &mut Caller {
        self.slab.get_mut(caller.0).expect("a request is only run for a connection that is there")
    }

    pub(crate) fn remove(&mut self, caller: CallerId) -> Option<Caller> {
        self.slab.remove(caller.0)
    }
}
