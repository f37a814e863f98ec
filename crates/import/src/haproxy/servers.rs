//! The servers of a backend: nodes, probes, PROXY headers.

use super::options::{PROXY, SERVER, SERVER_FLAGS};
use super::sections::Line;
use crate::address::{bare, is_plain, node, parse_port};
use crate::draft::{Draft, Origin, Table};
use crate::fault::Word;
use crate::options::fate;
use crate::passing::{Common, Node, set_nodes};
use crate::units::{duration_ms, number};

/// The shortest interval of probes here.
const INTERVAL_MS_MIN: u64 = 10;

/// The nodes of a group, and their common settings.
#[derive(Debug)]
pub(super) struct Servers {
    nodes: Vec<Node>,
    interval: Common,
    /// The PROXY header of each node that gets clients.
    headers: Vec<(Option<&'static str>, Word)>,
    /// A server with `check`.
    checked: Option<Word>,
    /// A line that makes the probes ask for PING.
    ping: Option<Word>,
}

/// Parameters of a server, or of those that follow.
#[derive(Clone, Debug)]
struct Parameters {
    weight: u64,
    check: bool,
    interval_ms: Option<(u64, Word)>,
    header: Option<&'static str>,
    is_out: bool,
}

impl Servers {
    /// Reads the lines of a group.
    pub(super) fn read(lines: &[&Line], draft: &mut Draft) -> Servers {
        let mut servers = Servers {
            nodes: Vec::new(),
            interval: Common::new("inter", "check-interval-ms"),
            headers: Vec::new(),
            checked: None,
            ping: None,
        };
        let mut common =
            Parameters { weight: 1, check: false, interval_ms: None, header: None, is_out: false };
        for line in lines {
            match (line.key.text.as_str(), line.word(0)) {
                ("default-server", _) => common = parameters(line, 0, &common, draft),
                ("server", _) => servers.server(line, &common, draft),
                ("option", "redis-check") => servers.ping = Some(line.key.with("option redis-check")),
                ("tcp-check", _) => servers.question(line, draft),
                _ => {}
            }
        }
        servers
    }

    fn server(&mut self, line: &Line, common: &Parameters, draft: &mut Draft) {
        let (name, text) = (line.word(0), line.word(1));
        let place = &line.key.place;
        if !text.is_empty() && text.contains('$') {
            return draft.refuse(
                &line.key.with(format!("server {name}")),
                "variables are not replaced; write the address",
            );
        }
        let Some(address) = address(text) else {
            return draft
                .fault(place, format!("server {name} {text}: write a name, and an address with its port"));
        };
        let own = parameters(line, 2, common, draft);
        let at = line.key.with(format!("server {}", line.shown()));
        if own.is_out || own.weight == 0 {
            return draft.meet(&at, "the node gets no clients");
        }
        if own.check {
            self.checked.get_or_insert_with(|| at.clone());
            self.interval.values.extend(own.interval_ms);
        }
        self.headers.push((own.header, at));
        self.nodes.push(Node { address, weight: own.weight, place: place.clone() });
    }

    /// A line of `tcp-check`.
    fn question(&mut self, line: &Line, draft: &mut Draft) {
        let (key, shown) = (line.key.with(format!("tcp-check {}", line.word(0))), line.shown());
        let lower = shown.to_ascii_lowercase();
        match line.word(0) {
            "expect" if lower.contains("role:") || lower.contains("role\\:") => {
                draft.lose_or_refuse_role(&key)
            }
            "send" if lower.contains("ping") => self.ping = Some(key),
            "connect" | "comment" => {}
            "expect" if lower.contains("pong") => {}
            "send" | "expect" | "send-binary" | "send-lf" | "set-var" | "unset-var" => {
                draft.lose(&key, PROXY, "tcp-check")
            }
            _ => draft.fault(&line.key.place, format!("tcp-check {shown}: the action is unknown")),
        }
    }

    /// Sets the keys of a listener that passes to these nodes.
    pub(super) fn set(&self, table: &mut Table, origin: &Origin, draft: &mut Draft) {
        set_nodes(table, &self.nodes, origin);
        match (&self.checked, &self.ping) {
            (Some(_), Some(ping)) => table.set("check", "ping", &Origin::of(ping, "")),
            (Some(checked), None) => table.set("check", "tcp", &Origin::of(checked, "")),
            (None, _) => table.set("check", "off", &Origin::implied("no server has check")),
        }
        self.interval.set(table, draft);
        let Some((first, at)) = self.headers.first() else { return };
        if let Some((_, other)) = self.headers.iter().find(|(header, _)| header != first) {
            return draft.refuse(other, "all nodes of a listener get the same PROXY header, or none");
        }
        if let Some(version) = first {
            table.set("send-proxy", *version, &Origin::of(at, ""));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl Draft {
    /// Refuses a probe that looks for the primary: writes would go to replicas.
    fn lose_or_refuse_role(&mut self, key: &Word) {
        self.refuse(
            key,
            "the check finds the primary by its role, and shardis tcp has none such; shardis proxy follows the primary with sentinel and master",
        );
    }
}

/// The parameters of `line` from the word `from` on, over those of `common`.
fn parameters(line: &Line, from: usize, common: &Parameters, draft: &mut Draft) -> Parameters {
    let mut own = common.clone();
    let mut words = line.words.iter().skip(from);
    while let Some(word) = words.next() {
        let name = word.text.as_str();
        let Some(fate) = fate(SERVER, name) else {
            draft.fault(&word.place, format!("{name}: the parameter of {} is unknown", line.key.text));
            continue;
        };
        let value =
            if SERVER_FLAGS.contains(&name) { "" } else { words.next().map_or("", |word| &word.text) };
        let at = word.with(format!("{} {} {name}", line.key.text, line.word(0)));
        let is_valid = match name {
            "weight" => number(value, 256).map(|weight| own.weight = weight).is_some(),
            "check" | "no-check" => {
                own.check = name == "check";
                true
            }
            "inter" => {
                let ms = duration_ms(value, 1).map(|ms| ms.max(INTERVAL_MS_MIN));
                own.interval_ms = ms.map(|ms| (ms, at.with(format!("inter {value}"))));
                ms.is_some()
            }
            "send-proxy" => {
                own.header = Some("v1");
                true
            }
            "send-proxy-v2" => {
                own.header = Some("v2");
                true
            }
            "disabled" | "enabled" => {
                own.is_out = name == "disabled";
                true
            }
            _ => {
                own.is_out |= name == "backup";
                draft.settle(&at, fate);
                true
            }
        };
        if !is_valid {
            draft.fault(&word.place, format!("{name} {value}: there is no such value"));
        }
    }
    own
}

/// The address of a server as a list of nodes has it.
fn address(text: &str) -> Option<String> {
    let text = text.strip_prefix("ipv4@").or_else(|| text.strip_prefix("ipv6@")).unwrap_or(text);
    if let Some(path) = text.strip_prefix("unix@").or_else(|| text.starts_with('/').then_some(text)) {
        return Some(format!("unix:{path}")).filter(|_| is_plain(path) && path.starts_with('/'));
    }
    let (host, port) = text.rsplit_once(':')?;
    parse_port(port)?;
    let host = bare(host);
    Some(node(host, port)).filter(|_| !host.is_empty() && is_plain(host))
}
