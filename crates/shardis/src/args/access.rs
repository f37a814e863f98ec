//! Rules for clients beside the permissions of their users.

use super::policy::PolicyArgs;
use clap::{ArgAction, Args};
use proxy::{Namespace, Namespaces};

/// Protected mode, policies of listeners and namespaces of users.
#[derive(Args, Clone, Debug)]
pub(crate) struct AccessArgs {
    /// Protected mode, as in Redis: while the default user has no password, clients of other machines are denied. Unix
    /// sockets and the loopback interface stay open
    #[arg(long, value_name = "yes|no", default_value = "yes", value_parser = parse_yes, action = ArgAction::Set)]
    pub(super) protected_mode: bool,

    /// Namespaces of users: the keys of each user have a prefix on the nodes that its clients do not see, as in
    /// bob:bob/,eve:eve/ (docs/users.md)
    #[arg(long, value_name = "USER:PREFIX,…", value_parser = parse_prefixes)]
    pub(super) user_namespace: Option<Prefixes>,

    /// Scripts and functions of users with a namespace: their KEYS get the prefix, but a script can reach the keys of all
    /// users. Without it, scripts are refused to them
    #[arg(long, requires = "user_namespace")]
    namespace_scripts: bool,

    /// AUTH with a password alone, and as user default: the client becomes the user that has this password, as with
    /// predixy
    #[arg(long)]
    pub(super) user_by_password: bool,

    #[command(flatten)]
    pub(super) policy: PolicyArgs,
}

/// Prefixes of users' keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prefixes(Vec<(String, String)>);

impl AccessArgs {
    /// The namespaces of users.
    pub(super) fn namespaces(&self) -> Namespaces {
        let prefixes = self.user_namespace.iter().flat_map(|prefixes| &prefixes.0);
        // The prefixes were checked when they were parsed.
        Namespaces::new(prefixes.filter_map(|(user, prefix)| {
            Some((user.clone().into_bytes(), Namespace::new(prefix, self.namespace_scripts).ok()?))
        }))
    }

    /// The users that have namespaces.
    pub(super) fn named_users(&self) -> impl Iterator<Item = &str> {
        self.user_namespace.iter().flat_map(|prefixes| &prefixes.0).map(|(user, _)| user.as_str())
    }
}

fn parse_prefixes(text: &str) -> Result<Prefixes, String> {
    let mut all: Vec<(String, String)> = Vec::new();
    for pair in text.split(',') {
        let (user, prefix) = pair
            .split_once(':')
            .filter(|(user, _)| !user.is_empty())
            .ok_or_else(|| format!("{pair}: write the user, a colon and the prefix, as in bob:bob/"))?;
        Namespace::new(prefix, false).map_err(|error| format!("{user}: {error}"))?;
        for (other, own) in &all {
            if other == user {
                return Err(format!("{user}: the user has two prefixes"));
            }
            if own != prefix && (own.starts_with(prefix) || prefix.starts_with(own.as_str())) {
                return Err(format!(
                    "{user}: the prefixes {own} and {prefix} begin alike, so keys of one user would be those of the other"
                ));
            }
        }
        all.push((user.to_owned(), prefix.to_owned()));
    }
    Ok(Prefixes(all))
}

fn parse_yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_belong_to_users() {
        let pairs = |text: &str| parse_prefixes(text).expect(text).0;
        let owned = |user: &str, prefix: &str| (user.to_owned(), prefix.to_owned());
        assert_eq!(pairs("bob:bob:"), [owned("bob", "bob:")]);
        assert_eq!(pairs("a:x/,b:x/,c:y/"), [owned("a", "x/"), owned("b", "x/"), owned("c", "y/")]);
        for (text, expected) in [
            ("bob", "bob: write the user, a colon and the prefix"),
            (":x", ":x: write the user, a colon and the prefix"),
            ("bob:", "bob: the prefix \"\" must be 1 to 64"),
            ("bob:{x}", "bob: the prefix \"{x}\" must be 1 to 64"),
            ("bob:a*", "bob: the prefix \"a*\" must be"),
            ("bob:x/,bob:y/", "bob: the user has two prefixes"),
            ("a:x/,b:x/y/", "b: the prefixes x/ and x/y/ begin alike"),
        ] {
            let error = parse_prefixes(text).expect_err(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
