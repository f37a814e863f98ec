//! Any bytes, cut anywhere, are the same requests as in one piece. A request that is encoded anew stays the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use resp::encode;
use resp::request::{Request, RequestError, RequestLimits, Scanned, Scanner};

/// The result of one scan over all bytes: the arguments of each request, and how it ended.
type Found = (Vec<Vec<Vec<u8>>>, Option<RequestError>);

/// Reads requests from `bytes`, which come in pieces that end at `cuts`.
fn read(bytes: &[u8], cuts: &[usize]) -> Found {
    let limits = RequestLimits { line_bytes_max: 64, ..RequestLimits::default() };
    let (mut args, mut inline) = (Vec::new(), Vec::new());
    let mut scanner = Scanner::default();
    let mut requests = Vec::new();
    let mut at = 0;
    for end in cuts.iter().copied().chain([bytes.len()]) {
        loop {
            let rest = &bytes[at..end.max(at)];
            let (source, len) = match scanner.scan(rest, &limits, &mut args, &mut inline) {
                Ok(Scanned::Request { len }) => (&rest[..len], len),
                Ok(Scanned::Inline { len }) => (&inline[..], len),
                Ok(Scanned::Nothing { len }) => {
                    at += len;
                    continue;
                }
                Ok(Scanned::Incomplete) => break,
                Err(error) => return (requests, Some(error)),
            };
            requests.push(Request::new(source, &args).args().map(<[u8]>::to_vec).collect());
            at += len;
        }
    }
    (requests, None)
}

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (cuts, bytes) = input;
    let whole = read(&bytes, &[]);
    let mut ends: Vec<usize> = cuts.iter().map(|&cut| usize::from(cut) % (bytes.len() + 1)).collect();
    ends.sort_unstable();
    assert_eq!(whole, read(&bytes, &ends), "cut at {ends:?}");
    for request in &whole.0 {
        let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let mut again = Vec::new();
        encode::request(&mut again, &words);
        assert_eq!(read(&again, &[]).0, [request.clone()]);
    }
});
