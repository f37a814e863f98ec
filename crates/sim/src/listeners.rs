//! Clients that publish and subscribe: their requests, and the messages that each must and must not receive.
//!
//! ```text
//!   SUBSCRIBE ─ sent ─► confirmed ═══════ messages may come here ═══════ UNSUBSCRIBE confirmed
//!                          └── what is published from here … to here ──┘ must have come
//! ```
//!
//! Messages of one publisher on one topic arrive in order, and each once. A message may only be missing on a node with a fault,
//! or on a shard channel shortly after its slot has moved.

use crate::ledger::text;
use crate::program::{Expect, Program, Sent, words};
use resp::{encode, reply};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Prng, glob};
use topology::ShardId;

/// The three kinds of topics, as Redis has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Channel,
    Pattern,
    Shard,
}

impl Kind {
    /// The command that subscribes, the command that ends it, and the first word of a message.
    fn words(self) -> [&'static str; 3] {
        match self {
            Kind::Channel => ["subscribe", "unsubscribe", "message"],
            Kind::Pattern => ["psubscribe", "punsubscribe", "pmessage"],
            Kind::Shard => ["ssubscribe", "sunsubscribe", "smessage"],
        }
    }
}

/// A kind and a name.
pub(crate) type Topic = (Kind, Vec<u8>);

/// The channel for invalidations on behalf of other clients; Redis prescribes its name.
pub(crate) const INVALIDATIONS: &[u8] = b"__redis__:invalidate";

/// Channels that are published to.
const CHANNELS: u64 = 4;
const PATTERNS: [&[u8]; 3] = [b"news*", b"news[01]", b"*2"];

/// All channels that are published to.
pub(crate) fn channels() -> impl Iterator<Item = Vec<u8>> {
    (0..CHANNELS).map(channel)
}

fn channel(number: u64) -> Vec<u8> {
    format!("news{number}").into_bytes()
}

fn draw_topic(prng: &mut Prng) -> Topic {
    match prng.below(4) {
        0 => (Kind::Pattern, prng.pick(&PATTERNS).to_vec()),
        1 => (Kind::Shard, channel(prng.below(CHANNELS))),
        _ => (Kind::Channel, channel(prng.below(CHANNELS))),
    }
}

/// The expected reply to a request of this file.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    /// The confirmation of a subscription.
    Subscribed {
        topic: Topic,
        /// Number of subscriptions in the reply, where it is known.
        count: Option<usize>,
    },
    /// The confirmation of an end: of one of these, or of none, if there was none.
    Unsubscribed { kind: Kind, names: Vec<Vec<u8>>, count: Option<usize>, sent_at: Instant },
    /// The number of receivers of the message with this number.
    Published { number: usize },
    /// PONG in one of its shapes.
    Pong,
}

/// The state of a client that subscribes.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Topics that it has subscribed to on this connection and not left.
    wanted: BTreeSet<Topic>,
    /// Its world has no faults: it knows its subscriptions before they are confirmed.
    is_sure: bool,
}

impl Listener {
    pub(crate) fn new(is_sure: bool) -> Listener {
        Listener { wanted: BTreeSet::new(), is_sure }
    }

    /// Its connection is gone, or as if it had just begun.
    pub(crate) fn reset(&mut self) {
        self.wanted.clear();
    }

    /// Whether its connection gets nothing but messages, in RESP2.
    pub(crate) fn has_topics(&self) -> bool {
        !self.wanted.is_empty()
    }

    fn count(&self, kind: Kind) -> Option<usize> {
        let same = |other: Kind| (other == Kind::Shard) == (kind == Kind::Shard);
        self.is_sure.then(|| self.wanted.iter().filter(|(other, _)| same(*other)).count())
    }

    fn subscribe(&mut self, kind: Kind, names: Vec<Vec<u8>>) -> Sent {
        let mut request: Vec<&[u8]> = vec![kind.words()[0].as_bytes()];
        request.extend(names.iter().map(Vec::as_slice));
        let bytes = words(&request);
        let mut expects = Vec::new();
        for name in names {
            let topic = (kind, name);
            self.wanted.insert(topic.clone());
            expects.push(Expect::Radio(Expected::Subscribed { topic, count: self.count(kind) }));
        }
        Sent { bytes, expect: Some(Expect::Each(expects)) }
    }

    fn unsubscribe(&mut self, kind: Kind, name: Vec<u8>, now: Instant) -> Sent {
        let bytes = words(&[kind.words()[1].as_bytes(), &name]);
        self.wanted.remove(&(kind, name.clone()));
        let (count, names) = (self.count(kind), vec![name]);
        Sent {
            bytes,
            expect: Some(Expect::Radio(Expected::Unsubscribed { kind, names, count, sent_at: now })),
        }
    }

    /// Ends all subscriptions of a kind. Each gets a confirmation, in an order that only the server knows.
    fn unsubscribe_all(&mut self, kind: Kind, now: Instant) -> Sent {
        let bytes = words(&[kind.words()[1].as_bytes()]);
        let total = self.count(kind).unwrap_or_default();
        let (gone, left) =
            std::mem::take(&mut self.wanted).into_iter().partition(|(other, _)| *other == kind);
        self.wanted = left;
        let gone: BTreeSet<Topic> = gone;
        let names: Vec<Vec<u8>> = gone.into_iter().map(|(_, name)| name).collect();
        let times = names.len().max(1);
        let one = |number: usize| {
            let count = Some(total - (number + 1).min(names.len()));
            Expect::Radio(Expected::Unsubscribed { kind, names: names.clone(), count, sent_at: now })
        };
        Sent { bytes, expect: Some(Expect::Each((0..times).map(one).collect())) }
    }
}

impl Program {
    /// The next request of a client that subscribes; `None` if it behaves as all others do.
    pub(crate) fn listen(&mut self, now: Instant, prng: &mut Prng, radio: &mut Radio) -> Option<Sent> {
        let listener = self.listener.as_mut()?;
        let is_restricted = listener.has_topics() && !self.profile.resp3;
        let drawn = prng.below(16);
        Some(match drawn {
            0..=2 => {
                let favourite = radio.favourite.clone().filter(|_| prng.one_in(2));
                let (kind, name) = favourite.map_or_else(|| draw_topic(prng), |name| (Kind::Shard, name));
                let mut names = vec![name];
                if kind != Kind::Pattern && prng.one_in(3) {
                    names.push(channel(prng.below(CHANNELS)));
                }
                listener.subscribe(kind, names)
            }
            3 | 4 => {
                let (kind, name) = draw_topic(prng);
                if listener.is_sure && prng.one_in(4) {
                    listener.unsubscribe_all(kind, now)
                } else {
                    listener.unsubscribe(kind, name, now)
                }
            }
            5 => Sent { bytes: words(&[b"PING"]), expect: Some(Expect::Radio(Expected::Pong)) },
            10 if self.profile.resp3 && prng.one_in(4) => {
                // The connection stays subscribed and gets messages in RESP2 from now on.
                self.profile.resp3 = false;
                Sent { bytes: words(&[b"HELLO", b"2"]), expect: Some(Expect::Greeting { resp3: false }) }
            }
            6..=9 if !is_restricted => radio.publish(self.client, now, prng),
            _ if is_restricted => return Some(Sent { bytes: Vec::new(), expect: None }),
            _ => return None,
        })
    }

    /// The next request of a client that receives invalidations for others. It does nothing else.
    pub(crate) fn lend_ear(&mut self, prng: &mut Prng) -> Option<Sent> {
        let listener = self.listener.as_mut().filter(|_| self.is_ear)?;
        if self.profile.resp3 || listener.has_topics() {
            let bytes = words(&[b"PING"]);
            return Some(Sent { bytes, expect: Some(Expect::Radio(Expected::Pong)) });
        }
        if prng.one_in(2) {
            self.profile.resp3 = true;
            let expect = Some(Expect::Greeting { resp3: true });
            return Some(Sent { bytes: words(&[b"HELLO", b"3"]), expect });
        }
        Some(listener.subscribe(Kind::Channel, vec![INVALIDATIONS.to_vec()]))
    }
}

/// All messages of a world, and their subscribers.
#[derive(Debug)]
pub(crate) struct Radio {
    messages: Vec<Message>,
    ears: BTreeMap<usize, Ears>,
    /// By the number of a node: time from which its messages may be missing.
    disturbed_at: Vec<Instant>,
    /// By shard channel: when its slot has moved.
    moved_at: BTreeMap<Vec<u8>, Vec<(Instant, Duration)>>,
    /// Clients may be refused to subscribe to more.
    pub is_bounded: bool,
    /// The longest delay of a message without faults.
    under_way_max: Duration,
    /// Pauses of the worker: the end and the length of each. A message waits in a socket meanwhile.
    pauses: Vec<(Instant, Duration)>,
    /// The shard channel that is used half of the time.
    pub favourite: Option<Vec<u8>>,
}

/// One message.
#[derive(Debug)]
struct Message {
    kind: Kind,
    channel: Vec<u8>,
    shard: ShardId,
    /// The client, and which of its connections.
    publisher: (usize, u64),
    filling: usize,
    sent_at: Instant,
    /// Time at which its publisher got the reply.
    told_at: Option<Instant>,
    never_sent: bool,
    /// Somebody has heard it behind one that was sent later.
    comes_late: bool,
}

impl Message {
    fn text(&self, number: usize) -> Vec<u8> {
        let mut text = format!("m{number}#").into_bytes();
        text.resize(text.len() + self.filling, b'.');
        text
    }

    fn is_of(&self, (kind, name): &Topic) -> bool {
        match kind {
            Kind::Pattern => self.kind == Kind::Channel && glob::matches(name, &self.channel),
            kind => self.kind == *kind && self.channel == *name,
        }
    }
}

/// The subscriptions of one client on its connection.
#[derive(Debug, Default)]
struct Ears {
    /// Number of its earlier connections.
    connection: u64,
    resp3: bool,
    topics: BTreeMap<Topic, Heard>,
}

/// Messages on one topic since its confirmation.
#[derive(Debug)]
struct Heard {
    since: Instant,
    messages: BTreeSet<usize>,
    /// The last one of each channel and publisher: a pattern has several channels, which may be on several shards.
    last: BTreeMap<(Vec<u8>, (usize, u64)), usize>,
}

/// The longest delay of a message without faults.
const UNDER_WAY_MAX: Duration = Duration::from_millis(100);
/// The longest delay where nodes send slowly. A node sends a message once for each channel and pattern, and 20 kB take 67 ms.
const UNDER_WAY_SLOWLY_MAX: Duration = Duration::from_secs(1);
/// Time until a shard subscription follows its slot: the old node ends it and says where the slot is. The second is for a
/// target that must be discovered first.
const FOLLOWED_WITHIN: Duration = Duration::from_millis(50);
const FOUND_WITHIN: Duration = Duration::from_millis(500);

impl Radio {
    /// Over as many nodes.
    pub(crate) fn new(nodes: usize) -> Radio {
        let disturbed_at = vec![Instant::NEVER; nodes];
        let (ears, moved_at) = (BTreeMap::new(), BTreeMap::new());
        Radio {
            messages: Vec::new(),
            ears,
            disturbed_at,
            moved_at,
            is_bounded: false,
            under_way_max: UNDER_WAY_MAX,
            pauses: Vec::new(),
            favourite: None,
        }
    }

    /// Notes that the worker has paused for `late`, until `end`.
    pub(crate) fn note_pause(&mut self, end: Instant, late: Duration) {
        self.pauses.push((end, late));
    }

    /// The longest delay of a message that was published at `told_at`.
    fn delay_max(&self, told_at: Instant) -> Duration {
        let pauses = self.pauses.iter().rev().take_while(|(end, _)| *end > told_at);
        self.under_way_max + pauses.map(|(_, late)| *late).sum::<Duration>()
    }

    /// Notes that nodes send slowly.
    pub(crate) fn slow_down(&mut self) {
        self.under_way_max = UNDER_WAY_SLOWLY_MAX;
    }

    /// Messages may be missing from the beginning.
    pub(crate) fn disturb_all(&mut self) {
        self.disturbed_at.fill(Instant::ZERO);
    }

    /// Something has gone wrong with this node, or with all.
    pub(crate) fn disturb(&mut self, node: Option<u32>, now: Instant) {
        let nodes = self.disturbed_at.iter_mut().zip(0..);
        let struck = nodes.filter(|&(_, number)| node.is_none_or(|node| node == number));
        struck.for_each(|(at, _)| *at = (*at).min(now));
    }

    /// The slot of a shard channel has moved, to a node that the proxy knows or not. For a moment the channel has no
    /// subscribers.
    pub(crate) fn moved(&mut self, channel: &[u8], is_known: bool, now: Instant) {
        let within = if is_known { FOLLOWED_WITHIN } else { FOUND_WITHIN };
        self.moved_at.entry(channel.to_vec()).or_default().push((now, within));
    }

    /// Whether the slot of a message's channel has moved while the message was under way.
    fn has_met_a_move(&self, message: &Message) -> bool {
        let moves = self.moved_at.get(&message.channel).filter(|_| message.kind == Kind::Shard);
        let told_at = message.told_at.unwrap_or(Instant::NEVER);
        moves.into_iter().flatten().any(|&(at, within)| at <= told_at && message.sent_at <= at + within)
    }

    /// A request of `client` that publishes.
    pub(crate) fn publish(&mut self, client: usize, now: Instant, prng: &mut Prng) -> Sent {
        let kind = if prng.one_in(4) { Kind::Shard } else { Kind::Channel };
        let filling = if prng.one_in(20) { prng.below(20_000) } else { prng.below(40) };
        let favourite = self.favourite.clone().filter(|_| prng.one_in(2));
        let (kind, channel) = match favourite {
            Some(favourite) => (Kind::Shard, favourite),
            None => (kind, channel(prng.below(CHANNELS))),
        };
        let (bytes, number) = self.message(client, kind, channel, filling as usize, now);
        Sent { bytes, expect: Some(Expect::Radio(Expected::Published { number })) }
    }

    fn message(
        &mut self,
        client: usize,
        kind: Kind,
        channel: Vec<u8>,
        filling: usize,
        now: Instant,
    ) -> (Vec<u8>, usize) {
        let publisher = (client, self.ears.entry(client).or_default().connection);
        // Set when it runs: only nodes know where that is.
        let shard = ShardId(u32::MAX);
        let number = self.messages.len();
        let message = Message {
            kind,
            channel,
            shard,
            publisher,
            filling,
            sent_at: now,
            told_at: None,
            never_sent: false,
            comes_late: false,
        };
        let name: &[u8] = if kind == Kind::Shard { b"SPUBLISH" } else { b"publish" };
        let bytes = words(&[name, &message.channel, &message.text(number)]);
        self.messages.push(message);
        (bytes, number)
    }

    /// One message on each channel for all subscribers: the requests, and the number of the first message.
    pub(crate) fn farewell(&mut self, client: usize, now: Instant) -> (Vec<Vec<u8>>, usize) {
        let first = self.messages.len();
        let all =
            (0..CHANNELS).flat_map(|number| [Kind::Channel, Kind::Shard].map(|kind| (kind, channel(number))));
        (all.map(|(kind, channel)| self.message(client, kind, channel, 0, now).0).collect(), first)
    }

    /// The node of `shard` runs a request that publishes `body`.
    pub(crate) fn ran(&mut self, body: &[u8], shard: ShardId) {
        if let Some(message) = number_of(body).and_then(|number| self.messages.get_mut(number)) {
            message.shard = shard;
        }
    }

    /// The connection of `client` is gone.
    pub(crate) fn left(&mut self, client: usize) {
        let connection = self.ears.get(&client).map_or(0, |ears| ears.connection);
        self.ears.insert(client, Ears { connection: connection + 1, ..Ears::default() });
    }

    /// `client` has got the confirmation of this protocol.
    pub(crate) fn speaks(&mut self, client: usize, resp3: bool) {
        self.ears.entry(client).or_default().resp3 = resp3;
    }

    /// RESET was answered: `client` has no subscriptions any more, and uses RESP2.
    pub(crate) fn was_reset(&mut self, client: usize) {
        let ears = self.ears.entry(client).or_default();
        (ears.resp3, ears.topics) = (false, BTreeMap::new());
    }

    /// Whether `client` has a confirmed subscription to `topic`.
    pub(crate) fn is_subscribed(&self, client: usize, topic: &Topic) -> bool {
        self.ears.get(&client).is_some_and(|ears| ears.topics.contains_key(topic))
    }

    pub(crate) fn is_resp3(&self, client: usize) -> bool {
        self.ears.get(&client).is_some_and(|ears| ears.resp3)
    }

    /// Records a message for `client`. The error says why it must not have arrived.
    pub(crate) fn hear(&mut self, client: usize, message: &Received<'_>) -> Result<(), String> {
        let ears = self.ears.entry(client).or_default();
        let Received { resp3, topic, channel, body } = message;
        let foreign = || format!("a message of {:?} came to client {client}, which", text(&topic.1));
        let Some(heard) = ears.topics.get_mut(topic) else {
            return Err(format!("{} is not subscribed to it: {:?}", foreign(), text(body)));
        };
        if *resp3 != ears.resp3 {
            return Err(format!("{} speaks another protocol", foreign()));
        }
        let sent = number_of(body).and_then(|number| Some((number, self.messages.get(number)?)));
        let Some((number, sent)) = sent.filter(|(number, sent)| sent.text(*number) == *body) else {
            return Err(format!("nobody has published {:?}", text(body)));
        };
        if sent.channel != *channel || !sent.is_of(topic) || sent.never_sent {
            return Err(format!("{} is no receiver of {:?}", foreign(), text(body)));
        }
        let is_first =
            heard.messages.insert(number) && !heard.last.contains_key(&(channel.to_vec(), sent.publisher));
        // Numbers grow: this is the order, and that nothing comes twice.
        let last = heard.last.entry((channel.to_vec(), sent.publisher)).or_insert(number);
        let before = std::mem::replace(last, number.max(*last));
        if before > number && sent.told_at.is_none() {
            // A message with unknown outcome may arrive at any time.
            self.messages[number].comes_late = true;
            return Ok(());
        }
        match is_first || before < number {
            true => Ok(()),
            false => Err(format!("{} has heard message {before} before message {number}", foreign())),
        }
    }

    /// A request of `client` got `reply`. Returns an error if the reply is wrong.
    pub(crate) fn answered(
        &mut self,
        client: usize,
        expected: &Expected,
        reply: &[u8],
        now: Instant,
    ) -> Result<(), String> {
        let ears = self.ears.entry(client).or_default();
        let refused = self.is_bounded && reply == b"-ERR max number of subscriptions reached\r\n";
        let unfit = || Err(format!("{:?} is no reply to {expected:?}", text(reply)));
        match expected {
            Expected::Subscribed { .. } if refused => Ok(()),
            Expected::Subscribed { topic: topic @ (kind, name), count } => {
                if !confirms(reply, ears.resp3, kind.words()[0], Some(name), *count) {
                    return unfit();
                }
                let heard = Heard { since: now, messages: BTreeSet::new(), last: BTreeMap::new() };
                ears.topics.entry(topic.clone()).or_insert(heard);
                Ok(())
            }
            Expected::Unsubscribed { kind, names, count, sent_at } => {
                let confirms =
                    |name: Option<&[u8]>| confirms(reply, ears.resp3, kind.words()[1], name, *count);
                let Some(name) = names.iter().find(|name| confirms(Some(name))) else {
                    return if names.is_empty() && confirms(None) { Ok(()) } else { unfit() };
                };
                let topic = (*kind, name.clone());
                let heard = ears.topics.remove(&topic);
                heard.map_or(Ok(()), |heard| self.check_complete(client, &topic, &heard, *sent_at))
            }
            Expected::Published { number } if self.messages[*number].comes_late => {
                Err(format!("message {number} was heard behind one that was sent later"))
            }
            Expected::Published { number } => {
                self.messages[*number].told_at = Some(now);
                if reply::as_integer(reply).is_some_and(|count| count >= 0) { Ok(()) } else { unfit() }
            }
            Expected::Pong if reply == b"+PONG\r\n" => Ok(()),
            Expected::Pong if !ears.resp3 && reply == b"*2\r\n$4\r\npong\r\n$0\r\n\r\n" => Ok(()),
            Expected::Pong => unfit(),
        }
    }

    /// The request that publishes message `number` was not sent.
    pub(crate) fn not_sent(&mut self, expected: &Expected) {
        if let Expected::Published { number } = expected {
            self.messages[*number].never_sent = true;
        }
    }

    /// Without faults, `heard` must contain all messages since its subscription.
    fn check_complete(
        &self,
        client: usize,
        topic: &Topic,
        heard: &Heard,
        until: Instant,
    ) -> Result<(), String> {
        let first = self.messages.partition_point(|message| message.sent_at <= heard.since);
        for (number, message) in self.messages.iter().enumerate().skip(first) {
            let Some(told_at) = message.told_at.filter(|_| message.is_of(topic)) else { continue };
            let disturbed_at = self.disturbed_at.get(message.shard.0 as usize).copied();
            let was_due =
                told_at + self.delay_max(told_at) < until.min(disturbed_at.unwrap_or(Instant::ZERO));
            if was_due && !heard.messages.contains(&number) && !self.has_met_a_move(message) {
                return Err(format!(
                    "client {client} has not heard message {number} of {:?}",
                    text(&topic.1)
                ));
            }
        }
        Ok(())
    }

    /// Checks in a quiet world that all subscribers have received all messages.
    pub(crate) fn check_all(&self, now: Instant) -> Result<(), String> {
        let all = self.ears.iter().flat_map(|(client, ears)| ears.topics.iter().map(move |of| (*client, of)));
        all.into_iter()
            .try_for_each(|(client, (topic, heard))| self.check_complete(client, topic, heard, now))
    }

    /// The faults are over: every subscriber has received all messages from `first` on.
    pub(crate) fn check_farewell(&mut self, first: usize) -> Result<(), String> {
        self.disturbed_at.fill(Instant::NEVER);
        self.moved_at.clear();
        let Some(since) = self.messages.get(first).map(|message| message.sent_at) else { return Ok(()) };
        for heard in self.ears.values_mut().flat_map(|ears| ears.topics.values_mut()) {
            heard.since = heard.since.max(since - Duration::from_nanos(1));
        }
        self.check_all(Instant::NEVER)
    }
}

/// A message as it came.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    pub resp3: bool,
    pub topic: Topic,
    pub channel: &'a [u8],
    pub body: &'a [u8],
}

impl Received<'_> {
    /// `None` if `frame` is no message.
    pub(crate) fn read(frame: &[u8]) -> Option<Received<'_>> {
        let resp3 = frame.starts_with(b">");
        let mut fields = fields_of(frame)?.into_iter().filter_map(reply::as_bulk);
        let word = fields.next()?;
        let kinds = [Kind::Channel, Kind::Pattern, Kind::Shard];
        let kind = kinds.into_iter().find(|kind| kind.words()[2].as_bytes() == word)?;
        let pattern = if kind == Kind::Pattern { Some(fields.next()?) } else { None };
        let (channel, body) = (fields.next()?, fields.next()?);
        let topic = (kind, pattern.unwrap_or(channel).to_vec());
        Some(Received { resp3, topic, channel, body })
    }
}

/// The elements of an array or a push of a few.
pub(crate) fn fields_of(frame: &[u8]) -> Option<Vec<&[u8]>> {
    let header = frame.iter().position(|&byte| byte == b'\n')? + 1;
    let count: usize = match &frame[..header] {
        [b'*' | b'>', count @ b'0'..=b'9', b'\r', b'\n'] => usize::from(count - b'0'),
        _ => return None,
    };
    let (mut fields, mut rest) = (Vec::new(), &frame[header..]);
    for _ in 0..count {
        let (field, behind) = rest.split_at(reply::first_len(rest));
        fields.push(field);
        rest = behind;
    }
    Some(fields)
}

/// Whether `reply` says `word` of `name`.
fn confirms(reply: &[u8], resp3: bool, word: &str, name: Option<&[u8]>, count: Option<usize>) -> bool {
    let mut expected = if resp3 { b">3\r\n".to_vec() } else { b"*3\r\n".to_vec() };
    encode::bulk(&mut expected, word.as_bytes());
    match name {
        Some(name) => encode::bulk(&mut expected, name),
        None => encode::null(&mut expected, resp3),
    }
    match (count, reply.strip_prefix(expected.as_slice())) {
        (_, None) => false,
        (None, Some(rest)) => reply::as_integer(rest).is_some(),
        (Some(count), Some(rest)) => reply::as_integer(rest) == Some(count as i64),
    }
}

fn number_of(body: &[u8]) -> Option<usize> {
    let (number, _) = std::str::from_utf8(body.strip_prefix(b"m")?).ok()?.split_once('#')?;
    number.parse().ok()
}
