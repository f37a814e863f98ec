//! Credentials for nodes.

use resp::encode;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The user and the password with which connections to nodes begin; none by default. The bytes are overwritten when the
/// last copy is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials(Option<Arc<Zeroizing<Vec<u8>>>>);

impl Credentials {
    /// The password of the nodes' user `user`, or of their default user.
    pub fn new(user: Option<&[u8]>, password: &[u8]) -> Credentials {
        // The vector has its final size at once: a vector that grows would leave the old bytes in memory.
        let len = FRAME_BYTES_MAX + user.map_or(0, <[u8]>::len) + password.len();
        let mut request = Zeroizing::new(Vec::with_capacity(len));
        match user {
            Some(user) => encode::request(&mut request, &[b"AUTH", user, password]),
            None => encode::request(&mut request, &[b"AUTH", password]),
        }
        Credentials(Some(Arc::new(request)))
    }

    /// The AUTH request, if there are credentials.
    pub fn request(&self) -> Option<&[u8]> {
        self.0.as_ref().map(|request| request.as_slice())
    }
}

/// Bytes of an AUTH without its two arguments: its header, its name, and three lengths of up to 20 digits.
const FRAME_BYTES_MAX: usize = 96;

impl Hash for Credentials {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.request().hash(state);
    }
}

/// Hides the password from logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "(hidden)" } else { "(none)" })
    }
}
