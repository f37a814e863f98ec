//! The way down: the request of a client in a namespace as one that names the keys of the nodes.

use crate::namespace::treatment::Treatment;
use crate::rewritten::Rewritten;
use command::Command;
use resp::Request;

/// Beginnings of the channels by which nodes tell of keys (`notify-keyspace-events`).
const NOTIFICATIONS: [&[u8]; 2] = [b"__keyspace@", b"__keyevent@"];

const UNKNOWN_KEYS: &str = "the keys of this request cannot be found";

/// `request` with `prefix` before its keys; `None` if it stays as it is. The error says why it must not be carried out.
pub(crate) fn rewritten(
    prefix: &[u8],
    treatment: Treatment,
    command: &Command,
    request: &Request<'_>,
) -> Result<Option<Rewritten>, &'static str> {
    let mut found = vec![false; request.len()];
    match treatment {
        Treatment::Free => return Ok(None),
        Treatment::Refused(why) => return Err(why),
        Treatment::Listening => return tells_of_no_key(command, request).map(|()| None),
        Treatment::Scan => return Ok(Some(scan(prefix, request))),
        Treatment::Pattern => mark(&mut found, 1),
        Treatment::Sort => command::each_name_of_sort(request, &mut |at| mark(&mut found, at)),
        Treatment::Radius if names_targets(request) > 1 => return Err("it names more than one target"),
        Treatment::Keys(_) | Treatment::Script | Treatment::Radius => {
            let visited = command.each_key(request, &mut |at, _| mark(&mut found, at));
            visited.map_err(|_| UNKNOWN_KEYS)?;
        }
    }
    let mut rewritten = Rewritten::begin(request.len());
    for (arg, is_key) in request.args().zip(found) {
        rewritten.push(if is_key { prefix } else { b"" }, arg);
    }
    Ok(Some(rewritten))
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

/// SCAN with a pattern of the namespace. Redis takes the last MATCH, so one of the namespace's own comes last if there is none.
fn scan(prefix: &[u8], request: &Request<'_>) -> Rewritten {
    let is_match = |at: usize| command::is_word(request.arg(at), b"match") && at + 1 < request.len();
    let has_pattern = (2..request.len()).step_by(2).any(is_match);
    let mut rewritten = Rewritten::begin(request.len() + if has_pattern { 0 } else { 2 });
    for (at, arg) in request.args().enumerate() {
        let is_pattern = at > 2 && at % 2 == 1 && is_match(at - 1);
        rewritten.push(if is_pattern { prefix } else { b"" }, arg);
    }
    if !has_pattern {
        rewritten.push(b"", b"MATCH");
        rewritten.push(prefix, b"*");
    }
    rewritten
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
