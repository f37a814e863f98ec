//! For how long a request may keep its client waiting.
//!
//! The options of XREAD are walked exactly as Redis walks them (t_stream.c of Redis 7.0): who overlooks a BLOCK where
//! Redis finds it stops every client behind it on a shared connection. What cannot be told counts as waiting for ever:
//! either Redis refuses it at once, or it knows better.

use std::time::Duration;

use resp::Request;
use resp::integer::parse_i64;

use crate::carry::Wait;
use crate::keys::is_word;

impl Wait {
    /// How long a node may take to answer `request`, whose number of arguments fits, beyond its usual time;
    /// [`Duration::MAX`] for ever. `None` if it does not wait at all.
    pub fn patience(self, request: &Request<'_>) -> Option<Duration> {
        match self {
            Wait::Last => Some(seconds(request.arg(request.len() - 1))),
            Wait::First => Some(seconds(request.arg(1))),
            Wait::Block | Wait::BlockAcross => blocks(request),
            Wait::Untold => Some(Duration::MAX),
        }
    }
}

/// A number of seconds, with a fraction; 0 for ever.
fn seconds(arg: &[u8]) -> Duration {
    let seconds = std::str::from_utf8(arg).ok().and_then(|text| text.parse::<f64>().ok());
    let known = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    known.filter(|duration| !duration.is_zero()).unwrap_or(Duration::MAX)
}

/// A number of milliseconds; 0 for ever.
fn milliseconds(arg: &[u8]) -> Duration {
    let known = parse_i64(arg).and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis);
    known.filter(|duration| !duration.is_zero()).unwrap_or(Duration::MAX)
}

/// What stands behind the BLOCK options of XREAD or XREADGROUP; the longest, if there are several.
fn blocks(request: &Request<'_>) -> Option<Duration> {
    let (mut at, mut longest) = (1, None);
    while let Some(word) = request.get(at) {
        at += match () {
            () if is_word(word, b"block") => {
                longest = longest.max(Some(request.get(at + 1).map_or(Duration::MAX, milliseconds)));
                2
            }
            () if is_word(word, b"streams") => break,
            () if is_word(word, b"count") => 2,
            () if is_word(word, b"group") => 3,
            () if is_word(word, b"noack") => 1,
            () => break,
        };
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_request;

    fn patience(wait: Wait, line: &str) -> Option<Duration> {
        with_request(line, |request| wait.patience(request))
    }

    #[test]
    fn a_read_that_would_block_is_known_and_a_key_named_block_is_none() {
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
    fn what_is_no_time_counts_as_for_ever() {
        assert_eq!(patience(Wait::Last, "BLPOP a b 0.25"), Some(Duration::from_millis(250)));
        assert_eq!(patience(Wait::First, "BLMPOP 2 1 a LEFT"), Some(Duration::from_secs(2)));
        for line in ["BLPOP a 0", "BLPOP a x", "BLPOP a -1", "BLPOP a 1e300", "BLPOP a 0x1p3"] {
            assert_eq!(patience(Wait::Last, line), Some(Duration::MAX), "{line}");
        }
    }
}
