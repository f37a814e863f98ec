//! Broken files and the fault reported for each: line, column, cause, remedy.

pub(super) const BROKEN: &[(&str, &[&str])] = &[
    ("port = ", &["1:8: this is not TOML: there is no value behind the ="]),
    ("port 6380", &["1:6: this is not TOML: there is no = behind the key"]),
    ("= 1", &["1:1: this is not TOML: there is no key before the ="]),
    (r#"nodes = ["a:1""#, &["1:15: this is not TOML: the list is not closed; write ] at its end"]),
    (r#"nodes = "a:1"#, &[r#"1:13: this is not TOML: the text does not end; write " behind it"#]),
    (
        "[[listener]\naddress='127.0.0.1:1'",
        &["1:12: this is not TOML: write ]] behind the name of the table"],
    ),
    ("port = 6380\nport = 6381", &["2:1: port: the key is set twice; remove one"]),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\naddress = \"127.0.0.1:2\"",
        &["3:1: address: the key is set twice; remove one"],
    ),
    (
        "[listener]\naddress = \"127.0.0.1:1\"",
        &["1:2: listener: write [[listener]], with two brackets on each side"],
    ),
    (
        r#"port = 6380 host = "127.0.0.1""#,
        &[
            "1:8: this is not TOML: this is no value; a text stands in quotes, and the next key in a line of its own",
        ],
    ),
    ("port = 0x", &["1:8: port: 0x: write decimal digits only, without a prefix"]),
    (
        r#"a = "\q""#,
        &[
            "1:7: this is not TOML: there is no such escape; write \\\\ for a backslash, or take single quotes",
        ],
    ),
    ("port = 06380", &["1:8: this is not TOML: a number does not begin with 0"]),
    (
        "host = 127.0.0.1",
        &["1:13: this is not TOML: this is no number; a text, such as an address, stands in quotes"],
    ),
    ("yes", &["1:4: this is not TOML: there is no = behind the key"]),
    (
        "\u{feff}port = x",
        &[
            "1:8: this is not TOML: this is no value; a text stands in quotes, and the next key in a line of its own",
        ],
    ),
    (
        "port = \"a\0b\"",
        &[
            "1:10: this is not TOML: a control character does not stand in a text; write \\t, \\n, \\u0000 in double quotes",
        ],
    ),
    (r#"nods = ["a:1"]"#, &["1:1: nods: there is no such key; did you mean nodes?"]),
    (r#"read_from = "any""#, &["1:1: read_from: there is no such key; did you mean read-from?"]),
    ("Port = 1", &["1:1: Port: there is no such key; did you mean port?"]),
    (
        r#""a b" = 1"#,
        &[r#"1:1: "a b": there is no such key (shardis proxy --help lists all, with dashes in front)"#],
    ),
    (
        "tls.port = 6390",
        &[
            "1:1: tls: there is no such table; the only ones are [[listener]], [[pool]] and [[pool.listener]], and keys have no dots",
        ],
    ),
    (
        "[proxy]\nport = 1",
        &[
            "1:2: proxy: there is no such table; the only ones are [[listener]], [[pool]] and [[pool.listener]], and keys have no dots",
        ],
    ),
    (
        r#"config = "b.toml""#,
        &["1:1: config: only the command line names the first file; name others with include"],
    ),
    (
        "help = true",
        &["1:1: help: there is no such key (shardis proxy --help lists all, with dashes in front)"],
    ),
    (
        r#"balance = "least-conn""#,
        &["1:1: balance: the key belongs to one listener; write it under its [[listener]]"],
    ),
    (
        r#"address = "127.0.0.1:1""#,
        &["1:1: address: the key belongs to one listener; write it under its [[listener]]"],
    ),
    (r#"mode = "tcp""#, &["1:1: mode: the key belongs to one listener; write it under its [[listener]]"]),
    ("zzz = 1", &["1:1: zzz: there is no such key (shardis proxy --help lists all, with dashes in front)"]),
    (
        r#""" = 1"#,
        &[r#"1:1: "": there is no such key (shardis proxy --help lists all, with dashes in front)"#],
    ),
    (
        "server-failure-limit = 1\nnode-failure-limit = 2",
        &["2:1: node-failure-limit is another name of server-failure-limit; leave one out"],
    ),
    ("rename = { NOSUCH = 'X' }", &["1:10: rename \"NOSUCH:X\": NOSUCH: there is no such command"]),
    ("rename = { GET = 5 }", &["1:18: rename: write a text in quotes, which may be empty"]),
    ("rename = {}", &["1:10: rename: the table is empty; leave the key out"]),
    (
        "deny = ['KEYS', 'KEY']",
        &[
            "1:17: deny \"KEY\": KEY: there is no such command or category; write them as in KEYS,@dangerous,config|set,+info",
        ],
    ),
    ("[[listener]]\naddress = '/a'\nmax-keys = 0", &["3:12: max-keys \"0\": write a number, 1 at least"]),
    ("workers = 1\nN = 2", &["2:1: N is another name of workers; leave one out"]),
    (r#"port = "x""#, &[r#"1:8: port "x": write a number"#]),
    ("port = 70000", &[r#"1:8: port "70000": write a number from 0 to 65535"#]),
    ("port = -1", &[r#"1:8: port "-1": write a number from 0 to 65535"#]),
    ("port = 1.5", &["1:8: port: 1.5 is no whole number; write port = 6380"]),
    ("port = true", &["1:8: port: true is not allowed; write port = 6380"]),
    ("port = [1, 2]", &["1:8: port: the key takes one value, not a list, as in port = 6380"]),
    ("port = 2026-01-01", &["1:8: port: a date is not allowed; write port = 6380"]),
    (
        "port = {a = 1}",
        &[
            "1:1: port: there is no such table; the only ones are [[listener]], [[pool]] and [[pool.listener]], and keys have no dots",
        ],
    ),
    (r#"port = """#, &["1:8: port: the value is empty; leave the key out, or write port = 6380"]),
    ("nodes = []", &["1:9: nodes: the list is empty; leave the key out, or write its values"]),
    (
        r#"nodes = ["a:1", 5]"#,
        &[r#"1:17: nodes: node "5": the port is missing; write host:port, as in 127.0.0.1:6379"#],
    ),
    (r#"nodes = [["a:1"]]"#, &[r#"1:10: nodes: a list in a list is not allowed; write nodes = ["NODE", …]"#]),
    (
        r#"nodes = ["a:1", ""]"#,
        &[r#"1:17: nodes: the value is empty; leave the key out, or write nodes = ["NODE", …]"#],
    ),
    ("nodes = 5", &[r#"1:9: nodes: node "5": the port is missing; write host:port, as in 127.0.0.1:6379"#]),
    (r#"node-tls = "yes""#, &["1:12: node-tls: write true or false"]),
    ("node-tls = 1", &["1:12: node-tls: write true or false"]),
    ("SO_REUSEPORT = 2", &[r#"1:16: SO_REUSEPORT "2": write 1 to switch it on, 0 to switch it off"#]),
    (
        "nodes = [\n  \"a:1\",\n  \"b\",\n]",
        &[r#"3:3: nodes: node "b": the port is missing; write host:port, as in 127.0.0.1:6379"#],
    ),
    (
        r#"nodes = ["a:1", "b:1", "a:1"]"#,
        &[r#"1:24: nodes: node "a:1": the address is already that of node "a:1"; every node needs its own"#],
    ),
    (
        r#"nodes = "a:1,b""#,
        &[r#"1:1: nodes: node "b": the port is missing; write host:port, as in 127.0.0.1:6379"#],
    ),
    (
        r#"cluster = ["a:1:2"]"#,
        &["1:1: cluster a:1: write just the address; weights, names, zones and replicas have no use here"],
    ),
    (
        "cluster = [\n\"a:1\",\n\"b\"]",
        &[r#"3:1: cluster: node "b": the port is missing; write host:port, as in 127.0.0.1:6379"#],
    ),
    (
        r#"distribution = "rendezvous""#,
        &[r#"1:16: distribution "rendezvous": must be modulo, modula, ketama or slots"#],
    ),
    (
        r#"hash = "sha1""#,
        &[
            r#"1:8: hash "sha1": must be one of crc32a, crc32, crc16, crc16-redis, fnv1_64, fnv1a_64, fnv1_32, fnv1a_32, murmur, jenkins, hsieh, one_at_a_time, md5, atol"#,
        ],
    ),
    (
        r#"tag-rule = "abc""#,
        &[
            r#"1:12: tag-rule "abc": tag rule "abc": must be sml, perl, redis, codis, none, or two ASCII characters such as {} or <>"#,
        ],
    ),
    (
        r#"store-memory = "lots""#,
        &[r#"1:16: store-memory "lots": write bytes, as in 100000000, 100m, 512mb or 2gb"#],
    ),
    (
        r#"store-policy = "none""#,
        &[
            r#"1:16: store-policy "none": unknown eviction policy 'none', expected one of noeviction, allkeys-random, volatile-random, allkeys-lru, volatile-lru, volatile-ttl"#,
        ],
    ),
    ("memory-max = 1", &[r#"1:14: memory-max "1": must be at least 16m"#]),
    ("databases = 0", &["1:13: databases 0: must be 1 to 16384"]),
    ("databases = 17", &["1:13: databases 17: shards in memory have 16; name nodes with nodes"]),
    (
        "request-timeout-ms = 0",
        &["1:22: request-timeout-ms 0: a node must get some time, as in request-timeout-ms = 1000"],
    ),
    ("unixsocketperm = 0o770", &["1:18: unixsocketperm: 0o770: write decimal digits only, without a prefix"]),
    ("unixsocketperm = 770", &["1:1: unixsocketperm: there is no socket; name one with unixsocket"]),
    ("batching = false", &[r#"1:12: batching: false is not allowed; write batching = "auto""#]),
    (
        r#"zones = ["10.0.0.0/24=a", "x"]"#,
        &[r#"1:27: zones "x": "x": write NETWORK=ZONE, as in 10.0.1.0/24=zone-a"#],
    ),
    (
        "refresh-period-ms = 1\ncluster=\"a:1\"",
        &[r#"1:21: refresh-period-ms "1": write a number, 100 at least"#],
    ),
    (r#"log-level = "loud""#, &[r#"1:13: log-level "loud": write error, warn, info or debug"#]),
    (
        r#"requirepass = """#,
        &[r#"1:15: requirepass: the value is empty; leave the key out, or write requirepass = "PASSWORD""#],
    ),
    (
        "tls-auth-clients = \"perhaps\"\ntls-ca-cert-file=\"/x\"",
        &[r#"1:20: tls-auth-clients "perhaps": write no, optional or yes"#],
    ),
    ("nodes = [\"a:1\"]\ncluster = [\"b:1\"]", &["2:1: cluster excludes nodes; remove one of them"]),
    (
        "cluster = [\"a:1\"]\ndistribution = \"ketama\"",
        &["2:1: distribution excludes cluster; remove one of them"],
    ),
    ("nodes = [\"a:1\"]\nstore-shards = 2", &["2:1: store-shards excludes nodes; remove one of them"]),
    (r#"sentinel = ["a:1"]"#, &["1:1: sentinel needs master as well"]),
    (r#"master = ["a"]"#, &["1:1: master needs sentinel as well"]),
    (
        "sentinel = [\"a:1\"]\nmaster = [\"b\", \"c\", \"b\"]",
        &[r#"2:21: master "b": the name is given twice; each shard has a name of its own"#],
    ),
    ("node-user = \"x\"\nnodes=[\"a:1\"]", &["1:1: node-user needs node-auth or node-auth-file as well"]),
    (r#"node-auth-file = "/x""#, &["1:1: node-auth-file needs nodes, cluster, sentinel or rack as well"]),
    ("node-tls = true", &["1:1: node-tls: there are no nodes; name them with nodes"]),
    ("tls-port = 6390", &["1:12: tls-port 6390 needs tls-cert-file and tls-key-file"]),
    (
        "tls-cert-file = \"/no/cert.pem\"\ntls-key-file = \"/no/key.pem\"\ntls-port = 6390",
        &["1:17: tls-cert-file /no/cert.pem: No such file or directory (os error 2)"],
    ),
    (
        "tls-cert-file = [\"a\", \"b\"]\ntls-key-file = \"c\"\ntls-port=1",
        &["1:1: tls-cert-file and tls-key-file belong together: 2 of the one, 1 of the other"],
    ),
    (
        "port = 6390\ntls-port = 6390\ntls-cert-file = \"a\"\ntls-key-file = \"b\"",
        &["2:12: tls-port 6390: port has this port already; each needs its own"],
    ),
    (
        r#"acl-file = "/no/users.acl""#,
        &["1:12: acl-file /no/users.acl: No such file or directory (os error 2)"],
    ),
    (r#"requirepass-file = "/no""#, &["1:20: requirepass-file /no: No such file or directory (os error 2)"]),
    (
        "nodes=[\"a:1\"]\nnode-auth-file = \"/no\"",
        &["2:18: node-auth-file /no: No such file or directory (os error 2)"],
    ),
    (r#"auth = "nodes""#, &[r#"1:8: auth = "nodes": shards in memory have no users; name nodes with nodes"#]),
    (
        r#"host = "999.1.1.1""#,
        &["1:8: host 999.1.1.1: no such address; write one of this machine, as in 127.0.0.1 or 0.0.0.0"],
    ),
    (
        r#"read-from = "replica""#,
        &[
            r#"1:13: read-from = "replica": no node has a replica; write them behind their primaries, as in a:6379|b:6379"#,
        ],
    ),
    (
        "port = 6380\n[[listener]]\naddress = \"127.0.0.1:6380\"",
        &["3:11: listener 127.0.0.1:6380: port has this address already; each listener needs its own"],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\n[[listener]]\naddress = \"127.0.0.1:1\"",
        &["4:11: listener 127.0.0.1:1: the address is given twice; each listener needs its own"],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:2\"]\n[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:2\"]",
        &["6:11: address 127.0.0.1:1: line 2 has this address already; each listener needs its own"],
    ),
    (
        "port = 1\n[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:2\"]",
        &["3:11: address 127.0.0.1:1: line 1 has this address already; each listener needs its own"],
    ),
    ("[[listener]]", &[r#"1:1: this listener needs an address as well, as in address = "127.0.0.1:6381""#]),
    ("[[listener]]\nmode = \"http\"", &[r#"2:8: mode: write "redis" or "tcp""#]),
    ("[[listener]]\nmode = 5", &[r#"2:8: mode: write "redis" or "tcp""#]),
    (
        "[[listener]]\naddress = \"127.0.0.1\"",
        &[
            r#"2:11: address "127.0.0.1": write an address of this machine, as in 127.0.0.1:6381, [::1]:6381 or unix:/run/reads.sock"#,
        ],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1 tls\"",
        &[
            r#"2:11: address "127.0.0.1:1 tls": write the address alone; tls = true and read-from are keys beside it"#,
        ],
    ),
    ("[[listener]]\naddress = \"/run/a\"\ntls = true", &["2:11: tls: a unix socket has none"]),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\ntls = true",
        &["2:11: listener 127.0.0.1:1 tls needs tls-cert-file and tls-key-file"],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nread-from = \"slave\"",
        &[
            r#"3:13: read-from "slave": write one of primary, prefer-primary, replica, prefer-replica, any, nearest, zone"#,
        ],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nread-from = \"replica\"",
        &[
            "2:11: listener 127.0.0.1:1 read-from=replica: no node has a replica; write them behind their primaries, as in a:6379|b:6379",
        ],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nnodes = [\"a:1\"]",
        &[
            r#"3:1: nodes: only a listener with mode = "tcp" has its own; for those of Redis, write it above the first [[listener]]"#,
        ],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nmaxclients = 5",
        &[
            r#"3:1: maxclients: only a listener with mode = "tcp" has its own; for those of Redis, write it above the first [[listener]]"#,
        ],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nport = 1",
        &["3:1: port: a listener has an address, as in address = \"127.0.0.1:6381\""],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nreadfrom = \"any\"",
        &["3:1: readfrom: there is no such key; did you mean read-from?"],
    ),
    (
        "[[listener]]\nmode = \"tcp\"\nnodes = [\"127.0.0.1:1\"]",
        &[r#"1:1: this listener needs an address as well, as in address = "127.0.0.1:6381""#],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"",
        &[r#"1:1: this listener needs nodes as well, as in nodes = ["127.0.0.1:6379"]"#],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"\nnodes = [\"a\"]",
        &[r#"4:10: nodes: node "a": the port is missing; write host:port, as in 127.0.0.1:6379"#],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"\nnodes = [\"a:1\", \"b:1|c:1\"]",
        &["4:1: nodes: b:1: shardis tcp has no replicas; write a comma instead of |"],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:1\"]\nworkers = 2\ntls = true",
        &["5:1: workers: the key belongs to no single listener; write it above the first [[listener]]"],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:1\"]\nbalance = \"random\"\ncheck = \"http\"\nsend-proxy = true\nmaxclients = 0",
        &[
            r#"5:11: balance "random": write least-conn, round-robin or source-hash"#,
            r#"6:9: check "http": write off, tcp or ping"#,
            r#"7:14: send-proxy: true is not allowed; write send-proxy = "v1|v2""#,
        ],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:1\"]\nmaxclients = 0",
        &["5:14: maxclients 0: must be at least 1"],
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:1\"]\nballance = \"x\"\ndistribution = \"ketama\"",
        &[
            "5:1: ballance: there is no such key; did you mean balance?",
            "6:1: distribution: the key belongs to no single listener; write it above the first [[listener]]",
        ],
    ),
    (
        "nutcracker-stats = \"127.0.0.1:1\"\n[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:1\"]",
        &[
            "1:1: nutcracker-stats has no effect, since all listeners are of mode tcp; write port = 6380 for one of Redis as well",
        ],
    ),
    (
        "nodes = [\"a:1\"]\nmaxclients = 5\n[[listener]]\naddress = \"127.0.0.1:1\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:1\"]",
        &[
            "1:1: nodes has no effect, since all listeners are of mode tcp; write port = 6380 for one of Redis as well, or move the key to its [[listener]]",
            "2:1: maxclients has no effect, since all listeners are of mode tcp; write port = 6380 for one of Redis as well, or move the key to its [[listener]]",
        ],
    ),
    (
        "workers=1\n[[listener]]\naddress = \"unix:/x\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:1\"]",
        &["3:11: address unix:/x: write an address and a port, as in 127.0.0.1:6380"],
    ),
    (
        r#"listener = ["127.0.0.1:1 tls", "127.0.0.1:2 read-from=x"]"#,
        &[
            r#"1:32: listener "127.0.0.1:2 read-from=x": write one of primary, prefer-primary, replica, prefer-replica, any, nearest, zone"#,
        ],
    ),
    ("listener = []", &["1:12: listener: the list is empty; leave the key out, or write its values"]),
    (
        "listener = 5",
        &[
            r#"1:12: listener "5": write an address of this machine, as in 127.0.0.1:6381, [::1]:6381 or unix:/run/reads.sock"#,
        ],
    ),
    (
        "port = x\nhost = 127.0.0.1",
        &[
            "1:8: this is not TOML: this is no value; a text stands in quotes, and the next key in a line of its own",
            "2:13: this is not TOML: this is no number; a text, such as an address, stands in quotes",
        ],
    ),
    (
        r#"port = 1 host = "a""#,
        &[
            "1:8: this is not TOML: this is no value; a text stands in quotes, and the next key in a line of its own",
        ],
    ),
    (
        "port = \"x\"\nzzz = 1\nnodes = []\n[[listener]]\n[[listener]]\naddress = \"127.0.0.1:1\"\nbalance = 1",
        &[
            r#"1:8: port "x": write a number"#,
            "2:1: zzz: there is no such key (shardis proxy --help lists all, with dashes in front)",
            "3:9: nodes: the list is empty; leave the key out, or write its values",
            r#"4:1: this listener needs an address as well, as in address = "127.0.0.1:6381""#,
            r#"7:1: balance: only a listener with mode = "tcp" has it"#,
        ],
    ),
    (
        "zone = \"\"\"\na\nb\"\"\"\ntls-auth-clients = \"\\u001b[31m\"",
        &[r#"4:20: tls-auth-clients "\u{1b}[31m": write no, optional or yes"#],
    ),
    (
        "tls-port = 7\ntls-cert-file = \"/no\"\ntls-key-file = \"/no\"\n[[listener]]\naddress = \"127.0.0.1:7\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:2\"]",
        &[
            "2:17: tls-cert-file /no: No such file or directory (os error 2)",
            "5:11: address 127.0.0.1:7: line 1 has this address already; each listener needs its own",
        ],
    ),
    (
        "unixsocket = \"/a\"\n[[listener]]\naddress = \"127.0.0.1:6380\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:2\"]",
        &["3:11: address 127.0.0.1:6380: port has this address already; each listener needs its own"],
    ),
    (
        r#"listener = ["127.0.0.1:1", {address = "127.0.0.1:1"}]"#,
        &["1:39: listener 127.0.0.1:1: the address is given twice; each listener needs its own"],
    ),
    (
        "[[listener]]\nlisten = '127.0.0.1:1'\nmode = 'tcp'\nnodes = 'a:1'",
        &["2:1: listen: a listener has an address, as in address = \"127.0.0.1:6381\""],
    ),
    (
        "[[listener]]\naddress = '127.0.0.1:1'\nmode = 'tcp'\nnodes = 'a:1'\nzzz = 1",
        &["5:1: zzz: there is no such key (shardis tcp --help lists all, with dashes in front)"],
    ),
    (
        "[[listener]]\naddress = '127.0.0.1:1'\nzzz = 1",
        &[
            "3:1: zzz: there is no such key (a listener of Redis has address, mode, tls, read-from, deny, rename, max-keys, max-value and read-only)",
        ],
    ),
    (
        "nodes = [\n'a:1'\n'b:1'\n]",
        &["3:1: this is not TOML: there is no comma between two values of the list"],
    ),
    (
        "[[listeners]]\naddress = '127.0.0.1:1'",
        &["1:3: listeners: there is no such key; did you mean listener?"],
    ),
];
