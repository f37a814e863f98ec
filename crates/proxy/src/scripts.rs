//! Scripts and functions that went through the proxy, kept for all workers. A request may name one of them without
//! its text. If the node may lack the script (it was restarted, or joined later), shardis loads the script there
//! first.
//!
//! ```text
//! EVAL, SCRIPT LOAD, FUNCTION LOAD ─► kept ─┐
//! EVALSHA, FCALL ─► loaded on this link? ─ no ─► SCRIPT LOAD, FUNCTION LOAD ahead of it ───────► node
//!        ▲                                                                                        │
//!        └─────────── once more, if nothing was sent behind it ◄─── NOSCRIPT, function not found ─┘
//! ```
//!
//! A request that fails for a missing script did not run. So shardis may repeat it, unless the client has sent more
//! behind it: the later requests would then run first.
//!
//! 16 MiB of scripts are kept for all workers; the oldest are dropped first. The proxy notes for each link which
//! scripts it has loaded there. A node can still say `NOSCRIPT`, if an operator flushed its scripts directly.

pub(crate) mod known;

use crate::context::Context;
use crate::cross_slot;
use crate::cross_slot::remedy::Remedy;
use crate::features::{Asked, Owed, Session, TaskId};
use crate::link::{LinkIx, ProfileId};
use crate::requests::route::{self, Keys, Part, Route};
use crate::scripts::known::{Library, Named, Sha, library_name};
use command::{Command, Script};
use engine::memory::Charge;
use resp::{Request, encode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stdx::{BufferPool, Id, Slab};
use topology::ShardId;

/// A request that is sent once more if its node lacks the script or the function.
#[derive(Debug)]
pub(crate) struct Repeat {
    profile: ProfileId,
    shard: ShardId,
    named: Named,
    request: Vec<u8>,
    /// Whether the request was repeated already. It is not repeated again.
    is_second: bool,
}

/// Requests that may have to be repeated.
#[derive(Debug)]
pub(crate) struct Repeats {
    requests: Slab<Repeat>,
    /// The charge for all copies.
    charge: Charge,
}

/// The longest request that is copied for a repetition.
const REPEAT_BYTES_MAX: usize = 16 * 1024;
/// Bytes of all copies of a worker. Beyond this limit a request is not copied. If its script is missing, its client
/// gets NOSCRIPT.
const REPEATS_BYTES_MAX: usize = 4 << 20;

impl Repeats {
    /// No requests yet. Copies are charged to `charge`.
    pub(crate) fn new(charge: Charge) -> Repeats {
        Repeats { requests: Slab::default(), charge }
    }

    /// Keeps a copy of `request`, unless the request is too long or the copies are too many.
    fn keep(
        &mut self,
        (profile, shard): (ProfileId, ShardId),
        named: Named,
        request: &[u8],
        pool: &mut BufferPool,
    ) -> Option<Id> {
        if request.len() > REPEAT_BYTES_MAX || self.charge.bytes() + request.len() > REPEATS_BYTES_MAX {
            return None;
        }
        let mut copy = pool.take();
        copy.extend_from_slice(request);
        self.charge.add(copy.len());
        Some(self.requests.insert(Repeat { profile, shard, named, request: copy, is_second: false }))
    }

    /// Keeps `repeat`, which is sent a second time, until it is answered: the second node may redirect it.
    fn keep_second(&mut self, repeat: Repeat) -> Id {
        self.charge.add(repeat.request.len());
        self.requests.insert(Repeat { is_second: true, ..repeat })
    }

    fn remove(&mut self, id: Id) -> Option<Repeat> {
        let repeat = self.requests.remove(id)?;
        self.charge.take(repeat.request.len());
        Some(repeat)
    }

    /// The bytes that are charged, and the bytes in use.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.charge.bytes(), self.requests.iter().map(|(_, repeat)| repeat.request.len()).sum())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Sends a request that runs a script to the shard of its keys. If the node may lack the script, shardis loads it
    /// there first.
    pub(crate) fn forward_script(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        command: &Command,
        script: Script,
        request: &Request<'_>,
        keys: &mut Keys,
    ) {
        let Route::One(shard) = route::route(command, request, &cx.engine.topology, keys) else {
            return cross_slot::refuse_cross_slot(cx, session, Remedy::HashTag);
        };
        let node = match cx.shared_link(session.profile, shard) {
            Ok(node) => node,
            Err(lost) => return cx.refuse(session, &lost.text()),
        };
        self.forward_script_to(cx, session, (shard, node), script, request);
    }

    /// Sends a script's request over the link `ix`, which goes to a node of `shard`.
    pub(crate) fn forward_script_to(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        (shard, ix): (ShardId, LinkIx),
        script: Script,
        request: &Request<'_>,
    ) {
        let copy = match named(cx, ix, script, request) {
            Some(named) if bring_along(cx, ix, &named) => {
                self.keep((session.profile, shard), named, request.bytes, &mut cx.engine.pool)
            }
            _ => None,
        };
        let place = session.replies.reserve(copy.map_or(Owed::Node, |copy| Owed::Task(TaskId::Repeat(copy))));
        cx.engine.enqueue_on(ix, request.bytes, Asked::by_client(session.conn, place));
    }

    /// Repeats the request of `reply` if its node lacks a script that shardis has. Returns whether it did.
    pub(crate) fn repeat(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        place: u32,
        id: Id,
        reply: &[u8],
    ) -> bool {
        let Some(repeat) = self.remove(id) else { return false };
        let missing = match repeat.named {
            Named::Script(_) => reply.starts_with(NO_SCRIPT),
            Named::Functions => reply == FUNCTION_NOT_FOUND,
        };
        let ix = (missing && !repeat.is_second && session.replies.is_last(place))
            .then(|| cx.shared_link(repeat.profile, repeat.shard).ok())
            .flatten()
            .filter(|&ix| bring_again(cx, ix, &repeat.named));
        let Some(ix) = ix else {
            cx.engine.pool.give(repeat.request);
            return false;
        };
        cx.engine.enqueue_on(ix, &repeat.request, Asked::by_client(session.conn, place));
        session.replies.expect(place, Owed::Task(TaskId::Repeat(self.keep_second(repeat))));
        true
    }

    /// Loads the script of the request `id` over the link `ix`, if it may be missing there: the request goes to
    /// another node.
    pub(crate) fn bring_along_again(&mut self, cx: &mut Context, ix: LinkIx, id: Id) {
        if let Some(named) = self.requests.get(id).map(|repeat| repeat.named) {
            bring_along(cx, ix, &named);
        }
    }

    /// Forgets the request `id`, which is not needed any more.
    pub(crate) fn forget_repeat(&mut self, cx: &mut Context, id: Id) {
        if let Some(repeat) = self.remove(id) {
            cx.engine.pool.give(repeat.request);
        }
    }
}

/// The script or function that `request` names. A script that the request brings along is kept.
fn named(cx: &mut Context, ix: LinkIx, script: Script, request: &Request<'_>) -> Option<Named> {
    if script == Script::Body {
        let sha = cx.board.scripts.keep(request.arg(1), cx.limits.script_bytes_max);
        note_loaded(cx, ix, sha);
        return None;
    }
    cx.board.scripts.named(script, request, cx.limits.script_bytes_max)
}

fn note_loaded(cx: &mut Context, ix: LinkIx, sha: Sha) {
    let loaded = &mut cx.engine.links[ix].features.loaded;
    loaded.catch_up(&cx.board.scripts);
    loaded.scripts.insert(sha);
}

/// Loads a script or all libraries over the link `ix`, unless that link has loaded them. Returns false if shardis
/// does not have them.
pub(crate) fn bring_along(cx: &mut Context, ix: LinkIx, named: &Named) -> bool {
    let board = Arc::clone(&cx.board);
    let loaded = &mut cx.engine.links[ix].features.loaded;
    loaded.catch_up(&board.scripts);
    match named {
        Named::Script(sha) => {
            let Some(body) = board.scripts.body(sha) else { return false };
            if loaded.scripts.insert(*sha) {
                load(cx, ix, &[b"SCRIPT", b"LOAD", &body]);
            }
            true
        }
        Named::Functions => {
            let version = board.scripts.libraries_version.load(Ordering::Acquire);
            if std::mem::replace(&mut loaded.libraries_version, version) != version {
                // Without REPLACE: a library that the node already has is the one that it got last.
                let libraries = board.scripts.libraries();
                libraries.iter().for_each(|code| load(cx, ix, &[b"FUNCTION", b"LOAD", code]));
            }
            board.scripts.has_libraries()
        }
    }
}

/// Queues a request of shardis without an owner for its reply. If loading fails, the client's own request fails.
fn load(cx: &mut Context, ix: LinkIx, args: &[&[u8]]) {
    let mut bytes = cx.engine.pool.take();
    encode::request(&mut bytes, args);
    cx.engine.enqueue_on(ix, &bytes, Asked::by_nobody());
    cx.engine.pool.give(bytes);
}

/// Loads like [`bring_along`], after a node turned out to lack a script. The request may have been redirected, so
/// that node is unknown. Hence the script counts as missing on all links.
fn bring_again(cx: &mut Context, ix: LinkIx, named: &Named) -> bool {
    for link in &mut cx.engine.links {
        match named {
            Named::Script(sha) => _ = link.features.loaded.scripts.remove(sha),
            Named::Functions => link.features.loaded.libraries_version = 0,
        }
    }
    bring_along(cx, ix, named)
}

/// Notes the effect of `command` on scripts, before its `parts` go to all shards. A script that is being deleted must
/// not be loaded again behind it. Returns the library to keep if all shards accept it.
pub(crate) fn note_scripts(
    cx: &mut Context,
    command: &Command,
    request: &Request<'_>,
    parts: &[Part],
) -> Option<Library> {
    let scripts = &cx.board.scripts;
    match &*command.name {
        "script|load" => {
            let sha = scripts.keep(request.arg(2), cx.limits.script_bytes_max);
            parts.iter().for_each(|part| note_loaded(cx, part.link, sha));
        }
        "script|flush" => scripts.forget(),
        "function|load" => {
            let code = request.arg(request.len() - 1);
            return Some(Library { name: library_name(code)?.to_vec(), code: code.to_vec() });
        }
        "function|delete" => scripts.forget_library(request.arg(2)),
        // A dump cannot be read here.
        "function|flush" | "function|restore" => scripts.forget_libraries(),
        _ => {}
    }
    None
}

/// The beginning of a node's error for a missing script: all of the text that Redis and Valkey share. A script that
/// fails with an error of its own must not be mistaken for one that did not run.
const NO_SCRIPT: &[u8] = b"-NOSCRIPT No matching script.";
/// A node's error for a missing function.
const FUNCTION_NOT_FOUND: &[u8] = b"-ERR Function not found\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use engine::memory::Charge;

    #[test]
    fn copies_of_requests_are_bounded() {
        let (mut repeats, mut pool) = (Repeats::new(Charge::default()), BufferPool::new(16, 1 << 20));
        let mut keep =
            |len| repeats.keep((ProfileId::FIRST, ShardId(0)), Named::Functions, &vec![b'x'; len], &mut pool);
        assert!(keep(REPEAT_BYTES_MAX + 1).is_none());
        let kept = std::iter::from_fn(|| keep(REPEAT_BYTES_MAX)).collect::<Vec<_>>();
        assert_eq!(kept.len(), REPEATS_BYTES_MAX / REPEAT_BYTES_MAX);
        assert!(repeats.remove(kept[0]).is_some() && repeats.remove(kept[0]).is_none());
        assert_eq!(repeats.charge.bytes(), REPEATS_BYTES_MAX - REPEAT_BYTES_MAX);
    }
}
