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
use crate::features::{Asked, Owed, Owner, Retry, Session};
use crate::link::kept::Kept;
use crate::link::{LinkIx, retire};
use crate::peers::{Peer, Peers};
use crate::requests::route::{self, Keys, Part, Route};
use crate::scripts::known::{Library, Named, Sha, library_name};
use command::{Command, Script};
use engine::retry::Why;
use resp::{Request, encode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Sends a request that runs a script to the shard of its keys. If the node may lack the script, shardis loads it
/// there first.
pub(crate) fn forward_script(
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
    forward_script_to(cx, session, node, script, request);
}

/// Sends a script's request over the link `ix`, which goes to a node of `shard`.
pub(crate) fn forward_script_to(
    cx: &mut Context,
    session: &mut Session,
    ix: LinkIx,
    script: Script,
    request: &Request<'_>,
) {
    let is_known = named(cx, ix, script, request).is_some_and(|named| bring_along(cx, ix, &named));
    let kept = if is_known { Kept::UNTIL_RUN } else { Kept::NO };
    let place = session.replies.reserve(Owed::Node);
    cx.engine.enqueue_on(ix, request.bytes, Asked { kept, ..Asked::by_client(session.conn, place) });
}

/// Sends the first request on the link `ix` again, behind the script or function that its node lacks. Returns false if
/// `reply`, an error, is about something else, or if the client gets it.
#[cold]
pub(crate) fn send_again(cx: &mut Context, peers: &mut Peers, ix: LinkIx, reply: &[u8]) -> bool {
    let is_about_script = reply.starts_with(NO_SCRIPT) || reply == FUNCTION_NOT_FOUND;
    let link = &cx.engine.links[ix];
    let Some(&ticket) = link.front().filter(|ticket| is_about_script && ticket.owner == Owner::Client) else {
        return false;
    };
    let (used_by, shard) = (link.used_by, link.shard);
    let is_last = match peers.get(ticket.conn) {
        Some(Peer::Client(session)) => {
            session.replies.owed(ticket.place) == Some(Owed::Node) && session.replies.is_last(ticket.place)
        }
        _ => false,
    };
    let again = |request| Retry::new(Why::ScriptMissing, link, ticket, request);
    let Some(retry) = link.kept_request(0).filter(|_| is_last).and_then(again) else { return false };
    let Some(named) = cx.named_in(&retry.request) else { return false };
    let shard = cx.shard_of(cx.aim_of(&retry.request, shard));
    let Ok(target) = cx.shared_link(retry.profile, shard) else { return false };
    if !bring_again(cx, target, &named) {
        return false;
    }
    cx.engine.links[ix].pop();
    if used_by.has_barriers() {
        retire::lift_barrier(cx, peers, ticket);
    }
    cx.enqueue_again(target, false, &retry.request, retry.ticket);
    true
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
