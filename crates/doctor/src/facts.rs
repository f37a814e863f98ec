//! Everything that one node told.

use crate::interview::{QUESTIONS, RIGHTS};
use resp::reply::{as_bulk, elements, is_error};
use std::collections::BTreeMap;

/// A node of the set-up, by the flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its address.
    pub address: String,
    /// The number of its shard.
    pub shard: usize,
    /// Whether the flags name it as a replica.
    pub is_replica: bool,
    /// Whether it runs on this machine.
    pub is_here: bool,
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
        }
    }

    /// Takes the answers to the questions about the node, which came at `unix_us`.
    pub(crate) fn take_answers(&mut self, replies: &[Vec<u8>], unix_us: u64) {
        for (question, reply) in QUESTIONS.iter().zip(replies) {
            match question[0] {
                b"INFO" => self.info = info_of(reply),
                b"CONFIG" => self.config.extend(pair_of(reply)),
                b"ACL" => self.user = as_bulk(reply).map(text_of),
                _ => self.clock_ahead_us = clock_of(reply).map(|node_us| node_us - unix_us as i64),
            }
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

fn text_of(bytes: &[u8]) -> String {
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
