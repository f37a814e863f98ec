//! Doubles as Redis 7.0 reads and prints them.

/// Reads all of `text` as `strtod` does, by the stricter rules for arguments: no NaN, no number that becomes infinite
/// or zero only because it does not fit. Hexadecimal notation, which nobody sends, is not read.
pub(crate) fn parse(text: &[u8]) -> Option<f64> {
    let value = parse_loosely(text)?;
    let names_infinity = text.iter().any(|byte| matches!(byte, b'i' | b'I'));
    if value.is_infinite() && !names_infinity {
        return None;
    }
    let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    if value == 0.0 && mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9')) {
        return None;
    }
    Some(value)
}

/// As [`parse`], but what does not fit becomes infinite or zero: the rule for score ranges.
pub(crate) fn parse_loosely(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse::<f64>().ok().filter(|value| !value.is_nan())
}

/// Appends `value` as C's `%.17g` prints it, infinities as `inf` and `-inf`: the scores of sorted sets.
pub(crate) fn write(out: &mut Vec<u8>, value: f64) {
    if value.is_infinite() {
        return out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    }
    // Most scores are small integers, which %.17g prints as such.
    if value.abs() < 1e15 && value.fract() == 0.0 && (value != 0.0 || value.is_sign_positive()) {
        return out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
    }
    let scientific = format!("{value:.16e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..17).contains(&exponent) {
        let decimals = usize::try_from(16 - exponent).unwrap_or_default();
        out.extend_from_slice(without_trailing_zeros(&format!("{value:.decimals$}")));
        return;
    }
    out.extend_from_slice(without_trailing_zeros(mantissa));
    let sign = if exponent < 0 { '-' } else { '+' };
    out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
}

fn without_trailing_zeros(text: &str) -> &[u8] {
    if !text.contains('.') {
        return text.as_bytes();
    }
    text.trim_end_matches('0').trim_end_matches('.').as_bytes()
}

/// Appends `value` as a bulk.
pub(crate) fn write_bulk(out: &mut Vec<u8>, value: f64) {
    let mut text = Vec::with_capacity(24);
    write(&mut text, value);
    resp::encode::bulk(out, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_are_printed_with_seventeen_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (0.1, "0.10000000000000001"),
            (1.5, "1.5"),
            (3.25e-5, "3.2499999999999997e-05"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e100, "1e+100"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_none() {
        assert_eq!(parse(b"1e5"), Some(1e5));
        assert_eq!(parse(b"-Inf"), Some(f64::NEG_INFINITY));
        assert_eq!(parse(b"0e9"), Some(0.0));
        for text in ["1e999", "1e-999", "nan", "", " 1", "1 ", "1x"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_loosely(b"1e999"), Some(f64::INFINITY));
    }
}
