//! Vector sets: a module that Redis has built in.

use crate::carry::Carry::Shard;
use crate::command::{Command, row};
use crate::keys::KeySpec;
use crate::sets::Acl;
use crate::since::Since;
use crate::table::key;

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    module("vadd", "write denyoom module"),
    module("vcard", "readonly module fast"),
    module("vdim", "readonly module fast"),
    module("vemb", "readonly module fast"),
    module("vgetattr", "readonly module fast"),
    module("vinfo", "readonly module fast"),
    module("vismember", "readonly module"),
    module("vlinks", "readonly module fast"),
    module("vrandmember", "readonly module"),
    module("vrem", "write module"),
    module("vsetattr", "write module fast"),
    module("vsim", "readonly module"),
];

const ANY_USE: &[KeySpec] = &[key(1, "RW access update")];

/// The module declares no more: any number of arguments, any use of the key even for reads, and no ACL category. It even lacks
/// the categories that follow from the flags.
const fn module(name: &'static str, flags: &str) -> Command {
    let mut command = row(name, -1, flags, "", ANY_USE, Shard).since(Since::redis(8, 0));
    command.acl = Acl::of("");
    command
}
