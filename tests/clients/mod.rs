//! Programs that use shardis through client libraries, as its users do: over four nodes and over the embedded store.
//!
//! The programs are in the folders beside this file; `README.md` there defines their interface. `cargo xtask clients` prepares
//! them. This module starts them, reads their output, and judges it. Only the programs depend on a library's behaviour.

mod program;
mod verdict;

use crate::harness::processes::free_port;
use crate::harness::{Proxy, RedisServer};
use program::Program;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Nodes behind the proxy, where there are nodes.
const NODES: usize = 4;

/// Two tests per library, then single tests. A failure names the language, the library and the setup.
macro_rules! tests {
    ($($language:ident {
        $($test:ident: $launcher:literal $library:literal,)*
        $(; $single:ident: $single_launcher:literal $single_library:literal $setup:ident $expected:ident)*
    })*) => {
        $(mod $language {
            $(#[test]
            fn $single() {
                use crate::clients::{Setup, run_with};
                let expected = &crate::clients::$expected;
                run_with(stringify!($language), $single_launcher, $single_library, Setup::$setup, expected);
            })*
            $(mod $test {
                use crate::clients::{Setup, run};

                #[test]
                fn works_over_nodes() {
                    run(stringify!($language), $launcher, $library, Setup::Nodes);
                }

                #[test]
                fn works_over_the_store() {
                    run(stringify!($language), $launcher, $library, Setup::Store);
                }
            })*
        })*
    };
}

tests! {
    go {
        go_redis: "go" "go-redis",
        ; rueidis_takes_shards_for_one_redis: "go" "rueidis" Emulate RUEIDIS
        ; asynq_does_a_thousand_jobs: "go" "asynq" Nodes QUEUE
    }
    node {
        ioredis: "node" "ioredis",
        node_redis: "node" "node-redis",
        ; ioredis_takes_shards_for_one_redis: "node" "ioredis" Emulate AS_ONE
        ; upstash_redis_works_over_http: "node" "upstash-redis" Http HTTP
        ; bullmq_does_a_thousand_jobs: "node" "bullmq" Nodes QUEUE
        ; ioredis_takes_the_store_for_one_redis: "node" "ioredis" StoreAsOne AS_ONE
        ; bullmq_does_a_thousand_jobs_over_the_store: "node" "bullmq" StoreAsOne JOBS
        ; bullmq_does_a_thousand_jobs_over_one_store: "node" "bullmq" OneStore JOBS
    }
    java {
        jedis: "java" "jedis",
        lettuce: "java" "lettuce",
    }
    perl {
        redis_pm: "perl" "Redis",
        redis_fast: "perl" "Redis::Fast",
    }
    php {
        ; phpredis_takes_shards_for_one_redis: "php" "phpredis" Emulate AS_ONE
        ; predis_takes_shards_for_one_redis: "php" "predis" Emulate AS_ONE
    }
    python {
        redis_py: "python" "redis-py",
        redis_py_asyncio: "python" "redis-py-asyncio",
        redis_py_5: "python-5" "redis-py",
        redis_py_5_asyncio: "python-5" "redis-py-asyncio",
        ; celery_does_a_thousand_jobs: "python-queues" "celery" Nodes QUEUE
        ; rq_does_two_hundred_jobs: "python-queues" "rq" Emulate QUEUE
        ; redis_py_takes_shards_for_one_redis: "python" "redis-py" Emulate AS_ONE
        ; redis_py_takes_the_store_for_one_redis: "python" "redis-py" StoreAsOne AS_ONE
        ; celery_does_a_thousand_jobs_over_the_store: "python-queues" "celery" StoreAsOne JOBS
        ; celery_does_a_thousand_jobs_over_one_store: "python-queues" "celery" OneStore JOBS
        ; rq_does_two_hundred_jobs_over_the_store: "python-queues" "rq" StoreAsOne JOBS
        ; rq_does_two_hundred_jobs_over_one_store: "python-queues" "rq" OneStore JOBS
    }
    ruby {
        ; redis_rb_takes_shards_for_one_redis: "ruby" "redis-rb" Emulate AS_ONE
        ; sidekiq_does_a_thousand_jobs: "ruby" "sidekiq" Emulate QUEUE
        ; sidekiq_does_a_thousand_jobs_over_the_store: "ruby" "sidekiq" StoreAsOne JOBS
        ; sidekiq_does_a_thousand_jobs_over_one_store: "ruby" "sidekiq" OneStore JOBS
    }
    rust {
        redis_rs: "rust" "redis-rs",
        redis_rs_async: "rust" "redis-rs-async",
    }
}

/// The library repeats requests that it takes for not carried out, more often than others do.
#[test]
fn go_redis_writes_nothing_twice_when_nodes_cut_connections() {
    run_with("go", "go", "go-redis", Setup::Faults, &WRITES);
}

/// The nodes behind the proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setup {
    /// Four redis-servers.
    Nodes,
    /// The same, which cut all connections whenever the program asks for a restart.
    Faults,
    /// Shards in the proxy's own memory, which show their borders as nodes do.
    Store,
    /// Shards in the proxy's own memory, by its defaults, which make them look like one Redis.
    StoreAsOne,
    /// One shard in the proxy's own memory.
    OneStore,
    /// Four redis-servers that look like one: no command is refused because of several shards.
    Emulate,
    /// Four redis-servers, and a client that speaks HTTP.
    Http,
}

impl Setup {
    /// Its name in a program's arguments.
    fn name(self) -> &'static str {
        match self {
            Setup::Nodes => "nodes",
            Setup::Faults => "faults",
            Setup::Store => "store",
            Setup::Emulate | Setup::StoreAsOne | Setup::OneStore => "emulate",
            Setup::Http => "http",
        }
    }

    /// Flags that it takes.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Setup::Nodes | Setup::Faults | Setup::StoreAsOne | Setup::Http => &[],
            Setup::Store => &["--transactions=one-shard", "--cross-shard=refuse"],
            Setup::OneStore => &["--store-shards=1"],
            Setup::Emulate => &["--transactions=per-shard", "--cross-shard=emulate"],
        }
    }
}

/// The checks that a program must report, and the flags that it needs of the proxy.
struct Expected {
    checks: &'static [&'static str],
    /// More flags of the proxy.
    flags: &'static [&'static str],
}

/// Of a program that does all that users do.
const ALL: Expected = Expected { checks: verdict::CHECKS, flags: &[] };
/// Of a program that writes under faults.
const WRITES: Expected = Expected { checks: verdict::FAULT_CHECKS, flags: &[] };
/// Of a program that takes shards for one Redis.
const AS_ONE: Expected = Expected { checks: verdict::EMULATE_CHECKS, flags: &[] };
/// Of a program that speaks HTTP.
const HTTP: Expected = Expected { checks: verdict::HTTP_CHECKS, flags: &[] };
/// The same of rueidis.
const RUEIDIS: Expected = Expected { checks: verdict::RUEIDIS_CHECKS, flags: &[] };
/// Writes of a job queue, whose keys may have a hash tag in front.
const QUEUE: Expected = Expected { checks: verdict::QUEUE_CHECKS, flags: &["--tag-rule={}"] };

/// The same over shards in memory, which find that tag by themselves.
const JOBS: Expected = Expected { checks: verdict::QUEUE_CHECKS, flags: &[] };

/// Runs the program of `library`. A test fails with all its output unless it ends well.
fn run(language: &str, launcher: &str, library: &str, setup: Setup) {
    run_with(language, launcher, library, setup, &ALL);
}

/// The same for a program that reports what `expected` says.
fn run_with(language: &str, launcher: &str, library: &str, setup: Setup, expected: &Expected) {
    let Some(launcher_path) = launcher_path(language, launcher) else { return };
    let mut served = Served::start(setup, expected.flags);
    let mut command = Command::new(launcher_path);
    command.args([library, &served.port().to_string(), setup.name()]);
    let mut program = Program::start(command);
    let ended = program.listen(|| match setup {
        Setup::Faults => served.cut(),
        _ => served.restart(),
    });
    let problems = match ended {
        Ok(code) => verdict::problems(expected.checks, program.lines(), code),
        Err(problem) => vec![problem],
    };
    assert!(
        problems.is_empty(),
        "{library} ({launcher}) over {}:\n  {}",
        setup.name(),
        problems.join("\n  ")
    );
}

/// The file that starts a program; `None`, with a message, if the test must be skipped.
fn launcher_path(language: &str, launcher: &str) -> Option<PathBuf> {
    let prepare = format!("`cargo xtask clients --only {language}` prepares and runs it");
    let Some(folder) = std::env::var_os("SHARDIS_CLIENTS") else {
        // In CI they must not go missing silently.
        assert!(std::env::var_os("CI").is_none(), "no SHARDIS_CLIENTS: {prepare}");
        eprintln!("SKIPPED: no SHARDIS_CLIENTS; {prepare}");
        return None;
    };
    let folder = Path::new(&folder);
    if let Ok(why) = std::fs::read_to_string(folder.join(language).with_extension("skipped")) {
        eprintln!("SKIPPED: {why}");
        return None;
    }
    let path = folder.join(launcher);
    assert!(path.exists(), "there is no {}: {prepare}", path.display());
    Some(path)
}

/// A proxy, and the nodes behind it.
struct Served {
    proxy: Proxy,
    nodes: Vec<RedisServer>,
    flags: Vec<String>,
    /// The port of HTTP clients, if the program is one.
    http_port: Option<u16>,
}

impl Served {
    fn start(setup: Setup, flags: &[&'static str]) -> Served {
        let nodes: Vec<RedisServer> = match setup {
            Setup::Nodes | Setup::Faults | Setup::Emulate | Setup::Http => {
                (0..NODES).map(|_| RedisServer::start()).collect()
            }
            Setup::Store | Setup::StoreAsOne | Setup::OneStore => Vec::new(),
        };
        let http_port = (setup == Setup::Http).then(free_port);
        let http = http_port.map(|port| format!("--http-port={port}"));
        let flags: Vec<String> =
            setup.flags().iter().chain(flags).map(|flag| (*flag).to_owned()).chain(http).collect();
        Served { proxy: proxy_over(&nodes, 0, &flags), nodes, flags, http_port }
    }

    /// The port for the program.
    fn port(&self) -> u16 {
        self.http_port.unwrap_or(self.proxy.port)
    }

    /// Ends the proxy with SIGTERM, and starts it on the same port. The nodes keep their data.
    fn restart(&mut self) {
        self.proxy.signal("TERM");
        let status = self.proxy.wait();
        assert!(status.success(), "the proxy ended with {status}");
        // The only port is then in the flags.
        let port = if self.http_port.is_some() { 0 } else { self.proxy.port };
        self.proxy = proxy_over(&self.nodes, port, &self.flags);
    }

    /// Every node closes all connections, with all requests in flight.
    fn cut(&self) {
        for node in &self.nodes {
            assert!(node.connect().ask("CLIENT KILL TYPE normal SKIPME yes").starts_with(':'));
        }
    }
}

/// A proxy with default settings and `more`.
fn proxy_over(nodes: &[RedisServer], port: u16, more: &[String]) -> Proxy {
    let port = format!("--port={port}");
    let addrs: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let addrs = format!("--nodes={}", addrs.join(","));
    let mut flags = vec![port.as_str(), "--host=127.0.0.1"];
    flags.extend(more.iter().map(String::as_str));
    if !nodes.is_empty() {
        flags.push(&addrs);
    }
    Proxy::start(&flags)
}
