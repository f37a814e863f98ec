//! Replies as JSON, piece by piece.

use crate::tokens::Token;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The form of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Whether strings are in base64. The status OK never is.
    pub base64: bool,
    /// Whether a status or an error is a pair of a flag and a text, as in webdis.
    pub has_pairs: bool,
    /// Whether an array is an object whose names and values alternate.
    pub is_object: bool,
}

/// A writer of one value.
#[derive(Debug)]
pub(crate) struct Json {
    form: Form,
    /// For each array that is open, the number of elements so far.
    open: Vec<usize>,
    /// The first bytes of a character or of a group of base64 whose rest is to come.
    carry: Vec<u8>,
}

impl Json {
    pub(crate) fn new(form: Form) -> Json {
        Json { form, open: Vec::new(), carry: Vec::new() }
    }

    /// The number of arrays that are open.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Writes a token of the value.
    pub(crate) fn write(&mut self, token: Token<'_>, out: &mut Vec<u8>) {
        match token {
            Token::Part(part) => return self.write_part(part, out),
            Token::StringEnd => return self.end_string(out),
            Token::ArrayEnd => {
                self.open.pop();
                return out.push(if self.is_object() { b'}' } else { b']' });
            }
            _ => {}
        }
        self.separate(out);
        match token {
            Token::Status(text) => self.write_status(true, text, out),
            Token::Error(text) => self.write_status(false, text, out),
            Token::Integer(number) if self.is_name() => {
                out.extend_from_slice(format!("\"{number}\"").as_bytes())
            }
            Token::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Token::Null if self.is_name() => out.extend_from_slice(b"\"\""),
            Token::Null => out.extend_from_slice(b"null"),
            Token::Array(_) => {
                out.push(if self.is_object() { b'{' } else { b'[' });
                self.open.push(0);
            }
            _ => out.push(b'"'),
        }
    }

    /// Whether the array at this depth is an object.
    fn is_object(&self) -> bool {
        self.form.is_object && self.open.is_empty()
    }

    /// Whether the value that was begun is the name of a member.
    fn is_name(&self) -> bool {
        self.form.is_object && self.open.len() == 1 && self.open[0] % 2 == 1
    }

    /// Writes the separator before a value.
    fn separate(&mut self, out: &mut Vec<u8>) {
        let is_object = self.form.is_object && self.open.len() == 1;
        let Some(elements) = self.open.last_mut() else { return };
        if *elements > 0 {
            out.push(if is_object && *elements % 2 == 1 { b':' } else { b',' });
        }
        *elements += 1;
    }

    fn write_status(&mut self, is_ok: bool, text: &[u8], out: &mut Vec<u8>) {
        if self.form.has_pairs {
            out.extend_from_slice(if is_ok { b"[true," } else { b"[false," });
        }
        out.push(b'"');
        match text {
            b"OK" => out.extend_from_slice(text),
            _ => self.write_part(text, out),
        }
        self.end_string(out);
        if self.form.has_pairs {
            out.push(b']');
        }
    }

    fn write_part(&mut self, part: &[u8], out: &mut Vec<u8>) {
        let joined;
        let bytes = match self.carry.is_empty() {
            true => part,
            false => {
                self.carry.extend_from_slice(part);
                joined = std::mem::take(&mut self.carry);
                &joined
            }
        };
        let left = if self.form.base64 { write_base64(bytes, out) } else { write_text(bytes, out) };
        self.carry.extend_from_slice(left);
    }

    fn end_string(&mut self, out: &mut Vec<u8>) {
        let left = std::mem::take(&mut self.carry);
        match self.form.base64 {
            true => out.extend_from_slice(STANDARD.encode(&left).as_bytes()),
            false if !left.is_empty() => out.extend_from_slice("\u{fffd}".as_bytes()),
            false => {}
        }
        out.push(b'"');
    }
}

/// Writes whole groups of three bytes. Returns the rest.
fn write_base64<'a>(bytes: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let (groups, left) = bytes.split_at(bytes.len() / 3 * 3);
    out.extend_from_slice(STANDARD.encode(groups).as_bytes());
    left
}

/// Writes whole characters. Returns the beginning of one whose rest is to come. Bytes that are no UTF-8 become U+FFFD.
fn write_text<'a>(mut bytes: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    loop {
        let error = match std::str::from_utf8(bytes) {
            Ok(text) => {
                write_escaped(text, out);
                return &[];
            }
            Err(error) => error,
        };
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        write_escaped(std::str::from_utf8(valid).unwrap_or_default(), out);
        let Some(invalid) = error.error_len() else { return rest };
        out.extend_from_slice("\u{fffd}".as_bytes());
        bytes = &rest[invalid..];
    }
}

/// Writes the inside of a JSON string.
pub(crate) fn write_escaped(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\')) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Tokens;
    use serde_json::{Value, json};

    const PLAIN: Form = Form { base64: false, has_pairs: false, is_object: false };

    /// `reply` in this form. It is the same in pieces of any size.
    fn written(form: Form, reply: &[u8]) -> String {
        let in_pieces = |size: usize| {
            let (mut json, mut tokens, mut out) = (Json::new(form), Tokens::default(), Vec::new());
            for piece in reply.chunks(size) {
                tokens.read(piece, |token| json.write(token, &mut out)).expect("RESP2");
            }
            String::from_utf8(out).expect("JSON is UTF-8")
        };
        let whole = in_pieces(reply.len());
        (1..reply.len()).for_each(|size| assert_eq!(in_pieces(size), whole));
        whole
    }

    fn value(form: Form, reply: &[u8]) -> Value {
        serde_json::from_str(&written(form, reply)).expect("JSON")
    }

    #[test]
    fn replies_become_json() {
        let reply = "*6\r\n+OK\r\n:-3\r\n$-1\r\n*0\r\n*2\r\n$7\r\nä\"\\\n\u{1}z\r\n$0\r\n\r\n-ERR x\r\n";
        assert_eq!(
            value(PLAIN, reply.as_bytes()),
            json!(["OK", -3, null, [], ["ä\"\\\n\u{1}z", ""], "ERR x"])
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(written(PLAIN, b"$6\r\na\xff\xc3\xa4b\xe2\r\n"), "\"a\u{fffd}äb\u{fffd}\"");
    }

    #[test]
    fn base64_is_for_all_strings_but_ok() {
        let form = Form { base64: true, ..PLAIN };
        let reply = b"*4\r\n+OK\r\n+PONG\r\n$2\r\nOK\r\n$4\r\n\x00\xff\x01\x02\r\n";
        assert_eq!(value(form, reply), json!(["OK", "UE9ORw==", "T0s=", "AP8BAg=="]));
    }

    #[test]
    fn webdis_has_pairs_and_objects() {
        let form = Form { has_pairs: true, ..PLAIN };
        assert_eq!(value(form, b"+OK\r\n"), json!([true, "OK"]));
        assert_eq!(value(form, b"-ERR x\r\n"), json!([false, "ERR x"]));
        let form = Form { is_object: true, ..PLAIN };
        let reply = b"*4\r\n$1\r\na\r\n:1\r\n:2\r\n*1\r\n$1\r\nb\r\n";
        assert_eq!(value(form, reply), json!({"a": 1, "2": ["b"]}));
        assert_eq!(written(form, b"*0\r\n"), "{}");
    }
}
