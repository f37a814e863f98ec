//! Publish and subscribe.

use crate::carry::Carry::{Container, Here, Publish};
use crate::carry::Topic::{Channel, Pattern, ShardChannel};
use crate::carry::{Carry, Local, PubSubQuestion};
use crate::command::{Command, container, row};
use crate::table::{key, keys};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("psubscribe", -2, "pubsub noscript loading stale", "", &[], Here(Local::Subscribe(Pattern))),
    row("publish", 3, "pubsub loading stale fast", "", &[], Publish(Channel)),
    container("pubsub", -2, "", "", Container, PUBSUB),
    row("punsubscribe", -1, "pubsub noscript loading stale", "", &[], Here(Local::Unsubscribe(Pattern))),
    row("spublish", 3, "pubsub loading stale fast", "", &[key(1, "not_key")], Publish(ShardChannel)),
    row("ssubscribe", -2, "pubsub noscript loading stale", "", &[keys(1, -1, 1, "not_key")],
        Here(Local::Subscribe(ShardChannel))),
    row("subscribe", -2, "pubsub noscript loading stale", "", &[], Here(Local::Subscribe(Channel))),
    row("sunsubscribe", -1, "pubsub noscript loading stale", "", &[keys(1, -1, 1, "not_key")],
        Here(Local::Unsubscribe(ShardChannel))),
    row("unsubscribe", -1, "pubsub noscript loading stale", "", &[], Here(Local::Unsubscribe(Channel))),
];

#[rustfmt::skip] // A command is a line.
static PUBSUB: &[Command] = &[
    row("pubsub|channels", -2, "pubsub loading stale", "", &[], asks(PubSubQuestion::Names(Channel))),
    row("pubsub|help", 2, "loading stale", "", &[], Here(Local::Help)),
    row("pubsub|numpat", 2, "pubsub loading stale", "", &[], asks(PubSubQuestion::Patterns)),
    row("pubsub|numsub", -2, "pubsub loading stale", "", &[], asks(PubSubQuestion::Subscribers(Channel))),
    row("pubsub|shardchannels", -2, "pubsub loading stale", "", &[], asks(PubSubQuestion::Names(ShardChannel))),
    row("pubsub|shardnumsub", -2, "pubsub loading stale", "", &[],
        asks(PubSubQuestion::Subscribers(ShardChannel))),
];

/// Answered from the state of the clients of all workers.
const fn asks(question: PubSubQuestion) -> Carry {
    Here(Local::PubSub(question))
}
