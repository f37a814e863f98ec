//! Addresses of the admin listener.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// Where the admin listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a port.
    Tcp(SocketAddr),
    /// At a unix socket.
    Unix(PathBuf),
}

impl Place {
    /// The address as a browser takes it.
    pub fn url(&self, is_tls: bool) -> String {
        match self {
            Place::Tcp(addr) if is_tls => format!("https://{addr}"),
            place => place.to_string(),
        }
    }

    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Place::Tcp(addr) => addr.ip().is_loopback(),
            Place::Unix(_) => true,
        }
    }
}

impl FromStr for Place {
    type Err = String;

    /// `port`, `host:port`, `[v6]:port` or `unix:/path`. A port alone is one of the loopback interface.
    fn from_str(text: &str) -> Result<Place, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Place::Unix(path.into()));
        }
        if let Ok(port) = text.parse() {
            return Ok(Place::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        let found = text.to_socket_addrs().ok().and_then(|mut addrs| addrs.next());
        found.map(Place::Tcp).ok_or_else(|| {
            "write a port, an address of this machine and a port, or unix:/path, as in 9121 or 127.0.0.1:9121"
                .to_owned()
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(addr) => write!(out, "http://{addr}"),
            Place::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ports_addresses_and_paths() {
        let shown = |text: &str| text.parse::<Place>().map(|place| place.to_string());
        assert_eq!(shown("9121").as_deref(), Ok("http://127.0.0.1:9121"));
        assert_eq!(shown("0.0.0.0:9121").as_deref(), Ok("http://0.0.0.0:9121"));
        assert_eq!(shown("[::1]:9121").as_deref(), Ok("http://[::1]:9121"));
        assert_eq!(shown("unix:/run/a.sock").as_deref(), Ok("unix:/run/a.sock"));
        let url = |text: &str| text.parse::<Place>().map(|place| place.url(true));
        assert_eq!(url("9121").as_deref(), Ok("https://127.0.0.1:9121"));
        assert_eq!(url("unix:a").as_deref(), Ok("unix:a"));
        assert!(shown("here").is_err());
        let is_local = |text: &str| text.parse::<Place>().is_ok_and(|place| place.is_local());
        assert!(is_local("9121") && is_local("[::1]:1") && is_local("unix:a") && !is_local("0.0.0.0:1"));
    }
}
