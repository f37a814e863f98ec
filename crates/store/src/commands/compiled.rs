//! All that the interpreter has compiled: scripts by their names, and libraries of functions.

use std::collections::{BTreeMap, HashMap};

use sha1::{Digest, Sha1};

use crate::commands::scripting::{Interpreter, LibraryFunction, ScriptFlags};
use crate::error::Error;
use crate::store::Store;

/// The interpreter, and all that it has compiled.
#[derive(Default)]
pub(crate) struct Scripts {
    pub(crate) interpreter: Option<Box<dyn Interpreter>>,
    pub(crate) libraries: Libraries,
    pub(crate) cache: HashMap<String, Cached>,
    cached_bytes: usize,
    /// Counts uses, for the order of eviction.
    uses: u64,
    /// An empty store, which takes the place of the real one while that is lent to a script.
    pub(crate) spare: Option<Box<Store>>,
}

/// A compiled script.
pub(crate) struct Cached {
    len: usize,
    /// By SCRIPT LOAD: EVAL alone does not evict it.
    is_loaded: bool,
    used_at: u64,
    /// `None` if it has no first line with flags.
    pub(crate) flags: Option<ScriptFlags>,
}

/// Scripts that EVAL left behind, as in Redis 7.4. The one goes that was not used for longest.
pub(crate) const EVALUATED_MAX: usize = 500;
/// All compiled scripts, and the bytes of their sources. The one goes that was not used for longest.
pub(crate) const CACHED_MAX: usize = 10_000;
pub(crate) const CACHED_BYTES_MAX: usize = 8 << 20;

impl Scripts {
    pub(crate) fn interpreter(&mut self, name: &[u8]) -> Result<&mut Box<dyn Interpreter>, Error> {
        self.interpreter.as_mut().ok_or_else(|| Error::not_here(name))
    }

    pub(crate) fn touch(&mut self, name: &str) -> Option<&mut Cached> {
        self.uses += 1;
        let uses = self.uses;
        let cached = self.cache.get_mut(name)?;
        cached.used_at = uses;
        Some(cached)
    }

    /// Compiles a script, if it is not compiled yet, and returns its name.
    pub(crate) fn add(&mut self, source: &[u8], is_loaded: bool) -> Result<String, Error> {
        let name: String = Sha1::digest(source).iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(cached) = self.touch(&name) {
            cached.is_loaded |= is_loaded;
            return Ok(name);
        }
        let flags = read_shebang(source)?;
        let compiled = self.interpreter(b"eval")?.compile(&name, source);
        compiled.map_err(|why| Error::named(&[b"ERR Error compiling script (new function): ", &why]))?;
        self.cached_bytes += source.len();
        self.cache.insert(name.clone(), Cached { len: source.len(), is_loaded, used_at: self.uses, flags });
        self.evict(&name);
        Ok(name)
    }

    /// Drops scripts until no limit is exceeded, and never the one of this name.
    fn evict(&mut self, kept: &str) {
        loop {
            let evaluated = self.cache.values().filter(|cached| !cached.is_loaded).count();
            let is_full = self.cache.len() > CACHED_MAX || self.cached_bytes > CACHED_BYTES_MAX;
            let has_too_many = evaluated > EVALUATED_MAX;
            if !is_full && !has_too_many {
                return;
            }
            let mut droppable: Vec<_> = self.cache.iter().filter(|(name, _)| *name != kept).collect();
            droppable.retain(|(_, cached)| !has_too_many || !cached.is_loaded);
            let oldest = droppable.into_iter().min_by_key(|(_, cached)| (cached.is_loaded, cached.used_at));
            let Some(name) = oldest.map(|(name, _)| name.clone()) else { return };
            self.forget(&name);
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(cached) = self.cache.remove(name) {
            self.cached_bytes -= cached.len;
            self.interpreter.iter_mut().for_each(|interpreter| interpreter.forget(name));
        }
    }

    pub(crate) fn flush(&mut self) {
        let names: Vec<String> = self.cache.keys().cloned().collect();
        names.iter().for_each(|name| self.forget(name));
    }

    /// Number of compiled scripts.
    pub(crate) fn len(&self) -> usize {
        self.cache.len()
    }
}

/// The flags of the first line, if that begins with `#!`.
fn read_shebang(source: &[u8]) -> Result<Option<ScriptFlags>, Error> {
    if !source.starts_with(b"#!") {
        return Ok(None);
    }
    let end =
        source.iter().position(|&byte| byte == b'\n').ok_or(Error::Fixed("ERR Invalid script shebang"))?;
    let mut words = source[..end].split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err(Error::named(&[b"ERR Unexpected engine in script shebang: ", engine]));
    }
    let mut flags = ScriptFlags::default();
    for word in words {
        let Some(names) = word.strip_prefix(b"flags=") else {
            return Err(Error::named(&[b"ERR Unknown lua shebang option: ", word]));
        };
        for name in names.split(|&byte| byte == b',').filter(|name| !name.is_empty()) {
            if !flags.add(name) {
                return Err(Error::named(&[b"ERR Unexpected flag in script shebang: ", name]));
            }
        }
    }
    Ok(Some(flags))
}

/// All libraries, by name.
#[derive(Default)]
pub(crate) struct Libraries {
    by_name: BTreeMap<Vec<u8>, Library>,
    /// For each function, by its name in lower case: the name of its library, and its place there.
    by_function: HashMap<Vec<u8>, (Vec<u8>, usize)>,
    /// Number of libraries so far.
    pub(crate) made: u64,
}

/// One library.
pub(crate) struct Library {
    pub(crate) number: u64,
    pub(crate) source: Vec<u8>,
    pub(crate) functions: Vec<LibraryFunction>,
}

/// Libraries of one store, and the bytes of their sources.
pub(crate) const LIBRARIES_MAX: usize = 1_000;
pub(crate) const LIBRARY_BYTES_MAX: usize = 8 << 20;

impl Libraries {
    /// The function of this name, with the number of its library.
    pub(crate) fn find(&self, name: &[u8]) -> Option<(u64, &LibraryFunction)> {
        let (library, at) = self.by_function.get(&name.to_ascii_lowercase())?;
        let library = self.by_name.get(library)?;
        Some((library.number, library.functions.get(*at)?))
    }

    /// The first function, in the order of libraries other than `library`, whose name one of `functions` has.
    pub(crate) fn taken_name(&self, library: &[u8], functions: &[LibraryFunction]) -> Option<&[u8]> {
        let names = functions.iter().map(|function| function.name.to_ascii_lowercase());
        let owners = names.filter_map(|name| self.by_function.get(&name));
        let (owner, at) = owners.filter(|(owner, _)| owner != library).min()?;
        Some(&self.by_name.get(owner)?.functions.get(*at)?.name)
    }

    /// Adds a library, and returns the one that it replaces.
    pub(crate) fn insert(&mut self, name: Vec<u8>, library: Library) -> Option<Library> {
        let old = self.remove(&name);
        for (at, function) in library.functions.iter().enumerate() {
            let own = self.by_function.entry(function.name.to_ascii_lowercase());
            own.or_insert_with(|| (name.clone(), at));
        }
        self.by_name.insert(name, library);
        old
    }

    /// Removes a library.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Library> {
        let library = self.by_name.remove(name)?;
        for function in &library.functions {
            self.by_function.remove(&function.name.to_ascii_lowercase());
        }
        Some(library)
    }

    /// Removes all libraries.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Library> + use<> {
        self.by_function.clear();
        std::mem::take(&mut self.by_name).into_values()
    }

    /// All libraries with their names, in the order of these.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Library)> {
        self.by_name.iter().map(|(name, library)| (&name[..], library))
    }

    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.by_name.contains_key(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn functions(&self) -> usize {
        self.by_name.values().map(|library| library.functions.len()).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.by_name.values().map(|library| library.source.len()).sum()
    }
}
