//! Sentinels and nodes with the answers that a test sets.

use super::reach::tcp;
use super::testing::{World, array, bulk};
use super::{Discovery, Party, SentinelDiscovery, SentinelSettings};
use crate::{Address, NodeSpec};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

pub(super) const NIL: &[u8] = b"*-1\r\n";
pub(super) const UNKNOWN: &[u8] = b"-ERR No such master with that name\r\n";

pub(super) fn address(text: &str) -> Address {
    let (host, port) = text.rsplit_once(':').expect("host:port");
    tcp(host, port.parse().expect("a port")).expect("valid")
}

/// The claims of a sentinel.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    /// Of each name: the primary and the epoch.
    pub claims: HashMap<&'static str, (&'static str, u64)>,
    /// The replica that it has chosen, while it fails `one` over.
    pub heir: Option<&'static str>,
    /// Its run id; none before Redis 6.2.
    pub id: Option<&'static str>,
    /// The other sentinels, by their names.
    pub fellows: Vec<(&'static str, &'static str)>,
}

pub(super) type Said = Rc<RefCell<Words>>;

pub(super) fn said(claims: &[(&'static str, &'static str, u64)]) -> Said {
    let claims = claims.iter().map(|&(name, at, epoch)| (name, (at, epoch))).collect();
    Rc::new(RefCell::new(Words { claims, ..Words::default() }))
}

/// From now on it reports this primary of `one`.
pub(super) fn claim(said: &Said, at: &'static str, epoch: u64) {
    said.borrow_mut().claims.insert("one", (at, epoch));
}

/// Fields with their values, as an element of a list.
fn entry(fields: &[(&str, &str)]) -> Vec<u8> {
    let words: Vec<&str> = fields.iter().flat_map(|(name, value)| [*name, *value]).collect();
    array(&words)
}

fn list(entries: &[Vec<u8>]) -> Vec<u8> {
    [format!("*{}\r\n", entries.len()).into_bytes(), entries.concat()].concat()
}

fn split(at: &str) -> (&str, &str) {
    at.rsplit_once(':').expect("host:port")
}

impl Words {
    fn answer(&self, question: &str, name: &str) -> Vec<u8> {
        let heir = self.heir.filter(|_| name == "one");
        match (question, self.claims.get(name)) {
            ("GET-MASTER-ADDR-BY-NAME", None) => NIL.to_vec(),
            (_, None) => UNKNOWN.to_vec(),
            ("GET-MASTER-ADDR-BY-NAME", Some((at, _))) => array(&[split(at).0, split(at).1]),
            ("MASTER", Some((_, epoch))) => {
                let flags = if heir.is_some() { "o_down,master,failover_in_progress" } else { "master" };
                entry(&[("flags", flags), ("config-epoch", &epoch.to_string())])
            }
            ("REPLICAS", _) => {
                let replica = |at| {
                    let (ip, port) = split(at);
                    entry(&[("ip", ip), ("port", port), ("flags", "slave,disconnected,promoted")])
                };
                list(&heir.into_iter().map(replica).collect::<Vec<_>>())
            }
            ("SENTINELS", _) => {
                let fellow = |(id, at): &(&str, &str)| {
                    let (ip, port) = split(at);
                    entry(&[("ip", ip), ("port", port), ("runid", id), ("flags", "sentinel")])
                };
                list(&self.fellows.iter().map(fellow).collect::<Vec<_>>())
            }
            _ => b"*0\r\n".to_vec(),
        }
    }
}

pub(super) fn sentinel(said: &Said) -> impl FnMut(&[String]) -> Option<Vec<u8>> + use<> {
    let said = Rc::clone(said);
    move |request| {
        let words: Vec<&str> = request.iter().map(String::as_str).collect();
        Some(match words[..] {
            ["PSUBSCRIBE", _] => b"*3\r\n$10\r\npsubscribe\r\n$1\r\n*\r\n:1\r\n".to_vec(),
            ["PING"] => b"*2\r\n$4\r\npong\r\n$0\r\n\r\n".to_vec(),
            ["SENTINEL", "MYID"] => said.borrow().id.map_or(b"-ERR Unknown\r\n".to_vec(), bulk),
            ["SENTINEL", question, name] => said.borrow().answer(question, name),
            _ => panic!("{words:?} is no question for a sentinel"),
        })
    }
}

pub(super) fn primary() -> impl FnMut(&[String]) -> Option<Vec<u8>> {
    |_| Some(b"*3\r\n$6\r\nmaster\r\n:797\r\n*0\r\n".to_vec())
}

pub(super) fn replica() -> impl FnMut(&[String]) -> Option<Vec<u8>> {
    |_| Some(b"*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:797\r\n".to_vec())
}

pub(super) fn discovery(sentinels: &[&str], names: &[&str]) -> Discovery {
    seeded(sentinels, names, 1)
}

pub(super) fn seeded(sentinels: &[&str], names: &[&str], seed: u64) -> Discovery {
    let settings = SentinelSettings {
        sentinels: sentinels.iter().map(|at| address(at)).collect(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        period: Duration::from_secs(10),
        sentinel_greeting: None,
        node_greeting: None,
        seed,
    };
    Discovery::Sentinel(Box::new(SentinelDiscovery::new(settings)))
}

/// Three sentinels that agree on two names and their primaries; all know all.
pub(super) fn world<'a>() -> (World<'a>, [Said; 3]) {
    let mut world = World::new(discovery(&["s:1", "s:2", "s:3"], &["one", "two"]));
    let all = [(); 3].map(|()| said(&[("one", "a:1", 0), ("two", "b:1", 0)]));
    for (at, said) in ["s:1", "s:2", "s:3"].into_iter().zip(&all) {
        world.put(at, sentinel(said));
    }
    world.put("a:1", primary());
    world.put("b:1", primary());
    world.put("c:1", replica());
    world.run_for(Duration::from_secs(3));
    (world, all)
}

/// The primaries of the last view.
pub(super) fn primaries(world: &World<'_>) -> Vec<String> {
    let view = world.views.last().expect("there is a view");
    let label =
        |shard: &crate::ShardSpec| shard.primary.as_ref().map_or("nobody".to_owned(), NodeSpec::label);
    view.shards.iter().map(label).collect()
}

pub(super) fn roles_asked(world: &World<'_>, at: &str) -> usize {
    world.connected.iter().filter(|(address, party)| address == at && *party == Party::Node).count()
}
