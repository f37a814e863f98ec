//! Arguments for TLS, unix sockets and the PROXY protocol, and the certificates that they name, which a reload reads
//! again. The options of listeners have Redis's names.

use crate::args::listener::{ListenerArg, Place};
use crate::args::no_effect;
use clap::{Args, ValueEnum};
use driver::{Acceptor, ClientAuth, Connector, Identity, Trust};
use gateway::Dialect;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// Transports of clients beside plain TCP, and of links to nodes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TransportArgs {
    /// Port for TLS clients, beside the plain one; 0 means none
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) tls_port: u16,

    /// Certificate chain (PEM) of TLS listeners, repeatable, each with its --tls-key-file. The client's server name
    /// (SNI) selects one, else the first applies. SIGHUP reads all files again
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Vec<PathBuf>,

    /// Private key (PEM, no passphrase) of the certificate
    #[arg(long, value_name = "FILE")]
    tls_key_file: Vec<PathBuf>,

    /// Certificate authorities (PEM) that sign client certificates
    #[arg(long, value_name = "FILE")]
    tls_ca_cert_file: Option<PathBuf>,

    /// Client certificates: yes (required), optional, or no [default: yes; no without --tls-ca-cert-file]
    #[arg(long, value_name = "yes|optional|no", requires = "tls_ca_cert_file")]
    tls_auth_clients: Option<AuthClients>,

    /// Port for HTTP clients, in the form of --http-dialect; 0 means none
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) http_port: u16,

    /// Form of HTTP requests: rest, as @upstash/redis sends them, or webdis (/GET/key.json)
    #[arg(long, value_enum, value_name = "rest|webdis", default_value_t)]
    pub(crate) http_dialect: HttpDialect,

    /// Unix socket to listen on as well
    #[arg(long, value_name = "PATH")]
    pub(crate) unixsocket: Option<PathBuf>,

    /// Permissions of unix sockets in octal, such as 770; without it, the umask decides
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub(crate) unixsocketperm: Option<u32>,

    /// Additional listener, repeatable: host:port, [v6]:port or unix:/path, then optionally tls, http and policies, each after
    /// a blank, as in --listener='127.0.0.1:6381 read-from=replica'. Policies: docs/policy.md
    #[expect(rustdoc::broken_intra_doc_links, reason = "an address of IPv6 in brackets")]
    #[arg(long, value_name = "ADDRESS [tls] [http] [read-from=POLICY]", value_parser = ListenerArg::from_str)]
    pub(crate) listener: Vec<ListenerArg>,

    /// TLS to nodes, except over unix sockets
    #[arg(long)]
    pub(crate) node_tls: bool,

    /// Certificate authorities (PEM) that sign node certificates; without it, those of the system
    #[arg(long, value_name = "FILE", requires = "node_tls")]
    node_tls_ca_cert_file: Option<PathBuf>,

    /// Client certificate (PEM) for nodes that require one (Redis's tls-auth-clients)
    #[arg(long, value_name = "FILE", requires_all = ["node_tls", "node_tls_key_file"])]
    node_tls_cert_file: Option<PathBuf>,

    /// Private key (PEM, no passphrase) of --node-tls-cert-file
    #[arg(long, value_name = "FILE", requires = "node_tls_cert_file")]
    node_tls_key_file: Option<PathBuf>,

    /// Server name in the nodes' certificates; without it, the host of each node
    #[arg(long, value_name = "NAME", requires = "node_tls")]
    node_tls_server_name: Option<String>,

    /// Trust in any certificate of a node: encrypted, but perhaps to an attacker. For tests only
    #[arg(long, requires = "node_tls", conflicts_with_all = ["node_tls_ca_cert_file", "node_tls_server_name"])]
    node_tls_insecure: bool,
}

/// The form of HTTP requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum HttpDialect {
    #[default]
    Rest,
    Webdis,
}

impl HttpDialect {
    pub(crate) fn parse(text: &str) -> Result<Dialect, String> {
        HttpDialect::from_str(text, false)
            .map(HttpDialect::dialect)
            .map_err(|_| format!("http={text}: write one of rest, webdis"))
    }

    pub(crate) fn dialect(self) -> Dialect {
        match self {
            HttpDialect::Rest => Dialect::Rest,
            HttpDialect::Webdis => Dialect::Webdis,
        }
    }
}

/// Redis's words for whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AuthClients {
    No,
    Optional,
    Yes,
}

/// Permissions in octal, as chmod takes them.
fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write permissions in octal, as in 770".to_owned())
}

impl TransportArgs {
    /// Refuses combinations that single options cannot see. `plain` is the listener of plain clients, if any.
    pub(crate) fn check(&self, plain: Option<SocketAddr>, has_nodes: bool) -> Result<(), String> {
        let (certificates, keys) = (self.tls_cert_file.len(), self.tls_key_file.len());
        if certificates != keys {
            return Err(format!(
                "--tls-cert-file and --tls-key-file belong together: {certificates} of the one, {keys} of the other"
            ));
        }
        let needs = |option: String| Err(format!("{option} needs --tls-cert-file and --tls-key-file"));
        let tls_listener = self.listener.iter().find(|listener| listener.is_tls);
        match (self.tls_port, tls_listener) {
            (0, None) if certificates > 0 => {
                return Err(
                    "--tls-cert-file: no listener uses TLS; add one, as in --tls-port=6390".to_owned()
                );
            }
            (0, Some(listener)) if certificates == 0 => {
                return needs(format!("--listener {} tls", listener.place));
            }
            (0, _) => {}
            (tls_port, _) if certificates == 0 => return needs(format!("--tls-port {tls_port}")),
            (tls_port, _) if plain.is_some_and(|addr| addr.port() == tls_port) => {
                return Err(format!(
                    "--tls-port {tls_port}: --port has this port already; each needs its own"
                ));
            }
            (_, _) => {}
        }
        let takes = |port: u16| self.http_port != 0 && self.http_port == port;
        if plain.is_some_and(|addr| takes(addr.port())) || takes(self.tls_port) {
            let other = if takes(self.tls_port) { "--tls-port" } else { "--port" };
            return Err(format!(
                "--http-port {}: {other} has this port already; each needs its own",
                self.http_port
            ));
        }
        if self.unixsocketperm.is_some() && !self.has_unix_socket() {
            return Err("--unixsocketperm: there is no socket; name one with --unixsocket".to_owned());
        }
        if self.node_tls && !has_nodes {
            return Err("--node-tls: there are no nodes; name them with --nodes".to_owned());
        }
        Ok(())
    }

    /// Options without effect. Each text begins with its option.
    pub(crate) fn remarks(&self) -> Option<String> {
        let has_tls = self.tls_port != 0 || self.listener.iter().any(|listener| listener.is_tls);
        (self.tls_ca_cert_file.is_some() && !has_tls).then(|| no_effect("--tls-ca-cert-file", "--tls-port"))
    }

    /// Whether clients can come elsewhere than at --port.
    pub(crate) fn has_listener(&self) -> bool {
        self.tls_port != 0 || self.http_port != 0 || self.unixsocket.is_some() || !self.listener.is_empty()
    }

    fn has_unix_socket(&self) -> bool {
        let is_unix = |listener: &ListenerArg| matches!(listener.place, Place::Unix(_));
        self.unixsocket.is_some() || self.listener.iter().any(is_unix)
    }

    fn has_tls_listener(&self) -> bool {
        self.tls_port != 0 || self.listener.iter().any(|listener| listener.is_tls)
    }

    /// Whether there are certificates, which can change while the process runs.
    pub(crate) fn has_files(&self) -> bool {
        self.has_tls_listener() || self.node_tls
    }

    /// Reads all files. An error names the option and the file.
    pub(crate) fn load(&self) -> Result<Certificates, String> {
        let acceptor = if self.has_tls_listener() { Some(self.acceptor()?) } else { None };
        let connector = if self.node_tls { Some(self.connector()?) } else { None };
        Ok(Certificates { acceptor, connector })
    }

    fn acceptor(&self) -> Result<Acceptor, String> {
        let pairs = self.tls_cert_file.iter().zip(&self.tls_key_file);
        let identity =
            |(cert, key): (&PathBuf, &PathBuf)| read_identity("--tls-cert-file", cert, "--tls-key-file", key);
        let identities = pairs.map(identity).collect::<Result<Vec<_>, _>>()?;
        let Some(file) = &self.tls_ca_cert_file else {
            return Acceptor::new(identities, ClientAuth::No, b"")
                .map_err(|error| format!("--tls-cert-file: {error}"));
        };
        let auth = match self.tls_auth_clients {
            None | Some(AuthClients::Yes) => ClientAuth::Required,
            Some(AuthClients::Optional) => ClientAuth::Optional,
            Some(AuthClients::No) => ClientAuth::No,
        };
        let authorities = read("--tls-ca-cert-file", file)?;
        Acceptor::new(identities, auth, &authorities)
            .map_err(|error| about("--tls-ca-cert-file", file, error))
    }

    fn connector(&self) -> Result<Connector, String> {
        let identity = match (&self.node_tls_cert_file, &self.node_tls_key_file) {
            (Some(cert), Some(key)) => {
                Some(read_identity("--node-tls-cert-file", cert, "--node-tls-key-file", key)?)
            }
            _ => None,
        };
        if let Some(file) = &self.node_tls_ca_cert_file {
            let authorities = read("--node-tls-ca-cert-file", file)?;
            return Connector::new(Trust::Authorities(&authorities), identity)
                .map_err(|error| about("--node-tls-ca-cert-file", file, error));
        }
        let trust = if self.node_tls_insecure { Trust::Anybody } else { Trust::System };
        Connector::new(trust, identity).map_err(|error| format!("--node-tls: {error}"))
    }

    /// The client side of TLS for workers.
    pub(crate) fn node_tls(&self, certificates: &Certificates) -> Option<NodeTls> {
        let connector = Mutex::new(certificates.connector.clone()?);
        Some(NodeTls { connector, name: self.node_tls_server_name.clone() })
    }
}

pub(crate) fn read(option: &str, file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| about(option, file, error))
}

pub(crate) fn read_identity(
    cert_option: &str,
    cert: &Path,
    key_option: &str,
    key: &Path,
) -> Result<Identity, String> {
    let (certificates, key) = (read(cert_option, cert)?, read(key_option, key)?);
    Identity::new(&certificates, &key).map_err(|error| about(cert_option, cert, error))
}

pub(crate) fn about(option: &str, file: &Path, error: impl std::fmt::Display) -> String {
    format!("{option} {}: {error}", file.display())
}

/// Our certificate and the trusted ones, from the files.
pub(crate) struct Certificates {
    /// Towards clients, if there is a listener with TLS.
    pub acceptor: Option<Acceptor>,
    connector: Option<Connector>,
}

/// TLS of workers to nodes.
pub(crate) struct NodeTls {
    /// Exchanged by a reload; looked at only to connect.
    connector: Mutex<Connector>,
    name: Option<String>,
}

impl NodeTls {
    /// The current connector.
    pub(crate) fn connector(&self) -> Connector {
        self.connector.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The name that must be in the certificate of the node at `host`.
    pub(crate) fn name_of<'a>(&'a self, host: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(host)
    }

    /// Takes over new certificates. Open connections stay.
    pub(crate) fn exchange(&self, certificates: &Certificates) {
        if let Some(connector) = &certificates.connector {
            *self.connector.lock().unwrap_or_else(PoisonError::into_inner) = connector.clone();
        }
    }
}
