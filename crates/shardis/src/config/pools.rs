//! Tables `[[pool]]`: each is a service of its own, with the flags of `shardis proxy` as keys.
//!
//! ```text
//!   keys of the process ─────────────┐
//!   keys above ─► defaults ─► pool a ┼─► the services
//!                         └─► pool b ┘
//! ```
//!
//! A key of a pool wins over the same key above the tables. Keys of the process stand above alone, and keys that make no sense
//! for two pools (addresses, nodes) stand in pools alone.

use super::document::{Pair, Root, Section};
use super::faults::Fault;
use super::flags::{self, Entry};
use super::{Depth, OF_THE_PROCESS, Reader, WAYS_IN, listeners, mirrors};
use crate::args::listener::Place;
use crate::args::serving::Pool;
use crate::args::{AdminArgs, ProxyArgs, Serving, route};
use std::ffi::OsString;
use toml::de::DeValue;

/// The most pools. Each has threads of its own, so more would be a mistake.
const POOLS_MAX: usize = 64;
/// The most bytes of a pool's name.
const NAME_BYTES_MAX: usize = 64;
/// Flags that only one pool can have.
const OF_ONE_POOL: [&str; 8] =
    ["host", "nodes", "cluster", "sentinel", "master", "route", "unixsocketperm", "store_shards"];
/// Flags of the admin listener. Above the pools, with an address, they are those of one listener for all of them.
const OF_ADMIN: [&str; 5] =
    ["admin", "admin_token_file", "admin_tls_cert_file", "admin_tls_key_file", "admin_tls_ca_cert_file"];

impl<'a> Reader<'a> {
    /// The services of a file with pools.
    pub(super) fn read_pools(&mut self, root: &Root<'a>, depth: Depth) -> Option<Serving> {
        let chosen = self.chosen_pool();
        let is_alone = chosen.is_some();
        if !is_alone {
            self.refuse_flags_of_pools();
        }
        let mut above = self.defaults(&root.section);
        let admin = self.admin_of_process(&mut above);
        let tables = listeners::read(&self.flags, &root.section.tables);
        self.faults.extend(tables.faults);
        let misplaced = tables.of_redis.iter().map(|listener| {
            let text = "a listener of Redis belongs to a pool; write it as [[pool.listener]] below its pool";
            Fault::at(listener.at, text)
        });
        self.faults.extend(misplaced);
        if let Some(section) = root.pools.get(POOLS_MAX) {
            self.faults.push(Fault::at(section.at, format!("a file has at most {POOLS_MAX} pools")));
            return None;
        }
        let (mut names, mut pools) = (Vec::new(), Vec::new());
        for section in &root.pools {
            let Some(name) = self.name(section, &names) else { continue };
            names.push(name.clone());
            if chosen.as_ref().is_none_or(|chosen| *chosen == name) {
                let mut pool = self.pool(name, section, &above);
                pool.iter_mut().for_each(|pool| pool.args.admin.is_of_process = admin.is_some());
                let fault = pool.as_ref().and_then(|pool| same_at_statsd(&pools, pool));
                self.faults.extend(fault.map(|text| Fault::at(section.at, text)));
                pools.extend(pool);
            }
        }
        if let Some(name) = chosen.filter(|chosen| !names.contains(chosen)) {
            let text = format!("--pool {name}: there is no such pool; the file has {}", names.join(", "));
            self.faults.push(Fault { at: None, text });
        }
        // A pool that is looked at alone is not served: its routes lead nowhere.
        let routes = if is_alone { Vec::new() } else { resolve_routes(&mut pools) };
        self.faults.extend(routes.into_iter().map(|text| Fault { at: None, text }));
        let mirrors = mirrors::resolve(&mut pools);
        self.faults.extend(mirrors.into_iter().map(|text| Fault { at: None, text }));
        let of_process = pools.first().map(|pool: &Pool| pool.args.clone())?;
        let tcp = tables.of_tcp.iter().filter(|_| !is_alone);
        let tcp = tcp.filter_map(|one| self.tcp_args(one, &of_process, depth)).collect();
        Some(Serving { pools, tcp, admin, ..Serving::redis(*of_process) })
    }

    /// Takes the admin listener of all pools out of the keys above them, if it has an address.
    fn admin_of_process(&mut self, above: &mut Vec<Entry>) -> Option<Box<AdminArgs>> {
        if !above.iter().any(|entry| entry.id == "admin") {
            return None;
        }
        let (own, others) = std::mem::take(above)
            .into_iter()
            .partition::<Vec<Entry>, _>(|entry| OF_ADMIN.contains(&entry.id.as_str()));
        *above = others;
        let args = self.proxy_args(&own)?;
        // They are no settings of a pool.
        self.settings.clear();
        let checks = [args.admin.check(), args.admin.guard().map(drop)];
        for text in checks.into_iter().filter_map(Result::err) {
            let fault = self.located(&text, &own);
            self.faults.push(fault);
        }
        self.claim_admin(&args, &own, None);
        Some(Box::new(args.admin))
    }

    /// The pool that the command line names.
    fn chosen_pool(&self) -> Option<String> {
        let matches = self.flags.parse(self.words.iter().cloned()).ok()?;
        matches.get_one::<String>("pool").cloned()
    }

    /// Without a chosen pool, a flag of the command line that concerns one pool can only be a mistake.
    fn refuse_flags_of_pools(&mut self) {
        let is_of_pool = |id: &&String| !OF_THE_PROCESS.contains(&id.as_str()) && *id != "config";
        let ids: Vec<String> = self.overriding.iter().filter(is_of_pool).cloned().collect();
        for id in ids {
            let flag = self.flags.names_of(std::slice::from_ref(&id)).swap_remove(0);
            let text = format!("--{flag}: the file has pools; name the one that is meant with --pool=NAME");
            self.faults.push(Fault { at: None, text });
        }
    }

    /// The keys above all tables, which each pool has unless it says otherwise.
    fn defaults(&mut self, section: &Section<'a>) -> Vec<Entry> {
        let entries = self.entries_of(&section.pairs, &|key| listeners::why_not_above(key));
        for Entry { key, at, id, .. } in &entries {
            if WAYS_IN.contains(&id.as_str()) || OF_ONE_POOL.contains(&id.as_str()) {
                let text = format!("{key}: only one pool can have it; write it under its [[pool]]");
                self.faults.push(Fault::at(*at, text));
            }
        }
        flags::merged(entries, &mut self.faults)
    }

    /// The entries of `pairs`; the faults of the others are kept.
    pub(super) fn entries_of(
        &mut self,
        pairs: &[Pair<'a>],
        why_not: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        for pair in pairs {
            match self.flags.entry(pair, why_not) {
                Ok(entry) => entries.push(entry),
                Err(faults) => self.faults.extend(faults),
            }
        }
        entries
    }

    /// The name of a pool, which none of `others` has.
    fn name(&mut self, section: &Section<'a>, others: &[String]) -> Option<String> {
        let Some(pair) = section.pairs.iter().find(|pair| pair.key == "name") else {
            let text = "this pool needs a name as well, as in name = \"orders\"";
            self.faults.push(Fault::at(section.at, text));
            return None;
        };
        let refused = |text: String| Fault::at(pair.value_at, text);
        let fault = match &pair.value {
            DeValue::String(name) if others.iter().any(|other| **other == **name) => {
                refused(format!("name {name:?}: another pool has it already"))
            }
            DeValue::String(name) if is_name(name) => return Some(name.clone().into_owned()),
            _ => refused(format!(
                "name: write 1 to {NAME_BYTES_MAX} letters, digits, dots, hyphens and underscores in quotes"
            )),
        };
        self.faults.push(fault);
        None
    }

    /// The pool `name`.
    fn pool(&mut self, name: String, section: &Section<'a>, above: &[Entry]) -> Option<Pool> {
        let faults = self.faults.len();
        let own: Vec<Pair<'a>> = section.pairs.iter().filter(|pair| pair.key != "name").cloned().collect();
        let own = self.entries_of(&own, &|key| listeners::why_not_above(key));
        let of_process = own.iter().filter(|entry| OF_THE_PROCESS.contains(&entry.id.as_str()));
        let misplaced = of_process.map(|Entry { key, at, .. }| {
            Fault::at(
                *at,
                format!("{key}: the key belongs to the process; write it above the first [[pool]]"),
            )
        });
        self.faults.extend(misplaced);
        let tables = listeners::read(&self.flags, &section.tables);
        self.faults.extend(tables.faults);
        let misplaced = tables.of_tcp.iter().map(|listener| {
            let text = "a listener of mode tcp belongs to no pool; write it as [[listener]] above the pools";
            Fault::at(listener.address_at, text)
        });
        self.faults.extend(misplaced);
        let own = own.into_iter().chain(tables.of_redis).collect();
        let mut entries = flags::merged(own, &mut self.faults);
        let inherited = |other: &&Entry| !entries.iter().any(|entry| entry.id == other.id);
        let inherited: Vec<Entry> = above.iter().filter(inherited).cloned().collect();
        entries.extend(inherited);
        entries.extend(self.no_default_port(&entries, section.at));
        if self.faults.len() > faults {
            return None;
        }
        let args = self.proxy_args(&entries)?;
        self.check(&args, &entries);
        self.claim_places_of_pool(&name, &args, &entries, section.at);
        let settings = std::mem::take(&mut self.settings);
        Some(Pool { name: Some(name), args: Box::new(args), settings })
    }

    /// A pool that names its listeners has no other one.
    fn no_default_port(&self, entries: &[Entry], at: usize) -> Option<Entry> {
        let has = |id: &str| {
            entries.iter().any(|entry| entry.id == id) || self.overriding.iter().any(|said| said == id)
        };
        let is_needless = !has("port") && WAYS_IN.iter().any(|id| has(id));
        let words = vec![OsString::from("--port=0")];
        is_needless.then(|| Entry {
            key: "port".to_owned(),
            at,
            id: "port".to_owned(),
            words,
            values: Vec::new(),
        })
    }

    /// Claims the addresses of a pool. Those of other pools are taken.
    fn claim_places_of_pool(&mut self, pool: &str, args: &ProxyArgs, entries: &[Entry], at: usize) {
        let others = self.places.len();
        self.claim_places(args, entries);
        let (others, own) = self.places.split_at_mut(others);
        for claim in own {
            let at = *claim.at.get_or_insert(at);
            let Some(other) = others.iter().find(|other| other.place.is_same(&claim.place)) else { continue };
            let line = other.at.map_or_else(String::new, |at| format!(" ({})", self.document.line(at)));
            let text = format!(
                "pool {pool}: address {}: another pool{line} has this address already; each needs its own",
                claim.place
            );
            self.faults.push(Fault::at(at, text));
        }
        self.claim_admin(args, entries, Some(at));
    }
}

/// Tells pools of the routes that lead to them. Returns the faults.
fn resolve_routes(pools: &mut [Pool]) -> Vec<String> {
    let named = pools.iter_mut().map(|pool| (pool.name.as_deref().unwrap_or(""), &mut *pool.args));
    route::resolve(&mut named.collect::<Vec<_>>())
}

/// Why the names of `pool` at statsd would be those of one among `others`. A free port is its own.
fn same_at_statsd(others: &[Pool], pool: &Pool) -> Option<String> {
    let reports = |pool: &Pool| {
        let port = pool.args.ways_in().ok()?.iter().find_map(|way| match way.place {
            Place::Tcp(addr) if addr.port() > 0 => Some(addr.port()),
            _ => None,
        })?;
        let statsd = pool.args.admin.statsd.statsd("", &port.to_string())?;
        Some((port, statsd.target, statsd.prefix))
    };
    let own = reports(pool)?;
    let other = others.iter().find(|other| reports(other).as_ref() == Some(&own))?;
    let name = |pool: &Pool| pool.name.clone().unwrap_or_default();
    Some(format!(
        "pool {}: its names at statsd are those of pool {}, since both have port {}; give it a statsd-prefix of its own",
        name(pool),
        name(other),
        own.0
    ))
}

/// Whether `text` can be the name of a pool.
fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_of_name)
}
