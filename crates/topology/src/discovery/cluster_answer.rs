//! The view of a node of a Redis Cluster of all nodes: CLUSTER INFO, NODES, SHARDS and SLOTS taken apart.
// tidy: allow(endpoint): Redis's word in CLUSTER SHARDS

use super::reach::resolve;
use super::talk::error_text;
use crate::{Address, SLOTS};
use resp::reply::{Elements, as_bulk, as_integer, elements, is_error};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// The replies to the questions, as wire bytes.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    /// The reply to CLUSTER INFO.
    pub info: Vec<u8>,
    /// The reply to CLUSTER NODES.
    pub nodes: Vec<u8>,
    /// The reply to CLUSTER SHARDS or to its substitute.
    pub shards: Vec<u8>,
    /// CLUSTER SLOTS, where there is no CLUSTER SHARDS.
    pub slots: Option<Vec<u8>>,
}

/// One node's view of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The newest epoch that it has heard of.
    pub epoch: u64,
    /// Whether the node sees a majority of the primaries, and all slots served.
    pub is_ok: bool,
    /// All nodes that it knows, itself included.
    pub nodes: Vec<Member>,
    /// Nodes that it has not shaken hands with yet.
    pub handshakes: usize,
}

/// A node as another one sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its permanent name of 40 letters; before Redis 4, where only CLUSTER SLOTS is allowed, its address.
    pub id: String,
    /// `None` if even the cluster does not know.
    pub address: Option<Address>,
    /// Of whom it is a replica.
    pub primary: Option<String>,
    /// The epoch of its state; a replica has that of its primary.
    pub epoch: u64,
    /// Its slots.
    pub slots: Vec<RangeInclusive<u16>>,
    /// A majority says that it has failed.
    pub is_failed: bool,
    /// The node that was asked cannot reach it.
    pub is_suspected: bool,
    /// Whether it is the node that was asked.
    pub is_asked: bool,
}

/// Context of a node's address and port.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Where we asked.
    pub address: &'a Address,
    /// We speak TLS to nodes.
    pub is_tls: bool,
}

impl Replies {
    /// Makes sense of them; or says why there is none.
    ///
    /// Only CLUSTER NODES has the epoch of each shard, so it is the frame. CLUSTER SHARDS (Redis 7) or CLUSTER SLOTS have
    /// better addresses: they obey `cluster-preferred-endpoint-type`. If only one of them may be asked, it has to do: all of it
    /// then has the node's current epoch.
    pub fn digest(&self, asked: Asked<'_>) -> Result<Answer, String> {
        let (epoch, is_ok) = parse_info(&self.info);
        let told = match (parse_shards(&self.shards, asked), &self.slots) {
            (Some(told), _) => Some(told),
            (None, Some(slots)) => parse_slots(slots, asked),
            (None, None) => None,
        };
        let nodes = match (parse_nodes(&self.nodes, asked), told) {
            (Some(nodes), Some(told)) => with_addresses_of(nodes, told),
            (Some(nodes), None) => nodes,
            (None, Some(told)) => told.into_iter().map(|member| Member { epoch, ..member }).collect(),
            (None, None) => return Err(self.reason()),
        };
        let handshakes =
            text(&self.nodes).map_or(0, |text| text.lines().filter(|line| is_in_handshake(line)).count());
        Ok(Answer { epoch, is_ok, nodes, handshakes })
    }

    /// The obstacle: the first error of the node.
    fn reason(&self) -> String {
        let complaint = [&self.info, &self.nodes, &self.shards].into_iter().find(|reply| is_error(reply));
        complaint.map_or_else(|| "its answer is not valid".to_owned(), |reply| error_text(reply))
    }
}

/// Whether `reason` is the error of a node without a cluster.
pub fn is_no_cluster(reason: &str) -> bool {
    reason.contains("cluster support disabled")
}

/// Takes over the addresses that `told` has for nodes.
fn with_addresses_of(nodes: Vec<Member>, told: Vec<Member>) -> Vec<Member> {
    let mut told: HashMap<String, Option<Address>> =
        told.into_iter().map(|member| (member.id, member.address)).collect();
    let improve =
        |member: Member| Member { address: told.remove(&member.id).flatten().or(member.address), ..member };
    nodes.into_iter().map(improve).collect()
}

/// The current epoch, and whether the node thinks that the cluster works. Without permission there is no epoch, and the
/// node counts as working.
fn parse_info(reply: &[u8]) -> (u64, bool) {
    let text = text(reply).unwrap_or_default();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let epoch = field("cluster_current_epoch").and_then(|epoch| epoch.trim().parse().ok());
    (epoch.unwrap_or_default(), field("cluster_state").is_none_or(|state| state.trim() == "ok"))
}

/// The lines of CLUSTER NODES; `None` if it is an error or has none.
fn parse_nodes(reply: &[u8], asked: Asked<'_>) -> Option<Vec<Member>> {
    let text = text(reply)?;
    let nodes: Vec<Member> = text.lines().filter_map(|line| parse_node(line, asked)).collect();
    (!nodes.is_empty()).then_some(nodes)
}

/// `id ip:port@cport,hostname flags primary ping pong epoch link slot slot-slot [slot->-id] …`. Without `@cport` before
/// Redis 4, without `,hostname` before 7. `None` for a node that has not shaken hands yet.
fn parse_node(line: &str, asked: Asked<'_>) -> Option<Member> {
    let mut words = line.split_whitespace();
    let (id, place, flags, primary) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let epoch = words.nth(2)?.parse().ok()?;
    let has = |flag: &str| flags.split(',').any(|other| other == flag);
    if is_in_handshake(line) {
        return None;
    }
    let place = place.split(['@', ',']).next().unwrap_or_default();
    let (ip, port) = place.rsplit_once(':')?;
    let port = port.parse().ok()?;
    // Slots behind the link's state; slots in brackets are migrating: still here, or not here yet.
    let slots = words.skip(1).filter(|slot| !slot.starts_with('[')).filter_map(parse_range).collect();
    Some(Member {
        id: id.to_owned(),
        address: if has("noaddr") { None } else { resolve(Some(ip), None, port, asked.address) },
        primary: (primary != "-").then(|| primary.to_owned()),
        epoch,
        slots,
        is_failed: has("fail"),
        is_suspected: has("fail?"),
        is_asked: has("myself"),
    })
}

fn is_in_handshake(line: &str) -> bool {
    line.split_whitespace().nth(2).is_some_and(|flags| flags.split(',').any(|flag| flag == "handshake"))
}

/// `5` or `5-9`.
fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    range(first.parse().ok()?, last.parse().ok()?)
}

fn range(first: i64, last: i64) -> Option<RangeInclusive<u16>> {
    let slot = |number: i64| u16::try_from(number).ok().filter(|slot| *slot < SLOTS);
    Some(slot(first)?..=slot(last)?).filter(|range| !range.is_empty())
}

/// CLUSTER SHARDS of Redis 7: for each shard its `slots` (first, last, first, last …) and its `nodes`.
fn parse_shards(reply: &[u8], asked: Asked<'_>) -> Option<Vec<Member>> {
    let mut nodes = Vec::new();
    for shard in elements(reply)? {
        let fields = fields(shard)?;
        let bounds: Vec<i64> = elements(fields.get("slots")?)?.filter_map(as_integer).collect();
        let slots: Vec<_> = bounds.chunks_exact(2).filter_map(|pair| range(pair[0], pair[1])).collect();
        let members: Vec<Member> =
            elements(fields.get("nodes")?)?.filter_map(|node| parse_shard_node(node, asked)).collect();
        nodes.extend(joined(members, &slots));
    }
    (!nodes.is_empty()).then_some(nodes)
}

/// A node of CLUSTER SHARDS. A primary has itself for one until [`joined`] puts that right.
fn parse_shard_node(node: &[u8], asked: Asked<'_>) -> Option<Member> {
    let fields = fields(node)?;
    let word = |name: &str| fields.get(name).and_then(|value| text(value));
    let port = |name: &str| fields.get(name).and_then(|value| as_integer(value));
    let port =
        if asked.is_tls { port("tls-port").or(port("port")) } else { port("port").or(port("tls-port")) };
    let (id, endpoint, ip) = (word("id")?, word("endpoint"), word("ip"));
    let is_primary = word("role").is_none_or(|role| role == "master" || role == "primary");
    Some(Member {
        address: resolve(endpoint.as_deref(), ip.as_deref(), u64::try_from(port?).ok()?, asked.address),
        primary: is_primary.then(|| id.clone()),
        id,
        is_failed: word("health").is_some_and(|health| health.starts_with("fail")),
        ..Member::default()
    })
}

/// The nodes of one shard: the primary with the slots, the others as its replicas. After a failover there may be two that
/// call themselves primaries: the one that failed is none.
fn joined(members: Vec<Member>, slots: &[RangeInclusive<u16>]) -> Vec<Member> {
    let primaries = || members.iter().filter(|member| member.primary.is_some());
    let primary = primaries().find(|member| !member.is_failed).or_else(|| primaries().next());
    let primary = primary.map(|member| member.id.clone());
    let join = |member: Member| {
        let is_primary = primary.as_ref() == Some(&member.id);
        let slots = if is_primary { slots.to_vec() } else { Vec::new() };
        Member { primary: if is_primary { None } else { primary.clone() }, slots, ..member }
    };
    members.into_iter().map(join).collect()
}

/// CLUSTER SLOTS: for each range its first and last slot, its primary and its replicas.
fn parse_slots(reply: &[u8], asked: Asked<'_>) -> Option<Vec<Member>> {
    let mut nodes: Vec<Member> = Vec::new();
    let mut place_of: HashMap<String, usize> = HashMap::new();
    for entry in elements(reply)? {
        let mut fields = elements(entry)?;
        let range = range(as_integer(fields.next()?)?, as_integer(fields.next()?)?)?;
        let mut primary: Option<String> = None;
        for (position, member) in fields.filter_map(|node| parse_slot_node(node, asked)).enumerate() {
            let place = *place_of.entry(member.id.clone()).or_insert(nodes.len());
            if place == nodes.len() {
                nodes.push(Member { primary: primary.clone(), ..member });
            }
            if position == 0 {
                primary = Some(nodes[place].id.clone());
                nodes[place].slots.push(range.clone());
            }
        }
    }
    (!nodes.is_empty()).then_some(nodes)
}

/// A node of CLUSTER SLOTS: endpoint, port, since Redis 4 its id, since 7 further facts.
fn parse_slot_node(node: &[u8], asked: Asked<'_>) -> Option<Member> {
    let mut parts = elements(node)?;
    let endpoint = text(parts.next()?);
    let port = u64::try_from(as_integer(parts.next()?)?).ok()?;
    let id = parts.next().and_then(text);
    let more = parts.next().and_then(fields).unwrap_or_default();
    let ip = more.get("ip").and_then(|ip| text(ip));
    let address = resolve(endpoint.as_deref(), ip.as_deref(), port, asked.address);
    let id = id.or_else(|| address.as_ref().map(ToString::to_string))?;
    Some(Member { id, address, ..Member::default() })
}

/// The values by their names, of a map of RESP3 or an array of names and values in turn.
fn fields(reply: &[u8]) -> Option<HashMap<String, &[u8]>> {
    let mut parts: Elements<'_> = elements(reply)?;
    let mut fields = HashMap::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        fields.insert(text(name)?, value);
    }
    Some(fields)
}

/// A bulk or a simple string as text; `None` for all else, nil included.
pub(super) fn text(reply: &[u8]) -> Option<String> {
    let simple = || reply.strip_prefix(b"+")?.strip_suffix(b"\r\n");
    let bytes = as_bulk(reply).or_else(simple)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}
