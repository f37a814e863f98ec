//! Keys as flags: the flag of a key, the words of a command line for its value, and clap's errors about them.

use super::document::Pair;
use super::faults::Fault;
use super::include::INCLUDE;
use super::wording::Wording;
use super::{environment, wording};
use crate::access::Secret;
use crate::args::{plainly, rivals};
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, Error};
use std::any::TypeId;
use std::error::Error as _;
use std::ffi::OsString;
use toml::de::{DeInteger, DeTable, DeValue};

/// The flags that keys can be.
#[derive(Debug)]
pub(super) struct Flags {
    command: Command,
    /// Where all of them are to be found.
    list: &'static str,
}

/// A key of the file that is a flag, with a value that is one for it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// As it is written.
    pub key: String,
    /// Where.
    pub at: usize,
    /// The flag's id.
    pub id: String,
    /// The words of a command line.
    pub words: Vec<OsString>,
    /// The single values as text, and where they are.
    pub values: Vec<(String, usize)>,
}

impl Entry {
    /// Position of the subject of `text`: the value that it names, or the key.
    pub(super) fn place_of(&self, text: &str) -> usize {
        // Of two equal values the latter is at fault.
        let named = self.values.iter().filter(|(value, _)| mentions(text, value));
        named.max_by_key(|(value, _)| value.len()).map_or(self.at, |(_, at)| *at)
    }
}

/// Keys that no file may have: only the command line names the file.
const NOT_IN_FILES: [&str; 2] = ["config", "pool"];

impl Flags {
    /// The flags of `command`; `list` names the place that lists all of them.
    pub(super) fn new(command: Command, list: &'static str) -> Flags {
        Flags { command: command.no_binary_name(true), list }
    }

    /// The id of the flag that is called `name`.
    pub(super) fn id(&self, name: &str) -> Option<String> {
        self.flag(name).map(|flag| flag.get_id().to_string())
    }

    /// Names of the flags with these ids.
    pub(super) fn names_of(&self, ids: &[String]) -> Vec<String> {
        let flags =
            self.command.get_arguments().filter(|flag| ids.iter().any(|id| flag.get_id() == id.as_str()));
        flags.filter_map(Arg::get_long_and_visible_aliases).flatten().map(str::to_owned).collect()
    }

    /// Parses `words`.
    pub(super) fn parse(&self, words: impl IntoIterator<Item = OsString>) -> Result<ArgMatches, Error> {
        self.command.clone().try_get_matches_from(words)
    }

    /// The entry of `pair`. For an unknown key, `why_not` may give a better reason than a similar key.
    pub(super) fn entry(
        &self,
        pair: &Pair<'_>,
        why_not: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Entry, Vec<Fault>> {
        let Pair { key, at, value, value_at } = pair;
        if let DeValue::Table(table) = value {
            return match self.flag(key).filter(|flag| is_map(flag)) {
                Some(flag) => self.map_entry(flag, pair, table),
                None => Err(vec![Fault::at(*at, no_table(key))]),
            };
        }
        let Some(flag) = self.flag(key).filter(|_| !NOT_IN_FILES.contains(&key.as_str())) else {
            let text = why_not(key).unwrap_or_else(|| self.unknown(key));
            return Err(vec![Fault::at(*at, text)]);
        };
        let entry =
            |words, values| Entry { key: key.clone(), at: *at, id: flag.get_id().to_string(), words, values };
        if matches!(flag.get_action(), ArgAction::SetTrue) {
            return match value {
                DeValue::Boolean(true) => Ok(entry(vec![format!("--{key}").into()], Vec::new())),
                DeValue::Boolean(false) => Ok(entry(Vec::new(), Vec::new())),
                _ => Err(vec![Fault::at(*value_at, format!("{key}: write true or false"))]),
            };
        }
        let values = values(flag, key, value, *value_at)?;
        let faults: Vec<Fault> = values
            .iter()
            .filter_map(|(value, at)| Some(Fault::at(*at, self.refusal(flag, key, value)?)))
            .collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let word = |value: &str| OsString::from(format!("--{key}={value}"));
        let words = match is_list(flag) {
            true => {
                let all: Vec<&str> = values.iter().map(|(value, _)| value.as_str()).collect();
                vec![word(&all.join(","))]
            }
            false => values.iter().map(|(value, _)| word(value)).collect(),
        };
        let all = words.iter().filter_map(|word| self.refusal_of_word(flag, key, word)).next();
        all.map_or_else(|| Ok(entry(words, values)), |text| Err(vec![Fault::at(*value_at, text)]))
    }

    /// The entry of a table with texts: `rename = { GET = "GOT" }` is `--rename=GET:GOT`.
    fn map_entry(&self, flag: &Arg, pair: &Pair<'_>, table: &DeTable<'_>) -> Result<Entry, Vec<Fault>> {
        let Pair { key, at, value_at, .. } = pair;
        let (mut texts, mut faults) = (Vec::new(), Vec::new());
        for (name, value) in table {
            let expanded = match value.get_ref() {
                DeValue::String(text) => environment::expanded(text, environment::of_process),
                _ => Err("write a text in quotes, which may be empty".to_owned()),
            };
            match expanded {
                Ok(text) if !text.contains(',') => texts.push(format!("{}:{text}", name.get_ref())),
                Ok(_) => faults.push(Fault::at(value.span().start, format!("{key}: a name has no comma"))),
                Err(why) => faults.push(Fault::at(value.span().start, format!("{key}: {why}"))),
            }
        }
        let text = texts.join(",");
        if texts.is_empty() && faults.is_empty() {
            faults.push(Fault::at(*value_at, format!("{key}: the table is empty; leave the key out")));
        }
        faults.extend(
            self.refusal(flag, key, &text).filter(|_| faults.is_empty()).map(|why| Fault::at(*value_at, why)),
        );
        let words = vec![OsString::from(format!("--{key}={text}"))];
        let entry = Entry {
            key: key.clone(),
            at: *at,
            id: flag.get_id().to_string(),
            words,
            values: vec![(text, *value_at)],
        };
        if faults.is_empty() { Ok(entry) } else { Err(faults) }
    }

    fn flag(&self, name: &str) -> Option<&Arg> {
        let is_called = |flag: &&Arg| {
            let is_alias = || flag.get_all_aliases().is_some_and(|names| names.contains(&name));
            !flag.is_hide_set() && (flag.get_long() == Some(name) || is_alias())
        };
        self.command.get_arguments().find(is_called)
    }

    /// Why `value` alone is none for `flag`.
    fn refusal(&self, flag: &Arg, key: &str, value: &str) -> Option<String> {
        self.refusal_of_word(flag, key, &format!("--{key}={value}").into())
    }

    fn refusal_of_word(&self, flag: &Arg, key: &str, word: &OsString) -> Option<String> {
        match self.parse([word.clone()]) {
            Ok(_) => None,
            // The flag may need other flags.
            Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => None,
            Err(error) => Some(refused_value(flag, key, &error)),
        }
    }

    /// The fault of a key that no flag has.
    fn unknown(&self, key: &str) -> String {
        if key == "config" {
            return format!("{key}: only the command line names the first file; name others with {INCLUDE}");
        }
        if key == INCLUDE {
            return format!("{key}: write it above all tables, as in include = [\"conf.d/*.toml\"]");
        }
        if key == "pool" {
            return format!(
                "{key}: write [[pool]] above the keys of each pool, with a name as in name = \"orders\""
            );
        }
        let shown = if is_plain(key) { key.to_owned() } else { format!("{key:?}") };
        if let Some(advice) = rivals::advice(key).filter(|advice| self.has_flags_of(advice)) {
            return format!("{shown}: {}", Wording::default().of_file(advice));
        }
        match self.like(key) {
            Some(name) => format!("{shown}: there is no such key; did you mean {name}?"),
            None => format!("{shown}: there is no such key ({})", self.list),
        }
    }

    /// Whether all flags in `text` are among these.
    fn has_flags_of(&self, text: &str) -> bool {
        wording::flags_in(text).all(|name| self.flag(name).is_some())
    }

    /// The flag whose name is most like `key`.
    fn like(&self, key: &str) -> Option<String> {
        let name = key.to_lowercase().replace('_', "-");
        if self.flag(&name).is_some() || !is_plain(&name) {
            return self.flag(&name).map(|_| name);
        }
        let error = self.parse([format!("--{name}").into()]).err()?;
        match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(like)) => Some(like.trim_start_matches('-').to_owned()),
            _ => None,
        }
    }

    /// The fault of `entries` and the command line together, from `error`. `overriding` are the ids of the flags that
    /// the command line has.
    pub(super) fn relation(&self, error: &Error, entries: &[Entry], overriding: &[String]) -> Fault {
        let fault = match error.kind() {
            ErrorKind::ArgumentConflict => self.conflict(error, entries, overriding),
            ErrorKind::MissingRequiredArgument => Some(self.missing(error, entries)),
            _ => None,
        };
        fault.unwrap_or_else(|| Fault { at: None, text: plainly(&error.to_string()) })
    }

    fn conflict(&self, error: &Error, entries: &[Entry], overriding: &[String]) -> Option<Fault> {
        let entry_of = |name: &String| {
            let id = self.id(name)?;
            entries.iter().find(|entry| entry.id == id && !overriding.contains(&id))
        };
        let (subjects, others) = (names(error, ContextKind::InvalidArg), names(error, ContextKind::PriorArg));
        let involved: Vec<String> = subjects.into_iter().chain(others).collect();
        let Entry { key, at, id, .. } = involved.iter().filter_map(entry_of).max_by_key(|entry| entry.at)?;
        let others = involved.iter().filter(|name| self.id(name).as_ref() != Some(id));
        let others = others.map(|name| match entry_of(name) {
            Some(_) => name.clone(),
            None => format!("--{name} of the command line"),
        });
        let others = either(&others.collect::<Vec<_>>(), "and");
        Some(Fault::at(*at, format!("{key} excludes {others}; remove one of them")))
    }

    fn missing(&self, error: &Error, entries: &[Entry]) -> Fault {
        let (subjects, missing) = (names(error, ContextKind::InvalidArg), requirements(error));
        let needs_some = |entry: &&Entry| {
            let alone = self.parse(entry.words.iter().cloned()).err();
            let missing = alone.map(|error| names(&error, ContextKind::InvalidArg)).unwrap_or_default();
            missing.iter().any(|name| subjects.contains(name))
        };
        match entries.iter().find(needs_some) {
            Some(Entry { key, at, .. }) => Fault::at(*at, format!("{key} needs {missing} as well")),
            None => Fault { at: None, text: format!("the command line needs {missing} as well") },
        }
    }
}

/// Whether `key` looks like one.
fn is_plain(key: &str) -> bool {
    key.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// The fault of a table that is no `[[listener]]`.
fn no_table(key: &str) -> String {
    match key {
        "listener" | "pool" => format!("{key}: write [[{key}]], with two brackets on each side"),
        _ => format!(
            "{key}: there is no such table; the only ones are [[listener]], [[pool]] and [[pool.listener]], and keys have no dots"
        ),
    }
}

/// Whether `text` has `value` as a word of its own.
fn mentions(text: &str, value: &str) -> bool {
    let ends = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
    let is_word = |(at, found): (usize, &str)| {
        ends(text[..at].chars().next_back()) && ends(text[at + found.len()..].chars().next())
    };
    !value.is_empty() && text.match_indices(value).any(is_word)
}

/// `entries` without second names of the same flag, which are faults.
pub(super) fn merged(entries: Vec<Entry>, faults: &mut Vec<Fault>) -> Vec<Entry> {
    let mut merged: Vec<Entry> = Vec::new();
    for entry in entries {
        match merged.iter_mut().find(|other| other.id == entry.id) {
            // A flag that may be given more than once.
            Some(other) if other.key == entry.key => {
                other.words.extend(entry.words);
                other.values.extend(entry.values);
            }
            Some(other) => {
                let text = format!("{} is another name of {}; leave one out", entry.key, other.key);
                faults.push(Fault::at(entry.at, text));
            }
            None => merged.push(entry),
        }
    }
    merged
}

/// The values for `flag`, each as a command line has it.
fn values(flag: &Arg, key: &str, value: &DeValue<'_>, at: usize) -> Result<Vec<(String, usize)>, Vec<Fault>> {
    let takes_many = is_list(flag) || matches!(flag.get_action(), ArgAction::Append);
    let refusal = |at, why: &str| Fault::at(at, format!("{key}: {why}"));
    let elements: Vec<(&DeValue<'_>, usize)> = match value {
        DeValue::Array(elements) if takes_many && elements.is_empty() => {
            return Err(vec![refusal(at, "the list is empty; leave the key out, or write its values")]);
        }
        DeValue::Array(elements) if takes_many => {
            elements.iter().map(|element| (element.get_ref(), element.span().start)).collect()
        }
        DeValue::Array(_) => {
            let text = format!("the key takes one value, not a list, as in {}", example(flag, key));
            return Err(vec![refusal(at, &text)]);
        }
        value => vec![(value, at)],
    };
    let texts = elements
        .into_iter()
        .map(|(value, at)| scalar(flag, key, value).map(|text| (text, at)).map_err(|why| refusal(at, &why)));
    let (mut values, mut faults) = (Vec::new(), Vec::new());
    for text in texts {
        match text {
            Ok(value) => values.push(value),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(values) } else { Err(faults) }
}

/// Whether `flag` takes several values with commas between them. Their value's name says so: `NODE,NODE,…`.
pub(super) fn is_list(flag: &Arg) -> bool {
    flag.get_value_names().is_some_and(|names| names.iter().any(|name| name.ends_with(",…")))
}

/// Whether the values of `flag` are pairs: `OLD:NEW,…`.
fn is_map(flag: &Arg) -> bool {
    flag.get_value_names()
        .is_some_and(|names| names.iter().any(|name| name.contains(':') && name.ends_with(",…")))
}

/// `value` as a command line has it.
fn scalar(flag: &Arg, key: &str, value: &DeValue<'_>) -> Result<String, String> {
    let instead = || format!("write {}", example(flag, key));
    match value {
        DeValue::String(text) if text.is_empty() => {
            Err(format!("the value is empty; leave the key out, or {}", instead()))
        }
        DeValue::String(text) => environment::expanded(text, environment::of_process),
        DeValue::Integer(number) => digits(number),
        // The flag takes 0 and 1.
        DeValue::Boolean(on) if has_type::<bool>(flag.get_value_parser()) => Ok(u8::from(*on).to_string()),
        DeValue::Boolean(on) => Err(format!("{on} is not allowed; {}", instead())),
        DeValue::Float(number) => Err(format!("{number} is no whole number; {}", instead())),
        DeValue::Datetime(_) => Err(format!("a date is not allowed; {}", instead())),
        DeValue::Array(_) => Err(format!("a list in a list is not allowed; {}", instead())),
        DeValue::Table(_) => Err(format!("a table is not allowed; {}", instead())),
    }
}

/// A number must read the same in the file and in a flag: `0o770` is 504.
fn digits(number: &DeInteger<'_>) -> Result<String, String> {
    match number.radix() {
        10 => Ok(number.as_str().to_owned()),
        _ => Err(format!("{number}: write decimal digits only, without a prefix")),
    }
}

fn has_type<T: 'static>(parser: &ValueParser) -> bool {
    parser.type_id() == TypeId::of::<T>()
}

/// An example of `flag` in a file.
fn example(flag: &Arg, key: &str) -> String {
    let default = flag.get_default_values().first().and_then(|value| value.to_str()).map(str::to_owned);
    let default = default.or_else(|| default_in_help(flag));
    let named = flag.get_value_names().and_then(|names| names.first()).map_or("…", |name| name.as_str());
    let numbers = [has_type::<u16>, has_type::<u32>, has_type::<u64>, has_type::<usize>];
    let is_number = numbers.iter().any(|is_of_type| is_of_type(flag.get_value_parser()));
    match default {
        Some(default) if default.bytes().all(|byte| byte.is_ascii_digit()) => format!("{key} = {default}"),
        Some(default) => format!("{key} = {default:?}"),
        None if is_list(flag) => {
            let first = named.split(',').next().unwrap_or(named);
            format!("{key} = [{first:?}, …]")
        }
        None if is_number => format!("a number or {key} = {named:?}"),
        None => format!("{key} = {named:?}"),
    }
}

/// The default of a flag that depends on other flags, from its help: `[default: 6380]`.
fn default_in_help(flag: &Arg) -> Option<String> {
    let help = flag.get_help()?.to_string();
    let (_, default) = help.split_once("[default: ")?;
    default.split([']', ';']).next().map(str::to_owned)
}

/// The error of clap, or of the flag's own parser, about a value. Advice that only fits a command line is left out.
fn refused_value(flag: &Arg, key: &str, error: &Error) -> String {
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) if !has_type::<Secret>(flag.get_value_parser()) => {
            format!(" {value:?}")
        }
        _ => String::new(),
    };
    let valid = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(valid)) => either(valid, "or"),
        _ => String::new(),
    };
    let why = match error.source() {
        Some(source) => plainly(&source.to_string()),
        None if !valid.is_empty() => format!("write {valid}"),
        None => plainly(&error.to_string()),
    };
    // Some reasons begin with their subject.
    match why.starts_with(&format!("{key} ")) || why.starts_with(&format!("{key}:")) {
        true => why,
        false => format!("{key}{value}: {why}"),
    }
}

/// The missing flags by `error`: one of each group.
fn requirements(error: &Error) -> String {
    let texts = texts(error, ContextKind::InvalidArg);
    let group = |text: &String| either(&wording::flags_in(text).map(str::to_owned).collect::<Vec<_>>(), "or");
    texts.iter().map(group).collect::<Vec<_>>().join(", and ")
}

/// The flags that `error` names as `kind`.
fn names(error: &Error, kind: ContextKind) -> Vec<String> {
    texts(error, kind).iter().flat_map(|text| wording::flags_in(text)).map(str::to_owned).collect()
}

fn texts(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn either(names: &[String], or: &str) -> String {
    match names {
        [] => String::new(),
        [name] => name.clone(),
        [names @ .., last] => format!("{} {or} {last}", names.join(", ")),
    }
}
