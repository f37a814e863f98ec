//! The program that the tests start as nodes: redis-server, or the one that `SHARDIS_TEST_SERVER` names. That may be another
//! version, or a valkey-server. Tests that are about one version ask here.

use command::Server;
use std::process::Command;
use std::sync::LazyLock;

/// The reference for shardis's own words: Redis 7.0.
pub(crate) const REFERENCE: &str = "redis-server";

/// The program that starts nodes.
pub(crate) fn program() -> &'static str {
    &SERVER.0
}

/// Its program and version.
pub(crate) fn server() -> Server {
    SERVER.1
}

/// Whether nodes are as those of Redis 7.0 or newer ones.
pub(crate) fn is_at_least_7_0() -> bool {
    !matches!(server(), Server::Redis(major, _) if major < 7)
}

/// The options that let tests use DEBUG of `program`, where it is not open to all.
pub(crate) fn allows_debug(program: &str) -> &'static [&'static str] {
    if program == REFERENCE || is_at_least_7_0() { &["--enable-debug-command", "yes"] } else { &[] }
}

/// Whether a test must be left out, with a message, since nodes before Redis 7.0 lack its subject.
pub(crate) fn is_too_old_for(what: &str) -> bool {
    let is_old = !is_at_least_7_0();
    if is_old {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        eprintln!("SKIPPED: {test} is about {what}, and nodes are {}", server());
    }
    is_old
}

static SERVER: LazyLock<(String, Server)> = LazyLock::new(|| {
    let program = std::env::var("SHARDIS_TEST_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
    let output = Command::new(&program).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let server =
        Server::of_version(&said).unwrap_or_else(|| panic!("{program} says {said:?}, not what it is"));
    (program, server)
});
