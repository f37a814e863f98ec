//! The library `cmsgpack`: MessagePack as lua-cmsgpack 0.4.0 writes and reads it.

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use crate::args::{Args, TableKeys};
use crate::limits::{BYTES_AT_ONCE_MAX, VALUES_AT_ONCE_MAX, out_of_memory};
use crate::raise::failure;
use crate::state;

/// Adds all functions to `table`.
pub(crate) fn install(lua: &Lua, table: &Table) -> mlua::Result<()> {
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        table.raw_set(name, text)?;
    }
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set("unpack", lua.create_function(|lua, args| unpack(lua, args, Form::All))?)?;
    table.raw_set("unpack_one", lua.create_function(|lua, args| unpack(lua, args, Form::One))?)?;
    table.raw_set("unpack_limit", lua.create_function(|lua, args| unpack(lua, args, Form::Limit))?)
}

/// Tables below this depth become nil, so that tables that contain themselves have an end.
const DEPTH_MAX: usize = 16;

fn pack(lua: &Lua, args: MultiValue) -> mlua::Result<LuaString> {
    if args.is_empty() {
        return Err(Args::new(lua, args).bad(0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    let mut values = 0;
    let mut look = || state::count(lua, &mut values);
    for value in &args {
        encode(&mut out, value, 0, &mut look)?;
    }
    lua.create_string(&out)
}

/// Ends the script when its time is over.
type Look<'a> = &'a mut dyn FnMut() -> mlua::Result<()>;

fn encode(out: &mut Vec<u8>, value: &Value, depth: usize, look: Look<'_>) -> mlua::Result<()> {
    look()?;
    if out.len() > BYTES_AT_ONCE_MAX {
        return Err(out_of_memory());
    }
    match value {
        Value::String(text) => encode_string(out, &text.as_bytes()),
        Value::Boolean(flag) => out.push(if *flag { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => encode_integer(out, *number),
        Value::Number(number) => encode_number(out, *number),
        Value::Table(table) if depth < DEPTH_MAX => encode_table(out, table, depth, look)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn encode_string(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        len @ 0..=31 => out.push(0xa0 | len as u8),
        len @ 32..=0xff => out.extend_from_slice(&[0xd9, len as u8]),
        len @ 0x100..=0xffff => header(out, 0xda, &(len as u16).to_be_bytes()),
        len => header(out, 0xdb, &(len as u32).to_be_bytes()),
    }
    out.extend_from_slice(text);
}

fn header(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(bytes);
}

fn encode_number(out: &mut Vec<u8>, number: f64) {
    let is_integer =
        number.is_finite() && number.floor() == number && number.abs() < 9_223_372_036_854_775_808.0;
    if is_integer {
        encode_integer(out, number as i64);
    } else if f64::from(number as f32) == number {
        header(out, 0xca, &(number as f32).to_be_bytes());
    } else {
        header(out, 0xcb, &number.to_be_bytes());
    }
}

fn encode_integer(out: &mut Vec<u8>, number: i64) {
    match number {
        -32..=127 => out.push(number as u8),
        128..=0xff => header(out, 0xcc, &[number as u8]),
        0x100..=0xffff => header(out, 0xcd, &(number as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => header(out, 0xce, &(number as u32).to_be_bytes()),
        0x1_0000_0000.. => header(out, 0xcf, &number.to_be_bytes()),
        -128..=-33 => header(out, 0xd0, &[number as u8]),
        -32_768..=-129 => header(out, 0xd1, &(number as i16).to_be_bytes()),
        -2_147_483_648..=-32_769 => header(out, 0xd2, &(number as i32).to_be_bytes()),
        _ => header(out, 0xd3, &number.to_be_bytes()),
    }
}

/// The headers of arrays and of maps: the short form, and the kinds of the longer ones.
fn encode_len(out: &mut Vec<u8>, len: usize, short: u8, kind: u8) {
    match len {
        0..=15 => out.push(short | len as u8),
        16..=0xffff => header(out, kind, &(len as u16).to_be_bytes()),
        _ => header(out, kind + 1, &(len as u32).to_be_bytes()),
    }
}

fn encode_table(out: &mut Vec<u8>, table: &Table, depth: usize, look: Look<'_>) -> mlua::Result<()> {
    let keys = TableKeys::of(table)?;
    let count = keys.count;
    if keys.are_indexes && keys.max == count as f64 {
        encode_len(out, count, 0x90, 0xdc);
        return (1..=count).try_for_each(|index| encode(out, &table.raw_get(index)?, depth + 1, look));
    }
    encode_len(out, count, 0x80, 0xde);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        encode(out, &key, depth + 1, look)?;
        encode(out, &value, depth + 1, look)?;
    }
    Ok(())
}

/// Number of values that a call reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    All,
    One,
    Limit,
}

fn unpack(lua: &Lua, args: MultiValue, form: Form) -> mlua::Result<MultiValue> {
    let args = Args::new(lua, args);
    let text = args.string(1)?;
    let bytes = text.as_bytes();
    let (limit, offset) = match form {
        Form::All => (0, 0),
        Form::One => (1, args.integer_or(2, 0)?),
        Form::Limit => (args.integer(2)?, args.integer_or(3, 0)?),
    };
    if limit < 0 || offset < 0 {
        return Err(failure(
            lua,
            format!(
                "Invalid request to unpack with offset of {} and limit of {}.",
                offset as i32,
                bytes.len()
            ),
        ));
    }
    let Some(rest) = usize::try_from(offset).ok().filter(|&at| at <= bytes.len()).map(|at| &bytes[at..])
    else {
        return Err(failure(
            lua,
            format!("Start offset {} greater than input length {}.", offset as i32, bytes.len()),
        ));
    };
    let decode_all = limit == 0 && offset == 0;
    let limit = if decode_all { i64::MAX } else { limit };
    let mut cursor = Cursor { lua, rest, depth: 0 };
    let mut values = MultiValue::new();
    while !cursor.rest.is_empty() && (values.len() as i64) < limit {
        if values.len() >= VALUES_AT_ONCE_MAX {
            return Err(failure(lua, "too many results to unpack"));
        }
        let value = cursor.value().map_err(|fault| match fault {
            Fault::Short => failure(lua, "Missing bytes in input."),
            Fault::Format => failure(lua, "Bad data format in input."),
            Fault::Lua(error) => error,
        })?;
        values.push_back(value);
    }
    if !decode_all {
        let at = if cursor.rest.is_empty() { -1 } else { (bytes.len() - cursor.rest.len()) as i64 };
        values.push_front(Value::Integer(at));
    }
    Ok(values)
}

enum Fault {
    Short,
    Format,
    Lua(mlua::Error),
}

impl From<mlua::Error> for Fault {
    fn from(error: mlua::Error) -> Fault {
        Fault::Lua(error)
    }
}

/// Nested tables in a packed text.
const DECODE_DEPTH_MAX: usize = 1_000;

struct Cursor<'l> {
    lua: &'l Lua,
    rest: &'l [u8],
    depth: usize,
}

impl<'l> Cursor<'l> {
    fn take(&mut self, len: usize) -> Result<&'l [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Fault::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn unsigned(&mut self, len: usize) -> Result<u64, Fault> {
        Ok(self.take(len)?.iter().fold(0, |so_far, &byte| (so_far << 8) | u64::from(byte)))
    }

    fn string(&mut self, len: usize) -> Result<Value, Fault> {
        let text = self.take(len)?;
        Ok(Value::String(self.lua.create_string(text)?))
    }

    fn value(&mut self) -> Result<Value, Fault> {
        let kind = self.take(1)?[0];
        let number = |value: f64| Ok(Value::Number(value));
        match kind {
            0x00..=0x7f => number(f64::from(kind)),
            0xe0..=0xff => number(f64::from(kind as i8)),
            0x80..=0x8f => self.map(usize::from(kind & 15)),
            0x90..=0x9f => self.array(usize::from(kind & 15)),
            0xa0..=0xbf => self.string(usize::from(kind & 31)),
            0xc0 => Ok(Value::Nil),
            0xc2 | 0xc3 => Ok(Value::Boolean(kind == 0xc3)),
            0xca => number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xcb => number(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xcf => number(self.unsigned(1 << (kind - 0xcc))? as f64),
            0xd0 => number(f64::from(self.unsigned(1)? as i8)),
            0xd1 => number(f64::from(self.unsigned(2)? as i16)),
            0xd2 => number(f64::from(self.unsigned(4)? as i32)),
            0xd3 => number(self.unsigned(8)? as i64 as f64),
            0xd9..=0xdb => {
                let len = self.unsigned(1 << (kind - 0xd9))? as usize;
                self.string(len)
            }
            0xdc | 0xdd => {
                let len = self.unsigned(2 << (kind - 0xdc))? as usize;
                self.array(len)
            }
            0xde | 0xdf => {
                let len = self.unsigned(2 << (kind - 0xde))? as usize;
                self.map(len)
            }
            _ => Err(Fault::Format),
        }
    }

    fn descend(&mut self) -> Result<Table, Fault> {
        self.depth += 1;
        if self.depth > DECODE_DEPTH_MAX {
            return Err(Fault::Lua(failure(self.lua, "Found too many nested data structures")));
        }
        Ok(self.lua.create_table()?)
    }

    fn array(&mut self, len: usize) -> Result<Value, Fault> {
        let table = self.descend()?;
        for index in 1..=len {
            table.raw_set(index, self.value()?)?;
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize) -> Result<Value, Fault> {
        let table = self.descend()?;
        for _ in 0..len {
            let key = self.value()?;
            let value = self.value()?;
            match &key {
                Value::Nil => return Err(Fault::Lua(failure(self.lua, "table index is nil"))),
                Value::Number(number) if number.is_nan() => {
                    return Err(Fault::Lua(failure(self.lua, "table index is NaN")));
                }
                _ => table.raw_set(key, value)?,
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}
