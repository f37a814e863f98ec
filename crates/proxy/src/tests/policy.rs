//! Transcripts of clients whose listener has a policy. `|` stands for CR LF.

use crate::testing::{Rig, registry};
use crate::{Access, ConnId, Limits, Names, Policies, Policy, Reloaded, Settings, adopt_settings};
use users::Commands;

/// The listener with a policy. Clients of a rig come by listener 0.
const RULED: u16 = 0;

const GET: &str = "*2|$3|get|$1|a|";

fn policy() -> Policy {
    Policy { listener: "a:1".to_owned(), ..Policy::default() }
}

fn denying(rules: &[&str]) -> Policy {
    let commands = Commands::by_rules(rules.iter().copied()).expect("the rules are valid");
    Policy { commands: Some(commands), ..policy() }
}

fn naming(pairs: &[(&str, &str)]) -> Policy {
    let pairs: Vec<_> = pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
    Policy { names: Names::by_pairs(&pairs).expect("the names are valid"), ..policy() }
}

fn access(policies: Policies) -> Access {
    Access { policies, ..Access::default() }
}

/// One node, and a client of the listener with `policy`.
fn world(policy: Policy) -> (Rig, ConnId) {
    let policies = Policies::new([(RULED, policy)]);
    let mut rig =
        Rig::ready_as(1, Limits::default(), Settings { access: access(policies), ..Settings::default() });
    let client = rig.client();
    (rig, client)
}

/// Has the rig follow other policies.
fn reload(rig: &mut Rig, policies: Policies) {
    let reloaded = Reloaded {
        limits: Limits::default(),
        allow_admin: false,
        cross_shard: Settings::default().cross_shard,
        slowlog: Settings::default().slowlog,
        credentials: Settings::default().credentials,
        access: access(policies),
    };
    let now = rig.now;
    adopt_settings(&mut rig.proxy, &reloaded, now);
}

#[test]
fn denied_command_reaches_no_node() {
    let (mut rig, client) = world(denying(&["KEYS", "@dangerous", "+info"]));
    rig.client_sends(client, "keys *|flushall|get a|");
    assert_eq!(rig.node_got(0), GET);
    rig.node_sends(0, "$1|v|");
    let refused =
        |name: &str, rule: &str| format!("-NOPERM listener a:1 denies the '{name}' command (deny {rule})|");
    assert_eq!(rig.taken(client), refused("keys", "-keys") + &refused("flushall", "-@dangerous") + "$1|v|");
}

#[test]
fn listener_without_policy_is_not_affected_by_others() {
    let (mut rig, ruled) = world(denying(&["get"]));
    let free = rig.client_at(1);
    for _ in 0..2 {
        // The second time the prefix of the request is known.
        rig.client_sends(free, "*2|$3|get|$1|a|");
        assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");
        rig.node_sends(0, "$1|v|");
        assert_eq!(rig.taken(free), "$1|v|");
        rig.client_sends(ruled, "*2|$3|get|$1|a|");
        assert_eq!(rig.taken(ruled), "-NOPERM listener a:1 denies the 'get' command (deny -get)|");
        assert_eq!(rig.node_got(0), "");
    }
}

#[test]
fn a_read_only_listener_refuses_writes_also_in_transactions() {
    let (mut rig, client) = world(Policy { read_only: true, ..policy() });
    rig.client_sends(client, "set a 1|eval x 0|multi|del a|exec|get a|");
    assert_eq!(rig.node_got(0), GET);
    let refused = "-READONLY You can't write against a read only listener (a:1).|";
    let aborted = "-EXECABORT Transaction discarded because of previous errors.|";
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.taken(client), format!("{refused}{refused}+OK|{refused}{aborted}$-1|"));
}

#[test]
fn limits_of_a_listener_refuse_a_request_as_a_whole() {
    let (mut rig, client) = world(Policy { keys_max: Some(2), value_bytes_max: Some(4), ..policy() });
    rig.client_sends(client, "mget a b c|set a 12345|mget a b|");
    assert_eq!(rig.node_got(0), "*3|$4|mget|$1|a|$1|b|");
    rig.node_sends(0, "*2|$-1|$-1|");
    let taken = rig.taken(client);
    assert!(
        taken.starts_with("-ERR listener a:1 takes at most 2 keys in a request (max-keys); this one"),
        "{taken}"
    );
    assert!(
        taken.contains("|-ERR listener a:1 takes arguments of at most 4 bytes (max-value); one has 5."),
        "{taken}"
    );
    assert!(taken.ends_with("|*2|$-1|$-1|"), "{taken}");
}

#[test]
fn nodes_see_the_names_of_redis() {
    let (mut rig, client) = world(naming(&[("GET", "fetch"), ("SET", "")]));
    for _ in 0..2 {
        rig.client_sends(client, "*2|$5|Fetch|$1|a|");
        assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");
        rig.node_sends(0, "$1|v|");
        assert_eq!(rig.taken(client), "$1|v|");
        rig.client_sends(client, "*2|$3|get|$1|a|*3|$3|SET|$1|a|$1|b|");
        assert_eq!(rig.node_got(0), "", "nodes are not asked about it either");
        assert_eq!(
            rig.taken(client),
            "-ERR unknown command 'get', with args beginning with: 'a' |-ERR unknown command 'SET', with args beginning with: 'a' 'b' |"
        );
    }
    rig.client_sends(client, "multi|fetch a|set a 1|exec|");
    assert_eq!(
        rig.taken(client),
        "+OK|+QUEUED|-ERR unknown command 'set', with args beginning with: 'a' '1' |-EXECABORT Transaction discarded because of previous errors.|"
    );
}

#[test]
fn unknown_names_say_nothing_before_the_login() {
    let settings = Settings {
        registry: registry("user default on >pw ~* &* +@all"),
        access: access(Policies::new([(RULED, naming(&[("GET", "")]))])),
        ..Settings::default()
    };
    let mut rig = Rig::ready_as(1, Limits::default(), settings);
    let client = rig.client();
    rig.client_sends(client, "get a|auth pw|get a|");
    let unknown = "-ERR unknown command 'get', with args beginning with: 'a' |";
    assert_eq!(rig.taken(client), format!("-NOAUTH Authentication required.|+OK|{unknown}"));
}

#[test]
fn policy_stays_after_login_and_reset() {
    let settings = Settings {
        registry: registry("user bob on >pw ~* &* +@all"),
        access: access(Policies::new([(RULED, denying(&["get"]))])),
        ..Settings::default()
    };
    let mut rig = Rig::ready_as(1, Limits::default(), settings);
    let client = rig.client();
    let refused = "-NOPERM listener a:1 denies the 'get' command (deny -get)|";
    rig.client_sends(client, "get a|auth bob pw|get a|reset|get a|");
    assert_eq!(rig.taken(client), format!("{refused}+OK|{refused}+RESET|{refused}"));
}

#[test]
fn reloaded_policies_hold_for_connected_clients() {
    let (mut rig, client) = world(Policy::default());
    rig.client_sends(client, "multi|get a|");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|");
    reload(&mut rig, Policies::new([(RULED, denying(&["get"]))]));
    rig.client_sends(client, "exec|get a|");
    let aborted = "-EXECABORT Transaction discarded because of previous errors.|";
    let refused = "-NOPERM listener a:1 denies the 'get' command (deny -get)|";
    assert_eq!(rig.taken(client), format!("{aborted}{refused}"));
    reload(&mut rig, Policies::default());
    rig.client_sends(client, "get a|");
    assert_eq!(rig.node_got(0), GET);
}

#[test]
fn explain_names_the_listener_that_refuses() {
    let policy = Policy { read_only: true, ..naming(&[("SET", "put"), ("GET", "")]) };
    let (mut rig, client) = world(policy);
    rig.client_sends(client, "proxy explain put a 1|proxy explain get a|");
    let taken = rig.taken(client);
    assert!(taken.contains("READONLY You can't write against a read only listener (a:1)."), "{taken}");
    assert!(taken.contains("ERR unknown command 'get'"), "{taken}");
}
