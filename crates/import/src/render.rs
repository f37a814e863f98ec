//! The meaning of a file as a shardis.toml, with a comment for the origin of each key.

use crate::draft::{Entry, Import, Origin, Table, Value};
use crate::fault::{Place, visible};
use std::fmt::Write;

/// A shardis.toml, and where its lines come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// For each line, the option that it comes from.
    pub places: Vec<Option<Place>>,
}

impl Import {
    /// The shardis.toml that the file means.
    ///
    /// One pool is written flat. Several become tables `[[pool]]`, and listeners that pass bytes tables `[[listener]]`. The
    /// options that are not carried over stand at the end, as comments.
    pub fn rendered(&self) -> Rendered {
        let mut page = Page { text: String::new(), places: Vec::new(), file: &self.name };
        page.comment(&format!("From {}, a file of {}.", self.name, self.kind));
        page.table(&self.process);
        for pool in &self.pools {
            if self.pools.len() > 1 {
                page.header("pool", pool);
            } else if let Some(name) = &pool.name {
                page.blank();
                page.comment(&format!("pool {}", name.text));
            }
            page.table(pool);
        }
        for listener in &self.passing {
            page.header("listener", listener);
            page.table(listener);
        }
        for (title, options) in [("Holds without a key:", &self.met), ("Not carried over:", &self.left_out)] {
            if !options.is_empty() {
                page.blank();
                page.comment(title);
                options.iter().for_each(|option| page.comment(&option.to_string()));
            }
        }
        Rendered { text: page.text, places: page.places }
    }
}

/// The text while it is being written.
struct Page<'a> {
    text: String,
    places: Vec<Option<Place>>,
    /// The file whose name comments leave out.
    file: &'a str,
}

impl Page<'_> {
    fn line(&mut self, line: &str, place: Option<&Place>) {
        self.text.push_str(line);
        self.text.push('\n');
        self.places.push(place.cloned());
    }

    fn blank(&mut self) {
        self.line("", None);
    }

    fn comment(&mut self, text: &str) {
        self.line(format!("# {}", visible(text)).trim_end(), None);
    }

    fn header(&mut self, kind: &str, table: &Table) {
        self.blank();
        let place = table.name.as_ref().map(|name| name.place.clone());
        if let Some(name) = table.name.as_ref().filter(|name| kind == "listener" && !name.text.is_empty()) {
            self.comment(&name.text);
        }
        self.line(&format!("[[{kind}]]"), place.as_ref());
        if let Some(name) = table.name.as_ref().filter(|_| kind == "pool") {
            self.line(&format!("name = {}", quoted(&name.text)), place.as_ref());
        }
    }

    fn table(&mut self, table: &Table) {
        let mut last = None;
        for entry in &table.entries {
            if last != Some(&entry.origin) {
                self.origin(&entry.origin);
            }
            self.entry(entry);
            last = Some(&entry.origin);
        }
    }

    fn origin(&mut self, origin: &Origin) {
        match origin {
            Origin::Option { place, shown } => {
                let at = self.at(place);
                self.comment(&format!("{at}: {shown}"));
            }
            Origin::Implied(text) => self.comment(text),
        }
    }

    /// The place as a comment names it.
    fn at(&self, place: &Place) -> String {
        match *place.file == *self.file {
            true => format!("line {}", place.line),
            false => format!("{}:{}", place.file, place.line),
        }
    }

    fn entry(&mut self, entry: &Entry) {
        let place = match &entry.origin {
            Origin::Option { place, .. } => Some(place),
            Origin::Implied(_) => None,
        };
        let key = entry.key;
        match &entry.value {
            Value::Text(text) => self.line(&format!("{key} = {}", quoted(text)), place),
            Value::Number(number) => self.line(&format!("{key} = {number}"), place),
            Value::Switch(is_on) => self.line(&format!("{key} = {is_on}"), place),
            Value::List(values) => {
                self.line(&format!("{key} = ["), place);
                for (value, at) in values {
                    let remark = at.as_ref().map(|at| format!(" # {}", self.at(at))).unwrap_or_default();
                    self.line(&format!("  {},{}", quoted(value), visible(&remark)), at.as_ref().or(place));
                }
                self.line("]", place);
            }
        }
    }
}

/// `text` as a string of TOML, in which `${` is not the beginning of a variable.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.replace("${", "$${").chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            // A String takes all that is written to it.
            _ if letter.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(letter));
            }
            _ => out.push(letter),
        }
    }
    out.push('"');
    out
}
