//! The kernel's facts about sockets and processes: `/proc` of Linux. On other systems the answers are neutral, which makes the
//! tests weaker there, never wrong.

use std::fs;

/// Bytes that arrived at the socket `port` from `peer_port` (both on the loopback) and were not read by its owner.
/// Zero if there is no such connection.
pub(crate) fn unread_bytes(port: u16, peer_port: u16) -> u64 {
    connections().find(|conn| conn.port == port && conn.peer_port == peer_port).map_or(0, |conn| conn.unread)
}

/// Bytes that arrived at any connection to `port` and were not read by its owner.
pub(crate) fn unread_bytes_of_all(port: u16) -> u64 {
    connections().filter(|conn| conn.port == port).map(|conn| conn.unread).sum()
}

/// Bytes that arrived at any connection from `peer_port` and were not read by its owner.
pub(crate) fn unread_bytes_from(peer_port: u16) -> u64 {
    connections().filter(|conn| conn.peer_port == peer_port).map(|conn| conn.unread).sum()
}

/// Resident memory of a process in bytes, if the kernel tells.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmRSS:")
}

/// The most resident memory that a process ever had, in bytes, if the kernel tells.
pub(crate) fn peak_resident_bytes(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmHWM:")
}

fn status_bytes(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Number of open files and sockets of a process, if the kernel reports it.
pub(crate) fn open_files(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// Whether a process is gone, or has ended and only its parent does not know yet.
pub(crate) fn has_ended(pid: u32) -> bool {
    stat_of(pid).is_none_or(|stat| stat.state == "Z")
}

/// Whether no thread of a process runs or wants to. True if the kernel does not tell.
pub(crate) fn is_asleep(pid: u32) -> bool {
    have_all_threads(pid, "S")
}

/// Whether SIGSTOP has stopped every thread of a process. True if the kernel does not tell.
pub(crate) fn is_stopped(pid: u32) -> bool {
    have_all_threads(pid, "T")
}

fn have_all_threads(pid: u32, state: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut ids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    ids.all(|id| stat_of(id).is_none_or(|stat| stat.state == state))
}

/// The processes whose parent is `pid`.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    processes(|stat| stat.parent == pid)
}

/// The processes in the group that `pid` leads.
pub(crate) fn group_of(pid: u32) -> Vec<u32> {
    processes(|stat| stat.group == pid)
}

fn processes(is_meant: impl Fn(&Stat) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| stat_of(pid).is_some_and(|stat| is_meant(&stat))).collect()
}

/// The fields of `/proc/PID/stat`.
struct Stat {
    state: String,
    parent: u32,
    group: u32,
}

fn stat_of(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.to_owned();
    Some(Stat { state, parent: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
}

/// One row of `/proc/net/tcp` that is an established connection or the closing of one.
struct Connection {
    port: u16,
    peer_port: u16,
    unread: u64,
}

fn connections() -> impl Iterator<Item = Connection> {
    const LISTEN: &str = "0A";
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let rows: Vec<Connection> = table
        .lines()
        .skip(1)
        .filter_map(|line| {
            // sl  local_address rem_address   st tx_queue:rx_queue …
            let mut columns = line.split_whitespace().skip(1);
            let port = port_of(columns.next()?)?;
            let peer_port = port_of(columns.next()?)?;
            if columns.next()? == LISTEN {
                return None;
            }
            let (_, unread) = columns.next()?.split_once(':')?;
            Some(Connection { port, peer_port, unread: u64::from_str_radix(unread, 16).ok()? })
        })
        .collect();
    rows.into_iter()
}

fn port_of(addr: &str) -> Option<u16> {
    u16::from_str_radix(addr.split_once(':')?.1, 16).ok()
}
