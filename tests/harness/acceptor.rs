//! A listener of the test's own, on a free port of the loopback.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A thread that accepts connections. It ends with its value.
pub(crate) struct Acceptor {
    pub(crate) port: u16,
    ended: Arc<AtomicBool>,
}

impl Acceptor {
    /// From now on `take` gets each new connection; the next one waits until it returns.
    pub(crate) fn start(take: impl Fn(TcpStream) + Send + 'static) -> Acceptor {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ended);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                // A connection that has ended already is ignored.
                stream.into_iter().for_each(&take);
            }
        });
        Acceptor { port, ended }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the thread, which sees that it has ended.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}
