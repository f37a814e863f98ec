//! A simulated node: it reads requests, runs them, and answers. It can freeze, die, refuse and lie.

use crate::cluster::{Cluster, Verdict, keys_of, may_write};
use crate::keyspace::Keyspace;
use crate::ledger::Ledger;
use crate::replication::{Follower, Log, report, role};
use proxy::ConnId;
use resp::request::{Request, RequestLimits, Scanned, Scanner};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;
use store::{CallerId, Ran};
use topology::ShardId;

/// One node.
pub(crate) struct Node {
    pub shard: ShardId,
    pub keyspace: Keyspace,
    /// Connections are refused.
    pub down: bool,
    /// Nothing is read until then.
    pub frozen_until: Instant,
    /// Until then every answer is that it is loading.
    pub loading_until: Instant,
    /// Connections are greeted with a refusal.
    pub full: bool,
    /// Time of the next check for waits that have ended.
    pub due_at: Option<Instant>,
    /// Changes of its keys, where there are replicas.
    pub log: Log,
    /// There are replicas.
    pub keeps_log: bool,
    /// Replication of a replica.
    pub follower: Option<Follower>,
    /// The node that it follows where no cluster decides that; `None` for an unknown one.
    pub follows: Option<usize>,
    /// Time since which it has declined all writes, and time of the last one.
    pub declines_since: Option<Instant>,
    /// See there.
    pub declined_at: Instant,
    /// Messages that it published and the cluster's other nodes do not have yet, with their channels.
    pub published: Vec<(Vec<u8>, Vec<u8>)>,
    /// Messages that other nodes published while it was frozen.
    pub overheard: Vec<(Vec<u8>, Vec<u8>)>,
    /// Connections that wait for its replicas.
    pub waiting: Vec<Waiting>,
    /// Deadline of the first wait, as it was scheduled last.
    wakes_at: Instant,
    /// Time at which its wire to the proxy is free for more.
    pub wire_free_at: Instant,
    conns: BTreeMap<ConnId, Input>,
}

/// One connection that waits for replicas.
#[derive(Debug)]
pub(crate) struct Waiting {
    conn: ConnId,
    /// The number of replicas that is enough.
    count: usize,
    /// The offset that replicas must have reached.
    offset: u64,
    until: Instant,
}

/// The action of a sabotaged node for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    Nothing,
    RunTwice,
    /// Sends the earlier reply to the same request.
    AnswerOlder,
}

/// The unprocessed bytes of one connection, and its state.
#[derive(Debug)]
struct Input {
    /// Its state in the store.
    caller: CallerId,
    /// Its last request has no answer yet.
    waits: bool,
    /// ASKING came before the next request; in a transaction it holds up to EXEC.
    asking: bool,
    /// READONLY was sent.
    reads: bool,
    /// The node has told it that it is no primary.
    has_denied: bool,
    /// Set if it began at a replica, and has not asked for its role.
    is_unasked: bool,
    /// MULTI was sent.
    in_transaction: bool,
    /// Its requests since MULTI, one after the other.
    queued: Vec<u8>,
    bytes: Vec<u8>,
    scanner: Scanner,
    /// Shard channels that it is subscribed to.
    channels: BTreeSet<Vec<u8>>,
    /// The node's offset when it last ran a request of this connection: up to Redis 7.0, any request.
    offset: u64,
}

impl Node {
    /// `remembers`: see [`Keyspace::new`].
    pub(crate) fn new(shard: ShardId, remembers: bool) -> Node {
        let (keyspace, conns) = (Keyspace::new(remembers), BTreeMap::new());
        let (frozen_until, loading_until) = (Instant::ZERO, Instant::ZERO);
        Node {
            shard,
            keyspace,
            down: false,
            frozen_until,
            loading_until,
            full: false,
            due_at: None,
            log: Log::new(0, 0),
            keeps_log: false,
            follower: None,
            follows: None,
            declines_since: None,
            declined_at: Instant::ZERO,
            published: Vec::new(),
            overheard: Vec::new(),
            waiting: Vec::new(),
            wakes_at: Instant::NEVER,
            wire_free_at: Instant::ZERO,
            conns,
        }
    }

    /// Bytes came over `conn`; they are read by [`Node::run`].
    pub(crate) fn receive(&mut self, conn: ConnId, bytes: &[u8]) {
        let (keyspace, is_unasked) = (&mut self.keyspace, self.follower.is_some());
        let input = self.conns.entry(conn).or_insert_with(|| Input {
            caller: keyspace.admit(),
            waits: false,
            asking: false,
            reads: false,
            has_denied: false,
            is_unasked,
            in_transaction: false,
            queued: Vec::new(),
            bytes: Vec::new(),
            scanner: Scanner::default(),
            channels: BTreeSet::new(),
            offset: 0,
        });
        input.bytes.extend_from_slice(bytes);
    }

    /// Runs the complete requests of `conn` and returns the replies. `cluster` has the node's cluster and its number there.
    pub(crate) fn run(
        &mut self,
        conn: ConnId,
        now: Instant,
        sabotage: Sabotage,
        cluster: Option<(&Cluster, usize)>,
        ledger: &mut Ledger,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let Some(mut input) = self.conns.remove(&conn) else { return out };
        let mut bytes = std::mem::take(&mut input.bytes);
        let (mut args, mut inline) = (Vec::new(), Vec::new());
        let limits = RequestLimits::default();
        let mut at = 0;
        while !input.waits {
            match input.scanner.scan(&bytes[at..], &limits, &mut args, &mut inline) {
                Ok(Scanned::Request { len }) => {
                    let request = Request::new(&bytes[at..at + len], &args);
                    ledger.check_not_demoted(&request);
                    match self.answer_itself(&mut input, &request, now, cluster, ledger) {
                        Some(reply) => out.extend(reply),
                        None if self.keeps_log && request.arg(0).eq_ignore_ascii_case(b"wait") => {
                            input.waits = true;
                            self.waiting.push(Waiting::of(conn, &request, input.offset, now));
                        }
                        None => self.carry_out(&mut input, &request, now, sabotage, ledger, &mut out),
                    }
                    at += len;
                }
                Ok(Scanned::Incomplete) => break,
                other => {
                    ledger.violate(format!("a node was sent what is no request of the proxy's: {other:?}"));
                    break;
                }
            }
        }
        bytes.drain(..at);
        input.bytes = bytes;
        self.conns.insert(conn, input);
        out
    }

    /// The reply to a request about the node itself, or to one that it declines; `None` if it carries `request` out.
    fn answer_itself(
        &mut self,
        input: &mut Input,
        request: &Request<'_>,
        now: Instant,
        cluster: Option<(&Cluster, usize)>,
        ledger: &mut Ledger,
    ) -> Option<Vec<u8>> {
        let is_of_keys = !keys_of(request).is_empty();
        if request.arg(0).eq_ignore_ascii_case(b"role") {
            input.is_unasked = false;
            input.has_denied |= self.follower.is_some();
            return Some(role(self.follows, self.follower.as_ref(), self.log.offset()));
        }
        if input.has_denied && is_of_keys {
            ledger.violate("a node has said that it is no primary, and is sent requests".to_owned());
            return Some(READ_ONLY.to_vec());
        }
        if input.is_unasked && is_of_keys && self.follower.is_some() && ledger.wants_primaries {
            ledger.violate("a node that is no primary was not asked, and is sent requests".to_owned());
        }
        if asks_for_replication(request) {
            // A replaced node that does not know of it reports its old role.
            let follower = self.follower.as_ref().filter(|_| !believes_to_be_primary(cluster));
            return Some(report(&self.log, follower, now < self.loading_until));
        }
        if now < self.loading_until && !is_about_transactions(request) {
            // As in Redis, it spoils a transaction.
            self.keyspace.refuse(input.caller, now);
            return Some(b"-LOADING Redis is loading the dataset in memory\r\n".to_vec());
        }
        match request.arg(0) {
            b"ASKING" => input.asking = true,
            b"READONLY" => input.reads = true,
            _ if cluster.is_none() && self.follower.is_some() && may_write(request) => {
                self.keyspace.refuse(input.caller, now);
                self.declines_since.get_or_insert(now);
                self.declined_at = now;
                return Some(READ_ONLY.to_vec());
            }
            _ => {
                let is_wait = self.keeps_log && request.arg(0).eq_ignore_ascii_case(b"wait");
                let declined = decline(input, &mut self.keyspace, request, cluster, now, ledger);
                return declined.or_else(|| (is_wait && self.follower.is_some()).then(|| NO_WAIT.to_vec()));
            }
        }
        Some(b"+OK\r\n".to_vec())
    }

    /// Carries out an accepted request and records its changes.
    fn carry_out(
        &mut self,
        input: &mut Input,
        request: &Request<'_>,
        now: Instant,
        sabotage: Sabotage,
        ledger: &mut Ledger,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        if self.follower.is_some() && !keys_of(request).is_empty() {
            ledger.check_fit();
        }
        let ran = self.keyspace.run(input.caller, request, self.shard, now, ledger, out);
        input.waits = ran == Ran::Waits;
        if self.follower.is_none() && self.keeps_log {
            self.log.note_run(request, &input.queued, &mut self.keyspace, now);
        }
        input.offset = self.log.offset();
        note_run(&mut input.queued, request, &out[start..], ledger);
        note_channels(&mut input.channels, &mut self.published, request);
        if sabotage == Sabotage::RunTwice {
            let twin = self.keyspace.admit();
            let twice = &mut Vec::new();
            self.keyspace.run(twin, request, self.shard, now, ledger, twice);
            note_run(&mut Vec::new(), request, twice, ledger);
            self.keyspace.dismiss(twin);
        }
        let older = self.keyspace.older_reply(request, &out[start..]);
        if let (Sabotage::AnswerOlder, Some(older)) = (sabotage, older) {
            out.truncate(start);
            out.extend(older);
        }
    }

    /// Takes the next bytes for another connection than the one that asked, and whether that connection runs its next requests.
    pub(crate) fn next_delivery(&mut self) -> Option<(ConnId, Vec<u8>, bool)> {
        loop {
            let delivery = self.keyspace.next_delivery()?;
            // A saboteur's twin may have subscribed.
            let of_it = self.conns.iter_mut().find(|(_, input)| input.caller == delivery.to);
            let Some((conn, input)) = of_it else { continue };
            input.waits &= !delivery.ends_wait;
            return Some((*conn, delivery.bytes, delivery.ends_wait));
        }
    }

    /// Takes a connection whose wait for replicas has ended, and the number of replicas that have its writes. `offsets` has the
    /// offset of each replica.
    pub(crate) fn next_acknowledged(&mut self, offsets: &[u64], now: Instant) -> Option<(ConnId, usize)> {
        let count = |waiting: &Waiting| offsets.iter().filter(|offset| **offset >= waiting.offset).count();
        let is_done = |waiting: &Waiting| count(waiting) >= waiting.count || waiting.until <= now;
        let done = self.waiting.remove(self.waiting.iter().position(is_done)?);
        if let Some(input) = self.conns.get_mut(&done.conn) {
            input.waits = false;
        }
        Some((done.conn, count(&done)))
    }

    /// Time at which the next wait for replicas ends, if it is not scheduled yet.
    pub(crate) fn wakes_at(&mut self) -> Option<Instant> {
        let first = self.waiting.iter().map(|waiting| waiting.until).min()?;
        (std::mem::replace(&mut self.wakes_at, first) != first).then_some(first)
    }

    /// The slot of `channel` has left: its subscribers get the end of their subscriptions. Returns the bytes for each
    /// connection.
    pub(crate) fn drop_channel(&mut self, channel: &[u8], now: Instant) -> Vec<(ConnId, Vec<u8>)> {
        let subscribers = self.conns.iter_mut().filter(|(_, input)| input.channels.contains(channel));
        let told = subscribers.map(|(conn, input)| {
            input.channels.remove(channel);
            (*conn, self.keyspace.ask_as(input.caller, &[b"SUNSUBSCRIBE", channel], now))
        });
        told.collect()
    }

    /// A fellow of its cluster has published something.
    pub(crate) fn hear(&mut self, (channel, message): (Vec<u8>, Vec<u8>), now: Instant) {
        if self.frozen_until > now {
            return self.overheard.push((channel, message));
        }
        if !self.down {
            self.keyspace.ask(&[b"PUBLISH", &channel, &message], now);
        }
    }

    /// The connections that have something to run.
    pub(crate) fn busy_conns(&self) -> Vec<ConnId> {
        self.conns.iter().filter(|(_, input)| !input.bytes.is_empty()).map(|(conn, _)| *conn).collect()
    }

    /// The connections that wait for an element or for replicas.
    pub(crate) fn waiting_conns(&self) -> Vec<ConnId> {
        self.conns.iter().filter(|(_, input)| input.waits).map(|(conn, _)| *conn).collect()
    }

    /// Forgets what `conn` sent.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.waiting.retain(|waiting| waiting.conn != conn);
        if let Some(input) = self.conns.remove(&conn) {
            self.keyspace.dismiss(input.caller);
        }
    }

    /// The process dies: requests that have not run never will.
    pub(crate) fn die(&mut self) {
        let conns = std::mem::take(&mut self.conns);
        self.overheard.clear();
        self.waiting.clear();
        self.keyspace.scripts.forget();
        conns.into_values().for_each(|input| self.keyspace.dismiss(input.caller));
    }
}

/// Writes a cluster node's reply to `request` whose keys it does not have. The transaction of the request is broken.
fn decline(
    input: &mut Input,
    keyspace: &mut Keyspace,
    request: &Request<'_>,
    cluster: Option<(&Cluster, usize)>,
    now: Instant,
    ledger: &mut Ledger,
) -> Option<Vec<u8>> {
    let (cluster, node) = cluster?;
    let is = |word: &str| request.arg(0).eq_ignore_ascii_case(word.as_bytes());
    let has = |key: &[u8]| keyspace.ask(&[b"EXISTS", key], now) == b":1\r\n";
    let verdict = cluster.judge(node, request, &input.queued, (input.asking, input.reads), ledger, has);
    let ends = is("exec") || is("discard");
    input.in_transaction = (input.in_transaction || is("multi")) && !ends;
    input.asking &= input.in_transaction;
    let Verdict::Decline(line) = verdict else { return None };
    match ends {
        true => keyspace.discard(input.caller, now),
        false => keyspace.refuse(input.caller, now),
    }
    if ends {
        input.queued.clear();
    }
    Some(line)
}

impl Waiting {
    /// The wait of `request`, a WAIT.
    fn of(conn: ConnId, request: &Request<'_>, offset: u64, now: Instant) -> Waiting {
        let number = |at: usize| std::str::from_utf8(request.arg(at)).ok().and_then(|text| text.parse().ok());
        let patience = Duration::from_millis(number(2).unwrap_or_default());
        Waiting { conn, count: number(1).unwrap_or_default() as usize, offset, until: now + patience }
    }
}

fn believes_to_be_primary(cluster: Option<(&Cluster, usize)>) -> bool {
    cluster.is_some_and(|(cluster, node)| cluster.believes_to_be_primary(node))
}

const NO_WAIT: &[u8] = b"-ERR WAIT cannot be used with replica instances.\r\n";
const READ_ONLY: &[u8] = b"-READONLY You can't write against a read only replica.\r\n";

fn asks_for_replication(request: &Request<'_>) -> bool {
    let words = [request.arg(0), request.get(1).unwrap_or_default()];
    words[0].eq_ignore_ascii_case(b"info") && words[1].eq_ignore_ascii_case(b"replication")
}

/// Whether a node that is loading carries `request` out.
fn is_about_transactions(request: &Request<'_>) -> bool {
    let names = ["multi", "exec", "discard", "watch", "unwatch"];
    names.iter().any(|name| request.arg(0).eq_ignore_ascii_case(name.as_bytes()))
}

/// Records subscriptions and messages of `request`, which has run.
fn note_channels(
    channels: &mut BTreeSet<Vec<u8>>,
    published: &mut Vec<(Vec<u8>, Vec<u8>)>,
    request: &Request<'_>,
) {
    let names = request.args().skip(1).map(<[u8]>::to_vec);
    match request.arg(0).to_ascii_lowercase().as_slice() {
        b"ssubscribe" => channels.extend(names),
        b"sunsubscribe" => names.for_each(|name| _ = channels.remove(&name)),
        b"publish" => published.push((request.arg(1).to_vec(), request.arg(2).to_vec())),
        _ => {}
    }
}

/// Records in the ledger that requests ran, now that `request` got `reply`: itself, or those `queued` since MULTI.
fn note_run(queued: &mut Vec<u8>, request: &Request<'_>, reply: &[u8], ledger: &mut Ledger) {
    if reply == b"+QUEUED\r\n" {
        return queued.extend_from_slice(request.bytes);
    }
    if !is_about_transactions(request) {
        if !resp::reply::is_error(reply) {
            ledger.note_run(request);
        }
        return;
    }
    let (bytes, mut at) = (std::mem::take(queued), 0);
    let (mut scanner, mut args, mut inline) = (Scanner::default(), Vec::new(), Vec::new());
    if !request.arg(0).eq_ignore_ascii_case(b"exec") || !reply.starts_with(b"*") || reply == b"*-1\r\n" {
        return;
    }
    while let Ok(Scanned::Request { len }) =
        scanner.scan(&bytes[at..], &RequestLimits::default(), &mut args, &mut inline)
    {
        ledger.note_run(&Request::new(&bytes[at..at + len], &args));
        at += len;
    }
}
