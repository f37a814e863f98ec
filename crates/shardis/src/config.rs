//! Configuration files: TOML whose keys are the flags of `shardis proxy`, without their dashes.
//!
//! ```text
//!   file ─► TOML ─► keys ─► words of a command line ─┐
//!                    └► tables [[listener]]          ├─► clap ─► the services
//!   command line ─► words ───────────────────────────┘
//! ```
//!
//! A file with tables `[[pool]]` has several such services (`config/pools.rs`).
//!
//! There is no second list of keys: a key is looked up among the flags, and clap parses its value as the flag's. Each
//! fault is reported with its place in the file, and all of them at once where possible. Nothing here listens, connects
//! or writes.
//!
//! A file of another program becomes TOML first (`config/imported.rs`). A file may include others (`config/include.rs`).
//!
//! A key keeps its place in the file beside it (`config/flags.rs`). A refusal begins with the flag that it is about; `config/wording.rs`
//! makes it one of keys. `[[listener]]` becomes `--listener`, or the arguments of `shardis tcp` (`config/listeners.rs`).

mod document;
mod environment;
mod faults;
mod flags;
mod imported;
mod include;
mod listeners;
mod mirrors;
mod pools;
#[cfg(test)]
pub(crate) mod tests;
mod wording;

use crate::args::listener::Place;
use crate::args::settings;
use crate::args::{ProxyArgs, Serving, Way};
use crate::listeners::CannotListen;
use crate::tcp::TcpArgs;
use admin::Setting;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use document::{Document, Section};
use faults::Fault;
use flags::{Entry, Flags};
use listeners::TcpListener;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use wording::Wording;

pub(crate) use faults::Faults;
pub(crate) use imported::import;

/// Depth of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// All that can be seen on this machine.
    Check,
    /// The names of nodes' hosts as well, which are looked up.
    Start,
}

/// Flags of the process, which do not depend on its service.
const OF_THE_PROCESS: [&str; 9] = [
    "workers",
    "reuse_port",
    "drain_timeout",
    "upgrade_timeout",
    "upgrade_drain_timeout",
    "pid_file",
    "log_level",
    "log_format",
    "nutcracker_stats",
];
/// Flags that say where clients of Redis come.
const WAYS_IN: [&str; 4] = ["port", "tls_port", "unixsocket", "listener"];

/// Reads the file at `path` and combines it with `words` of the command line.
pub(crate) fn load(path: &Path, words: &[OsString], depth: Depth) -> Result<Serving, Faults> {
    let document = Document::read(path)?;
    match import::kind(&document.text) {
        Some(kind) => imported::load(kind, path, &document, words, depth),
        None => read(path, &document.with_included(path), words, depth),
    }
}

/// The same of a file that was read.
fn read(path: &Path, document: &Document, words: &[OsString], depth: Depth) -> Result<Serving, Faults> {
    let mut reader = Reader::new(document, words);
    let serving = reader.read(depth);
    let (path, words) = (path.to_owned(), words.to_vec());
    let origin = Origin { path, words, document: document.clone(), places: reader.places };
    match serving {
        Some(serving) if reader.faults.is_empty() => Ok(Serving { origin: Some(origin), ..serving }),
        _ => Err(origin.faults(reader.faults)),
    }
}

/// Where in which file it was said.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    path: PathBuf,
    /// The command line beside it.
    words: Vec<OsString>,
    document: Document,
    /// Where clients are to come.
    places: Vec<Claim>,
}

/// A listener, and the part of the configuration that names it.
#[derive(Clone, Debug)]
struct Claim {
    place: Place,
    /// Where in the file, if it does.
    at: Option<usize>,
    option: &'static str,
}

impl Origin {
    /// The services by the present text of the file.
    pub(crate) fn read_again(&self) -> Result<Serving, Faults> {
        load(&self.path, &self.words, Depth::Start)
    }

    /// The error for a listener that cannot be opened.
    pub(crate) fn explain(&self, error: &CannotListen) -> String {
        let at = match error {
            CannotListen::At { place, .. } => self.places.iter().find(|claim| claim.place == *place),
            CannotListen::Unknown(_) => None,
        };
        match at.and_then(|claim| claim.at) {
            Some(at) => {
                let text = Wording::default().of_file(&error.to_string());
                self.faults(vec![Fault::at(at, text)]).to_string()
            }
            None => error.to_string(),
        }
    }

    fn faults(&self, faults: Vec<Fault>) -> Faults {
        Faults::new(&self.path, &self.document, faults)
    }
}

/// The state of the reader.
struct Reader<'a> {
    document: &'a Document,
    flags: Flags,
    /// The command line.
    words: &'a [OsString],
    /// The flags that it has, by their ids.
    overriding: Vec<String>,
    wording: Wording,
    faults: Vec<Fault>,
    places: Vec<Claim>,
    settings: Vec<Setting>,
}

impl<'a> Reader<'a> {
    fn new(document: &'a Document, words: &'a [OsString]) -> Reader<'a> {
        let flags = Flags::new(ProxyArgs::command(), "shardis proxy --help lists all, with dashes in front");
        let overriding = said(words);
        let wording = Wording::new(flags.names_of(&overriding));
        Reader {
            document,
            flags,
            words,
            overriding,
            wording,
            faults: Vec::new(),
            places: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// The services. Without faults there is at least one.
    fn read(&mut self, depth: Depth) -> Option<Serving> {
        match self.document.root() {
            Ok(root) if root.pools.is_empty() => self.read_section(&root.section, depth),
            Ok(root) => self.read_pools(&root, depth),
            Err(faults) => {
                self.faults.extend(faults);
                None
            }
        }
    }

    /// The services of a file without pools.
    fn read_section(&mut self, section: &Section<'a>, depth: Depth) -> Option<Serving> {
        let entries = self.entries_of(&section.pairs, &|key| listeners::why_not_above(key));
        let listeners = listeners::read(&self.flags, &section.tables);
        self.faults.extend(listeners.faults);
        let entries: Vec<Entry> = entries.into_iter().chain(listeners.of_redis).collect();
        if !self.faults.is_empty() {
            return None;
        }
        let entries = flags::merged(entries, &mut self.faults);
        let args = self.proxy_args(&entries)?;
        let tcp: Vec<TcpListener> = listeners.of_tcp;
        let is_said = |id: &&str| {
            self.overriding.iter().any(|said| said == id) || entries.iter().any(|entry| entry.id == **id)
        };
        let is_redis = tcp.is_empty() || WAYS_IN.iter().any(is_said);
        self.check(&args, &entries);
        if is_redis {
            self.claim_places(&args, &entries);
            self.claim_admin(&args, &entries, None);
        } else {
            self.refuse_what_has_no_use(&entries);
        }
        let tcp = tcp.iter().filter_map(|listener| self.tcp_args(listener, &args, depth)).collect();
        if let Some(pool) = &args.file.pool {
            let text = format!("--pool {pool}: the file has no [[pool]]; leave the flag out");
            self.faults.push(Fault { at: None, text });
        }
        let serving = Serving { tcp, ..Serving::redis(args) };
        let settings = std::mem::take(&mut self.settings);
        Some(if is_redis {
            serving.with_settings(settings)
        } else {
            Serving { pools: Vec::new(), ..serving }
        })
    }

    /// All flags together: those of the command line win.
    fn proxy_args(&mut self, entries: &[Entry]) -> Option<ProxyArgs> {
        let is_said = |entry: &&Entry| !self.overriding.contains(&entry.id);
        let words = entries.iter().filter(is_said).flat_map(|entry| entry.words.iter().cloned());
        let words: Vec<OsString> = words.chain(self.words.iter().cloned()).collect();
        let in_file: Vec<String> = entries.iter().filter(is_said).map(|entry| entry.id.clone()).collect();
        self.settings = settings::settings(&words, &in_file);
        match self.flags.parse(words).and_then(|matches| ProxyArgs::from_arg_matches(&matches)) {
            Ok(args) => Some(args),
            Err(error) => {
                let fault = self.flags.relation(&error, entries, &self.overriding);
                let text = self.wording.of_file(&fault.text);
                self.faults.push(Fault { text, ..fault });
                None
            }
        }
    }

    fn check(&mut self, args: &ProxyArgs, entries: &[Entry]) {
        let mut texts = args.faults();
        if texts.is_empty() {
            texts = args.faults_of_files();
        }
        let located: Vec<Fault> = texts.iter().map(|text| self.located(text, entries)).collect();
        self.faults.extend(located);
    }

    fn claim_places(&mut self, args: &ProxyArgs, entries: &[Entry]) {
        for Way { option, place, .. } in args.ways_in().unwrap_or_default() {
            let at = self.located(&format!("{option} {place}"), entries).at;
            self.places.push(Claim { place, at, option });
        }
    }

    /// Claims the address of an admin listener that somebody asked for; `of_pool` is the pool's place in the file.
    fn claim_admin(&mut self, args: &ProxyArgs, entries: &[Entry], of_pool: Option<usize>) {
        let Some(place) = args.admin.place(false).map(|place| Place::of_admin(&place)) else { return };
        let at = self.located(&format!("--admin {place}"), entries).at.or(of_pool);
        if let Some(claim) = self.places.iter().find(|claim| claim.place.is_same(&place)) {
            let text = format!("admin {place}: {}", self.taken(claim));
            self.faults.push(Fault { at, text });
        }
        self.places.push(Claim { place, at, option: "--admin" });
    }

    /// The reason why the address of `claim` is taken.
    fn taken(&self, claim: &Claim) -> String {
        let owner = match claim.at {
            Some(at) => self.document.line(at),
            None => self.wording.of_file(claim.option),
        };
        format!("{owner} has this address already; each listener needs its own")
    }

    /// The fault `text`, which begins with a flag, at the position of that flag's value.
    fn located(&self, text: &str, entries: &[Entry]) -> Fault {
        let at = wording::flags_in(text).find_map(|name| {
            let id = self.flags.id(name)?;
            let entry = entries.iter().find(|entry| entry.id == id && !self.overriding.contains(&entry.id));
            entry.map(|entry| entry.place_of(text))
        });
        Fault { at, text: self.wording.of_file(text) }
    }

    /// Without a listener for Redis clients, a key about them can only be a mistake.
    fn refuse_what_has_no_use(&mut self, entries: &[Entry]) {
        // The stats port shows pools alone.
        let is_useless =
            |id: &str| id == "nutcracker_stats" || !OF_THE_PROCESS.contains(&id) && id != "config";
        let refusal = |key: &str, elsewhere: &str| {
            format!(
                "{key} has no effect, since all listeners are of mode tcp; write port = 6380 for one of \
                 Redis as well{elsewhere}"
            )
        };
        for Entry { key, at, .. } in entries.iter().filter(|entry| is_useless(&entry.id)) {
            let elsewhere = match listeners::is_key_of_tcp(key) {
                true => ", or move the key to its [[listener]]",
                false => "",
            };
            self.faults.push(Fault::at(*at, refusal(key, elsewhere)));
        }
        for id in self.overriding.iter().filter(|id| is_useless(id)) {
            let flag = self.flags.names_of(std::slice::from_ref(id)).swap_remove(0);
            self.faults.push(Fault { at: None, text: refusal(&format!("--{flag}"), "") });
        }
    }

    fn tcp_args(&mut self, listener: &TcpListener, above: &ProxyArgs, depth: Depth) -> Option<TcpArgs> {
        let args = match listener.args(above, depth) {
            Ok(args) => args,
            Err(faults) => {
                self.faults.extend(faults);
                return None;
            }
        };
        let place = Place::Tcp(args.listen_addr().ok()?);
        if let Some(claim) = self.places.iter().find(|claim| claim.place.is_same(&place)) {
            let text = format!("address {place}: {}", self.taken(claim));
            self.faults.push(Fault::at(listener.address_at, text));
        }
        self.places.push(Claim { place, at: Some(listener.address_at), option: "--listen" });
        Some(args)
    }
}

/// The summary of `serving` in the words of a file.
pub(crate) fn summary(serving: &Serving) -> String {
    Wording::default().of_file(&serving.summary())
}

/// The flags in `words` of a command line, by their ids.
pub(crate) fn said(words: &[OsString]) -> Vec<String> {
    let command = ProxyArgs::command().no_binary_name(true).ignore_errors(true);
    let ids: Vec<String> = command.get_arguments().map(|flag| flag.get_id().to_string()).collect();
    let Ok(matches) = command.try_get_matches_from(words) else { return Vec::new() };
    let is_said = |id: &String| matches.value_source(id) == Some(ValueSource::CommandLine);
    ids.into_iter().filter(is_said).collect()
}

/// The file that `words` of a command line of `shardis proxy` name. The words must be valid, or lack only values that a file
/// may give.
pub(crate) fn asked_for(words: &[OsString]) -> Option<PathBuf> {
    let command = ProxyArgs::command().no_binary_name(true);
    let file = |matches: &ArgMatches| matches.get_one::<PathBuf>("config").cloned();
    match command.clone().try_get_matches_from(words) {
        Ok(matches) => ProxyArgs::from_arg_matches(&matches).ok()?.file.config,
        Err(error) if error.kind() == clap::error::ErrorKind::MissingRequiredArgument => {
            file(&command.ignore_errors(true).try_get_matches_from(words).ok()?)
        }
        Err(_) => None,
    }
}
