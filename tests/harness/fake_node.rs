//! A scripted node: it answers as a script says, stops in mid-reply, greets with an error, or sends unasked bytes.

use super::acceptor::Acceptor;
use super::poll_until;
use resp::request::{RequestLimits, Scanned, Scanner};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The fake's reaction to one request.
pub(crate) enum Answer {
    /// Sends these bytes, valid or not.
    Bytes(Vec<u8>),
    /// Sends these bytes and ends the connection.
    BytesThenClose(Vec<u8>),
    /// Says nothing.
    Silence,
}

type Script = Box<dyn Fn(&[Vec<u8>]) -> Answer + Send + Sync>;

/// One listener with a thread per connection; all end with the value.
pub(crate) struct FakeNode {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    _acceptor: Acceptor,
}

struct Shared {
    script: Script,
    /// Sent before anything else on every connection, which is then closed.
    greeting: Mutex<Option<Vec<u8>>>,
    /// The connections that are open, each with its number.
    open: Mutex<Vec<(u64, TcpStream)>>,
    /// Number of connections.
    accepted: AtomicU64,
}

impl FakeNode {
    /// Listens on a free port. `script` answers every request that is not housekeeping. Those are PING without argument, HELLO,
    /// CLIENT, SELECT and COMMAND, which get a node's replies.
    pub(crate) fn start(script: impl Fn(&[Vec<u8>]) -> Answer + Send + Sync + 'static) -> FakeNode {
        let shared = Arc::new(Shared {
            script: Box::new(script),
            greeting: Mutex::new(None),
            open: Mutex::new(Vec::new()),
            accepted: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = Acceptor::start(move |stream| {
            let serving = Arc::clone(&accepting);
            std::thread::spawn(move || serving.serve(stream));
        });
        FakeNode { port: acceptor.port, shared, _acceptor: acceptor }
    }

    /// From now on every new connection gets `greeting` and is closed; `None` ends that.
    pub(crate) fn set_greeting(&self, greeting: Option<&[u8]>) {
        *self.shared.greeting.lock().expect("no lock holder panics") = greeting.map(<[u8]>::to_vec);
    }

    /// Sends `bytes` unasked on every open connection, and returns their number.
    pub(crate) fn inject(&self, bytes: &[u8]) -> usize {
        let mut open = self.shared.open.lock().expect("no lock holder panics");
        // The other side may be closing just now; then there is no reader to mislead.
        open.iter_mut().filter_map(|(_, stream)| stream.write_all(bytes).ok()).count()
    }

    /// Ends every open connection.
    pub(crate) fn cut_all(&self) {
        for (_, stream) in self.shared.open.lock().expect("no lock holder panics").iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Number of connections so far; see [`FakeNode::wait_until_closed`].
    pub(crate) fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Waits until the other side has closed the first `accepted` connections. It may have made others since.
    #[track_caller]
    pub(crate) fn wait_until_closed(&self, accepted: u64) {
        poll_until("the proxy to close its connections to the fake node", || {
            let open = self.shared.open.lock().expect("no lock holder panics");
            open.iter().all(|(number, _)| *number > accepted).then_some(())
        });
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.cut_all();
    }
}

impl Shared {
    /// Runs one connection until either side ends it.
    fn serve(&self, mut stream: TcpStream) {
        let greeting = self.greeting.lock().expect("no lock holder panics").clone();
        if let Some(greeting) = greeting {
            let _ = stream.write_all(&greeting);
            return;
        }
        let Ok(registered) = stream.try_clone() else { return };
        let number = self.accepted.fetch_add(1, Ordering::SeqCst) + 1;
        self.open.lock().expect("no lock holder panics").push((number, registered));
        self.answer_requests(&mut stream);
        // The registered clone keeps the socket open: only a shutdown tells the other side.
        let _ = stream.shutdown(Shutdown::Both);
        self.open.lock().expect("no lock holder panics").retain(|(other, _)| *other != number);
    }

    fn answer_requests(&self, stream: &mut TcpStream) {
        let (mut unread, mut chunk) = (Vec::new(), [0; 16 * 1024]);
        let mut scanner = Scanner::default();
        let (mut spans, mut inline) = (Vec::new(), Vec::new());
        loop {
            while let Ok(Scanned::Request { len }) =
                scanner.scan(&unread, &RequestLimits::default(), &mut spans, &mut inline)
            {
                let args: Vec<Vec<u8>> =
                    spans.iter().map(|span| unread[span.start..span.start + span.len].to_vec()).collect();
                unread.drain(..len);
                let (bytes, close) = match housekeeping(&args).unwrap_or_else(|| (self.script)(&args)) {
                    Answer::Bytes(bytes) => (bytes, false),
                    Answer::BytesThenClose(bytes) => (bytes, true),
                    Answer::Silence => continue,
                };
                if stream.write_all(&bytes).is_err() || close {
                    return;
                }
            }
            match stream.read(&mut chunk) {
                Ok(0) | Err(_) => return,
                Ok(count) => unread.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

/// The reply to a proxy's own requests.
fn housekeeping(args: &[Vec<u8>]) -> Option<Answer> {
    let name = args[0].to_ascii_uppercase();
    let reply: &[u8] = match (&name[..], args.len()) {
        (b"PING", 1) => b"+PONG\r\n",
        (b"INFO", _) => b"-NOPERM this user has no permissions to run the 'info' command\r\n",
        (b"CLIENT" | b"SELECT", _) => b"+OK\r\n",
        (b"HELLO", _) => b"-ERR unknown command 'HELLO', with args beginning with: \r\n",
        (b"COMMAND", _) => b"*0\r\n",
        _ => return None,
    };
    Some(Answer::Bytes(reply.to_vec()))
}
