//! Options for TLS of the admin listener, and the certificates that they name, which a reload reads again.

use crate::transport::{about, read, read_identity};
use ::admin::{Place, Tls};
use clap::Args;
use driver::{Acceptor, ClientAuth};
use std::path::PathBuf;
use std::sync::Arc;

/// Files for TLS of the admin listener.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AdminTlsArgs {
    /// Certificate chain (PEM) of the admin listener, which then speaks TLS; with --admin-tls-key-file. SIGHUP reads
    /// all files again
    #[arg(long, value_name = "FILE", requires_all = ["admin", "admin_tls_key_file"])]
    admin_tls_cert_file: Option<PathBuf>,

    /// Private key (PEM, no passphrase) of --admin-tls-cert-file
    #[arg(long, value_name = "FILE", requires = "admin_tls_cert_file")]
    admin_tls_key_file: Option<PathBuf>,

    /// Certificate authorities (PEM) that sign client certificates of the admin listener; clients without one are
    /// refused
    #[arg(long, value_name = "FILE", requires = "admin_tls_cert_file")]
    admin_tls_ca_cert_file: Option<PathBuf>,
}

impl AdminTlsArgs {
    /// Whether clients must show a certificate.
    pub(super) fn has_client_certificates(&self) -> bool {
        self.admin_tls_ca_cert_file.is_some()
    }

    /// Refuses TLS where it protects nothing.
    pub(super) fn check(&self, place: Option<&Place>) -> Result<(), String> {
        match place {
            Some(Place::Unix(_)) if self.admin_tls_cert_file.is_some() => {
                Err("--admin-tls-cert-file: a unix socket has no TLS; only its owner can use it".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Reads the files. An error names the option and the file. `None` without TLS.
    fn load(&self) -> Result<Option<Acceptor>, String> {
        let (Some(cert), Some(key)) = (&self.admin_tls_cert_file, &self.admin_tls_key_file) else {
            return Ok(None);
        };
        let identity = read_identity("--admin-tls-cert-file", cert, "--admin-tls-key-file", key)?;
        let Some(file) = &self.admin_tls_ca_cert_file else {
            return Acceptor::new(vec![identity], ClientAuth::No, b"")
                .map(Some)
                .map_err(|error| about("--admin-tls-cert-file", cert, error));
        };
        let authorities = read("--admin-tls-ca-cert-file", file)?;
        Acceptor::new(vec![identity], ClientAuth::Required, &authorities)
            .map(Some)
            .map_err(|error| about("--admin-tls-ca-cert-file", file, error))
    }
}

/// TLS of a running admin listener.
#[derive(Clone)]
pub(crate) struct AdminTls {
    files: AdminTlsArgs,
    tls: Arc<Tls>,
}

impl AdminTls {
    /// Reads the files for the first time. `None` without TLS.
    pub(crate) fn of(files: &AdminTlsArgs) -> Result<Option<AdminTls>, String> {
        let tls = |acceptor: Acceptor| Arc::new(Tls::new(acceptor.config()));
        Ok(files.load()?.map(|acceptor| AdminTls { files: files.clone(), tls: tls(acceptor) }))
    }

    /// The settings of the listener, which [`Self::exchange`] changes.
    pub(crate) fn tls(&self) -> Arc<Tls> {
        Arc::clone(&self.tls)
    }

    /// Whether clients must show a certificate.
    pub(crate) fn has_client_certificates(&self) -> bool {
        self.files.has_client_certificates()
    }

    /// Reads the files again, and changes nothing.
    pub(crate) fn load(&self) -> Result<Option<Acceptor>, String> {
        self.files.load()
    }

    /// Takes over new certificates.
    pub(crate) fn exchange(&self, acceptor: &Acceptor) {
        self.tls.exchange(acceptor.config());
    }
}
