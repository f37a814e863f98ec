//! Files with several pools.

use super::{of_words, places, reading};
use crate::args::Serving;

fn pools(text: &str, words: &[&str]) -> Serving {
    reading(text, words).unwrap_or_else(|faults| panic!("{text}\n{faults}"))
}

const TWO: &str = "workers = 3
timeout = 30
[[listener]]
address = '127.0.0.1:7009'
mode = 'tcp'
nodes = '127.0.0.1:1'
[[pool]]
name = 'a'
nodes = ['a:1', 'b:1']
port = 7001
timeout = 5
[[pool]]
name = 'b'
cluster = 'c:1'
[[pool.listener]]
address = '127.0.0.1:7002'
";

#[test]
fn each_pool_has_its_own_keys_and_those_above() {
    let serving = pools(TWO, &[]);
    assert_eq!(places(&serving), ["127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7009 tcp"]);
    assert_eq!(serving.workers, 3);
    let expected = [
        ("a", of_words(&["--nodes=a:1,b:1", "--port=7001", "--timeout=5", "--workers=3"])),
        (
            "b",
            of_words(&[
                "--cluster=c:1",
                "--listener=127.0.0.1:7002",
                "--workers=3",
                "--timeout=30",
                "--port=0",
            ]),
        ),
    ];
    for (pool, (name, args)) in serving.pools.iter().zip(expected) {
        assert_eq!(pool.name.as_deref(), Some(name));
        assert_eq!(format!("{:?}", pool.args), format!("{args:?}"));
        let source = |wanted: &str| {
            let setting = pool.settings.iter().find(|setting| setting.name == wanted);
            setting.map(|setting| (setting.value.clone(), setting.source))
        };
        assert_eq!(source("workers"), Some(("3".to_owned(), "file")));
    }
    assert_eq!(serving.pools.len(), 2);
}

#[test]
fn process_flags_of_the_command_line_concern_all_pools() {
    let serving = pools(TWO, &["--workers=1", "--log-level=debug"]);
    assert_eq!((serving.workers, serving.pools.len()), (1, 2));
    assert!(serving.pools.iter().all(|pool| pool.args.service.workers() == 1));
}

#[test]
fn a_named_pool_is_served_alone_with_flags_of_its_own() {
    let serving = pools(TWO, &["--config=F", "--pool=a", "--port=8000"]);
    assert_eq!(places(&serving), ["127.0.0.1:8000"]);
    let args = serving.only_pool().expect("there is one");
    assert_eq!(args.file.pool.as_deref(), Some("a"));
    let why = pools(TWO, &[]).only_pool().expect_err("there are two");
    assert_eq!(why, "the file has pools; name one with --pool=NAME: a, b");
}

#[test]
fn summary_names_the_pool_of_each_line() {
    let text = "[[pool]]\nname = 'x'\nport = 1\nnodes = '127.0.0.1:2'\n[[pool]]\nname = 'y'\nport = 2\nnodes = '127.0.0.1:3'";
    let summary = pools(text, &["--workers=1"]).summary();
    assert!(summary.starts_with("listens on 127.0.0.1:1, 127.0.0.1:2 (1 worker each)\n"), "{summary}");
    let lines: Vec<&str> = summary.lines().skip(1).collect();
    assert!(
        lines.iter().all(|line| line.starts_with("pool x: ") || line.starts_with("pool y: ")),
        "{summary}"
    );
    assert!(lines.iter().any(|line| line.starts_with("pool y: shards over 1 node ")), "{summary}");
}

#[test]
fn pools_may_have_admin_listeners_at_free_ports() {
    let pool = |name: &str, port: u16| format!("[[pool]]\nname = '{name}'\nport = {port}\nadmin = '0'\n");
    assert_eq!(pools(&(pool("a", 1) + &pool("b", 2)), &[]).pools.len(), 2);
}

#[test]
fn pools_with_one_port_report_to_statsd_by_their_prefixes() {
    let pool =
        |name: &str, more: &str| format!("[[pool]]\nname = '{name}'\nport = 1\nstatsd = 'c:1'\n{more}\n");
    let text = pool("a", "") + &pool("b", "host = '127.0.0.2'\nstatsd-prefix = 'shardis.b'");
    assert_eq!(pools(&text, &[]).pools.len(), 2);
}

#[test]
fn mistakes_about_pools_are_reported_with_their_places() {
    let pool = |name: &str, more: &str| format!("[[pool]]\nname = '{name}'\nnodes = 'a:1'\n{more}\n");
    let cases: [(String, &[&str], &str); 19] = [
        (
            "[[pool]]\nport = 1".to_owned(),
            &[],
            "F:1:1: this pool needs a name as well, as in name = \"orders\"",
        ),
        (
            pool("", ""),
            &[],
            "F:2:8: name: write 1 to 64 letters, digits, dots, hyphens and underscores in quotes",
        ),
        (
            pool("a", "port = 1") + &pool("a", "port = 2"),
            &[],
            "F:6:8: name \"a\": another pool has it already",
        ),
        (
            pool("a", "") + &pool("b", ""),
            &[],
            "F:5:1: pool b: address 127.0.0.1:6380: another pool (line 1) has this address already; each needs its own",
        ),
        (
            pool("a", "port = 7") + &pool("b", "[[pool.listener]]\naddress = '127.0.0.1:7'"),
            &[],
            "F:9:11: pool b: address 127.0.0.1:7: another pool (line 4) has this address already; each needs its own",
        ),
        (
            pool("a", "workers = 2"),
            &[],
            "F:4:1: workers: the key belongs to the process; write it above the first [[pool]]",
        ),
        (
            "nodes = 'a:1'\n".to_owned() + &pool("a", ""),
            &[],
            "F:1:1: nodes: only one pool can have it; write it under its [[pool]]",
        ),
        (
            "port = 1\n".to_owned() + &pool("a", ""),
            &[],
            "F:1:1: port: only one pool can have it; write it under its [[pool]]",
        ),
        (
            "[[listener]]\naddress = '127.0.0.1:7'\n".to_owned() + &pool("a", ""),
            &[],
            "F:2:11: a listener of Redis belongs to a pool; write it as [[pool.listener]] below its pool",
        ),
        (
            pool("a", "[[pool.listener]]\naddress = '127.0.0.1:7'\nmode = 'tcp'\nnodes = 'a:1'"),
            &[],
            "F:5:11: a listener of mode tcp belongs to no pool; write it as [[listener]] above the pools",
        ),
        (
            "pool = 'a'".to_owned(),
            &[],
            "F:1:1: pool: write [[pool]] above the keys of each pool, with a name as in name = \"orders\"",
        ),
        (
            pool("a", "port = 1\nadmin = '9'") + &pool("b", "port = 2\nadmin = '9'"),
            &[],
            "F:10:9: admin 127.0.0.1:9: line 5 has this address already; each listener needs its own",
        ),
        (
            pool("a", "port = 1\nadmin = '2'") + &pool("b", "port = 2"),
            &[],
            "F:9:8: pool b: address 127.0.0.1:2: another pool (line 5) has this address already; each needs its own",
        ),
        (
            pool("a", "port = 1\nadmin = '1'"),
            &[],
            "F:5:9: admin 127.0.0.1:1: line 4 has this address already; each listener needs its own",
        ),
        (
            "statsd = 'c:1'\n".to_owned()
                + &pool("a", "port = 1\nhost = '127.0.0.1'")
                + &pool("b", "port = 1\nhost = '127.0.0.2'"),
            &[],
            "F:7:1: pool b: its names at statsd are those of pool a, since both have port 1; give it a statsd-prefix of its own",
        ),
        (pool("a", "nodess = 'x'"), &[], "F:4:1: nodess: there is no such key; did you mean nodes?"),
        (
            pool("a", ""),
            &["--port=1"],
            "F: --port: the file has pools; name the one that is meant with --pool=NAME",
        ),
        (pool("a", ""), &["--config=F", "--pool=b"], "F: --pool b: there is no such pool; the file has a"),
        (
            "port = 1".to_owned(),
            &["--config=F", "--pool=b"],
            "F: --pool b: the file has no [[pool]]; leave the flag out",
        ),
    ];
    for (text, words, expected) in cases {
        let faults = reading(&text, words).err().unwrap_or_else(|| panic!("{text}"));
        assert_eq!(faults, expected, "{text}");
    }
}
