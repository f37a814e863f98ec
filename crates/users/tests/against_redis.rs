//! The engine against a real Redis 7.0. Random rules are applied on both sides. ACL GETUSER and ACL LIST must then describe the
//! user alike, and ACL DRYRUN must agree on random requests. Without redis-server the test says so and passes, unless CI=true.

// These tests are the ones that talk to a node; the crate itself knows no sockets.
#![allow(clippy::disallowed_types)]

#[path = "../../command/tests/against_redis/node.rs"]
mod node;
#[path = "../../command/tests/against_redis/value.rs"]
#[allow(dead_code, reason = "the tests of the table use more of it")]
mod value;

use command::{Command, Flags, Resolved, Server};
use node::Node;
use stdx::prng::Prng;
use users::{Denied, Description, Registry, User};
use value::{Value, with_request};

/// Users that one run makes, each by several rules.
const USERS: usize = 500;
/// Requests that are asked about for each.
const REQUESTS: usize = 25;

/// Glob patterns and texts that they may match.
const GLOBS: &str = "a a* *b k? [a-c]* [^a]* \\* * ab abc {t}d b** [z k";
/// Arguments of requests.
const WORDS: &str = "a ab abc b k kb z {t}d c1 * [z 0 1 2 3 -1 STORE STREAMS BY GET KEYS LEFT COUNT m set u8";

/// The seed is the same in every run unless the environment names another.
fn seeded_prng() -> Prng {
    let seed =
        std::env::var("SHARDIS_SEED").map_or(0xac1, |seed| seed.parse().expect("SHARDIS_SEED is a number"));
    // Shown if the test fails.
    println!("again with: SHARDIS_SEED={seed} cargo test -p users --test against_redis");
    Prng::new(seed)
}

fn lines() -> Vec<&'static Command> {
    let lines = command::numbered().map(|(_, command)| command);
    lines.filter(|command| command.since.is_in(Server::Redis(7, 0))).collect()
}

/// Rules of users.
struct Source {
    prng: Prng,
    lines: Vec<&'static Command>,
}

impl Source {
    fn word(&mut self, words: &'static str) -> &'static str {
        let words: Vec<&str> = words.split(' ').collect();
        self.prng.pick::<&str>(&words)
    }

    fn name(&mut self) -> String {
        let name = self.prng.pick(&self.lines).name.to_string();
        if self.prng.one_in(4) { name.to_uppercase() } else { name }
    }

    fn category(&mut self) -> String {
        match self.prng.one_in(20) {
            true => "nosuch".to_owned(),
            false => (*self.prng.pick(command::Acl::WORDS)).to_owned(),
        }
    }

    /// A rule about commands, keys or channels.
    fn right(&mut self) -> String {
        let sign = self.word("+ + + -");
        match self.prng.below(20) {
            0..5 => format!("{sign}{}", self.name()),
            5..10 => format!("{sign}@{}", self.category()),
            10 => format!("{sign}{}|{}", self.name(), self.word("get 0 x list GET set")),
            11 => self.word("allcommands nocommands +@all -@all +@ALL").to_owned(),
            12..15 => format!("~{}", self.word(GLOBS)),
            15 => format!("%{}~{}", self.word("R W RW WR r w RR X RWR"), self.word(GLOBS)),
            16 => format!("%{}", self.word("R~a W RW ~ R W~k? ~a")),
            17 => format!("&{}", self.word(GLOBS)),
            18 => self.word("allkeys resetkeys resetkeys allchannels resetchannels resetchannels").to_owned(),
            _ => self.noise(),
        }
    }

    /// Invalid rules, and odd ones.
    fn noise(&mut self) -> String {
        let letters: Vec<char> = "+-@~%&()|RW*?[]ag on".chars().collect();
        let len = self.prng.below(5);
        (0..len).map(|_| *self.prng.pick(&letters)).collect()
    }

    fn rule(&mut self) -> String {
        match self.prng.below(30) {
            0 => self.word("on off nopass resetpass reset clearselectors ON NoPass").to_owned(),
            1 => self.word("sanitize-payload skip-sanitize-payload").to_owned(),
            2 | 3 => format!("{}{}", self.word("> > > <"), self.word("one two")),
            4 => {
                let digit = self.word("0 a f A g");
                format!("{}{}", self.word("# !"), digit.repeat(if self.prng.one_in(5) { 63 } else { 64 }))
            }
            5 | 6 => {
                let count = self.prng.below(5);
                let rights: Vec<String> = (0..count).map(|_| self.right()).collect();
                format!("({})", rights.join(" "))
            }
            _ => self.right(),
        }
    }

    /// A request with a number of arguments that fits.
    fn request(&mut self) -> (&'static Command, Vec<String>) {
        let command = loop {
            let command = *self.prng.pick(&self.lines);
            if command.subcommands.is_empty() || command.name == "command" {
                break command;
            }
        };
        let mut args: Vec<String> = command.name.split('|').map(str::to_owned).collect();
        // `COMMAND x` is a subcommand; the option of ZRANK is of 7.2.
        let takes_more = command.arity < 0
            && command.subcommands.is_empty()
            && !["zrank", "zrevrank"].contains(&&*command.name);
        let more = if takes_more { self.prng.below(5) as usize } else { 0 };
        while args.len() < command.arity.unsigned_abs() as usize + more {
            args.push(self.word(WORDS).to_owned());
        }
        (command, args)
    }
}

#[test]
fn random_rules_make_the_users_that_they_make_in_redis() {
    let Some(mut node) = Node::start_7_0() else { return };
    let mut source = Source { prng: seeded_prng(), lines: lines() };
    let registry = Registry::default();
    let (mut accepted, mut refused, mut passed, mut denied) = (0, 0, 0, 0);
    for _ in 0..USERS {
        let mut history = vec!["reset".to_owned()];
        node.ask("ACL SETUSER u reset");
        registry.set_user(b"u", &[b"reset"], usize::MAX).expect("a rule");
        for _ in 0..source.prng.below(14) {
            let rule = source.rule();
            history.push(rule.clone());
            let theirs = Value::of(&node.ask_raw(&[b"ACL", b"SETUSER", b"u", rule.as_bytes()]));
            match (registry.set_user(b"u", &[rule.as_bytes()], usize::MAX), theirs) {
                (Ok(_), Value::Text(_)) => accepted += 1,
                (Err(ours), Value::Error(theirs)) => {
                    assert_eq!(without_secret(&ours), without_secret(&theirs), "{history:?}");
                    refused += 1;
                }
                (ours, theirs) => panic!("{history:?}: {ours:?}, Redis: {theirs:?}"),
            }
        }
        let users = registry.users();
        let user = users.get(b"u").expect("made above");
        assert_same_text(user, &mut node, &history);
        for _ in 0..REQUESTS {
            match is_permitted(user, &mut node, &mut source, &history) {
                true => passed += 1,
                false => denied += 1,
            }
        }
    }
    println!("{accepted} rules accepted, {refused} refused; {passed} requests passed, {denied} denied");
    assert!([accepted, refused, passed, denied].iter().all(|&count| count > 200), "a bit of everything");
}

/// The error without the rule, where that holds a password: here it is not shown.
fn without_secret(text: &str) -> String {
    let Some((start, rest)) = text.split_once('\'') else { return text.to_owned() };
    match rest.chars().next() {
        Some('>' | '<' | '#' | '!') => {
            let end = rest.split_once("': ").map_or("", |(_, end)| end);
            format!("{start}'…': {end}")
        }
        _ => text.to_owned(),
    }
}

/// ACL GETUSER and ACL LIST say the same.
#[track_caller]
fn assert_same_text(user: &User, node: &mut Node, history: &[String]) {
    let theirs = node.ask("ACL GETUSER u");
    let fields = theirs.array();
    let texts = |value: &Value| value.array().iter().map(|text| text.text().to_owned()).collect::<Vec<_>>();
    assert_eq!(user.flags(), texts(&fields[1]), "{history:?}");
    assert_eq!(user.password_hashes().collect::<Vec<_>>(), texts(&fields[3]), "{history:?}");
    assert_same_description(&user.root(), &fields[4..10], history);
    let selectors = fields[11].array();
    assert_eq!(user.selectors().len(), selectors.len(), "{history:?}");
    for (ours, theirs) in user.selectors().zip(selectors) {
        assert_same_description(&ours, theirs.array(), history);
    }
    let list = node.ask("ACL LIST");
    let theirs = list.array().iter().find(|line| line.text().starts_with("user u ")).expect("made above");
    assert_eq!(words(&user.describe()), words(theirs.text().as_bytes()), "{history:?}");
}

#[track_caller]
fn assert_same_description(ours: &Description, theirs: &[Value], history: &[String]) {
    let [_, commands, _, keys, _, channels] = theirs else { panic!("three fields with their names") };
    assert_eq!(words(&ours.commands), words(commands.text().as_bytes()), "{history:?}");
    // Categories are in Redis's order; what follows them is in that of a hash table.
    let categories = |text: &str| {
        let words = text.split(' ').skip(1);
        words.take_while(|word| word.contains('@')).map(str::to_owned).collect::<Vec<_>>()
    };
    let text = String::from_utf8_lossy(&ours.commands).into_owned();
    assert_eq!(categories(&text), categories(commands.text()), "{history:?}");
    assert_eq!(String::from_utf8_lossy(&ours.keys), keys.text(), "{history:?}");
    assert_eq!(String::from_utf8_lossy(&ours.channels), channels.text(), "{history:?}");
}

/// The words of `text` in a fixed order, without what Redis 7.0 does not know.
fn words(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text).replace('(', "( ").replace(')', " )");
    let is_newer = |word: &&str| {
        let command = command::find_full(word.trim_start_matches(['+', '-']).as_bytes());
        command.is_some_and(|command| !command.since.is_in(Server::Redis(7, 0)))
    };
    let mut words: Vec<String> = text.split(' ').filter(|word| !is_newer(word)).map(str::to_owned).collect();
    words.sort();
    words
}

/// Whether both permit a random request; they must agree.
#[track_caller]
fn is_permitted(user: &User, node: &mut Node, source: &mut Source, history: &[String]) -> bool {
    let (_, args) = source.request();
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    let shown = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ");
    let ours = with_request(&args, |request| {
        let (Resolved::Command(command), number) = command::resolve_numbered(request) else {
            panic!("{shown} is a command")
        };
        // Where the specs find an error Redis goes on with code that is less strict; the command will say what is wrong.
        let mut positions = Vec::new();
        let found = command.keys(request, &mut positions);
        if command.flags.contains(Flags::MOVABLEKEYS) && (found.is_err() || positions.is_empty()) {
            return None;
        }
        // A key that Redis overlooks: every user who may run PFMERGE may write any key there.
        if command.name == "pfmerge" && args.len() == 2 {
            return None;
        }
        Some(match user.permits(command, number, request) {
            Ok(()) => "OK".to_owned(),
            Err(Denied::Command) => {
                format!("This user has no permissions to run the '{}' command", command.name)
            }
            Err(Denied::Key(at)) => {
                format!(
                    "This user has no permissions to access the '{}' key",
                    String::from_utf8_lossy(args[at])
                )
            }
            Err(Denied::Channel(at)) => {
                let channel = String::from_utf8_lossy(args[at]);
                format!("This user has no permissions to access the '{channel}' channel")
            }
        })
    });
    let Some(ours) = ours else { return true };
    let asked = [&[&b"ACL"[..], b"DRYRUN", b"u"], &args[..]].concat();
    assert_eq!(Value::Text(ours.clone()), Value::of(&node.ask_raw(&asked)), "{shown} with {history:?}");
    ours == "OK"
}
