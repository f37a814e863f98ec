//! `cjson.decode`.

use mlua::{Lua, Table, Value};

use super::{DEPTH_MAX, Settings};
use crate::args::Args;
use crate::raise::failure;

pub(crate) fn run(lua: &Lua, args: &Args<'_>, settings: &Settings) -> mlua::Result<Value> {
    if args.len() != 1 {
        return Err(args.bad(1, "expected 1 argument"));
    }
    let text = args.string(1)?;
    let text = text.as_bytes();
    // UTF-16 and UTF-32 have zeros in their first two characters.
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(failure(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder { lua, settings, text: &text, at: 0, depth: 0 };
    let token = decoder.token();
    let value = decoder.value(token)?;
    let token = decoder.token();
    match token.kind {
        Kind::End => Ok(value),
        _ => Err(decoder.expected("the end", &token)),
    }
}

struct Decoder<'l> {
    lua: &'l Lua,
    settings: &'l Settings,
    text: &'l [u8],
    at: usize,
    depth: i64,
}

/// One lexical element, and its place.
struct Token {
    kind: Kind,
    at: usize,
}

enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Invalid(&'static str),
}

impl Kind {
    /// The name in errors.
    fn name(&self) -> &'static str {
        match self {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::String(_) => "T_STRING",
            Kind::Number(_) => "T_NUMBER",
            Kind::Boolean(_) => "T_BOOLEAN",
            Kind::Null => "T_NULL",
            Kind::Colon => "T_COLON",
            Kind::Comma => "T_COMMA",
            Kind::End => "T_END",
            Kind::Invalid(why) => why,
        }
    }
}

impl Decoder<'_> {
    fn expected(&self, what: &str, token: &Token) -> mlua::Error {
        let text = format!("Expected {what} but found {} at character {}", token.kind.name(), token.at + 1);
        failure(self.lua, text)
    }

    fn value(&mut self, token: Token) -> mlua::Result<Value> {
        match token.kind {
            Kind::String(text) => Ok(Value::String(self.lua.create_string(text)?)),
            Kind::Number(number) => Ok(Value::Number(number)),
            Kind::Boolean(flag) => Ok(Value::Boolean(flag)),
            Kind::Null => Ok(Value::NULL),
            Kind::ObjectBegin => self.object().map(Value::Table),
            Kind::ArrayBegin => self.array().map(Value::Table),
            _ => Err(self.expected("value", &token)),
        }
    }

    fn descend(&mut self) -> mlua::Result<()> {
        self.depth += 1;
        if self.depth > self.settings.decode_depth_max.min(DEPTH_MAX) {
            let (depth, at) = (self.depth, self.at);
            return Err(failure(
                self.lua,
                format!("Found too many nested data structures ({depth}) at character {at}"),
            ));
        }
        Ok(())
    }

    fn object(&mut self) -> mlua::Result<Table> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.token();
        if matches!(token.kind, Kind::ObjectEnd) {
            self.depth -= 1;
            return Ok(table);
        }
        loop {
            let Kind::String(key) = token.kind else {
                return Err(self.expected("object key string", &token));
            };
            let colon = self.token();
            if !matches!(colon.kind, Kind::Colon) {
                return Err(self.expected("colon", &colon));
            }
            token = self.token();
            let value = self.value(token)?;
            table.raw_set(self.lua.create_string(key)?, value)?;
            token = self.token();
            match token.kind {
                Kind::ObjectEnd => break,
                Kind::Comma => token = self.token(),
                _ => return Err(self.expected("comma or object end", &token)),
            }
        }
        self.depth -= 1;
        Ok(table)
    }

    fn array(&mut self) -> mlua::Result<Table> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.token();
        if matches!(token.kind, Kind::ArrayEnd) {
            self.depth -= 1;
            return Ok(table);
        }
        for index in 1.. {
            let value = self.value(token)?;
            table.raw_set(index, value)?;
            token = self.token();
            match token.kind {
                Kind::ArrayEnd => break,
                Kind::Comma => token = self.token(),
                _ => return Err(self.expected("comma or array end", &token)),
            }
        }
        self.depth -= 1;
        Ok(table)
    }

    /// The byte at `at`; a NUL behind the end, as in C.
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or_default()
    }

    fn token(&mut self) -> Token {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let at = self.at;
        let single = |kind| (kind, 1);
        let (kind, len) = match self.byte(at) {
            b'{' => single(Kind::ObjectBegin),
            b'}' => single(Kind::ObjectEnd),
            b'[' => single(Kind::ArrayBegin),
            b']' => single(Kind::ArrayEnd),
            b',' => single(Kind::Comma),
            b':' => single(Kind::Colon),
            0 => (Kind::End, 0),
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' | b'+' | b'i' | b'I' | b'N' | b'n' | b't' | b'f' => self.word(),
            _ => (Kind::Invalid("invalid token"), 0),
        };
        self.at += len;
        Token { kind, at }
    }

    /// A literal or a number.
    fn word(&self) -> (Kind, usize) {
        let rest = &self.text[self.at..];
        let is_number =
            matches!(rest[0], b'-' | b'0'..=b'9') || (self.settings.decode_bad_numbers && rest[0] != b't');
        if rest.starts_with(b"true") {
            return (Kind::Boolean(true), 4);
        }
        if rest.starts_with(b"false") {
            return (Kind::Boolean(false), 5);
        }
        if rest.starts_with(b"null") {
            return (Kind::Null, 4);
        }
        if !is_number {
            return (Kind::Invalid("invalid token"), 0);
        }
        if !self.settings.decode_bad_numbers && is_strange(rest) {
            return (Kind::Invalid("invalid number"), 0);
        }
        match number(rest) {
            Some((value, len)) => (Kind::Number(value), len),
            None if matches!(rest[0], b'-' | b'0'..=b'9') => (Kind::Invalid("invalid number"), 0),
            None => (Kind::Invalid("invalid token"), 0),
        }
    }

    fn string(&mut self) -> Token {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.byte(self.at) {
                b'"' => {
                    self.at += 1;
                    // As lua-cjson, which keeps the place of the opening quote only for errors that follow.
                    return Token { kind: Kind::String(text), at: self.at - 1 };
                }
                0 => return self.invalid("unexpected end of string"),
                b'\\' => {
                    let escaped = match self.byte(self.at + 1) {
                        byte @ (b'"' | b'\\' | b'/') => byte,
                        b'b' => 8,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 12,
                        b'r' => b'\r',
                        b'u' => match self.unicode(&mut text) {
                            Some(len) => {
                                self.at += len;
                                continue;
                            }
                            None => return self.invalid("invalid unicode escape code"),
                        },
                        _ => return self.invalid("invalid escape code"),
                    };
                    text.push(escaped);
                    self.at += 2;
                }
                byte => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn invalid(&self, why: &'static str) -> Token {
        Token { kind: Kind::Invalid(why), at: self.at }
    }

    fn hex4(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        digits.iter().try_fold(0, |so_far, &digit| Some(so_far * 16 + char::from(digit).to_digit(16)?))
    }

    /// Appends the character of an escape; the length of the escape.
    fn unicode(&self, text: &mut Vec<u8>) -> Option<usize> {
        let unit = self.hex4(self.at + 2)?;
        let (code, len) = if unit & 0xf800 == 0xd800 {
            if unit & 0x400 != 0 || self.byte(self.at + 6) != b'\\' || self.byte(self.at + 7) != b'u' {
                return None;
            }
            let low = self.hex4(self.at + 8)?;
            if low & 0xfc00 != 0xdc00 {
                return None;
            }
            ((((unit & 0x3ff) << 10) | (low & 0x3ff)) + 0x1_0000, 12)
        } else {
            (unit, 6)
        };
        let code = char::from_u32(code)?;
        text.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
        Some(len)
    }
}

/// Whether strict JSON has no such number.
fn is_strange(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        _ if text[0] == b'+' => true,
        [b'0', next, ..] => next | 0x20 == b'x' || next.is_ascii_digit(),
        [first, ..] => *first > b'9',
        [] => false,
    }
}

/// The number at the beginning, as `strtod` reads it, and its length.
fn number(text: &[u8]) -> Option<(f64, usize)> {
    let sign_len = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let (is_negative, rest) = (text.first() == Some(&b'-'), &text[sign_len..]);
    let signed = |value: f64| if is_negative { -value } else { value };
    let begins =
        |word: &str| rest.len() >= word.len() && rest[..word.len()].eq_ignore_ascii_case(word.as_bytes());
    for (word, value) in [("infinity", f64::INFINITY), ("inf", f64::INFINITY), ("nan", f64::NAN)] {
        if begins(word) {
            return Some((signed(value), sign_len + word.len()));
        }
    }
    let count =
        |text: &[u8], is_digit: fn(&u8) -> bool| text.iter().take_while(|byte| is_digit(byte)).count();
    if begins("0x") {
        let digits = count(&rest[2..], u8::is_ascii_hexdigit);
        if digits > 0 {
            let value = rest[2..2 + digits].iter().fold(0.0, |so_far, &digit| {
                so_far * 16.0 + f64::from(char::from(digit).to_digit(16).unwrap_or(0))
            });
            return Some((signed(value), sign_len + 2 + digits));
        }
    }
    let whole = count(rest, u8::is_ascii_digit);
    let mut len = whole;
    let mut decimals = 0;
    if rest.get(len) == Some(&b'.') {
        decimals = count(&rest[len + 1..], u8::is_ascii_digit);
        len += 1 + decimals;
    }
    if whole + decimals == 0 {
        return None;
    }
    if matches!(rest.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(rest.get(len + 1), Some(b'-' | b'+')));
        let digits = count(rest.get(len + 1 + sign..).unwrap_or_default(), u8::is_ascii_digit);
        if digits > 0 {
            len += 1 + sign + digits;
        }
    }
    let value = std::str::from_utf8(&rest[..len]).ok()?.parse().ok()?;
    Some((signed(value), sign_len + len))
}
