//! HTTP as the admin listener's clients speak it: one request on a connection.

use super::{PATIENCE, Proxy, poll_until};
use std::io::{self, Read, Write};
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
        let (_, rest) = said.split_once("admin at ")?;
        let (_, rest) = rest.split_once("://")?;
        rest.split_whitespace().next()?.rsplit_once(':')?.1.parse().ok()
    })
}

/// The answer to `GET path` at `port`.
pub(crate) fn get(port: u16, path: &str) -> Answer {
    request(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

/// The answer to the bytes of a request that asks for the end of its connection.
pub(crate) fn request(port: u16, text: &str) -> Answer {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    over(stream, text)
}

/// The same on an open connection.
pub(crate) fn over(stream: impl Read + Write, text: &str) -> Answer {
    try_over(stream, text).expect("it answers")
}

/// The same, if the server answers at all.
pub(crate) fn try_over(mut stream: impl Read + Write, text: &str) -> io::Result<Answer> {
    stream.write_all(text.as_bytes())?;
    // Not every server closes its connection then.
    let (mut bytes, mut piece) = (Vec::new(), [0; 65536]);
    let (head, body) = loop {
        if let Some(whole) = split(&bytes) {
            break whole;
        }
        let count = stream.read(&mut piece)?;
        if count == 0 {
            let came = format!("the answer is not whole: {:?}", String::from_utf8_lossy(&bytes));
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, came));
        }
        bytes.extend_from_slice(&piece[..count]);
    };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Ok(Answer { status, head, body })
}

/// Head and body of a whole answer.
fn split(bytes: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let len = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let len: usize = len.map(|(_, value)| value.trim().parse().expect("a length")).next().expect("a length");
    (body.len() >= len).then(|| (head.to_owned(), body.to_owned()))
}
