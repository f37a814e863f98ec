//! Checks at the end of a world, when all nodes are up again and clients send no more.

use crate::client::Client;
use crate::keyspace::unix_ms;
use crate::ledger::{is_journal, text};
use crate::listeners;
use crate::model::shown;
use crate::node::Node;
use crate::program::{Expect, LASTING_KEYS, PROFILES, Program, lasting_key, lasting_value, words_of};
use crate::tenants::Account;
use crate::world::World;
use proxy::Pending;
use resp::{encode, reply};
use std::collections::BTreeSet;
use std::time::Duration;

impl World<'_> {
    /// A new client looks at everything; then all leave.
    pub(crate) fn audit(&mut self) -> Result<(), String> {
        self.check_keys();
        self.check_discovered()?;
        self.check_primaries()?;
        self.check_caches(Duration::ZERO)?;
        self.ledger.radio.check_all(self.now)?;
        if self.admit_auditor() {
            if let Some(request) = Account::request_of_default(&self.ledger.rights) {
                self.request(&request)?;
            }
            self.check_nodes_serve()?;
            self.check_all_hear()?;
            // Keys that one node got in another's place are still there.
            if self.plan.ejecting.is_none() {
                self.check_shards_are_one()?;
            }
            self.check_flush()?;
        } else if self.plan.drain_at.is_none() {
            return Err("the proxy takes no clients".to_owned());
        }
        self.say_goodbye()
    }

    /// Everybody has all replies.
    pub(crate) fn check_nobody_waits(&self) -> Result<(), String> {
        let waiting = self.clients.iter().enumerate().find(|(_, client)| client.waiting() > 0);
        match waiting {
            Some((number, client)) => {
                Err(format!("client {number} still waits for {} replies", client.waiting()))
            }
            None => Ok(()),
        }
    }

    /// The store holds exactly the values that the writers know.
    fn check_keys(&mut self) {
        let now_ms = unix_ms(self.now);
        for key in self.ledger.keys() {
            let node = self.node_of(&key);
            let reply = self.nodes[node].keyspace.ask(&[b"GET", &key], self.now);
            self.ledger.check_own(&key, reply::as_bulk(&reply));
        }
        for family in self.ledger.model.families() {
            let found: Vec<Vec<u8>> = family
                .keys()
                .map(|key| {
                    let node = self.node_of(&key);
                    self.nodes[node].keyspace.read_key(family.database, &key, now_ms)
                })
                .collect();
            if let Err(expected) = self.ledger.model.check_end(family, &found, now_ms) {
                let found = shown(Some(&found));
                self.ledger.violate(format!("{family:?} holds {found:?} and should hold one of {expected}"));
            }
        }
        for key in self.ledger.queues.keys() {
            let node = self.node_of(&key);
            let left = self.nodes[node].keyspace.ask(&[b"LRANGE", &key, b"0", b"-1"], self.now);
            let left = reply::elements(&left).into_iter().flatten().filter_map(reply::as_bulk);
            let left: Vec<Vec<u8>> = left.map(<[u8]>::to_vec).collect();
            if let Err(what) = self.ledger.queues.check_end(&key, &left) {
                self.ledger.violate(what);
            }
        }
        let keys = self.stored_keys();
        keys.iter().for_each(|key| self.ledger.check_name(key));
        let left = keys.iter().find(|key| is_journal(key));
        if let Some(key) = left.filter(|_| self.plan.is_calm()) {
            self.ledger.violate(format!("{:?} was not moved to its end", text(key)));
        }
    }

    /// The names of all keys on all primaries.
    fn stored_keys(&mut self) -> BTreeSet<Vec<u8>> {
        let now = self.now;
        let replies: Vec<_> = self.primaries().map(|node| node.keyspace.ask(&[b"KEYS", b"*"], now)).collect();
        replies.iter().flat_map(|reply| names(reply)).collect()
    }

    fn primaries(&mut self) -> impl Iterator<Item = &mut Node> {
        // By right, where sentinels decide.
        let rightful: Option<BTreeSet<usize>> = self
            .watch
            .as_ref()
            .map(|watch| (0..self.plan.shards).map(|shard| watch.primary_of(shard)).collect());
        let nodes = self.nodes.iter_mut().enumerate();
        let primaries = nodes.filter(move |(number, node)| match &rightful {
            Some(rightful) => rightful.contains(number),
            None => node.follower.is_none(),
        });
        primaries.map(|(_, node)| node)
    }

    /// Connects the auditor, which is the last of the clients. Returns false if it was refused.
    fn admit_auditor(&mut self) -> bool {
        let number = self.clients.len();
        self.clients.push(Client::new(Program::new(number, 1, 0, &mut self.ledger)));
        self.arrive(number)
    }

    /// Sends a request as the auditor and waits for the reply.
    fn ask(&mut self, words: &[&[u8]]) -> Result<Vec<u8>, String> {
        self.request(&words_of(&words.iter().map(|word| word.to_vec()).collect::<Vec<_>>()))
    }

    fn request(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let Some((auditor, conn)) =
            self.clients.last_mut().and_then(|client| client.conn.map(|conn| (client, conn)))
        else {
            return Err("the auditor was closed".to_owned());
        };
        auditor.expect(Expect::Kept, self.now);
        self.with_link(conn, |link| link.to_proxy.put_all(bytes));
        self.plan_delivery_to_proxy(conn);
        // No other client is active, so replies come soon; a late end only costs silent turns.
        let patience = if self.plan.node_bytes_per_s.is_some() { 10 * PATIENCE } else { PATIENCE };
        for _ in 0..patience {
            self.turn_until(self.now + Duration::from_millis(100))?;
            if self.clients.last().is_some_and(|auditor| auditor.waiting() == 0) {
                return Ok(self
                    .clients
                    .last_mut()
                    .map(|auditor| std::mem::take(&mut auditor.kept))
                    .unwrap_or_default());
            }
        }
        Err(format!("the auditor waits for the reply to {:?}", String::from_utf8_lossy(bytes)))
    }

    /// A new client gets all lasting keys.
    fn check_nodes_serve(&mut self) -> Result<(), String> {
        let keys: Vec<Vec<u8>> = (0..LASTING_KEYS).map(lasting_key).collect();
        let mut words: Vec<&[u8]> = vec![b"MGET"];
        words.extend(keys.iter().map(Vec::as_slice));
        let mut expected = Vec::new();
        encode::array_header(&mut expected, LASTING_KEYS);
        (0..LASTING_KEYS).for_each(|number| encode::bulk(&mut expected, &lasting_value(number)));
        let found = self.ask(&words)?;
        if found == expected {
            Ok(())
        } else {
            Err(format!("the lasting keys are {:?}", String::from_utf8_lossy(&found)))
        }
    }

    /// Every subscription still exists, whatever faults there were.
    fn check_all_hear(&mut self) -> Result<(), String> {
        let auditor = self.clients.len() - 1;
        let (requests, first) = self.ledger.radio.farewell(auditor, self.now);
        for (number, request) in requests.iter().enumerate() {
            let count = self.request(request)?;
            let expected = listeners::Expected::Published { number: first + number };
            self.ledger.radio.answered(auditor, &expected, &count, self.now)?;
        }
        self.turn_until(self.now + Duration::from_secs(1))?;
        self.ledger.radio.check_farewell(first)
    }

    /// DBSIZE, KEYS, SCAN and RANDOMKEY over all shards answer as one Redis would.
    fn check_shards_are_one(&mut self) -> Result<(), String> {
        let keys = names(&self.ask(&[b"KEYS", b"*"])?);
        // A key may have expired since the request: the nodes' clock advances.
        let stored = self.stored_keys();
        if !stored.is_subset(&keys) {
            return Err(format!("KEYS lacks {:?}", stored.difference(&keys).next()));
        }
        let count = reply::as_integer(&self.ask(&[b"DBSIZE"])?).unwrap_or_default();
        if count < self.stored_keys().len() as i64 {
            return Err(format!("DBSIZE says {count}, and there are {} keys", self.stored_keys().len()));
        }
        let random = self.ask(&[b"RANDOMKEY"])?;
        if !reply::as_bulk(&random).is_some_and(|key| keys.contains(key)) {
            return Err(format!("RANDOMKEY gave {:?}", String::from_utf8_lossy(&random)));
        }
        let walked = self.walk()?;
        match self.stored_keys().into_iter().find(|key| !walked.contains(key)) {
            Some(key) => Err(format!("SCAN missed {:?}", String::from_utf8_lossy(&key))),
            None => Ok(()),
        }
    }

    /// All keys of a SCAN from beginning to end. Nothing changes meanwhile, so no key comes twice.
    fn walk(&mut self) -> Result<BTreeSet<Vec<u8>>, String> {
        let (mut walked, mut cursor) = (BTreeSet::new(), b"0".to_vec());
        for _ in 0..PAGES_MAX {
            let page = self.ask(&[b"SCAN", &cursor, b"COUNT", b"50"])?;
            let mut parts = reply::elements(&page).into_iter().flatten();
            let (Some(next), Some(found)) = (parts.next().and_then(reply::as_bulk), parts.next()) else {
                return Err(format!("SCAN gave {:?}", String::from_utf8_lossy(&page)));
            };
            for key in names(found) {
                if walked.contains(&key) {
                    return Err(format!("SCAN met {:?} twice", String::from_utf8_lossy(&key)));
                }
                walked.insert(key);
            }
            cursor = next.to_vec();
            if cursor == b"0" {
                return Ok(walked);
            }
        }
        Err("SCAN does not end".to_owned())
    }

    /// After FLUSHALL there is nothing anywhere.
    fn check_flush(&mut self) -> Result<(), String> {
        for (words, expected) in [
            (vec![&b"FLUSHALL"[..]], &b"+OK\r\n"[..]),
            (vec![b"DBSIZE"], b":0\r\n"),
            (vec![b"RANDOMKEY"], b"$-1\r\n"),
            (vec![b"KEYS", b"*"], b"*0\r\n"),
        ] {
            let found = self.ask(&words)?;
            if found != expected {
                let words = String::from_utf8_lossy(words[0]);
                return Err(format!("after FLUSHALL {words} gave {:?}", String::from_utf8_lossy(&found)));
            }
        }
        if self.stored_keys().is_empty() { Ok(()) } else { Err("a node was not flushed".to_owned()) }
    }

    /// Bytes that the proxy counts for periodic questions to nodes, about their health and replication, and for parts of the
    /// answers.
    fn answers_under_way(&self) -> usize {
        let reports = if self.plan.reads_replicas() { self.nodes.len() } else { 0 };
        PROBE_BYTES_MAX * self.nodes.len() * PROFILES + REPORT_BYTES_MAX * reports
    }

    /// All clients leave; nothing of them stays.
    fn say_goodbye(&mut self) -> Result<(), String> {
        for number in 0..self.clients.len() {
            if let Some(conn) = self.clients[number].conn {
                self.clients[number].ending = true;
                self.with_link(conn, |link| link.to_proxy.ended = true);
                self.plan_delivery_to_proxy(conn);
            }
        }
        self.turn_until(self.now + Duration::from_secs(5))?;
        let left = self.proxy.counters().clients;
        if left > 0 {
            return Err(format!("{left} clients are still counted after all have left"));
        }
        self.proxy.drain(self.now);
        if !self.proxy.is_drained() {
            return Err("the proxy does not drain".to_owned());
        }
        let pending = self.proxy.pending();
        if pending != Pending::default() {
            return Err(format!("this is left after all clients have gone: {pending:?}"));
        }
        match self.proxy.clients_waiting() {
            // The proxy checks nodes with periodic questions. A part of such a question or answer may be under way.
            0 if self.proxy.held_bytes() < self.answers_under_way() => Ok(()),
            0 => Err(format!("{} bytes are still counted as held", self.proxy.held_bytes())),
            clients => Err(format!("{clients} clients are still counted as waiting")),
        }
    }
}

/// Turns of a tenth of a second that the auditor waits for a reply: longer than a request's timeout. It waits ten times as
/// long for slow nodes.
const PATIENCE: usize = 50;
/// Bytes of a health check's ticket, and of a part of its answer.
const PROBE_BYTES_MAX: usize = 60;
/// Bytes of a node's report on its replication.
const REPORT_BYTES_MAX: usize = 200;
/// Pages of one walk.
const PAGES_MAX: usize = 10_000;

/// The bulk strings of an array.
fn names(reply: &[u8]) -> BTreeSet<Vec<u8>> {
    let keys = reply::elements(reply).into_iter().flatten();
    keys.filter_map(reply::as_bulk).map(<[u8]>::to_vec).collect()
}
