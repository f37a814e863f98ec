//! Options of the mirror: a share of the requests goes to another pool as well.

use super::bytes::parse_bytes;
use super::listener::{Place, Way};
use crate::access::Secret;
use clap::Args;
use mirror::{Plan, Policy, SHARE_WHOLE, Target};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The other pool, and the choice of requests.
#[derive(Args, Clone, Debug)]
pub(crate) struct MirrorArgs {
    /// Mirror: another pool that gets requests of the clients as well, and whose replies are compared: host:port,
    /// unix:/path, or the name of a [[pool]] in the file (docs/mirror.md) [default: none]
    #[expect(rustdoc::broken_intra_doc_links, reason = "a table of the file in brackets")]
    #[arg(long, value_name = "POOL", value_parser = Mirrored::from_str)]
    pub(crate) mirror: Option<Mirrored>,

    /// Requests for the mirror: all, or writes
    #[arg(long, value_name = "REQUESTS", default_value = "all", value_parser = ["all", "writes"], requires = "mirror")]
    mirror_requests: String,

    /// Share of the keys whose requests the mirror gets, in per cent; the same keys each time
    #[arg(long, value_name = "PERCENT", default_value = "100%", value_parser = parse_share, requires = "mirror")]
    mirror_share: u32,

    /// User name at the mirror for --mirror-password-file; without it, the default user
    #[arg(long, value_name = "NAME", requires = "mirror_password_file")]
    mirror_user: Option<String>,

    /// File with the password at the mirror (AUTH) in its first line
    #[arg(long, value_name = "PATH", requires = "mirror")]
    mirror_password_file: Option<PathBuf>,

    /// Memory of the mirror; requests that do not fit are left out of it
    #[arg(long, value_name = "BYTES", default_value = "64mb", value_parser = parse_bytes, requires = "mirror")]
    mirror_memory: usize,
}

/// The pool that is the mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mirrored {
    /// By its address.
    At(Target),
    /// By its name in the file.
    Named(String),
}

impl FromStr for Mirrored {
    type Err = String;

    fn from_str(text: &str) -> Result<Mirrored, String> {
        let path = text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text));
        if let Some(path) = path {
            return match path.starts_with('/') {
                true => Ok(Mirrored::At(Target::Unix(path.into()))),
                false => Err("write the whole path of a unix socket, as in unix:/run/other.sock".to_owned()),
            };
        }
        match text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
            Some((host, Ok(1..))) if !host.is_empty() => Ok(Mirrored::At(Target::Tcp(text.to_owned()))),
            None if !text.is_empty() => Ok(Mirrored::Named(text.to_owned())),
            _ => Err("write host:port, unix:/path or the name of a pool".to_owned()),
        }
    }
}

impl fmt::Display for Mirrored {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mirrored::At(target) => target.fmt(out),
            Mirrored::Named(name) => out.write_str(name),
        }
    }
}

impl MirrorArgs {
    /// The mirror, if one is wanted. An error names the option and the file.
    pub(crate) fn wanted(&self) -> Result<Option<Plan>, String> {
        let target = match &self.mirror {
            None => return Ok(None),
            Some(Mirrored::At(target)) => target,
            Some(Mirrored::Named(name)) => {
                return Err(format!(
                    "--mirror {name}: no pool has this name; write host:port, unix:/path or the name of a [[pool]] in the file"
                ));
            }
        };
        let login = match &self.mirror_password_file {
            None => None,
            Some(path) => {
                let password = Secret::read("--mirror-password-file", path)?;
                Some((self.mirror_user.clone().map(String::into_bytes), password.as_bytes().to_vec()))
            }
        };
        let policy = Policy { reads: self.mirror_requests == "all", share: self.mirror_share };
        Ok(Some(Plan { target: target.clone(), login, policy, bytes_max: self.mirror_memory }))
    }

    /// Refuses a mirror that is this pool itself, whose listeners are `ways`.
    pub(crate) fn check(&self, ways: &[Way]) -> Result<(), String> {
        match &self.mirror {
            None => Ok(()),
            Some(Mirrored::At(target)) if ways.iter().any(|way| target_at(&way.place) == *target) => {
                Err(format!(
                    "--mirror {target}: this is the pool itself; each request would come again without end"
                ))
            }
            // The names are known once all pools are.
            Some(_) => Ok(()),
        }
    }
}

/// The target that clients of this machine reach at `place`.
fn target_at(place: &Place) -> Target {
    match place {
        Place::Unix(path) => Target::Unix(path.clone()),
        Place::Tcp(addr) => {
            let ip = match addr.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            };
            Target::Tcp(SocketAddr::new(ip, addr.port()).to_string())
        }
    }
}

/// The target of a pool with the listeners `ways`: the first without TLS and with a known port.
pub(crate) fn target_of(ways: &[Way]) -> Option<Target> {
    let is_known = |way: &&Way| !matches!(way.place, Place::Tcp(addr) if addr.port() == 0);
    ways.iter().filter(is_known).find(|way| !way.is_tls).map(|way| target_at(&way.place))
}

/// Parses a share in per cent, with at most two digits behind the dot.
fn parse_share(text: &str) -> Result<u32, String> {
    let refused = || "write per cent of the keys, as in 10% or 0.5%".to_owned();
    let number = text.strip_suffix('%').unwrap_or(text);
    let share: f64 = number.parse().map_err(|_| refused())?;
    let parts = (share * f64::from(SHARE_WHOLE) / 100.0).round();
    if (1.0..=f64::from(SHARE_WHOLE)).contains(&parts) { Ok(parts as u32) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_an_address_or_a_name() {
        let parsed = |text: &str| text.parse::<Mirrored>();
        assert_eq!(parsed("a:6379"), Ok(Mirrored::At(Target::Tcp("a:6379".to_owned()))));
        assert_eq!(parsed("[::1]:6379"), Ok(Mirrored::At(Target::Tcp("[::1]:6379".to_owned()))));
        for path in ["unix:/run/a", "/run/a"] {
            assert_eq!(parsed(path), Ok(Mirrored::At(Target::Unix("/run/a".into()))));
        }
        assert_eq!(parsed("orders"), Ok(Mirrored::Named("orders".to_owned())));
        for wrong in ["", "a:0", ":1", "a:x", "unix:a"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_are_per_cent_of_the_keys() {
        for (text, share) in [("100%", 10_000), ("10", 1_000), ("0.5%", 50), ("0.01%", 1)] {
            assert_eq!(parse_share(text), Ok(share), "{text}");
        }
        for wrong in ["0", "101%", "-1", "x", "0.001%", "NaN", ""] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }
}
