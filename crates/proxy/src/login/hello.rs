//! The reply to HELLO, and the check of names for CLIENT SETNAME.

use crate::errors;
use crate::features::Session;
use crate::limits::CLIENT_NAME_BYTES_MAX;
use resp::encode;

/// Writes the reply to HELLO in the present protocol of the session.
pub(crate) fn write_hello(session: &Session, reply: &mut Vec<u8>) {
    encode::map_header(reply, 7, session.resp3);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        encode::bulk(reply, field.as_bytes());
        encode::bulk(reply, value.as_bytes());
    }
    for (field, value) in [("proto", 2 + i64::from(session.resp3)), ("id", session.origin.client as i64)] {
        encode::bulk(reply, field.as_bytes());
        encode::integer(reply, value);
    }
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        encode::bulk(reply, field.as_bytes());
        encode::bulk(reply, value.as_bytes());
    }
    encode::bulk(reply, b"modules");
    encode::array_header(reply, 0);
}

/// Checks a client's name. It has a limited length and only printable characters without blanks, so that CLIENT LIST
/// has one line per client.
pub(crate) fn check_name(name: &[u8]) -> Result<(), &'static str> {
    match () {
        () if !name.iter().all(u8::is_ascii_graphic) => Err(errors::CLIENT_NAME),
        () if name.len() > CLIENT_NAME_BYTES_MAX => Err(errors::CLIENT_NAME_TOO_LONG),
        () => Ok(()),
    }
}

/// The version of Redis whose commands shardis has. Client libraries choose their commands by it.
pub(crate) const REDIS_VERSION: &str = "7.0.15";
