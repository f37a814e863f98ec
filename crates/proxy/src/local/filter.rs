//! The clients that CLIENT LIST and KILL select.

use crate::errors;
use crate::features::{Session, SessionFeatures};
use resp::integer::parse_i64;
use resp::{Request, encode};
use std::collections::BTreeSet;
use users::Users;

/// The clients that CLIENT LIST shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// All clients, or all of a type.
    Type(Option<Type>),
    /// These clients, in this order, as often as they are named.
    Ids { named: Vec<u64>, all: BTreeSet<u64> },
}

/// Types of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// An ordinary client.
    Normal,
    /// A client with a subscription.
    Subscriber,
    /// A primary or a replica, of which there are none.
    Other,
}

/// The clients that CLIENT KILL closes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub id: Option<u64>,
    pub kind: Option<Type>,
    pub peer: Option<Vec<u8>>,
    pub local: Option<Vec<u8>>,
    pub user: Option<Vec<u8>>,
    /// Whether it selects no client, whatever the other fields.
    pub is_nobody: bool,
}

/// No client has a longer address: the path of a socket has at most 108 bytes.
pub(crate) const ADDRESS_BYTES_MAX: usize = 256;

impl Type {
    pub(crate) fn parse(word: &[u8]) -> Result<Type, Vec<u8>> {
        match word.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Type::Normal),
            b"pubsub" => Ok(Type::Subscriber),
            b"master" | b"replica" | b"slave" => Ok(Type::Other),
            _ => Err([b"ERR Unknown client type '", word, b"'"].concat()),
        }
    }
}

impl Listing {
    /// `CLIENT LIST [TYPE type | ID id …]`
    pub(crate) fn parse(request: &Request<'_>) -> Result<Listing, Vec<u8>> {
        let is = |word: &str| request.arg(2).eq_ignore_ascii_case(word.as_bytes());
        match request.len() {
            2 => Ok(Listing::Type(None)),
            4 if is("type") => Type::parse(request.arg(3)).map(|kind| Listing::Type(Some(kind))),
            4.. if is("id") => {
                let ids = request.args().skip(3).map(|id| parse_i64(id).map(|id| id as u64));
                let named = ids.collect::<Option<Vec<_>>>().ok_or(errors::INVALID_CLIENT_ID)?;
                Ok(Listing::Ids { all: named.iter().copied().collect(), named })
            }
            _ => Err(errors::SYNTAX.into()),
        }
    }

    /// Whether `session` is shown.
    pub(crate) fn takes(&self, session: &Session) -> bool {
        match self {
            Listing::Type(kind) => kind.is_none_or(|kind| kind == kind_of(session)),
            Listing::Ids { all, .. } => all.contains(&session.origin.client),
        }
    }

    /// Appends one text of all lines: the oldest clients first, or in the requested order.
    pub(crate) fn write(&self, mut lines: Vec<(u64, String)>, resp3: bool, out: &mut Vec<u8>) {
        lines.sort_unstable();
        let texts: Vec<&[u8]> = match self {
            Listing::Type(_) => lines.iter().map(|(_, line)| line.as_bytes()).collect(),
            Listing::Ids { named, .. } => {
                let line = |id: &u64| lines.binary_search_by_key(id, |(client, _)| *client).ok();
                named.iter().filter_map(line).map(|at| lines[at].1.as_bytes()).collect()
            }
        };
        encode::verbatim_of(out, &texts, resp3);
    }
}

impl Filter {
    /// `CLIENT KILL ip:port` or `CLIENT KILL option value …`: the filter, and whether the client itself is spared. If
    /// `users` are known, the named user must be one of them.
    pub(crate) fn parse(request: &Request<'_>, users: Option<&Users>) -> Result<(Filter, bool), Vec<u8>> {
        let (mut filter, mut skips_me) = (Filter::default(), true);
        if request.len() == 3 {
            filter.is_nobody = request.arg(2).len() > ADDRESS_BYTES_MAX;
            filter.peer = (!filter.is_nobody).then(|| request.arg(2).to_vec());
            return Ok((filter, false));
        }
        let mut index = 3;
        while let Some(value) = request.get(index) {
            match request.arg(index - 1).to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = parse_i64(value).and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
                    filter.id = Some(id.ok_or(errors::CLIENT_ID_RANGE)?);
                }
                b"type" => filter.kind = Some(Type::parse(value)?),
                // No address is that long.
                b"addr" | b"laddr" if value.len() > ADDRESS_BYTES_MAX => filter.is_nobody = true,
                b"addr" => filter.peer = Some(value.to_vec()),
                b"laddr" => filter.local = Some(value.to_vec()),
                b"user" if users.is_none_or(|users| users.get(value).is_some()) => {
                    filter.user = Some(value.to_vec())
                }
                b"user" => return Err([b"ERR No such user '", value, b"'"].concat()),
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => skips_me = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => skips_me = false,
                _ => return Err(errors::SYNTAX.into()),
            }
            index += 2;
        }
        // The last option has no value.
        if request.len() % 2 == 1 { Err(errors::SYNTAX.into()) } else { Ok((filter, skips_me)) }
    }

    /// Whether `session` is closed.
    pub(crate) fn takes(&self, session: &Session) -> bool {
        !self.is_nobody
            && self.id.is_none_or(|id| id == session.origin.client)
            && self.kind.is_none_or(|kind| kind == kind_of(session))
            && self.peer.as_ref().is_none_or(|peer| **peer == *session.origin.peer.as_bytes())
            && self.local.as_ref().is_none_or(|local| **local == *session.origin.local.as_bytes())
            && session.features.is_of(self.user.as_deref())
    }
}

impl SessionFeatures {
    /// Whether its user is `user`, or `user` is `None`.
    pub(crate) fn is_of(&self, user: Option<&[u8]>) -> bool {
        user.is_none_or(|user| user == self.login.name())
    }
}

pub(crate) fn kind_of(session: &Session) -> Type {
    if session.features.has_topics() { Type::Subscriber } else { Type::Normal }
}
