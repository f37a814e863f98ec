//! The tests of Redis.pm with Redis::Fast in its place: it has the same interface and is written in C.
//!
//! Debian's archive has the package of Redis::Fast, but not the source that its index names. So its own tests cannot be had.

use std::path::PathBuf;

use anyhow::Result;
use programs::needs;

use super::{Name, Part, Setup, Suite, fetch, redis_pm};

pub(super) const SUITE: Suite = Suite {
    name: Name::RedisFast,
    slug: "redis-fast",
    needs: needs::FOR_REDIS_PM,
    tool: fetch::APT_GET,
    port: None,
    quick: &[Setup::Emulate],
    parts,
};

/// Without the files that look into Redis.pm's own objects, and without 03-pubsub, which waits for half a minute:
/// `tests/clients/perl` subscribes with Redis::Fast.
const FILES: &[&str] = &[
    "00-compile",
    "01-basic",
    "04-pipeline",
    "06-on-connect",
    "08-unix-socket",
    "10-tie-list",
    "20-tie-hash",
    "30-scripts",
    "42-client_cmds",
    "44-no-unicode-bug",
];

/// The modules that the tests load by name.
const MODULES: [&str; 3] = ["Redis", "Redis::List", "Redis::Hash"];

fn parts(_is_quick: bool) -> Result<Vec<Part>> {
    Ok(vec![redis_pm::part("redis-fast", &library()?, FILES)?])
}

/// A folder where each of [`MODULES`] is Redis::Fast's module of that kind.
fn library() -> Result<PathBuf> {
    let library = fetch::folder().join("redis-fast");
    std::fs::create_dir_all(library.join("Redis"))?;
    for module in MODULES {
        let fast = module.replacen("Redis", "Redis::Fast", 1);
        let path = library.join(module.replace("::", "/")).with_extension("pm");
        std::fs::write(path, format!("package {module};\nuse parent '{fast}';\n1;\n"))?;
    }
    Ok(library)
}
