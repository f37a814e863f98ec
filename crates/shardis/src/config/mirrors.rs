//! Mirrors that are pools of the same file, by their names.

use crate::args::mirror::{Mirrored, target_of};
use crate::args::serving::Pool;

/// Gives mirrors that are named their addresses. Returns the faults.
pub(super) fn resolve(pools: &mut [Pool]) -> Vec<String> {
    let mirrors: Vec<Option<usize>> = pools.iter().map(|pool| named(pools, pool)).collect();
    let mut faults = Vec::new();
    for number in 0..pools.len() {
        let Some(Mirrored::Named(name)) = pools[number].args.admin.mirror.mirror.clone() else { continue };
        let pool = pools[number].name.clone().unwrap_or_default();
        let refused = |why: &str| format!("pool {pool}: mirror = {name:?}: {why}");
        let Some(other) = mirrors[number] else {
            faults.push(refused("no pool has this name"));
            continue;
        };
        if leads_to(&mirrors, other, number) {
            faults.push(refused(
                "its mirror leads back to this pool; each request would come again without end",
            ));
            continue;
        }
        match pools[other].args.ways_in().ok().and_then(|ways| target_of(&ways)) {
            Some(target) => pools[number].args.admin.mirror.mirror = Some(Mirrored::At(target)),
            None => faults.push(refused("that pool has no listener with a port of its own and without TLS")),
        }
    }
    faults
}

/// The number of the pool that `pool` names as its mirror.
fn named(pools: &[Pool], pool: &Pool) -> Option<usize> {
    match &pool.args.admin.mirror.mirror {
        Some(Mirrored::Named(name)) => pools.iter().position(|other| other.name.as_ref() == Some(name)),
        _ => None,
    }
}

/// Whether the mirrors from the pool `from` on lead to the pool `to`.
fn leads_to(mirrors: &[Option<usize>], from: usize, to: usize) -> bool {
    let mut at = Some(from);
    for _ in 0..mirrors.len() {
        match at {
            Some(pool) if pool == to => return true,
            Some(pool) => at = mirrors[pool],
            None => return false,
        }
    }
    false
}
