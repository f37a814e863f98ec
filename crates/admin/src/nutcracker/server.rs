//! The thread of the stats port.

use super::NutcrackerStats;
use crate::server::Running;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

/// Connections at once. More wait to be accepted.
const CONNS_MAX: usize = 16;
/// The longest time of a connection, which ends then even if the other side has read nothing.
const CONN_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl NutcrackerStats {
    /// Answers at `socket`, which does not block, on a thread of its own until the process ends, or the server is stopped.
    pub fn serve(self, socket: std::net::TcpListener) -> io::Result<Running> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let running = Running::default();
        let server = running.clone().run(accept_all(socket, self));
        std::thread::Builder::new().name("nutcracker".to_owned()).spawn(move || runtime.block_on(server))?;
        Ok(running)
    }
}

/// Accepts for ever. Ends only if the listener cannot be used at all.
async fn accept_all(socket: std::net::TcpListener, stats: NutcrackerStats) {
    let Ok(listener) = TcpListener::from_std(socket) else { return };
    let places = Arc::new(Semaphore::new(CONNS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let text = stats.text();
        tokio::task::spawn(async move {
            // A reader that has gone, or that takes too long, is no concern of anybody's.
            let _ = tokio::time::timeout(CONN_TIMEOUT, write(stream, text)).await;
            drop(place);
        });
    }
}

async fn write(mut stream: TcpStream, text: String) -> io::Result<()> {
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}
