//! The replies of one Redis: a reference store that runs every request of a client for its own keys.
//!
//! Keys come in families of three. A family belongs to one client, and lives on one shard where hash tags count. The client's
//! requests for a family run in the order in which they were sent. The reference store runs them in that order, so its replies
//! are the expected ones, byte for byte.
//!
//! Two things are unknown. One is the node's clock when a request ran: any time between sending and receiving. The other is
//! whether and when requests with an unknown outcome ran: at any time since, or still to come.
//!
//! So a family has several possible states, each under names of its own in the reference store. A reply that fits no state is a
//! violation. Otherwise the states that it fits stay.

use crate::draw::{Drawn, LETTERS, Shape};
use crate::keyspace::{CLOCK_STEP_MS, Profile, ask_in, new_store, read_key, sorted};
use crate::ledger::text;
use command::Across;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::Store;
use topology::{ShardId, Topology};

/// Names a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FamilyId {
    pub client: usize,
    pub number: u64,
    /// The database of its keys. Other databases have other keys of the same names.
    pub database: u8,
    /// Its keys have no hash tag: in a cluster they are in several slots.
    pub is_spread: bool,
}

impl FamilyId {
    /// The name of one of its keys.
    pub(crate) fn key(self, letter: u8) -> Vec<u8> {
        let [open, close] = if self.is_spread { ['<', '>'] } else { ['{', '}'] };
        let letter = char::from(b'a' + letter);
        format!("{letter}{open}f{}.{}{close}", self.client, self.number).into_bytes()
    }

    /// The names of all its keys.
    pub(crate) fn keys(self) -> impl Iterator<Item = Vec<u8>> {
        (0..LETTERS as u8).map(move |letter| self.key(letter))
    }
}

/// A word of a request.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    /// A key of the family.
    Key(u8),
    Text(Vec<u8>),
}

/// A request for keys of one family, or the part of one.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub family: FamilyId,
    pub drawn: Drawn,
    /// The nodes' clock when the request was sent.
    pub sent_ms: u64,
    /// The client spoke RESP3.
    pub resp3: bool,
}

impl Asked {
    /// The words as they are sent.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        words_in(&self.drawn.words, |letter| self.family.key(letter))
    }
}

/// See the file's beginning.
pub(crate) struct Model {
    topology: Arc<Topology>,
    store: Store,
    families: BTreeMap<FamilyId, Family>,
    /// Number of names for states so far.
    spaces: u64,
    /// Commands over several shards are carried out where that is possible.
    pub carries_across: bool,
    /// Replies that were compared while exactly one was possible.
    pub judged: u64,
    /// Replies of families of which too little is known.
    pub unjudged: u64,
}

/// Knowledge about one family.
#[derive(Default)]
struct Family {
    states: Vec<State>,
    /// Requests with unknown outcome: they ran, may still run, or never will.
    ghosts: Vec<Asked>,
    /// Something expires, or may: when a request ran makes a difference.
    timed: bool,
    /// There are too many possible states: nothing is checked any more.
    wild: bool,
}

/// One possible state of the keys.
#[derive(Clone, Copy)]
struct State {
    /// Under which names it stands in the reference store.
    space: u64,
    /// The ghosts that have not run in it, one bit each.
    pending: u32,
}

/// More are not followed.
const STATES_MAX: usize = 48;
const GHOSTS_MAX: usize = 5;
const TIMES_MAX: u64 = 16;

impl Model {
    pub(crate) fn new(topology: Arc<Topology>) -> Model {
        let (store, families) = (new_store(), BTreeMap::new());
        Model { topology, store, families, spaces: 0, carries_across: false, judged: 0, unjudged: 0 }
    }

    /// A family is used for the first time.
    pub(crate) fn open(&mut self, id: FamilyId) {
        let family = Family { states: vec![State { space: 0, pending: 0 }], ..Family::default() };
        self.families.insert(id, family);
    }

    /// Whether more than one state is possible: a client should then take another family.
    pub(crate) fn is_doubtful(&self, id: FamilyId) -> bool {
        self.families.get(&id).is_none_or(|family| family.wild || !family.ghosts.is_empty())
    }

    /// Whether a command over its keys runs in steps, each at its own time: time must not matter then.
    pub(crate) fn takes_steps(&self, id: FamilyId) -> bool {
        let shards: BTreeSet<u32> = id.keys().map(|key| self.topology.division_of(&key).0).collect();
        self.carries_across && shards.len() > 1
    }

    /// Whether a request is refused because its keys live on several shards.
    pub(crate) fn is_refused(&self, asked: &Asked) -> bool {
        let is_carried = || {
            let name = asked.words().into_iter().next().unwrap_or_default();
            command::find(&name).is_some_and(|command| command.across != Across::Refused)
        };
        self.is_cross_shard(asked) && !(self.carries_across && is_carried())
    }

    /// Whether the keys of a request are in several divisions of the keyspace.
    fn is_cross_shard(&self, asked: &Asked) -> bool {
        let letters = asked.drawn.words.iter().filter_map(|word| match word {
            Word::Key(letter) => Some(*letter),
            Word::Text(_) => None,
        });
        let shards: BTreeSet<u32> =
            letters.map(|letter| self.topology.division_of(&asked.family.key(letter)).0).collect();
        shards.len() > 1
    }

    /// Records the reply to a request. The error lists the possible replies.
    pub(crate) fn answered(&mut self, asked: &Asked, reply: &[u8], now_ms: u64) -> Result<(), String> {
        self.advance(asked, Some(reply), now_ms).map(|_| ())
    }

    /// Records one number as the sum of the replies to a request's parts.
    pub(crate) fn counted(&mut self, parts: &[Asked], sum: i64, now_ms: u64) -> Result<(), String> {
        let (mut low, mut high) = (0, 0);
        for part in parts {
            let replies = self.advance(part, None, now_ms)?;
            let counts: Vec<i64> =
                replies.iter().filter_map(|reply| resp::reply::as_integer(reply)).collect();
            low += counts.iter().min().copied().unwrap_or(0);
            high += counts.iter().max().copied().unwrap_or(1);
        }
        if (low..=high).contains(&sum) { Ok(()) } else { Err(format!("{low} to {high}")) }
    }

    /// Records a request without reply, which may have run or may still run.
    pub(crate) fn lost(&mut self, asked: &Asked) {
        let is_cross_shard = self.is_cross_shard(asked);
        let Some(family) = self.families.get_mut(&asked.family) else { return };
        if asked.drawn.reads || family.wild {
            return;
        }
        if is_cross_shard {
            // The request may have been carried out in part.
            return self.give_up(asked.family);
        }
        family.timed |= asked.drawn.timed;
        let bit = 1 << family.ghosts.len();
        family.ghosts.push(asked.clone());
        if family.ghosts.len() > GHOSTS_MAX {
            return self.give_up(asked.family);
        }
        family.states.iter_mut().for_each(|state| state.pending |= bit);
    }

    /// Records that a node may have lost all its data, now or in a moment, in the view of its clients.
    pub(crate) fn shard_lost(&mut self, shard: ShardId, now_ms: u64) {
        for family in self.families.keys().copied().collect::<Vec<_>>() {
            let on_shard = |letter: &u8| self.topology.shard_of(&family.key(*letter)) == shard;
            let letters: Vec<u8> = (0..LETTERS as u8).filter(on_shard).collect();
            if letters.is_empty() {
                continue;
            }
            let mut words = vec![Word::Text(b"DEL".to_vec())];
            words.extend(letters.into_iter().map(Word::Key));
            let drawn = Drawn { words, reads: false, timed: false, shape: Shape::Exact };
            self.lost(&Asked { family, drawn, sent_ms: now_ms, resp3: false });
        }
    }

    /// The last change of `key` may be lost or invisible. Its family is not judged any more.
    pub(crate) fn give_up_key(&mut self, key: &[u8]) {
        let of_key = self.families.keys().copied().find(|family| family.keys().any(|its| its == key));
        of_key.into_iter().for_each(|family| self.give_up(family));
    }

    /// All families of `client`.
    pub(crate) fn give_up_client(&mut self, client: usize) {
        let all = self.families.keys().copied().filter(|family| family.client == client);
        all.collect::<Vec<_>>().into_iter().for_each(|family| self.give_up(family));
    }

    /// All families, for the check at the end.
    pub(crate) fn families(&self) -> Vec<FamilyId> {
        self.families.keys().copied().collect()
    }

    /// Checks whether the keys of a family may hold `found` (in the form of [`read_key`]). The error has the possible values.
    pub(crate) fn check_end(&mut self, id: FamilyId, found: &[Vec<u8>], now_ms: u64) -> Result<(), String> {
        let Some(states) = self.haunted(id, now_ms) else { return Ok(()) };
        let mut possible = Vec::new();
        for state in states {
            let told: Vec<Vec<u8>> = id
                .keys()
                .map(|key| read_key(&mut self.store, id.database, &in_space(state.space, &key), now_ms))
                .collect();
            if told == found {
                return Ok(());
            }
            possible.push(told);
        }
        Err(format!("{} states, such as {:?}", possible.len(), shown(possible.first())))
    }

    /// Runs a request in the reference store. `reply` is the client's reply, if known.
    fn advance(
        &mut self,
        asked: &Asked,
        reply: Option<&[u8]>,
        now_ms: u64,
    ) -> Result<BTreeSet<Vec<u8>>, String> {
        let Some(family) = self.families.get_mut(&asked.family) else { return Ok(BTreeSet::new()) };
        family.timed |= asked.drawn.timed;
        let fits = |told: &[u8]| {
            reply.is_none_or(|reply| {
                reply == told || asked.drawn.shape.of(reply) == asked.drawn.shape.of(told)
            })
        };
        if let ([state], false) = (family.states.as_slice(), family.timed && asked.sent_ms < now_ms)
            && state.pending == 0
        {
            self.judged += 1;
            let told = run_in(&mut self.store, state.space, asked, now_ms);
            return if fits(&told) { Ok(BTreeSet::from([told])) } else { Err(text(&told)) };
        }
        let (Some(states), Some(times)) = (self.haunted(asked.family, now_ms), self.times(asked, now_ms))
        else {
            self.give_up(asked.family);
            self.unjudged += 1;
            return Ok(BTreeSet::new());
        };
        let (mut next, mut possible, mut seen) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for state in states {
            for &at in &times {
                let space = self.copied(asked.family, state.space);
                let told = run_in(&mut self.store, space, asked, at);
                let is_new = fits(&told) && seen.insert((self.look(asked.family, space), state.pending));
                possible.insert((fits(&told), told));
                if is_new {
                    next.push(State { space, pending: state.pending });
                } else {
                    self.forget(asked.family, space);
                }
            }
            self.forget(asked.family, state.space);
        }
        let fitting: BTreeSet<Vec<u8>> =
            possible.iter().filter(|(fits, _)| *fits).map(|(_, told)| told.clone()).collect();
        if fitting.is_empty() {
            return Err(possible.iter().map(|(_, told)| text(told)).collect::<Vec<_>>().join(" or "));
        }
        self.judged += u64::from(possible.len() == 1);
        if let Some(family) = self.families.get_mut(&asked.family) {
            family.states = next;
        }
        Ok(fitting)
    }

    /// Computes the states that are possible when ghosts may run in between; they replace those of the family. `None`: too
    /// many.
    fn haunted(&mut self, id: FamilyId, now_ms: u64) -> Option<Vec<State>> {
        let family = self.families.get(&id).filter(|family| !family.wild)?;
        let (mut states, ghosts) = (family.states.clone(), family.ghosts.clone());
        let mut seen: BTreeSet<_> =
            states.iter().map(|state| (self.look(id, state.space), state.pending)).collect();
        let mut at = 0;
        while let Some(&State { space, pending }) = states.get(at) {
            for (number, ghost) in ghosts.iter().enumerate().filter(|(number, _)| pending & 1 << number != 0)
            {
                for time in self.times(ghost, now_ms)? {
                    let (copy, pending) = (self.copied(id, space), pending & !(1 << number));
                    run_in(&mut self.store, copy, ghost, time);
                    if seen.insert((self.look(id, copy), pending)) {
                        states.push(State { space: copy, pending });
                    } else {
                        self.forget(id, copy);
                    }
                }
            }
            if states.len() > STATES_MAX {
                self.give_up(id);
                return None;
            }
            at += 1;
        }
        self.families.get_mut(&id)?.states.clone_from(&states);
        Some(states)
    }

    /// Possible times of the node's clock when the request ran. `None`: too many.
    fn times(&self, asked: &Asked, now_ms: u64) -> Option<Vec<u64>> {
        let family = self.families.get(&asked.family)?;
        if !family.timed {
            return Some(vec![now_ms]);
        }
        let steps = (now_ms - asked.sent_ms) / CLOCK_STEP_MS;
        (steps < TIMES_MAX).then(|| (0..=steps).map(|step| asked.sent_ms + step * CLOCK_STEP_MS).collect())
    }

    /// Copies the keys to new names. At time 0 nothing has expired, so all are copied.
    fn copied(&mut self, id: FamilyId, space: u64) -> u64 {
        self.spaces += 1;
        for key in id.keys() {
            let (from, to) = (in_space(space, &key), in_space(self.spaces, &key));
            ask_in(&mut self.store, profile_of(id), &[b"COPY", &from, &to, b"REPLACE"], 0, &mut Vec::new());
        }
        self.spaces
    }

    /// The content of a state, for comparison with others.
    fn look(&mut self, id: FamilyId, space: u64) -> Vec<u8> {
        id.keys().flat_map(|key| read_key(&mut self.store, id.database, &in_space(space, &key), 0)).collect()
    }

    fn forget(&mut self, id: FamilyId, space: u64) {
        for key in id.keys() {
            ask_in(&mut self.store, profile_of(id), &[b"DEL", &in_space(space, &key)], 0, &mut Vec::new());
        }
    }

    fn give_up(&mut self, id: FamilyId) {
        let Some(family) = self.families.get_mut(&id) else { return };
        family.wild = true;
        for state in std::mem::take(&mut family.states) {
            self.forget(id, state.space);
        }
    }
}

impl Shape {
    /// A reply in an order that depends only on its elements.
    fn of(self, reply: &[u8]) -> Vec<u8> {
        match self {
            Shape::Exact => reply.to_vec(),
            Shape::Entries(width) => sorted(reply, width),
            Shape::Page(width) => {
                let parts: Vec<&[u8]> = resp::reply::elements(reply).into_iter().flatten().collect();
                match parts.as_slice() {
                    [cursor, page] => [cursor, sorted(page, width).as_slice()].concat(),
                    _ => reply.to_vec(),
                }
            }
        }
    }
}

/// A key under its name in a state. In the first state the names are unchanged.
fn in_space(space: u64, key: &[u8]) -> Vec<u8> {
    if space == 0 { key.to_vec() } else { [space.to_string().as_bytes(), b":", key].concat() }
}

fn words_in(words: &[Word], name: impl Fn(u8) -> Vec<u8>) -> Vec<Vec<u8>> {
    let words = words.iter().map(|word| match word {
        Word::Key(letter) => name(*letter),
        Word::Text(text) => text.clone(),
    });
    words.collect()
}

/// Runs a request in one state.
fn run_in(store: &mut Store, space: u64, asked: &Asked, at_ms: u64) -> Vec<u8> {
    let words = words_in(&asked.drawn.words, |letter| in_space(space, &asked.family.key(letter)));
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let mut reply = Vec::new();
    let profile = Profile { resp3: asked.resp3, ..profile_of(asked.family) };
    ask_in(store, profile, &words, at_ms, &mut reply);
    reply
}

/// Where the keys of a family are.
fn profile_of(family: FamilyId) -> Profile {
    Profile { database: family.database, ..Profile::default() }
}

/// Keys for a message.
pub(crate) fn shown(keys: Option<&Vec<Vec<u8>>>) -> Vec<String> {
    keys.into_iter().flatten().map(|told| text(told)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{TopologySpec, parse_nodes};

    const FAMILY: FamilyId = FamilyId { client: 0, number: 0, database: 0, is_spread: false };
    const NOW_MS: u64 = 1_700_000_000_000;

    fn model() -> Model {
        let nodes = parse_nodes("10.0.0.1:6379").expect("an address");
        let topology = Topology::new(1, &TopologySpec { nodes, ..TopologySpec::default() }).expect("valid");
        let mut model = Model::new(Arc::new(topology));
        model.open(FAMILY);
        model
    }

    /// A request from a line of words, in which `k` is the first key of the family.
    fn asked(line: &str) -> Asked {
        let word = |word| if word == "k" { Word::Key(0) } else { Word::Text(Vec::from(word)) };
        let words = line.split(' ').map(word).collect();
        let timed = line.contains(" PX ");
        let drawn = Drawn { words, reads: line.starts_with("GET"), timed, shape: Shape::Exact };
        Asked { family: FAMILY, drawn, sent_ms: NOW_MS, resp3: false }
    }

    fn fits(model: &mut Model, line: &str, reply: &str) -> bool {
        model.answered(&asked(line), reply.as_bytes(), NOW_MS).is_ok()
    }

    #[test]
    fn only_replies_of_redis_fit() {
        let mut model = model();
        assert!(fits(&mut model, "RPUSH k a b", ":2\r\n"));
        assert!(!fits(&mut model, "LPOP k", "$1\r\nb\r\n"));
        assert!(fits(
            &mut model,
            "GET k",
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
        ));
    }

    #[test]
    fn a_lost_request_has_run_or_not_and_never_half() {
        for (reply, possible) in [(":1\r\n", true), (":11\r\n", true), (":2\r\n", false), (":21\r\n", false)]
        {
            let mut model = model();
            model.lost(&asked("INCRBY k 10"));
            assert_eq!(fits(&mut model, "INCR k", reply), possible, "{reply}");
        }
    }

    #[test]
    fn a_lost_request_may_run_late_but_only_once() {
        let mut model = model();
        model.lost(&asked("INCRBY k 10"));
        assert!(fits(&mut model, "INCR k", ":1\r\n"), "not yet");
        assert!(fits(&mut model, "INCR k", ":12\r\n"), "in between");
        assert!(!fits(&mut model, "INCR k", ":23\r\n"), "again");
    }

    #[test]
    fn expiry_is_judged_by_all_times_the_node_may_have_run_it() {
        let late = NOW_MS + 2 * CLOCK_STEP_MS;
        for (reply, possible) in [("$1\r\nv\r\n", true), ("$-1\r\n", true), ("$1\r\nw\r\n", false)] {
            let mut model = model();
            assert!(fits(&mut model, "SET k v PX 600", "+OK\r\n"));
            assert_eq!(model.answered(&asked("GET k"), reply.as_bytes(), late).is_ok(), possible, "{reply}");
        }
    }

    #[test]
    fn values_that_a_node_may_have_lost_fit_either_way() {
        let mut model = model();
        assert!(fits(&mut model, "SET k v", "+OK\r\n"));
        assert!(!model.is_doubtful(FAMILY));
        model.shard_lost(ShardId(0), NOW_MS);
        assert!(model.is_doubtful(FAMILY));
        assert!(fits(&mut model, "GET k", "$1\r\nv\r\n"));
        assert!(fits(&mut model, "GET k", "$-1\r\n"));
        assert!(!fits(&mut model, "GET k", "$1\r\nv\r\n"), "it does not come back");
    }
}
