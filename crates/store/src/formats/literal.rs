//! Numbers as C's `strtod` and `strtold` read them at the beginning of a text: decimal, hexadecimal and infinite.
//!
//! This module finds the end of a number and its parts. `double` and `extended` compute values from them.

/// A number as it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Literal<'a> {
    pub(crate) is_negative: bool,
    pub(crate) digits: Digits<'a>,
}

/// The number without its sign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Digits<'a> {
    Infinite,
    Decimal(Decimal<'a>),
    Hexadecimal(Hexadecimal),
}

/// Digits before and after the point, and the exponent after the `e`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decimal<'a> {
    pub(crate) whole: &'a [u8],
    pub(crate) fraction: &'a [u8],
    pub(crate) exponent: i64,
    /// The same as text, without sign.
    pub(crate) text: &'a [u8],
}

/// `mantissa` times 2 to the power of `exponent`. `has_more` says whether bits below the mantissa are set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Hexadecimal {
    pub(crate) mantissa: u128,
    pub(crate) exponent: i64,
    pub(crate) has_more: bool,
}

impl<'a> Literal<'a> {
    /// The number that all of `text` spells. NaN is none: no command of Redis accepts it.
    pub(crate) fn whole(text: &'a [u8]) -> Option<Literal<'a>> {
        let (literal, rest) = Literal::first(text)?;
        rest.is_empty().then_some(literal)
    }

    /// The number in a C string, after blanks and up to the first NUL of `text`.
    pub(crate) fn of_c_string(text: &'a [u8]) -> Option<Literal<'a>> {
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
        Literal::whole(&text[blanks..])
    }

    /// The number at the beginning of `text`, and the rest of `text`.
    fn first(text: &'a [u8]) -> Option<(Literal<'a>, &'a [u8])> {
        let (is_negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let (digits, rest) = match unsigned {
            [b'i' | b'I', ..] => (Digits::Infinite, behind_infinity(unsigned)?),
            [b'0', b'x' | b'X', hex @ ..] if begins_hexadecimal(hex) => Hexadecimal::first(hex),
            _ => Decimal::first(unsigned)?,
        };
        Some((Literal { is_negative, digits }, rest))
    }
}

fn behind_infinity(text: &[u8]) -> Option<&[u8]> {
    let name = ["infinity", "inf"].iter().find(|name| {
        text.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name.as_bytes()))
    })?;
    Some(&text[name.len()..])
}

impl<'a> Decimal<'a> {
    fn first(text: &'a [u8]) -> Option<(Digits<'a>, &'a [u8])> {
        let (whole, rest) = split_digits(text, u8::is_ascii_digit);
        let (fraction, rest) = match rest {
            [b'.', behind @ ..] => split_digits(behind, u8::is_ascii_digit),
            _ => (&[][..], rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (exponent, rest) = exponent(rest, b'e');
        let text = &text[..text.len() - rest.len()];
        Some((Digits::Decimal(Decimal { whole, fraction, exponent, text }), rest))
    }

    /// Whether all digits are zeros.
    pub(crate) fn is_zero(self) -> bool {
        self.whole.iter().chain(self.fraction).all(|&digit| digit == b'0')
    }
}

/// Whether a hexadecimal digit is in front of the point or right behind it.
fn begins_hexadecimal(text: &[u8]) -> bool {
    let digit = if let [b'.', digit, ..] = text { Some(digit) } else { text.first() };
    digit.is_some_and(u8::is_ascii_hexdigit)
}

impl Hexadecimal {
    fn first(text: &[u8]) -> (Digits<'_>, &[u8]) {
        let (whole, rest) = split_digits(text, u8::is_ascii_hexdigit);
        let (fraction, rest) = match rest {
            [b'.', behind @ ..] => split_digits(behind, u8::is_ascii_hexdigit),
            _ => (&[][..], rest),
        };
        let (exponent, rest) = exponent(rest, b'p');
        let mut number = Hexadecimal { exponent: exponent - 4 * fraction.len() as i64, ..Default::default() };
        whole.iter().chain(fraction).for_each(|&digit| number.push(digit));
        (Digits::Hexadecimal(number), rest)
    }

    fn push(&mut self, digit: u8) {
        let value = u128::from((digit as char).to_digit(16).unwrap_or_default());
        if self.mantissa >> MANTISSA_BITS == 0 {
            self.mantissa = self.mantissa << 4 | value;
        } else {
            self.has_more |= value != 0;
            self.exponent += 4;
        }
    }
}

/// The digits at the beginning, and the rest.
fn split_digits(text: &[u8], is_digit: fn(&u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| is_digit(byte)).count())
}

/// The exponent after `letter`, and the rest. A letter without digits does not belong to the number.
fn exponent(text: &[u8], letter: u8) -> (i64, &[u8]) {
    let [first, behind @ ..] = text else { return (0, text) };
    if first.to_ascii_lowercase() != letter {
        return (0, text);
    }
    let (is_negative, unsigned) = match behind {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, behind),
    };
    let (digits, rest) = split_digits(unsigned, u8::is_ascii_digit);
    if digits.is_empty() {
        return (0, text);
    }
    let add = |sum: i64, digit: &u8| (sum * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX);
    let value = digits.iter().fold(0, add);
    (if is_negative { -value } else { value }, rest)
}

/// Bits of a hexadecimal mantissa that are kept exactly: more than any format has.
const MANTISSA_BITS: u32 = 120;

/// Larger exponents count as this one. No text is long enough that its digits make up for it.
const EXPONENT_MAX: i64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(text: &str) -> Option<&[u8]> {
        Literal::first(text.as_bytes()).map(|(_, rest)| rest)
    }

    #[test]
    fn a_number_ends_where_strtod_ends_it() {
        for (text, rest) in [
            ("1e", "e"),
            ("1e+", "e+"),
            ("1.5.5", ".5"),
            ("0x", "x"),
            ("0xg", "xg"),
            ("0x.", "x."),
            ("0x1p", "p"),
            ("0x1p-", "p-"),
            ("0x1.8p1p", "p"),
            ("infinit", "init"),
            ("1e99999999999999999999", ""),
        ] {
            assert_eq!(behind(text), Some(rest.as_bytes()), "{text}");
        }
        for text in ["", ".", "-", "+-1", "nan", "in", "e5", " 1"] {
            assert_eq!(behind(text), None, "{text}");
        }
    }

    #[test]
    fn long_hexadecimal_numbers_keep_their_size() {
        let text = format!("0x1{}", "0".repeat(100));
        let Some(Literal { digits: Digits::Hexadecimal(number), .. }) = Literal::whole(text.as_bytes())
        else {
            panic!("hexadecimal");
        };
        assert_eq!(number.exponent + i64::from(number.mantissa.ilog2()), 400);
    }
}
