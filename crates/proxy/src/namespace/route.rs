//! The keys of routes: those of another pool's clients that begin with certain prefixes.
//!
//! ```text
//!   prefix a:   kept       a:1 ─► a:1 ─► a:1
//!               cut        a:1 ─► 1   ─► a:1
//!               rewritten  a:1 ─► b:1 ─► a:1
//! ```
//!
//! All routes from one pool to another are one client there, so that its requests keep their order.
//!
//! Requests with kept keys pass unchanged. Then only lists of keys (KEYS, SCAN, RANDOMKEY) concern routes: clients do not see
//! keys that they could not name. A key whose name leads to another pool is one of them.

#[cfg(test)]
use crate::namespace::Namespace;
use crate::namespace::Parts;
use crate::namespace::shapes::{Expected, Shape};
use command::Command;
use topology::begins_with;

/// The number from which listeners are routes. No pool has as many of its own.
pub const ROUTES_FROM: u16 = 1 << 15;

/// The names of the keys that routes of one pool lead to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteKeys {
    /// The longest first.
    prefixes: Vec<Prefix>,
    /// Whether clients may write prefixes in any case.
    ignores_case: bool,
}

/// The prefix of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The prefix of the names that clients know.
    pub of_clients: Box<[u8]>,
    /// The prefix of the keys on the nodes; `None` if they are those of another pool.
    pub on_nodes: Option<Box<[u8]>>,
}

impl RouteKeys {
    /// All prefixes of a pool with routes, from the side of one that they lead to.
    pub fn new(prefixes: impl IntoIterator<Item = Prefix>, ignores_case: bool) -> RouteKeys {
        let mut prefixes: Vec<Prefix> = prefixes.into_iter().collect();
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.of_clients.len()));
        RouteKeys { prefixes, ignores_case }
    }

    /// The prefixes that lead here.
    fn own(&self) -> impl Iterator<Item = (&Prefix, &[u8])> {
        self.prefixes.iter().filter_map(|prefix| Some((prefix, prefix.on_nodes.as_deref()?)))
    }

    /// The prefix that decides about the name that is `head` and `tail`.
    fn deciding(&self, (head, tail): Parts<'_>) -> Option<&Prefix> {
        let begins = |prefix: &Prefix| {
            let wanted = &*prefix.of_clients;
            match wanted.split_at_checked(head.len()) {
                None => begins_with(head, wanted, self.ignores_case),
                Some((first, then)) => {
                    begins_with(head, first, self.ignores_case) && begins_with(tail, then, self.ignores_case)
                }
            }
        };
        self.prefixes.iter().find(|prefix| begins(prefix))
    }

    pub(super) fn renames(&self) -> bool {
        self.own().any(|(prefix, on_nodes)| *prefix.of_clients != *on_nodes)
    }

    pub(super) fn of_node<'k>(&'k self, key: &'k [u8]) -> Option<Parts<'k>> {
        let prefix = self.deciding((key, b""))?;
        Some((prefix.on_nodes.as_deref()?, &key[prefix.of_clients.len()..]))
    }

    pub(super) fn of_client<'k>(&'k self, key: &'k [u8]) -> Option<Parts<'k>> {
        let names = self.own().filter_map(|(prefix, on_nodes)| {
            let name = (&*prefix.of_clients, key.strip_prefix(on_nodes)?);
            self.deciding(name).is_some_and(|deciding| deciding == prefix).then_some((on_nodes.len(), name))
        });
        // Of several names, the one that says most of the key on the nodes.
        names.max_by_key(|(len, _)| *len).map(|(_, name)| name)
    }

    pub(super) fn pattern<'k>(&'k self, pattern: &'k [u8]) -> (Parts<'k>, bool) {
        // A prefix has no special characters, so a pattern that begins with one means it.
        let deciding = self.deciding((pattern, b""));
        let is_alone = |prefix: &Prefix| {
            let is_within = |(other, _): (&Prefix, _)| {
                other != prefix && begins_with(&other.of_clients, &prefix.of_clients, self.ignores_case)
            };
            !self.own().any(is_within)
        };
        match deciding.filter(|prefix| is_alone(prefix)) {
            Some(Prefix { of_clients, on_nodes: Some(on_nodes) }) => {
                // A key with such a name may be shown by that of another prefix.
                ((on_nodes, &pattern[of_clients.len()..]), self.own().nth(1).is_some())
            }
            _ => {
                let mut own = self.own();
                let only = own.next().filter(|_| own.next().is_none());
                ((only.map_or(b"", |(_, on_nodes)| on_nodes), b"*"), true)
            }
        }
    }

    /// Whether clients see all keys of the pool.
    fn shows_all(&self) -> bool {
        self.prefixes.iter().all(|prefix| prefix.of_clients.is_empty())
    }

    /// The change of the reply to `command`, whose keys are kept.
    pub(crate) fn expected_if_kept(&self, command: &Command) -> Option<Expected> {
        let shape = match &*command.name {
            "keys" => Shape::List,
            "scan" => Shape::Page,
            "randomkey" => Shape::Key,
            _ => return None,
        };
        (!self.shows_all()).then_some(Expected::One(shape))
    }
}

/// The keys of routes with these prefixes, of clients and on the nodes.
#[cfg(test)]
pub(crate) fn routed(prefixes: &[(&str, Option<&str>)], ignores_case: bool) -> Namespace {
    let prefixes = prefixes.iter().map(|(of_clients, on_nodes)| Prefix {
        of_clients: of_clients.as_bytes().into(),
        on_nodes: on_nodes.map(|prefix| prefix.as_bytes().into()),
    });
    Namespace::of_routes(RouteKeys::new(prefixes, ignores_case))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(parts: Option<Parts<'_>>) -> Option<String> {
        parts.map(|(head, tail)| String::from_utf8([head, tail].concat()).expect("text"))
    }

    #[test]
    fn keys_are_kept_cut_or_rewritten() {
        for (on_nodes, expected) in [("a:", "a:1"), ("", "1"), ("b:", "b:1")] {
            let route = routed(&[("a:", Some(on_nodes))], false);
            assert_eq!(joined(route.of_node(b"a:1")).as_deref(), Some(expected));
            assert_eq!(joined(route.of_client(expected.as_bytes())).as_deref(), Some("a:1"));
            assert_eq!(route.of_node(b"c:1"), None);
            assert_eq!(route.renames(), on_nodes != "a:");
        }
        assert_eq!(routed(&[("a:", Some("b:"))], false).of_client(b"c"), None);
    }

    #[test]
    fn keys_that_lead_to_another_pool_are_not_shown() {
        let shown = |on_nodes: &str, key: &str| {
            joined(
                routed(&[("a:", Some(on_nodes)), ("a:b:", None), ("", None)], false)
                    .of_client(key.as_bytes()),
            )
        };
        assert_eq!(shown("a:", "a:b:1"), None);
        assert_eq!(shown("a:", "a:b").as_deref(), Some("a:b"));
        assert_eq!(shown("", "b:1"), None);
        assert_eq!(shown("", "b").as_deref(), Some("a:b"));
        let default = routed(&[("", Some("")), ("a:", None)], false);
        assert_eq!((default.of_client(b"a:1"), default.of_client(b"b")), (None, Some((&b""[..], &b"b"[..]))));
    }

    #[test]
    fn several_prefixes_lead_to_one_pool() {
        let route = routed(&[("a:", Some("")), ("a:b:", Some("x:")), ("", None)], false);
        let pairs = [("a:1", "1"), ("a:b:1", "x:1"), ("a:x:", "x:")];
        for (name, key) in pairs {
            assert_eq!(joined(route.of_node(name.as_bytes())).as_deref(), Some(key));
        }
        assert_eq!(joined(route.of_client(b"1")).as_deref(), Some("a:1"));
        assert_eq!(
            joined(route.of_client(b"x:1")).as_deref(),
            Some("a:b:1"),
            "the longer prefix on the nodes wins"
        );
        assert_eq!(route.of_client(b"b:1"), None, "its name would lead to x:1");
    }

    #[test]
    fn patterns_are_those_of_the_nodes_where_they_can_be() {
        let route = routed(&[("a:", Some("")), ("c:", Some("x:")), ("c:d:", Some("y:")), ("", None)], false);
        let pattern = |text: &str| {
            let (parts, is_wider) = route.pattern(text.as_bytes());
            (joined(Some(parts)).expect("some"), is_wider)
        };
        assert_eq!(pattern("a:1*"), ("1*".to_owned(), true));
        assert_eq!(pattern("c:d:*"), ("y:*".to_owned(), true));
        assert_eq!(pattern("c:*"), ("*".to_owned(), true), "two prefixes may match");
        assert_eq!(pattern("*"), ("*".to_owned(), true));
        let one = routed(&[("a:", Some("x:")), ("", None)], false);
        assert_eq!(joined(Some(one.pattern(b"?:1").0)).as_deref(), Some("x:*"));
        assert_eq!(one.pattern(b"a:1*"), ((&b"x:"[..], &b"1*"[..]), false));
    }

    #[test]
    fn the_case_of_a_prefix_may_be_ignored() {
        let route = routed(&[("a:", Some("")), ("A:B:", None)], true);
        assert_eq!(joined(route.of_node(b"A:x")).as_deref(), Some("x"));
        assert_eq!((joined(route.of_client(b"x")).as_deref(), route.of_client(b"b:x")), (Some("a:x"), None));
    }
}
