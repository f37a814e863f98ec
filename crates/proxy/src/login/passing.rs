//! Users of the nodes (`--auth=nodes`): a client's AUTH goes to the nodes, which decide about its identity and
//! permissions.
//!
//! ```text
//!   AUTH bob b ─► a connection for AUTH only ─┬─► +OK ─────────► bob's own profiles: AUTH bob b, HELLO, requests
//!                                             └─► -WRONGPASS … ─► the client, which keeps its identity
//!   no login ─► is the nodes' default user open? ─ yes ─► the first profile
//!                                                └ no ──► NOAUTH
//! ```
//!
//! A profile belongs to one user and one password ([`Who::Client`]), so that no request ever uses a connection with
//! another user's login. Clients with the same user and password share links.
//!
//! One shard decides about a login. The other shards get it when their links of the profile begin. If one of them
//! refuses it, requests to that shard get its error.
//!
//! No node checks replies that the proxy makes itself. So the proxy makes only those that concern the client alone.
//! Requests about others are limited to clients of the same user, sent to the nodes, or refused ([`decided`]).

use crate::ConnId;
use crate::context::Context;
use crate::errors::{self, Lost};
use crate::features::{Asked, Name, Owed, Owner, Session, TaskId, TaskKind};
use crate::limits::Authority;
use crate::link::greeting::PING;
use crate::link::profile::{Profile, Who};
use crate::link::{LinkIx, ProfileId, Use};
use crate::login;
use crate::login::attempts::{Attempt, DefaultUser, Hello, WORD_BYTES_MAX};
use crate::login::credentials::Credentials;
use crate::login::decided::{Decided, NOT_QUEUED, decided};
use crate::login::hello;
use crate::login::hello::check_name;
use crate::login::identity::Login;
use crate::outcome::Step;
use crate::peers::{Peer, Peers};
use crate::session::Reason;
use command::{Carry, Command, Flags, Local, Refusal, Within};
use resp::Request;
use stdx::{Id, append};
use users::DEFAULT;

/// Whether the nodes decide about users.
#[inline]
pub(crate) fn has_users_of_nodes(cx: &Context) -> bool {
    cx.settings.authority == Authority::Nodes
}

/// The identity of a client that has just connected, or has sent RESET.
pub(crate) fn newcomer(cx: &Context) -> Login {
    match cx.settings.authority {
        Authority::Proxy => Login::newcomer(&cx.logins.users),
        Authority::Nodes => Login::of_default_user(cx.logins.passing.default_user),
    }
}

/// `AUTH [user] password`
pub(crate) fn auth_at_nodes(
    cx: &mut Context,
    session: &mut Session,
    request: &Request<'_>,
    reply: &mut Vec<u8>,
) {
    let (user, password) = match request.len() {
        2 => (None, request.arg(1)),
        3 => (Some(request.arg(1)), request.arg(2)),
        _ => return errors::write(reply, errors::SYNTAX),
    };
    ask_to_log_in(cx, session, (user, password), None, reply);
}

/// `HELLO version AUTH user password [SETNAME name]`: all of it takes effect, or nothing.
pub(crate) fn hello_at_nodes(
    cx: &mut Context,
    session: &mut Session,
    (user, password): (&[u8], &[u8]),
    (resp3, name): (bool, Option<&[u8]>),
    reply: &mut Vec<u8>,
) {
    if let Some(Err(text)) = name.map(hello::check_name) {
        return errors::write(reply, text);
    }
    let hello = Hello { resp3, name: name.map(Box::from) };
    ask_to_log_in(cx, session, (Some(user), password), Some(hello), reply);
}

/// Sends the client's login to a node. No request behind it is read before the node has answered.
fn ask_to_log_in(
    cx: &mut Context,
    session: &mut Session,
    (user, password): (Option<&[u8]>, &[u8]),
    hello: Option<Hello>,
    reply: &mut Vec<u8>,
) {
    let name = user.unwrap_or(DEFAULT);
    if name.len().max(password.len()) > WORD_BYTES_MAX {
        return errors::write(reply, errors::CREDENTIALS_TOO_LONG);
    }
    let ix = match login_link(cx) {
        Ok(ix) => ix,
        Err(lost) => return errors::write(reply, &lost.text()),
    };
    let credentials = Credentials::new(user, password);
    let attempt = Attempt { credentials: credentials.clone(), name: name.into(), hello };
    let place =
        session.replies.reserve(Owed::Task(TaskId::Login(cx.logins.passing.attempts.insert(attempt))));
    session.hold.add(Reason::Order);
    let request = credentials.request().unwrap_or_default();
    cx.engine.enqueue_on(ix, request, Asked::by_client(session.conn, place));
}

/// The link for logins.
fn login_link(cx: &mut Context) -> Result<LinkIx, Lost> {
    let kind = Profile { who: Who::Nobody, ..Profile::default() };
    let profile = cx.profiles.of_kind(kind, cx.engine.now);
    cx.profiles.touch(profile, cx.engine.now);
    cx.shared_link(profile, cx.engine.topology.keyless())
}

/// Ends the session's login, to which a node has answered `reply`. Appends the client's reply.
pub(crate) fn end_attempt(cx: &mut Context, session: &mut Session, id: Id, reply: &[u8], out: &mut Vec<u8>) {
    let Some(Attempt { credentials, name, hello }) = lose_attempt(cx, session, id) else { return };
    if reply != OK {
        login::count_refused(cx, hello.is_some());
        return append(out, reply);
    }
    let resp3 = hello.as_ref().map_or(session.resp3, |hello| hello.resp3);
    if !enter_as(cx, session, &credentials, &name, resp3) {
        login::count_refused(cx, hello.is_some());
        return errors::write(out, errors::USERS_MAX);
    }
    let Some(hello) = hello else { return append(out, OK) };
    if let Some(name) = hello.name {
        let named = set_name(cx, session, &name);
        debug_assert!(named.is_ok(), "it was checked before it was said to a node");
    }
    hello::write_hello(session, out);
}

/// Removes the login: a node has answered, or none will.
pub(crate) fn lose_attempt(cx: &mut Context, session: &mut Session, id: Id) -> Option<Attempt> {
    session.hold.remove(Reason::Order);
    cx.engine.todo.clients_to_resume.push(session.conn);
    cx.logins.passing.attempts.remove(id)
}

/// Makes the session `name`, with links of this identity. Returns false if there are too many identities.
fn enter_as(
    cx: &mut Context,
    session: &mut Session,
    credentials: &Credentials,
    name: &[u8],
    resp3: bool,
) -> bool {
    let identities = &mut cx.profiles.identities;
    let Some(id) = identities.enter(credentials, name, cx.limits.identities_max) else {
        return false;
    };
    let Some(login) = identities.user(id).map(Login::of_nodes) else { return false };
    let kind = Profile { resp3, who: Who::Client(id), ..cx.profiles.kind(session.profile) };
    if cx.profiles.of_kind(kind, cx.engine.now) == ProfileId::NONE {
        cx.profiles.identities.forget_unused(id);
        return false;
    }
    if session.resp3 != resp3 {
        // Messages use the new protocol only after the client has the reply.
        session.replies.raise_barrier(session.replies.front());
    }
    cx.change_profile(session, kind);
    login::set_login(cx, session, login);
    true
}

/// The profile of the session's identity with replies in RESP2.
pub(crate) fn plain_profile(cx: &mut Context, session: &Session) -> ProfileId {
    let kind = cx.profiles.kind(session.profile).plain();
    let profile = cx.profiles.of_kind(kind, cx.engine.now);
    cx.profiles.touch(profile, cx.engine.now);
    profile
}

/// The user whose clients `session` may see and change; `None` for all clients.
pub(crate) fn confined_to(cx: &Context, session: &Session) -> Option<Box<[u8]>> {
    has_users_of_nodes(cx).then(|| session.features.login.name().into())
}

/// The treatment, in a transaction, of a request that the proxy could answer itself.
pub(crate) fn within_transaction(local: Local, command: &Command) -> Within {
    match (command.within_transaction(), decided(local)) {
        (Within::Here, Decided::OneNode) => Within::Kept,
        // A node's replies within a transaction cannot show whether the request is permitted.
        (Within::Here, Decided::HereIfAllowed(_)) => Within::Refused(Refusal::Never(NOT_QUEUED)),
        (Within::Here, Decided::Refused(why)) => Within::Refused(Refusal::Never(why)),
        (within, _) => within,
    }
}

/// Sends `request` to a node to learn whether it is permitted. If it is, `answer` is the reply.
pub(crate) fn answer_if_allowed(
    cx: &mut Context,
    session: &mut Session,
    request: &Request<'_>,
    answer: Vec<u8>,
) {
    let ix = match cx.link_for(session, cx.engine.topology.keyless()) {
        Ok(ix) => ix,
        Err(lost) => return cx.refuse(session, &lost.text()),
    };
    let place = session.replies.reserve(Owed::Task(TaskId::Judged(cx.logins.passing.judged.insert(answer))));
    cx.engine.enqueue_on(ix, request.bytes, Asked::by_client(session.conn, place));
}

/// Has a request that no node sees wait until a node has told whether clients must log in. `None` if this is known, or
/// cannot be asked now. Else the request is read again after the answer.
pub(crate) fn ask_for_default_user(
    cx: &mut Context,
    session: &mut Session,
    command: &Command,
) -> Option<Step> {
    let is_seen = match command.carry {
        Carry::Here(Local::Hello) => false,
        Carry::Here(_) | Carry::Transaction(_) | Carry::Admin(..) | Carry::Refused(_) => {
            command.flags.contains(Flags::NO_AUTH)
        }
        _ => true,
    };
    if is_seen || !session.features.login.is_unknown() {
        return None;
    }
    // The reply to the greeting tells it: see [`Proxy::note_default_user`].
    let Ok(ix) = cx.shared_link(ProfileId::FIRST, cx.engine.topology.keyless()) else {
        session.features.login.give_up_asking();
        return None;
    };
    session.hold.add(Reason::Question);
    let asked = Asked { owner: Owner::Task(TaskKind::DefaultUser), ..Asked::by_client(session.conn, 0) };
    cx.engine.enqueue_on(ix, PING, asked);
    Some(cx.read_again())
}

/// Takes a node's `reply` about a request that is answered here. Appends the client's reply.
pub(crate) fn end_judgement(cx: &mut Context, id: Id, reply: &[u8], out: &mut Vec<u8>) {
    let answer = forget_judgement(cx, id);
    let may_ask = !resp::reply::is_error(reply);
    append(out, if may_ask { &answer } else { reply });
}

/// Removes and returns a reply that is no longer awaited.
pub(crate) fn forget_judgement(cx: &mut Context, id: Id) -> Vec<u8> {
    cx.logins.passing.judged.remove(id).unwrap_or_default()
}

/// Ends the wait of the client in `conn` for a node's decision whether it must log in.
pub(crate) fn end_question_for_default_user(cx: &mut Context, peers: &mut Peers, conn: ConnId) {
    let Some(Peer::Client(session)) = peers.get_mut(conn) else { return };
    session.features.login.give_up_asking();
    session.hold.remove(Reason::Question);
    cx.engine.todo.clients_to_resume.push(conn);
}

/// Takes the `reply` to the greeting of link `ix`. Without a login on the link, it tells whether the default user is
/// open. One shard decides; the others tell their view with each request.
pub(crate) fn note_default_user(cx: &mut Context, peers: &mut Peers, ix: LinkIx, reply: &[u8]) {
    let link = &cx.engine.links[ix];
    let is_first = link.used_by == Use::Shared && link.profile == ProfileId::FIRST;
    let is_ours = cx.settings.credentials.request().is_some();
    if !has_users_of_nodes(cx) || is_ours || !is_first || link.shard != cx.engine.topology.keyless() {
        return;
    }
    let is_closed = reply.starts_with(b"-NOAUTH ");
    let default_user = if is_closed { DefaultUser::Closed } else { DefaultUser::Open };
    if std::mem::replace(&mut cx.logins.passing.default_user, default_user) == default_user {
        return;
    }
    for index in 0..peers.places() {
        let Some(conn) = peers.id_at(index) else { continue };
        if let Some(Peer::Client(session)) = peers.get_mut(conn)
            && cx.profiles.kind(session.profile).who == Who::Pool
        {
            login::set_login(cx, session, newcomer(cx));
        }
    }
}

/// Sets the session's name. The error is for the client.
pub(crate) fn set_name(cx: &mut Context, session: &mut Session, name: &[u8]) -> Result<(), &'static str> {
    check_name(name)?;
    let charge = cx.engine.memory.charge(name.len());
    session.features.name = (!name.is_empty()).then(|| Box::new(Name { text: name.into(), charge }));
    Ok(())
}

pub(crate) const OK: &[u8] = b"+OK\r\n";
