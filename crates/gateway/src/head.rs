//! The head of an HTTP request: its line and its headers.

use crate::answer::{Framed, Refusal, Status};
use crate::limits::{BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX};

/// The parts of a head that the gateway reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub method: String,
    /// The path as it was sent, without the query.
    pub path: String,
    pub query: String,
    /// The user's secret, if the request has one.
    pub token: Option<String>,
    pub wants_base64: bool,
    pub framing: Framing,
    pub expects_continue: bool,
    pub framed: Framed,
    /// Whether a browser sent it for a page of another site.
    pub is_cross_site: bool,
}

/// The length of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Bytes(usize),
    Chunked,
}

impl Default for Framing {
    fn default() -> Framing {
        Framing::Bytes(0)
    }
}

/// Parses the head at the beginning of `bytes`. Returns it with its length, or `None` if it is not complete.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) if len <= HEAD_BYTES_MAX => Ok(Some((read(&request)?, len))),
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            Err(Refusal::new(Status::HeadTooLarge, "the head of the request is too large"))
        }
        Err(error) => Err(Refusal::new(Status::BadRequest, &format!("the request is no HTTP: {error}"))),
    }
}

fn read(request: &httparse::Request<'_, '_>) -> Result<Head, Refusal> {
    let (path, query) =
        request.path.unwrap_or("/").split_once('?').unwrap_or((request.path.unwrap_or("/"), ""));
    let is_old = request.version == Some(0);
    let mut head = Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        framed: Framed { keeps_alive: !is_old, is_old },
        ..Head::default()
    };
    let (mut host, mut origin, mut length) = ("", "", None);
    for header in request.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        match header.name.to_ascii_lowercase().as_str() {
            "content-length" => set_length(&mut length, value)?,
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => head.framing = Framing::Chunked,
            "transfer-encoding" => {
                return Err(Refusal::new(Status::NotImplemented, "the transfer encoding is not known"));
            }
            "connection" => set_connection(&mut head, value),
            "expect" => head.expects_continue = value.eq_ignore_ascii_case("100-continue"),
            "authorization" => head.token = Some(token_of(value)?),
            "upstash-encoding" => head.wants_base64 = value.eq_ignore_ascii_case("base64"),
            "host" => host = value,
            "origin" => origin = value,
            "sec-fetch-site" => head.is_cross_site |= value == "cross-site",
            _ => {}
        }
    }
    head.is_cross_site |= !origin.is_empty() && origin.split_once("://").is_none_or(|(_, of)| of != host);
    match (head.framing, length) {
        // Two lengths are how requests are smuggled.
        (Framing::Chunked, Some(_)) => {
            Err(Refusal::new(Status::BadRequest, "the body has a length and is chunked"))
        }
        (Framing::Chunked, None) => Ok(head),
        (Framing::Bytes(_), length) => {
            let bytes = length.unwrap_or(0);
            head.framing = Framing::Bytes(bytes);
            if bytes > BODY_BYTES_MAX { Err(Refusal::body_too_large()) } else { Ok(head) }
        }
    }
}

fn set_length(length: &mut Option<usize>, value: &str) -> Result<(), Refusal> {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = value.parse().ok().filter(|_| is_number);
    match (bytes, *length) {
        (Some(bytes), None) => *length = Some(bytes),
        (Some(bytes), Some(before)) if bytes == before => {}
        _ => return Err(Refusal::new(Status::BadRequest, "Content-Length is no number")),
    }
    Ok(())
}

fn set_connection(head: &mut Head, value: &str) {
    for word in value.split(',') {
        match word.trim().to_ascii_lowercase().as_str() {
            "close" => head.framed.keeps_alive = false,
            "keep-alive" => head.framed.keeps_alive = true,
            _ => {}
        }
    }
}

/// The secret in an Authorization header.
fn token_of(value: &str) -> Result<String, Refusal> {
    match value.split_once(' ') {
        Some((kind, token)) if kind.eq_ignore_ascii_case("bearer") => Ok(token.trim().to_owned()),
        _ => Err(Refusal::new(Status::Unauthorized, "write Authorization: Bearer TOKEN")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<(Head, usize)>, Refusal> {
        parse(text.replace('|', "\r\n").as_bytes())
    }

    fn head(text: &str) -> Head {
        parsed(text).expect(text).expect(text).0
    }

    fn status(text: &str) -> Status {
        parsed(text).expect_err(text).status
    }

    #[test]
    fn headers_fill_the_head() {
        let text = "POST /a/b%20c?x=1&y HTTP/1.1|Host: h|content-length: 5|AUTHORIZATION: bearer  s |Upstash-Encoding: base64|\
                    Connection: x, close|Expect: 100-continue||hello";
        let expected = Head {
            method: "POST".to_owned(),
            path: "/a/b%20c".to_owned(),
            query: "x=1&y".to_owned(),
            token: Some("s".to_owned()),
            wants_base64: true,
            framing: Framing::Bytes(5),
            expects_continue: true,
            framed: Framed::default(),
            ..Head::default()
        };
        assert_eq!(head(text), expected);
        assert!(head("GET / HTTP/1.1||").framed.keeps_alive && !head("GET / HTTP/1.0||").framed.keeps_alive);
        assert_eq!(head("GET / HTTP/1.1|Transfer-Encoding: Chunked||").framing, Framing::Chunked);
        assert_eq!(parsed("GET / HTTP/1.1|Host"), Ok(None));
    }

    #[test]
    fn pages_of_other_sites_are_known() {
        assert!(!head("GET / HTTP/1.1|Host: a:1||").is_cross_site);
        assert!(!head("GET / HTTP/1.1|Host: a:1|Origin: http://a:1||").is_cross_site);
        assert!(head("GET / HTTP/1.1|Host: a:1|Origin: http://b||").is_cross_site);
        assert!(head("GET / HTTP/1.1|Host: a:1|Origin: null||").is_cross_site);
        assert!(head("GET / HTTP/1.1|Host: a:1|Sec-Fetch-Site: cross-site||").is_cross_site);
    }

    #[test]
    fn a_head_that_cannot_be_served_is_refused() {
        assert_eq!(
            status("GET / HTTP/1.1|Content-Length: 1|Transfer-Encoding: chunked||"),
            Status::BadRequest
        );
        for length in ["-1", "+1", "x", "", "1|Content-Length: 2"] {
            assert_eq!(status(&format!("GET / HTTP/1.1|Content-Length: {length}||")), Status::BadRequest);
        }
        assert_eq!(status("GET / HTTP/1.1|Transfer-Encoding: gzip||"), Status::NotImplemented);
        assert_eq!(status("GET / HTTP/1.1|Content-Length: 99999999||"), Status::BodyTooLarge);
        assert_eq!(status("GET / HTTP/1.1|Authorization: Basic eA==||"), Status::Unauthorized);
        assert_eq!(status(&format!("GET /{} HTTP/1.1||", "x".repeat(HEAD_BYTES_MAX))), Status::HeadTooLarge);
        assert_eq!(
            status(&format!("GET / HTTP/1.1|{}|", "a: b|".repeat(HEADERS_MAX + 1))),
            Status::HeadTooLarge
        );
        assert_eq!(status("*1|$4|PING|"), Status::BadRequest);
    }
}
