//! A network of functions: a node answers at once, unless it is cut off. Time passes only from one deadline to the
//! next.

use super::{Action, Discovery, Event, News, Party, View, Wish};
use crate::Address;
use resp::request::{RequestLimits, Scanned, Scanner};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use stdx::{Id, Instant};

/// The answer of a node to one request; `None` is silence.
pub(super) type Node<'a> = Box<dyn FnMut(&[String]) -> Option<Vec<u8>> + 'a>;

/// A discovery and those it can ask.
pub(super) struct World<'a> {
    pub discovery: Discovery,
    pub now: Instant,
    nodes: HashMap<String, Node<'a>>,
    /// Whose connections are neither made nor refused.
    pub cut: HashSet<String>,
    conns: HashMap<Id, String>,
    /// Connections that were asked for and not closed since.
    pub open: HashSet<Id>,
    /// Nodes that answer late, and by how much.
    pub slow: HashMap<String, Duration>,
    late: Vec<(Instant, Id, Vec<u8>)>,
    /// Connections made, in order.
    pub connected: Vec<(String, Party)>,
    pub views: Vec<View>,
    pub news: Vec<News>,
}

impl<'a> World<'a> {
    pub(super) fn new(discovery: Discovery) -> World<'a> {
        World {
            discovery,
            now: Instant::ZERO,
            nodes: HashMap::new(),
            cut: HashSet::new(),
            conns: HashMap::new(),
            open: HashSet::new(),
            slow: HashMap::new(),
            late: Vec::new(),
            connected: Vec::new(),
            views: Vec::new(),
            news: Vec::new(),
        }
    }

    /// Puts a node at `address`.
    pub(super) fn put(&mut self, address: &str, node: impl FnMut(&[String]) -> Option<Vec<u8>> + 'a) {
        self.nodes.insert(address.to_owned(), Box::new(node));
    }

    /// Takes the node at `address` away: connections to it end.
    pub(super) fn kill(&mut self, address: &str) {
        self.nodes.remove(address);
        let lost: Vec<Id> =
            self.conns.iter().filter(|(_, at)| *at == address).map(|(conn, _)| *conn).collect();
        for conn in lost {
            self.conns.remove(&conn);
            self.open.remove(&conn);
            self.discovery.handle_event(Event::Closed { conn, reason: "connection lost" }, self.now);
        }
        self.act();
    }

    /// A worker's word.
    pub(super) fn wish(&mut self, wish: Wish) {
        self.discovery.handle_wish(wish, self.now);
        self.act();
    }

    /// A message to every connection that was made to `address` as a sentinel's.
    pub(super) fn say(&mut self, address: &str, bytes: &[u8]) {
        let mut conns: Vec<Id> =
            self.conns.iter().filter(|(_, at)| *at == address).map(|(conn, _)| *conn).collect();
        // The connection for messages is made after that for questions.
        conns.sort();
        let conn = *conns.last().expect("it is connected");
        self.discovery.handle_event(Event::Received { conn, bytes }, self.now);
        self.act();
    }

    /// Lets time pass, and does all that is due meanwhile.
    pub(super) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.act();
        let mut turns = 0;
        while self.due() <= end {
            let due = self.due();
            turns = if due > self.now { 0 } else { turns + 1 };
            assert!(turns < 10, "it goes round in circles");
            self.now = due.max(self.now);
            for (_, conn, bytes) in self.late.extract_if(.., |(at, ..)| *at <= self.now).collect::<Vec<_>>() {
                if self.conns.contains_key(&conn) {
                    self.discovery.handle_event(Event::Received { conn, bytes: &bytes }, self.now);
                }
            }
            self.discovery.handle_time(self.now);
            self.act();
        }
        self.now = end;
    }

    /// Time of the next event.
    fn due(&self) -> Instant {
        let late = self.late.iter().map(|(at, ..)| *at);
        late.chain([self.discovery.poll_deadline()]).min().unwrap_or(Instant::NEVER)
    }

    fn act(&mut self) {
        while let Some(action) = self.discovery.poll_action() {
            match action {
                Action::Connect { conn, address, party } => self.connect(conn, &address, party),
                Action::Send { conn, bytes } => self.answer(conn, &bytes),
                Action::Close { conn } => {
                    self.conns.remove(&conn);
                    self.open.remove(&conn);
                }
            }
        }
        self.views.extend(self.discovery.poll_view());
        self.news.extend(std::iter::from_fn(|| self.discovery.poll_news()));
    }

    fn connect(&mut self, conn: Id, address: &Address, party: Party) {
        let address = address.to_string();
        self.connected.push((address.clone(), party));
        self.open.insert(conn);
        if self.cut.contains(&address) {
            return;
        }
        if self.nodes.contains_key(&address) {
            self.conns.insert(conn, address);
            self.discovery.handle_event(Event::Connected { conn }, self.now);
        } else {
            self.open.remove(&conn);
            self.discovery.handle_event(Event::Closed { conn, reason: "connection refused" }, self.now);
        }
    }

    fn answer(&mut self, conn: Id, bytes: &[u8]) {
        let Some(address) = self.conns.get(&conn) else { return };
        let Some(node) = self.nodes.get_mut(address) else { return };
        let replies: Vec<u8> = requests(bytes).iter().filter_map(|request| node(request)).flatten().collect();
        if let Some(slowness) = self.slow.get(address) {
            return self.late.push((self.now + *slowness, conn, replies));
        }
        if !replies.is_empty() {
            self.discovery.handle_event(Event::Received { conn, bytes: &replies }, self.now);
        }
    }
}

/// The requests in `bytes`.
fn requests(mut bytes: &[u8]) -> Vec<Vec<String>> {
    let (mut spans, mut inline, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    while !bytes.is_empty() {
        let scanned = Scanner::default().scan(bytes, &RequestLimits::default(), &mut spans, &mut inline);
        let Ok(Scanned::Request { len }) = scanned else { panic!("whole requests are sent") };
        let word = |at: usize| String::from_utf8_lossy(&bytes[at..]).into_owned();
        let words = spans.iter().map(|span| word(span.start)[..span.len].to_owned());
        requests.push(words.collect());
        bytes = &bytes[len..];
    }
    requests
}

/// `text` as a bulk.
pub(super) fn bulk(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::encode::bulk(&mut bytes, text.as_bytes());
    bytes
}

/// `words` as an array of bulks.
pub(super) fn array(words: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    resp::encode::request(&mut bytes, &words);
    bytes
}
