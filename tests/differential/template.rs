//! Request templates: a line of the table, parsed.
//!
//! `HSET hash ( field value )+` reads like Redis's own documentation:
//!
//! * Words in capitals, digits and signs stand for themselves.
//! * Words in small letters are drawn (see `draw.rs`).
//! * `[ a | b ]` is one of them or nothing, `( a | b )` one of them. `+` behind a bracket repeats it.
//! * `;` begins another request, sent right behind.

/// One parsed template.
pub(crate) struct Template {
    /// The requests of the line, in order.
    pub(crate) requests: Vec<Vec<Part>>,
}

/// A part of a request.
pub(crate) enum Part {
    /// Stands for itself.
    Literal(&'static str),
    /// Is drawn, by this name.
    Drawn(&'static str),
    /// One of the alternatives.
    Choice {
        alternatives: Vec<Vec<Part>>,
        /// Nothing at all is an alternative too.
        optional: bool,
        /// Several times in a row.
        repeated: bool,
    },
}

impl Template {
    /// Parses `line`; a template that does not parse is a bug of the table.
    pub(crate) fn parse(line: &'static str) -> Template {
        let mut words = line.split_whitespace().peekable();
        let mut requests = Vec::new();
        while words.peek().is_some() {
            let (mut alternatives, end) = parse_alternatives(&mut words);
            assert!(matches!(end, None | Some(";")), "unexpected {end:?} in {line:?}");
            assert_eq!(alternatives.len(), 1, "a bar outside of brackets in {line:?}");
            requests.extend(alternatives.pop());
        }
        Template { requests }
    }

    /// The names of the commands in it, in small letters.
    pub(crate) fn commands(&self) -> impl Iterator<Item = String> + '_ {
        self.requests.iter().filter_map(|parts| match parts.first() {
            Some(Part::Literal(name)) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
    }
}

/// Parses up to a closing bracket, a `;` or the end, and returns which it was.
fn parse_alternatives(
    words: &mut impl Iterator<Item = &'static str>,
) -> (Vec<Vec<Part>>, Option<&'static str>) {
    let mut alternatives = vec![Vec::new()];
    while let Some(word) = words.next() {
        let part = match word {
            ";" | ")" | "]" | ")+" | "]+" => return (alternatives, Some(word)),
            "|" => {
                alternatives.push(Vec::new());
                continue;
            }
            "(" | "[" => {
                let (alternatives, end) = parse_alternatives(words);
                let end = end.expect("an open bracket is closed");
                Part::Choice { alternatives, optional: word == "[", repeated: end.ends_with('+') }
            }
            word if word.starts_with(|first: char| first.is_ascii_lowercase()) => Part::Drawn(word),
            word => Part::Literal(word),
        };
        alternatives.last_mut().expect("there is always one").push(part);
    }
    (alternatives, None)
}
