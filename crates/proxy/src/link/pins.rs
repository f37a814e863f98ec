//! Clients that are pinned for large transfers, or wait to be.

use crate::ConnId;
use crate::features::Retry;
use crate::link::LinkIx;
use crate::link::upload::Upload;
use engine::memory::Charge;
use std::collections::{BTreeMap, VecDeque};
use stdx::{Id, Slab};
use topology::NodeId;

/// One client's large transfer.
#[derive(Debug)]
pub(crate) struct Pin {
    pub client: ConnId,
    /// The connections that it uses, at most one to each shard and of each profile.
    pub links: Vec<LinkIx>,
    pub refetches: Vec<Refetch>,
    /// The request that is being passed on while it comes.
    pub upload: Option<Upload>,
}

impl Pin {
    /// The request at `place` was answered: nothing of it is asked again.
    pub(crate) fn forget(&mut self, place: u32) {
        self.refetches.retain(|refetch| refetch.retry.ticket.place != place);
    }
}

/// A read that is to be asked again.
#[derive(Debug)]
pub(crate) struct Refetch {
    /// The connection on which its reply is passed over.
    pub from: ConnId,
    /// The first of the requests that are asked again from there: on a retired connection its reply is waited for.
    pub first: u64,
    pub retry: Retry,
    pub charge: Charge,
}

/// All large transfers of a worker.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pub pins: Slab<Pin>,
    /// Who waits for a permit, in order.
    pub waiting: VecDeque<Id>,
    /// Permits given.
    pub granted: usize,
    /// By node: connections that nobody uses at the moment.
    pub idle: BTreeMap<NodeId, Vec<LinkIx>>,
    /// Connections that cannot be given to another client: they are to be closed.
    pub doomed: Vec<LinkIx>,
    /// Clients for whom something may be passed on now.
    pub to_relay: Vec<ConnId>,
    /// Connections whose next reply is to be read: an error, which may say that the request was declined, a part of
    /// what is not passed on part by part any more, or what is for nobody.
    pub to_read: Vec<LinkIx>,
}

impl Pins {
    pub(crate) fn get(&self, id: Id) -> Option<&Pin> {
        self.pins.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Pin> {
        self.pins.get_mut(id)
    }

    /// Whether something is to be passed on, read, closed or given one of `permits`.
    #[inline]
    pub(crate) fn has_work(&self, permits: usize) -> bool {
        let is_listed = !(self.to_relay.is_empty() && self.to_read.is_empty() && self.doomed.is_empty());
        is_listed || (self.granted < permits && !self.waiting.is_empty())
    }

    /// How many clients are pinned or wait for it; 0 once no client is left.
    pub(crate) fn len(&self) -> usize {
        self.pins.len()
    }

    /// Whether `id` waits for a permit.
    pub(crate) fn is_in_line(&self, id: Id) -> bool {
        self.waiting.contains(&id)
    }

    /// What reads that are to be asked again are counted for, and what they hold.
    pub(crate) fn account(&self) -> (usize, usize) {
        let refetches = || self.pins.iter().flat_map(|(_, pin)| &pin.refetches);
        let counted = refetches().map(|refetch| refetch.charge.bytes()).sum();
        (counted, refetches().map(|refetch| refetch.retry.request.len()).sum())
    }

    /// Places in clients' orders for which a read is to be asked again.
    pub(crate) fn refetched(&self) -> impl Iterator<Item = (ConnId, u32)> {
        let refetches = self.pins.iter().flat_map(|(_, pin)| &pin.refetches);
        refetches.map(|refetch| (refetch.retry.ticket.conn, refetch.retry.ticket.place))
    }

    /// How many have a permit.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// The connection `ix` is gone.
    pub(crate) fn vacate(&mut self, ix: LinkIx) {
        for index in 0..self.pins.places() {
            let Some(pin) = self.pins.id_at(index).and_then(|id| self.pins.get_mut(id)) else { continue };
            pin.links.retain(|&used| used != ix);
            if let Some(upload) = &mut pin.upload {
                upload.forget(ix);
            }
        }
        self.idle.values_mut().for_each(|idle| idle.retain(|&unused| unused != ix));
        self.doomed.retain(|&closing| closing != ix);
        self.to_read.retain(|&reading| reading != ix);
    }

    /// The connection `ix` to the node `id` is free for the next who needs one.
    pub(crate) fn add_idle(&mut self, id: NodeId, ix: LinkIx) {
        self.idle.entry(id).or_default().push(ix);
    }

    /// Nobody will need a connection to the node `id` any more.
    pub(crate) fn forget_idle(&mut self, id: NodeId) {
        self.doomed.extend(self.idle.remove(&id).unwrap_or_default());
    }

    /// A connection that nobody uses.
    pub(crate) fn next_idle(&self, fits: impl Fn(LinkIx) -> bool) -> Option<LinkIx> {
        self.idle.values().flatten().copied().find(|&node| fits(node))
    }
}
