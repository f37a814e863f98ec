//! `cargo xtask clients`: makes the programs in tests/clients ready to run, and runs the tests that run them.
//!
//! Built and fetched files go to `target/clients/<language>`, and are kept until their sources change.
//! `target/clients/bin/<language>` starts the program of a language. For a language that is not on this machine,
//! `<language>.skipped` says why. The tests know no more than that folder.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use programs::needs;
use programs::process::{self, cargo, command, root, target_dir};

/// By this variable the tests learn where the programs are.
pub(crate) const LOCATION: &str = "SHARDIS_CLIENTS";

/// The longest time of one language: a registry that hangs must not hang the tests. All took two minutes on two cores.
const BUILD_TIME_MAX: Duration = Duration::from_secs(600);

/// The languages to prepare.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Language to run alone, which must be installed; repeatable
    #[arg(long)]
    only: Vec<Language>,
}

/// A language that has a folder in tests/clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// go-redis, rueidis, asynq
    Go,
    /// ioredis, node-redis, BullMQ
    Node,
    /// Jedis, Lettuce
    Java,
    /// Redis.pm, Redis::Fast
    Perl,
    /// phpredis, Predis
    Php,
    /// redis-py
    Python,
    /// redis-rb, Sidekiq
    Ruby,
    /// redis-rs
    Rust,
}

/// The programs, as far as their languages are on this machine.
pub(crate) struct Programs {
    /// For [`LOCATION`].
    pub(crate) location: PathBuf,
    /// A line for each language that is not there.
    pub(crate) skipped: Vec<String>,
}

/// Prepares the programs and runs their tests.
pub(crate) fn run(options: &Options) -> Result<()> {
    needs::install(&needs::for_clients())?;
    let languages = if options.only.is_empty() { Language::value_variants() } else { &options.only };
    let programs = prepare(languages)?;
    ensure!(options.only.is_empty() || programs.skipped.is_empty(), "asked for what is not there");
    let mut tests = cargo(["test", "--package", "shardis", "--test", "whole", "--"]);
    tests.args(languages.iter().map(|language| format!("clients::{}", language.name())));
    process::run(tests.env(LOCATION, &programs.location))?;
    programs.skipped.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Where programs that are ready to run are.
pub(crate) fn location() -> PathBuf {
    target_dir().join("clients/bin")
}

/// Makes the programs of `languages` ready to run.
pub(crate) fn prepare(languages: &[Language]) -> Result<Programs> {
    let location = location();
    std::fs::create_dir_all(&location)?;
    let mut skipped = Vec::new();
    for &language in languages {
        let name = language.name();
        let marker = location.join(name).with_extension("skipped");
        if let Some(why) = language.absence() {
            let line = format!("clients: {name} skipped: {why}");
            println!("{line}");
            std::fs::write(marker, &why)?;
            skipped.push(line);
            continue;
        }
        let starts = language.prepare().with_context(|| format!("the programs in tests/clients/{name}"))?;
        for start in starts {
            start.write(&location)?;
        }
        // The last of all: without it the launchers are there.
        if marker.exists() {
            std::fs::remove_file(marker)?;
        }
    }
    Ok(Programs { location, skipped })
}

impl Language {
    /// The name of its folder.
    fn name(self) -> &'static str {
        match self {
            Language::Go => "go",
            Language::Node => "node",
            Language::Java => "java",
            Language::Perl => "perl",
            Language::Php => "php",
            Language::Python => "python",
            Language::Ruby => "ruby",
            Language::Rust => "rust",
        }
    }

    /// Why it cannot be had on this machine.
    fn absence(self) -> Option<String> {
        // From 1.21 on, Go fetches the release that go.mod asks for.
        const GO: Tool = Tool { program: "go", args: &["version"], least: (1, 21) };
        const NODE: Tool = Tool { program: "node", args: &["--version"], least: (20, 0) };
        const JAVAC: Tool = Tool { program: "javac", args: &["--version"], least: (17, 0) };
        const PYTHON: Tool = Tool { program: "python3", args: &["--version"], least: (3, 10) };
        match self {
            Language::Go => GO.absence(),
            Language::Node => NODE.absence().or_else(|| not_in_path("npm")),
            Language::Java => JAVAC.absence().or_else(|| not_in_path("mvn")),
            Language::Perl => not_in_path("perl").or_else(perl_modules_absence),
            Language::Php => not_in_path("php").or_else(php_libraries_absence),
            Language::Python => PYTHON.absence(),
            Language::Ruby => not_in_path("ruby").or_else(ruby_libraries_absence),
            // Rust runs this program, so it is installed.
            Language::Rust => None,
        }
    }

    /// Builds or fetches the dependencies of its programs.
    fn prepare(self) -> Result<Vec<Start>> {
        let folder = Folder::of(self)?;
        let words = match self {
            Language::Go => prepare_go(&folder)?,
            Language::Node => prepare_node(&folder)?,
            Language::Java => prepare_java(&folder)?,
            Language::Perl => vec!["perl".into(), path_text(&folder.source.join("main.pl"))?],
            Language::Php => vec!["php".into(), path_text(&folder.source.join("main.php"))?],
            Language::Python => return prepare_python(&folder),
            Language::Ruby => vec!["ruby".into(), path_text(&folder.source.join("main.rb"))?],
            Language::Rust => prepare_rust(&folder)?,
        };
        Ok(vec![Start { launcher: self.name().into(), words }])
    }
}

/// The command line of a program.
struct Start {
    /// The name of the script: the language, and a suffix where it has several programs.
    launcher: String,
    /// A command line without the arguments.
    words: Vec<String>,
}

impl Start {
    /// Writes a script, so that the tests need not know how to start a language, and people can start a program by hand.
    fn write(&self, location: &Path) -> Result<()> {
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        let path = location.join(&self.launcher);
        // With exec the program has the script's process id: to end one ends the other.
        std::fs::write(&path, format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")))?;
        Ok(std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?)
    }
}

fn prepare_go(folder: &Folder) -> Result<Vec<String>> {
    let program = folder.target.join("program");
    folder.unless_made(&program, any_file, || {
        let mut go = command("go");
        build(go.args(["build", "-mod=readonly", "-o"]).arg(&program).current_dir(&folder.source))
    })?;
    Ok(vec![path_text(&program)?])
}

fn prepare_rust(folder: &Folder) -> Result<Vec<String>> {
    let program = folder.target.join("debug/program");
    folder.unless_made(&program, any_file, || {
        let mut cargo = cargo(["build", "--quiet", "--locked", "--manifest-path"]);
        build(cargo.arg(folder.source.join("Cargo.toml")).arg("--target-dir").arg(&folder.target))
    })?;
    Ok(vec![path_text(&program)?])
}

/// Node looks for modules beside and above the file that asks for them, so the program goes to where they are.
fn prepare_node(folder: &Folder) -> Result<Vec<String>> {
    let is_lock = |path: &Path| path.extension().is_none_or(|extension| extension == "json");
    folder.copy_files()?;
    folder.unless_made(&folder.target.join("node_modules"), is_lock, || {
        build(command("npm").args(["ci", "--loglevel=error"]).current_dir(&folder.target))
    })?;
    Ok(vec!["node".into(), path_text(&folder.target.join("main.mjs"))?])
}

/// Maven builds inside of its project, so the project goes to where building is allowed.
fn prepare_java(folder: &Folder) -> Result<Vec<String>> {
    // Its manifest names the jars of the libraries, which are beside it.
    let jar = folder.target.join("target/clients.jar");
    folder.unless_made(&jar, any_file, || {
        // Sources that are gone must not be compiled.
        std::fs::remove_dir_all(&folder.target)?;
        folder.copy_files()?;
        build(command("mvn").args(["-q", "-B", "package"]).current_dir(&folder.target))
    })?;
    Ok(vec!["java".into(), "-jar".into(), path_text(&jar)?])
}

/// A venv for each requirements.txt, requirements-5.txt, …, which name releases of the library that differ.
fn prepare_python(folder: &Folder) -> Result<Vec<Start>> {
    let file_names = folder.files.iter().filter_map(|path| path.to_str());
    let releases = file_names.filter_map(|name| name.strip_prefix("requirements")?.strip_suffix(".txt"));
    releases.map(|release| prepare_venv(folder, release)).collect()
}

/// A venv of ours: the system's Python is not ours to change.
fn prepare_venv(folder: &Folder, release: &str) -> Result<Start> {
    let launcher = format!("python{release}");
    let venv = folder.target.with_file_name(&launcher);
    let python = venv.join("bin/python");
    let requirements = format!("requirements{release}.txt");
    let is_lock = |path: &Path| path == Path::new(&requirements);
    folder.unless_made(&python, is_lock, || {
        build(command("python3").args(["-m", "venv", "--clear"]).arg(&venv))
            .context("no venv; on Debian, python3-venv must belong to the python3 that is first in PATH")?;
        let pip = ["-m", "pip", "install", "--quiet", "-r"];
        build(command(&python).args(pip).arg(folder.source.join(&requirements)))
    })?;
    let words = vec![path_text(&python)?, path_text(&folder.source.join("main.py"))?];
    Ok(Start { launcher, words })
}

/// All built files of a folder depend on all its sources.
fn any_file(_: &Path) -> bool {
    true
}

/// Runs what builds or fetches.
fn build(command: &mut Command) -> Result<()> {
    process::run_within(command, BUILD_TIME_MAX)
}

/// The Perl libraries are Debian packages, which [`needs::for_clients`] installs where it can. So are those below.
fn perl_modules_absence() -> Option<String> {
    let loads = process::succeeds(command("perl").args(["-MRedis", "-MRedis::Fast", "-e", "1"]));
    (!loads).then(|| "perl has no Redis and no Redis::Fast".into())
}

fn php_libraries_absence() -> Option<String> {
    const LIBRARIES: &str = "require 'Predis/Autoloader.php'; exit(class_exists('Redis') && function_exists('pcntl_fork') ? 0 : 1);";
    let loads = process::succeeds(command("php").args(["-r", LIBRARIES]));
    (!loads).then(|| "php has no phpredis, no Predis or no pcntl".into())
}

fn ruby_libraries_absence() -> Option<String> {
    let loads = process::succeeds(command("ruby").args(["-rredis", "-rsidekiq", "-e", "1"]));
    (!loads).then(|| "ruby has no redis-rb or no Sidekiq".into())
}

/// A program that must have at least some version, as major and minor.
struct Tool {
    program: &'static str,
    /// With these it prints its version.
    args: &'static [&'static str],
    least: (u32, u32),
}

impl Tool {
    fn absence(&self) -> Option<String> {
        let Tool { program, args, least } = self;
        not_in_path(program).or_else(|| {
            let Ok(said) = process::read(command(program).args(*args)) else {
                return Some(format!("{program} in PATH does not tell its version"));
            };
            let found = version(&said)?;
            (found < *least)
                .then(|| format!("{program} is {}.{}, older than {}.{}", found.0, found.1, least.0, least.1))
        })
    }
}

/// The first number with a point in it, as major and minor: `(20, 11)` of `v20.11.1`.
fn version(said: &str) -> Option<(u32, u32)> {
    said.split(|letter: char| !letter.is_ascii_digit() && letter != '.').find_map(|word| {
        let mut numbers = word.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    })
}

/// Says so if there is no `program` in PATH.
fn not_in_path(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    (!is_there).then(|| format!("no {program} in PATH"))
}

/// The source folder of a language, and the folder of its built files.
struct Folder {
    language: Language,
    source: PathBuf,
    target: PathBuf,
    /// Relative to `source`.
    files: Vec<PathBuf>,
}

impl Folder {
    fn of(language: Language) -> Result<Folder> {
        let source = root().join("tests/clients").join(language.name());
        let target = target_dir().join("clients").join(language.name());
        std::fs::create_dir_all(&target)?;
        // Git selects the files, so files of an editor or a build are not included.
        let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let list = process::read(command("git").args(args).current_dir(&source))?;
        let files = list.split_terminator('\0').map(PathBuf::from).filter(|path| source.join(path).is_file());
        let files: Vec<PathBuf> = files.collect();
        ensure!(!files.is_empty(), "{} is empty", source.display());
        Ok(Folder { language, source, target, files })
    }

    /// Runs `make`, unless `made` exists and the files that `matters` picks are unchanged since the last run.
    fn unless_made(
        &self,
        made: &Path,
        matters: impl Fn(&Path) -> bool,
        make: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let fingerprint = self.fingerprint(matters)?;
        let mut stamp = made.as_os_str().to_owned();
        stamp.push(".made");
        let is_fresh = made.exists() && std::fs::read_to_string(&stamp).is_ok_and(|text| text == fingerprint);
        if is_fresh {
            return Ok(());
        }
        println!("clients: preparing {}", self.language.name());
        // A failed run may leave half of its files, which must not pass for the whole.
        let _ = std::fs::remove_file(&stamp);
        make()?;
        ensure!(made.exists(), "that should have made {}", made.display());
        Ok(std::fs::write(&stamp, fingerprint)?)
    }

    /// A number that changes with the files.
    fn fingerprint(&self, matters: impl Fn(&Path) -> bool) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        for path in self.files.iter().filter(|path| matters(path)) {
            path.hash(&mut hasher);
            std::fs::read(self.source.join(path))?.hash(&mut hasher);
        }
        Ok(format!("{:016x}", hasher.finish()))
    }

    /// Copies the files to the target.
    fn copy_files(&self) -> Result<()> {
        for path in &self.files {
            let to = self.target.join(path);
            std::fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
            std::fs::copy(self.source.join(path), &to).with_context(|| to.display().to_string())?;
        }
        Ok(())
    }
}

/// `word` as one word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn path_text(path: &Path) -> Result<String> {
    Ok(path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_the_tools_print_them() {
        for (said, expected) in [
            ("go version go1.26.8 linux/amd64", (1, 26)),
            ("v20.20.2", (20, 20)),
            ("javac 17.0.9", (17, 0)),
            ("Python 3.11.2", (3, 11)),
        ] {
            assert_eq!(version(said), Some(expected), "{said}");
        }
        assert_eq!(version("no number"), None);
    }

    #[test]
    fn a_tool_that_is_missing_or_old_is_named() {
        let gone = Tool { program: "no-such-program", args: &[], least: (1, 0) };
        assert_eq!(gone.absence().as_deref(), Some("no no-such-program in PATH"));
        let old = Tool { program: "echo", args: &["echo 1.18"], least: (1, 21) };
        assert_eq!(old.absence().as_deref(), Some("echo is 1.18, older than 1.21"));
        let there = Tool { program: "echo", args: &["echo 1.21"], least: (1, 21) };
        assert_eq!(there.absence(), None);
    }

    #[test]
    fn a_build_repeats_only_when_its_files_change() {
        let place = std::env::temp_dir().join(format!("xtask-clients-{}", std::process::id()));
        let (source, target) = (place.join("source"), place.join("target"));
        std::fs::create_dir_all(&source).unwrap();
        std::fs::create_dir_all(&target).unwrap();
        let files = ["lock.json", "main.mjs"].map(PathBuf::from).to_vec();
        let folder = Folder { language: Language::Node, source, target: target.clone(), files };
        let makes = |lock: &str, main: &str| {
            std::fs::write(folder.source.join("lock.json"), lock).unwrap();
            std::fs::write(folder.source.join("main.mjs"), main).unwrap();
            let mut made = false;
            let is_lock = |path: &Path| path.extension().is_some_and(|extension| extension == "json");
            let outcome = folder.unless_made(&target, is_lock, || {
                made = true;
                ensure!(lock != "broken", "it does not build");
                Ok(())
            });
            (made, outcome.is_ok())
        };
        assert_eq!(makes("1", "a"), (true, true));
        assert_eq!(makes("1", "b"), (false, true));
        assert_eq!(makes("2", "b"), (true, true));
        assert_eq!(makes("broken", "b"), (true, false));
        assert_eq!(makes("2", "b"), (true, true));
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_launcher_hands_its_arguments_on() {
        let place = std::env::temp_dir().join(format!("xtask-launcher-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let words = vec!["printf".into(), "%s|".into(), "it's".into()];
        Start { launcher: "odd name's".into(), words }.write(&place).unwrap();
        let said = process::read(command(place.join("odd name's")).args(["a b", "c"])).unwrap();
        assert_eq!(said, "it's|a b|c|");
        std::fs::remove_dir_all(&place).unwrap();
    }
}
