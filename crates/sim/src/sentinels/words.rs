//! Replies of simulated sentinels, in the form of Redis 7.0.15, without fields that the proxy ignores.

use super::{Host, Sentinel, Stage, View, Watch, name_of, sentinel_address};
use crate::cluster::address;
use resp::{Request, encode};
use stdx::Instant;
use topology::Address;

/// Fields with their values.
type Fields = Vec<(&'static str, String)>;

/// A message in the form for a subscriber of all channels.
pub(crate) fn message(channel: &str, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode::request(&mut bytes, &[b"pmessage", b"*", channel.as_bytes(), text.as_bytes()]);
    bytes
}

/// The replies to a subscription to all messages, and to a PING after it.
pub(crate) const SUBSCRIBED: &[u8] = b"*3\r\n$10\r\npsubscribe\r\n$1\r\n*\r\n:1\r\n";
pub(crate) const PONG: &[u8] = b"*2\r\n$4\r\npong\r\n$0\r\n\r\n";

const UNKNOWN_NAME: &[u8] = b"-ERR No such master with that name\r\n";
const UNKNOWN: &[u8] = b"-ERR Unknown sentinel subcommand\r\n";

/// A name for life.
fn id(host: Host) -> String {
    match host {
        Host::Node(node) => format!("{:040x}", node + 1),
        Host::Sentinel(sentinel) => format!("{:040x}", 0x5e00 + sentinel),
    }
}

fn host_and_port(address: &Address) -> [String; 2] {
    match address {
        Address::Tcp { host, port } => [host.clone(), port.to_string()],
        _ => [String::new(), String::new()],
    }
}

fn fields(host: Host, name: String, flags: &[&str]) -> Fields {
    let [ip, port] = host_and_port(&match host {
        Host::Node(node) => address(node).address,
        Host::Sentinel(sentinel) => sentinel_address(sentinel),
    });
    vec![("name", name), ("ip", ip), ("port", port), ("runid", id(host)), ("flags", flags.join(","))]
}

fn write_fields(out: &mut Vec<u8>, fields: &Fields) {
    encode::array_header(out, 2 * fields.len());
    for (name, value) in fields {
        encode::bulk(out, name.as_bytes());
        encode::bulk(out, value.as_bytes());
    }
}

fn write_list(out: &mut Vec<u8>, entries: &[Fields]) {
    encode::array_header(out, entries.len());
    entries.iter().for_each(|fields| write_fields(out, fields));
}

impl Watch {
    /// The reply of sentinel `number`.
    pub(crate) fn answer(&self, number: usize, request: &Request<'_>, now: Instant) -> Vec<u8> {
        let word = |at: usize| String::from_utf8_lossy(request.get(at).unwrap_or_default()).to_uppercase();
        let mut out = Vec::new();
        match (word(0).as_str(), word(1).as_str()) {
            ("PSUBSCRIBE", _) => out.extend_from_slice(SUBSCRIBED),
            ("PING", _) => out.extend_from_slice(PONG),
            ("SENTINEL", question) if self.sentinels[number].is_replaced => {
                self.answer_as_stranger(number, question, request.get(2).unwrap_or_default(), &mut out);
            }
            ("SENTINEL", "MYID") => encode::bulk(&mut out, id(Host::Sentinel(number)).as_bytes()),
            ("SENTINEL", question) => {
                let name = request.get(2).unwrap_or_default();
                let shard = (0..self.shards()).find(|shard| name_of(*shard).as_bytes() == name);
                match (shard, question) {
                    (Some(shard), _) => self.answer_of(number, shard, question, now, &mut out),
                    (None, "GET-MASTER-ADDR-BY-NAME") => out.extend_from_slice(b"*-1\r\n"),
                    (None, _) => out.extend_from_slice(UNKNOWN_NAME),
                }
            }
            _ => out.extend_from_slice(b"-ERR unknown command\r\n"),
        }
        out
    }

    /// The replies of another sentinel at its address: replicas are primaries, in an epoch that no sentinel has seen.
    fn answer_as_stranger(&self, number: usize, question: &str, name: &[u8], out: &mut Vec<u8>) {
        let shard = (0..self.shards()).find(|shard| name_of(*shard).as_bytes() == name).unwrap_or_default();
        let node = shard + self.shards();
        match question {
            "MYID" => encode::bulk(out, id(Host::Sentinel(number + 100)).as_bytes()),
            "GET-MASTER-ADDR-BY-NAME" => {
                let place = host_and_port(&address(node).address);
                encode::request(out, &[place[0].as_bytes(), place[1].as_bytes()]);
            }
            "MASTER" => {
                let mut fields = fields(Host::Node(node), name_of(shard), &["master"]);
                fields.push(("config-epoch", "1000000".to_owned()));
                write_fields(out, &fields);
            }
            _ => write_list(out, &[]),
        }
    }

    fn answer_of(&self, number: usize, shard: usize, question: &str, now: Instant, out: &mut Vec<u8>) {
        let sentinel = &self.sentinels[number];
        let view = &sentinel.views[shard];
        match question {
            "GET-MASTER-ADDR-BY-NAME" => {
                let place = host_and_port(&address(view.claimed()).address);
                encode::request(out, &[place[0].as_bytes(), place[1].as_bytes()]);
            }
            "MASTER" => write_fields(out, &self.primary_fields(sentinel, shard)),
            "REPLICAS" | "SLAVES" => {
                let nodes = (shard..sentinel.heard_at.len()).step_by(self.shards());
                let replicas = nodes.filter(|node| *node != view.primary);
                let entries: Vec<Fields> =
                    replicas.map(|node| replica_fields(sentinel, view, node, now)).collect();
                write_list(out, &entries);
            }
            "SENTINELS" => {
                let others = (0..self.sentinels.len()).filter(|other| *other != number);
                let entries: Vec<Fields> = others.map(|other| self.fellow_fields(number, other)).collect();
                write_list(out, &entries);
            }
            _ => out.extend_from_slice(UNKNOWN),
        }
    }

    fn primary_fields(&self, sentinel: &Sentinel, shard: usize) -> Fields {
        let view = &sentinel.views[shard];
        let mut flags = Vec::from(if view.is_down { &["s_down", "master"][..] } else { &["master"] });
        if let Some(failover) = view.failover {
            flags.push("failover_in_progress");
            flags.extend(failover.is_forced.then_some("force_failover"));
        }
        let mut fields = fields(Host::Node(view.primary), name_of(shard), &flags);
        fields.push(("config-epoch", view.epoch.to_string()));
        fields.push(("quorum", self.quorum.to_string()));
        fields
    }

    fn fellow_fields(&self, number: usize, other: usize) -> Fields {
        let its = &self.sentinels[other];
        let is_heard = (!its.is_down || its.is_replaced)
            && !self.are_apart(Host::Sentinel(number), Host::Sentinel(other));
        let flags: &[&str] = if is_heard { &["sentinel"] } else { &["s_down", "sentinel"] };
        fields(Host::Sentinel(other), id(Host::Sentinel(other)), flags)
    }
}

fn replica_fields(sentinel: &Sentinel, view: &View, node: usize, now: Instant) -> Fields {
    let mut flags = vec!["slave"];
    if now.since(sentinel.heard_at[node]) > super::DOWN_AFTER {
        flags.insert(0, "s_down");
    }
    let chosen = view.failover.map(|failover| failover.stage);
    if matches!(chosen, Some(Stage::Chosen(heir) | Stage::Told(heir) | Stage::Promoted(heir)) if heir == node)
    {
        flags.push("promoted");
    }
    let mut fields = fields(Host::Node(node), address(node).address.to_string(), &flags);
    fields.push(("replica-announced", "1".to_owned()));
    fields
}
