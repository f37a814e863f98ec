//! HTTP/1.1 as a target: one request with keep-alive, and the ends of replies. Pure.

use crate::framing::{Framing, Nature, Reply};
use crate::kinds::{Check, Kind};
use crate::template::Template;

/// Header lines of a reply.
const HEADERS_MAX: usize = 100;
/// Bytes of the head of a reply.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// An address of the form `http://host:port/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) is_tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
}

impl std::str::FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        let wrong = || format!("{text}: write http://host:port/path");
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let is_tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(wrong()),
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
            _ => (authority, if is_tls { 443 } else { 80 }),
        };
        let is_clean = |text: &str| text.chars().all(|letter| letter.is_ascii_graphic());
        if host.is_empty() || authority.contains('@') || !is_clean(rest) {
            return Err(wrong());
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Url { is_tls, host: host.trim_matches(['[', ']']).to_owned(), port, path })
    }
}

/// The GET of `url`, with further header lines.
pub(crate) fn get(url: &Url, headers: &[String]) -> Kind {
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let default_port = if url.is_tls { 443 } else { 80 };
    let port = if url.port == default_port { String::new() } else { format!(":{}", url.port) };
    let mut request = format!("GET {} HTTP/1.1\r\nHost: {host}{port}\r\n", url.path);
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    Kind { name: "GET".to_owned(), template: Template::fixed(request.as_bytes(), 1), check: Check::Anything }
}

/// HTTP/1.1.
#[derive(Debug, Default)]
pub(crate) struct Http {
    head: Option<Head>,
}

/// The head of a reply that was read.
#[derive(Clone, Copy, Debug)]
struct Head {
    len: usize,
    body: Body,
    nature: Nature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Len(usize),
    /// Chunks. Everything before this offset was looked at.
    Chunked(usize),
    /// Up to the end of the connection.
    UntilEnd,
}

impl Framing for Http {
    fn reply(&mut self, bytes: &[u8]) -> Result<Option<Reply>, String> {
        let head = match &mut self.head {
            Some(head) => head,
            None => {
                let Some(head) = read_head(bytes)? else { return Ok(None) };
                self.head.insert(head)
            }
        };
        let len = match &mut head.body {
            Body::Len(len) => head.len.checked_add(*len).ok_or("a body too long")?,
            Body::UntilEnd => return Ok(None),
            Body::Chunked(at) => match chunks_end(bytes, at)? {
                Some(len) => len,
                None => return Ok(None),
            },
        };
        if bytes.len() < len {
            return Ok(None);
        }
        let nature = head.nature;
        self.head = None;
        Ok(Some(Reply { len, nature }))
    }

    fn ends(&mut self, _bytes: &[u8]) -> bool {
        self.head.take().is_some_and(|head| head.body == Body::UntilEnd)
    }
}

/// The head that `bytes` begin with; `None` while it is incomplete.
fn read_head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut reply = httparse::Response::new(&mut headers);
    let len = match reply.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() > HEAD_BYTES_MAX => {
            return Err("a head too long".to_owned());
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(format!("no HTTP: {error}")),
    };
    let status = reply.code.unwrap_or(0);
    let mut body = Body::UntilEnd;
    let mut is_last = reply.version == Some(0);
    for header in reply.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let value = std::str::from_utf8(header.value).unwrap_or("").trim();
        if is("content-length") && !matches!(body, Body::Chunked(_)) {
            body = Body::Len(value.parse().map_err(|_| "a wrong Content-Length".to_owned())?);
        } else if is("transfer-encoding") && value.to_ascii_lowercase().ends_with("chunked") {
            body = Body::Chunked(len);
        } else if is("connection") {
            is_last = match value.to_ascii_lowercase().as_str() {
                "close" => true,
                "keep-alive" => false,
                _ => is_last,
            };
        }
    }
    if matches!(status, 204 | 304) {
        body = Body::Len(0);
    }
    let nature = match status {
        100..200 => {
            body = Body::Len(0);
            Nature::Push
        }
        400.. => Nature::Error,
        _ if is_last => Nature::Last,
        _ => Nature::Answer,
    };
    Ok(Some(Head { len, body, nature }))
}

/// The end of a body in chunks. `at` is moved behind the chunks that are complete.
fn chunks_end(bytes: &[u8], at: &mut usize) -> Result<Option<usize>, String> {
    loop {
        let (head, len) = match httparse::parse_chunk_size(&bytes[*at..]) {
            Ok(httparse::Status::Complete((head, len))) => (head, usize::try_from(len).unwrap_or(usize::MAX)),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err("a wrong chunk".to_owned()),
        };
        if len == 0 {
            // Trailers end with an empty line.
            let rest = &bytes[*at + head..];
            if rest.starts_with(b"\r\n") {
                return Ok(Some(*at + head + 2));
            }
            return Ok(memchr::memmem::find(rest, b"\r\n\r\n").map(|end| *at + head + end + 4));
        }
        let next = len.checked_add(*at + head + 2).ok_or("a chunk too long")?;
        if bytes.len() < next {
            return Ok(None);
        }
        *at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Result<Option<Reply>, String> {
        Http::default().reply(text.as_bytes())
    }

    #[test]
    fn replies_end_where_their_heads_say_however_they_are_cut() {
        let bodies = [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nOK\r\n10;x=y\r\n0123456789abcdef\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        ];
        for text in bodies {
            let longer = format!("{text}HTTP/1.1 200 OK\r\n");
            let mut http = Http::default();
            for end in 0..text.len() {
                assert_eq!(http.reply(&text.as_bytes()[..end]), Ok(None), "{text:?} to {end}");
            }
            let found = http.reply(longer.as_bytes()).expect("valid").expect("complete");
            assert_eq!(found.len, text.len(), "{text:?}");
        }
    }

    #[test]
    fn errors_and_the_end_of_a_connection_are_known() {
        let nature = |text: &str| reply(text).expect("valid").expect("complete").nature;
        assert_eq!(nature("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), Nature::Answer);
        assert_eq!(nature("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), Nature::Error);
        assert_eq!(nature("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), Nature::Last);
        assert_eq!(nature("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), Nature::Last);
        assert_eq!(nature("HTTP/1.1 100 Continue\r\n\r\n"), Nature::Push);
        let mut http = Http::default();
        assert_eq!(http.reply(b"HTTP/1.1 200 OK\r\n\r\nto the end"), Ok(None));
        assert!(http.ends(b"") && !http.ends(b""));
    }

    #[test]
    fn invalid_replies_are_refused() {
        for text in [
            "+OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
        ] {
            assert!(reply(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn addresses_are_taken_apart() {
        let url = |text: &str| text.parse::<Url>();
        let expected = Url { is_tls: false, host: "a".into(), port: 8080, path: "/x?y".into() };
        assert_eq!(url("http://a:8080/x?y"), Ok(expected.clone()));
        assert_eq!(
            url("https://[::1]").expect("valid"),
            Url { is_tls: true, host: "::1".into(), port: 443, path: "/".into() }
        );
        for wrong in ["ftp://a", "http://", "http://a:x/", "http://u@a/", "http://a/b c", "a:80"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
        let kind = get(&expected, &["X: y".to_owned()]);
        assert_eq!(kind.template.replies, 1);
        assert!(!kind.template.has_places());
    }
}
