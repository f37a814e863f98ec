//! The dialect of webdis: <https://webd.is>.
//!
//! ```text
//!   GET  /GET/key  or  /GET/key.json   {"GET":"value"}
//!   GET  /GET/key.txt                  value
//!   GET  /GET/key.raw                  the reply in RESP
//!   PUT  /SET/key  (bytes)             SET key BYTES
//!   POST /         SET/key/value       SET key value
//!   GET  /7/GET/key                    GET key in database 7
//! ```

use crate::answer::{Refusal, Status};
use crate::calls::{self, Call, decode};
use crate::head::Head;
use crate::json::Form;
use crate::reply::Shape;

/// The command of a request.
pub(crate) fn parse(head: &Head, body: &[u8]) -> Result<Call, Refusal> {
    let spelt_in_body;
    let (path, value) = match (head.method.as_str(), head.path.as_str()) {
        ("POST", "/") => {
            spelt_in_body = String::from_utf8_lossy(body);
            (&*spelt_in_body, &[][..])
        }
        ("GET" | "POST" | "PUT", path) => (path.trim_start_matches('/'), body),
        _ => return Err(Refusal::new(Status::MethodNotAllowed, "the method must be GET, POST or PUT")),
    };
    let (path, extension) = split_extension(path);
    let mut parts: Vec<&str> = path.split('/').collect();
    let database = match parts[0].parse() {
        Ok(database) => {
            parts.remove(0);
            database
        }
        Err(_) => 0,
    };
    let mut args: Vec<Vec<u8>> = parts.into_iter().map(decode).collect();
    if !value.is_empty() {
        args.push(value.to_vec());
    }
    let requests = calls::all(std::slice::from_ref(&args))?;
    let name = String::from_utf8_lossy(&args[0]).into_owned();
    let is_object = name.eq_ignore_ascii_case("hgetall");
    let shape = match extension {
        "txt" => Shape::Text,
        "raw" => Shape::Raw,
        _ => Shape::Named(name),
    };
    Ok(Call { requests, shape, form: Form { base64: false, has_pairs: true, is_object }, database })
}

/// Splits off the name of a form at the end of a path.
fn split_extension(path: &str) -> (&str, &str) {
    match path.rsplit_once('.') {
        Some((path, extension @ ("json" | "txt" | "raw"))) => (path, extension),
        _ => (path, "json"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, path: &str, body: &str) -> Result<Call, Refusal> {
        let head = Head { method: method.to_owned(), path: path.to_owned(), ..Head::default() };
        parse(&head, body.as_bytes())
    }

    fn request(method: &str, path: &str, body: &str) -> (String, Shape, u32) {
        let call = call(method, path, body).expect(path);
        let words = String::from_utf8(call.requests).expect("UTF-8");
        let words = words.split("\r\n").filter(|word| !word.is_empty() && !word.starts_with('$'));
        (words.collect::<Vec<_>>().join(" "), call.shape, call.database)
    }

    #[test]
    fn a_path_is_a_command_with_a_form() {
        let named = |name: &str| Shape::Named(name.to_owned());
        assert_eq!(request("GET", "/GET/a", ""), ("*2 GET a".to_owned(), named("GET"), 0));
        assert_eq!(request("GET", "/GET/a.json", ""), ("*2 GET a".to_owned(), named("GET"), 0));
        assert_eq!(request("GET", "/GET/a%2etxt", ""), ("*2 GET a.txt".to_owned(), named("GET"), 0));
        assert_eq!(request("GET", "/7/GET/a%2Fb.txt", ""), ("*2 GET a/b".to_owned(), Shape::Text, 7));
        assert_eq!(request("GET", "/PING.raw", ""), ("*1 PING".to_owned(), Shape::Raw, 0));
        assert_eq!(request("PUT", "/SET/a", "x/y"), ("*3 SET a x/y".to_owned(), named("SET"), 0));
        assert_eq!(request("POST", "/", "SET/a/b"), ("*3 SET a b".to_owned(), named("SET"), 0));
        assert!(call("GET", "/HGETALL/a", "").expect("valid").form.is_object);
    }

    #[test]
    fn other_requests_are_refused() {
        for (method, path) in [("GET", "/"), ("DELETE", "/GET/a"), ("GET", "/SUBSCRIBE/a"), ("GET", "/7")] {
            assert!(call(method, path, "").is_err(), "{method} {path}");
        }
    }
}
