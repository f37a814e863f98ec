//! One HTTP connection before one session.
//!
//! Answers leave in the order of requests. Requests are translated as they come, up to a limit, so a client may pipeline.
//!
//! A request whose token or database differs from the session's comes behind RESET, AUTH and SELECT. It waits until the session
//! has answered these, and is refused if one of them fails. It would run as another user otherwise.

use crate::Dialect;
use crate::answer::{Answer, Framed, Refusal, Status};
use crate::body::Body;
use crate::calls::Call;
use crate::head::{self, Head};
use crate::limits::{OUTPUT_BYTES_MAX, PENDING_MAX, PIECE_BYTES_MAX};
use crate::reply::Reply;
use crate::tokens::{Token, Tokens};
use crate::{rest, webdis};
use resp::encode;
use std::collections::VecDeque;

/// The state of one connection.
#[derive(Debug)]
pub struct Gateway {
    dialect: Dialect,
    /// Bytes of the client that were not read yet.
    input: Vec<u8>,
    /// The request whose body is being read.
    reading: Option<(Head, Body)>,
    pending: VecDeque<Pending>,
    /// The call that waits for the session to change.
    waiting: Option<(Call, Framed)>,
    /// The user and the database of the session. `None` if they are unknown.
    session: Option<Login>,
    /// Whether no more requests are read.
    is_ending: bool,
    requests: Vec<u8>,
    output: Vec<u8>,
}

/// The user of a request, by its token, and its database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Login {
    token: Option<String>,
    database: u32,
}

/// An answer that is to come.
#[derive(Debug)]
enum Pending {
    /// Made here.
    Made(Answer),
    /// Made of replies.
    Reply(Box<Reply>),
    /// The session changes to this login. The number of replies to come, and the first error.
    Login { login: Login, tokens: Tokens, left: usize, error: Option<String> },
    /// The reply to QUIT is not for the client.
    Quit(Tokens),
}

impl Gateway {
    /// The state of a new connection, whose session is new as well.
    pub fn new(dialect: Dialect) -> Gateway {
        Gateway {
            dialect,
            input: Vec::new(),
            reading: None,
            pending: VecDeque::new(),
            waiting: None,
            session: Some(Login::default()),
            is_ending: false,
            requests: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Reads bytes of the client. [`Gateway::requests`] and [`Gateway::output`] may have more then.
    pub fn receive(&mut self, bytes: &[u8]) {
        if !self.is_ending {
            self.input.extend_from_slice(bytes);
            self.go_on();
        }
    }

    /// Reads bytes of the session. Returns how many were read: not all if the client must read first.
    pub fn reply(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() && self.output.len() < OUTPUT_BYTES_MAX {
            let piece = &bytes[at..bytes.len().min(at + PIECE_BYTES_MAX)];
            match self.reply_piece(piece) {
                Some(len) => at += len,
                None => {
                    self.fail(bytes);
                    return bytes.len();
                }
            }
        }
        self.go_on();
        at
    }

    /// Requests for the session, in RESP. The caller takes them out.
    pub fn requests(&mut self) -> &mut Vec<u8> {
        &mut self.requests
    }

    /// Bytes for the client. The caller takes out those that were sent.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Bytes that are held.
    pub fn held_bytes(&self) -> usize {
        let waiting = self.waiting.as_ref().map_or(0, |(call, _)| call.requests.capacity());
        let body = self.reading.as_ref().map_or(0, |(_, body)| body.held_bytes());
        self.input.capacity() + self.requests.capacity() + self.output.capacity() + body + waiting
    }

    /// Reads a part of the first pending reply. `None` if the session has said something unexpected.
    fn reply_piece(&mut self, piece: &[u8]) -> Option<usize> {
        let (len, is_complete) = match self.pending.front_mut()? {
            Pending::Made(_) => return None,
            Pending::Reply(reply) => {
                let read = reply.read(piece).ok()?;
                reply.answer.send_part(&mut self.output);
                read
            }
            Pending::Quit(tokens) => tokens.read(piece, |_| {}).ok()?,
            Pending::Login { tokens, left, error, .. } => {
                let note_error = |token: Token<'_>| {
                    if let (Token::Error(text), None) = (token, &error) {
                        *error = Some(String::from_utf8_lossy(text).into_owned());
                    }
                };
                let (len, is_complete) = tokens.read(piece, note_error).ok()?;
                *left -= usize::from(is_complete);
                (len, *left == 0)
            }
        };
        if is_complete {
            let first = self.pending.pop_front();
            first.into_iter().for_each(|first| self.complete(first));
        }
        Some(len)
    }

    fn complete(&mut self, pending: Pending) {
        match pending {
            Pending::Made(answer) => self.finish(answer),
            Pending::Reply(reply) => self.finish(reply.answer),
            Pending::Login { login, error, .. } => self.end_login(login, error),
            Pending::Quit(_) => {}
        }
        while let Some(Pending::Made(_)) = self.pending.front() {
            if let Some(Pending::Made(answer)) = self.pending.pop_front() {
                self.finish(answer);
            }
        }
    }

    /// Sends the rest of an answer, and ends the connection if it was the last.
    fn finish(&mut self, answer: Answer) {
        let is_last = answer.ends_connection();
        answer.finish(&mut self.output);
        if is_last {
            self.end();
        }
    }

    /// Ends the session, which then closes the connection.
    fn end(&mut self) {
        self.is_ending = true;
        self.input = Vec::new();
        self.reading = None;
        self.pending.push_back(Pending::Quit(Tokens::default()));
        encode::request(&mut self.requests, &[b"QUIT"]);
    }

    /// The session has changed to `login`, or has not because of `error`.
    fn end_login(&mut self, login: Login, error: Option<String>) {
        self.session = error.is_none().then_some(login);
        let Some((call, framed)) = self.waiting.take() else { return };
        match error {
            None => self.submit(call, framed),
            Some(error) => {
                let status = Status::of_error(error.as_bytes());
                let refusal = Refusal { status, text: error };
                self.pending.push_back(Pending::Made(Answer::of_refusal(framed, &refusal)));
            }
        }
    }

    /// The session closes, or its bytes make no sense.
    fn fail(&mut self, bytes: &[u8]) {
        let text = bytes.strip_prefix(b"-").and_then(|text| text.split(|byte| *byte == b'\r').next());
        let text = text.map_or("ERR the connection was closed".into(), String::from_utf8_lossy);
        let refusal = Refusal { status: Status::Unavailable, text: text.into_owned() };
        let framed = Framed { keeps_alive: false, is_old: false };
        let has_begun = matches!(self.pending.front(), Some(Pending::Reply(_)));
        self.pending.clear();
        self.waiting = None;
        if !has_begun {
            Answer::of_refusal(framed, &refusal).finish(&mut self.output);
        }
        if !self.is_ending {
            self.end();
        }
    }

    /// Translates requests that are complete.
    fn go_on(&mut self) {
        while self.waiting.is_none() && !self.is_ending && self.pending.len() < PENDING_MAX {
            match self.read_request() {
                Ok(Some((head, body))) => self.serve(&head, &body),
                Ok(None) => return,
                Err(refusal) => {
                    // The end of the request is unknown, so no other can be read.
                    let framed = Framed { keeps_alive: false, is_old: false };
                    self.give(Answer::of_refusal(framed, &refusal));
                    self.is_ending = true;
                    self.input = Vec::new();
                }
            }
        }
    }

    /// Takes the next request out of the input, if it is complete.
    fn read_request(&mut self) -> Result<Option<(Head, Vec<u8>)>, Refusal> {
        if self.reading.is_none() {
            let Some((head, len)) = head::parse(&self.input)? else { return Ok(None) };
            self.input.drain(..len);
            if head.expects_continue && self.pending.is_empty() {
                self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            let body = Body::new(head.framing);
            self.reading = Some((head, body));
        }
        let Some((head, mut body)) = self.reading.take() else { return Ok(None) };
        let len = body.read(&self.input)?;
        self.input.drain(..len);
        if !body.is_complete() {
            self.reading = Some((head, body));
            return Ok(None);
        }
        Ok(Some((head, body.into_bytes())))
    }

    fn serve(&mut self, head: &Head, body: &[u8]) {
        let framed = head.framed;
        let token = match self.dialect {
            Dialect::Rest => head.token.clone().or_else(|| rest::token_in(&head.query)),
            Dialect::Webdis => head.token.clone(),
        };
        if token.is_none() && head.is_cross_site {
            let text = "a browser sent this request for a page of another site; it needs a bearer token";
            let refusal = Refusal::new(Status::Forbidden, text);
            return self.give(Answer::of_refusal(framed, &refusal));
        }
        let parsed = match self.dialect {
            Dialect::Rest => rest::parse(head, body),
            Dialect::Webdis => webdis::parse(head, body),
        };
        match parsed {
            Ok(call) => {
                let login = Login { token, database: call.database };
                match self.session == Some(login.clone()) {
                    true => self.submit(call, framed),
                    false => self.log_in(login, call, framed),
                }
            }
            Err(refusal) => self.give(Answer::of_refusal(framed, &refusal)),
        }
    }

    /// Answers with an answer that was made here, in its turn.
    fn give(&mut self, answer: Answer) {
        match self.pending.is_empty() {
            true => self.finish(answer),
            false => self.pending.push_back(Pending::Made(answer)),
        }
    }

    fn submit(&mut self, call: Call, framed: Framed) {
        self.requests.extend_from_slice(&call.requests);
        let reply = Reply::new(call.shape, call.form, framed);
        self.pending.push_back(Pending::Reply(Box::new(reply)));
    }

    /// Changes the session to `login`, then submits `call`.
    fn log_in(&mut self, login: Login, call: Call, framed: Framed) {
        encode::request(&mut self.requests, &[b"RESET"]);
        let mut left = 1;
        if let Some(token) = &login.token {
            let (user, password) = token.split_once(':').unwrap_or(("default", token));
            encode::request(&mut self.requests, &[b"AUTH", user.as_bytes(), password.as_bytes()]);
            left += 1;
        }
        if login.database != 0 {
            encode::request(&mut self.requests, &[b"SELECT", login.database.to_string().as_bytes()]);
            left += 1;
        }
        self.waiting = Some((call, framed));
        self.pending.push_back(Pending::Login { login, tokens: Tokens::default(), left, error: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests for the session, and the bytes for the client.
    fn taken(gateway: &mut Gateway) -> (String, String) {
        let text = |bytes: &mut Vec<u8>| {
            let text = String::from_utf8(std::mem::take(bytes)).expect("ASCII").replace("\r\n", "|");
            text.replace("Content-Type: application/json|", "").replace("Cache-Control: no-store|", "")
        };
        (text(gateway.requests()), text(gateway.output()))
    }

    fn receive(gateway: &mut Gateway, text: &str) -> (String, String) {
        gateway.receive(text.replace('|', "\r\n").as_bytes());
        taken(gateway)
    }

    fn reply(gateway: &mut Gateway, text: &str) -> (String, String) {
        let bytes = text.replace('|', "\r\n").into_bytes();
        assert_eq!(gateway.reply(&bytes), bytes.len());
        taken(gateway)
    }

    fn both(requests: &str, output: &str) -> (String, String) {
        (requests.to_owned(), output.to_owned())
    }

    const GET: &str = "*2|$3|get|$1|a|";
    const RESET: &str = "*1|$5|RESET|";
    const NULL: &str = "HTTP/1.1 200 OK|Content-Length: 15||{\"result\":null}";

    #[test]
    fn answers_leave_in_the_order_of_requests() {
        let mut gateway = Gateway::new(Dialect::Rest);
        let sent = "GET /get/a HTTP/1.1||POST / HTTP/1.1|Content-Length: 1||xGET /get/a HTTP/1.1||";
        assert_eq!(receive(&mut gateway, sent), both(&GET.repeat(2), ""));
        let (requests, output) = reply(&mut gateway, "$-1|");
        assert!(requests.is_empty() && output.starts_with(NULL), "{output}");
        assert!(output.contains("HTTP/1.1 400 Bad Request|"), "{output}");
        assert_eq!(reply(&mut gateway, "$-1|"), both("", NULL));
    }

    #[test]
    fn another_user_waits_for_the_login() {
        let mut gateway = Gateway::new(Dialect::Rest);
        let with = |token: &str| format!("GET /get/a HTTP/1.1|Authorization: Bearer {token}||");
        let login = format!("{RESET}*3|$4|AUTH|$3|ann|$2|pw|");
        assert_eq!(receive(&mut gateway, &format!("{0}{0}", with("ann:pw"))), both(&login, ""));
        assert_eq!(reply(&mut gateway, "+RESET|"), both("", ""));
        assert_eq!(reply(&mut gateway, "+OK|"), both(&GET.repeat(2), ""));
        assert_eq!(reply(&mut gateway, "$-1|$-1|"), both("", &NULL.repeat(2)));
        // The next request has no token, so it must not run as this user.
        assert_eq!(receive(&mut gateway, "GET /get/a HTTP/1.1||"), both(RESET, ""));
        assert_eq!(reply(&mut gateway, "+RESET|"), both(GET, ""));
        let (_, output) = reply(&mut gateway, "-NOAUTH x|");
        assert!(output.starts_with("HTTP/1.1 401 Unauthorized|"), "{output}");
    }

    #[test]
    fn a_wrong_token_runs_nothing() {
        let mut gateway = Gateway::new(Dialect::Rest);
        let request = "GET /get/a HTTP/1.1|Authorization: Bearer pw||";
        let login = format!("{RESET}*3|$4|AUTH|$7|default|$2|pw|");
        assert_eq!(receive(&mut gateway, request), both(&login, ""));
        let (requests, output) = reply(&mut gateway, "+RESET|-WRONGPASS x|");
        assert!(output.starts_with("HTTP/1.1 401 Unauthorized|"), "{output}");
        assert_eq!(requests, "");
        assert_eq!(receive(&mut gateway, request).0, login, "the session is not that user's");
    }

    #[test]
    fn a_database_is_selected_and_left() {
        let mut gateway = Gateway::new(Dialect::Webdis);
        let select = format!("{RESET}*2|$6|SELECT|$1|7|");
        assert_eq!(receive(&mut gateway, "GET /7/get/a HTTP/1.1||"), both(&select, ""));
        assert_eq!(reply(&mut gateway, "+RESET|+OK|").0, GET);
        reply(&mut gateway, "$-1|");
        assert_eq!(receive(&mut gateway, "GET /get/a HTTP/1.1||"), both(RESET, ""));
    }

    #[test]
    fn the_last_answer_ends_the_session() {
        let mut gateway = Gateway::new(Dialect::Rest);
        assert_eq!(receive(&mut gateway, "GET /get/a HTTP/1.0||").0, GET);
        let (requests, output) = reply(&mut gateway, "$-1|");
        assert_eq!(requests, "*1|$4|QUIT|");
        assert!(output.contains("Connection: close|"), "{output}");
        assert_eq!(receive(&mut gateway, "GET /get/a HTTP/1.1||"), both("", ""));
        assert_eq!(reply(&mut gateway, "+OK|"), both("", ""));
    }

    #[test]
    fn bytes_that_are_no_http_end_the_connection() {
        let mut gateway = Gateway::new(Dialect::Rest);
        let (requests, output) = receive(&mut gateway, "*1|$4|PING|");
        assert!(output.starts_with("HTTP/1.1 400 Bad Request|Content-Length: "), "{output}");
        assert_eq!(requests, "*1|$4|QUIT|");
        let mut gateway = Gateway::new(Dialect::Rest);
        receive(&mut gateway, "GET /get/a HTTP/1.1||*1|$4|PING|");
        let (requests, output) = reply(&mut gateway, "$-1|");
        assert!(output.starts_with(NULL) && output.contains("Connection: close|"), "{output}");
        assert_eq!(requests, "*1|$4|QUIT|");
    }

    #[test]
    fn a_session_that_closes_tells_why() {
        let mut gateway = Gateway::new(Dialect::Rest);
        let (_, output) = reply(&mut gateway, "-ERR max number of clients reached|");
        assert!(output.starts_with("HTTP/1.1 503 Service Unavailable|"), "{output}");
        assert!(output.ends_with("{\"error\":\"ERR max number of clients reached\"}\n"), "{output}");
    }

    #[test]
    fn pages_of_other_sites_need_a_token() {
        let mut gateway = Gateway::new(Dialect::Rest);
        let (requests, output) = receive(&mut gateway, "GET /flushall HTTP/1.1|Sec-Fetch-Site: cross-site||");
        assert!(requests.is_empty() && output.starts_with("HTTP/1.1 403 Forbidden|"), "{output}");
        let sent = "GET /get/a HTTP/1.1|Sec-Fetch-Site: cross-site|Authorization: Bearer x||";
        assert!(receive(&mut gateway, sent).0.starts_with(RESET));
    }

    #[test]
    fn a_large_reply_is_not_held() {
        let mut gateway = Gateway::new(Dialect::Rest);
        receive(&mut gateway, "GET /get/a HTTP/1.1||");
        let reply = [b"$10000000\r\n".as_slice(), &vec![b'x'; 10_000_000], b"\r\n"].concat();
        let (mut at, mut received) = (0, 0);
        while at < reply.len() {
            at += gateway.reply(&reply[at..]);
            assert!(gateway.held_bytes() < 1 << 20, "{} bytes are held", gateway.held_bytes());
            received += std::mem::take(gateway.output()).len();
        }
        assert!(received > 10_000_000 && received < 10_100_000, "{received}");
    }

    #[test]
    fn many_requests_in_a_row_wait_unread() {
        let mut gateway = Gateway::new(Dialect::Rest);
        let sent = "GET /get/a HTTP/1.1||".repeat(PENDING_MAX + 1);
        assert_eq!(receive(&mut gateway, &sent).0, GET.repeat(PENDING_MAX));
        assert_eq!(reply(&mut gateway, "$-1|").0, GET);
    }
}
