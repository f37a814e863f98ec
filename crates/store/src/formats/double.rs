//! Doubles as Redis 7.0 reads and prints them.

use crate::formats::literal::{Decimal, Digits, Hexadecimal, Literal};

/// Reads all of `text` as `strtod` does, by the stricter rules for arguments. It rejects NaN, leading blanks, and a number that
/// overflows to infinity or underflows to zero.
pub(crate) fn parse(text: &[u8]) -> Option<f64> {
    let literal = Literal::whole(text)?;
    let number = Number::of(literal);
    let is_extreme = number.value.is_infinite() || number.value == 0.0;
    (!(number.is_out_of_range && is_extreme)).then_some(number.value)
}

/// Reads a C string. Overflow gives infinity, underflow gives zero, and an empty text is zero. Score ranges use this rule.
pub(crate) fn parse_loosely(text: &[u8]) -> Option<f64> {
    if is_empty(text) {
        Some(0.0)
    } else {
        Literal::of_c_string(text).map(|literal| Number::of(literal).value)
    }
}

/// Reads a C string, but rejects numbers for which `strtod` sets `ERANGE`: the rule of SORT.
pub(crate) fn parse_in_range(text: &[u8]) -> Option<f64> {
    if is_empty(text) {
        return Some(0.0);
    }
    let number = Number::of(Literal::of_c_string(text)?);
    (!number.is_out_of_range).then_some(number.value)
}

/// Whether a C string is empty.
fn is_empty(text: &[u8]) -> bool {
    text.first().is_none_or(|&byte| byte == 0)
}

/// The result of `strtod`, and whether it sets `ERANGE`: the number is too large, or denormal and not exact.
struct Number {
    value: f64,
    is_out_of_range: bool,
}

impl Number {
    fn of(literal: Literal<'_>) -> Number {
        let Number { value, is_out_of_range } = match literal.digits {
            Digits::Infinite => Number { value: f64::INFINITY, is_out_of_range: false },
            Digits::Decimal(decimal) => Number::of_decimal(decimal),
            Digits::Hexadecimal(hexadecimal) => Number::of_hexadecimal(hexadecimal),
        };
        Number { value: if literal.is_negative { -value } else { value }, is_out_of_range }
    }

    fn of_decimal(decimal: Decimal<'_>) -> Number {
        let text = std::str::from_utf8(decimal.text).unwrap_or_default();
        let value: f64 = text.parse().unwrap_or_default();
        let is_tiny = value <= f64::MIN_POSITIVE && !decimal.is_zero() && is_lost(decimal, value);
        Number { value, is_out_of_range: value.is_infinite() || is_tiny }
    }

    fn of_hexadecimal(number: Hexadecimal) -> Number {
        if number.mantissa == 0 {
            return Number { value: 0.0, is_out_of_range: false };
        }
        let bits = i64::from(u128::BITS - number.mantissa.leading_zeros());
        let top = number.exponent + bits - 1;
        if top >= MAX_EXPONENT {
            return Number { value: f64::INFINITY, is_out_of_range: true };
        }
        // The power of two of the last kept bit, and the number of bits below it.
        let last = (top - (MANTISSA_DIGITS - 1)).max(MIN_POWER);
        let dropped = last - number.exponent;
        let (kept, is_exact) = rounded(number, dropped);
        let value = kept as f64 * power_of_two(last);
        let is_tiny = top < MIN_EXPONENT && !is_exact;
        Number { value, is_out_of_range: value.is_infinite() || is_tiny }
    }
}

/// Whether `decimal` is below the least normalised number and is not exactly `value`, the nearest one. The digits of
/// `value` are printed exactly: there are 767 at most.
fn is_lost(decimal: Decimal<'_>, value: f64) -> bool {
    let exact = format!("{value:.800e}");
    let significant = |digits: &mut dyn Iterator<Item = u8>| {
        let digits: Vec<u8> = digits.filter(u8::is_ascii_digit).skip_while(|&digit| digit == b'0').collect();
        let len = digits.iter().rposition(|&digit| digit != b'0').map_or(0, |at| at + 1);
        digits[..len].to_vec()
    };
    let exact = significant(&mut exact.bytes().take_while(|&byte| byte != b'e'));
    let given = significant(&mut decimal.whole.iter().chain(decimal.fraction).copied());
    if value == f64::MIN_POSITIVE { given < exact } else { given != exact }
}

/// The mantissa without its last `dropped` bits, rounded half to even, and whether it is exact.
fn rounded(number: Hexadecimal, dropped: i64) -> (u64, bool) {
    if dropped <= 0 {
        // All bits are kept.
        return ((number.mantissa << dropped.unsigned_abs()) as u64, true);
    }
    let Some(shift) = u32::try_from(dropped).ok().filter(|&shift| shift <= u128::BITS) else {
        return (0, false);
    };
    let kept = number.mantissa.checked_shr(shift).unwrap_or_default();
    let rest = number.mantissa - kept.checked_shl(shift).unwrap_or_default();
    let half = 1_u128 << (shift - 1);
    let rounds_up = rest > half || (rest == half && (number.has_more || kept % 2 == 1));
    ((kept + u128::from(rounds_up)) as u64, rest == 0 && !number.has_more)
}

/// Two to the power of `exponent`, from [`MIN_POWER`] to the highest power of a double.
fn power_of_two(exponent: i64) -> f64 {
    let bits = match exponent {
        _ if exponent < MIN_EXPONENT => 1 << (exponent - MIN_POWER),
        _ => (exponent + MAX_EXPONENT - 1) << (MANTISSA_DIGITS - 1),
    };
    f64::from_bits(bits as u64)
}

const MANTISSA_DIGITS: i64 = f64::MANTISSA_DIGITS as i64;

/// The power of two at which a double becomes infinite.
const MAX_EXPONENT: i64 = f64::MAX_EXP as i64;

/// The least power of two with all digits, and the least at all.
const MIN_EXPONENT: i64 = f64::MIN_EXP as i64 - 1;
const MIN_POWER: i64 = MIN_EXPONENT - (MANTISSA_DIGITS - 1);

/// Appends `value` as C's `%.17g` prints it, infinities as `inf` and `-inf`: the scores of sorted sets.
pub(crate) fn write(out: &mut Vec<u8>, value: f64) {
    if value.is_infinite() {
        return out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    }
    // Most scores are small integers, which %.17g prints without a fraction.
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

/// Format of doubles in replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doubles {
    /// Seventeen digits, as up to Redis 7.0.
    #[default]
    Seventeen,
    /// The fewest digits that give the same double, as since Redis 7.2 and in Valkey.
    Shortest,
}

impl Doubles {
    /// Appends `value`.
    pub(crate) fn write(self, out: &mut Vec<u8>, value: f64) {
        match self {
            Doubles::Seventeen => write(out, value),
            Doubles::Shortest => write_shortest(out, value),
        }
    }
}

/// Appends `value` as `d2string` of Redis 7.2 prints it. That function takes its digits from Grisu2, which finds one digit more than
/// needed for about one double in a thousand.
fn write_shortest(out: &mut Vec<u8>, value: f64) {
    let is_integer = value.abs() <= INTEGERS_UP_TO && value.fract() == 0.0 && !is_negative_zero(value);
    if is_integer || !value.is_finite() || value == 0.0 {
        return if is_integer {
            out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
        } else {
            write(out, value);
        };
    }
    let scientific = format!("{:e}", value.abs());
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return };
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let len = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if value < 0.0 {
        out.push(b'-');
    }
    // Zeros behind the last digit if positive, digits behind the point if negative.
    let power = exponent - len + 1;
    if power >= 0 && exponent < len + PLAIN_ZEROS_MAX {
        out.extend_from_slice(digits.as_bytes());
        out.extend((0..power).map(|_| b'0'));
    } else if power < 0 && (power > -PLAIN_ZEROS_MAX || exponent.abs() < 4) {
        let decimals = usize::try_from(-power).unwrap_or_default();
        out.extend_from_slice(format!("{:.decimals$}", value.abs()).as_bytes());
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("{mantissa}e{sign}{}", exponent.abs()).as_bytes());
    }
}

/// Redis prints integers up to here as such: half of the greatest 64-bit integer.
const INTEGERS_UP_TO: f64 = (i64::MAX / 2) as f64;

/// Redis prints a number without exponent if that takes fewer zeros or decimals than this.
const PLAIN_ZEROS_MAX: i32 = 7;

fn is_negative_zero(value: f64) -> bool {
    value == 0.0 && value.is_sign_negative()
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
    fn shortest_doubles_are_printed_as_redis_7_2_does() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (-17.0, "-17"),
            (0.1, "0.1"),
            (25.5, "25.5"),
            (-922337203685477632.0, "-922337203685477632"),
            (-18446744073709552000.0, "-18446744073709552000"),
            (1e17, "100000000000000000"),
            (1e19, "1e+19"),
            (1.5e100, "1.5e+100"),
            (3.25e-5, "3.25e-5"),
            (0.00012, "0.00012"),
            (0.000123456, "1.23456e-4"),
            (0.00123456789, "0.00123456789"),
            (1e-7, "1e-7"),
            (1.25e-10, "1.25e-10"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            let mut out = Vec::new();
            Doubles::Shortest.write(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
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
        assert_eq!(parse_loosely(b" \x0b1e-999\0x"), Some(0.0));
    }

    #[test]
    fn hexadecimal_numbers_are_rounded_to_even() {
        for (text, expected) in [
            ("0x1p3", 8.0),
            ("-0X.8", -0.5),
            ("0xffffffffffffffffffffff", 309_485_009_821_345_068_724_781_056.0),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.000000000000080000000000000000000000000001p0", 1.0 + f64::EPSILON),
            ("0x1.00000000000018p0", 1.0 + 2.0 * f64::EPSILON),
            ("0x1p-1074", 5e-324),
            ("0x1.8p-1075", 5e-324),
            ("0x1p-1022", f64::MIN_POSITIVE),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x0p99999999999", 0.0),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(expected), "{text}");
        }
        for text in
            ["0x1p1024", "0x1.fffffffffffff8p1023", "0x1p-1075", "0x1p-99999999999", "0x", "0x1p", "0xg"]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn small_numbers_that_are_not_exact_are_out_of_range() {
        let least = format!("{:.1100}", f64::from_bits(1));
        for text in ["0x1p-1074", "0", "0e99999999999", "2.2250738585072014e-308", &least] {
            assert!(parse_in_range(text.as_bytes()).is_some(), "{text}");
        }
        for text in ["5e-324", "1e-320", "1e-400", "1e400", "0x1.8p-1074", "2.2250738585072011e-308"] {
            assert!(parse_in_range(text.as_bytes()).is_none(), "{text}");
        }
    }
}
