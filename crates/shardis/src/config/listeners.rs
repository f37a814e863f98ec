//! Tables `[[listener]]`: those of Redis become `--listener`, those of mode tcp become arguments of `shardis tcp`.

use super::Depth;
use super::document::{Pair, Table};
use super::faults::Fault;
use super::flags::{Entry, Flags};
use super::wording::{Wording, flags_in};
use crate::args::listener::{ListenerArg, parse_place};
use crate::args::policy::PolicyArgs;
use crate::args::{ProxyArgs, plainly};
use crate::tcp::TcpArgs;
use clap::{Arg, ArgAction, Args, Command, FromArgMatches};
use proxy::ReadFrom;
use std::ffi::OsString;
use std::str::FromStr;
use toml::de::DeValue;

/// Flags of `shardis tcp` that belong to the process: the keys above the tables set them for all.
const ABOVE: [&str; 6] =
    ["workers", "drain-timeout", "upgrade-timeout", "upgrade-drain-timeout", "pid-file", "log-level"];

/// The most listeners of mode tcp. Each has threads of its own, so more would be a mistake.
const TCP_LISTENERS_MAX: usize = 64;

/// The content of the tables.
#[derive(Debug)]
pub(super) struct Listeners {
    /// As `--listener`, those of Redis.
    pub of_redis: Vec<Entry>,
    /// The listeners of mode tcp.
    pub of_tcp: Vec<TcpListener>,
    /// The faults found.
    pub faults: Vec<Fault>,
}

/// One of mode tcp.
#[derive(Debug)]
pub(super) struct TcpListener {
    /// Where its table begins.
    at: usize,
    /// Where its address is.
    pub address_at: usize,
    entries: Vec<Entry>,
}

/// Reads the tables. `above` are the keys that may stand above them.
pub(super) fn read(above: &Flags, tables: &[Table<'_>]) -> Listeners {
    let mut listeners = Listeners { of_redis: Vec::new(), of_tcp: Vec::new(), faults: Vec::new() };
    for table in tables {
        let mode = table.pairs.iter().find(|pair| pair.key == "mode");
        let outcome = match mode.map(|pair| (&pair.value, pair.value_at)) {
            None => of_redis(above, table).map(|entry| listeners.of_redis.push(entry)),
            Some((DeValue::String(mode), _)) if mode == "redis" => {
                of_redis(above, table).map(|entry| listeners.of_redis.push(entry))
            }
            Some((DeValue::String(mode), _)) if mode == "tcp" => {
                of_tcp(above, table).map(|listener| listeners.of_tcp.push(listener))
            }
            Some((_, at)) => Err(vec![Fault::at(at, "mode: write \"redis\" or \"tcp\"")]),
        };
        listeners.faults.extend(outcome.err().unwrap_or_default());
        if listeners.of_tcp.len() > TCP_LISTENERS_MAX {
            let text = format!("at most {TCP_LISTENERS_MAX} listeners have mode = \"tcp\"");
            listeners.faults.push(Fault::at(table.at, text));
            break;
        }
    }
    listeners
}

/// The reason why `key` cannot stand above the tables, if it could within one.
pub(super) fn why_not_above(key: &str) -> Option<String> {
    (is_key_of_tcp(key) || ["address", "tls"].contains(&key))
        .then(|| format!("{key}: the key belongs to one listener; write it under its [[listener]]"))
}

/// Whether a listener of mode tcp may have `key`.
pub(super) fn is_key_of_tcp(key: &str) -> bool {
    tcp().id(key).is_some() && !ABOVE.contains(&key)
}

/// The keys of a listener of Redis.
fn redis() -> Flags {
    let address = Arg::new("address").long("address").value_name("ADDR:PORT").value_parser(parse_address);
    let mode = Arg::new("mode").long("mode");
    let tls = Arg::new("tls").long("tls").action(ArgAction::SetTrue);
    let read_from =
        Arg::new("read-from").long("read-from").value_name("POLICY").value_parser(ReadFrom::from_str);
    let command = Command::new("listener").args([address, mode, tls, read_from]);
    let list = "a listener of Redis has address, mode, tls, read-from, deny, rename, max-keys, max-value and read-only";
    Flags::new(PolicyArgs::augment_args(command), list)
}

/// The keys of one of mode tcp.
fn tcp() -> Flags {
    let command = TcpArgs::augment_args(Command::new("listener"));
    let command = command.mut_arg("listen", |flag| flag.long("address").hide(false));
    let command = command.mut_arg("fail_timeout", |flag| flag.hide(false));
    // The address says both.
    let command = command.mut_arg("host", |flag| flag.hide(true)).mut_arg("port", |flag| flag.hide(true));
    let command = command.arg(Arg::new("mode").long("mode"));
    Flags::new(command, "shardis tcp --help lists all, with dashes in front")
}

/// An address alone: the rest of a `--listener` has keys of its own.
fn parse_address(text: &str) -> Result<String, String> {
    if text.contains(char::is_whitespace) {
        return Err("write the address alone; tls = true and read-from are keys beside it".to_owned());
    }
    parse_place(text).map(|_| text.to_owned())
}

fn of_redis(above: &Flags, table: &Table<'_>) -> Result<Entry, Vec<Fault>> {
    let flags = redis();
    let why_not = |key: &str| match (is_key_of_tcp(key), above.id(key)) {
        (true, None) => Some(format!("{key}: only a listener with mode = \"tcp\" has it")),
        (true, Some(_)) => Some(format!(
            "{key}: only a listener with mode = \"tcp\" has its own; for those of Redis, write it above the first [[listener]]"
        )),
        (false, _) => belongs_above(above, key),
    };
    let entries = entries(&flags, table, &why_not)?;
    let address = address(table, &entries)?;
    let mut word = address.values[0].0.clone();
    for entry in entries.iter().filter(|entry| !entry.words.is_empty()) {
        match (entry.id.as_str(), entry.values.first()) {
            ("tls", _) => word.push_str(" tls"),
            ("read-from", Some((policy, _))) => word.push_str(&format!(" read-from={policy}")),
            ("address" | "mode", _) => {}
            // The words of a policy are its flags without their dashes.
            _ => entry.words.iter().filter_map(|flag| flag.to_str()?.strip_prefix("--")).for_each(|flag| {
                word.push(' ');
                word.push_str(flag);
            }),
        }
    }
    let at = address.values[0].1;
    let listener = ListenerArg::from_str(&word).map_err(|why| vec![Fault::at(at, why)])?;
    let words = vec![OsString::from(format!("--listener={word}"))];
    let values = vec![(listener.place.to_string(), at)];
    Ok(Entry { key: "listener".to_owned(), at, id: "listener".to_owned(), words, values })
}

fn of_tcp(above: &Flags, table: &Table<'_>) -> Result<TcpListener, Vec<Fault>> {
    let flags = tcp();
    let is_above = |pair: &&Pair<'_>| ABOVE.contains(&pair.key.as_str());
    let misplaced = table.pairs.iter().filter(is_above);
    let misplaced: Vec<Fault> =
        misplaced.map(|pair| Fault::at(pair.at, of_all_listeners(&pair.key))).collect();
    if !misplaced.is_empty() {
        return Err(misplaced);
    }
    let why_not = |key: &str| match key {
        "tls" | "read-from" => {
            Some(format!("{key}: bytes are passed on unread; a listener with mode = \"redis\" has it"))
        }
        _ => belongs_above(above, key),
    };
    let entries = entries(&flags, table, &why_not)?;
    let address_at = address(table, &entries)?.values[0].1;
    if !entries.iter().any(|entry| entry.id == "nodes") {
        let text = "this listener needs nodes as well, as in nodes = [\"127.0.0.1:6379\"]";
        return Err(vec![Fault::at(table.at, text)]);
    }
    Ok(TcpListener { at: table.at, address_at, entries })
}

fn entries(
    flags: &Flags,
    table: &Table<'_>,
    why_not: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Entry>, Vec<Fault>> {
    let (mut entries, mut faults) = (Vec::new(), Vec::new());
    for pair in &table.pairs {
        match flags.entry(pair, why_not) {
            Ok(entry) => entries.push(entry),
            Err(more) => faults.extend(more),
        }
    }
    if faults.is_empty() { Ok(entries) } else { Err(faults) }
}

fn address<'a>(table: &Table<'_>, entries: &'a [Entry]) -> Result<&'a Entry, Vec<Fault>> {
    let text = "this listener needs an address as well, as in address = \"127.0.0.1:6381\"";
    let is_address = |entry: &&Entry| entry.key == "address";
    entries.iter().find(is_address).ok_or_else(|| vec![Fault::at(table.at, text)])
}

fn belongs_above(above: &Flags, key: &str) -> Option<String> {
    // As flags say it.
    if ["listen", "host", "port"].contains(&key) {
        return Some(format!("{key}: a listener has an address, as in address = \"127.0.0.1:6381\""));
    }
    above.id(key).map(|_| of_all_listeners(key))
}

fn of_all_listeners(key: &str) -> String {
    format!("{key}: the key belongs to no single listener; write it above the first [[listener]]")
}

impl TcpListener {
    /// The arguments of `shardis tcp`; those of the process come from `above`.
    pub(super) fn args(&self, above: &ProxyArgs, depth: Depth) -> Result<TcpArgs, Vec<Fault>> {
        let words = self.entries.iter().flat_map(|entry| entry.words.iter().cloned());
        let args = tcp().parse(words).and_then(|matches| TcpArgs::from_arg_matches(&matches));
        let args = args.map_err(|error| vec![self.located(&plainly(&error.to_string()))])?;
        args.check().map_err(|text| vec![self.located(&text)])?;
        if depth == Depth::Start {
            args.targets().map_err(|text| vec![self.located(&text)])?;
        }
        Ok(args.within(&above.service))
    }

    /// The fault `text`, which begins with a flag, at the position of that flag's value.
    fn located(&self, text: &str) -> Fault {
        let named = flags_in(text).find_map(|name| {
            let id = tcp().id(name).or_else(|| (name == "listen").then(|| name.to_owned()))?;
            self.entries.iter().find(|entry| entry.id == id)
        });
        let at = named.map_or(self.at, |entry| entry.place_of(text));
        Fault::at(at, Wording::default().of_file(text))
    }
}
