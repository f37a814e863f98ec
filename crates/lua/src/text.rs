//! Functions of the library `string` whose originals cannot be interrupted or bounded.

use std::cell::Cell;

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};

use crate::args::Args;
use crate::limits::{BYTES_AT_ONCE_MAX, TIME_OVER, VALUES_AT_ONCE_MAX, out_of_memory};
use crate::patterns::{Capture, Fault, Matcher};
use crate::raise::{Raised, failure};
use crate::state;

/// Adds the functions to the library `string`, and those for the prelude to `native`.
pub(crate) fn install(lua: &Lua, string: &Table, native: &Table) -> mlua::Result<()> {
    string.raw_set("rep", lua.create_function(rep)?)?;
    string.raw_set("find", lua.create_function(|lua, args| find(lua, args, true))?)?;
    string.raw_set("match", lua.create_function(|lua, args| find(lua, args, false))?)?;
    let gmatch = lua.create_function(gmatch)?;
    string.raw_set("gmatch", &gmatch)?;
    string.raw_set("gfind", gmatch)?;
    native.raw_set("gsub", lua.create_function(gsub)?)?;
    native.raw_set("step", lua.create_function(step)?)
}

fn rep(lua: &Lua, args: MultiValue) -> mlua::Result<LuaString> {
    let args = Args::new(lua, args);
    let (text, times) = (args.string(1)?, args.integer(2)?);
    // C's int.
    let times = usize::try_from(times.clamp(i64::from(i32::MIN), i64::from(i32::MAX))).unwrap_or_default();
    let text = text.as_bytes();
    match text.len().checked_mul(times) {
        Some(len) if len <= BYTES_AT_ONCE_MAX => lua.create_string(text.repeat(times)),
        _ => Err(out_of_memory()),
    }
}

fn fault(lua: &Lua, fault: Fault) -> mlua::Error {
    match fault {
        Fault::Malformed(text) => failure(lua, text),
        Fault::Time => Raised::End(TIME_OVER).error(),
    }
}

/// Capture `number` of a match from `start` to `end`; the whole match if there are no captures.
fn capture(
    lua: &Lua,
    matcher: &Matcher<'_>,
    text: &[u8],
    number: usize,
    whole: (usize, usize),
) -> mlua::Result<Value> {
    let found = match matcher.captures().get(number) {
        None if number == 0 => &text[whole.0..whole.1],
        None => return Err(failure(lua, "invalid capture index")),
        Some((start, Capture::Position)) => return Ok(Value::Integer(*start as i64 + 1)),
        Some((start, Capture::Closed(end))) => &text[*start..*end],
        Some((_, Capture::Open)) => return Err(failure(lua, "unfinished capture")),
    };
    Ok(Value::String(lua.create_string(found)?))
}

/// All captures; the whole match if there are none and it is wanted.
fn captures(
    lua: &Lua,
    matcher: &Matcher<'_>,
    text: &[u8],
    whole: Option<(usize, usize)>,
) -> mlua::Result<MultiValue> {
    let count = match matcher.captures().len() {
        0 => usize::from(whole.is_some()),
        count => count,
    };
    (0..count).map(|number| capture(lua, matcher, text, number, whole.unwrap_or_default())).collect()
}

fn find(lua: &Lua, args: MultiValue, is_find: bool) -> mlua::Result<MultiValue> {
    let args = Args::new(lua, args);
    let (text, pattern) = (args.string(1)?, args.string(2)?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let start = args.integer_or(3, 1)?;
    let len = text.len() as i64;
    let start = if start < 0 { start.saturating_add(len + 1) } else { start };
    let start = start.saturating_sub(1).clamp(0, len) as usize;
    let is_plain = !matches!(args.get(4), None | Some(Value::Nil | Value::Boolean(false)));
    let is_special = |byte: &u8| b"^$*+?.([%-".contains(byte);
    let nothing = || Ok(std::iter::once(Value::Nil).collect());
    if is_find && (is_plain || !until_nul(&pattern).iter().any(is_special)) {
        let Some(at) = state::find_plain(&text[start..], &pattern) else { return nothing() };
        let (from, to) = (start + at + 1, start + at + pattern.len());
        return Ok([from, to].into_iter().map(|place| Value::Integer(place as i64)).collect());
    }
    let (is_anchored, body) = anchored(&pattern);
    let go_on = || state::may_go_on(lua);
    let mut matcher = Matcher::new(&text, body, &go_on);
    let last = if is_anchored { start } else { text.len() };
    for at in start..=last {
        let Some(end) = matcher.match_at(at).map_err(|why| fault(lua, why))? else { continue };
        if !is_find {
            return captures(lua, &matcher, &text, Some((at, end)));
        }
        let mut values = captures(lua, &matcher, &text, None)?;
        values.push_front(Value::Integer(end as i64));
        values.push_front(Value::Integer(at as i64 + 1));
        return Ok(values);
    }
    nothing()
}

/// Whether a pattern matches only at the beginning, and the pattern without the sign for it.
fn anchored(pattern: &[u8]) -> (bool, &[u8]) {
    let pattern = until_nul(pattern);
    pattern.strip_prefix(b"^").map_or((false, pattern), |body| (true, body))
}

/// A pattern ends at its first NUL, as in C.
fn until_nul(pattern: &[u8]) -> &[u8] {
    pattern.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn gmatch(lua: &Lua, args: MultiValue) -> mlua::Result<Function> {
    let args = Args::new(lua, args);
    let (text, pattern) = (args.string(1)?, args.string(2)?);
    let next = Cell::new(0);
    lua.create_function(move |lua, _: MultiValue| {
        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
        let go_on = || state::may_go_on(lua);
        let mut matcher = Matcher::new(&text, until_nul(&pattern), &go_on);
        for at in next.get()..=text.len() {
            let Some(end) = matcher.match_at(at).map_err(|why| fault(lua, why))? else { continue };
            next.set(if end == at { end + 1 } else { end });
            return captures(lua, &matcher, &text, Some((at, end)));
        }
        Ok(MultiValue::new())
    })
}

/// `gsub` whose replacement is a text.
fn gsub(lua: &Lua, args: MultiValue) -> mlua::Result<(LuaString, i64)> {
    let args = Args::new(lua, args);
    let (text, pattern) = (args.string(1)?, args.string(2)?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    // C's int, which wraps.
    let most = i64::from(args.integer_or(4, text.len() as i64 + 1)? as i32);
    if !matches!(args.get(3), Some(Value::String(_) | Value::Integer(_) | Value::Number(_))) {
        return Err(args.bad(3, "string/function/table expected"));
    }
    let with = args.string(3)?;
    let with = with.as_bytes();
    let (is_anchored, body) = anchored(&pattern);
    let go_on = || state::may_go_on(lua);
    let mut matcher = Matcher::new(&text, body, &go_on);
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
    while count < most {
        let found = matcher.match_at(at).map_err(|why| fault(lua, why))?;
        if let Some(end) = found {
            count += 1;
            expand(lua, &matcher, &text, &with, (at, end), &mut out)?;
        }
        match found {
            Some(end) if end > at => at = end,
            _ if at < text.len() => {
                out.push(text[at]);
                at += 1;
            }
            _ => break,
        }
        if is_anchored {
            break;
        }
        if out.len() > BYTES_AT_ONCE_MAX {
            return Err(out_of_memory());
        }
    }
    out.extend_from_slice(&text[at..]);
    Ok((lua.create_string(&out)?, count))
}

/// Appends a replacement with its captures.
fn expand(
    lua: &Lua,
    matcher: &Matcher<'_>,
    text: &[u8],
    with: &[u8],
    whole: (usize, usize),
    out: &mut Vec<u8>,
) -> mlua::Result<()> {
    let mut bytes = with.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match bytes.next().copied().unwrap_or_default() {
            b'0' => out.extend_from_slice(&text[whole.0..whole.1]),
            digit @ b'1'..=b'9' => match capture(lua, matcher, text, usize::from(digit - b'1'), whole)? {
                Value::String(captured) => out.extend_from_slice(&captured.as_bytes()),
                Value::Integer(place) => out.extend_from_slice(itoa::Buffer::new().format(place).as_bytes()),
                _ => {}
            },
            other => out.push(other),
        }
    }
    Ok(())
}

/// The first match from `at` on, for replacements by functions: start, end, captures.
fn step(lua: &Lua, (text, pattern, at): (LuaString, LuaString, usize)) -> mlua::Result<MultiValue> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let (is_anchored, body) = anchored(&pattern);
    let go_on = || state::may_go_on(lua);
    let mut matcher = Matcher::new(&text, body, &go_on);
    let first = at.saturating_sub(1);
    let last = if is_anchored { first } else { text.len() };
    for at in first..=last {
        let Some(end) = matcher.match_at(at).map_err(|why| fault(lua, why))? else { continue };
        let mut values = captures(lua, &matcher, &text, Some((at, end)))?;
        debug_assert!(values.len() <= VALUES_AT_ONCE_MAX);
        values.push_front(Value::Integer(end as i64));
        values.push_front(Value::Integer(at as i64 + 1));
        return Ok(values);
    }
    Ok(MultiValue::new())
}
