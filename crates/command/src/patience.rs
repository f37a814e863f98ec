//! For how long a request may keep its client waiting.
//!
//! The options of XREAD are parsed exactly as Redis does it (t_stream.c of Redis 7.0). A missed BLOCK would stop every client
//! behind it on a shared connection. An unclear request counts as one that waits without end: Redis either refuses it at once,
//! or understands it.

use std::time::Duration;

use resp::integer::parse_i64;
use resp::{Request, encode};

use crate::carry::Wait;
use crate::keys::is_word;

/// The shortest wait. A wait of zero would have no end.
const SHORTEST: Duration = Duration::from_millis(1);

impl Wait {
    /// Time that a node may take to answer `request` beyond its usual time; [`Duration::MAX`] for no end. The request's number
    /// of arguments must fit. `None` if it does not wait at all.
    pub fn patience(self, request: &Request<'_>) -> Option<Duration> {
        match self {
            Wait::Untold => Some(Duration::MAX),
            _ => self.places(request).map(|at| self.time_at(request, at)).max(),
        }
    }

    /// Appends `request`, whose number of arguments fits, changed so that it waits for `left` and no longer. An endless wait
    /// stays unchanged.
    pub fn shorten(self, request: &Request<'_>, left: Duration, out: &mut Vec<u8>) {
        let left = left.max(SHORTEST);
        let places: Vec<usize> = self.places(request).collect();
        encode::array_header(out, request.len());
        for at in 0..request.len() {
            let is_longer = || (left..Duration::MAX).contains(&self.time_at(request, at));
            match places.contains(&at) && is_longer() {
                true => encode::bulk(out, self.written(left).as_bytes()),
                false => out.extend_from_slice(request.raw_arg(at)),
            }
        }
    }

    /// The places of the wait times in `request`. The last may be missing.
    fn places(self, request: &Request<'_>) -> impl Iterator<Item = usize> {
        let fixed = match self {
            Wait::Last | Wait::Replicas => Some(request.len() - 1),
            Wait::First => Some(1),
            Wait::Block | Wait::BlockAcross | Wait::Untold => None,
        };
        let options = matches!(self, Wait::Block | Wait::BlockAcross).then(|| blocks(request));
        fixed.into_iter().chain(options.into_iter().flatten())
    }

    /// The time in the argument at this place; 0 has no end.
    fn time_at(self, request: &Request<'_>, at: usize) -> Duration {
        let known = request.get(at).and_then(|arg| match self {
            Wait::Last | Wait::First => seconds(arg),
            Wait::Block | Wait::BlockAcross | Wait::Replicas | Wait::Untold => milliseconds(arg),
        });
        known.filter(|duration| !duration.is_zero()).unwrap_or(Duration::MAX)
    }

    /// The argument that says `time`.
    fn written(self, time: Duration) -> String {
        let millis = time.as_millis();
        match self {
            Wait::Last | Wait::First => format!("{}.{:03}", millis / 1000, millis % 1000),
            Wait::Block | Wait::BlockAcross | Wait::Replicas | Wait::Untold => millis.to_string(),
        }
    }
}

/// A number of seconds, with a fraction.
fn seconds(arg: &[u8]) -> Option<Duration> {
    let seconds = std::str::from_utf8(arg).ok()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A number of milliseconds.
fn milliseconds(arg: &[u8]) -> Option<Duration> {
    parse_i64(arg).and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis)
}

/// The places behind the BLOCK options of XREAD or XREADGROUP.
fn blocks(request: &Request<'_>) -> impl Iterator<Item = usize> {
    let mut at = 1;
    std::iter::from_fn(move || {
        while let Some(word) = request.get(at) {
            at += match () {
                () if is_word(word, b"block") => {
                    at += 2;
                    return Some(at - 1);
                }
                () if is_word(word, b"streams") => break,
                () if is_word(word, b"count") => 2,
                () if is_word(word, b"group") => 3,
                () if is_word(word, b"noack") => 1,
                () => break,
            };
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_request;

    fn patience(wait: Wait, line: &str) -> Option<Duration> {
        with_request(line, |request| wait.patience(request))
    }

    #[test]
    fn a_blocking_read_differs_from_a_key_named_block() {
        for (line, millis) in [
            ("XREAD BLOCK 7 STREAMS a 0", 7),
            ("XREAD COUNT 1 block 1 STREAMS a 0", 1),
            ("XREADGROUP GROUP g c NOACK BLOCK 5 STREAMS a >", 5),
            ("XREADGROUP GROUP STREAMS c BLOCK 5 STREAMS a >", 5),
            ("XREADGROUP GROUP g STREAMS BLOCK 5 STREAMS a >", 5),
            ("XREAD BLOCK 5 BLOCK 9 BLOCK 1 STREAMS a 0", 9),
            ("XREAD BLOCK 5 COUNT", 5),
        ] {
            assert_eq!(patience(Wait::Block, line), Some(Duration::from_millis(millis)), "{line}");
        }
        for line in
            ["XREAD COUNT STREAMS BLOCK 0 STREAMS a 0", "XREAD BLOCK\0x 0 STREAMS a 0", "XREAD BLOCK x S a"]
        {
            assert_eq!(patience(Wait::Block, line), Some(Duration::MAX), "{line}");
        }
        for line in [
            "XREAD STREAMS BLOCK 0",
            "XREAD COUNT BLOCK STREAMS a 0",
            "XREADGROUP GROUP BLOCK BLOCK STREAMS BLOCK >",
            "XREAD a b c",
        ] {
            assert_eq!(patience(Wait::Block, line), None, "{line}");
        }
    }

    #[test]
    fn an_invalid_timeout_counts_as_endless() {
        assert_eq!(patience(Wait::Last, "BLPOP a b 0.25"), Some(Duration::from_millis(250)));
        assert_eq!(patience(Wait::First, "BLMPOP 2 1 a LEFT"), Some(Duration::from_secs(2)));
        for line in ["BLPOP a 0", "BLPOP a x", "BLPOP a -1", "BLPOP a 1e300", "BLPOP a 0x1p3"] {
            assert_eq!(patience(Wait::Last, line), Some(Duration::MAX), "{line}");
        }
        assert_eq!(patience(Wait::Replicas, "WAIT 1 250"), Some(Duration::from_millis(250)));
        assert_eq!(patience(Wait::Replicas, "WAITAOF 1 1 0"), Some(Duration::MAX));
    }

    #[test]
    fn retried_blocking_request_waits_for_its_remaining_time() {
        let shortened = |wait: Wait, line: &str| {
            let mut out = Vec::new();
            with_request(line, |request| wait.shorten(request, Duration::from_micros(1_250_900), &mut out));
            let text = String::from_utf8(out).expect("text");
            text.split("\r\n").skip(2).step_by(2).collect::<Vec<_>>().join(" ")
        };
        for (wait, line, expected) in [
            (Wait::Last, "BLPOP 7 8 9", "BLPOP 7 8 1.250"),
            (Wait::Last, "BLPOP 7 1e3", "BLPOP 7 1.250"),
            (Wait::First, "BLMPOP 2.5 1 7 LEFT", "BLMPOP 1.250 1 7 LEFT"),
            (
                Wait::Block,
                "XREADGROUP GROUP g c BLOCK 5000 STREAMS a >",
                "XREADGROUP GROUP g c BLOCK 1250 STREAMS a >",
            ),
            (
                Wait::BlockAcross,
                "XREAD BLOCK 9000 BLOCK 2 BLOCK 9001 STREAMS 9002 0",
                "XREAD BLOCK 1250 BLOCK 2 BLOCK 1250 STREAMS 9002 0",
            ),
        ] {
            assert_eq!(shortened(wait, line), expected);
        }
        for (wait, line) in [
            (Wait::Last, "BLPOP a 0"),
            (Wait::Last, "BLPOP a 1.25"),
            (Wait::Last, "BLPOP a x"),
            (Wait::Block, "XREAD BLOCK 0 STREAMS a 0"),
            (Wait::Block, "XREAD STREAMS BLOCK 9000"),
            (Wait::Untold, "X.WAIT a 9000"),
        ] {
            assert_eq!(shortened(wait, line), line);
        }
        let mut out = Vec::new();
        with_request("BLPOP a 3", |request| Wait::Last.shorten(request, Duration::ZERO, &mut out));
        assert!(out.ends_with(b"$5\r\n0.001\r\n"), "nothing would be for ever");
    }
}
