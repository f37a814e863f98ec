//! Slow requests as JSON.

use crate::routes::Wanted;
use proxy::{SlowLog, SlowRequest};
use serde::Serialize;

/// One request, as `/slow` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct SlowAnswer {
    id: u64,
    /// `slow`, or `sample`.
    reason: &'static str,
    /// Seconds since 1970.
    time_s: f64,
    total_us: u32,
    read_us: Option<u32>,
    queued_us: u32,
    node_us: u32,
    merge_us: Option<u32>,
    order_us: Option<u32>,
    client_us: Option<u32>,
    /// The command, and the arguments if they were kept: shortened, unprintable bytes escaped.
    request: String,
    client: String,
    name: String,
    shard: String,
    node: String,
    request_bytes: Option<usize>,
    reply_bytes: usize,
    tries: u8,
}

/// The wanted entries of `log`, the newest first.
pub(crate) fn last(log: &SlowLog, wanted: Wanted) -> Vec<SlowAnswer> {
    let last = log.last(wanted.limit);
    last.iter().filter(|request| request.id > wanted.since).map(SlowAnswer::of).collect()
}

impl SlowAnswer {
    fn of(request: &SlowRequest) -> SlowAnswer {
        SlowAnswer {
            id: request.id,
            reason: request.reason(),
            time_s: request.unix_us as f64 / 1e6,
            total_us: request.total_us,
            read_us: request.read_us,
            queued_us: request.queued_us,
            node_us: request.node_us(),
            merge_us: request.merge_us,
            order_us: request.order_us,
            client_us: request.client_us,
            request: text_of(request),
            client: request.client.clone(),
            name: request.name.escape_ascii().to_string(),
            shard: request.shard.clone(),
            node: request.node.clone(),
            request_bytes: request.request_bytes,
            reply_bytes: request.reply_bytes,
            tries: request.tries,
        }
    }
}

fn text_of(request: &SlowRequest) -> String {
    if request.args.is_empty() {
        return request.command.to_ascii_uppercase();
    }
    let args = request.args.iter().map(|arg| arg.escape_ascii().to_string());
    args.chain(request.rest()).collect::<Vec<_>>().join(" ")
}
