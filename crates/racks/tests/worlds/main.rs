//! Worlds by seed. Nodes freeze, restart, lose their keys and have wrong clocks; networks stop and deliver late; the process
//! crashes and continues with its hint log. In each world all racks are equal after the repair, and no acknowledged write is
//! lost.
//!
//! `RACK_WORLDS=20000 cargo test -p racks --test worlds` runs more of them, from `RACK_FIRST` on; `RACK_WORLD=17` repeats one.

mod clients;
mod disk;
mod node;
mod world;

use world::World;

/// Worlds of a run, unless the environment says otherwise.
const WORLDS: u64 = 200;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_acknowledged_write_is_lost_and_racks_become_equal() {
    let seeds = match number("RACK_WORLD") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("RACK_FIRST").unwrap_or(0);
            first..first + number("RACK_WORLDS").unwrap_or(WORLDS)
        }
    };
    let (mut replies, mut errors) = (0, 0);
    let mut seen = world::Seen::default();
    let mut failures = Vec::new();
    for seed in seeds.clone() {
        let world = World::new(seed);
        match world.run() {
            Ok(report) => {
                replies += report.ledger.replies;
                errors += report.ledger.errors;
                seen.add(&report);
            }
            Err(error) => failures.push(format!("RACK_WORLD={seed}: {error}")),
        }
    }
    println!("{} worlds, {replies} replies, {errors} errors, {seen:?}", seeds.end - seeds.start);
    assert!(
        failures.is_empty(),
        "{} worlds fail; RACK_WORLD=… cargo test -p racks --test worlds repeats one:\n{}",
        failures.len(),
        failures.join("\n")
    );
    if seeds.end - seeds.start >= WORLDS {
        seen.assert_all();
    }
}
