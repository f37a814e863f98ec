//! EVAL and its relatives, and SCRIPT.

use resp::Request;

use crate::args::{integer, is, shown};
use crate::caller_id::CallerId;
use crate::commands::help;
use crate::commands::scripting::{Entry, Rules, ScriptFlags};
use crate::error::Error;
use crate::replies::Reply;
use crate::store::Store;

type Done = Result<(), Error>;

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

/// Whether a command of scripts runs them read-only: EVAL_RO, EVALSHA_RO and FCALL_RO.
pub(crate) fn is_read_only(request: &Request<'_>) -> bool {
    request.arg(0).last_chunk().is_some_and(|end: &[u8; 3]| end.eq_ignore_ascii_case(b"_ro"))
}

/// EVAL and EVAL_RO.
pub(crate) fn eval(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    store.scripts.interpreter(request.arg(0))?;
    let (keys, args) = split(request, integer(request.arg(2)))?;
    let name = store.scripts.add(request.arg(1), false)?;
    run_named(store, caller, &name, (&keys, &args), is_read_only(request), out)
}

/// EVALSHA and EVALSHA_RO.
pub(crate) fn evalsha(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    store.scripts.interpreter(request.arg(0))?;
    let no_script = Error::Fixed("NOSCRIPT No matching script. Please use EVAL.");
    let name = String::from_utf8_lossy(request.arg(1)).to_ascii_lowercase();
    if name.len() != SHA1_DIGITS {
        return Err(no_script);
    }
    let (keys, args) = split(request, integer(request.arg(2)))?;
    store.scripts.touch(&name).ok_or(no_script)?;
    run_named(store, caller, &name, (&keys, &args), is_read_only(request), out)
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
