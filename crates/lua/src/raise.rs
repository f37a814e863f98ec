//! Errors of native functions: values that Lua code catches, and ends of a script that it cannot catch.
//!
//! A native function cannot throw a Lua value. It returns a [`Raised`], which travels as an opaque object. The wrappers of
//! `prelude.lua` turn it into the value that Redis throws before a script sees it.

use std::fmt;

use mlua::{Error, Lua, Value};

/// Chunk name of the prelude, whose frames are left out of positions.
pub(crate) const PRELUDE: &str = "[shardis]";

/// Cause of an error that a native function raised.
#[derive(Clone, Debug)]
pub(crate) enum Raised {
    /// A string.
    Text(Vec<u8>),
    /// A table with the field `err`.
    Table(Vec<u8>),
    /// The end of the script. No `pcall` stops it.
    End(&'static str),
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raised::Text(text) | Raised::Table(text) => f.write_str(&String::from_utf8_lossy(text)),
            Raised::End(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Raised {}

impl Raised {
    pub(crate) fn error(self) -> Error {
        Error::external(self)
    }

    /// The cause of an error object.
    pub(crate) fn of(error: &Error) -> Raised {
        match error {
            Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => Raised::of(cause),
            Error::ExternalError(error) => match error.downcast_ref::<Raised>() {
                Some(raised) => raised.clone(),
                None => Raised::Text(error.to_string().into_bytes()),
            },
            Error::MemoryError(_) => Raised::Text(OUT_OF_MEMORY.into()),
            Error::RuntimeError(text) => Raised::Text(text.clone().into_bytes()),
            other => Raised::Text(other.to_string().into_bytes()),
        }
    }

    /// The value that a script catches.
    pub(crate) fn value(&self, lua: &Lua) -> mlua::Result<Value> {
        match self {
            Raised::Text(text) => Ok(Value::String(lua.create_string(text)?)),
            Raised::End(text) => Ok(Value::String(lua.create_string(text)?)),
            Raised::Table(text) => error_table(lua, text),
        }
    }
}

/// Lua's own words.
pub(crate) const OUT_OF_MEMORY: &str = "not enough memory";

/// A table with `err`, in the form in which `redis.pcall` returns errors.
pub(crate) fn error_table(lua: &Lua, text: &[u8]) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set("err", lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

/// The text of an error with its code. `text` is `-CODE message`, or a message that gets the code `ERR`.
pub(crate) fn with_code(text: &[u8]) -> Vec<u8> {
    let until_nul = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let (code, message) = match until_nul.strip_prefix(b"-") {
        None => (&b"ERR"[..], until_nul),
        Some(text) => match text.iter().position(|&byte| byte == b' ') {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (&b"ERR"[..], text),
        },
    };
    let is_end = |byte: &u8| b"\r\n".contains(byte);
    let start = message.iter().position(|byte| !is_end(byte)).unwrap_or(message.len());
    let end = message.iter().rposition(|byte| !is_end(byte)).map_or(start, |at| at + 1);
    [code, b" ", &message[start..end]].concat()
}

/// An error as Redis's own functions raise it.
pub(crate) fn redis_error(text: &str) -> Error {
    Raised::Table(with_code(text.as_bytes())).error()
}

/// An error with the position of the calling Lua code before it.
pub(crate) fn failure(lua: &Lua, text: impl AsRef<[u8]>) -> Error {
    Raised::Text([position(lua).as_bytes(), text.as_ref()].concat()).error()
}

/// An error about an argument, in the words of Lua's library.
pub(crate) fn bad_argument(lua: &Lua, number: usize, text: &[u8]) -> Error {
    let (name, is_method) = lua
        .inspect_stack(0, |frame| {
            let names = frame.names();
            let name = names
                .name
                .map_or_else(|| "?".to_owned(), |name| name.trim_start_matches("native_").to_owned());
            (name, names.name_what == Some("method"))
        })
        .unwrap_or_else(|| ("?".to_owned(), false));
    let begin = match (is_method, number) {
        (true, 1) => format!("calling '{name}' on bad self ("),
        (true, number) => format!("bad argument #{} to '{name}' (", number - 1),
        (false, number) => format!("bad argument #{number} to '{name}' ("),
    };
    failure(lua, [begin.as_bytes(), text, b")"].concat())
}

/// `chunk:line: ` of the code that called the running native function; empty if that is no Lua code.
fn position(lua: &Lua) -> String {
    for level in 1..=PRELUDE_FRAMES_MAX {
        let frame = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            (
                source.short_src.unwrap_or_default().into_owned(),
                frame.current_line().filter(|_| source.what != "C"),
            )
        });
        match frame {
            Some((source, _)) if source == PRELUDE => {}
            Some((source, Some(line))) => return format!("{source}:{line}: "),
            _ => break,
        }
    }
    String::new()
}

/// Source and line of the code that raised the error whose handler runs, two frames above the running native function.
pub(crate) fn place_of_error(lua: &Lua) -> Option<(String, i64)> {
    let at = |level: usize| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let line = frame.current_line().map_or(-1, |line| line as i64);
            (source.what == "C", source.source.unwrap_or_default().into_owned(), line)
        })
    };
    let is_ours = |source: &str| source.trim_start_matches('=') == PRELUDE;
    let mut level = 2;
    while level < 2 + NATIVE_FRAMES_MAX && at(level).is_some_and(|(is_native, ..)| is_native) {
        level += 1;
    }
    while at(level).is_some_and(|(_, source, _)| is_ours(&source)) && level < 2 + PRELUDE_FRAMES_MAX {
        level += 1;
    }
    at(level).filter(|(_, source, _)| !is_ours(source)).map(|(_, source, line)| (source, line))
}

/// Native frames between an error and its handler.
const NATIVE_FRAMES_MAX: usize = 2;

/// Frames of the prelude between native code and a script.
const PRELUDE_FRAMES_MAX: usize = 4;
