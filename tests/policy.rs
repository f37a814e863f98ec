//! Policies of listeners: each holds for its own clients, and follows a reload.

use crate::configuration::started;
use crate::harness::certificates::Directory;
use crate::harness::client::Client;
use crate::harness::poll_until;
use crate::harness::processes::{free_ports, run, shardis_binary};

#[test]
fn each_listener_has_a_policy_that_follows_a_reload() {
    let (ports, directory) = (free_ports(2), Directory::new());
    let text = |deny: &str| {
        format!(
            "port = {}\nworkers = 2\nrename = {{ FLUSHALL = 'XFLUSHALL' }}\n[[listener]]\naddress = '127.0.0.1:{}'\n\
             read-only = true\nmax-keys = 2\ndeny = [{deny}]\n",
            ports[0], ports[1]
        )
    };
    let path = directory.write("shardis.toml", &text("'KEYS'"));
    let process = started(&path);
    let (mut free, mut ruled) = (Client::connect(ports[0]), Client::connect(ports[1]));
    let listener = format!("127.0.0.1:{}", ports[1]);
    assert_eq!(free.ask("SET a 1"), "+OK\\r\\n");
    assert_eq!(ruled.ask("GET a"), "$1\\r\\n1\\r\\n");
    let refused = ruled.ask("SET a 2");
    assert!(refused.starts_with("-READONLY ") && refused.contains(&format!("({listener})")), "{refused}");
    assert!(ruled.ask("MGET a b c").starts_with(&format!("-ERR listener {listener} takes at most 2 keys")));
    let denied = ruled.ask("KEYS *");
    assert!(denied.starts_with(&format!("-NOPERM listener {listener} denies")), "{denied}");
    assert!(denied.contains("(deny -keys)"), "{denied}");
    assert_eq!(free.ask("KEYS *"), "*1\\r\\n$1\\r\\na\\r\\n");
    assert!(free.ask("FLUSHALL").starts_with("-ERR unknown command "));
    assert!(ruled.ask("XFLUSHALL").starts_with("-READONLY "), "the names above hold there as well");

    directory.write("shardis.toml", &text("'GET', '-@hash'"));
    process.signal("HUP");
    poll_until("the reload", || process.output().contains("changes=\"listener\"").then_some(()));
    poll_until("the connected client has the new policy", || {
        ruled.ask("KEYS *").starts_with("*1").then_some(())
    });
    assert!(ruled.ask("GET a").contains("(deny -get)"));
    assert_eq!(free.ask("XFLUSHALL"), "+OK\\r\\n");

    let mut command = shardis_binary();
    command.args(["explain", "--read-only", "--", "SET", "a", "1"]);
    let explained = run(command);
    assert!(explained.stdout.contains("READONLY You can't write"), "{explained:?}");
    assert_eq!(explained.code, Some(1));
}
