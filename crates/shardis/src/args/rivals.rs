//! Words of other programs that are no flag and no key here, each with its counterpart.

/// The counterpart of `word`, a flag without its dashes or a key of a file. The text begins with a flag of ours, or with none
/// if no flag is needed.
pub(crate) fn advice(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase().replace('_', "-");
    WORDS.iter().find(|(words, _)| words.contains(&word.as_str())).map(|(_, advice)| *advice)
}

/// Words of twemproxy, predixy, corvus, codis, nginx, HAProxy and Redis, in lower case and with hyphens.
const WORDS: [(&[&str], &str); 20] = [
    (&["hash-tag", "hashtag"], "write --tag-rule, as in --tag-rule={}"),
    (
        &["bind", "listen", "address", "proxy-addr"],
        "write --host and --port, as in --host=0.0.0.0 and --port=6379, or --listener for one more address",
    ),
    (&["servers", "server", "upstream"], "write --nodes, as in --nodes=10.0.0.1:6379,10.0.0.2:6379"),
    (
        &["node", "seeds", "startup-nodes"],
        "write --nodes for plain nodes, --cluster for those of a Redis Cluster",
    ),
    (&["sentinels"], "write --sentinel, with the names of primaries in --master"),
    (&["auto-eject-hosts"], "write --on-node-down=remap"),
    (&["redis-auth", "auth-pass"], "write --requirepass-file for clients, --node-auth-file for nodes"),
    (&["session-auth"], "write --requirepass-file"),
    (&["product-auth", "masterauth", "password"], "write --node-auth-file for the password of the nodes"),
    (&["redis-db"], "clients choose a database with SELECT; --databases says how many there are"),
    (&["client-connections", "maxconn", "max-clients", "proxy-max-clients"], "write --maxclients"),
    (&["thread", "threads", "workerthreads", "io-threads", "nbproc", "nbthread"], "write --workers"),
    (&["client-timeout", "clienttimeout", "proxy-timeout"], "write --timeout, in seconds"),
    (&["server-timeout", "servertimeout", "op-timeout"], "write --request-timeout-ms"),
    (&["read-strategy", "readpolicy", "read-policy"], "write --read-from"),
    (&["maxmemory"], "write --memory-max for the proxy itself, --store-memory for shards in memory"),
    (&["maxmemory-policy"], "write --store-policy, for shards in memory"),
    (
        &[
            "backlog",
            "tcp-backlog",
            "preconnect",
            "server-connections",
            "tcp-keepalive",
            "tcpkeepalive",
            "redis",
        ],
        "leave it out: shardis does what is needed by itself",
    ),
    (
        &["daemonize", "daemon", "pidfile", "supervised", "user"],
        "leave it out: shardis stays in the foreground, for systemd or another supervisor",
    ),
    (&["logfile", "log", "syslog", "output"], "leave it out: the log goes to stderr; see --log-level"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_programs_are_explained() {
        for (word, expected) in [
            ("hash_tag", "write --tag-rule"),
            ("bind", "write --host and --port"),
            ("auto_eject_hosts", "write --on-node-down=remap"),
            ("WorkerThreads", "write --workers"),
            ("backlog", "leave it out"),
        ] {
            assert!(advice(word).is_some_and(|advice| advice.starts_with(expected)), "{word}");
        }
        assert_eq!((advice("nodes"), advice("nods")), (None, None));
    }
}
