//! Users and their parts.

use crate::bits::Bits;
use crate::password::Hash;
use command::{KeyFlags, Number};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The user that a client is until it says otherwise.
pub const DEFAULT: &[u8] = b"default";

/// All users at one time. There is always a default user.
#[derive(Clone, Debug)]
pub struct Users {
    /// Counts the changes.
    pub(crate) version: u64,
    pub(crate) by_name: BTreeMap<Box<[u8]>, Arc<User>>,
    /// Of all of them.
    pub(crate) held_bytes: usize,
}

impl Default for Users {
    /// The default user alone, without a password and with all permissions, as in a Redis without configuration.
    fn default() -> Users {
        Users::of([User::unlimited(DEFAULT)])
    }
}

impl Users {
    /// These users, with a default user who may do everything unless there is one among them.
    pub(crate) fn of(users: impl IntoIterator<Item = User>) -> Users {
        let mut all = Users { version: 0, by_name: BTreeMap::new(), held_bytes: 0 };
        all.insert(User::unlimited(DEFAULT));
        users.into_iter().for_each(|user| all.insert(user));
        all
    }

    /// `user` takes the place of the one of its name.
    pub(crate) fn insert(&mut self, user: User) {
        self.held_bytes += user.held_bytes();
        if let Some(before) = self.by_name.insert(user.name.clone(), Arc::new(user)) {
            self.held_bytes -= before.held_bytes();
        }
    }

    /// Removes the user `name`. Returns whether it existed.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let removed = self.by_name.remove(name);
        self.held_bytes -= removed.as_ref().map_or(0, |user| user.held_bytes());
        removed.is_some()
    }

    /// Bytes that all names and rules are counted for.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The same, and added up anew.
    pub fn account(&self) -> (usize, usize) {
        (self.held_bytes, self.iter().map(|user| user.held_bytes()).sum())
    }

    /// The default user alone, who may do everything after the login with `password`: Redis's `requirepass`.
    pub fn with_password(password: &[u8]) -> Users {
        let mut user = User::unlimited(DEFAULT);
        user.free = false;
        user.passwords.push(Hash::of(password));
        Users::of([user])
    }

    /// The user `name`.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// The user that a client is until it says otherwise.
    pub fn default_user(&self) -> &Arc<User> {
        self.by_name.get(DEFAULT).expect("there is always a default user")
    }

    /// All users in the order of their names, which is Redis's.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.by_name.values()
    }

    /// The user `name`, if it is enabled and `password` is one of its own.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<&Arc<User>> {
        // Hashed for unknown users too, so that the response time does not reveal user names.
        let hash = Hash::of(password);
        self.get(name).filter(|user| user.takes(hash) && user.enabled)
    }

    /// The first enabled user, in the order of names, that has `password`. Users without a password are none of them. predixy
    /// knows clients by their passwords alone.
    pub fn by_password(&self, password: &[u8]) -> Option<&Arc<User>> {
        let hash = Hash::of(password);
        // All are compared, even after a match.
        let has = |user: &&Arc<User>| !user.free & user.takes(hash) & user.enabled;
        self.iter().fold(None, |found, user| found.or_else(|| Some(user).filter(has)))
    }

    /// Counts the changes: of two [`Users`] of one [`Registry`](crate::Registry) the one with more is newer.
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// One user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub(crate) name: Box<[u8]>,
    /// `on`: clients may become this user.
    pub(crate) enabled: bool,
    /// `nopass`: any password will do.
    pub(crate) free: bool,
    /// `sanitize-payload` or `skip-sanitize-payload`, if one was given. It is only shown: nodes do as they are configured.
    pub(crate) sanitizes: Option<bool>,
    pub(crate) passwords: Vec<Hash>,
    /// Permissions by the rules outside of parentheses.
    pub(crate) root: Selector,
    /// Other things that it may do.
    pub(crate) selectors: Vec<Selector>,
}

impl User {
    /// A user as `ACL SETUSER name` makes it: it is off and may do nothing.
    pub(crate) fn new(name: &[u8]) -> User {
        User {
            name: name.into(),
            enabled: false,
            free: false,
            sanitizes: None,
            passwords: Vec::new(),
            root: Selector::default(),
            selectors: Vec::new(),
        }
    }

    /// A user without a password and with all permissions, so that the nodes decide.
    pub fn unlimited(name: &[u8]) -> User {
        let root =
            Selector { commands: Bits::ALL, all_keys: true, all_channels: true, ..Selector::default() };
        User { enabled: true, free: true, root, ..User::new(name) }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether a client is this user without a login: enabled, and any password will do.
    pub fn is_open(&self) -> bool {
        self.enabled && self.free
    }

    /// Whether any password will do (`nopass`).
    pub fn needs_no_password(&self) -> bool {
        self.free
    }

    /// Whether clients may become this user.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether it may do everything, so that no check is needed.
    pub fn is_unlimited(&self) -> bool {
        self.all_selectors().any(Selector::is_unlimited)
    }

    /// Whether the password of `hash` is one of its own. All are compared, even after a match.
    pub(crate) fn takes(&self, hash: Hash) -> bool {
        self.free || self.passwords.iter().fold(false, |found, own| found | own.is_same(hash))
    }

    /// Bytes that its name and its rules hold.
    fn held_bytes(&self) -> usize {
        let selectors: usize = self.all_selectors().map(Selector::held_bytes).sum();
        // The table has the name as well.
        size_of::<User>() + 2 * self.name.len() + size_of_val(&*self.passwords) + selectors
    }

    pub(crate) fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }
}

/// Commands, keys and channels that may be used together.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Selector {
    pub commands: Bits,
    /// Commands that may be used with some first arguments only: `+select|0`. Each is there once.
    pub first_args: Vec<FirstArgs>,
    pub all_keys: bool,
    pub keys: Vec<KeyPattern>,
    /// Where in `keys` each pattern stands.
    pub key_places: BTreeMap<Box<[u8]>, usize>,
    pub all_channels: bool,
    pub channels: Vec<Box<[u8]>>,
    /// The same in order of their names.
    pub channels_known: BTreeSet<Box<[u8]>>,
}

impl Default for Selector {
    fn default() -> Selector {
        Selector {
            commands: Bits::NONE,
            first_args: Vec::new(),
            all_keys: false,
            keys: Vec::new(),
            key_places: BTreeMap::new(),
            all_channels: false,
            channels: Vec::new(),
            channels_known: BTreeSet::new(),
        }
    }
}

impl Selector {
    /// Bytes that it holds. Each pattern is there twice.
    fn held_bytes(&self) -> usize {
        let patterns = self.keys.iter().map(|pattern| &pattern.glob).chain(&self.channels);
        let patterns: usize = patterns.map(|glob| 2 * (size_of::<KeyPattern>() + glob.len())).sum();
        let first_args = self.first_args.iter().map(FirstArgs::held_bytes);
        size_of::<Selector>() + patterns + first_args.sum::<usize>()
    }

    fn is_unlimited(&self) -> bool {
        self.all_keys && self.all_channels && self.commands == Bits::ALL
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.describe()))
    }
}

/// First arguments with which a command may be used.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FirstArgs {
    pub number: Number,
    /// Rules as they were written, in their order.
    args: Vec<Box<[u8]>>,
    /// The same in small letters.
    known: BTreeSet<Vec<u8>>,
}

impl FirstArgs {
    pub(crate) fn new(number: Number) -> FirstArgs {
        FirstArgs { number, args: Vec::new(), known: BTreeSet::new() }
    }

    pub(crate) fn add(&mut self, arg: &[u8]) {
        if self.known.insert(arg.to_ascii_lowercase()) {
            self.args.push(arg.into());
        }
    }

    pub(crate) fn contains(&self, arg: &[u8]) -> bool {
        self.known.contains(&arg.to_ascii_lowercase())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.args.iter().map(|arg| &**arg)
    }

    /// Bytes that it holds. Each argument is there twice.
    fn held_bytes(&self) -> usize {
        let each = self.args.iter().map(|arg| 2 * (size_of::<Vec<u8>>() + arg.len()));
        size_of::<FirstArgs>() + each.sum::<usize>()
    }
}

/// Keys by a glob pattern, and the permissions for them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KeyPattern {
    pub glob: Box<[u8]>,
    pub rights: Rights,
}

/// Uses of a key, done or permitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    pub read: bool,
    pub write: bool,
}

impl Rights {
    pub(crate) const ALL: Rights = Rights { read: true, write: true };

    /// The use of keys by a command, from the flags of their spec.
    pub(crate) fn needed(flags: KeyFlags) -> Rights {
        const WRITES: KeyFlags = KeyFlags::INSERT.and(KeyFlags::DELETE).and(KeyFlags::UPDATE);
        Rights { read: flags.contains(KeyFlags::ACCESS), write: flags.intersects(WRITES) }
    }

    pub(crate) fn and(self, other: Rights) -> Rights {
        Rights { read: self.read || other.read, write: self.write || other.write }
    }

    pub(crate) fn contains(self, other: Rights) -> bool {
        (self.read || !other.read) && (self.write || !other.write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password::HASHED;

    #[test]
    fn an_unknown_user_takes_as_long_as_a_wrong_password() {
        // Replies came sooner for unknown names: a long password revealed which names exist.
        let text = b"user bob on >secret\nuser idle off >secret\nuser open on nopass";
        let users = Users::parse("users.acl", text).expect("valid");
        let hashed = |name: &[u8], password: &[u8]| {
            let before = HASHED.get();
            (users.authenticate(name, password).is_some(), HASHED.get() - before)
        };
        for (name, is_taken) in [("bob", true), ("idle", false), ("open", true), ("nobody", false)] {
            assert_eq!(hashed(name.as_bytes(), b"secret"), (is_taken, 1), "{name}");
        }
        assert_eq!(hashed(b"bob", b"wrong"), (false, 1));
    }
}
