//! Files of packages: configurations that are shipped, man pages and completions. `cargo xtask packages` tries a whole package.

use crate::harness::certificates::Directory;
use crate::harness::processes::{Finished, run, shardis_binary};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

fn check(file: &Path) -> Finished {
    let mut command = shardis_binary();
    command.arg("check").arg(file);
    run(command)
}

#[test]
fn the_default_configuration_is_valid_also_with_its_examples() {
    let file = packaging("shardis.toml");
    let finished = check(&file);
    assert!(finished.code == Some(0) && finished.stdout.contains("127.0.0.1:6380"), "{finished:?}");
    // All examples but the credential, which only systemd can give.
    let text = read_to_string(&file).expect("it is there");
    let is_example =
        |line: &&str| line.starts_with('#') && (line.starts_with("#  ") || !line.starts_with("# "));
    let examples: Vec<&str> = text.lines().filter(is_example).collect();
    assert!(examples.len() > 10, "{examples:?}");
    let all = text.lines().map(|line| if is_example(&line) { &line[1..] } else { line });
    let all: Vec<&str> = all.filter(|line| !line.contains("CREDENTIALS_DIRECTORY")).collect();
    let folder = Directory::new();
    let finished = check(Path::new(&folder.write("all.toml", &all.join("\n"))));
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
}

#[test]
fn the_configuration_for_kubernetes_is_valid() {
    let text = read_to_string(packaging("kubernetes/configmap.yaml")).expect("it is there");
    let (_, text) = text.split_once("shardis.toml: |\n").expect("the file is in it");
    let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    let folder = Directory::new();
    folder.write("password", "secret\n");
    folder.write("admin-token", "token\n");
    let path = folder.path("");
    let path = path.to_str().expect("text").trim_end_matches('/');
    let text = lines.join("\n").replace("/run/secrets/shardis", path);
    let finished = check(Path::new(&folder.write("shardis.toml", &text)));
    assert!(finished.code == Some(0) && finished.stdout.contains("0.0.0.0:6380"), "{finished:?}");
}

#[test]
fn man_pages_and_completions_have_the_flags() {
    let folder = Directory::new();
    let mut command = shardis_binary();
    command.arg("generate").arg(folder.path("made"));
    assert_eq!(run(command).code, Some(0));
    let made = |file: &str| read_to_string(folder.path("made").join(file)).expect(file);
    assert!(made("man/shardis-proxy.1").contains("tag\\-rule"));
    assert!(made("man/shardis.1").contains("shardis\\-ring(1)"));
    for file in ["shardis.bash", "_shardis", "shardis.fish"] {
        assert!(made(&format!("completions/{file}")).contains("tag-rule"), "{file}");
    }
}
