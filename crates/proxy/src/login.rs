//! The identity of a client, and whether it may have a request carried out.
//!
//! ```text
//!   arrives ─► default user is open? ──yes──► logged in ─► request ─► permit ─┬─► carried out
//!                     └─no─► password due ── AUTH, HELLO ──┘                  └─► NOAUTH, NOPERM
//! ```
//!
//! For a client with all permissions, the check of a request is one look at one byte. When the users change, every
//! worker gives its clients the new users of the same names, and closes clients whose users are gone.

pub(crate) mod acl;
pub(crate) mod admission;
pub(crate) mod attempts;
pub(crate) mod credentials;
pub(crate) mod decided;
pub(crate) mod hello;
pub(crate) mod identities;
pub(crate) mod identity;
pub(crate) mod job;
pub(crate) mod passing;

use crate::context::Context;
use crate::errors;
use crate::features::Session;
use crate::local::gathered::Gathered;
use crate::local::{inquiry, line};
use crate::login::identity::{Login, Obstacle};
use crate::login::job::{ControlJob, Task};
use crate::namespace::{Named, Namespace};
use command::Command;
use resp::{Request, encode};
use std::sync::Arc;
use users::{DEFAULT, Denial, Denied, Reason};

/// Sends a client's request to the control thread, since this crate must not read files.
pub(crate) fn send_job(cx: &mut Context, session: &mut Session, task: Task) {
    let deadline = cx.engine.now + cx.engine.limits.request_timeout;
    let inquiry = inquiry::inquire(cx, session, Gathered::ControlJob(task), cx.settings.workers, deadline);
    cx.outside.jobs.extend(inquiry.map(|inquiry| ControlJob { inquiry, task }));
}

/// Makes the client `login`. The policy of its listener holds for every identity, and a namespace for its user.
pub(crate) fn set_login(cx: &Context, session: &mut Session, login: Login) {
    let listener = session.features.login.listener;
    if let Some(route) = cx.settings.access.routed.at(listener) {
        return set_route(session, route);
    }
    let policy = cx.settings.access.policies.of(listener);
    let is_renaming = policy.is_some_and(|policy| !policy.names.is_empty());
    let namespace = cx.settings.access.namespaces.of(login.name());
    let is_ruled = policy.is_some() || namespace.is_some();
    session.features.login = Login { listener, is_renaming, ..login.ruled(is_ruled) };
    let before = session.features.namespace.as_ref().map(|named| &named.namespace);
    if before != namespace {
        session.features.namespace = namespace.map(|namespace| Box::new(Named::new(namespace)));
    }
}

/// Makes the client another pool of this process, whose route this is. That pool knows its clients' users and policies.
fn set_route(session: &mut Session, route: &Arc<Namespace>) {
    let listener = session.features.login.listener;
    session.features.login = Login { listener, ..Login::default() }.ruled(route.renames());
    let before = session.features.namespace.as_ref().map(|named| &named.namespace);
    if before != Some(route) {
        session.features.namespace = Some(Box::new(Named::new(route)));
    }
}

/// Whether the policy of the client's listener permits `request`. If not, the client has got an error.
fn obeys_policy(cx: &mut Context, session: &mut Session, command: &Command, request: &Request<'_>) -> bool {
    let policy = cx.settings.access.policies.of(session.features.login.listener);
    match policy.and_then(|policy| policy.objection(command, cx.engine.asking, request)) {
        Some(text) => {
            cx.refuse(session, &text);
            false
        }
        None => true,
    }
}

/// Whether `request` may be carried out for the session. If not, the client has got an error. To be called first for
/// every request while [`Login::is_checked`].
#[cold]
pub(crate) fn permit(
    cx: &mut Context,
    session: &mut Session,
    command: &Command,
    request: &Request<'_>,
) -> bool {
    let Some(obstacle) = session.features.login.obstacle(command, cx.engine.asking, request) else {
        return obeys_policy(cx, session, command, request);
    };
    if let Obstacle::Denied(denied) = obstacle {
        let (reason, object) = match denied {
            Denied::Command => (Reason::Command, command.name.as_bytes()),
            Denied::Key(at) => (Reason::Key, request.arg(at)),
            Denied::Channel(at) => (Reason::Channel, request.arg(at)),
        };
        note_denial(cx, session, reason, object, session.features.login.name());
    }
    match obstacle {
        Obstacle::NoAuth => cx.refuse(session, errors::NO_AUTH),
        Obstacle::Denied(Denied::Command) => cx.refuse(session, &errors::no_permission(&command.name)),
        Obstacle::Denied(Denied::Key(_)) => cx.refuse(session, errors::NO_PERMISSION_KEYS),
        Obstacle::Denied(Denied::Channel(_)) => cx.refuse(session, errors::NO_PERMISSION_CHANNELS),
        Obstacle::SortOption(option) => cx.refuse(session, &errors::sort_denied(option)),
    }
    false
}

/// Adds an entry to ACL LOG.
fn note_denial(cx: &Context, session: &Session, reason: Reason, object: &[u8], user: &[u8]) {
    let denial = Denial {
        count: 1,
        reason,
        context: if session.features.transaction.is_some() {
            users::Context::Multi
        } else {
            users::Context::Toplevel
        },
        object: object.to_vec(),
        user: user.to_vec(),
        at: cx.engine.now,
        client: line::client_line(cx, session).trim_end().to_owned(),
    };
    cx.settings.registry.denials().note(denial);
}

/// Counts a login that was refused.
pub(crate) fn count_refused(cx: &mut Context, is_hello: bool) {
    let counters = &mut cx.stats.counters;
    match is_hello {
        true => counters.logins_refused_hello += 1,
        false => counters.logins_refused_auth += 1,
    }
}

/// Logs the client in as `name`. Returns false if the password is wrong.
pub(crate) fn log_in(
    cx: &mut Context,
    session: &mut Session,
    request: &Request<'_>,
    name: &[u8],
    password: &[u8],
) -> bool {
    let named = cx.logins.users.authenticate(name, password);
    let is_unnamed = cx.settings.access.by_password && name == DEFAULT;
    // Without a password of its own, the default user would take any.
    let user = match is_unnamed {
        true => cx.logins.users.by_password(password),
        false => named,
    };
    match user {
        Some(user) => {
            let login = Login::of(user);
            set_login(cx, session, login);
            true
        }
        None => {
            note_denial(cx, session, Reason::Auth, request.arg(0), name);
            count_refused(cx, request.arg(0).eq_ignore_ascii_case(b"HELLO"));
            false
        }
    }
}

/// `AUTH [user] password`
pub(crate) fn auth(cx: &mut Context, session: &mut Session, request: &Request<'_>, reply: &mut Vec<u8>) {
    let (name, password) = match request.len() {
        2 if cx.logins.users.default_user().needs_no_password() && !cx.settings.access.by_password => {
            return errors::write(reply, errors::NO_PASSWORD);
        }
        2 => (DEFAULT, request.arg(1)),
        3 => (request.arg(1), request.arg(2)),
        _ => return errors::write(reply, errors::SYNTAX),
    };
    match log_in(cx, session, request, name, password) {
        true => encode::simple(reply, b"OK"),
        false => errors::write(reply, errors::WRONG_PASSWORD),
    }
}
