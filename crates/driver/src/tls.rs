//! One stream under TLS. rustls does the cryptography and touches no socket. This module moves bytes between rustls and
//! the stream below. It never blocks, and holds no more than a few records in either direction.
//!
//! ```text
//!   socket ─► scratch ─► rustls ─► the driver's buffer ─► user        read
//!   socket ◄─ sealed ◄── rustls ◄─ user's bytes, a record at a time   write
//! ```
//!
//! [`TlsStream::write`] counts a byte as taken once the whole record around it has left. The peer cannot read a part of
//! a record, so it has certainly not received a byte that was not taken. Until then the caller keeps the byte and
//! offers it again. A close after all bytes were taken loses nothing.

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Connection, Error, InvalidMessage, OtherError};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A stream, during or after its handshake.
#[derive(Debug)]
pub(crate) struct TlsStream<S> {
    below: S,
    tls: Connection,
    /// Records that `below` has not taken yet. Empty unless the stream is blocked.
    sealed: Vec<u8>,
    /// Bytes at the start of `sealed` that have left.
    sealed_front: usize,
    /// Bytes of the user that are in `sealed` and not reported as taken.
    owed: usize,
    /// Bytes from `below` that wait for room for their plaintext.
    unread: Vec<u8>,
    /// Bytes that came during the handshake.
    shaken: usize,
    /// Whether the other side sends no more.
    ended: bool,
    account: Account,
}

/// Bytes that one stream holds, as a part of the sum over all streams of a driver.
#[derive(Debug, Default)]
pub(crate) struct Account {
    sum: Arc<AtomicUsize>,
    counted: usize,
}

impl Account {
    /// Another account of the same sum.
    pub(crate) fn another(&self) -> Account {
        Account { sum: Arc::clone(&self.sum), counted: 0 }
    }

    /// The sum.
    pub(crate) fn total(&self) -> usize {
        self.sum.load(Ordering::Relaxed)
    }

    fn recount(&mut self, holds: usize) {
        if self.counted != holds {
            // Only one thread uses it at a time. It is atomic so that a driver can move to its thread.
            self.sum.fetch_add(holds.wrapping_sub(self.counted), Ordering::Relaxed);
            self.counted = holds;
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.recount(0);
    }
}

/// The result of one read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes at the start of the buffer.
    pub len: usize,
    /// The next step.
    pub then: Then,
}

/// The next step after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Wait for more from the socket.
    Wait,
    /// Read on: there is more, here or in the socket.
    More,
    /// The end.
    End,
}

/// Bytes sealed at a time: the largest record. So a blocked stream holds one record beside its user's copy.
const RECORD_BYTES_MAX: usize = 16 * 1024;
/// Limit of a handshake. It takes some KiB, with a client's chain of certificates perhaps ten. A peer that sends more
/// is after our memory.
const HANDSHAKE_BYTES_MAX: usize = 32 * 1024;
const DAY_S: u64 = 24 * 60 * 60;
/// Bytes of one read during a handshake: one message seldom has more.
const HANDSHAKE_READ_BYTES: usize = 4 * 1024;

impl<S: Read + Write> TlsStream<S> {
    /// A stream of `tls` over `below` that has sent nothing yet.
    pub(crate) fn new(below: S, tls: Connection, account: Account) -> TlsStream<S> {
        TlsStream {
            account,
            below,
            tls,
            sealed: Vec::new(),
            sealed_front: 0,
            owed: 0,
            unread: Vec::new(),
            shaken: 0,
            ended: false,
        }
    }

    /// The stream below.
    pub(crate) fn below(&self) -> &S {
        &self.below
    }

    /// The same, for registering it.
    pub(crate) fn below_mut(&mut self) -> &mut S {
        &mut self.below
    }

    /// Continues the handshake as far as possible. Returns true once it is complete and all its bytes were sent.
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        loop {
            self.seal();
            if !self.flush()? || !self.tls.is_handshaking() {
                return Ok(!self.has_sealed());
            }
            let mut flight = [0; HANDSHAKE_READ_BYTES];
            match self.below.read(&mut flight) {
                Ok(0) => return Err(failed("connection closed during the handshake")),
                Ok(len) => {
                    self.shaken += len;
                    if self.shaken > HANDSHAKE_BYTES_MAX {
                        return Err(failed("the handshake is too long"));
                    }
                    self.feed(&flight[..len], &mut [], &mut 0)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads into `buffer` until it is almost full, or until `below` has no more and no byte is kept here. Kept bytes
    /// would not make the socket readable again.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Progress> {
        // One half is for ciphertext from `below`, the other for its plaintext.
        let (plain, scratch) = buffer.split_at_mut(buffer.len() / 2);
        let (mut len, mut is_drained) = (0, false);
        loop {
            len += self.open(&mut plain[len..])?;
            if len < plain.len() {
                let unread = std::mem::take(&mut self.unread);
                self.feed(&unread, plain, &mut len)?;
            }
            let room = plain.len() - len;
            if room < plain.len() / 4 || !self.unread.is_empty() {
                return Ok(Progress { len, then: Then::More });
            }
            if self.ended {
                return Ok(Progress { len, then: Then::End });
            }
            if is_drained {
                return Ok(Progress { len, then: Then::Wait });
            }
            // Reads no more than fits: at most a record must be kept.
            let scratch = &mut scratch[..room];
            match self.below.read(scratch) {
                // The end without close_notify. A truncated request or reply is incomplete, and complete ones were
                // authenticated. So this is an end like any other, as in Redis.
                Ok(0) => self.ended = true,
                Ok(count) => {
                    is_drained = count < scratch.len();
                    self.feed(&scratch[..count], plain, &mut len)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => is_drained = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives `bytes` from `below` to rustls and writes their plaintext to `plain` from `len` on. Bytes without room are
    /// kept. To be called only while rustls has no plaintext left, since its buffer is bounded.
    fn feed(&mut self, bytes: &[u8], plain: &mut [u8], len: &mut usize) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() && !self.ended {
            // Takes nothing behind the other side's close_notify.
            self.tls.read_tls(&mut rest)?;
            let state = self.tls.process_new_packets().map_err(|error| self.refuse(&error))?;
            self.ended |= state.peer_has_closed();
            let came = state.plaintext_bytes_to_read();
            let opened = self.open(&mut plain[*len..])?;
            *len += opened;
            if opened < came {
                self.unread = rest.to_vec();
                break;
            }
        }
        self.recount();
        // Messages of TLS itself, such as the answer to a key update.
        self.seal();
        self.flush().map(|_| ())
    }

    /// Copies plaintext from rustls to `plain`.
    fn open(&mut self, plain: &mut [u8]) -> io::Result<usize> {
        match self.tls.reader().read(plain) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            read => read,
        }
    }

    /// Sends the alert for `error` if possible at once, and returns the reason.
    fn refuse(&mut self, error: &Error) -> io::Error {
        self.seal();
        // The connection is lost in any case.
        let _ = self.flush();
        failed(&explain(error))
    }

    /// Sends `bytes` as far as the stream below takes them, and returns the number taken. `bytes` must begin with those
    /// that were not taken last time.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        while self.flush().map_err(|error| self.last_words(error))? {
            taken += std::mem::take(&mut self.owed).min(bytes.len() - taken);
            let rest = &bytes[taken..];
            if rest.is_empty() {
                break;
            }
            self.owed = self.tls.writer().write(&rest[..rest.len().min(RECORD_BYTES_MAX)])?;
            self.seal();
        }
        Ok(taken)
    }

    /// The reason of a write that failed with `error`. A peer that refuses our certificate sends its alert after the
    /// handshake and closes: if there is an alert, it is the reason.
    fn last_words(&mut self, error: io::Error) -> io::Error {
        let mut bytes = [0; HANDSHAKE_READ_BYTES];
        let said = self.below.read(&mut bytes).and_then(|len| self.feed(&bytes[..len], &mut [], &mut 0));
        said.err().filter(|said| said.kind() == ErrorKind::InvalidData).unwrap_or(error)
    }

    /// Takes the records that rustls wants to send.
    fn seal(&mut self) {
        while self.tls.wants_write() {
            // Fails only if the writer does, and a `Vec` does not.
            let _ = self.tls.write_tls(&mut self.sealed);
        }
        self.recount();
    }

    /// Sends sealed records. Returns true if all have left.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.has_sealed() {
            match self.below.write(&self.sealed[self.sealed_front..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sealed_front += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // An idle stream owns no buffer.
        (self.sealed, self.sealed_front) = (Vec::new(), 0);
        self.recount();
        Ok(true)
    }

    /// Counts the bytes kept here. rustls keeps at most a record in each direction.
    fn recount(&mut self) {
        self.account.recount(self.sealed.capacity() + self.unread.capacity());
    }

    /// Whether sealed bytes wait for the stream below.
    pub(crate) fn has_sealed(&self) -> bool {
        self.sealed_front < self.sealed.len()
    }

    /// Sends close_notify, if the stream below takes it.
    pub(crate) fn say_goodbye(&mut self) {
        self.tls.send_close_notify();
        self.seal();
        // The connection closes, whether or not this arrives.
        let _ = self.flush();
    }
}

/// The error of a stream that is closed for `reason`.
fn failed(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("TLS: {reason}"))
}

/// The error of rustls, in words for an operator where rustls has none.
fn explain(error: &Error) -> String {
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => "the peer does not speak TLS".to_owned(),
        Error::NoCertificatesPresented => "the client has no certificate".to_owned(),
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the peer requires a client certificate".to_owned()
        }
        Error::AlertReceived(alert) => format!("the peer refused: {alert:?}"),
        Error::InvalidCertificate(fault) => {
            format!("invalid peer certificate: {}", explain_certificate(fault))
        }
        error => error.to_string(),
    }
}

/// The fault of a certificate, in words for an operator.
fn explain_certificate(fault: &CertificateError) -> String {
    let days = |from: &UnixTime, until: &UnixTime| until.as_secs().saturating_sub(from.as_secs()) / DAY_S;
    match fault {
        CertificateError::UnknownIssuer => "its issuer is not a trusted authority".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("it expired {} days ago by this machine's clock", days(not_after, time))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("by this machine's clock it is valid in {} days only", days(time, not_before))
        }
        // rustls has no variant for this error of webpki.
        CertificateError::Other(OtherError(error)) if format!("{error:?}") == "CaUsedAsEndEntity" => {
            "it is an authority's own, as self-signed ones are; let the authority sign another one".to_owned()
        }
        fault => fault.to_string(),
    }
}

#[cfg(test)]
mod tests;
