//! Zones of nodes by their addresses, as the operator configures them. They are for discovered nodes, which do not report a
//! zone.

use ipnet::IpNet;
use std::net::IpAddr;
use std::str::FromStr;
use topology::{Address, NodeSpec, ShardSpec};

/// The zones of addresses, as `--zones` says them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zones {
    /// The smallest networks first.
    networks: Vec<(IpNet, String)>,
    /// The longest names first.
    names: Vec<(String, String)>,
}

impl FromStr for Zones {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut zones = Zones::default();
        for entry in text.split(',').map(str::trim) {
            let Some((place, zone)) = entry.split_once('=') else {
                return Err(format!("{entry:?}: write NETWORK=ZONE, as in 10.0.1.0/24=zone-a"));
            };
            if !NodeSpec::is_zone(zone) {
                return Err(format!(
                    "{entry}: a zone is made of up to 63 letters, digits, dots, hyphens and underscores"
                ));
            }
            zones.add(place, zone)?;
        }
        zones.networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        zones.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Ok(zones)
    }
}

impl Zones {
    fn add(&mut self, place: &str, zone: &str) -> Result<(), String> {
        let twice = || Err(format!("{place}: the place is given twice"));
        let network = place.parse::<IpNet>().ok().or_else(|| place.parse::<IpAddr>().ok().map(IpNet::from));
        if let Some(network) = network.map(|network| network.trunc()) {
            if self.networks.iter().any(|(known, _)| *known == network) {
                return twice();
            }
            self.networks.push((network, zone.to_owned()));
            return Ok(());
        }
        let name = place.strip_prefix('.').unwrap_or(place).to_ascii_lowercase();
        let is_name = |name: &str| {
            let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            // Digits and dots alone were meant as an address.
            name.bytes().all(of_a_name) && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        };
        if !is_name(&name) {
            return Err(format!(
                "{place:?}: write a network, an address or a name, as in 10.0.1.0/24, 10.0.1.7 or a.example.org"
            ));
        }
        if self.names.iter().any(|(known, _)| *known == name) {
            return twice();
        }
        self.names.push((name, zone.to_owned()));
        Ok(())
    }

    /// Sets the zones of nodes, as far as they are known here and not set already.
    pub(crate) fn label<'a>(&self, nodes: impl IntoIterator<Item = &'a mut NodeSpec>) {
        for node in nodes {
            if node.zone.is_none() {
                node.zone = self.zone_of(&node.address).map(str::to_owned);
            }
            self.label(&mut node.replicas);
        }
    }

    /// The same for all nodes of `shards`.
    pub(crate) fn labelled(&self, shards: &[ShardSpec]) -> Vec<ShardSpec> {
        let mut shards = shards.to_vec();
        shards.iter_mut().for_each(|shard| self.label(shard.primary.iter_mut().chain(&mut shard.replicas)));
        shards
    }

    /// The zone of the smallest network that `address` is in; of a name, that of the longest domain.
    fn zone_of(&self, address: &Address) -> Option<&str> {
        let Address::Tcp { host, .. } = address else { return None };
        let zone = match host.parse::<IpAddr>() {
            Ok(ip) => {
                let ip = ip.to_canonical();
                self.networks.iter().find(|(network, _)| network.contains(&ip)).map(|(_, zone)| zone)
            }
            Err(_) => {
                let host = host.to_ascii_lowercase();
                let is_in = |domain: &str| {
                    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                };
                self.names.iter().find(|(domain, _)| is_in(domain)).map(|(_, zone)| zone)
            }
        };
        zone.map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::parse_nodes;

    fn zone_of(zones: &str, host: &str) -> Option<String> {
        let zones: Zones = zones.parse().expect(zones);
        zones.zone_of(&Address::Tcp { host: host.to_owned(), port: 6379 }).map(str::to_owned)
    }

    #[test]
    fn the_smallest_network_and_the_longest_domain_decide() {
        let zones =
            "10.0.0.0/16=far, 10.0.1.0/24=a,10.0.1.7=b,2001:db8::/32=six,example.org=c,.b.example.org=d";
        for (host, zone) in [
            ("10.0.1.6", Some("a")),
            ("10.0.1.7", Some("b")),
            ("10.0.2.7", Some("far")),
            ("10.1.0.1", None),
            ("2001:DB8::7", Some("six")),
            ("::ffff:10.0.1.6", Some("a")),
            ("example.org", Some("c")),
            ("x.EXAMPLE.org", Some("c")),
            ("b.example.org", Some("d")),
            ("redis.b.example.org", Some("d")),
            ("notexample.org", None),
        ] {
            assert_eq!(zone_of(zones, host).as_deref(), zone, "{host}");
        }
    }

    #[test]
    fn a_nodes_own_zone_comes_first() {
        let zones: Zones = "10.0.0.0/8=a".parse().expect("valid");
        let mut nodes = parse_nodes("10.0.0.1:1@x|10.0.0.2:1|11.0.0.1:1,unix:/run/b").expect("valid");
        zones.label(&mut nodes);
        let zone_of = |node: &NodeSpec| node.zone.clone().unwrap_or_default();
        let seen: Vec<String> =
            nodes.iter().flat_map(|node| std::iter::once(node).chain(&node.replicas)).map(zone_of).collect();
        assert_eq!(seen, ["x", "a", "", ""]);
        let (primary, replicas) = (Some(NodeSpec::tcp("10.0.0.3", 1)), vec![NodeSpec::tcp("h", 1)]);
        let shard = ShardSpec { primary, replicas, ..ShardSpec::default() };
        let labelled = zones.labelled(&[shard]).remove(0);
        assert_eq!(labelled.primary.and_then(|node| node.zone).as_deref(), Some("a"));
        assert_eq!(labelled.replicas[0].zone, None);
    }

    #[test]
    fn an_invalid_map_of_zones_is_refused_by_name() {
        for (text, named) in [
            ("", "NETWORK=ZONE"),
            ("10.0.0.0/8", "NETWORK=ZONE"),
            ("10.0.0.0/8=a,", "NETWORK=ZONE"),
            ("10.0.0.0/33=a", "10.0.0.0/33"),
            ("10.0.0=a", "10.0.0"),
            ("=a", "write a network"),
            ("10.0.0.0/8=a b", "a zone is made of"),
            ("10.0.0.0/8=", "a zone is made of"),
            ("10.0.0.0/8=a,10.1.0.0/8=b", "10.1.0.0/8: the place is given twice"),
            ("h=a,H=b", "H: the place is given twice"),
        ] {
            let error = text.parse::<Zones>().expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
