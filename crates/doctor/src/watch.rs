//! The answers of a sentinel about one primary.

use crate::facts::text_of;
use resp::reply::{elements, is_error, is_null};
use std::collections::HashMap;
use topology::Address;
use topology::discovery::{parse_address, sentinel_fields, sentinel_place};

/// Questions about each primary, by `SENTINEL <question> <name>`.
pub(crate) const ABOUT: [&str; 5] =
    ["GET-MASTER-ADDR-BY-NAME", "MASTER", "REPLICAS", "SENTINELS", "CKQUORUM"];

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// The name of the primary.
    pub name: String,
    /// Its address; `None` if the sentinel does not watch it.
    pub primary: Option<Address>,
    /// The fields of SENTINEL MASTER.
    pub fields: HashMap<String, String>,
    /// Its replicas.
    pub replicas: Vec<Peer>,
    /// The other sentinels.
    pub fellows: Vec<Peer>,
    /// Why no quorum or no majority can be had now, by SENTINEL CKQUORUM.
    pub quorum_fault: Option<String>,
    /// The first error, which a process that is no sentinel gives too.
    pub fault: Option<String>,
}

/// A replica or another sentinel, as a sentinel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it is.
    pub address: Address,
    /// Whether the sentinel cannot reach it.
    pub is_down: bool,
}

impl Watch {
    pub(crate) fn of(name: &str) -> Watch {
        Watch { name: name.to_owned(), ..Watch::default() }
    }

    /// Takes the reply to the question `about`.
    pub(crate) fn take(&mut self, about: &str, reply: &[u8]) {
        match about {
            "GET-MASTER-ADDR-BY-NAME" if is_error(reply) => self.fault = Some(error_of(reply)),
            "GET-MASTER-ADDR-BY-NAME" if is_null(reply) => {}
            "GET-MASTER-ADDR-BY-NAME" => self.primary = parse_address(reply),
            "MASTER" => self.fields = sentinel_fields(reply).unwrap_or_default(),
            "REPLICAS" => self.replicas = peers_of(reply),
            "SENTINELS" => self.fellows = peers_of(reply),
            _ => self.quorum_fault = reply.starts_with(b"-NOQUORUM").then(|| error_of(reply)),
        }
    }

    /// A field of SENTINEL MASTER, as a number.
    pub(crate) fn number(&self, field: &str) -> Option<u64> {
        self.fields.get(field)?.parse().ok()
    }

    /// Whether the sentinel has flagged the primary so.
    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        self.fields.get("flags").is_some_and(|flags| flags.split(',').any(|other| other == flag))
    }
}

fn error_of(reply: &[u8]) -> String {
    text_of(reply.strip_prefix(b"-").unwrap_or(reply)).trim().to_owned()
}

fn peers_of(reply: &[u8]) -> Vec<Peer> {
    let peer = |fields: HashMap<String, String>| {
        let flags = fields.get("flags").map_or("", String::as_str);
        let is_down = flags.split(',').any(|flag| ["s_down", "o_down", "disconnected"].contains(&flag));
        Some(Peer { address: sentinel_place(&fields)?, is_down })
    };
    elements(reply).into_iter().flatten().filter_map(sentinel_fields).filter_map(peer).collect()
}
