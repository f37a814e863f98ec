//! Authorities, certificates and keys, made anew for each test, in files of its own.

use super::wire::Wire;
use super::{Client, poll_until};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory that goes with its value.
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// A fresh folder. Its path is short: it has to fit into the address of a unix socket.
    pub(crate) fn new() -> Directory {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("shardis-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Directory(path)
    }

    /// The path of `name` in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file and gives its path as text.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file of the test");
        path.to_str().expect("it is text").to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The issuer of certificates.
pub(crate) struct Authority {
    /// Its own certificate, in PEM.
    pub(crate) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no name is fine");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A name of its own: without one, OpenSSL would take certificates for their own authorities.
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed").pem();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    /// A certificate for these names and addresses.
    pub(crate) fn sign(&self, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).expect("they are names");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed").pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

/// TLS settings of a test's client.
pub(crate) struct Dialect<'a> {
    /// The authority that it trusts.
    pub(crate) authority: &'a Authority,
    /// The certificate that it shows.
    pub(crate) identity: Option<&'a Identity>,
    /// The server name that it asks for.
    pub(crate) name: &'a str,
    pub(crate) versions: &'a [&'static SupportedProtocolVersion],
}

impl<'a> Dialect<'a> {
    /// Trusts `authority`, asks for 127.0.0.1 and has no certificate.
    pub(crate) fn trusting(authority: &'a Authority) -> Dialect<'a> {
        Dialect { authority, identity: None, name: "127.0.0.1", versions: rustls::ALL_VERSIONS }
    }

    /// Connects to `port`, sends `first` below TLS, and shakes hands; the reason if that fails.
    pub(crate) fn connect_behind(&self, port: u16, first: &[u8]) -> std::io::Result<Client> {
        let Wire::Tcp(mut stream) = poll_until("a connection", || Client::try_connect(port)).into_wire()
        else {
            panic!("it is TCP")
        };
        std::io::Write::write_all(&mut stream, first)?;
        let name = ServerName::try_from(self.name.to_owned()).expect("a name");
        let mut tls = ClientConnection::new(Arc::new(self.config()), name).map_err(std::io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        Ok(Client::over(Wire::Tls(Box::new(StreamOwned::new(tls, stream)))))
    }

    /// Connects to `port`. With TLS 1.3 a server's refusal of our certificate comes only later.
    pub(crate) fn connect(&self, port: u16) -> std::io::Result<Client> {
        self.connect_behind(port, b"")
    }

    /// Whether a client like this is answered.
    pub(crate) fn is_answered(&self, port: u16) -> bool {
        let client = self.connect(port);
        client.is_ok_and(|mut client| client.try_command(&[b"PING"]).is_ok_and(|reply| reply == b"+PONG\r\n"))
    }

    fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(parse(&self.authority.certificate)).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(self.versions);
        let builder = builder.expect("there are such versions").with_root_certificates(roots);
        match self.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(vec![parse(certificate)], key).expect("they fit")
            }
        }
    }
}

fn parse(certificate: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate")
}

/// The files of `identity` under `name`, as two flags: `--tls-cert-file=…`, `--tls-key-file=…`, with `prefix` before `tls`.
pub(crate) fn identity_flags(
    directory: &Directory,
    prefix: &str,
    name: &str,
    identity: &Identity,
) -> [String; 2] {
    let certificate = directory.write(&format!("{name}.crt"), &identity.certificate);
    let key = directory.write(&format!("{name}.key"), &identity.key);
    [format!("--{prefix}tls-cert-file={certificate}"), format!("--{prefix}tls-key-file={key}")]
}

/// The path as the command line takes it.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("it is text")
}
