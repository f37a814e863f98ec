//! Arguments of `redis.register_function`.

use mlua::{Function, MultiValue, Table, Value};
use store::{LibraryFunction, ScriptFlags};

use crate::raise::redis_error;

/// The function that a library registers, and its callback.
pub(crate) fn parse(args: MultiValue) -> mlua::Result<(LibraryFunction, Function)> {
    let mut args = args.into_iter();
    let parsed = match (args.next(), args.next(), args.next()) {
        (Some(Value::Table(table)), None, _) => return named(&table),
        (Some(_), None, _) => Err(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named \
             arguments).",
        ),
        (Some(name), Some(callback), None) => positional(name, callback),
        _ => Err("wrong number of arguments to redis.register_function"),
    };
    let (function, callback) = parsed.map_err(redis_error)?;
    check_name(&function.name)?;
    Ok((function, callback))
}

fn text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(crate::args::number_text(*number, 14)),
        _ => None,
    }
}

fn positional(name: Value, callback: Value) -> Result<(LibraryFunction, Function), &'static str> {
    let name = text(&name).ok_or("first argument to redis.register_function must be a string")?;
    let Value::Function(callback) = callback else {
        return Err("second argument to redis.register_function must be a function");
    };
    Ok((LibraryFunction { name, description: None, flags: ScriptFlags::default() }, callback))
}

fn named(table: &Table) -> mlua::Result<(LibraryFunction, Function)> {
    let (mut name, mut description, mut callback, mut flags) = (None, None, None, ScriptFlags::default());
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let key = text(&key).ok_or_else(|| {
            redis_error("named argument key given to redis.register_function is not a string")
        })?;
        let wrong = |name: &str, kind: &str| {
            redis_error(&format!("{name} argument given to redis.register_function must be a {kind}"))
        };
        match key.to_ascii_lowercase().as_slice() {
            b"function_name" => name = Some(text(&value).ok_or_else(|| wrong("function_name", "string"))?),
            b"description" => description = Some(text(&value).ok_or_else(|| wrong("description", "string"))?),
            b"callback" => match value {
                Value::Function(function) => callback = Some(function),
                _ => return Err(wrong("callback", "function")),
            },
            b"flags" => match value {
                Value::Table(names) => flags = read_flags(&names)?,
                _ => {
                    let text = "flags argument to redis.register_function must be a table representing function flags";
                    return Err(redis_error(text));
                }
            },
            _ => return Err(redis_error("unknown argument given to redis.register_function")),
        }
    }
    let name =
        name.ok_or_else(|| redis_error("redis.register_function must get a function name argument"))?;
    let callback =
        callback.ok_or_else(|| redis_error("redis.register_function must get a callback argument"))?;
    check_name(&name)?;
    Ok((LibraryFunction { name, description, flags }, callback))
}

fn read_flags(names: &Table) -> mlua::Result<ScriptFlags> {
    let mut flags = ScriptFlags::default();
    for index in 1.. {
        let name: Value = names.raw_get(index)?;
        if matches!(name, Value::Nil) {
            break;
        }
        let is_known = text(&name).is_some_and(|name| flags.add(&name));
        if !is_known {
            return Err(redis_error("unknown flag given"));
        }
    }
    Ok(flags)
}

fn check_name(name: &[u8]) -> mlua::Result<()> {
    if store::is_function_name(name) {
        return Ok(());
    }
    let text = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";
    Err(redis_error(text))
}
