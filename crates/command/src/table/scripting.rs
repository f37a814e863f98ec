//! Scripts and functions.

use crate::carry::Carry::{AllShards, AnyShard, Container, Script};
use crate::carry::{Admin, Carry, Merge, Report, Script as Kind};
use crate::command::{Command, container, row};
use crate::since::Since;
use crate::table::{counted, never};

#[rustfmt::skip] // A command is a line.
pub(super) static COMMANDS: &[Command] = &[
    row("eval", -3, "noscript stale skip_monitor no_mandatory_keys movablekeys", "scripting",
        &[counted(2, "RW access update").note(WORST_WRITE)], Script(Kind::Body)),
    row("eval_ro", -3, "readonly noscript stale skip_monitor no_mandatory_keys movablekeys", "scripting",
        &[counted(2, "RO access").note(WORST_READ)], Script(Kind::Body)),
    row("evalsha", -3, "noscript stale skip_monitor no_mandatory_keys movablekeys", "scripting",
        &[counted(2, "RW access update")], Script(Kind::Sha)),
    row("evalsha_ro", -3, "readonly noscript stale skip_monitor no_mandatory_keys movablekeys", "scripting",
        &[counted(2, "RO access")], Script(Kind::Sha)),
    row("fcall", -3, "noscript stale skip_monitor no_mandatory_keys movablekeys", "scripting",
        &[counted(2, "RW access update").note(WORST_WRITE)], Script(Kind::Function)),
    row("fcall_ro", -3, "readonly noscript stale skip_monitor no_mandatory_keys movablekeys", "scripting",
        &[counted(2, "RO access").note(WORST_READ)], Script(Kind::Function)),
    container("function", -2, "", "", Container, FUNCTION),
    container("script", -2, "", "", Container, SCRIPT),
];

#[rustfmt::skip] // A command is a line.
static FUNCTION: &[Command] = &[
    row("function|delete", 3, "write noscript", "scripting", &[], AllShards(Merge::AllOk))
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    row("function|dump", 2, "noscript", "scripting", &[], AnyShard),
    row("function|flush", -2, "write noscript", "scripting", &[], AllShards(Merge::AllOk))
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    row("function|help", 2, "loading stale", "scripting", &[], AnyShard),
    row("function|kill", 2, "noscript allow_busy", "scripting", &[], KILL)
        .tips("request_policy:all_shards response_policy:one_succeeded"),
    row("function|list", -2, "noscript", "scripting", &[], AllShards(Merge::Report(Report::Libraries)))
        .tips("nondeterministic_output_order"),
    row("function|load", -3, "write denyoom noscript", "scripting", &[], AllShards(Merge::FirstReply))
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    row("function|restore", -3, "write denyoom noscript", "scripting", &[], AllShards(Merge::AllOk))
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    row("function|stats", 2, "noscript allow_busy", "scripting",
        &[], AllShards(Merge::Report(Report::RunningScript)))
        .tips("nondeterministic_output request_policy:all_shards response_policy:special"),
];

#[rustfmt::skip] // A command is a line.
static SCRIPT: &[Command] = &[
    row("script|debug", 3, "noscript", "scripting", &[], never("it would stop a node at every breakpoint")),
    row("script|exists", -3, "noscript", "scripting", &[], AllShards(Merge::And))
        .tips("request_policy:all_shards response_policy:agg_logical_and"),
    row("script|flush", -2, "noscript", "scripting", &[], AllShards(Merge::AllOk))
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
    row("script|help", 2, "loading stale", "scripting", &[], AnyShard),
    row("script|kill", 2, "noscript allow_busy", "scripting", &[], KILL)
        .tips("request_policy:all_shards response_policy:one_succeeded"),
    row("script|load", 3, "noscript stale", "scripting", &[], AllShards(Merge::FirstReply))
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
    row("script|show", 3, "noscript", "scripting", &[], AllShards(Merge::OneSucceeded))
        .since(Since::valkey(8, 0)),
];

const WORST_WRITE: &str = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const WORST_READ: &str = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";
const KILL: Carry =
    Carry::Admin("it would stop the scripts of other clients", Admin::AllShards(Merge::OneSucceeded));
