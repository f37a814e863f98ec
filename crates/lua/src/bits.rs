//! The library `bit`: operations on 32 bits.

use mlua::{Lua, MultiValue, Table};

use crate::args::Args;

/// The bits of a number, as the library BitOp takes them: modulo 2^32, rounded to the nearest integer.
fn bits(args: &Args<'_>, number: usize) -> mlua::Result<i32> {
    // The sum has the integer in its lower bits.
    let value = args.number(number)? + 6_755_399_441_055_744.0;
    Ok(value.to_bits() as u32 as i32)
}

fn result(value: i32) -> f64 {
    f64::from(value)
}

type One = fn(i32) -> i32;
type Many = fn(i32, i32) -> i32;
type Shift = fn(i32, u32) -> i32;

/// Adds all functions to `table`.
pub(crate) fn install(lua: &Lua, table: &Table) -> mlua::Result<()> {
    let ones: [(&str, One); 3] = [("tobit", |a| a), ("bnot", |a| !a), ("bswap", i32::swap_bytes)];
    for (name, act) in ones {
        let run = move |lua: &Lua, args: MultiValue| Ok(result(act(bits(&Args::new(lua, args), 1)?)));
        table.raw_set(name, lua.create_function(run)?)?;
    }
    let many: [(&str, Many); 3] = [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];
    for (name, act) in many {
        let run = move |lua: &Lua, args: MultiValue| {
            let args = Args::new(lua, args);
            let first = bits(&args, 1)?;
            (2..=args.len())
                .try_fold(first, |so_far, number| Ok(act(so_far, bits(&args, number)?)))
                .map(result)
        };
        table.raw_set(name, lua.create_function(run)?)?;
    }
    let shifts: [(&str, Shift); 5] = [
        ("lshift", |a, n| a.wrapping_shl(n)),
        ("rshift", |a, n| (a as u32).wrapping_shr(n) as i32),
        ("arshift", |a, n| a.wrapping_shr(n)),
        ("rol", |a, n| a.rotate_left(n)),
        ("ror", |a, n| a.rotate_right(n)),
    ];
    for (name, act) in shifts {
        let run = move |lua: &Lua, args: MultiValue| {
            let args = Args::new(lua, args);
            let value = bits(&args, 1)?;
            Ok(result(act(value, bits(&args, 2)? as u32 & 31)))
        };
        table.raw_set(name, lua.create_function(run)?)?;
    }
    table.raw_set("tohex", lua.create_function(tohex)?)
}

fn tohex(lua: &Lua, args: MultiValue) -> mlua::Result<String> {
    let args = Args::new(lua, args);
    let value = bits(&args, 1)? as u32;
    let digits = if args.get(2).is_none() { 8 } else { bits(&args, 2)? };
    let len = (digits.unsigned_abs() as usize).min(8);
    let text = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    Ok(text[8 - len..].to_owned())
}
