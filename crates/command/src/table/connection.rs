//! Connections.

use crate::carry::Carry::{Container, Here};
use crate::carry::{Carry, ClientTask, Local};
use crate::command::{Command, container, row};
use crate::since::Since;
use crate::table::never;

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("auth", -2, "noscript loading stale fast no_auth allow_busy", "connection", &[], Here(Local::Auth)),
    container("client", -2, "", "", Container, CLIENT),
    row("echo", 2, "loading stale fast", "connection", &[], Here(Local::Echo)),
    row("hello", -1, "noscript loading stale fast no_auth allow_busy", "connection", &[], Here(Local::Hello)),
    row("ping", -1, "fast", "connection", &[], Here(Local::Ping))
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    row("quit", -1, "noscript loading stale fast no_auth allow_busy", "connection", &[], Here(Local::Quit)),
    row("reset", 1, "noscript loading stale fast no_auth allow_busy", "connection", &[], Here(Local::Reset)),
    row("select", 2, "loading stale fast", "connection", &[], Here(Local::Select)),
];

#[rustfmt::skip] // A command is a line.
static CLIENT: &[Command] = &[
    row("client|caching", 3, "noscript loading stale", "connection", &[], client(ClientTask::Caching)),
    row("client|capa", -3, "noscript loading stale", "connection", &[], Here(Local::Accepted))
        .since(Since::valkey(8, 0)),
    row("client|getname", 2, "noscript loading stale", "connection", &[], Here(Local::ClientGetname)),
    row("client|getredir", 2, "noscript loading stale", "connection", &[], client(ClientTask::GetRedirect)),
    row("client|help", 2, "loading stale", "connection", &[], Here(Local::Help)),
    row("client|id", 2, "noscript loading stale", "connection", &[], Here(Local::ClientId)),
    row("client|import-source", 3, "noscript loading stale", "connection",
        &[], never("it would mark a connection that clients share")).since(Since::valkey(8, 1)),
    row("client|info", 2, "noscript loading stale", "connection", &[], client(ClientTask::Describe))
        .tips("nondeterministic_output"),
    row("client|kill", -3, "admin noscript loading stale", "connection", &[], client(ClientTask::Kill)),
    row("client|list", -2, "admin noscript loading stale", "connection", &[], client(ClientTask::List))
        .tips("nondeterministic_output"),
    row("client|no-evict", 3, "admin noscript loading stale", "connection", &[], client(ClientTask::Switch)),
    row("client|no-touch", 3, "noscript loading stale", "connection", &[], client(ClientTask::Switch))
        .since(Since::both(7, 2)),
    row("client|pause", -3, "admin noscript loading stale", "connection", &[], client(ClientTask::Pause)),
    row("client|reply", 3, "noscript loading stale", "connection", &[], client(ClientTask::Reply)),
    row("client|setinfo", 4, "noscript loading stale", "connection", &[], Here(Local::ClientSetinfo))
        .tips("request_policy:all_nodes response_policy:all_succeeded").since(Since::both(7, 2)),
    row("client|setname", 3, "noscript loading stale", "connection", &[], Here(Local::ClientSetname)),
    row("client|tracking", -3, "noscript loading stale", "connection", &[], client(ClientTask::Track)),
    row("client|trackinginfo", 2, "noscript loading stale", "connection", &[], client(ClientTask::TrackingState)),
    row("client|unblock", -3, "admin noscript loading stale", "connection", &[], client(ClientTask::Unblock)),
    row("client|unpause", 2, "admin noscript loading stale", "connection", &[], client(ClientTask::Unpause)),
];

/// Answered by the session.
const fn client(task: ClientTask) -> Carry {
    Here(Local::Client(task))
}
