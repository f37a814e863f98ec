//! Clients that wait for an element of a key, in the order of their arrival, and the events that wake them.
//!
//! ```text
//!   no key has an element ─► registered, longest wait first ─► look once more ─► waits
//!   node: k has changed ─► the first client that waits for k ─► its plan pops k ─► reply, or waits on
//! ```
//!
//! Nodes report changed keys as they do for client-side caching ([`crate::tracking::invalidations`]). A worker with a
//! waiting client has one more connection to each node of the client's keys. A change between the first look and the
//! registration would be missed. So the plan looks once more when it is registered and all nodes have confirmed.
//!
//! If several clients of a worker wait for one key, only the first is woken. It passes the wake-up on when it leaves,
//! since the key may have more elements. So a push costs one pop, however many clients wait. Workers do not know each
//! other's clients: between workers, the node decides.

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
    /// The end of the wait. For a command that does not wait, an instant in the past.
    pub deadline: Instant,
    /// The protocol of the reply.
    pub resp3: bool,
    /// The reply that ends the wait.
    pub verdict: Option<Vec<u8>>,
    /// Whether the plan has found no element once. From then on, the values of keys are no reason to refuse the
    /// request.
    pub has_waited: bool,
    /// Whether the client has left.
    pub client_left: bool,
    /// Keys that have changed since the plan last looked at them.
    changed: Changed,
}

/// One key of a request.
#[derive(Debug)]
pub(super) struct Key {
    pub name: Box<[u8]>,
    pub shard: ShardId,
}

/// Keys to look at again.
#[derive(Debug)]
pub(super) enum Changed {
    All,
    Keys(BTreeSet<usize>),
}

/// The kind of element that a client waits for. Of the clients that wait for one kind at one key, only the first is
/// woken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    List,
    SortedSet,
    /// Entries for this group of a stream.
    Group(Box<[u8]>),
}

impl KeyWait {
    /// The wait of a request for `keys` until `deadline`.
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

    /// Memory in use. Names are held here and in [`Waits`].
    pub(super) fn held_bytes(&self) -> usize {
        self.keys.iter().map(|key| 2 * (size_of::<Key>() + key.name.len())).sum()
    }

    /// The reply after a timeout.
    pub(super) fn nothing(&self) -> Vec<u8> {
        let mut reply = Vec::new();
        encode::null_array(&mut reply, self.resp3);
        reply
    }

    /// Takes the changed keys, which the plan is about to look at.
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

    /// Whether a key has changed since the plan looked.
    fn has_changes(&self) -> bool {
        !matches!(&self.changed, Changed::Keys(changed) if changed.is_empty())
    }

    /// The names of the changed keys and of those at `in_hand`, which the plan will not look at.
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
    /// By key and kind of element. The longest wait is first.
    by_key: BTreeMap<Box<[u8]>, BTreeMap<Kind, VecDeque<Id>>>,
    members: BTreeSet<Id>,
    /// The deadlines of waits that have one.
    deadlines: BTreeSet<(Instant, Id)>,
    /// Clients whose keys have changed and that were not served yet.
    pub woken: VecDeque<Id>,
}

impl Waits {
    /// Whether any client waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The first deadline.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadlines.first().map_or(Instant::NEVER, |(deadline, _)| *deadline)
    }

    /// Adds a wait. Returns false if it was added before.
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

    /// Removes a wait. Returns false if there is none.
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

    /// All waits.
    fn all(&self) -> Vec<Id> {
        self.members.iter().copied().collect()
    }
}

impl Emulations {
    /// Ends the wait of a plan. The next client gets the remaining elements.
    pub(super) fn leave_waits(&mut self, id: Id, plan: &Plan) {
        let Some(wait) = plan.wait() else { return };
        if self.waits.leave(id, wait) {
            wait.unserved(&plan.in_hand()).iter().for_each(|key| self.wake(key));
        }
    }

    /// Wakes the client that has waited longest for `key`, which has changed.
    pub(crate) fn wake(&mut self, key: &[u8]) {
        for id in self.waits.first_of_each_kind(key) {
            if let Some(wait) = self.key_wait(id) {
                wait.note_changed(key);
                self.waits.woken.push_back(id);
            }
        }
    }

    /// Wakes all clients, since any key may have changed.
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

    /// Notes that the client of plan `id` will send no more.
    pub(crate) fn abandon_pop(&mut self, cx: &mut Context, session: &mut Session, id: Id) {
        self.leave_emulation(cx, id);
        held::set_waiting(cx, session, None);
        session.hold.remove(Reason::Order);
        session.replies.forget_pending();
        cx.count_waiting(session);
    }

    /// Has the plan, which has found no element, wait on. Returns false if its time is up.
    pub(super) fn wait_on_keys(&mut self, cx: &mut Context, id: Id) -> bool {
        let Some(wait) = self.slab.get_mut(id).and_then(|emulation| emulation.plan.wait_mut()) else {
            return false;
        };
        if wait.deadline <= cx.engine.now {
            return false;
        }
        if self.waits.join(id, wait) {
            // An element may have come since the last look. So the plan looks again as soon as nodes report changes.
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
    /// Shows in the session that the client of plan `id` waits.
    pub(super) fn show_wait_for_key(&mut self, cx: &mut Context, peers: &mut Peers, id: Id) {
        let Some(emulation) = self.slab.get(id) else { return };
        if emulation.plan.is_waiting()
            && let Some(Peer::Client(session)) = peers.get_mut(emulation.conn)
        {
            held::show_waiting(cx, session);
        }
    }

    /// Continues the plans whose keys have changed. Returns false if there was none.
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

    /// Answers the clients whose waits have timed out.
    pub(crate) fn end_late_waits(&mut self, cx: &mut Context, peers: &mut Peers) {
        while let Some(&(deadline, id)) = self.waits.deadlines.first()
            && deadline <= cx.engine.now
        {
            self.waits.deadlines.remove(&(deadline, id));
            self.end_wait_for_key(cx, peers, id, None);
        }
    }

    /// Ends the wait of the client of plan `id`, except for requests in flight. The client gets `error`, or the reply
    /// after a timeout.
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

    /// Ends waits for keys of `shard`, which does not report changes.
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

    /// Finds the shards of keys anew. Returns the shards whose nodes must report changes.
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

/// Logs an element that was not put back after the client of `emulation` had gone.
pub(super) fn note_unreturned(cx: &mut Context, emulation: &Emulation, reply: &[u8]) {
    if let Plan::Pop(pop) = &emulation.plan
        && let Some(shard) = pop.returns_to().filter(|_| is_error(reply))
    {
        let shard = cx.engine.shard_name(shard).to_owned();
        cx.notice(Notice::ElementNotReturned { shard });
    }
}
