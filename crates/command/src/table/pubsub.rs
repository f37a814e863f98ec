//! Publish and subscribe.

use crate::carry::Carry;
use crate::carry::Carry::{AnyShard, Container};
use crate::command::{Command, container, row};
use crate::table::{key, keys, later};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("psubscribe", -2, "pubsub noscript loading stale", "", &[], PUB_SUB),
    row("publish", 3, "pubsub loading stale fast", "", &[], PUB_SUB),
    container("pubsub", -2, "", "", Container, PUBSUB),
    row("punsubscribe", -1, "pubsub noscript loading stale", "", &[], PUB_SUB),
    row("spublish", 3, "pubsub loading stale fast", "", &[key(1, "not_key")], PUB_SUB),
    row("ssubscribe", -2, "pubsub noscript loading stale", "", &[keys(1, -1, 1, "not_key")], PUB_SUB),
    row("subscribe", -2, "pubsub noscript loading stale", "", &[], PUB_SUB),
    row("sunsubscribe", -1, "pubsub noscript loading stale", "", &[keys(1, -1, 1, "not_key")], PUB_SUB),
    row("unsubscribe", -1, "pubsub noscript loading stale", "", &[], PUB_SUB),
];

#[rustfmt::skip] // A command is a line.
static PUBSUB: &[Command] = &[
    row("pubsub|channels", -2, "pubsub loading stale", "", &[], PUB_SUB),
    row("pubsub|help", 2, "loading stale", "", &[], AnyShard),
    row("pubsub|numpat", 2, "pubsub loading stale", "", &[], PUB_SUB),
    row("pubsub|numsub", -2, "pubsub loading stale", "", &[], PUB_SUB),
    row("pubsub|shardchannels", -2, "pubsub loading stale", "", &[], PUB_SUB),
    row("pubsub|shardnumsub", -2, "pubsub loading stale", "", &[], PUB_SUB),
];

const PUB_SUB: Carry = later("pub/sub");
