//! Times, ranges and rates as they are written on the command line. Pure.

use std::time::Duration;

/// A time: `60`, `60s`, `500ms`, `250us`, `2m` or `1h`. Without a unit it is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(DURATION_FORMS.to_owned()),
    };
    let seconds = digits.parse::<f64>().map_err(|_| DURATION_FORMS.to_owned())? * unit;
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("{text}: write a time of up to a year"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| DURATION_FORMS.to_owned())
}

const DURATION_FORMS: &str = "write a time as 60, 60s, 500ms, 250us, 9ns, 2m or 1h";
const SECONDS_MAX: f64 = 366.0 * 86_400.0;

/// Requests per second: a number above zero, `k` for thousand.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('k').map_or((text, 1.0), |number| (number, 1000.0));
    let rate = number.parse::<f64>().ok().map(|number| number * unit);
    rate.filter(|rate| *rate > 0.0 && *rate <= RATE_MAX)
        .ok_or_else(|| "write requests per second, above 0, as 9000 or 9k".to_owned())
}

const RATE_MAX: f64 = 1e9;

/// `7` or `3-9`, each from 1 to `max`.
pub(crate) fn range(text: &str, max: u64) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| (1..=max).contains(number));
    match (number(from), number(to)) {
        (Some(from), Some(to)) if from <= to => Ok((from, to)),
        _ => Err(format!("write a number from 1 to {max}, or two as 1-16")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let ms = |text: &str| duration(text).map(|time| time.as_millis());
        let expected =
            [("2", 2000), ("1.5s", 1500), ("500ms", 500), ("250us", 0), ("2m", 120_000), ("1h", 3_600_000)];
        for (text, expected) in expected {
            assert_eq!(ms(text), Ok(expected), "{text}");
        }
        for text in ["", "x", "1d", "-1", "1e300", "NaN", "400000h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_and_ranges_are_above_zero() {
        assert_eq!((rate("9k"), rate("0.5")), (Ok(9000.0), Ok(0.5)));
        assert!(["0", "-1", "x", "inf", "k"].iter().all(|text| rate(text).is_err()));
        assert_eq!((range("7", 9), range("1-9", 9)), (Ok((7, 7)), Ok((1, 9))));
        assert!(["0", "10", "9-1", "", "-"].iter().all(|text| range(text, 9).is_err()));
    }
}
