//! Scripts and functions that went through the proxy, kept for all workers: what a request names by name only is
//! loaded on its node first, where that node may not have it (it was restarted, it joined later).
//!
//! ```text
//! EVAL, SCRIPT LOAD, FUNCTION LOAD ─► kept ─┐
//! EVALSHA, FCALL ─► loaded on this connection? ─ no ─► SCRIPT LOAD, FUNCTION LOAD ahead of it ─► node
//!        ▲                                                                                        │
//!        └─────────── once more, if nothing was sent behind it ◄─── NOSCRIPT, function not found ─┘
//! ```
//!
//! A request that fails for a missing script did not run, so it may be repeated; but not if its client has sent more
//! behind it, which would then run before it.
//!
//! 16 MiB of scripts are kept for all workers; the oldest go first. The proxy notes for each link which scripts it brought there. A node
//! can still say `NOSCRIPT`, if an operator flushed its scripts directly.

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

/// A request that is sent once more if its node misses what it names.
#[derive(Debug)]
pub(crate) struct Repeat {
    profile: ProfileId,
    shard: ShardId,
    named: Named,
    request: Vec<u8>,
    /// That was done: no other time.
    is_second: bool,
}

/// Requests that may have to go once more.
#[derive(Debug)]
pub(crate) struct Repeats {
    requests: Slab<Repeat>,
    /// For all copies.
    charge: Charge,
}

/// Longer requests are not copied to be repeated.
const REPEAT_BYTES_MAX: usize = 16 * 1024;
/// Bytes of all copies of a worker. With more, what follows is not copied: it gets NOSCRIPT, where others are repeated.
const REPEATS_BYTES_MAX: usize = 4 << 20;

impl Repeats {
    /// None, for which `charge` is.
    pub(crate) fn new(charge: Charge) -> Repeats {
        Repeats { requests: Slab::default(), charge }
    }

    /// Keeps a copy of `request`, unless it is too long or there are too many.
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

    /// `repeat` is sent once more, perhaps to a node that has it sent to another. It is kept until it is answered.
    fn keep_second(&mut self, repeat: Repeat) -> Id {
        self.charge.add(repeat.request.len());
        self.requests.insert(Repeat { is_second: true, ..repeat })
    }

    fn remove(&mut self, id: Id) -> Option<Repeat> {
        let repeat = self.requests.remove(id)?;
        self.charge.take(repeat.request.len());
        Some(repeat)
    }

    /// What they are counted for, and what they hold.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.charge.bytes(), self.requests.iter().map(|(_, repeat)| repeat.request.len()).sum())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Sends a request that runs a script to the shard of its keys, behind what it names if that may be missing there.
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

    /// Sends a script's request over the connection `ix`, which goes to a node of `shard`.
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

    /// Whether the request behind `reply` was sent once more, because its node misses what we keep.
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

    /// The request behind `id` goes to another node, over the connection `ix`: with what it names, if that may be
    /// missing there.
    pub(crate) fn bring_along_again(&mut self, cx: &mut Context, ix: LinkIx, id: Id) {
        if let Some(named) = self.requests.get(id).map(|repeat| repeat.named) {
            bring_along(cx, ix, &named);
        }
    }

    /// The request behind `id` is not needed any more.
    pub(crate) fn forget_repeat(&mut self, cx: &mut Context, id: Id) {
        if let Some(repeat) = self.remove(id) {
            cx.engine.pool.give(repeat.request);
        }
    }
}

/// What `request` names. A script that it brings along is kept.
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

/// Loads what is named over the connection `ix`, unless it has loaded it. False if it is not kept here.
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
                // Without REPLACE: a library that the node has is the one that it was given last.
                let libraries = board.scripts.libraries();
                libraries.iter().for_each(|code| load(cx, ix, &[b"FUNCTION", b"LOAD", code]));
            }
            board.scripts.has_libraries()
        }
    }
}

/// Queues a request of ours, whose reply is for nobody: if it fails, the client's own request tells.
fn load(cx: &mut Context, ix: LinkIx, args: &[&[u8]]) {
    let mut bytes = cx.engine.pool.take();
    encode::request(&mut bytes, args);
    cx.engine.enqueue_on(ix, &bytes, Asked::by_nobody());
    cx.engine.pool.give(bytes);
}

/// As [`bring_along`], where we were wrong about what a node has. Which one is not known here: the request may have
/// been redirected to it. So no link counts as one that has loaded it.
fn bring_again(cx: &mut Context, ix: LinkIx, named: &Named) -> bool {
    for link in &mut cx.engine.links {
        match named {
            Named::Script(sha) => _ = link.features.loaded.scripts.remove(sha),
            Named::Functions => link.features.loaded.libraries_version = 0,
        }
    }
    bring_along(cx, ix, named)
}

/// Notes what `command` does to scripts, before it goes to all shards as `parts`: what is to be gone must not be
/// loaded again behind it. Returns the library that is to be kept if all shards take it.
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
        // What is in a dump cannot be read here.
        "function|flush" | "function|restore" => scripts.forget_libraries(),
        _ => {}
    }
    None
}

/// How a node begins that does not have the script: all of what Redis and Valkey say alike, so that a script that ends
/// with an error of its own is not taken for one that did not run.
const NO_SCRIPT: &[u8] = b"-NOSCRIPT No matching script.";
/// What a node says that does not have the function.
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
