//! The border: GET requests to the admin listener.

use crate::sample::{Client, Lists, Sample, Shown};
use crate::tls::{Tls, explained};
use crate::view::View;
use admin::Place;
use anyhow::{Context, Result, anyhow, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

/// Time for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of one answer. A line of CLIENT LIST has some 400, so this has room for a hundred thousand clients.
const ANSWER_LEN_MAX: usize = 64 << 20;
/// Letters of a refusal that are shown.
const REFUSAL_LEN_MAX: usize = 200;

/// Asks one admin listener.
pub(crate) struct Asker {
    place: Place,
    tls: Option<Tls>,
    token: Option<String>,
    /// The pool that is asked about, if the listener is that of several.
    pool: Option<String>,
    runtime: Runtime,
}

/// Entries of the lists of slow requests and events.
const ENTRIES_MAX: usize = 200;

impl Asker {
    pub(crate) fn new(
        place: Place,
        tls: Option<Tls>,
        token: Option<String>,
        pool: Option<String>,
    ) -> Result<Asker> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Asker { place, tls, token, pool, runtime })
    }

    /// Looks at the process, for these views. Not each view needs each answer, and some cost the process more than others:
    /// `/clients` interrupts the workers.
    pub(crate) fn sample(&self, views: &[View]) -> Result<Sample> {
        let mut sample = Sample { status: self.json("/status")?, lists: Lists::default() };
        let lists = &mut sample.lists;
        for view in views {
            match view {
                View::Nodes | View::Events if lists.events.is_none() => {
                    lists.events = Some(self.json(&format!("/events?limit={ENTRIES_MAX}"))?);
                }
                View::HotKeys | View::BigKeys | View::Slots if lists.hot.is_none() => {
                    lists.hot = Some(self.json("/hot")?);
                }
                View::Slow => lists.slow = Some(self.json(&format!("/slow?limit={ENTRIES_MAX}"))?),
                View::Clients => lists.clients = Some(Client::all(&self.text("/clients")?)),
                _ => {}
            }
        }
        Ok(sample)
    }

    fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let text = self.text(path)?;
        serde_json::from_str(&text)
            .with_context(|| format!("{path} is no answer of an admin listener of shardis"))
    }

    fn text(&self, path: &str) -> Result<String> {
        let path = &match &self.pool {
            Some(pool) => format!("{path}{}pool={pool}", if path.contains('?') { '&' } else { '?' }),
            None => path.to_owned(),
        };
        let answered =
            self.runtime.block_on(async { tokio::time::timeout(ANSWER_TIMEOUT, self.get(path)).await });
        match answered {
            Ok(Err(error)) => Err(explained(error)).with_context(|| self.url()),
            Ok(answer) => answer,
            Err(_) => {
                Err(anyhow!("{}: no answer to {path} within {} s", self.url(), ANSWER_TIMEOUT.as_secs()))
            }
        }
    }

    fn url(&self) -> String {
        self.place.url(self.tls.is_some())
    }

    async fn get(&self, path: &str) -> Result<String> {
        match (&self.place, &self.tls) {
            (Place::Tcp(addr), None) => self.get_over(TcpStream::connect(addr).await?, path).await,
            (Place::Tcp(addr), Some(tls)) => {
                let name = tls.name.clone().unwrap_or_else(|| addr.ip().into());
                let connector = TlsConnector::from(Arc::clone(&tls.config));
                let stream = connector.connect(name, TcpStream::connect(addr).await?).await?;
                self.get_over(stream, path).await
            }
            (Place::Unix(socket), _) => self.get_over(UnixStream::connect(socket).await?, path).await,
        }
    }

    async fn get_over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        path: &str,
    ) -> Result<String> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the sender; its error is the answer's too.
        tokio::spawn(connection);
        let mut request = hyper::Request::get(path).header("Host", "localhost");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_LEN_MAX).collect().await;
        let body = body.map_err(|error| anyhow!("{path}: {error}"))?.to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        if status == 401 {
            bail!("the token is missing or wrong: name its file with --token-file");
        }
        if !status.is_success() {
            let said: String = text.trim().chars().take(REFUSAL_LEN_MAX).collect();
            bail!("{path}: {} {}", status.as_u16(), Shown::from(said));
        }
        Ok(text)
    }
}
