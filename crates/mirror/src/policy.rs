//! Which requests are mirrored, and how their replies are compared.

use command::{Carry, Command, Compare, Local, Merge, Transaction};
use resp::{Request, encode, reply};

/// The choice of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether requests that only read are mirrored too.
    pub reads: bool,
    /// The keys that are chosen, by their hash, in parts of [`SHARE_WHOLE`].
    pub share: u32,
}

/// The share of all keys.
pub const SHARE_WHOLE: u32 = 10_000;

/// The way of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// The request is not mirrored; only its reply is awaited.
    Skip,
    /// The request is mirrored at once.
    Send,
    /// The reply decides about it, and perhaps changes it.
    ByReply(Rewrite),
    /// MULTI: EXEC decides about the transaction.
    Begin,
    /// EXEC: its reply decides.
    Run,
    /// DISCARD.
    Discard,
    /// The client gets more than one reply for a request from now on, so it is not mirrored any more.
    Leave,
}

/// The request that is sent after the first pool's reply, if that is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewrite {
    /// The request as it is, unless the reply is null: commands that wait.
    AsItIs,
    /// HELLO with the version of the protocol alone: users and passwords belong to the first pool.
    Protocol,
    /// SREM of the members that SPOP took.
    Removed,
    /// XADD with the ID that the first pool chose.
    Named,
}

impl Policy {
    /// Whether a request with this key is chosen. Requests without a key are.
    pub(crate) fn chooses(&self, key: Option<&[u8]>) -> bool {
        key.is_none_or(|key| hash(key) % u64::from(SHARE_WHOLE) < u64::from(self.share))
    }

    /// The way of a request of `command` with this first key, outside a transaction.
    pub(crate) fn course(&self, command: &Command, request: &Request<'_>, key: Option<&[u8]>) -> Course {
        match command.carry {
            Carry::Here(local) => of_local(local, command, request),
            Carry::Transaction(step) => match step {
                Transaction::Begin => Course::Begin,
                Transaction::Execute => Course::Run,
                Transaction::Discard => Course::Discard,
                // The first pool's EXEC decides.
                Transaction::Watch | Transaction::Unwatch => Course::Skip,
            },
            Carry::AllShards(_) if loads_code(command) => Course::Send,
            Carry::AllShards(Merge::Report(_))
            | Carry::Cursor
            | Carry::AnyShard
            | Carry::OnlyShard(_)
            | Carry::Admin(..)
            | Carry::Refused(_)
            | Carry::Container => Course::Skip,
            _ if !self.chooses(key) || !(self.reads || command.may_write()) => Course::Skip,
            Carry::Blocking(_) => Course::ByReply(Rewrite::AsItIs),
            _ if command.name == "spop" => Course::ByReply(Rewrite::Removed),
            _ if command.name == "xadd" && star(request).is_some() => Course::ByReply(Rewrite::Named),
            _ => Course::Send,
        }
    }
}

fn of_local(local: Local, command: &Command, request: &Request<'_>) -> Course {
    match local {
        Local::Select => Course::Send,
        Local::Hello if request.len() > 1 => Course::ByReply(Rewrite::Protocol),
        _ if leaves(&command.name) => Course::Leave,
        _ => Course::Skip,
    }
}

/// Whether replies and requests of a client no longer match one to one after the command.
fn leaves(name: &str) -> bool {
    name.ends_with("subscribe") || matches!(name, "monitor" | "reset" | "client|reply" | "client|tracking")
}

/// Whether the command brings scripts or functions, which later requests name.
fn loads_code(command: &Command) -> bool {
    command.name.starts_with("script|") || command.name.starts_with("function|")
}

/// Writes what `request` becomes after the reply `ours`. Returns the rule for the replies, or `None` if nothing is sent.
pub(crate) fn rewrite(
    how: Rewrite,
    request: &Request<'_>,
    ours: &[u8],
    rule: Compare,
    out: &mut Vec<u8>,
) -> Option<Compare> {
    if ours.is_empty() || reply::is_error(ours) || reply::is_null(ours) {
        return None;
    }
    match how {
        Rewrite::AsItIs => out.extend_from_slice(request.bytes),
        Rewrite::Protocol => {
            encode::request(out, &[b"HELLO", request.arg(1)]);
            return Some(Compare::Kind);
        }
        Rewrite::Removed => {
            let mut args: Vec<&[u8]> = vec![b"SREM", request.arg(1)];
            match reply::elements(ours) {
                Some(members) => args.extend(members.filter_map(reply::as_bulk)),
                None => args.extend(reply::as_bulk(ours)),
            }
            if args.len() == 2 {
                return None;
            }
            encode::request(out, &args);
            return Some(Compare::Kind);
        }
        Rewrite::Named => {
            let (at, id) = (star(request)?, reply::as_bulk(ours)?);
            let args: Vec<&[u8]> =
                request.args().enumerate().map(|(number, arg)| if number == at { id } else { arg }).collect();
            encode::request(out, &args);
        }
    }
    Some(rule)
}

/// The place of the ID that the server is to choose. It is the first star behind the key: options take none.
fn star(request: &Request<'_>) -> Option<usize> {
    request.args().skip(2).position(|arg| arg == b"*").map(|at| at + 2)
}

/// FNV-1a, with a last step that spreads keys that differ in their last bytes.
fn hash(key: &[u8]) -> u64 {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_share_of_the_keys() {
        let policy = Policy { reads: true, share: SHARE_WHOLE / 4 };
        let chosen =
            (0..10_000).filter(|number| policy.chooses(Some(format!("key:{number}").as_bytes()))).count();
        assert!((2_300..2_700).contains(&chosen), "{chosen}");
        assert!(policy.chooses(None));
        assert!(!Policy { share: 0, ..policy }.chooses(Some(b"k")));
        assert!(Policy { share: SHARE_WHOLE, ..policy }.chooses(Some(b"k")));
    }
}
