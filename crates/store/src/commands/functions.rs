//! FUNCTION and FCALL: libraries of functions.

use resp::Request;
use stdx::glob;

use crate::args::{integer, is, shown};
use crate::caller_id::CallerId;
use crate::commands::compiled::{LIBRARIES_MAX, LIBRARY_BYTES_MAX, Libraries, Library};
use crate::commands::scripting::{Entry, LibraryFunction, is_function_name};
use crate::commands::scripts::{NOT_BUSY, is_read_only, rules, split};
use crate::commands::{dump, help};
use crate::error::Error;
use crate::formats::rdb;
use crate::replies::Reply;
use crate::store::Store;

type Done = Result<(), Error>;

/// The name of a library, from its first line.
fn read_metadata(source: &[u8]) -> Result<Vec<u8>, Error> {
    let end = source.iter().position(|&byte| byte == b'\n').filter(|_| source.starts_with(b"#!"));
    let Some(end) = end else {
        let text = if source.starts_with(b"#!") {
            "ERR Invalid library metadata"
        } else {
            "ERR Missing library metadata"
        };
        return Err(Error::Fixed(text));
    };
    let mut words = source[2..end].split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    let mut name = None;
    for word in words {
        let value = word.get(..5).filter(|begin| begin.eq_ignore_ascii_case(b"name=")).map(|_| &word[5..]);
        let value = value.ok_or_else(|| Error::named(&[b"ERR Invalid metadata value given: ", word]))?;
        if name.replace(value).is_some() {
            return Err(Error::Fixed("ERR Invalid metadata value, name argument was given multiple times"));
        }
    }
    let name = name.ok_or(Error::Fixed("ERR Library name was not given"))?;
    if !is_function_name(name) {
        return Err(Error::Fixed(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character \
             long",
        ));
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(Error::named(&[b"ERR Engine '", engine, b"' not found"]));
    }
    Ok(name.to_vec())
}

impl Store {
    /// Adds a library. One of the same name is replaced, or is an error. Returns its name.
    fn load_library(&mut self, source: &[u8], replaces: bool) -> Result<Vec<u8>, Error> {
        let name = read_metadata(source)?;
        let libraries = &mut self.scripts.libraries;
        if !replaces && libraries.contains(&name) {
            return Err(Error::named(&[b"ERR Library '", &name, b"' already exists"]));
        }
        if libraries.len() >= LIBRARIES_MAX || libraries.bytes() + source.len() > LIBRARY_BYTES_MAX {
            return Err(Error::Fixed("ERR the embedded store has too many or too large libraries"));
        }
        libraries.made += 1;
        let number = libraries.made;
        let interpreter =
            self.scripts.interpreter.as_mut().ok_or_else(|| Error::not_here(b"function|load"))?;
        let functions =
            interpreter.load_library(number, source).map_err(|why| Error::named(&[b"ERR ", &why]))?;
        let taken = self.scripts.libraries.taken_name(&name, &functions);
        let refusal = match (&*functions, taken) {
            ([], _) => Some(Error::Fixed("ERR No functions registered")),
            (_, Some(taken)) => Some(Error::named(&[b"ERR Function ", taken, b" already exists"])),
            _ => None,
        };
        if let Some(refusal) = refusal {
            self.forget_library(number);
            return Err(refusal);
        }
        let library = Library { number, source: source.to_vec(), functions };
        if let Some(old) = self.scripts.libraries.insert(name.clone(), library) {
            self.forget_library(old.number);
        }
        Ok(name)
    }

    fn forget_library(&mut self, number: u64) {
        self.scripts.interpreter.iter_mut().for_each(|interpreter| interpreter.forget_library(number));
    }

    fn flush_libraries(&mut self) {
        for library in self.scripts.libraries.take_all() {
            self.forget_library(library.number);
        }
    }
}

/// FCALL and FCALL_RO.
pub(crate) fn fcall(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let found = store.scripts.libraries.find(request.arg(1));
    let (library, function) = found.ok_or(Error::Fixed("ERR Function not found"))?;
    let (name, flags) = (function.name.clone(), function.flags);
    let numkeys = integer(request.arg(2)).map_err(|_| Error::Fixed("ERR Bad number of keys provided"));
    let (keys, args) = split(request, numkeys)?;
    let rules = rules(store, Some(flags), is_read_only(request))?;
    store.run_script(caller, Entry::Function { library, name: &name }, &keys, &args, rules, out)
}

/// FUNCTION and its subcommands.
pub(crate) fn function(store: &mut Store, _: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let arity = |fits: bool| match fits {
        true => Ok(()),
        false => Err(Error::Arity(format!("function|{}", shown(request.arg(1)).to_lowercase()))),
    };
    match request.arg(1) {
        word if is(word, "LOAD") => {
            arity(request.len() >= 3)?;
            let replaces = request.len() > 3;
            if replaces && !is(request.arg(2), "REPLACE") {
                let option = request.arg(2);
                return Err(Error::named(&[b"ERR Unknown option given: ", option]));
            }
            let name = store.load_library(request.arg(request.len() - 1), replaces)?;
            out.bulk(&name);
        }
        word if is(word, "DELETE") => {
            arity(request.len() == 3)?;
            let removed = store.scripts.libraries.remove(request.arg(2));
            let removed = removed.ok_or(Error::Fixed("ERR Library not found"))?;
            store.forget_library(removed.number);
            out.simple(b"OK");
        }
        word if is(word, "LIST") => list(&store.scripts.libraries, request, out)?,
        word if is(word, "DUMP") => {
            arity(request.len() == 2)?;
            out.bulk(&dump_all(&store.scripts.libraries));
        }
        word if is(word, "RESTORE") => {
            arity(request.len() >= 3)?;
            restore(store, request)?;
            out.simple(b"OK");
        }
        word if is(word, "FLUSH") => {
            let is_known = |word: &[u8]| is(word, "SYNC") || is(word, "ASYNC");
            if request.len() > 3 {
                return Err(Error::SubcommandSyntax(shown(word), "FUNCTION"));
            }
            if request.get(2).is_some_and(|word| !is_known(word)) {
                return Err(Error::Fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
            }
            store.flush_libraries();
            out.simple(b"OK");
        }
        word if is(word, "STATS") => {
            arity(request.len() == 2)?;
            stats(&store.scripts.libraries, out);
        }
        word if is(word, "KILL") => {
            arity(request.len() == 2)?;
            return Err(NOT_BUSY);
        }
        word if is(word, "HELP") => return help::write(request, "FUNCTION", help::FUNCTION, out),
        word => return Err(Error::UnknownSubcommand(shown(word), "FUNCTION")),
    }
    Ok(())
}

fn stats(libraries: &Libraries, out: &mut Reply) {
    out.map(2);
    out.bulk(b"running_script");
    out.nil();
    out.bulk(b"engines");
    out.map(1);
    out.bulk(b"LUA");
    out.map(2);
    out.bulk(b"libraries_count");
    out.integer(libraries.len() as i64);
    out.bulk(b"functions_count");
    out.integer(libraries.functions() as i64);
}

fn list(libraries: &Libraries, request: &Request<'_>, out: &mut Reply) -> Done {
    let (mut with_code, mut pattern, mut at) = (false, None, 2);
    while let Some(word) = request.get(at) {
        if !with_code && is(word, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && is(word, "LIBRARYNAME") {
            at += 1;
            let given = request.get(at);
            pattern = Some(given.ok_or(Error::Fixed("ERR library name argument was not given"))?);
        } else {
            return Err(Error::named(&[b"ERR Unknown argument ", word]));
        }
        at += 1;
    }
    let fits = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches_ignoring_case(pattern, name));
    let shown: Vec<_> = libraries.iter().filter(|(name, _)| fits(name)).collect();
    out.array(shown.len());
    for (name, library) in shown {
        out.map(if with_code { 4 } else { 3 });
        out.bulk(b"library_name");
        out.bulk(name);
        out.bulk(b"engine");
        out.bulk(b"LUA");
        out.bulk(b"functions");
        out.array(library.functions.len());
        library.functions.iter().for_each(|function| list_function(function, out));
        if with_code {
            out.bulk(b"library_code");
            out.bulk(&library.source);
        }
    }
    Ok(())
}

fn list_function(function: &LibraryFunction, out: &mut Reply) {
    out.map(3);
    out.bulk(b"name");
    out.bulk(&function.name);
    out.bulk(b"description");
    out.bulk_or_nil(function.description.as_deref());
    out.bulk(b"flags");
    out.set(function.flags.names().count());
    function.flags.names().for_each(|flag| out.simple(flag.as_bytes()));
}

/// The mark before the source of each library in RDB.
const LIBRARY_MARK: u8 = 245;

fn dump_all(libraries: &Libraries) -> Vec<u8> {
    let mut writer = rdb::Writer::default();
    for (_, library) in libraries.iter() {
        writer.push(LIBRARY_MARK);
        rdb::write_text(&library.source, &mut writer);
    }
    let mut payload = writer.bytes;
    payload.extend_from_slice(&dump::VERSION.to_le_bytes());
    dump::with_checksum(payload)
}

/// Policies of FUNCTION RESTORE.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Append,
    Flush,
    Replace,
}

fn restore(store: &mut Store, request: &Request<'_>) -> Done {
    if request.len() > 4 {
        return Err(Error::SubcommandSyntax(shown(request.arg(1)), "FUNCTION"));
    }
    let policy = match request.get(3) {
        None => Policy::Append,
        Some(word) if is(word, "APPEND") => Policy::Append,
        Some(word) if is(word, "FLUSH") => Policy::Flush,
        Some(word) if is(word, "REPLACE") => Policy::Replace,
        Some(_) => {
            return Err(Error::Fixed(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    let body = dump::body(request.arg(2), dump::VERSION);
    let body = body.ok_or(Error::Fixed("ERR DUMP payload version or checksum are wrong"))?;
    let sources = read_sources(body)?;
    // All or nothing: a failure brings the old libraries back.
    let old: Vec<Vec<u8>> =
        store.scripts.libraries.iter().map(|(_, library)| library.source.clone()).collect();
    if policy == Policy::Flush {
        store.flush_libraries();
    }
    let restored = sources.iter().try_for_each(|source| {
        let name = read_metadata(source)?;
        if policy == Policy::Append && store.scripts.libraries.contains(&name) {
            return Err(Error::named(&[b"ERR Library ", &name, b" already exists"]));
        }
        store.load_library(source, policy == Policy::Replace).map(|_| ())
    });
    if restored.is_err() {
        store.flush_libraries();
        old.iter().for_each(|source| _ = store.load_library(source, true));
    }
    restored
}

fn read_sources(body: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let mut reader = rdb::Reader::new(body);
    let mut sources = Vec::new();
    while !reader.is_at_end() {
        match reader.array::<1>() {
            Some([LIBRARY_MARK]) => {}
            _ => return Err(Error::Fixed("ERR given type is not a function")),
        }
        let failed = Error::Fixed("ERR Failed loading library data");
        sources.push(reader.text().ok_or(failed)?);
    }
    Ok(sources)
}
