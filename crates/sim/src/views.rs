//! Replies of a simulated cluster's node about the whole cluster. Its view may be old, or that of a minority.

use crate::cluster::{Map, address};
use resp::{Request, encode};
use topology::{Address, SLOTS};

/// A node's view of itself and the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eye<'m> {
    /// Its own number.
    pub node: usize,
    /// Its map.
    pub map: &'m Map,
    /// The newest epoch that it has heard of.
    pub epoch: u64,
    /// Whether it sees a majority.
    pub is_ok: bool,
    /// Whether it is older than Redis 7, which has CLUSTER SHARDS.
    pub is_old: bool,
}

/// A node's name for life.
fn id(node: usize) -> String {
    format!("{:040x}", node + 1)
}

fn host_and_port(node: usize) -> (String, u16) {
    match address(node).address {
        Address::Tcp { host, port } => (host, port),
        _ => (String::new(), 0),
    }
}

/// Its reply to CLUSTER INFO and related commands; `None` for any other request.
pub(crate) fn answer(eye: Eye<'_>, request: &Request<'_>) -> Option<Vec<u8>> {
    if !request.arg(0).eq_ignore_ascii_case(b"cluster") {
        return None;
    }
    let mut reply = Vec::new();
    match request.get(1)?.to_ascii_lowercase().as_slice() {
        b"info" => {
            let state = if eye.is_ok { "ok" } else { "fail" };
            let text = format!("cluster_state:{state}\r\ncluster_current_epoch:{}\r\n", eye.epoch);
            encode::bulk(&mut reply, text.as_bytes());
        }
        b"nodes" => encode::bulk(&mut reply, nodes(eye).as_bytes()),
        b"shards" if eye.is_old => {
            encode::error(&mut reply, b"ERR Unknown subcommand or wrong number of arguments for 'SHARDS'");
        }
        b"shards" => write_shards(eye.map, &mut reply),
        b"slots" => write_slots(eye.map, &mut reply),
        _ => return None,
    }
    Some(reply)
}

/// A line for each node.
fn nodes(eye: Eye<'_>) -> String {
    let mut text = String::new();
    for (shard, nodes) in eye.map.members().iter().enumerate() {
        for (place, &node) in nodes.iter().enumerate() {
            let (host, port) = host_and_port(node);
            let myself = if node == eye.node { "myself," } else { "" };
            let fail = if eye.map.failed.contains(&node) { ",fail" } else { "" };
            let (role, primary) = match place {
                0 => ("master", "-".to_owned()),
                _ => ("slave", id(nodes[0])),
            };
            let epoch = eye.map.epochs[shard];
            text += &format!(
                "{} {host}:{port}@{} {myself}{role}{fail} {primary} 0 0 {epoch} connected",
                id(node),
                port + 10_000
            );
            for (first, last) in eye.map.ranges(shard).into_iter().filter(|_| place == 0) {
                text += &if first == last { format!(" {first}") } else { format!(" {first}-{last}") };
            }
            text.push('\n');
        }
    }
    text
}

fn write_shards(map: &Map, reply: &mut Vec<u8>) {
    encode::array_header(reply, map.members().len());
    for (shard, nodes) in map.members().iter().enumerate() {
        let ranges = map.ranges(shard);
        encode::array_header(reply, 4);
        encode::bulk(reply, b"slots");
        encode::array_header(reply, 2 * ranges.len());
        for (first, last) in ranges {
            encode::integer(reply, i64::from(first));
            encode::integer(reply, i64::from(last));
        }
        encode::bulk(reply, b"nodes");
        encode::array_header(reply, nodes.len());
        for (place, &node) in nodes.iter().enumerate() {
            let (host, port) = host_and_port(node);
            let (id, role) = (id(node), if place == 0 { "master" } else { "replica" });
            let health = if map.failed.contains(&node) { "fail" } else { "online" };
            encode::array_header(reply, 12);
            for (name, value) in
                [("id", &*id), ("ip", &*host), ("endpoint", &*host), ("role", role), ("health", health)]
            {
                encode::bulk(reply, name.as_bytes());
                encode::bulk(reply, value.as_bytes());
            }
            encode::bulk(reply, b"port");
            encode::integer(reply, i64::from(port));
        }
    }
}

fn write_slots(map: &Map, reply: &mut Vec<u8>) {
    let all: Vec<_> = (0..map.joined).map(|shard| (map.shards[shard], map.ranges(shard))).collect();
    encode::array_header(reply, all.iter().map(|(_, ranges)| ranges.len()).sum());
    for (nodes, (first, last)) in
        all.iter().flat_map(|(nodes, ranges)| ranges.iter().map(move |of| (nodes, of)))
    {
        encode::array_header(reply, 2 + nodes.len());
        encode::integer(reply, i64::from(*first));
        encode::integer(reply, i64::from(*last));
        for &node in nodes {
            let (host, port) = host_and_port(node);
            encode::array_header(reply, 3);
            encode::bulk(reply, host.as_bytes());
            encode::integer(reply, i64::from(port));
            encode::bulk(reply, id(node).as_bytes());
        }
    }
}

impl Map {
    /// The shards that have joined.
    fn members(&self) -> &[[usize; 2]] {
        &self.shards[..self.joined]
    }

    /// The slots of a shard, those in a row together.
    pub(crate) fn ranges(&self, shard: usize) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in (0..SLOTS).filter(|slot| self.owners[usize::from(*slot)] == shard) {
            match ranges.last_mut().filter(|(_, last)| last + 1 == slot) {
                Some((_, last)) => *last = slot,
                None => ranges.push((slot, slot)),
            }
        }
        ranges
    }

    /// The newest epoch that it has heard of.
    pub(crate) fn epoch(&self) -> u64 {
        self.epochs[..self.joined].iter().copied().max().unwrap_or_default()
    }
}
