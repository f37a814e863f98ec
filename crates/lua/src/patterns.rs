//! Lua's patterns, with a bound on the work of one match.
//!
//! Lua's own matcher can take longer than the age of the world for a short pattern, and its recursion can exhaust the stack.
//! Nothing can interrupt it. This one counts its steps, and its depth has a limit.

/// Captures of one pattern, as in Lua.
const CAPTURES_MAX: usize = 32;
/// Nested calls of the matcher: some hundred bytes of stack each.
const DEPTH_MAX: usize = 1_000;

/// Reason why a pattern cannot be matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The pattern is malformed.
    Malformed(&'static str),
    /// The time of the script is over.
    Time,
}

/// A place that a pattern captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    Open,
    Position,
    Closed(usize),
}

/// The result of a match: the end, and the captures with their starts.
pub(crate) type Captures = Vec<(usize, Capture)>;

/// A matcher of one pattern on one text.
pub(crate) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Captures,
    depth: usize,
    steps: u32,
    /// Whether the script may go on. Asked once in some thousand steps.
    go_on: &'a dyn Fn() -> bool,
}

type Found = Result<Option<usize>, Fault>;

impl<'a> Matcher<'a> {
    pub(crate) fn new(text: &'a [u8], pattern: &'a [u8], go_on: &'a dyn Fn() -> bool) -> Matcher<'a> {
        Matcher { text, pattern, captures: Vec::new(), depth: 0, steps: 0, go_on }
    }

    /// The end of a match that begins at `start`. The captures are then in [`Matcher::captures`].
    pub(crate) fn match_at(&mut self, start: usize) -> Found {
        self.captures.clear();
        self.depth = 0;
        self.run(start, 0)
    }

    pub(crate) fn captures(&self) -> &Captures {
        &self.captures
    }

    fn step(&mut self) -> Result<(), Fault> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_PER_LOOK) && !(self.go_on)() {
            return Err(Fault::Time);
        }
        Ok(())
    }

    /// Matches the pattern from `p` on the text from `s`.
    fn run(&mut self, s: usize, p: usize) -> Found {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::Malformed("pattern too complex"));
        }
        let found = self.run_here(s, p);
        self.depth -= 1;
        found
    }

    fn run_here(&mut self, mut s: usize, mut p: usize) -> Found {
        loop {
            self.step()?;
            let Some(&first) = self.pattern.get(p) else { return Ok(Some(s)) };
            match (first, self.pattern.get(p + 1)) {
                (b'(', Some(b')')) => return self.open(s, p + 2, Capture::Position),
                (b'(', _) => return self.open(s, p + 1, Capture::Open),
                (b')', _) => return self.close(s, p + 1),
                (b'%', Some(b'b')) => match self.balance(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    p += 2;
                    if self.pattern.get(p) != Some(&b'[') {
                        return Err(Fault::Malformed("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(p)?;
                    let before = if s == 0 { 0 } else { self.text[s - 1] };
                    let here = self.text.get(s).copied().unwrap_or_default();
                    if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                }
                (b'%', Some(digit)) if digit.is_ascii_digit() => match self.back_reference(s, *digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                (b'$', None) => return Ok((s == self.text.len()).then_some(s)),
                _ => {
                    let end = self.class_end(p)?;
                    let fits = s < self.text.len() && self.single(self.text[s], p, end);
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if fits && let Some(found) = self.run(s + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.most(s, p, end),
                        Some(b'+') if fits => return self.most(s + 1, p, end),
                        Some(b'+') => return Ok(None),
                        Some(b'-') => return self.least(s, p, end),
                        _ if fits => (s, p) = (s + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// As many as possible.
    fn most(&mut self, s: usize, p: usize, end: usize) -> Found {
        let mut count = 0;
        while s + count < self.text.len() && self.single(self.text[s + count], p, end) {
            self.step()?;
            count += 1;
        }
        loop {
            if let Some(found) = self.run(s + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    /// As few as possible.
    fn least(&mut self, mut s: usize, p: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if s >= self.text.len() || !self.single(self.text[s], p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open(&mut self, s: usize, p: usize, kind: Capture) -> Found {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Fault::Malformed("too many captures"));
        }
        self.captures.push((s, kind));
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> Found {
        let open = self.captures.iter().rposition(|(_, kind)| *kind == Capture::Open);
        let open = open.ok_or(Fault::Malformed("invalid pattern capture"))?;
        self.captures[open].1 = Capture::Closed(s);
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures[open].1 = Capture::Open;
        }
        Ok(found)
    }

    fn balance(&mut self, s: usize, p: usize) -> Found {
        let (Some(&begin), Some(&end)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(Fault::Malformed("unbalanced pattern"));
        };
        if self.text.get(s) != Some(&begin) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.text.len() {
            self.step()?;
            let byte = self.text[at];
            if byte == end {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == begin {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&mut self, s: usize, digit: u8) -> Found {
        let captured = usize::from(digit).checked_sub(usize::from(b'1')).and_then(|at| self.captures.get(at));
        let (start, end) = match captured {
            Some((start, Capture::Closed(end))) => (*start, *end),
            // As in C, where the length is a great number.
            Some((_, Capture::Position)) => return Ok(None),
            _ => return Err(Fault::Malformed("invalid capture index")),
        };
        let len = end - start;
        let is_same = self.text.get(s..s + len) == Some(&self.text[start..end]);
        Ok(is_same.then_some(s + len))
    }

    /// The end of the single-character class at `p`.
    fn class_end(&self, p: usize) -> Result<usize, Fault> {
        let mut at = p + 1;
        match self.pattern[p] {
            b'%' => match self.pattern.get(at) {
                None => Err(Fault::Malformed("malformed pattern (ends with '%')")),
                Some(_) => Ok(at + 1),
            },
            b'[' => {
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                loop {
                    let Some(&byte) = self.pattern.get(at) else {
                        return Err(Fault::Malformed("malformed pattern (missing ']')"));
                    };
                    at += 1;
                    if byte == b'%' && at < self.pattern.len() {
                        at += 1;
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(at),
        }
    }

    fn single(&self, byte: u8, p: usize, end: usize) -> bool {
        match self.pattern[p] {
            b'.' => true,
            b'%' => is_of_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            literal => literal == byte,
        }
    }

    /// Whether `byte` is in the set from `p` to its closing bracket.
    fn in_set(&self, byte: u8, p: usize, bracket: usize) -> bool {
        let is_wanted = self.pattern.get(p + 1) != Some(&b'^');
        let mut at = if is_wanted { p + 1 } else { p + 2 };
        while at < bracket {
            if self.pattern[at] == b'%' {
                at += 1;
                if is_of_class(byte, self.pattern[at]) {
                    return is_wanted;
                }
            } else if self.pattern[at + 1] == b'-' && at + 2 < bracket {
                if (self.pattern[at]..=self.pattern[at + 2]).contains(&byte) {
                    return is_wanted;
                }
                at += 2;
            } else if self.pattern[at] == byte {
                return is_wanted;
            }
            at += 1;
        }
        !is_wanted
    }
}

fn is_of_class(byte: u8, class: u8) -> bool {
    let fits = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 11,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    fits != class.is_ascii_uppercase()
}

const STEPS_PER_LOOK: u32 = 16_384;
