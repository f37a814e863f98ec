//! Other programs: their working directory, their search path, and the text of a failure.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// The folder that holds this repository.
pub fn root() -> &'static Path {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.ancestors().nth(2).expect("this crate is two folders below the root of the repository")
}

/// The folder in which cargo builds, and of files that must not be committed.
pub fn target_dir() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// `program`, to be run at the root of the repository.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    // Debian puts nutcracker where only root looks.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let mut command = Command::new(program);
    command.current_dir(root()).env("PATH", path);
    // ring's build script depends on these variables. A cargo below `cargo xtask` that inherited them would build ring and
    // everything above it anew. So would the next cargo that a user starts.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_set_by_cargo(name)) {
        command.env_remove(name);
    }
    command
}

/// Whether `cargo run` sets the variable `name` for the program that it runs. Users set the others.
fn is_set_by_cargo(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name == "CARGO" || ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|prefix| name.starts_with(prefix))
}

/// `cargo args…`.
pub fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = command("cargo");
    command.args(args);
    command
}

/// Runs `command` to its end and shows its output.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run `{}`", line(command)))?;
    ensure!(status.success(), "`{}` ended with {status}", line(command));
    Ok(())
}

/// Like [`run`], and ends it if it takes longer than `time_max`.
pub fn run_within(command: &mut Command, time_max: Duration) -> Result<()> {
    let deadline = Instant::now() + time_max;
    let mut child = command.spawn().with_context(|| format!("cannot run `{}`", line(command)))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            bail!("`{}` did not end in {} s", line(command), time_max.as_secs());
        }
        // tidy: allow(sleep): the pause between two looks; std has no wait with a deadline.
        std::thread::sleep(Duration::from_millis(10));
    };
    ensure!(status.success(), "`{}` ended with {status}", line(command));
    Ok(())
}

/// Runs `command` to its end and returns its output; stderr is shown.
pub fn read(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{}`", line(command)))?;
    ensure!(output.status.success(), "`{}` ended with {}", line(command), output.status);
    String::from_utf8(output.stdout).with_context(|| format!("`{}` printed what is not UTF-8", line(command)))
}

/// Runs `command` to its end and returns its stderr, which is shown only if it fails.
pub fn complaints(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run `{}`", line(command)))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        println!("{}{text}", String::from_utf8_lossy(&output.stdout));
        bail!("`{}` ended with {}", line(command), output.status);
    }
    Ok(text)
}

/// Whether `command` can be run and succeeds; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Processor time of this process and of all its children that have ended, where the system tells it: on Linux.
pub fn cpu_used() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in parentheses, may hold anything. The times stand 12 fields behind it: user and system, then the children's.
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    let used: u64 = fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_secs_f64(used as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// `command` as one would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_inherits_no_variable_that_cargo_run_sets() {
        assert!(std::env::vars_os().any(|(name, _)| is_set_by_cargo(&name)), "cargo runs this test");
        let inherited = read(&mut command("env")).expect("env is there");
        let mut names = inherited.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
        assert_eq!(names.find(|name| is_set_by_cargo(OsStr::new(name))), None);
    }

    #[test]
    fn variables_that_users_set_for_cargo_are_inherited() {
        let set_by_users =
            ["CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_PROFILE_RELEASE_LTO", "CARGO_INCREMENTAL"];
        assert!(set_by_users.iter().all(|name| !is_set_by_cargo(OsStr::new(name))));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn processor_time_of_children_counts() {
        let before = cpu_used().expect("Linux tells it");
        // A loop of a shell takes some hundredths of a second, which is the unit of the count.
        run(command("sh").args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]))
            .expect("it ends");
        assert!(cpu_used().expect("Linux tells it") > before);
    }

    #[test]
    fn a_failure_names_the_command() {
        let error = run(command("sh").args(["-c", "exit 3"])).expect_err("it exits with 3");
        assert_eq!(error.to_string(), "`sh -c exit 3` ended with exit status: 3");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let error = run_within(command("sleep").arg("60"), Duration::ZERO).expect_err("it takes a minute");
        assert_eq!(error.to_string(), "`sleep 60` did not end in 0 s");
        let error = run_within(&mut command("false"), Duration::from_secs(60)).expect_err("it fails");
        assert_eq!(error.to_string(), "`false` ended with exit status: 1");
        assert!(run_within(&mut command("true"), Duration::from_secs(60)).is_ok());
    }

    #[test]
    fn a_program_that_is_not_there_does_not_succeed() {
        assert!(!succeeds(&mut command("no-such-program-anywhere")));
        assert!(!succeeds(&mut command("false")));
        assert!(succeeds(&mut command("true")));
    }
}
