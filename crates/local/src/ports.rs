//! Ports of this machine without a listener.

use anyhow::{Result, bail, ensure};
use std::net::{Ipv4Addr, TcpListener};
use stdx::Prng;

/// The range of free ports. It is below the range from which the kernel gives ports to outgoing connections. The ports of the
/// cluster bus are below that range too.
const RANGE: std::ops::Range<u16> = 11_000..22_000;
/// Offset of the port at which nodes of a cluster talk to each other.
const BUS_OFFSET: u16 = 10_000;
/// Looks before it gives up.
const LOOKS_MAX: usize = 10_000;

/// Ports for `count` processes: from `base` on, or free ports from a random start.
pub(super) fn choose(count: usize, base: Option<u16>, with_bus: bool, seed: u64) -> Result<Vec<u16>> {
    match base {
        Some(base) => from_base(count, base, with_bus),
        None => free(count, with_bus, seed),
    }
}

fn from_base(count: usize, base: u16, with_bus: bool) -> Result<Vec<u16>> {
    let last =
        usize::from(base) + count.saturating_sub(1) + if with_bus { usize::from(BUS_OFFSET) } else { 0 };
    ensure!(
        last <= usize::from(u16::MAX),
        "--port {base}: there are not enough ports behind it; choose a lower one"
    );
    let ports: Vec<u16> = (base..=u16::MAX).take(count).collect();
    match ports.iter().find(|&&port| !is_free(port, with_bus)) {
        Some(port) => bail!("port {port} is taken; choose others with --port"),
        None => Ok(ports),
    }
}

fn free(count: usize, with_bus: bool, seed: u64) -> Result<Vec<u16>> {
    let mut prng = Prng::new(seed);
    let mut ports = Vec::with_capacity(count);
    for _ in 0..LOOKS_MAX {
        if ports.len() == count {
            break;
        }
        let port = RANGE.start + prng.below(u64::from(RANGE.end - RANGE.start)) as u16;
        if !ports.contains(&port) && is_free(port, with_bus) {
            ports.push(port);
        }
    }
    ensure!(
        ports.len() == count,
        "there are no {count} free ports from {} on; name some with --port",
        RANGE.start
    );
    Ok(ports)
}

/// Whether `port` has no listener, and neither has that of its cluster bus.
pub(super) fn is_free(port: u16, with_bus: bool) -> bool {
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    free(port) && (!with_bus || port.checked_add(BUS_OFFSET).is_some_and(free))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ_and_a_taken_one_is_refused() {
        let mut ports = choose(8, None, true, 7).expect("there are eight");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 8);
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = taken.local_addr().expect("bound").port();
        let error = choose(1, Some(port), false, 7).expect_err("it is taken").to_string();
        assert_eq!(error, format!("port {port} is taken; choose others with --port"));
    }

    #[test]
    fn ports_that_do_not_exist_are_refused() {
        for (base, with_bus) in [(65_535, false), (55_535, true)] {
            let error = choose(2, Some(base), with_bus, 7).expect_err("there are none").to_string();
            assert!(error.contains("choose a lower one"), "{error}");
        }
    }
}
