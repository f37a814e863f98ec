//! The 80-bit floating point numbers with which Redis on x86 computes INCRBYFLOAT and HINCRBYFLOAT: read, added and
//! printed as `strtold`, `+` and `%.17Lf` do it.
//!
//! With doubles, 0.1 + 0.2 would be 0.30000000000000004 where Redis replies 0.3. Denormal numbers keep all their digits here.
//! No command prints enough digits to show this.

use std::fmt;

use crate::formats::literal::{Decimal, Digits, Hexadecimal, Literal};

/// `mantissa` times 2 to the power of `exponent`; the highest bit of the mantissa is set unless the number is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extended {
    negative: bool,
    infinite: bool,
    mantissa: u64,
    exponent: i32,
}

impl Extended {
    /// Reads all of `text`. `None` if it is no number, or one that does not fit.
    pub(crate) fn parse(text: &[u8]) -> Option<Extended> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let Literal { is_negative, digits } = Literal::whole(text)?;
        let value = match digits {
            Digits::Infinite => {
                return Some(Extended { negative: is_negative, infinite: true, ..Extended::default() });
            }
            Digits::Decimal(decimal) => rounded_decimal(is_negative, decimal),
            Digits::Hexadecimal(number) => rounded_hexadecimal(is_negative, number),
        };
        value.filter(|value| value.fits())
    }

    /// Whether the number is neither too large nor rounded to zero.
    fn fits(self) -> bool {
        let is_half_of_least = self.exponent == EXPONENT_MIN && self.mantissa == 1 << 63;
        let is_above_zero = self.exponent >= EXPONENT_MIN && !is_half_of_least;
        self.mantissa == 0 || (self.exponent < EXPONENT_MAX && is_above_zero)
    }

    pub(crate) fn is_infinite(self) -> bool {
        self.infinite
    }

    /// The nearest double, or nearly: a number that is too small may become zero.
    pub(crate) fn to_f64(self) -> f64 {
        let magnitude =
            if self.infinite { f64::INFINITY } else { self.mantissa as f64 * 2_f64.powi(self.exponent) };
        if self.negative { -magnitude } else { magnitude }
    }

    /// The sum; `None` if it is infinite.
    pub(crate) fn plus(self, other: Extended) -> Option<Extended> {
        if self.infinite || other.infinite {
            return None;
        }
        let (large, small) = match (self.mantissa, other.mantissa) {
            (_, 0) => return Some(self),
            (0, _) => return Some(other),
            _ if self.exponent >= other.exponent => (self, other),
            _ => (other, self),
        };
        let difference = large.exponent.abs_diff(small.exponent);
        let one = u128::from(large.mantissa) << ALIGN_BITS;
        let two = u128::from(small.mantissa) << ALIGN_BITS;
        // Bits that are shifted out set the lowest bit. It is far below the bit that is rounded.
        let shifted = two.checked_shr(difference).unwrap_or_default();
        let lost = shifted.checked_shl(difference).unwrap_or_default() != two;
        let two = shifted | u128::from(lost);
        let exponent = large.exponent - ALIGN_BITS as i32;
        let (negative, sum) = match (large.negative == small.negative, one >= two) {
            (true, _) => (large.negative, one + two),
            (false, true) => (large.negative, one - two),
            (false, false) => (small.negative, two - one),
        };
        let sum = rounded(negative, sum, exponent, false);
        (sum.exponent < EXPONENT_MAX).then_some(sum)
    }
}

impl fmt::Display for Extended {
    /// As `%.17Lf`, without zeros at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        if self.exponent >= 0 {
            let mut number = Big::from(self.mantissa);
            number.shift_left(self.exponent.unsigned_abs());
            let digits = number.into_decimal();
            return write!(f, "{}{digits}", if digits == "0" { "" } else { sign });
        }
        // Below 2^64 * 10^17 < 2^121, so that a shift by more leaves less than a half.
        let scaled = u128::from(self.mantissa) * TEN_TO_17;
        let shift = self.exponent.unsigned_abs();
        let units = if shift > 122 { 0 } else { shifted_right_to_even(scaled, shift) };
        let (whole, fraction) = (units / TEN_TO_17, units % TEN_TO_17);
        let fraction = format!("{fraction:017}");
        let fraction = fraction.trim_end_matches('0');
        let sign = if units == 0 { "" } else { sign };
        let point = if fraction.is_empty() { "" } else { "." };
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

/// The nearest number to `decimal`; `None` if its exponent alone shows that it does not fit.
fn rounded_decimal(negative: bool, decimal: Decimal<'_>) -> Option<Extended> {
    if decimal.is_zero() {
        return Some(Extended { negative, ..Extended::default() });
    }
    let exponent = decimal.exponent - decimal.fraction.len() as i64;
    let exponent = i32::try_from(exponent).ok().filter(|exponent| exponent.abs() <= DECIMAL_EXPONENT_MAX)?;
    let mut number = Big::default();
    let digits = decimal.whole.iter().chain(decimal.fraction);
    digits.for_each(|digit| number.multiply_add(10, u32::from(digit - b'0')));
    let (mut binary_exponent, mut lost) = (0, false);
    if exponent >= 0 {
        powers_of_ten(exponent.unsigned_abs()).for_each(|power| number.multiply_add(power, 0));
    } else {
        // At least 66 bits are left: each power of ten removes less than 10/3 bits.
        let shift = exponent.unsigned_abs() * 10 / 3 + 70;
        number.shift_left(shift);
        binary_exponent = -(shift as i32);
        for power in powers_of_ten(exponent.unsigned_abs()) {
            lost |= number.divide(power) != 0;
        }
    }
    let (top, dropped, dropped_any) = number.top();
    Some(rounded(negative, top, binary_exponent + dropped as i32, lost || dropped_any))
}

/// The nearest number to `number`; `None` if its exponent alone shows that it does not fit.
fn rounded_hexadecimal(negative: bool, number: Hexadecimal) -> Option<Extended> {
    if number.mantissa == 0 {
        return Some(Extended { negative, ..Extended::default() });
    }
    let exponent =
        i32::try_from(number.exponent).ok().filter(|exponent| exponent.abs() <= BINARY_EXPONENT_MAX)?;
    Some(rounded(negative, number.mantissa, exponent, number.has_more))
}

/// Ten to the power of `exponent` as factors of 32 bits, as few as possible.
fn powers_of_ten(exponent: u32) -> impl Iterator<Item = u32> {
    let whole = std::iter::repeat_n(10_u32.pow(9), (exponent / 9) as usize);
    whole.chain(std::iter::once(10_u32.pow(exponent % 9)))
}

/// The nearest number, rounded half to even. `lost` says whether set bits were dropped below the lowest one.
fn rounded(negative: bool, value: u128, exponent: i32, lost: bool) -> Extended {
    if value == 0 {
        return Extended::default();
    }
    let bits = 128 - value.leading_zeros();
    if bits <= 64 {
        let up = 64 - bits;
        return Extended {
            negative,
            infinite: false,
            mantissa: (value << up) as u64,
            exponent: exponent - up as i32,
        };
    }
    let shift = bits - 64;
    let rounded = shifted_right_to_even(value | u128::from(lost), shift);
    let exponent = exponent + shift as i32;
    match u64::try_from(rounded) {
        Ok(mantissa) => Extended { negative, infinite: false, mantissa, exponent },
        // The mantissa was rounded up to 2^64.
        Err(_) => Extended { negative, infinite: false, mantissa: 1 << 63, exponent: exponent + 1 },
    }
}

fn shifted_right_to_even(value: u128, shift: u32) -> u128 {
    let kept = value.checked_shr(shift).unwrap_or_default();
    let rest = value - kept.checked_shl(shift).unwrap_or_default();
    let half = 1_u128 << (shift - 1);
    kept + u128::from(rest > half || (rest == half && kept % 2 == 1))
}

/// A natural number of any size, lowest digit (of 32 bits) first.
#[derive(Default)]
struct Big(Vec<u32>);

impl Big {
    fn from(value: u64) -> Big {
        let mut big = Big(vec![value as u32, (value >> 32) as u32]);
        big.trim();
        big
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for digit in &mut self.0 {
            carry += u64::from(*digit) * u64::from(factor);
            *digit = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Divides and returns the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0_u64;
        for digit in self.0.iter_mut().rev() {
            rest = rest << 32 | u64::from(*digit);
            *digit = (rest / u64::from(divisor)) as u32;
            rest %= u64::from(divisor);
        }
        self.trim();
        rest as u32
    }

    fn shift_left(&mut self, bits: u32) {
        self.multiply_add(1 << (bits % 32), 0);
        self.0.splice(0..0, std::iter::repeat_n(0, (bits / 32) as usize));
        self.trim();
    }

    /// The highest digits as one number, the count of bits below them, and whether any of those is set.
    fn top(&self) -> (u128, u32, bool) {
        let below = self.0.len().saturating_sub(4);
        let top = self.0[below..].iter().rev().fold(0_u128, |top, &digit| top << 32 | u128::from(digit));
        (top, below as u32 * 32, self.0[..below].iter().any(|&digit| digit != 0))
    }

    fn into_decimal(mut self) -> String {
        let mut parts = Vec::new();
        while !self.0.is_empty() {
            parts.push(self.divide(1_000_000_000));
        }
        let Some(first) = parts.pop() else { return "0".to_owned() };
        let rest = parts.iter().rev().map(|part| format!("{part:09}"));
        std::iter::once(first.to_string()).chain(rest).collect()
    }
}

/// Bits below a mantissa while two of them are added: as many as leave room for a carry.
const ALIGN_BITS: u32 = 62;

const TEN_TO_17: u128 = 100_000_000_000_000_000;

/// Where a number becomes infinite: the power of two of its last bit.
const EXPONENT_MAX: i32 = 16_384 - 63;

/// The same of a half of the least number, which is rounded to zero.
const EXPONENT_MIN: i32 = -16_446 - 63;

/// No text within [`TEXT_BYTES_MAX`] makes a number with a larger power of two fit.
const BINARY_EXPONENT_MAX: i32 = 50_000;

/// No text within [`TEXT_BYTES_MAX`] makes a number with a larger power of ten fit.
const DECIMAL_EXPONENT_MAX: i32 = 10_500;

/// Redis's `MAX_LONG_DOUBLE_CHARS`.
const TEXT_BYTES_MAX: usize = 5 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> Option<String> {
        let parse = |text: &str| Extended::parse(text.as_bytes()).unwrap();
        parse(one).plus(parse(other)).map(|sum| sum.to_string())
    }

    #[test]
    fn sums_equal_redis_sums() {
        for (one, other, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3", "0"),
            ("-1.5", "0", "-1.5"),
            ("1e17", "1", "100000000000000001"),
            ("-0.0", "0", "0"),
            ("1e30", "0", "1000000000000000000024696061952"),
            ("1e-4000", "1", "1"),
            ("1e4932", "-1e4932", "0"),
        ] {
            assert_eq!(sum(one, other).as_deref(), Some(expected), "{one} + {other}");
        }
        assert_eq!(sum("inf", "1"), None);
    }

    #[test]
    fn text_that_is_no_number_is_none() {
        for text in ["", ".", "-", "1x", " 1", "1e", "nan", "0x", "1e+-1", "1e99999", "1e5000", "1e-10000"] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
    }
}
