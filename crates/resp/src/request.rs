//! The end of a request, and its arguments.
//!
//! [`Scanner::scan`] looks at the unread bytes of one client and finds the end of the first request. It can be called again
//! with more bytes and goes on where it stopped.
//!
//! Refusals carry Redis's own wording (networking.c of Redis 7.0). The framing is stricter, as a proxy needs it: a header line
//! ends in exactly CR LF, and so does a bulk body. Redis accepts any byte in the place of the LF and does not check the two
//! bytes behind a body. A proxy that forwards bytes framed by another rule lets a client smuggle requests past it.

use crate::inline;
use crate::integer::{parse_i64, short_header};
use crate::reply::Passed;

/// Where one argument stands in the bytes of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of its first byte.
    pub start: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// One complete request in RESP form (an array of bulk strings), borrowed from the buffer in which it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The whole request as it is forwarded, with header and line ends.
    pub bytes: &'a [u8],
    args: &'a [Span],
}

impl<'a> Request<'a> {
    /// The request that `bytes` is, with its arguments at `args` (at least one).
    pub fn new(bytes: &'a [u8], args: &'a [Span]) -> Request<'a> {
        debug_assert!(!args.is_empty(), "a request has a name");
        Request { bytes, args }
    }

    /// Number of arguments, the command's name included.
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Never true of a request that was scanned; for completeness beside `len`.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// Argument `index`; 0 is the command's name. Panics past the end.
    #[inline(always)]
    pub fn arg(&self, index: usize) -> &'a [u8] {
        let span = self.args[index];
        &self.bytes[span.start..span.start + span.len]
    }

    /// Where argument `index` stands in [`Request::bytes`]. Panics past the end.
    pub fn span(&self, index: usize) -> Span {
        self.args[index]
    }

    /// Argument `index`, if there is one.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.args.len()).then(|| self.arg(index))
    }

    /// Argument `index` as it stands on the wire: `$3\r\nkey\r\n`. For requests that are put together from parts of
    /// others.
    pub fn raw_arg(&self, index: usize) -> &'a [u8] {
        self.raw_args(index, 1)
    }

    /// The `count` arguments from `first` on as they stand on the wire; as many as there are.
    pub fn raw_args(&self, first: usize, count: usize) -> &'a [u8] {
        let end_of = |index: usize| self.args[index].start + self.args[index].len + 2;
        // An argument's header begins where the previous argument ended, or behind the first line.
        let start = match first {
            0 => self.bytes.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1),
            _ => end_of(first - 1),
        };
        match (first + count).min(self.len()) {
            last if last <= first => &self.bytes[start..start],
            last => &self.bytes[start..end_of(last - 1)],
        }
    }

    /// All arguments in order.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + '_ {
        (0..self.len()).map(|index| self.arg(index))
    }
}

/// Bounds of the sizes that one request may announce or occupy.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Arguments of one request. Redis 7.0 takes 2^31-1; more than a million has no honest use.
    pub args_max: i64,
    /// Bytes of one argument: Redis's `proto-max-bulk-len`.
    pub bulk_bytes_max: i64,
    /// Bytes of an inline request or of a header line: Redis's `PROTO_INLINE_MAX_SIZE`. The bound is exact here; in Redis it
    /// depends on how the bytes were cut into packets. Not below 8: shorter headers are not measured.
    pub line_bytes_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits { args_max: 1024 * 1024, bulk_bytes_max: 512 * 1024 * 1024, line_bytes_max: 64 * 1024 }
    }
}

/// The result of a scan of the unread bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// The first `len` bytes are one request in RESP form; its spans are in the list given to the call.
    Request {
        /// Bytes of the request.
        len: usize,
    },
    /// The first `len` bytes are one inline line. `inline` holds it again in RESP form, with the spans for that form.
    Inline {
        /// Bytes of the line, its end included.
        len: usize,
    },
    /// The first `len` bytes are no request and get no reply: a blank line, `*0`, `*-1`.
    Nothing {
        /// Bytes to drop.
        len: usize,
    },
    /// The end is missing; call again with these bytes and more.
    Incomplete,
}

/// Reason why the bytes are no request. The client gets `-ERR Protocol error: ` and this text, then the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The number behind `*` is none, or above the limit.
    #[error("invalid multibulk length")]
    ArgsLen,
    /// The number behind `$` is none, negative, or above the limit.
    #[error("invalid bulk length")]
    BulkLen,
    /// Something else stands where an argument must begin.
    #[error("expected '$', got '{}'", printable(*.0))]
    ExpectedBulk(u8),
    /// A line without end that is not a header.
    #[error("too big inline request")]
    InlineTooBig,
    /// A `*` line without end.
    #[error("too big mbulk count string")]
    ArgsLineTooBig,
    /// A `$` line without end.
    #[error("too big bulk count string")]
    BulkLineTooBig,
    /// An inline request whose quotes do not close, or close inside a word.
    #[error("unbalanced quotes in request")]
    UnbalancedQuotes,
    /// More arguments than a client may announce before its login.
    #[error("unauthenticated multibulk length")]
    UnauthenticatedArgs,
    /// A longer argument than a client may announce before its login.
    #[error("unauthenticated bulk length")]
    UnauthenticatedBulk,
    /// CR without LF behind a header, or a body that does not end in CR LF. Redis accepts both.
    #[error("expected CRLF")]
    ExpectedCrlf,
    /// A NUL byte in an inline line, where Redis waits without end.
    #[error("NUL byte in inline request")]
    NulInLine,
}

/// Redis prints the byte unchanged; a byte that would break the line becomes a blank here.
fn printable(byte: u8) -> char {
    match byte {
        b'\r' | b'\n' => ' ',
        byte => char::from(byte),
    }
}

/// Finds the end of the first request; remembers how far it came.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    /// Offset of the first byte that is still needed.
    at: usize,
    /// Number of missing arguments; 0 before the first line was read.
    args_left: u32,
    /// Arguments announced by the first line.
    args_total: u32,
    /// Length of the argument whose header was read and whose body was not.
    body: Option<usize>,
}

impl Scanner {
    /// Looks at `bytes`, which begin where the last request ended. `args` and `inline` are scratch space: their former contents
    /// are lost.
    ///
    /// On [`Scanned::Incomplete`] the same bytes, and more, must be given to the next call. On everything else the scanner is
    /// ready for the bytes behind the request. Inlined into the loop over a client's requests, so that results need not go
    /// through memory.
    #[inline(always)]
    pub fn scan(
        &mut self,
        bytes: &[u8],
        limits: &RequestLimits,
        args: &mut Vec<Span>,
        inline: &mut Vec<u8>,
    ) -> Result<Scanned, RequestError> {
        args.clear();
        if self.args_left == 0
            && let Some(len) = plain_request(bytes, limits, args)
        {
            return Ok(Scanned::Request { len });
        }
        self.scan_closely(bytes, limits, args, inline)
    }

    /// As [`Scanner::scan`], for unusual or incomplete requests.
    #[inline(never)]
    fn scan_closely(
        &mut self,
        bytes: &[u8],
        limits: &RequestLimits,
        args: &mut Vec<Span>,
        inline: &mut Vec<u8>,
    ) -> Result<Scanned, RequestError> {
        args.clear();
        match bytes.first() {
            None => return Ok(Scanned::Incomplete),
            Some(b'*') => {}
            Some(_) => return self.scan_inline(bytes, limits, args, inline),
        }
        if self.args_left == 0
            && let Some(nothing) = self.scan_first_line(bytes, limits)?
        {
            return Ok(nothing);
        }
        while self.args_left > 0 {
            let Some(span) = self.scan_arg(bytes, limits)? else { return Ok(Scanned::Incomplete) };
            args.push(span);
        }
        let done = std::mem::take(self);
        if args.len() < done.args_total as usize {
            // Resumed half-way: the earlier spans were lost with the scratch space. All is there now, so one more
            // pass from the start finds them; a request is walked twice at most, however it was cut.
            return self.scan(bytes, limits, args, inline);
        }
        Ok(Scanned::Request { len: done.at })
    }

    /// Whether the next [`Scanner::scan`] begins a request, and does not go on with one.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.args_left == 0
    }

    /// The number of missing bytes of the first request that are certain, by its headers in an unfinished [`Scanner::scan`].
    pub fn bytes_announced(&self) -> usize {
        self.at + self.body.map_or(0, |len| len + 2)
    }

    /// Arguments of the first request as its first line announced them; 0 if that was not seen yet.
    pub fn args_announced(&self) -> usize {
        self.args_total as usize
    }

    /// As [`Scanner::scan`], for callers that relay the bytes of a RESP request and keep none. The next call must get
    /// the bytes that follow them. Only an unfinished header line is left behind.
    pub fn pass(&mut self, bytes: &[u8], limits: &RequestLimits) -> Result<Passed, RequestError> {
        self.at = 0;
        if self.args_left == 0 && self.scan_first_line(bytes, limits)?.is_some() {
            return Ok(Passed { len: 0, complete: false });
        }
        while self.args_left > 0 {
            if self.scan_arg(bytes, limits)?.is_none() {
                return Ok(Passed::part(std::mem::take(&mut self.at), &mut self.body, bytes));
            }
        }
        Ok(Passed { len: std::mem::take(self).at, complete: true })
    }

    /// Reads `*n`. `Some` ends the scan: nothing to do, or not all there.
    #[cold]
    fn scan_first_line(
        &mut self,
        bytes: &[u8],
        limits: &RequestLimits,
    ) -> Result<Option<Scanned>, RequestError> {
        let Some((number, end)) = header_line(bytes, 0, limits, RequestError::ArgsLineTooBig)? else {
            return Ok(Some(Scanned::Incomplete));
        };
        let count =
            parse_i64(number).filter(|&count| count <= limits.args_max).ok_or(RequestError::ArgsLen)?;
        if count <= 0 {
            return Ok(Some(Scanned::Nothing { len: end }));
        }
        self.at = end;
        self.args_left = u32::try_from(count).map_err(|_| RequestError::ArgsLen)?;
        self.args_total = self.args_left;
        Ok(None)
    }

    /// Reads one argument: `$len`, body, CR LF.
    #[inline(never)]
    fn scan_arg(&mut self, bytes: &[u8], limits: &RequestLimits) -> Result<Option<Span>, RequestError> {
        let len = match self.body {
            Some(len) => len,
            None => {
                match bytes.get(self.at) {
                    None => return Ok(None),
                    Some(b'$') => {}
                    Some(&other) => return Err(RequestError::ExpectedBulk(other)),
                }
                let Some((number, end)) = header_line(bytes, self.at, limits, RequestError::BulkLineTooBig)?
                else {
                    return Ok(None);
                };
                let len = parse_i64(number)
                    .filter(|len| (0..=limits.bulk_bytes_max).contains(len))
                    .and_then(|len| usize::try_from(len).ok())
                    .ok_or(RequestError::BulkLen)?;
                self.at = end;
                self.body = Some(len);
                len
            }
        };
        let body_end = self.at + len;
        match bytes.get(body_end..) {
            Some([b'\r', b'\n', ..]) => {}
            None | Some([] | [b'\r']) => return Ok(None),
            Some(_) => return Err(RequestError::ExpectedCrlf),
        }
        let span = Span { start: self.at, len };
        self.at = body_end + 2;
        self.body = None;
        self.args_left -= 1;
        Ok(Some(span))
    }

    /// Reads one line that is no header. `at` remembers how far there is no line end.
    #[cold]
    fn scan_inline(
        &mut self,
        bytes: &[u8],
        limits: &RequestLimits,
        args: &mut Vec<Span>,
        inline: &mut Vec<u8>,
    ) -> Result<Scanned, RequestError> {
        let window = &bytes[..bytes.len().min(limits.line_bytes_max + 1)];
        let from = self.at.min(window.len());
        let end = memchr::memchr2(b'\n', 0, &window[from..]).map(|at| at + from);
        match end {
            None if bytes.len() > limits.line_bytes_max => Err(RequestError::InlineTooBig),
            None => {
                self.at = bytes.len();
                Ok(Scanned::Incomplete)
            }
            Some(end) if window[end] == 0 => Err(RequestError::NulInLine),
            Some(end) => {
                self.at = 0;
                let line = window[..end].strip_suffix(b"\r").unwrap_or(&window[..end]);
                inline::to_request(line, inline, args).ok_or(RequestError::UnbalancedQuotes)?;
                let len = end + 1;
                Ok(if args.is_empty() { Scanned::Nothing { len } } else { Scanned::Inline { len } })
            }
        }
    }
}

/// The length of the request that begins `bytes`, and its arguments, if it is plain. A plain request is complete and has
/// headers of few digits, as nearly all have. This takes less than half of the work of [`Scanner::scan_arg`], which explains
/// the others: `None` says nothing about them.
#[inline(always)]
fn plain_request(bytes: &[u8], limits: &RequestLimits, args: &mut Vec<Span>) -> Option<usize> {
    let [b'*', text @ ..] = bytes else { return None };
    let count = short_header(text)?;
    if !(1..=limits.args_max).contains(&(count.number() as i64)) {
        return None;
    }
    plain_args(bytes, 1 + count.end(), count.number(), limits, args)
}

/// The offset behind the next `count` arguments from offset `at` of `bytes` on, which are listed in `args`. All must be
/// complete and plain: with headers of few digits. `None` says nothing about other arguments.
#[inline(always)]
pub fn plain_args(
    bytes: &[u8],
    mut at: usize,
    count: usize,
    limits: &RequestLimits,
    args: &mut Vec<Span>,
) -> Option<usize> {
    for _ in 0..count {
        let (arg, next) = plain_arg(bytes, at, limits)?;
        args.push(arg);
        at = next;
    }
    Some(at)
}

/// The argument at offset `at` of `bytes`, and the offset behind it, if all of it is there and its header has few digits.
#[inline(always)]
pub fn plain_arg(bytes: &[u8], at: usize, limits: &RequestLimits) -> Option<(Span, usize)> {
    let [b'$', text @ ..] = bytes.get(at..)? else { return None };
    let header = short_header(text)?;
    let len = header.number();
    if len as i64 > limits.bulk_bytes_max {
        return None;
    }
    let [b'\r', b'\n', ..] = text.get(header.end() + len..)? else { return None };
    let start = at + 1 + header.end();
    Some((Span { start, len }, start + len + 2))
}

/// The text between the type byte at `start` and its CR LF, and the offset behind them; `None` while it is not all
/// there.
fn header_line<'a>(
    bytes: &'a [u8],
    start: usize,
    limits: &RequestLimits,
    too_big: RequestError,
) -> Result<Option<(&'a [u8], usize)>, RequestError> {
    let line = &bytes[start + 1..];
    let window = &line[..line.len().min(limits.line_bytes_max + 1)];
    // Numbers are short: a byte loop beats a vector search here. NUL ends the wait as CR does, see `NulInLine`.
    let Some(len) = window.iter().position(|&byte| byte == b'\r' || byte == 0) else {
        return if window.len() > limits.line_bytes_max { Err(too_big) } else { Ok(None) };
    };
    if window[len] == 0 {
        return Err(RequestError::ExpectedCrlf);
    }
    match line.get(len + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((&line[..len], start + 1 + len + 2))),
        Some(_) => Err(RequestError::ExpectedCrlf),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans `bytes` in one go.
    fn scan(bytes: &[u8]) -> (Result<Scanned, RequestError>, Vec<Vec<u8>>) {
        let (mut args, mut inline) = (Vec::new(), Vec::new());
        let scanned = Scanner::default().scan(bytes, &RequestLimits::default(), &mut args, &mut inline);
        let source = if matches!(scanned, Ok(Scanned::Inline { .. })) { &inline[..] } else { bytes };
        let words = args.iter().map(|span| source[span.start..span.start + span.len].to_vec()).collect();
        (scanned, words)
    }

    /// Scans `bytes` as they arrive one by one.
    fn scan_bytewise(bytes: &[u8]) -> Result<Scanned, RequestError> {
        let (mut args, mut inline) = (Vec::new(), Vec::new());
        let mut scanner = Scanner::default();
        for end in 0..bytes.len() {
            let scanned = scanner.scan(&bytes[..end], &RequestLimits::default(), &mut args, &mut inline);
            if !matches!(scanned, Ok(Scanned::Incomplete)) {
                return scanned;
            }
        }
        scanner.scan(bytes, &RequestLimits::default(), &mut args, &mut inline)
    }

    #[test]
    fn a_request_ends_where_its_last_argument_does() {
        let (scanned, words) = scan(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n");
        assert_eq!(scanned, Ok(Scanned::Request { len: 20 }));
        assert_eq!(words, [b"GET".to_vec(), b"a".to_vec()]);
    }

    #[test]
    fn a_request_in_pieces_is_passed_on_exactly() {
        let request = b"*3\r\n$3\r\nSET\r\n$2\r\nab\r\n$12\r\n0123456789\r\n\r\n";
        let longer = [&request[..], b"*1\r\n$4\r\nPING\r\n"].concat();
        for step in 1..longer.len() {
            let (mut scanner, mut passed, mut held) = (Scanner::default(), Vec::new(), Vec::new());
            for piece in longer.chunks(step) {
                held.extend_from_slice(piece);
                let found = scanner.pass(&held, &RequestLimits::default()).expect("valid");
                passed.extend(held.drain(..found.len));
                if found.complete {
                    break;
                }
                assert!(held.len() < 16, "only a line's beginning is held back: {held:?}");
            }
            assert_eq!(passed, request, "in steps of {step}");
        }
    }

    #[test]
    fn a_large_argument_is_known_before_it_comes() {
        let (mut scanner, mut args, mut inline) = (Scanner::default(), Vec::new(), Vec::new());
        let bytes = b"*3\r\n$3\r\nSET\r\n$2\r\nab\r\n$100000\r\nx";
        let scanned = scanner.scan(bytes, &RequestLimits::default(), &mut args, &mut inline);
        assert_eq!((scanned, args.len()), (Ok(Scanned::Incomplete), 2));
        assert_eq!((scanner.bytes_announced(), scanner.args_announced()), (bytes.len() - 1 + 100_002, 3));
    }

    #[test]
    fn raw_arguments_are_the_wire_bytes() {
        let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n";
        let (mut args, mut inline) = (Vec::new(), Vec::new());
        Scanner::default()
            .scan(bytes, &RequestLimits::default(), &mut args, &mut inline)
            .expect("well formed");
        let request = Request::new(bytes, &args);
        assert_eq!(request.raw_arg(0), b"$3\r\nSET\r\n");
        assert_eq!(request.raw_arg(1), b"$1\r\na\r\n");
        assert_eq!(request.raw_arg(2), b"$2\r\n\r\n\r\n");
        assert_eq!(request.raw_args(1, 2), b"$1\r\na\r\n$2\r\n\r\n\r\n");
        assert_eq!(request.raw_args(2, 9), request.raw_arg(2));
        assert_eq!(request.raw_args(3, 1), b"");
        assert_eq!(request.get(3), None);
    }

    #[test]
    fn empty_requests_are_dropped() {
        for (bytes, len) in [
            (&b"*0\r\nx"[..], 4),
            (b"*-1\r\n", 5),
            (b"*-100\r\n", 7),
            (b"\r\nPING", 2),
            (b"\n", 1),
            (b"  \r\n", 4),
        ] {
            assert_eq!(scan(bytes).0, Ok(Scanned::Nothing { len }), "{bytes:?}");
        }
    }

    #[test]
    fn inline_lines_are_put_into_resp_form() {
        let (scanned, words) = scan(b"SET key \"a b\\x41\"\r\nPING\r\n");
        assert_eq!(scanned, Ok(Scanned::Inline { len: 19 }));
        assert_eq!(words, [b"SET".to_vec(), b"key".to_vec(), b"a bA".to_vec()]);
        assert_eq!(scan(b"PING\n").0, Ok(Scanned::Inline { len: 5 }));
    }

    #[test]
    fn refusals_are_redis_own_or_stricter() {
        use RequestError::*;
        let cases: &[(&[u8], RequestError)] = &[
            (b"*+1\r\n", ArgsLen),
            (b"*01\r\n", ArgsLen),
            (b"* 1\r\n", ArgsLen),
            (b"*1x\r\n", ArgsLen),
            (b"*\r\n", ArgsLen),
            (b"*-0\r\n", ArgsLen),
            (b"*1048577\r\n", ArgsLen),
            (b"*18446744073709551617\r\n", ArgsLen),
            (b"*1\r\n$-1\r\n", BulkLen),
            (b"*1\r\n$04\r\nPING\r\n", BulkLen),
            (b"*1\r\n$+4\r\nPING\r\n", BulkLen),
            (b"*1\r\n$536870913\r\n", BulkLen),
            (b"*1\r\n$4294967300\r\n", BulkLen),
            (b"*1\r\n:4\r\n", ExpectedBulk(b':')),
            (b"*1\r\n*1\r\n", ExpectedBulk(b'*')),
            (b"*1\rX$4\rYPING\r\n", ExpectedCrlf),
            (b"*1\r\n$4\r\nPINGXX", ExpectedCrlf),
            (b"*1\r\n$4\r\nPING\n*", ExpectedCrlf),
            (b"*1\n$4\nPING\n*1\r\n", ArgsLen),
            (b"*1\r\n\0", ExpectedBulk(0)),
            (b"PI\0NG\r\n", NulInLine),
            (b"ECHO \"abc\r\n", UnbalancedQuotes),
            (b"ECHO \"abc\"d\r\n", UnbalancedQuotes),
        ];
        for (bytes, error) in cases {
            assert_eq!(scan(bytes).0, Err(*error), "{:?}", String::from_utf8_lossy(bytes));
            assert_eq!(scan_bytewise(bytes), Err(*error), "bytewise {:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn lines_are_bounded_exactly() {
        let limit = RequestLimits::default().line_bytes_max;
        let line = |prefix: &[u8], len: usize| [prefix, &vec![b'1'; len][..]].concat();
        assert_eq!(scan(&line(b"", limit)).0, Ok(Scanned::Incomplete));
        assert_eq!(scan(&line(b"", limit + 1)).0, Err(RequestError::InlineTooBig));
        assert_eq!(scan(&line(b"*", limit)).0, Ok(Scanned::Incomplete));
        assert_eq!(scan(&line(b"*", limit + 1)).0, Err(RequestError::ArgsLineTooBig));
        assert_eq!(scan(&line(b"*1\r\n$", limit + 1)).0, Err(RequestError::BulkLineTooBig));
        let with_end = [&line(b"", limit + 1)[..], b"\r\n"].concat();
        assert_eq!(scan(&with_end).0, Err(RequestError::InlineTooBig));
    }

    #[test]
    fn cutting_anywhere_changes_nothing() {
        let request = b"*3\r\n$4\r\nMSET\r\n$0\r\n\r\n$5\r\na\r\nbc\r\n";
        assert_eq!(scan_bytewise(request), Ok(Scanned::Request { len: request.len() }));
        for cut in 1..request.len() {
            let (mut args, mut inline) = (Vec::new(), Vec::new());
            let mut scanner = Scanner::default();
            let limits = RequestLimits::default();
            let first = scanner.scan(&request[..cut], &limits, &mut args, &mut inline);
            assert_eq!(first, Ok(Scanned::Incomplete), "cut at {cut}");
            let second = scanner.scan(request, &limits, &mut args, &mut inline);
            assert_eq!(second, Ok(Scanned::Request { len: request.len() }), "cut at {cut}");
            assert_eq!(args.len(), 3, "cut at {cut}");
            assert_eq!(scanner.at, 0, "ready for what follows");
        }
    }
}
