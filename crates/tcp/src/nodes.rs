//! The choice of a node for a new client, and the fitness of nodes. Pure: no socket, no clock; one value for all workers.
//!
//! ```text
//!              fails_max connections failed within fail_timeout
//!     usable ───────────────────────────────────────────────────► failing, for fail_timeout
//!        │ ▲
//!        │ └──── PROBES_PASSED_MIN probes in a row passed
//!        └─────► PROBES_FAILED_MAX probes in a row failed: down
//! ```
//!
//! If no node is usable, all are: a wrong verdict must not cost more than a right one would save.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;
use stdx::{Instant, Prng};

/// Rule that chooses a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// The node with the fewest clients for its weight.
    #[default]
    LeastConn,
    /// One after the other, by their weights.
    RoundRobin,
    /// By the client's address: the same node as long as it is usable. Only the clients of a lost node go elsewhere.
    SourceHash,
}

impl FromStr for Balance {
    type Err = String;

    fn from_str(text: &str) -> Result<Balance, String> {
        match text {
            "least-conn" => Ok(Balance::LeastConn),
            "round-robin" => Ok(Balance::RoundRobin),
            "source-hash" => Ok(Balance::SourceHash),
            _ => Err("write least-conn, round-robin or source-hash".to_owned()),
        }
    }
}

/// When connections that fail speak against a node.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Failures until it is passed over; 0 is never.
    pub fails_max: u32,
    /// Within this time, and for this time.
    pub fail_timeout: Duration,
}

/// Probes in a row that must fail: one that is lost is no verdict.
pub const PROBES_FAILED_MAX: u32 = 3;
/// Probes in a row that must pass before clients come back.
pub const PROBES_PASSED_MIN: u32 = 2;

/// All nodes, with their clients.
#[derive(Debug)]
pub struct Nodes {
    balance: Balance,
    patience: Patience,
    nodes: Vec<Node>,
    /// Start of the search for the least-used node, so that equals take turns.
    first: usize,
}

#[derive(Debug)]
struct Node {
    /// Its name in the log, which is also hashed.
    name: String,
    weight: u32,
    clients: u32,
    /// Connections that failed since `failing_since`.
    fails: u32,
    failing_since: Instant,
    /// Passed over until then.
    usable_at: Instant,
    /// Probes in a row that did not fit its state.
    contradictions: u32,
    is_down: bool,
    /// Of smooth round robin.
    credit: i64,
}

/// A node has changed for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node gets clients again.
    Up {
        /// Its name.
        node: String,
    },
    /// The node gets no clients for now.
    Down {
        /// Its name.
        node: String,
        /// Why.
        reason: String,
    },
}

impl Nodes {
    /// Usable nodes, by their names and weights.
    pub fn new(
        balance: Balance,
        patience: Patience,
        nodes: impl IntoIterator<Item = (String, u32)>,
    ) -> Nodes {
        let node = |(name, weight)| Node {
            name,
            weight,
            clients: 0,
            fails: 0,
            failing_since: Instant::ZERO,
            usable_at: Instant::ZERO,
            contradictions: 0,
            is_down: false,
            credit: 0,
        };
        Nodes { balance, patience, nodes: nodes.into_iter().map(node).collect(), first: 0 }
    }

    /// Chooses a node for a client at `source`, which counts for it from now on; none that it has `tried`.
    pub fn choose(&mut self, source: IpAddr, tried: &[usize], now: Instant) -> Option<usize> {
        let untried = |node: &usize| !tried.contains(node);
        let mut fit: Vec<usize> =
            (0..self.nodes.len()).filter(untried).filter(|&node| self.nodes[node].is_usable(now)).collect();
        if fit.is_empty() {
            fit = (0..self.nodes.len()).filter(untried).collect();
        }
        let node = match self.balance {
            Balance::LeastConn => self.least(&fit),
            Balance::RoundRobin => self.next_in_turn(&fit),
            Balance::SourceHash => self.nearest(&fit, source),
        }?;
        self.nodes[node].clients += 1;
        Some(node)
    }

    fn least(&mut self, fit: &[usize]) -> Option<usize> {
        let load = |node: usize| (self.nodes[node].clients, self.nodes[node].weight);
        let count = self.nodes.len();
        let least = fit.iter().copied().min_by(|&a, &b| {
            let ((a_clients, a_weight), (b_clients, b_weight)) = (load(a), load(b));
            let by_load = (u64::from(a_clients) * u64::from(b_weight))
                .cmp(&(u64::from(b_clients) * u64::from(a_weight)));
            let distance = |node: usize| (node + count - self.first) % count;
            by_load.then(distance(a).cmp(&distance(b)))
        })?;
        self.first = (least + 1) % count;
        Some(least)
    }

    /// nginx's smooth weighted round robin: heavy nodes are spread over the round instead of coming in a row.
    fn next_in_turn(&mut self, fit: &[usize]) -> Option<usize> {
        for &node in fit {
            self.nodes[node].credit += i64::from(self.nodes[node].weight);
        }
        let total: i64 = fit.iter().map(|&node| i64::from(self.nodes[node].weight)).sum();
        // The first of equals, as in the list.
        let next = fit.iter().copied().rev().max_by_key(|&node| self.nodes[node].credit)?;
        self.nodes[next].credit -= total;
        Some(next)
    }

    /// Weighted rendezvous hashing: every node draws a number for the client, and the best takes it. A node that is lost
    /// or added moves only those clients that it had or gets.
    fn nearest(&self, fit: &[usize], source: IpAddr) -> Option<usize> {
        let score = |node: usize| {
            let Node { name, weight, .. } = &self.nodes[node];
            let drawn = draw(source, name);
            f64::from(*weight) / -drawn.ln()
        };
        fit.iter().copied().max_by(|&a, &b| score(a).total_cmp(&score(b)))
    }

    /// A client has left `node`, or never got there.
    pub fn release(&mut self, node: usize) {
        self.nodes[node].clients = self.nodes[node].clients.saturating_sub(1);
    }

    /// Clients of all nodes.
    #[cfg(test)]
    pub fn clients(&self) -> u32 {
        self.nodes.iter().map(|node| node.clients).sum()
    }

    /// A client's connection to `node` was made.
    pub fn note_connected(&mut self, node: usize) -> Option<Verdict> {
        let node = &mut self.nodes[node];
        let was_failing = node.usable_at > Instant::ZERO;
        (node.fails, node.usable_at) = (0, Instant::ZERO);
        (was_failing && !node.is_down).then(|| Verdict::Up { node: node.name.clone() })
    }

    /// A client's connection to `node` could not be made.
    pub fn note_failed(&mut self, node: usize, reason: &str, now: Instant) -> Option<Verdict> {
        let (patience, node) = (self.patience, &mut self.nodes[node]);
        if patience.fails_max == 0 {
            return None;
        }
        if now.since(node.failing_since) > patience.fail_timeout {
            (node.fails, node.failing_since) = (0, now);
        }
        node.fails += 1;
        if node.fails < patience.fails_max {
            return None;
        }
        let was_usable = node.is_usable(now);
        node.usable_at = now + patience.fail_timeout;
        was_usable.then(|| Verdict::Down { node: node.name.clone(), reason: reason.to_owned() })
    }

    /// A probe of `node` passed, or failed for a reason.
    pub fn note_probe(&mut self, node: usize, outcome: Result<(), &str>, now: Instant) -> Option<Verdict> {
        let node = &mut self.nodes[node];
        if outcome.is_err() == node.is_down {
            node.contradictions = 0;
            return None;
        }
        node.contradictions += 1;
        let needed = if node.is_down { PROBES_PASSED_MIN } else { PROBES_FAILED_MAX };
        if node.contradictions < needed {
            return None;
        }
        let was_usable = node.is_usable(now);
        (node.is_down, node.contradictions) = (outcome.is_err(), 0);
        let name = node.name.clone();
        match outcome {
            Err(reason) => was_usable.then(|| Verdict::Down { node: name, reason: reason.to_owned() }),
            Ok(()) => {
                // A probe has succeeded since clients failed there.
                (node.fails, node.usable_at) = (0, Instant::ZERO);
                Some(Verdict::Up { node: name })
            }
        }
    }
}

impl Node {
    fn is_usable(&self, now: Instant) -> bool {
        !self.is_down && self.usable_at <= now
    }
}

/// A number in (0, 1) that `source` and `name` decide.
fn draw(source: IpAddr, name: &str) -> f64 {
    let address = match source {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    // FNV-1a, whose upper bits hardly change with the last byte: a generator mixes them.
    let hash = address.iter().chain(name.as_bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // 53 bits are what a double holds; a half keeps it off both ends.
    ((Prng::new(hash).next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience { fails_max: 1, fail_timeout: Duration::from_secs(10) };

    fn nodes(balance: Balance, weights: &[u32]) -> Nodes {
        let named = weights.iter().enumerate().map(|(number, &weight)| (format!("n{number}"), weight));
        Nodes::new(balance, PATIENCE, named)
    }

    fn source(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    fn chosen(nodes: &mut Nodes, count: u32, now: Instant) -> Vec<usize> {
        (0..count).filter_map(|number| nodes.choose(source(number), &[], now)).collect()
    }

    fn counts(chosen: &[usize], nodes: usize) -> Vec<usize> {
        (0..nodes).map(|node| chosen.iter().filter(|&&other| other == node).count()).collect()
    }

    #[test]
    fn clients_go_where_there_are_the_fewest_for_the_weight() {
        let mut nodes = nodes(Balance::LeastConn, &[1, 1, 2]);
        let first = chosen(&mut nodes, 8, Instant::ZERO);
        assert_eq!(counts(&first, 3), [2, 2, 4]);
        (0..2).for_each(|_| nodes.release(1));
        assert_eq!(chosen(&mut nodes, 2, Instant::ZERO), [1, 1]);
    }

    #[test]
    fn equals_take_turns() {
        let mut nodes = nodes(Balance::LeastConn, &[1, 1, 1]);
        let mut seen = Vec::new();
        for number in 0..6 {
            let node = nodes.choose(source(number), &[], Instant::ZERO).expect("there is one");
            nodes.release(node);
            seen.push(node);
        }
        assert_eq!(seen, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_heavy_node_is_spread_over_the_round() {
        let mut nodes = nodes(Balance::RoundRobin, &[5, 1, 1]);
        assert_eq!(chosen(&mut nodes, 7, Instant::ZERO), [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn only_sources_of_a_lost_node_move() {
        let mut nodes = nodes(Balance::SourceHash, &[1, 1, 2]);
        let before = chosen(&mut nodes, 4000, Instant::ZERO);
        assert_eq!(chosen(&mut nodes, 4000, Instant::ZERO), before);
        let spread = counts(&before, 3);
        assert!((900..1100).contains(&spread[0]) && (1900..2100).contains(&spread[2]), "{spread:?}");
        nodes.note_failed(1, "refused", Instant::ZERO);
        let after = chosen(&mut nodes, 4000, Instant::ZERO);
        assert_eq!(counts(&after, 3)[1], 0);
        assert!(before.iter().zip(&after).all(|(before, after)| before == after || *before == 1));
    }

    #[test]
    fn a_failed_node_is_skipped_for_a_while() {
        let mut nodes = nodes(Balance::RoundRobin, &[1, 1]);
        let start = Instant::ZERO + Duration::from_secs(100);
        let down = Verdict::Down { node: "n0".into(), reason: "refused".into() };
        assert_eq!(nodes.note_failed(0, "refused", start), Some(down));
        assert_eq!(nodes.note_failed(0, "refused", start), None);
        assert_eq!(chosen(&mut nodes, 3, start + Duration::from_secs(9)), [1, 1, 1]);
        assert!(chosen(&mut nodes, 2, start + Duration::from_secs(10)).contains(&0));
        assert_eq!(nodes.note_connected(0), Some(Verdict::Up { node: "n0".into() }));
        assert_eq!(nodes.note_connected(0), None);
    }

    #[test]
    fn failures_count_only_within_their_time() {
        let mut nodes = nodes(Balance::RoundRobin, &[1, 1]);
        nodes.patience.fails_max = 2;
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert_eq!(nodes.note_failed(0, "refused", at(100)), None);
        assert_eq!(nodes.note_failed(0, "refused", at(111)), None);
        assert!(nodes.note_failed(0, "refused", at(112)).is_some());
        nodes.patience.fails_max = 0;
        assert_eq!(nodes.note_failed(1, "refused", at(112)), None);
    }

    #[test]
    fn a_node_is_down_after_some_probes_and_back_after_some() {
        let mut nodes = nodes(Balance::RoundRobin, &[1, 1]);
        let now = Instant::ZERO;
        let mut probe = |outcome| nodes.note_probe(0, outcome, now);
        assert_eq!(
            [probe(Err("late")), probe(Err("late")), probe(Ok(())), probe(Err("late"))],
            [const { None }; 4]
        );
        assert_eq!(probe(Err("late")), None);
        assert_eq!(probe(Err("late")), Some(Verdict::Down { node: "n0".into(), reason: "late".into() }));
        assert_eq!([probe(Ok(())), probe(Err("late")), probe(Ok(()))], [const { None }; 3]);
        assert_eq!(probe(Ok(())), Some(Verdict::Up { node: "n0".into() }));
    }

    #[test]
    fn if_no_node_is_fit_all_are_tried_and_each_once() {
        let mut nodes = nodes(Balance::LeastConn, &[1, 1]);
        (0..2).for_each(|node| drop(nodes.note_failed(node, "refused", Instant::ZERO)));
        let first = nodes.choose(source(1), &[], Instant::ZERO).expect("there are two");
        let second = nodes.choose(source(1), &[first], Instant::ZERO).expect("there are two");
        assert_ne!(first, second);
        assert_eq!(nodes.choose(source(1), &[first, second], Instant::ZERO), None);
    }
}
