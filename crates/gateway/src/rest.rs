//! The dialect of Upstash's REST API: <https://upstash.com/docs/redis/features/restapi>.
//!
//! ```text
//!   GET  /set/foo/bar?EX=100          SET foo bar EX 100
//!   POST /set/foo        (bytes)      SET foo BYTES
//!   POST /               ["SET","foo","bar"]
//!   POST /pipeline       [["SET","foo","bar"],["INCR","n"]]
//!   POST /multi-exec     the same, as a transaction
//! ```

use crate::answer::{Refusal, Status};
use crate::calls::{self, Call, decode};
use crate::head::Head;
use crate::json::Form;
use crate::reply::Shape;
use serde_json::Value;

/// The name of the parameter of a query that is the token.
const TOKEN: &str = "_token";

/// The commands of a request.
pub(crate) fn parse(head: &Head, body: &[u8]) -> Result<Call, Refusal> {
    if !matches!(head.method.as_str(), "GET" | "POST" | "PUT") {
        return Err(Refusal::new(Status::MethodNotAllowed, "the method must be GET or POST"));
    }
    let (requests, shape) = match head.path.as_str() {
        "/pipeline" => {
            let commands = commands(body)?;
            (calls::all(&commands)?, Shape::Pipeline(commands.len()))
        }
        "/multi-exec" => {
            let commands = commands(body)?;
            let requests =
                [b"*1\r\n$5\r\nMULTI\r\n", &calls::all(&commands)?[..], b"*1\r\n$4\r\nEXEC\r\n"].concat();
            (requests, Shape::Transaction(commands.len()))
        }
        "/" => (calls::all(&[command(&json(body)?)?])?, Shape::One),
        path => (calls::all(&[words(path, &head.query, body)])?, Shape::One),
    };
    let form = Form { base64: head.wants_base64, has_pairs: false, is_object: false };
    Ok(Call { requests, shape, form, database: 0 })
}

/// The token in a query.
pub(crate) fn token_in(query: &str) -> Option<String> {
    let token = query.split('&').find_map(|pair| pair.strip_prefix(TOKEN)?.strip_prefix('='))?;
    Some(String::from_utf8_lossy(&decode(token)).into_owned())
}

/// The command that path, query and body spell.
fn words(path: &str, query: &str, body: &[u8]) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = path.strip_prefix('/').unwrap_or(path).split('/').map(decode).collect();
    if !body.is_empty() {
        words.push(body.to_vec());
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != TOKEN {
            words.extend([name, value].into_iter().filter(|word| !word.is_empty()).map(decode));
        }
    }
    words
}

fn json(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        Refusal::new(Status::BadRequest, &format!("the body is no JSON array of a command: {error}"))
    })
}

fn commands(body: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, Refusal> {
    let json = json(body)?;
    let commands = json.as_array().ok_or_else(|| not_commands("array of commands"))?;
    commands.iter().map(command).collect()
}

fn command(json: &Value) -> Result<Vec<Vec<u8>>, Refusal> {
    let words = json.as_array().ok_or_else(|| not_commands("array of a command's words"))?;
    words.iter().map(word).collect()
}

fn word(json: &Value) -> Result<Vec<u8>, Refusal> {
    match json {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        Value::Bool(flag) => Ok(flag.to_string().into_bytes()),
        _ => Err(not_commands("array of strings and numbers")),
    }
}

fn not_commands(expected: &str) -> Refusal {
    Refusal::new(Status::BadRequest, &format!("the body must be a JSON {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, target: &str, body: &str) -> Result<Call, Refusal> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let head = Head {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            ..Head::default()
        };
        parse(&head, body.as_bytes())
    }

    /// The words of all commands, and the shape.
    fn spelt(method: &str, target: &str, body: &str) -> (String, Shape) {
        let call = call(method, target, body).expect(target);
        let text = String::from_utf8(call.requests).expect("UTF-8");
        let words = text.split("\r\n").filter(|word| !word.is_empty() && !word.starts_with('$'));
        (words.collect::<Vec<_>>().join(" "), call.shape)
    }

    fn one(words: &str) -> (String, Shape) {
        (words.to_owned(), Shape::One)
    }

    #[test]
    fn a_command_stands_in_the_path_or_the_body() {
        assert_eq!(spelt("GET", "/set/a%2Fb/x%20y?EX=100&NX", ""), one("*6 set a/b x y EX 100 NX"));
        assert_eq!(spelt("POST", "/set/a?EX=9", "[1]"), one("*5 set a [1] EX 9"));
        assert_eq!(spelt("GET", "/get/a?_token=secret", ""), one("*2 get a"));
        assert_eq!(spelt("POST", "/", r#"["SET","a",1,1.5,true]"#), one("*5 SET a 1 1.5 true"));
        assert_eq!(token_in("a=1&_token=x%20y").as_deref(), Some("x y"));
    }

    #[test]
    fn several_commands_stand_in_the_body() {
        let body = r#"[["SET","a","b"],["INCR","n"]]"#;
        assert_eq!(spelt("POST", "/pipeline", body), ("*3 SET a b *2 INCR n".to_owned(), Shape::Pipeline(2)));
        let whole = "*1 MULTI *3 SET a b *2 INCR n *1 EXEC";
        assert_eq!(spelt("POST", "/multi-exec", body), (whole.to_owned(), Shape::Transaction(2)));
    }

    #[test]
    fn other_requests_are_refused() {
        let cases = [
            ("POST", "/", "x"),
            ("POST", "/", "{}"),
            ("POST", "/", "[]"),
            ("POST", "/", r#"["GET",null]"#),
            ("POST", "/pipeline", "[]"),
            ("POST", "/pipeline", r#"["GET","a"]"#),
            ("POST", "/multi-exec", r#"[["MULTI"]]"#),
            ("GET", "/", ""),
            ("GET", "//a", ""),
            ("DELETE", "/get/a", ""),
        ];
        for (method, target, body) in cases {
            assert!(call(method, target, body).is_err(), "{method} {target} {body}");
        }
    }
}
