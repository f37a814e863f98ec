//! HTTP answers.

use crate::limits::{BODY_BYTES_MAX, CHUNK_BYTES_MIN};

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    BodyTooLarge,
    HeadTooLarge,
    NotImplemented,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Unauthorized => "401 Unauthorized",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::BodyTooLarge => "413 Content Too Large",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
            Status::NotImplemented => "501 Not Implemented",
            Status::Unavailable => "503 Service Unavailable",
        }
    }

    /// The status for a command that was answered by `error`.
    pub(crate) fn of_error(error: &[u8]) -> Status {
        match error.split(|byte| *byte == b' ').next() {
            Some(b"NOAUTH" | b"WRONGPASS") => Status::Unauthorized,
            Some(b"NOPERM") => Status::Forbidden,
            _ => Status::BadRequest,
        }
    }
}

/// A request that reaches no node, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: Status,
    pub text: String,
}

impl Refusal {
    pub(crate) fn new(status: Status, text: &str) -> Refusal {
        Refusal { status, text: format!("ERR {text}") }
    }

    pub(crate) fn body_too_large() -> Refusal {
        Refusal::new(Status::BodyTooLarge, &format!("the body has more than {BODY_BYTES_MAX} bytes"))
    }

    /// As an error in JSON.
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = serde_json::json!({ "error": self.text }).to_string().into_bytes();
        body.push(b'\n');
        body
    }
}

/// The type of JSON bodies.
pub(crate) const JSON: &str = "application/json";

/// The framing of an answer, as its request allows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Framed {
    /// Whether the connection stays open.
    pub keeps_alive: bool,
    /// Whether the client speaks HTTP/1.0, which has no chunks.
    pub is_old: bool,
}

/// An answer that is being written.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: Status,
    pub content_type: &'static str,
    pub framed: Framed,
    /// The part of the body that was not sent yet.
    pub body: Vec<u8>,
    has_begun: bool,
}

impl Answer {
    pub(crate) fn new(framed: Framed, content_type: &'static str) -> Answer {
        Answer { status: Status::Ok, content_type, framed, body: Vec::new(), has_begun: false }
    }

    pub(crate) fn of_refusal(framed: Framed, refusal: &Refusal) -> Answer {
        let (status, body) = (refusal.status, refusal.body());
        Answer { status, body, ..Answer::new(framed, JSON) }
    }

    /// Whether the end of the answer is the end of the connection.
    pub(crate) fn ends_connection(&self) -> bool {
        !self.framed.keeps_alive || self.framed.is_old && self.has_begun
    }

    /// Sends a large part of a body that is not complete.
    pub(crate) fn send_part(&mut self, out: &mut Vec<u8>) {
        if self.body.len() < CHUNK_BYTES_MIN {
            return;
        }
        if !self.has_begun {
            self.has_begun = true;
            self.write_head(None, out);
        }
        self.write_chunk(out);
    }

    /// Sends the rest.
    pub(crate) fn finish(mut self, out: &mut Vec<u8>) {
        if !self.has_begun {
            self.write_head(Some(self.body.len()), out);
            out.append(&mut self.body);
            return;
        }
        if !self.body.is_empty() {
            self.write_chunk(out);
        }
        if !self.framed.is_old {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }

    fn write_chunk(&mut self, out: &mut Vec<u8>) {
        if self.framed.is_old {
            return out.append(&mut self.body);
        }
        out.extend_from_slice(format!("{:x}\r\n", self.body.len()).as_bytes());
        out.append(&mut self.body);
        out.extend_from_slice(b"\r\n");
    }

    fn write_head(&self, length: Option<usize>, out: &mut Vec<u8>) {
        let length = match length {
            Some(length) => format!("Content-Length: {length}\r\n"),
            None if self.framed.is_old => String::new(),
            None => "Transfer-Encoding: chunked\r\n".to_owned(),
        };
        let connection =
            match (self.framed.keeps_alive && !(self.framed.is_old && length.is_empty()), self.framed.is_old)
            {
                (true, false) => "",
                (true, true) => "Connection: keep-alive\r\n",
                (false, _) => "Connection: close\r\n",
            };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\n{length}{connection}Cache-Control: no-store\r\n\r\n",
            self.status.line(),
            self.content_type
        );
        out.extend_from_slice(head.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to a body in `parts`.
    fn sent(framed: Framed, parts: &[usize]) -> String {
        let (mut out, mut answer) = (Vec::new(), Answer::new(framed, JSON));
        for part in parts {
            answer.body.resize(*part, b'x');
            answer.send_part(&mut out);
        }
        answer.finish(&mut out);
        String::from_utf8(out)
            .expect("ASCII")
            .replace(&"x".repeat(CHUNK_BYTES_MIN), "LARGE")
            .replace("\r\n", "|")
    }

    #[test]
    fn small_bodies_have_a_length_and_large_ones_have_chunks() {
        let framed = Framed { keeps_alive: true, is_old: false };
        let head = "HTTP/1.1 200 OK|Content-Type: application/json|";
        let small = format!("{head}Content-Length: 3|Cache-Control: no-store||xxx");
        assert_eq!(sent(framed, &[3]), small);
        let large = format!("{head}Transfer-Encoding: chunked|Cache-Control: no-store||4000|LARGE|3|xxx|0||");
        assert_eq!(sent(framed, &[CHUNK_BYTES_MIN, 3]), large);
    }

    #[test]
    fn old_clients_get_no_chunks() {
        let framed = Framed { keeps_alive: true, is_old: true };
        let head = "HTTP/1.1 200 OK|Content-Type: application/json|";
        let small = format!("{head}Content-Length: 1|Connection: keep-alive|Cache-Control: no-store||x");
        assert_eq!(sent(framed, &[1]), small);
        let large = format!("{head}Connection: close|Cache-Control: no-store||LARGExxx");
        assert_eq!(sent(framed, &[CHUNK_BYTES_MIN, 3]), large);
    }

    #[test]
    fn errors_of_rights_have_their_status() {
        let status = |error: &str| Status::of_error(error.as_bytes());
        assert_eq!(status("NOAUTH Authentication required."), Status::Unauthorized);
        assert_eq!(status("WRONGPASS x"), Status::Unauthorized);
        assert_eq!(status("NOPERM x"), Status::Forbidden);
        assert_eq!(status("ERR x"), Status::BadRequest);
    }
}
