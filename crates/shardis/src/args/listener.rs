//! Listeners beside those of --port, --tls-port and --unixsocket, each with policies of its own.

use super::policy::PolicyArgs;
use crate::transport::HttpDialect;
use gateway::Dialect;
use proxy::ReadFrom;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One listener in the form of `--listener`: an address, then options with blanks between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerArg {
    /// Where it listens.
    pub place: Place,
    /// Whether clients speak TLS there.
    pub is_tls: bool,
    /// The form of HTTP requests, if clients speak HTTP there.
    pub http: Option<Dialect>,
    /// Where reads of its clients go; `None`: where --read-from says.
    pub read_from: Option<ReadFrom>,
    /// Its policy for commands, where it differs from that of all listeners.
    pub policy: PolicyArgs,
}

/// Where clients arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A TCP port of this machine; port 0 is a free one.
    Tcp(SocketAddr),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(addr) => write!(out, "{addr}"),
            Place::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// A way in for clients.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// The option that says so.
    pub option: &'static str,
    /// Where it is.
    pub place: Place,
    /// Whether clients speak TLS there.
    pub is_tls: bool,
    /// The form of HTTP requests, if clients speak HTTP there.
    pub http: Option<Dialect>,
    /// The read policy of a listener, if it has one of its own.
    pub read_from: Option<ReadFrom>,
    /// The policy of the listener for commands.
    pub policy: PolicyArgs,
}

impl FromStr for ListenerArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace();
        let place = parse_place(words.next().unwrap_or_default())?;
        let mut listener =
            ListenerArg { place, is_tls: false, http: None, read_from: None, policy: PolicyArgs::default() };
        for word in words {
            match word.split_once('=') {
                None if word == "tls" => listener.is_tls = true,
                None if word == "http" => listener.http = Some(Dialect::Rest),
                Some(("http", dialect)) => listener.http = Some(HttpDialect::parse(dialect)?),
                Some(("read-from", policy)) => listener.read_from = Some(policy.parse()?),
                _ if listener.policy.take(word)? => {}
                _ => {
                    return Err(format!(
                        "{word}: behind the address may stand tls, http, http=webdis, read-from=POLICY, deny=RULES, rename=NAMES, \
                         max-keys=NUMBER, max-value=BYTES and read-only"
                    ));
                }
            }
        }
        if listener.is_tls && matches!(listener.place, Place::Unix(_)) {
            return Err("tls: a unix socket has none".to_owned());
        }
        Ok(listener)
    }
}

/// Parses `text` as a place: an address with a port, or a unix socket.
pub(crate) fn parse_place(text: &str) -> Result<Place, String> {
    let path = text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text));
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        let path = std::path::absolute(path).map_err(|error| format!("unix:{path}: {error}"))?;
        return Ok(Place::Unix(path));
    }
    let resolved = text.to_socket_addrs().ok().and_then(|mut addrs| addrs.next());
    resolved.map(Place::Tcp).ok_or_else(|| {
        "write an address of this machine, as in 127.0.0.1:6381, [::1]:6381 or unix:/run/reads.sock"
            .to_owned()
    })
}

impl ListenerArg {
    /// Refuses `listeners` of which two have the same place, or one shares it with `others` (each with its option).
    pub(crate) fn check_all(
        listeners: &[ListenerArg],
        others: &[(&'static str, Place)],
    ) -> Result<(), String> {
        for (number, ListenerArg { place, .. }) in listeners.iter().enumerate() {
            if listeners[..number].iter().any(|before| before.place.is_same(place)) {
                return Err(format!(
                    "--listener {place}: the address is given twice; each listener needs its own"
                ));
            }
            if let Some((option, _)) = others.iter().find(|(_, other)| other.is_same(place)) {
                return Err(format!(
                    "--listener {place}: {option} has this address already; each listener needs its own"
                ));
            }
        }
        Ok(())
    }
}

impl Place {
    /// The place of the unix socket that an option gives as `path`.
    pub(crate) fn unix(path: &Path) -> Place {
        // Where there is no current directory, the path cannot be bound either.
        Place::Unix(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// The place of an admin listener.
    pub(crate) fn of_admin(place: &admin::Place) -> Place {
        match place {
            admin::Place::Tcp(addr) => Place::Tcp(*addr),
            admin::Place::Unix(path) => Place::unix(path),
        }
    }

    /// Whether not both can be listened at. Free ports differ.
    pub(crate) fn is_same(&self, other: &Place) -> bool {
        let is_free_port = matches!(self, Place::Tcp(addr) if addr.port() == 0);
        self == other && !is_free_port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> ListenerArg {
        text.parse().expect(text)
    }

    #[test]
    fn a_listener_is_an_address_with_options() {
        let place = Place::Tcp("127.0.0.1:6381".parse().expect("an address"));
        let plain =
            ListenerArg { place, is_tls: false, http: None, read_from: None, policy: PolicyArgs::default() };
        assert_eq!(parsed("127.0.0.1:6381"), plain);
        for (words, dialect) in [("http", Dialect::Rest), ("http=webdis", Dialect::Webdis)] {
            let http = ListenerArg { http: Some(dialect), ..plain.clone() };
            assert_eq!(parsed(&format!("127.0.0.1:6381 {words}")), http);
        }
        let full = ListenerArg { is_tls: true, read_from: Some(ReadFrom::PreferReplica), ..plain };
        assert_eq!(parsed(" 127.0.0.1:6381  read-from=prefer-replica tls "), full);
        for path in ["unix:/run/a.sock", "/run/a.sock"] {
            assert_eq!(parsed(path).place.to_string(), "unix:/run/a.sock");
        }
        assert_eq!(parsed("[::1]:1").place.to_string(), "[::1]:1");
    }

    #[test]
    fn an_invalid_listener_is_refused_by_name() {
        let cases = [
            ("", "write an address"),
            ("6381", "write an address"),
            ("127.0.0.1", "write an address"),
            ("unix:", "write an address"),
            ("read-from=any", "write an address"),
            ("127.0.0.1:6381 read-from=slave", "prefer-replica"),
            ("127.0.0.1:6381 readfrom=any", "readfrom=any: behind the address"),
            ("127.0.0.1:6381,read-from=any", "write an address"),
            ("unix:/run/a.sock tls", "a unix socket has none"),
            ("127.0.0.1:6381 http=soap", "rest, webdis"),
            ("unix:/run/a b.sock", "b.sock: behind the address"),
        ];
        for (text, named) in cases {
            let error = text.parse::<ListenerArg>().expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn no_two_are_at_the_same_place() {
        let others = [
            ("--port", Place::Tcp("127.0.0.1:6380".parse().expect("an address"))),
            ("--unixsocket", Place::unix(Path::new("/run/a"))),
        ];
        let check = |texts: &[&str]| {
            let listeners: Vec<ListenerArg> = texts.iter().map(|text| parsed(text)).collect();
            ListenerArg::check_all(&listeners, &others)
        };
        assert_eq!(
            check(&["127.0.0.1:1 tls", "127.0.0.1:2", "127.0.0.1:0", "127.0.0.1:0", "/run/b"]),
            Ok(())
        );
        let refusals = [
            (&["127.0.0.1:1 tls", "127.0.0.1:1"][..], "--listener 127.0.0.1:1: the address is given twice"),
            (&["127.0.0.1:6380 read-from=any"], "--listener 127.0.0.1:6380: --port has this address"),
            (&["unix:/run/a"], "--listener unix:/run/a: --unixsocket has this address"),
        ];
        for (texts, named) in refusals {
            let error = check(texts).expect_err(named);
            assert!(error.starts_with(named), "{error}");
        }
    }
}
