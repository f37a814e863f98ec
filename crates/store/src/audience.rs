//! Observers of changes: connections that WATCH keys, wait for keys, listen to notifications, or track all keys.
//!
//! Usually there is none. A change then costs one look at [`Audience::is_there`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::caller_id::CallerId;
use crate::database::DATABASES;

/// Keyed by database, then by key.
type ByKey<T> = Vec<BTreeMap<Box<[u8]>, T>>;

/// A key and its database.
pub(crate) type Place = (u8, Box<[u8]>);

/// All observers, and the events that they have not received yet.
pub(crate) struct Audience {
    is_there: bool,
    watched: ByKey<Vec<Watch>>,
    /// Connections of whose watched keys at least one changed.
    touched: BTreeSet<CallerId>,
    /// Connections that wait for a key, in the order of their arrival.
    queues: ByKey<VecDeque<CallerId>>,
    /// Keys that a connection waits for and that may satisfy it now, in the order of these changes.
    ready: VecDeque<Place>,
    /// Enabled classes of notifications, as bits.
    classes: u16,
    /// Events that no message was sent for yet.
    events: VecDeque<Event>,
    /// Connections that track every key.
    trackers: BTreeSet<CallerId>,
    /// Changes that the trackers have not received yet.
    changes: Changes,
}

/// Changes since the last message to the trackers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) keys: BTreeSet<Box<[u8]>>,
    /// At least one database lost all its keys.
    pub(crate) is_flush: bool,
}

/// One key that one caller watches.
struct Watch {
    caller: CallerId,
    /// The key had expired when the watch began, but was not removed yet. Its removal is no change.
    is_expired: bool,
}

/// Something that happened to a key.
pub(crate) struct Event {
    pub(crate) database: u8,
    pub(crate) key: Box<[u8]>,
    pub(crate) name: &'static str,
    /// Whether the channel of the key, and that of the event, get a message.
    pub(crate) channels: (bool, bool),
}

/// Class of the event: a letter of `notify-keyspace-events`.
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
    /// Events of modules, which do not exist here.
    Module,
    New,
    /// No class of events: selects the channel of the key.
    ByKey,
    /// Selects the channel of the event.
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

/// The meaning of the letter A: the first ten classes.
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
    /// Whether a change may have an observer.
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

    /// Returns false if the caller watches the key already.
    pub(crate) fn watch(&mut self, caller: CallerId, database: u8, key: &[u8], is_expired: bool) -> bool {
        let watches = self.watched[usize::from(database)].entry(key.into()).or_default();
        let is_new = watches.iter().all(|watch| watch.caller != caller);
        if is_new {
            watches.push(Watch { caller, is_expired });
        }
        self.is_there = true;
        is_new
    }

    /// Ends all watches of the caller.
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

    /// Whether a watched key had expired when its watch began.
    pub(crate) fn was_expired(&self, caller: CallerId, (database, key): &Place) -> bool {
        let watches = self.watched[usize::from(*database)].get(key);
        watches.into_iter().flatten().any(|watch| watch.caller == caller && watch.is_expired)
    }

    /// Marks a changed key; `exists` says whether it is there now.
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

    /// Marks all keys of a database as removed, or as exchanged for others. `before` and `after` say whether a key was and is
    /// there. `is_over` says whether it has expired.
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

    /// Puts the caller at the end of the key's queue.
    pub(crate) fn enqueue(&mut self, caller: CallerId, database: u8, key: &[u8]) {
        self.queues[usize::from(database)].entry(key.into()).or_default().push_back(caller);
        self.is_there = true;
    }

    /// Takes the caller out of the queues of these keys.
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

    /// The queue of a key.
    pub(crate) fn queue(&mut self, database: u8, key: &[u8]) -> Option<&mut VecDeque<CallerId>> {
        self.queues[usize::from(database)].get_mut(key)
    }

    /// The keys of a database that a connection waits for.
    pub(crate) fn waited_for(&self, database: u8) -> impl Iterator<Item = &[u8]> {
        self.queues[usize::from(database)].keys().map(|key| &**key)
    }

    /// Marks a key as ready: its waiting connections may find what they need.
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

    /// Starts or stops the tracking of every key for the caller.
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

    /// FLUSHALL or FLUSHDB, even of an empty database.
    pub(crate) fn flush(&mut self) {
        self.changes.is_flush |= !self.trackers.is_empty();
    }

    /// Takes the changes for the trackers, with the trackers; `None` if there are none.
    pub(crate) fn take_changes(&mut self) -> Option<(Changes, Vec<CallerId>)> {
        if self.changes == Changes::default() {
            return None;
        }
        Some((std::mem::take(&mut self.changes), self.trackers.iter().copied().collect()))
    }

    // Notifications.

    /// Sets `notify-keyspace-events` by its letters. Returns false and changes nothing if a letter is unknown.
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

    /// Queues an event if its class is enabled.
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
