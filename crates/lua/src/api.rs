//! The library `redis`.

use mlua::{Lua, MultiValue, Table, Value, Variadic};
use sha1::{Digest, Sha1};
use store::{Allowed, LibraryFunction, ScriptRun};

use crate::args::{Args, Word, number_of, truncated};
use crate::convert;
use crate::raise::{Raised, error_table, redis_error, with_code};
use crate::state;

/// Adds all functions to `table`.
pub(crate) fn install(lua: &Lua, table: &Table, native: &Table) -> mlua::Result<()> {
    let levels = ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"];
    levels.iter().zip(0..).try_for_each(|(name, level)| table.raw_set(*name, level))?;
    for (name, flags) in
        [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)]
    {
        table.raw_set(name, flags)?;
    }
    table.raw_set("REDIS_VERSION", "7.0.15")?;
    table.raw_set("REDIS_VERSION_NUM", 0x0007_000f)?;
    table.raw_set("call", lua.create_function(|lua, words| call(lua, words, true))?)?;
    table.raw_set("pcall", lua.create_function(|lua, words| call(lua, words, false))?)?;
    table.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    table.raw_set("error_reply", lua.create_function(error_reply)?)?;
    table.raw_set("status_reply", lua.create_function(status_reply)?)?;
    table.raw_set("log", lua.create_function(log)?)?;
    table.raw_set("setresp", lua.create_function(setresp)?)?;
    table.raw_set("set_repl", lua.create_function(set_repl)?)?;
    table.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    table.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    table.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    table.raw_set("acl_check_cmd", lua.create_function(acl_check_cmd)?)?;
    native.raw_set("register", lua.create_function(register)?)
}

/// Acts on the script that runs.
fn with_run<R>(lua: &Lua, name: &str, act: impl FnOnce(&mut ScriptRun) -> R) -> mlua::Result<R> {
    let done = state::with(lua, |state| state.run.as_mut().map(act))?;
    done.ok_or_else(|| redis_error(&format!("redis.{name} can only be called inside a script invocation")))
}

/// The words of a command, or the reason why these are none.
fn words(words: Variadic<Word>) -> Result<Vec<Vec<u8>>, &'static str> {
    if words.is_empty() {
        return Err("Please specify at least one argument for this redis lib call");
    }
    let words: Option<Vec<_>> = words.into_iter().map(|word| word.0).collect();
    words.ok_or("Lua redis lib command arguments must be strings or integers")
}

fn call(lua: &Lua, given: Variadic<Word>, raises: bool) -> mlua::Result<Value> {
    with_run(lua, "call/pcall", |_| ())?;
    let fail = |text: &str, is_counted: bool| {
        let text = with_code(text.as_bytes());
        if raises {
            return Err(Raised::Table(text).error());
        }
        let error = error_table(lua, &text)?;
        if let (Value::Table(table), true) = (&error, is_counted) {
            table.raw_set("ignore_error_stats_update", true)?;
        }
        Ok(error)
    };
    let words = match words(given) {
        Ok(words) => words,
        Err(why) => return fail(why, false),
    };
    let reply = match with_run(lua, "call/pcall", |run| run.call(&words))? {
        Ok(reply) => reply,
        Err(why) => return fail(&why, true),
    };
    if raises && reply.first() == Some(&b'-') {
        let line = reply.split(|byte| b"\r\n".contains(byte)).next().unwrap_or_default();
        return Err(Raised::Table(with_code(line)).error());
    }
    convert::value_of(lua, &reply)
}

/// The name of a script.
pub(crate) fn hex_sha1(text: &[u8]) -> String {
    Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha1hex(lua: &Lua, args: MultiValue) -> mlua::Result<String> {
    let args = Args::new(lua, args);
    if args.len() != 1 {
        return Err(redis_error("wrong number of arguments"));
    }
    // A value that is no string counts as an empty one.
    let text = args.string(1).map(|text| text.as_bytes().to_vec()).unwrap_or_default();
    Ok(hex_sha1(&text))
}

/// The only argument, if it is a string.
fn only_string(args: &MultiValue) -> Option<Vec<u8>> {
    match (args.len(), args.front()) {
        (1, Some(Value::String(text))) => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

const WRONG_ARGUMENTS: &[u8] = b"wrong number or type of arguments";

fn error_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    let text = match only_string(&args) {
        None => WRONG_ARGUMENTS.to_vec(),
        Some(text) if text.starts_with(b"-") => text,
        Some(text) => [b"-", &text[..]].concat(),
    };
    error_table(lua, &with_code(&text))
}

fn status_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    let Some(text) = only_string(&args) else { return error_table(lua, &with_code(WRONG_ARGUMENTS)) };
    let table = lua.create_table()?;
    table.raw_set("ok", lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

/// Checks its arguments. The embedded store writes no log of scripts.
fn log(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    if args.len() < 2 {
        return Err(redis_error("redis.log() requires two arguments or more."));
    }
    let level = args.front().and_then(|value| number_of(lua, value));
    match level.map(truncated) {
        None => Err(redis_error("First argument must be a number (log level).")),
        Some(0..=3) => Ok(()),
        Some(_) => Err(redis_error("Invalid debug level.")),
    }
}

fn setresp(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    with_run(lua, "setresp", |_| ())?;
    if args.len() != 1 {
        return Err(redis_error("redis.setresp() requires one argument."));
    }
    let number = args.front().and_then(|value| number_of(lua, value)).map(truncated);
    match number {
        Some(number @ 2..=3) => with_run(lua, "setresp", |run| run.set_resp3(number == 3)),
        _ => Err(redis_error("RESP version must be 2 or 3.")),
    }
}

/// Checks its arguments. The embedded store has no replicas.
fn set_repl(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    with_run(lua, "set_repl", |_| ())?;
    if args.len() != 1 {
        return Err(redis_error("redis.set_repl() requires two arguments."));
    }
    let flags = args.front().and_then(|value| number_of(lua, value)).map_or(0, truncated);
    if flags & !3 != 0 {
        let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(redis_error(text));
    }
    Ok(())
}

fn acl_check_cmd(lua: &Lua, given: Variadic<Word>) -> mlua::Result<bool> {
    with_run(lua, "acl_check_cmd", |_| ())?;
    let words = words(given).map_err(redis_error)?;
    match with_run(lua, "acl_check_cmd", |run| run.allowed(&words))? {
        Allowed::Yes => Ok(true),
        Allowed::Unknown => Err(redis_error("Invalid command passed to redis.acl_check_cmd()")),
    }
}

/// `redis.register_function`.
fn register(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    if !state::with(lua, |state| state.loading.is_some())? {
        return Err(redis_error("redis.register_function can only be called on FUNCTION LOAD command"));
    }
    let (function, callback) = crate::functions::parse(args)?;
    let name = lua.create_string(&function.name)?;
    let added = state::with(lua, |state| state.loading.as_mut().map_or(Ok(()), |all| add(all, function)))?;
    added.map_err(redis_error)?;
    lua.named_registry_value::<Table>("loading")?.raw_set(name, callback)
}

fn add(functions: &mut Vec<LibraryFunction>, function: LibraryFunction) -> Result<(), &'static str> {
    if functions.iter().any(|other| other.name.eq_ignore_ascii_case(&function.name)) {
        return Err("Function already exists in the library");
    }
    functions.push(function);
    Ok(())
}
