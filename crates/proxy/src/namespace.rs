//! Namespaces: a user's keys have a prefix on the nodes, of which its clients know nothing.
//!
//! ```text
//!   GET a ─► permissions, policy ─► rewriting: GET bob:a ─► as any other request
//!   a     ◄─ shapes: which elements of the reply are keys ◄─ bob:a
//! ```
//!
//! There is one step on the way down (`rewriting.rs`, by the key specs of the command table). There is one on the way up
//! (`shapes.rs`, by a table of reply shapes). Between them the client is one that names keys with the prefix. `treatment.rs` has a
//! decision for each command. A command whose keys, or whose reply, cannot be rewritten is refused.
//!
//! This module decides and does nothing else. `requests/namespaced.rs` carries requests out.

pub(crate) mod rewriting;
pub(crate) mod shapes;
pub(crate) mod treatment;

use crate::namespace::shapes::Shape;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most bytes of a prefix.
const PREFIX_BYTES_MAX: usize = 64;

/// The keys of one user or of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    prefix: Box<[u8]>,
    /// Whether clients may run scripts, which can name any key.
    pub(crate) has_scripts: bool,
}

impl Namespace {
    /// The keys that begin with `prefix`. The error says why it can be none.
    pub fn new(prefix: &str, has_scripts: bool) -> Result<Namespace, String> {
        // A brace would begin a hash tag. Glob characters, and a comma in the configuration, would need an escape.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"{}*?[]\\,".contains(&byte);
        match (1..=PREFIX_BYTES_MAX).contains(&prefix.len()) && prefix.bytes().all(is_plain) {
            true => Ok(Namespace { prefix: prefix.as_bytes().into(), has_scripts }),
            false => Err(format!(
                "the prefix {prefix:?} must be 1 to {PREFIX_BYTES_MAX} visible ASCII characters without {{ }} * ? [ ] \\ and commas"
            )),
        }
    }

    /// The prefix of the keys on the nodes.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }
}

/// The namespaces of users, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(Arc<BTreeMap<Vec<u8>, Arc<Namespace>>>);

impl Namespaces {
    /// The namespaces of these users.
    pub fn new(all: impl IntoIterator<Item = (Vec<u8>, Namespace)>) -> Namespaces {
        Namespaces(Arc::new(all.into_iter().map(|(user, own)| (user, Arc::new(own))).collect()))
    }

    /// The namespace of the user `name`.
    pub(crate) fn of(&self, name: &[u8]) -> Option<&Arc<Namespace>> {
        self.0.get(name)
    }
}

/// The namespace of a session's user.
#[derive(Debug)]
pub(crate) struct Named {
    pub namespace: Arc<Namespace>,
    /// The shapes of the replies to commands that were queued since MULTI.
    pub queued: Vec<Shape>,
}

impl Named {
    pub(crate) fn new(namespace: &Arc<Namespace>) -> Named {
        Named { namespace: Arc::clone(namespace), queued: Vec::new() }
    }
}
