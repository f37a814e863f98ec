//! Large transfers use pinned links. So no other client waits behind them, and only the bytes in transit are held.
//!
//! ```text
//!                      a permit is free                    all is answered
//!   No ──► Waiting ─────────────────────► Ready ──► Busy ─────────────────► No
//!    ▲        │ reads to be sent again wait with it             ▲
//!    │        └─────────────────────────────────────────────────┘
//!    └── usually: shared links, many requests pending; while Turning, none is read until they are answered
//! ```
//!
//! A client is pinned for one of these reasons:
//!
//! - A read got a large reply on the shared link. The link skips the reply, and the read is sent again on a pinned link
//!   ("refetch"). Not a byte of the reply was passed on before. To keep their order, the client's later requests in
//!   flight to that node are sent again as well; all of them must be reads. If the reply is so large that another link
//!   replaces the shared one, the shared link itself may become the pinned one (`retire.rs`).
//! - Its last replies were large, so the next one is expected to be large.
//! - Its request may have a reply of any length (KEYS), and a permit is free. Without a free permit, the request is
//!   sent like any other.
//! - Its request is large. The request is passed on while it arrives ([`crate::requests::upload`]). If several shards
//!   must see it, or its beginning does not contain its key, it is passed on once it is complete.
//!
//! A pinned client's requests are carried out one at a time, and only after all earlier ones are answered. The permits
//! bound the memory of all transfers. A client holds nothing while it waits for a permit. A client with a permit waits
//! only for nodes and for its own socket. So there is no deadlock. A client that takes no byte for `output_stall` is
//! closed.
//!
//! # Large values
//!
//! A request or reply is large if it announces more than 64 KiB and is incomplete. It uses a link that no other client
//! uses meanwhile. No more of it is read from its sender than its receiver takes.
//!
//! ```text
//! GET x, shared ──► "$5000000 …": the link becomes the client's, if no other client waits for a reply on it;
//!        │                     else the reply is skipped there, and fills no place
//!        └─► sent again on a pinned link ──► 128 KiB at a time ──► the client's output ──► as the client reads
//! SET x $5000000 … ──► the key is known ──► pinned link ──► passed on while it arrives
//! ```
//!
//! - Only reads are sent again, and only before a byte of the reply was passed on. Only reads of the same client may be
//!   in flight behind them to that node. A large reply to a write (`GETDEL`, a script) is held until it is complete.
//! - If a client's last replies were large, the next one comes on a pinned link at once. Its requests are carried out
//!   one by one meanwhile.
//! - The values of an MGET are passed on in the order of its keys, from all parts. The lists of a KEYS are passed on
//!   one after another, once each part has begun to answer without an error.
//! - 32 clients of a worker may be pinned at once; others wait in line. A client that holds a pinned link and takes no
//!   byte for 30 seconds is closed.
//! - If a node is lost in the middle of a reply, the client's connection is closed. An error would look like a part of
//!   the value.

use crate::ConnId;
use crate::context::Context;
use crate::errors::Lost;
use crate::features::{Asked, Link, Owed, Owner, Retry, Session, TaskId, Ticket};
use crate::link::greeting::Greeting;
use crate::link::pins::{Pin, Refetch};
use crate::link::{LinkIx, ProfileId, State, Use};
use crate::session::is_behind;
use crate::session::pinning::Pinning;
use crate::walk;
use engine::retry::Why;
use stdx::{Id, Instant};
use topology::{NodeId, ShardId};

impl Context {
    /// Whether the session may carry out a request on pinned links now. If not, it resumes when it may.
    pub(crate) fn pin(&mut self, session: &mut Session) -> bool {
        self.want_pin(session);
        matches!(session.pinning, Pinning::Ready(_)) && !session.replies.is_pending()
    }

    /// The same for a request whose reply may be large or small. Without a free permit, it does not wait and uses
    /// shared links.
    pub(crate) fn pin_if_free(&mut self, session: &mut Session) -> bool {
        session.pinning.id().is_none() && !self.has_permit() || self.pin(session)
    }

    /// Whether a permit is free and no client waits for one.
    fn has_permit(&self) -> bool {
        self.pins.waiting.is_empty() && self.pins.granted < self.engine.limits.pinned_clients_max
    }

    /// Gives the session a pin, unless it has one, with a permit or a place in the queue. Returns the pin.
    fn want_pin(&mut self, session: &mut Session) -> Id {
        if let Some(id) = session.pinning.id() {
            return id;
        }
        let pin = Pin { client: session.conn, links: Vec::new(), refetches: Vec::new(), upload: None };
        let has_permit = self.has_permit();
        let id = self.pins.pins.insert(pin);
        if has_permit {
            self.pins.granted += 1;
            session.pinning = Pinning::Ready(id);
        } else {
            self.pins.waiting.push_back(id);
            session.pinning = Pinning::Waiting(id);
        }
        id
    }

    /// The next client for a free permit.
    pub(crate) fn next_to_pin(&mut self) -> Option<ConnId> {
        while self.pins.granted < self.engine.limits.pinned_clients_max {
            let id = self.pins.waiting.pop_front()?;
            if let Some(pin) = self.pins.pins.get(id) {
                self.pins.granted += 1;
                return Some(pin.client);
            }
        }
        None
    }

    /// Gives the waiting session its permit. Returns requests that could not be sent.
    pub(crate) fn handle_pinned(&mut self, session: &mut Session) -> Vec<(Ticket, Lost)> {
        let Pinning::Waiting(id) = session.pinning else {
            debug_assert!(false, "who waits in the queue knows that he does");
            return Vec::new();
        };
        session.pinning = Pinning::Ready(id);
        if !session.replies.is_pending() {
            self.engine.todo.clients_to_resume.push(session.conn);
        }
        self.send_refetches(session)
    }

    /// The link of the session's pin to `shard`, in `profile`. The place of the request, if it is reserved, is `place`:
    /// see [`Context::pinned_to`]. The link is made if there is none.
    pub(crate) fn pinned_node(
        &mut self,
        id: Id,
        profile: ProfileId,
        shard: ShardId,
        place: Option<u32>,
    ) -> Result<LinkIx, Lost> {
        let at = self.primary_of(shard)?;
        self.pinned_to(id, profile, at, place)
    }

    /// The same, to the node `at`. A request that moved to another node may be behind a later one of its client on that
    /// link. Its reply would then wait for a reply that must not be passed on first. Such a request gets a link of its
    /// own.
    pub(crate) fn pinned_to(
        &mut self,
        id: Id,
        profile: ProfileId,
        at: NodeId,
        place: Option<u32>,
    ) -> Result<LinkIx, Lost> {
        let pin = self.pins.pins.get_mut(id).expect("a pinned session has a pin");
        let is_in_order = |link: &Link| {
            let last = link.tickets().last().map(|ticket| ticket.place);
            last.zip(place).is_none_or(|(last, own)| !is_behind(last, own))
        };
        let is_it = |link: &Link| link.node == at && link.profile == profile && is_in_order(link);
        if let Some(&ix) = pin.links.iter().find(|&&ix| is_it(&self.engine.links[ix])) {
            return Ok(ix);
        }
        let ix = self.own_link(profile, at)?;
        self.pins.pins.get_mut(id).expect("as above").links.push(ix);
        Ok(ix)
    }

    /// A link to the node `id` for one client, in `profile`, unless the node is down.
    pub(crate) fn own_link(&mut self, profile: ProfileId, id: NodeId) -> Result<LinkIx, Lost> {
        let fits = |&ix: &LinkIx| self.engine.links[ix].profile == profile;
        if !self.pins.idle.get(&id).is_some_and(|idle| idle.iter().any(fits)) {
            let shared = self.profiles.link(profile, id).or_else(|| self.profiles.link(ProfileId::FIRST, id));
            shared.map_or(Ok(()), |ix| self.admit_on(ix))?;
        }
        Ok(self.unused_link(profile, id))
    }

    /// An unused link to the node `id` in `profile`: an idle one, or a new one.
    pub(crate) fn unused_link(&mut self, profile: ProfileId, id: NodeId) -> LinkIx {
        let idle = self.pins.idle.entry(id).or_default();
        if let Some(at) = idle.iter().rposition(|&ix| self.engine.links[ix].profile == profile) {
            return idle.remove(at);
        }
        let greeting = self.greeting_at(profile, id);
        self.engine.add_link(Link::new((self.shard_of_node(id), id), Use::Pinned, profile, greeting))
    }

    /// The greeting of connections of `profile` to the node `id`.
    pub(crate) fn greeting_at(&self, profile: ProfileId, id: NodeId) -> Greeting {
        let is_told = self.engine.topology.is_cluster() && self.is_replica(id);
        match is_told {
            true => self.profiles.greeting_of_replica(profile),
            false => self.profiles.greeting(profile),
        }
    }

    /// The shard of the node `id`.
    pub(crate) fn shard_of_node(&self, id: NodeId) -> ShardId {
        self.engine.topology.node(id).shard.unwrap_or_else(|| self.engine.topology.keyless())
    }

    /// Returns link `ix`, on which all requests are answered. The next client that needs a link gets it. If its node
    /// gets no requests any more, it is closed.
    pub(crate) fn give_back(&mut self, ix: LinkIx) {
        let link = &mut self.engine.links[ix];
        // A wait on it was limited. The link may become a shared one, to which the limit would apply as well.
        link.late_at_most = Instant::NEVER;
        let id = link.node;
        match self.profiles.link(ProfileId::FIRST, id) {
            Some(_) => self.pins.add_idle(id, ix),
            None => self.pins.doomed.push(ix),
        }
    }

    /// The requests of `session` in flight on link `ix`, on which a large reply begins. All of them are to be sent
    /// again. `None` if this is not possible.
    pub(crate) fn refetches(&self, session: &Session, ix: LinkIx) -> Option<Vec<Refetch>> {
        let link = &self.engine.links[ix];
        let (from, first) = (link.conn()?, link.front()?.start);
        let mut refetches = Vec::new();
        for (number, &ticket) in link.tickets().enumerate() {
            if ticket.conn != session.conn || ticket.owner != Owner::Client {
                continue;
            }
            if !ticket.kept.is_read() || !link.is_kept(&ticket) {
                return None;
            }
            match session.replies.owed(ticket.place) {
                Some(Owed::Node) => {}
                Some(Owed::Task(TaskId::Merge(merge))) if self.merges.get(merge)?.may_be_relayed() => {}
                Some(_) => return None,
                // The whole request has failed.
                None => continue,
            }
            let request = link.kept_request(number)?;
            let charge = self.engine.memory.charge(request.len());
            let retry = Retry::new(Why::LargeReply, link, ticket, request)?;
            refetches.push(Refetch { from, first, retry, charge });
        }
        Some(refetches)
    }

    /// Has `session` send `refetches` again when it may.
    pub(crate) fn add_refetches(&mut self, session: &mut Session, refetches: Vec<Refetch>) {
        self.stats.counters.refetches += refetches.len() as u64;
        let id = self.want_pin(session);
        self.pins.pins.get_mut(id).expect("a pinned session has a pin").refetches.extend(refetches);
    }

    /// Makes link `ix`, on which no other client waits, a pinned link of the session. The session must have a permit,
    /// or get one at once.
    pub(crate) fn leave_to(&mut self, session: &mut Session, ix: LinkIx) -> bool {
        self.want_pin(session);
        let (Pinning::Ready(id) | Pinning::Busy(id)) = session.pinning else { return false };
        session.pinning = Pinning::Busy(id);
        self.pins.pins.get_mut(id).expect("a pinned session has a pin").links.push(ix);
        self.pins.to_relay.push(session.conn);
        true
    }

    /// Whether `refetch` must wait. The rest of its reply on a retired link comes first, since other clients wait
    /// behind it.
    fn waits(&self, refetch: &Refetch) -> bool {
        let is_it = |link: &&Link| link.conn() == Some(refetch.from);
        self.engine.links.iter().find(is_it).is_some_and(|link| {
            link.used_by == Use::Retired && link.front().is_some_and(|ticket| ticket.start == refetch.first)
        })
    }

    /// Sends the refetches, if the session has a permit. Returns those that could not be sent.
    pub(crate) fn send_refetches(&mut self, session: &mut Session) -> Vec<(Ticket, Lost)> {
        walk::enter("send_refetches");
        let (Pinning::Ready(id) | Pinning::Busy(id)) = session.pinning else { return Vec::new() };
        let pin = self.pins.pins.get_mut(id).expect("a pinned session has a pin");
        let refetches = std::mem::take(&mut pin.refetches);
        let (awaiting, refetches) = refetches.into_iter().partition(|refetch| self.waits(refetch));
        self.pins.pins.get_mut(id).expect("as above").refetches = awaiting;
        let mut lost = Vec::new();
        for Refetch { retry: Retry { profile, shard, ticket, request }, .. } in refetches {
            session.pinning = Pinning::Busy(id);
            match self.pinned_node(id, profile, shard, Some(ticket.place)) {
                Ok(ix) => {
                    let Ticket { conn, place, part, owner, kept, .. } = ticket;
                    let is_same = |other: &Ticket| (other.conn, other.place) == (conn, place);
                    let is_behind_another = self.engine.links[ix].tickets().any(is_same);
                    if let (true, Some(Owed::Task(TaskId::Merge(merge)))) =
                        (is_behind_another, session.replies.owed(place))
                    {
                        // A redirect has brought parts of one request together.
                        self.take_whole(conn, merge);
                    }
                    self.engine.asking = ticket.command;
                    self.engine.enqueue_on(ix, &request, Asked { conn, place, part, owner, kept });
                }
                Err(reason) => lost.push((ticket, reason)),
            }
        }
        lost
    }

    /// Ends the session's pin, if it was used: all requests are answered.
    pub(crate) fn handle_quiet(&mut self, session: &mut Session) {
        let Pinning::Busy(id) = session.pinning else {
            if session.pinning == Pinning::Turning {
                session.pinning = Pinning::No;
            }
            self.engine.todo.clients_to_resume.push(session.conn);
            return;
        };
        let Some(pin) = self.pins.pins.get_mut(id) else { return };
        match &mut pin.upload {
            // The node has answered before it had the whole request, so it will not use the rest.
            Some(upload) => self.pins.doomed.extend(upload.give_up()),
            None => self.unpin(session),
        }
    }

    /// Frees the index of link `ix`, which is gone and does not connect again.
    pub(crate) fn vacate(&mut self, ix: LinkIx) {
        let link = &mut self.engine.links[ix];
        link.state = State::Waiting { until: Instant::NEVER };
        self.profiles.forget(link.profile, link.node, ix);
        // The greeting may contain a password.
        (link.handshake.greeting, link.profile) = (Greeting::never(), ProfileId::NONE);
        self.engine.recount_link(ix);
        self.holders.conns -= usize::from(self.engine.links[ix].used_by == Use::Held);
        self.pins.vacate(ix);
        if ix != LinkIx::FIRST {
            self.stats.nodes.take_traffic(&mut self.engine.links[ix]);
            self.engine.links.vacate(ix);
        }
    }

    /// Ends the session's pin. Unfinished transfers on its links are lost.
    pub(crate) fn unpin(&mut self, session: &mut Session) {
        let was = std::mem::take(&mut session.pinning);
        let Some(pin) = was.id().and_then(|id| self.pins.pins.remove(id)) else { return };
        for ix in pin.links {
            match self.engine.links[ix].is_clean() {
                true => self.give_back(ix),
                false => self.pins.doomed.push(ix),
            }
        }
        if !matches!(was, Pinning::Waiting(_)) {
            self.pins.granted -= 1;
        }
        self.engine.todo.clients_to_resume.push(session.conn);
    }

    /// Pauses or resumes reading from a pinned link. Its input is taken if there is no other way to proceed, or if none
    /// of it waits here.
    pub(crate) fn pace_pinned(&mut self, ix: LinkIx) {
        let link = &mut self.engine.links[ix];
        let State::Ready { conn, .. } = link.state else { return };
        let pauses = link.input_len() > 0 && !link.incoming.starved;
        if pauses == link.incoming.paused {
            return;
        }
        link.incoming.paused = pauses;
        link.handle_progress(self.engine.now);
        let deadline = link.deadline(&self.engine.limits);
        self.engine.check_at = self.engine.check_at.min(deadline);
        self.engine.pace(conn, pauses);
    }

    /// A pinned link that was unused for long.
    pub(crate) fn next_stale(&self, now: Instant) -> Option<LinkIx> {
        let after = self.engine.limits.pinned_idle;
        self.pins.next_idle(|ix| self.engine.links[ix].is_silent_for(after, now))
    }
}
