//! `Authority` of predixy: passwords with modes and prefixes. There, a password alone says who a client is; here a name does, or
//! the password with `user-by-password`.

use super::scopes::Line;
use crate::draft::{Draft, Origin, Table, Value};
use crate::fault::Word;
use crate::options::{Fate, Options, fate_of_any_case};
use sha2::{Digest, Sha256};
use std::fmt::Write;

const PREFIXES: &str = "with different prefixes for reads and writes, a command that does both needs both; predixy looks at that of writes";

pub(super) const OPTIONS: Options = &[
    (
        "Auth",
        Fate::As(
            "requirepass for one that may do everything; else user, with the SHA-256 of the password, and user-by-password",
        ),
    ),
    (
        "Mode",
        Fate::Partly(
            "rules of user: `read` has no writes, scripts and PUBLISH; `write` with prefixes has no dangerous commands; others have all",
            "clients of shardis administrate nodes by allow-admin alone",
        ),
    ),
    ("KeyPrefix", Fate::As("~PREFIX* of user")),
    ("ReadKeyPrefix", Fate::Partly("%R~PREFIX* of user", PREFIXES)),
    ("WriteKeyPrefix", Fate::Partly("%W~PREFIX* of user", PREFIXES)),
];

const OF_READERS: &str = "+@all -@write -@scripting -@admin -@dangerous -publish -spublish +info";
/// For users with prefixes: FLUSHALL would concern the keys of others.
const OF_WRITERS: &str = "+@all -@admin -@dangerous +info +sort +restore";
/// Without Mode, predixy lets clients do nothing but AUTH, PING and the like.
const OF_NOBODY: &str = "-@all +auth +hello +ping +echo +select +quit";
/// Characters that mean something in a pattern.
const SPECIAL: [char; 6] = ['*', '?', '[', ']', '\\', '^'];

/// The rights of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Missing,
    Read,
    Write,
    Admin,
}

/// A password, and the rights of its clients.
#[derive(Clone, Debug)]
struct Auth {
    key: Word,
    password: String,
    mode: Mode,
    /// Prefixes of keys; those for reads and for writes take the place of the first.
    prefixes: Vec<String>,
    read_prefixes: Vec<String>,
    write_prefixes: Vec<String>,
}

impl Auth {
    /// Whether its clients may read and write all keys.
    fn is_full(&self) -> bool {
        matches!(self.mode, Mode::Write | Mode::Admin) && self.patterns() == "~*"
    }

    /// The patterns of its keys.
    fn patterns(&self) -> String {
        let or_all = |own: &Vec<String>| if own.is_empty() { self.prefixes.clone() } else { own.clone() };
        let (read, write) = (or_all(&self.read_prefixes), or_all(&self.write_prefixes));
        // A reader writes nothing.
        if read == write || self.mode == Mode::Read {
            return patterns("~", &read);
        }
        format!("{} {}", patterns("%R~", &read), patterns("%W~", &write))
    }

    fn differs_by_direction(&self) -> bool {
        self.patterns().contains('%')
    }

    /// The rules of its user.
    fn rules(&self) -> String {
        let who = match self.password.is_empty() {
            true => "nopass".to_owned(),
            false => format!("#{}", hash(&self.password)),
        };
        let commands = match self.mode {
            Mode::Missing => OF_NOBODY,
            Mode::Read => OF_READERS,
            Mode::Write if !self.is_full() => OF_WRITERS,
            // Nothing is checked for a user that may do everything.
            Mode::Write | Mode::Admin => "+@all",
        };
        format!("on {who} {} &* {commands}", self.patterns())
    }
}

/// The SHA-256 of `password`, in hexadecimal digits.
fn hash(password: &str) -> String {
    Sha256::digest(password).iter().fold(String::new(), |mut text, byte| {
        // A string takes all that is written to it.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The patterns of keys that begin with `prefixes`; without one, of all keys.
fn patterns(sigil: &str, prefixes: &[String]) -> String {
    if prefixes.is_empty() {
        return format!("{sigil}*");
    }
    let pattern = |prefix: &String| {
        let escape = |char| if SPECIAL.contains(&char) { vec!['\\', char] } else { vec![char] };
        format!("{sigil}{}*", prefix.chars().flat_map(escape).collect::<String>())
    };
    prefixes.iter().map(pattern).collect::<Vec<_>>().join(" ")
}

/// Reads the scope of `Authority`.
pub(super) fn read(authority: &Line, pool: &mut Table, draft: &mut Draft) {
    let lines = authority.scope.as_deref().unwrap_or_default();
    let auths: Vec<Auth> = lines.iter().filter_map(|line| read_auth(line, draft)).collect();
    match auths.as_slice() {
        [] => {}
        [only] if only.is_full() => {
            match only.password.is_empty() {
                true => draft.meet(&only.key, "clients without a password may do everything"),
                false => pool.set("requirepass", only.password.as_str(), &Origin::secret(&only.key)),
            }
            tell_of_administration(only, draft);
        }
        _ => set_users(&authority.key, &auths, pool, draft),
    }
}

fn tell_of_administration(auth: &Auth, draft: &mut Draft) {
    if auth.mode == Mode::Admin {
        draft.leave_out(
            &auth.key,
            "admin: clients of shardis administrate nothing by it; see admin and allow-admin",
        );
    }
}

/// A user for each password, and the default user for clients without one.
fn set_users(authority: &Word, auths: &[Auth], pool: &mut Table, draft: &mut Draft) {
    let mut users = Vec::new();
    let mut passwords: Vec<&str> = Vec::new();
    if auths.iter().all(|auth| !auth.password.is_empty()) {
        users.push(("default off".to_owned(), Some(authority.place.clone())));
    }
    for auth in auths {
        if passwords.contains(&&*auth.password) {
            draft.leave_out(&auth.key, "an Auth before it has this password");
            continue;
        }
        passwords.push(&auth.password);
        let name = match auth.password.is_empty() {
            true => "default".to_owned(),
            false => format!("auth-{}", passwords.len()),
        };
        users.push((format!("{name} {}", auth.rules()), Some(auth.key.place.clone())));
        tell_of_administration(auth, draft);
        if auth.differs_by_direction() {
            draft.leave_out(&auth.key, PREFIXES);
        }
    }
    pool.set("user", Value::List(users), &Origin::secret(authority));
    pool.set("user-by-password", true, &Origin::implied("predixy knows clients by their passwords"));
    if auths.iter().any(|auth| auth.password.is_empty()) {
        let origin = Origin::implied("predixy lets clients of other machines in without a password");
        pool.set("protected-mode", "no", &origin);
    }
}

fn read_auth(line: &Line, draft: &mut Draft) -> Option<Auth> {
    if !line.key.text.eq_ignore_ascii_case("Auth") {
        draft.fault(&line.key.place, "Authority has only Auth");
        return None;
    }
    let Some(lines) = &line.scope else {
        draft.fault(&line.key.place, "Auth: write { and } with Mode between them");
        return None;
    };
    let mut auth = Auth {
        key: line.key.clone(),
        password: line.value.clone(),
        mode: Mode::Missing,
        prefixes: Vec::new(),
        read_prefixes: Vec::new(),
        write_prefixes: Vec::new(),
    };
    for Line { key, value, .. } in lines {
        let prefixes = || value.split_whitespace().map(str::to_owned).collect();
        match fate_of_any_case(OPTIONS, &key.text).map(|(name, _)| name) {
            Some("Mode") => match value.to_ascii_lowercase().as_str() {
                "read" => auth.mode = Mode::Read,
                "write" => auth.mode = Mode::Write,
                "admin" => auth.mode = Mode::Admin,
                _ => draft.fault(&key.place, format!("Mode: {value:?}: write read, write or admin")),
            },
            Some("KeyPrefix") => auth.prefixes = prefixes(),
            Some("ReadKeyPrefix") => auth.read_prefixes = prefixes(),
            Some("WriteKeyPrefix") => auth.write_prefixes = prefixes(),
            _ => draft.fault(&key.place, format!("{}: there is no such key in Auth", key.text)),
        }
    }
    Some(auth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_patterns_without_special_characters() {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        assert_eq!(patterns("~", &[]), "~*");
        assert_eq!(patterns("%R~", &owned(&["User", "a*[b"])), "%R~User* %R~a\\*\\[b*");
    }

    #[test]
    fn passwords_are_digests() {
        // The output of: printf secret | sha256sum
        assert_eq!(hash("secret"), "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b");
    }
}
