//! Figures as people read them, in the words of the page of the admin listener.

/// The text where there is nothing to tell.
pub(crate) const NONE: &str = "–";

/// A count or a rate.
pub(crate) fn number(value: f64) -> String {
    match value {
        _ if value >= 1e9 => format!("{:.2} G", value / 1e9),
        _ if value >= 1e6 => format!("{:.2} M", value / 1e6),
        _ if value >= 1e4 => format!("{:.1} k", value / 1e3),
        _ if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

/// A rate, if it is known.
pub(crate) fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), number)
}

pub(crate) fn bytes(value: f64) -> String {
    let number = number(value);
    let blank = if number.ends_with(|letter: char| letter.is_ascii_digit()) { " " } else { "" };
    format!("{number}{blank}B")
}

/// A node's own memory, if it is known.
pub(crate) fn memory(value: Option<u64>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| bytes(value as f64))
}

/// A time of `us` microseconds.
pub(crate) fn time(us: Option<f64>) -> String {
    match us {
        None => NONE.to_owned(),
        Some(us) if us >= 1e6 => format!("{:.2} s", us / 1e6),
        Some(us) if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        Some(us) => format!("{us:.0} µs"),
    }
}

pub(crate) fn percent(share: f64) -> String {
    if share < 0.1 { format!("{:.1} %", 100.0 * share) } else { format!("{:.0} %", 100.0 * share) }
}

/// A span in its two largest units.
pub(crate) fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// The time of day in UTC.
pub(crate) fn clock(time_s: f64) -> String {
    let seconds = time_s.max(0.0) as u64;
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_on_the_page() {
        let numbers = [0.0, 3.0, 3.25, 123.4, 9999.0, 12_345.0, 1_234_567.0, 2.5e9].map(number);
        assert_eq!(numbers, ["0", "3", "3.2", "123", "9999", "12.3 k", "1.23 M", "2.50 G"]);
        assert_eq!(
            [None, Some(250.4), Some(1500.0), Some(2.5e6)].map(time),
            ["–", "250 µs", "1.5 ms", "2.50 s"]
        );
        assert_eq!([0.05, 0.5, 1.0].map(percent), ["5.0 %", "50 %", "100 %"]);
        assert_eq!([5.0, 65.0, 3700.0, 90_000.0].map(span), ["5 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]);
        assert_eq!(clock(86_400.0 + 3661.5), "01:01:01");
        assert_eq!(
            (bytes(20_480.0), bytes(42.0), rate(None), rate(Some(7.0))),
            ("20.5 kB".into(), "42 B".into(), "–".into(), "7".into())
        );
    }
}
