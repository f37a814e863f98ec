//! The report when everything is ready: for people, or as one line of JSON.

use super::layout::{Shape, set_name};
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;

/// A topology that is ready.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) shape: Shape,
    pub(super) nodes: Vec<ReadyNode>,
    pub(super) sentinels: Vec<ReadyNode>,
    pub(super) proxy: Option<ReadyNode>,
    /// Of the proxy's admin listener.
    pub(super) admin_port: Option<u16>,
    pub(super) folder: PathBuf,
    pub(super) is_kept: bool,
}

/// One of its processes.
#[derive(Clone, Debug)]
pub(super) struct ReadyNode {
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) pid: u32,
    /// The port of the primary that it copies.
    pub(super) primary: Option<u16>,
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

impl Ready {
    /// All that a program needs, in one value.
    pub(super) fn json(&self) -> Value {
        let process =
            |node: &ReadyNode| json!({"name": node.name, "address": address(node.port), "pid": node.pid});
        let node = |node: &ReadyNode| {
            let mut value = process(node);
            value["role"] = if node.primary.is_some() { "replica" } else { "primary" }.into();
            value["primary"] = node.primary.map(address).into();
            value
        };
        let sets = match self.shape {
            Shape::Sets { sets, .. } => (0..usize::from(sets)).map(set_name).collect(),
            Shape::Nodes { .. } | Shape::Cluster { .. } => Vec::new(),
        };
        json!({
            "topology": self.shape.to_string(),
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
            "sentinels": self.sentinels.iter().map(process).collect::<Vec<_>>(),
            "sets": sets,
            "proxy": self.proxy.as_ref().map(process),
            "admin": self.admin_port.map(address),
            "folder": self.folder,
        })
    }

    /// A command that shows that it works.
    fn example(&self) -> String {
        let first = self.nodes.first().map_or(0, |node| node.port);
        match &self.proxy {
            Some(proxy) => format!("redis-cli -p {}", proxy.port),
            None if self.shape.is_cluster() => format!("redis-cli -c -p {first}"),
            None => format!("redis-cli -p {first}"),
        }
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.nodes.iter().chain(&self.sentinels).chain(&self.proxy);
        for node in all {
            write!(out, "{:<12}{}", node.name, address(node.port))?;
            match node.primary {
                Some(primary) => writeln!(out, "  replica of {}", address(primary))?,
                None => writeln!(out)?,
            }
        }
        if let Some(port) = self.admin_port {
            writeln!(out, "{:<12}http://{}", "page", address(port))?;
        }
        let fate = if self.is_kept { "kept" } else { "removed at the end" };
        writeln!(out, "\nData and logs: {} ({fate}). In another terminal:\n", self.folder.display())?;
        for words in ["set greeting hello", "get greeting"] {
            writeln!(out, "    {} {words}", self.example())?;
        }
        if let Some(sentinel) = self.sentinels.first() {
            writeln!(out, "    redis-cli -p {} sentinel masters", sentinel.port)?;
        }
        writeln!(out, "\nCtrl-C stops all of it.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(proxy: bool) -> Ready {
        let node = |name: &str, port, primary| ReadyNode { name: name.into(), port, pid: 7, primary };
        Ready {
            shape: Shape::Sets { sets: 1, nodes: 2, sentinel: true },
            nodes: vec![node("node-0", 7000, None), node("node-1", 7001, Some(7000))],
            sentinels: vec![node("sentinel-0", 7002, None)],
            proxy: proxy.then(|| node("proxy", 6380, None)),
            admin_port: proxy.then_some(6381),
            folder: "/data".into(),
            is_kept: true,
        }
    }

    #[test]
    fn people_see_addresses_and_a_command() {
        let text = ready(true).to_string();
        assert!(text.contains("node-1      127.0.0.1:7001  replica of 127.0.0.1:7000\n"), "{text}");
        assert!(text.contains("redis-cli -p 6380 set greeting hello\n"), "{text}");
        assert!(text.contains("page        http://127.0.0.1:6381\n"), "{text}");
        assert!(ready(false).to_string().contains("redis-cli -p 7000 set"));
        let cluster = Ready { shape: Shape::Cluster { nodes: 3 }, ..ready(false) };
        assert!(cluster.to_string().contains("redis-cli -c -p 7000 set"));
    }

    #[test]
    fn programs_see_the_same_as_json() {
        let json = ready(true).json();
        assert_eq!(json["topology"], "--sets=1 --replication=2 --sentinel");
        assert_eq!(json["nodes"][1]["role"], "replica");
        assert_eq!(json["nodes"][1]["primary"], "127.0.0.1:7000");
        assert_eq!(json["sentinels"][0]["address"], "127.0.0.1:7002");
        assert_eq!(
            (&json["sets"][0], &json["proxy"]["address"]),
            (&json!("set-0"), &json!("127.0.0.1:6380"))
        );
        assert_eq!(ready(true).json()["admin"], "127.0.0.1:6381");
        assert_eq!(ready(false).json()["proxy"], Value::Null);
    }
}
