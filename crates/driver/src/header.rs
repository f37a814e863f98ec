//! The PROXY protocol (<https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt>), versions 1 and 2. With it, a
//! load balancer names a client before the client's own bytes. This module reads no socket.

use crate::socket::canonical;
use proxy_header::{ParseConfig, ProxiedAddress, ProxyHeader};
use std::net::{IpAddr, SocketAddr};

/// The content of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The header's length.
    pub len: usize,
    /// The client and the address at which the load balancer was reached. `None` if the load balancer connects for
    /// itself (a health check) or does not know the client.
    pub addrs: Option<(SocketAddr, SocketAddr)>,
}

/// The longest header. In version 2, names and the subject of a certificate take a few hundred bytes.
pub(crate) const HEADER_BYTES_MAX: usize = 2048;
/// The longest header of version 1 with its line end, as in the specification.
const LINE_BYTES_MAX: usize = 107;

/// The beginning of version 1.
const LINE: &[u8] = b"PROXY ";
/// The beginning of version 2. Its version and command, its family and its length follow.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED_BYTES: usize = SIGNATURE.len() + 4;
/// Version 2, for a connection of the load balancer itself. Family and addresses then mean nothing.
const LOCAL: u8 = 0x20;

const NONE: &str = "no PROXY header";
const MALFORMED: &str = "the PROXY header is malformed";
const TOO_LONG: &str = "the PROXY header is too long";

/// Reads the header at the start of `bytes`. `None` if it is incomplete.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Header>, &'static str> {
    let Some(len) = find_end(bytes)? else { return Ok(None) };
    if bytes.starts_with(SIGNATURE) && bytes[SIGNATURE.len()] == LOCAL {
        return Ok(Some(Header { len, addrs: None }));
    }
    let config = ParseConfig { include_tlvs: false, ..ParseConfig::default() };
    match ProxyHeader::parse(&bytes[..len], config) {
        Ok((header, parsed)) if parsed == len => {
            Ok(Some(Header { len, addrs: header.proxied_address().map(addrs) }))
        }
        _ => Err(MALFORMED),
    }
}

/// The length of the header at the start of `bytes`, whatever its content. `None` if its end has not come.
fn find_end(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    let begins_like = |start: &[u8]| bytes.starts_with(start) || start.starts_with(bytes);
    if begins_like(LINE) {
        let line = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
        let end = line.iter().position(|&byte| byte == b'\n');
        return if end.is_none() && line.len() == LINE_BYTES_MAX {
            Err(TOO_LONG)
        } else {
            Ok(end.map(|at| at + 1))
        };
    }
    if !begins_like(SIGNATURE) {
        return Err(NONE);
    }
    let Some(fixed) = bytes.get(..FIXED_BYTES) else { return Ok(None) };
    let len = FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[FIXED_BYTES - 2], fixed[FIXED_BYTES - 1]]));
    if len > HEADER_BYTES_MAX { Err(TOO_LONG) } else { Ok((bytes.len() >= len).then_some(len)) }
}

/// The two versions of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// The header that tells a node of the client at `addrs.0`, which connected to us at `addrs.1`. Without addresses, it
/// says that the connection is our own, such as a health check.
pub fn header(version: HeaderVersion, addrs: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let header = match addrs.map(|(peer, local)| of_one_family(peer, local)) {
        Some((peer, local)) => ProxyHeader::with_address(ProxiedAddress::stream(peer, local)),
        None => ProxyHeader::with_local(),
    };
    let mut bytes = Vec::new();
    let encoded = match version {
        HeaderVersion::V1 => header.encode_v1(&mut bytes),
        HeaderVersion::V2 => header.encode_v2(&mut bytes),
    };
    encoded.expect("both addresses are of one family, and there is nothing else");
    bytes
}

/// Maps both to IPv6 if their families differ: a header of a proxy in front of us may name any two addresses.
fn of_one_family(peer: SocketAddr, local: SocketAddr) -> (SocketAddr, SocketAddr) {
    let mapped = |addr: SocketAddr| match addr.ip() {
        IpAddr::V4(v4) => SocketAddr::new(IpAddr::V6(v4.to_ipv6_mapped()), addr.port()),
        IpAddr::V6(_) => addr,
    };
    if peer.is_ipv4() == local.is_ipv4() { (peer, local) } else { (mapped(peer), mapped(local)) }
}

fn addrs(proxied: &ProxiedAddress) -> (SocketAddr, SocketAddr) {
    // tidy: allow(destination): the crate's word
    (canonical(proxied.source), canonical(proxied.destination))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addrs(source: &str, destination: &str) -> Option<(SocketAddr, SocketAddr)> {
        Some((source.parse().expect("an address"), destination.parse().expect("an address")))
    }

    /// A header of version 2 with this command, family, and rest.
    fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let len = u16::try_from(rest.len()).expect("it is short").to_be_bytes();
        [SIGNATURE, &[command, family], &len, rest].concat()
    }

    #[test]
    fn both_versions_tell_the_client() {
        let v4 = [10, 0, 0, 7, 10, 0, 0, 1, 0x30, 0x39, 0x18, 0xeb];
        let mut v6 = [0; 36];
        (v6[15], v6[31], v6[33], v6[35]) = (1, 2, 9, 8);
        let with_more = [&v4[..], &[0xee, 0, 1, 7]].concat();
        let with_text = [&v4[..], &[0x04, 0xff, 0xff, b'x']].concat();
        let unix = [0; 216];
        let v4_addrs = addrs("10.0.0.7:12345", "10.0.0.1:6379");
        let cases: [(&[u8], _); 15] = [
            (b"PROXY TCP4 10.0.0.7 10.0.0.1 12345 6379\r\n", v4_addrs),
            (b"PROXY TCP6 ::1 ::2 9 8\r\n", addrs("[::1]:9", "[::2]:8")),
            (b"PROXY TCP6 ::ffff:10.0.0.7 ::2 9 8\r\n", addrs("10.0.0.7:9", "[::2]:8")),
            (b"PROXY UNKNOWN\r\n", None),
            (b"PROXY UNKNOWN ff ff 1 1\r\n", None),
            (&version_2(0x21, 0x11, &v4), v4_addrs),
            (&version_2(0x21, 0x21, &v6), addrs("[::1]:9", "[::2]:8")),
            (&version_2(0x21, 0x11, &with_more), v4_addrs),
            (&version_2(0x21, 0x11, &with_text), v4_addrs),
            (&version_2(0x21, 0x31, &unix), None),
            (&version_2(0x21, 0x00, &v4), None),
            (&version_2(0x20, 0x00, b""), None),
            // The load balancer's own connection, whatever its addresses: the specification demands that they are
            // ignored.
            (&version_2(0x20, 0x11, b""), None),
            (&version_2(0x20, 0x11, &v4), None),
            (&version_2(0x20, 0x99, b"abc"), None),
        ];
        for (bytes, addrs) in cases {
            let len = bytes.len();
            let with_request = [bytes, b"PING\r\n"].concat();
            assert_eq!(parse(&with_request), Ok(Some(Header { len, addrs })), "{}", bytes.escape_ascii());
            for cut in 0..len {
                assert_eq!(parse(&bytes[..cut]), Ok(None), "{} of {}", cut, bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn a_written_header_is_read_again() {
        let client = addrs("10.0.0.7:12345", "10.0.0.1:6379");
        let mixed = addrs("10.0.0.7:12345", "[::1]:6379");
        for version in [HeaderVersion::V1, HeaderVersion::V2] {
            for (told, understood) in [(client, client), (mixed, mixed), (None, None)] {
                let bytes = header(version, told);
                let len = bytes.len();
                assert_eq!(
                    parse(&bytes),
                    Ok(Some(Header { len, addrs: understood })),
                    "{}",
                    bytes.escape_ascii()
                );
            }
        }
        assert_eq!(header(HeaderVersion::V1, client), b"PROXY TCP4 10.0.0.7 10.0.0.1 12345 6379\r\n");
    }

    #[test]
    fn bytes_that_are_no_header_are_refused_at_once() {
        let none: [&[u8]; 6] = [b"*", b"PI", b"PROXYTCP4", b"\r\nP", b"\x16\x03", b"GET / HTTP/1.1\r\n"];
        for bytes in none {
            assert_eq!(parse(bytes), Err("no PROXY header"), "{}", bytes.escape_ascii());
        }
        let malformed: [&[u8]; 12] = [
            b"PROXY TCP5 10.0.0.7 10.0.0.1 1 2\r\n",
            b"PROXY TCP4 10.0.0.7 10.0.0.1 1 65536\r\n",
            b"PROXY TCP4 10.0.0.256 10.0.0.1 1 2\r\n",
            b"PROXY TCP4 ::1 ::2 1 2\r\n",
            b"PROXY TCP4 10.0.0.7\r\n",
            b"PROXY TCP6 fe80::1%eth0 ::2 1 2\r\n",
            b"PROXY TCP4 10.0.0.7 10.0.0.1 1 2\n",
            b"PROXY TCP4 10.0.0.7 10.0.0.1 1 2\rx\n",
            &version_2(0x11, 0x11, &[0; 12]),
            &version_2(0x22, 0x11, &[0; 12]),
            &version_2(0x21, 0x99, &[0; 12]),
            &version_2(0x21, 0x11, &[0; 4]),
        ];
        for bytes in malformed {
            for behind in [b"".as_slice(), b"*1\r\n$4\r\nPING\r\n"] {
                let all = [bytes, behind].concat();
                assert_eq!(parse(&all), Err("the PROXY header is malformed"), "{}", all.escape_ascii());
            }
        }
    }

    #[test]
    fn a_header_that_is_too_long_is_refused_at_once() {
        let line = [b"PROXY UNKNOWN ".as_slice(), &[b'1'; 200], b"\r\n"].concat();
        assert_eq!(parse(&line[..LINE_BYTES_MAX - 1]), Ok(None));
        assert_eq!(parse(&line[..LINE_BYTES_MAX]), Err("the PROXY header is too long"));
        assert_eq!(parse(&line), Err("the PROXY header is too long"), "however it is cut");
        let fits = version_2(0x20, 0x00, &[0; HEADER_BYTES_MAX - FIXED_BYTES]);
        assert_eq!(parse(&fits), Ok(Some(Header { len: HEADER_BYTES_MAX, addrs: None })));
        let announced = version_2(0x20, 0x00, &[0; HEADER_BYTES_MAX - FIXED_BYTES + 1]);
        assert_eq!(parse(&announced[..FIXED_BYTES - 1]), Ok(None));
        assert_eq!(parse(&announced[..FIXED_BYTES]), Err("the PROXY header is too long"));
    }
}
