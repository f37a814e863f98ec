//! Clients that speak HTTP, over real nodes. Expected replies are those of Upstash's REST API and of webdis.

use crate::harness::certificates::{Authority, Dialect, Directory, identity_flags};
use crate::harness::client::Client;
use crate::harness::http::{Answer, over, request};
use crate::harness::processes::free_ports;
use crate::harness::{Proxy, RedisServer};

/// A proxy over two nodes with `flags`, and the ports of its HTTP clients: as Upstash's, and as webdis's.
struct Served {
    proxy: Proxy,
    rest: u16,
    webdis: u16,
    _nodes: [RedisServer; 2],
}

impl Served {
    fn start(flags: &[&str]) -> Served {
        let (nodes, ports) = ([0; 2].map(|_| RedisServer::start()), free_ports(2));
        let list = format!("--nodes=127.0.0.1:{},127.0.0.1:{}", nodes[0].port, nodes[1].port);
        let rest = format!("--http-port={}", ports[0]);
        let webdis = format!("--listener=127.0.0.1:{} http=webdis", ports[1]);
        let proxy = Proxy::start(&[&["--port=0", &list, &rest, &webdis], flags].concat());
        Served { proxy, rest: ports[0], webdis: ports[1], _nodes: nodes }
    }
}

/// The answer to a request with these headers and this body.
fn asked(port: u16, line: &str, headers: &[&str], body: &str) -> Answer {
    request(port, &text(line, &[headers, &["Connection: close"]].concat(), body))
}

fn text(line: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("{line} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

/// Status and body of the answer.
fn told(port: u16, line: &str, body: &str) -> (u16, String) {
    let answer = asked(port, line, &[], body);
    (answer.status, answer.body)
}

fn ok(body: &str) -> (u16, String) {
    (200, body.to_owned())
}

#[test]
fn requests_of_upstash_are_answered() {
    let served = Served::start(&[]);
    let port = served.rest;
    assert_eq!(told(port, "GET /set/a/b%20c?EX=100", ""), ok(r#"{"result":"OK"}"#));
    assert_eq!(told(port, "GET /get/a", ""), ok(r#"{"result":"b c"}"#));
    assert_eq!(told(port, "POST /set/a", "\"ä\n"), ok(r#"{"result":"OK"}"#));
    assert_eq!(
        told(port, "POST /", r#"["GET","a"]"#),
        ok(r#"{"result":"\"ä\n"}"#.replace("\n\"}", "\\n\"}").as_str())
    );
    let encoded = asked(port, "GET /get/a", &["Upstash-Encoding: base64"], "");
    assert_eq!(encoded.body, r#"{"result":"IsOkCg=="}"#);
    let pipeline = r#"[["MSET","a","1","b","2","c","3"],["MGET","a","b","c","d"],["LPUSH","a","x"]]"#;
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    let expected = format!(r#"[{{"result":"OK"}},{{"result":["1","2","3",null]}},{{"error":"{wrong}"}}]"#);
    assert_eq!(told(port, "POST /pipeline", pipeline), ok(&expected));
    let whole = r#"[["SET","n","1"],["INCR","n"]]"#;
    assert_eq!(told(port, "POST /multi-exec", whole), ok(r#"[{"result":"OK"},{"result":2}]"#));
    let aborted = told(port, "POST /multi-exec", r#"[["SET","n"]]"#);
    assert!(aborted.0 == 400 && aborted.1.starts_with(r#"{"error":"EXECABORT "#), "{aborted:?}");
    let unknown = told(port, "GET /nothing", "");
    assert!(unknown.0 == 400 && unknown.1.starts_with(r#"{"error":"ERR unknown command "#), "{unknown:?}");
}

#[test]
fn requests_of_webdis_are_answered() {
    let served = Served::start(&["--databases=16"]);
    let port = served.webdis;
    assert_eq!(told(port, "PUT /SET/a", "x"), ok(r#"{"SET":[true,"OK"]}"#));
    assert_eq!(told(port, "GET /GET/a", ""), ok(r#"{"GET":"x"}"#));
    assert_eq!(told(port, "GET /GET/a.txt", ""), ok("x"));
    assert_eq!(told(port, "GET /GET/a.raw", ""), ok("$1\r\nx\r\n"));
    assert_eq!(told(port, "GET /GET/none.txt", "").0, 404);
    assert_eq!(told(port, "GET /HSET/h/f/v", ""), ok(r#"{"HSET":1}"#));
    assert_eq!(told(port, "GET /HGETALL/h.json", ""), ok(r#"{"HGETALL":{"f":"v"}}"#));
    assert_eq!(told(port, "POST /", "SET/a/y"), ok(r#"{"SET":[true,"OK"]}"#));
    assert_eq!(told(port, "GET /7/GET/a", ""), ok(r#"{"GET":null}"#));
    assert_eq!(told(port, "GET /GET/a", ""), ok(r#"{"GET":"y"}"#), "no other client has its database");
}

#[test]
fn a_token_is_a_user_for_one_request() {
    let directory = Directory::new();
    let acl =
        directory.write("users.acl", "user default on >secret ~* &* +@all\nuser ann on >pw ~ann:* +@all\n");
    let served = Served::start(&[&format!("--acl-file={acl}")]);
    let client = Client::connect(served.rest);
    let ask = |token: Option<&str>, path: &str| {
        let header = token.map(|token| format!("Authorization: Bearer {token}"));
        let headers: Vec<&str> = header.iter().map(String::as_str).collect();
        let answer = over(&mut client.stream(), &text(&format!("GET {path}"), &headers, ""));
        (answer.status, answer.body)
    };
    assert_eq!(ask(None, "/get/a").0, 401);
    assert_eq!(ask(Some("secret"), "/set/a/1"), ok(r#"{"result":"OK"}"#));
    assert_eq!(ask(Some("ann:pw"), "/set/ann:a/1"), ok(r#"{"result":"OK"}"#));
    assert_eq!(ask(Some("ann:pw"), "/get/a").0, 403);
    assert_eq!(ask(None, "/get/a").0, 401, "the connection forgets the user");
    let wrong = ask(Some("ann:x"), "/get/ann:a");
    assert!(wrong.0 == 401 && wrong.1.starts_with(r#"{"error":"WRONGPASS "#), "{wrong:?}");
    assert_eq!(ask(Some("secret"), "/get/a"), ok(r#"{"result":"1"}"#));
}

#[test]
fn large_values_and_pipelined_requests_pass() {
    let served = Served::start(&[]);
    let value = "0123456789abcdef".repeat(5 << 16);
    assert_eq!(told(served.rest, "POST /set/large", &value), ok(r#"{"result":"OK"}"#));
    let mut client = Client::connect(served.rest);
    let both = [text("GET /get/large", &[], ""), text("GET /echo/x", &["Connection: close"], "")].concat();
    client.send(both.as_bytes());
    let (bytes, _) = client.read_to_end();
    let answer = String::from_utf8(bytes).expect("ASCII");
    let (head, rest) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
    let (body, second) = rest.split_once("\r\n0\r\n\r\n").expect("the last chunk");
    assert!(second.ends_with(r#"{"result":"x"}"#), "{second}");
    // Every second line is the length of a chunk.
    let chunks: String = body.split("\r\n").skip(1).step_by(2).collect();
    assert!(chunks == format!("{{\"result\":\"{value}\"}}"), "{} bytes", chunks.len());
}

#[test]
fn http_works_over_tls() {
    let (authority, directory, port) = (Authority::new(), Directory::new(), free_ports(1)[0]);
    let identity = authority.sign(&["127.0.0.1"]);
    let flags = identity_flags(&directory, "", "cert", &identity);
    let listener = format!("--listener=127.0.0.1:{port} tls http");
    let mut all: Vec<&str> = vec!["--port=0", &listener];
    all.extend(flags.iter().map(String::as_str));
    let _proxy = Proxy::start(&all);
    let client = Dialect::trusting(&authority).connect(port).expect("a handshake");
    let answer = over(client.into_wire(), &text("GET /ping", &["Connection: close"], ""));
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"result":"PONG"}"#));
}

#[test]
fn refused_clients_get_http_errors() {
    let served = Served::start(&["--maxclients=1"]);
    let mut client = Client::connect(served.rest);
    assert_eq!(over(&mut client.stream(), &text("GET /ping", &[], "")).status, 200);
    let full = told(served.webdis, "GET /PING", "");
    assert_eq!(full, (503, "{\"error\":\"ERR max number of clients reached\"}\n".to_owned()));
    client.send(b"*1\r\n$4\r\nPING\r\n");
    let (bytes, _) = client.read_to_end();
    let answer = String::from_utf8_lossy(&bytes).into_owned();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.contains("Connection: close\r\n"), "{answer}");
    assert!(served.proxy.output().contains("(HTTP as webdis)"));
}
