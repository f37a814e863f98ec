//! Dependencies: from crates.io only, and under licences that permit all that ours permit.

use std::path::Path;

use anyhow::{Context, Result};
use programs::process::{self, cargo, root};
use serde_json::Value;
use spdx::{Expression, ParseMode};

use super::Finding;
use super::tree::Tree;

/// Licences, by their SPDX names, that ask for no more than to be named.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA", // libFuzzer, which is not shipped
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Name of crates.io in cargo's metadata.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The lock files; the fuzz targets and the programs of redis-rs are workspaces of their own.
const LOCKS: &[(&str, &str)] = &[
    ("Cargo.toml", "Cargo.lock"),
    ("fuzz/Cargo.toml", "fuzz/Cargo.lock"),
    ("tests/clients/rust/Cargo.toml", "tests/clients/rust/Cargo.lock"),
];

/// Dependencies that are not to be used.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let locks = LOCKS.iter().filter(|(manifest, _)| tree.holds(manifest));
    locks.flat_map(|(manifest, lock)| check_lock(tree, manifest, lock)).collect()
}

fn check_lock(tree: &Tree, manifest: &str, lock: &str) -> Vec<Finding> {
    let text = tree.text(lock).unwrap_or_default();
    match problems(manifest) {
        Err(error) => vec![Finding::new(lock, 1, format!("{error:#}; does it fit {manifest}?"))],
        Ok(problems) => {
            let found = |(name, problem): (String, String)| {
                Finding::new(lock, line_of(text, &name), format!("{name} {problem}"))
            };
            problems.into_iter().map(found).collect()
        }
    }
}

/// Names and problems of the dependencies of the package or workspace `manifest`.
fn problems(manifest: &str) -> Result<Vec<(String, String)>> {
    let args = ["metadata", "--format-version", "1", "--locked", "--manifest-path", manifest];
    judge_all(&serde_json::from_str(&process::read(&mut cargo(args))?)?, root())
}

/// Names and problems of the packages in the output of `cargo metadata`.
fn judge_all(metadata: &Value, root: &Path) -> Result<Vec<(String, String)>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let judged = packages.iter().filter_map(|package| {
        let name = package["name"].as_str().unwrap_or_default().to_string();
        Some((name, judge(package, root)?))
    });
    Ok(judged.collect())
}

/// Why `package` is not to be used.
fn judge(package: &Value, root: &Path) -> Option<String> {
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    match package["source"].as_str() {
        Some(CRATES_IO) => judge_licence(package["license"].as_str()),
        Some(other) => Some(format!("comes from {other}; take it from crates.io")),
        // Ours.
        None if Path::new(manifest).starts_with(root) => None,
        None => Some(format!("is at {manifest}, outside of the repository; take it from crates.io")),
    }
}

fn judge_licence(licence: Option<&str>) -> Option<String> {
    let Some(licence) = licence else {
        return Some("names no licence; ask its authors, or do without".into());
    };
    // As lax as crates.io, which takes `MIT/Apache-2.0`.
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
        return Some(format!("has a licence that is no SPDX expression: {licence}"));
    };
    let is_free = expression.evaluate(|need| need.license.id().is_some_and(|id| LICENCES.contains(&id.name)));
    (!is_free).then(|| format!("is under {licence}, which is not in the list in {}; do without it", file!()))
}

/// Where `lock` speaks of the package `name`.
fn line_of(lock: &str, name: &str) -> usize {
    let wanted = format!("name = \"{name}\"");
    lock.lines().position(|line| line == wanted).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(source: &str, licence: &str) -> Vec<String> {
        let text = format!(
            r#"{{"packages":[{{"name":"a","source":{source},"license":{licence},"manifest_path":"/repo/a/Cargo.toml"}}]}}"#
        );
        let metadata = serde_json::from_str(&text).expect("it is JSON");
        let judged = judge_all(&metadata, Path::new("/repo")).expect("it lists packages");
        judged.into_iter().map(|(name, problem)| format!("{name} {problem}")).collect()
    }

    #[test]
    fn free_licences_from_crates_io_are_fine() {
        let crates_io = format!("\"{CRATES_IO}\"");
        for licence in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert_eq!(judged(&crates_io, &format!("\"{licence}\"")), [""; 0], "{licence}");
        }
        assert_eq!(judged("null", "null"), [""; 0]);
    }

    #[test]
    fn other_licences_are_refused() {
        let crates_io = format!("\"{CRATES_IO}\"");
        for licence in ["GPL-3.0", "MIT AND GPL-3.0", "MPL-2.0", "SSPL-1.0"] {
            let judged = judged(&crates_io, &format!("\"{licence}\""));
            assert!(
                judged[0].starts_with(&format!("a is under {licence}, which is not in the list")),
                "{licence}"
            );
        }
        assert_eq!(judged(&crates_io, "null"), ["a names no licence; ask its authors, or do without"]);
        assert_eq!(judged(&crates_io, "\"my own\""), ["a has a licence that is no SPDX expression: my own"]);
    }

    #[test]
    fn other_sources_are_refused() {
        let expected = "a comes from git+https://example.org/a#1; take it from crates.io";
        assert_eq!(judged("\"git+https://example.org/a#1\"", "\"MIT\""), [expected]);
        let metadata = serde_json::from_str(
            r#"{"packages":[{"name":"a","source":null,"license":"MIT","manifest_path":"/else/Cargo.toml"}]}"#,
        );
        let judged =
            judge_all(&metadata.expect("it is JSON"), Path::new("/repo")).expect("it lists packages");
        assert_eq!(judged[0].1, "is at /else/Cargo.toml, outside of the repository; take it from crates.io");
    }

    #[test]
    fn a_finding_points_into_the_lock_file() {
        assert_eq!(line_of("version = 4\n\n[[package]]\nname = \"a\"\n", "a"), 4);
    }
}
