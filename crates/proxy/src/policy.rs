//! Policies of listeners, which hold for all their clients: commands, names of commands, sizes, and whether clients may write.
//!
//! ```text
//!   request ─► name (renamed, removed) ─► the user's permissions ─► the listener's policy ─► carried out
//! ```
//!
//! The check of a client whose listener has no policy is the same look at one byte as that of its permissions. This module decides and
//! does nothing else: it knows no session.

use command::{Carry, Command, Flags, Number};
use resp::Request;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use users::Commands;

/// The policy of one listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The listener in errors: its address.
    pub listener: String,
    /// Commands that may be used; `None` for all.
    pub commands: Option<Commands>,
    /// Names of commands.
    pub names: Names,
    /// The most keys of one request.
    pub keys_max: Option<usize>,
    /// The most bytes of one argument.
    pub value_bytes_max: Option<usize>,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// Other names of commands, as Redis's `rename-command`. All names are in small letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Names of Redis by the names here.
    renamed: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Names of Redis that mean nothing here.
    removed: BTreeSet<Vec<u8>>,
}

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named<'a> {
    /// The command of Redis that has this name.
    AsWritten,
    /// The command of Redis that has another name.
    As(&'a [u8]),
    /// No command.
    Nothing,
}

impl Names {
    /// Names by pairs of an old name and a new one, which is empty for none. The error says which pair cannot be.
    pub fn by_pairs(pairs: &[(String, String)]) -> Result<Names, String> {
        let mut names = Names::default();
        for (old, _) in pairs {
            let lower = old.to_ascii_lowercase();
            // A module's name has a dot, and the table lacks it.
            if command::find(lower.as_bytes()).is_none() && !lower.contains('.') {
                return Err(format!("{old}: there is no such command"));
            }
            if !names.removed.insert(lower.into_bytes()) {
                return Err(format!("{old}: the command is renamed twice"));
            }
        }
        for (old, new) in pairs.iter().filter(|(_, new)| !new.is_empty()) {
            if command::find(old.to_ascii_lowercase().as_bytes()).is_none() {
                return Err(format!("{old}: a command of a module can be taken away and not renamed"));
            }
            let lower = new.to_ascii_lowercase().into_bytes();
            if command::find(&lower).is_some() && !names.removed.contains(&lower) {
                return Err(format!("{new}: a command has this name; rename that one as well"));
            }
            if names.renamed.insert(lower, old.to_ascii_lowercase().into_bytes()).is_some() {
                return Err(format!("{new}: two commands would have this name"));
            }
        }
        Ok(names)
    }

    /// Whether every name means what it means to Redis.
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty()
    }

    /// The meaning of `name`, in any case.
    pub(crate) fn meaning(&self, name: &[u8]) -> Named<'_> {
        let lower = name.to_ascii_lowercase();
        match self.renamed.get(&lower) {
            Some(real) => Named::As(real),
            None if self.removed.contains(&lower) => Named::Nothing,
            None => Named::AsWritten,
        }
    }
}

impl Policy {
    /// Whether it refuses nothing.
    pub fn is_empty(&self) -> bool {
        *self == Policy { listener: self.listener.clone(), ..Policy::default() }
    }

    /// The error for a request that the listener refuses. It names the listener and the rule.
    pub(crate) fn objection(
        &self,
        command: &Command,
        number: Number,
        request: &Request<'_>,
    ) -> Option<String> {
        let listener = &self.listener;
        if let Some(commands) = self.commands.as_ref().filter(|own| !own.permits(command, number, request)) {
            let (name, rule) = (&command.name, commands.denying_rule(number));
            return Some(format!("NOPERM listener {listener} denies the '{name}' command (deny {rule})"));
        }
        if self.read_only && writes(command) {
            return Some(format!("READONLY You can't write against a read only listener ({listener})."));
        }
        if let Some(max) = self.value_bytes_max
            && let Some(arg) = request.args().find(|arg| arg.len() > max)
        {
            return Some(format!(
                "ERR listener {listener} takes arguments of at most {max} bytes (max-value); one has {}. Nothing was run",
                arg.len()
            ));
        }
        let max = self.keys_max?;
        let mut count = 0;
        // Redis refuses a request whose keys cannot be found.
        let _ = command.each_key(request, &mut |_, _| count += 1);
        (count > max).then(|| {
            format!(
                "ERR listener {listener} takes at most {max} keys in a request (max-keys); this one names {count}. \
                 Nothing was run"
            )
        })
    }
}

/// Whether a command may change the keyspace. The effects of a script are unknown unless its command promises to have none.
fn writes(command: &Command) -> bool {
    let is_script = matches!(command.carry, Carry::Script(_)) && !command.flags.contains(Flags::READONLY);
    is_script || command.flags.contains(Flags::WRITE)
}

/// The policies of listeners that have any, by the listener's number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies(Arc<BTreeMap<u16, Policy>>);

impl Policies {
    /// The policies of these listeners. Those that refuse nothing are left out.
    pub fn new(all: impl IntoIterator<Item = (u16, Policy)>) -> Policies {
        Policies(Arc::new(all.into_iter().filter(|(_, policy)| !policy.is_empty()).collect()))
    }

    /// The policy for clients of `listener`.
    pub fn of(&self, listener: u16) -> Option<&Policy> {
        self.0.get(&listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::Resolved;
    use resp::encode;
    use resp::request::{RequestLimits, Scanner};

    /// The objection of `policy` to the request `line`; empty if there is none.
    fn objection(policy: &Policy, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (mut bytes, mut args) = (Vec::new(), Vec::new());
        encode::request(&mut bytes, &words);
        let scanned = Scanner::default().scan(&bytes, &RequestLimits::default(), &mut args, &mut Vec::new());
        scanned.expect("it is a request");
        let request = Request::new(&bytes, &args);
        let (Resolved::Command(command), number) = command::resolve_numbered(&request) else {
            panic!("{line} is a command")
        };
        policy.objection(command, number, &request).unwrap_or_default()
    }

    fn policy() -> Policy {
        Policy { listener: "a:1".to_owned(), ..Policy::default() }
    }

    fn names(pairs: &[(&str, &str)]) -> Result<Names, String> {
        let owned = |(old, new): &(&str, &str)| ((*old).to_owned(), (*new).to_owned());
        Names::by_pairs(&pairs.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn listener_and_rule_are_named_in_each_refusal() {
        let commands = Commands::by_rules(["@dangerous", "+info"]).expect("valid");
        let denying = Policy { commands: Some(commands), ..policy() };
        let bounded = Policy { keys_max: Some(2), value_bytes_max: Some(5), ..policy() };
        let read_only = Policy { read_only: true, ..policy() };
        for (policy, line, expected) in [
            (&denying, "flushall", "NOPERM listener a:1 denies the 'flushall' command (deny -@dangerous)"),
            (&denying, "info", ""),
            (&denying, "get a", ""),
            (&read_only, "get a", ""),
            (&read_only, "eval_ro x 0", ""),
            (&read_only, "publish a b", ""),
            (&bounded, "mget a b", ""),
            (&bounded, "set a 12345", ""),
        ] {
            assert_eq!(objection(policy, line), expected, "{line}");
        }
        for line in ["set a 1", "eval x 0", "fcall f 0", "flushall", "spop a", "sort a"] {
            let text = objection(&read_only, line);
            assert_eq!(text, "READONLY You can't write against a read only listener (a:1).", "{line}");
        }
        let text = objection(&bounded, "mget a b c");
        assert!(
            text.starts_with(
                "ERR listener a:1 takes at most 2 keys in a request (max-keys); this one names 3"
            )
        );
        let text = objection(&bounded, "set a 123456");
        assert!(
            text.starts_with("ERR listener a:1 takes arguments of at most 5 bytes (max-value); one has 6")
        );
    }

    #[test]
    fn a_renamed_command_has_its_new_name_alone() {
        let names = names(&[("FLUSHALL", "XFlush"), ("config", ""), ("ft.search", "")]).expect("valid");
        for (name, meaning) in [
            ("xflush", Named::As(b"flushall")),
            ("XFLUSH", Named::As(b"flushall")),
            ("FlushAll", Named::Nothing),
            ("CONFIG", Named::Nothing),
            ("FT.SEARCH", Named::Nothing),
            ("get", Named::AsWritten),
        ] {
            assert_eq!(names.meaning(name.as_bytes()), meaning, "{name}");
        }
    }

    #[test]
    fn names_that_exclude_each_other_are_refused() {
        assert!(names(&[("get", "set"), ("set", "get")]).is_ok(), "they change places");
        for (pairs, expected) in [
            (&[("nosuch", "x")][..], "nosuch: there is no such command"),
            (&[("get", "x"), ("GET", "y")], "GET: the command is renamed twice"),
            (&[("get", "x"), ("set", "X")], "X: two commands would have this name"),
            (&[("get", "set")], "set: a command has this name"),
            (&[("ft.search", "find")], "ft.search: a command of a module"),
        ] {
            let error = names(pairs).expect_err(expected);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
