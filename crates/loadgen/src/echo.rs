//! `loadgen echo`: the floor that the proxy is compared with. On the proxy's driver it reads, finds where requests end, and
//! answers each with the same bytes. It copies no request, and sends replies from where they were prepared. The rest of a
//! proxy's work (routing, two more sockets per request, order) is the proxy's own cost.

use crate::canned::FILL;
use crate::frame::{Framer, Malformed};
use crate::report;
use crate::service::{Answer, Service};
use anyhow::Result;
use driver::Driver;

/// Options of `loadgen echo`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Port to listen on, 0 for a free one; printed as the first line
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Bytes of a bulk reply, as to a GET [default: the reply is +OK]
    #[arg(long, value_name = "BYTES")]
    pub data: Option<usize>,
    /// Busy polling: the thread never sleeps
    #[arg(long)]
    pub spin: bool,
}

/// Serves without end.
pub fn run(options: &Options) -> Result<()> {
    let mut reply = Vec::new();
    match options.data {
        Some(bytes) => resp::encode::bulk(&mut reply, &vec![FILL; bytes]),
        None => resp::encode::simple(&mut reply, b"OK"),
    }
    let driver = Driver::new()?;
    let echo = Service::listen(&[options.port], Echo::new(&reply), &driver, 0)?;
    report::print_ports(echo.ports());
    echo.serve(driver, options.spin)
}

/// The one reply.
#[derive(Debug)]
pub struct Echo {
    /// As often as one write may take.
    repeated: Vec<u8>,
    reply_bytes: usize,
}

/// One connection.
#[derive(Debug, Default)]
pub struct Conn {
    framer: Framer,
    owed_bytes: usize,
    /// Bytes of the first reply that is owed that were sent.
    at: usize,
}

/// The most bytes of one write. The replies of +OK to one read take fewer.
const REPEATED_BYTES: usize = 128 * 1024;

impl Echo {
    /// Answers everything with `reply`, which must not be empty.
    pub fn new(reply: &[u8]) -> Echo {
        Echo { repeated: reply.repeat((REPEATED_BYTES / reply.len()).max(1)), reply_bytes: reply.len() }
    }
}

impl Answer for Echo {
    type Conn = Conn;

    fn receive(&self, conn: &mut Conn, bytes: &[u8]) -> Result<(), Malformed> {
        let mut requests = 0;
        conn.framer.feed(bytes, &mut |_| requests += 1)?;
        conn.owed_bytes += requests * self.reply_bytes;
        Ok(())
    }

    fn owed<'a>(&'a self, conn: &'a Conn) -> &'a [u8] {
        &self.repeated[conn.at..self.repeated.len().min(conn.at + conn.owed_bytes)]
    }

    fn sent(&self, conn: &mut Conn, count: usize) {
        conn.owed_bytes -= count;
        conn.at = (conn.at + count) % self.reply_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_once_however_replies_are_cut() {
        let (echo, mut conn) = (Echo::new(b"+OK\r\n"), Conn::default());
        let requests = 100_000;
        echo.receive(&mut conn, &b"*1\r\n$4\r\nPING\r\n".repeat(requests)).expect("RESP");
        let mut seen = Vec::new();
        while !echo.owed(&conn).is_empty() {
            let count = echo.owed(&conn).len().min(1013);
            seen.extend_from_slice(&echo.owed(&conn)[..count]);
            echo.sent(&mut conn, count);
        }
        assert_eq!(seen, b"+OK\r\n".repeat(requests));
    }
}
