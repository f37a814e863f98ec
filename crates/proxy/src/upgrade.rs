//! Clients that another process takes over when shardis is upgraded: the state of each that is handed over, as text.
//!
//! ```text
//!   old process: readiness ─► give_up_client ─► ClientState ─► encode ─┐
//!                                                                      │  with the client's socket
//!   new process: take_over_client ◄─ ClientState ◄─ decode ◄───────────┘
//! ```
//!
//! A client leaves only while nothing of it is in flight, held or unsent. Bytes that it has sent and that are no whole
//! request yet go with it. Some state cannot leave, because other clients or links depend on it. Its client stays:
//! subscriptions, MONITOR, tracking, WATCH, MULTI, commands that wait, large transfers, users of the nodes.
//!
//! The form is a request of Redis's protocol, `CLIENT version key value …`, of limited length. A process understands
//! the versions up to its own. It refuses all others, and the client stays where it is.

use crate::ConnId;
use crate::context::Context;
use crate::event::Arrival;
use crate::features::{Session, Wishes};
use crate::held::watch::Watch;
use crate::limits::Authority;
use crate::link::profile::{Profile, Who};
use crate::login::hello::check_name;
use crate::login::identity::Login;
use crate::login::passing::set_name;
use crate::namespace::route::ROUTES_FROM;
use crate::peers::Peer;
use crate::proxy::Proxy;
use crate::reading::Written;
use crate::reading::reads::{OwnWrite, Reads};
use crate::session::pinning::Pinning;
use crate::session::{Mute, Phase};
use resp::encode;
use resp::request::{Request, RequestLimits, Scanned, Scanner};
use std::fmt;
use stdx::Instant;
use topology::ShardId;

/// The version of the form that this program writes, and the highest that it reads.
const VERSION: u32 = 1;
/// Bytes of an unfinished request that go with a client. A client with more sends the rest first.
const UNREAD_BYTES_MAX: usize = 64 * 1024;
/// The longest form of a client: all texts are shorter together than twice its unread bytes.
pub const STATE_BYTES_MAX: usize = 2 * UNREAD_BYTES_MAX + 4096;

/// The state of a client that has nothing in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientState {
    /// Its number, as in CLIENT ID.
    pub client: u64,
    /// Its address.
    pub peer: String,
    /// The local address of the connection; empty if unknown.
    pub local: String,
    database: u16,
    resp3: bool,
    name: Vec<u8>,
    /// `None` if it must still log in.
    user: Option<Vec<u8>>,
    mute: Mute,
    wishes: Wishes,
    /// Whether replicas may lack a write of it.
    has_written: bool,
    /// Bytes that it has sent and that are no whole request.
    pub unread: Vec<u8>,
}

impl ClientState {
    /// The requests, with their replies, that give a fresh connection this database and protocol.
    pub fn requests(&self) -> Vec<(Vec<u8>, &'static [u8])> {
        let mut requests = Vec::new();
        if self.resp3 {
            requests.push((b"HELLO 3\r\n".to_vec(), &b"%0\r\n"[..]));
        }
        if self.database > 0 {
            requests.push((format!("SELECT {}\r\n", self.database).into_bytes(), &b"+OK\r\n"[..]));
        }
        requests
    }
}

/// Whether a client may leave for another process now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing of the client is in flight.
    Ready,
    /// Requests of the client are in flight. Nothing more should be read from it, so that it becomes ready.
    Busy,
    /// The client has state that cannot leave.
    Stays,
}

/// Why a state is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateError {
    /// The bytes are no state.
    Malformed,
    /// The state is of a later version.
    Version(String),
    /// This key is unknown, or its value is.
    Unknown(String),
}

/// Why a client is not taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// Its user does not exist here.
    NoUser,
    /// Its database does not exist here.
    NoDatabase,
    /// There are too many clients, or clients of other machines are denied.
    NotAdmitted,
}

impl fmt::Display for StateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Malformed => out.write_str("no state of a client"),
            StateError::Version(version) => write!(out, "a state of version {version}"),
            StateError::Unknown(key) => write!(out, "{key}: unknown"),
        }
    }
}

impl fmt::Display for NotTaken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            NotTaken::NoUser => "its user does not exist",
            NotTaken::NoDatabase => "its database does not exist",
            NotTaken::NotAdmitted => "it is not admitted",
        })
    }
}

impl ClientState {
    /// The form for the other process.
    pub fn encode(&self) -> Vec<u8> {
        let Wishes { replica_reads, no_evict, no_touch } = self.wishes;
        let (client, database) = (self.client.to_string(), self.database.to_string());
        let mute = match self.mute {
            Mute::Off | Mute::Heard => "off",
            Mute::Next | Mute::This => "skip",
            Mute::No => "",
        };
        let flag = |is_set: bool| if is_set { "1" } else { "" }.as_bytes();
        let fields: [(&str, &[u8]); 13] = [
            ("id", client.as_bytes()),
            ("peer", self.peer.as_bytes()),
            ("local", self.local.as_bytes()),
            ("db", if self.database == 0 { b"" } else { database.as_bytes() }),
            ("resp3", flag(self.resp3)),
            ("name", &self.name),
            ("user", self.user.as_deref().unwrap_or_default()),
            ("reply", mute.as_bytes()),
            ("readonly", flag(replica_reads)),
            ("no-evict", flag(no_evict)),
            ("no-touch", flag(no_touch)),
            ("written", flag(self.has_written)),
            ("unread", &self.unread),
        ];
        let version = VERSION.to_string();
        let mut args: Vec<&[u8]> = vec![b"CLIENT", version.as_bytes()];
        for (key, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            args.extend([key.as_bytes(), value]);
        }
        let mut bytes = Vec::new();
        encode::request(&mut bytes, &args);
        bytes
    }

    /// Reads the form of this version, or of an older one.
    pub fn decode(bytes: &[u8]) -> Result<ClientState, StateError> {
        let limits = RequestLimits {
            args_max: 256,
            bulk_bytes_max: UNREAD_BYTES_MAX as i64,
            ..RequestLimits::default()
        };
        let (mut spans, mut inline) = (Vec::new(), Vec::new());
        match Scanner::default().scan(bytes, &limits, &mut spans, &mut inline) {
            Ok(Scanned::Request { len }) if len == bytes.len() => {}
            _ => return Err(StateError::Malformed),
        }
        let request = Request::new(bytes, &spans);
        let args: Vec<&[u8]> = request.args().collect();
        let [b"CLIENT", version, fields @ ..] = &args[..] else { return Err(StateError::Malformed) };
        let known = std::str::from_utf8(version).ok().and_then(|version| version.parse().ok());
        if !known.is_some_and(|version: u32| (1..=VERSION).contains(&version)) {
            return Err(StateError::Version(String::from_utf8_lossy(version).into_owned()));
        }
        let (pairs, []) = fields.as_chunks::<2>() else { return Err(StateError::Malformed) };
        let mut state = ClientState::default();
        for &[key, value] in pairs {
            state.set(key, value).ok_or_else(|| StateError::Unknown(String::from_utf8_lossy(key).into()))?;
        }
        Ok(state)
    }

    /// Sets one field; `None` if it is unknown.
    fn set(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let text = || std::str::from_utf8(value).ok();
        let flag = || (value == b"1").then_some(true);
        match key {
            b"id" => self.client = text()?.parse().ok()?,
            b"peer" => text()?.clone_into(&mut self.peer),
            b"local" => text()?.clone_into(&mut self.local),
            b"db" => self.database = text()?.parse().ok()?,
            b"resp3" => self.resp3 = flag()?,
            b"name" => {
                check_name(value).ok()?;
                self.name = value.to_vec();
            }
            b"user" => self.user = Some(value.to_vec()),
            b"reply" => {
                self.mute = match value {
                    b"off" => Mute::Off,
                    b"skip" => Mute::Next,
                    _ => return None,
                }
            }
            b"readonly" => self.wishes.replica_reads = flag()?,
            b"no-evict" => self.wishes.no_evict = flag()?,
            b"no-touch" => self.wishes.no_touch = flag()?,
            b"written" => self.has_written = flag()?,
            b"unread" => self.unread = value.to_vec(),
            _ => return None,
        }
        Some(())
    }
}

/// The number of the listener by which the client `conn` came; `None` if there is no such client.
pub fn listener_of(proxy: &Proxy, conn: ConnId) -> Option<u16> {
    match proxy.peers.get(conn)? {
        Peer::Client(session) => Some(session.origin.listener),
        Peer::Link(_) => None,
    }
}

/// Whether reading from the client `conn` has stopped, as its own requests and replies demand.
pub fn is_paused(proxy: &Proxy, conn: ConnId) -> bool {
    matches!(proxy.peers.get(conn), Some(Peer::Client(session)) if session.paused)
}

/// Whether the client `conn` may leave for another process now.
pub fn readiness(proxy: &Proxy, conn: ConnId) -> Readiness {
    let Some(Peer::Client(session)) = proxy.peers.get(conn) else { return Readiness::Stays };
    let features = &session.features;
    let is_alone = features.subscribed.as_ref().is_none_or(|subscribed| subscribed.is_silent())
        && features.watch == Watch::No
        && features.transaction.is_none()
        && !session.is_blocked();
    let cx = &proxy.core.cx;
    let is_ours = cx.settings.authority == Authority::Proxy
        && cx.profiles.profile(session.profile).is_some_and(|profile| profile.kind.who == Who::Pool)
        && !features.login.is_unknown();
    let may_leave = session.phase == Phase::Open
        // The pool at its other end ends with this process.
        && features.login.listener < ROUTES_FROM
        && matches!(session.pinning, Pinning::No | Pinning::Turning)
        && session.input.bytes.len() <= UNREAD_BYTES_MAX
        && !proxy.core.pause.is_on();
    if !(is_alone && is_ours && may_leave) {
        return Readiness::Stays;
    }
    let is_idle = session.replies.is_quiet() && session.hold.is_empty() && !session.held_up;
    if is_idle { Readiness::Ready } else { Readiness::Busy }
}

/// The clients at places from `from` on, and the place behind them: at most `places` are looked at. The second is 0 once
/// all places were looked at.
pub fn clients_from(proxy: &Proxy, from: usize, places: usize) -> (Vec<ConnId>, usize) {
    let end = proxy.peers.places().min(from.saturating_add(places));
    let ids = (from..end).filter_map(|index| proxy.peers.id_at(index));
    let clients = ids.filter(|&id| matches!(proxy.peers.get(id), Some(Peer::Client(_)))).collect();
    (clients, if end == proxy.peers.places() { 0 } else { end })
}

/// Gives the client `conn` up to another process, if it is [`Readiness::Ready`]. The proxy forgets it and asks to
/// close its connection, so the caller takes the socket away before the next action.
pub fn give_up_client(proxy: &mut Proxy, conn: ConnId) -> Option<ClientState> {
    if readiness(proxy, conn) != Readiness::Ready {
        return None;
    }
    let Some(Peer::Client(session)) = proxy.peers.get(conn) else { return None };
    let state = state_of(proxy, session);
    proxy.close_client(conn);
    proxy.follow_up();
    Some(state)
}

fn state_of(proxy: &Proxy, session: &Session) -> ClientState {
    let features = &session.features;
    let Profile { database, .. } = proxy.core.cx.profiles.kind(session.profile);
    let has_written = |reads: &Reads| reads.shards.iter().any(|it| it.own_write != OwnWrite::No);
    ClientState {
        client: session.origin.client,
        peer: session.origin.peer.to_string(),
        local: session.origin.local.to_string(),
        database,
        resp3: session.resp3,
        name: features.name().to_vec(),
        user: (!features.login.is_missing()).then(|| features.login.name().to_vec()),
        mute: session.mute,
        wishes: features.wishes,
        // Without replicas here nothing was noted, but there may be some where it goes.
        has_written: features.reads.as_deref().is_none_or(has_written),
        unread: session.input.bytes.clone(),
    }
}

/// Takes over a client with this `state` and returns the id of its connection. The caller reports
/// [`ClientState::unread`] as the first bytes that it received.
///
/// # Errors
/// The client cannot be served here as before. The other process keeps it.
pub fn take_over_client(
    proxy: &mut Proxy,
    state: &ClientState,
    arrival: &Arrival<'_>,
    now: Instant,
) -> Result<ConnId, NotTaken> {
    proxy.core.begin(now);
    let login = login_of(proxy, state)?;
    if state.database >= proxy.core.cx.settings.databases {
        return Err(NotTaken::NoDatabase);
    }
    let conn = proxy.accept(arrival, now).map_err(|_| NotTaken::NotAdmitted)?;
    let Some(Peer::Client(session)) = proxy.peers.get_mut(conn) else { return Err(NotTaken::NotAdmitted) };
    let core = &mut proxy.core;
    // Numbers of other workers would be given out twice.
    if is_own_number(&core.cx, state.client) {
        session.origin.client = state.client;
    }
    session.features.login = login;
    (session.mute, session.features.wishes) = (state.mute, state.wishes);
    let named = set_name(&mut core.cx, session, &state.name);
    debug_assert!(named.is_ok(), "a state has no other names");
    let kind = Profile { database: state.database, resp3: state.resp3, who: Who::Pool };
    core.cx.change_profile(session, kind);
    if state.wishes.replica_reads {
        core.readers.set_reads(&mut core.cx, session, true);
    }
    if let Some(reads) = session.features.reads.as_mut().filter(|_| state.has_written) {
        // Replicas may lack its last writes, whose shards are not known here.
        for shard in 0..core.cx.engine.topology.shard_count() as u32 {
            let written = Written { poll: core.readers.polls(ShardId(shard)), at: now };
            reads.of_shard(ShardId(shard)).own_write = OwnWrite::Answered(written);
        }
    }
    proxy.follow_up();
    Ok(conn)
}

/// The identity here of a client with this `state`.
fn login_of(proxy: &Proxy, state: &ClientState) -> Result<Login, NotTaken> {
    let cx = &proxy.core.cx;
    match &state.user {
        _ if cx.settings.authority == Authority::Nodes => Err(NotTaken::NoUser),
        None => Ok(Login::newcomer(&cx.logins.users)),
        Some(name) => cx.logins.users.get(name).map(Login::of).ok_or(NotTaken::NoUser),
    }
}

/// Whether `client` is a number that this worker would have given out before its first client.
fn is_own_number(cx: &Context, client: u64) -> bool {
    let (worker, workers) = (cx.settings.worker as u64, cx.settings.workers as u64);
    let index = client.wrapping_sub(1);
    index % workers == worker && index / workers < cx.board.clients_before()
}
