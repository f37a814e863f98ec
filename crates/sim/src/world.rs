//! One world: events in the order of their time, the proxy's own loop, and the checks.

mod resharding;

use crate::client::{Client, Moment, Tally};
use crate::cluster::{Cluster, node_at};
use crate::keyspace::unix_ms;
use crate::ledger::{Ledger, Told};
use crate::network::Pipe;
use crate::node::{Node, Sabotage};
use crate::plan::{Fault, Plan};
use crate::program::{Expect, LASTING_KEYS, Program, lasting_key, lasting_value};
use crate::tenants::Rights;
use proxy::{Action, Arrival, Board, CloseReason, ConnId, CrossShard, Event, Notice, Proxy, Settings};
use resp::reply;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Prng};
use topology::{ShardId, Topology};
use users::Registry;

/// A fault between nodes and proxy that the checker must notice: what the checks are checked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saboteur {
    /// Two replies change places.
    Swap,
    /// A reply does not arrive.
    Drop,
    /// A reply arrives twice.
    Duplicate,
    /// A request runs twice.
    RunTwice,
    /// One byte of a value is another.
    Corrupt,
    /// A node answers with what it answered to the same request before.
    AnswerOlder,
    /// A node loses what it acknowledged.
    Forget,
}

/// What a world was like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests that clients sent.
    pub requests: u64,
    /// What clients got.
    pub tally: Tally,
    /// Parts of split requests.
    pub fragments: u64,
    /// Requests whose time was up.
    pub timeouts: u64,
    /// Requests that nodes declined and that the proxy sent elsewhere, or again.
    pub redirects: u64,
    /// Replies that the model knew, byte for byte.
    pub judged: u64,
    /// Replies to requests for keys of which too little was known after a fault.
    pub unjudged: u64,
    /// Commands over several shards that were carried out.
    pub emulations: u64,
    /// Messages that listeners heard.
    pub messages: u64,
    /// Values that clients kept, and of these, such as were dropped since the client was told of them.
    pub kept: u64,
    /// See there.
    pub dropped: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Events that happened.
    pub events: u64,
    /// Over all events in their order: two runs of one seed have the same.
    pub fingerprint: u64,
}

/// The checks found a contradiction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which world.
    pub seed: u64,
    /// When, in microseconds of its time.
    pub at_us: u64,
    /// What.
    pub what: String,
}

/// Runs the world of `plan` to its end. With `trace`, tells every event on stdout.
pub fn run(plan: &Plan, saboteur: Option<Saboteur>, trace: bool) -> Result<Report, Violation> {
    let mut world = World::new(plan, saboteur, trace);
    let outcome = world.run();
    let at_us = world.now.as_nanos() / 1000;
    let violation = outcome.err().or_else(|| world.ledger.violation.take());
    match violation {
        Some(what) => Err(Violation { seed: plan.seed, at_us, what }),
        None => Ok(world.report()),
    }
}

/// What is planned for a later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A client does something.
    Step(usize),
    /// Bytes arrive at the proxy.
    ToProxy(ConnId),
    /// Bytes arrive at the client or node.
    ToPeer(ConnId),
    /// The proxy may send again.
    Writable(ConnId),
    /// An attempt to connect ends.
    Connect(ConnId),
    /// A node runs what it was sent.
    Run(ConnId),
    /// The plan's fault of this number strikes.
    Strike(usize),
    /// A node goes on after it was frozen.
    Thaw(usize),
    /// A node comes back.
    Revive(usize),
    /// On a node somebody may have waited long enough.
    Due(usize),
    /// The next key of a slot that is on its way moves.
    MoveKey,
    /// The proxy is told who owns which slot now.
    Map,
    /// The proxy is told to drain.
    Drain,
    /// What clients keep is compared with what is stored.
    Compare,
    /// Somebody's rights change.
    ChangeUsers,
}

/// Who is at the other end of a connection of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Client(usize),
    Node(usize),
}

/// One connection of the proxy.
#[derive(Debug)]
pub(crate) struct Link {
    who: Who,
    pub to_proxy: Pipe,
    to_peer: Pipe,
    connected: bool,
    /// The proxy does not read.
    paused: bool,
    /// The proxy was told that its bytes did not all fit.
    wants_writable: bool,
    /// The proxy has closed it; what it sent before still arrives.
    closed_by_proxy: bool,
    /// The other side is gone: what is sent to it is lost.
    dead: bool,
    /// The end that the proxy is told is a reset.
    reset: bool,
}

/// All there is.
pub(crate) struct World<'p> {
    pub plan: &'p Plan,
    /// As the world began.
    pub topology: Arc<Topology>,
    /// The truth about the nodes, if they are a cluster, and what the proxy knows of it.
    pub cluster: Option<Cluster>,
    known: Arc<Topology>,
    pub proxy: Proxy,
    prng: Prng,
    pub now: Instant,
    agenda: BinaryHeap<Reverse<(Instant, u64, What)>>,
    planned: u64,
    pub links: BTreeMap<ConnId, Link>,
    pub clients: Vec<Client>,
    pub nodes: Vec<Node>,
    pub ledger: Ledger,
    registry: Arc<Registry>,
    saboteur: Option<Saboteur>,
    trace: bool,
    /// Something has gone wrong by now, or a drain has begun: errors of the contract are allowed.
    troubled: bool,
    report: Report,
    /// Clients that the proxy has taken, those that have gone counted as well: it numbers them so.
    admitted: u64,
}

/// What the kernel takes before a send comes back short.
const PIPE_BYTES: usize = 64 * 1024;
/// Rights change once within this time.
const CHANGE_USERS_WITHIN: Duration = Duration::from_millis(500);
/// How often it is looked at what clients keep.
const COMPARE_EVERY: Duration = Duration::from_millis(200);
/// No fault lasts so long that a client is not told for so long.
const TROUBLE_MAX: Duration = Duration::from_secs(6);
/// Faults are over, and clients begin nothing new: after this everybody must have all replies.
const SETTLE: Duration = Duration::from_secs(20);

impl<'p> World<'p> {
    fn new(plan: &'p Plan, saboteur: Option<Saboteur>, trace: bool) -> World<'p> {
        let topology = Arc::new(plan.topology());
        let mut prng = Prng::new(plan.seed ^ 0x5eed);
        let (unix_epoch_us, cross_shard) = (unix_ms(Instant::ZERO) * 1000, plan.cross_shard);
        let rights = if plan.has_users { Rights::draw(plan.clients, &mut prng) } else { Rights::default() };
        let registry = if plan.has_users { rights.registry() } else { Arc::default() };
        let settings = Settings {
            seed: prng.next_u64(),
            unix_epoch_us,
            cross_shard,
            registry: Arc::clone(&registry),
            ..Settings::default()
        };
        let board = Arc::new(Board::new(1));
        let now = Instant::ZERO;
        let proxy = Proxy::new(plan.limits.clone(), settings, Arc::clone(&topology), board, now);
        let filling_max = *prng.pick(&[100, 5_000, 100_000]);
        let mut ledger = Ledger::new(Arc::clone(&topology));
        (0..LASTING_KEYS).for_each(|number| ledger.name(lasting_key(number)));
        let clients = (0..plan.clients)
            .map(|client| Program::new(client, plan.clients, filling_max, &mut ledger))
            .map(|program| Client::new(program.with_role(plan.is_calm(), &rights, &mut prng)))
            .collect();
        ledger.rights = rights;
        if !plan.is_fast() {
            ledger.radio.disturb_all();
        }
        ledger.model.carries_across = plan.cross_shard == CrossShard::Emulate;
        ledger.radio.is_bounded = plan.has_few_subscriptions();
        let remembers = saboteur == Some(Saboteur::AnswerOlder);
        let cluster = plan.is_cluster.then(|| Cluster::new(plan.shards));
        let count = cluster.as_ref().map_or(plan.shards, Cluster::nodes);
        let mut nodes: Vec<Node> =
            (0..count as u32).map(|shard| Node::new(ShardId(shard), remembers)).collect();
        nodes.iter_mut().for_each(|node| load(node, &topology, now));
        World {
            plan,
            ledger,
            known: Arc::clone(&topology),
            topology,
            cluster,
            proxy,
            prng,
            now,
            agenda: BinaryHeap::new(),
            planned: 0,
            links: BTreeMap::new(),
            clients,
            nodes,
            registry,
            saboteur,
            trace,
            // A slow network with large values is trouble enough for a request's time to be up.
            troubled: !plan.is_fast(),
            report: Report::default(),
            admitted: 0,
        }
    }

    fn report(&self) -> Report {
        let counters = self.proxy.counters();
        Report {
            fragments: counters.fragments,
            timeouts: counters.timeouts,
            redirects: counters.redirects,
            judged: self.ledger.model.judged,
            unjudged: self.ledger.model.unjudged,
            emulations: counters.emulations,
            messages: counters.messages,
            kept: self.ledger.caches.kept,
            dropped: self.ledger.caches.dropped,
            ..self.report
        }
    }

    /// Lives through all of it and then looks whether everything is as it should be.
    fn run(&mut self) -> Result<(), String> {
        for number in 0..self.plan.faults.len() {
            self.plan_at(self.plan.faults[number].0, What::Strike(number));
        }
        if let Some(at) = self.plan.drain_at {
            self.plan_at(at, What::Drain);
        }
        for client in 0..self.clients.len() {
            self.plan_in_up_to(Duration::from_millis(20), What::Step(client));
        }
        self.plan_at(self.now + COMPARE_EVERY, What::Compare);
        if self.plan.has_users {
            self.plan_in_up_to(CHANGE_USERS_WITHIN, What::ChangeUsers);
        }
        let last_fault = self.plan.faults.last().map_or(Instant::ZERO, |(at, _)| *at);
        let end = self.plan.quiet_at.max(last_fault) + SETTLE;
        self.turn_until(end - SETTLE / 2)?;
        self.settle_cluster();
        self.turn_until(end)?;
        self.check_nobody_waits()?;
        self.audit()
    }

    /// Turns until `end`, or until a check fails.
    pub(crate) fn turn_until(&mut self, end: Instant) -> Result<(), String> {
        loop {
            let next = self.agenda.peek().map_or(Instant::NEVER, |Reverse((at, _, _))| *at);
            let at = next.min(self.proxy.poll_deadline());
            if at > end {
                self.now = end;
                return Ok(());
            }
            self.now = self.now.max(at);
            self.turn();
            if let Some(what) = self.ledger.violation.take() {
                return Err(what);
            }
        }
    }

    /// The loop of a worker: what happened, what it is time for, what to do. Sometimes several things happen in one
    /// turn.
    fn turn(&mut self) {
        let burst = *self.prng.pick(&[1, 1, 1, 2, 5, 20]);
        let until = self.now + Duration::from_micros(if burst > 1 { 200 } else { 0 });
        for _ in 0..burst {
            let Some(&Reverse((at, _, what))) = self.agenda.peek() else { break };
            if at > until {
                break;
            }
            self.agenda.pop();
            self.now = self.now.max(at);
            self.happen(what);
        }
        if self.proxy.poll_deadline() <= self.now {
            self.proxy.handle_timeouts(self.now);
        }
        self.perform();
        if self.proxy.poll_wish(self.now).is_some() {
            self.plan_in_up_to(resharding::MAP_DELAY_MAX, What::Map);
        }
        while let Some(notice) = self.proxy.poll_notice() {
            let Notice::ClientClosed { client: number, reason, .. } = notice else { continue };
            let has_cause = match reason {
                CloseReason::HalfReply => self.troubled,
                CloseReason::MemoryLimit => self.plan.is_short_of_memory(),
                CloseReason::SlowSubscriber => self.plan.has_little_patience(),
                _ => continue,
            };
            if let Some(client) = self.clients.iter_mut().find(|client| client.number == number) {
                client.is_closed = true;
            }
            if !has_cause {
                self.ledger.violate(format!("a client was closed without a cause: {reason:?}"));
            }
        }
    }

    /// Does what the proxy asks for.
    fn perform(&mut self) {
        while let Some(action) = self.proxy.poll_action() {
            match action {
                Action::Send { conn, bytes } => {
                    let Some(link) = self.links.get_mut(&conn) else { continue };
                    if link.to_peer.ended {
                        self.ledger.violate("the proxy sends behind its own end".to_owned());
                    }
                    let taken = if link.dead { bytes.len() } else { link.to_peer.put(bytes) };
                    link.wants_writable = taken < bytes.len();
                    self.proxy.handle_sent(conn, taken);
                    self.note(1, conn, taken);
                    self.plan_delivery_to_peer(conn);
                }
                Action::Connect { conn, node } => {
                    self.links
                        .insert(conn, Link::new(Who::Node(node_at(&self.known.node(node).address)), false));
                    self.plan_in_up_to(self.plan.delay_max, What::Connect(conn));
                }
                Action::Pause { conn } => self.with_link(conn, |link| link.paused = true),
                Action::Resume { conn } => {
                    self.with_link(conn, |link| link.paused = false);
                    self.plan_delivery_to_proxy(conn);
                }
                Action::Finish { conn } => {
                    self.with_link(conn, |link| link.to_peer.ended = true);
                    self.plan_delivery_to_peer(conn);
                }
                Action::Close { conn } => {
                    self.note(2, conn, 0);
                    self.with_link(conn, |link| {
                        link.closed_by_proxy = true;
                        link.to_peer.ended = true;
                    });
                    self.plan_delivery_to_peer(conn);
                }
            }
        }
    }

    pub(crate) fn with_link(&mut self, conn: ConnId, change: impl FnOnce(&mut Link)) {
        if let Some(link) = self.links.get_mut(&conn) {
            change(link);
        }
    }

    /// Something planned happens.
    fn happen(&mut self, what: What) {
        self.report.events += 1;
        match what {
            What::Step(client) => self.step(client),
            What::ToProxy(conn) => self.deliver_to_proxy(conn),
            What::ToPeer(conn) => self.deliver_to_peer(conn),
            What::Writable(conn) => {
                if self.links.get(&conn).is_some_and(|link| !link.closed_by_proxy) {
                    self.proxy.handle_event(Event::Writable { conn }, self.now);
                }
            }
            What::Connect(conn) => self.finish_connect(conn),
            What::Run(conn) => self.run_node(conn),
            What::Strike(number) => self.strike(self.plan.faults[number].1),
            What::Thaw(node) => {
                let mut conns = self.nodes[node].busy_conns();
                if self.prng.one_in(2) {
                    conns.reverse();
                }
                conns.into_iter().for_each(|conn| self.run_on_node(node, conn));
            }
            What::Revive(node) => {
                self.nodes[node].down = false;
                self.nodes[node].full = false;
            }
            What::Due(node) => self.end_waits(node),
            What::Compare => self.compare(),
            What::ChangeUsers => {
                let users = self.ledger.rights.change(&self.registry, self.now, &mut self.prng);
                self.proxy.handle_users(&users, self.now);
                if self.now < self.plan.quiet_at {
                    self.plan_in_up_to(CHANGE_USERS_WITHIN, What::ChangeUsers);
                }
            }
            What::MoveKey => _ = self.move_key(),
            What::Map => self.tell_map(),
            What::Drain => {
                self.troubled = true;
                self.proxy.drain(self.now);
            }
        }
    }

    /// What clients keep is soon what is stored, though something may go wrong for some time.
    fn compare(&mut self) {
        if self.now >= self.plan.quiet_at {
            return;
        }
        self.plan_at(self.now + COMPARE_EVERY, What::Compare);
        let patience = if self.troubled { TROUBLE_MAX } else { 2 * COMPARE_EVERY };
        if let Err(what) = self.check_caches(patience) {
            self.ledger.violate(what);
        }
    }

    /// Nothing that a client keeps has been another than what is stored for `patience`.
    pub(crate) fn check_caches(&mut self, patience: Duration) -> Result<(), String> {
        let World { clients, nodes, ledger, topology, links, now, .. } = self;
        let is_behind = |client: usize| {
            let Some(client) = clients.get(client) else { return false };
            let link = client.conn.and_then(|conn| links.get(&conn));
            client.reads_at > *now || link.is_none_or(|link| !link.to_peer.is_empty())
        };
        let is_writing =
            |client: usize, key: &[u8]| clients.get(client).is_some_and(|client| client.is_writing(key));
        ledger.caches.check(*now, patience, is_behind, is_writing, |key| {
            let shard = topology.shard_of(key);
            let reply = nodes[shard.0 as usize].keyspace.ask(&[b"GET", key], *now);
            reply::as_bulk(&reply).map(<[u8]>::to_vec)
        })
    }

    // What clients do.

    /// A client connects, sends, or leaves, and plans its next step.
    fn step(&mut self, client: usize) {
        if self.now >= self.plan.quiet_at {
            return;
        }
        let pause = Duration::from_micros(*self.prng.pick(&[0, 100, 3_000, 50_000, 400_000]));
        match self.clients[client].conn {
            None => _ = self.arrive(client),
            Some(_) if self.clients[client].ending => {}
            // It waits for what it has asked for, most of the time.
            Some(_) if self.clients[client].waiting() > 300 => {}
            Some(conn) => self.send_requests(client, conn),
        }
        self.plan_in_up_to(pause + Duration::from_micros(10), What::Step(client));
    }

    /// The client connects. False if it was not let in.
    pub(crate) fn arrive(&mut self, client: usize) -> bool {
        let Ok(conn) = self.proxy.accept(&Arrival::of("simulated"), self.now) else { return false };
        self.admitted += 1;
        self.links.insert(conn, Link::new(Who::Client(client), true));
        self.clients[client].arrive(conn, self.admitted);
        self.note(3, conn, client);
        true
    }

    /// Sends a pipeline, and sometimes ends the connection in one of the ways that clients know.
    fn send_requests(&mut self, client: usize, conn: ConnId) {
        let count = match self.prng.below(10) {
            0 => 1 + self.prng.below(200),
            1..=4 => 1 + self.prng.below(10),
            _ => 1,
        };
        let mut bytes = Vec::new();
        for _ in 0..count {
            let client = &mut self.clients[client];
            let sent = client.program.next(self.now, &mut self.prng, &mut self.ledger);
            tell(self.trace, "sends", client.program.client, &sent.bytes);
            bytes.extend_from_slice(&sent.bytes);
            if let Some(expect) = sent.expect {
                client.expect(expect);
                self.report.requests += 1;
            }
        }
        match self.prng.below(60) {
            0 => self.end_with(client, &mut bytes, b"*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n", b"+OK\r\n"),
            1 => self.end_with(
                client,
                &mut bytes,
                b"*1\r\n$4\r\nPINGXX",
                b"-ERR Protocol error: expected CRLF\r\n",
            ),
            2 => self.end_with(
                client,
                &mut bytes,
                b"*1\r\n:1\r\n",
                b"-ERR Protocol error: expected '$', got ':'\r\n",
            ),
            3 => {
                self.clients[client].ending = true;
                self.with_link(conn, |link| link.to_proxy.ended = true);
            }
            4 => return self.vanish(client, conn, &bytes),
            5 | 6 => {
                let sleeps = Duration::from_millis(self.prng.below(3000));
                self.clients[client].reads_at = self.now + sleeps;
            }
            _ => {}
        }
        self.with_link(conn, |link| link.to_proxy.put_all(&bytes));
        self.note(4, conn, bytes.len());
        self.plan_delivery_to_proxy(conn);
    }

    /// The last request of a connection, after which nothing more is answered.
    fn end_with(&mut self, client: usize, bytes: &mut Vec<u8>, last: &[u8], reply: &[u8]) {
        bytes.extend_from_slice(last);
        self.report.requests += 1;
        self.clients[client].expect(Expect::Exactly(reply.to_vec()));
        self.clients[client].ending = true;
    }

    /// The client is gone at once; a piece of what it sent may arrive before its reset.
    fn vanish(&mut self, client: usize, conn: ConnId, bytes: &[u8]) {
        let piece = self.prng.below(bytes.len() as u64 + 1) as usize;
        self.with_link(conn, |link| {
            link.to_proxy.put_all(&bytes[..piece]);
            link.to_proxy.ended = true;
            link.reset = true;
            link.dead = true;
        });
        self.clients[client].disconnect(Told::Unknown, &mut self.ledger);
        self.plan_delivery_to_proxy(conn);
    }

    // What the network does.

    fn plan_at(&mut self, at: Instant, what: What) {
        self.planned += 1;
        self.agenda.push(Reverse((at, self.planned, what)));
    }

    fn plan_in_up_to(&mut self, delay_max: Duration, what: What) {
        let delay = Duration::from_nanos(self.prng.below(delay_max.as_nanos() as u64 + 1));
        self.plan_at(self.now + delay, what);
    }

    pub(crate) fn plan_delivery_to_proxy(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        let something = !link.to_proxy.is_empty() || link.to_proxy.ended && !link.to_proxy.end_told;
        if something && !link.to_proxy.planned && !link.paused && link.connected && !link.closed_by_proxy {
            link.to_proxy.planned = true;
            self.plan_in_up_to(self.plan.delay_max, What::ToProxy(conn));
        }
    }

    fn plan_delivery_to_peer(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        let something = !link.to_peer.is_empty() || link.to_peer.ended && !link.to_peer.end_told;
        if something && !link.to_peer.planned {
            link.to_peer.planned = true;
            self.plan_in_up_to(self.plan.delay_max, What::ToPeer(conn));
        }
    }

    /// A piece arrives at the proxy, or the end behind the last one.
    fn deliver_to_proxy(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        link.to_proxy.planned = false;
        if link.paused || link.closed_by_proxy {
            return;
        }
        if link.to_proxy.is_empty() {
            if link.to_proxy.ended && !link.to_proxy.end_told {
                link.to_proxy.end_told = true;
                let reset = link.reset;
                if reset {
                    self.links.remove(&conn);
                }
                self.note(5, conn, usize::from(reset));
                let reason = "connection reset by peer";
                let event = if reset { Event::Closed { conn, reason } } else { Event::Ended { conn } };
                self.proxy.handle_event(event, self.now);
            }
            return;
        }
        let bytes = link.to_proxy.take(&mut self.prng);
        self.note(6, conn, bytes.len());
        self.proxy.handle_event(Event::Received { conn, bytes: &bytes }, self.now);
        self.plan_delivery_to_proxy(conn);
    }

    /// A piece arrives at the client or node.
    fn deliver_to_peer(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        link.to_peer.planned = false;
        let who = link.who;
        if let Who::Client(client) = who
            && self.clients[client].reads_at > self.now
            && !link.dead
        {
            let at = self.clients[client].reads_at;
            link.to_peer.planned = true;
            return self.plan_at(at, What::ToPeer(conn));
        }
        if link.to_peer.is_empty() {
            if link.to_peer.ended && !link.to_peer.end_told {
                link.to_peer.end_told = true;
                self.tell_end_to_peer(conn, who);
            }
            return;
        }
        let bytes = link.to_peer.take(&mut self.prng);
        let dead = link.dead;
        if std::mem::take(&mut link.wants_writable) && !link.closed_by_proxy {
            self.plan_in_up_to(self.plan.delay_max, What::Writable(conn));
        }
        self.note(7, conn, bytes.len());
        match who {
            _ if dead => {}
            Who::Client(client) => {
                tell(self.trace, "gets", client, &bytes);
                let moment = Moment { now: self.now, troubled: self.troubled };
                self.clients[client].receive(&bytes, moment, &mut self.ledger, &mut self.report.tally);
            }
            Who::Node(node) => {
                self.nodes[node].receive(conn, &bytes);
                let slow = if self.prng.one_in(20) { 20 } else { 1 };
                self.plan_in_up_to(self.plan.delay_max * slow / 10, What::Run(conn));
            }
        }
        self.plan_delivery_to_peer(conn);
    }

    /// The client or node sees that the proxy will send no more.
    fn tell_end_to_peer(&mut self, conn: ConnId, who: Who) {
        let closed = self.links.get(&conn).is_some_and(|link| link.closed_by_proxy);
        match who {
            Who::Client(client) if self.clients[client].conn == Some(conn) => {
                let (ending, troubled) =
                    (self.clients[client].ending, self.plan.drain_at.is_some_and(|at| at <= self.now));
                // As in Redis, who will send no more does not go on waiting.
                let gave_up = ending && self.clients[client].waits_for_element();
                // What was behind that was not read, unless it was closed for another cause.
                let was_closed = self.clients[client].is_closed;
                let behind = if gave_up && !was_closed { Told::NotSent } else { Told::Unknown };
                let missing = self.clients[client].disconnect(behind, &mut self.ledger);
                if was_closed || troubled || gave_up {
                    // It was told in the only way that was left.
                } else if missing > 0 {
                    self.ledger.violate(format!("client {client} was closed and misses {missing} replies"));
                } else if !ending {
                    self.ledger.violate(format!("client {client} was closed for no reason"));
                }
                self.with_link(conn, |link| link.to_proxy.ended = true);
                self.plan_delivery_to_proxy(conn);
            }
            Who::Client(_) => {}
            Who::Node(node) => {
                self.run_on_node(node, conn);
                self.nodes[node].forget(conn);
            }
        }
        if closed {
            self.links.remove(&conn);
        }
    }

    // What nodes do.

    fn finish_connect(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        let Who::Node(node) = link.who else { return };
        if link.closed_by_proxy {
            self.links.remove(&conn);
            return;
        }
        if self.nodes[node].down {
            self.links.remove(&conn);
            return self.proxy.handle_event(Event::Closed { conn, reason: "connection refused" }, self.now);
        }
        link.connected = true;
        if self.nodes[node].full {
            link.to_proxy.put_all(b"-ERR max number of clients reached\r\n");
            link.to_proxy.ended = true;
        }
        self.proxy.handle_event(Event::Connected { conn }, self.now);
        self.plan_delivery_to_proxy(conn);
    }

    fn run_node(&mut self, conn: ConnId) {
        if let Some(&Link { who: Who::Node(node), .. }) = self.links.get(&conn) {
            self.run_on_node(node, conn);
        }
    }

    /// The node runs what `conn` sent and answers.
    fn run_on_node(&mut self, node: usize, conn: ConnId) {
        if self.nodes[node].frozen_until > self.now {
            return;
        }
        let sabotage = match self.saboteur {
            Some(Saboteur::RunTwice) if self.prng.one_in(20) => Sabotage::RunTwice,
            Some(Saboteur::AnswerOlder) if self.prng.one_in(20) => Sabotage::AnswerOlder,
            Some(Saboteur::Forget) if self.prng.one_in(400) => {
                self.nodes[node].keyspace.ask(&[b"FLUSHALL"], self.now);
                load(&mut self.nodes[node], &self.topology, self.now);
                Sabotage::Nothing
            }
            _ => Sabotage::Nothing,
        };
        let cluster = self.cluster.as_ref().map(|cluster| (cluster, node));
        let mut replies = self.nodes[node].run(conn, self.now, sabotage, cluster, &mut self.ledger);
        self.sabotage(&mut replies);
        let Some(link) = self.links.get_mut(&conn) else { return };
        if !link.dead && !link.to_proxy.ended {
            link.to_proxy.put_all(&replies);
            self.plan_delivery_to_proxy(conn);
        }
        self.deliver_from_node(node);
    }

    /// Sends what a request led to on other connections. Who waited goes on with its requests.
    fn deliver_from_node(&mut self, node: usize) {
        while let Some((conn, bytes, ends_wait)) = self.nodes[node].next_delivery() {
            let Some(link) = self.links.get_mut(&conn) else { continue };
            if !link.dead && !link.to_proxy.ended {
                link.to_proxy.put_all(&bytes);
                self.plan_delivery_to_proxy(conn);
            }
            if ends_wait {
                self.plan_in_up_to(self.plan.delay_max, What::Run(conn));
            }
        }
        let due_at = self.nodes[node].keyspace.next_deadline();
        if let Some(at) = due_at.filter(|_| due_at != self.nodes[node].due_at) {
            self.plan_at(at.max(self.now), What::Due(node));
        }
        self.nodes[node].due_at = due_at;
    }

    /// Answers those who have waited long enough, unless the node is frozen.
    fn end_waits(&mut self, node: usize) {
        let frozen_until = self.nodes[node].frozen_until;
        if frozen_until > self.now {
            return self.plan_at(frozen_until, What::Due(node));
        }
        self.nodes[node].keyspace.work(self.now);
        self.deliver_from_node(node);
    }

    /// Falsifies replies, to see whether anybody notices.
    fn sabotage(&mut self, replies: &mut Vec<u8>) {
        let Some(saboteur) = self.saboteur else { return };
        if !self.prng.one_in(20) {
            return;
        }
        let first = reply::first_len(replies);
        let second = if first > 0 { reply::first_len(&replies[first..]) } else { 0 };
        if first == 0 || replies.starts_with(b"+PONG") {
            return;
        }
        match saboteur {
            Saboteur::Swap => replies[..first + second].rotate_left(first),
            Saboteur::Drop => drop(replies.drain(..first)),
            Saboteur::Duplicate => {
                let copy = replies[..first].to_vec();
                replies.splice(..0, copy);
            }
            Saboteur::Corrupt => corrupt(&mut replies[..first]),
            // Strike in the node.
            Saboteur::RunTwice | Saboteur::AnswerOlder | Saboteur::Forget => {}
        }
    }

    fn strike(&mut self, fault: Fault) {
        self.troubled = true;
        self.ledger.radio.disturb(fault.shard(), self.now);
        self.report.faults += 1;
        if self.trace {
            println!("{:>12} us  {fault:?}", self.now.as_nanos() / 1000);
        }
        match fault {
            Fault::Freeze { shard, lasts } => {
                let node = shard as usize;
                self.nodes[node].frozen_until = self.now + lasts;
                self.plan_at(self.now + lasts, What::Thaw(node));
            }
            Fault::Kill { shard, lasts, loading, forgets } => {
                let node = shard as usize;
                self.nodes[node].down = true;
                self.nodes[node].loading_until = self.now + lasts + loading;
                self.nodes[node].die();
                self.reset_links(node);
                if forgets {
                    self.nodes[node].keyspace.ask(&[b"FLUSHALL"], self.now);
                    load(&mut self.nodes[node], &self.topology, self.now);
                    self.ledger.shard_lost(ShardId(shard), unix_ms(self.now));
                }
                self.plan_at(self.now + lasts, What::Revive(node));
            }
            Fault::Reset { shard } => self.reset_links(shard as usize),
            Fault::Garbage { shard } => {
                for conn in self.links_of(shard as usize) {
                    self.with_link(conn, |link| link.to_proxy.put_all(b"HTTP/1.1 400 Bad Request\r\n"));
                    self.plan_delivery_to_proxy(conn);
                }
            }
            Fault::Unasked { shard } => self.send_unasked(shard as usize),
            Fault::Migrate => self.begin_migration(),
            Fault::Promote { shard, lasts } => self.promote(shard as usize, lasts),
            Fault::Full { shard, lasts } => {
                let node = shard as usize;
                self.nodes[node].full = true;
                self.reset_links(node);
                self.plan_at(self.now + lasts, What::Revive(node));
            }
        }
    }

    /// The live connections to a node.
    fn links_of(&self, node: usize) -> Vec<ConnId> {
        let of_node = |link: &Link| {
            link.who == Who::Node(node) && link.connected && !link.closed_by_proxy && !link.dead
        };
        self.links.iter().filter(|(_, link)| of_node(link)).map(|(conn, _)| *conn).collect()
    }

    /// Resets a node's connections; any piece of what was on the way may still arrive.
    fn reset_links(&mut self, node: usize) {
        // What the proxy sent on a connection before it closed it is lost as well.
        for link in self.links.values_mut().filter(|link| link.who == Who::Node(node) && link.closed_by_proxy)
        {
            link.dead = true;
        }
        for conn in self.links_of(node) {
            self.nodes[node].forget(conn);
            let Some(link) = self.links.get_mut(&conn) else { continue };
            let keep = self.prng.below(link.to_proxy.len() as u64 + 1) as usize;
            link.to_proxy.cut(keep);
            link.to_proxy.ended = true;
            link.reset = true;
            link.dead = true;
            self.plan_delivery_to_proxy(conn);
        }
    }

    /// A reply that nobody asked for arrives in a moment in which nothing is on the way.
    fn send_unasked(&mut self, node: usize) {
        for conn in self.links_of(node) {
            let Some(link) = self.links.get(&conn) else { continue };
            let quiet = link.to_proxy.is_empty() && link.to_peer.is_empty() && !link.wants_writable;
            let clients_wait = self.clients.iter().any(|client| client.waiting() > 0);
            if quiet && !clients_wait && self.nodes[node].busy_conns().is_empty() {
                self.proxy.handle_event(Event::Received { conn, bytes: b"$7\r\nforeign\r\n" }, self.now);
            }
        }
    }

    /// Mixes an event into the fingerprint, and tells it if somebody listens.
    fn note(&mut self, kind: u64, conn: ConnId, count: usize) {
        let word = self.now.as_nanos() ^ kind << 56 ^ conn.to_u64().rotate_left(17) ^ (count as u64) << 20;
        self.report.fingerprint = (self.report.fingerprint ^ word).wrapping_mul(0x100_0000_01b3);
        if self.trace {
            const KINDS: [&str; 8] = [
                "",
                "proxy sends",
                "proxy closes",
                "client arrives",
                "client sends",
                "end at proxy",
                "at proxy",
                "at peer",
            ];
            let who = self.links.get(&conn).map(|link| link.who);
            let at_us = self.now.as_nanos() / 1000;
            println!(
                "{at_us:>12} us  {} {count} on {}/{} {who:?}",
                KINDS[kind as usize], conn.index, conn.generation
            );
        }
    }
}

/// Tells what a client sends or gets, or the beginning of it.
fn tell(trace: bool, does: &str, client: usize, bytes: &[u8]) {
    if trace {
        println!("              client {client} {does} {}", bytes[..bytes.len().min(300)].escape_ascii());
    }
}

/// Puts what is there from the beginning on a node.
fn load(node: &mut Node, topology: &Topology, now: Instant) {
    for number in 0..LASTING_KEYS {
        let key = lasting_key(number);
        if topology.shard_of(&key) == node.shard {
            node.keyspace.ask(&[b"SET", &key, &lasting_value(number)], now);
        }
    }
}

/// Changes the last byte of a reply that is a value or a number.
fn corrupt(reply: &mut [u8]) {
    let Some(end) = reply.len().checked_sub(3) else { return };
    let line = reply[..end].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let is_value = !matches!(reply[line], b'$' | b'*' | b'+' | b'-');
    if is_value && reply[end].is_ascii_alphanumeric() {
        reply[end] ^= 1;
    }
}

impl Link {
    pub(crate) fn new(who: Who, connected: bool) -> Link {
        Link {
            who,
            to_proxy: Pipe::new(usize::MAX),
            to_peer: Pipe::new(PIPE_BYTES),
            connected,
            paused: false,
            wants_writable: false,
            closed_by_proxy: false,
            dead: false,
            reset: false,
        }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Violation { seed, at_us, what } = self;
        write!(formatter, "world {seed} at {at_us} us: {what}")
    }
}
