//! What a sentinel says about the primary of one name, and its replicas.

use super::cluster_answer::text;
use super::reach::tcp;
use super::talk::error_text;
use crate::Address;
use resp::reply::{elements, is_error, is_null};
use std::collections::HashMap;

/// What one sentinel says about one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// The primary.
    pub address: Address,
    /// As of which failover: each gets a higher one, which a majority of sentinels has to grant.
    pub epoch: u64,
    /// Replicas that can be used, as far as the sentinel knows.
    pub replicas: Vec<Address>,
}

/// Why there is no claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoClaim {
    /// The sentinel does not know the name.
    UnknownName,
    /// It says something else.
    Reason(String),
}

/// Questions about one name: `SENTINEL GET-MASTER-ADDR-BY-NAME`, `SENTINEL MASTER`, `SENTINEL REPLICAS`, and as long as there
/// are Redises before 5.0, `SENTINEL SLAVES`.
pub(super) const QUESTIONS: [&str; 4] = ["GET-MASTER-ADDR-BY-NAME", "MASTER", "REPLICAS", "SLAVES"];

/// Makes sense of the replies to [`QUESTIONS`].
///
/// The address is taken from the first: from the moment at which a failover's new primary is promoted, it is that one, while
/// the second has the old until all replicas follow. The epoch is in the second alone. It is new from the same moment on, so
/// that both fit together.
pub(super) fn parse(replies: &[Vec<u8>]) -> Result<Claim, NoClaim> {
    let [address, primary, replicas @ ..] = replies else {
        return Err(NoClaim::Reason("its answer is not whole".to_owned()));
    };
    if is_null(address) {
        return Err(NoClaim::UnknownName);
    }
    if is_error(address) {
        return Err(NoClaim::Reason(error_text(address)));
    }
    let address =
        parse_address(address).ok_or_else(|| NoClaim::Reason("its answer makes no sense".to_owned()))?;
    let epoch = fields(primary).and_then(|fields| fields.get("config-epoch")?.parse().ok());
    let replicas = replicas.iter().find_map(|reply| parse_replicas(reply));
    Ok(Claim { address, epoch: epoch.unwrap_or_default(), replicas: replicas.unwrap_or_default() })
}

/// Host and port.
fn parse_address(reply: &[u8]) -> Option<Address> {
    let mut parts = elements(reply)?;
    let (host, port) = (text(parts.next()?)?, text(parts.next()?)?);
    tcp(&host, port.parse().ok()?)
}

/// Replicas that the sentinel can reach, and that are meant to be seen (`replica-announced`).
fn parse_replicas(reply: &[u8]) -> Option<Vec<Address>> {
    let is_bad = |flags: &str| {
        flags.split(',').any(|flag| matches!(flag, "s_down" | "o_down" | "disconnected" | "master"))
    };
    let replica = |reply: &[u8]| {
        let fields = fields(reply)?;
        let is_hidden = fields.get("replica-announced").is_some_and(|announced| announced == "0");
        let usable = !is_hidden && fields.get("flags").is_some_and(|flags| !is_bad(flags));
        let address = || tcp(fields.get("ip")?, fields.get("port")?.parse().ok()?);
        usable.then(address).flatten()
    };
    let mut replicas: Vec<Address> = elements(reply)?.filter_map(replica).collect();
    replicas.sort_by_key(ToString::to_string);
    Some(replicas)
}

/// Names and values in turn, or a map.
fn fields(reply: &[u8]) -> Option<HashMap<String, String>> {
    let mut parts = elements(reply)?;
    let mut fields = HashMap::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        fields.insert(text(name)?, text(value).unwrap_or_default());
    }
    Some(fields)
}

/// Whether `reply`, to ROLE, is that of a primary; else what it is.
pub(super) fn is_primary(reply: &[u8]) -> Result<(), String> {
    if is_error(reply) {
        return Err(error_text(reply));
    }
    let role = elements(reply).and_then(|mut parts| text(parts.next()?));
    match role.as_deref() {
        Some("master") => Ok(()),
        Some("slave") => Err("it is a replica".to_owned()),
        Some(role) => Err(format!("its role is {}", role.escape_debug())),
        None => Err("its answer makes no sense".to_owned()),
    }
}

/// Whether `reply` is a message that says something about one of `names`.
pub(super) fn is_about(reply: &[u8], names: &[String]) -> bool {
    let message = elements(reply).and_then(|parts| parts.last()).and_then(text);
    message.is_some_and(|message| message.split(' ').any(|word| names.iter().any(|name| name == word)))
}
