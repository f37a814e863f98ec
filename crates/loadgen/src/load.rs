//! Writes the keys that a run will read, through the target, before the measurement.

use crate::canned::FILL;
use crate::closed::connect;
use crate::pattern::{Pattern, Stream};
use crate::workload::key;
use anyhow::{Context, Result, ensure};
use resp::encode;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The most SETs that are sent before their replies are read. The replies fit any socket buffer, so that no peer waits for this
/// program.
const BATCH: u64 = 1000;
/// The longest wait for a reply.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Sets every key of a workload to its value, of `value_bytes` times [`FILL`].
pub fn write_keys(target: SocketAddr, keyspace: u64, value_bytes: usize) -> Result<()> {
    let mut conn = patient(target)?;
    let value = vec![FILL; value_bytes];
    for first in (0..keyspace).step_by(BATCH as usize) {
        let numbers = first..keyspace.min(first + BATCH);
        let mut batch = Vec::new();
        for number in numbers.clone() {
            encode::request(&mut batch, &[b"SET", key(number).as_bytes(), &value]);
        }
        conn.write_all(&batch)?;
        for _ in numbers {
            expect_ok(&mut conn)?;
        }
    }
    Ok(())
}

/// Sets `count` keys, as [`large_key`] names them, to a value of `pattern` each.
pub fn write_large(target: SocketAddr, count: u64, value_bytes: usize, pattern: &Pattern) -> Result<()> {
    let mut conn = patient(target)?;
    for number in 0..count {
        let mut stream = Stream::set(&large_key(number), number, value_bytes);
        while !stream.is_done() {
            let piece = stream.piece(pattern);
            conn.write_all(piece)?;
            let len = piece.len();
            stream.advance(len);
        }
        expect_ok(&mut conn)?;
    }
    Ok(())
}

/// The key of the large value `number`.
pub fn large_key(number: u64) -> String {
    format!("large:{number}")
}

/// A connection that waits for a limited time.
pub fn patient(target: SocketAddr) -> Result<TcpStream> {
    let conn = connect(target)?;
    conn.set_nodelay(true)?;
    conn.set_read_timeout(Some(ANSWERED_WITHIN))?;
    conn.set_write_timeout(Some(ANSWERED_WITHIN))?;
    Ok(conn)
}

fn expect_ok(conn: &mut TcpStream) -> Result<()> {
    expect(conn, b"+OK\r\n").context("a SET")
}

/// Reads a reply, which must be `reply`.
pub fn expect(conn: &mut TcpStream, reply: &[u8]) -> Result<()> {
    let mut found = vec![0; reply.len()];
    conn.read_exact(&mut found).context("no reply")?;
    let shown = found[..found.len().min(60)].escape_ascii();
    ensure!(found == reply, "a wrong reply: \"{shown}\"");
    Ok(())
}
