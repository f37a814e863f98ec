//! Functions that look behind metatables, and so behind the proxies of the sandbox.

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use crate::args::{Args, type_name};
use crate::raise::{Raised, failure};
use crate::sandbox::READONLY;

/// Adds the functions to `globals`. `reals` has the table behind each proxy.
pub(crate) fn install(lua: &Lua, globals: &Table, reals: &Table) -> mlua::Result<()> {
    let known = reals.clone();
    let rawget = move |lua: &Lua, args: MultiValue| rawget(&Args::new(lua, args), &known);
    globals.raw_set("rawget", lua.create_function(rawget)?)?;
    let known = reals.clone();
    let rawset = move |lua: &Lua, args: MultiValue| rawset(&Args::new(lua, args), &known);
    globals.raw_set("rawset", lua.create_function(rawset)?)?;
    let known = reals.clone();
    let getmetatable = move |lua: &Lua, args: MultiValue| getmetatable(lua, &Args::new(lua, args), &known);
    globals.raw_set("getmetatable", lua.create_function(getmetatable)?)?;
    let known = reals.clone();
    let setmetatable = move |lua: &Lua, args: MultiValue| setmetatable(lua, &Args::new(lua, args), &known);
    globals.raw_set("setmetatable", lua.create_function(setmetatable)?)
}

fn table(args: &Args<'_>) -> mlua::Result<Table> {
    match args.get(1) {
        Some(Value::Table(table)) => Ok(table.clone()),
        other => {
            let got = other.map_or("no value", type_name);
            Err(args.bad(1, format!("table expected, got {got}")))
        }
    }
}

/// Argument `number`, which may be nil but not be left out.
fn value(args: &Args<'_>, number: usize) -> mlua::Result<Value> {
    args.get(number).cloned().ok_or_else(|| args.bad(number, "value expected"))
}

/// The table behind a proxy.
fn behind(table: &Table, reals: &Table) -> mlua::Result<Option<Table>> {
    reals.raw_get(table)
}

fn readonly() -> mlua::Error {
    Raised::Text(READONLY.into()).error()
}

fn rawget(args: &Args<'_>, reals: &Table) -> mlua::Result<Value> {
    let (table, key) = (table(args)?, value(args, 2)?);
    behind(&table, reals)?.unwrap_or(table).raw_get(key)
}

fn rawset(args: &Args<'_>, reals: &Table) -> mlua::Result<Table> {
    let (table, key, new) = (table(args)?, value(args, 2)?, value(args, 3)?);
    if behind(&table, reals)?.is_some() {
        return Err(readonly());
    }
    match key {
        Value::Nil => Err(Raised::Text(b"table index is nil".to_vec()).error()),
        Value::Number(number) if number.is_nan() => Err(Raised::Text(b"table index is NaN".to_vec()).error()),
        key => table.raw_set(key, new).map(|()| table),
    }
}

fn getmetatable(lua: &Lua, args: &Args<'_>, reals: &Table) -> mlua::Result<Value> {
    let metatable = match value(args, 1)? {
        Value::Table(table) => match (behind(&table, reals)?, table.metatable()) {
            (Some(_), Some(metatable)) => {
                let shown: Value = metatable.raw_get("__metatable")?;
                return Ok(if shown == Value::Boolean(false) { Value::Nil } else { shown });
            }
            (_, metatable) => metatable,
        },
        Value::String(_) => lua.type_metatable::<LuaString>(),
        _ => None,
    };
    let Some(metatable) = metatable else { return Ok(Value::Nil) };
    let shown: Value = metatable.raw_get("__metatable")?;
    Ok(if shown.is_nil() { Value::Table(metatable) } else { shown })
}

fn setmetatable(lua: &Lua, args: &Args<'_>, reals: &Table) -> mlua::Result<Table> {
    let table = table(args)?;
    let new = match args.get(2) {
        Some(Value::Nil) => None,
        Some(Value::Table(new)) => Some(new.clone()),
        _ => return Err(args.bad(2, "nil or table expected")),
    };
    if behind(&table, reals)?.is_some() {
        return Err(readonly());
    }
    let old = table.metatable().map(|old| old.raw_get::<Value>("__metatable")).transpose()?;
    if old.is_some_and(|shown| !shown.is_nil()) {
        return Err(failure(lua, "cannot change a protected metatable"));
    }
    table.set_metatable(new)?;
    Ok(table)
}
