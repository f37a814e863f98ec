//! The order of a CLIENT PAUSE.

use crate::errors;
use resp::Request;
use resp::integer::parse_i64;
use std::time::Duration;

/// The order of a CLIENT PAUSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub time: Duration,
    pub all: bool,
}

impl Order {
    /// Parses `CLIENT PAUSE milliseconds [WRITE|ALL]`. If it is wrong, writes an error.
    pub(crate) fn parse(request: &Request<'_>, reply: &mut Vec<u8>) -> Option<Order> {
        let all = match request.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
            _ if request.len() > 4 => {
                errors::write_subcommand_syntax(reply, request);
                return None;
            }
            None | Some(b"all") => true,
            Some(b"write") => false,
            Some(_) => {
                errors::write(reply, errors::PAUSE_MODE);
                return None;
            }
        };
        match parse_i64(request.arg(2)).map(u64::try_from) {
            Some(Ok(millis)) => return Some(Order { time: Duration::from_millis(millis), all }),
            Some(Err(_)) => errors::write(reply, errors::TIMEOUT_NEGATIVE),
            None => errors::write(reply, errors::TIMEOUT_NOT_AN_INTEGER),
        }
        None
    }
}
