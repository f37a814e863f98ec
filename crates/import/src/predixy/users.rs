//! `Authority` of predixy: passwords with modes and prefixes. There, a password alone says who a client is; here a name does.

use super::scopes::Line;
use crate::draft::{Draft, Origin, Table};
use crate::fault::Word;
use crate::options::{Fate, Options, fate_of_any_case};

pub(super) const OPTIONS: Options = &[
    (
        "Auth",
        Fate::Partly(
            "requirepass: the first Auth that may read and write all keys",
            "shardis tells users apart by name: others need users in acl-file; their passwords are refused until then. If no Auth \
             may read and write all keys, the file is refused",
        ),
    ),
    (
        "Mode",
        Fate::Partly(
            "requirepass, with Auth",
            "`read` needs a user in acl-file; `admin` has the rights of `write`",
        ),
    ),
    ("KeyPrefix", Fate::Not("it needs a user in acl-file, as in user NAME on >PASSWORD ~PREFIX* +@all")),
    (
        "ReadKeyPrefix",
        Fate::Not("it needs a user in acl-file, as in user NAME on >PASSWORD %R~PREFIX* +@all"),
    ),
    (
        "WriteKeyPrefix",
        Fate::Not("it needs a user in acl-file, as in user NAME on >PASSWORD %W~PREFIX* +@all"),
    ),
];

const OTHERS: &str = "shardis tells users apart by name: this one needs a user in acl-file, and its password is refused until then";

/// A password, and the rights of its clients.
#[derive(Clone, Debug)]
struct Auth {
    key: Word,
    password: String,
    may_write: bool,
    is_admin: bool,
    has_prefix: bool,
}

/// Reads the scope of `Authority`.
pub(super) fn read(authority: &Line, pool: &mut Table, draft: &mut Draft) {
    let lines = authority.scope.as_deref().unwrap_or_default();
    let auths: Vec<Auth> = lines.iter().filter_map(|line| read_auth(line, draft)).collect();
    let is_full = |auth: &&Auth| auth.may_write && !auth.has_prefix;
    // Without a password a client gets no further than this one lets it.
    let open = auths.iter().filter(is_full).find(|auth| auth.password.is_empty());
    let Some(chosen) = open.or_else(|| auths.iter().find(is_full)) else {
        if let Some(auth) = auths.first() {
            draft.refuse(&auth.key, "no Auth may read and write all keys; write users into acl-file instead");
        }
        return;
    };
    match chosen.password.is_empty() {
        true => draft.meet(&chosen.key, "clients without a password may do everything"),
        false => pool.set("requirepass", chosen.password.as_str(), &Origin::secret(&chosen.key)),
    }
    for auth in auths.iter().filter(|auth| !std::ptr::eq(*auth, chosen)) {
        draft.leave_out(&auth.key, OTHERS);
    }
    if chosen.is_admin {
        draft.leave_out(
            &chosen.key,
            "admin: clients of shardis administrate nothing by it; see admin and allow-admin",
        );
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
    // Without Mode, predixy lets clients do nothing but AUTH, PING and the like.
    let mut auth = Auth {
        key: line.key.clone(),
        password: line.value.clone(),
        may_write: false,
        is_admin: false,
        has_prefix: false,
    };
    for Line { key, value, .. } in lines {
        match fate_of_any_case(OPTIONS, &key.text) {
            Some(("Mode", _)) => match value.to_ascii_lowercase().as_str() {
                "read" => auth.may_write = false,
                "write" => auth.may_write = true,
                "admin" => (auth.may_write, auth.is_admin) = (true, true),
                _ => draft.fault(&key.place, format!("Mode: {value:?}: write read, write or admin")),
            },
            Some(("KeyPrefix" | "ReadKeyPrefix" | "WriteKeyPrefix", fate)) => {
                auth.has_prefix |= !value.is_empty();
                draft.settle(key, fate);
            }
            _ => draft.fault(&key.place, format!("{}: there is no such key in Auth", key.text)),
        }
    }
    Some(auth)
}
