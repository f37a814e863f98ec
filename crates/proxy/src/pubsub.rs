//! Publish and subscribe over shards.
//!
//! ```text
//!   SUBSCRIBE ─► topic ─► is it there already? ─ yes ─► told at once
//!                              └ no ─► its nodes are asked ─► confirmed ─► all who wait are told
//!   node ─► message ─► topic ─► each of its clients' outputs
//! ```
//!
//! A channel belongs to a shard by its hash, as a key, so each message comes from one node. Patterns are subscribed to
//! on all nodes, and so are the channels of keyspace notifications, which each node publishes for its own keys. For all
//! its clients a worker has one connection of this kind to a node, and with users of the nodes (`passing.rs`) one for all
//! clients of a user: it is made when it is needed first, made again when it is lost, and closed when it has been of no use
//! for some seconds. What its nodes say is RESP2, whatever the clients speak: the frame of a message differs by its first
//! byte only.
//!
//! A client is told that it is subscribed when the nodes have confirmed that, and that it is not any more when they
//! know: so what it does next on another connection finds it true. A node that cannot be had is an error in that place,
//! which Redis does not know.
//!
//! A node closes connections that are subscribed to what their user may not have any more. What was subscribed to is asked
//! for again then, and who is denied it is closed as well ([`Proxy::evict`]): so each client fares as with one Redis.

pub(crate) mod audience;
pub(crate) mod homes;
pub(crate) mod subscriptions;

use crate::ConnId;
use crate::core::Core;
use crate::errors::{self, Lost};
use crate::event::{CloseReason, Notice};
use crate::features::{Asked, Link, Owed, Owner, Session, SessionFeatures, TaskId, TaskKind, Ticket};
use crate::link::kept::Kept;
use crate::link::{LinkIx, ProfileId, State, Use};
use crate::login::passing::is_denial;
use crate::proxy::{Peer, Proxy};
use crate::pubsub::audience::{Ear, Receivers};
use crate::pubsub::subscriptions::{Deserted, Origin, Topics, Wait};
use crate::redirect::Declined;
use crate::replies::Fault;
use crate::requests::Step;
use crate::tracking::invalidations::changes_of;
use command::{Carry, Command, Flags, Local, PubSubQuestion, Topic as Kind};
use engine::memory::Charge;
use resp::reply::{as_bulk, as_integer, elements, is_error};
use resp::{Request, encode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stdx::{Id, Instant, Slab};
use topology::{ShardId, Topology};

/// All that a worker knows of its clients' subscriptions.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    pub topics: Topics,
    /// The connections over which messages come.
    sources: BTreeMap<Origin, Source>,
    /// Topics that nobody is subscribed to any more, until the nodes know.
    leaving: Slab<Leaving>,
    /// Topics that have had a setback, and some that had.
    pub set_back: BTreeSet<Id>,
    /// Reused by each message.
    listeners: Vec<ConnId>,
}

/// A connection over which messages come.
#[derive(Debug)]
struct Source {
    /// Its link.
    link: LinkIx,
    /// The log was told that messages may be missing.
    has_gap: bool,
    /// The shard channel that the node said last, before anything else was answered, to have ended the subscription to.
    ended: Option<Arc<[u8]>>,
}

/// Nodes are told that a topic is of no interest any more.
#[derive(Debug)]
pub(crate) struct Leaving {
    profile: ProfileId,
    kind: Kind,
    name: Arc<[u8]>,
    /// Shards whose node counts our connection as a subscriber.
    counted: Vec<ShardId>,
    /// Nodes that have not answered.
    left: usize,
    /// Who is to be told then: a place in a client's order, and the text.
    client: Option<(ConnId, u32, Vec<u8>)>,
}

impl Leaving {
    /// Nobody waits for it to leave, and no node that counts us.
    pub(crate) fn of(profile: ProfileId, kind: Kind, name: &Arc<[u8]>, left: usize) -> Leaving {
        Leaving { profile, kind, name: Arc::clone(name), counted: Vec::new(), left, client: None }
    }
}

/// Channels to which nodes publish what happens to their own keys.
const NOTIFICATIONS: [&[u8]; 2] = [b"__keyspace@", b"__keyevent@"];

impl Subscriptions {
    pub(crate) fn new(shards: usize, charge: Charge) -> Subscriptions {
        Subscriptions {
            topics: Topics::new(shards, charge),
            sources: BTreeMap::new(),
            leaving: Slab::default(),
            set_back: BTreeSet::new(),
            listeners: Vec::new(),
        }
    }

    /// Places in clients' orders that wait to be told of a subscription.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = (ConnId, u32)> {
        let left = self.leaving.iter().filter_map(|(_, leaving)| leaving.client.as_ref());
        self.topics.awaited().chain(left.map(|(conn, place, _)| (*conn, *place)))
    }

    /// Nodes are told of a topic that nobody is subscribed to there any more.
    pub(crate) fn begin_to_leave(&mut self, leaving: Leaving) -> Id {
        self.leaving.insert(leaving)
    }

    /// There may be shards more, or less.
    pub(crate) fn fit(&mut self, topology: &Topology) {
        self.topics.fit(topology);
    }

    /// The connections over which messages of `shard` come.
    pub(crate) fn links(&self, shard: ShardId) -> impl Iterator<Item = LinkIx> {
        self.sources.range(Origin::all_of(shard)).map(|(_, source)| source.link)
    }

    /// Whether there is a connection over which messages come from `origin`.
    pub(crate) fn has_source(&self, origin: Origin) -> bool {
        self.sources.contains_key(&origin)
    }
}

impl Core {
    /// SUBSCRIBE and its kin: each name is answered by itself.
    pub(crate) fn subscribe(&mut self, session: &mut Session, kind: Kind, request: &Request<'_>) {
        for name in request.args().skip(1) {
            self.subscribe_to(session, kind, name);
        }
        session.speak_up();
    }

    fn subscribe_to(&mut self, session: &mut Session, kind: Kind, name: &[u8]) {
        let conn = session.conn;
        let (id, waits) = match session.features.topic(kind, name) {
            Some(id) => (id, self.subscriptions.topics.get(id).is_some_and(|topic| topic.waits(conn))),
            None => match self.topic_for(session, kind, name) {
                Ok(id) => (id, !self.join(session, kind, id)),
                Err(text) => return self.refuse(session, &text),
            },
        };
        let count = session.features.subscriptions(kind);
        if !waits {
            return self.tell(session, kind.subscribe(), Some(name), count);
        }
        let place = session.replies.reserve(Owed::Task(TaskId::Subscription));
        session.features.subscribed.get_or_insert_default().awaits = Some(place);
        let Some(topic) = self.subscriptions.topics.get_mut(id) else { return };
        let others_wait = topic.is_waited_for();
        topic.wait(conn, Wait { place, count, resp3: session.resp3 });
        if others_wait && topic.is_parked() {
            return;
        }
        let unasked: Vec<ShardId> = topic.unasked().collect();
        unasked.into_iter().for_each(|shard| self.ask_for(id, shard));
    }

    /// The topic, if the session may be subscribed to it now; else what it is told.
    fn topic_for(&mut self, session: &Session, kind: Kind, name: &[u8]) -> Result<Id, String> {
        let profile = self.plain_profile(session);
        if kind == Kind::Pattern && name.len() > self.limits.pattern_bytes_max {
            return Err(errors::PATTERN_TOO_LONG.to_owned());
        }
        let topics = &self.subscriptions.topics;
        if topics.held_bytes() + name.len() > self.limits.subscription_bytes_max {
            return Err(errors::SUBSCRIPTIONS_MAX.to_owned());
        }
        let known = topics.find(profile, kind, name);
        let home = self.home_of(kind, name);
        let needed: Vec<ShardId> = match known.and_then(|id| topics.get(id)) {
            Some(topic) => topic.lacking().collect(),
            None => topics.homes(home).collect(),
        };
        for shard in needed {
            self.admit(shard)
                .and_then(|()| self.admit_source(Origin { shard, profile }))
                .map_err(|lost| lost.text())?;
        }
        let speaker = self.engine.topology.shard_of(name);
        Ok(known.unwrap_or_else(|| self.subscriptions.topics.insert(profile, (kind, name), home, speaker)))
    }

    /// Whether there may be a connection over which messages come from `origin`.
    fn admit_source(&self, origin: Origin) -> Result<(), Lost> {
        let is_full = self.subscriptions.sources.len() >= self.limits.profile_nodes_max;
        match origin.profile {
            ProfileId::FIRST => Ok(()),
            ProfileId::NONE => Err(self.engine.not_sent(origin.shard, errors::NO_PROFILE)),
            _ if is_full && !self.subscriptions.has_source(origin) => {
                Err(self.engine.not_sent(origin.shard, errors::USER_NODES_MAX))
            }
            _ => Ok(()),
        }
    }

    /// By what a node counts clients that hear something over connections of `profile`.
    pub(crate) fn ear(&self, profile: ProfileId) -> Ear {
        (self.settings.worker, profile)
    }

    /// The shard from which all messages of a topic come; `None` if they may come from any.
    fn home_of(&self, kind: Kind, name: &[u8]) -> Option<ShardId> {
        let is_everywhere = match kind {
            Kind::Pattern => true,
            Kind::Channel => is_notification(name),
            Kind::ShardChannel => false,
        };
        (!is_everywhere).then(|| self.engine.topology.shard_of(name))
    }

    /// Subscribes the session to a topic that it has not. Whether the nodes have confirmed before.
    fn join(&mut self, session: &mut Session, kind: Kind, id: Id) -> bool {
        self.stats.counters.subscribers += u64::from(!session.features.has_topics());
        let is_there = self.subscriptions.topics.join(id, session.conn);
        let Some(topic) = self.subscriptions.topics.get(id) else { return false };
        session.features.subscribed.get_or_insert_default().insert(kind, &topic.name, id);
        if is_there {
            self.board.audience.add_client(self.ear(topic.profile), kind, &topic.name);
        }
        is_there
    }

    /// UNSUBSCRIBE and its kin, of those that are named or of all.
    pub(crate) fn unsubscribe(&mut self, session: &mut Session, kind: Kind, request: &Request<'_>) {
        for name in request.args().skip(1) {
            match session.features.topic(kind, name) {
                Some(id) => self.leave(session, kind, id, true),
                None => {
                    self.tell(session, kind.unsubscribe(), Some(name), session.features.subscriptions(kind))
                }
            }
        }
        if request.len() == 1 {
            let all = session.features.topics(kind);
            if all.is_empty() {
                self.tell(session, kind.unsubscribe(), None, session.features.subscriptions(kind));
            }
            all.into_iter().for_each(|id| self.leave(session, kind, id, true));
        }
        session.speak_up();
    }

    /// The session is subscribed to nothing any more, and not told so: it is reset or gone.
    pub(crate) fn unsubscribe_from_all(&mut self, session: &mut Session) {
        for kind in Kind::ALL {
            session.features.topics(kind).into_iter().for_each(|id| self.leave(session, kind, id, false));
        }
    }

    /// Ends a subscription. What was still to be confirmed is; with `is_told`, the client is told once the nodes know.
    fn leave(&mut self, session: &mut Session, kind: Kind, id: Id, is_told: bool) {
        let Some(topic) = self.subscriptions.topics.get(id) else { return };
        let (ear, name) = (self.ear(topic.profile), Arc::clone(&topic.name));
        let Some((subscription, deserted)) = self.subscriptions.topics.leave(id, session.conn) else {
            return;
        };
        session.features.forget_topic(kind, &name);
        self.stats.counters.subscribers -= u64::from(!session.features.has_topics());
        if subscription.waits.is_empty() {
            self.board.audience.remove_client(ear, kind, &name);
        }
        self.confirm_waits(session, kind, &name, subscription.waits);
        let leaving = deserted.and_then(|deserted| self.desert(deserted));
        if !is_told {
            return;
        }
        let count = session.features.subscriptions(kind);
        let Some(leaving) = leaving.and_then(|id| self.subscriptions.leaving.get_mut(id)) else {
            return self.tell(session, kind.unsubscribe(), Some(&name), count);
        };
        let mut text = Vec::new();
        write_change(&mut text, session.resp3, kind.unsubscribe(), Some(&name), count);
        leaving.client =
            Some((session.conn, session.replies.reserve(Owed::Task(TaskId::Subscription)), text));
    }

    /// Tells the nodes that nobody is left. What waits for their answers; nothing if none has to be told.
    fn desert(&mut self, deserted: Deserted) -> Option<Id> {
        let Deserted { profile, kind, name, asked } = deserted;
        if asked.is_empty() {
            return None;
        }
        let confirmed = asked.iter().filter(|(_, confirmed)| *confirmed);
        let counted = confirmed.map(|(shard, _)| *shard).collect();
        let leaving = Leaving { counted, ..Leaving::of(profile, kind, &name, asked.len()) };
        let id = self.subscriptions.leaving.insert(leaving);
        for (shard, _) in asked {
            self.say_unsubscribed(Origin { shard, profile }, kind, &name, id);
        }
        Some(id)
    }

    /// Tells the node at `origin` that a topic is of no interest any more.
    pub(crate) fn say_unsubscribed(&mut self, origin: Origin, kind: Kind, name: &[u8], id: Id) {
        self.say(origin, kind.unsubscribe(), name, (id, 0), Owner::Task(TaskKind::Unsubscribe));
    }

    /// Asks the node of `shard` for the messages of a topic.
    pub(crate) fn ask_for(&mut self, id: Id, shard: ShardId) {
        let Some(topic) = self.subscriptions.topics.get_mut(id) else { return };
        let question = topic.ask(shard);
        let (profile, kind, name) = (topic.profile, topic.kind, Arc::clone(&topic.name));
        self.say(
            Origin { shard, profile },
            kind.subscribe(),
            &name,
            (id, question),
            Owner::Task(TaskKind::Subscribe),
        );
    }

    /// Queues a request with one name, which has one answer.
    fn say(&mut self, origin: Origin, word: &str, name: &[u8], (id, question): (Id, u32), owner: Owner) {
        let ix = self.source_of(origin);
        let mut request = self.engine.pool.take();
        encode::request(&mut request, &[word.as_bytes(), name]);
        // A topic has no client: its number takes the place of one, and that of the question a place's.
        self.engine.enqueue_on(
            ix,
            &request,
            Asked { conn: id, place: question, part: origin.shard.0, owner, kept: Kept::NO },
        );
        self.engine.pool.give(request);
    }

    /// The connection over which messages come from `origin`; one is made if there is none, and at once.
    fn source_of(&mut self, origin: Origin) -> LinkIx {
        let known = self.subscriptions.sources.get(&origin).map(|source| source.link);
        let link = self.source_on(known, origin.profile, origin.shard);
        self.subscriptions.sources.entry(origin).or_insert(Source { link, has_gap: false, ended: None });
        link
    }

    /// A connection of `profile` to `shard` for what is not asked for: `ix`, which is tried at once if it is not there, or a
    /// new one.
    pub(crate) fn source_on(&mut self, ix: Option<LinkIx>, profile: ProfileId, shard: ShardId) -> LinkIx {
        let Some(ix) = ix else {
            let greeting = self.profiles.greeting(profile);
            let id = self
                .engine
                .topology
                .shard(shard)
                .primary
                .expect("a shard that admits requests has a primary");
            return self.engine.add_link(Link::new((shard, id), Use::Subscription, profile, greeting));
        };
        if let State::Waiting { until } = &mut self.engine.links[ix].state {
            *until = (*until).min(self.engine.now);
            self.engine.check_at = self.engine.now;
        }
        ix
    }

    /// The node of `shard` will not count our connection any more. Whom to tell what, if that was the last.
    fn absorb_leaving(&mut self, id: Id, shard: ShardId) -> Option<(ConnId, u32, Vec<u8>)> {
        let leaving = self.subscriptions.leaving.get_mut(id)?;
        if leaving.counted.contains(&shard) {
            leaving.counted.retain(|counted| *counted != shard);
            let ear = (self.settings.worker, leaving.profile);
            self.board.audience.remove_node(ear, leaving.kind, &leaving.name, shard);
        }
        leaving.left -= 1;
        if leaving.left > 0 {
            return None;
        }
        self.subscriptions.leaving.remove(id)?.client
    }

    /// Tells the session of a change of its subscriptions that is true now.
    fn tell(&mut self, session: &mut Session, word: &str, name: Option<&[u8]>, count: usize) {
        let mut text = self.engine.pool.take();
        write_change(&mut text, session.resp3, word, name, count);
        if session.replies.is_pending() {
            session.replies.raise_barrier(session.replies.next_place());
        }
        self.engine.answer(session, &text);
        self.engine.pool.give(text);
    }

    /// Tells the session that it is subscribed, in the places that waited for that.
    pub(crate) fn confirm_waits(&mut self, session: &mut Session, kind: Kind, name: &[u8], waits: Vec<Wait>) {
        for Wait { place, count, resp3 } in waits {
            let mut text = self.engine.pool.take();
            write_change(&mut text, resp3, kind.subscribe(), Some(name), count);
            session.replies.raise_barrier(place);
            self.settle(session, place, &text);
            self.engine.pool.give(text);
        }
    }

    /// PUBLISH: to the shard of the channel. What the node says of receivers is put right if somebody listens here.
    pub(crate) fn send_message(
        &mut self,
        session: &mut Session,
        command: &Command,
        kind: Kind,
        request: &Request<'_>,
    ) {
        let channel = request.arg(1);
        let shard = self.engine.topology.shard_of(channel);
        let receivers = self.board.audience.receivers(kind, channel, shard);
        if receivers == Receivers::NONE {
            return self.send(session, command, shard, request.bytes);
        }
        let ix = match self.link_for(session, shard) {
            Ok(ix) => ix,
            Err(lost) => return self.refuse(session, &lost.text()),
        };
        let place = session.replies.reserve(Owed::Task(TaskId::Receivers(receivers)));
        self.engine.enqueue_on(ix, request.bytes, Asked::by_client(session.conn, place));
    }

    /// PUBSUB: of the clients of all workers.
    pub(crate) fn pubsub(&self, question: PubSubQuestion, request: &Request<'_>, reply: &mut Vec<u8>) {
        let audience = &self.board.audience;
        match question {
            PubSubQuestion::Names(_) if request.len() > 3 => errors::write_subcommand_syntax(reply, request),
            PubSubQuestion::Names(kind) => {
                let pattern = request.get(2);
                if pattern.is_some_and(|pattern| pattern.len() > self.limits.pattern_bytes_max) {
                    return errors::write(reply, errors::PATTERN_TOO_LONG);
                }
                let names = audience.names(kind, pattern);
                encode::array_header(reply, names.len());
                names.iter().for_each(|name| encode::bulk(reply, name));
            }
            PubSubQuestion::Subscribers(kind) => {
                encode::array_header(reply, 2 * (request.len() - 2));
                for name in request.args().skip(2) {
                    encode::bulk(reply, name);
                    encode::integer(reply, audience.clients(kind, name) as i64);
                }
            }
            PubSubQuestion::Patterns => encode::integer(reply, audience.count(Kind::Pattern) as i64),
        }
    }

    /// What becomes of a request of a session to which more comes than replies, if it is not to be carried out now: it is
    /// told that it may not ask for `command`, or the request is read again.
    #[cold]
    pub(crate) fn detain_listener(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
    ) -> Option<Step> {
        match may_ask_for(session, command) {
            // It may publish: the node may have that before it has the subscription, which goes over another connection.
            true if awaits_confirmation(session) && !is_for_listeners(command) => {
                session.turn();
                return Some(self.read_again());
            }
            true => {
                self.note_read(session, command, request);
                return None;
            }
            false if is_restricted(session) => {
                self.refuse(session, &errors::only_while_subscribed(&command.name));
            }
            false => self.refuse(session, errors::NO_KEYSPACE),
        }
        Some(Step::Done)
    }

    /// Whether the session's user may listen to all that it is subscribed to: as Redis, we close it else.
    pub(crate) fn may_stay_subscribed(&self, session: &Session) -> bool {
        let topics = Kind::ALL.into_iter().flat_map(|kind| session.features.topics(kind));
        let mut topics = topics.filter_map(|id| self.subscriptions.topics.get(id));
        topics.all(|topic| session.features.login.permits_channel(&topic.name, topic.kind == Kind::Pattern))
    }

    /// The worker's connections for messages that are of no use any more.
    pub(crate) fn next_deserted(&mut self) -> Option<LinkIx> {
        let (now, after) = (self.engine.now, self.engine.limits.pinned_idle);
        let Subscriptions { topics, sources, .. } = &self.subscriptions;
        let is_deserted = |(origin, source): &(&Origin, &Source)| {
            let link = &self.engine.links[source.link];
            topics.at(**origin) == 0 && link.is_clean() && link.is_silent_for(after, now)
        };
        let origin = *sources.iter().find(is_deserted)?.0;
        self.subscriptions.sources.remove(&origin).map(|source| source.link)
    }

    /// The node has answered `ticket`, by which it was told that a topic is of no interest any more.
    fn note_ended(&mut self, ix: LinkIx, ticket: &Ticket, reply: &[u8]) {
        let leaving = self.subscriptions.leaving.get(ticket.conn);
        let leaving = leaving.filter(|leaving| leaving.kind == Kind::ShardChannel && !is_error(reply));
        let ended = leaving.map(|leaving| Arc::clone(&leaving.name));
        let origin = self.origin_of(ix);
        self.subscriptions
            .sources
            .get_mut(&origin)
            .into_iter()
            .for_each(|source| source.ended = ended.clone());
    }

    /// Whether the answer to `ticket` may be about a topic of the slot `its`.
    fn may_be_of(&self, ticket: &Ticket, its: u32) -> bool {
        let name = match ticket.owner {
            Owner::Task(TaskKind::Subscribe) => {
                self.subscriptions.topics.get(ticket.conn).map(|topic| &topic.name)
            }
            Owner::Task(TaskKind::Unsubscribe) => {
                self.subscriptions.leaving.get(ticket.conn).map(|leaving| &leaving.name)
            }
            _ => return false,
        };
        name.is_none_or(|name| self.engine.topology.division_of(name).0 == its)
    }

    /// Where messages over the connection `ix` come from.
    fn origin_of(&self, ix: LinkIx) -> Origin {
        let Link { shard, profile, .. } = self.engine.links[ix];
        Origin { shard, profile }
    }
}

impl Proxy {
    /// How many channels and patterns clients are subscribed to; 0 once no client is left.
    pub fn topics(&self) -> usize {
        self.core.subscriptions.topics.len()
    }

    /// Reads what comes over a connection for messages.
    pub(crate) fn handle_subscription_bytes(&mut self, ix: LinkIx, bytes: &[u8]) {
        let link = &mut self.core.engine.links[ix];
        match link.take_input(bytes) {
            None => {
                let Ok(consumed) = self.read_messages(ix, bytes) else { return };
                let core = &mut self.core;
                core.engine.links[ix].keep_input(&bytes[consumed..], &mut core.engine.pool);
            }
            Some(input) => {
                let Ok(consumed) = self.read_messages(ix, &input) else { return };
                let core = &mut self.core;
                core.engine.links[ix].restore_input(input, consumed, &mut core.engine.pool);
            }
        }
        self.check_reply_size(ix);
    }

    /// Hands every complete message and answer on. Returns how many bytes they were; an error if the connection was
    /// given up.
    fn read_messages(&mut self, ix: LinkIx, bytes: &[u8]) -> Result<usize, ()> {
        let mut at = 0;
        loop {
            let core = &mut self.core;
            let next = core.engine.links[ix].next_reply(&bytes[at..], &core.engine.limits);
            let handled = match next {
                Ok(None) => return Ok(at),
                Ok(Some(len)) => {
                    at += len;
                    self.handle_said(ix, &bytes[at - len..at])
                }
                Err(error) => Err(Fault::Garbled(error.to_string())),
            };
            if let Err(fault) = handled {
                self.fail_link(ix, fault);
                return Err(());
            }
        }
    }

    /// A message, or the answer to what was asked first.
    fn handle_said(&mut self, ix: LinkIx, reply: &[u8]) -> Result<(), Fault> {
        if let Some((kind, name)) = message_of(reply) {
            if let Some(id) = self.core.heard(self.core.origin_of(ix), kind, name, reply) {
                self.distribute(id, reply);
            }
            return Ok(());
        }
        if self.is_dropped(ix, reply) {
            return Ok(());
        }
        if let Some(keys) = changes_of(reply) {
            self.handle_changes(self.core.engine.links[ix].shard, keys);
            return Ok(());
        }
        if self.is_second_answer(ix, reply) {
            return Ok(());
        }
        let link = &mut self.core.engine.links[ix];
        let Some(&ticket) = link.front() else {
            return Err(Fault::Garbled("unexpected reply".to_owned()));
        };
        let shard = link.shard;
        link.pop();
        match ticket.owner {
            // If nobody is left, or the topic has moved since, the node was told so behind what it answers now.
            Owner::Task(TaskKind::Subscribe) if !self.core.subscriptions.topics.awaits(&ticket, shard) => {}
            Owner::Task(TaskKind::Subscribe) if is_error(reply) => {
                if let Some(topic) = self.core.subscriptions.topics.get_mut(ticket.conn) {
                    topic.refuse(shard);
                }
                if !self.redirect_topic(&ticket, ix, reply) {
                    self.deny(ticket.conn, reply);
                    if is_denial(&String::from_utf8_lossy(&reply[1..])) {
                        self.evict(ticket.conn);
                    }
                }
            }
            Owner::Task(TaskKind::Subscribe) => return self.handle_subscribed(ticket.conn, shard, reply),
            Owner::Task(TaskKind::Unsubscribe) => {
                self.core.note_ended(ix, &ticket, reply);
                self.handle_unsubscribed(ticket);
            }
            Owner::Task(TaskKind::Track) if is_error(reply) => {
                let text = String::from_utf8_lossy(reply);
                return Err(Fault::Gone(text.trim_matches(['-', '\r', '\n']).to_owned()));
            }
            Owner::Task(TaskKind::Track) => self.handle_tracked(shard, ticket.conn),
            _ => {}
        }
        Ok(())
    }

    /// Whether `reply` is the answer to what seems to be answered already. A node whose slot has moved ends subscriptions by
    /// itself, in the words in which it answers SUNSUBSCRIBE; if that comes to it a moment later, it answers MOVED. What is
    /// asked for next may be of that slot too: then it gets the first of two answers that say the same.
    fn is_second_answer(&mut self, ix: LinkIx, reply: &[u8]) -> bool {
        let core = &mut self.core;
        let origin = core.origin_of(ix);
        let source = core.subscriptions.sources.get_mut(&origin);
        let Some(ended) = source.and_then(|source| source.ended.take()) else { return false };
        let its = core.engine.topology.division_of(&ended).0;
        let declined = core.declined_by(ix, reply);
        if !matches!(declined, Some(Declined::Moved { slot, .. }) if u32::from(slot) == its) {
            return false;
        }
        let next = core.engine.links[ix].front();
        let is_for_next = next.is_some_and(|ticket| core.may_be_of(ticket, its));
        if let Some(source) = core.subscriptions.sources.get_mut(&origin).filter(|_| is_for_next) {
            source.ended = Some(ended);
        }
        !is_for_next
    }

    /// Whether `reply` says, unasked, that the node has ended our subscription to a shard channel.
    fn is_dropped(&mut self, ix: LinkIx, reply: &[u8]) -> bool {
        let mut fields = elements(reply).into_iter().flatten();
        if fields.next().and_then(as_bulk) != Some(Kind::ShardChannel.unsubscribe().as_bytes()) {
            return false;
        }
        let Some(name) = fields.next().and_then(as_bulk) else { return false };
        let link = &self.core.engine.links[ix];
        let front = link.front().copied();
        let leaving = front.filter(|ticket| ticket.owner == Owner::Task(TaskKind::Unsubscribe));
        let leaving = leaving.and_then(|ticket| self.core.subscriptions.leaving.get(ticket.conn));
        if leaving.is_some_and(|leaving| leaving.kind == Kind::ShardChannel && *leaving.name == *name) {
            return false;
        }
        self.handle_dropped(self.core.origin_of(ix), name);
        true
    }

    /// Passes a message on to all who are subscribed.
    fn distribute(&mut self, id: Id, message: &[u8]) {
        let core = &mut self.core;
        let Some(topic) = core.subscriptions.topics.get(id) else { return };
        let mut listeners = std::mem::take(&mut core.subscriptions.listeners);
        listeners.extend(topic.listeners());
        // A push of RESP3 differs by its first byte.
        let mut as_push = None;
        let mut has_blocked = false;
        for &conn in &listeners {
            let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { continue };
            if !session.may_be_told() {
                continue;
            }
            let frame = match session.resp3 {
                false => message,
                true => as_push.get_or_insert_with(|| [b">", &message[1..]].concat()).as_slice(),
            };
            session.replies.push(frame, &mut self.core.engine.pool);
            has_blocked |= session.replies.output.blocked;
            self.after_push(conn, message.len());
        }
        listeners.clear();
        self.core.subscriptions.listeners = listeners;
        if has_blocked {
            self.relieve_of_subscribers();
        }
    }

    /// A message was added to the output of `conn`.
    pub(crate) fn after_push(&mut self, conn: ConnId, len: usize) {
        let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { return };
        let core = &mut self.core;
        core.stats.counters.messages += 1;
        core.engine.list_client(session);
        if is_slow_subscriber(session, len, core.engine.now, &core.limits) {
            core.note_closed(session, CloseReason::SlowSubscriber);
            self.close_client(conn);
        }
    }

    /// The node of `shard` says that it has subscribed us.
    fn handle_subscribed(&mut self, id: Id, shard: ShardId, reply: &[u8]) -> Result<(), Fault> {
        let core = &mut self.core;
        let Some(topic) = core.subscriptions.topics.get_mut(id) else { return Ok(()) };
        if !confirms(reply, topic.kind.subscribe(), &topic.name) {
            return Err(Fault::Garbled("unexpected subscription".to_owned()));
        }
        let (profile, kind, name) = (topic.profile, topic.kind, Arc::clone(&topic.name));
        core.board.audience.add_link((core.settings.worker, profile), kind, &name, shard);
        if topic.confirm(shard) {
            self.conclude_subscription(id);
        }
        Ok(())
    }

    /// A node does not want to subscribe us, or cannot: those who wait are told, and are not subscribed.
    pub(crate) fn deny(&mut self, id: Id, error: &[u8]) {
        let Some(topic) = self.core.subscriptions.topics.get_mut(id) else { return };
        let (kind, name) = (topic.kind, Arc::clone(&topic.name));
        for (conn, waits) in topic.take_waits() {
            let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { continue };
            let core = &mut self.core;
            session.features.forget_topic(kind, &name);
            core.stats.counters.subscribers -= u64::from(!session.features.has_topics());
            for wait in waits {
                core.stats.counters.errors += 1;
                core.settle(session, wait.place, error);
            }
            if let Some((_, Some(deserted))) = core.subscriptions.topics.leave(id, conn) {
                core.desert(deserted);
            }
        }
    }

    /// The node has taken away what it had confirmed: those who are subscribed are closed, as Redis closes them.
    fn evict(&mut self, id: Id) {
        let Some(topic) = self.core.subscriptions.topics.get(id) else { return };
        for conn in topic.listeners().collect::<Vec<_>>() {
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                self.core.note_closed(session, CloseReason::Denied);
            }
            self.close_client(conn);
        }
    }

    /// A node will send no messages of a topic any more: it said so, or the connection is gone.
    pub(crate) fn handle_unsubscribed(&mut self, ticket: Ticket) {
        let told = self.core.absorb_leaving(ticket.conn, ShardId(ticket.part));
        let Some((conn, place, text)) = told else { return };
        if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
            self.core.settle(session, place, &text);
        }
    }

    /// The connection for messages of `shard` is there: asks for all that it is for.
    pub(crate) fn handle_source(&mut self, shard: ShardId, ix: LinkIx) {
        let core = &mut self.core;
        if core.invalidations.is_source(shard, ix) {
            return self.handle_changes_source(shard, ix);
        }
        let origin = core.origin_of(ix);
        let unasked = core.subscriptions.topics.unasked(origin);
        unasked.into_iter().for_each(|id| core.ask_for(id, shard));
        let source = core.subscriptions.sources.get_mut(&origin);
        if source.is_some_and(|source| std::mem::take(&mut source.has_gap)) {
            let topics = core.subscriptions.topics.at(origin);
            let shard = core.engine.shard_name(shard).to_owned();
            core.notice(Notice::SubscribedAgain { shard, topics });
        }
    }

    /// The connection for messages of `shard` is gone. Who waits for it is told; what was subscribed to will be again.
    pub(crate) fn handle_source_lost(&mut self, shard: ShardId, ix: LinkIx, reason: &str) {
        let core = &mut self.core;
        if core.invalidations.is_source(shard, ix) {
            return self.handle_changes_lost(shard, reason);
        }
        let origin = core.origin_of(ix);
        core.subscriptions.sources.get_mut(&origin).into_iter().for_each(|source| source.ended = None);
        let loss = core.subscriptions.topics.lose(origin);
        let ear = core.ear(origin.profile);
        for topic in loss.confirmed.iter().filter_map(|id| core.subscriptions.topics.get(*id)) {
            core.board.audience.remove_node(ear, topic.kind, &topic.name, shard);
        }
        if !loss.confirmed.is_empty() {
            core.stats.counters.message_gaps += 1;
            let source = core.subscriptions.sources.get_mut(&origin);
            source.into_iter().for_each(|source| source.has_gap = true);
            let (topics, reason) = (loss.confirmed.len(), reason.to_owned());
            let shard = core.engine.shard_name(shard).to_owned();
            core.notice(Notice::MessagesMissed { shard, topics, reason });
        }
        let lost = core.not_sent_on(&core.engine.links[ix], reason);
        let error = errors::reply(&lost.text());
        loss.waited_for.into_iter().for_each(|id| self.deny(id, &error));
        if matches!(lost, Lost::Denied { .. }) {
            let topics: Vec<Id> = self.core.subscriptions.topics.ids_at(origin).collect();
            topics.into_iter().for_each(|id| self.evict(id));
        }
        let core = &mut self.core;
        if core.subscriptions.topics.at(origin) == 0 {
            let source = core.subscriptions.sources.remove(&origin);
            source.into_iter().for_each(|source| core.vacate(source.link));
        }
    }
}

impl SessionFeatures {
    /// Whether it is subscribed to something.
    pub(crate) fn has_topics(&self) -> bool {
        self.subscribed.as_ref().is_some_and(|subscribed| subscribed.has_topics())
    }

    /// Whether something comes to it that it need not ask for.
    pub(crate) fn is_listening(&self) -> bool {
        self.has_topics() || self.monitors()
    }

    /// The topic of this name that it is subscribed to.
    fn topic(&self, kind: Kind, name: &[u8]) -> Option<Id> {
        self.subscribed.as_ref()?.find(kind, name)
    }

    fn topics(&self, kind: Kind) -> Vec<Id> {
        self.subscribed.as_ref().map_or_else(Vec::new, |subscribed| subscribed.of_kind(kind).collect())
    }

    /// How many subscriptions it is told to have when one of `kind` changes.
    fn subscriptions(&self, kind: Kind) -> usize {
        self.subscribed.as_ref().map_or(0, |subscribed| subscribed.count(kind))
    }

    /// How many topics of `kind` it is subscribed to.
    pub(crate) fn topic_count(&self, kind: Kind) -> usize {
        self.subscribed.as_ref().map_or(0, |subscribed| subscribed.len(kind))
    }

    fn forget_topic(&mut self, kind: Kind, name: &[u8]) {
        if let Some(subscribed) = &mut self.subscribed {
            subscribed.remove(kind, name);
        }
        self.forget_if_silent();
    }

    /// Gives up what is only needed by clients to which more comes than replies.
    pub(crate) fn forget_if_silent(&mut self) {
        if self.subscribed.as_ref().is_some_and(|subscribed| subscribed.is_silent()) {
            self.subscribed = None;
        }
    }
}

/// Whether nodes have still to confirm what it wants to be subscribed to.
fn awaits_confirmation(session: &Session) -> bool {
    let last = session.features.subscribed.as_ref().and_then(|subscribed| subscribed.awaits);
    last.is_some_and(|place| session.replies.owed(place) == Some(Owed::Task(TaskId::Subscription)))
}

/// Whether only few commands are allowed now: in RESP2, replies could not be told from messages.
pub(crate) fn is_restricted(session: &Session) -> bool {
    !session.resp3 && session.features.has_topics()
}

/// Whether it may ask for `command` now, as far as that depends on what comes to it beside replies.
pub(crate) fn may_ask_for(session: &Session, command: &Command) -> bool {
    if is_restricted(session) {
        return is_for_listeners(command);
    }
    let touches_keys = command.flags.contains(Flags::READONLY)
        || command.flags.contains(Flags::WRITE)
        || matches!(command.carry, Carry::Publish(_) | Carry::Script(_));
    !(touches_keys && session.features.monitors())
}

/// Whether so much waits for it, which is subscribed, that it is to be closed: the hard limit at once, the soft
/// one in time. One message of `newest` bytes may be larger.
pub(crate) fn is_slow_subscriber(
    session: &mut Session,
    newest: usize,
    now: Instant,
    limits: &crate::Limits,
) -> bool {
    let held = session.replies.held_bytes();
    let Some(subscribed) = session.features.subscribed.as_mut().filter(|subscribed| subscribed.has_topics())
    else {
        return false;
    };
    if held.saturating_sub(newest) > limits.subscriber_bytes_max {
        return true;
    }
    if held <= limits.subscriber_bytes_soft {
        subscribed.slow_since = None;
        return false;
    }
    now.since(*subscribed.slow_since.get_or_insert(now)) > limits.subscriber_patience
}

/// Whether who is subscribed may ask for `command` in either protocol. None of these does anything at a node but by subscribing.
fn is_for_listeners(command: &Command) -> bool {
    use Local::{Ping, Quit, Reset, Subscribe, Unsubscribe};
    matches!(command.carry, Carry::Here(Subscribe(_) | Unsubscribe(_) | Ping | Quit | Reset))
}

/// What a client is told of its subscriptions: `subscribe`, the name, and how many it has now.
fn write_change(out: &mut Vec<u8>, resp3: bool, word: &str, name: Option<&[u8]>, count: usize) {
    out.extend_from_slice(if resp3 { b">3\r\n" } else { b"*3\r\n" });
    encode::bulk(out, word.as_bytes());
    match name {
        Some(name) => encode::bulk(out, name),
        None if resp3 => out.extend_from_slice(b"_\r\n"),
        None => encode::nil(out),
    }
    encode::integer(out, count as i64);
}

/// PING of a client that can get nothing but arrays.
pub(crate) fn write_pong(request: &Request<'_>, reply: &mut Vec<u8>) {
    encode::array_header(reply, 2);
    encode::bulk(reply, b"pong");
    encode::bulk(reply, request.get(1).unwrap_or_default());
}

/// The node's number of receivers, of which those through us are `receivers`; what is no number stays as it is.
pub(crate) fn write_receivers(reply: &[u8], receivers: Receivers, out: &mut Vec<u8>) {
    match as_integer(reply) {
        Some(counted) => encode::integer(out, receivers.among(counted)),
        None => out.extend_from_slice(reply),
    }
}

/// Whether nodes publish what happens to their own keys to the channel `name`.
pub(crate) fn is_notification(name: &[u8]) -> bool {
    NOTIFICATIONS.iter().any(|prefix| name.starts_with(prefix))
}

/// The kind and name of the topic that a message belongs to; `None` if `reply` is none.
fn message_of(reply: &[u8]) -> Option<(Kind, &[u8])> {
    const BEGINNINGS: [(Kind, &[u8]); Kind::COUNT] = [
        (Kind::Channel, b"*3\r\n$7\r\nmessage\r\n"),
        (Kind::Pattern, b"*4\r\n$8\r\npmessage\r\n"),
        (Kind::ShardChannel, b"*3\r\n$8\r\nsmessage\r\n"),
    ];
    let rest = |(kind, begins): &(Kind, &[u8])| Some((*kind, reply.strip_prefix(*begins)?));
    let (kind, rest) = BEGINNINGS.iter().find_map(rest)?;
    Some((kind, as_bulk(rest)?))
}

/// Whether `reply` says `word` of `name`.
fn confirms(reply: &[u8], word: &str, name: &[u8]) -> bool {
    let Some(mut fields) = elements(reply) else { return false };
    let mut next = || fields.next().and_then(as_bulk);
    next() == Some(word.as_bytes()) && next() == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_from_answers() {
        let message = b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n";
        assert_eq!(message_of(message), Some((Kind::Channel, &b"a"[..])));
        let message = b"*4\r\n$8\r\npmessage\r\n$2\r\na*\r\n$1\r\na\r\n$0\r\n\r\n";
        assert_eq!(message_of(message), Some((Kind::Pattern, &b"a*"[..])));
        let answer = b"*3\r\n$9\r\nsubscribe\r\n$7\r\nmessage\r\n:1\r\n";
        assert_eq!(message_of(answer), None);
        assert!(confirms(answer, "subscribe", b"message"));
        assert!(!confirms(answer, "subscribe", b"other") && !confirms(answer, "psubscribe", b"message"));
        assert!(!confirms(b"+PONG\r\n", "subscribe", b"message"));
    }

    #[test]
    fn what_is_no_number_of_receivers_stays_as_it_is() {
        let mut out = Vec::new();
        write_receivers(b"-NOPERM no\r\n", Receivers::NONE, &mut out);
        write_receivers(b":3\r\n", Receivers::NONE, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "-NOPERM no\r\n:3\r\n");
    }
}
