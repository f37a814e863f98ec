//! MONITOR: a client sees the requests of all clients of all workers.
//!
//! ```text
//!   request ─► carried out ─► a line ─┬─► this worker's monitors
//!                                     └─► mail ─► other workers' monitors
//! ```
//!
//! While no client monitors, a request costs one look at [`Monitor::is_on`]. Requests of other workers appear one event
//! later. Lines of one worker keep their order; lines of several workers appear as they arrive, with their times.

pub(crate) mod monitors;

use crate::ConnId;
use crate::context::Context;
use crate::event::CloseReason;
use crate::features::{Session, SessionFeatures};
use crate::local::inquiry;
use crate::peers::{Peer, Peers};
use command::{Carry, Flags, Local, Resolved};
use resp::{Request, encode};
use std::io::Write as _;
use std::sync::Arc;

/// State of MONITOR on one worker.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    /// Whether any client monitors.
    pub is_on: bool,
    /// Clients of this worker that monitor.
    clients: Vec<ConnId>,
    /// Lines of this event for monitors of all workers.
    lines: Vec<u8>,
}

/// Bytes of an argument that are shown. The line of a large value must not be four times as large.
const SHOWN_BYTES_MAX: usize = 64 << 10;

impl Monitor {
    /// Whether lines wait to be shown.
    #[inline]
    pub(crate) fn has_lines(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Carries out MONITOR. A second one gets no reply, as in Redis.
    pub(crate) fn begin_to_monitor(&mut self, cx: &mut Context, session: &mut Session, reply: &mut Vec<u8>) {
        let subscribed = session.features.subscribed.get_or_insert_default();
        if std::mem::replace(&mut subscribed.monitors, true) {
            return;
        }
        self.clients.push(session.conn);
        self.is_on = true;
        cx.board.monitors.add(cx.settings.worker);
        encode::simple(reply, b"OK");
    }

    /// Ends the session's MONITOR.
    pub(crate) fn end_to_monitor(&mut self, cx: &mut Context, session: &mut Session) {
        if !session.features.monitors() {
            return;
        }
        self.clients.retain(|conn| *conn != session.conn);
        cx.board.monitors.remove(cx.settings.worker);
        if let Some(subscribed) = &mut session.features.subscribed {
            subscribed.monitors = false;
        }
        session.features.forget_if_silent();
    }

    /// Shows `request`, which was carried out, to all monitors, unless it is administrative.
    #[cold]
    pub(crate) fn show_request(&mut self, cx: &mut Context, session: &Session, request: &Request<'_>) {
        let command = match command::resolve(request) {
            Resolved::Command(command) => Some(command),
            Resolved::Unknown if cx.engine.asking == command::Number::LEARNED => None,
            _ => return,
        };
        if command.is_some_and(|command| command.flags.contains(Flags::ADMIN)) {
            return;
        }
        let carry = command.map(|command| command.carry);
        let now_us = cx.unix_time_us();
        let database = cx.profiles.kind(session.profile).database;
        let lines = &mut self.lines;
        let (seconds, micros) = (now_us / 1_000_000, now_us % 1_000_000);
        // Writing to a `Vec` cannot fail.
        let _ = write!(lines, "+{seconds}.{micros:06} [{database} {}]", session.origin.peer);
        for (at, arg) in request.args().enumerate() {
            lines.push(b' ');
            match is_secret(carry, request, at) {
                true => lines.extend_from_slice(b"\"(redacted)\""),
                false => write_quoted(lines, arg),
            }
        }
        lines.extend_from_slice(b"\r\n");
    }
}

impl SessionFeatures {
    /// Whether the client monitors.
    pub(crate) fn monitors(&self) -> bool {
        self.subscribed.as_ref().is_some_and(|subscribed| subscribed.monitors)
    }
}

impl Monitor {
    /// Sends the lines to all monitors. To be called if [`Monitor::has_lines`].
    #[cold]
    pub(crate) fn flush_monitors(&mut self, cx: &mut Context, peers: &mut Peers) {
        let lines: Arc<[u8]> = std::mem::take(&mut self.lines).into();
        let own = cx.settings.worker;
        let board = Arc::clone(&cx.board);
        for worker in board.monitors.workers().filter(|&worker| worker != own) {
            inquiry::mail_lines(cx, worker, Arc::clone(&lines));
        }
        self.show_lines(cx, peers, &lines);
    }

    /// Shows lines of any worker to this worker's monitors.
    pub(crate) fn show_lines(&mut self, cx: &mut Context, peers: &mut Peers, lines: &[u8]) {
        for conn in self.clients.clone() {
            let Some(Peer::Client(session)) = peers.get_mut(conn) else { continue };
            if !session.may_be_told() {
                continue;
            }
            session.replies.push(lines, &mut cx.engine.pool);
            cx.engine.list_client(session);
            if session.replies.is_overfull(lines.len(), &cx.engine.limits) {
                cx.close_client(session, CloseReason::OutputLimit);
            }
        }
    }
}

/// Whether argument `at` must be hidden: names and passwords.
pub(crate) fn is_secret(carry: Option<Carry>, request: &Request<'_>, at: usize) -> bool {
    match carry {
        Some(Carry::Here(Local::Auth)) => at > 0,
        Some(Carry::Here(Local::Hello)) => {
            let is_auth = |at: usize| request.get(at).is_some_and(|word| word.eq_ignore_ascii_case(b"auth"));
            (at > 2 && is_auth(at - 1)) || (at > 3 && is_auth(at - 2))
        }
        _ => false,
    }
}

/// Appends `arg` as Redis shows it: in quotes, with unprintable bytes escaped.
fn write_quoted(out: &mut Vec<u8>, arg: &[u8]) {
    out.push(b'"');
    for &byte in &arg[..arg.len().min(SHOWN_BYTES_MAX)] {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => {
                // Cannot fail either.
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    if arg.len() > SHOWN_BYTES_MAX {
        // The words of Redis's SLOWLOG.
        let _ = write!(out, "... ({} more bytes)", arg.len() - SHOWN_BYTES_MAX);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_as_by_redis() {
        let quoted = |arg: &[u8]| {
            let mut out = Vec::new();
            write_quoted(&mut out, arg);
            String::from_utf8(out).expect("text")
        };
        assert_eq!(quoted(b"a\x00\n\""), r#""a\x00\n\"""#);
        assert_eq!(quoted(b"\xff\\\x07\x08\r\t "), r#""\xff\\\a\b\r\t ""#);
        let long = quoted(&vec![b'x'; SHOWN_BYTES_MAX + 5]);
        assert!(long.ends_with("xxx... (5 more bytes)\"") && long.len() < SHOWN_BYTES_MAX + 30);
    }
}
