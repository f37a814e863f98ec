//! docs/store.md agrees with the store: the test asks the store itself whether it has a command.

use std::fmt::Write as _;
use std::path::Path;

use command::{Carry, Command};
use resp::{Request, Span, encode};
use store::{
    Entry, EvictionPolicy, Interpreter, LibraryFunction, Limit, ScriptRun, Store, StoreSettings, limits,
};

#[test]
fn the_page_about_the_store_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/store.md");
    let page = page();
    if std::env::var_os("SHARDIS_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).expect("docs/ can be written to");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/store.md is stale; write it anew with\n    SHARDIS_BLESS=1 cargo test -p store --test reference"
    );
}

#[test]
fn every_command_of_the_store_is_on_the_page() {
    let page = page();
    for name in store::commands() {
        let command = command::find(name.as_bytes());
        assert!(command.is_some(), "{name} is no command of the table: nobody can send it");
        assert!(page.contains(&name.to_ascii_uppercase()), "{name}");
    }
}

/// Where a command ends up when there are no nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stored,
    Lacking,
    AnsweredByShardis,
    RefusedByShardis,
}

/// The whole page.
fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    for (title, commands) in command::sections() {
        write_section(&mut page, title, commands);
    }
    page.push_str(STANDING);
    let [bounds, costs] = limits();
    page.push_str("\n## Bounds\n\n| of what | how much | what happens there |\n| --- | --- | --- |\n");
    bounds.iter().for_each(|limit| write_limit(&mut page, limit));
    let policies: Vec<String> = EvictionPolicy::names().map(|name| format!("`{name}`")).collect();
    let _ = write!(page, "{MEMORY_BEFORE}{}{MEMORY_BEHIND}", policies.join(", "));
    costs.iter().for_each(|limit| write_limit(&mut page, limit));
    page
}

fn write_section(page: &mut String, title: &str, commands: &'static [Command]) {
    let all: Vec<(&Command, Fate)> = commands
        .iter()
        .flat_map(|command| match command.carry {
            Carry::Container => command.subcommands.iter().collect(),
            _ => vec![command],
        })
        .map(|command| (command, fate(command)))
        .collect();
    let _ = write!(page, "\n## {title}\n\n");
    for (heading, wanted) in [
        ("Has", Fate::Stored),
        ("Has not", Fate::Lacking),
        ("Answered by shardis itself", Fate::AnsweredByShardis),
        ("Refused by shardis, with nodes too", Fate::RefusedByShardis),
    ] {
        let names: Vec<String> =
            all.iter().filter(|(_, fate)| *fate == wanted).map(|(command, _)| shown(command)).collect();
        if !names.is_empty() {
            let _ = writeln!(page, "- {heading}: {}", names.join(", "));
        }
    }
}

fn shown(command: &Command) -> String {
    command.name.to_ascii_uppercase().replace('|', " ")
}

fn fate(command: &Command) -> Fate {
    match command.carry {
        Carry::Here(_) => Fate::AnsweredByShardis,
        Carry::Refused(_) => Fate::RefusedByShardis,
        _ if has(command) => Fate::Stored,
        _ => Fate::Lacking,
    }
}

/// Whether the store knows what to do with it: it is asked, with arguments that make no sense.
fn has(command: &Command) -> bool {
    let mut words: Vec<&str> = command.name.split('|').collect();
    words.resize(words.len().max(command.arity.unsigned_abs() as usize), "1");
    let (mut bytes, mut spans, mut reply) = (Vec::new(), Vec::new(), Vec::new());
    encode::array_header(&mut bytes, words.len());
    for word in words {
        encode::bulk(&mut bytes, word.as_bytes());
        spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
    }
    let mut store = Store::new(StoreSettings::default());
    store.set_interpreter(Box::new(NoLanguage));
    let caller = store.admit();
    store.run(caller, &Request::new(&bytes, &spans), 0, &mut reply);
    let reply = String::from_utf8_lossy(&reply);
    !reply.contains("is not in the embedded store") && !reply.contains("unknown subcommand")
}

/// An interpreter that takes any script for an empty one: the page is about commands, not about a language.
struct NoLanguage;

impl Interpreter for NoLanguage {
    fn compile(&mut self, _: &str, _: &[u8]) -> Result<(), Vec<u8>> {
        Ok(())
    }

    fn forget(&mut self, _: &str) {}

    fn load_library(&mut self, _: u64, _: &[u8]) -> Result<Vec<LibraryFunction>, Vec<u8>> {
        Ok(Vec::new())
    }

    fn forget_library(&mut self, _: u64) {}

    fn run(
        &mut self,
        _: Entry<'_>,
        _: &[&[u8]],
        _: &[&[u8]],
        run: ScriptRun,
        out: &mut Vec<u8>,
    ) -> Option<ScriptRun> {
        out.extend_from_slice(b"+OK\r\n");
        Some(run)
    }

    fn memory_used(&self) -> usize {
        0
    }
}

fn write_limit(page: &mut String, limit: &Limit) {
    let _ = writeln!(page, "| {} | {} | {} |", limit.what, limit.much, limit.then);
}

const INTRODUCTION: &str = "\
<!-- Generated from crates/store by `SHARDIS_BLESS=1 cargo test -p store --test reference`. -->

# The embedded store

Without `--nodes`, shardis serves from shards in the memory of its own process. This page says what they have of Redis and
what they have not. A command that they have answers byte for byte as Redis 7.0 does, errors included, as far as the reply
does not depend on chance or on an order that Redis does not promise. A command that they have not is refused by name:

    ERR command 'vadd' is not in the embedded store (start redis-servers and name them with --nodes)

How commands with several keys get over the shards is the same as with nodes: [commands](commands.md).
";

const STANDING: &str = "
## What it is not

- **Nothing is kept.** The data is lost when the process ends: no snapshots, no log, nothing on disk.
- **No replication and no failover.** A shard is one thread of one process.
- **No scripts over shards.** The keys of a script must live on one shard, as in Redis Cluster; with `--store-shards=1` all do.
- **No notification of misses:** of `notify-keyspace-events`, the store knows every letter but `m`.
- **No atomicity over shards.** Each request runs alone on its shard; a command that is split runs shard by shard.
- **No slow log and no watch on latency.** SLOWLOG and LATENCY are always empty; INFO tells of memory and hits.
- **No change while it runs.** Shards, memory and policy are given at the start.

## As one Redis

A proxy without nodes has no old data to find, so its defaults are those that make it most like one Redis: `--tag-rule=redis`,
[`--cross-shard=emulate`](cross-shard.md) and [`--transactions=per-shard`](transactions.md). Flags that are given win. With
`--distribution` or `--like`, the defaults are those of a proxy with nodes. With `--store-shards=1` there are no borders at all: scripts
and transactions take any keys, and transactions are atomic.

## Scripts

Scripts and functions run in Lua 5.1, with Redis 7.0's libraries (`redis`, `cjson`, `cmsgpack`, `struct`, `bit`, `string`, `table`,
`math`, `coroutine`), its read-only globals, conversions, flags of the first line and error texts. A test compares them with
Redis byte for byte. A script runs alone on its shard, and time stands still in it.

| limit | how much | what happens there |
| --- | --- | --- |
| time of a script | `--lua-time-limit`, 5 seconds | the script is ended with an error, which no `pcall` catches; its writes so far remain. Redis lets the script run and answers others with BUSY until SCRIPT KILL |
| memory of all scripts of a shard | 64 MiB | `not enough memory`, an error that a script can catch |
| text that one call builds | 64 MiB | the same |
| nested data in replies, `cjson` and `cmsgpack` | 1,000 | an error |
| items of a pattern that need a way back | 1,000 | `pattern too complex` |
| values of `unpack` | 7,900 | `too many results to unpack`; of `struct.unpack` and `cmsgpack.unpack` 4,000 |

Differences from Redis 7.0:

- SCRIPT KILL and FUNCTION KILL always answer NOTBUSY: a shard hears of them when the script has ended.
- EVAL keeps 500 scripts, as Redis 7.4 does; Redis 7.0 keeps all.
- Settings of `cjson` (`cjson.encode_max_depth` and the like) last as long as the script, and depths are at most 1,000.
- `os.clock` exists. `redis.log` checks its arguments and writes nothing. `redis.acl_check_cmd` knows no users.
- `string.dump` works; `load` and `loadstring` refuse what it gives, as in Redis.
- `next(redis)` is nil, since libraries are behind proxies; `pairs(redis)` works.
- In an error raised by `pairs`, `unpack`, `load` or `string.gsub` right behind `return`, the line number is missing.
- `error({})` is answered with an error. Redis 7.0 ends with a crash.
- `redis.call('TIME')` has milliseconds. MONITOR shows a script, and not the commands that it calls.
- A function or script is on every shard; FUNCTION LOAD and SCRIPT LOAD go to all of them.

## Time

A shard looks at the clock once in a turn of its thread, as Redis does. Expiries are kept to the millisecond; a key is not
seen after its time, by nobody, and what nobody asks for is removed every 10 ms.
";

const MEMORY_BEFORE: &str = "
## Memory

`--store-memory` is divided evenly among the shards. Each keeps an account of its bytes, and a command that may need memory
(Redis's flag `denyoom`) first makes room by the policy or is refused with `OOM`; others always run. A single request may
exceed the limit by its own size. The account is exact about what it counts and an estimate of what the process occupies:
buffers of connections, which are bounded, come on top, and what the allocator keeps for later.

Policies: ";

const MEMORY_BEHIND: &str = ". There is no LFU.

| counted for | how much | and |
| --- | --- | --- |
";
