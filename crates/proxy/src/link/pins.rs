//! Clients that are pinned for large transfers, or wait for a pin.

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
    /// Its links, at most one to each shard and of each profile.
    pub links: Vec<LinkIx>,
    pub refetches: Vec<Refetch>,
    /// The request that is passed on while it arrives.
    pub upload: Option<Upload>,
}

impl Pin {
    /// Forgets refetches for the request at `place`, which was answered.
    pub(crate) fn forget(&mut self, place: u32) {
        self.refetches.retain(|refetch| refetch.retry.ticket.place != place);
    }
}

/// A read that is to be sent again.
#[derive(Debug)]
pub(crate) struct Refetch {
    /// The connection on which its reply is skipped.
    pub from: ConnId,
    /// Offset of the first request that is sent again from there. On a retired link, its reply must come first.
    pub first: u64,
    pub retry: Retry,
    pub charge: Charge,
}

/// All large transfers of a worker.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pub pins: Slab<Pin>,
    /// Clients that wait for a permit, in order.
    pub waiting: VecDeque<Id>,
    /// Number of permits in use.
    pub granted: usize,
    /// Unused links by node.
    pub idle: BTreeMap<NodeId, Vec<LinkIx>>,
    /// Links that no other client may use. They are to be closed.
    pub doomed: Vec<LinkIx>,
    /// Clients for which bytes may be passed on now.
    pub to_relay: Vec<ConnId>,
    /// Links whose next reply is to be read. It may be an error, which may say that the request was declined. It may be
    /// a part of a reply that is no longer passed on part by part. Or it is to be dropped.
    pub to_read: Vec<LinkIx>,
}

impl Pins {
    pub(crate) fn get(&self, id: Id) -> Option<&Pin> {
        self.pins.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Pin> {
        self.pins.get_mut(id)
    }

    /// Whether bytes are to be passed on, replies read, links closed, or one of `permits` given.
    #[inline]
    pub(crate) fn has_work(&self, permits: usize) -> bool {
        let is_listed = !(self.to_relay.is_empty() && self.to_read.is_empty() && self.doomed.is_empty());
        is_listed || (self.granted < permits && !self.waiting.is_empty())
    }

    /// Number of clients that are pinned or wait for a permit; 0 once no client is left.
    pub(crate) fn len(&self) -> usize {
        self.pins.len()
    }

    /// Whether `id` waits for a permit.
    pub(crate) fn is_in_line(&self, id: Id) -> bool {
        self.waiting.contains(&id)
    }

    /// Bytes of refetches as counted, and as held now.
    pub(crate) fn account(&self) -> (usize, usize) {
        let refetches = || self.pins.iter().flat_map(|(_, pin)| &pin.refetches);
        let counted = refetches().map(|refetch| refetch.charge.bytes()).sum();
        (counted, refetches().map(|refetch| refetch.retry.request.len()).sum())
    }

    /// Places in clients' orders for which a read is to be sent again.
    pub(crate) fn refetched(&self) -> impl Iterator<Item = (ConnId, u32)> {
        let refetches = self.pins.iter().flat_map(|(_, pin)| &pin.refetches);
        refetches.map(|refetch| (refetch.retry.ticket.conn, refetch.retry.ticket.place))
    }

    /// Number of permits in use.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// Forgets link `ix`, which is gone.
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

    /// Adds the unused link `ix` to the node `id`.
    pub(crate) fn add_idle(&mut self, id: NodeId, ix: LinkIx) {
        self.idle.entry(id).or_default().push(ix);
    }

    /// Closes unused links to the node `id`, which will not be needed any more.
    pub(crate) fn forget_idle(&mut self, id: NodeId) {
        self.doomed.extend(self.idle.remove(&id).unwrap_or_default());
    }

    /// An unused link.
    pub(crate) fn next_idle(&self, fits: impl Fn(LinkIx) -> bool) -> Option<LinkIx> {
        self.idle.values().flatten().copied().find(|&node| fits(node))
    }
}
