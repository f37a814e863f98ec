//! Policies of listeners for commands: flags for all listeners, and the words of one.

use super::bytes::parse_bytes;
use clap::Args;
use proxy::{Names, Policy};
use users::Commands;

/// The policy of all listeners, or of one.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyArgs {
    /// Commands that clients may not use, in the words of an ACL: KEYS,@dangerous,+info,config|set. A word with + permits
    /// again (docs/policy.md)
    #[arg(long, value_name = "RULE,RULE,…", value_parser = parse_deny)]
    deny: Option<Commands>,

    /// New names of commands, as Redis's rename-command: FLUSHALL:XFLUSH,CONFIG: has CONFIG unknown. The old names mean
    /// nothing
    #[arg(long, value_name = "OLD:NEW,…", value_parser = parse_rename)]
    rename: Option<Names>,

    /// Limit of the keys in one request
    #[arg(long, value_name = "NUMBER", value_parser = parse_number)]
    max_keys: Option<usize>,

    /// Limit of one argument of a request, such as 1mb
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    max_value: Option<usize>,

    /// Refusal of writes, and of scripts that may write, with Redis's error READONLY
    #[arg(long)]
    read_only: bool,
}

impl PolicyArgs {
    /// Takes `word` of a listener over. Returns whether it is one of a policy.
    pub(super) fn take(&mut self, word: &str) -> Result<bool, String> {
        let refused = |error: String| format!("{word}: {error}");
        match word.split_once('=') {
            None if word == "read-only" => self.read_only = true,
            Some(("deny", rules)) => self.deny = Some(parse_deny(rules).map_err(refused)?),
            Some(("rename", names)) => self.rename = Some(parse_rename(names).map_err(refused)?),
            Some(("max-keys", number)) => self.max_keys = Some(parse_number(number).map_err(refused)?),
            Some(("max-value", bytes)) => self.max_value = Some(parse_bytes(bytes).map_err(refused)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// These words of one listener, and those of `all` where it has none.
    pub(super) fn or(&self, all: &PolicyArgs) -> PolicyArgs {
        PolicyArgs {
            deny: self.deny.clone().or_else(|| all.deny.clone()),
            rename: self.rename.clone().or_else(|| all.rename.clone()),
            max_keys: self.max_keys.or(all.max_keys),
            max_value: self.max_value.or(all.max_value),
            read_only: self.read_only || all.read_only,
        }
    }

    /// The policy of the listener that errors name `listener`.
    pub(crate) fn policy(&self, listener: String) -> Policy {
        Policy {
            listener,
            commands: self.deny.clone(),
            names: self.rename.clone().unwrap_or_default(),
            keys_max: self.max_keys,
            value_bytes_max: self.max_value,
            read_only: self.read_only,
        }
    }
}

fn parse_number(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "write a number, 1 at least".to_owned())
}

fn parse_deny(text: &str) -> Result<Commands, String> {
    Commands::by_rules(text.split(',')).map_err(|(rule, _)| {
        format!(
            "{rule}: there is no such command or category; write them as in KEYS,@dangerous,config|set,+info"
        )
    })
}

fn parse_rename(text: &str) -> Result<Names, String> {
    let pair = |pair: &str| match pair.split_once(':') {
        Some((old, new)) if is_word(old) && (new.is_empty() || is_word(new)) => {
            Ok((old.to_owned(), new.to_owned()))
        }
        _ => {
            Err(format!("{pair}: write the old name, a colon and the new one, as in FLUSHALL:XFLUSH,CONFIG:"))
        }
    };
    let pairs: Result<Vec<_>, String> = text.split(',').map(pair).collect();
    Names::by_pairs(&pairs?)
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(words: &str) -> PolicyArgs {
        let mut policy = PolicyArgs::default();
        for word in words.split(' ') {
            assert_eq!(policy.take(word), Ok(true), "{word}");
        }
        policy
    }

    #[test]
    fn words_of_a_listener_win_over_the_flags() {
        let all = taken("deny=keys rename=get:got max-keys=3 max-value=1kb");
        let own = taken("deny=@admin max-keys=5 read-only");
        let both = own.or(&all).policy("a:1".to_owned());
        let expected = taken("deny=@admin rename=get:got max-keys=5 max-value=1024 read-only");
        assert_eq!(both, expected.policy("a:1".to_owned()));
        assert_eq!(PolicyArgs::default().or(&all), all);
        assert!(PolicyArgs::default().policy("a:1".to_owned()).is_empty());
        assert_eq!(PolicyArgs::default().take("read-from=any"), Ok(false));
    }

    #[test]
    fn words_that_mean_nothing_are_refused() {
        for (word, expected) in [
            ("deny=nosuch", "deny=nosuch: nosuch: there is no such command or category"),
            ("deny=", "deny=: : there is no such command or category"),
            ("rename=get", "rename=get: get: write the old name"),
            ("rename=:x", "rename=:x: :x: write the old name"),
            ("rename=get:a:b", "rename=get:a:b: get:a:b: write the old name"),
            ("rename=nosuch:x", "rename=nosuch:x: nosuch: there is no such command"),
            ("max-keys=0", "max-keys=0: write a number, 1 at least"),
            ("max-value=x", "max-value=x: write bytes"),
        ] {
            let error = PolicyArgs::default().take(word).expect_err(word);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
