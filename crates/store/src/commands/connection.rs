//! Commands that touch no key.

use resp::{Request, encode};

use crate::error::Error;
use crate::keyspace::Keyspace;

pub(crate) fn ping(_: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    match (request.get(1), request.len()) {
        (None, _) => encode::simple(out, b"PONG"),
        (Some(message), 2) => encode::bulk(out, message),
        _ => return Err(Error::Arity("ping".to_owned())),
    }
    Ok(())
}

pub(crate) fn echo(_: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    encode::bulk(out, request.arg(1));
    Ok(())
}
