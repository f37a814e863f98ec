//! Files and their results: valid ones, broken ones, and absurd ones.

mod broken_files;
mod includes;
mod pools;

use super::*;
use crate::listeners::Mode;
use broken_files::BROKEN;
use clap::Parser;
use stdx::Prng;

fn reading(text: &str, words: &[&str]) -> Result<Serving, String> {
    let document = Document::new(text.as_bytes().to_vec()).expect("UTF-8");
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    read(Path::new("F"), &document, &words, Depth::Check).map_err(|faults| faults.to_string())
}

/// The services of the file `text`, which is valid.
pub(crate) fn serving(text: &str) -> Serving {
    reading(text, &[]).unwrap_or_else(|faults| panic!("{text}\n{faults}"))
}

fn redis(text: &str, words: &[&str]) -> ProxyArgs {
    let serving = reading(text, words).unwrap_or_else(|faults| panic!("{text}\n{faults}"));
    *serving.only_pool().expect("there is a port of Redis")
}

/// The arguments from `words` of a command line.
fn of_words(words: &[&str]) -> ProxyArgs {
    ProxyArgs::try_parse_from(["shardis proxy"].iter().chain(words)).expect("valid")
}

fn places(serving: &Serving) -> Vec<String> {
    let ways = serving.pools.iter().flat_map(|pool| pool.args.ways_in().expect("valid"));
    let of_redis = ways.map(|way| {
        let mode = Mode::Redis { is_tls: way.is_tls, http: way.http, read_from: way.read_from };
        format!("{}{mode}", way.place)
    });
    let of_tcp = serving.tcp.iter().map(|args| format!("{} tcp", args.listen_addr().expect("valid")));
    of_redis.chain(of_tcp).collect()
}

#[test]
fn broken_files_are_reported_with_line_column_and_remedy() {
    for (text, expected) in BROKEN {
        let faults = reading(text, &[]).expect_err(text);
        let expected: Vec<String> = expected.iter().map(|line| format!("F:{line}")).collect();
        assert_eq!(faults, expected.join("\n"), "{text}");
    }
}

#[test]
fn keys_and_flags_give_equal_arguments() {
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        ("# nothing\n", &[]),
        ("port = 7000", &["--port=7000"]),
        ("port = \"7000\"", &["--port=7000"]),
        ("maxclients = 10_000", &["--maxclients=10000"]),
        ("N = 3\nSO_REUSEPORT = true", &["--workers=3", "--SO_REUSEPORT=1"]),
        ("SO_REUSEPORT = 0\nallow-admin = false", &["--SO_REUSEPORT=0"]),
        ("allow-admin = true\nproxy-protocol = true", &["--allow-admin", "--proxy-protocol"]),
        ("nodes = [\"a:1:2 x\", \"b:1|c:1\"]", &["--nodes=a:1:2 x,b:1|c:1"]),
        ("nodes = \"a:1,b:1\"", &["--nodes=a:1,b:1"]),
        ("cluster = [\"a:1\", \"[::1]:1\"]", &["--cluster=a:1,[::1]:1"]),
        ("sentinel = [\"a:1\"]\nmaster = [\"x\", \"y\"]", &["--sentinel=a:1", "--master=x,y"]),
        ("store-memory = \"1mb\"\nmemory-max = 100000000", &["--store-memory=1mb", "--memory-max=100000000"]),
        (
            "unixsocket = \"/run/a b\"\nunixsocketperm = 770",
            &["--unixsocket=/run/a b", "--unixsocketperm=770"],
        ),
        ("tag-rule = '{}'\nhash = 'md5'", &["--tag-rule={}", "--hash=md5"]),
        ("batching = 50\nzone = 1", &["--batching=50", "--zone=1"]),
        ("coalesce = 50\nramp-up-ms = 3", &["--batching=50", "--slow-start-ms=3"]),
        ("listener = \"/run/a\"", &["--listener=/run/a"]),
        ("deny = ['KEYS', '@admin']\nmax-value = '1kb'", &["--deny=KEYS,@admin", "--max-value=1024"]),
        ("rename = { GET = 'SET', SET = 'GET', KEYS = '' }", &["--rename=GET:SET,SET:GET,KEYS:"]),
        ("user-namespace = { bob = 'bob:', eve = 'eve/' }", &["--user-namespace=bob:bob:,eve:eve/"]),
        ("[rename]\nKEYS = ''", &["--rename=KEYS:"]),
        (
            "[[listener]]\naddress = '/a'\ndeny = ['KEYS']\nrename = { GET = 'G' }\nmax-keys = 3\nread-only = true",
            &["--listener=/a deny=KEYS rename=GET:G max-keys=3 read-only"],
        ),
        (
            "listener = [\"127.0.0.1:1\", {address = \"/run/a\"}]",
            &["--listener=127.0.0.1:1", "--listener=/run/a"],
        ),
        (
            "nodes = 'a:1|b:1'\n[[listener]]\naddress = '127.0.0.1:1'\nread-from = 'any'\n[[listener]]\nmode = 'redis'\naddress = '/a'\ntls = false",
            &["--nodes=a:1|b:1", "--listener=127.0.0.1:1 read-from=any", "--listener=/a"],
        ),
    ];
    for (text, words) in cases {
        assert_eq!(format!("{:?}", redis(text, &[])), format!("{:?}", of_words(words)), "{text}");
    }
}

#[test]
fn every_flag_is_a_key() {
    let flags = Flags::new(ProxyArgs::command(), "");
    let command = ProxyArgs::command();
    let mut lists = Vec::new();
    for flag in command.get_arguments() {
        let name = flag.get_long().expect("a flag has a name");
        assert_eq!(flags.id(name).as_deref(), Some(flag.get_id().as_str()));
        if flags::is_list(flag) {
            lists.push(name);
        }
    }
    lists.sort_unstable();
    assert_eq!(
        lists,
        ["cluster", "deny", "master", "nodes", "rename", "sentinel", "user-namespace", "zones"]
    );
}

#[test]
fn the_command_line_wins_over_the_file() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("port = 1", &["--port=2"], &["--port=2"]),
        ("workers = 1", &["--N", "2"], &["--workers=2"]),
        ("nodes = [\"a:1\", \"b:1\"]\nport = 1", &["--nodes=c:1"], &["--nodes=c:1", "--port=1"]),
        // Whole lists take the place of whole lists.
        ("listener = [\"/a\", \"/b\"]", &["--listener=/c"], &["--listener=/c"]),
        ("[[listener]]\naddress = \"/a\"", &["--listener=/c"], &["--listener=/c"]),
        // File and command line complete each other.
        ("sentinel = [\"a:1\"]", &["--master=x"], &["--sentinel=a:1", "--master=x"]),
        ("master = [\"x\"]", &["--sentinel=a:1"], &["--sentinel=a:1", "--master=x"]),
    ];
    for (text, words, expected) in cases {
        assert_eq!(format!("{:?}", redis(text, words)), format!("{:?}", of_words(expected)), "{text}");
    }
}

#[test]
fn conflicts_are_found_across_file_and_command_line() {
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "port = 1\nnodes = [\"a:1\"]",
            &["--cluster=b:1"],
            "F:2:1: nodes excludes --cluster of the command line; remove one of them",
        ),
        (
            "tls-port = 1",
            &["--port=1", "--tls-cert-file=a", "--tls-key-file=b"],
            "F:1:12: tls-port 1: --port has this port already; each needs its own",
        ),
        (
            "databases = 20",
            &["--store-shards=2"],
            "F:1:13: databases 20: shards in memory have 16; name nodes with nodes",
        ),
        ("port = 1", &["--node-user=x"], "F: the command line needs node-auth or node-auth-file as well"),
        ("port = 1", &["--store-shards=0"], "F: --store-shards 0: must be 1 to 256"),
        (
            "port = 1",
            &["--cluster=a:1", "--databases=2"],
            "F: --databases 2: a Redis Cluster has database 0 alone; leave --databases out",
        ),
    ];
    for (text, words, expected) in cases {
        assert_eq!(reading(text, words).expect_err(text), *expected);
    }
}

#[test]
fn listeners_of_both_modes_stand_side_by_side() {
    let tcp = "[[listener]]\naddress = \"127.0.0.1:7001\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:1\"]\n";
    let places_of = |text: &str, words: &[&str]| places(&reading(text, words).expect("valid"));
    assert_eq!(places_of(tcp, &[]), ["127.0.0.1:7001 tcp"]);
    assert_eq!(places_of(&format!("workers = 1\n{tcp}"), &["--log-level=debug"]), ["127.0.0.1:7001 tcp"]);
    assert_eq!(places_of(&format!("port = 7000\n{tcp}"), &[]), ["127.0.0.1:7000", "127.0.0.1:7001 tcp"]);
    assert_eq!(places_of(tcp, &["--port=7000"]), ["127.0.0.1:7000", "127.0.0.1:7001 tcp"]);
    let more = "[[listener]]\naddress = \"127.0.0.1:7002\"\n";
    let both = format!("port = 0\n{tcp}{more}");
    assert_eq!(places_of(&both, &[]), ["127.0.0.1:7002", "127.0.0.1:7001 tcp"]);
    // No flag says one of mode tcp: they stay.
    assert_eq!(places_of(&both, &["--listener=/a"]), ["unix:/a", "127.0.0.1:7001 tcp"]);
}

#[test]
fn tcp_listener_inherits_the_settings_of_the_process() {
    let text =
        "workers = 3\ndrain-timeout = 5\nSO_REUSEPORT = true\n[[listener]]\naddress = \"127.0.0.1:7001\"
mode = \"tcp\"\nnodes = [\"127.0.0.1:1:2\", \"127.0.0.1:2\"]\nbalance = \"round-robin\"\nsend-proxy = \"v2\"
maxclients = 7\nidle-timeout = 0\ncheck = \"off\"\n";
    let serving = reading(text, &[]).expect("valid");
    let words = "--listen=127.0.0.1:7001 --nodes=127.0.0.1:1:2,127.0.0.1:2 --balance=round-robin --send-proxy=v2 \
                 --maxclients=7 --timeout=0 --check=off --workers=3 --reuse-port --drain-timeout=5";
    let command = <TcpArgs as clap::Args>::augment_args(clap::Command::new("tcp").no_binary_name(true));
    let matches = command.try_get_matches_from(words.split_whitespace()).expect("valid");
    let expected = TcpArgs::from_arg_matches(&matches).expect("valid");
    assert_eq!(format!("{:?}", serving.tcp), format!("[{expected:?}]"));
    assert_eq!((serving.workers, serving.drain_timeout.as_secs()), (3, 5));
}

#[test]
fn an_invalid_byte_is_reported_with_its_position() {
    let (document, fault) =
        *Document::new(b"port = 1\nzone = \"\xc3\xa4\xff\"".to_vec()).expect_err("not UTF-8");
    let faults = Faults::new(Path::new("F"), &document, vec![fault]);
    assert_eq!(faults.to_string(), "F:2:10: the byte 0xff is not UTF-8; write the file in UTF-8");
    let (document, fault) = *Document::new(vec![b'#'; 2 << 20]).expect_err("too large");
    let faults = Faults::new(Path::new("F"), &document, vec![fault]);
    assert_eq!(faults.to_string(), "F: the file has more than 1048576 bytes, the limit of a configuration");
}

#[test]
fn listeners_of_mode_tcp_have_a_bound() {
    let table =
        |port| format!("[[listener]]\naddress = '127.0.0.1:{port}'\nmode = 'tcp'\nnodes = '127.0.0.1:1'\n");
    let tables = |count| (1..=count).map(table).collect::<String>();
    assert_eq!(reading(&tables(64), &[]).expect("so many may be").tcp.len(), 64);
    let faults = reading(&tables(66), &[]).expect_err("too many");
    assert_eq!(faults, "F:257:1: at most 64 listeners have mode = \"tcp\"");
}

#[test]
fn examples_of_the_docs_are_valid_but_for_missing_files() {
    let docs = [include_str!("../../../../docs/configuration.md"), include_str!("../../../../docs/tcp.md")];
    for text in docs {
        let (_, example) = text.split_once("```toml\n").expect("there is one");
        let (example, _) = example.split_once("```").expect("it ends");
        let faults = reading(example, &[]).err().unwrap_or_default();
        assert!(faults.lines().all(|line| line.contains("No such file")), "{faults}");
    }
}

#[test]
fn a_password_shows_nowhere() {
    for text in [
        "requirepass = \"secret\"\nacl-file = \"/x\"",
        "requirepass = \"secret\"\nauth = \"nodes\"\nnodes = \"a:1\"",
    ] {
        let faults = reading(text, &[]).expect_err(text);
        assert!(!faults.contains("secret"), "{faults}");
    }
    assert!(!format!("{:?}", redis("requirepass = \"secret\"", &[])).contains("secret"));
}

/// The only one of [`WHOLE`] that would be looked up as a name if it were broken.
const ADDRESS: &[u8] = b"address = \"127.0.0.1:1\"";

const WHOLE: &str = r#"
nodes = ["10.0.0.1:6379:2 a", 'unix:/run/b.sock', """[::1]:6379"""]
distribution = "ketama"   # as twemproxy
port = 0
unixsocket = "unix:/run/a"
workers = 2
allow-admin = true
memory-max = "100mb"
timeout = 1_000

[[listener]]
address = "unix:/run/c"
read-from = "primary"

[[listener]]
address = "127.0.0.1:1"
mode = "tcp"
nodes = ["10.0.0.1:6379"]
proxy-protocol = true
idle-timeout = 5
"#;

const WHOLE_OF_POOLS: &str = r#"
workers = 2
timeout = 30
[[pool]]
name = "a"
nodes = ["10.0.0.1:6379:2 a", 'unix:/run/b.sock']
port = 7001
[[pool]]
name = "b"
cluster = "10.0.0.3:6379"
[[pool.listener]]
address = "unix:/run/c"
"#;

/// `SHARDIS_CONFIG_SEED=… cargo test -p shardis --bins whatever_a_file_has` repeats it.
#[test]
fn any_file_is_a_configuration_or_faults_with_places() {
    reading(WHOLE, &[]).expect("as it is, it is right");
    reading(WHOLE_OF_POOLS, &[]).expect("as it is, it is right");
    let given = std::env::var("SHARDIS_CONFIG_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |now| now.as_micros() as u64)
    });
    println!("SHARDIS_CONFIG_SEED={seed}");
    let mut random = Prng::new(seed);
    let mut refused = 0;
    for _ in 0..4_000 {
        let whole = if random.one_in(2) { WHOLE_OF_POOLS } else { WHOLE };
        let bytes = mutated(whole.as_bytes(), &mut random);
        if whole == WHOLE && !bytes.windows(ADDRESS.len()).any(|window| window == ADDRESS) {
            continue;
        }
        let faults = match Document::new(bytes) {
            Ok(document) => read(Path::new("F"), &document, &[], Depth::Check).err(),
            Err(broken) => Some(Faults::new(Path::new("F"), &broken.0, vec![broken.1])),
        };
        for line in faults.iter().flat_map(Faults::lines) {
            refused += 1;
            assert!(line.starts_with("F:") && !line.contains(char::is_control), "{line:?}");
        }
    }
    assert!(refused > 0, "some are broken");
}

/// `bytes` with some of them exchanged, cut out, or there twice; or others altogether.
fn mutated(bytes: &[u8], random: &mut Prng) -> Vec<u8> {
    const SPICE: &[u8] = b"\"'[]{}=#\n\r\t .,:-_0x9e+\\\x00\xff\xef\xbb\xbf";
    let mut bytes = bytes.to_vec();
    if random.one_in(20) {
        let len = random.below(200);
        return (0..len).map(|_| *random.pick(SPICE)).collect();
    }
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64) as usize;
        let end = (at + 1 + random.below(12) as usize).min(bytes.len());
        match random.below(4) {
            0 => bytes[at] = *random.pick(SPICE),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.extend_from_within(at..end),
            _ => bytes.insert(at, *random.pick(SPICE)),
        }
        if bytes.is_empty() {
            return bytes;
        }
    }
    bytes
}
