//! Integers as Redis reads them in headers and arguments: no `+`, no leading zero, no `-0`, no blank, no overflow.

use std::num::NonZeroU32;

/// Reads all of `text` as a signed 64-bit integer by the rules of Redis's `string2ll`.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [] => return None,
        [b'0'] if negative => return None,
        [b'0', _, ..] => return None,
        _ => {}
    }
    let mut value: i64 = 0;
    for &byte in digits {
        let digit = i64::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        // Summed downwards, so that i64::MIN is reached without overflow.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// The number that begins a text, of one to six digits, and the offset behind its CR LF. In one register: as two numbers
/// and a flag it would go through memory, which was a tenth of a scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortHeader(NonZeroU32);

impl ShortHeader {
    #[inline]
    fn new(number: u32, end: u32) -> Option<ShortHeader> {
        NonZeroU32::new(number << 4 | end).map(ShortHeader)
    }

    /// The number; below a million.
    #[inline]
    pub(crate) fn number(self) -> usize {
        (self.0.get() >> 4) as usize
    }

    /// The offset behind the line's end.
    #[inline]
    pub(crate) fn end(self) -> usize {
        (self.0.get() & 0xf) as usize
    }
}

/// The header that begins `text`, if it has one to six digits, as nearly all lengths have. `None` says nothing: [`parse_i64`]
/// decides.
#[inline]
pub(crate) fn short_header(text: &[u8]) -> Option<ShortHeader> {
    let Some(start) = text.first_chunk() else { return shortest_header(text) };
    // One load: numbers are compared, not single bytes.
    let word = u32::from_le_bytes(*start);
    let (first, second) = ((word & 0xff).wrapping_sub(ZERO), (word >> 8 & 0xff).wrapping_sub(ZERO));
    if word & 0xff_ff00 == 0x0a_0d00 {
        return if first <= 9 { ShortHeader::new(first, 3) } else { None };
    }
    if word >> 16 == 0x0a0d {
        // A zero in front would be refused.
        let is_number = first.wrapping_sub(1) < 9 && second <= 9;
        return if is_number { ShortHeader::new(first * 10 + second, 4) } else { None };
    }
    longer_header(text)
}

const ZERO: u32 = b'0' as u32;

/// As [`short_header`], where `text` ends with the header: the reply `:1`.
#[inline(never)]
fn shortest_header(text: &[u8]) -> Option<ShortHeader> {
    match *text {
        [digit @ b'0'..=b'9', b'\r', b'\n'] => ShortHeader::new(u32::from(digit - b'0'), 3),
        _ => None,
    }
}

/// As [`short_header`], for three to six digits. It is apart, since that function is fast only where it is inlined.
#[inline(never)]
fn longer_header(text: &[u8]) -> Option<ShortHeader> {
    let mut value = 0;
    for (at, &byte) in text.iter().enumerate().take(7) {
        match byte {
            b'0' if at == 0 => return None,
            b'0'..=b'9' => value = value * 10 + u32::from(byte - b'0'),
            b'\r' if at > 2 && text.get(at + 1) == Some(&b'\n') => {
                return ShortHeader::new(value, at as u32 + 2);
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_exactly_the_integers_of_redis() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "00",
            " 1",
            "1 ",
            "1x",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551617",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn short_headers_agree_with_the_general_parser() {
        let mut read = 0;
        for number in (-1..=1100).chain([99_999, 999_999, 1_000_000]) {
            for line in [format!("{number}\r\n"), format!("0{number}\r\n"), format!("{number}\rx")] {
                let Some(short) = short_header(line.as_bytes()) else { continue };
                let (text, rest) = line.as_bytes().split_at(short.end() - 2);
                let number = i64::try_from(short.number()).ok();
                assert_eq!((number, rest), (parse_i64(text), &b"\r\n"[..]), "{line:?}");
                read += 1;
            }
        }
        assert_eq!(read, 1103, "0 to 1100 and two more, each in one form");
        for line in ["", "1", "1\r", "x\r\n", "1x\r\n", "/1\r\n", "1:\r\n", "00\r\n", "+1\r\n", "1\n\r\n"] {
            assert!(short_header(line.as_bytes()).is_none(), "{line:?}");
        }
    }
}
