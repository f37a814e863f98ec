//! May a user have a request carried out?

use crate::user::{KeyPattern, Rights, Selector, User};
use command::{Command, Flags, Number};
use resp::Request;
use stdx::glob;

/// The reason of a denial. A later variant means that the user passed more checks. The error reports the latest of all selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The command.
    Command,
    /// The key that is this argument.
    Key(usize),
    /// The channel that is this argument.
    Channel(usize),
}

impl User {
    /// Whether `request`, which asks for `command`, may be carried out. The cost is a bit test for each selector until one lets
    /// the request pass. Each key and pattern costs a pattern match where not all keys are allowed.
    ///
    /// The effects of a script are unknown here: only keys in the request count.
    pub fn permits(&self, command: &Command, number: Number, request: &Request<'_>) -> Result<(), Denied> {
        let mut closest = Denied::Command;
        for selector in self.all_selectors() {
            match selector.permits(command, number, request) {
                Ok(()) => return Ok(()),
                Err(denied) => closest = closest.max(denied),
            }
        }
        Err(closest)
    }

    /// Whether `request` may be carried out by a rule that lets it read all keys. Keys that it names by a pattern (`SORT … BY
    /// pattern`) are not known.
    pub fn permits_reading_all(&self, command: &Command, number: Number, request: &Request<'_>) -> bool {
        self.all_selectors()
            .any(|selector| selector.reads_all_keys() && selector.permits(command, number, request).is_ok())
    }

    /// Whether a request of `command` with its one key may be carried out whatever follows. Only its beginning is known.
    pub fn permits_any(&self, number: Number, key: &[u8]) -> bool {
        self.all_selectors().any(|selector| {
            selector.commands.contains(number)
                && (selector.all_keys || selector.permits_key(key, Rights::ALL))
        })
    }

    /// Whether clients may listen to `channel`, or, if it `is_pattern`, to all that match it.
    pub fn permits_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_selectors().any(|selector| selector.permits_channel(channel, is_pattern))
    }
}

impl Selector {
    #[inline]
    fn permits(&self, command: &Command, number: Number, request: &Request<'_>) -> Result<(), Denied> {
        let is_free = self.commands.contains(number) || command.flags.contains(Flags::NO_AUTH);
        if !is_free && !self.permits_first_arg(number, request) {
            return Err(Denied::Command);
        }
        if !self.all_keys
            && let Some(at) = self.denied_key(command, number, request)
        {
            return Err(Denied::Key(at));
        }
        if !self.all_channels
            && command.flags.contains(Flags::PUBSUB)
            && let Some(at) = self.denied_channel(command, request)
        {
            return Err(Denied::Channel(at));
        }
        Ok(())
    }

    pub(crate) fn permits_first_arg(&self, number: Number, request: &Request<'_>) -> bool {
        let Some(arg) = request.get(1) else { return false };
        self.first_args.iter().any(|args| args.number == number && args.contains(arg))
    }

    /// The first key, in the order of the key specs, that may not be used as the command uses it.
    fn denied_key(&self, command: &Command, number: Number, request: &Request<'_>) -> Option<usize> {
        let mut denied = None;
        let found = command.each_key(request, &mut |at, flags| {
            if denied.is_none() && !self.permits_key(request.arg(at), Rights::needed(flags)) {
                denied = Some(at);
            }
        });
        match found {
            Ok(()) => denied,
            // For a module, Redis would ask it. The check is strict instead.
            Err(_) if number == Number::LEARNED => Some(0),
            // Redis permits it as a request without keys: the command itself will find the same fault.
            Err(_) => None,
        }
    }

    fn permits_key(&self, key: &[u8], needed: Rights) -> bool {
        let fits =
            |pattern: &KeyPattern| pattern.rights.contains(needed) && glob::matches(&pattern.glob, key);
        self.keys.iter().any(fits)
    }

    fn reads_all_keys(&self) -> bool {
        self.all_keys || self.keys.iter().any(|pattern| pattern.rights.read && *pattern.glob == *b"*")
    }

    /// The first channel that may not be used. Other commands about channels than these name none that matter.
    fn denied_channel(&self, command: &Command, request: &Request<'_>) -> Option<usize> {
        let (last, are_patterns) = match &*command.name {
            "publish" | "spublish" => (1, false),
            "subscribe" | "ssubscribe" => (request.len() - 1, false),
            "psubscribe" => (request.len() - 1, true),
            _ => return None,
        };
        (1..=last).find(|&at| !self.permits_channel(request.arg(at), are_patterns))
    }

    /// A pattern must equal one of the user's own. Whether all its matches are allowed is undecidable.
    fn permits_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels
            || match is_pattern {
                true => self.channels.iter().any(|own| **own == *channel),
                false => self.channels.iter().any(|own| glob::matches(own, channel)),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{user, with_request};

    fn asked(rules: &str, line: &str) -> Result<(), Denied> {
        let user = user(rules);
        with_request(line, |request| {
            let (resolved, number) = command::resolve_numbered(request);
            let command::Resolved::Command(command) = resolved else { panic!("{line} is a command") };
            user.permits(command, number, request)
        })
    }

    #[test]
    fn commands_keys_and_channels_are_looked_at_in_this_order() {
        use Denied::{Channel, Key};
        for (rules, line, expected) in [
            ("", "get a", Err(Denied::Command)),
            ("+get", "get a", Err(Key(1))),
            ("+get ~a*", "get abc", Ok(())),
            ("+mget ~a*", "mget a1 b a2", Err(Key(2))),
            ("+@all ~*", "publish c x", Err(Channel(1))),
            ("+@all &c*", "subscribe c1 d", Err(Channel(2))),
            ("+@all &c*", "psubscribe c1", Err(Channel(1))),
            ("+@all &c*", "psubscribe c*", Ok(())),
            ("+@all", "pubsub numsub d", Ok(())),
            ("", "auth x", Ok(())),
            ("+config|get", "config get x", Ok(())),
            ("+config|get", "config set x y", Err(Denied::Command)),
            ("+select|0", "select 0", Ok(())),
            ("+select|0", "select 1", Err(Denied::Command)),
        ] {
            assert_eq!(asked(rules, line), expected, "{rules}: {line}");
        }
    }

    #[test]
    fn reading_and_writing_are_distinguished() {
        for (rules, line, passes) in [
            ("+@all %R~a", "get a", true),
            ("+@all %W~a", "get a", false),
            ("+@all %R~a", "set a 1", false),
            ("+@all %W~a", "set a 1", true),
            ("+@all %W~a", "set a 1 get", false),
            ("+@all %W~a %R~a", "set a 1 get", true),
            ("+@all %R~a %W~b", "copy a b", true),
            ("+@all %R~a %W~b", "copy b a", false),
            // A user with any permission for a key may learn whether it exists.
            ("+@all %W~a", "exists a", true),
            ("+@all %W~a", "incr a", false),
        ] {
            assert_eq!(asked(rules, line).is_ok(), passes, "{rules}: {line}");
        }
    }

    #[test]
    fn selectors_are_not_added_to_each_other() {
        let rules = "+get ~a (+set ~b)";
        assert_eq!(asked(rules, "get a"), Ok(()));
        assert_eq!(asked(rules, "set b 1"), Ok(()));
        assert_eq!(asked(rules, "set a 1"), Err(Denied::Key(1)));
        assert_eq!(asked(rules, "del a"), Err(Denied::Command));
    }

    #[test]
    fn a_prefix_is_permitted_only_if_every_request_is() {
        let set = command::numbered().find(|(_, command)| command.name == "set").expect("in the table").0;
        assert!(user("+set ~a").permits_any(set, b"a"));
        assert!(!user("+set %W~a").permits_any(set, b"a"), "it may yet say GET");
        assert!(!user("+get ~a").permits_any(set, b"a") && !user("+set ~a").permits_any(set, b"b"));
    }
}
