//! Commands that a listener permits: all but those that rules take away, in the words of an ACL.

use crate::bits::Bits;
use crate::rules::RuleError;
use crate::user::Selector;
use command::{Command, Flags, Number};
use resp::Request;
use std::fmt;

/// A set of commands, and the rules that made it.
#[derive(Clone, PartialEq, Eq)]
pub struct Commands {
    selector: Selector,
    rules: Vec<Box<str>>,
}

impl Commands {
    /// All commands after `rules` in their order: `-keys`, `-@dangerous`, `+config|get`. A rule without a sign takes away. The
    /// error has the rule at fault.
    pub fn by_rules<'r>(rules: impl IntoIterator<Item = &'r str>) -> Result<Commands, (&'r str, RuleError)> {
        let mut commands = Commands { selector: all(), rules: Vec::new() };
        for written in rules {
            let rule = match written.starts_with(['+', '-']) {
                true => written.to_ascii_lowercase(),
                false => format!("-{}", written.to_ascii_lowercase()),
            };
            commands.selector.apply(rule.as_bytes()).map_err(|error| (written, error))?;
            commands.rules.push(rule.into());
        }
        Ok(commands)
    }

    /// Whether `request`, which asks for `command`, is permitted. Commands that log in always are.
    pub fn permits(&self, command: &Command, number: Number, request: &Request<'_>) -> bool {
        self.selector.commands.contains(number)
            || command.flags.contains(Flags::NO_AUTH)
            || self.selector.permits_first_arg(number, request)
    }

    /// The rule that took the command `number` away.
    pub fn denying_rule(&self, number: Number) -> &str {
        let mut selector = all();
        let mut denying = "";
        for rule in &self.rules {
            let before = selector.commands.contains(number);
            // The rules are valid: all were applied before.
            let _ = selector.apply(rule.as_bytes());
            if before && !selector.commands.contains(number) {
                denying = rule;
            }
        }
        denying
    }
}

fn all() -> Selector {
    Selector { commands: Bits::ALL, ..Selector::default() }
}

/// The rules, with commas between them.
impl fmt::Display for Commands {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.rules.join(","))
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_request;
    use command::Resolved;

    /// The rule that denies the request `line`; empty if none does.
    fn denied(rules: &[&str], line: &str) -> String {
        let commands = Commands::by_rules(rules.iter().copied()).expect("the rules are valid");
        with_request(line, |request| {
            let (Resolved::Command(command), number) = command::resolve_numbered(request) else {
                panic!("{line} is a command")
            };
            match commands.permits(command, number, request) {
                true => String::new(),
                false => commands.denying_rule(number).to_owned(),
            }
        })
    }

    #[test]
    fn rules_take_commands_away_in_their_order() {
        let cases: [(&[&str], &str, &str); 11] = [
            (&[], "keys *", ""),
            (&["KEYS"], "keys *", "-keys"),
            (&["-keys"], "get a", ""),
            (&["@dangerous"], "flushall", "-@dangerous"),
            (&["@dangerous", "+keys"], "keys *", ""),
            (&["-keys", "@read", "+keys", "-@Keyspace"], "keys *", "-@keyspace"),
            (&["config"], "config get a", "-config"),
            (&["config|set"], "config get a", ""),
            (&["config|set"], "config set a b", "-config|set"),
            (&["-@all"], "auth a", ""),
            (&["-select", "+select|0"], "select 0", ""),
        ];
        for (rules, line, rule) in cases {
            assert_eq!(denied(rules, line), rule, "{rules:?} {line}");
        }
    }

    #[test]
    fn rules_that_say_nothing_of_commands_are_refused() {
        for rule in ["nosuch", "@nosuch", "-nosuch", "+", "~a", "on", ""] {
            assert_eq!(Commands::by_rules([rule]).expect_err(rule).0, rule);
        }
    }
}
