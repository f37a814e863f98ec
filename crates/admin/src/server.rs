//! The border to HTTP: hyper on a thread of its own.

use crate::guard::Guard;
use crate::history;
use crate::place::Place;
use crate::routes::{AdminPool, Answer, Asked, Routes};
use crate::tls::Tls;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Builder;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

/// Connections at once. More wait to be accepted.
const CONNS_MAX: usize = 64;
/// Time in which the head of a request must come; an idle connection ends then.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest body of a request.
const BODY_BYTES_MAX: usize = 1024;
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An open listener that does not answer yet.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    place: Place,
    tls: Option<Arc<Tls>>,
}

#[derive(Debug)]
enum Socket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

impl Listener {
    /// A listener at `addr` by a socket that does not block. Clients speak TLS if `tls` is given.
    pub fn tcp(socket: std::net::TcpListener, addr: SocketAddr, tls: Option<Arc<Tls>>) -> Listener {
        Listener { socket: Socket::Tcp(socket), place: Place::Tcp(addr), tls }
    }

    /// A listener at `path` by a socket that does not block.
    pub fn unix(socket: std::os::unix::net::UnixListener, path: PathBuf) -> Listener {
        Listener { socket: Socket::Unix(socket), place: Place::Unix(path), tls: None }
    }

    /// Listens at `place`. Clients speak TLS if `tls` is given.
    pub fn open(place: &Place, tls: Option<Arc<Tls>>) -> io::Result<Listener> {
        let (socket, place) = match place {
            Place::Tcp(addr) => {
                let socket = std::net::TcpListener::bind(addr)?;
                socket.set_nonblocking(true)?;
                let place = Place::Tcp(socket.local_addr()?);
                (Socket::Tcp(socket), place)
            }
            Place::Unix(path) => {
                remove_stale(path)?;
                let socket = std::os::unix::net::UnixListener::bind(path)?;
                socket.set_nonblocking(true)?;
                // Only its owner may ask.
                std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
                (Socket::Unix(socket), place.clone())
            }
        };
        Ok(Listener { socket, place, tls })
    }

    /// A copy of the socket, for another process.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_fd().try_clone_to_owned(),
            Socket::Unix(socket) => socket.as_fd().try_clone_to_owned(),
        }
    }

    /// The address at which it listens.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The address, with the port that was found for port 0.
    pub fn url(&self) -> String {
        self.place.url(self.tls.is_some())
    }
}

/// Removes a socket that nobody listens at.
fn remove_stale(path: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// A server on a thread of its own.
#[derive(Clone, Debug, Default)]
pub struct Running {
    stopped: Arc<Notify>,
    /// The condition of its requests, unless it has none.
    guard: Option<Arc<RwLock<Guard>>>,
}

impl Running {
    /// Accepts no more connections and closes the listener. Open connections go on.
    pub fn stop(&self) {
        self.stopped.notify_one();
    }

    /// Makes `guard` the condition of the requests to come.
    pub fn renew(&self, guard: Guard) {
        if let Some(place) = &self.guard {
            *place.write().unwrap_or_else(PoisonError::into_inner) = guard;
        }
    }

    /// Runs `accepting`, which never ends, until [`Running::stop`]. Connections are served for ever.
    pub(crate) async fn run(self, accepting: impl Future<Output = ()> + Send + 'static) {
        let accepting = tokio::task::spawn(accepting);
        self.stopped.notified().await;
        accepting.abort();
        std::future::pending().await
    }
}

/// Answers at `listener` on a thread of its own until the process ends, or the server is stopped. There is at least one of
/// `pools`.
pub fn serve(listener: Listener, pools: Vec<AdminPool>, guard: Guard) -> io::Result<Running> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let guard = Arc::new(RwLock::new(guard));
    let running = Running { guard: Some(Arc::clone(&guard)), ..Running::default() };
    let routes = Arc::new(Routes::new(pools, guard));
    let server = running.clone().run(accept_all(listener, routes));
    std::thread::Builder::new().name("admin".to_owned()).spawn(move || runtime.block_on(server))?;
    Ok(running)
}

/// Accepts for ever. Ends only if the listener cannot be used at all.
async fn accept_all(Listener { socket, tls, .. }: Listener, routes: Arc<Routes>) {
    let places = Arc::new(Semaphore::new(CONNS_MAX));
    let listener = match socket {
        Socket::Tcp(socket) => TcpListener::from_std(socket).map(Accepting::Tcp),
        Socket::Unix(socket) => UnixListener::from_std(socket).map(Accepting::Unix),
    };
    let Ok(listener) = listener else { return };
    tokio::task::spawn(keep_history(Arc::clone(&routes)));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (routes, tls) = (Arc::clone(&routes), tls.clone());
        let accepted = listener.accept().await;
        let Ok(stream) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        tokio::task::spawn(async move {
            match tls {
                None => serve_conn(stream, routes).await,
                // The client has its alert, which says why.
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve_conn(stream, routes).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Adds to the history for ever.
async fn keep_history(routes: Arc<Routes>) {
    let mut last = Instant::now();
    loop {
        routes.take_sample(last.elapsed().as_secs_f64());
        last = Instant::now();
        tokio::time::sleep(history::EVERY).await;
    }
}

enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Accepting {
    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Accepting::Tcp(listener) => Box::new(listener.accept().await?.0),
            Accepting::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

async fn serve_conn(stream: impl Stream + 'static, routes: Arc<Routes>) {
    let service = service_fn(move |request| respond(request, Arc::clone(&routes)));
    let conn = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // A client that breaks its connection is no concern of anybody's.
    let _ = conn.await;
}

async fn respond(
    request: Request<Incoming>,
    routes: Arc<Routes>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => {
            return Ok(written(Answer { status: 413, content_type: "text/plain", body: String::new() }));
        }
    };
    if !asked(&head, &body).may_take_long() {
        return Ok(written(routes.answer(asked(&head, &body))));
    }
    // Others are answered meanwhile.
    let answer = tokio::task::spawn_blocking(move || routes.answer(asked(&head, &body)));
    let failed = |_| Answer { status: 500, content_type: "text/plain", body: String::new() };
    Ok(written(answer.await.unwrap_or_else(failed)))
}

/// The parts of a request that matter.
fn asked<'a>(head: &'a Parts, body: &'a [u8]) -> Asked<'a> {
    let text = |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
    Asked {
        method: head.method.as_str(),
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        host: text(HOST).or(head.uri.host()),
        authorization: head.headers.get(AUTHORIZATION).map(|value| value.as_bytes()),
        accept: text(ACCEPT),
        origin: text(ORIGIN),
        body,
    }
}

fn written(answer: Answer) -> Response<Full<Bytes>> {
    let built = Response::builder()
        .status(answer.status)
        .header(CONTENT_TYPE, answer.content_type)
        .header(CACHE_CONTROL, "no-store")
        .header("x-content-type-options", "nosniff")
        .header("x-frame-options", "DENY")
        .header(
            "content-security-policy",
            "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:",
        )
        .body(Full::new(Bytes::from(answer.body)));
    built.unwrap_or_default()
}
