//! Everything that one node told.

use crate::interview::RIGHTS;
use crate::watch::Watch;
use resp::reply::{as_bulk, elements, is_error};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use topology::Address;
use topology::discovery::{Answer, Asked, Replies};

/// A process to ask: a node or a sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its address, as text.
    pub address: String,
    /// Its address.
    pub place: Address,
    /// Its kind.
    pub kind: Kind,
    /// The number of its shard; 0 in a cluster, and for a sentinel.
    pub shard: usize,
    /// Whether the flags or sentinels name it as a replica.
    pub is_replica: bool,
    /// Whether it runs on this machine.
    pub is_here: bool,
}

/// The kind of a member, which decides about the questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A node that the flags or sentinels name.
    Node,
    /// A node of a Redis Cluster.
    ClusterNode {
        /// Whether it is asked over TLS.
        is_tls: bool,
    },
    /// A sentinel.
    Sentinel {
        /// The primaries that it should watch.
        names: Arc<[String]>,
    },
}

impl Member {
    /// The member of this kind at `place`.
    pub fn new(place: Address, kind: Kind) -> Member {
        let is_here = is_here(&place);
        Member { address: place.to_string(), place, kind, shard: 0, is_replica: false, is_here }
    }

    /// Whether it is a sentinel.
    pub fn is_sentinel(&self) -> bool {
        matches!(self.kind, Kind::Sentinel { .. })
    }
}

fn is_here(address: &Address) -> bool {
    match address {
        Address::Tcp { host, .. } => {
            host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        Address::Unix(_) | Address::Embedded(_) | Address::Route { .. } => true,
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The node.
    pub member: Member,
    /// Why nothing is known of it.
    pub fault: Option<String>,
    /// The fields of INFO.
    pub info: BTreeMap<String, String>,
    /// The settings that CONFIG GET told.
    pub config: BTreeMap<String, String>,
    /// The user that we are there.
    pub user: Option<String>,
    /// Commands that this user may not run.
    pub lacks: Vec<String>,
    /// Whether the node told the rights of the user.
    pub tells_rights: bool,
    /// Microseconds by which its clock is ahead of ours.
    pub clock_ahead_us: Option<i64>,
    /// The time of each PING, in microseconds.
    pub pings_us: Vec<u64>,
    /// Random keys of database 0.
    pub keys: Vec<Vec<u8>>,
    /// The view of its cluster, or the reason why there is none; `None` if it was not asked.
    pub cluster: Option<Result<Answer, String>>,
    /// The answers of a sentinel about each primary.
    pub watches: Vec<Watch>,
}

impl Facts {
    /// Nothing is known yet.
    pub(crate) fn new(member: Member) -> Facts {
        Facts {
            member,
            fault: None,
            info: BTreeMap::new(),
            config: BTreeMap::new(),
            user: None,
            lacks: Vec::new(),
            tells_rights: false,
            clock_ahead_us: None,
            pings_us: Vec::new(),
            keys: Vec::new(),
            cluster: None,
            watches: Vec::new(),
        }
    }

    /// Takes the answers to `questions` about the member, which came at `unix_us`.
    pub(crate) fn take_answers(&mut self, questions: &[Vec<String>], replies: &[Vec<u8>], unix_us: u64) {
        let mut of_cluster = Replies::default();
        for (question, reply) in questions.iter().zip(replies) {
            match (question[0].as_str(), question.get(1).map_or("", String::as_str)) {
                ("INFO", _) => self.info = info_of(reply),
                ("CONFIG", _) => self.config.extend(pair_of(reply)),
                ("ACL", _) => self.user = as_bulk(reply).map(text_of),
                ("CLUSTER", "INFO") => of_cluster.info.clone_from(reply),
                ("CLUSTER", "NODES") => of_cluster.nodes.clone_from(reply),
                ("CLUSTER", "SHARDS") => of_cluster.shards.clone_from(reply),
                ("CLUSTER", _) => of_cluster.slots = Some(reply.clone()),
                ("SENTINEL", about) => {
                    let Some(name) = question.get(2) else { continue };
                    if self.watches.last().is_none_or(|watch| watch.name != *name) {
                        self.watches.push(Watch::of(name));
                    }
                    let watch = self.watches.last_mut().expect("one was pushed");
                    watch.take(about, reply);
                }
                _ => self.clock_ahead_us = clock_of(reply).map(|node_us| node_us - unix_us as i64),
            }
        }
        if let Kind::ClusterNode { is_tls } = self.member.kind {
            let asked = Asked { address: &self.member.place, is_tls };
            self.cluster = Some(of_cluster.digest(asked));
        }
    }

    pub(crate) fn take_rights(&mut self, replies: &[Vec<u8>]) {
        self.tells_rights = !replies.iter().any(|reply| is_error(reply));
        for (right, reply) in RIGHTS.iter().zip(replies) {
            // A user that may not touch our key may touch those of clients.
            if as_bulk(reply).is_some_and(|why| text_of(why).contains("no permissions to run")) {
                self.lacks.push(text_of(right[0]));
            }
        }
    }

    pub(crate) fn take_keys(&mut self, replies: &[Vec<u8>]) {
        self.keys = replies.iter().filter_map(|reply| as_bulk(reply)).map(<[u8]>::to_vec).collect();
        self.keys.sort_unstable();
        self.keys.dedup();
    }

    /// The view of the cluster, if there is one.
    pub(crate) fn view(&self) -> Option<&Answer> {
        self.cluster.as_ref()?.as_ref().ok()
    }

    /// A field of INFO.
    pub(crate) fn info(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    /// A setting, as a number.
    pub(crate) fn setting(&self, name: &str) -> Option<u64> {
        self.config.get(name)?.parse().ok()
    }

    /// A quantile of the times of PING; 0 if there are none.
    pub(crate) fn ping_us(&self, share: f64) -> u64 {
        let mut sorted = self.pings_us.clone();
        sorted.sort_unstable();
        let at = (share * sorted.len() as f64) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

pub(crate) fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn info_of(reply: &[u8]) -> BTreeMap<String, String> {
    let text = as_bulk(reply).map(text_of).unwrap_or_default();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The name and the value that CONFIG GET told.
fn pair_of(reply: &[u8]) -> Option<(String, String)> {
    let mut words = elements(reply)?.filter_map(as_bulk).map(text_of);
    Some((words.next()?, words.next()?))
}

/// Microseconds since 1970, from the reply to TIME.
fn clock_of(reply: &[u8]) -> Option<i64> {
    let mut words = elements(reply)?.filter_map(as_bulk).filter_map(|word| text_of(word).parse::<i64>().ok());
    Some(words.next()? * 1_000_000 + words.next()?)
}
