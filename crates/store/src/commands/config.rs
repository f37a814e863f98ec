//! CONFIG: the store's few parameters. Only one of them can be changed at run time.

use resp::Request;
use stdx::glob;

use crate::args::{is, shown};
use crate::commands::help;
use crate::database::DATABASES;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::text::TEXT_BYTES_MAX;

type Done = Result<(), Error>;

pub(crate) fn config(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let word = request.arg(1);
    match word {
        _ if is(word, "HELP") => return help::write(request, "CONFIG", help::CONFIG, out),
        _ if is(word, "GET") && request.len() < 3 => return Err(Error::Arity("config|get".to_owned())),
        _ if is(word, "SET") && request.len() < 4 => return Err(Error::Arity("config|set".to_owned())),
        _ if is(word, "GET") => show(keyspace, request, out),
        _ if is(word, "SET") => return change(keyspace, request, out),
        _ => return Err(Error::UnknownSubcommand(shown(word), "CONFIG")),
    }
    Ok(())
}

fn show(keyspace: &Keyspace, request: &Request<'_>, out: &mut Reply) {
    // As in Redis, 0 means no limit.
    let memory_max = Some(keyspace.memory_max).filter(|&bytes| bytes != usize::MAX).unwrap_or_default();
    let parameters: [(&str, Vec<u8>); 5] = [
        ("databases", DATABASES.to_string().into_bytes()),
        ("maxmemory", memory_max.to_string().into_bytes()),
        ("maxmemory-policy", keyspace.policy.name().as_bytes().to_vec()),
        (EVENTS, keyspace.audience.letters()),
        ("proto-max-bulk-len", TEXT_BYTES_MAX.to_string().into_bytes()),
    ];
    let is_wanted = |name: &str| {
        let mut patterns = request.args().skip(2).map(<[u8]>::to_ascii_lowercase);
        patterns.any(|pattern| glob::matches(&pattern, name.as_bytes()))
    };
    let shown: Vec<_> = parameters.iter().filter(|(name, _)| is_wanted(name)).collect();
    out.map(shown.len());
    for (name, value) in shown {
        out.bulk(name.as_bytes());
        out.bulk(value);
    }
}

fn change(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let pairs = (2..request.len()).step_by(2);
    if let Some(at) =
        pairs.into_iter().find(|&at| !is(request.arg(at), EVENTS) || request.get(at + 1).is_none())
    {
        return Err(Error::unknown_parameter(request.arg(at)));
    }
    if !keyspace.audience.listen(request.arg(request.len() - 1)) {
        return Err(Error::EVENT_CLASSES);
    }
    out.simple(b"OK");
    Ok(())
}

const EVENTS: &str = "notify-keyspace-events";
