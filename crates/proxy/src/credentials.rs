//! What nodes are told of who we are.

use resp::encode;
use std::fmt;

/// The user and the password with which connections to nodes begin; none at all by default.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials(Option<Vec<u8>>);

impl Credentials {
    /// The password of the nodes' user `user`, or, without one, of their default user.
    pub fn new(user: Option<&[u8]>, password: &[u8]) -> Credentials {
        let mut request = Vec::new();
        match user {
            Some(user) => encode::request(&mut request, &[b"AUTH", user, password]),
            None => encode::request(&mut request, &[b"AUTH", password]),
        }
        Credentials(Some(request))
    }

    /// The request that says so, if there is something to say.
    pub fn request(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

/// Passwords have no place in logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "(hidden)" } else { "(none)" })
    }
}
