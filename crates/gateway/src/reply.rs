//! The answer to one HTTP request, from the replies to its commands.

use crate::answer::{Answer, Framed, JSON, Status};
use crate::json::{Form, Json, write_escaped};
use crate::tokens::{Broken, Token, Tokens};

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `{"result":…}` or `{"error":…}`.
    One,
    /// An array of these, one for each of this number of commands.
    Pipeline(usize),
    /// The same for the results of EXEC, with the number of commands between MULTI and EXEC.
    Transaction(usize),
    /// `{"NAME":…}`.
    Named(String),
    /// The value alone, as text.
    Text,
    /// The reply as it is.
    Raw,
}

impl Shape {
    /// The number of replies.
    fn replies(&self) -> usize {
        match self {
            Shape::Pipeline(commands) => *commands,
            Shape::Transaction(commands) => commands + 2,
            _ => 1,
        }
    }

    fn content_type(&self) -> &'static str {
        match self {
            Shape::Text => "text/plain",
            Shape::Raw => "binary/octet-stream",
            _ => JSON,
        }
    }
}

/// An answer that is being made.
#[derive(Debug)]
pub(crate) struct Reply {
    shape: Shape,
    tokens: Tokens,
    json: Json,
    pub answer: Answer,
    /// The number of replies so far.
    seen: usize,
    /// The number of elements of EXEC so far, once its array has begun.
    results: Option<usize>,
    /// Whether the reply has no form as text.
    is_refused: bool,
}

impl Reply {
    pub(crate) fn new(shape: Shape, form: Form, framed: Framed) -> Reply {
        let mut answer = Answer::new(framed, shape.content_type());
        if let Shape::Pipeline(_) = shape {
            answer.body.push(b'[');
        }
        Reply {
            shape,
            tokens: Tokens::default(),
            json: Json::new(form),
            answer,
            seen: 0,
            results: None,
            is_refused: false,
        }
    }

    /// Reads from `bytes`. Returns the number of bytes that were read, and whether the answer is complete.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(usize, bool), Broken> {
        let mut at = 0;
        while at < bytes.len() && self.seen < self.shape.replies() {
            let mut tokens = std::mem::take(&mut self.tokens);
            let (len, is_complete) = tokens.read(&bytes[at..], |token| self.write(token))?;
            self.tokens = tokens;
            if self.shape == Shape::Raw {
                self.answer.body.extend_from_slice(&bytes[at..at + len]);
            }
            at += len;
            if is_complete {
                self.seen += 1;
                self.end_reply();
            }
        }
        Ok((at, self.seen == self.shape.replies()))
    }

    fn end_reply(&mut self) {
        if let Shape::Pipeline(commands) = self.shape {
            self.answer.body.push(if self.seen == commands { b']' } else { b',' });
        }
    }

    fn write(&mut self, token: Token<'_>) {
        match &self.shape {
            Shape::Pipeline(_) => self.write_item(token),
            Shape::One => {
                self.note_error(token);
                self.write_item(token);
            }
            Shape::Transaction(commands) => {
                if self.seen > *commands {
                    self.write_result(token);
                }
            }
            Shape::Named(name) => {
                if self.json.depth() == 0 && is_begin(token) {
                    self.answer.body.extend_from_slice(b"{\"");
                    write_escaped(name, &mut self.answer.body);
                    self.answer.body.extend_from_slice(b"\":");
                }
                self.note_error(token);
                self.json.write(token, &mut self.answer.body);
                self.close_item(token);
            }
            Shape::Text => self.write_text(token),
            Shape::Raw => self.note_error(token),
        }
    }

    /// Sets the status by a reply that is an error.
    fn note_error(&mut self, token: Token<'_>) {
        if let Token::Error(text) = token
            && self.json.depth() == 0
        {
            self.answer.status = Status::of_error(text);
        }
    }

    /// Writes a token of the reply to EXEC.
    fn write_result(&mut self, token: Token<'_>) {
        match (self.results, token) {
            (None, Token::Array(_)) => {
                self.results = Some(0);
                self.answer.body.push(b'[');
            }
            (Some(_), Token::ArrayEnd) if self.json.depth() == 0 => self.answer.body.push(b']'),
            (None, Token::Null) => {
                self.answer.status = Status::BadRequest;
                self.write_item(Token::Error(b"ERR the transaction did not run: repeat it"));
            }
            (None, _) => {
                self.note_error(token);
                self.write_item(token);
            }
            (Some(results), _) => {
                if self.json.depth() == 0 && is_begin(token) {
                    if results > 0 {
                        self.answer.body.push(b',');
                    }
                    self.results = Some(results + 1);
                }
                self.write_item(token);
            }
        }
    }

    /// Writes a token of a value that is a result or an error.
    fn write_item(&mut self, token: Token<'_>) {
        if self.json.depth() == 0 && is_begin(token) {
            let name: &[u8] = if matches!(token, Token::Error(_)) { b"{\"error\":" } else { b"{\"result\":" };
            self.answer.body.extend_from_slice(name);
        }
        match token {
            // An error is no value: it is readable also where values are in base64.
            Token::Error(text) if self.json.depth() == 0 => {
                self.answer.body.push(b'"');
                write_escaped(&String::from_utf8_lossy(text), &mut self.answer.body);
                self.answer.body.push(b'"');
            }
            _ => self.json.write(token, &mut self.answer.body),
        }
        self.close_item(token);
    }

    fn close_item(&mut self, token: Token<'_>) {
        if self.json.depth() == 0 && is_end(token) {
            self.answer.body.push(b'}');
        }
    }

    fn write_text(&mut self, token: Token<'_>) {
        if self.is_refused {
            return;
        }
        let body = &mut self.answer.body;
        match token {
            Token::Status(text) | Token::Part(text) => body.extend_from_slice(text),
            Token::Integer(number) => body.extend_from_slice(number.to_string().as_bytes()),
            Token::Null if self.answer.status == Status::Ok => self.answer.status = Status::NotFound,
            Token::Error(text) => {
                self.answer.status = Status::of_error(text);
                body.extend_from_slice(text);
            }
            Token::Array(_) if body.is_empty() && self.answer.status == Status::Ok => {
                self.answer.status = Status::BadRequest;
                body.extend_from_slice(b"ERR the reply is an array: take .json or .raw");
                self.is_refused = true;
            }
            _ => {}
        }
    }
}

/// Whether a value begins with `token`.
fn is_begin(token: Token<'_>) -> bool {
    !matches!(token, Token::Part(_) | Token::StringEnd | Token::ArrayEnd)
}

/// Whether a value ends with `token`.
fn is_end(token: Token<'_>) -> bool {
    !matches!(token, Token::Part(_) | Token::String | Token::Array(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Form = Form { base64: false, has_pairs: false, is_object: false };
    const FRAMED: Framed = Framed { keeps_alive: true, is_old: false };

    /// Status and body for `replies`. They are the same in pieces of any size.
    fn made(shape: &Shape, form: Form, replies: &str) -> (Status, String) {
        let replies = replies.replace('|', "\r\n");
        let in_pieces = |size: usize| {
            let (mut reply, mut is_complete) = (Reply::new(shape.clone(), form, FRAMED), false);
            for piece in replies.as_bytes().chunks(size) {
                assert!(!is_complete, "{replies}");
                is_complete = reply.read(piece).expect("RESP2").1;
            }
            assert!(is_complete, "{replies}");
            (reply.answer.status, String::from_utf8(reply.answer.body).expect("UTF-8"))
        };
        let whole = in_pieces(replies.len());
        (1..replies.len()).for_each(|size| assert_eq!(in_pieces(size), whole));
        whole
    }

    fn body(shape: &Shape, replies: &str) -> String {
        let (status, body) = made(shape, PLAIN, replies);
        assert_eq!(status, Status::Ok);
        body
    }

    #[test]
    fn one_reply_is_a_result_or_an_error() {
        assert_eq!(body(&Shape::One, "$1|a|"), r#"{"result":"a"}"#);
        assert_eq!(body(&Shape::One, "*2|:1|-ERR x|"), r#"{"result":[1,"ERR x"]}"#);
        let error = (Status::BadRequest, r#"{"error":"ERR \"x\""}"#.to_owned());
        assert_eq!(made(&Shape::One, Form { base64: true, ..PLAIN }, "-ERR \"x\"|"), error);
        assert_eq!(made(&Shape::One, PLAIN, "-NOAUTH x|").0, Status::Unauthorized);
    }

    #[test]
    fn a_pipeline_has_all_results() {
        let expected = r#"[{"result":"OK"},{"error":"ERR x"},{"result":[]}]"#;
        assert_eq!(body(&Shape::Pipeline(3), "+OK|-ERR x|*0|"), expected);
    }

    #[test]
    fn a_transaction_has_the_results_of_exec() {
        let ran = "+OK|+QUEUED|+QUEUED|*2|*1|:1|-WRONGTYPE x|";
        assert_eq!(body(&Shape::Transaction(2), ran), r#"[{"result":[1]},{"error":"WRONGTYPE x"}]"#);
        let aborted = made(&Shape::Transaction(1), PLAIN, "+OK|-ERR x|-EXECABORT y|");
        assert_eq!(aborted, (Status::BadRequest, r#"{"error":"EXECABORT y"}"#.to_owned()));
        let error = r#"{"error":"ERR the transaction did not run: repeat it"}"#;
        let declined = made(&Shape::Transaction(1), PLAIN, "+OK|+QUEUED|*-1|");
        assert_eq!(declined, (Status::BadRequest, error.to_owned()));
    }

    #[test]
    fn webdis_names_its_values() {
        let named = Shape::Named("GET".to_owned());
        let form = Form { has_pairs: true, ..PLAIN };
        assert_eq!(made(&named, form, "$1|a|"), (Status::Ok, r#"{"GET":"a"}"#.to_owned()));
        assert_eq!(made(&named, form, "+OK|").1, r#"{"GET":[true,"OK"]}"#);
        assert_eq!(
            made(&named, form, "-ERR x|"),
            (Status::BadRequest, r#"{"GET":[false,"ERR x"]}"#.to_owned())
        );
    }

    #[test]
    fn text_is_the_value_alone() {
        assert_eq!(body(&Shape::Text, "$3|a b|"), "a b");
        assert_eq!(body(&Shape::Text, ":7|"), "7");
        assert_eq!(made(&Shape::Text, PLAIN, "$-1|"), (Status::NotFound, String::new()));
        let array = made(&Shape::Text, PLAIN, "*2|$1|a|*1|:1|");
        assert_eq!(array.0, Status::BadRequest);
        assert_eq!(body(&Shape::Raw, "*2|$1|a|$-1|"), "*2\r\n$1\r\na\r\n$-1\r\n");
    }
}
