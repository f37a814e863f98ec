//! The requests of clients, and the expected replies.

use crate::draw::{self, Drawn, LETTERS, Shape};
use crate::keyspace::{Profile, unix_ms};
use crate::ledger::{Ledger, STAMPED};
use crate::listeners::{self, Listener};
use crate::model::{Asked, FamilyId, Word};
use crate::mutes::muted_key;
use crate::scripts::Scripted;
use crate::sessions::{self, CROSS_SLOT, Transaction};
use crate::tenants::{Account, Guard, Rights};
use crate::trackers::{self, Tracker};
use stdx::{Instant, Prng};

/// Keys that exist from the beginning and never change: SCAN and KEYS must find them all.
pub(crate) const LASTING_KEYS: usize = 20;
/// Keys with stamped values that each client alone writes.
pub(crate) const STAMPED_KEYS: u64 = 10;
/// Draws of [`Program::make_up`] that are reads: of single keys, of several, and of keys that the model knows.
const READS: [u64; 4] = [3, 4, 5, 8];
/// Families that a client uses at a time.
const FAMILIES: usize = 8;

/// Databases that clients go to.
const DATABASES: u64 = 3;
/// The most profiles that may be open at once: a database in one of the two protocols.
pub(crate) const PROFILES: usize = 2 * DATABASES as usize;

/// A key whose values have stamps. They are in database 0 only.
fn stamped_key(client: usize, number: u64) -> Vec<u8> {
    [STAMPED, format!("{client}k{number}").as_bytes()].concat()
}

/// One of the keys that stay.
pub(crate) fn lasting_key(number: usize) -> Vec<u8> {
    format!("lasting{number}").into_bytes()
}

/// The value of such a key.
pub(crate) fn lasting_value(number: usize) -> Vec<u8> {
    format!("value{number}").into_bytes()
}

/// The expected reply to one request. In worlds with faults, all but [`Expect::Exactly`] may be errors of the contract.
#[derive(Clone, Debug)]
pub(crate) enum Expect {
    /// Exactly these bytes, even with faults: the proxy answers by itself.
    Exactly(Vec<u8>),
    /// These bytes.
    Reply(Vec<u8>),
    /// OK for writes of the client's own keys. Each is a value, or `None` for a deletion, whose reply is a count.
    Write(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    /// The value of a key. The value of an own key must be the last written one.
    Value { key: Vec<u8>, own: bool },
    /// The same for several, in an array.
    Values { keys: Vec<Vec<u8>>, own: bool },
    /// An integer between these bounds, both included.
    Between(i64, i64),
    /// An array with all lasting keys.
    AllKeys,
    /// Some key.
    SomeKey,
    /// A bulk with the figures of all reachable shards.
    Report,
    /// A page of SCAN, whose keys and cursor go into the client's walk.
    ScanPage,
    /// Any error that is not of the contract: the command's own.
    OwnError,
    /// The model's reply.
    Modelled(Asked),
    /// The model's reply for each part: an array, a sum, or OK.
    Parts(Vec<Asked>),
    /// The reply to HELLO.
    Greeting { resp3: bool },
    /// The reply to RESET, even with faults.
    Reset,
    /// The inner reply, if the client has the permission.
    Guarded(Guard),
    /// The reply to publishing or subscribing.
    Radio(listeners::Expected),
    /// The reply to tracking.
    Tracking(trackers::Expected),
    /// OK: a key is watched.
    Watched,
    /// The reply to EXEC with these commands.
    Executed(Transaction),
    /// These bytes: the transaction is not carried out.
    Discarded(Transaction, &'static [u8]),
    /// The length of the queue.
    Pushed { key: Vec<u8>, element: Vec<u8> },
    /// An element of the queue, or none.
    Popped { keys: Vec<Vec<u8>> },
    /// The number of replicas that have the writes.
    Replicas,
    /// Each of these, for requests that are sent together.
    Each(Vec<Expect>),
    /// The reply without a script, or an error that no script has that name.
    Scripted(Scripted),
    /// Anything; it is kept.
    Kept,
}

/// One request as it is sent.
#[derive(Debug)]
pub(crate) struct Sent {
    pub bytes: Vec<u8>,
    /// `None`: it asks for nothing and gets nothing.
    pub expect: Option<Expect>,
}

/// Makes up requests for one client.
#[derive(Debug)]
pub(crate) struct Program {
    pub client: usize,
    pub clients: usize,
    /// Bytes of filling that values have at most.
    pub filling_max: u64,
    /// The cursor of the walk that is under way.
    pub cursor: u64,
    /// A page of the walk is under way: the next cursor is not known yet.
    pub scanning: bool,
    /// The database of the next request, and the protocol of its reply.
    pub profile: Profile,
    /// Number of databases that it uses.
    databases: u64,
    /// By database: families in use, by their place, and the number of all so far.
    families: [(Vec<FamilyId>, u64); DATABASES as usize],
    /// The state of a subscriber.
    pub listener: Option<Listener>,
    /// Whether it does nothing but receive invalidations for others.
    pub is_ear: bool,
    /// The state of a caching client.
    pub tracker: Option<Tracker>,
    /// The user of its AUTH.
    pub account: Option<Account>,
    /// The number of the key that it uses most of the time: a frequent key shows errors of order.
    favourite: Option<u64>,
    /// Number of its requests.
    pub sent: u64,
    /// Whether it writes little: one write on its connection, and then reads for long.
    pub reads_most: bool,
    has_written: bool,
}

impl Program {
    /// The program of `client` among `clients`. It registers the keys that it will write with the ledger.
    pub(crate) fn new(client: usize, clients: usize, filling_max: u64, ledger: &mut Ledger) -> Program {
        (0..STAMPED_KEYS).for_each(|number| ledger.name(stamped_key(client, number)));
        sessions::queue_names().chain(trackers::shared_names()).for_each(|key| ledger.name(key));
        ledger.name(muted_key(client));
        let (profile, families) = (Profile::default(), Default::default());
        // A cluster has one, and so have nodes that are followed here.
        let databases = if ledger.is_cluster() || ledger.has_replicas() { 1 } else { DATABASES };
        Program {
            client,
            clients,
            filling_max,
            cursor: 0,
            scanning: false,
            profile,
            databases,
            families,
            listener: None,
            is_ear: false,
            tracker: None,
            account: None,
            favourite: None,
            sent: 0,
            reads_most: false,
            has_written: false,
        }
    }

    /// Sets whether it writes little.
    pub(crate) fn reading_most(self, reads_most: bool) -> Program {
        Program { reads_most, ..self }
    }

    /// Sets the key that it uses most of the time, if any.
    pub(crate) fn preferring(self, favourite: Option<u64>) -> Program {
        Program { favourite, ..self }
    }

    /// A client that neither subscribes nor caches.
    pub(crate) fn with_account(mut self, rights: &Rights, prng: &mut Prng) -> Program {
        self.account = Account::draw(self.client, rights, prng);
        self
    }

    /// The program of a client that may have a special task. `is_sure` says that its world has no faults.
    pub(crate) fn with_role(mut self, is_sure: bool, rights: &Rights, prng: &mut Prng) -> Program {
        self.account = Account::draw(self.client, rights, prng);
        match prng.below(8) {
            0 | 1 => Program { listener: Some(Listener::new(is_sure)), ..self },
            // At least one client sends requests that the model can judge.
            2 if self.client > 0 => Program { listener: Some(Listener::new(is_sure)), is_ear: true, ..self },
            3 | 4 => Program { tracker: Some(Tracker::default()), ..self },
            _ => self,
        }
    }

    /// Its next connection knows nothing of this one.
    pub(crate) fn forget_connection(&mut self) {
        self.profile = Profile::default();
        self.has_written = false;
        self.listener.iter_mut().for_each(Listener::reset);
        self.tracker.iter_mut().for_each(Tracker::reset);
        self.account.iter_mut().for_each(Account::reset);
    }

    /// The key that it uses most, if there is one.
    pub(crate) fn favourite_key(&self) -> Option<Vec<u8>> {
        self.favourite.map(|number| stamped_key(self.client, number))
    }

    pub(crate) fn own_key(&self, prng: &mut Prng) -> Vec<u8> {
        let favourite = self.favourite.filter(|_| !prng.one_in(4));
        stamped_key(self.client, favourite.unwrap_or_else(|| prng.below(STAMPED_KEYS)))
    }

    pub(crate) fn foreign_key(&self, prng: &mut Prng) -> Vec<u8> {
        stamped_key(prng.below(self.clients as u64) as usize, prng.below(STAMPED_KEYS))
    }

    pub(crate) fn value(&self, key: &[u8], prng: &mut Prng, ledger: &mut Ledger) -> Vec<u8> {
        let filling = if prng.one_in(10) { prng.below(self.filling_max) } else { prng.below(20) };
        ledger.stamp(key, filling as usize)
    }

    /// The next request.
    pub(crate) fn next(&mut self, now: Instant, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        self.sent += 1;
        let sent = self.make_up(now, prng, ledger);
        self.guard(sent, now)
    }

    fn make_up(&mut self, now: Instant, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        let special = self.log_in(prng);
        if special.is_none() && ledger.is_cache {
            return self.use_cache(prng, ledger);
        }
        let special = special
            .or_else(|| self.lend_ear(prng))
            .or_else(|| self.listen(now, prng, &mut ledger.radio))
            .or_else(|| self.track(prng, &mut ledger.caches));
        if let Some(special) = special {
            return special;
        }
        let drawn = match prng.below(48) {
            // A client that writes little finds its own writes at replicas.
            drawn if self.reads_most => match prng.below(400) {
                _ if !std::mem::replace(&mut self.has_written, true) => 0,
                0 => 0,
                1 => drawn,
                _ => *prng.pick(&READS),
            },
            drawn => drawn,
        };
        // Requests up to 15, and from 38 on, are about keys of database 0, or about all keys.
        if self.profile.database > 0
            && (drawn <= 15 || (38..=43).contains(&drawn) || drawn == 45 || drawn == 47)
        {
            return if drawn < 2 { self.get_nothing(prng) } else { self.modelled(now, prng, ledger) };
        }
        match drawn {
            36..=37 => self.change_profile(prng),
            45 | 47 => self.overwrite(prng),
            46 if prng.one_in(20) => self.flush_nothing(),
            44 | 46 => ledger.radio.publish(self.client, now, prng),
            38..=40 => self.transaction(prng, ledger),
            // A waiting client sends nothing else meanwhile.
            43 if prng.one_in(2) => self.pop(prng, ledger),
            41..=43 => self.push(prng, ledger),
            0..=2 => self.set(prng, ledger),
            3..=6 if !ledger.reads_anything && prng.one_in(6) => get_lasting(prng),
            3..=6 => self.get(prng),
            7 => self.mset(prng, ledger),
            8 => self.mget(prng),
            9 => self.delete(prng),
            10 => self.count(prng),
            11..=13 if !self.scanning => self.scan(prng),
            14 if prng.one_in(30) => Program::flush_scripts(now, ledger),
            14 if prng.one_in(2) => self.script(prng, ledger),
            14 => all_shards(prng),
            15 if prng.one_in(2) => self.script(prng, ledger),
            15 => self.learnt(prng, ledger),
            16 if prng.one_in(2) => self.mute(prng),
            16 => nothing(prng),
            18 if prng.one_in(9) => wait_for_replicas(prng),
            17 => self.refused(prng),
            18 => local(self.profile.resp3, prng),
            19..=21 => self.parts(now, prng, ledger),
            _ => self.modelled(now, prng, ledger),
        }
    }

    /// Requests that are possible with nodes that come and go.
    fn use_cache(&mut self, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        match prng.below(24) {
            0..=9 => self.set(prng, ledger),
            10 | 11 => self.get(prng),
            12 | 13 => self.mset(prng, ledger),
            14..=17 => self.mget(prng),
            18 => self.delete(prng),
            19 => self.count(prng),
            20 => self.learnt(prng, ledger),
            21 if prng.one_in(2) => self.mute(prng),
            21 => nothing(prng),
            22 => self.refused(prng),
            _ => local(self.profile.resp3, prng),
        }
    }

    /// A family to use. It replaces one whose keys are not known well any more.
    fn family(&mut self, prng: &mut Prng, ledger: &mut Ledger) -> FamilyId {
        let place = prng.below(FAMILIES as u64) as usize;
        let database = self.profile.database;
        let (families, total) = &mut self.families[usize::from(database)];
        match families.get(place) {
            Some(&family) if !ledger.model.is_doubtful(family) => return family,
            _ => {}
        }
        let is_spread = ledger.is_cluster() && ledger.model.carries_across && prng.one_in(2);
        let family = FamilyId { client: self.client, number: *total, database, is_spread };
        *total += 1;
        ledger.model.open(family);
        family.keys().for_each(|key| ledger.name(key));
        if family.keys().any(|key| ledger.is_moving(&key, ledger.now)) {
            ledger.model.give_up_key(&family.key(0));
        }
        match families.get_mut(place) {
            Some(old) => *old = family,
            None => families.push(family),
        }
        family
    }

    /// A command on keys of one family.
    fn modelled(&mut self, now: Instant, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        let family = self.family(prng, ledger);
        let asked = Asked {
            family,
            drawn: self.draw(family, now, prng, ledger),
            sent_ms: unix_ms(now),
            resp3: self.profile.resp3,
        };
        let bytes = words_of(&asked.words());
        let expect = match ledger.model.is_refused(&asked) {
            true => Expect::Exactly(CROSS_SLOT.to_vec()),
            false => Expect::Modelled(asked),
        };
        Sent { bytes, expect: Some(expect) }
    }

    fn draw(&self, family: FamilyId, now: Instant, prng: &mut Prng, ledger: &Ledger) -> Drawn {
        loop {
            let drawn = draw::draw(family, now, prng);
            if !(drawn.timed && ledger.model.takes_steps(family)) {
                return drawn;
            }
        }
    }

    /// A command on keys of several families, which is split.
    fn parts(&mut self, now: Instant, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        let name = *prng.pick(&["MGET", "MSET", "DEL", "UNLINK", "EXISTS", "TOUCH"]);
        let mut request = vec![name.as_bytes().to_vec()];
        let mut parts: Vec<Asked> = Vec::new();
        for _ in 0..1 + prng.below(6) {
            let family = self.family(prng, ledger);
            let letter = prng.below(LETTERS) as u8;
            if name == "MSET" && parts.iter().any(|part| part.family == family) {
                continue;
            }
            let mut words = vec![Word::Text(name.as_bytes().to_vec()), Word::Key(letter)];
            if name == "MSET" {
                words.push(Word::Text(draw::value(family, prng)));
            }
            let reads = !matches!(name, "MSET" | "DEL" | "UNLINK");
            let drawn = Drawn { words, reads, timed: false, shape: Shape::Exact };
            let part = Asked { family, drawn, sent_ms: unix_ms(now), resp3: self.profile.resp3 };
            request.extend(part.words().into_iter().skip(1));
            parts.push(part);
        }
        Sent { bytes: words_of(&request), expect: Some(Expect::Parts(parts)) }
    }

    /// Goes to another database, or to the other protocol.
    fn change_profile(&mut self, prng: &mut Prng) -> Sent {
        let (bytes, expect) = match prng.below(8) {
            drawn if self.tracker.is_some() && drawn > 0 => {
                // The client stays in the database whose keys it tracks.
                (words(&[b"SELECT", b"0"]), Expect::Exactly(b"+OK\r\n".to_vec()))
            }
            0 => {
                self.forget_connection();
                (words(&[b"RESET"]), Expect::Reset)
            }
            1..=2 => {
                let resp3 = prng.one_in(2);
                self.profile.resp3 = resp3;
                (words(&[b"HELLO", if resp3 { b"3" } else { b"2" }]), Expect::Greeting { resp3 })
            }
            _ => {
                self.profile.database = prng.below(self.databases) as u8;
                let index = self.profile.database.to_string();
                (words(&[b"SELECT", index.as_bytes()]), Expect::Exactly(b"+OK\r\n".to_vec()))
            }
        };
        Sent { bytes, expect: Some(expect) }
    }

    /// Keys of database 0, asked for in another.
    fn get_nothing(&self, prng: &mut Prng) -> Sent {
        let key = if prng.one_in(2) { self.foreign_key(prng) } else { lasting_key(0) };
        let mut nil = Vec::new();
        resp::encode::null(&mut nil, self.profile.resp3);
        Sent { bytes: words(&[b"GET", &key]), expect: Some(Expect::Reply(nil)) }
    }

    fn set(&self, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        let key = self.own_key(prng);
        let value = self.value(&key, prng, ledger);
        let name: &[u8] = if prng.one_in(2) { b"SET" } else { b"set" };
        let bytes = words(&[name, &key, &value]);
        Sent { bytes, expect: Some(Expect::Write(vec![(key, Some(value))])) }
    }

    fn get(&self, prng: &mut Prng) -> Sent {
        let own = prng.one_in(2);
        let key = if own { self.own_key(prng) } else { self.foreign_key(prng) };
        let bytes = match prng.below(4) {
            0 => [b"get ", key.as_slice(), b"\r\n"].concat(),
            _ => words(&[b"GET", &key]),
        };
        Sent { bytes, expect: Some(Expect::Value { key, own }) }
    }

    fn mset(&self, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        let mut request: Vec<Vec<u8>> = vec![b"MSET".to_vec()];
        let mut writes: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        for _ in 0..1 + prng.below(12) {
            let key = self.own_key(prng);
            if writes.iter().any(|(other, _)| *other == key) {
                continue;
            }
            let value = self.value(&key, prng, ledger);
            request.extend([key.clone(), value.clone()]);
            writes.push((key, Some(value)));
        }
        Sent { bytes: words_of(&request), expect: Some(Expect::Write(writes)) }
    }

    fn mget(&self, prng: &mut Prng) -> Sent {
        let own = prng.one_in(2);
        let count = 1 + prng.below(12);
        let keys: Vec<Vec<u8>> =
            (0..count).map(|_| if own { self.own_key(prng) } else { self.foreign_key(prng) }).collect();
        let request: Vec<Vec<u8>> = [b"mget".to_vec()].into_iter().chain(keys.iter().cloned()).collect();
        Sent { bytes: words_of(&request), expect: Some(Expect::Values { keys, own }) }
    }

    fn delete(&self, prng: &mut Prng) -> Sent {
        let mut keys: Vec<Vec<u8>> = (0..1 + prng.below(5)).map(|_| self.own_key(prng)).collect();
        keys.sort();
        keys.dedup();
        let name: &[u8] = if prng.one_in(2) { b"DEL" } else { b"UNLINK" };
        let request: Vec<Vec<u8>> = [name.to_vec()].into_iter().chain(keys.iter().cloned()).collect();
        let writes = keys.into_iter().map(|key| (key, None)).collect();
        Sent { bytes: words_of(&request), expect: Some(Expect::Write(writes)) }
    }

    fn count(&self, prng: &mut Prng) -> Sent {
        let count = 1 + prng.below(6);
        let name: &[u8] = if prng.one_in(2) { b"EXISTS" } else { b"TOUCH" };
        let keys = (0..count).map(|_| self.foreign_key(prng));
        let request: Vec<Vec<u8>> = [name.to_vec()].into_iter().chain(keys).collect();
        Sent { bytes: words_of(&request), expect: Some(Expect::Between(0, count as i64)) }
    }

    fn scan(&self, prng: &mut Prng) -> Sent {
        let cursor = self.cursor.to_string();
        let mut request: Vec<&[u8]> = vec![b"SCAN", cursor.as_bytes()];
        let count = *prng.pick(&["1", "30", "300"]);
        if prng.one_in(2) || count == "300" {
            request.extend([&b"COUNT"[..], count.as_bytes()]);
        }
        Sent { bytes: words(&request), expect: Some(Expect::ScanPage) }
    }

    fn learnt(&self, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        let key = self.own_key(prng);
        if prng.one_in(2) {
            return Sent {
                bytes: words(&[b"stamp.get", &key]),
                expect: Some(Expect::Value { key, own: true }),
            };
        }
        let value = self.value(&key, prng, ledger);
        let bytes = words(&[b"STAMP.SET", &key, &value]);
        Sent { bytes, expect: Some(Expect::Write(vec![(key, Some(value))])) }
    }

    fn refused(&self, prng: &mut Prng) -> Sent {
        let key = self.own_key(prng);
        let bytes = match prng.below(5) {
            0 => words(&[b"GET"]),
            1 => words(&[b"nosuchcommand", &key]),
            2 => words(&[b"LPOP", &key, b"-1"]),
            3 => words(&[b"OBJECT", b"nothing"]),
            _ => words(&[b"MSET", &key, b"1", b"other"]),
        };
        Sent { bytes, expect: Some(Expect::OwnError) }
    }
}

/// A key that every node has from the beginning: a node without it has no data.
fn get_lasting(prng: &mut Prng) -> Sent {
    let number = prng.below(LASTING_KEYS as u64) as usize;
    let bytes = words(&[b"GET", &lasting_key(number)]);
    Sent { bytes, expect: Some(Expect::Reply(bulk(&lasting_value(number)))) }
}

/// Commands that all shards answer together.
fn all_shards(prng: &mut Prng) -> Sent {
    let (bytes, expect) = match prng.below(4) {
        3 => (words(&[b"INFO", b"keyspace"]), Expect::Report),
        0 => (words(&[b"DBSIZE"]), Expect::Between(LASTING_KEYS as i64, i64::MAX)),
        1 => (words(&[b"KEYS", b"*"]), Expect::AllKeys),
        _ => (words(&[b"RANDOMKEY"]), Expect::SomeKey),
    };
    Sent { bytes, expect: Some(expect) }
}

/// All shards are asked; only a wait for no replicas ends at once.
fn wait_for_replicas(prng: &mut Prng) -> Sent {
    let replicas: &[u8] = if prng.one_in(4) { b"0" } else { b"1" };
    let patience: &[u8] = if prng.one_in(2) { b"5" } else { b"200" };
    Sent { bytes: words(&[b"WAIT", replicas, patience]), expect: Some(Expect::Replicas) }
}

/// A request that the proxy answers by itself.
fn local(resp3: bool, prng: &mut Prng) -> Sent {
    let nonce = format!("n{}", prng.below(1 << 40));
    let (bytes, reply) = match prng.below(8) {
        6 => (words(&[b"CLIENT", b"KILL", b"ID", b"999999999"]), b":0\r\n".to_vec()),
        7 => {
            let mut nobody = Vec::new();
            resp::encode::verbatim(&mut nobody, b"", resp3);
            (words(&[b"CLIENT", b"LIST", b"ID", b"999999999"]), nobody)
        }
        0 => (b"PING\r\n".to_vec(), b"+PONG\r\n".to_vec()),
        1 => (words(&[b"ping", nonce.as_bytes()]), bulk(nonce.as_bytes())),
        2 => (words(&[b"SELECT", b"16"]), b"-ERR DB index is out of range\r\n".to_vec()),
        3 => (words(&[b"CLIENT", b"SETNAME", nonce.as_bytes()]), b"+OK\r\n".to_vec()),
        4 => (format!("ECHO \"{nonce}\"\n").into_bytes(), bulk(nonce.as_bytes())),
        _ => (words(&[b"ECHO", nonce.as_bytes()]), bulk(nonce.as_bytes())),
    };
    Sent { bytes, expect: Some(Expect::Exactly(reply)) }
}

/// Bytes that get no reply.
fn nothing(prng: &mut Prng) -> Sent {
    let bytes: &[u8] = match prng.below(4) {
        0 => b"\r\n",
        1 => b"*0\r\n",
        2 => b"*-1\r\n",
        _ => b"  \n",
    };
    Sent { bytes: bytes.to_vec(), expect: None }
}

pub(crate) fn words(request: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::encode::request(&mut bytes, request);
    bytes
}

pub(crate) fn words_of(request: &[Vec<u8>]) -> Vec<u8> {
    words(&request.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn bulk(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::encode::bulk(&mut bytes, body);
    bytes
}
