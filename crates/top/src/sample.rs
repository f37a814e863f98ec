//! The answers of the admin listener, as far as they are shown.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt::{self, Write};

/// Text from elsewhere that a terminal can show: control characters, and those that turn or hide the letters behind them, are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(from = "String")]
pub(crate) struct Shown(String);

impl Shown {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Shown {
    fn from(text: String) -> Shown {
        Shown::from(text.as_str())
    }
}

impl From<&str> for Shown {
    fn from(text: &str) -> Shown {
        let mut shown = String::with_capacity(text.len());
        for letter in text.chars() {
            if letter.is_control() || is_invisible(letter) {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(letter));
            } else {
                shown.push(letter);
            }
        }
        Shown(shown)
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

/// Letters without width, and those that change the direction of the letters behind them.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The answer to `/status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub version: Shown,
    pub started_s: f64,
    pub now_s: f64,
    pub is_draining: bool,
    pub layout: Shown,
    pub epoch: u64,
    pub totals: Totals,
    pub memory: Memory,
    pub workers: Vec<Worker>,
    pub nodes: Vec<Node>,
    pub commands: Vec<Command>,
    pub errors: Vec<Cause>,
}

/// Sums of all workers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Totals {
    pub requests: u64,
    pub clients: u64,
    pub clients_blocked: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    pub resident_bytes: u64,
    pub held_bytes: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Worker {
    pub requests: u64,
    pub clients: u64,
    pub held_bytes: u64,
    pub busy_s: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub address: Shown,
    pub shard: Shown,
    pub role: Shown,
    pub state: Shown,
    pub reason: Shown,
    pub connections: u64,
    pub in_flight: u64,
    pub queued_bytes: u64,
    pub used_memory_bytes: Option<u64>,
    pub maxmemory_bytes: Option<u64>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub errors: u64,
    pub failures: u64,
    pub share: f64,
    pub times: Times,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Command {
    pub name: Shown,
    pub calls: u64,
    pub refused: u64,
    pub failed: u64,
    pub times: Times,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Cause {
    pub cause: Shown,
    pub count: u64,
}

/// A distribution: counts below 1, 2, 4, … microseconds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Times {
    pub count: u64,
    pub below: Vec<u64>,
}

/// A line of the log.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Event {
    pub id: u64,
    pub time_s: f64,
    pub level: Shown,
    pub name: Shown,
    pub details: Shown,
    pub meaning: Shown,
    pub cure: Shown,
}

/// The answer to `/hot`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Hot {
    /// By requests.
    pub keys: Vec<HotKey>,
    /// By bytes.
    pub sizes: Vec<HotKey>,
    /// By requests.
    pub slots: Vec<HotKey>,
}

/// A key, or a slot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct HotKey {
    pub key: Shown,
    pub per_s: f64,
    pub error: f64,
    pub writes: f64,
    pub bytes_max: u64,
}

/// A slow request.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Slow {
    pub id: u64,
    pub reason: Shown,
    pub time_s: f64,
    pub total_us: u64,
    pub read_us: Option<u64>,
    pub queued_us: u64,
    pub node_us: u64,
    pub merge_us: Option<u64>,
    pub order_us: Option<u64>,
    pub client_us: Option<u64>,
    pub request: Shown,
    pub client: Shown,
    pub name: Shown,
    pub shard: Shown,
    pub node: Shown,
    pub request_bytes: Option<u64>,
    pub reply_bytes: u64,
    pub tries: u64,
}

/// A client: the fields of its line in CLIENT LIST, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Client(pub Vec<(Shown, Shown)>);

impl Serialize for Client {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Client {
    /// The lines of `/clients`.
    pub(crate) fn all(text: &str) -> Vec<Client> {
        let fields = |line: &str| {
            let fields = line.split(' ').filter_map(|field| field.split_once('='));
            Client(fields.map(|(name, value)| (name.into(), value.into())).collect())
        };
        text.lines().map(fields).filter(|client| !client.0.is_empty()).collect()
    }

    /// The field `name`; empty if there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known.as_str() == name);
        found.map_or("", |(_, value)| value.as_str())
    }
}

/// The answers that not each view needs. `None` where it was not asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Lists {
    pub events: Option<Vec<Event>>,
    pub clients: Option<Vec<Client>>,
    pub hot: Option<Hot>,
    pub slow: Option<Vec<Slow>>,
}

impl Lists {
    /// Takes what `newer` has.
    pub(crate) fn update(&mut self, newer: Lists) {
        self.events = newer.events.or(self.events.take());
        self.clients = newer.clients.or(self.clients.take());
        self.hot = newer.hot.or(self.hot.take());
        self.slow = newer.slow.or(self.slow.take());
    }

    /// Takes what `newer` has and these do not.
    pub(crate) fn complete(&mut self, mut newer: Lists) {
        newer.update(std::mem::take(self));
        *self = newer;
    }
}

/// One look at the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub status: Status,
    pub lists: Lists,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_elsewhere_controls_the_terminal() {
        let shown = |text: &str| Shown::from(text).to_string();
        assert_eq!(shown("a\x1b[2Jb\r\n\u{9b}31m"), "a\\u{1b}[2Jb\\u{d}\\u{a}\\u{9b}31m");
        assert_eq!(shown("\u{202e}gpj.exe\u{200b}"), "\\u{202e}gpj.exe\\u{200b}");
        assert_eq!(shown("größe 鍵"), "größe 鍵");
        let node: Node = serde_json::from_str(r#"{"address":"\u001b]0;x\u0007"}"#).expect("valid");
        assert_eq!(node.address.as_str(), "\\u{1b}]0;x\\u{7}");
    }

    #[test]
    fn clients_are_lines_of_fields() {
        let clients = Client::all("id=1 addr=a:1 name= cmd=get\n\nid=2 addr=b:1 name=x=y\n");
        assert_eq!(clients.len(), 2);
        assert_eq!(
            (clients[0].field("cmd"), clients[0].field("name"), clients[1].field("name")),
            ("get", "", "x=y")
        );
        assert_eq!(clients[0].field("none"), "");
    }

    #[test]
    fn fields_that_an_older_shardis_lacks_are_zero() {
        let status: Status =
            serde_json::from_str(r#"{"now_s":5.0,"nodes":[{"address":"a:1"}]}"#).expect("valid");
        assert_eq!((status.now_s, status.nodes[0].failures, status.commands.len()), (5.0, 0, 0));
    }
}
