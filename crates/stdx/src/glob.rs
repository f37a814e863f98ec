//! Redis's glob patterns: `*`, `?`, `[a-z]`, `[^a]`, `\` before anything else.

/// Whether all of `text` matches `pattern`, byte by byte.
///
/// Gives what Redis's `stringmatchlen` gives, but never takes longer than the product of both lengths: only the last
/// `*` is ever tried again, which is enough, for an earlier one could only match less.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_folded(pattern, text, |byte| byte)
}

/// The same without regard to the case of ASCII letters.
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    matches_folded(pattern, text, |byte| byte.to_ascii_lowercase())
}

/// Compares bytes as `fold` makes them.
fn matches_folded(pattern: &[u8], text: &[u8], fold: impl Fn(u8) -> u8 + Copy) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Behind the last `*`: the pattern, and the text that this `*` has not eaten yet.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            retry = Some((pattern, text));
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

    #[test]
    fn patterns_mean_what_they_mean_in_redis() {
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
}
