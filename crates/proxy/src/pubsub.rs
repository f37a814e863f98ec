//! Publish and subscribe over shards.
//!
//! ```text
//!   SUBSCRIBE ─► topic ─► does it exist already? ─ yes ─► confirmed at once
//!                              └ no ─► its nodes are asked ─► confirmed ─► all clients that wait get confirmations
//!   node ─► message ─► topic ─► each of its clients' outputs
//! ```
//!
//! A channel belongs to a shard by its hash, like a key, so each message comes from one node. Patterns are subscribed
//! to on all nodes. So are the channels of keyspace notifications, which each node publishes for its own keys.
//!
//! A worker has one link for messages to a node for all its clients. With users of the nodes (`passing.rs`), it has one
//! for all clients of a user. The link is made when it is needed and made again when it is lost. It is closed after
//! some seconds without use. It uses RESP2, whatever the clients speak: the frame of a message differs by its first
//! byte only.
//!
//! A client gets the confirmation of a subscription once the nodes have confirmed it. It gets the confirmation of an
//! unsubscription once the nodes know of it. So the client's next request on another connection finds the change in
//! effect. If a node is unavailable, an error takes the place of the confirmation, which does not happen with Redis.
//!
//! A node closes connections with subscriptions that their user may not have any more. The worker then subscribes again
//! and closes the clients whose subscriptions are refused ([`Subscriptions::evict`]). So each client fares as with one
//! Redis.

pub(crate) mod audience;
pub(crate) mod homes;
pub(crate) mod subscribed;
pub(crate) mod subscriptions;

use crate::ConnId;
use crate::context::Context;
use crate::errors::{self, Lost};
use crate::event::{CloseReason, Notice};
use crate::features::{Asked, Link, Owed, Owner, Session, SessionFeatures, TaskId, TaskKind, Ticket};
use crate::link::kept::Kept;
use crate::link::{LinkIx, ProfileId, State, Use};
use crate::login::passing;
use crate::outcome::{Effect, Fault, Step};
use crate::peers::{Peer, Peers};
use crate::pubsub::audience::{Ear, Receivers};
use crate::pubsub::subscriptions::{Deserted, Origin, Topics, Wait};
use crate::redirect::declined::Declined;
use command::{Carry, Command, Flags, Local, PubSubQuestion, Topic as Kind};
use engine::memory::Charge;
use resp::reply::{as_bulk, as_integer, elements, is_error};
use resp::{Request, encode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stdx::{Id, Instant, Slab};
use topology::{ShardId, Topology};

/// The subscriptions of a worker's clients.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    pub topics: Topics,
    /// The links for messages.
    sources: BTreeMap<Origin, Source>,
    /// Topics without subscribers, until the nodes know of it.
    leaving: Slab<Leaving>,
    /// Topics with a setback, and some that had one.
    pub set_back: BTreeSet<Id>,
    /// Reused for each message.
    listeners: Vec<ConnId>,
}

/// A link for messages.
#[derive(Debug)]
struct Source {
    /// Its link.
    link: LinkIx,
    /// Whether the log has reported that messages may be missing.
    has_gap: bool,
    /// The shard channel whose subscription the node ended by its last reply.
    ended: Option<Arc<[u8]>>,
}

/// A topic whose unsubscription is in flight to nodes.
#[derive(Debug)]
pub(crate) struct Leaving {
    profile: ProfileId,
    kind: Kind,
    name: Arc<[u8]>,
    /// Shards whose node counts our connection as a subscriber.
    counted: Vec<ShardId>,
    /// Number of nodes that have not answered.
    left: usize,
    /// The client that waits for the confirmation: its connection, its place, and the text.
    client: Option<(ConnId, u32, Vec<u8>)>,
}

impl Leaving {
    /// An unsubscription for which no client waits, at nodes that do not count our connection.
    pub(crate) fn of(profile: ProfileId, kind: Kind, name: &Arc<[u8]>, left: usize) -> Leaving {
        Leaving { profile, kind, name: Arc::clone(name), counted: Vec::new(), left, client: None }
    }
}

/// Channels to which nodes publish events of their own keys.
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

    /// Places in clients' orders that wait for a confirmation.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = (ConnId, u32)> {
        let left = self.leaving.iter().filter_map(|(_, leaving)| leaving.client.as_ref());
        self.topics.awaited().chain(left.map(|(conn, place, _)| (*conn, *place)))
    }

    /// Adds an unsubscription.
    pub(crate) fn begin_to_leave(&mut self, leaving: Leaving) -> Id {
        self.leaving.insert(leaving)
    }

    /// Adapts to the number of shards.
    pub(crate) fn fit(&mut self, topology: &Topology) {
        self.topics.fit(topology);
    }

    /// The links for messages of `shard`.
    pub(crate) fn links(&self, shard: ShardId) -> impl Iterator<Item = LinkIx> {
        self.sources.range(Origin::all_of(shard)).map(|(_, source)| source.link)
    }

    /// Whether there is a link for messages from `origin`.
    pub(crate) fn has_source(&self, origin: Origin) -> bool {
        self.sources.contains_key(&origin)
    }

    /// SUBSCRIBE, PSUBSCRIBE and SSUBSCRIBE: each name gets a reply of its own.
    pub(crate) fn subscribe(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        kind: Kind,
        request: &Request<'_>,
    ) {
        for name in request.args().skip(1) {
            self.subscribe_to(cx, session, kind, name);
        }
        session.speak_up();
    }

    fn subscribe_to(&mut self, cx: &mut Context, session: &mut Session, kind: Kind, name: &[u8]) {
        let conn = session.conn;
        let (id, waits) = match session.features.topic(kind, name) {
            Some(id) => (id, self.topics.get(id).is_some_and(|topic| topic.waits(conn))),
            None => match self.topic_for(cx, session, kind, name) {
                Ok(id) => (id, !self.join(cx, session, kind, id)),
                Err(text) => return cx.refuse(session, &text),
            },
        };
        let count = session.features.subscriptions(kind);
        if !waits {
            return tell(cx, session, kind.subscribe(), Some(name), count);
        }
        let place = session.replies.reserve(Owed::Task(TaskId::Subscription));
        session.features.subscribed.get_or_insert_default().awaits = Some(place);
        let Some(topic) = self.topics.get_mut(id) else { return };
        let others_wait = topic.is_waited_for();
        topic.wait(conn, Wait { place, count, resp3: session.resp3 });
        if others_wait && topic.is_parked() {
            return;
        }
        let unasked: Vec<ShardId> = topic.unasked().collect();
        unasked.into_iter().for_each(|shard| self.ask_for(cx, id, shard));
    }

    /// The topic, if the session may subscribe to it now. The error is for the client.
    fn topic_for(
        &mut self,
        cx: &mut Context,
        session: &Session,
        kind: Kind,
        name: &[u8],
    ) -> Result<Id, String> {
        let profile = passing::plain_profile(cx, session);
        if kind == Kind::Pattern && name.len() > cx.limits.pattern_bytes_max {
            return Err(errors::PATTERN_TOO_LONG.to_owned());
        }
        let topics = &self.topics;
        if topics.held_bytes() + name.len() > cx.limits.subscription_bytes_max {
            return Err(errors::SUBSCRIPTIONS_MAX.to_owned());
        }
        let known = topics.find(profile, kind, name);
        let home = home_of(cx, kind, name);
        let needed: Vec<ShardId> = match known.and_then(|id| topics.get(id)) {
            Some(topic) => topic.lacking().collect(),
            None => topics.homes(home).collect(),
        };
        for shard in needed {
            cx.admit(shard)
                .and_then(|()| self.admit_source(cx, Origin { shard, profile }))
                .map_err(|lost| lost.text())?;
        }
        let speaker = cx.engine.topology.shard_of(name);
        Ok(known.unwrap_or_else(|| self.topics.insert(profile, (kind, name), home, speaker)))
    }

    /// Whether there may be a link for messages from `origin`.
    fn admit_source(&self, cx: &Context, origin: Origin) -> Result<(), Lost> {
        let is_full = self.sources.len() >= cx.limits.profile_nodes_max;
        match origin.profile {
            ProfileId::FIRST => Ok(()),
            ProfileId::NONE => Err(cx.engine.not_sent(origin.shard, errors::NO_PROFILE)),
            _ if is_full && !self.has_source(origin) => {
                Err(cx.engine.not_sent(origin.shard, errors::USER_NODES_MAX))
            }
            _ => Ok(()),
        }
    }

    /// Subscribes the session to a further topic. Returns whether the nodes have confirmed the topic before.
    fn join(&mut self, cx: &mut Context, session: &mut Session, kind: Kind, id: Id) -> bool {
        cx.stats.counters.subscribers += u64::from(!session.features.has_topics());
        let is_there = self.topics.join(id, session.conn);
        let Some(topic) = self.topics.get(id) else { return false };
        session.features.subscribed.get_or_insert_default().insert(kind, &topic.name, id);
        if is_there {
            cx.board.audience.add_client(ear(cx, topic.profile), kind, &topic.name);
        }
        is_there
    }

    /// UNSUBSCRIBE, PUNSUBSCRIBE and SUNSUBSCRIBE, with names or for all topics.
    pub(crate) fn unsubscribe(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        kind: Kind,
        request: &Request<'_>,
    ) {
        for name in request.args().skip(1) {
            match session.features.topic(kind, name) {
                Some(id) => self.leave(cx, session, kind, id, true),
                None => {
                    tell(cx, session, kind.unsubscribe(), Some(name), session.features.subscriptions(kind))
                }
            }
        }
        if request.len() == 1 {
            let all = session.features.topics(kind);
            if all.is_empty() {
                tell(cx, session, kind.unsubscribe(), None, session.features.subscriptions(kind));
            }
            all.into_iter().for_each(|id| self.leave(cx, session, kind, id, true));
        }
        session.speak_up();
    }

    /// Ends all subscriptions of a session that is reset or gone, without confirmations.
    pub(crate) fn unsubscribe_from_all(&mut self, cx: &mut Context, session: &mut Session) {
        for kind in Kind::ALL {
            session.features.topics(kind).into_iter().for_each(|id| self.leave(cx, session, kind, id, false));
        }
    }

    /// Ends a subscription and confirms it if it was not confirmed yet. With `is_told`, the client gets a confirmation
    /// of the end once the nodes know of it.
    fn leave(&mut self, cx: &mut Context, session: &mut Session, kind: Kind, id: Id, is_told: bool) {
        let Some(topic) = self.topics.get(id) else { return };
        let (ear, name) = (ear(cx, topic.profile), Arc::clone(&topic.name));
        let Some((subscription, deserted)) = self.topics.leave(id, session.conn) else {
            return;
        };
        session.features.forget_topic(kind, &name);
        cx.stats.counters.subscribers -= u64::from(!session.features.has_topics());
        if subscription.waits.is_empty() {
            cx.board.audience.remove_client(ear, kind, &name);
        }
        confirm_waits(cx, session, kind, &name, subscription.waits);
        let leaving = deserted.and_then(|deserted| self.desert(cx, deserted));
        if !is_told {
            return;
        }
        let count = session.features.subscriptions(kind);
        let Some(leaving) = leaving.and_then(|id| self.leaving.get_mut(id)) else {
            return tell(cx, session, kind.unsubscribe(), Some(&name), count);
        };
        let mut text = Vec::new();
        write_change(&mut text, session.resp3, kind.unsubscribe(), Some(&name), count);
        leaving.client =
            Some((session.conn, session.replies.reserve(Owed::Task(TaskId::Subscription)), text));
    }

    /// Unsubscribes from a topic without subscribers. Returns the unsubscription, or nothing if no node was asked.
    fn desert(&mut self, cx: &mut Context, deserted: Deserted) -> Option<Id> {
        let Deserted { profile, kind, name, asked } = deserted;
        if asked.is_empty() {
            return None;
        }
        let confirmed = asked.iter().filter(|(_, confirmed)| *confirmed);
        let counted = confirmed.map(|(shard, _)| *shard).collect();
        let leaving = Leaving { counted, ..Leaving::of(profile, kind, &name, asked.len()) };
        let id = self.leaving.insert(leaving);
        for (shard, _) in asked {
            self.say_unsubscribed(cx, Origin { shard, profile }, kind, &name, id);
        }
        Some(id)
    }

    /// Sends an unsubscription to the node at `origin`.
    pub(crate) fn say_unsubscribed(
        &mut self,
        cx: &mut Context,
        origin: Origin,
        kind: Kind,
        name: &[u8],
        id: Id,
    ) {
        let task = match kind {
            Kind::ShardChannel => TaskKind::UnsubscribeShard,
            Kind::Channel | Kind::Pattern => TaskKind::Unsubscribe,
        };
        self.say(cx, origin, kind.unsubscribe(), name, (id, 0), Owner::Task(task));
    }

    /// Subscribes to a topic at the node of `shard`.
    pub(crate) fn ask_for(&mut self, cx: &mut Context, id: Id, shard: ShardId) {
        let Some(topic) = self.topics.get_mut(id) else { return };
        let question = topic.ask(shard);
        let (profile, kind, name) = (topic.profile, topic.kind, Arc::clone(&topic.name));
        let task = match kind {
            Kind::ShardChannel => TaskKind::SubscribeShard,
            Kind::Channel | Kind::Pattern => TaskKind::Subscribe,
        };
        let origin = Origin { shard, profile };
        self.say(cx, origin, kind.subscribe(), &name, (id, question), Owner::Task(task));
    }

    /// Queues a request with one name, which has one reply.
    fn say(
        &mut self,
        cx: &mut Context,
        origin: Origin,
        word: &str,
        name: &[u8],
        (id, question): (Id, u32),
        owner: Owner,
    ) {
        let ix = self.source_of(cx, origin);
        let mut request = cx.engine.pool.take();
        encode::request(&mut request, &[word.as_bytes(), name]);
        // A topic has no connection: its id stands in place of one, and the number of the question in place of a place.
        cx.engine.enqueue_on(
            ix,
            &request,
            Asked { conn: id, place: question, part: origin.shard.0, owner, kept: Kept::NO },
        );
        cx.engine.pool.give(request);
    }

    /// The link for messages from `origin`. If there is none, it is made at once.
    fn source_of(&mut self, cx: &mut Context, origin: Origin) -> LinkIx {
        let known = self.sources.get(&origin).map(|source| source.link);
        let link = source_on(cx, known, origin.profile, origin.shard);
        self.sources.entry(origin).or_insert(Source { link, has_gap: false, ended: None });
        link
    }

    /// Notes that the node of `shard` no longer counts our connection. If it was the last node, returns the client that
    /// waits.
    fn absorb_leaving(&mut self, cx: &mut Context, id: Id, shard: ShardId) -> Option<(ConnId, u32, Vec<u8>)> {
        let leaving = self.leaving.get_mut(id)?;
        if leaving.counted.contains(&shard) {
            leaving.counted.retain(|counted| *counted != shard);
            let ear = (cx.settings.worker, leaving.profile);
            cx.board.audience.remove_node(ear, leaving.kind, &leaving.name, shard);
        }
        leaving.left -= 1;
        if leaving.left > 0 {
            return None;
        }
        self.leaving.remove(id)?.client
    }

    /// Whether the session's user may have all its subscriptions. If not, the session is closed, as by Redis.
    pub(crate) fn may_stay_subscribed(&self, session: &Session) -> bool {
        let topics = Kind::ALL.into_iter().flat_map(|kind| session.features.topics(kind));
        let mut topics = topics.filter_map(|id| self.topics.get(id));
        topics.all(|topic| session.features.login.permits_channel(&topic.name, topic.kind == Kind::Pattern))
    }

    /// The next link for messages that is no longer used.
    pub(crate) fn next_deserted(&mut self, cx: &mut Context) -> Option<LinkIx> {
        let (now, after) = (cx.engine.now, cx.engine.limits.pinned_idle);
        let Subscriptions { topics, sources, .. } = &self;
        let is_deserted = |(origin, source): &(&Origin, &Source)| {
            let link = &cx.engine.links[source.link];
            topics.at(**origin) == 0 && link.is_clean() && link.is_silent_for(after, now)
        };
        let origin = *sources.iter().find(is_deserted)?.0;
        self.sources.remove(&origin).map(|source| source.link)
    }

    /// Notes that the node has answered the unsubscription of `ticket`.
    pub(crate) fn note_ended(&mut self, cx: &mut Context, ix: LinkIx, ticket: &Ticket, reply: &[u8]) {
        let leaving = self.leaving.get(ticket.conn);
        let leaving = leaving.filter(|leaving| leaving.kind == Kind::ShardChannel && !is_error(reply));
        let ended = leaving.map(|leaving| Arc::clone(&leaving.name));
        let origin = origin_of(cx, ix);
        self.sources.get_mut(&origin).into_iter().for_each(|source| source.ended = ended.clone());
    }

    /// Whether the reply to `ticket` may be about a shard channel of the slot `its`. Nodes never redirect requests for
    /// other topics, which may have the same name.
    fn may_be_of(&self, cx: &Context, ticket: &Ticket, its: u32) -> bool {
        let name = match ticket.owner {
            Owner::Task(TaskKind::SubscribeShard) => self.topics.get(ticket.conn).map(|topic| &topic.name),
            Owner::Task(TaskKind::UnsubscribeShard) => {
                self.leaving.get(ticket.conn).map(|leaving| &leaving.name)
            }
            _ => return false,
        };
        // Clients may have left a topic before its node answers.
        name.is_none_or(|name| cx.engine.topology.division_of(name).0 == its)
    }
}

/// Checks a request of a session with other output than replies. If `command` is not permitted, the client gets an
/// error. If it has to wait, the request is read again later.
#[cold]
pub(crate) fn detain_listener(cx: &mut Context, session: &mut Session, command: &Command) -> Option<Step> {
    match may_ask_for(session, command) {
        // A PUBLISH would go over another link, and the node could get it before the subscription.
        true if awaits_confirmation(session) && !is_for_listeners(command) => {
            session.turn();
            return Some(cx.read_again());
        }
        true => return None,
        false if is_restricted(session) => {
            cx.refuse(session, &errors::only_while_subscribed(&command.name));
        }
        false => cx.refuse(session, errors::NO_KEYSPACE),
    }
    Some(Step::Done)
}

/// The identity by which a node counts the subscribers of `profile`.
pub(crate) fn ear(cx: &Context, profile: ProfileId) -> Ear {
    (cx.settings.worker, profile)
}

/// The shard from which all messages of a topic come; `None` if they may come from any.
fn home_of(cx: &Context, kind: Kind, name: &[u8]) -> Option<ShardId> {
    let is_everywhere = match kind {
        Kind::Pattern => true,
        Kind::Channel => is_notification(name),
        Kind::ShardChannel => false,
    };
    (!is_everywhere).then(|| cx.engine.topology.shard_of(name))
}

/// A link of `profile` to `shard` for messages. If `ix` exists but is not connected, it connects at once. Without `ix`,
/// the link is new.
pub(crate) fn source_on(cx: &mut Context, ix: Option<LinkIx>, profile: ProfileId, shard: ShardId) -> LinkIx {
    let Some(ix) = ix else {
        let greeting = cx.profiles.greeting(profile);
        let id = cx.engine.topology.shard(shard).primary.expect("a shard that admits requests has a primary");
        return cx.engine.add_link(Link::new((shard, id), Use::Subscription, profile, greeting));
    };
    if let State::Waiting { until } = &mut cx.engine.links[ix].state {
        *until = (*until).min(cx.engine.now);
        cx.engine.check_at = cx.engine.now;
    }
    ix
}

/// Sends the session a confirmation of a change that is in effect now.
fn tell(cx: &mut Context, session: &mut Session, word: &str, name: Option<&[u8]>, count: usize) {
    let mut text = cx.engine.pool.take();
    write_change(&mut text, session.resp3, word, name, count);
    if session.replies.is_pending() {
        session.replies.raise_barrier(session.replies.next_place());
    }
    cx.engine.answer(session, &text);
    cx.engine.pool.give(text);
}

/// Confirms subscriptions in the places that wait for them.
pub(crate) fn confirm_waits(
    cx: &mut Context,
    session: &mut Session,
    kind: Kind,
    name: &[u8],
    waits: Vec<Wait>,
) {
    for Wait { place, count, resp3 } in waits {
        let mut text = cx.engine.pool.take();
        write_change(&mut text, resp3, kind.subscribe(), Some(name), count);
        session.replies.raise_barrier(place);
        cx.settle(session, place, &text);
        cx.engine.pool.give(text);
    }
}

/// PUBLISH: to the shard of the channel. The node's number of receivers is corrected if there are subscribers here.
pub(crate) fn send_message(
    cx: &mut Context,
    session: &mut Session,
    command: &Command,
    kind: Kind,
    request: &Request<'_>,
) {
    let channel = request.arg(1);
    let shard = cx.engine.topology.shard_of(channel);
    let receivers = cx.board.audience.receivers(kind, channel, shard);
    if receivers == Receivers::NONE {
        return cx.send(session, command, shard, request.bytes);
    }
    let ix = match cx.link_for(session, shard) {
        Ok(ix) => ix,
        Err(lost) => return cx.refuse(session, &lost.text()),
    };
    let place = session.replies.reserve(Owed::Task(TaskId::Receivers(receivers)));
    cx.engine.enqueue_on(ix, request.bytes, Asked::by_client(session.conn, place));
}

/// PUBSUB: about the clients of all workers.
pub(crate) fn pubsub(cx: &Context, question: PubSubQuestion, request: &Request<'_>, reply: &mut Vec<u8>) {
    let audience = &cx.board.audience;
    match question {
        PubSubQuestion::Names(_) if request.len() > 3 => errors::write_subcommand_syntax(reply, request),
        PubSubQuestion::Names(kind) => {
            let pattern = request.get(2);
            if pattern.is_some_and(|pattern| pattern.len() > cx.limits.pattern_bytes_max) {
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

/// The origin of messages on link `ix`.
pub(crate) fn origin_of(cx: &Context, ix: LinkIx) -> Origin {
    let Link { shard, profile, .. } = cx.engine.links[ix];
    Origin { shard, profile }
}

impl Subscriptions {
    /// Whether `reply` is a second answer to a request that seems to be answered already. A node whose slot has moved
    /// ends subscriptions itself, with the same words as for SUNSUBSCRIBE. If a SUNSUBSCRIBE arrives a moment later,
    /// the node answers MOVED. The next request may be for that slot too, and then gets the first of two equal answers.
    pub(crate) fn is_second_answer(&mut self, cx: &mut Context, ix: LinkIx, reply: &[u8]) -> bool {
        let origin = origin_of(cx, ix);
        let source = self.sources.get_mut(&origin);
        let Some(ended) = source.and_then(|source| source.ended.take()) else { return false };
        let its = cx.engine.topology.division_of(&ended).0;
        let declined = cx.declined_by(ix, reply);
        if !matches!(declined, Some(Declined::Moved { slot, .. }) if u32::from(slot) == its) {
            return false;
        }
        let next = cx.engine.links[ix].front();
        let is_for_next = next.is_some_and(|ticket| self.may_be_of(cx, ticket, its));
        if let Some(source) = self.sources.get_mut(&origin).filter(|_| is_for_next) {
            source.ended = Some(ended);
        }
        !is_for_next
    }

    /// Whether `reply` says, without a request, that the node has ended our subscription to a shard channel.
    pub(crate) fn is_dropped(&mut self, cx: &mut Context, ix: LinkIx, reply: &[u8]) -> bool {
        let mut fields = elements(reply).into_iter().flatten();
        if fields.next().and_then(as_bulk) != Some(Kind::ShardChannel.unsubscribe().as_bytes()) {
            return false;
        }
        let Some(name) = fields.next().and_then(as_bulk) else { return false };
        let link = &cx.engine.links[ix];
        let front = link.front().copied();
        let unsubscribes = Owner::Task(TaskKind::UnsubscribeShard);
        let leaving = front.filter(|ticket| ticket.owner == unsubscribes);
        let leaving = leaving.and_then(|ticket| self.leaving.get(ticket.conn));
        if leaving.is_some_and(|leaving| *leaving.name == *name) {
            return false;
        }
        self.handle_dropped(cx, origin_of(cx, ix), name);
        true
    }

    /// Takes the confirmation of a subscription by the node of `shard`.
    pub(crate) fn handle_subscribed(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        id: Id,
        shard: ShardId,
        reply: &[u8],
    ) -> Result<(), Fault> {
        let Some(topic) = self.topics.get_mut(id) else { return Ok(()) };
        if !confirms(reply, topic.kind.subscribe(), &topic.name) {
            return Err(Fault::Garbled("unexpected subscription".to_owned()));
        }
        let (profile, kind, name) = (topic.profile, topic.kind, Arc::clone(&topic.name));
        cx.board.audience.add_link((cx.settings.worker, profile), kind, &name, shard);
        if topic.confirm(shard) {
            self.conclude_subscription(cx, peers, id);
        }
        Ok(())
    }

    /// Takes the refusal of a subscription by a node. Clients that wait get the error and are not subscribed.
    pub(crate) fn deny(&mut self, cx: &mut Context, peers: &mut Peers, id: Id, error: &[u8]) {
        let Some(topic) = self.topics.get_mut(id) else { return };
        let (kind, name) = (topic.kind, Arc::clone(&topic.name));
        for (conn, waits) in topic.take_waits() {
            let Some(Peer::Client(session)) = peers.get_mut(conn) else { continue };
            session.features.forget_topic(kind, &name);
            cx.stats.counters.subscribers -= u64::from(!session.features.has_topics());
            for wait in waits {
                cx.stats.counters.errors += 1;
                cx.settle(session, wait.place, error);
            }
            if let Some((_, Some(deserted))) = self.topics.leave(id, conn) {
                self.desert(cx, deserted);
            }
        }
    }

    /// Notes that a node sends no more messages of a topic: it has confirmed that, or the link is gone.
    pub(crate) fn handle_unsubscribed(&mut self, cx: &mut Context, peers: &mut Peers, ticket: Ticket) {
        let told = self.absorb_leaving(cx, ticket.conn, ShardId(ticket.part));
        let Some((conn, place, text)) = told else { return };
        if let Some(Peer::Client(session)) = peers.get_mut(conn) {
            cx.settle(session, place, &text);
        }
    }

    /// Sends all subscriptions of the new link for messages of `shard`.
    pub(crate) fn ask_for_topics(&mut self, cx: &mut Context, shard: ShardId, ix: LinkIx) {
        let origin = origin_of(cx, ix);
        let unasked = self.topics.unasked(origin);
        unasked.into_iter().for_each(|id| self.ask_for(cx, id, shard));
        let source = self.sources.get_mut(&origin);
        if source.is_some_and(|source| std::mem::take(&mut source.has_gap)) {
            let topics = self.topics.at(origin);
            let shard = cx.engine.shard_name(shard).to_owned();
            cx.notice(Notice::SubscribedAgain { shard, topics });
        }
    }

    /// Handles the loss of the link for messages of `shard`. Clients that wait get an error. Other subscriptions are
    /// made again.
    pub(crate) fn handle_link_lost(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        shard: ShardId,
        ix: LinkIx,
        reason: &str,
    ) {
        let origin = origin_of(cx, ix);
        self.sources.get_mut(&origin).into_iter().for_each(|source| source.ended = None);
        let loss = self.topics.lose(origin);
        let ear = ear(cx, origin.profile);
        for topic in loss.confirmed.iter().filter_map(|id| self.topics.get(*id)) {
            cx.board.audience.remove_node(ear, topic.kind, &topic.name, shard);
        }
        if !loss.confirmed.is_empty() {
            cx.stats.counters.message_gaps += 1;
            let source = self.sources.get_mut(&origin);
            source.into_iter().for_each(|source| source.has_gap = true);
            let (topics, reason) = (loss.confirmed.len(), reason.to_owned());
            let shard = cx.engine.shard_name(shard).to_owned();
            cx.notice(Notice::MessagesMissed { shard, topics, reason });
        }
        let lost = cx.not_sent_on(&cx.engine.links[ix], reason);
        let error = errors::reply(&lost.text());
        loss.waited_for.into_iter().for_each(|id| self.deny(cx, peers, id, &error));
        if matches!(lost, Lost::Denied { .. }) {
            let topics: Vec<Id> = self.topics.ids_at(origin).collect();
            topics.into_iter().for_each(|id| self.evict(cx, peers, id));
        }
        if self.topics.at(origin) == 0 {
            let source = self.sources.remove(&origin);
            source.into_iter().for_each(|source| cx.vacate(source.link));
        }
    }

    /// Passes a message on to all subscribers.
    pub(crate) fn distribute(&mut self, cx: &mut Context, peers: &mut Peers, id: Id, message: &[u8]) {
        let Some(topic) = self.topics.get(id) else { return };
        let mut listeners = std::mem::take(&mut self.listeners);
        listeners.extend(topic.listeners());
        // A push of RESP3 differs by its first byte.
        let mut as_push = None;
        let mut has_blocked = false;
        for &conn in &listeners {
            let Some(Peer::Client(session)) = peers.get_mut(conn) else { continue };
            if !session.may_be_told() {
                continue;
            }
            let frame = match session.resp3 {
                false => message,
                true => as_push.get_or_insert_with(|| [b">", &message[1..]].concat()).as_slice(),
            };
            session.replies.push(frame, &mut cx.engine.pool);
            has_blocked |= session.replies.output.blocked;
            after_push(cx, peers, conn, message.len());
        }
        listeners.clear();
        self.listeners = listeners;
        if has_blocked {
            cx.effects.push_back(Effect::RelieveOfSubscribers);
        }
    }

    /// Closes the subscribers of a topic that the node has revoked, as Redis does.
    pub(crate) fn evict(&mut self, cx: &mut Context, peers: &mut Peers, id: Id) {
        let Some(topic) = self.topics.get(id) else { return };
        for conn in topic.listeners().collect::<Vec<_>>() {
            if let Some(Peer::Client(session)) = peers.get_mut(conn) {
                cx.close_client(session, CloseReason::Denied);
            }
        }
    }
}

/// Checks the client `conn` after a message was added to its output.
pub(crate) fn after_push(cx: &mut Context, peers: &mut Peers, conn: ConnId, len: usize) {
    let Some(Peer::Client(session)) = peers.get_mut(conn) else { return };
    cx.stats.counters.messages += 1;
    cx.engine.list_client(session);
    if is_slow_subscriber(session, len, cx.engine.now, &cx.limits) {
        cx.close_client(session, CloseReason::SlowSubscriber);
    }
}

impl SessionFeatures {
    /// Whether it has subscriptions.
    pub(crate) fn has_topics(&self) -> bool {
        self.subscribed.as_ref().is_some_and(|subscribed| subscribed.has_topics())
    }

    /// Whether it gets other output than replies.
    pub(crate) fn is_listening(&self) -> bool {
        self.has_topics() || self.monitors()
    }

    /// The topic of this name to which it is subscribed.
    fn topic(&self, kind: Kind, name: &[u8]) -> Option<Id> {
        self.subscribed.as_ref()?.find(kind, name)
    }

    fn topics(&self, kind: Kind) -> Vec<Id> {
        self.subscribed.as_ref().map_or_else(Vec::new, |subscribed| subscribed.of_kind(kind).collect())
    }

    /// The number of subscriptions in a confirmation of `kind`.
    fn subscriptions(&self, kind: Kind) -> usize {
        self.subscribed.as_ref().map_or(0, |subscribed| subscribed.count(kind))
    }

    /// The number of its topics of `kind`.
    pub(crate) fn topic_count(&self, kind: Kind) -> usize {
        self.subscribed.as_ref().map_or(0, |subscribed| subscribed.len(kind))
    }

    fn forget_topic(&mut self, kind: Kind, name: &[u8]) {
        if let Some(subscribed) = &mut self.subscribed {
            subscribed.remove(kind, name);
        }
        self.forget_if_silent();
    }

    /// Frees the state that only clients with other output than replies need.
    pub(crate) fn forget_if_silent(&mut self) {
        if self.subscribed.as_ref().is_some_and(|subscribed| subscribed.is_silent()) {
            self.subscribed = None;
        }
    }
}

/// Whether nodes have not confirmed all its subscriptions yet.
fn awaits_confirmation(session: &Session) -> bool {
    let last = session.features.subscribed.as_ref().and_then(|subscribed| subscribed.awaits);
    last.is_some_and(|place| session.replies.owed(place) == Some(Owed::Task(TaskId::Subscription)))
}

/// Whether only few commands are permitted now: in RESP2, replies and messages look alike.
pub(crate) fn is_restricted(session: &Session) -> bool {
    !session.resp3 && session.features.has_topics()
}

/// Whether the session may send `command` now, considering its other output than replies.
pub(crate) fn may_ask_for(session: &Session, command: &Command) -> bool {
    if is_restricted(session) {
        return is_for_listeners(command);
    }
    let touches_keys = command.flags.contains(Flags::READONLY)
        || command.flags.contains(Flags::WRITE)
        || matches!(command.carry, Carry::Publish(_) | Carry::Script(_));
    !(touches_keys && session.features.monitors())
}

/// Whether a subscriber is to be closed because of the bytes that wait for it. The hard limit counts at once, the soft
/// one after a time. One message of `newest` bytes may be larger.
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

/// Whether a subscriber may send `command` in either protocol. At a node, these commands only change subscriptions.
fn is_for_listeners(command: &Command) -> bool {
    use Local::{Ping, Quit, Reset, Subscribe, Unsubscribe};
    matches!(command.carry, Carry::Here(Subscribe(_) | Unsubscribe(_) | Ping | Quit | Reset))
}

/// Writes the confirmation of a change: a word such as `subscribe`, the name, and the number of subscriptions.
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

/// Writes the reply to PING for a client that can get only arrays.
pub(crate) fn write_pong(request: &Request<'_>, reply: &mut Vec<u8>) {
    encode::array_header(reply, 2);
    encode::bulk(reply, b"pong");
    encode::bulk(reply, request.get(1).unwrap_or_default());
}

/// Writes the node's number of receivers, corrected by `receivers`. A reply that is not a number stays unchanged.
pub(crate) fn write_receivers(reply: &[u8], receivers: Receivers, out: &mut Vec<u8>) {
    match as_integer(reply) {
        Some(counted) => encode::integer(out, receivers.among(counted)),
        None => out.extend_from_slice(reply),
    }
}

/// Whether nodes publish events of their own keys to the channel `name`.
pub(crate) fn is_notification(name: &[u8]) -> bool {
    NOTIFICATIONS.iter().any(|prefix| name.starts_with(prefix))
}

/// The kind and name of a message's topic; `None` if `reply` is not a message.
pub(crate) fn message_of(reply: &[u8]) -> Option<(Kind, &[u8])> {
    const BEGINNINGS: [(Kind, &[u8]); Kind::COUNT] = [
        (Kind::Channel, b"*3\r\n$7\r\nmessage\r\n"),
        (Kind::Pattern, b"*4\r\n$8\r\npmessage\r\n"),
        (Kind::ShardChannel, b"*3\r\n$8\r\nsmessage\r\n"),
    ];
    let rest = |(kind, begins): &(Kind, &[u8])| Some((*kind, reply.strip_prefix(*begins)?));
    let (kind, rest) = BEGINNINGS.iter().find_map(rest)?;
    Some((kind, as_bulk(rest)?))
}

/// Whether `reply` is the confirmation `word` for `name`.
fn confirms(reply: &[u8], word: &str, name: &[u8]) -> bool {
    let Some(mut fields) = elements(reply) else { return false };
    let mut next = || fields.next().and_then(as_bulk);
    next() == Some(word.as_bytes()) && next() == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_distinguished_from_replies() {
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
    fn a_reply_without_a_number_of_receivers_stays_unchanged() {
        let mut out = Vec::new();
        write_receivers(b"-NOPERM no\r\n", Receivers::NONE, &mut out);
        write_receivers(b":3\r\n", Receivers::NONE, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "-NOPERM no\r\n:3\r\n");
    }
}
