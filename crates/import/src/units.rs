//! Numbers with units, as the programs write them.

/// A number of digits alone, up to `max`.
pub(crate) fn number(text: &str, max: u64) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number <= max)
}

/// A number and the letters behind it.
pub(crate) fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

/// Microseconds in whole milliseconds, rounded up.
pub(crate) fn ms(us: u64) -> u64 {
    us.div_ceil(1000)
}

/// Milliseconds in whole seconds, rounded up.
pub(crate) fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1000)
}

/// Milliseconds of a time such as `10m`, `1h30m`, `500ms` or `30`, which are `unit_ms` each without a unit.
///
/// nginx, haproxy and Go agree on these units; `1y` to `1M` of nginx are left out.
pub(crate) fn duration_ms(text: &str, unit_ms: u64) -> Option<u64> {
    let (mut rest, mut total) = (text, 0u64);
    while !rest.is_empty() {
        let (number, behind) = split(rest)?;
        let end = behind.find(|letter: char| letter.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let us = match unit.trim_end() {
            "" => unit_ms.checked_mul(1000)?,
            "us" => 1,
            "ms" => 1000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            "w" => 604_800_000_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(us)?)?;
        rest = behind;
    }
    Some(ms(total)).filter(|_| !text.is_empty())
}

/// Bytes as `100`, `100k`, `1mb` or `2G`, in powers of 1024.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_the_programs() {
        let cases = [
            ("10m", Some(600_000)),
            ("1h30m", Some(5_400_000)),
            ("1s 500ms", Some(1500)),
            ("1500us", Some(2)),
            ("30", Some(30_000)),
            ("", None),
            ("m", None),
            ("1x", None),
            ("99999999999999999999s", None),
            ("999999999999999999w", None),
        ];
        for (text, expected) in cases {
            assert_eq!(duration_ms(text, 1000), expected, "{text}");
        }
        assert_eq!((bytes("1kB"), bytes("2G"), bytes("1t")), (Some(1024), Some(2 << 30), None));
        assert_eq!((number("12", 20), number("21", 20), number("+1", 20)), (Some(12), None, None));
    }
}
