//! `cjson.encode`.

use mlua::{Lua, LuaString, Table, Value};

use super::{DEPTH_MAX, Settings};
use crate::args::{Args, TableKeys, number_text, type_name};
use crate::limits::{BYTES_AT_ONCE_MAX, out_of_memory};
use crate::raise::failure;
use crate::state;

pub(crate) fn run(lua: &Lua, args: &Args<'_>, settings: &Settings) -> mlua::Result<LuaString> {
    let Some(value) = args.get(1).filter(|_| args.len() == 1) else {
        return Err(args.bad(1, "expected 1 argument"));
    };
    let mut encoder = Encoder { lua, settings, out: Vec::new(), depth: 0, values: 0 };
    encoder.value(value)?;
    lua.create_string(&encoder.out)
}

struct Encoder<'l> {
    lua: &'l Lua,
    settings: &'l Settings,
    out: Vec<u8>,
    depth: i64,
    values: u32,
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value) -> mlua::Result<()> {
        // Tables that occur in each other twice would grow without end.
        if self.out.len() > BYTES_AT_ONCE_MAX {
            return Err(out_of_memory());
        }
        state::count(self.lua, &mut self.values)?;
        match value {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Integer(number) => self.number(*number as f64, value)?,
            Value::Number(number) => self.number(*number, value)?,
            Value::Boolean(flag) => self.out.extend_from_slice(if *flag { b"true" } else { b"false" }),
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Table(table) => match self.array_len(table)? {
                Some(len) if len > 0 => self.array(table, len)?,
                _ => self.object(table)?,
            },
            other => return Err(self.refused(other, "type not supported")),
        }
        Ok(())
    }

    fn refused(&self, value: &Value, why: &str) -> mlua::Error {
        failure(self.lua, format!("Cannot serialise {}: {why}", type_name(value)))
    }

    /// The greatest index, if all keys are positive integers and there are few gaps.
    fn array_len(&self, table: &Table) -> mlua::Result<Option<i64>> {
        let keys = TableKeys::of(table)?;
        let (max, items) = (keys.max, keys.count as i64);
        if !keys.are_indexes {
            return Ok(None);
        }
        let (ratio, safe) = (self.settings.sparse_ratio, self.settings.sparse_safe);
        if ratio > 0 && max > items.saturating_mul(ratio) as f64 && max > safe as f64 {
            if !self.settings.sparse_convert {
                return Err(failure(self.lua, "Cannot serialise table: excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(Some(max as i64))
    }

    fn descend(&mut self) -> mlua::Result<()> {
        self.depth += 1;
        if self.depth > self.settings.encode_depth_max.min(DEPTH_MAX) {
            let text = format!("Cannot serialise, excessive nesting ({})", self.depth);
            return Err(failure(self.lua, text));
        }
        Ok(())
    }

    fn array(&mut self, table: &Table, len: i64) -> mlua::Result<()> {
        self.descend()?;
        self.out.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.out.push(b',');
            }
            self.value(&table.raw_get(index)?)?;
        }
        self.out.push(b']');
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self, table: &Table) -> mlua::Result<()> {
        self.descend()?;
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match &key {
                Value::Integer(number) => self.number_key(*number as f64, &key)?,
                Value::Number(number) => self.number_key(*number, &key)?,
                Value::String(text) => self.string(&text.as_bytes()),
                other => return Err(self.refused(other, "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(&value)?;
        }
        self.out.push(b'}');
        self.depth -= 1;
        Ok(())
    }

    fn number_key(&mut self, number: f64, value: &Value) -> mlua::Result<()> {
        self.out.push(b'"');
        self.number(number, value)?;
        self.out.push(b'"');
        Ok(())
    }

    fn number(&mut self, number: f64, value: &Value) -> mlua::Result<()> {
        if !number.is_finite() && !self.settings.encode_bad_numbers {
            return Err(self.refused(value, "must not be NaN or Inf"));
        }
        self.out.extend_from_slice(&number_text(number, self.settings.precision));
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &byte in text {
            let escaped = match byte {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'/' => b"\\/",
                8 => b"\\b",
                9 => b"\\t",
                10 => b"\\n",
                12 => b"\\f",
                13 => b"\\r",
                0..=31 | 127 => {
                    self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                    continue;
                }
                _ => {
                    self.out.push(byte);
                    continue;
                }
            };
            self.out.extend_from_slice(escaped);
        }
        self.out.push(b'"');
    }
}
