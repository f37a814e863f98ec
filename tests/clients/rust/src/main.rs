//! Typical uses of redis-rs against the given port: `redis-rs` with blocking connections, `redis-rs-async` with a multiplexed
//! one on tokio. tests/clients/README.md defines its arguments and its output.
//!
//! A check is a function that panics on an unexpected result.

mod blocking;
mod multiplexed;

use std::any::Any;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// The longest time of one request. It is generous: the machine may be busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Settings for every check.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) client: redis::Client,
}

impl World {
    /// The same address for a client that asks for RESP3, which is not the library's default.
    pub(crate) fn with_resp3(&self) -> redis::Client {
        let info = self.client.get_connection_info().clone();
        let settings = info.redis_settings().clone().set_protocol(redis::ProtocolVersion::RESP3);
        redis::Client::open(info.set_redis_settings(settings)).expect("it is an address")
    }

    /// The same address for a client that expects a Redis Cluster there.
    pub(crate) fn cluster(&self) -> redis::cluster::ClusterClient {
        let address = self.client.get_connection_info().clone();
        redis::cluster::ClusterClientBuilder::new([address])
            .connection_timeout(PATIENCE)
            .response_timeout(PATIENCE)
            .build()
            .expect("one address is enough")
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [library, port, setup] = &args[..] else { return usage() };
    if setup != "nodes" && setup != "store" {
        return usage();
    }
    // No option but the address: the library's default handshake.
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).expect("it is an address");
    let world = World { client };
    let failed = match library.as_str() {
        "redis-rs" => blocking::run(&world),
        "redis-rs-async" => multiplexed::run(&world),
        _ => return usage(),
    };
    say("done");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprintln!("usage: program redis-rs|redis-rs-async <port> nodes|store");
    ExitCode::from(2)
}

/// Prints the line of a finished check. Returns the number of failures: one or none.
pub(crate) fn report(name: &str, outcome: Result<(), Box<dyn Any + Send>>) -> usize {
    let Err(panic) = outcome else {
        say(&format!("ok {name}"));
        return 0;
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without text");
    say(&format!("not ok {name}: {}", text.replace('\n', " ")));
    1
}

/// Reports that the proxy may be restarted, and waits until it was.
pub(crate) fn wait_for_restart() {
    say("restart?");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("stdin is open");
    assert_eq!(line, "restarted\n");
}

/// Numbers that differ, so that a missing or doubled chunk is noticed.
pub(crate) fn big_value(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// Each of `prefix0` to `prefix999` must be in `names` once, and nothing else.
#[track_caller]
pub(crate) fn assert_once(names: impl IntoIterator<Item = String>, prefix: &str) {
    let mut names: Vec<String> = names.into_iter().collect();
    let mut expected: Vec<String> = (0..1000).map(|n| format!("{prefix}{n}")).collect();
    names.sort();
    expected.sort();
    let first = names.iter().zip(&expected).find(|(name, expected)| name != expected);
    assert!(first.is_none() && names.len() == 1000, "{} names; here they part: {first:?}", names.len());
}

/// Checks that the call was refused with these words in the error.
#[track_caller]
pub(crate) fn assert_refused<T: std::fmt::Debug>(outcome: redis::RedisResult<T>, words: &str) {
    let error = outcome.expect_err("it should be refused");
    assert!(error.to_string().contains(words), "{error} does not say {words}");
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("stdout is open");
}
