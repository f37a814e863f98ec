//! Passes the commit of the checkout to the compiler, for `--version`. Without git, or outside of a checkout, it passes none.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Changes with each commit and each checkout.
    if let Some(log) =
        git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| std::path::Path::new(log).exists())
    {
        println!("cargo:rerun-if-changed={log}");
    }
    // A package that lies in another project's checkout does not have that one's commit.
    let is_ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| is_ours);
    let suffix = commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
    println!("cargo:rustc-env=SHARDIS_COMMIT={suffix}");
}

/// The output of git for `words`, if git is installed and prints any.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
