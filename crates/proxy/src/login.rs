//! Who a client is, and whether it may have a request carried out.
//!
//! ```text
//!   arrives ─► default user is open? ──yes──► logged in ─► request ─► permit ─┬─► carried out
//!                     └─no─► password due ── AUTH, HELLO ──┘                  └─► NOAUTH, NOPERM
//! ```
//!
//! A client that may do everything costs a look at one byte for each request. When the users change, every worker gives
//! its clients those of the same name, and closes the clients of users that are gone.

pub(crate) mod acl;
mod admission;
pub(crate) mod credentials;
pub(crate) mod identities;
pub(crate) mod passing;

use crate::core::Core;
use crate::errors;
use crate::features::Session;
use crate::local::inquiry::{Gathered, Question};
use crate::login::passing::DefaultUser;
use crate::proxy::{Peer, Proxy};
use crate::session::Phase;
use command::{Carry, Command, Flags, Guard, Number};
use resp::request::{RequestError, RequestLimits, Scanner};
use resp::{Request, encode};
use std::sync::Arc;
use stdx::{Id, Instant};
use users::{Context, DEFAULT, Denial, Denied, Reason, User, Users};

/// Who a client is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    /// `None` is the default user, as long as it may do everything.
    user: Option<Arc<User>>,
    checks: Checks,
}

/// What is looked at before a request is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Checks {
    /// Nothing: the user may do everything.
    #[default]
    Nothing,
    /// Whether the user may do it.
    Rights,
    /// The client has not said its password: hardly anything is carried out.
    Password,
    /// The client has not said who it is, and nobody knows yet whether it must: nodes say so, to small requests. If it
    /// `was_asked`, no node that could be asked has answered.
    Unknown { was_asked: bool },
}

/// Why a request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// Nobody knows who asks.
    NoAuth,
    /// The user may not do it.
    Denied(Denied),
    /// This option of SORT reads keys that are not named, and the user may not read all.
    SortOption(&'static str),
}

impl Login {
    /// A client that has just arrived, or has said RESET.
    pub(crate) fn newcomer(users: &Users) -> Login {
        let user = users.default_user();
        match user.is_open() {
            true => Login::of(user),
            false => Login { user: Some(Arc::clone(user)), checks: Checks::Password },
        }
    }

    /// A client that has not said to the nodes who it is.
    pub(crate) fn of_default_user(default_user: DefaultUser) -> Login {
        let checks = match default_user {
            DefaultUser::Unknown => Checks::Unknown { was_asked: false },
            DefaultUser::Open => Checks::Nothing,
            DefaultUser::Closed => Checks::Password,
        };
        Login { user: None, checks }
    }

    /// A client that is `user` to the nodes, which look at all it asks for.
    pub(crate) fn of_nodes(user: &Arc<User>) -> Login {
        Login { user: Some(Arc::clone(user)), checks: Checks::Nothing }
    }

    /// A client that is `user`.
    fn of(user: &Arc<User>) -> Login {
        match user.is_unlimited() {
            true if user.name() == DEFAULT => Login::default(),
            true => Login { user: Some(Arc::clone(user)), checks: Checks::Nothing },
            false => Login { user: Some(Arc::clone(user)), checks: Checks::Rights },
        }
    }

    /// The same client after the users have changed; `None` if its user is gone.
    fn among(&self, users: &Users) -> Option<Login> {
        match self.is_missing() {
            true => Some(Login::newcomer(users)),
            false => users.get(self.name()).map(Login::of),
        }
    }

    /// Whether requests must be looked at.
    #[inline]
    pub(crate) fn is_checked(&self) -> bool {
        self.checks != Checks::Nothing
    }

    /// Whether the client may be nobody: little of it is read at a time.
    #[inline]
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.checks, Checks::Password | Checks::Unknown { .. })
    }

    /// Whether it would have to be asked first whether the client must log in.
    pub(crate) fn is_unknown(&self) -> bool {
        self.checks == Checks::Unknown { was_asked: false }
    }

    /// It cannot be asked now: nodes say it to each request that reaches them, and what does not is carried out.
    pub(crate) fn give_up_asking(&mut self) {
        if self.is_unknown() {
            self.checks = Checks::Unknown { was_asked: true };
        }
    }

    /// Whether the client must say a password first.
    pub(crate) fn must_log_in(&self) -> bool {
        self.checks == Checks::Password
    }

    /// The user's name.
    pub(crate) fn name(&self) -> &[u8] {
        self.user.as_ref().map_or(DEFAULT, |user| user.name())
    }

    /// Whether a request of which only the beginning is known, with its one key, may be carried out whatever follows.
    pub(crate) fn permits_any(&self, number: Number, key: &[u8]) -> bool {
        match (self.checks, &self.user) {
            (Checks::Nothing, _) => true,
            (Checks::Rights, Some(user)) => user.permits_any(number, key),
            (Checks::Rights, None) | (Checks::Password | Checks::Unknown { .. }, _) => false,
        }
    }

    /// Whether the client may hear what is published on `name`, a channel or a pattern.
    pub(crate) fn permits_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        match (self.checks, &self.user) {
            (Checks::Rights, Some(user)) => user.permits_channel(name, is_pattern),
            _ => true,
        }
    }

    /// What stands against `request`.
    fn obstacle(&self, command: &Command, number: Number, request: &Request<'_>) -> Option<Obstacle> {
        let user = match (self.checks, &self.user) {
            (Checks::Nothing | Checks::Unknown { .. }, _) => return None,
            (Checks::Rights, Some(user)) => user,
            _ if command.flags.contains(Flags::NO_AUTH) => return None,
            _ => return Some(Obstacle::NoAuth),
        };
        if let Err(denied) = user.permits(command, number, request) {
            return Some(Obstacle::Denied(denied));
        }
        let is_sort = command.carry == Carry::ShardIf(Guard::Patterns);
        if !is_sort || user.permits_reading_all(command, number, request) {
            return None;
        }
        command::sort_option_of_all_keys(request).map(Obstacle::SortOption)
    }
}

/// What a client may announce that has not said its password: as in Redis.
pub(crate) const UNAUTHENTICATED: RequestLimits =
    RequestLimits { args_max: 10, bulk_bytes_max: 16 * 1024, line_bytes_max: 64 * 1024 };

/// What is wrong with `bytes`, of which `error` was found by [`UNAUTHENTICATED`]: that they are no request, or that the
/// password was not said.
pub(crate) fn unauthenticated_error(
    bytes: &[u8],
    error: RequestError,
    limits: &RequestLimits,
) -> RequestError {
    let (mut args, mut inline) = (Vec::new(), Vec::new());
    match (Scanner::default().scan(bytes, limits, &mut args, &mut inline), error) {
        (Err(error), _) => error,
        (Ok(_), RequestError::ArgsLen) => RequestError::UnauthenticatedArgs,
        (Ok(_), RequestError::BulkLen) => RequestError::UnauthenticatedBulk,
        (Ok(_), error) => error,
    }
}

impl Core {
    /// Whether `request` may be carried out for the session. If not, the client was told why. To be asked if
    /// [`Login::is_checked`], before anything else is done.
    #[cold]
    pub(crate) fn permit(&mut self, session: &mut Session, command: &Command, request: &Request<'_>) -> bool {
        let Some(obstacle) = session.features.login.obstacle(command, self.engine.asking, request) else {
            return true;
        };
        if let Obstacle::Denied(denied) = obstacle {
            let (reason, object) = match denied {
                Denied::Command => (Reason::Command, command.name.as_bytes()),
                Denied::Key(at) => (Reason::Key, request.arg(at)),
                Denied::Channel(at) => (Reason::Channel, request.arg(at)),
            };
            self.note_denial(session, reason, object, session.features.login.name());
        }
        match obstacle {
            Obstacle::NoAuth => self.refuse(session, errors::NO_AUTH),
            Obstacle::Denied(Denied::Command) => self.refuse(session, &errors::no_permission(&command.name)),
            Obstacle::Denied(Denied::Key(_)) => self.refuse(session, errors::NO_PERMISSION_KEYS),
            Obstacle::Denied(Denied::Channel(_)) => self.refuse(session, errors::NO_PERMISSION_CHANNELS),
            Obstacle::SortOption(option) => self.refuse(session, &errors::sort_denied(option)),
        }
        false
    }

    /// For ACL LOG.
    fn note_denial(&self, session: &Session, reason: Reason, object: &[u8], user: &[u8]) {
        let denial = Denial {
            count: 1,
            reason,
            context: if session.features.transaction.is_some() { Context::Multi } else { Context::Toplevel },
            object: object.to_vec(),
            user: user.to_vec(),
            at: self.engine.now,
            client: self.client_line(session).trim_end().to_owned(),
        };
        self.settings.registry.denials().note(denial);
    }

    /// The client says that it is `name`. False if the password is not right.
    pub(crate) fn log_in(
        &mut self,
        session: &mut Session,
        request: &Request<'_>,
        name: &[u8],
        password: &[u8],
    ) -> bool {
        match self.logins.users.authenticate(name, password) {
            Some(user) => {
                session.features.login = Login::of(user);
                true
            }
            None => {
                self.note_denial(session, Reason::Auth, request.arg(0), name);
                false
            }
        }
    }

    /// `AUTH [user] password`
    pub(crate) fn auth(&mut self, session: &mut Session, request: &Request<'_>, reply: &mut Vec<u8>) {
        let (name, password) = match request.len() {
            2 if self.logins.users.default_user().needs_no_password() => {
                return errors::write(reply, errors::NO_PASSWORD);
            }
            2 => (DEFAULT, request.arg(1)),
            3 => (request.arg(1), request.arg(2)),
            _ => return errors::write(reply, errors::SYNTAX),
        };
        match self.log_in(session, request, name, password) {
            true => encode::simple(reply, b"OK"),
            false => errors::write(reply, errors::WRONG_PASSWORD),
        }
    }

    /// CONFIG SET requirepass: from now on the default user has `password`, or, if that is empty, needs none.
    pub(crate) fn set_password(&mut self, session: &mut Session, password: &[u8]) {
        let rule = if password.is_empty() { b"nopass".to_vec() } else { [b">", password].concat() };
        match self.settings.registry.set_user(DEFAULT, &[b"resetpass", &rule], self.limits.user_bytes_max) {
            Ok(users) => self.spread_users(session, users, None),
            Err(text) => self.refuse(session, &text),
        }
    }

    /// ACL SETUSER and DELUSER: `users` are the newest. The client is answered when all workers have them.
    pub(crate) fn spread_users(&mut self, session: &mut Session, users: Arc<Users>, deleted: Option<usize>) {
        // What stands behind this request in a pipeline knows of it already.
        self.logins.users = Arc::clone(&users);
        self.ask_workers(session, Question::Users(users), Gathered::Users { deleted });
        match session.features.login.among(&self.logins.users) {
            Some(login) => session.features.login = login,
            None => {
                session.features.login = Login::newcomer(&self.logins.users);
                session.phase = Phase::Closing { linger: false };
            }
        }
        // As in Redis, who has taken his own rights still gets his answer.
        if !self.may_stay_subscribed(session) {
            session.phase = Phase::Closing { linger: false };
        }
    }

    /// ACL LOAD and SAVE: whoever drives the proxy is to do it, for files are none of our business.
    pub(crate) fn send_job(&mut self, session: &mut Session, task: Task) {
        let deadline = self.engine.now + self.engine.limits.request_timeout;
        let inquiry = self.inquire(session, Gathered::ControlJob(task), self.settings.workers, deadline);
        self.outside.jobs.extend(inquiry.map(|inquiry| ControlJob { inquiry, task }));
    }
}

/// The wish of a client that something be done with the ACL file.
#[derive(Debug)]
pub struct ControlJob {
    inquiry: Id,
    /// What is to be done.
    pub task: Task,
}

/// What a client wants to be done with the ACL file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// It is read again: the outcome goes to [`Proxy::handle_loaded`].
    LoadUsers,
    /// The users, as they are in the registry, are written to it: the outcome goes to [`Proxy::handle_saved`].
    SaveUsers,
}

impl Proxy {
    /// What is to be done with the ACL file next.
    pub fn poll_job(&mut self) -> Option<ControlJob> {
        self.core.outside.jobs.pop_front()
    }

    /// The ACL file was read: the users, which are in the registry already, or what is wrong with the file.
    pub fn handle_loaded(&mut self, job: ControlJob, outcome: Result<Arc<Users>, String>, now: Instant) {
        self.core.begin(now);
        match outcome {
            Ok(users) => {
                self.replace_gathered(job.inquiry, Gathered::Users { deleted: None });
                self.core.tasks.questions.push_back((job.inquiry, Arc::new(Question::Users(users))));
            }
            Err(text) => {
                self.replace_gathered(job.inquiry, Gathered::Refused(text));
                self.conclude(job.inquiry);
            }
        }
        self.follow_up();
    }

    /// The ACL file was written, or not.
    pub fn handle_saved(&mut self, job: ControlJob, is_saved: bool, now: Instant) {
        self.core.begin(now);
        let gathered = match is_saved {
            true => Gathered::Done,
            false => Gathered::Refused(errors::USERS_NOT_SAVED.to_owned()),
        };
        self.replace_gathered(job.inquiry, gathered);
        self.conclude(job.inquiry);
        self.follow_up();
    }

    /// There are other users, which are in the registry already.
    pub fn handle_users(&mut self, users: &Arc<Users>, now: Instant) {
        self.core.begin(now);
        self.adopt_users(users);
        self.follow_up();
    }

    /// From now on the users are `users`, if this worker knows no newer ones. Clients whose user is gone, or may not listen
    /// any more to what they are subscribed to, are closed.
    pub(crate) fn adopt_users(&mut self, users: &Arc<Users>) {
        if users.version() < self.core.logins.users.version() {
            return;
        }
        self.core.logins.users = Arc::clone(users);
        for index in 0..self.peers.places() {
            let Some(conn) = self.peers.id_at(index) else { continue };
            let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { continue };
            match session.features.login.among(users) {
                Some(login) if login.user == session.features.login.user => session.features.login = login,
                Some(login) => {
                    session.features.login = login;
                    // Redis looks with EXEC once more at what it has queued. What was queued is bytes here: none of it is
                    // carried out.
                    self.core.spoil_transaction(session);
                    if !self.core.may_stay_subscribed(session) {
                        self.close_client(conn);
                    }
                }
                None => self.close_client(conn),
            }
        }
    }
}
