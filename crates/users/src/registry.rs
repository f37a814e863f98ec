//! State that all workers share: the newest users, and the denials. It is not on the path of a permitted request. Each worker
//! has its own copy of the users, and gets each change as a message.

use crate::denials::Denials;
use crate::rules::{self, RuleError};
use crate::user::{DEFAULT, User, Users};
use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Default)]
pub struct Registry {
    users: Mutex<Arc<Users>>,
    denials: Mutex<Denials>,
    /// For ACL GENPASS: it is known only here.
    secret: [u8; 32],
    drawn: AtomicU64,
    /// Whether users come from a file.
    has_file: AtomicBool,
}

/// Limit of the name that a client may give to a user: CLIENT LIST shows it in the line of each of its clients.
const NAME_BYTES_MAX: usize = 1024;
/// The longest password that ACL GENPASS makes.
const GENERATED_BITS_MAX: usize = 4096;

impl Registry {
    /// A registry with these users. `secret` is random, and decides the generated passwords. `has_file` says that the users
    /// come from a file that can be read again.
    pub fn new(users: Users, secret: [u8; 32], has_file: bool) -> Registry {
        Registry {
            users: Mutex::new(Arc::new(users)),
            secret,
            has_file: AtomicBool::new(has_file),
            ..Registry::default()
        }
    }

    /// Whether users come from a file.
    pub fn has_file(&self) -> bool {
        self.has_file.load(Ordering::Relaxed)
    }

    /// Users come from a file from now on, or no more.
    pub fn set_has_file(&self, has_file: bool) {
        self.has_file.store(has_file, Ordering::Relaxed);
    }

    /// The newest users.
    pub fn users(&self) -> Arc<Users> {
        Arc::clone(&self.lock())
    }

    /// `users` take the place of those before.
    pub fn replace(&self, users: Users) -> Arc<Users> {
        let mut current = self.lock();
        *current = Arc::new(Users { version: current.version + 1, ..users });
        Arc::clone(&current)
    }

    /// ACL SETUSER: applies `rules` to the user `name`, which is created if it does not exist. All users may hold `bytes_max`
    /// then. On an error nothing changes; its text is Redis's, where Redis has one.
    pub fn set_user(&self, name: &[u8], rules: &[&[u8]], bytes_max: usize) -> Result<Arc<Users>, String> {
        if rules::has_blanks(name) {
            return Err("ERR Usernames can't contain spaces or null characters".to_owned());
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(format!("ERR Usernames can't be longer than {NAME_BYTES_MAX} bytes"));
        }
        let joined = rules::join_selectors(rules).map_err(|at| {
            let open = String::from_utf8_lossy(rules[at]);
            format!("ERR Unmatched parenthesis in acl selector starting at '{open}'.")
        })?;
        let mut current = self.lock();
        let mut user = current.get(name).map_or_else(|| User::new(name), |user| User::clone(user));
        for rule in joined {
            user.apply(&rule).map_err(|error| modifier_error(&rule, error))?;
        }
        let mut users = Users::clone(&current);
        users.version += 1;
        users.insert(user);
        if users.held_bytes() > bytes_max.max(current.held_bytes()) {
            return Err(
                "ERR the rules of all users exceed the limit of the proxy. Nothing was changed".to_owned()
            );
        }
        *current = Arc::new(users);
        Ok(Arc::clone(&current))
    }

    /// ACL DELUSER: returns the number of removed users. `None` if one of `names` is the default user, which cannot be removed.
    pub fn delete_users<'n>(
        &self,
        names: impl Iterator<Item = &'n [u8]> + Clone,
    ) -> Option<(Arc<Users>, usize)> {
        if names.clone().any(|name| name == DEFAULT) {
            return None;
        }
        let mut current = self.lock();
        let mut users = Users::clone(&current);
        users.version += 1;
        let deleted = names.filter(|name| users.remove(name)).count();
        *current = Arc::new(users);
        Some((Arc::clone(&current), deleted))
    }

    /// The log of denials.
    pub fn denials(&self) -> MutexGuard<'_, Denials> {
        self.denials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A random password of `bits`, in hexadecimal digits; `None` if they are none or too many.
    pub fn generate_password(&self, bits: i64) -> Option<String> {
        let bits = usize::try_from(bits).ok().filter(|bits| (1..=GENERATED_BITS_MAX).contains(bits))?;
        let digits = bits.div_ceil(4);
        let mut text = String::new();
        while text.len() < digits {
            let number = self.drawn.fetch_add(1, Ordering::Relaxed);
            let block = Sha256::new().chain_update(self.secret).chain_update(number.to_le_bytes()).finalize();
            text.extend(block.iter().map(|byte| format!("{byte:02x}")));
        }
        text.truncate(digits);
        Some(text)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Users>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Redis shows any rule; a password is not shown here.
fn modifier_error(rule: &[u8], error: RuleError) -> String {
    let shown = if rules::is_secret(rule) { &rule[..1] } else { rule };
    format!("ERR Error in ACL SETUSER modifier '{}': {error}", String::from_utf8_lossy(shown))
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Registry").field("version", &self.users().version).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 1 << 20;

    #[test]
    fn users_are_set_and_deleted_whole_or_not_at_all() {
        let registry = Registry::default();
        let before = registry.users();
        assert!(registry.set_user(b"bob", &[b"on", b"+nosuch"], BYTES_MAX).is_err());
        assert_eq!(registry.users().version(), before.version());
        let users = registry.set_user(b"bob", &[b"on", b"(+get", b"~a)"], BYTES_MAX).expect("valid");
        assert!(users.get(b"bob").is_some() && users.version() > before.version());
        assert!(before.get(b"bob").is_none(), "who looked before sees what was before");
        assert!(registry.delete_users([b"bob".as_slice(), DEFAULT].into_iter()).is_none());
        let (users, deleted) =
            registry.delete_users([b"bob".as_slice(), b"eve"].into_iter()).expect("allowed");
        assert_eq!((deleted, users.get(b"bob").is_none()), (1, true));
    }

    #[test]
    fn users_and_their_rules_are_bounded_in_bytes() {
        let registry = Registry::default();
        let long = [b'n'; NAME_BYTES_MAX + 1];
        let set = |name: &[u8], rules: &[&[u8]], max| registry.set_user(name, rules, max).map(|_| ());
        assert_eq!(set(&long[1..], &[], BYTES_MAX), Ok(()));
        let refusal = "ERR Usernames can't be longer than 1024 bytes";
        assert_eq!(set(&long, &[], BYTES_MAX), Err(refusal.to_owned()));
        let glob = format!("~{}", "k".repeat(BYTES_MAX));
        let refusal = "ERR the rules of all users exceed the limit of the proxy. Nothing was changed";
        assert_eq!(set(b"bob", &[glob.as_bytes()], BYTES_MAX), Err(refusal.to_owned()));
        assert!(registry.users().get(b"bob").is_none());
        assert_eq!(set(b"bob", &[glob.as_bytes()], 3 * BYTES_MAX), Ok(()));
        assert_eq!(set(b"bob", &[b"on"], 3 * BYTES_MAX), Ok(()));
        assert_eq!(set(b"bob", &[b"resetkeys"], BYTES_MAX), Ok(()), "what makes it less is taken");
        let (counted, held) = registry.users().account();
        assert!(counted == held && held < 10_000, "{counted} {held}");
        registry.delete_users([&long[1..]].into_iter()).expect("allowed");
        assert!(registry.users().held_bytes() < held - 2 * NAME_BYTES_MAX);
    }

    #[test]
    fn errors_of_setuser_show_no_password() {
        let registry = Registry::default();
        let error = registry.set_user(b"bob", &[b"<secret"], BYTES_MAX).expect_err("no such password");
        assert!(error.starts_with("ERR Error in ACL SETUSER modifier '<': The password"), "{error}");
        let error = registry.set_user(b"a b", &[], BYTES_MAX).expect_err("a blank");
        assert_eq!(error, "ERR Usernames can't contain spaces or null characters");
    }

    #[test]
    fn generated_passwords_are_long_enough_and_never_the_same() {
        let registry = Registry::new(Users::default(), [7; 32], false);
        assert_eq!(registry.generate_password(5).map(|text| text.len()), Some(2));
        assert_eq!(registry.generate_password(4096).map(|text| text.len()), Some(1024));
        assert_ne!(registry.generate_password(256), registry.generate_password(256));
        assert_eq!([0, -1, 4097].map(|bits| registry.generate_password(bits)), [None, None, None]);
    }
}
