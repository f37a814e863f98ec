//! The result while it is being made: keys with their origins, options that are not carried over, refusals, faults.

use crate::fault::{Fault, Faults, Place, Word};
use crate::options::{Fate, Options};
use crate::{FILES_MAX, Kind};
use std::fmt;

/// The meaning of a file.
#[derive(Clone, Debug)]
pub struct Import {
    /// The program whose file it is.
    pub kind: Kind,
    /// The name of the file.
    pub name: String,
    /// Options that are not carried over, in the order of the file.
    pub left_out: Vec<LeftOut>,
    /// Options that need no key: shardis does so in any case.
    pub met: Vec<LeftOut>,
    /// Reasons why the file cannot be served as it is.
    pub refusals: Vec<Fault>,
    /// The reason why nodes must be named elsewhere, if the file names none.
    pub lacks_nodes: Option<Fault>,
    pub(crate) process: Table,
    pub(crate) pools: Vec<Table>,
    pub(crate) passing: Vec<Table>,
}

impl Import {
    /// The name of the pool, if the file has one alone and gives it a name.
    pub fn only_pool(&self) -> Option<&str> {
        match &self.pools[..] {
            [Table { name: Some(name), .. }] => Some(&name.text),
            _ => None,
        }
    }
}

/// An option that is not carried over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// Where it is.
    pub place: Place,
    /// Its name.
    pub option: String,
    /// The reason, in one line.
    pub reason: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}: {}", self.place, self.option, self.reason)
    }
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
    Switch(bool),
    /// Each with its place, if it stands in the file.
    List(Vec<(String, Option<Place>)>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<bool> for Value {
    fn from(is_on: bool) -> Value {
        Value::Switch(is_on)
    }
}

impl From<Vec<Word>> for Value {
    fn from(words: Vec<Word>) -> Value {
        Value::List(words.into_iter().map(|word| (word.text, Some(word.place))).collect())
    }
}

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An option of the file, as a comment shows it.
    Option { place: Place, shown: String },
    /// Something that holds without an option.
    Implied(String),
}

impl Origin {
    /// The option `key` with `value`.
    pub(crate) fn of(key: &Word, value: &str) -> Origin {
        Origin::Option {
            place: key.place.clone(),
            shown: format!("{} {value}", key.text).trim_end().to_owned(),
        }
    }

    /// The option `key`, whose value must not be shown.
    pub(crate) fn secret(key: &Word) -> Origin {
        Origin::of(key, "(secret)")
    }

    pub(crate) fn implied(text: impl Into<String>) -> Origin {
        Origin::Implied(text.into())
    }
}

/// A key, its value, and the origin of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: &'static str,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// Keys above all tables, of one pool, or of one listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// The name that the file gives it.
    pub(crate) name: Option<Word>,
    pub(crate) entries: Vec<Entry>,
}

impl Table {
    pub(crate) fn named(name: Word) -> Table {
        Table { name: Some(name), entries: Vec::new() }
    }

    /// Sets `key`, in the place of an earlier value.
    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Value>, origin: &Origin) {
        let entry = Entry { key, value: value.into(), origin: origin.clone() };
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }
}

/// The result while it is being made.
#[derive(Debug)]
pub(crate) struct Draft {
    import: Import,
    faults: Vec<Fault>,
    /// Files that were read because another one includes them.
    included: usize,
}

impl Draft {
    pub(crate) fn new(kind: Kind, name: &str) -> Draft {
        let import = Import {
            kind,
            name: name.to_owned(),
            left_out: Vec::new(),
            met: Vec::new(),
            refusals: Vec::new(),
            lacks_nodes: None,
            process: Table::default(),
            pools: Vec::new(),
            passing: Vec::new(),
        };
        Draft { import, faults: Vec::new(), included: 0 }
    }

    /// The keys of the process.
    pub(crate) fn process(&mut self) -> &mut Table {
        &mut self.import.process
    }

    /// Adds a pool of Redis's protocol.
    pub(crate) fn pool(&mut self, pool: Table) {
        self.import.pools.push(pool);
    }

    /// Adds a listener of mode tcp.
    pub(crate) fn passing(&mut self, listener: Table) {
        self.import.passing.push(listener);
    }

    /// Whether there is anything to be served.
    pub(crate) fn is_empty(&self) -> bool {
        self.import.pools.is_empty() && self.import.passing.is_empty()
    }

    /// Whether nothing is wrong so far.
    pub(crate) fn is_sound(&self) -> bool {
        self.faults.is_empty() && self.import.refusals.is_empty()
    }

    /// Notes that the file names no nodes.
    pub(crate) fn lacks_nodes(&mut self, text: &str) {
        self.import.lacks_nodes = Some(Fault { place: None, text: text.to_owned() });
    }

    /// Notes an option that is not carried over.
    pub(crate) fn leave_out(&mut self, option: &Word, reason: impl Into<String>) {
        let left_out =
            LeftOut { place: option.place.clone(), option: option.text.clone(), reason: reason.into() };
        self.import.left_out.push(left_out);
    }

    /// Notes an option that needs no key.
    pub(crate) fn meet(&mut self, option: &Word, reason: impl Into<String>) {
        let met = LeftOut { place: option.place.clone(), option: option.text.clone(), reason: reason.into() };
        self.import.met.push(met);
    }

    /// Notes an option without which the file cannot be served.
    pub(crate) fn refuse(&mut self, option: &Word, reason: impl fmt::Display) {
        let text = format!("{}: {reason}", option.text);
        self.import.refusals.push(Fault { place: Some(option.place.clone()), text });
    }

    /// Notes a fault for which the program itself would refuse the file.
    pub(crate) fn fault(&mut self, place: &Place, text: impl Into<String>) {
        self.faults.push(Fault { place: Some(place.clone()), text: text.into() });
    }

    /// Notes a fault without a place.
    pub(crate) fn fault_of_all(&mut self, text: impl Into<String>) {
        self.faults.push(Fault { place: None, text: text.into() });
    }

    /// Counts a file that another one includes, at `place`. `false` if it is one too many.
    pub(crate) fn include(&mut self, place: &Place) -> bool {
        self.included += 1;
        if self.included > FILES_MAX {
            self.fault(place, format!("more than {FILES_MAX} files are included, the limit here"));
        }
        self.included <= FILES_MAX
    }

    /// Notes the loss of `option`, if `fate` has one. The result says whether the option is carried, at least in part.
    pub(crate) fn settle(&mut self, option: &Word, fate: Fate) -> bool {
        match fate {
            Fate::As(_) => true,
            Fate::Partly(..) => true,
            Fate::Not(reason) => {
                self.leave_out(option, reason);
                false
            }
            Fate::Refused(reason) => {
                self.refuse(option, reason);
                false
            }
        }
    }

    /// Notes the loss that the table `options` names for `name`, at `option`.
    pub(crate) fn lose(&mut self, option: &Word, options: Options, name: &str) {
        let reason = crate::options::fate(options, name).map_or("", Fate::reason);
        self.leave_out(option, reason);
    }

    /// The result: the meaning, or the faults.
    pub(crate) fn finish(self) -> Result<Import, Faults> {
        let Draft { mut import, mut faults, .. } = self;
        for faults in [&mut faults, &mut import.refusals] {
            faults.sort_by(|a, b| a.place.cmp(&b.place));
            faults.dedup();
        }
        import.left_out.sort();
        import.left_out.dedup();
        import.met.sort();
        import.met.dedup();
        if faults.is_empty() { Ok(import) } else { Err(Faults(faults)) }
    }
}
