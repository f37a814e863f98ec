//! Any bytes, cut anywhere, are the same replies as in one piece; and a reply's elements are the whole of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use resp::reply::{self, ReplyError, ReplyLimits, Scanner};

/// The lengths of the replies in `bytes`, which come in pieces that end at `cuts`, and how it ended.
fn read(bytes: &[u8], cuts: &[usize]) -> (Vec<usize>, Option<ReplyError>) {
    let limits = ReplyLimits::default();
    let mut scanner = Scanner::default();
    let mut lens = Vec::new();
    let mut at = 0;
    for end in cuts.iter().copied().chain([bytes.len()]) {
        loop {
            match scanner.scan(&bytes[at..end.max(at)], &limits) {
                Ok(Some(len)) => {
                    lens.push(len);
                    at += len;
                }
                Ok(None) => break,
                Err(error) => return (lens, Some(error)),
            }
        }
    }
    (lens, None)
}

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (cuts, bytes) = input;
    let whole = read(&bytes, &[]);
    let mut ends: Vec<usize> = cuts.iter().map(|&cut| usize::from(cut) % (bytes.len() + 1)).collect();
    ends.sort_unstable();
    assert_eq!(whole, read(&bytes, &ends), "cut at {ends:?}");
    let mut at = 0;
    for len in whole.0 {
        let one = &bytes[at..at + len];
        at += len;
        let _ = (reply::as_integer(one), reply::as_bulk(one), reply::is_error(one));
        if let Some(elements) = reply::elements(one) {
            let (announced, body) = (elements.len(), elements.rest().len());
            let parts: Vec<&[u8]> = elements.collect();
            assert_eq!(parts.len(), announced);
            assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), body);
        }
    }
});
