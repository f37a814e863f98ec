//! One node, command, key, slow request, client, event or cause alone: all that is known of it.

use crate::figures::{Cause, Command, Node, Quantiles};
use crate::format::{NONE, bytes, clock, memory, number, percent, rate, time};
use crate::sample::{Client, Event, HotKey, Slow};
use crate::state::State;
use crate::table::{self, Tone};
use crate::view::View;

/// Events shown with a node.
const EVENTS_MAX: usize = 50;

/// A name and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub name: String,
    pub value: String,
    pub tone: Tone,
}

fn field(name: &str, value: impl ToString) -> Field {
    Field { name: name.to_owned(), value: value.to_string(), tone: Tone::Plain }
}

/// All that is known of the row `id` of the present view. `None` if it is gone.
pub(crate) fn fields(state: &State, id: &str) -> Option<Vec<Field>> {
    let (figures, lists) = (state.figures.as_ref()?, &state.lists);
    match state.view {
        View::Nodes => {
            let found = figures.nodes.iter().find(|node| node.address.as_str() == id)?;
            let events = lists.events.iter().flatten().filter(|event| names(event, id));
            Some(node(found, &events.collect::<Vec<_>>()))
        }
        View::Commands => {
            let found = figures.commands.iter().find(|command| command.name.as_str() == id)?;
            let all = figures.commands.iter().map(|command| command.calls).sum();
            Some(command(found, all))
        }
        View::HotKeys => key(&lists.hot.as_ref()?.keys, id, ("key", "requests/s", number)),
        View::BigKeys => key(&lists.hot.as_ref()?.sizes, id, ("key", "bytes/s", bytes)),
        View::Slots => key(&lists.hot.as_ref()?.slots, id, ("slot", "requests/s", number)),
        View::Slow => lists.slow.iter().flatten().find(|slow| slow.id.to_string() == id).map(slow),
        View::Clients => lists.clients.iter().flatten().find(|client| client.field("id") == id).map(client),
        View::Events => lists.events.iter().flatten().find(|event| event.id.to_string() == id).map(event),
        View::Errors => figures.errors.iter().find(|row| row.cause.as_str() == id).map(cause),
    }
}

/// Whether `event` tells something of the node `id`.
fn names(event: &Event, id: &str) -> bool {
    event.details.as_str().split([' ', '=', ',', '"']).any(|word| word == id)
}

fn node(node: &Node, events: &[&Event]) -> Vec<Field> {
    let mut fields = vec![
        field("address", &node.address),
        Field { tone: table::tone(node), ..field("state", table::state(node)) },
        field("shard", &node.shard),
        field("role", &node.role),
        field("keys", table::share(node)),
        field("replies/s", rate(node.replies_per_s)),
        field("times", times(&node.times)),
        field("errors/s", rate(node.errors_per_s)),
        field("failures", number(node.failures as f64)),
        field("connections", number(node.connections as f64)),
        field("in flight", number(node.in_flight as f64)),
        field("queued", bytes(node.queued_bytes as f64)),
        field("memory", memory_of(node)),
        field("bytes/s", node.bytes_per_s.map_or_else(|| NONE.to_owned(), bytes)),
    ];
    if !events.is_empty() {
        fields.extend([field("", ""), field("events", "newest first")]);
    }
    let line = |event: &&Event| field(&clock(event.time_s), format!("{} {}", event.name, event.details));
    fields.extend(events.iter().rev().take(EVENTS_MAX).map(line));
    fields
}

/// The node's memory and its limit, if it has one.
fn memory_of(node: &Node) -> String {
    match node.maxmemory_bytes {
        Some(1..) => format!("{} of {}", memory(node.used_memory_bytes), memory(node.maxmemory_bytes)),
        _ => memory(node.used_memory_bytes),
    }
}

/// The quantiles in one line: a dead node's events must fit below.
fn times(times: &Quantiles) -> String {
    format!("p50 {}, p99 {}, p99.9 {}", time(times.p50_us), time(times.p99_us), time(times.p999_us))
}

fn command(command: &Command, calls_of_all: u64) -> Vec<Field> {
    vec![
        field("command", &command.name),
        field("calls/s", rate(command.calls_per_s)),
        field("calls", number(command.calls as f64)),
        field("of all", percent(command.calls as f64 / calls_of_all.max(1) as f64)),
        field("p50", time(command.times.p50_us)),
        field("p99", time(command.times.p99_us)),
        field("p99.9", time(command.times.p999_us)),
        field("refused", number(command.refused as f64)),
        field("failed", number(command.failed as f64)),
    ]
}

/// The names of the key and of its rate, and how an amount reads.
type Naming = (&'static str, &'static str, fn(f64) -> String);

fn key(keys: &[HotKey], id: &str, (name, per_s, amount): Naming) -> Option<Vec<Field>> {
    let found = keys.iter().find(|hot| hot.key.as_str() == id)?;
    Some(vec![
        field(name, &found.key),
        field(per_s, amount(found.per_s)),
        field("at least", amount((found.per_s - found.error).max(0.0))),
        field("writes", percent(found.writes)),
        field("largest", table::largest(found)),
    ])
}

fn slow(slow: &Slow) -> Vec<Field> {
    vec![
        field("request", &slow.request),
        field("UTC", clock(slow.time_s)),
        field("why", &slow.reason),
        field("time", time(Some(slow.total_us as f64))),
        field("held", time(slow.read_us.map(|us| us as f64))),
        field("before", time(Some(slow.queued_us as f64))),
        field("at the node", time(Some(slow.node_us as f64))),
        field("parts", time(slow.merge_us.map(|us| us as f64))),
        field("in order", time(slow.order_us.map(|us| us as f64))),
        field("unread", time(slow.client_us.map(|us| us as f64))),
        field("shard", &slow.shard),
        field("node", &slow.node),
        field("tries", slow.tries),
        field("request size", slow.request_bytes.map_or_else(|| NONE.to_owned(), |len| bytes(len as f64))),
        field("reply size", bytes(slow.reply_bytes as f64)),
        field("client", &slow.client),
        field("client name", &slow.name),
    ]
}

/// All fields of CLIENT LIST.
fn client(client: &Client) -> Vec<Field> {
    client.0.iter().map(|(name, value)| field(name.as_str(), value)).collect()
}

fn event(event: &Event) -> Vec<Field> {
    let mut fields =
        vec![field("UTC", clock(event.time_s)), field("level", &event.level), field("event", &event.name)];
    fields.extend(event.details.as_str().split(' ').map(|detail| match detail.split_once('=') {
        Some((name, value)) => field(name, value),
        None => field("", detail),
    }));
    let advice = [("meaning", &event.meaning), ("cure", &event.cure)];
    fields.extend(
        advice.iter().filter(|(_, text)| !text.as_str().is_empty()).map(|(name, text)| field(name, text)),
    );
    fields
}

fn cause(cause: &Cause) -> Vec<Field> {
    vec![
        field("cause", cause.cause.as_str().replace('_', " ")),
        field("errors/s", rate(cause.errors_per_s)),
        field("errors", number(cause.count as f64)),
    ]
}
