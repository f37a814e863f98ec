//! TLS over pipes in memory: without sockets, and with control over every byte.

use super::*;
use crate::credentials::{Acceptor, ClientAuth, Connector, Identity, Trust};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// One direction of a pipe.
#[derive(Debug, Default)]
struct Way {
    bytes: VecDeque<u8>,
    /// Most bytes that it holds; more have to wait.
    capacity: usize,
    /// Most bytes that one read returns.
    step: usize,
    is_shut: bool,
}

/// One end of a pipe.
#[derive(Debug)]
struct End {
    incoming: Rc<RefCell<Way>>,
    outgoing: Rc<RefCell<Way>>,
}

impl Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut way = self.incoming.borrow_mut();
        let len = way.step.min(way.bytes.len()).min(buffer.len());
        if len == 0 && !way.is_shut {
            return Err(ErrorKind::WouldBlock.into());
        }
        buffer.iter_mut().zip(way.bytes.drain(..len)).for_each(|(place, byte)| *place = byte);
        Ok(len)
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut way = self.outgoing.borrow_mut();
        if way.is_shut {
            return Err(ErrorKind::ConnectionReset.into());
        }
        let len = bytes.len().min(way.capacity - way.bytes.len().min(way.capacity));
        if len == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        way.bytes.extend(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A self-signed certificate for `name` and its key, in PEM.
fn certificate(name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn identity((certificate, key): &(String, String)) -> Identity {
    Identity::new(certificate.as_bytes(), key.as_bytes()).expect("they fit")
}

/// A client and a server with a pipe between them.
struct Pair {
    client: TlsStream<End>,
    server: TlsStream<End>,
}

impl Pair {
    /// Before the handshake.
    fn new(connector: &Connector, acceptor: &Acceptor, name: &str) -> Pair {
        let way = || {
            let way = Way { capacity: usize::MAX, step: usize::MAX, ..Way::default() };
            Rc::new(RefCell::new(way))
        };
        let (up, down) = (way(), way());
        let client = End { incoming: Rc::clone(&down), outgoing: Rc::clone(&up) };
        let server = End { incoming: up, outgoing: down };
        Pair {
            client: TlsStream::new(client, connector.begin(name).expect("a name"), Account::default()),
            server: TlsStream::new(server, acceptor.begin().expect("a server"), Account::default()),
        }
    }

    /// Before the handshake, with a certificate that the client trusts.
    fn usual() -> Pair {
        let made = certificate("node.test");
        let connector = Connector::new(Trust::Authorities(made.0.as_bytes()), None).expect("it trusts");
        let acceptor = Acceptor::new(vec![identity(&made)], ClientAuth::No, b"").expect("it accepts");
        Pair::new(&connector, &acceptor, "node.test")
    }

    /// After the handshake.
    fn connected() -> Pair {
        let mut pair = Pair::usual();
        pair.shake().expect("they agree");
        pair
    }

    /// Runs the handshake of both. An error is the reason of the first side that refuses.
    fn shake(&mut self) -> io::Result<()> {
        for _ in 0..100_000 {
            // Both continue, whatever the other does.
            let (client, server) = (self.client.handshake()?, self.server.handshake()?);
            if client && server {
                return Ok(());
            }
        }
        panic!("the handshake does not end");
    }

    /// The pipe from the client to the server.
    fn up(&self) -> std::cell::RefMut<'_, Way> {
        self.client.below.outgoing.borrow_mut()
    }
}

/// The size of a driver's buffer while other connections wait.
const BUFFER_BYTES: usize = 32 * 1024;

/// All bytes that can be read now, and the next step.
fn read_all(stream: &mut TlsStream<End>) -> (Vec<u8>, Then) {
    let (mut all, mut buffer) = (Vec::new(), vec![0; BUFFER_BYTES]);
    loop {
        let Progress { len, then } = stream.read(&mut buffer).expect("no error");
        all.extend_from_slice(&buffer[..len]);
        assert!(stream.unread.len() <= RECORD_BYTES_MAX + 2048, "{} bytes kept", stream.unread.len());
        if then != Then::More {
            return (all, then);
        }
    }
}

/// Bytes with a pattern that shows every change of their order.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn bytes_that_come_one_by_one_make_handshake_and_messages() {
    let mut pair = Pair::usual();
    pair.up().step = 1;
    pair.server.below.outgoing.borrow_mut().step = 1;
    pair.shake().expect("they agree");
    for len in [1, 2, 100, 5000, 20_000] {
        let message = pattern(len);
        assert_eq!(pair.client.write(&message).expect("open"), len);
        let mut received = Vec::new();
        while !pair.up().bytes.is_empty() {
            received.extend(read_all(&mut pair.server).0);
        }
        assert_eq!(received, message);
        assert_eq!(pair.server.write(&message).expect("open"), len);
        let mut received = Vec::new();
        while !pair.client.below.incoming.borrow().bytes.is_empty() {
            received.extend(read_all(&mut pair.client).0);
        }
        assert_eq!(received, message);
    }
}

#[test]
fn records_may_be_cut_anywhere() {
    let mut pair = Pair::connected();
    let (first, second) = (pattern(40), pattern(9));
    let mut cut = 0;
    loop {
        pair.client.write(&first).expect("open");
        pair.client.write(&second).expect("open");
        let mut rest: VecDeque<u8> = {
            let mut way = pair.up();
            let cut = cut.min(way.bytes.len());
            way.bytes.split_off(cut)
        };
        let is_over = rest.is_empty();
        let (mut received, then) = read_all(&mut pair.server);
        assert_eq!(then, Then::Wait);
        pair.up().bytes.append(&mut rest);
        received.extend(read_all(&mut pair.server).0);
        assert_eq!(received, [&first[..], &second[..]].concat(), "cut at {cut}");
        if is_over {
            assert!(cut > first.len() + second.len() + 2 * 16, "it has been through the records");
            return;
        }
        cut += 1;
    }
}

#[test]
fn nothing_is_kept_back_while_the_socket_is_silent() {
    let mut pair = Pair::connected();
    for record in [1, 100, 4096, RECORD_BYTES_MAX] {
        let message = pattern(record * 37 + 300_000 / record.max(300) * record);
        for part in message.chunks(record) {
            assert_eq!(pair.client.write(part).expect("open"), part.len());
        }
        // The socket reported one edge and will report no other: this read must bring all bytes.
        let (received, then) = read_all(&mut pair.server);
        assert!(received == message && then == Then::Wait, "{} of {}", received.len(), message.len());
        assert!(pair.server.unread.is_empty());
    }
}

#[test]
fn a_read_takes_no_more_than_its_buffer_and_keeps_little() {
    let mut pair = Pair::connected();
    let message = pattern(1 << 20);
    assert_eq!(pair.client.write(&message).expect("open"), message.len());
    let before = pair.up().bytes.len();
    let mut buffer = vec![0; BUFFER_BYTES];
    let progress = pair.server.read(&mut buffer).expect("open");
    assert_eq!(progress.then, Then::More);
    assert!(progress.len <= BUFFER_BYTES / 2 && buffer[..progress.len] == message[..progress.len]);
    let taken = before - pair.up().bytes.len();
    assert_eq!(pair.server.account.total(), pair.server.unread.capacity());
    let sum = pair.server.account.another();
    drop(pair);
    assert_eq!(sum.total(), 0, "what is gone holds nothing");
    assert!(taken <= progress.len + 2 * (RECORD_BYTES_MAX + 2048), "{taken} bytes for {}", progress.len);
}

#[test]
fn taken_bytes_were_received_and_the_rest_waits() {
    let mut pair = Pair::connected();
    pair.up().capacity = 50_000;
    let message = pattern(200_000);
    let (mut taken, mut received) = (0, Vec::new());
    while taken < message.len() {
        let count = pair.client.write(&message[taken..]).expect("open");
        taken += count;
        assert!(pair.client.sealed.len() <= RECORD_BYTES_MAX + 2048, "one record waits at most");
        // If the connection is lost now, the bytes that were certainly not received are known.
        assert_eq!(pair.client.account.total(), pair.client.sealed.capacity());
        received.extend(read_all(&mut pair.server).0);
        assert!(received.len() >= taken && received.len() <= taken + RECORD_BYTES_MAX);
    }
    assert_eq!(received, message);
    assert_eq!(pair.client.account.total() + pair.server.account.total(), 0, "an idle stream owns no buffer");
}

#[test]
fn the_end_is_reported_after_all_bytes() {
    let mut pair = Pair::connected();
    pair.client.write(b"last words").expect("open");
    pair.client.say_goodbye();
    assert_eq!(read_all(&mut pair.server), (b"last words".to_vec(), Then::End));
    // Now the other direction.
    assert_eq!(pair.server.write(b"understood").expect("open"), 10);
    assert_eq!(read_all(&mut pair.client).0, b"understood");
}

#[test]
fn an_end_without_a_goodbye_is_an_end() {
    let mut pair = Pair::connected();
    pair.client.write(&pattern(50_000)).expect("open");
    pair.up().is_shut = true;
    assert_eq!(read_all(&mut pair.server), (pattern(50_000), Then::End));
}

#[test]
fn bytes_that_were_changed_on_the_way_are_refused() {
    let mut pair = Pair::connected();
    pair.client.write(b"GET a").expect("open");
    let middle = pair.up().bytes.len() / 2;
    pair.up().bytes[middle] ^= 1;
    let error = pair.server.read(&mut vec![0; BUFFER_BYTES]).expect_err("it was changed");
    assert_eq!(error.to_string(), "TLS: cannot decrypt peer's message");
}

#[test]
fn a_peer_without_tls_is_recognised_and_gets_an_alert() {
    let mut pair = Pair::usual();
    pair.up().bytes.extend(b"*1\r\n$4\r\nPING\r\n");
    let error = pair.server.handshake().expect_err("it is RESP");
    assert_eq!(error.to_string(), "TLS: the peer does not speak TLS");
    assert_eq!(pair.client.below.incoming.borrow().bytes.front(), Some(&21), "an alert");
}

#[test]
fn a_handshake_that_does_not_end_is_refused() {
    let mut pair = Pair::usual();
    // The start of a handshake message of 60,000 bytes, in records of 1,000.
    pair.up().bytes.extend([22, 3, 1, 0x03, 0xe8, 1, 0, 0xea, 0x60]);
    pair.up().bytes.extend([0; 996]);
    let mut sent = 0;
    let error = loop {
        match pair.server.handshake() {
            Ok(is_over) => assert!(!is_over && sent < 2 * HANDSHAKE_BYTES_MAX),
            Err(error) => break error,
        }
        pair.up().bytes.extend([22, 3, 1, 0x03, 0xe8]);
        pair.up().bytes.extend([0; 1000]);
        sent += 1005;
    };
    assert_eq!(error.to_string(), "TLS: the handshake is too long");
}

#[test]
fn a_close_during_the_handshake_is_reported_as_such() {
    let mut pair = Pair::usual();
    pair.client.handshake().expect("it begins");
    pair.up().bytes.truncate(20);
    pair.up().is_shut = true;
    let error = pair.server.handshake().expect_err("it has gone");
    assert_eq!(error.to_string(), "TLS: connection closed during the handshake");
}

#[test]
fn a_request_right_behind_the_handshake_is_not_lost() {
    let mut pair = Pair::usual();
    assert!(!pair.client.handshake().expect("it begins"));
    assert!(!pair.server.handshake().expect("it answers"));
    assert!(pair.client.handshake().expect("it is done"));
    // Before the server has seen the client's last message of the handshake.
    let message = pattern(60_000);
    assert_eq!(pair.client.write(&message).expect("open"), message.len());
    assert!(pair.server.handshake().expect("it is done"));
    assert_eq!(read_all(&mut pair.server), (message, Then::Wait));
}

#[test]
fn nodes_are_trusted_only_with_the_right_name_and_authority() {
    let (right, other) = (certificate("node.test"), certificate("node.test"));
    let acceptor = Acceptor::new(vec![identity(&right)], ClientAuth::No, b"").expect("it accepts");
    let reason = |trust: Trust<'_>, name: &str| {
        let connector = Connector::new(trust, None).expect("it trusts");
        Pair::new(&connector, &acceptor, name).shake().err().map(|error| error.to_string())
    };
    assert_eq!(reason(Trust::Authorities(right.0.as_bytes()), "node.test"), None);
    let wrong_name = reason(Trust::Authorities(right.0.as_bytes()), "else.test").expect("another name");
    assert!(wrong_name.contains("not valid for name \"else.test\""), "{wrong_name}");
    let unknown = reason(Trust::Authorities(other.0.as_bytes()), "node.test").expect("another authority");
    assert!(unknown.starts_with("TLS: invalid peer certificate"), "{unknown}");
    assert_eq!(reason(Trust::Anybody, "else.test"), None);
}

#[test]
fn clients_show_certificates_as_the_listener_demands() {
    let (server, client, stranger) = (certificate("node.test"), certificate("client"), certificate("client"));
    let outcome = |auth: ClientAuth, shown: Option<&(String, String)>| {
        let acceptor = Acceptor::new(vec![identity(&server)], auth, client.0.as_bytes()).expect("it accepts");
        let trust = Trust::Authorities(server.0.as_bytes());
        let connector = Connector::new(trust, shown.map(identity)).expect("it trusts");
        let mut pair = Pair::new(&connector, &acceptor, "node.test");
        pair.shake().map_err(|error| error.to_string())
    };
    assert_eq!(outcome(ClientAuth::No, None), Ok(()));
    assert_eq!(outcome(ClientAuth::Optional, None), Ok(()));
    assert_eq!(outcome(ClientAuth::Optional, Some(&client)), Ok(()));
    assert_eq!(outcome(ClientAuth::Required, Some(&client)), Ok(()));
    assert_eq!(outcome(ClientAuth::Required, None), Err("TLS: the client has no certificate".to_owned()));
    for auth in [ClientAuth::Optional, ClientAuth::Required] {
        let refused = outcome(auth, Some(&stranger)).expect_err("nobody knows it");
        assert!(refused.starts_with("TLS: invalid peer certificate"), "{refused}");
    }
}

#[test]
fn peer_alert_is_reported_even_after_a_failed_write() {
    let made = certificate("node.test");
    let connector = Connector::new(Trust::Authorities(made.0.as_bytes()), None).expect("it trusts");
    let acceptor = Acceptor::new(vec![identity(&made)], ClientAuth::Required, made.0.as_bytes());
    let mut pair = Pair::new(&connector, &acceptor.expect("it accepts"), "node.test");
    assert!(!pair.client.handshake().expect("it begins"));
    assert!(!pair.server.handshake().expect("it answers"));
    assert!(pair.client.handshake().expect("for the client it is over"));
    assert!(pair.server.handshake().is_err());
    pair.up().is_shut = true;
    let error = pair.client.write(b"PING").expect_err("it has gone");
    assert_eq!(error.to_string(), "TLS: the peer requires a client certificate");
    let mut pair = Pair::connected();
    pair.up().is_shut = true;
    let error = pair.client.write(b"PING").expect_err("it has gone");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "and said nothing");
}

#[test]
fn listener_chooses_the_certificate_by_server_name() {
    let (first, second) = (certificate("first.test"), certificate("second.test"));
    let identities = vec![identity(&first), identity(&second)];
    let acceptor = Acceptor::new(identities, ClientAuth::No, b"").expect("it accepts");
    for (name, trusted, is_fine) in [
        ("first.test", &first, true),
        ("second.test", &second, true),
        ("second.test", &first, false),
        ("third.test", &second, false),
    ] {
        let connector = Connector::new(Trust::Authorities(trusted.0.as_bytes()), None).expect("it trusts");
        assert_eq!(Pair::new(&connector, &acceptor, name).shake().is_ok(), is_fine, "{name}");
    }
}

#[test]
fn a_client_that_comes_back_resumes_its_session() {
    let made = certificate("node.test");
    let connector = Connector::new(Trust::Authorities(made.0.as_bytes()), None).expect("it trusts");
    let acceptor = Acceptor::new(vec![identity(&made)], ClientAuth::No, b"").expect("it accepts");
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let mut pair = Pair::new(&connector, &acceptor, "node.test");
        pair.shake().expect("they agree");
        // The ticket comes after the handshake.
        pair.client.read(&mut vec![0; BUFFER_BYTES]).expect("open");
        kinds.push(pair.server.tls.handshake_kind());
    }
    assert_eq!(kinds, [Some(rustls::HandshakeKind::Full), Some(rustls::HandshakeKind::Resumed)]);
}

#[test]
fn unusable_credentials_are_refused_with_their_fault() {
    let (one, other) = (certificate("a.test"), certificate("b.test"));
    let reason = |certificates: &str, key: &str| {
        Identity::new(certificates.as_bytes(), key.as_bytes()).expect_err("of no use").to_string()
    };
    assert!(reason("", &one.1).contains("BEGIN CERTIFICATE"));
    assert!(reason(&one.1, &one.1).contains("BEGIN CERTIFICATE"));
    assert!(reason(&one.0, &one.0).contains("BEGIN PRIVATE KEY"));
    assert!(reason(&one.0, &other.1).contains("do not fit"));
    assert!(reason(&one.0[..80], &one.1).contains("no PEM"), "{}", reason(&one.0[..80], &one.1));
    let authority = Connector::new(Trust::Authorities(b"nothing"), None).expect_err("nobody to trust");
    assert!(authority.to_string().contains("BEGIN CERTIFICATE"));
    assert!(Connector::new(Trust::Anybody, None).expect("fine").begin("not a name").is_err());
}

#[test]
fn faults_of_certificates_are_described_in_words() {
    let at = |days: u64| UnixTime::since_unix_epoch(Duration::from_secs(days * DAY_S));
    let expired = CertificateError::ExpiredContext { time: at(20_000), not_after: at(19_990) };
    let early = CertificateError::NotValidYetContext { time: at(20_000), not_before: at(20_003) };
    for (fault, words) in [
        (CertificateError::UnknownIssuer, "its issuer is not a trusted authority"),
        (expired, "it expired 10 days ago by this machine's clock"),
        (early, "by this machine's clock it is valid in 3 days only"),
    ] {
        let told = explain(&Error::InvalidCertificate(fault));
        assert_eq!(told, format!("invalid peer certificate: {words}"));
    }
}

#[test]
fn an_authoritys_own_certificate_is_named_as_such() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(vec!["node.test".to_owned()]).expect("a name");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let made = (params.self_signed(&key).expect("it signs").pem(), key.serialize_pem());
    let acceptor = Acceptor::new(vec![identity(&made)], ClientAuth::No, b"").expect("it accepts");
    let connector = Connector::new(Trust::Authorities(made.0.as_bytes()), None).expect("it trusts");
    let error = Pair::new(&connector, &acceptor, "node.test").shake().expect_err("OpenSSL alone takes it");
    assert!(error.to_string().contains("it is an authority's own, as self-signed ones are"), "{error}");
}
