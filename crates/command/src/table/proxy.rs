//! Commands that only shardis has. `PROXY` is the word of corvus.

use crate::carry::Carry::{Container, Here};
use crate::carry::{Carry, Local, ProxyQuestion};
use crate::command::{Command, container, row};
use crate::since::Since;

pub(super) static COMMANDS: &[Command] =
    &[container("proxy", -2, "", "admin dangerous", Container, PROXY).since(Since::NEVER)];

static PROXY: &[Command] = &[
    question("proxy|bigkeys", -2, ProxyQuestion::BigKeys),
    question("proxy|explain", -3, ProxyQuestion::Explain),
    row("proxy|help", 2, "loading stale", "", &[], Here(Local::Help)).since(Since::NEVER),
    question("proxy|hotkeys", -2, ProxyQuestion::HotKeys),
    question("proxy|hotslots", -2, ProxyQuestion::HotSlots),
    question("proxy|info", 2, ProxyQuestion::Info),
    question("proxy|reload", -2, ProxyQuestion::Reload),
    question("proxy|slowlog", -3, ProxyQuestion::Slowlog),
    question("proxy|topology", 2, ProxyQuestion::Topology),
    question("proxy|updateslotmap", 2, ProxyQuestion::UpdateSlotMap),
];

/// A question that only an administrator may ask.
const fn question(name: &'static str, arity: i32, question: ProxyQuestion) -> Command {
    let carry: Carry = Here(Local::Proxy(question));
    row(name, arity, "admin noscript loading stale", "", &[], carry).since(Since::NEVER)
}
