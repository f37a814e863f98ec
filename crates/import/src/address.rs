//! Addresses: those of listeners, and those of nodes.

use crate::draft::{Origin, Table};
use std::net::{IpAddr, Ipv6Addr};

/// Where clients are to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// A host, or nothing for all interfaces, and a port.
    Tcp(String, u16),
    /// A path, and permissions if there are any.
    Unix(String, Option<u32>),
}

impl Listen {
    /// Reads `host:port`, `[v6]:port` or `v6:port`; a missing host and `*` are all interfaces.
    pub(crate) fn tcp(text: &str) -> Option<Listen> {
        let (host, port) = text.rsplit_once(':')?;
        let host = bare(host);
        let host = if ["", "*"].contains(&host) { "0.0.0.0" } else { host };
        Some(Listen::Tcp(host.to_owned(), parse_port(port)?))
    }

    /// Sets the keys of a pool, and lets clients of other machines in: none of the other programs has a protected mode.
    pub(crate) fn set(&self, table: &mut Table, origin: &Origin) {
        match self {
            Listen::Tcp(host, port) => {
                table.set("host", host.as_str(), origin);
                table.set("port", u64::from(*port), origin);
            }
            Listen::Unix(path, permissions) => {
                table.set("unixsocket", path.as_str(), origin);
                if let Some(permissions) = permissions {
                    table.set("unixsocketperm", format!("{permissions:o}"), origin);
                }
                table.set("port", 0, origin);
            }
        }
    }

    /// Whether other machines can reach it.
    fn is_open(&self) -> bool {
        match self {
            Listen::Tcp(host, _) => {
                !host.parse::<IpAddr>().map_or(host == "localhost", |ip| ip.is_loopback())
            }
            Listen::Unix(..) => false,
        }
    }

    /// Ends the pool at `table`: without a password, the other programs let clients of all machines in.
    pub(crate) fn open(&self, table: &mut Table, program: &str) {
        if self.is_open() && !table.has("requirepass") && !table.has("user") {
            let origin = Origin::implied(format!("{program} asks clients of other machines for no password"));
            table.set("protected-mode", "no", &origin);
        }
    }
}

/// Reads a port, which is not 0.
pub(crate) fn parse_port(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port != 0)
}

/// `host` without the brackets of an IPv6 address.
pub(crate) fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// `host` and `port` as a list of nodes has them.
pub(crate) fn node(host: &str, port: &str) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(_) => format!("[{host}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

/// A node as `host:port`, `[v6]:port`, `v6:port`, `unix:/path` or `/path`, in the form of a list of nodes.
pub(crate) fn node_of(text: &str) -> Option<String> {
    if text.starts_with('/') {
        return Some(format!("unix:{text}")).filter(|_| is_plain(text));
    }
    if text.starts_with("unix:") {
        return Some(text.to_owned()).filter(|_| is_plain(text));
    }
    let (host, port) = text.rsplit_once(':')?;
    let host = bare(host);
    parse_port(port)?;
    Some(node(host, port)).filter(|_| !host.is_empty() && is_plain(host))
}

/// Whether `text` can stand in a list of nodes, which commas, `|` and blanks divide.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.contains([',', '|']) && !text.contains(char::is_whitespace) && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_all_spellings() {
        let tcp = |host: &str, port| Some(Listen::Tcp(host.to_owned(), port));
        assert_eq!(Listen::tcp("127.0.0.1:1"), tcp("127.0.0.1", 1));
        assert_eq!(Listen::tcp(":1"), tcp("0.0.0.0", 1));
        assert_eq!(Listen::tcp("[::1]:1"), tcp("::1", 1));
        assert_eq!(Listen::tcp("::1:1"), tcp("::1", 1));
        assert_eq!((Listen::tcp("a"), Listen::tcp("a:0"), Listen::tcp("a:+1")), (None, None, None));
        assert_eq!(node_of("::1:6379").as_deref(), Some("[::1]:6379"));
        assert_eq!(node_of("/tmp/a").as_deref(), Some("unix:/tmp/a"));
        assert_eq!((node_of("a,b:1"), node_of("a|b:1"), node_of(":1")), (None, None, None));
    }
}
