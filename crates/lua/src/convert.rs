//! Replies of commands as Lua values, and Lua values as replies, in both protocols.

use mlua::{Lua, Table, Value};

use crate::args::{number_text, truncated};
use crate::limits::{BYTES_AT_ONCE_MAX, REPLY_DEPTH_MAX, out_of_memory};
use crate::raise::{error_table, with_code};
use crate::state;

/// The value of a reply, as `redis.call` returns it.
pub(crate) fn value_of(lua: &Lua, reply: &[u8]) -> mlua::Result<Value> {
    Reader { lua, rest: reply }.value()
}

struct Reader<'l> {
    lua: &'l Lua,
    rest: &'l [u8],
}

impl<'l> Reader<'l> {
    fn line(&mut self) -> &'l [u8] {
        let end = memchr::memchr(b'\r', self.rest).unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 2..).unwrap_or_default();
        line
    }

    fn body(&mut self, len: usize) -> &'l [u8] {
        let body = self.rest.get(..len).unwrap_or_default();
        self.rest = self.rest.get(len + 2..).unwrap_or_default();
        body
    }

    fn single(&self, name: &str, value: Value) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn string(&self, text: &[u8]) -> mlua::Result<Value> {
        Ok(Value::String(self.lua.create_string(text)?))
    }

    fn value(&mut self) -> mlua::Result<Value> {
        let line = self.line();
        let Some((&kind, text)) = line.split_first() else { return Ok(Value::Nil) };
        let number =
            || std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()).unwrap_or(-1);
        let len = || usize::try_from(number()).ok();
        match kind {
            b'+' => self.single("ok", self.string(text)?),
            b'-' => {
                let error = error_table(self.lua, &with_code(line))?;
                if let Value::Table(table) = &error {
                    table.raw_set("ignore_error_stats_update", true)?;
                }
                Ok(error)
            }
            b':' => Ok(Value::Number(number() as f64)),
            b'$' => match len() {
                Some(len) => {
                    let body = self.body(len);
                    self.string(body)
                }
                None => Ok(Value::Boolean(false)),
            },
            b'*' => match len() {
                Some(len) => self.array(len).map(Value::Table),
                None => Ok(Value::Boolean(false)),
            },
            b'%' => {
                let map = self.map(len().unwrap_or_default())?;
                self.single("map", Value::Table(map))
            }
            b'~' => {
                let set = self.set(len().unwrap_or_default())?;
                self.single("set", Value::Table(set))
            }
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(text == b"t")),
            b',' => {
                let value = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
                self.single("double", Value::Number(value.unwrap_or(f64::NAN)))
            }
            b'(' => self.single("big_number", self.string(text)?),
            b'=' => {
                let body = self.body(len().unwrap_or_default());
                let table = self.lua.create_table()?;
                table.raw_set("format", self.string(body.get(..3).unwrap_or_default())?)?;
                table.raw_set("string", self.string(body.get(4..).unwrap_or_default())?)?;
                self.single("verbatim_string", Value::Table(table))
            }
            _ => Ok(Value::Nil),
        }
    }

    fn array(&mut self, len: usize) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(len.min(self.rest.len()), 0)?;
        for index in 1..=len {
            table.raw_set(index, self.value()?)?;
        }
        Ok(table)
    }

    fn map(&mut self, len: usize) -> mlua::Result<Table> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value()?;
            let value = self.value()?;
            if !matches!(key, Value::Nil) {
                table.raw_set(key, value)?;
            }
        }
        Ok(table)
    }

    fn set(&mut self, len: usize) -> mlua::Result<Table> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value()?;
            if !matches!(key, Value::Nil) {
                table.raw_set(key, true)?;
            }
        }
        Ok(table)
    }
}

/// The protocols of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocols {
    /// Whether the client has chosen RESP3.
    pub(crate) client_resp3: bool,
    /// Whether the script has, by `redis.setresp`.
    pub(crate) script_resp3: bool,
}

/// A value of a script on its way to a reply.
pub(crate) struct Writer<'l> {
    lua: &'l Lua,
    protocols: Protocols,
    values: u32,
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend(text.iter().map(|&byte| if b"\r\n".contains(&byte) { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

fn bulk(out: &mut Vec<u8>, text: &[u8]) {
    line(out, b'$', itoa::Buffer::new().format(text.len()).as_bytes());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn header(out: &mut Vec<u8>, kind: u8, len: usize) {
    line(out, kind, itoa::Buffer::new().format(len).as_bytes());
}

/// Appends an error. Line ends become blanks.
pub(crate) fn write_error(out: &mut Vec<u8>, text: &[u8]) {
    let until_nul = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let end = until_nul.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |at| at + 1);
    line(out, b'-', &until_nul[..end]);
}

fn write_verbatim(out: &mut Vec<u8>, format: &[u8], text: &[u8], protocols: Protocols) {
    if !protocols.client_resp3 {
        return bulk(out, text);
    }
    // Three characters, as in Redis.
    let mut body = format.to_vec();
    body.resize(3, b' ');
    body.push(b':');
    body.extend_from_slice(text);
    header(out, b'=', body.len());
    out.extend_from_slice(&body);
    out.extend_from_slice(b"\r\n");
}

impl<'l> Writer<'l> {
    pub(crate) fn new(lua: &'l Lua, protocols: Protocols) -> Writer<'l> {
        Writer { lua, protocols, values: 0 }
    }

    /// Appends a value as a reply.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, value: &Value, depth: usize) -> mlua::Result<()> {
        if out.len() > BYTES_AT_ONCE_MAX {
            return Err(out_of_memory());
        }
        if depth > REPLY_DEPTH_MAX {
            out.extend_from_slice(b"-ERR reached lua stack limit\r\n");
            return Ok(());
        }
        state::count(self.lua, &mut self.values)?;
        let Protocols { client_resp3, script_resp3 } = self.protocols;
        match value {
            Value::String(text) => bulk(out, &text.as_bytes()),
            Value::Boolean(flag) if script_resp3 => match (client_resp3, flag) {
                (true, flag) => out.extend_from_slice(if *flag { b"#t\r\n" } else { b"#f\r\n" }),
                (false, flag) => out.extend_from_slice(if *flag { b":1\r\n" } else { b":0\r\n" }),
            },
            Value::Boolean(true) => out.extend_from_slice(b":1\r\n"),
            Value::Integer(number) => line(out, b':', itoa::Buffer::new().format(*number).as_bytes()),
            Value::Number(number) => {
                line(out, b':', itoa::Buffer::new().format(truncated(*number)).as_bytes())
            }
            Value::Table(table) => self.write_table(out, table, depth)?,
            _ => out.extend_from_slice(if client_resp3 { b"_\r\n" } else { b"$-1\r\n" }),
        }
        Ok(())
    }

    fn write_table(&mut self, out: &mut Vec<u8>, table: &Table, depth: usize) -> mlua::Result<()> {
        if let Value::String(text) = table.raw_get("err")? {
            write_error(out, &text.as_bytes());
            return Ok(());
        }
        if let Value::String(text) = table.raw_get("ok")? {
            let text = text.as_bytes();
            line(out, b'+', text.split(|&byte| byte == 0).next().unwrap_or_default());
            return Ok(());
        }
        let double = match table.raw_get("double")? {
            Value::Integer(number) => Some(number as f64),
            Value::Number(number) => Some(number),
            _ => None,
        };
        if let Some(double) = double {
            let text = number_text(double, 17);
            match self.protocols.client_resp3 {
                true => line(out, b',', &text),
                false => bulk(out, &text),
            }
            return Ok(());
        }
        if let Value::String(text) = table.raw_get("big_number")? {
            let text: Vec<u8> = text
                .as_bytes()
                .iter()
                .map(|&byte| if b"\r\n".contains(&byte) { b' ' } else { byte })
                .collect();
            match self.protocols.client_resp3 {
                true => line(out, b'(', &text),
                false => bulk(out, &text),
            }
            return Ok(());
        }
        if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
            && let (Value::String(format), Value::String(text)) =
                (verbatim.raw_get("format")?, verbatim.raw_get("string")?)
        {
            write_verbatim(out, &format.as_bytes(), &text.as_bytes(), self.protocols);
            return Ok(());
        }
        if let Value::Table(map) = table.raw_get("map")? {
            return self.write_map(out, &map, depth);
        }
        if let Value::Table(set) = table.raw_get("set")? {
            return self.write_set(out, &set, depth);
        }
        self.write_array(out, table, depth)
    }

    fn write_map(&mut self, out: &mut Vec<u8>, map: &Table, depth: usize) -> mlua::Result<()> {
        let (mut body, mut len) = (Vec::new(), 0);
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.write(&mut body, &key, depth + 1)?;
            self.write(&mut body, &value, depth + 1)?;
            len += 1;
            if out.len() + body.len() > BYTES_AT_ONCE_MAX {
                return Err(out_of_memory());
            }
        }
        match self.protocols.client_resp3 {
            true => header(out, b'%', len),
            false => header(out, b'*', len * 2),
        }
        out.extend_from_slice(&body);
        Ok(())
    }

    fn write_set(&mut self, out: &mut Vec<u8>, set: &Table, depth: usize) -> mlua::Result<()> {
        let (mut body, mut len) = (Vec::new(), 0);
        for pair in set.pairs::<Value, Value>() {
            self.write(&mut body, &pair?.0, depth + 1)?;
            len += 1;
        }
        header(out, if self.protocols.client_resp3 { b'~' } else { b'*' }, len);
        out.extend_from_slice(&body);
        Ok(())
    }

    fn write_array(&mut self, out: &mut Vec<u8>, table: &Table, depth: usize) -> mlua::Result<()> {
        let (mut body, mut len) = (Vec::new(), 0);
        loop {
            let item: Value = table.raw_get(len + 1)?;
            if matches!(item, Value::Nil) {
                break;
            }
            self.write(&mut body, &item, depth + 1)?;
            len += 1;
            if out.len() + body.len() > BYTES_AT_ONCE_MAX {
                return Err(out_of_memory());
            }
        }
        header(out, b'*', len);
        out.extend_from_slice(&body);
        Ok(())
    }
}
