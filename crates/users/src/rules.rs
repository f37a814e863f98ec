//! Rules in text form, one word each, applied to a user one after the other: Redis's `ACLSetUser` and `ACLSetSelector`.

use crate::bits::{Bits, Line};
use crate::password::Hash;
use crate::user::{FirstArgs, KeyPattern, Rights, Selector, User};
use command::{Acl, Number};
use resp::inline;

/// The fault of a rule, in Redis's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Not a rule, or a pattern with a blank in it.
    #[error("Syntax error")]
    Syntax,
    /// No such command, subcommand or category.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// All keys are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
         Try 'resetkeys' to start with an empty list of patterns"
    )]
    AllKeys,
    /// All channels are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
         Try 'resetchannels' to start with an empty list of channels"
    )]
    AllChannels,
    /// `<` or `!` of a password that the user does not have.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// `#` or `!` with something else than a hash.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    NoHash,
    /// `+config|get|x`.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgOfSubcommand,
}

/// Joins rules in parentheses that were split at blanks. The error is the number of a rule whose parenthesis is never closed.
pub(crate) fn join_selectors(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, usize> {
    let mut rules: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, word) in words.iter().enumerate() {
        if word.first() == Some(&b'(') && word.last() != Some(&b')') {
            open = Some((at, word.to_vec()));
        } else if let Some((_, selector)) = &mut open {
            selector.push(b' ');
            selector.extend_from_slice(word);
            if word.last() == Some(&b')') {
                rules.extend(open.take().map(|(_, selector)| selector));
            }
        } else {
            rules.push(word.to_vec());
        }
    }
    match open {
        Some((at, _)) => Err(at),
        None => Ok(rules),
    }
}

/// Whether `rule` holds a password or its hash, so that it must not be shown.
pub(crate) fn is_secret(rule: &[u8]) -> bool {
    matches!(rule.first(), Some(b'>' | b'<' | b'#' | b'!'))
}

impl User {
    /// Applies one rule. On an error the user stays unchanged.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"skip-sanitize-payload" => self.sanitizes = Some(false),
            b"sanitize-payload" => self.sanitizes = Some(true),
            b"nopass" => self.forget_passwords(true),
            b"resetpass" => self.forget_passwords(false),
            b"clearselectors" => self.selectors.clear(),
            b"reset" => {
                *self = User { sanitizes: Some(true), ..User::new(&self.name) };
            }
            _ => return self.apply_other(rule),
        }
        Ok(())
    }

    fn apply_other(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [b'>', password @ ..] => self.add_password(Hash::of(password)),
            [b'#', hash @ ..] => self.add_password(Hash::from_hex(hash).ok_or(RuleError::NoHash)?),
            [b'<', password @ ..] => return self.remove_password(Hash::of(password)),
            [b'!', hash @ ..] => return self.remove_password(Hash::from_hex(hash).ok_or(RuleError::NoHash)?),
            [b'(', rules @ .., b')'] => self.selectors.push(Selector::parse(rules)?),
            _ => return self.root.apply(rule),
        }
        Ok(())
    }

    fn forget_passwords(&mut self, free: bool) {
        self.free = free;
        self.passwords.clear();
    }

    fn add_password(&mut self, hash: Hash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.free = false;
    }

    fn remove_password(&mut self, hash: Hash) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|own| *own == hash).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }
}

impl Selector {
    /// The rules between parentheses. Words with quotes that do not close are none at all, as in Redis.
    fn parse(rules: &[u8]) -> Result<Selector, RuleError> {
        let mut selector = Selector::default();
        let (mut bytes, mut args) = (Vec::new(), Vec::new());
        if inline::to_request(rules, &mut bytes, &mut args).is_some() {
            for arg in args {
                selector.apply(&bytes[arg.start..arg.start + arg.len])?;
            }
        }
        Ok(selector)
    }

    pub(crate) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.set_all_keys(true),
            b"resetkeys" => self.set_all_keys(false),
            b"allchannels" | b"&*" => self.set_all_channels(true),
            b"resetchannels" => self.set_all_channels(false),
            b"allcommands" | b"+@all" => self.set_all_commands(Bits::ALL),
            b"nocommands" | b"-@all" => self.set_all_commands(Bits::NONE),
            _ => return self.apply_other(rule),
        }
        Ok(())
    }

    fn apply_other(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [b'~', glob @ ..] => self.add_keys(glob, Rights::ALL),
            [b'%', ..] if self.all_keys => Err(RuleError::AllKeys),
            [b'%', rights @ ..] => {
                let (rights, glob) = parse_rights(rights).ok_or(RuleError::Syntax)?;
                self.add_keys(glob, rights)
            }
            [b'&', glob @ ..] => self.add_channels(glob),
            [b'+', b'@', category @ ..] => self.set_category(category, true),
            [b'-', b'@', category @ ..] => self.set_category(category, false),
            [b'+', name @ ..] => self.allow(name),
            [b'-', name @ ..] => {
                self.set_line(Line::find(name).ok_or(RuleError::Unknown)?, false);
                Ok(())
            }
            _ => Err(RuleError::Syntax),
        }
    }

    fn set_all_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.keys.clear();
        self.key_places.clear();
    }

    fn set_all_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels.clear();
        self.channels_known.clear();
    }

    fn set_all_commands(&mut self, commands: Bits) {
        self.commands = commands;
        self.first_args.clear();
    }

    fn add_keys(&mut self, glob: &[u8], rights: Rights) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AllKeys);
        }
        if has_blanks(glob) {
            return Err(RuleError::Syntax);
        }
        match self.key_places.get(glob) {
            Some(&at) => self.keys[at].rights = self.keys[at].rights.and(rights),
            None => {
                self.key_places.insert(glob.into(), self.keys.len());
                self.keys.push(KeyPattern { glob: glob.into(), rights });
            }
        }
        Ok(())
    }

    fn add_channels(&mut self, glob: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::AllChannels);
        }
        if has_blanks(glob) {
            return Err(RuleError::Syntax);
        }
        if self.channels_known.insert(glob.into()) {
            self.channels.push(glob.into());
        }
        Ok(())
    }

    fn set_category(&mut self, name: &[u8], on: bool) -> Result<(), RuleError> {
        let category = Acl::from_word(&name.to_ascii_lowercase()).ok_or(RuleError::Unknown)?;
        self.commands.set_category(category, on);
        self.first_args.retain(|args| !Line::of(args.number).command.acl.contains(category));
        Ok(())
    }

    /// `+command`, `+command|subcommand`, `+command|first-argument`
    fn allow(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let Some(at) = name.iter().rposition(|&byte| byte == b'|') else {
            self.set_line(Line::find(name).ok_or(RuleError::Unknown)?, true);
            return Ok(());
        };
        let (container, below) = (&name[..at], &name[at + 1..]);
        let line = Line::find(container).ok_or(RuleError::Unknown)?;
        if line.is_subcommand() {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if below.is_empty() {
            return Err(RuleError::Syntax);
        }
        if line.command.subcommands.is_empty() {
            self.allow_first_arg(line.number, below);
        } else {
            self.set_line(Line::find(name).ok_or(RuleError::Unknown)?, true);
        }
        Ok(())
    }

    fn allow_first_arg(&mut self, number: Number, arg: &[u8]) {
        match self.first_args.iter_mut().find(|args| args.number == number) {
            Some(args) => args.add(arg),
            None => {
                let mut args = FirstArgs::new(number);
                args.add(arg);
                self.first_args.push(args);
            }
        }
    }

    fn set_line(&mut self, line: Line, on: bool) {
        self.commands.set_line(line, on);
        self.first_args.retain(|args| args.number != line.number);
    }
}

/// `RW~glob`: letters in any case, each at most once. Without `~` the glob is empty, as Redis has it.
fn parse_rights(text: &[u8]) -> Option<(Rights, &[u8])> {
    let mut rights = Rights::default();
    let mut rest = text;
    loop {
        rest = match rest {
            [b'r' | b'R', rest @ ..] if !rights.read => {
                rights.read = true;
                rest
            }
            [b'w' | b'W', rest @ ..] if !rights.write => {
                rights.write = true;
                rest
            }
            [b'~', glob @ ..] => {
                return Some((rights, glob)).filter(|(rights, _)| *rights != Rights::default());
            }
            [] => return Some((rights, rest)).filter(|(rights, _)| *rights != Rights::default()),
            _ => return None,
        };
    }
}

/// Whether Redis would not print `text` as one word: blanks, and NUL.
pub(crate) fn has_blanks(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::user;

    fn error_of(rules: &str) -> Option<RuleError> {
        let mut user = User::new(b"u");
        rules.split('\u{b7}').find_map(|rule| user.apply(rule.as_bytes()).err())
    }

    #[test]
    fn wrong_rules_are_refused_as_redis_refuses_them() {
        use RuleError::*;
        for (rules, error) in [
            ("nosuch", Syntax),
            ("foo bar", Syntax),
            ("+", Unknown),
            ("+nosuch", Unknown),
            ("-nosuch", Unknown),
            ("-select|0", Unknown),
            ("+config|nosuch", Unknown),
            ("+@nosuch", Unknown),
            ("+@", Unknown),
            ("+acl|whoami|x", FirstArgOfSubcommand),
            ("+select|", Syntax),
            ("%X~a", Syntax),
            ("%RR~a", Syntax),
            ("%~a", Syntax),
            ("%", Syntax),
            ("~a b", Syntax),
            ("&a b", Syntax),
            ("~*·~a", AllKeys),
            ("allkeys·%R~a", AllKeys),
            ("allkeys·%X~a", AllKeys),
            ("&*·&a", AllChannels),
            ("<secret", NoSuchPassword),
            ("#abc", NoHash),
            ("!abc", NoHash),
            ("(+get ~a +nosuch)", Unknown),
            ("(on)", Syntax),
            ("(+get", Syntax),
        ] {
            assert_eq!(error_of(rules), Some(error), "{rules}");
        }
    }

    #[test]
    fn a_rule_that_is_refused_changes_nothing() {
        let mut before = user("on ~a* +get");
        let after = before.clone();
        assert!(before.apply(b"(~b +nosuch)").is_err() && before.apply(b"+nosuch").is_err());
        assert_eq!(before, after);
    }

    #[test]
    fn the_last_word_on_passwords_counts() {
        let mut user = user("on >one >two >one");
        assert_eq!(user.passwords.len(), 2);
        assert_eq!(user.apply(b"<two"), Ok(()));
        assert!(user.takes(Hash::of(b"one")) && !user.takes(Hash::of(b"two")));
        user.apply(b"nopass").expect("a rule");
        assert!(user.takes(Hash::of(b"anything")) && user.passwords.is_empty());
        user.apply(b"resetpass").expect("a rule");
        assert!(!user.takes(Hash::of(b"anything")));
    }

    #[test]
    fn parentheses_are_joined_over_words() {
        let words = |line: &'static str| line.split(' ').map(str::as_bytes).collect::<Vec<_>>();
        let joined = join_selectors(&words("on (+get ~a) (%R~b) +set")).expect("closed");
        assert_eq!(joined, [&b"on"[..], b"(+get ~a)", b"(%R~b)", b"+set"]);
        assert_eq!(join_selectors(&words("on (+get ~a")), Err(1));
    }

    #[test]
    fn rules_with_a_password_are_recognised() {
        for secret in [">a", "<a", "#a", "!a"] {
            assert!(is_secret(secret.as_bytes()), "{secret}");
        }
        assert!(!is_secret(b"+get") && !is_secret(b""));
    }
}
