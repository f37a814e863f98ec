//! Scripts and libraries that shardis keeps.

use command::{Command, Script};
use resp::Request;
use sha1::{Digest, Sha1};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A script's name: its SHA-1 in lower-case hexadecimal digits.
pub(crate) type Sha = [u8; 40];

/// Scripts and libraries that all workers share.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    pub kept: Mutex<Kept>,
    /// The number of SCRIPT FLUSH: scripts loaded before the last one are gone from the nodes.
    pub flushes: AtomicU64,
    /// The number of changes of the libraries.
    pub libraries_version: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub bodies: HashMap<Sha, Arc<[u8]>>,
    /// Names from the oldest to the newest.
    pub order: VecDeque<Sha>,
    /// Bytes of all bodies.
    pub bytes: usize,
    /// Function libraries by name.
    pub libraries: HashMap<Vec<u8>, Arc<[u8]>>,
    /// Bytes of all libraries and their names.
    pub library_bytes: usize,
}

/// Scripts and libraries that one link has loaded since it was connected.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub scripts: HashSet<Sha>,
    pub flushes: u64,
    pub libraries_version: u64,
}

/// A library that is kept once all shards have loaded it.
#[derive(Debug)]
pub(crate) struct Library {
    pub name: Vec<u8>,
    pub code: Vec<u8>,
}

/// The cost of a script or a library beside its text, with its name in two tables. A text may be as short as a few
/// bytes.
pub(crate) const ENTRY_BYTES: usize = 200;

/// The limit of scripts that are noted as loaded on one link. Beyond it, all of them are loaded anew.
pub(crate) const LOADED_MAX: usize = 16 * 1024;

impl Scripts {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `body`, and drops the oldest scripts beyond `bytes_max`. Returns the script's name.
    pub(crate) fn keep(&self, body: &[u8], bytes_max: usize) -> Sha {
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

    /// The script or function that `request` names without bringing its text. A script that the request brings along
    /// is kept.
    pub(crate) fn named(&self, script: Script, request: &Request<'_>, bytes_max: usize) -> Option<Named> {
        if script == Script::Body {
            self.keep(request.arg(1), bytes_max);
        }
        Named::in_request(script, request)
    }

    /// For each script of SCRIPT EXISTS: whether shardis would load it on a shard that lacks it.
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

    pub(crate) fn body(&self, sha: &Sha) -> Option<Arc<[u8]>> {
        self.lock().bodies.get(sha).cloned()
    }

    /// Forgets all scripts, for SCRIPT FLUSH.
    pub(crate) fn forget(&self) {
        let mut kept = self.lock();
        kept.bodies.clear();
        kept.order.clear();
        kept.bytes = 0;
        self.flushes.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn libraries(&self) -> Vec<Arc<[u8]>> {
        self.lock().libraries.values().cloned().collect()
    }

    pub(crate) fn has_libraries(&self) -> bool {
        !self.lock().libraries.is_empty()
    }

    /// Keeps `library`, which all shards have loaded, in place of one of the same name. If all libraries would exceed
    /// `bytes_max` then, the library is not kept, and its name is returned.
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

    /// Forgets a library, for FUNCTION DELETE.
    pub(crate) fn forget_library(&self, name: &[u8]) {
        self.lock().remove_library(name);
    }

    /// Forgets all libraries, for FUNCTION FLUSH.
    pub(crate) fn forget_libraries(&self) {
        let mut kept = self.lock();
        kept.libraries.clear();
        kept.library_bytes = 0;
    }

    /// Bytes of all texts as counted, and the same sum computed anew.
    pub(crate) fn account(&self) -> (usize, usize) {
        let kept = self.lock();
        let bodies: usize = kept.bodies.values().map(|body| counted_bytes(body)).sum();
        let libraries: usize =
            kept.libraries.iter().map(|(name, code)| name.len() + counted_bytes(code)).sum();
        (kept.bytes + kept.library_bytes, bodies + libraries)
    }
}

/// The bytes that a script or a library counts for.
pub(crate) fn counted_bytes(text: &[u8]) -> usize {
    ENTRY_BYTES + text.len()
}

impl Kept {
    pub(crate) fn remove_library(&mut self, name: &[u8]) {
        if let Some(code) = self.libraries.remove(name) {
            self.library_bytes -= name.len() + counted_bytes(&code);
        }
    }
}

impl Library {
    /// The bytes that the library counts for.
    pub(crate) fn held_bytes(&self) -> usize {
        self.name.len() + counted_bytes(&self.code)
    }
}

impl Loaded {
    /// Forgets the scripts that a SCRIPT FLUSH has deleted.
    pub(crate) fn catch_up(&mut self, scripts: &Scripts) {
        let flushes = scripts.flushes.load(Ordering::Acquire);
        if self.flushes != flushes || self.scripts.len() > LOADED_MAX {
            self.scripts.clear();
            self.flushes = flushes;
        }
    }
}

pub(crate) fn sha_of(body: &[u8]) -> Sha {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut sha = [0; 40];
    for (digits, byte) in sha.chunks_exact_mut(2).zip(Sha1::digest(body)) {
        digits.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    sha
}

/// The name in a library's first line, `#!lua name=…`.
pub(crate) fn library_name(code: &[u8]) -> Option<&[u8]> {
    let line = code.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    line.split(u8::is_ascii_whitespace).find_map(|word| word.strip_prefix(b"name="))
}

/// A script or function that a request names and its node may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Script(Sha),
    /// A function. Its library is unknown, so all libraries are loaded.
    Functions,
}

impl Named {
    /// The script or function that `request` names without bringing its text.
    pub(crate) fn in_request(script: Script, request: &Request<'_>) -> Option<Named> {
        match script {
            Script::Body => None,
            Script::Sha => Some(Named::Script(request.arg(1).to_ascii_lowercase().try_into().ok()?)),
            Script::Function => Some(Named::Functions),
        }
    }
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
