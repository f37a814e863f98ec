//! `loadgen nodes`: nodes that store nothing and answer at once, so that a measurement shows the proxy in front of
//! them.

use crate::canned::Canned;
use crate::frame::{Framer, Malformed};
use crate::report;
use crate::service::{Answer, Service};
use anyhow::Result;
use driver::Driver;

/// Options of `loadgen nodes`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Ports to listen on, 0 for a free one; printed as the first line
    #[arg(long, value_delimiter = ',', default_value = "0,0,0,0")]
    pub ports: Vec<u16>,
    /// Bytes of every value
    #[arg(long, value_name = "BYTES", default_value_t = 3)]
    pub data: usize,
    /// Busy polling: the thread never sleeps
    #[arg(long)]
    pub spin: bool,
}

/// Serves without end.
pub fn run(options: &Options) -> Result<()> {
    let driver = Driver::new()?;
    let nodes = Service::listen(&options.ports, Nodes::new(options.data), &driver, 0)?;
    report::print_ports(nodes.ports());
    nodes.serve(driver, options.spin)
}

/// Canned nodes: their replies.
#[derive(Debug)]
pub struct Nodes {
    canned: Canned,
}

/// One connection to a node.
#[derive(Debug, Default)]
pub struct Conn {
    framer: Framer,
    owed: Vec<u8>,
    sent: usize,
}

/// A buffer of a connection that is not larger is kept.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

impl Nodes {
    /// Nodes whose values have `value_bytes` bytes.
    pub fn new(value_bytes: usize) -> Nodes {
        Nodes { canned: Canned::new(value_bytes) }
    }
}

impl Answer for Nodes {
    type Conn = Conn;

    fn receive(&self, conn: &mut Conn, bytes: &[u8]) -> Result<(), Malformed> {
        conn.framer.feed(bytes, &mut |head| self.canned.answer(head, &mut conn.owed))
    }

    fn owed<'a>(&'a self, conn: &'a Conn) -> &'a [u8] {
        &conn.owed[conn.sent..]
    }

    fn sent(&self, conn: &mut Conn, count: usize) {
        conn.sent += count;
        if conn.sent == conn.owed.len() {
            conn.sent = 0;
            conn.owed.clear();
            conn.owed.shrink_to(KEPT_BYTES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_owed_until_it_was_sent() {
        let (nodes, mut conn) = (Nodes::new(1), Conn::default());
        nodes.receive(&mut conn, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPI").expect("RESP");
        assert_eq!(nodes.owed(&conn), b"$1\r\nx\r\n");
        nodes.sent(&mut conn, 3);
        nodes.receive(&mut conn, b"NG\r\n").expect("RESP");
        assert_eq!(nodes.owed(&conn), b"\nx\r\n+PONG\r\n");
        nodes.sent(&mut conn, 11);
        assert_eq!(nodes.owed(&conn), b"");
    }
}
