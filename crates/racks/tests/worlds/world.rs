//! One world: a machine, its disk, its nodes, and the network between them.

use crate::clients::{Client, LISTS, Ledger, numbers};
use crate::disk;
use crate::node::Node;
use command::Evaluator;
use racks::{Action, Counts, Kept, Level, Machine, Notice, Rack, RackState, Record, Settings};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;
use stdx::{Id, Instant, Prng};
use store::Scratch;

const MS: u64 = 1_000_000;
/// Unix time at the beginning.
const BEGIN: u64 = 1_700_000_000_000 * MS;
/// Time in which faults happen.
const FAULTS: u64 = 20_000 * MS;
/// Time after the last fault, in which racks have to become equal.
const CALM: u64 = 60_000 * MS;

enum Event {
    ToNode(u64, Vec<u8>),
    ToProxy(u64, Vec<u8>),
    Connected(u64),
    Closed(u64),
    /// The node sees the end of a connection.
    Ended(u64),
    Written(u64, u64, Vec<Record>, bool),
    Client(usize),
    Fault,
}

/// A connection between the machine and a node.
struct Wire {
    rack: usize,
    to_node_at: u64,
    to_proxy_at: u64,
}

/// The network of a rack.
#[derive(Default)]
struct Network {
    /// Nothing arrives until then.
    cut_until: u64,
    /// The connection that the machine uses.
    conn: Option<u64>,
}

pub(crate) struct Report {
    pub ledger: Ledger,
    pub counts: Counts,
    pub crashes: u64,
    pub wipes: u64,
    pub trusted: u64,
}

/// Counts over all worlds.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    counts: BTreeMap<&'static str, u64>,
}

impl Seen {
    pub(crate) fn add(&mut self, report: &Report) {
        let counts = &report.counts;
        let all = [
            ("crashes", report.crashes),
            ("wipes", report.wipes),
            ("reads missed", counts.reads_missed),
            ("writes missed", counts.writes_missed),
            ("losses", counts.losses),
            ("hints", counts.hints),
            ("played back", counts.played_back),
            ("outdated", counts.outdated),
            ("repaired", counts.repaired),
            ("compared", counts.compared),
            ("different", counts.different),
            ("replies different", counts.replies_different),
            ("log failures", counts.log_failures),
            ("trusted", report.trusted),
        ];
        all.into_iter().for_each(|(name, count)| *self.counts.entry(name).or_default() += count);
    }

    /// Fails if something never happened, so that the worlds do not prove what they say.
    pub(crate) fn assert_all(&self) {
        for (name, count) in &self.counts {
            assert!(*count > 0, "{name} never happened");
        }
    }
}

pub(crate) struct World {
    prng: Prng,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    by_number: BTreeMap<u64, Event>,
    next_event: u64,
    settings: Settings,
    machine: Machine,
    /// The number of crashes, by which events of the disk are known.
    epoch: u64,
    kept: Vec<Kept>,
    nodes: Vec<Node>,
    networks: Vec<Network>,
    wires: BTreeMap<u64, Wire>,
    next_conn: u64,
    clients: Vec<Client>,
    ledger: Ledger,
    counts: Counts,
    wipes: u64,
    /// The rack whose keys are gone, and whether the machine knows. Until it is up again, nothing else fails: without another
    /// whole rack, no rule could save the keys.
    wiped: Option<(usize, bool)>,
    trusted: u64,
    flushes: bool,
    /// The first promise that was broken.
    broken: Option<String>,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut prng = Prng::new(seed);
        let layouts: [&[&str]; 6] = [
            &["a/1", "a/2", "a/3"],
            &["a/1", "a/2"],
            &["a/1", "a/2", "b/1", "b/2"],
            &["a/1", "b/1"],
            &["a/1", "a/2", "a/3", "b/1"],
            &["a/1", "a/2", "a/3", "a/4", "a/5"],
        ];
        let racks: Vec<Rack> = prng
            .pick(&layouts)
            .iter()
            .filter_map(|name| name.split_once('/'))
            .map(|(dc, name)| Rack { dc: dc.to_owned(), name: name.to_owned() })
            .collect();
        let levels = [Level::One, Level::Quorum, Level::SafeQuorum, Level::EachSafeQuorum];
        let flushes = prng.one_in(6);
        let settings = Settings {
            local: prng.below(racks.len() as u64) as usize,
            read: *prng.pick(&levels),
            write: *prng.pick(&levels),
            timeout: Duration::from_millis(1000),
            hint_bytes_max: if prng.one_in(3) { 500 } else { 1 << 20 },
            login: None,
            evaluator: Scratch::boxed,
            compared_per_second: 500,
            racks,
        };
        let racks = settings.racks.len();
        let kept = vec![Kept::default(); racks];
        let machine = Machine::new(settings.clone(), kept.clone(), Instant::from_nanos(BEGIN));
        let nodes = (0..racks as u64).map(|rack| Node::new(seed ^ rack << 32 | 1)).collect();
        let mut world = World {
            prng,
            now: BEGIN,
            events: BinaryHeap::new(),
            by_number: BTreeMap::new(),
            next_event: 0,
            machine,
            epoch: 0,
            kept,
            nodes,
            networks: (0..racks).map(|_| Network::default()).collect(),
            wires: BTreeMap::new(),
            next_conn: 0,
            clients: Vec::new(),
            ledger: Ledger::default(),
            counts: Counts::default(),
            wipes: 0,
            wiped: None,
            trusted: 0,
            flushes,
            broken: None,
            settings,
        };
        for client in 0..3 {
            world.clients.push(Client::default());
            world.machine.handle_client_opened(world.id(client));
            world.at(BEGIN + 100 * MS, Event::Client(client));
        }
        world.at(BEGIN + 500 * MS, Event::Fault);
        world
    }

    /// Runs to the end, and judges it.
    pub(crate) fn run(mut self) -> Result<Report, String> {
        self.turn();
        let end = BEGIN + FAULTS + CALM;
        while self.now < end {
            let wake = self.machine.poll_deadline().as_nanos().max(self.now + MS / 10);
            let next = self.events.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            if next <= wake {
                let Some(Reverse((at, number))) = self.events.pop() else { break };
                self.now = at;
                if let Some(event) = self.by_number.remove(&number) {
                    self.handle(event)?;
                }
            } else {
                self.now = wake;
            }
            self.turn();
            if let Some(broken) = self.broken.take() {
                return Err(broken);
            }
        }
        self.judge()?;
        self.add_counts();
        let World { ledger, counts, wipes, trusted, epoch, .. } = self;
        Ok(Report { ledger, counts, crashes: epoch, wipes, trusted })
    }

    fn id(&self, client: usize) -> Id {
        Id { index: client as u32, generation: self.epoch as u32 }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.by_number.insert(self.next_event, event);
        self.events.push(Reverse((at, self.next_event)));
        self.next_event += 1;
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn now_ms(&self) -> u64 {
        self.now / MS
    }

    /// A latency: mostly short, at times long.
    fn latency(&mut self) -> u64 {
        let base = 50_000 + self.prng.below(400_000);
        if self.prng.one_in(200) { base + self.prng.below(30 * MS) } else { base }
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::ToNode(conn, bytes) => self.arrive_at_node(conn, bytes),
            Event::ToProxy(conn, bytes) => {
                if let Some(rack) = self.current(conn) {
                    self.machine.handle_rack_bytes(rack, &bytes, self.instant());
                }
            }
            Event::Connected(conn) => {
                if let Some(rack) = self.current(conn) {
                    self.nodes[rack].accept(conn);
                    self.machine.handle_connected(rack, self.instant());
                }
            }
            Event::Closed(conn) => {
                if let Some(rack) = self.current(conn) {
                    self.networks[rack].conn = None;
                    self.machine.handle_rack_closed(rack, "connection reset", self.instant());
                }
            }
            Event::Ended(conn) => {
                if let Some(wire) = self.wires.get(&conn) {
                    self.nodes[wire.rack].end(conn);
                }
            }
            Event::Written(epoch, batch, records, is_durable) => {
                if epoch == self.epoch {
                    if is_durable {
                        disk::apply(&mut self.kept, &records);
                    }
                    self.machine.handle_logged(batch, is_durable, self.instant());
                }
            }
            Event::Client(client) => self.send(client),
            Event::Fault => self.fault(),
        }
        Ok(())
    }

    /// The rack of a connection, if the machine still uses it.
    fn current(&self, conn: u64) -> Option<usize> {
        let rack = self.wires.get(&conn)?.rack;
        (self.networks[rack].conn == Some(conn)).then_some(rack)
    }

    fn arrive_at_node(&mut self, conn: u64, bytes: Vec<u8>) {
        let Some(wire) = self.wires.get(&conn) else { return };
        let rack = wire.rack;
        if self.nodes[rack].frozen_until > self.now {
            let until = self.nodes[rack].frozen_until;
            return self.at(until, Event::ToNode(conn, bytes));
        }
        let now_ms = self.now_ms();
        let (replies, ended) = self.nodes[rack].receive(conn, &bytes, now_ms);
        if !replies.is_empty() {
            self.deliver(conn, replies, false);
        }
        ended.into_iter().for_each(|conn| self.at(self.now + MS, Event::Closed(conn)));
    }

    /// Has bytes arrive, in the order of their connection, and not while the network is cut.
    fn deliver(&mut self, conn: u64, bytes: Vec<u8>, is_to_node: bool) {
        let latency = self.latency();
        let Some(wire) = self.wires.get_mut(&conn) else { return };
        let cut = self.networks[wire.rack].cut_until;
        let last = if is_to_node { &mut wire.to_node_at } else { &mut wire.to_proxy_at };
        *last = (*last + 1).max(self.now + latency).max(cut);
        let at = *last;
        self.at(at, if is_to_node { Event::ToNode(conn, bytes) } else { Event::ToProxy(conn, bytes) });
    }

    /// Does what the machine wants.
    fn turn(&mut self) {
        self.machine.handle_time(self.instant());
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Connect(rack) => self.connect(rack),
                Action::Disconnect(rack) => {
                    if let Some(conn) = self.networks[rack].conn.take() {
                        // The node may hear of it late, and read before what was sent.
                        let late = if self.prng.one_in(2) { self.prng.below(3_000 * MS) } else { MS };
                        self.at(self.now + late, Event::Ended(conn));
                    }
                }
                Action::ToRack(rack, bytes) => {
                    if let Some(conn) = self.networks[rack].conn {
                        self.deliver(conn, bytes, true);
                    }
                }
                Action::ToClient(id, bytes) => self.answer(id, &bytes),
                Action::CloseClient(id) => panic!("client {id:?} is closed"),
                Action::Log(batch, records) => {
                    let longest = if self.prng.one_in(20) { 200 * MS } else { 3 * MS };
                    let after = MS / 10 + self.prng.below(longest);
                    let is_durable = self.now > BEGIN + FAULTS || !self.prng.one_in(40);
                    self.at(self.now + after, Event::Written(self.epoch, batch, records, is_durable));
                }
                Action::Notice(Notice::Trusted(_)) => self.trusted += 1,
                Action::Notice(_) => {}
            }
        }
    }

    fn connect(&mut self, rack: usize) {
        let (conn, latency) = (self.next_conn, self.latency());
        self.next_conn += 1;
        self.networks[rack].conn = Some(conn);
        self.wires.insert(conn, Wire { rack, to_node_at: 0, to_proxy_at: 0 });
        let at = (self.now + latency).max(self.networks[rack].cut_until);
        let is_refused = self.now < BEGIN + FAULTS && self.prng.one_in(20);
        self.at(at, if is_refused { Event::Closed(conn) } else { Event::Connected(conn) });
    }

    fn answer(&mut self, id: Id, bytes: &[u8]) {
        if id.generation == self.epoch as u32 {
            let client = &mut self.clients[id.index as usize];
            if let Err(broken) = client.receive(bytes, &mut self.ledger) {
                self.broken.get_or_insert(broken);
            }
        }
    }

    /// A client sends some requests.
    fn send(&mut self, client: usize) {
        if self.now > BEGIN + FAULTS {
            return;
        }
        let count = 1 + self.prng.below(4);
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.extend(self.clients[client].draw(&mut self.prng, &mut self.ledger, self.flushes));
        }
        let (id, now) = (self.id(client), self.instant());
        self.machine.handle_client_bytes(id, &bytes, now);
        let pause = self.prng.below(60 * MS);
        self.at(self.now + pause, Event::Client(client));
    }

    /// Whether all racks are up, and no fault is about to be noticed.
    fn all_up(&self) -> bool {
        let is_well = |(rack, node): (usize, &Node)| {
            node.frozen_until <= self.now && self.networks[rack].cut_until <= self.now
        };
        self.nodes.iter().enumerate().all(is_well)
            && self.machine.status().racks.iter().all(|rack| rack.state == RackState::Up)
    }

    /// Whether a rack has lost its keys and has not got them back.
    fn is_one_wiped(&mut self) -> bool {
        let Some((rack, is_known)) = self.wiped else { return false };
        let is_up = self.machine.status().racks[rack].state == RackState::Up;
        self.wiped = (!is_up || !is_known).then_some((rack, is_known || !is_up));
        self.wiped.is_some()
    }

    fn fault(&mut self) {
        if self.now > BEGIN + FAULTS {
            return;
        }
        if self.is_one_wiped() {
            return self.at(self.now + MS, Event::Fault);
        }
        let rack = self.prng.below(self.nodes.len() as u64) as usize;
        let long = self.prng.below(4_000) * MS;
        match self.prng.below(14) {
            0..4 => self.networks[rack].cut_until = self.now + long,
            // A shorter frost within a longer one would let bytes of a connection overtake others.
            4..6 => {
                let until = self.nodes[rack].frozen_until.max(self.now + long);
                self.nodes[rack].frozen_until = until;
            }
            6..9 => {
                if let Some(conn) = self.networks[rack].conn {
                    self.at(self.now + MS, Event::Closed(conn));
                    let late = self.prng.below(2_000 * MS);
                    self.at(self.now + late, Event::Ended(conn));
                }
            }
            9 => self.nodes[rack].skew_ms = self.prng.below(20_000) as i64 - 10_000,
            10 => self.restart(rack, true),
            // All copies are there, so that one may go.
            11 if self.all_up() && self.settings.write != Level::One && self.settings.racks.len() > 1 => {
                let local = &self.settings.racks[self.settings.local].dc;
                if self.settings.racks.iter().filter(|rack| rack.dc == *local).count() > 1 {
                    self.wipes += 1;
                    self.wiped = Some((rack, false));
                    self.restart(rack, false);
                }
            }
            _ => self.crash(),
        }
        let pause = 50 * MS + self.prng.below(1_500 * MS);
        self.at(self.now + pause, Event::Fault);
    }

    fn restart(&mut self, rack: usize, keeps: bool) {
        let run = self.prng.next_u64();
        for conn in self.nodes[rack].restart(run, keeps) {
            self.at(self.now + MS, Event::Closed(conn));
        }
    }

    /// The process ends at once and starts anew with the records on its disk.
    fn crash(&mut self) {
        self.add_counts();
        // A batch that is being written is there or not.
        for event in self.by_number.values() {
            if let Event::Written(epoch, _, records, true) = event
                && *epoch == self.epoch
                && self.prng.one_in(2)
            {
                disk::apply(&mut self.kept, records);
            }
        }
        self.epoch += 1;
        for network in 0..self.networks.len() {
            if let Some(conn) = self.networks[network].conn.take() {
                let late = self.prng.below(3_000 * MS);
                self.at(self.now + late, Event::Ended(conn));
            }
        }
        self.machine = Machine::new(self.settings.clone(), self.kept.clone(), self.instant());
        for client in 0..self.clients.len() {
            self.clients[client] = Client::default();
            self.machine.handle_client_opened(self.id(client));
        }
    }

    fn add_counts(&mut self) {
        let counts = self.machine.status().counts;
        let all = &mut self.counts;
        all.reads_missed += counts.reads_missed;
        all.writes_missed += counts.writes_missed;
        all.losses += counts.losses;
        all.hints += counts.hints;
        all.played_back += counts.played_back;
        all.outdated += counts.outdated;
        all.repaired += counts.repaired;
        all.compared += counts.compared;
        all.different += counts.different;
        all.replies_different += counts.replies_different;
        all.log_failures += counts.log_failures;
    }

    /// Judges the end: all racks are up and equal, and the lists have what clients were told.
    fn judge(&mut self) -> Result<(), String> {
        let status = self.machine.status();
        if let Some(rack) = status.racks.iter().position(|rack| rack.state != RackState::Up) {
            return Err(format!("rack {rack} is not up: {:?}", status.racks));
        }
        let waiting: usize = self.clients.iter().map(|client| client.sent.len()).sum();
        if waiting > 0 {
            return Err(format!("{waiting} requests have no reply"));
        }
        let keys = self.keys();
        for key in &keys {
            let values: Vec<String> = (0..self.nodes.len()).map(|rack| self.value(rack, key)).collect();
            if values.iter().any(|value| *value != values[0]) {
                return Err(format!("{} differs: {values:?}", String::from_utf8_lossy(key)));
            }
        }
        if self.flushes { Ok(()) } else { self.judge_lists() }
    }

    fn judge_lists(&mut self) -> Result<(), String> {
        let now_ms = self.now_ms();
        for list in 0..LISTS {
            let reply = self.nodes[0].ask(&[b"LRANGE", format!("l{list}").as_bytes(), b"0", b"-1"], now_ms);
            let found = numbers(&reply);
            let mut once = found.clone();
            once.sort_unstable();
            once.dedup();
            if once.len() != found.len() {
                return Err(format!("l{list} has a number twice: {found:?}"));
            }
            let acknowledged = self.ledger.acknowledged.get(&list).cloned().unwrap_or_default();
            if let Some(lost) = acknowledged.iter().find(|number| !found.contains(number)) {
                return Err(format!("l{list} lacks {lost}, which was acknowledged"));
            }
            if let Some(found) = found.iter().find(|number| self.ledger.refused.contains(number)) {
                return Err(format!("l{list} has {found}, which was not run"));
            }
        }
        Ok(())
    }

    fn keys(&mut self) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        for rack in 0..self.nodes.len() {
            let now_ms = self.now_ms();
            let reply = self.nodes[rack].ask(&[b"KEYS", b"*"], now_ms);
            let found = resp::reply::elements(&reply).into_iter().flatten();
            keys.extend(found.filter_map(resp::reply::as_bulk).map(<[u8]>::to_vec));
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// A value in a form that is equal for equal values.
    fn value(&mut self, rack: usize, key: &[u8]) -> String {
        let now_ms = self.now_ms();
        let node = &mut self.nodes[rack];
        let text = |reply: Vec<u8>| String::from_utf8_lossy(&reply).into_owned();
        let kind = text(node.ask(&[b"TYPE", key], now_ms));
        let mut value = match kind.trim_end() {
            "+set" => sorted(&node.ask(&[b"SMEMBERS", key], now_ms), 1),
            "+hash" => sorted(&node.ask(&[b"HGETALL", key], now_ms), 2),
            "+none" => String::new(),
            _ => {
                let dump = node.ask(&[b"DUMP", key], now_ms);
                let mut scratch = Scratch::new(0, 0);
                let payload = resp::reply::as_bulk(&dump).unwrap_or_default();
                assert!(scratch.load(b"k", payload, None));
                format!("{:?}", scratch.dump(b"k"))
            }
        };
        if text(node.ask(&[b"PTTL", key], now_ms)) != ":-1\r\n" {
            value.push_str(" expires");
        }
        kind + &value
    }
}

fn sorted(reply: &[u8], size: usize) -> String {
    let elements: Vec<&[u8]> = resp::reply::elements(reply).into_iter().flatten().collect();
    let mut groups: Vec<Vec<u8>> = elements.chunks(size).map(<[&[u8]]>::concat).collect();
    groups.sort();
    String::from_utf8_lossy(&groups.concat()).into_owned()
}
