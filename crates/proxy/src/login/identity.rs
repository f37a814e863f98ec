//! Who a client is, and what it may do.

use crate::login::attempts::DefaultUser;
use command::{Carry, Command, Flags, Guard, Number};
use resp::Request;
use resp::request::{RequestError, RequestLimits, Scanner};
use std::sync::Arc;
use users::{DEFAULT, Denied, User, Users};

/// Who a client is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    /// `None` is the default user, as long as it may do everything.
    pub user: Option<Arc<User>>,
    pub checks: Checks,
}

/// What is looked at before a request is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Checks {
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
pub(crate) enum Obstacle {
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
    pub(crate) fn of(user: &Arc<User>) -> Login {
        match user.is_unlimited() {
            true if user.name() == DEFAULT => Login::default(),
            true => Login { user: Some(Arc::clone(user)), checks: Checks::Nothing },
            false => Login { user: Some(Arc::clone(user)), checks: Checks::Rights },
        }
    }

    /// The same client after the users have changed; `None` if its user is gone.
    pub(crate) fn among(&self, users: &Users) -> Option<Login> {
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
    pub(crate) fn obstacle(
        &self,
        command: &Command,
        number: Number,
        request: &Request<'_>,
    ) -> Option<Obstacle> {
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
