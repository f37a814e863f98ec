//! Certificates, keys and trusted authorities for a handshake, made of PEM text. Reads no file.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// There is no certificate in the text.
    #[error("there is no certificate in it; it should have a part BEGIN CERTIFICATE")]
    NoCertificate,
    /// There is no key in the text.
    #[error(
        "there is no key in it that can be read; it should have a part BEGIN PRIVATE KEY, without a passphrase"
    )]
    NoKey,
    /// The text is not PEM.
    #[error("it is no PEM: {0}")]
    Pem(pem::Error),
    /// The key belongs to another certificate, or is of a kind that is not supported.
    #[error("certificate and key do not fit: {0}")]
    Key(Error),
    /// A certificate of an authority cannot be trusted.
    #[error("the authority's certificate cannot be used: {0}")]
    Authority(String),
    /// Another refusal of rustls.
    #[error("{0}")]
    Other(Error),
}

/// A certificate with its intermediate certificates and its key.
#[derive(Clone, Debug)]
pub struct Identity(Arc<CertifiedKey>);

impl Identity {
    /// Reads both from PEM. Refuses a key of another certificate.
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Identity, CredentialsError> {
        let chain = parse_certificates(certificates)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => CredentialsError::NoKey,
            error => CredentialsError::Pem(error),
        })?;
        let certified = CertifiedKey::from_der(chain, key, &default_provider());
        Ok(Identity(Arc::new(certified.map_err(CredentialsError::Key)?)))
    }

    /// Whether the certificate is for `name`.
    fn is_of(&self, name: &ServerName<'_>) -> bool {
        let parsed = self.0.cert.first().map(ParsedCertificate::try_from);
        matches!(parsed, Some(Ok(parsed)) if verify_server_name(&parsed, name).is_ok())
    }
}

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// Clients are not asked for a certificate.
    No,
    /// A certificate is optional, but must be valid.
    Optional,
    /// A certificate is required.
    Required,
}

/// Accepts clients: has our certificates and the authorities of theirs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Acceptor(Arc<ServerConfig>);

impl Acceptor {
    /// Shows a client the identity with the name that it asks for, or the first one. The certificates of clients must
    /// be signed by `authorities` (PEM), unless `auth` is [`ClientAuth::No`].
    pub fn new(
        identities: Vec<Identity>,
        auth: ClientAuth,
        authorities: &[u8],
    ) -> Result<Acceptor, CredentialsError> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(CredentialsError::Other)?;
        let builder = match auth {
            ClientAuth::No => builder.with_no_client_auth(),
            ClientAuth::Optional | ClientAuth::Required => {
                let roots = Arc::new(parse_authorities(authorities)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier =
                    if auth == ClientAuth::Optional { verifier.allow_unauthenticated() } else { verifier };
                let refused = |error: rustls::server::VerifierBuilderError| {
                    CredentialsError::Authority(error.to_string())
                };
                builder.with_client_cert_verifier(verifier.build().map_err(refused)?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(ByName(identities)));
        // A client that resumes a session needs no certificate and no signature. Each reload makes a new ticket key, so
        // that no client resumes a session that rests on a certificate no longer trusted.
        config.ticketer = Ticketer::new().map_err(CredentialsError::Other)?;
        Ok(Acceptor(Arc::new(config)))
    }

    /// The settings of rustls, for streams that this crate does not drive.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }

    /// Our side of a handshake.
    pub(crate) fn begin(&self) -> io::Result<Connection> {
        let connection = ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)?;
        Ok(Connection::Server(connection))
    }
}

/// The identities of a listener.
#[derive(Debug)]
struct ByName(Vec<Identity>);

impl ResolvesServerCert for ByName {
    /// The identity for the name that the client asks for, if the client can verify its signatures. Else the first one
    /// that it can verify.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let usable = || self.0.iter().filter(|identity| identity.0.key.choose_scheme(schemes).is_some());
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let named = name.and_then(|name| usable().find(|identity| identity.is_of(&name)));
        named.or_else(|| usable().next()).map(|identity| Arc::clone(&identity.0))
    }
}

/// Authorities that may sign a node's certificate.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// These authorities, in PEM.
    Authorities(&'a [u8]),
    /// The authorities that this system trusts.
    System,
    /// No check: the connection is encrypted, but the peer is unknown.
    Anybody,
}

/// Connects to nodes. Cheap to clone; clones resume each other's sessions.
#[derive(Clone, Debug)]
pub struct Connector(Arc<ClientConfig>);

impl Connector {
    /// Trusts nodes according to `trust`, and shows `identity` to nodes that ask for one.
    pub fn new(trust: Trust<'_>, identity: Option<Identity>) -> Result<Connector, CredentialsError> {
        let provider = Arc::new(default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(CredentialsError::Other)?;
        let builder = match trust {
            Trust::Authorities(authorities) => {
                builder.with_root_certificates(parse_authorities(authorities)?)
            }
            Trust::System => builder.with_root_certificates(system_authorities()?),
            Trust::Anybody => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Credulous(provider)))
            }
        };
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity(key)) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
        };
        Ok(Connector(Arc::new(config)))
    }

    /// The settings of rustls, for streams that this crate does not drive.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }

    /// Our side of a handshake with the node `name`: a DNS name or an IP address.
    pub(crate) fn begin(&self, name: &str) -> io::Result<Connection> {
        let named = ServerName::try_from(name.to_owned()).map_err(|_| {
            io::Error::new(ErrorKind::InvalidInput, format!("TLS: {name} is no name for a certificate"))
        })?;
        let connection = ClientConnection::new(Arc::clone(&self.0), named).map_err(io::Error::other)?;
        Ok(Connection::Client(connection))
    }
}

fn parse_certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(CredentialsError::Pem)?;
    if chain.is_empty() { Err(CredentialsError::NoCertificate) } else { Ok(chain) }
}

fn parse_authorities(text: &[u8]) -> Result<RootCertStore, CredentialsError> {
    let mut roots = RootCertStore::empty();
    for certificate in parse_certificates(text)? {
        roots.add(certificate).map_err(|error| CredentialsError::Authority(error.to_string()))?;
    }
    Ok(roots)
}

/// The system's authorities that can be parsed. On every system there are some that cannot.
fn system_authorities() -> Result<RootCertStore, CredentialsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(CredentialsError::Authority("the system has no certificate authorities".to_owned()));
    }
    Ok(roots)
}

/// Accepts every node.
#[derive(Debug)]
struct Credulous(Arc<CryptoProvider>);

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
