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

use crate::core::Core;
use crate::cross_slot::Remedy;
use crate::features::{Asked, Owed, Session, TaskId};
use crate::link::{LinkIx, ProfileId};
use crate::requests::route::{self, Keys, Part, Route};
use command::{Command, Script};
use engine::memory::Charge;
use resp::{Request, encode};
use sha1::{Digest, Sha1};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stdx::{BufferPool, Id, Slab};
use topology::ShardId;

/// A script's name: its SHA-1 in lower-case hexadecimal digits.
type Sha = [u8; 40];

/// What all workers keep.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    kept: Mutex<Kept>,
    /// Counts SCRIPT FLUSH: what was loaded before is not there any more.
    flushes: AtomicU64,
    /// Counts changes of the libraries.
    libraries_version: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    bodies: HashMap<Sha, Arc<[u8]>>,
    /// From the oldest to the newest.
    order: VecDeque<Sha>,
    /// Of all bodies.
    bytes: usize,
    /// Function libraries by name.
    libraries: HashMap<Vec<u8>, Arc<[u8]>>,
    /// Of all libraries and their names.
    library_bytes: usize,
}

/// What one connection to a node has loaded since it was made.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    scripts: HashSet<Sha>,
    flushes: u64,
    libraries_version: u64,
}

/// What a request names and its node may miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Script(Sha),
    /// Which library a function belongs to cannot be told, so all are loaded.
    Functions,
}

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

/// A library that is kept once all shards have loaded it.
#[derive(Debug)]
pub(crate) struct Library {
    name: Vec<u8>,
    code: Vec<u8>,
}

/// What a script or a library is counted for beside its text, with its name in two tables: scripts may have a few bytes each.
const ENTRY_BYTES: usize = 200;
/// Scripts that one connection is known to have; more, and they are loaded once more.
const LOADED_MAX: usize = 16 * 1024;
/// Longer requests are not copied to be repeated.
const REPEAT_BYTES_MAX: usize = 16 * 1024;
/// Bytes of all copies of a worker. With more, what follows is not copied: it gets NOSCRIPT, where others are repeated.
const REPEATS_BYTES_MAX: usize = 4 << 20;

impl Scripts {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `body`, and as much of what it kept before as takes `bytes_max` with it. Says its name.
    fn keep(&self, body: &[u8], bytes_max: usize) -> Sha {
        let sha = sha_of(body);
        let mut kept = self.lock();
        if counted_bytes(body) <= bytes_max && !kept.bodies.contains_key(&sha) {
            kept.bodies.insert(sha, body.into());
            kept.order.push_back(sha);
            kept.bytes += counted_bytes(body);
            while kept.bytes > bytes_max {
                let Some(oldest) = kept.order.pop_front() else { break };
                kept.bytes -= kept.bodies.remove(&oldest).map_or(0, |body| counted_bytes(&body));
            }
        }
        sha
    }

    /// What `request` names without bringing it along. A script that it brings along is kept.
    pub(crate) fn named(&self, script: Script, request: &Request<'_>, bytes_max: usize) -> Option<Named> {
        match script {
            Script::Body => {
                self.keep(request.arg(1), bytes_max);
                None
            }
            Script::Sha => Some(Named::Script(request.arg(1).to_ascii_lowercase().try_into().ok()?)),
            Script::Function => Some(Named::Functions),
        }
    }

    /// Of SCRIPT EXISTS: which of its scripts are brought to a shard that lacks them.
    pub(crate) fn loadable(&self, command: &Command, request: &Request<'_>) -> Vec<bool> {
        if command.name != "script|exists" {
            return Vec::new();
        }
        let kept = self.lock();
        let is_kept = |name: &[u8]| {
            let sha: Result<Sha, _> = name.to_ascii_lowercase().try_into();
            sha.is_ok_and(|sha| kept.bodies.contains_key(&sha))
        };
        request.args().skip(2).map(is_kept).collect()
    }

    fn body(&self, sha: &Sha) -> Option<Arc<[u8]>> {
        self.lock().bodies.get(sha).cloned()
    }

    /// SCRIPT FLUSH.
    fn forget(&self) {
        let mut kept = self.lock();
        kept.bodies.clear();
        kept.order.clear();
        kept.bytes = 0;
        self.flushes.fetch_add(1, Ordering::Release);
    }

    fn libraries(&self) -> Vec<Arc<[u8]>> {
        self.lock().libraries.values().cloned().collect()
    }

    fn has_libraries(&self) -> bool {
        !self.lock().libraries.is_empty()
    }

    /// All shards have loaded `library`, which takes the place of one of the same name. It is kept if all of them do not take
    /// more than `bytes_max` then; else its name is returned.
    pub(crate) fn keep_library(&self, library: Library, bytes_max: usize) -> Result<(), String> {
        let mut kept = self.lock();
        kept.remove_library(&library.name);
        let bytes = library.held_bytes();
        if kept.library_bytes + bytes > bytes_max {
            return Err(String::from_utf8_lossy(&library.name).into_owned());
        }
        kept.library_bytes += bytes;
        kept.libraries.insert(library.name, library.code.into());
        self.libraries_version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// FUNCTION DELETE.
    fn forget_library(&self, name: &[u8]) {
        self.lock().remove_library(name);
    }

    /// FUNCTION FLUSH.
    fn forget_libraries(&self) {
        let mut kept = self.lock();
        kept.libraries.clear();
        kept.library_bytes = 0;
    }

    /// Bytes of all that is kept, and the same added up anew.
    pub(crate) fn account(&self) -> (usize, usize) {
        let kept = self.lock();
        let bodies: usize = kept.bodies.values().map(|body| counted_bytes(body)).sum();
        let libraries: usize =
            kept.libraries.iter().map(|(name, code)| name.len() + counted_bytes(code)).sum();
        (kept.bytes + kept.library_bytes, bodies + libraries)
    }
}

/// What a script or a library is counted for.
fn counted_bytes(text: &[u8]) -> usize {
    ENTRY_BYTES + text.len()
}

impl Kept {
    fn remove_library(&mut self, name: &[u8]) {
        if let Some(code) = self.libraries.remove(name) {
            self.library_bytes -= name.len() + counted_bytes(&code);
        }
    }
}

impl Library {
    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.name.len() + counted_bytes(&self.code)
    }
}

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
}

impl Loaded {
    /// Forgets what a SCRIPT FLUSH took away.
    fn catch_up(&mut self, scripts: &Scripts) {
        let flushes = scripts.flushes.load(Ordering::Acquire);
        if self.flushes != flushes || self.scripts.len() > LOADED_MAX {
            self.scripts.clear();
            self.flushes = flushes;
        }
    }
}

impl Core {
    /// Sends a request that runs a script to the shard of its keys, behind what it names if that may be missing there.
    pub(crate) fn forward_script(
        &mut self,
        session: &mut Session,
        command: &Command,
        script: Script,
        request: &Request<'_>,
        keys: &mut Keys,
    ) {
        let Route::One(shard) = route::route(command, request, &self.engine.topology, keys) else {
            return self.refuse_cross_slot(session, Remedy::HashTag);
        };
        let node = match self.shared_link(session.profile, shard) {
            Ok(node) => node,
            Err(lost) => return self.refuse(session, &lost.text()),
        };
        self.forward_script_to(session, (shard, node), script, request);
    }

    /// Sends a script's request over the connection `ix`, which goes to a node of `shard`.
    pub(crate) fn forward_script_to(
        &mut self,
        session: &mut Session,
        (shard, ix): (ShardId, LinkIx),
        script: Script,
        request: &Request<'_>,
    ) {
        let copy = match self.named(ix, script, request) {
            Some(named) if self.bring_along(ix, &named) => {
                self.tasks.repeats.keep((session.profile, shard), named, request.bytes, &mut self.engine.pool)
            }
            _ => None,
        };
        let place = session.replies.reserve(copy.map_or(Owed::Node, |copy| Owed::Task(TaskId::Repeat(copy))));
        self.engine.enqueue_on(ix, request.bytes, Asked::by_client(session.conn, place));
    }

    /// What `request` names. A script that it brings along is kept.
    fn named(&mut self, ix: LinkIx, script: Script, request: &Request<'_>) -> Option<Named> {
        if script == Script::Body {
            let sha = self.board.scripts.keep(request.arg(1), self.limits.script_bytes_max);
            self.note_loaded(ix, sha);
            return None;
        }
        self.board.scripts.named(script, request, self.limits.script_bytes_max)
    }

    fn note_loaded(&mut self, ix: LinkIx, sha: Sha) {
        let loaded = &mut self.engine.links[ix].features.loaded;
        loaded.catch_up(&self.board.scripts);
        loaded.scripts.insert(sha);
    }

    /// Loads what is named over the connection `ix`, unless it has loaded it. False if it is not kept here.
    pub(crate) fn bring_along(&mut self, ix: LinkIx, named: &Named) -> bool {
        let board = Arc::clone(&self.board);
        let loaded = &mut self.engine.links[ix].features.loaded;
        loaded.catch_up(&board.scripts);
        match named {
            Named::Script(sha) => {
                let Some(body) = board.scripts.body(sha) else { return false };
                if loaded.scripts.insert(*sha) {
                    self.load(ix, &[b"SCRIPT", b"LOAD", &body]);
                }
                true
            }
            Named::Functions => {
                let version = board.scripts.libraries_version.load(Ordering::Acquire);
                if std::mem::replace(&mut loaded.libraries_version, version) != version {
                    // Without REPLACE: a library that the node has is the one that it was given last.
                    let libraries = board.scripts.libraries();
                    libraries.iter().for_each(|code| self.load(ix, &[b"FUNCTION", b"LOAD", code]));
                }
                board.scripts.has_libraries()
            }
        }
    }

    /// Queues a request of ours, whose reply is for nobody: if it fails, the client's own request tells.
    fn load(&mut self, ix: LinkIx, args: &[&[u8]]) {
        let mut bytes = self.engine.pool.take();
        encode::request(&mut bytes, args);
        self.engine.enqueue_on(ix, &bytes, Asked::by_nobody());
        self.engine.pool.give(bytes);
    }

    /// Whether the request behind `reply` was sent once more, because its node misses what we keep.
    pub(crate) fn repeat(&mut self, session: &mut Session, place: u32, id: Id, reply: &[u8]) -> bool {
        let Some(repeat) = self.tasks.repeats.remove(id) else { return false };
        let missing = match repeat.named {
            Named::Script(_) => reply.starts_with(NO_SCRIPT),
            Named::Functions => reply == FUNCTION_NOT_FOUND,
        };
        let ix = (missing && !repeat.is_second && session.replies.is_last(place))
            .then(|| self.shared_link(repeat.profile, repeat.shard).ok())
            .flatten()
            .filter(|&ix| self.bring_again(ix, &repeat.named));
        let Some(ix) = ix else {
            self.engine.pool.give(repeat.request);
            return false;
        };
        self.engine.enqueue_on(ix, &repeat.request, Asked::by_client(session.conn, place));
        session.replies.expect(place, Owed::Task(TaskId::Repeat(self.tasks.repeats.keep_second(repeat))));
        true
    }

    /// As [`Core::bring_along`], where we were wrong about what a node has. Which one is not known here: the request may have
    /// been redirected to it. So no link counts as one that has loaded it.
    fn bring_again(&mut self, ix: LinkIx, named: &Named) -> bool {
        for link in &mut self.engine.links {
            match named {
                Named::Script(sha) => _ = link.features.loaded.scripts.remove(sha),
                Named::Functions => link.features.loaded.libraries_version = 0,
            }
        }
        self.bring_along(ix, named)
    }

    /// The request behind `id` goes to another node, over the connection `ix`: with what it names, if that may be
    /// missing there.
    pub(crate) fn bring_along_again(&mut self, ix: LinkIx, id: Id) {
        if let Some(named) = self.tasks.repeats.requests.get(id).map(|repeat| repeat.named) {
            self.bring_along(ix, &named);
        }
    }

    /// The request behind `id` is not needed any more.
    pub(crate) fn forget_repeat(&mut self, id: Id) {
        if let Some(repeat) = self.tasks.repeats.remove(id) {
            self.engine.pool.give(repeat.request);
        }
    }

    /// Notes what `command` does to scripts, before it goes to all shards as `parts`: what is to be gone must not be
    /// loaded again behind it. Returns the library that is to be kept if all shards take it.
    pub(crate) fn note_scripts(
        &mut self,
        command: &Command,
        request: &Request<'_>,
        parts: &[Part],
    ) -> Option<Library> {
        let scripts = &self.board.scripts;
        match &*command.name {
            "script|load" => {
                let sha = scripts.keep(request.arg(2), self.limits.script_bytes_max);
                parts.iter().for_each(|part| self.note_loaded(part.link, sha));
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
}

/// How a node begins that does not have the script: all of what Redis and Valkey say alike, so that a script that ends
/// with an error of its own is not taken for one that did not run.
const NO_SCRIPT: &[u8] = b"-NOSCRIPT No matching script.";
/// What a node says that does not have the function.
const FUNCTION_NOT_FOUND: &[u8] = b"-ERR Function not found\r\n";

fn sha_of(body: &[u8]) -> Sha {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut sha = [0; 40];
    for (digits, byte) in sha.chunks_exact_mut(2).zip(Sha1::digest(body)) {
        digits.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    sha
}

/// The name in a library's first line, `#!lua name=…`.
fn library_name(code: &[u8]) -> Option<&[u8]> {
    let line = code.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    line.split(u8::is_ascii_whitespace).find_map(|word| word.strip_prefix(b"name="))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT_BYTES_MAX: usize = 1 << 20;

    #[test]
    fn scripts_are_named_as_redis_names_them() {
        assert_eq!(sha_of(b"return 1"), *b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(library_name(b"#!lua name=lib\nredis.register_function('f', f)"), Some(&b"lib"[..]));
        assert_eq!(library_name(b"return 1"), None);
    }

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

    #[test]
    fn the_oldest_scripts_go_when_there_is_no_room() {
        let scripts = Scripts::default();
        let large = vec![b' '; SCRIPT_BYTES_MAX / 2];
        let keep = |body: &[u8]| scripts.keep(body, SCRIPT_BYTES_MAX);
        let [first, second, third] = [1u8, 2, 3].map(|last| keep(&[&large[..], &[last]].concat()));
        assert!(scripts.body(&first).is_none() && scripts.body(&second).is_none());
        assert!(scripts.body(&third).is_some());
        let too_large = keep(&vec![b' '; SCRIPT_BYTES_MAX + 1]);
        assert!(scripts.body(&too_large).is_none() && scripts.body(&third).is_some());
    }

    #[test]
    fn small_scripts_count_with_their_names() {
        let scripts = Scripts::default();
        for number in 0..20_000 {
            scripts.keep(format!("return {number}").as_bytes(), SCRIPT_BYTES_MAX);
        }
        assert!(scripts.lock().bodies.len() < SCRIPT_BYTES_MAX / ENTRY_BYTES);
        assert_eq!(scripts.account().0, scripts.account().1);
    }

    #[test]
    fn a_library_that_does_not_fit_is_not_kept_nor_the_one_before() {
        let scripts = Scripts::default();
        let library = |name: &[u8], len| Library { name: name.to_vec(), code: vec![b'x'; len] };
        let max = 100 + ENTRY_BYTES;
        assert_eq!(scripts.keep_library(library(b"one", 60), max), Ok(()));
        assert_eq!(scripts.keep_library(library(b"two", 60), max), Err("two".to_owned()));
        let held = 63 + ENTRY_BYTES;
        assert_eq!((scripts.libraries().len(), scripts.account()), (1, (held, held)));
        assert_eq!(scripts.keep_library(library(b"one", 98), max), Err("one".to_owned()));
        assert_eq!((scripts.has_libraries(), scripts.account()), (false, (0, 0)));
    }
}
