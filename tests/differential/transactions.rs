//! Random transactions whose keys are on several shards: to one Redis and to shardis with `--transactions=per-shard`. While no
//! other client writes, every reply must be the same.

use super::table::{SINGLE_KEY, SPLIT};
use super::{Comparison, Draw, Drawn, THE_WORDS, exchange};
use crate::differential::template::Template;
use crate::harness::client::request;
use crate::harness::server;
use crate::harness::{World, number_from_env, seed_for, show};
use std::collections::BTreeSet;

/// Commands compared in a normal run.
const COMMANDS_DEFAULT: u64 = 20_000;
/// Commands of one transaction.
const COMMANDS_MAX: u64 = 40;

#[test]
fn random_transactions_get_the_replies_of_a_single_redis() {
    if server::is_too_old_for(THE_WORDS) {
        return;
    }
    let commands = number_from_env("SHARDIS_DIFF_REQUESTS", COMMANDS_DEFAULT);
    let seed = seed_for("random_transactions_get_the_replies_of_a_single_redis");
    let world = World::with_flags(4, &["--transactions=per-shard"]);
    let mut comparison = Comparison::of(seed, world, true, Draw::new);
    let lines = SINGLE_KEY.iter().chain(SPLIT);
    let mut names: BTreeSet<String> =
        lines.flat_map(|line| Template::parse(line.words).commands().collect::<Vec<_>>()).collect();
    // Of several shards it is not divided within a transaction.
    names.remove("xread");
    while comparison.compared < commands {
        comparison.compare_transaction(&names);
    }
    comparison.compare_all_keys();
}

/// MULTI, all of `drawn`, and `end`.
fn transaction(drawn: &[Drawn], end: &[u8]) -> Vec<u8> {
    let mut bytes = request(&[b"MULTI"]);
    for drawn in drawn {
        bytes.extend(request(&drawn.args.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    }
    bytes.extend(request(&[end]));
    bytes
}

impl Comparison {
    /// Sends one transaction of commands with these names to both and compares reply by reply.
    fn compare_transaction(&mut self, names: &BTreeSet<String>) {
        let len = 1 + self.draw.prng.below(COMMANDS_MAX);
        let mut drawn: Vec<Drawn> = Vec::new();
        while (drawn.len() as u64) < len {
            let is_one =
                |drawn: &Drawn| names.contains(&String::from_utf8_lossy(&drawn.args[0]).to_ascii_lowercase());
            drawn.extend(self.draw.next_requests().into_iter().filter(is_one));
        }
        // Some requests that Redis 7.0 refuses at once are accepted by later versions, and so by shardis.
        let queued = exchange(&mut self.oracle, &[&transaction(&drawn, b"DISCARD")], drawn.len() + 2);
        let mut queued = queued[1..].iter().map(|reply| reply == b"+QUEUED\r\n");
        drawn.retain(|_| queued.next() == Some(true));
        let bytes = transaction(&drawn, b"EXEC");
        let expected = exchange(&mut self.oracle, &[&bytes], drawn.len() + 2);
        let got = exchange(&mut self.subject, &[&bytes], drawn.len() + 2);
        for (index, drawn) in drawn.iter().enumerate() {
            let (expected, got) = (&expected[index + 1], &got[index + 1]);
            if expected != got {
                self.report(drawn, index, "queued otherwise", expected, got);
            }
        }
        self.compare_results(&drawn, &expected[drawn.len() + 1], &got[drawn.len() + 1]);
        self.compared += drawn.len() as u64;
    }

    /// Compares what EXEC answered.
    fn compare_results(&self, drawn: &[Drawn], expected: &[u8], got: &[u8]) {
        let (Some(expected_each), Some(got_each)) =
            (resp::reply::elements(expected), resp::reply::elements(got))
        else {
            return assert_eq!(show(expected), show(got), "seed {}", self.seed);
        };
        assert_eq!(expected_each.len(), got_each.len(), "seed {}", self.seed);
        for (index, (drawn, (expected, got))) in drawn.iter().zip(expected_each.zip(got_each)).enumerate() {
            if let Some(why) = self.disagreement(drawn.compare, expected, got) {
                self.report(drawn, index, &why, expected, got);
            }
        }
    }
}
