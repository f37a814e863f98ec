//! Redis's glob patterns: `*`, `?`, `[a-z]`, `[^a]`, `\` before anything else.

/// Whether all of `text` matches `pattern`, byte by byte.
///
/// Whether `pattern` matches `text` by the rules of Redis's `stringmatchlen`, in at most the product of both lengths. Only the
/// last `*` is ever tried again. That is enough, for an earlier one could only match less. In a long text, the part between two
/// `*` is searched with 64 of its elements at once.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_folded(pattern, text, |byte| byte, LONG_BYTES)
}

/// The same without regard to the case of ASCII letters.
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    matches_folded(pattern, text, |byte| byte.to_ascii_lowercase(), LONG_BYTES)
}

/// Compares bytes as `fold` makes them. A text of at least `long_from` bytes is long.
fn matches_folded(pattern: &[u8], text: &[u8], fold: impl Fn(u8) -> u8 + Copy, long_from: usize) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Behind the last `*`: the pattern, and the text that this `*` has not eaten yet.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            if text.len() < long_from || pattern.starts_with(b"*") {
                retry = Some((pattern, text));
                continue;
            }
            retry = None;
            let piece = Piece::before_star(pattern);
            if piece.behind.is_empty() {
                // The last piece matches the end of the text.
                let Some(start) = text.len().checked_sub(piece.len) else { return false };
                text = &text[start..];
            } else {
                let Some(end) = piece.find(text, fold) else { return false };
                (pattern, text) = (piece.behind, &text[end..]);
            }
            continue;
        }
        if let (Some(rest), [_, left @ ..]) = (step(pattern, text, fold), text) {
            (pattern, text) = (rest, left);
            continue;
        }
        if pattern.is_empty() && text.is_empty() {
            return true;
        }
        let Some((behind, [_, left @ ..])) = retry else { return false };
        (pattern, text) = (behind, left);
        retry = Some((behind, left));
    }
}

/// Texts from this length on are searched for 64 elements at once: it takes a table that shorter ones are not worth.
const LONG_BYTES: usize = 4096;

/// The elements of a pattern up to the next `*`. Each matches one byte.
struct Piece<'p> {
    pattern: &'p [u8],
    /// Number of elements.
    len: usize,
    /// The pattern from the `*` on; empty if there is none.
    behind: &'p [u8],
}

impl<'p> Piece<'p> {
    fn before_star(pattern: &'p [u8]) -> Piece<'p> {
        let (mut behind, mut len) = (pattern, 0);
        while !matches!(behind, [] | [b'*', ..]) {
            behind = behind_element(behind);
            len += 1;
        }
        Piece { pattern, len, behind }
    }

    /// The first place in `text` behind bytes that match (the algorithm Shift-And).
    fn find(&self, text: &[u8], fold: impl Fn(u8) -> u8 + Copy) -> Option<usize> {
        let width = self.len.div_ceil(64);
        let matching = self.matching(width, fold);
        let mut ends = vec![0_u64; width];
        let last = self.len - 1;
        for (at, &byte) in text.iter().enumerate() {
            let matching = &matching[usize::from(byte) * width..][..width];
            // A bit for each element that the text up to here ends with, and all before it.
            let mut carry = 1;
            for (word, matching) in ends.iter_mut().zip(matching) {
                let next = *word >> 63;
                *word = (*word << 1 | carry) & matching;
                carry = next;
            }
            if ends[last / 64] >> (last % 64) & 1 == 1 {
                return Some(at + 1);
            }
        }
        None
    }

    /// For each byte, a bit for each element that matches it.
    fn matching(&self, width: usize, fold: impl Fn(u8) -> u8 + Copy) -> Vec<u64> {
        let mut matching = vec![0_u64; 256 * width];
        let mut rest = self.pattern;
        for at in 0..self.len {
            for byte in 0..=u8::MAX {
                if step(rest, &[byte], fold).is_some() {
                    matching[usize::from(byte) * width + at / 64] |= 1 << (at % 64);
                }
            }
            rest = behind_element(rest);
        }
        matching
    }
}

/// The pattern behind its first element, which is no `*`.
fn behind_element(pattern: &[u8]) -> &[u8] {
    match pattern {
        [b'[', rest @ ..] => behind_class(rest),
        [b'\\', _, rest @ ..] | [_, rest @ ..] => rest,
        [] => pattern,
    }
}

/// The pattern behind the `]`, as [`class`] finds it.
fn behind_class(pattern: &[u8]) -> &[u8] {
    let mut rest = pattern.strip_prefix(b"^").unwrap_or(pattern);
    loop {
        rest = match rest {
            [b']', after @ ..] => return after,
            [b'\\', _, after @ ..] | [_, b'-', _, after @ ..] | [_, after @ ..] => after,
            [] => return rest,
        };
    }
}

/// The pattern behind its first element, if that matches the first byte of `text`.
fn step<'p>(pattern: &'p [u8], text: &[u8], fold: impl Fn(u8) -> u8) -> Option<&'p [u8]> {
    let byte = fold(*text.first()?);
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => class(rest, byte, fold),
        [b'\\', escaped, rest @ ..] | [escaped, rest @ ..] => (fold(*escaped) == byte).then_some(rest),
        [] => None,
    }
}

/// The pattern behind the `]`, if the class matches. Without `]` it goes on to the end.
fn class(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> Option<&[u8]> {
    let (negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let mut found = false;
    loop {
        let (low, high, after) = match rest {
            [b'\\', escaped, after @ ..] => (*escaped, *escaped, after),
            [b']', after @ ..] => return (found != negated).then_some(after),
            [from, b'-', to, after @ ..] => (*from, *to, after),
            [one, after @ ..] => (*one, *one, after),
            [] => return (found != negated).then_some(rest),
        };
        let (low, high) = (fold(low), fold(high));
        found |= (low.min(high)..=low.max(high)).contains(&byte);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prng;

    #[test]
    fn patterns_match_as_in_redis() {
        let yes = [
            ("*", ""),
            ("", ""),
            ("a*", "A"),
            ("*b*d", "abcbd"),
            ("h?llo", "hallo"),
            ("h[ae]llo", "hello"),
            ("h[^e]llo", "hallo"),
            ("h[b-a]t", "hat"),
            ("h\\*", "h*"),
            ("[\\]]", "]"),
            ("[a", "a"),
            ("a**", "abc"),
            ("maxmemory*", "MaxMemory-Policy"),
        ];
        let no = [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("h[^e]llo", "hello"),
            ("h\\*", "ha"),
            ("*a", "ab"),
            ("[", "["),
        ];
        for (pattern, text) in yes {
            assert!(matches_ignoring_case(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in no {
            assert!(!matches_ignoring_case(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn case_matters_unless_it_is_ignored() {
        assert!(matches(b"a[b-c]D", b"acD") && !matches(b"a[b-c]D", b"aCD") && !matches(b"a[b-c]D", b"acd"));
        assert!(matches_ignoring_case(b"a[b-c]D", b"ACd"));
    }

    #[test]
    fn many_stars_cost_no_more_than_one() {
        assert!(!matches_ignoring_case(&b"a*".repeat(1_000), &[&b"a".repeat(999)[..], b"b"].concat()));
    }

    #[test]
    fn a_long_text_matches_as_a_short_one() {
        let mut prng = Prng::new(23);
        let elements = ["a", "b", "?", "[ab]", "[^a]", "\\b", "\\*", "[", "[]", "*", "*", "*"];
        let mut matched = 0;
        for _ in 0..20_000 {
            let text: Vec<u8> = (0..prng.below(150)).map(|_| *prng.pick(b"aab")).collect();
            let pattern: String = (0..prng.below(12)).map(|_| *prng.pick(&elements)).collect();
            let [short, long] = [usize::MAX, 0]
                .map(|long_from| matches_folded(pattern.as_bytes(), &text, |byte| byte, long_from));
            assert_eq!(short, long, "{pattern} {}", String::from_utf8_lossy(&text));
            matched += usize::from(long);
        }
        assert!(matched > 1_000, "{matched}");
        let (pattern, text) = ("*".to_owned() + &"a?".repeat(100) + "*b", "a".repeat(5_000));
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
        assert!(matches(pattern.as_bytes(), (text + "b").as_bytes()));
    }
}
