//! Names of corvus in CONFIG GET and CONFIG SET, as far as Redis has no such name.
//!
//! A pattern finds none of them, so that tools of Redis see what they know.

use crate::context::Context;
use crate::reading::ReadFrom;

/// The names that corvus can set while it runs, and those of its file that are no names of Redis.
const SET_BY_FILE: [&str; 8] = [
    "node",
    "thread",
    "client_timeout",
    "server_timeout",
    "read-strategy",
    "bufsize",
    "metric_interval",
    "statsd",
];

/// The value of `name`, which CONFIG GET asks for.
pub(crate) fn parameter(cx: &Context, name: &[u8]) -> Option<(&'static str, String)> {
    let name = SET_BY_FILE.into_iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
    let value = match name {
        "node" => nodes(cx),
        "thread" => cx.settings.workers.to_string(),
        "client_timeout" => cx.limits.idle_timeout.as_secs().to_string(),
        "server_timeout" => cx.limits.engine.request_timeout.as_secs_f64().ceil().to_string(),
        "read-strategy" => strategy(cx.settings.reading.from).to_owned(),
        _ => return None,
    };
    Some((name, value))
}

/// The name in CONFIG SET that only the configuration file sets, if `name` is one.
pub(crate) fn set_by_file(name: &[u8]) -> Option<&'static str> {
    SET_BY_FILE.into_iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// The primaries, by their addresses.
fn nodes(cx: &Context) -> String {
    let topology = &cx.engine.topology;
    let addresses = topology.all_shards().filter_map(|shard| topology.primary_address(shard));
    addresses.map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The policy for reads in words of corvus; others than its own may read from both.
fn strategy(from: ReadFrom) -> &'static str {
    match from {
        ReadFrom::Primary => "master",
        ReadFrom::Replica => "read-slave-only",
        _ => "both",
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn names_of_corvus_are_answered_and_set_by_the_file() {
        let mut rig = Rig::ready(2);
        let client = rig.client();
        rig.client_sends(client, "config get thread|config get READ-STRATEGY|config get bufsize|");
        assert_eq!(rig.taken(client), "*2|$6|thread|$1|1|*2|$13|read-strategy|$6|master|*0|");
        rig.client_sends(client, "config get node|");
        let nodes = rig.taken(client);
        assert!(nodes.starts_with("*2|$4|node|") && nodes.contains(','), "{nodes}");
        rig.client_sends(client, "config get *|");
        assert!(!rig.taken(client).contains("read-strategy"));
        rig.client_sends(client, "config set node a:1|");
        let refused = rig.taken(client);
        assert!(refused.starts_with("-ERR node is a key of the configuration file"), "{refused}");
    }
}
