//! HELP of the containers whose subcommands are answered here: Redis's texts without unsupported subcommands.

use resp::encode;

/// Answers HELP of the container `name`, which is in lower case.
pub(crate) fn write(name: &str, out: &mut Vec<u8>) {
    let lines = TEXTS.iter().find(|(container, _)| *container == name).map_or(&[][..], |(_, lines)| lines);
    encode::array_header(out, lines.len() + 3);
    let first =
        format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name.to_ascii_uppercase());
    encode::simple(out, first.as_bytes());
    lines.iter().chain(LAST).for_each(|line| encode::simple(out, line.as_bytes()));
}

/// The end of every text.
const LAST: &[&str] = &["HELP", "    Prints this help."];

/// By container.
const TEXTS: &[(&str, &[&str])] = &[
    (
        "pubsub",
        &[
            "CHANNELS [<pattern>]",
            "    Return the currently active channels matching a <pattern> (default: '*').",
            "NUMPAT",
            "    Return number of subscriptions to patterns.",
            "NUMSUB [<channel> ...]",
            "    Return the number of subscribers for the specified channels, excluding",
            "    pattern subscriptions(default: no channels).",
            "SHARDCHANNELS [<pattern>]",
            "    Return the currently active shard level channels matching a <pattern> (default: '*').",
            "SHARDNUMSUB [<shardchannel> ...]",
            "    Return the number of subscribers for the specified shard level channel(s)",
        ],
    ),
    (
        "acl",
        &[
            "CAT [<category>]",
            "    List all commands that belong to <category>, or all command categories",
            "    when no category is specified.",
            "DELUSER <username> [<username> ...]",
            "    Delete a list of users.",
            "DRYRUN <username> <command> [<arg> ...]",
            "    Returns whether the user can execute the given command without executing the command.",
            "GETUSER <username>",
            "    Get the user's details.",
            "GENPASS [<bits>]",
            "    Generate a secure 256-bit user password. The optional `bits` argument can",
            "    be used to specify a different size.",
            "LIST",
            "    Show users details in config file format.",
            "LOAD",
            "    Reload users from the ACL file.",
            "LOG [<count> | RESET]",
            "    Show the ACL log entries.",
            "SAVE",
            "    Save the current config to the ACL file.",
            "SETUSER <username> <attribute> [<attribute> ...]",
            "    Create or modify a user with the specified attributes.",
            "USERS",
            "    List all the registered usernames.",
            "WHOAMI",
            "    Return the current connection username.",
        ],
    ),
    (
        "client",
        &[
            "CACHING (YES|NO)",
            "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
            "CAPA <option> [options...]",
            "    Accepted; the proxy redirects nobody.",
            "GETREDIR",
            "    Return the client ID we are redirecting to when tracking is enabled.",
            "GETNAME",
            "    Return the name of the current connection.",
            "ID",
            "    Return the ID of the current connection.",
            "INFO",
            "    Return information about the current client connection.",
            "KILL <ip:port>",
            "    Kill connection made from <ip:port>.",
            "KILL <option> <value> [<option> <value> [...]]",
            "    Kill connections. Options are:",
            "    * ADDR (<ip:port>|<unixsocket>:0)",
            "      Kill connections made from the specified address",
            "    * LADDR (<ip:port>|<unixsocket>:0)",
            "      Kill connections made to specified local address",
            "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "      Kill connections by type.",
            "    * USER <username>",
            "      Kill connections authenticated by <username>.",
            "    * SKIPME (YES|NO)",
            "      Skip killing current connection (default: yes).",
            "LIST [options ...]",
            "    Return information about client connections. Options:",
            "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "      Return clients of specified type.",
            "NO-TOUCH (ON|OFF)",
            "    Accepted; commands touch keys as they do.",
            "UNPAUSE",
            "    Stop the current client pause, resuming traffic.",
            "PAUSE <timeout> [WRITE|ALL]",
            "    Suspend all, or just write, clients for <timeout> milliseconds.",
            "REPLY (ON|OFF|SKIP)",
            "    Control the replies sent to the current connection.",
            "SETNAME <name>",
            "    Assign the name <name> to the current connection.",
            "UNBLOCK <clientid> [TIMEOUT|ERROR]",
            "    Unblock the specified blocked client.",
            "TRACKINGINFO",
            "    Report tracking status for the current connection.",
            "NO-EVICT (ON|OFF)",
            "    Protect current client connection from eviction.",
        ],
    ),
    (
        "cluster",
        &[
            "INFO",
            "    Return information about the cluster.",
            "KEYSLOT <key>",
            "    Return the hash slot for <key>.",
            "MYID",
            "    Return the node id.",
            "MYSHARDID",
            "    Return the node's shard id.",
            "NODES",
            "    Return cluster configuration seen by node. Output format:",
            "    <id> <ip:port> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
            "REPLICAS <node-id>",
            "    Return <node-id> replicas.",
            "SLOTS",
            "    Return information about slots range mappings. Each range is made of:",
            "    start, end, master and replicas IP addresses, ports and ids",
            "SHARDS",
            "    Return information about slot range mappings and the nodes associated with them.",
            "LINKS",
            "    Return information about all network links between this node and its peers.",
            "    Output format is an array where each array element is a map containing attributes of a link",
        ],
    ),
    (
        "command",
        &[
            "(no subcommand)",
            "    Return details about all Redis commands.",
            "COUNT",
            "    Return the total number of commands in this Redis server.",
            "LIST",
            "    Return a list of all commands in this Redis server.",
            "INFO [<command-name> ...]",
            "    Return details about multiple Redis commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "DOCS [<command-name> ...]",
            "    Return documentation details about multiple Redis commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "GETKEYS <full-command>",
            "    Return the keys from a full Redis command.",
            "GETKEYSANDFLAGS <full-command>",
            "    Return the keys and the access flags from a full Redis command.",
        ],
    ),
    (
        "config",
        &[
            "GET <pattern>",
            "    Return parameters matching the glob-like <pattern> and their values.",
            "RESETSTAT",
            "    Reset statistics reported by the INFO command.",
        ],
    ),
    (
        "proxy",
        &[
            "BIGKEYS [<count>]",
            "    Return the keys whose requests and replies had the most bytes.",
            "EXPLAIN <command> [<arg> ...]",
            "    Return the way of a request to the nodes. It is not sent.",
            "HOTKEYS [<count>]",
            "    Return the keys of the most requests.",
            "HOTSLOTS [<count>]",
            "    Return the slots of the most requests.",
            "INFO",
            "    Return settings and counts of the proxy itself.",
            "RELOAD [PLAN | FORCE | BACK [<number>]]",
            "    Read the configuration again, tell what would change, or go back.",
            "SLOWLOG (GET [<count>] | LEN | RESET)",
            "    Return, count or forget the slow requests, with the time in each stage.",
            "TOPOLOGY",
            "    Return the shards with their nodes and their share of the keys.",
            "UPDATESLOTMAP",
            "    Look for a newer topology of the cluster or of the sentinels.",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use command::{Carry, Local};

    #[test]
    fn local_help_lists_the_carried_subcommands() {
        for container in command::all() {
            let help = container.subcommand(b"help").map(|help| help.carry);
            if help != Some(Carry::Here(Local::Help)) {
                continue;
            }
            let mut out = Vec::new();
            write(&container.name, &mut out);
            assert!(resp::reply::elements(&out).is_some_and(|lines| lines.len() > 5), "{}", container.name);
            let text = String::from_utf8(out).expect("text");
            let refused = |carry| matches!(carry, Carry::Refused(_) | Carry::OnlyShard(_) | Carry::Admin(..));
            for subcommand in container.subcommands.iter().filter(|subcommand| !refused(subcommand.carry)) {
                let name = format!("+{}", subcommand.own_name().to_ascii_uppercase());
                let newer = ["+SETINFO", "+SLAVES"].contains(&name.as_str());
                assert!(newer || text.contains(&name), "{} in {text}", subcommand.name);
            }
        }
    }
}
