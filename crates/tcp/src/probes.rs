//! Probes of nodes, with and without clients: a connection each time, and a PING over it if configured.

use crate::core::{Action, Core, Side};
use crate::nodes::Nodes;
use std::str::FromStr;
use std::time::Duration;
use stdx::{Id, Instant};

/// The check that a node must pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: it is not looked at.
    #[default]
    Off,
    /// Accept a connection.
    Tcp,
    /// Nodes answer a PING of RESP, if only with the demand for a password.
    Ping,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        match text {
            "off" => Ok(Kind::Off),
            "tcp" => Ok(Kind::Tcp),
            "ping" => Ok(Kind::Ping),
            _ => Err("write off, tcp or ping".to_owned()),
        }
    }
}

/// Settings of the probes.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// The check that a node must pass.
    pub kind: Kind,
    /// Pause from the start of one probe to that of the next.
    pub every: Duration,
    /// Bytes to send: the PROXY header that the node expects, and PING.
    pub question: Vec<u8>,
}

/// The probe of one node.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    state: State,
    /// Time of the next probe.
    next_at: Instant,
    /// Bytes that the node has sent.
    said: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Resting,
    /// Over this connection, until then.
    Asking {
        conn: Id,
        deadline: Instant,
    },
}

/// A longer line is no PONG.
const ANSWER_BYTES_MAX: usize = 512;

impl Probe {
    pub(crate) fn deadline(&self) -> Instant {
        match self.state {
            State::Resting => self.next_at,
            State::Asking { deadline, .. } => deadline,
        }
    }
}

impl Core {
    /// Makes this worker probe `nodes` nodes from now on, not all in the same moment.
    pub fn probe(&mut self, check: Check, nodes: usize, now: Instant) {
        let count = if check.kind == Kind::Off { 0 } else { nodes };
        let begin = |node: usize| now + check.every * node as u32 / nodes.max(1) as u32;
        let probe = |node| Probe { state: State::Resting, next_at: begin(node), said: Vec::new() };
        self.probes = (0..count).map(probe).collect();
        self.check = check;
    }

    pub(crate) fn handle_probe_timeouts(&mut self, nodes: &mut Nodes, now: Instant) {
        for node in 0..self.probes.len() {
            if self.probes[node].deadline() > now {
                continue;
            }
            match self.probes[node].state {
                State::Resting => self.begin_probe(node, now),
                State::Asking { .. } => self.end_probe(node, Err("no answer in time"), nodes, now),
            }
        }
    }

    fn begin_probe(&mut self, node: usize, now: Instant) {
        let conn = self.conns.insert(Side::Probe(node));
        let probe = &mut self.probes[node];
        probe.state = State::Asking { conn, deadline: now + self.limits.connect_timeout };
        probe.next_at = now + self.check.every;
        probe.said.clear();
        self.actions.push_back(Action::Connect { conn, node });
    }

    /// The connection of a probe is there.
    pub fn advance_probe(&mut self, node: usize, nodes: &mut Nodes, now: Instant) {
        match (self.check.kind, self.probes[node].state) {
            (Kind::Ping, State::Asking { conn, .. }) => self.actions.push_back(Action::Send { conn }),
            _ => self.end_probe(node, Ok(()), nodes, now),
        }
    }

    /// The question to the node. A fresh socket takes all of it.
    pub fn question(&self, node: usize) -> &[u8] {
        match self.probes.get(node).map(|probe| probe.state) {
            Some(State::Asking { .. }) => &self.check.question,
            _ => &[],
        }
    }

    /// The node has said something.
    pub fn judge_probe(&mut self, node: usize, bytes: &[u8], nodes: &mut Nodes, now: Instant) {
        let Some(probe) = self.probes.get_mut(node) else { return };
        probe.said.extend_from_slice(&bytes[..bytes.len().min(ANSWER_BYTES_MAX)]);
        let end = probe.said.iter().position(|&byte| byte == b'\n');
        if end.is_none() && probe.said.len() < ANSWER_BYTES_MAX {
            return;
        }
        let line = String::from_utf8_lossy(&probe.said[..end.unwrap_or(probe.said.len())]).into_owned();
        let line = line.trim_end();
        // A node that asks for a password is alive.
        let lives = line == "+PONG" || ["-NOAUTH", "-NOPERM"].iter().any(|start| line.starts_with(start));
        let refusal = format!("PING was answered with {line}");
        self.end_probe(node, if lives { Ok(()) } else { Err(&refusal) }, nodes, now);
    }

    /// Closes the probe's connection and says what it found.
    pub fn end_probe(&mut self, node: usize, outcome: Result<(), &str>, nodes: &mut Nodes, now: Instant) {
        if let Some(State::Asking { conn, .. }) = self.probes.get(node).map(|probe| probe.state) {
            self.close(conn);
            self.conclude(node, outcome, nodes, now);
        }
    }

    /// The probe's connection was lost before it had found anything.
    pub fn lose_probe(&mut self, node: usize, reason: &str, nodes: &mut Nodes, now: Instant) {
        if node < self.probes.len() {
            self.conclude(node, Err(reason), nodes, now);
        }
    }

    fn conclude(&mut self, node: usize, outcome: Result<(), &str>, nodes: &mut Nodes, now: Instant) {
        let probe = &mut self.probes[node];
        probe.state = State::Resting;
        // A probe that took longer than the pause is followed by one more at once, not by all that were missed.
        probe.next_at = probe.next_at.max(now);
        let verdict = nodes.note_probe(node, outcome, now);
        self.note(verdict);
    }
}
