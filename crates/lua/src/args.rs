//! Arguments of native functions, checked as Lua's own library checks them.

use mlua::{FromLua, Lua, LuaString, MultiValue, Table, Value};

use crate::raise::bad_argument;

/// The keys of a table that may be an array.
pub(crate) struct TableKeys {
    /// Whether all are positive integers.
    pub(crate) are_indexes: bool,
    pub(crate) max: f64,
    pub(crate) count: usize,
}

impl TableKeys {
    pub(crate) fn of(table: &Table) -> mlua::Result<TableKeys> {
        let mut keys = TableKeys { are_indexes: true, max: 0.0, count: 0 };
        table.for_each(|key: Value, _: Value| {
            let key = match key {
                Value::Integer(key) => key as f64,
                Value::Number(key) => key,
                _ => f64::NAN,
            };
            keys.are_indexes &= key >= 1.0 && key.floor() == key;
            keys.max = keys.max.max(key);
            keys.count += 1;
            Ok(())
        })?;
        Ok(keys)
    }
}

/// Arguments of one call.
pub(crate) struct Args<'l> {
    lua: &'l Lua,
    values: MultiValue,
}

impl<'l> Args<'l> {
    pub(crate) fn new(lua: &'l Lua, values: MultiValue) -> Args<'l> {
        Args { lua, values }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Argument `number`, from 1.
    pub(crate) fn get(&self, number: usize) -> Option<&Value> {
        self.values.get(number - 1)
    }

    pub(crate) fn is_absent(&self, number: usize) -> bool {
        matches!(self.get(number), None | Some(Value::Nil))
    }

    /// An error about argument `number`.
    pub(crate) fn bad(&self, number: usize, text: impl AsRef<[u8]>) -> mlua::Error {
        bad_argument(self.lua, number, text.as_ref())
    }

    fn expected(&self, number: usize, what: &str) -> mlua::Error {
        let got = self.get(number).map_or("no value", type_name);
        self.bad(number, format!("{what} expected, got {got}"))
    }

    pub(crate) fn string(&self, number: usize) -> mlua::Result<LuaString> {
        let value = self.get(number).filter(|value| is_textual(value)).cloned();
        let text = value.map(|value| self.lua.coerce_string(value)).transpose()?.flatten();
        text.ok_or_else(|| self.expected(number, "string"))
    }

    pub(crate) fn number(&self, number: usize) -> mlua::Result<f64> {
        let value = self.get(number).cloned();
        let found = value.and_then(|value| number_of(self.lua, &value));
        found.ok_or_else(|| self.expected(number, "number"))
    }

    /// A number as C's cast to an integer gives it.
    pub(crate) fn integer(&self, number: usize) -> mlua::Result<i64> {
        self.number(number).map(truncated)
    }

    pub(crate) fn integer_or(&self, number: usize, default: i64) -> mlua::Result<i64> {
        if self.is_absent(number) { Ok(default) } else { self.integer(number) }
    }
}

/// The cast of C on the machines that Redis runs on: what does not fit is the least integer.
pub(crate) fn truncated(value: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
    if fits { value as i64 } else { i64::MIN }
}

pub(crate) fn number_of(lua: &Lua, value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(_) => lua.coerce_number(value.clone()).ok().flatten(),
        _ => None,
    }
}

fn is_textual(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Integer(_) | Value::Number(_))
}

/// Lua's name of the type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// An argument of a command, copied at once: references to thousands of values would exhaust the interpreter.
pub(crate) struct Word(pub(crate) Option<Vec<u8>>);

impl FromLua for Word {
    fn from_lua(value: Value, _: &Lua) -> mlua::Result<Word> {
        Ok(Word(match value {
            Value::String(text) => Some(text.as_bytes().to_vec()),
            Value::Integer(number) => Some(number_text(number as f64, 17)),
            Value::Number(number) => Some(number_text(number, 17)),
            _ => None,
        }))
    }
}

/// `%.{digits}g` of C.
pub(crate) fn number_text(value: f64, digits: usize) -> Vec<u8> {
    if value.is_nan() {
        return if value.is_sign_negative() { b"-nan".to_vec() } else { b"nan".to_vec() };
    }
    if value.is_infinite() {
        return if value < 0.0 { b"-inf".to_vec() } else { b"inf".to_vec() };
    }
    if value == 0.0 {
        return if value.is_sign_negative() { b"-0".to_vec() } else { b"0".to_vec() };
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs()).into_bytes();
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or_default();
    trimmed(&format!("{value:.decimals$}")).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_of_printf() {
        for (value, digits, text) in [
            (1e20, 17, "1e+20"),
            (0.1, 17, "0.10000000000000001"),
            (3.0, 17, "3"),
            (-1234567.5, 14, "-1234567.5"),
            (1e15, 14, "1e+15"),
            (1e-5, 14, "1e-05"),
            (123456789012345680.0, 17, "1.2345678901234568e+17"),
            (0.0001, 14, "0.0001"),
            (f64::INFINITY, 14, "inf"),
        ] {
            assert_eq!(String::from_utf8_lossy(&number_text(value, digits)), text);
        }
        assert_eq!((truncated(1e300), truncated(-2.9), truncated(f64::NAN)), (i64::MIN, -2, i64::MIN));
    }
}
