//! The commands of one HTTP request.

use crate::answer::{Refusal, Status};
use crate::json::Form;
use crate::limits::COMMANDS_MAX;
use crate::reply::Shape;
use resp::encode;

/// Commands in RESP, and the form of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub requests: Vec<u8>,
    pub shape: Shape,
    pub form: Form,
    pub database: u32,
}

/// Commands that change the connection, or whose replies do not end. Requests of other clients may share the connection.
const REFUSED: &[&str] = &[
    "auth",
    "discard",
    "exec",
    "hello",
    "monitor",
    "multi",
    "psubscribe",
    "psync",
    "punsubscribe",
    "quit",
    "reset",
    "select",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "sync",
    "unsubscribe",
    "unwatch",
    "watch",
];
/// The same among the subcommands of CLIENT.
const REFUSED_OF_CLIENT: &[&str] =
    &["caching", "no-evict", "no-touch", "reply", "setinfo", "setname", "tracking"];

/// Adds the request of a command.
pub(crate) fn add(requests: &mut Vec<u8>, args: &[Vec<u8>]) -> Result<(), Refusal> {
    let Some(name) = args.first().filter(|name| !name.is_empty()) else {
        return Err(Refusal::new(Status::BadRequest, "a command without a name"));
    };
    let is_in =
        |names: &[&str], arg: &[u8]| names.iter().any(|name| arg.eq_ignore_ascii_case(name.as_bytes()));
    let of_client = args.get(1).filter(|_| name.eq_ignore_ascii_case(b"client"));
    if is_in(REFUSED, name) || of_client.is_some_and(|subcommand| is_in(REFUSED_OF_CLIENT, subcommand)) {
        let name = String::from_utf8_lossy(name).to_uppercase();
        let text = format!(
            "{name} changes its connection, which requests over HTTP share; it needs a client of Redis"
        );
        return Err(Refusal::new(Status::BadRequest, &text));
    }
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    encode::request(requests, &args);
    Ok(())
}

/// The requests of several commands.
pub(crate) fn all(commands: &[Vec<Vec<u8>>]) -> Result<Vec<u8>, Refusal> {
    if commands.is_empty() || commands.len() > COMMANDS_MAX {
        let text = format!("a request has 1 to {COMMANDS_MAX} commands");
        return Err(Refusal::new(Status::BadRequest, &text));
    }
    let mut requests = Vec::new();
    commands.iter().try_for_each(|command| add(&mut requests, command))?;
    Ok(requests)
}

/// The bytes of a part of a path.
pub(crate) fn decode(part: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(words: &str) -> Result<String, Refusal> {
        let (mut requests, args) = (Vec::new(), words.split(' ').map(|word| word.as_bytes().to_vec()));
        add(&mut requests, &args.collect::<Vec<_>>())?;
        Ok(String::from_utf8(requests).expect("ASCII"))
    }

    #[test]
    fn commands_that_change_the_connection_are_refused() {
        assert_eq!(added("get a").as_deref(), Ok("*2\r\n$3\r\nget\r\n$1\r\na\r\n"));
        assert!(added("client list").is_ok());
        for words in ["Select 1", "subscribe a", "client REPLY off", "multi", ""] {
            assert_eq!(added(words).expect_err(words).status, Status::BadRequest);
        }
    }

    #[test]
    fn a_request_has_a_limit_of_commands() {
        let ping = vec![vec![b"ping".to_vec()]; COMMANDS_MAX];
        assert!(all(&ping).is_ok());
        assert!(all(&[]).is_err() && all(&[&ping[..], &ping[..1]].concat()).is_err());
    }
}
