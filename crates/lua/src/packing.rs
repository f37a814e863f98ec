//! The library `struct`: binary structures.

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use crate::args::{Args, number_of, truncated};
use crate::limits::{BYTES_AT_ONCE_MAX, VALUES_AT_ONCE_MAX, out_of_memory};
use crate::raise::failure;

/// Adds all functions to `table`.
pub(crate) fn install(lua: &Lua, table: &Table) -> mlua::Result<()> {
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    table.raw_set("size", lua.create_function(size)?)
}

/// Bytes of the longest integer.
const INTEGER_BYTES_MAX: u64 = 32;
const ALIGN_DEFAULT: u64 = 8;

/// A format while it is read.
struct Format<'a> {
    args: &'a Args<'a>,
    lua: &'a Lua,
    text: &'a [u8],
    is_big: bool,
    align: usize,
    is_lenient: bool,
}

/// An option, its size, and the padding before it.
struct Item {
    option: u8,
    size: usize,
    padding: usize,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, args: &'a Args<'a>, text: &'a [u8]) -> Format<'a> {
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        Format { args, lua, text, is_big: false, align: 1, is_lenient: false }
    }

    /// A decimal number, if there is one.
    fn digits(&mut self, default: u64) -> mlua::Result<u64> {
        let len = self.text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if len == 0 {
            return Ok(default);
        }
        let (digits, rest) = self.text.split_at(len);
        self.text = rest;
        let value = digits.iter().try_fold(0_u64, |so_far, &digit| {
            so_far
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))
                .filter(|&value| value <= i32::MAX as u64)
        });
        value.ok_or_else(|| failure(self.lua, "integral size overflow"))
    }

    /// The next option behind `total` bytes.
    fn next(&mut self, total: usize) -> mlua::Result<Option<Item>> {
        let Some((&option, rest)) = self.text.split_first() else { return Ok(None) };
        self.text = rest;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.digits(1)?,
            b's' | b' ' | b'<' | b'>' | b'!' => 0,
            b'i' | b'I' => {
                let size = self.digits(4)?;
                if size > INTEGER_BYTES_MAX {
                    let text = format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(failure(self.lua, text));
                }
                size
            }
            other => {
                // `struct.size` takes letters and digits that mean nothing as empty.
                if !(self.is_lenient && other.is_ascii_alphanumeric()) {
                    return Err(self.args.bad(1, [b"invalid format option '", &[other][..], b"'"].concat()));
                }
                0
            }
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let padding = self.padding(total, option, size)?;
        Ok(Some(Item { option, size, padding }))
    }

    fn padding(&self, total: usize, option: u8, size: usize) -> mlua::Result<usize> {
        if size == 0 || option == b'c' {
            return Ok(0);
        }
        let size = size.min(self.align);
        if size > 1 && !size.is_power_of_two() {
            return Ok((size.wrapping_sub(total & (size - 1))) & (size - 1));
        }
        Ok((size - (total & (size - 1))) & (size - 1))
    }

    /// Options that have no value.
    fn control(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let align = self.digits(ALIGN_DEFAULT)?;
                if !align.is_power_of_two() {
                    return Err(failure(self.lua, format!("alignment {align} is not a power of 2")));
                }
                self.align = align as usize;
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&self, out: &mut Vec<u8>, little: &[u8]) {
        match self.is_big {
            true => out.extend(little.iter().rev()),
            false => out.extend_from_slice(little),
        }
    }
}

fn pack(lua: &Lua, mut args: MultiValue) -> mlua::Result<LuaString> {
    // The original has a nil behind its arguments, which errors show.
    if !args.is_empty() {
        args.push_back(Value::Nil);
    }
    let args = Args::new(lua, args);
    let text = args.string(1)?;
    let text = text.as_bytes();
    let mut format = Format::new(lua, &args, &text);
    let (mut out, mut number) = (Vec::new(), 2);
    while let Some(Item { option, size, padding }) = format.next(out.len())? {
        if out.len() > BYTES_AT_ONCE_MAX {
            return Err(out_of_memory());
        }
        out.resize(out.len() + padding, 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = args.number(number)?;
                let value =
                    if value < 9_223_372_036_854_775_807.0 { truncated(value) } else { value as u64 as i64 };
                let mut little = value.to_le_bytes().to_vec();
                little.resize(size.max(8), 0);
                format.put(&mut out, &little[..size]);
                number += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                format.put(&mut out, &(args.number(number)? as f32).to_le_bytes());
                number += 1;
            }
            b'd' => {
                format.put(&mut out, &args.number(number)?.to_le_bytes());
                number += 1;
            }
            b'c' | b's' => {
                let text = args.string(number)?;
                number += 1;
                let text = text.as_bytes();
                let size = if size == 0 { text.len() } else { size };
                if text.len() < size {
                    return Err(args.bad(number, "string too short"));
                }
                out.extend_from_slice(&text[..size]);
                if option == b's' {
                    out.push(0);
                }
            }
            other => format.control(other)?,
        }
    }
    lua.create_string(&out)
}

fn integer(bytes: &[u8], is_big: bool, is_signed: bool) -> f64 {
    let size = bytes.len();
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate() {
        let shift = 8 * if is_big { size - 1 - at } else { at };
        value |= u64::from(*byte).wrapping_shl(shift as u32);
    }
    if !is_signed {
        return value as f64;
    }
    let mask = u64::MAX.wrapping_shl((size as u32).wrapping_mul(8).wrapping_sub(1));
    if value & mask != 0 { (value | mask) as i64 as f64 } else { value as i64 as f64 }
}

fn unpack(lua: &Lua, args: MultiValue) -> mlua::Result<MultiValue> {
    let args = Args::new(lua, args);
    let (text, data) = (args.string(1)?, args.string(2)?);
    let (text, data) = (text.as_bytes(), data.as_bytes());
    let start = args.integer_or(3, 1)?;
    if start == 0 {
        return Err(args.bad(3, "offset must be 1 or greater"));
    }
    let mut at = usize::try_from(start).map_or(usize::MAX, |at| at - 1);
    let mut format = Format::new(lua, &args, &text);
    let mut values = MultiValue::new();
    let too_short = |args: &Args<'_>| args.bad(2, "data string too short");
    while let Some(Item { option, size, padding }) = format.next(at)? {
        if values.len() >= VALUES_AT_ONCE_MAX {
            return Err(failure(lua, "too many results"));
        }
        at = at.saturating_add(padding);
        let mut size = size;
        let bytes = at.checked_add(size).and_then(|end| data.get(at..end)).ok_or_else(|| too_short(&args))?;
        let value = match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                Value::Number(integer(bytes, format.is_big, option.is_ascii_lowercase()))
            }
            b'f' | b'd' => {
                let mut bytes = bytes.to_vec();
                if format.is_big {
                    bytes.reverse();
                }
                let wide = bytes.iter().rev().fold(0_u64, |so_far, &byte| (so_far << 8) | u64::from(byte));
                Value::Number(match option {
                    b'f' => f64::from(f32::from_bits(wide as u32)),
                    _ => f64::from_bits(wide),
                })
            }
            b'c' if size > 0 => Value::String(lua.create_string(bytes)?),
            b'c' => {
                let previous = values.pop_back().and_then(|value| number_of(lua, &value));
                let previous = previous.ok_or_else(|| failure(lua, "format 'c0' needs a previous size"))?;
                size = usize::try_from(truncated(previous)).unwrap_or(usize::MAX);
                let end =
                    at.checked_add(size).filter(|&end| end <= data.len()).ok_or_else(|| too_short(&args))?;
                Value::String(lua.create_string(&data[at..end])?)
            }
            b's' => {
                let rest = data.get(at..).unwrap_or_default();
                let len = rest.iter().position(|&byte| byte == 0);
                let len = len.ok_or_else(|| failure(lua, "unfinished string in data"))?;
                size = len + 1;
                Value::String(lua.create_string(&rest[..len])?)
            }
            b'x' => {
                at += size;
                continue;
            }
            other => {
                format.control(other)?;
                continue;
            }
        };
        values.push_back(value);
        at += size;
    }
    values.push_back(Value::Integer(at as i64 + 1));
    Ok(values)
}

fn size(lua: &Lua, args: MultiValue) -> mlua::Result<i64> {
    let args = Args::new(lua, args);
    let text = args.string(1)?;
    let text = text.as_bytes();
    let mut format = Format { is_lenient: true, ..Format::new(lua, &args, &text) };
    let mut total = 0_usize;
    while let Some(Item { option, size, padding }) = format.next(total)? {
        match option {
            b's' => return Err(args.bad(1, "option 's' has no fixed size")),
            b'c' if size == 0 => return Err(args.bad(1, "option 'c0' has no fixed size")),
            _ => {}
        }
        format.control(option)?;
        total = total.saturating_add(padding).saturating_add(size);
    }
    Ok(i64::try_from(total).unwrap_or(i64::MAX))
}
