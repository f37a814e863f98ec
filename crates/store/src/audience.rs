//! Who is told when keys change: those who WATCH them, those who wait for them, those who listen to notifications, those
//! who track all keys.
//!
//! Most of the time there is nobody, and a change costs one look at [`Audience::is_there`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::callers::CallerId;
use crate::database::DATABASES;

/// By database, and then by key.
type ByKey<T> = Vec<BTreeMap<Box<[u8]>, T>>;

/// A key and its database.
pub(crate) type Place = (u8, Box<[u8]>);

/// Who is told of changes, and what is still to be told.
pub(crate) struct Audience {
    is_there: bool,
    watched: ByKey<Vec<Watch>>,
    /// Those of whose watched keys one was changed.
    touched: BTreeSet<CallerId>,
    /// Who waits for a key, in the order in which they came.
    queues: ByKey<VecDeque<CallerId>>,
    /// Keys that somebody waits for and that may have what they want, in the order in which that happened.
    ready: VecDeque<Place>,
    /// What is notified of, as bits.
    classes: u16,
    /// What happened and was not notified of yet.
    events: VecDeque<Event>,
    /// Who is told of every key that changes.
    trackers: BTreeSet<CallerId>,
    /// What they were not told of yet.
    changes: Changes,
}

/// What changed since those who track were told last.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) keys: BTreeSet<Box<[u8]>>,
    /// All keys went, of one database at least.
    pub(crate) is_flush: bool,
}

/// One key that one caller watches.
struct Watch {
    caller: CallerId,
    /// Its time was over when the watch began, though it was still there: that it goes is no change.
    is_expired: bool,
}

/// Something that happened to a key.
pub(crate) struct Event {
    pub(crate) database: u8,
    pub(crate) key: Box<[u8]>,
    pub(crate) name: &'static str,
    /// Whether it is told to the channel of the key, and to that of the event.
    pub(crate) channels: (bool, bool),
}

/// What kind of event it is: a letter of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Generic,
    Text,
    List,
    Set,
    Hash,
    Zset,
    Expired,
    Evicted,
    Stream,
    /// Of modules, which there are none of.
    Module,
    New,
    /// Not an event, but a way of telling it: to the channel of the key.
    ByKey,
    /// To the channel of the event.
    ByEvent,
}

impl Class {
    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The letters in the order in which CONFIG GET shows them.
const LETTERS: [(u8, Class); 13] = [
    (b'g', Class::Generic),
    (b'$', Class::Text),
    (b'l', Class::List),
    (b's', Class::Set),
    (b'h', Class::Hash),
    (b'z', Class::Zset),
    (b'x', Class::Expired),
    (b'e', Class::Evicted),
    (b't', Class::Stream),
    (b'd', Class::Module),
    (b'n', Class::New),
    (b'K', Class::ByKey),
    (b'E', Class::ByEvent),
];

/// What the letter A stands for: the first ten.
const ALL: u16 = Class::New.bit() - 1;

impl Default for Audience {
    fn default() -> Audience {
        let (databases, touched) = (usize::from(DATABASES), BTreeSet::new());
        Audience {
            is_there: false,
            watched: std::iter::repeat_with(BTreeMap::new).take(databases).collect(),
            touched,
            queues: std::iter::repeat_with(BTreeMap::new).take(databases).collect(),
            ready: VecDeque::new(),
            classes: 0,
            events: VecDeque::new(),
            trackers: BTreeSet::new(),
            changes: Changes::default(),
        }
    }
}

impl Audience {
    /// Whether anybody would want to know of a change.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        self.is_there
    }

    fn look_around(&mut self) {
        let is_empty = |all: &BTreeMap<_, _>| all.is_empty();
        let is_quiet = self.watched.iter().all(is_empty) && self.queues.iter().all(BTreeMap::is_empty);
        self.is_there = !is_quiet || self.classes != 0 || !self.trackers.is_empty();
    }

    // WATCH.

    /// False if the caller watches the key already.
    pub(crate) fn watch(&mut self, caller: CallerId, database: u8, key: &[u8], is_expired: bool) -> bool {
        let watches = self.watched[usize::from(database)].entry(key.into()).or_default();
        let is_new = watches.iter().all(|watch| watch.caller != caller);
        if is_new {
            watches.push(Watch { caller, is_expired });
        }
        self.is_there = true;
        is_new
    }

    /// The caller watches nothing any more.
    pub(crate) fn unwatch(&mut self, caller: CallerId, places: &[Place]) {
        for (database, key) in places {
            let watched = &mut self.watched[usize::from(*database)];
            if let Some(watches) = watched.get_mut(key) {
                watches.retain(|watch| watch.caller != caller);
                if watches.is_empty() {
                    watched.remove(key);
                }
            }
        }
        self.touched.remove(&caller);
        self.look_around();
    }

    /// Whether a key that the caller watches was changed.
    pub(crate) fn is_touched(&self, caller: CallerId) -> bool {
        self.touched.contains(&caller)
    }

    /// Whether the time of a watched key was over before.
    pub(crate) fn was_expired(&self, caller: CallerId, (database, key): &Place) -> bool {
        let watches = self.watched[usize::from(*database)].get(key);
        watches.into_iter().flatten().any(|watch| watch.caller == caller && watch.is_expired)
    }

    /// A key was changed; `exists`: it is there now.
    pub(crate) fn touch(&mut self, database: u8, key: &[u8], exists: bool) {
        if !self.trackers.is_empty() && !self.changes.keys.contains(key) {
            self.changes.keys.insert(key.into());
        }
        let watches = self.watched[usize::from(database)].get_mut(key);
        for watch in watches.into_iter().flatten() {
            if watch.is_expired && !exists {
                watch.is_expired = false;
            } else {
                self.touched.insert(watch.caller);
            }
        }
    }

    /// All keys of a database went, or were exchanged for others. `before` and `after` say of a key whether it was and is
    /// there, `is_over` whether its time is over now.
    pub(crate) fn touch_all(
        &mut self,
        database: u8,
        before: impl Fn(&[u8]) -> bool,
        after: impl Fn(&[u8]) -> bool,
        is_over: impl Fn(&[u8]) -> bool,
    ) {
        for (key, watches) in &mut self.watched[usize::from(database)] {
            let (was, is) = (before(key), after(key));
            for watch in watches.iter_mut().filter(|_| was || is) {
                match (watch.is_expired, is) {
                    (true, false) => watch.is_expired = false,
                    (true, true) if is_over(key) => {}
                    (false, true) if !was && is_over(key) => watch.is_expired = true,
                    _ => _ = self.touched.insert(watch.caller),
                }
            }
        }
    }

    // Waiting.

    /// The caller waits for a key, behind those who came before.
    pub(crate) fn enqueue(&mut self, caller: CallerId, database: u8, key: &[u8]) {
        self.queues[usize::from(database)].entry(key.into()).or_default().push_back(caller);
        self.is_there = true;
    }

    /// The caller waits for none of these any more.
    pub(crate) fn dequeue(&mut self, caller: CallerId, database: u8, keys: &[Box<[u8]>]) {
        let queues = &mut self.queues[usize::from(database)];
        for key in keys {
            if let Some(queue) = queues.get_mut(key) {
                queue.retain(|other| *other != caller);
                if queue.is_empty() {
                    queues.remove(key);
                }
            }
        }
        self.look_around();
    }

    /// Those who wait for a key.
    pub(crate) fn queue(&mut self, database: u8, key: &[u8]) -> Option<&mut VecDeque<CallerId>> {
        self.queues[usize::from(database)].get_mut(key)
    }

    /// The keys of a database that somebody waits for.
    pub(crate) fn waited_for(&self, database: u8) -> impl Iterator<Item = &[u8]> {
        self.queues[usize::from(database)].keys().map(|key| &**key)
    }

    /// A key may have become what those who wait for it want.
    pub(crate) fn signal(&mut self, database: u8, key: &[u8]) {
        let is_waited_for = self.queues[usize::from(database)].contains_key(key);
        if is_waited_for && !self.ready.iter().any(|(other, known)| *other == database && **known == *key) {
            self.ready.push_back((database, key.into()));
        }
    }

    pub(crate) fn next_ready(&mut self) -> Option<Place> {
        self.ready.pop_front()
    }

    // CLIENT TRACKING.

    /// The caller is told of every key that changes, or not any more.
    pub(crate) fn track(&mut self, caller: CallerId, is_on: bool) {
        match is_on {
            true => _ = self.trackers.insert(caller),
            false => _ = self.trackers.remove(&caller),
        }
        if self.trackers.is_empty() {
            self.changes = Changes::default();
        }
        self.look_around();
    }

    /// FLUSHALL or FLUSHDB, whether there was a key or not.
    pub(crate) fn flush(&mut self) {
        self.changes.is_flush |= !self.trackers.is_empty();
    }

    /// What those who track are to be told now, and who they are; `None` if there is nothing.
    pub(crate) fn take_changes(&mut self) -> Option<(Changes, Vec<CallerId>)> {
        if self.changes == Changes::default() {
            return None;
        }
        Some((std::mem::take(&mut self.changes), self.trackers.iter().copied().collect()))
    }

    // Notifications.

    /// What `notify-keyspace-events` is set to, by its letters. False, and nothing changes, if one is none.
    pub(crate) fn listen(&mut self, letters: &[u8]) -> bool {
        let mut classes = 0;
        for letter in letters {
            classes |= match LETTERS.iter().find(|(known, _)| known == letter) {
                Some((_, class)) => class.bit(),
                None if *letter == b'A' => ALL,
                None => return false,
            };
        }
        self.classes = classes;
        self.look_around();
        true
    }

    /// The letters, as CONFIG GET shows them.
    pub(crate) fn letters(&self) -> Vec<u8> {
        let has_all = self.classes & ALL == ALL;
        let is_shown = |class: Class| {
            self.classes & class.bit() != 0 && !(has_all && class.bit() & (ALL | Class::New.bit()) != 0)
        };
        let each = LETTERS.iter().filter(|(_, class)| is_shown(*class)).map(|(letter, _)| *letter);
        has_all.then_some(b'A').into_iter().chain(each).collect()
    }

    /// Remembers an event, if anybody may listen to its kind.
    pub(crate) fn note(&mut self, database: u8, class: Class, name: &'static str, key: &[u8]) {
        let has = |class: Class| self.classes & class.bit() != 0;
        let channels = (has(Class::ByKey), has(Class::ByEvent));
        if has(class) && channels != (false, false) {
            self.events.push_back(Event { database, key: key.into(), name, channels });
        }
    }

    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
