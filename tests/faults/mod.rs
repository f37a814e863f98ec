//! Parts fail: nodes die, freeze, lie; clients vanish or do not read. The rest goes on, and replies keep the contract.
//! `-TRYAGAIN` stands only for requests that were not sent, "outcome unknown" for those that may have run.

mod answers;
mod clients;
mod cross_shard;
mod disk;
pub(crate) mod floods;
mod ledger;
mod links;
mod lying_nodes;
mod nodes;
mod proxy_itself;
pub(crate) mod storms;
mod troubles;

use crate::harness::show;

/// `reply` must say that nothing was sent to `shard`.
#[track_caller]
fn assert_not_sent(reply: &[u8], shard: &str) {
    let start = format!("-TRYAGAIN shard {shard} unavailable: ");
    assert!(reply.starts_with(start.as_bytes()), "expected {start:?} and a reason, got {}", show(reply));
}

/// Checks that `reply` reports a broken link to `shard` with the request under way.
#[track_caller]
fn assert_lost(reply: &[u8], shard: &str) {
    let text = format!("-ERR node connection lost, outcome unknown (shard {shard})\r\n");
    assert_eq!(show(reply), show(text.as_bytes()));
}

/// `reply` must say that `shard` did not answer within `after_ms`.
#[track_caller]
fn assert_timed_out(reply: &[u8], shard: &str, after_ms: u64) {
    let text = format!("-ERR node timeout after {after_ms} ms, outcome unknown (shard {shard})\r\n");
    assert_eq!(show(reply), show(text.as_bytes()));
}

/// Checks that `reply` is one of the errors for a lost shard: not sent, or lost under way.
#[track_caller]
fn assert_unavailable(reply: &[u8], shard: &str) {
    if reply.starts_with(b"-TRYAGAIN ") {
        assert_not_sent(reply, shard);
    } else {
        assert_lost(reply, shard);
    }
}
