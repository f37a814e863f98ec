//! Logins that a node decides on.

use crate::login::credentials::Credentials;
use stdx::Slab;

/// What a worker knows of logins that nodes decide.
#[derive(Debug)]
pub(crate) struct Passing {
    pub default_user: DefaultUser,
    /// Clients that wait to be told whether they are in.
    pub attempts: Slab<Attempt>,
    /// What clients are told once a node has said that they may ask for it.
    pub judged: Slab<Vec<u8>>,
}

/// Whether clients are somebody to the nodes that have not said who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultUser {
    /// No node was asked yet.
    Unknown,
    /// They are the default user.
    Open,
    /// They are not.
    Closed,
}

/// What a client has said of itself, until a node has answered.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub credentials: Credentials,
    pub name: Box<[u8]>,
    /// What it wants beside that, if it has said HELLO.
    pub hello: Option<Hello>,
}

#[derive(Debug)]
pub(crate) struct Hello {
    pub resp3: bool,
    pub name: Option<Box<[u8]>>,
}

/// Longer names and passwords are said to no node: as much as Redis takes of somebody who is not logged in.
pub(crate) const WORD_BYTES_MAX: usize = 16 * 1024;

impl Passing {
    pub(crate) fn new(credentials: &Credentials) -> Passing {
        // The first profile's connections are ours alone if we are somebody by ourselves.
        let is_ours = credentials.request().is_some();
        let default_user = if is_ours { DefaultUser::Closed } else { DefaultUser::Unknown };
        Passing { default_user, attempts: Slab::default(), judged: Slab::default() }
    }
}

/// Whether an error of a node is about who asks.
pub(crate) fn is_denial(error: &str) -> bool {
    ["WRONGPASS ", "NOAUTH ", "NOPERM "].iter().any(|word| error.starts_with(word))
}
