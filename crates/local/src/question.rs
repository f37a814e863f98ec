//! One question to a node, over a connection of its own, and its answer. For the few questions of a start only.

use anyhow::{Context, Result, anyhow, bail};
use resp::reply::{self, ReplyLimits, Scanner};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Timeout of an answer. A live process answers far sooner, except on a loaded machine: a timeout ends the start.
const PATIENCE: Duration = Duration::from_secs(20);

/// The reply of a node, as its wire bytes; never an error.
pub(super) struct Answer(Vec<u8>);

/// Asks the server on `port`. An error reply is an error.
pub(super) fn ask(port: u16, words: &[&str]) -> Result<Answer> {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    resp::encode::request(&mut request, &words);
    stream.write_all(&request)?;
    let answer = read_reply(&mut stream)?;
    if reply::is_error(&answer) {
        bail!("{}", line(&answer));
    }
    Ok(Answer(answer))
}

fn read_reply(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let (mut bytes, mut scanner) = (Vec::new(), Scanner::default());
    let mut chunk = [0; 4096];
    loop {
        if let Some(len) = scanner.scan(&bytes, &ReplyLimits::default()).context("its reply is not RESP")? {
            bytes.truncate(len);
            return Ok(bytes);
        }
        match stream.read(&mut chunk)? {
            0 => bail!("the node closed the connection"),
            len => bytes.extend_from_slice(&chunk[..len]),
        }
    }
}

/// The text of a simple reply or of an error.
fn line(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply.get(1..).unwrap_or_default()).trim_end().to_owned()
}

impl Answer {
    /// A simple reply or a bulk, as text.
    pub(super) fn text(&self) -> String {
        match reply::as_bulk(&self.0) {
            Some(body) => String::from_utf8_lossy(body).into_owned(),
            None => line(&self.0),
        }
    }

    /// The value behind `name:` in an answer of lines such as INFO's.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let text = self.text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(|value| value.trim().to_owned())
    }

    /// The value behind `name` in an array of names and values in turn.
    pub(super) fn entry(&self, name: &str) -> Option<String> {
        let mut elements = reply::elements(&self.0)?.map(reply::as_bulk);
        while let Some(found) = elements.next() {
            let value = elements.next()?;
            if found == Some(name.as_bytes()) {
                return value.map(|value| String::from_utf8_lossy(value).into_owned());
            }
        }
        None
    }

    /// The same as a number.
    pub(super) fn number(&self, name: &str) -> Result<usize> {
        let value = self.entry(name).ok_or_else(|| anyhow!("its reply lacks {name}"))?;
        value.parse().with_context(|| format!("{name} is {value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_both_forms() {
        let info = Answer(b"$37\r\n# Replication\r\nrole:master\r\nlag:0\r\n\r\n".to_vec());
        assert_eq!(info.field("role").as_deref(), Some("master"));
        assert_eq!(info.field("rol"), None);
        let pairs = Answer(b"*4\r\n$4\r\nname\r\n$5\r\nset-0\r\n$10\r\nnum-slaves\r\n$1\r\n2\r\n".to_vec());
        assert_eq!(pairs.entry("name").as_deref(), Some("set-0"));
        assert_eq!(pairs.number("num-slaves").expect("a number"), 2);
        assert!(pairs.number("name").is_err() && pairs.number("2").is_err());
    }
}
