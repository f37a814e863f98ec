//! The way down: the request of a client in a namespace as one that names the keys of the nodes.

use crate::namespace::Namespace;
use crate::namespace::treatment::Treatment;
use crate::rewritten::Rewritten;
use command::{Carry, Command};
use resp::Request;

/// Beginnings of the channels by which nodes tell of keys (`notify-keyspace-events`).
const NOTIFICATIONS: [&[u8]; 2] = [b"__keyspace@", b"__keyevent@"];

const UNKNOWN_KEYS: &str = "the keys of this request cannot be found";
const KEY_OF_OTHERS: &str = "a key or a pattern of it is not of this route";

/// A request for nodes.
#[derive(Debug, Default)]
pub(crate) struct Rewriting {
    /// The request, unless it stays as it is.
    pub request: Option<Rewritten>,
    /// The pattern of the names that the client wants, if nodes are asked for more.
    pub pattern: Option<Box<[u8]>>,
}

/// `request` with the nodes' names of its keys. The error says why it must not be carried out.
pub(crate) fn rewritten(
    namespace: &Namespace,
    treatment: Treatment,
    command: &Command,
    request: &Request<'_>,
) -> Result<Rewriting, &'static str> {
    // A key lacks its value. Such a request goes to one pool, whatever its keys, and a node refuses it.
    let is_cut = matches!(command.carry, Carry::Split(_)) && !command.splits_evenly(request.len());
    if is_cut && namespace.route().is_some() {
        return Ok(Rewriting::default());
    }
    let mut found = vec![false; request.len()];
    match treatment {
        Treatment::Free | Treatment::OneKey => return Ok(Rewriting::default()),
        Treatment::Refused(why) => return Err(why),
        Treatment::Listening => {
            return tells_of_no_key(command, request).map(|()| Rewriting::default());
        }
        Treatment::Scan => return Ok(scan(namespace, request)),
        Treatment::Pattern => return Ok(keys(namespace, request)),
        Treatment::Sort => command::each_name_of_sort(request, &mut |at| mark(&mut found, at)),
        Treatment::Radius if names_targets(request) > 1 => return Err("it names more than one target"),
        Treatment::Keys(_) | Treatment::Script | Treatment::Radius => {
            let visited = command.each_key(request, &mut |at, _| mark(&mut found, at));
            visited.map_err(|_| UNKNOWN_KEYS)?;
        }
    }
    let mut rewritten = Rewritten::begin(request.len());
    for (arg, is_key) in request.args().zip(found) {
        let (head, tail) =
            if is_key { namespace.of_node(arg).ok_or(KEY_OF_OTHERS)? } else { (&b""[..], arg) };
        rewritten.push(head, tail);
    }
    Ok(Rewriting { request: Some(rewritten), pattern: None })
}

fn mark(found: &mut [bool], at: usize) {
    if let Some(found) = found.get_mut(at) {
        *found = true;
    }
}

/// The number of words by which GEORADIUS may name a target. Its key spec finds the first, Redis takes the last.
fn names_targets(request: &Request<'_>) -> usize {
    const OPTIONS: usize = 5;
    let is_option = |arg: &&[u8]| command::is_word(arg, b"store") || command::is_word(arg, b"storedist");
    request.args().skip(OPTIONS).filter(is_option).count()
}

/// KEYS with a pattern of the namespace.
fn keys(namespace: &Namespace, request: &Request<'_>) -> Rewriting {
    let pattern = request.arg(1);
    let ((head, tail), is_wider) = namespace.pattern(pattern);
    let mut rewritten = Rewritten::begin(request.len());
    rewritten.push(b"", request.arg(0));
    rewritten.push(head, tail);
    Rewriting { request: Some(rewritten), pattern: is_wider.then(|| pattern.into()) }
}

/// SCAN with a pattern of the namespace. Redis takes the last MATCH, so one of the namespace's own comes last if there is none.
fn scan(namespace: &Namespace, request: &Request<'_>) -> Rewriting {
    let is_match = |at: usize| command::is_word(request.arg(at), b"match") && at + 1 < request.len();
    let has_pattern = (2..request.len()).step_by(2).any(is_match);
    let mut rewritten = Rewritten::begin(request.len() + if has_pattern { 0 } else { 2 });
    let mut wanted = None;
    for (at, arg) in request.args().enumerate() {
        if at > 2 && at % 2 == 1 && is_match(at - 1) {
            let ((head, tail), is_wider) = namespace.pattern(arg);
            rewritten.push(head, tail);
            wanted = is_wider.then(|| arg.into());
        } else {
            rewritten.push(b"", arg);
        }
    }
    if !has_pattern {
        let ((head, tail), _) = namespace.pattern(b"*");
        rewritten.push(b"", b"MATCH");
        rewritten.push(head, tail);
    }
    Rewriting { request: Some(rewritten), pattern: wanted }
}

/// Refuses channels, and patterns of channels, by which nodes tell of the keys of all users.
fn tells_of_no_key(command: &Command, request: &Request<'_>) -> Result<(), &'static str> {
    let is_pattern = command.name == "psubscribe";
    let tells = |channel: &[u8]| {
        let special = |byte: &u8| b"*?[\\".contains(byte);
        let literal = channel.iter().position(special).filter(|_| is_pattern).unwrap_or(channel.len());
        let is_open = is_pattern && literal < channel.len();
        let literal = &channel[..literal];
        NOTIFICATIONS.iter().any(|known| literal.starts_with(known) || is_open && known.starts_with(literal))
    };
    match request.args().skip(1).any(tells) {
        true => Err("nodes tell of the keys of all users by such a channel"),
        false => Ok(()),
    }
}
