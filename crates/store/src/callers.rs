//! The state of each connection to the store, as Redis keeps it for each client.

use std::collections::BTreeMap;

use resp::{Request, Span, encode};
use stdx::Slab;

use crate::audience::Place;
use crate::caller_id::CallerId;
use crate::channels::Subscriptions;
use crate::commands::wanted::Wanted;

/// One connection.
#[derive(Debug)]
pub(crate) struct Caller {
    /// CLIENT ID: from 1 upwards, never reused.
    pub(crate) number: u64,
    /// The selected database.
    pub(crate) database: u8,
    /// Whether the connection chose RESP3.
    pub(crate) is_resp3: bool,
    /// CLIENT SETNAME.
    pub(crate) name: Vec<u8>,
    /// State that few connections have. Without it, a request needs no checks before it runs.
    pub(crate) extras: Option<Box<Extras>>,
}

/// State that few connections have.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    pub(crate) transaction: Option<Transaction>,
    pub(crate) watched: Vec<Place>,
    pub(crate) wait: Option<Wait>,
    pub(crate) subscriptions: Subscriptions,
}

/// Requests since MULTI.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) requests: Vec<Queued>,
    /// A request could not be queued, so EXEC will fail.
    pub(crate) is_broken: bool,
}

/// A request that runs later.
#[derive(Debug)]
pub(crate) struct Queued {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

/// A wait of a connection for one of several keys.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) database: u8,
    pub(crate) keys: Vec<Box<[u8]>>,
    pub(crate) wanted: Wanted,
    /// Unix time in milliseconds at which the wait ends.
    pub(crate) deadline: Option<u64>,
}

impl Queued {
    pub(crate) fn new(request: &Request<'_>) -> Queued {
        let (mut bytes, mut spans) = (Vec::new(), Vec::with_capacity(request.len()));
        encode::array_header(&mut bytes, request.len());
        for arg in request.args() {
            encode::bulk(&mut bytes, arg);
            spans.push(Span { start: bytes.len() - 2 - arg.len(), len: arg.len() });
        }
        Queued { bytes, spans }
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request::new(&self.bytes, &self.spans)
    }
}

impl Caller {
    pub(crate) fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    pub(crate) fn transaction(&mut self) -> Option<&mut Transaction> {
        self.extras.as_mut()?.transaction.as_mut()
    }

    pub(crate) fn wait(&self) -> Option<&Wait> {
        self.extras.as_ref()?.wait.as_ref()
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| !extras.subscriptions.is_empty())
    }

    /// Drops extra state that is empty, so that later requests need no checks.
    pub(crate) fn settle(&mut self) {
        let is_idle = |extras: &Extras| {
            extras.transaction.is_none()
                && extras.watched.is_empty()
                && extras.wait.is_none()
                && extras.subscriptions.is_empty()
        };
        self.extras.take_if(|extras| is_idle(extras));
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    slab: Slab<Caller>,
    /// Number of connections so far.
    admitted: u64,
    /// Limited waits, by their deadline and then by the number of the connection.
    deadlines: BTreeMap<(u64, u64), CallerId>,
    waiting: usize,
}

impl Callers {
    pub(crate) fn admit(&mut self) -> CallerId {
        self.admitted += 1;
        let (number, name) = (self.admitted, Vec::new());
        CallerId(self.slab.insert(Caller { number, database: 0, is_resp3: false, name, extras: None }))
    }

    #[inline]
    pub(crate) fn find(&mut self, caller: CallerId) -> Option<&mut Caller> {
        self.slab.get_mut(caller.0)
    }

    /// The state of the connection whose request runs.
    pub(crate) fn running(&mut self, caller: CallerId) -> &mut Caller {
        self.slab.get_mut(caller.0).expect("a request is only run for a connection that is there")
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Number of waiting connections.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The connection with this number.
    pub(crate) fn with_number(&self, number: i64) -> Option<CallerId> {
        let number = u64::try_from(number).ok()?;
        let mut ids = (0..self.slab.places()).filter_map(|place| self.slab.id_at(place));
        ids.find(|id| self.slab.get(*id).is_some_and(|caller| caller.number == number)).map(CallerId)
    }

    pub(crate) fn remove(&mut self, caller: CallerId) -> Option<Caller> {
        self.slab.remove(caller.0)
    }

    pub(crate) fn wait_for(&self, caller: CallerId) -> Option<&Wait> {
        self.slab.get(caller.0)?.wait()
    }

    pub(crate) fn begin_wait(&mut self, caller: CallerId, wait: Wait) {
        let state = self.running(caller);
        let (number, deadline) = (state.number, wait.deadline);
        state.extras().wait = Some(wait);
        self.waiting += 1;
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, number), caller);
        }
    }

    pub(crate) fn end_wait(&mut self, caller: CallerId) -> Option<Wait> {
        let state = self.slab.get_mut(caller.0)?;
        let wait = state.extras.as_mut()?.wait.take()?;
        state.settle();
        let number = state.number;
        self.waiting -= 1;
        wait.deadline.map(|deadline| self.deadlines.remove(&(deadline, number)));
        Some(wait)
    }

    /// Deadline of the next wait that ends.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// Moves the deadlines of all waits by `by_ms`.
    pub(crate) fn shift_deadlines(&mut self, by_ms: i64) {
        for ((deadline, number), caller) in std::mem::take(&mut self.deadlines) {
            let later = deadline.saturating_add_signed(by_ms);
            self.deadlines.insert((later, number), caller);
            let extras = self.find(caller).and_then(|state| state.extras.as_mut());
            if let Some(wait) = extras.and_then(|extras| extras.wait.as_mut()) {
                wait.deadline = Some(later);
            }
        }
    }

    /// Takes a connection whose deadline has passed.
    pub(crate) fn due(&self, now_ms: u64) -> Option<CallerId> {
        let ((deadline, _), caller) = self.deadlines.first_key_value()?;
        (*deadline <= now_ms).then_some(*caller)
    }
}
