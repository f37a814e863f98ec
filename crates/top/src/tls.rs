//! Options for TLS to the admin listener, with redis-cli's names, and the settings that they make.

use anyhow::{Result, anyhow};
use clap::Args;
use driver::{Connector, Identity, Trust};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig};

/// TLS to the admin listener.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TlsArgs {
    /// TLS, as the admin listener speaks it with --admin-tls-cert-file
    #[arg(long)]
    tls: bool,

    /// Certificate authorities (PEM) that sign the admin listener's certificate; without it, those of the system
    #[arg(long, value_name = "FILE", requires = "tls")]
    cacert: Option<PathBuf>,

    /// Client certificate (PEM), for --admin-tls-ca-cert-file
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    cert: Option<PathBuf>,

    /// Private key (PEM, no passphrase) of --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// Server name in the admin listener's certificate; without it, the IP address
    #[arg(long, value_name = "NAME", requires = "tls")]
    sni: Option<String>,
}

/// Settings of handshakes with the admin listener.
pub(crate) struct Tls {
    pub config: Arc<ClientConfig>,
    /// The name to ask for; `None` for the address.
    pub name: Option<ServerName<'static>>,
}

impl TlsArgs {
    /// Reads the files. An error names the option and the file. `None` without `--tls`.
    pub(crate) fn load(&self) -> Result<Option<Tls>> {
        if !self.tls {
            return Ok(None);
        }
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let identity = Identity::new(&read("--cert", cert)?, &read("--key", key)?);
                Some(identity.map_err(|error| about("--cert", cert, error))?)
            }
            _ => None,
        };
        let connector = match &self.cacert {
            Some(file) => Connector::new(Trust::Authorities(&read("--cacert", file)?), identity)
                .map_err(|error| about("--cacert", file, error))?,
            None => Connector::new(Trust::System, identity).map_err(|error| anyhow!("--tls: {error}"))?,
        };
        let name = self.sni.clone().map(ServerName::try_from).transpose();
        let name = name.map_err(|_| anyhow!("--sni: write a name, as in proxy.example.org"))?;
        Ok(Some(Tls { config: connector.config(), name }))
    }
}

/// `error` with the meaning of a refused certificate, and its cure.
pub(crate) fn explained(error: anyhow::Error) -> anyhow::Error {
    let tls_error = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>().cloned()
    };
    match error.chain().find_map(tls_error).and_then(|found| cure(&found)) {
        Some(cure) => error.context(cure),
        None => error,
    }
}

fn cure(error: &rustls::Error) -> Option<&'static str> {
    use rustls::AlertDescription as Alert;
    Some(match error {
        rustls::Error::AlertReceived(Alert::CertificateRequired) => {
            "shardis asks for a client certificate (--admin-tls-ca-cert-file): name one with --cert and --key"
        }
        rustls::Error::AlertReceived(Alert::CertificateExpired) => {
            "shardis refuses the certificate of --cert: it has expired"
        }
        rustls::Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnknownCA
            | Alert::CertificateUnknown
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::DecryptError
            | Alert::AccessDenied,
        ) => {
            "shardis refuses the certificate of --cert: one of the authorities of --admin-tls-ca-cert-file must have \
             signed it, for use by clients"
        }
        rustls::Error::InvalidCertificate(_) => {
            "the certificate of shardis is not trusted: name its authority with --cacert, and its name with --sni"
        }
        _ => return None,
    })
}

fn read(option: &str, file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| about(option, file, error))
}

fn about(option: &str, file: &Path, error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{option} {}: {error}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{AlertDescription, CertificateError};

    fn shown(error: rustls::Error) -> String {
        format!("{:#}", explained(std::io::Error::other(error).into()))
    }

    #[test]
    fn refused_certificates_are_explained() {
        let alert = |alert| shown(rustls::Error::AlertReceived(alert));
        assert!(alert(AlertDescription::CertificateRequired).contains("name one with --cert and --key"));
        assert!(
            alert(AlertDescription::UnknownCA).starts_with("shardis refuses the certificate of --cert: ")
        );
        assert!(alert(AlertDescription::CertificateExpired).contains("has expired"));
        let untrusted = shown(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer));
        assert!(untrusted.contains("--cacert") && untrusted.contains("UnknownIssuer"), "{untrusted}");
        assert_eq!(alert(AlertDescription::HandshakeFailure), "received fatal alert: HandshakeFailure");
    }
}
