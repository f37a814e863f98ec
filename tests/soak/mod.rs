//! A soak: a seed picks rows of `matrix.md` for one long-lived proxy, while clients check each reply.
//!
//! ```text
//!     Scene (nodes, proxy)  ─►  round: load starts ─► a row happens ─► all is served again ─► load is judged
//!                                        └──────────── memory, descriptors, clients as at the start ◄──┘
//! ```
//!
//! `cargo xtask soak --minutes 60` runs it against an optimised build. Without `SHARDIS_SOAK_SECONDS` it has a few rounds.

mod channels;
mod load;
mod pairs;
mod queues;
mod rows;
mod scene;

use crate::harness::{number_from_env, seed_for};
use load::{Load, Totals};
use rows::{ROWS, Row};
use scene::Scene;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use stdx::Prng;

/// Rounds of a soak without a given length.
const ROUNDS: u64 = 3;

const REPORT_INTERVAL: Duration = Duration::from_secs(60);

#[test]
fn a_soak_of_faults_ends_without_a_violation() {
    let mut prng = Prng::new(seed_for("a_soak_of_faults_ends_without_a_violation"));
    let seconds = number_from_env("SHARDIS_SOAK_SECONDS", 0);
    let mut soak = Soak::start();
    while !soak.is_over(Duration::from_secs(seconds)) {
        for row in shuffled(&mut prng) {
            if soak.is_over(Duration::from_secs(seconds)) {
                break;
            }
            soak.round(row, &mut prng);
        }
    }
    soak.finish();
}

/// All rows, in an order of the seed's.
fn shuffled(prng: &mut Prng) -> Vec<&'static Row> {
    let mut rows: Vec<&Row> = ROWS.iter().collect();
    for last in (1..rows.len()).rev() {
        rows.swap(last, prng.below(last as u64 + 1) as usize);
    }
    rows
}

struct Soak {
    scene: Scene,
    begun: Instant,
    reported: Instant,
    rounds: BTreeMap<&'static str, u64>,
    totals: Totals,
}

impl Soak {
    /// Starts all processes, and has one round without a fault: the proxy's memory then is the measure for later.
    fn start() -> Soak {
        let mut scene = Scene::start();
        let load = Load::start(&scene.world);
        load.wait_for_more();
        let totals = load.finish(&scene.world);
        scene.begin_measuring();
        let now = Instant::now();
        let soak = Soak { scene, begun: now, reported: now, rounds: BTreeMap::new(), totals };
        soak.report("start");
        soak
    }

    /// Whether `length` is over, or the usual number of rounds if that is zero.
    fn is_over(&self, length: Duration) -> bool {
        match length {
            Duration::ZERO => self.rounds.values().sum::<u64>() >= ROUNDS,
            length => self.begun.elapsed() >= length,
        }
    }

    fn round(&mut self, row: &Row, prng: &mut Prng) {
        // The name is the last line if the round fails.
        eprintln!("soak: row={} matrix={:?}", row.name, row.matrix);
        let load = Load::start(&self.scene.world);
        load.wait_for_more();
        (row.happen)(&mut self.scene, &load, prng);
        self.scene.wait_for_all_shards();
        load.wait_for_more();
        self.totals += load.finish(&self.scene.world);
        self.scene.assert_nothing_is_left();
        *self.rounds.entry(row.name).or_default() += 1;
        if self.reported.elapsed() >= REPORT_INTERVAL {
            self.reported = Instant::now();
            self.report("minute");
        }
    }

    fn report(&self, name: &str) {
        let seconds = self.begun.elapsed().as_secs();
        let rounds: u64 = self.rounds.values().sum();
        eprintln!("soak: {name} seconds={seconds} rounds={rounds} {} {}", self.scene.figures(), self.totals);
    }

    fn finish(mut self) {
        self.report("end");
        eprintln!("soak: rounds by row: {:?}", self.rounds);
        self.scene.assert_log_is_sane();
    }
}
