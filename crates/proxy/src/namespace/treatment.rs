//! The treatment of each command in a namespace: one decision for every line of the command table.

use crate::namespace::Namespace;
use crate::namespace::shapes::Shape;
use command::{Acl, Carry, Command};

/// The treatment of a command of a client with a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// The keys that the key specs find get the prefix. The reply has this shape.
    Keys(Shape),
    /// The same with the keys of SORT and its patterns.
    Sort,
    /// The same with the keys of GEORADIUS, which may name a target once.
    Radius,
    /// KEYS: the pattern gets the prefix.
    Pattern,
    /// SCAN: its pattern gets the prefix, or it gets one.
    Scan,
    /// RANDOMKEY of a route.
    OneKey,
    /// SUBSCRIBE and its relatives: channels are shared by all users, but for those that tell of keys.
    Listening,
    /// Scripts and functions: keys get the prefix, if scripts are permitted at all.
    Script,
    /// The command names no key, and no key is in its reply.
    Free,
    /// The client gets an error with this reason.
    Refused(&'static str),
}

impl Treatment {
    /// The shape of the reply.
    pub(crate) fn shape(self) -> Shape {
        match self {
            Treatment::Keys(shape) => shape,
            Treatment::Pattern => Shape::List,
            Treatment::Scan => Shape::Page,
            Treatment::OneKey => Shape::Key,
            _ => Shape::Plain,
        }
    }
}

/// Commands without keys in request and reply. A command that is not here and has no keys is refused.
const FREE: [&str; 52] = [
    "acl|cat",
    "acl|genpass",
    "acl|help",
    "acl|whoami",
    "asking",
    "auth",
    "client|caching",
    "client|capa",
    "client|getname",
    "client|getredir",
    "client|help",
    "client|id",
    "client|import-source",
    "client|info",
    "client|kill",
    "client|list",
    "client|no-evict",
    "client|no-touch",
    "client|pause",
    "client|reply",
    "client|setinfo",
    "client|setname",
    "client|trackinginfo",
    "client|unblock",
    "client|unpause",
    "cluster|help",
    "cluster|info",
    "cluster|myid",
    "cluster|myshardid",
    "cluster|nodes",
    "cluster|shards",
    "cluster|slots",
    "command",
    "config|get",
    "config|help",
    "discard",
    "echo",
    "exec",
    "hello",
    "info",
    "lolwut",
    "multi",
    "ping",
    "publish",
    "quit",
    "readonly",
    "readwrite",
    "reset",
    "role",
    "select",
    "spublish",
    "time",
];

/// The same, in families whose names begin so.
const FREE_FAMILIES: [&str; 8] = [
    "command|",
    "object|help",
    "pubsub|help",
    "pubsub|num",
    "unsubscribe",
    "punsubscribe",
    "unwatch",
    "wait",
];

/// The treatment of `command`.
pub(crate) fn treatment(command: &Command) -> Treatment {
    if matches!(command.carry, Carry::Refused(_)) {
        return Treatment::Free;
    }
    match &*command.name {
        "sort" | "sort_ro" => Treatment::Sort,
        "georadius" | "georadiusbymember" => Treatment::Radius,
        "keys" => Treatment::Pattern,
        "scan" => Treatment::Scan,
        "subscribe" | "psubscribe" | "ssubscribe" => Treatment::Listening,
        "sunsubscribe" | "pubsub|shardnumsub" | "xgroup|help" | "xinfo|help" => Treatment::Free,
        "blpop" | "brpop" | "bzpopmin" | "bzpopmax" => Treatment::Keys(Shape::First),
        "lmpop" | "blmpop" | "zmpop" | "bzmpop" => Treatment::Keys(Shape::First),
        "xread" | "xreadgroup" => Treatment::Keys(Shape::Pairs),
        "migrate" => Treatment::Refused("it would send keys elsewhere"),
        "randomkey" => Treatment::Refused("the node may pick a key of others; use SCAN"),
        "dbsize" => Treatment::Refused("the nodes count the keys of all users"),
        "flushall" | "flushdb" | "swapdb" => Treatment::Refused("it concerns the keys of all users"),
        "client|tracking" => Treatment::Refused("keys in invalidations are those of the nodes"),
        name if is_script(name) => Treatment::Script,
        name if FREE.binary_search(&name).is_ok() => Treatment::Free,
        name if FREE_FAMILIES.iter().any(|family| name.starts_with(family)) => Treatment::Free,
        _ if !command.keys.has_any() => Treatment::Refused("it may concern the keys of other users"),
        // The errors of streams name the key.
        _ if command.acl.contains(Acl::of("stream")) => Treatment::Keys(Shape::Errors),
        _ => Treatment::Keys(Shape::Plain),
    }
}

/// The treatment of `command` of a client whose keys are those of `namespace`. A route, whose clients may reach all keys of the
/// pool by other ways, is no border: it is refused only what cannot be rewritten.
pub(crate) fn treatment_in(namespace: &Namespace, command: &Command) -> Treatment {
    if namespace.route().is_none() {
        return treatment(command);
    }
    match &*command.name {
        "randomkey" => Treatment::OneKey,
        "migrate" => Treatment::Refused("it would send keys by the names that nodes know"),
        // The pool with routes tracks all keys, and gets their names.
        "client|tracking" => Treatment::Free,
        _ => match treatment(command) {
            Treatment::Listening => Treatment::Free,
            Treatment::Refused(_) if !command.keys.has_any() => Treatment::Free,
            treatment => treatment,
        },
    }
}

fn is_script(name: &str) -> bool {
    ["eval", "fcall", "script|", "function|"].iter().any(|family| name.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_commands_are_lines_of_the_table_in_order() {
        assert!(FREE.is_sorted());
        for name in FREE {
            let command = command::find_full(name.as_bytes()).expect(name);
            assert_eq!((&*command.name, treatment(command)), (name, Treatment::Free));
        }
        for family in FREE_FAMILIES {
            let begins = |command: &&Command| command.name.starts_with(family);
            let all = command::all().flat_map(|line| std::iter::once(line).chain(line.subcommands.iter()));
            assert!(all.filter(begins).count() > 0, "{family}");
        }
    }
}
