//! The answer of a sentinel about the primary of one name, and its replicas.

use super::cluster_answer::text;
use super::reach::tcp;
use super::talk::error_text;
use crate::Address;
use resp::reply::{elements, is_error, is_null};
use std::collections::HashMap;

/// The claim of one sentinel about one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// The primary.
    pub address: Address,
    /// Epoch of the failover: each gets a higher one, which a majority of sentinels has to grant.
    pub epoch: u64,
    /// Usable replicas, as far as the sentinel knows.
    pub replicas: Vec<Address>,
    /// Whether it is carrying out a failover, or wants to.
    pub is_failing_over: bool,
    /// The replica that this failover makes the primary: the majority has elected this sentinel, which has chosen it. It has
    /// got the order, or will within a tenth of a second.
    pub heir: Option<Address>,
}

/// Another sentinel, as one tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fellow {
    /// Its name for life.
    pub id: String,
    /// Where it listens.
    pub address: Address,
}

/// The role of a node by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The node is a primary.
    Primary,
    /// The node has another role: its text.
    Other(String),
    /// The node has not answered: the reason.
    Unsaid(String),
}

/// Why there is no claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoClaim {
    /// The sentinel does not know the name.
    UnknownName,
    /// The peer is no sentinel.
    NoSentinel,
    /// Another answer: the reason to ignore it.
    Reason(String),
}

/// Questions about one name: `SENTINEL GET-MASTER-ADDR-BY-NAME`, `SENTINEL MASTER`, `SENTINEL REPLICAS`, as long as there are
/// Redises before 5.0, `SENTINEL SLAVES`, and `SENTINEL SENTINELS`.
pub(super) const QUESTIONS: [&str; 5] =
    ["GET-MASTER-ADDR-BY-NAME", "MASTER", "REPLICAS", "SLAVES", "SENTINELS"];

/// Makes sense of the replies to [`QUESTIONS`].
///
/// The address is taken from the first reply. It names a failover's new primary from its promotion on, while the second names
/// the old one until all replicas follow. The epoch is in the second alone. It is new from the same moment on, so that both fit
/// together.
pub(super) fn parse(replies: &[Vec<u8>]) -> Result<Claim, NoClaim> {
    let [address, primary, replicas, old_replicas, ..] = replies else {
        return Err(NoClaim::Reason("its answer is incomplete".to_owned()));
    };
    if is_null(address) {
        return Err(NoClaim::UnknownName);
    }
    if is_error(address) {
        let reason = error_text(address);
        let is_unknown = reason.starts_with("ERR unknown command");
        return Err(if is_unknown { NoClaim::NoSentinel } else { NoClaim::Reason(reason) });
    }
    let address =
        parse_address(address).ok_or_else(|| NoClaim::Reason("its answer is not valid".to_owned()))?;
    let fields = fields(primary).unwrap_or_default();
    let epoch = fields.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
    let is_failing_over = has_flag(&fields, &["failover_in_progress"]);
    let replicas = [replicas, old_replicas].into_iter().find_map(|reply| parse_replicas(reply));
    let (mut replicas, heir) = replicas.unwrap_or_default();
    replicas.retain(|replica| *replica != address);
    let heir = heir.filter(|heir| is_failing_over && *heir != address);
    Ok(Claim { address, epoch, replicas, is_failing_over, heir })
}

/// The address in a reply of host and port.
pub fn parse_address(reply: &[u8]) -> Option<Address> {
    let mut parts = elements(reply)?;
    let (host, port) = (text(parts.next()?)?, text(parts.next()?)?);
    tcp(&host, port.parse().ok()?)
}

/// Replicas that the sentinel can reach, and that are announced (`replica-announced`). Also the one that it has chosen to be
/// the primary, reachable or not: a node that is promoted closes all connections.
fn parse_replicas(reply: &[u8]) -> Option<(Vec<Address>, Option<Address>)> {
    let (mut replicas, mut heir) = (Vec::new(), None);
    for fields in elements(reply)?.filter_map(fields) {
        let Some(address) = place(&fields) else { continue };
        if has_flag(&fields, &["promoted"]) {
            heir = Some(address.clone());
        }
        let is_hidden = fields.get("replica-announced").is_some_and(|announced| announced == "0");
        let is_bad = has_flag(&fields, &["s_down", "o_down", "disconnected", "master"]);
        if fields.contains_key("flags") && !is_hidden && !is_bad {
            replicas.push(address);
        }
    }
    replicas.sort_by_key(ToString::to_string);
    Some((replicas, heir))
}

/// The other sentinels that watch the same name and answer the one that was asked, from its reply to `SENTINEL SENTINELS`.
pub(super) fn parse_fellows(reply: &[u8]) -> Vec<Fellow> {
    let fellow = |fields: HashMap<String, String>| {
        let is_down = has_flag(&fields, &["s_down"]);
        let id = fields.get("runid").filter(|id| !id.is_empty() && !is_down)?;
        Some(Fellow { id: id.clone(), address: place(&fields)? })
    };
    elements(reply).into_iter().flatten().filter_map(fields).filter_map(fellow).collect()
}

/// The address in `fields` of a primary, a replica or a sentinel.
pub fn place(fields: &HashMap<String, String>) -> Option<Address> {
    tcp(fields.get("ip")?, fields.get("port")?.parse().ok()?)
}

fn has_flag(fields: &HashMap<String, String>, wanted: &[&str]) -> bool {
    fields.get("flags").is_some_and(|flags| flags.split(',').any(|flag| wanted.contains(&flag)))
}

/// The fields in a reply of names and values in turn, or of a map.
pub fn fields(reply: &[u8]) -> Option<HashMap<String, String>> {
    let mut parts = elements(reply)?;
    let mut fields = HashMap::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        fields.insert(text(name)?, text(value).unwrap_or_default());
    }
    Some(fields)
}

/// The role in `reply` to ROLE.
pub(super) fn parse_role(reply: &[u8]) -> Role {
    if is_error(reply) {
        return Role::Unsaid(error_text(reply));
    }
    let role = elements(reply).and_then(|mut parts| text(parts.next()?));
    match role.as_deref() {
        Some("master") => Role::Primary,
        Some("slave") => Role::Other("the node is a replica".to_owned()),
        Some(role) => Role::Other(format!("its role is {}", role.escape_debug())),
        None => Role::Other("its answer is not valid".to_owned()),
    }
}

/// Whether `reply` says that from now on messages will come.
pub(super) fn is_subscribed(reply: &[u8]) -> bool {
    elements(reply).and_then(|mut parts| parts.next()).and_then(text).as_deref() == Some("psubscribe")
}

/// Whether `reply` is a message about one of `names`.
pub(super) fn is_about(reply: &[u8], names: &[String]) -> bool {
    let message = elements(reply).and_then(|parts| parts.last()).and_then(text);
    message.is_some_and(|message| message.split(' ').any(|word| names.iter().any(|name| name == word)))
}
