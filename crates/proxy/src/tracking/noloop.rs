//! NOLOOP: a client that caches gets no invalidations for its own writes.
//!
//! A cache that writes through needs NOLOOP, such as Lettuce's `CacheFrontend` with a loader. The cache reads a
//! missing key, so the node tracks the key. Then the cache loads the value, writes it to Redis, and puts it into its
//! own memory. Without NOLOOP, the invalidation of that write would drop each loaded value at once.
//!
//! ```text
//!   client: SET k v ─► the digest of v is noted
//!   node: k has changed ─► is there a digest? ─ no ─► invalidation
//!                               └─ yes ─► GETRANGE k ─► is it v? ─ yes ─► no invalidation
//!                                                          └─ no ─► invalidation
//! ```
//!
//! A node reports changed keys, without the client, and once for several changes at about the same time. So the
//! report does not show whose change it was. The worker reads the key instead. If it has the client's value, the
//! client's copy is right, even if another client wrote last. The node will report later changes again.
//!
//! In doubt the client gets the invalidation, which is never wrong. So a write is noted only if it leaves a plain,
//! short text. When the client uses the key otherwise, the note is dropped: the client may have cached another value.
//! Only clients that stay in one database are noted, since nodes report a key without its database.

use crate::ConnId;
use crate::context::Context;
use crate::features::{Asked, Owner, TaskKind};
use crate::link::ProfileId;
use crate::link::kept::Kept;
use crate::outcome::Outcome;
use crate::peers::{Peer, Peers};
use crate::tracking::invalidations::Invalidations;
use crate::tracking::{Mode, invalidations};
use command::Command;
use resp::reply::as_bulk;
use resp::{Request, encode};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use stdx::Id;
use topology::ShardId;

/// The recent writes of one client.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    /// Writes by key.
    values: BTreeMap<Box<[u8]>, Written>,
    /// Bytes of the keys.
    key_bytes: usize,
    /// The profile of the client's links.
    profile: Option<ProfileId>,
    /// Whether the client has used several profiles. It may have read a key of the same name in another database.
    is_mixed: bool,
}

/// A value, recognised by its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    len: usize,
    digest: [u8; 32],
}

/// A key that is read again, for a client that has written it.
#[derive(Debug)]
pub(crate) struct Check {
    conn: ConnId,
    key: Box<[u8]>,
    written: Written,
}

/// The limit of noted keys of a client. Beyond it, all are forgotten, and the client gets invalidations for those
/// writes.
const OWN_WRITES_MAX: usize = 1024;
/// The longest key that is noted. For a longer one, the client gets invalidations.
const KEY_BYTES_MAX: usize = 1024;
/// The longest text that is noted. Reading a longer one again would cost more than it saves.
const TEXT_BYTES_MAX: usize = 16 << 10;

impl Written {
    fn of(value: &[u8]) -> Written {
        Written { len: value.len(), digest: Sha256::digest(value).into() }
    }
}

impl OwnWrites {
    /// Notes the keys that `request` reads or writes, over `profile`.
    pub(crate) fn note(
        &mut self,
        profile: ProfileId,
        command: &Command,
        request: &Request<'_>,
        in_transaction: bool,
    ) {
        let mut positions = Vec::new();
        // If the keys cannot be found, the request has none.
        let _ = command.keys(request, &mut positions);
        self.is_mixed |= !positions.is_empty() && *self.profile.get_or_insert(profile) != profile;
        for at in positions {
            self.remove(request.arg(at));
        }
        let values = if in_transaction || self.is_mixed { Vec::new() } else { values_of(command, request) };
        for (key, value) in values {
            if self.values.len() >= OWN_WRITES_MAX {
                self.values.clear();
                self.key_bytes = 0;
            }
            self.remove(key);
            // A key that is gone reads as an empty text.
            if (1..=TEXT_BYTES_MAX).contains(&value.len()) && key.len() <= KEY_BYTES_MAX {
                self.key_bytes += key.len();
                self.values.insert(key.into(), Written::of(value));
            }
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if self.values.remove(key).is_some() {
            self.key_bytes -= key.len();
        }
    }

    /// Memory in use.
    pub(crate) fn held_bytes(&self) -> usize {
        self.values.len() * size_of::<(Box<[u8]>, Written)>() + self.key_bytes
    }

    fn get(&self, key: &[u8]) -> Option<Written> {
        if self.is_mixed { None } else { self.values.get(key).copied() }
    }
}

/// The keys that `request` sets to a text regardless of their old values, with those texts.
fn values_of<'r>(command: &Command, request: &Request<'r>) -> Vec<(&'r [u8], &'r [u8])> {
    let is_condition =
        |word: &[u8]| [&b"nx"[..], b"xx", b"get"].iter().any(|one| word.eq_ignore_ascii_case(one));
    match &*command.name {
        "set" if !request.args().skip(3).any(is_condition) => vec![(request.arg(1), request.arg(2))],
        "setex" | "psetex" => vec![(request.arg(1), request.arg(3))],
        "mset" if request.len() % 2 == 1 => {
            (1..request.len()).step_by(2).map(|at| (request.arg(at), request.arg(at + 1))).collect()
        }
        _ => Vec::new(),
    }
}

impl Invalidations {
    /// Checks whether `key`, on `shard`, has the client's value. If not, the client gets the invalidation.
    pub(crate) fn check_own_write(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        conn: ConnId,
        shard: ShardId,
        key: &[u8],
    ) {
        let Some(Peer::Client(session)) = peers.get(conn) else { return };
        let Some(written) = session.features.tracking().and_then(|tracking| tracking.own.get(key)) else {
            return;
        };
        // The check goes behind the client's earlier requests on the same link.
        let Ok(ix) = cx.shared_link(session.profile, shard) else {
            return invalidations::tell_changed(cx, peers, conn, Some(&[key]));
        };
        let id = self.checks.insert(Check { conn, key: key.into(), written });
        let mut request = cx.engine.pool.take();
        // One byte more than the value has.
        let end = itoa::Buffer::new().format(written.len).to_owned();
        encode::request(&mut request, &[b"GETRANGE", key, b"0", end.as_bytes()]);
        let asked =
            Asked { conn: id, place: 0, part: 0, owner: Owner::Task(TaskKind::Check), kept: Kept::NO };
        cx.engine.enqueue_on(ix, &request, asked);
        cx.engine.pool.give(request);
    }

    /// Handles the value of the key, or its loss.
    pub(crate) fn end_check(&mut self, cx: &mut Context, peers: &mut Peers, id: Id, outcome: &Outcome<'_>) {
        let Some(Check { conn, key, written }) = self.checks.remove(id) else { return };
        let found = match outcome {
            Outcome::Reply(reply) => as_bulk(reply).map(Written::of),
            Outcome::Lost(_) => None,
        };
        if found == Some(written) {
            return;
        }
        if let Some(Peer::Client(session)) = peers.get_mut(conn)
            && let Some(tracking) = session.features.tracking_mut()
        {
            // If the client has written another value meanwhile, that one counts.
            if tracking.own.get(&key) == Some(written) {
                tracking.own.remove(&key);
                tracking.recount();
            }
            // The client may track other keys by now.
            if tracking.mode != Mode::Broadcast || !tracking.wanted(&[&key]).is_empty() {
                invalidations::tell_changed(cx, peers, conn, Some(&[&key]));
            }
        }
    }
}

/// Whether the present value of `key` may be the client's own write.
pub(crate) fn is_own_write(peers: &Peers, conn: ConnId, key: &[u8]) -> bool {
    let Some(Peer::Client(session)) = peers.get(conn) else { return false };
    session.features.tracking().is_some_and(|tracking| tracking.own.get(key).is_some())
}
