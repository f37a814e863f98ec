//! TLS of the admin listener. This module shakes hands; it reads no file, and knows no certificate but as part of settings.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

/// Time of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of handshakes to come.
#[derive(Debug)]
pub struct Tls(Mutex<Arc<ServerConfig>>);

impl Tls {
    /// Shakes hands by `config`.
    pub fn new(config: Arc<ServerConfig>) -> Tls {
        Tls(Mutex::new(config))
    }

    /// Takes over new settings. Open connections stay.
    pub fn exchange(&self, config: Arc<ServerConfig>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The stream above `below`, after its handshake.
    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        below: S,
    ) -> io::Result<TlsStream<S>> {
        timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(self.config()).accept(below)).await?
    }
}
