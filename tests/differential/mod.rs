//! The same random requests to one Redis and to shardis over four nodes; the replies must be the same.

mod agree;
mod cross_slot;
mod draw;
mod table;
mod template;
mod transactions;

use crate::harness::client::{Client, request};
use crate::harness::server::{self, server};
use crate::harness::{RedisServer, World, number_from_env, seed_for, show};
use crate::racks::Racks;
use crate::routes::Routes;
use agree::disagreement;
use command::Server;
use draw::{Draw, Drawn, SCRIPTS};
use std::any::Any;
use std::collections::BTreeSet;
use std::io::Write;
use std::rc::Rc;
use table::{ACROSS, EXCUSED, KEYLESS, SAME_TAG, SINGLE_KEY, SPLIT};
use template::Template;

/// Replies that older nodes word differently: errors, of which many are shardis's own.
const THE_WORDS: &str = "the words of Redis 7.0";
/// Requests compared in a normal run, some ten seconds of work; `SHARDIS_DIFF_REQUESTS` asks for more.
const REQUESTS_DEFAULT: u64 = 250_000;
/// The same with commands over several shards, of which each takes several round trips.
const REQUESTS_ACROSS_DEFAULT: u64 = 20_000;
/// The same in a run over databases and protocols.
const REQUESTS_OF_SESSIONS: u64 = 100_000;
/// Databases in that run.
const DATABASES: u64 = 3;
/// Distinct commands that a normal run must reach at least.
const COMMANDS_MIN: usize = 150;
/// Requests of one pipeline.
const BATCH_MAX: u64 = 64;

/// Requests over racks; each effect that is copied takes two round trips more.
const REQUESTS_OVER_RACKS: u64 = 20_000;
/// Commands that racks refuse, or that tell how one node keeps a value.
const NOT_OVER_RACKS: &[&[u8]] = &[
    b"blpop",
    b"brpop",
    b"blmove",
    b"blmpop",
    b"brpoplpush",
    b"bzpopmin",
    b"bzpopmax",
    b"bzmpop",
    b"move",
    b"watch",
    b"unwatch",
    b"eval",
    b"evalsha",
    // A node that refused an EVAL_RO for its numkeys lacks the script, and the proxy does not know it.
    b"evalsha_ro",
    b"fcall",
];

/// Beginnings of commands that a namespace does not have.
const NOT_IN_NAMESPACES: &[&[u8]] =
    &[b"dbsize", b"randomkey", b"flush", b"eval", b"fcall", b"script", b"function"];
/// Beginnings of commands whose replies may have the nodes' names of keys over routes.
const NOT_OVER_ROUTES: &[&[u8]] = &[b"eval", b"fcall", b"script", b"function"];
const UNKNOWN_KEYS: &[u8] = b": the keys of this request cannot be found\r\n";

#[test]
fn random_requests_get_the_replies_of_a_single_redis() {
    if server::is_too_old_for(THE_WORDS) {
        return;
    }
    let requests = number_from_env("SHARDIS_DIFF_REQUESTS", REQUESTS_DEFAULT);
    let mut comparison = Comparison::start(seed_for("random_requests_get_the_replies_of_a_single_redis"));
    while comparison.compared < requests {
        comparison.compare_batch();
    }
    comparison.compare_all_keys();
    let commands = comparison.commands.len();
    println!("{commands} commands compared over {} requests, seed {}", comparison.compared, comparison.seed);
    assert!(requests < REQUESTS_DEFAULT || commands >= COMMANDS_MIN, "only {commands} commands were drawn");
}

#[test]
fn commands_over_shards_answer_as_a_single_redis() {
    if server::is_too_old_for("values as Redis 7.0 dumps them") {
        return;
    }
    let requests = number_from_env("SHARDIS_DIFF_REQUESTS", REQUESTS_ACROSS_DEFAULT);
    let seed = seed_for("commands_over_shards_answer_as_a_single_redis");
    let mut comparison = Comparison { changes_sessions: true, ..Comparison::start_across(seed) };
    let emulated = ACROSS.iter().flat_map(|line| Template::parse(line.words).commands().collect::<Vec<_>>());
    let mut missing: BTreeSet<String> = emulated.filter(|name| name != "set").collect();
    // With some seeds a rare command needs more requests until it succeeds.
    while comparison.compared < requests || (!missing.is_empty() && comparison.compared < 4 * requests) {
        comparison.compare_batch();
        missing.retain(|name| !comparison.commands.contains(name));
    }
    comparison.compare_all_databases();
    println!("{} requests compared, seed {}", comparison.compared, comparison.seed);
    assert!(requests < REQUESTS_ACROSS_DEFAULT || missing.is_empty(), "never succeeded: {missing:?}");
}

/// Compares this number of requests, and then all databases.
fn compare_sessions(comparison: &mut Comparison, requests: u64) {
    while comparison.compared < requests {
        comparison.compare_batch();
    }
    comparison.compare_all_databases();
    let commands = comparison.commands.len();
    assert!(
        requests < REQUESTS_OF_SESSIONS || commands >= COMMANDS_MIN,
        "only {commands} commands were drawn"
    );
}

#[test]
fn random_sessions_answer_as_a_single_redis() {
    if server::is_too_old_for(THE_WORDS) {
        return;
    }
    let name = "random_sessions_answer_as_a_single_redis";
    let requests = number_from_env("SHARDIS_DIFF_REQUESTS", REQUESTS_OF_SESSIONS);
    let mut comparison = Comparison { changes_sessions: true, ..Comparison::start(seed_for(name)) };
    compare_sessions(&mut comparison, requests);
}

#[test]
fn a_namespace_answers_as_a_single_redis_and_stays_alone() {
    if server::is_too_old_for(THE_WORDS) {
        return;
    }
    let name = "a_namespace_answers_as_a_single_redis_and_stays_alone";
    let requests = number_from_env("SHARDIS_DIFF_REQUESTS", REQUESTS_OF_SESSIONS);
    let world = World::with_flags(4, &["--user-namespace=default:tenant/"]);
    let mut nodes: Vec<Client> = world.nodes.iter().map(RedisServer::connect).collect();
    nodes.iter_mut().for_each(|node| assert_eq!(node.ask("SET foreign untouched"), "+OK\\r\\n"));
    let comparison = Comparison::of(seed_for(name), world, true, Draw::new);
    let mut comparison = Comparison { changes_sessions: true, lacks: NOT_IN_NAMESPACES, ..comparison };
    compare_sessions(&mut comparison, requests);
    for node in &mut nodes {
        for database in 0..DATABASES {
            node.ask(&format!("SELECT {database}"));
            let keys = node.command(&[b"KEYS", b"*"]);
            for key in resp::reply::elements(&keys).expect("KEYS answers an array") {
                let key = resp::reply::as_bulk(key).expect("keys are bulks");
                assert!(key.starts_with(b"tenant/") || key == b"foreign", "{} was written", show(key));
            }
        }
        node.ask("SELECT 0");
        assert_eq!(node.ask("GET foreign"), "$9\\r\\nuntouched\\r\\n");
    }
}

/// The kinds of keys by their prefixes: kept, cut, rewritten, and all others.
const ROUTES: &str =
    "\"str:=cache cut\", \"hash:=orders\", \"list:=cache to=li\", \"zset:=orders cut\", \"*=main to=m/\"";

#[test]
fn routes_answer_as_a_single_redis() {
    if server::is_too_old_for("values as Redis 7.0 dumps them") {
        return;
    }
    let name = "routes_answer_as_a_single_redis";
    let requests = number_from_env("SHARDIS_DIFF_REQUESTS", REQUESTS_ACROSS_DEFAULT);
    let every = "cross-shard = \"emulate\"\ncross-shard-bytes-max = \"64mb\"\n";
    let routes = Routes::start(ROUTES, every);
    let comparison = Comparison::over(seed_for(name), routes.connect(), routes, false, Draw::across);
    let mut comparison = Comparison { changes_sessions: true, lacks: NOT_OVER_ROUTES, ..comparison };
    compare_sessions(&mut comparison, requests);
}

#[test]
fn racks_answer_as_a_single_redis() {
    if server::is_too_old_for(THE_WORDS) {
        return;
    }
    let seed = seed_for("racks_answer_as_a_single_redis");
    let requests = number_from_env("SHARDIS_DIFF_REQUESTS", REQUESTS_OVER_RACKS);
    let racks = Racks::start(2, 2, &["--write-consistency=DC_SAFE_QUORUM"]);
    let subject = Client::connect(racks.proxy.port);
    let racks = Rc::new(racks);
    let comparison = Comparison::over(seed, subject, Rc::clone(&racks), true, Draw::new);
    let mut comparison = Comparison { is_over_racks: true, ..comparison };
    while comparison.compared < requests {
        comparison.compare_batch();
    }
    let said = racks.proxy.output();
    assert!(!said.contains("rack down") && !said.contains("rack stale"), "{said}");
    comparison.compare_all_keys();
    racks.assert_equal();
    let commands = comparison.commands.len();
    assert!(
        requests < REQUESTS_OVER_RACKS || commands >= COMMANDS_MIN - 30,
        "only {commands} commands were drawn"
    );
}

#[test]
fn every_data_command_of_redis_is_compared_or_excused() {
    if server::is_too_old_for("what nodes tell of their commands") {
        return;
    }
    let node = RedisServer::start();
    let lines = [SINGLE_KEY, ACROSS, SAME_TAG, SPLIT, KEYLESS].into_iter().flatten();
    let mut known: BTreeSet<String> =
        lines.flat_map(|line| Template::parse(line.words).commands().collect::<Vec<_>>()).collect();
    known.extend(EXCUSED.iter().map(|(name, _)| (*name).to_owned()));
    let missing: Vec<String> =
        data_commands(&mut node.connect()).into_iter().filter(|name| !known.contains(name)).collect();
    assert!(missing.is_empty(), "neither in the table nor excused: {missing:?}");
}

/// The names of all commands with keys, as a node lists them.
fn data_commands(node: &mut Client) -> Vec<String> {
    let reply = node.command(&[b"COMMAND"]);
    let commands = resp::reply::elements(&reply).expect("COMMAND answers an array");
    let described =
        commands.map(|command| resp::reply::elements(command).expect("an array each").collect::<Vec<_>>());
    described
        .filter(|parts| {
            let first_key = resp::reply::as_integer(parts[3]).expect("the first key's place");
            let movable = parts[2].windows(11).any(|window| window == b"movablekeys");
            let in_subcommands = parts[9].windows(12).any(|window| window == b"+movablekeys");
            let key_of_subcommands =
                matches!(as_text(parts[0]).as_str(), "object" | "xgroup" | "xinfo" | "memory");
            first_key != 0 || movable || in_subcommands || key_of_subcommands
        })
        .map(|parts| as_text(parts[0]).to_ascii_lowercase())
        .collect()
}

fn as_text(bulk: &[u8]) -> String {
    String::from_utf8_lossy(resp::reply::as_bulk(bulk).expect("a bulk")).into_owned()
}

/// One run: both sides, the drawer, and the observations.
struct Comparison {
    seed: u64,
    draw: Draw,
    oracle: Client,
    subject: Client,
    compared: u64,
    commands: BTreeSet<String>,
    /// Whether a zero has a sign: sorted sets that the proxy has copied have only one zero.
    has_two_zeros: bool,
    /// The client changes its database or its protocol now and then.
    changes_sessions: bool,
    /// Beginnings of the commands that the client lacks, since its keys have other names on the nodes.
    lacks: &'static [&'static [u8]],
    /// The proxy is one over racks, which refuse some commands.
    is_over_racks: bool,
    _oracle_node: RedisServer,
    _world: Box<dyn Any>,
}

impl Comparison {
    fn start(seed: u64) -> Comparison {
        Comparison::of(seed, World::with_shards(4), true, Draw::new)
    }

    /// With a proxy that emulates commands that it cannot split.
    fn start_across(seed: u64) -> Comparison {
        let flags = ["--cross-shard=emulate", "--cross-shard-bytes-max=64mb"];
        Comparison::of(seed, World::with_flags(4, &flags), false, Draw::across)
    }

    fn of(
        seed: u64,
        world: World,
        has_two_zeros: bool,
        draw: impl Fn(u64, Vec<Vec<u8>>, Vec<Vec<u8>>) -> Draw,
    ) -> Comparison {
        Comparison::over(seed, world.connect(), world, has_two_zeros, draw)
    }

    /// Compares the replies to `subject`, a client of `world`.
    fn over(
        seed: u64,
        subject: Client,
        world: impl Any,
        has_two_zeros: bool,
        draw: impl Fn(u64, Vec<Vec<u8>>, Vec<Vec<u8>>) -> Draw,
    ) -> Comparison {
        let oracle_node = RedisServer::start();
        let mut oracle = oracle_node.connect();
        let (payloads, shas) = (payloads(&mut oracle), shas(&mut oracle));
        Comparison {
            seed,
            draw: draw(seed, payloads, shas),
            subject,
            oracle,
            compared: 0,
            commands: BTreeSet::new(),
            has_two_zeros,
            changes_sessions: false,
            lacks: &[],
            is_over_racks: false,
            _oracle_node: oracle_node,
            _world: Box::new(world),
        }
    }

    /// Sends one pipeline to both and compares reply by reply.
    fn compare_batch(&mut self) {
        let len = 1 + self.draw.prng.below(BATCH_MAX);
        let mut batch: Vec<Drawn> = Vec::new();
        while (batch.len() as u64) < len {
            batch.extend(self.draw.next_requests().into_iter().filter(|drawn| self.is_comparable(drawn)));
            if self.changes_sessions && self.draw.prng.one_in(20) {
                batch.push(self.session_change());
            }
        }
        let bytes: Vec<u8> = batch.iter().flat_map(|drawn| self.encode(&drawn.args)).collect();
        let cuts = self.cuts(bytes.len());
        let expected = exchange(&mut self.oracle, &[&bytes], batch.len());
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        let got = exchange(&mut self.subject, &pieces, batch.len());
        for (index, drawn) in batch.iter().enumerate() {
            if let Some(why) = self.disagreement(drawn.compare, &expected[index], &got[index]) {
                self.report(drawn, index, &why, &expected[index], &got[index]);
            }
            let is_error = expected[index].starts_with(b"-");
            if !is_error {
                self.commands.insert(String::from_utf8_lossy(&drawn.args[0]).to_ascii_lowercase());
            }
        }
        self.compared += batch.len() as u64;
    }

    /// An emulated command accepts blanks in front of a number where Redis 7.0 does; Redis 8.0 accepts none.
    fn is_comparable(&self, drawn: &Drawn) -> bool {
        let name = drawn.args[0].to_ascii_lowercase();
        if self.lacks.iter().any(|begin| name.starts_with(begin)) {
            return false;
        }
        let has_word = |word: &[u8]| drawn.args.iter().any(|arg| arg.eq_ignore_ascii_case(word));
        if self.is_over_racks && (NOT_OVER_RACKS.contains(&&*name) || has_word(b"block") || has_word(b"db")) {
            return false;
        }
        let takes_no_blanks = !self.has_two_zeros && matches!(server(), Server::Redis(8.., _));
        !takes_no_blanks || drawn.args.iter().all(|arg| !arg.starts_with(b" "))
    }

    fn disagreement(&self, compare: table::Compare, expected: &[u8], got: &[u8]) -> Option<String> {
        // Where the keys cannot be found, Redis has an error of its own.
        if !self.lacks.is_empty() && expected.starts_with(b"-") && got.ends_with(UNKNOWN_KEYS) {
            return None;
        }
        // The same for scripts that name no key, which racks refuse.
        if self.is_over_racks && expected.starts_with(b"-") && got.starts_with(b"-") {
            return None;
        }
        if self.has_two_zeros || expected == got {
            return disagreement(compare, expected, got);
        }
        let (expected, got) = (with_one_zero(expected), with_one_zero(got));
        // Later versions take the digits of a double from an algorithm that finds one too many now and then.
        if server() == Server::Redis(7, 0) {
            return disagreement(compare, &expected, &got);
        }
        disagreement(compare, &with_short_numbers(&expected), &with_short_numbers(&got))
    }

    /// A request behind which the next ones are of another database or protocol.
    fn session_change(&mut self) -> Drawn {
        let prng = &mut self.draw.prng;
        let (words, compare) = match prng.below(6) {
            0 => (vec!["RESET".to_owned()], table::Compare::Exact),
            1 | 2 => (vec!["SELECT".to_owned(), prng.below(DATABASES).to_string()], table::Compare::Exact),
            3 => (vec!["SELECT".to_owned(), "16".to_owned()], table::Compare::Exact),
            _ => (vec!["HELLO".to_owned(), (2 + prng.below(2)).to_string()], table::Compare::Shape),
        };
        Drawn { args: words.into_iter().map(String::into_bytes).collect(), compare }
    }

    fn report(&self, drawn: &Drawn, index: usize, why: &str, expected: &[u8], got: &[u8]) -> ! {
        let args: Vec<String> = drawn.args.iter().map(|arg| format!("\"{}\"", show(arg))).collect();
        let differs_at = expected.iter().zip(got).take_while(|(one, other)| one == other).count();
        let near =
            |reply: &[u8]| show(&reply[differs_at.saturating_sub(40)..reply.len().min(differs_at + 40)]);
        panic!(
            "seed {}, request {}: {why}\n  sent:    {}\n  redis:   {}\n  shardis: {}\n  \
             where they part, at byte {differs_at}:\n  redis:   {}\n  shardis: {}",
            self.seed,
            self.compared + index as u64,
            args.join(" "),
            show(expected),
            show(got),
            near(expected),
            near(got)
        );
    }

    /// The bytes of a request: RESP, now and then an inline line, now and then an empty one before it.
    fn encode(&mut self, args: &[Vec<u8>]) -> Vec<u8> {
        const INLINE_BYTES_MAX: usize = 8 * 1024;
        let prng = &mut self.draw.prng;
        let mut bytes = Vec::new();
        if prng.one_in(60) {
            let nothing: &[&[u8]] = &[b"*0\r\n", b"*-1\r\n", b"\r\n", b"\n", b"  \r\n"];
            // After a line of blanks, Valkey takes the rest for lines, even if it is RESP.
            let takes_blanks = !matches!(server(), Server::Valkey(..));
            bytes.extend_from_slice(prng.pick::<&[u8]>(if takes_blanks { nothing } else { &nothing[..4] }));
        }
        // A line whose name is empty would be one word less, and `"get\0"` in quotes is the same as without.
        let fits = args.iter().map(Vec::len).sum::<usize>() < INLINE_BYTES_MAX;
        if fits && prng.one_in(20) {
            for arg in args {
                bytes.extend_from_slice(b"\"");
                bytes.extend(arg.iter().flat_map(|&byte| format!("\\x{byte:02x}").into_bytes()));
                bytes.extend_from_slice(b"\" ");
            }
            bytes.extend_from_slice(if prng.one_in(2) { b"\r\n" } else { b"\n" });
        } else {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            bytes.extend(request(&args));
        }
        bytes
    }

    /// Positions at which the bytes of a pipeline are cut into writes: both ends and a few places between.
    fn cuts(&mut self, len: usize) -> Vec<usize> {
        let mut cuts: Vec<usize> =
            (0..self.draw.prng.below(6)).map(|_| self.draw.prng.below(len as u64) as usize).collect();
        cuts.extend([0, len]);
        cuts.sort_unstable();
        cuts
    }

    /// Reads every key of all databases.
    fn compare_all_databases(&mut self) {
        for database in 0..DATABASES {
            let select = format!("SELECT {database}");
            assert_eq!(self.oracle.ask(&select), self.subject.ask(&select));
            self.compare_all_keys();
        }
    }

    /// Reads every key of both sides in full.
    fn compare_all_keys(&mut self) {
        let keys = self.oracle.command(&[b"KEYS", b"*"]);
        for key in resp::reply::elements(&keys).expect("KEYS answers an array") {
            let key = resp::reply::as_bulk(key).expect("keys are bulks");
            let kind = self.oracle.command(&[b"TYPE", key]);
            let (args, compare): (Vec<&[u8]>, _) = match &kind[..] {
                b"+string\r\n" => (vec![b"GET", key], table::Compare::Exact),
                b"+hash\r\n" => (vec![b"HGETALL", key], table::Compare::UnorderedPairs),
                b"+list\r\n" => (vec![b"LRANGE", key, b"0", b"-1"], table::Compare::Exact),
                b"+set\r\n" => (vec![b"SMEMBERS", key], table::Compare::Unordered),
                b"+zset\r\n" => (vec![b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"], table::Compare::Exact),
                b"+stream\r\n" => (vec![b"XRANGE", key, b"-", b"+"], table::Compare::Exact),
                other => panic!("a key of type {}", show(other)),
            };
            let (expected, got) = (self.oracle.command(&args), self.subject.command(&args));
            let drawn = Drawn { args: args.iter().map(|arg| arg.to_vec()).collect(), compare };
            if let Some(why) = self.disagreement(compare, &expected, &got) {
                self.report(&drawn, 0, &why, &expected, &got);
            }
        }
    }
}

/// `reply` with 0 for each -0, in both protocols.
fn with_one_zero(reply: &[u8]) -> Vec<u8> {
    let once = replaced(reply, b"$2\r\n-0\r\n", b"$1\r\n0\r\n");
    replaced(&once, b",-0\r\n", b",0\r\n")
}

/// `reply` with the shortest form of each number that has a point, an exponent or many digits, in both protocols.
fn with_short_numbers(reply: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    let mut header = None;
    for line in reply.split_inclusive(|&byte| byte == b'\n') {
        let word =
            std::str::from_utf8(line).ok().and_then(|line| line.strip_suffix("\r\n")).unwrap_or_default();
        let is_long = |text: &str| text.contains(['.', 'e']) || text.len() > EXACT_DIGITS;
        let number = |text: &str| text.parse::<f64>().ok().filter(|_| is_long(text));
        match (number(word), word.strip_prefix(',').and_then(number), header) {
            (Some(number), _, Some(at)) => {
                let text = number.to_string();
                out.truncate(at);
                out.extend_from_slice(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
            }
            (_, Some(number), _) => out.extend_from_slice(format!(",{number}\r\n").as_bytes()),
            _ => out.extend_from_slice(line),
        }
        header = word.starts_with('$').then(|| out.len() - line.len());
    }
    out
}

/// Digits that every double keeps.
const EXACT_DIGITS: usize = 15;

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), bytes);
    while let Some(at) = rest.windows(old.len()).position(|window| window == old) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(new);
        rest = &rest[at + old.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// Writes `pieces` while reading `replies` replies, so that neither side's buffers can make both wait.
fn exchange(client: &mut Client, pieces: &[&[u8]], replies: usize) -> Vec<Vec<u8>> {
    let mut stream = client.stream().try_clone().expect("a socket can be cloned");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for piece in pieces {
                stream.write_all(piece).expect("the other side takes what we send");
            }
        });
        (0..replies).map(|_| client.read_reply()).collect()
    })
}

/// The DUMP payloads of one key of each type.
fn payloads(node: &mut Client) -> Vec<Vec<u8>> {
    let fills = ["SET k 12", "RPUSH k a b 3", "SADD k 1 2", "ZADD k 1 a 2 b", "HSET k a 1", "XADD k 1-1 a b"];
    let dumped = fills.map(|fill| {
        node.ask(fill);
        let dump = node.command(&[b"DUMP", b"k"]);
        node.ask("DEL k");
        resp::reply::as_bulk(&dump).expect("the key exists").to_vec()
    });
    dumped.to_vec()
}

/// The name of each script. The one that does not compile has none; EVALSHA is not tried with it.
fn shas(node: &mut Client) -> Vec<Vec<u8>> {
    let load = |(script, _): &(&str, &str)| {
        let reply = node.command(&[b"SCRIPT", b"LOAD", script.as_bytes()]);
        resp::reply::as_bulk(&reply).unwrap_or_default().to_vec()
    };
    let shas = SCRIPTS.iter().map(load).collect();
    // Known to the oracle only, they would cause a difference that is not the proxy's.
    node.ask("SCRIPT FLUSH");
    shas
}
