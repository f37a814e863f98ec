//! HTTP as the admin listener's clients speak it: one request on a connection.

use super::{Proxy, poll_until};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// The status and the body of an answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// The port of the admin listener of `proxy`, which its output names.
pub(crate) fn admin_port(proxy: &Proxy) -> u16 {
    poll_until("the admin listener's address", || {
        let said = proxy.output();
        let (_, rest) = said.split_once("admin at http://")?;
        rest.split_whitespace().next()?.rsplit_once(':')?.1.parse().ok()
    })
}

/// The answer to `GET path` at `port`.
pub(crate) fn get(port: u16, path: &str) -> Answer {
    request(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

/// The answer to the bytes of a request that asks for the end of its connection.
pub(crate) fn request(port: u16, text: &str) -> Answer {
    over(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens"), text)
}

/// The same on an open connection.
pub(crate) fn over(mut stream: impl Read + Write, text: &str) -> Answer {
    stream.write_all(text.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}
