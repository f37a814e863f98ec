//! The admin listener: of one pool, or one for all pools of the process.

use crate::args::AdminArgs;
use crate::args::admin_tls::AdminTls;
use crate::args::listener::Place;
use crate::listeners::CannotListen;
use crate::log_sink::say;
use crate::passed::{ListeningSocket, PassedSockets};
use crate::upgrade::message::Inherited;
use admin::{AdminPool, Guard};
use anyhow::{Context, Result, anyhow};
use std::io;
use std::os::fd::OwnedFd;
use tracing::{error, info};

/// The option of the admin listener.
pub(crate) const ADMIN: &str = "--admin";

/// Opens the admin listener. A socket of `passed` takes the place of its address.
pub(crate) fn open_admin(
    place: &admin::Place,
    (guard, tls): (&Guard, Option<&AdminTls>),
    passed: &mut PassedSockets,
) -> Result<admin::Listener, CannotListen> {
    let configured = Place::of_admin(place);
    let mut sockets = passed.take(ADMIN, &configured);
    let acceptor = tls.map(AdminTls::tls);
    let listener = match sockets.pop().map(|passed| passed.socket) {
        None => admin::Listener::open(place, acceptor).map_err(|error| CannotListen::At {
            place: configured,
            option: ADMIN,
            error,
        })?,
        Some(ListeningSocket::Tcp(socket, addr)) => admin::Listener::tcp(socket, addr, acceptor),
        Some(ListeningSocket::Unix(socket, path)) => admin::Listener::unix(socket, path),
    };
    if !sockets.is_empty() {
        let text = "the admin listener has one address, but several sockets named admin were passed";
        return Err(CannotListen::Unknown(text.to_owned()));
    }
    let is_guarded = matches!(guard, Guard::Token(_)) || tls.is_some_and(AdminTls::has_client_certificates);
    AdminArgs::check_place(listener.place(), is_guarded).map_err(CannotListen::Unknown)?;
    Ok(listener)
}

/// A socket of the service `service` for the next process.
pub(crate) fn inherited(
    service: &str,
    place: &Place,
    socket: &OwnedFd,
) -> io::Result<Option<(Inherited, OwnedFd)>> {
    let (option, place) = (ADMIN.to_owned(), place.to_string());
    let inherited = Inherited { door: None, service: service.to_owned(), option, place, has_file: false };
    Ok(Some((inherited, socket.try_clone()?)))
}

/// The admin listener for all pools, open and not answering yet; or none.
pub(crate) struct AdminPort(Option<Opened>);

struct Opened {
    listener: admin::Listener,
    args: AdminArgs,
    guard: Guard,
    tls: Option<AdminTls>,
}

impl AdminPort {
    /// Listens where `args` say, if there are any.
    pub(crate) fn open(args: Option<&AdminArgs>, passed: &mut PassedSockets) -> Result<AdminPort> {
        let Some((args, place)) = args.and_then(|args| Some((args, args.place(false)?))) else {
            return Ok(AdminPort(None));
        };
        let guard = args.guard().map_err(|error| anyhow!(error))?;
        let tls = AdminTls::of(&args.tls).map_err(|error| anyhow!(error))?;
        let listener =
            open_admin(&place, (&guard, tls.as_ref()), passed).map_err(|error| anyhow!(error.to_string()))?;
        Ok(AdminPort(Some(Opened { listener, args: args.clone(), guard, tls })))
    }

    /// Tells the operator where it is.
    pub(crate) fn describe(&self) {
        if let Some(opened) = &self.0 {
            say(&format!("admin of all pools at {}", opened.listener.url()));
        }
    }

    /// Answers about `pools`.
    pub(crate) fn start(self, pools: Vec<AdminPool>) -> Result<AdminServer> {
        let Some(Opened { listener, args, guard, tls }) = self.0 else { return Ok(AdminServer(None)) };
        let socket = args.place(false).map(|place| Place::of_admin(&place)).zip(Some(listener.copy()?));
        let running = admin::serve(listener, pools, guard).context("the thread of the admin listener")?;
        Ok(AdminServer(Some(Serving { args, socket, running, tls })))
    }
}

/// The admin listener for all pools, which answers; or none.
#[derive(Default)]
pub(crate) struct AdminServer(Option<Serving>);

struct Serving {
    args: AdminArgs,
    socket: Option<(Place, OwnedFd)>,
    running: admin::Running,
    tls: Option<AdminTls>,
}

impl AdminServer {
    /// The socket for the next process.
    pub(crate) fn to_inherit(&self) -> io::Result<Option<(Inherited, OwnedFd)>> {
        match self.0.as_ref().and_then(|serving| serving.socket.as_ref()) {
            Some((place, socket)) => inherited("", place, socket),
            None => Ok(None),
        }
    }

    /// Accepts no more.
    pub(crate) fn stop(&mut self) {
        if let Some(serving) = &mut self.0 {
            serving.socket = None;
            serving.running.stop();
        }
    }

    /// Reads the token and the certificates again. Returns whether there are any.
    pub(crate) fn reload(&self) -> bool {
        let Some(serving) = &self.0 else { return false };
        let has_token = serving.args.has_token_file();
        let renewed = serving.args.guard().map(|guard| serving.running.renew(guard));
        let loaded = serving.tls.as_ref().map_or(Ok(None), AdminTls::load);
        match renewed.and(loaded) {
            Ok(acceptor) => {
                if let (Some(tls), Some(acceptor)) = (&serving.tls, acceptor) {
                    tls.exchange(&acceptor);
                    info!("certificates reloaded");
                }
            }
            Err(error) => error!(error, hint = "the old ones stay in use", "certificate reload failed"),
        }
        has_token || serving.tls.is_some()
    }
}
