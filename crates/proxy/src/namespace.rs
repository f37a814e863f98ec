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
//! The keys of a route are a namespace as well, seen from the other side (`route.rs`). Another pool of this process sends the
//! requests then, with the names that its clients know.
//!
//! This module decides and does nothing else. `requests/namespaced.rs` carries requests out.

pub(crate) mod rewriting;
pub(crate) mod route;
pub(crate) mod shapes;
pub(crate) mod treatment;

use crate::namespace::route::{ROUTES_FROM, RouteKeys};
use crate::namespace::shapes::Shape;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most bytes of a prefix.
const PREFIX_BYTES_MAX: usize = 64;

/// The keys of one user or of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The prefix of the keys on the nodes; empty over routes.
    prefix: Box<[u8]>,
    /// Whether clients may run scripts, which can name any key.
    pub(crate) has_scripts: bool,
    /// The names that clients of routes know.
    route: Option<RouteKeys>,
}

/// A key in two parts: its first bytes, and the others.
pub(crate) type Parts<'k> = (&'k [u8], &'k [u8]);

impl Namespace {
    /// The keys that begin with `prefix`. The error says why it can be none.
    pub fn new(prefix: &str, has_scripts: bool) -> Result<Namespace, String> {
        // A brace would begin a hash tag. Glob characters, and a comma in the configuration, would need an escape.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"{}*?[]\\,".contains(&byte);
        match (1..=PREFIX_BYTES_MAX).contains(&prefix.len()) && prefix.bytes().all(is_plain) {
            true => Ok(Namespace { prefix: prefix.as_bytes().into(), has_scripts, route: None }),
            false => Err(format!(
                "the prefix {prefix:?} must be 1 to {PREFIX_BYTES_MAX} visible ASCII characters without {{ }} * ? [ ] \\ and commas"
            )),
        }
    }

    /// The keys of routes. Scripts may run: a route is no border between users.
    pub fn of_routes(route: RouteKeys) -> Namespace {
        Namespace { prefix: Box::default(), has_scripts: true, route: Some(route) }
    }

    /// The routes whose keys these are.
    pub(crate) fn route(&self) -> Option<&RouteKeys> {
        self.route.as_ref()
    }

    /// Whether clients know keys by other names than nodes do.
    pub(crate) fn renames(&self) -> bool {
        self.route.as_ref().is_none_or(RouteKeys::renames)
    }

    /// The node's name of the client's `key`; `None` if no route leads it here.
    pub(crate) fn of_node<'k>(&'k self, key: &'k [u8]) -> Option<Parts<'k>> {
        match &self.route {
            None => Some((&self.prefix, key)),
            Some(route) => route.of_node(key),
        }
    }

    /// The client's name of the node's `key`; `None` if the client has no name for it.
    pub(crate) fn of_client<'k>(&'k self, key: &'k [u8]) -> Option<Parts<'k>> {
        match &self.route {
            None => Some((b"", key.strip_prefix(&*self.prefix)?)),
            Some(route) => route.of_client(key),
        }
    }

    /// The nodes' pattern for the client's `pattern`. The flag tells whether it may match keys that the client does not want.
    pub(crate) fn pattern<'k>(&'k self, pattern: &'k [u8]) -> (Parts<'k>, bool) {
        match &self.route {
            None => ((&self.prefix, pattern), false),
            Some(route) => route.pattern(pattern),
        }
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

/// The pools whose routes lead into a pool, each with the keys of its routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routed(Arc<[Arc<Namespace>]>);

impl Routed {
    /// These keys, in the order of the listeners that stand for the pools.
    pub fn new(all: impl IntoIterator<Item = Namespace>) -> Routed {
        Routed(all.into_iter().map(Arc::new).collect())
    }

    /// The keys of the pool that the listener `number` stands for, if it is one.
    pub(crate) fn at(&self, number: u16) -> Option<&Arc<Namespace>> {
        self.0.get(usize::from(number.checked_sub(ROUTES_FROM)?))
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
