//! Logins that a node decides.

use crate::login::credentials::Credentials;
use stdx::Slab;

/// The logins that nodes decide, of one worker.
#[derive(Debug)]
pub(crate) struct Passing {
    pub default_user: DefaultUser,
    /// Clients that wait for the outcome of a login.
    pub attempts: Slab<Attempt>,
    /// Replies that clients get once a node has permitted the request.
    pub judged: Slab<Vec<u8>>,
}

/// Whether clients that have not logged in are a user at the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultUser {
    /// No node was asked yet.
    Unknown,
    /// Such clients are the default user.
    Open,
    /// Such clients must log in.
    Closed,
}

/// A client's login until a node has answered.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub credentials: Credentials,
    pub name: Box<[u8]>,
    /// The rest of the request, if it was HELLO.
    pub hello: Option<Hello>,
}

#[derive(Debug)]
pub(crate) struct Hello {
    pub resp3: bool,
    pub name: Option<Box<[u8]>>,
}

/// Longer names and passwords are not sent to a node. The limit is Redis's for clients that have not logged in.
pub(crate) const WORD_BYTES_MAX: usize = 16 * 1024;

impl Passing {
    pub(crate) fn new(credentials: &Credentials) -> Passing {
        // If shardis has a user of its own, clients cannot use the first profile's links.
        let is_ours = credentials.request().is_some();
        let default_user = if is_ours { DefaultUser::Closed } else { DefaultUser::Unknown };
        Passing { default_user, attempts: Slab::default(), judged: Slab::default() }
    }
}

/// Whether a node's error concerns the user.
pub(crate) fn is_denial(error: &str) -> bool {
    ["WRONGPASS ", "NOAUTH ", "NOPERM "].iter().any(|word| error.starts_with(word))
}
