//! The library `cjson`: JSON as lua-cjson 2.1.0 writes and reads it in Redis.

mod decode;
mod encode;

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use crate::args::Args;

/// Settings that scripts can change. In Redis they outlive the script; here each script begins with the defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    sparse_convert: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_depth_max: i64,
    decode_depth_max: i64,
    precision: usize,
    encode_bad_numbers: bool,
    decode_bad_numbers: bool,
    keep_buffer: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1_000,
            decode_depth_max: 1_000,
            precision: 14,
            encode_bad_numbers: false,
            decode_bad_numbers: true,
            keep_buffer: true,
        }
    }
}

/// Greatest depth that a script can allow: deeper recursion could exhaust the stack of the thread.
const DEPTH_MAX: i64 = 1_000;

pub(crate) type Shared = Rc<Cell<Settings>>;

/// Adds all functions to `table`.
pub(crate) fn install(lua: &Lua, table: &Table, shared: &Shared) -> mlua::Result<()> {
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    table.raw_set("null", Value::NULL)?;
    let settings = Rc::clone(shared);
    let run = move |lua: &Lua, args: MultiValue| encode::run(lua, &Args::new(lua, args), &settings.get());
    table.raw_set("encode", lua.create_function(run)?)?;
    let settings = Rc::clone(shared);
    let run = move |lua: &Lua, args: MultiValue| decode::run(lua, &Args::new(lua, args), &settings.get());
    table.raw_set("decode", lua.create_function(run)?)?;
    install_settings(lua, table, shared)?;
    // The new library shares its settings with this one.
    let shared = Rc::clone(shared);
    let new = move |lua: &Lua, (): ()| {
        let table = lua.create_table()?;
        install(lua, &table, &shared)?;
        Ok(table)
    };
    table.raw_set("new", lua.create_function(new)?)
}

type Change = fn(&Args<'_>, &mut Settings) -> mlua::Result<MultiValue>;

fn install_settings(lua: &Lua, table: &Table, shared: &Shared) -> mlua::Result<()> {
    let changes: [(&str, usize, Change); 7] = [
        ("encode_sparse_array", 3, |args, it| {
            option_bool(args, 1, &mut it.sparse_convert)?;
            option_integer(args, 2, &mut it.sparse_ratio, 0, i64::from(i32::MAX))?;
            option_integer(args, 3, &mut it.sparse_safe, 0, i64::from(i32::MAX))?;
            let values = [Value::Integer(it.sparse_ratio), Value::Integer(it.sparse_safe)];
            Ok([Value::Boolean(it.sparse_convert)].into_iter().chain(values).collect())
        }),
        ("encode_max_depth", 1, |args, it| {
            option_integer(args, 1, &mut it.encode_depth_max, 1, i64::from(i32::MAX)).map(one)
        }),
        ("decode_max_depth", 1, |args, it| {
            option_integer(args, 1, &mut it.decode_depth_max, 1, i64::from(i32::MAX)).map(one)
        }),
        ("encode_number_precision", 1, |args, it| {
            let mut precision = it.precision as i64;
            let value = option_integer(args, 1, &mut precision, 1, 14)?;
            it.precision = precision as usize;
            Ok(one(value))
        }),
        ("encode_keep_buffer", 1, |args, it| option_bool(args, 1, &mut it.keep_buffer).map(one)),
        ("encode_invalid_numbers", 1, |args, it| option_bool(args, 1, &mut it.encode_bad_numbers).map(one)),
        ("decode_invalid_numbers", 1, |args, it| option_bool(args, 1, &mut it.decode_bad_numbers).map(one)),
    ];
    for (name, most, change) in changes {
        let shared = Rc::clone(shared);
        let run = move |lua: &Lua, args: MultiValue| {
            let args = Args::new(lua, args);
            if args.len() > most {
                return Err(args.bad(most + 1, "found too many arguments"));
            }
            let mut settings = shared.get();
            let values = change(&args, &mut settings)?;
            shared.set(settings);
            Ok(values)
        };
        table.raw_set(name, lua.create_function(run)?)?;
    }
    Ok(())
}

fn one(value: Value) -> MultiValue {
    [value].into_iter().collect()
}

fn option_integer(args: &Args<'_>, at: usize, value: &mut i64, min: i64, max: i64) -> mlua::Result<Value> {
    if !args.is_absent(at) {
        let new = args.integer(at)?;
        if !(min..=max).contains(&new) {
            return Err(args.bad(at, format!("expected integer between {min} and {max}")));
        }
        *value = new;
    }
    Ok(Value::Integer(*value))
}

fn option_bool(args: &Args<'_>, at: usize, value: &mut bool) -> mlua::Result<Value> {
    match args.get(at) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(new)) => *value = *new,
        Some(_) => match args.string(at)?.as_bytes().as_ref() {
            b"on" => *value = true,
            b"off" => *value = false,
            other => {
                let text = format!("invalid option '{}'", String::from_utf8_lossy(other));
                return Err(args.bad(at, &text));
            }
        },
    }
    Ok(Value::Boolean(*value))
}
