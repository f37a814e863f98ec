//! The identity of a client, and its permissions.

use crate::login::attempts::DefaultUser;
use command::{Carry, Command, Flags, Guard, Number};
use resp::Request;
use resp::request::{RequestError, RequestLimits, Scanner};
use std::sync::Arc;
use users::{DEFAULT, Denied, User, Users};

/// The identity of a client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    /// The user. `None` is the default user with all permissions.
    pub user: Option<Arc<User>>,
    pub checks: Checks,
    /// The number of the client's listener.
    pub listener: u16,
    /// Whether that listener has other names for commands.
    pub is_renaming: bool,
}

/// The check before a request is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Checks {
    /// None: the user may do everything.
    #[default]
    Nothing,
    /// The policy of the client's listener and the namespace of the user. The user may do everything else.
    Listener,
    /// The permissions of the user.
    Rights,
    /// The client has not sent its password: hardly any request is carried out.
    Password,
    /// The client has not logged in, and whether it must is unknown. Nodes decide it for each request; small ones are
    /// sent to them. If it `was_asked`, no node was there to answer.
    Unknown { was_asked: bool },
}

/// Why a request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The client has not logged in.
    NoAuth,
    /// The user lacks a permission.
    Denied(Denied),
    /// This option of SORT reads keys that the request does not name, and the user may not read all keys.
    SortOption(&'static str),
}

impl Login {
    /// A client that has just connected, or has sent RESET.
    pub(crate) fn newcomer(users: &Users) -> Login {
        let user = users.default_user();
        match user.is_open() {
            true => Login::of(user),
            false => Login { user: Some(Arc::clone(user)), checks: Checks::Password, ..Login::default() },
        }
    }

    /// A client that has not logged in at the nodes.
    pub(crate) fn of_default_user(default_user: DefaultUser) -> Login {
        let checks = match default_user {
            DefaultUser::Unknown => Checks::Unknown { was_asked: false },
            DefaultUser::Open => Checks::Nothing,
            DefaultUser::Closed => Checks::Password,
        };
        Login { user: None, checks, ..Login::default() }
    }

    /// A client that is `user` at the nodes, which check all its requests.
    pub(crate) fn of_nodes(user: &Arc<User>) -> Login {
        Login { user: Some(Arc::clone(user)), checks: Checks::Nothing, ..Login::default() }
    }

    /// A client that is `user`.
    pub(crate) fn of(user: &Arc<User>) -> Login {
        match user.is_unlimited() {
            true if user.name() == DEFAULT => Login::default(),
            true => Login { user: Some(Arc::clone(user)), checks: Checks::Nothing, ..Login::default() },
            false => Login { user: Some(Arc::clone(user)), checks: Checks::Rights, ..Login::default() },
        }
    }

    /// The same client after a change of users; `None` if its user is gone.
    pub(crate) fn among(&self, users: &Users) -> Option<Login> {
        match self.is_missing() {
            true => Some(Login::newcomer(users)),
            false => users.get(self.name()).map(Login::of),
        }
    }

    /// The same client, whose listener has a policy or whose user has a namespace if it `is_ruled`.
    pub(crate) fn ruled(self, is_ruled: bool) -> Login {
        let checks = match self.checks {
            Checks::Nothing if is_ruled => Checks::Listener,
            Checks::Listener if !is_ruled => Checks::Nothing,
            checks => checks,
        };
        Login { checks, ..self }
    }

    /// Whether requests must be checked.
    #[inline]
    pub(crate) fn is_checked(&self) -> bool {
        self.checks != Checks::Nothing
    }

    /// Whether the client may have to log in: only small requests are read then.
    #[inline]
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.checks, Checks::Password | Checks::Unknown { .. })
    }

    /// Whether a node should first be asked whether the client must log in.
    pub(crate) fn is_unknown(&self) -> bool {
        self.checks == Checks::Unknown { was_asked: false }
    }

    /// Notes that no node can be asked now. Nodes check the requests that reach them, and the proxy carries out the
    /// others.
    pub(crate) fn give_up_asking(&mut self) {
        if self.is_unknown() {
            self.checks = Checks::Unknown { was_asked: true };
        }
    }

    /// Whether the client must log in first.
    pub(crate) fn must_log_in(&self) -> bool {
        self.checks == Checks::Password
    }

    /// The user's name.
    pub(crate) fn name(&self) -> &[u8] {
        self.user.as_ref().map_or(DEFAULT, |user| user.name())
    }

    /// Whether a request with this command and one `key` may be carried out, whatever its other arguments are.
    pub(crate) fn permits_any(&self, number: Number, key: &[u8]) -> bool {
        match (self.checks, &self.user) {
            (Checks::Nothing, _) => true,
            (Checks::Rights, Some(user)) => user.permits_any(number, key),
            (Checks::Rights, None) => false,
            // The policy may depend on the other arguments.
            (Checks::Listener | Checks::Password | Checks::Unknown { .. }, _) => false,
        }
    }

    /// Whether the client may subscribe to `name`, a channel or a pattern.
    pub(crate) fn permits_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        match (self.checks, &self.user) {
            (Checks::Rights, Some(user)) => user.permits_channel(name, is_pattern),
            _ => true,
        }
    }

    /// The obstacle to `request`.
    pub(crate) fn obstacle(
        &self,
        command: &Command,
        number: Number,
        request: &Request<'_>,
    ) -> Option<Obstacle> {
        let user = match (self.checks, &self.user) {
            (Checks::Nothing | Checks::Listener | Checks::Unknown { .. }, _) => return None,
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

/// Limits for requests of clients that have not logged in, as in Redis.
pub(crate) const UNAUTHENTICATED: RequestLimits =
    RequestLimits { args_max: 10, bulk_bytes_max: 16 * 1024, line_bytes_max: 64 * 1024 };

/// The error for `bytes` that exceed [`UNAUTHENTICATED`] by `error`: they are not a request, or the login is missing.
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
