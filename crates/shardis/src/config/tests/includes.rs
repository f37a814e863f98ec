//! Files that include others, and secrets in files of their own.

use super::{Depth, OsString, load, places};
use crate::args::Serving;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Paths and texts of files.
type Files = &'static [(&'static str, &'static str)];

/// A folder with files, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    /// A folder with `files`, each with its path and its text.
    fn with(files: &[(&str, &str)]) -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("shardis-include-{}-{number}", std::process::id()));
        let folder = Folder(path.canonicalize().unwrap_or(path));
        files.iter().for_each(|(name, text)| folder.write(name, text));
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a temporary folder");
        std::fs::write(path, text).expect("a temporary file");
    }

    /// The services by `main.toml`; faults name files without the folder.
    fn read(&self) -> Result<Serving, String> {
        let words: [OsString; 0] = [];
        load(&self.0.join("main.toml"), &words, Depth::Check)
            .map_err(|faults| self.shown(&faults.to_string()))
    }

    fn shown(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.display()), "")
    }

    fn serving(&self) -> Serving {
        self.read().unwrap_or_else(|faults| panic!("{faults}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder is temporary anyway.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn value(serving: &Serving, name: &str) -> String {
    let settings = &serving.pools[0].settings;
    settings.iter().find(|setting| setting.name == name).map(|setting| setting.value.clone()).expect(name)
}

#[test]
fn included_files_are_one_configuration_with_the_first() {
    let folder = Folder::with(&[
        (
            "main.toml",
            "include = ['conf.d/*.toml', 'more/last.toml']\nport = 1\n[[listener]]\naddress = '/run/1'\n",
        ),
        ("conf.d/b.toml", "timeout = 7\n[[listener]]\naddress = '/run/3'\n"),
        ("conf.d/a.toml", "include = 'deep/x.toml'\nmaxclients = 9\n[[listener]]\naddress = '/run/2'\n"),
        ("conf.d/deep/x.toml", "databases = 3\n[[listener]]\naddress = '/run/x'\n"),
        ("conf.d/.hidden.toml", "this is not TOML"),
        ("conf.d/c.conf", "neither is this"),
        ("more/last.toml", "# empty"),
    ]);
    let serving = folder.serving();
    assert_eq!(places(&serving), ["127.0.0.1:1", "unix:/run/1", "unix:/run/2", "unix:/run/x", "unix:/run/3"]);
    let values = ["timeout", "maxclients", "databases"].map(|name| value(&serving, name));
    assert_eq!(values, ["7", "9", "3"]);
}

#[test]
fn pools_of_included_files_stand_beside_each_other() {
    let pool = |name: &str, port: u16| format!("[[pool]]\nname = '{name}'\nport = {port}\n");
    let folder = Folder::with(&[
        ("main.toml", &format!("include = 'pools/*'\ntimeout = 5\n{}", pool("a", 1))),
        ("pools/1", &pool("b", 2)),
        ("pools/2", &pool("c", 3)),
    ]);
    let serving = folder.serving();
    let names: Vec<_> = serving.pools.iter().filter_map(|pool| pool.name.as_deref()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(value(&serving, "timeout"), "5");
    folder.write("pools/2", &pool("a", 2));
    assert_eq!(folder.read().expect_err("twice"), "pools/2:2:8: name \"a\": another pool has it already");
    folder.write("pools/2", &pool("c", 2));
    assert_eq!(
        folder.read().expect_err("twice"),
        "pools/2:3:8: pool c: address 127.0.0.1:2: another pool (pools/1 line 3) has this address already; each needs its own"
    );
}

#[test]
fn faults_of_included_files_have_their_places() {
    let cases: &[(&str, Files, &str)] = &[
        (
            "port = 1\ninclude = ['a']",
            &[("a", "\nport = 2")],
            "a:2:1: port: main.toml line 1 has this key already; remove one",
        ),
        (
            "include = ['a', 'b']",
            &[("a", "port = 2"), ("b", "port = 2")],
            "b:1:1: port: a line 1 has this key already; remove one",
        ),
        (
            "include = 'a'",
            &[("a", "\nport = x")],
            "a:2:8: this is not TOML: this is no value; a text stands in quotes",
        ),
        ("include = 'a'", &[("a", "port = 'x'")], "a:1:8: port \"x\": write a number"),
        ("include = 'a'", &[("a", "nodes = ['a:1', 'b']")], "a:1:17: nodes: node \"b\": the port is missing"),
        ("port = 1\ninclude = 'no'", &[], "main.toml:2:11: include no: the file does not exist"),
        ("include = 'd'", &[("d/x", "")], "main.toml:1:11: include d: the path is a directory"),
        ("include = ['a', 'a']", &[("a", "")], "main.toml:1:17: include a: the file is included already"),
        ("include = 'main.toml'", &[], "main.toml:1:11: include main.toml: the file would include itself"),
        (
            "include = 'a'",
            &[("a", "include = 'b'"), ("b", "\ninclude = './a'")],
            "b:2:11: include ./a: the file would include itself",
        ),
        ("include = 5", &[], "main.toml:1:11: include: write paths in quotes"),
        ("include = ['']", &[], "main.toml:1:12: include: write paths in quotes"),
        ("include = '${SHARDIS_NO}'", &[], "main.toml:1:11: include: the environment variable SHARDIS_NO"),
        ("include = '[a'", &[], "main.toml:1:11: include [a: Pattern syntax error"),
        ("[[listener]]\ninclude = 'a'", &[("a", "")], "main.toml:2:1: include: write it above all tables"),
    ];
    for (main, others, expected) in cases {
        let folder = Folder::with(&[&[("main.toml", *main)], *others].concat());
        let faults = folder.read().expect_err(main);
        assert!(faults.starts_with(expected), "{main}: {faults}");
    }
}

#[test]
fn an_included_file_that_is_not_utf_8_is_reported() {
    let folder = Folder::with(&[("main.toml", "include = 'a'")]);
    std::fs::write(folder.0.join("a"), b"port = 1\nzone = \"\xff\"").expect("a temporary file");
    assert!(folder.read().expect_err("no text").contains("a:2:9: the byte 0xff is not UTF-8"));
}

#[test]
fn includes_have_bounds() {
    let named = |number: usize| format!("f{number:03}");
    let chain: Vec<(String, String)> =
        (0..10).map(|number| (named(number), format!("include = '{}'", named(number + 1)))).collect();
    let chain: Vec<(&str, &str)> = chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let folder = Folder::with(&[&[("main.toml", "include = 'f000'")], &chain[..]].concat());
    assert_eq!(
        folder.read().expect_err("too deep"),
        "f007:1:11: include f008: at most 8 files include each other"
    );
    let names: Vec<String> = (0..66).map(|number| format!("many/{}", named(number))).collect();
    let many = |count: usize| {
        let files: Vec<(&str, &str)> = names[..count].iter().map(|name| (name.as_str(), "")).collect();
        Folder::with(&[&[("main.toml", "include = 'many/*'")], &files[..]].concat())
    };
    assert!(many(64).read().is_ok());
    let faults = many(66).read().expect_err("too many");
    assert_eq!(faults, "main.toml:1:11: include many/f064: a configuration includes at most 64 files");
    let large = "#".repeat(700 << 10);
    let folder = Folder::with(&[("main.toml", "include = ['a', 'b']"), ("a", &large), ("b", &large)]);
    let faults = folder.read().expect_err("too large");
    assert!(
        faults.starts_with("main.toml:1:17: include b: with this file the configuration has more"),
        "{faults}"
    );
}

#[test]
fn secret_of_a_file_is_read_and_only_its_path_shows() {
    let folder = Folder::with(&[("secret", "hush\n")]);
    let path = folder.0.join("secret").display().to_string();
    folder.write("main.toml", &format!("requirepass = 'file:{path}'"));
    let serving = folder.serving();
    assert_eq!(value(&serving, "requirepass"), format!("(secret) of the file {path}"));
    let users = serving.pools[0].args.users().users().expect("valid");
    assert!(users.authenticate(b"default", b"hush").is_some());
    assert!(!format!("{serving:?}").contains("hush"));
    std::fs::remove_file(Path::new(&path)).expect("the file is ours");
    let faults = folder.read().expect_err("no file");
    assert_eq!(
        faults,
        "main.toml:1:15: requirepass: the file secret: No such file or directory (os error 2)"
    );
}
