//! The nodes as an operator writes them: `host:port`, `[v6]:port` or `unix:/path`. Each can have a weight, a zone and a name,
//! and replicas. Nothing is resolved here.

use crate::TopologyError;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// The most nodes of a topology. No proxy was seen with more (predixy stops at 2,048), and a ring of all of them, 655,360
/// points, takes 10 MB.
pub const NODES_MAX: usize = 4096;

/// The highest weight. It is large enough for weights in megabytes, as libmemcached's users write them. It is small enough that
/// the weights of [`NODES_MAX`] nodes add up in 32 bits.
pub const WEIGHT_MAX: u32 = 1_000_000;

/// The most bytes of a host or a name: DNS's limit for names (RFC 1035, as text without the last dot).
pub(crate) const TEXT_BYTES_MAX: usize = 253;

/// The most bytes of a zone: that of one part of a name in DNS. The zones of clouds have 20 bytes or less.
pub(crate) const ZONE_BYTES_MAX: usize = 63;

/// The most bytes of the name of an interface: `IFNAMSIZ` without the NUL at its end.
const INTERFACE_BYTES_MAX: usize = 15;

/// The most bytes of the path of a unix socket: `sun_path` of this system without the NUL at its end.
pub(crate) const UNIX_PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// memcached's port, which twemproxy leaves out of a node's name as libmemcached does.
const PORT_WITHOUT_MENTION: u16 = 11211;

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP port.
    Tcp {
        /// An IPv4 address, an IPv6 address without brackets, or a name for DNS, as it was written.
        host: String,
        /// The port, which is not 0.
        port: u16,
    },
    /// The absolute path of a unix socket.
    Unix(PathBuf),
    /// A store of this process, by its number. Cannot be written in a list of nodes.
    Embedded(u32),
    /// Another pool of this process, to which routes lead. Cannot be written in a list of nodes.
    Route {
        /// Its number.
        number: u32,
        /// Its name for users.
        name: Arc<str>,
    },
}

impl Address {
    /// The one form that all its spellings share.
    pub fn canonical(&self) -> Address {
        let Address::Tcp { host, port } = self else { return self.clone() };
        let host = host.parse::<IpAddr>().map_or_else(|_| host.to_ascii_lowercase(), |ip| ip.to_string());
        Address::Tcp { host, port: *port }
    }

    /// Whether this process answers there itself.
    pub fn is_of_this_process(&self) -> bool {
        matches!(self, Address::Embedded(_) | Address::Route { .. })
    }
}

impl fmt::Display for Address {
    /// Writes what [`NodeSpec`] can read again, unless it is a store of this process.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(formatter, "{host}:{port}"),
            Address::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Address::Embedded(number) => write!(formatter, "store-{number}"),
            Address::Route { name, .. } => formatter.write_str(name),
        }
    }
}

/// One node as the operator wants it.
///
/// Its text is an address, `:weight` if it is not 1, and a blank and a name if it has one. twemproxy's lines are of
/// this form, but for IPv6 addresses, which stand in brackets here:
///
/// ```
/// use topology::NodeSpec;
///
/// let node: NodeSpec = "10.0.0.1:6379:2 cache-a".parse()?;
/// assert_eq!((node.address.to_string().as_str(), node.weight), ("10.0.0.1:6379", 2));
/// assert_eq!(node.name.as_deref(), Some("cache-a"));
///
/// let refusal = "127.0.0.1:99999".parse::<NodeSpec>().unwrap_err();
/// assert_eq!(refusal.to_string(), r#"node "127.0.0.1:99999": port must be 1 to 65535, as in 127.0.0.1:6379"#);
/// # Ok::<(), topology::TopologyError>(())
/// ```
///
/// A unix socket is `unix:/path` or just `/path`; if there is a colon in the path, the weight must be written too.
///
/// Behind the port or the weight may stand `@` and the zone of the node; for a unix socket the weight must be written then.
/// Behind a primary stand its replicas, each after a `|`. They take no keys of their own, so they have no weight:
///
/// ```
/// use topology::NodeSpec;
///
/// let primary: NodeSpec = "10.0.0.1:6379:2@zone-a shard-1|10.0.0.2:6379@zone-b|10.0.0.3:6379".parse()?;
/// assert_eq!((primary.label().as_str(), primary.zone.as_deref()), ("shard-1", Some("zone-a")));
/// assert_eq!(primary.replicas[0].zone.as_deref(), Some("zone-b"));
/// assert_eq!(primary.replicas[1].label(), "10.0.0.3:6379");
/// # Ok::<(), topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Where it listens.
    pub address: Address,
    /// Share of the keys in relation to the others: 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// The name that places it on a ring instead of its address, so that it can move without losing its keys.
    pub name: Option<String>,
    /// Its zone, for clients that read from near nodes.
    pub zone: Option<String>,
    /// Its id in the cluster, if it is one of a cluster: its address may be another's tomorrow.
    pub identity: Option<Arc<str>>,
    /// Its replicas, which have no replicas themselves.
    pub replicas: Vec<NodeSpec>,
    /// Its points on the ring of [`Distribution::Tokens`](crate::Distribution::Tokens).
    pub tokens: Vec<u32>,
}

impl NodeSpec {
    /// A node of weight 1 and without a name at `host` and `port`.
    pub fn tcp(host: &str, port: u16) -> NodeSpec {
        NodeSpec::at(Address::Tcp { host: host.to_owned(), port })
    }

    /// A node of weight 1 at `address`, of which nothing else is known.
    pub fn at(address: Address) -> NodeSpec {
        NodeSpec {
            address,
            weight: 1,
            name: None,
            zone: None,
            identity: None,
            replicas: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// Store `number` of this process, with weight 1.
    pub fn embedded(number: u32) -> NodeSpec {
        NodeSpec::at(Address::Embedded(number))
    }

    /// Whether `text` can be the label of a zone.
    pub fn is_zone(text: &str) -> bool {
        let of_a_label = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        (1..=ZONE_BYTES_MAX).contains(&text.len()) && text.bytes().all(of_a_label)
    }

    /// The label for users: the given name, or else the address.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.address.to_string())
    }

    /// The name by which twemproxy sorts and hashes the node (`conf_add_server` in nc_conf.c). It is the given name, or else
    /// `host:port`, without the port if it is memcached's. A unix socket is `path:`, because twemproxy counts the colon in and
    /// then finds no port.
    pub fn ring_name(&self) -> String {
        match (&self.name, &self.address) {
            (Some(name), _) => name.clone(),
            (None, Address::Tcp { host, port: PORT_WITHOUT_MENTION }) => host.clone(),
            (None, Address::Tcp { host, port }) => format!("{host}:{port}"),
            (None, Address::Unix(path)) => format!("{}:", path.display()),
            (None, Address::Embedded(_) | Address::Route { .. }) => self.address.to_string(),
        }
    }
}

impl FromStr for NodeSpec {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut texts = text.split('|');
        let mut primary = parse_node(texts.next().unwrap_or_default())?;
        for replica in texts {
            if replica.trim().is_empty() {
                return Err(TopologyError::ReplicaEmpty { node: primary.label() });
            }
            let replica = parse_node(replica)?;
            if replica.weight != 1 {
                return Err(TopologyError::ReplicaWeight { node: replica.label(), weight: replica.weight });
            }
            primary.replicas.push(replica);
        }
        Ok(primary)
    }
}

/// Reads one node, whether primary or replica.
fn parse_node(text: &str) -> Result<NodeSpec, TopologyError> {
    let text = text.trim_matches([' ', '\t']);
    if let Some((scheme, _)) = text.split_once("://") {
        return Err(TopologyError::Url { scheme: scheme.to_owned() });
    }
    let (place, name) = match text.split_once([' ', '\t']) {
        Some((place, name)) => (place, Some(parse_name(text, name.trim_start_matches([' ', '\t']))?)),
        None => (text, None),
    };
    let (place, zone) = split_zone(text, place)?;
    let (address, weight) = if let Some(path) = place.strip_prefix("unix:") {
        parse_unix(text, path)?
    } else if place.starts_with('/') {
        parse_unix(text, place)?
    } else {
        parse_tcp(text, place)?
    };
    let weight = weight.map_or(Ok(1), |weight| parse_weight(text, weight))?;
    Ok(NodeSpec { weight, name, zone, ..NodeSpec::at(address) })
}

/// Reads a list of nodes with commas between them, as `--nodes` takes it. Blanks around a node do not count.
///
/// Refuses an empty list, an empty place in it, and two nodes of one address or one name.
pub fn parse_nodes(list: &str) -> Result<Vec<NodeSpec>, TopologyError> {
    if list.trim().is_empty() {
        return Err(TopologyError::NoNodes);
    }
    let parse = |(text, position): (&str, usize)| {
        if text.trim().is_empty() { Err(TopologyError::NodeEmpty { position }) } else { text.parse() }
    };
    let nodes = list.split(',').zip(1..).map(parse).collect::<Result<Vec<NodeSpec>, _>>()?;
    check_nodes(&nodes)?;
    Ok(nodes)
}

/// Refuses faults of the list as a whole: too few nodes, too many, duplicates. And weights out of range.
pub(crate) fn check_nodes(nodes: &[NodeSpec]) -> Result<(), TopologyError> {
    if nodes.is_empty() {
        return Err(TopologyError::NoNodes);
    }
    let mut addresses: HashMap<Address, &NodeSpec> = HashMap::new();
    for node in nodes.iter().flat_map(|node| std::iter::once(node).chain(&node.replicas)) {
        if let Some(first) = addresses.insert(node.address.canonical(), node) {
            return Err(TopologyError::DuplicateAddress { node: node.label(), first: first.label() });
        }
    }
    if addresses.len() > NODES_MAX {
        return Err(TopologyError::TooManyNodes { count: addresses.len() });
    }
    let mut names: HashMap<String, &NodeSpec> = HashMap::new();
    for node in nodes {
        if !(1..=WEIGHT_MAX).contains(&node.weight) {
            return Err(TopologyError::Weight { node: node.label() });
        }
        let name = node.ring_name();
        if let Some(first) = names.insert(name.clone(), node) {
            let (node, first) = (node.address.to_string(), first.address.to_string());
            return Err(TopologyError::DuplicateName { node, first, name });
        }
    }
    Ok(())
}

/// Splits `…:number@zone` at the `@`. An `@` before the last colon is part of a path.
fn split_zone<'a>(node: &str, place: &'a str) -> Result<(&'a str, Option<String>), TopologyError> {
    let last = place.rfind(':').map_or(place.len(), |colon| colon + 1);
    // The whole of unix:/path is a path, and has no zone.
    let Some(at) = place[last..].find('@').filter(|_| !place[last..].starts_with('/')) else {
        return Ok((place, None));
    };
    let (place, zone) = (&place[..last + at], &place[last + at + 1..]);
    if !NodeSpec::is_zone(zone) {
        return Err(TopologyError::Zone { node: node.to_owned() });
    }
    Ok((place, Some(zone.to_owned())))
}

/// Reads `host:port`, `host:port:weight` or the same with `[v6]`; the weight is left as text.
fn parse_tcp<'a>(node: &str, place: &'a str) -> Result<(Address, Option<&'a str>), TopologyError> {
    let (host, rest) = match place.strip_prefix('[') {
        Some(bracketed) => split_ipv6(node, bracketed)?,
        None => split_host(node, place)?,
    };
    let (port, weight) = rest.split_once(':').map_or((rest, None), |(port, weight)| (port, Some(weight)));
    let port = parse_number(port)
        .and_then(|port| u16::try_from(port).ok())
        .ok_or_else(|| TopologyError::Port { node: node.to_owned() })?;
    Ok((Address::Tcp { host: host.to_owned(), port }, weight))
}

/// Cuts `v6]:rest` into the address and the rest.
fn split_ipv6<'a>(node: &str, bracketed: &'a str) -> Result<(&'a str, &'a str), TopologyError> {
    let ipv6 = || TopologyError::Ipv6 { node: node.to_owned() };
    let (host, rest) = bracketed.split_once(']').ok_or_else(ipv6)?;
    let (ip, zone) = host.split_once('%').map_or((host, None), |(ip, zone)| (ip, Some(zone)));
    ip.parse::<Ipv6Addr>().map_err(|_| ipv6())?;
    if !zone.is_none_or(is_interface) {
        return Err(ipv6());
    }
    if rest.is_empty() {
        return Err(TopologyError::PortMissing { node: node.to_owned() });
    }
    Ok((host, rest.strip_prefix(':').ok_or_else(ipv6)?))
}

/// Whether `zone` may be an interface, which link-local addresses need: a name of the kernel's, or its number.
fn is_interface(zone: &str) -> bool {
    let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=INTERFACE_BYTES_MAX).contains(&zone.len()) && zone.bytes().all(of_a_name)
}

/// Cuts `host:rest` into the host, which is checked, and the rest.
fn split_host<'a>(node: &str, place: &'a str) -> Result<(&'a str, &'a str), TopologyError> {
    let owned = || node.to_owned();
    // An IPv6 address has two colons at least, host:port:weight two at most.
    if place.parse::<Ipv6Addr>().is_ok() || place.matches(':').count() > 2 {
        return Err(TopologyError::Ipv6 { node: owned() });
    }
    let (host, rest) = place.split_once(':').ok_or_else(|| TopologyError::PortMissing { node: owned() })?;
    let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if host.is_empty() || host.len() > TEXT_BYTES_MAX || !host.bytes().all(of_a_name) {
        return Err(TopologyError::Host { node: owned() });
    }
    let numeric = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if numeric && host.parse::<Ipv4Addr>().is_err() {
        return Err(TopologyError::Ipv4 { node: owned() });
    }
    Ok((host, rest))
}

/// Reads `/path` or `/path:weight`; the weight is left as text.
fn parse_unix<'a>(node: &str, place: &'a str) -> Result<(Address, Option<&'a str>), TopologyError> {
    let (path, weight) = place.rsplit_once(':').map_or((place, None), |(path, weight)| (path, Some(weight)));
    if !path.starts_with('/') || path.len() > UNIX_PATH_BYTES_MAX || path.contains('\0') {
        return Err(TopologyError::UnixPath { node: node.to_owned() });
    }
    Ok((Address::Unix(PathBuf::from(path)), weight))
}

/// Reads a weight.
fn parse_weight(node: &str, text: &str) -> Result<u32, TopologyError> {
    parse_number(text)
        .filter(|weight| *weight <= WEIGHT_MAX)
        .ok_or_else(|| TopologyError::Weight { node: node.to_owned() })
}

/// Reads the name behind the blank.
fn parse_name(node: &str, name: &str) -> Result<String, TopologyError> {
    if name.len() > TEXT_BYTES_MAX || name.contains(|char: char| char.is_whitespace() || char.is_control()) {
        return Err(TopologyError::Name { node: node.to_owned() });
    }
    Ok(name.to_owned())
}

/// Reads a positive number of digits alone. A leading 0 is refused: twemproxy keeps it in the name of the node, and
/// elsewhere it means octal.
fn parse_number(text: &str) -> Option<u32> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits && !text.starts_with('0') { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `text` as a node.
    fn node(text: &str) -> NodeSpec {
        text.parse().expect(text)
    }

    /// Why `text` is no node.
    fn refusal(text: &str) -> TopologyError {
        text.parse::<NodeSpec>().expect_err(text)
    }

    #[test]
    fn a_node_is_an_address_a_weight_and_a_name() {
        let cases = [
            // text, address, weight, name, twemproxy's name
            ("127.0.0.1:6379", "127.0.0.1:6379", 1, None, "127.0.0.1:6379"),
            ("127.0.0.1:6379:5", "127.0.0.1:6379", 5, None, "127.0.0.1:6379"),
            ("127.0.0.1:6379:1 a", "127.0.0.1:6379", 1, Some("a"), "a"),
            ("127.0.0.1:6379  a", "127.0.0.1:6379", 1, Some("a"), "a"),
            ("redis-1.example.org:65535", "redis-1.example.org:65535", 1, None, "redis-1.example.org:65535"),
            ("redis_1:1:1000000", "redis_1:1", 1_000_000, None, "redis_1:1"),
            ("10.0.0.1:11211:3", "10.0.0.1:11211", 3, None, "10.0.0.1"),
            ("10.0.0.1:11211:3 b", "10.0.0.1:11211", 3, Some("b"), "b"),
            ("[::1]:6379", "[::1]:6379", 1, None, "::1:6379"),
            ("[fe80::1%eth0]:6379:2", "[fe80::1%eth0]:6379", 2, None, "fe80::1%eth0:6379"),
            ("[fe80::1]:11211:2", "[fe80::1]:11211", 2, None, "fe80::1"),
            ("unix:/tmp/a.sock", "unix:/tmp/a.sock", 1, None, "/tmp/a.sock:"),
            ("/tmp/a.sock:7 c", "unix:/tmp/a.sock", 7, Some("c"), "c"),
            ("unix:/tmp/a:b:7", "unix:/tmp/a:b", 7, None, "/tmp/a:b:"),
        ];
        for (text, address, weight, name, ring_name) in cases {
            let node = node(text);
            assert_eq!((node.address.to_string().as_str(), node.weight), (address, weight), "{text}");
            assert_eq!((node.name.as_deref(), node.ring_name().as_str()), (name, ring_name), "{text}");
        }
    }

    #[test]
    fn addresses_print_as_they_are_read() {
        for text in ["127.0.0.1:1", "a.b:2", "[::1]:3", "unix:/x"] {
            assert_eq!(node(text).address.to_string(), text);
        }
    }

    #[test]
    fn an_invalid_node_is_refused_with_its_fault() {
        let cases: [(&str, &[&str]); 8] = [
            ("the port is missing", &["", "localhost", "127.0.0.1", "[::1]", "x b"]),
            ("port must be", &["a:", "a:0", "a:65536", "a:+1", "a:-1", "a:01", "a:x", "h::1", "[::1]:"]),
            ("host must be", &[":6379", "::1x", "a/b:1", "ä:1", "a@b:1"]),
            ("no IPv4 address", &["127.0.0.256:1", "1.2.3:1", "6379:6379"]),
            (
                "an IPv6 address",
                &[
                    "::1",
                    "a::1",
                    "::1:6379",
                    "fe80::1:1:1:1",
                    "[a]:1",
                    "[::1",
                    "[::1]6379",
                    "[::1%]:1",
                    "[::1%a/b]:1",
                    "[1.1.1.1%lo]:1",
                ],
            ),
            ("the path of a unix socket", &["unix:", "unix:a", "unix:1", "unix:a/b:1", "unix:/a\0b"]),
            ("weight must be", &["a:1:", "a:1:0", "a:1:1000001", "a:1:x", "a:1:-1", "/a:", "/a:b"]),
            ("a name is one word", &["a:1 b c", "a:1 b\u{a0}c", "a:1 b\u{7}"]),
        ];
        for (what, texts) in cases {
            for text in texts {
                let message = refusal(text).to_string();
                assert!(message.starts_with(&format!("node {text:?}: ")), "{message}");
                assert!(message.contains(what), "{message}");
            }
        }
    }

    #[test]
    fn a_zone_stands_behind_the_port_or_the_weight() {
        let cases = [
            // text, address, weight, name, zone
            ("a:1@x", "a:1", 1, None, Some("x")),
            ("a:1:3@eu-1.a_b n", "a:1", 3, Some("n"), Some("eu-1.a_b")),
            ("[::1]:1@x", "[::1]:1", 1, None, Some("x")),
            ("[::1]:1:2@x", "[::1]:1", 2, None, Some("x")),
            ("unix:/s:1@x", "unix:/s", 1, None, Some("x")),
            ("/s:2@x n", "unix:/s", 2, Some("n"), Some("x")),
            // As ever: part of the path.
            ("unix:/s@x", "unix:/s@x", 1, None, None),
            ("/s@x:2", "unix:/s@x", 2, None, None),
        ];
        for (text, address, weight, name, zone) in cases {
            let node = node(text);
            assert_eq!((node.address.to_string().as_str(), node.weight), (address, weight), "{text}");
            assert_eq!((node.name.as_deref(), node.zone.as_deref()), (name, zone), "{text}");
        }
        for text in ["a:1@", "a:1@x@y", "a:1@ä", "a:1@x/y", "a:1@x:2", "/s:1@"] {
            assert!(text.parse::<NodeSpec>().is_err(), "{text}");
        }
        assert!(matches!(refusal("a:1@x/y"), TopologyError::Zone { .. }));
        assert!(matches!(refusal(&format!("a:1@{}", "x".repeat(64))), TopologyError::Zone { .. }));
        assert!(node(&format!("a:1@{}", "x".repeat(63))).zone.is_some());
    }

    #[test]
    fn replicas_stand_behind_their_primary() {
        let nodes = parse_nodes("a:1:2 x|b:1@z|unix:/c, d:1 | [::1]:2 r").expect("valid");
        let labels = |nodes: &[NodeSpec]| nodes.iter().map(NodeSpec::label).collect::<Vec<_>>();
        assert_eq!(labels(&nodes), ["x", "d:1"]);
        assert_eq!(labels(&nodes[0].replicas), ["b:1", "unix:/c"]);
        assert_eq!(labels(&nodes[1].replicas), ["r"]);
        let refusal = |list| parse_nodes(list).expect_err(list).to_string();
        assert_eq!(
            refusal("a:1|"),
            r#"node "a:1": a replica of this node is empty; remove a |, or write the replica, as in a:6379|b:6379"#
        );
        assert_eq!(
            refusal("a:1|b:1:2"),
            r#"node "b:1": a replica takes no keys of its own; leave the weight 2 out"#
        );
        for list in ["a:1|a:1", "a:1|b:1,b:1", "a:1|b:1,c:1|b:1"] {
            let error = parse_nodes(list).expect_err(list);
            assert!(matches!(error, TopologyError::DuplicateAddress { .. }), "{list}: {error}");
        }
        // Only primaries are placed by their names.
        assert!(parse_nodes("a:1 x|b:1 x").is_ok());
    }

    #[test]
    fn lengths_are_bounded_exactly() {
        let long = |len: usize| "a".repeat(len);
        assert_eq!(node(&format!("{}:1", long(253))).weight, 1);
        assert!(matches!(refusal(&format!("{}:1", long(254))), TopologyError::Host { .. }));
        assert_eq!(node(&format!("a:1 {}", long(253))).weight, 1);
        assert!(matches!(refusal(&format!("a:1 {}", long(254))), TopologyError::Name { .. }));
        assert_eq!(node(&format!("/{}", long(UNIX_PATH_BYTES_MAX - 1))).weight, 1);
        assert!(matches!(
            refusal(&format!("/{}", long(UNIX_PATH_BYTES_MAX))),
            TopologyError::UnixPath { .. }
        ));
    }

    #[test]
    fn refusals_name_the_correct_form() {
        let cases = [
            ("127.0.0.1:99999", r#"node "127.0.0.1:99999": port must be 1 to 65535, as in 127.0.0.1:6379"#),
            (
                "redis://:secret@a:1",
                "node \"redis://…\": a node is host:port, as in 127.0.0.1:6379, and no URL; its password and TLS are options of their own",
            ),
            ("localhost", r#"node "localhost": the port is missing; write host:port, as in 127.0.0.1:6379"#),
            (
                "::1:6379",
                r#"node "::1:6379": an IPv6 address stands in brackets before its port, as in [::1]:6379"#,
            ),
            (
                "a:1:0",
                r#"node "a:1:0": weight must be 1 to 1000000, as in 127.0.0.1:6379:2 or unix:/run/redis.sock:2"#,
            ),
        ];
        for (text, message) in cases {
            assert_eq!(refusal(text).to_string(), message);
        }
    }

    #[test]
    fn a_list_keeps_its_order_and_needs_no_blanks() {
        let nodes = parse_nodes("b:2, a:1:3 first ,[::1]:6379").expect("three nodes");
        assert_eq!(nodes, [node("b:2"), node("a:1:3 first"), node("[::1]:6379")]);
    }

    #[test]
    fn lists_with_gaps_are_refused() {
        for list in ["", " ", "\t"] {
            assert_eq!(parse_nodes(list), Err(TopologyError::NoNodes));
        }
        for (list, position) in [(",", 1), ("a:1,", 2), ("a:1,,b:2", 2), (",a:1", 1), ("a:1, ,b:1", 2)] {
            assert_eq!(parse_nodes(list), Err(TopologyError::NodeEmpty { position }), "{list:?}");
        }
    }

    #[test]
    fn two_nodes_of_one_address_are_refused() {
        for list in ["a:1,A:1", "a:1 x,a:1 y", "[::1]:1,[0:0:0:0:0:0:0:1]:1", "unix:/s,/s:2"] {
            let error = parse_nodes(list).expect_err(list);
            assert!(matches!(error, TopologyError::DuplicateAddress { .. }), "{list}: {error}");
        }
        let error = parse_nodes("a:1,b:2,a:1:3 again").expect_err("twice the same").to_string();
        assert_eq!(
            error,
            r#"node "again": the address is already that of node "a:1"; every node needs its own"#
        );
    }

    #[test]
    fn two_nodes_of_one_name_are_refused() {
        let error = parse_nodes("a:1 x,b:2 x").expect_err("twice x").to_string();
        assert_eq!(
            error,
            r#"node "b:2": the name "x" is already that of node "a:1"; every node needs its own"#
        );
        // Also if one of them has it without having been given it.
        for list in ["a:1,b:2 a:1", "a:11211,b:2 a"] {
            let error = parse_nodes(list).expect_err(list);
            assert!(matches!(error, TopologyError::DuplicateName { .. }), "{list}: {error}");
        }
    }

    #[test]
    fn the_number_of_nodes_is_bounded_exactly() {
        let list = |count: u16| (1..=count).map(|port| format!("a:{port}")).collect::<Vec<_>>().join(",");
        assert_eq!(parse_nodes(&list(4096)).map(|nodes| nodes.len()), Ok(4096));
        assert_eq!(parse_nodes(&list(4097)), Err(TopologyError::TooManyNodes { count: 4097 }));
    }
}
