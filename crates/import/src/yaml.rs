//! YAML of twemproxy and dynomite: pools, their options, and lists of texts. Values are texts, as there: `true` and `1` too.

use crate::draft::Draft;
use crate::fault::{Place, Word};
use saphyr_parser::{Event, Parser, ScanError, Span};
use std::sync::Arc;

/// A pool: its name, and its options in their order.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) name: Word,
    pub(crate) options: Vec<Directive>,
}

/// An option with its value, or its values if it is a list.
#[derive(Debug)]
pub(crate) struct Directive {
    pub(crate) key: Word,
    pub(crate) values: Vec<Word>,
}

impl Directive {
    /// The value, if there is exactly one.
    pub(crate) fn value(&self) -> Option<&Word> {
        match self.values.as_slice() {
            [value] => Some(value),
            _ => None,
        }
    }
}

/// The depth at which the reader is.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Before the mapping of pools, or behind it.
    Outside,
    /// Between pools.
    Pools,
    /// Behind the name of a pool.
    Named,
    /// Between options.
    Options,
    /// Behind the name of an option.
    Keyed,
    /// In a list.
    List,
}

/// Reads the pools of `text`. Faults go to `draft`.
pub(crate) fn pools(name: &str, text: &str, draft: &mut Draft) -> Vec<Pool> {
    let mut reader = Reader { file: name.into(), pools: Vec::new(), state: State::Outside };
    for event in Parser::new_from_str(text) {
        let outcome = match event {
            Ok((event, span)) => reader.take(event, span),
            Err(error) => Err(reader.syntax(&error)),
        };
        if let Err((place, text)) = outcome {
            draft.fault(&place, text);
            break;
        }
    }
    reader.pools
}

#[derive(Debug)]
struct Reader {
    file: Arc<str>,
    pools: Vec<Pool>,
    state: State,
}

impl Reader {
    fn place(&self, span: Span) -> Place {
        Place { file: self.file.clone(), line: span.start.line(), column: span.start.col() + 1 }
    }

    fn syntax(&self, error: &ScanError) -> (Place, String) {
        let marker = error.marker();
        let place = Place { file: self.file.clone(), line: marker.line(), column: marker.col() + 1 };
        (place, format!("this is not YAML: {}", error.info()))
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), (Place, String)> {
        let place = self.place(span);
        let refusal = |text: &str| Err((place.clone(), text.to_owned()));
        self.state = match (&self.state, event) {
            (_, Event::Nothing | Event::StreamStart | Event::StreamEnd) => return Ok(()),
            (State::Outside, Event::DocumentStart(_) | Event::DocumentEnd) => return Ok(()),
            (State::Outside, Event::MappingStart(..)) if self.pools.is_empty() => State::Pools,
            (State::Pools, Event::MappingEnd) => State::Outside,
            (State::Pools, Event::Scalar(name, ..)) => {
                self.pools.push(Pool { name: Word::new(name, place), options: Vec::new() });
                State::Named
            }
            (State::Named, Event::MappingStart(..)) => State::Options,
            (State::Options, Event::MappingEnd) => State::Pools,
            (State::Options, Event::Scalar(key, ..)) => {
                self.push_option(Word::new(key, place));
                State::Keyed
            }
            (State::Keyed, Event::SequenceStart(..)) => State::List,
            (State::Keyed, Event::Scalar(value, ..)) => {
                self.push_value(Word::new(value, place));
                State::Options
            }
            (State::List, Event::Scalar(value, ..)) => {
                self.push_value(Word::new(value, place));
                State::List
            }
            (State::List, Event::SequenceEnd) => State::Options,
            (_, Event::Alias(_)) => return refusal("an alias is not allowed here; write the value"),
            (State::Named, _) => return refusal("behind the name of a pool its options are missing"),
            (State::Outside, _) => {
                return refusal("pools are missing: write name: and its options below, indented");
            }
            (State::Pools, _) => return refusal("here the name of a pool is missing"),
            (State::Options, _) => return refusal("here the name of an option is missing"),
            (State::Keyed | State::List, _) => return refusal("a value is a text or a list of texts here"),
        };
        Ok(())
    }

    fn push_option(&mut self, key: Word) {
        if let Some(pool) = self.pools.last_mut() {
            pool.options.push(Directive { key, values: Vec::new() });
        }
    }

    fn push_value(&mut self, value: Word) {
        let option = self.pools.last_mut().and_then(|pool| pool.options.last_mut());
        if let Some(option) = option {
            option.values.push(value);
        }
    }
}
