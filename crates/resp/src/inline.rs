//! Inline requests: a line of words instead of RESP. People type them into nc, and health checks send them.
//!
//! The rules are those of Redis's `sdssplitargs`. Words are separated by blanks. `"…"` knows `\n \r \t \b \a`, `\xHH` and `\`
//! before anything else; `'…'` knows only `\'`. A closing quote must be followed by a blank or the end. Vertical tab and form
//! feed are blanks between words and behind quotes. Within a word they are a part of the word.

use crate::encode;
use crate::request::Span;

/// Rewrites `line` (without its end) as a RESP request into `request`, with its arguments at `args`. A line of blanks
/// gives no arguments. `None` if the quotes do not match.
pub fn to_request(line: &[u8], request: &mut Vec<u8>, args: &mut Vec<Span>) -> Option<()> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|&&byte| is_blank(byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            break;
        }
        let mut word = Vec::new();
        rest = read_word(rest, &mut word)?;
        words.push(word);
    }
    request.clear();
    args.clear();
    encode::array_header(request, words.len());
    for word in &words {
        encode::bulk(request, word);
        args.push(Span { start: request.len() - 2 - word.len(), len: word.len() });
    }
    Some(())
}

/// C's `isspace` in the C locale.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Whether `byte` ends a word that has begun outside of quotes.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Reads one word that may have quoted parts; returns what follows it.
fn read_word<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return Some(rest),
            [byte, ..] if ends_word(*byte) => return Some(rest),
            [b'"', quoted @ ..] => return read_double_quoted(quoted, word),
            [b'\'', quoted @ ..] => return read_single_quoted(quoted, word),
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

/// Reads up to the closing `"`, which must end the word.
fn read_double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                after
            }
            [b'"', after @ ..] => return end_of_word(after),
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

/// Reads up to the closing `'`, which must end the word.
fn read_single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                after
            }
            [b'\'', after @ ..] => return end_of_word(after),
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

/// Behind a closing quote only a blank or the end may stand.
fn end_of_word(rest: &[u8]) -> Option<&[u8]> {
    match rest.first() {
        Some(&byte) if !is_blank(byte) => None,
        _ => Some(rest),
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let (mut request, mut args) = (Vec::new(), Vec::new());
        to_request(line.as_bytes(), &mut request, &mut args)?;
        let word =
            |span: &Span| String::from_utf8_lossy(&request[span.start..span.start + span.len]).into_owned();
        Some(args.iter().map(word).collect())
    }

    #[test]
    fn words_and_quotes_are_read_as_redis_reads_them() {
        assert_eq!(words("get  a\t b "), Some(vec!["get".into(), "a".into(), "b".into()]));
        assert_eq!(words(r#"set "a b" 'c \n d'"#), Some(vec!["set".into(), "a b".into(), r"c \n d".into()]));
        assert_eq!(
            words(r#"echo "\x41\"\n\q" '\''"#),
            Some(vec!["echo".into(), "A\"\nq".into(), "'".into()])
        );
        assert_eq!(words(r#"echo ab"c d""#), Some(vec!["echo".into(), "abc d".into()]));
        assert_eq!(words(r#"echo """#), Some(vec!["echo".into(), String::new()]));
        assert_eq!(words("   "), Some(vec![]));
    }

    #[test]
    fn vertical_tab_and_form_feed_do_not_end_a_word() {
        assert_eq!(words("set ka\x0b v"), Some(vec!["set".into(), "ka\x0b".into(), "v".into()]));
        assert_eq!(words("\x0bget \x0ca\x0c\x0cb"), Some(vec!["get".into(), "a\x0c\x0cb".into()]));
        assert_eq!(words("get \"a\"\x0bb"), Some(vec!["get".into(), "a".into(), "b".into()]));
    }

    #[test]
    fn open_quotes_and_words_glued_to_quotes_are_refused() {
        for line in [r#"echo "abc"#, r#"echo "abc"d"#, "echo 'abc", "echo 'a'b", r#"echo "abc\"#] {
            assert_eq!(words(line), None, "{line}");
        }
    }
}
