//! Actions that take several requests: transactions of a client's own keys, and elements that it pushes to queues for waiting
//! clients.

use crate::ledger::{Ledger, Told, text};
use crate::program::{Expect, Program, Sent, words};
use resp::reply;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Prng;

/// One command of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A stamped value is written.
    Set { key: Vec<u8>, value: Vec<u8> },
    /// And read.
    Get { key: Vec<u8> },
    /// All shards are asked how many keys there are.
    Count,
    /// Several stamped values in one command, whose keys may be on several shards.
    SetAll { pairs: Vec<(Vec<u8>, Vec<u8>)> },
}

impl Step {
    /// The keys and values that it writes.
    pub(crate) fn writes(&self) -> Vec<(&[u8], &[u8])> {
        match self {
            Step::Set { key, value } => vec![(key, value)],
            Step::Get { .. } | Step::Count => Vec::new(),
            Step::SetAll { pairs } => pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect(),
        }
    }

    /// Records the outcome of its writes.
    pub(crate) fn told(&self, told: Told, ledger: &mut Ledger) {
        self.writes().into_iter().for_each(|(key, value)| ledger.told(key, Some(value), told));
    }

    /// Its one key, if it has one.
    fn key(&self) -> Option<&[u8]> {
        match self {
            Step::Set { key, .. } | Step::Get { key } => Some(key),
            Step::SetAll { .. } | Step::Count => None,
        }
    }
}

/// A transaction and its circumstances.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    /// Its commands; none if it only tests the protocol.
    pub steps: Vec<Step>,
    /// Whether a key was watched; the second says whether it was changed before MULTI.
    pub watched: bool,
    /// See there.
    pub changed: bool,
}

impl Transaction {
    /// Records the outcome of all its writes.
    pub(crate) fn told(&self, told: Told, ledger: &mut Ledger) {
        self.steps.iter().for_each(|step| step.told(told, ledger));
    }

    /// The outcome of each step of a transaction over several shards. All steps of one part must have the same outcome;
    /// otherwise it returns an error. `replies` answer the steps.
    pub(crate) fn fates(&self, replies: &[&[u8]], ledger: &Ledger) -> Result<Vec<Told>, String> {
        let mut of_division = BTreeMap::new();
        let mut fates = Vec::new();
        for (step, reply) in self.steps.iter().zip(replies) {
            let fate = fate(reply).ok_or_else(|| format!("EXEC says {:?}", text(reply)))?;
            if let Some(key) = step.key()
                && *of_division.entry(ledger.division_of(key)).or_insert(fate) != fate
            {
                return Err(format!("a part of a transaction ran in part: {step:?}"));
            }
            fates.push(fate);
        }
        Ok(fates)
    }
}

/// The outcome that one reply states for its command; `None` if it is an unexpected error.
fn fate(reply: &[u8]) -> Option<Told> {
    if !reply::is_error(reply) {
        return Some(Told::Done);
    }
    let line = String::from_utf8_lossy(reply);
    let is_unknown = line.contains("outcome unknown (shard ")
        || line.contains("other parts of this command may have been applied");
    match line.starts_with("-ERR not run ") {
        true if !is_unknown => Some(Told::NotSent),
        _ => (line.starts_with("-ERR ") && is_unknown).then_some(Told::Unknown),
    }
}

/// Queues that all clients push to and wait at.
const QUEUES: u64 = 3;

fn queue_key(number: u64) -> Vec<u8> {
    format!("queue{number}").into_bytes()
}

impl Program {
    /// A transaction on own keys, from WATCH to its end. Most often all keys are in one division.
    pub(crate) fn transaction(&self, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        if ledger.is_per_shard {
            return self.transaction_over_shards(prng, ledger);
        }
        let first = self.own_key(prng);
        let shard = ledger.division_of(&first);
        let (watched, changed, strays) = (prng.one_in(3), prng.one_in(3), prng.one_in(8));
        let mut bytes = Vec::new();
        let mut expects = Vec::new();
        let mut send = |request: Vec<u8>, expect| {
            bytes.extend(request);
            expects.push(expect);
        };
        if watched {
            send(words(&[b"WATCH", &first]), Expect::Watched);
            if changed {
                let value = self.value(&first, prng, ledger);
                send(words(&[b"SET", &first, &value]), Expect::Write(vec![(first.clone(), Some(value))]));
            }
        }
        send(words(&[b"MULTI"]), Expect::Exactly(b"+OK\r\n".to_vec()));
        let (mut steps, mut is_spoilt) = (Vec::new(), false);
        // A transaction without keyed commands is on no shard but those of its watched keys.
        let mut placed = watched.then_some(shard);
        for number in 0..1 + prng.below(4) {
            let key = if number == 0 { first.clone() } else { self.own_key(prng) };
            let its = ledger.division_of(&key);
            if its != shard && !strays {
                continue;
            }
            let fits = placed.is_none_or(|shard| shard == its);
            placed.get_or_insert(its);
            let expected: &[u8] = if fits || is_spoilt { b"+QUEUED\r\n" } else { CROSS_SLOT };
            is_spoilt |= !fits;
            if prng.one_in(6) {
                send(words(&[b"DBSIZE"]), Expect::Exactly(b"+QUEUED\r\n".to_vec()));
                steps.push(Step::Count);
            }
            let step = if prng.one_in(4) {
                send(words(&[b"GET", &key]), Expect::Exactly(expected.to_vec()));
                Step::Get { key }
            } else {
                let value = self.value(&key, prng, ledger);
                send(words(&[b"SET", &key, &value]), Expect::Exactly(expected.to_vec()));
                Step::Set { key, value }
            };
            steps.push(step);
        }
        let transaction = Transaction { steps, watched, changed: watched && changed };
        match prng.below(6) {
            0 => send(words(&[b"DISCARD"]), Expect::Discarded(transaction, b"+OK\r\n")),
            _ if is_spoilt => send(words(&[b"EXEC"]), Expect::Discarded(transaction, ABORTED)),
            _ => send(words(&[b"EXEC"]), Expect::Executed(transaction)),
        }
        Sent { bytes, expect: Some(Expect::Each(expects)) }
    }

    /// A transaction on any shards. One of up to two watched keys may be changed before MULTI.
    fn transaction_over_shards(&self, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        let mut bytes = Vec::new();
        let mut expects = Vec::new();
        let mut send = |request: Vec<u8>, expect| {
            bytes.extend(request);
            expects.push(expect);
        };
        let watched: Vec<Vec<u8>> = match prng.below(4) {
            0 => vec![self.own_key(prng)],
            1 => vec![self.own_key(prng), self.own_key(prng)],
            _ => Vec::new(),
        };
        let changed = !watched.is_empty() && prng.one_in(3);
        if !watched.is_empty() {
            let mut names: Vec<&[u8]> = vec![b"WATCH"];
            names.extend(watched.iter().map(Vec::as_slice));
            send(words(&names), Expect::Watched);
        }
        if changed {
            let key = prng.pick(&watched).clone();
            let value = self.value(&key, prng, ledger);
            send(words(&[b"SET", &key, &value]), Expect::Write(vec![(key, Some(value))]));
        }
        send(words(&[b"MULTI"]), Expect::Exactly(b"+OK\r\n".to_vec()));
        let mut steps = Vec::new();
        for _ in 0..1 + prng.below(6) {
            let (request, step) = self.step(prng, ledger);
            send(request, Expect::Exactly(b"+QUEUED\r\n".to_vec()));
            steps.push(step);
        }
        let transaction = Transaction { steps, watched: !watched.is_empty(), changed };
        match prng.below(6) {
            0 => send(words(&[b"DISCARD"]), Expect::Discarded(transaction, b"+OK\r\n")),
            _ => send(words(&[b"EXEC"]), Expect::Executed(transaction)),
        }
        Sent { bytes, expect: Some(Expect::Each(expects)) }
    }

    /// A command of a transaction over several shards.
    fn step(&self, prng: &mut Prng, ledger: &mut Ledger) -> (Vec<u8>, Step) {
        let key = self.own_key(prng);
        match prng.below(6) {
            0 => (words(&[b"GET", &key]), Step::Get { key }),
            1 => {
                let keys: BTreeSet<Vec<u8>> = (0..3).map(|_| self.own_key(prng)).collect();
                let pairs: Vec<(Vec<u8>, Vec<u8>)> =
                    keys.into_iter().map(|key| (key.clone(), self.value(&key, prng, ledger))).collect();
                let mut request: Vec<&[u8]> = vec![b"MSET"];
                pairs.iter().for_each(|(key, value)| request.extend([&key[..], value]));
                (words(&request), Step::SetAll { pairs })
            }
            _ => {
                let value = self.value(&key, prng, ledger);
                (words(&[b"SET", &key, &value]), Step::Set { key, value })
            }
        }
    }

    /// Pushes an element for a waiting client.
    pub(crate) fn push(&self, prng: &mut Prng, ledger: &mut Ledger) -> Sent {
        let key = queue_key(prng.below(QUEUES));
        let element = ledger.queues.element(&key);
        let expect = Expect::Pushed { key: key.clone(), element: element.clone() };
        Sent { bytes: words(&[b"RPUSH", &key, &element]), expect: Some(expect) }
    }

    /// A client waits for an element, or ends the wait of another.
    pub(crate) fn pop(&self, prng: &mut Prng, ledger: &Ledger) -> Sent {
        let mut keys = vec![queue_key(prng.below(QUEUES))];
        if ledger.model.carries_across && prng.one_in(2) {
            keys.extend((0..1 + prng.below(3)).map(|_| queue_key(prng.below(QUEUES))));
        }
        if prng.one_in(8) {
            let client = (1 + prng.below(20)).to_string();
            let bytes = words(&[b"CLIENT", b"UNBLOCK", client.as_bytes()]);
            return Sent { bytes, expect: Some(Expect::Between(0, 1)) };
        }
        let name: &[u8] = if prng.one_in(2) { b"BLPOP" } else { b"brpop" };
        let time = *prng.pick(&["0.05", "0.05", "0.05", "1"]);
        let several: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let bytes = words(&[&[name][..], &several, &[time.as_bytes()]].concat());
        Sent { bytes, expect: Some(Expect::Popped { keys }) }
    }
}

/// The beginning of the error; its end names the remedy.
pub(crate) const CROSS_SLOT: &[u8] =
    b"-CROSSSLOT Keys in request don't hash to the same slot. To make it work, ";
const ABORTED: &[u8] = b"-EXECABORT Transaction discarded because of previous errors.\r\n";

/// The queues of a world.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    queues: BTreeMap<Vec<u8>, Queue>,
    /// Number of elements so far.
    elements: u64,
}

/// One queue: every element has a name of its own.
#[derive(Debug, Default)]
struct Queue {
    /// Names that were given out.
    named: BTreeSet<Vec<u8>>,
    /// Of these, acknowledged.
    pushed: BTreeSet<Vec<u8>>,
    /// Pushed elements whose clients got an error that says they were not sent.
    never_sent: BTreeSet<Vec<u8>>,
    popped: BTreeSet<Vec<u8>>,
    /// Pops whose outcome is unknown.
    unknown_pops: usize,
    /// Its node has lost its data.
    forgotten: bool,
}

impl Queues {
    /// A new element for the queue at `key`.
    fn element(&mut self, key: &[u8]) -> Vec<u8> {
        self.elements += 1;
        let element = format!("element{}", self.elements).into_bytes();
        self.queues.entry(key.to_vec()).or_default().named.insert(element.clone());
        element
    }

    /// Records the outcome of the push of `element`.
    pub(crate) fn told(&mut self, key: &[u8], element: &[u8], told: Told) {
        let queue = self.queues.entry(key.to_vec()).or_default();
        match told {
            Told::Done => drop(queue.pushed.insert(element.to_vec())),
            Told::NotSent => drop(queue.never_sent.insert(element.to_vec())),
            Told::Unknown => {}
        }
    }

    /// The outcome of a pop from one of `keys` is unknown.
    pub(crate) fn pop_lost(&mut self, keys: &[Vec<u8>]) {
        let keys: BTreeSet<&Vec<u8>> = keys.iter().collect();
        keys.into_iter().for_each(|key| self.queues.entry(key.clone()).or_default().unknown_pops += 1);
    }

    /// A pop from one of `keys` returned `reply`. Returns an error if the reply is wrong.
    pub(crate) fn popped(&mut self, keys: &[Vec<u8>], reply: &[u8]) -> Result<(), String> {
        if reply == b"*-1\r\n" || reply == b"_\r\n" {
            return Ok(());
        }
        let parts: Vec<&[u8]> =
            reply::elements(reply).into_iter().flatten().filter_map(reply::as_bulk).collect();
        match parts[..] {
            [found, element] if keys.iter().any(|key| key == found) => {
                self.queues.entry(found.to_vec()).or_default().take(element)
            }
            _ => Err(format!("a pop from {:?} brought {:?}", text(&keys.join(&b' ')), text(reply))),
        }
    }

    /// The node of some of the queues has lost its data.
    pub(crate) fn forget(&mut self, is_there: impl Fn(&[u8]) -> bool) {
        self.queues.iter_mut().filter(|(key, _)| is_there(key)).for_each(|(_, queue)| queue.forgotten = true);
    }

    /// The keys of all queues.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.queues.keys().cloned().collect()
    }

    /// Checks at the end whether `left` are the elements that must still be in the queue at `key`.
    pub(crate) fn check_end(&mut self, key: &[u8], left: &[Vec<u8>]) -> Result<(), String> {
        let queue = self.queues.entry(key.to_vec()).or_default();
        left.iter().try_for_each(|element| queue.take(element))?;
        let lost = queue.pushed.difference(&queue.popped).count();
        if lost > queue.unknown_pops && !queue.forgotten {
            return Err(format!(
                "{lost} elements of {:?} are lost, and {} pops are open",
                text(key),
                queue.unknown_pops
            ));
        }
        Ok(())
    }
}

impl Queue {
    /// Checks that a popped `element` may exist and comes for the first time.
    fn take(&mut self, element: &[u8]) -> Result<(), String> {
        if !self.named.contains(element) || self.never_sent.contains(element) {
            return Err(format!("{:?} was never pushed", text(element)));
        }
        match self.popped.insert(element.to_vec()) {
            true => Ok(()),
            // Its removal is lost as well.
            false if self.forgotten => Ok(()),
            false => Err(format!("{:?} came twice", text(element))),
        }
    }
}

/// The names of all queues that there may be.
pub(crate) fn queue_names() -> impl Iterator<Item = Vec<u8>> {
    (0..QUEUES).map(queue_key)
}

/// The steps' replies in `reply`, if it is an array of that length.
pub(crate) fn replies_of<'a>(reply: &'a [u8], steps: &[Step]) -> Option<Vec<&'a [u8]>> {
    let replies: Vec<&[u8]> = reply::elements(reply)?.collect();
    (replies.len() == steps.len()).then_some(replies)
}
