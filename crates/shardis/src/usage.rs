//! Resources of this process, from /proc. On other systems than Linux they are unknown, and INFO shows zeros.

use proxy::Usage;
use rustix::param::{clock_ticks_per_second, page_size};

/// Memory and processor time until now.
pub(crate) fn measure() -> Usage {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (cpu_user_us, cpu_system_us) = cpu_us(&read("/proc/self/stat"));
    let resident_bytes = resident_bytes(&read("/proc/self/statm"));
    let machine_bytes = machine_bytes(&read("/proc/meminfo"));
    Usage { resident_bytes, cpu_user_us, cpu_system_us, machine_bytes, ..Usage::default() }
}

/// The line `MemTotal:  24684096 kB`.
fn machine_bytes(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    number(total.and_then(|total| total.split_whitespace().next())) * 1024
}

/// The second field of statm: pages in memory.
fn resident_bytes(statm: &str) -> u64 {
    number(statm.split_whitespace().nth(1)) * page_size() as u64
}

/// Fields 14 and 15 of stat. The name in field 2 may hold blanks and parentheses, so fields are counted from its end.
fn cpu_us(stat: &str) -> (u64, u64) {
    let behind_name = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut fields = behind_name.split_whitespace().skip(11);
    let mut next = || number(fields.next()) * 1_000_000 / clock_ticks_per_second();
    (next(), next())
}

fn number(field: Option<&str>) -> u64 {
    field.and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figures_are_read_for_any_process_name() {
        let second = clock_ticks_per_second();
        let stat = format!("1 (a) b) c) S 0 1 1 0 -1 4 5 6 7 8 {} {} 0 0 20", second * 3, second / 2);
        assert_eq!(cpu_us(&stat), (3_000_000, 500_000));
        assert_eq!(resident_bytes("900 7 5 1 0 1 0"), 7 * page_size() as u64);
        assert_eq!(machine_bytes("MemFree: 9 kB\nMemTotal:       24684096 kB\n"), 24_684_096 * 1024);
        assert_eq!((cpu_us(""), resident_bytes(""), machine_bytes("")), ((0, 0), 0, 0));
    }
}
