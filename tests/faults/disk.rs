//! A full disk: for the log, and for the files that shardis writes.

use crate::harness::processes::{Process, free_port, shardis};
use crate::harness::{Client, RedisServer, poll_until, show};
use std::path::Path;
use std::process::Command;

/// `program`, started by a shell that runs `script` before it, in which "$@" stands for it.
fn by_shell(script: &str, program: &Command) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(program.get_program()).args(program.get_args());
    command
}

#[test]
fn a_log_on_a_full_disk_stops_no_client() {
    let mut node = RedisServer::start();
    let (port, node_port) = (free_port(), node.port);
    let flags = [format!("--nodes=127.0.0.1:{node_port}"), format!("--port={port}")];
    let program = shardis(&[&flags[0], &flags[1], "--host=127.0.0.1", "--log-level=debug"]);
    let mut process = Process::spawn(by_shell("exec \"$@\" 2>/dev/full", &program), "shardis");
    let mut client = poll_until("it to listen", || Client::try_connect(port));
    poll_until("the node", || (client.ask("SET k v") == "+OK\\r\\n").then_some(()));
    // Each of these is a line.
    node.kill();
    poll_until("the loss of the node to be seen", || client.ask("GET k").starts_with('-').then_some(()));
    let _node = poll_until("the port to be free again", || RedisServer::try_start(node_port, &[]));
    for _ in 0..100 {
        let mut crossing = Client::connect(port);
        crossing.send_if_open(b"POST / HTTP/1.1\r\n\r\n");
        let (said, _) = crossing.read_to_end();
        assert!(said.is_empty(), "{}", show(&said));
    }
    poll_until("the node to be used again", || (client.ask("SET k w") == "+OK\\r\\n").then_some(()));
    process.signal("TERM");
    assert!(poll_until("its end", || process.ended()).success());
}

#[test]
fn users_that_find_no_room_leave_the_file_as_it_was() {
    let folder = std::env::temp_dir().join(format!("shardis-test-full-disk-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary directory can be written to");
    let mount = format!("mount -t tmpfs -o size=64k none {}", folder.display());
    let attempt = Command::new("unshare").args(["-m", "sh", "-c", &mount]).status();
    if !attempt.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no file system can be mounted here (unshare needs root)");
        return;
    }
    let (port, path) = (free_port(), folder.join("users.acl"));
    let flags = [format!("--port={port}"), format!("--acl-file={}", path.display())];
    let program = shardis(&[&flags[0], &flags[1], "--host=127.0.0.1"]);
    let written = "user default on nopass ~* &* +@all";
    let script = format!("{mount} && echo '{written}' > {} && exec \"$@\"", path.display());
    let inner = by_shell(&script, &program);
    let mut command = Command::new("unshare");
    command.arg("-m").arg(inner.get_program()).args(inner.get_args());
    let process = Process::spawn(command, "shardis");
    let mut client = poll_until("it to listen", || Client::try_connect(port));
    let there = Path::new("/proc").join(process.pid().to_string()).join("root");
    let file = there.join(path.strip_prefix("/").expect("the temporary directory is absolute"));
    for number in 0..40 {
        let keys = "k".repeat(4_000);
        let reply = client.command(&[
            b"ACL",
            b"SETUSER",
            format!("u{number}").as_bytes(),
            format!("~{keys}").as_bytes(),
        ]);
        assert_eq!(show(&reply), "+OK\\r\\n");
    }
    let reply = client.ask("ACL SAVE");
    assert!(reply.starts_with("-ERR There was an error trying to save the ACLs."), "{reply}");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there").trim_end(), written);
    let folder = file.parent().expect("it is in a folder");
    let files = std::fs::read_dir(folder).expect("it can be read").count();
    assert_eq!(files, 1, "what was begun is taken away");
    (0..40).for_each(|number| _ = client.ask(&format!("ACL DELUSER u{number}")));
    assert_eq!(client.ask("ACL SAVE"), "+OK\\r\\n", "there is room again");
    assert_eq!(client.ask("SET k v"), "+OK\\r\\n");
}
