//! The condition that requests must meet: nothing more than to reach the listener, a token, or a
//! client certificate.
//!
//! Without a token the listener is at the loopback interface or a unix socket. There a web page in a browser of this machine
//! must not reach it by a name of its own that leads here (DNS rebinding). So the `Host` of a request must be an address or
//! `localhost`.

use std::net::IpAddr;
use std::path::Path;

/// The condition that requests must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Requests come from this machine.
    Local,
    /// Requests come over TLS from clients with a certificate, which the handshake has verified.
    Certificate,
    /// Requests carry this token.
    Token(Vec<u8>),
}

/// The token in the first line of the file at `path`, which `option` names.
///
/// # Errors
/// The file cannot be read, or its first line is empty.
pub fn read_token(option: &str, path: &Path) -> Result<String, String> {
    let about = |error: String| format!("{option} {}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| about(error.to_string()))?;
    match text.lines().next().map(str::trim) {
        Some(token) if !token.is_empty() => Ok(token.to_owned()),
        _ => Err(about("its first line is empty; write the token there".to_owned())),
    }
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The token is missing or wrong.
    Token,
    /// The name of the host is not one of this machine.
    Host,
}

impl Guard {
    /// Checks the headers `Host` and `Authorization` of a request.
    pub(crate) fn check(&self, host: Option<&str>, authorization: Option<&[u8]>) -> Result<(), Denial> {
        match self {
            Guard::Local if host.is_none_or(is_local) => Ok(()),
            Guard::Local => Err(Denial::Host),
            Guard::Certificate => Ok(()),
            Guard::Token(token) => {
                let given = authorization.and_then(|value| value.strip_prefix(b"Bearer "));
                if given.is_some_and(|given| is_equal(given, token)) { Ok(()) } else { Err(Denial::Token) }
            }
        }
    }
}

fn is_local(host: &str) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = without_port.trim_start_matches('[').trim_end_matches(']');
    let is_address = [host, bare].iter().any(|text| text.parse::<IpAddr>().is_ok());
    is_address || bare.is_empty() || bare.eq_ignore_ascii_case("localhost")
}

/// Compares in a time that does not depend on where the bytes differ.
fn is_equal(given: &[u8], token: &[u8]) -> bool {
    let differences = given.iter().zip(token).fold(0, |sum, (one, other)| sum | (one ^ other));
    given.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_host_reaches_nothing() {
        for host in ["localhost", "localhost:9121", "127.0.0.1:9121", "[::1]:9121", "::1", "10.1.2.3", ""] {
            assert_eq!(Guard::Local.check(Some(host), None), Ok(()), "{host}");
        }
        assert_eq!(Guard::Local.check(None, None), Ok(()));
        for host in ["evil.example", "evil.example:9121", "localhost.evil.example"] {
            assert_eq!(Guard::Local.check(Some(host), None), Err(Denial::Host), "{host}");
        }
    }

    #[test]
    fn a_client_with_a_certificate_may_use_any_name() {
        assert_eq!(Guard::Certificate.check(Some("proxy.example"), None), Ok(()));
    }

    #[test]
    fn only_the_whole_token_opens() {
        let guard = Guard::Token(b"secret".to_vec());
        assert_eq!(guard.check(Some("any.example"), Some(b"Bearer secret")), Ok(()));
        for given in [&b"Bearer secre"[..], b"Bearer secret2", b"secret", b"Bearer ", b"Basic secret"] {
            assert_eq!(guard.check(None, Some(given)), Err(Denial::Token));
        }
        assert_eq!(guard.check(Some("localhost"), None), Err(Denial::Token));
    }
}
