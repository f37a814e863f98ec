//! Writing RESP2: appends to a buffer, never fails.

/// `*len\r\n`
pub fn array_header(out: &mut Vec<u8>, len: usize) {
    header(out, b'*', len);
}

/// `$len\r\nbody\r\n`
pub fn bulk(out: &mut Vec<u8>, body: &[u8]) {
    header(out, b'$', body.len());
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

/// The RESP2 nil: `$-1\r\n`
pub fn nil(out: &mut Vec<u8>) {
    out.extend_from_slice(b"$-1\r\n");
}

/// `:value\r\n`
pub fn integer(out: &mut Vec<u8>, value: i64) {
    out.push(b':');
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// `+text\r\n`; CR and LF in `text` become blanks, as Redis does it.
pub fn simple(out: &mut Vec<u8>, text: &[u8]) {
    line(out, b'+', text);
}

/// `-text\r\n`; CR and LF in `text` become blanks, as Redis does it.
pub fn error(out: &mut Vec<u8>, text: &[u8]) {
    line(out, b'-', text);
}

/// A whole request: `*n\r\n` and each argument as a bulk.
pub fn request(out: &mut Vec<u8>, args: &[&[u8]]) {
    array_header(out, args.len());
    for arg in args {
        bulk(out, arg);
    }
}

fn header(out: &mut Vec<u8>, kind: u8, len: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend(text.iter().map(|&byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_written_as_redis_writes_it() {
        let mut out = Vec::new();
        array_header(&mut out, 2);
        bulk(&mut out, b"a\r\nb");
        nil(&mut out);
        integer(&mut out, -7);
        simple(&mut out, b"OK");
        error(&mut out, b"ERR a\r\nb");
        assert_eq!(out, b"*2\r\n$4\r\na\r\nb\r\n$-1\r\n:-7\r\n+OK\r\n-ERR a  b\r\n");
    }
}
