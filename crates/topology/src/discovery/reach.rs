//! Addresses of nodes, from the many forms in which clusters and sentinels report them.

use crate::{Address, NodeSpec};

/// The address of `host` and `port`, if both are valid.
pub(super) fn tcp(host: &str, port: u64) -> Option<Address> {
    let text = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let node = text.parse::<NodeSpec>().ok()?;
    // A leading slash would be a path. And a node must not set the options that an operator may write behind an address.
    let is_plain = matches!(node.address, Address::Tcp { .. }) && node == NodeSpec::at(node.address.clone());
    is_plain.then_some(node.address)
}

/// The address at `port` of a node that reports its host as `told`, or, in its place, the address `ip`.
///
/// Nothing (a nil, an empty text) means the host that was asked. It comes from Redis 7's `cluster-preferred-endpoint-type
/// unknown-endpoint`, and from a node that does not know its own address. `?` is that of a node which should have a host name
/// and has none; its address is as good.
pub(super) fn resolve(told: Option<&str>, ip: Option<&str>, port: u64, asked: &Address) -> Option<Address> {
    let given = |text: &&str| !text.is_empty() && *text != "?";
    let host = match told {
        Some("?") => ip.filter(given),
        told => told.filter(given),
    };
    match (host, asked) {
        (Some(host), _) => tcp(host, port),
        (None, Address::Tcp { host, .. }) => tcp(host, port),
        // Over a unix socket there is no host to use; such a node is on this machine.
        (None, _) => tcp("127.0.0.1", port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_addresses_or_the_asked_host() {
        let asked = tcp("proxy.example.org", 7000).expect("valid");
        let text = |told, ip| resolve(told, ip, 7001, &asked).map(|address| address.to_string());
        assert_eq!(text(Some("10.0.0.1"), None).as_deref(), Some("10.0.0.1:7001"));
        assert_eq!(text(Some("fe80::1"), None).as_deref(), Some("[fe80::1]:7001"));
        assert_eq!(text(Some("a.example.org"), Some("10.0.0.1")).as_deref(), Some("a.example.org:7001"));
        assert_eq!(text(Some("?"), Some("10.0.0.1")).as_deref(), Some("10.0.0.1:7001"));
        for told in [None, Some("")] {
            assert_eq!(text(told, Some("10.0.0.1")).as_deref(), Some("proxy.example.org:7001"), "{told:?}");
        }
        for told in ["a b", "a:1", "/tmp/a", "unix:/tmp/a", "a\r\nb", "a@zone", "a|b"] {
            assert_eq!(text(Some(told), None), None, "{told:?}");
        }
        assert_eq!(resolve(Some("a"), None, 0, &asked), None, "no port is no address");
        assert_eq!(resolve(Some("a"), None, 70_000, &asked), None);
    }
}
