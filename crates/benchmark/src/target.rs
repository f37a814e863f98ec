//! The server of a run: its address, TLS, the beginning of a connection, and questions before a run.

use crate::args::ServerArgs;
use crate::cluster::{self, Primary};
use crate::http::Url;
use crate::plan::{Node, Target};
use anyhow::{Context, Result, anyhow, bail};
use driver::{Connector, Driver, Event, Identity, Trust};
use loadgen::clock::Clock;
use resp::encode;
use resp::reply::{self, ReplyLimits, Scanner};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;
use stdx::Id;

/// Time for the answers to questions before a run.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of those answers.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The server as the command line names it, `-u` included.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// As users see it.
    pub(crate) name: String,
    pub(crate) target: Target,
    /// Requests at the beginning of each connection, and the number of their replies.
    pub(crate) opening: Vec<u8>,
    pub(crate) opening_replies: u32,
}

/// Parts of a URI, which win over flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Uri {
    is_tls: bool,
    user: Option<String>,
    password: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    database: Option<u32>,
}

/// `redis://user:password@host:port/database`, with `rediss` for TLS.
fn parse_uri(text: &str) -> Result<Uri, String> {
    let wrong = || format!("-u {text}: write redis://user:password@host:port/database");
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    let is_tls = match scheme {
        "redis" => false,
        "rediss" => true,
        _ => return Err(wrong()),
    };
    let (credentials, rest) =
        rest.rsplit_once('@').map_or((None, rest), |(before, rest)| (Some(before), rest));
    let (user, password) = match credentials.map(|text| text.split_once(':').unwrap_or((text, ""))) {
        None => (None, None),
        // As in redis-benchmark, a single word is the password.
        Some((word, "")) => (None, Some(unescaped(word).ok_or_else(wrong)?)),
        Some((user, password)) => {
            let user = unescaped(user).filter(|user| !user.is_empty());
            (user, Some(unescaped(password).ok_or_else(wrong)?))
        }
    };
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
        None => (authority, None),
    };
    let host = Some(host.trim_matches(['[', ']']).to_owned()).filter(|host| !host.is_empty());
    let database = if database.is_empty() { None } else { Some(database.parse().map_err(|_| wrong())?) };
    Ok(Uri { is_tls, user, password, host, port, database })
}

/// A text without percent-encoding.
fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        if byte == b'%' {
            let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &behind[2..];
        } else {
            bytes.push(byte);
            rest = behind;
        }
    }
    String::from_utf8(bytes).ok()
}

impl Server {
    /// The server of `args`.
    pub(crate) fn new(args: &ServerArgs, is_tracking: bool) -> Result<Server> {
        let uri =
            args.uri.as_deref().map_or(Ok(Uri::default()), parse_uri).map_err(|error| anyhow!(error))?;
        let host = uri.host.as_ref().unwrap_or(&args.host);
        let port = uri.port.unwrap_or(args.port);
        let (name, address) = match &args.socket {
            Some(path) => (path.display().to_string(), driver::Target::Unix(path.clone())),
            None => (format!("{host}:{port}"), driver::Target::Tcp(resolve(host, port)?)),
        };
        let is_tls = args.tls || uri.is_tls;
        let tls = is_tls
            .then(|| connector(args).map(|tls| (tls, args.sni.clone().unwrap_or(host.clone()))))
            .transpose()?;
        let password = uri.password.as_ref().or(args.password.as_ref()).map(String::as_bytes);
        let user = uri.user.as_ref().or(args.user.as_ref()).map(String::as_bytes);
        let mut opening = Vec::new();
        let mut requests: Vec<Vec<&[u8]>> = Vec::new();
        match (user, password) {
            (Some(user), Some(password)) => requests.push(vec![b"AUTH", user, password]),
            (None, Some(password)) => requests.push(vec![b"AUTH", password]),
            (Some(_), None) => bail!("--user needs -a"),
            (None, None) => {}
        }
        if args.resp3 {
            requests.push(vec![b"HELLO", b"3"]);
        }
        if is_tracking {
            requests.push(vec![b"CLIENT", b"TRACKING", b"on"]);
        }
        let database = uri.database.unwrap_or(args.dbnum).to_string();
        if database != "0" {
            requests.push(vec![b"SELECT", database.as_bytes()]);
        }
        requests.iter().for_each(|request| encode::request(&mut opening, request));
        let nodes = vec![Node { address, tags: Vec::new() }];
        Ok(Server { name, target: Target { nodes, tls }, opening, opening_replies: requests.len() as u32 })
    }

    /// The same settings for another address, `host:port`.
    pub(crate) fn at(&self, address: &str) -> Result<Server> {
        let (host, port) = address.rsplit_once(':').with_context(|| format!("{address}: write host:port"))?;
        let port = port.parse().with_context(|| format!("{address}: write host:port"))?;
        let addr = resolve(host.trim_matches(['[', ']']), port)?;
        let nodes = vec![Node { address: driver::Target::Tcp(addr), tags: Vec::new() }];
        let target = Target { nodes, tls: self.target.tls.clone() };
        Ok(Server { name: address.to_owned(), target, ..self.clone() })
    }

    /// The server of an HTTP address.
    pub(crate) fn http(url: &Url, args: &ServerArgs) -> Result<Server> {
        let address = driver::Target::Tcp(resolve(&url.host, url.port)?);
        let name = args.sni.clone().unwrap_or(url.host.clone());
        let tls = url.is_tls.then(|| connector(args).map(|tls| (tls, name))).transpose()?;
        let target = Target { nodes: vec![Node { address, tags: Vec::new() }], tls };
        let name = format!("{}:{}", url.host, url.port);
        Ok(Server { name, target, opening: Vec::new(), opening_replies: 0 })
    }

    /// The replies to `requests`, on a connection of their own.
    pub(crate) fn ask(&self, requests: &[Vec<&[u8]>]) -> Result<Vec<Vec<u8>>> {
        let mut out = self.opening.clone();
        requests.iter().for_each(|request| encode::request(&mut out, request));
        let expected = self.opening_replies as usize + requests.len();
        let mut replies =
            converse(&self.target, &out, expected).with_context(|| format!("cannot ask {}", self.name))?;
        for opening in replies.drain(..self.opening_replies as usize) {
            if reply::is_error(&opening) {
                bail!("{}: {}", self.name, crate::recorder::shown(&opening));
            }
        }
        Ok(replies)
    }

    /// The settings `save` and `appendonly`, as redis-benchmark shows them; `None` if the server does not tell.
    pub(crate) fn configuration(&self) -> Option<[String; 2]> {
        let questions = ["save", "appendonly"].map(|name| vec![&b"CONFIG"[..], b"GET", name.as_bytes()]);
        let replies = self.ask(&questions).ok()?;
        let value = |reply: &Vec<u8>| {
            let value = reply::elements(reply)?.nth(1)?;
            reply::as_bulk(value).map(|value| String::from_utf8_lossy(value).into_owned())
        };
        Some([value(replies.first()?)?, value(replies.get(1)?)?])
    }

    /// The same target as a cluster: its primaries, with tags of their slots.
    pub(crate) fn into_cluster(self) -> Result<(Server, Vec<Primary>)> {
        let replies = self.ask(&[vec![b"CLUSTER", b"NODES"]])?;
        let text = replies.first().and_then(|reply| reply::as_bulk(reply));
        let text = text.with_context(|| format!("{} is no node of a cluster", self.name))?;
        let mut primaries = cluster::primaries(&String::from_utf8_lossy(text));
        let own_host = match &self.target.nodes[0].address {
            driver::Target::Tcp(addr) => addr.ip().to_string(),
            driver::Target::Unix(_) => "127.0.0.1".to_owned(),
        };
        // A node that has not heard its own address yet tells an empty one.
        primaries
            .iter_mut()
            .filter(|node| node.host.is_empty())
            .for_each(|node| node.host.clone_from(&own_host));
        if primaries.is_empty() {
            bail!("{} knows no primary with slots", self.name);
        }
        let tags = cluster::tags();
        let node = |primary: &Primary| {
            let addr = resolve(&primary.host, primary.port)?;
            let tags = primary.slots.iter().map(|&slot| tags[slot]).collect();
            Ok(Node { address: driver::Target::Tcp(addr), tags })
        };
        let nodes = primaries.iter().map(node).collect::<Result<_>>()?;
        let target = Target { nodes, tls: self.target.tls.clone() };
        Ok((Server { target, ..self }, primaries))
    }
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr> {
    let mut addrs = (host, port).to_socket_addrs().with_context(|| format!("{host} has no address"))?;
    addrs.next().with_context(|| format!("{host} has no address"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}

fn connector(args: &ServerArgs) -> Result<Connector> {
    let mut authorities = Vec::new();
    if let Some(file) = &args.cacert {
        authorities.extend(read(file)?);
    }
    if let Some(folder) = &args.cacertdir {
        for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_file() {
                authorities.extend(read(&path)?);
            }
        }
    }
    let trust = match () {
        () if args.insecure => Trust::Anybody,
        () if authorities.is_empty() => Trust::System,
        () => Trust::Authorities(&authorities),
    };
    let identity = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => Some(Identity::new(&read(cert)?, &read(key)?).context("--cert, --key")?),
        _ => None,
    };
    Connector::new(trust, identity).context("TLS")
}

/// Sends `requests` to the first node and waits for `expected` replies.
fn converse(target: &Target, requests: &[u8], expected: usize) -> Result<Vec<Vec<u8>>> {
    let (mut driver, clock, id) = (Driver::new()?, Clock::start(), Id { index: 0, generation: 0 });
    match (&target.tls, &target.nodes[0].address) {
        (Some((connector, name)), driver::Target::Tcp(addr)) => {
            driver.connect_tls(id, *addr, connector, name)?
        }
        (_, address) => driver.connect(id, address)?,
    }
    let (mut unsent, mut received, mut replies) = (&[][..], Vec::new(), Vec::new());
    let mut scanner = Scanner::default();
    let deadline = clock.now() + ANSWERED_WITHIN;
    while replies.len() < expected {
        if clock.now() >= deadline {
            bail!("no answer within {ANSWERED_WITHIN:?}");
        }
        driver.wait(LOOK_EVERY)?;
        while let Some(event) = driver.next_event() {
            match event {
                Event::Connected(_) => unsent = requests,
                Event::Writable(_) => {}
                Event::Received(_, bytes) => received.extend_from_slice(bytes),
                Event::Ended(_) => bail!("the server closed the connection"),
                Event::Closed(_, error) => return Err(error.into()),
            }
            if !unsent.is_empty() {
                unsent = &unsent[driver.send(id, unsent)?..];
            }
        }
        while let Some(len) = scanner.scan(&received, &ReplyLimits::default())? {
            replies.push(received.drain(..len).collect());
        }
        if received.len() > ANSWER_BYTES_MAX {
            bail!("an answer of more than {ANSWER_BYTES_MAX} bytes");
        }
    }
    Ok(replies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read_as_redis_benchmark_reads_them() {
        let uri = parse_uri("rediss://us%65r:p%40ss@[::1]:7000/3").expect("valid");
        let expected = Uri {
            is_tls: true,
            user: Some("user".into()),
            password: Some("p@ss".into()),
            host: Some("::1".into()),
            port: Some(7000),
            database: Some(3),
        };
        assert_eq!(uri, expected);
        let uri = parse_uri("redis://secret@host").expect("valid");
        assert_eq!((uri.user, uri.password.as_deref(), uri.port), (None, Some("secret"), None));
        assert_eq!(parse_uri("redis://"), Ok(Uri::default()));
        for wrong in ["host:1", "http://a", "redis://a:x", "redis://%zz@a", "redis://a/b"] {
            assert!(parse_uri(wrong).is_err(), "{wrong}");
        }
    }
}
