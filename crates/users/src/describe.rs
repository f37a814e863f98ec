//! Users as text: the rules that define them, as `ACL LIST` and `ACL GETUSER` print them.
//!
//! The original rules are not kept, only their effect: `+@all -@all +get` becomes `-@all +get`. The categories that describe a
//! set of commands best are chosen by Redis's algorithm. So the text is Redis's, apart from the order of single commands, which
//! in Redis is that of a hash table.

use crate::bits::{Bits, Line};
use crate::user::{FirstArgs, KeyPattern, Rights, Selector, User};
use command::{Acl, Number};

/// Commands, keys and channels that may be used together, as `ACL GETUSER` shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// `-@all +get`
    pub commands: Vec<u8>,
    /// `~a* %R~b*`
    pub keys: Vec<u8>,
    /// `&a*`
    pub channels: Vec<u8>,
}

impl User {
    /// All of it in one line, as in an ACL file: `user NAME rules…`.
    pub fn describe(&self) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = vec![b"user".to_vec(), self.name.to_vec()];
        words.extend(self.flags().iter().map(|flag| flag.as_bytes().to_vec()));
        words.extend(self.password_hashes().map(|hash| format!("#{hash}").into_bytes()));
        words.push(self.root.describe());
        let selectors = self.selectors.iter().map(|selector| [b"(", &*selector.describe(), b")"].concat());
        words.extend(selectors);
        words.join(&b' ')
    }

    /// Its flags beside passwords and permissions, in Redis's order.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        flags.extend(self.free.then_some("nopass"));
        flags.extend(self.sanitizes.map(|sanitizes| match sanitizes {
            true => "sanitize-payload",
            false => "skip-sanitize-payload",
        }));
        flags
    }

    /// The hashes of its passwords, in hexadecimal digits.
    pub fn password_hashes(&self) -> impl ExactSizeIterator<Item = String> + '_ {
        self.passwords.iter().map(|hash| hash.to_hex())
    }

    /// Permissions by the rules outside of parentheses.
    pub fn root(&self) -> Description {
        self.root.description()
    }

    /// Further permissions: one for each pair of parentheses.
    pub fn selectors(&self) -> impl ExactSizeIterator<Item = Description> + '_ {
        self.selectors.iter().map(Selector::description)
    }
}

impl Selector {
    /// As in an ACL file.
    pub(crate) fn describe(&self) -> Vec<u8> {
        let Description { commands, keys, channels } = self.description();
        let mut words = Vec::new();
        words.extend((!keys.is_empty()).then_some(keys));
        words.extend((!self.all_channels).then(|| b"resetchannels".to_vec()));
        words.extend((!channels.is_empty()).then_some(channels));
        words.push(commands);
        words.join(&b' ')
    }

    fn description(&self) -> Description {
        let keys = match self.all_keys {
            true => b"~*".to_vec(),
            false => self.keys.iter().map(KeyPattern::describe).collect::<Vec<_>>().join(&b' '),
        };
        let channels = self.channels.iter().map(|glob| [b"&", &**glob].concat());
        let channels = match self.all_channels {
            true => b"&*".to_vec(),
            false => channels.collect::<Vec<_>>().join(&b' '),
        };
        Description { commands: self.describe_commands(), keys, channels }
    }

    fn describe_commands(&self) -> Vec<u8> {
        // A user that may use unknown commands was given everything first.
        let adds = !self.commands.contains(Number::LEARNED);
        let (mut described, mut text) = match adds {
            true => (Bits::NONE, b"-@all".to_vec()),
            false => (Bits::ALL, b"+@all".to_vec()),
        };
        for (name, category) in best_categories(self.commands, adds) {
            text.extend_from_slice(if adds { b" +@" } else { b" -@" });
            text.extend_from_slice(name.as_bytes());
            described.set_category(category, adds);
        }
        for line in Line::all() {
            let on = self.commands.contains(line.number);
            if on != described.contains(line.number) {
                text.extend_from_slice(if on { b" +" } else { b" -" });
                text.extend_from_slice(line.command.name.as_bytes());
                described.set_line(line, on);
            }
            // Placed behind their command, whose rule switches its subcommands as well.
            let first_args = self.first_args.iter().filter(|args| !on && args.number == line.number);
            for arg in first_args.flat_map(FirstArgs::iter) {
                text.extend_from_slice(&[b" +", line.command.name.as_bytes(), b"|", arg].concat());
            }
        }
        debug_assert!(
            described == self.commands,
            "the text says all of it: {}",
            String::from_utf8_lossy(&text)
        );
        text
    }
}

impl KeyPattern {
    fn describe(&self) -> Vec<u8> {
        let sign: &[u8] = match self.rights {
            Rights { read: true, write: true } => b"~",
            Rights { read: true, .. } => b"%R~",
            Rights { .. } => b"%W~",
        };
        [sign, &self.glob].concat()
    }
}

/// The categories that describe `commands` best, each of which fits more commands than it does not. The one that differs least
/// comes first, and of equal ones the largest.
fn best_categories(commands: Bits, adds: bool) -> Vec<(&'static str, Acl)> {
    let mut rest = commands;
    let mut chosen: Vec<(&'static str, Acl)> = Vec::new();
    let all = Acl::WORDS.iter().map(|word| (*word, Acl::of(word)));
    let all: Vec<(&'static str, Acl)> = all.collect();
    loop {
        let mut best = None;
        for &(word, category) in all.iter().filter(|one| !chosen.contains(one)) {
            let (on, off) = rest.count(category);
            let (same, differs) = if adds { (on, off) } else { (off, on) };
            let is_better =
                best.is_none_or(|(_, least, most)| differs < least || (differs == least && same > most));
            if same > differs && is_better {
                best = Some(((word, category), differs, same));
            }
        }
        let Some((category, _, _)) = best else { return chosen };
        rest.set_category(category.1, !adds);
        chosen.push(category);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::user;

    fn described(rules: &str) -> String {
        String::from_utf8(user(rules).describe()).expect("text")
    }

    #[test]
    fn users_are_described_as_by_redis() {
        for (rules, expected) in [
            ("", "user u off resetchannels -@all"),
            ("on nopass allkeys allchannels +@all", "user u on nopass ~* &* +@all"),
            (
                "on ~a* %R~r* &chan* +get +set +@hash -hset",
                "user u on ~a* %R~r* resetchannels &chan* -@all +@hash -hset +set +get",
            ),
            (
                "on +select|0 +config|get (~a resetchannels -@all +get)",
                "user u on resetchannels -@all +select|0 +config|get (~a resetchannels -@all +get)",
            ),
            ("reset", "user u off sanitize-payload resetchannels -@all"),
            ("skip-sanitize-payload %R~ ~", "user u off skip-sanitize-payload ~ resetchannels -@all"),
            ("+@all -@dangerous", "user u off resetchannels +@all -@dangerous"),
            ("+@all -@all", "user u off resetchannels -@all"),
        ] {
            let words = |text: &str| {
                let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
                words.sort();
                words
            };
            assert_eq!(words(&described(rules)), words(expected), "{rules}");
        }
    }

    #[test]
    fn a_description_makes_the_same_user() {
        for rules in [
            "on >secret ~a %W~b &c +@read -get (+@write ~w* &*) (%R~x +select|0)",
            "+@all -@admin -config +config|get",
            "+@slow -memory -@dangerous +@fast",
        ] {
            let one = user(rules);
            let text = String::from_utf8(one.describe()).expect("text");
            let again = user(text.strip_prefix("user u ").expect("its name"));
            assert_eq!(again, one, "{text}");
        }
    }
}
