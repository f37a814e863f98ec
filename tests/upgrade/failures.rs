//! A new process that fails leaves the old one as it was.

use super::Generations;
use crate::harness::certificates::{Directory, text};
use crate::harness::processes::{Process, run, shardis_binary};
use crate::harness::{Client, RedisServer, poll_until};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Begins an upgrade that must not succeed, and returns the line that says so.
#[track_caller]
fn expect_failure(shardis: &Generations, client: &mut Client, count: usize) -> String {
    let serving = shardis.pid();
    shardis.begin();
    let lines = shardis.expect_lines("upgrade failed", count);
    assert_eq!((shardis.pid(), client.ask("PING").as_str()), (serving, r"+PONG\r\n"));
    assert_eq!(shardis.connect().ask("SET k v"), r"+OK\r\n");
    lines[count - 1].clone()
}

#[test]
fn a_new_binary_that_fails_changes_nothing() {
    let nodes = [RedisServer::start()];
    let mut shardis = Generations::over(&nodes, &["--upgrade-timeout=2"]);
    let mut client = shardis.connect();
    let folder = Directory::new();
    let script = |name: &str, body: &str, mode: u32| {
        let path = folder.write(name, body);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("the file is ours");
        path
    };
    let cases = [
        (script("ends", "#!/bin/sh\nexit 3\n", 0o755), "exit status: 3"),
        (script("no-program", "hello\n", 0o644), "Permission denied"),
        (folder.path("nowhere").display().to_string(), "No such file"),
        (script("mute", "#!/bin/sh\nexec sleep 600\n", 0o755), "not ready within 2 s"),
        (script("babbles", "#!/bin/sh\nprintf 'abcdefgh' >&0\nexec sleep 600\n", 0o755), "the new process"),
        (script("older", "#!/bin/sh\nexec 0</dev/null\nexit 0\n", 0o755), "exit status: 0"),
    ];
    for (number, (program, reason)) in cases.iter().enumerate() {
        shardis.exchange_program(program);
        let line = expect_failure(&shardis, &mut client, number + 1);
        assert!(line.contains(reason), "{program}: {line}");
    }
    let binary = shardis_binary();
    shardis.exchange_program(binary.get_program().to_str().expect("a path"));
    let (old, _) = shardis.upgrade();
    shardis.expect_end_of(old);
    assert_eq!(client.ask("GET k"), r"$1\r\nv\r\n");
}

#[test]
fn a_faulty_configuration_stays_without_effect() {
    let nodes = [RedisServer::start(), RedisServer::start()];
    let folder = Directory::new();
    let good = format!("nodes = [\"127.0.0.1:{}\"]\nport = 0\nworkers = 1\n", nodes[0].port);
    let patience = "upgrade-timeout = 1\n";
    let path = folder.write("shardis.toml", &format!("{good}{patience}"));
    let mut shardis = Generations::start(&["proxy", &format!("--config={path}")]);
    let mut client = shardis.connect();
    folder.write("shardis.toml", &format!("{good}distribution = \"random\"\n"));
    assert!(expect_failure(&shardis, &mut client, 1).contains("exit status: 1"));
    assert!(shardis.output().contains("distribution"), "the new process says what is wrong");
    let unreachable = good.replace(&nodes[0].port.to_string(), "1");
    folder.write("shardis.toml", &format!("{unreachable}upgrade-timeout = 30\n"));
    assert!(expect_failure(&shardis, &mut client, 2).contains("not ready within 1 s"));
    // Other nodes and workers are no obstacle to an upgrade.
    let more = format!(
        "nodes = [\"127.0.0.1:{}\", \"127.0.0.1:{}\"]\nport = 0\nworkers = 2\nmaxclients = 7\n",
        nodes[0].port, nodes[1].port
    );
    folder.write("shardis.toml", &more);
    let (old, _) = shardis.upgrade();
    shardis.expect_end_of(old);
    assert_eq!(client.ask("CONFIG GET maxclients"), r"*2\r\n$10\r\nmaxclients\r\n$1\r\n7\r\n");
}

#[test]
fn keys_in_memory_refuse_an_upgrade() {
    let shardis = Generations::start(&["proxy", "--port=0", "--workers=1"]);
    let mut client = shardis.connect();
    assert_eq!(client.ask("SET k v"), r"+OK\r\n");
    shardis.begin();
    let line = &shardis.expect_lines("upgrade refused", 1)[0];
    assert!(line.contains("the keys are in the memory of this process"), "{line}");
    assert_eq!((client.ask("GET k"), shardis.all()), (r"$1\r\nv\r\n".to_owned(), Vec::new()));
}

#[test]
fn the_command_waits_for_the_new_process() {
    let nodes = [RedisServer::start()];
    let mut shardis = Generations::over(&nodes, &[]);
    let (pid_file, old) = (shardis.folder.path("pid"), shardis.pid());
    let upgrade = |words: &[&str]| {
        let mut command = shardis_binary();
        command.arg("upgrade").args(words);
        run(command)
    };
    let file = format!("--pid-file={}", text(&pid_file));
    let finished = upgrade(&[&file]);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    assert_eq!(finished.stdout, format!("process {} serves in the place of process {old}\n", shardis.pid()));
    shardis.expect_end_of(old);
    let second = shardis.pid();
    assert_eq!(upgrade(&[&format!("--pid={second}")]).code, Some(0));
    shardis.expect_end_of(second);
    poll_until("a third process", || shardis.read_pid().filter(|&pid| pid != second));
    shardis.exchange_program("/nowhere");
    let finished = upgrade(&[&file, "--timeout=1"]);
    assert!(
        finished.code == Some(1) && finished.stderr.contains("goes on, and its log says why"),
        "{finished:?}"
    );
    let mut other = Process::spawn(
        {
            let mut command = Command::new("sleep");
            command.arg("600");
            command
        },
        "sleep",
    );
    let finished = upgrade(&[&format!("--pid={}", other.pid())]);
    assert!(finished.code == Some(1) && finished.stderr.contains("does not handle SIGUSR2"), "{finished:?}");
    assert!(other.ended().is_none(), "the signal would have ended it");
    assert_eq!(upgrade(&[&format!("--pid-file={}", text(&shardis.folder.path("none")))]).code, Some(1));
}
