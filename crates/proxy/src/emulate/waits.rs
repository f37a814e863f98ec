//! Clients that wait for an element of a key, in the order in which they came, and what wakes them.
//!
//! ```text
//!   no key has an element ─► registered, longest wait first ─► looked at once more ─► waits
//!   node: k has changed ─► the first client that waits for k ─► its plan pops k ─► reply, or waits on
//! ```
//!
//! Nodes tell of changed keys as they do for client-side caching ([`crate::tracking::invalidations`]): a worker with a
//! client that waits has one connection more to each node of its keys. A change between the first look and the registration
//! would be missed, so the plan looks once more when it is registered and all nodes have confirmed.
//!
//! Of the clients that wait for one key on a worker, only the first is woken. It passes the wake-up on when it leaves: the key
//! may have more elements. So a push costs one pop, however many clients wait. Workers do not know of each other's
//! clients: between them, the node decides.

use super::{Emulation, Plan};
use crate::context::Context;
use crate::emulate;
use crate::emulate::Emulations;
use crate::errors;
use crate::errors::Lost;
use crate::event::Notice;
use crate::features::{Owed, Session, TaskId};
use crate::held;
use crate::outcome::Effect;
use crate::peers::{Peer, Peers};
use crate::session::Reason;
use resp::encode;
use resp::reply::is_error;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use stdx::{Id, Instant};
use topology::ShardId;

/// The keys of a plan that may wait until one of them changes.
#[derive(Debug)]
pub(super) struct KeyWait {
    pub keys: Vec<Key>,
    pub kind: Kind,
    /// The client waits until then; a command that does not wait has an instant that is past.
    pub deadline: Instant,
    /// The protocol of the reply.
    pub resp3: bool,
    /// The reply that takes the place of waiting on.
    pub verdict: Option<Vec<u8>>,
    /// The plan has found nothing once: what keys hold is no reason to refuse the request any more.
    pub has_waited: bool,
    /// Nobody will get the reply.
    pub client_left: bool,
    /// Keys that have changed since the plan looked at them last.
    changed: Changed,
}

/// One key of a request.
#[derive(Debug)]
pub(super) struct Key {
    pub name: Box<[u8]>,
    pub shard: ShardId,
}

/// Which keys are to be looked at again.
#[derive(Debug)]
pub(super) enum Changed {
    All,
    Keys(BTreeSet<usize>),
}

/// What a client waits for. Of those that wait for the same at one key, the first alone is woken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    List,
    SortedSet,
    /// Entries for this group of a stream.
    Group(Box<[u8]>),
}

impl KeyWait {
    /// Of a request whose keys are `keys`, until `deadline`.
    pub(super) fn new(keys: Vec<Key>, deadline: Instant, resp3: bool) -> KeyWait {
        KeyWait {
            keys,
            kind: Kind::List,
            deadline,
            resp3,
            verdict: None,
            has_waited: false,
            client_left: false,
            changed: Changed::Keys(BTreeSet::new()),
        }
    }

    /// Names are held here and in [`Waits`].
    pub(super) fn held_bytes(&self) -> usize {
        self.keys.iter().map(|key| 2 * (size_of::<Key>() + key.name.len())).sum()
    }

    /// The reply if nothing came in time.
    pub(super) fn nothing(&self) -> Vec<u8> {
        let mut reply = Vec::new();
        encode::null_array(&mut reply, self.resp3);
        reply
    }

    /// The keys that have changed, which are about to be looked at.
    pub(super) fn take_changes(&mut self) -> Changed {
        std::mem::replace(&mut self.changed, Changed::Keys(BTreeSet::new()))
    }

    fn shards(&self) -> BTreeSet<ShardId> {
        self.keys.iter().map(|key| key.shard).collect()
    }

    fn note_changed(&mut self, name: &[u8]) {
        if let Changed::Keys(changed) = &mut self.changed {
            let places = self.keys.iter().enumerate().filter(|(_, key)| *key.name == *name);
            changed.extend(places.map(|(at, _)| at));
        }
    }

    /// Whether any key has changed since the plan looked.
    fn has_changes(&self) -> bool {
        !matches!(&self.changed, Changed::Keys(changed) if changed.is_empty())
    }

    /// The names of the keys that have changed and of those at `in_hand`, at which the plan does not look any more.
    fn unserved(&self, in_hand: &[usize]) -> Vec<Box<[u8]>> {
        let places: BTreeSet<usize> = match &self.changed {
            Changed::All => (0..self.keys.len()).collect(),
            Changed::Keys(changed) => changed.iter().chain(in_hand).copied().collect(),
        };
        places.into_iter().map(|at| self.keys[at].name.clone()).collect()
    }
}

/// The clients of a worker that wait for an element.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// By the keys and the kinds of what they wait for. The longest wait stands first.
    by_key: BTreeMap<Box<[u8]>, BTreeMap<Kind, VecDeque<Id>>>,
    members: BTreeSet<Id>,
    /// Of those that do not wait for ever.
    deadlines: BTreeSet<(Instant, Id)>,
    /// Their keys have changed, and nothing was done about it yet.
    pub woken: VecDeque<Id>,
}

impl Waits {
    /// Whether any client waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// When the first of them has waited long enough.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadlines.first().map_or(Instant::NEVER, |(deadline, _)| *deadline)
    }

    /// False if it has joined before.
    fn join(&mut self, id: Id, wait: &KeyWait) -> bool {
        if !self.members.insert(id) {
            return false;
        }
        if wait.deadline != Instant::NEVER {
            self.deadlines.insert((wait.deadline, id));
        }
        for key in &wait.keys {
            let kinds = self.by_key.entry(key.name.clone()).or_default();
            let queue = kinds.entry(wait.kind.clone()).or_default();
            // A request may name a key twice.
            if queue.back() != Some(&id) {
                queue.push_back(id);
            }
        }
        true
    }

    /// False if it has not joined.
    fn leave(&mut self, id: Id, wait: &KeyWait) -> bool {
        if !self.members.remove(&id) {
            return false;
        }
        self.deadlines.remove(&(wait.deadline, id));
        for key in &wait.keys {
            let Some(kinds) = self.by_key.get_mut(&key.name) else { continue };
            if let Some(queue) = kinds.get_mut(&wait.kind) {
                queue.retain(|waiting| *waiting != id);
                if queue.is_empty() {
                    kinds.remove(&wait.kind);
                }
            }
            if kinds.is_empty() {
                self.by_key.remove(&key.name);
            }
        }
        true
    }

    /// For each kind of value, the client that has waited longest for `key`.
    fn first_of_each_kind(&self, key: &[u8]) -> Vec<Id> {
        let kinds = self.by_key.get(key).into_iter().flat_map(BTreeMap::values);
        kinds.filter_map(|queue| queue.front().copied()).collect()
    }

    /// All of them.
    fn all(&self) -> Vec<Id> {
        self.members.iter().copied().collect()
    }
}

impl Emulations {
    /// The plan does not wait any more. Elements that it leaves are for the next client.
    pub(super) fn leave_waits(&mut self, id: Id, plan: &Plan) {
        let Some(wait) = plan.wait() else { return };
        if self.waits.leave(id, wait) {
            wait.unserved(&plan.in_hand()).iter().for_each(|key| self.wake(key));
        }
    }

    /// `key` has changed: the client that has waited longest for it may get an element.
    pub(crate) fn wake(&mut self, key: &[u8]) {
        for id in self.waits.first_of_each_kind(key) {
            if let Some(wait) = self.key_wait(id) {
                wait.note_changed(key);
                self.waits.woken.push_back(id);
            }
        }
    }

    /// Any key may have changed.
    pub(crate) fn wake_all(&mut self) {
        for id in self.waits.all() {
            if let Some(wait) = self.key_wait(id) {
                wait.changed = Changed::All;
                self.waits.woken.push_back(id);
            }
        }
    }

    fn key_wait(&mut self, id: Id) -> Option<&mut KeyWait> {
        self.slab.get_mut(id)?.plan.wait_mut()
    }

    /// The client that waits for plan `id` will send no more.
    pub(crate) fn abandon_pop(&mut self, cx: &mut Context, session: &mut Session, id: Id) {
        self.leave_emulation(cx, id);
        held::set_waiting(cx, session, None);
        session.hold.remove(Reason::Order);
        session.replies.forget_pending();
        cx.count_waiting(session);
    }

    /// The plan has found nothing. True if its client waits on; false if its time is up.
    pub(super) fn wait_on_keys(&mut self, cx: &mut Context, id: Id) -> bool {
        let Some(wait) = self.slab.get_mut(id).and_then(|emulation| emulation.plan.wait_mut()) else {
            return false;
        };
        if wait.deadline <= cx.engine.now {
            return false;
        }
        if self.waits.join(id, wait) {
            // Something may have come since it looked: it looks again as soon as nodes tell of changes.
            wait.changed = Changed::All;
            cx.effects.push_back(Effect::HearOfChanges(id, wait.shards()));
        } else if wait.has_changes() {
            self.waits.woken.push_back(id);
        }
        true
    }
}

/// The plan that `session` waits for, if it waits for an element of several shards.
pub(crate) fn waiting_pop(session: &Session) -> Option<Id> {
    match session.replies.front_owed() {
        Some(Owed::Task(TaskId::Emulation(id))) if session.wait.is_seen => Some(id),
        _ => None,
    }
}

impl Emulations {
    /// The client of plan `id` waits, and all can see that.
    pub(super) fn show_wait_for_key(&mut self, cx: &mut Context, peers: &mut Peers, id: Id) {
        let Some(emulation) = self.slab.get(id) else { return };
        if emulation.plan.is_waiting()
            && let Some(Peer::Client(session)) = peers.get_mut(emulation.conn)
        {
            held::show_waiting(cx, session);
        }
    }

    /// Goes on with the plans whose keys have changed. False if nothing was done.
    pub(crate) fn serve_woken(&mut self, cx: &mut Context, peers: &mut Peers) -> bool {
        let mut serves = false;
        while let Some(id) = self.waits.woken.pop_front() {
            let Some(emulation) = self.slab.get_mut(id) else { continue };
            if let Some(questions) = emulation.plan.look_again() {
                self.ask(cx, id, questions);
                self.advance_emulation(cx, peers, id);
                serves = true;
            }
        }
        serves
    }

    /// Answers those who have waited long enough.
    pub(crate) fn end_late_waits(&mut self, cx: &mut Context, peers: &mut Peers) {
        while let Some(&(deadline, id)) = self.waits.deadlines.first()
            && deadline <= cx.engine.now
        {
            self.waits.deadlines.remove(&(deadline, id));
            self.end_wait_for_key(cx, peers, id, None);
        }
    }

    /// The client of plan `id` waits no longer than for what is in flight. It gets `error`, or is told that nothing came.
    pub(crate) fn end_wait_for_key(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        id: Id,
        error: Option<&str>,
    ) {
        let Some(emulation) = self.slab.get_mut(id) else { return };
        let is_waiting = emulation.plan.is_waiting();
        let Some(wait) = emulation.plan.wait_mut() else { return };
        let verdict = error.map_or_else(|| wait.nothing(), errors::reply);
        if !is_waiting {
            wait.verdict.get_or_insert(verdict);
            return;
        }
        if let Some(emulation) = self.forget_emulation(cx, id) {
            emulate::answer_emulation(cx, peers, emulation, verdict);
        }
    }

    /// `shard` does not tell of changes: no client can wait for its keys.
    pub(crate) fn end_waits_for(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        shard: ShardId,
        reason: &str,
    ) {
        let name = cx.engine.shard_name(shard).to_owned();
        let text = Lost::NotSent { shard: name, reason: reason.to_owned() }.text();
        for id in self.waits.all() {
            if self.key_wait(id).is_some_and(|wait| wait.shards().contains(&shard)) {
                self.end_wait_for_key(cx, peers, id, Some(&text));
            }
        }
    }

    /// Keys may be on other shards than before. Returns the shards whose nodes are to tell of changes.
    pub(crate) fn follow_keys(&mut self, cx: &mut Context) -> BTreeSet<ShardId> {
        let topology = Arc::clone(&cx.engine.topology);
        let mut shards = BTreeSet::new();
        for id in self.waits.all() {
            let Some(wait) = self.key_wait(id) else { continue };
            wait.keys.iter_mut().for_each(|key| key.shard = topology.shard_of(&key.name));
            shards.extend(wait.shards());
        }
        self.wake_all();
        shards
    }
}

/// The client of `emulation` has gone: if an element was to be put back and was not, the log says so.
pub(super) fn note_unreturned(cx: &mut Context, emulation: &Emulation, reply: &[u8]) {
    if let Plan::Pop(pop) = &emulation.plan
        && let Some(shard) = pop.returns_to().filter(|_| is_error(reply))
    {
        let shard = cx.engine.shard_name(shard).to_owned();
        cx.notice(Notice::ElementNotReturned { shard });
    }
}
