//! COMMAND and its subcommands, answered from the table.
//!
//! All of Redis's commands are listed, even refused ones. Redis itself lists commands that a user may not run. Client libraries
//! find the keys of requests by this list, and report a missing command as unknown. Commands that nodes use among themselves
//! are left out.

use resp::{Request, encode};
use std::sync::OnceLock;
use stdx::glob;

use crate::carry::About;
use crate::command::Command;
use crate::describe::{write_info, write_words};
use crate::keys::{Args, is_word};
use crate::lookup::{self, Resolved, all};
use crate::sets::{Acl, Flags, KeyFlags};

/// Answers `question` of `request`, whose number of arguments fits: appends one reply, in RESP3 or RESP2.
pub fn write(question: About, request: &Request<'_>, resp3: bool, out: &mut Vec<u8>) {
    match question {
        About::All => write_all(resp3, out),
        About::Count => encode::integer(out, count() as i64),
        About::Info if request.len() == 2 => write_all(resp3, out),
        About::Info => write_named(request, resp3, out),
        About::List => write_list(request, out),
        About::GetKeys => write_keys(request, out, |out, key, _| encode::bulk(out, key)),
        About::GetKeysAndFlags => write_keys(request, out, |out, key, flags| {
            encode::array_header(out, 2);
            encode::bulk(out, key);
            write_words(out, flags.words(), resp3);
        }),
    }
}

/// Number of listed commands, without subcommands.
pub fn count() -> usize {
    listed().count()
}

fn listed() -> impl Iterator<Item = &'static Command> + Clone {
    all().filter(|command| !command.is_hidden())
}

/// The reply to COMMAND: 190 KB that never change, and that many client libraries request when they connect. It is built once.
fn write_all(resp3: bool, out: &mut Vec<u8>) {
    static ALL: [OnceLock<Vec<u8>>; 2] = [OnceLock::new(), OnceLock::new()];
    let all = ALL[usize::from(resp3)].get_or_init(|| {
        let mut all = Vec::new();
        encode::array_header(&mut all, count());
        listed().for_each(|command| write_info(&mut all, command, resp3));
        all
    });
    out.extend_from_slice(all);
}

/// `COMMAND INFO name …`
fn write_named(request: &Request<'_>, resp3: bool, out: &mut Vec<u8>) {
    encode::array_header(out, request.len() - 2);
    for name in request.args().skip(2) {
        match lookup::find_full(name).filter(|command| !command.is_hidden()) {
            Some(command) => write_info(out, command, resp3),
            None => encode::null(out, resp3),
        }
    }
}

/// The filter of `COMMAND LIST`.
enum Filter<'a> {
    Everything,
    Category(Option<Acl>),
    Pattern(&'a [u8]),
    /// The commands of a module. The table knows of no modules.
    Nothing,
}

impl Filter<'_> {
    fn passes(&self, command: &Command) -> bool {
        match self {
            Filter::Everything => true,
            Filter::Category(acl) => acl.is_some_and(|acl| command.acl.contains(acl)),
            Filter::Pattern(pattern) => glob::matches_ignoring_case(pattern, command.name.as_bytes()),
            Filter::Nothing => false,
        }
    }
}

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`: names, subcommands included.
fn write_list(request: &Request<'_>, out: &mut Vec<u8>) {
    let Some(filter) = filter(request) else { return encode::error(out, b"ERR syntax error") };
    let names: Vec<_> = listed()
        .flat_map(|command| std::iter::once(command).chain(command.subcommands.iter()))
        .filter(|command| !command.is_hidden() && filter.passes(command))
        .map(|command| &command.name)
        .collect();
    encode::array_header(out, names.len());
    for name in names {
        encode::bulk(out, name.as_bytes());
    }
}

fn filter<'a>(request: &Request<'a>) -> Option<Filter<'a>> {
    if request.len() == 2 {
        return Some(Filter::Everything);
    }
    if request.len() != 5 || !is_word(request.arg(2), b"filterby") {
        return None;
    }
    let (kind, value) = (request.arg(3), request.arg(4));
    match () {
        () if is_word(kind, b"module") => Some(Filter::Nothing),
        () if is_word(kind, b"aclcat") => Some(Filter::Category(Acl::from_word(&value.to_ascii_lowercase()))),
        () if is_word(kind, b"pattern") => Some(Filter::Pattern(value)),
        () => None,
    }
}

/// `COMMAND GETKEYS command arg …`: each key of that request, as `write_key` writes it, or its error.
fn write_keys(request: &Request<'_>, out: &mut Vec<u8>, write_key: impl Fn(&mut Vec<u8>, &[u8], KeyFlags)) {
    let args = Args::behind(request, 2);
    match keys(&args) {
        Err(text) => encode::error(out, text.as_bytes()),
        Ok(keys) => {
            encode::array_header(out, keys.len());
            for (at, flags) in keys {
                write_key(out, args.arg(at), flags);
            }
        }
    }
}

/// The keys of the request that `args` are.
fn keys(args: &Args<'_>) -> Result<Vec<(usize, KeyFlags)>, &'static str> {
    let found = lookup::find(args.arg(0)).filter(|command| !command.is_hidden());
    let command = match found.map(|command| lookup::resolve_args(command, args)) {
        None | Some(Resolved::Unknown | Resolved::UnknownSubcommand(_)) => {
            return Err("ERR Invalid command specified");
        }
        Some(Resolved::Command(command) | Resolved::WrongArity(command)) => command,
    };
    if !command.keys.has_any() {
        return Err("ERR The command has no key arguments");
    }
    if !command.arity_fits(args.len()) {
        return Err("ERR Invalid number of arguments specified for command");
    }
    let mut keys = Vec::new();
    let visited = command.visit_keys(args, &mut |at, flags| keys.push((at, flags)));
    if visited.is_err() || (keys.is_empty() && !command.flags.contains(Flags::NO_MANDATORY_KEYS)) {
        return Err("ERR Invalid arguments specified for command");
    }
    Ok(keys)
}
