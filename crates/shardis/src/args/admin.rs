//! Options of the admin listener.

use super::admin_tls::AdminTlsArgs;
use super::mirror::MirrorArgs;
use super::slowlog::SlowlogArgs;
use super::statsd::StatsdArgs;
use ::admin::{Guard, Place, ReadyShards, read_token};
use clap::Args;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The listener for operators and their programs, and the condition that requests must meet.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminArgs {
    /// Admin listener (HTTP): metrics, health, state, a page. A port of the loopback interface, host:port or unix:/path;
    /// 0 takes a free one. Others than loopback need a token or client certificates [default: none; 0 without --nodes]
    #[arg(long, value_name = "ADDRESS", value_parser = Place::from_str)]
    admin: Option<Place>,

    /// File with the token of the admin listener in its first line; requests carry it as Authorization: Bearer TOKEN
    #[arg(long, value_name = "PATH", requires = "admin")]
    admin_token_file: Option<PathBuf>,

    /// Shards that must be up for /readyz: a number, or all
    #[arg(long, value_name = "SHARDS", default_value = "1", value_parser = ReadyShards::from_str)]
    pub(crate) ready_shards: ReadyShards,

    #[command(flatten)]
    pub(crate) tls: AdminTlsArgs,

    /// Stats port of twemproxy: an address and a port at which each connection gets the JSON that nutcracker gives, for
    /// its exporters. It asks for no password and shows no keys (docs/migration.md) [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_stats_addr)]
    pub(crate) nutcracker_stats: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) statsd: StatsdArgs,

    #[command(flatten)]
    pub(crate) slowlog: SlowlogArgs,

    #[command(flatten)]
    pub(crate) mirror: MirrorArgs,

    /// Presence of an admin listener for all pools.
    #[arg(skip)]
    pub(crate) is_of_process: bool,
}

/// An address and a port. A port alone is one of the loopback interface.
fn parse_stats_addr(text: &str) -> Result<SocketAddr, String> {
    match Place::from_str(text) {
        Ok(Place::Tcp(addr)) => Ok(addr),
        _ => Err("write an address of this machine and a port, as in 127.0.0.1:22222".to_owned()),
    }
}

impl AdminArgs {
    /// Refuses an address that others can reach without a token or a certificate.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.tls.check(self.admin.as_ref())?;
        let is_guarded = self.admin_token_file.is_some() || self.tls.has_client_certificates();
        self.admin.as_ref().map_or(Ok(()), |place| AdminArgs::check_place(place, is_guarded))
    }

    /// The same for the address at which it listens, which may be that of a passed socket.
    pub(crate) fn check_place(place: &Place, is_guarded: bool) -> Result<(), String> {
        match place.is_local() || is_guarded {
            true => Ok(()),
            false => Err(format!(
                "--admin {place}: other machines can reach it; name a token with --admin-token-file, or authorities of client certificates with --admin-tls-ca-cert-file, or listen at 127.0.0.1"
            )),
        }
    }

    /// Where it listens. Shards in memory are an experiment (`is_experiment`), which shows its page unasked.
    pub(crate) fn place(&self, is_experiment: bool) -> Option<Place> {
        let free = || Place::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
        self.admin.clone().or_else(|| (is_experiment && !self.is_of_process).then(free))
    }

    /// Whether a file has the token.
    pub(crate) fn has_token_file(&self) -> bool {
        self.admin_token_file.is_some()
    }

    /// The condition that requests must meet. The error names the option and the file.
    pub(crate) fn guard(&self) -> Result<Guard, String> {
        match &self.admin_token_file {
            Some(path) => {
                read_token("--admin-token-file", path).map(|token| Guard::Token(token.into_bytes()))
            }
            None if self.tls.has_client_certificates() => Ok(Guard::Certificate),
            None => Ok(Guard::Local),
        }
    }
}
