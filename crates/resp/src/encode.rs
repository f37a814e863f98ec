//! Writing RESP: appends to a buffer, never fails. Values with a type of their own in RESP3 take `resp3`. Where that is false,
//! they are written as Redis writes them for a client of RESP2.

/// Bytes around a text.
const FRAME_BYTES_MAX: usize = 32;

/// `*len\r\n`
pub fn array_header(out: &mut Vec<u8>, len: usize) {
    header(out, b'*', len);
}

/// The header of a map of `pairs` pairs: `%pairs\r\n`, or that of an array of names and values in turn.
pub fn map_header(out: &mut Vec<u8>, pairs: usize, resp3: bool) {
    match resp3 {
        true => header(out, b'%', pairs),
        false => header(out, b'*', 2 * pairs),
    }
}

/// The header of a set: `~len\r\n`, or that of an array.
pub fn set_header(out: &mut Vec<u8>, len: usize, resp3: bool) {
    header(out, if resp3 { b'~' } else { b'*' }, len);
}

/// A text for people: `=len\r\ntxt:text\r\n`, or a bulk.
pub fn verbatim(out: &mut Vec<u8>, text: &[u8], resp3: bool) {
    verbatim_of(out, &[text], resp3);
}

/// The same of a text in pieces, which are put together in `out` and nowhere else.
pub fn verbatim_of(out: &mut Vec<u8>, pieces: &[&[u8]], resp3: bool) {
    const KIND: &[u8] = b"txt:";
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    out.reserve(FRAME_BYTES_MAX + len);
    match resp3 {
        true => {
            header(out, b'=', KIND.len() + len);
            out.extend_from_slice(KIND);
        }
        false => header(out, b'$', len),
    }
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    out.extend_from_slice(b"\r\n");
}

/// A number with a fraction: `,0.5\r\n`, or a bulk.
pub fn double(out: &mut Vec<u8>, value: f64, resp3: bool) {
    let text = value.to_string();
    match resp3 {
        true => out.extend_from_slice(format!(",{text}\r\n").as_bytes()),
        false => bulk(out, text.as_bytes()),
    }
}

/// Nothing: `_\r\n`, or the nil of RESP2.
pub fn null(out: &mut Vec<u8>, resp3: bool) {
    match resp3 {
        true => out.extend_from_slice(b"_\r\n"),
        false => nil(out),
    }
}

/// The nil in the place of an array or a map: `_\r\n`, or the nil array of RESP2.
pub fn null_array(out: &mut Vec<u8>, resp3: bool) {
    match resp3 {
        true => out.extend_from_slice(b"_\r\n"),
        false => out.extend_from_slice(b"*-1\r\n"),
    }
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

/// Fields of a map with texts.
pub fn texts(out: &mut Vec<u8>, fields: &[(&str, &str)]) {
    for (name, text) in fields {
        bulk(out, name.as_bytes());
        bulk(out, text.as_bytes());
    }
}

/// Fields of a map with numbers.
pub fn integers(out: &mut Vec<u8>, fields: &[(&str, i64)]) {
    for (name, value) in fields {
        bulk(out, name.as_bytes());
        integer(out, *value);
    }
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

    #[test]
    fn resp3_types_become_arrays_and_bulks_in_resp2() {
        for (resp3, expected) in [
            (true, "%1\r\n~2\r\n=6\r\ntxt:hi\r\n_\r\n,1.25\r\n"),
            (false, "*2\r\n*2\r\n$2\r\nhi\r\n$-1\r\n$4\r\n1.25\r\n"),
        ] {
            let mut out = Vec::new();
            map_header(&mut out, 1, resp3);
            set_header(&mut out, 2, resp3);
            verbatim(&mut out, b"hi", resp3);
            null(&mut out, resp3);
            double(&mut out, 1.25, resp3);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
