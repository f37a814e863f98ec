//! Integers as Redis reads them in headers and arguments: no `+`, no leading zero, no `-0`, no blank, no overflow.

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

/// The number that begins `text`, and the offset behind its CR LF, if it has one to six digits, as nearly all lengths
/// have. `None` says nothing: look closer with [`parse_i64`].
#[inline]
pub(crate) fn short_header(text: &[u8]) -> Option<(i64, usize)> {
    let digit = |byte: u8| Some(i64::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit <= 9);
    match *text {
        [ones, b'\r', b'\n', ..] => Some((digit(ones)?, 3)),
        // A zero in front would be refused.
        [b'0', ..] => None,
        [tens, ones, b'\r', b'\n', ..] => Some((digit(tens)? * 10 + digit(ones)?, 4)),
        _ => longer_header(text),
    }
}

/// As [`short_header`], for three to six digits; apart, as that function is worth its name only where it is inlined.
#[inline(never)]
fn longer_header(text: &[u8]) -> Option<(i64, usize)> {
    let mut value = 0;
    for (at, &byte) in text.iter().enumerate().take(7) {
        match byte {
            b'0'..=b'9' => value = value * 10 + i64::from(byte - b'0'),
            b'\r' if at > 2 && text.get(at + 1) == Some(&b'\n') => return Some((value, at + 2)),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_redis_accepts_and_nothing_else() {
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
    fn short_headers_are_what_the_long_way_reads_or_nothing() {
        let mut read = 0;
        for number in (-1..=1100).chain([99_999, 999_999, 1_000_000]) {
            for line in [format!("{number}\r\n"), format!("0{number}\r\n"), format!("{number}\rx")] {
                let Some((short, end)) = short_header(line.as_bytes()) else { continue };
                let (text, rest) = line.as_bytes().split_at(end - 2);
                assert_eq!((Some(short), rest), (parse_i64(text), &b"\r\n"[..]), "{line:?}");
                read += 1;
            }
        }
        assert_eq!(read, 1103, "0 to 1100 and two more, each in one form");
        for line in ["", "1", "1\r", "x\r\n", "1x\r\n", "/1\r\n", "1:\r\n", "00\r\n", "+1\r\n", "1\n\r\n"] {
            assert_eq!(short_header(line.as_bytes()), None, "{line:?}");
        }
    }
}
