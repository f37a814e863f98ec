//! Routes of a pool: prefixes of keys, and the pools that have these keys.

use super::proxy::ProxyArgs;
use crate::routed::Target;
use clap::Args;
use proxy::{Namespace, Prefix, RouteKeys, Routed};
use std::fmt;
use std::str::FromStr;
use topology::{Address, NodeSpec, ROUTES_MAX, Routes, ShardId, Topology};

/// The flags of routes.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RouteArgs {
    /// Route: keys that begin with PREFIX go to another [[pool]] of the file. "PREFIX=POOL" keeps the keys, "PREFIX=POOL cut"
    /// cuts the prefix off, "PREFIX=POOL to=NEW" writes NEW in its place. "*=POOL" takes all other keys (docs/routes.md)
    #[expect(rustdoc::broken_intra_doc_links, reason = "a table of the file in brackets")]
    #[arg(long, value_name = "PREFIX=POOL", value_parser = Route::from_str,
        conflicts_with_all = ["nodes", "cluster", "sentinel", "store_shards", "store_memory", "store_policy", "distribution",
            "hash", "tag_rule", "like", "node_auth", "node_auth_file", "node_tls", "databases"])]
    route: Vec<Route>,

    /// Prefixes of --route in any case of letters; the rest of a key stays as written
    #[arg(long, requires = "route")]
    route_ignores_case: bool,

    /// Pools whose routes lead here.
    #[arg(skip)]
    inbound: Vec<Inbound>,

    /// Databases that all pools have to which the routes lead; 0 before they are known.
    #[arg(skip)]
    databases: u16,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    /// The prefix of the keys for clients; empty for all other keys.
    prefix: String,
    /// The same in that pool.
    to: String,
    /// The name of the pool.
    pool: String,
}

/// The routes of another pool, some of which lead to this one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inbound {
    /// All routes of that pool.
    routes: Vec<Route>,
    ignores_case: bool,
    /// The name of this pool.
    pool: String,
}

/// The prefix of all other keys.
const ALL_OTHERS: &str = "*";

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Route, String> {
        let refused = || {
            "write a prefix and a pool, as in \"orders:=main\", \"old:=cache cut\", \"old:=cache to=new:\" or \"*=main\"".to_owned()
        };
        let (prefix, rest) = text.split_once('=').ok_or_else(refused)?;
        let (pool, change) = rest.split_once(' ').map_or((rest, ""), |(pool, change)| (pool, change.trim()));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if pool.is_empty() || !pool.bytes().all(is_name) {
            return Err(refused());
        }
        let prefix = if prefix == ALL_OTHERS { "" } else { checked(prefix)? };
        let to = match change.split_once('=') {
            None if change.is_empty() => prefix,
            None if change == "cut" && !prefix.is_empty() => "",
            Some(("to", new)) => checked(new)?,
            _ => return Err(refused()),
        };
        Ok(Route { prefix: prefix.to_owned(), to: to.to_owned(), pool: pool.to_owned() })
    }
}

/// A prefix that is one. Patterns of keys begin with it, so it has no special characters.
fn checked(prefix: &str) -> Result<&str, String> {
    Namespace::new(prefix, false).map(|_| prefix)
}

impl fmt::Display for Route {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Route { prefix, to, pool } = self;
        write!(out, "{} to {pool}", if prefix.is_empty() { ALL_OTHERS } else { prefix })?;
        match to {
            to if to == prefix => Ok(()),
            to if to.is_empty() => out.write_str(" cut"),
            to => write!(out, " as {to}"),
        }
    }
}

impl RouteArgs {
    /// Whether other pools have the keys.
    pub(crate) fn are_given(&self) -> bool {
        !self.route.is_empty()
    }

    /// Whether routes of other pools lead here.
    pub(crate) fn lead_here(&self) -> bool {
        !self.inbound.is_empty()
    }

    /// All routes, that of all other keys first.
    fn in_order(&self) -> impl Iterator<Item = &Route> + Clone {
        let is_default = |route: &&Route| route.prefix.is_empty();
        self.route.iter().filter(is_default).chain(self.route.iter().filter(move |route| !is_default(route)))
    }

    /// Refuses routes that do not say for each key where it is.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(first) = self.route.first() else { return Ok(()) };
        if self.route.len() > ROUTES_MAX {
            return Err(format!("--route {first}: a pool has at most {ROUTES_MAX} routes"));
        }
        for (number, route) in self.route.iter().enumerate() {
            let is_same = |other: &&Route| match self.route_ignores_case {
                true => other.prefix.eq_ignore_ascii_case(&route.prefix),
                false => other.prefix == route.prefix,
            };
            if let Some(other) = self.route[..number].iter().find(is_same) {
                return Err(format!("--route {route}: the prefix has a route already, {other}"));
            }
        }
        match self.in_order().next() {
            Some(route) if route.prefix.is_empty() => Ok(()),
            _ => Err(format!(
                "--route {first}: the other keys need a route as well, as in \"*={}\"",
                first.pool
            )),
        }
    }

    /// Refuses routes of a pool that is served alone.
    pub(crate) fn check_resolved(&self) -> Result<(), String> {
        match self.route.first() {
            Some(route) if self.databases == 0 => Err(format!(
                "--route {route}: routes lead to pools of the same file; serve all of them, without --pool"
            )),
            _ => Ok(()),
        }
    }

    /// The pools that routes lead to, in the order of the shards: that of all other keys first.
    fn pools(&self) -> Vec<&str> {
        let mut pools: Vec<&str> = Vec::new();
        for route in self.in_order() {
            if !pools.contains(&&*route.pool) {
                pools.push(&route.pool);
            }
        }
        pools
    }

    /// The ways to the other pools, in the order of the shards.
    pub(crate) fn nodes(&self) -> Vec<NodeSpec> {
        let node = |(number, pool): (u32, &str)| NodeSpec::at(Address::Route { number, name: pool.into() });
        (0..).zip(self.pools()).map(node).collect()
    }

    /// The topology whose shards are the other pools.
    pub(crate) fn topology(&self) -> Result<Topology, String> {
        let pools = self.pools();
        let shard = |route: &Route| {
            let place = pools.iter().position(|pool| *pool == route.pool).unwrap_or_default();
            ShardId(place as u32)
        };
        let prefixes = self.in_order().map(|route| (route.prefix.as_bytes(), shard(route)));
        let routes = Routes::new(prefixes, self.route_ignores_case);
        Topology::of_routes(1, &self.nodes(), routes).map_err(|error| error.to_string())
    }

    /// Databases that clients may SELECT, if routes decide.
    pub(crate) fn databases(&self) -> Option<u16> {
        (self.databases > 0).then_some(self.databases)
    }

    /// The keys of the routes that lead here.
    pub(crate) fn routed(&self) -> Routed {
        Routed::new(self.inbound.iter().map(|inbound| {
            let prefix = |route: &Route| Prefix {
                of_clients: route.prefix.as_bytes().into(),
                on_nodes: (route.pool == inbound.pool).then(|| route.to.as_bytes().into()),
            };
            Namespace::of_routes(RouteKeys::new(inbound.routes.iter().map(prefix), inbound.ignores_case))
        }))
    }

    /// A line for the operator.
    pub(crate) fn describe(&self) -> String {
        let routes: Vec<String> = self.in_order().map(ToString::to_string).collect();
        format!("routes of keys: {}", routes.join(", "))
    }
}

/// Tells pools, which have these names, of the routes that lead to them. Returns the faults.
pub(crate) fn resolve(pools: &mut [(&str, &mut ProxyArgs)]) -> Vec<String> {
    let mut faults = Vec::new();
    for number in 0..pools.len() {
        let (from, routes) = (pools[number].0.to_owned(), pools[number].1.routes.clone());
        for pool in routes.pools() {
            let refused = |why: &str| format!("pool {from}: a route to {pool}: {why}");
            let target = pools.iter_mut().position(|(name, _)| *name == pool);
            match target {
                None => faults.push(refused("no pool has this name")),
                Some(target) if pools[target].1.routes.are_given() => {
                    faults.push(refused("that pool has routes itself; name the pool that they lead to"));
                }
                Some(target) => {
                    let databases = pools[target].1.databases();
                    pools[target].1.routes.inbound.push(Inbound {
                        routes: routes.route.clone(),
                        ignores_case: routes.route_ignores_case,
                        pool: pool.to_owned(),
                    });
                    let own = &mut pools[number].1.routes.databases;
                    *own = if *own == 0 { databases } else { databases.min(*own) };
                }
            }
        }
    }
    faults
}

/// The ways of each pool to others, by the names of all pools.
pub(crate) fn targets(pools: &[(&str, &ProxyArgs)]) -> Vec<Vec<Target>> {
    let mut inbound = vec![0; pools.len()];
    let mut next = |target: usize| {
        inbound[target] += 1;
        (target, inbound[target] - 1)
    };
    let mut of_pool = |args: &ProxyArgs| -> Vec<Target> {
        let place = |pool: &str| pools.iter().position(|(name, _)| *name == pool);
        args.routes.pools().into_iter().filter_map(place).map(&mut next).collect()
    };
    pools.iter().map(|(_, args)| of_pool(args)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(prefix: &str, to: &str) -> Result<Route, String> {
        Ok(Route { prefix: prefix.to_owned(), to: to.to_owned(), pool: "p".to_owned() })
    }

    #[test]
    fn a_route_keeps_cuts_or_rewrites_its_prefix() {
        let parsed = |text: &str| text.parse::<Route>();
        assert_eq!(parsed("a:=p"), route("a:", "a:"));
        assert_eq!(parsed("a:=p cut"), route("a:", ""));
        assert_eq!(parsed("a:=p to=b:"), route("a:", "b:"));
        assert_eq!(parsed("*=p"), route("", ""));
        assert_eq!(parsed("*=p to=b:"), route("", "b:"));
        for wrong in
            ["", "a:", "=p", "a:=", "a*=p", "{a}=p", "a:=p q", "*=p cut", "a:=p to=", "a:=p to=*", "a=b=c"]
        {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_other_keys_have_a_route_and_no_prefix_has_two() {
        let check = |texts: &[&str], route_ignores_case| {
            let route = texts.iter().map(|text| text.parse().expect("valid")).collect();
            RouteArgs { route, route_ignores_case, ..RouteArgs::default() }.check()
        };
        assert_eq!(check(&[], false), Ok(()));
        assert_eq!(check(&["a:=p", "*=q", "A:=r"], false), Ok(()));
        let error = check(&["a:=p", "*=q", "A:=r"], true).expect_err("the same prefix twice");
        assert_eq!(error, "--route A: to r: the prefix has a route already, a: to p");
        let error = check(&["a:=p cut"], false).expect_err("no route for b");
        assert_eq!(error, "--route a: to p cut: the other keys need a route as well, as in \"*=p\"");
    }
}
