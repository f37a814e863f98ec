//! Users and passwords in front of real nodes: shardis answers as one Redis with the same users does.

use crate::harness::client::Client;
use crate::harness::processes::{run, shardis};
use crate::harness::{Proxy, RedisServer, World, poll_until, show};
use command::{Command, Flags};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const NO_AUTH: &str = r"-NOAUTH Authentication required.\r\n";

/// A file that goes with this value.
pub(crate) struct File(PathBuf);

impl File {
    pub(crate) fn new(text: &str) -> File {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let file = File(std::env::temp_dir().join(format!("shardis-users-{}-{number}", std::process::id())));
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    pub(crate) fn flag(&self, name: &str) -> String {
        format!("--{name}={}", self.0.display())
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Two users over four nodes, and one Redis with the same: the default user has the password `master-key`.
pub(crate) const SETUSERS: &[&str] = &[
    "ACL SETUSER alice on >in-wonderland ~wonder:* %R~shared:* resetchannels &tea* +@all -@dangerous +client|list +keys",
    "ACL SETUSER bob on >builder ~shared:* (+get +mget ~wonder:open) -@all +@string +@connection +del +select|0 +info",
    "ACL SETUSER nobody on nopass -@all",
    "ACL SETUSER ghost off >ghost ~* +@all",
    "ACL SETUSER default resetpass >master-key",
];

/// One Redis with these users, and an ACL file that says the same, as it prints it.
fn oracle() -> (RedisServer, File) {
    let oracle = RedisServer::reference();
    let mut admin = oracle.connect();
    for line in SETUSERS {
        assert_eq!(admin.ask(line), r"+OK\r\n", "{line}");
    }
    let reply = admin.command(&[b"ACL", b"LIST"]);
    let lines = resp::reply::elements(&reply).unwrap();
    let lines =
        lines.map(|line| String::from_utf8(resp::reply::as_bulk(line).unwrap().to_vec()).unwrap() + "\n");
    let file = File::new(&lines.collect::<String>());
    (oracle, file)
}

/// Requests of clients that come and go, wherever users are known.
const GREETINGS: &[&[&str]] = &[
    &["GET wonder:1", "PING", "nosuchcommandatall\0", "GET", "AUTH", "AUTH a b c", "SELECT 0", "QUIT"],
    &[
        "HELLO",
        "HELLO 2",
        "HELLO 9",
        "HELLO x",
        "HELLO 2 AUTH alice x",
        "HELLO 2 SETNAME a",
        "CLIENT GETNAME",
    ],
    &["AUTH alice in-wonderland", "ACL WHOAMI", "RESET", "ACL WHOAMI", "PING"],
    &[
        "HELLO 3",
        "HELLO 3 AUTH default master-key",
        "ACL GETUSER bob",
        "ACL GETUSER eve",
        "ACL LIST",
        "GET wonder:1",
        "AUTH bob builder",
        "GET wonder:1",
        "RESET",
        "GET wonder:1",
    ],
];

/// Requests on one connection, one after the other, with equal replies from both: [`GREETINGS`], then `conversations`.
pub(crate) fn expect_alike(oracle: &RedisServer, world: &World, conversations: &[&[&str]]) {
    for conversation in GREETINGS.iter().chain(conversations) {
        let (mut theirs, mut ours) = (oracle.connect(), world.connect());
        for line in *conversation {
            let (expected, got) = (ask(&mut theirs, line), ask(&mut ours, line));
            assert_eq!(comparable(&got), comparable(&expected), "{line} in {conversation:?}");
        }
    }
}

/// Requests of clients that shardis knows.
const CONVERSATIONS: &[&[&str]] = &[
    &[
        "AUTH wrong",
        "AUTH default wrong",
        "AUTH eve x",
        "AUTH ghost ghost",
        "GET wonder:1",
        "AUTH master-key",
        "GET wonder:1",
    ],
    &[
        "AUTH alice in-wonderland",
        "SET wonder:1 a",
        "MSET wonder:1 a wonder:2 b wonder:3 c wonder:4 d wonder:5 e",
        "MGET wonder:1 wonder:2 wonder:3 wonder:4 wonder:5",
        "MGET wonder:1 wonder:2 shared:1 wonder:4 wonder:5",
        "MGET wonder:1 wonder:2 other wonder:4 wonder:5",
        "MSET wonder:1 z wonder:2 z shared:1 z",
        "GET wonder:1",
        "DEL wonder:5 other",
        "DEL wonder:5",
        "EXISTS wonder:1 shared:1",
        "SET shared:1 x",
        "GETDEL shared:1",
        "CLIENT SETNAME alice",
        "CLIENT KILL ID 1",
        "FLUSHALL",
        "CONFIG GET x",
        "KEYS other*",
        "SHUTDOWN",
        "DBSIZE",
        "EVAL return{KEYS[1]} 1 wonder:1",
        "EVAL return{KEYS[1]} 1 shared:1",
        "SORT wonder:x BY w_* GET #",
        "SORT wonder:x GET #",
        "COPY shared:1{t} wonder:6{t}",
        "OBJECT ENCODING wonder:1",
        "OBJECT ENCODING other",
        "XREAD STREAMS other 0",
        "ZUNIONSTORE wonder:z{t} 1 other{t}",
        "ZUNIONSTORE wonder:z{t} 1 shared:z{t}",
        "GETEX shared:1",
        "TTL shared:1",
    ],
    &[
        "AUTH bob builder",
        "SET shared:1 2",
        "GET shared:1",
        "GET wonder:open",
        "SET wonder:open 1",
        "MGET wonder:open shared:1",
        "MGET wonder:open",
        "GET wonder:1",
        "DEL shared:1",
        "LPUSH shared:l a",
        "SELECT 0",
        "SELECT 1",
        "CLIENT LIST",
        "INFO x",
        "ACL WHOAMI",
        "ACL LIST",
        "AUTH nobody whatever",
        "GET shared:1",
        "AUTH bob builder",
        "GET shared:1",
    ],
    &[
        "AUTH alice in-wonderland",
        "MULTI",
        "SET wonder:1 a",
        "GET wonder:1",
        "EXEC",
        "MULTI",
        "SET wonder:1 b",
        "GET other",
        "EXEC",
        "WATCH other",
        "WATCH wonder:1",
        "UNWATCH",
        "PUBLISH tea x",
        "PUBLISH coffee x",
        "PSUBSCRIBE te*",
        "SUBSCRIBE coffee",
        "SUBSCRIBE tea-time",
        "GET wonder:1",
        "SUBSCRIBE coffee",
        "PSUBSCRIBE tea*",
        "RESET",
        "PUBLISH tea x",
    ],
    &["AUTH nobody x", "PING", "ACL WHOAMI", "COMMAND COUNT", "RESET", "AUTH nobody y", "QUIT"],
    &[
        "AUTH master-key",
        "ACL USERS",
        "ACL LIST",
        "ACL GETUSER bob",
        "ACL GETUSER nobody",
        "ACL GETUSER eve",
        "ACL DRYRUN bob get wonder:1",
        "ACL DRYRUN bob get shared:1",
        "ACL DRYRUN eve get a",
        "ACL DRYRUN bob",
        "ACL DRYRUN bob nosuch",
        "ACL DRYRUN bob set a",
        "ACL DRYRUN alice publish coffee x",
        "ACL DRYRUN alice psubscribe tea*",
        "ACL DRYRUN alice psubscribe te*",
        "ACL CAT nosuch",
        "ACL SETUSER carol on +nosuch",
        "ACL SETUSER carol on (+get",
        "ACL SETUSER carol on >c +get ~c",
        "AUTH carol c",
        "GET c",
        "GET d",
        "AUTH master-key",
        "ACL SETUSER carol -get",
        "ACL DELUSER default",
        "ACL DELUSER carol eve",
        "ACL USERS",
        "ACL GENPASS x",
        "ACL GENPASS 0",
        "ACL LOG x",
        "CLIENT KILL USER eve",
        "ACL HELP x",
        "ACL NOSUCH",
        "ACL LOG RESET",
    ],
];

#[test]
fn users_are_answered_as_by_one_redis_over_four_nodes() {
    let (oracle, file) = oracle();
    let world = World::with_flags(4, &["--workers=2", &file.flag("acl-file")]);
    expect_alike(&oracle, &world, CONVERSATIONS);
}

fn ask(client: &mut Client, line: &str) -> Vec<u8> {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.command(&args)
}

/// The reply without parts that differ between servers: the order of commands in a user's text, lists of clients, and newer
/// nodes' more exact advice.
fn comparable(reply: &[u8]) -> String {
    let text = String::from_utf8_lossy(reply).replace("HELLO <proto> AUTH", "HELLO AUTH");
    let are_own = [" laddr=", "redis_version", "\r\nproto\r\n"];
    if are_own.iter().any(|sign| text.contains(sign)) {
        return "what is each server's own".to_owned();
    }
    if !text.contains("-@all") && !text.contains("+@all") {
        return show(text.as_bytes());
    }
    let is_newer = |word: &&str| !word.contains("client|no-touch") && !word.contains("client|setinfo");
    let lines = text.split("\r\n").filter(|line| !line.starts_with('$')).map(|line| {
        let mut words: Vec<&str> = line.split([' ', '(', ')']).filter(is_newer).collect();
        words.sort_unstable();
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// All commands that are sent by themselves and all subcommands, except those that need no permission.
fn lines() -> impl Iterator<Item = &'static Command> {
    let lines = command::numbered().map(|(_, command)| command);
    lines.filter(|command| {
        (command.subcommands.is_empty() || command.name == "command")
            && !command.flags.contains(Flags::NO_AUTH)
    })
}

#[test]
fn no_forbidden_command_reaches_a_node() {
    let (_, file) = oracle();
    let world = World::with_flags(2, &["--allow-admin", &file.flag("acl-file")]);
    let (mut stranger, mut nobody) = (world.connect(), world.connect());
    assert_eq!(nobody.ask("AUTH nobody x"), r"+OK\r\n");
    world.nodes.iter().for_each(|node| assert_eq!(node.connect().ask("CONFIG RESETSTAT"), r"+OK\r\n"));
    let mut asked = 0;
    for command in lines() {
        let mut words: Vec<String> = command.name.split('|').map(str::to_owned).collect();
        while words.len() < command.arity.unsigned_abs() as usize {
            words.push(words.len().to_string());
        }
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let denied =
            format!("-NOPERM this user has no permissions to run the '{}' command\r\n", command.name);
        assert_eq!(String::from_utf8_lossy(&nobody.command(&args)), denied, "{words:?}");
        assert_eq!(show(&stranger.command(&args)), NO_AUTH, "{words:?}");
        asked += 1;
    }
    assert!(asked > 300, "only {asked} commands were asked for");
    assert_eq!(stranger.ask("json.get x"), NO_AUTH, "a name that a node would be asked about");
    for node in &world.nodes {
        let reply = node.connect().command(&[b"INFO", b"commandstats"]);
        let stats = String::from_utf8_lossy(&reply).into_owned();
        let used: Vec<&str> =
            stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next()).collect();
        let own = |name: &&str| ["ping", "info", "config|resetstat"].contains(name);
        assert!(used.iter().all(own), "{used:?}");
    }
}

#[test]
fn one_password_for_all_is_said_first() {
    let file = File::new("first-pass\n");
    let world = World::with_flags(1, &[&file.flag("requirepass-file")]);
    let mut client = world.connect();
    assert_eq!(client.ask("GET a"), NO_AUTH);
    assert_eq!(client.ask("AUTH first-pass"), r"+OK\r\n");
    assert_eq!(client.ask("GET a"), r"$-1\r\n");
    // Another password is required from then on; logged-in clients stay.
    file.write("second-pass\n");
    world.proxy.signal("HUP");
    poll_until("the new password", || (world.connect().ask("AUTH second-pass") == r"+OK\r\n").then_some(()));
    assert!(world.connect().ask("AUTH first-pass").starts_with("-WRONGPASS"));
    assert_eq!(client.ask("GET a"), r"$-1\r\n");
    // On the command line it is the same.
    let world = World::with_flags(1, &["--requirepass=third-pass"]);
    assert_eq!(world.connect().ask("PING"), NO_AUTH);
    assert_eq!(world.connect().ask("AUTH third-pass"), r"+OK\r\n");
}

#[test]
fn users_are_read_again_while_clients_are_at_work() {
    let (_, file) = oracle();
    let world = World::with_flags(2, &["--workers=2", &file.flag("acl-file")]);
    let mut alice = world.connect();
    assert_eq!(alice.ask("AUTH alice in-wonderland"), r"+OK\r\n");
    let working = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let bobs: Vec<_> = (0..6)
            .map(|number| {
                let (mut bob, working) = (world.connect(), &working);
                scope.spawn(move || {
                    assert_eq!(bob.ask("AUTH bob builder"), r"+OK\r\n");
                    let mut round = 0;
                    loop {
                        let reply = bob.ask(&format!("SET shared:{number} {round}"));
                        if reply.starts_with("-NOPERM") {
                            break;
                        }
                        assert_eq!(reply, r"+OK\r\n");
                        round += 1;
                        if round == 50 {
                            working.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    // The connection is as good as before.
                    assert_eq!(bob.ask(&format!("GET shared:{number}")), {
                        let last = (round - 1).to_string();
                        format!("${}\\r\\n{last}\\r\\n", last.len())
                    });
                    round
                })
            })
            .collect();
        poll_until("all to be at work", || (working.load(Ordering::Relaxed) == 6).then_some(()));
        file.write("user default on >master-key ~* &* +@all\nuser bob on >builder ~shared:* +get\n");
        world.proxy.signal("HUP");
        let rounds: Vec<u64> = bobs.into_iter().map(|bob| bob.join().unwrap()).collect();
        assert!(rounds.iter().all(|&rounds| rounds >= 50), "{rounds:?}");
    });
    alice.expect_eof();
    // A file with a fault changes nothing, and the error has its position.
    file.write("user default on >master-key ~* &* +@all\nuser bob on >builder ~* +nosuch\n");
    let mut admin = world.connect();
    assert_eq!(admin.ask("AUTH master-key"), r"+OK\r\n");
    let path = file.path().display();
    let reply = admin.ask("ACL LOAD");
    assert!(reply.starts_with(&format!("-ERR {path}:2: Unknown command or category name in ACL")), "{reply}");
    assert!(reply.contains("no change to the previously active ACL rules was performed"), "{reply}");
    world.proxy.signal("HUP");
    poll_until("the line in the log", || {
        let output = world.proxy.output();
        (output.contains(&format!("{path}:2: Unknown command")) && output.contains("user reload failed"))
            .then_some(())
    });
    assert!(world.connect().ask("AUTH bob builder").starts_with("+OK"));
    file.write("user default on >master-key ~* &* +@all\n");
    assert_eq!(admin.ask("ACL LOAD"), r"+OK\r\n");
    assert!(world.connect().ask("AUTH bob builder").starts_with("-WRONGPASS"));
    assert!(!world.proxy.output().contains("master-key") && !world.proxy.output().contains("builder"));
}

#[test]
fn users_are_written_to_their_file_whole_or_not_at_all() {
    let folder = std::env::temp_dir().join(format!("shardis-acl-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("users.acl");
    std::fs::write(&path, "# who may do what\nuser default on >master-key ~* &* +@all\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let flag = format!("--acl-file={}", path.display());
    {
        let world = World::with_flags(1, &["--workers=2", &flag]);
        let mut admin = world.connect();
        assert_eq!(admin.ask("AUTH master-key"), r"+OK\r\n");
        assert_eq!(admin.ask("ACL SETUSER bob on >builder ~shared:* +get (+set ~own:*)"), r"+OK\r\n");
        let listed = admin.command(&[b"ACL", b"LIST"]);
        assert_eq!(admin.ask("ACL SAVE"), r"+OK\r\n");
        let written = std::fs::read_to_string(&path).unwrap();
        let lines = resp::reply::elements(&listed).unwrap().map(|line| resp::reply::as_bulk(line).unwrap());
        let lines: Vec<_> = lines.map(|line| std::str::from_utf8(line).unwrap()).collect();
        assert_eq!(written.lines().collect::<Vec<_>>(), lines);
        assert!(!written.contains("builder") && !written.contains("master-key"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
        assert_eq!(admin.ask("ACL LOAD"), r"+OK\r\n");
        assert_eq!(admin.command(&[b"ACL", b"LIST"]), listed);
        // Without the file that would be replaced, its permissions are unknown.
        std::fs::rename(&path, folder.join("elsewhere")).unwrap();
        assert!(admin.ask("ACL SAVE").starts_with("-ERR There was an error trying to save the ACLs."));
        std::fs::rename(folder.join("elsewhere"), &path).unwrap();
        poll_until("the line in the log", || world.proxy.output().contains("user save failed").then_some(()));
    }
    // Another process finds the saved users.
    let world = World::with_flags(1, &["--workers=1", &flag]);
    assert_eq!(world.connect().ask("AUTH bob builder"), r"+OK\r\n");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn passwords_show_nowhere() {
    let (_, file) = oracle();
    let world = World::with_flags(1, &["--log-level=debug", &file.flag("acl-file")]);
    let mut client = world.connect();
    for line in
        ["AUTH alice not-hers", "AUTH eve evil-eve", "HELLO 2 AUTH bob not-his", "AUTH master-key", "PING"]
    {
        client.ask(line);
    }
    let mut shown = String::new();
    for line in [
        "INFO everything",
        "CLIENT LIST",
        "CLIENT INFO",
        "ACL LOG",
        "CONFIG GET *",
        "SLOWLOG GET",
        "ACL LIST",
        "ACL GETUSER bob",
    ] {
        shown += &client.ask(line);
    }
    assert!(shown.contains("user=default"), "{shown}");
    shown += &world.proxy.output();
    for password in ["in-wonderland", "builder", "master-key", "not-hers", "not-his", "evil-eve"] {
        assert!(!shown.contains(password), "{password} in {shown}");
    }
}

#[test]
fn nodes_with_a_password_get_it() {
    let nodes = [RedisServer::start(), RedisServer::start()];
    let mut admins: Vec<Client> = nodes.iter().map(RedisServer::connect).collect();
    for admin in &mut admins {
        assert_eq!(admin.ask("ACL SETUSER proxy on >proxy-pass ~* &* +@all"), r"+OK\r\n");
        assert_eq!(admin.ask("CONFIG SET requirepass node-pass"), r"+OK\r\n");
    }
    let (node_pass, proxy_pass, wrong) =
        (File::new("node-pass\r\n"), File::new("proxy-pass"), File::new("wrong-pass"));
    let as_default = [node_pass.flag("node-auth-file")];
    let as_proxy = [proxy_pass.flag("node-auth-file"), "--node-user=proxy".to_owned()];
    for flags in [&as_default[..], &as_proxy] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let proxy = Proxy::over(&nodes, &flags);
        let mut client = Client::connect(proxy.port);
        assert_eq!(client.ask("MSET a 1 b 2 c 3 d 4"), r"+OK\r\n", "{flags:?}");
        // Other databases have connections of their own.
        assert_eq!(client.ask("SELECT 3"), r"+OK\r\n");
        assert_eq!(client.ask("MGET a b c d"), r"*4\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n", "{flags:?}");
    }
    for (flags, reason) in [
        (vec![wrong.flag("node-auth-file")], "WRONGPASS invalid username-password pair or user is disabled."),
        (vec![], "NOAUTH Authentication required."),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["--workers=1"]).collect();
        let proxy = Proxy::over(&nodes, &flags);
        let mut client = Client::connect(proxy.port);
        let reply = poll_until("the refusal", || {
            let reply = client.ask("GET a");
            reply.starts_with("-TRYAGAIN").then_some(reply)
        });
        assert!(reply.contains(reason), "{reply}");
        let output = poll_until("two lines in the log", || {
            let output = proxy.output();
            (output.matches("node down").count() == 2).then_some(output)
        });
        assert!(output.contains(reason) && !output.contains("wrong-pass"), "{output}");
    }
}

#[test]
fn another_password_for_nodes_is_used_after_a_hang_up() {
    let nodes = [RedisServer::start()];
    let mut admin = nodes[0].connect();
    assert_eq!(admin.ask("CONFIG SET requirepass first-pass"), r"+OK\r\n");
    let file = File::new("first-pass\n");
    let by_file = file.flag("node-auth-file");
    let by_value = format!("--node-auth=file:{}", file.path().display());
    for (flag, old, new) in [(by_file, "first-pass", "second-pass"), (by_value, "second-pass", "third-pass")]
    {
        let proxy = Proxy::over(&nodes, &[&flag, "--workers=2"]);
        let mut client = Client::connect(proxy.port);
        let mut other = Client::connect(proxy.port);
        assert_eq!(client.ask("SET a 1"), r"+OK\r\n");
        // Other databases have connections of their own, and so has a client that watches keys.
        assert_eq!(other.ask("SELECT 3"), r"+OK\r\n");
        assert_eq!(other.ask("SET a 3"), r"+OK\r\n");
        let drop_all = |admin: &mut Client| assert!(admin.ask("CLIENT KILL TYPE normal").starts_with(':'));
        assert_eq!(admin.ask(&format!("CONFIG SET requirepass {new}")), r"+OK\r\n");
        assert_eq!(client.ask("GET a"), r"$1\r\n1\r\n", "connections that are there stay");
        drop_all(&mut admin);
        poll_until("the old password is refused", || client.ask("GET a").contains("WRONGPASS").then_some(()));
        file.write("\n");
        proxy.signal("HUP");
        poll_until("a line", || proxy.output().contains("secret reload failed").then_some(()));
        file.write(&format!("{new}\n"));
        proxy.signal("HUP");
        poll_until("a line", || proxy.output().contains("secrets reloaded").then_some(()));
        poll_until("the new password", || (client.ask("GET a") == r"$1\r\n1\r\n").then_some(()));
        poll_until("the same elsewhere", || (other.ask("GET a") == r"$1\r\n3\r\n").then_some(()));
        let output = proxy.output();
        assert!(!output.contains(old) && !output.contains(new), "{output}");
    }
}

#[test]
fn files_that_make_no_sense_are_refused_with_file_and_line() {
    let cases = [
        (
            "acl-file",
            "user alice on\nuser bob on +nosuch\n",
            ":2: Unknown command or category name in ACL ('+nosuch')",
        ),
        ("acl-file", "user bob on >secret <other", ":1: The password you are trying to remove"),
        ("requirepass-file", "", "there is no password"),
        ("node-auth-file", "\nsecret", "there is no password"),
    ];
    for (option, text, named) in cases {
        let file = File::new(text);
        let finished = run(shardis(&["--nodes=127.0.0.1:1", "--port=0", &file.flag(option)]));
        assert_eq!(finished.code, Some(1), "{option}: {finished:?}");
        let path = file.path().display().to_string();
        assert!(finished.stderr.contains(&path) && finished.stderr.contains(named), "{option}: {finished:?}");
        assert!(!finished.stderr.contains("secret"), "{finished:?}");
    }
    let finished = run(shardis(&["--acl-file=/nowhere/users.acl"]));
    assert!(finished.stderr.contains("--acl-file /nowhere/users.acl: No such file"), "{finished:?}");
}
