//! EVAL and its relatives, and SCRIPT.

use std::collections::HashMap;

use resp::Request;
use sha1::{Digest, Sha1};

use crate::args::{integer, is, shown};
use crate::caller_id::CallerId;
use crate::commands::functions::Libraries;
use crate::commands::help;
use crate::error::Error;
use crate::replies::Reply;
use crate::scripting::{Entry, Interpreter, Rules, ScriptFlags};
use crate::store::Store;

type Done = Result<(), Error>;

/// The interpreter, and all that it has compiled.
#[derive(Default)]
pub(crate) struct Scripts {
    pub(crate) interpreter: Option<Box<dyn Interpreter>>,
    pub(crate) libraries: Libraries,
    cache: HashMap<String, Cached>,
    cached_bytes: usize,
    /// Counts uses, for the order of eviction.
    uses: u64,
    /// An empty store, which takes the place of the real one while that is lent to a script.
    pub(crate) spare: Option<Box<Store>>,
}

/// A compiled script.
struct Cached {
    len: usize,
    /// By SCRIPT LOAD: EVAL alone does not evict it.
    is_loaded: bool,
    used_at: u64,
    /// `None` if it has no first line with flags.
    flags: Option<ScriptFlags>,
}

/// Scripts that EVAL left behind, as in Redis 7.4. The one goes that was not used for longest.
pub(crate) const EVALUATED_MAX: usize = 500;
/// All compiled scripts, and the bytes of their sources. The one goes that was not used for longest.
pub(crate) const CACHED_MAX: usize = 10_000;
pub(crate) const CACHED_BYTES_MAX: usize = 8 << 20;

impl Scripts {
    fn interpreter(&mut self, name: &[u8]) -> Result<&mut Box<dyn Interpreter>, Error> {
        self.interpreter.as_mut().ok_or_else(|| Error::not_here(name))
    }

    fn touch(&mut self, name: &str) -> Option<&mut Cached> {
        self.uses += 1;
        let uses = self.uses;
        let cached = self.cache.get_mut(name)?;
        cached.used_at = uses;
        Some(cached)
    }

    /// Compiles a script, if it is not compiled yet, and returns its name.
    fn add(&mut self, source: &[u8], is_loaded: bool) -> Result<String, Error> {
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

    fn flush(&mut self) {
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

/// Arguments of a request.
type Words<'r> = Vec<&'r [u8]>;

/// Keys and arguments behind the name of a script or function.
pub(crate) fn split<'r>(
    request: &'r Request<'_>,
    numkeys: Result<i64, Error>,
) -> Result<(Words<'r>, Words<'r>), Error> {
    let numkeys = numkeys?;
    if numkeys > request.len() as i64 - 3 {
        return Err(Error::Fixed("ERR Number of keys can't be greater than number of args"));
    }
    let count = usize::try_from(numkeys).map_err(|_| Error::Fixed("ERR Number of keys can't be negative"))?;
    let rest = |from: usize, to: usize| (from..to).map(|at| request.arg(at)).collect();
    Ok((rest(3, 3 + count), rest(3 + count, request.len())))
}

/// The rules for flags; `None` are scripts without a first line, which Redis judges by each command.
pub(crate) fn rules(
    store: &mut Store,
    flags: Option<ScriptFlags>,
    is_read_only: bool,
) -> Result<Rules, Error> {
    let Some(flags) = flags else { return Ok(Rules { is_read_only, allows_oom: false }) };
    let (never_writes, allows_oom) =
        (flags.has("no-writes"), flags.has("allow-oom") || flags.has("no-writes"));
    if !allows_oom && !store.make_room(crate::store::EVICTED_PER_REQUEST) {
        return Err(Error::Fixed(
            "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
        ));
    }
    if is_read_only && !never_writes {
        return Err(Error::Fixed("ERR Can not execute a script with write flag using *_ro command."));
    }
    Ok(Rules { is_read_only: is_read_only || never_writes, allows_oom })
}

pub(crate) fn eval(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    run_source(store, caller, request, false, out)
}

pub(crate) fn eval_ro(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    run_source(store, caller, request, true, out)
}

fn run_source(
    store: &mut Store,
    caller: CallerId,
    request: &Request<'_>,
    is_read_only: bool,
    out: &mut Reply,
) -> Done {
    store.scripts.interpreter(request.arg(0))?;
    let (keys, args) = split(request, integer(request.arg(2)))?;
    let name = store.scripts.add(request.arg(1), false)?;
    run_named(store, caller, &name, (&keys, &args), is_read_only, out)
}

pub(crate) fn evalsha(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    run_cached(store, caller, request, false, out)
}

pub(crate) fn evalsha_ro(
    store: &mut Store,
    caller: CallerId,
    request: &Request<'_>,
    out: &mut Reply,
) -> Done {
    run_cached(store, caller, request, true, out)
}

fn run_cached(
    store: &mut Store,
    caller: CallerId,
    request: &Request<'_>,
    is_read_only: bool,
    out: &mut Reply,
) -> Done {
    store.scripts.interpreter(request.arg(0))?;
    let no_script = Error::Fixed("NOSCRIPT No matching script. Please use EVAL.");
    let name = String::from_utf8_lossy(request.arg(1)).to_ascii_lowercase();
    if name.len() != SHA1_DIGITS {
        return Err(no_script);
    }
    let (keys, args) = split(request, integer(request.arg(2)))?;
    store.scripts.touch(&name).ok_or(no_script)?;
    run_named(store, caller, &name, (&keys, &args), is_read_only, out)
}

/// Digits of a name.
const SHA1_DIGITS: usize = 40;

fn run_named(
    store: &mut Store,
    caller: CallerId,
    name: &str,
    (keys, args): (&[&[u8]], &[&[u8]]),
    is_read_only: bool,
    out: &mut Reply,
) -> Done {
    let flags = store.scripts.cache.get(name).and_then(|cached| cached.flags);
    let rules = rules(store, flags, is_read_only)?;
    store.run_script(caller, Entry::Script(name), keys, args, rules, out)
}

/// SCRIPT and its subcommands.
pub(crate) fn script(store: &mut Store, _: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let arity = |fits: bool| match fits {
        true => Ok(()),
        false => Err(Error::Arity(format!("script|{}", shown(request.arg(1)).to_lowercase()))),
    };
    match request.arg(1) {
        word if is(word, "EXISTS") => {
            arity(request.len() >= 3)?;
            out.array(request.len() - 2);
            for name in request.args().skip(2) {
                let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                out.integer(i64::from(store.scripts.cache.contains_key(&name)));
            }
        }
        word if is(word, "FLUSH") => {
            let is_known = |word: &[u8]| is(word, "SYNC") || is(word, "ASYNC");
            if request.len() > 3 || request.get(2).is_some_and(|word| !is_known(word)) {
                return Err(Error::Fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
            }
            store.scripts.flush();
            out.simple(b"OK");
        }
        word if is(word, "LOAD") => {
            arity(request.len() == 3)?;
            store.scripts.interpreter(b"script|load")?;
            let name = store.scripts.add(request.arg(2), true)?;
            out.bulk(name.as_bytes());
        }
        word if is(word, "KILL") => {
            arity(request.len() == 2)?;
            return Err(NOT_BUSY);
        }
        word if is(word, "HELP") => return help::write(request, "SCRIPT", help::SCRIPT, out),
        word => return Err(Error::UnknownSubcommand(shown(word), "SCRIPT")),
    }
    Ok(())
}

/// A store runs one thing at a time: when it hears of KILL, nothing runs.
pub(crate) const NOT_BUSY: Error = Error::Fixed("NOTBUSY No scripts in execution right now.");
